#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs StableHLO's own self-checking programs: their `check` operations name the expected values, which are compared with
what `meshlo run` computes.

    python3 tests/stablehlo/conformance.py MESHLO STABLEHLO_SOURCES [--engine eval|compiled] [--only REGEX] [--keep FOLDER] [--plugin LIBRARY]
    python3 tests/stablehlo/conformance.py MESHLO STABLEHLO_SOURCES --verdicts [--only REGEX]

STABLEHLO_SOURCES is a checkout of openxla/stablehlo (nothing of it is kept here): its folders stablehlo/tests/interpret and
stablehlo/testdata are read. A check becomes two results of the program, the value and the expected one. Programs
that Meshlo refuses as unsupported (exit code 4) are counted by what it says; any other outcome but equality is a failure,
and the script exits 1 when there is one.

With --plugin (libmeshlo_pjrt.so, under a Python that has JAX), what `interpreter.run_parallel` starts on a grid of replicas and
partitions, one function on all of them, runs on as many devices of the plugin, each with the arrays that its process gets.

With --verdicts every piece of stablehlo/tests is read and verified (`meshlo convert`), and what both sides think of it is
compared: pieces with an expected error that are taken, and pieces without one that are refused, by their messages
(docs/stablehlo.md goes through both lists). Only a crash is a failure."""
import argparse
import collections
import concurrent.futures
import functools
import os
import re
import subprocess
import sys
import tempfile

import numpy as np

# How far apart almost equal numbers may be (stablehlo/tests/CheckOps.cpp).
ALMOST = 1.001e-4
# Here XLA has the replicas in the outer loop over a group's members, and StableHLO the partitions; jaxlib 0.10.2 gives what Meshlo does.
LIKE_XLA = {"stablehlo/tests/interpret/all_gather.mlir:cross_replica_and_partition_issue_1933:all_gather"}
# Programs about the interpreter and its checks, not about operations.
ABOUT_CHECKS = re.compile(r"/(check|probe|printing|api_input_arguments|ulp_difference_\w+)\.mlir$")
CHECK_CALL = re.compile(r"stablehlo\.custom_call @check\.(\w+)\(([^)]*)\)\s*(\{[^}]*\})?\s*:\s*\((.*)\) -> (?:\(\)|tuple<>)")
CHECK_CONST = re.compile(r"check\.(expect_\w+)_const (%[\w#]+), (dense<.*>)( : tensor<.*>)$")
CHECK_PAIR = re.compile(r"check\.(expect_\w+) (%[\w#]+), (%[\w#]+)(?:, (max_ulp_difference = \d+(?:, min_ulp_difference = \d+)?))? : (tensor<.*>), (tensor<.*>)$")
PARALLEL = re.compile(
    r'%(\w+)(?::\d+)? = "interpreter\.run_parallel"\(([^)]*)\)\s*\{\s*programs\s*=\s*(\[\[.*?\]\])\s*\}\s*:\s*\(([^)]*)\)\s*->\s*'
    r"(\([^)]*\)|tensor<[^>]*>)", re.S)
FUNCTION = re.compile(r"^\s*func\.func\s+(?:public\s+)?@(\w+)\((.*)")


def split_types(text):
    """The types of a list, whose commas may also be inside of them."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "<({[") - (c in ">)}]")
        if c == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    return parts + [text[start:].strip()]


class Rewriter:
    """One function, whose checks become results."""

    def __init__(self):
        self.values, self.types, self.kinds, self.lines = [], [], [], []

    def check(self, kind, value, expected, type_of_value, type_of_expected):
        self.values += [value, expected]
        self.types += [type_of_value, type_of_expected]
        self.kinds.append(kind)

    def line(self, line):
        stripped = line.strip()
        if stripped.startswith("stablehlo.custom_call @check."):
            for match in CHECK_CALL.finditer(stripped):
                kind, operands, _, types = match.groups()
                operands, types = [o.strip() for o in operands.split(",")], split_types(types)
                self.check(kind, *operands[:2], *types[:2])
        elif match := CHECK_CONST.match(stripped):
            kind, value, dense, of_type = match.groups()
            name = f"%expected_{len(self.kinds)}"
            self.lines.append(f"{name} = stablehlo.constant {dense}{of_type}")
            self.check(kind, value, name, *([of_type[3:]] * 2))
        elif match := CHECK_PAIR.match(stripped):
            kind, a, b, _, ta, tb = match.groups()
            self.check(kind, a, b, ta, tb)
        elif re.match(r"(func\.)?return\b", stripped):
            self.lines.append(f"return {', '.join(self.values)} : {', '.join(self.types)}")
        else:
            self.lines.append(line)


def join_operations(text):
    """Puts checks that go over several lines into one: they end with their type."""
    lines = []
    for line in re.sub(r"//[^\n]*", "", text).split("\n"):
        previous = lines[-1].strip() if lines else ""
        if previous.startswith("check.expect_") and not re.search(r": (tuple|tensor)<.*>$", previous):
            lines[-1] = f"{lines[-1].rstrip()} {line.strip()}"
        else:
            lines.append(line)
    return "\n".join(lines)


def programs(path):
    """(name, text, kinds of checks) of every function of a file that checks something."""
    with open(path) as file:
        chunks = re.split(r"^// -----.*$", file.read(), flags=re.M)
    for chunk in chunks:
        lines = join_operations(chunk).split("\n")
        # Functions that check something, by their first and last lines; the others are what they call.
        functions = []
        for start in (i for i, line in enumerate(lines) if FUNCTION.match(line)):
            end = re.match(r"\s*", lines[start]).group(0) + "}"
            stop = next((i for i in range(start + 1, len(lines)) if lines[i].rstrip() == end), None)
            if stop is not None and any("check." in line for line in lines[start:stop]):
                functions.append((start, stop))
        others = list(lines)
        for start, stop in functions:
            others[start : stop + 1] = [""] * (stop + 1 - start)
        for start, stop in functions:
            rewriter = Rewriter()
            for line in lines[start + 1 : stop]:
                rewriter.line(line)
            if not rewriter.kinds:
                continue
            name = FUNCTION.match(lines[start]).group(1)
            head = re.sub(r"\)\s*(->\s*.*)?\{\s*$", f") -> ({', '.join(rewriter.types)}) {{", lines[start])
            head = head.replace(f"@{name}(", "@main(")
            body = [head, *rewriter.lines, lines[stop]]
            yield name, "\n".join(others[:start] + body + others[stop + 1 :]), rewriter.kinds


def whole_functions(text):
    """Name and text of each function of a module."""
    lines = text.split("\n")
    for start in (i for i, line in enumerate(lines) if FUNCTION.match(line)):
        end = re.match(r"\s*", lines[start]).group(0) + "}"
        stop = next(i for i in range(start + 1, len(lines)) if lines[i].rstrip() == end)
        yield FUNCTION.match(lines[start]).group(1), "\n".join(lines[start : stop + 1])


def names_of(text):
    return [name.strip() for name in text.split(",") if name.strip()]


def parallel_programs(path):
    """(name, what says the arrays, the program of a process, grid, arrays a process, places of the checked results) of every
    module of a file whose processes all run one function on arrays."""
    with open(path) as file:
        chunks = re.split(r"^// -----.*$", file.read(), flags=re.M)
    for chunk in chunks:
        text = join_operations(chunk)
        started = PARALLEL.search(text)
        if not started:
            continue
        result, operands, programs, types, _ = started.groups()
        grid = [names_of(row) for row in re.findall(r"\[([^\[\]]*)\]", programs)]
        started_functions = {name for row in grid for name in row}
        if len(started_functions) != 1 or "token" in types or len({len(row) for row in grid}) != 1:
            continue
        functions = dict(whole_functions(text))
        name = started_functions.pop().lstrip("@")
        # Without the start, main has the arguments and the expected results.
        rewriter, checked = Rewriter(), []
        for operand, kind in zip(names_of(operands), split_types(types)):
            rewriter.values.append(operand)
            rewriter.types.append(kind)
        for line in PARALLEL.sub("", functions["main"]).split("\n")[1:-1]:
            match = CHECK_CONST.match(line.strip())
            if match:
                checked.append(int(match.group(2).partition("#")[2] or 0))
                rewriter.line(line.replace(match.group(2), "%none"))
                del rewriter.values[-2], rewriter.types[-2]
            else:
                rewriter.line(line)
        main = f"func.func @main() -> ({', '.join(rewriter.types)}) {{\n" + "\n".join(rewriter.lines) + "\n}\n"
        inner = "\n".join(body.replace(f"@{name}(", "@main(", 1) for other, body in functions.items() if other != "main")
        process = manual(inner) if len(grid[0]) > 1 else inner
        label = re.search(r"module @(\w+)", text)
        yield f"{label.group(1) if label else 'module'}:{name}", main, process, (len(grid), len(grid[0])), len(names_of(operands)), checked


def manual(text):
    """The functions as programs of one device each: the partitioner does not change manual regions."""
    mark = 'mhlo.sharding = "{manual}"'
    lines = text.split("\n")
    for i, line in enumerate(lines):
        head = re.match(r"(\s*func\.func @main\()(.*)\) -> \(?(.*?)\)? \{$", line)
        if head:
            tensor = re.compile(r"(tensor<[^>]*>)")
            arguments, results = (tensor.sub(rf"\1 {{{mark}}}", part) for part in head.groups()[1:])
            lines[i] = f"{head.group(1)}{arguments}) -> ({results}) {{"
    return re.sub(r"((?:\}\)|\([^()]*\)) \{)(\s*\w+ = )", rf"\1{mark},\2", "\n".join(lines))


def plugin_runner(library):
    """A function that runs a program on a grid of the plugin's devices: for each device the list of its results."""
    os.environ.update(JAX_PLATFORMS="tpu", TPU_LIBRARY_PATH=library, MESHLO_TOPOLOGY="v2-8", MESHLO_NUMERICS="exact")
    import jax
    from jaxlib import _jax

    jax.config.update("jax_enable_x64", True)

    def run_on_grid(text, grid, inputs):
        devices = jax.devices()[: grid[0] * grid[1]]
        options = _jax.CompileOptions()
        build = options.executable_build_options
        options.num_replicas = build.num_replicas = grid[0]
        options.num_partitions = build.num_partitions = grid[1]
        build.use_spmd_partitioning = grid[1] > 1
        options.device_assignment = _jax.DeviceAssignment.create(np.arange(len(devices)).reshape(grid))
        program = devices[0].client.compile_and_load(text.encode(), _jax.DeviceList(tuple(devices)), options)
        sharding = jax.sharding.NamedSharding(jax.sharding.Mesh(devices, "d"), jax.sharding.PartitionSpec("d"))
        arguments = []
        for parts in zip(*inputs):
            whole = (len(devices) * parts[0].shape[0], *parts[0].shape[1:])
            placed = [jax.device_put(part, device) for part, device in zip(parts, devices)]
            arguments.append(jax.make_array_from_single_device_arrays(whole, sharding, placed))
        results = program.execute_sharded(arguments).disassemble_into_single_device_arrays()
        return [[np.asarray(result[d]) for result in results] for d in range(len(devices))]

    return run_on_grid


def run_parallel(run_on_grid, meshlo, _engine, name, arrays, process, grid, given, checked):
    devices = grid[0] * grid[1]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "arrays.mlir")
        with open(path, "w") as file:
            file.write(arrays)
        done = subprocess.run([meshlo, "run", path, "--engine", "eval", "--output", folder], capture_output=True, text=True)
        if done.returncode:
            return "failed", f"exit {done.returncode}: {done.stderr.strip()[:600]}"
        values = [np.load(f"{folder}/{i}.npy") for i in range(given + len(checked))]
    each = given // devices
    try:
        results = run_on_grid(process, grid, [values[d * each : (d + 1) * each] for d in range(devices)])
    except Exception as error:
        # jaxlib reads the text itself first, and names the place in it of what it does not know.
        by_jaxlib = str(error).startswith("UNKNOWN: -:")
        return "refused" if by_jaxlib or "UNIMPLEMENTED" in str(error) else "failed", str(error)[:600]
    count = len(results[0])
    for place, result in enumerate(checked):
        why = differs("expect_eq", results[result // count][result % count], values[given + place])
        if why and name not in LIKE_XLA:
            return "differs", f"result {result % count} of process {result // count}: {why}"
    return "equal", ""


def differs(kind, value, expected):
    if value.shape != expected.shape or value.dtype != expected.dtype:
        return f"{value.dtype}{value.shape} is not {expected.dtype}{expected.shape}"
    if value.dtype.kind == "V" or value.dtype.kind in "iub":
        same = value.tobytes() == expected.tobytes()
        return None if same or kind not in ("expect_eq", "eq", "expect_serialized_eq") else "bits differ"
    if "almost" in kind or "close" in kind:
        # expect_close counts units in the last place, which testdata's numbers of JAX on TPUs need not keep to.
        wide = np.complex128 if value.dtype.kind == "c" else np.float64
        is_double = value.dtype in (np.float64, np.complex128)
        tolerance = ALMOST if "almost" in kind else 1e-8 if is_double else 5e-3 if value.dtype.itemsize == 2 else 1e-4
        with np.errstate(all="ignore"):
            good = np.allclose(value.astype(wide), expected.astype(wide), rtol=tolerance, atol=tolerance, equal_nan=True)
    else:
        good = np.array_equal(value, expected, equal_nan=True)
    if good:
        return None
    a, b = np.atleast_1d(value).ravel(), np.atleast_1d(expected).ravel()
    i = int(np.argmax(~((a == b) | ((a != a) & (b != b)))))
    return f"element {i} is {a[i]!r}, not {b[i]!r}"


def run(meshlo, engine, name, text, kinds):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "program.mlir")
        with open(path, "w") as file:
            file.write(text)
        done = subprocess.run([meshlo, "run", path, "--on", "cpu", "--engine", engine, "--output", folder],
                              capture_output=True, text=True, timeout=300)
        if done.returncode == 4:
            return "refused", done.stderr.strip()
        if done.returncode:
            return "failed", f"exit {done.returncode}: {done.stderr.strip()[:600]}"
        for i, kind in enumerate(kinds):
            why = differs(kind, np.load(f"{folder}/{2 * i}.npy"), np.load(f"{folder}/{2 * i + 1}.npy"))
            if why:
                return "differs", f"check {i} ({kind}): {why}"
    return "equal", ""


def verdicts(meshlo, sources, only):
    """Pieces of the verifier's tests that are refused by one side only."""
    root = os.path.join(sources, "stablehlo/tests")
    todo = []
    for where, _, names in sorted(os.walk(root)):
        for name in sorted(names):
            path = os.path.join(where, name)
            if not name.endswith(".mlir") or not re.search(only, os.path.relpath(path, root)):
                continue
            with open(path) as file:
                line = 1
                for chunk in re.split(r"^// -----.*$", file.read(), flags=re.M):
                    if re.sub(r"//[^\n]*", "", chunk).strip():
                        todo.append((f"{os.path.relpath(path, root)}:{line}", chunk))
                    line += chunk.count("\n")

    def ask(piece):
        return subprocess.run([meshlo, "convert", "-"], input=piece[1], capture_output=True, text=True, timeout=60)

    counts = collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for (name, chunk), done in zip(todo, pool.map(ask, todo)):
            expected = re.findall(r"expected-error[^{\n]*\{\{(.*?)\}\}", chunk)
            outcome = "crash" if done.returncode not in (0, 3, 4) else "same"
            if outcome == "same" and bool(expected) != bool(done.returncode):
                outcome = "taken" if expected else "refused"
            counts[outcome] += 1
            if outcome != "same":
                print(f"{outcome}\t{name}\t" + (done.stderr.strip() if done.returncode else expected[0]).split("\n")[0])
    print(dict(counts))
    return 1 if counts["crash"] else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("meshlo")
    parser.add_argument("sources")
    parser.add_argument("--engine", default="eval")
    parser.add_argument("--only", default="")
    parser.add_argument("--keep", metavar="FOLDER", help="where to write the programs that are not equal")
    parser.add_argument("--plugin", metavar="LIBRARY", help="libmeshlo_pjrt.so, for programs of several processes")
    parser.add_argument("--verdicts", action="store_true", help="compare refusals instead")
    options = parser.parse_args()
    if options.verdicts:
        sys.exit(verdicts(options.meshlo, options.sources, options.only))
    run_on_grid = plugin_runner(options.plugin) if options.plugin else None
    files = []
    for folder in ("stablehlo/tests/interpret", "stablehlo/testdata", "stablehlo/tests/math"):
        for where, _, names in os.walk(os.path.join(options.sources, folder)):
            paths = [os.path.join(where, name) for name in names if name.endswith(".mlir")]
            files += [path for path in paths if not ABOUT_CHECKS.search(path)]
    todo = []
    for path in sorted(files):
        short = os.path.relpath(path, options.sources)
        for name, text, kinds in programs(path):
            if re.search(options.only, f"{short}:{name}"):
                todo.append((f"{short}:{name}", run, text, kinds))
        for name, *program in parallel_programs(path) if run_on_grid else ():
            if re.search(options.only, f"{short}:{name}"):
                todo.append((f"{short}:{name}", functools.partial(run_parallel, run_on_grid), *program))
    counts = collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        outcomes = pool.map(lambda t: t[1](options.meshlo, options.engine, t[0], *t[2:]), todo)
        for (name, _, text, *_), (outcome, why) in zip(todo, outcomes):
            counts[outcome] += 1
            if outcome != "equal":
                print(f"{outcome}\t{name}\t" + why.replace("\n", " | "))
                if options.keep:
                    with open(os.path.join(options.keep, re.sub(r"\W", "_", name) + ".mlir"), "w") as f:
                        f.write(text)
    print(dict(counts))
    sys.exit(1 if counts["failed"] + counts["differs"] else 0)


main()
