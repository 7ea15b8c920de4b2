#loc = loc(unknown)
#loc1 = loc("x")
#loc4 = loc("reduce_window_sum")
#loc7 = loc("reduce_window_sum:"(#loc4))
"builtin.module"() <{sym_name = "jit__lambda"}> ({
  "func.func"() <{function_type = (tensor<8x16xf32>) -> tensor<8x16xf32>, res_attrs = [{jax.result_info = "result"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg4: tensor<8x16xf32> loc("x")):
    %5 = "func.call"(%arg4) <{callee = @cumsum}> : (tensor<8x16xf32>) -> tensor<8x16xf32> loc(#loc10)
    "func.return"(%5) : (tensor<8x16xf32>) -> () loc(#loc9)
  }) : () -> () loc(#loc)
  "func.func"() <{function_type = (tensor<8x16xf32>) -> tensor<8x16xf32>, sym_name = "cumsum", sym_visibility = "private"}> ({
  ^bb0(%arg3: tensor<8x16xf32> loc(unknown)):
    %4 = "func.call"(%arg3) <{callee = @cumsum_0}> : (tensor<8x16xf32>) -> tensor<8x16xf32> loc(#loc)
    "func.return"(%4) : (tensor<8x16xf32>) -> () loc(#loc)
  }) : () -> () loc(#loc12)
  "func.func"() <{function_type = (tensor<8x16xf32>) -> tensor<8x16xf32>, sym_name = "cumsum_0", sym_visibility = "private"}> ({
  ^bb0(%arg0: tensor<8x16xf32> loc(unknown)):
    %0 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32> loc(#loc4)
    %1 = "stablehlo.broadcast_in_dim"(%0) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<f32> loc(#loc4)
    %2 = "stablehlo.reduce_window"(%arg0, %1) <{padding = dense<[[0, 0], [15, 0]]> : tensor<2x2xi64>, window_dimensions = array<i64: 1, 16>}> ({
    ^bb0(%arg1: tensor<f32> loc("reduce_window_sum:"(#loc4)), %arg2: tensor<f32> loc("reduce_window_sum:"(#loc4))):
      %3 = "stablehlo.add"(%arg1, %arg2) : (tensor<f32>, tensor<f32>) -> tensor<f32> loc(#loc4)
      "stablehlo.return"(%3) : (tensor<f32>) -> () loc(#loc4)
    }) : (tensor<8x16xf32>, tensor<f32>) -> tensor<8x16xf32> loc(#loc4)
    "func.return"(%2) : (tensor<8x16xf32>) -> () loc(#loc)
  }) : () -> () loc(#loc)
}) {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> () loc(#loc)
#loc2 = loc("golden.py":53:25 to :41)
#loc3 = loc("golden.py":77:11 to :82)
#loc5 = loc("<lambda>"(#loc2))
#loc6 = loc("<module>"(#loc3))
#loc8 = loc(callsite(#loc5 at #loc6))
#loc9 = loc("jit(<lambda>)"(#loc6))
#loc10 = loc("jit(<lambda>)/jit(cumsum)"(#loc8))
#loc11 = loc("jit(<lambda>)/jit"(#loc8))
#loc12 = loc("jit:"(#loc11))
