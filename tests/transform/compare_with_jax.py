#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares `meshlo grad` with jax.value_and_grad and jax.jvp, and `meshlo vmap` with jax.vmap.

usage: compare_with_jax.py MESHLO [PATTERN [MODE,…]]

Each function of the lists beside this file (functions.py, library.py, …) is lowered by JAX; the derivative of
that program, made by MESHLO and run by it, must have the numbers that JAX's derivative of the function has (f64 to
1e-12, f32 to 1e-5 of the largest element). All of them take some 40 minutes: PATTERN selects by name. Multiply-adds of
the gradient's dots are counted in both programs, and must not be more than JAX's; those of convolutions are not
counted. vmap maps the first argument alone, then all. Prints a line for each function that fails, and a last line
"N passed, N failed".
"""
import itertools
import os
import re
import subprocess
import sys
import tempfile
import warnings

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
import jax

jax.config.update("jax_enable_x64", True)
import jax.numpy as jnp
import numpy as np

import composed
import functions
import further
import library
import rules
import sharded

warnings.filterwarnings("ignore")
MESHLO = os.path.abspath(sys.argv[1])
# Of the largest element. 16-bit results may differ by a rounding of the last of a few terms.
TOLERANCES = {"float64": 1e-12, "complex128": 1e-12, "float16": 4e-3, "bfloat16": 3e-2}


def run(*arguments):
    done = subprocess.run([MESHLO, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(" ".join(arguments[:1]) + ": " + done.stderr.strip()[:400])


def continuous(x):
    return jnp.issubdtype(jnp.asarray(x).dtype, jnp.inexact)


def scalar(function):
    """The function's results, each element with a weight of its own, summed to one real number."""
    def loss(*arguments):
        total = None
        for leaf in jax.tree.leaves(function(*arguments)):
            if continuous(leaf):
                weights = jnp.cos(jnp.arange(leaf.size)).reshape(leaf.shape).astype(jnp.real(leaf).dtype)
                term = jnp.sum(jnp.real(leaf) * weights)
                if jnp.iscomplexobj(leaf):
                    term = term + jnp.sum(jnp.imag(leaf) * (1 - weights))
                total = term if total is None else total + term
        return total
    return loss


def computations(text):
    """The lines of each computation of an HLO text, by name, and the name of the entry."""
    lines, entry, name = {}, None, None
    for line in text.splitlines():
        header = re.match(r"(ENTRY )?%?([\w.\-]+) .*{$", line)
        if header and not line.startswith(("HloModule", " ")):
            name = header[2]
            lines[name] = []
            entry = name if header[1] else entry
        elif name:
            lines[name].append(line)
    return lines, entry


def multiply_adds(text):
    """Of the dots of an HLO text: a computation counts once for each place that calls it, so loops count once."""
    lines, entry = computations(text)
    totals = {}

    def total(computation):
        if computation not in totals:
            totals[computation] = sum(map(of_line, itertools.repeat(shapes(lines[computation])), lines[computation]))
        return totals[computation]

    def shapes(body):
        found = (re.match(r"\s*(?:ROOT )?%?([\w.\-]+) = \w+\[([\d,]*)\]", line) for line in body)
        return {match[1]: [int(d) for d in match[2].split(",") if d] for match in found if match}

    def of_line(known, line):
        called = re.findall(r"(?:to_apply|calls|body|condition|true_computation|false_computation)=%?([\w.\-]+)", line)
        for branches in re.findall(r"branch_computations={([^}]*)}", line):
            called += [branch.strip().lstrip("%") for branch in branches.split(",")]
        found = re.match(r"\s*(?:ROOT )?%?([\w.\-]+) = \S+ dot\((?:\S+\[[^\]]*\]\S* )?%?([\w.\-]+)", line)
        own = 0
        if found:
            summed = re.search(r"lhs_contracting_dims={([\d,]*)}", line)
            contracted = [known[found[2]][int(d)] for d in summed[1].split(",") if d] if summed else []
            own = int(np.prod([*known[found[1]], *contracted], dtype=np.int64))
        return own + sum(total(name) for name in called)

    return total(entry)


def transformed(folder, text, name, command, inputs):
    program, derived, results = (os.path.join(folder, name) for name in ("f.mlir", "d.hlo", name))
    arrays = os.path.join(folder, "inputs.npz")
    with open(program, "wb") as file:
        file.write(text.encode() if isinstance(text, str) else text)
    np.savez(arrays, *inputs)
    run(command[0], program, *command[1:], "-o", derived)
    run("run", derived, "--input", arrays, "--output", results)
    count = len([name for name in os.listdir(results) if name.endswith(".npy")])
    with open(derived, encoding="utf-8") as file:
        return [np.load(os.path.join(results, f"{i}.npy")) for i in range(count)], file.read()


def derive(folder, text, mode, wrt, inputs):
    return transformed(folder, text, mode, ["grad", "--mode", mode, "--wrt", ",".join(map(str, wrt))], inputs)


def check_mapped(folder, function, arguments, name, axes):
    """Three items, which differ, along an axis of each argument that `axes` has one for."""
    def stacked(x, axis):
        x = np.asarray(x)
        items = [x, x * 0.9, x * 1.05] if continuous(x) else [x, x, np.flip(x)]
        return x if axis is None else np.stack([np.asarray(item, x.dtype) for item in items], axis)
    inputs = [stacked(x, axis) for x, axis in zip(arguments, axes)]
    wanted = jax.tree.leaves(jax.vmap(function, in_axes=tuple(axes))(*inputs))
    text = jax.jit(function, keep_unused=True).lower(*arguments).as_text()
    command = ["vmap", "--size", "3", "--axes", ",".join("-" if axis is None else str(axis) for axis in axes)]
    got, _ = transformed(folder, text, name, command, inputs)
    compare(name, got, wanted, text)


def compare(what, got, wanted, text=""):
    if len(got) != len(wanted):
        raise AssertionError(f"{what}: {len(got)} results, not {len(wanted)}")
    for i, (a, b) in enumerate(zip(got, wanted)):
        b = np.asarray(b)
        if b.dtype == jnp.bfloat16:
            a = a.view(b.dtype)
        if a.shape != b.shape or a.dtype != b.dtype:
            raise AssertionError(f"{what} {i}: {a.dtype}{a.shape}, not {b.dtype}{b.shape}")
        # Values that pass through f32 have the accuracy of f32.
        mixed = re.search(r"xf32>|tensor<f32>", text)
        tolerance = 1e-5 if mixed and str(b.dtype) == "float64" else TOLERANCES.get(str(b.dtype), 1e-5)
        scale = max(1.0, float(np.nanmax(np.abs(np.where(np.isfinite(b), b, 0)), initial=0.0)))
        if not np.allclose(a, b, rtol=tolerance, atol=tolerance * scale, equal_nan=True):
            raise AssertionError(f"{what} {i}: {a.ravel()[:4]}, not {b.ravel()[:4]}")


def check(folder, function, arguments, modes):
    wrt = [i for i, x in enumerate(arguments) if continuous(x)]
    if "reverse" in modes:
        loss = scalar(function)
        text = jax.jit(loss, keep_unused=True).lower(*arguments).as_text()
        derivative = jax.jit(jax.value_and_grad(loss, argnums=tuple(wrt)), keep_unused=True)
        value, gradients = derivative(*arguments)
        got, program = derive(folder, text, "value-and-grad", wrt, arguments)
        compare("gradient", got, [value, *gradients], text)
        if "hlo" in modes:
            hlo = jax.jit(loss, keep_unused=True).lower(*arguments).compiler_ir("hlo").as_serialized_hlo_module_proto()
            compare("gradient of HLO", derive(folder, hlo, "value-and-grad", wrt, arguments)[0], [value, *gradients], text)
        reference = derivative.lower(*arguments).compiler_ir("hlo").as_hlo_text()
        ours, theirs = multiply_adds(program), multiply_adds(reference)
        if ours > theirs:
            raise AssertionError(f"{ours} multiply-adds, JAX {theirs}")
    if "forward" in modes:
        random = np.random.default_rng(7)
        tangents = [np.asarray(random.normal(size=np.shape(arguments[i]))).astype(np.asarray(arguments[i]).dtype) for i in wrt]
        def partial(*active):
            whole = list(arguments)
            for i, x in zip(wrt, active):
                whole[i] = x
            return function(*whole)
        values, wanted = jax.jvp(partial, [arguments[i] for i in wrt], tangents)
        text = jax.jit(function, keep_unused=True).lower(*arguments).as_text()
        got, _ = derive(folder, text, "jvp", wrt, [*arguments, *tangents])
        leaves = [jnp.asarray(x) for x in jax.tree.leaves(values)]
        active = [t for t, x in zip(jax.tree.leaves(wanted), leaves) if continuous(x)]
        compare("tangent", got, [*leaves, *active], text)
    if "vmap" in modes:
        if "leading" not in modes:  # JAX maps the function along the leading dimensions of all arguments or not at all
            check_mapped(folder, function, arguments, "first mapped", [0] + [None] * (len(arguments) - 1))
        check_mapped(folder, function, arguments, "all mapped", [0 if "leading" in modes else min(i, np.ndim(x)) for i, x in enumerate(arguments)])


def main():
    pattern = re.compile(sys.argv[2] if len(sys.argv) > 2 else "")
    wanted = (sys.argv[3] if len(sys.argv) > 3 else "reverse,forward,vmap").split(",")
    passed = failed = 0
    lists = (functions, library, sharded, composed, further, rules)
    for name, function, arguments, modes in itertools.chain.from_iterable(each.all_functions() for each in lists):
        if not pattern.search(name):
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                check(folder, function, arguments, [mode for mode in modes if mode in wanted or mode in ("leading", "hlo")])
                passed += 1
            except Exception as error:  # every failure is a line of the report
                failed += 1
                print(f"{name}: {type(error).__name__}: {str(error)[:500]}", flush=True)
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
