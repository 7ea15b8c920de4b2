// SPDX-License-Identifier: Apache-2.0
// Transfers to and from the host. Inside a manual region each device makes its own; outside of one the annotation
// {maximal device=N} names the device that speaks for all, and what it receives is broadcast.
#include "spmd_partitioner/emit.h"

// The leaves of the value of a send or recv: the data's, the context, the token.
typedef struct Transfer {
    SpmdPartitioner *partitioner;
    const HloInstruction *op;
    HloTransferAttributes attributes;
    const HloShape *data, *token;  // in the new module
    int64_t device;                // the one that acts for all; -1: each for itself
} Transfer;

// What the annotation (of the whole tuple or of each leaf) says.
static int64_t acting_device(const HloInstruction *op) {
    const HloSharding *sharding = op->sharding;
    if (sharding && sharding->kind == HLO_SHARDING_TUPLE)
        sharding = sharding->element_count ? sharding->elements[0] : NULL;
    return sharding && sharding->kind == HLO_SHARDING_MAXIMAL ? sharding->maximal_device : -1;
}

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

static HloInstruction *emit_zeros(SpmdPartitioner *partitioner, const HloShape *shape) {
    HloInstruction *zero = spmd_emit_scalar(partitioner, shape->type, 0);
    return shape->rank ? spmd_emit_splat(partitioner, zero, shape->dims, shape->rank) : zero;
}

// One branch of the choice below: `argument` is (data, token) of a send, the token of a recv.
static HloComputation *make_branch(const Transfer *transfer, const HloShape *argument, bool acts) {
    SpmdPartitioner *partitioner = transfer->partitioner;
    SpmdScope *outer = partitioner->scope;
    SpmdScope scope = {.target = hlo_computation_new(partitioner->module, acts ? "transfer" : "no_transfer")};
    partitioner->scope = &scope;
    HloParameterAttributes number = {.number = 0};
    HloInstruction *parameter = spmd_emit(partitioner, HLO_OP_PARAMETER, argument, NULL, 0, &number);
    HloInstruction *root;
    if (hlo_shape_is_tuple(argument)) {
        HloInstruction *data = emit_element(partitioner, parameter, 0),
                       *token = emit_element(partitioner, parameter, 1);
        root = acts ? emit_transfer(transfer, data, token) : token;
    } else {
        root = acts ? emit_transfer(transfer, NULL, parameter)
                    : emit_pair(partitioner, emit_zeros(partitioner, transfer->data), parameter);
    }
    hlo_computation_set_root(scope.target, root);
    partitioner->scope = outer;
    return scope.target;
}

// emit_transfer() on the one device that the annotation names; elsewhere the token passes, and zeros stand for data.
static HloInstruction *emit_on_device(const Transfer *transfer, HloInstruction *argument) {
    SpmdPartitioner *partitioner = transfer->partitioner;
    HloInstruction *here = spmd_emit_compare(partitioner, HLO_ComparisonDirection_EQ, spmd_emit_device(partitioner),
                                             spmd_emit_scalar(partitioner, HLO_S32, transfer->device));
    HloComputation *branches[] = {make_branch(transfer, argument->shape, true),
                                  make_branch(transfer, argument->shape, false)};
    HloInstruction *operands[] = {here, argument, argument};
    HloInstruction *made = spmd_emit(partitioner, HLO_OP_CONDITIONAL, branches[0]->root->shape, operands, 3, NULL);
    hlo_instruction_set_called(made, branches, 2);
    return made;
}

// Everything needs a sharding, also what has no dimensions.
static void define_scalar(const Transfer *transfer, int64_t leaf, HloInstruction *hlo) {
    SpmdLocal local = {.hlo = hlo,
                       .global = hlo_shape_leaf(transfer->op->shape, leaf),
                       .sharding = spmd_planned(transfer->partitioner, leaf)};
    spmd_define_as(transfer->partitioner, leaf, &local);
}

static HloStatus check_transfer(const Transfer *transfer) {
    HLO_FAIL_IF(!transfer->attributes.is_host_transfer, HLO_UNIMPLEMENTED, "a transfer between devices");
    HLO_FAIL_IF(!hlo_shape_is_array(transfer->data), HLO_UNIMPLEMENTED, "a host transfer of several arrays at once");
    HLO_FAIL_IF(transfer->device >= transfer->partitioner->mesh->device_count, HLO_INVALID_ARGUMENT,
                "a host transfer on device %lld of %lld", (long long)transfer->device,
                (long long)transfer->partitioner->mesh->device_count);
    return HLO_SUCCESS;
}

static HloStatus send_partition(SpmdPartitioner *partitioner, const HloInstruction *op) {
    const Transfer transfer = transfer_of(partitioner, op);
    HLO_TRY(check_transfer(&transfer));
    SpmdLocal data = spmd_operand(partitioner, 0);
    data.hlo = spmd_operand_whole(partitioner, 0);
    data.sharding =
        spmd_sharding_new(partitioner->arena, op->operands[0]->shape->rank, data.sharding ? data.sharding->manual : 0);
    data.partial = 0;
    HloInstruction *token = spmd_local(partitioner, op->operands[1], 0)->hlo;
    HloInstruction *done = transfer.device >= 0 ? emit_on_device(&transfer, emit_pair(partitioner, data.hlo, token))
                                                : emit_transfer(&transfer, data.hlo, token);
    spmd_define_as(partitioner, 0, &data);
    define_scalar(&transfer, 1, spmd_emit_scalar(partitioner, HLO_U32, 0));
    define_scalar(&transfer, 2, done);
    return HLO_SUCCESS;
}
const SpmdOp spmd_op_send = {.name = "send", .partition = send_partition};

static HloStatus recv_partition(SpmdPartitioner *partitioner, const HloInstruction *op) {
    const Transfer transfer = transfer_of(partitioner, op);
    HLO_TRY(check_transfer(&transfer));
    HloInstruction *token = spmd_local(partitioner, op->operands[0], 0)->hlo;
    const bool alone = transfer.device >= 0;
    HloInstruction *done = alone ? emit_on_device(&transfer, token) : emit_transfer(&transfer, NULL, token);
    HloInstruction *data = emit_element(partitioner, done, 0);
    SpmdReason reason = {.op = op, .what = "received array"};
    if (alone) data = spmd_emit_broadcast(partitioner, data, transfer.device, &reason);
    SpmdSharding *whole =
        spmd_sharding_new(partitioner->arena, transfer.data->rank, spmd_planned(partitioner, 0)->manual);
    spmd_define(partitioner, 0, data, whole, 0, HLO_OPCODE_COUNT);
    define_scalar(&transfer, 1, spmd_emit_scalar(partitioner, HLO_U32, 0));
    define_scalar(&transfer, 2, emit_element(partitioner, done, 1));
    return HLO_SUCCESS;
}
const SpmdOp spmd_op_recv = {.name = "recv", .partition = recv_partition};

// The transfer ended with its start: leaf `leaf` of the start is leaf `to` of this op.
static void pass_leaf(SpmdPartitioner *partitioner, int64_t to, int64_t leaf) {
    spmd_define_as(partitioner, to, spmd_local(partitioner, partitioner->op->operands[0], leaf));
}

static HloStatus send_done_partition(SpmdPartitioner *partitioner, const HloInstruction *op) {
    pass_leaf(partitioner, 0, hlo_shape_leaf_count(op->operands[0]->shape) - 1);
    return HLO_SUCCESS;
}
const SpmdOp spmd_op_send_done = {.name = "send-done", .partition = send_done_partition};

static HloStatus recv_done_partition(SpmdPartitioner *partitioner, const HloInstruction *op) {
    (void)op;
    pass_leaf(partitioner, 0, 0);
    pass_leaf(partitioner, 1, 2);
    return HLO_SUCCESS;
}
const SpmdOp spmd_op_recv_done = {.name = "recv-done", .partition = recv_done_partition};

// ---- infeed and outfeed: each device has its own queue, and takes or gives its part

static HloStatus check_feed(const HloInstruction *op) {
    HLO_FAIL_IF(acting_device(op) >= 0, HLO_UNIMPLEMENTED, "%s on one device for all", hlo_op_text(op->opcode));
    return HLO_SUCCESS;
}

static HloStatus infeed_partition(SpmdPartitioner *partitioner, const HloInstruction *op) {
    HLO_TRY(check_feed(op));
    HloInstruction *token = spmd_local(partitioner, op->operands[0], 0)->hlo;
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

static HloStatus outfeed_partition(SpmdPartitioner *partitioner, const HloInstruction *op) {
    HLO_TRY(check_feed(op));
    const HloInstruction *data = op->operands[0];
    int64_t count = hlo_shape_leaf_count(data->shape);
    HloInstruction **leaves = HLO_ARENA_NEW(partitioner->arena, HloInstruction *, count);
    for (int64_t i = 0; i < count; i++) {
        SpmdReason reason = {.op = op, .what = "outfed array"};
        const SpmdSharding *to = spmd_plan_array(partitioner->plan, data, i)->sharding;
        leaves[i] = spmd_reshard(partitioner, *spmd_local(partitioner, data, i), to, 0, reason).hlo;
    }
    HloInstruction *operands[2] = {spmd_emit_tree(partitioner, data->shape, leaves),
                                   spmd_local(partitioner, op->operands[1], 0)->hlo};
    SpmdLocal local = {.global = op->shape, .sharding = spmd_planned(partitioner, 0)};
    local.hlo = spmd_clone(partitioner, op, op->shape, operands, 2);
    HloOutfeedAttributes attributes = *HLO_ATTRIBUTES(op, Outfeed);
    attributes.shape = operands[0]->shape;
    hlo_instruction_set_attributes(local.hlo, &attributes);
    spmd_define_as(partitioner, 0, &local);
    return HLO_SUCCESS;
}
const SpmdOp spmd_op_outfeed = {.name = "outfeed", .partition = outfeed_partition};
