// SPDX-License-Identifier: Apache-2.0
// Internal: a per-device module as it is simulated; the plans of its computations are made when first needed.
#ifndef MESHLO_EMULATOR_PROGRAM_H_
#define MESHLO_EMULATOR_PROGRAM_H_

#include "emulator/cost.h"
#include "emulator/fusion.h"
#include "emulator/topology.h"

// Copies into other layouts that run before or after a kernel.
typedef struct EmuCopies {
    double bytes;   // in HBM, read and written
    double cycles;  // of the vector unit
} EmuCopies;

// The cost of a kernel that was computed.
typedef struct EmuKnownCost {
    HloInstruction *const *members;  // of the kernel
    int64_t member_count, root_count;
    EmuKernelCosts costs;
    uint64_t resident;  // a bit for each operand of its members, then for each root
    EmuCost cost;
} EmuKnownCost;

typedef struct EmuProgram {
    HloArena *arena;
    HloArena *scratch;  // of analyses that leave numbers only: given back when they end
    const HloModule *module;
    const EmuTopology *topology;
    EmuChip chip;          // the topology's, at its sustained rate if the program is long
    bool is_sustained;     // it is
    EmuPlan **plans;       // by computation id
    EmuPlan **tight;       // the same before transfers are spread out; NULL for plans whose order is fixed
    double ahead;          // of emu_plan_spread()
    bool *spares_memory;   // by computation id: of emu_plan()
    int32_t *kernel_of;    // by instruction id
    int64_t *position_of;  // by instruction id: position in the order of its plan analysed last (liveness.c)
    bool *resident;        // by instruction id: the array is in VMEM (vmem.c) and its use costs no HBM traffic
    EmuKnownCost **known;  // by instruction id, of a kernel; NULL: not computed
    EmuBodies *bodies;     // of the kernels that users wrote
    EmuCopies *copies;     // by instruction id, of a kernel (placement.c)
    int64_t *vmem_bytes;   // by computation id: the most bytes of VMEM that its arrays take at a time (vmem.c)
    bool **carried;        // by computation id, of a loop: which leaves of its state are in VMEM; NULL: none (vmem.c)
    bool **pinned;         // by computation id: which leaves of a loop's state it needs in HBM; NULL: none (vmem.c)
    int64_t *temp_peaks;   // by computation id: most bytes of temporaries at a time; -1 until known
    // By computation id: bytes that the body of a loop holds all the time, since its transfers were started one
    // iteration ahead (pipelining.h).
    int64_t *extra_bytes;
    bool sums_end_late;          // whether sums of a loop that nothing in it waits for may do so (pipelining.h)
    bool collectives_stay;       // whether no collective of a loop crosses into another iteration (pipelining.h)
    HloInstructionVector *held;  // by computation id: the starts of these transfers
    int64_t capacity;            // bytes that a device has for programs
} EmuProgram;

// Makes the program in `arena`, with another arena for scratch memory. Memory errors jump to hlo_protect(), here and
// below.
EmuProgram *emu_program_new(HloArena *arena, HloArena *scratch, const HloModule *module, const EmuTopology *topology);
// The plan of a computation. If the program is not scheduled, the best of several orders by memory, with transfers
// spread out to run beside kernels.
EmuPlan *emu_program_plan(EmuProgram *program, const HloComputation *computation);

// Returns the cost of a kernel of one of the plans, with what is in VMEM. Many orders of the same kernels are tried, so
// it is kept until other arrays of the kernel are there. Call after emu_program_choose_rate().
EmuCost emu_program_kernel_cost(EmuProgram *program, const EmuKernel *kernel, EmuKernelCosts costs);

// Chooses how far ahead of their use transfers start, as far as leaves the program within the device's memory, and what
// is computed again to save memory: nothing, else what the entry would keep, else what all computations would. Call
// once before the first plan is used.
void emu_program_fit_memory(EmuProgram *program);

// Sets the rate of the systolic arrays: a chip runs one product, or a few, at its clock's rate, but heats up and slows
// down in programs whose products take longer than this in all (assumed: published products take milliseconds,
// published steps seconds).
#define EMU_SUSTAINED_SECONDS 0.1
void emu_program_choose_rate(EmuProgram *program);

// A buffer that a program holds, for reports.
typedef struct EmuBuffer {
    const HloInstruction *instruction;  // that makes it
    const HloShape *shape;              // of the array
    int64_t leaf;                       // its number in the instruction's shape; -1: a table of addresses
    int64_t bytes;                      // padded
    int64_t unpadded_bytes;
    enum { EMU_BUFFER_ARGUMENT, EMU_BUFFER_OUTPUT, EMU_BUFFER_TEMPORARY, EMU_BUFFER_TABLE } kind;  // of a tuple
    const HloInstruction *caller;  // loop, branch or call in which it is alive; NULL: the entry
} EmuBuffer;

// What one device holds.
typedef struct EmuMemory {
    int64_t argument_bytes, output_bytes, alias_bytes, temp_bytes;
    int64_t peak_bytes;  // arguments + outputs - aliased + temporaries
    // Everything that the device holds at the peak, also inside of loops and calls, largest first: arguments, outputs
    // with memory of their own, temporaries. Together they have peak_bytes.
    const EmuBuffer *largest;
    int64_t largest_count;
    const int64_t *alive;  // bytes of temporaries while each kernel of the entry computation runs, in the plan's order
} EmuMemory;

// A temporary buffer is made or freed.
typedef struct EmuMemoryEvent {
    int64_t buffer;  // its number in the trace
    bool is_freed;
    const HloInstruction *at;  // the instruction that runs
} EmuMemoryEvent;

// The temporaries of a step in the order in which they come and go. A loop runs once, and each call of a computation
// has buffers of its own.
typedef struct EmuMemoryTrace {
    const EmuBuffer *buffers;
    int64_t buffer_count;
    const EmuMemoryEvent *events;
    int64_t event_count;
} EmuMemoryTrace;

// Follows the temporaries through the program. The most bytes that are alive at a time are EmuMemory.temp_bytes. After
// many thousands of buffers, a call's temporaries are one buffer of the size of their peak.
void emu_program_trace_memory(EmuProgram *program, EmuMemoryTrace *trace);

// Appends an HloProto for XLA's tools: the module and, as a BufferAssignmentProto, where `memory` has its buffers.
// UNIMPLEMENTED if the module has no protobuf form.
HLO_NODISCARD HloStatus emu_program_write_proto(EmuProgram *program, const EmuMemory *memory, HloText *bytes);

// The most bytes of temporaries alive at the same time in a called computation that runs by `plan`, its current plan.
int64_t emu_plan_peak(EmuProgram *program, const EmuPlan *plan);

// Bytes of temporaries while each kernel of a called computation runs, in the order of its plan.
const int64_t *emu_program_alive(EmuProgram *program, const HloComputation *computation);
// The most temporaries inside of what a loop, branch or call runs; 0 for other kernels.
int64_t emu_program_called_peak(EmuProgram *program, const EmuKernel *kernel);

// Forgets the peaks of computations, because extra_bytes have changed.
void emu_program_forget_peaks(EmuProgram *program);

// Adds up the memory of a program, all in padded bytes.
void emu_program_memory(EmuProgram *program, EmuMemory *memory);
// The same without lists of buffers, for the order of a trial: only `alive` stays in memory.
void emu_program_usage(EmuProgram *program, EmuMemory *memory);
// The peak_bytes of that alone: many orders of a program are asked for it.
int64_t emu_program_peak(EmuProgram *program);

// What a buffer is for, in words: whose copy or gradient it is, what it is saved for. In `arena`.
const char *emu_buffer_role(HloArena *arena, const EmuBuffer *buffer);

#endif
