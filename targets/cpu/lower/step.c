// SPDX-License-Identifier: Apache-2.0
// Helpers that all lowerings share: filling in steps, and giving a node up.
#include "targets/cpu/lower/step.h"

#include <assert.h>

#include "targets/cpu/lower/lower.h"

// Adds an array that is not yet in the list; the search is linear, as steps read few arrays.
static void push_unique(HloArena *arena, CpuArrayVector *list, CpuArray *array) {
    for (int64_t i = 0; i < list->count; i++)
        if (list->items[i] == array) return;
    hlo_vector_push(arena, list, array);
}

// Records what the loops read and write. The reads and writes of a step determine which steps must wait for each other,
// and how long each array lives. An array that is both read and written appears in both lists.
void cpu_step_loops(CpuLowering *lowering, CpuStep *step, const CpuFusedLoop *loops, int32_t count) {
    assert(count >= 0 && loops && step);  // a concatenation of empty arrays has none
    CpuArrayVector reads = {0}, writes = {0};
    for (int32_t i = 0; i < count; i++) {
        for (int32_t k = 0; k < loops[i].buffer_count; k++) {
            const CpuLoopBuffer *buffer = &loops[i].buffers[k];
            push_unique(lowering->arena, buffer->written ? &writes : &reads, buffer->array);
            for (int32_t d = 0; d < buffer->start_count; d++)
                push_unique(lowering->arena, &reads, cpu_array_root(buffer->starts[d].index));
        }
        step->cost += cpu_loop_cost(loops[i].loop);
    }
    step->kind = CPU_STEP_LOOPS;
    step->loops = loops;
    step->loop_count = count;
    step->reads = reads.items;
    step->read_count = (int32_t)reads.count;
    step->writes = writes.items;
    step->write_count = (int32_t)writes.count;
}

// Records the node's operands and results; the cost is the number of elements read and written.
void cpu_step_operands(CpuLowering *lowering, CpuNode *node, CpuStep *step) {
    step->reads = HLO_ARENA_NEW(lowering->arena, CpuArray *, node->operand_count);
    step->read_count = node->operand_count;
    for (int32_t i = 0; i < node->operand_count; i++) {
        step->reads[i] = cpu_array_root(node->operands[i]);
        step->cost += (double)node->operands[i]->elements;
    }
    step->writes = node->results;
    step->write_count = node->result_count;
    for (int32_t i = 0; i < node->result_count; i++) step->cost += (double)node->results[i]->elements;
}

void cpu_step_kernel(CpuLowering *lowering, CpuNode *node, CpuStep *step, CpuKernelFunction *run, const void *kernel) {
    step->kind = CPU_STEP_KERNEL;
    step->run = run;
    step->kernel = kernel;
    cpu_step_operands(lowering, node, step);
}

// Marks the node, and lowering starts again. Fusion decided without knowing whether the nodes' code can be emitted;
// starting again is simpler than undoing a fusion, and rare.
HloStatus cpu_lower_give_up(CpuLowering *lowering, CpuNode *node) {
    node->state = CPU_NODE_FALLBACK;
    lowering->retry = true;
    return HLO_SUCCESS;
}

// Handles the result of an emission. Three failures are not errors. ABORTED names an array that must have a buffer
// after all. UNIMPLEMENTED and RESOURCE_EXHAUSTED first take the node out of its neighbours' loops; if it fails by
// itself too, it is left to the evaluator.
bool cpu_lower_emitted(CpuLowering *lowering, CpuNode *node, HloStatus emitted, const CpuEmitFailure *failure,
                       HloStatus *status) {
    *status = HLO_SUCCESS;
    if (!emitted) return true;
    const HloCode code = hlo_status_code(emitted);
    if (code != HLO_ABORTED && code != HLO_UNIMPLEMENTED && code != HLO_RESOURCE_EXHAUSTED) {
        *status = hlo_status_annotate(emitted, "%%%s", node->instruction->name);
        return false;
    }
    hlo_status_free(emitted);
    lowering->retry = true;
    if (code == HLO_ABORTED)
        for (CpuArray *array = failure->materialize; array; array = array->view) array->materialized = true;
    else
        node->state = node->state == CPU_NODE_NORMAL ? CPU_NODE_UNFUSABLE : CPU_NODE_FALLBACK;
    return false;
}
