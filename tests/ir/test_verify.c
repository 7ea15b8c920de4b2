// SPDX-License-Identifier: Apache-2.0
// The verifier finds errors that were made by hand. That it accepts what XLA writes is shown by the corpus tests.
#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hlo/base/file.h"
#include "hlo/hlo.h"
#include "hlo/text/text.h"
#include "tests/support/cases.h"

static HloModule *module;
static HloBuilder *b;
static HloInstruction *x, *y, *sum;

// add(x, y) of f32[4,6].
static void start(void) {
    module = hlo_module_new("m");
    b = hlo_builder_new(module, "main");
    x = hlo_build_parameter(b, 0, HLO_F32, HLO_DIMS(4, 6), "x");
    y = hlo_build_parameter(b, 1, HLO_F32, HLO_DIMS(4, 6), "y");
    sum = hlo_build_with_name(b, hlo_build_add(b, x, y), "sum");
}

static void finish(HloInstruction *root) {
    cr_assert_null(hlo_builder_finish_entry(b, root));
}

static void expect_valid(void) {
    HloStatus status = hlo_verify(module);
    cr_expect_null(status, "%s", hlo_status_message(status));
    hlo_status_free(status);
    hlo_module_free(module);
}

static void expect_error(const char *message) {
    HloStatus status = hlo_verify(module);
    cr_assert_not_null(status);
    cr_expect_eq(hlo_status_code(status), HLO_INVALID_ARGUMENT);
    cr_expect_not_null(strstr(hlo_status_message(status), message), "%s", hlo_status_message(status));
    hlo_status_free(status);
    hlo_module_free(module);
}

TestSuite(ir_verify, .init = start);

Test(ir_verify, accepts_a_good_module) {
    finish(sum);
    expect_valid();
}

Test(ir_verify, needs_an_entry) {
    finish(sum);
    module->entry = NULL;
    expect_error("no entry");
}

Test(ir_verify, finds_a_wrong_shape_and_its_position) {
    HloMetadata metadata = {.source_file = "net.py", .source_line = 12};
    hlo_build_with_metadata(b, sum, &metadata);
    finish(sum);
    sum->shape = x->shape = hlo_shape_scalar(module->arena, HLO_F32);
    HloStatus status = hlo_verify(module);
    cr_assert_not_null(status);
    cr_assert_not_null(hlo_status_place(status));
    cr_expect_str_eq(hlo_status_place(status)->instruction, "sum");
    cr_expect_str_eq(hlo_status_place(status)->file, "net.py");
    cr_expect_eq(hlo_status_place(status)->line, 12);
    hlo_status_free(status);
    hlo_module_free(module);
}

Test(ir_verify, finds_a_shape_that_inference_does_not_give) {
    finish(sum);
    sum->shape = hlo_shape_array(module->arena, HLO_F32, HLO_DIMS(4, 5).items, 2);
    expect_error("the shape must be f32[4,6], not f32[4,5]");
}

Test(ir_verify, finds_users_that_are_none) {
    finish(sum);
    hlo_vector_push(module->arena, &sum->users, x);
    expect_error("x is not a user of it");
}

// Wide instructions are looked up in a map.
Test(ir_verify, finds_users_among_many_operands) {
    HloInstruction *parts[40];
    for (int i = 0; i < 40; i++) parts[i] = i % 2 ? x : sum;
    HloInstruction *tuple = hlo_build_tuple(b, parts, 40);
    finish(tuple);
    cr_expect_eq(x->users.count, 2);
    cr_assert_null(hlo_verify(module));
    hlo_vector_push(module->arena, &y->users, tuple);
    expect_error("tuple is not a user of it");
}

Test(ir_verify, operands_that_repeat_are_used_once) {
    HloInstruction *parts[] = {x, x, sum, x}, *others[] = {sum, y, y};
    HloInstruction *tuple = hlo_build_tuple(b, parts, 4);
    cr_expect_eq(x->users.count, 2);
    hlo_instruction_set_operands(tuple, others, 3);
    cr_expect_eq(x->users.count, 1);
    cr_expect_eq(y->users.count, 2);
    hlo_instruction_add_operand(tuple, y);
    hlo_instruction_add_operand(tuple, x);
    cr_expect_eq(y->users.count, 2);
    cr_expect_eq(x->users.count, 2);
    hlo_instruction_remove(tuple);
    cr_expect_eq(y->users.count, 1);
    finish(sum);
    expect_valid();
}

Test(ir_verify, finds_users_that_are_missing) {
    finish(sum);
    x->users.count = 0;
    expect_error("uses, but its instructions list");
}

Test(ir_verify, finds_operands_after_their_users) {
    finish(sum);
    hlo_instruction_move_before(sum, y);
    expect_error("precedes its operand y");
}

Test(ir_verify, finds_one_sided_control_edges) {
    finish(sum);
    hlo_vector_push(module->arena, &sum->control_predecessors, x);
    expect_error("its control predecessor x does not list it");
}

Test(ir_verify, finds_twins) {
    finish(sum);
    y->name = "x";
    expect_error("two instructions are named x");
}

Test(ir_verify, finds_recursion) {
    HloComputation *inner = hlo_build_combiner(b, HLO_OP_ADD, HLO_F32);
    finish(sum);
    HloInstruction *operands[] = {inner->parameters.items[0], inner->parameters.items[1]};
    HloInstruction *call = hlo_instruction_new(inner, HLO_OP_CALL, inner->root->shape, operands, 2, NULL, NULL);
    hlo_instruction_set_called(call, &inner, 1);
    expect_error("is part of a cycle of calls");
}

Test(ir_verify, finds_a_lost_caller) {
    HloInstruction *reduced = hlo_build_reduce_op(b, HLO_OP_ADD, sum, HLO_DIMS(0));
    finish(reduced);
    reduced->called[0]->callers.count = 0;
    expect_error("does not list its caller");
}

Test(ir_verify, finds_layouts_that_order_nothing) {
    finish(sum);
    HloLayout layout = {.minor_to_major = HLO_DIMS(0, 0)};
    sum->shape = hlo_shape_with_layout(module->arena, sum->shape, &layout);
    expect_error("layout {0,0} names dimension 0 twice");
}

Test(ir_verify, finds_shardings_that_do_not_multiply_up) {
    HloSharding sharding = {.kind = HLO_SHARDING_TILED, .tile_dims = HLO_DIMS(2, 2), .devices = HLO_DIMS(0, 1, 2)};
    hlo_build_with_sharding(b, sum, &sharding);
    finish(sum);
    expect_error("4 tiles for 3 devices");
}

Test(ir_verify, finds_shardings_of_another_rank) {
    HloSharding sharding = {.kind = HLO_SHARDING_TILED, .tile_dims = HLO_DIMS(4), .iota.dims = HLO_DIMS(4)};
    hlo_build_with_sharding(b, sum, &sharding);
    finish(sum);
    expect_error("tiles 1 dimensions, but the shape is f32[4,6]");
}

Test(ir_verify, finds_devices_listed_twice) {
    HloSharding sharding = {.kind = HLO_SHARDING_TILED, .tile_dims = HLO_DIMS(2, 1), .devices = HLO_DIMS(1, 1)};
    hlo_build_with_sharding(b, sum, &sharding);
    finish(sum);
    expect_error("device 1 twice");
}

Test(ir_verify, finds_groups_that_miss_devices) {
    module->num_partitions = 4;
    HloInts groups[] = {HLO_DIMS(0, 1), HLO_DIMS(2, 2)};
    HloCollectiveAttributes attributes = {.channel_id = 1, .use_global_device_ids = true};
    attributes.replica_groups = hlo_replica_groups_list(module->arena, groups, 2);
    finish(hlo_build_all_reduce_op(b, HLO_OP_ADD, sum, &attributes));
    expect_error("device 2 is in the replica groups twice");
}

// A broadcast may leave devices out; those that it names must be there, and once.
Test(ir_verify, broadcasts_to_some_devices) {
    static const char *const refused[] = {NULL, "names device 4, but there are 4 devices",
                                          "device 2 is in the replica groups twice"};
    static const int64_t members[][2] = {{2, 1}, {2, 4}, {2, 2}};
    for (size_t i = 0; i < HLO_COUNT_OF(members); i++) {
        char text[256];
        snprintf(text, sizeof(text),
                 "HloModule m, replica_count=4\nENTRY e {\n  p = f32[4] parameter(0)\n  ROOT r = f32[4] "
                 "collective-broadcast(p), replica_groups={{%d,%d}}\n}\n",
                 (int)members[i][0], (int)members[i][1]);
        HloModule *parsed = NULL;
        cr_assert_null(hlo_parse(text, strlen(text), NULL, &parsed));
        HloStatus status = hlo_verify(parsed);
        cr_expect_eq(status == NULL, refused[i] == NULL, "%s", text);
        if (refused[i]) cr_expect(strstr(hlo_status_message(status), refused[i]), "%s", hlo_status_message(status));
        hlo_status_free(status);
        hlo_module_free(parsed);
    }
}

Test(ir_verify, finds_two_senders_to_one_device) {
    module->num_partitions = 4;
    HloPair pairs[] = {{0, 1}, {2, 1}};
    finish(hlo_build_collective_permute(b, sum, (HloPairs){pairs, 2}, 1));
    expect_error("two pairs send to device 1");
}

Test(ir_verify, finds_starts_that_never_end) {
    HloInstruction *start_op = hlo_build_copy_start(b, sum);
    hlo_build_get(b, start_op, 0);
    finish(sum);
    expect_error("copy-start is used by get-tuple-element, not by copy-done");
}

Test(ir_verify, finds_aliases_of_nothing) {
    finish(sum);
    HloAlias alias = {.operand = 7};
    module->aliases = (HloAliases){&alias, 1};
    expect_error("names parameter 7");
}

Test(ir_verify, finds_parameters_given_twice) {
    finish(sum);
    HloAlias alias = {.operand = 0};
    HloDonor donor = {.parameter = 0};
    module->aliases = (HloAliases){&alias, 1};
    module->donors = &donor;
    module->donor_count = 1;
    expect_error("both a donor and aliased");
}

Test(ir_verify, finds_an_entry_layout_of_another_program) {
    finish(sum);
    const HloShape *shapes[] = {x->shape};
    module->entry_parameter_layouts = shapes;
    module->entry_parameter_layout_count = 1;
    expect_error("entry_computation_layout has 1 parameters");
}

Test(ir_verify, finds_numbers_that_no_enumeration_has) {
    HloInstruction *less = hlo_build_compare(b, x, y, HLO_ComparisonDirection_LT);
    finish(less);
    HloCompareAttributes attributes = {.direction = 77};
    hlo_instruction_set_attributes(less, &attributes);
    expect_error("direction=77 is not known");
}

Test(ir_verify, finds_immense_machines) {
    finish(sum);
    module->replica_count = INT64_C(1) << 40;
    expect_error("replicas of 1 partitions");
}

Test(ir_verify, finds_scatters_to_nothing) {
    HloComputation *add = hlo_build_combiner(b, HLO_OP_ADD, HLO_F32);
    finish(sum);
    HloCollectiveAttributes attributes = {.dimensions = HLO_DIMS(0)};
    x->shape = hlo_shape_array(module->arena, HLO_F32, HLO_DIMS(0).items, 1);
    y->shape = x->shape;
    sum->shape = x->shape;
    const HloShape *grown = hlo_shape_array(module->arena, HLO_F32, HLO_DIMS(4).items, 1);
    module->replica_count = 0;
    HloInstruction *scatter =
        hlo_instruction_new(module->entry, HLO_OP_REDUCE_SCATTER, grown, &sum, 1, &attributes, NULL);
    hlo_instruction_set_called(scatter, &add, 1);
    expect_error("0 replicas");
}

static void verify_file(const char *path) {
    HloFileContent content = {0};
    HloModule *program = NULL;
    cr_assert_null(hlo_file_read(path, SIZE_MAX / 2, &content));
    HloStatus status = hlo_parse((const char *)content.data, content.size, NULL, &program);
    cr_expect_null(status, "%s: %s", path, hlo_status_message(status));
    hlo_status_free(status);
    status = program ? hlo_verify(program) : HLO_SUCCESS;
    cr_expect_null(status, "%s: %s", path, hlo_status_message(status));
    hlo_status_free(status);
    hlo_module_free(program);
    hlo_file_content_free(&content);
}

static void verify_folder(const char *folder) {
    DIR *listing = opendir(folder);
    cr_assert_not_null(listing);
    for (struct dirent *entry; (entry = readdir(listing));) {
        char path[8192];
        size_t length = strlen(entry->d_name);
        if (length < 3 || strcmp(entry->d_name + length - 3, ".xz") != 0) continue;
        snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        verify_file(path);
    }
    closedir(listing);
}

Test(ir_verify, accepts_what_jax_lowers) {
    finish(sum);
    hlo_module_free(module);
    const char *folder = cases_path("corpus");
    if (!folder) cr_skip_test("the shared corpus is not here");
    verify_folder(folder);
}

Test(ir_verify, finds_a_constant_without_a_value) {
    HloInstruction *constant = hlo_build_scalar(b, HLO_F32, 1);
    finish(constant);
    constant->attributes = HLO_ARENA_NEW(module->arena, HloConstantAttributes, 1);
    expect_error("constant without a value");
}

// A collective `op` of f32[8] among so many partitions is refused with that message; NULL: it is accepted.
static void check_collective(int devices, const char *op, const char *message) {
    HloText text = {0};
    hlo_text_format(&text,
                    "HloModule m, num_partitions=%d\n\nadd {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
                    "  ROOT s = f32[] add(a, b)\n}\n\nENTRY e {\n  p = f32[8] parameter(0)\n  ROOT r = %s\n}\n",
                    devices, op);
    HloModule *collective = NULL;
    HloStatus status = hlo_parse(text.data, text.length, NULL, &collective);
    cr_assert_null(status, "%s", hlo_status_message(status));
    status = hlo_verify(collective);
    cr_expect_eq(hlo_status_code(status), message ? HLO_INVALID_ARGUMENT : HLO_OK, "%s", hlo_status_message(status));
    cr_expect(!message || strstr(hlo_status_message(status), message), "%s: %s", op, hlo_status_message(status));
    hlo_status_free(status);
    hlo_module_free(collective);
    hlo_text_free(&text);
}

// The evaluator ran those whose shapes happened to fit; the engine, and XLA's verifier, refuse them.
Test(ir_verify, bug_groups_of_different_sizes) {
    static const char *const refused[] = {
        "f32[16] all-gather(p), channel_id=1, use_global_device_ids=true, dimensions={0}, replica_groups={{0,1},{2}}",
        "(f32[8], f32[16]) all-gather-start(p), channel_id=1, use_global_device_ids=true, dimensions={0}, "
        "replica_groups={{0,1},{2}}",
        "f32[4] reduce-scatter(p), channel_id=1, use_global_device_ids=true, dimensions={0}, to_apply=add, "
        "replica_groups={{0,1},{2}}",
        "f32[8] all-to-all(p), channel_id=1, dimensions={0}, replica_groups={{0,1},{2}}",
        "(f32[8], f32[8]) all-to-all(p, p), channel_id=1, replica_groups={{0,1},{2}}",
    };
    for (size_t i = 0; i < HLO_COUNT_OF(refused); i++)
        check_collective(3, refused[i], "replica groups of 2 and 1 devices, but all must have the same size");
    check_collective(3,
                     "f32[8] all-reduce(p), channel_id=1, use_global_device_ids=true, to_apply=add, "
                     "replica_groups={{0,1},{2}}",
                     NULL);
    check_collective(3, "f32[8] collective-broadcast(p), channel_id=1, replica_groups={{0,1},{2}}", NULL);
}

// Groups of a few characters may name more devices than memory holds numbers: they are counted before they are written
// out.
Test(ir_verify, more_devices_than_any_machine_has) {
    static const struct {
        const char *op, *part;
    } cases[] = {
        {"f32[8] all-gather(p), channel_id=1, use_global_device_ids=true, dimensions={0}, "
         "replica_groups=[33554432,1]<=[33554432]",
         "the replica groups list 33554432 devices, more than any machine has"},
        {"f32[8] all-gather(p), channel_id=1, use_global_device_ids=true, dimensions={0}, replica_groups={{0},{1},{2}}",
         "the replica groups list 3 devices of 33554432"},
        {"f32[8] collective-broadcast(p), channel_id=1, replica_groups={{0,1}}",
         "there are 33554432 devices, more than any machine has"},
    };
    for (size_t i = 0; i < HLO_COUNT_OF(cases); i++) check_collective(33554432, cases[i].op, cases[i].part);
}
