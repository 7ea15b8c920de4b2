#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a seed corpus and a dictionary for fuzz_stablehlo: make_stablehlo_seeds.py FOLDER.

Seeds are the programs of tests/stablehlo, as text and as bytecode; the dictionary holds the words of the dialect table.
Then: fuzz_stablehlo -dict=FOLDER/words.dict FOLDER/seeds
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
folder = pathlib.Path(sys.argv[1])
seeds = folder / "seeds"
seeds.mkdir(parents=True, exist_ok=True)
for path in [*ROOT.glob("tests/stablehlo/golden/*.mlir"), *ROOT.glob("tests/stablehlo/export/*.mlir")]:
    (seeds / path.name).write_bytes(path.read_bytes())
golden = (ROOT / "tests/stablehlo/golden.inc").read_text()
for name, values in re.findall(r"(\w+)_bytes\[\] = \{(.*?)\};", golden, re.S):
    (seeds / f"{name}.bc").write_bytes(bytes(int(value) for value in re.findall(r"\d+", values)))
words = set()
for table in ("dialect.def", "vhlo.def"):
    for row in re.findall(r"^(?:MLIR|VHLO)_\w+\((.*)\)$", (ROOT / "hlo/stablehlo" / table).read_text(), re.M):
        words.update(re.findall(r"[a-z_]+\.[a-z_0-9]+|[A-Za-z_]{3,}", row))
words.update("dense< tensor< loc( #loc callsite( fused[ -> ^bb0( array<i64: 0x #stablehlo< #sdy. dense_resource<".split())
(folder / "words.dict").write_text("".join(f'"{word}"\n' for word in sorted(words)))
