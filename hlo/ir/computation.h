// SPDX-License-Identifier: Apache-2.0
// Computations: functions of a module, a list of instructions with operands before users.
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
    HloInstructionVector parameters;  // by parameter number; entries NULL until the parameter exists
    HloInstructionVector callers;     // instructions that call it, one entry a caller
    const char *execution_thread;     // NULL for "main"
    bool removed;
};

// A new, empty computation; the name is made unique ("region" when NULL).
HLO_EXPORT HloComputation *hlo_computation_new(HloModule *module, const char *name);
// Another name, made unique.
HLO_EXPORT void hlo_computation_set_name(HloComputation *computation, const char *name);
// Sets the root; it must be in the computation.
HLO_EXPORT void hlo_computation_set_root(HloComputation *computation, HloInstruction *root);
// Takes a computation without callers out of its module, and its calls with it.
HLO_EXPORT void hlo_computation_remove(HloComputation *computation);
// A copy in `module` (maybe another one) named after it. Called computations are cloned too when the module is another
// one, and shared
// when it is the same.
HLO_EXPORT HloComputation *hlo_computation_clone(HloModule *module, const HloComputation *computation,
                                                 const char *name);
// The instructions in an order where operands and control predecessors come first. For an unchanged or scheduled
// computation that is the list order. Writes `*count` pointers allocated in `arena`.
HLO_EXPORT HloInstruction **hlo_computation_post_order(const HloComputation *computation, HloArena *arena,
                                                       int64_t *count);
// Puts the list itself in such an order (after passes that appended new instructions at the end).
HLO_EXPORT void hlo_computation_sort(HloComputation *computation);
// True if any instruction of it or of what it calls has side effects or is a collective.
HLO_EXPORT bool hlo_computation_has_effects(const HloComputation *computation);
// If the computation is `op(parameter(0), parameter(1))` of scalars for a binary op (in either order if it commutes),
// that opcode; else HLO_OPCODE_COUNT. What reductions and collectives ask.
HLO_EXPORT HloOpcode hlo_computation_binary_opcode(const HloComputation *computation);
// Makes such a computation: opcode(parameter(0), parameter(1)), all of the shape `scalar`, which is not copied. `names`
// are those of the two parameters; NULL: the usual ones.
HLO_EXPORT HloComputation *hlo_computation_new_binary(HloModule *module, const char *name, HloOpcode opcode,
                                                      const HloShape *scalar, const char *const *names);
// One that the module has already, on scalars of `type`; NULL if there is none.
HLO_EXPORT HloComputation *hlo_computation_find_binary(const HloModule *module, HloOpcode opcode, HloType type);

static inline int64_t hlo_parameter_count(const HloComputation *computation) {
    return computation->parameters.count;
}

HLO_END_C

#endif
