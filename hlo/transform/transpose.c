// SPDX-License-Identifier: Apache-2.0
// The backward walk: cotangents are summed per linear instruction, and each instruction with one passes it on to its
// linear operands.
#include <assert.h>
#include <complex.h>

#include "hlo/transform/internal.h"

static HloTransposeRule *const RULES[] = {
#define HLO_OP(name, text, arity, flags, family, kinds, shape, eval, partition, cost, jvp, transpose, batching) \
    [HLO_OP_##name] = hlo_transpose_##transpose,
#include "hlo/ops.def"
#undef HLO_OP
};

static bool is_linear(const HloTransposer *t, const HloInstruction *instruction) {
    return hlo_transform_lookup(&t->linear, instruction) != NULL;
}

void hlo_transposer_begin(HloTransposer *t) {
    const HloJvp *j = t->jvp;
    for (int64_t i = 0; i < j->seeds.count; i++)
        hlo_int_map_set(t->scratch, &t->linear, (uint64_t)j->seeds.items[i], 1);
    for (HloInstruction *i = j->b->computation->first; i; i = i->next) {
        bool linear = is_linear(t, i);
        for (int32_t k = 0; k < i->operand_count && !linear; k++) linear = is_linear(t, i->operands[k]);
        if (!linear) continue;
        hlo_int_map_set(t->scratch, &t->linear, (uint64_t)i->id, 1);
        hlo_vector_push(t->scratch, &t->order, i);
    }
}

// Constants, and what is made of nothing else by repeating them.
static bool is_cheap(const HloInstruction *i) {
    while (hlo_is(i, HLO_OP_BROADCAST) || hlo_is(i, HLO_OP_RESHAPE)) i = i->operands[0];
    return hlo_is(i, HLO_OP_CONSTANT) || hlo_is(i, HLO_OP_IOTA);
}

void hlo_transposer_residuals(HloTransposer *t, HloInstruction *const *tangents, int64_t count,
                              HloInstructionVector *residuals) {
    HloIntMap live = {0}, taken = {0};
    for (int64_t i = 0; i < count; i++)
        if (tangents[i]) hlo_int_map_set(t->scratch, &live, (uint64_t)tangents[i]->id, 1);
    for (int64_t n = t->order.count - 1; n >= 0; n--) {
        const HloInstruction *i = t->order.items[n];
        for (int32_t k = 0; k < i->operand_count && hlo_transform_lookup(&live, i); k++) {
            HloInstruction *operand = i->operands[k];
            if (is_linear(t, operand)) {
                hlo_int_map_set(t->scratch, &live, (uint64_t)operand->id, 1);
            } else if (!is_cheap(operand) && !hlo_transform_lookup(&taken, operand)) {
                hlo_int_map_set(t->scratch, &taken, (uint64_t)operand->id, 1);
                hlo_vector_push(t->scratch, residuals, operand);
            }
        }
    }
}

HloInstruction *hlo_transposer_map(HloTransposer *t, HloInstruction *i) {
    if (t->is_inline) return i;
    HloInstruction *mapped = hlo_transform_lookup(&t->mapped, i);
    if (mapped) return mapped;
    assert(is_cheap(i));
    HloInstruction *operand = i->operand_count ? hlo_transposer_map(t, i->operands[0]) : NULL;
    mapped = hlo_instruction_clone(t->b->computation, i, i->shape, &operand, i->operand_count);
    hlo_transform_store(t->scratch, &t->mapped, i, mapped);
    return mapped;
}

HloInstruction *hlo_transposer_residual(HloTransposer *t, int64_t index) {
    return hlo_transposer_map(t, t->instruction->operands[index]);
}

bool hlo_transposer_is_linear(const HloTransposer *t, int64_t index) {
    return is_linear(t, t->instruction->operands[index]);
}

HloInstruction **hlo_transposer_cotangents(HloTransposer *t, const HloInstruction *linear) {
    HloInstruction **leaves = hlo_transform_lookup(&t->cotangents, linear);
    if (!leaves) {
        leaves = HLO_ARENA_NEW(t->scratch, HloInstruction *, hlo_shape_leaf_count(linear->shape) + 1);
        hlo_transform_store(t->scratch, &t->cotangents, linear, leaves);
    }
    return leaves;
}

// Parts are joined one after the other, each time into a new concatenation of them all.
enum { MOST_PARTS = 128 };

// The dimension along which a pad puts zeros around an array; -1 if there are several, or it does anything else.
static int64_t padded_dimension(const HloInstruction *i) {
    int64_t found = -1;
    if (!hlo_is(i, HLO_OP_PAD)) return -1;
    const HloLiteral *value = hlo_is(i->operands[1], HLO_OP_CONSTANT) ? hlo_constant_literal(i->operands[1]) : NULL;
    const HloPadding padding = HLO_ATTRIBUTES(i, Pad)->padding;
    for (int64_t d = 0; d < padding.count; d++) {
        const HloPadDimension *p = &padding.items[d];
        if (p->low == 0 && p->high == 0 && p->interior == 0) continue;
        if (found >= 0 || p->low < 0 || p->high < 0 || p->interior != 0) return -1;
        found = d;
    }
    return value && hlo_literal_get_complex(value, 0) == 0 ? found : -1;
}

static void push_parts(HloArena *scratch, HloInstructionVector *parts, HloInstruction *x, int64_t dimension) {
    const bool joined =
        hlo_is(x, HLO_OP_CONCATENATE) && HLO_ATTRIBUTES(x, Dimensions)->dimensions.items[0] == dimension;
    for (int32_t k = 0; k < (joined ? x->operand_count : 1); k++)
        hlo_vector_push(scratch, parts, joined ? x->operands[k] : x);
}

// The sum of two arrays of zeros around neighbouring parts, as the transposes of a split give one after the other: the
// parts next to each other. NULL if they are no neighbours.
static HloInstruction *neighbours(HloTransposer *t, HloInstruction *a, HloInstruction *b) {
    int64_t low[HLO_MAXIMUM_RANK] = {0}, high[HLO_MAXIMUM_RANK] = {0};
    const int64_t d = a ? padded_dimension(a) : -1;
    if (d < 0 || padded_dimension(b) != d) return NULL;
    const int64_t rank = a->shape->rank, size = a->shape->dims[d];
    const HloPadDimension *of_a = &HLO_ATTRIBUTES(a, Pad)->padding.items[d],
                          *of_b = &HLO_ATTRIBUTES(b, Pad)->padding.items[d];
    HloInstruction *first = of_a->low < of_b->low ? a : b, *second = first == a ? b : a;
    const HloPadDimension *before = first == a ? of_a : of_b, *after = first == a ? of_b : of_a;
    HloInstructionVector parts = {0};
    if (size - before->high != after->low) return NULL;
    push_parts(t->scratch, &parts, first->operands[0], d);
    push_parts(t->scratch, &parts, second->operands[0], d);
    if (parts.count > MOST_PARTS) return NULL;
    HloInstruction *all = hlo_build_concatenate(t->b, parts.items, parts.count, d);
    low[d] = before->low;
    high[d] = after->high;
    if (low[d] == 0 && high[d] == 0) return all;
    return hlo_build_pad(t->b, all, first->operands[1], (HloInts){low, rank}, (HloInts){high, rank}, HLO_DIMS());
}

void hlo_transposer_add(HloTransposer *t, HloInstruction *linear, HloInstruction *cotangent) {
    if (!cotangent || t->b->status) return;
    HloInstruction **leaves = hlo_transposer_cotangents(t, linear);
    HloInstruction *joined = neighbours(t, leaves[0], cotangent);
    leaves[0] = joined ? joined : hlo_transform_sum(t->b, leaves[0], cotangent);
}

void hlo_transposer_give(HloTransposer *t, int64_t index, HloInstruction *cotangent) {
    if (hlo_transposer_is_linear(t, index)) hlo_transposer_add(t, t->instruction->operands[index], cotangent);
}

HloInstruction *hlo_transposer_cotangent(const HloTransposer *t, const HloInstruction *linear) {
    HloInstruction **leaves = linear ? hlo_transform_lookup(&t->cotangents, linear) : NULL;
    return leaves ? leaves[0] : NULL;
}

// Passes the cotangents of one instruction on.
static void step(HloTransposer *t, HloInstruction *i, HloInstruction **cotangents) {
    HloLinear *placeholder = hlo_transform_lookup(&t->jvp->linears, i);
    t->instruction = i;
    t->b->metadata = i->metadata;
    if (placeholder) {
        placeholder->transpose(t, placeholder, cotangents);
    } else if (hlo_is(i, HLO_OP_GET_TUPLE_ELEMENT)) {
        HloInstruction **leaves = hlo_transposer_cotangents(t, i->operands[0]);
        int64_t index = HLO_ATTRIBUTES(i, TupleIndex)->index;  // placeholders have flat results
        leaves[index] = hlo_transform_sum(t->b, leaves[index], cotangents[0]);
    } else if (i->operand_count > 0) {
        if (i->sharding && cotangents[0] && !cotangents[0]->sharding && !hlo_is(cotangents[0], HLO_OP_PARAMETER))
            cotangents[0]->sharding = i->sharding;
        RULES[i->opcode](t, cotangents[0]);
    }
    if (t->b->status) t->b->status = hlo_status_at_instruction(t->b->status, i);
}

void hlo_transposer_run(HloTransposer *t) {
    const HloMetadata *metadata = t->b->metadata;
    for (int64_t n = t->order.count - 1; n >= 0 && !t->b->status; n--) {
        HloInstruction **cotangents = hlo_transform_lookup(&t->cotangents, t->order.items[n]);
        if (cotangents) step(t, t->order.items[n], cotangents);
    }
    t->b->metadata = metadata;
}

void hlo_transposer_remove_linear(HloTransposer *t) {
    for (int64_t n = t->order.count - 1; n >= 0; n--) {
        HloInstruction *i = t->order.items[n];
        if (i->called_count) hlo_instruction_set_called(i, NULL, 0);
        hlo_instruction_remove(i);
    }
}

void hlo_transpose_none(HloTransposer *t, HloInstruction *cotangent) {
    (void)cotangent;
    hlo_builder_fail(t->b, hlo_error(HLO_UNIMPLEMENTED, "%s: there is no reverse derivative of %s",
                                     t->instruction->name, hlo_op_text(t->instruction->opcode)));
}
