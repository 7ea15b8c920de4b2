// SPDX-License-Identifier: Apache-2.0
// A gate to a job that threads may take part in. The thread that runs the job opens it, works, and closes it, which
// waits only for the threads that entered: on a busy machine a thread may get a processor only milliseconds after it
// was woken, and finds the gate closed by then. Waiting spins first, then sleeps on a futex.
#ifndef MESHLO_TARGETS_CPU_HOST_GATE_H_
#define MESHLO_TARGETS_CPU_HOST_GATE_H_

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "hlo/base/status.h"

HLO_BEGIN_C

typedef struct CpuGate {
    _Atomic uint32_t inside;  // futex: threads inside, and the highest bit while the gate is closed
    _Atomic uint32_t awaited;
} CpuGate;

// Sets a closed gate with no thread inside.
void cpu_gate_reset(CpuGate *gate);

// Opens a closed gate with no thread inside. Threads that enter see everything written before.
void cpu_gate_open(CpuGate *gate);

// Enters, to be followed by cpu_gate_leave(); false when the gate is closed. Any thread.
bool cpu_gate_enter(CpuGate *gate);
void cpu_gate_leave(CpuGate *gate);

// Closes an open gate and returns when no thread is inside. Everything that they wrote is visible afterwards.
void cpu_gate_close(CpuGate *gate);

// Waits on a word, for the gate and for others that wait like it. Returns immediately if the word is no longer `seen`;
// may return spuriously, hence callers check again.
void cpu_futex_wait(_Atomic uint32_t *word, uint32_t seen);
// Wakes up to `count` sleepers.
void cpu_futex_wake(_Atomic uint32_t *word, int count);
// Tells the processor that this thread spins: it then leaves more to its neighbours, and takes less power.
void cpu_pause(void);
// Spins until *word differs from `seen` or 50 us are over; true when it differs.
bool cpu_spin_while_equal(_Atomic uint32_t *word, uint32_t seen);

HLO_END_C

#endif
