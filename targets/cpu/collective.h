// SPDX-License-Identifier: Apache-2.0
// Collectives over the buffers of one group of devices in one address space. Participants are given in group order
// (rank 0 first) and reduced in that order, so results are the same however devices and workers are scheduled.
#ifndef MESHLO_TARGETS_CPU_COLLECTIVE_H_
#define MESHLO_TARGETS_CPU_COLLECTIVE_H_

#include "hlo/ir/types.h"
#include "targets/cpu/loop.h"
#include "targets/cpu/pool.h"

HLO_BEGIN_C

// outs[r][i] = ins[0][i] op ins[1][i] op ... for every rank r. outs[r] may be ins[r], and several outs may be the same
// buffer (a shared replica). Narrow floats accumulate in f32 and round once.
HLO_NODISCARD HloStatus cpu_all_reduce(CpuPool *pool, HloType type, CpuReduceOp op, int64_t ranks, int64_t count,
                                       void *const *outs, const void *const *ins);

// Inputs are [outer][ranks * part] seen from the scattered dimension on (part: elements of one shard from that
// dimension on); rank r gets the reduced part r of each outer row. outs[r] must not be an input.
HLO_NODISCARD HloStatus cpu_reduce_scatter(CpuPool *pool, HloType type, CpuReduceOp op, int64_t ranks, int64_t outer,
                                           int64_t part, void *const *outs, const void *const *ins);

// Every out is [outer][ranks][part bytes]: row o of rank s at [o][s]. Repeated outs are written once.
void cpu_all_gather(CpuPool *pool, int64_t ranks, int64_t outer, int64_t part_bytes, void *const *outs,
                    const void *const *ins);

// Inputs are [before][ranks][middle][part bytes] split at one dimension, outputs [before][middle][ranks][part bytes]
// concatenated at another; with split and concatenation in the same place middle is 1. Block r of rank s goes to place
// s of rank r. Dimension orders beyond this: gather the blocks with cpu_copy_strided().
void cpu_all_to_all(CpuPool *pool, int64_t ranks, int64_t before, int64_t middle, int64_t part_bytes, void *const *outs,
                    const void *const *ins);

// outs[target] = ins[source] for each pair; ranks that are no target get zeros. Buffers of `bytes` bytes each.
void cpu_collective_permute(CpuPool *pool, int64_t ranks, int64_t bytes, int64_t pairs, const int64_t *sources,
                            const int64_t *targets, void *const *outs, const void *const *ins);

// Every out gets the bytes of `in`; outs may contain `in`.
void cpu_collective_broadcast(CpuPool *pool, int64_t ranks, int64_t bytes, void *const *outs, const void *in);

HLO_END_C

#endif
