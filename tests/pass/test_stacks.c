// SPDX-License-Identifier: Apache-2.0
// What a loop stacks for a later one, computed again there: the same results, wherever the later loop reads.
#include <criterion/criterion.h>
#include <stdio.h>

#include "check.h"
#include "hlo/analysis/contents.h"

// The forward loop stacks sine(i * x), the backward one adds up what it reads at `position`, made of its counter i.
static const char kProgram[] =
    "HloModule stacks\n"
    "forward {\n"
    "  s = (s32[], f32[64], f32[6,64]) parameter(0)\n"
    "  i = s32[] get-tuple-element(s), index=0\n"
    "  x = f32[64] get-tuple-element(s), index=1\n"
    "  old = f32[6,64] get-tuple-element(s), index=2\n"
    "  f = f32[] convert(i)\n"
    "  fs = f32[64] broadcast(f), dimensions={}\n"
    "  m = f32[64] multiply(fs, x)\n"
    "  v = f32[64] sine(m)\n"
    "  u = f32[1,64] reshape(v)\n"
    "  zero = s32[] constant(0)\n"
    "  one = s32[] constant(1)\n"
    "  new = f32[6,64] dynamic-update-slice(old, u, i, zero)\n"
    "  j = s32[] add(i, one)\n"
    "  ROOT r = (s32[], f32[64], f32[6,64]) tuple(j, x, new)\n"
    "}\n"
    "forward_more {\n"
    "  s = (s32[], f32[64], f32[6,64]) parameter(0)\n"
    "  i = s32[] get-tuple-element(s), index=0\n"
    "  n = s32[] constant(6)\n"
    "  ROOT c = pred[] compare(i, n), direction=LT\n"
    "}\n"
    "backward {\n"
    "  s = (s32[], f32[64], f32[6,64]) parameter(0)\n"
    "  i = s32[] get-tuple-element(s), index=0\n"
    "  a = f32[64] get-tuple-element(s), index=1\n"
    "  vs = f32[6,64] get-tuple-element(s), index=2\n"
    "  zero = s32[] constant(0)\n"
    "  one = s32[] constant(1)\n"
    "  three = s32[] constant(3)\n"
    "  five = s32[] constant(5)\n"
    "%s"
    "  w = f32[1,64] dynamic-slice(vs, at, zero), dynamic_slice_sizes={1,64}\n"
    "  v = f32[64] reshape(w)\n"
    "  b = f32[64] add(a, v)\n"
    "  j = s32[] add(i, one)\n"
    "  ROOT r = (s32[], f32[64], f32[6,64]) tuple(j, b, vs)\n"
    "}\n"
    "backward_more {\n"
    "  s = (s32[], f32[64], f32[6,64]) parameter(0)\n"
    "  i = s32[] get-tuple-element(s), index=0\n"
    "  n = s32[] constant(6)\n"
    "  ROOT c = pred[] compare(i, n), direction=LT\n"
    "}\n"
    "ENTRY main {\n"
    "  x = f32[64] parameter(0)\n"
    "  zero = s32[] constant(0)\n"
    "  nought = f32[] constant(0)\n"
    "  zeros = f32[6,64] broadcast(nought), dimensions={}\n"
    "  s = (s32[], f32[64], f32[6,64]) tuple(zero, x, zeros)\n"
    "  loop = (s32[], f32[64], f32[6,64]) while(s), condition=forward_more, body=forward\n"
    "  stack = f32[6,64] get-tuple-element(loop), index=2\n"
    "  t = (s32[], f32[64], f32[6,64]) tuple(zero, x, stack)\n"
    "  back = (s32[], f32[64], f32[6,64]) while(t), condition=backward_more, body=backward\n"
    "  ROOT y = f32[64] get-tuple-element(back), index=1\n"
    "}\n";

typedef struct PositionCase {
    const char *position;
    bool again;  // there is no stack afterwards
} PositionCase;

static const PositionCase positions[] = {
    {"  at = s32[] copy(i)\n", true},
    {"  at = s32[] subtract(five, i)\n", true},
    {"  d = s32[] subtract(five, i)\n  n = s32[] constant(6)\n  m = s32[] add(d, n)\n  l = pred[] compare(d, zero), "
     "direction=LT\n  at = s32[] select(l, m, d)\n",
     true},
    // Beyond the ends the first or last slice is read.
    {"  at = s32[] add(i, one)\n", false},
    {"  at = s32[] subtract(i, one)\n", false},
    {"  at = s32[] subtract(three, i)\n", false},
    // Known to be there, but not to the pass.
    {"  at = s32[] minimum(i, five)\n", false},
};

Test(stacks, bug_reads_beyond_the_ends_were_computed_for_no_position) {
    for (size_t i = 0; i < sizeof positions / sizeof *positions; i++) {
        char text[8192];
        const char *name = "recompute-scopes";
        snprintf(text, sizeof text, kProgram, positions[i].position);
        check_same_results(name, text, 0);
        HloModule *module = check_parse(text);
        HloStatus status = hlo_run_passes(module, &name, 1, NULL);
        cr_assert_null(status, "%s", hlo_status_message(status));
        cr_expect_eq(hlo_module_has(module, HLO_OP_DYNAMIC_UPDATE_SLICE), !positions[i].again, "%s",
                     positions[i].position);
        hlo_module_free(module);
    }
}

// The forward loop stacks a value of the x, the counter i and the element c of its state, 1 at the beginning; the
// backward one adds up what it reads. Given are the element's type, what computes the row and the next element, and
// what computes the first one.
// clang-format off
#define STATE_PROGRAM(type, row, initial) \
    "HloModule stacks\n" \
    "forward {\n" \
    "  s = (s32[], f32[4,4], f32[6,4,4], " type ") parameter(0)\n" \
    "  i = s32[] get-tuple-element(s), index=0\n" \
    "  x = f32[4,4] get-tuple-element(s), index=1\n" \
    "  old = f32[6,4,4] get-tuple-element(s), index=2\n" \
    "  c = " type " get-tuple-element(s), index=3\n" \
    "  f = f32[] convert(i)\n" \
    "  zero = s32[] constant(0)\n" \
    "  one = s32[] constant(1)\n" \
    row \
    "  new = f32[6,4,4] dynamic-update-slice(old, u, i, zero, zero)\n" \
    "  j = s32[] add(i, one)\n" \
    "  ROOT r = (s32[], f32[4,4], f32[6,4,4], " type ") tuple(j, x, new, n)\n" \
    "}\n" \
    "forward_more {\n" \
    "  s = (s32[], f32[4,4], f32[6,4,4], " type ") parameter(0)\n" \
    "  i = s32[] get-tuple-element(s), index=0\n" \
    "  six = s32[] constant(6)\n" \
    "  ROOT m = pred[] compare(i, six), direction=LT\n" \
    "}\n" \
    "backward {\n" \
    "  s = (s32[], f32[4,4], f32[6,4,4]) parameter(0)\n" \
    "  i = s32[] get-tuple-element(s), index=0\n" \
    "  a = f32[4,4] get-tuple-element(s), index=1\n" \
    "  vs = f32[6,4,4] get-tuple-element(s), index=2\n" \
    "  zero = s32[] constant(0)\n" \
    "  one = s32[] constant(1)\n" \
    "  five = s32[] constant(5)\n" \
    "  at = s32[] subtract(five, i)\n" \
    "  w = f32[1,4,4] dynamic-slice(vs, at, zero, zero), dynamic_slice_sizes={1,4,4}\n" \
    "  v = f32[4,4] reshape(w)\n" \
    "  aa = f32[4,4] multiply(a, v)\n" \
    "  b = f32[4,4] add(aa, v)\n" \
    "  j = s32[] add(i, one)\n" \
    "  ROOT r = (s32[], f32[4,4], f32[6,4,4]) tuple(j, b, vs)\n" \
    "}\n" \
    "backward_more {\n" \
    "  s = (s32[], f32[4,4], f32[6,4,4]) parameter(0)\n" \
    "  i = s32[] get-tuple-element(s), index=0\n" \
    "  six = s32[] constant(6)\n" \
    "  ROOT m = pred[] compare(i, six), direction=LT\n" \
    "}\n" \
    "ENTRY main {\n" \
    "  x = f32[4,4] parameter(0)\n" \
    "  zero = s32[] constant(0)\n" \
    "  nought = f32[] constant(0)\n" \
    "  first = f32[] constant(1)\n" \
    "  zeros = f32[6,4,4] broadcast(nought), dimensions={}\n" \
    initial \
    "  s = (s32[], f32[4,4], f32[6,4,4], " type ") tuple(zero, x, zeros, c)\n" \
    "  loop = (s32[], f32[4,4], f32[6,4,4], " type ") while(s), condition=forward_more, body=forward\n" \
    "  stack = f32[6,4,4] get-tuple-element(loop), index=2\n" \
    "  t = (s32[], f32[4,4], f32[6,4,4]) tuple(zero, x, stack)\n" \
    "  back = (s32[], f32[4,4], f32[6,4,4]) while(t), condition=backward_more, body=backward\n" \
    "  ROOT y = f32[4,4] get-tuple-element(back), index=1\n" \
    "}\n"
// clang-format on

static void check_state(const char *text, bool again) {
    const char *name = "recompute-scopes";
    check_same_results(name, text, 0);
    HloModule *module = check_parse(text);
    HloStatus status = hlo_run_passes(module, &name, 1, NULL);
    cr_assert_null(status, "%s", hlo_status_message(status));
    cr_expect_eq(hlo_module_has(module, HLO_OP_DYNAMIC_UPDATE_SLICE), !again, "%s", text);
    hlo_module_free(module);
}

#define BROADCAST_ROW(dimensions)                                                   \
    "  fs = f32[4,4] broadcast(f), dimensions={}\n  m = f32[4,4] multiply(fs, x)\n" \
    "  u = f32[1,4,4] broadcast(m), dimensions={" dimensions "}\n  n = f32[] copy(c)\n"

Test(stacks, bug_rows_that_a_broadcast_transposes_were_taken_for_reshapes) {
    check_state(STATE_PROGRAM("f32[]", BROADCAST_ROW("1,2"), "  c = f32[] copy(first)\n"), true);
    check_state(STATE_PROGRAM("f32[]", BROADCAST_ROW("2,1"), "  c = f32[] copy(first)\n"), true);
}

Test(stacks, bug_structures_that_iterations_pass_on_were_stacked) {
    check_state(STATE_PROGRAM("(f32[], f32[])",
                              "  c0 = f32[] get-tuple-element(c), index=0\n"
                              "  cs = f32[4,4] broadcast(c0), dimensions={}\n  m = f32[4,4] multiply(cs, x)\n"
                              "  u = f32[1,4,4] reshape(m)\n  d = f32[] add(c0, f)\n"
                              "  n = (f32[], f32[]) tuple(d, f)\n",
                              "  c = (f32[], f32[]) tuple(first, nought)\n"),
                false);
}
