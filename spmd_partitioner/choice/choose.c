// SPDX-License-Identifier: Apache-2.0
// Partitioning by the rule: which axes each factor of an op gets, and the op on local shapes that follows from it.
//
// A rule has a factor for each dimension that an op's operands and results have in common (rule.h), and a choice
// assigns axes to factors. Everything else follows: the sharding of every operand and result, the local shapes, and
// which results are partial. Tensors disagree about the axes, so each of them leads once and the others follow as far
// as they can. The candidate with the lowest cost in bytes, local work included, is taken. The search is greedy and
// small on purpose: it runs for every instruction, and the reshard planner that gives every price is exact.
//
//     %a [m,k] is [{}, {x}]   %b [k,n] is [{x}, {}]   %d [m,n] is wanted [{x}, {}]
//     %d leads    m={x}: %a moves x from k to m (all-to-all), %b is gathered
//     %a leads    k={x}: no operand moves, %d is partial over x and reduce-scattered
// With A, B and D bytes in the whole arrays and g devices along x, the first sends A(g-1)/g^2 + B(g-1)/g, the second
// D(g-1)/g.
//
// The cost is the sum of the costs of spmd_reshard_path() over all tensors, the window bytes that `moved` returns, and
// local work converted to bytes (costs.h). Each leading tensor gives at most five candidates.
//
// The second half of the file emits the op: operands in the form that the factors require (spmd_factor_operand),
// padding set to the identity where it would be summed (spmd_mask_reduced), and the op's clone on local shapes with its
// results defined (spmd_emit_by_factors).
#include <assert.h>
#include <math.h>
#include <string.h>

#include "hlo/analysis/loop.h"
#include "spmd_partitioner/contest.h"
#include "spmd_partitioner/contraction.h"
#include "spmd_partitioner/emit.h"
#include "spmd_partitioner/later.h"

enum { MOST_KNOWN_FORMS = 12, MOST_KNOWN_RANK = 6 };

// What it costs to have an operand in a form. Candidates differ in few of their operands, and nothing is emitted
// between them, so that the costs of one are those of the next.
typedef struct KnownForms {
    int32_t count;
    struct {
        int32_t tensor;
        SpmdAxes dims[MOST_KNOWN_RANK];
        int64_t cost;
    } forms[MOST_KNOWN_FORMS];
} KnownForms;

typedef struct Choice {
    SpmdPartitioner *partitioner;
    const SpmdRule *rule;
    bool windows;  // whether SPMD_PERMUTE factors may get axes
    const SpmdSharding *
        *now;  // by tensor: sharding it has (operands) or should get (results); NULL if it does not matter
    SpmdAtomSet manual;
    bool can_wait;  // spmd_define() may leave a sum to the op's user
    KnownForms *known;
    SpmdAxes *best;  // by factor; NULL until a first candidate has been priced
    int64_t best_cost;
} Choice;

// Whether a factor may get axes at all in this choice.
static bool may_shard(const Choice *choice, const SpmdFactor *factor) {
    switch (factor->kind) {
        case SPMD_PASS: return true;
        case SPMD_REDUCE: return choice->rule->reduction != HLO_OPCODE_COUNT;
        case SPMD_PERMUTE: return choice->windows;
        case SPMD_REPLICATE: return false;
    }
    return false;
}

// An axis belongs to at most one factor, so this is a disjoint union.
SpmdAtomSet spmd_factor_atoms(const SpmdRule *rule, const SpmdAxes *factors) {
    SpmdAtomSet used = 0;
    for (int64_t f = 0; f < rule->factors.count; f++) used |= spmd_axes_set(&factors[f]);
    return used;
}

// Whether two tensors have the same factors in all dimensions, and the same sharding: then whatever the one leads to,
// the other leads to as well.
static bool lead_alike(const Choice *choice, int32_t a, int32_t b) {
    const SpmdTensor *x = &choice->rule->tensors[a], *y = &choice->rule->tensors[b];
    if (!choice->now[a] || !choice->now[b] || !spmd_sharding_equal(choice->now[a], choice->now[b])) return false;
    for (int32_t d = 0; d < x->shape->rank; d++) {
        if (x->dims[d].count != y->dims[d].count) return false;
        for (int32_t i = 0; i < x->dims[d].count; i++)
            if (x->dims[d].items[i] != y->dims[d].items[i]) return false;
    }
    return true;
}

// Whether a tensor that has already led gives the same candidates. Ops with hundreds of operands (a concatenation, a
// sort of many arrays) have only a few distinct ones. spmd_choose() goes from the last tensor to the first, so those
// after `lead` have led.
static bool has_led(const Choice *choice, int32_t lead) {
    for (int32_t t = spmd_rule_tensors(choice->rule) - 1; t > lead; t--)
        if (lead_alike(choice, lead, t)) return true;
    return false;
}

// Axes that some factor has already.
static SpmdAtomSet used_by(const Choice *choice, const SpmdAxes *factors) {
    return spmd_factor_atoms(choice->rule, factors);
}

// Copies one tensor's axes to the factors that have none yet. A list of axes ends before the first one that another
// factor already has: an axis shards one dimension of the op.
static void take_over(const Choice *choice, int32_t tensor, SpmdAxes *factors) {
    const SpmdRule *rule = choice->rule;
    assert(tensor >= 0 && tensor < spmd_rule_tensors(rule)); /* operands, then results */
    if (!choice->now[tensor]) return;
    SpmdAxes *said = HLO_ARENA_NEW(choice->partitioner->arena, SpmdAxes, rule->factors.count);
    spmd_rule_project(rule, choice->partitioner->mesh, tensor, choice->now[tensor], said);
    for (int64_t f = 0; f < rule->factors.count; f++) {
        if (factors[f].count || !may_shard(choice, &rule->factors.items[f])) continue;
        SpmdAtomSet used = used_by(choice, factors);
        int32_t keep = 0;
        while (keep < said[f].count && !(used >> said[f].items[keep] & 1)) keep++;
        factors[f] = spmd_axes_head(&said[f], keep);
    }
}

// What stays near the processor while a loop runs, in bytes of one operand.
enum { KEPT_NEAR = 16 << 20 };

// How often an operand is read from memory for each time that the op runs: what a loop does not change is read once, if
// it is small enough to stay near the processor.
static double share_read(const Choice *choice, int32_t tensor, int64_t bytes) {
    if (tensor >= choice->rule->operand_count || bytes > KEPT_NEAR) return 1;
    const HloInstruction *loop = spmd_loop_around(choice->rule->op, tensor);
    const int64_t trips = loop ? hlo_trip_count(loop) : 1;
    return trips > 1 ? 1 / (double)trips : 1;
}

// What the local work costs: bytes of all local tensors, and one multiply-add for each point of a product's factors.
static int64_t work_cost(const Choice *choice, const SpmdAxes *factors) {
    const SpmdRule *rule = choice->rule;
    const SpmdMesh *mesh = choice->partitioner->mesh;
    double bytes = 0;
    for (int32_t t = 0; t < spmd_rule_tensors(rule); t++) {
        const SpmdSharding *sharding = spmd_rule_sharding(rule, choice->partitioner->arena, mesh, t, factors, 0);
        const int64_t local = spmd_local_bytes(mesh, rule->tensors[t].shape, sharding);
        bytes += (double)local * share_read(choice, t, local);
    }
    return spmd_price_cost(
        spmd_work_price(choice->partitioner->plan->costs, bytes, spmd_local_points(rule, mesh, factors)));
}

// The bytes of the largest array that a user makes of a leaf of `source`; those of the leaf itself where it leaves the
// computation.
static int64_t largest_use(const HloInstruction *source, int64_t leaf) {
    const bool tuple = hlo_shape_is_tuple(source->shape);
    int64_t own = hlo_shape_bytes(hlo_shape_leaf(source->shape, leaf)), largest = 0;
    if (hlo_instruction_is_root(source)) return own;
    for (int64_t i = 0; i < source->users.count; i++) {
        const HloInstruction *user = source->users.items[i];
        int64_t bytes = own;
        if (tuple && hlo_is(user, HLO_OP_GET_TUPLE_ELEMENT)) {
            if (HLO_ATTRIBUTES(user, TupleIndex)->index != leaf) continue;
            bytes = hlo_shape_is_array(user->shape) ? largest_use(user, 0) : own;
        } else if (!spmd_is_flow_op(user->opcode) && hlo_shape_is_array(user->shape)) {
            bytes = hlo_shape_bytes(user->shape);
        }
        if (bytes > largest) largest = bytes;
    }
    return largest < own ? largest : own;
}

// How often the loop around `op` runs while the sum that it leaves waits for the end of the loop (passes/accumulate.c);
// 1 where it does not.
static int64_t waits_for(const HloInstruction *op, const HloShape *shape, const SpmdSharding *wanted) {
    const bool scattered = !spmd_sharding_is_replicated(wanted);
    if (!spmd_sum_waits(op) || (scattered && hlo_shape_bytes(shape) > SPMD_CARRIED_WHOLE)) return 1;
    const int64_t trips = hlo_trip_count(op->parent->callers.items[0]);
    return trips > 1 ? trips : 1;
}

// Bytes to reshard a result from what the factors give to what the plan wants. Where the plan has no axes only because
// nothing asked for any, an array that all its users make smaller is better gathered after them. A sum may be finished
// later.
static int64_t result_cost(const Choice *choice, int32_t tensor, const SpmdSharding *given, SpmdAtomSet partial) {
    assert(tensor >= 0);
    const SpmdRule *rule = choice->rule;
    SpmdPartitioner *partitioner = choice->partitioner;
    const int64_t leaf = tensor - rule->operand_count;
    const HloShape *shape = rule->tensors[tensor].shape;
    const SpmdSharding *wanted = choice->now[tensor];
    int64_t bytes = spmd_path(partitioner, shape, given, partial, wanted)->cost;
    if (partial && bytes && choice->can_wait && !given->unreduced) {
        const int64_t later = spmd_later_cost(partitioner, rule->op, given, partial);
        if (later < bytes) bytes = later;
    }
    if (partial) bytes /= waits_for(rule->op, shape, wanted);
    bool asked = spmd_plan_array(partitioner->plan, rule->op, leaf)->annotated || !spmd_sharding_is_replicated(wanted);
    int64_t whole = hlo_shape_bytes(shape);
    if (asked || partial || whole == 0) return bytes;
    return (int64_t)((double)bytes * (double)largest_use(rule->op, leaf) / (double)whole);
}

// The divisor of the cost of a transfer that is taken to run beside other work: its links are not free for others.
enum { HIDDEN_SHARE = 4 };

// What it costs in one iteration to bring an operand into a form, if that takes `cost`: what stays the same is brought
// there once.
static int64_t cost_in_loop(const Choice *choice, int32_t tensor, int64_t cost) {
    const HloInstruction *loop = cost > 0 ? spmd_loop_around(choice->rule->op, tensor) : NULL;
    const int64_t trips = loop ? hlo_trip_count(loop) : 1;
    return trips > 1 ? cost / trips + (cost % trips != 0) : cost;
}

// Whether an operand is an argument of the program, or made of one alone in a few steps that only rearrange or convert.
// Devices can send what they have of it before it is needed.
static bool is_argument(const HloInstruction *at) {
    enum { MOST_STEPS = 4 };
    for (int32_t i = 0; i < MOST_STEPS && at->operand_count == 1; i++) {
        if (!hlo_is(at, HLO_OP_CONVERT) && !hlo_op_is(at->opcode, HLO_OP_IS_REARRANGES)) return false;
        at = at->operands[0];
    }
    return hlo_is(at, HLO_OP_PARAMETER) && at->parent == at->parent->module->entry;
}

// What it costs to have operand `tensor` in the form `wanted`.
static int64_t operand_cost(const Choice *choice, int32_t tensor, const SpmdSharding *wanted) {
    KnownForms *known = choice->known;
    const size_t bytes = (size_t)wanted->rank * sizeof(*wanted->dims);
    const bool fits = wanted->rank <= MOST_KNOWN_RANK;
    for (int32_t i = 0; fits && i < known->count; i++)
        if (known->forms[i].tensor == tensor && !memcmp(known->forms[i].dims, wanted->dims, bytes))
            return known->forms[i].cost;
    const SpmdLocal local = spmd_operand(choice->partitioner, tensor);
    int64_t cost = cost_in_loop(choice, tensor, spmd_form_cost(choice->partitioner, &local, wanted));
    if (choice->partitioner->plan->costs->hides_arguments && is_argument(choice->rule->op->operands[tensor]))
        cost /= HIDDEN_SHARE;
    if (fits && known->count < MOST_KNOWN_FORMS) {
        known->forms[known->count].tensor = tensor;
        known->forms[known->count].cost = cost;
        memcpy(known->forms[known->count++].dims, wanted->dims, bytes);
    }
    return cost;
}

// Bytes to reshard operands to what the factors require, to exchange the halos of windows, and to reshard results from
// what the factors give to what the plan wants. Once the sum reaches `limit`, what is left is not added: the search for
// paths takes most of the time of partitioning.
static int64_t sent_cost(const Choice *choice, const SpmdAxes *factors, int64_t limit) {
    const SpmdRule *rule = choice->rule;
    SpmdPartitioner *partitioner = choice->partitioner;
    int64_t cost = 0;
    const SpmdOp *row = spmd_op(rule->op->opcode);
    if (choice->windows && row->moved) cost = spmd_add_bytes(cost, row->moved(partitioner, rule, factors));
    SpmdAtomSet partial = spmd_partial_axes(rule, factors);
    for (int32_t t = 0; t < spmd_rule_tensors(rule) && cost < limit; t++) {
        if (!choice->now[t]) continue;
        SpmdSharding *wanted =
            spmd_rule_sharding(rule, partitioner->arena, partitioner->mesh, t, factors, choice->manual);
        const bool is_operand = t < rule->operand_count;
        cost = spmd_add_bytes(cost,
                              is_operand ? operand_cost(choice, t, wanted) : result_cost(choice, t, wanted, partial));
    }
    return cost;
}

// A cost is the bytes that a device sends, plus its local work as the bytes that it could send in that time. The arena
// is reset because a candidate's shardings are only needed for its price.
static void consider(Choice *choice, SpmdAxes *factors) {
    int64_t count = choice->rule->factors.count;
    spmd_rule_resolve(choice->rule, choice->partitioner->mesh, factors);
    HloArenaMark mark = hlo_arena_mark(choice->partitioner->arena);
    const int64_t limit = choice->best ? choice->best_cost : INT64_MAX;
    int64_t cost = work_cost(choice, factors);
    if (cost < limit) cost = spmd_add_bytes(cost, sent_cost(choice, factors, limit - cost));
    hlo_arena_reset(choice->partitioner->arena, mark);
    assert(cost >= 0); /* bytes and work */
    if (choice->best && cost >= choice->best_cost) return;
    choice->best = hlo_arena_copy(choice->partitioner->arena, factors, (size_t)count * sizeof(*factors));
    choice->best_cost = cost;
}

// The factors with all axes of `from` moved to `to`, if that sends less than a part of what `factors` send. *most is
// what this is, -1 until it is asked for: many products have no factor to move axes to.
static void consider_moved(Choice *choice, const SpmdAxes *factors, int32_t from, int32_t to, double part,
                           int64_t *most) {
    SpmdAxes *moved =
        hlo_arena_copy(choice->partitioner->arena, factors, (size_t)choice->rule->factors.count * sizeof(*factors));
    spmd_axes_append(&moved[to], &factors[from]);
    moved[from] = (SpmdAxes){0};
    if (*most < 0) *most = (int64_t)ceil(part * (double)sent_cost(choice, factors, INT64_MAX));
    if (sent_cost(choice, moved, *most) < *most) consider(choice, moved);
}

// Whether a factor can take axes that make `shards` parts of it, evenly or at all.
static bool can_take(const SpmdFactor *factor, int64_t shards, bool evenly) {
    if (factor->kind != SPMD_PASS || factor->exact) return false;
    return evenly ? factor->size % shards == 0 : factor->size >= shards;
}

// The axes that a leading tensor has on dimensions the op needs whole move to the largest dimension that it does not,
// if possible to one that divides evenly. False, with `factors` unchanged, where other factors have them or no
// dimension has so many elements.
static bool move_aside(const Choice *choice, int32_t lead, SpmdAxes *factors) {
    const SpmdRule *rule = choice->rule;
    const SpmdMesh *mesh = choice->partitioner->mesh;
    SpmdAxes aside = {0};
    for (int32_t d = 0; d < choice->now[lead]->rank; d++) {
        SpmdAxes taken = spmd_rule_dim_axes(rule, mesh, lead, d, factors);
        if (!taken.count) spmd_axes_append(&aside, &choice->now[lead]->dims[d]);
    }
    SpmdAtomSet used = used_by(choice, factors);
    if (!aside.count || (spmd_axes_set(&aside) & used)) return false;
    int64_t best = -1, group = spmd_axes_product(mesh, &aside);
    for (int evenly = 1; evenly >= 0 && best < 0; evenly--) {
        for (int32_t f = 0; f < (int32_t)rule->factors.count; f++) {
            const SpmdFactor *factor = &rule->factors.items[f];
            if (!can_take(factor, group * spmd_axes_product(mesh, &factors[f]), evenly)) continue;
            if (best < 0 || factor->size > rule->factors.items[best].size) best = f;
        }
    }
    if (best < 0) return false;
    spmd_axes_append(&factors[best], &aside);
    return true;
}

// Removes the axes of windowed factors; true if there were any. A sharded window dimension needs the edges of its
// neighbours' shards, which may cost more than having the dimension whole.
static bool drop_windows(const SpmdRule *rule, SpmdAxes *factors) {
    bool dropped = false;
    for (int64_t f = 0; f < rule->factors.count; f++) {
        if (rule->factors.items[f].kind != SPMD_PERMUTE || !factors[f].count) continue;
        factors[f] = (SpmdAxes){0};
        dropped = true;
    }
    return dropped;
}

// Whether both operands of a product have a factor: a batch dimension, unless it is summed.
static bool is_batch(const SpmdRule *rule, int32_t factor) {
    bool has[2] = {false, false};
    for (int32_t t = 0; t < 2; t++)
        for (int32_t d = 0; d < rule->tensors[t].shape->rank; d++)
            for (int32_t i = 0; i < rule->tensors[t].dims[d].count; i++)
                has[t] |= rule->tensors[t].dims[d].items[i] == factor;
    return has[0] && has[1];
}

// The axes of a product's summed factors, moved to each of the other factors in turn: operands that have it exchange
// their shards, others are gathered, and nothing has to be added up. That takes more messages, so it must send a tenth
// less. Where the result must be whole it also takes more memory for operands, so it must send much less (gathering the
// result is half of an all-reduce). That it also divides the work on the result does not count. A result that leaves is
// only exchanged for batch dimensions, for which no operand is gathered: the gradient of a weight has none.
static void consider_uncontracted(Choice *choice, const SpmdAxes *factors) {
    const SpmdRule *rule = choice->rule;
    const SpmdMesh *mesh = choice->partitioner->mesh;
    if (!spmd_is_product(rule->op) || !spmd_partial_axes(rule, factors) || spmd_sum_waits(rule->op)) return;
    const SpmdSharding *wanted = choice->now[spmd_rule_result(rule, 0)];
    const bool scatters = (spmd_sharding_used(wanted) & spmd_partial_axes(rule, factors)) != 0;
    const bool leaves = !scatters && spmd_only_leaves(rule->op);
    int64_t most = -1;
    for (int32_t from = 0; from < (int32_t)rule->factors.count; from++) {
        if (rule->factors.items[from].kind != SPMD_REDUCE || !factors[from].count) continue;
        for (int32_t to = 0; to < (int32_t)rule->factors.count; to++) {
            const int64_t shards = spmd_axes_product(mesh, &factors[from]) * spmd_axes_product(mesh, &factors[to]);
            if (!can_take(&rule->factors.items[to], shards, false) || (leaves && !is_batch(rule, to))) continue;
            consider_moved(choice, factors, from, to, scatters ? 0.9 : 0.6, &most);
        }
    }
}

// A product whose summed factors are whole: all devices along their axes multiply the gathered operands, instead of
// adding up parts of a result that is much larger than they are. Bytes alone do not tell what that is worth. Programs
// that only run here keep the sum that people look for.
static void consider_repeated(Choice *choice, const SpmdAxes *factors) {
    const SpmdRule *rule = choice->rule;
    const SpmdPlan *plan = choice->partitioner->plan;
    const bool by_time = plan->costs->machine != NULL && plan->options->overlaps;
    if (!by_time || !spmd_is_product(rule->op) || !spmd_partial_axes(rule, factors) || spmd_sum_waits(rule->op)) return;
    SpmdAxes *whole =
        hlo_arena_copy(choice->partitioner->arena, factors, (size_t)rule->factors.count * sizeof(*factors));
    for (int64_t f = 0; f < rule->factors.count; f++)
        if (rule->factors.items[f].kind == SPMD_REDUCE) whole[f] = (SpmdAxes){0};
    consider(choice, whole);
}

// Whether an operand without `factor` is sharded by axes that the factor has.
static bool has_elsewhere(const Choice *choice, int32_t factor, SpmdAtomSet atoms) {
    for (int32_t t = 0; t < 2; t++) {
        const bool has = spmd_dim_of_factor(&choice->rule->tensors[t], factor) >= 0;
        if (!has && choice->now[t] && (spmd_sharding_used(choice->now[t]) & atoms)) return true;
    }
    return false;
}

// The axes of each free dimension of a product, moved to each dimension that it sums over, where the other operand has
// them elsewhere and would have to be gathered: both operands exchange their shards, and the sum is scattered to where
// the axes were. Gradients of weights are the common case: they are smaller than activations. That takes more messages,
// so it must send a tenth less.
static void consider_contracted(Choice *choice, const SpmdAxes *factors) {
    const SpmdRule *rule = choice->rule;
    const SpmdMesh *mesh = choice->partitioner->mesh;
    if (!spmd_is_product(rule->op)) return;
    int64_t most = -1;
    for (int32_t from = 0; from < (int32_t)rule->factors.count; from++) {
        const bool free = rule->factors.items[from].kind == SPMD_PASS && !is_batch(rule, from);
        if (!free || !factors[from].count || !has_elsewhere(choice, from, spmd_axes_set(&factors[from]))) continue;
        for (int32_t to = 0; to < (int32_t)rule->factors.count; to++) {
            const SpmdFactor *factor = &rule->factors.items[to];
            const int64_t shards = spmd_axes_product(mesh, &factors[from]) * spmd_axes_product(mesh, &factors[to]);
            if (factor->kind != SPMD_REDUCE || factor->exact || factor->size % shards) continue;
            consider_moved(choice, factors, from, to, 0.9, &most);
        }
    }
}

// The table of a lookup, or the array that a slice at a variable index is taken from, gathered. Looked up where it is,
// each device has a part of the result, and adding these up takes more messages than gathering a small table.
static void consider_whole_table(Choice *choice, const SpmdAxes *factors) {
    const SpmdRule *rule = choice->rule;
    SpmdAxes *whole = NULL;
    for (int64_t f = 0; f < rule->factors.count; f++) {
        if (rule->factors.items[f].kind != SPMD_REDUCE || !rule->factors.items[f].blocked || !factors[f].count)
            continue;
        if (!whole)
            whole = hlo_arena_copy(choice->partitioner->arena, factors, (size_t)rule->factors.count * sizeof(*factors));
        whole[f] = (SpmdAxes){0};
    }
    if (whole) consider(choice, whole);
}

// The candidates that one tensor leads: it alone, with what the others add, with its unusable axes moved aside, and
// with those of its windows too.
static void consider_lead(Choice *choice, int32_t lead) {
    assert(lead >= 0);
    const SpmdRule *rule = choice->rule;
    if (!choice->now[lead]) return;
    SpmdAxes *factors = HLO_ARENA_NEW(choice->partitioner->arena, SpmdAxes, rule->factors.count);
    take_over(choice, lead, factors);
    consider(choice, factors);
    SpmdAxes *local =
        hlo_arena_copy(choice->partitioner->arena, factors, (size_t)rule->factors.count * sizeof(*factors));
    if (drop_windows(rule, local)) {
        consider(choice, local);
        if (move_aside(choice, lead, local)) consider(choice, local);
    }
    SpmdAxes *moved =
        hlo_arena_copy(choice->partitioner->arena, factors, (size_t)rule->factors.count * sizeof(*factors));
    if (move_aside(choice, lead, moved)) consider(choice, moved);
    for (int32_t t = spmd_rule_tensors(rule) - 1; t >= 0; t--) take_over(choice, t, factors);
    consider(choice, factors);
    consider_uncontracted(choice, factors);
    consider_repeated(choice, factors);
}

// True if everything already is as the first result wants it: the common case, without a search. `factors` combines the
// axes of all tensors, the results first.
static bool agrees(const Choice *choice, const SpmdAxes *factors) {
    const SpmdRule *rule = choice->rule;
    const SpmdOp *row = spmd_op(rule->op->opcode);
    if (choice->windows && row->moved && row->moved(choice->partitioner, rule, factors)) return false;
    for (int32_t t = 0; t < spmd_rule_tensors(rule); t++) {
        if (!choice->now[t]) continue;
        if (t < rule->operand_count && spmd_operand(choice->partitioner, t).partial) return false;
        const SpmdSharding *now = choice->now[t];
        for (int32_t d = 0; d < now->rank; d++) {
            SpmdAxes axes = spmd_rule_dim_axes(rule, choice->partitioner->mesh, t, d, factors);
            if (!spmd_axes_equal(&axes, &now->dims[d])) return false;
        }
    }
    return true;
}

// What the tensors of the current op are now, or are planned to be.
static Choice choice_of(SpmdPartitioner *partitioner, const SpmdRule *rule, bool windows, KnownForms *known) {
    assert(rule);
    Choice choice = {.partitioner = partitioner, .rule = rule, .windows = windows, .known = known};
    known->count = 0;
    choice.manual = spmd_manual_axes(partitioner, rule->op);
    choice.now = HLO_ARENA_NEW(partitioner->arena, const SpmdSharding *, spmd_rule_tensors(rule));
    for (int32_t t = 0; t < spmd_rule_tensors(rule); t++) {
        if (t >= rule->operand_count) {
            choice.now[t] = spmd_planned(partitioner, t - rule->operand_count);
        } else {
            SpmdLocal local = spmd_operand(partitioner, t);
            choice.now[t] = local.hlo ? local.sharding : NULL;
        }
    }
    choice.can_wait = rule->reduction == HLO_OP_ADD && rule->result_count == 1 && spmd_can_wait(partitioner, rule->op);
    return choice;
}

int64_t spmd_factors_cost(SpmdPartitioner *partitioner, const SpmdRule *rule, const SpmdAxes *factors) {
    KnownForms known;
    const Choice choice = choice_of(partitioner, rule, false, &known);
    return sent_cost(&choice, factors, INT64_MAX);
}

// The search is small because axes are few: each tensor leads once with the sharding that it has, and the cheapest
// candidate wins. Tensors are tried from the last (the results) to the first, and only a cheaper candidate replaces the
// best, so that ties go to the plan.
SpmdAxes *spmd_choose(SpmdPartitioner *partitioner, const SpmdRule *rule, bool windows) {
    const int32_t sum = spmd_waiting_operand(partitioner, rule->op);
    if (sum >= 0) return spmd_waiting_factors(partitioner, rule, sum);
    KnownForms known;
    Choice choice = choice_of(partitioner, rule, windows, &known);
    SpmdAxes *factors = HLO_ARENA_NEW(partitioner->arena, SpmdAxes, rule->factors.count);
    for (int32_t t = spmd_rule_tensors(rule) - 1; t >= 0; t--) take_over(&choice, t, factors);
    spmd_rule_resolve(rule, partitioner->mesh, factors);
    if (agrees(&choice, factors)) {
        // What is left to weigh is the sum of a product or of a lookup.
        if (!spmd_partial_axes(rule, factors)) return factors;
        consider(&choice, factors);
        consider_uncontracted(&choice, factors);
        consider_repeated(&choice, factors);
        consider_whole_table(&choice, factors);
        return choice.best;
    }
    for (int32_t t = spmd_rule_tensors(rule) - 1; t >= 0; t--)
        if (!has_led(&choice, t)) consider_lead(&choice, t);
    if (choice.best) consider_contracted(&choice, choice.best);
    return choice.best;
}

// The cost of one operand's halos. Only sharded dimensions whose factor is a window count.
int64_t spmd_windowed_bytes(SpmdPartitioner *partitioner, const SpmdRule *rule, int32_t operand,
                            const SpmdAxes *factors, SpmdIntervalOf interval_of) {
    assert(operand >= 0 && operand < rule->op->operand_count);
    int64_t bytes = 0;
    int32_t result = spmd_rule_result(rule, 0);
    const SpmdSharding *sharding = spmd_rule_sharding(rule, partitioner->arena, partitioner->mesh, operand, factors, 0);
    for (int32_t d = 0; d < sharding->rank; d++) {
        const SpmdDimFactors *list = &rule->tensors[operand].dims[d];
        if (!sharding->dims[d].count || rule->factors.items[list->items[0]].kind != SPMD_PERMUTE) continue;
        if (spmd_has_whole(partitioner, operand, d, &sharding->dims[d])) continue;
        int64_t shards = spmd_axes_product(partitioner->mesh, &sharding->dims[d]);
        int64_t size = spmd_shard_size(rule->tensors[result].shape->dims[d], shards);
        const SpmdInterval interval = interval_of(partitioner->mesh, rule->op, d, &sharding->dims[d], size);
        bytes =
            spmd_add_bytes(bytes, spmd_window_bytes(partitioner, rule->tensors[operand].shape, sharding, d, interval));
    }
    return bytes;
}

// A sharded factor that the op sums over leaves each device with a part of the sum: the result is partial over those
// axes until an all-reduce or a reduce-scatter.
SpmdAtomSet spmd_partial_axes(const SpmdRule *rule, const SpmdAxes *factors) {
    SpmdAtomSet partial = 0;
    for (int64_t f = 0; f < rule->factors.count; f++) {
        if (rule->factors.items[f].kind == SPMD_REDUCE) partial |= spmd_axes_set(&factors[f]);
    }
    return partial;
}

// Partial sums stay partial only where the op is linear and its users take sums (spmd_passed_sums),
// or where it merely passes or negates elements and spmd_define() of the operand has left the sum
// for this user to finish.
SpmdLocal spmd_factor_operand(SpmdPartitioner *partitioner, const SpmdRule *rule, const SpmdAxes *factors,
                              int32_t operand) {
    assert(operand >= 0 && operand < rule->op->operand_count);
    SpmdAtomSet manual = spmd_manual_axes(partitioner, rule->op);
    SpmdSharding *wanted = spmd_rule_sharding(rule, partitioner->arena, partitioner->mesh, operand, factors, manual);
    SpmdReason reason = {.op = rule->op, .what = spmd_operand_name(partitioner, operand)};
    SpmdLocal local = spmd_operand(partitioner, operand);
    if (local.waits) return local;
    SpmdAtomSet sums = spmd_passed_sums(partitioner, rule->op) & ~spmd_factor_atoms(rule, factors);
    if (sums) return spmd_reshard(partitioner, local, wanted, sums, reason);
    // Ops that only pass elements on keep partial results partial: the plan looked at that when it left them so.
    bool passes = rule->operand_count == 1 && rule->result_count == 1 && local.hlo &&
                  !(spmd_sharding_used(wanted) & local.partial);
    passes = passes && spmd_keeps_partial(rule->op->opcode, local.reduction);
    return spmd_reshard(partitioner, local, wanted, passes ? local.partial : 0, reason);
}

// The last shard of an unevenly sharded dimension is padded with undefined values. A reduction would include them, so
// they are set to a value that does not change its result. `value` is a scalar of the operand's type: the identity of
// the reduction, or an init value in its place. Dimensions of several factors are exact and have no padding.
HloInstruction *spmd_mask_reduced(SpmdPartitioner *partitioner, const SpmdRule *rule, const SpmdAxes *factors,
                                  int32_t operand, HloInstruction *hlo, HloInstruction *value) {
    const SpmdTensor *tensor = &rule->tensors[operand];
    for (int32_t d = 0; d < tensor->shape->rank; d++) {
        if (tensor->dims[d].count != 1) continue;
        int32_t factor = tensor->dims[d].items[0];
        if (rule->factors.items[factor].kind != SPMD_REDUCE) continue;
        hlo = spmd_emit_mask(partitioner, hlo, d, &factors[factor], tensor->shape->dims[d], value);
    }
    return hlo;
}

// The local shape of the result: a tuple of shards where the op has several results.
static const HloShape *local_result(SpmdPartitioner *partitioner, const SpmdRule *rule, SpmdSharding **shardings) {
    HloArena *arena = partitioner->module->arena;
    const HloShape **shapes = HLO_ARENA_NEW(arena, const HloShape *, rule->result_count);
    for (int32_t i = 0; i < rule->result_count; i++) {
        shapes[i] =
            spmd_local_shape(arena, partitioner->mesh, rule->tensors[rule->operand_count + i].shape, shardings[i]);
    }
    if (!hlo_shape_is_tuple(rule->op->shape)) return shapes[0];
    return hlo_shape_tuple(arena, shapes, rule->result_count);
}

// `operands` are local and in the forms of spmd_factor_operand(). Attributes that name sizes (slice
// sizes, groups) are changed to local ones by the row's `adjust`.
HloStatus spmd_emit_by_factors(SpmdPartitioner *partitioner, const SpmdRule *rule, const SpmdAxes *factors,
                               HloInstruction *const *operands) {
    assert(rule && factors && operands);
    const HloInstruction *op = rule->op;
    SpmdAtomSet manual = spmd_manual_axes(partitioner, op), partial = spmd_partial_axes(rule, factors);
    SpmdSharding **shardings = HLO_ARENA_NEW(partitioner->arena, SpmdSharding *, rule->result_count);
    for (int32_t i = 0; i < rule->result_count; i++) {
        shardings[i] =
            spmd_rule_sharding(rule, partitioner->arena, partitioner->mesh, rule->operand_count + i, factors, manual);
    }
    SpmdAtomSet sums = spmd_passed_sums(partitioner, op) & ~spmd_factor_atoms(rule, factors);
    partial |= sums;
    const HloShape *shape = local_result(partitioner, rule, shardings);
    const int32_t waiting = spmd_waiting_operand(partitioner, op);
    if (waiting >= 0) operands = spmd_mask_factors(partitioner, op, waiting, operands);
    HloInstruction *made = spmd_clone(partitioner, op, shape, operands, op->operand_count);
    const SpmdOp *row = spmd_op(op->opcode);
    if (row->adjust) {
        const HloShape **locals = HLO_ARENA_NEW(partitioner->arena, const HloShape *, op->operand_count);
        for (int32_t i = 0; i < op->operand_count; i++) locals[i] = operands[i]->shape;
        void *attributes =
            hlo_attributes_copy(partitioner->module->arena, hlo_op_info(op->opcode)->family, op->attributes);
        row->adjust(rule, partitioner->module->arena, attributes, locals, made->shape);
        hlo_instruction_set_attributes(made, attributes);
    }
    if (waiting >= 0) {
        sums = spmd_operand(partitioner, waiting).partial;
        partial |= sums;
        made = spmd_keep_zeros(partitioner, op, waiting, made);
    }
    HloInstruction **leaves = HLO_ARENA_NEW(partitioner->arena, HloInstruction *, rule->result_count);
    spmd_emit_leaves(partitioner, made, leaves);
    for (int32_t i = 0; i < rule->result_count; i++) {
        HloOpcode reduction = sums ? HLO_OP_ADD : rule->reduction;
        if (!sums && rule->operand_count == 1 && spmd_operand(partitioner, 0).hlo) {
            SpmdLocal local = spmd_factor_operand(partitioner, rule, factors, 0);
            partial |= local.partial;
            if (local.partial) reduction = local.reduction;
        }
        spmd_define(partitioner, i, leaves[i], shardings[i], partial, reduction);
    }
    return HLO_SUCCESS;
}

// What most ops need: choose factors, bring the operands there, make the same op on shards.
HloStatus spmd_partition_default(SpmdPartitioner *partitioner, const HloInstruction *op) {
    const SpmdRule *rule = partitioner->plan->rules[op->id];
    HLO_FAIL_IF(!rule, HLO_UNIMPLEMENTED, "%s of this form cannot be partitioned", hlo_op_text(op->opcode));
    SpmdAxes *factors = spmd_choose(partitioner, rule, false);
    HloInstruction **operands = HLO_ARENA_NEW(partitioner->arena, HloInstruction *, op->operand_count);
    for (int32_t i = 0; i < op->operand_count; i++) {
        operands[i] = spmd_factor_operand(partitioner, rule, factors, i).hlo;
        if (rule->reduction == HLO_OPCODE_COUNT) continue;
        HloInstruction *identity = NULL;
        if (spmd_partial_axes(rule, factors)) {
            identity = spmd_emit_identity(partitioner, rule->reduction, operands[i]->shape->type);
        }
        operands[i] = identity ? spmd_mask_reduced(partitioner, rule, factors, i, operands[i], identity) : operands[i];
    }
    return spmd_emit_by_factors(partitioner, rule, factors, operands);
}
