// SPDX-License-Identifier: Apache-2.0
// Every dimension of every operand and result of an op is cut in turn, over even, uneven and size-one shards: the
// partitioned op gives what the whole one gives.
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "hlo/text/text.h"
#include "hlo/verify/verify.h"
#include "tests/spmd/check.h"
#include "tests/support/cases.h"
#include "tests/support/random.h"

// `sizes` replace A, B, C in the program, one set a run; the mesh is w=4 or x=2, y=2.
typedef struct Cut {
    const char *name, *program;
    int sizes[3][3];
} Cut;

#define SUM "sum {\n x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT z = f32[] add(x, y)\n}\n"
#define MAXIMUM "most {\n x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT z = f32[] maximum(x, y)\n}\n"
#define LESS \
    "less {\n x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT z = pred[] compare(x, y), direction=LT\n}\n"
#define EVEN \
    { 8, 16, 4 }
#define UNEVEN \
    { 6, 7, 5 }
#define SMALL \
    { 4, 4, 3 }
#define ALL \
    { EVEN, UNEVEN, SMALL }

static const Cut cuts[] = {
    {"concatenate",
     "ENTRY e {\n p = f32[A,3] parameter(0)\n q = f32[B,3] parameter(1)\n r = f32[C,3] parameter(2)\n"
     " ROOT c = f32[{A+B+C},3] concatenate(p, q, r), dimensions={0}\n}\n",
     ALL},
    {"reshape to other groups", "ENTRY e {\n p = f32[A,B,3] parameter(0)\n ROOT c = f32[B,1,A,3] reshape(p)\n}\n", ALL},
    {"concatenate with itself",
     "ENTRY e {\n p = s32[A,B] parameter(0)\n"
     " ROOT c = s32[A,{B+B}] concatenate(p, p), dimensions={1}\n}\n",
     ALL},
    {"concatenate ten",
     "ENTRY e {\n p = f32[A,3] parameter(0)\n q = f32[B,3] parameter(1)\n z = f32[] constant(4)\n"
     " f = f32[A,3] broadcast(z), dimensions={}\n"
     " ROOT c = f32[{A+A+A+A+A+A+B+B+B+B},3] concatenate(p, q, p, f, q, p, p, q, p, q), dimensions={0}\n}\n",
     ALL},
    {"concatenate a part without elements",
     "ENTRY e {\n p = f32[A,3] parameter(0)\n q = f32[0,3] parameter(1)\n"
     " ROOT c = f32[{A+A},3] concatenate(p, q, p), dimensions={0}\n}\n",
     ALL},
    {"halves",
     "ENTRY e {\n p = f32[{A+A},B] parameter(0)\n s = f32[A,B] slice(p), slice={[0:A], [0:B]}\n"
     " t = f32[A,B] slice(p), slice={[A:{A+A}], [0:B]}\n ROOT c = (f32[A,B], f32[A,B]) tuple(s, t)\n}\n",
     ALL},
    {"pad with holes between",
     "ENTRY e {\n p = f32[A,B] parameter(0)\n z = f32[] constant(9)\n"
     " ROOT c = f32[{A+A+A},{B+B+3}] pad(p, z), padding=2_0_2x-1_5_1\n}\n",
     ALL},
    {"rotate",
     "ENTRY e {\n p = f32[A,B] parameter(0)\n s = f32[A,{B-1}] slice(p), slice={[0:A], [1:B]}\n"
     " t = f32[A,1] slice(p), slice={[0:A], [0:1]}\n ROOT c = f32[A,B] concatenate(s, t), dimensions={1}\n}\n",
     ALL},
    {"pad inside",
     "ENTRY e {\n p = f32[A,B] parameter(0)\n z = f32[] constant(9)\n"
     " ROOT c = f32[{A+A+2},{B+B}] pad(p, z), padding=1_2_1x0_1_1\n}\n",
     ALL},
    {"pad away",
     "ENTRY e {\n p = f32[A,B] parameter(0)\n z = f32[] constant(9)\n"
     " ROOT c = f32[{A-2},{B+1}] pad(p, z), padding=-1_-1x-2_3\n}\n",
     ALL},
    {"slice with steps",
     "ENTRY e {\n p = f32[A,{B+B}] parameter(0)\n"
     " ROOT c = f32[{A-1},{B-1}] slice(p), slice={[1:A], [1:{B+B-2}:2]}\n}\n",
     ALL},
    {"reverse", "ENTRY e {\n p = f32[A,B] parameter(0)\n ROOT c = f32[A,B] reverse(p), dimensions={0,1}\n}\n", ALL},
    {"convolution",
     "ENTRY e {\n p = f32[C,A,B,4] parameter(0)\n k = f32[3,3,4,6] parameter(1)\n"
     " ROOT c = f32[C,A,B,6] convolution(p, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f\n}\n",
     ALL},
    {"convolution with strides",
     "ENTRY e {\n p = f32[C,{A+A},B,4] parameter(0)\n k = f32[3,2,4,6] parameter(1)\n"
     " ROOT c = f32[C,A,{B+1},6] convolution(p, k), window={size=3x2 stride=2x1 pad=0_1x1_1}, "
     "dim_labels=b01f_01io->b01f\n}\n",
     ALL},
    {"convolution with holes",
     "ENTRY e {\n p = f32[2,A,B,4] parameter(0)\n k = f32[2,2,4,3] parameter(1)\n"
     " ROOT c = f32[2,{A-2},B,3] convolution(p, k), window={size=2x2 pad=0_0x1_2 rhs_dilate=2x3 rhs_reversal=1x0}, "
     "dim_labels=b01f_01io->b01f\n}\n",
     ALL},
    {"convolution over a base with holes, with strides",
     "ENTRY e {\n p = f32[2,A,B,4] parameter(0)\n k = f32[3,2,4,3] parameter(1)\n"
     " ROOT c = f32[2,A,{B+B+B},3] convolution(p, k), window={size=3x2 stride=2x1 pad=2_1x1_2 lhs_dilate=2x3}, "
     "dim_labels=b01f_01io->b01f\n}\n",
     ALL},
    {"convolution of one element over a base with holes",
     "ENTRY e {\n p = f32[2,A,4] parameter(0)\n k = f32[1,4,3] parameter(1)\n"
     " ROOT c = f32[2,{A+A+A},3] convolution(p, k), window={size=1 pad=0_2 lhs_dilate=3}, dim_labels=b0f_0io->b0f\n}\n",
     ALL},
    {"gradient of a convolution's input",
     "ENTRY e {\n p = f32[C,A,B,4] parameter(0)\n k = f32[3,3,6,4] parameter(1)\n"
     " ROOT c = f32[C,{A+A},{B+B},6] convolution(p, k), window={size=3x3 pad=1_2x2_1 lhs_dilate=2x2 rhs_reversal=1x1}, "
     "dim_labels=b01f_01oi->b01f\n}\n",
     ALL},
    {"gradient of a convolution's kernel",
     "ENTRY e {\n p = f32[A,B,4,C] parameter(0)\n g = f32[A,B,4,2] parameter(1)\n"
     " ROOT c = f32[3,3,C,2] convolution(p, g), window={size=Bx4 pad=1_1x1_1}, dim_labels=f01b_i01o->01bf\n}\n",
     ALL},
    {"gradient of a kernel with strides",
     "ENTRY e {\n p = f32[A,{B+B},C] parameter(0)\n g = f32[A,B,2] parameter(1)\n"
     " ROOT c = f32[3,C,2] convolution(p, g), window={size=B pad=0_1 rhs_dilate=2}, dim_labels=f0b_i0o->0bf\n}\n",
     ALL},
    {"convolution in groups",
     "ENTRY e {\n p = f32[2,B,A] parameter(0)\n k = f32[3,1,{A+A}] parameter(1)\n"
     " ROOT c = f32[2,B,{A+A}] convolution(p, k), window={size=3 pad=1_1}, dim_labels=b0f_0io->b0f, "
     "feature_group_count=A\n}\n",
     ALL},
    {"convolution in batch groups",
     "ENTRY e {\n p = f32[{A+A},B,3] parameter(0)\n k = f32[3,3,{A+A}] parameter(1)\n"
     " ROOT c = f32[2,B,{A+A}] convolution(p, k), window={size=3 pad=1_1}, dim_labels=b0f_0io->b0f, "
     "batch_group_count=A\n}\n",
     ALL},
    {"reduce-window",
     SUM "ENTRY e {\n p = f32[A,B] parameter(0)\n z = f32[] constant(0)\n"
         " ROOT c = f32[{A-1},B] reduce-window(p, z), window={size=2x3 pad=0_0x1_1}, to_apply=sum\n}\n",
     ALL},
    {"reduce-window from one",
     SUM "ENTRY e {\n p = f32[A,B] parameter(0)\n z = f32[] constant(1)\n"
         " ROOT c = f32[A,B] reduce-window(p, z), window={size=3x3 pad=1_1x2_0}, to_apply=sum\n}\n",
     ALL},
    {"bug: the init value of an xor of windows counted beside the array too",
     "xor {\n a = s32[] parameter(0)\n b = s32[] parameter(1)\n ROOT c = s32[] xor(a, b)\n}\n"
     "ENTRY e {\n p = s32[A,B] parameter(0)\n z = s32[] constant(5)\n"
     " ROOT c = s32[A,B] reduce-window(p, z), window={size=3x3 pad=1_1x2_0}, to_apply=xor\n}\n",
     ALL},
    {"bug: windows that are wider than memory, nearly all in padding, were taken from neighbours",
     SUM "ENTRY e {\n p = f32[A,B] parameter(0)\n z = f32[] constant(0)\n ROOT c = f32[A,B] reduce-window(p, z), "
         "window={size=70368744177664x3 pad=70368744177600_63x1_1}, to_apply=sum\n}\n",
     ALL},
    {"reduce-window with holes in the base",
     SUM "ENTRY e {\n p = f32[A,B] parameter(0)\n z = f32[] constant(0)\n"
         " ROOT c = f32[A,{B+B}] reduce-window(p, z), window={size=1x3 pad=0_0x1_2 lhs_dilate=1x2}, to_apply=sum\n}\n",
     ALL},
    {"cumulative sum",
     SUM "ENTRY e {\n p = f32[A,B] parameter(0)\n z = f32[] constant(0)\n"
         " ROOT c = f32[A,B] reduce-window(p, z), window={size=1xB pad=0_0x{B-1}_0}, to_apply=sum\n}\n",
     ALL},
    {"cumulative maximum from the end",
     MAXIMUM "ENTRY e {\n p = f32[A,B] parameter(0)\n z = f32[] constant(-inf)\n"
             " ROOT c = f32[A,B] reduce-window(p, z), window={size=Ax1 pad=0_{A-1}x0_0}, to_apply=most\n}\n",
     ALL},
    {"select-and-scatter",
     SUM
     "ge {\n x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT z = pred[] compare(x, y), "
     "direction=GE\n}\nENTRY e {\n p = f32[{A+A},B] parameter(0)\n s = f32[A,{B-1}] parameter(1)\n z = f32[] "
     "constant(0)\n"
     " ROOT c = f32[{A+A},B] select-and-scatter(p, s, z), window={size=2x2 stride=2x1}, select=ge, scatter=sum\n}\n",
     ALL},
    {"select-and-scatter over the border",
     SUM "ge {\n x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT z = pred[] compare(x, y), "
         "direction=GE\n}\nENTRY e {\n p = f32[{A+A},B] parameter(0)\n s = f32[A,{B+1}] parameter(1)\n z = f32[] "
         "constant(0)\n"
         " ROOT c = f32[{A+A},B] select-and-scatter(p, s, z), window={size=3x2 stride=2x1 pad=1_0x1_1}, select=ge, "
         "scatter=sum\n}\n",
     ALL},
    {"select-and-scatter of a padded array",
     SUM "ge {\n x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT z = pred[] compare(x, y), "
         "direction=GE\n}\nENTRY e {\n p = f32[{A+A},B] parameter(0)\n s = f32[A,B] parameter(1)\n z = f32[] "
         "constant(0)\n m = f32[] constant(-inf)\n q = f32[{A+A+1},{B+2}] pad(p, m), padding=1_0x1_1\n"
         " t = f32[{A+A+1},{B+2}] select-and-scatter(q, s, z), window={size=3x3 stride=2x1}, select=ge, scatter=sum\n"
         " ROOT c = f32[{A+A},B] slice(t), slice={[1:{A+A+1}], [1:{B+1}]}\n}\n",
     ALL},
    {"reduce-window of an array with holes",
     SUM "ENTRY e {\n p = f32[A,B] parameter(0)\n z = f32[] constant(0)\n"
         " q = f32[{A+A+2},{B+1}] pad(p, z), padding=2_1_1x0_1\n"
         " ROOT c = f32[{A+A},B] reduce-window(q, z), window={size=3x2}, to_apply=sum\n}\n",
     ALL},
    {"an update of the inside, computed of slices",
     "set {\n x = f32[] parameter(0)\n ROOT y = f32[] parameter(1)\n}\nENTRY e {\n p = f32[{A+2},{B+2}] parameter(0)\n"
     " i = s32[2] constant({1, 1})\n s = f32[A,B] slice(p), slice={[0:A], [1:{B+1}]}\n"
     " t = f32[A,B] slice(p), slice={[2:{A+2}], [2:{B+2}]}\n h = f32[] constant(0.5)\n"
     " k = f32[A,B] broadcast(h), dimensions={}\n a = f32[A,B] add(s, t)\n u = f32[A,B] multiply(a, k)\n"
     " ROOT c = f32[{A+2},{B+2}] scatter(p, i, u), update_window_dims={0,1}, inserted_window_dims={}, "
     "scatter_dims_to_operand_dims={0,1}, index_vector_dim=0, to_apply=set\n}\n",
     ALL},
    {"an addition to most of an array",
     SUM "ENTRY e {\n p = f32[{A+1},B,1] parameter(0)\n u = f32[1,A,B] parameter(1)\n j = s32[] constant(1)\n"
         " i = s32[1,1] broadcast(j), dimensions={}\n"
         " ROOT c = f32[{A+1},B,1] scatter(p, i, u), update_window_dims={1,2}, inserted_window_dims={2}, "
         "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum\n}\n",
     ALL},
    {"dynamic-update-slice of most of an array",
     "ENTRY e {\n p = s32[{A+2},B] parameter(0)\n u = s32[A,B] parameter(1)\n z = s32[] constant(0)\n"
     " j = s32[] constant(2)\n n = s32[A,B] negate(u)\n"
     " ROOT c = s32[{A+2},B] dynamic-update-slice(p, n, j, z)\n}\n",
     ALL},
    {"select-and-scatter with gaps",
     SUM
     "ge {\n x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT z = pred[] compare(x, y), "
     "direction=GE\n}\nENTRY e {\n p = f32[{A+A},B] parameter(0)\n s = f32[A,B] parameter(1)\n z = f32[] "
     "constant(0)\n"
     " ROOT c = f32[{A+A},B] select-and-scatter(p, s, z), window={size=1x1 stride=2x1}, select=ge, scatter=sum\n}\n",
     ALL},
    {"sort",
     LESS "ENTRY e {\n p = f32[A,B] parameter(0)\n ROOT c = f32[A,B] sort(p), dimensions={1}, to_apply=less\n}\n", ALL},
    {"sort of one dimension",
     LESS "ENTRY e {\n p = f32[B] parameter(0)\n ROOT c = f32[B] sort(p), dimensions={0}, "
          "to_apply=less\n}\n",
     ALL},
    {"topk of truth values",
     "ENTRY e {\n p = f32[A,B] parameter(0)\n z = f32[] constant(0)\n zs = f32[A,B] broadcast(z), dimensions={}\n"
     " q = pred[A,B] compare(p, zs), direction=GT\n ROOT c = (pred[A,3], s32[A,3]) topk(q), k=3, largest=true\n}\n",
     ALL},
    {"topk", "ENTRY e {\n p = f32[A,B] parameter(0)\n ROOT c = (f32[A,3], s32[A,3]) topk(p), k=3, largest=true\n}\n",
     ALL},
    {"fft", "ENTRY e {\n p = c64[A,B,C] parameter(0)\n ROOT c = c64[A,B,C] fft(p), fft_type=FFT, fft_length={B,C}\n}\n",
     ALL},
    {"cholesky",
     "ENTRY e {\n p = f32[A,3,3] parameter(0)\n i = s32[3,3] iota(), iota_dimension=0\n"
     " j = s32[3,3] iota(), iota_dimension=1\n q = pred[3,3] compare(i, j), direction=EQ\n d = f32[3,3] convert(q)\n"
     " f = f32[] constant(40)\n g = f32[3,3] broadcast(f), dimensions={}\n h = f32[3,3] multiply(d, g)\n"
     " b = f32[A,3,3] broadcast(h), dimensions={1,2}\n s = f32[A,3,3] add(p, b)\n ROOT c = f32[A,3,3] cholesky(s), "
     "lower=true\n}\n",
     ALL},
    {"triangular-solve",
     "ENTRY e {\n p = f32[A,3,3] parameter(0)\n q = f32[A,3,B] parameter(1)\n i = s32[3,3] iota(), "
     "iota_dimension=0\n j = s32[3,3] iota(), iota_dimension=1\n k = pred[3,3] compare(i, j), direction=EQ\n"
     " d = f32[3,3] convert(k)\n f = f32[] constant(40)\n g = f32[3,3] broadcast(f), dimensions={}\n"
     " h = f32[3,3] multiply(d, g)\n b = f32[A,3,3] broadcast(h), dimensions={1,2}\n s = f32[A,3,3] add(p, b)\n"
     " ROOT c = f32[A,3,B] triangular-solve(s, q), left_side=true, lower=true, transpose_a=NO_TRANSPOSE\n}\n",
     ALL},
    {"batch-norm-training",
     "ENTRY e {\n p = f32[A,B,C] parameter(0)\n s = f32[B] parameter(1)\n o = f32[B] parameter(2)\n"
     " ROOT c = (f32[A,B,C], f32[B], f32[B]) batch-norm-training(p, s, o), epsilon=0.5, feature_index=1\n}\n",
     ALL},
    {"batch-norm-grad",
     "ENTRY e {\n p = f32[A,B] parameter(0)\n s = f32[B] parameter(1)\n m = f32[B] parameter(2)\n"
     " v = f32[B] parameter(3)\n w = f32[B] multiply(v, v)\n g = f32[A,B] parameter(4)\n"
     " ROOT c = (f32[A,B], f32[B], f32[B]) batch-norm-grad(p, s, m, w, g), epsilon=0.5, feature_index=1\n}\n",
     ALL},
    {"ragged-dot",
     "ENTRY e {\n p = f32[A,B] parameter(0)\n q = f32[3,B,C] parameter(1)\n g = s32[3] constant({1, 0, 2})\n"
     " ROOT c = f32[A,C] ragged-dot(p, q, g), lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, "
     "rhs_group_dims={0}\n}\n",
     ALL},
    {"ragged-dot over a ragged sum",
     "ENTRY e {\n p = f32[A,B] parameter(0)\n q = f32[B,C] parameter(1)\n"
     " g = s32[3] constant({2, 1, 1})\n ROOT c = f32[3,A,C] ragged-dot(p, q, g), lhs_contracting_dims={1}, "
     "rhs_contracting_dims={0}, lhs_ragged_dims={1}\n}\n",
     ALL},
    {"ragged-dot with sizes for each batch",
     "ENTRY e {\n p = f32[A,B,3] parameter(0)\n q = f32[2,A,3,C] parameter(1)\n g = s32[A,2] iota(), iota_dimension=0\n"
     " ROOT c = f32[A,B,C] ragged-dot(p, q, g), lhs_batch_dims={0}, rhs_batch_dims={1}, lhs_contracting_dims={2}, "
     "rhs_contracting_dims={2}, lhs_ragged_dims={1}, rhs_group_dims={0}\n}\n",
     ALL},
    {"ragged-dot over a ragged sum with sizes for each place in front of it",
     "ENTRY e {\n p = f32[A,B,C] parameter(0)\n q = f32[B,C,3] parameter(1)\n g = s32[B,2] iota(), iota_dimension=0\n"
     " ROOT c = f32[2,A,3] ragged-dot(p, q, g), lhs_contracting_dims={1,2}, rhs_contracting_dims={0,1}, "
     "lhs_ragged_dims={2}\n}\n",
     ALL},
    {"scaled-dot",
     "ENTRY e {\n p = f32[A,{B+B}] parameter(0)\n q = f32[{B+B},C] parameter(1)\n s = f32[A,B] parameter(2)\n"
     " t = f32[B,1] parameter(3)\n ROOT c = f32[A,C] scaled-dot(p, q, s, t), lhs_contracting_dims={1}, "
     "rhs_contracting_dims={0}\n}\n",
     ALL},
    {"scan",
     "step {\n x = f32[B] parameter(0)\n c = f32[B] parameter(1)\n s = f32[B] add(c, x)\n m = f32[B] maximum(s, x)\n"
     " ROOT t = (f32[B], f32[B]) tuple(m, s)\n}\nENTRY e {\n p = f32[A,B] parameter(0)\n q = f32[B] parameter(1)\n"
     " ROOT c = (f32[A,B], f32[B]) scan(p, q), dimensions={0}, to_apply=step, num_carries=1, is_reverse=true\n}\n",
     ALL},
    {"scan and batch-norm in the middle",
     "step {\n x = f32[B] parameter(0)\n c = f32[B] parameter(1)\n s = f32[B] add(c, x)\n"
     " ROOT t = (f32[B], f32[B]) tuple(s, s)\n}\nENTRY e {\n p = f32[A,B] parameter(0)\n q = f32[B] parameter(1)\n"
     " n = (f32[A,B], f32[B], f32[B]) batch-norm-training(p, q, q), epsilon=1, feature_index=1\n"
     " m = f32[A,B] get-tuple-element(n), index=0\n c = (f32[A,B], f32[B]) scan(m, q), dimensions={0}, to_apply=step, "
     "num_carries=1\n d = f32[A,B] get-tuple-element(c), index=0\n ROOT r = f32[A,B] add(d, p)\n}\n",
     ALL},
    {"the inside of a sum of pads",
     "ENTRY e {\n p = f32[A,B] parameter(0)\n h = f32[] parameter(1)\n z = f32[] constant(0)\n"
     " k = f32[A,B] broadcast(h), dimensions={}\n m = f32[A,B] multiply(p, k)\n"
     " a = f32[{A+2},{B+1}] pad(p, z), padding=2_0x0_1\n b = f32[{A+2},{B+1}] pad(m, z), padding=1_1x1_0\n"
     " c = f32[{A+2},{B+1}] add(a, b)\n w = f32[{A+2},{B+1}] broadcast(h), dimensions={}\n"
     " d = f32[{A+2},{B+1}] subtract(c, w)\n ROOT t = f32[A,B] slice(d), slice={[1:{A+1}],[0:B]}\n}\n",
     ALL},
    {"what a pad leaves of a difference of pads",
     "ENTRY e {\n p = f32[A,B] parameter(0)\n h = f32[] parameter(1)\n z = f32[] constant(0)\n"
     " a = f32[{A+1},B] pad(p, z), padding=1_0x0_0\n b = f32[{A+1},B] pad(p, h), padding=0_1x0_0\n"
     " d = f32[{A+1},B] subtract(b, a)\n ROOT t = f32[A,B] pad(d, h), padding=-1_0x0_0\n}\n",
     ALL},
    {"every second row set",
     "set {\n x = f32[] parameter(0)\n ROOT y = f32[] parameter(1)\n}\nENTRY e {\n p = f32[{A+A},B] parameter(0)\n"
     " q = f32[{A+A},B] parameter(1)\n u = f32[A,B] slice(q), slice={[1:{A+A}:2], [0:B]}\n"
     " n = f32[A,B] negate(u)\n o = s32[A] iota(), iota_dimension=0\n two = s32[] constant(2)\n"
     " t = s32[A] broadcast(two), dimensions={}\n m = s32[A] multiply(t, o)\n i = s32[A,1] reshape(m)\n"
     " ROOT c = f32[{A+A},B] scatter(p, i, n), update_window_dims={1}, inserted_window_dims={0}, "
     "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=set\n}\n",
     ALL},
    {"every third row added to, by indices that count from the end",
     SUM
     "ENTRY e {\n p = f32[{A+A+A},B] parameter(0)\n u = f32[A,B] parameter(1)\n"
     " o = s32[A] iota(), iota_dimension=0\n three = s32[] constant(3)\n t = s32[A] broadcast(three), dimensions={}\n"
     " one = s32[] constant(1)\n k = s32[A] broadcast(one), dimensions={}\n m = s32[A] multiply(o, t)\n"
     " a = s32[A] add(m, k)\n zero = s32[] constant(0)\n z = s32[A] broadcast(zero), dimensions={}\n"
     " l = pred[A] compare(a, z), direction=LT\n all = s32[] constant({A+A+A})\n"
     " w = s32[A] broadcast(all), dimensions={}\n b = s32[A] add(a, w)\n s = s32[A] select(l, b, a)\n"
     " i = s32[A,1] broadcast(s), dimensions={0}\n"
     " ROOT c = f32[{A+A+A},B] scatter(p, i, u), update_window_dims={1}, inserted_window_dims={0}, "
     "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum\n}\n",
     ALL},
    {"every second column set, beyond the end",
     "set {\n x = f32[] parameter(0)\n ROOT y = f32[] parameter(1)\n}\nENTRY e {\n p = f32[A,{B+B}] parameter(0)\n"
     " u = f32[A,B] parameter(1)\n o = s32[B] iota(), iota_dimension=0\n two = s32[] constant(2)\n"
     " t = s32[B] broadcast(two), dimensions={}\n m = s32[B] multiply(t, o)\n a = s32[B] add(m, t)\n"
     " i = s32[B,1] reshape(a)\n"
     " ROOT c = f32[A,{B+B}] scatter(p, i, u), update_window_dims={0}, inserted_window_dims={1}, "
     "scatter_dims_to_operand_dims={1}, index_vector_dim=1, to_apply=set\n}\n",
     ALL},
    {"gather",
     "ENTRY e {\n p = f32[A,B] parameter(0)\n i = s32[C,1] parameter(1)\n ROOT c = f32[C,B] gather(p, i), "
     "offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,B}\n}\n",
     ALL},
    {"scatter",
     SUM "ENTRY e {\n p = f32[A,B] parameter(0)\n i = s32[C,1] parameter(1)\n u = f32[C,B] parameter(2)\n"
         " ROOT c = f32[A,B] scatter(p, i, u), update_window_dims={1}, inserted_window_dims={0}, "
         "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum\n}\n",
     ALL},
    {"gather of windows",
     "ENTRY e {\n p = f32[A,B] parameter(0)\n i = s32[C,2] parameter(1)\n ROOT c = f32[C,2,{B-1}] gather(p, i), "
     "offset_dims={1,2}, collapsed_slice_dims={}, start_index_map={0,1}, index_vector_dim=1, "
     "slice_sizes={2,{B-1}}\n}\n",
     ALL},
    {"gather of windows of rows",
     "ENTRY e {\n p = s32[A,B] parameter(0)\n i = s64[C,2] parameter(1)\n ROOT c = s32[C,3] gather(p, i), "
     "offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0,1}, index_vector_dim=1, slice_sizes={1,3}\n}\n",
     ALL},
    {"scatter of windows",
     SUM "ENTRY e {\n p = f32[A,B] parameter(0)\n i = s32[C,2] parameter(1)\n u = f32[C,2,{B-1}] parameter(2)\n"
         " ROOT c = f32[A,B] scatter(p, i, u), update_window_dims={1,2}, inserted_window_dims={}, "
         "scatter_dims_to_operand_dims={0,1}, index_vector_dim=1, to_apply=sum\n}\n",
     ALL},
    {"scatter of one window at a constant place",
     "keep {\n x = f32[] parameter(0)\n ROOT y = f32[] parameter(1)\n}\n"
     "ENTRY e {\n p = f32[A,B] parameter(0)\n i = s32[1] constant({1})\n u = f32[A,3] parameter(1)\n"
     " ROOT c = f32[A,B] scatter(p, i, u), update_window_dims={0,1}, inserted_window_dims={}, "
     "scatter_dims_to_operand_dims={1}, index_vector_dim=0, to_apply=keep\n}\n",
     ALL},
    {"scatter of windows into two arrays",
     "both {\n a = f32[] parameter(0)\n b = s32[] parameter(1)\n c = f32[] parameter(2)\n d = s32[] parameter(3)\n"
     " s = f32[] add(a, c)\n t = s32[] maximum(b, d)\n ROOT r = (f32[], s32[]) tuple(s, t)\n}\n"
     "ENTRY e {\n p = f32[A,B] parameter(0)\n q = s32[A,B] parameter(1)\n i = u8[C,2] parameter(2)\n"
     " u = f32[C,2] parameter(3)\n v = s32[C,2] parameter(4)\n"
     " ROOT c = (f32[A,B], s32[A,B]) scatter(p, q, i, u, v), update_window_dims={1}, inserted_window_dims={0}, "
     "scatter_dims_to_operand_dims={0,1}, index_vector_dim=1, to_apply=both\n}\n",
     ALL},
    {"a shift by a pad and a slice",
     "ENTRY e {\n p = f32[A,B] parameter(0)\n z = f32[] constant(7)\n"
     " s = f32[{A+1},{B+3}] pad(p, z), padding=1_0x0_3\n t = f32[A,{B-1}] slice(s), slice={[0:A], [2:{B+1}]}\n"
     " ROOT c = f32[{A+1},B] pad(t, z), padding=0_1x1_0\n}\n",
     ALL},
    {"a shift by a concatenation",
     "ENTRY e {\n p = f32[A,B] parameter(0)\n z = f32[] parameter(1)\n f = f32[A,1] broadcast(z), dimensions={}\n"
     " s = f32[A,{B-2}] slice(p), slice={[0:A], [1:{B-1}]}\n"
     " t = f32[A,{B-1}] slice(p), slice={[0:A], [1:B]}\n c = f32[A,B] concatenate(f, s, f), dimensions={1}\n"
     " d = f32[A,{B+1}] concatenate(t, f, f), dimensions={1}\n ROOT e = (f32[A,B], f32[A,{B+1}]) tuple(c, d)\n}\n",
     ALL},
    {"slices of a slice",
     "ENTRY e {\n p = f32[{A+A},{B+B}] parameter(0)\n s = f32[A,{B+B-1}] slice(p), slice={[0:{A+A}:2], [1:{B+B}]}\n"
     " t = f32[{A-2},{B-1}] slice(s), slice={[1:{A-1}], [0:{B+B-2}:2]}\n"
     " ROOT c = (f32[A,{B+B-1}], f32[{A-2},{B-1}]) tuple(s, t)\n}\n",
     ALL},
    {"convolution of patches",
     "ENTRY e {\n p = f32[2,{C+C+C+C+C+C+C+C},{A+A+A},3] parameter(0)\n k = f32[8,3,3,6] parameter(1)\n"
     " ROOT c = f32[2,C,A,6] convolution(p, k), window={size=8x3 stride=8x3}, dim_labels=b01f_01io->b01f\n}\n",
     ALL},
    {"convolution of patches that overlap a little",
     "ENTRY e {\n p = f32[2,{C+C+C+C+C+C+2},4] parameter(0)\n k = f32[8,4,6] parameter(1)\n"
     " ROOT c = f32[2,C,6] convolution(p, k), window={size=8 stride=6}, dim_labels=b0f_0io->b0f\n}\n",
     ALL},
    {"sums that a loop adds up",
     "more {\n t = (s32[], f32[B,B], f32[B], f32[A,B]) parameter(0)\n i = s32[] get-tuple-element(t), index=0\n"
     " n = s32[] constant(3)\n ROOT l = pred[] compare(i, n), direction=LT\n}\n" SUM
     "step {\n t = (s32[], f32[B,B], f32[B], f32[A,B]) parameter(0)\n i = s32[] get-tuple-element(t), index=0\n"
     " g = f32[B,B] get-tuple-element(t), index=1\n h = f32[B] get-tuple-element(t), index=2\n"
     " p = f32[A,B] get-tuple-element(t), index=3\n o = s32[] constant(1)\n j = s32[] add(i, o)\n"
     " d = f32[B,B] dot(p, p), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n"
     " q = f32[] constant(0.5)\n w = f32[B,B] broadcast(q), dimensions={}\n m = f32[B,B] multiply(w, d)\n"
     " e = f32[B,B] add(g, m)\n z = f32[] constant(0)\n r = f32[B] reduce(p, z), dimensions={0}, to_apply=sum\n"
     " f = f32[B] add(r, h)\n c = f32[A,B] cosine(p)\n s = f32[B] reduce(c, z), dimensions={0}, to_apply=sum\n"
     " k = f32[B] add(f, s)\n ROOT u = (s32[], f32[B,B], f32[B], f32[A,B]) tuple(j, e, k, c)\n}\n"
     "ENTRY e {\n p = f32[A,B] parameter(0)\n h = f32[B] parameter(1)\n i = s32[] constant(0)\n"
     " z = f32[] constant(0)\n g = f32[B,B] broadcast(z), dimensions={}\n"
     " t = (s32[], f32[B,B], f32[B], f32[A,B]) tuple(i, g, h, p)\n"
     " w = (s32[], f32[B,B], f32[B], f32[A,B]) while(t), condition=more, body=step\n"
     " x = f32[B,B] get-tuple-element(w), index=1\n y = f32[B] get-tuple-element(w), index=2\n"
     " ROOT c = (f32[B,B], f32[B]) tuple(x, y)\n}\n",
     ALL},
    {"dynamic-slice",
     "ENTRY e {\n p = f32[A,B] parameter(0)\n i = s32[] parameter(1)\n j = s32[] parameter(2)\n"
     " ROOT c = f32[2,{B-1}] dynamic-slice(p, i, j), dynamic_slice_sizes={2,{B-1}}\n}\n",
     ALL},
    {"dynamic-update-slice",
     "ENTRY e {\n p = f32[A,B] parameter(0)\n u = f32[2,{B-1}] parameter(1)\n"
     " i = s32[] parameter(2)\n j = s32[] parameter(3)\n ROOT c = f32[A,B] dynamic-update-slice(p, u, i, j)\n}\n",
     ALL},
    {"several sums at once",
     "both {\n a = f32[] parameter(0)\n b = s32[] parameter(1)\n c = f32[] parameter(2)\n"
     " d = s32[] parameter(3)\n l = pred[] compare(a, c), direction=GE\n s = f32[] select(l, a, c)\n"
     " t = s32[] select(l, b, d)\n ROOT r = (f32[], s32[]) tuple(s, t)\n}\nENTRY e {\n p = f32[A,B] parameter(0)\n"
     " i = s32[A,B] iota(), iota_dimension=1\n z = f32[] constant(-inf)\n n = s32[] constant(0)\n"
     " ROOT c = (f32[A], s32[A]) reduce(p, i, z, n), dimensions={1}, to_apply=both\n}\n",
     ALL},
    {"bitcast-convert", "ENTRY e {\n p = f32[A,B] parameter(0)\n ROOT c = u16[A,B,2] bitcast-convert(p)\n}\n", ALL},
    {"part of an array",
     "ENTRY e {\n p = f32[A,B] parameter(0)\n l = s32[] constant({A-1})\n z = s32[] constant(0)\n"
     " n = s32[] maximum(l, z)\n d = f32[<=A,B] set-dimension-size(p, n), dimensions={0}\n m = f32[<=A,B] multiply(d, "
     "d)\n"
     " s = s32[] get-dimension-size(m), dimensions={0}\n ROOT c = s32[] add(s, n)"
     "\n}\n",
     ALL},
    {"halves of a call",
     "body {\n x = f32[A,B] parameter(0)\n ROOT y = f32[A,B] exponential(x)\n}\nENTRY e {\n"
     " p = f32[A,B] parameter(0)\n s = ((f32[A,B]), f32[A,B], u32[]) async-start(p), calls=body\n"
     " u = ((f32[A,B]), f32[A,B], u32[]) async-update(s)\n d = f32[A,B] async-done(u)\n ROOT c = f32[A,B] add(d, "
     "p)\n}\n",
     ALL},
    {"halves of a copy",
     "ENTRY e {\n p = f32[A,B] parameter(0)\n s = (f32[A,B], f32[A,B], u32[]) copy-start(p)\n"
     " ROOT d = f32[A,B] copy-done(s)\n}\n",
     ALL},
};

// The text with A, B, C and sums like {A+B-1} of them written out.
static char *with_sizes(const char *program, const int sizes[3]) {
    HloText text = {0};
    for (const char *at = program; *at; at++) {
        bool alone = (at == program || !strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_%", at[-1]));
        bool formula = *at == '{' && at[1] >= 'A' && at[1] <= 'C' && strchr("+-", at[2]);
        if (formula) {
            int total = 0, sign = 1;
            for (at++; *at != '}'; at++) {
                if (*at == '+' || *at == '-') {
                    sign = *at == '+' ? 1 : -1;
                } else {
                    total += sign * (*at >= 'A' ? sizes[*at - 'A'] : *at - '0');
                }
            }
            hlo_text_format(&text, "%d", total);
        } else if (*at >= 'A' && *at <= 'C' && (alone || at[-1] == 'x') && strchr("],:x{} +-_\n", at[1])) {
            hlo_text_format(&text, "%d", sizes[*at - 'A']);
        } else {
            hlo_text_char(&text, *at);
        }
    }
    return text.data;
}

// One array cut along one dimension over all of the mesh, or over an axis of it.
static void check_cut(const char *name, const char *text, char kind, int64_t number, const HloShape *shape,
                      int32_t dim) {
    static const SpmdMeshAxis line[] = {{"w", 4}}, square[] = {{"x", 2}, {"y", 2}};
    static const char *const axes[] = {"w", "y"};
    for (int mesh = 0; mesh < 2; mesh++) {
        char spec[64];
        int length = snprintf(spec, sizeof(spec), "%c%lld=", kind, (long long)number);
        for (int32_t d = 0; d < shape->rank; d++) {
            length += snprintf(spec + length, sizeof(spec) - (size_t)length, "%s%s", d ? "," : "",
                               d == dim ? axes[mesh] : "?");
        }
        const char *const shards[] = {spec};
        SpmdOptions options = {
            .mesh = mesh ? square : line, .mesh_axis_count = mesh ? 2 : 1, .shards = shards, .shard_count = 1};
        char *problem = compare_partitioned(text, &options, 7);
        if (problem) cr_assert_fail("%s with %s: %s\nof the program\n%s", name, spec, problem, text);
    }
}

CaseList(every_sharding, equals_the_unpartitioned_program) {
    return cases_numbered(HLO_COUNT_OF(cuts));
}

CaseTest(const int *number, every_sharding, equals_the_unpartitioned_program) {
    const Cut *cut = &cuts[*number];
    for (int run = 0; run < 3; run++) {
        char *text = with_sizes(cut->program, cut->sizes[run]);
        HloModule *module = parse_text(text);
        for (int64_t p = 0; p < module->entry->parameters.count; p++) {
            const HloShape *shape = module->entry->parameters.items[p]->shape;
            for (int32_t d = 0; d < shape->rank; d++) check_cut(cut->name, text, 'p', p, shape, d);
        }
        int64_t results = hlo_shape_leaf_count(module->entry->root->shape);
        for (int64_t r = 0; r < results; r++) {
            const HloShape *shape = hlo_shape_leaf(module->entry->root->shape, r);
            for (int32_t d = 0; d < shape->rank; d++) check_cut(cut->name, text, 'r', r, shape, d);
        }
        hlo_module_free(module);
        hlo_free(text);
    }
}

// Arrays without elements, as an empty batch makes them: each dimension of each array is cut while one size is 0, or
// all are. Programs that sizes of 0 make invalid are left out.
CaseList(every_sharding, empty_arrays_are_cut_too) {
    return cases_numbered(HLO_COUNT_OF(cuts));
}

CaseTest(const int *number, every_sharding, empty_arrays_are_cut_too) {
    static const int sizes[][3] = {{0, 4, 3}, {4, 0, 3}, {4, 3, 0}, {0, 0, 0}};
    static const SpmdMeshAxis line[] = {{"w", 4}};
    const Cut *cut = &cuts[*number];
    for (size_t run = 0; run < HLO_COUNT_OF(sizes); run++) {
        char *text = with_sizes(cut->program, sizes[run]);
        HloModule *module = NULL;
        HloStatus status = hlo_parse(text, strlen(text), NULL, &module);
        if (!status) status = hlo_verify(module);
        for (int64_t p = 0; !status && p < module->entry->parameters.count; p++) {
            const HloShape *shape = module->entry->parameters.items[p]->shape;
            for (int32_t d = 0; d < shape->rank; d++) {
                char spec[64];
                int length = snprintf(spec, sizeof(spec), "p%lld=", (long long)p);
                for (int32_t i = 0; i < shape->rank; i++)
                    length += snprintf(spec + length, sizeof(spec) - (size_t)length, "%s%s", i ? "," : "",
                                       i == d ? "w" : "?");
                const char *const shards[] = {spec};
                const SpmdOptions options = {.mesh = line, .mesh_axis_count = 1, .shards = shards, .shard_count = 1};
                bool refused = false;
                char *problem = partitioned_difference(module, &options, 7, &refused);
                if (problem && !refused) cr_assert_fail("%s with %s: %s\nof\n%s", cut->name, spec, problem, text);
                hlo_free(problem);
            }
        }
        hlo_status_free(status);
        hlo_module_free(module);
        hlo_free(text);
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Meshes that divide nothing

// Primes, axes of one device, and products whose parts may be cut apart.
static const struct {
    SpmdMeshAxis axes[3];
    int count;
} meshes[] = {
    {{{"x", 3}}, 1},
    {{{"x", 5}}, 1},
    {{{"x", 2}, {"y", 3}}, 2},
    {{{"x", 3}, {"y", 2}}, 2},
    {{{"x", 1}, {"y", 4}, {"z", 1}}, 3},
    {{{"x", 2}, {"y", 2}, {"z", 2}}, 3},
    {{{"x", 6}, {"y", 1}}, 2},
};

// A sharding of an array as --shard takes it: each axis of the mesh in some dimension, alone or after another, or in
// none; dimensions without axes are open or closed.
static void pick_spec(HloText *spec, Random *random, int mesh, char kind, int64_t number, int32_t rank) {
    int of_axis[3];
    for (int a = 0; a < meshes[mesh].count; a++) of_axis[a] = (int)random_under(random, (uint64_t)rank + 1);
    const bool backwards = random_under(random, 2);
    hlo_text_format(spec, "%c%lld=", kind, (long long)number);
    for (int32_t d = 0; d < rank; d++) {
        int found = 0;
        if (d) hlo_text_char(spec, ',');
        for (int i = 0; i < meshes[mesh].count; i++) {
            const int a = backwards ? meshes[mesh].count - 1 - i : i;
            if (of_axis[a] != d) continue;
            hlo_text_format(spec, "%s%s", found++ ? "+" : "", meshes[mesh].axes[a].name);
        }
        if (!found) hlo_text_char(spec, random_under(random, 2) ? '?' : '-');
    }
}

// Several arrays of the program cut at once, with shardings that may contradict each other.
static void check_pick(const char *name, const char *text, const HloModule *module, Random *random) {
    const int mesh = (int)random_under(random, HLO_COUNT_OF(meshes));
    HloText specs[8] = {{0}};
    const char *shards[8];
    SpmdOptions options = {
        .mesh = meshes[mesh].axes, .mesh_axis_count = meshes[mesh].count, .shards = shards, .shard_count = 0};
    for (int64_t p = 0; p < module->entry->parameters.count && options.shard_count < 4; p++) {
        const HloShape *shape = module->entry->parameters.items[p]->shape;
        if (!hlo_shape_is_array(shape) || hlo_shape_is_dynamic(shape) || shape->rank == 0) continue;
        if (random_under(random, 3)) pick_spec(&specs[options.shard_count++], random, mesh, 'p', p, shape->rank);
    }
    const int64_t results = hlo_shape_leaf_count(module->entry->root->shape);
    for (int64_t r = 0; r < results && options.shard_count < 8; r++) {
        const HloShape *shape = hlo_shape_leaf(module->entry->root->shape, r);
        if (!hlo_shape_is_array(shape) || hlo_shape_is_dynamic(shape) || shape->rank == 0) continue;
        if (random_under(random, 2)) pick_spec(&specs[options.shard_count++], random, mesh, 'r', r, shape->rank);
    }
    for (int64_t i = 0; i < options.shard_count; i++) shards[i] = specs[i].data;
    char *problem = compare_partitioned(text, &options, 11);
    if (problem) {
        HloText all = {0};
        for (int64_t i = 0; i < options.shard_count; i++) hlo_text_format(&all, " --shard %s", shards[i]);
        cr_assert_fail("%s on mesh %d with%s: %s\nof the program\n%s", name, mesh, all.data ? all.data : " nothing",
                       problem, text);
    }
    for (int64_t i = 0; i < options.shard_count; i++) hlo_text_free(&specs[i]);
}

CaseList(every_sharding, odd_meshes_and_contradictions) {
    return cases_numbered(HLO_COUNT_OF(cuts));
}
CaseTest(const int *number, every_sharding, odd_meshes_and_contradictions) {
    const Cut *cut = &cuts[*number];
    const int64_t picks = cases_setting("MESHLO_CUTS", 12);
    Random random = {(uint64_t)*number * 7919 + 1};
    for (int run = 0; run < 3; run++) {
        char *text = with_sizes(cut->program, cut->sizes[run]);
        HloModule *module = parse_text(text);
        for (int64_t i = 0; i < picks; i++) check_pick(cut->name, text, module, &random);
        hlo_module_free(module);
        hlo_free(text);
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Empty dimensions

// Sizes of which some are 0 or 1, where the op allows it: empty shards, empty windows, empty sums.
CaseList(every_sharding, nothing_to_shard) {
    return cases_numbered(HLO_COUNT_OF(cuts));
}
CaseTest(const int *number, every_sharding, nothing_to_shard) {
    static const int few[] = {0, 1, 5};
    const Cut *cut = &cuts[*number];
    Random random = {(uint64_t)*number * 7919 + 2};
    int allowed = 0;
    for (int which = 0; which < 26; which++) {  // the last would be that of none that is small
        const int sizes[3] = {few[which % 3], few[which / 3 % 3], few[which / 9]};
        char *text = with_sizes(cut->program, sizes);
        HloModule *module = NULL;
        HloStatus status = hlo_parse(text, strlen(text), NULL, &module);
        if (!status) status = hlo_verify(module);
        if (!status) {
            allowed++;
            for (int i = 0; i < 3; i++) check_pick(cut->name, text, module, &random);
        }
        hlo_status_free(status);
        hlo_module_free(module);
        hlo_free(text);
    }
    cr_assert_gt(allowed, 0, "%s: no sizes of 0 or 1 are allowed", cut->name);
}
