// SPDX-License-Identifier: Apache-2.0
// Arrays that are sent in the narrower of two types, before a conversion or after it.
#include <criterion/criterion.h>

#include "tests/spmd/check.h"
#include "tests/support/cases.h"

// A program for four devices whose parameter %p is split along its first dimension.
#define SPLIT(Shape, Body)                                                                                        \
    "HloModule m, num_partitions=4\nENTRY e {\n p = " Shape " parameter(0), sharding={devices=[4,1]<=[4]}\n" Body \
    "}"                                                                                                           \
    "\n"

static const SentBytes programs[] = {
    {"a shift",
     SPLIT("bf16[8,6]",
           " w = f32[8,6] convert(p)\n z = f32[] constant(0)\n q = f32[9,6] pad(w, z), "
           "padding=1_0x0_0\n s = f32[8,6] slice(q), slice={[0:8],[0:6]}\n ROOT t = f32[8,6] add(w, s), "
           "sharding={devices=[4,1]<=[4]}\n"),
     6 * 2},
    {"a shift, uneven",
     SPLIT("s8[9,6]",
           " w = f32[9,6] convert(p)\n z = f32[] constant(0)\n q = f32[10,6] pad(w, z), "
           "padding=1_0x0_0\n s = f32[9,6] slice(q), slice={[0:9],[0:6]}\n ROOT t = f32[9,6] add(w, s), "
           "sharding={devices=[4,1]<=[4]}\n"),
     6},
    {"a shift of booleans",
     SPLIT("pred[8,1]",
           " w = s32[8,1] convert(p)\n z = s32[] constant(0)\n "
           "q = s32[9,1] pad(w, z), padding=1_0x0_0\n s = s32[8,1] slice(q), slice={[0:8],[0:1]}\n "
           "ROOT t = s32[8,1] add(w, s), sharding={devices=[4,1]<=[4]}\n"),
     1},
    {"rows and columns with corners",
     "HloModule m, num_partitions=4\nadd {\n x = f32[] parameter(0)\n y = f32[] parameter(1)\n"
     " ROOT z = f32[] add(x, y)\n}\nENTRY e {\n p = bf16[8,6] parameter(0), sharding={devices=[2,2]<=[4]}\n"
     " w = f32[8,6] convert(p)\n z = f32[] constant(0)\n ROOT t = f32[8,6] reduce-window(w, z), "
     "window={size=3x3 pad=1_1x1_1}, to_apply=add, sharding={devices=[2,2]<=[4]}\n}\n",
     // Each device has one neighbour along each axis: a row of three elements, and then a column of six.
     (3 + 6) * 2},
    {"a reversal",
     SPLIT("bf16[8,6]",
           " w = f32[8,6] convert(p)\n ROOT t = f32[8,6] reverse(w), dimensions={0}, "
           "sharding={devices=[4,1]<=[4]}\n"),
     2 * 6 * 2},
    {"a narrower type, gathered",
     SPLIT("f32[8,6]",
           " w = f32[8,6] copy(p), sharding={replicated}\n "
           "ROOT t = bf16[8,6] convert(w), sharding={replicated}\n"),
     3 * 2 * 6 * 2},
    {"a narrower type, exchanged",
     SPLIT("f32[8,8]",
           " w = f32[8,8] copy(p), sharding={devices=[1,4]<=[4]}\n "
           "ROOT t = s8[8,8] convert(w), sharding={devices=[1,4]<=[4]}\n"),
     3 * 2 * 2},
    {"a wider type, whole at the exit",
     SPLIT("bf16[8,6]",
           " w = f32[8,6] convert(p), sharding={devices=[4,1]<=[4]}\n "
           "ROOT t = f32[8,6] copy(w), "
           "sharding={devices=[1,4]<=[4]}\n"),
     2 * 8 * 2 * 3 / 4},
    // The whole array is a result as well.
    {"needed in both types",
     SPLIT("f32[8,6]",
           " w = f32[8,6] copy(p), sharding={replicated}\n "
           "c = bf16[8,6] convert(w), sharding={replicated}\n ROOT t = (f32[8,6], bf16[8,6]) tuple(w, c)\n"),
     3 * 2 * 6 * 4},
    {"a constant that the narrow type lacks",
     SPLIT("bf16[8,6]",
           " w = f32[8,6] convert(p)\n"
           " z = f32[] constant(0.1)\n q = f32[8,7] pad(w, z), padding=0_0x1_0, sharding={devices=[4,1]<=[4]}\n"
           " ROOT t = f32[8,7] reverse(q), dimensions={0}, sharding={devices=[4,1]<=[4]}\n"),
     2 * 7 * 4},
    {"a constant that the narrow type has",
     SPLIT("bf16[8,6]",
           " w = f32[8,6] convert(p)\n"
           " z = f32[] constant(-inf)\n q = f32[8,7] pad(w, z), padding=0_0x1_0, sharding={devices=[4,1]<=[4]}\n"
           " ROOT t = f32[8,7] reverse(q), dimensions={0}, sharding={devices=[4,1]<=[4]}\n"),
     2 * 7 * 2},
};

CaseList(narrow, less_is_sent) {
    return cases_numbered(HLO_COUNT_OF(programs));
}

CaseTest(const int *number, narrow, less_is_sent) {
    expect_bytes(&programs[*number]);
}
