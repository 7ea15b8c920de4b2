// SPDX-License-Identifier: Apache-2.0
// Shapes: element type, dimensions and layout of an array, or a tuple of shapes. A shape is immutable: to change one,
// make a new one. Shapes live in the arena in which they were made.
//
// Stability: stable.
#ifndef MESHLO_HLO_IR_SHAPE_H_
#define MESHLO_HLO_IR_SHAPE_H_

#include "hlo/base/memory.h"
#include "hlo/base/text.h"
#include "hlo/ir/types.h"

HLO_BEGIN_C

typedef struct HloShape HloShape;

// The size of a dimension without a bound ('?').
#define HLO_UNBOUNDED INT64_MIN
// A tile dimension that is combined with the next more minor one ('*').
#define HLO_TILE_COMBINE INT64_MIN

// The maximum rank of an array: hlo_shape_check_dims(), which every reader calls, refuses more. XLA has no such limit.
enum { HLO_MAXIMUM_RANK = 64 };

// A list of numbers. The items live in the arena of the list's owner.
typedef struct HloInts {
    const int64_t *items;
    int64_t count;
} HloInts;

// The memory spaces of layouts that have a meaning here: XLA's numbers, except for the last one, which XLA does not
// have.
enum { HLO_SPACE_DEVICE = 0, HLO_SPACE_PINNED_HOST = 5, HLO_SPACE_UNPINNED_HOST = 6 };

typedef struct HloSplit {
    int64_t dimension;
    HloInts indices;
} HloSplit;

// The layout of an array in memory. Our own literals and buffers are always dense and row-major; layouts are kept for
// text and for their cost on a TPU.
typedef struct HloLayout {
    HloInts minor_to_major;
    HloInts dim_level_types;  // D(..): 'D', 'C', 'S', 'H' plus flags, see text/; empty if dense
    const HloInts *tiles;     // T(8,128)(2,1)
    int64_t tile_count;
    int64_t tail_padding_alignment;  // L(n) in elements; 1 if absent
    HloType index_type;              // #(u32); HLO_INVALID if absent
    HloType pointer_type;            // *(u32); HLO_INVALID if absent
    int64_t element_size_in_bits;    // E(n); 0 if absent
    int64_t memory_space;            // S(n); 0 is the default space
    const HloSplit *splits;          // SC(dim:idx,..)
    int64_t split_count;
    const HloShape *physical_shape;  // P(shape); NULL if absent
    int64_t dynamic_metadata_bytes;  // M(n); 0 if absent
} HloLayout;

struct HloShape {
    HloType type;
    int32_t rank;             // number of dimensions of an array, 0 for a scalar and for structures
    const int64_t *dims;      // sizes; the bound if the dimension is dynamic, HLO_UNBOUNDED if it has none
    const bool *dynamic;      // per dimension, or NULL if none is dynamic
    const HloLayout *layout;  // or NULL
    int32_t element_count;    // of a tuple; 1 for a buffer
    const HloShape *const *elements;
    // Cached properties of a tuple, so that wide ones are not walked again (hlo_shape_sum_up); all zero: not computed.
    int64_t leaf_count;           // as returned by hlo_shape_leaf_count()
    bool is_flat;                 // no element is a tuple
    const int64_t *first_leaves;  // of a tuple that is not flat: the number of leaves before each element
    bool is_static;               // no dimension of any element is dynamic
};

// An array shape without layout; copies `dims`. The caller has checked the sizes (hlo_shape_check_dims).
HLO_EXPORT const HloShape *hlo_shape_array(HloArena *arena, HloType type, const int64_t *dims, int64_t rank);
// An array shape of rank 0.
HLO_EXPORT const HloShape *hlo_shape_scalar(HloArena *arena, HloType type);
// A tuple of `count` shapes (kept by pointer; they must live as long as the arena).
HLO_EXPORT const HloShape *hlo_shape_tuple(HloArena *arena, const HloShape *const *elements, int64_t count);
// Fills in the cached properties of a tuple that was assembled by hand; its elements must not change afterwards.
HLO_EXPORT void hlo_shape_sum_up(HloArena *arena, HloShape *tuple);
// token[]
HLO_EXPORT const HloShape *hlo_shape_token(HloArena *arena);
// The same shape with another layout (NULL for none); dims are shared.
HLO_EXPORT const HloShape *hlo_shape_with_layout(HloArena *arena, const HloShape *shape, const HloLayout *layout);
// The same array shape with another element type; dims, dynamic flags and layout are shared.
HLO_EXPORT const HloShape *hlo_shape_with_type(HloArena *arena, const HloShape *shape, HloType type);
// The same array shape with other dims (copied, `rank` of them), static, with a default layout if it had any.
HLO_EXPORT const HloShape *hlo_shape_with_dims(HloArena *arena, const HloShape *shape, const int64_t *dims,
                                               int64_t rank);
// The shape in which arrays without layout, also inside tuples, have the default row-major one (minor_to_major n-1..0).
HLO_EXPORT const HloShape *hlo_shape_with_default_layout(HloArena *arena, const HloShape *shape);
// The shape without any layouts, also inside tuples.
HLO_EXPORT const HloShape *hlo_shape_without_layout(HloArena *arena, const HloShape *shape);
// Returns a deep copy in another arena.
HLO_EXPORT const HloShape *hlo_shape_copy(HloArena *arena, const HloShape *shape);

// INVALID_ARGUMENT if a size is negative (except HLO_UNBOUNDED), there are more than HLO_MAXIMUM_RANK of them, or the
// byte count of the array does not fit in 62 bits.
HLO_EXPORT HLO_NODISCARD HloStatus hlo_shape_check_dims(HloType type, const int64_t *dims, int64_t rank);

typedef enum HloShapeCompare {
    HLO_COMPARE_ALL = 0,            // everything, including layouts
    HLO_COMPARE_IGNORE_LAYOUT = 1,  // types, dims, dynamic flags
    HLO_COMPARE_DIMS_ONLY = 2,      // same dims, whatever the element types and layouts ("compatible ignoring type")
    HLO_COMPARE_BOUNDS = 3,         // types and dims; a size and an equal bound count as equal
} HloShapeCompare;
// True if the shapes are equal in the sense of `compare`; tuples element by element. Any thread.
HLO_EXPORT bool hlo_shape_equal(const HloShape *a, const HloShape *b, HloShapeCompare compare);
// True if every property is the same; NULL equals only NULL.
HLO_EXPORT bool hlo_layout_equal(const HloLayout *a, const HloLayout *b);
// Hashes a shape: equal shapes have equal hashes.
HLO_EXPORT uint64_t hlo_shape_hash(const HloShape *shape);

static inline bool hlo_shape_is_tuple(const HloShape *shape) {
    return shape->type == HLO_TUPLE;
}
static inline bool hlo_shape_is_array(const HloShape *shape) {
    return hlo_type_is_array(shape->type);
}
static inline bool hlo_shape_is_scalar(const HloShape *shape) {
    return hlo_shape_is_array(shape) && shape->rank == 0;
}
// S(n) of an array's layout; HLO_SPACE_DEVICE if it has none.
static inline int64_t hlo_shape_memory_space(const HloShape *shape) {
    return shape->layout ? shape->layout->memory_space : (int64_t)HLO_SPACE_DEVICE;
}
// True if an array is in host memory of either kind.
static inline bool hlo_shape_in_host_memory(const HloShape *shape) {
    const int64_t space = hlo_shape_memory_space(shape);
    return space == HLO_SPACE_PINNED_HOST || space == HLO_SPACE_UNPINNED_HOST;
}
// True if any dimension (also inside a tuple) is dynamic.
HLO_EXPORT bool hlo_shape_is_dynamic(const HloShape *shape);
// True if any dimension (also inside a tuple) is dynamic without a bound ("?"): then it has no size in bytes.
HLO_EXPORT bool hlo_shape_is_unbounded(const HloShape *shape);

// The product of the dims (bounds of dynamic ones): 1 for a scalar, 0 for structures.
HLO_EXPORT int64_t hlo_shape_elements(const HloShape *shape);
// The number of bytes of our dense storage: elements * storage_bytes, summed over tuples.
HLO_EXPORT int64_t hlo_shape_bytes(const HloShape *shape);
// The number of array, token and opaque leaves of a tuple tree; 1 for a non-tuple.
HLO_EXPORT int64_t hlo_shape_leaf_count(const HloShape *shape);
// Leaf number `index` in depth-first order.
HLO_EXPORT const HloShape *hlo_shape_leaf(const HloShape *shape, int64_t index);
// The dims of an array as a list, which belongs to the shape.
static inline HloInts hlo_shape_dims(const HloShape *shape) {
    const HloInts dims = {shape->dims, shape->rank};  // C++ has no compound literals
    return dims;
}
// Value `index` of an instruction with this shape: that element of a tuple; any other shape is its only value.
HLO_EXPORT const HloShape *hlo_shape_value(const HloShape *shape, int64_t index);
// The number of leaves of a tuple before its element `index`.
HLO_EXPORT int64_t hlo_shape_first_leaf(const HloShape *tuple, int64_t index);
// The element of a tuple that contains leaf number `leaf`: the last one that begins no later, since an empty tuple
// begins where its successor does. Logarithmic in the number of elements.
HLO_EXPORT int32_t hlo_shape_element_of_leaf(const HloShape *tuple, int64_t leaf);
// The number of the leaf at an index path, which must exist; the first leaf if it is a tuple.
HLO_EXPORT int64_t hlo_shape_leaf_number(const HloShape *shape, HloInts index);
// The subshape at an index path, `shape` itself for an empty one; NULL if there is none.
HLO_EXPORT const HloShape *hlo_shape_at(const HloShape *shape, HloInts index);

// Neighbouring dimensions that a reshape turns into others with as many elements: from[from_begin .. from_end) become
// to[to_begin .. to_end). Groups are as small as possible; one side may be empty if the other has only sizes of 1.
typedef struct HloReshapeGroup {
    int32_t from_begin, from_end, to_begin, to_end;
} HloReshapeGroup;
// Advances `group`, which starts as zeros, to the next group; false after the last. Sizes are the bounds of dynamic
// dimensions. Both arrays must have the same number of elements. Any thread.
HLO_EXPORT bool hlo_reshape_next_group(const HloShape *from, const HloShape *to, HloReshapeGroup *group);

// Appends "f32[8,128]{1,0:T(8,128)}", or the same without the layout; tuples with /*index=5*/ comments, as XLA prints
// them.
HLO_EXPORT void hlo_shape_print(HloText *text, const HloShape *shape, bool with_layout);
// Appends the index of element number `flat`, row-major, of an array: "[3,5]".
HLO_EXPORT void hlo_shape_print_index(HloText *text, const HloShape *shape, int64_t flat);

HLO_END_C

#endif
