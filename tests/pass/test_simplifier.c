// SPDX-License-Identifier: Apache-2.0
// Rules of the algebraic simplifier, each with its before and after, and with equal results.
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "hlo/pass/pass.h"
#include "hlo/text/text.h"
#include "tests/support/cases.h"

typedef struct RuleCase {
    const char *before, *after;
} RuleCase;

#define P0(type) "  x = " type " parameter(0)\n"
#define P1(type) "  y = " type " parameter(1)\n"
#define SAME_X "  ROOT x = s32[4] parameter(0)\n"

static const RuleCase rules[] = {
    {P0("s32[]") "  z = s32[] constant(0)\n  ROOT r = s32[] add(x, z)\n", "  ROOT x = s32[] parameter(0)\n"},
    {P0("f32[]") "  z = f32[] constant(-0.0)\n  ROOT r = f32[] add(x, z)\n", "  ROOT x = f32[] parameter(0)\n"},
    {P0("f32[]") "  z = f32[] constant(0)\n  ROOT r = f32[] add(x, z)\n",
     P0("f32[]") "  z = f32[] constant(0)\n  ROOT r = f32[] add(x, z)\n"},
    {P0("f32[]") "  z = f32[] constant(0)\n  ROOT r = f32[] multiply(x, z)\n",
     P0("f32[]") "  z = f32[] constant(0)\n  ROOT r = f32[] multiply(x, z)\n"},
    {P0("f32[]") "  z = f32[] constant(0)\n  ROOT r = f32[] subtract(x, z)\n", "  ROOT x = f32[] parameter(0)\n"},
    {P0("s32[4]") "  c = s32[] constant(1)\n  o = s32[4] broadcast(c), dimensions={}\n  ROOT r = s32[4] multiply(o, "
                  "x)\n",
     SAME_X},
    {P0("s32[]") "  a = s32[] constant(5)\n  b = s32[] constant(7)\n  s = s32[] add(a, x)\n  ROOT r = s32[] add(s, "
                 "b)\n",
     P0("s32[]") "  constant = s32[] constant(12)\n  ROOT r = s32[] add(x, constant)\n"},
    {P0("f32[4]") P1("f32[4]") "  n = f32[4] negate(y)\n  ROOT r = f32[4] add(x, n)\n",
     P0("f32[4]") P1("f32[4]") "  ROOT r = f32[4] subtract(x, y)\n"},
    {P0("u32[]") "  c = u32[] constant(8)\n  ROOT r = u32[] divide(x, c)\n",
     P0("u32[]") "  constant = u32[] constant(3)\n  ROOT r = u32[] shift-right-logical(x, constant)\n"},
    {P0("u32[]") "  c = u32[] constant(8)\n  ROOT r = u32[] remainder(x, c)\n",
     P0("u32[]") "  constant = u32[] constant(7)\n  ROOT r = u32[] and(x, constant)\n"},
    {P0("f32[]") "  c = f32[] constant(8)\n  ROOT r = f32[] divide(x, c)\n",
     P0("f32[]") "  constant = f32[] constant(0.125)\n  ROOT r = f32[] multiply(x, constant)\n"},
    {P0("s32[4]") "  n = s32[4] negate(x)\n  ROOT r = s32[4] negate(n)\n", SAME_X},
    {P0("s32[4]") "  ROOT r = s32[4] maximum(x, x)\n", SAME_X},
    {P0("f32[]") "  c = f32[] constant(-inf)\n  ROOT r = f32[] maximum(x, c)\n", "  ROOT x = f32[] parameter(0)\n"},
    {P0("s8[]") "  c = s8[] constant(127)\n  ROOT r = s8[] minimum(x, c)\n", "  ROOT x = s8[] parameter(0)\n"},
    {P0("f32[4]") P1("f32[4]") "  c = c64[4] complex(x, y)\n  ROOT r = f32[4] imag(c)\n",
     "  x = f32[4] parameter(0)\n  ROOT y = f32[4] parameter(1)\n"},
    {P0("s32[4]") "  ROOT r = s32[4] xor(x, x)\n",
     "  x = s32[4] parameter(0)\n  constant = s32[] constant(0)\n  ROOT r = s32[4] broadcast(constant), "
     "dimensions={}\n"},
    {P0("s32[4]") P1("s32[4]") "  c = pred[4] compare(x, y), direction=LT\n  ROOT r = pred[4] not(c)\n",
     P0("s32[4]") P1("s32[4]") "  ROOT r = pred[4] compare(x, y), direction=GE\n"},
    {P0("f32[4]") P1("f32[4]") "  c = pred[4] compare(x, y), direction=LT\n  ROOT r = pred[4] not(c)\n",
     P0("f32[4]") P1("f32[4]") "  c = pred[4] compare(x, y), direction=LT\n  ROOT r = pred[4] not(c)\n"},
    {P0("u8[]") "  z = u8[] constant(0)\n  ROOT r = pred[] compare(x, z), direction=LT\n",
     "  x = u8[] parameter(0)\n  ROOT r = pred[] constant(false)\n"},
    {P0("pred[4]") P1("s32[4]") "  n = pred[4] not(x)\n  z = s32[4] negate(y)\n  ROOT r = s32[4] select(n, y, z)\n",
     P0("pred[4]") P1("s32[4]") "  z = s32[4] negate(y)\n  ROOT r = s32[4] select(x, z, y)\n"},
    {P0("s8[4]") "  a = s32[4] convert(x)\n  ROOT r = f32[4] convert(a)\n",
     P0("s8[4]") "  ROOT r = f32[4] convert(x)\n"},
    {P0("f32[4]") "  a = bf16[4] convert(x)\n  ROOT r = f32[4] convert(a)\n",
     P0("f32[4]") "  a = bf16[4] convert(x)\n  ROOT r = f32[4] convert(a)\n"},
    // -1 becomes 0 through the float, but 4294967295 without it.
    {P0("s16[4]") "  a = f32[4] convert(x)\n  ROOT r = u32[4] convert(a)\n",
     P0("s16[4]") "  a = f32[4] convert(x)\n  ROOT r = u32[4] convert(a)\n"},
    {P0("bf16[4]") "  a = f32[4] convert(x)\n  ROOT r = bf16[4] convert(a)\n", "  ROOT x = bf16[4] parameter(0)\n"},
    {P0("f32[2,3]") "  a = f32[6] reshape(x)\n  ROOT r = f32[3,2] reshape(a)\n",
     P0("f32[2,3]") "  ROOT r = f32[3,2] reshape(x)\n"},
    {P0("f32[2,3,4]") "  a = f32[4,2,3] transpose(x), dimensions={2,0,1}\n"
                      "  ROOT r = f32[3,4,2] transpose(a), dimensions={2,0,1}\n",
     P0("f32[2,3,4]") "  ROOT r = f32[3,4,2] transpose(x), dimensions={1,2,0}\n"},
    {P0("f32[1,3]") "  ROOT r = f32[3,1] transpose(x), dimensions={1,0}\n",
     P0("f32[1,3]") "  ROOT r = f32[3,1] reshape(x)\n"},
    {P0("f32[3]") "  a = f32[2,3] broadcast(x), dimensions={1}\n  ROOT r = f32[2,4,3] broadcast(a), dimensions={0,2}\n",
     P0("f32[3]") "  ROOT r = f32[2,4,3] broadcast(x), dimensions={2}\n"},
    {P0("f32[3]") "  a = f32[1,3] reshape(x)\n  ROOT r = f32[1,3,5] broadcast(a), dimensions={0,1}\n",
     P0("f32[3]") "  ROOT r = f32[1,3,5] broadcast(x), dimensions={1}\n"},
    {P0("f32[3]") "  a = f32[2,3] broadcast(x), dimensions={1}\n  ROOT r = f32[3,2] transpose(a), dimensions={1,0}\n",
     P0("f32[3]") "  ROOT r = f32[3,2] broadcast(x), dimensions={0}\n"},
    {P0("f32[10]") "  a = f32[6] slice(x), slice={[2:8]}\n  ROOT r = f32[2] slice(a), slice={[1:5:3]}\n",
     P0("f32[10]") "  ROOT r = f32[2] slice(x), slice={[3:7:3]}\n"},
    {P0("f32[4]")
         P1("f32[6]") "  a = f32[10] concatenate(x, y), dimensions={0}\n  ROOT r = f32[3] slice(a), slice={[5:8]}\n",
     P0("f32[4]") P1("f32[6]") "  ROOT r = f32[3] slice(y), slice={[1:4]}\n"},
    {P0("f32[9]") "  a = f32[4] slice(x), slice={[0:4]}\n  b = f32[5] slice(x), slice={[4:9]}\n"
                  "  ROOT r = f32[9] concatenate(a, b), dimensions={0}\n",
     "  ROOT x = f32[9] parameter(0)\n"},
    {P0("f32[4]") P1("f32[]") "  a = f32[7] pad(x, y), padding=2_1\n  ROOT r = f32[3] slice(a), slice={[3:6]}\n",
     P0("f32[4]") P1("f32[]") "  ROOT r = f32[3] slice(x), slice={[1:4]}\n"},
    {P0("f32[4]") P1("f32[]") "  ROOT r = f32[2] pad(x, y), padding=-1_-1\n",
     P0("f32[4]") P1("f32[]") "  ROOT r = f32[2] slice(x), slice={[1:3]}\n"},
    {P0("f32[4]") P1("f32[]") "  a = f32[7] pad(x, y), padding=2_1\n  ROOT r = f32[8] pad(a, y), padding=0_1\n",
     P0("f32[4]") P1("f32[]") "  ROOT r = f32[8] pad(x, y), padding=2_2\n"},
    {P0("f32[4]") "  a = f32[4] reverse(x), dimensions={0}\n  ROOT r = f32[4] reverse(a), dimensions={0}\n",
     "  ROOT x = f32[4] parameter(0)\n"},
    {P0("f32[8]") "  i = s32[] constant(6)\n  ROOT r = f32[4] dynamic-slice(x, i), dynamic_slice_sizes={4}\n",
     P0("f32[8]") "  ROOT r = f32[4] slice(x), slice={[4:8]}\n"},
    {P0("f32[3,2]")
         P1("f32[3,4]") "  t = f32[2,3] transpose(x), dimensions={1,0}\n"
                        "  ROOT r = f32[2,4] dot(t, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n",
     P0("f32[3,2]")
         P1("f32[3,4]") "  ROOT r = f32[2,4] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n"},
    {P0("f32[3,0]")
         P1("f32[0,4]") "  ROOT r = f32[3,4] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n",
     P0("f32[3,0]")
         P1("f32[0,4]") "  constant = f32[] constant(0)\n  ROOT r = f32[3,4] broadcast(constant), dimensions={}\n"},
    {P0("s32[4]") P1("s32[4]") "  a = (s32[4], s32[4]) tuple(x, y)\n  ROOT r = s32[4] get-tuple-element(a), index=0\n",
     "  ROOT x = s32[4] parameter(0)\n  y = s32[4] parameter(1)\n"},
};

CaseList(pass_simplifier, rewrites) {
    return cases_numbered(HLO_COUNT_OF(rules));
}

// Names are not compared: both sides are renamed in order.
CaseTest(const int *index, pass_simplifier, rewrites) {
    check_rewrite(rules[*index].before, rules[*index].after);
}

// A broadcast in groups of one device is a no-op where they name every device; devices that they leave out get zeros.
typedef struct AloneCase {
    const char *groups;
    bool stays;
} AloneCase;

static const AloneCase alone[] = {{"{{0},{1},{2},{3}}", false}, {"{{1}}", true}, {"{{3},{0},{1}}", true}};

CaseList(pass_simplifier, broadcasts_to_one_device) {
    return cases_numbered(HLO_COUNT_OF(alone));
}

CaseTest(const int *index, pass_simplifier, broadcasts_to_one_device) {
    static const char *const passes[] = {"algebraic-simplifier"};
    const HloPassOptions options = {0};
    char text[256];
    snprintf(text, sizeof(text),
             "HloModule m, replica_count=4\nENTRY e {\n  p = f32[4] parameter(0)\n  ROOT r = f32[4] "
             "collective-broadcast(p), replica_groups=%s\n}\n",
             alone[*index].groups);
    HloModule *module = NULL;
    cr_assert_null(hlo_parse(text, strlen(text), NULL, &module));
    cr_assert_null(hlo_run_passes(module, passes, 1, &options));
    cr_expect_eq(hlo_is(module->entry->root, HLO_OP_COLLECTIVE_BROADCAST), alone[*index].stays, "%s",
                 alone[*index].groups);
    hlo_module_free(module);
}

// Where a product's first operand was replaced, the product was visited at once, before its second operand if the text
// had that later. So the order of the text decided whether a transpose went into the product or into a broadcast.
Test(pass_simplifier, bug_rewrites_depended_on_the_order_of_the_text) {
#define BROADCAST "  q = f32[2] parameter(0)\n  b = f32[2,3] broadcast(q), dimensions={0}\n"
#define NEGATE "  n = f32[2,3] negate(b)\n"
#define TRANSPOSE "  t = f32[3,2] transpose(b), dimensions={1,0}\n"
#define PRODUCT                                                                                  \
    "  d = f32[2,2] dot(n, t), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n  ROOT r = (" \
    "f32[2,2], f32[2,3]) tuple(d, b)\n"
    static const char after[] =
        "  q = f32[2] parameter(0)\n  m = f32[2] negate(q)\n  n = f32[2,3] broadcast(m), dimensions={0}\n"
        "  t = f32[3,2] broadcast(q), dimensions={1}\n"
        "  d = f32[2,2] dot(n, t), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        "  b = f32[2,3] broadcast(q), dimensions={0}\n  ROOT r = (f32[2,2], f32[2,3]) tuple(d, b)\n";
    check_rewrite(BROADCAST NEGATE TRANSPOSE PRODUCT, after);
    check_rewrite(BROADCAST TRANSPOSE NEGATE PRODUCT, after);
#undef BROADCAST
#undef NEGATE
#undef TRANSPOSE
#undef PRODUCT
}
