// SPDX-License-Identifier: Apache-2.0
// Reductions. One operand and a known op give partial results, finished late. For everything else the partial results
// of the devices are exchanged for a part of the result's elements (or gathered, where no dimension of it can be
// divided), and reduced once more.
//
//     f32[8] reduce(f32[8,16] %a, %init), dimensions={1}, add, %a sharded along dimension 1 by x
//     local   reduce(f32[8,4] %a', 0), partial over {x}: an all-reduce finishes it, then %init is added
//     any     argmax-like, of two operands: reduce each, all-to-all to f32[4,2] and s32[4,2], reduce those; the result
//     is
//             sharded along its own dimension
//
// The padding of an uneven shard would be reduced too, so it is first set to a value that changes nothing. An init
// value that is no identity must count once, not once a device: the devices then start from the identity, and the init
// value is applied to the finished result.
#include <assert.h>
#include <string.h>

#include "spmd_partitioner/emit.h"
#include "spmd_partitioner/passes/passes.h"

// Reduced dimensions are summed factors, which results do not have; all arrays of a variadic reduction share theirs.
static void reduce_rule(SpmdRule *rule, const HloInstruction *op) {
    assert(hlo_is(op, HLO_OP_REDUCE));
    HloInts dimensions = HLO_ATTRIBUTES(op, Dimensions)->dimensions;
    int32_t inputs = op->operand_count / 2;
    const HloShape *shape = op->operands[0]->shape;
    int64_t at = 0;
    for (int32_t d = 0; d < shape->rank; d++) {
        bool reduced = hlo_ints_contain(dimensions, d);
        int32_t factor = spmd_rule_factor(rule, reduced ? SPMD_REDUCE : SPMD_PASS, shape->dims[d]);
        for (int32_t i = 0; i < inputs; i++) {
            spmd_rule_map(rule, i, d, factor);
            if (!reduced) spmd_rule_map(rule, spmd_rule_result(rule, i), at, factor);
        }
        at += !reduced;
    }
    const HloOpcode combiner = op->operand_count == 2 ? spmd_rule_combiner(op->called[0]) : HLO_OPCODE_COUNT;
    // A reduction that no collective performs is gathered and reduced a second time; a call of the computation
    // represents that.
    rule->reduction = combiner == HLO_OPCODE_COUNT ? HLO_OP_CALL : combiner;
}

// True if an init value is a constant that the op leaves everything unchanged with.
static bool is_identity(const HloInstruction *init, HloOpcode opcode) {
    if (!hlo_is(init, HLO_OP_CONSTANT)) return false;
    const HloLiteral *literal = hlo_constant_literal(init);
    if (literal->elided || hlo_type_is_complex(literal->shape->type)) return false;
    bool floating = hlo_type_is_float(literal->shape->type);
    double value = floating ? hlo_literal_get_double(literal, 0) : (double)hlo_literal_get_int64(literal, 0);
    if (opcode == HLO_OP_ADD || opcode == HLO_OP_OR || opcode == HLO_OP_XOR) return value == 0;
    if (opcode == HLO_OP_MULTIPLY) return value == 1;
    // Minimum and maximum may count their init value any number of times.
    return opcode == HLO_OP_MAXIMUM || opcode == HLO_OP_MINIMUM || opcode == HLO_OP_AND;
}

// Emits op(init, finished partial results): an init value other than the identity must count only once. If the result
// is requested as a sum over axes, it stays one: the init value then goes to the first device alone, and zeros to the
// others.
static void finish_with_init(SpmdPartitioner *partitioner, const SpmdRule *rule, HloInstruction *init) {
    SpmdLocal local = *spmd_local(partitioner, rule->op, 0);
    SpmdReason reason = {.op = rule->op, .what = "result"};
    local = spmd_reshard(partitioner, local, spmd_planned(partitioner, 0), 0, reason);
    const HloShape *shape = local.hlo->shape;
    SpmdSharding *complete = spmd_sharding_copy(partitioner->arena, local.sharding);
    complete->unreduced = 0;
    SpmdLocal start = {.hlo = shape->rank ? spmd_emit_splat(partitioner, init, shape->dims, shape->rank) : init,
                       .global = local.global,
                       .sharding = complete};
    start = spmd_reshard(partitioner, start, local.sharding, 0, reason);
    local.hlo = spmd_emit_binary(partitioner, rule->reduction, start.hlo, local.hlo);
    spmd_define_as(partitioner, 0, &local);
}

// One array and a combiner that collectives have.
static HloStatus reduce_known(SpmdPartitioner *partitioner, const SpmdRule *rule, const SpmdAxes *factors) {
    const HloInstruction *op = rule->op;
    HloInstruction *operands[2] = {spmd_factor_operand(partitioner, rule, factors, 0).hlo,
                                   spmd_operand_whole(partitioner, 1)};
    HloInstruction *init = operands[1];
    bool partial = spmd_partial_axes(rule, factors) != 0;
    bool plain = !partial || is_identity(op->operands[1], rule->reduction);
    if (!plain) operands[1] = spmd_emit_identity(partitioner, rule->reduction, op->operands[1]->shape->type);
    operands[0] = spmd_mask_reduced(partitioner, rule, factors, 0, operands[0], operands[1]);
    HLO_TRY(spmd_emit_by_factors(partitioner, rule, factors, operands));
    if (!plain) finish_with_init(partitioner, rule, init);
    return HLO_SUCCESS;
}

// A reduction of the current op's computation over dimension 0 or the source's own dimensions; its leaves.
static HloInstruction **emit_reduce(SpmdPartitioner *partitioner, const HloInstruction *op,
                                    HloInstruction *const *operands, const HloShape *const *results, bool leading) {
    assert(operands && results);
    int32_t inputs = op->operand_count / 2;
    HloArena *arena = partitioner->module->arena;
    const HloShape *shape = hlo_shape_is_tuple(op->shape) ? hlo_shape_tuple(arena, results, inputs) : results[0];
    HloInstruction *made = spmd_clone(partitioner, op, shape, operands, op->operand_count);
    int64_t zero = 0;
    HloDimensionsAttributes attributes = {hlo_ints(arena, &zero, 1)};
    if (leading) hlo_instruction_set_attributes(made, &attributes);
    HloInstruction **leaves = HLO_ARENA_NEW(partitioner->arena, HloInstruction *, inputs);
    spmd_emit_leaves(partitioner, made, leaves);
    return leaves;
}

// The axes of the reduced factors.
static SpmdAxes reduced_axes(const SpmdRule *rule, const SpmdAxes *factors) {
    SpmdAxes axes = {0};
    for (int64_t f = 0; f < rule->factors.count; f++) {
        if (rule->factors.items[f].kind == SPMD_REDUCE) spmd_axes_append(&axes, &factors[f]);
    }
    return axes;
}

// A result dimension that can be divided among the devices that hold partial results: each then reduces its part of
// them, and sends about 2 / g of what a gather on g devices does, if the result is needed whole at all. One that
// divides evenly if possible; parts of another may be padded to at most half of it. -1 if there is none, or nothing to
// win.
static int32_t divided_dim(SpmdPartitioner *partitioner, const SpmdRule *rule, const SpmdAxes *factors,
                           const SpmdSharding *sharding) {
    const SpmdAxes axes = reduced_axes(rule, factors);
    const HloShape *global = rule->tensors[spmd_rule_result(rule, 0)].shape;
    const int64_t group = spmd_axes_product(partitioner->mesh, &axes);
    int32_t uneven = -1;
    if (group < 3 || hlo_shape_is_dynamic(global)) return -1;
    for (int32_t d = 0; d < global->rank; d++) {
        const int64_t few = spmd_axes_product(partitioner->mesh, &sharding->dims[d]), size = global->dims[d];
        if (size > 0 && size % (few * group) == 0) return d;
        const int64_t part = spmd_shard_size(size, few * group);
        if (2 * part < spmd_shard_size(size, few) && spmd_split_is_even(size, few, group)) uneven = d;
    }
    return uneven;
}

// Whether something needs result `index` of a reduction of several arrays.
static bool is_needed(const HloInstruction *op, int32_t index) {
    return !hlo_shape_is_tuple(op->shape) || hlo_instruction_is_root(op) || !spmd_is_unread(op, index);
}

// Whether a machine takes less time to gather the devices' partial results than to exchange them for a part of
// dimension `dim` and to send that to where it is needed: small arrays in fewer messages.
static bool gathers_faster(SpmdPartitioner *partitioner, const SpmdRule *rule, const SpmdAxes *factors, int32_t dim,
                           SpmdSharding *const *shardings, const HloShape *const *results) {
    SpmdCosts *costs = partitioner->plan->costs;
    const SpmdAxes axes = reduced_axes(rule, factors);
    const SpmdAtomSet atoms = spmd_axes_set(&axes);
    const int64_t group = spmd_axes_product(partitioner->mesh, &axes);
    int64_t gathered = 0, exchanged = 0;
    if (!costs->machine) return false;
    for (int32_t i = 0; i < rule->result_count; i++) {
        const int64_t bytes = hlo_shape_bytes(results[i]);
        gathered = spmd_add_bytes(
            gathered, spmd_transfer_cost(costs, SPMD_TRANSFER_GATHER, atoms, spmd_times_bytes(bytes, group - 1), true));
        exchanged = spmd_add_bytes(
            exchanged, spmd_transfer_cost(costs, SPMD_TRANSFER_EXCHANGE, atoms, bytes - bytes / group, true));
        if (!is_needed(rule->op, i)) continue;
        const HloShape *global = rule->tensors[spmd_rule_result(rule, i)].shape;
        const SpmdSharding *wanted = spmd_planned(partitioner, i);
        SpmdSharding *part = spmd_sharding_copy(partitioner->arena, shardings[i]);
        spmd_axes_append(&part->dims[dim], &axes);
        gathered = spmd_add_bytes(gathered, spmd_path(partitioner, global, shardings[i], 0, wanted)->cost);
        exchanged = spmd_add_bytes(exchanged, spmd_path(partitioner, global, part, 0, wanted)->cost);
    }
    return gathered < exchanged;
}

// Exchanges the devices' partial results, along a new leading dimension, for a part of result dimension `dim` of all of
// them, and reduces that. Local results and their shardings are changed to those of the part.
static HloInstruction **reduce_exchanged(SpmdPartitioner *partitioner, const SpmdRule *rule, const SpmdAxes *factors,
                                         HloInstruction *const *partials, HloInstruction **operands, int32_t dim,
                                         SpmdSharding **shardings, const HloShape **results) {
    const SpmdAxes axes = reduced_axes(rule, factors);
    const int64_t group = spmd_axes_product(partitioner->mesh, &axes);
    HloArena *arena = partitioner->module->arena;
    for (int32_t i = 0; i < rule->result_count; i++) {
        const HloShape *global = rule->tensors[spmd_rule_result(rule, i)].shape, *shape = partials[i]->shape;
        int64_t *dims = HLO_ARENA_NEW(arena, int64_t, global->rank + 1);
        int64_t *local = HLO_ARENA_NEW(arena, int64_t, global->rank + 1);
        SpmdSharding *from = spmd_sharding_new(partitioner->arena, global->rank + 1, shardings[i]->manual);
        dims[0] = group;
        local[0] = 1;
        from->dims[0] = axes;
        for (int32_t d = 0; d < global->rank; d++) {
            dims[d + 1] = global->dims[d];
            local[d + 1] = shape->dims[d];
            from->dims[d + 1] = shardings[i]->dims[d];
        }
        SpmdSharding *to = spmd_sharding_copy(partitioner->arena, from);
        to->dims[0] = (SpmdAxes){0};
        spmd_axes_append(&to->dims[dim + 1], &axes);
        SpmdLocal rows = {.hlo = spmd_emit_reshape(partitioner, partials[i], local, global->rank + 1),
                          .global = hlo_shape_with_dims(arena, global, dims, global->rank + 1),
                          .sharding = from};
        SpmdReason reason = {.op = rule->op, .what = "partial result"};
        operands[i] = spmd_reshard(partitioner, rows, to, 0, reason).hlo;
        shardings[i] = spmd_sharding_copy(partitioner->arena, shardings[i]);
        spmd_axes_append(&shardings[i]->dims[dim], &axes);
        results[i] = spmd_local_shape(arena, partitioner->mesh, global, shardings[i]);
    }
    return emit_reduce(partitioner, rule->op, operands, results, true);
}

// Gathers the devices' partial results along a new leading dimension and reduces that. `operands` are the op's, whose
// arrays are replaced; the init values after them stay.
static HloInstruction **reduce_gathered(SpmdPartitioner *partitioner, const SpmdRule *rule, const SpmdAxes *factors,
                                        HloInstruction *const *partials, HloInstruction **operands,
                                        const HloShape *const *results) {
    const SpmdAxes axes = reduced_axes(rule, factors);
    for (int32_t i = 0; i < rule->result_count; i++) {
        const HloShape *shape = partials[i]->shape;
        int64_t *dims = HLO_ARENA_NEW(partitioner->arena, int64_t, shape->rank + 1);
        dims[0] = 1;
        for (int32_t d = 0; d < shape->rank; d++) dims[d + 1] = shape->dims[d];
        SpmdReason reason = {.op = rule->op, .what = "partial result"};
        HloInstruction *row = spmd_emit_reshape(partitioner, partials[i], dims, shape->rank + 1);
        operands[i] = spmd_emit_all_gather(partitioner, row, 0, &axes, &reason);
    }
    return emit_reduce(partitioner, rule->op, operands, results, true);
}

// The op that computes component `index` of a variadic reduction from that component alone, and whose init value must
// not count twice; HLO_OPCODE_COUNT where there is none.
static HloOpcode counting_op(const HloComputation *reducer, int32_t index, int32_t inputs) {
    const HloInstruction *root = reducer->root;
    if (!hlo_is(root, HLO_OP_TUPLE)) return HLO_OPCODE_COUNT;
    const HloInstruction *made = root->operands[index];
    const HloInstruction *left = reducer->parameters.items[index], *right = reducer->parameters.items[inputs + index];
    const bool own = made->operand_count == 2 && ((made->operands[0] == left && made->operands[1] == right) ||
                                                  (made->operands[0] == right && made->operands[1] == left));
    if (!own || made->users.count != 1 || left->users.count != 1 || right->users.count != 1) return HLO_OPCODE_COUNT;
    switch (made->opcode) {
        case HLO_OP_ADD: return spmd_type_has_zero(made->shape->type) ? HLO_OP_ADD : HLO_OPCODE_COUNT;
        case HLO_OP_MULTIPLY:
        case HLO_OP_XOR: return made->opcode;
        default: return HLO_OPCODE_COUNT;
    }
}

// Any computation, any number of operands. A component that is a sum, product or xor of its own starts from the
// identity on each device and gets its init value when the partial results are reduced. Other init values must be the
// computation's identity, as XLA requires of programs whose reductions it splits.
static HloStatus reduce_any(SpmdPartitioner *partitioner, const SpmdRule *rule, const SpmdAxes *factors) {
    const HloInstruction *op = rule->op;
    int32_t inputs = op->operand_count / 2;
    HloInstruction **operands = HLO_ARENA_NEW(partitioner->arena, HloInstruction *, op->operand_count);
    SpmdSharding **shardings = HLO_ARENA_NEW(partitioner->arena, SpmdSharding *, inputs);
    const HloShape **results = HLO_ARENA_NEW(partitioner->module->arena, const HloShape *, inputs);
    HloInstruction **inits = HLO_ARENA_NEW(partitioner->arena, HloInstruction *, inputs);
    const bool partial = spmd_partial_axes(rule, factors) != 0;
    for (int32_t i = 0; i < inputs; i++) {
        inits[i] = spmd_operand_whole(partitioner, inputs + i);
        const HloOpcode counting = partial ? counting_op(op->called[0], i, inputs) : HLO_OPCODE_COUNT;
        const bool plain = counting == HLO_OPCODE_COUNT || is_identity(op->operands[inputs + i], counting);
        operands[inputs + i] = plain ? inits[i] : spmd_emit_identity(partitioner, counting, inits[i]->shape->type);
        HloInstruction *local = spmd_factor_operand(partitioner, rule, factors, i).hlo;
        operands[i] = spmd_mask_reduced(partitioner, rule, factors, i, local, operands[inputs + i]);
        shardings[i] = spmd_rule_sharding(rule, partitioner->arena, partitioner->mesh, spmd_rule_result(rule, i),
                                          factors, spmd_manual_axes(partitioner, op));
        const HloShape *global = rule->tensors[spmd_rule_result(rule, i)].shape;
        results[i] = spmd_local_shape(partitioner->module->arena, partitioner->mesh, global, shardings[i]);
    }
    HloInstruction **leaves = emit_reduce(partitioner, op, operands, results, false);
    if (partial) {
        memcpy(operands + inputs, inits, sizeof *inits * (size_t)inputs);
        int32_t dim = divided_dim(partitioner, rule, factors, shardings[0]);
        if (dim >= 0 && gathers_faster(partitioner, rule, factors, dim, shardings, results)) dim = -1;
        leaves = dim < 0 ? reduce_gathered(partitioner, rule, factors, leaves, operands, results)
                         : reduce_exchanged(partitioner, rule, factors, leaves, operands, dim, shardings, results);
    }
    for (int32_t i = 0; i < inputs; i++) spmd_define(partitioner, i, leaves[i], shardings[i], 0, HLO_OPCODE_COUNT);
    return HLO_SUCCESS;
}

// HLO_OP_CALL represents a computation that no collective performs.
static HloStatus reduce_partition(SpmdPartitioner *partitioner, const HloInstruction *op) {
    const SpmdRule *rule = partitioner->plan->rules[op->id];
    assert(rule); /* its operands are arrays: shape inference has seen them */
    SpmdAxes *factors = spmd_choose(partitioner, rule, false);
    if (rule->reduction == HLO_OP_CALL) return reduce_any(partitioner, rule, factors);
    return reduce_known(partitioner, rule, factors);
}
const SpmdOp spmd_op_reduce = {.name = "reduce", .rule = reduce_rule, .partition = reduce_partition};
