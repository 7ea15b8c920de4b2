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

Test(ir_questions, positions_of_operands) {
    HloModule *module = compiled_must_parse(
        "HloModule m\nENTRY e {\n p = f32[] parameter(0)\n q = f32[] parameter(1)\n n = f32[] negate(p)\n"
        " ROOT s = f32[] subtract(n, q)\n}\n");
    const HloInstruction *root = module->entry->root;
    cr_expect_eq(hlo_instruction_operand_index(root, module->entry->parameters.items[1]), 1);
    cr_expect_eq(hlo_instruction_operand_index(root, root->operands[0]), 0);
    cr_expect_eq(hlo_instruction_operand_index(root, module->entry->parameters.items[0]), -1);
    hlo_module_free(module);
}

#define TABLES                                                                                            \
    "FileNames\n1 \"a.py\"\n2 \"b.py\"\n3 \"c.py\"\n\nFunctionNames\n1 \"f\"\n2 \"g\"\n\nFileLocations\n" \
    "1 {file_name_id=1 function_name_id=1 line=1 end_line=1 column=1 end_column=2}\n"                     \
    "2 {file_name_id=2 function_name_id=2 line=2 end_line=2 column=1 end_column=2}\n"                     \
    "3 {file_name_id=3 function_name_id=2 line=3 end_line=3 column=1 end_column=2}\n\nStackFrames\n"      \
    "1 {file_location_id=1 parent_frame_id=1}\n2 {file_location_id=2 parent_frame_id=1}\n"                \
    "3 {file_location_id=3 parent_frame_id=1}\n4 {file_location_id=3 parent_frame_id=3}\n\n"

// Dead code goes, and its rows with it: the frame that called it, places and names remain.
Test(ir_questions, stack_tables_without_what_nothing_refers_to) {
    HloModule *module = compiled_must_parse(
        "HloModule m\n\n" TABLES
        "ENTRY e {\n p = f32[] parameter(0), metadata={stack_frame_id=99}\n"
        " d = f32[] negate(p), metadata={stack_frame_id=1}\n c = f32[] cosine(d), metadata={stack_frame_id=2}\n"
        " n = f32[] negate(p), metadata={stack_frame_id=4}\n ROOT s = f32[] sine(n), metadata={stack_frame_id=4}\n}\n");
    static const char *const passes[] = {"dce"};
    HloText text = {0}, again = {0};
    const char *file;
    int64_t line;
    cr_expect_eq(module->stack.frames.count, 3);
    must_succeed(hlo_run_passes(module, passes, 1, NULL));
    hlo_module_renumber_frames(module);
    must_succeed(hlo_print(module, NULL, &text));
    const char *tables = strstr(text.data, "FileNames"), *end = strstr(text.data, "ENTRY");
    cr_assert(tables && end);
    const size_t length = (size_t)(end - tables);
    const char *wanted =
        "FileNames\n1 \"b.py\"\n2 \"c.py\"\n\nFunctionNames\n1 \"g\"\n\nFileLocations\n"
        "1 {file_name_id=1 function_name_id=1 line=2 end_line=2 column=1 end_column=2}\n"
        "2 {file_name_id=2 function_name_id=1 line=3 end_line=3 column=1 end_column=2}\n\nStackFrames\n"
        "1 {file_location_id=1 parent_frame_id=1}\n2 {file_location_id=2 parent_frame_id=2}\n\n\n";
    cr_expect(length == strlen(wanted) && !memcmp(tables, wanted, length), "%s", text.data);
    hlo_instruction_source(module->entry->root, &file, &line);
    cr_expect(file && !strcmp(file, "c.py") && line == 3);
    hlo_instruction_source(module->entry->parameters.items[0], &file, &line);
    cr_expect_null(file);
    HloModule *read = compiled_must_parse(text.data);
    must_succeed(hlo_print(read, NULL, &again));
    cr_expect_str_eq(again.data, text.data);
    hlo_text_free(&text);
    hlo_text_free(&again);
    hlo_module_free(module);
    hlo_module_free(read);
}

// Bug: if one computation was created after its caller, all others left the order of creation too.
Test(ir_questions, post_order_keeps_the_order_of_creation) {
    HloModule *module = compiled_must_parse(
        "HloModule m\nlast {\n p = f32[] parameter(0)\n ROOT n = f32[] negate(p)\n}\n"
        "first {\n p = f32[] parameter(0)\n ROOT n = f32[] call(p), to_apply=last\n}\n"
        "second {\n p = f32[] parameter(0)\n ROOT n = f32[] sine(p)\n}\n"
        "third {\n p = f32[] parameter(0)\n ROOT n = f32[] cosine(p)\n}\n"
        "ENTRY e {\n p = f32[] parameter(0)\n a = f32[] call(p), to_apply=third\n b = f32[] call(a), to_apply=second\n"
        " ROOT c = f32[] call(b), to_apply=first\n}\n");
    HloComputation *const *created = module->computations.items;
    HloComputation *callee = created[3];
    hlo_instruction_set_called(created[1]->root, &callee, 1);
    HloArena *arena = hlo_arena_new();
    int64_t count;
    HloComputation **order = hlo_module_post_order(module, arena, &count);
    static const char *const names[] = {"third", "first", "second", "e"};
    cr_assert_eq(count, (int64_t)HLO_COUNT_OF(names));
    for (int64_t i = 0; i < count; i++) cr_expect_str_eq(order[i]->name, names[i]);
    hlo_arena_free(arena);
    hlo_module_free(module);
}
