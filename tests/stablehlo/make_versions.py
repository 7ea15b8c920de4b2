#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes golden_versions.inc: one program of operations whose sizes are operands, of operations that were given up and of
collectives, as real StableHLO writes it for releases since 0.9.0; test_bytecode.c compares each with the text.

Run by hand when an operation is added: python3 tests/stablehlo/make_versions.py > tests/stablehlo/golden_versions.inc
"""
import json

import jaxlib._jax as jaxlib_jax

LATER = ("1.5.0", "1.17.0")  # several operands of collectives
RELEASES = {"sizes": ("0.9.0", "0.15.0", "1.0.0", "1.2.0", "1.10.0", "1.17.0"), "groups": LATER}
PROGRAMS = {
    "sizes": """func.func @main(%x: tensor<2x4xf32>, %i: tensor<2x1xi64>) -> (tensor<2x4xf32>, tensor<3x2x4xf32>, \
tensor<2x2xf32>, tensor<4x4xf32>, tensor<2xf32>, tensor<2x2xf32>, tensor<2x5xf32>, tensor<1x2x2x1xf32>) {
  %s = stablehlo.constant dense<[2, 4]> : tensor<2xi64>
  %t = stablehlo.constant dense<[3, 2, 4]> : tensor<3xi64>
  %one = stablehlo.constant dense<1> : tensor<2xi64>
  %none = stablehlo.constant dense<0> : tensor<2xi64>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = "stablehlo.dynamic_iota"(%s) {iota_dimension = 1 : i64} : (tensor<2xi64>) -> tensor<2x4xf32>
  %1 = "stablehlo.dynamic_broadcast_in_dim"(%x, %t) {broadcast_dimensions = array<i64: 1, 2>} : (tensor<2x4xf32>, \
tensor<3xi64>) -> tensor<3x2x4xf32>
  %sizes = stablehlo.constant dense<[1, 2]> : tensor<2xi64>
  %2 = "stablehlo.dynamic_gather"(%x, %i, %sizes) {dimension_numbers = #stablehlo.gather<offset_dims = [1], \
collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = true} : \
(tensor<2x4xf32>, tensor<2x1xi64>, tensor<2xi64>) -> tensor<2x2xf32>
  %3 = "stablehlo.einsum"(%x, %x) {einsum_config = "ab,ac->bc"} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
  %4 = "stablehlo.unary_einsum"(%x) {einsum_config = "ab->a"} : (tensor<2x4xf32>) -> tensor<2xf32>
  %j = stablehlo.constant dense<[3, 0]> : tensor<2xi64>
  %5 = "stablehlo.torch_index_select"(%x, %j) {dim = 1 : i64, batch_dims = 0 : i64} : (tensor<2x4xf32>, tensor<2xi64>) \
-> tensor<2x2xf32>
  %low = stablehlo.constant dense<[0, 1]> : tensor<2xi64>
  %6 = "stablehlo.dynamic_pad"(%x, %zero, %low, %none, %none) : (tensor<2x4xf32>, tensor<f32>, tensor<2xi64>, \
tensor<2xi64>, tensor<2xi64>) -> tensor<2x5xf32>
  %image = "stablehlo.reshape"(%x) : (tensor<2x4xf32>) -> tensor<1x2x4x1xf32>
  %kernel = stablehlo.constant dense<1.0> : tensor<1x3x1x1xf32>
  %pads = stablehlo.constant dense<0> : tensor<2x2xi64>
  %7 = "stablehlo.dynamic_conv"(%image, %kernel, %pads) {batch_group_count = 1 : i64, feature_group_count = 1 : i64, \
dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>} : (tensor<1x2x4x1xf32>, \
tensor<1x3x1x1xf32>, tensor<2x2xi64>) -> tensor<1x2x2x1xf32>
  return %0, %1, %2, %3, %4, %5, %6, %7 : tensor<2x4xf32>, tensor<3x2x4xf32>, tensor<2x2xf32>, tensor<4x4xf32>, \
tensor<2xf32>, tensor<2x2xf32>, tensor<2x5xf32>, tensor<1x2x2x1xf32>
}
""",
    "groups": """module attributes {mhlo.num_partitions = 4 : i32} {
func.func @main(%x: tensor<4x8xf32>, %y: tensor<2x8xf32>) -> (tensor<8x4xf32>, tensor<4x4xf32>, tensor<4x8xf64>) {
  %0:2 = "stablehlo.all_to_all"(%x, %y) {split_dimension = 1 : i64, concat_dimension = 0 : i64, split_count = 2 : i64, \
replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, \
type = 1>} : (tensor<4x8xf32>, tensor<2x8xf32>) -> (tensor<8x4xf32>, tensor<4x4xf32>)
  %1 = "stablehlo.all_reduce"(%x) ({
    ^bb0(%a: tensor<f64>, %b: tensor<f64>):
      %s = "stablehlo.add"(%a, %b) : (tensor<f64>, tensor<f64>) -> tensor<f64>
      "stablehlo.return"(%s) : (tensor<f64>) -> ()
  }) {replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, channel_handle = #stablehlo.channel_handle<handle = 2, \
type = 1>, use_global_device_ids} : (tensor<4x8xf32>) -> tensor<4x8xf64>
  return %0#0, %0#1, %1 : tensor<8x4xf32>, tensor<4x4xf32>, tensor<4x8xf64>
}
}
""",
}

print("// SPDX-License-Identifier: Apache-2.0")
print("// Made by make_versions.py with JAX 0.10.2; do not edit.")
rows = []
for name, text in PROGRAMS.items():
    print(f"static const char {name}_text[] =")
    print("\n".join("    " + json.dumps(line + "\n") for line in text.splitlines()) + ";")
    for release in RELEASES[name]:
        symbol = f"{name}_{release.replace('.', '_')}"
        data = jaxlib_jax.mlir.serialize_portable_artifact(text, release, True)
        print(f"static const unsigned char {symbol}[] = {{")
        for i in range(0, len(data), 32):
            print("    " + ",".join(map(str, data[i : i + 32])) + ",")
        print("};")
        rows.append(f'    {{"{name} {release}", {name}_text, {symbol}, sizeof({symbol})}},')
print("static const Version versions[] = {")
print("\n".join(rows))
print("};")
