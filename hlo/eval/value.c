// SPDX-License-Identifier: Apache-2.0
// Values of a run: creation, sharing, release.
//
// A value is an array, or a tuple of values, with a reference count: an operand that is used a second time is retained,
// not copied, and a handler may write into an operand only if its reference is the last one (hlo_eval_may_overwrite()).
// Receiving a value transfers its reference; the receiver releases it or passes it on. Values belong to one device, and
// so to one thread: counts are not atomic, and data for another device is copied.
//
//   array   data: hlo_shape_bytes() bytes, row-major, padded up to the bounds of dynamic dimensions
//           sizes: NULL, or the sizes of the dimensions where these are smaller than the bounds
//           borrowed: data belongs to the caller (an argument or a constant) and is never written to or freed
//   tuple   elements: a reference each; NULL once moved out by the last get-tuple-element
//
// The bytes of all arrays are counted in world->memory_used, which a limit keeps below the machine's memory.
#include <assert.h>
#include <string.h>

#include "hlo/eval/internal.h"

// Makes a value without memory and with one reference. Values are in a list of their device, so that a run that ends
// with an error, or jumps because memory is short, can be cleaned up from any state.
static HloStatus new_header(HloEvalDevice *device, const HloShape *shape, HloEvalValue **value) {
    assert(shape && value);
    HloEvalValue *made = hlo_allocate_zeroed(1, sizeof(*made));
    HLO_FAIL_IF(!made, HLO_RESOURCE_EXHAUSTED, "out of memory while evaluating");
    made->shape = shape;
    made->references = 1;
    made->next = device->values;
    if (device->values) device->values->previous = made;
    device->values = made;
    *value = made;
    return HLO_SUCCESS;
}

// Takes a value out of the device's list and subtracts its memory from the run's total.
static void destroy(HloEvalDevice *device, HloEvalValue *value) {
    if (value->previous) {
        value->previous->next = value->next;
    } else {
        device->values = value->next;
    }
    if (value->next) value->next->previous = value->previous;
    if (!value->borrowed) hlo_free(value->data);
    atomic_fetch_sub(&device->world->memory_used, value->bytes);
    hlo_free(value->elements);
    hlo_free(value->sizes);
    hlo_free(value);
}

HloEvalValue *hlo_eval_retain(HloEvalValue *value) {
    value->references++;
    return value;
}

// Elements lose the reference that the tuple held; those that were moved out are NULL.
void hlo_eval_release(HloEvalDevice *device, HloEvalValue *value) {
    assert(!value || value->references > 0);
    if (!value || --value->references > 0) return;
    if (value->elements) {
        for (int32_t i = 0; i < value->shape->element_count; i++) hlo_eval_release(device, value->elements[i]);
    }
    destroy(device, value);
}

// Elements of tuples are in the list too: nothing is released through its tuple here, or it would be freed twice.
void hlo_eval_release_all(HloEvalDevice *device) {
    while (device->values) destroy(device, device->values);
}

// The limit applies to the sum over all devices of a run: a program of 64 virtual devices takes 64 times the memory,
// and should fail with a message rather than be killed by the kernel.
HloStatus hlo_eval_new(HloEvalDevice *device, const HloShape *shape, HloEvalValue **value) {
    assert(shape && value);
    HLO_TRY(new_header(device, shape, value));
    if (shape->type == HLO_TUPLE) {
        (*value)->elements = hlo_allocate_zeroed((size_t)shape->element_count, sizeof(HloEvalValue *));
        HLO_FAIL_IF(!(*value)->elements, HLO_RESOURCE_EXHAUSTED, "out of memory while evaluating");
    } else if (hlo_shape_is_array(shape)) {
        for (int32_t i = 0; i < shape->rank; i++) {
            HLO_FAIL_IF(shape->dims[i] < 0, HLO_UNIMPLEMENTED, "a dimension without a bound cannot be evaluated");
        }
        int64_t bytes = hlo_shape_bytes(shape);
        HloEvalWorld *world = device->world;
        bool fits = bytes <= world->memory_limit - atomic_load(&world->memory_used);
        if (fits) (*value)->data = hlo_allocate_aligned((size_t)bytes);
        HLO_FAIL_IF(!(*value)->data, HLO_RESOURCE_EXHAUSTED,
                    "out of memory: an array of %lld bytes cannot be allocated", (long long)bytes);
        (*value)->bytes = bytes;
        atomic_fetch_add(&world->memory_used, bytes);
    }
    return HLO_SUCCESS;
}

// For results that are only partly written, and contexts that are never read.
HloStatus hlo_eval_new_zeroed(HloEvalDevice *device, const HloShape *shape, HloEvalValue **value) {
    HLO_TRY(hlo_eval_new(device, shape, value));
    if (shape->type == HLO_TUPLE) {
        for (int32_t i = 0; i < shape->element_count; i++) {
            HLO_TRY(hlo_eval_new_zeroed(device, shape->elements[i], &(*value)->elements[i]));
        }
    } else if ((*value)->data) {
        memset((*value)->data, 0, (size_t)hlo_shape_bytes(shape));
    }
    return HLO_SUCCESS;
}

HloStatus hlo_eval_new_tuple(HloEvalDevice *device, const HloShape *shape, HloEvalValue *const *elements, int64_t count,
                             HloEvalValue **value) {
    HLO_BUG_IF(shape->type != HLO_TUPLE || shape->element_count != count);
    HLO_TRY(hlo_eval_new(device, shape, value));
    for (int64_t i = 0; i < count; i++) (*value)->elements[i] = hlo_eval_retain(elements[i]);
    return HLO_SUCCESS;
}

// Ops with several results give a tuple, those with one result the array itself.
HloStatus hlo_eval_new_results(HloEvalDevice *device, const HloShape *shape, int64_t count, HloEvalValue **result,
                               HloEvalValue **arrays) {
    assert(count > 0);
    HLO_TRY(hlo_eval_new(device, shape, result));
    if (shape->type != HLO_TUPLE) {
        arrays[0] = *result;
        return HLO_SUCCESS;
    }
    for (int64_t i = 0; i < count; i++) {
        HLO_TRY(hlo_eval_new(device, shape->elements[i], &(*result)->elements[i]));
        arrays[i] = (*result)->elements[i];
    }
    return HLO_SUCCESS;
}

// Printed programs leave out large constants ("{...}"). Running them requires some numbers: spread over [-0.5, 0.5) by
// a multiplicative hash (2654435761 is Knuth's: a prime near 2^32 divided by the golden ratio), the same on every
// machine.
void hlo_eval_fill_elided(const HloShape *shape, void *data) {
    int64_t count = hlo_shape_elements(shape);
    memset(data, 0, (size_t)hlo_shape_bytes(shape));
    if (!hlo_type_is_float(shape->type)) return;
    int64_t bytes = hlo_type_bytes(shape->type);
    for (int64_t i = 0; i < count; i++) {
        double value = (double)(uint32_t)((uint64_t)i * 2654435761u) / 4294967296.0 - 0.5;
        hlo_eval_encode_double(shape->type, &value, 1, (char *)data + i * bytes);
    }
}

// Arguments are not copied: the evaluator never writes to memory that it has not allocated.
HloStatus hlo_eval_borrow(HloEvalDevice *device, const HloLiteral *literal, HloEvalValue **value) {
    assert(literal && value);
    const HloShape *shape = literal->shape;
    if (shape->type == HLO_TUPLE) {
        HLO_TRY(hlo_eval_new(device, shape, value));
        for (int32_t i = 0; i < shape->element_count; i++) {
            HLO_TRY(hlo_eval_borrow(device, literal->elements[i], &(*value)->elements[i]));
        }
        return HLO_SUCCESS;
    }
    if (literal->elided) {
        HLO_TRY(hlo_eval_new(device, shape, value));
        if ((*value)->data) hlo_eval_fill_elided(shape, (*value)->data);
        return HLO_SUCCESS;
    }
    if (hlo_type_is_integer(shape->type) && hlo_type_info(shape->type)->bits < 8) {
        // Buffers from the caller may have any upper bits in a byte.
        HLO_TRY(hlo_eval_new(device, shape, value));
        memcpy((*value)->data, literal->data, (size_t)hlo_shape_bytes(shape));
        hlo_eval_wrap_narrow(shape->type, (*value)->data, hlo_shape_elements(shape));
        return HLO_SUCCESS;
    }
    HLO_TRY(new_header(device, shape, value));
    (*value)->data = literal->data;
    (*value)->borrowed = true;
    return HLO_SUCCESS;
}

// Arrays of dynamic size are stored at their bounds with the actual sizes beside them; without `sizes` they are full,
// so that only programs that use dynamic sizes pay for them.
HloStatus hlo_eval_set_sizes(HloEvalDevice *device, HloEvalValue *value, const int64_t *sizes) {
    assert(hlo_shape_is_array(value->shape));
    (void)device;
    const HloShape *shape = value->shape;
    bool full = true;
    for (int32_t i = 0; i < shape->rank; i++) full = full && sizes[i] == shape->dims[i];
    if (full) {
        hlo_free(value->sizes);
        value->sizes = NULL;
        return HLO_SUCCESS;
    }
    if (!value->sizes) value->sizes = hlo_allocate(hlo_array_bytes((size_t)shape->rank, sizeof(int64_t)));
    HLO_FAIL_IF(!value->sizes, HLO_RESOURCE_EXHAUSTED, "out of memory while evaluating");
    if (value->sizes != sizes) memcpy(value->sizes, sizes, (size_t)shape->rank * sizeof(int64_t));
    return HLO_SUCCESS;
}

// Makes a reshape or bitcast between arrays of equal bytes: takes over the memory if there is no other reference to it.
HloStatus hlo_eval_with_shape(HloEvalDevice *device, HloEvalValue *value, const HloShape *shape,
                              HloEvalValue **result) {
    assert(value && shape);
    if (!hlo_shape_is_array(shape) || hlo_shape_bytes(shape) != hlo_shape_bytes(value->shape)) {
        return hlo_error(HLO_INVALID_ARGUMENT, "an array cannot be reinterpreted with a different size");
    }
    if (hlo_eval_may_overwrite(value)) {
        HLO_TRY(new_header(device, shape, result));
        (*result)->data = value->data;
        (*result)->bytes = value->bytes;
        value->data = NULL;
        value->bytes = 0;
    } else {
        HLO_TRY(hlo_eval_new(device, shape, result));
        memcpy((*result)->data, value->data, (size_t)hlo_shape_bytes(shape));
    }
    if (value->sizes && value->shape->rank == shape->rank) return hlo_eval_set_sizes(device, *result, value->sizes);
    return HLO_SUCCESS;
}

// Makes a copy for another device: values are never shared between threads.
HloStatus hlo_eval_copy_value(HloEvalDevice *device, const HloEvalValue *value, HloEvalValue **copy) {
    assert(value && copy);
    HLO_TRY(hlo_eval_new(device, value->shape, copy));
    if (value->elements) {
        for (int32_t i = 0; i < value->shape->element_count; i++) {
            HLO_TRY(hlo_eval_copy_value(device, value->elements[i], &(*copy)->elements[i]));
        }
    } else if (value->data) {
        memcpy((*copy)->data, value->data, (size_t)hlo_shape_bytes(value->shape));
    }
    return value->sizes ? hlo_eval_set_sizes(device, *copy, value->sizes) : HLO_SUCCESS;
}

// The value's shape with the actual sizes of its dynamic dimensions.
static const HloShape *actual_shape(HloArena *arena, const HloEvalValue *value) {
    const HloShape *shape = value->shape;
    if (value->elements) {
        const HloShape **elements = HLO_ARENA_NEW(arena, const HloShape *, shape->element_count);
        for (int32_t i = 0; i < shape->element_count; i++) elements[i] = actual_shape(arena, value->elements[i]);
        return hlo_shape_tuple(arena, elements, shape->element_count);
    }
    if (!hlo_shape_is_dynamic(shape)) return shape;
    return hlo_shape_with_dims(arena, shape, value->sizes ? value->sizes : shape->dims, shape->rank);
}

// A literal has the actual sizes, so arrays that are smaller than their bounds are packed.
static void fill_literal(const HloEvalValue *value, HloLiteral *literal) {
    if (value->elements) {
        for (int32_t i = 0; i < value->shape->element_count; i++)
            fill_literal(value->elements[i], literal->elements[i]);
    } else if (value->data && value->sizes) {
        hlo_eval_copy_actual(value->shape, value->sizes, value->data, literal->data, true);
    } else if (value->data) {
        memcpy(literal->data, value->data, (size_t)hlo_shape_bytes(value->shape));
    }
}

typedef struct Conversion {
    const HloEvalValue *value;
    HloArena *scratch;
    HloLiteral *literal;
} Conversion;

// Runs under hlo_protect(), since shapes of actual sizes are made in an arena.
static HloStatus to_literal(void *argument) {
    Conversion *conversion = argument;
    conversion->literal = hlo_literal_new(actual_shape(conversion->scratch, conversion->value));
    HLO_FAIL_IF(!conversion->literal, HLO_RESOURCE_EXHAUSTED, "out of memory: the result cannot be allocated");
    fill_literal(conversion->value, conversion->literal);
    return HLO_SUCCESS;
}

HloStatus hlo_eval_to_literal(const HloEvalValue *value, HloLiteral **literal) {
    assert(value && literal);
    Conversion conversion = {.value = value, .scratch = hlo_arena_new()};
    HLO_FAIL_IF(!conversion.scratch, HLO_RESOURCE_EXHAUSTED, "out of memory: the result cannot be allocated");
    HloStatus status = hlo_protect(to_literal, &conversion);
    hlo_arena_free(conversion.scratch);
    *literal = conversion.literal;
    return status;
}
