// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "benchmarks/bench.h"

double bench_seconds(void) {
    const char *asked = getenv("BENCH_CLOCK");
    struct timespec now;
    clock_gettime(asked && strcmp(asked, "processor") == 0 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
