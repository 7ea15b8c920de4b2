// SPDX-License-Identifier: Apache-2.0
// Imports operations whose sizes are operands. HLO's sizes are fixed, so these must be known when the program is read:
// they are computed from constants and from array sizes (import_known()). This file also handles the custom calls that
// JAX writes where StableHLO has no dynamic operation, and the accompanying operations of shape, tensor and arith. Most
// of these programs come from jax.export with symbolic shapes: the sizes are constants once the arguments' shapes are,
// and XLA runs a separate pass (stablehlo-refine-shapes) for it. Here, refinement happens while reading: functions are
// converted with the shapes of their calls, and import_known() computes sizes. Sizes that stay open are refused by
// name.
#include <assert.h>
#include <string.h>

#include "hlo/ir/infer/support.h"
#include "hlo/stablehlo/import/import.h"

// ---------------------------------------------------------------------------------------------------------------------
// Known sizes

// UNIMPLEMENTED: `what` ("sizes are") is not constant, and which argument of the entry leaves sizes open, if any does.
static HloStatus not_constant(const ImportPlace *place, const char *what) {
    const MlirOperation *entry = place->importer->entry;
    const MlirBlock *block =
        entry && entry->region_count == 1 && entry->regions[0].block_count == 1 ? &entry->regions[0].blocks[0] : NULL;
    for (int64_t i = 0; block && i < block->argument_count; i++) {
        const HloInstruction *argument = block->arguments[i]->lowered;
        if (argument && hlo_shape_is_array(argument->shape) && hlo_shape_is_dynamic(argument->shape))
            return import_error(place, HLO_UNIMPLEMENTED,
                                "the %s not constant: the sizes of argument %lld, %s, are open", what, (long long)i,
                                hlo_shape_message(import_arena(place), argument->shape));
    }
    return import_error(place, HLO_UNIMPLEMENTED, "the %s not constant", what);
}

// The value of an operand; UNIMPLEMENTED naming it (`what`) if it is not known.
static HloStatus known_operand(const ImportPlace *place, const HloInstruction *operand, const char *what,
                               HloInts *values) {
    return import_known(place->importer, operand, values) ? HLO_SUCCESS : not_constant(place, what);
}

// The shape of the single result; its open sizes are taken from the operand that lists all of them.
static HloStatus sized_result(const ImportPlace *place, const HloInstruction *operand, const HloShape **shape) {
    HloInts sizes;
    HLO_TRY(import_result_shape(place, shape));
    const bool is_open = hlo_shape_is_array(*shape) && hlo_shape_is_dynamic(*shape);
    if (!import_known(place->importer, operand, &sizes)) {
        // The sizes of the type must equal those of the operand, or the program is invalid.
        return is_open ? not_constant(place, "sizes are") : HLO_SUCCESS;
    }
    if (!hlo_shape_is_array(*shape) || sizes.count != (*shape)->rank)
        return import_error(place, HLO_INVALID_ARGUMENT, "%lld sizes for rank %d", (long long)sizes.count,
                            (*shape)->rank);
    for (int64_t i = 0; i < sizes.count; i++) {
        const int64_t declared = (*shape)->dims[i];
        const bool fits = sizes.items[i] >= 0 && (declared == HLO_UNBOUNDED || declared == sizes.items[i]);
        if (!fits)
            return import_error(place, HLO_INVALID_ARGUMENT, "dimension %lld cannot have size %lld", (long long)i,
                                (long long)sizes.items[i]);
    }
    HLO_TRY(hlo_shape_check_dims((*shape)->type, sizes.items, sizes.count));
    HloArena *arena = import_arena(place);
    *shape = hlo_shape_with_default_layout(arena, hlo_shape_array(arena, (*shape)->type, sizes.items, sizes.count));
    return HLO_SUCCESS;
}

// Sets the single result: `opcode` of the first `count` operands with `shape` (NULL: inferred from them).
static HloStatus finish(ImportPlace *place, HloOpcode opcode, const HloShape *shape, HloInstruction *const *operands,
                        int64_t count, const void *attributes) {
    HloInstruction *result;
    HLO_TRY(import_emit(place, opcode, shape, operands, count, attributes, NULL, 0, &result));
    return import_set_results(place, result);
}

// Sets the single result to an array of known integers.
static HloStatus finish_known(ImportPlace *place, const int64_t *values, int64_t count) {
    const HloShape *shape;
    HLO_TRY(import_result_shape(place, &shape));
    if (!hlo_shape_is_array(shape) || !hlo_type_is_integer(shape->type) || shape->rank > 1)
        return import_error(place, HLO_INVALID_ARGUMENT, "the result is not a list of integers");
    HloArena *arena = import_arena(place);
    if (shape->rank == 1) shape = hlo_shape_with_dims(arena, shape, &count, 1);
    if (hlo_shape_elements(shape) != count)
        return import_error(place, HLO_INVALID_ARGUMENT, "the result does not have %lld elements", (long long)count);
    HloLiteral *literal = hlo_literal_in_arena(arena, shape);
    for (int64_t i = 0; i < count; i++) hlo_literal_set_int64(literal, i, values[i]);
    const HloConstantAttributes constant = {literal};
    return finish(place, HLO_OP_CONSTANT, NULL, NULL, 0, &constant);
}

// ---------------------------------------------------------------------------------------------------------------------
// Operations of stablehlo

// The number in a list of one, in the form that the exporter writes for a dynamic-reshape; NULL for any other list.
static HloInstruction *only_number(const HloInstruction *list) {
    const bool made = hlo_is(list, HLO_OP_RESHAPE) && hlo_shape_is_scalar(list->operands[0]->shape);
    return made ? list->operands[0] : NULL;
}

// The elements of a list as scalars: the operands of its concatenation, or slices of it.
static HloStatus scalars_of(ImportPlace *place, HloInstruction *list, int64_t count, HloInstruction **scalars) {
    HloArena *arena = import_arena(place);
    const HloReshapeAttributes reshape = {.inferred_dimension = HLO_ABSENT};
    const HloShape *scalar = hlo_shape_with_dims(arena, list->shape, NULL, 0);
    const int64_t one = 1;
    const bool joined = hlo_is(list, HLO_OP_CONCATENATE) && list->operand_count == count;
    for (int64_t i = 0; i < count; i++) {
        scalars[i] = only_number(count == 1 ? list : joined ? list->operands[i] : list);
        if (scalars[i]) continue;
        const int64_t limit = i + 1;
        const HloSliceAttributes slice = {hlo_ints(arena, &i, 1), hlo_ints(arena, &limit, 1), hlo_ints(arena, &one, 1)};
        HLO_TRY(import_emit(place, HLO_OP_SLICE, NULL, &list, 1, &slice, NULL, 0, &scalars[i]));
        HLO_TRY(import_emit(place, HLO_OP_RESHAPE, scalar, &scalars[i], 1, &reshape, NULL, 0, &scalars[i]));
    }
    return HLO_SUCCESS;
}

// True if the result may be smaller than its type, but never larger.
static bool is_bounded(const HloShape *shape) {
    bool bounded = hlo_shape_is_array(shape) && hlo_shape_is_dynamic(shape);
    for (int32_t d = 0; bounded && d < shape->rank; d++) bounded = shape->dims[d] != HLO_UNBOUNDED;
    return bounded;
}

// With a bounded result type, it is HLO's dynamic-reshape, whose sizes are scalars known at run time.
static HloStatus import_dynamic_reshape(ImportPlace *place) {
    const HloReshapeAttributes attributes = {.inferred_dimension = HLO_ABSENT};
    HloInstruction **operands;
    const HloShape *shape;
    HLO_TRY(import_operands(place, &operands));
    HLO_TRY(import_result_shape(place, &shape));
    if (is_bounded(shape) && operands[1]->shape->rank == 1 && operands[1]->shape->dims[0] == shape->rank) {
        HloInstruction **all = HLO_ARENA_NEW(place->importer->arena, HloInstruction *, 1 + shape->rank);
        all[0] = operands[0];
        HLO_TRY(scalars_of(place, operands[1], shape->rank, all + 1));
        return finish(place, HLO_OP_DYNAMIC_RESHAPE, shape, all, 1 + shape->rank, &attributes);
    }
    HLO_TRY(sized_result(place, operands[1], &shape));
    return finish(place, HLO_OP_RESHAPE, shape, operands, 1, &attributes);
}

// known_expanding_dimensions and its siblings add nothing to known sizes.
static HloStatus import_dynamic_broadcast_in_dim(ImportPlace *place) {
    HloInstruction **operands, *result;
    const HloShape *shape;
    HloInts dims;
    HLO_TRY(import_operands(place, &operands));
    HLO_TRY(import_ints(place, "broadcast_dimensions", &dims));
    HLO_TRY(sized_result(place, operands[1], &shape));
    HLO_TRY(import_broadcast_to(place, operands[0], dims, shape, &result));
    return import_set_results(place, result);
}

static HloStatus import_dynamic_iota(ImportPlace *place) {
    HloIotaAttributes attributes = {0};
    HloInstruction **operands;
    const HloShape *shape;
    HLO_TRY(import_operands(place, &operands));
    HLO_TRY(import_int(place, "iota_dimension", 0, &attributes.dimension));
    HLO_TRY(sized_result(place, operands[0], &shape));
    return finish(place, HLO_OP_IOTA, shape, NULL, 0, &attributes);
}

// Operands: the array, the padding value, and the low, high and interior padding.
static HloStatus import_dynamic_pad(ImportPlace *place) {
    HloInstruction **operands;
    const HloShape *shape;
    HloInts lists[3];
    HLO_TRY(import_operands(place, &operands));
    HLO_TRY(import_result_shape(place, &shape));
    for (int i = 0; i < 3; i++) HLO_TRY(known_operand(place, operands[2 + i], "paddings are", &lists[i]));
    if (lists[0].count != lists[1].count || lists[0].count != lists[2].count)
        return import_error(place, HLO_INVALID_ARGUMENT, "the lists of paddings differ in length");
    HloPadDimension *dims = HLO_ARENA_NEW(import_arena(place), HloPadDimension, lists[0].count);
    for (int64_t i = 0; i < lists[0].count; i++) {
        dims[i] = (HloPadDimension){lists[0].items[i], lists[1].items[i], lists[2].items[i]};
    }
    const HloPadAttributes attributes = {{dims, lists[0].count}};
    return finish(place, HLO_OP_PAD, shape, operands, 2, &attributes);
}

static HloStatus import_dynamic_gather(ImportPlace *place) {
    HloGatherAttributes attributes = {0};
    HloInstruction **operands;
    const HloShape *shape;
    HloInts sizes;
    HLO_TRY(import_operands(place, &operands));
    HLO_TRY(import_result_shape(place, &shape));
    HLO_TRY(import_fields(place, HLO_OP_GATHER, &attributes));
    HLO_TRY(known_operand(place, operands[2], "slice sizes are", &sizes));
    attributes.slice_sizes = hlo_ints_copy(import_arena(place), sizes);
    return finish(place, HLO_OP_GATHER, shape, operands, 2, &attributes);
}

static HloStatus import_dynamic_conv(ImportPlace *place) {
    HloInstruction **operands;
    HloInts padding;
    HLO_TRY(import_operands(place, &operands));
    const HloShape *pairs = operands[2]->shape;
    if (pairs->rank != 2 || pairs->dims[1] != 2)
        return import_error(place, HLO_INVALID_ARGUMENT, "padding is not a matrix of two columns");
    HLO_TRY(known_operand(place, operands[2], "paddings are", &padding));
    return import_convolution_padded(place, &padding);
}

// Computes the sizes of a slice whose end is its start plus a known length; false if the lengths are not known.
static bool length_of(ImportPlace *place, const HloInstruction *start, const HloInstruction *limit, HloInts *sizes) {
    if (!hlo_is(limit, HLO_OP_ADD)) return false;
    if (limit->operands[0] == start) return import_known(place->importer, limit->operands[1], sizes);
    return limit->operands[1] == start && import_known(place->importer, limit->operands[0], sizes);
}

// A slice of known size with an unknown start.
static HloStatus moving_slice(ImportPlace *place, HloInstruction *const *operands, const HloShape *shape) {
    const int64_t rank = operands[0]->shape->rank;
    HloInts strides, sizes = hlo_shape_dims(shape);
    bool dense = import_known(place->importer, operands[3], &strides);
    for (int64_t i = 0; dense && i < strides.count; i++) dense = strides.items[i] == 1;
    if (hlo_shape_is_dynamic(shape)) dense = dense && length_of(place, operands[1], operands[2], &sizes);
    const HloShape *starts = operands[1]->shape;
    if (!dense || sizes.count != rank || starts->rank != 1 || starts->dims[0] != rank)
        return not_constant(place, "size of the slice is");
    HloInstruction **all = HLO_ARENA_NEW(place->importer->arena, HloInstruction *, 1 + rank);
    all[0] = operands[0];
    HLO_TRY(scalars_of(place, operands[1], rank, all + 1));
    const HloDynamicSliceAttributes attributes = {hlo_ints_copy(import_arena(place), sizes)};
    return finish(place, HLO_OP_DYNAMIC_SLICE, shape, all, 1 + rank, &attributes);
}

// With constant bounds, a slice; with a variable start and a known length, a dynamic-slice.
static HloStatus import_real_dynamic_slice(ImportPlace *place) {
    HloInstruction **operands;
    const HloShape *shape;
    HloInts lists[3];
    HLO_TRY(import_operands(place, &operands));
    HLO_TRY(import_result_shape(place, &shape));
    for (int i = 0; i < 3; i++) {
        if (!import_known(place->importer, operands[1 + i], &lists[i])) return moving_slice(place, operands, shape);
        lists[i] = hlo_ints_copy(import_arena(place), lists[i]);
    }
    const HloSliceAttributes attributes = {lists[0], lists[1], lists[2]};
    return finish(place, HLO_OP_SLICE, shape, operands, 1, &attributes);
}

// ---------------------------------------------------------------------------------------------------------------------
// Custom calls

// The type of result `index` with the sizes that the operand lists.
static HloStatus sized_type(const ImportPlace *place, int64_t index, const HloInstruction *sizes,
                            const MlirType **type) {
    MlirOperation one = *place->operation;
    one.results += index;
    one.result_count = 1;
    const ImportPlace at = {place->importer, place->computation, &one};
    const HloShape *shape;
    HLO_TRY(sized_result(&at, sizes, &shape));
    *type = mlir_new_type(place->importer->arena, (MlirType){.kind = MLIR_TYPE_SHAPE, .shape = shape});
    return HLO_SUCCESS;
}

HloStatus import_size_results(const ImportPlace *place, MlirOperation *sized) {
    const MlirOperation *operation = place->operation;
    HloArena *arena = place->importer->arena;
    HloInstruction **operands;
    HloInts indices;
    HLO_TRY(import_operands(place, &operands));
    HLO_TRY(import_ints(place, MLIR_SHAPE_OPERANDS, &indices));
    if (indices.count != operation->result_count)
        return import_error(place, HLO_INVALID_ARGUMENT, "%s has %lld numbers for %lld results", MLIR_SHAPE_OPERANDS,
                            (long long)indices.count, (long long)operation->result_count);
    bool *lists_sizes = HLO_ARENA_NEW(arena, bool, operation->operand_count);
    *sized = *operation;
    sized->results = HLO_ARENA_NEW(arena, MlirValue *, operation->result_count);
    for (int64_t i = 0; i < indices.count; i++) {
        const int64_t at = indices.items[i];
        if (at < 0 || at >= operation->operand_count)
            return import_error(place, HLO_INVALID_ARGUMENT, "%s names operand %lld of %lld", MLIR_SHAPE_OPERANDS,
                                (long long)at, (long long)operation->operand_count);
        lists_sizes[at] = true;
        sized->results[i] = hlo_arena_copy(arena, operation->results[i], sizeof(MlirValue));
        HLO_TRY(sized_type(place, i, operands[at], &sized->results[i]->type));
    }
    sized->operands = HLO_ARENA_NEW(arena, MlirValue *, operation->operand_count);
    sized->operand_count = 0;
    for (int64_t i = 0; i < operation->operand_count; i++)
        if (!lists_sizes[i]) sized->operands[sized->operand_count++] = operation->operands[i];
    return HLO_SUCCESS;
}

// The operands are an array and its actual sizes: refinement leaves these calls in programs.
static HloStatus call_operand_wrapper(ImportPlace *place) {
    HloInstruction **operands;
    HLO_TRY(import_operands(place, &operands));
    return import_set_results(place, operands[0]);
}

// The message of a condition. {0} is replaced by the first operand after the condition, and so on up to {9}, with their
// values where they are known.
static const char *assertion_text(const ImportPlace *place, HloInstruction *const *operands, const char *message) {
    HloInts values[10] = {{0}};
    for (int64_t i = 0; i < 10 && 1 + i < place->operation->operand_count; i++) {
        if (!import_known(place->importer, operands[1 + i], &values[i])) values[i] = (HloInts){0};
    }
    HloText text = {0};
    for (size_t length; *message; message += length) {
        length = strcspn(message, "{");
        hlo_text_append(&text, message, length);
        message += length;
        const bool is_place = message[0] && message[1] >= '0' && message[1] <= '9' && message[2] == '}';
        const HloInts value = is_place ? values[message[1] - '0'] : (HloInts){0};
        length = value.count == 1 ? 3 : *message != 0;
        if (value.count == 1)
            hlo_text_format(&text, "%lld", (long long)value.items[0]);
        else
            hlo_text_append(&text, message, length);
    }
    return hlo_text_to_arena(place->importer->arena, &text);
}

// A condition on sizes with a message. It must be known to hold; HLO cannot check one at run time.
static HloStatus call_shape_assertion(ImportPlace *place) {
    HloInstruction **operands;
    HloInts holds;
    if (place->operation->operand_count < 1)
        return import_error(place, HLO_INVALID_ARGUMENT, "@shape_assertion takes a condition");
    HLO_TRY(import_operands(place, &operands));
    HLO_TRY(known_operand(place, operands[0], "condition on sizes is", &holds));
    if (holds.count == 1 && holds.items[0]) return HLO_SUCCESS;
    const char *message = import_string(place, "error_message");
    return import_error(place, HLO_INVALID_ARGUMENT, "the sizes break a condition: %s",
                        message ? assertion_text(place, operands, message) : "(unnamed)");
}

// k is a scalar operand.
static HloStatus call_dynamic_top_k(ImportPlace *place) {
    HloTopKAttributes attributes = {.largest = true};
    HloInstruction **operands;
    const HloShape *shape;
    HloInts k;
    HLO_TRY(import_operands(place, &operands));
    HLO_TRY(import_result_shape(place, &shape));
    HLO_TRY(known_operand(place, operands[1], "number of results is", &k));
    if (k.count != 1) return import_error(place, HLO_INVALID_ARGUMENT, "k is not a scalar");
    attributes.k = k.items[0];
    return finish(place, HLO_OP_TOPK, shape, operands, 1, &attributes);
}

static HloStatus call_dynamic_rng_bit_generator(ImportPlace *place) {
    HloRngBitsAttributes attributes = {0};
    HloInstruction **operands;
    HLO_TRY(import_operands(place, &operands));
    HLO_TRY(import_fields(place, HLO_OP_RNG_BIT_GENERATOR, &attributes));
    if (place->operation->result_count != 2)
        return import_error(place, HLO_INVALID_ARGUMENT, "the results must be a state and random numbers");
    // The indices are the second result: their shape is that of the operand.
    MlirOperation numbers = {.name = place->operation->name,
                             .location = place->operation->location,
                             .results = place->operation->results + 1,
                             .result_count = 1};
    const ImportPlace at = {place->importer, place->computation, &numbers};
    const HloShape *parts[2] = {operands[0]->shape};
    HLO_TRY(sized_result(&at, operands[1], &parts[1]));
    return finish(place, HLO_OP_RNG_BIT_GENERATOR, hlo_shape_tuple(import_arena(place), parts, 2), operands, 1,
                  &attributes);
}

// Operands: arrays, their initial values, and five lists: sizes, strides, both dilations, paddings.
static HloStatus call_dynamic_reduce_window(ImportPlace *place) {
    enum { LISTS = 5 };
    HloInstruction **operands;
    HloComputation *reducer;
    HloInts lists[LISTS];
    const int64_t arrays = place->operation->operand_count - LISTS;
    const MlirAttribute *called = mlir_attribute(place->operation, "called_computations");
    if (arrays < 2 || arrays % 2 || !called || called->kind != MLIR_ARRAY || called->count != 1 ||
        !called->items[0]->string) {
        return import_error(place, HLO_INVALID_ARGUMENT, "arrays, initial values, five lists and a reducer are needed");
    }
    HLO_TRY(import_operands(place, &operands));
    for (int i = 0; i < LISTS; i++) {
        HLO_TRY(known_operand(place, operands[arrays + i], "window is", &lists[i]));
    }
    HLO_TRY(import_function(place, called->items[0]->string, NULL, 0, &reducer));
    return import_reduce_window_sized(place, lists, operands, arrays, reducer);
}

const ImportRow *import_dynamic_calls(int64_t *count) {
    static const ImportRow rows[] = {
        {"shape_assertion", call_shape_assertion, 0},
        {"stablehlo.dynamic_reduce_window", call_dynamic_reduce_window, 0},
        {"stablehlo.dynamic_rng_bit_generator", call_dynamic_rng_bit_generator, 2},
        {"stablehlo.dynamic_top_k", call_dynamic_top_k, 2},
        {"stablehlo.shape_refinement_operand_wrapper", call_operand_wrapper, 2},
    };
    *count = (int64_t)HLO_COUNT_OF(rows);
    return rows;
}

// ---------------------------------------------------------------------------------------------------------------------
// Operations of shape, tensor and arith

// A list of sizes, or one number.
static HloStatus import_list_constant(ImportPlace *place) {
    const MlirAttribute *value = mlir_attribute(place->operation, "value");
    if (!value) value = mlir_attribute(place->operation, "shape");
    if (value && value->kind == MLIR_INTS) return finish_known(place, value->ints.items, value->ints.count);
    if (value && value->kind == MLIR_INTEGER) return finish_known(place, &value->integer, 1);
    const HloShape *shape;
    if (!value || value->kind != MLIR_TENSOR)
        return import_error(place, HLO_UNIMPLEMENTED, "a constant is not a tensor, list or integer");
    HLO_TRY(import_result_shape(place, &shape));
    HloLiteral *literal =
        hlo_literal_copy_to_arena(import_arena(place), mlir_tensor_literal(place->importer->arena, value));
    const HloConstantAttributes constant = {literal};
    return finish(place, HLO_OP_CONSTANT, shape, NULL, 0, &constant);
}

// Makes the sizes a constant: they are either known or refused.
static HloStatus import_shape_of(ImportPlace *place) {
    HloInstruction **operands;
    HLO_TRY(import_operands(place, &operands));
    const HloShape *shape = operands[0]->shape;
    if (!hlo_shape_is_array(shape) || hlo_shape_is_dynamic(shape)) return not_constant(place, "sizes are");
    return finish_known(place, shape->dims, shape->rank);
}

// The product wraps: a shape that large has already been refused.
static HloStatus import_num_elements(ImportPlace *place) {
    HloInstruction **operands;
    HloInts sizes;
    HLO_TRY(import_operands(place, &operands));
    HLO_TRY(known_operand(place, operands[0], "sizes are", &sizes));
    uint64_t product = 1;
    for (int64_t i = 0; i < sizes.count; i++) product *= (uint64_t)sizes.items[i];
    const int64_t elements = (int64_t)product;
    return finish_known(place, &elements, 1);
}

// Sizes of one are replaced by the others, from the last dimension on.
static HloStatus import_shape_broadcast(ImportPlace *place) {
    HloInstruction **operands;
    HloInts sizes = {0};
    HLO_TRY(import_operands(place, &operands));
    for (int64_t i = 0; i < place->operation->operand_count; i++) {
        HloInts next;
        HLO_TRY(known_operand(place, operands[i], "sizes are", &next));
        const HloInts longer = next.count > sizes.count ? next : sizes, other = next.count > sizes.count ? sizes : next;
        int64_t *joined = HLO_ARENA_NEW(place->importer->arena, int64_t, longer.count);
        for (int64_t d = 0; d < longer.count; d++) joined[d] = longer.items[d];
        for (int64_t d = 0; d < other.count; d++) {
            int64_t *size = &joined[longer.count - other.count + d];
            if (*size != other.items[d] && *size != 1 && other.items[d] != 1)
                return import_error(place, HLO_INVALID_ARGUMENT, "sizes %lld and %lld are incompatible",
                                    (long long)*size, (long long)other.items[d]);
            if (*size == 1) *size = other.items[d];
        }
        sizes = (HloInts){joined, longer.count};
    }
    return finish_known(place, sizes.items, sizes.count);
}

// Casts a value to a type with more or fewer known sizes: known sizes stay known.
static HloStatus import_tensor_cast(ImportPlace *place) {
    HloInstruction **operands;
    const HloShape *shape;
    HLO_TRY(import_operands(place, &operands));
    HLO_TRY(import_result_shape(place, &shape));
    const HloShape *from = operands[0]->shape;
    bool fits = hlo_shape_is_array(from) && from->type == shape->type && from->rank == shape->rank;
    for (int32_t d = 0; fits && d < shape->rank; d++) {
        fits = shape->dims[d] == HLO_UNBOUNDED || shape->dims[d] == from->dims[d];
    }
    if (!fits) return import_error(place, HLO_UNIMPLEMENTED, "the operand's sizes are not known to equal the result's");
    return import_set_results(place, operands[0]);
}

static HloStatus import_tensor_dim(ImportPlace *place) {
    HloInstruction **operands;
    HloInts dimension;
    HLO_TRY(import_operands(place, &operands));
    HLO_TRY(known_operand(place, operands[1], "dimension is", &dimension));
    const HloShape *shape = operands[0]->shape;
    if (dimension.count != 1 || dimension.items[0] < 0 || dimension.items[0] >= shape->rank)
        return import_error(place, HLO_INVALID_ARGUMENT, "there is no such dimension");
    if (shape->dynamic && shape->dynamic[dimension.items[0]]) return not_constant(place, "size is");
    return finish_known(place, &shape->dims[dimension.items[0]], 1);
}

// The scalars must be known, since only sizes are computed this way.
static HloStatus import_from_elements(ImportPlace *place) {
    HloInstruction **operands;
    HLO_TRY(import_operands(place, &operands));
    const int64_t count = place->operation->operand_count;
    int64_t *all = HLO_ARENA_NEW(place->importer->arena, int64_t, count);
    for (int64_t i = 0; i < count; i++) {
        HloInts value;
        HLO_TRY(known_operand(place, operands[i], "elements are", &value));
        if (value.count != 1) return import_error(place, HLO_INVALID_ARGUMENT, "an element is not a scalar");
        all[i] = value.items[0];
    }
    return finish_known(place, all, count);
}

static HloStatus import_index_cast(ImportPlace *place) {
    return import_plain(place, HLO_OP_CONVERT, NULL);
}

const ImportRow *import_dynamic_rows(int64_t *count) {
    static const ImportRow rows[] = {
        {"stablehlo.dynamic_reshape", import_dynamic_reshape, 2},
        {"stablehlo.dynamic_broadcast_in_dim", import_dynamic_broadcast_in_dim, 2},
        {"stablehlo.dynamic_iota", import_dynamic_iota, 1},
        {"stablehlo.dynamic_pad", import_dynamic_pad, 5},
        {"stablehlo.dynamic_gather", import_dynamic_gather, 3},
        {"stablehlo.dynamic_conv", import_dynamic_conv, 3},
        {"stablehlo.real_dynamic_slice", import_real_dynamic_slice, 4},
        {"arith.constant", import_list_constant, 0},
        {"arith.index_cast", import_index_cast, 1},
        {"shape.broadcast", import_shape_broadcast, 0},
        {"shape.const_shape", import_list_constant, 0},
        {"shape.num_elements", import_num_elements, 1},
        {"shape.shape_of", import_shape_of, 1},
        {"tensor.cast", import_tensor_cast, 1},
        {"tensor.dim", import_tensor_dim, 2},
        {"tensor.from_elements", import_from_elements, 0},
    };
    *count = (int64_t)HLO_COUNT_OF(rows);
    return rows;
}
