// SPDX-License-Identifier: Apache-2.0
// With A, B and D bytes in the whole operands and result, and g devices along the axes:
//     sum over them          2 D (g-1)/g            all-reduce
//     batch dimension        (A + B) (g-1)/g^2      two all-to-alls
//     free dimension of A    A (g-1)/g^2 + B (g-1)/g    an all-to-all and an all-gather
// The last two leave the result sharded. What this saves or costs further down the program is added
// (spmd_consequences()). Scores of attention whose heads are sharded inside are the common case: they are larger than
// queries and keys, and everything up to the next product is local along the heads.
//
// Only results that nothing else shards by these axes are looked at, after propagation has ended. Where a result must
// be whole, or have the axes elsewhere, choose.c prices the same exchange product by product.
#include "spmd_partitioner/contraction.h"

#include <assert.h>
#include <math.h>

#include "spmd_partitioner/rules/sort.h"

bool spmd_is_product(const HloInstruction *op) {
    return hlo_is(op, HLO_OP_DOT) || hlo_is(op, HLO_OP_CONVOLUTION);
}

double spmd_local_points(const SpmdRule *rule, const SpmdMesh *mesh, const SpmdAxes *factors) {
    if (!spmd_is_product(rule->op)) return 0;
    double points = 1;
    for (int64_t f = 0; f < rule->factors.count; f++)
        points *= (double)spmd_shard_size(rule->factors.items[f].size, spmd_axes_product(mesh, &factors[f]));
    return points;
}

// The share of an all-reduce's bytes that an exchange may send at most: where the result goes from there is an
// estimate.
static const double WORTHWHILE = 2.0 / 3;

// Ops between a sum and where it is added that are followed, at most.
enum { CHAIN = 8 };
// Uses of a result that are followed to the end of the program, at most.
enum { MOST_USES = 64 };

// The element of the loop's tuple that `at` is, or with which the sum `at` begins, if nothing else reads either; NULL
// for others.
static const HloInstruction *carried_begin(const HloInstruction *at, const HloInstruction *carry) {
    for (int32_t i = 0; i < CHAIN && at->users.count == 1; i++) {
        if (hlo_is(at, HLO_OP_GET_TUPLE_ELEMENT)) return at->operands[0] == carry ? at : NULL;
        if (!hlo_is(at, HLO_OP_ADD)) return NULL;
        at = at->operands[0];
    }
    return NULL;
}

// Whether `at`, with what is still added to it, becomes element `index` of the loop's tuple and is used for nothing
// else.
static bool is_carried_on(const HloInstruction *at, int64_t index) {
    const HloInstruction *root = at->parent->root;
    for (int32_t i = 0; i < CHAIN && at->users.count == 1; i++) {
        const HloInstruction *user = at->users.items[0];
        if (user == root) return hlo_is(root, HLO_OP_TUPLE) && root->operands[index] == at;
        if (!hlo_is(user, HLO_OP_ADD) || user->operands[0] == user->operands[1]) return false;
        at = user;
    }
    return false;
}

bool spmd_keeps_sum(const HloInstruction *convert) {
    const HloType from = convert->operands[0]->shape->type, to = convert->shape->type;
    return hlo_is(convert, HLO_OP_CONVERT) && hlo_type_is_float(from) && (to == HLO_F32 || to == HLO_F64) &&
           hlo_type_bytes(from) < hlo_type_bytes(to);
}

bool spmd_sum_waits(const HloInstruction *op) {
    const HloComputation *body = op->parent;
    if (body->callers.count != 1 || !hlo_is(body->callers.items[0], HLO_OP_WHILE)) return false;
    const HloInstruction *carry = body->parameters.items[0];
    for (int32_t i = 0; i < CHAIN && op->users.count == 1; i++) {
        const HloInstruction *user = op->users.items[0];
        switch (user->opcode) {
            case HLO_OP_ADD: {
                const HloInstruction *begin = carried_begin(user->operands[user->operands[0] == op], carry);
                if (begin) return is_carried_on(user, HLO_ATTRIBUTES(begin, TupleIndex)->index);
                break;
            }
            case HLO_OP_CONVERT:
                if (!spmd_keeps_sum(user)) return false;
                break;
            case HLO_OP_RESHAPE:
            case HLO_OP_TRANSPOSE:
            case HLO_OP_COPY:
            case HLO_OP_NEGATE:
            case HLO_OP_MULTIPLY: break;
            default: return false;
        }
        op = user;
    }
    return false;
}

SpmdAxes spmd_contracted_axes(const SpmdConsequences *consequences, const SpmdNode *node) {
    const SpmdRule *rule = node->rule;
    for (int32_t f = 0; f < (int32_t)rule->factors.count; f++) {
        if (rule->factors.items[f].kind != SPMD_REDUCE) continue;
        const SpmdAxes *axes[2] = {NULL, NULL};
        for (int32_t t = 0; t < 2; t++) {
            const SpmdArray *array = spmd_node_array(consequences, node, t);
            const int32_t dim = spmd_dim_of_factor(&rule->tensors[t], f);
            if (array && dim >= 0) axes[t] = &array->sharding->dims[dim];
        }
        if (axes[0] && axes[1] && axes[0]->count && spmd_axes_equal(axes[0], axes[1])) return *axes[0];
    }
    return (SpmdAxes){0};
}

// What the devices send so that `factor` of a product gets the axes in place of the summed one.
static double exchange(SpmdConsequences *consequences, const SpmdNode *node, int32_t factor, const SpmdAxes *axes) {
    const double shards = (double)spmd_axes_product(consequences->plan->mesh, axes);
    SpmdCosts *costs = consequences->plan->costs;
    const SpmdAtomSet atoms = spmd_axes_set(axes);
    double sent = 0;
    for (int32_t t = 0; t < 2; t++) {
        const double bytes = spmd_part_bytes(consequences, spmd_node_array(consequences, node, t), atoms);
        const bool has = spmd_dim_of_factor(&node->rule->tensors[t], factor) >= 0;
        const double moved = spmd_transfer_price(costs, has ? SPMD_TRANSFER_EXCHANGE : SPMD_TRANSFER_GATHER, atoms,
                                                 (has ? bytes / shards : bytes) * (1 - 1 / shards)) +
                             (costs->machine ? 0 : SPMD_MESSAGE_BYTES);
        sent += spmd_operand_moves(consequences, node->rule->op, t) * moved;
    }
    return sent;
}

// The axes of dimension `dim` of an array with `axes` after them.
static SpmdAxes with_axes(const SpmdArray *array, int32_t dim, const SpmdAxes *axes) {
    SpmdAxes all = array->sharding->dims[dim];
    spmd_axes_append(&all, axes);
    return all;
}

// Whether dimension `dim` of a product's result may have the axes too.
static bool may_have(const SpmdConsequences *consequences, const SpmdNode *node, int32_t dim, const SpmdAxes *axes) {
    const SpmdRule *rule = node->rule;
    const int32_t result = spmd_rule_result(rule, 0);
    const SpmdArray *made = spmd_node_array(consequences, node, result);
    const SpmdDimFactors *factors = &rule->tensors[result].dims[dim];
    if (factors->count != 1 || rule->factors.items[factors->items[0]].kind != SPMD_PASS) return false;
    const SpmdAxes all = with_axes(made, dim, axes);
    return spmd_array_accepts(made, dim, spmd_axes_set(axes), spmd_axes_product(consequences->plan->mesh, &all));
}

// `*budget` bounds how many uses are followed; beyond it the answer is no.
static bool follow(const HloInstruction *at, int32_t *budget) {
    if ((*budget)-- <= 0) return false;
    if (hlo_instruction_is_root(at)) return true;
    for (int64_t i = 0; i < at->users.count; i++) {
        const HloInstruction *user = at->users.items[i];
        const bool passes =
            hlo_op_is(user->opcode, HLO_OP_IS_REARRANGES | HLO_OP_IS_ELEMENTWISE) || hlo_is(user, HLO_OP_TUPLE);
        if (!passes || !follow(user, budget)) return false;
    }
    return true;
}

bool spmd_only_leaves(const HloInstruction *op) {
    int32_t budget = MOST_USES;
    return follow(op, &budget);
}

// The axes that a product sums over, where it is one that may be changed; none otherwise.
static SpmdAxes axes_in_question(const SpmdConsequences *consequences, const SpmdNode *node) {
    const SpmdRule *rule = node->rule;
    if (!rule || !spmd_is_product(rule->op) || node->directions != SPMD_BOTH_WAYS) return (SpmdAxes){0};
    const SpmdArray *made = spmd_node_array(consequences, node, spmd_rule_result(rule, 0));
    const SpmdAxes axes = spmd_contracted_axes(consequences, node);
    const bool elsewhere = made && (spmd_sharding_used(made->sharding) & spmd_axes_set(&axes));
    const bool changes = made && !made->annotated && !elsewhere && axes.count;
    return !changes || spmd_sum_waits(rule->op) || spmd_only_leaves(rule->op) ? (SpmdAxes){0} : axes;
}

// What the exchange of a contraction is compared with, and the best one so far.
typedef struct Choice {
    const SpmdNode *node;
    int32_t number;
    SpmdAxes axes;  // of the summed dimension
    double once;    // what it costs to gather the result
    double most;    // what may be sent
    double best;    // what is sent, less what it is worth
    SpmdUncontracted *found;
} Choice;

// One dimension of the result for all axes.
static void try_dim(SpmdConsequences *consequences, Choice *choice, int32_t d) {
    const SpmdRule *rule = choice->node->rule;
    const int32_t result = spmd_rule_result(rule, 0);
    const SpmdArray *made = spmd_node_array(consequences, choice->node, result);
    if (!may_have(consequences, choice->node, d, &choice->axes)) return;
    const double sent = exchange(consequences, choice->node, rule->tensors[result].dims[d].items[0], &choice->axes);
    if (sent >= choice->most) return;
    const double worth =
        spmd_consequences(consequences, choice->number, choice->node->arrays[result], d, &choice->axes);
    // Where sharding the result costs as much as gathering it, the product alone decides.
    if (worth < -choice->once || sent - worth > choice->best) return;
    SpmdUncontracted *found = choice->found;
    const bool unused = found->count && made->sharding->dims[found->dims[0]].count && !made->sharding->dims[d].count;
    if (sent - worth == choice->best && !unused) return;
    choice->best = sent - worth;
    *found = (SpmdUncontracted){1, {d}, {with_axes(made, d, &choice->axes)}};
}

// Whether dimension `d` of the result is one of both operands, and may have the axes in equal parts.
static bool is_batch_for(const SpmdConsequences *consequences, const SpmdNode *node, int32_t d, const SpmdAxes *axes) {
    const SpmdRule *rule = node->rule;
    const int32_t result = spmd_rule_result(rule, 0);
    const SpmdArray *made = spmd_node_array(consequences, node, result);
    if (!may_have(consequences, node, d, axes)) return false;
    const int32_t factor = spmd_only_factor(&rule->tensors[result], d);
    const SpmdAxes all = with_axes(made, d, axes);
    return spmd_dim_of_factor(&rule->tensors[0], factor) >= 0 && spmd_dim_of_factor(&rule->tensors[1], factor) >= 0 &&
           made->shape->dims[d] % spmd_axes_product(consequences->plan->mesh, &all) == 0;
}

// Batch dimension `first` for the first `count` of the axes, and another one for the others: batches and groups of
// heads may hold together what neither holds alone. The worth of each is counted for itself, and the greater one taken:
// they divide the same work.
static void try_pairs(SpmdConsequences *consequences, Choice *choice, int32_t first, int32_t count) {
    const SpmdNode *node = choice->node;
    const int32_t result = spmd_rule_result(node->rule, 0);
    const SpmdArray *made = spmd_node_array(consequences, node, result);
    const SpmdAxes head = spmd_axes_head(&choice->axes, count), tail = spmd_axes_tail(&choice->axes, count);
    if (!is_batch_for(consequences, node, first, &head)) return;
    const double sent =
        exchange(consequences, node, spmd_only_factor(&node->rule->tensors[result], first), &choice->axes);
    if (sent >= choice->most) return;
    for (int32_t d = 0; d < made->sharding->rank; d++) {
        if (d == first || !is_batch_for(consequences, node, d, &tail)) continue;
        const int32_t array = node->arrays[result];
        const double worth = fmax(spmd_consequences(consequences, choice->number, array, first, &head),
                                  spmd_consequences(consequences, choice->number, array, d, &tail));
        if (worth < -choice->once || sent - worth >= choice->best) continue;
        choice->best = sent - worth;
        *choice->found = (SpmdUncontracted){2, {first, d}, {with_axes(made, first, &head), with_axes(made, d, &tail)}};
    }
}

SpmdUncontracted spmd_uncontracted_dims(SpmdConsequences *consequences, int32_t number) {
    const SpmdNode *node = &consequences->plan->nodes.items[number];
    const SpmdRule *rule = node->rule;
    SpmdUncontracted found = {0};
    const SpmdAxes axes = axes_in_question(consequences, node);
    if (!axes.count) return found;
    const SpmdArray *made = spmd_node_array(consequences, node, spmd_rule_result(rule, 0));
    const double share = 1 - 1 / (double)spmd_axes_product(consequences->plan->mesh, &axes);
    const SpmdAtomSet atoms = spmd_axes_set(&axes);
    const double part = spmd_part_bytes(consequences, made, atoms) * share;
    const double runs = spmd_runs(consequences, rule->op->parent);
    SpmdCosts *costs = consequences->plan->costs;
    Choice choice = {.node = node, .number = number, .axes = axes, .found = &found};
    choice.once = runs * spmd_transfer_price(costs, SPMD_TRANSFER_GATHER, atoms, part);
    choice.most = runs * spmd_transfer_price(costs, SPMD_TRANSFER_REDUCE, atoms, 2 * part) * WORTHWHILE;
    choice.best = choice.most;
    for (int32_t d = 0; d < made->sharding->rank; d++) try_dim(consequences, &choice, d);
    for (int32_t count = axes.count - 1; count > 0; count--)
        for (int32_t d = 0; d < made->sharding->rank; d++) try_pairs(consequences, &choice, d, count);
    return found;
}

// The axes of operand 0 along dimensions that the op needs whole, where it is one whose result may have them elsewhere;
// none otherwise. Ops with a partition function know other ways, except sorts of which all is used.
static SpmdAxes axes_to_set_aside(const SpmdConsequences *consequences, const SpmdNode *node) {
    const SpmdRule *rule = node->rule;
    SpmdAxes axes = {0};
    if (!rule || (spmd_op(rule->op->opcode)->partition && !spmd_sorts_all(rule->op)) ||
        node->directions != SPMD_BOTH_WAYS || !rule->operand_count || !rule->result_count)
        return axes;
    const SpmdArray *operand = spmd_node_array(consequences, node, 0);
    const SpmdArray *made = spmd_node_array(consequences, node, spmd_rule_result(rule, 0));
    if (!operand || !made || made->annotated) return axes;
    for (int32_t d = 0; d < operand->sharding->rank; d++) {
        const SpmdDimFactors *factors = &rule->tensors[0].dims[d];
        const SpmdFactor *factor = factors->count ? &rule->factors.items[factors->items[0]] : NULL;
        const bool whole =
            !factor || factor->kind == SPMD_REPLICATE || (factor->kind == SPMD_PERMUTE && factor->blocked);
        if (whole) spmd_axes_append(&axes, &operand->sharding->dims[d]);
    }
    return spmd_sharding_used(made->sharding) & spmd_axes_set(&axes) ? (SpmdAxes){0} : axes;
}

// Which dimension of the result of a transform gets the axes of dimension `from` of the operand: the one that sends
// least, with what follows from it; -1 where gathering sends less.
static int32_t best_exchange(SpmdConsequences *consequences, int32_t number, int32_t from, SpmdAxes *wanted) {
    const SpmdNode *node = &consequences->plan->nodes.items[number];
    const SpmdMesh *mesh = consequences->plan->mesh;
    const int32_t result = spmd_rule_result(node->rule, 0);
    const SpmdArray *operand = spmd_node_array(consequences, node, 0),
                    *made = spmd_node_array(consequences, node, result);
    const SpmdAxes *axes = &operand->sharding->dims[from];
    const SpmdAtomSet atoms = spmd_axes_set(axes);
    const double shards = (double)spmd_axes_product(mesh, axes), runs = spmd_runs(consequences, node->rule->op->parent);
    const double bytes = spmd_part_bytes(consequences, operand, atoms) * (1 - 1 / shards);
    SpmdCosts *costs = consequences->plan->costs;
    const double gathered = spmd_transfer_price(costs, SPMD_TRANSFER_GATHER, atoms, bytes);
    const double exchanged = spmd_transfer_price(costs, SPMD_TRANSFER_EXCHANGE, atoms, bytes / shards);
    double best = 0;
    int32_t best_dim = -1;
    for (int32_t d = 0; d < made->sharding->rank; d++) {
        const SpmdAxes all = with_axes(made, d, axes);
        const int32_t times = spmd_op(node->rule->op->opcode)->exchanges(mesh, node->rule, operand->sharding, from, d);
        const int64_t parts = spmd_axes_product(mesh, &all);
        if (!times || !spmd_array_accepts(made, d, atoms, parts)) continue;
        if (d != from && made->shape->dims[d] % parts) continue;
        const double worth = runs * (gathered - times * exchanged) +
                             spmd_consequences(consequences, number, node->arrays[result], d, axes);
        if (worth <= best) continue;
        best = worth;
        best_dim = d;
        *wanted = all;
    }
    return best_dim;
}

// The same for each dimension of the operand that has axes which the result does not have yet.
static int32_t set_aside_by_exchanges(SpmdConsequences *consequences, int32_t number, SpmdAxes *wanted) {
    const SpmdNode *node = &consequences->plan->nodes.items[number];
    const SpmdArray *operand = spmd_node_array(consequences, node, 0);
    const SpmdArray *made = spmd_node_array(consequences, node, spmd_rule_result(node->rule, 0));
    if (!operand || !made || made->annotated || node->directions != SPMD_BOTH_WAYS) return -1;
    for (int32_t d = 0; d < operand->sharding->rank; d++) {
        const SpmdAxes *axes = &operand->sharding->dims[d];
        if (!axes->count || node->rule->tensors[0].dims[d].count) continue;
        if (spmd_sharding_used(made->sharding) & spmd_axes_set(axes)) continue;
        const int32_t best = best_exchange(consequences, number, d, wanted);
        if (best >= 0) return best;
    }
    return -1;
}

// How much larger a dimension is with the padding that makes `parts` equal parts of it.
static double padded_share(int64_t size, int64_t parts) {
    return (double)spmd_shard_size(size, parts) * (double)parts / (double)size;
}

int32_t spmd_set_aside_dim(SpmdConsequences *consequences, int32_t number, SpmdAxes *wanted) {
    const SpmdNode *node = &consequences->plan->nodes.items[number];
    if (node->rule && spmd_op(node->rule->op->opcode)->exchanges)
        return set_aside_by_exchanges(consequences, number, wanted);
    const SpmdAxes axes = axes_to_set_aside(consequences, node);
    if (!axes.count) return -1;
    const SpmdMesh *mesh = consequences->plan->mesh;
    const int32_t result = spmd_rule_result(node->rule, 0);
    const SpmdArray *made = spmd_node_array(consequences, node, result);
    const SpmdAtomSet atoms = spmd_axes_set(&axes);
    const double shards = (double)spmd_axes_product(mesh, &axes), share = 1 - 1 / shards;
    const double bytes = spmd_part_bytes(consequences, spmd_node_array(consequences, node, 0), atoms) * share;
    double padded = 0;
    int32_t best = -1;
    for (int32_t d = 0; d < made->sharding->rank; d++) {
        const SpmdAxes all = with_axes(made, d, &axes);
        if (!may_have(consequences, node, d, &axes)) continue;
        if (spmd_dim_of_factor(&node->rule->tensors[0], node->rule->tensors[result].dims[d].items[0]) < 0) continue;
        const double more = padded_share(made->shape->dims[d], spmd_axes_product(mesh, &all));
        if (best >= 0 && (more > padded || (more == padded && made->shape->dims[d] <= made->shape->dims[best])))
            continue;
        best = d;
        padded = more;
    }
    if (best < 0) return -1;
    *wanted = with_axes(made, best, &axes);
    SpmdCosts *costs = consequences->plan->costs;
    const double saved = spmd_transfer_price(costs, SPMD_TRANSFER_GATHER, atoms, bytes) -
                         spmd_transfer_price(costs, SPMD_TRANSFER_EXCHANGE, atoms, bytes * padded / shards);
    const double runs = spmd_runs(consequences, node->rule->op->parent);
    return runs * saved + spmd_consequences(consequences, number, node->arrays[result], best, &axes) > 0 ? best : -1;
}
