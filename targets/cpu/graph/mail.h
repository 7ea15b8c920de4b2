// SPDX-License-Identifier: Apache-2.0
// Messages between the devices of one execution: send and recv over numbered channels. A send stores a copy of its
// array and continues. A recv-done takes the next message addressed to it; if there is none, the device is parked, as
// at a collective. Messages between the same two ends stay in order, so results do not depend on scheduling.
#ifndef MESHLO_TARGETS_CPU_GRAPH_MAIL_H_
#define MESHLO_TARGETS_CPU_GRAPH_MAIL_H_

#include "targets/cpu/graph/p2p.h"

HLO_BEGIN_C

// Messages in the order of sending.
typedef struct CpuBox {
    struct CpuMessage *first, *last;
} CpuBox;

// The messages on their way. The caller holds one lock for all calls on one CpuMail. An empty mail has only `devices`,
// their number, which is at least one, and `elsewhere`: programs without messages allocate nothing.
typedef struct CpuMail {
    CpuBox *boxes;  // by receiver, NULL before the first message; those on channels without pairs are in the first
    int64_t devices;
    struct CpuEnd *ends;
    const bool *elsewhere;  // by device: of another process, whose messages are not stored here; NULL: none
} CpuMail;

// Stores `data` for every device that this device sends to. RESOURCE_EXHAUSTED; FAILED_PRECONDITION when a channel
// without pairs has a second sender.
HLO_NODISCARD HloStatus cpu_mail_send(CpuMail *mail, const CpuP2pTransfer *peer, int64_t device, const void *data);
// Takes the device's next message into `data`: *taken is false when there is none yet. FAILED_PRECONDITION as above.
HLO_NODISCARD HloStatus cpu_mail_receive(CpuMail *mail, const CpuP2pTransfer *peer, int64_t device, void *data,
                                         bool *taken);
// Whether the device's next message has arrived.
bool cpu_mail_has(const CpuMail *mail, const CpuP2pTransfer *peer, int64_t device);
// Frees the mail and all messages that no one has received. Accepts a zeroed mail.
void cpu_mail_free(CpuMail *mail);

HLO_END_C

#endif
