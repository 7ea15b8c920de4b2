// SPDX-License-Identifier: Apache-2.0
// Sort. Where another dimension can take the axes of the sorted one, they move there and back, or it is gathered,
// whichever moves less. Along many shards it is cheaper that they sort themselves and merge in pairs, by an odd-even
// merge network. If only the first few elements are used, each shard gives its first ones, and those are sorted.
//
//     four shards, sorted each; a stage is a list of pairs, of which the lower keeps the smaller half
//     stage 1   0-2  1-3        stage 2   0-1  2-3        stage 3   1-2
//     5 9 | 2 7 | 1 8 | 3 6  ->  1 5 | 2 3 | 8 9 | 6 7  ->  1 2 | 3 5 | 6 7 | 8 9  ->  as it is
// For p shards there are t (t + 1) / 2 stages, t = log2 p rounded up, and each sends every shard once; gathering would
// send p - 1 shards. sort_moved() counts the stages, and spmd_choose() decides.
//
// Invariant of the merging: with indices as a last key there are no ties and padding comes last, so the sorted order is
// unique, and what each stage keeps does not depend on which device keeps it. The pair of a stage sorts its two shards
// together, and each keeps a half. After the last stage shard i holds its part of the sorted order.
#include <assert.h>

#include "spmd_partitioner/emit.h"
#include "spmd_partitioner/moves.h"
#include "spmd_partitioner/rules/sort.h"

// HLO sorts along one dimension.
static int64_t sorted_dimension(const HloInstruction *op) {
    return HLO_ATTRIBUTES(op, Sort)->dimensions.items[0];
}

// All arrays are sharded alike, since their elements move together.
static void sort_rule(SpmdRule *rule, const HloInstruction *op) {
    assert(hlo_is(op, HLO_OP_SORT));
    const HloShape *shape = op->operands[0]->shape;
    for (int32_t d = 0; d < shape->rank; d++) {
        SpmdFactorKind kind = d == sorted_dimension(op) ? SPMD_PERMUTE : SPMD_PASS;
        int32_t factor = spmd_rule_factor(rule, kind, shape->dims[d]);
        // Sorting moves every element: a sharded operand does not imply anything for the result.
        rule->factors.items[factor].blocked = kind == SPMD_PERMUTE;
        for (int32_t t = 0; t < spmd_rule_tensors(rule); t++) spmd_rule_map(rule, t, d, factor);
    }
}

// ---- an order without ties

// True if elements that compare equal are identical: one array of integers. The comparator must compare the two
// elements themselves: different elements may have equal keys.
static bool has_no_ties(const HloInstruction *op) {
    const HloComputation *comparator = op->called[0];
    const HloInstruction *root = comparator->root;
    return op->operand_count == 1 && hlo_type_is_integer(op->operands[0]->shape->type) &&
           hlo_is(root, HLO_OP_COMPARE) && hlo_is(root->operands[0], HLO_OP_PARAMETER) &&
           hlo_is(root->operands[1], HLO_OP_PARAMETER) && root->operands[0] != root->operands[1];
}

// op(a, b) in a comparator that is being made.
static HloInstruction *make(HloComputation *computation, HloOpcode opcode, HloInstruction *a, HloInstruction *b) {
    HloInstruction *operands[] = {a, b};
    return hlo_instruction_new(computation, opcode, a->shape, operands, 2, NULL, NULL);
}

// a < b in a comparator that is being made.
static HloInstruction *make_less(SpmdPartitioner *partitioner, HloComputation *computation, HloInstruction *a,
                                 HloInstruction *b) {
    HloInstruction *operands[] = {a, b};
    HloCompareAttributes attributes = {.direction = HLO_ComparisonDirection_LT};
    const HloShape *shape = hlo_shape_scalar(partitioner->module->arena, HLO_PRED);
    return hlo_instruction_new(computation, HLO_OP_COMPARE, shape, operands, 2, &attributes, NULL);
}

// Copies the source's comparator, applied to `parameters`, with left and right exchanged if `swapped`. Parameters 2k
// and 2k + 1 are the two elements of array k, hence the exclusive or.
static HloInstruction *copy_comparator(SpmdPartitioner *partitioner, const HloComputation *source, HloComputation *made,
                                       HloInstruction *const *parameters, bool swapped) {
    HloInstruction **copies = HLO_ARENA_NEW(partitioner->arena, HloInstruction *, source->module->instruction_limit);
    for (const HloInstruction *at = source->first; at; at = at->next) {
        if (hlo_is(at, HLO_OP_PARAMETER)) {
            copies[at->id] = parameters[hlo_parameter_number(at) ^ (swapped ? 1 : 0)];
            continue;
        }
        HloInstruction **operands = HLO_ARENA_NEW(partitioner->arena, HloInstruction *, at->operand_count + 1);
        for (int32_t i = 0; i < at->operand_count; i++) operands[i] = copies[at->operands[i]->id];
        HloInstruction *copy = hlo_instruction_clone(made, at, at->shape, operands, at->operand_count);
        HloComputation **called = HLO_ARENA_NEW(partitioner->arena, HloComputation *, at->called_count + 1);
        for (int32_t i = 0; i < at->called_count; i++) called[i] = spmd_called(partitioner, at->called[i]);
        if (at->called_count) hlo_instruction_set_called(copy, called, at->called_count);
        copies[at->id] = copy;
    }
    return copies[source->root->id];
}

// not(a)
static HloInstruction *make_not(HloComputation *computation, HloInstruction *a) {
    return hlo_instruction_new(computation, HLO_OP_NOT, a->shape, &a, 1, NULL, NULL);
}

// Parameter `number` of a comparator.
static HloInstruction *make_parameter(SpmdPartitioner *partitioner, HloComputation *made, HloType type,
                                      int64_t number) {
    HloParameterAttributes attributes = {.number = number};
    const HloShape *shape = hlo_shape_scalar(partitioner->module->arena, type);
    return hlo_instruction_new(made, HLO_OP_PARAMETER, shape, NULL, 0, &attributes, NULL);
}

// A comparator with one more array, the elements' indices: ties are broken by index, and indices from `limit` on, which
// are padding, come last. `place` is the type of the indices; `limit` the size of the sorted dimension in the whole
// array.
static HloComputation *total_order(SpmdPartitioner *partitioner, const HloInstruction *op, HloType place,
                                   int64_t limit) {
    assert(limit >= 0);
    HloComputation *made = hlo_computation_new(partitioner->module, "order");
    int64_t count = 2 * op->operand_count;
    HloInstruction **parameters = HLO_ARENA_NEW(partitioner->arena, HloInstruction *, count + 2);
    for (int64_t i = 0; i < count + 2; i++) {
        HloType type = i < count ? op->operands[i / 2]->shape->type : place;
        parameters[i] = make_parameter(partitioner, made, type, i);
    }
    HloInstruction *left = parameters[count], *right = parameters[count + 1];
    HloInstruction *before = copy_comparator(partitioner, op->called[0], made, parameters, false);
    HloInstruction *swapped = copy_comparator(partitioner, op->called[0], made, parameters, true);
    HloInstruction *first = make_less(partitioner, made, left, right);
    HloInstruction *tie = make(made, HLO_OP_AND, make_not(made, swapped), first);
    HloInstruction *order = make(made, HLO_OP_OR, before, tie);
    HloLiteral *literal = hlo_literal_in_arena(partitioner->module->arena, left->shape);
    hlo_literal_set_int64(literal, 0, limit);
    HloConstantAttributes constant = {literal};
    HloInstruction *end = hlo_instruction_new(made, HLO_OP_CONSTANT, left->shape, NULL, 0, &constant, NULL);
    HloInstruction *left_is = make_less(partitioner, made, left, end),
                   *right_is = make_less(partitioner, made, right, end);
    // Two elements are ordered by the comparator; an element comes before padding; padding is ordered by index.
    HloInstruction *both = make(made, HLO_OP_AND, left_is, order);
    HloInstruction *either = make(made, HLO_OP_OR, left_is, first);
    HloInstruction *choice[] = {right_is, both, either};
    hlo_computation_set_root(made, hlo_instruction_new(made, HLO_OP_SELECT, order->shape, choice, 3, NULL, NULL));
    return made;
}

// ---- sorting the elements that are here

// The arrays that are sorted together on one device: the op's, and their indices where ties or padding need them.
typedef struct Sorting {
    SpmdPartitioner *partitioner;
    const HloInstruction *op;
    int64_t dim;
    SpmdAxes axes;  // of the sorted dimension
    HloInstruction **arrays;
    int32_t count;  // with the indices
    HloComputation *order;
    SpmdReason reason;
} Sorting;

// Replaces `arrays` by themselves sorted.
static void sort_here(const Sorting *sorting, HloInstruction **arrays) {
    SpmdPartitioner *partitioner = sorting->partitioner;
    HloArena *arena = partitioner->module->arena;
    const HloShape **shapes = HLO_ARENA_NEW(arena, const HloShape *, sorting->count);
    for (int32_t i = 0; i < sorting->count; i++) shapes[i] = arrays[i]->shape;
    const HloShape *shape = sorting->count == 1 ? shapes[0] : hlo_shape_tuple(arena, shapes, sorting->count);
    HloSortAttributes attributes = {hlo_ints(arena, &sorting->dim, 1), HLO_ATTRIBUTES(sorting->op, Sort)->is_stable};
    HloInstruction *made = spmd_emit(partitioner, HLO_OP_SORT, shape, arrays, sorting->count, &attributes);
    hlo_instruction_set_called(made, (HloComputation *const *)&sorting->order, 1);
    spmd_emit_leaves(partitioner, made, arrays);
}

// The operands as sharded by `factors`, with their indices if `places`.
static Sorting begin_sorting(SpmdPartitioner *partitioner, const HloInstruction *op, const SpmdRule *rule,
                             const SpmdAxes *factors, bool places) {
    Sorting sorting = {.partitioner = partitioner, .op = op, .dim = sorted_dimension(op), .count = op->operand_count};
    sorting.axes = spmd_rule_dim_axes(rule, partitioner->mesh, 0, sorting.dim, factors);
    sorting.arrays = HLO_ARENA_NEW(partitioner->arena, HloInstruction *, op->operand_count + 1);
    for (int32_t i = 0; i < op->operand_count; i++) {
        sorting.arrays[i] = spmd_factor_operand(partitioner, rule, factors, i).hlo;
    }
    if (!places) {
        sorting.order = spmd_called(partitioner, op->called[0]);
        return sorting;
    }
    const HloShape *local = sorting.arrays[0]->shape;
    HloInstruction *offset = spmd_emit_offset(partitioner, &sorting.axes, local->dims[sorting.dim]);
    HloType type = offset->shape->type;
    HloInstruction *place = spmd_emit_iota(partitioner, type, local->dims, local->rank, sorting.dim);
    sorting.arrays[sorting.count++] = spmd_emit_binary(partitioner, HLO_OP_ADD, place,
                                                       spmd_emit_splat(partitioner, offset, local->dims, local->rank));
    sorting.order = total_order(partitioner, op, type, op->operands[0]->shape->dims[sorting.dim]);
    return sorting;
}

// Whether the last shards hold padding, which must not come among the elements.
static bool is_uneven(const SpmdPartitioner *partitioner, const HloInstruction *op, const SpmdAxes *axes) {
    return op->operands[0]->shape->dims[sorted_dimension(op)] % spmd_axes_product(partitioner->mesh, axes) != 0;
}

// ---- merging along the shards

// A stage of the network: by position the one that it merges with, -1 for none. The lower of the two keeps what comes
// first.
typedef struct Network {
    int64_t positions, stages;
    int64_t *partners;  // stage by stage; NULL when only the stages are counted
} Network;

// Batcher's merge exchange (Knuth, The Art of Computer Programming 5.2.2, algorithm M): any number of positions.
// p, q, r and the distance are named as Knuth does; `top` is the largest power of two below the
// number of positions.
static void fill_network(Network *network) {
    int64_t top = 1, n = network->positions;
    while (2 * top < n) top *= 2;
    network->stages = 0;
    for (int64_t p = top; n > 1 && p > 0; p /= 2) {
        int64_t q = top, distance = p, r = 0;
        for (;;) {
            int64_t *partners = network->partners ? network->partners + network->stages * n : NULL;
            for (int64_t i = 0; partners && i < n; i++) partners[i] = -1;
            for (int64_t i = 0; partners && i + distance < n; i++) {
                if ((i & p) != r) continue;
                partners[i] = i + distance;
                partners[i + distance] = i;
            }
            network->stages++;
            if (q == p) break;
            distance = q - p;
            q /= 2;
            r = p;
        }
    }
}

// Counted first, then filled: the table is as long as the network has stages.
static Network network_of(HloArena *arena, int64_t positions) {
    assert(positions > 0);
    Network network = {.positions = positions};
    fill_network(&network);
    network.partners = HLO_ARENA_NEW(arena, int64_t, network.stages * positions + 1);
    fill_network(&network);
    return network;
}

// Every stage sends every array's shard once, and the indices too where they are needed: many messages, which are
// slower than one gather where shards are small. Without axes on the sorted dimension nothing is merged; the cost of
// gathering it is in the operands' reshard.
static int64_t sort_moved(SpmdPartitioner *partitioner, const SpmdRule *rule, const SpmdAxes *factors) {
    const HloInstruction *op = rule->op;
    const SpmdSharding *sharding = spmd_rule_sharding(rule, partitioner->arena, partitioner->mesh, 0, factors, 0);
    const SpmdAxes *axes = &sharding->dims[sorted_dimension(op)];
    if (!axes->count) return 0;
    Network network = {.positions = spmd_axes_product(partitioner->mesh, axes)};
    fill_network(&network);
    int64_t bytes = 0;
    for (int32_t i = 0; i < op->operand_count; i++) {
        bytes = spmd_add_bytes(bytes, spmd_local_bytes(partitioner->mesh, op->operands[i]->shape, sharding));
    }
    bool places = !has_no_ties(op) || is_uneven(partitioner, op, axes);
    const HloShape *place = hlo_shape_with_type(partitioner->arena, op->operands[0]->shape, HLO_S32);
    if (places) bytes = spmd_add_bytes(bytes, spmd_local_bytes(partitioner->mesh, place, sharding));
    // All arrays of a stage travel in one message (passes/combine.c).
    return spmd_permutes_cost(partitioner->plan->costs, axes, spmd_times_bytes(bytes, network.stages), network.stages,
                              true);
}

// Merges with the partner of one stage and keeps a half. Devices without a partner receive nothing, sort anyway (it is
// one program), and keep what they had.
static void merge_with_partner(const Sorting *sorting, const int64_t *partners, int64_t positions) {
    assert(positions > 0);
    SpmdPartitioner *partitioner = sorting->partitioner;
    int64_t size = sorting->arrays[0]->shape->dims[sorting->dim];
    int64_t *starts = HLO_ARENA_NEW(partitioner->arena, int64_t, positions);
    int64_t *idle = HLO_ARENA_NEW(partitioner->arena, int64_t, positions);
    for (int64_t i = 0; i < positions; i++) {
        idle[i] = partners[i] < 0;
        starts[i] = partners[i] >= 0 && partners[i] < i ? size : 0;
    }
    HloPairs pairs = spmd_pairs_of_positions(partitioner, &sorting->axes, partners);
    HloInstruction **joined = HLO_ARENA_NEW(partitioner->arena, HloInstruction *, sorting->count);
    for (int32_t i = 0; i < sorting->count; i++) {
        HloInstruction *both[2] = {sorting->arrays[i],
                                   spmd_emit_permute(partitioner, sorting->arrays[i], pairs, &sorting->reason)};
        joined[i] = spmd_emit_concatenate(partitioner, both, 2, sorting->dim);
    }
    sort_here(sorting, joined);
    HloInstruction *start = spmd_emit_look_up(partitioner, &sorting->axes, starts, positions);
    HloInstruction *alone = spmd_emit_look_up(partitioner, &sorting->axes, idle, positions);
    alone =
        spmd_emit_compare(partitioner, HLO_ComparisonDirection_NE, alone, spmd_emit_scalar(partitioner, HLO_S32, 0));
    for (int32_t i = 0; i < sorting->count; i++) {
        HloInstruction *half = spmd_emit_dynamic_slice(partitioner, joined[i], sorting->dim, start, size);
        HloInstruction *test = spmd_emit_splat(partitioner, alone, half->shape->dims, half->shape->rank);
        sorting->arrays[i] = spmd_emit_select(partitioner, test, sorting->arrays[i], half);
    }
}

// Defines the op's own arrays; the indices, if there were any, are no longer needed.
static void define_results(const Sorting *sorting, const SpmdSharding *sharding) {
    for (int32_t i = 0; i < sorting->op->operand_count; i++) {
        spmd_define(sorting->partitioner, i, sorting->arrays[i], sharding, 0, HLO_OPCODE_COUNT);
    }
}

// Each shard for itself, then stage by stage with its partner.
static void sort_by_merging(SpmdPartitioner *partitioner, const HloInstruction *op, const SpmdRule *rule,
                            const SpmdAxes *factors, const SpmdSharding *sharding) {
    const SpmdAxes *axes = &sharding->dims[sorted_dimension(op)];
    bool places = !has_no_ties(op) || is_uneven(partitioner, op, axes);
    Sorting sorting = begin_sorting(partitioner, op, rule, factors, places);
    sorting.reason = (SpmdReason){.op = op, .what = "merging of sorted shards"};
    sort_here(&sorting, sorting.arrays);
    const Network network = network_of(partitioner->arena, spmd_axes_product(partitioner->mesh, axes));
    for (int64_t stage = 0; stage < network.stages; stage++) {
        merge_with_partner(&sorting, network.partners + stage * network.positions, network.positions);
    }
    define_results(&sorting, sharding);
}

// ---- the first few

// The last element of one result that is used, through the slices that are its only users; -1 if some user takes more
// than a prefix.
static int64_t asked_of(const HloInstruction *result, int64_t dim) {
    assert(dim >= 0);
    int64_t most = 0;
    if (hlo_instruction_is_root(result)) return -1;
    for (int64_t i = 0; i < result->users.count; i++) {
        const HloInstruction *user = result->users.items[i];
        if (!hlo_is(user, HLO_OP_SLICE)) return -1;
        int64_t limit = HLO_ATTRIBUTES(user, Slice)->limits.items[dim];
        if (limit > most) most = limit;
    }
    return most;
}

// How many elements of the sorted dimension are used, counted from the first; all of them if that is not evident.
static int64_t asked_for(const HloInstruction *op) {
    int64_t dim = sorted_dimension(op), all = op->operands[0]->shape->dims[dim], most = 0;
    if (!hlo_shape_is_tuple(op->shape)) {
        most = asked_of(op, dim);
        return most < 0 ? all : most;
    }
    if (hlo_instruction_is_root(op)) return all;
    for (int64_t i = 0; i < op->users.count; i++) {
        const HloInstruction *user = op->users.items[i];
        int64_t limit = hlo_is(user, HLO_OP_GET_TUPLE_ELEMENT) ? asked_of(user, dim) : -1;
        if (limit < 0) return all;
        if (limit > most) most = limit;
    }
    return most;
}

bool spmd_sorts_all(const HloInstruction *op) {
    return hlo_is(op, HLO_OP_SORT) && asked_for(op) == op->operands[0]->shape->dims[sorted_dimension(op)];
}

// Gathers the first `count` of every shard and sorts them once more: shards come in order, so equal elements keep
// theirs. Unused elements are filled with zeros; slices see through that (rules/slice.c).
static void sort_first(SpmdPartitioner *partitioner, const HloInstruction *op, const SpmdRule *rule,
                       const SpmdAxes *factors, int64_t count) {
    const SpmdAxes axes = spmd_rule_dim_axes(rule, partitioner->mesh, 0, sorted_dimension(op), factors);
    Sorting sorting = begin_sorting(partitioner, op, rule, factors, is_uneven(partitioner, op, &axes));
    sorting.reason = (SpmdReason){.op = op, .what = "candidates of the shards"};
    sort_here(&sorting, sorting.arrays);
    for (int32_t i = 0; i < sorting.count; i++) {
        HloInstruction *first = spmd_emit_slice(partitioner, sorting.arrays[i], sorting.dim, 0, count, 1);
        sorting.arrays[i] = spmd_emit_all_gather(partitioner, first, sorting.dim, &axes, &sorting.reason);
    }
    sort_here(&sorting, sorting.arrays);
    int64_t all = op->operands[0]->shape->dims[sorting.dim];
    for (int32_t i = 0; i < sorting.count; i++) {
        HloInstruction *first = spmd_emit_slice(partitioner, sorting.arrays[i], sorting.dim, 0, count, 1);
        sorting.arrays[i] = spmd_emit_pad(partitioner, first, sorting.dim, 0, all - count, NULL);
    }
    SpmdSharding *sharding =
        spmd_rule_sharding(rule, partitioner->arena, partitioner->mesh, 0, factors, spmd_manual_axes(partitioner, op));
    sharding->dims[sorting.dim] = (SpmdAxes){0};
    define_results(&sorting, sharding);
}

// The axes of an operand that is sharded along the sorted dimension; NULL if none is.
static SpmdAxes *as_sharded(SpmdPartitioner *partitioner, const HloInstruction *op, const SpmdRule *rule) {
    for (int32_t i = 0; i < op->operand_count; i++) {
        const SpmdLocal local = spmd_operand(partitioner, i);
        if (!local.hlo || !local.sharding->dims[sorted_dimension(op)].count) continue;
        SpmdAxes *factors = HLO_ARENA_NEW(partitioner->arena, SpmdAxes, rule->factors.count);
        spmd_rule_project(rule, partitioner->mesh, i, local.sharding, factors);
        return factors;
    }
    return NULL;
}

// Users of the first few elements alone (top-k as JAX lowers it) get them from the first few of each shard. Otherwise
// the cheapest choice of factors decides between merging along the shards and sorting whole rows.
static HloStatus sort_partition(SpmdPartitioner *partitioner, const HloInstruction *op) {
    assert(hlo_is(op, HLO_OP_SORT));
    const SpmdRule *rule = partitioner->plan->rules[op->id];
    assert(rule); /* its operands are arrays: shape inference has seen them */
    int64_t dim = sorted_dimension(op), count = asked_for(op);
    SpmdAxes *factors = as_sharded(partitioner, op, rule);
    if (factors) {
        const SpmdAxes axes = spmd_rule_dim_axes(rule, partitioner->mesh, 0, dim, factors);
        int64_t shards = spmd_axes_product(partitioner->mesh, &axes);
        int64_t shard = spmd_shard_size(op->operands[0]->shape->dims[dim], shards);
        if (count > 0 && count < shard) {
            sort_first(partitioner, op, rule, factors, count);
            return HLO_SUCCESS;
        }
    }
    factors = spmd_choose(partitioner, rule, true);
    SpmdSharding *sharding = spmd_rule_sharding(rule, partitioner->arena, partitioner->mesh, spmd_rule_result(rule, 0),
                                                factors, spmd_manual_axes(partitioner, op));
    if (sharding->dims[dim].count) {
        sort_by_merging(partitioner, op, rule, factors, sharding);
        return HLO_SUCCESS;
    }
    HloInstruction **operands = HLO_ARENA_NEW(partitioner->arena, HloInstruction *, op->operand_count);
    for (int32_t i = 0; i < op->operand_count; i++) {
        operands[i] = spmd_factor_operand(partitioner, rule, factors, i).hlo;
    }
    return spmd_emit_by_factors(partitioner, rule, factors, operands);
}
const SpmdOp spmd_op_sort = {.name = "sort", .rule = sort_rule, .partition = sort_partition, .moved = sort_moved};
