// SPDX-License-Identifier: Apache-2.0
// What the loop over the layers of a training step stacks for the loop of its backward part: computed again there.
//
// Terms:
//   forward    a loop that counts 0, 1, 2 … and writes values of iteration i to position i of stacks.
//   backward   a loop that reads the stacks, all at one position in each iteration.
//   stack      an array [iterations, …] of the forward loop's state, and its value: what an iteration writes.
//   carry      an element of the forward loop's state that one iteration passes on to the next.
//
// A stack is not needed where its value follows, in the backward iteration that reads it, from the position, from what
// the forward loop never changes, from carries and from stacks that stay. Carries are stacked instead; in a stack of
// layers these are the arrays between two layers. The dead state is left to the pass while-loop-simplifier.
#include <assert.h>

#include "hlo/analysis/loop.h"
#include "hlo/pass/loop/stacks.h"
#include "hlo/pass/loop/support.h"
#include "hlo/transform/transform.h"

typedef struct Stack {
    int64_t element, read_element;  // of the forward and of the backward loop's state
    HloInstruction *update;         // [1, …], in the forward body
    HloInstruction *value;          // the same without the first dimension, where it is made of that; else `update`
    HloInstructionVector reads;     // in the backward body
    bool stays;
} Stack;

typedef struct Pair {
    HloArena *scratch;
    HloInstruction *forward, *backward;
    HloCountedLoop counted;   // forward
    HloInstruction *read_at;  // position in the backward body
    HLO_VECTOR(Stack) stacks;
    HloIntMap copies;  // by id of the forward body: what the backward body has for it
    HloIntMap needed;  // ids of the forward body
} Pair;

static HloInstruction *find(const HloIntMap *map, const HloInstruction *i) {
    const int64_t *found = hlo_int_map_find(map, (uint64_t)i->id);
    return found ? (HloInstruction *)(intptr_t)*found : NULL;
}

static void put(const Pair *pair, HloIntMap *map, const HloInstruction *i, const HloInstruction *value) {
    hlo_int_map_set(pair->scratch, map, (uint64_t)i->id, (int64_t)(intptr_t)value);
}

// The number of the element of a loop's state that the instruction of its body reads, or -1.
static int64_t element_of(const HloInstruction *i) {
    const bool reads = hlo_is(i, HLO_OP_GET_TUPLE_ELEMENT) && hlo_is(i->operands[0], HLO_OP_PARAMETER);
    return reads ? HLO_ATTRIBUTES(i, TupleIndex)->index : -1;
}

// ---- finding stacks

// Returns x of select(x < 0, x + n, x), which JAX makes of a position x in n; NULL for anything else.
static const HloInstruction *unwrapped(const HloInstruction *i) {
    const HloInstruction *test = hlo_is(i, HLO_OP_SELECT) ? i->operands[0] : NULL;
    const bool wraps = test && hlo_is(test, HLO_OP_COMPARE) &&
                       HLO_ATTRIBUTES(test, Compare)->direction == HLO_ComparisonDirection_LT &&
                       test->operands[0] == i->operands[2] && hlo_pass_is_all(test->operands[1], 0);
    return wraps ? i->operands[2] : NULL;
}

// Whether a position is the counter, which is not negative.
static bool is_counter(const Pair *pair, const HloInstruction *i) {
    const HloInstruction *position = unwrapped(i);
    return element_of(position ? position : i) == pair->counted.index;
}

// Whether positions begin with `at` and are 0 in all other dimensions.
static bool is_at(HloInstruction *const *positions, int32_t count, const HloInstruction *at) {
    bool same = positions[0] == at;
    for (int32_t d = 1; d < count; d++) same &= hlo_pass_is_all(positions[d], 0);
    return same;
}

// Whether element `index` of the forward loop is a stack; fills in what is written.
static bool finds_write(const Pair *pair, int64_t index, Stack *stack) {
    HloInstruction *write = pair->forward->called[1]->root->operands[index];
    if (!hlo_is(write, HLO_OP_DYNAMIC_UPDATE_SLICE) || write->users.count != 1) return false;
    HloInstruction *old = write->operands[0], *update = write->operands[1];
    const int32_t rank = write->shape->rank;
    if (element_of(old) != index || old->users.count != 1 || rank < 1 || update->shape->dims[0] != 1) return false;
    if (write->shape->dims[0] != pair->counted.trip_count || !is_counter(pair, write->operands[2])) return false;
    if (!is_at(write->operands + 2, rank, write->operands[2])) return false;
    for (int32_t d = 1; d < rank; d++)
        if (update->shape->dims[d] != write->shape->dims[d]) return false;
    stack->element = index;
    stack->update = update;
    const bool adds = hlo_pass_is_view(update) && update->operands[0]->shape->rank == rank - 1;
    stack->value = adds ? update->operands[0] : update;
    return true;
}

// Whether the backward loop only reads its element `index`, one position an iteration; fills in the reads.
static bool finds_reads(Pair *pair, int64_t index, Stack *stack) {
    const HloInstruction *parameter = hlo_pass_loop_parameter(pair->backward, 1);
    if (!hlo_loop_element_is_invariant(pair->backward, index)) return false;
    stack->read_element = index;
    for (int64_t u = 0; u < parameter->users.count; u++) {
        const HloInstruction *element = parameter->users.items[u];
        if (element_of(element) != index) continue;
        for (int64_t k = 0; k < element->users.count; k++) {
            HloInstruction *read = element->users.items[k];
            if (hlo_instruction_is_root(read)) continue;
            if (!hlo_is(read, HLO_OP_DYNAMIC_SLICE) || read->operands[0] != element) return false;
            if (!hlo_shape_equal(read->shape, stack->update->shape, HLO_COMPARE_DIMS_ONLY)) return false;
            if (!pair->read_at) pair->read_at = read->operands[1];
            if (!is_at(read->operands + 1, read->operand_count - 1, pair->read_at)) return false;
            hlo_vector_push(pair->scratch, &stack->reads, read);
        }
    }
    return stack->reads.count > 0;
}

// Whether nothing but the backward loop's initial state reads element `index` of the forward loop's result.
static bool is_read_once(const Pair *pair, int64_t index) {
    int64_t uses = 0;
    for (int64_t u = 0; u < pair->forward->users.count; u++) {
        const HloInstruction *user = pair->forward->users.items[u];
        if (!hlo_is(user, HLO_OP_GET_TUPLE_ELEMENT)) return false;
        if (HLO_ATTRIBUTES(user, TupleIndex)->index == index) uses += user->users.count;
    }
    return uses == 1;
}

static bool finds_stacks(Pair *pair) {
    const HloInstruction *initial = pair->backward->operands[0];
    if (!hlo_is(initial, HLO_OP_TUPLE)) return false;
    for (int32_t k = 0; k < initial->operand_count; k++) {
        const HloInstruction *from = initial->operands[k];
        Stack stack = {0};
        if (!hlo_is(from, HLO_OP_GET_TUPLE_ELEMENT) || from->operands[0] != pair->forward) continue;
        const int64_t index = HLO_ATTRIBUTES(from, TupleIndex)->index;
        if (!finds_write(pair, index, &stack) || !finds_reads(pair, k, &stack)) continue;
        stack.stays = !is_read_once(pair, index);
        hlo_vector_push(pair->scratch, &pair->stacks, stack);
    }
    return pair->stacks.count > 0;
}

// ---- where the backward loop reads

typedef struct Bounds {
    int64_t low, high;
} Bounds;

static bool find_bounds(const HloInstruction *i, const HloCountedLoop *counted, int depth, Bounds *bounds);

static bool bounds_of_op(const HloInstruction *i, const HloCountedLoop *counted, int depth, Bounds *bounds) {
    Bounds b;
    if (depth == 0) return false;
    const HloInstruction *position = unwrapped(i);
    if (position) return find_bounds(position, counted, depth - 1, bounds) && bounds->low >= 0;
    switch (i->opcode) {
        case HLO_OP_CONVERT:
        case HLO_OP_RESHAPE:
        case HLO_OP_COPY: return find_bounds(i->operands[0], counted, depth - 1, bounds);
        case HLO_OP_ADD:
        case HLO_OP_SUBTRACT:
            if (!find_bounds(i->operands[0], counted, depth - 1, bounds)) return false;
            if (!find_bounds(i->operands[1], counted, depth - 1, &b)) return false;
            if (hlo_is(i, HLO_OP_SUBTRACT)) b = (Bounds){-b.high, -b.low};
            *bounds = (Bounds){bounds->low + b.low, bounds->high + b.high};
            return true;
        default: return false;
    }
}

// Bounds of an integer in the backward body: what JAX makes of the counter of a loop that goes up or down. False where
// nothing is known of it, and for numbers that might wrap.
static bool find_bounds(const HloInstruction *i, const HloCountedLoop *counted, int depth, Bounds *bounds) {
    const HloType type = i->shape->type;
    if (!hlo_shape_is_array(i->shape) || !hlo_type_is_integer(type) || hlo_type_bytes(type) < 4) return false;
    if (hlo_pass_integer_value(i, &bounds->low)) {
        bounds->high = bounds->low;
    } else if (element_of(i) == counted->index) {
        const int64_t last = counted->start + (counted->trip_count - 1) * counted->step;
        *bounds = counted->step > 0 ? (Bounds){counted->start, last} : (Bounds){last, counted->start};
    } else if (!bounds_of_op(i, counted, depth, bounds)) {
        return false;
    }
    return bounds->low >= (type == HLO_U32 || type == HLO_U64 ? 0 : INT32_MIN) && bounds->high <= INT32_MAX;
}

// Whether every position that the backward loop reads is one that the forward loop wrote. Reads elsewhere are moved to
// the first or last position, where the position itself is another.
static bool reads_what_is_written(const Pair *pair) {
    enum { DEPTH = 8 };
    const int64_t most = INT32_MAX, count = pair->counted.trip_count;
    HloCountedLoop counted;
    Bounds bounds;
    if (!hlo_counted_loop(pair->backward, &counted) || counted.index < 0 || counted.trip_count < 1) return false;
    if (counted.trip_count > most || counted.start > most || counted.start < -most) return false;
    if (counted.step > most || counted.step < -most) return false;
    return find_bounds(pair->read_at, &counted, DEPTH, &bounds) && bounds.low >= 0 && bounds.high < count;
}

// ---- what is computed again

// Whether a stack that stays has this value.
static bool is_stacked(const Pair *pair, const HloInstruction *i) {
    for (int64_t s = 0; s < pair->stacks.count; s++) {
        const Stack *stack = &pair->stacks.items[s];
        if (stack->stays && (i == stack->update || i == stack->value)) return true;
    }
    return false;
}

// What the backward body has without computing it: elements of the state, constants, and stacks that stay.
static bool is_there(const Pair *pair, const HloInstruction *i) {
    return element_of(i) >= 0 || hlo_is(i, HLO_OP_CONSTANT) || is_stacked(pair, i);
}

// Whether an instruction may be computed twice. With `cheap`, also whether it costs little.
static bool may_repeat(const HloInstruction *i, bool cheap) {
    if (hlo_instruction_has_side_effect(i) || hlo_instruction_is_nondeterministic(i)) return false;
    if (hlo_is(i, HLO_OP_PARAMETER) || hlo_op_is(i->opcode, HLO_OP_IS_COLLECTIVE)) return false;
    if (i->control_predecessors.count || i->control_successors.count) return false;
    return !cheap || !hlo_recompute_is_expensive(i);
}

// An element of the forward loop's state that its iterations change, and that is not stacked.
static bool is_carry(const Pair *pair, const HloInstruction *i) {
    const int64_t element = element_of(i);
    return element >= 0 && element != pair->counted.index && !is_stacked(pair, i) &&
           !hlo_loop_element_is_invariant(pair->forward, element);
}

// Whether the backward body can have what it needs of the forward one: only arrays can be stacked.
static bool may_have(const Pair *pair, const HloInstruction *i, bool cheap) {
    if (is_carry(pair, i)) return hlo_shape_is_array(i->shape) && i->shape->is_static;
    return is_there(pair, i) || may_repeat(i, cheap);
}

// Marks what has to be computed for the values of all stacks that do not stay. False if something must not be; the
// first stack that needs it then stays.
static bool mark_needed(Pair *pair, bool cheap) {
    for (int64_t s = 0; s < pair->stacks.count; s++) {
        Stack *stack = &pair->stacks.items[s];
        HloIntMap needed = {0};
        if (stack->stays) continue;
        put(pair, &needed, stack->value, stack->value);
        for (const HloInstruction *i = stack->value; i; i = i->previous) {
            if (!find(&needed, i)) continue;
            if (!may_have(pair, i, cheap)) {
                stack->stays = true;
                return false;
            }
            if (is_there(pair, i)) continue;
            for (int32_t k = 0; k < i->operand_count; k++) put(pair, &needed, i->operands[k], i->operands[k]);
        }
        for (const HloInstruction *i = stack->value; i; i = i->previous)
            if (find(&needed, i)) put(pair, &pair->needed, i, i);
    }
    return true;
}

// The bytes that stacks give up less those of carries that are stacked instead.
static int64_t bytes_saved(const Pair *pair) {
    const HloComputation *body = pair->forward->called[1];
    int64_t bytes = 0;
    for (int64_t s = 0; s < pair->stacks.count; s++)
        if (!pair->stacks.items[s].stays)
            bytes += pair->counted.trip_count * hlo_shape_bytes(pair->stacks.items[s].update->shape);
    for (const HloInstruction *i = body->first; i; i = i->next)
        if (find(&pair->needed, i) && is_carry(pair, i)) bytes -= pair->counted.trip_count * hlo_shape_bytes(i->shape);
    return bytes;
}

// ---- changing the loops

// Appends elements to a loop's state, which its body passes on. Returns what reads them in the body.
static HloInstruction **widen(Pair *pair, HloInstruction *loop, const HloInstructionVector *more) {
    HloInstruction *root = loop->called[1]->root, *parameter = hlo_pass_loop_parameter(loop, 1);
    const int64_t old = loop->shape->element_count, total = old + more->count;
    const HloShape **shapes = HLO_ARENA_NEW(loop->parent->module->arena, const HloShape *, total);
    HloInstruction **initial = HLO_ARENA_NEW(pair->scratch, HloInstruction *, total);
    HloInstruction **read = HLO_ARENA_NEW(pair->scratch, HloInstruction *, more->count + 1);
    for (int64_t i = 0; i < total; i++) {
        initial[i] = i < old ? hlo_pass_loop_initial(loop, i) : more->items[i - old];
        shapes[i] = initial[i]->shape;
    }
    hlo_pass_loop_set_state(loop, hlo_shape_tuple(loop->parent->module->arena, shapes, total),
                            hlo_pass_tuple(loop, initial, total));
    for (int64_t i = 0; i < more->count; i++) {
        read[i] = hlo_pass_get(root, parameter, old + i);
        hlo_instruction_add_operand(root, read[i]);
    }
    return read;
}

// The dimensions of a value with `first` before them.
static HloInts stacked_dims(const HloInstruction *value, int64_t first) {
    int64_t *dims = hlo_pass_ints(value, value->shape->rank + 1);
    dims[0] = first;
    for (int32_t d = 0; d < value->shape->rank; d++) dims[d + 1] = value->shape->dims[d];
    return (HloInts){dims, value->shape->rank + 1};
}

// An operation at position `at` of a stack: with an `update` it is written, else [1, …] is read.
static HloInstruction *at_position(Pair *pair, HloInstruction *stack, HloInstruction *update, HloInstruction *at) {
    const int32_t rank = stack->shape->rank, first = update ? 2 : 1;
    HloInstruction **operands = HLO_ARENA_NEW(pair->scratch, HloInstruction *, first + rank);
    operands[0] = stack;
    if (update) operands[1] = update;
    operands[first] = at;
    for (int32_t d = 1; d < rank; d++) operands[first + d] = hlo_pass_integer(stack, at->shape->type, 0);
    HloBuildRequest request = {.opcode = update ? HLO_OP_DYNAMIC_UPDATE_SLICE : HLO_OP_DYNAMIC_SLICE,
                               .operands = operands,
                               .operand_count = first + rank};
    int64_t *sizes = hlo_pass_ints(stack, rank);
    for (int32_t d = 0; d < rank; d++) sizes[d] = d ? stack->shape->dims[d] : 1;
    const HloDynamicSliceAttributes attributes = {.sizes = {sizes, rank}};
    if (!update) request.attributes = &attributes;
    return hlo_pass_make(stack, &request);
}

static HloInstruction *reshaped(HloInstruction *x, const HloShape *like) {
    return hlo_same_dims(x->shape, like) ? x : hlo_pass_reshape(x, x, hlo_shape_dims(like));
}

// Stacks carries in the forward loop. Returns the stacks after it.
static HloInstructionVector stack_carries(Pair *pair, const HloInstructionVector *carries) {
    HloInstruction *forward = pair->forward, *root = forward->called[1]->root;
    const int64_t old = forward->shape->element_count;
    HloInstruction *counter = hlo_pass_get(root, hlo_pass_loop_parameter(forward, 1), pair->counted.index);
    HloInstructionVector empty = {0}, stacks = {0};
    for (int64_t i = 0; i < carries->count; i++) {
        const HloInstruction *carry = carries->items[i];
        HloInstruction *zeros =
            hlo_pass_splat(forward, carry->shape->type, stacked_dims(carry, pair->counted.trip_count), 0);
        hlo_instruction_move_before(zeros, forward);
        hlo_vector_push(pair->scratch, &empty, zeros);
    }
    HloInstruction **read = widen(pair, forward, &empty);
    for (int64_t i = 0; i < carries->count; i++) {
        HloInstruction *carry = carries->items[i];
        HloInstruction *update = hlo_pass_reshape(carry, carry, stacked_dims(carry, 1));
        hlo_instruction_set_operand(root, old + i, at_position(pair, read[i], update, counter));
        HloInstruction *stack = hlo_pass_get(forward, forward, old + i);
        hlo_vector_push(pair->scratch, &stacks, stack);
    }
    hlo_computation_sort(forward->called[1]);
    return stacks;
}

// The element of the backward loop's state that never changes from this initial value, or -1.
static int64_t invariant_from(const Pair *pair, const HloInstruction *initial) {
    const HloInstruction *state = pair->backward->operands[0];
    for (int32_t k = 0; k < state->operand_count; k++)
        if (state->operands[k] == initial && hlo_loop_element_is_invariant(pair->backward, k)) return k;
    return -1;
}

// Gives the backward body the carries and invariants of the forward loop that are needed.
static void bring_state(Pair *pair) {
    HloInstructionVector carries = {0}, invariants = {0}, brought = {0};
    for (HloInstruction *i = pair->forward->called[1]->first; i; i = i->next) {
        if (!find(&pair->needed, i) || element_of(i) < 0) continue;
        if (element_of(i) == pair->counted.index)
            put(pair, &pair->copies, i, hlo_pass_convert(pair->read_at, pair->read_at, i->shape->type));
        else if (is_carry(pair, i))
            hlo_vector_push(pair->scratch, &carries, i);
        else if (!is_stacked(pair, i))
            hlo_vector_push(pair->scratch, &invariants, i);
    }
    HloInstructionVector more = stack_carries(pair, &carries);
    for (int64_t i = 0; i < invariants.count; i++) {
        HloInstruction *initial = hlo_pass_loop_initial(pair->forward, element_of(invariants.items[i]));
        const int64_t known = invariant_from(pair, initial);
        if (known >= 0) {
            HloInstruction *read = hlo_pass_get(pair->read_at, hlo_pass_loop_parameter(pair->backward, 1), known);
            put(pair, &pair->copies, invariants.items[i], read);
            continue;
        }
        hlo_vector_push(pair->scratch, &brought, invariants.items[i]);
        hlo_vector_push(pair->scratch, &more, initial);
    }
    HloInstruction **read = widen(pair, pair->backward, &more);
    for (int64_t i = 0; i < carries.count; i++) {
        HloInstruction *value = at_position(pair, read[i], NULL, pair->read_at);
        put(pair, &pair->copies, carries.items[i], reshaped(value, carries.items[i]->shape));
    }
    for (int64_t i = 0; i < brought.count; i++) put(pair, &pair->copies, brought.items[i], read[carries.count + i]);
}

// Values of stacks that stay, as the backward body reads them.
static void bring_stacks(Pair *pair) {
    for (int64_t s = 0; s < pair->stacks.count; s++) {
        const Stack *stack = &pair->stacks.items[s];
        if (!stack->stays) continue;
        put(pair, &pair->copies, stack->update, stack->reads.items[0]);
        if (find(&pair->needed, stack->value))
            put(pair, &pair->copies, stack->value, reshaped(stack->reads.items[0], stack->value->shape));
    }
}

static void compute_again(Pair *pair) {
    HloComputation *body = pair->backward->called[1];
    for (const HloInstruction *i = pair->forward->called[1]->first; i; i = i->next) {
        if (!find(&pair->needed, i) || find(&pair->copies, i)) continue;
        HloInstruction **operands = HLO_ARENA_NEW(pair->scratch, HloInstruction *, i->operand_count + 1);
        for (int32_t k = 0; k < i->operand_count; k++) operands[k] = find(&pair->copies, i->operands[k]);
        put(pair, &pair->copies, i, hlo_instruction_clone(body, i, i->shape, operands, i->operand_count));
    }
    for (int64_t s = 0; s < pair->stacks.count; s++) {
        const Stack *stack = &pair->stacks.items[s];
        if (stack->stays) continue;
        HloInstruction *again = reshaped(find(&pair->copies, stack->value), stack->update->shape);
        for (int64_t r = 0; r < stack->reads.count; r++) hlo_instruction_replace_uses(stack->reads.items[r], again);
    }
    hlo_computation_sort(body);
}

// ---- the pass

static bool recompute_pair(HloArena *scratch, HloInstruction *forward, HloInstruction *backward, bool cheap) {
    Pair pair = {.scratch = scratch, .forward = forward, .backward = backward};
    if (!hlo_pass_is_plain_loop(forward) || !hlo_pass_is_plain_loop(backward)) return false;
    if (!hlo_counted_loop(forward, &pair.counted) || pair.counted.index < 0) return false;
    if (pair.counted.start || pair.counted.step != 1 || !finds_stacks(&pair)) return false;
    if (!reads_what_is_written(&pair)) return false;
    for (int64_t s = 0; s < pair.stacks.count; s++) {
        Stack *stack = &pair.stacks.items[s];
        stack->stays |= element_of(stack->value) >= 0 || (cheap && !may_repeat(stack->value, true));
    }
    while (!mark_needed(&pair, cheap)) pair.needed = (HloIntMap){0};
    if (bytes_saved(&pair) <= 0) return false;
    bring_state(&pair);
    bring_stacks(&pair);
    compute_again(&pair);
    return true;
}

bool hlo_pass_recompute_stacks(HloComputation *computation, bool cheap) {
    assert(computation);
    HloArena *scratch = hlo_arena_scratch_new();
    HloInstructionVector loops = {0};
    bool changed = false;
    for (HloInstruction *i = computation->first; i; i = i->next)
        if (hlo_is(i, HLO_OP_WHILE)) hlo_vector_push(scratch, &loops, i);
    for (int64_t f = 0; f < loops.count; f++)
        for (int64_t b = f + 1; b < loops.count; b++)
            changed |= recompute_pair(scratch, loops.items[f], loops.items[b], cheap);
    if (changed) hlo_computation_sort(computation);
    hlo_arena_free(scratch);
    return changed;
}
