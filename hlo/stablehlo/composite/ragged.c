// SPDX-License-Identifier: Apache-2.0
// The decomposition of chlo.ragged_dot, for readers that do not know it: one product whose left side has a copy for
// each group, with zeros outside the group. G groups, r the ragged dimension:
//
//   r kept         [M,K] x [G,K,N] -> [M,N]        masked [M,K,G], contracted over K and G
//   r contracting  [M,K] x [K,N]   -> [G,M,N]      masked [M,K,G], contracted over K; G comes to the front
//   r a batch      [B,M,K] x [B,K,N] -> [B,M,N]    the product as it is
//
// XLA makes one product per group instead, a program that grows with the number of groups. As in XLA, an infinity in
// the right side of one group turns the zeros of all others into NaNs.
#include <assert.h>
#include <string.h>

#include "hlo/ir/infer/support.h"
#include "hlo/stablehlo/composite/composite.h"
#include "hlo/stablehlo/import/chlo_math.h"
#include "hlo/stablehlo/import/import.h"

static HloInts with_last(HloArena *arena, HloInts ints, int64_t last) {
    int64_t *items = HLO_ARENA_NEW(arena, int64_t, ints.count + 1);
    if (ints.count) memcpy(items, ints.items, (size_t)ints.count * sizeof(*items));
    items[ints.count] = last;
    return (HloInts){items, ints.count + 1};
}

static HloInstruction *count_along(Math *math, const HloShape *shape, int64_t dimension) {
    const HloIotaAttributes iota = {.dimension = dimension};
    return emit(math, HLO_OP_IOTA, shape, NULL, 0, &iota);
}

static HloInstruction *spread(Math *math, HloInstruction *x, HloInts dims) {
    const HloDimensionsAttributes attributes = {dims};
    return emit(math, HLO_OP_BROADCAST, hlo_shape_with_type(import_arena(math->place), math->shape, x->shape->type), &x,
                1, &attributes);
}

// The end of each group: the sizes times a triangle of ones adds up the sizes before it.
static HloInstruction *ends_of(Math *math, HloInstruction *sizes) {
    HloArena *arena = import_arena(math->place);
    const int64_t last = sizes->shape->rank - 1, groups = sizes->shape->dims[last], first = 0;
    const int64_t dims[] = {groups, groups};
    const HloShape *square = hlo_shape_with_default_layout(arena, hlo_shape_array(arena, HLO_S64, dims, 2));
    HloInstruction *row = count_along(math, square, 0), *column = count_along(math, square, 1);
    HloInstruction *ones = compare(math, HLO_ComparisonDirection_LE, row, column);
    HloInstruction *operands[] = {sizes, emit(math, HLO_OP_CONVERT, square, &ones, 1, NULL)};
    const HloDotAttributes dot = {.lhs_contracting = hlo_ints(arena, &last, 1),
                                  .rhs_contracting = hlo_ints(arena, &first, 1)};
    return emit(math, HLO_OP_DOT, sizes->shape, operands, 2, &dot);
}

// The left side with a copy for each group along its last dimension, zero outside the group.
static HloInstruction *masked(Math *math, HloInstruction *lhs, HloInstruction *sizes, const HloDotAttributes *dot) {
    HloArena *arena = import_arena(math->place);
    const HloShape *shape = lhs->shape;
    const HloInts all = with_last(arena, hlo_shape_dims(shape), sizes->shape->dims[sizes->shape->rank - 1]);
    math->shape = hlo_shape_with_default_layout(arena, hlo_shape_array(arena, shape->type, all.items, all.count));
    int64_t *kept = HLO_ARENA_NEW(arena, int64_t, shape->rank);
    for (int64_t d = 0; d < shape->rank; d++) kept[d] = d;
    const HloInts lists = sizes->shape->rank > 1 ? hlo_ragged_list_dims(arena, dot) : (HloInts){0};
    const HloInts places = with_last(arena, lists, shape->rank);
    const HloShape *numbers = hlo_shape_with_type(arena, sizes->shape, HLO_S64);
    sizes = emit(math, HLO_OP_CONVERT, numbers, &sizes, 1, NULL);
    if (!sizes) return NULL;
    HloInstruction *end = ends_of(math, sizes);
    if (!end) return NULL;
    HloInstruction *start = subtract(math, end, sizes);
    HloInstruction *at = count_along(math, hlo_shape_with_type(arena, math->shape, HLO_S64), dot->lhs_ragged.items[0]);
    if (!start) return NULL;
    HloInstruction *from = compare(math, HLO_ComparisonDirection_GE, at, spread(math, start, places));
    HloInstruction *to = compare(math, HLO_ComparisonDirection_LT, at, spread(math, end, places));
    HloInstruction *inside = binary(math, HLO_OP_AND, from, to);
    return select(math, inside, spread(math, lhs, (HloInts){kept, shape->rank}), number(math, 0));
}

// The product with the result `shape`; its dimension of groups, at `groups_at`, is then moved to the front.
static HloInstruction *product_by_groups(Math *math, HloInstruction *const *sides, const HloDotAttributes *dot,
                                         const HloShape *shape, int64_t groups_at) {
    HloArena *arena = import_arena(math->place);
    const int64_t rank = shape->rank;
    int64_t *dims = HLO_ARENA_NEW(arena, int64_t, rank), *order = HLO_ARENA_NEW(arena, int64_t, rank);
    for (int64_t i = 0; i < rank; i++) {
        order[i] = i == 0 ? groups_at : i <= groups_at ? i - 1 : i;
        dims[order[i]] = shape->dims[i];
    }
    const HloShape *before = hlo_shape_with_default_layout(arena, hlo_shape_array(arena, shape->type, dims, rank));
    HloInstruction *product = emit(math, HLO_OP_DOT, before, sides, 2, dot);
    const HloDimensionsAttributes transpose = {{order, rank}};
    return emit(math, HLO_OP_TRANSPOSE, shape, &product, 1, &transpose);
}

HloStatus composite_decompose_ragged(ImportPlace *place, const MlirOperation *operation,
                                     HloInstruction *const *operands, HloInstruction **result) {
    HloArena *arena = import_arena(place);
    MlirOperation told = *operation;
    ImportPlace source = {place->importer, place->computation, &told};
    HloDotAttributes dot = {0};
    HLO_TRY(import_fields(&source, HLO_OP_RAGGED_DOT, &dot));
    assert(dot.lhs_ragged.count == 1); /* the module is verified */
    const int64_t ragged = dot.lhs_ragged.items[0], rank = operands[0]->shape->rank;
    const bool contracting = hlo_ints_contain(dot.lhs_contracting, ragged);
    const HloShape *shape = hlo_shape_with_default_layout(arena, operation->results[0]->type->shape);
    Math math = {.place = place};
    HloInstruction *sides[] = {operands[0], operands[1]};
    HloDotAttributes plain = dot;
    plain.lhs_ragged = plain.rhs_group = (HloInts){0};
    if (!hlo_ints_contain(dot.lhs_batch, ragged)) {
        sides[0] = masked(&math, operands[0], operands[2], &dot);
        HLO_TRY(math.status);
    }
    if (contracting) {
        // The copies are the last free dimension of the left side; free dimensions follow the batches.
        *result = product_by_groups(&math, sides, &plain, shape, rank - dot.lhs_contracting.count);
        return math.status;
    }
    if (sides[0] != operands[0]) {
        plain.lhs_contracting = with_last(arena, dot.lhs_contracting, rank);
        plain.rhs_contracting = with_last(arena, dot.rhs_contracting, dot.rhs_group.items[0]);
    }
    *result = emit(&math, HLO_OP_DOT, shape, sides, 2, &plain);
    return math.status;
}
