#loc1 = loc("p")
#loc2 = loc("x")
"builtin.module"() <{sym_name = "jit__lambda"}> ({
  "func.func"() <{function_type = (tensor<i1>, tensor<8x16xf32>) -> tensor<8x16xf32>, res_attrs = [{jax.result_info = "result"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg0: tensor<i1> loc("p"), %arg1: tensor<8x16xf32> loc("x")):
    %0 = "stablehlo.convert"(%arg0) : (tensor<i1>) -> tensor<i32> loc(#loc9)
    %1 = "stablehlo.case"(%0) ({
      %3 = "stablehlo.cosine"(%arg1) : (tensor<8x16xf32>) -> tensor<8x16xf32> loc(#loc11)
      "stablehlo.return"(%3) : (tensor<8x16xf32>) -> () loc(#loc10)
    }, {
      %2 = "stablehlo.sine"(%arg1) : (tensor<8x16xf32>) -> tensor<8x16xf32> loc(#loc12)
      "stablehlo.return"(%2) : (tensor<8x16xf32>) -> () loc(#loc10)
    }) : (tensor<i32>) -> tensor<8x16xf32> loc(#loc10)
    "func.return"(%1) : (tensor<8x16xf32>) -> () loc(#loc8)
  }) : () -> () loc(#loc)
}) {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> () loc(#loc)
#loc = loc(unknown)
#loc3 = loc("golden.py":56:26 to :62)
#loc4 = loc("golden.py":77:11 to :82)
#loc5 = loc("<lambda>"(#loc3))
#loc6 = loc("<module>"(#loc4))
#loc7 = loc(callsite(#loc5 at #loc6))
#loc8 = loc("jit(<lambda>)"(#loc6))
#loc9 = loc("jit(<lambda>)/convert_element_type"(#loc7))
#loc10 = loc("jit(<lambda>)/cond"(#loc7))
#loc11 = loc("jit(<lambda>)/cond/branch_0_fun/cos"(#loc7))
#loc12 = loc("jit(<lambda>)/cond/branch_1_fun/sin"(#loc7))
