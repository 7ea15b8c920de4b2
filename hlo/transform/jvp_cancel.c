// SPDX-License-Identifier: Apache-2.0
// Values whose derivative in a part of the program cancels: a softmax does not depend on the maximum that it subtracts.
//
// JAX marks these maxima with stop_gradient, which exported programs have lost. The derivative through them is zero all
// the same, but made of sums, selects and, where the rows are sharded, collectives:
//
//     m = max(x);  e = exp(x - m);  s = sum(e);  p = e / s         e and s are multiplied by exp(-m), p is not
//
// What every value becomes if m grows by d is followed through the users of m, in the order of the program: nothing, a
// multiple of d is added, or it is multiplied by exp of a multiple of d. m has no derivative where nothing is what
// becomes of all values in the end. Anything else that is met, and a result that depends on m, means that it has one.
#include <math.h>

#include "hlo/transform/structure.h"

enum { MOST_VALUES = 96, MOST_CALLS = 4 };  // that depend on one maximum; softmax and log_softmax need a dozen

// What becomes of an array.
typedef struct Change {
    double added, factor;          // d * added is added, or it is multiplied by exp(d * factor); at most one is not 0
    int64_t of[HLO_MAXIMUM_RANK];  // the dimension of m along which d changes with this dimension; -1 for none
} Change;

typedef struct Walk {
    HloJvp *j;
    const HloInstruction *start;
    HloIntMap changes;   // by id: a Change
    HloIntMap *numbers;  // by id: the position in the computation
    HloInstructionVector pending;
    int64_t visited, depth;
    Change result;  // of the root
} Walk;

static const Change kNothing;

static bool is_nothing(const Change *c) {
    return c->added == 0 && c->factor == 0;
}

static const Change *change_of(const Walk *w, const HloInstruction *i) {
    const int64_t *found = hlo_int_map_find(&w->changes, (uint64_t)i->id);
    return found ? (const Change *)(intptr_t)*found : &kNothing;
}

static bool same_dimensions(const Change *a, const Change *b, int64_t rank) {
    return memcmp(a->of, b->of, (size_t)rank * sizeof *a->of) == 0;
}

// The number in a constant, or broadcast from it; NaN if there is none.
static double splat(const HloInstruction *i) {
    while (hlo_is(i, HLO_OP_BROADCAST)) i = i->operands[0];
    const HloLiteral *literal = hlo_is(i, HLO_OP_CONSTANT) ? hlo_constant_literal(i) : NULL;
    return literal && hlo_shape_elements(literal->shape) > 0 && hlo_literal_is_splat(literal) &&
                   hlo_type_is_float(literal->shape->type)
               ? hlo_literal_get_double(literal, 0)
               : NAN;
}

// ---- rules: each sets `c`, which has the change of operand 0 before, and returns false if there is no simple change

// The change of a sum (sign 1) or difference (-1).
static bool of_sum(const HloInstruction *i, const Change *x, const Change *y, double sign, Change *c) {
    if (x->factor != y->factor) return false;
    *c = is_nothing(x) ? *y : *x;
    c->added = x->added + sign * y->added;
    return is_nothing(x) || is_nothing(y) || same_dimensions(x, y, i->shape->rank);
}

static bool of_product(const HloInstruction *i, const Change *x, const Change *y, double sign, Change *c) {
    if (x->added != 0 || y->added != 0) return false;
    *c = is_nothing(x) ? *y : *x;
    c->factor = x->factor + sign * y->factor;
    return is_nothing(x) || is_nothing(y) || same_dimensions(x, y, i->shape->rank);
}

static bool of_exp(Change *c) {
    const double added = c->added;
    if (c->factor != 0) return false;
    c->factor = added;
    c->added = 0;
    return true;
}

static bool of_log(Change *c) {
    const double factor = c->factor;
    if (c->added != 0) return false;
    c->added = factor;
    c->factor = 0;
    return true;
}

// x where p, else zero; or a value kept where it is finite: the maximum of a row of negative infinities.
static bool of_select(const Walk *w, const HloInstruction *i, Change *c) {
    const HloInstruction *p = i->operands[0], *x = i->operands[1], *y = i->operands[2];
    const Change *of_x = change_of(w, x), *of_y = change_of(w, y);
    if (!is_nothing(of_x) && !is_nothing(of_y)) {
        *c = *of_x;
        return of_x->added == of_y->added && of_x->factor == of_y->factor &&
               same_dimensions(of_x, of_y, i->shape->rank);
    }
    const HloInstruction *other = is_nothing(of_x) ? x : y;
    *c = is_nothing(of_x) ? *of_y : *of_x;
    if (c->factor != 0) return splat(other) == 0;
    return other == y && !isnan(splat(y)) && hlo_is(p, HLO_OP_IS_FINITE) && p->operands[0] == x;
}

// The maximum with negative infinity, or the minimum with infinity, is the value itself.
static bool of_extreme(const Walk *w, const HloInstruction *i, Change *c) {
    const int changing = is_nothing(change_of(w, i->operands[0])) ? 1 : 0;
    *c = *change_of(w, i->operands[changing]);
    return c->factor == 0 && splat(i->operands[1 - changing]) == (hlo_is(i, HLO_OP_MAXIMUM) ? -INFINITY : INFINITY);
}

static bool of_broadcast(const HloInstruction *i, Change *c) {
    const HloInts mapping = HLO_ATTRIBUTES(i, Dimensions)->dimensions;
    const Change from = *c;
    for (int64_t d = 0; d < i->shape->rank; d++) c->of[d] = -1;
    for (int64_t d = 0; d < mapping.count; d++) c->of[mapping.items[d]] = from.of[d];
    return true;
}

// Dimensions of size 1 come and go; the others must stay.
static bool of_reshape(const HloInstruction *i, Change *c) {
    const HloShape *from = i->operands[0]->shape, *to = i->shape;
    const Change old = *c;
    int64_t k = 0;
    for (int64_t d = 0; d < to->rank; d++) {
        c->of[d] = -1;
        if (to->dims[d] == 1) continue;
        while (k < from->rank && from->dims[k] == 1) k++;
        if (k == from->rank || from->dims[k] != to->dims[d]) return false;
        c->of[d] = old.of[k++];
    }
    while (k < from->rank && from->dims[k] == 1) k++;
    return k == from->rank;
}

static bool of_transpose(const HloInstruction *i, Change *c) {
    const HloInts order = HLO_ATTRIBUTES(i, Dimensions)->dimensions;
    const Change old = *c;
    for (int64_t d = 0; d < order.count; d++) c->of[d] = old.of[order.items[d]];
    return true;
}

// Along a dimension in which d changes, an element must stay where it is.
static bool of_slice(const HloInstruction *i, const Change *c) {
    for (int64_t d = 0; d < i->shape->rank; d++)
        if (c->of[d] >= 0 && i->shape->dims[d] != i->operands[0]->shape->dims[d]) return false;
    return true;
}

// A sum of what is multiplied by one number.
static bool of_reduce(const Walk *w, const HloInstruction *i, Change *c) {
    const HloInts reduced = HLO_ATTRIBUTES(i, Dimensions)->dimensions;
    if (i->operand_count != 2 || hlo_computation_binary_opcode(i->called[0]) != HLO_OP_ADD || c->added != 0 ||
        !is_nothing(change_of(w, i->operands[1])) || splat(i->operands[1]) != 0)
        return false;
    const Change old = *c;
    int64_t k = 0;
    for (int64_t d = 0; d < i->operands[0]->shape->rank; d++) {
        const bool gone = hlo_ints_contain(reduced, d);
        if (gone && old.of[d] >= 0) return false;
        if (!gone) c->of[k++] = old.of[d];
    }
    return true;
}

// A sum over devices that have the same maximum.
static bool of_all_reduce(const Walk *w, const HloInstruction *i, const Change *c) {
    if (i->operand_count != 1 || c->added != 0 || !hlo_is(w->start, HLO_OP_ALL_REDUCE) ||
        hlo_computation_binary_opcode(i->called[0]) != HLO_OP_ADD)
        return false;
    const HloCollectiveAttributes *a = HLO_ATTRIBUTES(i, Collective), *b = HLO_ATTRIBUTES(w->start, Collective);
    return a->use_global_device_ids == b->use_global_device_ids && (a->channel_id > 0) == (b->channel_id > 0) &&
           hlo_replica_groups_equal(a->replica_groups, b->replica_groups);
}

static bool of_dot(const Walk *w, const HloInstruction *i, Change *c) {
    const HloDotAttributes *a = HLO_ATTRIBUTES(i, Dot);
    const int changing = is_nothing(change_of(w, i->operands[0])) ? 1 : 0;
    const Change old = *change_of(w, i->operands[changing]);
    if (i->operand_count != 2 || old.added != 0 || !is_nothing(change_of(w, i->operands[1 - changing]))) return false;
    int64_t k = 0;
    *c = old;
    for (int64_t d = 0; d < HLO_MAXIMUM_RANK; d++) c->of[d] = -1;
    for (; k < a->lhs_batch.count; k++) c->of[k] = old.of[(changing ? a->rhs_batch : a->lhs_batch).items[k]];
    for (int side = 0; side < 2; side++) {
        const HloInts batch = side ? a->rhs_batch : a->lhs_batch,
                      summed = side ? a->rhs_contracting : a->lhs_contracting;
        for (int64_t d = 0; d < i->operands[side]->shape->rank; d++) {
            if (side == changing && hlo_ints_contain(summed, d) && old.of[d] >= 0) return false;
            if (hlo_ints_contain(batch, d) || hlo_ints_contain(summed, d)) continue;
            c->of[k++] = side == changing ? old.of[d] : -1;
        }
    }
    return true;
}

static bool follow(Walk *w, const HloComputation *computation);

static bool of_call(const Walk *w, const HloInstruction *i, Change *c) {
    const HloComputation *called = i->called[0];
    Walk inner = {.j = w->j, .start = w->start, .numbers = w->numbers, .visited = w->visited, .depth = w->depth + 1};
    if (inner.depth > MOST_CALLS || w->j->rule_count > 0) return false;
    for (int32_t k = 0; k < i->operand_count; k++) {
        const Change *of = change_of(w, i->operands[k]);
        if (is_nothing(of)) continue;
        hlo_transform_store(w->j->scratch, &inner.changes, called->parameters.items[k], of);
        for (int64_t u = 0; u < called->parameters.items[k]->users.count; u++)
            hlo_vector_push(w->j->scratch, &inner.pending, called->parameters.items[k]->users.items[u]);
    }
    if (!follow(&inner, called)) return false;
    *c = inner.result;
    return true;
}

// What becomes of `i`, of whose operands at least one changes.
static bool change(const Walk *w, const HloInstruction *i, Change *c) {
    const Change *x = i->operand_count > 0 ? change_of(w, i->operands[0]) : &kNothing,
                 *y = i->operand_count > 1 ? change_of(w, i->operands[1]) : &kNothing;
    const HloCustomCallKind kind = hlo_is(i, HLO_OP_CUSTOM_CALL) ? hlo_custom_call_kind(i) : HLO_CALL_UNKNOWN;
    *c = *x;
    if (!hlo_shape_is_array(i->shape)) return false;
    if (!hlo_transform_is_continuous(i->shape->type) || hlo_jvp_rule(i->opcode) == hlo_jvp_zero) {
        *c = kNothing;
        return true;
    }
    switch (i->opcode) {
        case HLO_OP_ADD: return of_sum(i, x, y, 1, c);
        case HLO_OP_SUBTRACT: return of_sum(i, x, y, -1, c);
        case HLO_OP_MULTIPLY: return of_product(i, x, y, 1, c);
        case HLO_OP_DIVIDE: return of_product(i, x, y, -1, c);
        case HLO_OP_NEGATE: c->added = -c->added; return true;
        case HLO_OP_EXP: return of_exp(c);
        case HLO_OP_LOG: return of_log(c);
        case HLO_OP_ABS: return c->added == 0;
        case HLO_OP_SELECT: return is_nothing(x) && of_select(w, i, c);
        case HLO_OP_MAXIMUM:
        case HLO_OP_MINIMUM: return of_extreme(w, i, c);
        case HLO_OP_CONVERT: return hlo_type_kind(i->operands[0]->shape->type) == hlo_type_kind(i->shape->type);
        case HLO_OP_COPY: return true;
        case HLO_OP_BROADCAST: return of_broadcast(i, c);
        case HLO_OP_RESHAPE: return of_reshape(i, c);
        case HLO_OP_TRANSPOSE: return of_transpose(i, c);
        case HLO_OP_SLICE: return of_slice(i, c);
        case HLO_OP_REDUCE: return of_reduce(w, i, c);
        case HLO_OP_ALL_REDUCE: return of_all_reduce(w, i, c);
        case HLO_OP_DOT: return of_dot(w, i, c);
        case HLO_OP_CALL: return of_call(w, i, c);
        case HLO_OP_CUSTOM_CALL: return kind == HLO_CALL_SHARDING || kind == HLO_CALL_IDENTITY;
        default: return false;
    }
}

// ---- the walk

static int64_t number_of(Walk *w, const HloInstruction *i) {
    const int64_t *found = hlo_int_map_find(w->numbers, (uint64_t)i->id);
    if (found) return *found;
    int64_t number = 0;
    for (const HloInstruction *each = i->parent->first; each; each = each->next)
        hlo_int_map_set(w->j->scratch, w->numbers, (uint64_t)each->id, number++);
    return *hlo_int_map_find(w->numbers, (uint64_t)i->id);
}

// Takes the first of the pending ones in the program's order, so that its operands have been visited.
static const HloInstruction *take(Walk *w) {
    int64_t first = 0;
    for (int64_t k = 1; k < w->pending.count; k++)
        if (number_of(w, w->pending.items[k]) < number_of(w, w->pending.items[first])) first = k;
    const HloInstruction *result = w->pending.items[first];
    int64_t kept = 0;
    for (int64_t k = 0; k < w->pending.count; k++)
        if (w->pending.items[k] != result) w->pending.items[kept++] = w->pending.items[k];
    w->pending.count = kept;
    return result;
}

// Follows the changes through a computation. False if one is not simple.
static bool follow(Walk *w, const HloComputation *computation) {
    while (w->pending.count > 0) {
        const HloInstruction *i = take(w);
        Change c;
        if (++w->visited > MOST_VALUES || w->pending.count > MOST_VALUES || !change(w, i, &c)) return false;
        if (is_nothing(&c)) continue;
        hlo_transform_store(w->j->scratch, &w->changes, i, hlo_arena_copy(w->j->scratch, &c, sizeof c));
        for (int64_t u = 0; u < i->users.count; u++) hlo_vector_push(w->j->scratch, &w->pending, i->users.items[u]);
    }
    w->result = *change_of(w, computation->root);
    return true;
}

bool hlo_transform_cancels(HloJvp *j) {
    const HloInstruction *m = j->old;
    Walk w = {.j = j, .start = m, .numbers = &j->numbers};
    Change own = {.added = 1};
    if (!hlo_shape_is_array(m->shape) || m == m->parent->root) return false;
    for (int64_t d = 0; d < m->shape->rank; d++) own.of[d] = m->shape->dims[d] == 1 ? -1 : d;
    hlo_transform_store(j->scratch, &w.changes, m, &own);
    for (int64_t u = 0; u < m->users.count; u++) hlo_vector_push(j->scratch, &w.pending, m->users.items[u]);
    return follow(&w, m->parent) && is_nothing(&w.result);
}
