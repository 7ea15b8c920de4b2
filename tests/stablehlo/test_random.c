// SPDX-License-Identifier: Apache-2.0
// Random programs through the readers and writers of StableHLO: each one written as MLIR text (pretty and generic) and
// as bytecode, read again, computes the same bits, on one device and on many, and is written again as it was.
// MESHLO_RANDOM_PROGRAMS sets how many are tried, MESHLO_RANDOM_SEED the first.
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

// A module that is read and written again is the same, text and bytes: a round trip adds nothing and loses nothing. The
// first one gives a program its form (scalar bounds of a clamp, which HLO has as arrays), so that it is the later ones
// which are compared.
static void check_fixed(Door door, uint64_t seed, const HloText *text) {
    enum { TRIPS = 3 };
    HloText written[TRIPS] = {0};
    HloModule *module = compiled_must_parse(text->data);
    for (int i = 0; i < TRIPS; i++) {
        HloModule *again = NULL;
        HloStatus status = write_through(door, module, &written[i]);
        if (!status) status = read_through(door, &written[i], &again);
        cr_assert_null(status, "seed %llu, %s: %s\n%s", (unsigned long long)seed, kDoors[door],
                       hlo_status_message(status), text->data);
        hlo_module_free(module);
        module = again;
    }
    const HloText *before = &written[TRIPS - 2], *after = &written[TRIPS - 1];
    cr_assert(before->length == after->length && memcmp(before->data, after->data, after->length) == 0,
              "seed %llu: another %s\n%s\n%s", (unsigned long long)seed, kDoors[door], text->data,
              door == BYTECODE ? "" : after->data);
    for (int i = 0; i < TRIPS; i++) hlo_text_free(&written[i]);
    hlo_module_free(module);
}

// On all its devices: results have the same bits.
static void check_devices(Door door, uint64_t seed, const HloText *text) {
    HloText written = {0}, message = {0};
    HloModule *module = compiled_must_parse(text->data), *again = NULL;
    HloStatus status = write_through(door, module, &written);
    if (status) {  // ops without a form in StableHLO are refused by this code
        cr_assert_eq(hlo_status_code(status), HLO_UNIMPLEMENTED, "seed %llu, %s: %s\n%s", (unsigned long long)seed,
                     kDoors[door], hlo_status_message(status), text->data);
        hlo_status_free(status);
        hlo_module_free(module);
        hlo_text_free(&written);
        return;
    }
    status = read_through(door, &written, &again);
    if (!status) status = hlo_verify(again);
    cr_assert_null(status, "seed %llu, %s: %s\n%s", (unsigned long long)seed, kDoors[door], hlo_status_message(status),
                   text->data);
    enum { MOST_DEVICES = 64 };
    const int64_t devices = module->replica_count * module->num_partitions;
    cr_assert(devices <= MOST_DEVICES && again->replica_count * again->num_partitions == devices);
    char spec[32];
    snprintf(spec, sizeof spec, "cpu:%lld", (long long)devices);
    const CompiledCheck check = {.spec = spec, .threads = 2, .seed = seed, .allow_fallback = true};
    HloLiteral *expected[MOST_DEVICES] = {0}, *got[MOST_DEVICES] = {0};
    cr_assert(compiled_run(module, &check, expected, &message), "seed %llu: %s\n%s", (unsigned long long)seed,
              message.data, text->data);
    const bool ran = compiled_run(again, &check, got, &message);
    // StableHLO's messages are not begun and ended: a message that is received before it is sent never arrives, and
    // that is said.
    const bool waits = !ran && strstr(text->data, " recv(") && strstr(message.data, "deadlock");
    cr_assert(ran || waits, "seed %llu, %s: %s\n%s", (unsigned long long)seed, kDoors[door], message.data, text->data);
    for (int64_t d = 0; d < devices; d++) {
        const bool one = hlo_shape_is_tuple(expected[d]->shape) && expected[d]->shape->element_count == 1;
        cr_assert(waits || hlo_literal_equal(one ? expected[d]->elements[0] : expected[d], got[d]),
                  "seed %llu: other numbers on device %lld after %s\n%s", (unsigned long long)seed, (long long)d,
                  kDoors[door], text->data);
        hlo_literal_free(expected[d]);
        hlo_literal_free(got[d]);
    }
    hlo_module_free(module);
    hlo_module_free(again);
    hlo_text_free(&written);
    hlo_text_free(&message);
}

CaseList(stablehlo_random, computes_the_same_through_each_format) {
    static Door doors[] = {PRETTY, GENERIC, BYTECODE};
    return cr_make_param_array(Door, doors, sizeof doors / sizeof doors[0]);
}

CaseTest(Door *door, stablehlo_random, computes_the_same_through_each_format, .timeout = 900) {
    const int64_t first = cases_setting("MESHLO_RANDOM_SEED", 0), count = cases_count("MESHLO_RANDOM_PROGRAMS", 400);
    for (int64_t seed = first; seed < first + count; seed++) check(*door, (uint64_t)seed);
}

CaseList(stablehlo_random, is_written_again_as_it_was_read) {
    static Door doors[] = {PRETTY, GENERIC, BYTECODE};
    return cr_make_param_array(Door, doors, sizeof doors / sizeof doors[0]);
}

CaseTest(Door *door, stablehlo_random, is_written_again_as_it_was_read, .timeout = 900) {
    const int64_t first = cases_setting("MESHLO_RANDOM_SEED", 0), count = cases_count("MESHLO_RANDOM_PROGRAMS", 400);
    for (int64_t seed = first; seed < first + count; seed++) {
        HloText text = {0};
        random_portable_module((uint64_t)seed, 6 + (int)(seed % 25), &text);
        check_fixed(*door, (uint64_t)seed, &text);
        hlo_text_free(&text);
    }
}

CaseList(stablehlo_random, computes_the_same_on_all_devices) {
    static Door doors[] = {PRETTY, GENERIC, BYTECODE};
    return cr_make_param_array(Door, doors, sizeof doors / sizeof doors[0]);
}

CaseTest(Door *door, stablehlo_random, computes_the_same_on_all_devices, .timeout = 900) {
    const int64_t first = cases_setting("MESHLO_RANDOM_SEED", 0), count = cases_count("MESHLO_RANDOM_PROGRAMS", 200);
    for (int64_t seed = first; seed < first + count; seed++) {
        HloText text = {0};
        random_devices_module((uint64_t)seed, 4 + (int)(seed % 15), &text);
        check_devices(*door, (uint64_t)seed, &text);
        hlo_text_free(&text);
    }
}
