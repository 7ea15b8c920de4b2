#loc = loc(unknown)
#loc1 = loc("a")
"builtin.module"() <{sym_name = "jit_fft"}> ({
  "func.func"() <{function_type = (tensor<8x16xf32>) -> tensor<8x16xcomplex<f32>>, res_attrs = [{jax.result_info = "result"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg1: tensor<8x16xf32> loc("a")):
    %2 = "func.call"(%arg1) <{callee = @fft}> : (tensor<8x16xf32>) -> tensor<8x16xcomplex<f32>> loc(#loc6)
    "func.return"(%2) : (tensor<8x16xcomplex<f32>>) -> () loc(#loc7)
  }) : () -> () loc(#loc)
  "func.func"() <{function_type = (tensor<8x16xf32>) -> tensor<8x16xcomplex<f32>>, sym_name = "fft", sym_visibility = "private"}> ({
  ^bb0(%arg0: tensor<8x16xf32> loc(unknown)):
    %0 = "stablehlo.convert"(%arg0) : (tensor<8x16xf32>) -> tensor<8x16xcomplex<f32>> loc(#loc3)
    %1 = "stablehlo.fft"(%0) <{fft_length = array<i64: 16>, fft_type = #stablehlo<fft_type FFT>}> : (tensor<8x16xcomplex<f32>>) -> tensor<8x16xcomplex<f32>> loc(#loc4)
    "func.return"(%1) : (tensor<8x16xcomplex<f32>>) -> () loc(#loc)
  }) : () -> () loc(#loc9)
}) {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> () loc(#loc)
#loc2 = loc("golden.py":77:11 to :82)
#loc3 = loc("convert_element_type")
#loc4 = loc("fft")
#loc5 = loc("<module>"(#loc2))
#loc6 = loc("jit(fft)/jit(fft)"(#loc5))
#loc7 = loc("jit(fft)"(#loc5))
#loc8 = loc("jit(fft)/jit"(#loc5))
#loc9 = loc("jit:"(#loc8))
