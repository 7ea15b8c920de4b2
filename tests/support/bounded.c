// SPDX-License-Identifier: Apache-2.0
#include "tests/support/bounded.h"

#include <criterion/criterion.h>
#include <stdio.h>

#include "tests/support/compiled.h"

static const BoundedCase kCases[] = {
#define BOUNDED(name, instructions) {name, instructions},
#include "tests/support/bounded.def"
#undef BOUNDED
};

static const char kComputations[] =
    "HloModule bounded\n"
    "add { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT x = f32[] add(a, b)\n}\n"
    "maximum { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT x = f32[] maximum(a, b)\n}\n"
    "second { a = f32[] parameter(0)\n ROOT b = f32[] parameter(1)\n}\n"
    "less { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT x = pred[] compare(a, b), direction=LT\n}\n"
    "larger { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT x = pred[] compare(a, b), direction=GT\n}\n"
    "less2 { a = f32[] parameter(0)\n b = f32[] parameter(1)\n c = s32[] parameter(2)\n d = s32[] parameter(3)\n"
    " ROOT x = pred[] compare(a, b), direction=LT\n}\n"
    "greatest { a = f32[] parameter(0)\n i = s32[] parameter(1)\n b = f32[] parameter(2)\n j = s32[] parameter(3)\n"
    " g = pred[] compare(a, b), direction=GE\n v = f32[] select(g, a, b)\n w = s32[] select(g, i, j)\n"
    " ROOT x = (f32[], s32[]) tuple(v, w)\n}\n"
    "twice { a = f32[<=6] parameter(0)\n ROOT x = f32[<=6] add(a, a)\n}\n"
    "squared { a = f32[<=6] parameter(0)\n ROOT x = f32[<=6] multiply(a, a)\n}\n"
    "going { t = (s32[], f32[<=6]) parameter(0)\n k = s32[] get-tuple-element(t), index=0\n z = s32[] constant(0)\n"
    " ROOT x = pred[] compare(k, z), direction=GT\n}\n"
    "shrink { t = (s32[], f32[<=6]) parameter(0)\n k = s32[] get-tuple-element(t), index=0\n"
    " a = f32[<=6] get-tuple-element(t), index=1\n one = s32[] constant(1)\n l = s32[] subtract(k, one)\n"
    " s = s32[] get-dimension-size(a), dimensions={0}\n z = s32[] constant(0)\n r = s32[] subtract(s, one)\n"
    " o = s32[] maximum(r, z)\n b = f32[<=6] reverse(a), dimensions={0}\n"
    " c = f32[<=6] set-dimension-size(b, o), dimensions={0}\n ROOT x = (s32[], f32[<=6]) tuple(l, c)\n}\n"
    "ENTRY main {\n p = f32[6] parameter(0)\n q = f32[6,4] parameter(1)\n i = s32[6] parameter(2)\n any = "
    "s32[] parameter(3)\n other = s32[] parameter(4)\n none = s32[] constant(0)\n all = s32[] constant(6)\n"
    " n = s32[] clamp(none, any, all)\n m = s32[] clamp(none, other, all)\n four = s32[] constant(4)\n columns = s32[] "
    "minimum(n, four)\n"
    " d = f32[<=6] set-dimension-size(p, n), dimensions={0}\n e = f32[<=6] set-dimension-size(p, m), dimensions={0}\n"
    " r = f32[<=6,4] set-dimension-size(q, n), dimensions={0}\n"
    " c = f32[<=6,<=4] set-dimension-size(r, columns), dimensions={1}\n"
    " j = s32[<=6] set-dimension-size(i, n), dimensions={0}\n zero = f32[] constant(0)\n one = f32[] constant(1)\n ";

size_t bounded_count(void) {
    return HLO_COUNT_OF(kCases);
}

const BoundedCase *bounded_case(size_t index) {
    return index < HLO_COUNT_OF(kCases) ? &kCases[index] : NULL;
}

char *bounded_text(const BoundedCase *bounded) {
    HloText text = {0};
    hlo_text_format(&text, "%s%s\n}\n", kComputations, bounded->instructions);
    return text.data;
}

HloModule *bounded_program(const BoundedCase *bounded) {
    HloText message = {0};
    char *text = bounded_text(bounded);
    HloModule *module = compiled_parse(text, &message);
    cr_assert_not_null(module, "%s: %s", bounded->name, message.data);
    hlo_free(text);
    hlo_text_free(&message);
    return module;
}

void bounded_arguments(const HloModule *module, int64_t n, int64_t m, HloLiteral **arguments) {
    for (int64_t p = 0; p < BOUNDED_ARGUMENTS; p++)
        arguments[p] = compiled_random(module->entry->parameters.items[p]->shape, (uint64_t)(31 * n + 7 * m + p));
    for (int64_t k = 0; k < BOUNDED_SIZE; k++)
        hlo_literal_set_int64(arguments[2], k, (k * 5 + n) % (BOUNDED_SIZE + 2) - 1);  // some out of bounds
    hlo_literal_set_int64(arguments[3], 0, n);
    hlo_literal_set_int64(arguments[4], 0, m);
}
