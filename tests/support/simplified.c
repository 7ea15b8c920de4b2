// SPDX-License-Identifier: Apache-2.0
#include "tests/support/simplified.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "hlo/text/text.h"
#include "hlo/verify/verify.h"
#include "tests/support/compiled.h"

static const SimplifiedCase kCases[] = {
#define SIMPLIFIES(name, computations, body, left, left_by_xla) {name, computations, body, left},
#include "tests/compile/cases.def"
#undef SIMPLIFIES
};

const SimplifiedCase *simplified_case(size_t index) {
    return index < HLO_COUNT_OF(kCases) ? &kCases[index] : NULL;
}

const SimplifiedCase *simplified_chain(void) {
    const SimplifiedCase *last = &kCases[HLO_COUNT_OF(kCases) - 1];
    cr_assert_str_eq(last->name, "the chain of all");
    return last;
}

void simplified_text(const SimplifiedCase *test, const char *sharding, HloText *text) {
    hlo_text_format(text,
                    "HloModule t\n%sENTRY e {\n p = f32[%d] parameter(0)%s\n n = s32[%d] parameter(1)%s\n %s\n}\n",
                    test->computations, SIMPLIFIED_ELEMENTS, sharding, SIMPLIFIED_ELEMENTS, sharding, test->body);
}

HloModule *simplified_module(const SimplifiedCase *test, const char *sharding) {
    HloText text = {0};
    simplified_text(test, sharding, &text);
    HloModule *module = compiled_must_parse(text.data);
    must_succeed(hlo_verify(module));
    hlo_text_free(&text);
    return module;
}

// ---- operations

static bool computes(const HloInstruction *at) {
    return !hlo_is(at, HLO_OP_PARAMETER) && !hlo_is(at, HLO_OP_CONSTANT) && !hlo_is(at, HLO_OP_TUPLE);
}

int64_t simplified_count(const HloModule *module) {
    int64_t count = 0;
    for (int64_t c = 0; c < module->computations.count; c++) {
        for (const HloInstruction *at = module->computations.items[c]->first; at; at = at->next) count += computes(at);
    }
    return count;
}

static int compare_words(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

// Their names, sorted. The result may be a parameter, which a partitioned program returns through a copy.
static void list_operations(const HloModule *module, HloText *list) {
    const char *names[64];
    int64_t count = 0;
    for (int64_t c = 0; c < module->computations.count; c++) {
        for (const HloInstruction *at = module->computations.items[c]->first; at; at = at->next) {
            const bool hands_on =
                hlo_is(at, HLO_OP_COPY) && hlo_is(at->operands[0], HLO_OP_PARAMETER) && at == module->entry->root;
            if (!computes(at) || hands_on) continue;
            cr_assert_lt(count, (int64_t)HLO_COUNT_OF(names));
            names[count++] = hlo_op_text(at->opcode);
        }
    }
    qsort(names, (size_t)count, sizeof *names, compare_words);
    for (int64_t i = 0; i < count; i++) hlo_text_format(list, "%s%s", i ? " " : "", names[i]);
}

void simplified_expect_operations(const SimplifiedCase *test, const char *front_end, const HloModule *module) {
    HloText text = {0}, left = {0};
    must_succeed(hlo_print(module, NULL, &text));
    list_operations(module, &left);
    cr_expect_str_eq(left.data ? left.data : "", test->left, "%s, %s:\n%s", test->name, front_end, text.data);
    hlo_text_free(&left);
    hlo_text_free(&text);
}

// ---- values

void simplified_arguments(HloLiteral *arguments[SIMPLIFIED_ARGUMENTS]) {
    static const float values[SIMPLIFIED_ELEMENTS] = {-0.0F, 0.0F, 1.5F, -3.25F, 1e-30F, 3e38F};
    HloArena *arena = hlo_arena_new();
    const int64_t dims[] = {SIMPLIFIED_ELEMENTS};
    arguments[0] = hlo_literal_new(hlo_shape_array(arena, HLO_F32, dims, 1));
    arguments[1] = hlo_literal_new(hlo_shape_array(arena, HLO_S32, dims, 1));
    memcpy(arguments[0]->data, values, sizeof values);
    for (int64_t i = 0; i < SIMPLIFIED_ELEMENTS; i++) hlo_literal_set_int64(arguments[1], i, i - 3);
    hlo_arena_free(arena);
}

HloLiteral *simplified_evaluate(const HloModule *module, HloLiteral *const *arguments, HloNumerics numerics) {
    const HloEvalOptions options = {.numerics = numerics};
    const HloLiteral *const given[SIMPLIFIED_ARGUMENTS] = {arguments[0], arguments[1]};
    HloLiteral *result = NULL;
    must_succeed(hlo_evaluate(module, given, SIMPLIFIED_ARGUMENTS, &options, &result));
    return result;
}

static bool has_exact_bits(const SimplifiedCase *test) {
    static const char *const inexact[] = {"sine", "reduce", "dot"};
    for (size_t i = 0; i < HLO_COUNT_OF(inexact); i++)
        if (strstr(test->left, inexact[i])) return false;
    return true;
}

void simplified_expect_value(const SimplifiedCase *test, const char *front_end, HloLiteral *const *arguments,
                             HloNumerics numerics, HloLiteral *have) {
    HloModule *module = simplified_module(test, "");
    HloLiteral *want = simplified_evaluate(module, arguments, numerics);
    if (has_exact_bits(test)) {
        cr_expect(hlo_shape_equal(have->shape, want->shape, HLO_COMPARE_IGNORE_LAYOUT), "%s, %s", test->name,
                  front_end);
        cr_expect_arr_eq(have->data, want->data, (size_t)hlo_shape_bytes(want->shape), "%s, %s: other bits", test->name,
                         front_end);
    } else {
        HloText message = {0};
        cr_expect(compiled_same(have, want, &(CompiledCheck){0}, &message), "%s, %s: %s", test->name, front_end,
                  message.data);
        hlo_text_free(&message);
    }
    hlo_literal_free(have);
    hlo_literal_free(want);
    hlo_module_free(module);
}
