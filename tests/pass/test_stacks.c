// SPDX-License-Identifier: Apache-2.0
// What a loop stacks for a later one, computed again there: the same results, wherever the later loop reads.
#include <criterion/criterion.h>
#include <stdio.h>

#include "check.h"

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

static bool writes_slices(const HloModule *module) {
    bool found = false;
    for (int64_t c = 0; c < module->computations.count; c++)
        for (const HloInstruction *i = module->computations.items[c]->first; i; i = i->next)
            found |= hlo_is(i, HLO_OP_DYNAMIC_UPDATE_SLICE);
    return found;
}

Test(stacks, bug_reads_beyond_the_ends_were_computed_for_no_position) {
    for (size_t i = 0; i < sizeof positions / sizeof *positions; i++) {
        char text[8192];
        const char *name = "recompute-scopes";
        snprintf(text, sizeof text, kProgram, positions[i].position);
        check_same_results(name, text, 0);
        HloModule *module = check_parse(text);
        HloStatus status = hlo_run_passes(module, &name, 1, NULL);
        cr_assert_null(status, "%s", hlo_status_message(status));
        cr_expect_eq(writes_slices(module), !positions[i].again, "%s", positions[i].position);
        hlo_module_free(module);
    }
}
