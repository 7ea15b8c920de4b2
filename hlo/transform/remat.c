// SPDX-License-Identifier: Apache-2.0
// Rematerialisation. Loops and branches choose their residuals while they are split (hlo_remat_split()); then what
// remains at the top level is copied. The copies read saved values through one barrier each, so that no pass merges
// them with the originals. Offloaded values are copied to host memory where they are made and back where the backward
// part first uses them, in the form in which JAX's annotations of device placement are read.
#include "hlo/transform/remat.h"

#include "hlo/transform/control.h"

typedef struct Remat {
    HloBuilder *b;
    HloArena *scratch;
    HloRemat policy;
    const HloIntMap *kept;     // ids of values that are saved besides; HLO_REMAT_KEPT_ON_HOST: in host memory. Or NULL
    HloIntMap first;           // ids of the instructions of the first part
    HloIntMap copies;          // by id: the copy that the second part uses
    HloInstruction *position;  // copies are inserted before it
    HloInstruction *trigger;   // what copies wait for: a value of the second part; NULL: nothing
} Remat;

static bool has_name(const HloInstruction *i) {
    return hlo_instruction_frontend_attribute(i, "checkpoint_name") != NULL;
}

// A name belongs to the value, of which the named instruction is a copy.
static bool is_named(const HloInstruction *i) {
    for (int64_t k = 0; k < i->users.count; k++)
        if (hlo_is(i->users.items[k], HLO_OP_COPY) && has_name(i->users.items[k])) return true;
    return has_name(i);
}

bool hlo_remat_is_offloaded(HloRemat policy, const HloInstruction *i) {
    if (!hlo_shape_is_array(i->shape)) return false;
    if (policy == HLO_REMAT_OFFLOAD_NAMED) return is_named(i);
    return policy == HLO_REMAT_OFFLOAD_DOTS && hlo_is(i, HLO_OP_DOT) && HLO_ATTRIBUTES(i, Dot)->lhs_batch.count == 0;
}

// True if the policy itself saves the value.
static bool saves(HloRemat policy, const HloInstruction *i) {
    if (policy == HLO_REMAT_SAVE_DOTS) return hlo_is(i, HLO_OP_DOT) || hlo_is(i, HLO_OP_CONVOLUTION);
    if (policy == HLO_REMAT_SAVE_NAMED) return is_named(i);
    return hlo_remat_is_offloaded(policy, i);
}

static bool is_kept(const Remat *r, const HloInstruction *i) {
    return r->kept && hlo_int_map_find(r->kept, (uint64_t)i->id);
}

static bool is_offloaded(const Remat *r, const HloInstruction *i) {
    if (is_kept(r, i)) return *hlo_int_map_find(r->kept, (uint64_t)i->id) == HLO_REMAT_KEPT_ON_HOST;
    return hlo_remat_is_offloaded(r->policy, i);
}

// Loops and other instructions with effects or state of their own are never run twice.
static bool is_saved(const Remat *r, const HloInstruction *i) {
    if (is_kept(r, i)) return true;
    if (hlo_remat_is_given(i)) return true;
    if (hlo_is(i, HLO_OP_WHILE) || hlo_is(i, HLO_OP_CONDITIONAL) || hlo_op_is(i->opcode, HLO_OP_IS_COLLECTIVE) ||
        hlo_instruction_has_side_effect(i) || hlo_instruction_is_nondeterministic(i))
        return true;
    return saves(r->policy, i);
}

static HloInstruction *insert(Remat *r, HloInstruction *i) {
    hlo_instruction_move_before(i, r->position);
    return i;
}

HloInstruction *hlo_remat_placed(HloBuilder *b, HloInstruction *x, int64_t space) {
    if (!x) return NULL;
    HloArena *arena = b->module->arena;
    const HloShape *shape = x->shape->layout ? x->shape : hlo_shape_with_default_layout(arena, x->shape);
    HloLayout *layout = hlo_arena_copy(arena, shape->layout, sizeof *shape->layout);
    layout->memory_space = space;
    shape = hlo_shape_with_layout(arena, shape, layout);
    HloInstruction *copy = hlo_instruction_new(b->computation, HLO_OP_COPY, shape, &x, 1, NULL, NULL);
    copy->metadata = x->metadata;
    copy->sharding = x->sharding;
    return copy;
}

// The value after its stay in host memory.
static HloInstruction *fetched(Remat *r, HloInstruction *i) {
    HloInstruction *value = hlo_is(i, HLO_OP_COPY) && has_name(i) ? i->operands[0] : i,
                   *known = hlo_transform_lookup(&r->copies, value);
    if (known) return known;
    HloInstruction *there = hlo_remat_placed(r->b, value, HLO_SPACE_PINNED_HOST);
    hlo_instruction_move_after(there, value);
    HloInstruction *back = insert(r, hlo_remat_placed(r->b, there, HLO_SPACE_DEVICE));
    hlo_transform_store(r->scratch, &r->copies, value, back);
    return back;
}

static HloInstruction *new_barrier(const Remat *r, const HloShape *shape, HloInstruction *operand) {
    return hlo_instruction_new(r->b->computation, HLO_OP_OPTIMIZATION_BARRIER, shape, &operand, 1, NULL, NULL);
}

// The value through a barrier, which waits for the trigger if there is one. Without a trigger, a scheduler that sees
// the graph alone may compute the copies long before they are needed.
static HloInstruction *guarded(Remat *r, HloInstruction *i) {
    if (!r->trigger) {
        HloInstruction *barrier = new_barrier(r, i->shape, i);
        barrier->sharding = i->sharding;
        return insert(r, barrier);
    }
    HloInstruction *both[] = {i, r->trigger};
    const HloShape *shapes[] = {i->shape, r->trigger->shape};
    const HloShape *shape = hlo_shape_tuple(r->b->module->arena, shapes, 2);
    HloInstruction *tuple = insert(r, hlo_instruction_new(r->b->computation, HLO_OP_TUPLE, shape, both, 2, NULL, NULL));
    HloInstruction *barrier = insert(r, new_barrier(r, shape, tuple));
    const HloTupleIndexAttributes first = {0};
    HloInstruction *value =
        hlo_instruction_new(r->b->computation, HLO_OP_GET_TUPLE_ELEMENT, i->shape, &barrier, 1, &first, NULL);
    value->sharding = i->sharding;
    return insert(r, value);
}

// The saved value, through a barrier if it is worth one.
static HloInstruction *saved(Remat *r, HloInstruction *i) {
    if (is_offloaded(r, i)) return r->trigger ? guarded(r, fetched(r, i)) : fetched(r, i);
    if (hlo_is(i, HLO_OP_CONSTANT) || hlo_is(i, HLO_OP_IOTA) || !hlo_shape_is_array(i->shape)) return i;
    return guarded(r, i);
}

// The copy of an instruction whose operands have copies.
static HloInstruction *copied(Remat *r, HloInstruction *i) {
    if (is_saved(r, i)) return saved(r, i);
    HloInstruction **operands = HLO_ARENA_NEW(r->scratch, HloInstruction *, i->operand_count);
    for (int32_t k = 0; k < i->operand_count; k++) operands[k] = hlo_transform_lookup(&r->copies, i->operands[k]);
    return insert(r, hlo_instruction_clone(r->b->computation, i, i->shape, operands, i->operand_count));
}

// Copies what `wanted` is computed from, operands first.
static HloInstruction *again(Remat *r, HloInstruction *wanted) {
    HloInstructionVector stack = {0};
    hlo_vector_push(r->scratch, &stack, wanted);
    while (stack.count > 0) {
        HloInstruction *i = stack.items[stack.count - 1];
        int64_t before = stack.count;
        for (int32_t k = 0; k < i->operand_count && !is_saved(r, i) && !hlo_transform_lookup(&r->copies, i); k++)
            if (!hlo_transform_lookup(&r->copies, i->operands[k])) hlo_vector_push(r->scratch, &stack, i->operands[k]);
        if (stack.count > before) continue;
        stack.count--;
        if (!hlo_transform_lookup(&r->copies, i)) hlo_transform_store(r->scratch, &r->copies, i, copied(r, i));
    }
    return hlo_transform_lookup(&r->copies, wanted);
}

// Makes an instruction of the second part use copies.
static void use_copies(Remat *r, HloInstruction *i) {
    r->position = i;
    for (int32_t k = 0; k < i->operand_count; k++) {
        HloInstruction *operand = i->operands[k];
        if (hlo_transform_lookup(&r->first, operand) && (!is_saved(r, operand) || is_offloaded(r, operand)))
            hlo_instruction_set_operand(i, k, again(r, operand));
    }
}

void hlo_transform_rematerialise(HloBuilder *b, HloArena *scratch, const HloGradientOptions *options,
                                 const HloInstruction *last) {
    if (options->remat == HLO_REMAT_SAVE_EVERYTHING || !last) return;
    Remat r = {.b = b, .scratch = scratch, .policy = options->remat};
    HloInstruction *i = b->computation->first;
    for (; i && i->id <= last->id; i = i->next) hlo_transform_store(scratch, &r.first, i, i);
    for (; i; i = i->next) use_copies(&r, i);
}

void hlo_remat_keeping(HloBuilder *b, HloArena *scratch, const HloIntMap *kept, HloInstruction *const *first,
                       int64_t count) {
    Remat r = {.b = b, .scratch = scratch, .policy = HLO_REMAT_SAVE_NOTHING, .kept = kept};
    HloInstruction *i = b->computation->first;
    for (int64_t k = 0; k < count; k++) hlo_transform_store(scratch, &r.first, first[k], first[k]);
    for (; i && hlo_int_map_find(&r.first, (uint64_t)i->id); i = i->next) continue;
    HloIntMap waits = {0};  // ids of what is computed from the first part
    HloInstruction *latest = NULL;
    for (; i; i = i->next) {
        bool is_late = false;
        r.trigger = latest;
        for (int32_t k = 0; k < i->operand_count; k++) {
            const bool second = hlo_int_map_find(&waits, (uint64_t)i->operands[k]->id);
            is_late |=
                second || (hlo_transform_lookup(&r.first, i->operands[k]) && !hlo_remat_is_given(i->operands[k]));
            if (second && hlo_shape_is_array(i->operands[k]->shape)) r.trigger = i->operands[k];
        }
        use_copies(&r, i);
        if (!is_late) continue;
        hlo_int_map_set(scratch, &waits, (uint64_t)i->id, 1);
        if (hlo_shape_is_array(i->shape)) latest = i;
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Loops and branches

// What is known of a value of the forward part.
enum {
    IS_AGAIN = 1,  // it can be computed again from other values that the backward part has
    IS_FREE = 2,   // it is a part of a loop's invariants, at a position that is known: it costs nothing to have
    IS_NEEDED = 4,
};

// True if all operands have these flags.
static bool operands_are(const HloIntMap *flags, const HloInstruction *i, int64_t wanted) {
    for (int32_t k = 0; k < i->operand_count; k++) {
        const int64_t *known = hlo_int_map_find(flags, (uint64_t)i->operands[k]->id);
        if (!known || (*known & wanted) != wanted) return false;
    }
    return true;
}

// Ops that only choose elements, and arithmetic on a position.
static bool is_indexing(const HloInstruction *i) {
    if (hlo_is(i, HLO_OP_DYNAMIC_SLICE) || hlo_is(i, HLO_OP_SLICE) || hlo_is(i, HLO_OP_RESHAPE)) return true;
    return hlo_op_is(i->opcode, HLO_OP_IS_ELEMENTWISE) && hlo_shape_is_array(i->shape) && i->shape->rank == 0 &&
           !hlo_transform_is_continuous(i->shape->type);
}

static bool is_position_or_invariant(const HloRematSplit *s, const HloInstruction *i) {
    const int64_t leaf = s->repeats ? hlo_transform_parameter_leaf(s->parameter, i) : -1;
    return leaf >= 0 &&
           (s->is_invariant[leaf] || (i->shape->rank == 0 && !hlo_transform_is_continuous(i->shape->type)));
}

static bool communicates(const HloInstruction *i) {
    bool found = hlo_op_is(i->opcode, HLO_OP_IS_COLLECTIVE);
    for (int32_t k = 0; k < i->called_count && !found; k++) found = hlo_computation_has_effects(i->called[k]);
    return found;
}

// Whether the policy computes `i` again. A loop inside is run again only if nothing of it is to be saved.
static bool is_repeated(const HloRematSplit *s, const HloInstruction *i) {
    if (s->policy == HLO_REMAT_SAVE_EVERYTHING || saves(s->policy, i)) return hlo_is(i, HLO_OP_COPY) && has_name(i);
    if ((hlo_is(i, HLO_OP_WHILE) || hlo_is(i, HLO_OP_CONDITIONAL)) && s->policy != HLO_REMAT_SAVE_NOTHING) return false;
    return !hlo_instruction_has_side_effect(i) && !hlo_instruction_is_nondeterministic(i) && !communicates(i);
}

// An operand that is no array is never stored, so it must be computed again too.
static bool operands_can_be_stored(const HloIntMap *flags, const HloInstruction *i) {
    for (int32_t k = 0; k < i->operand_count; k++) {
        const int64_t *known = hlo_int_map_find(flags, (uint64_t)i->operands[k]->id);
        if (!hlo_shape_is_array(i->operands[k]->shape) && !(known && *known & IS_AGAIN)) return false;
    }
    return true;
}

static int64_t flags_of(const HloRematSplit *s, const HloIntMap *flags, const HloInstruction *i) {
    if (hlo_is(i, HLO_OP_PARAMETER) || hlo_transform_parameter_leaf(s->parameter, i) >= 0)
        return is_position_or_invariant(s, i) ? IS_FREE : 0;
    if (hlo_is(i, HLO_OP_CONSTANT) || hlo_is(i, HLO_OP_IOTA)) return IS_FREE | IS_AGAIN;
    const bool indexing = s->repeats && is_indexing(i);
    if (indexing && operands_are(flags, i, IS_FREE)) return IS_FREE | IS_AGAIN;
    const bool again = hlo_is(i, HLO_OP_BROADCAST) || (s->repeats && hlo_is(i, HLO_OP_RESHAPE)) || is_repeated(s, i);
    return again && operands_can_be_stored(flags, i) ? IS_AGAIN : 0;
}

void hlo_remat_split(HloArena *scratch, const HloRematSplit *split, HloInstructionVector *values,
                     HloInstructionVector *again) {
    const HloComputation *computation = split->parameter->parent;
    HloInstructionVector stored = {0};
    HloIntMap flags = {0};
    for (const HloInstruction *i = computation->first; i; i = i->next)
        hlo_int_map_set(scratch, &flags, (uint64_t)i->id, flags_of(split, &flags, i));
    for (int64_t k = 0; k < values->count; k++) *hlo_int_map_find(&flags, (uint64_t)values->items[k]->id) |= IS_NEEDED;
    for (HloInstruction *i = computation->last; i; i = i->previous) {
        const int64_t own = *hlo_int_map_find(&flags, (uint64_t)i->id);
        if (!(own & IS_NEEDED)) continue;
        hlo_vector_push(scratch, own & IS_AGAIN ? again : &stored, i);
        for (int32_t k = 0; k < i->operand_count && own & IS_AGAIN; k++)
            *hlo_int_map_find(&flags, (uint64_t)i->operands[k]->id) |= IS_NEEDED;
    }
    for (int64_t a = 0, b = again->count - 1; a < b; a++, b--) {
        HloInstruction *first = again->items[a];
        again->items[a] = again->items[b];
        again->items[b] = first;
    }
    *values = stored;
}
