// SPDX-License-Identifier: Apache-2.0
// Collectives: which devices take part, and the result of each.
//
// Every device runs on its own thread and waits at a collective for its group (rendezvous.c). The last one to arrive
// computes the results of all of them, an "exchange" over the parties in group order, and the others only fetch theirs.
// The attributes and the device's own number determine the members of a group. This file also reports the error for a
// device that is not in any group.
#include <assert.h>
#include <string.h>

#include "hlo/eval/internal.h"
#include "hlo/ir/collective.h"

// ---- groups

// The number of members that the numbers in the groups refer to.
static int64_t mode_size(const HloEvalWorld *world, HloGroupMode mode) {
    assert(world->device_count > 0);
    return hlo_group_mode_numbers(mode, world->replica_count, world->partition_count);
}

// The number that identifies the device in the groups.
static int64_t mode_member(const HloEvalDevice *device, HloGroupMode mode) {
    assert(device->number >= 0 && device->number < device->world->device_count);
    switch (mode) {
        case HLO_GROUPS_OF_PARTITIONS: return device->number % device->world->partition_count;
        case HLO_GROUPS_OF_DEVICES: return device->number;
        default: return device->number / device->world->partition_count;
    }
}

// Converts the members of a group to device numbers: the mode determines whether members share the replica or the
// partition of this device.
static HloInts to_devices(HloEvalDevice *device, HloGroupMode mode, HloInts members) {
    assert(members.count >= 0);
    const int64_t partitions = device->world->partition_count;
    const int64_t copy = mode == HLO_GROUPS_OF_REPLICAS ? device->number % partitions : device->number / partitions;
    return hlo_group_mode_devices(mode, members, copy, partitions, device->scratch);
}

// The devices of this one's collective; an empty list when it is in no group.
static HloStatus find_group(HloEvalDevice *device, const HloInstruction *instruction, HloInts *group) {
    assert(group);
    const HloGroupMode mode = hlo_group_mode_of(instruction);
    const HloReplicaGroups *groups = HLO_ATTRIBUTES(instruction, Collective)->replica_groups;
    int64_t size = mode_size(device->world, mode), self = mode_member(device, mode);
    *group = (HloInts){0};
    if (!groups) {
        int64_t *all = HLO_EVAL_SCRATCH(device, int64_t, size);
        for (int64_t i = 0; i < size; i++) all[i] = i;
        *group = to_devices(device, mode, (HloInts){.items = all, .count = size});
        return HLO_SUCCESS;
    }
    const HloInts *lists;
    int64_t count;
    HloStatus status = hlo_is(instruction, HLO_OP_COLLECTIVE_BROADCAST)
                           ? hlo_replica_groups_complete(groups, size, device->scratch, &lists, &(int64_t){0}, &count)
                           : hlo_replica_groups_expand(groups, size, device->scratch, &lists, &count);
    if (status) return hlo_status_annotate(status, "%%%s on %lld devices", instruction->name, (long long)size);
    for (int64_t g = 0; g < count; g++) {
        if (hlo_ints_contain(lists[g], self)) *group = to_devices(device, mode, lists[g]);
    }
    return HLO_SUCCESS;
}

// Each device runs on its own thread, which waits here until its group has arrived; one of them then does the exchange
// for all.
static HloStatus meet_group(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue *const *operands,
                            HloEvalExchange *exchange, HloEvalValue **result) {
    HloInts group;
    HLO_TRY(find_group(device, instruction, &group));
    assert(group.count > 0); /* lists of groups that leave a device out are refused where they are expanded */
    return hlo_eval_meet(device, instruction, group, operands, exchange, result);
}

// The array shape of result number `index`; the results of a -start op are second in its tuple.
static const HloShape *result_shape(const HloInstruction *instruction, int32_t index) {
    const HloShape *shape = instruction->shape;
    bool start = hlo_is(instruction, HLO_OP_ALL_GATHER_START) || hlo_is(instruction, HLO_OP_COLLECTIVE_PERMUTE_START);
    if (start) shape = shape->elements[1];
    return hlo_shape_value(shape, index);
}

// Wraps the result arrays of one party in the instruction's shape.
static HloStatus wrap_results(const HloInstruction *instruction, HloEvalParty *party, HloEvalValue **arrays,
                              int64_t count) {
    HloEvalDevice *device = party->device;
    const HloShape *shape = instruction->shape;
    bool start = hlo_is(instruction, HLO_OP_ALL_GATHER_START) || hlo_is(instruction, HLO_OP_COLLECTIVE_PERMUTE_START);
    const HloShape *value_shape = start ? shape->elements[1] : shape;
    HloEvalValue *value = arrays[0];
    if (value_shape->type == HLO_TUPLE) {
        HLO_TRY(hlo_eval_new(device, value_shape, &value));
        for (int64_t i = 0; i < count; i++) value->elements[i] = arrays[i];
    }
    party->result = value;
    if (!start) return HLO_SUCCESS;
    HLO_TRY(hlo_eval_new(device, shape, &party->result));
    if (shape->elements[0]->type == HLO_TUPLE) {
        HLO_TRY(hlo_eval_new_tuple(device, shape->elements[0], party->operands, count, &party->result->elements[0]));
    } else {
        party->result->elements[0] = hlo_eval_retain(party->operands[0]);
    }
    party->result->elements[1] = value;
    for (int32_t i = 2; i < shape->element_count; i++) {
        HLO_TRY(hlo_eval_new_zeroed(device, shape->elements[i], &party->result->elements[i]));
    }
    return HLO_SUCCESS;
}

// ---- reductions

// Reduces operand `index` over all parties, in group order. The fixed order makes the result the same on every device
// and in every run.
static HloStatus reduce_parties(HloEvalDevice *device, const HloInstruction *instruction, const HloEvalParty *parties,
                                int64_t count, int32_t index, HloEvalFold **fold) {
    assert(count > 0 && index >= 0 && fold);
    int64_t elements = hlo_eval_elements(parties[0].operands[index]);
    HLO_TRY(
        hlo_eval_fold_new(device, instruction->called[0], &parties[0].operands[index], 1, elements, elements, fold));
    for (int64_t p = 1; p < count; p++) {
        const void *input = parties[p].operands[index]->data;
        HLO_TRY(hlo_eval_fold_add(*fold, 0, &input, elements));
    }
    return HLO_SUCCESS;
}

// All parties get the same values, each in its own memory.
static HloStatus exchange_all_reduce(HloEvalDevice *device, const HloInstruction *instruction, HloEvalParty *parties,
                                     int64_t count) {
    assert(count > 0 && parties);
    int32_t operand_count = instruction->operand_count;
    HloEvalValue **arrays = HLO_EVAL_SCRATCH(device, HloEvalValue *, count * operand_count);
    for (int32_t k = 0; k < operand_count; k++) {
        HloArenaMark mark = hlo_arena_mark(device->scratch);
        HloEvalFold *fold;
        HLO_TRY(reduce_parties(device, instruction, parties, count, k, &fold));
        for (int64_t p = 0; p < count; p++) {
            HloEvalValue **array = &arrays[p * operand_count + k];
            HLO_TRY(hlo_eval_new(parties[p].device, result_shape(instruction, k), array));
            hlo_eval_fold_write(fold, 0, (*array)->data);
        }
        hlo_arena_reset(device->scratch, mark);
    }
    for (int64_t p = 0; p < count; p++) {
        HLO_TRY(wrap_results(instruction, &parties[p], arrays + p * operand_count, operand_count));
    }
    return HLO_SUCCESS;
}

HloStatus hlo_eval_all_reduce(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                              HloEvalValue **result) {
    return meet_group(device, instruction, operands, exchange_all_reduce, result);
}

// A split of an array along one dimension: `outer` rows of `inner` bytes for each index of it.
typedef struct Split {
    int64_t outer, inner;
} Split;

static Split split_at(const HloShape *shape, int64_t dim) {
    Split split = {1, hlo_type_bytes(shape->type)};
    for (int64_t i = 0; i < dim; i++) split.outer *= shape->dims[i];
    for (int64_t i = dim + 1; i < shape->rank; i++) split.inner *= shape->dims[i];
    return split;
}

// Copies `steps` steps of dimension `dim` from step `from` of one array to step `to` of another.
static void copy_steps(const HloShape *target_shape, void *target, int64_t to, const HloShape *source_shape,
                       const void *source, int64_t from, int64_t steps, int64_t dim) {
    assert(dim >= 0 && dim < target_shape->rank && target_shape->rank == source_shape->rank);
    assert(from >= 0 && to >= 0 && steps >= 0);
    Split split = split_at(target_shape, dim);
    int64_t target_row = target_shape->dims[dim] * split.inner, source_row = source_shape->dims[dim] * split.inner;
    if (steps * split.inner == 0) return;
    for (int64_t i = 0; i < split.outer; i++) {
        memcpy((char *)target + i * target_row + to * split.inner,
               (const char *)source + i * source_row + from * split.inner, (size_t)(steps * split.inner));
    }
}

// Computes the whole sum first, then each party's part of it: plain, as an oracle should be.
static HloStatus exchange_reduce_scatter(HloEvalDevice *device, const HloInstruction *instruction,
                                         HloEvalParty *parties, int64_t count) {
    assert(count > 0 && parties);
    int64_t dim = HLO_ATTRIBUTES(instruction, Collective)->dimensions.items[0];
    int32_t operand_count = instruction->operand_count;
    HloEvalValue **arrays = HLO_EVAL_SCRATCH(device, HloEvalValue *, count * operand_count);
    for (int32_t k = 0; k < operand_count; k++) {
        HloArenaMark mark = hlo_arena_mark(device->scratch);
        HloEvalFold *fold;
        HLO_TRY(reduce_parties(device, instruction, parties, count, k, &fold));
        const HloShape *whole = parties[0].operands[k]->shape, *part = result_shape(instruction, k);
        HLO_FAIL_IF(part->dims[dim] * count != whole->dims[dim], HLO_INVALID_ARGUMENT,
                    "%%%s: %lld devices cannot split dimension %lld of size %lld", instruction->name, (long long)count,
                    (long long)dim, (long long)whole->dims[dim]);
        void *sum = hlo_eval_scratch(device, 1, (size_t)hlo_shape_bytes(whole));
        hlo_eval_fold_write(fold, 0, sum);
        for (int64_t p = 0; p < count; p++) {
            HloEvalValue **array = &arrays[p * operand_count + k];
            HLO_TRY(hlo_eval_new(parties[p].device, part, array));
            copy_steps(part, (*array)->data, 0, whole, sum, p * part->dims[dim], part->dims[dim], dim);
        }
        hlo_arena_reset(device->scratch, mark);
    }
    for (int64_t p = 0; p < count; p++) {
        HLO_TRY(wrap_results(instruction, &parties[p], arrays + p * operand_count, operand_count));
    }
    return HLO_SUCCESS;
}

HloStatus hlo_eval_reduce_scatter(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                                  HloEvalValue **result) {
    return meet_group(device, instruction, operands, exchange_reduce_scatter, result);
}

// ---- moving

// Each party gets its own copy, since the values of different devices are freed separately. The number of parties may
// depend on the devices of the run, so sizes are checked here too and not only by shape inference.
static HloStatus exchange_all_gather(HloEvalDevice *device, const HloInstruction *instruction, HloEvalParty *parties,
                                     int64_t count) {
    assert(count > 0 && parties);
    int64_t dim = HLO_ATTRIBUTES(instruction, Collective)->dimensions.items[0];
    int32_t operand_count = instruction->operand_count;
    HloEvalValue **arrays = HLO_EVAL_SCRATCH(device, HloEvalValue *, operand_count);
    for (int64_t p = 0; p < count; p++) {
        for (int32_t k = 0; k < operand_count; k++) {
            const HloShape *whole = result_shape(instruction, k);
            HLO_TRY(hlo_eval_new(parties[p].device, whole, &arrays[k]));
            for (int64_t from = 0; from < count; from++) {
                const HloEvalValue *part = parties[from].operands[k];
                int64_t steps = part->shape->dims[dim];
                HLO_FAIL_IF(steps * count != whole->dims[dim], HLO_INVALID_ARGUMENT,
                            "%%%s: %lld shards of %lld do not make dimension %lld of size %lld", instruction->name,
                            (long long)count, (long long)steps, (long long)dim, (long long)whole->dims[dim]);
                copy_steps(whole, arrays[k]->data, from * steps, part->shape, part->data, 0, steps, dim);
            }
        }
        HLO_TRY(wrap_results(instruction, &parties[p], arrays, operand_count));
    }
    return HLO_SUCCESS;
}

HloStatus hlo_eval_all_gather(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                              HloEvalValue **result) {
    return meet_group(device, instruction, operands, exchange_all_gather, result);
}

// With a dimension: splits one array into as many parts as there are parties.
static HloStatus exchange_array_parts(HloEvalDevice *device, const HloInstruction *instruction, HloEvalParty *parties,
                                      int64_t count) {
    assert(count > 0 && parties);
    (void)device;
    const HloShape *shape = result_shape(instruction, 0);
    int64_t dim = HLO_ATTRIBUTES(instruction, Collective)->dimensions.items[0], part = shape->dims[dim] / count;
    HLO_FAIL_IF(part * count != shape->dims[dim], HLO_INVALID_ARGUMENT,
                "%%%s: %lld devices cannot split dimension %lld of size %lld", instruction->name, (long long)count,
                (long long)dim, (long long)shape->dims[dim]);
    for (int64_t p = 0; p < count; p++) {
        HLO_TRY(hlo_eval_new(parties[p].device, shape, &parties[p].result));
        for (int64_t from = 0; from < count; from++) {
            copy_steps(shape, parties[p].result->data, from * part, shape, parties[from].operands[0]->data, p * part,
                       part, dim);
        }
    }
    return HLO_SUCCESS;
}

// Without a dimension: sends operand i to party i.
static HloStatus exchange_operands(HloEvalDevice *device, const HloInstruction *instruction, HloEvalParty *parties,
                                   int64_t count) {
    assert(count > 0 && parties);
    HLO_FAIL_IF(instruction->operand_count != count, HLO_INVALID_ARGUMENT, "%%%s: %d operands for %lld devices",
                instruction->name, (int)instruction->operand_count, (long long)count);
    HloEvalValue **arrays = HLO_EVAL_SCRATCH(device, HloEvalValue *, count);
    for (int64_t p = 0; p < count; p++) {
        for (int64_t from = 0; from < count; from++) {
            HLO_TRY(hlo_eval_copy_value(parties[p].device, parties[from].operands[p], &arrays[from]));
        }
        HLO_TRY(wrap_results(instruction, &parties[p], arrays, count));
    }
    return HLO_SUCCESS;
}

HloStatus hlo_eval_all_to_all(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                              HloEvalValue **result) {
    bool array = HLO_ATTRIBUTES(instruction, Collective)->dimensions.count > 0 && instruction->shape->type != HLO_TUPLE;
    return meet_group(device, instruction, operands, array ? exchange_array_parts : exchange_operands, result);
}

static HloStatus exchange_broadcast(HloEvalDevice *device, const HloInstruction *instruction, HloEvalParty *parties,
                                    int64_t count) {
    assert(count > 0 && parties);
    HloEvalValue **arrays = HLO_EVAL_SCRATCH(device, HloEvalValue *, instruction->operand_count);
    for (int64_t p = 0; p < count; p++) {
        for (int32_t k = 0; k < instruction->operand_count; k++) {
            HLO_TRY(hlo_eval_copy_value(parties[p].device, parties[0].operands[k], &arrays[k]));
        }
        HLO_TRY(wrap_results(instruction, &parties[p], arrays, instruction->operand_count));
    }
    return HLO_SUCCESS;
}

HloStatus hlo_eval_collective_broadcast(HloEvalDevice *device, const HloInstruction *instruction,
                                        HloEvalValue **operands, HloEvalValue **result) {
    assert(hlo_is(instruction, HLO_OP_COLLECTIVE_BROADCAST));
    HloInts group;
    HLO_TRY(find_group(device, instruction, &group));
    if (group.count == 0) return hlo_eval_new_zeroed(device, instruction->shape, result);
    return hlo_eval_meet(device, instruction, group, operands, exchange_broadcast, result);
}

// ---- permutes

// The device that sends to `number`, or -1.
static int64_t source_of(const HloPairs *pairs, int64_t number) {
    for (int64_t i = 0; i < pairs->count; i++) {
        if (pairs->items[i].target == number) return pairs->items[i].source;
    }
    return -1;
}

// The number of a device in a permute: its replica without a channel, else its partition.
static int64_t permute_number(const HloEvalDevice *device, const HloInstruction *instruction) {
    int64_t partitions = device->world->partition_count;
    bool channel = HLO_ATTRIBUTES(instruction, Permute)->channel_id > 0;
    return channel ? device->number % partitions : device->number / partitions;
}

static HloStatus exchange_permute(HloEvalDevice *device, const HloInstruction *instruction, HloEvalParty *parties,
                                  int64_t count) {
    assert(count > 0 && parties);
    const HloPairs *pairs = &HLO_ATTRIBUTES(instruction, Permute)->source_target_pairs;
    HloEvalValue **arrays = HLO_EVAL_SCRATCH(device, HloEvalValue *, instruction->operand_count);
    for (int64_t p = 0; p < count; p++) {
        int64_t source = source_of(pairs, permute_number(parties[p].device, instruction));
        const HloEvalParty *sender = NULL;
        for (int64_t i = 0; i < count && source >= 0; i++) {
            if (permute_number(parties[i].device, instruction) == source) sender = &parties[i];
        }
        for (int32_t k = 0; k < instruction->operand_count; k++) {
            HLO_TRY(sender ? hlo_eval_copy_value(parties[p].device, sender->operands[k], &arrays[k])
                           : hlo_eval_new_zeroed(parties[p].device, result_shape(instruction, k), &arrays[k]));
        }
        HLO_TRY(wrap_results(instruction, &parties[p], arrays, instruction->operand_count));
    }
    return HLO_SUCCESS;
}

// Devices linked by the pairs with `self`, ascending: only they wait for one another.
static HloInts linked_devices(HloEvalDevice *device, const HloPairs *pairs, int64_t count, int64_t self) {
    assert(self >= 0 && self < count);
    const HloInts *groups;
    int64_t group_count, g = 0;
    hlo_permute_groups(pairs, count, device->scratch, &groups, &group_count);
    while (!hlo_ints_contain(groups[g], self)) g++;
    return groups[g];
}

HloStatus hlo_eval_collective_permute(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                                      HloEvalValue **result) {
    assert(hlo_is(instruction, HLO_OP_COLLECTIVE_PERMUTE) || hlo_is(instruction, HLO_OP_COLLECTIVE_PERMUTE_START));
    const HloPermuteAttributes *permute = HLO_ATTRIBUTES(instruction, Permute);
    if (permute->slice_sizes.count > 0) return hlo_eval_unsupported(instruction, "a permute into parts of a buffer");
    const HloGroupMode mode = hlo_group_mode_of(instruction);
    int64_t count = mode_size(device->world, mode), self = mode_member(device, mode);
    const HloPairs *pairs = &permute->source_target_pairs;
    for (int64_t i = 0; i < pairs->count; i++) {
        HloPair pair = pairs->items[i];
        HLO_FAIL_IF(pair.source < 0 || pair.source >= count || pair.target < 0 || pair.target >= count,
                    HLO_INVALID_ARGUMENT, "%%%s: pair {%lld,%lld} does not fit %lld devices", instruction->name,
                    (long long)pair.source, (long long)pair.target, (long long)count);
    }
    HloInts group = to_devices(device, mode, linked_devices(device, pairs, count, self));
    return hlo_eval_meet(device, instruction, group, operands, exchange_permute, result);
}

// ---- ragged-all-to-all: operands input, output, input offsets, send sizes, output offsets, receive sizes

// Entry `entry` of the sender's lists: rows `start`.. of its input become rows `target`.. of the receiver's output.
static HloStatus send_rows(const HloInstruction *instruction, const HloEvalParty *from, const HloEvalParty *to,
                           int64_t entry) {
    assert(entry >= 0);
    const HloEvalValue *input = from->operands[0];
    HloEvalValue *output = to->result;
    int64_t start = hlo_eval_integer_at(from->operands[2], entry), rows = hlo_eval_integer_at(from->operands[3], entry);
    int64_t target = hlo_eval_integer_at(from->operands[4], entry);
    // All three come from the program's data; their sums may not even fit in 64 bits.
    int64_t given = input->shape->dims[0], room = output->shape->dims[0];
    HLO_FAIL_IF(rows < 0 || start < 0 || target < 0 || rows > given || start > given - rows || rows > room ||
                    target > room - rows,
                HLO_INVALID_ARGUMENT, "%%%s: rows from %lld on, %lld of them, do not fit", instruction->name,
                (long long)start, (long long)rows);
    copy_steps(output->shape, output->data, target, input->shape, input->data, start, rows, 0);
    return HLO_SUCCESS;
}

// Each output starts as the operand that is given for it; only the received parts are overwritten. Entry e is sent to
// member e / (entries / members).
static HloStatus exchange_ragged(HloEvalDevice *device, const HloInstruction *instruction, HloEvalParty *parties,
                                 int64_t count) {
    assert(count > 0 && parties);
    (void)device;
    for (int64_t p = 0; p < count; p++) {
        const HloShape *input = parties[p].operands[0]->shape, *output = parties[p].operands[1]->shape;
        int64_t entries = hlo_eval_elements(parties[p].operands[2]);
        bool fits = input->rank > 0 && input->rank == output->rank && input->type == output->type &&
                    entries % count == 0 && hlo_eval_elements(parties[p].operands[3]) == entries &&
                    hlo_eval_elements(parties[p].operands[4]) == entries;
        for (int32_t i = 1; fits && i < input->rank; i++) fits = input->dims[i] == output->dims[i];
        HLO_FAIL_IF(!fits, HLO_INVALID_ARGUMENT, "%%%s: the operands do not agree", instruction->name);
        HLO_TRY(hlo_eval_copy_value(parties[p].device, parties[p].operands[1], &parties[p].result));
    }
    for (int64_t from = 0; from < count; from++) {
        int64_t entries = hlo_eval_elements(parties[from].operands[2]), each = entries / count;
        for (int64_t e = 0; e < entries; e++) {
            HLO_TRY(send_rows(instruction, &parties[from], &parties[e / each], e));
        }
    }
    return HLO_SUCCESS;
}

HloStatus hlo_eval_ragged_all_to_all(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                                     HloEvalValue **result) {
    return meet_group(device, instruction, operands, exchange_ragged, result);
}
