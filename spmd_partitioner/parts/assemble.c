// SPDX-License-Identifier: Apache-2.0
// A concatenation along a sharded dimension moves nearly all of its operands. Where they are parts of other arrays, or
// are computed elementwise of such parts, the parts were moved before, to be cut out. Both at once:
//
//     %a = slice(f32[64] %x), [0:32]   %b = slice(%x), [32:64]   %n = negate(%b)   %t = concatenate(%n, %a)
//     region [0,32) of %t is negate(part of %x from 32), region [32,64) is the part of %x from 0
//     one column: %x rotated by 32, which each device gets of the device halfway round
//     %t = select(position < 32, negate(column), column)
//
// A region of the result is a tree of elementwise ops and broadcasts over leaves, which are parts of arrays (pieces.h).
// Leaves of different regions that are parts of one array share a column: an array in the result's sharding that holds
// the one's elements in its region and the other's in the other. So each tree can be computed on whole columns, and the
// result selects by position. Columns that hold an array as it is cost nothing: of concatenate(a * c - b * s, b * c + a
// * s) with halves a and b of %x, one column is %x and the other %x rotated.
#include "spmd_partitioner/parts/assemble.h"

#include <assert.h>

#include "hlo/ir/attributes.h"
#include "spmd_partitioner/chain.h"
#include "spmd_partitioner/emit.h"
#include "spmd_partitioner/parts/owned.h"
#include "spmd_partitioner/parts/pieces.h"

enum {
    MOST_REGIONS = 12,
    MOST_LEAVES = 48,  // of all regions
    MOST_COLUMNS = 12,
    MOST_OPS = 96,  // of all trees
    MOST_DEPTH = 12,
    MOST_OPERANDS = 3,
};

// Elements [target, target + size) of the result are those of `value` from `start` on.
typedef struct Region {
    const HloInstruction *value;
    int64_t target, size, start;
} Region;

// An array in the result's sharding, along `dim`, made of pieces of another one.
typedef struct Column {
    SpmdPiecewise pieces;          // its dimension `dim` is in elements of the result
    int32_t dim;                   // that is the result's
    const SpmdSharding *sharding;  // of the array that the pieces are taken from
    int64_t shift;                 // of the first piece: source - target, modulo the array's size
    int32_t last_region;
    SpmdMoves **moves;  // by dimension; NULL where there are none
    HloInstruction *made;
} Column;

// What an instruction's dimension `dim` holds in a region, in a sharding: two broadcasts of one array may shard
// different dimensions of it.
typedef struct Leaf {
    const HloInstruction *at;
    const SpmdSharding *sharding;
    int32_t region, dim, column;
} Leaf;

typedef struct Assembly {
    SpmdPartitioner *partitioner;
    int64_t along, extent;  // the dimension of the result, and its size
    const SpmdSharding *sharding;
    SpmdAxes axes;  // of the dimension
    bool deep;      // through what moves elements along other sharded dimensions too
    bool is_made;   // parts are taken of values as they are made, not computed of parts of their operands
    int32_t region_count, leaf_count, column_count, op_count, source_count;
    Region regions[MOST_REGIONS];
    Leaf leaves[MOST_LEAVES];
    Column columns[MOST_COLUMNS];
    struct {
        const HloInstruction *at;
        HloInstruction *made;
    } ops[MOST_OPS];
    const HloInstruction *sources[MOST_OPS];  // ops that are looked through
    int64_t cost;
    bool follows;    // some part is taken of another array than the op's operand, or past a slice of it
    int32_t region;  // that is being looked at
} Assembly;

// ---- regions

static bool is_plain_slice(const HloInstruction *at, int64_t along) {
    const HloSliceAttributes *slice = HLO_ATTRIBUTES(at, Slice);
    for (int32_t d = 0; d < at->shape->rank; d++) {
        if (d == along && slice->strides.count && slice->strides.items[d] != 1) return false;
        if (d != along && at->shape->dims[d] != at->operands[0]->shape->dims[d]) return false;
    }
    return true;
}

// Lists an op that is looked through; those beyond the room are taken to have other users.
static void look_through(Assembly *assembly, const HloInstruction *at) {
    for (int32_t i = 0; i < assembly->source_count; i++)
        if (assembly->sources[i] == at) return;
    if (assembly->source_count < MOST_OPS) assembly->sources[assembly->source_count++] = at;
}

// Appends the regions of [start, start + size) of `at`. False if there are too many.
static bool collect_regions(Assembly *assembly, const HloInstruction *at, int64_t start, int64_t size, int64_t target,
                            int32_t depth) {
    const int64_t along = assembly->along;
    const bool follows = depth < MOST_DEPTH && (at == assembly->partitioner->op || spmd_may_follow(at));
    if (follows && hlo_is(at, HLO_OP_SLICE) && is_plain_slice(at, along)) {
        start += HLO_ATTRIBUTES(at, Slice)->starts.items[along];
        assembly->follows |= at != assembly->partitioner->op;
        look_through(assembly, at);
        return collect_regions(assembly, at->operands[0], start, size, target, depth + 1);
    }
    if (follows && hlo_is(at, HLO_OP_CONCATENATE) && HLO_ATTRIBUTES(at, Dimensions)->dimensions.items[0] == along) {
        int64_t begin = 0;
        look_through(assembly, at);
        for (int32_t i = 0; i < at->operand_count; i++) {
            const int64_t length = at->operands[i]->shape->dims[along];
            const int64_t first = begin > start ? begin : start;
            const int64_t end = begin + length < start + size ? begin + length : start + size;
            if (first < end && !collect_regions(assembly, at->operands[i], first - begin, end - first,
                                                target + first - start, depth + 1))
                return false;
            begin += length;
        }
        return true;
    }
    if (assembly->region_count == MOST_REGIONS) return false;
    assembly->regions[assembly->region_count++] = (Region){at, target, size, start};
    return true;
}

// ---- trees

// Whether a value may be computed of parts of its operands.
static bool is_elementwise(const HloInstruction *at) {
    if (!at->operand_count || at->operand_count > MOST_OPERANDS || !hlo_shape_is_array(at->shape) ||
        !spmd_is_link(at) || !spmd_is_elementwise(at))
        return false;
    for (int32_t i = 0; i < at->operand_count; i++) {
        const HloShape *operand = at->operands[i]->shape;
        if (operand->rank && !hlo_shape_equal(operand, at->shape, HLO_COMPARE_DIMS_ONLY)) return false;
    }
    return true;
}

// Whether something below is a part of an array: otherwise the value itself is as good a leaf. `budget` ends the
// search.
static bool has_parts(const HloInstruction *at, int32_t depth, int32_t *budget) {
    if (depth == 0 || (*budget)-- <= 0 || !at->operand_count || !spmd_is_link(at)) return false;
    if (hlo_is(at, HLO_OP_SLICE) || hlo_is(at, HLO_OP_CONCATENATE)) return true;
    if (!is_elementwise(at) && !hlo_is(at, HLO_OP_BROADCAST)) return false;
    for (int32_t i = 0; i < at->operand_count; i++)
        if (has_parts(at->operands[i], depth - 1, budget)) return true;
    return false;
}

typedef enum Kind {
    ALIKE,  // does not depend on the position along the dimension
    TREE,   // an op over other nodes
    LEAF,   // a part of an array
} Kind;

static Kind kind_of(const Assembly *assembly, const HloInstruction *at, int32_t dim) {
    if (dim < 0) return ALIKE;
    if (hlo_is(at, HLO_OP_BROADCAST)) return spmd_is_link(at) ? TREE : LEAF;
    if (assembly->is_made) return LEAF;
    int32_t budget = MOST_OPS;
    return is_elementwise(at) && has_parts(at, MOST_DEPTH, &budget) ? TREE : LEAF;
}

// A node of a tree: an instruction, its dimension that is the result's, -1 if it has none, and the sharding that its
// part of the result has.
typedef struct Node {
    const HloInstruction *at;
    int32_t dim;
    const SpmdSharding *sharding;
} Node;

static Node operand_of(const Assembly *assembly, Node node, int32_t index) {
    const HloInstruction *operand = node.at->operands[index];
    Node made = {operand, node.dim, node.sharding};
    if (operand->shape->rank == node.at->shape->rank && !hlo_is(node.at, HLO_OP_BROADCAST)) return made;
    SpmdSharding *sharding =
        spmd_sharding_new(assembly->partitioner->arena, operand->shape->rank, node.sharding->manual);
    made = (Node){operand, -1, sharding};
    if (!hlo_is(node.at, HLO_OP_BROADCAST)) return made;  // a scalar in place of an array
    const HloInts dims = HLO_ATTRIBUTES(node.at, Dimensions)->dimensions;
    for (int32_t d = 0; d < operand->shape->rank; d++) {
        sharding->dims[d] = node.sharding->dims[dims.items[d]];
        if (dims.items[d] == node.dim) made.dim = d;
    }
    return made;
}

// ---- columns

// The pieces of a node's array in the current region, along `dim` in elements of the result.
static SpmdPiecewise leaf_pieces(const Assembly *assembly, Node node) {
    SpmdPartitioner *partitioner = assembly->partitioner;
    const Region *region = &assembly->regions[assembly->region];
    bool *keep = HLO_ARENA_NEW(partitioner->arena, bool, node.at->shape->rank);
    for (int32_t d = 0; d < node.sharding->rank; d++)
        keep[d] = !assembly->deep && d != node.dim && node.sharding->dims[d].count;
    SpmdPiecewise pieces = spmd_piecewise(partitioner, node.at, keep);
    SpmdPieces part = {0};
    spmd_pieces_add_part(partitioner->arena, &part, &pieces.dims[node.dim], region->start, region->size,
                         region->target);
    pieces.dims[node.dim] = part;
    return pieces;
}

// Whether a column can take a leaf of the current region in.
static bool can_share(const Assembly *assembly, const Column *column, Node node, const SpmdPiecewise *pieces) {
    if (column->pieces.base != pieces->base || column->dim != node.dim || column->last_region == assembly->region)
        return false;
    for (int32_t d = 0; d < node.sharding->rank; d++)
        if (d != node.dim && (!spmd_pieces_equal(&column->pieces.dims[d], &pieces->dims[d]) ||
                              !spmd_axes_equal(&column->sharding->dims[d], &node.sharding->dims[d])))
            return false;
    return true;
}

// The column for a leaf of the current region: one that holds its array at the same place, else any other, else a new
// one. -1 if there are too many.
static int32_t find_column(Assembly *assembly, Node node, const SpmdPiecewise *pieces, bool same_shift) {
    const HloShape *base = pieces->base->shape;
    const SpmdPiece *first = pieces->dims[node.dim].list.items;
    const int64_t size = base->dims[node.dim], shift = ((first->source - first->target) % size + size) % size;
    int32_t found = assembly->column_count;
    for (int32_t c = 0; c < assembly->column_count; c++) {
        const Column *column = &assembly->columns[c];
        if (can_share(assembly, column, node, pieces) && (!same_shift || column->shift == shift)) {
            found = c;
            break;
        }
    }
    Column *column = &assembly->columns[found];
    if (found == assembly->column_count) {
        if (same_shift || found == MOST_COLUMNS) return -1;
        assembly->column_count++;
        *column = (Column){.pieces = *pieces, .dim = node.dim, .sharding = node.sharding, .shift = shift};
    } else {
        for (int64_t i = 0; i < pieces->dims[node.dim].list.count; i++)
            spmd_pieces_add(assembly->partitioner->arena, &column->pieces.dims[node.dim],
                            pieces->dims[node.dim].list.items[i]);
    }
    column->last_region = assembly->region;
    return found;
}

static Leaf *find_leaf(Assembly *assembly, Node node) {
    for (int32_t i = 0; i < assembly->leaf_count; i++) {
        Leaf *leaf = &assembly->leaves[i];
        if (leaf->at == node.at && leaf->dim == node.dim && leaf->region == assembly->region &&
            spmd_sharding_equal(leaf->sharding, node.sharding))
            return leaf;
    }
    return NULL;
}

// Gives the leaves of a node their columns: with `same_shift` those for which there is a fitting one. False if
// something is too large, or cannot be assembled.
static bool place_leaves(Assembly *assembly, Node node, bool same_shift, int32_t depth) {
    if (depth == 0 || assembly->op_count++ == MOST_OPS || hlo_shape_elements(node.at->shape) == 0) return false;
    switch (kind_of(assembly, node.at, node.dim)) {
        case ALIKE: return true;
        case TREE:
            look_through(assembly, node.at);
            for (int32_t i = 0; i < node.at->operand_count; i++)
                if (!place_leaves(assembly, operand_of(assembly, node, i), same_shift, depth - 1)) return false;
            return true;
        case LEAF: break;
    }
    Leaf *leaf = find_leaf(assembly, node);
    if (!leaf) {
        if (assembly->leaf_count == MOST_LEAVES) return false;
        leaf = &assembly->leaves[assembly->leaf_count++];
        *leaf = (Leaf){node.at, node.sharding, assembly->region, node.dim, -1};
    }
    if (leaf->column >= 0) return true;
    const SpmdPiecewise pieces = leaf_pieces(assembly, node);
    if (pieces.base == assembly->partitioner->op) return false;
    if (pieces.base != node.at) look_through(assembly, node.at);
    const HloInstruction *op = assembly->partitioner->op;
    assembly->follows |= pieces.base != (node.at == op ? op->operands[0] : node.at);
    leaf->column = find_column(assembly, node, &pieces, same_shift);
    return same_shift || leaf->column >= 0;
}

// ---- costs

// The size of dimension `d` of a column: the result's along its dimension.
static int64_t extent_of(const Assembly *assembly, const Column *column, int32_t d) {
    if (d == column->dim) return assembly->extent;
    const SpmdPiece *last = &column->pieces.dims[d].list.items[column->pieces.dims[d].list.count - 1];
    return last->target + last->size;
}

// Plans the moves of a column from its array in a sharding, and returns what they cost.
static int64_t plan_moves(const Assembly *assembly, Column *column, const SpmdSharding *sharding) {
    SpmdPartitioner *partitioner = assembly->partitioner;
    const HloShape *base = column->pieces.base->shape;
    const SpmdLocal *local = spmd_local(partitioner, column->pieces.base, 0);
    column->sharding = sharding;
    column->moves = HLO_ARENA_NEW(partitioner->arena, SpmdMoves *, base->rank);
    int64_t cost = local->hlo ? spmd_form_cost(partitioner, local, sharding) : 0;
    int64_t *dims = HLO_ARENA_NEW(partitioner->arena, int64_t, base->rank);
    for (int32_t d = 0; d < base->rank; d++)
        dims[d] = spmd_shard_size(base->dims[d], spmd_axes_product(partitioner->mesh, &sharding->dims[d]));
    for (int32_t d = 0; d < base->rank; d++) {
        const int64_t extent = extent_of(assembly, column, d);
        const SpmdAxes *axes = &sharding->dims[d];
        const int64_t positions = spmd_axes_product(partitioner->mesh, axes);
        dims[d] = spmd_shard_size(extent, positions);
        const SpmdPieces *pieces = &column->pieces.dims[d];
        if (positions == 1 || (extent == base->dims[d] && spmd_pieces_are_whole(pieces, extent))) continue;
        const SpmdInterval own = spmd_own_interval(dims[d]);
        column->moves[d] = spmd_pieces_moves(partitioner, pieces, base->dims[d], &own, positions);
        if (!column->moves[d]) return SPMD_MOST_BYTES;
        int64_t bytes = spmd_times_bytes(hlo_type_bytes(base->type), column->moves[d]->sent);
        for (int32_t e = 0; e < base->rank; e++)
            if (e != d) bytes = spmd_times_bytes(bytes, dims[e]);
        const int64_t rounds = column->moves[d]->rounds - column->moves[d]->own_rounds;
        cost = spmd_add_bytes(cost, spmd_permutes_cost(partitioner->plan->costs, axes, bytes, rounds, false));
    }
    return cost;
}

// Plans a column from its array in parts, or whole where that costs less: each device then takes its own part.
static void plan_column(Assembly *assembly, Column *column) {
    SpmdPartitioner *partitioner = assembly->partitioner;
    const SpmdSharding *parts = column->sharding;
    SpmdSharding *whole = spmd_sharding_copy(partitioner->arena, parts);
    whole->dims[column->dim] = (SpmdAxes){0};
    const SpmdLocal *local = spmd_local(partitioner, column->pieces.base, 0);
    const bool everywhere = !local->hlo || !local->sharding->dims[column->dim].count;
    int64_t cost = everywhere ? SPMD_MOST_BYTES : plan_moves(assembly, column, parts);
    const int64_t other = cost ? plan_moves(assembly, column, whole) : cost;
    if (other < cost)
        cost = other;
    else if (cost)
        plan_moves(assembly, column, parts);
    assembly->cost = spmd_add_bytes(assembly->cost, cost);
}

// Whether nothing but the assembled op needs an op that is looked through.
static bool is_unused(const Assembly *assembly, const HloInstruction *at, int32_t depth) {
    if (at == assembly->partitioner->op) return true;
    if (depth == 0 || hlo_instruction_is_root(at)) return false;
    bool listed = false;
    for (int32_t i = 0; i < assembly->source_count && !listed; i++) listed = assembly->sources[i] == at;
    for (int64_t i = 0; listed && i < at->users.count; i++) listed = is_unused(assembly, at->users.items[i], depth - 1);
    return listed;
}

// What slices and concatenations have sent that nothing but the assembled op needs.
static int64_t cost_of_unused(const Assembly *assembly) {
    SpmdPartitioner *partitioner = assembly->partitioner;
    int64_t cost = 0;
    for (int32_t i = 0; i < assembly->source_count; i++) {
        const HloInstruction *at = assembly->sources[i];
        const SpmdRule *rule = partitioner->plan->rules[at->id];
        const SpmdOp *row = spmd_op(at->opcode);
        if (at == partitioner->op || !rule || !hlo_is(at, HLO_OP_SLICE) || !is_unused(assembly, at, MOST_DEPTH))
            continue;
        SpmdAxes *factors = HLO_ARENA_NEW(partitioner->arena, SpmdAxes, rule->factors.count);
        const SpmdSharding *sharding = spmd_local(partitioner, at, 0)->sharding;
        spmd_rule_project(rule, partitioner->mesh, spmd_rule_result(rule, 0), sharding, factors);
        cost = spmd_add_bytes(cost, row->moved(partitioner, rule, factors));
        cost = spmd_add_bytes(cost, spmd_owned_cost(partitioner, at));
    }
    return cost;
}

// ---- emission

// A column in the result's sharding.
static HloInstruction *emit_column(Assembly *assembly, Column *column) {
    if (column->made) return column->made;
    SpmdPartitioner *partitioner = assembly->partitioner;
    const HloShape *base = column->pieces.base->shape;
    const SpmdReason reason = {.op = partitioner->op, .what = "parts of an array"};
    const SpmdLocal *local = spmd_local(partitioner, column->pieces.base, 0);
    HloInstruction *made = spmd_reshard(partitioner, *local, column->sharding, 0, reason).hlo;
    for (int32_t d = 0; d < base->rank; d++) {
        const int64_t extent = extent_of(assembly, column, d);
        const SpmdPieces *pieces = &column->pieces.dims[d];
        const SpmdAxes *axes = &column->sharding->dims[d];
        if (column->moves[d]) {
            const int64_t size = spmd_shard_size(extent, column->moves[d]->positions);
            made = spmd_emit_moves(partitioner, made, d, axes, column->moves[d], size, &reason);
        } else if (!axes->count) {
            made = spmd_emit_pieces(partitioner, made, d, pieces, extent);
        }
        if (d != column->dim || axes->count) continue;
        const int64_t positions = spmd_axes_product(partitioner->mesh, &assembly->axes);
        const int64_t size = spmd_shard_size(extent, positions);
        made = spmd_emit_pad(partitioner, made, d, 0, positions * size - extent, NULL);
        HloInstruction *offset = spmd_emit_offset(partitioner, &assembly->axes, size);
        made = spmd_emit_dynamic_slice(partitioner, made, d, offset, size);
    }
    column->made = made;
    return made;
}

// An op that was emitted before for another region, with the same shape and operands; NULL if there is none.
static HloInstruction *find_op(const Assembly *assembly, const HloInstruction *at, const HloShape *shape,
                               HloInstruction *const *operands) {
    for (int32_t i = 0; i < assembly->op_count; i++) {
        const HloInstruction *other = assembly->ops[i].at;
        bool same = other->opcode == at->opcode && other->operand_count == at->operand_count &&
                    hlo_shape_equal(assembly->ops[i].made->shape, shape, HLO_COMPARE_IGNORE_LAYOUT) &&
                    hlo_attributes_equal(hlo_op_info(at->opcode)->family, other->attributes, at->attributes);
        for (int32_t k = 0; same && k < at->operand_count; k++)
            same = assembly->ops[i].made->operands[k] == operands[k];
        if (same) return assembly->ops[i].made;
    }
    return NULL;
}

// The local shape of a node: along its dimension as many elements as a shard of the result has.
static const HloShape *node_shape(const Assembly *assembly, Node node) {
    SpmdPartitioner *partitioner = assembly->partitioner;
    const HloShape *global = node.at->shape;
    int64_t *dims = HLO_ARENA_NEW(partitioner->arena, int64_t, global->rank);
    for (int32_t d = 0; d < global->rank; d++) {
        const int64_t size = d == node.dim ? assembly->extent : global->dims[d];
        dims[d] = spmd_shard_size(size, spmd_axes_product(partitioner->mesh, &node.sharding->dims[d]));
    }
    return spmd_with_dims(partitioner, global, dims);
}

static HloInstruction *emit_node(Assembly *assembly, Node node) {
    SpmdPartitioner *partitioner = assembly->partitioner;
    switch (kind_of(assembly, node.at, node.dim)) {
        case ALIKE: {
            const SpmdReason reason = {.op = partitioner->op, .what = "parts of an array"};
            return spmd_reshard(partitioner, *spmd_local(partitioner, node.at, 0), node.sharding, 0, reason).hlo;
        }
        case LEAF: return emit_column(assembly, &assembly->columns[find_leaf(assembly, node)->column]);
        case TREE: break;
    }
    HloInstruction *operands[MOST_OPERANDS];
    for (int32_t i = 0; i < node.at->operand_count; i++)
        operands[i] = emit_node(assembly, operand_of(assembly, node, i));
    const HloShape *shape = node_shape(assembly, node);
    HloInstruction *made = find_op(assembly, node.at, shape, operands);
    if (made) return made;
    made = spmd_clone(partitioner, node.at, shape, operands, node.at->operand_count);
    assert(assembly->op_count < MOST_OPS); /* no more than were counted */
    assembly->ops[assembly->op_count].at = node.at;
    assembly->ops[assembly->op_count++].made = made;
    return made;
}

// The regions' values, selected by position.
static HloInstruction *emit_regions(Assembly *assembly) {
    SpmdPartitioner *partitioner = assembly->partitioner;
    HloInstruction *made = NULL, *last = NULL;
    assembly->op_count = 0;
    for (int32_t r = 0; r < assembly->region_count; r++) {
        assembly->region = r;
        const Region *region = &assembly->regions[r];
        HloInstruction *value =
            emit_node(assembly, (Node){region->value, (int32_t)assembly->along, assembly->sharding});
        if (made && value != last) {
            HloInstruction *before =
                spmd_emit_before(partitioner, value->shape, assembly->along, &assembly->axes, region->target);
            made = spmd_emit_select(partitioner, before, made, value);
        } else if (!made) {
            made = value;
        }
        last = value;
    }
    return made;
}

// ---- the whole

// The dimension that a slice is assembled along: the first one sharded that it does not keep as it is; -1: none.
static int64_t sliced_dim(const HloInstruction *op, const SpmdSharding *sharding) {
    for (int32_t d = 0; d < op->shape->rank; d++)
        if (sharding->dims[d].count && op->shape->dims[d] != op->operands[0]->shape->dims[d]) return d;
    return -1;
}

static bool plan(Assembly *assembly) {
    const HloInstruction *op = assembly->partitioner->op;
    if (!collect_regions(assembly, op, 0, assembly->extent, 0, 0)) return false;
    for (int32_t r = 0; r < assembly->region_count; r++) {
        assembly->region = r;
        const Node node = {assembly->regions[r].value, (int32_t)assembly->along, assembly->sharding};
        for (int pass = 0; pass < 2; pass++)
            if (!place_leaves(assembly, node, pass == 0, MOST_DEPTH)) return false;
        assembly->follows |= node.at != op && !hlo_instruction_vector_contains(&node.at->users, op);
    }
    for (int32_t c = 0; c < assembly->column_count; c++) plan_column(assembly, &assembly->columns[c]);
    return assembly->follows && assembly->cost < SPMD_MOST_BYTES;
}

bool spmd_assemble(SpmdPartitioner *partitioner, const SpmdAxes *factors) {
    const HloInstruction *op = partitioner->op;
    const SpmdRule *rule = partitioner->plan->rules[op->id];
    const SpmdSharding *sharding = spmd_planned(partitioner, 0);
    if (hlo_shape_elements(op->shape) == 0 || hlo_shape_is_dynamic(op->shape) || sharding->unreduced) return false;
    const int64_t along =
        hlo_is(op, HLO_OP_SLICE) ? sliced_dim(op, sharding) : HLO_ATTRIBUTES(op, Dimensions)->dimensions.items[0];
    if (along < 0 || !sharding->dims[along].count) return false;
    Assembly *best = NULL;
    for (int mode = 0; mode < 4; mode++) {
        Assembly *assembly = HLO_ARENA_NEW(partitioner->arena, Assembly, 1);
        *assembly = (Assembly){.partitioner = partitioner,
                               .along = along,
                               .extent = op->shape->dims[along],
                               .sharding = sharding,
                               .axes = sharding->dims[along],
                               .deep = mode & 1,
                               .is_made = mode & 2};
        if (plan(assembly) && (!best || assembly->cost < best->cost)) best = assembly;
    }
    if (!best) return false;
    const int64_t moved = spmd_op(op->opcode)->moved(partitioner, rule, factors);
    const int64_t direct = spmd_add_bytes(moved, spmd_factors_cost(partitioner, rule, factors));
    if (best->cost > direct && best->cost > spmd_add_bytes(direct, cost_of_unused(best))) return false;
    spmd_define(partitioner, 0, emit_regions(best), sharding, 0, HLO_OPCODE_COUNT);
    return true;
}
