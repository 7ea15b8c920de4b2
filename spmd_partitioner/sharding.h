// SPDX-License-Identifier: Apache-2.0
// The partitioner's canonical sharding: for each dimension an ordered list of atoms of the module's mesh, and the sets
// of atoms over which the array is manual or unreduced. Values are immutable and compared by content.
#ifndef MESHLO_SPMD_PARTITIONER_SHARDING_H_
#define MESHLO_SPMD_PARTITIONER_SHARDING_H_

#include "hlo/base/arithmetic.h"
#include "spmd_partitioner/mesh.h"

// An ordered list of atoms, major to minor.
typedef struct SpmdAxes {
    uint8_t count;
    uint8_t items[SPMD_MAX_ATOMS];
} SpmdAxes;

typedef struct SpmdSharding {
    int32_t rank;
    SpmdAtomSet manual;     // axes that the program itself handles: the array is already local to them
    SpmdAtomSet unreduced;  // axes over which the array is the sum of what the devices hold
    SpmdAxes *dims;         // never changed once shared
} SpmdSharding;

// An unsharded array of this rank inside a region that is manual over `manual`.
SpmdSharding *spmd_sharding_new(HloArena *arena, int64_t rank, SpmdAtomSet manual);
// A copy that may be changed.
SpmdSharding *spmd_sharding_copy(HloArena *arena, const SpmdSharding *sharding);
// True if dimensions, manual and unreduced axes are the same.
bool spmd_sharding_equal(const SpmdSharding *a, const SpmdSharding *b);
// True if the dimensions are sharded alike, whatever the manual and unreduced axes.
bool spmd_same_dims(const SpmdSharding *a, const SpmdSharding *b);
// Atoms that any dimension uses.
SpmdAtomSet spmd_sharding_used(const SpmdSharding *sharding);
// True if no dimension is sharded.
bool spmd_sharding_is_replicated(const SpmdSharding *sharding);
// Number of shards along a list of atoms.
int64_t spmd_axes_product(const SpmdMesh *mesh, const SpmdAxes *axes);
// The atoms of a list.
SpmdAtomSet spmd_axes_set(const SpmdAxes *axes);
// True if the same atoms in the same order.
bool spmd_axes_equal(const SpmdAxes *a, const SpmdAxes *b);
// True if `a` is the beginning of `b` (or all of it).
bool spmd_axes_is_prefix(const SpmdAxes *a, const SpmdAxes *b);
// Appends one atom. A list never holds more than the mesh has.
void spmd_axes_push(SpmdAxes *axes, int32_t atom);
// Appends the atoms of a set, major to minor.
void spmd_axes_push_set(SpmdAxes *axes, SpmdAtomSet atoms);
// Appends all of `tail`.
void spmd_axes_append(SpmdAxes *axes, const SpmdAxes *tail);
// The first `count` atoms.
SpmdAxes spmd_axes_head(const SpmdAxes *axes, int32_t count);
// All atoms after the first `count`.
SpmdAxes spmd_axes_tail(const SpmdAxes *axes, int32_t count);

// Size of a shard: size divided by the number of shards, rounded up.
static inline int64_t spmd_shard_size(int64_t size, int64_t shards) {
    return shards ? hlo_divide_up(size, shards) : 0;
}
// The shape of one device's part of a global array shape; keeps type and layout.
const HloShape *spmd_local_shape(HloArena *arena, const SpmdMesh *mesh, const HloShape *global,
                                 const SpmdSharding *sharding);
// Costs are bytes that are compared with each other and never reported. They saturate at an amount beyond every
// machine, so that sums and multiples do not overflow for arrays of absurd sizes.
#define SPMD_MOST_BYTES (INT64_C(1) << 60)
// What local work is worth in bytes on a link: a chip does some thousand floating-point operations, or reads some
// sixteen bytes of memory, in the time that it sends one byte.
enum { SPMD_FLOPS_PER_BYTE = 2048, SPMD_MEMORY_PER_BYTE = 16 };
// What a message costs beside its bytes, as bytes. Of two plans that send about as much the one with fewer messages
// wins.
enum { SPMD_MESSAGE_BYTES = 64 };
// The sum of two costs, neither of them negative.
static inline int64_t spmd_add_bytes(int64_t a, int64_t b) {
    return a > SPMD_MOST_BYTES - b ? SPMD_MOST_BYTES : a + b;
}
// A cost several times over.
static inline int64_t spmd_times_bytes(int64_t bytes, int64_t times) {
    int64_t product;
    return __builtin_mul_overflow(bytes, times, &product) || product > SPMD_MOST_BYTES ? SPMD_MOST_BYTES : product;
}
// Bytes of one device's part, as a cost.
int64_t spmd_local_bytes(const SpmdMesh *mesh, const HloShape *global, const SpmdSharding *sharding);
// The position of `device` along a list of atoms.
int64_t spmd_axes_index(const SpmdMesh *mesh, const SpmdAxes *axes, int64_t device);

// The positions of all devices of a mesh along a list of atoms, for loops over devices.
typedef struct SpmdPlaces {
    SpmdAxes axes;
    int64_t *position;  // by device, as spmd_axes_index(); NULL: not made
    int64_t *offset;    // by position: the number of its device, less that of the device at position 0 of the group
} SpmdPlaces;
// Lives in `arena`. Takes time in proportion to the devices, however many atoms there are.
SpmdPlaces spmd_places(HloArena *arena, const SpmdMesh *mesh, const SpmdAxes *axes);
// The device of the same group at another position.
static inline int64_t spmd_device_at(const SpmdPlaces *places, int64_t device, int64_t position) {
    return device + places->offset[position] - places->offset[places->position[device]];
}

// Prints "[{batch}, {model}]", the form in reports.
void spmd_sharding_print(HloText *text, const SpmdMesh *mesh, const SpmdSharding *sharding);
// The same, into an arena.
const char *spmd_sharding_text(HloArena *arena, const SpmdMesh *mesh, const SpmdSharding *sharding);
// "batch", "batch+model", "batch:(1)2": one list of atoms.
void spmd_axes_print(HloText *text, const SpmdMesh *mesh, const SpmdAxes *axes);

#endif
