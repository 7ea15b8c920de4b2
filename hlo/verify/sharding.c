// SPDX-License-Identifier: Apache-2.0
// Checks shardings: the product of the tiles is the number of listed devices, and the tiles fit the shape.
//
// These are the properties that the partitioner assumes: counts that agree and axes that exist. Whether a sharding
// makes sense for an op is checked by the partitioner.
#include <assert.h>

#include "hlo/verify/internal.h"

// Product of positive numbers; 0 if one is not positive, or if the product exceeds 2^40 (more devices than any machine
// has).
static int64_t product(HloInts ints) {
    int64_t total = 1;
    for (int64_t i = 0; i < ints.count; i++) {
        if (ints.items[i] < 1 || __builtin_mul_overflow(total, ints.items[i], &total)) return 0;
        if (total > INT64_C(1) << 40) return 0;
    }
    return total;
}

// Checks that numbers are not negative and that none is there twice; `what` the sharding does with one, for messages.
static HloStatus check_each_once(HloVerifier *verifier, HloInts devices, const char *what) {
    HloIntMap seen = {0};
    for (int64_t i = 0; i < devices.count; i++) {
        HLO_VERIFY_FAIL_IF(devices.items[i] < 0, "the sharding %s %lld", what, (long long)devices.items[i]);
        HLO_VERIFY_FAIL_IF(hlo_int_map_find(&seen, (uint64_t)devices.items[i]), "the sharding %s %lld twice", what,
                           (long long)devices.items[i]);
        hlo_int_map_set(verifier->arena, &seen, (uint64_t)devices.items[i], 1);
    }
    return HLO_SUCCESS;
}

static HloStatus check_tiled(HloVerifier *verifier, const HloSharding *sharding, const HloShape *shape) {
    assert(sharding->kind == HLO_SHARDING_TILED);
    int64_t tiles = product(sharding->tile_dims);
    int64_t trailing = sharding->subgroup_count ? sharding->subgroup_count : sharding->last_tile_dim_replicate;
    int64_t rank = sharding->tile_dims.count - trailing;
    HLO_VERIFY_FAIL_IF(tiles == 0, "the sharding has an empty or excessively large tiling");
    HLO_VERIFY_FAIL_IF(shape && hlo_shape_is_array(shape) && rank != shape->rank,
                       "the sharding tiles %lld dimensions, but the shape is %s", (long long)rank,
                       hlo_verify_shape_text(verifier, shape));
    bool iota = sharding->iota.dims.count > 0;
    int64_t devices = iota ? product(sharding->iota.dims) : sharding->devices.count;
    HLO_VERIFY_FAIL_IF(devices != tiles, "the sharding has %lld tiles for %lld devices", (long long)tiles,
                       (long long)devices);
    if (!iota) return check_each_once(verifier, sharding->devices, "names device");
    int64_t permuted = sharding->iota.permutation.count;
    HLO_VERIFY_FAIL_IF(permuted && permuted != sharding->iota.dims.count,
                       "the sharding transposes %lld dimensions of %lld", (long long)permuted,
                       (long long)sharding->iota.dims.count);
    return check_each_once(verifier, sharding->iota.permutation, "transposes dimension");
}

// Checks that every axis reference exists, and that no axis (or part of one) is used twice: counted by size.
static HloStatus check_axes(const HloMesh *mesh, const HloAxisRefs *refs, int64_t *left) {
    assert(mesh && left);
    for (int64_t i = 0; i < refs->count; i++) {
        const HloAxisRef *ref = &refs->items[i];
        HLO_VERIFY_FAIL_IF(ref->axis < 0 || ref->axis >= mesh->axis_sizes.count, "the sharding names axis %lld of %lld",
                           (long long)ref->axis, (long long)mesh->axis_sizes.count);
        int64_t size = mesh->axis_sizes.items[ref->axis], part = ref->size ? ref->size : size;
        int64_t used = 0;
        bool fits = part >= 1 && ref->pre_size >= 0 && !__builtin_mul_overflow(ref->pre_size, part, &used);
        HLO_VERIFY_FAIL_IF(!fits || (used > 0 && size % used != 0), "axis %s of size %lld has no part (%lld)%lld",
                           mesh->axis_names[ref->axis], (long long)size, (long long)ref->pre_size, (long long)part);
        HLO_VERIFY_FAIL_IF(left[ref->axis] % part != 0 || left[ref->axis] / part < 1,
                           "the sharding uses axis %s more than once", mesh->axis_names[ref->axis]);
        left[ref->axis] /= part;
    }
    return HLO_SUCCESS;
}

static HloStatus check_named(HloVerifier *verifier, const HloNamedSharding *named, const HloShape *shape) {
    assert(named);
    if (named->mesh.is_maximal || named->whole != HLO_SHARDING_TILED) return HLO_SUCCESS;
    HLO_VERIFY_FAIL_IF(named->mesh.axis_sizes.count && product(named->mesh.axis_sizes) == 0,
                       "the mesh has an empty or excessively large axis");
    // Dimensions that are not listed are not sharded.
    HLO_VERIFY_FAIL_IF(shape && hlo_shape_is_array(shape) && named->dim_count > shape->rank,
                       "the sharding has %lld dimensions, but the shape is %s", (long long)named->dim_count,
                       hlo_verify_shape_text(verifier, shape));
    int64_t *left = HLO_ARENA_NEW(verifier->arena, int64_t, named->mesh.axis_sizes.count);
    for (int64_t i = 0; i < named->mesh.axis_sizes.count; i++) left[i] = named->mesh.axis_sizes.items[i];
    for (int64_t i = 0; i < named->dim_count; i++) HLO_TRY(check_axes(&named->mesh, &named->dims[i], left));
    HLO_TRY(check_axes(&named->mesh, &named->replicated, left));
    HLO_TRY(check_axes(&named->mesh, &named->unreduced, left));
    return check_axes(&named->mesh, &named->manual, left);
}

// `shape` NULL: of a value that is not known here, so that only the sharding itself is checked.
static HloStatus check_one(HloVerifier *verifier, const HloSharding *sharding, const HloShape *shape) {
    switch (sharding->kind) {
        case HLO_SHARDING_TILED: return check_tiled(verifier, sharding, shape);
        case HLO_SHARDING_NAMED: return check_named(verifier, sharding->named, shape);
        case HLO_SHARDING_MAXIMAL:
            HLO_VERIFY_FAIL_IF(sharding->maximal_device < 0, "the sharding names device %lld",
                               (long long)sharding->maximal_device);
            return HLO_SUCCESS;
        default: return HLO_SUCCESS;
    }
}

HloStatus hlo_verify_sharding(HloVerifier *verifier, const HloInstruction *instruction) {
    const HloSharding *sharding = instruction->sharding;
    if (!sharding) return HLO_SUCCESS;
    if (sharding->kind != HLO_SHARDING_TUPLE) return check_one(verifier, sharding, instruction->shape);
    // The parts of an outfeed's sharding are those of the sent value, not of the token.
    const bool outfeed = instruction->opcode == HLO_OP_OUTFEED;
    int64_t leaves = outfeed ? 0 : hlo_shape_leaf_count(instruction->shape);
    for (int64_t i = leaves; i < sharding->element_count; i++) {
        HLO_TRY(check_one(verifier, sharding->elements[i], NULL));
    }
    if (outfeed) return HLO_SUCCESS;
    // An empty tuple, and an op that has effects but no result, may nevertheless have one sharding.
    HLO_VERIFY_FAIL_IF(sharding->element_count != leaves && !(leaves == 0 && sharding->element_count == 1),
                       "a sharding of %lld leaves for %s", (long long)sharding->element_count,
                       hlo_verify_shape_text(verifier, instruction->shape));
    for (int64_t i = 0; i < leaves; i++) {
        HLO_TRY(check_one(verifier, sharding->elements[i], hlo_shape_leaf(instruction->shape, i)));
    }
    return HLO_SUCCESS;
}
