// SPDX-License-Identifier: Apache-2.0
// The exchange of one group at one collective whose members are devices of several processes. Each process sends the
// others what they need of the operands of its members, receives what its own members need, and then computes their
// results with the functions of an exchange within one process, in the group's order: the bits do not depend on how
// many processes there are.
//
// An exchange proceeds in phases. Each posts messages, and the next one follows when all of them are done:
//
//     all-reduce, small     operands to all        | reduce
//     all-reduce, large     a range of elements to | reduce the own      | reduced ranges | copy to
//                           the process of it      | range               | to all         | other members
//     reduce-scatter        chunks to their member | reduce
//     all-gather            operands to all        | copy
//     all-to-all, permute   parts to their member  | copy
//     ragged-all-to-all     sizes to all           | rows to their member | copy
//
// Both sides of a message derive its size and order from the program, so no message describes itself. Small ones to one
// process are packed into one.
#ifndef MESHLO_TARGETS_CPU_RUN_REMOTE_H_
#define MESHLO_TARGETS_CPU_RUN_REMOTE_H_

#include "targets/cpu/run/hosts.h"

HLO_BEGIN_C

typedef struct CpuRemote CpuRemote;

// Prepares the exchanges of a group, one at a time, which compute on `pool`. `rendezvous` is its number in the program;
// `launch` is NULL if the span has no peers. RESOURCE_EXHAUSTED.
HLO_NODISCARD HloStatus cpu_remote_new(const CpuCollective *collective, const CpuCollectiveGroup *group,
                                       int64_t rendezvous, const CpuSpan *span, CpuLaunch *launch, CpuPool *pool,
                                       CpuRemote **remote);
// Frees it, and cancels its messages. Accepts NULL.
void cpu_remote_free(CpuRemote *remote);
// Runs the next phase of an exchange whose messages are all done, the first one to begin with. addresses[i][m] are
// those of exchanges (CpuExchangeFunction); the entries of other processes' members are this function's. *done: the
// exchange is complete. Without locks; one thread at a time.
HLO_NODISCARD HloStatus cpu_remote_advance(CpuRemote *remote, void ***addresses, bool *done);
// Whether all messages of the current phase are done, and their senders known to run this program; an error of theirs
// is returned in *status.
bool cpu_remote_is_ready(CpuRemote *remote, HloStatus *status);

// Returns the number of the rendezvous.
int64_t cpu_remote_rendezvous(const CpuRemote *remote);
// Returns the next process from `after` on (-1: the first) that this exchange waits for; -1 if there is none.
int64_t cpu_remote_awaited(CpuRemote *remote, int64_t after);

HLO_END_C

#endif
