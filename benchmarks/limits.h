// SPDX-License-Identifier: Apache-2.0
// What this machine can do at most, as measured: the floating-point operations of a core and the traffic of its memory.
#ifndef MESHLO_BENCHMARKS_LIMITS_H_
#define MESHLO_BENCHMARKS_LIMITS_H_

#include <stdint.h>

// `threads` of 0 are as many as the process may use cores.

// Returns the most f32 operations per second that `threads` threads reach with fused multiply-adds in registers (two
// operations each), the best of a few runs with the widest vectors. A third of a second the first time; kept
// afterwards.
double bench_peak_flops(int threads);

// Returns the least time, in seconds of bench_seconds(), in which `threads` threads read `read_bytes` and write
// `written_bytes` of memory, over several runs of at least `seconds` together. Negative when memory is short.
double bench_traffic_seconds(int64_t read_bytes, int64_t written_bytes, int threads, double seconds);

#endif
