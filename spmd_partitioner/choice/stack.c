// SPDX-License-Identifier: Apache-2.0
// With X bytes in the stack that is taken apart and Y in the one that is built, g devices along the axes:
//     as it is       X (g-1)/g               gathered once, before the loop; the loop's work is repeated everywhere
//     exchanged      (X + Y) (g-1)/g^2       an all-to-all before the loop and one after it; the work is divided
//
//     xs [128,64] is [{x}, {}], h = a h + xs[i], ys[i] = h, ys wanted [{x}, {}]
//     exchanged to [{}, {x}] on 8 devices: 7,168 bytes for 28,672
// What the axes cause in the body (a product that sums over the new dimension sends in every iteration) comes from the
// same search as for contests. For it the stacks that the loop builds must be free of the axes: they hold them only
// because something after the loop wants them there.
#include "spmd_partitioner/stack.h"

#include "spmd_partitioner/contraction.h"

// The plan's number of the array that is leaf `leaf` of an instruction.
static int32_t array_number(const SpmdPlan *plan, const HloInstruction *op, int64_t leaf) {
    return (int32_t)(spmd_plan_array(plan, op, leaf) - plan->arrays.items);
}

// Adds a dimension to the list if it has the stack's axes.
static void add_built(const SpmdPlan *plan, SpmdStack *stack, int32_t array, int32_t dim) {
    if (!spmd_axes_equal(&plan->arrays.items[array].sharding->dims[dim], &stack->axes)) return;
    stack->built[stack->built_count++] = (SpmdStackDim){array, dim};
}

// The loop that builds a stack by `update`, and the element of its carry; NULL if none does.
static const HloInstruction *loop_of(const HloInstruction *update, int64_t *index) {
    const HloComputation *body = update->parent;
    const HloInstruction *element = update->operands[0], *root = body->root;
    if (body->callers.count != 1 || !hlo_is(body->callers.items[0], HLO_OP_WHILE)) return NULL;
    if (!hlo_is(element, HLO_OP_GET_TUPLE_ELEMENT) || !hlo_is(root, HLO_OP_TUPLE)) return NULL;
    *index = HLO_ATTRIBUTES(element, TupleIndex)->index;
    const HloInstruction *loop = body->callers.items[0];
    const bool carried = loop->called[1] == body && element->operands[0] == body->parameters.items[0];
    return carried && root->operands[*index] == update ? loop : NULL;
}

// Lists what loops build along dimensions with the stack's axes: what a loop carries, and what an iteration leaves of
// it. A gradient has two loops, of which the second follows the first.
static void find_built(const SpmdPlan *plan, SpmdStack *stack) {
    for (int64_t n = 0; n < plan->nodes.count && stack->built_count + 2 <= SPMD_MOST_BUILT; n++) {
        const HloInstruction *update = plan->nodes.items[n].rule ? plan->nodes.items[n].rule->op : NULL;
        if (!update || !hlo_is(update, HLO_OP_DYNAMIC_UPDATE_SLICE)) continue;
        int64_t index;
        const HloInstruction *loop = loop_of(update, &index);
        if (!loop) continue;
        const int32_t carried = array_number(plan, loop, spmd_leaf_offset(loop->shape, index));
        const int32_t left = array_number(plan, update, 0);
        if (plan->arrays.items[carried].annotated || plan->arrays.items[left].annotated) continue;
        for (int32_t d = 0; d < update->shape->rank && stack->built_count + 2 <= SPMD_MOST_BUILT; d++) {
            if (update->shape->dims[d] == update->operands[1]->shape->dims[d]) continue;
            add_built(plan, stack, carried, d);
            if (left != carried) add_built(plan, stack, left, d);
        }
    }
}

// What it costs that each device gets every slice: the whole array once, or each slice from the device that has it.
static double gathered(SpmdConsequences *consequences, const HloInstruction *op, const HloInstruction *loop,
                       const SpmdStack *stack) {
    const SpmdPlan *plan = consequences->plan;
    const SpmdAtomSet atoms = spmd_axes_set(&stack->axes);
    const double share = 1 - 1 / (double)spmd_axes_product(plan->mesh, &stack->axes);
    const SpmdArray *array = &plan->arrays.items[stack->from.array];
    const double part = spmd_part_bytes(consequences, array, atoms) * share;
    const double taken = (double)hlo_shape_elements(op->shape) / (double)hlo_shape_elements(array->shape);
    const double once =
        spmd_runs(consequences, loop->parent) * spmd_transfer_price(plan->costs, SPMD_TRANSFER_GATHER, atoms, part);
    // Parts that the loop adds up are finished once.
    const HloComputation *place = spmd_sum_waits(op) ? loop->parent : op->parent;
    const double each = spmd_runs(consequences, place) *
                        spmd_transfer_price(plan->costs, SPMD_TRANSFER_REDUCE, atoms, 2 * part * taken);
    return once < each ? once : each;
}

// Takes the axes off the dimensions of a stack and of those that are built, or puts them there. In between only what is
// sent counts: dividing the work of the loop does not pay for more of it.
static void set_axes(SpmdConsequences *consequences, const SpmdStack *stack, const SpmdAxes *axes) {
    consequences->sent_only = !axes->count;
    SpmdArray *arrays = consequences->plan->arrays.items;
    arrays[stack->from.array].sharding->dims[stack->from.dim] = *axes;
    for (int32_t i = 0; i < stack->built_count; i++)
        arrays[stack->built[i].array].sharding->dims[stack->built[i].dim] = *axes;
    consequences->known = (HloIntMap){0};  // what was found out before holds for other shardings
}

// Whether a dimension that each slice has whole can be divided further by the axes.
static bool can_have(const SpmdConsequences *consequences, const HloInstruction *op, const SpmdStack *stack,
                     int32_t dim) {
    const SpmdMesh *mesh = consequences->plan->mesh;
    const SpmdArray *array = &consequences->plan->arrays.items[stack->from.array];
    const int64_t size = array->shape->dims[dim];
    const int64_t shards = spmd_axes_product(mesh, &array->sharding->dims[dim]) * spmd_axes_product(mesh, &stack->axes);
    return dim != stack->from.dim && op->shape->dims[dim] == size && size % shards == 0 &&
           spmd_array_accepts(array, dim, spmd_axes_set(&stack->axes), shards);
}

// The dimension of which most follows, if that is more than `lost`; -1 otherwise.
static int32_t best_dim(SpmdConsequences *consequences, const HloInstruction *op, const SpmdStack *stack, double lost) {
    double best = lost;
    int32_t found = -1;
    for (int32_t d = 0; d < op->shape->rank; d++) {
        if (!can_have(consequences, op, stack, d)) continue;
        const double worth = spmd_consequences(consequences, -1, stack->from.array, d, &stack->axes);
        if (worth <= best) continue;
        best = worth;
        found = d;
    }
    return found;
}

bool spmd_find_stack(SpmdConsequences *consequences, int32_t number, SpmdStack *stack) {
    const SpmdPlan *plan = consequences->plan;
    const SpmdNode *node = &plan->nodes.items[number];
    const HloInstruction *op = node->rule ? node->rule->op : NULL;
    if (!op || !hlo_is(op, HLO_OP_DYNAMIC_SLICE) || node->arrays[0] < 0) return false;
    const HloInstruction *loop = spmd_loop_around(op, 0);
    const SpmdArray *array = &plan->arrays.items[node->arrays[0]];
    if (!loop || array->annotated || spmd_runs(consequences, op->parent) <= 1) return false;
    *stack = (SpmdStack){.from = {node->arrays[0], -1}};
    for (int32_t d = 0; d < op->shape->rank; d++) {
        if (op->shape->dims[d] == array->shape->dims[d] || !array->sharding->dims[d].count) continue;
        if (stack->from.dim >= 0) return false;  // slices along two sharded dimensions
        stack->from.dim = d;
    }
    if (stack->from.dim < 0) return false;
    stack->axes = array->sharding->dims[stack->from.dim];
    find_built(plan, stack);
    const double lost = -gathered(consequences, op, loop, stack);
    set_axes(consequences, stack, &(SpmdAxes){0});
    stack->to = best_dim(consequences, op, stack, lost);
    set_axes(consequences, stack, &stack->axes);
    return stack->to >= 0;
}
