#loc1 = loc("x")
#loc2 = loc("golden.py":61:24 to :43)
#loc3 = loc("golden.py":77:11 to :82)
#loc4 = loc("<lambda>"(#loc2))
#loc5 = loc("<module>"(#loc3))
#loc6 = loc(callsite(#loc4 at #loc5))
#loc8 = loc("jit(<lambda>)/top_k"(#loc6))
module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<8x16xf32> loc("x")) -> (tensor<8x2xf32> {jax.result_info = "result[0]"}, tensor<8x2xi32> {jax.result_info = "result[1]"}) {
    %0:2 = stablehlo.composite "chlo.top_k" %arg0 {composite_attributes = {k = 2 : i64}, decomposition = @chlo.top_k.impl, version = 1 : i32} : (tensor<8x16xf32>) -> (tensor<8x2xf32>, tensor<8x2xi32>) loc(#loc8)
    return %0#0, %0#1 : tensor<8x2xf32>, tensor<8x2xi32> loc(#loc7)
  } loc(#loc)
  func.func private @chlo.top_k.impl(%arg0: tensor<8x16xf32> loc("jit(<lambda>)/top_k"(#loc6))) -> (tensor<8x2xf32>, tensor<8x2xi32>) {
    %0 = stablehlo.iota dim = 1 : tensor<8x16xi32> loc(#loc8)
    %1:2 = "stablehlo.sort"(%arg0, %0) <{dimension = 1 : i64, is_stable = true}> ({
    ^bb0(%arg1: tensor<f32> loc("jit(<lambda>)/top_k"(#loc6)), %arg2: tensor<f32> loc("jit(<lambda>)/top_k"(#loc6)), %arg3: tensor<i32> loc("jit(<lambda>)/top_k"(#loc6)), %arg4: tensor<i32> loc("jit(<lambda>)/top_k"(#loc6))):
      %4 = stablehlo.compare GT, %arg1, %arg2, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1> loc(#loc8)
      stablehlo.return %4 : tensor<i1> loc(#loc8)
    }) : (tensor<8x16xf32>, tensor<8x16xi32>) -> (tensor<8x16xf32>, tensor<8x16xi32>) loc(#loc8)
    %2 = stablehlo.slice %1#0 [0:8, 0:2] : (tensor<8x16xf32>) -> tensor<8x2xf32> loc(#loc8)
    %3 = stablehlo.slice %1#1 [0:8, 0:2] : (tensor<8x16xi32>) -> tensor<8x2xi32> loc(#loc8)
    return %2, %3 : tensor<8x2xf32>, tensor<8x2xi32> loc(#loc8)
  } loc(#loc8)
} loc(#loc)
#loc = loc(unknown)
#loc7 = loc("jit(<lambda>)"(#loc5))
