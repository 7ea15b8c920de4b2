// SPDX-License-Identifier: Apache-2.0
// An array that is needed in another sharding can be sent there, or computed there from operands that are sent. The
// second sends less where the op makes much of little: a conversion to a wider type, a broadcast, a comparison that
// makes a mask of indices, an outer product.
//
//     %w = f32[64,64] convert(bf16[64,64] %p)    both [{x}, {}], %w needed whole
//         send %w      all-gather of f32
//         remake %w    all-gather of bf16, and the convert again on the whole array: half of the bytes
//     %m = f32[64,8,16] dot(f32[64,8] %a, f32[64,8,16] %h)    %h is a mask made of s32[64,8] %i; %m is needed by
//     columns
//         all-to-alls of %a and %i, 1/16 of %m each
//
// The operands are treated alike, so that a whole chain of ops is remade from where it is smallest. The work of the
// copies counts. What the original was needed for is not known yet, so that its work always counts as well; if all its
// users take the copy, the original is removed as unused.
#include <assert.h>

#include "spmd_partitioner/contraction.h"
#include "spmd_partitioner/partitioner.h"

// A decision looks at no more ops than these, and no deeper.
enum { MOST_OPS = 24, MOST_DEPTH = 10 };

// Operands that the ops looked at so far need, each in one form.
typedef struct Remaking {
    SpmdPartitioner *partitioner;
    int32_t count;
    struct {
        const HloInstruction *source;
        const SpmdSharding *to;
    } needed[2 * MOST_OPS];
    int32_t ops, depth;
} Remaking;

// What an element of an op that is not light takes, in operations of a product.
enum { HEAVY_POINTS = 32 };

// Ops that take about as long as writing their result.
static bool is_light(const HloInstruction *op) {
    switch (op->opcode) {
        case HLO_OP_BROADCAST:
        case HLO_OP_COPY:
        case HLO_OP_RESHAPE:
        case HLO_OP_TRANSPOSE: return true;
        case HLO_OP_DIVIDE:
        case HLO_OP_REMAINDER:
        case HLO_OP_POWER:
        case HLO_OP_ATAN2: return false;
        default:
            return hlo_op_is(op->opcode, HLO_OP_IS_ELEMENTWISE) &&
                   hlo_op_info(op->opcode)->family != HLO_FAMILY_Accuracy;
    }
}

// Whether an op may be computed a second time, on other parts of its operands.
static bool can_remake(const HloInstruction *op) {
    if (!hlo_shape_is_array(op->shape) || hlo_shape_is_dynamic(op->shape) || !op->operand_count || op->called_count ||
        op->control_predecessors.count || op->control_successors.count || hlo_instruction_has_side_effect(op) ||
        hlo_op_is(op->opcode, HLO_OP_IS_NONDETERMINISTIC))
        return false;
    const SpmdOp *row = spmd_op(op->opcode);
    if (hlo_shape_is_dynamic(op->operands[0]->shape)) return false;
    if (hlo_is(op, HLO_OP_RESHAPE) || hlo_is(op, HLO_OP_COPY) || hlo_is(op, HLO_OP_DOT)) return true;
    return (is_light(op) || hlo_op_is(op->opcode, HLO_OP_IS_ELEMENTWISE)) && !row->partition && !row->adjust;
}

// The axes of each factor if the result is to be `to`; NULL where the op cannot make that from parts alone.
static SpmdAxes *factors_for(SpmdPartitioner *partitioner, const SpmdRule *rule, const SpmdSharding *to) {
    SpmdAxes *factors = HLO_ARENA_NEW(partitioner->arena, SpmdAxes, rule->factors.count);
    const int32_t result = spmd_rule_result(rule, 0);
    if (!spmd_rule_project(rule, partitioner->mesh, result, to, factors)) return NULL;
    for (int64_t f = 0; f < rule->factors.count; f++)
        if (factors[f].count && rule->factors.items[f].kind != SPMD_PASS) return NULL;
    spmd_rule_resolve(rule, partitioner->mesh, factors);
    for (int32_t d = 0; d < to->rank; d++) {
        const SpmdAxes axes = spmd_rule_dim_axes(rule, partitioner->mesh, result, d, factors);
        if (!spmd_axes_equal(&axes, &to->dims[d])) return NULL;
    }
    return factors;
}

// What it costs to send an array from one sharding to another; messages count, since remaking may take several.
static int64_t sending_cost(SpmdPartitioner *partitioner, const SpmdLocal *local, const SpmdSharding *to) {
    const SpmdPath *path = spmd_path(partitioner, local->global, local->sharding, local->partial, to);
    if (partitioner->plan->costs->machine || !path->cost) return path->cost;
    return spmd_add_bytes(path->cost, (int64_t)path->count * SPMD_MESSAGE_BYTES);
}

// The local work of an op whose result is to be `to`. Elementwise operations are computed inside others and only write.
static int64_t work_of(SpmdPartitioner *partitioner, const SpmdRule *rule, const SpmdAxes *factors,
                       const SpmdSharding *to) {
    const SpmdMesh *mesh = partitioner->mesh;
    double bytes = (double)spmd_local_bytes(mesh, rule->op->shape, to);
    for (int32_t i = 0; spmd_is_product(rule->op) && i < rule->operand_count; i++) {
        const SpmdSharding *sharding = spmd_rule_sharding(rule, partitioner->arena, mesh, i, factors, 0);
        bytes += (double)spmd_local_bytes(mesh, rule->tensors[i].shape, sharding);
    }
    double points = spmd_local_points(rule, mesh, factors);
    if (!is_light(rule->op) && !spmd_is_product(rule->op))
        points += HEAVY_POINTS * (double)spmd_local_bytes(mesh, rule->op->shape, to) /
                  (double)hlo_type_bytes(rule->op->shape->type);
    return spmd_price_cost(spmd_work_price(partitioner->plan->costs, bytes, points));
}

static int64_t remaking_cost(Remaking *remaking, const SpmdLocal *local, const SpmdSharding *to, int64_t limit);

// What it costs to have an operand in a form: nothing if it is needed in it already, else the cheaper of the two ways.
static int64_t form_cost(Remaking *remaking, const HloInstruction *source, const SpmdSharding *to, int64_t limit) {
    SpmdPartitioner *partitioner = remaking->partitioner;
    const SpmdLocal *local = spmd_local(partitioner, source, 0);
    if (spmd_has_form(partitioner, local, to)) return 0;
    if (local->partial) return SPMD_MOST_BYTES;
    for (int32_t i = 0; i < remaking->count; i++)
        if (remaking->needed[i].source == source && spmd_sharding_equal(remaking->needed[i].to, to)) return 0;
    const int64_t sent = sending_cost(partitioner, local, to);
    int64_t cost = sent;
    if (sent && local->source) {
        const int64_t remade = remaking_cost(remaking, local, to, sent < limit ? sent : limit);
        if (remade < cost) cost = remade;
    }
    if (cost < limit && remaking->count < (int32_t)HLO_COUNT_OF(remaking->needed)) {
        remaking->needed[remaking->count].source = source;
        remaking->needed[remaking->count++].to = to;
    }
    return cost;
}

// What it costs to compute an array in the form `to`, if that is less than `limit`; else `limit`.
static int64_t remaking_cost(Remaking *remaking, const SpmdLocal *local, const SpmdSharding *to, int64_t limit) {
    SpmdPartitioner *partitioner = remaking->partitioner;
    const HloInstruction *op = local->source;
    const SpmdRule *rule = partitioner->plan->rules[op->id];
    if (!rule || remaking->depth == MOST_DEPTH || remaking->ops == MOST_OPS || !can_remake(op)) return limit;
    const int64_t had = spmd_local_bytes(partitioner->mesh, op->shape, local->sharding);
    if (spmd_is_product(op) && spmd_local_bytes(partitioner->mesh, op->shape, to) > had) return limit;
    const SpmdAxes *factors = factors_for(partitioner, rule, to);
    if (!factors) return limit;
    const int32_t before = remaking->count;
    remaking->ops++;
    remaking->depth++;
    int64_t cost = work_of(partitioner, rule, factors, to);
    for (int32_t i = 0; i < op->operand_count && cost < limit; i++) {
        const SpmdSharding *wanted =
            spmd_rule_sharding(rule, partitioner->arena, partitioner->mesh, i, factors, to->manual);
        cost = spmd_add_bytes(cost, form_cost(remaking, op->operands[i], wanted, limit - cost));
    }
    remaking->depth--;
    if (cost >= limit) remaking->count = before;
    return cost < limit ? cost : limit;
}

// Whether there are two ways to have an array in another form.
static bool has_choice(SpmdPartitioner *partitioner, const SpmdLocal *local, const SpmdSharding *to) {
    return local->hlo && local->source && local->source->parent == partitioner->op->parent && !local->partial &&
           !to->unreduced && !local->sharding->unreduced && can_remake(local->source);
}

int64_t spmd_form_cost(SpmdPartitioner *partitioner, const SpmdLocal *local, const SpmdSharding *to) {
    if (spmd_has_form(partitioner, local, to)) return 0;
    const int64_t cost = spmd_path(partitioner, local->global, local->sharding, local->partial, to)->cost;
    if (!cost || !has_choice(partitioner, local, to)) return cost;
    Remaking remaking = {.partitioner = partitioner};
    const int64_t sent = sending_cost(partitioner, local, to);
    const int64_t saved = sent - remaking_cost(&remaking, local, to, sent);
    return cost > saved ? cost - saved : 0;
}

// Emits `op` in the form `to`. Its operands come from spmd_reshard(), which decides about them in the same way.
SpmdLocal spmd_remake(SpmdPartitioner *partitioner, const SpmdLocal *local, const SpmdSharding *to) {
    const HloInstruction *op = local->source;
    const SpmdRule *rule = partitioner->plan->rules[op->id];
    const SpmdAxes *factors = factors_for(partitioner, rule, to);
    HloInstruction **operands = HLO_ARENA_NEW(partitioner->arena, HloInstruction *, op->operand_count);
    for (int32_t i = 0; i < op->operand_count; i++) {
        const SpmdSharding *wanted =
            spmd_rule_sharding(rule, partitioner->arena, partitioner->mesh, i, factors, to->manual);
        const SpmdReason reason = {.op = op, .what = spmd_operand_name(partitioner, i)};
        operands[i] = spmd_reshard(partitioner, *spmd_local(partitioner, op->operands[i], 0), wanted, 0, reason).hlo;
    }
    const HloShape *shape = spmd_local_shape(partitioner->module->arena, partitioner->mesh, op->shape, to);
    SpmdLocal made = *local;
    made.hlo = spmd_clone(partitioner, op, shape, operands, op->operand_count);
    made.sharding = to;
    return made;
}

// What the array takes where it is sent although nothing else needs it there: its kernel. Remade, it is computed inside
// of its user.
static int64_t spared_cost(const SpmdPartitioner *partitioner, const SpmdLocal *local) {
    const HloInstruction *op = local->source;
    if (op->users.count != 1 || hlo_instruction_is_root(op) || spmd_is_product(op)) return 0;
    return spmd_price_cost(partitioner->plan->costs->kernel_price +
                           spmd_work_price(partitioner->plan->costs,
                                           (double)spmd_local_bytes(partitioner->mesh, op->shape, local->sharding), 0));
}

bool spmd_should_remake(SpmdPartitioner *partitioner, const SpmdLocal *local, const SpmdSharding *to) {
    if (!has_choice(partitioner, local, to)) return false;
    const HloArenaMark mark = hlo_arena_mark(partitioner->arena);
    int64_t sent = sending_cost(partitioner, local, to);
    if (sent && partitioner->plan->costs->machine) sent = spmd_add_bytes(sent, spared_cost(partitioner, local));
    Remaking remaking = {.partitioner = partitioner};
    const bool should = sent && remaking_cost(&remaking, local, to, sent) < sent;
    hlo_arena_reset(partitioner->arena, mark);
    return should;
}
