// SPDX-License-Identifier: Apache-2.0
// Combines several results into one loop: elementwise nodes over the same dims that read the same arrays, or each
// other, become one step, which reads shared arrays once. A result that only the loop's other results use is not stored
// at all.
//
//     %u = add(%p, %g); %v = multiply(%p, %p)      both over f32[4096], both read %p
//     one loop: load %p, load %g, add, store %u, multiply, store %v
//
// A group runs at the position of its last member. It is closed as soon as another step reads one of its results, and
// by every step that is not elementwise, so that no member moves past one that may overwrite its operands.
//
// Nodes are taken in order and put into the first open group that they fit: same dims, same width, an array of the
// result's size in common, and within the limits below. An expression's arrays are found by a walk that visits each
// node once (`seen` by stamps). A group whose loop cannot be emitted is dissolved (`ungrouped`) and lowering starts
// again.
#include <assert.h>

#include "targets/cpu/lower/lower.h"

// More results or operands would exceed the first-level cache, which has to hold a block of each.
enum { kMostMembers = 6, kMostInputs = 12, kMostNodes = 60, kOpenGroups = 16 };

typedef struct CpuGrouping Grouping;

struct CpuGroup {
    Grouping *grouping;  // provides the walks
    int64_t last;        // index of the last member in its region
    int32_t count, input_count, nodes;
    CpuNode *members[kMostMembers];
    CpuArray *inputs[kMostInputs];
};

// The arrays that the expression of one node reads from memory.
typedef struct Walk {
    CpuArray *inputs[kMostInputs];
    int32_t input_count, nodes;
    bool fits;  // within the limits, and without ops that a loop of several results cannot have
} Walk;

struct CpuGrouping {
    HloArena *arena;
    int32_t *seen;  // by array id: the stamp of the last walk that visited it
    int32_t stamp;
    CpuGroup *open[kOpenGroups];
    int32_t open_count;
};

// Compares by identity.
static bool contains(CpuArray *const *list, int32_t count, const CpuArray *array) {
    for (int32_t i = 0; i < count; i++)
        if (list[i] == array) return true;
    return false;
}

// Whether the array is in memory; a view counts as the array it views.
static bool is_in_memory(const CpuArray *array) {
    return array->materialized || (array->view && cpu_array_root((CpuArray *)(uintptr_t)array)->materialized);
}

// ---- walks

static void walk_operands(Grouping *grouping, const CpuNode *node, Walk *walk);

// Stops at arrays in memory, which are the expression's inputs.
static void walk_array(Grouping *grouping, CpuArray *array, Walk *walk) {
    if (!walk->fits || grouping->seen[array->id] == grouping->stamp) return;
    grouping->seen[array->id] = grouping->stamp;
    if (is_in_memory(array)) {
        CpuArray *root = cpu_array_root(array);
        if (contains(walk->inputs, walk->input_count, root)) return;
        walk->fits = walk->input_count < kMostInputs;
        if (walk->fits) walk->inputs[walk->input_count++] = root;
        return;
    }
    if (!array->producer) return;
    walk->fits = array->producer->opcode != HLO_OP_REDUCE && !cpu_emit_has_pieces(array->producer) &&
                 ++walk->nodes <= kMostNodes;
    walk_operands(grouping, array->producer, walk);
}

static void walk_operands(Grouping *grouping, const CpuNode *node, Walk *walk) {
    for (int32_t i = 0; i < node->operand_count && walk->fits; i++) walk_array(grouping, node->operands[i], walk);
}

// Uses a new stamp, so that `seen` need not be cleared.
static Walk walk_node(Grouping *grouping, const CpuNode *node) {
    Walk walk = {.fits = true, .nodes = 1};
    grouping->stamp++;
    walk_operands(grouping, node, &walk);
    return walk;
}

// ---- membership

// Whether the node has its own loop and stores one array.
static bool is_eligible(const CpuNode *node) {
    const CpuLoopRole role = cpu_emit_role(node);
    return (role == CPU_ROLE_CHEAP || role == CPU_ROLE_COSTLY) && node->state == CPU_NODE_NORMAL && !node->row_shape &&
           !node->ungrouped && !node->results[0]->view && node->results[0]->materialized;
}

// Whether one loop, and one map for all stores, serves both arrays: same dims and width.
static bool same_frame(const CpuArray *a, const CpuArray *b) {
    if (a->shape->rank != b->shape->rank || hlo_type_bytes(a->shape->type) != hlo_type_bytes(b->shape->type))
        return false;
    for (int64_t d = 0; d < a->shape->rank; d++)
        if (a->shape->dims[d] != b->shape->dims[d]) return false;
    return true;
}

// Whether the array is a result of an earlier member: then the group computes it itself.
static bool is_result(const CpuGroup *group, const CpuArray *array) {
    for (int32_t i = 0; i < group->count; i++)
        if (group->members[i]->results[0] == array) return true;
    return false;
}

static bool reads_result(const CpuGroup *group, const Walk *walk) {
    for (int32_t i = 0; i < walk->input_count; i++)
        if (is_result(group, walk->inputs[i])) return true;
    return false;
}

// Whether grouping pays and is possible: it pays if an array of the result's size is read once instead of twice.
static bool may_join(const CpuGroup *group, const CpuNode *node, const Walk *walk) {
    const CpuArray *result = node->results[0];
    int32_t added = 0, shared = 0;
    if (group->count == kMostMembers || group->nodes + walk->nodes > kMostNodes) return false;
    if (!same_frame(group->members[0]->results[0], result)) return false;
    for (int32_t i = 0; i < walk->input_count; i++) {
        const CpuArray *input = walk->inputs[i];
        const bool have = contains(group->inputs, group->input_count, input), own = is_result(group, input);
        shared += (have || own) && input->elements == result->elements;
        added += !have && !own;
    }
    return shared > 0 && group->input_count + added <= kMostInputs;
}

// Adds the node to the group; `at` is its index in its region.
static void join(CpuGroup *group, CpuNode *node, const Walk *walk, int64_t at) {
    assert(group->count < kMostMembers);  // may_join() or a new group
    for (int32_t i = 0; i < walk->input_count; i++)
        if (!contains(group->inputs, group->input_count, walk->inputs[i]) && !is_result(group, walk->inputs[i]))
            group->inputs[group->input_count++] = walk->inputs[i];
    group->members[group->count++] = node;
    group->nodes += walk->nodes;
    group->last = at;
}

// Closes a group; the last open group takes its number.
static void close_group(Grouping *grouping, int32_t number) {
    grouping->open[number] = grouping->open[--grouping->open_count];
}

// Finds a group for the node. Groups whose results the node reads from memory must have run before it.
static CpuGroup *place(Grouping *grouping, CpuNode *node, int64_t at) {
    const Walk walk = walk_node(grouping, node);
    CpuGroup *group = NULL;
    for (int32_t i = 0; i < grouping->open_count && walk.fits && !group; i++)
        if (may_join(grouping->open[i], node, &walk)) group = grouping->open[i];
    if (!walk.fits) grouping->open_count = 0;  // its inputs are not all known
    for (int32_t i = grouping->open_count; i-- > 0;)
        if (grouping->open[i] != group && reads_result(grouping->open[i], &walk)) close_group(grouping, i);
    if (!walk.fits) return NULL;
    if (!group) {
        if (grouping->open_count == kOpenGroups) close_group(grouping, 0);
        group = grouping->open[grouping->open_count++] = HLO_ARENA_NEW(grouping->arena, CpuGroup, 1);
        group->grouping = grouping;
    }
    join(group, node, &walk, at);
    return group;
}

// Makes one grouping for all regions: it has an entry per array of the program, and programs may have a region for
// every ten arrays.
static Grouping *new_grouping(const CpuLowering *lowering) {
    Grouping *grouping = HLO_ARENA_NEW(lowering->arena, Grouping, 1);
    grouping->arena = lowering->arena;
    grouping->seen = HLO_ARENA_NEW(lowering->arena, int32_t, lowering->program->arrays.count);
    return grouping;
}

CpuGroup **cpu_lower_groups(CpuLowering *lowering, const CpuRegion *region, bool (*needs_step)(const CpuNode *)) {
    if (!lowering->grouping) lowering->grouping = new_grouping(lowering);
    Grouping *grouping = lowering->grouping;
    CpuGroup **groups = HLO_ARENA_NEW(lowering->arena, CpuGroup *, region->nodes.count);
    grouping->open_count = 0;
    for (int64_t i = 0; i < region->nodes.count; i++) {
        CpuNode *node = region->nodes.items[i];
        if (!needs_step(node)) continue;
        if (is_eligible(node))
            groups[i] = place(grouping, node, i);
        else
            grouping->open_count = 0;
    }
    for (int64_t i = 0; i < region->nodes.count; i++)
        if (groups[i] && groups[i]->count == 1) groups[i] = NULL;
    return groups;
}

bool cpu_group_ends(const CpuGroup *group, int64_t at) {
    assert(group->count > 1 && at <= group->last);
    return at == group->last;
}

// ---- lowering

// All nodes of the members' expressions, users before their operands.
typedef struct Expressions {
    const CpuNode *nodes[kMostNodes];
    bool inside[kMostNodes];  // only the members' expressions use its result
    int32_t count;
} Expressions;

// Collects the nodes of an expression, sorted by order in the program, latest first.
static void collect(Expressions *expressions, Grouping *grouping, const CpuNode *node) {
    assert(expressions->count < kMostNodes);  // may_join() counted them
    int32_t at = expressions->count++;
    for (; at > 0 && expressions->nodes[at - 1]->order < node->order; at--)
        expressions->nodes[at] = expressions->nodes[at - 1];
    expressions->nodes[at] = node;
    for (int32_t i = 0; i < node->operand_count; i++) {
        const CpuArray *operand = node->operands[i];
        if (is_in_memory(operand) || !operand->producer || grouping->seen[operand->id] == grouping->stamp) continue;
        grouping->seen[operand->id] = grouping->stamp;
        collect(expressions, grouping, operand->producer);
    }
}

// Whether the array is used by the members' expressions only, and by no part of them that another step computes too: if
// two loops need a value that is not in memory, each computes it.
static bool stays_inside(const Expressions *expressions, const CpuArray *array) {
    int32_t uses = 0;
    for (int32_t i = 0; i < expressions->count; i++) {
        const CpuNode *user = expressions->nodes[i];
        for (int32_t k = 0; k < user->operand_count; k++) {
            if (user->operands[k] != array) continue;
            if (!expressions->inside[i]) return false;
            uses++;
        }
    }
    assert(uses <= array->use_count);  // each use is an operand of one node
    return uses == array->use_count;
}

// Users come before their operands, so that a value's users are decided before the value.
static Expressions expressions_of(const CpuGroup *group) {
    Expressions expressions = {.count = 0};
    group->grouping->stamp++;
    for (int32_t i = 0; i < group->count; i++) collect(&expressions, group->grouping, group->members[i]);
    for (int32_t i = 0; i < expressions.count; i++) {
        const CpuArray *result = expressions.nodes[i]->results[0];
        // A member computes its result here whatever reads it; whether other users need it is checked when it is
        // stored.
        expressions.inside[i] = is_result(group, result) || stays_inside(&expressions, result);
    }
    return expressions;
}

// Marks the members so that they get separate steps in the next pass.
static void ungroup(CpuLowering *lowering, const CpuGroup *group) {
    for (int32_t i = 0; i < group->count; i++) group->members[i]->ungrouped = true;
    lowering->retry = true;
}

// Emits one loop with several results, stored only if other steps read them. If such a loop is impossible (it would
// read elements of its own results, or needs too many registers), the members go back to separate loops.
HloStatus cpu_lower_group(CpuLowering *lowering, const CpuGroup *group, CpuStep *step) {
    CpuArray *values[kMostMembers], *targets[kMostMembers];
    CpuFusedLoop *loop = HLO_ARENA_NEW(lowering->arena, CpuFusedLoop, 1);
    CpuEmitFailure failure = {0};
    const Expressions expressions = expressions_of(group);
    for (int32_t i = 0; i < group->count; i++) {
        values[i] = group->members[i]->results[0];
        targets[i] = i + 1 < group->count && stays_inside(&expressions, values[i]) ? NULL : values[i];
    }
    HloStatus status = cpu_emit_elementwise(lowering->arena, lowering->features, group->count, values, targets, NULL,
                                            NULL, loop, &failure);
    if (!status) {
        cpu_step_loops(lowering, step, loop, 1);
        return HLO_SUCCESS;
    }
    const HloCode code = hlo_status_code(status);
    if (code == HLO_UNIMPLEMENTED || code == HLO_RESOURCE_EXHAUSTED) {
        hlo_status_free(status);
        ungroup(lowering, group);
        return HLO_SUCCESS;
    }
    (void)cpu_lower_emitted(lowering, group->members[group->count - 1], status, &failure, &status);
    return status;
}
