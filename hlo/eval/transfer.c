// SPDX-License-Identifier: Apache-2.0
// Transfers between devices and with the host. A send stores its message and continues; a recv-done waits for the
// message of its channel from the source device in the channel's pairs. Messages between the same two devices stay in
// order.
//
// Messages are literals in one list of the world, under the rendezvous' lock. The first one that matches is taken,
// which keeps messages between the same two devices in order. Sending never waits, since memory is the only buffer, so
// a program deadlocks here only if it would on every machine. Transfers with the host go through the callbacks of the
// options, on the thread of the device.
#include <assert.h>
#include <string.h>

#include "hlo/eval/internal.h"
#include "hlo/ir/transfer.h"

// A message from its send until it is received. Without pairs the target is -1: any device that receives on the
// channel.
typedef struct Message {
    struct Message *next;
    int64_t channel, source, target;
    HloLiteral *value;
} Message;

// The one device at an end of a channel without pairs.
typedef struct Party {
    struct Party *next;
    int64_t channel, device;
    bool sends;
} Party;

struct HloEvalMail {
    Message *first;
    Party *parties;
};

// The message that a recv-done waits for.
typedef struct Wanted {
    int64_t channel, source, target;
} Wanted;

// The link of the list that points to the first matching message; NULL if there is none.
static Message **find(HloEvalWorld *world, const Wanted *wanted) {
    Message **at = world->mail ? &world->mail->first : NULL;
    while (at && *at) {
        const Message *message = *at;
        const bool same = message->channel == wanted->channel && message->target == wanted->target &&
                          (wanted->target < 0 || message->source == wanted->source);
        if (same) return at;
        at = &(*at)->next;
    }
    return NULL;
}

// The condition for hlo_eval_await().
static bool is_there(const HloEvalDevice *device, const void *context) {
    return find(device->world, context) != NULL;
}

// Called at the end of a run; messages that were never received are not an error.
void hlo_eval_free_mail(HloEvalWorld *world) {
    HloEvalMail *mail = world->mail;
    while (mail && mail->first) {
        Message *message = mail->first;
        mail->first = message->next;
        hlo_literal_free(message->value);
        hlo_free(message);
    }
    while (mail && mail->parties) {
        Party *party = mail->parties;
        mail->parties = party->next;
        hlo_free(party);
    }
    hlo_free(mail);
    world->mail = NULL;
}

// ---- with the world's lock held

// Made with the first message: most programs send none.
static HloStatus need_mail(HloEvalWorld *world) {
    if (!world->mail) world->mail = hlo_allocate_zeroed(1, sizeof *world->mail);
    HLO_FAIL_IF(!world->mail, HLO_RESOURCE_EXHAUSTED, "out of memory while evaluating");
    return HLO_SUCCESS;
}

// A channel without pairs has one sender and one receiver.
static HloStatus take_end(HloEvalWorld *world, const HloInstruction *instruction, int64_t channel, bool sends,
                          int64_t device) {
    HLO_TRY(need_mail(world));
    for (const Party *party = world->mail->parties; party; party = party->next) {
        if (party->channel != channel || party->sends != sends) continue;
        if (party->device == device) return HLO_SUCCESS;  // a loop reaches this in every iteration
        return hlo_error(HLO_FAILED_PRECONDITION,
                         "%%%s: devices %lld and %lld both %s on channel %lld, and no source_target_pairs tell which "
                         "device is meant",
                         instruction->name, (long long)party->device, (long long)device, sends ? "send" : "receive",
                         (long long)channel);
    }
    Party *party = hlo_allocate(sizeof *party);
    HLO_FAIL_IF(!party, HLO_RESOURCE_EXHAUSTED, "out of memory while evaluating");
    *party = (Party){world->mail->parties, channel, device, sends};
    world->mail->parties = party;
    return HLO_SUCCESS;
}

// Appends a message; takes over the literal.
static HloStatus put(HloEvalWorld *world, const Wanted *way, HloLiteral *value) {
    Message *message = hlo_allocate(sizeof *message);
    const HloStatus status =
        message ? need_mail(world) : hlo_error(HLO_RESOURCE_EXHAUSTED, "out of memory for a message");
    if (status) {
        hlo_free(message);
        hlo_literal_free(value);
        return status;
    }
    *message = (Message){NULL, way->channel, way->source, way->target, value};
    Message **end = &world->mail->first;
    while (*end) end = &(*end)->next;
    *end = message;
    hlo_eval_announce(world);
    return HLO_SUCCESS;
}

// ---- sending

// The sender's value may change or die while the message waits.
static HloStatus put_copy(HloEvalDevice *device, const HloEvalValue *value, const Wanted *way) {
    HloLiteral *copy;
    HLO_TRY(hlo_eval_to_literal(value, &copy));
    hlo_eval_lock(device->world);
    const HloStatus status = put(device->world, way, copy);
    hlo_eval_unlock(device->world);
    return status;
}

// Sends to every target that the pairs name for this device; no target is not an error, as in a permute.
static HloStatus send_to_devices(HloEvalDevice *device, const HloInstruction *instruction, const HloEvalValue *value) {
    HloTransferRoute route;
    HLO_TRY(hlo_transfer_route(device->scratch, instruction, &route));
    const int64_t partitions = device->world->partition_count, number = hlo_transfer_number(device->number, partitions);
    Wanted way = {route.channel, device->number, -1};
    if (!route.has_pairs) {
        hlo_eval_lock(device->world);
        const HloStatus status = take_end(device->world, instruction, route.channel, true, device->number);
        hlo_eval_unlock(device->world);
        return status ? status : put_copy(device, value, &way);
    }
    for (int64_t i = 0; i < route.pairs.count; i++) {
        if (route.pairs.items[i].source != number) continue;
        way.target = hlo_transfer_device(route.pairs.items[i].target, device->number, partitions);
        HLO_TRY(put_copy(device, value, &way));
    }
    return HLO_SUCCESS;
}

// The error of a run without a host, or whose host does not support the transfer.
static HloStatus no_host(const HloInstruction *instruction) {
    return hlo_eval_unsupported(instruction, "a transfer with a host, but no host is connected");
}

// A tuple is sent leaf by leaf; tokens are not sent.
static HloStatus send_to_host(HloEvalDevice *device, const HloInstruction *instruction, int64_t channel,
                              const HloEvalValue *value) {
    const HloEvalHost *host = device->world->options.host;
    if (!host || !host->send) return no_host(instruction);
    if (value->elements) {
        for (int32_t i = 0; i < value->shape->element_count; i++)
            HLO_TRY(send_to_host(device, instruction, channel, value->elements[i]));
        return HLO_SUCCESS;
    }
    if (!hlo_shape_is_array(value->shape)) return HLO_SUCCESS;
    return host->send(host->context, device->number, channel, value->shape, value->data);
}

// Returns (data, context, token); the context is unused.
HloStatus hlo_eval_send(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                        HloEvalValue **result) {
    assert(hlo_is(instruction, HLO_OP_SEND));
    const int64_t channel = HLO_ATTRIBUTES(instruction, Transfer)->channel_id;
    HLO_TRY(hlo_transfer_is_host(instruction) ? send_to_host(device, instruction, channel, operands[0])
                                              : send_to_devices(device, instruction, operands[0]));
    HLO_TRY(hlo_eval_new(device, instruction->shape, result));
    HLO_TRY(hlo_eval_new_zeroed(device, instruction->shape->elements[1], &(*result)->elements[1]));
    (*result)->elements[0] = hlo_eval_take(operands, 0);
    (*result)->elements[2] = hlo_eval_take(operands, 1);
    return HLO_SUCCESS;
}

// The token comes last in the send's tuple.
HloStatus hlo_eval_send_done(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                             HloEvalValue **result) {
    assert(hlo_is(instruction, HLO_OP_SEND_DONE));
    (void)device;
    (void)instruction;
    *result = hlo_eval_retain(operands[0]->elements[operands[0]->shape->element_count - 1]);
    return HLO_SUCCESS;
}

// ---- receiving

// Receives into the value's own memory, leaf by leaf.
static HloStatus receive_from_host(HloEvalDevice *device, const HloInstruction *instruction, int64_t channel,
                                   HloEvalValue *value) {
    const HloEvalHost *host = device->world->options.host;
    if (!host || !host->receive) return no_host(instruction);
    if (value->elements) {
        for (int32_t i = 0; i < value->shape->element_count; i++)
            HLO_TRY(receive_from_host(device, instruction, channel, value->elements[i]));
        return HLO_SUCCESS;
    }
    if (!hlo_shape_is_array(value->shape)) return HLO_SUCCESS;
    return host->receive(host->context, device->number, channel, value->shape, value->data);
}

// The result is zero if there is no sender. Data from the host arrives here, data from a device at the done.
HloStatus hlo_eval_recv(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                        HloEvalValue **result) {
    assert(hlo_is(instruction, HLO_OP_RECV));
    HLO_TRY(hlo_eval_new_zeroed(device, instruction->shape, result));
    hlo_eval_release(device, (*result)->elements[2]);
    (*result)->elements[2] = hlo_eval_take(operands, 0);
    if (!hlo_transfer_is_host(instruction)) return HLO_SUCCESS;
    return receive_from_host(device, instruction, HLO_ATTRIBUTES(instruction, Transfer)->channel_id,
                             (*result)->elements[0]);
}

// Waits for a message and takes it out, with the lock held.
static HloStatus fetch(HloEvalDevice *device, const HloInstruction *instruction, const HloTransferRoute *route,
                       const Wanted *wanted, HloLiteral **value) {
    HloEvalWorld *world = device->world;
    if (!route->has_pairs) HLO_TRY(take_end(world, instruction, route->channel, false, device->number));
    HLO_TRY(hlo_eval_await(device, instruction, is_there, wanted));
    Message **at = find(world, wanted);
    HLO_BUG_IF(!at);
    Message *message = *at;
    *at = message->next;
    *value = message->value;
    hlo_free(message);
    return HLO_SUCCESS;
}

// Shapes have been compared; dynamic sizes are not transferred.
static void copy_literal(const HloLiteral *from, HloEvalValue *to) {
    for (int32_t i = 0; i < to->shape->element_count; i++) copy_literal(from->elements[i], to->elements[i]);
    if (to->data) memcpy(to->data, from->data, (size_t)hlo_shape_bytes(to->shape));
}

// Waits with the lock held, and copies without it.
static HloStatus receive_from_device(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **data) {
    HloTransferRoute route;
    HLO_TRY(hlo_transfer_route(device->scratch, instruction, &route));
    const int64_t partitions = device->world->partition_count;
    const int64_t source = hlo_transfer_source(&route, hlo_transfer_number(device->number, partitions));
    if (route.has_pairs && source < 0) return HLO_SUCCESS;  // zeros, as for a permute
    const Wanted wanted = {route.channel,
                           route.has_pairs ? hlo_transfer_device(source, device->number, partitions) : -1,
                           route.has_pairs ? device->number : -1};
    HloLiteral *value = NULL;
    hlo_eval_lock(device->world);
    HloStatus status = fetch(device, instruction, &route, &wanted, &value);
    hlo_eval_unlock(device->world);
    HLO_TRY(status);
    HloEvalValue *copy;
    if (!hlo_shape_equal(value->shape, (*data)->shape, HLO_COMPARE_BOUNDS))
        status = hlo_error(HLO_INVALID_ARGUMENT, "%%%s: the message on channel %lld has a different shape",
                           instruction->name, (long long)route.channel);
    if (!status) status = hlo_eval_new_zeroed(device, (*data)->shape, &copy);
    if (!status) {
        copy_literal(value, copy);
        hlo_eval_release(device, *data);
        *data = copy;
    }
    hlo_literal_free(value);
    return status;
}

// Returns (data, token). Either half may have the attribute for transfers with the host.
HloStatus hlo_eval_recv_done(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                             HloEvalValue **result) {
    assert(hlo_is(instruction, HLO_OP_RECV_DONE));
    HLO_TRY(hlo_eval_new(device, instruction->shape, result));
    const bool host = hlo_transfer_is_host(instruction) ||
                      (hlo_is(instruction->operands[0], HLO_OP_RECV) && hlo_transfer_is_host(instruction->operands[0]));
    HloEvalValue *data = hlo_eval_retain(operands[0]->elements[0]);
    (*result)->elements[1] = hlo_eval_retain(operands[0]->elements[2]);
    HloStatus status = host ? HLO_SUCCESS : receive_from_device(device, instruction, &data);
    (*result)->elements[0] = data;
    return status;
}

// ---- feeds

// Returns (data, token); tokens are not received.
HloStatus hlo_eval_infeed(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                          HloEvalValue **result) {
    assert(hlo_is(instruction, HLO_OP_INFEED));
    (void)operands;
    HLO_TRY(hlo_eval_new_zeroed(device, instruction->shape, result));
    return receive_from_host(device, instruction, HLO_EVAL_CHANNEL_INFEED, *result);
}

// The token is passed through.
HloStatus hlo_eval_outfeed(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                           HloEvalValue **result) {
    assert(hlo_is(instruction, HLO_OP_OUTFEED));
    HLO_TRY(send_to_host(device, instruction, HLO_EVAL_CHANNEL_OUTFEED, operands[0]));
    *result = hlo_eval_take(operands, 1);
    return HLO_SUCCESS;
}
