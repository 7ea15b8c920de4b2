// SPDX-License-Identifier: Apache-2.0
// Channels between devices: which device sends to which (send, recv), resolved when the program is compiled.
#ifndef MESHLO_TARGETS_CPU_GRAPH_P2P_H_
#define MESHLO_TARGETS_CPU_GRAPH_P2P_H_

#include "targets/cpu/graph/graph.h"

HLO_BEGIN_C

// One end of a channel in a program.
typedef struct CpuPeer {
    int64_t channel, bytes;
    bool sends, has_pairs;
    // With pairs, by device: to whom it sends (lists end with -1), or from whom it receives (-1: zeros, nothing comes).
    const int64_t *const *targets;
    const int64_t *sources;
} CpuPeer;

// The channel end that a send or recv-done between devices is, of `bytes` bytes; it lives in `arena`. INVALID_ARGUMENT
// for pairs that name devices which are not there.
HLO_NODISCARD HloStatus cpu_peer_of(HloArena *arena, const CpuProgram *program, const CpuNode *node, int64_t bytes,
                                    const CpuPeer **peer);

HLO_END_C

#endif
