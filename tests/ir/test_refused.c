// SPDX-License-Identifier: Apache-2.0
// Refusals of shape inference, op by op: a program of one instruction that breaks one rule, and a part of the message.
// The text parser infers while it reads, the verifier infers again what the text gives; either may be the one that
// refuses.
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "hlo/hlo.h"
#include "tests/support/cases.h"
#include "tests/support/compiled.h"

typedef struct RefusedCase {
    const char *parameters;  // separated by semicolons: p0, p1, ...
    const char *root;        // with or without the result's shape
    const char *called;      // the computations that it calls
    const char *part;        // of the message
} RefusedCase;

// Computations that the cases call.
#define ADD "c {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT t = f32[] add(a,b)\n}\n"
#define ADD_S32 "c {\n a = s32[] parameter(0)\n b = s32[] parameter(1)\n ROOT t = s32[] add(a,b)\n}\n"
#define ONE "c {\n ROOT a = f32[] parameter(0)\n}\n"
#define ROW                                                                                                       \
    "c {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n t = f32[] add(a,b)\n ROOT r = f32[2] broadcast(t), " \
    "dimensions={}\n}\n"
#define PAIR "c {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT t = (f32[],f32[]) tuple(a,b)\n}\n"
#define GREATER \
    "s {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT t = pred[] compare(a,b), direction=GE\n}\n"
#define CHOOSE_FLOAT "s {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT t = f32[] add(a,b)\n}\n"
#define SAME(name, type) name " {\n ROOT a = " type " parameter(0)\n}\n"
#define TRUE_OF(name, type) name " {\n a = " type " parameter(0)\n ROOT t = pred[] constant(true)\n}\n"

static const RefusedCase cases[] = {
    // elementwise
    {"f32[2];f32[2]", "pred[2] compare(p0,p1), direction=LT, type=SIGNED", "", "does not suit elements of type f32"},
    {"s32[2];s32[2]", "pred[2] compare(p0,p1), direction=LT, type=FLOAT", "", "does not suit elements of type s32"},
    {"s32[2];u32[2]", "f32[2] stochastic-convert(p0,p1)", "", "operand 0 must be floating point"},
    {"f32[2];u16[2]", "s32[2] stochastic-convert(p0,p1)", "", "random bits must be"},
    {"f32[2];s32[2]", "s32[2] stochastic-convert(p0,p1)", "", "random bits must be"},
    {"c64[2]", "f64[2] bitcast-convert(p0)", "", "one is complex, the other is not"},
    {"u8[]", "f32[] bitcast-convert(p0)", "", "cannot make a f32 from a scalar u8"},
    {"s32[2]", "s32[2] reduce-precision(p0), exponent_bits=8, mantissa_bits=7", "", "operand 0 must be floating point"},
    {"f32[2]", "s8[9] bitcast(p0)", "", "cannot reinterpret f32[2] as s8[9], which has another number of bytes"},
    {"s4[8]", "s8[3] bitcast(p0)", "", "which has another number of bytes"},
    {"f32[2]", "f32[2] exponential(p0), result_accuracy={tolerance={rtol=-1}}", "", "a tolerance that is negative"},
    {"f32[2]", "f32[2] tanh(p0), result_accuracy={tolerance={ulps=-1}}", "", "a tolerance that is negative"},
    {"f32[2]", "f32[2] reduce-precision(p0), exponent_bits=4294967301, mantissa_bits=7", "", "do not fit in 32 bits"},
    {"f32[2]", "f32[2] reduce-precision(p0), exponent_bits=5, mantissa_bits=2147483648", "", "do not fit in 32 bits"},
    {"f32[2]", "(f32[2],f32[2],u32[]) copy-start(p0), cross_program_prefetch_index=2147483648", "",
     "does not fit in 32 bits"},
    {"f32[2]", "(f32[2]) bitcast(p0)", "", "cannot reinterpret f32[2] as (f32[2])"},
    {"(f32[2])", "(f32[3]) bitcast(p0)", "", "cannot reinterpret (f32[2]) as (f32[3])"},
    {"token[]", "() bitcast(p0)", "", "cannot reinterpret token[] as ()"},
    {"s32[];f32[2];f32[]", "f32[2] clamp(p0,p1,p2)", "", "bound min of element type s32"},
    {"f32[];f32[2];s32[]", "f32[2] clamp(p0,p1,p2)", "", "bound max of element type s32"},
    {"pred[];(f32[2]);(f32[3])", "(f32[2]) select(p0,p1,p2)", "", "select"},
    {"(f32[2]);f32[2]", "f32[2] add(p0,p1)", "", "operand 0 must be an array"},
    // operands of a kind that XLA's verifier refuses
    {"f32[2]", "f32[2] custom-call(p0), custom_call_target=\"x\", output_to_operand_aliasing={{}: (1, {})}", "",
     "output_to_operand_aliasing 0 names operand 1 or a part of it that does not exist"},
    {"f32[2]", "f32[2] custom-call(p0), custom_call_target=\"x\", output_to_operand_aliasing={{}: (0, {2})}", "",
     "output_to_operand_aliasing 0 names operand 0 or a part of it that does not exist"},
    {"f32[2]", "(f32[2]) custom-call(p0), custom_call_target=\"x\", output_to_operand_aliasing={{1}: (0, {})}", "",
     "output_to_operand_aliasing 0 names an output that does not exist"},
    {"f32[2]", "f32[3] custom-call(p0), custom_call_target=\"x\", output_to_operand_aliasing={{}: (0, {})}", "",
     "output_to_operand_aliasing 0 aliases output f32[3] to f32[2], which has a different shape"},
    {"f32[4]", "f32[4] fusion(p0), kind=kLoop, calls=c, output_to_operand_aliasing={{}: (4, {})}", SAME("c", "f32[4]"),
     "output_to_operand_aliasing 0 names operand 4 or a part of it that does not exist"},
    // composites without the parts that XLA requires
    {"f32[4]", "f32[4] call(p0), to_apply=c, is_composite=true", SAME("c", "f32[4]"),
     "needs the frontend attribute composite.name"},
    {"f32[4]", "f32[4] call(p0), to_apply=c, is_composite=true, frontend_attributes={composite.name=\"\"}",
     SAME("c", "f32[4]"), "needs the frontend attribute composite.name"},
    {"f32[4]",
     "f32[4] call(p0), to_apply=c, is_composite=true, "
     "frontend_attributes={composite.name=\"a.b\",composite.version=\"-1\"}",
     SAME("c", "f32[4]"), "composite.version must be an integer of at least 0, not -1"},
    {"f32[4]",
     "f32[4] call(p0), to_apply=c, is_composite=true, "
     "frontend_attributes={composite.name=\"a.b\",composite.version=\"2147483648\"}",
     SAME("c", "f32[4]"), "composite.version must be an integer of at least 0, not 2147483648"},
    {"f32[4]",
     "f32[4] call(p0), to_apply=c, is_composite=true, "
     "frontend_attributes={composite.attributes=\"\",composite.name=\"a.b\"}",
     SAME("c", "f32[4]"), "the frontend attribute composite.attributes is empty"},
    // calls and collectives whose result does not follow from their operands
    {"f32[6]", "f32[4] reduce-scatter(p0), dimensions={0}, to_apply=c", ADD, "dimension 0 goes from size 6 to 4"},
    {"f32[0]", "f32[4] all-gather(p0), dimensions={0}", "", "dimension 0 goes from size 0 to 4"},
    {"", "f32[4] all-reduce(), to_apply=c", ADD, "no operands"},
    // bug: the result of a collective's reducer was not checked: compiling one without a result crashed.
    {"f32[4]", "f32[4] all-reduce(p0), to_apply=c", ROW, "computation c returns f32[2] instead of a scalar"},
    {"f32[4]", "f32[4] all-reduce(p0), to_apply=c", PAIR, "computation c returns (f32[], f32[]) instead of a scalar"},
    {"f32[4]", "f32[4] all-reduce-start(p0), to_apply=c", PAIR,
     "computation c returns (f32[], f32[]) instead of a scalar"},
    {"f32[4]", "f32[4] all-reduce(p0), to_apply=s", GREATER,
     "computation s takes f32[] as parameter 0, but returns pred[]"},
    {"f32[4]", "f32[4] all-reduce(p0), to_apply=c", ADD_S32, "computation c returns s32[], but the elements are f32"},
    {"f32[4]", "f32[4] all-reduce(p0), to_apply=c", ONE, "computation c takes 1 parameters instead of 2"},
    {"f32[4]", "f32[2] reduce-scatter(p0), dimensions={0}, replica_groups={{0,1}}, to_apply=c", PAIR,
     "computation c returns (f32[], f32[]) instead of a scalar"},
    {"f32[70368744177664,0];f32[]", "pad(p0,p1), padding=0_0_70368744177663x0_0", "", "dimension 0 overflows"},
    {"pred[];(f32[2]);(f32[3])", "select(p0,p1,p2)", "", "cannot select between (f32[2]) and (f32[3])"},
    {"f32[4,2]", "broadcast(p0), dimensions={1,0}", "", "the result shape cannot be inferred from dimensions {1,0}"},
    {"f32[6,5];f32[]", "(f32[6,5], f32[]) scan(p0, p1), dimensions={1}, to_apply=c, num_carries=1",
     "c {\n x = f32[6] parameter(0)\n a = f32[] parameter(1)\n ROOT t = (f32[], f32[]) tuple(a, a)\n}\n",
     "cannot stack f32[] along dimension 1"},
    {"f32[6];f32[];f32[]", "(f32[6], f32[]) scan(p0, p1, p2), dimensions={0}, to_apply=c, num_carries=2",
     "c {\n x = f32[] parameter(0)\n a = f32[] parameter(1)\n b = f32[] parameter(2)\n ROOT t = f32[] add(a,x)\n}\n",
     "the computation returns 1 values for 2 carries"},
    {"f32[4];f32[4]", "convolution(p0,p1), dim_labels=bf_io->bf", "",
     "dim_labels describe 2 dimensions of the input, but it has 1"},
    // data
    {"f32[2]", "f32[] iota(), iota_dimension=0", "", "a scalar has no iota dimension"},
    {"f32[2]", "pred[4] iota(), iota_dimension=0", "", "element type pred is not allowed"},
    {"f32[2]", "broadcast(p0), dimensions={1}", "", "cannot be inferred from dimensions {1}"},
    {"f32[2];s32[2]", "f32[4] concatenate(p0,p1), dimensions={0}", "", "operands of element types f32 and s32"},
    {"f32[4611686018427387000];f32[4611686018427387000]", "concatenate(p0,p1), dimensions={0}", "",
     "does not fit in 62 bits"},
    {"f32[4]", "f32[2,2] reshape(p0), inferred_dimension=2", "", "inferred_dimension 2"},
    {"f32[4];s32[]", "s32[2] dynamic-reshape(p0,p1)", "", "elements of type s32 from f32"},
    {"f32[4,4];f32[2]", "f32[2,2] dynamic-slice(p0,p1), dynamic_slice_sizes={2,2}", "", "start indices f32[2]"},
    {"f32[4,4];s32[3]", "f32[2,2] dynamic-slice(p0,p1), dynamic_slice_sizes={2,2}", "", "for an array of rank 2"},
    {"f32[4,4];s32[];u32[]", "f32[2,2] dynamic-slice(p0,p1,p2), dynamic_slice_sizes={2,2}", "",
     "start indices of types s32 and u32"},
    {"f32[4,4];f32[2];s32[];s32[]", "f32[4,4] dynamic-update-slice(p0,p1,p2,p3)", "", "differ in rank"},
    {"f32[4];s32[2];s32[]", "f32[4] dynamic-update-slice(p0,p1,p2)", "",
     "an update of element type s32 for an array of"},
    // Numbers that overflow: positions of windows are sums of products of these.
    {"f32[4];f32[]", "f32[4] pad(p0,p1), padding=-9223372036854775807_9223372036854775807", "", "padding beyond 2^46"},
    {"f32[1];f32[]", "f32[1] pad(p0,p1), padding=0_0_9223372036854775807", "", "padding beyond 2^46"},
    {"f32[4];f32[]", "f32[1] reduce-window(p0,p1), window={size=1 stride=4611686018427387904}, to_apply=c", ADD,
     "the window has a number beyond 2^46 in dimension 0"},
    {"f32[4];f32[]", "f32[0] reduce-window(p0,p1), window={size=9223372036854775807}, to_apply=c", ADD,
     "the window has a number beyond 2^46 in dimension 0"},
    {"f32[4];f32[]", "f32[0] reduce-window(p0,p1), window={size=70368744177664 rhs_dilate=70368744177664}, to_apply=c",
     ADD, "the window overflows in dimension 0"},
    {"f32[4];s32[]", "f32[6] pad(p0,p1), padding=1_1", "", "a padding value of type s32 for elements of type f32"},
    {"f32[3000000000]", "s32[] get-dimension-size(p0), dimensions={0}", "", "does not fit in s32"},
    {"f32[];s32[]", "f32[4] rng(p0,p1), distribution=rng_uniform", "", "operand 1 must be a scalar of type f32"},
    {"s32[];s32[]", "s32[4] rng(p0,p1), distribution=rng_normal", "", "normally distributed numbers of type s32"},
    {"s32[2]", "(s32[2],u32[4]) rng-bit-generator(p0), algorithm=rng_default", "", "u64[2] or u64[3]"},
    {"u64[2]", "(u64[3],u32[4]) rng-bit-generator(p0), algorithm=rng_default", "", "must be (state, bits)"},
    {"u64[2]", "(u64[2],pred[4]) rng-bit-generator(p0), algorithm=rng_default", "",
     "cannot generate random bits as pred[4]"},
    {"u64[8];u64[8]", "u64[8] add-dependency(p0,p1)", "", "operand 1 must be a token, not u64[8]"},
    // products
    {"f32[4,4];f32[4,4]",
     "f32[4] dot(p0,p1), lhs_batch_dims={0}, lhs_contracting_dims={0}, rhs_batch_dims={0}, "
     "rhs_contracting_dims={1}",
     "", "both batch and contracting"},
    {"f8e4m3fn[4,64];f8e4m3fn[4,64];f8e8m0fnu[4];f8e8m0fnu[4,2]",
     "f32[4,4] scaled-dot(p0,p1,p2,p3), lhs_contracting_dims={1}, rhs_contracting_dims={1}", "", "scales"},
    {"f8e4m3fn[4,64];f8e4m3fn[4,64];f8e8m0fnu[4,3];f8e8m0fnu[4,2]",
     "f32[4,4] scaled-dot(p0,p1,p2,p3), lhs_contracting_dims={1}, rhs_contracting_dims={1}", "",
     "3 scales for dimension 1 of size 64"},
    {"f32[4,8];f32[3,8,5];s32[3]",
     "f32[4,5] ragged-dot(p0,p1,p2), lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0,1}, "
     "rhs_group_dims={0}",
     "", "ragged dimensions instead of one"},
    // bug: of lists of group sizes for each batch only the last dimension was looked at.
    {"f32[2,4,6];f32[2,6,5];s32[3,3]",
     "f32[2,4,5] ragged-dot(p0,p1,p2), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, "
     "rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={}",
     "", "group sizes s32[3,3], where lists for sizes {} are needed"},
    {"f32[2,4,6];f32[2,6,5];s32[3,3]",
     "f32[3,2,4,5] ragged-dot(p0,p1,p2), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, "
     "rhs_contracting_dims={1}, lhs_ragged_dims={2}, rhs_group_dims={}",
     "", "group sizes s32[3,3], where lists for sizes {2} are needed"},
    {"f32[2,4,6];f32[3,2,6,5];s32[2,2,3]",
     "f32[2,4,5] ragged-dot(p0,p1,p2), lhs_batch_dims={0}, rhs_batch_dims={1}, lhs_contracting_dims={2}, "
     "rhs_contracting_dims={2}, lhs_ragged_dims={1}, rhs_group_dims={0}",
     "", "group sizes s32[2,2,3], where lists for sizes {2} are needed"},
    {"f32[4,8];f32[8,5];s32[3]",
     "f32[3,4,5] ragged-dot(p0,p1,p2), lhs_contracting_dims={1}, rhs_contracting_dims={0}, lhs_ragged_dims={1}, "
     "rhs_group_dims={1}",
     "", "leaves no group dimension"},
    {"f32[4,8];f32[3,8,5];s32[3]",
     "f32[4,5] ragged-dot(p0,p1,p2), lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, "
     "rhs_group_dims={1}",
     "", "is also a batch or contracting dimension"},
    {"f32[4,8];f32[3,8,5];s32[2]",
     "f32[4,5] ragged-dot(p0,p1,p2), lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, "
     "rhs_group_dims={0}",
     "", "has size 3 for 2 groups"},
    {"s32[4,4]", "s32[4,4] cholesky(p0)", "", "element type s32 is not allowed"},
    {"f32[4,4];c64[4,2]", "f32[4,2] triangular-solve(p0,p1), left_side=true, lower=true, transpose_a=NO_TRANSPOSE", "",
     "operands of element types f32 and c64"},
    {"f32[2,4,4];f32[4,2]", "f32[4,2] triangular-solve(p0,p1), left_side=true, lower=true, transpose_a=NO_TRANSPOSE",
     "", "differ in rank"},
    {"f32[2,4,4];f32[3,4,2]",
     "f32[3,4,2] triangular-solve(p0,p1), left_side=true, lower=true, transpose_a=NO_TRANSPOSE", "",
     "batch dimension 0 has sizes 2 and 3"},
    {"f32[4,4];f32[5,2]", "f32[5,2] triangular-solve(p0,p1), left_side=true, lower=true, transpose_a=NO_TRANSPOSE", "",
     "matrices of size 4 do not fit dimension 0"},
    {"c64[4]", "c64[4] fft(p0), fft_type=FFT, fft_length={-4}", "", "FFT length"},
    {"f32[4]", "c64[4] fft(p0), fft_type=FFT, fft_length={4}", "", "FFT of element type f32"},
    {"s32[4,3];f32[3];f32[3]", "(s32[4,3],f32[3],f32[3]) batch-norm-training(p0,p1,p2), epsilon=0.1, feature_index=1",
     "", "operand 0 must be floating point"},
    {"f32[4,3];s32[3];f32[3]", "(f32[4,3],f32[3],f32[3]) batch-norm-training(p0,p1,p2), epsilon=0.1, feature_index=1",
     "", "operand 1 has element type s32, operand 0 has"},
    {"f32[4,3];f32[2];f32[3]", "(f32[4,3],f32[3],f32[3]) batch-norm-training(p0,p1,p2), epsilon=0.1, feature_index=1",
     "", "operand 1 must be a vector of 3 features"},
    // windows
    {"f32[4,8,8,3];f32[3,3,3,16]", "f32[4,6,6,16] convolution(p0,p1), window={size=3x3}, dim_labels=b01f_01io->b01?",
     "", "expected dimension labels like"},
    {"f32[4,8,8,3];f32[3,3,16]", "f32[4,6,6,16] convolution(p0,p1), window={size=3x3}, dim_labels=b01f_0io->b01f", "",
     "must have as many spatial dimensions"},
    {"f32[4,8,8,3];f32[3,3,3,16]",
     "convolution(p0,p1), window={size=3x3}, dim_labels=b01f_01io->b01f, "
     "feature_group_count=-1",
     "", "-1 feature groups"},
    {"f32[4,8,8,4];f32[3,3,2,16]",
     "convolution(p0,p1), window={size=3x3}, dim_labels=b01f_01io->b01f, "
     "feature_group_count=2, batch_group_count=2",
     "", "both feature groups (2) and batch groups (2)"},
    {"f32[4,8,8,6];f32[3,3,2,16]",
     "convolution(p0,p1), window={size=3x3}, dim_labels=b01f_01io->b01f, "
     "feature_group_count=3",
     "", "16 output features do not divide"},
    {"f32[5,8,8,4];f32[3,3,4,16]",
     "convolution(p0,p1), window={size=3x3}, dim_labels=b01f_01io->b01f, "
     "batch_group_count=2",
     "", "a batch of 5 in 2 groups"},
    {"f32[4,8,8,3];f32[3,3,3,16]", "convolution(p0,p1), window={size=3}, dim_labels=b01f_01io->b01f", "",
     "a window of 1 dimensions for 2 spatial ones"},
    {"f32[4,8,8,3];f32[3,3,3,16]", "convolution(p0,p1), window={size=3x2}, dim_labels=b01f_01io->b01f", "",
     "window size 2 in spatial dimension 1, where the kernel has 3"},
    {"f32[4,8,8,3];f32[3,3,3,16]", "convolution(p0,p1), window={size=3x3 lhs_dilate=0x1}, dim_labels=b01f_01io->b01f",
     "", "dilat"},
    {"f32[4,4];f32[2,4];f32[1]",
     "f32[4,4] select-and-scatter(p0,p1,p2), window={size=2x1 stride=2x1}, select=s, scatter=c", ADD GREATER,
     "the initial value must be a scalar"},
    {"f32[4,4];s32[2,4];f32[]",
     "f32[4,4] select-and-scatter(p0,p1,p2), window={size=2x1 stride=2x1}, select=s, scatter=c", ADD GREATER,
     "operands of element types f32, s32 and f32"},
    {"f32[4,4];f32[2,4];f32[]",
     "f32[4,4] select-and-scatter(p0,p1,p2), window={size=2x1 stride=2x1}, select=s, scatter=c", ADD CHOOSE_FLOAT,
     "select must return pred[]"},
    {"f32[4,4];f32[2,4];f32[]",
     "f32[4,4] select-and-scatter(p0,p1,p2), window={size=2x1 stride=2x1}, select=s, scatter=c", PAIR GREATER,
     "scatter must return f32[]"},
    // reductions
    {"f32[4];f32[]", "f32[] reduce(p0,p1), dimensions={0}, to_apply=c", ROW, "computation c returns f32[2]"},
    {"f32[4];f32[2]", "f32[] reduce(p0,p1), dimensions={0}, to_apply=c", ADD,
     "initial value 0 must be a scalar of type f32"},
    {"f32[4];s32[]", "f32[] reduce(p0,p1), dimensions={0}, to_apply=c", ADD,
     "initial value 0 must be a scalar of type f32"},
    {"f32[4];f32[]", "f32[] reduce(p0,p1), dimensions={0}, to_apply=c", ADD_S32, "computation c"},
    {"f32[4];f32[]", "f32[] reduce(p0,p1), dimensions={0}, to_apply=c", ONE, "computation c"},
    {"f32[4,4];f32[4,4]", "map(p0,p1), dimensions={0}, to_apply=c", ADD, "do not include all dimensions of"},
    {"f32[4];f32[4]", "f32[4] map(p0,p1), dimensions={0}, to_apply=c", ROW, "must return a scalar, not f32[2]"},
    {"f32[4,4]", "f32[4,4] sort(p0), dimensions={0,1}, to_apply=s", GREATER, "exactly one dimension"},
    {"f32[4,4]", "f32[4,4] sort(p0), dimensions={0}, to_apply=s", CHOOSE_FLOAT, "pred[]"},
    {"f32[4,4];f32[5,4]", "(f32[4,4],f32[5,4]) sort(p0,p1), dimensions={0}, to_apply=s", GREATER,
     "but dimension 0 of the others"},
    {"f32[]", "(f32[],s32[]) topk(p0), k=1, largest=true", "", "top-k of a scalar"},
    // gather and scatter
    {"f32[4,4];s32[2,1]",
     "f32[2,4] gather(p0,p1), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
     "index_vector_dim=1, slice_sizes={1}",
     "", "1 slice sizes for f32[4,4]"},
    {"f32[4,4];s32[2,1]",
     "f32[2,4] gather(p0,p1), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
     "index_vector_dim=1, slice_sizes={2,4}",
     "", "slice size 2 of dimension 0, which is collapsed"},
    {"f32[4,4];s32[2,1]",
     "f32[2,4] gather(p0,p1), offset_dims={2,1}, collapsed_slice_dims={}, start_index_map={0}, "
     "index_vector_dim=1, slice_sizes={1,4}",
     "", "is not in ascending order"},
    {"f32[4,4];s32[2,1]",
     "f32[2,4] gather(p0,p1), offset_dims={1}, collapsed_slice_dims={}, start_index_map={0}, "
     "index_vector_dim=1, slice_sizes={1,4}",
     "", "but 2 of the operand's 2 remain"},
    {"f32[4,4];s32[4,1]",
     "f32[4] gather(p0,p1), offset_dims={}, collapsed_slice_dims={0}, start_index_map={1}, "
     "operand_batching_dims={0}, start_indices_batching_dims={0}, index_vector_dim=1, slice_sizes={1,1}",
     "", "is in both"},
    {"f32[4,4];s32[4,1]",
     "f32[4] gather(p0,p1), offset_dims={}, collapsed_slice_dims={1}, start_index_map={1}, "
     "operand_batching_dims={0}, start_indices_batching_dims={1}, index_vector_dim=1, slice_sizes={1,1}",
     "", "has the index vector dimension 1"},
    {"f32[4,4];s32[4,1]",
     "f32[4] gather(p0,p1), offset_dims={}, collapsed_slice_dims={1}, start_index_map={1}, "
     "operand_batching_dims={0}, start_indices_batching_dims={}, index_vector_dim=1, slice_sizes={1,1}",
     "", "dimensions in"},
    {"f32[4,4];s32[3,1]",
     "f32[3] gather(p0,p1), offset_dims={}, collapsed_slice_dims={1}, start_index_map={1}, "
     "operand_batching_dims={0}, start_indices_batching_dims={0}, index_vector_dim=1, slice_sizes={1,1}",
     "", "has size 4 in the operand and 3 in"},
    {"f32[4,4];s32[2,1];f32[2]",
     "f32[4,4] scatter(p0,p1,p2), update_window_dims={1}, inserted_window_dims={0}, "
     "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=c",
     ADD, "updates must have rank 2"},
    {"f32[4,4];s32[2,1];f32[2,5]",
     "f32[4,4] scatter(p0,p1,p2), update_window_dims={1}, inserted_window_dims={0}, "
     "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=c",
     ADD, "has size 5, the operand only 4"},
    {"f32[4,4];s32[2,1];s32[2,4]",
     "f32[4,4] scatter(p0,p1,p2), update_window_dims={1}, inserted_window_dims={0}, "
     "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=c",
     ADD, "updates of element type s32"},
    // control
    {"s32[];f32[2];f32[2]", "f32[2] conditional(p0,p1,p2), branch_computations={a,b}",
     SAME("a", "f32[2]") "b {\n x = f32[2] "
                         "parameter(0)\n ROOT y = s32[2] convert(x)\n}\n",
     "branch 0 returns f32[2], branch 1 returns s32[2]"},
    {"pred[];f32[2];f32[2];f32[2]", "f32[2] conditional(p0,p1,p2,p3), branch_computations={a,b,c}",
     SAME("a", "f32[2]") SAME("b", "f32[2]") SAME("c", "f32[2]"), "no attribute 'branch_computations'"},
    {"f32[2]", "f32[2] while(p0), condition=c, body=b", SAME("c", "f32[2]") SAME("b", "f32[2]"),
     "the condition must return pred[], not f32[2]"},
    {"f32[2]", "f32[2] while(p0), condition=c, body=b",
     TRUE_OF("c", "f32[2]") "b {\n x = f32[2] parameter(0)\n ROOT y = "
                            "f32[3] constant({1,2,3})\n}\n",
     "the body takes f32[2], but returns f32[3]"},
    {"f32[2]", "token[] after-all(p0)", "", "operand 0 must be a token"},
    {"f32[2]", "f32[2] custom-call(p0), custom_call_target=\"x\", window={size=3 stride=0}", "",
     "the window has stride 0 in dimension 0"},
    {"f32[2]", "f32[2] custom-call(p0), custom_call_target=\"x\", window={size=3 lhs_dilate=0}", "",
     "the window has dilation 0 of the base and 1 of the window in dimension 0"},
    {"f32[9]", "f32[1] reduce-window(p0,p0), window={size=0}, to_apply=c", ADD, "reduce-window"},
    {"f16[2];f16[2]", "c64[2] complex(p0,p1)", "", "there is no complex type with parts of f16"},
    {"f32[4]", "f32[2] slice(p0), slice={[0:4:0]}", "", "stride 0 in dimension 0"},
    {"c64[4]", "c64[4] fft(p0), fft_type=FFT, fft_length={}", "", "no FFT length"},
    {"c64[4]", "c64[4] fft(p0), fft_type=FFT, fft_length={2,4}", "", "2 FFT lengths for c64[4]"},
    {"c64[4]", "c64[4] fft(p0), fft_type=FFT, fft_length={-4}", "", "negative FFT length -4"},
    {"f32[1,4,2];f32[3,2,5]",
     "f32[1,2,5] convolution(p0,p1), window={size=3}, dim_labels=b0f_0io->b0f, feature_group_count=0", "",
     "a convolution of 0 groups"},
    {"f32[1,4,6];f32[3,2,5]", "f32[1,2,5] convolution(p0,p1), window={size=3}, dim_labels=b0f_0io->b0f", "",
     "6 input features in 1 groups do not fit kernels of 2"},
    {"f32[4,4];s32[2,3]",
     "f32[2] gather(p0,p1), offset_dims={}, collapsed_slice_dims={0,1}, start_index_map={0,1}, index_vector_dim=1, "
     "slice_sizes={1,1}",
     "", "start_index_map {0,1} for index vectors of size 3"},
    {"f32[4];f32[]", "f32[2] dynamic-slice(p0,p1), dynamic_slice_sizes={2}", "", "must be"},
    {"f32[2]", "f32[2] custom-call(p0), custom_call_target=\"x\", operand_layout_constraints={f32[2]{0}, f32[2]{0}}",
     "", "1 operands, but 2 operand_layout_constraints"},
    {"f32[2]", "f32[2] custom-call(p0), custom_call_target=\"x\", operand_layout_constraints={f32[3]{0}}", "",
     "does not have the shape of its operand"},
    {"f32[2]", "f32[2] async-start(p0), calls=c", SAME("c", "f32[2]"), "must be ((operands), result, ...)"},
    {"f32[2]", "((f32[2],f32[2]),f32[2]) async-start(p0), calls=c", SAME("c", "f32[2]"),
     "as its operands, but there are 1"},
    {"f32[2]", "((f32[3]),f32[2]) async-start(p0), calls=c", SAME("c", "f32[2]"), "operand 0 is f32[2]"},
    {"f32[2]", "((f32[2]),f32[3]) async-start(p0), calls=c", SAME("c", "f32[2]"), "the computation returns f32[2]"},
    {"f32[2];token[]", "token[] outfeed(p0,p1), outfeed_shape=f32[3]", "", "outfeed_shape f32[3]"},
    // collectives
    {"f32[4]", "f32[6] all-gather(p0), dimensions={0}, replica_groups={}", "", "dimension 0 goes from size 4 to 6"},
    {"f32[4]", "f32[4] all-gather(p0), dimensions={1}, replica_groups={{0,1}}", "", "dimension 1"},
    {"f32[4]", "f32[4] all-reduce(p0), replica_groups={}, to_apply=c", ONE, "takes 1 parameters instead of 2"},
    {"f32[4];f32[4]", "(f32[2],f32[2]) all-to-all(p0,p1), dimensions={0}, replica_groups={{0,1}}", "",
     "2 operands with a split dimension"},
    {"f32[4];f32[2]", "(f32[4],f32[2]) all-to-all(p0,p1), replica_groups={{0,1}}", "", "operands of shapes"},
    {"f32[4];f32[4];f32[2];s32[2];s32[2];s32[2]", "f32[4] ragged-all-to-all(p0,p1,p2,p3,p4,p5), replica_groups={{0,1}}",
     "", "operand 2 must be integers"},
    {"f32[4];f32[4];s32[2];s32[3];s32[2];s32[2]", "f32[4] ragged-all-to-all(p0,p1,p2,p3,p4,p5), replica_groups={{0,1}}",
     "", "offsets and sizes of shapes"},
    {"f32[4];f64[4];s32[2];s32[2];s32[2];s32[2]", "f64[4] ragged-all-to-all(p0,p1,p2,p3,p4,p5), replica_groups={{0,1}}",
     "", "operands of element types f32 and f64"},
    {"f32[4];f32[4];s32[2];s32[2];s32[2]", "f32[4] ragged-all-to-all(p0,p1,p2,p3,p4), replica_groups={{0,1}}", "",
     "6 operands"},
    // too few or too many operands, attributes and called computations
    {"f32[4]", "(f32[2],f32[2]) all-gather(), dimensions={0}", "", "all-gather: no operands"},
    {"f32[4]", "f32[6] all-gather(p0), dimensions={0}, replica_groups={{0}}", "",
     "all-gather: dimension 0 goes from size 4 to 6"},
    {"f32[4]", "f32[3] reduce-scatter(p0), dimensions={0}, to_apply=c", ADD,
     "reduce-scatter: dimension 0 goes from size 4 to 3"},
    {"f32[4];f32[4];s32[]", "f32[4] collective-permute(p0,p1,p2), source_target_pairs={{0,0}}, slice_sizes={{1}}", "",
     "collective-permute with slice_sizes takes four operands"},
    {"f32[4];f32[4];s32[];s32[]", "f32[4] collective-permute(p0,p1,p2), source_target_pairs={{0,0}}, slice_sizes={{1}}",
     "", "collective-permute with slice_sizes takes four operands"},
    {"f32[4]", "f32[4] conditional()", "", "conditional takes at least 1 operands"},
    {"pred[];f32[4]", "f32[4] conditional(p0,p1), true_computation=c", SAME("c", "f32[4]"),
     "conditional needs the attribute false_computation"},
    {"pred[];f32[4]", "f32[4] conditional(p0,p1), branch_computations={c}", SAME("c", "f32[4]"),
     "conditional has no attribute 'branch_computations'"},
    {"f32[4]", "f32[4] custom-call(p0), custom_call_target=\"x\", operand_layout_constraints={f32[4]{0}, f32[4]{0}}",
     "", "there are 1 operands, but 2 operand_layout_constraints"},
    {"f32[4]", "f32[4] custom-call(p0), custom_call_target=\"x\", operand_layout_constraints={f32[5]{0}}", "",
     "layout constraint 0 does not have the shape of its operand"},
    {"f32[4]", "f32[4] async-start(p0), calls=c", SAME("c", "f32[4]"),
     "the shape of async-start must be ((operands), result, ...)"},
    {"f32[4]", "(f32[4]) async-start(p0), calls=c", SAME("c", "f32[4]"),
     "the shape of async-start must be ((operands), result, ...)"},
    {"f32[4]", "f32[4] parameter(-1)", "", "parameter number out of range"},
    {"f32[4]", "f32[4] concatenate(), dimensions={0}", "", "concatenate takes at least 1 operands"},
    {"f32[4]", "broadcast(p0), dimensions={1}", "",
     "cannot infer the result shape of broadcast: broadcast: the result shape cannot be inferred from dimensions {1}"},
    {"f32[4]", "f32[4] pad(), padding=0_0", "", "pad takes 2 operands, not 0"},
    {"f32[4]", "f32[2] dynamic-slice(), dynamic_slice_sizes={2}", "", "dynamic-slice takes at least 1 operands"},
    {"f32[4]", "f32[4] dynamic-update-slice()", "", "dynamic-update-slice takes at least 2 operands"},
    {"f32[4];s32[]", "f32[4] dynamic-update-slice(p0)", "", "dynamic-update-slice takes at least 2 operands"},
    {"pred[4];(f32[4]);(f32[5])", "(f32[4]) select(p0,p1,p2)", "", "select: operand 1 must be an array, not (f32[4])"},
    {"pred[];(f32[4]);(f32[5])", "(f32[4]) select(p0,p1,p2)", "",
     "select: cannot select between (f32[4]) and (f32[5])"},
    {"f32[4]", "f32[] reduce(), dimensions={0}, to_apply=c", ADD, "reduce takes an even number of operands, not 0"},
    {"f32[4]", "f32[4] sort(), dimensions={0}, to_apply=c", ADD, "sort takes at least 1 operands"},
    {"f32[4]", "f32[4] sort(p0), dimensions={0,1}, to_apply=c", ADD, "sort has exactly one dimension"},
    {"f32[4]", "f32[4] sort(p0), dimensions={}, to_apply=c", ADD, "sort has exactly one dimension"},
    {"f32[4]", "f32[4] map(), dimensions={0}, to_apply=c", ADD, "map: no operands"},
    {"f32[4];f32[]", "(f32[4], f32[]) scan(p0,p1), dimensions={0,1}, num_carries=1, to_apply=c", ADD,
     "scan has exactly one dimension"},
    {"f32[4];f32[]", "(f32[4], f32[]) scan(p0,p1), dimensions={0}, num_carries=3, to_apply=c", ADD,
     "scan: 3 carries of 2 operands"},
    {"f32[4];f32[]", "(f32[4], f32[]) scan(p0,p1), dimensions={0}, num_carries=1, to_apply=c", ADD,
     "scan: the shape must be f32[], not (f32[4], f32[])"},
    {"f32[4];f32[]", "(f32[4], s32[]) scan(p0,p1), dimensions={0}, num_carries=1, to_apply=c",
     "c {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n k = s32[] constant(1)\n ROOT t = (f32[],s32[]) "
     "tuple(a,k)\n}\n",
     "scan: carry 0 goes in as f32[] and comes out as s32[]"},
    {"f32[4];f32[5];f32[]", "(f32[4], f32[]) scan(p0,p1,p2), dimensions={0}, num_carries=1, to_apply=c",
     "c {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n d = f32[] parameter(2)\n ROOT t = (f32[],f32[]) "
     "tuple(a,d)\n}\n",
     "scan: operand 1 is f32[5]: dimension 0 does not agree with operand 0"},
    {"f32[4];f32[]", "(f32[4], f32[]) scan(p0,p1), dimensions={3}, num_carries=1, to_apply=c",
     "c {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT t = (f32[],f32[]) tuple(a,b)\n}\n",
     "scan: dimensions {3} has dimension 3, but the rank is 1"},
    {"f32[4]", "infeed()", "", "infeed needs an explicit result shape"},
    {"f32[4]", "recv(p0), channel_id=1", "", "recv needs an explicit result shape"},
    {"f32[4]", "custom-call(p0), custom_call_target=\"x\"", "", "custom-call needs an explicit result shape"},
    {"f32[4,8,8,3];f32[3,3,3,16]", "f32[4,6,6,16] convolution(p0,p1), window={size=3x3}, dim_labels=b01f?_01io->b01f",
     "", "convolution: dimensions without a role ('?') are not supported"},
    {"f32[4,8,8,3];f32[3,3,3,16]", "f32[4,6,6,16] convolution(p0,p1), window={size=3x3}, dim_labels=b01f_0io->b01f", "",
     "input, kernel and result must have as many spatial dimensions"},
    {"f32[4,8,8];f32[3,3,3,16]", "f32[4,6,6,16] convolution(p0,p1), window={size=3x3}, dim_labels=b0f_01io->b0f", "",
     "input, kernel and result must have as many spatial dimensions"},
    {"f8e4m3fn[4,64];f8e4m3fn[4,64];f8e8m0fnu[4,0];f8e8m0fnu[4,2]",
     "f32[4,4] scaled-dot(p0,p1,p2,p3), lhs_contracting_dims={1}, rhs_contracting_dims={1}", "",
     "scaled-dot: 0 scales for dimension 1 of size 64"},
    {"f32[4]", "f32[4] copy-done(p0)", "", "copy-done: operand 0 must be the result of a copy-start, not f32[4]"},
    {"f32[4]", "f32[4] while(p0), condition=c, body=c", SAME("c", "f32[4]"),
     "while: the condition must return pred[], not f32[4]"},
    {"f32[4]", "f32[4] call(p0), to_apply=c", ADD, "call: computation c takes 2 parameters, but 1 are passed"},
    {"f32[4]", "f32[2] fusion(p0), kind=kLoop, calls=c", SAME("c", "f32[4]"),
     "fusion: the shape must be f32[4], not f32[2]"},
    {"(f32[4],s32[])", "f32[4] get-tuple-element(p0), index=2", "",
     "get-tuple-element: index 2 of a tuple of 2 elements"},
    {"f32[4]", "f32[4] get-tuple-element(p0), index=0", "", "get-tuple-element: operand 0 must be a tuple, not f32[4]"},
    {"f32[4]", "f32[4] get-dimension-size(p0), dimensions={0}", "",
     "get-dimension-size: the shape must be s32[], not f32[4]"},
    {"f32[4];s32[]", "f32[4] set-dimension-size(p0,p1), dimensions={1}", "",
     "set-dimension-size: dimensions {1} has dimension 1, but the rank is 1"},
    // types that have no precision to change
    {"c64[57]", "f16[57] real(p0)", "", "real: the shape must be f32[57], not f16[57]"},
    {"c64[57]", "f64[57] real(p0)", "", "real: the shape must be f32[57], not f64[57]"},
    {"c128[57]", "f32[57] imag(p0)", "", "imag: the shape must be f64[57], not f32[57]"},
    {"c64[57]", "bf16[57] abs(p0)", "", "abs: the shape must be f32[57], not bf16[57]"},
    {"c64[4,3]", "f64[4,4] fft(p0), fft_type=IRFFT, fft_length={4}", "",
     "fft: the shape must be f32[4,4], not f64[4,4]"},
    {"f32[4];f64[4]", "complex(p0,p1)", "", "complex: parts of element types f32 and f64"},
    {"f32[4]", "(f16[4]) tuple(p0)", "", "tuple: the shape must be (f32[4]), not (f16[4])"},
    {"(f32[4],s32[])", "f16[4] get-tuple-element(p0), index=0", "", "the shape must be f32[4], not f16[4]"},
    {"f32[4]", "(f16[4],f32[4],u32[]) copy-start(p0)", "", "copy-start: the shape must be (f32[4], f32[4], u32[])"},
    {"f32[4]", "f16[4] call(p0), to_apply=c", SAME("c", "f32[4]"), "call: the shape must be f32[4], not f16[4]"},
    {"f16[4]", "f32[4] call(p0), to_apply=c", SAME("c", "f32[4]"), "takes f32[4] as parameter 0, but f16[4] is passed"},
    {"f16[4]", "f16[4] while(p0), condition=t, body=c", TRUE_OF("t", "f16[4]") SAME("c", "f32[4]"),
     "takes f32[4] as parameter 0, but f16[4] is passed"},
    {"c64[2,2,2,2]", "c64[2,2,2,2] fft(p0), fft_type=FFT, fft_length={2,2,2,2}", "",
     "fft: 4 FFT lengths; an FFT has at most 3 dimensions"},
    {"u32[4]", "(u32[4],u32[8]) rng-bit-generator(p0), algorithm=rng_default", "",
     "the state must be u64[2] or u64[3], not u32[4]"},
    {"u64[4]", "(u64[4],u32[8]) rng-bit-generator(p0), algorithm=rng_default", "",
     "the state must be u64[2] or u64[3], not u64[4]"},
    {"u64[3]", "(u64[3],u32[8]) rng-bit-generator(p0), algorithm=rng_three_fry", "",
     "the state of rng_three_fry must be u64[2], not u64[3]"},
    {"f32[6];s32[]", "f32[7] dynamic-reshape(p0,p1)", "", "f32[6] has 6 elements, f32[7] has 7"},
    {"f32[4];f16[4];s32[];s32[]",
     "f16[4] collective-permute(p0,p1,p2,p3), source_target_pairs={{0,0}}, slice_sizes={{1}}", "",
     "collective-permute: input f32[4] for output f16[4]"},
    {"f32[4];f32[4];s32[];s32[]",
     "f32[4] collective-permute-start(p0,p1,p2,p3), source_target_pairs={{0,0}}, slice_sizes={{1}}", "",
     "collective-permute-start: the shape must be (f32[4], f32[4]), not f32[4]"},
    {"(f32[4],u32[],token[])", "token[] send-done(p0), channel_id=0", "", "send-done needs a channel_id of at least 1"},
    {"f32[4]", "f32[4] all-reduce(p0), use_global_device_ids=true, replica_groups={{0}}, to_apply=c", ADD,
     "use_global_device_ids=true needs a channel_id"},
    {"f32[4]", "f32[4] all-gather(p0), channel_id=-1, use_global_device_ids=true, replica_groups={{0}}, dimensions={0}",
     "", "use_global_device_ids=true needs a channel_id"},
    {"f32[4]", "f32[4] reduce-scatter(p0), channel_id=1, use_global_device_ids=true, dimensions={0}, to_apply=c", ADD,
     "use_global_device_ids=true needs replica_groups"},
    {"f32[4]", "f32[4] collective-permute(p0), source_target_pairs={{0,9223372036854775807}}", "",
     "names a device outside of"},
    {"f32[4];f32[8];s32[];s32[]",
     "f32[8] collective-permute(p0,p1,p2,p3), source_target_pairs={{0,1}}, slice_sizes={{4,1}}", "",
     "2 slice sizes for f32[4]"},
    {"f32[4];f32[8];s32[];s32[]",
     "f32[8] collective-permute(p0,p1,p2,p3), source_target_pairs={{0,1}}, slice_sizes={{5}}", "",
     "slice size 5 in dimension 0 of f32[4]"},
    {"f32[4];token[]", "(f32[4],u32[],token[]) send(p0,p1)", "", "send needs a channel_id of at least 1"},
    {"token[]", "(f32[4],u32[],token[]) recv(p0), channel_id=0", "", "recv needs a channel_id of at least 1"},
    {"f32[4];f32[4]", "s32[4] compare(p0,p1), direction=LT", "", "compare: the shape must be pred[4], not s32[4]"},
    {"f32[4];f32[5]", "f32[4] add(p0,p1)", "", "add: operand 1 is f32[5], but dimension 0 of the others has size 4"},
    {"f32[4]", "f32[4] domain(p0), domain={kind=\"sharding\", entry={replicated}, exit={devices=[2]0}}", "",
     "there are 1 devices for 2 tiles"},
};

Test(ir_refused, every_rule_of_shape_inference_names_what_breaks_it) {
    for (size_t i = 0; i < HLO_COUNT_OF(cases); i++) {
        HloText text = {0};
        cases_program(&text, cases[i].parameters, cases[i].root, cases[i].called);
        HloModule *module = NULL;
        HloStatus status = hlo_parse(text.data, text.length, NULL, &module);
        if (!status) status = hlo_verify(module);
        cr_expect_eq(hlo_status_code(status), HLO_INVALID_ARGUMENT, "(%s) %s: %s", cases[i].parameters, cases[i].root,
                     hlo_status_message(status));
        cr_expect_not_null(strstr(hlo_status_message(status), cases[i].part), "(%s) %s: '%s' is not in '%s'",
                           cases[i].parameters, cases[i].root, cases[i].part, hlo_status_message(status));
        hlo_status_free(status);
        hlo_module_free(module);
        hlo_text_free(&text);
    }
}

// bug: text has no arrays of more than 64 dimensions, but messages and builders had, and kernels did not expect them.
Test(ir_refused, bug_arrays_of_more_dimensions_than_text_has) {
    int64_t dims[65];
    for (int i = 0; i < 65; i++) dims[i] = 1;
    must_fail(hlo_shape_check_dims(HLO_F32, dims, 65), HLO_INVALID_ARGUMENT, "65 dimensions are more than 64");
    must_succeed(hlo_shape_check_dims(HLO_F32, dims, 64));
}

// bug: tuples of one tuple twice were 2^40 arrays, each of which something then looked at.
Test(ir_refused, bug_values_of_2_to_the_n_arrays) {
    HloText text = {0};
    hlo_text_string(&text, "HloModule m\nENTRY e {\n t0 = f32[2] parameter(0)\n");
    for (int i = 1; i <= 40; i++)
        hlo_text_format(&text, " %st%d = tuple(t%d, t%d)\n", i == 40 ? "ROOT " : "", i, i - 1, i - 1);
    hlo_text_string(&text, "}\n");
    HloModule *module = NULL;
    must_fail(hlo_parse(text.data, text.length, NULL, &module), HLO_INVALID_ARGUMENT,
              "tuple: a value of more than 1048576 arrays");
    hlo_text_free(&text);
}

// bug: a recv-done from the host after a recv from a device read uninitialised memory.
Test(ir_refused, bug_a_done_of_the_host_for_a_start_of_a_device) {
    static const char *const programs[] = {
        "v = (f32[4], u32[], token[]) recv(t), channel_id=1\n"
        " ROOT r = (f32[4], token[]) recv-done(v), channel_id=1, is_host_transfer=true",
        "v = (f32[4], u32[], token[]) send(p, t), channel_id=1, is_host_transfer=true\n"
        " ROOT r = token[] send-done(v), channel_id=1"};
    for (size_t i = 0; i < HLO_COUNT_OF(programs); i++) {
        HloText text = {0};
        hlo_text_format(&text, "HloModule m\nENTRY e {\n p = f32[4] parameter(0)\n t = token[] after-all()\n %s\n}\n",
                        programs[i]);
        HloModule *module = NULL;
        must_succeed(hlo_parse(text.data, text.length, NULL, &module));
        must_fail(hlo_verify(module), HLO_INVALID_ARGUMENT, "has is_host_transfer=true");
        hlo_module_free(module);
        hlo_text_free(&text);
    }
}

// bug: parameter_replication of more elements than the parameter has arrays was read.
Test(ir_refused, bug_parameter_replication_of_another_length) {
    const char *text =
        "HloModule m\nENTRY e {\n  ROOT p = (f32[4], f32[4]) parameter(0), "
        "parameter_replication={true,false,true}\n}\n";
    HloModule *module = NULL;
    must_succeed(hlo_parse(text, strlen(text), NULL, &module));
    must_fail(hlo_verify(module), HLO_INVALID_ARGUMENT, "3 elements, but the parameter has 2 arrays");
    hlo_module_free(module);
}

// bug: a list of two million numbers was a message of four megabytes, with the line of as many below.
Test(ir_refused, bug_messages_of_megabytes) {
    HloText text = {0};
    hlo_text_string(&text,
                    "HloModule m\nENTRY e {\n  p = f32[8] parameter(0)\n  ROOT t = f32[8] transpose(p), dimensions={0");
    for (int i = 0; i < 100000; i++) hlo_text_string(&text, ",0");
    hlo_text_string(&text, "}\n}\n");
    HloModule *module = NULL;
    HloStatus status = hlo_parse(text.data, text.length, NULL, &module);
    if (!status) status = hlo_verify(module);
    char *report = hlo_status_to_text(status);
    cr_assert_not_null(report);
    cr_expect_lt(strlen(report), 2000);
    cr_expect(strstr(report, "permutation {0,0,"), "%.200s", report);
    hlo_free(report);
    hlo_status_free(status);
    hlo_module_free(module);
    hlo_text_free(&text);
}
