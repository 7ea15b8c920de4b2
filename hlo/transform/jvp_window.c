// SPDX-License-Identifier: Apache-2.0
// Tangents of sliding windows and reductions whose computation is neither a sum nor an extremum: cumulative products
// and the like, and those of several arrays. The window is written out as elementwise ops on shifted arrays, by
// doubling along each dimension, and these are differentiated: a window of n elements takes about log2(n) steps. A
// cumulative op, whose window is as long as the dimension, combines pairs, is applied to these, and fills in between:
// twice the operations of one pass, in all steps together, as JAX's lax.associative_scan.
#include <math.h>

#include "hlo/eval/eval.h"
#include "hlo/eval/known.h"
#include "hlo/transform/structure.h"

// A window over arrays that are padded already, or a reduction, being written out.
typedef struct Expansion {
    HloBuilder *b;
    HloInstruction *root;
    HloArena *scratch;
    const HloInstruction *old;
    int64_t count;        // of arrays
    bool starts_neutral;  // the initial values are known not to change anything
    bool reversed;        // the arrays are in the reverse order of the window's
} Expansion;

static bool apply(Expansion *e, const HloComputation *f, HloInstruction *const *arguments, HloInstruction **out);

// An instruction of a function of scalars, applied to arrays of sizes `dims` element by element. NULL, and the builder
// has an error, if it is not elementwise.
static HloInstruction *applied(Expansion *e, const HloInstruction *i, HloInstruction **operands, HloInts dims) {
    HloInstruction *result = NULL;
    if (hlo_is(i, HLO_OP_CONSTANT)) {
        HloInstruction *scalar = hlo_instruction_clone(e->b->computation, i, i->shape, NULL, 0);
        return hlo_build_broadcast(e->b, scalar, dims, HLO_DIMS());
    }
    if (hlo_is(i, HLO_OP_CALL) && hlo_shape_is_array(i->shape)) {
        apply(e, i->called[0], operands, &result);
        return result;
    }
    if (hlo_op_is(i->opcode, HLO_OP_IS_ELEMENTWISE)) {
        const HloShape *shape = hlo_shape_array(e->b->module->arena, i->shape->type, dims.items, dims.count);
        return hlo_instruction_clone(e->b->computation, i, shape, operands, i->operand_count);
    }
    hlo_builder_fail(e->b, hlo_error(HLO_UNIMPLEMENTED, "there is no derivative of a %s by %s, which has %s",
                                     hlo_is(e->old, HLO_OP_REDUCE) ? "reduction" : "window", e->old->called[0]->name,
                                     hlo_op_text(i->opcode)));
    return NULL;
}

// A function of scalars applied to arrays of equal sizes, element by element. False, and the builder has an error, if
// it has other than elementwise ops.
static bool apply(Expansion *e, const HloComputation *f, HloInstruction *const *arguments, HloInstruction **out) {
    HloInts dims = hlo_build_dims(arguments[0]);
    HloIntMap copies = {0};
    for (const HloInstruction *i = f->first; i && !e->b->status; i = i->next) {
        HloInstruction **operands = HLO_ARENA_NEW(e->scratch, HloInstruction *, i->operand_count + 1);
        for (int32_t k = 0; k < i->operand_count; k++) operands[k] = hlo_transform_lookup(&copies, i->operands[k]);
        if (hlo_is(i, HLO_OP_TUPLE) && i == f->root) {
            memcpy(out, operands, (size_t)i->operand_count * sizeof *out);
            return true;
        }
        HloInstruction *copy =
            hlo_is(i, HLO_OP_PARAMETER) ? arguments[hlo_parameter_number(i)] : applied(e, i, operands, dims);
        hlo_transform_store(e->scratch, &copies, i, copy);
        if (i == f->root) out[0] = copy;
    }
    return !e->b->status;
}

// The combiner applied to arrays of equal sizes; `out` may be x or y. False, and the builder has an error, if it has
// other than elementwise ops.
static bool combine(Expansion *e, HloInstruction *const *x, HloInstruction *const *y, HloInstruction **out) {
    HloInstruction **both = HLO_ARENA_NEW(e->scratch, HloInstruction *, 2 * e->count);
    memcpy(both, x, (size_t)e->count * sizeof *both);
    memcpy(both + e->count, y, (size_t)e->count * sizeof *both);
    return apply(e, e->old->called[0], both, out);
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

// Whether a combiner has elementwise ops only, so that evaluating it takes no longer than reading it.
static bool is_plain(const HloComputation *combiner) {
    for (const HloInstruction *i = combiner->first; i; i = i->next) {
        const bool others = hlo_is(i, HLO_OP_PARAMETER) || hlo_is(i, HLO_OP_CONSTANT) || hlo_is(i, HLO_OP_TUPLE);
        if (i->called_count || !(others || hlo_op_is(i->opcode, HLO_OP_IS_ELEMENTWISE))) return false;
    }
    return true;
}

// Whether combining `number`, as far as the types have it, with the initial values gives that number again; `before`:
// these come first.
static bool keeps(const HloJvp *j, const HloLiteral **initial, int64_t count, double number, bool before) {
    const HloLiteral **arguments = HLO_ARENA_NEW(j->scratch, const HloLiteral *, 2 * count);
    double *numbers = HLO_ARENA_NEW(j->scratch, double, count);
    HloLiteral *result = NULL;
    for (int64_t k = 0; k < count; k++) {
        HloLiteral *rounded = hlo_literal_in_arena(j->scratch, initial[k]->shape);
        hlo_literal_set_double(rounded, 0, number);
        numbers[k] = hlo_literal_get_double(rounded, 0);
        if (!isfinite(numbers[k])) return true;
        arguments[before ? count + k : k] = rounded;
        arguments[before ? k : count + k] = initial[k];
    }
    HloStatus status = hlo_evaluate_computation(j->old->called[0], arguments, 2 * count, NULL, &result);
    bool same = !status;
    for (int64_t k = 0; k < count && same; k++) {
        const HloLiteral *one = hlo_shape_is_tuple(result->shape) ? result->elements[k] : result;
        same = hlo_literal_get_double(one, 0) == numbers[k];
    }
    hlo_literal_free(result);
    hlo_status_free(status);  // what cannot be evaluated is written out in full
    return same;
}

// Whether combining numbers with the initial values gives these numbers, as with an identity. Large and small ones are
// among them, as a combiner may have bounds: the sum of a and b, but at most 100, keeps 0.75 and changes 200.
static bool starts_neutral(const HloJvp *j, int64_t count) {
    static const double kNumbers[] = {0.75, -1.5, 0x1p-100, -0x1p-100, 0x1p100, -0x1p100, 384, -384, 0x1p-6, -0x1p-6};
    const HloLiteral **initial = HLO_ARENA_NEW(j->scratch, const HloLiteral *, count);
    if (!is_plain(j->old->called[0])) return false;
    for (int64_t k = 0; k < count; k++) {
        const HloInstruction *operand = hlo_jvp_operand(j, count + k);
        initial[k] = operand ? hlo_known_value(j->scratch, operand, true) : NULL;
        if (!initial[k] || !hlo_type_is_float(operand->shape->type)) return false;
    }
    for (size_t n = 0; n < HLO_COUNT_OF(kNumbers); n++)
        if (!keeps(j, initial, count, kNumbers[n], false) || !keeps(j, initial, count, kNumbers[n], true)) return false;
    return true;
}

// The dimension's window has all elements up to each one (1), all from it on (-1), or neither (0).
static int cumulates(const Expansion *e, int64_t dimension) {
    const HloShape *shape = e->old->operands[0]->shape;
    const HloWindowDimension *w = &HLO_ATTRIBUTES(e->old, Window)->window->dims[dimension];
    const int64_t others = shape->dims[dimension] - 1;
    const bool whole = e->starts_neutral && w->size == shape->dims[dimension] && w->size > 1 && w->stride <= 1 &&
                       w->window_dilation <= 1 && w->base_dilation <= 1;
    if (whole && w->padding_low == others && w->padding_high == 0) return 1;
    return whole && w->padding_low == 0 && w->padding_high == others ? -1 : 0;
}

// x at the even positions of a dimension of `size` elements, and y at the odd ones.
static HloInstruction *interleaved(Expansion *e, HloInstruction *x, HloInstruction *y, int64_t dimension,
                                   int64_t size) {
    int64_t low[HLO_MAXIMUM_RANK] = {0}, high[HLO_MAXIMUM_RANK] = {0}, interior[HLO_MAXIMUM_RANK] = {0};
    if (!x || !y) return NULL;
    const int64_t rank = x->shape->rank;
    HloInstruction *zero = hlo_build_scalar(e->b, x->shape->type, 0);
    interior[dimension] = 1;
    high[dimension] = size % 2 == 0;
    x = hlo_build_pad(e->b, x, zero, (HloInts){low, rank}, (HloInts){high, rank}, (HloInts){interior, rank});
    low[dimension] = 1;
    high[dimension] = size % 2;
    y = hlo_build_pad(e->b, y, zero, (HloInts){low, rank}, (HloInts){high, rank}, (HloInts){interior, rank});
    return hlo_build_add(e->b, x, y);
}

// Replaces arrays by their cumulative ones along a dimension, from the first element on: those of the pairs are the
// results at odd positions, and with one more element at the even ones.
static void cumulate(Expansion *e, HloInstruction **arrays, int64_t dimension) {
    const int64_t size = e->b->status ? 0 : arrays[0]->shape->dims[dimension], pairs = size / 2, rest = (size - 1) / 2;
    if (size < 2) return;
    HloInstruction **first = HLO_ARENA_NEW(e->scratch, HloInstruction *, e->count);
    HloInstruction **second = HLO_ARENA_NEW(e->scratch, HloInstruction *, e->count);
    HloInstruction **odd = HLO_ARENA_NEW(e->scratch, HloInstruction *, e->count);
    for (int64_t k = 0; k < e->count; k++) {
        first[k] = part(e, arrays[k], dimension, 0, pairs, 2);
        second[k] = part(e, arrays[k], dimension, 1, pairs, 2);
    }
    if (e->b->status || !combine(e, e->reversed ? second : first, e->reversed ? first : second, odd)) return;
    cumulate(e, odd, dimension);
    for (int64_t k = 0; k < e->count && rest > 0; k++) {
        first[k] = part(e, odd[k], dimension, 0, rest, 1);
        second[k] = part(e, arrays[k], dimension, 2, rest, 2);
    }
    if (e->b->status) return;
    if (rest > 0 && !combine(e, e->reversed ? second : first, e->reversed ? first : second, second)) return;
    for (int64_t k = 0; k < e->count; k++) {
        HloInstruction *even[] = {part(e, arrays[k], dimension, 0, 1, 1), second[k]};
        if (rest > 0) even[0] = hlo_build_concatenate(e->b, even, 2, dimension);
        arrays[k] = interleaved(e, even[0], odd[k], dimension, size);
    }
}

// Windows along one dimension, from either end.
static void along(Expansion *e, HloInstruction **arrays, int64_t dimension, int64_t output) {
    const int direction = cumulates(e, dimension);
    if (direction == 0) slide(e, arrays, dimension, &HLO_ATTRIBUTES(e->old, Window)->window->dims[dimension], output);
    for (int64_t k = 0; k < e->count && direction < 0; k++)
        arrays[k] = hlo_build_reverse(e->b, arrays[k], HLO_DIMS(dimension));
    e->reversed = direction < 0;
    if (direction != 0) cumulate(e, arrays, dimension);
    for (int64_t k = 0; k < e->count && direction < 0; k++)
        arrays[k] = hlo_build_reverse(e->b, arrays[k], HLO_DIMS(dimension));
}

static HloStatus expand_body(void *argument) {
    Expansion *e = argument;
    const HloWindow *window = HLO_ATTRIBUTES(e->old, Window)->window;
    const HloShape *result = hlo_shape_leaf(e->old->shape, 0);
    int64_t low[HLO_MAXIMUM_RANK], high[HLO_MAXIMUM_RANK], interior[HLO_MAXIMUM_RANK], rank = window->count;
    HloInstruction **arrays = HLO_ARENA_NEW(e->scratch, HloInstruction *, e->count);
    HloInstruction **initial = HLO_ARENA_NEW(e->scratch, HloInstruction *, e->count);
    for (int64_t i = 0; i < rank; i++) {
        const bool is_padded = cumulates(e, i) == 0;
        low[i] = is_padded ? window->dims[i].padding_low : 0;
        high[i] = is_padded ? window->dims[i].padding_high : 0;
        interior[i] = window->dims[i].base_dilation > 1 ? window->dims[i].base_dilation - 1 : 0;
    }
    for (int64_t k = 0; k < e->count; k++)
        arrays[k] = hlo_build_parameter_shape(e->b, k, e->old->operands[k]->shape, NULL);
    for (int64_t k = 0; k < e->count; k++) {
        initial[k] = hlo_build_parameter_shape(e->b, e->count + k, e->old->operands[e->count + k]->shape, NULL);
        arrays[k] = hlo_build_pad(e->b, arrays[k], initial[k], (HloInts){low, rank}, (HloInts){high, rank},
                                  (HloInts){interior, rank});
    }
    for (int64_t i = 0; i < rank && !e->b->status; i++) along(e, arrays, i, result->dims[i]);
    e->root = e->count == 1 ? arrays[0] : hlo_build_tuple(e->b, arrays, e->count);
    return hlo_transform_status(e->b);
}

// Differentiates the computation that writes j->old out, and returns its root.
static HloInstruction *walk(HloJvp *j, Expansion *e, HloStatus (*body)(void *), HloInstruction **out) {
    HloComputation *computation = NULL;
    HloInstruction *root = NULL;
    const char *name = hlo_is(e->old, HLO_OP_REDUCE) ? "reduction" : "window";
    HloStatus status = hlo_transform_build(j->b->module, name, body, e, &e->b, &e->root, &computation);
    if (status) {
        hlo_builder_fail(j->b, status);
        return NULL;
    }
    for (int32_t i = 0; i < e->old->operand_count; i++)
        hlo_jvp_bind(j, computation->parameters.items[i], hlo_jvp_operand(j, i), hlo_jvp_tangents(j, i));
    hlo_jvp_walk(j, computation, hlo_jvp_needed(j), &root, out);
    return root;
}

void hlo_transform_expand_window(HloJvp *j, HloInstruction **out) {
    const HloInstruction *old = j->old;
    Expansion e = {.scratch = j->scratch, .old = old, .count = old->operand_count / 2};
    e.starts_neutral = starts_neutral(j, e.count);
    if (hlo_shape_elements(hlo_shape_leaf(old->shape, 0)) == 0) return;
    // Of a cumulative op the tangents need all that makes the value.
    bool is_cumulative = true;
    for (int64_t d = 0; d < HLO_ATTRIBUTES(old, Window)->window->count; d++)
        is_cumulative &= HLO_ATTRIBUTES(old, Window)->window->dims[d].size == 1 || cumulates(&e, d) != 0;
    HloInstruction *value = is_cumulative ? NULL : hlo_jvp_result(j);
    HloInstruction *root = walk(j, &e, expand_body, out);
    j->result = value ? value : root;
}

// A reduction by halves along each dimension, then with the initial values.
static HloStatus reduce_body(void *argument) {
    Expansion *e = argument;
    const HloInts reduced = HLO_ATTRIBUTES(e->old, Dimensions)->dimensions;
    const HloInts dims = hlo_shape_dims(hlo_shape_leaf(e->old->shape, 0));
    HloInstruction **arrays = HLO_ARENA_NEW(e->scratch, HloInstruction *, e->count);
    HloInstruction **initial = HLO_ARENA_NEW(e->scratch, HloInstruction *, e->count);
    for (int64_t k = 0; k < 2 * e->count; k++) {
        HloInstruction *p = hlo_build_parameter_shape(e->b, k, e->old->operands[k]->shape, NULL);
        if (k < e->count)
            arrays[k] = p;
        else
            initial[k - e->count] = hlo_build_broadcast(e->b, p, dims, HLO_DIMS());
    }
    const bool is_empty = !e->b->status && hlo_shape_elements(arrays[0]->shape) == 0;
    for (int64_t i = 0; i < reduced.count && !e->b->status && !is_empty; i++) {
        const HloWindowDimension all = {.size = arrays[0]->shape->dims[reduced.items[i]], .stride = 1};
        slide(e, arrays, reduced.items[i], &all, 1);
    }
    for (int64_t k = 0; k < e->count && !is_empty; k++) arrays[k] = hlo_build_reshape(e->b, arrays[k], dims);
    if (is_empty)
        memcpy(arrays, initial, (size_t)e->count * sizeof *arrays);
    else if (!e->b->status)
        combine(e, initial, arrays, arrays);
    e->root = e->count == 1 ? arrays[0] : hlo_build_tuple(e->b, arrays, e->count);
    return hlo_transform_status(e->b);
}

void hlo_transform_expand_reduce(HloJvp *j, HloInstruction **out) {
    Expansion e = {.scratch = j->scratch, .old = j->old, .count = j->old->operand_count / 2};
    j->result = walk(j, &e, reduce_body, out);
}
