// SPDX-License-Identifier: Apache-2.0
// Loop-invariant code motion: values that a body computes only from invariant elements and constants are computed once,
// before the loop, and passed in as new elements of the state. Cheap ops, ops that produce more data than they read,
// and plain arithmetic on those results are links: an instruction that moves takes along the links that it needs, but
// no link becomes an element itself. So 8-bit weights that a body widens and scales are not stored as floats for the
// whole loop, while a table of sines is computed once, even of complex numbers made of real ones. A second pass moves
// only expensive instructions and operands of products, which read memory anyway: it leaves in the body what can be
// computed faster there than read from memory.
//
// find_invariants() marks in one walk everything that depends only on invariant elements and constants; value_before()
// then copies trees of these to before the loop, each instruction once. Only the roots that something in the body still
// reads become elements of the state, since each takes memory for as long as the loop runs. If a loop never runs, the
// moved instructions are computed nevertheless: therefore nothing with an effect and no collective moves; integer
// division by zero does not trap in HLO and needs no special treatment.
//
//   body (i, w, x):  y = tanh(w);  (i + 1, w, x + y)
//   ->               state (i, w, x, tanh(w)), created before the loop;  body (i, w, x, y):  (i + 1, w, x + y, y)
#include <assert.h>

#include "hlo/analysis/loop.h"
#include "hlo/pass/loop/support.h"

// The known properties of an instruction of the body.
typedef struct Fact {
    HloInstruction *outside;  // the value before the loop of an invariant one (itself until it is copied), or NULL
    bool grown;               // is_grown()
    bool took_long;           // expensive, or computed from an expensive value
    bool inside;              // computed in the body in any case
} Fact;

typedef struct Hoist {
    HloInstruction *loop;
    HloArena *scratch;
    bool dear_only;              // moves only values that took long, and operands of products
    Fact *facts;                 // by instruction id; of the body's instructions only
    int64_t capacity;            // of facts
    HloInstructionVector moved;  // invariant instructions of the body, except elements and links
} Hoist;

// True for ops that are not worth an element of the state by themselves.
static bool is_cheap(const HloInstruction *i) {
    switch (i->opcode) {
        case HLO_OP_CONSTANT:
        case HLO_OP_IOTA:
        case HLO_OP_BROADCAST:
        case HLO_OP_BITCAST:
        case HLO_OP_RESHAPE:
        case HLO_OP_TUPLE:
        case HLO_OP_GET_TUPLE_ELEMENT:
        case HLO_OP_TRANSPOSE:
        case HLO_OP_SLICE:
        case HLO_OP_REVERSE: return true;
        default: return false;
    }
}

// True for ops that take so long (transcendental functions do) that their value is worth memory, whatever the size of
// their operands.
static bool is_dear(const HloInstruction *i) {
    switch (i->opcode) {
        case HLO_OP_POWER:
        case HLO_OP_ATAN2:
        case HLO_OP_CHOLESKY:
        case HLO_OP_TRIANGULAR_SOLVE:
        case HLO_OP_FFT:
        case HLO_OP_REDUCE:
        case HLO_OP_REDUCE_WINDOW:
        case HLO_OP_SORT:
        case HLO_OP_TOPK: return true;
        default:
            return hlo_op_is(i->opcode, HLO_OP_IS_PRODUCT) || hlo_op_info(i->opcode)->family == HLO_FAMILY_Accuracy;
    }
}

// True if the value takes more memory than the values from which it is computed.
static bool makes_more_than_it_reads(const HloInstruction *i) {
    int64_t read = 0;
    for (int64_t k = 0; k < i->operand_count; k++) read += hlo_shape_bytes(i->operands[k]->shape);
    return hlo_shape_bytes(i->shape) > read;
}

// True for pure instructions with invariant operands.
static bool may_hoist(const Hoist *hoist, const HloInstruction *i) {
    if (i->opcode == HLO_OP_PARAMETER || i == hoist->loop->called[1]->root || i->sharding) return false;
    if (!hlo_pass_may_replace(i) || hlo_op_is(i->opcode, HLO_OP_IS_COLLECTIVE)) return false;
    if (hlo_instruction_is_nondeterministic(i)) return false;  // every iteration draws different numbers
    for (int64_t k = 0; k < i->called_count; k++) {
        if (hlo_computation_has_effects(i->called[k])) return false;
    }
    for (int64_t k = 0; k < i->operand_count; k++) {
        if (!hoist->facts[i->operands[k]->id].outside) return false;
    }
    return true;
}

static bool took_long(const Hoist *hoist, const HloInstruction *i) {
    bool longer = is_dear(i);
    for (int64_t k = 0; k < i->operand_count; k++) longer |= hoist->facts[i->operands[k]->id].took_long;
    return longer;
}

// True for a value that is larger than its operands, or plain arithmetic on such values. Large values that cheap ops
// create from nothing do not make the arithmetic of them with other arrays of that size count as grown.
static bool is_grown(const Hoist *hoist, const HloInstruction *i) {
    bool of_grown = false;
    for (int64_t k = 0; k < i->operand_count; k++) of_grown |= hoist->facts[i->operands[k]->id].grown;
    return (of_grown && !took_long(hoist, i)) || (!is_cheap(i) && makes_more_than_it_reads(i));
}

static bool feeds_product(const HloInstruction *i) {
    for (int64_t u = 0; u < i->users.count; u++)
        if (hlo_op_is(i->users.items[u]->opcode, HLO_OP_IS_PRODUCT)) return true;
    return false;
}

static bool is_link(const Hoist *hoist, const HloInstruction *i) {
    const Fact *fact = &hoist->facts[i->id];
    return is_cheap(i) || fact->grown || (hoist->dear_only && !fact->took_long && !feeds_product(i));
}

// Finds the invariant instructions; creates nothing yet except the values that chains need.
static void find_invariants(Hoist *hoist) {
    assert(hoist->loop);
    HloComputation *body = hoist->loop->called[1];
    const HloInstruction *parameter = hlo_pass_loop_parameter(hoist->loop, 1);
    for (HloInstruction *i = body->first; i; i = i->next) {
        bool element = i->opcode == HLO_OP_GET_TUPLE_ELEMENT && i->operands[0] == parameter;
        if (element) {
            int64_t index = HLO_ATTRIBUTES(i, TupleIndex)->index;
            if (hlo_loop_element_is_invariant(hoist->loop, index)) hoist->facts[i->id].outside = i;
        } else if (may_hoist(hoist, i)) {
            hoist->facts[i->id].outside = i;
            hoist->facts[i->id].grown = is_grown(hoist, i);
            hoist->facts[i->id].took_long = took_long(hoist, i);
            if (!is_link(hoist, i)) hlo_vector_push(hoist->scratch, &hoist->moved, i);
        }
    }
}

// True if something that stays in the body reads it.
static bool is_read_inside(const Hoist *hoist, const HloInstruction *i) {
    for (int64_t u = 0; u < i->users.count; u++) {
        if (hoist->facts[i->users.items[u]->id].inside) return true;
    }
    return false;
}

// Finds what the body computes in any case: varying values, and the links that they read.
static void find_inside(Hoist *hoist) {
    for (const HloInstruction *i = hoist->loop->called[1]->last; i; i = i->previous) {
        Fact *fact = &hoist->facts[i->id];
        fact->inside = !fact->outside || (is_link(hoist, i) && is_read_inside(hoist, i));
    }
}

// Copies one instruction to before the loop; its operands already have values there.
static HloInstruction *copy_before(const Hoist *hoist, HloInstruction *i) {
    if (i->opcode == HLO_OP_GET_TUPLE_ELEMENT && i->operands[0]->opcode == HLO_OP_PARAMETER) {
        return hlo_pass_loop_initial(hoist->loop, HLO_ATTRIBUTES(i, TupleIndex)->index);
    }
    HloInstruction **operands = HLO_ARENA_NEW(hoist->scratch, HloInstruction *, i->operand_count);
    for (int64_t k = 0; k < i->operand_count; k++) operands[k] = hoist->facts[i->operands[k]->id].outside;
    HloInstruction *value = hlo_instruction_clone(hoist->loop->parent, i, i->shape, operands, i->operand_count);
    hlo_instruction_move_before(value, hoist->loop);
    return value;
}

// The value of `top` before the loop: copies it and what it needs, once. Uses an explicit stack, since a chain in the
// body may be longer than C's stack is deep. An instruction stays on it until its operands have their values.
static HloInstruction *value_before(Hoist *hoist, HloInstruction *top) {
    assert(hoist->loop && hoist->facts[top->id].outside);
    HloInstructionVector todo = {0};
    hlo_vector_push(hoist->scratch, &todo, top);
    while (todo.count) {
        HloInstruction *i = todo.items[todo.count - 1];
        const int64_t waiting = todo.count;
        for (int64_t k = 0; k < i->operand_count && hoist->facts[i->id].outside == i; k++) {
            HloInstruction *operand = i->operands[k];
            if (hoist->facts[operand->id].outside == operand) hlo_vector_push(hoist->scratch, &todo, operand);
        }
        if (todo.count > waiting) continue;
        todo.count--;
        if (hoist->facts[i->id].outside == i) hoist->facts[i->id].outside = copy_before(hoist, i);
    }
    return hoist->facts[top->id].outside;
}

// Appends `count` values to the loop's state, and reads them in the body instead of computing them.
static void widen(Hoist *hoist, HloInstruction *const *inside, int64_t count) {
    assert(count > 0 && inside);
    HloInstruction *loop = hoist->loop, *root = loop->called[1]->root;
    HloArena *arena = loop->parent->module->arena;
    int64_t old = loop->shape->element_count, total = old + count;
    const HloShape **shapes = HLO_ARENA_NEW(arena, const HloShape *, total);
    HloInstruction **initial = HLO_ARENA_NEW(hoist->scratch, HloInstruction *, total);
    HloInstruction **next = HLO_ARENA_NEW(hoist->scratch, HloInstruction *, total);
    for (int64_t i = 0; i < total; i++) {
        initial[i] = i < old ? hlo_pass_loop_initial(loop, i) : value_before(hoist, inside[i - old]);
        shapes[i] = i < old ? loop->shape->elements[i] : inside[i - old]->shape;
        next[i] = i < old ? root->operands[i] : NULL;
    }
    hlo_pass_loop_set_state(loop, hlo_shape_tuple(arena, shapes, total), hlo_pass_tuple(loop, initial, total));
    HloInstruction *parameter = hlo_pass_loop_parameter(loop, 1);
    for (int64_t i = old; i < total; i++) {
        next[i] = hlo_pass_get(root, parameter, i);
        hlo_instruction_move_after(next[i], parameter);
        hlo_instruction_replace_uses(inside[i - old], next[i]);
    }
    for (int64_t i = 0; i < old; i++) next[i] = root->operands[i];
    hlo_instruction_set_operands(root, next, total);
    hlo_pass_remove_unused(loop->called[1]);
}

// Gives readers of the whole state its old part.
static void keep_old_state(HloInstruction *loop, int64_t old, HloArena *scratch) {
    assert(hlo_is(loop, HLO_OP_WHILE) && old >= 0);
    HloInstructionVector readers = {0};
    for (int64_t u = 0; u < loop->users.count; u++) {
        HloInstruction *user = loop->users.items[u];
        if (user->opcode != HLO_OP_GET_TUPLE_ELEMENT) hlo_vector_push(scratch, &readers, user);
    }
    bool is_root = hlo_instruction_is_root(loop);
    if (readers.count == 0 && !is_root) return;
    HloInstruction **elements = HLO_ARENA_NEW(scratch, HloInstruction *, old);
    HloInstruction *position = loop;
    for (int64_t i = 0; i < old; i++) {
        elements[i] = hlo_pass_get(loop, loop, i);
        hlo_instruction_move_after(elements[i], position);
        position = elements[i];
    }
    HloInstruction *state = hlo_pass_tuple(loop, elements, old);
    hlo_instruction_move_after(state, position);
    for (int64_t i = 0; i < readers.count; i++) hlo_instruction_replace_use(loop, readers.items[i], state);
    if (is_root) hlo_computation_set_root(loop->parent, state);
}

// False, and nothing changed, if nothing that is read inside can move.
static bool hoist_from(Hoist *hoist) {
    HloInstruction *loop = hoist->loop;
    assert(hlo_is(loop, HLO_OP_WHILE) && hoist->scratch);
    hlo_computation_sort(loop->called[1]);
    for (const HloInstruction *i = loop->called[1]->first; i; i = i->next) hoist->facts[i->id] = (Fact){0};
    hoist->moved = (HloInstructionVector){0};
    find_invariants(hoist);
    find_inside(hoist);
    HloInstructionVector inside = {0};
    for (int64_t i = 0; i < hoist->moved.count; i++) {
        if (is_read_inside(hoist, hoist->moved.items[i]))
            hlo_vector_push(hoist->scratch, &inside, hoist->moved.items[i]);
    }
    if (inside.count == 0) return false;
    int64_t old = loop->shape->element_count;
    widen(hoist, inside.items, inside.count);
    keep_old_state(loop, old, hoist->scratch);
    return true;
}

// Instructions that moved out of other loops have ids beyond the previous limit. The array gets twice the size needed,
// so that many loops do not cause many allocations.
static void make_room(Hoist *hoist, int64_t limit) {
    if (limit <= hoist->capacity) return;
    hoist->capacity = 2 * limit;
    hoist->facts = HLO_ARENA_NEW(hoist->scratch, Fact, hoist->capacity);
}

// Inner loops first: instructions that leave them may leave the outer ones too.
static HloStatus hoist_all(HloModule *module, const HloPassEnv *env, bool dear_only, bool *changed) {
    Hoist hoist = {.scratch = env->scratch, .dear_only = dear_only};
    int64_t count;
    HloComputation **order = hlo_module_post_order(module, env->scratch, &count);
    for (int64_t c = 0; c < count; c++) {
        for (HloInstruction *i = order[c]->first, *next; i; i = next) {
            next = i->next;
            if (i->opcode != HLO_OP_WHILE || !hlo_pass_is_plain_loop(i)) continue;
            make_room(&hoist, module->instruction_limit);
            HloArenaMark mark = hlo_arena_mark(env->scratch);
            hoist.loop = i;
            *changed |= hoist_from(&hoist);
            hlo_arena_reset(env->scratch, mark);
        }
    }
    return HLO_SUCCESS;
}

// The state grows at its end, so the element numbers of users stay valid.
HloStatus hlo_pass_while_loop_invariant_code_motion(HloModule *module, const HloPassEnv *env, bool *changed) {
    return hoist_all(module, env, false, changed);
}

HloStatus hlo_pass_while_loop_expensive_invariant_code_motion(HloModule *module, const HloPassEnv *env, bool *changed) {
    return hoist_all(module, env, true, changed);
}
