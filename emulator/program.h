// SPDX-License-Identifier: Apache-2.0
// Internal: a per-device module as it is simulated; the plans of its computations are made when first needed.
#ifndef MESHLO_EMULATOR_PROGRAM_H_
#define MESHLO_EMULATOR_PROGRAM_H_

#include "emulator/fusion.h"
#include "emulator/topology.h"

typedef struct EmuProgram {
    HloArena *arena;
    const HloModule *module;
    const EmuTopology *topology;
    EmuPlan **plans;      // by computation id
    int32_t *kernel_of;   // by instruction id
    int64_t *temp_peaks;  // by computation id: most bytes of temporaries at a time; -1 until known
} EmuProgram;

// Makes the program in `arena`. Memory errors jump to hlo_protect(), here and below.
EmuProgram *emu_program_new(HloArena *arena, const HloModule *module, const EmuTopology *topology);
// The plan of a computation. If the program is not scheduled, the better of two orders by memory.
EmuPlan *emu_program_plan(EmuProgram *program, const HloComputation *computation);

// A buffer that a program holds, for reports.
typedef struct EmuBuffer {
    const HloInstruction *instruction;  // that makes it
    const HloShape *shape;              // of the array
    int64_t bytes;                      // padded
    int64_t unpadded_bytes;
    enum { EMU_BUFFER_ARGUMENT, EMU_BUFFER_OUTPUT, EMU_BUFFER_TEMPORARY } kind;
} EmuBuffer;

// What one device holds.
typedef struct EmuMemory {
    int64_t argument_bytes, output_bytes, alias_bytes, temp_bytes;
    int64_t peak_bytes;        // arguments + outputs - aliased + temporaries
    const EmuBuffer *largest;  // arguments, outputs, and the temporaries alive at the peak, largest first
    int64_t largest_count;
    const int64_t *alive;  // bytes of temporaries while each kernel of the entry computation runs, in the plan's order
} EmuMemory;

// The most bytes of temporaries alive at the same time in a called computation that runs by `plan`, its current plan.
int64_t emu_plan_peak(EmuProgram *program, const EmuPlan *plan);

// Adds up the memory of a program, all in padded bytes.
void emu_program_memory(EmuProgram *program, EmuMemory *memory);

#endif
