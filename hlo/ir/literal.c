// SPDX-License-Identifier: Apache-2.0
// Literals: values of constants and results, and the conversions between their storage and C numbers.
//
// A literal is a tree with the structure of its shape. On the heap every node is freed with the root, which alone has
// an arena (for its copy of the shape); in an arena nothing is freed individually. Elements are stored in row-major
// order whatever the shape's layout, each in as many bytes as its type's storage form (types.def), so two literals of
// one type and size can be compared and hashed as memory.
#include "hlo/ir/literal.h"

#include <assert.h>
#include <string.h>

#include "hlo/base/complex.h"
#include "hlo/base/map.h"

// Builds the tree below `literal`. On the heap every node owns itself; false when memory is short. `literal` must be
// all zeros. After a failure on the heap the tree is valid as far as it was built: free_tree() frees it.
static bool fill_literal(HloArena *arena, HloLiteral *literal, const HloShape *shape) {
    assert(literal && shape);
    literal->shape = shape;
    literal->owns_memory = !arena;
    if (hlo_shape_is_tuple(shape)) {
        size_t count = (size_t)shape->element_count;
        literal->elements =
            arena ? HLO_ARENA_NEW(arena, HloLiteral *, count) : hlo_allocate_zeroed(count, sizeof(HloLiteral *));
        if (!literal->elements) return false;
        for (size_t i = 0; i < count; i++) {
            literal->elements[i] =
                arena ? HLO_ARENA_NEW(arena, HloLiteral, 1) : hlo_allocate_zeroed(1, sizeof(HloLiteral));
            if (!literal->elements[i] || !fill_literal(arena, literal->elements[i], shape->elements[i])) return false;
        }
        return true;
    }
    if (!hlo_shape_is_array(shape)) return true;
    size_t bytes = (size_t)hlo_shape_bytes(shape);
    literal->data = arena ? hlo_arena_allocate(arena, bytes) : hlo_allocate_zeroed(bytes, 1);
    return literal->data != NULL;
}

// Frees everything below a node, but not the node itself: the root is part of a HeapLiteral, the others are separate
// blocks.
static void free_tree(HloLiteral *literal) {
    for (int32_t i = 0; literal->elements && i < literal->shape->element_count; i++) {
        if (literal->elements[i] && literal->elements[i]->shape) free_tree(literal->elements[i]);
        hlo_free(literal->elements[i]);
    }
    hlo_free(literal->elements);
    hlo_free(literal->data);
}

// A heap literal and the arena of its shape; the literal is the first member.
typedef struct HeapLiteral {
    HloLiteral literal;
    HloArena *arena;
} HeapLiteral;

typedef struct ShapeCopy {
    HloArena *arena;
    const HloShape *shape;
    const HloShape *copy;
} ShapeCopy;

// Body of hlo_protect(): callers that make heap literals may not be prepared for a jump.
static HloStatus copy_shape(void *argument) {
    ShapeCopy *request = argument;
    request->copy = hlo_shape_copy(request->arena, request->shape);
    return HLO_SUCCESS;
}

HloLiteral *hlo_literal_new(const HloShape *shape) {
    assert(shape);
    HeapLiteral *heap = hlo_allocate_zeroed(1, sizeof(*heap));
    if (!heap) return NULL;
    heap->arena = hlo_arena_new();
    ShapeCopy request = {heap->arena, shape, NULL};
    HloStatus status = heap->arena ? hlo_protect(copy_shape, &request) : HLO_SUCCESS;
    if (!request.copy || !fill_literal(NULL, &heap->literal, request.copy)) {
        hlo_status_free(status);
        heap->literal.owns_memory = true;
        hlo_literal_free(&heap->literal);
        return NULL;
    }
    return &heap->literal;
}

HloLiteral *hlo_literal_of(HloType type, HloInts dims, const void *data) {
    assert(dims.count >= 0);
    HloStatus status = hlo_shape_check_dims(type, dims.items, dims.count);
    bool bounded = !status && hlo_type_is_array(type);
    for (int64_t i = 0; i < dims.count; i++) bounded = bounded && dims.items[i] >= 0;
    hlo_status_free(status);
    if (!bounded) return NULL;
    HloShape shape = {.type = type, .rank = (int32_t)dims.count, .dims = dims.items};
    HloLiteral *literal = hlo_literal_new(&shape);
    if (literal && data && hlo_shape_bytes(&shape)) memcpy(literal->data, data, (size_t)hlo_shape_bytes(&shape));
    return literal;
}

HloLiteral *hlo_literal_in_arena(HloArena *arena, const HloShape *shape) {
    HloLiteral *literal = HLO_ARENA_NEW(arena, HloLiteral, 1);
    fill_literal(arena, literal, shape);
    return literal;
}

void hlo_literal_free(HloLiteral *literal) {
    if (!literal || !literal->owns_memory) return;
    HeapLiteral *heap = (HeapLiteral *)literal;
    if (literal->shape) free_tree(literal);
    hlo_arena_free(heap->arena);
    hlo_free(heap);
}

// Both trees have the shape of `from`. Elided literals may have memory on one side only.
static void copy_values(HloLiteral *to, const HloLiteral *from) {
    to->elided = from->elided;
    for (int32_t i = 0; i < from->shape->element_count; i++) copy_values(to->elements[i], from->elements[i]);
    if (from->data && to->data) memcpy(to->data, from->data, (size_t)hlo_shape_bytes(from->shape));
}

HloLiteral *hlo_literal_copy(const HloLiteral *literal) {
    HloLiteral *copy = hlo_literal_new(literal->shape);
    if (copy) copy_values(copy, literal);
    return copy;
}

HloLiteral *hlo_literal_copy_to_arena(HloArena *arena, const HloLiteral *literal) {
    assert(arena && literal);
    HloLiteral *copy = HLO_ARENA_NEW(arena, HloLiteral, 1);
    copy->shape = hlo_shape_copy(arena, literal->shape);
    if (literal->elided && !literal->data) {
        copy->elided = true;  // nothing to copy: unknown values take no memory
        return copy;
    }
    fill_literal(arena, copy, copy->shape);
    copy_values(copy, literal);
    return copy;
}

bool hlo_literal_equal(const HloLiteral *a, const HloLiteral *b) {
    assert(a && b);
    if (a == b) return true;
    if (!hlo_shape_equal(a->shape, b->shape, HLO_COMPARE_IGNORE_LAYOUT) || a->elided != b->elided) return false;
    for (int32_t i = 0; i < a->shape->element_count; i++) {
        if (!hlo_literal_equal(a->elements[i], b->elements[i])) return false;
    }
    if (!a->data || !b->data) return !a->data == !b->data;
    return memcmp(a->data, b->data, (size_t)hlo_shape_bytes(a->shape)) == 0;
}

uint64_t hlo_literal_hash(const HloLiteral *literal) {
    assert(literal);
    // Does not include the hash of the shape: equality ignores layouts.
    const HloShape *shape = literal->shape;
    uint64_t hash = hlo_hash_mix((uint64_t)shape->type, (uint64_t)shape->rank);
    for (int32_t i = 0; i < shape->rank; i++) hash = hlo_hash_mix(hash, (uint64_t)shape->dims[i]);
    for (int32_t i = 0; literal->elements && i < literal->shape->element_count; i++) {
        hash = hlo_hash_mix(hash, hlo_literal_hash(literal->elements[i]));
    }
    if (literal->data) {
        hash = hlo_hash_mix(hash, hlo_hash_bytes(literal->data, (size_t)hlo_shape_bytes(literal->shape)));
    }
    return hash;
}

bool hlo_literal_is_splat(const HloLiteral *literal) {
    int64_t count = hlo_shape_elements(literal->shape);
    if (!literal->data || literal->elided || count == 0) return false;
    size_t bytes = (size_t)hlo_type_bytes(literal->shape->type);
    // If the data equal themselves shifted by one element, every element equals its neighbour.
    return memcmp(literal->data, (const char *)literal->data + bytes, (size_t)(count - 1) * bytes) == 0;
}

bool hlo_literal_is_zero(const HloLiteral *literal) {
    if (!hlo_literal_is_splat(literal)) return false;
    for (int64_t i = 0; i < hlo_type_bytes(literal->shape->type); i++)
        if (((const char *)literal->data)[i]) return false;
    return true;
}

static const void *element_at(const HloLiteral *literal, int64_t index) {
    return (const char *)literal->data + index * hlo_type_bytes(literal->shape->type);
}

// The bits of an element in the low end of a word, by the machine's little-endian order. For complex elements this
// would be only the real part, which no caller needs.
static uint64_t load_pattern(const HloLiteral *literal, int64_t index) {
    uint64_t pattern = 0;
    int bytes = hlo_type_bytes(literal->shape->type);
    memcpy(&pattern, element_at(literal, index), (size_t)(bytes > 8 ? 8 : bytes));
    return pattern;
}

static void store_pattern(HloLiteral *literal, int64_t index, uint64_t pattern) {
    int bytes = hlo_type_bytes(literal->shape->type);
    memcpy((char *)literal->data + index * bytes, &pattern, (size_t)bytes);
}

// The low `bits` bits of `value`, sign-extended if `is_signed`. Types below 8 bits have wider storage: s4 is in a byte
// that repeats the sign, u4 in one with zeros above.
static int64_t wrap(int64_t value, int bits, bool is_signed) {
    if (bits >= 64) return value;
    uint64_t low = (uint64_t)value & ((UINT64_C(1) << bits) - 1);
    bool negative = is_signed && (low >> (bits - 1) & 1);
    return (int64_t)(negative ? low | ~((UINT64_C(1) << bits) - 1) : low);
}

// Truncates towards zero and saturates; NaN gives 0.
static int64_t truncate_double(double value) {
    return value != value ? 0 : value >= 0x1p63 ? INT64_MAX : value < -0x1p63 ? INT64_MIN : (int64_t)value;
}

int64_t hlo_literal_get_int64(const HloLiteral *literal, int64_t index) {
    assert(index >= 0);
    HloType type = literal->shape->type;
    const HloTypeInfo *info = hlo_type_info(type);
    if (info->kind == HLO_KIND_FLOAT || info->kind == HLO_KIND_COMPLEX) {
        return truncate_double(hlo_literal_get_double(literal, index));
    }
    int stored_bits = info->storage_bytes * 8;
    return wrap((int64_t)load_pattern(literal, index), stored_bits, info->kind == HLO_KIND_SIGNED);
}

double _Complex hlo_literal_get_complex(const HloLiteral *literal, int64_t index) {
    assert(index >= 0);
    if (literal->shape->type == HLO_C64) {
        float parts[2];
        memcpy(parts, element_at(literal, index), sizeof(parts));
        return CMPLX((double)parts[0], (double)parts[1]);
    }
    if (literal->shape->type == HLO_C128) {
        double parts[2];
        memcpy(parts, element_at(literal, index), sizeof(parts));
        return CMPLX(parts[0], parts[1]);
    }
    return CMPLX(hlo_literal_get_double(literal, index), 0);
}

double hlo_literal_get_double(const HloLiteral *literal, int64_t index) {
    assert(index >= 0);
    HloType type = literal->shape->type;
    switch (hlo_type_kind(type)) {
        case HLO_KIND_FLOAT: return hlo_float_decode(type, load_pattern(literal, index));
        case HLO_KIND_COMPLEX: return creal(hlo_literal_get_complex(literal, index));
        case HLO_KIND_UNSIGNED: return (double)(uint64_t)hlo_literal_get_int64(literal, index);
        default: return (double)hlo_literal_get_int64(literal, index);
    }
}

void hlo_literal_set_int64(HloLiteral *literal, int64_t index, int64_t value) {
    assert(index >= 0 && literal->data);
    HloType type = literal->shape->type;
    const HloTypeInfo *info = hlo_type_info(type);
    switch (info->kind) {
        case HLO_KIND_FLOAT:
        case HLO_KIND_COMPLEX: hlo_literal_set_double(literal, index, (double)value); break;
        case HLO_KIND_PRED: store_pattern(literal, index, value != 0); break;
        default: store_pattern(literal, index, (uint64_t)wrap(value, info->bits, info->kind == HLO_KIND_SIGNED)); break;
    }
}

void hlo_literal_set_double(HloLiteral *literal, int64_t index, double value) {
    assert(index >= 0 && literal->data);
    HloType type = literal->shape->type;
    switch (hlo_type_kind(type)) {
        case HLO_KIND_FLOAT: store_pattern(literal, index, hlo_float_encode(type, value)); break;
        case HLO_KIND_COMPLEX: hlo_literal_set_complex(literal, index, CMPLX(value, 0)); break;
        case HLO_KIND_PRED: store_pattern(literal, index, value != 0); break;
        default: {
            int64_t whole = truncate_double(value);
            if (type == HLO_U64 && value >= 0x1p63) whole = (int64_t)(value < 0x1p64 ? (uint64_t)value : UINT64_MAX);
            hlo_literal_set_int64(literal, index, whole);
            break;
        }
    }
}

void hlo_literal_set_complex(HloLiteral *literal, int64_t index, double _Complex value) {
    assert(index >= 0 && literal->data);
    void *place = (char *)literal->data + index * hlo_type_bytes(literal->shape->type);
    if (literal->shape->type == HLO_C64) {
        float parts[2] = {(float)creal(value), (float)cimag(value)};
        memcpy(place, parts, sizeof(parts));
    } else if (literal->shape->type == HLO_C128) {
        double parts[2] = {creal(value), cimag(value)};
        memcpy(place, parts, sizeof(parts));
    } else {
        hlo_literal_set_double(literal, index, creal(value));
    }
}
