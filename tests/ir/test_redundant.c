// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "hlo/analysis/redundant.h"
#include "hlo/text/text.h"

static HloModule *parse(const char *text) {
    HloModule *module = NULL;
    HloStatus status = hlo_parse(text, strlen(text), NULL, &module);
    cr_assert_null(status, "%s", hlo_status_message(status));
    return module;
}

static HloInstruction *named(const HloModule *module, const char *name) {
    for (HloInstruction *i = module->entry->first; i; i = i->next)
        if (!strcmp(i->name, name)) return i;
    cr_assert_fail("no instruction %s", name);
    return NULL;
}

// A chain of unused values is removed from its end; parameters, the root, what it needs, effects, and both ends of a
// control edge stay.
Test(redundant, dead_chains_are_removed_and_nothing_else) {
    HloModule *module = parse(
        "HloModule m\nENTRY e {\n p = f32[4] parameter(0)\n q = f32[4] parameter(1)\n"
        " a = f32[4] negate(p)\n b = f32[4] sine(a)\n c = f32[4] add(b, q)\n"
        " before = f32[4] cosine(p)\n after = f32[4] exponential(p), control-predecessors={before}\n"
        " t = token[] after-all()\n o = token[] outfeed(p, t), outfeed_shape=f32[4]\n"
        " needed = f32[4] abs(p)\n ROOT r = f32[4] multiply(needed, needed)\n}\n");
    cr_expect(hlo_instruction_is_dead(named(module, "c")));
    cr_expect_not(hlo_instruction_is_dead(named(module, "b")), "c still uses it");
    cr_expect(hlo_computation_remove_dead(module->entry));
    static const char *const left[] = {"p", "q", "before", "after", "t", "o", "needed", "r"};
    const HloInstruction *at = module->entry->first;
    for (size_t i = 0; i < HLO_COUNT_OF(left); i++, at = at->next) {
        cr_assert_not_null(at);
        cr_expect_str_eq(at->name, left[i]);
    }
    cr_expect_null(at);
    cr_expect_not(hlo_computation_remove_dead(module->entry), "the second time there is nothing left");
    hlo_module_free(module);
}

// The hash does not depend on names or on the order of operands that commute, but on everything else.
Test(redundant, equal_instructions_have_equal_hashes) {
    HloModule *module = parse(
        "HloModule m\nENTRY e {\n p = f32[4] parameter(0)\n q = f32[4] parameter(1)\n"
        " a = f32[4] add(p, q)\n b = f32[4] add(p, q), metadata={op_name=\"b\"}\n c = f32[4] add(q, p)\n"
        " d = f32[4] subtract(p, q)\n f = f32[4] subtract(q, p)\n g = f32[2] slice(p), slice={[0:2]}\n"
        " h = f32[2] slice(p), slice={[1:3]}\n"
        " ROOT r = (f32[4], f32[4], f32[4], f32[4], f32[4], f32[2], f32[2]) tuple(a, b, c, d, f, g, h)\n}\n");
    const uint64_t a = hlo_instruction_hash(named(module, "a"));
    cr_expect_eq(hlo_instruction_hash(named(module, "b")), a);
    cr_expect_eq(hlo_instruction_hash(named(module, "c")), a);
    cr_expect_neq(hlo_instruction_hash(named(module, "d")), a);
    cr_expect_neq(hlo_instruction_hash(named(module, "d")), hlo_instruction_hash(named(module, "f")));
    cr_expect_neq(hlo_instruction_hash(named(module, "g")), hlo_instruction_hash(named(module, "h")));
    hlo_module_free(module);
}

// Permutes of one operand that had the same hash made a search for repeated instructions quadratic.
Test(redundant, permutes_of_one_operand_have_hashes_of_their_own) {
    enum { PERMUTES = 200, DEVICES = 512 };
    HloText text = {0};
    hlo_text_format(&text, "HloModule m, num_partitions=%d\nENTRY e {\n ROOT p = f32[4] parameter(0)\n", DEVICES);
    for (int i = 0; i < PERMUTES; i++) {
        // Half of them with a pair or two, half with one for each device.
        hlo_text_format(&text, " via%d = f32[4] collective-permute(p), channel_id=%d, source_target_pairs={{%d,%d}", i,
                        i + 1, i % 2 ? 0 : i, i % 2 ? i : i + 1);
        for (int k = 1; i % 2 && k < DEVICES; k++) hlo_text_format(&text, ",{%d,%d}", k, (k + i) % DEVICES);
        hlo_text_string(&text, "}\n");
    }
    hlo_text_string(&text, "}\n");
    HloModule *module = parse(text.data);
    uint64_t hashes[PERMUTES];
    for (int i = 0; i < PERMUTES; i++) {
        char name[16];
        snprintf(name, sizeof name, "via%d", i);
        hashes[i] = hlo_instruction_hash(named(module, name));
        for (int k = 0; k < i; k++) cr_expect_neq(hashes[i], hashes[k], "%d and %d", i, k);
    }
    hlo_module_free(module);
    hlo_text_free(&text);
}

// A new attribute came last, but where its key belongs when the text was read again.
Test(redundant, a_frontend_attribute_is_set_where_a_text_has_it) {
    HloModule *module = parse(
        "HloModule m\nENTRY e {\n p = f32[4] parameter(0)\n"
        " ROOT n = f32[4] negate(p), frontend_attributes={b=\"1\",d=\"2\"}\n}\n");
    HloInstruction *root = module->entry->root;
    hlo_instruction_set_frontend_attribute(root, "c", "3");
    hlo_instruction_set_frontend_attribute(root, "a", "4");
    hlo_instruction_set_frontend_attribute(root, "d", "5");
    const HloKeyValues set = root->frontend_attributes;
    cr_assert_eq(set.count, 4);
    for (int i = 0; i < 4; i++) cr_expect_eq(set.items[i].key[0], "abcd"[i]);
    cr_expect_str_eq(set.items[3].value, "5");
    hlo_module_free(module);
}
