#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs whole models (HLO dumps that are not in this repository) in the engine, optimised, in the evaluator and in XLA.

usage: run_corpus.py FOLDER [--meshlo PATH] [--only PATTERN] [--memory GIB] [--seconds S] [--evaluator S] [--xla S]
                     [--shrink 2880=288,…] [--rounds N] [--wide] [--keep FOLDER]

Every `*.hlo.xz` of FOLDER whose arguments and results fit into --memory (default 4 GiB) is run with made-up inputs on as many
virtual devices as it has partitions, as it is and after `meshlo opt`, whose results must agree. Results of one model on 1, 2, 4 and 8
devices must agree too, on what of the batch they have in common (--keep FOLDER keeps them from one call to the next). Then come the
evaluator, when it ends within --evaluator seconds (default 0: not tried; it is a hundred times slower), and XLA:CPU for programs of one
device (--xla, needs jaxlib 0.10.2), whose results must agree. --shrink replaces sizes of dimensions wherever they occur: a model of tens
of GB runs with fewer features; --rounds lets loops end after N rounds; --wide makes bf16 f32 everywhere, so that what is left of differences
is no rounding to 8 bits. What a dump left out of constants ({...}) is made up here, the same for all.
Floating inputs are drawn by name as a network's are at its beginning: variances, second moments and scales positive, weights small
enough for their fan-in. So nothing becomes NaN, and no softmax is one-hot.
Prints a line a module: seconds that processors were at work, the most memory (GB), of each comparison the largest difference and the
root mean square of all of an array, both relative to the root mean square of the array; and a last line "N passed, N failed". Programs that are too large or too slow are named and not counted.
"""
import argparse
import dataclasses
import lzma
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import zlib

import numpy as np

BYTES = {"pred": 1, "bf16": 2, "f16": 2, "c64": 8, "c128": 16}
# Largest difference and root mean square of differences, relative to the array's. Sums in another order change the last bits of f32. A
# program in bf16 rounds every operation to 8 bits, which thirty layers amplify: docs/accuracy.md has the measurements. --wide tells
# rounding from mistakes.
TOLERANCES = {False: (1e-3, 1e-4), True: (0.3, 4e-2)}
INTEGERS = {"s8": np.int8, "u8": np.uint8, "s16": np.int16, "u16": np.uint16, "s32": np.int32, "u32": np.uint32, "s64": np.int64,
            "u64": np.uint64, "pred": np.bool_}


def sizes(dims):
    return [int(d) for d in dims.split(",") if d]


def gibibytes(text):
    """Of the arguments and results of the whole program."""
    layout = re.search(r"entry_computation_layout=\{(.*)\}", text[:text.index("\n")]).group(1)
    total = 0
    for kind, dims in re.findall(r"\b([a-z]+\d+\w*|pred)\[([\d,]*)\]", layout):
        width = BYTES.get(kind) or max(1, int(re.search(r"\d+", kind).group()) // 8)
        total += width * math.prod(sizes(dims))
    return total / 2**30


def shrunk(text, replaced):
    """The program with other sizes, in shapes and in the attributes that repeat them."""
    def smaller(match):
        return re.sub(r"\d+", lambda m: replaced.get(m.group(), m.group()), match.group())
    text = re.sub(r"\b(?:[a-z]+\d+\w*|pred)\[[\d,]*\]", smaller, text)
    return re.sub(r"\b(?:slice|dynamic_slice_sizes|slice_sizes|limits|window)=\{[^}]*\}", smaller, text)


def shortened(text, rounds):
    """The program whose loops end after so many rounds: the integers that their conditions compare with are no larger."""
    def condition(match):
        return re.sub(r"(s32\[\] constant\()(\d+)", lambda m: f"{m.group(1)}{min(int(m.group(2)), rounds)}", match.group())
    for name in set(re.findall(r"\bcondition=%?([\w.-]+)", text)):
        text = re.sub(rf"^%?{re.escape(name)} .*?^}}", condition, text, count=1, flags=re.M | re.S)
    return text


def made_up(match):
    kind, dims = match.group(1), sizes(match.group(2))
    values = np.random.default_rng(len(dims)).integers(0, 3, dims) if kind[0] in "su" else np.random.default_rng(1).uniform(-1, 1, dims)
    return match.group().replace("...", str(values.tolist()).replace("[", "{").replace("]", "}")[1:-1])


def filled(text):
    """With numbers in place of {...}: small ones for integers, which are indices."""
    return re.sub(r"\b([a-z]+\d+\w*)\[([\d,]*)\]\S* constant\(\{\.\.\.\}\)", made_up, text)


COLLECTIONS = ("", "params", "variables", "batch_stats", "bstats")  # of variables: what they are called differs
POSITIVE = re.compile(r"(^|_)(var|nu|scale)(_|$|\.)")


def fan_in(dims):
    """Of a weight: products over all but the features that it makes; projections to heads keep the first dimension only."""
    return dims[0] if len(dims) == 3 and dims[0] >= dims[-1] else math.prod(dims[:-1])


def parameters(text):
    """(number, type, dims, name that it has on any number of devices) of the entry's parameters, in order."""
    pattern = re.compile(r"^\s+(?:ROOT )?%?(\S+) = ([a-z]+\d*)\[([\d,]*)\]\S* parameter\((\d+)\)", re.M)
    found = sorted((int(n), kind, sizes(dims), name) for name, kind, dims, n in pattern.findall(text[text.index("\nENTRY"):]))
    others = 0
    for number, kind, dims, name in found:
        if "__" in name:
            name = "/".join(p for p in re.split("__+", name.rsplit(".", 1)[0]) if p not in COLLECTIONS)
        else:
            name, others = f"{others} of the arguments", others + 1
        yield number, kind, dims, name


def draw(kind, dims, name):
    random = np.random.default_rng(zlib.crc32(name.encode()))
    if kind in INTEGERS:
        return random.integers(0, 2 if kind == "pred" else 16, dims).astype(INTEGERS[kind])
    if POSITIVE.search(name.replace("/", "_")):
        values = random.uniform(0.5, 1.5, dims)
    elif "of the arguments" in name:
        values = random.standard_normal(dims)
    else:
        values = random.standard_normal(dims) * (0.1 if len(dims) < 2 else fan_in(dims)**-0.5)
    values = np.asarray(values, np.float32)
    if kind == "bf16":  # cut, not rounded: they are made up anyway
        values = (values.view(np.uint32) >> 16).astype(np.uint16).view("V2")
    return values


def measured(command, seconds, **more):
    """(exit code or None after a timeout, seconds of processors, peak GB, output, errors): other programs do not count."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = subprocess.Popen([str(word) for word in command], stdout=out, stderr=err, **more)
        timer = threading.Timer(seconds, child.kill)
        timer.start()
        _, status, used = os.wait4(child.pid, 0)
        late = not timer.is_alive()
        timer.cancel()
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        return None if late else child.returncode, used.ru_utime + used.ru_stime, used.ru_maxrss / 2**20, out.read(), err.read().decode()


XLA = """
import pickle, sys, time
import jax, numpy as np
from jaxlib import _hlo, _jax
text, inputs, results = sys.argv[1:]
client = jax.devices("cpu")[0].client
proto = _hlo.hlo_module_from_text(open(text).read()).as_serialized_hlo_module_proto()
arrays = np.load(inputs)
arguments = [arrays[f"arr_{i}"] for i in range(len(arrays.files))]
arguments = [jax.device_put(a.view(jax.numpy.bfloat16) if a.dtype.kind == "V" else a) for a in arguments]
started = time.process_time()
program = client.compile_and_load(_jax.mlir.hlo_to_stablehlo(proto), _jax.DeviceList(tuple(jax.devices()[:1])), _jax.CompileOptions())
compiled = time.process_time()
got = [np.asarray(r[0]) for r in program.execute_sharded(arguments).disassemble_into_single_device_arrays()]
print(compiled - started, time.process_time() - compiled)
for i, array in enumerate(got):
    np.save(f"{results}/{i}.npy", array.view(np.uint16).view("V2") if array.dtype == jax.numpy.bfloat16 else array)
"""


@dataclasses.dataclass
class Problem(Exception):
    text: str
    failed: bool = True


class Model:
    """One module with its inputs, in a folder of its own."""

    def __init__(self, arguments, text, folder):
        self.arguments, self.folder, self.inputs, self.program = arguments, folder, folder / "in.npz", folder / "program.hlo"
        self.program.write_text(text)
        self.narrow = "bf16[" in text
        partitions = re.search(r"num_partitions=(\d+)", text[:text.index("\n")])
        self.devices = int(partitions.group(1)) if partitions else 1
        np.savez(self.inputs, **{f"arr_{number}": draw(kind, dims, name) for number, kind, dims, name in parameters(text)})

    def run(self, what, seconds, program, *more):
        """(seconds, GB, the folder of results)"""
        results = self.folder / what
        code, used, memory, _, errors = measured(
            [self.arguments.meshlo, "run", program, "--on", f"cpu:{self.devices}", "--output", results, "--input", self.inputs, *more], seconds)
        if code is None:
            raise Problem(f"{what}: more than {seconds:g} s", False)
        if code:
            raise Problem(f"{what}: FAILED: {errors.strip()[-300:]}")
        return used, memory, results

    def xla(self, seconds):
        """(seconds to compile, to run, GB, the folder of results)"""
        results = self.folder / "xla"
        results.mkdir()
        environment = os.environ | {"JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "3"}
        code, _, memory, out, errors = measured([sys.executable, "-c", XLA, self.program, self.inputs, results], seconds, env=environment)
        if code is None:
            raise Problem(f"XLA: more than {seconds:g} s", False)
        if code:
            raise Problem(f"XLA: {(errors.strip() or f'exit code {code}')[-300:]}", False)
        return *(float(word) for word in out.split()), memory, results


def load(path):
    array = np.load(path)
    if array.dtype.kind == "V" and array.dtype.itemsize == 2:  # bfloat16
        array = (array.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    return array


def difference(one, two, narrow):
    """The largest and the typical one between two folders of results, relative to an array's root mean square; a Problem where it is too large."""
    worst = usual = 0.0
    for path in sorted(one.glob("*.npy")):
        a, b = load(path), load(two / path.name)
        if a.shape != b.shape:  # a batch of another size
            rows = min(a.shape[0], b.shape[0])
            a, b = a[:rows], b[:rows]
        if a.dtype.kind in "iubV":
            if not np.array_equal(a, b):
                raise Problem(f"FAILED: result {path.stem}: {np.mean(a != b):.2%} of the integers differ")
            continue
        a, b = a.astype(np.float64), b.astype(np.float64)
        finite = np.isfinite(a)
        scale = np.sqrt(np.mean(np.square(a[finite]))) if finite.any() else 0
        if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
            raise Problem(f"FAILED: result {path.stem}: infinities and NaN in other places")
        if finite.any():
            most, typical = np.max(np.abs(a[finite] - b[finite])), np.sqrt(np.mean(np.square(a[finite] - b[finite])))
            if not (most <= TOLERANCES[narrow][0] * scale and typical <= TOLERANCES[narrow][1] * scale):
                raise Problem(f"FAILED: result {path.stem}: {most:.3g}, typically {typical:.3g}, where the root mean square is {scale:.3g}")
            worst, usual = max(worst, most / scale if most else 0), max(usual, typical / scale if most else 0)
    return f"{worst:.1e} ({usual:.1e})" if worst else "equal"


def says_nothing(folder):
    """Whether every result is NaN all over: made-up variances are negative now and then."""
    arrays = [load(path) for path in folder.glob("*.npy")]
    return all(a.dtype.kind not in "iubV" and np.isnan(a).all() for a in arrays)


def keep(arguments, path, plain, narrow):
    """Compares with the results that the same model had on another number of devices, or keeps these."""
    if not arguments.keep:
        return ""
    other = arguments.keep / re.sub(r"\.\d+part.*", "", path.name)
    if other.exists():
        return f", other number of devices {difference(other, plain, narrow)}"
    shutil.copytree(plain, other)
    return ""


def check(arguments, path, text):
    """Yields what there is to say, piece by piece; raises a Problem."""
    with tempfile.TemporaryDirectory(dir=arguments.temporary) as temporary:
        model = Model(arguments, text, pathlib.Path(temporary))
        seconds, memory, plain = model.run("run", arguments.seconds, model.program)
        yield f"run {seconds:.1f} s {memory:.1f} GB"
        if says_nothing(plain):
            raise Problem("not counted: all results are NaN with made-up inputs", False)
        optimised = model.folder / "optimised.hlo"
        code, passes, _, _, errors = measured([arguments.meshlo, "opt", model.program, "-o", optimised], arguments.seconds)
        if code:
            raise Problem("opt: FAILED: " + errors.strip()[-300:])
        seconds, _, results = model.run("optimised", arguments.seconds, optimised)
        yield f", opt {passes:.1f} s, optimised {seconds:.1f} s {difference(plain, results, model.narrow)}"
        yield keep(arguments, path, plain, model.narrow)
        if arguments.xla and model.devices == 1:
            compiled, seconds, memory, results = model.xla(arguments.xla)
            yield f", XLA {compiled:.1f} + {seconds:.1f} s {memory:.1f} GB"
            yield f" {difference(results, plain, model.narrow)}"
        if arguments.evaluator:
            seconds, memory, results = model.run("evaluator", arguments.evaluator, model.program, "--engine", "eval")
            yield f", evaluator {seconds:.0f} s {memory:.1f} GB"
            yield f" {difference(results, plain, model.narrow)}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--meshlo", default=pathlib.Path(__file__).resolve().parents[2] / "build/release/bin/meshlo")
    parser.add_argument("--only", default="")
    parser.add_argument("--memory", type=float, default=4)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--evaluator", type=float, default=0)
    parser.add_argument("--xla", type=float, default=0)
    parser.add_argument("--shrink", default="")
    parser.add_argument("--rounds", type=int, default=0)
    parser.add_argument("--wide", action="store_true")
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--temporary", help="where programs, inputs and results go while they are compared")
    arguments = parser.parse_args()
    replaced = dict(pair.split("=") for pair in arguments.shrink.split(",") if pair)
    passed = failed = 0
    for path in sorted(arguments.folder.glob("*.hlo.xz"), key=lambda p: p.stat().st_size):
        if not re.search(arguments.only, path.name):
            continue
        with lzma.open(path, "rt") as file:
            text = filled(shrunk(file.read(), replaced))
        if arguments.rounds:
            text = shortened(text, arguments.rounds)
        if arguments.wide:
            text = re.sub(r"\bbf16\[", "f32[", text)
        needed = gibibytes(text)
        if needed > arguments.memory:
            print(f"{path.name}: not run, its arguments and results take {needed:.1f} GiB", flush=True)
            continue
        print(f"{path.name}: ", end="")
        try:
            for piece in check(arguments, path, text):
                print(piece, end="", flush=True)
            passed += 1
        except Problem as problem:
            print(f"; {problem.text}", end="")
            failed += problem.failed
        print(flush=True)
    print(f"{passed} passed, {failed} failed")
    return failed > 0


sys.exit(main())
