// SPDX-License-Identifier: Apache-2.0
// Arrays that are computed in another sharding from operands that are sent, where that sends less than the array
// itself.
#include <criterion/criterion.h>

#include "tests/spmd/check.h"
#include "tests/support/cases.h"

// The sines of an array of 16-bit numbers, everywhere.
#define SINES(Dims, Devices, More, Last)                                                                     \
    "HloModule m, num_partitions=4\nENTRY e {\n p = bf16[" Dims "] parameter(0), sharding={devices=" Devices \
    "}\n"                                                                                                    \
    " c = f32[" Dims "] convert(p)\n w = f32[" Dims "] sine(c)\n" More " ROOT t = f32[" Dims "] copy(" Last  \
    "), sharding={replicated}\n}\n"

static const SentBytes programs[] = {
    {"a wider type, gathered",
     "HloModule m, num_partitions=4\nENTRY e {\n p = bf16[8,6] parameter(0), sharding={devices=[4,1]<=[4]}\n"
     " w = f32[8,6] convert(p), sharding={devices=[4,1]<=[4]}\n q = f32[6,8] parameter(1), sharding={replicated}\n"
     " ROOT d = f32[6,6] dot(q, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, sharding={replicated}\n}\n",
     3 * 2 * 6 * 2},
    {"a wider type, uneven",
     "HloModule m, num_partitions=4\nENTRY e {\n p = s8[9,5] parameter(0), sharding={devices=[4,1]<=[4]}\n"
     " w = f32[9,5] convert(p)\n ROOT t = f32[9,5] copy(w), sharding={replicated}\n}\n",
     3 * 3 * 5},
    {"a wider type, in size one",
     "HloModule m, num_partitions=4\nENTRY e {\n p = s8[4,1] parameter(0), sharding={devices=[4,1]<=[4]}\n"
     " w = s32[4,1] convert(p), sharding={devices=[4,1]<=[4]}\n ROOT t = s32[4,1] copy(w), sharding={replicated}\n}\n",
     3},
    {"a wider type, exchanged, of two axes",
     "HloModule m, num_partitions=4\nENTRY e {\n p = bf16[8,16] parameter(0), "
     "sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}\n"
     " w = f32[8,16] convert(p), sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}\n"
     " ROOT t = f32[8,16] copy(w), sharding={devices=[1,2,2]<=[4] last_tile_dim_replicate}\n}\n",
     4 * 16 * 2 / 2},
    {"after a reshape and a transpose",
     "HloModule m, num_partitions=4\nENTRY e {\n p = bf16[8,6] parameter(0), sharding={devices=[4,1]<=[4]}\n"
     " w = f32[8,6] convert(p)\n r = f32[8,2,3] reshape(w)\n v = f32[3,8,2] transpose(r), dimensions={2,0,1}, "
     "sharding={devices=[1,4,1]<=[4]}\n ROOT t = f32[3,8,2] copy(v), sharding={replicated}\n}\n",
     3 * 2 * 6 * 2},
    {"a broadcast",
     "HloModule m, num_partitions=4\nENTRY e {\n p = f32[8] parameter(0), sharding={devices=[4]<=[4]}\n"
     " w = f32[8,32] broadcast(p), dimensions={0}, sharding={devices=[4,1]<=[4]}\n"
     " q = f32[8,32] parameter(1), sharding={replicated}\n ROOT t = f32[8,32] add(q, w), sharding={replicated}\n}\n",
     3 * 2 * 4},
    {"a mask of indices",
     "HloModule m, num_partitions=4\nENTRY e {\n p = s32[8] parameter(0), sharding={devices=[4]<=[4]}\n"
     " b = s32[8,128] broadcast(p), dimensions={0}, sharding={devices=[4,1]<=[4]}\n i = s32[8,128] iota(), "
     "iota_dimension=1\n c = pred[8,128] compare(b, i), direction=EQ, sharding={devices=[4,1]<=[4]}\n"
     " w = f32[8,128] convert(c), sharding={devices=[4,1]<=[4]}\n"
     " ROOT t = f32[8,128] copy(w), sharding={devices=[1,4]<=[4]}\n}\n",
     3 * 2 * 4},
    // Each device needs all of u and its own part of v, which is replicated.
    {"an outer product",
     "HloModule m, num_partitions=4\nENTRY e {\n u = f32[16] parameter(0), sharding={devices=[4]<=[4]}\n"
     " v = f32[16] parameter(1), sharding={replicated}\n"
     " w = f32[16,16] dot(u, v), lhs_contracting_dims={}, rhs_contracting_dims={}, sharding={devices=[4,1]<=[4]}\n"
     " ROOT t = f32[16,16] copy(w), sharding={devices=[1,4]<=[4]}\n}\n",
     3 * 4 * 4},
    // Every device computes all of the sines, which takes less time than sending twice the bytes.
    {"a function of what is narrower is computed by all", SINES("8,8", "[4,1]<=[4]", "", "w"), 3 * 2 * 8 * 2},
    {"a function of what is narrower, uneven", SINES("7,8", "[4,1]<=[4]", "", "w"), 3 * 2 * 8 * 2},
    {"a function of what is narrower, of one row a shard", SINES("4,8", "[4,1]<=[4]", "", "w"), 3 * 8 * 2},
    {"a function of what is narrower, of two axes", SINES("8,8", "[4,1]<=[2,2]T(1,0)", "", "w"), 3 * 2 * 8 * 2},
    {"dear work is not repeated",
     SINES("8,8", "[4,1]<=[4]",
           " w1 = f32[8,8] sine(w)\n w2 = f32[8,8] sine(w1)\n w3 = f32[8,8] sine(w2)\n w4 = f32[8,8] sine(w3)\n"
           " w5 = f32[8,8] sine(w4)\n w6 = f32[8,8] sine(w5)\n w7 = f32[8,8] sine(w6)\n",
           "w7"),
     3 * 2 * 8 * 4},
    {"dear work is moved",
     "HloModule m, num_partitions=4\nENTRY e {\n p = bf16[16,16] parameter(0), sharding={devices=[4,1]<=[4]}\n"
     " c = f32[16,16] convert(p)\n w = f32[16,16] sine(c), sharding={devices=[4,1]<=[4]}\n"
     " ROOT t = f32[16,16] copy(w), sharding={devices=[1,4]<=[4]}\n}\n",
     3 * 4 * 4 * 2},
    // Two users of one gathered array: the second finds it.
    {"made once",
     "HloModule m, num_partitions=4\nENTRY e {\n p = bf16[8,8] parameter(0), sharding={devices=[4,1]<=[4]}\n"
     " w = f32[8,8] convert(p), sharding={devices=[4,1]<=[4]}\n q = f32[8,8] parameter(1), sharding={replicated}\n"
     " a = f32[8,8] add(q, w), sharding={replicated}\n b = f32[8,8] multiply(q, w), sharding={replicated}\n"
     " ROOT t = (f32[8,8], f32[8,8]) tuple(a, b)\n}\n",
     3 * 2 * 8 * 2},
};

CaseList(remade, less_is_sent) {
    return cases_numbered(HLO_COUNT_OF(programs));
}

CaseTest(const int *number, remade, less_is_sent) {
    expect_bytes(&programs[*number]);
}
