#loc1 = loc("x")
#loc4 = loc("reduce_window_max")
#loc7 = loc("reduce_window_max:"(#loc4))
module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<8x16xf32> loc("x")) -> (tensor<8x8xf32> {jax.result_info = "result"}) {
    %cst = stablehlo.constant dense<0xFF800000> : tensor<f32> loc(#loc10)
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<f32> loc(#loc10)
    %1 = "stablehlo.reduce_window"(%arg0, %0) <{window_dimensions = array<i64: 1, 2>, window_strides = array<i64: 1, 2>}> ({
    ^bb0(%arg1: tensor<f32> loc("reduce_window_max:"(#loc4)), %arg2: tensor<f32> loc("reduce_window_max:"(#loc4))):
      %2 = stablehlo.maximum %arg1, %arg2 : tensor<f32> loc(#loc10)
      stablehlo.return %2 : tensor<f32> loc(#loc10)
    }) : (tensor<8x16xf32>, tensor<f32>) -> tensor<8x8xf32> loc(#loc10)
    return %1 : tensor<8x8xf32> loc(#loc9)
  } loc(#loc)
} loc(#loc)
#loc = loc(unknown)
#loc2 = loc("golden.py":60:23 to :95)
#loc3 = loc("golden.py":77:11 to :82)
#loc5 = loc("<lambda>"(#loc2))
#loc6 = loc("<module>"(#loc3))
#loc8 = loc(callsite(#loc5 at #loc6))
#loc9 = loc("jit(<lambda>)"(#loc6))
#loc10 = loc("jit(<lambda>)/reduce_window_max"(#loc8))
