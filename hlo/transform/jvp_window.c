// SPDX-License-Identifier: Apache-2.0
// Tangents of sliding windows whose computation is neither a sum nor an extremum: cumulative products and the like. The
// window is written out as elementwise ops on shifted arrays, by doubling along each dimension, and these are
// differentiated: a window of n elements takes about log2(n) steps.
#include "hlo/transform/structure.h"

// A window over arrays that are padded already, being written out.
typedef struct Expansion {
    HloBuilder *b;
    HloInstruction *root;
    HloArena *scratch;
    const HloInstruction *old;
    int64_t count;  // of arrays
} Expansion;

// The combiner applied to arrays of equal sizes, element by element. False, and the builder has an error, if it has
// other than elementwise ops.
static bool combine(Expansion *e, HloInstruction *const *x, HloInstruction *const *y, HloInstruction **out) {
    const HloComputation *combiner = e->old->called[0];
    HloInts dims = hlo_build_dims(x[0]);
    HloIntMap copies = {0};
    for (const HloInstruction *i = combiner->first; i && !e->b->status; i = i->next) {
        HloInstruction *copy = NULL, *operands[3];
        const HloShape *shape = hlo_shape_array(e->b->module->arena, i->shape->type, dims.items, dims.count);
        for (int32_t k = 0; k < i->operand_count && k < 3; k++)
            operands[k] = (HloInstruction *)(intptr_t)*hlo_int_map_find(&copies, (uint64_t)i->operands[k]->id);
        if (hlo_is(i, HLO_OP_PARAMETER)) {
            int64_t number = hlo_parameter_number(i);
            copy = number < e->count ? x[number] : y[number - e->count];
        } else if (hlo_is(i, HLO_OP_CONSTANT)) {
            HloInstruction *scalar = hlo_instruction_clone(e->b->computation, i, i->shape, NULL, 0);
            copy = hlo_build_broadcast(e->b, scalar, dims, HLO_DIMS());
        } else if (hlo_is(i, HLO_OP_TUPLE) && i == combiner->root) {
            for (int64_t k = 0; k < e->count; k++)
                out[k] = (HloInstruction *)(intptr_t)*hlo_int_map_find(&copies, (uint64_t)i->operands[k]->id);
            return true;
        } else if (hlo_op_is(i->opcode, HLO_OP_IS_ELEMENTWISE) && i->operand_count <= 3) {
            copy = hlo_instruction_clone(e->b->computation, i, shape, operands, i->operand_count);
        } else {
            hlo_builder_fail(e->b,
                             hlo_error(HLO_UNIMPLEMENTED, "there is no derivative of a window by %s, which has %s",
                                       combiner->name, hlo_op_text(i->opcode)));
            return false;
        }
        hlo_int_map_set(e->scratch, &copies, (uint64_t)i->id, (int64_t)(intptr_t)copy);
        if (i == combiner->root) out[0] = copy;
    }
    return !e->b->status;
}

// Elements `first` and following of x along a dimension, `count` of them, each `stride`-th.
static HloInstruction *part(Expansion *e, HloInstruction *x, int64_t dimension, int64_t first, int64_t count,
                            int64_t stride) {
    int64_t starts[HLO_MAXIMUM_RANK] = {0}, limits[HLO_MAXIMUM_RANK], strides[HLO_MAXIMUM_RANK], rank;
    if (!x) return NULL;
    rank = x->shape->rank;
    for (int64_t i = 0; i < rank; i++) {
        limits[i] = x->shape->dims[i];
        strides[i] = i == dimension ? stride : 1;
    }
    starts[dimension] = first;
    limits[dimension] = first + (count - 1) * stride + 1;
    return hlo_build_slice(e->b, x, (HloInts){starts, rank}, (HloInts){limits, rank}, (HloInts){strides, rank});
}

// Replaces arrays by those of f(x[i], y[i + shift]) along a dimension, as long as both have elements.
static void shifted(Expansion *e, HloInstruction *const *x, HloInstruction *const *y, int64_t dimension, int64_t shift,
                    HloInstruction **out) {
    HloInstruction **left = HLO_ARENA_NEW(e->scratch, HloInstruction *, e->count);
    HloInstruction **right = HLO_ARENA_NEW(e->scratch, HloInstruction *, e->count);
    if (e->b->status) return;
    int64_t size = y[0]->shape->dims[dimension] - shift;
    size = size < x[0]->shape->dims[dimension] ? size : x[0]->shape->dims[dimension];
    for (int64_t k = 0; k < e->count; k++) {
        left[k] = part(e, x[k], dimension, 0, size, 1);
        right[k] = part(e, y[k], dimension, shift, size, 1);
    }
    if (!e->b->status) combine(e, left, right, out);
}

// Windows along one dimension: the binary digits of the size say which doubled windows follow each other.
static void slide(Expansion *e, HloInstruction **arrays, int64_t dimension, const HloWindowDimension *w,
                  int64_t output) {
    HloInstruction **power = HLO_ARENA_NEW(e->scratch, HloInstruction *, e->count);
    HloInstruction **window = HLO_ARENA_NEW(e->scratch, HloInstruction *, e->count);
    int64_t dilation = w->window_dilation > 1 ? w->window_dilation : 1, covered = 0;
    memcpy(power, arrays, (size_t)e->count * sizeof *power);
    for (int64_t length = 1; length <= w->size && !e->b->status; length *= 2) {
        if (w->size & length) {
            if (covered == 0)
                memcpy(window, power, (size_t)e->count * sizeof *window);
            else
                shifted(e, window, power, dimension, covered * dilation, window);
            covered += length;
        }
        if (2 * length <= w->size) shifted(e, power, power, dimension, length * dilation, power);
    }
    for (int64_t k = 0; k < e->count && !e->b->status; k++)
        arrays[k] = part(e, window[k], dimension, 0, output, w->stride);
}

static HloStatus expand_body(void *argument) {
    Expansion *e = argument;
    const HloWindow *window = HLO_ATTRIBUTES(e->old, Window)->window;
    const HloShape *result = hlo_shape_leaf(e->old->shape, 0);
    int64_t low[HLO_MAXIMUM_RANK], high[HLO_MAXIMUM_RANK], interior[HLO_MAXIMUM_RANK], rank = window->count;
    HloInstruction **arrays = HLO_ARENA_NEW(e->scratch, HloInstruction *, e->count);
    HloInstruction **initial = HLO_ARENA_NEW(e->scratch, HloInstruction *, e->count);
    for (int64_t i = 0; i < rank; i++) {
        low[i] = window->dims[i].padding_low;
        high[i] = window->dims[i].padding_high;
        interior[i] = window->dims[i].base_dilation > 1 ? window->dims[i].base_dilation - 1 : 0;
    }
    for (int64_t k = 0; k < e->count; k++)
        arrays[k] = hlo_build_parameter_shape(e->b, k, e->old->operands[k]->shape, NULL);
    for (int64_t k = 0; k < e->count; k++) {
        initial[k] = hlo_build_parameter_shape(e->b, e->count + k, e->old->operands[e->count + k]->shape, NULL);
        arrays[k] = hlo_build_pad(e->b, arrays[k], initial[k], (HloInts){low, rank}, (HloInts){high, rank},
                                  (HloInts){interior, rank});
    }
    for (int64_t i = 0; i < rank && !e->b->status; i++) slide(e, arrays, i, &window->dims[i], result->dims[i]);
    e->root = e->count == 1 ? arrays[0] : hlo_build_tuple(e->b, arrays, e->count);
    return hlo_transform_status(e->b);
}

void hlo_transform_expand_window(HloJvp *j, HloInstruction **out) {
    const HloInstruction *old = j->old;
    Expansion e = {.scratch = j->scratch, .old = old, .count = old->operand_count / 2};
    HloComputation *computation = NULL;
    HloInstruction *root = NULL;
    if (hlo_shape_elements(hlo_shape_leaf(old->shape, 0)) == 0) return;
    HloStatus status = hlo_transform_build(j->b->module, "window", expand_body, &e, &e.b, &e.root, &computation);
    if (status) {
        hlo_builder_fail(j->b, status);
        return;
    }
    HloInstruction *value = hlo_jvp_result(j);
    for (int32_t i = 0; i < old->operand_count; i++)
        hlo_jvp_bind(j, computation->parameters.items[i], hlo_jvp_operand(j, i), hlo_jvp_tangents(j, i));
    hlo_jvp_walk(j, computation, hlo_jvp_needed(j), &root, out);
    j->result = value;
}
