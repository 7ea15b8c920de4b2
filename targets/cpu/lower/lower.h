// SPDX-License-Identifier: Apache-2.0
// Lowering of the program graph to steps.
#ifndef MESHLO_TARGETS_CPU_LOWER_LOWER_H_
#define MESHLO_TARGETS_CPU_LOWER_LOWER_H_

#include "targets/cpu/lower/emit.h"

HLO_BEGIN_C

typedef struct CpuLowering {
    CpuProgram *program;
    HloArena *arena;  // owns loops and the data of kernels
    CpuFeatures features;
    bool tpu_numerics;
    bool retry;  // something was marked in the program: lower again
    HLO_VECTOR(const CpuNode *) fallbacks;
    struct CpuGrouping *grouping;                 // of group.c
    struct CpuCollectiveLoops *collective_loops;  // of collective.c
} CpuLowering;

// Lowers the whole program: *steps are the entry's.
HLO_NODISCARD HloStatus cpu_lower(CpuLowering *lowering, CpuSteps **steps);

// Turns one node into one step, and fills in its kind, reads, writes and data. Puts a node that it cannot lower into
// the state FALLBACK and sets `retry`.
typedef HloStatus CpuLowerFunction(CpuLowering *lowering, CpuNode *node, CpuStep *step);

// Returns how a product of the node's first two operands is rounded. Under a TPU's numerics f32 operands, also with a
// bf16 one on the other side, go through the matrix unit in as many bf16 passes as the algorithm or the precisions
// request. A matrix times a vector does not, unless an algorithm requires it. This is the evaluator's rule
// (hlo_eval_passes()).
CpuPrecision cpu_lower_precision(const CpuLowering *lowering, const CpuNode *node, HloPrecisions precisions,
                                 int32_t algorithm, bool matrix_vector);

// The lowerings of the table, one per kind of op.
#define CPU_LOWERING(opcode, lowering, evaluated) CpuLowerFunction cpu_lower_##lowering;
#include "targets/cpu/lower/lowerings.def"
#undef CPU_LOWERING
// Those of custom calls, of a reduction that finds a place, and of transfers between devices.
CpuLowerFunction cpu_lower_top_k_call, cpu_lower_approximate_top_k, cpu_lower_argminmax, cpu_lower_pad_to_static,
    cpu_lower_slice_to_dynamic, cpu_lower_send, cpu_lower_recv;

// Elementwise nodes that become one step of several results (group.c).
typedef struct CpuGroup CpuGroup;
// Returns, by the index of a node in the region, the group that it belongs to, or NULL. `needs_step` selects the nodes
// that run.
CpuGroup **cpu_lower_groups(CpuLowering *lowering, const CpuRegion *region, bool (*needs_step)(const CpuNode *));
// Whether `at` is the index of the group's last member in the region's order, where the group's step runs; `at` is the
// index of a member.
bool cpu_group_ends(const CpuGroup *group, int64_t at);
// Lowers the group to one step; if no loop can compute it, marks its members and sets `retry`.
HLO_NODISCARD HloStatus cpu_lower_group(CpuLowering *lowering, const CpuGroup *group, CpuStep *step);

// Leaves the node to the evaluator.
HloStatus cpu_lower_give_up(CpuLowering *lowering, CpuNode *node);

// Copies the dims of a shape to `arena`.
static inline const int64_t *cpu_copy_dims(HloArena *arena, const HloShape *shape) {
    return hlo_arena_copy(arena, shape->dims, sizeof(int64_t) * (size_t)shape->rank);
}

// Makes a step that reads all operands and writes all results by calling `run` with `kernel`.
void cpu_step_kernel(CpuLowering *lowering, CpuNode *node, CpuStep *step, CpuKernelFunction *run, const void *kernel);
// Lets a step read all operands and write all results, with their number of elements as its cost.
void cpu_step_operands(CpuLowering *lowering, CpuNode *node, CpuStep *step);
// Makes a step of `count` loops: reads and writes are those of the loops.
void cpu_step_loops(CpuLowering *lowering, CpuStep *step, const CpuFusedLoop *loops, int32_t count);
// Handles the result of an emission. Returns true if there is a loop; false if the node was marked and must be tried
// again. Real errors (out of memory) are returned in *status.
bool cpu_lower_emitted(CpuLowering *lowering, CpuNode *node, HloStatus emitted, const CpuEmitFailure *failure,
                       HloStatus *status);

HLO_END_C

#endif
