// SPDX-License-Identifier: Apache-2.0
// Benchmarks: each case measures one number of the requirements and prints a row. benchmarks/run computes the ratios to
// XLA in the same run.
#ifndef MESHLO_BENCHMARKS_BENCH_H_
#define MESHLO_BENCHMARKS_BENCH_H_

#include "hlo/ir/module.h"
#include "spmd_partitioner/spmd.h"

// One measured number.
typedef struct BenchResult {
    double value;
    bool skipped;  // what it needs is not there
} BenchResult;

// A case: the measurement, and the goal. benchmarks/cases.def lists them.
typedef struct BenchCase {
    const char *name;
    const char *unit;
    double goal;
    bool at_most;  // the goal is an upper bound
    HloStatus (*run)(BenchResult *result);
} BenchCase;

#define BENCH_CASE(name, unit, at_most, goal) HloStatus bench_##name(BenchResult *result);
#include "benchmarks/cases.def"
#undef BENCH_CASE

// Seconds on a monotonic clock, or of processor time where the environment has BENCH_CLOCK=processor.
double bench_seconds(void);
// The most memory that this process ever had, in bytes; bench_forget_peak() starts anew.
double bench_peak_bytes(void);
void bench_forget_peak(void);  // see above

// The tutorial network's gradient step with batch and widths `size`, from examples/mlp_gradient_8192.hlo; annotated for
// 8 devices, or without annotations. The caller frees the module.
HloStatus bench_network(int64_t size, bool annotated, HloModule **module);
// The same partitioned for a mesh batch x model.
HloStatus bench_network_partitioned(int64_t size, int64_t batch, int64_t model, HloModule **per_device);
// A sum of 8 floats over 8 devices.
HloStatus bench_psum(HloModule **module);

#endif
