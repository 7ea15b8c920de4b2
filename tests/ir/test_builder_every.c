// SPDX-License-Identifier: Apache-2.0
// The builder's functions that no other test calls, each once: they append the op that they are named after, in the
// shape that follows, and the program verifies, as does the one that is read from its text.
#include <criterion/criterion.h>
#include <string.h>

#include "hlo/hlo.h"
#include "hlo/text/text.h"
#include "hlo/verify/verify.h"

static HloModule *module;
static HloBuilder *b;

static void start(void) {
    module = hlo_module_new("m");
    module->num_partitions = 2;
    b = hlo_builder_new(module, "main");
}

static HloInstruction *parameter(HloType type, HloInts dims) {
    return hlo_build_parameter(b, hlo_builder_computation(b)->parameters.count, type, dims, NULL);
}

// `shape` as text has it, without layouts.
static void expect(const HloInstruction *instruction, HloOpcode opcode, const char *shape) {
    HloText text = {0};
    const struct HloError *error = hlo_builder_status(b);
    cr_assert_not_null(instruction, "%s: %s", hlo_op_text(opcode), error ? hlo_status_message(error) : "");
    hlo_shape_print(&text, instruction->shape, false);
    cr_expect_eq(instruction->opcode, opcode, "%s is no %s", hlo_op_text(instruction->opcode), hlo_op_text(opcode));
    cr_expect_str_eq(text.data, shape, "%s", hlo_op_text(opcode));
    hlo_text_free(&text);
}

static void stop(void) {
    HloModule *again = NULL;
    HloText text = {0};
    HloStatus status = hlo_builder_finish_entry(b, hlo_builder_computation(b)->last);
    cr_assert_null(status, "%s", hlo_status_message(status));
    status = hlo_verify(module);
    cr_assert_null(status, "%s", hlo_status_message(status));
    cr_assert_null(hlo_print(module, NULL, &text));
    status = hlo_parse(text.data, text.length, NULL, &again);
    cr_assert_null(status, "%s\n%s", hlo_status_message(status), text.data);
    status = hlo_verify(again);
    cr_expect_null(status, "%s", hlo_status_message(status));
    cr_expect_eq(again->entry->instruction_count, module->entry->instruction_count);
    hlo_text_free(&text);
    hlo_module_free(again);
    hlo_module_free(module);
}

TestSuite(ir_builder_every, .init = start);

Test(ir_builder_every, functions_of_elements) {
    HloInstruction *x = parameter(HLO_F32, HLO_DIMS(2, 3)), *i = parameter(HLO_S32, HLO_DIMS(2, 3));
    HloInstruction *c = hlo_build_complex(b, x, x);
    expect(c, HLO_OP_COMPLEX, "c64[2,3]");
    const struct {
        HloInstruction *made;
        HloOpcode opcode;
        const char *shape;
    } made[] = {
        {hlo_build_acos(b, x), HLO_OP_ACOS, "f32[2,3]"},
        {hlo_build_acosh(b, x), HLO_OP_ACOSH, "f32[2,3]"},
        {hlo_build_asin(b, x), HLO_OP_ASIN, "f32[2,3]"},
        {hlo_build_asinh(b, x), HLO_OP_ASINH, "f32[2,3]"},
        {hlo_build_atanh(b, x), HLO_OP_ATANH, "f32[2,3]"},
        {hlo_build_cbrt(b, x), HLO_OP_CBRT, "f32[2,3]"},
        {hlo_build_ceil(b, x), HLO_OP_CEIL, "f32[2,3]"},
        {hlo_build_clz(b, i), HLO_OP_CLZ, "s32[2,3]"},
        {hlo_build_cos(b, x), HLO_OP_COS, "f32[2,3]"},
        {hlo_build_cosh(b, x), HLO_OP_COSH, "f32[2,3]"},
        {hlo_build_erf(b, x), HLO_OP_ERF, "f32[2,3]"},
        {hlo_build_expm1(b, x), HLO_OP_EXPM1, "f32[2,3]"},
        {hlo_build_imag(b, c), HLO_OP_IMAG, "f32[2,3]"},
        {hlo_build_is_finite(b, x), HLO_OP_IS_FINITE, "pred[2,3]"},
        {hlo_build_log(b, x), HLO_OP_LOG, "f32[2,3]"},
        {hlo_build_logistic(b, x), HLO_OP_LOGISTIC, "f32[2,3]"},
        {hlo_build_popcnt(b, i), HLO_OP_POPCNT, "s32[2,3]"},
        {hlo_build_real(b, c), HLO_OP_REAL, "f32[2,3]"},
        {hlo_build_round(b, x), HLO_OP_ROUND_NEAREST_AFZ, "f32[2,3]"},
        {hlo_build_round_even(b, x), HLO_OP_ROUND_NEAREST_EVEN, "f32[2,3]"},
        {hlo_build_rsqrt(b, x), HLO_OP_RSQRT, "f32[2,3]"},
        {hlo_build_sign(b, x), HLO_OP_SIGN, "f32[2,3]"},
        {hlo_build_sinh(b, x), HLO_OP_SINH, "f32[2,3]"},
        {hlo_build_sqrt(b, x), HLO_OP_SQRT, "f32[2,3]"},
        {hlo_build_tan(b, x), HLO_OP_TAN, "f32[2,3]"},
        {hlo_build_tanh(b, x), HLO_OP_TANH, "f32[2,3]"},
        {hlo_build_and(b, i, i), HLO_OP_AND, "s32[2,3]"},
        {hlo_build_atan2(b, x, x), HLO_OP_ATAN2, "f32[2,3]"},
        {hlo_build_min(b, x, x), HLO_OP_MINIMUM, "f32[2,3]"},
        {hlo_build_pow(b, x, x), HLO_OP_POWER, "f32[2,3]"},
        {hlo_build_shift_right_arithmetic(b, i, i), HLO_OP_SHIFT_RIGHT_ARITHMETIC, "s32[2,3]"},
        {hlo_build_clamp(b, hlo_build_scalar(b, HLO_F32, 0), x, x), HLO_OP_CLAMP, "f32[2,3]"},
        {hlo_build_bitcast(b, x, HLO_S32, HLO_DIMS(6)), HLO_OP_BITCAST, "s32[6]"},
        {hlo_build_reduce_precision(b, x, 5, 10), HLO_OP_REDUCE_PRECISION, "f32[2,3]"},
        {hlo_build_scalar_complex(b, HLO_C64, 1, -2), HLO_OP_CONSTANT, "c64[]"},
        {hlo_build_partition_id(b), HLO_OP_PARTITION_ID, "u32[]"},
        {hlo_build_stochastic_convert(b, x, hlo_build_convert(b, i, HLO_U32), HLO_BF16), HLO_OP_STOCHASTIC_CONVERT,
         "bf16[2,3]"},
    };
    for (size_t k = 0; k < HLO_COUNT_OF(made); k++) expect(made[k].made, made[k].opcode, made[k].shape);
    HloInstruction *total = hlo_build_compare_total_order(b, x, x, HLO_ComparisonDirection_LT);
    expect(total, HLO_OP_COMPARE, "pred[2,3]");
    cr_expect_eq(HLO_ATTRIBUTES(total, Compare)->type, HLO_ComparisonType_TOTALORDER);
    stop();
}

Test(ir_builder_every, arrays) {
    HloInstruction *x = parameter(HLO_F32, HLO_DIMS(4, 4)), *v = parameter(HLO_F32, HLO_DIMS(4));
    HloInstruction *zero = hlo_build_scalar(b, HLO_S32, 0), *starts[] = {zero, zero};
    const HloInstruction *update = hlo_build_slice(b, x, HLO_DIMS(0, 0), HLO_DIMS(2, 1), HLO_DIMS());
    expect(hlo_build_dynamic_update_slice(b, x, (HloInstruction *)(uintptr_t)update, starts),
           HLO_OP_DYNAMIC_UPDATE_SLICE, "f32[4,4]");
    // bug: an array shape with elements, which only tuples have, crashed; so did that of random bits below
    expect(hlo_build_dynamic_reshape(b, x, starts, HLO_DIMS(8, 2), (const bool[]){true, false}), HLO_OP_DYNAMIC_RESHAPE,
           "f32[<=8,2]");
    expect(hlo_build_cholesky(b, x, true), HLO_OP_CHOLESKY, "f32[4,4]");
    const HloTriangularSolveAttributes solve = {.left_side = true, .transpose_a = HLO_Transpose_TRANSPOSE};
    expect(hlo_build_triangular_solve(b, x, x, &solve), HLO_OP_TRIANGULAR_SOLVE, "f32[4,4]");
    HloInstruction *normalised[] = {x, v, v, v, v}, *gradient[] = {x, v, v, v, x};
    expect(hlo_build_batch_norm_inference(b, normalised, 0.5F, 1), HLO_OP_BATCH_NORM_INFERENCE, "f32[4,4]");
    expect(hlo_build_batch_norm_grad(b, gradient, 0.5F, 1), HLO_OP_BATCH_NORM_GRAD, "(f32[4,4], f32[4], f32[4])");
    HloInstruction *two[] = {x, x};
    expect(hlo_build_map(b, two, 2, hlo_build_combiner(b, HLO_OP_ADD, HLO_F32)), HLO_OP_MAP, "f32[4,4]");
    HloBuilder *inner = hlo_builder_new(module, "greater");
    HloInstruction *left = hlo_build_parameter(inner, 0, HLO_F32, HLO_DIMS(), NULL),
                   *right = hlo_build_parameter(inner, 1, HLO_F32, HLO_DIMS(), NULL);
    HloComputation *greater;
    cr_assert_null(
        hlo_builder_finish(inner, hlo_build_compare(inner, left, right, HLO_ComparisonDirection_GE), &greater));
    const HloWindow window = {(HloWindowDimension[]){{.size = 2, .stride = 2}, {.size = 2, .stride = 2}}, 2};
    HloInstruction *source = hlo_build_slice(b, x, HLO_DIMS(0, 0), HLO_DIMS(2, 2), HLO_DIMS());
    expect(hlo_build_select_and_scatter(b, x, source, hlo_build_scalar(b, HLO_F32, 0), &window, greater,
                                        hlo_build_combiner(b, HLO_OP_ADD, HLO_F32)),
           HLO_OP_SELECT_AND_SCATTER, "f32[4,4]");
    // an array along whose first dimension a carry of the other one runs
    inner = hlo_builder_new(module, "step");
    left = hlo_build_parameter(inner, 0, HLO_F32, HLO_DIMS(4), NULL);
    right = hlo_build_parameter(inner, 1, HLO_F32, HLO_DIMS(4), NULL);
    HloInstruction *sum = hlo_build_add(inner, left, right), *both[] = {sum, sum}, *scanned[] = {x, v};
    HloComputation *step;
    cr_assert_null(hlo_builder_finish(inner, hlo_build_tuple(inner, both, 2), &step));
    const HloScanAttributes scan = {.dimensions = HLO_DIMS(0), .num_carries = 1};
    expect(hlo_build_scan(b, scanned, 2, &scan, step), HLO_OP_SCAN, "(f32[4,4], f32[4])");
    stop();
}

// A computation of its own for each that calls one.
static HloComputation *negative_of(const char *name) {
    HloBuilder *inner = hlo_builder_new(module, name);
    HloInstruction *x = hlo_build_parameter(inner, 0, HLO_F32, HLO_DIMS(4), NULL);
    HloComputation *computation;
    cr_assert_null(hlo_builder_finish(inner, hlo_build_negate(inner, x), &computation));
    return computation;
}

Test(ir_builder_every, calls) {
    HloInstruction *x = parameter(HLO_F32, HLO_DIMS(4));
    expect(hlo_build_call(b, &x, 1, negative_of("called")), HLO_OP_CALL, "f32[4]");
    expect(hlo_build_fusion(b, &x, 1, HLO_FusionKind_LOOP, negative_of("fused")), HLO_OP_FUSION, "f32[4]");
    HloInstruction *token = hlo_build_after_all(b, NULL, 0);
    expect(hlo_build_add_dependency(b, x, token), HLO_OP_ADD_DEPENDENCY, "f32[4]");
    expect(hlo_build_barrier(b, x), HLO_OP_OPTIMIZATION_BARRIER, "f32[4]");
    const HloSharding *replicated = hlo_sharding_simple(module->arena, HLO_SHARDING_REPLICATED);
    expect(hlo_build_domain(b, x, &(HloDomainAttributes){"sharding", replicated, replicated}), HLO_OP_DOMAIN, "f32[4]");
    expect(hlo_build_custom_call(b, "mine", &x, 1, x->shape), HLO_OP_CUSTOM_CALL, "f32[4]");
    expect(hlo_build_sharding_constraint(b, x, replicated), HLO_OP_CUSTOM_CALL, "f32[4]");
    hlo_builder_set_sharding(b, replicated);
    HloInstruction *started = hlo_build_async_start(b, &x, 1, negative_of("started"), NULL);
    cr_expect_eq(started->sharding->kind, HLO_SHARDING_REPLICATED);
    hlo_builder_set_sharding(b, NULL);
    expect(started, HLO_OP_ASYNC_START, "((f32[4]), f32[4])");
    HloInstruction *updated = hlo_build_async_update(b, started);
    expect(updated, HLO_OP_ASYNC_UPDATE, "((f32[4]), f32[4])");
    expect(hlo_build_async_done(b, updated), HLO_OP_ASYNC_DONE, "f32[4]");
    // a choice between structures, and layouts that a call wants
    HloInstruction *pair[] = {x, token}, *one = hlo_build_tuple(b, pair, 2), *other = hlo_build_tuple(b, pair, 2);
    expect(hlo_build_select(b, hlo_build_scalar(b, HLO_PRED, 1), one, other), HLO_OP_SELECT, "(f32[4], token[])");
    const HloShape *laid_out[] = {hlo_shape_with_default_layout(module->arena, x->shape)};
    const HloCustomCallAttributes call = {.target = "mine", .operand_layouts = {laid_out, 1}};
    expect(hlo_build(b, &(HloBuildRequest){.opcode = HLO_OP_CUSTOM_CALL,
                                           .operands = &x,
                                           .operand_count = 1,
                                           .attributes = &call,
                                           .shape = x->shape}),
           HLO_OP_CUSTOM_CALL, "f32[4]");
    // without a shape a broadcast adds no dimension
    expect(hlo_build(b, &(HloBuildRequest){.opcode = HLO_OP_BROADCAST,
                                           .operands = &x,
                                           .operand_count = 1,
                                           .attributes = &(HloDimensionsAttributes){HLO_DIMS(0)}}),
           HLO_OP_BROADCAST, "f32[4]");
    stop();
}

Test(ir_builder_every, collectives_and_transfers) {
    HloInstruction *x = parameter(HLO_F32, HLO_DIMS(4)), *state = parameter(HLO_U64, HLO_DIMS(2));
    const HloInts both = HLO_DIMS(0, 1);
    const HloReplicaGroups *groups = hlo_replica_groups_list(module->arena, &both, 1);
    const HloCollectiveAttributes all = {.channel_id = 1, .replica_groups = groups, .use_global_device_ids = true};
    const HloCollectiveAttributes along = {
        .channel_id = 2, .replica_groups = groups, .use_global_device_ids = true, .dimensions = HLO_DIMS(0)};
    HloComputation *add = hlo_build_combiner(b, HLO_OP_ADD, HLO_F32);
    HloInstruction *begun = hlo_build_all_reduce_start(b, &x, 1, &all, add);
    expect(begun, HLO_OP_ALL_REDUCE_START, "f32[4]");
    expect(hlo_build_all_reduce_done(b, begun), HLO_OP_ALL_REDUCE_DONE, "f32[4]");
    begun = hlo_build_all_gather_start(b, &x, 1, &along);
    expect(begun, HLO_OP_ALL_GATHER_START, "(f32[4], f32[8])");
    expect(hlo_build_all_gather_done(b, begun), HLO_OP_ALL_GATHER_DONE, "f32[8]");
    HloPair swapped[] = {{0, 1}, {1, 0}};
    const HloPairs pairs = {swapped, 2};
    begun = hlo_build_collective_permute_start(b, x, pairs, 3);
    cr_assert_not_null(begun);
    cr_expect_eq(begun->opcode, HLO_OP_COLLECTIVE_PERMUTE_START);
    expect(hlo_build_collective_permute_done(b, begun), HLO_OP_COLLECTIVE_PERMUTE_DONE, "f32[4]");
    expect(hlo_build_collective_broadcast(b, &x, 1, &(HloCollectiveAttributes){.channel_id = 7}),
           HLO_OP_COLLECTIVE_BROADCAST, "f32[4]");
    HloInstruction *sizes = parameter(HLO_S32, HLO_DIMS(2)), *ragged[] = {x, x, sizes, sizes, sizes, sizes};
    expect(hlo_build_ragged_all_to_all(b, ragged, &(HloCollectiveAttributes){.channel_id = 8}),
           HLO_OP_RAGGED_ALL_TO_ALL, "f32[4]");
    // into a part of a buffer: the data, the buffer, and from where to where
    HloInstruction *zero = hlo_build_scalar(b, HLO_S32, 0), *at = hlo_build_tuple(b, &zero, 1);
    HloInstruction *in_place[] = {x, x, at, at};
    const HloInts slices[] = {HLO_DIMS(2)};
    const HloPermuteAttributes permute = {.channel_id = 4, .source_target_pairs = pairs, .slice_sizes = {slices, 1}};
    expect(hlo_build(b, &(HloBuildRequest){.opcode = HLO_OP_COLLECTIVE_PERMUTE,
                                           .operands = in_place,
                                           .operand_count = 4,
                                           .attributes = &permute}),
           HLO_OP_COLLECTIVE_PERMUTE, "f32[4]");
    expect(hlo_build_copy_done(b, hlo_build_copy_start(b, x)), HLO_OP_COPY_DONE, "f32[4]");
    HloInstruction *token = hlo_build_after_all(b, NULL, 0), *sent = hlo_build_send(b, x, token, 5, false);
    expect(sent, HLO_OP_SEND, "(f32[4], u32[], token[])");
    expect(hlo_build_send_done(b, sent), HLO_OP_SEND_DONE, "token[]");
    HloInstruction *received = hlo_build_recv(b, token, x->shape, 6, false);
    expect(received, HLO_OP_RECV, "(f32[4], u32[], token[])");
    expect(hlo_build_recv_done(b, received), HLO_OP_RECV_DONE, "(f32[4], token[])");
    expect(hlo_build_infeed(b, token, x->shape, "from"), HLO_OP_INFEED, "(f32[4], token[])");
    expect(hlo_build_outfeed(b, x, token, "to"), HLO_OP_OUTFEED, "token[]");
    HloInstruction *low = hlo_build_scalar(b, HLO_F32, 0), *high = hlo_build_scalar(b, HLO_F32, 1);
    expect(hlo_build_rng(b, HLO_RandomDistribution_UNIFORM, low, high, HLO_DIMS(3, 2)), HLO_OP_RNG, "f32[3,2]");
    expect(hlo_build_rng_bit_generator(b, state, HLO_RandomAlgorithm_PHILOX, HLO_U32, HLO_DIMS(5)),
           HLO_OP_RNG_BIT_GENERATOR, "(u64[2], u32[5])");
    expect(hlo_build_rng_state(b, 16), HLO_OP_RNG_GET_AND_UPDATE_STATE, "u64[2]");
    stop();
}
