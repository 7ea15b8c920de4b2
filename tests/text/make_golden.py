#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the expectations of tests/text/golden.txt and corpus.txt again, from what jaxlib does with the same texts.

usage: make_golden.py golden FILE            rewrite FILE in place: texts stay, expectations are made again
       make_golden.py corpus FOLDER > FILE   hashes of the printed forms of every module in FOLDER

golden.txt holds records of `@@ text`, then one of
  `@@ long` and the text that to_string() gives, with the hashes of the canonical and short forms on the `@@ hashes` line,
  `@@ rejected`   XLA rejects it (or aborts),
  `@@ stricter`   XLA accepts it, we refuse it: kept as it is.
"""
import lzma
import os
import sys

MASK = (1 << 64) - 1


def mix(seed, value):
    x = ((seed ^ value) * 0x9E3779B97F4A7C15) & MASK
    return x ^ (x >> 29)


def hash_bytes(data):
    """text_hash() of test_golden.c."""
    value = 0x243F6A8885A308D3 ^ len(data)
    whole = len(data) // 8 * 8
    for i in range(0, whole, 8):
        value = mix(value, int.from_bytes(data[i:i + 8], "little"))
    value = mix(value, int.from_bytes(data[whole:], "little"))
    return value ^ (value >> 32)


def print_form(text, form):
    module = _hlo.hlo_module_from_text(text)
    if form == "long":
        return module.to_string()
    return module.to_string(getattr(_hlo.HloPrintOptions, form)())


# Imported before any fork: it takes half a second.
from jaxlib import _hlo  # noqa: E402


def in_child(text, form):
    """What XLA prints, or None. A child a call: XLA aborts on some texts and keeps counters between calls."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        try:
            with os.fdopen(write, "wb") as pipe:
                pipe.write(b"+" + print_form(text, form).encode())
        except Exception:
            os._exit(1)
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        data = pipe.read()
    os.waitpid(child, 0)
    return data[1:].decode() if data[:1] == b"+" else None


def records(path):
    kind, lines, out = None, [], []
    for line in open(path):
        if line.startswith("@@ "):
            if kind:
                out.append((kind, "".join(lines)))
            kind, lines = line[3:].strip(), []
        elif kind:
            lines.append(line)
    out.append((kind, "".join(lines)))
    return out


def golden(path):
    head = "".join(line for line in open(path) if line.startswith("# "))
    found = records(path)
    with open(path, "w") as file:
        file.write(head)
        for index, (kind, text) in enumerate(found):
            if kind != "text":
                continue
            file.write("@@ text\n" + text)
            if index + 1 < len(found) and found[index + 1][0] == "stricter":
                file.write("@@ stricter\n")
                continue
            forms = [in_child(text, form) for form in ("long", "canonical", "short_parsable")]
            if forms[0] is None:
                file.write("@@ rejected\n")
                continue
            hashes = " ".join("%016x" % hash_bytes(form.encode()) for form in forms[1:])
            file.write("@@ hashes %s\n@@ long\n%s" % (hashes, forms[0]))


def corpus(folder):
    print("# Hashes (text_hash() of test_golden.c) of to_string() with default, canonical() and short_parsable() options, jaxlib 0.10.2.")
    for root, _, names in sorted(os.walk(folder)):
        for name in sorted(names):
            if not name.endswith(".hlo.xz"):
                continue
            path = os.path.join(root, name)
            text = lzma.open(path).read().decode()
            forms = [in_child(text, form) for form in ("long", "canonical", "short_parsable")]
            hashes = " ".join("%016x" % hash_bytes(form.encode()) for form in forms)
            print(os.path.relpath(path, folder), hashes)


if __name__ == "__main__":
    {"golden": golden, "corpus": corpus}[sys.argv[1]](sys.argv[2])
