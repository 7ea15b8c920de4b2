// SPDX-License-Identifier: Apache-2.0
// Rules of the algebraic simplifier that use known properties of numbers: constants that meet, counts below their
// bounds, signs, whole numbers, parts that move. Before, after, and equal results bit for bit; a rule that must not
// apply has the same text twice.
#include <criterion/criterion.h>
#include <string.h>

#include "check.h"
#include "tests/support/cases.h"

typedef struct KnownCase {
    const char *before, *after;
} KnownCase;

#define P(type, name, number) "  " name " = " type " parameter(" #number ")\n"
#define X(type) P(type, "x", 0)
#define XY(type) P(type, "x", 0) P(type, "y", 1)
#define SCALAR(type, name, value) "  " name " = " type "[] constant(" value ")\n"
// The array `name` of four times `value`.
#define FOUR(type, name, value) \
    SCALAR(type, name "0", value) "  " name " = " type "[4] broadcast(" name "0), dimensions={}\n"
#define COUNT(type) "  i = " type "[4] iota(), iota_dimension=0\n"
#define STAYS(text) \
    { text, text }
// (x op c) op d of integers is one op, or a constant.
#define MEET(type, op, c, d, both)                                                      \
    {                                                                                   \
        X(type "[4]")                                                                   \
        FOUR(type, "c", c)                                                              \
        FOUR(type, "d", d)                                                              \
        "  a = " type "[4] " op "(x, c)\n  ROOT r = " type "[4] " op "(a, d)\n",        \
            X(type "[4]") FOUR(type, "e", both) "  ROOT r = " type "[4] " op "(x, e)\n" \
    }
// A comparison of a count up to four, or its parts.
#define OF_COUNT(op, c, after) \
    { COUNT("s32") FOUR("s32", "c", c) "  ROOT r = " op "\n", after }

// clang-format off
static const KnownCase known[] = {
    // Constants that meet.
    MEET("s32", "and", "12", "10", "8"),
    MEET("s32", "or", "12", "10", "14"),
    MEET("s32", "xor", "12", "10", "6"),
    {X("u8[4]") FOUR("u8", "c", "12") "  ROOT r = u8[4] xor(c, x)\n", X("u8[4]") FOUR("u8", "c", "12") "  ROOT r = u8[4] xor(x, c)\n"},
    MEET("s32", "divide", "5", "7", "35"),
    MEET("u8", "divide", "15", "17", "255"),
    STAYS(X("u8[4]") FOUR("u8", "c", "25") FOUR("u8", "d", "15") "  a = u8[4] divide(x, c)\n  ROOT r = u8[4] divide(a, d)\n"),
    STAYS(X("s8[4]") FOUR("s8", "c", "9") FOUR("s8", "d", "15") "  a = s8[4] divide(x, c)\n  ROOT r = s8[4] divide(a, d)\n"),
    STAYS(X("s8[4]") FOUR("s8", "c", "-3") FOUR("s8", "d", "5") "  a = s8[4] divide(x, c)\n  ROOT r = s8[4] divide(a, d)\n"),
    MEET("s32", "shift-left", "2", "3", "5"),
    MEET("u32", "shift-right-logical", "2", "3", "5"),
    MEET("s8", "shift-right-arithmetic", "5", "6", "7"),
    {X("s8[4]") FOUR("s8", "c", "5") "  a = s8[4] shift-left(x, c)\n  ROOT r = s8[4] shift-left(a, c)\n",
     X("s8[4]") SCALAR("s8", "z", "0") "  ROOT r = s8[4] broadcast(z), dimensions={}\n"},
    {X("s32[4]") FOUR("s32", "z", "0") "  ROOT r = s32[4] shift-right-arithmetic(z, x)\n",
     X("s32[4]") SCALAR("s32", "z", "0") "  ROOT r = s32[4] broadcast(z), dimensions={}\n"},
    // Sums and differences of integers.
    {XY("s32[4]") "  a = s32[4] subtract(x, y)\n  ROOT r = s32[4] subtract(x, a)\n",
     P("s32[4]", "x", 0) "  ROOT y = s32[4] parameter(1)\n"},
    {XY("s32[4]") "  a = s32[4] add(y, x)\n  ROOT r = s32[4] subtract(x, a)\n", XY("s32[4]") "  ROOT r = s32[4] negate(y)\n"},
    {XY("s32[4]") "  a = s32[4] add(x, y)\n  ROOT r = s32[4] subtract(x, a)\n", XY("s32[4]") "  ROOT r = s32[4] negate(y)\n"},
    {XY("s32[4]") "  a = s32[4] subtract(x, y)\n  ROOT r = s32[4] subtract(a, x)\n", XY("s32[4]") "  ROOT r = s32[4] negate(y)\n"},
    STAYS(XY("f32[4]") "  a = f32[4] subtract(x, y)\n  ROOT r = f32[4] subtract(x, a)\n"),
    // Signs.
    {X("f32[4]") FOUR("f32", "c", "-1") "  ROOT r = f32[4] multiply(x, c)\n", X("f32[4]") "  ROOT r = f32[4] negate(x)\n"},
    {X("f32[4]") FOUR("f32", "c", "-1") "  ROOT r = f32[4] divide(x, c)\n", X("f32[4]") "  ROOT r = f32[4] negate(x)\n"},
    {X("f32[4]") FOUR("f32", "c", "3") "  a = f32[4] negate(x)\n  ROOT r = f32[4] multiply(c, a)\n",
     X("f32[4]") FOUR("f32", "c", "-3") "  ROOT r = f32[4] multiply(x, c)\n"},
    {X("s8[4]") FOUR("s8", "c", "3") "  a = s8[4] negate(x)\n  ROOT r = s8[4] multiply(a, c)\n",
     X("s8[4]") FOUR("s8", "c", "-3") "  ROOT r = s8[4] multiply(x, c)\n"},
    {X("f32[4]") "  a = f32[4] negate(x)\n  ROOT r = f32[4] cosine(a)\n", X("f32[4]") "  ROOT r = f32[4] cosine(x)\n"},
    {X("f32[4]") "  a = f32[4] abs(x)\n  ROOT r = f32[4] cosine(a)\n", X("f32[4]") "  ROOT r = f32[4] cosine(x)\n"},
    STAYS(X("c64[4]") "  a = f32[4] abs(x)\n  ROOT r = f32[4] cosine(a)\n"),
    STAYS(X("f32[4]") "  a = f32[4] negate(x)\n  ROOT r = f32[4] sine(a)\n"),
    {X("f32[4]") FOUR("f32", "z", "0") "  a = f32[4] exponential(x)\n  ROOT r = f32[4] maximum(z, a)\n",
     X("f32[4]") "  ROOT r = f32[4] exponential(x)\n"},
    STAYS(X("f32[4]") FOUR("f32", "z", "0") "  a = f32[4] sqrt(x)\n  ROOT r = f32[4] maximum(a, z)\n"),
    {X("f32[4]") FOUR("f32", "z", "0") "  a = f32[4] abs(x)\n  ROOT r = pred[4] compare(a, z), direction=LT\n",
     X("f32[4]") SCALAR("pred", "p", "false") "  ROOT r = pred[4] broadcast(p), dimensions={}\n"},
    STAYS(X("s32[4]") FOUR("s32", "z", "0") "  a = s32[4] abs(x)\n  ROOT r = pred[4] compare(a, z), direction=LT\n"),
    STAYS(X("f32[4]") FOUR("f32", "z", "0") "  a = f32[4] abs(x)\n  ROOT r = pred[4] compare(a, z), direction=GE\n"),
    // Bounds.
    {X("f32[4]") FOUR("f32", "c", "inf") "  ROOT r = pred[4] compare(x, c), direction=GT\n",
     X("f32[4]") SCALAR("pred", "p", "false") "  ROOT r = pred[4] broadcast(p), dimensions={}\n"},
    {X("f32[4]") FOUR("f32", "c", "-inf") "  ROOT r = pred[4] compare(x, c), direction=LT\n",
     X("f32[4]") SCALAR("pred", "p", "false") "  ROOT r = pred[4] broadcast(p), dimensions={}\n"},
    STAYS(X("f32[4]") FOUR("f32", "c", "inf") "  ROOT r = pred[4] compare(x, c), direction=LE\n"),
    STAYS(X("f32[4]") FOUR("f32", "c", "inf") "  ROOT r = pred[4] compare(x, c), direction=GT, type=TOTALORDER\n"),
    {X("s32[4]") FOUR("s32", "c", "2147483647") "  ROOT r = s32[4] maximum(x, c)\n",
     X("s32[4]") SCALAR("s32", "c", "2147483647") "  ROOT r = s32[4] broadcast(c), dimensions={}\n"},
    {X("s8[4]") FOUR("s8", "c", "-128") "  ROOT r = s8[4] minimum(c, x)\n",
     X("s8[4]") SCALAR("s8", "c", "-128") "  ROOT r = s8[4] broadcast(c), dimensions={}\n"},
    STAYS(X("f32[4]") FOUR("f32", "c", "inf") "  ROOT r = f32[4] maximum(x, c)\n"),
    {X("s32[4]") FOUR("s32", "c", "4") FOUR("s32", "d", "7") "  a = s32[4] minimum(x, c)\n  ROOT r = s32[4] maximum(a, d)\n",
     X("s32[4]") SCALAR("s32", "d", "7") "  ROOT r = s32[4] broadcast(d), dimensions={}\n"},
    {X("s32[4]") FOUR("s32", "c", "4") FOUR("s32", "d", "7") "  a = s32[4] maximum(d, x)\n  ROOT r = s32[4] minimum(c, a)\n",
     X("s32[4]") SCALAR("s32", "c", "4") "  ROOT r = s32[4] broadcast(c), dimensions={}\n"},
    STAYS(X("f32[4]") FOUR("f32", "c", "4") FOUR("f32", "d", "7") "  a = f32[4] minimum(x, c)\n  ROOT r = f32[4] maximum(a, d)\n"),
    {X("s32[4]") SCALAR("s32", "c", "4") "  ROOT r = s32[4] clamp(c, x, c)\n",
     X("s32[4]") SCALAR("s32", "c", "4") "  ROOT r = s32[4] broadcast(c), dimensions={}\n"},
    STAYS(X("f32[4]") SCALAR("f32", "c", "4") "  ROOT r = f32[4] clamp(c, x, c)\n"),
    // Counts.
    OF_COUNT("pred[4] compare(i, c), direction=LT", "4", SCALAR("pred", "p", "true") "  ROOT r = pred[4] broadcast(p), dimensions={}\n"),
    OF_COUNT("pred[4] compare(i, c), direction=LE", "3", SCALAR("pred", "p", "true") "  ROOT r = pred[4] broadcast(p), dimensions={}\n"),
    OF_COUNT("pred[4] compare(i, c), direction=GE", "4", SCALAR("pred", "p", "false") "  ROOT r = pred[4] broadcast(p), dimensions={}\n"),
    OF_COUNT("pred[4] compare(i, c), direction=GT", "3", SCALAR("pred", "p", "false") "  ROOT r = pred[4] broadcast(p), dimensions={}\n"),
    OF_COUNT("s32[4] divide(i, c)", "4", SCALAR("s32", "z", "0") "  ROOT r = s32[4] broadcast(z), dimensions={}\n"),
    OF_COUNT("s32[4] maximum(i, c)", "0", "  ROOT i = s32[4] iota(), iota_dimension=0\n"),
    STAYS(COUNT("s32") FOUR("s32", "c", "3") "  ROOT r = pred[4] compare(i, c), direction=LT\n"),
    STAYS(COUNT("s32") FOUR("s32", "c", "2") "  ROOT r = pred[4] compare(i, c), direction=LE\n"),
    STAYS(COUNT("s32") FOUR("s32", "c", "3") "  ROOT r = s32[4] divide(i, c)\n"),
    STAYS(COUNT("s32") FOUR("s32", "c", "4") "  ROOT r = pred[4] compare(i, c), direction=EQ\n"),
    {P("s32[]", "s", 0) "  i = f32[2,9] iota(), iota_dimension=1\n" SCALAR("s32", "z", "0")
         "  ROOT r = f32[2,1] dynamic-slice(i, z, s), dynamic_slice_sizes={2,1}\n",
     P("s32[]", "s", 0) SCALAR("s32", "z", "0") SCALAR("s32", "l", "8") "  p = s32[] clamp(z, s, l)\n"
         "  q = f32[] convert(p)\n  ROOT r = f32[2,1] broadcast(q), dimensions={}\n"},
    STAYS(P("u32[]", "s", 0) "  i = s32[9] iota(), iota_dimension=0\n  ROOT r = s32[1] dynamic-slice(i, s), dynamic_slice_sizes={1}\n"),
    STAYS(P("s8[]", "s", 0) "  i = s32[200] iota(), iota_dimension=0\n  ROOT r = s32[1] dynamic-slice(i, s), dynamic_slice_sizes={1}\n"),
    STAYS(P("s32[]", "s", 0) "  i = s32[9] iota(), iota_dimension=0\n  ROOT r = s32[2] dynamic-slice(i, s), dynamic_slice_sizes={2}\n"),
    // Whole numbers and few bits.
    {X("f32[4]") "  a = f32[4] ceil(x)\n  ROOT r = f32[4] round-nearest-even(a)\n", X("f32[4]") "  ROOT r = f32[4] ceil(x)\n"},
    {X("s32[4]") "  a = f32[4] convert(x)\n  ROOT r = f32[4] floor(a)\n", X("s32[4]") "  ROOT r = f32[4] convert(x)\n"},
    STAYS(X("f64[4]") "  a = f32[4] convert(x)\n  ROOT r = f32[4] floor(a)\n"),
    {X("f32[4]") "  a = f32[4] reduce-precision(x), exponent_bits=5, mantissa_bits=7\n"
                 "  ROOT r = f32[4] reduce-precision(a), exponent_bits=5, mantissa_bits=10\n",
     X("f32[4]") "  ROOT r = f32[4] reduce-precision(x), exponent_bits=5, mantissa_bits=7\n"},
    STAYS(X("f32[4]") "  a = f32[4] reduce-precision(x), exponent_bits=5, mantissa_bits=10\n"
                      "  ROOT r = f32[4] reduce-precision(a), exponent_bits=5, mantissa_bits=7\n"),
    // Parts of parts.
    {X("f32[6,8]") P("s32[]", "i", 1) P("s32[]", "j", 2) SCALAR("s32", "z", "0")
         "  a = f32[6,3] dynamic-slice(x, z, i), dynamic_slice_sizes={6,3}\n"
         "  ROOT r = f32[2,3] dynamic-slice(a, j, z), dynamic_slice_sizes={2,3}\n",
     X("f32[6,8]") P("s32[]", "i", 1) P("s32[]", "j", 2)
         "  ROOT r = f32[2,3] dynamic-slice(x, j, i), dynamic_slice_sizes={2,3}\n"},
    STAYS(X("f32[8]") P("s32[]", "i", 1) P("s32[]", "j", 2)
              "  a = f32[5] dynamic-slice(x, i), dynamic_slice_sizes={5}\n  ROOT r = f32[2] dynamic-slice(a, j), dynamic_slice_sizes={2}\n"),
    // Unchanged values.
    {X("f32[4]") SCALAR("s32", "n", "4") "  ROOT r = f32[4] set-dimension-size(x, n), dimensions={0}\n",
     "  ROOT x = f32[4] parameter(0)\n"},
    {X("f32[4]") "  ROOT r = f32[4] collective-permute(x), source_target_pairs={{0,0}}\n", "  ROOT x = f32[4] parameter(0)\n"},
};
// clang-format on

CaseList(pass_known, rules) {
    return cases_numbered(HLO_COUNT_OF(known));
}

CaseTest(const int *index, pass_known, rules) {
    check_rewrite(known[*index].before, known[*index].after);
}

#define REDUCER(op) "c {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT m = f32[] " op "(a, b)\n}\n\n"

// A reduction, before and after: `op` is the reducer's.
typedef struct ReduceCase {
    const char *op, *before, *after;
} ReduceCase;

// clang-format off
static const ReduceCase reductions[] = {
    // One dimension of a transposed array is reduced in the same order.
    {"add", X("f32[4,6]") SCALAR("f32", "z", "0.5") "  a = f32[6,4] transpose(x), dimensions={1,0}\n"
                "  ROOT r = f32[4] reduce(a, z), dimensions={0}, to_apply=c\n",
     X("f32[4,6]") SCALAR("f32", "z", "0.5") "  ROOT r = f32[4] reduce(x, z), dimensions={1}, to_apply=c\n"},
    {"add", X("f32[2,3,4]") SCALAR("f32", "z", "0.5") "  a = f32[3,2,4] transpose(x), dimensions={1,0,2}\n"
                "  ROOT r = f32[3] reduce(a, z), dimensions={1,2}, to_apply=c\n",
     X("f32[2,3,4]") SCALAR("f32", "z", "0.5") "  ROOT r = f32[3] reduce(x, z), dimensions={0,2}, to_apply=c\n"},
    // In another order, sums of floats round otherwise; extremes do not.
    {"add", X("f32[4,6]") SCALAR("f32", "z", "0.5") "  a = f32[6,4] transpose(x), dimensions={1,0}\n"
                "  ROOT r = f32[] reduce(a, z), dimensions={0,1}, to_apply=c\n", NULL},
    {"maximum", X("f32[4,6]") SCALAR("f32", "z", "0.5") "  a = f32[6,4] transpose(x), dimensions={1,0}\n"
                    "  ROOT r = f32[] reduce(a, z), dimensions={0,1}, to_apply=c\n",
     X("f32[4,6]") SCALAR("f32", "z", "0.5") "  ROOT r = f32[] reduce(x, z), dimensions={0,1}, to_apply=c\n"},
    // Dimensions of one element come and go.
    {"add", X("f32[4,6]") SCALAR("f32", "z", "0.5") "  a = f32[4,1,6] reshape(x)\n"
                "  ROOT r = f32[4] reduce(a, z), dimensions={1,2}, to_apply=c\n",
     X("f32[4,6]") SCALAR("f32", "z", "0.5") "  ROOT r = f32[4] reduce(x, z), dimensions={1}, to_apply=c\n"},
    {"add", X("f32[1,4,1,6]") SCALAR("f32", "z", "0.5") "  a = f32[4,6,1] reshape(x)\n"
                "  ROOT r = f32[6,1] reduce(a, z), dimensions={0}, to_apply=c\n",
     X("f32[1,4,1,6]") SCALAR("f32", "z", "0.5") "  a = f32[1,1,6] reduce(x, z), dimensions={1}, to_apply=c\n"
         "  ROOT r = f32[6,1] reshape(a)\n"},
    {"add", X("f32[4,6]") SCALAR("f32", "z", "0.5") "  a = f32[6,4] reshape(x)\n"
                "  ROOT r = f32[6] reduce(a, z), dimensions={1}, to_apply=c\n", NULL},
    // The extreme of equal numbers.
    {"maximum", X("f32[4]") SCALAR("f32", "z", "-inf") "  a = f32[4,6] broadcast(x), dimensions={0}\n"
                    "  ROOT r = f32[4] reduce(a, z), dimensions={1}, to_apply=c\n", "  ROOT x = f32[4] parameter(0)\n"},
    {"maximum", X("f32[4]") SCALAR("f32", "z", "0") "  a = f32[4,6] broadcast(x), dimensions={0}\n"
                    "  ROOT r = f32[4] reduce(a, z), dimensions={1}, to_apply=c\n", NULL},
    {"add", X("f32[4]") SCALAR("f32", "z", "0") "  a = f32[4,6] broadcast(x), dimensions={0}\n"
                "  ROOT r = f32[4] reduce(a, z), dimensions={1}, to_apply=c\n", NULL},
};
// clang-format on

CaseList(pass_known, reductions) {
    return cases_numbered(HLO_COUNT_OF(reductions));
}

CaseTest(const int *index, pass_known, reductions) {
    const ReduceCase *c = &reductions[*index];
    HloText before = {0}, after = {0};
    const char *rewritten = c->after ? c->after : c->before;
    const bool reduces = strstr(rewritten, "to_apply") != NULL;
    hlo_text_format(&before, "HloModule m\n\n" REDUCER("%s") "ENTRY main {\n%s}\n", c->op, c->before);
    if (reduces) {
        hlo_text_format(&after, "HloModule m\n\n" REDUCER("%s") "ENTRY main {\n%s}\n", c->op, rewritten);
    } else {
        hlo_text_format(&after, "HloModule m\n\nENTRY main {\n%s}\n", rewritten);
    }
    check_pass("algebraic-simplifier,dce", before.data, after.data);
    check_same_results("algebraic-simplifier,dce", before.data, 0);
    hlo_text_free(&before);
    hlo_text_free(&after);
}
