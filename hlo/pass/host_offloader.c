// SPDX-License-Identifier: Apache-2.0
// Moves whole arrays into host memory if loops write and read them one slice at a time and the slices are annotated
// with host memory: this implements activation offloading. XLA has a pass of this name for TPUs.
//
// JAX annotates offloading per value: a copy into host memory (a layout with S(5)), which a loop writes into a stack by
// dynamic-update-slice, and later a dynamic-slice of that stack followed by a copy back. Taken literally, the stack
// itself stays in device memory, which the user wanted to save. So from each of these dynamic-update-slices the stack
// is followed to all positions that share its buffer: through tuples, loops and barriers, forward to users and back to
// its origin. If all of them can be in host memory, their layouts get its space, the buffer is created there, and the
// two accesses become asynchronous transfers between device and host (dynamic-update-slice-start, dynamic-slice-start).
// If one cannot, because it computes with the stack, leaves the program or is passed to a call, nothing of that stack
// is changed: slower than requested, but correct.
//
// A position is an instruction and a leaf of its shape. Each position is visited once, so the work is linear in the
// positions times their users.
//
//   in a loop:  h = f32[1,8]{1,0:S(5)} copy(x);  stack = dynamic-update-slice(stack, h, i, 0)
//   ->          s = dynamic-update-slice-start(stack, x, i, 0) ..  stack = dynamic-update-slice-done(s)
//               where the stack is created as f32[n,8]{1,0:S(5)} before the loop
#include <assert.h>
#include <string.h>

#include "hlo/pass/support.h"

typedef struct Position {
    HloInstruction *at;
    int64_t leaf;
} Position;

// An edge to rewrite: operand `operand` of `user` is created on the device, and must be in host memory for this use.
typedef struct Edge {
    HloInstruction *user;
    int64_t operand;
} Edge;

typedef HLO_VECTOR(Position) Positions;
typedef HLO_VECTOR(Edge) Edges;

typedef struct Offloader {
    HloModule *module;
    HloArena *scratch;
    HloIntMap spaces;     // of the positions in host memory, by key_of()
    Positions positions;  // these positions, in the order in which they were found
    Edges edges;
} Offloader;

// The positions of one stack, while it is not yet known whether all of them can move.
typedef struct Region {
    Offloader *offloader;
    int64_t space;
    HloIntMap found;
    Positions positions;
    Edges edges;
} Region;

// A key of 40 bits for the instruction and 24 for the leaf.
static uint64_t key_of(Position position) {
    assert(position.leaf >= 0 && position.leaf < (1 << 24)); /* they are stored in one number */
    return (uint64_t)position.at->id << 24 | (uint64_t)position.leaf;
}

// ---- following a stack

// Adds a position; false if it belongs to a stack in another memory space.
static bool reach(Region *region, HloInstruction *at, int64_t leaf) {
    const Position position = {at, leaf};
    const int64_t *taken = hlo_int_map_find(&region->offloader->spaces, key_of(position));
    if (taken) return *taken == region->space;
    if (hlo_int_map_find(&region->found, key_of(position))) return true;
    hlo_int_map_set(region->offloader->scratch, &region->found, key_of(position), region->space);
    hlo_vector_push(region->offloader->scratch, &region->positions, position);
    return true;
}

// True if a value shares its buffer with others, which must be followed; all other ops create a buffer.
static bool shares_buffer(const HloInstruction *at) {
    switch (at->opcode) {
        case HLO_OP_PARAMETER: return at->parent != at->parent->module->entry;
        case HLO_OP_GET_TUPLE_ELEMENT:
        case HLO_OP_TUPLE:
        case HLO_OP_WHILE:
        case HLO_OP_OPTIMIZATION_BARRIER:
        case HLO_OP_DYNAMIC_UPDATE_SLICE:
        case HLO_OP_RESHAPE: return true;
        default: return false;
    }
}

// Adds the position from which operand `operand` of `user` comes; it must be in host memory too.
static bool reach_operand(Region *region, HloInstruction *user, int64_t operand, int64_t leaf) {
    HloInstruction *value = user->operands[operand];
    if (shares_buffer(value)) return reach(region, value, leaf);
    if (!hlo_shape_is_array(value->shape)) return false;  // a call, a branch: their computations are not followed
    const Edge edge = {user, operand};
    if (hlo_shape_memory_space(value->shape) != region->space)
        hlo_vector_push(region->offloader->scratch, &region->edges, edge);
    return true;
}

// The only loop that runs this computation, or NULL: a computation shared by several would have to move for all of
// them.
static HloInstruction *only_loop(const HloComputation *computation) {
    if (computation->callers.count != 1 || !hlo_is(computation->callers.items[0], HLO_OP_WHILE)) return NULL;
    return computation->callers.items[0];
}

// Follows the state of a loop, which is one buffer: before it, in its condition, in its body and after it.
static bool follow_loop(Region *region, HloInstruction *loop, int64_t leaf) {
    for (int32_t c = 0; c < loop->called_count; c++) {
        if (only_loop(loop->called[c]) != loop) return false;
        if (!reach(region, loop->called[c]->parameters.items[0], leaf)) return false;
    }
    HloComputation *body = loop->called[loop->called_count - 1];
    const bool root = shares_buffer(body->root) && reach(region, body->root, leaf);
    return root && reach_operand(region, loop, 0, leaf);
}

// The operand of a tuple that contains one of its leaves; *leaf becomes the leaf of that operand.
static int64_t element_of(const HloInstruction *tuple, int64_t *leaf) {
    int64_t element = 0;
    for (int64_t count; *leaf >= (count = hlo_shape_leaf_count(tuple->operands[element]->shape)); element++)
        *leaf -= count;
    return element;
}

// Follows a position back to the origin of its buffer.
static bool follow_source(Region *region, Position position) {
    HloInstruction *at = position.at;
    int64_t leaf = position.leaf;
    switch (at->opcode) {
        case HLO_OP_PARAMETER: return only_loop(at->parent) && reach(region, only_loop(at->parent), leaf);
        case HLO_OP_WHILE: return follow_loop(region, at, leaf);
        case HLO_OP_TUPLE: {
            const int64_t element = element_of(at, &leaf);
            return reach_operand(region, at, element, leaf);
        }
        case HLO_OP_GET_TUPLE_ELEMENT:
            leaf += hlo_shape_first_leaf(at->operands[0]->shape, HLO_ATTRIBUTES(at, TupleIndex)->index);
            return reach_operand(region, at, 0, leaf);
        default: return reach_operand(region, at, 0, leaf);  // the ops of shares_buffer() that share operand 0
    }
}

// Follows a position to one use, as operand `operand` of `user`; false if that use cannot read host memory.
static bool follow_use(Region *region, HloInstruction *user, int64_t operand, int64_t leaf) {
    switch (user->opcode) {
        case HLO_OP_TUPLE: return reach(region, user, hlo_shape_first_leaf(user->shape, operand) + leaf);
        case HLO_OP_GET_TUPLE_ELEMENT: {
            const HloShape *tuple = user->operands[0]->shape;
            const int64_t first = hlo_shape_first_leaf(tuple, HLO_ATTRIBUTES(user, TupleIndex)->index);
            const bool is_part = leaf >= first && leaf < first + hlo_shape_leaf_count(user->shape);
            return !is_part || reach(region, user, leaf - first);
        }
        case HLO_OP_WHILE:
        case HLO_OP_OPTIMIZATION_BARRIER:
        case HLO_OP_RESHAPE: return reach(region, user, leaf);
        case HLO_OP_DYNAMIC_UPDATE_SLICE: return operand == 0 && hlo_pass_may_replace(user) && reach(region, user, 0);
        case HLO_OP_DYNAMIC_SLICE: return operand == 0 && hlo_pass_may_replace(user);
        case HLO_OP_COPY: return true;
        default: return false;
    }
}

static bool follow_users(Region *region, Position position) {
    const HloInstruction *at = position.at;
    for (int64_t i = 0; i < at->users.count; i++) {
        HloInstruction *user = at->users.items[i];
        for (int32_t k = 0; k < user->operand_count; k++)
            if (user->operands[k] == at && !follow_use(region, user, k, position.leaf)) return false;
    }
    if (!hlo_instruction_is_root(at)) return true;
    HloInstruction *loop = only_loop(at->parent);
    return loop && reach(region, loop, position.leaf);
}

// Moves the stack that `update` writes to into host memory, if all of it can be there.
static void take_stack(Offloader *offloader, HloInstruction *update, int64_t space) {
    Region region = {.offloader = offloader, .space = space};
    if (!hlo_pass_may_replace(update) || !reach(&region, update, 0)) return;
    for (int64_t i = 0; i < region.positions.count; i++)
        if (!follow_source(&region, region.positions.items[i]) || !follow_users(&region, region.positions.items[i]))
            return;
    for (int64_t i = 0; i < region.positions.count; i++) {
        hlo_int_map_set(offloader->scratch, &offloader->spaces, key_of(region.positions.items[i]), space);
        hlo_vector_push(offloader->scratch, &offloader->positions, region.positions.items[i]);
    }
    for (int64_t i = 0; i < region.edges.count; i++)
        hlo_vector_push(offloader->scratch, &offloader->edges, region.edges.items[i]);
}

// Moves the stacks that a value in host memory is written into.
static void take_stacks_of(Offloader *offloader, HloInstruction *value, int64_t space) {
    for (int64_t i = 0; i < value->users.count; i++) {
        HloInstruction *user = value->users.items[i];
        if (hlo_pass_is_view(user)) take_stacks_of(offloader, user, space);
        if (hlo_is(user, HLO_OP_DYNAMIC_UPDATE_SLICE) && user->operands[1] == value) take_stack(offloader, user, space);
    }
}

static bool is_offload(const HloInstruction *at) {
    return hlo_is(at, HLO_OP_COPY) && hlo_shape_is_array(at->shape) && hlo_shape_in_host_memory(at->shape) &&
           hlo_shape_memory_space(at->operands[0]->shape) == HLO_SPACE_DEVICE;
}

// ---- rewriting

static const HloShape *array_in_space(HloArena *arena, const HloShape *array, int64_t space) {
    const HloShape *shape = hlo_shape_with_default_layout(arena, array);
    HloLayout *layout = hlo_arena_copy(arena, shape->layout, sizeof *layout);
    layout->memory_space = space;
    return hlo_shape_with_layout(arena, shape, layout);
}

// The shape of a position's instruction with the memory spaces of all its leaves; *leaf counts through them.
static const HloShape *placed_shape(const Offloader *offloader, HloInstruction *at, const HloShape *shape,
                                    int64_t *leaf) {
    HloArena *arena = offloader->module->arena;
    if (!hlo_shape_is_tuple(shape)) {
        const int64_t *space = hlo_int_map_find(&offloader->spaces, key_of((Position){at, (*leaf)++}));
        return space ? array_in_space(arena, shape, *space) : shape;
    }
    const HloShape **elements = HLO_ARENA_NEW(arena, const HloShape *, shape->element_count);
    for (int32_t i = 0; i < shape->element_count; i++)
        elements[i] = placed_shape(offloader, at, shape->elements[i], leaf);
    return hlo_shape_tuple(arena, elements, shape->element_count);
}

// Rebuilds a wide tuple once, at the first of its leaves.
static void set_memory_spaces(const Offloader *offloader) {
    HloIntMap done = {0};
    for (int64_t i = 0; i < offloader->positions.count; i++) {
        HloInstruction *at = offloader->positions.items[i].at;
        int64_t leaf = 0;
        if (hlo_int_map_find(&done, (uint64_t)at->id)) continue;
        hlo_int_map_set(offloader->scratch, &done, (uint64_t)at->id, 1);
        at->shape = placed_shape(offloader, at, at->shape, &leaf);
    }
}

// Creates broadcasts directly in host memory; anything else is copied there.
static void make_in_host_memory(HloModule *module, Edge edge, int64_t space) {
    HloInstruction *value = edge.user->operands[edge.operand], *made;
    const HloShape *shape = array_in_space(module->arena, value->shape, space);
    if (hlo_is(value, HLO_OP_BROADCAST))
        made = hlo_instruction_clone(value->parent, value, shape, value->operands, value->operand_count);
    else
        made = hlo_instruction_new(value->parent, HLO_OP_COPY, shape, &value, 1, NULL, NULL);
    hlo_instruction_move_before(made, edge.user);
    hlo_instruction_set_operand(edge.user, edge.operand, made);
}

// The value that was copied to host memory, in its shape after the views: host memory now belongs to the stack, and the
// slice is transferred directly from the device into it. A view becomes a reshape, which moves no data.
static HloInstruction *on_device(HloInstruction *value, HloInstruction *user) {
    HloInstruction *source = value;
    while (hlo_pass_is_view(source)) source = source->operands[0];
    if (!is_offload(source)) return value;
    source = source->operands[0];
    HloInstruction *made = hlo_pass_reshape(value, source, hlo_shape_dims(value->shape));
    hlo_instruction_move_before(made, user);
    return made;
}

static bool uses(const HloInstruction *user, const HloInstruction *value) {
    for (int32_t k = 0; k < user->operand_count; k++)
        if (user->operands[k] == value) return true;
    return false;
}

// Moves views and index arithmetic up as far as their operands allow, so that a transfer need not wait for unrelated
// instructions before them.
static void hoist(HloInstruction *value) {
    HloInstruction *first = value;
    const bool is_cheap =
        hlo_shape_is_scalar(value->shape) || hlo_pass_is_view(value) || hlo_is(value, HLO_OP_GET_TUPLE_ELEMENT);
    if (!is_cheap || !hlo_pass_may_replace(value)) return;
    for (int32_t k = 0; k < value->operand_count; k++) hoist(value->operands[k]);
    while (first->previous && !uses(value, first->previous)) first = first->previous;
    if (first != value) hlo_instruction_move_before(value, first);
}

// Moves the two halves as far apart as operands and users allow, so that the instructions between them hide the
// transfer. Reads of the stack stay before its writes: after them, a read would need a copy of the whole stack.
static void spread(HloInstruction *start, HloInstruction *done, const HloInstruction *op) {
    HloInstruction *first = start, *last = done;
    for (int32_t k = 0; k < op->operand_count; k++) hoist(op->operands[k]);
    while (first->previous && !uses(op, first->previous) && !uses(first->previous, op->operands[0]))
        first = first->previous;
    while (last->next && !uses(last->next, done)) last = last->next;
    if (first != start) hlo_instruction_move_before(start, first);
    if (last != done) hlo_instruction_move_after(done, last);
}

// Replaces the op by a start and a done.
static HloInstruction *make_asynchronous(HloInstruction *op) {
    HloModule *module = op->parent->module;
    HloComputation *wrapped = hlo_computation_new(module, "host_transfer");
    HloInstruction **parameters = HLO_ARENA_NEW(module->arena, HloInstruction *, op->operand_count);
    const HloShape **shapes = HLO_ARENA_NEW(module->arena, const HloShape *, op->operand_count);
    for (int32_t k = 0; k < op->operand_count; k++) {
        const HloParameterAttributes attributes = {.number = k};
        shapes[k] = op->operands[k]->shape;
        parameters[k] = hlo_instruction_new(wrapped, HLO_OP_PARAMETER, shapes[k], NULL, 0, &attributes, NULL);
    }
    hlo_computation_set_root(wrapped, hlo_instruction_clone(wrapped, op, op->shape, parameters, op->operand_count));
    const HloShape *parts[] = {hlo_shape_tuple(module->arena, shapes, op->operand_count), op->shape,
                               hlo_shape_scalar(module->arena, HLO_U32)};
    const char *text = hlo_op_text(op->opcode);
    HloInstruction *start =
        hlo_instruction_new(op->parent, HLO_OP_ASYNC_START, hlo_shape_tuple(module->arena, parts, 3), op->operands,
                            op->operand_count, NULL, hlo_arena_format(module->arena, "%s-start", text));
    hlo_instruction_set_called(start, &wrapped, 1);
    start->metadata = op->metadata;
    HloInstruction *done = hlo_instruction_new(op->parent, HLO_OP_ASYNC_DONE, op->shape, &start, 1, NULL,
                                               hlo_arena_format(module->arena, "%s-done", text));
    hlo_instruction_copy_annotations(done, op);
    hlo_instruction_move_before(start, op);
    hlo_instruction_move_before(done, op);
    hlo_instruction_replace_uses(op, done);
    spread(start, done, op);
    hlo_instruction_remove(op);
    return done;
}

// Removes the copies that moved a slice back to the device: it now arrives there.
static void drop_returns(HloInstruction *value) {
    for (int64_t i = value->users.count; i-- > 0;) {
        HloInstruction *user = value->users.items[i];
        if (hlo_pass_is_view(user)) drop_returns(user);
        if (!hlo_is(user, HLO_OP_COPY) || hlo_shape_memory_space(user->shape) != HLO_SPACE_DEVICE ||
            !hlo_pass_may_replace(user) || hlo_instruction_is_root(user) ||
            !hlo_shape_equal(user->shape, value->shape, HLO_COMPARE_ALL))
            continue;
        hlo_instruction_replace_uses(user, value);
        hlo_instruction_remove(user);
    }
}

static void transfer_slices(const Offloader *offloader) {
    for (int64_t i = 0; i < offloader->positions.count; i++) {
        HloInstruction *at = offloader->positions.items[i].at;
        for (int64_t u = at->users.count; u-- > 0;)
            if (hlo_is(at->users.items[u], HLO_OP_DYNAMIC_SLICE)) drop_returns(make_asynchronous(at->users.items[u]));
    }
    for (int64_t i = 0; i < offloader->positions.count; i++) {
        HloInstruction *at = offloader->positions.items[i].at;
        if (!hlo_is(at, HLO_OP_DYNAMIC_UPDATE_SLICE)) continue;
        hlo_instruction_set_operand(at, 1, on_device(at->operands[1], at));
        make_asynchronous(at);
    }
}

HloStatus hlo_pass_host_offloader(HloModule *module, const HloPassEnv *env, bool *changed) {
    Offloader offloader = {.module = module, .scratch = env->scratch};
    HloPassWalk walk = hlo_pass_walk(module);
    for (HloInstruction *i; (i = hlo_pass_next(&walk));)
        if (is_offload(i)) take_stacks_of(&offloader, i, hlo_shape_memory_space(i->shape));
    if (offloader.positions.count == 0) return HLO_SUCCESS;
    set_memory_spaces(&offloader);
    for (int64_t i = 0; i < offloader.edges.count; i++) {
        const Edge edge = offloader.edges.items[i];
        int64_t leaf = 0;
        const HloShape *shape = edge.user->shape;
        if (hlo_is(edge.user, HLO_OP_TUPLE)) leaf = hlo_shape_first_leaf(shape, edge.operand);
        make_in_host_memory(module, edge, hlo_shape_memory_space(hlo_shape_leaf(shape, leaf)));
    }
    transfer_slices(&offloader);
    *changed = true;
    return HLO_SUCCESS;
}
