// SPDX-License-Identifier: Apache-2.0
// A program with its kernel plans, which are made when first needed. If the order of a computation is not fixed,
// several orders are compared by the memory that they need, and the best is kept, as a scheduler would. None of them
// depends on the order in which the program was written.
#include "emulator/program.h"

#include <assert.h>

#include "hlo/analysis/loop.h"

// Calls within one another that are looked through for their products.
#define DEEPEST_CALL 64
// Multiples of a transfer's time that it starts ahead of its use, best first: they queue for the links.
static const double AHEAD[] = {2, 1, 0.5, 0};

// -1 marks peaks that are not known yet.
EmuProgram *emu_program_new(HloArena *arena, HloArena *scratch, const HloModule *module, const EmuTopology *topology) {
    assert(arena != scratch && module->entry && topology);
    EmuProgram *program = HLO_ARENA_NEW(arena, EmuProgram, 1);
    program->arena = arena;
    program->scratch = scratch;
    program->module = module;
    program->topology = topology;
    program->plans = HLO_ARENA_NEW(arena, EmuPlan *, module->computation_limit);
    program->kernel_of = HLO_ARENA_NEW(arena, int32_t, module->instruction_limit);
    program->position_of = HLO_ARENA_NEW(arena, int64_t, module->instruction_limit);
    program->resident = HLO_ARENA_NEW(arena, bool, module->instruction_limit);
    program->known = HLO_ARENA_NEW(arena, EmuKnownCost *, module->instruction_limit);
    program->bodies = emu_bodies_new(arena);
    program->copies = HLO_ARENA_NEW(arena, EmuCopies, module->instruction_limit);
    program->temp_peaks = HLO_ARENA_NEW(arena, int64_t, module->computation_limit);
    program->vmem_bytes = HLO_ARENA_NEW(arena, int64_t, module->computation_limit);
    program->pinned = HLO_ARENA_NEW(arena, bool *, module->computation_limit);
    program->carried = HLO_ARENA_NEW(arena, bool *, module->computation_limit);
    program->extra_bytes = HLO_ARENA_NEW(arena, int64_t, module->computation_limit);
    program->held = HLO_ARENA_NEW(arena, HloInstructionVector, module->computation_limit);
    program->capacity = emu_chip_capacity(&topology->chip);
    program->chip = topology->chip;
    program->tight = HLO_ARENA_NEW(arena, EmuPlan *, module->computation_limit);
    program->ahead = AHEAD[0];
    program->spares_memory = HLO_ARENA_NEW(arena, bool, module->computation_limit);
    emu_program_forget_peaks(program);
    return program;
}

void emu_program_forget_peaks(EmuProgram *program) {
    for (int32_t i = 0; i < program->module->computation_limit; i++) program->temp_peaks[i] = -1;
}

// Sets a bit for each operand and root of a kernel that is in VMEM; false if it has more than there are bits.
static bool list_resident(const EmuProgram *program, const EmuKernel *kernel, uint64_t *bits) {
    int count = 0;
    *bits = 0;
    for (int64_t m = 0; m < kernel->member_count; m++)
        for (int32_t i = 0; i < kernel->members[m]->operand_count; i++) {
            if (count == 64) return false;
            *bits |= (uint64_t)program->resident[kernel->members[m]->operands[i]->id] << count++;
        }
    for (int64_t m = 0; m < kernel->root_count; m++) {
        if (count == 64) return false;
        *bits |= (uint64_t)program->resident[kernel->members[m]->id] << count++;
    }
    return true;
}

// The cost depends on the members, on where the cost of custom calls comes from, and on which of the kernel's arrays
// are in VMEM.
EmuCost emu_program_kernel_cost(EmuProgram *program, const EmuKernel *kernel, EmuKernelCosts costs) {
    EmuKnownCost **known = &program->known[kernel->members[0]->id];
    uint64_t resident;
    if (!list_resident(program, kernel, &resident))
        return emu_kernel_cost(&program->chip, kernel, costs, program->resident, program->bodies);
    const EmuKnownCost *same = *known;
    if (same && same->members == kernel->members && same->member_count == kernel->member_count &&
        same->root_count == kernel->root_count && same->costs == costs && same->resident == resident)
        return same->cost;
    if (!*known) *known = HLO_ARENA_NEW(program->arena, EmuKnownCost, 1);
    **known =
        (EmuKnownCost){.members = kernel->members,
                       .member_count = kernel->member_count,
                       .root_count = kernel->root_count,
                       .costs = costs,
                       .resident = resident,
                       .cost = emu_kernel_cost(&program->chip, kernel, costs, program->resident, program->bodies)};
    return (*known)->cost;
}

// Whether the order of a computation may be changed: it is not marked as a schedule, and nothing in it has effects that
// the graph does not show.
static bool may_reorder(const EmuProgram *program, const EmuPlan *plan) {
    if (program->module->is_scheduled || plan->kernel_count < 2) return false;
    for (int64_t i = 0; i < plan->kernel_count; i++)
        if (hlo_op_is(plan->kernels[i].members[0]->opcode, HLO_OP_IS_SIDE_EFFECT)) return false;
    return true;
}

// Makes `other` the plan of its computation if it needs less memory than the current one, *peak.
static void keep_better(EmuProgram *program, EmuPlan *other, int64_t *peak) {
    if (!other) return;
    EmuPlan **plan = &program->plans[other->computation->id], *before = *plan;
    *plan = other;
    emu_plan_number(other, program->kernel_of);
    const int64_t bytes = emu_plan_peak(program, other);
    if (bytes < *peak) {
        *peak = bytes;
        return;
    }
    *plan = before;
    emu_plan_number(before, program->kernel_of);
}

static bool has_transfers(const EmuPlan *plan) {
    for (int64_t i = 0; i < plan->kernel_count; i++)
        if (plan->kernels[i].kind == EMU_OP_DONE) return true;
    return false;
}

// Spreads the transfers of a plan.
static EmuPlan *spread(EmuProgram *program, EmuPlan *tight) {
    emu_plan_number(tight, program->kernel_of);
    EmuPlan *plan = emu_plan_spread(program->arena, program->scratch, tight, &program->topology->chip,
                                    program->kernel_of, program->ahead);
    emu_plan_number(plan, program->kernel_of);
    return plan;
}

// The order with the least memory among the walk that made the plan, a depth-first one, and `listed`, that of the list
// scheduler (NULL if it found none).
static EmuPlan *best_order(EmuProgram *program, EmuPlan *walked, EmuPlan *listed) {
    EmuPlan **plan = &program->plans[walked->computation->id];
    int64_t peak = emu_plan_peak(program, walked);
    emu_plan_number(walked, program->kernel_of);
    keep_better(
        program,
        emu_plan_depth_first(program->arena, program->scratch, walked, &program->topology->chip, program->kernel_of),
        &peak);
    keep_better(program, listed, &peak);
    emu_plan_number(*plan, program->kernel_of);
    return *plan;
}

// With transfers, the order is the list scheduler's, the only one that keeps halves together; they stay together on
// chips that do nothing beside a transfer. Otherwise the best of several.
EmuPlan *emu_program_plan(EmuProgram *program, const HloComputation *computation) {
    assert(computation->root);
    const EmuChip *chip = &program->topology->chip;
    EmuPlan **plan = &program->plans[computation->id];
    if (*plan) return *plan;
    EmuPlan *walked = *plan =
        emu_plan(program->arena, program->scratch, computation, chip, program->spares_memory[computation->id],
                 program->position_of, program->kernel_of);
    emu_plan_estimate(walked, chip, program->bodies);
    if (!may_reorder(program, walked)) return walked;
    EmuPlan *listed = emu_plan_list_schedule(program->arena, program->scratch, walked, chip, program->kernel_of);
    if (!listed || !has_transfers(walked)) return best_order(program, walked, listed);
    *plan = listed;
    emu_plan_number(listed, program->kernel_of);
    if (!chip->overlaps_collectives) return listed;
    program->tight[computation->id] = listed;
    return *plan = spread(program, listed);
}

// Whether the program fits with transfers that start as far ahead as it allows, or not at all.
static bool fits_with_transfers(EmuProgram *program) {
    for (size_t i = 0; i < HLO_COUNT_OF(AHEAD); i++) {
        program->ahead = AHEAD[i];
        for (int32_t c = 0; i > 0 && c < program->module->computation_limit; c++)
            if (program->tight[c]) program->plans[c] = spread(program, program->tight[c]);
        emu_program_forget_peaks(program);
        if (emu_program_peak(program) <= program->capacity) return true;
    }
    return false;
}

// Plans a computation anew, with less memory.
static void spare_memory(EmuProgram *program, const HloComputation *computation) {
    program->spares_memory[computation->id] = true;
    program->plans[computation->id] = program->tight[computation->id] = NULL;
}

void emu_program_fit_memory(EmuProgram *program) {
    if (fits_with_transfers(program) || program->module->is_scheduled) return;
    program->ahead = AHEAD[0];
    spare_memory(program, program->module->entry);
    if (fits_with_transfers(program)) return;
    program->ahead = AHEAD[0];
    for (int64_t c = 0; c < program->module->computations.count; c++)
        spare_memory(program, program->module->computations.items[c]);
    fits_with_transfers(program);
}

// Seconds that the systolic arrays work in a computation, with what it calls. Calls nest as deep as the simulation
// allows; deeper ones count nothing, since they are refused.
static double matrix_seconds(EmuProgram *program, const HloComputation *computation, int depth) {
    const EmuPlan *plan = emu_program_plan(program, computation);
    double total = 0;
    for (int64_t k = 0; k < plan->kernel_count; k++) {
        const HloInstruction *root = plan->kernels[k].members[0];
        total += plan->kernels[k].matrix_seconds;
        if (plan->kernels[k].kind != EMU_OP_CONTROL || depth >= DEEPEST_CALL) continue;
        const int64_t trips = hlo_is(root, HLO_OP_WHILE) ? hlo_trip_count(root) : 1;
        for (int32_t i = 0; i < root->called_count && total <= EMU_SUSTAINED_SECONDS; i++)
            total += (double)(trips > 0 ? trips : 1) * matrix_seconds(program, root->called[i], depth + 1);
    }
    return total;
}

void emu_program_choose_rate(EmuProgram *program) {
    program->is_sustained = matrix_seconds(program, program->module->entry, 0) > EMU_SUSTAINED_SECONDS;
    if (program->is_sustained) program->chip.mxu_efficiency = program->chip.mxu_sustained_efficiency;
}
