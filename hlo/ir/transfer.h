// SPDX-License-Identifier: Apache-2.0
// Transfers between devices: the sender and receiver of each message over the channel of a send or recv.
//
// Stability: experimental.
#ifndef MESHLO_HLO_IR_TRANSFER_H_
#define MESHLO_HLO_IR_TRANSFER_H_

#include "hlo/ir/module.h"

HLO_BEGIN_C

// The route of the messages of one channel.
typedef struct HloTransferRoute {
    int64_t channel;
    bool has_pairs;  // else one device sends and one receives, whichever run the instructions
    HloPairs pairs;  // of partitions if the program has several, else of replicas
} HloTransferRoute;

// Finds the route of a send, recv or one of their dones between devices: its own frontend attribute
// _xla_send_recv_source_target_pairs, as XLA's collective-permute decomposer writes it ("{{0,1},{1,2}}"), or that of
// another instruction of its channel. The pairs live in `arena`. INVALID_ARGUMENT if the text is not a list of pairs.
HLO_EXPORT HLO_NODISCARD HloStatus hlo_transfer_route(HloArena *arena, const HloInstruction *transfer,
                                                      HloTransferRoute *route);

// Appends pairs as HLO text has them: {{0,1},{1,2}}.
HLO_EXPORT void hlo_pairs_print(HloText *text, const HloPairs *pairs);

// Writes the pairs of a send or recv into that attribute; it copies them.
HLO_EXPORT void hlo_transfer_set_pairs(HloInstruction *transfer, const HloPairs *pairs);

// The number that sends to `number`, or -1.
HLO_EXPORT int64_t hlo_transfer_source(const HloTransferRoute *route, int64_t number);

// True if a send, recv or done is a transfer with the host.
HLO_EXPORT bool hlo_transfer_is_host(const HloInstruction *transfer);

// The number of a device in the pairs of a route: its partition if the program has several, else its replica. `device`
// is replica * partitions + partition.
static inline int64_t hlo_transfer_number(int64_t device, int64_t partitions) {
    return partitions > 1 ? device % partitions : device;
}
// The device with `number` in the context of `device`: the partition of the same replica.
static inline int64_t hlo_transfer_device(int64_t number, int64_t device, int64_t partitions) {
    return partitions > 1 ? device / partitions * partitions + number : number;
}

HLO_END_C

#endif
