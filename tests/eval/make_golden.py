#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Asks jaxlib 0.10.2 (XLA:CPU) what every op gives on inputs made by formula, and writes tests/eval/golden.txt.

One case: a line `case NAME rtol atol input-modes`, the HLO text, then one `out HEX` line a result array.
Modes, one letter a parameter: `f` edge values then pseudo-random ones, `s` small values, `i` indices from -2 to 8, `u` u64 states,
`g` (complex) all pairs of edge values.
The same formulas stand in test_golden.c.
"""
import os
import re
import sys

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import jax
import ml_dtypes
import numpy as np
from jaxlib import _hlo, _jax

jax.config.update("jax_enable_x64", True)
CLIENT = jax.devices("cpu")[0].client
FLOATS = ["f16", "bf16", "f32", "f64"]
INTEGERS = ["s8", "s16", "s32", "s64", "u8", "u16", "u32", "u64"]
NARROW = ["s4", "u4", "s2", "u2"]
COMPLEX = ["c64", "c128"]
F8 = ["f8e5m2", "f8e4m3fn", "f8e4m3", "f8e3m4", "f8e4m3b11fnuz", "f8e5m2fnuz", "f8e4m3fnuz"]
DTYPES = {"pred": np.bool_, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64,
          "c64": np.complex64, "c128": np.complex128}
DTYPES.update({t: np.dtype(t.replace("s", "int").replace("u", "uint")) for t in INTEGERS})
DTYPES.update({t: getattr(ml_dtypes, t.replace("s", "int").replace("u", "uint")) for t in NARROW})
DTYPES.update({t: getattr(ml_dtypes, "float8_" + t[2:]) for t in F8})
# Subnormals are left out: XLA:CPU flushes them, we do not.
EDGES = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5, -0.5, 2.0, -2.0, 3e38, -3e38, 1e-7, 100.0, -100.0, 1.5, 2.5,
         -1.5, -2.5, 0.1, -0.9, 0.9, 3.14159265, 88.0, -88.0, 1e10, 7.0]
# Parts of complex numbers in mode `g`: all pairs of these.
GRID = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5, -2.0, 1e30, -1e-30]
TOLERANCE = {"f16": 1e-3, "bf16": 8e-3, "f32": 1e-6, "f64": 1e-14, "c64": 4e-6, "c128": 1e-13}
FLOOR = {"f16": 1e-7, "bf16": 1e-37, "f32": 1e-37, "f64": 1e-300, "c64": 1e-6, "c128": 1e-13}


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


def inputs(text, modes):
    entry = text[text.index("ENTRY"):]
    found = re.findall(r"= (\w+)\[([\d,]*)\](?:\{[^}]*\})? parameter\((\d+)\)", entry)
    result = [None] * len(found)
    for type_name, dims, number in found:
        number = int(number)
        result[number] = array(type_name, [int(d) for d in dims.split(",") if d], modes[number], number)
    return result


def ask_xla(text, arguments):
    module = _hlo.hlo_module_from_text(text)
    stablehlo = _jax.mlir.hlo_to_stablehlo(module.as_serialized_hlo_module_proto())
    devices = _jax.DeviceList(tuple(jax.devices()[:1]))
    program = CLIENT.compile_and_load(stablehlo, devices, _jax.CompileOptions())
    results = program.execute_sharded([jax.device_put(a) for a in arguments])
    return [np.asarray(r[0]) for r in results.disassemble_into_single_device_arrays()]


CASES = []


def case(name, text, modes, rtol=0.0, atol=0.0):
    CASES.append((name, "HloModule m\n" + text, modes, rtol, atol))


def simple(name, result, op, operands, modes, attributes="", rtol=0.0, atol=0.0, before=""):
    """ENTRY that applies `op` to parameters of these shapes."""
    lines = [f"  p{i} = {shape} parameter({i})\n" for i, shape in enumerate(operands)]
    arguments = ", ".join(f"p{i}" for i in range(len(operands)))
    text = f"{before}ENTRY e {{\n{''.join(lines)}  ROOT r = {result} {op}({arguments}){attributes}\n}}\n"
    case(name, text, modes, rtol, atol)


def scalar_computation(name, type_name, body):
    return f"{name} {{\n  x = {type_name}[] parameter(0)\n  y = {type_name}[] parameter(1)\n  ROOT z = {body}\n}}\n"


def elementwise():
    exact = ["abs", "ceil", "floor", "negate", "round-nearest-afz", "round-nearest-even", "sign", "real", "imag"]
    rounded = ["cbrt", "cosine", "erf", "exponential", "exponential-minus-one", "log", "log-plus-one", "logistic", "rsqrt",
               "sine", "sqrt", "tan", "tanh"]
    real_only = ["ceil", "floor", "round-nearest-afz", "round-nearest-even", "erf", "cbrt"]
    for op in exact + rounded:
        for t in FLOATS + COMPLEX:
            if t in COMPLEX and op in real_only:
                continue
            out = {"c64": "f32", "c128": "f64"}[t] if t in COMPLEX and op in ("abs", "real", "imag") else t
            loose = op in rounded or t in COMPLEX
            simple(f"{op}.{t}", f"{out}[64]", op, [f"{t}[64]"], "f", rtol=TOLERANCE[t] * loose, atol=FLOOR[t] * loose)
            # XLA's log-plus-one of c64 loses 1e-30 to underflow; ours does not.
            if t in COMPLEX and op not in ("real", "imag") and (op, t) != ("log-plus-one", "c64"):
                simple(f"{op}.grid.{t}", f"{out}[121]", op, [f"{t}[121]"], "g", rtol=1e-5, atol=1e-6)
    for t in FLOATS:
        simple(f"is-finite.{t}", "pred[64]", "is-finite", [f"{t}[64]"], "f")
    for op in ["abs", "negate", "not", "sign", "popcnt", "count-leading-zeros"]:
        for t in INTEGERS:
            if t[0] == "s" or op not in ("abs", "sign"):
                simple(f"{op}.{t}", f"{t}[40]", op, [f"{t}[40]"], "f")
    for op in ["add", "subtract", "multiply", "divide", "maximum", "minimum", "remainder", "power", "atan2"]:
        for t in FLOATS + COMPLEX:
            if t in COMPLEX and op in ("maximum", "minimum", "remainder"):
                continue
            loose = op in ("power", "atan2") or t in COMPLEX
            simple(f"{op}.{t}", f"{t}[96]", op, [f"{t}[96]"] * 2, "ff", rtol=TOLERANCE[t] * loose,
                   atol=max(FLOOR[t] * loose, 1e-37))
    for op in ["add", "subtract", "multiply", "divide", "maximum", "minimum", "remainder", "power", "and", "or", "xor",
               "shift-left", "shift-right-arithmetic", "shift-right-logical"]:
        for t in INTEGERS + NARROW:
            simple(f"{op}.{t}", f"{t}[96]", op, [f"{t}[96]"] * 2, "fs" if op == "power" else "ff")
            if op.startswith("shift"):
                simple(f"{op}.near.{t}", f"{t}[40]", op, [f"{t}[40]"] * 2, "fs")
    for t in F8:
        for op in ["add", "multiply", "divide", "maximum"]:
            simple(f"{op}.{t}", f"{t}[96]", op, [f"{t}[96]"] * 2, "ss")
    for t in FLOATS + INTEGERS + NARROW + ["pred"] + COMPLEX + F8[:2]:
        for direction in ["EQ", "NE", "GE", "GT", "LE", "LT"]:
            if t in COMPLEX and direction not in ("EQ", "NE"):
                continue
            simple(f"compare.{direction}.{t}", "pred[96]", "compare", [f"{t}[96]"] * 2, "ff", f", direction={direction}")
            if t in FLOATS:
                simple(f"compare.total.{direction}.{t}", "pred[96]", "compare", [f"{t}[96]"] * 2, "ff",
                       f", direction={direction}, type=TOTALORDER")
        simple(f"select.{t}", f"{t}[40]", "select", ["pred[40]"] + [f"{t}[40]"] * 2, "fff")
        if t not in COMPLEX:
            simple(f"clamp.{t}", f"{t}[96]", "clamp", [f"{t}[96]"] * 3, "fff")
            simple(f"clamp.scalar.{t}", f"{t}[40]", "clamp", [f"{t}[]", f"{t}[40]", f"{t}[]"], "sfs")
    for t in ["f32", "f64"]:
        simple(f"complex.{t}", f"{'c64' if t == 'f32' else 'c128'}[40]", "complex", [f"{t}[40]"] * 2, "ff")


def conversions():
    types = ["pred"] + NARROW[:2] + INTEGERS + FLOATS + COMPLEX + F8
    for source in types:
        for target in types:
            if source not in COMPLEX or target in COMPLEX:
                simple(f"convert.{source}.{target}", f"{target}[64]", "convert", [f"{source}[64]"], "f")
    for t in FLOATS:
        for exponent, mantissa in [(5, 10), (8, 7), (4, 3), (5, 2), (2, 1)]:
            simple(f"reduce-precision.{t}.{exponent}.{mantissa}", f"{t}[64]", "reduce-precision", [f"{t}[64]"], "f",
                   f", exponent_bits={exponent}, mantissa_bits={mantissa}")
    for source, target in [("f32[8]", "u32[8]"), ("f32[8]", "u8[8,4]"), ("u8[8,4]", "f32[8]"), ("f64[3]", "u32[3,2]"),
                           ("s4[4,2]", "u8[4]"), ("u8[4]", "s4[4,2]"), ("bf16[4]", "u16[4]")]:
        simple(f"bitcast-convert.{source}.{target}", target, "bitcast-convert", [source], "s")


def movement():
    for t in ["pred", "s8", "s16", "s32", "f16", "bf16", "f64", "c64", "c128", "s4"]:
        simple(f"broadcast.{t}", f"{t}[2,3,4,5]", "broadcast", [f"{t}[3,5]"], "f", ", dimensions={1,3}")
        simple(f"transpose.{t}", f"{t}[4,3,5]", "transpose", [f"{t}[3,5,4]"], "f", ", dimensions={2,0,1}")
        simple(f"reverse.{t}", f"{t}[3,5,4]", "reverse", [f"{t}[3,5,4]"], "f", ", dimensions={2,0}")
        simple(f"slice.{t}", f"{t}[3,4]", "slice", [f"{t}[7,9]"], "f", ", slice={[1:7:2],[2:9:2]}")
        simple(f"pad.{t}", f"{t}[8,8]", "pad", [f"{t}[4,5]", f"{t}[]"], "fs", ", padding=-1_2_1x1_-2_1")
        simple(f"concatenate.{t}", f"{t}[2,8]", "concatenate", [f"{t}[2,5]", f"{t}[2,3]"], "ff", ", dimensions={1}")
        simple(f"reshape.{t}", f"{t}[6,5]", "reshape", [f"{t}[3,10]"], "f")
        for i in ["s32", "u8", "s64"]:
            mode = "s" if i == "u8" else "i"
            simple(f"dynamic-slice.{t}.{i}", f"{t}[3,4]", "dynamic-slice", [f"{t}[7,9]", f"{i}[]", f"{i}[]"],
                   "f" + mode * 2, ", dynamic_slice_sizes={3,4}")
            simple(f"dynamic-update-slice.{t}.{i}", f"{t}[7,9]", "dynamic-update-slice",
                   [f"{t}[7,9]", f"{t}[3,4]", f"{i}[]", f"{i}[]"], "ff" + mode * 2)
        if t != "pred":
            simple(f"iota.{t}", f"{t}[3,6,2]", "iota", [], "", ", iota_dimension=1")


def reductions():
    sums = {"f32": 2e-6, "bf16": 5e-2, "f16": 1e-2, "f64": 1e-13, "c64": 4e-6}
    windows = [("size=2x3 stride=1x2 pad=1_0x0_1", "4,4"), ("size=1x8 pad=0_0x7_0", "4,8"), ("size=2x2 pad=-1_0x0_-1", "2,6"),
               ("size=2x2 stride=2x2 pad=0_1x1_1 lhs_dilate=2x1 rhs_dilate=1x2", "4,4")]
    for t in ["f32", "s32", "bf16", "f16", "f64", "u8", "c64", "pred"]:
        ops = {"c64": ["add", "multiply"], "pred": ["and", "or"]}.get(t, ["add", "maximum", "minimum", "multiply"])
        for op in ops:
            computation = scalar_computation("c", t, f"{t}[] {op}(x, y)")
            tolerance = {"rtol": sums.get(t, 0), "atol": sums.get(t, 0) * 10}
            for dims, out in [("0", "5,6"), ("1", "4,6"), ("2", "4,5"), ("0,2", "5"), ("0,1,2", "")]:
                simple(f"reduce.{op}.{t}.{dims}", f"{t}[{out}]", "reduce", [f"{t}[4,5,6]", f"{t}[]"], "ss",
                       f", dimensions={{{dims}}}, to_apply=c", before=computation, **tolerance)
            for i, (window, out) in enumerate(windows if op in ("add", "maximum") else []):
                simple(f"reduce-window.{op}.{t}.{i}", f"{t}[{out}]", "reduce-window", [f"{t}[4,8]", f"{t}[]"], "ss",
                       f", window={{{window}}}, to_apply=c", before=computation, **tolerance)
    for t in ["f32", "s32", "f64"]:
        simple(f"select-and-scatter.{t}", f"{t}[6,8]", "select-and-scatter", [f"{t}[6,8]", f"{t}[3,4]", f"{t}[]"], "sss",
               ", window={size=3x2 stride=2x2 pad=0_1x0_0}, select=s, scatter=c", rtol=1e-6,
               before=scalar_computation("s", t, "pred[] compare(x, y), direction=GE") +
               scalar_computation("c", t, f"{t}[] add(x, y)"))
    for t in ["f32", "s32", "bf16", "u8", "f64", "s64"]:
        order = ", direction=LT" + (", type=TOTALORDER" if t[0] in "fb" else "")
        for dim in [0, 1]:
            simple(f"sort.{t}.{dim}", f"{t}[9,11]", "sort", [f"{t}[9,11]"], "f", f", dimensions={{{dim}}}, to_apply=c",
                   before=scalar_computation("c", t, f"pred[] compare(x, y){order}"))
        two = (f"c {{\n  x = {t}[] parameter(0)\n  y = {t}[] parameter(1)\n  i = s32[] parameter(2)\n  j = s32[] parameter(3)\n"
               "  ROOT z = pred[] compare(x, y), direction=GT\n}\n")
        simple(f"sort.pairs.{t}", f"({t}[9,11], s32[9,11])", "sort", [f"{t}[9,11]", "s32[9,11]"], "sf",
               ", dimensions={1}, is_stable=true, to_apply=c", before=two)
    for t in ["f32", "s32", "bf16"]:
        simple(f"topk.{t}", f"({t}[4,5], s32[4,5])", "topk", [f"{t}[4,30]"], "s", ", k=5, largest=true")


def products():
    forms = [(",lhs_contracting_dims={1},rhs_contracting_dims={0}", "5,7", "7,6", "5,6"),
             (",lhs_batch_dims={0},rhs_batch_dims={1},lhs_contracting_dims={2},rhs_contracting_dims={0}", "3,4,5", "5,3,6", "3,4,6"),
             (",lhs_contracting_dims={0,2},rhs_contracting_dims={1,0}", "3,4,5", "5,3,6", "4,6"),
             (",lhs_contracting_dims={0},rhs_contracting_dims={0}", "9", "9", ""),
             (",lhs_contracting_dims={},rhs_contracting_dims={}", "3", "4", "3,4")]
    tolerances = {"f32": 1e-5, "f64": 1e-12, "bf16": 1e-2, "f16": 2e-3, "c64": 1e-5, "c128": 1e-12}
    types = [("f32", "f32"), ("f64", "f64"), ("bf16", "bf16"), ("bf16", "f32"), ("f16", "f16"), ("s32", "s32"), ("s8", "s32"),
             ("s8", "s8"), ("u8", "u32"), ("c64", "c64"), ("c128", "c128")]
    for t, out in types:
        tolerance = {"rtol": tolerances.get(out, 0), "atol": tolerances.get(out, 0) * 10}
        for i, (dims, lhs, rhs, result) in enumerate(forms):
            simple(f"dot.{t}.{out}.{i}", f"{out}[{result}]", "dot", [f"{t}[{lhs}]", f"{t}[{rhs}]"], "ss", dims, **tolerance)
    shapes = [("2,8,9,3", "3,2,3,4", "2,8,8,4", "b01f_01io->b01f", "size=3x2 pad=1_1x0_0", ""),
              ("2,8,9,3", "3,2,3,4", "2,4,4,4", "b01f_01io->b01f", "size=3x2 stride=2x2 pad=1_1x0_0", ""),
              ("2,3,8,9", "4,3,3,2", "2,4,6,16", "bf01_oi01->bf01", "size=3x2 lhs_dilate=1x2 rhs_reversal=1x0", ""),
              ("2,8,6", "3,2,6", "2,4,6", "b0f_0io->b0f", "size=3 rhs_dilate=2", ", feature_group_count=3"),
              ("4,8,3", "3,3,4", "2,7,4", "b0f_0io->b0f", "size=3 pad=1_0", ", batch_group_count=2"),
              ("2,8,9,3", "3,2,3,4", "2,5,9,4", "b01f_01io->b01f", "size=3x2 pad=-1_0x-1_2", ""),
              ("5,4,6,3,2", "2,3,2,2,3", "5,3,4,2,3", "b012f_012io->b012f", "size=2x3x2", "")]
    for t, out in types:
        if t == "u8" or (t, out) == ("s8", "s8"):
            continue
        tolerance = {"rtol": tolerances.get(out, 0) * 2, "atol": tolerances.get(out, 0) * 20}
        for i, (lhs, rhs, result, labels, window, more) in enumerate(shapes):
            simple(f"convolution.{t}.{out}.{i}", f"{out}[{result}]", "convolution", [f"{t}[{lhs}]", f"{t}[{rhs}]"], "ss",
                   f", window={{{window}}}, dim_labels={labels}{more}", **tolerance)


def indexed():
    for t in ["f32", "s8", "c64", "bf16"]:
        simple(f"gather.windows.{t}", f"{t}[6,2,1]", "gather", [f"{t}[7,6]", "s32[6,2]"], "si",
               ", offset_dims={1,2}, collapsed_slice_dims={}, start_index_map={0,1}, index_vector_dim=1, slice_sizes={2,1}")
        simple(f"gather.columns.{t}", f"{t}[3,6,2]", "gather", [f"{t}[7,6]", "s32[6,2]"], "si",
               ", offset_dims={0}, collapsed_slice_dims={1}, start_index_map={1}, index_vector_dim=2, slice_sizes={3,1}")
        simple(f"gather.batching.{t}", f"{t}[4,3,2]", "gather", [f"{t}[3,7,6]", "s32[4,3,1]"], "si",
               ", offset_dims={2}, collapsed_slice_dims={1}, start_index_map={1}, operand_batching_dims={0}, "
               "start_indices_batching_dims={1}, index_vector_dim=2, slice_sizes={1,1,2}")
        for name, body in [("add", f"{t}[] add(x, y)"), ("set", f"{t}[] copy(y)"), ("multiply", f"{t}[] multiply(x, y)")]:
            tolerance = {"rtol": {"bf16": 1e-2, "f32": 1e-6, "c64": 1e-5}.get(t, 0), "before": scalar_computation("c", t, body)}
            simple(f"scatter.windows.{name}.{t}", f"{t}[7,6]", "scatter", [f"{t}[7,6]", "s32[6,2]", f"{t}[6,2,1]"], "sis",
                   ", update_window_dims={1,2}, inserted_window_dims={}, scatter_dims_to_operand_dims={0,1}, "
                   "index_vector_dim=1, to_apply=c", **tolerance)
            simple(f"scatter.rows.{name}.{t}", f"{t}[7,6]", "scatter", [f"{t}[7,6]", "s32[6]", f"{t}[6,6]"], "sis",
                   ", update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
                   "index_vector_dim=1, to_apply=c", **tolerance)


def numeric():
    for t in ["f32", "f64"]:
        c, tol = {"f32": ("c64", 3e-5), "f64": ("c128", 1e-12)}[t]
        close = {"rtol": tol, "atol": tol * 20}
        for n in [8, 12, 7, 30]:
            simple(f"fft.{c}.{n}", f"{c}[3,{n}]", "fft", [f"{c}[3,{n}]"], "s", f", fft_type=FFT, fft_length={{{n}}}", **close)
            simple(f"ifft.{c}.{n}", f"{c}[3,{n}]", "fft", [f"{c}[3,{n}]"], "s", f", fft_type=IFFT, fft_length={{{n}}}", **close)
            simple(f"rfft.{c}.{n}", f"{c}[2,4,{n // 2 + 1}]", "fft", [f"{t}[2,4,{n}]"], "s",
                   f", fft_type=RFFT, fft_length={{4,{n}}}", **close)
            simple(f"irfft.{c}.{n}", f"{t}[2,4,{n}]", "fft", [f"{c}[2,4,{n // 2 + 1}]"], "s",
                   f", fft_type=IRFFT, fft_length={{4,{n}}}", **close)
    for t in ["f32", "f64", "c64"]:
        tol = 1e-11 if t == "f64" else 2e-4
        nine = "(9,0)" if t == "c64" else "9"
        rows = ["{" + ",".join(nine if i == j else "(0,0)" if t == "c64" else "0" for j in range(5)) + "}" for i in range(5)]
        # Unit triangles keep the answers small whatever the numbers are.
        for lower in ["true", "false"]:
            for left, b in [("true", "4,3"), ("false", "3,4")]:
                for form in ["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"]:
                    simple(f"triangular-solve.{t}.{lower}.{left}.{form}", f"{t}[{b}]", "triangular-solve",
                           [f"{t}[4,4]", f"{t}[{b}]"], "ss",
                           f", left_side={left}, lower={lower}, unit_diagonal=true, transpose_a={form}", rtol=tol, atol=tol * 50)
            case(f"cholesky.{t}.{lower}", f"""ENTRY e {{
  p0 = {t}[5,5] parameter(0)
  square = {t}[5,5] dot(p0, p0), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}
  diagonal = {t}[5,5] constant({{{",".join(rows)}}})
  sum = {t}[5,5] add(square, diagonal)
  ROOT r = {t}[5,5] cholesky({'sum' if t != 'c64' else 'diagonal'}), lower={lower}
}}
""", "s", tol, tol)
    for t in ["f32", "f64"]:
        vectors = [f"{t}[6]"] * 2
        triple = f"({t}[4,6,5], {t}[6], {t}[6])"
        simple(f"batch-norm-training.{t}", triple, "batch-norm-training", [f"{t}[4,6,5]"] + vectors, "sss",
               ", epsilon=0.001, feature_index=1", 2e-5, 2e-5)
    for algorithm in ["rng_three_fry", "rng_philox", "rng_default"]:
        for out in ["u32[5,6]", "u32[5,7]", "u64[9]", "u32[]", "u8[5]", "u16[4,3]", "u64[]", "s32[3,3]"]:
            for state in [2] if algorithm == "rng_three_fry" else [2, 3]:
                simple(f"{algorithm}.{out}.{state}", f"(u64[{state}], {out})", "rng-bit-generator", [f"u64[{state}]"], "u",
                       f", algorithm={algorithm}")


def main():
    for group in [elementwise, conversions, movement, reductions, products, indexed, numeric]:
        group()
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden.txt")
    refused = 0
    with open(path, "w", encoding="ascii") as out:
        out.write("# Written by make_golden.py from jaxlib 0.10.2 (XLA:CPU). Do not edit.\n")
        for name, text, modes, rtol, atol in CASES:
            try:
                results = ask_xla(text, inputs(text, modes))
            except Exception as error:  # XLA:CPU does not have every op
                print(f"{name}: {str(error)[:100]}", file=sys.stderr)
                refused += 1
                continue
            out.write(f"case {name} {rtol:g} {atol:g} {modes or '-'}\n{text}")
            for result in results:
                out.write(f"out {np.ascontiguousarray(result).tobytes().hex()}\n")
    print(f"{len(CASES) - refused} cases, {refused} refused by XLA")


main()
