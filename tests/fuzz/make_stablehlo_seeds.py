#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a seed corpus and a dictionary for fuzz_stablehlo: make_stablehlo_seeds.py FOLDER.

Seeds are the programs of tests/stablehlo, as text and as bytecode; the dictionary holds the words of the dialect table.
Then: fuzz_stablehlo -dict=FOLDER/words.dict FOLDER/seeds
"""
import pathlib
import re
import sys

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
folder = pathlib.Path(sys.argv[1])
seeds = folder / "seeds"
seeds.mkdir(parents=True, exist_ok=True)
for path in [*ROOT.glob("tests/stablehlo/golden/*.mlir"), *ROOT.glob("tests/stablehlo/export/*.mlir")]:
    (seeds / path.name).write_bytes(path.read_bytes())
for name, text in EXTRA.items():
    (seeds / f"{name}.mlir").write_text(text)
golden = (ROOT / "tests/stablehlo/golden.inc").read_text()
for name, values in re.findall(r"(\w+)_bytes\[\] = \{(.*?)\};", golden, re.S):
    (seeds / f"{name}.bc").write_bytes(bytes(int(value) for value in re.findall(r"\d+", values)))
words = set()
for table in ("dialect.def", "vhlo.def"):
    for row in re.findall(r"^(?:MLIR|VHLO)_\w+\((.*)\)$", (ROOT / "hlo/stablehlo" / table).read_text(), re.M):
        words.update(re.findall(r"[a-z_]+\.[a-z_0-9]+|[A-Za-z_]{3,}", row))
words.update("dense< tensor< loc( #loc callsite( fused[ -> ^bb0( array<i64: 0x #stablehlo< #sdy. dense_resource<".split())
(folder / "words.dict").write_text("".join(f'"{word}"\n' for word in sorted(words)))
