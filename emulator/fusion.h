// SPDX-License-Identifier: Apache-2.0
// Which instructions of a computation a TPU would run as one kernel. Cheap producers are computed inside their
// consumers, so that chains of elementwise operations do not pay for memory at every step; matrix products take in what
// feeds them and what follows them elementwise; reductions are made where their operand is made. A kernel writes its
// roots, which are the first of its members; everything else in it stays on the chip.
//
// Stability: experimental.
#ifndef MESHLO_EMULATOR_FUSION_H_
#define MESHLO_EMULATOR_FUSION_H_

#include "emulator/chip.h"
#include "emulator/op_class.h"

HLO_BEGIN_C

// A kernel. Its first `root_count` members are its results; it is named after members[0].
typedef struct EmuKernel {
    HloInstruction **members;
    int64_t member_count;
    int64_t root_count;
    EmuOpClass kind;
    double seconds, matrix_seconds;  // about, for scheduling; set by emu_plan_estimate()
} EmuKernel;

// The bodies of kernels that users wrote (cost.h).
typedef struct EmuBodies EmuBodies;

// The kernels of a computation in the order in which they run. FREE instructions are not in any of them.
typedef struct EmuPlan {
    const HloComputation *computation;
    HloInstruction **order;  // all instructions, operands first
    int64_t order_count;
    EmuKernel *kernels;
    int64_t kernel_count;
    // By kernel, of a loop's body: the number of the kernel after which a transfer for the next iteration starts, if
    // the kernel starts one; -1 for others. NULL: each starts at its own place.
    int64_t *starts_after;
} EmuPlan;

// Plans a computation for `chip` in `arena`. Where the program is not scheduled, the kernels are in the order of a walk
// from the result through the operands, which the order of the text does not change. The chip's balance of compute and
// bandwidth decides what is worth computing twice; with `spares_memory`, expensive functions are computed in each of
// several kernels also where one of these adds them up and could write them for the others. `position_of` and
// `kernel_of` have an entry for each instruction id of the module. Those of the computation's instructions are set: to
// the position in the plan's order, and to the number of the kernel that has the instruction as a root, -1 if none has.
// What is needed on the way is taken from `scratch` and given back, here and below. Memory errors jump to
// hlo_protect().
HLO_EXPORT EmuPlan *emu_plan(HloArena *arena, HloArena *scratch, const HloComputation *computation, const EmuChip *chip,
                             bool spares_memory, int64_t *position_of, int32_t *kernel_of);

// The same kernels depth first from the result, operands that free most first: the order that XLA tries for programs
// that are not scheduled. `kernel_of` is as emu_plan() left it; emu_plan_number() updates it to the new order.
HLO_EXPORT EmuPlan *emu_plan_depth_first(HloArena *arena, HloArena *scratch, const EmuPlan *plan, const EmuChip *chip,
                                         const int32_t *kernel_of);

// The same kernels in an order that frees as many bytes as possible at each step, each start directly before its done;
// NULL if halves of transfers depend on each other in a way that this does not allow.
HLO_EXPORT EmuPlan *emu_plan_list_schedule(HloArena *arena, HloArena *scratch, const EmuPlan *plan, const EmuChip *chip,
                                           const int32_t *kernel_of);

// Estimates the time of each kernel, and that of the systolic arrays in it; that of loops, branches and calls is
// infinite. `bodies` keeps the work of users' kernels (cost.h).
HLO_EXPORT void emu_plan_estimate(EmuPlan *plan, const EmuChip *chip, EmuBodies *bodies);

// The same order with starts and dones that are side by side moved apart, so that transfers run beside kernels: results
// larger than their operands start `ahead` times as early as the transfer takes. `kernel_of` numbers `plan`.
HLO_EXPORT EmuPlan *emu_plan_spread(HloArena *arena, HloArena *scratch, const EmuPlan *plan, const EmuChip *chip,
                                    const int32_t *kernel_of, double ahead);

// Sets the entries of `kernel_of` for the roots of a plan's kernels.
HLO_EXPORT void emu_plan_number(const EmuPlan *plan, int32_t *kernel_of);

HLO_END_C

#endif
