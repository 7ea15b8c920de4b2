// SPDX-License-Identifier: Apache-2.0
// The program is taken as it was written: calls are not inlined yet, and what no result needs is not counted. A
// computation is counted once, and multiplied where it is called.
#include "emulator/model_work.h"

#include <math.h>
#include <string.h>

#include "hlo/analysis/loop.h"
#include "hlo/ir/custom_call.h"

bool emu_is_recomputed(const char *scope) {
    return scope && strstr(scope, "rematted_computation");
}

typedef struct Count {
    HloArena *scratch;
    const EmuChip *chip;
    EmuKernelCosts costs;
    EmuBodies *bodies;
    double *of;  // by computation id
    bool *is_needed;
    bool is_known;
} Count;

// The operations of one run of an instruction, with those of what it calls.
static double count_instruction(Count *count, HloInstruction *instruction) {
    double branch = 0;
    if (instruction->metadata && emu_is_recomputed(instruction->metadata->op_name)) return 0;
    switch (instruction->opcode) {
        case HLO_OP_CALL: return count->of[instruction->called[0]->id];
        case HLO_OP_WHILE: {
            const double body = count->of[instruction->called[1]->id];
            const int64_t trips = body > 0 ? hlo_trip_count(instruction) : 0;
            count->is_known &= trips >= 0;
            return body * (double)trips;
        }
        case HLO_OP_CONDITIONAL:
            for (int32_t i = 0; i < instruction->called_count; i++)
                branch = fmax(branch, count->of[instruction->called[i]->id]);
            return branch;
        case HLO_OP_CUSTOM_CALL: count->is_known &= hlo_custom_call_kind(instruction) != HLO_CALL_FULL_TO_SHARD; break;
        default: break;
    }
    const EmuKernel kernel = {.members = &instruction, .member_count = 1, .root_count = 1};
    const EmuOpClass kind = emu_instruction_class(instruction);
    const bool works =
        kind == EMU_OP_MATRIX || hlo_is(instruction, HLO_OP_FUSION) || hlo_is(instruction, HLO_OP_CUSTOM_CALL);
    return works ? emu_kernel_cost(count->chip, &kernel, count->costs, NULL, count->bodies).matrix_flops : 0;
}

// Counts what the result of a computation needs.
static void count_computation(Count *count, const HloComputation *computation) {
    int64_t length;
    HloInstruction **order = hlo_computation_post_order(computation, count->scratch, &length);
    double sum = 0;
    count->is_needed[computation->root->id] = true;
    for (int64_t i = length - 1; i >= 0; i--) {
        if (!count->is_needed[order[i]->id]) continue;
        for (int32_t k = 0; k < order[i]->operand_count; k++) count->is_needed[order[i]->operands[k]->id] = true;
        sum += count_instruction(count, order[i]);
    }
    count->of[computation->id] = sum;
}

bool emu_model_flops(HloArena *scratch, const EmuChip *chip, const HloModule *whole, EmuKernelCosts costs,
                     EmuBodies *bodies, double *flops) {
    Count count = {.scratch = scratch,
                   .chip = chip,
                   .costs = costs,
                   .bodies = bodies,
                   .of = HLO_ARENA_NEW(scratch, double, whole->computation_limit),
                   .is_needed = HLO_ARENA_NEW(scratch, bool, whole->instruction_limit),
                   .is_known = true};
    int64_t computations;
    HloComputation **order = hlo_module_post_order(whole, scratch, &computations);
    for (int64_t i = 0; i < computations && count.is_known; i++) count_computation(&count, order[i]);
    *flops = count.is_known ? count.of[whole->entry->id] : 0;
    return count.is_known;
}
