// SPDX-License-Identifier: Apache-2.0
// Determines which buffers are alive together. Every kernel makes new buffers for its results, except where the
// compiler works in place: views, tuples, loop states, and updates of arrays that have no other use.
//
// The pass follows the buffer of each leaf of each value through a computation in the order of its plan (program.h).
// The first and last uses give the most that is alive at the same time:
//
//   kernel         0   1   2   3             change[]   +a  +b  +c-a  -b
//   a             [=======]                  alive       a  a+b  b+c   c     peak: the greatest of these, with what
//   b                 [=======]                                              the kernel's own calls have at their peak
//   c                     [=======]
//
// A called computation adds its own peak at the point of the call. Peaks are kept per computation, so that the whole
// analysis is linear in instructions and leaves. Sizes are padded to the chip's tiles (layout.h).
#include "emulator/memory/liveness.h"

#include <assert.h>

#include "emulator/cost.h"
#include "emulator/layout/layout.h"
#include "emulator/layout/stored.h"
#include "emulator/schedule/multi_output.h"

// The position of an instruction of the computation under analysis in the plan's order.
static int64_t position_of(const EmuLiveness *liveness, const HloInstruction *instruction) {
    const int64_t position = liveness->program->position_of[instruction->id];
    assert(position < liveness->plan->order_count && liveness->plan->order[position] == instruction);
    return position;
}

EmuLeaves *emu_liveness_leaves(const EmuLiveness *liveness, const HloInstruction *instruction) {
    return &liveness->leaves[position_of(liveness, instruction)];
}

// Whether what an instruction makes and reads is in HBM: the network, the host, calls and branches find it there, but
// not the kernels that users wrote (`tpu_custom_call`).
static bool needs_hbm(const HloInstruction *instruction) {
    if (hlo_is(instruction, HLO_OP_WHILE)) return false;
    switch (emu_instruction_class(instruction)) {
        case EMU_OP_VECTOR:
        case EMU_OP_MOVE:
        case EMU_OP_REDUCE:
        case EMU_OP_MATRIX:
        case EMU_OP_FREE: return false;
        case EMU_OP_ALONE:
            return hlo_is(instruction, HLO_OP_CUSTOM_CALL) &&
                   strcmp(HLO_ATTRIBUTES(instruction, CustomCall)->target, "tpu_custom_call") != 0;
        default: return true;
    }
}

// Makes a new buffer for one leaf of an instruction. Arrays in VMEM or in the host's memory take no HBM: they get a
// buffer of 0 bytes, so that values are tracked in the same way.
static EmuLive *new_buffer(EmuLiveness *liveness, const HloInstruction *instruction, const HloShape *shape,
                           int64_t leaf) {
    assert(instruction && shape && leaf >= 0);
    EmuLive *live = HLO_ARENA_NEW(liveness->arena, EmuLive, 1);
    live->buffer.instruction = instruction;
    live->buffer.shape = shape;
    live->buffer.leaf = leaf;
    live->buffer.bytes = emu_hbm_bytes(liveness->chip, shape);
    live->buffer.unpadded_bytes = live->buffer.bytes ? emu_unpadded_bytes(shape) : 0;
    live->buffer.kind = EMU_BUFFER_TEMPORARY;
    assert(live->buffer.bytes >= live->buffer.unpadded_bytes && live->buffer.unpadded_bytes >= 0);
    live->first = live->last = liveness->now;
    live->is_pinned = needs_hbm(instruction);
    hlo_vector_push(liveness->arena, &liveness->buffers, live);
    return live;
}

static EmuLeaves new_leaves(EmuLiveness *liveness, int64_t count) {
    return (EmuLeaves){HLO_ARENA_NEW(liveness->arena, EmuLive *, count), count};
}

// New buffers for all leaves, with the layouts in which kernels make them.
static EmuLeaves define(EmuLiveness *liveness, const HloInstruction *instruction) {
    EmuLeaves leaves = new_leaves(liveness, hlo_shape_leaf_count(instruction->shape));
    const int32_t number = liveness->program->kernel_of[instruction->id];
    const EmuKernel *kernel = liveness->chip && number >= 0 ? &liveness->plan->kernels[number] : NULL;
    for (int64_t i = 0; i < leaves.count; i++) {
        const HloShape *shape = hlo_shape_leaf(instruction->shape, i);
        if (kernel && shape == instruction->shape)
            shape = emu_made_shape(liveness->arena, liveness->chip, kernel, instruction);
        leaves.items[i] = new_buffer(liveness, instruction, shape, i);
    }
    return leaves;
}

EmuLive *emu_liveness_add_copy(EmuLiveness *liveness, const EmuLive *live, const HloShape *shape, int64_t first,
                               int64_t last) {
    EmuLive *copy = new_buffer(liveness, live->buffer.instruction, shape, live->buffer.leaf);
    copy->first = first;
    copy->last = last;
    copy->copied = live->buffer.shape;
    return copy;
}

// A part of another value's leaves. Shares the list with the whole, which outlives it in the arena.
static EmuLeaves part_of(EmuLeaves whole, int64_t start, int64_t count) {
    HLO_BUG_IF(start < 0 || start + count > whole.count);
    return (EmuLeaves){whole.items + start, count};
}

// The leaves of all operands, one operand after another.
static EmuLeaves concatenate_operands(EmuLiveness *liveness, const HloInstruction *instruction) {
    int64_t total = 0, filled = 0;
    for (int32_t i = 0; i < instruction->operand_count; i++)
        total += emu_liveness_leaves(liveness, instruction->operands[i])->count;
    EmuLeaves leaves = new_leaves(liveness, total);
    for (int32_t i = 0; i < instruction->operand_count; i++) {
        const EmuLeaves *operand = emu_liveness_leaves(liveness, instruction->operands[i]);
        for (int64_t j = 0; j < operand->count; j++) leaves.items[filled++] = operand->items[j];
    }
    assert(filled == total);
    return leaves;
}

// The buffers of a done instruction: the results among its start's (operands, results, …). copy-start and recv have
// their result first; other starts begin with their operands. A start whose tuple lacks the results (an unknown async
// form) makes new buffers for them.
static EmuLeaves leaves_of_done(EmuLiveness *liveness, const HloInstruction *done) {
    assert(done->operand_count >= 1);
    const HloInstruction *start = done->operands[0];
    const EmuLeaves whole = *emu_liveness_leaves(liveness, start);
    const int64_t wanted = hlo_shape_leaf_count(done->shape);
    int64_t first = 0;
    const bool leads = start->opcode == HLO_OP_COPY_START || start->opcode == HLO_OP_RECV;
    if (!leads && hlo_shape_is_tuple(start->shape) && start->shape->element_count >= 2 && whole.count > wanted)
        first = hlo_shape_first_leaf(start->shape, 1);
    return first + wanted <= whole.count ? part_of(whole, first, wanted) : define(liveness, done);
}

// A start keeps its operands and makes its results. The leaves that represent operands get 0 bytes: they are the
// operands' own buffers.
static EmuLeaves leaves_of_start(EmuLiveness *liveness, const HloInstruction *start) {
    const HloShape *shape = start->shape;
    if (!hlo_shape_is_tuple(shape) || shape->element_count < 2) return define(liveness, start);
    if (start->opcode == HLO_OP_RECV) return define(liveness, start);  // its operand, a token, is no part of the tuple
    const int64_t destination = start->opcode == HLO_OP_COPY_START ? 0 : 1, source = 1 - destination;
    EmuLeaves leaves = define(liveness, start);
    const EmuLeaves operands = concatenate_operands(liveness, start);
    const int64_t first = hlo_shape_first_leaf(shape, source), count = hlo_shape_leaf_count(shape->elements[source]);
    for (int64_t i = 0; i < count && i < operands.count; i++) {
        leaves.items[first + i]->buffer.bytes = 0;
        leaves.items[first + i] = operands.items[i];
    }
    return leaves;
}

// Whether leaf `leaf` of the result of a loop's body is the same leaf of its parameter, traced through the tuples that
// the body takes apart and makes.
static bool passes_unchanged(const HloInstruction *root, int64_t leaf) {
    assert(leaf >= 0 && leaf < hlo_shape_leaf_count(root->shape));
    const HloInstruction *value = root;
    int64_t place = leaf;
    while (hlo_is(value, HLO_OP_TUPLE)) {
        const int32_t element = hlo_shape_element_of_leaf(value->shape, place);
        place -= hlo_shape_first_leaf(value->shape, element);
        value = value->operands[element];
    }
    for (; hlo_is(value, HLO_OP_GET_TUPLE_ELEMENT); value = value->operands[0])
        place += hlo_shape_first_leaf(value->operands[0]->shape, HLO_ATTRIBUTES(value, TupleIndex)->index);
    return hlo_is(value, HLO_OP_PARAMETER) && place == leaf;
}

// Whether the buffer with which leaf `leaf` of a loop's state begins is that of another leaf too, or has already been
// changed by another loop: stacks that begin as one array of zeros.
static bool begins_shared(const HloInstruction *loop, const EmuLeaves *initial, int64_t leaf) {
    const EmuLive *live = initial->items[leaf];
    for (int64_t other = 0; other < initial->count; other++)
        if (other != leaf && initial->items[other] == live &&
            (other < leaf || passes_unchanged(loop->called[1]->root, other)))
            return true;
    const HloInstruction *tuple = loop->operands[0];
    if (!live->is_changed || !hlo_is(tuple, HLO_OP_TUPLE)) return false;
    return tuple->operands[hlo_shape_element_of_leaf(tuple->shape, leaf)] == live->buffer.instruction;
}

// The state of a loop is updated in place, but a leaf that the body changes is copied first if it is an argument of the
// program, or begins as another one does.
static EmuLeaves leaves_of_loop(EmuLiveness *liveness, const HloInstruction *loop) {
    assert(hlo_is(loop, HLO_OP_WHILE));
    const EmuLeaves initial = *emu_liveness_leaves(liveness, loop->operands[0]);
    const HloInstruction *root = loop->called[1]->root;
    assert(initial.count == hlo_shape_leaf_count(loop->shape));
    EmuLeaves leaves = new_leaves(liveness, initial.count);
    for (int64_t i = 0; i < initial.count; i++) {
        leaves.items[i] = initial.items[i];
        if (passes_unchanged(root, i)) continue;
        if (initial.items[i]->buffer.kind == EMU_BUFFER_ARGUMENT || begins_shared(loop, &initial, i))
            leaves.items[i] = new_buffer(liveness, loop, hlo_shape_leaf(loop->shape, i), i);
        leaves.items[i]->is_changed = true;
        leaves.items[i]->copy = NULL;
    }
    return leaves;
}

// The operand whose buffer an instruction may write its result into: the array of an in-place update (also one at the
// root of a fusion); NULL if there is none.
static const HloInstruction *updated_operand(const HloInstruction *instruction) {
    const HloInstruction *update = instruction;
    if (instruction->opcode == HLO_OP_FUSION) {
        update = instruction->called[0]->root;
        while (update->opcode == HLO_OP_BITCAST) update = update->operands[0];
    }
    const bool scatters = update->opcode == HLO_OP_SCATTER && update->operand_count == 3;
    if (update->opcode != HLO_OP_DYNAMIC_UPDATE_SLICE && !scatters) return NULL;
    const HloInstruction *array = update->operands[0];
    if (update == instruction) return array;
    while (array->opcode == HLO_OP_BITCAST) array = array->operands[0];
    return array->opcode == HLO_OP_PARAMETER ? instruction->operands[hlo_parameter_number(array)] : NULL;
}

// Whether the only user of a value may overwrite its buffers. Arguments of the program may not be overwritten, since
// the caller owns their memory. Parameters of a called computation may be: its caller has copied whatever it still
// needs.
static bool may_overwrite(EmuLiveness *liveness, const HloInstruction *value) {
    const EmuLeaves *leaves = emu_liveness_leaves(liveness, value);
    if (value->users.count != 1 || !leaves->count) return false;
    for (int64_t i = 0; i < leaves->count; i++)
        if (leaves->items[i]->buffer.kind == EMU_BUFFER_ARGUMENT && !liveness->plan->computation->callers.count)
            return false;
    return true;
}

static int64_t index_of_member(const EmuKernel *kernel, const HloInstruction *instruction) {
    for (int64_t m = 0; m < kernel->member_count; m++)
        if (kernel->members[m] == instruction) return m;
    return -1;
}

// Marks the members that the products of a kernel are, and that they are made from: all of what these read must be
// there until the last result is written. Other members work on the elements of a product as they come.
static void mark_inputs(const EmuKernel *kernel, bool *inputs) {
    bool changed = kernel->kind == EMU_OP_MATRIX;
    for (int64_t m = 0; m < kernel->member_count; m++)
        inputs[m] = emu_instruction_class(kernel->members[m]) == EMU_OP_MATRIX;
    while (changed) {
        changed = false;
        for (int64_t m = 0; m < kernel->member_count; m++)
            for (int32_t i = 0; inputs[m] && i < kernel->members[m]->operand_count; i++) {
                const int64_t operand = index_of_member(kernel, kernel->members[m]->operands[i]);
                if (operand < 0 || inputs[operand]) continue;
                inputs[operand] = changed = true;
            }
    }
}

static bool is_read_by_inputs(const EmuKernel *kernel, const bool *inputs, const HloInstruction *value) {
    for (int64_t m = 0; m < kernel->member_count; m++)
        for (int32_t i = 0; inputs[m] && i < kernel->members[m]->operand_count; i++)
            if (kernel->members[m]->operands[i] == value) return true;
    return false;
}

// Whether every result of a kernel depends on the elements of its products, and of what else than their inputs it
// reads, at the same place only, its sums aside.
static bool is_elementwise(const EmuKernel *kernel, const bool *inputs) {
    if (kernel->kind != EMU_OP_VECTOR && kernel->kind != EMU_OP_MATRIX) return false;
    int64_t elements = 0;
    for (int64_t r = 0; r < kernel->root_count; r++) {
        const int64_t count = hlo_shape_elements(kernel->members[r]->shape);
        if (count > elements) elements = count;
    }
    for (int64_t i = 0; i < kernel->member_count; i++) {
        const HloInstruction *member = kernel->members[i];
        const bool generated = member->opcode == HLO_OP_BROADCAST || member->opcode == HLO_OP_IOTA;
        // What is made of smaller arrays and then broadcast does not read arrays of the result's size.
        const bool is_small = hlo_shape_elements(member->shape) < elements;
        if (generated || (is_small && member->opcode == HLO_OP_RESHAPE)) continue;
        const EmuOpClass op_class = emu_instruction_class(member);
        if (inputs[i]) continue;
        if (op_class != EMU_OP_VECTOR && !(op_class == EMU_OP_REDUCE && i < kernel->root_count)) return false;
    }
    return true;
}

// Notes for every value the last kernel that reads it.
static void note_last_reads(EmuLiveness *liveness) {
    const EmuPlan *plan = liveness->plan;
    liveness->last_reads = HLO_ARENA_NEW(liveness->arena, int64_t, plan->order_count);
    for (int64_t i = 0; i < plan->order_count; i++) liveness->last_reads[i] = -1;
    for (int64_t k = 0; k < plan->kernel_count; k++)
        for (int64_t m = 0; m < plan->kernels[k].member_count; m++) {
            const HloInstruction *member = plan->kernels[k].members[m];
            for (int32_t i = 0; i < member->operand_count; i++)
                liveness->last_reads[position_of(liveness, member->operands[i])] = k;
        }
}

// Whether kernel `number` is the last to use a value, which has no other name.
static bool ends_with(const EmuLiveness *liveness, const HloInstruction *value, int64_t number) {
    if (liveness->last_reads[position_of(liveness, value)] != number || hlo_instruction_is_root(value)) return false;
    for (int64_t u = 0; u < value->users.count; u++) {
        const HloInstruction *user = value->users.items[u];
        const EmuOpClass op_class = emu_instruction_class(user);
        const bool computes = op_class == EMU_OP_VECTOR || op_class == EMU_OP_MOVE || op_class == EMU_OP_REDUCE ||
                              op_class == EMU_OP_MATRIX;
        if (!computes || (emu_is_view(user) && liveness->program->kernel_of[user->id] >= 0)) return false;
    }
    return true;
}

// Whether one of several results of a kernel may be written over. libtpu 0.0.42 does not do it in the gradient of
// attention; it is assumed to where memory is short.
static bool may_overwrite_parts(const EmuLiveness *liveness) {
    return liveness->program->spares_memory[liveness->plan->computation->id];
}

// The array that an elementwise kernel, or what follows a product in its kernel, reads for the last time and may
// overwrite with its result, as XLA's fusions do:
// one of the same size that another kernel has made and nothing uses later. NULL if there is none.
static const HloInstruction *overwritten_operand(EmuLiveness *liveness, const HloInstruction *instruction) {
    const int32_t number = liveness->program->kernel_of[instruction->id];
    const EmuKernel *kernel = number >= 0 ? &liveness->plan->kernels[number] : NULL;
    bool inputs[EMU_MAX_MEMBERS];
    if (!kernel || kernel->member_count > EMU_MAX_MEMBERS) return NULL;
    mark_inputs(kernel, inputs);
    if (!is_elementwise(kernel, inputs)) return NULL;
    const int64_t bytes = emu_hbm_bytes(liveness->chip, instruction->shape);
    for (int64_t m = 0; m < kernel->member_count; m++)
        for (int32_t i = 0; i < kernel->members[m]->operand_count; i++) {
            const HloInstruction *operand = kernel->members[m]->operands[i];
            const int32_t maker = liveness->program->kernel_of[operand->id];
            if (maker < 0 || maker == number || liveness->plan->kernels[maker].kind == EMU_OP_CONTROL) continue;
            if (liveness->plan->kernels[maker].root_count > 1 && !may_overwrite_parts(liveness)) continue;
            if (hlo_shape_elements(operand->shape) != hlo_shape_elements(instruction->shape)) continue;
            const EmuLeaves *leaves = emu_liveness_leaves(liveness, operand);
            EmuLive *live = leaves->count == 1 && ends_with(liveness, operand, number) ? leaves->items[0] : NULL;
            if (!live || live->buffer.kind != EMU_BUFFER_TEMPORARY || live->buffer.bytes != bytes) continue;
            if (live->overwritten_by == number + 1) continue;  // with another result
            if (is_read_by_inputs(kernel, inputs, operand)) continue;
            live->overwritten_by = number + 1;
            return operand;
        }
    return NULL;
}

// The leaves of a value that is overwritten. Copies of what they had are none of what they get.
static EmuLeaves overwrite(EmuLeaves leaves) {
    for (int64_t i = 0; i < leaves.count; i++) leaves.items[i]->copy = NULL;
    return leaves;
}

// The leaves of results that take over their operands' buffers: in-place updates, elementwise kernels, and all-reduces
// operand by operand, as in XLA's buffer assignment.
static EmuLeaves in_place(EmuLiveness *liveness, const HloInstruction *instruction) {
    const HloInstruction *overwritten = overwritten_operand(liveness, instruction);
    if (overwritten) return overwrite(*emu_liveness_leaves(liveness, overwritten));
    const HloInstruction *array = updated_operand(instruction);
    if (array && emu_liveness_leaves(liveness, array)->count == 1 && may_overwrite(liveness, array))
        return overwrite(*emu_liveness_leaves(liveness, array));
    EmuLeaves leaves = define(liveness, instruction);
    if (instruction->opcode != HLO_OP_ALL_REDUCE && instruction->opcode != HLO_OP_ALL_REDUCE_START) return leaves;
    for (int32_t i = 0; i < instruction->operand_count && i < leaves.count; i++) {
        const HloInstruction *operand = instruction->operands[i];
        if (emu_liveness_leaves(liveness, operand)->count != 1 || !may_overwrite(liveness, operand)) continue;
        leaves.items[i]->buffer.bytes = 0;
        leaves.items[i] = overwrite(*emu_liveness_leaves(liveness, operand)).items[0];
    }
    return leaves;
}

// Whether a value is its first operand under another name.
static bool renames(const HloInstruction *instruction) {
    return emu_is_view(instruction) || hlo_is(instruction, HLO_OP_ADD_DEPENDENCY) ||
           hlo_is(instruction, HLO_OP_SET_DIMENSION_SIZE) || hlo_is(instruction, HLO_OP_ASYNC_UPDATE);
}

// The buffers of a value; NULL items for values that stay inside a kernel.
static EmuLeaves evaluate(EmuLiveness *liveness, const HloInstruction *instruction) {
    const bool is_root = liveness->program->kernel_of[instruction->id] >= 0;
    switch (instruction->opcode) {
        case HLO_OP_GET_TUPLE_ELEMENT: {
            const int64_t index = HLO_ATTRIBUTES(instruction, TupleIndex)->index;
            return part_of(*emu_liveness_leaves(liveness, instruction->operands[0]),
                           hlo_shape_first_leaf(instruction->operands[0]->shape, index),
                           hlo_shape_leaf_count(instruction->shape));
        }
        case HLO_OP_TUPLE:
        case HLO_OP_OPTIMIZATION_BARRIER:
        case HLO_OP_DOMAIN: return concatenate_operands(liveness, instruction);
        case HLO_OP_WHILE: return leaves_of_loop(liveness, instruction);
        default: break;
    }
    if (renames(instruction) && emu_liveness_leaves(liveness, instruction->operands[0])->count)
        return *emu_liveness_leaves(liveness, instruction->operands[0]);
    const EmuOpClass op_class = emu_op_class(instruction->opcode);
    if (op_class == EMU_OP_DONE) return leaves_of_done(liveness, instruction);
    const bool starts = op_class == EMU_OP_COLLECTIVE_START || op_class == EMU_OP_TRANSFER_START;
    if (starts && instruction->opcode != HLO_OP_ALL_REDUCE_START) return leaves_of_start(liveness, instruction);
    if (op_class != EMU_OP_FREE && !is_root) return (EmuLeaves){0};
    return in_place(liveness, instruction);
}

// The copy of an array in this layout that an earlier kernel needed; NULL if there is none.
static EmuLive *find_copy(const EmuLiveness *liveness, const EmuLive *live, const HloShape *wanted) {
    EmuLive *copy = live->copy;
    while (copy && !emu_same_minor(liveness->arena, liveness->chip, copy->buffer.shape, wanted)) copy = copy->copy;
    return copy;
}

// Copies an operand of an instruction where it cannot be read as it is stored, unless an earlier copy will do.
static void copy_operand(EmuLiveness *liveness, const HloInstruction *instruction, int32_t index) {
    const EmuLeaves *read = emu_liveness_leaves(liveness, instruction->operands[index]);
    if (read->count != 1 || !hlo_shape_is_array(read->items[0]->buffer.shape)) return;
    EmuLive *live = read->items[0];
    const bool takes_any = hlo_is(instruction, HLO_OP_DOT) || hlo_is(instruction, HLO_OP_GATHER) ||
                           hlo_is(instruction, HLO_OP_TOPK) || hlo_is(instruction, HLO_OP_SORT);
    if (takes_any && live->buffer.kind != EMU_BUFFER_ARGUMENT) return;  // kernels make it so
    const HloShape *stored = live->buffer.shape;
    const HloShape *wanted = emu_read_shape(liveness->arena, liveness->chip, instruction, index, stored);
    if (emu_same_minor(liveness->arena, liveness->chip, stored, wanted)) return;
    EmuLive *copy = find_copy(liveness, live, wanted);
    if (!copy) {
        copy = emu_liveness_add_copy(liveness, live, wanted, liveness->now, liveness->now);
        copy->copy = live->copy;
        live->copy = copy;
    }
    // The results of one kernel are not side by side in the plan's order, so `now` may go back.
    if (copy->first > liveness->now) copy->first = liveness->now;
    if (copy->last < liveness->now) copy->last = liveness->now;
}

// Whether an array is the positions of elements along a dimension, as libtpu makes them for a stable sort.
static bool is_positions(const HloInstruction *array, int64_t dimension) {
    return hlo_is(array, HLO_OP_IOTA) && array->shape->type == HLO_S32 &&
           HLO_ATTRIBUTES(array, Iota)->dimension == dimension;
}

// A stable sort also sorts the positions of its elements, unless they are among its operands. Nothing reads them
// afterwards. Such a result is in HBM [RT].
static void add_positions(EmuLiveness *liveness, const HloInstruction *instruction) {
    if (!hlo_is(instruction, HLO_OP_SORT) || !HLO_ATTRIBUTES(instruction, Sort)->is_stable) return;
    for (int32_t i = 0; i < instruction->operand_count; i++)
        if (is_positions(instruction->operands[i], HLO_ATTRIBUTES(instruction, Sort)->dimensions.items[0])) return;
    HloShape *positions = hlo_arena_copy(liveness->arena, instruction->operands[0]->shape, sizeof(*positions));
    positions->type = HLO_S32;
    new_buffer(liveness, instruction, positions, 0)->is_pinned = true;
}

// Users of an array that are looked at for one that is not a gather.
#define MOST_USERS_LOOKED_AT 64

// Whether an array has a user that is neither a gather nor `view`.
static bool has_other_users(const HloInstruction *array, const HloInstruction *view) {
    for (int64_t i = 0; i < array->users.count && i < MOST_USERS_LOOKED_AT; i++) {
        const HloInstruction *user = array->users.items[i];
        if (user != view && !hlo_is(user, HLO_OP_GATHER)) return true;
    }
    return false;
}

// What a gather picks of widened results of a product it reads as they were before, if others read them widened, as the
// logits of a cross entropy: the product writes them both ways [RT]. All that read them narrow read the same array.
static void add_narrow_results(EmuLiveness *liveness, const HloInstruction *gather) {
    if (!hlo_is(gather, HLO_OP_GATHER)) return;
    const HloInstruction *wide = gather->operands[0], *view = NULL;
    for (; emu_is_view(wide); wide = wide->operands[0]) view = wide;
    if (!hlo_is(wide, HLO_OP_CONVERT) || !has_other_users(wide, view)) return;
    const HloInstruction *product = wide->operands[0];
    const EmuLeaves *leaves = emu_liveness_leaves(liveness, wide);
    const bool widens = hlo_type_info(product->shape->type)->bits < hlo_type_info(wide->shape->type)->bits;
    if (!hlo_is(product, HLO_OP_DOT) || !widens || leaves->count != 1) return;
    if (leaves->items[0]->buffer.instruction != wide) return;
    EmuLeaves *narrow = emu_liveness_leaves(liveness, product);
    if (!narrow->count) {
        *narrow = new_leaves(liveness, 1);
        narrow->items[0] = new_buffer(liveness, product, product->shape, 0);
        narrow->items[0]->first = leaves->items[0]->first;
    }
    if (narrow->items[0]->last < liveness->now) narrow->items[0]->last = liveness->now;
}

// Keeps everything that a kernel reads alive until it has run. It is called for every kernel in order, so `last` ends
// as the latest.
static void touch(EmuLiveness *liveness, const HloInstruction *instruction) {
    const bool pins = needs_hbm(instruction);
    for (int32_t i = 0; i < instruction->operand_count; i++) {
        const EmuLeaves *leaves = emu_liveness_leaves(liveness, instruction->operands[i]);
        for (int64_t j = 0; j < leaves->count; j++) {
            if (leaves->items[j]->last < liveness->now) leaves->items[j]->last = liveness->now;
            leaves->items[j]->is_pinned |= pins;
        }
    }
    if (!liveness->chip) return;
    for (int32_t i = 0; i < instruction->operand_count && i < 2; i++) copy_operand(liveness, instruction, i);
    add_positions(liveness, instruction);
    add_narrow_results(liveness, instruction);
}

// The shape of a parameter of the entry with its layout: the module's, which is what callers see, or its own.
static const HloShape *argument_shape(const HloModule *module, const HloInstruction *parameter) {
    return module->entry_parameter_layouts ? module->entry_parameter_layouts[hlo_parameter_number(parameter)]
                                           : parameter->shape;
}

// Marks parameters. Those of the entry are arguments; those of other computations belong to the caller and cost nothing
// here. Runs before everything else, since parameters may appear anywhere in the list.
static void define_parameters(EmuLiveness *liveness, bool entry) {
    const bool *carried = liveness->program->carried[liveness->plan->computation->id];
    for (int64_t i = 0; i < liveness->plan->order_count; i++) {
        const HloInstruction *instruction = liveness->plan->order[i];
        if (instruction->opcode != HLO_OP_PARAMETER) continue;
        const HloShape *shape = entry ? argument_shape(liveness->program->module, instruction) : instruction->shape;
        EmuLeaves leaves = new_leaves(liveness, hlo_shape_leaf_count(shape));
        for (int64_t j = 0; j < leaves.count; j++) {
            leaves.items[j] = new_buffer(liveness, instruction, hlo_shape_leaf(shape, j), j);
            leaves.items[j]->buffer.kind = EMU_BUFFER_ARGUMENT;
            if (entry) continue;
            leaves.items[j]->buffer.bytes = 0;
            leaves.items[j]->in_vmem = carried && carried[j];
        }
        *emu_liveness_leaves(liveness, instruction) = leaves;
    }
}

EmuLiveness *emu_liveness_new(EmuProgram *program, HloArena *arena, const HloComputation *computation, bool entry) {
    assert(computation->root);
    EmuLiveness *liveness = HLO_ARENA_NEW(arena, EmuLiveness, 1);
    liveness->program = program;
    liveness->chip = emu_topology_is_tpu(program->topology) ? &program->topology->chip : NULL;
    liveness->arena = arena;
    liveness->plan = emu_program_plan(program, computation);
    liveness->leaves = HLO_ARENA_NEW(arena, EmuLeaves, liveness->plan->order_count);
    for (int64_t i = 0; i < liveness->plan->order_count; i++) program->position_of[liveness->plan->order[i]->id] = i;
    define_parameters(liveness, entry);
    note_last_reads(liveness);
    for (int64_t i = 0; i < liveness->plan->order_count; i++) {
        const HloInstruction *instruction = liveness->plan->order[i];
        if (instruction->opcode == HLO_OP_PARAMETER) continue;
        const int32_t kernel = program->kernel_of[instruction->id];
        if (kernel >= 0) {
            assert(kernel < liveness->plan->kernel_count);
            liveness->now = kernel;
            for (int64_t m = 0; m < liveness->plan->kernels[kernel].member_count; m++)
                touch(liveness, liveness->plan->kernels[kernel].members[m]);
        }
        liveness->leaves[i] = evaluate(liveness, instruction);
    }
    return liveness;
}

bool emu_live_takes_room(const EmuLive *live) {
    return !live->in_vmem && !live->in_result;
}

bool emu_live_is_counted(const EmuLive *live) {
    return live->buffer.kind == EMU_BUFFER_TEMPORARY && live->buffer.instruction->opcode != HLO_OP_CONSTANT &&
           live->buffer.bytes > 0 && emu_live_takes_room(live);
}

int64_t *emu_liveness_bytes(const EmuLiveness *liveness) {
    const int64_t count = liveness->plan->kernel_count;
    int64_t *change = HLO_ARENA_NEW(liveness->arena, int64_t, count + 2), alive = 0;
    for (int64_t i = 0; i < liveness->buffers.count; i++) {
        const EmuLive *live = liveness->buffers.items[i];
        if (!emu_live_is_counted(live)) continue;
        assert(live->first <= live->last && live->last <= count);
        change[live->first] += live->buffer.bytes;
        change[live->last + 1] -= live->buffer.bytes;
    }
    for (int64_t kernel = 0; kernel < count; kernel++) {
        alive += change[kernel];
        assert(alive >= 0);
        change[kernel] = alive + emu_program_called_peak(liveness->program, &liveness->plan->kernels[kernel]);
    }
    return change;
}

int64_t emu_liveness_find_peak(const EmuLiveness *liveness, const int64_t *alive, int64_t *where) {
    assert(alive && where);
    int64_t most = 0;
    *where = 0;
    for (int64_t kernel = 0; kernel < liveness->plan->kernel_count; kernel++)
        if (alive[kernel] > most) {
            most = alive[kernel];
            *where = kernel;
        }
    return most;
}
