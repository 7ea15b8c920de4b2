// SPDX-License-Identifier: Apache-2.0
// Pending requests in one direction between two processes, oldest first. Not a public header.
#ifndef MESHLO_TRANSPORT_CHANNEL_H_
#define MESHLO_TRANSPORT_CHANNEL_H_

#include "transport/internal.h"

typedef struct TransportChannel {
    TransportRequest *first, *last;
} TransportChannel;

// Inserts a request after `previous`, first if that is NULL.
static inline void transport_insert(TransportChannel *channel, TransportRequest *previous, TransportRequest *request) {
    request->previous = previous;
    request->next = previous ? previous->next : channel->first;
    *(previous ? &previous->next : &channel->first) = request;
    *(request->next ? &request->next->previous : &channel->last) = request;
}

static inline void transport_append(TransportChannel *channel, TransportRequest *request) {
    transport_insert(channel, channel->last, request);
}

// Takes a request out of its channel.
static inline void transport_take(TransportChannel *channel, TransportRequest *request) {
    *(request->previous ? &request->previous->next : &channel->first) = request->next;
    *(request->next ? &request->next->previous : &channel->last) = request->previous;
    request->previous = request->next = NULL;
}

// Returns the oldest request with this tag, or NULL.
static inline TransportRequest *transport_find(const TransportChannel *channel, uint64_t tag) {
    for (TransportRequest *request = channel->first; request; request = request->next)
        if (request->tag == tag) return request;
    return NULL;
}

// Makes all requests of a channel done with copies of an error.
static inline void transport_fail_channel(TransportChannel *channel, const struct HloError *error) {
    while (channel->first) {
        TransportRequest *request = channel->first;
        transport_take(channel, request);
        transport_complete(request, transport_copy_error(error));
    }
}

#endif
