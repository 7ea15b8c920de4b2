// SPDX-License-Identifier: Apache-2.0
// Builder: calls, control flow, tuples, async wrappers and collectives. Computations that an op calls are finished
// before it is built (hlo_builder_finish()) and belong to the same module.
#include "hlo/ir/build/internal.h"

HloInstruction *hlo_build_call(HloBuilder *builder, HloInstruction *const *operands, int64_t count,
                               HloComputation *computation) {
    return hlo_build_calling(builder, HLO_OP_CALL, operands, count, NULL, computation);
}

HloInstruction *hlo_build_fusion(HloBuilder *builder, HloInstruction *const *operands, int64_t count, int32_t kind,
                                 HloComputation *computation) {
    return hlo_build_calling(builder, HLO_OP_FUSION, operands, count, &(HloFusionAttributes){.kind = kind},
                             computation);
}

HloInstruction *hlo_build_while(HloBuilder *builder, HloInstruction *initial, HloComputation *condition,
                                HloComputation *body) {
    HloComputation *called[] = {condition, body};
    return hlo_build(
        builder,
        &(HloBuildRequest){
            .opcode = HLO_OP_WHILE, .operands = &initial, .operand_count = 1, .called = called, .called_count = 2});
}

HloInstruction *hlo_build_if(HloBuilder *builder, HloInstruction *predicate, HloInstruction *true_operand,
                             HloComputation *on_true, HloInstruction *false_operand, HloComputation *on_false) {
    HloInstruction *operands[] = {true_operand, false_operand};
    HloComputation *branches[] = {on_true, on_false};
    return hlo_build_switch(builder, predicate, operands, branches, 2);
}

// Operands are collected on the stack: 32 KB hold as many as any program has.
enum { MAXIMUM_BRANCHES = 4096 };

HloInstruction *hlo_build_switch(HloBuilder *builder, HloInstruction *index, HloInstruction *const *operands,
                                 HloComputation *const *branches, int64_t count) {
    HloInstruction *all[MAXIMUM_BRANCHES + 1];
    if (count > MAXIMUM_BRANCHES) {
        hlo_builder_fail(builder, hlo_error(HLO_INVALID_ARGUMENT, "conditional: %lld branches", (long long)count));
        return NULL;
    }
    all[0] = index;
    for (int64_t i = 0; i < count; i++) all[i + 1] = operands[i];
    return hlo_build(builder, &(HloBuildRequest){.opcode = HLO_OP_CONDITIONAL,
                                                 .operands = all,
                                                 .operand_count = count + 1,
                                                 .called = branches,
                                                 .called_count = count});
}

HloInstruction *hlo_build_tuple(HloBuilder *builder, HloInstruction *const *operands, int64_t count) {
    return hlo_build_n(builder, HLO_OP_TUPLE, operands, count, NULL);
}

HloInstruction *hlo_build_get(HloBuilder *builder, HloInstruction *tuple, int64_t index) {
    return hlo_build_1(builder, HLO_OP_GET_TUPLE_ELEMENT, tuple, &(HloTupleIndexAttributes){index});
}

HloInstruction *hlo_build_after_all(HloBuilder *builder, HloInstruction *const *tokens, int64_t count) {
    return hlo_build_n(builder, HLO_OP_AFTER_ALL, tokens, count, NULL);
}

HloInstruction *hlo_build_add_dependency(HloBuilder *builder, HloInstruction *x, HloInstruction *token) {
    return hlo_build_2(builder, HLO_OP_ADD_DEPENDENCY, x, token, NULL);
}

HloInstruction *hlo_build_barrier(HloBuilder *builder, HloInstruction *x) {
    return hlo_build_1(builder, HLO_OP_OPTIMIZATION_BARRIER, x, NULL);
}

HloInstruction *hlo_build_domain(HloBuilder *builder, HloInstruction *x, const HloDomainAttributes *attributes) {
    return hlo_build_1(builder, HLO_OP_DOMAIN, x, attributes);
}

HloInstruction *hlo_build_custom_call(HloBuilder *builder, const char *target, HloInstruction *const *operands,
                                      int64_t count, const HloShape *shape) {
    HloCustomCallAttributes attributes = {.target = target};
    return hlo_build(builder, &(HloBuildRequest){.opcode = HLO_OP_CUSTOM_CALL,
                                                 .operands = operands,
                                                 .operand_count = count,
                                                 .attributes = &attributes,
                                                 .shape = shape});
}

HloInstruction *hlo_build_sharding_constraint(HloBuilder *builder, HloInstruction *x, const HloSharding *sharding) {
    if (!x) return NULL;
    HloInstruction *call = hlo_build_custom_call(builder, "Sharding", &x, 1, x->shape);
    return hlo_build_with_sharding(builder, call, sharding);
}

HloInstruction *hlo_build_async_start(HloBuilder *builder, HloInstruction *const *operands, int64_t count,
                                      HloComputation *computation, const char *thread) {
    return hlo_build_calling(builder, HLO_OP_ASYNC_START, operands, count,
                             &(HloAsyncAttributes){.execution_thread = thread}, computation);
}

// Updates and dones have the computation and thread of the start.
static HloInstruction *async_step(HloBuilder *builder, HloOpcode opcode, HloInstruction *start) {
    bool chained = start && hlo_op_info(start->opcode)->family == HLO_FAMILY_Async;
    return hlo_build(builder, &(HloBuildRequest){.opcode = opcode,
                                                 .operands = &start,
                                                 .operand_count = 1,
                                                 .attributes = chained ? start->attributes : NULL,
                                                 .called = chained ? start->called : NULL,
                                                 .called_count = chained ? start->called_count : 0});
}

HloInstruction *hlo_build_async_update(HloBuilder *builder, HloInstruction *start) {
    return async_step(builder, HLO_OP_ASYNC_UPDATE, start);
}

HloInstruction *hlo_build_async_done(HloBuilder *builder, HloInstruction *start) {
    return async_step(builder, HLO_OP_ASYNC_DONE, start);
}

// ---------------------------------------------------------------------------------------------------------------------
// Collectives

HloInstruction *hlo_build_all_reduce(HloBuilder *builder, HloInstruction *const *operands, int64_t count,
                                     const HloCollectiveAttributes *attributes, HloComputation *combiner) {
    return hlo_build_calling(builder, HLO_OP_ALL_REDUCE, operands, count, attributes, combiner);
}

HloInstruction *hlo_build_all_reduce_op(HloBuilder *builder, HloOpcode opcode, HloInstruction *x,
                                        const HloCollectiveAttributes *attributes) {
    if (!x) return NULL;
    HloComputation *combiner = hlo_build_combiner(builder, opcode, x->shape->type);
    return hlo_build_all_reduce(builder, &x, 1, attributes, combiner);
}

HloInstruction *hlo_build_all_reduce_start(HloBuilder *builder, HloInstruction *const *operands, int64_t count,
                                           const HloCollectiveAttributes *attributes, HloComputation *combiner) {
    return hlo_build_calling(builder, HLO_OP_ALL_REDUCE_START, operands, count, attributes, combiner);
}

HloInstruction *hlo_build_all_reduce_done(HloBuilder *builder, HloInstruction *start) {
    return hlo_build_1(builder, HLO_OP_ALL_REDUCE_DONE, start, NULL);
}

HloInstruction *hlo_build_all_gather(HloBuilder *builder, HloInstruction *const *operands, int64_t count,
                                     const HloCollectiveAttributes *attributes) {
    return hlo_build_n(builder, HLO_OP_ALL_GATHER, operands, count, attributes);
}

HloInstruction *hlo_build_all_gather_start(HloBuilder *builder, HloInstruction *const *operands, int64_t count,
                                           const HloCollectiveAttributes *attributes) {
    return hlo_build_n(builder, HLO_OP_ALL_GATHER_START, operands, count, attributes);
}

HloInstruction *hlo_build_all_gather_done(HloBuilder *builder, HloInstruction *start) {
    return hlo_build_1(builder, HLO_OP_ALL_GATHER_DONE, start, NULL);
}

HloInstruction *hlo_build_reduce_scatter(HloBuilder *builder, HloInstruction *const *operands, int64_t count,
                                         const HloCollectiveAttributes *attributes, HloComputation *combiner) {
    return hlo_build_calling(builder, HLO_OP_REDUCE_SCATTER, operands, count, attributes, combiner);
}

HloInstruction *hlo_build_all_to_all(HloBuilder *builder, HloInstruction *const *operands, int64_t count,
                                     const HloCollectiveAttributes *attributes) {
    return hlo_build_n(builder, HLO_OP_ALL_TO_ALL, operands, count, attributes);
}

HloInstruction *hlo_build_ragged_all_to_all(HloBuilder *builder, HloInstruction *const operands[6],
                                            const HloCollectiveAttributes *attributes) {
    return hlo_build_n(builder, HLO_OP_RAGGED_ALL_TO_ALL, operands, 6, attributes);
}

HloInstruction *hlo_build_collective_broadcast(HloBuilder *builder, HloInstruction *const *operands, int64_t count,
                                               const HloCollectiveAttributes *attributes) {
    return hlo_build_n(builder, HLO_OP_COLLECTIVE_BROADCAST, operands, count, attributes);
}

HloInstruction *hlo_build_collective_permute(HloBuilder *builder, HloInstruction *x, HloPairs pairs,
                                             int64_t channel_id) {
    return hlo_build_1(builder, HLO_OP_COLLECTIVE_PERMUTE, x,
                       &(HloPermuteAttributes){.channel_id = channel_id, .source_target_pairs = pairs});
}

HloInstruction *hlo_build_collective_permute_start(HloBuilder *builder, HloInstruction *x, HloPairs pairs,
                                                   int64_t channel_id) {
    return hlo_build_1(builder, HLO_OP_COLLECTIVE_PERMUTE_START, x,
                       &(HloPermuteAttributes){.channel_id = channel_id, .source_target_pairs = pairs});
}

HloInstruction *hlo_build_collective_permute_done(HloBuilder *builder, HloInstruction *start) {
    return hlo_build_1(builder, HLO_OP_COLLECTIVE_PERMUTE_DONE, start, NULL);
}
