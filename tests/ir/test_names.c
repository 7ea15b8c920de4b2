// SPDX-License-Identifier: Apache-2.0
// Names are unique whatever was requested: against a list of all names, searched in order.
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hlo/ir/module.h"

enum { MOST_NAMES = 24, LONGEST_NAME = 32 };

typedef struct Reference {
    char names[MOST_NAMES][LONGEST_NAME];
    int count;
    // Where counting continues for the stems that were requested twice.
    char stems[MOST_NAMES][LONGEST_NAME];
    int next[MOST_NAMES];
    int stem_count;
} Reference;

static bool has(const Reference *reference, const char *name) {
    for (int i = 0; i < reference->count; i++) {
        if (strcmp(reference->names[i], name) == 0) return true;
    }
    return false;
}

static bool has_number(const Reference *reference, const char *stem, int number) {
    char name[2 * LONGEST_NAME];
    snprintf(name, sizeof(name), "%s.%d", stem, number);
    return has(reference, name) || (number == 0 && has(reference, stem));
}

static int *counter(Reference *reference, const char *stem, bool make) {
    for (int i = 0; i < reference->stem_count; i++) {
        if (strcmp(reference->stems[i], stem) == 0) return &reference->next[i];
    }
    if (!make) return NULL;
    strcpy(reference->stems[reference->stem_count], stem);
    return &reference->next[reference->stem_count++];
}

// The name that XLA's rule gives: the requested name if it is unused (without the zeros before its number), else its
// stem with the next number; the bare stem and "stem.0" are one.
static const char *give(Reference *reference, const char *wanted) {
    char stem[LONGEST_NAME], *name = reference->names[reference->count];
    strcpy(stem, wanted);
    char *dot = strrchr(stem, '.');
    const bool numbered = dot && dot > stem && dot[1] && strspn(dot + 1, "0123456789") == strlen(dot + 1);
    int number = numbered ? atoi(dot + 1) : 0;
    if (numbered) *dot = 0;
    int *next = numbered ? NULL : counter(reference, stem, false);
    if (!next && has_number(reference, stem, number)) next = counter(reference, stem, true);
    if (next && *next == 0 && has_number(reference, stem, 0)) ++*next;
    char made[2 * LONGEST_NAME];
    do {
        if (next) number = (*next)++;
        snprintf(made, sizeof(made), numbered || number ? "%s.%d" : "%s", stem, number);
    } while (has(reference, made));
    strcpy(name, made);
    reference->count++;
    return name;
}

Test(ir_names, are_unique_whatever_was_asked_for) {
    static const char *const wanted[] = {"a",      "a.0",   "a.1",   "a.2",  "a.00", "a.01", "a.0.0",
                                         "a.0.1",  "a.1.0", "a.1.1", "b.05", "b",    "b.5",  "b.1",
                                         "b.05.0", "b.0",   "b.5.0", "a.10", "_",    "_."};
    unsigned state = 1;
    for (int round = 0; round < 20000; round++) {
        HloModule *module = hlo_module_new("names");
        Reference reference = {.count = 0};
        const unsigned choice = 1 + round % HLO_COUNT_OF(wanted);
        for (int i = 0; i < 12; i++) {
            state = state * 1103515245 + 12345;
            const char *name = wanted[state / 65536 % choice];
            const char *given = hlo_computation_new(module, name)->name;
            cr_assert_str_eq(given, give(&reference, name), "asked for '%s' in round %d", name, round);
        }
        hlo_module_free(module);
    }
}

Test(ir_names, are_not_given_out_when_they_are_reserved) {
    HloModule *module = hlo_module_new("names");
    hlo_names_reserve(module->arena, &module->computation_names, "f");
    hlo_names_reserve(module->arena, &module->computation_names, "f.1");
    cr_expect_str_eq(hlo_computation_new(module, "f")->name, "f.2");
    cr_expect_str_eq(hlo_computation_new(module, "f.1")->name, "f.3");
    hlo_module_free(module);
}

// The results of XLA's NameUniquer::GetSanitizedName (xla/service/name_uniquer.cc).
Test(ir_names, hold_what_the_text_can_hold) {
    static const struct {
        const char *asked, *given;
    } cases[] = {
        {"add.1", "add.1"},
        {"z = f32[4]{0} negate(%a)\n  %y", "z___f32_4__0__negate__a_____y"},
        {"\033[2Jx", "a_2Jx"},
        {"caf\xC3\xA9", "caf__"},
        {"\xFF", "_"},
        {"<lambda>", "_lambda_"},
        {"1x", "_x"},
        {"-a", "_a"},
        {"a/b:c", "a_b_c"},
        {"__builtin", "a_builtin"},
        {"__xla_x", "__xla_x"},
        {"f32", "f32_"},
        {"token", "token_"},
        {"tuple", "tuple"},
        {"b", "b"},
    };
    for (size_t i = 0; i < HLO_COUNT_OF(cases); i++) {
        HloModule *module = hlo_module_new(cases[i].asked);
        cr_expect_str_eq(module->name, cases[i].given);
        HloComputation *computation = hlo_computation_new(module, cases[i].asked);
        cr_expect_str_eq(computation->name, cases[i].given);
        HloInstruction *made = hlo_instruction_new(computation, HLO_OP_PARTITION_ID,
                                                   hlo_shape_scalar(module->arena, HLO_U32), NULL, 0, NULL, "other");
        hlo_instruction_set_name(made, cases[i].asked);
        cr_expect_str_eq(made->name, cases[i].given);
        hlo_module_free(module);
    }
}
