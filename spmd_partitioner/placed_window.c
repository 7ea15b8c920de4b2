// SPDX-License-Identifier: Apache-2.0
// Updates of a large part of an array at a place that is known (`x.at[1:-1].set(u)`). A scatter, or a
// dynamic-update-slice, along a sharded dimension needs the update on every device. What it computes is
//     select(inside, update moved to its place, x)         or, where updates are combined with the old elements,
//     select(inside, combine(x, update moved), x)
// and of an update moved to its place each device needs its own shard. Elements outside of the place do not matter. So
// an update that is computed of slices of an array need not be moved after that: the slices become shifts of the array.
//     %s = f32[62] slice(f32[64] %x), slice={[2:64]}        at 1 of f32[64]: pad(%x), padding=-1_1
// The same holds for rows at equal distances (`x.at[1::2].set(u)`): the update is moved with holes between its rows.
//
// Small updates, like a row of a cache, stay as they are: they are written in place, and sent to all devices.
#include <assert.h>

#include "hlo/analysis/progression.h"
#include "hlo/ir/instruction.h"
#include "hlo/ir/literal.h"
#include "spmd_partitioner/chain.h"
#include "spmd_partitioner/rule.h"

enum {
    INDICES = HLO_MAXIMUM_RANK,  // components of an index
    DEPTH = 12,                  // of the ops that compute an update, as far as they are looked at
    LARGE = 2,                   // an update is large from this part of the array on: a half
};

// An update and where it goes.
typedef struct Placed {
    HloInstruction *array, *update;
    const HloComputation *combiner;  // NULL: updates replace the old elements
    int64_t starts[INDICES], sizes[INDICES], strides[INDICES];
} Placed;

// Reads up to `count` integers that are known from a small array; how many there are, -1 if they are not known.
static int64_t known_integers(const HloInstruction *at, int64_t *values, int64_t count, int32_t depth) {
    if (!hlo_shape_is_array(at->shape) || !hlo_type_is_integer(at->shape->type) || hlo_shape_is_dynamic(at->shape))
        return -1;
    const int64_t elements = hlo_shape_elements(at->shape);
    if (elements > count || depth == 0) return -1;
    switch (at->opcode) {
        case HLO_OP_CONSTANT:
            if (hlo_constant_literal(at)->elided) return -1;
            for (int64_t i = 0; i < elements; i++) values[i] = hlo_literal_get_int64(hlo_constant_literal(at), i);
            return elements;
        case HLO_OP_RESHAPE: return known_integers(at->operands[0], values, count, depth - 1);
        case HLO_OP_BROADCAST:
            if (hlo_shape_elements(at->operands[0]->shape) != 1 || elements == 0 ||
                known_integers(at->operands[0], values, count, depth - 1) != 1)
                return -1;
            for (int64_t i = 1; i < elements; i++) values[i] = values[0];
            return elements;
        case HLO_OP_CONCATENATE: {
            int64_t total = 0;
            for (int32_t i = 0; at->shape->rank == 1 && i < at->operand_count; i++) {
                const int64_t more = known_integers(at->operands[i], values + total, count - total, depth - 1);
                if (more < 0) return -1;
                total += more;
            }
            return total == elements ? total : -1;
        }
        default: return -1;
    }
}

static bool read_progression(const HloInstruction *at, int64_t count, HloProgression *found, int32_t depth);

// JAX counts negative indices from the end: select(i < 0, i + size, i). Those that are not negative stay.
static bool read_unwrapped(const HloInstruction *at, int64_t count, HloProgression *found, int32_t depth) {
    const HloInstruction *test = at->operands[0];
    HloProgression zero;
    return hlo_is(test, HLO_OP_COMPARE) && HLO_ATTRIBUTES(test, Compare)->direction == HLO_ComparisonDirection_LT &&
           test->operands[0] == at->operands[2] && read_progression(test->operands[1], count, &zero, depth) &&
           !zero.start && !zero.step && read_progression(at->operands[2], count, found, depth) && found->start >= 0 &&
           found->step >= 0;
}

static bool read_growing(const HloInstruction *at, int64_t count, HloProgression *found, int32_t depth);

// Reads an array of `count` integers, in one dimension beside others of size 1.
static bool read_progression(const HloInstruction *at, int64_t count, HloProgression *found, int32_t depth) {
    return read_growing(at, count, found, depth) && hlo_progression_fits(*found, count, at->shape->type);
}

// The same, as if the type held all integers.
static bool read_growing(const HloInstruction *at, int64_t count, HloProgression *found, int32_t depth) {
    if (!hlo_shape_is_array(at->shape) || !hlo_type_is_integer(at->shape->type) || hlo_shape_is_dynamic(at->shape) ||
        depth == 0)
        return false;
    int64_t value;
    if (hlo_shape_elements(at->shape) == 1) {
        *found = (HloProgression){0, 0};
        return known_integers(at, &found->start, 1, depth) == 1;
    }
    if (hlo_shape_elements(at->shape) != count) return false;
    HloProgression b;
    switch (at->opcode) {
        case HLO_OP_IOTA:
            *found = (HloProgression){0, 1};
            return at->shape->dims[HLO_ATTRIBUTES(at, Iota)->dimension] == count;
        case HLO_OP_CONSTANT:
            if (hlo_constant_literal(at)->elided) return false;
            found->start = hlo_literal_get_int64(hlo_constant_literal(at), 0);
            found->step = hlo_literal_get_int64(hlo_constant_literal(at), 1) - found->start;
            for (int64_t i = 2; i < count; i++) {
                value = hlo_literal_get_int64(hlo_constant_literal(at), i);
                if (value - hlo_literal_get_int64(hlo_constant_literal(at), i - 1) != found->step) return false;
            }
            return true;
        case HLO_OP_RESHAPE:
        case HLO_OP_BROADCAST:
        case HLO_OP_COPY: return read_progression(at->operands[0], count, found, depth - 1);
        case HLO_OP_ADD:
        case HLO_OP_SUBTRACT:
        case HLO_OP_MULTIPLY:
            return read_progression(at->operands[0], count, found, depth - 1) &&
                   read_progression(at->operands[1], count, &b, depth - 1) &&
                   hlo_progression_combine(at->opcode, *found, b, found);
        case HLO_OP_SELECT: return read_unwrapped(at, count, found, depth - 1);
        default: return false;
    }
}

// Whether updates replace elements (*combiner is NULL then), or are combined with them in any order.
static bool read_combiner(const HloComputation *called, const HloComputation **combiner) {
    *combiner = called->root == called->parameters.items[1] ? NULL : called;
    return !*combiner || spmd_rule_combiner(called) != HLO_OPCODE_COUNT;
}

// A scatter of whole rows at equal distances. The rows of the update are in the dimension of those of the array.
static bool read_rows(const HloInstruction *at, Placed *placed) {
    const HloScatterAttributes *scatter = HLO_ATTRIBUTES(at, Scatter);
    const HloInts map = scatter->scatter_dims_to_operand_dims;
    const HloShape *update = placed->update->shape, *indices = at->operands[1]->shape;
    if (map.count != 1 || scatter->inserted_window_dims.count != 1 || update->rank != at->shape->rank) return false;
    const int64_t along = map.items[0];
    if (scatter->inserted_window_dims.items[0] != along || hlo_ints_contain(scatter->update_window_dims, along))
        return false;
    HloProgression rows;
    const int64_t count = update->dims[along];
    if (hlo_shape_elements(indices) != count || count < 2 || !read_progression(at->operands[1], count, &rows, DEPTH))
        return false;
    placed->starts[along] = rows.start;
    placed->sizes[along] = count;
    placed->strides[along] = rows.step;
    return rows.step > 0 && rows.step < at->shape->dims[along];
}

// A scatter of one window, or of rows at equal distances.
static bool read_scatter(const HloInstruction *at, Placed *placed) {
    const HloScatterAttributes *scatter = HLO_ATTRIBUTES(at, Scatter);
    if (at->operand_count != 3 || scatter->input_batching_dims.count ||
        !read_combiner(at->called[0], &placed->combiner))
        return false;
    int64_t indices[INDICES];
    const HloInts map = scatter->scatter_dims_to_operand_dims;
    placed->array = at->operands[0];
    placed->update = at->operands[2];
    const bool window = known_integers(at->operands[1], indices, INDICES, DEPTH) == map.count;
    int64_t next = 0;
    for (int32_t d = 0; d < at->shape->rank; d++) {
        const bool inserted = hlo_ints_contain(scatter->inserted_window_dims, d);
        placed->starts[d] = 0;
        placed->strides[d] = 1;
        placed->sizes[d] = inserted ? 1 : placed->update->shape->dims[scatter->update_window_dims.items[next++]];
    }
    for (int64_t i = 0; window && i < map.count; i++) placed->starts[map.items[i]] = indices[i];
    return window || read_rows(at, placed);
}

static bool read_update_slice(const HloInstruction *at, Placed *placed) {
    placed->array = at->operands[0];
    placed->update = at->operands[1];
    placed->combiner = NULL;
    if (at->operand_count != 2 + at->shape->rank) return false;
    for (int32_t d = 0; d < at->shape->rank; d++) {
        if (known_integers(at->operands[2 + d], &placed->starts[d], 1, DEPTH) != 1) return false;
        placed->sizes[d] = placed->update->shape->dims[d];
        placed->strides[d] = 1;
    }
    return true;
}

// The elements of a dimension from the first one that is updated to the last.
static int64_t extent_of(const Placed *placed, int64_t dim) {
    return (placed->sizes[dim] - 1) * placed->strides[dim] + 1;
}

// Reads an op that updates a large part of an array at a known place inside of it.
static bool read_placed(const HloInstruction *at, Placed *placed) {
    if (!hlo_shape_is_array(at->shape) || hlo_shape_is_dynamic(at->shape) || at->shape->rank > INDICES) return false;
    if (hlo_is(at, HLO_OP_SCATTER) ? !read_scatter(at, placed) : !read_update_slice(at, placed)) return false;
    const int64_t elements = hlo_shape_elements(at->shape), updated = hlo_shape_elements(placed->update->shape);
    if (hlo_shape_is_dynamic(placed->update->shape) || !updated) return false;
    int64_t window = 1, covered = 1;
    for (int32_t d = 0; d < at->shape->rank; d++) {
        window *= placed->sizes[d];
        // What is outside is dropped by a scatter, and moved inside by a dynamic-update-slice.
        if (placed->starts[d] < 0 || placed->sizes[d] > at->shape->dims[d] ||
            placed->starts[d] > at->shape->dims[d] - extent_of(placed, d))
            return false;
        covered *= extent_of(placed, d);
    }
    if (covered < elements / LARGE) return false;
    const HloInstruction *update = placed->update;
    // What is there already, an update leaves to the simplifier.
    const bool own = hlo_is(update, HLO_OP_SLICE) && update->operands[0] == placed->array;
    return window == updated && !own;  // one, not a list of them without indices
}

bool spmd_is_placed_window(const HloInstruction *at) {
    Placed placed;
    return (hlo_is(at, HLO_OP_SCATTER) || hlo_is(at, HLO_OP_DYNAMIC_UPDATE_SLICE)) && read_placed(at, &placed);
}

// ---- writing it

// Where new instructions go.
typedef struct Writer {
    HloInstruction *before;
    HloArena *arena;
    const HloShape *shape;   // of the array that is updated
    const int64_t *strides;  // of the places of updates, by dimension
} Writer;

static HloInstruction *write_op(const Writer *writer, HloOpcode opcode, const HloShape *shape,
                                HloInstruction *const *operands, int64_t count, const void *attributes) {
    HloInstruction *made =
        hlo_instruction_new(writer->before->parent, opcode, shape, operands, count, attributes, NULL);
    made->metadata = writer->before->metadata;
    hlo_instruction_move_before(made, writer->before);
    return made;
}

// The shape of the updated array with another element type.
static const HloShape *whole_shape(const Writer *writer, HloType type) {
    return hlo_shape_with_type(writer->arena, writer->shape, type);
}

static HloInstruction *write_scalar(const Writer *writer, HloType type, int64_t value) {
    HloLiteral *literal = hlo_literal_in_arena(writer->arena, hlo_shape_scalar(writer->arena, type));
    if (value) hlo_literal_set_int64(literal, 0, value);
    const HloConstantAttributes attributes = {literal};
    return write_op(writer, HLO_OP_CONSTANT, literal->shape, NULL, 0, &attributes);
}

// A scalar in the size of the array.
static HloInstruction *write_splat(const Writer *writer, HloInstruction *scalar) {
    const HloDimensionsAttributes attributes = {{NULL, 0}};
    return write_op(writer, HLO_OP_BROADCAST, whole_shape(writer, scalar->shape->type), &scalar, 1, &attributes);
}

// An array moved so that its first element is at `low` and the others follow at the distances `strides` (NULL: 1), in
// the size of the updated one. The rest is zero.
static HloInstruction *write_moved(const Writer *writer, HloInstruction *array, const int64_t *low,
                                   const int64_t *strides) {
    const int32_t rank = writer->shape->rank;
    HloPadDimension *amounts = HLO_ARENA_NEW(writer->arena, HloPadDimension, rank);
    bool moves = false;
    for (int32_t d = 0; d < rank; d++) {
        const int64_t size = array->shape->dims[d], holes = strides ? strides[d] - 1 : 0;
        const int64_t extent = size + (size > 0 ? (size - 1) * holes : 0);
        amounts[d] =
            (HloPadDimension){.low = low[d], .high = writer->shape->dims[d] - low[d] - extent, .interior = holes};
        moves |= amounts[d].low || amounts[d].high || holes;
    }
    if (!moves) return array;
    HloInstruction *operands[2] = {array, write_scalar(writer, array->shape->type, 0)};
    const HloPadAttributes attributes = {{amounts, rank}};
    return write_op(writer, HLO_OP_PAD, whole_shape(writer, array->shape->type), operands, 2, &attributes);
}

// Where the operand of a slice begins so that the slice itself begins at `starts`; false for slices that are no shift.
static bool shift_of(const Writer *writer, const HloInstruction *slice, const int64_t *starts, int64_t *low) {
    const HloSliceAttributes *attributes = HLO_ATTRIBUTES(slice, Slice);
    const HloShape *array = slice->operands[0]->shape;
    for (int32_t d = 0; d < array->rank; d++) {
        low[d] = starts[d] - attributes->starts.items[d];
        const int64_t high = writer->shape->dims[d] - low[d] - array->dims[d];
        const int64_t stride = attributes->strides.count ? attributes->strides.items[d] : 1;
        if ((stride != writer->strides[d] && slice->shape->dims[d] > 1) || low[d] < -array->dims[d] ||
            high < -array->dims[d])
            return false;
    }
    return true;
}

// `at` in the size of the updated array, at `starts` of it. The rest is undefined.
static HloInstruction *write_placed(const Writer *writer, HloInstruction *at, const int64_t *starts, int32_t depth) {
    int64_t low[INDICES];
    const bool plain = !at->sharding && !at->control_predecessors.count && !at->control_successors.count && depth > 0;
    if (plain && hlo_is(at, HLO_OP_SLICE) && shift_of(writer, at, starts, low))
        return write_moved(writer, at->operands[0], low, NULL);
    if (plain && hlo_is(at, HLO_OP_BROADCAST) && hlo_shape_is_scalar(at->operands[0]->shape))
        return write_splat(writer, at->operands[0]);
    if (!plain || !hlo_op_is(at->opcode, HLO_OP_IS_ELEMENTWISE) || at->users.count != 1 || !at->operand_count)
        return write_moved(writer, at, starts, writer->strides);
    HloInstruction *operands[3];
    if (at->operand_count > 3) return write_moved(writer, at, starts, writer->strides);
    for (int32_t i = 0; i < at->operand_count; i++) {
        // A scalar may stand for an array of equal elements.
        const bool scalar = hlo_shape_is_scalar(at->operands[i]->shape);
        operands[i] = scalar ? at->operands[i] : write_placed(writer, at->operands[i], starts, depth - 1);
    }
    HloInstruction *made =
        hlo_instruction_clone(at->parent, at, whole_shape(writer, at->shape->type), operands, at->operand_count);
    hlo_instruction_move_before(made, writer->before);
    return made;
}

// pred: where the position along dimension `d` is one of the update's rows.
static HloInstruction *write_rows(const Writer *writer, const Placed *placed, int32_t d, HloType type) {
    const HloIotaAttributes along = {d};
    const HloCompareAttributes compare = {.direction = HLO_ComparisonDirection_EQ};
    HloInstruction *divided[2] = {write_op(writer, HLO_OP_IOTA, whole_shape(writer, type), NULL, 0, &along),
                                  write_splat(writer, write_scalar(writer, type, placed->strides[d]))};
    HloInstruction *both[2] = {write_op(writer, HLO_OP_REMAINDER, whole_shape(writer, type), divided, 2, NULL),
                               write_splat(writer, write_scalar(writer, type, placed->starts[d] % placed->strides[d]))};
    return write_op(writer, HLO_OP_COMPARE, whole_shape(writer, HLO_PRED), both, 2, &compare);
}

// pred: where an element is inside of the place; NULL if all are.
static HloInstruction *write_inside(const Writer *writer, const Placed *placed) {
    HloInstruction *inside = NULL;
    for (int32_t d = 0; d < writer->shape->rank; d++) {
        const int64_t ends[2] = {placed->starts[d], placed->starts[d] + extent_of(placed, d)};
        const HloType type = writer->shape->dims[d] > INT32_MAX ? HLO_S64 : HLO_S32;
        for (int end = 0; end < 2; end++) {
            if (end ? ends[1] == writer->shape->dims[d] : ends[0] == 0) continue;
            const HloIotaAttributes along = {d};
            HloInstruction *operands[2] = {write_op(writer, HLO_OP_IOTA, whole_shape(writer, type), NULL, 0, &along),
                                           write_splat(writer, write_scalar(writer, type, ends[end]))};
            const HloCompareAttributes compare = {.direction =
                                                      end ? HLO_ComparisonDirection_LT : HLO_ComparisonDirection_GE};
            HloInstruction *test =
                write_op(writer, HLO_OP_COMPARE, whole_shape(writer, HLO_PRED), operands, 2, &compare);
            HloInstruction *both[2] = {inside, test};
            inside = inside ? write_op(writer, HLO_OP_AND, test->shape, both, 2, NULL) : test;
        }
        if (placed->strides[d] == 1) continue;
        HloInstruction *both[2] = {inside, write_rows(writer, placed, d, type)};
        inside = inside ? write_op(writer, HLO_OP_AND, both[1]->shape, both, 2, NULL) : both[1];
    }
    return inside;
}

HloInstruction *spmd_join_placed_window(HloInstruction *at) {
    Placed placed;
    const bool reads = read_placed(at, &placed);
    assert(reads); /* spmd_is_placed_window() */
    (void)reads;
    HloArena *arena = at->parent->module->arena;
    const Writer writer = {.before = at, .arena = arena, .shape = at->shape, .strides = placed.strides};
    HloInstruction *update = placed.update;
    const HloShape *window = hlo_shape_with_default_layout(
        arena, hlo_shape_array(arena, update->shape->type, placed.sizes, at->shape->rank));
    if (!hlo_shape_equal(window, update->shape, HLO_COMPARE_DIMS_ONLY))
        update = write_op(&writer, HLO_OP_RESHAPE, window, &update, 1, NULL);
    HloInstruction *moved = write_placed(&writer, update, placed.starts, DEPTH);
    if (placed.combiner) {
        HloInstruction *both[2] = {placed.array, moved};
        moved = write_op(&writer, placed.combiner->root->opcode, at->shape, both, 2, NULL);
    }
    HloInstruction *inside = write_inside(&writer, &placed);
    HloInstruction *choice[3] = {inside, moved, placed.array};
    HloInstruction *made = inside ? write_op(&writer, HLO_OP_SELECT, at->shape, choice, 3, NULL)
                                  : write_op(&writer, HLO_OP_COPY, at->shape, &moved, 1, NULL);
    hlo_instruction_copy_annotations(made, at);
    return made;
}
