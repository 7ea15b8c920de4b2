// SPDX-License-Identifier: Apache-2.0
// Builder: shape and data movement, gather and scatter, transfers, random numbers. These functions supply the
// attributes that callers may omit: strides of one, empty masks, the trailing dimensions of a broadcast (see
// builder.h).
#include "hlo/ir/build/internal.h"

// Records an error if an array has more dimensions than the convenience functions support.
static bool too_many(HloBuilder *builder, int64_t rank) {
    if (rank <= HLO_MAXIMUM_RANK) return false;
    hlo_builder_fail(builder, hlo_error(HLO_INVALID_ARGUMENT, "too many dimensions (%lld)", (long long)rank));
    return true;
}

// Builds an op with given sizes and the element type of its first operand.
static HloInstruction *sized(HloBuilder *builder, HloOpcode opcode, HloInstruction *x, HloInts dims,
                             const void *attributes) {
    if (!x) return NULL;
    return hlo_build(builder, &(HloBuildRequest){.opcode = opcode,
                                                 .operands = &x,
                                                 .operand_count = 1,
                                                 .attributes = attributes,
                                                 .dims = dims,
                                                 .has_dims = true});
}

HloInstruction *hlo_build_broadcast(HloBuilder *builder, HloInstruction *x, HloInts dims, HloInts mapping) {
    return sized(builder, HLO_OP_BROADCAST, x, dims, &(HloDimensionsAttributes){mapping});
}

HloInstruction *hlo_build_broadcast_to(HloBuilder *builder, HloInstruction *x, HloInts dims) {
    if (!x || too_many(builder, dims.count)) return NULL;
    int64_t mapping[HLO_MAXIMUM_RANK], kept[HLO_MAXIMUM_RANK], count = 0, rank = x->shape->rank;
    if (rank > dims.count) {
        hlo_builder_fail(builder, hlo_error(HLO_INVALID_ARGUMENT, "broadcast: %s of rank %lld to rank %lld", x->name,
                                            (long long)rank, (long long)dims.count));
        return NULL;
    }
    for (int64_t i = 0; i < rank; i++) {
        int64_t to = dims.count - rank + i;
        if (x->shape->dims[i] == 1 && dims.items[to] != 1) continue;
        kept[count] = x->shape->dims[i];
        mapping[count++] = to;
    }
    if (count < rank) x = hlo_build_reshape(builder, x, (HloInts){kept, count});
    bool same = x && count == dims.count && hlo_ints_equal((HloInts){kept, count}, dims);
    return same ? x : hlo_build_broadcast(builder, x, dims, (HloInts){mapping, count});
}

HloInstruction *hlo_build_spread(HloBuilder *builder, HloInstruction *reduced, HloInts dims, HloInts reduced_dims) {
    int64_t mapping[HLO_MAXIMUM_RANK], count = 0;
    for (int64_t i = 0; i < dims.count; i++)
        if (!hlo_ints_contain(reduced_dims, i)) mapping[count++] = i;
    return hlo_build_broadcast(builder, reduced, dims, (HloInts){mapping, count});
}

HloInstruction *hlo_build_concatenate(HloBuilder *builder, HloInstruction *const *operands, int64_t count,
                                      int64_t dimension) {
    return hlo_build_n(builder, HLO_OP_CONCATENATE, operands, count, &(HloDimensionsAttributes){HLO_DIMS(dimension)});
}

HloInstruction *hlo_build_reshape(HloBuilder *builder, HloInstruction *x, HloInts dims) {
    return sized(builder, HLO_OP_RESHAPE, x, dims, &(HloReshapeAttributes){HLO_ABSENT});
}

HloInstruction *hlo_build_dynamic_reshape(HloBuilder *builder, HloInstruction *x, HloInstruction *const *sizes,
                                          HloInts bounds, const bool *dynamic) {
    if (!x || too_many(builder, bounds.count)) return NULL;
    HloInstruction *operands[HLO_MAXIMUM_RANK + 1] = {x};
    for (int64_t i = 0; i < bounds.count; i++) operands[i + 1] = sizes[i];
    HloShape shape = {.type = x->shape->type, .rank = (int32_t)bounds.count, .dims = bounds.items, .dynamic = dynamic};
    return hlo_build(builder, &(HloBuildRequest){.opcode = HLO_OP_DYNAMIC_RESHAPE,
                                                 .operands = operands,
                                                 .operand_count = bounds.count + 1,
                                                 .attributes = &(HloReshapeAttributes){HLO_ABSENT},
                                                 .shape = &shape});
}

HloInstruction *hlo_build_transpose(HloBuilder *builder, HloInstruction *x, HloInts permutation) {
    return hlo_build_1(builder, HLO_OP_TRANSPOSE, x, &(HloDimensionsAttributes){permutation});
}

HloInstruction *hlo_build_reverse(HloBuilder *builder, HloInstruction *x, HloInts dimensions) {
    return hlo_build_1(builder, HLO_OP_REVERSE, x, &(HloDimensionsAttributes){dimensions});
}

HloInstruction *hlo_build_slice(HloBuilder *builder, HloInstruction *x, HloInts starts, HloInts limits,
                                HloInts strides) {
    int64_t ones[HLO_MAXIMUM_RANK];
    if (too_many(builder, starts.count)) return NULL;
    for (int64_t i = 0; i < starts.count; i++) ones[i] = 1;
    if (strides.count == 0) strides = (HloInts){ones, starts.count};
    return hlo_build_1(builder, HLO_OP_SLICE, x, &(HloSliceAttributes){starts, limits, strides});
}

HloInstruction *hlo_build_dynamic_slice(HloBuilder *builder, HloInstruction *x, HloInstruction *const *starts,
                                        HloInts sizes) {
    if (!x || too_many(builder, x->shape->rank)) return NULL;
    HloInstruction *operands[HLO_MAXIMUM_RANK + 1] = {x};
    for (int64_t i = 0; i < x->shape->rank; i++) operands[i + 1] = starts[i];
    return hlo_build_n(builder, HLO_OP_DYNAMIC_SLICE, operands, x->shape->rank + 1,
                       &(HloDynamicSliceAttributes){sizes});
}

HloInstruction *hlo_build_dynamic_update_slice(HloBuilder *builder, HloInstruction *x, HloInstruction *update,
                                               HloInstruction *const *starts) {
    if (!x || too_many(builder, x->shape->rank)) return NULL;
    HloInstruction *operands[HLO_MAXIMUM_RANK + 2] = {x, update};
    for (int64_t i = 0; i < x->shape->rank; i++) operands[i + 2] = starts[i];
    return hlo_build_n(builder, HLO_OP_DYNAMIC_UPDATE_SLICE, operands, x->shape->rank + 2, NULL);
}

HloInstruction *hlo_build_pad(HloBuilder *builder, HloInstruction *x, HloInstruction *value, HloInts low, HloInts high,
                              HloInts interior) {
    HloPadDimension dims[HLO_MAXIMUM_RANK] = {{0, 0, 0}};
    bool fits = low.count == high.count && (interior.count == 0 || interior.count == low.count);
    if (!fits) hlo_builder_fail(builder, hlo_error(HLO_INVALID_ARGUMENT, "pad: lists of different lengths"));
    if (!fits || too_many(builder, low.count)) return NULL;
    for (int64_t i = 0; i < low.count; i++) {
        dims[i] = (HloPadDimension){low.items[i], high.items[i], interior.count ? interior.items[i] : 0};
    }
    return hlo_build_2(builder, HLO_OP_PAD, x, value, &(HloPadAttributes){{dims, low.count}});
}

HloInstruction *hlo_build_get_dimension_size(HloBuilder *builder, HloInstruction *x, int64_t dimension) {
    return hlo_build_1(builder, HLO_OP_GET_DIMENSION_SIZE, x, &(HloDimensionsAttributes){HLO_DIMS(dimension)});
}

HloInstruction *hlo_build_set_dimension_size(HloBuilder *builder, HloInstruction *x, HloInstruction *size,
                                             int64_t dimension) {
    return hlo_build_2(builder, HLO_OP_SET_DIMENSION_SIZE, x, size, &(HloDimensionsAttributes){HLO_DIMS(dimension)});
}

HloInstruction *hlo_build_gather(HloBuilder *builder, HloInstruction *x, HloInstruction *indices,
                                 const HloGatherAttributes *attributes) {
    return hlo_build_2(builder, HLO_OP_GATHER, x, indices, attributes);
}

enum { MAXIMUM_ARRAYS = 64 };  // the most for one scatter or reduction built by these functions

HloInstruction *hlo_build_scatter(HloBuilder *builder, HloInstruction *const *arrays, HloInstruction *indices,
                                  HloInstruction *const *updates, int64_t count, const HloScatterAttributes *attributes,
                                  HloComputation *combiner) {
    HloInstruction *operands[2 * MAXIMUM_ARRAYS + 1];
    if (too_many(builder, count)) return NULL;
    for (int64_t i = 0; i < count; i++) {
        operands[i] = arrays[i];
        operands[count + 1 + i] = updates[i];
    }
    operands[count] = indices;
    return hlo_build_calling(builder, HLO_OP_SCATTER, operands, 2 * count + 1, attributes, combiner);
}

// ---------------------------------------------------------------------------------------------------------------------
// Transfers and random numbers

HloInstruction *hlo_build_copy_start(HloBuilder *builder, HloInstruction *x) {
    return hlo_build_1(builder, HLO_OP_COPY_START, x, &(HloCopyStartAttributes){HLO_ABSENT});
}

HloInstruction *hlo_build_copy_done(HloBuilder *builder, HloInstruction *start) {
    return hlo_build_1(builder, HLO_OP_COPY_DONE, start, NULL);
}

HloInstruction *hlo_build_send(HloBuilder *builder, HloInstruction *x, HloInstruction *token, int64_t channel_id,
                               bool is_host_transfer) {
    return hlo_build_2(builder, HLO_OP_SEND, x, token, &(HloTransferAttributes){channel_id, is_host_transfer});
}

// Builds a -done op with the attributes of the start that it ends.
static HloInstruction *transfer_done(HloBuilder *builder, HloOpcode opcode, HloInstruction *start) {
    bool has_attributes = start && hlo_op_info(start->opcode)->family == HLO_FAMILY_Transfer;
    return hlo_build_1(builder, opcode, start, has_attributes ? start->attributes : NULL);
}

HloInstruction *hlo_build_send_done(HloBuilder *builder, HloInstruction *send) {
    return transfer_done(builder, HLO_OP_SEND_DONE, send);
}

HloInstruction *hlo_build_recv(HloBuilder *builder, HloInstruction *token, const HloShape *shape, int64_t channel_id,
                               bool is_host_transfer) {
    HloTransferAttributes attributes = {channel_id, is_host_transfer};
    return hlo_build(
        builder,
        &(HloBuildRequest){
            .opcode = HLO_OP_RECV, .operands = &token, .operand_count = 1, .attributes = &attributes, .shape = shape});
}

HloInstruction *hlo_build_recv_done(HloBuilder *builder, HloInstruction *recv) {
    return transfer_done(builder, HLO_OP_RECV_DONE, recv);
}

HloInstruction *hlo_build_infeed(HloBuilder *builder, HloInstruction *token, const HloShape *shape,
                                 const char *config) {
    return hlo_build(builder, &(HloBuildRequest){.opcode = HLO_OP_INFEED,
                                                 .operands = &token,
                                                 .operand_count = 1,
                                                 .attributes = &(HloInfeedAttributes){config},
                                                 .shape = shape});
}

HloInstruction *hlo_build_outfeed(HloBuilder *builder, HloInstruction *x, HloInstruction *token, const char *config) {
    return hlo_build_2(builder, HLO_OP_OUTFEED, x, token, &(HloOutfeedAttributes){x ? x->shape : NULL, config});
}

HloInstruction *hlo_build_rng(HloBuilder *builder, int32_t distribution, HloInstruction *a, HloInstruction *b,
                              HloInts dims) {
    HloInstruction *operands[] = {a, b};
    if (!a || !b) return NULL;
    return hlo_build(builder, &(HloBuildRequest){.opcode = HLO_OP_RNG,
                                                 .operands = operands,
                                                 .operand_count = 2,
                                                 .attributes = &(HloRngAttributes){distribution},
                                                 .dims = dims,
                                                 .has_dims = true});
}

HloInstruction *hlo_build_rng_bit_generator(HloBuilder *builder, HloInstruction *state, int32_t algorithm, HloType type,
                                            HloInts dims) {
    if (!state) return NULL;
    HloShape bits = {.type = type, .rank = (int32_t)dims.count, .dims = dims.items};
    const HloShape *elements[] = {state->shape, &bits};
    HloShape shape = {.type = HLO_TUPLE, .element_count = 2, .elements = elements};
    hlo_shape_sum_up(builder->scratch, &shape);
    HloStatus status = hlo_shape_check_dims(type, dims.items, dims.count);
    if (status) hlo_builder_fail(builder, status);
    return hlo_build(builder, &(HloBuildRequest){.opcode = HLO_OP_RNG_BIT_GENERATOR,
                                                 .operands = &state,
                                                 .operand_count = 1,
                                                 .attributes = &(HloRngBitsAttributes){algorithm},
                                                 .shape = &shape});
}

HloInstruction *hlo_build_rng_state(HloBuilder *builder, int64_t delta) {
    return hlo_build_n(builder, HLO_OP_RNG_GET_AND_UPDATE_STATE, NULL, 0, &(HloRngStateAttributes){delta});
}
