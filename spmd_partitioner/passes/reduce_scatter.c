// SPDX-License-Identifier: Apache-2.0
// The pattern: dynamic-slice(all-reduce(x)) where device k of each group takes part k. Which part a
// device takes is found by evaluating the index for every device, so that any spelling of it is
// recognised.
//
//     %r = f32[64] all-reduce(%x), replica_groups=[1,4]<=[4]
//     %i = s32[] multiply(convert(partition-id), 16)         0, 16, 32, 48 on devices 0 to 3
//     %s = f32[16] dynamic-slice(%r, %i)
//     becomes  f32[16] reduce-scatter(%x), dimensions={0}: a quarter of the result, for half of the bytes
//
// Cost: at most STEPS for each device of the groups.
#include <assert.h>

#include "spmd_partitioner/chain.h"
#include "spmd_partitioner/passes/passes.h"

// An index as the partitioner writes it has some ten instructions. A program's own may use each of its values several
// times, and be walked once for each: what takes more steps than this is not recognised.
enum { DEPTH = 40, STEPS = 400 };

static bool evaluate(const HloInstruction *at, int64_t device, int depth, int *steps, int64_t *value);

// Evaluates a scalar integer instruction on one device; false where it is not a function of the device alone, and where
// it wraps round: 64-bit arithmetic agrees with the type's own only for numbers that the type can hold.
static bool value_on(const HloInstruction *at, int64_t device, int depth, int *steps, int64_t *value) {
    assert(device >= 0 && depth >= 0 && *steps >= 0);
    if (depth == DEPTH || *steps == 0 || !hlo_shape_is_array(at->shape) || hlo_shape_elements(at->shape) != 1)
        return false;
    --*steps;
    return evaluate(at, device, depth, steps, value) && hlo_type_holds(at->shape->type, *value);
}

// By opcode, without a look at the type.
static bool evaluate(const HloInstruction *at, int64_t device, int depth, int *steps, int64_t *value) {
    int64_t a, b;
    switch (at->opcode) {
        case HLO_OP_PARTITION_ID: *value = device; return true;
        case HLO_OP_CONSTANT:
            if (!hlo_type_is_integer(at->shape->type) || hlo_constant_literal(at)->elided) return false;
            *value = hlo_literal_get_int64(hlo_constant_literal(at), 0);
            return true;
        case HLO_OP_CONVERT:
        case HLO_OP_RESHAPE:
        case HLO_OP_BITCAST:
        case HLO_OP_COPY: return value_on(at->operands[0], device, depth + 1, steps, value);
        case HLO_OP_DYNAMIC_SLICE: {
            const HloInstruction *table = at->operands[0];
            if (!hlo_is(table, HLO_OP_CONSTANT) || table->shape->rank != 1 || !hlo_type_is_integer(table->shape->type))
                return false;
            if (!value_on(at->operands[1], device, depth + 1, steps, &a) || a < 0 || a >= table->shape->dims[0])
                return false;
            if (hlo_constant_literal(table)->elided) return false;
            *value = hlo_literal_get_int64(hlo_constant_literal(table), a);
            return true;
        }
        default: break;
    }
    if (at->operand_count != 2) return false;
    if (!value_on(at->operands[0], device, depth + 1, steps, &a) ||
        !value_on(at->operands[1], device, depth + 1, steps, &b))
        return false;
    switch (at->opcode) {
        case HLO_OP_ADD: return !__builtin_add_overflow(a, b, value);
        case HLO_OP_SUBTRACT: return !__builtin_sub_overflow(a, b, value);
        case HLO_OP_MULTIPLY: return !__builtin_mul_overflow(a, b, value);
        case HLO_OP_DIVIDE: *value = b > 0 ? a / b : 0; return b > 0 && a >= 0;
        case HLO_OP_REMAINDER: *value = b > 0 ? a % b : 0; return b > 0 && a >= 0;
        default: return false;
    }
}

// True if device k of each group starts at part k along `dim`.
static bool takes_own_part(const HloInstruction *slice, const HloInstruction *reduce, int64_t dim, HloArena *scratch) {
    assert(dim >= 0 && dim < reduce->shape->rank);
    const HloCollectiveAttributes *attributes = HLO_ATTRIBUTES(reduce, Collective);
    const int64_t partitions = slice->parent->module->num_partitions;
    int64_t devices = partitions * slice->parent->module->replica_count, count;
    const HloInts *groups;
    if (!attributes->channel_id || !attributes->use_global_device_ids || !attributes->replica_groups) return false;
    HloStatus status = hlo_replica_groups_expand(attributes->replica_groups, devices, scratch, &groups, &count);
    hlo_status_free(status);
    if (status) return false;
    for (int64_t g = 0; g < count; g++) {
        if (slice->shape->dims[dim] * groups[g].count != reduce->shape->dims[dim]) return false;
        for (int64_t k = 0; k < groups[g].count; k++) {
            int64_t start;
            int steps = STEPS;
            if (!value_on(slice->operands[dim + 1], groups[g].items[k] % partitions, 0, &steps, &start)) return false;
            if (start != k * slice->shape->dims[dim]) return false;
        }
    }
    return true;
}

// The slice's user gets the reduce-scatter; slice and all-reduce go with whatever only they needed.
// Exactly one dimension may be sliced, and into as many equal parts as the group has devices.
static void form_one(HloInstruction *reduce, HloArena *scratch) {
    HloInstruction *slice = reduce->users.items[0];
    if (!hlo_is(slice, HLO_OP_DYNAMIC_SLICE) || slice->operands[0] != reduce) return;
    int64_t dim = spmd_sliced_dim(slice->shape, reduce->shape);
    if (dim < 0 || !takes_own_part(slice, reduce, dim, scratch)) return;
    HloCollectiveAttributes attributes = *HLO_ATTRIBUTES(reduce, Collective);
    attributes.dimensions = hlo_ints(reduce->parent->module->arena, &dim, 1);
    HloInstruction *made = hlo_instruction_new(reduce->parent, HLO_OP_REDUCE_SCATTER, slice->shape, reduce->operands, 1,
                                               &attributes, NULL);
    hlo_instruction_set_called(made, reduce->called, reduce->called_count);
    hlo_instruction_copy_annotations(made, reduce);
    made->sharding = NULL;
    hlo_instruction_move_before(made, reduce);
    hlo_instruction_replace_uses(slice, made);
    spmd_remove_unused(slice);
}

// The slice must be the all-reduce's only user; otherwise every device needs the whole array anyway.
void spmd_form_reduce_scatters(HloModule *module, HloArena *scratch) {
    for (int64_t c = 0; c < module->computations.count; c++) {
        for (HloInstruction *at = module->computations.items[c]->first, *next; at; at = next) {
            next = at->next;
            bool candidate = hlo_is(at, HLO_OP_ALL_REDUCE) && at->operand_count == 1 && hlo_shape_is_array(at->shape) &&
                             at->users.count == 1 && at != at->parent->root && at->users.items[0] != at->parent->root;
            if (candidate) form_one(at, scratch);
        }
    }
}
