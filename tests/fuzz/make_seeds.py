#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: make_seeds.py MESHLO FOLDER     Writes programs for the fuzzers to begin with, and dictionaries of words.

FOLDER/hlo         HLO text: the short programs of the tests (files, strings in C, what XLA was asked about)
FOLDER/proto       the same as HloModuleProto, converted by the command MESHLO
FOLDER/stablehlo   StableHLO: programs of the tests as text and as bytecode
FOLDER/NAME.dict   words of the tables, for libFuzzer's -dict
"""
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys

# Longer programs make slow fuzzers, which find less.
MOST_BYTES = 6000
# Operations that no program of tests/stablehlo's folders has.
EXTRA = {
    "sizes": """func.func @main(%x: tensor<2x4xf32>) -> tensor<?xf32> {
  %n = stablehlo.get_dimension_size %x, dim = 1 : (tensor<2x4xf32>) -> tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %m = stablehlo.multiply %n, %two : tensor<i32>
  %s = stablehlo.reshape %m : (tensor<i32>) -> tensor<1xi32>
  %0 = call @flat(%x, %s) : (tensor<2x4xf32>, tensor<1xi32>) -> tensor<?xf32>
  %i = stablehlo.dynamic_iota %s, dim = 0 : (tensor<1xi32>) -> tensor<?xf32>
  %1 = chlo.broadcast_add %0, %i : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
  return %1 : tensor<?xf32>
}
func.func private @flat(%x: tensor<2x?xf32>, %n: tensor<1xi32>) -> tensor<?xf32> {
  %0 = stablehlo.dynamic_reshape %x, %n : (tensor<2x?xf32>, tensor<1xi32>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}
""",
    "pads": """func.func @main(%x: tensor<3xi32>, %v: tensor<i32>) -> tensor<4xi32> {
  %l = stablehlo.constant dense<1> : tensor<1xi64>
  %h = stablehlo.constant dense<0> : tensor<1xi64>
  %0 = stablehlo.dynamic_pad %x, %v, %l, %h, %h : (tensor<3xi32>, tensor<i32>, tensor<1xi64>, tensor<1xi64>, \
tensor<1xi64>) -> tensor<4xi32>
  %1 = stablehlo.real_dynamic_slice %0, %h, %l, %l : (tensor<4xi32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> \
tensor<1xi32>
  %2 = stablehlo.dynamic_broadcast_in_dim %1, %l, dims = [0] : (tensor<1xi32>, tensor<1xi64>) -> tensor<1xi32>
  return %0 : tensor<4xi32>
}
""",
    "chlo": """func.func @main(%a: tensor<3xf32>, %b: tensor<2x3xf32>, %i: tensor<3xi32>) -> tensor<3xf32> {
  %0 = chlo.erf %a : tensor<3xf32> -> tensor<3xf32>
  %1 = chlo.bessel_i1e %0 : tensor<3xf32> -> tensor<3xf32>
  %2 = chlo.mulhi %i, %i : tensor<3xi32>, tensor<3xi32> -> tensor<3xi32>
  %3 = chlo.broadcast_compare %a, %b {comparison_direction = #chlo<comparison_direction LT>} : (tensor<3xf32>, \
tensor<2x3xf32>) -> tensor<2x3xi1>
  %4 = "chlo.constant_like"(%a) <{value = 5.0 : f32}> : (tensor<3xf32>) -> tensor<3xf32>
  %v, %n = chlo.top_k(%a, k = 2) : tensor<3xf32> -> (tensor<2xf32>, tensor<2xi32>)
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %5:2 = chlo.scan(%a) inits (%z) dimension=0 attributes {is_reverse = true} {
  ^bb0(%x: tensor<f32>, %c: tensor<f32>):
    %s = stablehlo.add %x, %c : tensor<f32>
    stablehlo.return %s, %s : tensor<f32>, tensor<f32>
  } : (tensor<3xf32>, tensor<f32>) -> (tensor<3xf32>, tensor<f32>)
  return %5#0 : tensor<3xf32>
}
""",
    "legacy": """func.func @main(%a: tensor<3x4xf32>, %b: tensor<4x5xf32>, %i: tensor<2xi32>) -> tensor<5x3xf32> {
  %0 = stablehlo.einsum %a, %b, config = "ab,bc->ca" : (tensor<3x4xf32>, tensor<4x5xf32>) -> tensor<5x3xf32>
  %1 = stablehlo.unary_einsum %a, config = "ab->b" : (tensor<3x4xf32>) -> tensor<4xf32>
  %2 = "stablehlo.torch_index_select"(%a, %i) <{batch_dims = 0 : i64, dim = 1 : i64}> : (tensor<3x4xf32>, \
tensor<2xi32>) -> tensor<3x2xf32>
  %3 = "stablehlo.async_start"(%a) ({
  ^bb0(%x: tensor<3x4xf32>):
    stablehlo.return %x : tensor<3x4xf32>
  }) : (tensor<3x4xf32>) -> !stablehlo.future<tensor<3x4xf32>>
  %4 = "stablehlo.async_done"(%3) : (!stablehlo.future<tensor<3x4xf32>>) -> tensor<3x4xf32>
  return %0 : tensor<5x3xf32>
}
""",
}

ROOT = pathlib.Path(__file__).resolve().parents[2]
MESHLO, FOLDER = sys.argv[1], pathlib.Path(sys.argv[2])
STRING = r'"(?:[^"\\\n]|\\.)*"'


def put(kind, name, content):
    folder = FOLDER / kind
    folder.mkdir(parents=True, exist_ok=True)
    if len(content) <= MOST_BYTES:
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)


def strings_of_tests():
    """The string literals of the tests' sources, adjacent ones joined as C joins them."""
    for path in sorted(ROOT.glob("tests/*/*.c")):
        for match in re.finditer(rf"{STRING}(?:\s*{STRING})*", path.read_text()):
            joined = "".join(part[1:-1] for part in re.findall(STRING, match.group()))
            yield path.stem, joined.replace('\\"', '"').replace("\\n", "\n").replace("\\t", "\t")


def texts_asked_of_xla():
    """Of the small texts of every op and annotation of tests/text those that have a word which none before them has."""
    golden, seen = (ROOT / "tests/text/golden.txt").read_text(), set()
    for text in re.findall(r"^@@ text\n(.*?)(?=^@@ )", golden, re.M | re.S):
        words = set(re.findall(r"[a-z][a-z_-]*(?:=\w*|\(|\[)", text))
        if words - seen:
            yield text
        seen |= words


def write_texts():
    for path in [*ROOT.glob("tests/*/programs/*.hlo"), *ROOT.glob("tests/stablehlo/export/*.hlo"),
                 *ROOT.glob("benchmarks/programs/*.hlo")]:
        put("hlo", path.name, path.read_text())
    for number, text in enumerate(texts_asked_of_xla()):
        put("hlo", f"xla_{number}.hlo", text)
    for number, (name, text) in enumerate(strings_of_tests()):
        if "ENTRY" in text and "parameter(" in text:
            put("hlo", f"{name}_{number}.hlo", text)
        elif "func.func" in text:
            put("stablehlo", f"{name}_{number}.mlir", text)


def write_protos():
    (FOLDER / "proto").mkdir(parents=True, exist_ok=True)

    def convert(path):  # a program that is refused gives no seed
        target = FOLDER / "proto" / f"{path.stem}.pb"
        subprocess.run([MESHLO, "convert", path, "--to", "proto", "-o", target], stderr=subprocess.DEVNULL, check=False)

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(convert, sorted((FOLDER / "hlo").iterdir())))
    put("proto", "jaxlib.pb", (ROOT / "tests/proto/jaxlib.pb").read_bytes())


def write_stablehlo():
    for path in [*ROOT.glob("tests/stablehlo/golden/*.mlir"), *ROOT.glob("tests/stablehlo/export/*.mlir")]:
        put("stablehlo", path.name, path.read_bytes())
    for name, text in EXTRA.items():
        put("stablehlo", f"{name}.mlir", text)
    golden = (ROOT / "tests/stablehlo/golden.inc").read_text()
    for name, values in re.findall(r"(\w+)_bytes\[\] = \{(.*?)\};", golden, re.S):
        put("stablehlo", f"{name}.bc", bytes(int(value) for value in re.findall(r"\d+", values)))


def write_dictionary(name, words):
    (FOLDER / f"{name}.dict").write_text("".join(f'"{word}"\n' for word in sorted(words)))


def rows(table, pattern):
    return re.findall(rf"^{pattern}\((.*)\)", (ROOT / table).read_text(), re.M)


def write_dictionaries():
    words = set("f32[2] s32[] pred[] (f32[2],s32[]) {1,0} {} /*index=5*/ ROOT ENTRY metadata={ sharding={ calls= to_apply="
                " %p, -> constant( token[] <=[4] T(1,0) last_tile_dim_replicate devices=[2,2] {{0,1},{2,3}} nan -inf".split(" "))
    for table, pattern in (("hlo/ops.def", "HLO_OP"), ("hlo/ir/attributes.def", "HLO_FIELD")):
        for row in rows(table, pattern):
            words.update(re.findall(r'"([^"]+)"', row))
    write_dictionary("hlo", words - {""})
    words = set("dense< tensor< loc( #loc callsite( fused[ -> ^bb0( array<i64: 0x #stablehlo< #sdy. dense_resource<".split())
    for table in ("mlir/dialect.def", "bytecode/vhlo.def"):
        for row in rows(f"hlo/stablehlo/{table}", r"(?:MLIR|VHLO)_\w+"):
            words.update(re.findall(r"[a-z_]+\.[a-z_0-9]+|[A-Za-z_]{3,}", row))
    write_dictionary("stablehlo", words)


write_texts()
write_protos()
write_stablehlo()
write_dictionaries()
