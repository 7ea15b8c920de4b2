// SPDX-License-Identifier: Apache-2.0
// Derivatives of ragged-dot. With g groups of m, which is free in the first kind and contracted in the second,
//     rows     x[m,k] y[g,k,n] -> z[m,n]        sums     x[m,k] y[m,n] -> z[g,k,n]
// each kind's cotangents are products of the two kinds: of rows, x' = rows(z, y) over n and y' = sums(x, z) over m; of
// sums, x' = rows(y, z) over n and y' = rows(x, z) over k. In the third kind, groups of batches, all products are of
// that kind.
#include "hlo/ir/infer/support.h"
#include "hlo/transform/batch.h"
#include "hlo/transform/structure.h"

static HloInstruction *apply_ragged(HloJvp *j, HloInstruction *left, HloInstruction *right) {
    return hlo_jvp_apply(j, (HloInstruction *[]){left, right, hlo_jvp_operand(j, 2)}, 3);
}

void hlo_jvp_ragged_dot(HloJvp *j, HloInstruction **out) {
    HloInstruction *t = hlo_jvp_tangent(j, 0), *u = hlo_jvp_tangent(j, 1);
    if (t) out[0] = apply_ragged(j, t, hlo_jvp_operand(j, 1));
    if (u) out[0] = hlo_transform_sum(j->b, out[0], apply_ragged(j, hlo_jvp_operand(j, 0), u));
}

// A list of dimensions that grows.
typedef struct Dims {
    int64_t items[HLO_MAXIMUM_RANK], count;
} Dims;

static void push(Dims *dims, int64_t item) {
    dims->items[dims->count++] = item;
}

static HloInts list(const Dims *dims) {
    return (HloInts){dims->items, dims->count};
}

// The dimensions that are neither batch nor contracted nor the group dimension `skip`, in order.
static Dims free_dims(const HloShape *shape, HloInts batch, HloInts contracting, int64_t skip) {
    Dims result = {0};
    for (int64_t i = 0; i < shape->rank; i++)
        if (!hlo_ints_contain(batch, i) && !hlo_ints_contain(contracting, i) && i != skip) push(&result, i);
    return result;
}

static Dims counted(int64_t first, int64_t count) {
    Dims result = {0};
    for (int64_t i = 0; i < count; i++) push(&result, first + i);
    return result;
}

// What the dimensions of the instruction are, on each side and in the result z.
typedef struct Ragged {
    HloInts batch[2], contracting[2];
    Dims free[2], sorted, z_batch, z_free[2];
    int64_t group;  // of the right side, or -1
    bool sums, batches;
} Ragged;

static Ragged dimensions_of(const HloInstruction *i) {
    const HloDotAttributes *dot = HLO_ATTRIBUTES(i, Dot);
    Ragged r = {.batch = {dot->lhs_batch, dot->rhs_batch},
                .contracting = {dot->lhs_contracting, dot->rhs_contracting},
                .sums = hlo_ints_contain(dot->lhs_contracting, dot->lhs_ragged.items[0]),
                .batches = hlo_ints_contain(dot->lhs_batch, dot->lhs_ragged.items[0])};
    r.group = dot->rhs_group.count ? dot->rhs_group.items[0] : -1;
    for (int side = 0; side < 2; side++)
        r.free[side] =
            free_dims(i->operands[side]->shape, r.batch[side], r.contracting[side], side == 1 ? r.group : -1);
    const int64_t first = r.sums ? 1 : 0, batch = first + r.batch[0].count;
    r.z_batch = counted(first, r.batch[0].count);
    r.z_free[0] = counted(batch, r.free[0].count);
    r.z_free[1] = counted(batch + r.free[0].count, r.free[1].count);
    return r;
}

// Dimension `of` a list of one side, in the list that pairs it.
static int64_t partner(HloInts from, HloInts to, int64_t of) {
    for (int64_t i = 0; i < from.count; i++)
        if (from.items[i] == of) return to.items[i];
    return -1;
}

// Appends to `order` the dimensions of x that are contracted, in the order of their partners on the other side.
static void push_contracted(Dims *order, HloInts x, HloInts other) {
    for (int64_t n = 0; n < other.count; n++) {
        int64_t least = -1;
        for (int64_t i = 0; i < other.count; i++) {
            int64_t rank = 0;
            for (int64_t k = 0; k < other.count; k++) rank += other.items[k] < other.items[i];
            if (rank == n) least = x.items[i];
        }
        push(order, least);
    }
}

// Operand `side` with its contracted dimensions in the order of the attributes, in which there are lists of groups: as
// free dimensions of another product they have that order. `r` then describes the operand returned.
static HloInstruction *with_contracted_in_order(HloTransposer *t, int side, Ragged *r) {
    const HloInts contracting = r->contracting[side];
    HloInstruction *x = hlo_transposer_residual(t, side);
    bool ascending = true;
    for (int64_t i = 1; i < contracting.count; i++) ascending &= contracting.items[i - 1] < contracting.items[i];
    if (ascending || !r->sums || !x) return x;
    Dims order = {0};
    for (int64_t i = 0; i < r->batch[side].count; i++) push(&order, r->batch[side].items[i]);
    for (int64_t i = 0; i < contracting.count; i++) push(&order, contracting.items[i]);
    for (int64_t i = 0; i < r->free[side].count; i++) push(&order, r->free[side].items[i]);
    r->sorted = counted(0, x->shape->rank);
    const int64_t batch = r->batch[side].count, first = batch + contracting.count;
    r->batch[side] = (HloInts){r->sorted.items, batch};
    r->contracting[side] = (HloInts){r->sorted.items + batch, contracting.count};
    r->free[side] = counted(first, r->free[side].count);
    return hlo_build_transpose(t->b, x, list(&order));
}

// The product `z`, whose dimensions are those of x listed in `order`, given to operand `side`.
static void give(HloTransposer *t, int64_t side, HloInstruction *z, const Dims *order) {
    int64_t permutation[HLO_MAXIMUM_RANK];
    const HloShape *x = t->instruction->operands[side]->shape;
    for (int64_t i = 0; i < order->count; i++) permutation[order->items[i]] = i;
    z = hlo_build_transpose(t->b, z, (HloInts){permutation, x->rank});
    if (z && z->shape->type != x->type) z = hlo_build_convert(t->b, z, x->type);
    hlo_transposer_give(t, side, z);
}

void hlo_transpose_ragged_dot(HloTransposer *t, HloInstruction *cotangent) {
    const HloInstruction *i = t->instruction;
    const HloDotAttributes *dot = HLO_ATTRIBUTES(i, Dot);
    Ragged r = dimensions_of(i);
    const int side = hlo_transposer_is_linear(t, 0) ? 0 : 1, other = 1 - side;
    const int64_t ragged = dot->lhs_ragged.items[0];
    // Position of the ragged dimension among the contracted ones, which stays when these are put in order.
    int64_t at = 0;
    while (r.sums && r.contracting[0].items[at] != dot->lhs_ragged.items[0]) at++;
    HloInstruction *y = with_contracted_in_order(t, other, &r), *sizes = hlo_transposer_residual(t, 2), *left, *right;
    Dims order = {0}, row = {0}, group = {0};
    HloDotAttributes attributes = {.precision = dot->precision};
    if (!y || !cotangent || !sizes) return;
    if (r.sums || side == 1) {  // y is the left operand, and z the right one
        left = y;
        right = cotangent;
        attributes.lhs_batch = r.batch[other];
        attributes.rhs_batch = list(&r.z_batch);
        attributes.lhs_contracting = list(&r.free[other]);
        attributes.rhs_contracting = list(&r.z_free[other]);
        push(&row, r.sums ? r.contracting[other].items[at] : ragged);
        if (r.sums) push(&group, 0);
        if (r.group >= 0) push(&order, r.group);
        for (int64_t k = 0; k < r.batch[side].count; k++) push(&order, r.batch[side].items[k]);
        push_contracted(&order, r.contracting[side], r.contracting[other]);
        for (int64_t k = 0; k < r.free[side].count; k++) push(&order, r.free[side].items[k]);
    } else {
        left = cotangent;
        right = y;
        attributes.lhs_batch = list(&r.z_batch);
        attributes.rhs_batch = r.batch[1];
        attributes.lhs_contracting = list(&r.z_free[1]);
        attributes.rhs_contracting = list(&r.free[1]);
        push(&row, r.batches ? partner(r.batch[0], list(&r.z_batch), ragged)
                             : partner(list(&r.free[0]), list(&r.z_free[0]), ragged));
        if (r.group >= 0) push(&group, r.group);
        for (int64_t k = 0; k < r.batch[0].count; k++) push(&order, r.batch[0].items[k]);
        for (int64_t k = 0; k < r.free[0].count; k++) push(&order, r.free[0].items[k]);
        push_contracted(&order, r.contracting[0], r.contracting[1]);
    }
    attributes.lhs_ragged = list(&row);
    attributes.rhs_group = list(&group);
    give(t, side, hlo_build_ragged_dot(t->b, left, right, sizes, &attributes, cotangent->shape->type), &order);
}

// ---------------------------------------------------------------------------------------------------------------------
// vmap

// The sizes of the groups: one list for all products, or for each index of the dimensions that the shape rule names,
// to which the new dimension belongs if the sizes are batched.
static HloInstruction *group_sizes(HloBatch *v) {
    const HloDotAttributes *dot = HLO_ATTRIBUTES(v->old, Dot);
    const HloShape *old = v->old->operands[2]->shape, *left = v->old->operands[0]->shape;
    if (!hlo_batch_has(v, 2)) return old->rank == 1 ? hlo_batch_plain(v, 2) : hlo_batch_operand(v, 2);
    const HloInts lists = hlo_ragged_list_dims(v->scratch, dot);
    if (old->rank > 1 || lists.count == 0) return hlo_batch_plain(v, 2);
    int64_t dims[HLO_MAXIMUM_RANK] = {v->size}, count = 1;
    for (int64_t i = 0; i < lists.count; i++) dims[count++] = left->dims[lists.items[i]];
    dims[count] = old->dims[0];
    return hlo_build_broadcast(v->b, hlo_batch_plain(v, 2), (HloInts){dims, count + 1}, HLO_DIMS(0, count));
}

// As a dot; groups that differ by item make the new dimension a batch dimension too.
void hlo_batch_ragged_dot(HloBatch *v, HloInstruction **out) {
    const HloDotAttributes *old = HLO_ATTRIBUTES(v->old, Dot);
    const HloShape *sizes = v->old->operands[2]->shape, *shape = v->old->operands[0]->shape;
    const bool alike = !hlo_batch_has(v, 2) && sizes->rank == 1;
    const bool left = !alike || hlo_batch_has(v, 0), right = !alike || hlo_batch_has(v, 1), both = left && right;
    const int64_t first = hlo_ints_contain(old->lhs_contracting, old->lhs_ragged.items[0]) ? 1 : 0;
    const int64_t batch = first + old->lhs_batch.count;
    const int64_t free = shape->rank - old->lhs_batch.count - old->lhs_contracting.count;
    HloDotAttributes dot = *old;
    if (left) {
        dot.lhs_batch = hlo_batch_shift(v, dot.lhs_batch, both ? 0 : -1);
        dot.lhs_contracting = hlo_batch_shift(v, dot.lhs_contracting, -1);
        dot.lhs_ragged = hlo_batch_shift(v, dot.lhs_ragged, -1);
    }
    if (right) {
        dot.rhs_batch = hlo_batch_shift(v, dot.rhs_batch, both ? 0 : -1);
        dot.rhs_contracting = hlo_batch_shift(v, dot.rhs_contracting, -1);
        dot.rhs_group = hlo_batch_shift(v, dot.rhs_group, -1);
    }
    HloInstruction *x = left ? hlo_batch_operand(v, 0) : hlo_batch_plain(v, 0);
    HloInstruction *y = right ? hlo_batch_operand(v, 1) : hlo_batch_plain(v, 1);
    HloInstruction *product = hlo_build_ragged_dot(v->b, x, y, group_sizes(v), &dot, v->old->shape->type);
    out[0] = hlo_batch_move_dimension(v->b, product, both ? first : left ? batch : batch + free, 0);
}
