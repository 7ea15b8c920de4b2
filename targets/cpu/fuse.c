// SPDX-License-Identifier: Apache-2.0
// Fusion. Walks each region backwards, so that the users of an array are decided before the array is: an array whose
// loop users all end in one loop joins it; an array that others need in memory gets a buffer and a loop of its own.
#include "targets/cpu/fuse.h"

#include "targets/cpu/lower.h"

// More nodes than this in one loop would not fit the block registers of a core's first-level cache.
enum { kMaximumNodes = 40, kLightDepth = 6 };

// What is known about an array from its users.
typedef struct Use {
    CpuNode *root;  // the loop that computes it, NULL before the first use
    bool several;   // more than one such loop
    bool needed;    // something reads it from memory
} Use;

typedef struct Fusion {
    CpuProgram *program;
    Use *uses;       // by array id
    int32_t *sizes;  // nodes in the loop of a root, by node order
    int8_t *depths;  // of light arrays
} Fusion;

// ---- light arrays

// Depth of the expression if it reads nothing large, else -1.
static int light_depth(const Fusion *fusion, const CpuArray *array) {
    const CpuNode *node = array->producer;
    if (!node) return array->elements <= 1 ? 0 : -1;
    const CpuLoopRole role = cpu_emit_role(node);
    if (role == CPU_ROLE_NONE || role == CPU_ROLE_COSTLY) return array->elements <= 1 ? 0 : -1;
    if (node->opcode == HLO_OP_IOTA) return 0;
    if (node->opcode == HLO_OP_CONSTANT) return array->splat ? 0 : -1;
    if (node->opcode == HLO_OP_BROADCAST && node->operands[0]->elements * 8 <= array->elements) return 1;
    int depth = 0;
    for (int32_t i = 0; i < node->operand_count; i++) {
        const int operand = fusion->depths[node->operands[i]->id];
        if (operand < 0) return -1;
        depth = operand > depth ? operand : depth;
    }
    return depth < kLightDepth ? depth + 1 : -1;
}

static void find_light(Fusion *fusion, CpuRegion *region) {
    for (int64_t i = 0; i < region->parameters.count; i++) {
        CpuArray *array = region->parameters.items[i];
        fusion->depths[array->id] = (int8_t)light_depth(fusion, array);
    }
    for (int64_t i = 0; i < region->nodes.count; i++) {
        const CpuNode *node = region->nodes.items[i];
        for (int32_t k = 0; k < node->result_count; k++) {
            CpuArray *array = node->results[k];
            fusion->depths[array->id] = (int8_t)light_depth(fusion, array);
            array->light = fusion->depths[array->id] >= 0;
        }
        for (int32_t k = 0; k < node->region_count; k++) find_light(fusion, node->regions[k]);
    }
}

// ---- decisions

// The array must be in memory; of a view, what it looks at.
static void need(Fusion *fusion, CpuArray *array) {
    for (; array; array = array->view) {
        fusion->uses[array->id].needed = true;
        array->materialized = true;
    }
}

static void add_use(Fusion *fusion, CpuArray *array, CpuNode *root, bool several) {
    Use *use = &fusion->uses[array->id];
    use->several |= several || (use->root && use->root != root);
    use->root = root;
}

static bool must_be_in_memory(const CpuArray *array) {
    const CpuNode *node = array->producer;
    if (!node || cpu_emit_role(node) == CPU_ROLE_NONE || node->state == CPU_NODE_ALONE) return true;
    return node->opcode == HLO_OP_CONSTANT && !array->splat;
}

// True if the node's array stays inside the loops that use it.
static bool stays_inside(Fusion *fusion, const CpuNode *node) {
    const CpuArray *array = node->results[0];
    const Use *use = &fusion->uses[array->id];
    if (use->needed || array->materialized || must_be_in_memory(array) || !use->root) return false;
    if (use->several) return array->light || (array->view && node->opcode != HLO_OP_CONSTANT);
    int32_t *size = &fusion->sizes[use->root->order];
    if (*size >= kMaximumNodes && !array->light) return false;
    (*size)++;
    return true;
}

// A broadcast that repeats elements would compute a costly operand once a copy.
static bool repeats_work(const Fusion *fusion, const CpuNode *node) {
    const CpuArray *operand = node->operands[0];
    (void)fusion;
    return node->opcode == HLO_OP_BROADCAST && operand->elements > 1 && !operand->light &&
           node->results[0]->elements > operand->elements;
}

static void use_loop_operands(Fusion *fusion, CpuNode *node, CpuNode *root, bool several) {
    for (int32_t i = 0; i < node->operand_count; i++) {
        CpuArray *operand = node->operands[i];
        if (node->opcode == HLO_OP_DYNAMIC_SLICE || repeats_work(fusion, node) || must_be_in_memory(operand))
            need(fusion, operand);
        else
            add_use(fusion, operand, root, several);
    }
}

// Operands that a node's loops compute themselves: the values of reductions, the pieces of concatenations and pads, the
// update of a dynamic-update-slice. All others are read from memory.
static bool takes_expression(const CpuNode *node, int32_t operand) {
    bool largest;
    if (node->state != CPU_NODE_NORMAL) return false;
    if (cpu_lower_is_arg_extreme(node, &largest)) return operand == 1;  // which its kernel does not read
    switch (node->opcode) {
        case HLO_OP_REDUCE: return cpu_emit_can_inline_computation(node->instruction->called[0]);
        case HLO_OP_CONCATENATE:
        case HLO_OP_PAD: return true;
        case HLO_OP_DYNAMIC_UPDATE_SLICE: return operand == 1;
        default: return false;
    }
}

static void use_step_operands(Fusion *fusion, CpuNode *node) {
    for (int32_t i = 0; i < node->operand_count; i++) {
        CpuArray *operand = node->operands[i];
        if (takes_expression(node, i) && !must_be_in_memory(operand))
            add_use(fusion, operand, node, false);
        else
            need(fusion, operand);
    }
}

static void fuse_region(Fusion *fusion, CpuRegion *region);

static void fuse_node(Fusion *fusion, CpuNode *node) {
    const CpuLoopRole role = cpu_emit_role(node);
    if (role != CPU_ROLE_NONE && stays_inside(fusion, node)) {
        const Use *use = &fusion->uses[node->results[0]->id];
        use_loop_operands(fusion, node, use->root, use->several);
        return;
    }
    for (int32_t i = 0; i < node->result_count; i++) need(fusion, node->results[i]);
    if (role == CPU_ROLE_NONE || node->results[0]->view)
        use_step_operands(fusion, node);
    else if (node->state == CPU_NODE_ALONE)
        for (int32_t i = 0; i < node->operand_count; i++) need(fusion, node->operands[i]);
    else
        use_loop_operands(fusion, node, node, false);
    for (int32_t i = 0; i < node->region_count; i++) fuse_region(fusion, node->regions[i]);
}

static void fuse_region(Fusion *fusion, CpuRegion *region) {
    for (int64_t i = 0; i < region->results.count; i++) need(fusion, region->results.items[i]);
    for (int64_t i = 0; i < region->parameters.count; i++) need(fusion, region->parameters.items[i]);
    for (int64_t i = region->nodes.count; i-- > 0;) fuse_node(fusion, region->nodes.items[i]);
}

void cpu_fuse(CpuProgram *program) {
    HloArena *arena = program->arena;
    Fusion fusion = {.program = program,
                     .uses = HLO_ARENA_NEW(arena, Use, program->arrays.count),
                     .sizes = HLO_ARENA_NEW(arena, int32_t, program->node_count),
                     .depths = HLO_ARENA_NEW(arena, int8_t, program->arrays.count)};
    find_light(&fusion, program->entry);
    fuse_region(&fusion, program->entry);
}
