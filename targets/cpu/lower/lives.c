// SPDX-License-Identifier: Apache-2.0
// A value that is computed inside of a loop needs no memory, but its operands live until the loop runs:
//
//     %s1 = add(%p0, %p1)  %p2 = pad(…)  %s2 = add(%s1, %p2)  %p3 = pad(…)  %s3 = add(%s2, %p3), stored
//     one loop for all sums: %p0 … %p3 live at once; with %s1 and %s2 in memory, two arrays at a time
//
// This file adds up what is live at each node of a region, with the loops as fusion has chosen them, and looks at the
// peak. An expression that is computed across the peak gets a buffer before it if the operands that live only for it
// are larger than its result. Arrays count with their bytes from their producer to the last loop or step that reads
// them; arguments and constants count nothing, since their memory stays whatever happens.
//
// Buffers cost time: nothing is marked in regions that need little memory, or where the peak would hardly change.
#include "targets/cpu/lower/lives.h"

#include <assert.h>
#include <string.h>

#include "targets/cpu/lower/emit.h"

// A peak below this fits in caches, and the least part of it that must be saved.
enum { kSmallPeak = 1 << 18, kLeastPart = 16 };

// One use of an array.
typedef struct Use {
    int32_t node;  // index of the user in the region
    int32_t next;  // the array's next use, or -1
} Use;

typedef struct Lives {
    HloArena *arena;
    const CpuRegion *region;
    int32_t *index;  // by node order: the index in the region
    int32_t *runs;   // by index: where the node's value is computed, the index of the loop's node
    int32_t *first;  // by array id: its first use, or -1
    HLO_VECTOR(Use) uses;
    // Of the expression that is examined: stamps that mark its nodes (by index) and inputs (by array id), and both.
    int32_t *inside, *seen, search;
    HLO_VECTOR(int32_t) expression;
    CpuArrayVector inputs;
} Lives;

// Whether a loop computes the array where it is used.
static bool is_fused(const CpuArray *array) {
    return array->producer && !array->materialized && !array->view;
}

// Whether the node has no step of its own.
static bool is_inside(const CpuNode *node) {
    return node->result_count == 1 && node->region_count == 0 && is_fused(node->results[0]);
}

// Returns the bytes that the array takes of the region's memory; nothing if it belongs to something outside.
static int64_t size_of(const Lives *lives, const CpuArray *array) {
    const CpuNode *node = array->producer;
    if (!node || array->literal || array->view || node->opcode == HLO_OP_CONSTANT) return 0;
    return lives->index[node->order] >= 0 ? array->bytes : 0;
}

// Finds where each node's value is computed, and who uses what is in memory; users come before their operands.
static void find_uses(Lives *lives) {
    const CpuNodeVector *nodes = &lives->region->nodes;
    for (int64_t i = 0; i < nodes->count; i++) lives->index[nodes->items[i]->order] = (int32_t)i;
    for (int64_t i = nodes->count; i-- > 0;) {
        const CpuNode *node = nodes->items[i];
        if (!is_inside(node) || lives->runs[i] < i) lives->runs[i] = (int32_t)i;
        for (int32_t k = 0; k < node->operand_count; k++) {
            const CpuArray *root = cpu_array_root(node->operands[k]);
            const CpuNode *producer = root->producer;
            if (!producer || lives->index[producer->order] < 0) continue;
            int32_t *runs = &lives->runs[lives->index[producer->order]];
            if (is_fused(root) && *runs < lives->runs[i]) *runs = lives->runs[i];
            hlo_vector_push(lives->arena, &lives->uses, ((Use){(int32_t)i, lives->first[root->id]}));
            lives->first[root->id] = (int32_t)lives->uses.count - 1;
        }
    }
}

// Returns the largest sum of the arrays that are live at one node, and that node.
static int64_t find_peak(const Lives *lives, const int64_t *nested, int64_t *where) {
    const int64_t count = lives->region->nodes.count;
    int64_t *change = HLO_ARENA_NEW(lives->arena, int64_t, count + 1);
    for (int64_t i = 0; i < count; i++) {
        const CpuNode *node = lives->region->nodes.items[i];
        for (int32_t k = 0; k < node->result_count && !is_inside(node); k++) {
            const CpuArray *array = node->results[k];
            int64_t last = i;
            for (int32_t use = lives->first[array->id]; use >= 0; use = lives->uses.items[use].next) {
                const int64_t runs = lives->runs[lives->uses.items[use].node];
                last = runs > last ? runs : last;
            }
            change[i] += size_of(lives, array);
            change[last + 1] -= size_of(lives, array);
        }
    }
    int64_t live = 0, peak = 0;
    *where = 0;
    for (int64_t i = 0; i < count; i++) {
        live += change[i];
        if (live + nested[i] > peak) peak = live + nested[i], *where = i;
    }
    return peak;
}

// Collects an expression: its nodes, and the arrays in memory that it reads.
static void collect(Lives *lives, const CpuNode *node) {
    const int32_t index = lives->index[node->order];
    if (lives->inside[index] == lives->search) return;
    lives->inside[index] = lives->search;
    hlo_vector_push(lives->arena, &lives->expression, index);
    for (int32_t k = 0; k < node->operand_count; k++) {
        CpuArray *root = cpu_array_root(node->operands[k]);
        const CpuNode *producer = root->producer;
        if (!producer || lives->index[producer->order] < 0) continue;
        if (is_fused(root)) {
            collect(lives, producer);
        } else if (lives->seen[root->id] != lives->search) {
            lives->seen[root->id] = lives->search;
            hlo_vector_push(lives->arena, &lives->inputs, root);
        }
    }
}

// Whether the collected expression is all that reads the array after node `at`.
static bool dies(const Lives *lives, const CpuArray *array, int64_t at) {
    for (int32_t use = lives->first[array->id]; use >= 0; use = lives->uses.items[use].next) {
        const int32_t user = lives->uses.items[use].node;
        if (lives->inside[user] != lives->search && lives->runs[user] > at) return false;
    }
    return true;
}

// Returns the bytes that die at the node if the value of its expression is computed there.
static int64_t dying(Lives *lives, const CpuNode *node) {
    lives->search++;
    lives->expression.count = lives->inputs.count = 0;
    collect(lives, node);
    int64_t bytes = 0;
    for (int64_t i = 0; i < lives->inputs.count; i++)
        if (dies(lives, lives->inputs.items[i], lives->index[node->order]))
            bytes += size_of(lives, lives->inputs.items[i]);
    return bytes;
}

// Marks the expressions across the peak that are smaller than the operands that live for them, in program order, so
// that each can count on those before it. Returns what that saves.
static int64_t shorten(Lives *lives, int64_t peak_at, CpuArrayVector *marks) {
    int64_t saved = 0;
    for (int64_t i = 0; i < peak_at; i++) {
        const CpuNode *node = lives->region->nodes.items[i];
        if (!is_inside(node) || lives->runs[i] < peak_at || cpu_emit_role(node) == CPU_ROLE_NONE) continue;
        CpuArray *array = node->results[0];
        if (node->opcode == HLO_OP_CONSTANT || node->opcode == HLO_OP_IOTA || array->elements == 0) continue;
        const int64_t gain = dying(lives, node) - array->bytes;
        if (gain <= 0) continue;
        saved += gain;
        array->materialized = true;
        for (int64_t k = 0; k < lives->expression.count; k++) lives->runs[lives->expression.items[k]] = (int32_t)i;
        hlo_vector_push(lives->arena, marks, array);
    }
    return saved;
}

// Forgets the region's nodes and their uses, so that the tables serve the next region.
static void forget(Lives *lives) {
    for (int64_t i = 0; i < lives->region->nodes.count; i++) {
        const CpuNode *node = lives->region->nodes.items[i];
        lives->index[node->order] = -1;
        for (int32_t k = 0; k < node->result_count; k++) lives->first[node->results[k]->id] = -1;
    }
    lives->uses.count = 0;
}

// Handles a region after the regions inside of it. Sets *marked if it marked anything, and returns the peak.
static int64_t shorten_region(Lives *lives, const CpuRegion *region, bool *marked) {
    const int64_t count = region->nodes.count;
    int64_t *nested = HLO_ARENA_NEW(lives->arena, int64_t, count + 1);
    for (int64_t i = 0; i < count; i++) {
        for (int32_t k = 0; k < region->nodes.items[i]->region_count; k++) {
            const int64_t inner = shorten_region(lives, region->nodes.items[i]->regions[k], marked);
            nested[i] = inner > nested[i] ? inner : nested[i];
        }
    }
    lives->region = region;
    lives->runs = HLO_ARENA_NEW(lives->arena, int32_t, count + 1);
    lives->inside = HLO_ARENA_NEW(lives->arena, int32_t, count + 1);
    find_uses(lives);
    int64_t peak_at;
    const int64_t peak = find_peak(lives, nested, &peak_at);
    CpuArrayVector marks = {0};
    if (peak >= kSmallPeak && shorten(lives, peak_at, &marks) >= peak / kLeastPart)
        *marked = true;
    else
        for (int64_t i = 0; i < marks.count; i++) marks.items[i]->materialized = false;
    forget(lives);
    return peak;
}

bool cpu_lives_shorten(CpuProgram *program) {
    assert(program);
    bool marked = false;
    int64_t bytes = 0;
    for (int64_t i = 0; i < program->arrays.count && bytes < kSmallPeak; i++)
        if (program->arrays.items[i]->materialized) bytes += program->arrays.items[i]->bytes;
    if (bytes < kSmallPeak) return false;
    Lives lives = {.arena = program->arena,
                   .index = HLO_ARENA_NEW(program->arena, int32_t, program->node_count),
                   .first = HLO_ARENA_NEW(program->arena, int32_t, program->arrays.count),
                   .seen = HLO_ARENA_NEW(program->arena, int32_t, program->arrays.count)};
    memset(lives.index, -1, sizeof(int32_t) * (size_t)program->node_count);
    memset(lives.first, -1, sizeof(int32_t) * (size_t)program->arrays.count);
    shorten_region(&lives, program->entry, &marked);
    return marked;
}
