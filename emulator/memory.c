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
//
//   peak = arguments + outputs - outputs in donated arguments + temporaries
//
// Constants are part of the program and do not count.
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "emulator/cost.h"
#include "emulator/layout/layout.h"
#include "emulator/layout/stored.h"
#include "emulator/program.h"
#include "emulator/room_tree.h"
#include "emulator/schedule/multi_output.h"
#include "hlo/base/vector.h"

// A buffer of one computation.
typedef struct Live Live;
struct Live {
    EmuBuffer buffer;
    int64_t first, last;     // kernels (numbers in the plan) between which it is alive
    int64_t overwritten_by;  // one more than the kernel that writes a result over it; 0: none
    bool is_pinned;          // in HBM, because of who makes or reads it
    bool is_changed;         // by the body of a loop whose state it is
    bool in_vmem;
    bool in_result;  // in the memory of a result that is made later
    bool is_copied;  // a result that is written after its kernel has run, from what that makes in another layout
    const HloShape
        *copied;  // of a copy in another layout, which a kernel needs beside the array: that array's; or NULL
    Live *copy;   // of what it has now, the last that a kernel needed, which leads to those before; NULL: none
};

typedef HLO_VECTOR(Live *) LiveVector;

// The buffers of the leaves of one value.
typedef struct Leaves {
    Live **items;
    int64_t count;
} Leaves;

// Liveness of one computation.
typedef struct Liveness {
    EmuProgram *program;
    const EmuChip *chip;
    HloArena *arena;
    EmuPlan *plan;
    Leaves *leaves;       // by position in the plan's order
    int64_t *last_reads;  // by position: the last kernel that reads the value as a member's operand; -1 if none does
    LiveVector buffers;
    int64_t now;  // kernel being run
} Liveness;

static int64_t temp_peak(EmuProgram *program, const HloComputation *computation);

// The position of an instruction of the computation under analysis in the plan's order.
static int64_t position_of(const Liveness *liveness, const HloInstruction *instruction) {
    const int64_t position = liveness->program->position_of[instruction->id];
    assert(position < liveness->plan->order_count && liveness->plan->order[position] == instruction);
    return position;
}

// The buffers of a value in the computation under analysis.
static Leaves *leaves_of(const Liveness *liveness, const HloInstruction *instruction) {
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
static Live *new_buffer(Liveness *liveness, const HloInstruction *instruction, const HloShape *shape, int64_t leaf) {
    assert(instruction && shape && leaf >= 0);
    Live *live = HLO_ARENA_NEW(liveness->arena, Live, 1);
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

static Leaves new_leaves(Liveness *liveness, int64_t count) {
    return (Leaves){HLO_ARENA_NEW(liveness->arena, Live *, count), count};
}

// New buffers for all leaves, with the layouts in which kernels make them.
static Leaves define(Liveness *liveness, const HloInstruction *instruction) {
    Leaves leaves = new_leaves(liveness, hlo_shape_leaf_count(instruction->shape));
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

// Adds a copy of an array, or an array of which the value in `live` is a copy, that is there while kernels `first` to
// `last` run.
static Live *add_copy(Liveness *liveness, const Live *live, const HloShape *shape, int64_t first, int64_t last) {
    Live *copy = new_buffer(liveness, live->buffer.instruction, shape, live->buffer.leaf);
    copy->first = first;
    copy->last = last;
    copy->copied = live->buffer.shape;
    return copy;
}

// A part of another value's leaves. Shares the list with the whole, which outlives it in the arena.
static Leaves part_of(Leaves whole, int64_t start, int64_t count) {
    HLO_BUG_IF(start < 0 || start + count > whole.count);
    return (Leaves){whole.items + start, count};
}

// The leaves of all operands, one operand after another.
static Leaves concatenate_operands(Liveness *liveness, const HloInstruction *instruction) {
    int64_t total = 0, filled = 0;
    for (int32_t i = 0; i < instruction->operand_count; i++)
        total += leaves_of(liveness, instruction->operands[i])->count;
    Leaves leaves = new_leaves(liveness, total);
    for (int32_t i = 0; i < instruction->operand_count; i++) {
        const Leaves *operand = leaves_of(liveness, instruction->operands[i]);
        for (int64_t j = 0; j < operand->count; j++) leaves.items[filled++] = operand->items[j];
    }
    assert(filled == total);
    return leaves;
}

// The buffers of a done instruction: the results among its start's (operands, results, …). copy-start and recv have
// their result first; other starts begin with their operands. A start whose tuple lacks the results (an unknown async
// form) makes new buffers for them.
static Leaves leaves_of_done(Liveness *liveness, const HloInstruction *done) {
    assert(done->operand_count >= 1);
    const HloInstruction *start = done->operands[0];
    const Leaves whole = *leaves_of(liveness, start);
    const int64_t wanted = hlo_shape_leaf_count(done->shape);
    int64_t first = 0;
    const bool leads = start->opcode == HLO_OP_COPY_START || start->opcode == HLO_OP_RECV;
    if (!leads && hlo_shape_is_tuple(start->shape) && start->shape->element_count >= 2 && whole.count > wanted)
        first = hlo_shape_first_leaf(start->shape, 1);
    return first + wanted <= whole.count ? part_of(whole, first, wanted) : define(liveness, done);
}

// A start keeps its operands and makes its results. The leaves that represent operands get 0 bytes: they are the
// operands' own buffers.
static Leaves leaves_of_start(Liveness *liveness, const HloInstruction *start) {
    const HloShape *shape = start->shape;
    if (!hlo_shape_is_tuple(shape) || shape->element_count < 2) return define(liveness, start);
    if (start->opcode == HLO_OP_RECV) return define(liveness, start);  // its operand, a token, is no part of the tuple
    const int64_t destination = start->opcode == HLO_OP_COPY_START ? 0 : 1, source = 1 - destination;
    Leaves leaves = define(liveness, start);
    const Leaves operands = concatenate_operands(liveness, start);
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
static bool begins_shared(const HloInstruction *loop, const Leaves *initial, int64_t leaf) {
    const Live *live = initial->items[leaf];
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
static Leaves leaves_of_loop(Liveness *liveness, const HloInstruction *loop) {
    assert(hlo_is(loop, HLO_OP_WHILE));
    const Leaves initial = *leaves_of(liveness, loop->operands[0]);
    const HloInstruction *root = loop->called[1]->root;
    assert(initial.count == hlo_shape_leaf_count(loop->shape));
    Leaves leaves = new_leaves(liveness, initial.count);
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
static bool may_overwrite(Liveness *liveness, const HloInstruction *value) {
    const Leaves *leaves = leaves_of(liveness, value);
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
static void note_last_reads(Liveness *liveness) {
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
static bool ends_with(const Liveness *liveness, const HloInstruction *value, int64_t number) {
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
static bool may_overwrite_parts(const Liveness *liveness) {
    return liveness->program->spares_memory[liveness->plan->computation->id];
}

// The array that an elementwise kernel, or what follows a product in its kernel, reads for the last time and may
// overwrite with its result, as XLA's fusions do:
// one of the same size that another kernel has made and nothing uses later. NULL if there is none.
static const HloInstruction *overwritten_operand(Liveness *liveness, const HloInstruction *instruction) {
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
            const Leaves *leaves = leaves_of(liveness, operand);
            Live *live = leaves->count == 1 && ends_with(liveness, operand, number) ? leaves->items[0] : NULL;
            if (!live || live->buffer.kind != EMU_BUFFER_TEMPORARY || live->buffer.bytes != bytes) continue;
            if (live->overwritten_by == number + 1) continue;  // with another result
            if (is_read_by_inputs(kernel, inputs, operand)) continue;
            live->overwritten_by = number + 1;
            return operand;
        }
    return NULL;
}

// The leaves of a value that is overwritten. Copies of what they had are none of what they get.
static Leaves overwrite(Leaves leaves) {
    for (int64_t i = 0; i < leaves.count; i++) leaves.items[i]->copy = NULL;
    return leaves;
}

// The leaves of results that take over their operands' buffers: in-place updates, elementwise kernels, and all-reduces
// operand by operand, as in XLA's buffer assignment.
static Leaves in_place(Liveness *liveness, const HloInstruction *instruction) {
    const HloInstruction *overwritten = overwritten_operand(liveness, instruction);
    if (overwritten) return overwrite(*leaves_of(liveness, overwritten));
    const HloInstruction *array = updated_operand(instruction);
    if (array && leaves_of(liveness, array)->count == 1 && may_overwrite(liveness, array))
        return overwrite(*leaves_of(liveness, array));
    Leaves leaves = define(liveness, instruction);
    if (instruction->opcode != HLO_OP_ALL_REDUCE && instruction->opcode != HLO_OP_ALL_REDUCE_START) return leaves;
    for (int32_t i = 0; i < instruction->operand_count && i < leaves.count; i++) {
        const HloInstruction *operand = instruction->operands[i];
        if (leaves_of(liveness, operand)->count != 1 || !may_overwrite(liveness, operand)) continue;
        leaves.items[i]->buffer.bytes = 0;
        leaves.items[i] = overwrite(*leaves_of(liveness, operand)).items[0];
    }
    return leaves;
}

// Whether a value is its first operand under another name.
static bool renames(const HloInstruction *instruction) {
    return emu_is_view(instruction) || hlo_is(instruction, HLO_OP_ADD_DEPENDENCY) ||
           hlo_is(instruction, HLO_OP_SET_DIMENSION_SIZE) || hlo_is(instruction, HLO_OP_ASYNC_UPDATE);
}

// The buffers of a value; NULL items for values that stay inside a kernel.
static Leaves evaluate(Liveness *liveness, const HloInstruction *instruction) {
    const bool is_root = liveness->program->kernel_of[instruction->id] >= 0;
    switch (instruction->opcode) {
        case HLO_OP_GET_TUPLE_ELEMENT: {
            const int64_t index = HLO_ATTRIBUTES(instruction, TupleIndex)->index;
            return part_of(*leaves_of(liveness, instruction->operands[0]),
                           hlo_shape_first_leaf(instruction->operands[0]->shape, index),
                           hlo_shape_leaf_count(instruction->shape));
        }
        case HLO_OP_TUPLE:
        case HLO_OP_OPTIMIZATION_BARRIER:
        case HLO_OP_DOMAIN: return concatenate_operands(liveness, instruction);
        case HLO_OP_WHILE: return leaves_of_loop(liveness, instruction);
        default: break;
    }
    if (renames(instruction) && leaves_of(liveness, instruction->operands[0])->count)
        return *leaves_of(liveness, instruction->operands[0]);
    const EmuOpClass op_class = emu_op_class(instruction->opcode);
    if (op_class == EMU_OP_DONE) return leaves_of_done(liveness, instruction);
    const bool starts = op_class == EMU_OP_COLLECTIVE_START || op_class == EMU_OP_TRANSFER_START;
    if (starts && instruction->opcode != HLO_OP_ALL_REDUCE_START) return leaves_of_start(liveness, instruction);
    if (op_class != EMU_OP_FREE && !is_root) return (Leaves){0};
    return in_place(liveness, instruction);
}

// The copy of an array in this layout that an earlier kernel needed; NULL if there is none.
static Live *find_copy(const Liveness *liveness, const Live *live, const HloShape *wanted) {
    Live *copy = live->copy;
    while (copy && !emu_same_minor(liveness->arena, liveness->chip, copy->buffer.shape, wanted)) copy = copy->copy;
    return copy;
}

// Copies an operand of an instruction where it cannot be read as it is stored, unless an earlier copy will do.
static void copy_operand(Liveness *liveness, const HloInstruction *instruction, int32_t index) {
    const Leaves *read = leaves_of(liveness, instruction->operands[index]);
    if (read->count != 1 || !hlo_shape_is_array(read->items[0]->buffer.shape)) return;
    Live *live = read->items[0];
    const bool takes_any = hlo_is(instruction, HLO_OP_DOT) || hlo_is(instruction, HLO_OP_GATHER) ||
                           hlo_is(instruction, HLO_OP_TOPK) || hlo_is(instruction, HLO_OP_SORT);
    if (takes_any && live->buffer.kind != EMU_BUFFER_ARGUMENT) return;  // kernels make it so
    const HloShape *stored = live->buffer.shape;
    const HloShape *wanted = emu_read_shape(liveness->arena, liveness->chip, instruction, index, stored);
    if (emu_same_minor(liveness->arena, liveness->chip, stored, wanted)) return;
    Live *copy = find_copy(liveness, live, wanted);
    if (!copy) {
        copy = add_copy(liveness, live, wanted, liveness->now, liveness->now);
        copy->copy = live->copy;
        live->copy = copy;
    }
    // The results of one kernel are not side by side in the plan's order, so `now` may go back.
    if (copy->first > liveness->now) copy->first = liveness->now;
    if (copy->last < liveness->now) copy->last = liveness->now;
}

// A stable sort also sorts the positions of its elements, unless they are among its operands. Nothing reads them
// afterwards. Such a result is in HBM [RT].
static void add_positions(Liveness *liveness, const HloInstruction *instruction) {
    if (!hlo_is(instruction, HLO_OP_SORT) || !HLO_ATTRIBUTES(instruction, Sort)->is_stable) return;
    for (int32_t i = 0; i < instruction->operand_count; i++)
        if (hlo_is(instruction->operands[i], HLO_OP_IOTA)) return;
    HloShape *positions = hlo_arena_copy(liveness->arena, instruction->operands[0]->shape, sizeof(*positions));
    positions->type = HLO_S32;
    new_buffer(liveness, instruction, positions, 0)->is_pinned = true;
}

// What a gather picks of widened results of a product it reads as they were before. The product writes them both ways
// if others read them widened, as the logits of a cross entropy [RT].
static void add_narrow_results(Liveness *liveness, const HloInstruction *gather) {
    if (!hlo_is(gather, HLO_OP_GATHER)) return;
    const HloInstruction *wide = gather->operands[0];
    while (emu_is_view(wide)) wide = wide->operands[0];
    if (!hlo_is(wide, HLO_OP_CONVERT) || wide->users.count < 2) return;
    const HloInstruction *product = wide->operands[0];
    const Leaves *leaves = leaves_of(liveness, wide);
    const bool widens = hlo_type_info(product->shape->type)->bits < hlo_type_info(wide->shape->type)->bits;
    if (!hlo_is(product, HLO_OP_DOT) || !widens || leaves->count != 1) return;
    if (leaves->items[0]->buffer.instruction != wide) return;
    new_buffer(liveness, gather, product->shape, 0)->first = leaves->items[0]->first;
}

// Keeps everything that a kernel reads alive until it has run. It is called for every kernel in order, so `last` ends
// as the latest.
static void touch(Liveness *liveness, const HloInstruction *instruction) {
    const bool pins = needs_hbm(instruction);
    for (int32_t i = 0; i < instruction->operand_count; i++) {
        const Leaves *leaves = leaves_of(liveness, instruction->operands[i]);
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

// The same of the result.
static const HloShape *result_shape(const HloModule *module) {
    return module->entry_result_layout ? module->entry_result_layout : module->entry->root->shape;
}

// Marks parameters. Those of the entry are arguments; those of other computations belong to the caller and cost nothing
// here. Runs before everything else, since parameters may appear anywhere in the list.
static void define_parameters(Liveness *liveness, bool entry) {
    const bool *carried = liveness->program->carried[liveness->plan->computation->id];
    for (int64_t i = 0; i < liveness->plan->order_count; i++) {
        const HloInstruction *instruction = liveness->plan->order[i];
        if (instruction->opcode != HLO_OP_PARAMETER) continue;
        const HloShape *shape = entry ? argument_shape(liveness->program->module, instruction) : instruction->shape;
        Leaves leaves = new_leaves(liveness, hlo_shape_leaf_count(shape));
        for (int64_t j = 0; j < leaves.count; j++) {
            leaves.items[j] = new_buffer(liveness, instruction, hlo_shape_leaf(shape, j), j);
            leaves.items[j]->buffer.kind = EMU_BUFFER_ARGUMENT;
            if (entry) continue;
            leaves.items[j]->buffer.bytes = 0;
            leaves.items[j]->in_vmem = carried && carried[j];
        }
        *leaves_of(liveness, instruction) = leaves;
    }
}

// Walks through a computation and records when each buffer is made and last used.
static Liveness *analyse(EmuProgram *program, HloArena *arena, const HloComputation *computation, bool entry) {
    assert(computation->root);
    Liveness *liveness = HLO_ARENA_NEW(arena, Liveness, 1);
    liveness->program = program;
    liveness->chip = emu_topology_is_tpu(program->topology) ? &program->topology->chip : NULL;
    liveness->arena = arena;
    liveness->plan = emu_program_plan(program, computation);
    liveness->leaves = HLO_ARENA_NEW(arena, Leaves, liveness->plan->order_count);
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

int64_t emu_program_called_peak(EmuProgram *program, const EmuKernel *kernel) {
    int64_t most = 0;
    if (kernel->kind != EMU_OP_CONTROL) return 0;
    for (int32_t i = 0; i < kernel->members[0]->called_count; i++) {
        const int64_t peak = temp_peak(program, kernel->members[0]->called[i]);
        if (peak > most) most = peak;
    }
    return most;
}

// Whether a temporary needs memory of its own.
static bool takes_room(const Live *live) {
    return !live->in_vmem && !live->in_result;
}

// Whether a buffer is among the temporaries that are counted. Constants are part of the program.
static bool is_counted(const Live *live) {
    return live->buffer.kind == EMU_BUFFER_TEMPORARY && live->buffer.instruction->opcode != HLO_OP_CONSTANT &&
           live->buffer.bytes > 0 && takes_room(live);
}

// The bytes of temporaries that are alive while each kernel runs: a prefix sum over the bytes that each kernel adds and
// frees.
static int64_t *bytes_alive(const Liveness *liveness) {
    const int64_t count = liveness->plan->kernel_count;
    int64_t *change = HLO_ARENA_NEW(liveness->arena, int64_t, count + 2), alive = 0;
    for (int64_t i = 0; i < liveness->buffers.count; i++) {
        const Live *live = liveness->buffers.items[i];
        if (!is_counted(live)) continue;
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

// The largest of them, and the kernel at which it occurs.
static int64_t find_peak(const Liveness *liveness, const int64_t *alive, int64_t *where) {
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

// Makes a result of the entry a copy, where the kernel makes it in another layout than the caller expects.
static void copy_result(Liveness *liveness, Live *result) {
    const HloShape *made = result->buffer.shape, *wanted = result->buffer.instruction->shape;
    if (!hlo_shape_is_array(wanted) || emu_same_minor(liveness->arena, liveness->chip, made, wanted)) return;
    result->is_copied = true;
    result->buffer.shape = wanted;
    result->buffer.bytes = emu_hbm_bytes(liveness->chip, wanted);
    add_copy(liveness, result, made, result->first, result->last);
}

// The results of a called computation are buffers of the caller and do not count here.
static void mark_results(Liveness *liveness) {
    const Leaves *results = leaves_of(liveness, liveness->plan->computation->root);
    const bool is_entry = liveness->plan->computation == liveness->program->module->entry;
    for (int64_t i = 0; i < results->count; i++) {
        Live *result = results->items[i];
        if (result->buffer.kind != EMU_BUFFER_TEMPORARY) continue;
        result->buffer.kind = EMU_BUFFER_OUTPUT;
        if (is_entry && liveness->chip) copy_result(liveness, result);
    }
}

// Notes the copies for the kernels that need them: what is read or written in HBM beside the kernel's own, and the time
// of the vector unit. A kernel counts the array itself, which only the copying reads (or writes, of a result): the copy
// is written and read beside that, if it is in HBM.
static void note_copies(Liveness *liveness) {
    EmuProgram *program = liveness->program;
    for (int64_t i = 0; i < liveness->plan->order_count; i++)
        program->copies[liveness->plan->order[i]->id] = (EmuCopies){0};
    for (int64_t i = 0; i < liveness->buffers.count; i++) {
        const Live *live = liveness->buffers.items[i];
        if (!live->copied || live->first >= liveness->plan->kernel_count) continue;
        EmuCopies *copies = &program->copies[liveness->plan->kernels[live->first].members[0]->id];
        const HloShape *from = live->copied, *to = live->buffer.shape;
        if (!live->in_vmem) copies->bytes += 2 * (double)live->buffer.bytes;
        const bool turns = !live->in_vmem && !emu_same_lanes(liveness->arena, liveness->chip, from, to);
        copies->cycles += emu_copy_cycles(liveness->chip, from, to, turns);
    }
}

// The most kernels that an array stays in VMEM: the compiler evicts what waits longer.
#define LONGEST_RESIDENCE 256

// Shortest lives first, then copies, whose kernels do nothing else than move them, larger ones before smaller ones; of
// other arrays smaller ones come first. These save the most time for the room that they take.
static int compare_lives(const void *left, const void *right) {
    const Live *a = *(Live *const *)left, *b = *(Live *const *)right;
    const int64_t length_a = a->last - a->first, length_b = b->last - b->first;
    if (length_a != length_b) return length_a < length_b ? -1 : 1;
    if (!a->copied != !b->copied) return a->copied ? -1 : 1;
    if (a->buffer.bytes != b->buffer.bytes) return (a->buffer.bytes < b->buffer.bytes) == !a->copied ? -1 : 1;
    if (a->first != b->first) return a->first < b->first ? -1 : 1;
    return (a->buffer.instruction->id > b->buffer.instruction->id) -
           (a->buffer.instruction->id < b->buffer.instruction->id);
}

static bool is_loop(const EmuKernel *kernel) {
    return kernel->kind == EMU_OP_CONTROL && hlo_is(kernel->members[0], HLO_OP_WHILE);
}

// The temporaries that may be in VMEM: what kernels and loops alone make and read, with no call or branch in between.
static LiveVector vmem_candidates(const Liveness *liveness, int64_t budget) {
    const EmuPlan *plan = liveness->plan;
    LiveVector candidates = {0};
    int64_t *calls = HLO_ARENA_NEW(liveness->arena, int64_t, plan->kernel_count + 1);  // before each kernel
    for (int64_t k = 0; k < plan->kernel_count; k++)
        calls[k + 1] = calls[k] + (plan->kernels[k].kind == EMU_OP_CONTROL && !is_loop(&plan->kernels[k]));
    for (int64_t i = 0; i < liveness->buffers.count; i++) {
        Live *live = liveness->buffers.items[i];
        const bool fits = live->buffer.bytes > 0 && live->buffer.bytes <= budget;
        if (live->buffer.kind != EMU_BUFFER_TEMPORARY || live->is_pinned || !fits) continue;
        if (live->buffer.instruction->opcode == HLO_OP_CONSTANT || live->last >= plan->kernel_count) continue;
        if (live->last - live->first > LONGEST_RESIDENCE || calls[live->last + 1] > calls[live->first]) continue;
        hlo_vector_push(liveness->arena, &candidates, live);
    }
    return candidates;
}

// The most bytes that the computations which an instruction calls have in VMEM at a time.
static int64_t vmem_of_called(EmuProgram *program, const HloInstruction *caller) {
    int64_t most = 0;
    for (int32_t i = 0; i < caller->called_count; i++) {
        temp_peak(program, caller->called[i]);  // places its arrays
        if (program->vmem_bytes[caller->called[i]->id] > most) most = program->vmem_bytes[caller->called[i]->id];
    }
    return most;
}

// Marks the leaves of a loop's state that its computations need in HBM.
static void pin_state(const Liveness *liveness, const HloInstruction *loop) {
    const Leaves *state = leaves_of(liveness, loop);
    for (int32_t c = 0; c < loop->called_count; c++) {
        const bool *pinned = liveness->program->pinned[loop->called[c]->id];
        for (int64_t i = 0; pinned && i < state->count; i++) state->items[i]->is_pinned |= pinned[i];
    }
}

// Notes which leaves of the state a computation needs in HBM, if it may be that of a loop: the network or the host
// reads them, or makes the next ones.
static void note_pinned(Liveness *liveness) {
    const HloComputation *computation = liveness->plan->computation;
    if (computation->parameters.count != 1) return;
    const HloInstruction *parameter = computation->parameters.items[0], *root = computation->root;
    const Leaves *state = leaves_of(liveness, parameter), *next = leaves_of(liveness, root);
    bool **known = &liveness->program->pinned[computation->id], *pinned = *known;
    if (!pinned) pinned = *known = HLO_ARENA_NEW(liveness->program->arena, bool, state->count);
    const bool is_body =
        hlo_shape_equal(parameter->shape, root->shape, HLO_COMPARE_IGNORE_LAYOUT) && next->count == state->count;
    for (int64_t i = 0; i < state->count; i++)
        pinned[i] = state->items[i]->is_pinned || (is_body && next->items[i]->is_pinned);
}

// Tells the computations of a loop which leaves of its state are in VMEM. They are analysed anew if that has changed.
static void note_carried(const Liveness *liveness, const HloInstruction *loop) {
    EmuProgram *program = liveness->program;
    const Leaves *state = leaves_of(liveness, loop);
    for (int32_t c = 0; c < loop->called_count; c++) {
        bool **carried = &program->carried[loop->called[c]->id], changed = false;
        if (!*carried) *carried = HLO_ARENA_NEW(program->arena, bool, state->count);
        for (int64_t i = 0; i < state->count; i++) {
            changed |= (*carried)[i] != state->items[i]->in_vmem;
            (*carried)[i] = state->items[i]->in_vmem;
        }
        if (!changed) continue;
        program->temp_peaks[loop->called[c]->id] = -1;
        temp_peak(program, loop->called[c]);
    }
}

// Puts temporaries into VMEM, as the compiler's memory-space assignment does, where no layout is fixed yet: each that
// finds room for all of its life. What calls and loops have in VMEM comes first. The results of a computation must be
// marked.
static void place_in_vmem(Liveness *liveness) {
    EmuProgram *program = liveness->program;
    const EmuPlan *plan = liveness->plan;
    const int64_t budget = liveness->chip && !program->module->is_scheduled ? emu_chip_vmem(liveness->chip) : 0;
    int64_t *used = HLO_ARENA_NEW(liveness->arena, int64_t, plan->kernel_count);
    for (int64_t k = 0; k < plan->kernel_count && budget > 0; k++) {
        if (plan->kernels[k].kind != EMU_OP_CONTROL) continue;
        used[k] = vmem_of_called(program, plan->kernels[k].members[0]);
        if (is_loop(&plan->kernels[k])) pin_state(liveness, plan->kernels[k].members[0]);
    }
    if (budget > 0) note_pinned(liveness);
    LiveVector candidates = budget > 0 ? vmem_candidates(liveness, budget) : (LiveVector){0};
    if (candidates.count) qsort(candidates.items, (size_t)candidates.count, sizeof(Live *), compare_lives);
    for (int64_t i = 0; i < candidates.count; i++) {
        Live *live = candidates.items[i];
        live->in_vmem = true;
        for (int64_t k = live->first; k <= live->last && live->in_vmem; k++)
            live->in_vmem = used[k] + live->buffer.bytes <= budget;
        for (int64_t k = live->first; k <= live->last && live->in_vmem; k++) used[k] += live->buffer.bytes;
    }
    int64_t *most = &program->vmem_bytes[plan->computation->id];
    *most = 0;
    for (int64_t k = 0; k < plan->kernel_count; k++) {
        if (used[k] > *most) *most = used[k];
        if (budget > 0 && is_loop(&plan->kernels[k])) note_carried(liveness, plan->kernels[k].members[0]);
    }
    for (int64_t i = 0; i < plan->order_count; i++)
        program->resident[plan->order[i]->id] = liveness->leaves[i].count == 1 && liveness->leaves[i].items[0]->in_vmem;
}

// Which leaves of the result are in donated arguments.
static bool *aliased_results(const Liveness *liveness) {
    const HloModule *module = liveness->program->module;
    const HloShape *root = module->entry->root->shape;
    bool *aliased = HLO_ARENA_NEW(liveness->arena, bool, hlo_shape_leaf_count(root));
    for (int64_t i = 0; i < module->aliases.count; i++)
        aliased[hlo_shape_leaf_number(root, module->aliases.items[i].output_index)] = true;
    return aliased;
}

// The memory of a result, and the temporaries that have been put there.
typedef struct Room {
    const Live *result;
    LiveVector guests;
} Room;

// Largest first, then the one that is made first.
static int compare_sizes(const void *left, const void *right) {
    const Live *a = *(Live *const *)left, *b = *(Live *const *)right;
    if (a->buffer.bytes != b->buffer.bytes) return a->buffer.bytes > b->buffer.bytes ? -1 : 1;
    if (a->first != b->first) return a->first < b->first ? -1 : 1;
    return (a->buffer.instruction->id > b->buffer.instruction->id) -
           (a->buffer.instruction->id < b->buffer.instruction->id);
}

static bool has_room(const Room *room, const Live *live) {
    const Live *result = room->result;
    const bool is_made_in_it = live->copied && live->buffer.instruction == result->buffer.instruction;
    const bool is_later = result->is_copied && !is_made_in_it;
    const int64_t written = result->first + is_later;
    if (live->buffer.bytes > result->buffer.bytes || live->last >= written) return false;
    for (int64_t i = 0; i < room->guests.count; i++)
        if (live->first <= room->guests.items[i]->last && room->guests.items[i]->first <= live->last) return false;
    return true;
}

// Notes that a temporary is in a room: of the times in which the room is taken, the bounds have the longest interval.
static void take_room(EmuRoomBounds *bounds, const Live *guest) {
    if (guest->last - guest->first <= bounds->taken_to - bounds->taken_from) return;
    bounds->taken_from = guest->first;
    bounds->taken_to = guest->last;
}

// Puts each temporary into the first room that it fits.
static void place_guests(const Liveness *liveness, Room *rooms, int64_t count, const LiveVector *guests) {
    EmuRoomBounds *bounds = HLO_ARENA_NEW(liveness->arena, EmuRoomBounds, count);
    for (int64_t r = 0; r < count; r++) {
        const Live *result = rooms[r].result;
        bounds[r] = (EmuRoomBounds){result->buffer.bytes, result->first + result->is_copied, 0, -1};
    }
    EmuRoomTree *tree = emu_room_tree_new(liveness->arena, bounds, count);
    for (int64_t i = 0; i < guests->count; i++) {
        Live *guest = guests->items[i];
        int64_t r = -1;
        do {
            r = emu_room_tree_find(tree, r + 1, guest->buffer.bytes, guest->first, guest->last);
        } while (r >= 0 && !has_room(&rooms[r], guest));
        if (r < 0) continue;
        guest->in_result = true;
        hlo_vector_push(liveness->arena, &rooms[r].guests, guest);
        take_room(&bounds[r], guest);
        emu_room_tree_set(tree, r, bounds[r]);
    }
}

// Puts temporaries, the largest first, where results will be that are made later, as XLA's buffer assignment does. The
// results in donated arguments are not free before.
static void place_in_results(Liveness *liveness) {
    const HloComputation *entry = liveness->program->module->entry;
    if (liveness->plan->computation != entry) return;
    const bool *aliased = aliased_results(liveness);
    const Leaves *results = leaves_of(liveness, entry->root);
    HLO_VECTOR(Room) rooms = {0};
    LiveVector guests = {0};
    // A root whose leaves are not those of its shape has no aliases that could be told.
    const int64_t count = hlo_shape_leaf_count(entry->root->shape);
    for (int64_t i = 0; i < results->count && i < count; i++)
        if (results->items[i]->buffer.kind == EMU_BUFFER_OUTPUT && !aliased[i])
            hlo_vector_push(liveness->arena, &rooms, ((Room){results->items[i], {0}}));
    for (int64_t i = 0; rooms.count && i < liveness->buffers.count; i++) {
        Live *live = liveness->buffers.items[i];
        if (live->buffer.kind == EMU_BUFFER_TEMPORARY && live->buffer.bytes > 0 && takes_room(live))
            hlo_vector_push(liveness->arena, &guests, live);
    }
    if (guests.count) qsort(guests.items, (size_t)guests.count, sizeof(Live *), compare_sizes);
    place_guests(liveness, rooms.items, rooms.count, &guests);
}

// Decides where the buffers of a computation are.
static void place(Liveness *liveness) {
    mark_results(liveness);
    place_in_vmem(liveness);
    place_in_results(liveness);
    note_copies(liveness);
}

int64_t emu_plan_peak(EmuProgram *program, const EmuPlan *plan) {
    int64_t where;
    const HloArenaMark mark = hlo_arena_mark(program->scratch);
    Liveness *liveness =
        analyse(program, program->scratch, plan->computation, plan->computation == program->module->entry);
    place(liveness);
    const int64_t peak = find_peak(liveness, bytes_alive(liveness), &where);
    hlo_arena_reset(program->scratch, mark);
    return peak;
}

// Bytes by kernel, to keep when the analysis is given back.
static const int64_t *copy_alive(const Liveness *liveness, const int64_t *alive) {
    return hlo_arena_copy(liveness->program->arena, alive, (size_t)liveness->plan->kernel_count * sizeof(*alive));
}

const int64_t *emu_program_alive(EmuProgram *program, const HloComputation *computation) {
    assert(computation != program->module->entry);
    const HloArenaMark mark = hlo_arena_mark(program->scratch);
    Liveness *liveness = analyse(program, program->scratch, computation, false);
    place(liveness);
    const int64_t *alive = copy_alive(liveness, bytes_alive(liveness));
    hlo_arena_reset(program->scratch, mark);
    return alive;
}

static int64_t temp_peak(EmuProgram *program, const HloComputation *computation) {
    int64_t *known = &program->temp_peaks[computation->id];
    if (*known < 0)
        *known = emu_plan_peak(program, emu_program_plan(program, computation)) + program->extra_bytes[computation->id];
    return *known;
}

// Largest first, equal ones in program order.
static int compare_buffers(const void *left, const void *right) {
    const EmuBuffer *a = left, *b = right;
    if (a->bytes != b->bytes) return a->bytes < b->bytes ? 1 : -1;
    return (a->instruction->id > b->instruction->id) - (a->instruction->id < b->instruction->id);
}

// Bytes of outputs that take over an argument's buffer. Compilation has already turned donors into aliases.
static int64_t aliased_bytes(const EmuProgram *program, const EmuChip *chip) {
    int64_t total = 0;
    const HloModule *module = program->module;
    const HloShape *result = result_shape(module);
    for (int64_t i = 0; i < module->aliases.count; i++) {
        const HloShape *shape = hlo_shape_at(result, module->aliases.items[i].output_index);
        if (shape) total += emu_hbm_bytes(chip, shape);
    }
    return total;
}

typedef HLO_VECTOR(EmuBuffer) BufferVector;

// The call whose temporaries a control kernel has at its peak; NULL if it has none.
static const HloComputation *largest_called(EmuProgram *program, const EmuKernel *kernel) {
    const HloComputation *found = NULL;
    int64_t most = 0;
    for (int32_t i = 0; kernel->kind == EMU_OP_CONTROL && i < kernel->members[0]->called_count; i++) {
        const int64_t peak = temp_peak(program, kernel->members[0]->called[i]);
        if (peak <= most) continue;
        most = peak;
        found = kernel->members[0]->called[i];
    }
    return found;
}

// The results of transfers that were started one iteration ahead, beside those of this iteration.
static void collect_held(EmuProgram *program, HloArena *arena, const HloComputation *body, const HloInstruction *loop,
                         BufferVector *buffers) {
    const HloInstructionVector *held = &program->held[body->id];
    for (int64_t i = 0; i < held->count; i++) {
        const HloShape *shape = NULL;
        int64_t largest = 0;
        const EmuChip *chip = &program->topology->chip;
        for (int64_t leaf = 0; leaf < hlo_shape_leaf_count(held->items[i]->shape); leaf++) {
            const HloShape *candidate = hlo_shape_leaf(held->items[i]->shape, leaf);
            if (shape && emu_hbm_bytes(chip, candidate) <= emu_hbm_bytes(chip, shape)) continue;
            shape = candidate;
            largest = leaf;
        }
        const EmuBuffer buffer = {.instruction = held->items[i],
                                  .shape = shape,
                                  .leaf = largest,
                                  .bytes = emu_hbm_bytes(chip, shape),
                                  .unpadded_bytes = emu_unpadded_bytes(shape),
                                  .kind = EMU_BUFFER_TEMPORARY,
                                  .caller = loop};
        hlo_vector_push(arena, buffers, buffer);
    }
}

// The temporaries that are alive while kernel `where` runs, with those of what it calls at their own peak.
static void collect_alive(const Liveness *liveness, int64_t where, const HloInstruction *caller,
                          BufferVector *buffers) {
    EmuProgram *program = liveness->program;
    for (int64_t i = 0; i < liveness->buffers.count; i++) {
        const Live *live = liveness->buffers.items[i];
        if (!is_counted(live) || live->first > where || live->last < where) continue;
        EmuBuffer buffer = live->buffer;
        buffer.caller = caller;
        hlo_vector_push(liveness->arena, buffers, buffer);
    }
    if (where >= liveness->plan->kernel_count) return;
    const EmuKernel *kernel = &liveness->plan->kernels[where];
    const HloComputation *called = largest_called(program, kernel);
    if (!called) return;
    Liveness *inner = analyse(program, liveness->arena, called, false);
    place(inner);
    int64_t peak;
    find_peak(inner, bytes_alive(inner), &peak);
    collect_alive(inner, peak, kernel->members[0], buffers);
    collect_held(program, liveness->arena, called, kernel->members[0], buffers);
}

// The results that are not in donated arguments, also those that are arguments as they came.
static void collect_results(Liveness *liveness, BufferVector *buffers) {
    const HloModule *module = liveness->program->module;
    const HloShape *result = result_shape(module);
    const Leaves *leaves = leaves_of(liveness, module->entry->root);
    const int64_t count = hlo_shape_leaf_count(result);
    const bool *aliased = aliased_results(liveness);
    for (int64_t i = 0; i < count && i < leaves->count; i++) {
        const HloShape *shape = hlo_shape_leaf(result, i);
        const int64_t bytes = emu_hbm_bytes(liveness->chip, shape);
        const EmuBuffer buffer = {.instruction = leaves->items[i]->buffer.instruction,
                                  .shape = shape,
                                  .leaf = leaves->items[i]->buffer.leaf,
                                  .bytes = bytes,
                                  .unpadded_bytes = emu_unpadded_bytes(shape),
                                  .kind = EMU_BUFFER_OUTPUT};
        if (bytes && !aliased[i]) hlo_vector_push(liveness->arena, buffers, buffer);
    }
}

// The tables of addresses that represent the tuples of the result.
static void collect_tables(Liveness *liveness, BufferVector *buffers) {
    const HloModule *module = liveness->program->module;
    const int64_t bytes = emu_tuple_table_bytes(liveness->chip, result_shape(module));
    if (!bytes) return;
    int64_t count = hlo_shape_leaf_count(result_shape(module));
    if (4 * count > bytes) count = bytes / 4;
    const EmuBuffer buffer = {.instruction = module->entry->root,
                              .shape = hlo_shape_array(liveness->arena, HLO_U32, &count, 1),
                              .leaf = -1,
                              .bytes = bytes,
                              .unpadded_bytes = 4 * count,
                              .kind = EMU_BUFFER_TABLE};
    hlo_vector_push(liveness->arena, buffers, buffer);
}

static bool is_argument(const Live *live) {
    return live->buffer.kind == EMU_BUFFER_ARGUMENT && live->buffer.bytes;
}

// Adds up the memory of a program, but for the list of its largest buffers, with an analysis in `arena`. Arguments and
// outputs count for the whole step, less the bytes that they share; temporaries count with the most that are alive at
// one time, *where.
static Liveness *measure(EmuProgram *program, HloArena *arena, EmuMemory *memory, int64_t *where) {
    Liveness *liveness = analyse(program, arena, program->module->entry, true);
    const HloShape *result = result_shape(program->module);
    const EmuChip *chip = liveness->chip;
    place(liveness);
    *memory = (EmuMemory){.output_bytes = emu_hbm_bytes(chip, result) + emu_tuple_table_bytes(chip, result),
                          .alias_bytes = aliased_bytes(program, chip),
                          .alive = bytes_alive(liveness)};
    memory->temp_bytes = find_peak(liveness, memory->alive, where);
    for (int64_t i = 0; i < liveness->buffers.count; i++)
        if (is_argument(liveness->buffers.items[i])) memory->argument_bytes += liveness->buffers.items[i]->buffer.bytes;
    assert(memory->alias_bytes <= memory->output_bytes);
    memory->peak_bytes = memory->argument_bytes + memory->output_bytes - memory->alias_bytes + memory->temp_bytes;
    return liveness;
}

int64_t emu_program_peak(EmuProgram *program) {
    assert(program);
    EmuMemory memory;
    int64_t where;
    const HloArenaMark mark = hlo_arena_mark(program->scratch);
    measure(program, program->scratch, &memory, &where);
    hlo_arena_reset(program->scratch, mark);
    return memory.peak_bytes;
}

// The same with that list, in `arena` too. The largest buffers are those of the moment with the most temporaries.
static Liveness *measure_all(EmuProgram *program, HloArena *arena, EmuMemory *memory) {
    int64_t where;
    Liveness *liveness = measure(program, arena, memory, &where);
    BufferVector buffers = {0};
    for (int64_t i = 0; i < liveness->buffers.count; i++)
        if (is_argument(liveness->buffers.items[i]))
            hlo_vector_push(arena, &buffers, liveness->buffers.items[i]->buffer);
    collect_results(liveness, &buffers);
    collect_tables(liveness, &buffers);
    collect_alive(liveness, where, NULL, &buffers);
    if (buffers.count) qsort(buffers.items, (size_t)buffers.count, sizeof(*buffers.items), compare_buffers);
    memory->largest = buffers.items;
    memory->largest_count = buffers.count;
    return liveness;
}

void emu_program_memory(EmuProgram *program, EmuMemory *memory) {
    assert(program && memory);
    measure_all(program, program->arena, memory);
}

// What calls need is analysed as for the lists, so that what is in VMEM does not depend on who asks.
void emu_program_usage(EmuProgram *program, EmuMemory *memory) {
    assert(program && memory);
    const HloArenaMark mark = hlo_arena_mark(program->scratch);
    const Liveness *liveness = measure_all(program, program->scratch, memory);
    memory->alive = copy_alive(liveness, memory->alive);
    memory->largest = NULL;
    memory->largest_count = 0;
    hlo_arena_reset(program->scratch, mark);
}

// The buffers of a trace after which a call's temporaries become one buffer.
#define MOST_TRACED 20000

// A temporary and its number in the trace.
typedef struct Traced {
    const Live *live;
    int64_t number;
} Traced;

typedef struct Tracer {
    EmuProgram *program;
    BufferVector buffers;
    HLO_VECTOR(EmuMemoryEvent) events;
} Tracer;

static void trace_event(Tracer *tracer, int64_t buffer, bool is_freed, const HloInstruction *at) {
    hlo_vector_push(tracer->program->arena, &tracer->events, ((EmuMemoryEvent){buffer, is_freed, at}));
}

static int64_t trace_buffer(Tracer *tracer, EmuBuffer buffer, const HloInstruction *caller) {
    buffer.caller = caller;
    hlo_vector_push(tracer->program->arena, &tracer->buffers, buffer);
    return tracer->buffers.count - 1;
}

static int compare_first_uses(const void *left, const void *right) {
    const Live *a = ((const Traced *)left)->live, *b = ((const Traced *)right)->live;
    if (a->first != b->first) return a->first < b->first ? -1 : 1;
    return (a->buffer.instruction->id > b->buffer.instruction->id) -
           (a->buffer.instruction->id < b->buffer.instruction->id);
}

// Equal ones in the order of their numbers.
static int compare_last_uses(const void *left, const void *right) {
    const Traced *a = left, *b = right;
    if (a->live->last != b->live->last) return a->live->last < b->live->last ? -1 : 1;
    return (a->number > b->number) - (a->number < b->number);
}

static void trace_computation(Tracer *tracer, const Liveness *liveness, const HloInstruction *caller);

// What a kernel calls has its temporaries one computation after another.
static void trace_calls(Tracer *tracer, const EmuKernel *kernel) {
    EmuProgram *program = tracer->program;
    HloInstruction *caller = kernel->members[0];
    for (int32_t i = 0; kernel->kind == EMU_OP_CONTROL && i < caller->called_count; i++) {
        const int64_t peak = temp_peak(program, caller->called[i]);
        if (!peak) continue;
        if (tracer->buffers.count < MOST_TRACED) {
            Liveness *inner = analyse(program, program->arena, caller->called[i], false);
            place(inner);
            trace_computation(tracer, inner, caller);
            continue;
        }
        const EmuBuffer whole = {
            .instruction = caller, .shape = caller->shape, .leaf = -1, .bytes = peak, .kind = EMU_BUFFER_TEMPORARY};
        const int64_t number = trace_buffer(tracer, whole, caller);
        trace_event(tracer, number, false, caller);
        trace_event(tracer, number, true, caller);
    }
}

// What was started an iteration ahead is alive all the time.
static void trace_computation(Tracer *tracer, const Liveness *liveness, const HloInstruction *caller) {
    const EmuPlan *plan = liveness->plan;
    const int64_t held = tracer->buffers.count;
    if (caller) collect_held(tracer->program, liveness->arena, plan->computation, caller, &tracer->buffers);
    const int64_t held_end = tracer->buffers.count;
    for (int64_t i = held; i < held_end; i++) trace_event(tracer, i, false, tracer->buffers.items[i].instruction);
    Traced *starts = HLO_ARENA_NEW(liveness->arena, Traced, liveness->buffers.count + 1);
    int64_t count = 0;
    for (int64_t i = 0; i < liveness->buffers.count; i++)
        if (is_counted(liveness->buffers.items[i]) && liveness->buffers.items[i]->first < plan->kernel_count)
            starts[count++].live = liveness->buffers.items[i];
    qsort(starts, (size_t)count, sizeof(*starts), compare_first_uses);
    for (int64_t i = 0; i < count; i++) starts[i].number = trace_buffer(tracer, starts[i].live->buffer, caller);
    Traced *ends = hlo_arena_copy(liveness->arena, starts, (size_t)(count + 1) * sizeof(*starts));
    qsort(ends, (size_t)count, sizeof(*ends), compare_last_uses);
    int64_t made = 0, freed = 0;
    for (int64_t k = 0; k < plan->kernel_count; k++) {
        const EmuKernel *kernel = &plan->kernels[k];
        for (; made < count && starts[made].live->first == k; made++)
            trace_event(tracer, starts[made].number, false, starts[made].live->buffer.instruction);
        trace_calls(tracer, kernel);
        for (; freed < count && ends[freed].live->last == k; freed++)
            trace_event(tracer, ends[freed].number, true, kernel->members[kernel->member_count - 1]);
    }
    for (; freed < made; freed++) trace_event(tracer, ends[freed].number, true, plan->computation->root);
    for (int64_t i = held; i < held_end; i++) trace_event(tracer, i, true, plan->computation->root);
}

void emu_program_trace_memory(EmuProgram *program, EmuMemoryTrace *trace) {
    assert(program && trace);
    Tracer tracer = {.program = program};
    Liveness *liveness = analyse(program, program->arena, program->module->entry, true);
    place(liveness);
    trace_computation(&tracer, liveness, NULL);
    *trace = (EmuMemoryTrace){tracer.buffers.items, tracer.buffers.count, tracer.events.items, tracer.events.count};
}
