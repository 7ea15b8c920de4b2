// SPDX-License-Identifier: Apache-2.0
// Transfers to and from the host. Inside a manual region each device makes its own. Outside of one the annotation
// {maximal device=N} names the device that acts for all, and the data that it receives is broadcast. Feeds are the
// same: each device has a queue of its own, or one acts for all. Transfers between devices are made by all of them,
// with whole arrays outside of manual regions.
//
//     %r = (f32[8], u32[], token[]) recv(%t), is_host_transfer=true, sharding={maximal device=2}
//     becomes, on every device
//     %c = (f32[8], token[]) conditional(partition-id == 2, %t, %t), branches: recv and recv-done | zeros, %t
//     %d = f32[8] collective-broadcast(get-tuple-element(%c), index=0), replica_groups={{2,0,1,3}}
//
// Outside of manual regions a start and its done are written together in the place of the start, since the data may
// have to be resharded. The leaves of the start then hold the done's results, which the done only passes on. Between
// devices the halves stay apart (keep_start, emit_done).
#include <assert.h>

#include "hlo/ir/transfer.h"
#include "spmd_partitioner/convert.h"
#include "spmd_partitioner/emit.h"

// A send or recv on its way: its value has three leaves, the data's, the context and the token.
typedef struct Transfer {
    SpmdPartitioner *partitioner;
    const HloInstruction *op;
    HloTransferAttributes attributes;
    const HloShape *data, *token;  // in the new module
    int64_t device;                // the one that acts for all; -1: each for itself
} Transfer;

// The device of the annotation (of the whole tuple or of each leaf).
static int64_t acting_device(const HloInstruction *op) {
    const HloSharding *sharding = op->sharding;
    if (sharding && sharding->kind == HLO_SHARDING_TUPLE)
        sharding = sharding->element_count ? sharding->elements[0] : NULL;
    return sharding && sharding->kind == HLO_SHARDING_MAXIMAL ? sharding->maximal_device : -1;
}

// The only device of a mesh makes its own transfers, whatever the annotation is.
static Transfer transfer_of(SpmdPartitioner *partitioner, const HloInstruction *op) {
    HloArena *arena = partitioner->module->arena;
    const HloShape *data = hlo_shape_copy(arena, op->shape->elements[0]);
    return (Transfer){.partitioner = partitioner,
                      .op = op,
                      .attributes = *HLO_ATTRIBUTES(op, Transfer),
                      .data = data,
                      .token = hlo_shape_copy(arena, op->shape->elements[2]),
                      .device = partitioner->mesh->device_count > 1 ? acting_device(op) : -1};
}

// Element `index` of a tuple.
static HloInstruction *emit_element(SpmdPartitioner *partitioner, HloInstruction *tuple, int64_t index) {
    HloTupleIndexAttributes attributes = {.index = index};
    return spmd_emit(partitioner, HLO_OP_GET_TUPLE_ELEMENT, tuple->shape->elements[index], &tuple, 1, &attributes);
}

// (first, second)
static HloInstruction *emit_pair(SpmdPartitioner *partitioner, HloInstruction *first, HloInstruction *second) {
    HloInstruction *operands[] = {first, second};
    const HloShape *shapes[] = {first->shape, second->shape};
    return spmd_emit(partitioner, HLO_OP_TUPLE, hlo_shape_tuple(spmd_arena(partitioner), shapes, 2), operands, 2, NULL);
}

// The token of a send, the (data, token) of a recv: start and done together. `data` is NULL for a recv.
static HloInstruction *emit_transfer(const Transfer *transfer, HloInstruction *data, HloInstruction *token) {
    SpmdPartitioner *partitioner = transfer->partitioner;
    const bool sends = data != NULL;
    HloInstruction *operands[] = {data, token};
    HloInstruction *start =
        spmd_clone(partitioner, transfer->op, transfer->op->shape, sends ? operands : &token, sends ? 2 : 1);
    const HloShape *parts[] = {transfer->data, transfer->token};
    return sends ? spmd_emit(partitioner, HLO_OP_SEND_DONE, transfer->token, &start, 1, &transfer->attributes)
                 : spmd_emit(partitioner, HLO_OP_RECV_DONE, hlo_shape_tuple(spmd_arena(partitioner), parts, 2), &start,
                             1, &transfer->attributes);
}

// A tree of zeros with `token` at the end: the value on devices that do not take part.
static HloInstruction *emit_nothing(SpmdPartitioner *partitioner, const HloShape *shape, HloInstruction *token) {
    if (shape->type == HLO_TOKEN) return token;
    if (hlo_shape_is_tuple(shape)) {
        HloInstruction **parts = HLO_ARENA_NEW(partitioner->arena, HloInstruction *, shape->element_count + 1);
        for (int32_t i = 0; i < shape->element_count; i++) {
            parts[i] = emit_nothing(partitioner, shape->elements[i], token);
        }
        return spmd_emit(partitioner, HLO_OP_TUPLE, shape, parts, shape->element_count, NULL);
    }
    HloInstruction *zero = spmd_emit_scalar(partitioner, shape->type, 0);
    return shape->rank ? spmd_emit_splat(partitioner, zero, shape->dims, shape->rank) : zero;
}

// The transfer of the acting device on its argument; returns a value of shape `result`.
typedef HloInstruction *(*Act)(const void *context, HloInstruction *argument);

// Something that one device does for all, given (data, token) or a token.
typedef struct Lone {
    SpmdPartitioner *partitioner;
    int64_t device;
    const HloShape *result;  // in the new module
    Act act;
    const void *context;  // of `act`
} Lone;

// One branch of the choice below.
static HloComputation *make_branch(const Lone *lone, const HloShape *argument, bool acts) {
    SpmdPartitioner *partitioner = lone->partitioner;
    SpmdScope *outer = partitioner->scope;
    SpmdScope scope = {.target = hlo_computation_new(partitioner->module, acts ? "transfer" : "no_transfer")};
    partitioner->scope = &scope;
    HloParameterAttributes number = {.number = 0};
    HloInstruction *parameter = spmd_emit(partitioner, HLO_OP_PARAMETER, argument, NULL, 0, &number), *root;
    if (acts) {
        root = lone->act(lone->context, parameter);
    } else {
        HloInstruction *token = hlo_shape_is_tuple(argument) ? emit_element(partitioner, parameter, 1) : parameter;
        root = emit_nothing(partitioner, lone->result, token);
    }
    hlo_computation_set_root(scope.target, root);
    partitioner->scope = outer;
    return scope.target;
}

// Transfers on the one device; elsewhere the token passes, and zeros replace the data.
static HloInstruction *emit_on_device(const Lone *lone, HloInstruction *argument) {
    SpmdPartitioner *partitioner = lone->partitioner;
    assert(lone->device >= 0 && lone->device < partitioner->mesh->device_count); /* the callers refuse other devices */
    HloInstruction *here = spmd_emit_compare(partitioner, HLO_ComparisonDirection_EQ, spmd_emit_device(partitioner),
                                             spmd_emit_scalar(partitioner, HLO_S32, lone->device));
    HloComputation *branches[] = {make_branch(lone, argument->shape, true), make_branch(lone, argument->shape, false)};
    HloInstruction *operands[] = {here, argument, argument};
    HloInstruction *made = spmd_emit(partitioner, HLO_OP_CONDITIONAL, lone->result, operands, 3, NULL);
    hlo_instruction_set_called(made, branches, 2);
    return made;
}

// In the branch that the acting device takes; `argument` is (data, token).
static HloInstruction *act_send(const void *context, HloInstruction *argument) {
    const Transfer *transfer = context;
    HloInstruction *data = emit_element(transfer->partitioner, argument, 0);
    return emit_transfer(transfer, data, emit_element(transfer->partitioner, argument, 1));
}

// The same; `argument` is the token alone.
static HloInstruction *act_recv(const void *context, HloInstruction *argument) {
    return emit_transfer(context, NULL, argument);
}

// Everything needs a sharding, also values without dimensions.
static void define_scalar(const Transfer *transfer, int64_t leaf, HloInstruction *hlo) {
    SpmdLocal local = {.hlo = hlo,
                       .global = hlo_shape_leaf(transfer->op->shape, leaf),
                       .sharding = spmd_planned(transfer->partitioner, leaf)};
    spmd_define_as(transfer->partitioner, leaf, &local);
}

// `what` names the op in the message.
static HloStatus check_device(const SpmdPartitioner *partitioner, int64_t device, const char *what) {
    HLO_FAIL_IF(device >= partitioner->mesh->device_count, HLO_INVALID_ARGUMENT, "%s on device %lld of %lld", what,
                (long long)device, (long long)partitioner->mesh->device_count);
    return HLO_SUCCESS;
}

// What the local forms below cannot express.
static HloStatus check_transfer(const Transfer *transfer) {
    assert(transfer->partitioner);
    const SpmdPartitioner *partitioner = transfer->partitioner;
    const SpmdAtomSet manual = spmd_plan_array(partitioner->plan, transfer->op, 0)->sharding->manual;
    HLO_FAIL_IF(!transfer->attributes.is_host_transfer && transfer->device >= 0 && manual &&
                    manual != spmd_mesh_all(partitioner->mesh),
                HLO_UNIMPLEMENTED, "a transfer between devices by one of them alone");
    HLO_FAIL_IF(!hlo_shape_is_array(transfer->data), HLO_UNIMPLEMENTED, "a host transfer of several arrays at once");
    return check_device(partitioner, transfer->device, "a host transfer");
}

// True if only dones use a start. Elsewhere (as the program's result, in a tuple) each of its leaves would be an array
// of its own.
static bool ends_with_dones(const HloInstruction *start) {
    if (start == start->parent->root) return false;
    for (int64_t u = 0; u < start->users.count; u++) {
        const HloOpcode user = start->users.items[u]->opcode;
        if (user != HLO_OP_SEND_DONE && user != HLO_OP_RECV_DONE) return false;
    }
    return true;
}

// Outside of manual regions, a channel without pairs connects the whole program with itself. Its copy on each device
// then sends to itself.
static HloStatus connect_copies(const Transfer *transfer, HloInstruction *start) {
    SpmdPartitioner *partitioner = transfer->partitioner;
    const int64_t devices = partitioner->mesh->device_count;
    HloTransferRoute route;
    HLO_TRY(hlo_transfer_route(partitioner->arena, transfer->op, &route));
    if (route.has_pairs || devices < 2 || spmd_plan_array(partitioner->plan, transfer->op, 0)->sharding->manual)
        return HLO_SUCCESS;
    HloPair *pairs = HLO_ARENA_NEW(partitioner->arena, HloPair, devices);
    for (int64_t d = 0; d < devices; d++) pairs[d] = (HloPair){d, d};
    hlo_transfer_set_pairs(start, &(HloPairs){pairs, devices});
    return HLO_SUCCESS;
}

// Keeps a transfer between devices in its halves: a done before the other side's start might wait forever. Every leaf
// of the start represents the whole of it until the done.
static HloStatus keep_start(const Transfer *transfer, HloInstruction *const *operands, int64_t count) {
    HLO_FAIL_IF(!ends_with_dones(transfer->op), HLO_UNIMPLEMENTED,
                "a transfer between devices whose done is in another computation");
    SpmdPartitioner *partitioner = transfer->partitioner;
    const HloShape *shape = hlo_shape_copy(spmd_arena(partitioner), transfer->op->shape);
    HloInstruction *start = spmd_clone(partitioner, transfer->op, shape, operands, count);
    for (int64_t leaf = 0; leaf < 3; leaf++) define_scalar(transfer, leaf, start);
    return connect_copies(transfer, start);
}

// The host gets whole arrays, from one device or from each.
static HloStatus send_partition(SpmdPartitioner *partitioner, const HloInstruction *op) {
    const Transfer transfer = transfer_of(partitioner, op);
    HLO_TRY(check_transfer(&transfer));
    SpmdLocal data = spmd_operand(partitioner, 0);
    data.hlo = spmd_operand_whole(partitioner, 0);
    data.sharding =
        spmd_sharding_new(partitioner->arena, op->operands[0]->shape->rank, data.sharding ? data.sharding->manual : 0);
    data.partial = 0;
    HloInstruction *token = spmd_local(partitioner, op->operands[1], 0)->hlo;
    if (!transfer.attributes.is_host_transfer) return keep_start(&transfer, (HloInstruction *[]){data.hlo, token}, 2);
    const Lone lone = {partitioner, transfer.device, transfer.token, act_send, &transfer};
    HloInstruction *done = transfer.device >= 0 ? emit_on_device(&lone, emit_pair(partitioner, data.hlo, token))
                                                : emit_transfer(&transfer, data.hlo, token);
    spmd_define_as(partitioner, 0, &data);
    define_scalar(&transfer, 1, spmd_emit_scalar(partitioner, HLO_U32, 0));
    define_scalar(&transfer, 2, done);
    return HLO_SUCCESS;
}
const SpmdOp spmd_op_send = {.name = "send", .partition = send_partition};

// The array of one device (a number of the mesh) on all of them.
static HloInstruction *broadcast_from(SpmdPartitioner *partitioner, HloInstruction *array, int64_t device,
                                      const SpmdReason *reason) {
    SpmdAxes all = {0};
    spmd_axes_push_set(&all, spmd_mesh_all(partitioner->mesh));
    return spmd_emit_broadcast(partitioner, array, &all, spmd_axes_index(partitioner->mesh, &all, device), reason);
}

// What one device receives for all is broadcast from it; the others bring zeros to the broadcast.
static HloStatus recv_partition(SpmdPartitioner *partitioner, const HloInstruction *op) {
    const Transfer transfer = transfer_of(partitioner, op);
    HLO_TRY(check_transfer(&transfer));
    HloInstruction *token = spmd_local(partitioner, op->operands[0], 0)->hlo;
    if (!transfer.attributes.is_host_transfer) return keep_start(&transfer, &token, 1);
    const bool alone = transfer.device >= 0;
    const HloShape *parts[] = {transfer.data, transfer.token};
    const HloShape *both = hlo_shape_tuple(spmd_arena(partitioner), parts, 2);
    const Lone lone = {partitioner, transfer.device, both, act_recv, &transfer};
    HloInstruction *done = alone ? emit_on_device(&lone, token) : emit_transfer(&transfer, NULL, token);
    HloInstruction *data = emit_element(partitioner, done, 0);
    SpmdReason reason = {.op = op, .what = "received array"};
    if (alone) data = broadcast_from(partitioner, data, transfer.device, &reason);
    SpmdSharding *whole =
        spmd_sharding_new(partitioner->arena, transfer.data->rank, spmd_planned(partitioner, 0)->manual);
    spmd_define(partitioner, 0, data, whole, 0, HLO_OPCODE_COUNT);
    define_scalar(&transfer, 1, spmd_emit_scalar(partitioner, HLO_U32, 0));
    define_scalar(&transfer, 2, emit_element(partitioner, done, 1));
    return HLO_SUCCESS;
}
const SpmdOp spmd_op_recv = {.name = "recv", .partition = recv_partition};

// The start of a transfer between devices that a done ends; NULL where start and done became one.
static HloInstruction *kept_start(SpmdPartitioner *partitioner, const HloInstruction *done) {
    HloInstruction *start = spmd_local(partitioner, done->operands[0], 2)->hlo;
    return hlo_is(start, HLO_OP_SEND) || hlo_is(start, HLO_OP_RECV) ? start : NULL;
}

// The transfer ended with its start: leaf `leaf` of the start is leaf `to` of this op.
static void pass_leaf(SpmdPartitioner *partitioner, int64_t to, int64_t leaf) {
    spmd_define_as(partitioner, to, spmd_local(partitioner, partitioner->op->operands[0], leaf));
}

// The done of a start that was kept; its leaves are whole, as the data that was sent.
static void emit_done(SpmdPartitioner *partitioner, const HloInstruction *op, HloInstruction *start) {
    const int64_t count = hlo_shape_leaf_count(op->shape);
    HloInstruction **leaves = HLO_ARENA_NEW(partitioner->arena, HloInstruction *, count);
    const HloShape *shape = hlo_shape_copy(spmd_arena(partitioner), op->shape);
    spmd_emit_leaves(partitioner, spmd_clone(partitioner, op, shape, &start, 1), leaves);
    for (int64_t i = 0; i < count; i++) {
        const HloShape *global = hlo_shape_leaf(op->shape, i);
        SpmdSharding *whole = spmd_sharding_new(partitioner->arena, hlo_shape_is_array(global) ? global->rank : 0,
                                                spmd_planned(partitioner, i)->manual);
        spmd_define(partitioner, i, leaves[i], whole, 0, HLO_OPCODE_COUNT);
    }
}

// The last leaf of the start holds the token of the done that was written with it.
static HloStatus send_done_partition(SpmdPartitioner *partitioner, const HloInstruction *op) {
    HloInstruction *start = kept_start(partitioner, op);
    if (start) {
        emit_done(partitioner, op, start);
        return HLO_SUCCESS;
    }
    pass_leaf(partitioner, 0, hlo_shape_leaf_count(op->operands[0]->shape) - 1);
    return HLO_SUCCESS;
}
const SpmdOp spmd_op_send_done = {.name = "send-done", .partition = send_done_partition};

// For a recv whose done was written with it: leaf 0 is the data, leaf 2 the token.
static HloStatus recv_done_partition(SpmdPartitioner *partitioner, const HloInstruction *op) {
    HloInstruction *start = kept_start(partitioner, op);
    if (start) {
        emit_done(partitioner, op, start);
        return HLO_SUCCESS;
    }
    pass_leaf(partitioner, 0, 0);
    pass_leaf(partitioner, 1, 2);
    return HLO_SUCCESS;
}
const SpmdOp spmd_op_recv_done = {.name = "recv-done", .partition = recv_done_partition};

// ---- infeed and outfeed: each device has its own queue, and takes or gives its part

// A feed on one device for all.
typedef struct Feed {
    SpmdPartitioner *partitioner;
    const HloInstruction *op;
    const HloShape *shape;  // of its result, in the new module
} Feed;

// As act_recv(), of the device's own queue.
static HloInstruction *act_infeed(const void *context, HloInstruction *argument) {
    const Feed *feed = context;
    return spmd_clone(feed->partitioner, feed->op, feed->shape, &argument, 1);
}

// The attribute names the shape that one device feeds.
static HloInstruction *emit_outfeed(const Feed *feed, HloInstruction *data, HloInstruction *token) {
    HloInstruction *operands[2] = {data, token};
    HloInstruction *made = spmd_clone(feed->partitioner, feed->op, feed->shape, operands, 2);
    HloOutfeedAttributes attributes = *HLO_ATTRIBUTES(feed->op, Outfeed);
    attributes.shape = data->shape;
    hlo_instruction_set_attributes(made, &attributes);
    return made;
}

// `argument` is (data, token).
static HloInstruction *act_outfeed(const void *context, HloInstruction *argument) {
    const Feed *feed = context;
    HloInstruction *data = emit_element(feed->partitioner, argument, 0);
    return emit_outfeed(feed, data, emit_element(feed->partitioner, argument, 1));
}

// What one device takes from its queue, on all of them.
static HloStatus infeed_for_all(SpmdPartitioner *partitioner, const HloInstruction *op, HloInstruction *token) {
    const int64_t device = acting_device(op), count = hlo_shape_leaf_count(op->shape);
    HLO_TRY(check_device(partitioner, device, "an infeed"));
    const Feed feed = {partitioner, op, hlo_shape_copy(spmd_arena(partitioner), op->shape)};
    const Lone lone = {partitioner, device, feed.shape, act_infeed, &feed};
    HloInstruction **leaves = HLO_ARENA_NEW(partitioner->arena, HloInstruction *, count);
    spmd_emit_leaves(partitioner, emit_on_device(&lone, token), leaves);
    const SpmdReason reason = {.op = op, .what = "array taken by one device"};
    for (int64_t i = 0; i < count; i++) {
        const HloShape *shape = hlo_shape_leaf(op->shape, i);
        const SpmdSharding *planned = spmd_plan_array(partitioner->plan, op, i)->sharding;
        if (!hlo_shape_is_array(shape)) {
            spmd_define_as(partitioner, i, &(SpmdLocal){.hlo = leaves[i], .global = shape, .sharding = planned});
            continue;
        }
        HloInstruction *all = broadcast_from(partitioner, leaves[i], device, &reason);
        const SpmdSharding *whole = spmd_sharding_new(partitioner->arena, shape->rank, planned->manual);
        spmd_define(partitioner, i, all, whole, 0, HLO_OPCODE_COUNT);
    }
    return HLO_SUCCESS;
}

// Each device takes its planned part from its own queue.
static HloStatus infeed_partition(SpmdPartitioner *partitioner, const HloInstruction *op) {
    HloInstruction *token = spmd_local(partitioner, op->operands[0], 0)->hlo;
    if (acting_device(op) >= 0) return infeed_for_all(partitioner, op, token);
    int64_t leaf = 0, count = hlo_shape_leaf_count(op->shape);
    const HloShape *shape = spmd_local_tree(partitioner, op, op->shape, &leaf);
    HloInstruction *made = spmd_clone(partitioner, op, shape, &token, 1);
    HloInstruction **leaves = HLO_ARENA_NEW(partitioner->arena, HloInstruction *, count);
    spmd_emit_leaves(partitioner, made, leaves);
    for (int64_t i = 0; i < count; i++) {
        SpmdLocal local = {.hlo = leaves[i],
                           .global = hlo_shape_leaf(op->shape, i),
                           .sharding = spmd_plan_array(partitioner->plan, op, i)->sharding};
        spmd_define_as(partitioner, i, &local);
    }
    return HLO_SUCCESS;
}
const SpmdOp spmd_op_infeed = {.name = "infeed", .partition = infeed_partition};

// The sharding in which leaf `leaf` of the sent value is fed out: as the outfeed's annotation says, which has an entry
// for each array, and may have one more for the token; else as the array is planned.
static HloStatus fed_sharding(SpmdPartitioner *partitioner, const HloInstruction *op, int64_t leaf,
                              const SpmdSharding **to) {
    const HloSharding *written = op->sharding;
    *to = spmd_plan_array(partitioner->plan, op->operands[0], leaf)->sharding;
    if (written && written->kind == HLO_SHARDING_TUPLE) {
        const int64_t count = hlo_shape_leaf_count(op->operands[0]->shape);
        HLO_FAIL_IF(written->element_count != count && written->element_count != count + 1, HLO_INVALID_ARGUMENT,
                    "a sharding of %lld elements on an outfeed of %lld arrays", (long long)written->element_count,
                    (long long)count);
        written = written->elements[leaf];
    }
    if (!written || (*to)->manual || written->kind == HLO_SHARDING_UNKNOWN || written->kind == HLO_SHARDING_MANUAL)
        return HLO_SUCCESS;
    SpmdAnnotation annotation;
    HLO_TRY(spmd_annotation_from_hlo(partitioner->arena, partitioner->mesh, written, (*to)->rank, &annotation));
    HLO_FAIL_IF(annotation.devices || annotation.sharding->unreduced || annotation.sharding->manual, HLO_UNIMPLEMENTED,
                "an outfeed in a device order that the mesh cannot hold, or of a part of a sum");
    *to = annotation.sharding;
    return HLO_SUCCESS;
}

// The arrays that are fed out: each device's part, or all of them where one device speaks for all.
static HloStatus fed_arrays(SpmdPartitioner *partitioner, const HloInstruction *op, bool whole, HloInstruction **fed) {
    const HloInstruction *data = op->operands[0];
    int64_t count = hlo_shape_leaf_count(data->shape);
    HloInstruction **leaves = HLO_ARENA_NEW(partitioner->arena, HloInstruction *, count);
    for (int64_t i = 0; i < count; i++) {
        const SpmdReason reason = {.op = op, .what = "outfed array"};
        const SpmdSharding *to;
        HLO_TRY(fed_sharding(partitioner, op, i, &to));
        if (whole) to = spmd_sharding_new(partitioner->arena, to->rank, to->manual);
        leaves[i] = spmd_reshard(partitioner, *spmd_local(partitioner, data, i), to, 0, reason).hlo;
    }
    *fed = spmd_emit_tree(partitioner, data->shape, leaves);
    return HLO_SUCCESS;
}

// The mirror of infeeds: parts into each device's queue, or the whole into that of one.
static HloStatus outfeed_partition(SpmdPartitioner *partitioner, const HloInstruction *op) {
    const int64_t device = acting_device(op);
    const Feed feed = {partitioner, op, hlo_shape_copy(spmd_arena(partitioner), op->shape)};
    HLO_TRY(check_device(partitioner, device, "an outfeed"));
    HloInstruction *data;
    HLO_TRY(fed_arrays(partitioner, op, device >= 0, &data));
    HloInstruction *token = spmd_local(partitioner, op->operands[1], 0)->hlo;
    SpmdLocal local = {.global = op->shape, .sharding = spmd_planned(partitioner, 0)};
    if (device >= 0) {
        const Lone lone = {partitioner, device, feed.shape, act_outfeed, &feed};
        local.hlo = emit_on_device(&lone, emit_pair(partitioner, data, token));
    } else {
        local.hlo = emit_outfeed(&feed, data, token);
    }
    spmd_define_as(partitioner, 0, &local);
    return HLO_SUCCESS;
}
const SpmdOp spmd_op_outfeed = {.name = "outfeed", .partition = outfeed_partition};
