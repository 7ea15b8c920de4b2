// SPDX-License-Identifier: Apache-2.0
// Derivatives of ragged-all-to-all and collective-broadcast, and ragged-all-to-all mapped over an axis.
#include "hlo/ir/collective.h"
#include "hlo/transform/batch.h"
#include "hlo/transform/structure.h"

// ---------------------------------------------------------------------------------------------------------------------
// ragged-all-to-all: operands input, output, input offsets, send sizes, output offsets, receive sizes

// Linear in the input and in the output, whose other rows pass through.
void hlo_jvp_ragged_all_to_all(HloJvp *j, HloInstruction **out) {
    HloInstruction *operands[6];
    for (int64_t i = 0; i < 6; i++) operands[i] = i < 2 ? hlo_jvp_tangent_or_zeros(j, i) : hlo_jvp_operand(j, i);
    out[0] = hlo_jvp_apply(j, operands, 6);
}

// What each device has for this one, in a list with entries for each device.
static HloInstruction *exchanged(HloTransposer *t, HloInstruction *list) {
    HloCollectiveAttributes attributes = *HLO_ATTRIBUTES(t->instruction, Collective);
    attributes.dimensions = HLO_DIMS(0);
    if (attributes.channel_id > 0) attributes.channel_id = hlo_transposer_channel(t);
    return hlo_build_all_to_all(t->b, &list, 1, &attributes);
}

// Whether a row of the result was received: pred[rows].
static HloInstruction *received_rows(HloBuilder *b, HloInstruction *starts, HloInstruction *sizes, int64_t rows) {
    if (b->status) return NULL;
    const HloInts dims = HLO_DIMS(rows, starts->shape->dims[0]);
    HloInstruction *row = hlo_build_iota(b, starts->shape->type, dims, 0);
    HloInstruction *from = hlo_build_broadcast(b, starts, dims, HLO_DIMS(1));
    HloInstruction *to = hlo_build_broadcast(b, hlo_build_add(b, starts, sizes), dims, HLO_DIMS(1));
    HloInstruction *in = hlo_build_and(b, hlo_build_compare(b, row, from, HLO_ComparisonDirection_GE),
                                       hlo_build_compare(b, row, to, HLO_ComparisonDirection_LT));
    return hlo_build_reduce_op(b, HLO_OP_OR, in, HLO_DIMS(1));
}

// The rows go back where they came from, for which the devices tell each other their offsets. As in JAX's rule, the
// rows that a device sends to several others are different ones: of a row that is sent twice one cotangent would be
// lost.
void hlo_transpose_ragged_all_to_all(HloTransposer *t, HloInstruction *cotangent) {
    HloBuilder *b = t->b;
    HloInstruction *received = hlo_transposer_residual(t, 5), *at = exchanged(t, hlo_transposer_residual(t, 4));
    if (hlo_transposer_is_linear(t, 0)) {
        HloInstruction *operands[] = {cotangent,
                                      hlo_transform_zeros(b, t->instruction->operands[0]->shape),
                                      at,
                                      received,
                                      exchanged(t, hlo_transposer_residual(t, 2)),
                                      hlo_transposer_residual(t, 3)};
        HloCollectiveAttributes attributes = *HLO_ATTRIBUTES(t->instruction, Collective);
        if (attributes.channel_id > 0) attributes.channel_id = hlo_transposer_channel(t);
        hlo_transposer_give(t, 0, hlo_build_ragged_all_to_all(b, operands, &attributes));
    }
    if (hlo_transposer_is_linear(t, 1)) {
        HloInstruction *rows = received_rows(b, at, received, cotangent->shape->dims[0]);
        HloInstruction *taken = hlo_build_broadcast(b, rows, hlo_build_dims(cotangent), HLO_DIMS(0));
        hlo_transposer_give(t, 1, hlo_build_select(b, taken, hlo_build_splat_like(b, cotangent, 0), cotangent));
    }
}

// Rows of all items, one item after the other.
static HloInstruction *all_rows(HloBatch *v, int64_t index) {
    HloInstruction *x = hlo_batch_operand(v, index);
    int64_t dims[HLO_MAXIMUM_RANK];
    if (!x) return NULL;
    for (int32_t i = 1; i < x->shape->rank; i++) dims[i - 1] = x->shape->dims[i];
    dims[0] *= v->size;
    return hlo_build_reshape(v->b, x, (HloInts){dims, x->shape->rank - 1});
}

// The entries of all items for one device are side by side; item i begins at row i * `rows`.
static HloInstruction *all_entries(HloBatch *v, int64_t index, int64_t rows) {
    HloInstruction *x = hlo_batch_operand(v, index);
    if (!x) return NULL;
    HloInstruction *first = hlo_build_iota(v->b, x->shape->type, hlo_build_dims(x), 0);
    if (rows) x = hlo_build_add(v->b, x, hlo_build_with_number(v->b, hlo_build_mul, first, (double)rows));
    HloInstruction *turned = hlo_build_transpose(v->b, x, HLO_DIMS(1, 0));
    return hlo_build_reshape(v->b, turned, HLO_DIMS(v->size * v->old->operands[index]->shape->dims[0]));
}

void hlo_batch_ragged_all_to_all(HloBatch *v, HloInstruction **out) {
    const HloShape *input = v->old->operands[0]->shape, *output = v->old->operands[1]->shape;
    if (hlo_batch_is_over_axis(v, v->old) || v->old->operands[2]->shape->rank != 1) {
        hlo_batch_refused(v, out);
        return;
    }
    HloInstruction *operands[] = {all_rows(v, 0),
                                  all_rows(v, 1),
                                  all_entries(v, 2, input->dims[0]),
                                  all_entries(v, 3, 0),
                                  all_entries(v, 4, output->dims[0]),
                                  all_entries(v, 5, 0)};
    if (v->b->status) return;
    HloInstruction *result = hlo_build_ragged_all_to_all(v->b, operands, HLO_ATTRIBUTES(v->old, Collective));
    out[0] = hlo_build_reshape(v->b, result, hlo_batch_prepend(v, hlo_shape_dims(output), v->size));
}

// ---------------------------------------------------------------------------------------------------------------------
// collective-broadcast

// pred[]: whether this device is the first of a group, whose value the others receive. The lists are those that the op
// names: devices that it leaves out receive zeros.
static HloInstruction *is_source(HloTransposer *t, const HloInts *groups, int64_t count, int64_t numbers) {
    HloBuilder *b = t->b;
    const bool partitions = hlo_group_mode_of(t->instruction) == HLO_GROUPS_OF_PARTITIONS;
    uint8_t *first = HLO_ARENA_NEW(t->scratch, uint8_t, numbers + 1);
    for (int64_t g = 0; g < count; g++) first[groups[g].items[0]] = 1;
    HloInstruction *table = hlo_build_array(b, HLO_PRED, HLO_DIMS(numbers), first);
    HloInstruction *number = partitions ? hlo_build_partition_id(b) : hlo_build_replica_id(b);
    return hlo_build_reshape(b, hlo_build_dynamic_slice(b, table, &number, HLO_DIMS(1)), HLO_DIMS());
}

// The source gets the sum over its group.
void hlo_transpose_collective_broadcast(HloTransposer *t, HloInstruction *cotangent) {
    const HloInstruction *i = t->instruction;
    const HloModule *module = t->b->module;
    const HloCollectiveAttributes *old = HLO_ATTRIBUTES(i, Collective);
    const bool partitions = hlo_group_mode_of(i) == HLO_GROUPS_OF_PARTITIONS;
    const int64_t numbers = partitions ? module->num_partitions : module->replica_count;
    const HloInts *groups = NULL;
    int64_t count = 0, named = 0;
    if (partitions && module->replica_count != 1) {
        hlo_builder_fail(t->b,
                         hlo_error(HLO_UNIMPLEMENTED,
                                   "%s: there is no reverse derivative of a collective-broadcast among partitions "
                                   "of several replicas",
                                   i->name));
        return;
    }
    HloStatus status = hlo_replica_groups_complete(old->replica_groups, numbers, t->scratch, &groups, &count, &named);
    if (status) {
        hlo_builder_fail(t->b, status);
        return;
    }
    HloCollectiveAttributes attributes = {.replica_groups = hlo_replica_groups_list(t->scratch, groups, count)};
    if (partitions) {
        attributes.channel_id = hlo_transposer_channel(t);
        attributes.use_global_device_ids = true;
    }
    HloInstruction *sum = hlo_build_all_reduce_op(t->b, HLO_OP_ADD, cotangent, &attributes);
    HloInstruction *source = is_source(t, groups, named, numbers);
    if (!sum || !source) return;
    HloInstruction *here = hlo_build_broadcast(t->b, source, hlo_build_dims(sum), HLO_DIMS());
    hlo_transposer_give(t, 0, hlo_build_select(t->b, here, sum, hlo_build_splat_like(t->b, sum, 0)));
}
