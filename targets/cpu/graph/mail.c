// SPDX-License-Identifier: Apache-2.0
// Messages are copies in one list per receiver, in the order of sending, which is the order in which a channel's
// receiver takes them. On a channel with source_target_pairs a message is addressed. A channel without pairs has one
// sender and one receiver, which the first use determines. The caller holds the run's lock.
#include "targets/cpu/graph/mail.h"

#include <assert.h>
#include <string.h>

// On its way from `source` to `target`; on channels without pairs the target is -1, meaning the channel's receiver.
typedef struct CpuMessage {
    struct CpuMessage *next;
    int64_t channel, source, target;
    void *data;
} CpuMessage;

// The device at one end of a channel without pairs.
typedef struct CpuEnd {
    struct CpuEnd *next;
    int64_t channel, device;
    bool sends;
} CpuEnd;

// Returns the box of messages to `target`, which is -1 on channels without pairs.
static CpuBox *box_of(const CpuMail *mail, int64_t target) {
    assert(target < mail->devices);
    return &mail->boxes[target < 0 ? 0 : target];
}

// Finds the oldest message that this device may take, and the one before it; NULL if there is none. A box holds only
// what its device has not taken yet, which is few messages.
static CpuMessage *find(const CpuMail *mail, const CpuP2pTransfer *peer, int64_t device, CpuMessage **before) {
    const int64_t source = peer->has_pairs ? peer->sources[device] : -1, target = peer->has_pairs ? device : -1;
    *before = NULL;
    if (!mail->boxes) return NULL;
    for (CpuMessage *at = box_of(mail, target)->first; at; *before = at, at = at->next)
        if (at->channel == peer->channel && at->target == target && (target < 0 || at->source == source)) return at;
    return NULL;
}

// Records the device as the channel's end: a channel without pairs has one sender and one receiver.
static HloStatus take_end(CpuMail *mail, const CpuP2pTransfer *peer, int64_t device) {
    if (peer->has_pairs) return HLO_SUCCESS;
    for (const CpuEnd *end = mail->ends; end; end = end->next) {
        if (end->channel != peer->channel || end->sends != peer->sends) continue;
        if (end->device == device) return HLO_SUCCESS;
        return hlo_error(
            HLO_FAILED_PRECONDITION,
            "devices %lld and %lld both %s on channel %lld, and no source_target_pairs tell which device is meant",
            (long long)end->device, (long long)device, peer->sends ? "send" : "receive", (long long)peer->channel);
    }
    CpuEnd *made = hlo_allocate(sizeof *made);
    HLO_FAIL_IF(!made, HLO_RESOURCE_EXHAUSTED, "no memory for a channel");
    *made = (CpuEnd){mail->ends, peer->channel, device, peer->sends};
    mail->ends = made;
    return HLO_SUCCESS;
}

static HloStatus put(CpuMail *mail, const CpuP2pTransfer *peer, int64_t source, int64_t target, const void *data) {
    if (!mail->boxes) mail->boxes = hlo_allocate_zeroed((size_t)mail->devices, sizeof(CpuBox));
    CpuMessage *message = hlo_allocate_zeroed(1, sizeof *message);
    void *copy = hlo_allocate((size_t)peer->bytes + 1);
    if (!mail->boxes || !message || !copy) {
        hlo_free(message);
        hlo_free(copy);
        return hlo_error(HLO_RESOURCE_EXHAUSTED, "no memory for a message of %lld bytes", (long long)peer->bytes);
    }
    if (peer->bytes) memcpy(copy, data, (size_t)peer->bytes);
    *message = (CpuMessage){NULL, peer->channel, source, target, copy};
    CpuBox *box = box_of(mail, target);
    *(box->last ? &box->last->next : &box->first) = message;
    box->last = message;
    return HLO_SUCCESS;
}

HloStatus cpu_mail_send(CpuMail *mail, const CpuP2pTransfer *peer, int64_t device, const void *data) {
    assert(mail && peer->sends);
    HLO_TRY(take_end(mail, peer, device));
    if (!peer->has_pairs) return put(mail, peer, device, -1, data);
    for (const int64_t *target = peer->targets[device]; *target >= 0; target++)
        if (!mail->elsewhere || !mail->elsewhere[*target]) HLO_TRY(put(mail, peer, device, *target, data));
    return HLO_SUCCESS;
}

bool cpu_mail_has(const CpuMail *mail, const CpuP2pTransfer *peer, int64_t device) {
    assert(mail && !peer->sends);
    CpuMessage *before;
    return (peer->has_pairs && peer->sources[device] < 0) || find(mail, peer, device, &before) != NULL;
}

HloStatus cpu_mail_receive(CpuMail *mail, const CpuP2pTransfer *peer, int64_t device, void *data, bool *taken) {
    assert(mail && !peer->sends && taken);
    *taken = true;
    if (peer->has_pairs && peer->sources[device] < 0) {
        if (peer->bytes) memset(data, 0, (size_t)peer->bytes);
        return HLO_SUCCESS;
    }
    HLO_TRY(take_end(mail, peer, device));
    CpuMessage *before, *message = find(mail, peer, device, &before);
    *taken = message != NULL;
    if (!message) return HLO_SUCCESS;
    CpuBox *box = box_of(mail, message->target);
    *(before ? &before->next : &box->first) = message->next;
    if (box->last == message) box->last = before;
    if (peer->bytes) memcpy(data, message->data, (size_t)peer->bytes);
    hlo_free(message->data);
    hlo_free(message);
    return HLO_SUCCESS;
}

void cpu_mail_free(CpuMail *mail) {
    for (int64_t i = 0; mail->boxes && i < mail->devices; i++) {
        while (mail->boxes[i].first) {
            CpuMessage *message = mail->boxes[i].first;
            mail->boxes[i].first = message->next;
            hlo_free(message->data);
            hlo_free(message);
        }
    }
    hlo_free(mail->boxes);
    mail->boxes = NULL;
    while (mail->ends) {
        CpuEnd *end = mail->ends;
        mail->ends = end->next;
        hlo_free(end);
    }
}
