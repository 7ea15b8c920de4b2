// SPDX-License-Identifier: Apache-2.0
// The clock for measuring durations.
#ifndef MESHLO_HLO_BASE_CLOCK_H_
#define MESHLO_HLO_BASE_CLOCK_H_

#include <stdint.h>
#include <time.h>

// Nanoseconds on a monotonic clock, since some moment before the process began. Any thread.
static inline int64_t hlo_clock_nanoseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

// Nanoseconds of processor time that the calling thread has used. On a busy machine it measures work where the clock
// above also measures waiting.
static inline int64_t hlo_clock_thread_nanoseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

#endif
