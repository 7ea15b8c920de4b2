// SPDX-License-Identifier: Apache-2.0
// The builder: programs from C, without ever writing a result shape.
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
// Each hlo_build_X() appends one instruction (conveniences: a few) to the builder's computation, infers its shape, and
// returns it. When something is wrong it returns NULL and the builder remembers the first error; a NULL operand gives
// NULL again, so expressions nest freely and one look at the status, at the end, is enough. Attributes, literals,
// shapes and lists are copied: the caller's memory may go away after the call. Names are made unique.
//
// Computations that others call (loop bodies, branches, reducers) are built first, with a builder each:
//
//     HloBuilder *inner = hlo_builder_new(module, "body");
//     HloInstruction *i = hlo_build_parameter(inner, 0, HLO_S32, HLO_DIMS(), "i");
//     HloComputation *body;
//     status = hlo_builder_finish(inner, hlo_build_add(inner, i, hlo_build_scalar(inner, HLO_S32, 1)), &body);
//
// One thread at a time per module. Shapes that must be written (parameters, reshape, custom calls) are given as an
// element type and sizes, or as HloShape.
//
// Stability: stable.
#ifndef MESHLO_HLO_IR_BUILDER_H_
#define MESHLO_HLO_IR_BUILDER_H_

#include "hlo/ir/infer.h"

HLO_BEGIN_C

typedef struct HloBuilder HloBuilder;

// A list of numbers written in place: HLO_DIMS(2, 3), HLO_DIMS() for none. It lives until the end of the block.
#define HLO_DIMS(...)                                   \
    ((HloInts){&((const int64_t[]){0, __VA_ARGS__})[1], \
               (int64_t)(sizeof((const int64_t[]){0, __VA_ARGS__}) / sizeof(int64_t)) - 1})

// ---------------------------------------------------------------------------------------------------------------------
// Builders

// A builder that fills a new computation of `module` called `name` (NULL: "region"). NULL when memory is short.
HLO_EXPORT HloBuilder *hlo_builder_new(HloModule *module, const char *name);
// Makes `root` the root, sets *computation (which may be NULL) to the finished computation, and frees the builder. The
// first error of the builder comes back, also when `root` is NULL or a parameter number is missing; the computation
// must then not be used.
HLO_EXPORT HLO_NODISCARD HloStatus hlo_builder_finish(HloBuilder *builder, HloInstruction *root,
                                                      HloComputation **computation);
// As hlo_builder_finish(), and makes the computation the module's entry.
HLO_EXPORT HLO_NODISCARD HloStatus hlo_builder_finish_entry(HloBuilder *builder, HloInstruction *root);
// The first error so far, or NULL. It belongs to the builder.
HLO_EXPORT const struct HloError *hlo_builder_status(const HloBuilder *builder);
// The computation that is being built.
HLO_EXPORT HloComputation *hlo_builder_computation(HloBuilder *builder);
// The module that is being built.
HLO_EXPORT HloModule *hlo_builder_module(HloBuilder *builder);
// Metadata that every instruction from now on gets (copied); NULL for none.
HLO_EXPORT void hlo_builder_set_metadata(HloBuilder *builder, const HloMetadata *metadata);
// Instructions from now on say that they come from this place: HLO_AT(b) before a statement.
HLO_EXPORT void hlo_builder_set_source(HloBuilder *builder, const char *file, int64_t line);
#define HLO_AT(builder) hlo_builder_set_source((builder), __FILE__, __LINE__)
// The sharding that every instruction from now on gets (copied); NULL for none.
HLO_EXPORT void hlo_builder_set_sharding(HloBuilder *builder, const HloSharding *sharding);

// ---------------------------------------------------------------------------------------------------------------------
// Any op, and annotations

// What the general form of an op needs; leave out (zero) what it does not have.
typedef struct HloBuildRequest {
    HloOpcode opcode;
    HloInstruction *const *operands;
    int64_t operand_count;
    const void *attributes;  // the struct of the opcode's family (hlo/ir/attributes.h)
    HloComputation *const *called;
    int64_t called_count;
    const HloShape *shape;  // where it does not follow from the operands
    HloType type;           // or an element type and sizes instead of `shape`;
    HloInts dims;           // HLO_INVALID: that of operand 0
    bool has_dims;          // `dims` counts even when empty
} HloBuildRequest;

// Appends any instruction. All other functions come down to this one.
HLO_EXPORT HloInstruction *hlo_build(HloBuilder *builder, const HloBuildRequest *request);
// Gives `instruction` a sharding and returns it (NULL stays NULL).
HLO_EXPORT HloInstruction *hlo_build_with_sharding(HloBuilder *builder, HloInstruction *instruction,
                                                   const HloSharding *sharding);
// Gives `instruction` a name and returns it (NULL stays NULL).
HLO_EXPORT HloInstruction *hlo_build_with_name(HloBuilder *builder, HloInstruction *instruction, const char *name);
// Gives `instruction` metadata and returns it (NULL stays NULL).
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
// Parameter `number` of any shape (tuples, tokens, layouts).
HLO_EXPORT HloInstruction *hlo_build_parameter_shape(HloBuilder *builder, int64_t number, const HloShape *shape,
                                                     const char *name);
// A constant with the values of `literal`.
HLO_EXPORT HloInstruction *hlo_build_constant(HloBuilder *builder, const HloLiteral *literal);
// A constant array; `data` holds its elements row by row, in the storage form of hlo/ir/literal.h.
HLO_EXPORT HloInstruction *hlo_build_array(HloBuilder *builder, HloType type, HloInts dims, const void *data);
// A scalar constant; rounds to nearest even for floats, wraps for integers.
HLO_EXPORT HloInstruction *hlo_build_scalar(HloBuilder *builder, HloType type, double value);
// A scalar constant of an integer type, exact to 64 bits.
HLO_EXPORT HloInstruction *hlo_build_scalar_int64(HloBuilder *builder, HloType type, int64_t value);
// A complex scalar constant.
HLO_EXPORT HloInstruction *hlo_build_scalar_complex(HloBuilder *builder, HloType type, double real, double imaginary);
// An array with one value everywhere (a scalar constant, broadcast).
HLO_EXPORT HloInstruction *hlo_build_splat(HloBuilder *builder, HloType type, HloInts dims, double value);
// As hlo_build_splat(), with the type and sizes of `like`.
HLO_EXPORT HloInstruction *hlo_build_splat_like(HloBuilder *builder, const HloInstruction *like, double value);
// 0, 1, 2 ... along `dimension`.
HLO_EXPORT HloInstruction *hlo_build_iota(HloBuilder *builder, HloType type, HloInts dims, int64_t dimension);
// The number of this device among the partitions, u32[].
HLO_EXPORT HloInstruction *hlo_build_partition_id(HloBuilder *builder);
// The number of this device among the replicas, u32[].
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
// The inverse of the error function, +-infinity at +-1; f32 and f64, other floats through f32. No op: a graph of some
// 40 ops (hlo/ir/special.c has the source).
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
// Absolute value; of a complex number its modulus, real.
HLO_EXPORT HloInstruction *hlo_build_abs(HloBuilder *builder, HloInstruction *x);
// Rounds up.
HLO_EXPORT HloInstruction *hlo_build_ceil(HloBuilder *builder, HloInstruction *x);
// Leading zero bits.
HLO_EXPORT HloInstruction *hlo_build_clz(HloBuilder *builder, HloInstruction *x);
// Rounds down.
HLO_EXPORT HloInstruction *hlo_build_floor(HloBuilder *builder, HloInstruction *x);
// Imaginary part.
HLO_EXPORT HloInstruction *hlo_build_imag(HloBuilder *builder, HloInstruction *x);
// True where neither infinite nor NaN.
HLO_EXPORT HloInstruction *hlo_build_is_finite(HloBuilder *builder, HloInstruction *x);
// -x.
HLO_EXPORT HloInstruction *hlo_build_negate(HloBuilder *builder, HloInstruction *x);
// Every bit (of pred: the value) turned over.
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
// Another element type, by value.
HLO_EXPORT HloInstruction *hlo_build_convert(HloBuilder *builder, HloInstruction *x, HloType type);
// Another element type, by bits; a last dimension comes or goes when the widths differ.
HLO_EXPORT HloInstruction *hlo_build_bitcast_convert(HloBuilder *builder, HloInstruction *x, HloType type);
// The same memory seen with another type and sizes.
HLO_EXPORT HloInstruction *hlo_build_bitcast(HloBuilder *builder, HloInstruction *x, HloType type, HloInts dims);
// Rounds to a float of so many bits, kept in the same type.
HLO_EXPORT HloInstruction *hlo_build_reduce_precision(HloBuilder *builder, HloInstruction *x, int64_t exponent_bits,
                                                      int64_t mantissa_bits);

// ---------------------------------------------------------------------------------------------------------------------
// Elementwise, two and three operands of equal sizes (broadcast first: hlo_build_broadcast_to)

// a + b; of pred: or.
HLO_EXPORT HloInstruction *hlo_build_add(HloBuilder *builder, HloInstruction *a, HloInstruction *b);
// Bitwise and.
HLO_EXPORT HloInstruction *hlo_build_and(HloBuilder *builder, HloInstruction *a, HloInstruction *b);
// Angle of the point (b, a).
HLO_EXPORT HloInstruction *hlo_build_atan2(HloBuilder *builder, HloInstruction *a, HloInstruction *b);
// Complex numbers of their parts.
HLO_EXPORT HloInstruction *hlo_build_complex(HloBuilder *builder, HloInstruction *real, HloInstruction *imaginary);
// a / b; towards zero for integers.
HLO_EXPORT HloInstruction *hlo_build_div(HloBuilder *builder, HloInstruction *a, HloInstruction *b);
// The greater; NaN if either is.
HLO_EXPORT HloInstruction *hlo_build_max(HloBuilder *builder, HloInstruction *a, HloInstruction *b);
// The smaller; NaN if either is.
HLO_EXPORT HloInstruction *hlo_build_min(HloBuilder *builder, HloInstruction *a, HloInstruction *b);
// a * b; of pred: and.
HLO_EXPORT HloInstruction *hlo_build_mul(HloBuilder *builder, HloInstruction *a, HloInstruction *b);
// Bitwise or.
HLO_EXPORT HloInstruction *hlo_build_or(HloBuilder *builder, HloInstruction *a, HloInstruction *b);
// a to the power of b.
HLO_EXPORT HloInstruction *hlo_build_pow(HloBuilder *builder, HloInstruction *a, HloInstruction *b);
// Remainder with the sign of a.
HLO_EXPORT HloInstruction *hlo_build_rem(HloBuilder *builder, HloInstruction *a, HloInstruction *b);
// a shifted left by b bits; 0 when b is too large.
HLO_EXPORT HloInstruction *hlo_build_shift_left(HloBuilder *builder, HloInstruction *a, HloInstruction *b);
// a shifted right by b bits, keeping the sign.
HLO_EXPORT HloInstruction *hlo_build_shift_right_arithmetic(HloBuilder *builder, HloInstruction *a, HloInstruction *b);
// a shifted right by b bits, zeros coming in.
HLO_EXPORT HloInstruction *hlo_build_shift_right_logical(HloBuilder *builder, HloInstruction *a, HloInstruction *b);
// a - b.
HLO_EXPORT HloInstruction *hlo_build_sub(HloBuilder *builder, HloInstruction *a, HloInstruction *b);
// Bitwise exclusive or.
HLO_EXPORT HloInstruction *hlo_build_xor(HloBuilder *builder, HloInstruction *a, HloInstruction *b);
// HLO_ComparisonDirection_EQ .. LT, in the order natural to the type.
HLO_EXPORT HloInstruction *hlo_build_compare(HloBuilder *builder, HloInstruction *a, HloInstruction *b,
                                             int32_t direction);
// As hlo_build_compare() for floats in total order: -NaN < -inf < .. < -0 < 0 < .. < NaN.
HLO_EXPORT HloInstruction *hlo_build_compare_total_order(HloBuilder *builder, HloInstruction *a, HloInstruction *b,
                                                         int32_t direction);
// x rounded to `type` up or down by chance; `random` are unsigned numbers as wide as x.
HLO_EXPORT HloInstruction *hlo_build_stochastic_convert(HloBuilder *builder, HloInstruction *x, HloInstruction *random,
                                                        HloType type);
// x held between `low` and `high` (each a scalar or as large as x).
HLO_EXPORT HloInstruction *hlo_build_clamp(HloBuilder *builder, HloInstruction *low, HloInstruction *x,
                                           HloInstruction *high);
// on_true where `predicate` (a scalar or as large), else on_false.
HLO_EXPORT HloInstruction *hlo_build_select(HloBuilder *builder, HloInstruction *predicate, HloInstruction *on_true,
                                            HloInstruction *on_false);

// ---------------------------------------------------------------------------------------------------------------------
// Shape and data movement

// An array of sizes `dims`; dimension i of x becomes dimension `mapping.items[i]`, the others repeat.
HLO_EXPORT HloInstruction *hlo_build_broadcast(HloBuilder *builder, HloInstruction *x, HloInts dims, HloInts mapping);
// x repeated to sizes `dims` as NumPy does it: dimensions are matched from the last one, those of size 1 repeat.
HLO_EXPORT HloInstruction *hlo_build_broadcast_to(HloBuilder *builder, HloInstruction *x, HloInts dims);
// The operands one behind the other along `dimension`.
HLO_EXPORT HloInstruction *hlo_build_concatenate(HloBuilder *builder, HloInstruction *const *operands, int64_t count,
                                                 int64_t dimension);
// The same elements in row-major order with other sizes.
HLO_EXPORT HloInstruction *hlo_build_reshape(HloBuilder *builder, HloInstruction *x, HloInts dims);
// As hlo_build_reshape() with sizes known at run time only: `sizes` are s32 scalars, `bounds` their limits; dimensions
// with `dynamic[i]` vary.
HLO_EXPORT HloInstruction *hlo_build_dynamic_reshape(HloBuilder *builder, HloInstruction *x,
                                                     HloInstruction *const *sizes, HloInts bounds, const bool *dynamic);
// Dimension i of the result is dimension `permutation.items[i]` of x.
HLO_EXPORT HloInstruction *hlo_build_transpose(HloBuilder *builder, HloInstruction *x, HloInts permutation);
// The order of the elements along `dimensions` turned around.
HLO_EXPORT HloInstruction *hlo_build_reverse(HloBuilder *builder, HloInstruction *x, HloInts dimensions);
// x[starts : limits : strides]; strides may be empty for all 1.
HLO_EXPORT HloInstruction *hlo_build_slice(HloBuilder *builder, HloInstruction *x, HloInts starts, HloInts limits,
                                           HloInts strides);
// `sizes` elements from `starts` (one integer scalar a dimension) on; starts are moved inside.
HLO_EXPORT HloInstruction *hlo_build_dynamic_slice(HloBuilder *builder, HloInstruction *x,
                                                   HloInstruction *const *starts, HloInts sizes);
// x with `update` put at `starts`, which are moved so that it fits.
HLO_EXPORT HloInstruction *hlo_build_dynamic_update_slice(HloBuilder *builder, HloInstruction *x,
                                                          HloInstruction *update, HloInstruction *const *starts);
// x with `value` (a scalar) around and between its elements; negative numbers take away. `interior` may be empty.
HLO_EXPORT HloInstruction *hlo_build_pad(HloBuilder *builder, HloInstruction *x, HloInstruction *value, HloInts low,
                                         HloInts high, HloInts interior);
// The size of a dimension at run time, s32[].
HLO_EXPORT HloInstruction *hlo_build_get_dimension_size(HloBuilder *builder, HloInstruction *x, int64_t dimension);
// x with dimension `dimension` shortened to `size` (s32[]) at run time.
HLO_EXPORT HloInstruction *hlo_build_set_dimension_size(HloBuilder *builder, HloInstruction *x, HloInstruction *size,
                                                        int64_t dimension);

// ---------------------------------------------------------------------------------------------------------------------
// Linear algebra

// The general product: dimension lists, precision and algorithm as in `attributes`; result elements of `type`, or of
// the operands' type when HLO_INVALID.
HLO_EXPORT HloInstruction *hlo_build_dot(HloBuilder *builder, HloInstruction *lhs, HloInstruction *rhs,
                                         const HloDotAttributes *attributes, HloType type);
// Matrix product: contracts the last dimension of a with the second last of b (the only one of a vector); leading
// dimensions are a batch when both have them.
HLO_EXPORT HloInstruction *hlo_build_matmul(HloBuilder *builder, HloInstruction *a, HloInstruction *b);
// A product whose groups have sizes given at run time.
HLO_EXPORT HloInstruction *hlo_build_ragged_dot(HloBuilder *builder, HloInstruction *lhs, HloInstruction *rhs,
                                                HloInstruction *group_sizes, const HloDotAttributes *attributes,
                                                HloType type);
// A product of block-scaled operands: a scale serves a block of neighbours; scalars or arrays of the operand's rank.
HLO_EXPORT HloInstruction *hlo_build_scaled_dot(HloBuilder *builder, HloInstruction *lhs, HloInstruction *rhs,
                                                HloInstruction *lhs_scale, HloInstruction *rhs_scale,
                                                const HloDotAttributes *attributes, HloType type);
// Convolution as `attributes` describe it (window sizes of 0 are taken from the kernel; strides and dilations of 0 are
// 1); result elements of `type`, or of the operands' type when HLO_INVALID.
HLO_EXPORT HloInstruction *hlo_build_convolution(HloBuilder *builder, HloInstruction *input, HloInstruction *kernel,
                                                 const HloConvolutionAttributes *attributes, HloType type);
// L with L L^H = a, or its transpose.
HLO_EXPORT HloInstruction *hlo_build_cholesky(HloBuilder *builder, HloInstruction *a, bool lower);
// x with op(a) x = b, or x op(a) = b.
HLO_EXPORT HloInstruction *hlo_build_triangular_solve(HloBuilder *builder, HloInstruction *a, HloInstruction *b,
                                                      const HloTriangularSolveAttributes *attributes);
// Fourier transform of the last `length.count` dimensions; `type` is HLO_FftType_*.
HLO_EXPORT HloInstruction *hlo_build_fft(HloBuilder *builder, HloInstruction *x, int32_t type, HloInts length);
// (normalised x, mean, variance) over all dimensions but `feature`.
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

// The computation op(a, b) of two scalars of `type`, made once a module; NULL and an error when memory is short.
HLO_EXPORT HloComputation *hlo_build_combiner(HloBuilder *builder, HloOpcode opcode, HloType type);
// A scalar constant that changes nothing under `opcode` (add, multiply, maximum, minimum, and, or, xor).
HLO_EXPORT HloInstruction *hlo_build_identity_value(HloBuilder *builder, HloOpcode opcode, HloType type);
// Reduces `count` arrays over `dimensions` from as many initial scalars with `combiner`; a tuple when more than one.
HLO_EXPORT HloInstruction *hlo_build_reduce(HloBuilder *builder, HloInstruction *const *arrays,
                                            HloInstruction *const *initial, int64_t count, HloInts dimensions,
                                            HloComputation *combiner);
// Reduces one array with a binary op (HLO_OP_ADD, MULTIPLY, MAXIMUM, MINIMUM, AND, OR, XOR) from its identity.
HLO_EXPORT HloInstruction *hlo_build_reduce_op(HloBuilder *builder, HloOpcode opcode, HloInstruction *x,
                                               HloInts dimensions);
// As hlo_build_reduce() over a sliding window.
HLO_EXPORT HloInstruction *hlo_build_reduce_window(HloBuilder *builder, HloInstruction *const *arrays,
                                                   HloInstruction *const *initial, int64_t count,
                                                   const HloWindow *window, HloComputation *combiner);
// As hlo_build_reduce_op() over a sliding window.
HLO_EXPORT HloInstruction *hlo_build_reduce_window_op(HloBuilder *builder, HloOpcode opcode, HloInstruction *x,
                                                      const HloWindow *window);
// Adds each element of `source` with `scatter` to the element of its window of x that `select` prefers.
HLO_EXPORT HloInstruction *hlo_build_select_and_scatter(HloBuilder *builder, HloInstruction *x, HloInstruction *source,
                                                        HloInstruction *initial, const HloWindow *window,
                                                        HloComputation *select, HloComputation *scatter);
// A computation of scalars applied to all elements.
HLO_EXPORT HloInstruction *hlo_build_map(HloBuilder *builder, HloInstruction *const *operands, int64_t count,
                                         HloComputation *computation);
// Sorts `count` arrays together along `dimension`; the comparator takes two elements of each.
HLO_EXPORT HloInstruction *hlo_build_sort(HloBuilder *builder, HloInstruction *const *operands, int64_t count,
                                          int64_t dimension, bool stable, HloComputation *comparator);
// (the k largest or smallest elements of the last dimension, their places as s32).
HLO_EXPORT HloInstruction *hlo_build_topk(HloBuilder *builder, HloInstruction *x, int64_t k, bool largest);
// Runs `computation` along a dimension of the arrays with carries, operands being arrays, then carries.
HLO_EXPORT HloInstruction *hlo_build_scan(HloBuilder *builder, HloInstruction *const *operands, int64_t count,
                                          const HloScanAttributes *attributes, HloComputation *computation);
// Slices of x at places given by `indices`.
HLO_EXPORT HloInstruction *hlo_build_gather(HloBuilder *builder, HloInstruction *x, HloInstruction *indices,
                                            const HloGatherAttributes *attributes);
// `count` arrays with updates combined in at places given by `indices`. `updates` has `count` items.
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
// Repeats `body` from `initial` on while `condition` holds.
HLO_EXPORT HloInstruction *hlo_build_while(HloBuilder *builder, HloInstruction *initial, HloComputation *condition,
                                           HloComputation *body);
// Runs one of two computations, by `predicate` (pred[]), each on its own operand.
HLO_EXPORT HloInstruction *hlo_build_if(HloBuilder *builder, HloInstruction *predicate, HloInstruction *true_operand,
                                        HloComputation *on_true, HloInstruction *false_operand,
                                        HloComputation *on_false);
// Runs branch `index` (s32[]) of `count` on its operand; the last one when the index is out of range.
HLO_EXPORT HloInstruction *hlo_build_switch(HloBuilder *builder, HloInstruction *index, HloInstruction *const *operands,
                                            HloComputation *const *branches, int64_t count);
// A tuple.
HLO_EXPORT HloInstruction *hlo_build_tuple(HloBuilder *builder, HloInstruction *const *operands, int64_t count);
// Element `index` of a tuple.
HLO_EXPORT HloInstruction *hlo_build_get(HloBuilder *builder, HloInstruction *tuple, int64_t index);
// A token that comes after the given ones (none: at once).
HLO_EXPORT HloInstruction *hlo_build_after_all(HloBuilder *builder, HloInstruction *const *tokens, int64_t count);
// x, not before `token`.
HLO_EXPORT HloInstruction *hlo_build_add_dependency(HloBuilder *builder, HloInstruction *x, HloInstruction *token);
// x, seen by optimisations as something else.
HLO_EXPORT HloInstruction *hlo_build_barrier(HloBuilder *builder, HloInstruction *x);
// The boundary between two domains.
HLO_EXPORT HloInstruction *hlo_build_domain(HloBuilder *builder, HloInstruction *x,
                                            const HloDomainAttributes *attributes);
// A call to `target` outside the language, which gives `shape`. For more than a target use hlo_build().
HLO_EXPORT HloInstruction *hlo_build_custom_call(HloBuilder *builder, const char *target,
                                                 HloInstruction *const *operands, int64_t count, const HloShape *shape);
// Asks the partitioner to have x sharded so: the custom call "Sharding".
HLO_EXPORT HloInstruction *hlo_build_sharding_constraint(HloBuilder *builder, HloInstruction *x,
                                                         const HloSharding *sharding);
// Starts `computation` (usually of one instruction) on an own thread of execution; "main" when `thread` is NULL.
HLO_EXPORT HloInstruction *hlo_build_async_start(HloBuilder *builder, HloInstruction *const *operands, int64_t count,
                                                 HloComputation *computation, const char *thread);
// A point between start and done.
HLO_EXPORT HloInstruction *hlo_build_async_update(HloBuilder *builder, HloInstruction *start);
// What the started computation gives.
HLO_EXPORT HloInstruction *hlo_build_async_done(HloBuilder *builder, HloInstruction *start);

// ---------------------------------------------------------------------------------------------------------------------
// Collectives. Groups, channel and dimensions as in `attributes`; the result shape follows from the group size, which
// for empty groups is the module's replica_count or num_partitions (hlo/ir/module.h).

// All devices of a group get the combined operands.
HLO_EXPORT HloInstruction *hlo_build_all_reduce(HloBuilder *builder, HloInstruction *const *operands, int64_t count,
                                                const HloCollectiveAttributes *attributes, HloComputation *combiner);
// As hlo_build_all_reduce() of one array with a binary op.
HLO_EXPORT HloInstruction *hlo_build_all_reduce_op(HloBuilder *builder, HloOpcode opcode, HloInstruction *x,
                                                   const HloCollectiveAttributes *attributes);
// Begins an all-reduce.
HLO_EXPORT HloInstruction *hlo_build_all_reduce_start(HloBuilder *builder, HloInstruction *const *operands,
                                                      int64_t count, const HloCollectiveAttributes *attributes,
                                                      HloComputation *combiner);
// Ends an all-reduce.
HLO_EXPORT HloInstruction *hlo_build_all_reduce_done(HloBuilder *builder, HloInstruction *start);
// All devices of a group get the operands of all, one behind the other.
HLO_EXPORT HloInstruction *hlo_build_all_gather(HloBuilder *builder, HloInstruction *const *operands, int64_t count,
                                                const HloCollectiveAttributes *attributes);
// Begins an all-gather.
HLO_EXPORT HloInstruction *hlo_build_all_gather_start(HloBuilder *builder, HloInstruction *const *operands,
                                                      int64_t count, const HloCollectiveAttributes *attributes);
// Ends an all-gather.
HLO_EXPORT HloInstruction *hlo_build_all_gather_done(HloBuilder *builder, HloInstruction *start);
// Each device of a group gets its share of the combined operands.
HLO_EXPORT HloInstruction *hlo_build_reduce_scatter(HloBuilder *builder, HloInstruction *const *operands, int64_t count,
                                                    const HloCollectiveAttributes *attributes,
                                                    HloComputation *combiner);
// Each device sends a part of its operand to each other one. Several operands: the tuple form.
HLO_EXPORT HloInstruction *hlo_build_all_to_all(HloBuilder *builder, HloInstruction *const *operands, int64_t count,
                                                const HloCollectiveAttributes *attributes);
// All-to-all of parts of different sizes. Operands: input, output, input offsets, send sizes, output offsets, receive
// sizes.
HLO_EXPORT HloInstruction *hlo_build_ragged_all_to_all(HloBuilder *builder, HloInstruction *const operands[6],
                                                       const HloCollectiveAttributes *attributes);
// The first device of each group sends to the others.
HLO_EXPORT HloInstruction *hlo_build_collective_broadcast(HloBuilder *builder, HloInstruction *const *operands,
                                                          int64_t count, const HloCollectiveAttributes *attributes);
// Sends from device to device as the pairs say; zeros arrive where no pair ends.
HLO_EXPORT HloInstruction *hlo_build_collective_permute(HloBuilder *builder, HloInstruction *x, HloPairs pairs,
                                                        int64_t channel_id);
// Begins a collective-permute.
HLO_EXPORT HloInstruction *hlo_build_collective_permute_start(HloBuilder *builder, HloInstruction *x, HloPairs pairs,
                                                              int64_t channel_id);
// Ends a collective-permute.
HLO_EXPORT HloInstruction *hlo_build_collective_permute_done(HloBuilder *builder, HloInstruction *start);

// ---------------------------------------------------------------------------------------------------------------------
// Transfers and random numbers

// Begins a copy between memories.
HLO_EXPORT HloInstruction *hlo_build_copy_start(HloBuilder *builder, HloInstruction *x);
// Ends a copy.
HLO_EXPORT HloInstruction *hlo_build_copy_done(HloBuilder *builder, HloInstruction *start);
// Sends x over a channel.
HLO_EXPORT HloInstruction *hlo_build_send(HloBuilder *builder, HloInstruction *x, HloInstruction *token,
                                          int64_t channel_id, bool is_host_transfer);
// Ends a send.
HLO_EXPORT HloInstruction *hlo_build_send_done(HloBuilder *builder, HloInstruction *send);
// Receives something of `shape` over a channel.
HLO_EXPORT HloInstruction *hlo_build_recv(HloBuilder *builder, HloInstruction *token, const HloShape *shape,
                                          int64_t channel_id, bool is_host_transfer);
// Ends a receive: (data, token).
HLO_EXPORT HloInstruction *hlo_build_recv_done(HloBuilder *builder, HloInstruction *recv);
// (something of `shape` from the host, token).
HLO_EXPORT HloInstruction *hlo_build_infeed(HloBuilder *builder, HloInstruction *token, const HloShape *shape,
                                            const char *config);
// Gives x to the host.
HLO_EXPORT HloInstruction *hlo_build_outfeed(HloBuilder *builder, HloInstruction *x, HloInstruction *token,
                                             const char *config);
// Numbers of the distribution HLO_RandomDistribution_* with parameters a and b (scalars): between them, or mean and
// deviation.
HLO_EXPORT HloInstruction *hlo_build_rng(HloBuilder *builder, int32_t distribution, HloInstruction *a,
                                         HloInstruction *b, HloInts dims);
// (next state, random bits) by HLO_RandomAlgorithm_*.
HLO_EXPORT HloInstruction *hlo_build_rng_bit_generator(HloBuilder *builder, HloInstruction *state, int32_t algorithm,
                                                       HloType type, HloInts dims);
// The hidden state u64[2] of this device, which moves on by `delta`.
HLO_EXPORT HloInstruction *hlo_build_rng_state(HloBuilder *builder, int64_t delta);

HLO_END_C

#endif
