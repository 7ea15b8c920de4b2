#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ninety-six JAX programs of every kind, each in three forms and on both engines, against JAX's own results.

usage: sweep.py [--meshlo PATH] [--only PATTERN] [--keep FOLDER]     needs JAX 0.10.2

Each function of sweep_programs.py and sweep_library.py is lowered to HLO text, StableHLO text and portable bytecode. `meshlo run` takes every one of
them with the inputs that JAX had (sharded programs on eight virtual devices), writes its results, and compares the compiled
engine with the evaluator; the results are compared with JAX's. Prints what differs and a last line "N passed, N failed".
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=8"
import jax
import numpy as np
from jaxlib import _jax

jax.config.update("jax_enable_x64", True)
import sweep_library  # noqa: E402, F401  (adds its programs to those of sweep_programs)
import sweep_programs  # noqa: E402  (makes arrays, so after the configuration)

DEVICES = 8


def doors(lowered, folder):
    """(name, path) of the program in each format."""
    module = lowered.compiler_ir("stablehlo")
    text = str(module)
    texts = {"hlo": lowered.as_text("hlo"), "stablehlo": text}
    for name, content in texts.items():
        (folder / f"program.{name}").write_text(content)
    (folder / "program.bytecode").write_bytes(_jax.mlir.serialize_portable_artifact(text, "1.13.7"))
    return [(name, folder / f"program.{name}") for name in ("hlo", "stablehlo", "bytecode")]


def tolerance(dtype):
    """(relative, absolute) by element type: sums are taken in another order than XLA's."""
    dtype = np.dtype(dtype)
    if dtype.kind in "iub":
        return 0, 0
    if dtype in (np.float64, np.complex128):
        return 1e-9, 1e-11
    if dtype in (np.float32, np.complex64):
        return 2e-4, 2e-5
    if dtype == np.float16:
        return 4e-3, 4e-3
    return 4e-2, 4e-2  # bfloat16 and narrower


def differs(mine, theirs):
    """Returns the error of one result, or None."""
    if mine.shape != theirs.shape:
        return f"shape {mine.shape}, JAX {theirs.shape}"
    if mine.dtype != theirs.dtype:
        if mine.dtype.itemsize != theirs.dtype.itemsize:
            return f"type {mine.dtype}, JAX {theirs.dtype}"
        mine = mine.view(theirs.dtype)
    rtol, atol = tolerance(theirs.dtype)
    if rtol == 0:
        return None if np.array_equal(mine, theirs) else f"{np.sum(mine != theirs)} of {mine.size} integers differ"
    wide = np.complex128 if np.dtype(theirs.dtype).kind == "c" else np.float64
    x, y = mine.astype(wide), theirs.astype(wide)
    if np.allclose(x, y, rtol, atol * max(1, np.nanmax(np.abs(y[np.isfinite(y)]), initial=0)), equal_nan=True):
        return None
    with np.errstate(all="ignore"):
        return f"largest difference {np.nanmax(np.abs(x - y))} where values reach {np.nanmax(np.abs(y))}"


def run(meshlo, path, inputs, folder, sharded):
    """(results, message): of `meshlo run --compare eval` on this file."""
    output = folder / "out"
    output.mkdir(exist_ok=True)
    command = [meshlo, "run", path, "--compare", "eval", "--output", output]
    if sharded:
        command += ["--on", f"cpu:{DEVICES}"]
    for i in range(len(inputs)):
        command += ["--input", f"p{i}={folder}/in{i}.npy"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        return None, (done.stderr or done.stdout).strip()[-300:]
    paths = sorted(output.glob("*.npy"), key=lambda p: int(p.stem))
    return [np.load(p) for p in paths], ""


def check(meshlo, name, program, folder):
    """The failures of one program, as lines."""
    function, inputs = program[0], program[1]
    sharded = len(program) > 2 and program[2]
    lowered = jax.jit(function, keep_unused=True).lower(*inputs)
    expected = [np.asarray(x) for x in jax.tree.leaves(jax.jit(function, keep_unused=True)(*inputs))]
    flat = jax.tree.leaves(inputs)
    for i, value in enumerate(flat):
        np.save(folder / f"in{i}.npy", np.asarray(value))
    failures = []
    for door, path in doors(lowered, folder):
        results, message = run(meshlo, path, flat, folder, sharded)
        if results is None:
            failures.append(f"{name} as {door}: {message}")
            continue
        if len(results) != len(expected):
            failures.append(f"{name} as {door}: {len(results)} results, JAX has {len(expected)}")
        for i, (mine, theirs) in enumerate(zip(results, expected)):
            wrong = differs(mine, theirs)
            if wrong:
                failures.append(f"{name} as {door}: result {i}: {wrong}")
    return failures


def main():
    parser = argparse.ArgumentParser()
    root = pathlib.Path(__file__).resolve().parents[2]
    parser.add_argument("--meshlo", default=root / "build/release/bin/meshlo")
    parser.add_argument("--only", default="")
    parser.add_argument("--keep", type=pathlib.Path)
    arguments = parser.parse_args()
    passed = failed = 0
    for name, program in sweep_programs.PROGRAMS.items():
        if not re.search(arguments.only, name):
            continue
        with tempfile.TemporaryDirectory() as temporary:
            folder = arguments.keep / name if arguments.keep else pathlib.Path(temporary)
            folder.mkdir(parents=True, exist_ok=True)
            failures = check(arguments.meshlo, name, program, folder)
        for line in failures:
            print(line, file=sys.stderr, flush=True)
        passed += not failures
        failed += bool(failures)
    print(f"{passed} passed, {failed} failed")
    return failed > 0


sys.exit(main())
