// SPDX-License-Identifier: Apache-2.0
// Loops that go along a sharded dimension: their inputs and outputs are exchanged before and after them, not gathered.
#include <criterion/criterion.h>

#include "tests/spmd/check.h"
#include "tests/support/cases.h"

// A scan over f32[T,F] on `Devices`: h = `Step` of h and x, both f32[1,F]; the result is every h.
#define SCAN(Devices, T, F, Index, Step, Cut)                                                                          \
    "HloModule m, num_partitions=" Devices                                                                             \
    "\n"                                                                                                               \
    "condition {\n s = (s32[], f32[1," F "], f32[" T "," F "], f32[" T "," F                                           \
    "]) parameter(0)\n"                                                                                                \
    " i = s32[] get-tuple-element(s), index=0\n n = s32[] constant(" T                                                 \
    ")\n"                                                                                                              \
    " ROOT c = pred[] compare(i, n), direction=LT\n}\n"                                                                \
    "body {\n s = (s32[], f32[1," F "], f32[" T "," F "], f32[" T "," F                                                \
    "]) parameter(0)\n"                                                                                                \
    " i = s32[] get-tuple-element(s), index=0\n h = f32[1," F                                                          \
    "] get-tuple-element(s), index=1\n"                                                                                \
    " ys = f32[" T "," F "] get-tuple-element(s), index=2\n xs = f32[" T "," F                                         \
    "] get-tuple-element(s), index=3\n"                                                                                \
    " zero = s32[] constant(0)\n one = s32[] constant(1)\n last = s32[] constant(" T                                   \
    ")\n next = s32[] add(i, one)\n"                                                                                   \
    " back = s32[] subtract(last, next)\n"                                                                             \
    " x = f32[1," F "] dynamic-slice(xs, " Index ", zero), dynamic_slice_sizes={1," F "}\n" Step " new = f32[" T "," F \
    "] dynamic-update-slice(ys, y, " Index                                                                             \
    ", zero)\n"                                                                                                        \
    " ROOT t = (s32[], f32[1," F "], f32[" T "," F "], f32[" T "," F                                                   \
    "]) tuple(next, y, new, xs)\n}\n"                                                                                  \
    "ENTRY e {\n p = f32[" T "," F "] parameter(0), sharding={devices=" Cut                                            \
    "}\n zero = s32[] constant(0)\n"                                                                                   \
    " f = f32[] constant(0)\n h = f32[1," F                                                                            \
    "] broadcast(f), dimensions={}\n"                                                                                  \
    " ys = f32[" T "," F                                                                                               \
    "] broadcast(f), dimensions={}\n"                                                                                  \
    " s = (s32[], f32[1," F "], f32[" T "," F "], f32[" T "," F                                                        \
    "]) tuple(zero, h, ys, p)\n"                                                                                       \
    " w = (s32[], f32[1," F "], f32[" T "," F "], f32[" T "," F                                                        \
    "]) while(s), condition=condition, body=body\n"                                                                    \
    " ROOT r = f32[" T "," F "] get-tuple-element(w), index=2, sharding={devices=" Cut "}\n}\n"

#define LINEAR(F)                             \
    " c = f32[] constant(0.5)\n d = f32[1," F \
    "] broadcast(c), dimensions={}\n"         \
    " m = f32[1," F "] multiply(h, d)\n y = f32[1," F "] add(m, x)\n"
// Sums over the elements of a row, so that exchanged rows would be gathered in every iteration.
#define PRODUCT(F)                                                      \
    " c = f32[] constant(0.1)\n v = f32[" F "," F                       \
    "] broadcast(c), dimensions={}\n"                                   \
    " u = f32[" F "," F "] iota(), iota_dimension=0\n k = f32[" F "," F \
    "] multiply(u, v)\n"                                                \
    " m = f32[1," F                                                     \
    "] dot(h, k), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n" \
    " y0 = f32[1," F "] add(m, x)\n y = f32[1," F "] tanh(y0)\n"

// Adds up the products of tanh(x) and x over 6 batches of `B` rows: f32[N,N], transposed.
#define GRADIENTS(B, N, Devices, Rows, Result)                                                  \
    "HloModule m, num_partitions=4\n"                                                           \
    "condition {\n s = (s32[], f32[" N "," N "], f32[6," B "," N                                \
    "]) parameter(0)\n"                                                                         \
    " i = s32[] get-tuple-element(s), index=0\n n = s32[] constant(6)\n"                        \
    " ROOT c = pred[] compare(i, n), direction=LT\n}\n"                                         \
    "body {\n s = (s32[], f32[" N "," N "], f32[6," B "," N                                     \
    "]) parameter(0)\n"                                                                         \
    " i = s32[] get-tuple-element(s), index=0\n g = f32[" N "," N                               \
    "] get-tuple-element(s), index=1\n"                                                         \
    " xs = f32[6," B "," N                                                                      \
    "] get-tuple-element(s), index=2\n zero = s32[] constant(0)\n one = s32[] constant(1)\n"    \
    " next = s32[] add(i, one)\n"                                                               \
    " r = f32[1," B "," N "] dynamic-slice(xs, i, zero, zero), dynamic_slice_sizes={1," B "," N \
    "}\n"                                                                                       \
    " x = f32[" B "," N "] reshape(r)\n y = f32[" B "," N                                       \
    "] tanh(x)\n"                                                                               \
    " d = f32[" N "," N                                                                         \
    "] dot(y, x), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n"                         \
    " m = f32[" N "," N "] negate(d)\n t = f32[" N "," N                                        \
    "] transpose(m), dimensions={1,0}\n"                                                        \
    " h = f32[" N "," N                                                                         \
    "] add(g, t)\n"                                                                             \
    " ROOT q = (s32[], f32[" N "," N "], f32[6," B "," N                                        \
    "]) tuple(next, h, xs)\n}\n"                                                                \
    "ENTRY e {\n p = f32[6," B "," N "] parameter(0), sharding={devices=" Rows "<=" Devices     \
    "}\n"                                                                                       \
    " zero = s32[] constant(0)\n f = f32[] constant(0)\n g = f32[" N "," N                      \
    "] broadcast(f), dimensions={}\n"                                                           \
    " s = (s32[], f32[" N "," N "], f32[6," B "," N                                             \
    "]) tuple(zero, g, p)\n"                                                                    \
    " w = (s32[], f32[" N "," N "], f32[6," B "," N                                             \
    "]) while(s), condition=condition, body=body\n"                                             \
    " ROOT t = f32[" N "," N "] get-tuple-element(w), index=1, sharding={devices=" Result "<=" Devices "}\n}\n"

// Products of f32[5,B,N] in a narrower type, whose sums are added up in f32.
#define MIXED(B, N, Type, Devices, Rows, Result)                                                     \
    "HloModule m, num_partitions=4\n"                                                                \
    "condition {\n s = (s32[], f32[" N "," N "], " Type "[5," B "," N                                \
    "]) parameter(0)\n"                                                                              \
    " i = s32[] get-tuple-element(s), index=0\n n = s32[] constant(5)\n"                             \
    " ROOT c = pred[] compare(i, n), direction=LT\n}\n"                                              \
    "body {\n s = (s32[], f32[" N "," N "], " Type "[5," B "," N                                     \
    "]) parameter(0)\n"                                                                              \
    " i = s32[] get-tuple-element(s), index=0\n g = f32[" N "," N                                    \
    "] get-tuple-element(s), index=1\n"                                                              \
    " xs = " Type "[5," B "," N                                                                      \
    "] get-tuple-element(s), index=2\n zero = s32[] constant(0)\n"                                   \
    " one = s32[] constant(1)\n next = s32[] add(i, one)\n"                                          \
    " r = " Type "[1," B "," N "] dynamic-slice(xs, i, zero, zero), dynamic_slice_sizes={1," B "," N \
    "}\n"                                                                                            \
    " x = " Type "[" B "," N                                                                         \
    "] reshape(r)\n"                                                                                 \
    " d = " Type "[" N "," N                                                                         \
    "] dot(x, x), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n"                              \
    " w = f32[" N "," N "] convert(d)\n h = f32[" N "," N                                            \
    "] add(g, w)\n"                                                                                  \
    " ROOT q = (s32[], f32[" N "," N "], " Type "[5," B "," N                                        \
    "]) tuple(next, h, xs)\n}\n"                                                                     \
    "ENTRY e {\n p = " Type "[5," B "," N "] parameter(0), sharding={devices=" Rows "<=" Devices     \
    "}\n"                                                                                            \
    " zero = s32[] constant(0)\n f = f32[] constant(0)\n g = f32[" N "," N                           \
    "] broadcast(f), dimensions={}\n"                                                                \
    " s = (s32[], f32[" N "," N "], " Type "[5," B "," N                                             \
    "]) tuple(zero, g, p)\n"                                                                         \
    " w = (s32[], f32[" N "," N "], " Type "[5," B "," N                                             \
    "]) while(s), condition=condition, body=body\n"                                                  \
    " ROOT t = f32[" N "," N "] get-tuple-element(w), index=1, sharding={devices=" Result "<=" Devices "}\n}\n"

// A recurrent product of f32[8,32] and a sharded weight f32[32,128], 16 times.
static const char RECURRENT[] =
    "HloModule m, num_partitions=8\n"
    "condition {\n s = (s32[], f32[8,32], f32[32,128]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
    " n = s32[] constant(16)\n ROOT c = pred[] compare(i, n), direction=LT\n}\n"
    "body {\n s = (s32[], f32[8,32], f32[32,128]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
    " h = f32[8,32] get-tuple-element(s), index=1\n w = f32[32,128] get-tuple-element(s), index=2\n"
    " one = s32[] constant(1)\n next = s32[] add(i, one)\n"
    " z = f32[8,128] dot(h, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
    " a = f32[8,32] slice(z), slice={[0:8],[0:32]}\n b = f32[8,32] slice(z), slice={[0:8],[32:64]}\n"
    " c = f32[8,32] tanh(a)\n d = f32[8,32] multiply(b, c)\n y = f32[8,32] tanh(d)\n"
    " ROOT t = (s32[], f32[8,32], f32[32,128]) tuple(next, y, w)\n}\n"
    "ENTRY e {\n p = f32[8,32] parameter(0), sharding={devices=[8,1]<=[8]}\n"
    " w = f32[32,128] parameter(1), sharding={devices=[8,1]<=[8]}\n zero = s32[] constant(0)\n"
    " s = (s32[], f32[8,32], f32[32,128]) tuple(zero, p, w)\n"
    " l = (s32[], f32[8,32], f32[32,128]) while(s), condition=condition, body=body\n"
    " ROOT r = f32[8,32] get-tuple-element(l), index=1, sharding={devices=[8,1]<=[8]}\n}\n";

static const SentBytes programs[] = {
    {"a linear recurrence", SCAN("4", "16", "8", "i", LINEAR("8"), "[4,1]<=[4]"), 2 * 3 * 16 * 8 * 4 / 16},
    {"from the end", SCAN("4", "16", "8", "back", LINEAR("8"), "[4,1]<=[4]"), 2 * 3 * 16 * 8 * 4 / 16},
    {"uneven times", SCAN("4", "14", "8", "i", LINEAR("8"), "[4,1]<=[4]"), 2 * 3 * 4 * 2 * 4},
    {"two axes", SCAN("4", "16", "8", "i", LINEAR("8"), "[2,2]<=[4]"), 2 * 16 * 8 * 4 / 8},
    {"two axes on one dimension", SCAN("4", "16", "8", "i", LINEAR("8"), "[4,1]<=[2,2]T(1,0)"),
     2 * 3 * 16 * 8 * 4 / 16},
    // A row of 7 cannot be divided evenly, and one of 1 not at all: everything is gathered once.
    {"uneven rows", SCAN("4", "16", "7", "i", LINEAR("7"), "[4,1]<=[4]"), 3 * 16 * 7 * 4 / 4},
    {"rows of one element", SCAN("4", "16", "1", "i", LINEAR("1"), "[4,1]<=[4]"), 3 * 16 * 4 / 4},
    // Each device's part of the sum, once after the loop.
    {"gradients of several batches", GRADIENTS("32", "8", "[4]", "[1,4,1]", "[4,1]"), 3 * 8 * 8 * 4 / 4},
    {"gradients of several batches, by columns", GRADIENTS("32", "8", "[4]", "[1,4,1]", "[1,4]"), 3 * 8 * 8 * 4 / 4},
    {"gradients of uneven batches", GRADIENTS("31", "8", "[4]", "[1,4,1]", "[4,1]"), 3 * 8 * 8 * 4 / 4},
    {"gradients in uneven parts", GRADIENTS("32", "7", "[4]", "[1,4,1]", "[4,1]"), 3 * 8 * 7 * 4 / 4},
    {"gradients of two axes", GRADIENTS("32", "8", "[2,2]T(1,0)", "[1,4,1]", "[2,2]"), 3 * 8 * 8 * 4 / 4},
    // In f32, once, instead of in f16 five times.
    {"gradients in a narrower type", MIXED("32", "8", "f16", "[4]", "[1,4,1]", "[4,1]"), 3 * 8 * 8 * 4 / 4},
    {"gradients in a narrower type, in parts", MIXED("32", "8", "f16", "[4]", "[1,4,1]", "[1,4]"), 3 * 8 * 8 * 4 / 4},
    {"gradients in a narrower type, uneven", MIXED("31", "7", "f16", "[4]", "[1,4,1]", "[4,1]"), 3 * 8 * 7 * 4 / 4},
    {"gradients in a narrower type, of two axes", MIXED("32", "8", "f16", "[2,2]T(1,0)", "[1,4,1]", "[2,2]"),
     3 * 8 * 8 * 4 / 4},
    {"gradients in a narrower type, of size one", MIXED("4", "1", "f16", "[4]", "[1,4,1]", "[4,1]"), 2 * 3 * 4 / 4},
    // The weight is gathered once, and read from memory once.
    {"a recurrent weight", RECURRENT, 7 * 32 * 128 * 4 / 8},
    {"a product in the loop", SCAN("4", "16", "8", "i", PRODUCT("8"), "[4,1]<=[4]"), 3 * 16 * 8 * 4 / 4},
};

CaseList(stacks, at_most_the_plan) {
    return cases_numbered(HLO_COUNT_OF(programs));
}

CaseTest(const int *number, stacks, at_most_the_plan) {
    expect_bytes(&programs[*number]);
}
