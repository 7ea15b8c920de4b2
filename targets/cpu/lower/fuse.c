// SPDX-License-Identifier: Apache-2.0
// Fusion. Walks each region backwards, so that the users of an array are decided before the array. An array whose loop
// users all end in one loop is fused into it; an array that others need in memory gets a buffer and a separate loop.
//
//     %e = exp(%x); %s = reduce(%e) over rows; %b = broadcast(%s); %r = divide(%e, %b)
//     backwards: %r has a loop; only %r uses %b and %e, so they are fused into it; %s reduces the rows that the loop
//     runs over, and all its users are in it, so it is fused too: one loop over rows, only %x and %r in memory
//
// An array is not fused if a user reads memory (kernels, regions, dynamic slices, results), if two loops would both
// compute it, unless it is rematerialisable (cheap, and reading nothing large), if a broadcast would recompute it per
// copy, if the loop already has kMaximumNodes nodes, or if its operands would live for it and need more memory
// (lives.h).
//
// A reduction that was expected to be fused but cannot be is marked, and everything is decided again (`again`). Each
// pass marks at least one. A pass is linear in the program, except for the bounded searches for rows.
//
// The results are CpuArray.materialized and .rematerialisable, and CpuNode.row_shape, .row_kept of loops over rows;
// emit.c makes the loops.
#include "targets/cpu/lower/fuse.h"

#include <assert.h>
#include <string.h>

#include "targets/cpu/graph/match.h"
#include "targets/cpu/lower/lives.h"
#include "targets/cpu/lower/lower.h"

// Loops are limited to this many nodes. A loop's registers may exceed the first-level cache long before, but even then
// they cost less than arrays in memory.
enum { kMaximumNodes = 400, kRematerialisedDepth = 6 };

// Facts about an array that follow from its users.
typedef struct Use {
    CpuNode *root;  // the loop that computes it, NULL before the first use
    bool several;   // more than one such loop
    bool needed;    // something reads it from memory
} Use;

typedef struct Fusion {
    CpuProgram *program;
    Use *uses;        // by array id
    int32_t *sizes;   // nodes in the loop of a root, by node order
    int8_t *depths;   // of rematerialisable arrays
    int64_t *looked;  // by array id: the last search for rows that visited it, and with how many steps left
    int64_t search;
    bool again;  // a reduction could not be fused into the loop that expected it
} Fusion;

// ---- rematerialisable arrays

// Returns the depth of the expression if it reads nothing large, else -1. Costly operations count as large, whatever
// they read.
static int rematerialised_depth(const Fusion *fusion, const CpuArray *array) {
    const CpuNode *node = array->producer;
    if (!node) return array->elements <= 1 ? 0 : -1;
    const CpuLoopRole role = cpu_emit_role(node);
    if (role == CPU_ROLE_NONE) return array->elements <= 1 ? 0 : -1;
    if (role == CPU_ROLE_COSTLY && array->elements > 1) return -1;
    if (node->opcode == HLO_OP_IOTA) return 0;
    if (node->opcode == HLO_OP_CONSTANT) return array->splat ? 0 : -1;
    if (node->opcode == HLO_OP_BROADCAST && node->operands[0]->elements * 8 <= array->elements) return 1;
    int depth = 0;
    for (int32_t i = 0; i < node->operand_count; i++) {
        const int operand = fusion->depths[node->operands[i]->id];
        if (operand < 0) return -1;
        depth = operand > depth ? operand : depth;
    }
    return depth < kRematerialisedDepth ? depth + 1 : -1;
}

// Walks in program order, so that operands already have their depths.
static void find_rematerialisable(Fusion *fusion, CpuRegion *region) {
    for (int64_t i = 0; i < region->parameters.count; i++) {
        CpuArray *array = region->parameters.items[i];
        fusion->depths[array->id] = (int8_t)rematerialised_depth(fusion, array);
    }
    for (int64_t i = 0; i < region->nodes.count; i++) {
        const CpuNode *node = region->nodes.items[i];
        for (int32_t k = 0; k < node->result_count; k++) {
            CpuArray *array = node->results[k];
            fusion->depths[array->id] = (int8_t)rematerialised_depth(fusion, array);
            array->rematerialisable = fusion->depths[array->id] >= 0;
        }
        for (int32_t k = 0; k < node->region_count; k++) find_rematerialisable(fusion, node->regions[k]);
    }
}

// ---- rows

enum { kLongestRow = 1 << 16, kFewestRows = 8, kRowSearchDepth = 12 };

// Whether the node reduces whole rows of memory by one of the loop engine's own operations.
static bool reduces_rows(const CpuNode *node) {
    CpuReduceOp op;
    if (node->opcode != HLO_OP_REDUCE || node->operand_count != 2 || node->state != CPU_NODE_NORMAL ||
        node->row_unfusable)
        return false;
    const HloInts reduced = HLO_ATTRIBUTES(node->instruction, Dimensions)->dimensions;
    const HloShape *shape = node->operands[0]->shape;
    const int64_t kept = shape->rank - reduced.count;
    for (int64_t i = 0; i < reduced.count; i++)
        if (reduced.items[i] < kept) return false;
    const int64_t rows = node->results[0]->elements, all = node->operands[0]->elements;
    return rows >= kFewestRows && all > rows && all <= kLongestRow * rows &&
           cpu_emit_reduce_op(hlo_computation_binary_opcode(node->instruction->called[0]), shape->type, &op);
}

// Types may differ: a loop over rows converts inside.
static bool same_dims(const HloShape *a, const HloShape *b) {
    if (a->rank != b->rank) return false;
    for (int64_t d = 0; d < a->rank; d++)
        if (a->dims[d] != b->dims[d]) return false;
    return true;
}

// Whether the loop of `root` runs over the rows that `node` reduces, or can be made to.
static bool joins_rows(const CpuNode *node, const CpuNode *root) {
    const HloShape *rows = node->operands[0]->shape;
    const int32_t kept = (int32_t)node->results[0]->shape->rank;
    if (root->row_shape) return root->row_kept == kept && same_dims(root->row_shape, rows);
    if (root->opcode == HLO_OP_REDUCE)
        return reduces_rows(root) && kept == root->results[0]->shape->rank && same_dims(root->operands[0]->shape, rows);
    if (cpu_emit_role(root) == CPU_ROLE_NONE || root->state != CPU_NODE_NORMAL) return false;
    return root->results[0]->elements == hlo_shape_elements(rows) ||
           root->results[0]->elements == node->results[0]->elements;
}

// Whether the array, one element per row, comes from a reduction of rows of this shape that may still be fused into a
// loop. An array that was visited with as many steps left is not visited again: in a chain of values that are each used
// twice, there are 2^depth paths.
static bool search_rows(Fusion *fusion, const CpuArray *array, const HloShape *rows, int depth) {
    assert(depth >= 0 && depth <= kRowSearchDepth);
    const CpuNode *node = array->producer;
    if (!node || depth == 0 || array->materialized) return false;
    int64_t *looked = &fusion->looked[array->id];
    const int64_t now = fusion->search * (kRowSearchDepth + 1) + depth;
    if (*looked >= now) return false;
    *looked = now;
    if (node->opcode == HLO_OP_REDUCE) return reduces_rows(node) && same_dims(node->operands[0]->shape, rows);
    if (cpu_emit_role(node) == CPU_ROLE_NONE) return false;
    for (int32_t i = 0; i < node->operand_count; i++)
        if (search_rows(fusion, node->operands[i], rows, depth - 1)) return true;
    return false;
}

// Starts a new search each time: `looked` identifies searches by number.
static bool comes_from_rows(Fusion *fusion, const CpuArray *array, const HloShape *rows) {
    fusion->search++;
    return search_rows(fusion, array, rows, kRowSearchDepth);
}

// ---- decisions

// Marks the array as needed in memory; for a view, the array it views.
static void need(Fusion *fusion, CpuArray *array) {
    for (; array; array = array->view) {
        fusion->uses[array->id].needed = true;
        array->materialized = true;
    }
}

// Counts a use, by loops rather than by operands.
static void add_use(Fusion *fusion, CpuArray *array, CpuNode *root, bool several) {
    Use *use = &fusion->uses[array->id];
    use->several |= several || (use->root && use->root != root);
    use->root = root;
}

// Whether no loop can compute the array: parameters, results of kernels, constants of many numbers.
static bool must_be_in_memory(const CpuArray *array) {
    const CpuNode *node = array->producer;
    if (node && cpu_emit_has_pieces(node)) return false;
    if (!node || (cpu_emit_role(node) == CPU_ROLE_NONE && !reduces_rows(node)) || node->state == CPU_NODE_UNFUSABLE)
        return true;
    return node->opcode == HLO_OP_CONSTANT && !array->splat;
}

// Whether the node's array stays inside the loops that use it.
static bool stays_inside(Fusion *fusion, const CpuNode *node) {
    const CpuArray *array = node->results[0];
    const Use *use = &fusion->uses[array->id];
    if (use->needed || array->materialized || must_be_in_memory(array) || !use->root) return false;
    if (use->several) return array->rematerialisable || (array->view && node->opcode != HLO_OP_CONSTANT);
    int32_t *size = &fusion->sizes[use->root->order];
    if (*size >= kMaximumNodes && !array->rematerialisable) return false;
    (*size)++;
    return true;
}

// Whether the loop of its only reader reads the pieces of the node's result where they are. Not if it only moves them,
// or runs over rows.
static bool stays_in_pieces(const Fusion *fusion, const CpuNode *node) {
    const CpuNode *root = fusion->uses[node->results[0]->id].root;
    if (!root || !cpu_emit_has_pieces(node) || fusion->uses[node->results[0]->id].several) return false;
    const CpuLoopRole role = cpu_emit_role(root);
    return (role == CPU_ROLE_CHEAP || role == CPU_ROLE_COSTLY) && root->state == CPU_NODE_NORMAL && !root->row_shape;
}

// Whether reading the node's result in a loop costs next to nothing more than reading its only operand in memory.
static bool reads_through(const CpuNode *node) {
    if (!node || node->operand_count != 1 || node->opcode == HLO_OP_TRANSPOSE) return false;
    const CpuArray *array = node->results[0];
    const CpuLoopRole role = cpu_emit_role(node);
    return (role == CPU_ROLE_FREE || role == CPU_ROLE_CHEAP) && node->state == CPU_NODE_NORMAL &&
           !array->materialized && !array->view;
}

// Marks what the pieces are parts of as needed in memory, unless that costs next to nothing: the loop may read a piece
// in several ways, and would compute it in each of them.
static void need_pieces(Fusion *fusion, const CpuNode *node) {
    for (int32_t i = 0; i < node->operand_count; i++) {
        CpuArray *array = node->operands[i];
        while (reads_through(array->producer)) array = array->producer->operands[0];
        if (!array->rematerialisable && array->elements > 1) need(fusion, array);
    }
}

// Whether a broadcast that repeats elements would recompute a costly operand per copy. In a loop over rows, a value
// that exists once per row is computed once.
static bool repeats_work(Fusion *fusion, const CpuNode *node) {
    const CpuArray *operand = node->operands[0];
    return node->opcode == HLO_OP_BROADCAST && operand->elements > 1 && !operand->rematerialisable &&
           node->results[0]->elements > operand->elements && !comes_from_rows(fusion, operand, node->results[0]->shape);
}

// Records the operands' uses by a node that is computed within the loop of `root`.
static void use_loop_operands(Fusion *fusion, CpuNode *node, CpuNode *root, bool several) {
    for (int32_t i = 0; i < node->operand_count; i++) {
        CpuArray *operand = node->operands[i];
        if (node->opcode == HLO_OP_DYNAMIC_SLICE || repeats_work(fusion, node) || must_be_in_memory(operand))
            need(fusion, operand);
        else
            add_use(fusion, operand, root, several);
    }
}

// Whether a node's loops compute the operand themselves: the values of reductions, the pieces of concatenations and
// pads, the update of a dynamic-update-slice. All others are read from memory.
static bool takes_expression(const CpuNode *node, int32_t operand) {
    assert(operand >= 0 && operand < node->operand_count);
    bool largest;
    if (node->state != CPU_NODE_NORMAL) return false;
    if (cpu_match_argminmax(node, &largest)) return operand == 1;  // its kernel does not read this one
    switch (node->opcode) {
        case HLO_OP_REDUCE: return cpu_emit_can_inline_computation(node->instruction->called[0]);
        case HLO_OP_CONCATENATE:
        case HLO_OP_PAD: return true;
        case HLO_OP_DYNAMIC_UPDATE_SLICE: return operand == 1;
        default: return false;
    }
}

// Records the operands' uses by a node that has its own step.
static void use_step_operands(Fusion *fusion, CpuNode *node) {
    for (int32_t i = 0; i < node->operand_count; i++) {
        CpuArray *operand = node->operands[i];
        if (takes_expression(node, i) && !must_be_in_memory(operand))
            add_use(fusion, operand, node, false);
        else
            need(fusion, operand);
    }
}

// Fuses a reduction of rows whose users are all in one loop over the same rows into that loop.
static bool joins_users(Fusion *fusion, CpuNode *node) {
    if (!reduces_rows(node)) return false;
    const CpuArray *array = node->results[0];
    const Use *use = &fusion->uses[array->id];
    const bool joins = use->root && !use->needed && !use->several && !array->materialized &&
                       !must_be_in_memory(node->operands[1]) && joins_rows(node, use->root) &&
                       fusion->sizes[use->root->order] < kMaximumNodes;
    if (!joins) {
        node->row_unfusable = fusion->again = true;
        return false;
    }
    use->root->row_shape = node->operands[0]->shape;
    use->root->row_kept = (int32_t)array->shape->rank;
    fusion->sizes[use->root->order]++;
    use_loop_operands(fusion, node, use->root, false);
    return true;
}

static void fuse_region(Fusion *fusion, CpuRegion *region);

// Tries in order: fuse into the users' loop over rows, stay inside the users' loop, or get a buffer and begin a loop.
static void fuse_node(Fusion *fusion, CpuNode *node) {
    const CpuLoopRole role = cpu_emit_role(node);
    if (joins_users(fusion, node)) return;
    const bool in_pieces = stays_in_pieces(fusion, node);
    if ((role != CPU_ROLE_NONE || in_pieces) && stays_inside(fusion, node)) {
        if (in_pieces) need_pieces(fusion, node);
        const Use *use = &fusion->uses[node->results[0]->id];
        use_loop_operands(fusion, node, use->root, use->several);
        return;
    }
    for (int32_t i = 0; i < node->result_count; i++) need(fusion, node->results[i]);
    if (role == CPU_ROLE_NONE || node->results[0]->view)
        use_step_operands(fusion, node);
    else if (node->state == CPU_NODE_UNFUSABLE)
        for (int32_t i = 0; i < node->operand_count; i++) need(fusion, node->operands[i]);
    else
        use_loop_operands(fusion, node, node, false);
    for (int32_t i = 0; i < node->region_count; i++) fuse_region(fusion, node->regions[i]);
}

// Results and parameters of a region are read and written by other steps, so they are in memory.
static void fuse_region(Fusion *fusion, CpuRegion *region) {
    for (int64_t i = 0; i < region->results.count; i++) need(fusion, region->results.items[i]);
    for (int64_t i = 0; i < region->parameters.count; i++) need(fusion, region->parameters.items[i]);
    for (int64_t i = region->nodes.count; i-- > 0;) fuse_node(fusion, region->nodes.items[i]);
}

// Resets the row fields before each pass; `all` also clears which reductions could not be fused.
static void forget_rows(CpuRegion *region, bool all) {
    for (int64_t i = 0; i < region->nodes.count; i++) {
        CpuNode *node = region->nodes.items[i];
        node->row_shape = NULL;
        if (all) node->row_unfusable = false;
        for (int32_t k = 0; k < node->region_count; k++) forget_rows(node->regions[k], all);
    }
}

// Decides once more with the discoveries of each pass. Each marks at least one more reduction, so this terminates.
static void decide(Fusion *fusion, const bool *materialized) {
    CpuProgram *program = fusion->program;
    do {
        fusion->again = false;
        memset(fusion->uses, 0, sizeof(Use) * (size_t)program->arrays.count);
        memset(fusion->sizes, 0, sizeof(int32_t) * (size_t)program->node_count);
        for (int64_t i = 0; i < program->arrays.count; i++) program->arrays.items[i]->materialized = materialized[i];
        forget_rows(program->entry, false);
        fuse_region(fusion, program->entry);
    } while (fusion->again);
}

// Fuses all that can be, then gives buffers back to what costs more memory inside of loops.
void cpu_fuse(CpuProgram *program) {
    assert(program);
    enum { kMostRounds = 6 };
    HloArena *arena = program->arena;
    bool *materialized = HLO_ARENA_NEW(arena, bool, program->arrays.count);
    for (int64_t i = 0; i < program->arrays.count; i++) materialized[i] = program->arrays.items[i]->materialized;
    Fusion fusion = {.program = program,
                     .uses = HLO_ARENA_NEW(arena, Use, program->arrays.count),
                     .sizes = HLO_ARENA_NEW(arena, int32_t, program->node_count),
                     .depths = HLO_ARENA_NEW(arena, int8_t, program->arrays.count),
                     .looked = HLO_ARENA_NEW(arena, int64_t, program->arrays.count)};
    forget_rows(program->entry, true);
    find_rematerialisable(&fusion, program->entry);
    bool *fused = HLO_ARENA_NEW(arena, bool, program->arrays.count);
    decide(&fusion, materialized);
    for (int round = 0; round < kMostRounds; round++) {
        for (int64_t i = 0; i < program->arrays.count; i++) fused[i] = program->arrays.items[i]->materialized;
        if (!cpu_lives_shorten(program)) break;
        for (int64_t i = 0; i < program->arrays.count; i++)
            materialized[i] = materialized[i] || (program->arrays.items[i]->materialized && !fused[i]);
        decide(&fusion, materialized);
    }
}
