// SPDX-License-Identifier: Apache-2.0
// Rematerialisation. The copies read saved values through one barrier each, so that no pass merges them with the
// originals. Offloaded values are copied to host memory where they are made and back where the backward part first uses
// them, in the form in which JAX's annotations of device placement are read.
#include "hlo/transform/remat.h"

typedef struct Remat {
    HloBuilder *b;
    HloArena *scratch;
    HloRemat policy;
    HloIntMap first;           // ids of the instructions of the first part
    HloIntMap copies;          // by id: the copy that the second part uses
    HloInstruction *position;  // copies are inserted before it
} Remat;

static HloInstruction *lookup(const HloIntMap *map, const HloInstruction *i) {
    const int64_t *found = hlo_int_map_find(map, (uint64_t)i->id);
    return found ? (HloInstruction *)(intptr_t)*found : NULL;
}

static bool has_name(const HloInstruction *i) {
    return hlo_instruction_frontend_attribute(i, "checkpoint_name") != NULL;
}

// A name belongs to the value, of which the named instruction is a copy.
static bool is_named(const HloInstruction *i) {
    for (int64_t k = 0; k < i->users.count; k++)
        if (hlo_is(i->users.items[k], HLO_OP_COPY) && has_name(i->users.items[k])) return true;
    return has_name(i);
}

static bool is_offloaded(const Remat *r, const HloInstruction *i) {
    if (!hlo_shape_is_array(i->shape)) return false;
    if (r->policy == HLO_REMAT_OFFLOAD_NAMED) return is_named(i);
    return r->policy == HLO_REMAT_OFFLOAD_DOTS && hlo_is(i, HLO_OP_DOT) && HLO_ATTRIBUTES(i, Dot)->lhs_batch.count == 0;
}

// Loops and other instructions with effects or state of their own are never run twice.
static bool is_saved(const Remat *r, const HloInstruction *i) {
    if (hlo_is(i, HLO_OP_PARAMETER) || hlo_is(i, HLO_OP_CONSTANT) || hlo_is(i, HLO_OP_IOTA)) return true;
    if (hlo_is(i, HLO_OP_WHILE) || hlo_is(i, HLO_OP_CONDITIONAL) || hlo_op_is(i->opcode, HLO_OP_IS_COLLECTIVE) ||
        hlo_instruction_has_side_effect(i) || hlo_instruction_is_nondeterministic(i))
        return true;
    if (r->policy == HLO_REMAT_SAVE_DOTS) return hlo_is(i, HLO_OP_DOT) || hlo_is(i, HLO_OP_CONVOLUTION);
    if (r->policy == HLO_REMAT_SAVE_NAMED) return is_named(i);
    return is_offloaded(r, i);
}

static HloInstruction *insert(Remat *r, HloInstruction *i) {
    hlo_instruction_move_before(i, r->position);
    return i;
}

// A copy of x in a memory space.
static HloInstruction *placed(Remat *r, HloInstruction *x, int64_t space) {
    HloArena *arena = r->b->module->arena;
    const HloShape *shape = x->shape->layout ? x->shape : hlo_shape_with_default_layout(arena, x->shape);
    HloLayout *layout = hlo_arena_copy(arena, shape->layout, sizeof *shape->layout);
    layout->memory_space = space;
    shape = hlo_shape_with_layout(arena, shape, layout);
    HloInstruction *copy = hlo_instruction_new(r->b->computation, HLO_OP_COPY, shape, &x, 1, NULL, NULL);
    copy->metadata = x->metadata;
    copy->sharding = x->sharding;
    return copy;
}

// The value after its stay in host memory.
static HloInstruction *fetched(Remat *r, HloInstruction *i) {
    HloInstruction *value = hlo_is(i, HLO_OP_COPY) && has_name(i) ? i->operands[0] : i,
                   *known = lookup(&r->copies, value);
    if (known) return known;
    HloInstruction *there = placed(r, value, HLO_SPACE_PINNED_HOST);
    hlo_instruction_move_after(there, value);
    HloInstruction *back = insert(r, placed(r, there, HLO_SPACE_DEVICE));
    hlo_int_map_set(r->scratch, &r->copies, (uint64_t)value->id, (int64_t)(intptr_t)back);
    return back;
}

// The saved value, through a barrier if it is worth one.
static HloInstruction *saved(Remat *r, HloInstruction *i) {
    if (is_offloaded(r, i)) return fetched(r, i);
    if (hlo_is(i, HLO_OP_CONSTANT) || hlo_is(i, HLO_OP_IOTA) || !hlo_shape_is_array(i->shape)) return i;
    HloInstruction *barrier =
        hlo_instruction_new(r->b->computation, HLO_OP_OPTIMIZATION_BARRIER, i->shape, &i, 1, NULL, NULL);
    barrier->sharding = i->sharding;
    return insert(r, barrier);
}

// The copy of an instruction whose operands have copies.
static HloInstruction *copied(Remat *r, HloInstruction *i) {
    if (is_saved(r, i)) return saved(r, i);
    HloInstruction **operands = HLO_ARENA_NEW(r->scratch, HloInstruction *, i->operand_count);
    for (int32_t k = 0; k < i->operand_count; k++) operands[k] = lookup(&r->copies, i->operands[k]);
    return insert(r, hlo_instruction_clone(r->b->computation, i, i->shape, operands, i->operand_count));
}

// Copies what `wanted` is computed from, operands first.
static HloInstruction *again(Remat *r, HloInstruction *wanted) {
    HloInstructionVector stack = {0};
    hlo_vector_push(r->scratch, &stack, wanted);
    while (stack.count > 0) {
        HloInstruction *i = stack.items[stack.count - 1];
        int64_t before = stack.count;
        for (int32_t k = 0; k < i->operand_count && !is_saved(r, i) && !lookup(&r->copies, i); k++)
            if (!lookup(&r->copies, i->operands[k])) hlo_vector_push(r->scratch, &stack, i->operands[k]);
        if (stack.count > before) continue;
        stack.count--;
        if (!lookup(&r->copies, i))
            hlo_int_map_set(r->scratch, &r->copies, (uint64_t)i->id, (int64_t)(intptr_t)copied(r, i));
    }
    return lookup(&r->copies, wanted);
}

void hlo_transform_rematerialise(HloBuilder *b, HloArena *scratch, const HloGradientOptions *options,
                                 const HloInstruction *last) {
    if (options->remat == HLO_REMAT_SAVE_EVERYTHING || !last) return;
    Remat r = {.b = b, .scratch = scratch, .policy = options->remat};
    HloInstruction *i = b->computation->first;
    for (; i && i->id <= last->id; i = i->next)
        hlo_int_map_set(scratch, &r.first, (uint64_t)i->id, (int64_t)(intptr_t)i);
    for (; i; i = i->next) {
        r.position = i;
        for (int32_t k = 0; k < i->operand_count; k++) {
            HloInstruction *operand = i->operands[k];
            if (lookup(&r.first, operand) && (!is_saved(&r, operand) || is_offloaded(&r, operand)))
                hlo_instruction_set_operand(i, k, again(&r, operand));
        }
    }
}
