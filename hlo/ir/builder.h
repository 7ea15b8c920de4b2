// SPDX-License-Identifier: Apache-2.0
// The builder constructs programs from C; result shapes are inferred.
//
//     HloModule *module = hlo_module_new("example");
//     HloBuilder *b = hlo_builder_new(module, "main");
//     HloInstruction *x = hlo_build_parameter(b, 0, HLO_F32, HLO_DIMS(32, 784), "x");
//     HloInstruction *w = hlo_build_parameter(b, 1, HLO_F32, HLO_DIMS(784, 10), "w");
//     HloInstruction *y = hlo_build_matmul(b, x, w);
//     HloInstruction *positive = hlo_build_max(b, y, hlo_build_splat_like(b, y, 0));
//     HloInstruction *sum = hlo_build_reduce_op(b, HLO_OP_ADD, positive, HLO_DIMS(0));
//     HloStatus status = hlo_builder_finish_entry(b, sum);      // frees the builder
//     if (status) { ... hlo_status_to_text(status) ... }
//     hlo_module_free(module);
//
// Each hlo_build_X() appends one instruction (convenience functions: a few) to the builder's computation, infers its
// shape, and returns it. On an error it returns NULL, and the builder keeps the first error. A NULL operand gives NULL
// again, so expressions nest freely and it suffices to check the status once, at the end. Attributes, literals, shapes
// and lists are copied: the caller may free its memory after the call. Names are made unique.
//
// Computations that others call (loop bodies, branches, reducers) are built first, each with its own builder:
//
//     HloBuilder *inner = hlo_builder_new(module, "body");
//     HloInstruction *i = hlo_build_parameter(inner, 0, HLO_S32, HLO_DIMS(), "i");
//     HloComputation *body;
//     status = hlo_builder_finish(inner, hlo_build_add(inner, i, hlo_build_scalar(inner, HLO_S32, 1)), &body);
//
// Only one thread at a time may use a module. Shapes that cannot be inferred (parameters, reshape, custom calls) are
// passed as an element type and sizes, or as an HloShape.
//
// Stability: stable.
#ifndef MESHLO_HLO_IR_BUILDER_H_
#define MESHLO_HLO_IR_BUILDER_H_

#include "hlo/ir/infer.h"

HLO_BEGIN_C

typedef struct HloBuilder HloBuilder;

// A list of numbers written in place: HLO_DIMS(2, 3), HLO_DIMS() for an empty one. It lives until the end of the
// enclosing block.
#define HLO_DIMS(...)                                   \
    ((HloInts){&((const int64_t[]){0, __VA_ARGS__})[1], \
               (int64_t)(sizeof((const int64_t[]){0, __VA_ARGS__}) / sizeof(int64_t)) - 1})

// ---------------------------------------------------------------------------------------------------------------------
// Builders

// Returns a builder that fills a new computation of `module` called `name` (NULL: "region"). NULL when memory is short.
HLO_EXPORT HloBuilder *hlo_builder_new(HloModule *module, const char *name);
// Makes `root` the root, sets *computation (unless NULL) to the finished computation, and frees the builder. Returns
// the first error of the builder, also when `root` is NULL or a parameter number is missing; the computation must then
// not be used.
HLO_EXPORT HLO_NODISCARD HloStatus hlo_builder_finish(HloBuilder *builder, HloInstruction *root,
                                                      HloComputation **computation);
// As hlo_builder_finish(), and also makes the computation the module's entry.
HLO_EXPORT HLO_NODISCARD HloStatus hlo_builder_finish_entry(HloBuilder *builder, HloInstruction *root);
// The first error so far, or NULL. The builder owns it.
HLO_EXPORT const struct HloError *hlo_builder_status(const HloBuilder *builder);
// The computation that is being built.
HLO_EXPORT HloComputation *hlo_builder_computation(HloBuilder *builder);
// The module that is being built.
HLO_EXPORT HloModule *hlo_builder_module(HloBuilder *builder);
// Sets the metadata (copied) of all instructions built from now on; NULL for none.
HLO_EXPORT void hlo_builder_set_metadata(HloBuilder *builder, const HloMetadata *metadata);
// Sets the source location of all instructions built from now on, and of errors: put HLO_AT(b) before a statement.
HLO_EXPORT void hlo_builder_set_source(HloBuilder *builder, const char *file, int64_t line);
#define HLO_AT(builder) hlo_builder_set_source((builder), __FILE__, __LINE__)
// Sets the sharding (copied) of all instructions built from now on; NULL for none.
HLO_EXPORT void hlo_builder_set_sharding(HloBuilder *builder, const HloSharding *sharding);

// ---------------------------------------------------------------------------------------------------------------------
// Any op, and annotations

// The arguments of the general form of an op; leave those that do not apply zero.
typedef struct HloBuildRequest {
    HloOpcode opcode;
    HloInstruction *const *operands;
    int64_t operand_count;
    const void *attributes;  // the struct of the opcode's family (hlo/ir/attributes.h)
    HloComputation *const *called;
    int64_t called_count;
    const HloShape *shape;  // if it does not follow from the operands
    HloType type;           // or an element type and sizes instead of `shape`;
    HloInts dims;           // HLO_INVALID: the type of operand 0
    bool has_dims;          // `dims` is given, even if empty
} HloBuildRequest;

// Appends any instruction. All other hlo_build functions call this one.
HLO_EXPORT HloInstruction *hlo_build(HloBuilder *builder, const HloBuildRequest *request);
// Sets the sharding of `instruction` and returns it (NULL stays NULL).
HLO_EXPORT HloInstruction *hlo_build_with_sharding(HloBuilder *builder, HloInstruction *instruction,
                                                   const HloSharding *sharding);
// Renames `instruction` and returns it (NULL stays NULL).
HLO_EXPORT HloInstruction *hlo_build_with_name(HloBuilder *builder, HloInstruction *instruction, const char *name);
// Sets the metadata of `instruction` and returns it (NULL stays NULL).
HLO_EXPORT HloInstruction *hlo_build_with_metadata(HloBuilder *builder, HloInstruction *instruction,
                                                   const HloMetadata *metadata);
// Adds a frontend attribute to `instruction` and returns it (NULL stays NULL).
HLO_EXPORT HloInstruction *hlo_build_with_attribute(HloBuilder *builder, HloInstruction *instruction, const char *key,
                                                    const char *value);
// Makes `after` wait for `before` through a control edge.
HLO_EXPORT void hlo_build_control_edge(HloBuilder *builder, HloInstruction *before, HloInstruction *after);

// ---------------------------------------------------------------------------------------------------------------------
// Leaves

// Parameter `number` of the computation, an array.
HLO_EXPORT HloInstruction *hlo_build_parameter(HloBuilder *builder, int64_t number, HloType type, HloInts dims,
                                               const char *name);
// Parameter `number` with any shape (tuples, tokens, layouts).
HLO_EXPORT HloInstruction *hlo_build_parameter_shape(HloBuilder *builder, int64_t number, const HloShape *shape,
                                                     const char *name);
// A constant with the values of `literal`.
HLO_EXPORT HloInstruction *hlo_build_constant(HloBuilder *builder, const HloLiteral *literal);
// A constant array; `data` holds its elements row by row, in the storage form of hlo/ir/literal.h.
HLO_EXPORT HloInstruction *hlo_build_array(HloBuilder *builder, HloType type, HloInts dims, const void *data);
// A scalar constant; floats are rounded to nearest even, integers wrap.
HLO_EXPORT HloInstruction *hlo_build_scalar(HloBuilder *builder, HloType type, double value);
// A scalar constant of an integer type, exact up to 64 bits.
HLO_EXPORT HloInstruction *hlo_build_scalar_int64(HloBuilder *builder, HloType type, int64_t value);
// A complex scalar constant.
HLO_EXPORT HloInstruction *hlo_build_scalar_complex(HloBuilder *builder, HloType type, double real, double imaginary);
// An array with the same value everywhere (a broadcast scalar constant).
HLO_EXPORT HloInstruction *hlo_build_splat(HloBuilder *builder, HloType type, HloInts dims, double value);
// As hlo_build_splat(), with the type and sizes of `like`.
HLO_EXPORT HloInstruction *hlo_build_splat_like(HloBuilder *builder, const HloInstruction *like, double value);
// 0, 1, 2 ... along `dimension`.
HLO_EXPORT HloInstruction *hlo_build_iota(HloBuilder *builder, HloType type, HloInts dims, int64_t dimension);
// This device's partition number, u32[].
HLO_EXPORT HloInstruction *hlo_build_partition_id(HloBuilder *builder);
// This device's replica number, u32[].
HLO_EXPORT HloInstruction *hlo_build_replica_id(HloBuilder *builder);

// ---------------------------------------------------------------------------------------------------------------------
// Elementwise, one operand

// Arc cosine.
HLO_EXPORT HloInstruction *hlo_build_acos(HloBuilder *builder, HloInstruction *x);
// Inverse hyperbolic cosine.
HLO_EXPORT HloInstruction *hlo_build_acosh(HloBuilder *builder, HloInstruction *x);
// Arc sine.
HLO_EXPORT HloInstruction *hlo_build_asin(HloBuilder *builder, HloInstruction *x);
// Inverse hyperbolic sine.
HLO_EXPORT HloInstruction *hlo_build_asinh(HloBuilder *builder, HloInstruction *x);
// Inverse hyperbolic tangent.
HLO_EXPORT HloInstruction *hlo_build_atanh(HloBuilder *builder, HloInstruction *x);
// Cube root.
HLO_EXPORT HloInstruction *hlo_build_cbrt(HloBuilder *builder, HloInstruction *x);
// Cosine.
HLO_EXPORT HloInstruction *hlo_build_cos(HloBuilder *builder, HloInstruction *x);
// Hyperbolic cosine.
HLO_EXPORT HloInstruction *hlo_build_cosh(HloBuilder *builder, HloInstruction *x);
// Error function.
HLO_EXPORT HloInstruction *hlo_build_erf(HloBuilder *builder, HloInstruction *x);
// The inverse of the error function, +-infinity at +-1; f32 and f64, other floats through f32. There is no op for it:
// it becomes a graph of some 40 ops (hlo/ir/build/formulas.c names the source).
HLO_EXPORT HloInstruction *hlo_build_erf_inv(HloBuilder *builder, HloInstruction *x);
// e to the power of x.
HLO_EXPORT HloInstruction *hlo_build_exp(HloBuilder *builder, HloInstruction *x);
// e to the power of x, minus one.
HLO_EXPORT HloInstruction *hlo_build_expm1(HloBuilder *builder, HloInstruction *x);
// Natural logarithm.
HLO_EXPORT HloInstruction *hlo_build_log(HloBuilder *builder, HloInstruction *x);
// Natural logarithm of 1 + x.
HLO_EXPORT HloInstruction *hlo_build_log1p(HloBuilder *builder, HloInstruction *x);
// 1 / (1 + exp(-x)).
HLO_EXPORT HloInstruction *hlo_build_logistic(HloBuilder *builder, HloInstruction *x);
// 1 / sqrt(x).
HLO_EXPORT HloInstruction *hlo_build_rsqrt(HloBuilder *builder, HloInstruction *x);
// Sine.
HLO_EXPORT HloInstruction *hlo_build_sin(HloBuilder *builder, HloInstruction *x);
// Hyperbolic sine.
HLO_EXPORT HloInstruction *hlo_build_sinh(HloBuilder *builder, HloInstruction *x);
// Square root.
HLO_EXPORT HloInstruction *hlo_build_sqrt(HloBuilder *builder, HloInstruction *x);
// Tangent.
HLO_EXPORT HloInstruction *hlo_build_tan(HloBuilder *builder, HloInstruction *x);
// Hyperbolic tangent.
HLO_EXPORT HloInstruction *hlo_build_tanh(HloBuilder *builder, HloInstruction *x);
// Absolute value; for complex numbers the modulus, which is real.
HLO_EXPORT HloInstruction *hlo_build_abs(HloBuilder *builder, HloInstruction *x);
// Rounds up.
HLO_EXPORT HloInstruction *hlo_build_ceil(HloBuilder *builder, HloInstruction *x);
// Number of leading zero bits.
HLO_EXPORT HloInstruction *hlo_build_clz(HloBuilder *builder, HloInstruction *x);
// Rounds down.
HLO_EXPORT HloInstruction *hlo_build_floor(HloBuilder *builder, HloInstruction *x);
// Imaginary part.
HLO_EXPORT HloInstruction *hlo_build_imag(HloBuilder *builder, HloInstruction *x);
// True for numbers that are neither infinite nor NaN.
HLO_EXPORT HloInstruction *hlo_build_is_finite(HloBuilder *builder, HloInstruction *x);
// -x.
HLO_EXPORT HloInstruction *hlo_build_negate(HloBuilder *builder, HloInstruction *x);
// Bitwise complement; logical not for pred.
HLO_EXPORT HloInstruction *hlo_build_not(HloBuilder *builder, HloInstruction *x);
// Number of one bits.
HLO_EXPORT HloInstruction *hlo_build_popcnt(HloBuilder *builder, HloInstruction *x);
// Real part.
HLO_EXPORT HloInstruction *hlo_build_real(HloBuilder *builder, HloInstruction *x);
// Rounds to nearest, halves away from zero.
HLO_EXPORT HloInstruction *hlo_build_round(HloBuilder *builder, HloInstruction *x);
// Rounds to nearest, halves to even.
HLO_EXPORT HloInstruction *hlo_build_round_even(HloBuilder *builder, HloInstruction *x);
// -1, 0 or 1 (complex: x / |x|).
HLO_EXPORT HloInstruction *hlo_build_sign(HloBuilder *builder, HloInstruction *x);
// A copy.
HLO_EXPORT HloInstruction *hlo_build_copy(HloBuilder *builder, HloInstruction *x);
// Converts to another element type by value.
HLO_EXPORT HloInstruction *hlo_build_convert(HloBuilder *builder, HloInstruction *x, HloType type);
// Reinterprets the bits as another element type; if the widths differ, a last dimension is added or removed.
HLO_EXPORT HloInstruction *hlo_build_bitcast_convert(HloBuilder *builder, HloInstruction *x, HloType type);
// Views the same memory with another type and sizes.
HLO_EXPORT HloInstruction *hlo_build_bitcast(HloBuilder *builder, HloInstruction *x, HloType type, HloInts dims);
// Rounds to a float with the given numbers of bits, stored in the same type.
HLO_EXPORT HloInstruction *hlo_build_reduce_precision(HloBuilder *builder, HloInstruction *x, int64_t exponent_bits,
                                                      int64_t mantissa_bits);

// ---------------------------------------------------------------------------------------------------------------------
// Elementwise, two and three operands of equal sizes (broadcast first: hlo_build_broadcast_to)

// a + b; or, for pred.
HLO_EXPORT HloInstruction *hlo_build_add(HloBuilder *builder, HloInstruction *a, HloInstruction *b);
// Bitwise and.
HLO_EXPORT HloInstruction *hlo_build_and(HloBuilder *builder, HloInstruction *a, HloInstruction *b);
// Angle of the point (b, a).
HLO_EXPORT HloInstruction *hlo_build_atan2(HloBuilder *builder, HloInstruction *a, HloInstruction *b);
// Complex numbers from their real and imaginary parts.
HLO_EXPORT HloInstruction *hlo_build_complex(HloBuilder *builder, HloInstruction *real, HloInstruction *imaginary);
// a / b; integer division truncates towards zero.
HLO_EXPORT HloInstruction *hlo_build_div(HloBuilder *builder, HloInstruction *a, HloInstruction *b);
// The greater of a and b; NaN if either is.
HLO_EXPORT HloInstruction *hlo_build_max(HloBuilder *builder, HloInstruction *a, HloInstruction *b);
// The smaller of a and b; NaN if either is.
HLO_EXPORT HloInstruction *hlo_build_min(HloBuilder *builder, HloInstruction *a, HloInstruction *b);
// a * b; and, for pred.
HLO_EXPORT HloInstruction *hlo_build_mul(HloBuilder *builder, HloInstruction *a, HloInstruction *b);
// Bitwise or.
HLO_EXPORT HloInstruction *hlo_build_or(HloBuilder *builder, HloInstruction *a, HloInstruction *b);
// a to the power of b.
HLO_EXPORT HloInstruction *hlo_build_pow(HloBuilder *builder, HloInstruction *a, HloInstruction *b);
// Remainder with the sign of a.
HLO_EXPORT HloInstruction *hlo_build_rem(HloBuilder *builder, HloInstruction *a, HloInstruction *b);
// a shifted left by b bits; 0 if b is at least the width.
HLO_EXPORT HloInstruction *hlo_build_shift_left(HloBuilder *builder, HloInstruction *a, HloInstruction *b);
// a shifted right by b bits, keeping the sign.
HLO_EXPORT HloInstruction *hlo_build_shift_right_arithmetic(HloBuilder *builder, HloInstruction *a, HloInstruction *b);
// a shifted right by b bits, filling with zeros.
HLO_EXPORT HloInstruction *hlo_build_shift_right_logical(HloBuilder *builder, HloInstruction *a, HloInstruction *b);
// a - b.
HLO_EXPORT HloInstruction *hlo_build_sub(HloBuilder *builder, HloInstruction *a, HloInstruction *b);
// Bitwise exclusive or.
HLO_EXPORT HloInstruction *hlo_build_xor(HloBuilder *builder, HloInstruction *a, HloInstruction *b);
// Compares by HLO_ComparisonDirection_EQ .. LT, in the natural order of the type.
HLO_EXPORT HloInstruction *hlo_build_compare(HloBuilder *builder, HloInstruction *a, HloInstruction *b,
                                             int32_t direction);
// As hlo_build_compare(), for floats in total order: -NaN < -inf < .. < -0 < 0 < .. < NaN.
HLO_EXPORT HloInstruction *hlo_build_compare_total_order(HloBuilder *builder, HloInstruction *a, HloInstruction *b,
                                                         int32_t direction);
// x rounded stochastically to `type`; `random` has unsigned numbers as wide as x.
HLO_EXPORT HloInstruction *hlo_build_stochastic_convert(HloBuilder *builder, HloInstruction *x, HloInstruction *random,
                                                        HloType type);
// x limited to the range `low` to `high` (each a scalar or of x's sizes).
HLO_EXPORT HloInstruction *hlo_build_clamp(HloBuilder *builder, HloInstruction *low, HloInstruction *x,
                                           HloInstruction *high);
// on_true where `predicate` (a scalar or of the same sizes) is true, else on_false.
HLO_EXPORT HloInstruction *hlo_build_select(HloBuilder *builder, HloInstruction *predicate, HloInstruction *on_true,
                                            HloInstruction *on_false);

// ---------------------------------------------------------------------------------------------------------------------
// Shape and data movement

// An array of sizes `dims`; dimension i of x becomes dimension `mapping.items[i]`, x is repeated along the others.
HLO_EXPORT HloInstruction *hlo_build_broadcast(HloBuilder *builder, HloInstruction *x, HloInts dims, HloInts mapping);
// x repeated to sizes `dims` as in NumPy: dimensions are matched from the last one, those of size 1 are repeated.
HLO_EXPORT HloInstruction *hlo_build_broadcast_to(HloBuilder *builder, HloInstruction *x, HloInts dims);
// The operands, concatenated along `dimension`.
HLO_EXPORT HloInstruction *hlo_build_concatenate(HloBuilder *builder, HloInstruction *const *operands, int64_t count,
                                                 int64_t dimension);
// The same elements in row-major order with other sizes.
HLO_EXPORT HloInstruction *hlo_build_reshape(HloBuilder *builder, HloInstruction *x, HloInts dims);
// As hlo_build_reshape(), with sizes known only at run time: `sizes` are s32 scalars, `bounds` their limits; dimensions
// with `dynamic[i]` vary.
HLO_EXPORT HloInstruction *hlo_build_dynamic_reshape(HloBuilder *builder, HloInstruction *x,
                                                     HloInstruction *const *sizes, HloInts bounds, const bool *dynamic);
// Dimension i of the result is dimension `permutation.items[i]` of x.
HLO_EXPORT HloInstruction *hlo_build_transpose(HloBuilder *builder, HloInstruction *x, HloInts permutation);
// x with the order of the elements along `dimensions` reversed.
HLO_EXPORT HloInstruction *hlo_build_reverse(HloBuilder *builder, HloInstruction *x, HloInts dimensions);
// x[starts : limits : strides]; empty `strides` are all 1.
HLO_EXPORT HloInstruction *hlo_build_slice(HloBuilder *builder, HloInstruction *x, HloInts starts, HloInts limits,
                                           HloInts strides);
// The `sizes` elements from `starts` (one integer scalar per dimension) on; starts are clamped so that they fit.
HLO_EXPORT HloInstruction *hlo_build_dynamic_slice(HloBuilder *builder, HloInstruction *x,
                                                   HloInstruction *const *starts, HloInts sizes);
// x with `update` written at `starts`, which are clamped so that it fits.
HLO_EXPORT HloInstruction *hlo_build_dynamic_update_slice(HloBuilder *builder, HloInstruction *x,
                                                          HloInstruction *update, HloInstruction *const *starts);
// x with `value` (a scalar) around and between its elements; negative numbers remove elements. `interior` may be empty.
HLO_EXPORT HloInstruction *hlo_build_pad(HloBuilder *builder, HloInstruction *x, HloInstruction *value, HloInts low,
                                         HloInts high, HloInts interior);
// The size of a dimension at run time, s32[].
HLO_EXPORT HloInstruction *hlo_build_get_dimension_size(HloBuilder *builder, HloInstruction *x, int64_t dimension);
// x with dimension `dimension` shortened to `size` (s32[]) at run time.
HLO_EXPORT HloInstruction *hlo_build_set_dimension_size(HloBuilder *builder, HloInstruction *x, HloInstruction *size,
                                                        int64_t dimension);

// ---------------------------------------------------------------------------------------------------------------------
// Linear algebra

// The general dot product: dimension lists, precision and algorithm as in `attributes`. The result's elements are of
// `type`, or of the operands' type for HLO_INVALID.
HLO_EXPORT HloInstruction *hlo_build_dot(HloBuilder *builder, HloInstruction *lhs, HloInstruction *rhs,
                                         const HloDotAttributes *attributes, HloType type);
// Matrix product: contracts the last dimension of a with the second last of b (the only one of a vector). Leading
// dimensions are batch dimensions if both have them.
HLO_EXPORT HloInstruction *hlo_build_matmul(HloBuilder *builder, HloInstruction *a, HloInstruction *b);
// A product over groups whose sizes are given at run time.
HLO_EXPORT HloInstruction *hlo_build_ragged_dot(HloBuilder *builder, HloInstruction *lhs, HloInstruction *rhs,
                                                HloInstruction *group_sizes, const HloDotAttributes *attributes,
                                                HloType type);
// A product of block-scaled operands: one scale applies to a block of neighbours; scalars or arrays of the operand's
// rank.
HLO_EXPORT HloInstruction *hlo_build_scaled_dot(HloBuilder *builder, HloInstruction *lhs, HloInstruction *rhs,
                                                HloInstruction *lhs_scale, HloInstruction *rhs_scale,
                                                const HloDotAttributes *attributes, HloType type);
// Convolution as described by `attributes` (window sizes of 0 are taken from the kernel; strides and dilations of 0
// mean 1). The result's elements are of `type`, or of the operands' type for HLO_INVALID.
HLO_EXPORT HloInstruction *hlo_build_convolution(HloBuilder *builder, HloInstruction *input, HloInstruction *kernel,
                                                 const HloConvolutionAttributes *attributes, HloType type);
// The matrix L with L L^H = a, or its transpose.
HLO_EXPORT HloInstruction *hlo_build_cholesky(HloBuilder *builder, HloInstruction *a, bool lower);
// The solution x of op(a) x = b, or of x op(a) = b.
HLO_EXPORT HloInstruction *hlo_build_triangular_solve(HloBuilder *builder, HloInstruction *a, HloInstruction *b,
                                                      const HloTriangularSolveAttributes *attributes);
// The Fourier transform of the last `length.count` dimensions; `type` is HLO_FftType_*.
HLO_EXPORT HloInstruction *hlo_build_fft(HloBuilder *builder, HloInstruction *x, int32_t type, HloInts length);
// (normalised x, mean, variance) over all dimensions except `feature`.
HLO_EXPORT HloInstruction *hlo_build_batch_norm_training(HloBuilder *builder, HloInstruction *x, HloInstruction *scale,
                                                         HloInstruction *offset, float epsilon, int64_t feature);
// x normalised with a given mean and variance. Operands: x, scale, offset, mean, variance.
HLO_EXPORT HloInstruction *hlo_build_batch_norm_inference(HloBuilder *builder, HloInstruction *const operands[5],
                                                          float epsilon, int64_t feature);
// (gradient of x, of scale, of offset). Operands: x, scale, mean, variance, gradient of the output.
HLO_EXPORT HloInstruction *hlo_build_batch_norm_grad(HloBuilder *builder, HloInstruction *const operands[5],
                                                     float epsilon, int64_t feature);

// ---------------------------------------------------------------------------------------------------------------------
// Reductions, windows and order

// The computation op(a, b) on two scalars of `type`, created once per module; NULL and an error when memory is short.
HLO_EXPORT HloComputation *hlo_build_combiner(HloBuilder *builder, HloOpcode opcode, HloType type);
// A scalar constant, the identity of `opcode` (add, multiply, maximum, minimum, and, or, xor).
HLO_EXPORT HloInstruction *hlo_build_identity_value(HloBuilder *builder, HloOpcode opcode, HloType type);
// Reduces `count` arrays over `dimensions` with `combiner`, each from its initial scalar; a tuple if there are several.
HLO_EXPORT HloInstruction *hlo_build_reduce(HloBuilder *builder, HloInstruction *const *arrays,
                                            HloInstruction *const *initial, int64_t count, HloInts dimensions,
                                            HloComputation *combiner);
// Reduces one array with a binary op (HLO_OP_ADD, MULTIPLY, MAXIMUM, MINIMUM, AND, OR, XOR), starting from its
// identity.
HLO_EXPORT HloInstruction *hlo_build_reduce_op(HloBuilder *builder, HloOpcode opcode, HloInstruction *x,
                                               HloInts dimensions);
// As hlo_build_reduce(), over a sliding window.
HLO_EXPORT HloInstruction *hlo_build_reduce_window(HloBuilder *builder, HloInstruction *const *arrays,
                                                   HloInstruction *const *initial, int64_t count,
                                                   const HloWindow *window, HloComputation *combiner);
// As hlo_build_reduce_op(), over a sliding window.
HLO_EXPORT HloInstruction *hlo_build_reduce_window_op(HloBuilder *builder, HloOpcode opcode, HloInstruction *x,
                                                      const HloWindow *window);
// For each window of x, combines the element of `source` with `scatter` into the position that `select` chooses.
HLO_EXPORT HloInstruction *hlo_build_select_and_scatter(HloBuilder *builder, HloInstruction *x, HloInstruction *source,
                                                        HloInstruction *initial, const HloWindow *window,
                                                        HloComputation *select, HloComputation *scatter);
// Applies a computation on scalars to all elements.
HLO_EXPORT HloInstruction *hlo_build_map(HloBuilder *builder, HloInstruction *const *operands, int64_t count,
                                         HloComputation *computation);
// Sorts `count` arrays together along `dimension`; the comparator takes two elements of each.
HLO_EXPORT HloInstruction *hlo_build_sort(HloBuilder *builder, HloInstruction *const *operands, int64_t count,
                                          int64_t dimension, bool stable, HloComputation *comparator);
// (the k largest or smallest elements of the last dimension, their indices as s32).
HLO_EXPORT HloInstruction *hlo_build_topk(HloBuilder *builder, HloInstruction *x, int64_t k, bool largest);
// Runs `computation` along a dimension of the arrays, with carries. Operands: the arrays, then the carries.
HLO_EXPORT HloInstruction *hlo_build_scan(HloBuilder *builder, HloInstruction *const *operands, int64_t count,
                                          const HloScanAttributes *attributes, HloComputation *computation);
// Slices of x at the positions in `indices`.
HLO_EXPORT HloInstruction *hlo_build_gather(HloBuilder *builder, HloInstruction *x, HloInstruction *indices,
                                            const HloGatherAttributes *attributes);
// `count` arrays with `updates` (`count` items) combined into them at the positions in `indices`.
HLO_EXPORT HloInstruction *hlo_build_scatter(HloBuilder *builder, HloInstruction *const *arrays,
                                             HloInstruction *indices, HloInstruction *const *updates, int64_t count,
                                             const HloScatterAttributes *attributes, HloComputation *combiner);

// ---------------------------------------------------------------------------------------------------------------------
// Calls and control flow

// Calls a computation.
HLO_EXPORT HloInstruction *hlo_build_call(HloBuilder *builder, HloInstruction *const *operands, int64_t count,
                                          HloComputation *computation);
// Marks a computation as one fused kernel; `kind` is HLO_FusionKind_*.
HLO_EXPORT HloInstruction *hlo_build_fusion(HloBuilder *builder, HloInstruction *const *operands, int64_t count,
                                            int32_t kind, HloComputation *computation);
// Repeats `body`, starting from `initial`, while `condition` is true.
HLO_EXPORT HloInstruction *hlo_build_while(HloBuilder *builder, HloInstruction *initial, HloComputation *condition,
                                           HloComputation *body);
// Runs one of two computations, selected by `predicate` (pred[]), each with its own operand.
HLO_EXPORT HloInstruction *hlo_build_if(HloBuilder *builder, HloInstruction *predicate, HloInstruction *true_operand,
                                        HloComputation *on_true, HloInstruction *false_operand,
                                        HloComputation *on_false);
// Runs branch `index` (s32[]) of `count` with its operand; the last one if the index is out of range.
HLO_EXPORT HloInstruction *hlo_build_switch(HloBuilder *builder, HloInstruction *index, HloInstruction *const *operands,
                                            HloComputation *const *branches, int64_t count);
// A tuple.
HLO_EXPORT HloInstruction *hlo_build_tuple(HloBuilder *builder, HloInstruction *const *operands, int64_t count);
// Element `index` of a tuple.
HLO_EXPORT HloInstruction *hlo_build_get(HloBuilder *builder, HloInstruction *tuple, int64_t index);
// A token that follows the given ones (none: available immediately).
HLO_EXPORT HloInstruction *hlo_build_after_all(HloBuilder *builder, HloInstruction *const *tokens, int64_t count);
// x, available only after `token`.
HLO_EXPORT HloInstruction *hlo_build_add_dependency(HloBuilder *builder, HloInstruction *x, HloInstruction *token);
// x, opaque to optimisations.
HLO_EXPORT HloInstruction *hlo_build_barrier(HloBuilder *builder, HloInstruction *x);
// The boundary between two domains.
HLO_EXPORT HloInstruction *hlo_build_domain(HloBuilder *builder, HloInstruction *x,
                                            const HloDomainAttributes *attributes);
// A call to `target` outside HLO, with a result of `shape`. Use hlo_build() for calls that need more than a target.
HLO_EXPORT HloInstruction *hlo_build_custom_call(HloBuilder *builder, const char *target,
                                                 HloInstruction *const *operands, int64_t count, const HloShape *shape);
// Requests this sharding of x from the partitioner: the custom call "Sharding".
HLO_EXPORT HloInstruction *hlo_build_sharding_constraint(HloBuilder *builder, HloInstruction *x,
                                                         const HloSharding *sharding);
// Starts `computation` (usually a single instruction) on the execution thread `thread` ("main" if NULL).
HLO_EXPORT HloInstruction *hlo_build_async_start(HloBuilder *builder, HloInstruction *const *operands, int64_t count,
                                                 HloComputation *computation, const char *thread);
// A point between start and done.
HLO_EXPORT HloInstruction *hlo_build_async_update(HloBuilder *builder, HloInstruction *start);
// The results of the started computation.
HLO_EXPORT HloInstruction *hlo_build_async_done(HloBuilder *builder, HloInstruction *start);

// ---------------------------------------------------------------------------------------------------------------------
// Collectives. Groups, channel and dimensions are in `attributes`. The result shape follows from the group size, which
// for empty groups is the module's replica_count or num_partitions (hlo/ir/module.h).

// Combines the operands over each group; all its devices receive the result.
HLO_EXPORT HloInstruction *hlo_build_all_reduce(HloBuilder *builder, HloInstruction *const *operands, int64_t count,
                                                const HloCollectiveAttributes *attributes, HloComputation *combiner);
// As hlo_build_all_reduce(), for one array and a binary op.
HLO_EXPORT HloInstruction *hlo_build_all_reduce_op(HloBuilder *builder, HloOpcode opcode, HloInstruction *x,
                                                   const HloCollectiveAttributes *attributes);
// Begins an all-reduce.
HLO_EXPORT HloInstruction *hlo_build_all_reduce_start(HloBuilder *builder, HloInstruction *const *operands,
                                                      int64_t count, const HloCollectiveAttributes *attributes,
                                                      HloComputation *combiner);
// Ends an all-reduce.
HLO_EXPORT HloInstruction *hlo_build_all_reduce_done(HloBuilder *builder, HloInstruction *start);
// Concatenates the operands of all devices of a group; all of them receive the result.
HLO_EXPORT HloInstruction *hlo_build_all_gather(HloBuilder *builder, HloInstruction *const *operands, int64_t count,
                                                const HloCollectiveAttributes *attributes);
// Begins an all-gather.
HLO_EXPORT HloInstruction *hlo_build_all_gather_start(HloBuilder *builder, HloInstruction *const *operands,
                                                      int64_t count, const HloCollectiveAttributes *attributes);
// Ends an all-gather.
HLO_EXPORT HloInstruction *hlo_build_all_gather_done(HloBuilder *builder, HloInstruction *start);
// Combines the operands over each group; each device receives its share of the result.
HLO_EXPORT HloInstruction *hlo_build_reduce_scatter(HloBuilder *builder, HloInstruction *const *operands, int64_t count,
                                                    const HloCollectiveAttributes *attributes,
                                                    HloComputation *combiner);
// Sends a part of each device's operand to every other device of its group. Several operands: the tuple form.
HLO_EXPORT HloInstruction *hlo_build_all_to_all(HloBuilder *builder, HloInstruction *const *operands, int64_t count,
                                                const HloCollectiveAttributes *attributes);
// All-to-all with parts of different sizes. Operands: input, output, input offsets, send sizes, output offsets, receive
// sizes.
HLO_EXPORT HloInstruction *hlo_build_ragged_all_to_all(HloBuilder *builder, HloInstruction *const operands[6],
                                                       const HloCollectiveAttributes *attributes);
// Sends the operands of the first device of each group to the others.
HLO_EXPORT HloInstruction *hlo_build_collective_broadcast(HloBuilder *builder, HloInstruction *const *operands,
                                                          int64_t count, const HloCollectiveAttributes *attributes);
// Sends between devices along `pairs`; devices that are no pair's target receive zeros.
HLO_EXPORT HloInstruction *hlo_build_collective_permute(HloBuilder *builder, HloInstruction *x, HloPairs pairs,
                                                        int64_t channel_id);
// Begins a collective-permute.
HLO_EXPORT HloInstruction *hlo_build_collective_permute_start(HloBuilder *builder, HloInstruction *x, HloPairs pairs,
                                                              int64_t channel_id);
// Ends a collective-permute.
HLO_EXPORT HloInstruction *hlo_build_collective_permute_done(HloBuilder *builder, HloInstruction *start);

// ---------------------------------------------------------------------------------------------------------------------
// Transfers and random numbers

// Begins a copy between memory spaces.
HLO_EXPORT HloInstruction *hlo_build_copy_start(HloBuilder *builder, HloInstruction *x);
// Ends a copy.
HLO_EXPORT HloInstruction *hlo_build_copy_done(HloBuilder *builder, HloInstruction *start);
// Sends x over a channel.
HLO_EXPORT HloInstruction *hlo_build_send(HloBuilder *builder, HloInstruction *x, HloInstruction *token,
                                          int64_t channel_id, bool is_host_transfer);
// Ends a send.
HLO_EXPORT HloInstruction *hlo_build_send_done(HloBuilder *builder, HloInstruction *send);
// Receives a value of `shape` over a channel.
HLO_EXPORT HloInstruction *hlo_build_recv(HloBuilder *builder, HloInstruction *token, const HloShape *shape,
                                          int64_t channel_id, bool is_host_transfer);
// Ends a receive. Result: (data, token).
HLO_EXPORT HloInstruction *hlo_build_recv_done(HloBuilder *builder, HloInstruction *recv);
// Receives a value of `shape` from the host. Result: (value, token).
HLO_EXPORT HloInstruction *hlo_build_infeed(HloBuilder *builder, HloInstruction *token, const HloShape *shape,
                                            const char *config);
// Sends x to the host.
HLO_EXPORT HloInstruction *hlo_build_outfeed(HloBuilder *builder, HloInstruction *x, HloInstruction *token,
                                             const char *config);
// Random numbers from the distribution HLO_RandomDistribution_* with the scalar parameters a and b: bounds, or mean and
// deviation.
HLO_EXPORT HloInstruction *hlo_build_rng(HloBuilder *builder, int32_t distribution, HloInstruction *a,
                                         HloInstruction *b, HloInts dims);
// (next state, random bits), generated by HLO_RandomAlgorithm_*.
HLO_EXPORT HloInstruction *hlo_build_rng_bit_generator(HloBuilder *builder, HloInstruction *state, int32_t algorithm,
                                                       HloType type, HloInts dims);
// The hidden state u64[2] of this device, which is then advanced by `delta`.
HLO_EXPORT HloInstruction *hlo_build_rng_state(HloBuilder *builder, int64_t delta);

HLO_END_C

#endif
