#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs whole models (HLO dumps that are not in this repository): engine, engine on the optimised program, evaluator.

usage: run_corpus.py FOLDER [--meshlo PATH] [--only PATTERN] [--memory GIB] [--seconds S] [--evaluator S]

Every `*.hlo.xz` of FOLDER whose arguments and results fit into --memory (default 4 GiB) is run with made-up inputs on as many
virtual devices as it has partitions, as it stands and after `meshlo opt`, whose results must agree; then by the evaluator, whose
results must agree too, when that ends within --evaluator seconds (default 0: not tried; the evaluator is a hundred times slower).
The inputs are those of `meshlo run`, but for floating parameters, which are drawn as a network's are at its beginning: variances,
second moments and scales positive, weights small enough for their fan-in. So nothing becomes NaN, and no softmax is one-hot.
Prints a line a module with the seconds that processors were at work, and a last line "N passed, N failed"; what was too large or too slow is said and counted
nowhere.
"""
import argparse
import lzma
import math
import pathlib
import re
import resource
import subprocess
import sys
import tempfile
import time

import numpy as np

BYTES = {"pred": 1, "bf16": 2, "f16": 2, "c64": 8, "c128": 16}


def gibibytes(text):
    """Of the arguments and results of the whole program."""
    layout = re.search(r"entry_computation_layout=\{(.*)\}", text[:text.index("\n")]).group(1)
    total = 0
    for kind, dims in re.findall(r"\b([a-z]+\d+\w*|pred)\[([\d,]*)\]", layout):
        width = BYTES.get(kind) or max(1, int(re.search(r"\d+", kind).group()) // 8)
        total += width * math.prod(int(d) for d in dims.split(",") if d)
    return total / 2**30


POSITIVE = re.compile(r"(^|_)(var|nu|scale)(_|$|\.)")


def fan_in(dims):
    """Of a weight: products over all but the features that it makes; projections to heads keep the first dimension only."""
    return dims[0] if len(dims) == 3 and dims[0] >= dims[-1] else math.prod(dims[:-1])


def draw(random, name, dims):
    if POSITIVE.search(name):
        return random.uniform(0.5, 1.5, dims)
    return random.standard_normal(dims) * (0.1 if len(dims) < 2 else fan_in(dims)**-0.5)


def write_inputs(text, path):
    """The floating parameters of the entry as members of an .npz: arr_5 is input 5."""
    random, members = np.random.default_rng(0), {}
    parameter = re.compile(r"^\s+(?:ROOT )?%?(\S+) = (f32|bf16)\[([\d,]*)\]\S* parameter\((\d+)\)", re.M)
    for name, kind, dims, number in parameter.findall(text[text.index("\nENTRY"):]):
        values = np.asarray(draw(random, name, [int(d) for d in dims.split(",") if d]), np.float32)
        if kind == "bf16":  # cut, not rounded: they are made up anyway
            values = (values.view(np.uint32) >> 16).astype(np.uint16).view("V2")
        members[f"arr_{number}"] = values
    np.savez(path, **members)


def run(meshlo, path, devices, seconds, *more):
    """(seconds of processors, None) or (None, what went wrong): other programs on the machine do not count."""
    command = [meshlo, "run", path, "--on", f"cpu:{devices}", *more]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return None, f"took more than {seconds} s"
    if done.returncode:
        return None, "FAILED: " + done.stderr.strip()[-300:]
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, None


def load(path):
    array = np.load(path)
    if array.dtype.kind == "V" and array.dtype.itemsize == 2:  # bfloat16
        array = (array.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    return array


def disagreement(one, two):
    """What differs between two folders of results, or None. Optimised programs add in another order."""
    for path in sorted(one.glob("*.npy")):
        a, b = load(path), load(two / path.name)
        if a.dtype.kind in "iubV":
            if not np.array_equal(a, b):
                return f"result {path.stem}: {np.mean(a != b):.2%} of the integers"
            continue
        a, b = a.astype(np.float64), b.astype(np.float64)
        scale = np.sqrt(np.mean(np.square(a[np.isfinite(a)]))) if np.isfinite(a).any() else 1
        if not np.array_equal(np.isnan(a), np.isnan(b)) or not np.allclose(a, b, 2e-2, 2e-2 * scale, equal_nan=True):
            return f"result {path.stem}: {np.nanmax(np.abs(a - b)):.3g} where the root mean square is {scale:.3g}"
    return None


def says_nothing(folder):
    """Whether every result is NaN all over: made-up variances are negative now and then."""
    arrays = [load(path) for path in folder.glob("*.npy")]
    return all(a.dtype.kind not in "iubV" and np.isnan(a).all() for a in arrays)


def check(arguments, path, text, devices):
    """(what to print, whether it failed)."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        plain, optimised, program, inputs = (folder / name for name in ("plain", "optimised", "optimised.hlo", "in.npz"))
        write_inputs(text, inputs)
        inputs = ["--input", inputs]
        first, problem = run(arguments.meshlo, path, devices, arguments.seconds, "--output", plain, *inputs)
        if problem:
            return problem, problem.startswith("FAILED")
        started = time.monotonic()
        done = subprocess.run([arguments.meshlo, "opt", path, "-o", program], capture_output=True, text=True)
        passes = time.monotonic() - started
        if done.returncode:
            return "FAILED: opt: " + done.stderr.strip()[-300:], True
        second, problem = run(arguments.meshlo, program, devices, arguments.seconds, "--output", optimised, *inputs)
        if problem:
            return "optimised: " + problem, problem.startswith("FAILED")
        line = f"run {first:.1f} s, opt {passes:.1f} s, optimised run {second:.1f} s"
        if says_nothing(plain):
            return f"counted nowhere, all results are NaN with made-up inputs ({line})", False
        wrong = disagreement(plain, optimised)
        if wrong:
            return f"FAILED: {line}; the optimised program differs: {wrong}", True
        if not arguments.evaluator:
            return line, False
        evaluated = folder / "evaluated"
        third, problem = run(arguments.meshlo, path, devices, arguments.evaluator, "--engine", "eval", "--output", evaluated, *inputs)
        if problem:
            return f"{line}, evaluator: {problem}", problem.startswith("FAILED")
        wrong = disagreement(evaluated, plain)
        return f"{line}, evaluator {third:.0f} s" + (f"; FAILED: differs: {wrong}" if wrong else ""), bool(wrong)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--meshlo", default=pathlib.Path(__file__).resolve().parents[2] / "build/release/bin/meshlo")
    parser.add_argument("--only", default="")
    parser.add_argument("--memory", type=float, default=4)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--evaluator", type=float, default=0)
    arguments = parser.parse_args()
    passed = failed = 0
    for path in sorted(arguments.folder.glob("*.hlo.xz"), key=lambda p: p.stat().st_size):
        if not re.search(arguments.only, path.name):
            continue
        with lzma.open(path, "rt") as file:
            text = file.read()
        needed = gibibytes(text)
        if needed > arguments.memory:
            print(f"{path.name}: not run, its arguments and results take {needed:.1f} GiB", flush=True)
            continue
        partitions = re.search(r"num_partitions=(\d+)", text[:text.index("\n")])
        line, bad = check(arguments, path, text, partitions.group(1) if partitions else "1")
        print(f"{path.name}: {line}", flush=True)
        passed += not bad and line.startswith("run")
        failed += bad
    print(f"{passed} passed, {failed} failed")
    return failed > 0


sys.exit(main())
