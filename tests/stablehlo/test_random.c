// SPDX-License-Identifier: Apache-2.0
// Random programs through the doors of StableHLO: each one written as MLIR text (pretty and generic) and as bytecode,
// read again, computes the same bits. MESHLO_RANDOM_PROGRAMS sets how many are tried, MESHLO_RANDOM_SEED the first.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdlib.h>

#include "hlo/eval/eval.h"
#include "hlo/stablehlo/stablehlo.h"
#include "hlo/verify/verify.h"
#include "tests/support/cases.h"
#include "tests/support/compiled.h"
#include "tests/support/random_module.h"

typedef enum Door { PRETTY, GENERIC, BYTECODE } Door;
static const char *const kDoors[] = {"text", "generic text", "bytecode"};

static HloStatus write_through(Door door, const HloModule *module, HloText *out) {
    switch (door) {
        case PRETTY: return hlo_module_to_stablehlo_text(module, false, out);
        case GENERIC: return hlo_module_to_stablehlo_generic(module, false, out);
        default: return hlo_module_to_stablehlo_bytecode(module, NULL, out);
    }
}

static HloStatus read_through(Door door, const HloText *written, HloModule **module) {
    if (door == BYTECODE) return hlo_module_from_stablehlo_bytecode(written->data, written->length, module);
    return hlo_module_from_stablehlo_text(written->data, written->length, "random.mlir", module);
}

static HloLiteral *evaluate(const HloModule *module, uint64_t seed, const char *text) {
    const HloLiteral *arguments[256];
    const int64_t count = module->entry->parameters.count;
    cr_assert_leq(count, (int64_t)HLO_COUNT_OF(arguments));
    for (int64_t i = 0; i < count; i++)
        arguments[i] = compiled_random(module->entry->parameters.items[i]->shape, seed + (uint64_t)i);
    HloLiteral *result = NULL;
    HloStatus status = hlo_evaluate(module, arguments, count, NULL, &result);
    cr_assert_null(status, "%s\n%s", hlo_status_message(status), text);
    for (int64_t i = 0; i < count; i++) hlo_literal_free((HloLiteral *)(uintptr_t)arguments[i]);
    return result;
}

static void check(Door door, uint64_t seed) {
    HloText text = {0}, written = {0};
    random_portable_module(seed, 6 + (int)(seed % 25), &text);
    HloModule *module = compiled_must_parse(text.data), *again = NULL;
    HloStatus status = write_through(door, module, &written);
    if (!status) status = read_through(door, &written, &again);
    if (!status) status = hlo_verify(again);
    cr_assert_null(status, "seed %llu, %s: %s\n%s", (unsigned long long)seed, kDoors[door], hlo_status_message(status),
                   text.data);
    HloLiteral *expected = evaluate(module, seed, text.data), *got = evaluate(again, seed, text.data);
    // One result has no tuple around it in a function of MLIR.
    const bool one = hlo_shape_is_tuple(expected->shape) && expected->shape->element_count == 1;
    cr_assert(hlo_literal_equal(one ? expected->elements[0] : expected, got), "seed %llu: other numbers after %s\n%s",
              (unsigned long long)seed, kDoors[door], text.data);
    hlo_literal_free(expected);
    hlo_literal_free(got);
    hlo_module_free(module);
    hlo_module_free(again);
    hlo_text_free(&text);
    hlo_text_free(&written);
}

ParameterizedTestParameters(stablehlo_random, computes_the_same_behind_a_door) {
    static Door doors[] = {PRETTY, GENERIC, BYTECODE};
    return cr_make_param_array(Door, doors, sizeof doors / sizeof doors[0]);
}

ParameterizedTest(Door *door, stablehlo_random, computes_the_same_behind_a_door, .timeout = 900) {
    const int64_t first = cases_setting("MESHLO_RANDOM_SEED", 0), count = cases_setting("MESHLO_RANDOM_PROGRAMS", 400);
    for (int64_t seed = first; seed < first + count; seed++) check(*door, (uint64_t)seed);
}
