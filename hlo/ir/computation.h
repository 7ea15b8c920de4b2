// SPDX-License-Identifier: Apache-2.0
// Computations: functions of a module. Each is a list of instructions, operands before users.
//
// Stability: stable.
#ifndef MESHLO_HLO_IR_COMPUTATION_H_
#define MESHLO_HLO_IR_COMPUTATION_H_

#include "hlo/ir/instruction.h"

HLO_BEGIN_C

struct HloComputation {
    HloModule *module;
    const char *name;  // unique in the module, without '%'
    int32_t id;        // unique in the module, dense: 0 <= id < module->computation_limit
    HloInstruction *first, *last;
    int64_t instruction_count;
    HloInstruction *root;
    HloInstructionVector parameters;  // by parameter number; NULL for parameters that do not exist yet
    HloInstructionVector callers;     // instructions that call it, one entry per caller
    const char *execution_thread;     // NULL for "main"
    bool removed;
};

// Adds an empty computation; the name is made unique ("region" if NULL).
HLO_EXPORT HloComputation *hlo_computation_new(HloModule *module, const char *name);
// Renames the computation; the name is made unique.
HLO_EXPORT void hlo_computation_set_name(HloComputation *computation, const char *name);
// Sets the root, which must be in the computation.
HLO_EXPORT void hlo_computation_set_root(HloComputation *computation, HloInstruction *root);
// Removes a computation without callers, and the calls in it, from its module.
HLO_EXPORT void hlo_computation_remove(HloComputation *computation);
// Appends a copy to `module` (possibly another one), with a name made from the original's. Called computations are
// cloned too if the module is another one, and shared if it is the same.
HLO_EXPORT HloComputation *hlo_computation_clone(HloModule *module, const HloComputation *computation,
                                                 const char *name);
// The instructions in an order in which operands and control predecessors come first: the list order if the computation
// is unchanged or scheduled. Sets `*count`; the array is allocated in `arena`.
HLO_EXPORT HloInstruction **hlo_computation_post_order(const HloComputation *computation, HloArena *arena,
                                                       int64_t *count);
// Puts the list itself into that order (after passes that appended new instructions at the end).
HLO_EXPORT void hlo_computation_sort(HloComputation *computation);
// True if any instruction in it, or in a computation that it calls, has side effects or is a collective.
HLO_EXPORT bool hlo_computation_has_effects(const HloComputation *computation);
// The opcode, if the computation is `op(parameter(0), parameter(1))` on scalars for a binary op (in either order if it
// commutes), annotated or not; else HLO_OPCODE_COUNT. Reductions and collectives recognise their reducer by it.
HLO_EXPORT HloOpcode hlo_computation_binary_opcode(const HloComputation *computation);
// Adds the computation opcode(parameter(0), parameter(1)); all shapes are `scalar`, which is not copied. `names` are
// the names of the two parameters; NULL for the usual ones.
HLO_EXPORT HloComputation *hlo_computation_new_binary(HloModule *module, const char *name, HloOpcode opcode,
                                                      const HloShape *scalar, const char *const *names);
// An existing computation of that form on scalars of `type`; NULL if the module has none.
HLO_EXPORT HloComputation *hlo_computation_find_binary(const HloModule *module, HloOpcode opcode, HloType type);

static inline int64_t hlo_parameter_count(const HloComputation *computation) {
    return computation->parameters.count;
}

HLO_END_C

#endif
