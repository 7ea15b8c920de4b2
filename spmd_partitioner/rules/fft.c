// SPDX-License-Identifier: Apache-2.0
// Fourier transforms. Batch dimensions are local. A transform of several dimensions is one of each of them in turn, and
// before each of these its dimension comes whole to the devices: its axes move to another dimension, transformed
// already or not yet (an all-to-all), or it is gathered, or it stays sharded and is transformed in four steps
// (parts/four_step.c). Which of these is done for each dimension is searched exhaustively by what is sent: there are at
// most three.
//
//     c64[64,64] over 8 devices by rows, wanted by rows     columns are local: transform them
//                                                           all-to-all to rows, transform them
//                                                           all-to-all back, or the result stays as it is
//
// RFFT begins with the last dimension, and IRFFT ends with it: it is the one that is real on one side. What is whole
// already is transformed before anything is sent.
#include <assert.h>
#include <math.h>

#include "spmd_partitioner/emit.h"
#include "spmd_partitioner/parts/four_step.h"

enum { MOST_DIMS = 3 };

static void fft_rule(SpmdRule *rule, const HloInstruction *op) {
    spmd_rule_batches(rule, (int32_t)HLO_ATTRIBUTES(op, Fft)->length.count);
}

// A way to transform the dimensions one after the other.
typedef struct Way {
    int64_t cost;
    int32_t dims[MOST_DIMS];            // by turn: the dimension of the array
    const SpmdSharding *at[MOST_DIMS];  // what the array is brought to before
    bool in_steps[MOST_DIMS];           // whether the dimension stays sharded
} Way;

// The search for the cheapest way.
typedef struct Search {
    SpmdPartitioner *partitioner;
    const HloFftAttributes *fft;
    const SpmdLocal *local;
    const SpmdSharding *wanted;
    int32_t count, first;                   // transformed dimensions, and the first of them
    const HloShape *shapes[MOST_DIMS + 1];  // before each turn, and in the end
    Way best;
} Search;

static int64_t length_of(const Search *search, int32_t dim) {
    return search->fft->length.items[dim - search->first];
}

// Whether a dimension is real on one side.
static bool is_real(const Search *search, int32_t dim) {
    const bool real = search->fft->type == HLO_FftType_RFFT || search->fft->type == HLO_FftType_IRFFT;
    return real && dim == search->first + search->count - 1;
}

// HLO_FftType_* of the transform of one dimension.
static int32_t type_of(const Search *search, int32_t dim) {
    if (is_real(search, dim)) return search->fft->type;
    const bool inverse = search->fft->type == HLO_FftType_IFFT || search->fft->type == HLO_FftType_IRFFT;
    return inverse ? HLO_FftType_IFFT : HLO_FftType_FFT;
}

static SpmdFourStep steps_of(const Search *search, int32_t dim, const SpmdSharding *form) {
    return (SpmdFourStep){type_of(search, dim), dim, length_of(search, dim), &form->dims[dim]};
}

// What the local work of one turn costs: it reads and writes the array, and has some 2.5 n log2 n multiply-adds.
static int64_t work_cost(const Search *search, int32_t turn, int32_t dim, const SpmdSharding *sharding) {
    const SpmdPartitioner *partitioner = search->partitioner;
    const double bytes = (double)spmd_local_bytes(partitioner->mesh, search->shapes[turn], sharding);
    const double points = bytes / (double)hlo_type_bytes(search->shapes[turn]->type);
    const double length = (double)length_of(search, dim);
    return spmd_price_cost(
        spmd_work_price(partitioner->plan->costs, 2 * bytes, length > 1 ? 2.5 * points * log2(length) : 0));
}

static void search_turn(Search *search, int32_t turn, const SpmdSharding *now, Way *way);

// Transforms a dimension with the array in a form, then the others.
static void try_form(Search *search, int32_t turn, int32_t dim, const SpmdSharding *now, const SpmdSharding *form,
                     Way *way) {
    SpmdPartitioner *partitioner = search->partitioner;
    const int64_t before = way->cost;
    int64_t cost = turn == 0 ? spmd_form_cost(partitioner, search->local, form)
                             : spmd_path(partitioner, search->shapes[turn], now, 0, form)->cost;
    cost = spmd_add_bytes(cost, work_cost(search, turn, dim, form));
    const bool in_steps = form->dims[dim].count > 0;
    if (in_steps) {
        const SpmdFourStep steps = steps_of(search, dim, form);
        if (!spmd_four_step_divides(partitioner, &steps)) return;
        cost = spmd_add_bytes(cost, spmd_four_step_cost(partitioner, &steps, search->shapes[turn], form));
    }
    way->cost = spmd_add_bytes(way->cost, cost);
    way->dims[turn] = dim;
    way->at[turn] = form;
    way->in_steps[turn] = in_steps;
    if (way->cost < search->best.cost) search_turn(search, turn + 1, form, way);
    way->cost = before;
}

// The axes of dimension `to` with those of another one after them, or, if `wanted_first`, with those first that it has
// in the end. False if that is no other order.
static bool joined_axes(const Search *search, const SpmdSharding *now, int32_t from, int32_t to, bool wanted_first,
                        SpmdAxes *axes) {
    SpmdAxes all = now->dims[to], rest = {0};
    spmd_axes_append(&all, &now->dims[from]);
    *axes = all;
    if (!wanted_first) return true;
    const SpmdAxes *wanted = &search->wanted->dims[to];
    const SpmdAtomSet set = spmd_axes_set(wanted);
    if (set & ~spmd_axes_set(&all)) return false;
    for (int32_t i = 0; i < all.count; i++)
        if (!(set >> all.items[i] & 1)) spmd_axes_push(&rest, all.items[i]);
    *axes = *wanted;
    spmd_axes_append(axes, &rest);
    return !spmd_axes_equal(axes, &all);
}

// All forms in which a sharded dimension may be transformed: with its axes on another one, as wanted in the end,
// sharded as it is, or gathered.
static void try_forms(Search *search, int32_t turn, int32_t dim, const SpmdSharding *now, Way *way) {
    SpmdPartitioner *partitioner = search->partitioner;
    SpmdSharding *whole = spmd_sharding_copy(partitioner->arena, now);
    whole->dims[dim] = (SpmdAxes){0};
    for (int32_t d = 0; d < now->rank; d++) {
        for (int wanted_first = 0; d != dim && wanted_first < 2; wanted_first++) {
            SpmdSharding *moved = spmd_sharding_copy(partitioner->arena, whole);
            if (!joined_axes(search, now, dim, d, wanted_first, &moved->dims[d])) continue;
            if (search->shapes[turn]->dims[d] >= spmd_axes_product(partitioner->mesh, &moved->dims[d]))
                try_form(search, turn, dim, now, moved, way);
        }
    }
    if (!search->wanted->dims[dim].count && !search->wanted->unreduced)
        try_form(search, turn, dim, now, search->wanted, way);
    try_form(search, turn, dim, now, now, way);
    try_form(search, turn, dim, now, whole, way);
}

// Whether a dimension may be transformed in a turn: not twice, and the real one first or last.
static bool may_come(const Search *search, int32_t turn, int32_t dim, const Way *way) {
    for (int32_t i = 0; i < turn; i++)
        if (way->dims[i] == dim) return false;
    if (search->fft->type == HLO_FftType_RFFT) return is_real(search, dim) == (turn == 0);
    if (search->fft->type == HLO_FftType_IRFFT) return is_real(search, dim) == (turn == search->count - 1);
    return true;
}

// What is whole is transformed where it is. Otherwise every dimension is tried.
static void search_turn(Search *search, int32_t turn, const SpmdSharding *now, Way *way) {
    if (turn == search->count) {
        const int64_t last = spmd_path(search->partitioner, search->shapes[turn], now, 0, search->wanted)->cost;
        const int64_t cost = spmd_add_bytes(way->cost, last);
        if (cost >= search->best.cost) return;
        search->best = *way;
        search->best.cost = cost;
        return;
    }
    for (int32_t dim = search->first; dim < search->first + search->count; dim++) {
        if (!may_come(search, turn, dim, way) || now->dims[dim].count) continue;
        try_form(search, turn, dim, now, now, way);
        return;
    }
    for (int32_t dim = search->first; dim < search->first + search->count; dim++)
        if (may_come(search, turn, dim, way)) try_forms(search, turn, dim, now, way);
}

// The transform of one dimension, which is whole on this device.
static HloInstruction *transform_here(const Search *search, int32_t dim, HloInstruction *array) {
    SpmdPartitioner *partitioner = search->partitioner;
    const int64_t rank = array->shape->rank, length = length_of(search, dim);
    int64_t *order = HLO_ARENA_NEW(partitioner->arena, int64_t, rank);
    for (int64_t i = 0; i < rank; i++) order[i] = i;
    order[dim] = rank - 1;
    order[rank - 1] = dim;
    if (dim != rank - 1) array = spmd_emit_transpose(partitioner, array, order);
    array = spmd_emit_fft(partitioner, array, type_of(search, dim), &length, 1);
    return dim != rank - 1 ? spmd_emit_transpose(partitioner, array, order) : array;
}

static void emit_way(const Search *search, const HloInstruction *op) {
    SpmdPartitioner *partitioner = search->partitioner;
    SpmdLocal local = *search->local;
    for (int32_t turn = 0; turn < search->count; turn++) {
        const int32_t dim = search->best.dims[turn];
        // Annotations can move a batch of transforms, but not what lies between the dimensions of one.
        const bool is_own = search->count > 1 && (turn || !search->first);
        const SpmdReason reason = {.op = op, .what = is_own ? "the next dimension" : "operand 0", .is_own = is_own};
        local = spmd_reshard(partitioner, local, search->best.at[turn], 0, reason);
        const SpmdFourStep steps = steps_of(search, dim, local.sharding);
        local.hlo = search->best.in_steps[turn] ? spmd_emit_four_step(partitioner, &steps, local.hlo)
                                                : transform_here(search, dim, local.hlo);
        local.global = search->shapes[turn + 1];
        local.source = NULL;
    }
    spmd_define(partitioner, 0, local.hlo, local.sharding, 0, HLO_OPCODE_COUNT);
}

// The cheapest way to transform an array that is sharded.
static Way find_way(Search *search, const HloInstruction *op) {
    const bool from_real = search->fft->type == HLO_FftType_RFFT, to_real = search->fft->type == HLO_FftType_IRFFT;
    for (int32_t turn = 0; turn <= search->count; turn++) {
        const bool done = (from_real && turn > 0) || (to_real && turn == search->count);
        search->shapes[turn] = done ? op->shape : op->operands[0]->shape;
    }
    search->best.cost = INT64_MAX;
    Way way = {0};
    search_turn(search, 0, search->local->sharding, &way);
    assert(search->best.cost < INT64_MAX); /* gathering is always a way */
    return search->best;
}

// A transform of dimensions that are whole already is an op like others.
static HloStatus fft_partition(SpmdPartitioner *partitioner, const HloInstruction *op) {
    assert(hlo_is(op, HLO_OP_FFT));
    const SpmdLocal local = spmd_operand(partitioner, 0);
    const int32_t first = op->shape->rank - (int32_t)HLO_ATTRIBUTES(op, Fft)->length.count;
    bool sharded = false;
    for (int32_t d = first; local.hlo && d < op->shape->rank; d++) sharded |= local.sharding->dims[d].count > 0;
    if (!sharded || spmd_passed_sums(partitioner, op) || !hlo_shape_elements(op->shape) ||
        !hlo_shape_elements(local.global) || hlo_shape_is_dynamic(op->shape))
        return spmd_partition_default(partitioner, op);
    Search search = {.partitioner = partitioner,
                     .fft = HLO_ATTRIBUTES(op, Fft),
                     .local = &local,
                     .wanted = spmd_planned(partitioner, 0),
                     .count = op->shape->rank - first,
                     .first = first};
    search.best = find_way(&search, op);
    emit_way(&search, op);
    return HLO_SUCCESS;
}

// What propagation needs to know: how many exchanges of the operand's shard bring the axes of dimension `from` to
// dimension `to` of the result; 0 where they cannot come there.
static int32_t fft_exchanges(const SpmdMesh *mesh, const SpmdRule *rule, const SpmdSharding *operand, int32_t from,
                             int32_t to) {
    const HloInstruction *op = rule->op;
    const int64_t parts = spmd_axes_product(mesh, &operand->dims[from]);
    const int32_t first = op->shape->rank - (int32_t)HLO_ATTRIBUTES(op, Fft)->length.count;
    if (to == from) return HLO_ATTRIBUTES(op, Fft)->length.items[from - first] % parts ? 0 : 3;
    return to < first || !operand->dims[to].count ? 1 : 0;
}

const SpmdOp spmd_op_fft = {.name = "fft", .rule = fft_rule, .partition = fft_partition, .exchanges = fft_exchanges};
