// SPDX-License-Identifier: Apache-2.0
// Declarations that the files of hlo/eval share: values, the device that runs, and the handlers of hlo/ops.def.
//
// Memory: values are on a list of their device and reference-counted; any values on the list when a run ends,
// successfully or not, are freed with the device. So handlers simply return on errors. Scratch comes from the device's
// arena, which is reset after every instruction.
#ifndef MESHLO_HLO_EVAL_INTERNAL_H_
#define MESHLO_HLO_EVAL_INTERNAL_H_

#include <stdatomic.h>

#include "hlo/eval/draw.h"
#include "hlo/eval/eval.h"

// The maximum nesting depth of calls.
#define HLO_EVAL_MAX_DEPTH 400

typedef struct HloEvalDevice HloEvalDevice;
typedef struct HloEvalWorld HloEvalWorld;
typedef struct HloEvalMail HloEvalMail;

// An array, a tuple or a token during a run.
typedef struct HloEvalValue {
    struct HloEvalValue *previous, *next;  // the device's list
    const HloShape *shape;
    void *data;                      // dense, row-major; NULL for structures
    struct HloEvalValue **elements;  // of a tuple; NULL entries were moved out
    int64_t *sizes;                  // actual sizes of a dynamic array, or NULL: all at their bounds
    int64_t references;
    int64_t bytes;  // bytes of the data that the value itself owns
    bool borrowed;  // data belongs to a literal
} HloEvalValue;

// An instruction within a prepared computation.
typedef struct HloEvalStep {
    const HloInstruction *instruction;
    const int32_t *operand_slots;
    const bool *last_use;  // per operand: no later step needs the value
    bool has_uses;         // false for effects whose value is unused
    bool moves_element;    // get-tuple-element that is the last use of this element of its tuple
} HloEvalStep;

// A computation prepared for running: slots number its instructions in order.
typedef struct HloEvalPlan {
    HloEvalStep *steps;
    int32_t count;
    int32_t root_slot;
    const int32_t *parameter_slots;  // by parameter number; -1: not used
} HloEvalPlan;

// The state of one device.
struct HloEvalDevice {
    HloEvalWorld *world;
    int64_t number;  // replica * partitions + partition
    HloArena *scratch;
    HloEvalValue *values;  // head of the list
    int64_t depth;
    HloDraws draws;
};

// What all devices of a run share.
struct HloEvalWorld {
    HloEvalOptions options;
    const HloModule *module;
    HloArena *arena;      // plans
    HloEvalPlan **plans;  // by computation id
    int64_t replica_count, partition_count;
    bool manual_regions;  // unpartitioned program: devices differ only inside manual regions
    HloEvalDevice *devices;
    int64_t device_count;
    struct HloEvalRendezvous *rendezvous;  // NULL with one device
    HloEvalMail *mail;                     // between devices, under the lock; NULL before the first message
    int64_t memory_limit;
    _Atomic int64_t memory_used;  // by values
};

// A handler: sets *result to a new reference. operands[] holds one reference each, which the caller drops afterwards; a
// handler may take one over (hlo_eval_take), and may overwrite the data of one that is the last reference.
typedef HloStatus HloEvalFunction(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                                  HloEvalValue **result);
#define HLO_OP(name, text, arity, flags, family, kinds, shape, eval, partition, cost, jvp, transpose, batching) \
    HloEvalFunction hlo_eval_##eval;
#include "hlo/ops.def"
#undef HLO_OP

// ---- values (value.c)

// A value with uninitialised data for `shape`; tuples get an empty element list. One reference. RESOURCE_EXHAUSTED.
HloStatus hlo_eval_new(HloEvalDevice *device, const HloShape *shape, HloEvalValue **value);
// A value of zeros, tuples down to their leaves.
HloStatus hlo_eval_new_zeroed(HloEvalDevice *device, const HloShape *shape, HloEvalValue **value);
// A tuple of `elements`, each of which gets one more reference.
HloStatus hlo_eval_new_tuple(HloEvalDevice *device, const HloShape *shape, HloEvalValue *const *elements, int64_t count,
                             HloEvalValue **value);
// A view of a literal's data, which must outlive it. Elided literals are filled.
HloStatus hlo_eval_borrow(HloEvalDevice *device, const HloLiteral *literal, HloEvalValue **value);
// The same data under another shape of as many bytes: takes the data over when it may, else copies. Keeps actual sizes
// when the rank is the same.
HloStatus hlo_eval_with_shape(HloEvalDevice *device, HloEvalValue *value, const HloShape *shape, HloEvalValue **result);
// A deep copy on another (or the same) device.
HloStatus hlo_eval_copy_value(HloEvalDevice *device, const HloEvalValue *value, HloEvalValue **copy);
// Adds one reference; returns the value.
HloEvalValue *hlo_eval_retain(HloEvalValue *value);
// Takes operand `index` over from the caller of a handler.
static inline HloEvalValue *hlo_eval_take(HloEvalValue **operands, int64_t index) {
    HloEvalValue *value = operands[index];
    operands[index] = NULL;
    return value;
}
// Drops one reference; frees the value with the last one. Accepts NULL.
void hlo_eval_release(HloEvalDevice *device, HloEvalValue *value);
// Frees all values of the device.
void hlo_eval_release_all(HloEvalDevice *device);
// True if a handler may write into the value's data.
static inline bool hlo_eval_may_overwrite(const HloEvalValue *value) {
    return value->references == 1 && !value->borrowed;
}
// A heap literal with the value's content.
HloStatus hlo_eval_to_literal(const HloEvalValue *value, HloLiteral **literal);
// Elements of the value's array.
static inline int64_t hlo_eval_elements(const HloEvalValue *value) {
    return hlo_shape_elements(value->shape);
}
// The actual size of dimension `dim`.
static inline int64_t hlo_eval_size(const HloEvalValue *value, int64_t dim) {
    return value->sizes ? value->sizes[dim] : value->shape->dims[dim];
}
// The value of an op with `count` array results, uninitialised: the array itself or a tuple; arrays[] are its parts.
HloStatus hlo_eval_new_results(HloEvalDevice *device, const HloShape *shape, int64_t count, HloEvalValue **result,
                               HloEvalValue **arrays);
// Copies between an array laid out in the bounds of `shape` and its dense elements below `sizes`: packs them (from
// bounds to dense) or unpacks them. Sizes must be within the bounds.
void hlo_eval_copy_actual(const HloShape *shape, const int64_t *sizes, const void *from, void *to, bool pack);
// A value for an argument of shape `shape`: a view as hlo_eval_borrow() makes, or, for a literal that is smaller than
// the bounds, a copy padded to them.
HloStatus hlo_eval_borrow_argument(HloEvalDevice *device, const HloLiteral *literal, const HloShape *shape,
                                   HloEvalValue **result);
// Whether a literal of shape `given` can be the argument for `wanted`: the same sizes or, in a dimension of dynamic
// size, at most its bound. Layouts do not matter.
bool hlo_eval_argument_fits(const HloShape *given, const HloShape *wanted);
// Gives the value actual sizes (copied). If all are equal to the bounds, they are dropped.
HloStatus hlo_eval_set_sizes(HloEvalDevice *device, HloEvalValue *value, const int64_t *sizes);

// Scratch of the current instruction. Never NULL (see hlo/base/memory.h); exceeding the run's memory limit counts as
// running out of memory.
static inline void *hlo_eval_scratch(HloEvalDevice *device, int64_t count, size_t bytes_each) {
    size_t bytes = hlo_array_bytes((size_t)count, bytes_each);
    if (bytes > (size_t)device->world->memory_limit) bytes = SIZE_MAX;
    return hlo_arena_allocate_uninitialised(device->scratch, bytes);
}
#define HLO_EVAL_SCRATCH(device, type, count) ((type *)hlo_eval_scratch((device), (count), sizeof(type)))

// ---- running (interpret.c)

// Runs a computation. Takes over one reference of every argument.
HloStatus hlo_eval_run(HloEvalDevice *device, const HloComputation *computation, HloEvalValue *const *arguments,
                       HloEvalValue **result);
// True for ops whose result consists of existing values, with the sizes of those.
bool hlo_eval_forwards_operands(HloOpcode opcode);

// Runs one instruction, also on arrays of dynamic size (bounded.c). Takes operands as a handler does.
HloStatus hlo_eval_apply(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                         HloEvalValue **result);
// The handler of an opcode.
HloEvalFunction *hlo_eval_handler(HloOpcode opcode);
// UNIMPLEMENTED naming the instruction: "<what> cannot be evaluated".
HloStatus hlo_eval_unsupported(const HloInstruction *instruction, const char *what);

// ---- numbers (numbers.c)

// `count` real elements of any type as doubles.
void hlo_eval_decode_double(HloType type, const void *data, int64_t count, double *out);
// Doubles as elements of a float type, rounded to nearest even.
void hlo_eval_encode_double(HloType type, const double *values, int64_t count, void *out);
// `count` real elements of any type as floats (f64 and wide integers are rounded).
void hlo_eval_decode_float(HloType type, const void *data, int64_t count, float *out);
// Floats as elements of a float type, rounded to nearest even.
void hlo_eval_encode_float(HloType type, const float *values, int64_t count, void *out);
// `count` integers or predicates in 64 bits; u64 keeps its bits.
void hlo_eval_decode_int64(HloType type, const void *data, int64_t count, int64_t *out);
// 64-bit integers as elements of an integer type, wrapped; as predicates, true when not zero.
void hlo_eval_encode_int64(HloType type, const int64_t *values, int64_t count, void *out);
// `count` elements of any type as complex numbers (real ones with imaginary part 0).
void hlo_eval_decode_complex(HloType type, const void *data, int64_t count, double _Complex *out);
// Complex numbers as elements of c64 (rounded) or c128.
void hlo_eval_encode_complex(HloType type, const double _Complex *values, int64_t count, void *out);
// An integer scalar (element `index` of the value).
int64_t hlo_eval_integer_at(const HloEvalValue *value, int64_t index);
// Wraps `count` bytes of a type below 8 bits to its width, in place.
void hlo_eval_wrap_narrow(HloType type, void *data, int64_t count);
// Reinterprets bits of another type as `count` elements of `type`, in place: an element of less than a byte takes the
// low bits and extends its own sign, and any nonzero predicate becomes true.
void hlo_eval_normalise_bits(HloType type, void *data, int64_t count);
// f32 rounded to nearest-even bf16, as f32; NaN stays NaN.
float hlo_eval_round_bf16(float value);

// ---- element-wise kernels (kernels.c and the files beside it)

// Computes result[i] = op(operands[..][i]) for `count` elements; operands and result must not overlap partially. The
// instruction supplies opcode, types and attributes; its shapes may have any dimensions.
typedef void HloEvalKernel(const HloInstruction *instruction, const void *const *operands, void *result, int64_t count);
// The kernel of an element-wise instruction, or NULL when there is none for these types.
HloEvalKernel *hlo_eval_kernel(const HloInstruction *instruction);
// Its parts: ops on one operand of the instruction's operand type (unary.c), or NULL.
HloEvalKernel *hlo_eval_unary_kernel(const HloInstruction *instruction);
// Ops on two operands of a type (binary.c), or NULL. Kernels of narrow types read the opcode of the instruction.
HloEvalKernel *hlo_eval_binary_kernel(HloOpcode opcode, HloType type);
// Ops on one complex operand (complex.c), or NULL.
HloEvalKernel *hlo_eval_complex_unary_kernel(HloOpcode opcode);
// Ops on two complex operands (complex.c), or NULL.
HloEvalKernel *hlo_eval_complex_binary_kernel(HloOpcode opcode);
// The kernels of ops that form a family of their own.
HloEvalKernel hlo_eval_convert_kernel, hlo_eval_compare_kernel, hlo_eval_select_kernel, hlo_eval_clamp_kernel,
    hlo_eval_reduce_precision_kernel, hlo_eval_stochastic_convert_kernel, hlo_eval_copy_kernel;
// Elements that kernels working through a buffer take at a time.
#define HLO_EVAL_CHUNK 512
// Ranks of floats in the total order -NaN < -inf < … < -0 < +0 < … < inf < NaN, in which NaNs follow their payloads
// (compare.c).
void hlo_eval_total_order(HloType type, const void *data, int64_t count, int64_t *ranks);

// A new value with the elements of `value` converted to the shape's type as `convert` does; the dimensions are the
// same.
HloStatus hlo_eval_converted(HloEvalDevice *device, const HloEvalValue *value, const HloShape *shape,
                             HloEvalValue **result);
// Runs a product whose result is of another kind than its operands (hlo_product_converts()): the plain product with the
// implied conversions before and after it.
HloStatus hlo_eval_converting_product(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                                      HloEvalFunction *plain, HloEvalValue **result);

// ---- element types (types.c; see hlo_eval_check_types)

// Whether a computation on scalars fits: its parameters and results must have exactly these types.
HloStatus hlo_eval_check_scalars(const HloComputation *computation, const HloType *parameters, int64_t count,
                                 const HloType *results, int64_t result_count);

// ---- scalar computations (scalar.c)

// A computation on scalars (to_apply of reduce, map, sort …) prepared for many calls.
typedef struct HloEvalScalar HloEvalScalar;
// Prepares `computation` for batches of up to `width` calls.
HloStatus hlo_eval_scalar_prepare(HloEvalDevice *device, const HloComputation *computation, int64_t width,
                                  HloEvalScalar **scalar);
// Makes `count` calls: inputs[p] holds count elements of parameter p; outputs[r] receives result r. Outputs may be
// inputs.
HloStatus hlo_eval_scalar_call(HloEvalScalar *scalar, const void *const *inputs, void *const *outputs, int64_t count);
// Number of results: 1, or the elements of the root tuple.
int64_t hlo_eval_scalar_results(const HloComputation *computation);
// The opcode when the computation is one plain binary op on its two parameters in order (or any order if it commutes).
HloOpcode hlo_eval_scalar_opcode(const HloComputation *computation);

// Running totals of a reduction: `count` accumulators for each of the computation's values, started at the init values.
// Plain sums and products of floats up to 32 bits are kept in double and rounded once at the end.
typedef struct HloEvalFold HloEvalFold;
// Whether it is one of these sums or products, of elements of this type, which may differ from the computation's type.
bool hlo_eval_fold_is_in_double(const HloComputation *computation, HloType type);
// A bound that no reduction's number of values exceeds.
#define HLO_EVAL_MAX_VALUES 64
// `inits`, one per value, are scalars or `count` elements each to start from. A run of one hlo_eval_fold_add() may have
// any length; `width` is the usual one.
HloStatus hlo_eval_fold_new(HloEvalDevice *device, const HloComputation *computation, HloEvalValue *const *inits,
                            int64_t values, int64_t count, int64_t width, HloEvalFold **fold);
// accumulators[first + i] = computation(accumulators[first + i], inputs[i]) for i < count.
HloStatus hlo_eval_fold_add(HloEvalFold *fold, int64_t first, const void *const *inputs, int64_t count);
// Writes all accumulators of value `index`.
void hlo_eval_fold_write(const HloEvalFold *fold, int64_t index, void *out);

// ---- moving elements (move.c)

// Copies a block of `rank` dims between two arrays with strides in elements; strides may be 0 or negative.
void hlo_eval_copy_strided(char *target, const int64_t *target_strides, const char *source,
                           const int64_t *source_strides, const int64_t *dims, int64_t rank, int64_t element_bytes);
// Row-major strides of `dims`, in elements.
void hlo_eval_strides(const int64_t *dims, int64_t rank, int64_t *strides);
// The next index in row-major order below `dims`; false after the last one.
bool hlo_eval_next_index(const int64_t *dims, int64_t rank, int64_t *index);
// Fills `count` elements with the one at `element`.
void hlo_eval_fill(void *target, const void *element, int64_t element_bytes, int64_t count);
// Copies `value` with its dimensions permuted (result dimension i = dimension permutation[i]) into `target`.
void hlo_eval_transpose_into(HloEvalDevice *device, const HloEvalValue *value, const int64_t *permutation,
                             void *target);

// The first `k` elements of every row (last dimension) in descending or ascending total order, and their indices; equal
// ones in order (sort.c).
void hlo_eval_topk_rows(HloEvalDevice *device, const HloEvalValue *operand, int64_t k, bool largest,
                        HloEvalValue *values, HloEvalValue *indices);

// ---- products (product.c)

// The type in which a product is accumulated.
typedef enum HloEvalAccumulator { HLO_EVAL_DOUBLE, HLO_EVAL_INT64, HLO_EVAL_COMPLEX } HloEvalAccumulator;
// The accumulator for operands of these types.
HloEvalAccumulator hlo_eval_accumulator(HloType lhs, HloType rhs);
// Bytes of one accumulator number.
int64_t hlo_eval_accumulator_bytes(HloEvalAccumulator accumulator);
// Elements as accumulator numbers.
void hlo_eval_to_accumulator(HloEvalAccumulator accumulator, HloType type, const void *data, int64_t count, void *out);
// Accumulator numbers as elements: floats are rounded, integers wrap, pred is true when not zero.
void hlo_eval_from_accumulator(HloEvalAccumulator accumulator, HloType type, const void *data, int64_t count,
                               void *out);
// c[m][n] += sum over k of a[m][k] * b[k][n], row-major, k ascending.
void hlo_eval_matrix_multiply(HloEvalAccumulator accumulator, const void *a, const void *b, void *c, int64_t m,
                              int64_t n, int64_t k);
// The same in doubles (multiply.c).
void hlo_eval_multiply_double(const double *a, const double *b, double *c, int64_t m, int64_t n, int64_t k);
// A product of f32 numbers as a matrix unit computes it: operands split into bf16 numbers of decreasing size, and the
// products of part lhs[p] with part rhs[p] added up, smallest first.
typedef struct HloEvalPasses {
    int count;  // 0: operands as they are
    int lhs[9], rhs[9];
} HloEvalPasses;
// The passes for operands of these types under the run's numerics.
HloEvalPasses hlo_eval_passes(const HloEvalDevice *device, HloType lhs, HloType rhs, HloPrecisions precision,
                              int32_t algorithm, bool matrix_vector);

// c += a * b in passes; NaN from infinities in the small parts is dropped before the last, main product.
void hlo_eval_multiply_passes(HloEvalDevice *device, const HloEvalPasses *passes, const double *a, const double *b,
                              double *c, int64_t m, int64_t n, int64_t k);

// ---- custom calls: one handler a name in the evaluator's column of hlo/ir/custom_calls.def (custom_call.c,
// decompositions.c, manual.c)

#define CUSTOM_CALL(target, type, signature, evaluator, kernel, kind, configuration) \
    HloEvalFunction hlo_eval_call_##evaluator;
#include "hlo/ir/custom_calls.def"
#undef CUSTOM_CALL

// Sorts `count` arrays along dimension `dim` by the comparator, stably, into arrays[] of the same shapes (sort.c).
HloStatus hlo_eval_sort_arrays(HloEvalDevice *device, const HloComputation *comparator, int64_t dim,
                               HloEvalValue *const *operands, int64_t count, HloEvalValue *const *arrays);

// ---- devices (rendezvous.c)

// One device's part in an exchange.
typedef struct HloEvalParty {
    HloEvalDevice *device;
    HloEvalValue *const *operands;
    HloEvalValue *result;  // for the exchange to set: a value of that party's device
} HloEvalParty;
// Computes the results of all parties, in group order. `device` is the one that computes; the others wait.
typedef HloStatus HloEvalExchange(HloEvalDevice *device, const HloInstruction *instruction, HloEvalParty *parties,
                                  int64_t count);
// Waits until all devices of `group` (which contains this one) have reached `instruction`, lets one of them compute
// `exchange` and distributes the results. FAILED_PRECONDITION when they cannot all arrive.
HloStatus hlo_eval_meet(HloEvalDevice *device, const HloInstruction *instruction, HloInts group,
                        HloEvalValue *const *operands, HloEvalExchange *exchange, HloEvalValue **result);
// Locks the state that devices share; does nothing with one device.
void hlo_eval_lock(HloEvalWorld *world);
void hlo_eval_unlock(HloEvalWorld *world);  // the caller holds the lock
// Whether the condition that a device waits for is true. Called with the lock held.
typedef bool HloEvalReady(const HloEvalDevice *device, const void *context);
// With the lock held: waits until ready(device, context). FAILED_PRECONDITION when no other device can make it true.
HloStatus hlo_eval_await(HloEvalDevice *device, const HloInstruction *instruction, HloEvalReady *ready,
                         const void *context);
// With the lock held: wakes the devices whose wait is over.
void hlo_eval_announce(HloEvalWorld *world);
// Frees the messages that were never received.
void hlo_eval_free_mail(HloEvalWorld *world);
// Runs `computation` on all devices of the world; arguments[device][parameter].
HloStatus hlo_eval_run_world(HloEvalWorld *world, const HloComputation *computation,
                             const HloLiteral *const *const *arguments, HloLiteral **results);
// Runs `computation` on one device, from literals to a literal.
HloStatus hlo_eval_run_device(HloEvalDevice *device, const HloComputation *computation,
                              const HloLiteral *const *arguments, HloLiteral **result);

#endif
