#loc1 = loc("x")
#loc2 = loc("golden.py":61:24 to :43)
#loc3 = loc("golden.py":77:11 to :82)
#loc4 = loc("<lambda>"(#loc2))
#loc5 = loc("<module>"(#loc3))
#loc6 = loc(callsite(#loc4 at #loc5))
#loc8 = loc("jit(<lambda>)/top_k"(#loc6))
"builtin.module"() <{sym_name = "jit__lambda"}> ({
  "func.func"() <{function_type = (tensor<8x16xf32>) -> (tensor<8x2xf32>, tensor<8x2xi32>), res_attrs = [{jax.result_info = "result[0]"}, {jax.result_info = "result[1]"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg5: tensor<8x16xf32> loc("x")):
    %5:2 = "stablehlo.composite"(%arg5) <{composite_attributes = {k = 2 : i64}, decomposition = @chlo.top_k.impl, name = "chlo.top_k", version = 1 : i32}> : (tensor<8x16xf32>) -> (tensor<8x2xf32>, tensor<8x2xi32>) loc(#loc8)
    "func.return"(%5#0, %5#1) : (tensor<8x2xf32>, tensor<8x2xi32>) -> () loc(#loc7)
  }) : () -> () loc(#loc)
  "func.func"() <{function_type = (tensor<8x16xf32>) -> (tensor<8x2xf32>, tensor<8x2xi32>), sym_name = "chlo.top_k.impl", sym_visibility = "private"}> ({
  ^bb0(%arg0: tensor<8x16xf32> loc("jit(<lambda>)/top_k"(#loc6))):
    %0 = "stablehlo.iota"() <{iota_dimension = 1 : i64}> : () -> tensor<8x16xi32> loc(#loc8)
    %1:2 = "stablehlo.sort"(%arg0, %0) <{dimension = 1 : i64, is_stable = true}> ({
    ^bb0(%arg1: tensor<f32> loc("jit(<lambda>)/top_k"(#loc6)), %arg2: tensor<f32> loc("jit(<lambda>)/top_k"(#loc6)), %arg3: tensor<i32> loc("jit(<lambda>)/top_k"(#loc6)), %arg4: tensor<i32> loc("jit(<lambda>)/top_k"(#loc6))):
      %4 = "stablehlo.compare"(%arg1, %arg2) <{compare_type = #stablehlo<comparison_type TOTALORDER>, comparison_direction = #stablehlo<comparison_direction GT>}> : (tensor<f32>, tensor<f32>) -> tensor<i1> loc(#loc8)
      "stablehlo.return"(%4) : (tensor<i1>) -> () loc(#loc8)
    }) : (tensor<8x16xf32>, tensor<8x16xi32>) -> (tensor<8x16xf32>, tensor<8x16xi32>) loc(#loc8)
    %2 = "stablehlo.slice"(%1#0) <{limit_indices = array<i64: 8, 2>, start_indices = array<i64: 0, 0>, strides = array<i64: 1, 1>}> : (tensor<8x16xf32>) -> tensor<8x2xf32> loc(#loc8)
    %3 = "stablehlo.slice"(%1#1) <{limit_indices = array<i64: 8, 2>, start_indices = array<i64: 0, 0>, strides = array<i64: 1, 1>}> : (tensor<8x16xi32>) -> tensor<8x2xi32> loc(#loc8)
    "func.return"(%2, %3) : (tensor<8x2xf32>, tensor<8x2xi32>) -> () loc(#loc8)
  }) : () -> () loc(#loc8)
}) {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> () loc(#loc)
#loc = loc(unknown)
#loc7 = loc("jit(<lambda>)"(#loc5))
