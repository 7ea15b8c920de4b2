// SPDX-License-Identifier: Apache-2.0
// Helpers shared by the shape inference files: dimension lists under construction, checks, and shapes in messages.
//
// Stability: experimental.
#ifndef MESHLO_HLO_IR_INFER_SUPPORT_H_
#define MESHLO_HLO_IR_INFER_SUPPORT_H_

#include "hlo/ir/infer.h"

// The struct of an opcode's family inside a handler: HLO_INFER_ATTRIBUTES(request, Dot)->lhs_batch.
#define HLO_INFER_ATTRIBUTES(request, family) ((const Hlo##family##Attributes *)(request)->attributes)

// Returns INVALID_ARGUMENT from the calling function when `condition` holds.
#define HLO_REFUSE_IF(condition, ...) HLO_FAIL_IF(condition, HLO_INVALID_ARGUMENT, __VA_ARGS__)

// Dimensions of a result while they are being computed.
typedef struct HloDims {
    int64_t rank;
    int64_t *sizes;
    bool *dynamic;
} HloDims;

// `rank` static dimensions of size 0, in `arena`.
HloDims hlo_dims_new(HloArena *arena, int64_t rank);
// A copy of a shape's dimensions.
HloDims hlo_dims_of(HloArena *arena, const HloShape *shape);
// Copies dimension `from_dimension` of `shape` to dimension `to`.
void hlo_dims_take(HloDims *dims, int64_t to, const HloShape *shape, int64_t from_dimension);
// The finished array shape, without layout. INVALID_ARGUMENT if it is too large.
HLO_NODISCARD HloStatus hlo_dims_shape(HloArena *arena, HloType type, const HloDims *dims, const HloShape **result);

// True if dimension `index` of an array is dynamic.
static inline bool hlo_shape_dimension_is_dynamic(const HloShape *shape, int64_t index) {
    return shape->dynamic && shape->dynamic[index];
}
// The text "f32[2,3]" in the arena, for messages.
const char *hlo_shape_message(HloArena *arena, const HloShape *shape);
// The spelling of an enumerated value, "?" if it has none: attributes may come from a file.
static inline const char *hlo_enum_message(const HloEnumTable *table, int32_t value) {
    bool known = value >= 0 && value < table->count && table->texts[value];
    return known ? table->texts[value] : "?";
}
// The text "{0,2}" in the arena, for messages.
const char *hlo_ints_message(HloArena *arena, HloInts ints);

// INVALID_ARGUMENT unless operand `index` is an array.
HLO_NODISCARD HloStatus hlo_infer_need_array(const HloInferRequest *request, int64_t index);
// INVALID_ARGUMENT unless all operands are arrays.
HLO_NODISCARD HloStatus hlo_infer_need_arrays(const HloInferRequest *request);
// INVALID_ARGUMENT unless operand `index` is a scalar of integer type.
HLO_NODISCARD HloStatus hlo_infer_need_index_scalar(const HloInferRequest *request, int64_t index);
// INVALID_ARGUMENT unless there is a hint (which must be an array when `array`).
HLO_NODISCARD HloStatus hlo_infer_need_hint(const HloInferRequest *request, bool array);
// INVALID_ARGUMENT unless the request has exactly `count` called computations with roots and complete parameters.
HLO_NODISCARD HloStatus hlo_infer_need_called(const HloInferRequest *request, int64_t count);
// INVALID_ARGUMENT unless the values are distinct and within [0, rank). `what` names the list in the message.
HLO_NODISCARD HloStatus hlo_infer_check_dimensions(HloArena *arena, HloInts dimensions, int64_t rank, const char *what);
// True if the sizes of two dimensions agree; an unbounded one agrees with all.
static inline bool hlo_sizes_agree(int64_t a, int64_t b) {
    return a == b || a == HLO_UNBOUNDED || b == HLO_UNBOUNDED;
}
// True for equal element types, or if both are floating point (mixed precision, which HLO allows).
bool hlo_types_mix(HloType a, HloType b);
// The more precise of two types that mix; for other pairs the one with the larger range (complex, float, wider
// integer).
HloType hlo_higher_type(HloType a, HloType b);
// The element type of a product of the first two operands: the requested one (preferred_element_type), or the one that
// follows from the operands.
HloType hlo_infer_product_type(const HloInferRequest *request);
// The type in which a product of two element types is multiplied and accumulated before the conversion to `result`, as
// in XLA: the result's, unless the operands are of a kind that it cannot represent (in the order complex numbers,
// floats, integers, predicates, each kind can represent the later ones), or of two kinds the higher of which is more
// precise.
HloType hlo_product_type(HloType lhs, HloType rhs, HloType result);
// True if converting operands of type `side` to that type first makes a difference: integers that it rounds, or whose
// products overflow while floats do not.
bool hlo_product_converts_side(HloType side, HloType type);
// The dimensions of a ragged dot's left side that may have a list of group sizes for each index: those before the
// ragged one, first the batches, then those of the same kind (batch, contracting, free). It has one ragged dimension.
HloInts hlo_ragged_list_dims(HloArena *arena, const HloDotAttributes *dot);
// True if the instruction is a dot or convolution with a conversion inside: of an operand, or of the sum.
bool hlo_product_converts(const HloInstruction *instruction);
// True if the module contains one of them.
HLO_EXPORT bool hlo_module_has_converting_product(const HloModule *module);
// True for the same dimensions and types that mix, as required of the shapes on both sides of a call or a loop.
bool hlo_shapes_mix(const HloShape *a, const HloShape *b);

// The largest size, stride, dilation or padding of a window or a pad, and the largest extent that they may add up to:
// window positions are sums of products of these, and nothing after shape inference checks for overflow.
#define HLO_LARGEST_STEP (INT64_C(1) << 46)
#define HLO_LARGEST_EXTENT (INT64_C(1) << 61)
// True if a number is within +-HLO_LARGEST_STEP.
static inline bool hlo_is_step(int64_t number) {
    return number >= -HLO_LARGEST_STEP && number <= HLO_LARGEST_STEP;
}
// Merges `shape` into `dims`, the dimensions shared by arrays that are combined elementwise. `index` is the operand's
// number in the message.
HLO_NODISCARD HloStatus hlo_infer_merge_dims(HloArena *arena, HloDims *dims, const HloShape *shape, int64_t index);
// Checks the parameters of called computation `index` against `shapes`; the precision of floats may differ.
HLO_NODISCARD HloStatus hlo_infer_check_parameters(const HloInferRequest *request, int64_t index,
                                                   const HloShape *const *shapes, int64_t count);
// As hlo_infer_check_parameters(), for a caller that passes its arrays on unchanged: the precision of floats must be
// equal too.
HLO_NODISCARD HloStatus hlo_infer_check_arguments(const HloInferRequest *request, int64_t index,
                                                  const HloShape *const *shapes, int64_t count);
// True if two shapes are equal except for layouts and unknown sizes.
bool hlo_shapes_agree(const HloShape *a, const HloShape *b);
// One shape unchanged, several as a tuple: results of variadic ops.
const HloShape *hlo_infer_one_or_tuple(HloArena *arena, const HloShape *const *shapes, int64_t count);
// Checks a window against `shape` and computes the sizes that result from sliding it. Sources: XLA's window arithmetic;
// an axis of base_dilation d has (n-1)d+1 positions, an empty one none.
HLO_NODISCARD HloStatus hlo_infer_window_output(const HloWindowDimension *window, int64_t dimension, int64_t base,
                                                int64_t *output);
// A verified window without the positions at its ends that lie in padding for all `outputs` outputs over `base`
// elements: only four positions of a window of 2^40 over four elements matter. Reductions that skip padding give the
// same result through it, in the same order. It keeps the padding that the outputs need, and at least one position.
HloWindowDimension hlo_window_crop(HloWindowDimension window, int64_t base, int64_t outputs);
// True for a window of one element at each position, as along batch and feature dimensions: outputs are inputs. Window
// dilation does not matter, since a single element has no neighbour in its window.
static inline bool hlo_window_is_element(const HloWindowDimension *window) {
    return window->size == 1 && window->stride == 1 && window->padding_low == 0 && window->padding_high == 0 &&
           window->base_dilation == 1;
}
// The number of elements in a window; 1 if there is none.
static inline double hlo_window_elements(const HloWindow *window) {
    double count = 1;
    for (int64_t d = 0; window && d < window->count; d++) count *= (double)window->dims[d].size;
    return count;
}

#endif
