// SPDX-License-Identifier: Apache-2.0
// Ops that are differentiated, and mapped, as what they abbreviate: batch normalisations, map, scan and scaled-dot.
// Each is written out as a computation with the op's operands as parameters, through which the walks go.
#include "hlo/transform/expansions.h"
#include "hlo/analysis/scan.h"
#include "hlo/ir/infer/support.h"
#include "hlo/transform/batch.h"

typedef HloInstruction *Formula(HloBuilder *b, const HloInstruction *old, HloInstruction *const *x);

typedef struct Expansion {
    HloBuilder *b;
    HloInstruction *root;
    HloArena *scratch;
    const HloInstruction *old;
    Formula *formula;
} Expansion;

static HloInstruction *converted(HloBuilder *b, HloInstruction *x, HloType type) {
    return x && x->shape->type != type ? hlo_build_convert(b, x, type) : x;
}

// ---------------------------------------------------------------------------------------------------------------------
// Batch normalisation, by the formulas of XLA's operation semantics (BatchNormTraining, BatchNormInference and
// BatchNormGrad): means and variances are taken over all dimensions except the feature dimension, the variance is that
// of a population (divided by n, not n - 1) and computed from the differences from the mean, which is more accurate
// than from the mean of squares, and epsilon is added under the root. Everything is computed in the widest type of the
// operands. If a dimension of the batch is dynamic, the number of elements is computed at run time; the masks that the
// dynamic padder adds to the sums exclude the elements beyond the size.

typedef struct Norm {
    HloBuilder *b;
    HloInts dims, others;  // of x; all dimensions except the feature dimension
    int64_t feature, at[HLO_MAXIMUM_RANK];
    double count, epsilon;   // the number of elements per mean, without dimensions of dynamic size
    HloInstruction *factor;  // these sizes, multiplied; NULL if there is none
    HloType type;
    HloInstruction *x[5];
} Norm;

static void describe(Norm *n, HloBuilder *b, const HloInstruction *old, HloInstruction *const *x) {
    const HloBatchNormAttributes *attributes = HLO_ATTRIBUTES(old, BatchNorm);
    *n = (Norm){.b = b,
                .dims = hlo_shape_dims(old->operands[0]->shape),
                .feature = attributes->feature_index,
                .count = 1,
                .epsilon = (double)attributes->epsilon,
                .type = old->operands[0]->shape->type};
    int64_t count = 0;
    for (int64_t i = 0; i < n->dims.count; i++) {
        if (i == n->feature) continue;
        n->at[count++] = i;
        if (!hlo_shape_dimension_is_dynamic(old->operands[0]->shape, i)) n->count *= (double)n->dims.items[i];
    }
    n->others = (HloInts){n->at, count};
    for (int32_t i = 1; i < old->operand_count; i++) {
        const HloType type = old->operands[i]->shape->type;
        if (hlo_type_info(type)->bits > hlo_type_info(n->type)->bits) n->type = type;
    }
    for (int32_t i = 0; i < old->operand_count; i++) n->x[i] = converted(b, x[i], n->type);
    for (int64_t i = 0; i < count; i++) {
        if (!hlo_shape_dimension_is_dynamic(old->operands[0]->shape, n->at[i])) continue;
        HloInstruction *size = converted(b, hlo_build_get_dimension_size(b, x[0], n->at[i]), n->type);
        n->factor = n->factor ? hlo_build_mul(b, n->factor, size) : size;
    }
    if (n->factor) n->factor = hlo_build_with_number(b, hlo_build_mul, n->factor, n->count);
}

static HloInstruction *spread(const Norm *n, HloInstruction *vector) {
    return hlo_build_broadcast(n->b, vector, n->dims, HLO_DIMS(n->feature));
}

static HloInstruction *sum(const Norm *n, HloInstruction *x) {
    return hlo_build_reduce_op(n->b, HLO_OP_ADD, x, n->others);
}

// A sum for each feature by the number of its terms: 0/0 is NaN for an empty batch, as in XLA.
static HloInstruction *by_count(const Norm *n, HloInstruction *sums) {
    if (!n->factor) return hlo_build_with_number(n->b, hlo_build_div, sums, n->count);
    return hlo_build_div(n->b, sums, hlo_build_broadcast(n->b, n->factor, hlo_build_dims(sums), HLO_DIMS()));
}

static HloInstruction *mean(const Norm *n, HloInstruction *x) {
    return by_count(n, sum(n, x));
}

// variance + epsilon, a vector.
static HloInstruction *shifted(const Norm *n, HloInstruction *variance) {
    return hlo_build_with_number(n->b, hlo_build_add, variance, n->epsilon);
}

// (x - mean) / deviation * scale + offset.
static HloInstruction *normalised(const Norm *n, HloInstruction *differences, HloInstruction *variance) {
    HloBuilder *b = n->b;
    HloInstruction *factor = hlo_build_rsqrt(b, shifted(n, variance));
    HloInstruction *unit = hlo_build_mul(b, differences, spread(n, factor));
    HloInstruction *product = hlo_build_mul(b, unit, spread(n, n->x[1]));
    return hlo_build_add(b, product, spread(n, n->x[2]));
}

// The results with the types of the instruction's.
static HloInstruction *typed_tuple(HloBuilder *b, const HloInstruction *old, HloInstruction **results) {
    for (int32_t i = 0; i < old->shape->element_count; i++)
        results[i] = converted(b, results[i], old->shape->elements[i]->type);
    return hlo_build_tuple(b, results, old->shape->element_count);
}

static HloInstruction *batch_norm_training(HloBuilder *b, const HloInstruction *old, HloInstruction *const *x) {
    Norm n;
    describe(&n, b, old, x);
    HloInstruction *average = mean(&n, n.x[0]);
    HloInstruction *differences = hlo_build_sub(b, n.x[0], spread(&n, average));
    HloInstruction *variance = mean(&n, hlo_build_mul(b, differences, differences));
    return typed_tuple(b, old, (HloInstruction *[]){normalised(&n, differences, variance), average, variance});
}

static HloInstruction *batch_norm_inference(HloBuilder *b, const HloInstruction *old, HloInstruction *const *x) {
    Norm n;
    describe(&n, b, old, x);
    HloInstruction *differences = hlo_build_sub(b, n.x[0], spread(&n, n.x[3]));
    return converted(b, normalised(&n, differences, n.x[4]), old->shape->type);
}

// With r = 1 / sqrt(variance + epsilon) and d = x - mean, for n elements per feature:
// offset' = sum g, scale' = r sum g d, x' = scale r (g - (sum g)/n - d r^2 (sum g d)/n).
static HloInstruction *batch_norm_grad(HloBuilder *b, const HloInstruction *old, HloInstruction *const *x) {
    Norm n;
    describe(&n, b, old, x);
    HloInstruction *g = n.x[4], *d = hlo_build_sub(b, n.x[0], spread(&n, n.x[2])), *variance = shifted(&n, n.x[3]);
    HloInstruction *r = hlo_build_rsqrt(b, variance), *total = sum(&n, g), *weighted = sum(&n, hlo_build_mul(b, g, d));
    HloInstruction *slope = hlo_build_div(b, by_count(&n, weighted), variance);
    HloInstruction *centred = hlo_build_sub(b, g, spread(&n, by_count(&n, total)));
    HloInstruction *bent = hlo_build_sub(b, centred, hlo_build_mul(b, d, spread(&n, slope)));
    HloInstruction *results[] = {hlo_build_mul(b, spread(&n, hlo_build_mul(b, n.x[1], r)), bent),
                                 hlo_build_mul(b, weighted, r), total};
    return typed_tuple(b, old, results);
}

// ---------------------------------------------------------------------------------------------------------------------
// Products and maps

// One side of a scaled-dot times its scales, each of which belongs to a block of neighbours.
static HloInstruction *scaled(HloBuilder *b, HloInstruction *side, HloInstruction *scale, HloType type) {
    if (!side || !scale) return NULL;
    const HloInts dims = hlo_shape_dims(side->shape);
    const HloShape *blocks = scale->shape;
    int64_t sizes[2 * HLO_MAXIMUM_RANK], mapping[HLO_MAXIMUM_RANK];
    HloInstruction *numbers = converted(b, side, type), *scales = converted(b, scale, type);
    if (blocks->rank == 0) return hlo_build_mul(b, numbers, hlo_build_broadcast(b, scales, dims, HLO_DIMS()));
    int64_t rank = 0;
    for (int64_t i = 0; i < dims.count; i++) {
        const int64_t block = blocks->dims[i] ? dims.items[i] / blocks->dims[i] : 1;
        mapping[i] = rank;
        sizes[rank++] = blocks->dims[i];
        if (block != 1) sizes[rank++] = block;
    }
    if (rank > HLO_MAXIMUM_RANK) {
        hlo_builder_fail(b, hlo_error(HLO_UNIMPLEMENTED, "a scaled-dot of rank %lld with blocks along %lld dimensions",
                                      (long long)dims.count, (long long)(rank - dims.count)));
        return NULL;
    }
    HloInstruction *repeated = hlo_build_broadcast(b, scales, (HloInts){sizes, rank}, (HloInts){mapping, dims.count});
    return hlo_build_mul(b, numbers, hlo_build_reshape(b, repeated, dims));
}

static HloInstruction *scaled_dot(HloBuilder *b, const HloInstruction *old, HloInstruction *const *x) {
    HloDotAttributes attributes = *HLO_ATTRIBUTES(old, Dot);
    // A TPU must not round the scaled values like f32 operands of the user's own dots.
    attributes.algorithm = HLO_DotAlgorithm_F32_F32_F32;
    HloType type = HLO_F32;
    for (int32_t i = 0; i < old->operand_count; i++)
        if (old->operands[i]->shape->type == HLO_F64) type = HLO_F64;
    HloInstruction *left = scaled(b, x[0], x[2], type), *right = scaled(b, x[1], x[3], type);
    return converted(b, hlo_build_dot(b, left, right, &attributes, type), old->shape->type);
}

// A map is its computation mapped over the elements in a row.
static HloInstruction *map(HloBuilder *b, const HloInstruction *old, HloInstruction *const *x) {
    const int64_t elements = hlo_shape_elements(old->shape);
    HloInstruction **rows = HLO_ARENA_NEW(b->module->arena, HloInstruction *, old->operand_count + 1);
    if (elements == 0) return hlo_transform_zeros(b, old->shape);
    for (int32_t i = 0; i < old->operand_count; i++) {
        HloInstruction *row = converted(b, x[i], old->called[0]->parameters.items[i]->shape->type);
        rows[i] = hlo_build_reshape(b, row, HLO_DIMS(elements));
    }
    HloComputation *mapped = NULL;
    HloStatus status = hlo_vmap(old->called[0], &(HloVmapOptions){.size = elements}, &mapped);
    if (status) {
        hlo_builder_fail(b, status);
        return NULL;
    }
    HloInstruction *result = hlo_build_call(b, rows, old->operand_count, mapped);
    return converted(b, hlo_build_reshape(b, result, hlo_shape_dims(old->shape)), old->shape->type);
}

// ---------------------------------------------------------------------------------------------------------------------
// Scans: a loop with the state (position, inputs, outputs so far, carries)

typedef struct Scan {
    HloBuilder *b;
    HloInstruction *root;
    const HloInstruction *old;
    const HloShape *state;
    HloScanParts parts;
} Scan;

static HloStatus scan_condition(void *argument) {
    Scan *s = argument;
    HloInstruction *position = hlo_build_get(s->b, hlo_build_parameter_shape(s->b, 0, s->state, NULL), 0);
    s->root = hlo_build_compare(s->b, position, hlo_build_scalar_int64(s->b, HLO_S64, s->parts.length),
                                HLO_ComparisonDirection_LT);
    return hlo_transform_status(s->b);
}

// The sizes of `shape`, the scanned dimension of size one (`keep`) or left out.
static HloInts step_dims(const Scan *s, const HloShape *shape, bool keep, int64_t *dims) {
    int64_t count = 0;
    for (int64_t i = 0; i < shape->rank; i++)
        if (i != s->parts.dimension || keep) dims[count++] = i == s->parts.dimension ? 1 : shape->dims[i];
    return (HloInts){dims, count};
}

static HloInstruction **step_starts(const Scan *s, HloInstruction *at, int64_t rank, HloInstruction **starts) {
    HloInstruction *zero = hlo_build_scalar_int64(s->b, HLO_S64, 0);
    for (int64_t i = 0; i < rank; i++) starts[i] = i == s->parts.dimension ? at : zero;
    return starts;
}

static HloStatus scan_body(void *argument) {
    Scan *s = argument;
    HloBuilder *b = s->b;
    const HloComputation *called = s->old->called[0];
    HloArena *arena = b->module->arena;
    const int64_t count = s->parts.inputs + s->parts.carries, results = s->parts.outputs + s->parts.carries;
    HloInstruction **state = HLO_ARENA_NEW(arena, HloInstruction *, 1 + s->parts.inputs + results);
    HloInstruction **operands = HLO_ARENA_NEW(arena, HloInstruction *, count + 1), *starts[HLO_MAXIMUM_RANK];
    int64_t dims[HLO_MAXIMUM_RANK];
    HloInstruction *all = hlo_build_parameter_shape(b, 0, s->state, NULL);
    for (int64_t i = 0; i < 1 + s->parts.inputs + results; i++) state[i] = hlo_build_get(b, all, i);
    HloInstruction *at = state[0];
    if (s->parts.is_reverse) at = hlo_build_sub(b, hlo_build_scalar_int64(b, HLO_S64, s->parts.length - 1), at);
    for (int64_t i = 0; i < count && !b->status; i++) {
        HloInstruction *x = state[i < s->parts.inputs ? 1 + i : 1 + i + s->parts.outputs];
        if (i < s->parts.inputs) {
            step_starts(s, at, x->shape->rank, starts);
            HloInstruction *slice = hlo_build_dynamic_slice(b, x, starts, step_dims(s, x->shape, true, dims));
            x = hlo_build_reshape(b, slice, step_dims(s, x->shape, false, dims));
        }
        operands[i] = converted(b, x, called->parameters.items[i]->shape->type);
    }
    HloInstruction *call = hlo_build_call(b, operands, count, s->old->called[0]);
    for (int64_t i = 0; i < results && !b->status; i++) {
        HloInstruction *part = hlo_shape_is_tuple(call->shape) ? hlo_build_get(b, call, i) : call;
        HloInstruction **slot = &state[1 + s->parts.inputs + i];
        const HloShape *shape = (*slot)->shape;
        part = converted(b, part, shape->type);
        if (i < s->parts.outputs) {
            part = hlo_build_reshape(b, part, step_dims(s, shape, true, dims));
            part = hlo_build_dynamic_update_slice(b, *slot, part, step_starts(s, at, shape->rank, starts));
        }
        *slot = part;
    }
    state[0] = hlo_build_add(b, state[0], hlo_build_scalar_int64(b, HLO_S64, 1));
    s->root = hlo_build_tuple(b, state, 1 + s->parts.inputs + results);
    return hlo_transform_status(b);
}

static HloInstruction *loop_of(HloBuilder *b, Scan *s, HloInstruction *initial) {
    HloComputation *condition = NULL, *body = NULL;
    if (!initial) return NULL;
    s->state = initial->shape;
    HloStatus status = hlo_transform_build(b->module, "scan_condition", scan_condition, s, &s->b, &s->root, &condition);
    if (!status) status = hlo_transform_build(b->module, "scan_body", scan_body, s, &s->b, &s->root, &body);
    if (status) hlo_builder_fail(b, status);
    return status ? NULL : hlo_build_while(b, initial, condition, body);
}

static HloInstruction *scan(HloBuilder *b, const HloInstruction *old, HloInstruction *const *x) {
    Scan s = {.old = old, .parts = hlo_scan_parts(old)};
    const int64_t results = s.parts.outputs + s.parts.carries;
    const int64_t first = 1 + s.parts.inputs;
    HloInstruction **state = HLO_ARENA_NEW(b->module->arena, HloInstruction *, first + results);
    state[0] = hlo_build_scalar_int64(b, HLO_S64, 0);
    for (int64_t i = 0; i < s.parts.inputs; i++) state[1 + i] = x[i];
    for (int64_t i = 0; i < s.parts.outputs; i++)
        state[first + i] = hlo_transform_zeros(b, hlo_shape_value(old->shape, i));
    for (int64_t i = 0; i < s.parts.carries; i++) state[first + s.parts.outputs + i] = x[s.parts.inputs + i];
    if (s.parts.length > 0) {
        HloInstruction *loop = loop_of(b, &s, hlo_build_tuple(b, state, first + results));
        for (int64_t i = 0; i < results; i++) state[first + i] = hlo_build_get(b, loop, first + i);
    }
    for (int64_t i = 0; i < results; i++)
        state[first + i] = converted(b, state[first + i], hlo_shape_value(old->shape, i)->type);
    return hlo_shape_is_tuple(old->shape) ? hlo_build_tuple(b, state + first, results) : state[first];
}

// ---------------------------------------------------------------------------------------------------------------------
// The rules

static Formula *formula_of(HloOpcode opcode) {
    switch (opcode) {
        case HLO_OP_BATCH_NORM_TRAINING: return batch_norm_training;
        case HLO_OP_BATCH_NORM_INFERENCE: return batch_norm_inference;
        case HLO_OP_BATCH_NORM_GRAD: return batch_norm_grad;
        case HLO_OP_SCALED_DOT: return scaled_dot;
        case HLO_OP_SCAN: return scan;
        default: return map;
    }
}

static HloStatus expansion_body(void *argument) {
    Expansion *e = argument;
    HloInstruction **operands = HLO_ARENA_NEW(e->scratch, HloInstruction *, e->old->operand_count + 1);
    e->b->metadata = e->old->metadata;
    for (int32_t i = 0; i < e->old->operand_count; i++)
        operands[i] = hlo_build_parameter_shape(e->b, i, e->old->operands[i]->shape, NULL);
    if (!e->b->status) e->root = e->formula(e->b, e->old, operands);
    return hlo_transform_status(e->b);
}

HloStatus hlo_write_out(const HloInstruction *old, HloArena *scratch, HloComputation **result) {
    Expansion e = {.old = old, .scratch = scratch, .formula = formula_of(old->opcode)};
    HloModule *module = old->parent->module;
    HloStatus status = hlo_transform_build(module, old->name, expansion_body, &e, &e.b, &e.root, result);
    return hlo_status_at_instruction(status, old);
}

// As hlo_write_out(); NULL, and the builder has the error, if it fails.
static HloComputation *expansion_of(HloBuilder *b, HloArena *scratch, const HloInstruction *old) {
    HloComputation *result = NULL;
    HloStatus status = HLO_SUCCESS;
    for (int32_t i = 0; i < old->operand_count && !status; i++) {
        if (hlo_shape_is_dynamic(old->operands[i]->shape))
            status = hlo_error(HLO_UNIMPLEMENTED, "%s: a %s of dynamic sizes has no derivative and cannot be mapped",
                               old->name, hlo_op_text(old->opcode));
    }
    status = status ? hlo_status_at_instruction(status, old) : hlo_write_out(old, scratch, &result);
    if (status) hlo_builder_fail(b, status);
    return status ? NULL : result;
}

void hlo_jvp_expanded(HloJvp *j, HloInstruction **out) {
    const HloInstruction *old = j->old;
    HloComputation *expansion = expansion_of(j->b, j->scratch, old);
    HloInstruction *root = NULL;
    if (!expansion) return;
    for (int32_t i = 0; i < old->operand_count; i++)
        hlo_jvp_bind(j, expansion->parameters.items[i], hlo_jvp_operand(j, i), hlo_jvp_tangents(j, i));
    hlo_jvp_walk(j, expansion, hlo_jvp_needed(j), &root, out);
    j->result = root;
    hlo_computation_remove(expansion);
}

void hlo_batch_expanded(HloBatch *v, HloInstruction **out) {
    const HloInstruction *old = v->old;
    HloComputation *expansion = expansion_of(v->b, v->scratch, old);
    if (!expansion) return;
    for (int32_t i = 0; i < old->operand_count; i++) {
        const int64_t *flags = hlo_int_map_find(&v->flags, (uint64_t)old->operands[i]->id);
        hlo_batch_bind(v, expansion->parameters.items[i], hlo_batch_leaves(v, i), (bool *)(intptr_t)*flags);
    }
    hlo_batch_walk(v, expansion, out, v->out_flags);
    hlo_computation_remove(expansion);
}
