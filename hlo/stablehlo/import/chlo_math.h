// SPDX-License-Identifier: Apache-2.0
// Small graphs of elementwise HLO operations, all of one shape, from which chlo operations are built. Private to
// hlo/stablehlo.
#ifndef MESHLO_HLO_STABLEHLO_IMPORT_CHLO_MATH_H_
#define MESHLO_HLO_STABLEHLO_IMPORT_CHLO_MATH_H_

#include <assert.h>

#include "hlo/ir/build/formulas.h"
#include "hlo/stablehlo/import/import.h"

// The largest number of operands waiting for their operation: two per level of nesting, and formulas nest less than ten
// deep.
enum { MATH_MOST_PENDING = 24 };

// The graph under construction. After the first error nothing more is made, and values are NULL.
typedef struct Math {
    ImportPlace *place;
    const HloShape *shape;  // of every value but predicates
    HloStatus status;
    HloInstruction *pending[MATH_MOST_PENDING];  // operands of the operations that are being written down, see binary()
    int pending_count;
} Math;

// An instruction with `shape` (NULL: inferred from the operands), without a sharding.
static inline HloInstruction *emit(Math *math, HloOpcode opcode, const HloShape *shape, HloInstruction *const *operands,
                                   int64_t count, const void *attributes) {
    HloInstruction *result = NULL;
    if (math->status) return NULL;
    math->status = import_emit(math->place, opcode, shape, operands, count, attributes, NULL, 0, &result);
    if (result) result->sharding = NULL;
    return math->status ? NULL : result;
}

// An operation of one operand.
static inline HloInstruction *unary(Math *math, HloOpcode opcode, HloInstruction *a) {
    return emit(math, opcode, NULL, &a, 1, NULL);
}

// Pushes an operand that waits for its operation.
static inline void math_push(Math *math, HloInstruction *operand) {
    assert(math->pending_count < MATH_MOST_PENDING);
    math->pending[math->pending_count++] = operand;
}
// Applies an operation to the last `count` operands.
static inline HloInstruction *math_apply(Math *math, HloOpcode opcode, int count, const void *attributes) {
    assert(count <= math->pending_count);
    math->pending_count -= count;
    return emit(math, opcode, NULL, math->pending + math->pending_count, count, attributes);
}
// Operations of several operands. They are macros because formulas nest: C leaves the order in which arguments are
// evaluated to the compiler, and each argument appends instructions, so gcc and clang would make different programs of
// one formula. Commas put the operands in order. `math` is evaluated several times.
#define binary(math, opcode, a, b) \
    (math_push((math), (a)), math_push((math), (b)), math_apply((math), (opcode), 2, NULL))
// The four kinds of arithmetic.
#define add(math, a, b) binary((math), HLO_OP_ADD, (a), (b))
#define subtract(math, a, b) binary((math), HLO_OP_SUBTRACT, (a), (b))
#define multiply(math, a, b) binary((math), HLO_OP_MULTIPLY, (a), (b))
#define divide(math, a, b) binary((math), HLO_OP_DIVIDE, (a), (b))
// The number as an array of the computation's shape, with element type `type`.
static inline HloInstruction *number_of(Math *math, HloType type, double value) {
    HloArena *arena = import_arena(math->place);
    const HloShape *scalar = hlo_shape_with_default_layout(arena, hlo_shape_scalar(arena, type));
    HloLiteral *literal = hlo_literal_in_arena(arena, scalar);
    hlo_literal_set_double(literal, 0, value);
    HloConstantAttributes constant = {literal};
    HloInstruction *made = emit(math, HLO_OP_CONSTANT, scalar, NULL, 0, &constant);
    if (!made || math->shape->rank == 0) return made;
    HloDimensionsAttributes none = {0};
    return emit(math, HLO_OP_BROADCAST, hlo_shape_with_type(arena, math->shape, type), &made, 1, &none);
}

// The same in the computation's own type.
static inline HloInstruction *number(Math *math, double value) {
    return number_of(math, math->shape->type, value);
}

// The comparison of the last two operands.
static inline HloInstruction *math_compare(Math *math, int32_t direction) {
    const HloCompareAttributes attributes = {.direction = direction};
    return math_apply(math, HLO_OP_COMPARE, 2, &attributes);
}
// Predicates: HLO_ComparisonDirection_LT and so on.
#define compare(math, direction, a, b) \
    (math_push((math), (a)), math_push((math), (b)), math_compare((math), (direction)))
// `yes` where the condition holds, `no` elsewhere.
#define select(math, condition, yes, no)                                                \
    (math_push((math), (condition)), math_push((math), (yes)), math_push((math), (no)), \
     math_apply((math), HLO_OP_SELECT, 3, NULL))
// The same numbers in another type.
static inline HloInstruction *convert(Math *math, HloInstruction *a, HloType type) {
    const HloShape *shape = hlo_shape_with_type(import_arena(math->place), math->shape, type);
    return emit(math, HLO_OP_CONVERT, shape, &a, 1, NULL);
}

// Appends an instruction for the formulas that the builder has too (hlo/ir/build/formulas.h).
static inline HloInstruction *chlo_append(void *math, HloOpcode opcode, HloInstruction *const *operands, int64_t count,
                                          const void *attributes) {
    return emit(math, opcode, NULL, operands, count, attributes);
}
static inline HloInstruction *chlo_number(void *math, double value) {
    return number(math, value);
}
static inline HloGraph graph_of(Math *math) {
    return (HloGraph){chlo_append, chlo_number, math};
}

// c[0] x^(n-1) + ... + c[n-1]
static inline HloInstruction *polynomial(Math *math, HloInstruction *x, const double *coefficients, size_t count) {
    const HloGraph graph = graph_of(math);
    return hlo_graph_polynomial(&graph, x, coefficients, count);
}
#define POLYNOMIAL(math, x, table) polynomial((math), (x), (table), HLO_COUNT_OF(table))

// erfc(x) for |x| >= 1: exp(-x^2) / |x| times a polynomial in 1/x^2 (single precision, Cephes erfcf), or a quotient of
// two in |x| (double). At 0 it is NaN, and so is the slope: callers choose another x there.
HloInstruction *chlo_erfc_tail(Math *math, HloInstruction *x);
// erf(x) for |x| <= 1: x times a polynomial in x^2 (single precision), or a quotient of two (double).
HloInstruction *chlo_erf_near(Math *math, HloInstruction *x);

#endif
