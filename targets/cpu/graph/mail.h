// SPDX-License-Identifier: Apache-2.0
// Messages between the devices of one execution: send and recv over numbered channels. A send leaves a copy of its
// array and goes on; a recv-done takes the next message of its way, and a device without one is parked, as at a
// collective. Messages of one way stay in order, so results do not depend on scheduling.
#ifndef MESHLO_TARGETS_CPU_GRAPH_MAIL_H_
#define MESHLO_TARGETS_CPU_GRAPH_MAIL_H_

#include "targets/cpu/graph/p2p.h"

HLO_BEGIN_C

// Messages in the order of sending.
typedef struct CpuBox {
    struct CpuMessage *first, *last;
} CpuBox;

// What is on its way. All calls on one CpuMail come under one lock.
typedef struct CpuMail {
    CpuBox *boxes;  // by receiver; messages on channels without pairs are in the first
    int64_t devices;
    struct CpuEnd *ends;
} CpuMail;

// Makes an empty mail between so many devices. RESOURCE_EXHAUSTED.
HLO_NODISCARD HloStatus cpu_mail_init(CpuMail *mail, int64_t devices);
// Leaves `data` for everybody that the device sends to. RESOURCE_EXHAUSTED; FAILED_PRECONDITION when a channel without
// pairs has a second sender.
HLO_NODISCARD HloStatus cpu_mail_send(CpuMail *mail, const CpuPeer *peer, int64_t device, const void *data);
// Takes the device's next message into `data`: *taken is false when there is none yet. FAILED_PRECONDITION as above.
HLO_NODISCARD HloStatus cpu_mail_receive(CpuMail *mail, const CpuPeer *peer, int64_t device, void *data, bool *taken);
// Whether the device's next message is there.
bool cpu_mail_has(const CpuMail *mail, const CpuPeer *peer, int64_t device);
// Frees the mail and what no one has received; also one of zeros, that was never made.
void cpu_mail_free(CpuMail *mail);

HLO_END_C

#endif
