// SPDX-License-Identifier: Apache-2.0
// Attributes that shape inference does not check: the participants of collectives, shardings, async pairs.
//
// Shape inference sees one instruction and its operands. Properties that depend on the module (how many devices there
// are, which ones a group names) or on users (that a start has one done) are checked here.
#include <assert.h>
#include <string.h>

#include "hlo/ir/collective.h"
#include "hlo/verify/internal.h"

// The number of devices that the groups list, or -1 if it does not fit in 62 bits.
static int64_t listed(const HloReplicaGroups *groups) {
    assert(groups);
    int64_t total = 0;
    if (groups->form == HLO_GROUPS_LIST) {
        for (int64_t i = 0; i < groups->count; i++) total += groups->groups[i].count;
        return total;
    }
    if (groups->form == HLO_GROUPS_IOTA) {
        return __builtin_mul_overflow(groups->count, groups->size, &total) ? -1 : total;
    }
    total = 1;
    for (int64_t i = 0; i < groups->mesh.axis_sizes.count; i++) {
        if (__builtin_mul_overflow(total, groups->mesh.axis_sizes.items[i], &total)) return -1;
    }
    return total;
}

// More devices than any machine has: groups that list more are not expanded to be checked.
enum { DEVICE_LIMIT = 1 << 24 };

// If the shape of the result depends on the group size, all groups must have the same size, as in XLA.
static HloStatus check_group_sizes(const HloInstruction *instruction, const HloReplicaGroups *groups) {
    static const HloOpcode opcodes[] = {HLO_OP_ALL_GATHER, HLO_OP_ALL_GATHER_START, HLO_OP_REDUCE_SCATTER,
                                        HLO_OP_ALL_TO_ALL, HLO_OP_RAGGED_ALL_TO_ALL};
    bool needed = false;
    for (size_t i = 0; i < HLO_COUNT_OF(opcodes); i++) needed |= instruction->opcode == opcodes[i];
    if (!needed || groups->form != HLO_GROUPS_LIST) return HLO_SUCCESS;
    for (int64_t i = 1; i < groups->count; i++)
        HLO_VERIFY_FAIL_IF(groups->groups[i].count != groups->groups[0].count,
                           "replica groups of %lld and %lld devices, but all must have the same size",
                           (long long)groups->groups[0].count, (long long)groups->groups[i].count);
    return HLO_SUCCESS;
}

// Lists of a module that does not count its devices may name any device, each once: XLA's parser reads them too.
static HloStatus check_uncounted(HloVerifier *verifier, const HloReplicaGroups *groups) {
    HloIntMap seen = {0};
    for (int64_t i = 0; i < groups->count; i++) {
        for (int64_t j = 0; j < groups->groups[i].count; j++) {
            const int64_t device = groups->groups[i].items[j];
            HLO_VERIFY_FAIL_IF(device < 0 || device >= DEVICE_LIMIT, "replica group %lld names device %lld",
                               (long long)i, (long long)device);
            HLO_VERIFY_FAIL_IF(hlo_int_map_find(&seen, (uint64_t)device), "the replica groups name device %lld twice",
                               (long long)device);
            hlo_int_map_set(verifier->arena, &seen, (uint64_t)device, 1);
        }
    }
    return HLO_SUCCESS;
}

static HloStatus check_groups(HloVerifier *verifier, const HloInstruction *instruction) {
    assert(hlo_op_info(instruction->opcode)->family == HLO_FAMILY_Collective);
    const HloCollectiveAttributes *collective = HLO_ATTRIBUTES(instruction, Collective);
    const HloReplicaGroups *groups = collective->replica_groups;
    const bool global = collective->use_global_device_ids;
    HLO_VERIFY_FAIL_IF(global && collective->channel_id <= 0, "use_global_device_ids=true needs a channel_id");
    if (!groups || (groups->form == HLO_GROUPS_LIST && groups->count == 0)) {
        HLO_VERIFY_FAIL_IF(global, "use_global_device_ids=true needs replica_groups");
        return HLO_SUCCESS;
    }
    for (int64_t i = 0; groups->form == HLO_GROUPS_LIST && i < groups->count; i++)
        HLO_VERIFY_FAIL_IF(groups->groups[i].count == 0, "replica group %lld is empty", (long long)i);
    HLO_TRY(check_group_sizes(instruction, groups));
    int64_t count = listed(groups);
    int64_t expected = hlo_group_mode_numbers(hlo_group_mode_of(instruction), verifier->module->replica_count,
                                              verifier->module->num_partitions);
    // If the header does not count devices (no replica_count and num_partitions), the groups are taken as they are.
    bool counted = verifier->module->replica_count > 1 || verifier->module->num_partitions > 1;
    if (!counted && groups->form == HLO_GROUPS_LIST) return check_uncounted(verifier, groups);
    if (!counted && count > 0) expected = count;
    HLO_VERIFY_FAIL_IF(count > DEVICE_LIMIT, "the replica groups list %lld devices, more than any machine has",
                       (long long)count);
    // Devices that a broadcast does not name receive zeros.
    const bool some = instruction->opcode == HLO_OP_COLLECTIVE_BROADCAST && count >= 0 && count < expected;
    HLO_VERIFY_FAIL_IF(count != expected && !some, "the replica groups list %lld devices of %lld", (long long)count,
                       (long long)expected);
    const HloInts *lists;
    int64_t list_count;
    if (!some) return hlo_replica_groups_expand(groups, expected, verifier->arena, &lists, &list_count);
    HLO_VERIFY_FAIL_IF(expected > DEVICE_LIMIT, "there are %lld devices, more than any machine has",
                       (long long)expected);
    int64_t named;
    return hlo_replica_groups_complete(groups, expected, verifier->arena, &lists, &list_count, &named);
}

static HloStatus check_pairs(HloVerifier *verifier, const HloInstruction *instruction) {
    assert(hlo_op_info(instruction->opcode)->family == HLO_FAMILY_Permute);
    const HloPermuteAttributes *permute = HLO_ATTRIBUTES(instruction, Permute);
    const HloModule *module = verifier->module;
    bool counted = module->replica_count > 1 || module->num_partitions > 1;
    int64_t devices = permute->channel_id > 0 ? module->num_partitions : module->replica_count;
    if (!counted) devices = DEVICE_LIMIT;
    HloIntMap targets = {0}, sources = {0};
    for (int64_t i = 0; i < permute->source_target_pairs.count; i++) {
        HloPair pair = permute->source_target_pairs.items[i];
        bool outside = pair.source < 0 || pair.target < 0 || pair.source >= devices || pair.target >= devices;
        HLO_VERIFY_FAIL_IF(outside, "the pair {%lld,%lld} names a device outside of 0..%lld", (long long)pair.source,
                           (long long)pair.target, (long long)devices - 1);
        // In the in-place form each slice has its own pairs.
        if (permute->slice_sizes.count > 0) continue;
        HLO_VERIFY_FAIL_IF(hlo_int_map_find(&targets, (uint64_t)pair.target), "two pairs send to device %lld",
                           (long long)pair.target);
        HLO_VERIFY_FAIL_IF(hlo_int_map_find(&sources, (uint64_t)pair.source), "two pairs send from device %lld",
                           (long long)pair.source);
        hlo_int_map_set(verifier->arena, &targets, (uint64_t)pair.target, 1);
        hlo_int_map_set(verifier->arena, &sources, (uint64_t)pair.source, 1);
    }
    return HLO_SUCCESS;
}

// Checks that enumerated values have names.
static HloStatus check_enums(const HloInstruction *instruction, HloFamily family) {
    assert(family == HLO_FAMILY_None || instruction->attributes);
    const HloFamilyInfo *info = hlo_family_info(family);
    for (int32_t i = 0; i < info->field_count; i++) {
        const HloField *field = &info->fields[i];
        if (field->kind != HLO_FIELD_ENUM) continue;
        int32_t value;
        memcpy(&value, (const char *)instruction->attributes + field->offset, sizeof(value));
        HLO_VERIFY_FAIL_IF(value < 0 || value >= field->enumeration->count || !field->enumeration->texts[value],
                           "%s=%d is not known", field->text, (int)value);
    }
    return HLO_SUCCESS;
}

// Checks that an op has no attribute that only others of its family have, and that no text could give it.
static HloStatus check_unset(const HloInstruction *instruction, HloFamily family) {
    const HloFamilyInfo *info = hlo_family_info(family);
    for (int32_t i = 0; i < info->field_count; i++) {
        if (hlo_field_is_unset(&info->fields[i], instruction->attributes)) continue;
        HLO_VERIFY_FAIL_IF(hlo_field_presence(instruction->opcode, i) == HLO_FIELD_FORBIDDEN,
                           "%s has no attribute '%s'", hlo_op_text(instruction->opcode), info->fields[i].text);
    }
    return HLO_SUCCESS;
}

// Checks that aliased results and operands exist and have the same shape. As in XLA, layouts may differ.
static HloStatus check_aliasing(HloVerifier *verifier, const HloInstruction *instruction, HloAliases aliasing) {
    for (int64_t i = 0; i < aliasing.count; i++) {
        const HloAlias *alias = &aliasing.items[i];
        const bool known = alias->operand >= 0 && alias->operand < instruction->operand_count;
        const HloShape *output = hlo_shape_at(instruction->shape, alias->output_index);
        const HloShape *input =
            known ? hlo_shape_at(instruction->operands[alias->operand]->shape, alias->operand_index) : NULL;
        HLO_VERIFY_FAIL_IF(!output, "output_to_operand_aliasing %lld names an output that does not exist",
                           (long long)i);
        HLO_VERIFY_FAIL_IF(!input,
                           "output_to_operand_aliasing %lld names operand %lld or a part of it that does not exist",
                           (long long)i, (long long)alias->operand);
        HLO_VERIFY_FAIL_IF(!hlo_shape_equal(output, input, HLO_COMPARE_IGNORE_LAYOUT),
                           "output_to_operand_aliasing %lld aliases output %s to %s, which has a different shape",
                           (long long)i, hlo_verify_shape_text(verifier, output),
                           hlo_verify_shape_text(verifier, input));
    }
    return HLO_SUCCESS;
}

// Checks the channel id of a transfer, which connects it to its other end: a done has the channel id of its start, and
// like it goes to the host or to a device.
static HloStatus check_channel(const HloInstruction *instruction) {
    const int64_t channel = HLO_ATTRIBUTES(instruction, Transfer)->channel_id;
    HLO_VERIFY_FAIL_IF(channel < 1, "%s needs a channel_id of at least 1", hlo_op_text(instruction->opcode));
    const HloInstruction *start = instruction->operand_count > 0 ? instruction->operands[0] : NULL;
    const bool ends = hlo_is(instruction, HLO_OP_SEND_DONE) || hlo_is(instruction, HLO_OP_RECV_DONE);
    if (!ends || !start || hlo_op_info(start->opcode)->family != HLO_FAMILY_Transfer) return HLO_SUCCESS;
    const int64_t other = HLO_ATTRIBUTES(start, Transfer)->channel_id;
    HLO_VERIFY_FAIL_IF(
        HLO_ATTRIBUTES(instruction, Transfer)->is_host_transfer != HLO_ATTRIBUTES(start, Transfer)->is_host_transfer,
        "only one of %s and its %s has is_host_transfer=true", hlo_op_text(instruction->opcode),
        hlo_op_text(start->opcode));
    HLO_VERIFY_FAIL_IF(channel != other, "%s has channel_id=%lld, its %s has %lld", hlo_op_text(instruction->opcode),
                       (long long)channel, hlo_op_text(start->opcode), (long long)other);
    return HLO_SUCCESS;
}

HloStatus hlo_verify_keys(HloKeyValues attributes) {
    for (int64_t i = 0; i < attributes.count; i++) {
        const char *key = attributes.items[i].key;
        HLO_VERIFY_FAIL_IF(!hlo_is_attribute_key(key), "frontend attribute \"%s\" has a name that HLO text cannot hold",
                           key);
    }
    return HLO_SUCCESS;
}

// Checks the tolerances that a transcendental op asks for.
static HloStatus check_accuracy(const HloAccuracy *accuracy) {
    if (!accuracy || !accuracy->has_tolerance) return HLO_SUCCESS;
    HLO_VERIFY_FAIL_IF(!(accuracy->atol >= 0 && accuracy->rtol >= 0 && accuracy->ulps >= 0),
                       "result_accuracy has a tolerance that is negative or not a number");
    return HLO_SUCCESS;
}

static HloStatus check_replication(const HloInstruction *parameter) {
    const int64_t count = HLO_ATTRIBUTES(parameter, Parameter)->replication.count;
    const int64_t leaves = hlo_shape_leaf_count(parameter->shape);
    HLO_VERIFY_FAIL_IF(count > 0 && count != leaves,
                       "parameter_replication has %lld elements, but the parameter has %lld arrays", (long long)count,
                       (long long)leaves);
    return HLO_SUCCESS;
}

// Checks XLA's rules for a call that represents an operation of another dialect.
static HloStatus check_composite(const HloInstruction *call) {
    if (!HLO_ATTRIBUTES(call, Call)->is_composite) return HLO_SUCCESS;
    const char *name = hlo_instruction_frontend_attribute(call, "composite.name");
    const char *version = hlo_instruction_frontend_attribute(call, "composite.version");
    const char *attributes = hlo_instruction_frontend_attribute(call, "composite.attributes");
    int64_t number = 0;
    HLO_VERIFY_FAIL_IF(!name || !*name, "a call with is_composite=true needs the frontend attribute composite.name");
    HLO_VERIFY_FAIL_IF(attributes && !*attributes, "the frontend attribute composite.attributes is empty");
    for (const char *c = version; c && *c; c++) {
        const bool is_digit = *c >= '0' && *c <= '9';
        if (is_digit && number <= INT32_MAX) number = number * 10 + (*c - '0');
        HLO_VERIFY_FAIL_IF(!is_digit || number > INT32_MAX,
                           "composite.version must be an integer of at least 0, not %s", version);
    }
    HLO_VERIFY_FAIL_IF(version && !*version, "the frontend attribute composite.version is empty");
    return HLO_SUCCESS;
}

static HloStatus check_prefetch(const HloInstruction *start) {
    const int64_t index = HLO_ATTRIBUTES(start, CopyStart)->cross_program_prefetch_index;
    HLO_VERIFY_FAIL_IF(index != HLO_ABSENT && (index < INT32_MIN || index > INT32_MAX),
                       "cross_program_prefetch_index %lld does not fit in 32 bits", (long long)index);
    return HLO_SUCCESS;
}

HloStatus hlo_verify_attributes(HloVerifier *verifier, const HloInstruction *instruction) {
    HLO_TRY(hlo_verify_keys(instruction->frontend_attributes));
    HloFamily family = hlo_op_info(instruction->opcode)->family;
    HLO_VERIFY_FAIL_IF(family != HLO_FAMILY_None && !instruction->attributes, "%s has no attributes",
                       hlo_op_text(instruction->opcode));
    HLO_TRY(check_enums(instruction, family));
    HLO_TRY(check_unset(instruction, family));
    if (family == HLO_FAMILY_Collective) return check_groups(verifier, instruction);
    if (family == HLO_FAMILY_Permute) return check_pairs(verifier, instruction);
    if (family == HLO_FAMILY_Transfer) return check_channel(instruction);
    if (family == HLO_FAMILY_Accuracy) return check_accuracy(HLO_ATTRIBUTES(instruction, Accuracy)->accuracy);
    if (family == HLO_FAMILY_Parameter) return check_replication(instruction);
    if (family == HLO_FAMILY_CopyStart) return check_prefetch(instruction);
    if (family == HLO_FAMILY_Constant) {
        HLO_VERIFY_FAIL_IF(!HLO_ATTRIBUTES(instruction, Constant)->literal, "constant without a value");
    }
    if (family == HLO_FAMILY_Fusion) {
        return check_aliasing(verifier, instruction, HLO_ATTRIBUTES(instruction, Fusion)->aliasing);
    }
    if (family == HLO_FAMILY_Call) return check_composite(instruction);
    if (family != HLO_FAMILY_CustomCall) return HLO_SUCCESS;
    HLO_VERIFY_FAIL_IF(!HLO_ATTRIBUTES(instruction, CustomCall)->target, "custom call without a target");
    return check_aliasing(verifier, instruction, HLO_ATTRIBUTES(instruction, CustomCall)->aliasing);
}

// ---------------------------------------------------------------------------------------------------------------------
// Async pairs

// The op that ends an `opcode`; HLO_OPCODE_COUNT if it begins nothing that must end in the same computation.
static HloOpcode done_of(HloOpcode opcode) {
    switch (opcode) {
        case HLO_OP_ALL_GATHER_START: return HLO_OP_ALL_GATHER_DONE;
        case HLO_OP_ALL_REDUCE_START: return HLO_OP_ALL_REDUCE_DONE;
        case HLO_OP_COLLECTIVE_PERMUTE_START: return HLO_OP_COLLECTIVE_PERMUTE_DONE;
        case HLO_OP_COPY_START: return HLO_OP_COPY_DONE;
        case HLO_OP_ASYNC_START:
        case HLO_OP_ASYNC_UPDATE: return HLO_OP_ASYNC_DONE;
        default: return HLO_OPCODE_COUNT;
    }
}

static HloStatus check_start(const HloInstruction *start, HloOpcode done) {
    assert(done != HLO_OPCODE_COUNT && start->users.count > 0);
    HLO_VERIFY_FAIL_IF(start->users.count != 1, "%s must have one user, its %s, but has %lld",
                       hlo_op_text(start->opcode), hlo_op_text(done), (long long)start->users.count);
    HloOpcode user = start->users.items[0]->opcode;
    bool updates = done == HLO_OP_ASYNC_DONE && user == HLO_OP_ASYNC_UPDATE;
    HLO_VERIFY_FAIL_IF(user != done && !updates, "%s is used by %s, not by %s", hlo_op_text(start->opcode),
                       hlo_op_text(user), hlo_op_text(done));
    return HLO_SUCCESS;
}

HloStatus hlo_verify_async(HloVerifier *verifier, const HloInstruction *instruction) {
    (void)verifier;
    HloOpcode done = done_of(instruction->opcode);
    // Starts may also be passed through loops, tuples and calls; then the end is elsewhere.
    if (done != HLO_OPCODE_COUNT && instruction->users.count != 0 && !hlo_instruction_is_root(instruction)) {
        HloOpcode user = instruction->users.items[0]->opcode;
        if (user != HLO_OP_TUPLE) HLO_TRY(check_start(instruction, done));
    }
    bool ends = hlo_op_is(instruction->opcode, HLO_OP_IS_ASYNC_DONE) || instruction->opcode == HLO_OP_ASYNC_UPDATE;
    if (!ends) return HLO_SUCCESS;
    const HloInstruction *start = instruction->operands[0];
    bool carried = start->opcode == HLO_OP_GET_TUPLE_ELEMENT || start->opcode == HLO_OP_PARAMETER;
    HloOpcode expected = instruction->opcode == HLO_OP_ASYNC_UPDATE ? HLO_OP_ASYNC_DONE : instruction->opcode;
    HLO_VERIFY_FAIL_IF(!carried && done_of(start->opcode) != expected, "%s cannot be the done of %s",
                       hlo_op_text(instruction->opcode), hlo_op_text(start->opcode));
    return HLO_SUCCESS;
}
