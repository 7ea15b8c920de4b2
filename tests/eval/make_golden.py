#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Asks jaxlib 0.10.2 (XLA:CPU) what every op gives on inputs made by formula; the cases are in tests/eval/golden/.

usage: make_golden.py [--full OUT [--group NAME]]     Writes the compact set to tests/eval/golden.txt, or every case (of a group) to OUT.

One case: a line `case NAME rtol atol input-modes`, the HLO text, then one `out HEX` line a result array, device by device.
Modes, one letter a parameter: `f` edge values then pseudo-random ones, `s` small values, `i` indices from -2 to 8, `u` u64 states,
`g` (complex) all pairs of edge values.
test_golden.c has the same formulas.
"""
import os
import re
import subprocess
import sys

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"
import jax
import ml_dtypes
import numpy as np
from golden import arrays, collectives, control, details, elementwise, products, reductions
from golden.common import CASES, COMPLEX, F8, INTEGERS, NARROW
from jaxlib import _hlo, _jax

jax.config.update("jax_enable_x64", True)
CLIENT = jax.devices("cpu")[0].client
DTYPES = {"pred": np.bool_, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64,
          "c64": np.complex64, "c128": np.complex128}
DTYPES.update({t: np.dtype(t.replace("s", "int").replace("u", "uint")) for t in INTEGERS})
DTYPES.update({t: getattr(ml_dtypes, t.replace("s", "int").replace("u", "uint")) for t in NARROW})
DTYPES.update({t: getattr(ml_dtypes, "float8_" + t[2:]) for t in F8 + ["f8e8m0fnu"]}, f4e2m1fn=ml_dtypes.float4_e2m1fn)
# Subnormals are left out: XLA:CPU flushes them, we do not.
EDGES = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5, -0.5, 2.0, -2.0, 3e38, -3e38, 1e-7, 100.0, -100.0, 1.5, 2.5,
         -1.5, -2.5, 0.1, -0.9, 0.9, 3.14159265, 88.0, -88.0, 1e10, 7.0]
# Parts of complex numbers in mode `g`: all pairs of these.
GRID = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5, -2.0, 1e30, -1e-30]


def mix(parameter, index):
    x = (index * 0x9E3779B97F4A7C15 + (parameter + 1) * 0xBF58476D1CE4E5B9) % 2**64
    x ^= x >> 31
    x = x * 0x94D049BB133111EB % 2**64
    return x ^ (x >> 29)


def integer_edges(bits, signed):
    top = 2 ** (bits - 1)
    return [0, 1, 2, 3, top - 1, top, top + 1, 2 * top - 1, 2 * top - 2, 5, 7, 8, bits - 1, bits, bits + 1, 31]


def element(kind, mode, parameter, index):
    """A Python number for types of this kind ('float', 'pred' or (bits, signed))."""
    noise = mix(parameter, index)
    if kind == "pred":
        return noise & 1
    if mode == "i":
        return noise % 11 - 2
    if kind == "float":
        if mode == "f" and index < 64 and (index + 5 * parameter) % 32 < len(EDGES):
            return EDGES[(index + 5 * parameter) % 32]
        return ((noise % 2001) - 1000) / 256.0
    bits, signed = kind
    if mode == "s":
        return noise % 11 - 5 if signed else noise % 6
    edges = integer_edges(bits, signed)
    value = edges[(index + 3 * parameter) % 16] % 2**bits if mode == "f" and index < 32 else noise % 2**bits
    return value - 2**bits if signed and value >= 2 ** (bits - 1) else value


def array(type_name, dims, mode, parameter):
    count = int(np.prod(dims)) if dims else 1
    if type_name in COMPLEX:
        parts = [element("float", "s", parameter, i) for i in range(2 * count)]
        if mode == "g":
            parts = [GRID[i // 2 // 11 % 11 if i % 2 == 0 else i // 2 % 11] for i in range(2 * count)]
        values = np.array([complex(a, b) for a, b in zip(parts[0::2], parts[1::2])])
    else:
        kind = "pred" if type_name == "pred" else "float"
        if type_name[0] in "su":
            kind = (int(type_name[1:]), type_name[0] == "s")
        values = np.array([element(kind, mode, parameter, i) for i in range(count)],
                          dtype=np.float64 if kind == "float" else object)
        if kind not in ("pred", "float") and kind[0] < 8:
            values = values.astype(np.int8)
    with np.errstate(all="ignore"):
        return values.astype(DTYPES[type_name]).reshape(dims)


def inputs(text, modes, device):
    """Those of one device: the parameters of device d are numbered from 16 d on."""
    entry = text[text.index("ENTRY"):]
    found = re.findall(r"= (\w+)\[([\d,]*)\](?:\{[^}]*\})? parameter\((\d+)\)", entry)
    result = [None] * len(found)
    for type_name, dims, number in found:
        number = int(number)
        result[number] = array(type_name, [int(d) for d in dims.split(",") if d], modes[number], 16 * device + number)
    return result


def ask_xla(text, modes):
    """The results of the first device, then those of the second, and so on."""
    module = _hlo.hlo_module_from_text(text)
    stablehlo = _jax.mlir.hlo_to_stablehlo(module.as_serialized_hlo_module_proto())
    replicas = re.match(r"HloModule m, replica_count=(\d+)", text)
    devices = jax.devices()[:int(replicas.group(1)) if replicas else 1]
    options = _jax.CompileOptions()
    options.num_replicas = options.executable_build_options.num_replicas = len(devices)
    program = CLIENT.compile_and_load(stablehlo, _jax.DeviceList(tuple(devices)), options)
    mesh = jax.sharding.Mesh(devices, "d")
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("d"))
    arguments = []
    for parts in zip(*(inputs(text, modes, d) for d in range(len(devices)))):
        placed = [jax.device_put(part, device) for part, device in zip(parts, devices)]
        whole = (len(devices) * parts[0].shape[0], *parts[0].shape[1:]) if len(devices) > 1 else None
        arguments.append(jax.make_array_from_single_device_arrays(whole, sharding, placed) if whole else placed[0])
    results = program.execute_sharded(arguments).disassemble_into_single_device_arrays()
    return [np.asarray(r[d]) for d in range(len(devices)) for r in results]


GROUPS = [elementwise.elementwise, elementwise.conversions, arrays.movement, reductions.reductions, reductions.orders, arrays.sorts,
          products.products, arrays.indexed, products.numeric, control.control, details.details, control.scans, collectives.collectives]


def ask_range(path, cases, begin):
    """Appends the cases from `begin` on to the file. Some programs abort XLA: the file beside it says how far we came."""
    with open(path, "a", encoding="ascii") as out:
        for number in range(begin, len(cases)):
            name, text, modes, rtol, atol, _ = cases[number]
            with open(path + ".at", "w", encoding="ascii") as at:
                at.write(str(number))
            try:
                results = ask_xla(text, modes)
            except Exception as error:  # XLA:CPU does not have every op
                print(f"{name}: {str(error)[:100]}", file=sys.stderr)
                continue
            out.write(f"case {name} {rtol:g} {atol:g} {modes or '-'}\n{text}")
            for result in results:
                out.write(f"out {np.ascontiguousarray(result).tobytes().hex()}\n")
            out.flush()
    return 0


def main():
    for group in GROUPS:
        if "--group" not in sys.argv or group.__name__ in sys.argv:
            group()
    full = "--full" in sys.argv
    path = sys.argv[2] if full else os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden.txt")
    cases = [case for case in CASES if full or not case[5]]
    if "--from" in sys.argv:
        return ask_range(path, cases, int(sys.argv[-1]))
    with open(path, "w", encoding="ascii") as out:
        out.write("# Written by make_golden.py from jaxlib 0.10.2 (XLA:CPU). Do not edit.\n")
    begin = 0
    # In a process of its own, which is started again after a program has ended it.
    while begin < len(cases):
        child = subprocess.run([sys.executable, __file__, *sys.argv[1:], "--from", str(begin)], check=False)
        if child.returncode == 0:
            break
        with open(path + ".at", encoding="ascii") as at:
            stopped = int(at.read())
        if stopped < begin or child.returncode > 0:
            return child.returncode
        print(f"{cases[stopped][0]}: aborts XLA", file=sys.stderr)
        begin = stopped + 1
    os.remove(path + ".at")
    with open(path, encoding="ascii") as made:
        count = sum(line.startswith("case ") for line in made)
    print(f"{count} cases, {len(cases) - count} refused by XLA")
    return 0


sys.exit(main())
