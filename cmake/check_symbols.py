#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: cmake/check_symbols.py [BUILD] [--circles]

Fails when an object file of BUILD (build/release) uses a symbol of a folder that cmake/include_rules.txt does not let its
source include: an `extern` declaration or a table of handlers can cross folders without an #include. --circles also
lists the groups of files that need each other."""
import collections
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SOURCE = re.compile(r"\.dir/((?:hlo|transport|spmd_partitioner|compile|emulator|targets|advice|pjrt|tools)/.*\.c)\.o$")


def read_rules():
    rules = {}
    with open(os.path.join(ROOT, "cmake/include_rules.txt"), encoding="utf-8") as file:
        for line in file:
            if ":" in line and not line.startswith("#"):
                folder, allowed = line.split(":")
                rules[folder] = allowed.split()
    return rules


def module_of(path, rules):
    return max((module for module in rules if path.startswith(module + "/")), key=len, default=None)


def read_symbols(build):
    """Who defines each symbol, and what each source file uses. Kernels that are compiled once per set are one file."""
    owners, uses = {}, collections.defaultdict(set)
    objects = [os.path.join(folder, name) for folder, _, names in os.walk(build) for name in names
               if SOURCE.search(os.path.join(folder, name)) and "/tests/" not in folder]
    if not objects:
        sys.exit(f"{build}: no object files")
    listing = subprocess.run(["nm", "-A", "-g", *objects], check=True, capture_output=True, text=True).stdout
    for line in listing.splitlines():
        path, rest = line.rsplit(":", 1)
        source = SOURCE.search(path)[1]
        *_, kind, symbol = rest.split()
        if not os.path.exists(os.path.join(ROOT, source)):
            continue  # left over from a build before the file moved
        if kind == "U":
            uses[source].add(symbol)
        else:
            owners[symbol] = source
    return owners, uses


def edges_of(owners, uses):
    edges = collections.defaultdict(dict)
    for source, symbols in uses.items():
        for symbol in symbols:
            if owners.get(symbol, source) != source:
                edges[source][owners[symbol]] = symbol
    return edges


def find_circles(edges):
    """Strongly connected components of more than one file, after Tarjan."""
    number, low, stack, circles = {}, {}, [], []

    def visit(at):
        number[at] = low[at] = len(number)
        stack.append(at)
        for target in edges.get(at, ()):
            if target not in number:
                visit(target)
            if target in stack:
                low[at] = min(low[at], low[target])
        if low[at] == number[at]:
            circle = stack[stack.index(at):]
            del stack[stack.index(at):]
            if len(circle) > 1:
                circles.append(sorted(circle))

    sys.setrecursionlimit(10000)
    for source in sorted(edges):
        if source not in number:
            visit(source)
    return sorted(circles, key=len, reverse=True)


def main(arguments):
    build = next((argument for argument in arguments if not argument.startswith("--")), os.path.join(ROOT, "build/release"))
    rules = read_rules()
    edges = edges_of(*read_symbols(build))
    failed = False
    for source in sorted(edges):
        module = module_of(source, rules)
        for target, symbol in sorted(edges[source].items()):
            allowed = [module, *rules[module]]
            if module_of(target, rules) != module and not any(target.startswith(path + "/") for path in allowed):
                print(f"{source}: {module} must not use {symbol} of {target}")
                failed = True
    if "--circles" in arguments:
        for circle in find_circles(edges):
            print(len(circle), *circle)
    if not failed:
        print("symbol directions: ok")
    return failed


sys.exit(main(sys.argv[1:]))
