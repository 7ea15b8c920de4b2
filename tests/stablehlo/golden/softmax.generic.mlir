#loc1 = loc("x")
#loc2 = loc("golden.py":77:11 to :82)
#loc3 = loc("<module>"(#loc2))
#loc4 = loc("jit(softmax)/reduce_sum"(#loc3))
#loc5 = loc("jit(softmax)/reduce_max"(#loc3))
"builtin.module"() <{sym_name = "jit_softmax"}> ({
  "func.func"() <{function_type = (tensor<8x16xf32>) -> tensor<8x16xf32>, res_attrs = [{jax.result_info = "result"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg0: tensor<8x16xf32> loc("x")):
    %0 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32> loc(#loc4)
    %1 = "stablehlo.constant"() <{value = dense<0xFF800000> : tensor<f32>}> : () -> tensor<f32> loc(#loc)
    %2 = "stablehlo.reduce"(%arg0, %1) <{dimensions = array<i64: 1>}> ({
    ^bb0(%arg3: tensor<f32> loc("jit(softmax)/reduce_max"(#loc3)), %arg4: tensor<f32> loc("jit(softmax)/reduce_max"(#loc3))):
      %14 = "stablehlo.maximum"(%arg3, %arg4) : (tensor<f32>, tensor<f32>) -> tensor<f32> loc(#loc5)
      "stablehlo.return"(%14) : (tensor<f32>) -> () loc(#loc5)
    }) : (tensor<8x16xf32>, tensor<f32>) -> tensor<8xf32> loc(#loc5)
    %3 = "stablehlo.broadcast_in_dim"(%1) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<8xf32> loc(#loc6)
    %4 = "stablehlo.maximum"(%3, %2) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> loc(#loc6)
    %5 = "stablehlo.broadcast_in_dim"(%4) <{broadcast_dimensions = array<i64: 0>}> : (tensor<8xf32>) -> tensor<8x1xf32> loc(#loc7)
    %6 = "stablehlo.broadcast_in_dim"(%5) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<8x1xf32>) -> tensor<8x16xf32> loc(#loc8)
    %7 = "stablehlo.subtract"(%arg0, %6) : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32> loc(#loc8)
    %8 = "stablehlo.exponential"(%7) : (tensor<8x16xf32>) -> tensor<8x16xf32> loc(#loc9)
    %9 = "stablehlo.reduce"(%8, %0) <{dimensions = array<i64: 1>}> ({
    ^bb0(%arg1: tensor<f32> loc("jit(softmax)/reduce_sum"(#loc3)), %arg2: tensor<f32> loc("jit(softmax)/reduce_sum"(#loc3))):
      %13 = "stablehlo.add"(%arg1, %arg2) : (tensor<f32>, tensor<f32>) -> tensor<f32> loc(#loc4)
      "stablehlo.return"(%13) : (tensor<f32>) -> () loc(#loc4)
    }) : (tensor<8x16xf32>, tensor<f32>) -> tensor<8xf32> loc(#loc4)
    %10 = "stablehlo.broadcast_in_dim"(%9) <{broadcast_dimensions = array<i64: 0>}> : (tensor<8xf32>) -> tensor<8x1xf32> loc(#loc7)
    %11 = "stablehlo.broadcast_in_dim"(%10) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<8x1xf32>) -> tensor<8x16xf32> loc(#loc10)
    %12 = "stablehlo.divide"(%8, %11) : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32> loc(#loc10)
    "func.return"(%12) : (tensor<8x16xf32>) -> () loc(#loc11)
  }) : () -> () loc(#loc)
}) {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> () loc(#loc)
#loc = loc(unknown)
#loc6 = loc("jit(softmax)/max"(#loc3))
#loc7 = loc("jit(softmax)/broadcast_in_dim"(#loc3))
#loc8 = loc("jit(softmax)/sub"(#loc3))
#loc9 = loc("jit(softmax)/exp"(#loc3))
#loc10 = loc("jit(softmax)/div"(#loc3))
#loc11 = loc("jit(softmax)"(#loc3))
