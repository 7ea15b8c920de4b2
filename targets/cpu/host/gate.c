// SPDX-License-Identifier: Apache-2.0
#include "targets/cpu/host/gate.h"

#include <assert.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "hlo/base/clock.h"

enum { kSpinNanoseconds = 50000 };

static const uint32_t kClosed = UINT32_C(1) << 31;

// ---- waiting

void cpu_futex_wait(_Atomic uint32_t *word, uint32_t seen) {
    syscall(SYS_futex, (uint32_t *)word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

void cpu_futex_wake(_Atomic uint32_t *word, int count) {
    syscall(SYS_futex, (uint32_t *)word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

void cpu_pause(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb");  // which waits some ten nanoseconds; `yield` does nothing on most
#endif
}

bool cpu_spin_while_equal(_Atomic uint32_t *word, uint32_t seen) {
    const int64_t deadline = hlo_clock_nanoseconds() + kSpinNanoseconds;
    do {
        for (int i = 0; i < 64; i++) {
            if (atomic_load_explicit(word, memory_order_acquire) != seen) return true;
            cpu_pause();
        }
    } while (hlo_clock_nanoseconds() < deadline);
    return false;
}

// ---- the gate

void cpu_gate_reset(CpuGate *gate) {
    atomic_store(&gate->inside, kClosed);
    atomic_store(&gate->awaited, 0);
}

void cpu_gate_open(CpuGate *gate) {
    assert(atomic_load_explicit(&gate->inside, memory_order_relaxed) == kClosed);
    atomic_store_explicit(&gate->inside, 0, memory_order_release);
}

bool cpu_gate_enter(CpuGate *gate) {
    uint32_t inside = atomic_load_explicit(&gate->inside, memory_order_relaxed);
    while (!(inside & kClosed))
        if (atomic_compare_exchange_weak_explicit(&gate->inside, &inside, inside + 1, memory_order_acquire,
                                                  memory_order_relaxed))
            return true;
    return false;
}

void cpu_gate_leave(CpuGate *gate) {
    if (atomic_fetch_sub(&gate->inside, 1) == kClosed + 1 && atomic_load(&gate->awaited))
        cpu_futex_wake(&gate->inside, 1);
}

// `awaited` is set before the counter is read again, and a thread lowers the counter before it reads `awaited`: one of
// the two sees the other.
void cpu_gate_close(CpuGate *gate) {
    uint32_t inside = atomic_fetch_or(&gate->inside, kClosed) | kClosed;
    while (inside != kClosed) {
        if (!cpu_spin_while_equal(&gate->inside, inside)) {
            atomic_store(&gate->awaited, 1);
            if (atomic_load(&gate->inside) == inside) cpu_futex_wait(&gate->inside, inside);
            atomic_store(&gate->awaited, 0);
        }
        inside = atomic_load_explicit(&gate->inside, memory_order_acquire);
    }
}
