// SPDX-License-Identifier: Apache-2.0
// Decompositions of chlo operations: the bodies of composites, for readers that do not know the operation. The formulas
// are the textbook ones, arranged so that nothing large cancels (the comment at each one explains how); the error
// function is Cephes' (ndtr.c).
//
// Each body is a separate computation, a graph of HLO ops on whole arrays, which StableHLO has too. Constants are given
// in double and rounded to the array's type; half precision is computed in single precision and rounded at the end.
#include <assert.h>
#include <math.h>
#include <string.h>

#include "hlo/stablehlo/composite/composite.h"
#include "hlo/stablehlo/import/chlo_math.h"

// ---------------------------------------------------------------------------------------------------------------------
// Real numbers

static HloInstruction *root(Math *math, HloInstruction *x) {
    return unary(math, HLO_OP_SQRT, x);
}

static HloInstruction *logarithm(Math *math, HloInstruction *x) {
    return unary(math, HLO_OP_LOG, x);
}

// sqrt((1 - x)(1 + x))
static HloInstruction *other_leg(Math *math, HloInstruction *x) {
    HloInstruction *one = number(math, 1);
    return root(math, multiply(math, subtract(math, one, x), add(math, one, x)));
}

// atan2 needs no division, which would be 0/0 at the ends.
static HloInstruction *acos_of(Math *math, HloInstruction *x) {
    return binary(math, HLO_OP_ATAN2, other_leg(math, x), x);
}

// The same triangle from its other corner.
static HloInstruction *asin_of(Math *math, HloInstruction *x) {
    return binary(math, HLO_OP_ATAN2, x, other_leg(math, x));
}

// From here on log(2x) is log(x + sqrt(x^2 + 1)) to the last bit, while x^2 is still far from infinite.
static double far_away(const Math *math) {
    return math->shape->type == HLO_F64 ? 1e9 : 1e5;
}

// log(2x) where x is far away, `near` elsewhere.
static HloInstruction *near_or_far(Math *math, HloInstruction *x, HloInstruction *near) {
    HloInstruction *far = add(math, logarithm(math, x), number(math, log(2)));
    HloInstruction *is_far = compare(math, HLO_ComparisonDirection_GT, x, number(math, far_away(math)));
    return select(math, is_far, far, near);
}

// log1p(y + sqrt(y (y + 2))), y = x - 1
static HloInstruction *acosh_of(Math *math, HloInstruction *x) {
    HloInstruction *y = subtract(math, x, number(math, 1));
    HloInstruction *leg = root(math, multiply(math, y, add(math, x, number(math, 1))));
    return near_or_far(math, x, unary(math, HLO_OP_LOG1P, add(math, y, leg)));
}

// sign(x) log1p(|x| + x^2 / (1 + sqrt(x^2 + 1)))
static HloInstruction *asinh_of(Math *math, HloInstruction *x) {
    HloInstruction *size = unary(math, HLO_OP_ABS, x), *square = multiply(math, x, x), *one = number(math, 1);
    HloInstruction *rest = divide(math, square, add(math, one, root(math, add(math, square, one))));
    HloInstruction *value = near_or_far(math, size, unary(math, HLO_OP_LOG1P, add(math, size, rest)));
    return multiply(math, unary(math, HLO_OP_SIGN, x), value);
}

// log1p keeps the digits of small arguments, which log((1 + x) / (1 - x)) loses.
static HloInstruction *atanh_of(Math *math, HloInstruction *x) {
    HloInstruction *minus = unary(math, HLO_OP_LOG1P, unary(math, HLO_OP_NEGATE, x));
    return multiply(math, number(math, 0.5), subtract(math, unary(math, HLO_OP_LOG1P, x), minus));
}

// exp(x) / 2 and exp(-x) / 2, which are finite where the halves of a hyperbolic function are.
static void half_powers(Math *math, HloInstruction *x, HloInstruction **up, HloInstruction **down) {
    HloInstruction *half = number(math, log(0.5));
    *up = unary(math, HLO_OP_EXP, add(math, half, x));
    *down = unary(math, HLO_OP_EXP, subtract(math, half, x));
}

// Halves before adding: exp(x) by itself overflows at 88.7 in single precision, cosh(x) only at 89.4.
static HloInstruction *cosh_of(Math *math, HloInstruction *x) {
    HloInstruction *up, *down;
    half_powers(math, x, &up, &down);
    return add(math, up, down);
}

// For small arguments the two powers cancel; (e + e / (e + 1)) / 2 with e = expm1(x) does not.
static HloInstruction *sinh_of(Math *math, HloInstruction *x) {
    HloInstruction *up, *down, *one = number(math, 1), *grown = unary(math, HLO_OP_EXPM1, x);
    half_powers(math, x, &up, &down);
    HloInstruction *sum = add(math, grown, divide(math, grown, add(math, grown, one)));
    HloInstruction *is_small = compare(math, HLO_ComparisonDirection_LT, unary(math, HLO_OP_ABS, x), one);
    return select(math, is_small, multiply(math, number(math, 0.5), sum), subtract(math, up, down));
}

// Up to one its own formula, 1 - erfc(|x|) beyond.
static HloInstruction *erf_of(Math *math, HloInstruction *x) {
    HloInstruction *size = unary(math, HLO_OP_ABS, x), *one = number(math, 1);
    HloInstruction *is_near = compare(math, HLO_ComparisonDirection_LT, size, one), *near = chlo_erf_near(math, x);
    HloInstruction *tail = chlo_erfc_tail(math, select(math, is_near, one, size));
    HloInstruction *far = multiply(math, unary(math, HLO_OP_SIGN, x), subtract(math, one, tail));
    return select(math, is_near, near, far);
}

// ---------------------------------------------------------------------------------------------------------------------
// Complex numbers, by logarithms and powers

// log(z + sqrt(z^2 + 1)), the definition of the principal value. It is inaccurate where z is large and negative; the
// operation itself exists for accuracy there.
static HloInstruction *complex_asinh(Math *math, HloInstruction *z) {
    return logarithm(math, add(math, z, root(math, add(math, multiply(math, z, z), number(math, 1)))));
}

// Two roots, not the root of a product: that would choose the other branch for half of all numbers.
static HloInstruction *complex_acosh(Math *math, HloInstruction *z) {
    HloInstruction *one = number(math, 1);
    HloInstruction *legs = multiply(math, root(math, add(math, z, one)), root(math, subtract(math, z, one)));
    return logarithm(math, add(math, z, legs));
}

// iz
static HloInstruction *turned(Math *math, HloInstruction *z) {
    HloInstruction *minus_b = unary(math, HLO_OP_NEGATE, unary(math, HLO_OP_IMAG, z));
    return binary(math, HLO_OP_COMPLEX, minus_b, unary(math, HLO_OP_REAL, z));
}

// -i asinh(iz)
static HloInstruction *complex_asin(Math *math, HloInstruction *z) {
    return unary(math, HLO_OP_NEGATE, turned(math, complex_asinh(math, turned(math, z))));
}

// pi/2 - asin(z)
static HloInstruction *complex_acos(Math *math, HloInstruction *z) {
    return subtract(math, number(math, M_PI / 2), complex_asin(math, z));
}

// (log(1 + z) - log(1 - z)) / 2
static HloInstruction *complex_atanh(Math *math, HloInstruction *z) {
    HloInstruction *one = number(math, 1);
    HloInstruction *difference =
        subtract(math, logarithm(math, add(math, one, z)), logarithm(math, subtract(math, one, z)));
    return multiply(math, number(math, 0.5), difference);
}

static HloInstruction *complex_cosh(Math *math, HloInstruction *z) {
    return cosh_of(math, z);
}

// (exp(z) - exp(-z)) / 2
static HloInstruction *complex_sinh(Math *math, HloInstruction *z) {
    HloInstruction *up, *down;
    half_powers(math, z, &up, &down);
    return subtract(math, up, down);
}

// ---------------------------------------------------------------------------------------------------------------------
// Integers

// Shifts arithmetically for signed types, so that the upper halves of mulhi_of() keep their sign.
static HloInstruction *shifted(Math *math, HloInstruction *x, int by) {
    const bool is_signed = hlo_type_info(math->shape->type)->kind == HLO_KIND_SIGNED;
    return binary(math, is_signed ? HLO_OP_SHIFT_RIGHT_ARITHMETIC : HLO_OP_SHIFT_RIGHT_LOGICAL, x, number(math, by));
}

// The upper half of a product, by multiplying halves: a = a1 2^n + a0, where a1 has the sign and a0 has none. The carry
// from the lower products fits, since (2^n - 1)^2 + 2 (2^n - 1) < 2^2n.
static HloInstruction *mulhi_of(Math *math, HloInstruction *a, HloInstruction *b) {
    const int half = hlo_type_info(math->shape->type)->bits / 2;
    HloInstruction *mask = number(math, (double)((UINT64_C(1) << half) - 1));
    HloInstruction *a0 = binary(math, HLO_OP_AND, a, mask), *b0 = binary(math, HLO_OP_AND, b, mask);
    HloInstruction *a1 = shifted(math, a, half), *b1 = shifted(math, b, half);
    HloInstruction *low = binary(math, HLO_OP_SHIFT_RIGHT_LOGICAL, multiply(math, a0, b0), number(math, half));
    HloInstruction *cross = add(math, multiply(math, a1, b0), low), *middle = multiply(math, a0, b1);
    middle = add(math, middle, binary(math, HLO_OP_AND, cross, mask));
    HloInstruction *high = add(math, multiply(math, a1, b1), shifted(math, cross, half));
    return add(math, high, shifted(math, middle, half));
}

// ---------------------------------------------------------------------------------------------------------------------
// The largest elements

// a > b in a total order: NaNs come first, and zero before minus zero.
static HloStatus make_comparator(ImportPlace *place, HloType type, HloComputation **result) {
    HloArena *arena = import_arena(place);
    const HloType types[] = {type, type, HLO_S32, HLO_S32};
    HloInstruction *operands[4], *order;
    ImportPlace inside = *place;
    inside.computation = hlo_computation_new(place->importer->module, "compare");
    for (int64_t i = 0; i < 4; i++) {
        const HloParameterAttributes number = {.number = i};
        const HloShape *scalar = hlo_shape_with_default_layout(arena, hlo_shape_scalar(arena, types[i]));
        operands[i] = hlo_instruction_new(inside.computation, HLO_OP_PARAMETER, scalar, NULL, 0, &number, NULL);
    }
    HloCompareAttributes attributes = {.direction = HLO_ComparisonDirection_GT};
    if (hlo_type_is_float(type)) attributes.type = HLO_ComparisonType_TOTALORDER;
    HLO_TRY(import_emit(&inside, HLO_OP_COMPARE, NULL, operands, 2, &attributes, NULL, 0, &order));
    hlo_computation_set_root(inside.computation, order);
    *result = inside.computation;
    return HLO_SUCCESS;
}

// Sorts the elements with their indices, and takes the first k of both.
static HloStatus decompose_top_k(ImportPlace *place, HloInstruction *x, const MlirAttribute *k,
                                 HloInstruction **result) {
    assert(k && k->kind == MLIR_INTEGER); /* the exporter gives it */
    HloArena *arena = import_arena(place);
    const HloShape *shape = x->shape;
    const int64_t last = shape->rank - 1;
    assert(last >= 0); /* the shape of a top-k was inferred */
    const HloIotaAttributes iota = {.dimension = last};
    const HloSortAttributes sort = {hlo_ints(arena, &last, 1), true};
    HloInstruction *operands[2] = {x}, *sorted, *parts[2];
    HloComputation *comparator;
    HLO_TRY(import_emit(place, HLO_OP_IOTA, hlo_shape_with_type(arena, shape, HLO_S32), NULL, 0, &iota, NULL, 0,
                        &operands[1]));
    HLO_TRY(make_comparator(place, shape->type, &comparator));
    HLO_TRY(import_emit(place, HLO_OP_SORT, NULL, operands, 2, &sort, &comparator, 1, &sorted));
    int64_t *starts = HLO_ARENA_NEW(arena, int64_t, 3 * shape->rank);
    int64_t *limits = starts + shape->rank, *strides = limits + shape->rank;
    for (int64_t d = 0; d <= last; d++) {
        limits[d] = d == last ? k->integer : shape->dims[d];
        strides[d] = 1;
    }
    const HloSliceAttributes slice = {{starts, shape->rank}, {limits, shape->rank}, {strides, shape->rank}};
    for (int64_t i = 0; i < 2; i++) {
        const HloTupleIndexAttributes index = {.index = i};
        HLO_TRY(import_emit(place, HLO_OP_GET_TUPLE_ELEMENT, NULL, &sorted, 1, &index, NULL, 0, &parts[i]));
        HLO_TRY(import_emit(place, HLO_OP_SLICE, NULL, &parts[i], 1, &slice, NULL, 0, &parts[i]));
    }
    return import_emit(place, HLO_OP_TUPLE, NULL, parts, 2, NULL, NULL, 0, result);
}

// ---------------------------------------------------------------------------------------------------------------------
// The table

typedef HloInstruction *UnaryFormula(Math *math, HloInstruction *x);

typedef struct Formula {
    const char *name;
    UnaryFormula *of_real, *of_complex;  // NULL: none for this kind of number
} Formula;

static const Formula formulas[] = {
    {"chlo.acos", acos_of, complex_acos},
    {"chlo.acosh", acosh_of, complex_acosh},
    {"chlo.asin", asin_of, complex_asin},
    {"chlo.asinh", asinh_of, complex_asinh},
    {"chlo.atanh", atanh_of, complex_atanh},
    {"chlo.cosh", cosh_of, complex_cosh},
    {"chlo.erf", erf_of, NULL},
    {"chlo.sinh", sinh_of, complex_sinh},
};

// The formula; NULL where the operation, or its form for this kind of number, has no decomposition.
static UnaryFormula *find_formula(const char *name, HloType type) {
    for (size_t i = 0; i < HLO_COUNT_OF(formulas); i++) {
        if (strcmp(formulas[i].name, name) != 0) continue;
        if (hlo_type_is_complex(type)) return formulas[i].of_complex;
        return hlo_type_is_float(type) ? formulas[i].of_real : NULL;
    }
    return NULL;
}

// Half precision is computed in single precision.
static HloStatus apply_formula(ImportPlace *place, UnaryFormula *formula, HloInstruction *x, HloInstruction **result) {
    Math math = {.place = place, .shape = x->shape};
    const HloType type = x->shape->type;
    const bool widen = hlo_type_is_float(type) && hlo_type_info(type)->bits < 32;
    if (widen) x = convert(&math, x, HLO_F32);
    if (widen) math.shape = hlo_shape_with_type(import_arena(place), math.shape, HLO_F32);
    *result = formula(&math, x);
    if (widen) *result = convert(&math, *result, type);
    return math.status;
}

// Adds the function's parameters, which have the shapes of the operation's operands.
static void add_parameters(ImportPlace *place, const MlirOperation *operation, HloInstruction **parameters) {
    HloArena *arena = import_arena(place);
    for (int64_t i = 0; i < operation->operand_count; i++) {
        const MlirType *type = operation->operands[i]->type;
        assert(type->kind == MLIR_TYPE_SHAPE); /* the exporter has no other types */
        const HloParameterAttributes number = {.number = i};
        const HloShape *shape = hlo_shape_with_default_layout(arena, hlo_shape_copy(arena, type->shape));
        parameters[i] = hlo_instruction_new(place->computation, HLO_OP_PARAMETER, shape, NULL, 0, &number, NULL);
    }
}

// Converts what was computed to the operation's types: a module that was HLO before may have results of another
// precision than its operands.
static HloStatus convert_results(ImportPlace *place, const MlirOperation *operation, HloInstruction **result) {
    HloInstruction *parts[2] = {*result};
    const int64_t count = operation->result_count;
    bool differ = false;
    assert(count >= 1 && count <= 2 && (count == 1 || hlo_is(*result, HLO_OP_TUPLE)));
    for (int64_t i = 0; i < count; i++) {
        if (count > 1) parts[i] = (*result)->operands[i];
        const HloShape *shape = operation->results[i]->type->shape;
        if (parts[i]->shape->type == shape->type) continue;
        shape = hlo_shape_with_type(import_arena(place), parts[i]->shape, shape->type);
        HLO_TRY(import_emit(place, HLO_OP_CONVERT, shape, &parts[i], 1, NULL, NULL, 0, &parts[i]));
        differ = true;
    }
    if (count > 1 && differ) return import_emit(place, HLO_OP_TUPLE, NULL, parts, count, NULL, NULL, 0, result);
    if (count == 1) *result = parts[0];
    return HLO_SUCCESS;
}

// Makes the composite's function, which readers use that do not know the composite: a formula of one operand, a
// truncated sort (top_k), the upper half of a product by parts (mulhi), or a product of a masked operand (ragged_dot).
HloStatus composite_decompose(Importer *importer, const MlirOperation *operation, HloComputation **computation) {
    enum { MOST_OPERANDS = 3 };
    MlirOperation bare = {.name = operation->name};  // without a location, sharding and the like
    HloInstruction *operands[MOST_OPERANDS], *result;
    const bool is_top_k = strcmp(operation->name, "chlo.top_k") == 0;
    const bool is_mulhi = strcmp(operation->name, "chlo.mulhi") == 0;
    const bool is_ragged = strcmp(operation->name, "chlo.ragged_dot") == 0;
    assert(operation->operand_count == (is_ragged ? 3 : is_mulhi ? 2 : 1)); /* the module is verified */
    const HloType type = operation->operands[0]->type->shape->type;
    UnaryFormula *formula = find_formula(operation->name, type);
    HLO_FAIL_IF(!formula && !is_top_k && !is_mulhi && !is_ragged, HLO_UNIMPLEMENTED,
                "%s has no decomposition for elements of type %s", operation->name, hlo_type_text(type));
    const char *name = hlo_arena_format(importer->arena, "%s.impl", operation->name);
    ImportPlace place = {importer, hlo_computation_new(importer->module, name), &bare};
    add_parameters(&place, operation, operands);
    if (formula) {
        HLO_TRY(apply_formula(&place, formula, operands[0], &result));
    } else if (is_top_k) {
        HLO_TRY(decompose_top_k(&place, operands[0], mlir_attribute(operation, "k"), &result));
    } else if (is_ragged) {
        HLO_TRY(composite_decompose_ragged(&place, operation, operands, &result));
    } else {
        Math math = {.place = &place, .shape = operands[0]->shape};
        result = mulhi_of(&math, operands[0], operands[1]);
        HLO_TRY(math.status);
    }
    HLO_TRY(convert_results(&place, operation, &result));
    hlo_computation_set_root(place.computation, result);
    *computation = place.computation;
    return HLO_SUCCESS;
}
