// SPDX-License-Identifier: Apache-2.0
// Helpers shared by the shape inference files: lists of dimensions under construction, checks of operands and of called
// computations, and shapes in messages.
//
// Sizes may be unbounded (HLO_UNBOUNDED, "?" in text), which agrees with everything, and types of floats may mix, as in
// XLA's parser: the result has the more precise one. Errors give shapes in HLO's notation; the dispatcher prefixes the
// op's name.
#include "hlo/ir/infer/support.h"

#include <assert.h>

#include "hlo/base/arithmetic.h"

HloDims hlo_dims_new(HloArena *arena, int64_t rank) {
    HloDims dims = {.rank = rank};
    dims.sizes = HLO_ARENA_NEW(arena, int64_t, rank);
    dims.dynamic = HLO_ARENA_NEW(arena, bool, rank);
    return dims;
}

HloDims hlo_dims_of(HloArena *arena, const HloShape *shape) {
    HloDims dims = hlo_dims_new(arena, shape->rank);
    for (int64_t i = 0; i < shape->rank; i++) hlo_dims_take(&dims, i, shape, i);
    return dims;
}

void hlo_dims_take(HloDims *dims, int64_t to, const HloShape *shape, int64_t from_dimension) {
    dims->sizes[to] = shape->dims[from_dimension];
    dims->dynamic[to] = hlo_shape_dimension_is_dynamic(shape, from_dimension);
}

HloStatus hlo_dims_shape(HloArena *arena, HloType type, const HloDims *dims, const HloShape **result) {
    HLO_TRY(hlo_shape_check_dims(type, dims->sizes, dims->rank));
    const HloShape *shape = hlo_shape_array(arena, type, dims->sizes, dims->rank);
    for (int64_t i = 0; i < dims->rank; i++) {
        if (!dims->dynamic[i]) continue;
        HloShape *copy = hlo_arena_copy(arena, shape, sizeof(*shape));
        copy->dynamic = dims->dynamic;
        shape = copy;
        break;
    }
    *result = shape;
    return HLO_SUCCESS;
}

// Messages are for people: longer lists are cut off.
enum { MOST_CHARACTERS = 1000, MOST_NUMBERS = 64 };

const char *hlo_shape_message(HloArena *arena, const HloShape *shape) {
    HloText text = {0};
    hlo_shape_print(&text, shape, false);
    if (text.length > MOST_CHARACTERS) {
        text.length = MOST_CHARACTERS;
        hlo_text_string(&text, "...");
    }
    return hlo_text_to_arena(arena, &text);
}

const char *hlo_ints_message(HloArena *arena, HloInts ints) {
    HloText text = {0};
    hlo_text_char(&text, '{');
    for (int64_t i = 0; i < ints.count && i < MOST_NUMBERS; i++) {
        if (i) hlo_text_char(&text, ',');
        hlo_text_int64(&text, ints.items[i]);
    }
    hlo_text_string(&text, ints.count > MOST_NUMBERS ? ",...}" : "}");
    return hlo_text_to_arena(arena, &text);
}

HloStatus hlo_infer_need_array(const HloInferRequest *request, int64_t index) {
    const HloShape *shape = request->operands[index];
    HLO_REFUSE_IF(!hlo_shape_is_array(shape), "operand %lld must be an array, not %s", (long long)index,
                  hlo_shape_message(request->arena, shape));
    return HLO_SUCCESS;
}

HloStatus hlo_infer_need_arrays(const HloInferRequest *request) {
    for (int64_t i = 0; i < request->operand_count; i++) HLO_TRY(hlo_infer_need_array(request, i));
    return HLO_SUCCESS;
}

HloStatus hlo_infer_need_index_scalar(const HloInferRequest *request, int64_t index) {
    const HloShape *shape = request->operands[index];
    HLO_REFUSE_IF(!hlo_shape_is_scalar(shape) || !hlo_type_is_integer(shape->type),
                  "operand %lld must be an integer scalar, not %s", (long long)index,
                  hlo_shape_message(request->arena, shape));
    return HLO_SUCCESS;
}

HloStatus hlo_infer_need_hint(const HloInferRequest *request, bool array) {
    HLO_REFUSE_IF(!request->hint, "the result shape cannot be inferred from the operands and must be given");
    HLO_REFUSE_IF(array && !hlo_shape_is_array(request->hint), "the result must be an array, not %s",
                  hlo_shape_message(request->arena, request->hint));
    return HLO_SUCCESS;
}

HloStatus hlo_infer_need_called(const HloInferRequest *request, int64_t count) {
    HLO_REFUSE_IF(request->called_count != count, "calls %lld computations, but needs %lld",
                  (long long)request->called_count, (long long)count);
    for (int64_t i = 0; i < count; i++) {
        const HloComputation *called = request->called[i];
        HLO_REFUSE_IF(!called || !called->root, "called computation %lld has no root", (long long)i);
        for (int64_t p = 0; p < called->parameters.count; p++) {
            HLO_REFUSE_IF(!called->parameters.items[p], "computation %s has no parameter %lld", called->name,
                          (long long)p);
        }
    }
    return HLO_SUCCESS;
}

HloStatus hlo_infer_check_dimensions(HloArena *arena, HloInts dimensions, int64_t rank, const char *what) {
    bool *seen = HLO_ARENA_NEW(arena, bool, rank);
    for (int64_t i = 0; i < dimensions.count; i++) {
        int64_t dimension = dimensions.items[i];
        HLO_REFUSE_IF(dimension < 0 || dimension >= rank, "%s %s has dimension %lld, but the rank is %lld", what,
                      hlo_ints_message(arena, dimensions), (long long)dimension, (long long)rank);
        HLO_REFUSE_IF(seen[dimension], "%s %s names dimension %lld twice", what, hlo_ints_message(arena, dimensions),
                      (long long)dimension);
        seen[dimension] = true;
    }
    return HLO_SUCCESS;
}

bool hlo_types_mix(HloType a, HloType b) {
    return a == b || (hlo_type_is_float(a) && hlo_type_is_float(b));
}

// The rank of the type's kind: pred < integers < floats < complex.
static int type_class(HloType type) {
    switch (hlo_type_kind(type)) {
        case HLO_KIND_SIGNED:
        case HLO_KIND_UNSIGNED: return 1;
        case HLO_KIND_FLOAT: return 2;
        case HLO_KIND_COMPLEX: return 3;
        default: return 0;
    }
}

HloType hlo_higher_type(HloType a, HloType b) {
    if (a == b) return a;
    int class_a = type_class(a), class_b = type_class(b);
    if (class_a != class_b) return class_a > class_b ? a : b;
    const HloTypeInfo *info_a = hlo_type_info(a), *info_b = hlo_type_info(b);
    if (info_a->bits != info_b->bits) return info_a->bits > info_b->bits ? a : b;
    if (info_a->mantissa_bits != info_b->mantissa_bits) return info_a->mantissa_bits > info_b->mantissa_bits ? a : b;
    return info_a->exponent_bits >= info_b->exponent_bits ? a : b;
}

HloType hlo_infer_product_type(const HloInferRequest *request) {
    if (request->hint && hlo_shape_is_array(request->hint)) return request->hint->type;
    return hlo_higher_type(request->operands[0]->type, request->operands[1]->type);
}

HloType hlo_product_type(HloType lhs, HloType rhs, HloType result) {
    const HloType higher = hlo_higher_type(lhs, rhs);
    if (type_class(higher) != type_class(result)) return type_class(higher) > type_class(result) ? higher : result;
    return type_class(lhs) == type_class(rhs) ? result : hlo_higher_type(higher, result);
}

bool hlo_product_converts_side(HloType side, HloType type) {
    const HloType real = hlo_type_real_part(type);
    if (!hlo_type_is_integer(side) || !hlo_type_is_float(real)) return false;
    const int bits = hlo_type_info(side)->bits;
    return bits >= 32 || bits > hlo_type_info(real)->mantissa_bits + 1;
}

bool hlo_product_converts(const HloInstruction *instruction) {
    if (!hlo_is(instruction, HLO_OP_DOT) && !hlo_is(instruction, HLO_OP_CONVOLUTION)) return false;
    const HloType lhs = instruction->operands[0]->shape->type, rhs = instruction->operands[1]->shape->type;
    const HloType type = hlo_product_type(lhs, rhs, instruction->shape->type);
    return type != instruction->shape->type || hlo_product_converts_side(lhs, type) ||
           hlo_product_converts_side(rhs, type);
}

bool hlo_module_has_converting_product(const HloModule *module) {
    for (int64_t c = 0; c < module->computations.count; c++)
        for (const HloInstruction *i = module->computations.items[c]->first; i; i = i->next)
            if (hlo_product_converts(i)) return true;
    return false;
}

bool hlo_shapes_mix(const HloShape *a, const HloShape *b) {
    if (hlo_shape_is_tuple(a) != hlo_shape_is_tuple(b)) return false;
    if (hlo_shape_is_tuple(a)) {
        if (a->element_count != b->element_count) return false;
        for (int32_t i = 0; i < a->element_count; i++) {
            if (!hlo_shapes_mix(a->elements[i], b->elements[i])) return false;
        }
        return true;
    }
    if (!hlo_shape_is_array(a) || !hlo_shape_is_array(b)) return hlo_shape_equal(a, b, HLO_COMPARE_IGNORE_LAYOUT);
    if (!hlo_types_mix(a->type, b->type) || a->rank != b->rank) return false;
    for (int32_t i = 0; i < a->rank; i++) {
        if (!hlo_sizes_agree(a->dims[i], b->dims[i])) return false;
    }
    return true;
}

HloStatus hlo_infer_merge_dims(HloArena *arena, HloDims *dims, const HloShape *shape, int64_t index) {
    HLO_REFUSE_IF(shape->rank != dims->rank, "operand %lld is %s, of rank %lld where the others have rank %lld",
                  (long long)index, hlo_shape_message(arena, shape), (long long)shape->rank, (long long)dims->rank);
    for (int64_t i = 0; i < dims->rank; i++) {
        HLO_REFUSE_IF(!hlo_sizes_agree(dims->sizes[i], shape->dims[i]),
                      "operand %lld is %s, but dimension %lld of the others has size %lld", (long long)index,
                      hlo_shape_message(arena, shape), (long long)i, (long long)dims->sizes[i]);
        bool was_unbounded = dims->sizes[i] == HLO_UNBOUNDED, is_unbounded = shape->dims[i] == HLO_UNBOUNDED;
        if (was_unbounded) {
            hlo_dims_take(dims, i, shape, i);
        } else if (!is_unbounded && hlo_shape_dimension_is_dynamic(shape, i)) {
            dims->dynamic[i] = true;
        }
    }
    return HLO_SUCCESS;
}

bool hlo_shapes_agree(const HloShape *a, const HloShape *b) {
    if (a->type != b->type || a->rank != b->rank || a->element_count != b->element_count) return false;
    for (int32_t i = 0; i < a->element_count; i++)
        if (!hlo_shapes_agree(a->elements[i], b->elements[i])) return false;
    for (int32_t i = 0; i < a->rank; i++)
        if (!hlo_sizes_agree(a->dims[i], b->dims[i])) return false;
    return true;
}

static HloStatus check_parameters(const HloInferRequest *request, int64_t index, const HloShape *const *shapes,
                                  int64_t count, bool fits(const HloShape *parameter, const HloShape *argument)) {
    const HloComputation *called = request->called[index];
    HLO_REFUSE_IF(called->parameters.count != count, "computation %s takes %lld parameters, but %lld are passed",
                  called->name, (long long)called->parameters.count, (long long)count);
    for (int64_t i = 0; i < count; i++) {
        const HloShape *parameter = called->parameters.items[i]->shape;
        HLO_REFUSE_IF(!fits(parameter, shapes[i]), "computation %s takes %s as parameter %lld, but %s is passed",
                      called->name, hlo_shape_message(request->arena, parameter), (long long)i,
                      hlo_shape_message(request->arena, shapes[i]));
    }
    return HLO_SUCCESS;
}

HloStatus hlo_infer_check_parameters(const HloInferRequest *request, int64_t index, const HloShape *const *shapes,
                                     int64_t count) {
    return check_parameters(request, index, shapes, count, hlo_shapes_mix);
}

HloStatus hlo_infer_check_arguments(const HloInferRequest *request, int64_t index, const HloShape *const *shapes,
                                    int64_t count) {
    return check_parameters(request, index, shapes, count, hlo_shapes_agree);
}

const HloShape *hlo_infer_one_or_tuple(HloArena *arena, const HloShape *const *shapes, int64_t count) {
    return count == 1 ? shapes[0] : hlo_shape_tuple(arena, shapes, count);
}

// Computes (n-1)d+1, 0 for n = 0. False if it overflows.
static bool dilated(int64_t size, int64_t dilation, int64_t *result) {
    if (size == 0) {
        *result = 0;
        return true;
    }
    return !__builtin_mul_overflow(size - 1, dilation, result) && !__builtin_add_overflow(*result, 1, result);
}

HloStatus hlo_infer_window_output(const HloWindowDimension *window, int64_t dimension, int64_t base, int64_t *output) {
    HLO_REFUSE_IF(window->size < 1, "the window has size %lld in dimension %lld", (long long)window->size,
                  (long long)dimension);
    HLO_REFUSE_IF(window->stride < 1, "the window has stride %lld in dimension %lld", (long long)window->stride,
                  (long long)dimension);
    HLO_REFUSE_IF(window->base_dilation < 1 || window->window_dilation < 1,
                  "the window has dilation %lld of the base and %lld of the window in dimension %lld",
                  (long long)window->base_dilation, (long long)window->window_dilation, (long long)dimension);
    const bool small = hlo_is_step(window->size) && hlo_is_step(window->stride) && hlo_is_step(window->base_dilation) &&
                       hlo_is_step(window->window_dilation) && hlo_is_step(window->padding_low) &&
                       hlo_is_step(window->padding_high);
    HLO_REFUSE_IF(!small, "the window has a number beyond 2^46 in dimension %lld", (long long)dimension);
    if (base == HLO_UNBOUNDED) {
        *output = HLO_UNBOUNDED;
        return HLO_SUCCESS;
    }
    int64_t padded, extent;
    bool fits = dilated(base, window->base_dilation, &padded) &&
                !__builtin_add_overflow(padded, window->padding_low, &padded) &&
                !__builtin_add_overflow(padded, window->padding_high, &padded) &&
                dilated(window->size, window->window_dilation, &extent) && padded <= HLO_LARGEST_EXTENT &&
                extent <= HLO_LARGEST_EXTENT;
    HLO_REFUSE_IF(!fits, "the window overflows in dimension %lld", (long long)dimension);
    *output = extent > padded ? 0 : (padded - extent) / window->stride + 1;
    return HLO_SUCCESS;
}

// Position w of output o is at o * stride + w * dilation - low, and is in the base from 0 to `last`. The last output is
// the first one to reach a position on the base, the first output the last one. No number is beyond 2^61
// (hlo_infer_window_output()).
HloWindowDimension hlo_window_crop(HloWindowDimension window, int64_t base, int64_t outputs) {
    assert(window.size > 0 && window.stride > 0 && window.window_dilation > 0 && base >= 0 && outputs >= 0);
    if (base == 0 || outputs == 0) {
        window.size = 1;
        return window;
    }
    const int64_t last = (base - 1) * window.base_dilation, reach = last + window.padding_low;
    const int64_t before = window.padding_low - (outputs - 1) * window.stride;
    const int64_t first = before > 0 ? hlo_divide_up(before, window.window_dilation) : 0;
    const int64_t end = reach < 0 ? 0 : hlo_smaller(reach / window.window_dilation + 1, window.size);
    if (first < end) {
        window.size = end - first;
        window.padding_low -= first * window.window_dilation;
    } else {
        window.size = 1;  // no position is on the base, nor is the first one
    }
    window.padding_high =
        (outputs - 1) * window.stride + (window.size - 1) * window.window_dilation - window.padding_low - last;
    return window;
}
