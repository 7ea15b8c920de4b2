#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs StableHLO's own self-checking programs: their `check` operations name the expected values, which are compared with
what `meshlo run` computes.

    python3 tests/stablehlo/conformance.py MESHLO STABLEHLO_SOURCES [--engine eval|compiled] [--only REGEX] [--keep FOLDER]

STABLEHLO_SOURCES is a checkout of openxla/stablehlo (nothing of it is kept here): its folders stablehlo/tests/interpret and
stablehlo/testdata are read. A check becomes two results of the program, the value and what is expected of it. Programs
that Meshlo refuses as unsupported (exit code 4) are counted by what it says; any other outcome but equality is a failure,
and the script exits 1 when there is one."""
import argparse
import collections
import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile

import numpy as np

# How far apart almost equal numbers may be (stablehlo/tests/CheckOps.cpp).
ALMOST = 1.001e-4
# Programs about the interpreter and its checks, not about operations.
ABOUT_CHECKS = re.compile(r"/(check|probe|printing|api_input_arguments|ulp_difference_\w+)\.mlir$")
CHECK_CALL = re.compile(r"stablehlo\.custom_call @check\.(\w+)\(([^)]*)\)\s*(\{[^}]*\})?\s*:\s*\((.*)\) -> (?:\(\)|tuple<>)")
CHECK_CONST = re.compile(r"check\.(expect_\w+)_const (%[\w#]+), (dense<.*>)( : tensor<.*>)$")
CHECK_PAIR = re.compile(r"check\.(expect_\w+) (%[\w#]+), (%[\w#]+)(?:, (max_ulp_difference = \d+(?:, min_ulp_difference = \d+)?))? : (tensor<.*>), (tensor<.*>)$")
FUNCTION = re.compile(r"^\s*func\.func\s+(?:public\s+)?@(\w+)\((.*)")


def split_types(text):
    """The types of a list, whose commas may also stand inside of them."""
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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("meshlo")
    parser.add_argument("sources")
    parser.add_argument("--engine", default="eval")
    parser.add_argument("--only", default="")
    parser.add_argument("--keep", metavar="FOLDER", help="where to write the programs that are not equal")
    options = parser.parse_args()
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
                todo.append((f"{short}:{name}", text, kinds))
    counts = collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        outcomes = pool.map(lambda t: run(options.meshlo, options.engine, *t), todo)
        for (name, text, kinds), (outcome, why) in zip(todo, outcomes):
            counts[outcome] += 1
            if outcome != "equal":
                print(f"{outcome}\t{name}\t" + why.replace("\n", " | "))
                if options.keep:
                    with open(os.path.join(options.keep, re.sub(r"\W", "_", name) + ".mlir"), "w") as f:
                        f.write(text)
    print(dict(counts))
    sys.exit(1 if counts["failed"] + counts["differs"] else 0)


main()
