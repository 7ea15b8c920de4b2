// SPDX-License-Identifier: Apache-2.0
// With Q, K, V and O bytes in queries, keys, values and the result of attention, all sharded by x along the sequence,
// and g devices along x:
//     scores sharded by queries     (K + V) (g-1)/g              two gathers
//     scores sharded by heads       (Q + K + V + O) (g-1)/g^2    four all-to-alls
//
// From the result of the product on, the search goes through all ops that have both dimensions, in both directions, and
// ends at products: gradients hang together through the scores. It adds up
//     an array at the end that has the axes on the first dimension          exchanged     sent
//     one without the second dimension                                      gathered      sent
//     an operand without the first dimension that has the axes elsewhere    gathered      saved; exchanged if it has
//     the second a sum over the first dimension                                        all-reduced   saved
// each array once, since an array that was moved is not moved again.
#include "spmd_partitioner/batches.h"

#include <assert.h>
#include <math.h>

#include "spmd_partitioner/contraction.h"

// Nodes that one search looks at, at most.
enum { NODE_LIMIT = 1024 };
// The share of what is saved that may be sent at most: where the arrays go from there is an estimate.
static const double WORTHWHILE = 2.0 / 3;

typedef struct Search {
    SpmdConsequences *consequences;
    SpmdBatches *batches;
    SpmdAtomSet atoms;
    double shards, saved, sent;
    HloIntMap places;          // by array + 1: it changes
    HloIntMap paid, received;  // by array + 1: it is sent, and need not be sent
    HloIntMap nodes;           // that were visited
    int32_t visited;
} Search;

// A node that is looked at: the factors that lose and get the axes.
typedef struct Visit {
    const SpmdNode *node;
    int32_t from, to;
} Visit;

static bool note(Search *search, HloIntMap *map, int32_t number) {
    const uint64_t key = (uint64_t)(uint32_t)number + 1;
    if (hlo_int_map_find(map, key)) return false;
    hlo_int_map_set(search->consequences->arena, map, key, 1);
    return true;
}

// What it costs to move tensor `tensor` of a node once.
static double price(const Search *search, const SpmdNode *node, int32_t tensor, SpmdTransferKind kind) {
    const SpmdRule *rule = node->rule;
    const double part =
        spmd_part_bytes(search->consequences, spmd_node_array(search->consequences, node, tensor), search->atoms);
    const double bytes = part * (1 - 1 / search->shards) * (kind == SPMD_TRANSFER_REDUCE ? 2 : 1) /
                         (kind == SPMD_TRANSFER_EXCHANGE ? search->shards : 1);
    const double times = !rule                          ? 1
                         : tensor < rule->operand_count ? spmd_operand_moves(search->consequences, rule->op, tensor)
                                                        : spmd_runs(search->consequences, rule->op->parent);
    return times * spmd_transfer_price(search->consequences->plan->costs, kind, search->atoms, bytes);
}

static void pay(Search *search, const SpmdNode *node, int32_t tensor, SpmdTransferKind kind) {
    if (note(search, &search->paid, node->arrays[tensor])) search->sent += price(search, node, tensor, kind);
}

static void receive(Search *search, const SpmdNode *node, int32_t tensor, SpmdTransferKind kind) {
    if (note(search, &search->received, node->arrays[tensor])) search->saved += price(search, node, tensor, kind);
}

// Whether an array may have the axes along dimension `to` instead.
static bool may_move(const Search *search, const SpmdArray *array, int32_t to) {
    const SpmdMesh *mesh = search->consequences->plan->mesh;
    const SpmdSharding *sharding = array->sharding;
    const int64_t shards = spmd_axes_product(mesh, &sharding->dims[to]) * (int64_t)search->shards;
    const bool closed = array->annotated || !array->open[to] || (array->shape->dynamic && array->shape->dynamic[to]);
    return !closed && !((array->replicated | sharding->manual | sharding->unreduced) & search->atoms) &&
           array->shape->dims[to] % shards == 0;
}

static void add(Search *search, SpmdMovedAxes moved) {
    if (note(search, &search->places, moved.array))
        hlo_vector_push(search->consequences->arena, &search->batches->moved, moved);
}

// A tensor that has the dimension from which the axes go, and the axes on it. It changes too where it may, and where no
// product is between them.
static void meet_holder(Search *search, const Visit *visit, int32_t tensor, int32_t from, bool ends) {
    const SpmdNode *node = visit->node;
    const SpmdRule *rule = node->rule;
    const int32_t to = rule ? spmd_dim_of_factor(&rule->tensors[tensor], visit->to) : visit->to;
    const bool is_operand = rule && tensor < rule->operand_count;
    if (to >= 0 && !ends && may_move(search, spmd_node_array(search->consequences, node, tensor), to))
        add(search, (SpmdMovedAxes){node->arrays[tensor], from, to});
    else if (to >= 0)
        pay(search, node, tensor, SPMD_TRANSFER_EXCHANGE);
    else
        pay(search, node, tensor, is_operand ? SPMD_TRANSFER_GATHER : SPMD_TRANSFER_SCATTER);
}

// A tensor without that dimension.
static void meet_other(Search *search, const Visit *visit, int32_t tensor) {
    const SpmdNode *node = visit->node;
    const SpmdRule *rule = node->rule;
    const bool has = spmd_dim_of_factor(&rule->tensors[tensor], visit->to) >= 0,
               is_operand = tensor < rule->operand_count;
    const bool elsewhere =
        (spmd_sharding_used(spmd_node_array(search->consequences, node, tensor)->sharding) & search->atoms) != 0;
    const bool summed = !is_operand && rule->factors.items[visit->from].kind == SPMD_REDUCE;
    if (!(is_operand ? elsewhere && has : summed)) return;
    receive(search, node, tensor,
            is_operand  ? SPMD_TRANSFER_GATHER
            : elsewhere ? SPMD_TRANSFER_SCATTER
                        : SPMD_TRANSFER_REDUCE);
    if (has) pay(search, node, tensor, elsewhere ? SPMD_TRANSFER_EXCHANGE : SPMD_TRANSFER_GATHER);
}

// Meets the other tensors of a node. False if the dimension that gets the axes cannot be sharded in it.
static bool meet(Search *search, const Visit *visit, int32_t member) {
    const SpmdNode *node = visit->node;
    const SpmdRule *rule = node->rule;
    const bool product = rule && spmd_is_product(rule->op);
    if (rule && (rule->factors.items[visit->to].kind == SPMD_REPLICATE ||
                 rule->factors.items[visit->to].kind == SPMD_PERMUTE || rule->factors.items[visit->to].blocked))
        return false;
    for (int32_t t = 0; t < node->count; t++) {
        const SpmdArray *array = spmd_node_array(search->consequences, node, t);
        if (!array || node->arrays[t] == node->arrays[member] ||
            hlo_int_map_find(&search->places, (uint64_t)(uint32_t)node->arrays[t] + 1))
            continue;
        const int32_t from = rule ? spmd_dim_of_factor(&rule->tensors[t], visit->from) : visit->from;
        if (from < 0)
            meet_other(search, visit, t);
        else if (spmd_axes_equal(&array->sharding->dims[from], &search->batches->axes))
            meet_holder(search, visit, t, from, product);
    }
    return true;
}

// Looks at a node that touches an array which changes.
static bool visit_node(Search *search, int32_t number, const SpmdMovedAxes *moved) {
    const SpmdNode *node = &search->consequences->plan->nodes.items[number];
    if (!note(search, &search->nodes, number)) return true;
    if (node->boundary || node->is_asked || ++search->visited > NODE_LIMIT) return false;
    int32_t member = 0;
    while (node->arrays[member] != moved->array) member++;
    if (!node->rule) return meet(search, &(Visit){node, moved->from, moved->to}, member);
    const SpmdTensor *tensor = &node->rule->tensors[member];
    const Visit visit = {node, spmd_only_factor(tensor, moved->from), spmd_only_factor(tensor, moved->to)};
    if (visit.from >= 0 && visit.to >= 0) return meet(search, &visit, member);
    pay(search, node, member, SPMD_TRANSFER_EXCHANGE);  // as by a reshape that joins dimensions
    return true;
}

// What product `origin` costs at most where its result is: where both operands are split along a dimension that it sums
// over, the sums are scattered.
static double most_at(const Search *search, int32_t origin) {
    const SpmdNode *node = &search->consequences->plan->nodes.items[origin];
    const SpmdAxes summed = spmd_contracted_axes(search->consequences, node);
    if (!spmd_axes_equal(&summed, &search->batches->axes)) return INFINITY;
    return price(search, node, spmd_rule_result(node->rule, 0), SPMD_TRANSFER_SCATTER);
}

// What is saved if the axes of dimension `from` of the result of product `origin` go to `to`, less what is sent; 0
// where that is not worth it.
static double gain(SpmdConsequences *consequences, int32_t origin, int32_t from, int32_t to, SpmdBatches *batches) {
    const SpmdNode *node = &consequences->plan->nodes.items[origin];
    const int32_t result = node->arrays[spmd_rule_result(node->rule, 0)];
    const SpmdArray *made = &consequences->plan->arrays.items[result];
    *batches = (SpmdBatches){.axes = made->sharding->dims[from]};
    Search search = {.consequences = consequences, .batches = batches, .atoms = spmd_axes_set(&batches->axes)};
    search.shards = (double)spmd_axes_product(consequences->plan->mesh, &batches->axes);
    if (!may_move(&search, made, to)) return 0;
    add(&search, (SpmdMovedAxes){result, from, to});
    for (int64_t i = 0; i < batches->moved.count; i++) {
        const SpmdMovedAxes moved = batches->moved.items[i];
        for (int32_t n = consequences->first_node[moved.array]; n < consequences->first_node[moved.array + 1]; n++) {
            const double before = search.saved;
            if (!visit_node(&search, consequences->touching[n], &moved)) return 0;
            if (consequences->touching[n] == origin)
                search.saved = fmin(search.saved, before + most_at(&search, origin));
        }
    }
    return search.sent < search.saved * WORTHWHILE ? search.saved - search.sent : 0;
}

// The dimension of a product's result whose axes are a free dimension's of one operand, where the other operand has
// them elsewhere; -1 if there is none.
static int32_t gathering_dim(const SpmdConsequences *consequences, const SpmdNode *node) {
    const SpmdRule *rule = node->rule;
    const int32_t result = spmd_rule_result(rule, 0);
    if (node->arrays[0] < 0 || node->arrays[1] < 0 || node->arrays[result] < 0) return -1;
    const SpmdArray *arrays = consequences->plan->arrays.items;
    const SpmdSharding *made = arrays[node->arrays[result]].sharding;
    for (int32_t d = 0; d < made->rank; d++) {
        const int32_t factor = spmd_only_factor(&rule->tensors[result], d);
        const SpmdAtomSet atoms = spmd_axes_set(&made->dims[d]);
        if (!atoms || factor < 0 || rule->factors.items[factor].kind != SPMD_PASS) continue;
        for (int32_t t = 0; t < 2; t++) {
            const bool free = spmd_dim_of_factor(&rule->tensors[t], factor) < 0;
            if (free && (spmd_sharding_used(arrays[node->arrays[t]].sharding) & atoms) == atoms) return d;
        }
    }
    return -1;
}

bool spmd_find_batches(SpmdConsequences *consequences, int32_t number, SpmdBatches *batches) {
    const SpmdNode *node = &consequences->plan->nodes.items[number];
    const SpmdRule *rule = node->rule;
    if (!rule || !spmd_is_product(rule->op) || node->directions != SPMD_BOTH_WAYS) return false;
    const int32_t from = gathering_dim(consequences, node), result = spmd_rule_result(rule, 0);
    if (from < 0) return false;
    double best = 0;
    for (int32_t d = 0; d < rule->tensors[result].shape->rank; d++) {
        const int32_t factor = spmd_only_factor(&rule->tensors[result], d);
        const bool batch = d != from && factor >= 0 && rule->factors.items[factor].kind == SPMD_PASS &&
                           spmd_dim_of_factor(&rule->tensors[0], factor) >= 0 &&
                           spmd_dim_of_factor(&rule->tensors[1], factor) >= 0;
        SpmdBatches candidate;
        const double gained = batch ? gain(consequences, number, from, d, &candidate) : 0;
        if (gained <= best) continue;
        best = gained;
        *batches = candidate;
    }
    return best > 0;
}
