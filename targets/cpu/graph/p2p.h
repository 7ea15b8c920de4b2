// SPDX-License-Identifier: Apache-2.0
// Channels between devices: which device sends to which (send, recv), resolved when the program is compiled.
#ifndef MESHLO_TARGETS_CPU_GRAPH_P2P_H_
#define MESHLO_TARGETS_CPU_GRAPH_P2P_H_

#include "targets/cpu/graph/graph.h"

HLO_BEGIN_C

// One end of a channel in a program.
typedef struct CpuP2pTransfer {
    int64_t channel, bytes;
    bool sends, has_pairs;
    // With pairs, by device: the devices it sends to (lists end with -1), or the device it receives from (-1: none; the
    // result is zeros).
    const int64_t *const *targets;
    const int64_t *sources;
} CpuP2pTransfer;

// Describes the channel end of a send or recv-done between devices, of `bytes` bytes; the result lives in `arena`.
// INVALID_ARGUMENT for pairs that name devices which do not exist.
HLO_NODISCARD HloStatus cpu_p2p_transfer_of(HloArena *arena, const CpuProgram *program, const CpuNode *node,
                                            int64_t bytes, const CpuP2pTransfer **peer);

HLO_END_C

#endif
