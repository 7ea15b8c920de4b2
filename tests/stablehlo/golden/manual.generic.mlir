#loc1 = loc("x")
#loc4 = loc("shard_map")
#loc6 = loc("psum_invariant")
#loc9 = loc("shard_map:"(#loc4))
#loc11 = loc("psum_invariant:"(#loc6))
"builtin.module"() <{sym_name = "jit_manual"}> ({
  "sdy.mesh"() <{mesh = #sdy.mesh<["a"=4, "b"=2]>, sym_name = "mesh"}> {stablehlo.mesh = {axes = [{name = "a", size = 4 : i64}, {name = "b", size = 2 : i64}]}} : () -> () loc(#loc)
  "func.func"() <{function_type = (tensor<8x16xf32>) -> tensor<2x16xf32>, res_attrs = [{jax.result_info = "result"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg0: tensor<8x16xf32> loc("x")):
    %0 = "sdy.manual_computation"(%arg0) <{in_shardings = #sdy.sharding_per_value<[<@mesh, [{"a"}, {"b"}]>]>, manual_axes = #sdy<manual_axes{"a", "b"}>, out_shardings = #sdy.sharding_per_value<[<@mesh, [{}, {"b"}]>]>}> ({
    ^bb0(%arg1: tensor<2x8xf32> loc("shard_map:"(#loc4))):
      %1 = "stablehlo.all_reduce"(%arg1) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>, replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>, use_global_device_ids}> ({
      ^bb0(%arg2: tensor<f32> loc("psum_invariant:"(#loc6)), %arg3: tensor<f32> loc("psum_invariant:"(#loc6))):
        %2 = "stablehlo.add"(%arg2, %arg3) : (tensor<f32>, tensor<f32>) -> tensor<f32> loc(#loc17)
        "stablehlo.return"(%2) : (tensor<f32>) -> () loc(#loc13)
      }) : (tensor<2x8xf32>) -> tensor<2x8xf32> loc(#loc13)
      "sdy.return"(%1) : (tensor<2x8xf32>) -> () loc(#loc9)
    }) : (tensor<8x16xf32>) -> tensor<2x16xf32> loc(#loc16)
    "func.return"(%0) : (tensor<2x16xf32>) -> () loc(#loc15)
  }) : () -> () loc(#loc)
}) {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} : () -> () loc(#loc)
#loc = loc(unknown)
#loc2 = loc("golden.py":33:11 to :90)
#loc3 = loc("golden.py":77:11 to :82)
#loc5 = loc("golden.py":32:21 to :41)
#loc7 = loc("manual"(#loc2))
#loc8 = loc("<module>"(#loc3))
#loc10 = loc("manual.<locals>.<lambda>"(#loc5))
#loc12 = loc(callsite(#loc7 at #loc8))
#loc13 = loc("psum_invariant"(#loc10))
#loc14 = loc(callsite(#loc10 at #loc10))
#loc15 = loc("jit(manual)"(#loc8))
#loc16 = loc("jit(manual)/shard_map"(#loc12))
#loc17 = loc("add"(#loc14))
