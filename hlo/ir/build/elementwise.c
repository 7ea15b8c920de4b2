// SPDX-License-Identifier: Apache-2.0
// Builder: elementwise ops, and leaves.
//
// All builders are alike: a function fills a request (opcode, operands, attribute struct, sizes that cannot be
// inferred) and hlo_build() infers the shape, appends the instruction and keeps the first error. A NULL operand is the
// result of a failed request, and gives NULL again, so that callers check once, at the end.
#include <string.h>

#include "hlo/ir/build/internal.h"

#define UNARY(name, opcode)                                                    \
    HloInstruction *hlo_build_##name(HloBuilder *builder, HloInstruction *x) { \
        return hlo_build_1(builder, HLO_OP_##opcode, x, NULL);                 \
    }
UNARY(acos, ACOS)
UNARY(acosh, ACOSH)
UNARY(asin, ASIN)
UNARY(asinh, ASINH)
UNARY(atanh, ATANH)
UNARY(cbrt, CBRT)
UNARY(cos, COS)
UNARY(cosh, COSH)
UNARY(erf, ERF)
UNARY(exp, EXP)
UNARY(expm1, EXPM1)
UNARY(log, LOG)
UNARY(log1p, LOG1P)
UNARY(logistic, LOGISTIC)
UNARY(rsqrt, RSQRT)
UNARY(sin, SIN)
UNARY(sinh, SINH)
UNARY(sqrt, SQRT)
UNARY(tan, TAN)
UNARY(tanh, TANH)
UNARY(abs, ABS)
UNARY(ceil, CEIL)
UNARY(clz, CLZ)
UNARY(floor, FLOOR)
UNARY(imag, IMAG)
UNARY(is_finite, IS_FINITE)
UNARY(negate, NEGATE)
UNARY(not, NOT)
UNARY(popcnt, POPCNT)
UNARY(real, REAL)
UNARY(round, ROUND_NEAREST_AFZ)
UNARY(round_even, ROUND_NEAREST_EVEN)
UNARY(sign, SIGN)
UNARY(copy, COPY)
#undef UNARY

#define BINARY(name, opcode)                                                                      \
    HloInstruction *hlo_build_##name(HloBuilder *builder, HloInstruction *a, HloInstruction *b) { \
        return hlo_build_2(builder, HLO_OP_##opcode, a, b, NULL);                                 \
    }
BINARY(add, ADD)
BINARY(and, AND)
BINARY(atan2, ATAN2)
BINARY(complex, COMPLEX)
BINARY(div, DIVIDE)
BINARY(max, MAXIMUM)
BINARY(min, MINIMUM)
BINARY(mul, MULTIPLY)
BINARY(or, OR)
BINARY(pow, POWER)
BINARY(rem, REMAINDER)
BINARY(shift_left, SHIFT_LEFT)
BINARY(shift_right_arithmetic, SHIFT_RIGHT_ARITHMETIC)
BINARY(shift_right_logical, SHIFT_RIGHT_LOGICAL)
BINARY(sub, SUBTRACT)
BINARY(xor, XOR)
#undef BINARY

// Builds an op with one operand and a given element type.
static HloInstruction *retyped(HloBuilder *builder, HloOpcode opcode, HloInstruction *const *operands, int64_t count,
                               HloType type) {
    return hlo_build(builder,
                     &(HloBuildRequest){.opcode = opcode, .operands = operands, .operand_count = count, .type = type});
}

HloInstruction *hlo_build_convert(HloBuilder *builder, HloInstruction *x, HloType type) {
    return retyped(builder, HLO_OP_CONVERT, &x, 1, type);
}

HloInstruction *hlo_build_bitcast_convert(HloBuilder *builder, HloInstruction *x, HloType type) {
    return retyped(builder, HLO_OP_BITCAST_CONVERT, &x, 1, type);
}

HloInstruction *hlo_build_stochastic_convert(HloBuilder *builder, HloInstruction *x, HloInstruction *random,
                                             HloType type) {
    HloInstruction *operands[] = {x, random};
    return retyped(builder, HLO_OP_STOCHASTIC_CONVERT, operands, 2, type);
}

HloInstruction *hlo_build_bitcast(HloBuilder *builder, HloInstruction *x, HloType type, HloInts dims) {
    return hlo_build(builder, &(HloBuildRequest){.opcode = HLO_OP_BITCAST,
                                                 .operands = &x,
                                                 .operand_count = 1,
                                                 .type = type,
                                                 .dims = dims,
                                                 .has_dims = true});
}

HloInstruction *hlo_build_reduce_precision(HloBuilder *builder, HloInstruction *x, int64_t exponent_bits,
                                           int64_t mantissa_bits) {
    return hlo_build_1(builder, HLO_OP_REDUCE_PRECISION, x,
                       &(HloReducePrecisionAttributes){exponent_bits, mantissa_bits});
}

HloInstruction *hlo_build_compare(HloBuilder *builder, HloInstruction *a, HloInstruction *b, int32_t direction) {
    return hlo_build_2(builder, HLO_OP_COMPARE, a, b, &(HloCompareAttributes){.direction = direction});
}

HloInstruction *hlo_build_compare_total_order(HloBuilder *builder, HloInstruction *a, HloInstruction *b,
                                              int32_t direction) {
    return hlo_build_2(builder, HLO_OP_COMPARE, a, b,
                       &(HloCompareAttributes){direction, HLO_ComparisonType_TOTALORDER});
}

HloInstruction *hlo_build_clamp(HloBuilder *builder, HloInstruction *low, HloInstruction *x, HloInstruction *high) {
    return hlo_build_3(builder, HLO_OP_CLAMP, low, x, high, NULL);
}

HloInstruction *hlo_build_select(HloBuilder *builder, HloInstruction *predicate, HloInstruction *on_true,
                                 HloInstruction *on_false) {
    return hlo_build_3(builder, HLO_OP_SELECT, predicate, on_true, on_false, NULL);
}

// ---------------------------------------------------------------------------------------------------------------------
// Leaves

HloInstruction *hlo_build_parameter(HloBuilder *builder, int64_t number, HloType type, HloInts dims, const char *name) {
    HloParameterAttributes attributes = {.number = number};
    HloInstruction *parameter = hlo_build(
        builder,
        &(HloBuildRequest){
            .opcode = HLO_OP_PARAMETER, .attributes = &attributes, .type = type, .dims = dims, .has_dims = true});
    return hlo_build_with_name(builder, parameter, name);
}

HloInstruction *hlo_build_parameter_shape(HloBuilder *builder, int64_t number, const HloShape *shape,
                                          const char *name) {
    HloParameterAttributes attributes = {.number = number};
    HloInstruction *parameter =
        hlo_build(builder, &(HloBuildRequest){.opcode = HLO_OP_PARAMETER, .attributes = &attributes, .shape = shape});
    return hlo_build_with_name(builder, parameter, name);
}

HloInstruction *hlo_build_constant(HloBuilder *builder, const HloLiteral *literal) {
    return hlo_build(builder,
                     &(HloBuildRequest){.opcode = HLO_OP_CONSTANT, .attributes = &(HloConstantAttributes){literal}});
}

// Creates the literal of a constant: from data, or from one number of one kind.
typedef struct MakeLiteral {
    HloBuilder *builder;
    HloType type;
    HloInts dims;
    const void *data;
    double real, imaginary;
    bool is_integer;
    int64_t integer;
    HloLiteral *result;
} MakeLiteral;

static HloStatus make_literal_body(void *argument) {
    MakeLiteral *make = argument;
    HLO_FAIL_IF(!hlo_type_is_array(make->type), HLO_INVALID_ARGUMENT, "a constant of type %s",
                hlo_type_text(make->type));
    HLO_TRY(hlo_shape_check_dims(make->type, make->dims.items, make->dims.count));
    // Uses the module's arena, not the scratch arena: the literal must outlive this step.
    HloArena *arena = make->builder->module->arena;
    const HloShape *shape = hlo_shape_array(arena, make->type, make->dims.items, make->dims.count);
    make->result = hlo_literal_in_arena(arena, shape);
    if (make->data) {
        memcpy(make->result->data, make->data, (size_t)hlo_shape_bytes(shape));
    } else if (make->is_integer) {
        hlo_literal_set_int64(make->result, 0, make->integer);
    } else if (hlo_type_is_complex(make->type)) {
        double _Complex value;
        ((double *)&value)[0] = make->real;
        ((double *)&value)[1] = make->imaginary;
        hlo_literal_set_complex(make->result, 0, value);
    } else {
        hlo_literal_set_double(make->result, 0, make->real);
    }
    return HLO_SUCCESS;
}

// NULL if this step or an earlier one failed: then `result` was never set.
static HloInstruction *constant_of(MakeLiteral *make) {
    hlo_builder_run(make->builder, make_literal_body, make);
    return make->result ? hlo_build_constant(make->builder, make->result) : NULL;
}

HloInstruction *hlo_build_array(HloBuilder *builder, HloType type, HloInts dims, const void *data) {
    return constant_of(&(MakeLiteral){.builder = builder, .type = type, .dims = dims, .data = data});
}

HloInstruction *hlo_build_scalar(HloBuilder *builder, HloType type, double value) {
    return constant_of(&(MakeLiteral){.builder = builder, .type = type, .real = value});
}

HloInstruction *hlo_build_scalar_int64(HloBuilder *builder, HloType type, int64_t value) {
    return constant_of(&(MakeLiteral){.builder = builder, .type = type, .is_integer = true, .integer = value});
}

HloInstruction *hlo_build_scalar_complex(HloBuilder *builder, HloType type, double real, double imaginary) {
    return constant_of(&(MakeLiteral){.builder = builder, .type = type, .real = real, .imaginary = imaginary});
}

HloInstruction *hlo_build_splat(HloBuilder *builder, HloType type, HloInts dims, double value) {
    HloInstruction *scalar = hlo_build_scalar(builder, type, value);
    return dims.count == 0 ? scalar : hlo_build_broadcast(builder, scalar, dims, HLO_DIMS());
}

HloInstruction *hlo_build_splat_like(HloBuilder *builder, const HloInstruction *like, double value) {
    if (!like) return NULL;
    return hlo_build_splat(builder, like->shape->type, hlo_shape_dims(like->shape), value);
}

HloInstruction *hlo_build_iota(HloBuilder *builder, HloType type, HloInts dims, int64_t dimension) {
    return hlo_build(builder, &(HloBuildRequest){.opcode = HLO_OP_IOTA,
                                                 .attributes = &(HloIotaAttributes){dimension},
                                                 .type = type,
                                                 .dims = dims,
                                                 .has_dims = true});
}

HloInstruction *hlo_build_partition_id(HloBuilder *builder) {
    return hlo_build_n(builder, HLO_OP_PARTITION_ID, NULL, 0, NULL);
}

HloInstruction *hlo_build_replica_id(HloBuilder *builder) {
    return hlo_build_n(builder, HLO_OP_REPLICA_ID, NULL, 0, NULL);
}
