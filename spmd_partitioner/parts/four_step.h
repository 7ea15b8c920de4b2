// SPDX-License-Identifier: Apache-2.0
// A Fourier transform along a dimension that stays sharded: one transform of as many points as there are shards, and
// one of as many as a shard has, with exchanges between them.
#ifndef MESHLO_SPMD_PARTITIONER_PARTS_FOUR_STEP_H_
#define MESHLO_SPMD_PARTITIONER_PARTS_FOUR_STEP_H_

#include "spmd_partitioner/partitioner.h"

// A one-dimensional transform of a sharded dimension.
typedef struct SpmdFourStep {
    int32_t type;  // HLO_FftType_*
    int64_t dim;
    int64_t length;  // of the signal: that of the operand, or for IRFFT that of the result
    const SpmdAxes *axes;
} SpmdFourStep;

// Whether the shards divide the signal evenly, so that the transform can be taken apart.
bool spmd_four_step_divides(const SpmdPartitioner *partitioner, const SpmdFourStep *fft);
// What the exchanges cost for an operand of `global` shape. spmd_four_step_divides() must hold.
int64_t spmd_four_step_cost(const SpmdPartitioner *partitioner, const SpmdFourStep *fft, const HloShape *global,
                            const SpmdSharding *sharding);
// This device's part of the transform of `local`, sharded as the operand is; the last shards of a result of another
// size may be padded. spmd_four_step_divides() must hold.
HloInstruction *spmd_emit_four_step(SpmdPartitioner *partitioner, const SpmdFourStep *fft, HloInstruction *local);
// The transform of the last dimensions of an array on this device; `type` is HLO_FftType_*.
HloInstruction *spmd_emit_fft(SpmdPartitioner *partitioner, HloInstruction *operand, int32_t type,
                              const int64_t *lengths, int64_t count);

#endif
