// SPDX-License-Identifier: Apache-2.0
// vmap: the walk, and the whole transform.
#include "hlo/transform/batch.h"

#include <assert.h>

#include "hlo/analysis/calls.h"

static HloBatchRule *const RULES[] = {
#define HLO_OP(name, text, arity, flags, family, kinds, shape, eval, partition, cost, jvp, transpose, batching) \
    [HLO_OP_##name] = hlo_batch_##batching,
#include "hlo/ops.def"
#undef HLO_OP
};

HloInstruction **hlo_batch_leaves(const HloBatch *v, int64_t index) {
    return hlo_transform_lookup(&v->values, v->old->operands[index]);
}

static bool *operand_flags(const HloBatch *v, int64_t index) {
    return hlo_transform_lookup(&v->flags, v->old->operands[index]);
}

bool hlo_batch_has(const HloBatch *v, int64_t index) {
    const bool *flags = operand_flags(v, index);
    int64_t count = hlo_shape_leaf_count(v->old->operands[index]->shape);
    for (int64_t k = 0; k < count; k++)
        if (flags[k]) return true;
    return false;
}

HloInstruction *hlo_batch_plain(const HloBatch *v, int64_t index) {
    return hlo_batch_leaves(v, index)[0];
}

HloInstruction *hlo_batch_repeat(HloBatch *v, HloInstruction *x) {
    if (!x) return NULL;
    int64_t mapping[HLO_MAXIMUM_RANK];
    for (int64_t i = 0; i < x->shape->rank; i++) mapping[i] = i + 1;
    return hlo_build_broadcast(v->b, x, hlo_batch_prepend(v, hlo_build_dims(x), v->size),
                               (HloInts){mapping, x->shape->rank});
}

HloInstruction *hlo_batch_operand(HloBatch *v, int64_t index) {
    HloInstruction *x = hlo_batch_plain(v, index);
    return hlo_batch_has(v, index) ? x : hlo_batch_repeat(v, x);
}

HloInts hlo_batch_prepend(const HloBatch *v, HloInts list, int64_t first) {
    int64_t *items = HLO_ARENA_NEW(v->scratch, int64_t, list.count + 1);
    items[0] = first;
    for (int64_t i = 0; i < list.count; i++) items[i + 1] = list.items[i];
    return (HloInts){items, list.count + 1};
}

HloInts hlo_batch_shift(const HloBatch *v, HloInts list, int64_t first) {
    int64_t *items = HLO_ARENA_NEW(v->scratch, int64_t, list.count + 1), count = 0;
    if (first >= 0) items[count++] = first;
    for (int64_t i = 0; i < list.count; i++) items[count++] = list.items[i] + 1;
    return (HloInts){items, count};
}

const HloShape *hlo_batch_shape(const HloBatch *v, const HloShape *shape) {
    HloArena *arena = v->b->module->arena;
    if (!hlo_shape_is_tuple(shape)) {
        HloInts dims = hlo_batch_prepend(v, hlo_shape_dims(shape), v->size);
        return hlo_shape_array(arena, shape->type, dims.items, dims.count);
    }
    const HloShape **elements = HLO_ARENA_NEW(arena, const HloShape *, shape->element_count);
    for (int32_t i = 0; i < shape->element_count; i++) elements[i] = hlo_batch_shape(v, shape->elements[i]);
    return hlo_shape_tuple(arena, elements, shape->element_count);
}

HloInstruction *hlo_batch_clone(HloBatch *v, HloInstruction *const *operands, const void *attributes) {
    for (int32_t i = 0; i < v->old->operand_count; i++)
        if (!operands[i]) return NULL;
    for (int64_t k = 0; k < hlo_shape_leaf_count(v->old->shape); k++) {
        const HloShape *leaf = hlo_shape_leaf(v->old->shape, k);
        if (!hlo_shape_is_array(leaf) || leaf->rank >= HLO_MAXIMUM_RANK) {
            hlo_batch_fail(v, "%s: its result cannot have one more dimension", v->old->name);
            return NULL;
        }
    }
    HloInstruction *copy = hlo_instruction_clone(v->b->computation, v->old, hlo_batch_shape(v, v->old->shape), operands,
                                                 v->old->operand_count);
    copy->sharding = NULL;  // that of an array of another rank
    if (attributes)
        hlo_instruction_set_attributes(
            copy, hlo_attributes_copy(v->b->module->arena, hlo_op_info(v->old->opcode)->family, attributes));
    return copy;
}

void hlo_batch_fail(HloBatch *v, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    hlo_transform_fail(v->b, v->scratch, v->old, HLO_UNIMPLEMENTED, format, arguments);
    va_end(arguments);
}

void hlo_batch_bind(HloBatch *v, const HloInstruction *parameter, HloInstruction **leaves, bool *flags) {
    hlo_transform_store(v->scratch, &v->values, parameter, leaves);
    hlo_transform_store(v->scratch, &v->flags, parameter, flags);
}

bool hlo_batch_is_over_axis(const HloBatch *v, const HloInstruction *i) {
    const char *name = hlo_op_is(i->opcode, HLO_OP_IS_COLLECTIVE) && v->axis
                           ? hlo_instruction_frontend_attribute(i, "axis_name")
                           : NULL;
    return name && !strcmp(name, v->axis);
}

// ---------------------------------------------------------------------------------------------------------------------
// The walk

// Copies an instruction none of whose operands is batched.
static void copy_plain(HloBatch *v, HloInstruction **out) {
    const HloInstruction *i = v->old;
    HloInstruction **operands = HLO_ARENA_NEW(v->scratch, HloInstruction *, i->operand_count);
    for (int32_t k = 0; k < i->operand_count && !v->b->status; k++)
        operands[k] = hlo_transform_assemble(v->b, i->operands[k]->shape, hlo_batch_leaves(v, k));
    if (v->b->status) return;
    HloInstruction *copy = hlo_instruction_clone(v->b->computation, i, i->shape, operands, i->operand_count);
    hlo_transform_leaves(v->b, copy, out);
}

static void step(HloBatch *v, const HloInstruction *i) {
    int64_t leaves = hlo_shape_leaf_count(i->shape);
    HloInstruction **out = HLO_ARENA_NEW(v->scratch, HloInstruction *, leaves + 1);
    bool *flags = HLO_ARENA_NEW(v->scratch, bool, leaves + 1), any = false;
    bool structure = hlo_is(i, HLO_OP_TUPLE) || hlo_is(i, HLO_OP_GET_TUPLE_ELEMENT);
    v->old = i;
    v->b->metadata = i->metadata;
    v->out_flags = flags;
    for (int32_t k = 0; k < i->operand_count; k++) any |= hlo_batch_has(v, k);
    any |= hlo_batch_is_over_axis(v, i);
    for (int64_t k = 0; k < leaves; k++) flags[k] = any;
    if (any || structure)
        RULES[i->opcode](v, out);
    else
        copy_plain(v, out);
    v->old = i;
    if (v->b->status) v->b->status = hlo_status_at_instruction(v->b->status, i);
    hlo_batch_bind(v, i, out, flags);
}

void hlo_batch_walk(HloBatch *v, const HloComputation *computation, HloInstruction **leaves, bool *flags) {
    const HloInstruction *caller = v->old;
    const HloMetadata *metadata = v->b->metadata;
    bool *caller_flags = v->out_flags;
    for (const HloInstruction *i = computation->first; i && !v->b->status; i = i->next)
        if (!hlo_is(i, HLO_OP_PARAMETER)) step(v, i);
    v->old = caller;
    v->b->metadata = metadata;
    v->out_flags = caller_flags;
    if (v->b->status) return;
    int64_t count = hlo_shape_leaf_count(computation->root->shape);
    memcpy(leaves, hlo_transform_lookup(&v->values, computation->root), (size_t)count * sizeof *leaves);
    memcpy(flags, hlo_transform_lookup(&v->flags, computation->root), (size_t)count * sizeof *flags);
}

typedef struct Body {
    HloBatch v;
    const HloComputation *from;
    const bool *in;
    bool *out;
    HloInstruction *root;
} Body;

static HloStatus batch_body(void *argument) {
    Body *c = argument;
    HloBatch *v = &c->v;
    const HloInstruction *parameter = c->from->parameters.items[0];
    int64_t in = hlo_shape_leaf_count(parameter->shape), out = hlo_shape_leaf_count(c->from->root->shape);
    const HloShape **shapes = HLO_ARENA_NEW(v->scratch, const HloShape *, in + 1);
    HloInstruction **leaves = HLO_ARENA_NEW(v->scratch, HloInstruction *, in + 1);
    HloInstruction **results = HLO_ARENA_NEW(v->scratch, HloInstruction *, out + 1);
    bool *flags = HLO_ARENA_NEW(v->scratch, bool, in + 1), *batched = HLO_ARENA_NEW(v->scratch, bool, out + 1);
    for (int64_t k = 0; k < in; k++) {
        const HloShape *leaf = hlo_shape_leaf(parameter->shape, k);
        flags[k] = c->in[k];
        shapes[k] = flags[k] ? hlo_batch_shape(v, leaf) : leaf;
    }
    HloInstruction *all = hlo_build_parameter_shape(v->b, 0, hlo_shape_tuple(v->scratch, shapes, in), NULL);
    for (int64_t k = 0; k < in; k++) leaves[k] = hlo_build_get(v->b, all, k);
    hlo_batch_bind(v, parameter, leaves, flags);
    if (!v->b->status) hlo_batch_walk(v, c->from, results, batched);
    for (int64_t k = 0; k < out && !v->b->status; k++) {
        if (c->out[k] && !batched[k]) results[k] = hlo_batch_repeat(v, results[k]);
        c->out[k] |= batched[k];
    }
    c->root = hlo_build_tuple(v->b, results, out);
    return hlo_transform_status(v->b);
}

HloComputation *hlo_batch_computation(HloBatch *v, const HloComputation *computation, const bool *in, bool *out) {
    Body c = {.from = computation, .in = in, .out = out};
    HloComputation *result = NULL;
    c.v = (HloBatch){.scratch = v->scratch, .size = v->size, .axis = v->axis};
    HloStatus status = hlo_transform_build(v->b->module, computation->name, batch_body, &c, &c.v.b, &c.root, &result);
    if (status) hlo_builder_fail(v->b, status);
    return status ? NULL : result;
}

// ---------------------------------------------------------------------------------------------------------------------
// The transform

typedef struct Vmap {
    HloBatch v;
    HloComputation *from, *result;
    const HloVmapOptions *options;
    HloInstruction *root;
} Vmap;

// The axis of a parameter, -1 for none.
static int64_t axis_of(const Vmap *c, int64_t number) {
    return c->options->axes.count ? c->options->axes.items[number] : 0;
}

// Finds the size of the new dimension, on which all mapped parameters must agree.
static HloStatus check_axes(Vmap *c) {
    int64_t count = hlo_parameter_count(c->from);
    if (c->options->axes.count && c->options->axes.count != count)
        return hlo_status_at_instruction(hlo_error(HLO_INVALID_ARGUMENT, "%lld axes for the %lld parameters of %s",
                                                   (long long)c->options->axes.count, (long long)count, c->from->name),
                                         c->from->root);
    c->v.size = c->options->size;
    c->v.axis = c->options->axis_name;
    for (int64_t i = 0; i < count; i++) {
        if (axis_of(c, i) < -1)
            return hlo_status_at_instruction(hlo_error(HLO_INVALID_ARGUMENT, "parameter %lld has no axis %lld",
                                                       (long long)i, (long long)axis_of(c, i)),
                                             c->from->parameters.items[i]);
    }
    HLO_FAIL_IF(c->v.size <= 0, HLO_INVALID_ARGUMENT, "the size of the mapped axis is %lld", (long long)c->v.size);
    return HLO_SUCCESS;
}

// A parameter with the new dimension at its axis, which is moved to the front.
static HloInstruction *mapped_leaf(Vmap *c, HloInstruction *x, int64_t axis) {
    int64_t order[HLO_MAXIMUM_RANK], rank = x ? x->shape->rank : 0;
    if (!x || axis == 0) return x;
    for (int64_t i = 0; i < rank; i++) order[i] = i == 0 ? axis : i <= axis ? i - 1 : i;
    return hlo_build_transpose(c->v.b, x, (HloInts){order, rank});
}

static const HloShape *inserted(Vmap *c, const HloShape *shape, int64_t axis, HloStatus *status) {
    HloArena *arena = c->v.b->module->arena;
    if (hlo_shape_is_tuple(shape)) {
        const HloShape **elements = HLO_ARENA_NEW(arena, const HloShape *, shape->element_count);
        for (int32_t i = 0; i < shape->element_count; i++) elements[i] = inserted(c, shape->elements[i], axis, status);
        return hlo_shape_tuple(arena, elements, shape->element_count);
    }
    if (!hlo_shape_is_array(shape) || shape->rank >= HLO_MAXIMUM_RANK || axis > shape->rank) {
        if (!*status)
            *status = hlo_error(HLO_INVALID_ARGUMENT, "an array of rank %d has no place for axis %lld",
                                (int)shape->rank, (long long)axis);
        return shape;
    }
    int64_t dims[HLO_MAXIMUM_RANK];
    for (int64_t i = 0; i <= shape->rank; i++)
        dims[i] = i < axis ? shape->dims[i] : i == axis ? c->v.size : shape->dims[i - 1];
    if (!*status) *status = hlo_shape_check_dims(shape->type, dims, shape->rank + 1);
    return hlo_shape_array(arena, shape->type, dims, shape->rank + 1);
}

static void bind_mapped(Vmap *c, const HloInstruction *parameter, int64_t number) {
    HloBatch *v = &c->v;
    int64_t axis = axis_of(c, number), count = hlo_shape_leaf_count(parameter->shape);
    HloStatus status = HLO_SUCCESS;
    const HloShape *shape = axis < 0 ? parameter->shape : inserted(c, parameter->shape, axis, &status);
    if (status) {
        hlo_builder_fail(v->b, hlo_status_at_instruction(status, parameter));
        return;
    }
    HloInstruction *copy = hlo_build_parameter_shape(v->b, number, shape, parameter->name);
    HloInstruction **leaves = HLO_ARENA_NEW(v->scratch, HloInstruction *, count + 1);
    bool *flags = HLO_ARENA_NEW(v->scratch, bool, count + 1);
    if (!copy) return;
    copy->metadata = parameter->metadata;
    if (axis < 0) copy->sharding = parameter->sharding;
    hlo_transform_leaves(v->b, copy, leaves);
    for (int64_t k = 0; k < count; k++) {
        flags[k] = axis >= 0;
        if (axis >= 0) leaves[k] = mapped_leaf(c, leaves[k], axis);
    }
    hlo_batch_bind(v, parameter, leaves, flags);
}

static HloStatus vmap_body(void *argument) {
    Vmap *c = argument;
    HloBatch *v = &c->v;
    int64_t count = hlo_shape_leaf_count(c->from->root->shape);
    HloInstruction **leaves = HLO_ARENA_NEW(v->scratch, HloInstruction *, count + 1);
    bool *flags = HLO_ARENA_NEW(v->scratch, bool, count + 1);
    for (int64_t i = 0; i < hlo_parameter_count(c->from) && !v->b->status; i++)
        bind_mapped(c, c->from->parameters.items[i], i);
    if (!v->b->status) hlo_batch_walk(v, c->from, leaves, flags);
    for (int64_t k = 0; k < count && !v->b->status; k++)
        if (!flags[k]) leaves[k] = hlo_batch_repeat(v, leaves[k]);
    if (!v->b->status) c->root = hlo_transform_assemble(v->b, c->from->root->shape, leaves);
    return hlo_transform_status(v->b);
}

static HloStatus vmap(void *argument) {
    Vmap *c = argument;
    c->v.scratch = hlo_arena_scratch_new();
    HloStatus status = check_axes(c);
    if (!status) status = hlo_check_call_copies(c->from->module, c->v.scratch);
    if (!status) {
        const char *name = hlo_arena_format(c->v.scratch, "vmap_of_%s", c->from->name);
        status = hlo_transform_build(c->from->module, name, vmap_body, c, &c->v.b, &c->root, &c->result);
    }
    if (!status) hlo_transform_tidy(c->result, c->v.scratch);
    hlo_arena_free(c->v.scratch);
    return status;
}

HloStatus hlo_vmap(HloComputation *computation, const HloVmapOptions *options, HloComputation **result) {
    assert(computation && options && result);
    Vmap c = {.from = computation, .options = options};
    HloStatus status = hlo_protect(vmap, &c);
    *result = status ? NULL : c.result;
    return status;
}
