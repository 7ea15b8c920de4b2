#loc = loc(unknown)
#loc1 = loc("x")
#loc4 = loc("reduce_window_sum")
#loc7 = loc("reduce_window_sum:"(#loc4))
module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<8x16xf32> loc("x")) -> (tensor<8x16xf32> {jax.result_info = "result"}) {
    %0 = call @cumsum(%arg0) : (tensor<8x16xf32>) -> tensor<8x16xf32> loc(#loc10)
    return %0 : tensor<8x16xf32> loc(#loc9)
  } loc(#loc)
  func.func private @cumsum(%arg0: tensor<8x16xf32> loc(unknown)) -> tensor<8x16xf32> {
    %0 = call @cumsum_0(%arg0) : (tensor<8x16xf32>) -> tensor<8x16xf32> loc(#loc)
    return %0 : tensor<8x16xf32> loc(#loc)
  } loc(#loc12)
  func.func private @cumsum_0(%arg0: tensor<8x16xf32> loc(unknown)) -> tensor<8x16xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32> loc(#loc4)
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<f32> loc(#loc4)
    %1 = "stablehlo.reduce_window"(%arg0, %0) <{padding = dense<[[0, 0], [15, 0]]> : tensor<2x2xi64>, window_dimensions = array<i64: 1, 16>}> ({
    ^bb0(%arg1: tensor<f32> loc("reduce_window_sum:"(#loc4)), %arg2: tensor<f32> loc("reduce_window_sum:"(#loc4))):
      %2 = stablehlo.add %arg1, %arg2 : tensor<f32> loc(#loc4)
      stablehlo.return %2 : tensor<f32> loc(#loc4)
    }) : (tensor<8x16xf32>, tensor<f32>) -> tensor<8x16xf32> loc(#loc4)
    return %1 : tensor<8x16xf32> loc(#loc)
  } loc(#loc)
} loc(#loc)
#loc2 = loc("golden.py":53:25 to :41)
#loc3 = loc("golden.py":77:11 to :82)
#loc5 = loc("<lambda>"(#loc2))
#loc6 = loc("<module>"(#loc3))
#loc8 = loc(callsite(#loc5 at #loc6))
#loc9 = loc("jit(<lambda>)"(#loc6))
#loc10 = loc("jit(<lambda>)/jit(cumsum)"(#loc8))
#loc11 = loc("jit(<lambda>)/jit"(#loc8))
#loc12 = loc("jit:"(#loc11))
