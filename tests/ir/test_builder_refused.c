// SPDX-License-Identifier: Apache-2.0
// Refusals of the builder. Each case builds one wrong instruction; the error stays in the builder until it is finished,
// and no call in between does harm.
#include <criterion/criterion.h>
#include <string.h>

#include "hlo/hlo.h"

static HloModule *module;
static HloBuilder *b;
static HloInstruction *x, *scalar;

static HloComputation *stranger(void) {
    HloBuilder *other = hlo_builder_new(module, "stranger");
    HloInstruction *y = hlo_build_parameter(other, 0, HLO_F32, HLO_DIMS(2, 3), "y");
    HloComputation *computation = NULL;
    cr_assert_null(hlo_builder_finish(other, y, &computation));
    return computation;
}

static HloInstruction *operand_of_another(void) {
    return hlo_build_add(b, x, stranger()->root);
}
static HloInstruction *root_of_another(void) {
    return stranger()->root;
}
static HloInstruction *parameter_below_zero(void) {
    return hlo_build_parameter(b, -1, HLO_F32, HLO_DIMS(2), "z");
}
static HloInstruction *parameter_beyond_the_limit(void) {
    return hlo_build_parameter(b, 1000001, HLO_F32, HLO_DIMS(2), "z");
}
static HloInstruction *parameter_with_a_gap(void) {
    return hlo_build_parameter(b, 5, HLO_F32, HLO_DIMS(2), "z");
}
static HloInstruction *edge_to_itself(void) {
    hlo_build_control_edge(b, x, x);
    return x;
}
static HloInstruction *edge_to_another(void) {
    hlo_build_control_edge(b, x, stranger()->root);
    return x;
}
static HloInstruction *product_of_scalars(void) {
    return hlo_build_matmul(b, scalar, x);
}
static HloInstruction *combiner_of_one(void) {
    hlo_build_combiner(b, HLO_OP_NEGATE, HLO_F32);
    return x;
}
static HloInstruction *combiner_with_attributes(void) {
    hlo_build_combiner(b, HLO_OP_COMPARE, HLO_F32);
    return x;
}
static HloInstruction *identity_of_none(void) {
    return hlo_build_reduce_op(b, HLO_OP_SUBTRACT, x, HLO_DIMS(0));
}
static HloInstruction *more_arrays_than_fit(void) {
    return hlo_build_reduce(b, &x, &scalar, 1 << 20, HLO_DIMS(0), NULL);
}
static HloInstruction *more_branches_than_fit(void) {
    return hlo_build_switch(b, scalar, &x, NULL, 1 << 20);
}
static HloInstruction *broadcast_to_fewer(void) {
    return hlo_build_broadcast_to(b, x, HLO_DIMS(3));
}
static HloInstruction *broadcast_to_many(void) {
    static const int64_t ones[65] = {1};
    return hlo_build_broadcast_to(b, x, (HloInts){ones, 65});
}
static HloInstruction *map_of_many_dimensions(void) {
    static const int64_t ones[65] = {1};
    HloInstruction *array = hlo_build_parameter(b, 1, HLO_F32, (HloInts){ones, 65}, "array");
    return hlo_build_map(b, &array, 1, stranger());
}
static HloInstruction *padding_of_unlike_lists(void) {
    return hlo_build_pad(b, x, scalar, HLO_DIMS(1, 1), HLO_DIMS(1), HLO_DIMS(0, 0));
}
static HloInstruction *constant_of_a_token(void) {
    return hlo_build_array(b, HLO_TOKEN, HLO_DIMS(2), NULL);
}
static HloInstruction *constant_of_negative_size(void) {
    return hlo_build_array(b, HLO_F32, HLO_DIMS(-2), NULL);
}

static const struct {
    HloInstruction *(*builds)(void);
    const char *part;  // of the message
} cases[] = {
    {operand_of_another, "operand 1, y, is not in computation main"},
    {root_of_another, "y is not in computation main"},
    {parameter_below_zero, "parameter number -1"},
    {parameter_beyond_the_limit, "parameter number 1000001"},
    {parameter_with_a_gap, "but number"},
    {edge_to_itself, "a control edge from x to x"},
    {edge_to_another, "a control edge from x to y"},
    {product_of_scalars, "arrays of rank 0 and 2"},
    {combiner_of_one, "negate does not combine two values"},
    {combiner_with_attributes, "compare does not combine two values"},
    {identity_of_none, "subtract has no identity"},
    {more_arrays_than_fit, "1048576 arrays"},
    {more_branches_than_fit, "1048576 branches"},
    {broadcast_to_fewer, "x of rank 2 to rank 1"},
    {broadcast_to_many, "too many dimensions (65)"},
    {map_of_many_dimensions, "parameter: 65 dimensions are more than 64"},
    {padding_of_unlike_lists, "lists of different lengths"},
    {constant_of_a_token, "a constant of type token"},
    {constant_of_negative_size, "dimension"},
};

Test(ir_builder_refused, the_error_waits_until_the_builder_is_finished) {
    for (size_t i = 0; i < HLO_COUNT_OF(cases); i++) {
        module = hlo_module_new("m");
        b = hlo_builder_new(module, "main");
        x = hlo_build_parameter(b, 0, HLO_F32, HLO_DIMS(2, 3), "x");
        scalar = hlo_build_scalar(b, HLO_F32, 1);
        HloInstruction *wrong = cases[i].builds();
        HloInstruction *after = hlo_build_negate(b, x);  // no harm, whether it is built or not
        (void)after;
        HloStatus status = hlo_builder_finish_entry(b, wrong);
        cr_expect_eq(hlo_status_code(status), HLO_INVALID_ARGUMENT, "%s", cases[i].part);
        cr_expect(strstr(hlo_status_message(status), cases[i].part), "'%s' is not in '%s'", cases[i].part,
                  hlo_status_message(status));
        hlo_status_free(status);
        hlo_module_free(module);
    }
}

// Returns the message of refusing `request`; its operands are some of the builder's own, which start() makes again.
static void refuses(const HloBuildRequest *request, const char *part) {
    module = hlo_module_new("m");
    b = hlo_builder_new(module, "main");
    x = hlo_build_parameter(b, 0, HLO_F32, HLO_DIMS(2, 3), "x");
    HloStatus status = hlo_builder_finish_entry(b, hlo_build(b, request));
    cr_expect_eq(hlo_status_code(status), HLO_INVALID_ARGUMENT, "%s", part);
    cr_expect(strstr(hlo_status_message(status), part), "'%s' is not in '%s'", part, hlo_status_message(status));
    hlo_status_free(status);
    hlo_module_free(module);
}

#define ASK(operation, count, fields, ...)                                                                    \
    &(HloBuildRequest) {                                                                                      \
        .opcode = (operation), .operands = &x, .operand_count = (count), .attributes = &(fields), __VA_ARGS__ \
    }

// The parser counts operands and dimensions by itself: shape inference must hold without it, for programs in C.
Test(ir_builder_refused, requests_that_no_text_makes) {
    const HloDimensionsAttributes dimensions = {HLO_DIMS(0)};
    const HloDynamicSliceAttributes sizes = {HLO_DIMS(2, 3)};
    const HloSortAttributes two = {.dimensions = HLO_DIMS(0, 1)};
    const HloScanAttributes scan = {.dimensions = HLO_DIMS(0, 1)};
    const HloInts slices[] = {HLO_DIMS(2)};
    const HloPermuteAttributes in_place = {.slice_sizes = {slices, 1}};
    const HloParameterAttributes below = {.number = -1};
    const HloCustomCallAttributes call = {.target = "t"};
    refuses(ASK(HLO_OP_CONCATENATE, 0, dimensions, ), "concatenate");
    refuses(ASK(HLO_OP_DYNAMIC_SLICE, 0, sizes, ), "dynamic-slice");
    refuses(ASK(HLO_OP_SORT, 0, two, ), "sort");
    refuses(ASK(HLO_OP_SORT, 1, two, ), "sort");
    refuses(ASK(HLO_OP_SCAN, 1, scan, ), "scan");
    refuses(ASK(HLO_OP_COLLECTIVE_PERMUTE, 1, in_place, ), "the in-place form has 4 operands, not 1");
    refuses(ASK(HLO_OP_PARAMETER, 0, below, .type = HLO_F32, .dims = HLO_DIMS(2)), "parameter number -1");
    refuses(ASK(HLO_OP_CUSTOM_CALL, 1, call, ),
            "the result shape cannot be inferred from the operands and must be given");
    refuses(&(HloBuildRequest){.opcode = HLO_OP_CONDITIONAL}, "conditional");
}

// Layouts that a custom call wants of its operands: as many as there are, each of the operand's sizes.
Test(ir_builder_refused, layouts_of_other_operands) {
    HloArena *arena = hlo_arena_new();
    const HloShape *shapes[] = {hlo_shape_array(arena, HLO_F32, (const int64_t[]){2, 4}, 2),
                                hlo_shape_array(arena, HLO_F32, (const int64_t[]){2, 3}, 2)};
    const HloCustomCallAttributes one = {.target = "t", .operand_layouts = {shapes, 1}},
                                  two = {.target = "t", .operand_layouts = {shapes, 2}};
    refuses(ASK(HLO_OP_CUSTOM_CALL, 1, two, .shape = shapes[0]), "2 operand layouts for 1 operands");
    refuses(ASK(HLO_OP_CUSTOM_CALL, 1, one, .shape = shapes[0]),
            "operand 0 is f32[2,3], but its layout is given for f32[2,4]");
    hlo_arena_free(arena);
}

// A control edge between two instructions of one computation is valid, and is recorded once at each end.
Test(ir_builder, control_edges_are_known_at_both_ends) {
    module = hlo_module_new("m");
    b = hlo_builder_new(module, "main");
    x = hlo_build_parameter(b, 0, HLO_F32, HLO_DIMS(2, 3), "x");
    HloInstruction *first = hlo_build_negate(b, x), *second = hlo_build_negate(b, x);
    hlo_build_control_edge(b, first, second);
    hlo_build_control_edge(b, first, second);
    cr_assert_null(hlo_builder_finish_entry(b, hlo_build_add(b, first, second)));
    cr_expect_eq(first->control_successors.count, 1);
    cr_expect_eq(second->control_predecessors.count, 1);
    cr_expect_eq(second->control_predecessors.items[0], first);
    cr_expect_null(hlo_verify(module));
    hlo_module_free(module);
}

// An error of the builder has the place that HLO_AT() has set.
Test(builder, errors_have_the_place_in_the_source) {
    module = hlo_module_new("m");
    b = hlo_builder_new(module, "main");
    hlo_builder_set_source(b, "model.c", 41);
    x = hlo_build_parameter(b, 0, HLO_F32, HLO_DIMS(2, 3), "x");
    hlo_builder_set_source(b, "model.c", 42);
    HloInstruction *y = hlo_build_matmul(b, x, x);
    hlo_builder_set_source(b, "model.c", 43);
    HloStatus status = hlo_builder_finish_entry(b, hlo_build_negate(b, y));
    cr_assert_not_null(hlo_status_place(status));
    cr_expect_str_eq(hlo_status_place(status)->file, "model.c");
    cr_expect_eq(hlo_status_place(status)->line, 42);
    char *text = hlo_status_to_text(status);
    cr_expect_not_null(strstr(text, "model.c:42: error: "), "%s", text);
    hlo_free(text);
    hlo_status_free(status);
    hlo_module_free(module);
}
