#loc1 = loc("approx_top_k")
#loc2 = loc("x")
#loc5 = loc("approx_top_k:"(#loc1))
"builtin.module"() <{sym_name = "jit__lambda"}> ({
  "func.func"() <{function_type = (tensor<f32>, tensor<f32>, tensor<i32>, tensor<i32>) -> tensor<i1>, sym_name = "top_k_gt_f32_comparator"}> ({
  ^bb0(%arg1: tensor<f32> loc("approx_top_k:"(#loc1)), %arg2: tensor<f32> loc("approx_top_k:"(#loc1)), %arg3: tensor<i32> loc("approx_top_k:"(#loc1)), %arg4: tensor<i32> loc("approx_top_k:"(#loc1))):
    %4 = "stablehlo.compare"(%arg1, %arg2) <{comparison_direction = #stablehlo<comparison_direction GT>}> : (tensor<f32>, tensor<f32>) -> tensor<i1> loc(#loc5)
    "func.return"(%4) : (tensor<i1>) -> () loc(#loc5)
  }) : () -> () loc(#loc5)
  "func.func"() <{function_type = (tensor<8x16xf32>) -> (tensor<2x16xf32>, tensor<2x16xi32>), res_attrs = [{jax.result_info = "result[0]"}, {jax.result_info = "result[1]"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg0: tensor<8x16xf32> loc("x")):
    %0 = "stablehlo.constant"() <{value = dense<0xFF800000> : tensor<f32>}> : () -> tensor<f32> loc(#loc10)
    %1 = "stablehlo.constant"() <{value = dense<-1> : tensor<i32>}> : () -> tensor<i32> loc(#loc10)
    %2 = "stablehlo.iota"() <{iota_dimension = 0 : i64}> : () -> tensor<8x16xi32> loc(#loc10)
    %3:2 = "stablehlo.custom_call"(%arg0, %2, %0, %1) <{call_target_name = "ApproxTopK", called_computations = [@top_k_gt_f32_comparator]}> {mhlo.backend_config = {aggregate_to_topk = true, recall_target = 0.949999988 : f32, reduction_dim = 0 : i64, reduction_input_size_override = -1 : i64, top_k = 2 : i64}} : (tensor<8x16xf32>, tensor<8x16xi32>, tensor<f32>, tensor<i32>) -> (tensor<2x16xf32>, tensor<2x16xi32>) loc(#loc10)
    "func.return"(%3#0, %3#1) : (tensor<2x16xf32>, tensor<2x16xi32>) -> () loc(#loc9)
  }) : () -> () loc(#loc)
}) {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> () loc(#loc)
#loc = loc(unknown)
#loc3 = loc("golden.py":66:31 to :80)
#loc4 = loc("golden.py":77:11 to :82)
#loc6 = loc("<lambda>"(#loc3))
#loc7 = loc("<module>"(#loc4))
#loc8 = loc(callsite(#loc6 at #loc7))
#loc9 = loc("jit(<lambda>)"(#loc7))
#loc10 = loc("jit(<lambda>)/approx_top_k"(#loc8))
