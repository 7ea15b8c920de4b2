// SPDX-License-Identifier: Apache-2.0
// Forward mode: the walk that appends values and tangents, and what it must know beforehand.
#include "hlo/transform/internal.h"
#include "hlo/transform/structure.h"

#include <assert.h>

static HloJvpRule *const RULES[] = {
#define HLO_OP(name, text, arity, flags, family, kinds, shape, eval, partition, cost, jvp, transpose, batching) \
    [HLO_OP_##name] = hlo_jvp_##jvp,
#include "hlo/ops.def"
#undef HLO_OP
};

HloJvpRule *hlo_jvp_rule(HloOpcode opcode) {
    return RULES[opcode];
}

HloInstruction *hlo_jvp_primal_of(const HloJvp *j, const HloInstruction *old) {
    return hlo_transform_lookup(&j->primals, old);
}

HloInstruction *hlo_jvp_operand(const HloJvp *j, int64_t index) {
    return hlo_jvp_primal_of(j, j->old->operands[index]);
}

static HloInstruction *clone(HloJvp *j, HloInstruction *const *operands, int64_t count, const HloShape *shape) {
    if (j->b->status) return NULL;
    for (int64_t i = 0; i < count; i++) {
        if (!operands[i]) {
            hlo_jvp_fail(j, HLO_INTERNAL, "%s has no operand %lld", j->old->name, (long long)i);
            return NULL;
        }
    }
    return hlo_instruction_clone(j->b->computation, j->old, shape, operands, count);
}

// The element that a get-tuple-element takes of a tuple that the program makes, as arguments of branches are; NULL for
// anything else, and where the program says something about the element.
static HloInstruction *element_of_tuple(const HloInstruction *i, HloInstruction *const *operands) {
    const bool known = hlo_is(i, HLO_OP_GET_TUPLE_ELEMENT) && operands[0] && hlo_is(operands[0], HLO_OP_TUPLE);
    if (!known || i->sharding || i->frontend_attributes.count) return NULL;
    return operands[0]->operands[HLO_ATTRIBUTES(i, TupleIndex)->index];
}

HloInstruction *hlo_jvp_result(HloJvp *j) {
    if (j->result) return j->result;
    HloInstruction **operands = HLO_ARENA_NEW(j->scratch, HloInstruction *, j->old->operand_count);
    for (int32_t i = 0; i < j->old->operand_count; i++) operands[i] = hlo_jvp_operand(j, i);
    j->result = element_of_tuple(j->old, operands);
    if (!j->result) j->result = clone(j, operands, j->old->operand_count, j->old->shape);
    return j->result;
}

HloInstruction *hlo_jvp_apply(HloJvp *j, HloInstruction *const *operands, int64_t count) {
    return clone(j, operands, count, j->old->shape);
}

HloInstruction **hlo_jvp_tangents_of(const HloJvp *j, const HloInstruction *old) {
    return hlo_transform_lookup(&j->tangents, old);
}

HloInstruction **hlo_jvp_tangents(const HloJvp *j, int64_t index) {
    return hlo_jvp_tangents_of(j, j->old->operands[index]);
}

HloInstruction *hlo_jvp_tangent(const HloJvp *j, int64_t index) {
    HloInstruction **tangents = hlo_jvp_tangents(j, index);
    return tangents ? tangents[0] : NULL;
}

HloInstruction *hlo_jvp_tangent_or_zeros(HloJvp *j, int64_t index) {
    HloInstruction *tangent = hlo_jvp_tangent(j, index);
    return tangent ? tangent : hlo_transform_zeros(j->b, j->old->operands[index]->shape);
}

void hlo_jvp_fail(HloJvp *j, HloCode code, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    hlo_transform_fail(j->b, j->scratch, j->old, code, format, arguments);
    va_end(arguments);
}

void hlo_jvp_bind(HloJvp *j, const HloInstruction *parameter, HloInstruction *value, HloInstruction **tangents) {
    bool any = false;
    for (int64_t k = 0; tangents && k < hlo_shape_leaf_count(parameter->shape); k++) any |= tangents[k] != NULL;
    hlo_transform_store(j->scratch, &j->primals, parameter, value);
    hlo_transform_store(j->scratch, &j->tangents, parameter, any ? tangents : NULL);
}

HloInstruction *hlo_jvp_seed(HloJvp *j, const HloShape *shape) {
    HloInstruction *seed = hlo_build_custom_call(j->b, "tangent", NULL, 0, shape);
    if (seed) hlo_vector_push(j->scratch, &j->seeds, seed->id);
    return seed;
}

void hlo_jvp_placeholder(HloJvp *j, const HloLinear *linear, HloInstruction *const *operands,
                         const HloShape *const *shapes, int64_t count, HloInstruction **out) {
    const HloShape *shape = hlo_shape_tuple(j->scratch, shapes, count);
    HloInstruction *call =
        hlo_build_custom_call(j->b, "linear", operands, linear->residual_count + linear->tangent_count, shape);
    if (!call) return;
    hlo_transform_store(j->scratch, &j->linears, call, hlo_arena_copy(j->scratch, linear, sizeof *linear));
    for (int64_t i = 0; i < count; i++) out[i] = hlo_build_get(j->b, call, i);
}

// ---------------------------------------------------------------------------------------------------------------------
// Activity

static bool stops(const HloInstruction *i) {
    return hlo_jvp_rule(i->opcode) == hlo_jvp_zero || hlo_instruction_frontend_attribute(i, "stop_gradient");
}

static void find_needed(HloJvp *j, const HloComputation *computation, const bool *needed);

bool hlo_jvp_is_inlined(const HloJvp *j, const HloInstruction *i) {
    for (int64_t k = 0; k < j->rule_count; k++)
        if (hlo_is(i, HLO_OP_CALL) && j->rules[k].computation == i->called[0]) return false;
    return hlo_is(i, HLO_OP_CALL) && !hlo_transform_is_named(i->called[0]);
}

// Marks which leaves of the operands matter to a tangent of the needed leaves of `i`.
static void need_operands(HloJvp *j, const HloInstruction *i, const bool *needed) {
    bool any = false;
    int64_t leaves = hlo_shape_leaf_count(i->shape), first = 0;
    for (int64_t k = 0; k < leaves; k++)
        any |= needed[k] && hlo_transform_is_continuous(hlo_shape_leaf(i->shape, k)->type);
    if ((!any && !hlo_jvp_sends(j, i)) || stops(i)) return;
    const bool is_inlined = hlo_jvp_is_inlined(j, i);
    if (is_inlined) find_needed(j, i->called[0], needed);
    for (int32_t k = 0; k < i->operand_count; k++) {
        const HloInstruction *operand = i->operands[k];
        int64_t count = hlo_shape_leaf_count(operand->shape), from = 0;
        bool *of = hlo_transform_lookup(&j->needed, operand);
        if (hlo_is(i, HLO_OP_GET_TUPLE_ELEMENT)) {
            from = hlo_shape_first_leaf(operand->shape, HLO_ATTRIBUTES(i, TupleIndex)->index);
            for (int64_t l = 0; l < leaves; l++) of[from + l] |= needed[l];
        } else if (hlo_is(i, HLO_OP_TUPLE)) {
            for (int64_t l = 0; l < count; l++) of[l] |= needed[first + l];
            first += count;
        } else {
            const bool *inside =
                is_inlined ? hlo_transform_lookup(&j->needed, i->called[0]->parameters.items[k]) : NULL;
            for (int64_t l = 0; l < count; l++) of[l] |= !inside || inside[l];
        }
    }
}

// Looks through a function once for the same leaves: in functions that call each other, each would be looked through as
// often as others are above it.
static void find_needed(HloJvp *j, const HloComputation *computation, const bool *needed) {
    const int64_t leaves = hlo_shape_leaf_count(computation->root->shape);
    bool *asked = HLO_ARENA_NEW(j->scratch, bool, leaves + 1);
    for (int64_t k = 0; k < leaves; k++) asked[k] = !needed || needed[k];
    const int64_t *before = hlo_int_map_find(&j->asked, (uint64_t)computation->id);
    if (before && !memcmp((const bool *)(intptr_t)*before, asked, (size_t)leaves * sizeof *asked)) return;
    hlo_int_map_set(j->scratch, &j->asked, (uint64_t)computation->id, (int64_t)(intptr_t)asked);
    for (const HloInstruction *i = computation->first; i; i = i->next)
        hlo_transform_store(j->scratch, &j->needed, i, HLO_ARENA_NEW(j->scratch, bool, hlo_shape_leaf_count(i->shape)));
    bool *root = hlo_transform_lookup(&j->needed, computation->root);
    memcpy(root, asked, (size_t)leaves * sizeof *root);
    for (const HloInstruction *i = computation->last; i; i = i->previous)
        need_operands(j, i, hlo_transform_lookup(&j->needed, i));
}

const bool *hlo_jvp_needed(const HloJvp *j) {
    return hlo_transform_lookup(&j->needed, j->old);
}

void hlo_jvp_need(HloJvp *j, const HloComputation *computation, const bool *needed, bool *into) {
    const HloInstruction *parameter = computation->parameters.items[0];
    find_needed(j, computation, needed);
    memcpy(into, hlo_transform_lookup(&j->needed, parameter),
           (size_t)hlo_shape_leaf_count(parameter->shape) * sizeof *into);
}

static bool any_of(const bool *flags, int64_t count) {
    for (int64_t i = 0; flags && i < count; i++)
        if (flags[i]) return true;
    return false;
}

// The activity of the result of an instruction that runs other computations.
static void called_activity(HloJvp *j, const HloInstruction *i, bool *const *in, bool *out) {
    int64_t leaves = hlo_shape_leaf_count(i->shape);
    if (hlo_is(i, HLO_OP_CALL)) {
        hlo_jvp_activity(j, i->called[0], in, out);
    } else if (hlo_is(i, HLO_OP_WHILE)) {
        for (int64_t k = 0; k < leaves; k++) out[k] = in[0] && in[0][k];
        for (bool changed = true; changed;) {
            bool *next = HLO_ARENA_NEW(j->scratch, bool, leaves);
            hlo_jvp_activity(j, i->called[1], (bool *[]){out}, next);
            changed = false;
            for (int64_t k = 0; k < leaves; k++) {
                changed |= next[k] && !out[k];
                out[k] |= next[k];
            }
        }
    } else {
        for (int32_t k = 0; k < i->called_count; k++) {
            bool *one = HLO_ARENA_NEW(j->scratch, bool, leaves);
            hlo_jvp_activity(j, i->called[k], &in[k + 1], one);
            for (int64_t l = 0; l < leaves; l++) out[l] |= one[l];
        }
    }
}

static void instruction_activity(HloJvp *j, const HloInstruction *i, bool *const *in, bool *out) {
    int64_t leaves = hlo_shape_leaf_count(i->shape), first = 0;
    bool any = false;
    if (stops(i)) return;
    if (hlo_is(i, HLO_OP_CALL) || hlo_is(i, HLO_OP_WHILE) || hlo_is(i, HLO_OP_CONDITIONAL)) {
        called_activity(j, i, in, out);
        return;
    }
    for (int32_t k = 0; k < i->operand_count; k++) {
        int64_t count = hlo_shape_leaf_count(i->operands[k]->shape);
        any |= any_of(in[k], count);
        for (int64_t l = 0; hlo_is(i, HLO_OP_TUPLE) && l < count; l++) out[first + l] = in[k] && in[k][l];
        first += count;
    }
    if (hlo_is(i, HLO_OP_TUPLE)) return;
    if (hlo_is(i, HLO_OP_GET_TUPLE_ELEMENT))
        first = hlo_shape_first_leaf(i->operands[0]->shape, HLO_ATTRIBUTES(i, TupleIndex)->index);
    for (int64_t k = 0; k < leaves; k++) {
        bool active = hlo_is(i, HLO_OP_GET_TUPLE_ELEMENT) ? in[0] && in[0][first + k] : any;
        out[k] = active && hlo_transform_is_continuous(hlo_shape_leaf(i->shape, k)->type);
    }
}

// A result of hlo_jvp_activity(): `in` has the leaves of all parameters.
typedef struct Activity {
    const struct Activity *next;
    bool *in, *out;
    int64_t in_count, out_count;
} Activity;

static Activity *new_activity(HloJvp *j, const HloComputation *computation, bool *const *in) {
    Activity *activity = HLO_ARENA_NEW(j->scratch, Activity, 1);
    for (int64_t i = 0; i < hlo_parameter_count(computation); i++)
        activity->in_count += hlo_shape_leaf_count(computation->parameters.items[i]->shape);
    activity->out_count = hlo_shape_leaf_count(computation->root->shape);
    activity->in = HLO_ARENA_NEW(j->scratch, bool, activity->in_count + 1);
    activity->out = HLO_ARENA_NEW(j->scratch, bool, activity->out_count + 1);
    for (int64_t i = 0, next = 0; i < hlo_parameter_count(computation); i++) {
        const int64_t count = hlo_shape_leaf_count(computation->parameters.items[i]->shape);
        if (in[i]) memcpy(activity->in + next, in[i], (size_t)count * sizeof **in);
        next += count;
    }
    return activity;
}

static void find_activity(HloJvp *j, const HloComputation *computation, bool *const *in, bool *out) {
    HloIntMap active = {0};
    for (const HloInstruction *i = computation->first; i; i = i->next) {
        bool *flags = HLO_ARENA_NEW(j->scratch, bool, hlo_shape_leaf_count(i->shape) + 1);
        if (hlo_is(i, HLO_OP_PARAMETER)) {
            bool *given = in[hlo_parameter_number(i)];
            if (given) memcpy(flags, given, (size_t)hlo_shape_leaf_count(i->shape) * sizeof *flags);
        } else {
            bool **operands = HLO_ARENA_NEW(j->scratch, bool *, i->operand_count + 1);
            for (int32_t k = 0; k < i->operand_count; k++) operands[k] = hlo_transform_lookup(&active, i->operands[k]);
            instruction_activity(j, i, operands, flags);
        }
        hlo_transform_store(j->scratch, &active, i, flags);
    }
    memcpy(out, hlo_transform_lookup(&active, computation->root),
           (size_t)hlo_shape_leaf_count(computation->root->shape) * sizeof *out);
}

// Remembers what it finds: each of the loops and branches around a computation asks for it.
void hlo_jvp_activity(HloJvp *j, const HloComputation *computation, bool *const *in, bool *out) {
    HloIntMap *known = &j->memory->activities;
    const int64_t *found = hlo_int_map_find(known, (uint64_t)computation->id);
    Activity *asked = new_activity(j, computation, in);
    const Activity *first = found ? (const Activity *)(intptr_t)*found : NULL, *a = first;
    while (a && memcmp(a->in, asked->in, (size_t)a->in_count * sizeof *a->in) != 0) a = a->next;
    if (!a) {
        find_activity(j, computation, in, asked->out);
        asked->next = first;
        hlo_int_map_set(j->scratch, known, (uint64_t)computation->id, (int64_t)(intptr_t)asked);
        a = asked;
    }
    memcpy(out, a->out, (size_t)a->out_count * sizeof *out);
}

// ---------------------------------------------------------------------------------------------------------------------
// The walk

static const HloSharding *leaf_sharding(const HloInstruction *i) {
    return hlo_shape_is_tuple(i->shape) ? NULL : i->sharding;
}

// A call that sends is differentiated for what it sends alone too.
static bool has_tangent(HloJvp *j, const HloInstruction *i) {
    const bool is_needed = any_of(hlo_transform_lookup(&j->needed, i), hlo_shape_leaf_count(i->shape));
    if (stops(i) || (!is_needed && !(hlo_is(i, HLO_OP_CALL) && hlo_jvp_sends(j, i)))) return false;
    for (int32_t k = 0; k < i->operand_count; k++)
        if (hlo_transform_lookup(&j->tangents, i->operands[k])) return true;
    return false;
}

// Whether a call computes an operand for nothing, as JAX's calls of isinf with a tangent do. Inlined, it needs none.
// Functions that call others may be called many times in all, and are not inlined for that.
static bool ignores_operand(const HloJvp *j, const HloInstruction *i) {
    if (!hlo_jvp_is_inlined(j, i)) return false;
    const HloComputation *called = i->called[0];
    HloIntMap used = {0};
    bool any = false;
    for (const HloInstruction *k = called->last; k; k = k->previous) {
        if (hlo_is(k, HLO_OP_CALL) || hlo_instruction_has_side_effect(k)) return false;
        bool is_used = k == called->root;
        for (int64_t u = 0; u < k->users.count && !is_used; u++)
            is_used = hlo_transform_lookup(&used, k->users.items[u]) != NULL;
        if (is_used) hlo_transform_store(j->scratch, &used, k, k);
        any |= hlo_is(k, HLO_OP_PARAMETER) && !is_used;
    }
    return any;
}

// Differentiates one instruction.
static void step(HloJvp *j, const HloInstruction *i) {
    int64_t leaves = hlo_shape_leaf_count(i->shape);
    HloInstruction **out = HLO_ARENA_NEW(j->scratch, HloInstruction *, leaves + 1);
    bool *needed = hlo_transform_lookup(&j->needed, i), any = false;
    j->old = i;
    j->result = NULL;
    j->b->metadata = i->metadata;
    hlo_jvp_check_transfer(j, needed);
    const int64_t branch = hlo_is(i, HLO_OP_CONDITIONAL) ? hlo_jvp_known_branch(j) : -1;
    if (branch >= 0)
        hlo_jvp_inline(j, i->called[branch], branch + 1, out);
    else if (has_tangent(j, i))
        RULES[i->opcode](j, out);
    else if (ignores_operand(j, i))
        hlo_jvp_inline(j, i->called[0], 0, out);
    HloInstruction *value = hlo_jvp_result(j);
    if (j->b->status) {
        j->b->status = hlo_status_at_instruction(j->b->status, i);
        return;
    }
    for (int64_t k = 0; k < leaves; k++) {
        if (!needed[k] || !hlo_transform_is_continuous(hlo_shape_leaf(i->shape, k)->type)) out[k] = NULL;
        any |= out[k] != NULL;
    }
    if (out[0] && leaf_sharding(i) && !out[0]->sharding) out[0]->sharding = i->sharding;
    hlo_transform_store(j->scratch, &j->primals, i, value);
    hlo_transform_store(j->scratch, &j->tangents, i, any ? out : NULL);
}

void hlo_jvp_walk(HloJvp *j, const HloComputation *computation, const bool *needed, HloInstruction **root,
                  HloInstruction **tangents) {
    int64_t leaves = hlo_shape_leaf_count(computation->root->shape);
    const HloInstruction *caller = j->old;
    const HloMetadata *metadata = j->b->metadata;
    find_needed(j, computation, needed);
    for (const HloInstruction *i = computation->first; i && !j->b->status; i = i->next) {
        if (!hlo_is(i, HLO_OP_PARAMETER)) step(j, i);
    }
    j->old = caller;
    j->b->metadata = metadata;
    if (j->b->status) return;
    *root = hlo_transform_lookup(&j->primals, computation->root);
    HloInstruction **of_root = hlo_transform_lookup(&j->tangents, computation->root);
    for (int64_t k = 0; k < leaves; k++) tangents[k] = of_root ? of_root[k] : NULL;
}

// ---------------------------------------------------------------------------------------------------------------------
// Rules that concern no arithmetic

void hlo_jvp_zero(HloJvp *j, HloInstruction **out) {
    (void)j;
    (void)out;
}

void hlo_jvp_refused(HloJvp *j, HloInstruction **out) {
    (void)out;
    hlo_jvp_fail(j, HLO_UNIMPLEMENTED, "%s: there is no derivative of %s", j->old->name, hlo_op_text(j->old->opcode));
}

// Passes the tangent of the operand on. That of a barrier needs no barrier.
void hlo_jvp_passed(HloJvp *j, HloInstruction **out) {
    HloInstruction **tangents = hlo_jvp_tangents(j, 0);
    for (int64_t k = 0; tangents && k < hlo_shape_leaf_count(j->old->shape); k++) out[k] = tangents[k];
}

void hlo_jvp_tuple(HloJvp *j, HloInstruction **out) {
    for (int32_t i = 0; i < j->old->operand_count; i++) {
        HloInstruction **tangents = hlo_jvp_tangents(j, i);
        int64_t count = hlo_shape_leaf_count(j->old->operands[i]->shape);
        for (int64_t k = 0; k < count; k++) *out++ = tangents ? tangents[k] : NULL;
    }
}

void hlo_jvp_get_tuple_element(HloJvp *j, HloInstruction **out) {
    HloInstruction **tangents = hlo_jvp_tangents(j, 0);
    int64_t first = hlo_shape_first_leaf(j->old->operands[0]->shape, HLO_ATTRIBUTES(j->old, TupleIndex)->index);
    for (int64_t k = 0; tangents && k < hlo_shape_leaf_count(j->old->shape); k++) out[k] = tangents[first + k];
}
