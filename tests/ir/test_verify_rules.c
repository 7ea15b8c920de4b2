// SPDX-License-Identifier: Apache-2.0
// Each rule of the verifier, broken by hand in one small module: no parser would let these through, but a pass of ours
// or a program that uses the C API could make them.
#include <criterion/criterion.h>
#include <string.h>

#include "hlo/hlo.h"

// sum = x + y of f32[4,6]; rows = its sums over dimension 1 by a combiner; both leave the entry as a tuple.
static HloModule *module;
static HloBuilder *b;
static HloInstruction *x, *y, *sum, *rows, *root;
static HloComputation *adder;

static void make_module(void) {
    module = hlo_module_new("m");
    b = hlo_builder_new(module, "main");
    x = hlo_build_parameter(b, 0, HLO_F32, HLO_DIMS(4, 6), "x");
    y = hlo_build_parameter(b, 1, HLO_F32, HLO_DIMS(4, 6), "y");
    sum = hlo_build_with_name(b, hlo_build_add(b, x, y), "sum");
    rows = hlo_build_reduce_op(b, HLO_OP_ADD, sum, HLO_DIMS(1));
    HloInstruction *leaves[] = {sum, rows};
    root = hlo_build_tuple(b, leaves, 2);
    cr_assert_null(hlo_builder_finish_entry(b, root));
    adder = rows->called[0];
}

// ---------------------------------------------------------------------------------------------------------------------
// Structure

static void belongs_to_another(void) {
    sum->parent = adder;
}
static void broken_list(void) {
    sum->previous = x;
}
static void id_out_of_range(void) {
    sum->id = module->instruction_limit;
}
static void id_taken(void) {
    sum->id = x->id;
}
static void wrong_count(void) {
    module->entry->instruction_count++;
}
static void no_root(void) {
    module->entry->root = NULL;
}
static void root_of_another(void) {
    module->entry->root = adder->root;
}
static void parameter_twice(void) {
    module->entry->parameters.items[0] = y;
}
static void parameter_too_many(void) {
    hlo_vector_push(module->arena, &module->entry->parameters, NULL);
}
static void operand_of_another(void) {
    sum->operands[1] = adder->root;
    y->users.count = 0;
}
static void user_twice(void) {
    hlo_vector_push(module->arena, &x->users, sum);
}
static void predecessor_of_another(void) {
    hlo_vector_push(module->arena, &sum->control_predecessors, adder->root);
}
static void predecessor_behind(void) {
    hlo_vector_push(module->arena, &x->control_predecessors, y);
    hlo_vector_push(module->arena, &y->control_successors, x);
}
static void successor_one_sided(void) {
    hlo_vector_push(module->arena, &x->control_successors, sum);
}
static void entry_elsewhere(void) {
    module->entry->removed = true;
}
static void computation_removed(void) {
    adder->removed = true;
}
static void computation_twins(void) {
    adder->name = module->entry->name;
}
static void caller_that_does_not_call(void) {
    hlo_vector_push(module->arena, &adder->callers, sum);
}
static void caller_twice(void) {
    hlo_vector_push(module->arena, &adder->callers, rows);
}
static void call_by_an_op_that_calls_nothing(void) {
    sum->called = rows->called;
    sum->called_count = 1;
    hlo_vector_push(module->arena, &adder->callers, sum);
}
static void call_of_nothing(void) {
    adder->callers.count = 0;
    rows->called[0] = NULL;
}

// ---------------------------------------------------------------------------------------------------------------------
// Header

static void result_layout_of_another_shape(void) {
    module->entry_result_layout = x->shape;
}
static void parameter_layout_of_another_shape(void) {
    static const HloShape *shapes[2];
    shapes[0] = shapes[1] = rows->shape;
    module->entry_parameter_layouts = shapes;
    module->entry_parameter_layout_count = 2;
}
static void alias(HloAlias first, HloAlias second, int64_t count) {
    HloAlias *items = HLO_ARENA_NEW(module->arena, HloAlias, 2);
    items[0] = first;
    items[1] = second;
    for (int i = 0; i < 2; i++) items[i].output_index = hlo_ints_copy(module->arena, items[i].output_index);
    module->aliases = (HloAliases){items, count};
}
static void alias_of_no_output(void) {
    alias((HloAlias){.output_index = HLO_DIMS(2)}, (HloAlias){0}, 1);
}
static void alias_of_another_size(void) {
    alias((HloAlias){.output_index = HLO_DIMS(1)}, (HloAlias){0}, 1);
}
static void alias_of_one_output_twice(void) {
    alias((HloAlias){.output_index = HLO_DIMS(0)}, (HloAlias){.output_index = HLO_DIMS(0), .operand = 1}, 2);
}
static void alias_of_one_parameter_twice(void) {
    HloInstruction *leaves[] = {sum, sum};
    hlo_instruction_set_operands(root, leaves, 2);
    const HloShape *shapes[] = {sum->shape, sum->shape};
    root->shape = hlo_shape_tuple(module->arena, shapes, 2);
    alias((HloAlias){.output_index = HLO_DIMS(0)}, (HloAlias){.output_index = HLO_DIMS(1)}, 2);
}
static void donor_of_nothing(void) {
    static HloDonor donor = {.parameter = 5};
    module->donors = &donor;
    module->donor_count = 1;
}

// ---------------------------------------------------------------------------------------------------------------------
// Shapes, layouts, attributes

static void no_shape(void) {
    HloInstruction *lonely = hlo_instruction_new(module->entry, HLO_OP_NEGATE, x->shape, &x, 1, NULL, "lonely");
    lonely->shape = NULL;
}
static void layout(HloLayout one) {
    HloInts *tiles = HLO_ARENA_NEW(module->arena, HloInts, one.tile_count);
    for (int64_t i = 0; i < one.tile_count; i++) tiles[i] = hlo_ints_copy(module->arena, one.tiles[i]);
    one.tiles = tiles;
    one.minor_to_major = hlo_ints_copy(module->arena, one.minor_to_major);
    HloLayout *kept = HLO_ARENA_NEW(module->arena, HloLayout, 1);
    *kept = one;
    sum->shape = hlo_shape_with_layout(module->arena, sum->shape, kept);
}
static void layout_of_another_rank(void) {
    layout((HloLayout){.minor_to_major = HLO_DIMS(0)});
}
static void tile_of_nothing(void) {
    HloInts tile = HLO_DIMS(0, 128);
    layout((HloLayout){.minor_to_major = HLO_DIMS(1, 0), .tiles = &tile, .tile_count = 1});
}
static void immense_tile(void) {
    HloInts tile = HLO_DIMS(INT64_C(1) << 30, INT64_C(1) << 40);
    layout((HloLayout){.minor_to_major = HLO_DIMS(1, 0), .tiles = &tile, .tile_count = 1});
}
static void memory_space_below_zero(void) {
    layout((HloLayout){.minor_to_major = HLO_DIMS(1, 0), .memory_space = -1});
}
static void splits(HloSplit one, HloSplit two) {
    HloSplit *both = HLO_ARENA_NEW(module->arena, HloSplit, 2);
    both[0] = (HloSplit){one.dimension, hlo_ints_copy(module->arena, one.indices)};
    both[1] = (HloSplit){two.dimension, hlo_ints_copy(module->arena, two.indices)};
    layout(
        (HloLayout){.minor_to_major = HLO_DIMS(1, 0), .splits = both, .split_count = 2, .tail_padding_alignment = 1});
}
static void split_outside(void) {
    splits((HloSplit){0, HLO_DIMS(3)}, (HloSplit){1, HLO_DIMS(6)});
}
static void split_at_zero(void) {
    splits((HloSplit){0, HLO_DIMS(0)}, (HloSplit){1, HLO_DIMS(5)});
}
static void split_backwards(void) {
    splits((HloSplit){0, HLO_DIMS(2, 2)}, (HloSplit){1, HLO_DIMS(5)});
}
static void split_twice(void) {
    splits((HloSplit){0, HLO_DIMS(1)}, (HloSplit){0, HLO_DIMS(2)});
}
static void no_attributes(void) {
    rows->attributes = NULL;
}
static void pairs(HloPair one, HloPair two) {
    module->num_partitions = 4;
    HloPermuteAttributes attributes = {.channel_id = 1};
    HloPair list[] = {one, two};
    attributes.source_target_pairs = (HloPairs){hlo_arena_copy(module->arena, list, sizeof(list)), 2};
    hlo_instruction_new(module->entry, HLO_OP_COLLECTIVE_PERMUTE, sum->shape, &sum, 1, &attributes, "moved");
}
static void pair_outside(void) {
    pairs((HloPair){0, 1}, (HloPair){1, 4});
}
static void pair_from_one_device_twice(void) {
    pairs((HloPair){0, 1}, (HloPair){0, 2});
}
static void custom_call_without_target(void) {
    HloCustomCallAttributes attributes = {0};
    hlo_instruction_new(module->entry, HLO_OP_CUSTOM_CALL, sum->shape, &sum, 1, &attributes, "call");
}

// copy-start of sum, with as many copy-done as asked for.
static void copy_with_ends(int64_t ends) {
    const HloShape *parts[] = {sum->shape, sum->shape, hlo_shape_scalar(module->arena, HLO_U32)};
    const HloShape *shape = hlo_shape_tuple(module->arena, parts, 3);
    HloInstruction *start = hlo_instruction_new(module->entry, HLO_OP_COPY_START, shape, &sum, 1, NULL, "start");
    for (int64_t i = 0; i < ends; i++) {
        hlo_instruction_new(module->entry, HLO_OP_COPY_DONE, sum->shape, &start, 1, NULL, NULL);
    }
}
static void start_with_two_ends(void) {
    copy_with_ends(2);
}
static void end_of_another_start(void) {
    copy_with_ends(0);
    HloInstruction *start = module->entry->last;
    hlo_instruction_new(module->entry, HLO_OP_COLLECTIVE_PERMUTE_DONE, sum->shape, &start, 1, NULL, "done");
}
static void end_of_what_does_not_start(void) {
    const HloShape *parts[] = {sum->shape, sum->shape, hlo_shape_scalar(module->arena, HLO_U32)};
    HloInstruction *leaves[] = {sum, sum,
                                hlo_instruction_new(module->entry, HLO_OP_PARTITION_ID, parts[2], NULL, 0, NULL, NULL)};
    HloInstruction *tuple = hlo_instruction_new(module->entry, HLO_OP_TUPLE, hlo_shape_tuple(module->arena, parts, 3),
                                                leaves, 3, NULL, "pack");
    hlo_instruction_new(module->entry, HLO_OP_COPY_DONE, sum->shape, &tuple, 1, NULL, "done");
}

// ---------------------------------------------------------------------------------------------------------------------
// Shardings

static void shard(HloSharding sharding) {
    sum->sharding = hlo_sharding_copy(module->arena, &sharding);
}
static void device_below_zero(void) {
    shard((HloSharding){.kind = HLO_SHARDING_TILED, .tile_dims = HLO_DIMS(2, 1), .devices = HLO_DIMS(0, -1)});
}
static void maximal_device_below_zero(void) {
    shard((HloSharding){.kind = HLO_SHARDING_MAXIMAL, .maximal_device = -1});
}
static void permutation_of_another_rank(void) {
    shard((HloSharding){.kind = HLO_SHARDING_TILED,
                        .tile_dims = HLO_DIMS(2, 2),
                        .iota = {.dims = HLO_DIMS(2, 2), .permutation = HLO_DIMS(1, 0, 2)}});
}
static void immense_tiling(void) {
    shard((HloSharding){
        .kind = HLO_SHARDING_TILED, .tile_dims = HLO_DIMS(INT64_C(1) << 40, 4), .iota.dims = HLO_DIMS(4)});
}
static void named(HloInts sizes, HloAxisRef one, HloAxisRef two, int64_t dims) {
    static const char *const names[] = {"a", "b"};
    static HloAxisRef refs[2];
    static HloAxisRefs placed[3];
    refs[0] = one;
    refs[1] = two;
    placed[0] = (HloAxisRefs){.items = &refs[0], .count = 1};
    placed[1] = (HloAxisRefs){.items = &refs[1], .count = 1};
    HloNamedSharding it = {.mesh = {.axis_names = names, .axis_sizes = sizes},
                           .whole = HLO_SHARDING_TILED,
                           .dims = placed,
                           .dim_count = dims};
    shard((HloSharding){.kind = HLO_SHARDING_NAMED, .named = &it});
}
static void axis_that_is_not_there(void) {
    named(HLO_DIMS(2, 2), (HloAxisRef){.axis = 0}, (HloAxisRef){.axis = 2}, 2);
}
static void axis_part_that_does_not_fit(void) {
    named(HLO_DIMS(6, 2), (HloAxisRef){.axis = 0, .pre_size = 2, .size = 2}, (HloAxisRef){.axis = 1}, 2);
}
static void axis_used_twice(void) {
    named(HLO_DIMS(2, 2), (HloAxisRef){.axis = 0}, (HloAxisRef){.axis = 0}, 2);
}
static void mesh_without_devices(void) {
    named(HLO_DIMS(2, 0), (HloAxisRef){.axis = 0}, (HloAxisRef){.axis = 0}, 2);
}
static void named_of_another_rank(void) {
    named(HLO_DIMS(2, 2), (HloAxisRef){.axis = 0}, (HloAxisRef){.axis = 1}, 3);
}
static void leaves_of_another_tuple(void) {
    const HloSharding *all = hlo_sharding_simple(module->arena, HLO_SHARDING_REPLICATED);
    const HloSharding *three[] = {all, all, all};
    root->sharding = hlo_sharding_tuple(module->arena, three, 3);
}

typedef struct Rule {
    void (*breaks)(void);
    const char *part;  // of the message
} Rule;

static const Rule rules[] = {
    {belongs_to_another, "sum is listed in computation main, but belongs to another"},
    {broken_list, "the instruction list of computation main is broken at sum"},
    {id_out_of_range, "out of range or taken"},
    {id_taken, "out of range or taken"},
    {wrong_count, "but lists"},
    {no_root, "has no root of its own"},
    {root_of_another, "has no root of its own"},
    {parameter_twice, "x is not parameter 0 of computation main"},
    {parameter_too_many, "has 2 parameters of 3"},
    {operand_of_another, "operand 1 is not in the same computation"},
    {user_twice, "lists its user sum twice"},
    {predecessor_of_another, "is in another computation"},
    {predecessor_behind, "precedes its control predecessor y"},
    {successor_one_sided, "its control successor sum does not list it"},
    {entry_elsewhere, "the entry computation of m is not in it"},
    {computation_removed, "does not belong to module m"},
    {computation_twins, "two computations are named main"},
    {caller_that_does_not_call, "sum does not call computation"},
    {caller_twice, "twice"},
    {call_by_an_op_that_calls_nothing, "add calls nothing"},
    {call_of_nothing, "calls a computation that is not in the module"},
    {result_layout_of_another_shape, "entry_computation_layout has result f32[4,6]"},
    {parameter_layout_of_another_shape, "entry_computation_layout has f32[4] as parameter 0"},
    {alias_of_no_output, "input_output_alias 0 names an output that does not exist"},
    {alias_of_another_size, "aliases output f32[4] to f32[4,6], which has a different"},
    {alias_of_one_output_twice, "aliases one output twice"},
    {alias_of_one_parameter_twice, "aliases parameter 0 to two outputs"},
    {donor_of_nothing, "buffer_donor 0 names parameter 5"},
    {no_shape, "has no shape"},
    {layout_of_another_rank, "orders 1 dimensions"},
    {tile_of_nothing, "a tile of size 0"},
    {immense_tile, "a tile of more than 2^46 elements"},
    {memory_space_below_zero, "memory space -1"},
    {split_outside, "a layout splits dimension 1, of size 6, at 6, which is not between 1 and 5"},
    {split_at_zero, "a layout splits dimension 0, of size 4, at 0, which is not between 1 and 3"},
    {split_backwards, "a layout splits dimension 0, of size 4, at 2, which is not between 3 and 3"},
    {split_twice, "a layout splits dimension 0 twice"},
    {no_attributes, "reduce has no attributes"},
    {pair_outside, "the pair {1,4} names a device outside of 0..3"},
    {pair_from_one_device_twice, "two pairs send from device 0"},
    {custom_call_without_target, "custom call without a target"},
    {start_with_two_ends, "copy-start must have one user, its copy-done, but has 2"},
    {end_of_another_start, "copy-start is used by collective-permute-done, not by copy-done"},
    {end_of_what_does_not_start, "copy-done cannot be the done of tuple"},
    {device_below_zero, "the sharding names device -1"},
    {maximal_device_below_zero, "the sharding names device -1"},
    {permutation_of_another_rank, "the sharding transposes 3 dimensions of 2"},
    {immense_tiling, "an empty or excessively large tiling"},
    {axis_that_is_not_there, "the sharding names axis 2 of 2"},
    {axis_part_that_does_not_fit, "axis a of size 6 has no part (2)2"},
    {axis_used_twice, "uses axis a more than once"},
    {mesh_without_devices, "the mesh has an empty or excessively large axis"},
    {named_of_another_rank, "the sharding has 3 dimensions, but the shape is f32[4,6]"},
    {leaves_of_another_tuple, "a sharding of 3 leaves for (f32[4,6], f32[4])"},
};

Test(ir_verify_rules, the_module_is_good_before_it_is_broken) {
    make_module();
    cr_expect_null(hlo_verify(module));
    hlo_module_free(module);
}

// An empty tuple has one sharding too, as XLA writes it.
Test(ir_verify_rules, an_empty_tuple_has_one_sharding) {
    HloModule *empty = NULL;
    const char text[] = "HloModule m\nENTRY e {\n  ROOT r = () tuple(), sharding={{replicated}}\n}\n";
    cr_assert_null(hlo_parse(text, sizeof(text) - 1, NULL, &empty));
    cr_expect_null(hlo_verify(empty));
    hlo_module_free(empty);
}

Test(ir_verify_rules, each_rule_finds_what_breaks_it) {
    for (size_t i = 0; i < HLO_COUNT_OF(rules); i++) {
        make_module();
        rules[i].breaks();
        HloStatus status = hlo_verify(module);
        cr_expect_eq(hlo_status_code(status), HLO_INVALID_ARGUMENT, "%s", rules[i].part);
        cr_expect_not_null(strstr(hlo_status_message(status), rules[i].part), "'%s' is not in '%s'", rules[i].part,
                           hlo_status_message(status));
        hlo_status_free(status);
        hlo_module_free(module);
    }
}
