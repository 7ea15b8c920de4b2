// SPDX-License-Identifier: Apache-2.0
// Internal: which buffers of a computation are alive together, and where they are. Results are in the arena of the
// analysis where nothing else is said. Memory errors jump to hlo_protect(). One thread at a time uses a program.
#ifndef MESHLO_EMULATOR_MEMORY_LIVENESS_H_
#define MESHLO_EMULATOR_MEMORY_LIVENESS_H_

#include "emulator/program.h"
#include "hlo/base/vector.h"

// A buffer of one computation.
typedef struct EmuLive EmuLive;
struct EmuLive {
    EmuBuffer buffer;
    int64_t first, last;     // kernels (numbers in the plan) between which it is alive
    int64_t overwritten_by;  // one more than the kernel that writes a result over it; 0: none
    bool is_pinned;          // in HBM, because of who makes or reads it
    bool is_changed;         // by the body of a loop whose state it is
    bool in_vmem;
    bool in_result;  // in the memory of a result that is made later
    bool is_copied;  // a result that is written after its kernel has run, from what that makes in another layout
    const HloShape
        *copied;    // of a copy in another layout, which a kernel needs beside the array: that array's; or NULL
    EmuLive *copy;  // of what it has now, the last that a kernel needed, which leads to those before; NULL: none
};

typedef HLO_VECTOR(EmuLive *) EmuLiveVector;

// The buffers of the leaves of one value.
typedef struct EmuLeaves {
    EmuLive **items;
    int64_t count;
} EmuLeaves;

// Liveness of one computation.
typedef struct EmuLiveness {
    EmuProgram *program;
    const EmuChip *chip;
    HloArena *arena;
    EmuPlan *plan;
    EmuLeaves *leaves;    // by position in the plan's order
    int64_t *last_reads;  // by position: the last kernel that reads the value as a member's operand; -1 if none does
    EmuLiveVector buffers;
    int64_t now;  // kernel being run
} EmuLiveness;

typedef HLO_VECTOR(EmuBuffer) EmuBufferVector;

// Walks through a computation and records when each buffer is made and last used. `entry`: its parameters are the
// module's arguments; those of other computations belong to the caller and have no bytes.
EmuLiveness *emu_liveness_new(EmuProgram *program, HloArena *arena, const HloComputation *computation, bool entry);
// The buffers of a value in the computation that was analysed last.
EmuLeaves *emu_liveness_leaves(const EmuLiveness *liveness, const HloInstruction *instruction);
// Adds a copy of an array, or an array of which the value in `live` is a copy, that is there while kernels `first` to
// `last` run.
EmuLive *emu_liveness_add_copy(EmuLiveness *liveness, const EmuLive *live, const HloShape *shape, int64_t first,
                               int64_t last);

// Decides where the buffers of a computation are, and notes in the program what kernels then read and write. Every
// question below is asked after it.
void emu_liveness_place(EmuLiveness *liveness);
// The part of it that puts temporaries into VMEM (vmem.c). The results of the computation must be marked.
void emu_liveness_place_in_vmem(EmuLiveness *liveness);
// Returns which leaves of the module's result are in donated arguments.
bool *emu_liveness_aliased_results(const EmuLiveness *liveness);

// Whether a temporary needs memory of its own.
bool emu_live_takes_room(const EmuLive *live);
// Whether a buffer is among the temporaries that are counted. Constants are part of the program.
bool emu_live_is_counted(const EmuLive *live);
// Returns the bytes of temporaries that are alive while each kernel runs: a prefix sum over the bytes that each kernel
// adds and frees.
int64_t *emu_liveness_bytes(const EmuLiveness *liveness);
// Returns the largest of them; *where: the kernel at which it occurs.
int64_t emu_liveness_find_peak(const EmuLiveness *liveness, const int64_t *alive, int64_t *where);

// Returns the most bytes of temporaries that a called computation has at a time, also what it holds of transfers that
// were started one iteration ahead.
int64_t emu_program_temp_peak(EmuProgram *program, const HloComputation *computation);
// Appends the results of those transfers, which are there beside those of this iteration of `loop`.
void emu_program_collect_held(EmuProgram *program, HloArena *arena, const HloComputation *body,
                              const HloInstruction *loop, EmuBufferVector *buffers);

#endif
