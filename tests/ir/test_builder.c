// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "hlo/hlo.h"
#include "tests/support/cases.h"

static void write_shape(HloText *text, const HloShape *shape) {
    if (hlo_shape_is_tuple(shape)) {
        hlo_text_char(text, '(');
        for (int32_t i = 0; i < shape->element_count; i++) {
            if (i) hlo_text_char(text, ',');
            write_shape(text, shape->elements[i]);
        }
        hlo_text_char(text, ')');
        return;
    }
    hlo_text_format(text, "%s[", hlo_type_text(shape->type));
    for (int32_t i = 0; i < shape->rank; i++) {
        bool dynamic = shape->dynamic && shape->dynamic[i];
        hlo_text_format(text, "%s%s%lld", i ? "," : "", dynamic ? "<=" : "", (long long)shape->dims[i]);
    }
    hlo_text_char(text, ']');
}

static void expect_shape(const HloBuilder *builder, const HloInstruction *instruction, const char *expected) {
    const struct HloError *error = hlo_builder_status(builder);
    cr_assert_not_null(instruction, "%s", error ? hlo_status_message(error) : "");
    HloText text = {0};
    write_shape(&text, instruction->shape);
    cr_expect_str_eq(text.data, expected);
    hlo_text_free(&text);
}

static HloModule *module;
static HloBuilder *b;
static int64_t next_parameter;

static void start(void) {
    module = hlo_module_new("m");
    b = hlo_builder_new(module, "main");
    next_parameter = 0;
}

// Finishes the program and expects success.
static void stop(void) {
    HloInstruction *root = hlo_builder_computation(b)->last;
    HloStatus status = hlo_builder_finish_entry(b, root);
    cr_expect_null(status, "%s", hlo_status_message(status));
    hlo_status_free(status);
    hlo_module_free(module);
}

// Finishes, and expects an error with `message` in it.
static void stop_with(const char *message) {
    HloStatus status = hlo_builder_finish_entry(b, NULL);
    cr_assert_not_null(status);
    cr_expect_eq(hlo_status_code(status), HLO_INVALID_ARGUMENT);
    cr_expect_not_null(strstr(hlo_status_message(status), message), "%s", hlo_status_message(status));
    hlo_status_free(status);
    hlo_module_free(module);
}

static HloInstruction *parameter(HloType type, HloInts dims) {
    return hlo_build_parameter(b, next_parameter++, type, dims, NULL);
}

TestSuite(ir_builder, .init = start);

Test(ir_builder, the_example_of_the_header) {
    HloInstruction *x = hlo_build_parameter(b, 0, HLO_F32, HLO_DIMS(32, 784), "x");
    HloInstruction *w = hlo_build_parameter(b, 1, HLO_F32, HLO_DIMS(784, 10), "w");
    HloInstruction *y = hlo_build_matmul(b, x, w);
    expect_shape(b, y, "f32[32,10]");
    HloInstruction *positive = hlo_build_max(b, y, hlo_build_splat_like(b, y, 0));
    HloInstruction *sum = hlo_build_reduce_op(b, HLO_OP_ADD, positive, HLO_DIMS(0));
    expect_shape(b, sum, "f32[10]");
    cr_expect_str_eq(x->name, "x");
    cr_expect_str_eq(sum->called[0]->name, "add_f32");
    HloInstruction *again = hlo_build_reduce_op(b, HLO_OP_ADD, y, HLO_DIMS(0, 1));
    cr_expect_eq(again->called[0], sum->called[0]);
    stop();
}

// Results of XLA's own inference (jaxlib 0.10.2, result shapes left out of the text).
Test(ir_builder, infers_what_xla_infers) {
    HloInstruction *f = parameter(HLO_F32, HLO_DIMS(2, 3)), *g = parameter(HLO_F32, HLO_DIMS(2, 5));
    HloInstruction *joined[] = {f, g};
    expect_shape(b, hlo_build_concatenate(b, joined, 2, 1), "f32[2,8]");
    expect_shape(b, hlo_build_get_dimension_size(b, f, 1), "s32[]");
    HloInstruction *size = parameter(HLO_S32, HLO_DIMS());
    expect_shape(b, hlo_build_set_dimension_size(b, f, size, 1), "f32[2,<=3]");
    HloInstruction *zero = hlo_build_scalar(b, HLO_BF16, 0);
    expect_shape(b, hlo_build_pad(b, f, zero, HLO_DIMS(-1, 0), HLO_DIMS(0, 1), HLO_DIMS()), "f32[1,4]");
    HloInstruction *h = parameter(HLO_F8E5M2, HLO_DIMS(3, 4));
    expect_shape(b, hlo_build_matmul(b, f, h), "f32[2,4]");
    HloInstruction *s8 = parameter(HLO_S8, HLO_DIMS(2, 3)), *s32 = parameter(HLO_S32, HLO_DIMS(3, 4));
    expect_shape(b, hlo_build_matmul(b, s8, s32), "s32[2,4]");
    expect_shape(b, hlo_build_broadcast(b, f, HLO_DIMS(3, 4, 2), HLO_DIMS(2, 0)), "f32[3,4,2]");
    HloInstruction *image = parameter(HLO_F32, HLO_DIMS(4, 8, 8, 3));
    expect_shape(b, hlo_build_fft(b, image, HLO_FftType_RFFT, HLO_DIMS(8, 3)), "c64[4,8,8,2]");
    HloInstruction *spectrum = parameter(HLO_C64, HLO_DIMS(4, 8, 8, 3));
    expect_shape(b, hlo_build_fft(b, spectrum, HLO_FftType_IRFFT, HLO_DIMS(8, 4)), "f32[4,8,8,4]");
    HloInstruction *scale = parameter(HLO_F32, HLO_DIMS(8));
    expect_shape(b, hlo_build_batch_norm_training(b, image, scale, scale, 0.1F, 1), "(f32[4,8,8,3],f32[8],f32[8])");
    expect_shape(b, hlo_build_topk(b, image, 2, true), "(f32[4,8,8,2],s32[4,8,8,2])");
    stop();
}

Test(ir_builder, infers_products_with_groups) {
    HloInstruction *lhs = parameter(HLO_F32, HLO_DIMS(11, 5)), *rhs = parameter(HLO_F32, HLO_DIMS(3, 5, 7));
    HloInstruction *flat = parameter(HLO_F32, HLO_DIMS(5, 7)), *groups = parameter(HLO_S32, HLO_DIMS(3));
    HloDotAttributes rows = {.lhs_contracting = HLO_DIMS(1),
                             .rhs_contracting = HLO_DIMS(1),
                             .lhs_ragged = HLO_DIMS(0),
                             .rhs_group = HLO_DIMS(0)};
    expect_shape(b, hlo_build_ragged_dot(b, lhs, rhs, groups, &rows, HLO_INVALID), "f32[11,7]");
    HloDotAttributes contracted = {
        .lhs_contracting = HLO_DIMS(1), .rhs_contracting = HLO_DIMS(0), .lhs_ragged = HLO_DIMS(1)};
    expect_shape(b, hlo_build_ragged_dot(b, lhs, flat, groups, &contracted, HLO_INVALID), "f32[3,11,7]");
    HloInstruction *left = parameter(HLO_F32, HLO_DIMS(10, 32)), *right = parameter(HLO_F32, HLO_DIMS(32, 7));
    HloInstruction *left_scale = parameter(HLO_F32, HLO_DIMS(10, 1));
    HloInstruction *right_scale = parameter(HLO_F32, HLO_DIMS(1, 7));
    HloDotAttributes plain = {.lhs_contracting = HLO_DIMS(1), .rhs_contracting = HLO_DIMS(0)};
    expect_shape(b, hlo_build_scaled_dot(b, left, right, left_scale, right_scale, &plain, HLO_INVALID), "f32[10,7]");
    stop();
}

Test(ir_builder, infers_convolutions) {
    HloInstruction *input = parameter(HLO_F32, HLO_DIMS(4, 8, 8, 3));
    HloInstruction *kernel = parameter(HLO_F32, HLO_DIMS(3, 3, 3, 16));
    HloConvolutionLabels labels = {.input_batch = 0,
                                   .input_feature = 3,
                                   .input_spatial = HLO_DIMS(1, 2),
                                   .kernel_spatial = HLO_DIMS(0, 1),
                                   .kernel_input_feature = 2,
                                   .kernel_output_feature = 3,
                                   .output_batch = 0,
                                   .output_feature = 3,
                                   .output_spatial = HLO_DIMS(1, 2)};
    HloWindowDimension dims[] = {{.stride = 2, .padding_low = 1, .padding_high = 1},
                                 {.stride = 2, .padding_low = 1, .padding_high = 1}};
    HloWindow window = {dims, 2};
    HloConvolutionAttributes attributes = {.window = &window, .labels = &labels};
    expect_shape(b, hlo_build_convolution(b, input, kernel, &attributes, HLO_INVALID), "f32[4,4,4,16]");
    stop();
}

Test(ir_builder, infers_gathers_and_scatters) {
    HloInstruction *x = parameter(HLO_F32, HLO_DIMS(3, 4, 5)), *indices = parameter(HLO_S32, HLO_DIMS(6, 2));
    HloGatherAttributes rows = {.offset_dims = HLO_DIMS(1),
                                .collapsed_slice_dims = HLO_DIMS(0, 1),
                                .start_index_map = HLO_DIMS(0, 1),
                                .index_vector_dim = 1,
                                .slice_sizes = HLO_DIMS(1, 1, 5)};
    HloInstruction *gathered = hlo_build_gather(b, x, indices, &rows);
    expect_shape(b, gathered, "f32[6,5]");
    HloGatherAttributes batched = {.collapsed_slice_dims = HLO_DIMS(1, 2),
                                   .operand_batching_dims = HLO_DIMS(0),
                                   .start_indices_batching_dims = HLO_DIMS(0),
                                   .start_index_map = HLO_DIMS(1, 2),
                                   .index_vector_dim = 1,
                                   .slice_sizes = HLO_DIMS(1, 1, 1)};
    HloInstruction *three = parameter(HLO_S32, HLO_DIMS(3, 2));
    expect_shape(b, hlo_build_gather(b, x, three, &batched), "f32[3]");
    HloScatterAttributes back = {.update_window_dims = HLO_DIMS(1),
                                 .inserted_window_dims = HLO_DIMS(0, 1),
                                 .scatter_dims_to_operand_dims = HLO_DIMS(0, 1),
                                 .index_vector_dim = 1};
    HloComputation *sum = hlo_build_combiner(b, HLO_OP_ADD, HLO_F32);
    expect_shape(b, hlo_build_scatter(b, &x, indices, &gathered, 1, &back, sum), "f32[3,4,5]");
    stop();
}

Test(ir_builder, builds_loops_and_branches) {
    HloBuilder *inner = hlo_builder_new(module, "body");
    HloInstruction *i = hlo_build_parameter(inner, 0, HLO_S32, HLO_DIMS(), "i");
    HloComputation *body = NULL, *condition = NULL;
    cr_assert_null(hlo_builder_finish(inner, hlo_build_add(inner, i, hlo_build_scalar(inner, HLO_S32, 1)), &body));
    inner = hlo_builder_new(module, "condition");
    i = hlo_build_parameter(inner, 0, HLO_S32, HLO_DIMS(), "i");
    HloInstruction *ten = hlo_build_scalar(inner, HLO_S32, 10);
    HloInstruction *less = hlo_build_compare(inner, i, ten, HLO_ComparisonDirection_LT);
    cr_assert_null(hlo_builder_finish(inner, less, &condition));
    HloInstruction *zero = hlo_build_scalar(b, HLO_S32, 0);
    HloInstruction *loop = hlo_build_while(b, zero, condition, body);
    expect_shape(b, loop, "s32[]");
    HloInstruction *p = parameter(HLO_PRED, HLO_DIMS());
    expect_shape(b, hlo_build_if(b, p, loop, body, zero, body), "s32[]");
    cr_expect_eq(body->callers.count, 2);
    stop();
}

Test(ir_builder, collectives_follow_the_groups) {
    HloInstruction *x = parameter(HLO_F32, HLO_DIMS(8, 4));
    HloArena *arena = hlo_arena_new();
    HloCollectiveAttributes attributes = {
        .channel_id = 1,
        .use_global_device_ids = true,
        .dimensions = HLO_DIMS(0),
        .replica_groups = hlo_replica_groups_iota(arena, 2, 4, HLO_DIMS(8).items, NULL, 1)};
    expect_shape(b, hlo_build_all_gather(b, &x, 1, &attributes), "f32[32,4]");
    expect_shape(b, hlo_build_all_to_all(b, &x, 1, &attributes), "f32[8,4]");
    expect_shape(b, hlo_build_all_gather_start(b, &x, 1, &attributes), "(f32[8,4],f32[32,4])");
    HloComputation *sum = hlo_build_combiner(b, HLO_OP_ADD, HLO_F32);
    expect_shape(b, hlo_build_reduce_scatter(b, &x, 1, &attributes, sum), "f32[2,4]");
    hlo_arena_free(arena);
    stop();
}

Test(ir_builder, broadcasts_like_numpy) {
    HloInstruction *x = parameter(HLO_F32, HLO_DIMS(3, 1));
    HloInstruction *wide = hlo_build_broadcast_to(b, x, HLO_DIMS(2, 3, 4));
    expect_shape(b, wide, "f32[2,3,4]");
    cr_expect_eq(hlo_build_broadcast_to(b, wide, HLO_DIMS(2, 3, 4)), wide);
    expect_shape(b, hlo_build_broadcast_to(b, hlo_build_scalar(b, HLO_S8, 1), HLO_DIMS(5)), "s8[5]");
    stop();
}

Test(ir_builder, annotates) {
    HLO_AT(b);
    HloInstruction *x = parameter(HLO_F32, HLO_DIMS(4));
    cr_expect_not_null(strstr(x->metadata->source_file, "test_builder.c"));
    HloArena *arena = hlo_arena_new();
    hlo_build_with_sharding(b, x, hlo_sharding_maximal(arena, 3));
    hlo_arena_free(arena);
    cr_expect_eq(x->sharding->maximal_device, 3);
    hlo_build_with_attribute(b, x, "key", "value");
    cr_expect_str_eq(hlo_instruction_frontend_attribute(x, "key"), "value");
    stop();
}

Test(ir_builder, the_first_error_stays_and_names_the_numbers) {
    HloInstruction *x = parameter(HLO_F32, HLO_DIMS(2, 3)), *y = parameter(HLO_F32, HLO_DIMS(2, 4));
    HloInstruction *bad = hlo_build_add(b, x, y);
    cr_expect_null(bad);
    cr_expect_null(hlo_build_exp(b, hlo_build_reshape(b, bad, HLO_DIMS(1, 1))));
    stop_with("add: operand 1 is f32[2,4], but dimension 1 of the others has size 3");
}

typedef struct BadCase {
    HloInstruction *(*make)(HloInstruction *x);
    const char *message;
} BadCase;

static HloInstruction *bad_reshape(HloInstruction *x) {
    return hlo_build_reshape(b, x, HLO_DIMS(7));
}
static HloInstruction *bad_huge(HloInstruction *x) {
    HloInstruction *scalar =
        hlo_build_reshape(b, hlo_build_slice(b, x, HLO_DIMS(0, 0), HLO_DIMS(1, 1), HLO_DIMS()), HLO_DIMS());
    return hlo_build_broadcast(b, scalar, HLO_DIMS(INT64_C(1) << 40, INT64_C(1) << 40), HLO_DIMS());
}
static HloInstruction *bad_type(HloInstruction *x) {
    return hlo_build_not(b, x);
}
static HloInstruction *bad_permutation(HloInstruction *x) {
    return hlo_build_transpose(b, x, HLO_DIMS(0, 0));
}
static HloInstruction *bad_slice(HloInstruction *x) {
    return hlo_build_slice(b, x, HLO_DIMS(0, 2), HLO_DIMS(2, 4), HLO_DIMS());
}
static HloInstruction *bad_pad(HloInstruction *x) {
    return hlo_build_pad(b, x, hlo_build_scalar(b, HLO_F32, 0), HLO_DIMS(-3, 0), HLO_DIMS(-1, 0), HLO_DIMS());
}
static HloInstruction *bad_reduce(HloInstruction *x) {
    return hlo_build_reduce_op(b, HLO_OP_ADD, x, HLO_DIMS(2));
}
static HloInstruction *bad_combiner(HloInstruction *x) {
    return hlo_build_reduce_op(b, HLO_OP_COMPARE, x, HLO_DIMS(0));
}
static HloInstruction *bad_get(HloInstruction *x) {
    return hlo_build_get(b, x, 0);
}
static HloInstruction *bad_token(HloInstruction *x) {
    return hlo_build_after_all(b, &x, 1);
}
static HloInstruction *bad_parameter(HloInstruction *x) {
    return hlo_build_parameter_shape(b, 0, x->shape, NULL);
}
static HloInstruction *bad_null(HloInstruction *x) {
    return hlo_build_add(b, x, NULL);
}

static const BadCase bad_cases[] = {
    {bad_reshape, "f32[2,3] has 6 elements, f32[7] has 7"},
    {bad_huge, "broadcast"},
    {bad_type, "the element type f32 is not allowed"},
    {bad_permutation, "permutation {0,0} names dimension 0 twice"},
    {bad_slice, "slice [2:4] of dimension 1, which has size 3"},
    {bad_pad, "leaves size -2"},
    {bad_reduce, "has dimension 2, but the rank is 2"},
    {bad_combiner, "compare"},
    {bad_get, "must be a tuple, not f32[2,3]"},
    {bad_token, "must be a token"},
    {bad_parameter, "parameter number 0 exists already"},
    {bad_null, "operand 1 is NULL"},
};

CaseList(ir_builder_calls, refused) {
    return cases_numbered(HLO_COUNT_OF(bad_cases));
}

CaseTest(const int *index, ir_builder_calls, refused) {
    start();
    HloInstruction *x = parameter(HLO_F32, HLO_DIMS(2, 3));
    cr_expect_null(bad_cases[*index].make(x));
    stop_with(bad_cases[*index].message);
}

Test(ir_builder, survives_lack_of_memory) {
    for (int64_t after = 0; after < 40; after++) {
        HloModule *m = hlo_module_new("m");
        hlo_allocation_fail_after(after);
        HloBuilder *builder = hlo_builder_new(m, "main");
        if (builder) {
            HloInstruction *x = hlo_build_parameter(builder, 0, HLO_F32, HLO_DIMS(1000, 1000), "x");
            HloInstruction *sum = hlo_build_reduce_op(builder, HLO_OP_ADD, hlo_build_exp(builder, x), HLO_DIMS(0, 1));
            HloStatus status = hlo_builder_finish_entry(builder, sum);
            hlo_allocation_fail_after(-1);
            cr_expect(!status || hlo_status_code(status) == HLO_RESOURCE_EXHAUSTED);
            hlo_status_free(status);
        }
        hlo_allocation_fail_after(-1);
        hlo_module_free(m);
    }
    stop_with("no root");
}

// The half-made copy leaked when memory ran short; leaks fail the sanitized run.
Test(ir_module, a_clone_that_runs_short_of_memory_leaves_nothing) {
    HloModule *m = hlo_module_new("m");
    HloBuilder *builder = hlo_builder_new(m, "main");
    HloInstruction *x = hlo_build_parameter(builder, 0, HLO_F32, HLO_DIMS(1000, 1000), "x");
    for (int i = 0; i < 2000; i++) x = hlo_build_exp(builder, x);
    cr_assert_null(hlo_builder_finish_entry(builder, x));
    int64_t refused = 0;
    for (int64_t after = 0; after < 200; after++) {
        hlo_allocation_fail_after(after);
        HloModule *copy = hlo_module_clone(m);
        hlo_allocation_fail_after(-1);
        refused += !copy;
        hlo_module_free(copy);
    }
    cr_expect(refused > 4 && refused < 200, "%lld", (long long)refused);
    hlo_module_free(m);
}

// A reduce-scatter that would grow: the group size would be zero.
Test(ir_builder, refuses_empty_groups) {
    HloArena *arena = hlo_arena_new();
    const HloShape *empty = hlo_shape_array(arena, HLO_F32, HLO_DIMS(0).items, 1);
    const HloShape *four = hlo_shape_array(arena, HLO_F32, HLO_DIMS(4).items, 1), *result = NULL;
    HloCollectiveAttributes attributes = {.dimensions = HLO_DIMS(0)};
    HloInferRequest request = {.arena = arena,
                               .opcode = HLO_OP_REDUCE_SCATTER,
                               .operands = &empty,
                               .operand_count = 1,
                               .attributes = &attributes,
                               .hint = four};
    HloStatus status = hlo_infer_shape(&request, &result);
    cr_assert_not_null(status);
    cr_expect_not_null(strstr(hlo_status_message(status), "goes from size 0 to 4"));
    hlo_status_free(status);
    hlo_arena_free(arena);
    stop_with("no root");
}

// In builds with assertions each reduction over a window aborted: it has neither kernel nor labels.
Test(ir_builder, bug_windows_without_a_kernel_met_an_assertion) {
    HloWindowDimension dims[] = {{.size = 2}, {.size = 1, .stride = 2}};
    const HloWindow window = {dims, 2};
    HloInstruction *x = parameter(HLO_F32, HLO_DIMS(4, 6));
    expect_shape(b, hlo_build_reduce_window_op(b, HLO_OP_MAXIMUM, x, &window), "f32[3,3]");
    stop();
}

// bug: programs that differ only in their groups, or their aliases, had the same hash, and so the same fingerprint.
Test(ir_module, bug_programs_with_other_groups_had_one_hash) {
    static const char *const groups[] = {"{{0,1},{2,3}}", "{{0,2},{1,3}}", "[2,2]<=[4]", "[2,2]<=[2,2]T(1,0)"};
    static const char *const headers[] = {"", ", input_output_alias={ {}: (0, {}, may-alias) }",
                                          ", input_output_alias={ {}: (0, {}, must-alias) }",
                                          ", buffer_donor={ (0, {}) }"};
    static const char *const shardings[] = {"{mesh['a'=4], [{'a'}]}", "{mesh['a'=4], [{}]}", "{mesh['b'=4], [{'b'}]}",
                                            "{manual}"};
    uint64_t hashes[12];
    for (size_t i = 0; i < HLO_COUNT_OF(hashes); i++) {
        char text[512];
        HloModule *parsed = NULL;
        snprintf(text, sizeof(text),
                 "HloModule m, num_partitions=4%s\nENTRY e {\n  p = f32[4] parameter(0), sharding=%s\n"
                 "  ROOT r = f32[4] all-to-all(p), dimensions={0}, channel_id=1, replica_groups=%s\n}\n",
                 headers[i >= 4 && i < 8 ? i - 4 : 0], shardings[i >= 8 ? i - 8 : 3], groups[i < 4 ? i : 0]);
        HloStatus status = hlo_parse(text, strlen(text), NULL, &parsed);
        cr_assert_null(status, "%s: %s", text, hlo_status_message(status));
        hashes[i] = hlo_module_hash(parsed);
        hlo_module_free(parsed);
        for (size_t j = 0; j < i; j++) {
            const bool same = i == 4 ? j == 0 : i == 11 ? j == 0 || j == 4 : false;  // the plain one, thrice
            cr_expect_eq(hashes[i] == hashes[j], same, "%zu and %zu", i, j);
        }
    }
}

// The numbers of a formula were written out before they were counted.
Test(ir_module, bug_groups_of_countless_devices_took_all_memory) {
    HloArena *arena = hlo_arena_new();
    const int64_t huge[] = {INT64_C(1) << 31, INT64_C(1) << 31}, four[] = {2, 2};
    const HloReplicaGroups *const cases[] = {hlo_replica_groups_iota(arena, huge[0], huge[1], huge, NULL, 2),
                                             hlo_replica_groups_iota(arena, 2, 2, huge, NULL, 2),
                                             hlo_replica_groups_iota(arena, 2, 1, four, NULL, 2)};
    for (size_t i = 0; i < HLO_COUNT_OF(cases); i++) {
        const HloInts *lists;
        int64_t count;
        HloStatus status = hlo_replica_groups_expand(cases[i], 4, arena, &lists, &count);
        cr_expect_eq(hlo_status_code(status), HLO_INVALID_ARGUMENT);
        hlo_status_free(status);
    }
    hlo_arena_free(arena);
}
