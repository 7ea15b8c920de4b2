// SPDX-License-Identifier: Apache-2.0
// Small questions that programs may ask of the IR.
#include <criterion/criterion.h>
#include <string.h>

#include "hlo/hlo.h"
#include "tests/support/compiled.h"

Test(ir_questions, devices_that_a_sharding_names) {
    static const struct {
        const char *text;
        int64_t devices;
    } cases[] = {
        {"{devices=[2,4]<=[8]}", 8},
        {"{devices=[2,1,3]0,1,2,3,4,5 last_tile_dim_replicate}", 6},
        {"{mesh['a'=2,'b'=4], [{'a'}]}", 8},
        {"{maximal device=3}", 1},
        {"{replicated}", 0},
        {"{manual}", 0},
        {"{{devices=[4]<=[4]}, {replicated}}", 4},
        {"{{replicated}, {devices=[4]<=[4]}}", 0},
    };
    for (size_t i = 0; i < HLO_COUNT_OF(cases); i++) {
        HloArena *arena = hlo_arena_new();
        const HloSharding *sharding = NULL;
        must_succeed(hlo_parse_sharding(arena, cases[i].text, strlen(cases[i].text), &sharding));
        cr_expect_eq(hlo_sharding_device_count(sharding), cases[i].devices, "%s names %lld", cases[i].text,
                     (long long)hlo_sharding_device_count(sharding));
        hlo_arena_free(arena);
    }
}

Test(ir_questions, places_of_operands) {
    HloModule *module = compiled_must_parse(
        "HloModule m\nENTRY e {\n p = f32[] parameter(0)\n q = f32[] parameter(1)\n n = f32[] negate(p)\n"
        " ROOT s = f32[] subtract(n, q)\n}\n");
    const HloInstruction *root = module->entry->root;
    cr_expect_eq(hlo_instruction_operand_index(root, module->entry->parameters.items[1]), 1);
    cr_expect_eq(hlo_instruction_operand_index(root, root->operands[0]), 0);
    cr_expect_eq(hlo_instruction_operand_index(root, module->entry->parameters.items[0]), -1);
    hlo_module_free(module);
}
