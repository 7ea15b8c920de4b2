#loc1 = loc("x")
"builtin.module"() <{sym_name = "jit__lambda"}> ({
  "func.func"() <{function_type = (tensor<8x16xf32>) -> tensor<8x16xf32>, res_attrs = [{jax.result_info = "result"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg0: tensor<8x16xf32> loc("x")):
    %0 = "stablehlo.constant"() <{value = dense<1.000000e+00> : tensor<f32>}> : () -> tensor<f32> loc(#loc6)
    %1 = "stablehlo.broadcast_in_dim"(%0) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<8x16xf32> loc(#loc8)
    %2 = "stablehlo.add"(%arg0, %1) : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32> loc(#loc8)
    "func.return"(%2) : (tensor<8x16xf32>) -> () loc(#loc6)
  }) : () -> () loc(#loc)
}) {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> () loc(#loc)
#loc = loc(unknown)
#loc2 = loc("golden.py":77:11 to :82)
#loc3 = loc("golden.py":49:22 to :27)
#loc4 = loc("<module>"(#loc2))
#loc5 = loc("<lambda>"(#loc3))
#loc6 = loc("jit(<lambda>)"(#loc4))
#loc7 = loc(callsite(#loc5 at #loc4))
#loc8 = loc("jit(<lambda>)/add"(#loc7))
