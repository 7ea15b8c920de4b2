// SPDX-License-Identifier: Apache-2.0
// Rules of the algebraic simplifier for sums of arrays that are zero except for a part: before, after, and equal
// results bit for bit. A rule that must not apply has the same text twice.
#include <criterion/criterion.h>

#include "check.h"
#include "tests/support/cases.h"

typedef struct SumCase {
    const char *before, *after;
} SumCase;

#define P(type, name, number) "  " name " = " type " parameter(" #number ")\n"
#define C(type, name, value) "  " name " = " type " constant(" value ")\n"
#define SPLAT(type, name, of) "  " name " = " type " broadcast(" of "), dimensions={}\n"
#define EXP_AND_PART P("f32[8,2]", "x", 0) P("f32[4,2]", "y", 1) "  e = f32[8,2] exponential(x)\n"
#define STAYS(text) \
    { text, text }

static const SumCase sums[] = {
    // A sum that has no -0, and a pad on either side.
    {EXP_AND_PART C("f32[]", "z", "0") "  p = f32[8,2] pad(y, z), padding=1_3x0_0\n  ROOT r = f32[8,2] add(e, p)\n",
     EXP_AND_PART "  s = f32[4,2] slice(e), slice={[1:5], [0:2]}\n  a = f32[4,2] add(s, y)\n" C("s64[]", "i", "1")
         C("s64[]", "j", "0") "  ROOT r = f32[8,2] dynamic-update-slice(e, a, i, j)\n"},
    {EXP_AND_PART C("f32[]", "z", "0") "  p = f32[8,2] pad(y, z), padding=1_3x0_0\n  ROOT r = f32[8,2] add(p, e)\n",
     EXP_AND_PART "  s = f32[4,2] slice(e), slice={[1:5], [0:2]}\n  a = f32[4,2] add(y, s)\n" C("s64[]", "i", "1")
         C("s64[]", "j", "0") "  ROOT r = f32[8,2] dynamic-update-slice(e, a, i, j)\n"},
    // An update of zeros at an unknown index.
    {EXP_AND_PART P("s32[]", "i", 2) C("f32[]", "z", "0") SPLAT("f32[8,2]", "b", "z")
         C("s32[]", "j", "0") "  p = f32[8,2] dynamic-update-slice(b, y, i, j)\n  ROOT r = f32[8,2] add(e, p)\n",
     EXP_AND_PART P("s32[]", "i", 2)
         C("s32[]", "j",
           "0") "  s = f32[4,2] dynamic-slice(e, i, j), dynamic_slice_sizes={4,2}\n  a = f32[4,2] add(s, y)\n"
                "  ROOT r = f32[8,2] dynamic-update-slice(e, a, i, j)\n"},
    // Two parts, which may have a -0 each: 0 is added to both.
    {P("f32[2]", "x", 0) P("f32[3]", "y", 1)
         C("f32[]", "z", "0") "  a = f32[8] pad(x, z), padding=0_6\n"
                              "  b = f32[8] pad(y, z), padding=4_1\n  ROOT r = f32[8] add(a, b)\n",
     P("f32[2]", "x", 0) P("f32[3]", "y", 1) C("f32[]", "z", "0") SPLAT("f32[2]", "u", "z")
         SPLAT("f32[3]", "v", "z") "  c = f32[2] add(x, u)\n  a = f32[8] pad(c, z), padding=0_6\n  d = f32[3] add(v, "
                                   "y)\n" C("s64[]", "i", "4") "  ROOT r = f32[8] dynamic-update-slice(a, d, i)\n"},
    // Parts that overlap are added as they were, so that -0 + -0 stays -0.
    {P("f32[2]", "x", 0) P("f32[3]", "y", 1)
         C("f32[]", "z", "0") "  a = f32[8] pad(x, z), padding=4_2\n"
                              "  b = f32[8] pad(y, z), padding=4_1\n  ROOT r = f32[8] add(a, b)\n",
     P("f32[2]", "x", 0) P("f32[3]", "y", 1) C("f32[]", "z", "0")
         SPLAT("f32[2]", "u", "z") "  c = f32[2] add(x, u)\n"
                                   "  a = f32[8] pad(c, z), padding=4_2\n  b = f32[8] pad(x, z), padding=4_2\n"
                                   "  s = f32[3] slice(b), slice={[4:7]}\n  d = f32[3] add(s, y)\n" C(
                                       "s64[]", "i", "4") "  ROOT r = f32[8] dynamic-update-slice(a, d, i)\n"},
    // Integers have no -0.
    {P("s32[8]", "x", 0) P("s32[3]", "y", 1) C("s32[]", "z", "0") "  p = s32[8] pad(y, z), padding=5_0\n"
                                                                  "  ROOT r = s32[8] add(x, p)\n",
     P("s32[8]", "x", 0) P("s32[3]", "y", 1) "  s = s32[3] slice(x), slice={[5:8]}\n  a = s32[3] add(s, y)\n" C(
         "s64[]", "i", "5") "  ROOT r = s32[8] dynamic-update-slice(x, a, i)\n"},
    // The sum may have a -0, which 0 would change; the padding is not 0 everywhere; the part is most of the array; the
    // padded array has another user.
    STAYS(P("f32[8]", "x", 0) P("f32[3]", "y", 1) C("f32[]", "z", "0") "  p = f32[8] pad(y, z), padding=5_0\n"
                                                                       "  ROOT r = f32[8] add(x, p)\n"),
    STAYS(
        EXP_AND_PART C("f32[]", "z", "1") "  p = f32[8,2] pad(y, z), padding=1_3x0_0\n  ROOT r = f32[8,2] add(e, p)\n"),
    STAYS(EXP_AND_PART C("f32[]", "z",
                         "0") "  p = f32[8,2] pad(y, z), padding=0_1_1x0_0\n  ROOT r = f32[8,2] add(e, p)\n"),
    STAYS(P("f32[6]", "x", 0) P("f32[4]", "y", 1)
              C("f32[]", "z", "0") "  e = f32[6] exponential(x)\n"
                                   "  p = f32[6] pad(y, z), padding=1_1\n  ROOT r = f32[6] add(e, p)\n"),
    STAYS(EXP_AND_PART C("f32[]", "z", "0") "  p = f32[8,2] pad(y, z), padding=1_3x0_0\n  a = f32[8,2] add(e, p)\n"
                                            "  ROOT r = f32[8,2] multiply(a, p)\n"),
};

CaseList(pass_accumulate, sums_of_parts) {
    return cases_numbered(HLO_COUNT_OF(sums));
}

CaseTest(const int *index, pass_accumulate, sums_of_parts) {
    check_rewrite(sums[*index].before, sums[*index].after);
}

// A chain in every order of parts, with parts that overlap and parts of zeros, at the ends of the types: -0 and NaN
// included.
Test(pass_accumulate, chains_keep_their_bits) {
    static const char *const types[] = {"f32", "bf16", "f64", "s8"};
    for (uint64_t seed = 0; seed < 24; seed++) {
        const char *type = types[seed % 4];
        HloText text = {0};
        hlo_text_format(&text,
                        "HloModule m\n\nENTRY main {\n  z = %s[] constant(0)\n  b = %s[6,3] broadcast(z), "
                        "dimensions={}\n  j = s32[] constant(0)\n",
                        type, type);
        for (int k = 0; k < 5; k++) {
            const int low = (int)((seed * 7 + (uint64_t)k * (seed % 3 + 1)) % 5);
            hlo_text_format(&text, "  x%d = %s[2,3] parameter(%d)\n  i%d = s32[] parameter(%d)\n", k, type, k, k,
                            5 + k);
            if ((seed + (uint64_t)k) % 3)
                hlo_text_format(&text, "  p%d = %s[6,3] pad(x%d, z), padding=%d_%dx0_0\n", k, type, k, low, 4 - low);
            else
                hlo_text_format(&text, "  p%d = %s[6,3] dynamic-update-slice(b, x%d, i%d, j)\n", k, type, k, k);
        }
        hlo_text_format(&text,
                        "  sum1 = %s[6,3] add(p0, p1)\n  sum2 = %s[6,3] add(p2, sum1)\n  sum3 = %s[6,3] add(sum2, p3)\n"
                        "  ROOT sum4 = %s[6,3] add(sum3, p4)\n}\n",
                        type, type, type, type);
        check_same_at_the_ends("simplify", text.data, seed);
        check_same_results("simplify", text.data, 0);
        hlo_text_free(&text);
    }
}

#define SUM "sum {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT r = f32[] add(a, b)\n}\n\n"
#define SUM_AND(from, term)                                                                              \
    "HloModule m\n\n" SUM "ENTRY main {\n  x = f32[4] parameter(0)\n  z = f32[] constant(" from          \
    ")\n"                                                                                                \
    "  s = f32[] reduce(x, z), dimensions={0}, to_apply=sum\n  n = f32[] constant(0)\n  t = f32[] " term \
    "\n  ROOT r = f32[] sqrt(t)\n}\n"

// sum(jnp.sum(g * g) for g in gradients) begins with 0 in StableHLO, but not in HLO text: 280 and 278 us a step.
Test(pass_accumulate, a_sum_plus_zero_is_the_sum) {
    const char *after = "HloModule m\n\n" SUM
                        "ENTRY main {\n  x = f32[4] parameter(0)\n  z = f32[] constant(0)\n"
                        "  s = f32[] reduce(x, z), dimensions={0}, to_apply=sum\n  ROOT r = f32[] sqrt(s)\n}\n";
    check_pass("algebraic-simplifier,dce", SUM_AND("0", "add(n, s)"), after);
    check_pass("algebraic-simplifier,dce", SUM_AND("0", "add(s, n)"), after);
    check_same_at_the_ends("algebraic-simplifier,dce", SUM_AND("0", "add(s, n)"), 1);
}

// A sum that begins with -0 may be -0, which adding 0 makes 0.
Test(pass_accumulate, a_sum_from_minus_zero_keeps_the_zero_that_is_added) {
    check_pass("algebraic-simplifier,dce", SUM_AND("-0", "add(n, s)"),
               "HloModule m\n\n" SUM
               "ENTRY main {\n  n = f32[] constant(0)\n  x = f32[4] parameter(0)\n"
               "  z = f32[] constant(-0)\n  s = f32[] reduce(x, z), dimensions={0}, to_apply=sum\n"
               "  t = f32[] add(n, s)\n  ROOT r = f32[] sqrt(t)\n}\n");
}
