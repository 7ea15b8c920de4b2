// SPDX-License-Identifier: Apache-2.0
// Imports collectives, transfers and device numbers. HLO's collectives have groups of numbers that are replicas,
// partitions, or flat ids of both, depending on channel_id and use_global_device_ids
// (xla/service/collective_ops_utils.h, GetCollectiveOpGroupMode); StableHLO has the same two attributes, which are
// copied unchanged. The code that runs the program interprets the group mode.
#include "hlo/ir/transfer.h"
#include "hlo/stablehlo/import/import.h"

// replica_groups is a matrix with one row per group; shorter groups are padded with -1. The tensor's rows become lists;
// groups by axes of a mesh keep their form.
static HloStatus read_groups(ImportPlace *place, const MlirAttribute *attribute, const HloReplicaGroups **groups) {
    if (attribute && attribute->kind == MLIR_MESH_GROUPS) {
        return import_mesh_groups(place, attribute, groups);
    }
    if (!attribute || attribute->kind != MLIR_TENSOR || attribute->type->shape->rank != 2) {
        return import_error(place, HLO_INVALID_ARGUMENT, "replica_groups is not a matrix");
    }
    const HloLiteral *literal = mlir_tensor_literal(import_arena(place), attribute);
    int64_t count = literal->shape->dims[0], width = literal->shape->dims[1];
    // Empty rows take no bytes, so the tensor's size does not bound their number.
    if (width == 0 && count > 1)
        return import_error(place, HLO_INVALID_ARGUMENT, "replica_groups has %lld empty groups", (long long)count);
    HloInts *lists = HLO_ARENA_NEW(import_arena(place), HloInts, count);
    for (int64_t i = 0; i < count; i++) {
        int64_t *devices = HLO_ARENA_NEW(import_arena(place), int64_t, width);
        int64_t used = 0;
        for (int64_t j = 0; j < width; j++) {
            int64_t device = hlo_literal_get_int64(literal, i * width + j);
            if (device < -1)
                return import_error(place, HLO_INVALID_ARGUMENT, "replica_groups names device %lld", (long long)device);
            if (device >= 0) devices[used++] = device;
        }
        lists[i] = (HloInts){devices, used};
    }
    *groups = hlo_replica_groups_list(import_arena(place), lists, count);
    return HLO_SUCCESS;
}

static HloStatus import_groups(ImportPlace *place, const HloReplicaGroups **groups) {
    return read_groups(place, mlir_attribute(place->operation, "replica_groups"), groups);
}

// Reads the attributes common to all collectives.
static HloStatus import_common(ImportPlace *place, HloCollectiveAttributes *attributes) {
    HLO_TRY(import_int(place, "channel_id", 0, &attributes->channel_id));
    HLO_TRY(import_groups(place, &attributes->replica_groups));
    HLO_TRY(import_bool(place, "use_global_device_ids", false, &attributes->use_global_device_ids));
    // A negative channel means none in HLO; without a channel, there are no global numbers.
    if (attributes->channel_id < 0 && attributes->use_global_device_ids)
        return import_error(place, HLO_INVALID_ARGUMENT, "use_global_device_ids on channel %lld",
                            (long long)attributes->channel_id);
    return HLO_SUCCESS;
}

// A result whose size is the group size has a single shape only if all groups have the same size.
static HloStatus check_even(const ImportPlace *place, const HloReplicaGroups *groups) {
    if (groups->form != HLO_GROUPS_LIST) return HLO_SUCCESS;
    for (int64_t i = 1; i < groups->count; i++) {
        if (groups->groups[i].count != groups->groups[0].count)
            return import_error(place, HLO_INVALID_ARGUMENT, "replica_groups has groups of %lld and %lld",
                                (long long)groups->groups[0].count, (long long)groups->groups[i].count);
    }
    return HLO_SUCCESS;
}

static HloStatus set_dimension(ImportPlace *place, const char *name, HloCollectiveAttributes *attributes) {
    int64_t dimension;
    HLO_TRY(import_int(place, name, 0, &dimension));
    attributes->dimensions = hlo_ints(import_arena(place), &dimension, 1);
    return HLO_SUCCESS;
}

// The same for reductions, where global device numbers require a channel.
static HloStatus import_common_reduction(ImportPlace *place, HloCollectiveAttributes *attributes) {
    HLO_TRY(import_common(place, attributes));
    bool fits = !attributes->use_global_device_ids || attributes->channel_id;
    return fits ? HLO_SUCCESS
                : import_error(place, HLO_INVALID_ARGUMENT, "use_global_device_ids needs a channel_handle");
}

// Several operands are reduced by one region, in one instruction.
static HloStatus import_all_reduce(ImportPlace *place) {
    HloCollectiveAttributes attributes = {0};
    HLO_TRY(import_common_reduction(place, &attributes));
    return import_with_region(place, HLO_OP_ALL_REDUCE, &attributes);
}

// Each call makes a new computation: equal computations of a module can be merged later.
HloComputation *import_adder(const ImportPlace *place, HloType type) {
    HloArena *arena = import_arena(place);
    const HloShape *scalar = hlo_shape_with_default_layout(arena, hlo_shape_scalar(arena, type));
    return hlo_computation_new_binary(place->importer->module, "sum", HLO_OP_ADD, scalar, NULL);
}

// An old op without a region: pmap of a pmap writes it for psum.
static HloStatus import_cross_replica_sum(ImportPlace *place) {
    HloCollectiveAttributes attributes = {0};
    HloInstruction **operands = NULL, *result = NULL;
    HLO_TRY(import_groups(place, &attributes.replica_groups));
    HLO_TRY(import_operands(place, &operands));
    HloComputation *sum = import_adder(place, operands[0]->shape->type);
    HLO_TRY(import_emit(place, HLO_OP_ALL_REDUCE, operands[0]->shape, operands, 1, &attributes, &sum, 1, &result));
    return import_set_results(place, result);
}

static HloStatus import_reduce_scatter(ImportPlace *place) {
    HloCollectiveAttributes attributes = {0};
    HLO_TRY(import_common_reduction(place, &attributes));
    HLO_TRY(check_even(place, attributes.replica_groups));
    HLO_TRY(set_dimension(place, "scatter_dimension", &attributes));
    return import_with_region(place, HLO_OP_REDUCE_SCATTER, &attributes);
}

static HloStatus import_all_gather(ImportPlace *place) {
    HloCollectiveAttributes attributes = {0};
    HLO_TRY(import_common(place, &attributes));
    HLO_TRY(check_even(place, attributes.replica_groups));
    HLO_TRY(set_dimension(place, "all_gather_dim", &attributes));
    return import_plain(place, HLO_OP_ALL_GATHER, &attributes);
}

// One value of an all-to-all. HLO's array form splits and concatenates along one dimension. To concatenate along
// another, the pieces are brought to the front, moved and merged: reshape [.., n, d/n, ..], all-to-all over n,
// transpose n to just before the concatenated dimension.
static HloStatus exchange(ImportPlace *place, HloCollectiveAttributes attributes, int64_t index) {
    int64_t split, concat, pieces;
    const HloShape *shape = NULL;
    MlirValue *result = place->operation->results[index];
    HloInstruction *value = place->operation->operands[index]->lowered;
    HLO_TRY(import_int(place, "split_dimension", 0, &split));
    HLO_TRY(import_int(place, "concat_dimension", 0, &concat));
    HLO_TRY(import_int(place, "split_count", 1, &pieces));
    HLO_TRY(import_shape(place, result->type, &shape));
    if (split == concat) {
        HLO_TRY(set_dimension(place, "split_dimension", &attributes));
        return import_emit(place, HLO_OP_ALL_TO_ALL, shape, &value, 1, &attributes, NULL, 0, &result->lowered);
    }
    int64_t rank = value->shape->rank;
    if (hlo_shape_is_dynamic(value->shape))
        return import_error(place, HLO_UNIMPLEMENTED,
                            "the concatenated dimension differs from the split dimension, and sizes are unknown");
    if (split < 0 || split >= rank || concat < 0 || concat >= rank || pieces < 1 ||
        value->shape->dims[split] % pieces) {
        return import_error(place, HLO_INVALID_ARGUMENT, "dimension %lld does not split into %lld", (long long)split,
                            (long long)pieces);
    }
    HloArena *arena = import_arena(place);
    HloReshapeAttributes reshape = {.inferred_dimension = HLO_ABSENT};
    int64_t *sizes = HLO_ARENA_NEW(arena, int64_t, rank + 1), *order = HLO_ARENA_NEW(arena, int64_t, rank + 1);
    for (int64_t i = 0, j = 0; i < rank; i++) {
        if (i == split) sizes[j++] = pieces;
        sizes[j++] = i == split ? value->shape->dims[i] / pieces : value->shape->dims[i];
    }
    HLO_TRY(import_emit(place, HLO_OP_RESHAPE, hlo_shape_with_dims(arena, value->shape, sizes, rank + 1), &value, 1,
                        &reshape, NULL, 0, &value));
    attributes.dimensions = hlo_ints(arena, &split, 1);
    HLO_TRY(import_emit(place, HLO_OP_ALL_TO_ALL, value->shape, &value, 1, &attributes, NULL, 0, &value));
    // The dimension of the pieces moves to just before the concatenated one; everything else keeps its order.
    int64_t joined = concat > split ? concat + 1 : concat;
    for (int64_t i = 0, j = 0; i <= rank; i++) {
        if (i == joined) order[j++] = split;
        if (i != split) order[j++] = i;
    }
    HloDimensionsAttributes transpose = {{order, rank + 1}};
    HLO_TRY(import_emit(place, HLO_OP_TRANSPOSE, NULL, &value, 1, &transpose, NULL, 0, &value));
    return import_emit(place, HLO_OP_RESHAPE, shape, &value, 1, &reshape, NULL, 0, &result->lowered);
}

// There must be one piece per member of a group: HLO does not record the number of pieces and would use the group's
// size.
static HloStatus check_split_count(ImportPlace *place) {
    const MlirAttribute *groups = mlir_attribute(place->operation, "replica_groups");
    int64_t pieces;
    HLO_TRY(import_int(place, "split_count", 1, &pieces));
    if (!groups || groups->kind != MLIR_TENSOR) return HLO_SUCCESS;
    const HloShape *shape = groups->type->shape;
    const int64_t size = shape->rank == 2 ? shape->dims[1] : 0;
    if (size == pieces) return HLO_SUCCESS;
    return import_error(place, HLO_INVALID_ARGUMENT, "split_count is %lld, and replica_groups has groups of %lld",
                        (long long)pieces, (long long)size);
}

// HLO's form for several operands is another operation, without a split dimension: each operand becomes a separate
// instruction.
static HloStatus import_all_to_all(ImportPlace *place) {
    HloCollectiveAttributes attributes = {0};
    HloInstruction **operands;
    const MlirOperation *operation = place->operation;
    HLO_TRY(import_common(place, &attributes));
    HLO_TRY(check_even(place, attributes.replica_groups));
    HLO_TRY(import_operands(place, &operands));
    HLO_TRY(check_split_count(place));
    if (operation->operand_count != operation->result_count)
        return import_error(place, HLO_INVALID_ARGUMENT, "%lld operands give %lld results",
                            (long long)operation->operand_count, (long long)operation->result_count);
    for (int64_t i = 0; i < operation->operand_count; i++) HLO_TRY(exchange(place, attributes, i));
    return HLO_SUCCESS;
}

// HLO cannot express a computed root: its root is each group's first member.
static HloStatus import_collective_broadcast(ImportPlace *place) {
    HloCollectiveAttributes attributes = {0};
    bool has_dynamic_root;
    HLO_TRY(import_bool(place, "has_dynamic_root", false, &has_dynamic_root));
    if (has_dynamic_root) return import_error(place, HLO_UNIMPLEMENTED, "the root is an operand");
    HLO_TRY(import_common(place, &attributes));
    return import_plain(place, HLO_OP_COLLECTIVE_BROADCAST, &attributes);
}

// StableHLO has no operation for this: JAX and XLA write a custom call whose options are a dictionary of the
// attributes.
static HloStatus call_ragged_all_to_all(ImportPlace *place) {
    HloCollectiveAttributes attributes = {0};
    const MlirAttribute *options = mlir_attribute(place->operation, "backend_config");
    const MlirAttribute *channel = mlir_entry(options, "channel_id");
    if (channel && channel->kind != MLIR_INTEGER)
        return import_error(place, HLO_INVALID_ARGUMENT, "channel_id is not an integer");
    attributes.channel_id = channel ? channel->integer : 0;
    HLO_TRY(read_groups(place, mlir_entry(options, "replica_groups"), &attributes.replica_groups));
    return import_plain(place, HLO_OP_RAGGED_ALL_TO_ALL, &attributes);
}

const ImportRow *import_collective_calls(int64_t *count) {
    static const ImportRow rows[] = {{"ragged_all_to_all", call_ragged_all_to_all, 6}};
    *count = (int64_t)HLO_COUNT_OF(rows);
    return rows;
}

// A matrix of two columns: sender and receiver.
static HloStatus import_pairs(ImportPlace *place, HloPairs *result) {
    const MlirAttribute *pairs = mlir_attribute(place->operation, "source_target_pairs");
    if (!pairs || pairs->kind != MLIR_TENSOR || pairs->type->shape->rank != 2 || pairs->type->shape->dims[1] != 2) {
        return import_error(place, HLO_INVALID_ARGUMENT, "source_target_pairs is not a list of pairs");
    }
    const HloLiteral *literal = mlir_tensor_literal(import_arena(place), pairs);
    int64_t count = literal->shape->dims[0];
    HloPair *items = HLO_ARENA_NEW(import_arena(place), HloPair, count);
    for (int64_t i = 0; i < count; i++) {
        items[i] = (HloPair){hlo_literal_get_int64(literal, 2 * i), hlo_literal_get_int64(literal, 2 * i + 1)};
    }
    *result = (HloPairs){items, count};
    return HLO_SUCCESS;
}

static HloStatus import_collective_permute(ImportPlace *place) {
    HloPermuteAttributes attributes = {0};
    HLO_TRY(import_int(place, "channel_id", 0, &attributes.channel_id));
    HLO_TRY(import_pairs(place, &attributes.source_target_pairs));
    return import_plain(place, HLO_OP_COLLECTIVE_PERMUTE, &attributes);
}

// ---- transfers

// Reads the attributes of both ends of a transfer, and checks that the type of the channel agrees with them.
static HloStatus import_transfer(ImportPlace *place, bool sends, HloTransferAttributes *attributes) {
    enum { DEVICE_TO_DEVICE = 1, DEVICE_TO_HOST = 2, HOST_TO_DEVICE = 3 };  // the types of StableHLO's channels
    HLO_TRY(import_int(place, "channel_id", 0, &attributes->channel_id));
    HLO_TRY(import_bool(place, "is_host_transfer", false, &attributes->is_host_transfer));
    const int64_t wanted = !attributes->is_host_transfer ? DEVICE_TO_DEVICE : sends ? DEVICE_TO_HOST : HOST_TO_DEVICE;
    int64_t type;
    HLO_TRY(import_int(place, "channel_type", wanted, &type));
    if (type == wanted) return HLO_SUCCESS;
    return import_error(place, HLO_INVALID_ARGUMENT, "a channel of type %lld, but is_host_transfer=%s needs %lld",
                        (long long)type, attributes->is_host_transfer ? "true" : "false", (long long)wanted);
}

// Sets the one device that takes part in a transfer of a program of all devices, from the annotation of any of its
// values.
static HloStatus set_device(const ImportPlace *place, HloInstruction *transfer) {
    const MlirAttribute *attribute = mlir_attribute(place->operation, "sdy.sharding");
    if (!attribute) attribute = mlir_attribute(place->operation, "mhlo.sharding");
    if (attribute && attribute->kind == MLIR_SDY && attribute->code == MLIR_SDY_PER_VALUE)
        attribute = attribute->count ? attribute->items[0] : NULL;
    const HloSharding *sharding = NULL;
    const HloShape *shape = NULL;
    if (place->operation->result_count) HLO_TRY(import_shape(place, place->operation->results[0]->type, &shape));
    HLO_TRY(import_sharding(place->importer, attribute, shape ? shape->rank : 0, &sharding));
    transfer->sharding = NULL;
    if (sharding && sharding->kind == HLO_SHARDING_TUPLE && sharding->element_count > 0)
        sharding = sharding->elements[0];
    if (!sharding || sharding->kind != HLO_SHARDING_MAXIMAL) return HLO_SUCCESS;
    const HloSharding *leaves[3] = {sharding, sharding, sharding};
    transfer->sharding = hlo_sharding_tuple(import_arena(place), leaves, 3);
    return HLO_SUCCESS;
}

// Makes an element without inference: the tuple's shape determines its own.
static HloInstruction *element_of(ImportPlace *place, HloInstruction *tuple, int64_t index) {
    HloTupleIndexAttributes attributes = {.index = index};
    return hlo_instruction_new(place->computation, HLO_OP_GET_TUPLE_ELEMENT, tuple->shape->elements[index], &tuple, 1,
                               &attributes, NULL);
}

// The received data: the shape of the values (a single one is not in a tuple unless `in_tuple`), and the shape of the
// token, the last result.
static HloStatus received_shape(const ImportPlace *place, bool in_tuple, const HloShape **data,
                                const HloShape **token) {
    const MlirOperation *operation = place->operation;
    const int64_t values = operation->result_count - 1;
    if (values < 0) return import_error(place, HLO_INVALID_ARGUMENT, "the last result must be a token");
    const HloShape **shapes = HLO_ARENA_NEW(import_arena(place), const HloShape *, values);
    for (int64_t i = 0; i < values; i++) HLO_TRY(import_shape(place, operation->results[i]->type, &shapes[i]));
    HLO_TRY(import_shape(place, operation->results[values]->type, token));
    *data = values == 1 && !in_tuple ? shapes[0] : hlo_shape_tuple(import_arena(place), shapes, values);
    return HLO_SUCCESS;
}

// Sets the results: the elements of the tuple beside the token, and the token.
static void take_apart(ImportPlace *place, HloInstruction *pair) {
    const int64_t values = place->operation->result_count - 1;
    HloInstruction *list = values ? element_of(place, pair, 0) : NULL;
    for (int64_t i = 0; i < values; i++) place->operation->results[i]->lowered = element_of(place, list, i);
    place->operation->results[values]->lowered = element_of(place, pair, 1);
}

// Bytecode writes an empty list, of any rank, where text omits it: transfers with the host have no pairs.
static bool has_pairs(const MlirAttribute *pairs) {
    if (!pairs) return false;
    return pairs->kind == MLIR_TENSOR ? hlo_shape_elements(pairs->type->shape) > 0
                                      : pairs->kind != MLIR_INTS || pairs->ints.count > 0;
}

// HLO stores the pairs of a transfer in a frontend attribute.
static HloStatus set_pairs(ImportPlace *place, HloInstruction *transfer) {
    HloPairs pairs;
    if (!has_pairs(mlir_attribute(place->operation, "source_target_pairs"))) return HLO_SUCCESS;
    HLO_TRY(import_pairs(place, &pairs));
    hlo_transfer_set_pairs(transfer, &pairs);
    return HLO_SUCCESS;
}

// An op that HLO has as a pair: the values, then the token.
static HloStatus import_send(ImportPlace *place) {
    HloTransferAttributes attributes = {0};
    HloInstruction **operands, *sent = NULL, *done = NULL;
    HLO_TRY(import_transfer(place, true, &attributes));
    HLO_TRY(import_operands(place, &operands));
    const int64_t values = place->operation->operand_count - 1;
    if (values < 0) return import_error(place, HLO_INVALID_ARGUMENT, "a token is needed");
    HloInstruction *inputs[2] = {operands[0], operands[values]};
    if (values != 1) HLO_TRY(import_emit(place, HLO_OP_TUPLE, NULL, operands, values, NULL, NULL, 0, &inputs[0]));
    HLO_TRY(import_emit(place, HLO_OP_SEND, NULL, inputs, 2, &attributes, NULL, 0, &sent));
    HLO_TRY(set_device(place, sent));
    HLO_TRY(set_pairs(place, sent));
    HLO_TRY(import_emit(place, HLO_OP_SEND_DONE, NULL, &sent, 1, &attributes, NULL, 0, &done));
    done->sharding = NULL;
    return import_set_results(place, done);
}

static HloStatus import_recv(ImportPlace *place) {
    HloTransferAttributes attributes = {0};
    HloInstruction **operands, *started = NULL, *done = NULL;
    const HloShape *data, *token;
    HLO_TRY(import_transfer(place, false, &attributes));
    HLO_TRY(import_operands(place, &operands));
    HLO_TRY(received_shape(place, false, &data, &token));
    const int64_t values = place->operation->result_count - 1;
    const HloShape *parts[3] = {data, hlo_shape_scalar(import_arena(place), HLO_U32), token};
    const HloShape *start = hlo_shape_tuple(import_arena(place), parts, 3);
    HLO_TRY(import_emit(place, HLO_OP_RECV, start, operands, 1, &attributes, NULL, 0, &started));
    HLO_TRY(set_device(place, started));
    HLO_TRY(set_pairs(place, started));
    HLO_TRY(import_emit(place, HLO_OP_RECV_DONE, NULL, &started, 1, &attributes, NULL, 0, &done));
    done->sharding = NULL;
    if (values == 1) return import_set_results(place, done);
    take_apart(place, done);
    return HLO_SUCCESS;
}

// An outfeed has its values in a tuple, even one or none.
static HloStatus import_outfeed(ImportPlace *place) {
    HloOutfeedAttributes attributes = {0};
    HloInstruction **operands, *result;
    HLO_TRY(import_operands(place, &operands));
    const int64_t values = place->operation->operand_count - 1;
    if (values < 0) return import_error(place, HLO_INVALID_ARGUMENT, "a token is needed");
    HLO_TRY(import_fields(place, HLO_OP_OUTFEED, &attributes));
    HloInstruction *inputs[2] = {NULL, operands[values]};
    HLO_TRY(import_emit(place, HLO_OP_TUPLE, NULL, operands, values, NULL, NULL, 0, &inputs[0]));
    attributes.shape = inputs[0]->shape;
    HLO_TRY(import_emit(place, HLO_OP_OUTFEED, NULL, inputs, 2, &attributes, NULL, 0, &result));
    return import_set_results(place, result);
}

// An infeed returns its values in a tuple beside the token.
static HloStatus import_infeed(ImportPlace *place) {
    HloInfeedAttributes attributes = {0};
    HloInstruction **operands, *result;
    const HloShape *parts[2];
    HLO_TRY(import_operands(place, &operands));
    HLO_TRY(received_shape(place, true, &parts[0], &parts[1]));
    HLO_TRY(import_fields(place, HLO_OP_INFEED, &attributes));
    const HloShape *shape = hlo_shape_tuple(import_arena(place), parts, 2);
    HLO_TRY(import_emit(place, HLO_OP_INFEED, shape, operands, 1, &attributes, NULL, 0, &result));
    take_apart(place, result);
    return HLO_SUCCESS;
}

static HloStatus import_partition_id(ImportPlace *place) {
    return import_plain(place, HLO_OP_PARTITION_ID, NULL);
}
static HloStatus import_replica_id(ImportPlace *place) {
    return import_plain(place, HLO_OP_REPLICA_ID, NULL);
}

const ImportRow *import_collective_rows(int64_t *count) {
    static const ImportRow rows[] = {
        {"stablehlo.all_reduce", import_all_reduce, 0},
        {"stablehlo.cross-replica-sum", import_cross_replica_sum, 1},
        {"stablehlo.reduce_scatter", import_reduce_scatter, 0},
        {"stablehlo.all_gather", import_all_gather, 0},
        {"stablehlo.all_to_all", import_all_to_all, 0},
        {"stablehlo.collective_broadcast", import_collective_broadcast, 0},
        {"stablehlo.collective_permute", import_collective_permute, 0},
        {"stablehlo.infeed", import_infeed, 1},
        {"stablehlo.outfeed", import_outfeed, 0},
        {"stablehlo.send", import_send, 0},
        {"stablehlo.recv", import_recv, 1},
        {"stablehlo.partition_id", import_partition_id, 0},
        {"stablehlo.replica_id", import_replica_id, 0},
    };
    *count = (int64_t)HLO_COUNT_OF(rows);
    return rows;
}
