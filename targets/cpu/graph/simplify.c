// SPDX-License-Identifier: Apache-2.0
// Rewrites the program graph before fusion: removes ops between a dot or a gather and memory that only move elements.
//
// A product packs its operands anyway, so it reads them through any strides at no cost, and writes its result through
// any strides; a separate transpose would be a pass over memory. Likewise a widening of bf16 or f16 happens while the
// product packs. This runs before fusion, which would make loops of the transposes, and handles one dot at a time. The
// use counts of arrays that a dot no longer reads are decremented (use_count), and unused nodes are dropped at the end
// of the region. A pass over HLO could not do this, because a dot has no strides there.
//
// JAX writes a product of ragged groups of rows, each with a matrix of its own, as one product with a copy of the rows
// for each group, zeros outside of the group: the product gets the ranges of the groups instead.
//
// What JAX writes around the gather of x[i] and the scatter of x.at[i] also becomes part of these: i < 0 ? i + n : i,
// and, for jnp.take, a constant in place of what lies outside.
#include "targets/cpu/graph/graph.h"

#include <assert.h>

CpuView cpu_view_row_major(HloArena *arena, int64_t rank, const int64_t *dims) {
    int64_t *strides = HLO_ARENA_NEW(arena, int64_t, rank);
    for (int64_t d = rank, stride = 1; d-- > 0; stride *= dims[d]) strides[d] = stride;
    return (CpuView){rank, dims, strides};
}

static CpuView row_major_view(HloArena *arena, const HloShape *shape) {
    return cpu_view_row_major(arena, shape->rank, shape->dims);
}

// Returns the strides of transpose(x) in x's memory.
static CpuView through_transpose(HloArena *arena, const CpuNode *transpose, CpuView inner) {
    const HloInts permutation = HLO_ATTRIBUTES(transpose->instruction, Dimensions)->dimensions;
    int64_t *strides = HLO_ARENA_NEW(arena, int64_t, inner.rank);
    for (int64_t i = 0; i < permutation.count; i++) strides[i] = inner.strides[permutation.items[i]];
    return (CpuView){inner.rank, transpose->results[0]->shape->dims, strides};
}

static bool is_narrow(HloType type) {
    return type == HLO_BF16 || type == HLO_F16;
}

// Whether the node is convert(x) to f32 of a narrow float.
static bool is_widening(const CpuNode *node) {
    return node && node->opcode == HLO_OP_CONVERT && node->state == CPU_NODE_NORMAL &&
           node->results[0]->shape->type == HLO_F32 && is_narrow(node->operands[0]->shape->type);
}

// Strips transposes, and widenings if `widenings`, off an operand.
static CpuArray *strip(CpuArray *array, bool widenings) {
    for (;;) {
        const CpuNode *node = array->producer;
        if (!node || array->view) return array;
        if (node->opcode != HLO_OP_TRANSPOSE && !(widenings && is_widening(node))) return array;
        array = node->operands[0];
    }
}

// Returns the view of operand `array` in the memory of the stripped array.
static CpuView strip_view(HloArena *arena, CpuArray *array, const CpuArray *stripped) {
    if (array == stripped) return row_major_view(arena, array->shape);
    const CpuNode *node = array->producer;
    const CpuView inner = strip_view(arena, node->operands[0], stripped);
    return node->opcode == HLO_OP_TRANSPOSE ? through_transpose(arena, node, inner) : inner;
}

// Lets the dot read x if the operand is a transpose or a widening of x.
static void fold_operand(CpuProgram *program, CpuNode *dot, CpuView *views, int32_t index, bool widenings) {
    CpuArray *operand = dot->operands[index], *stripped = strip(operand, widenings);
    views[index] = strip_view(program->arena, operand, stripped);
    if (stripped == operand) return;
    CpuArray **operands = hlo_arena_copy(program->arena, dot->operands, 2 * sizeof(CpuArray *));
    operands[index] = stripped;
    dot->operands = operands;
    stripped->use_count++;
    for (CpuArray *dead = operand; dead != stripped && --dead->use_count == 0;) {
        dead->producer->live = false;
        dead = dead->producer->operands[0];
    }
}

static bool widens(const CpuArray *array) {
    for (; array->producer && !array->view; array = array->producer->operands[0]) {
        if (is_widening(array->producer)) return true;
        if (array->producer->opcode != HLO_OP_TRANSPOSE) return false;
    }
    return false;
}

// Lets the dot write its transpose if transpose(dot) is the only use.
static void fold_result(CpuProgram *program, CpuNode *transpose) {
    CpuArray *product = transpose->operands[0], *result = transpose->results[0];
    CpuNode *dot = product->producer;
    if (!dot || !dot->views || product->use_count != 1 || product != dot->results[0] || product->view ||
        dot->views[2].dims != product->shape->dims)  // one transpose has been folded already
        return;
    const HloInts permutation = HLO_ATTRIBUTES(transpose->instruction, Dimensions)->dimensions;
    const CpuView outer = row_major_view(program->arena, result->shape);
    int64_t *strides = HLO_ARENA_NEW(program->arena, int64_t, outer.rank);
    for (int64_t i = 0; i < permutation.count; i++) strides[permutation.items[i]] = outer.strides[i];
    CpuView *views = hlo_arena_copy(program->arena, dot->views, 3 * sizeof(CpuView));
    views[2] = (CpuView){outer.rank, product->shape->dims, strides};
    dot->views = views;
    dot->results = transpose->results;
    result->producer = dot;
    transpose->live = false;
}

// Moves a transpose node before an all-reduce: transpose(all-reduce(x)) is all-reduce(transpose(x)), and a dot that
// produces x absorbs the transpose.
static void swap_with_all_reduce(CpuProgram *program, CpuRegion *region, int64_t place) {
    CpuNode *transpose = region->nodes.items[place];
    CpuArray *sum = transpose->operands[0], *result = transpose->results[0];
    CpuNode *reduce = sum->producer;
    if (!reduce || reduce->opcode != HLO_OP_ALL_REDUCE || reduce->result_count != 1 || sum->use_count != 1 || sum->view)
        return;
    const CpuNode *dot = reduce->operands[0]->producer;
    if (!dot || !dot->views || reduce->operands[0]->use_count != 1) return;
    int64_t at = place;
    while (at > 0 && region->nodes.items[at] != reduce) at--;
    if (region->nodes.items[at] != reduce) return;
    CpuArray *moved = cpu_program_new_array(program, result->shape);
    moved->producer = transpose;
    moved->use_count = 1;
    transpose->operands = hlo_arena_copy(program->arena, reduce->operands, sizeof(CpuArray *));
    transpose->results = hlo_arena_copy(program->arena, &moved, sizeof(CpuArray *));
    reduce->operands = hlo_arena_copy(program->arena, &moved, sizeof(CpuArray *));
    reduce->results = hlo_arena_copy(program->arena, &result, sizeof(CpuArray *));
    result->producer = reduce;
    for (int64_t i = place; i > at; i--) region->nodes.items[i] = region->nodes.items[i - 1];
    region->nodes.items[at] = transpose;
    fold_result(program, transpose);
}

// Lets a gather read the components of its index vectors where they are computed, if the vectors are a concatenation
// that is made for this gather alone (x[i, j]): a pass over the indices, with strides, less.
static void split_indices(CpuProgram *program, CpuNode *gather) {
    const HloGatherAttributes *attributes = HLO_ATTRIBUTES(gather->instruction, Gather);
    CpuNode *vectors = gather->operands[1]->producer;
    if (!vectors || vectors->opcode != HLO_OP_CONCATENATE || vectors->state != CPU_NODE_NORMAL) return;
    if (gather->state != CPU_NODE_NORMAL || vectors->parent != gather->parent) return;
    if (vectors->results[0]->use_count != 1 || vectors->operand_count < 2) return;
    const HloInts along = HLO_ATTRIBUTES(vectors->instruction, Dimensions)->dimensions;
    if (along.items[0] != attributes->index_vector_dim) return;
    if (vectors->operand_count != attributes->start_index_map.count) return;
    for (int32_t i = 0; i < vectors->operand_count; i++)
        if (vectors->operands[i]->shape->dims[along.items[0]] != 1) return;
    CpuArray **operands = HLO_ARENA_NEW(program->arena, CpuArray *, vectors->operand_count + 1);
    operands[0] = gather->operands[0];
    for (int32_t i = 0; i < vectors->operand_count; i++) operands[i + 1] = vectors->operands[i];
    gather->operands = operands;
    gather->operand_count = vectors->operand_count + 1;
    vectors->results[0]->use_count = 0;
    vectors->live = false;
}

// ---- expressions

// Counts one use less of the array; drops the nodes of expressions that nothing uses then.
static void drop_use(CpuArray *array) {
    assert(array->use_count > 0);
    CpuNode *node = array->producer;
    if (--array->use_count > 0 || !node || node->result_count != 1 || !node->live) return;
    switch (node->opcode) {
        case HLO_OP_SELECT:
        case HLO_OP_COMPARE:
        case HLO_OP_AND:
        case HLO_OP_ADD:
        case HLO_OP_IOTA:
        case HLO_OP_BROADCAST:
        case HLO_OP_RESHAPE:
        case HLO_OP_CONSTANT: break;
        default: return;  // has a use as long as the array that is read in place of this one
    }
    node->live = false;
    for (int32_t i = 0; i < node->operand_count; i++) drop_use(node->operands[i]);
}

// Returns the constant that all elements of the array equal, or NULL.
static const CpuArray *splat_of(const CpuArray *array) {
    for (;;) {
        if (array->literal) return array->splat ? array : NULL;
        if (array->view)
            array = array->view;
        else if (array->producer && array->producer->opcode == HLO_OP_BROADCAST)
            array = array->producer->operands[0];
        else
            return NULL;
    }
}

static bool is_splat(const CpuArray *array, int64_t value) {
    const CpuArray *splat = splat_of(array);
    return splat && hlo_literal_get_int64(splat->literal, 0) == value;
}

// Whether this tests that the integers are below 0.
static bool tests_below_zero(const CpuNode *test, const CpuArray *integers) {
    return test && test->opcode == HLO_OP_COMPARE && test->operands[0] == integers && is_splat(test->operands[1], 0) &&
           HLO_ATTRIBUTES(test->instruction, Compare)->direction == HLO_ComparisonDirection_LT;
}

// ---- ranges of rows

// Returns the node if the array is its result, and not a view.
static const CpuNode *made_by(const CpuArray *array, HloOpcode opcode) {
    const CpuNode *node = array->view ? NULL : array->producer;
    return node && node->opcode == opcode && node->state == CPU_NODE_NORMAL ? node : NULL;
}

static HloInts dimensions_of(const CpuNode *node) {
    return HLO_ATTRIBUTES(node->instruction, Dimensions)->dimensions;
}

// Whether the elements are their own indices along one dimension, *row.
static bool is_row_numbers(const CpuArray *array, int64_t *row) {
    const CpuNode *broadcast = made_by(array, HLO_OP_BROADCAST);
    const CpuArray *inner = broadcast ? broadcast->operands[0] : array;
    const CpuNode *iota = made_by(inner, HLO_OP_IOTA);
    if (!iota || hlo_type_bytes(array->shape->type) < 4 || !hlo_type_is_integer(array->shape->type)) return false;
    *row = HLO_ATTRIBUTES(iota->instruction, Iota)->dimension;
    if (broadcast) *row = dimensions_of(broadcast).items[*row];
    return true;
}

// Returns the bounds, one for each index along *group, if the predicates compare these with row numbers along *row, in
// this direction if the bounds are first, else in the other one; else NULL.
static CpuArray *find_bounds(const CpuArray *predicates, int32_t bounds_first, int32_t rows_first,
                             CpuRowRanges *dimensions) {
    const CpuNode *compare = made_by(predicates, HLO_OP_COMPARE);
    if (!compare) return NULL;
    const int32_t direction = HLO_ATTRIBUTES(compare->instruction, Compare)->direction;
    for (int bounds = 0; bounds < 2; bounds++) {
        const CpuNode *broadcast = made_by(compare->operands[bounds], HLO_OP_BROADCAST);
        if (direction != (bounds ? rows_first : bounds_first) || !broadcast ||
            broadcast->operands[0]->shape->rank != 1 ||
            !is_row_numbers(compare->operands[1 - bounds], &dimensions->row))
            continue;
        dimensions->group = dimensions_of(broadcast).items[0];
        return broadcast->operands[0];
    }
    return NULL;
}

// Finds first <= row and row < end, joined in any order.
static bool find_ranges(const CpuArray *predicates, CpuRowRanges *dimensions, CpuArray *bounds[2]) {
    const CpuNode *both = made_by(predicates, HLO_OP_AND);
    for (int first = 0; both && first < 2; first++) {
        CpuRowRanges ends = {0, 0};
        bounds[0] =
            find_bounds(both->operands[first], HLO_ComparisonDirection_LE, HLO_ComparisonDirection_GE, dimensions);
        bounds[1] =
            find_bounds(both->operands[1 - first], HLO_ComparisonDirection_GT, HLO_ComparisonDirection_LT, &ends);
        if (bounds[0] && bounds[1])
            return dimensions->group == ends.group && dimensions->row == ends.row &&
                   dimensions->group != dimensions->row;
    }
    return false;
}

// Whether the dot sums over the groups and one more dimension, and has kernels, and enough work that two copies of the
// left side would pay: where zeros matter, as they do beside infinities, it is copied for each group and then packed.
static bool takes_ranges(const CpuNode *dot, const CpuRowRanges *dimensions) {
    enum { kLeastReuse = 2 * CPU_COPY_REUSE };
    const HloDotAttributes *attributes = HLO_ATTRIBUTES(dot->instruction, Dot);
    const CpuArray *left = dot->operands[0], *right = dot->operands[1], *result = dot->results[0];
    double multiplications = (double)result->elements;
    for (int64_t i = 0; i < attributes->lhs_contracting.count; i++)
        multiplications *= (double)left->shape->dims[attributes->lhs_contracting.items[i]];
    for (int i = 0; i < 3; i++) {
        const HloType type = (i == 0 ? left : i == 1 ? right : result)->shape->type;
        if (type != HLO_F32 && type != HLO_F64 && type != HLO_BF16 && type != HLO_F16) return false;
    }
    return attributes->lhs_contracting.count == 2 && hlo_ints_contain(attributes->lhs_contracting, dimensions->group) &&
           !hlo_ints_contain(attributes->lhs_contracting, dimensions->row) &&
           !hlo_ints_contain(attributes->lhs_batch, dimensions->row) && multiplications >= CPU_COPY_MULTIPLICATIONS &&
           multiplications >= kLeastReuse * ((double)left->elements + (double)right->elements);
}

// Lets the dot multiply the rows of each group with the group's matrix only, if its left side is select(the row is in
// the group's range, rows, 0).
static void fold_ranges(CpuProgram *program, CpuNode *dot, CpuView *views) {
    CpuArray *left = dot->operands[0], *bounds[2];
    CpuNode *select = left->producer;
    CpuRowRanges dimensions = {0, 0};
    if (!made_by(left, HLO_OP_SELECT) || select->parent != dot->parent || left->use_count != 1 ||
        views[0].dims != left->shape->dims || !find_ranges(select->operands[0], &dimensions, bounds) ||
        !takes_ranges(dot, &dimensions))
        return;
    const CpuNode *repeated = made_by(select->operands[1], HLO_OP_BROADCAST);
    const CpuArray *zero = splat_of(select->operands[2]);
    if (!repeated || !zero || !hlo_literal_is_zero(zero->literal)) return;
    const HloInts kept = dimensions_of(repeated);
    if (hlo_ints_contain(kept, dimensions.group)) return;
    CpuArray *rows = repeated->operands[0];
    const CpuView inner = row_major_view(program->arena, rows->shape);
    int64_t *strides = HLO_ARENA_NEW(program->arena, int64_t, views[0].rank);
    for (int64_t i = 0; i < kept.count; i++) strides[kept.items[i]] = inner.strides[i];
    views[0].strides = strides;
    dot->operands = hlo_arena_copy(program->arena, (CpuArray *[]){rows, dot->operands[1], bounds[0], bounds[1]},
                                   4 * sizeof(CpuArray *));
    dot->operand_count = 4;
    dot->ranges = hlo_arena_copy(program->arena, &dimensions, sizeof dimensions);
    rows->use_count++;
    bounds[0]->use_count++;
    bounds[1]->use_count++;
    drop_use(left);
}

// ---- indices

// Returns i if the array is i < 0 ? i + n : i, and sets *wrap to n; else NULL.
static CpuArray *unwrapped(const CpuNode *reader, CpuArray *array, int64_t *wrap) {
    const CpuNode *select = cpu_array_root(array)->producer;
    if (!select || select->opcode != HLO_OP_SELECT || select->state != CPU_NODE_NORMAL ||
        select->parent != reader->parent)
        return NULL;
    CpuArray *indices = select->operands[2];
    const HloType type = indices->shape->type;
    const CpuNode *add = select->operands[1]->producer;
    if ((type != HLO_S32 && type != HLO_S64) || !tests_below_zero(select->operands[0]->producer, indices) || !add ||
        add->opcode != HLO_OP_ADD || add->operands[0] != indices)
        return NULL;
    const CpuArray *size = splat_of(add->operands[1]);
    if (!size) return NULL;
    *wrap = hlo_literal_get_int64(size->literal, 0);
    return *wrap >= 0 && *wrap <= INT32_MAX ? indices : NULL;
}

// Lets a gather or scatter read indices as they are before negative ones are counted from the end: a pass over the
// indices less. `first` is the operand with the first of `count` components.
static void unwrap_indices(CpuProgram *program, CpuNode *node, int32_t first, int64_t count) {
    int64_t *wraps = HLO_ARENA_NEW(program->arena, int64_t, count);
    for (int64_t i = 0; i < count; i++) {
        CpuArray *wrapped = node->operands[first + i], *indices = unwrapped(node, wrapped, &wraps[i]);
        if (!indices) continue;
        node->wraps = wraps;
        CpuArray **operands =
            hlo_arena_copy(program->arena, node->operands, sizeof(CpuArray *) * (size_t)node->operand_count);
        operands[first + i] = indices;
        node->operands = operands;
        indices->use_count++;
        drop_use(wrapped);
    }
}

static void unwrap_gather(CpuProgram *program, CpuNode *gather) {
    const int64_t components = HLO_ATTRIBUTES(gather->instruction, Gather)->start_index_map.count;
    if (gather->state == CPU_NODE_NORMAL && components == gather->operand_count - 1)
        unwrap_indices(program, gather, 1, components);
}

// Leaves scatters alone that the evaluator may run: it reads what the instruction says.
static void unwrap_scatter(CpuProgram *program, CpuNode *scatter) {
    const HloComputation *computation = scatter->instruction->called[0];
    const HloTypeInfo *type = hlo_type_info(scatter->operands[0]->shape->type);
    const HloOpcode opcode = hlo_computation_binary_opcode(computation);
    const bool assigns = computation->parameters.count == 2 && computation->root == computation->parameters.items[1];
    const bool combines =
        (opcode == HLO_OP_ADD || opcode == HLO_OP_MULTIPLY || opcode == HLO_OP_MINIMUM || opcode == HLO_OP_MAXIMUM) &&
        type->bits >= 8 &&
        (type->kind == HLO_KIND_FLOAT || type->kind == HLO_KIND_SIGNED || type->kind == HLO_KIND_UNSIGNED);
    if (scatter->state == CPU_NODE_NORMAL && scatter->operand_count == 3 && (assigns || combines) &&
        HLO_ATTRIBUTES(scatter->instruction, Scatter)->scatter_dims_to_operand_dims.count == 1)
        unwrap_indices(program, scatter, 1, 1);
}

// Returns the array with a predicate for each index vector of the gather if the predicates of its result's elements are
// those, else NULL.
static CpuArray *slice_mask(const CpuNode *gather, const CpuArray *predicates) {
    const CpuNode *broadcast = predicates->producer;
    if (!broadcast || broadcast->opcode != HLO_OP_BROADCAST || predicates->view) return NULL;
    const HloInts dimensions = HLO_ATTRIBUTES(broadcast->instruction, Dimensions)->dimensions;
    const HloInts window = HLO_ATTRIBUTES(gather->instruction, Gather)->offset_dims;
    if (dimensions.count + window.count != predicates->shape->rank) return NULL;
    for (int64_t i = 0; i < dimensions.count; i++)
        if (hlo_ints_contain(window, dimensions.items[i]) || (i > 0 && dimensions.items[i - 1] >= dimensions.items[i]))
            return NULL;
    return broadcast->operands[0];
}

// Lets a gather write the constant of select(mask of its slices, gather, constant), which nothing else reads: a pass
// over the result less. Slices are worth that from a few elements on. The gather moves to the place of the select, as
// the mask may be computed after it.
static void fold_mask(CpuProgram *program, CpuRegion *region, int64_t place) {
    enum { kFewElements = 8 };
    CpuNode *select = region->nodes.items[place];
    CpuArray *gathered = select->operands[1], *result = select->results[0];
    CpuNode *gather = gathered->producer;
    if (!gather || gather->opcode != HLO_OP_GATHER || gather->state != CPU_NODE_NORMAL || gather->fill ||
        gather->parent != select->parent || gathered->use_count != 1 || select->state != CPU_NODE_NORMAL)
        return;
    CpuArray *mask = slice_mask(gather, select->operands[0]);
    const CpuArray *fill = splat_of(select->operands[2]);
    if (!mask || !fill || mask->elements * kFewElements > result->elements) return;
    int64_t at = place;
    while (at > 0 && region->nodes.items[at] != gather) at--;
    if (region->nodes.items[at] != gather) return;
    CpuArray **operands = HLO_ARENA_NEW(program->arena, CpuArray *, gather->operand_count + 1);
    for (int32_t i = 0; i < gather->operand_count; i++) operands[i] = gather->operands[i];
    operands[gather->operand_count++] = mask;
    gather->operands = operands;
    gather->fill = fill;
    mask->use_count++;
    drop_use(select->operands[0]);
    drop_use(select->operands[2]);
    gather->results = select->results;
    result->producer = gather;
    gathered->use_count = 0;
    select->live = false;
    region->nodes.items[at] = select;
    region->nodes.items[place] = gather;
    const int32_t order = gather->order;
    gather->order = select->order;
    select->order = order;
}

// Lets dots read their operands in memory as they were before transposes, broadcasts and widenings (a view, and a
// type); a dot writes the transpose of its result itself. With a TPU's numerics, widenings are skipped only if both
// operands have one: precision depends on the types that the dot reads.
static void simplify_region(CpuProgram *program, CpuRegion *region, bool tpu_numerics) {
    for (int64_t i = 0; i < region->nodes.count; i++) {
        CpuNode *node = region->nodes.items[i];
        if (node->opcode == HLO_OP_DOT && node->operand_count == 2) {
            CpuView *views = HLO_ARENA_NEW(program->arena, CpuView, 3);
            const bool both = widens(node->operands[0]) && widens(node->operands[1]);
            const bool widenings = node->results[0]->shape->type == HLO_F32 && (both || !tpu_numerics);
            fold_operand(program, node, views, 0, widenings);
            fold_operand(program, node, views, 1, widenings);
            views[2] = row_major_view(program->arena, node->results[0]->shape);
            node->views = views;
            fold_ranges(program, node, views);
        }
        if (node->opcode == HLO_OP_GATHER && node->operand_count == 2) {
            split_indices(program, node);
            unwrap_gather(program, node);
        }
        if (node->opcode == HLO_OP_SCATTER) unwrap_scatter(program, node);
        if (node->opcode == HLO_OP_SELECT && node->result_count == 1) fold_mask(program, region, i);
        if (node->opcode == HLO_OP_TRANSPOSE) {
            fold_result(program, node);
            if (node->live) swap_with_all_reduce(program, region, i);
        }
        for (int32_t k = 0; k < node->region_count; k++) simplify_region(program, node->regions[k], tpu_numerics);
    }
    int64_t kept = 0;
    for (int64_t i = 0; i < region->nodes.count; i++) {
        CpuNode *node = region->nodes.items[i];
        if (node->live) region->nodes.items[kept++] = node;
    }
    region->nodes.count = kept;
}

void cpu_program_simplify(CpuProgram *program, bool tpu_numerics) {
    simplify_region(program, program->entry, tpu_numerics);
}
