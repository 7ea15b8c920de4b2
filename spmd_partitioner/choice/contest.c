// SPDX-License-Identifier: Apache-2.0
// A breadth-first search over (array, dimension) pairs, from the contested array on. It goes forwards, wherever
// propagation would carry the axes, and counts at each op
//     the work, which the axes divide                                a gain
//     an operand without the dimension that has the axes elsewhere   gathered
//     a result without the dimension, of an op that sums over it     all-reduced
//     an operand that is looked up along the dimension               gathered, or looked up in shards and all-reduced
//     an array that has the axes on another dimension                exchanged (all-to-all)
// as often as the computation runs. Where the op would send more than it costs to exchange the array for a
// dimension that another operand or the result has the axes on, that is what is counted, and the axes go no further.
// For the lookup in a table whose columns are sharded by `data`, with `data` on the batch too:
//     batch     divides every product of the network; the weights that are sharded by `data` are gathered
//     columns   ends at the first product, which sums over them
//
// Only forwards: an array that two dimensions contest is often joined to the whole program backwards (by the gradients
// of a bias, for example), and to places that the other dimension has shares in as well. The search looks at no more
// than NODE_LIMIT nodes, nearest first.
#include "spmd_partitioner/contest.h"

#include <assert.h>

#include "hlo/analysis/loop.h"
#include "spmd_partitioner/contraction.h"

enum { NODE_LIMIT = 4096 };

// A dimension of an array.
typedef struct Place {
    int32_t array, dim;
} Place;

typedef struct Search {
    SpmdConsequences *consequences;
    const SpmdAxes *axes;
    SpmdAtomSet atoms;
    int64_t shards;
    int32_t origin, nodes;
    HloIntMap places, factors;  // that were visited
    HLO_VECTOR(Place) queue;
    double worth;
} Search;

double spmd_runs(SpmdConsequences *consequences, const HloComputation *computation) {
    return hlo_computation_runs(computation, consequences->iterations);
}

double spmd_part_bytes(const SpmdConsequences *consequences, const SpmdArray *array, SpmdAtomSet atoms) {
    const SpmdAtomSet others = spmd_sharding_used(array->sharding) & ~atoms;
    return (double)hlo_shape_bytes(array->shape) / (double)spmd_atoms_product(consequences->plan->mesh, others);
}

// Bytes of a device's part of an array, were it not for the axes in question.
static double bytes_beside(const Search *search, const SpmdArray *array) {
    return spmd_part_bytes(search->consequences, array, search->atoms);
}

// The share of an array that the ring algorithm sends to gather or to scatter it.
static double share(const Search *search) {
    return 1 - 1 / (double)search->shards;
}

bool spmd_array_accepts(const SpmdArray *array, int32_t dim, SpmdAtomSet atoms, int64_t shards) {
    const SpmdAtomSet taken =
        array->replicated | array->sharding->manual | array->sharding->unreduced | spmd_sharding_used(array->sharding);
    return array->open[dim] && !(array->shape->dynamic && array->shape->dynamic[dim]) && !(taken & atoms) &&
           array->shape->dims[dim] >= shards;
}

// What it costs that a device sends `bytes` along the axes.
static double price(const Search *search, SpmdTransferKind kind, double bytes) {
    return spmd_transfer_price(search->consequences->plan->costs, kind, search->atoms, bytes);
}

// Goes on at a dimension to which the axes come. Where they cannot stay the array is gathered or exchanged.
static void reach(Search *search, Place place, double iterations) {
    SpmdPlan *plan = search->consequences->plan;
    const SpmdArray *array = &plan->arrays.items[place.array];
    const SpmdAxes *have = &array->sharding->dims[place.dim];
    if (spmd_axes_is_prefix(search->axes, have)) return;
    if (!spmd_array_accepts(array, place.dim, search->atoms, search->shards)) {
        const bool elsewhere = (spmd_sharding_used(array->sharding) & search->atoms) != 0;
        const double sent = bytes_beside(search, array) * share(search);
        search->worth -= iterations * (elsewhere ? price(search, SPMD_TRANSFER_EXCHANGE, sent / (double)search->shards)
                                                 : price(search, SPMD_TRANSFER_GATHER, sent));
        return;
    }
    const uint64_t key = ((uint64_t)(uint32_t)place.array << 8 | (uint64_t)(uint32_t)place.dim) + 1;
    if (hlo_int_map_find(&search->places, key)) return;
    hlo_int_map_set(search->consequences->scratch, &search->places, key, 1);
    hlo_vector_push(search->consequences->scratch, &search->queue, place);
}

// The dimension of a tensor whose major factor is `factor`; -1 if it has none.
static int32_t dim_of_factor(const SpmdTensor *tensor, int32_t factor) {
    for (int32_t d = 0; d < tensor->shape->rank; d++) {
        if (tensor->dims[d].count && tensor->dims[d].items[0] == factor) return d;
    }
    return -1;
}

// How often an op reads or writes a tensor. Of an array of which it takes or changes a slice it only touches that.
static double touches(const SpmdRule *rule, int32_t tensor) {
    switch (rule->op->opcode) {
        case HLO_OP_GATHER:
        case HLO_OP_DYNAMIC_SLICE: return tensor == 0 ? 0 : tensor == spmd_rule_result(rule, 0) ? 2 : 1;
        case HLO_OP_DYNAMIC_UPDATE_SLICE: return tensor == 1 ? 2 : 0;
        default: return 1;
    }
}

// The local work of an op as bytes on a link: what it reads and writes, and the points of a product. Broadcasts are
// part of what reads them.
static double work_of(const Search *search, const SpmdNode *node) {
    const SpmdRule *rule = node->rule;
    if (hlo_is(rule->op, HLO_OP_BROADCAST)) return 0;
    SpmdAtomSet others = 0;
    double bytes = 0, points = 1;
    for (int32_t t = 0; t < node->count; t++) {
        if (node->arrays[t] < 0) continue;
        const SpmdArray *array = &search->consequences->plan->arrays.items[node->arrays[t]];
        others |= spmd_sharding_used(array->sharding) & ~search->atoms;
        bytes += touches(rule, t) * bytes_beside(search, array);
    }
    const SpmdCosts *costs = search->consequences->plan->costs;
    if (!spmd_is_product(rule->op)) return spmd_work_price(costs, bytes, 0);
    for (int64_t f = 0; f < rule->factors.count; f++) points *= (double)rule->factors.items[f].size;
    points /= (double)spmd_atoms_product(search->consequences->plan->mesh, others);
    return spmd_work_price(costs, bytes, points);
}

const HloInstruction *spmd_loop_around(const HloInstruction *op, int32_t operand) {
    const HloComputation *body = op->parent;
    const HloInstruction *element = op->operands[operand];
    if (body->callers.count != 1 || !hlo_is(body->callers.items[0], HLO_OP_WHILE)) return NULL;
    const HloInstruction *loop = body->callers.items[0];
    const bool invariant = loop->called[1] == body && hlo_is(element, HLO_OP_GET_TUPLE_ELEMENT) &&
                           element->operands[0] == body->parameters.items[0] &&
                           hlo_loop_element_is_invariant(loop, HLO_ATTRIBUTES(element, TupleIndex)->index);
    return invariant ? loop : NULL;
}

double spmd_operand_moves(SpmdConsequences *consequences, const HloInstruction *op, int32_t operand) {
    const HloInstruction *loop = spmd_loop_around(op, operand);
    return spmd_runs(consequences, loop ? loop->parent : op->parent);
}

// What it costs to gather operands of a node over the axes: those that have the factor, or those that do not and have
// the axes elsewhere.
static double gathered_at(const Search *search, const SpmdNode *node, int32_t factor, bool having) {
    const SpmdRule *rule = node->rule;
    double sent = 0;
    for (int32_t t = 0; t < rule->operand_count; t++) {
        if (node->arrays[t] < 0) continue;
        const SpmdArray *array = &search->consequences->plan->arrays.items[node->arrays[t]];
        const bool has = dim_of_factor(&rule->tensors[t], factor) >= 0;
        const bool elsewhere = (spmd_sharding_used(array->sharding) & search->atoms) != 0;
        if (has != having || (!has && !elsewhere)) continue;
        sent += price(search, SPMD_TRANSFER_GATHER, bytes_beside(search, array) * share(search)) *
                spmd_operand_moves(search->consequences, rule->op, t);
    }
    return sent;
}

// What it costs to finish the sums that a node leaves if a summed factor gets the axes: in parts where the result has
// the axes elsewhere.
static double summed_at(const Search *search, const SpmdNode *node, int32_t factor) {
    const SpmdRule *rule = node->rule;
    double sent = 0;
    for (int32_t t = rule->operand_count; t < node->count; t++) {
        if (node->arrays[t] < 0 || dim_of_factor(&rule->tensors[t], factor) >= 0) continue;
        const SpmdArray *array = &search->consequences->plan->arrays.items[node->arrays[t]];
        const bool elsewhere = (spmd_sharding_used(array->sharding) & search->atoms) != 0;
        const double bytes = bytes_beside(search, array) * share(search);
        sent +=
            elsewhere ? price(search, SPMD_TRANSFER_SCATTER, bytes) : price(search, SPMD_TRANSFER_REDUCE, 2 * bytes);
    }
    return sent * spmd_runs(search->consequences, rule->op->parent);
}

// What the devices send at a node if a factor gets the axes there, arrays that have its dimension aside. What is looked
// up along a dimension (a blocked sum) is gathered, or looked up in each shard and added up.
static double sent_at(const Search *search, const SpmdNode *node, int32_t factor) {
    const SpmdFactor *kind = &node->rule->factors.items[factor];
    const bool stops = kind->kind == SPMD_REPLICATE || kind->blocked, sums = kind->kind == SPMD_REDUCE;
    const double looked_up = gathered_at(search, node, factor, false) + (sums ? summed_at(search, node, factor) : 0);
    if (!stops) return looked_up;
    const double gathered = gathered_at(search, node, factor, true);
    return sums && looked_up < gathered ? looked_up : gathered;
}

// Whether another tensor of a node has the axes on a dimension that tensor `from` has too, and that the op does not sum
// over: the array can then be exchanged for that dimension.
static bool has_rival(const Search *search, const SpmdNode *node, int32_t factor, int32_t from) {
    const SpmdRule *rule = node->rule;
    for (int32_t t = 0; t < node->count; t++) {
        if (t == from || node->arrays[t] < 0) continue;
        const SpmdSharding *sharding = search->consequences->plan->arrays.items[node->arrays[t]].sharding;
        for (int32_t d = 0; d < sharding->rank; d++) {
            const SpmdDimFactors *factors = &rule->tensors[t].dims[d];
            if (!(spmd_axes_set(&sharding->dims[d]) & search->atoms) || !factors->count) continue;
            const int32_t rival = factors->items[0];
            if (rival != factor && rule->factors.items[rival].kind == SPMD_PASS &&
                dim_of_factor(&rule->tensors[from], rival) >= 0)
                return true;
        }
    }
    return false;
}

// One factor of one node gets the axes from tensor `from`: follows it to all results that have it. Where that sends
// more than an exchange of the array for another dimension (all-to-all) the axes go no further.
static void visit_factor(Search *search, const SpmdNode *node, int32_t factor, int32_t from) {
    const SpmdRule *rule = node->rule;
    const SpmdFactor *kind = &rule->factors.items[factor];
    const double iterations = spmd_runs(search->consequences, rule->op->parent);
    const double sent = sent_at(search, node, factor);
    const SpmdArray *array = &search->consequences->plan->arrays.items[node->arrays[from]];
    const double exchanged = iterations * price(search, SPMD_TRANSFER_EXCHANGE,
                                                bytes_beside(search, array) * share(search) / (double)search->shards);
    if (sent > exchanged && has_rival(search, node, factor, from)) {
        search->worth -= exchanged;
        return;
    }
    search->worth -= sent;
    if (kind->kind == SPMD_REPLICATE || kind->blocked) return;
    if (!search->consequences->sent_only) search->worth += iterations * work_of(search, node) * share(search);
    for (int32_t t = rule->operand_count; t < node->count; t++) {
        const int32_t dim = node->arrays[t] < 0 ? -1 : dim_of_factor(&rule->tensors[t], factor);
        if (dim >= 0) reach(search, (Place){node->arrays[t], dim}, iterations);
    }
}

// A node that touches a dimension with the axes.
static void visit_node(Search *search, int32_t number, Place place) {
    const SpmdNode *node = &search->consequences->plan->nodes.items[number];
    if (number == search->origin || node->boundary || node->is_asked) return;
    search->nodes++;
    for (int32_t t = 0; t < node->count; t++) {
        if (node->arrays[t] != place.array) continue;
        if (!node->rule) {
            if (node->arrays[1 - t] >= 0) reach(search, (Place){node->arrays[1 - t], place.dim}, 1);
            continue;
        }
        if (t >= node->rule->operand_count) continue;
        const SpmdDimFactors *factors = &node->rule->tensors[t].dims[place.dim];
        if (!factors->count) continue;
        const uint64_t key = ((uint64_t)(uint32_t)number << 16 | (uint64_t)(uint32_t)factors->items[0]) + 1;
        if (hlo_int_map_find(&search->factors, key)) continue;
        hlo_int_map_set(search->consequences->scratch, &search->factors, key, 1);
        visit_factor(search, node, factors->items[0], t);
    }
}

double spmd_consequences(SpmdConsequences *consequences, int32_t origin, int32_t array, int32_t dim,
                         const SpmdAxes *axes) {
    assert(axes->count > 0 && dim >= 0);
    const uint64_t key =
        ((uint64_t)(uint32_t)array << 16 | (uint64_t)(uint32_t)dim << 8 | (uint64_t)axes->items[0]) + 1;
    const int64_t *found = hlo_int_map_find(&consequences->known, key);
    if (found) return consequences->answers.items[*found];
    Search search = {.consequences = consequences, .axes = axes, .atoms = spmd_axes_set(axes), .origin = origin};
    search.shards = spmd_axes_product(consequences->plan->mesh, axes);
    const HloArenaMark mark = hlo_arena_mark(consequences->scratch);
    hlo_vector_push(consequences->scratch, &search.queue, ((Place){array, dim}));
    for (int64_t i = 0; i < search.queue.count && search.nodes < NODE_LIMIT; i++) {
        const Place place = search.queue.items[i];
        for (int32_t n = consequences->first_node[place.array]; n < consequences->first_node[place.array + 1]; n++)
            visit_node(&search, consequences->touching[n], place);
    }
    hlo_arena_reset(consequences->scratch, mark);
    hlo_int_map_set(consequences->arena, &consequences->known, key, consequences->answers.count);
    hlo_vector_push(consequences->arena, &consequences->answers, search.worth);
    return search.worth;
}
