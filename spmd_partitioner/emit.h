// SPDX-License-Identifier: Apache-2.0
// Writing instructions into the computation that is being partitioned: one call an op, shapes worked out here.
#ifndef MESHLO_SPMD_PARTITIONER_EMIT_H_
#define MESHLO_SPMD_PARTITIONER_EMIT_H_

#include "spmd_partitioner/partitioner.h"

// The arena of the partitioned module, in which everything written is allocated.
static inline HloArena *spmd_arena(SpmdPartitioner *partitioner) {
    return partitioner->module->arena;
}

// Any op; metadata comes from the op that is being partitioned.
HloInstruction *spmd_emit(SpmdPartitioner *partitioner, HloOpcode opcode, const HloShape *shape,
                          HloInstruction *const *operands, int64_t operand_count, const void *attributes);
// op(operand) in the shape of `operand`.
HloInstruction *spmd_emit_unary(SpmdPartitioner *partitioner, HloOpcode opcode, HloInstruction *operand);
// The result has the shape of `a`.
HloInstruction *spmd_emit_binary(SpmdPartitioner *partitioner, HloOpcode opcode, HloInstruction *a, HloInstruction *b);
// pred of the shape of `a`; `direction` is HLO_ComparisonDirection_*.
HloInstruction *spmd_emit_compare(SpmdPartitioner *partitioner, int32_t direction, HloInstruction *a,
                                  HloInstruction *b);
// select(condition, yes, no) of three arrays of one shape.
HloInstruction *spmd_emit_select(SpmdPartitioner *partitioner, HloInstruction *condition, HloInstruction *yes,
                                 HloInstruction *no);
// Another element type; `operand` itself if it has that type.
HloInstruction *spmd_emit_convert(SpmdPartitioner *partitioner, HloInstruction *operand, HloType type);
// A scalar constant of any array type.
HloInstruction *spmd_emit_scalar(SpmdPartitioner *partitioner, HloType type, int64_t value);
// The scalar that `opcode` (add, multiply, minimum, maximum, and, or, xor) leaves every number unchanged with.
HloInstruction *spmd_emit_identity(SpmdPartitioner *partitioner, HloOpcode opcode, HloType type);
// A scalar spread over `dims`.
HloInstruction *spmd_emit_splat(SpmdPartitioner *partitioner, HloInstruction *scalar, const int64_t *dims,
                                int64_t rank);
// 0, 1, 2 … along `dim` of an array of these dims.
HloInstruction *spmd_emit_iota(SpmdPartitioner *partitioner, HloType type, const int64_t *dims, int64_t rank,
                               int64_t dim);
// The shape of `like` with the same number of other dims, and the default layout. Dynamic dimensions stay dynamic: they
// are not sharded.
const HloShape *spmd_with_dims(SpmdPartitioner *partitioner, const HloShape *like, const int64_t *dims);
// The same with dimension `dim` changed alone.
const HloShape *spmd_resized(SpmdPartitioner *partitioner, const HloShape *like, int64_t dim, int64_t size);
// The same elements, row-major, in other dims. Dimensions of dynamic size must be among them, neither split nor joined.
HloInstruction *spmd_emit_reshape(SpmdPartitioner *partitioner, HloInstruction *operand, const int64_t *dims,
                                  int64_t rank);
// Dimension i of the result is dimension permutation[i] of the operand.
HloInstruction *spmd_emit_transpose(SpmdPartitioner *partitioner, HloInstruction *operand, const int64_t *permutation);
// Elements start, start + stride … below limit of one dimension.
HloInstruction *spmd_emit_slice(SpmdPartitioner *partitioner, HloInstruction *operand, int64_t dim, int64_t start,
                                int64_t limit, int64_t stride);
// `size` elements of one dimension from a scalar index on, s32 or s64.
HloInstruction *spmd_emit_dynamic_slice(SpmdPartitioner *partitioner, HloInstruction *operand, int64_t dim,
                                        HloInstruction *index, int64_t size);
// Adds `low` and `high` copies of a scalar around one dimension (zero when `value` is NULL).
HloInstruction *spmd_emit_pad(SpmdPartitioner *partitioner, HloInstruction *operand, int64_t dim, int64_t low,
                              int64_t high, HloInstruction *value);
// The parts one after the other along `dim`; a single part is returned as it is.
HloInstruction *spmd_emit_concatenate(SpmdPartitioner *partitioner, HloInstruction *const *parts, int64_t count,
                                      int64_t dim);
// The computation op(a, b) of scalars; made once a module.
HloComputation *spmd_reducer(SpmdPartitioner *partitioner, HloOpcode opcode, HloType type);

// s32: the number of this device.
HloInstruction *spmd_emit_device(SpmdPartitioner *partitioner);
// s32: the position of this device along a list of axes.
HloInstruction *spmd_emit_index(SpmdPartitioner *partitioner, const SpmdAxes *axes);
// The type of indices into a dimension that go up to `reach`, and of the sums and differences of two of them: s32, or
// s64 for a large one.
HloType spmd_place_type(int64_t reach);
// s32 or s64: first global element of this device's shard of `shard_size` elements.
HloInstruction *spmd_emit_offset(SpmdPartitioner *partitioner, const SpmdAxes *axes, int64_t shard_size);
// An array constant of s32 or s64 with these values, row-major.
HloInstruction *spmd_emit_integers(SpmdPartitioner *partitioner, HloType type, const int64_t *values,
                                   const int64_t *dims, int64_t rank);
// The entry (s32 or s64) of a table of indices for this device's position along a list of axes; `count` entries, one a
// position.
HloInstruction *spmd_emit_look_up(SpmdPartitioner *partitioner, const SpmdAxes *axes, const int64_t *table,
                                  int64_t count);
// pred in the sizes of `shape`, which is this device's shard: where the global position along dimension `dim`, which
// `axes` split, is below `limit`.
HloInstruction *spmd_emit_before(SpmdPartitioner *partitioner, const HloShape *shape, int64_t dim, const SpmdAxes *axes,
                                 int64_t limit);
// Sets everything at or beyond `limit` of dimension `dim`, counted from the global start of this device's shard, to a
// scalar. Nothing is emitted when no shard reaches so far.
HloInstruction *spmd_emit_mask(SpmdPartitioner *partitioner, HloInstruction *operand, int64_t dim, const SpmdAxes *axes,
                               int64_t limit, HloInstruction *value);

// Collectives. Each carries its reason. `axes` are those inside a group, major to minor.
//
// Joins the arrays of a group along `dim`.
HloInstruction *spmd_emit_all_gather(SpmdPartitioner *partitioner, HloInstruction *operand, int64_t dim,
                                     const SpmdAxes *axes, const SpmdReason *reason);
// Exchanges blocks of dimension `dim`, whose size equals the group's: block i goes to the device at position i.
HloInstruction *spmd_emit_all_to_all(SpmdPartitioner *partitioner, HloInstruction *operand, int64_t dim,
                                     const SpmdAxes *axes, const SpmdReason *reason);
// Sends from pairs[i].source to pairs[i].target; the pairs must live in the module's arena.
HloInstruction *spmd_emit_permute(SpmdPartitioner *partitioner, HloInstruction *operand, HloPairs pairs,
                                  const SpmdReason *reason);
// The array of the device at `position` along `axes` on all devices of its group.
HloInstruction *spmd_emit_broadcast(SpmdPartitioner *partitioner, HloInstruction *operand, const SpmdAxes *axes,
                                    int64_t position, const SpmdReason *reason);
// Runs the steps of a reshard path on an array.
SpmdLocal spmd_emit_path(SpmdPartitioner *partitioner, SpmdLocal local, const SpmdPath *path, const SpmdReason *reason);

// Moves the parts of an array that entered in a foreign device order to the mesh's order, and back at the exit.
HloInstruction *spmd_emit_from_foreign(SpmdPartitioner *partitioner, HloInstruction *operand, const SpmdArray *array,
                                       SpmdReason reason);
// The way back, at the exit.
HloInstruction *spmd_emit_to_foreign(SpmdPartitioner *partitioner, HloInstruction *operand, const SpmdArray *array,
                                     SpmdReason reason);

// ---- windows

// The interval that each position i along a dimension's axes needs: `size` elements from step * floor((scale * i +
// offset) / divisor) + shift on. The divisor is a dilation of the base or a stride, usually 1; otherwise positions
// begin at different phases of it.
typedef struct SpmdInterval {
    int64_t scale, offset, divisor, size;
    int64_t step, shift;  // 1 and 0 for most
    int64_t end;          // elements from here on are padding of the result, and left undefined; 0: none are
} SpmdInterval;

// This device's interval of dimension `dim`, by its position along `axes`; elements outside of the global array are set
// to `fill` (NULL: left undefined). The elements come from neighbours by collective-permute, or the whole dimension is
// gathered where that moves less. Where `local` is not sharded along the dimension, the interval is cut out of it.
HloInstruction *spmd_emit_window(SpmdPartitioner *partitioner, SpmdLocal local, int64_t dim, const SpmdAxes *axes,
                                 SpmdInterval interval, HloInstruction *fill, const SpmdReason *reason);
// True if all devices along `axes` have the same elements of an operand of the current op, and all of dimension `dim`:
// each can cut its window out of what it has.
bool spmd_has_whole(SpmdPartitioner *partitioner, int32_t operand, int32_t dim, const SpmdAxes *axes);
// An operand of the current op in the form that the factors require, but for dimensions in `windowed` of which each
// device can cut its part (spmd_has_whole()): they stay whole.
SpmdLocal spmd_windowed_operand(SpmdPartitioner *partitioner, const SpmdRule *rule, const SpmdAxes *factors,
                                int32_t operand, const bool *windowed);
// One whose elements are next to each other, all of them needed.
static inline SpmdInterval spmd_interval(int64_t scale, int64_t offset, int64_t divisor, int64_t size) {
    return (SpmdInterval){.scale = scale, .offset = offset, .divisor = divisor, .size = size, .step = 1};
}
// The interval of devices that need their own shard of `size` elements.
static inline SpmdInterval spmd_own_interval(int64_t size) {
    return spmd_interval(size, 0, 1, size);
}
// The first element of the interval of position i: negative before the dimension.
int64_t spmd_interval_first(const SpmdInterval *interval, int64_t i);
// Dimension `dim` of `array` holds this device's interval of a dimension of `global` elements, split by `axes`; those
// outside of it are set to `fill` (NULL: left as they are).
HloInstruction *spmd_emit_fill_outside(SpmdPartitioner *partitioner, HloInstruction *array, int64_t dim,
                                       const SpmdAxes *axes, const SpmdInterval *interval, int64_t global,
                                       HloInstruction *fill);
// [phase, phase + size) of dimension `dim`, where `phase` is this position's of the interval; the array holds the
// elements of the largest phase too.
HloInstruction *spmd_emit_phase(SpmdPartitioner *partitioner, HloInstruction *array, int64_t dim, const SpmdAxes *axes,
                                const SpmdInterval *interval, int64_t size);
// The least and the largest phase of all positions along `axes`.
void spmd_interval_phases(const SpmdMesh *mesh, const SpmdAxes *axes, const SpmdInterval *interval, int64_t *least,
                          int64_t *largest);
// Bytes that one device sends for that, of an array of shape `global` in sharding `sharding`. Emits nothing.
int64_t spmd_window_bytes(SpmdPartitioner *partitioner, const HloShape *global, const SpmdSharding *sharding,
                          int64_t dim, SpmdInterval interval);

// The interval that a device needs along dimension `dim` of an op's operand to make `size` elements of the result
// there, where the dimension is sharded by `axes`.
typedef SpmdInterval (*SpmdIntervalOf)(const SpmdMesh *mesh, const HloInstruction *op, int32_t dim,
                                       const SpmdAxes *axes, int64_t size);
// The `moved` column of ops whose operand `operand` and result have the same dimensions, windowed or not. What is cut
// out of a dimension that every device has whole costs nothing.
int64_t spmd_windowed_bytes(SpmdPartitioner *partitioner, const SpmdRule *rule, int32_t operand,
                            const SpmdAxes *factors, SpmdIntervalOf interval_of);

#endif
