// SPDX-License-Identifier: Apache-2.0
// Keeps one counter for each pair of devices of a channel. A recv-done takes its message from the counter. Sends in
// loops and branches make a counter endless, and receives in loops and branches take nothing, so that a counter is
// never less than the number of messages that can be in flight.
#include "emulator/mail.h"

#include <assert.h>

#include "hlo/base/map.h"
#include "hlo/base/vector.h"
#include "hlo/ir/transfer.h"

// A channel from one device to another. Both numbers are -1 if the devices are unknown, as without pairs.
typedef struct Wire {
    int64_t channel, source, target;
    int64_t waiting;  // messages sent and not yet received
    bool endless;     // or more, from sends whose number is unknown
    int64_t next;     // wire of the same hash, -1 at the end
} Wire;

struct EmuMail {
    HloArena *arena;
    HLO_VECTOR(Wire) wires;  // of all sends of the module: as many as its channels have pairs
    HloIntMap first;         // hash of a wire to the first of that hash
};

static uint64_t wire_hash(int64_t channel, HloPair pair) {
    return hlo_hash_mix(hlo_hash_mix((uint64_t)channel, (uint64_t)pair.source), (uint64_t)pair.target);
}

static Wire *find_wire(EmuMail *mail, int64_t channel, HloPair pair) {
    const int64_t *first = hlo_int_map_find(&mail->first, wire_hash(channel, pair));
    for (int64_t i = first ? *first : -1; i >= 0; i = mail->wires.items[i].next) {
        Wire *wire = &mail->wires.items[i];
        if (wire->channel == channel && wire->source == pair.source && wire->target == pair.target) return wire;
    }
    return NULL;
}

static void add_wire(EmuMail *mail, int64_t channel, HloPair pair) {
    const uint64_t hash = wire_hash(channel, pair);
    const int64_t *first = hlo_int_map_find(&mail->first, hash);
    const Wire wire = {.channel = channel, .source = pair.source, .target = pair.target, .next = first ? *first : -1};
    hlo_vector_push(mail->arena, &mail->wires, wire);
    hlo_int_map_set(mail->arena, &mail->first, hash, mail->wires.count - 1);
}

// The pairs of a transfer; if it has none, one pair of unknown devices.
static HloStatus pairs_of(EmuMail *mail, const HloInstruction *transfer, int64_t *channel, HloPairs *pairs) {
    static const HloPair unknown = {-1, -1};
    HloTransferRoute route;
    HLO_TRY(hlo_transfer_route(mail->arena, transfer, &route));
    *channel = route.channel;
    *pairs = route.has_pairs ? route.pairs : (HloPairs){&unknown, 1};
    return HLO_SUCCESS;
}

HloStatus emu_mail_new(HloArena *arena, const HloModule *module, EmuMail **result) {
    assert(arena && module && result);
    EmuMail *mail = HLO_ARENA_NEW(arena, EmuMail, 1);
    mail->arena = arena;
    *result = mail;
    for (int64_t c = 0; c < module->computations.count; c++) {
        for (const HloInstruction *at = module->computations.items[c]->first; at; at = at->next) {
            if (!hlo_is(at, HLO_OP_SEND) || hlo_transfer_is_host(at)) continue;
            int64_t channel;
            HloPairs pairs;
            HLO_TRY(pairs_of(mail, at, &channel, &pairs));
            for (int64_t i = 0; i < pairs.count; i++) {
                if (!find_wire(mail, channel, pairs.items[i])) add_wire(mail, channel, pairs.items[i]);
            }
        }
    }
    return HLO_SUCCESS;
}

HloStatus emu_mail_send(EmuMail *mail, const HloInstruction *send, bool once) {
    assert(hlo_is(send, HLO_OP_SEND) && !hlo_transfer_is_host(send));
    int64_t channel;
    HloPairs pairs;
    HLO_TRY(pairs_of(mail, send, &channel, &pairs));
    for (int64_t i = 0; i < pairs.count; i++) {
        Wire *wire = find_wire(mail, channel, pairs.items[i]);
        assert(wire); /* emu_mail_new() has seen every send */
        wire->waiting += once;
        wire->endless |= !once;
    }
    return HLO_SUCCESS;
}

static HloStatus deadlock(const HloInstruction *done, int64_t channel, HloPair pair) {
    const char *name = done->name;
    if (pair.target < 0)
        return hlo_error(HLO_ABORTED,
                         "deadlock: a device would wait forever at recv-done %%%s for a message on channel %lld", name,
                         (long long)channel);
    return hlo_error(HLO_ABORTED,
                     "deadlock: device %lld would wait forever at recv-done %%%s for a message on channel %lld from "
                     "device %lld",
                     (long long)pair.target, name, (long long)channel, (long long)pair.source);
}

HloStatus emu_mail_receive(EmuMail *mail, const HloInstruction *done, bool once) {
    assert(hlo_is(done, HLO_OP_RECV_DONE) && !hlo_transfer_is_host(done));
    int64_t channel;
    HloPairs pairs;
    HLO_TRY(pairs_of(mail, done, &channel, &pairs));
    for (int64_t i = 0; i < pairs.count; i++) {
        Wire *wire = find_wire(mail, channel, pairs.items[i]);
        const bool comes = wire && (!once || wire->endless || wire->waiting > 0);
        if (!comes) return hlo_status_at_instruction(deadlock(done, channel, pairs.items[i]), done);
        if (once && wire->waiting > 0) wire->waiting--;
    }
    return HLO_SUCCESS;
}
