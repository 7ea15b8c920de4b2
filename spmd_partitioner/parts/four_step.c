// SPDX-License-Identifier: Apache-2.0
// The four-step transform (D. H. Bailey, "FFTs in external or hierarchical memory", 1990) of n = p m points over p
// devices. A device has a row of the matrix x[p, m], and with w = exp(-2 pi i / n)
//
//     X[k1 + p k2] = sum over j2 of w^(k1 j2) w^(p k2 j2) (sum over j1 of w^(m j1 k1) x[j1, j2])
//
//     1. rows -> columns (all-to-all); transforms of p points down the columns
//     2. times w^(k1 j2)
//     3. columns -> rows (all-to-all); a transform of m points along the row k1
//     4. X[k1 + p k2] is at [k1, k2]: the third all-to-all brings it in order
//
// The inverse of a real signal is the mirror image: the spectrum's elements k1 + p k2 come to device k1, which gets
// those beyond the middle, the conjugates of element n - k, from device p - k1; rows are transformed first and columns
// last, which leaves the signal in order. Columns and what is exchanged are padded to equal parts. A spectrum of
// n / 2 + 1 elements has shards that do not begin at multiples of p: what a device sends to shard j of s elements
// begins at k2 = ceil((j s - k1) / p), and the parts come in the order of (k1 - j s) mod p.
//
// Three exchanges of a shard send 3 (p - 1) / p of it, where a gather sends p - 1 shards.
#include "spmd_partitioner/parts/four_step.h"

#include <assert.h>
#include <math.h>

#include "hlo/ir/literal.h"
#include "spmd_partitioner/emit.h"
#include "spmd_partitioner/moves.h"

// A transform while it is emitted. Arrays are [rows of the batch, points].
typedef struct Steps {
    SpmdPartitioner *partitioner;
    const SpmdFourStep *fft;
    int64_t parts, row, column;  // p, m, and columns a device: m / p, rounded up
    int64_t batch;
    HloType place;  // of positions in the signal
    SpmdReason reason;
} Steps;

static bool is_inverse(int32_t type) {
    return type == HLO_FftType_IFFT || type == HLO_FftType_IRFFT;
}

bool spmd_four_step_divides(const SpmdPartitioner *partitioner, const SpmdFourStep *fft) {
    const int64_t parts = spmd_axes_product(partitioner->mesh, fft->axes);
    return parts > 1 && fft->length > 0 && fft->length % parts == 0 && fft->length <= INT64_MAX / parts / 2;
}

int64_t spmd_four_step_cost(const SpmdPartitioner *partitioner, const SpmdFourStep *fft, const HloShape *global,
                            const SpmdSharding *sharding) {
    assert(spmd_four_step_divides(partitioner, fft));
    const int64_t parts = spmd_axes_product(partitioner->mesh, fft->axes);
    const int64_t shard = spmd_shard_size(global->dims[fft->dim], parts);
    if (!shard) return 0;
    const int64_t part = spmd_local_bytes(partitioner->mesh, global, sharding) / shard;  // of one element a row
    const bool widens = fft->type == HLO_FftType_RFFT;
    const int64_t point = widens ? spmd_times_bytes(part, 2) : part;
    const int64_t column = spmd_shard_size(fft->length / parts, parts);
    const int64_t spectrum = spmd_shard_size(spmd_shard_size(fft->length / 2 + 1, parts), parts);
    int64_t first = column, last = column, points = column;
    if (fft->type == HLO_FftType_RFFT) last = spectrum;
    if (fft->type == HLO_FftType_IRFFT) first = spectrum;
    const SpmdAtomSet atoms = spmd_axes_set(fft->axes);
    const int64_t each[3] = {spmd_times_bytes(part, first * (parts - 1)), spmd_times_bytes(point, points * (parts - 1)),
                             spmd_times_bytes(point, last * (parts - 1)) / (fft->type == HLO_FftType_IRFFT ? 2 : 1)};
    int64_t cost = 0;
    for (int32_t i = 0; i < 3; i++)
        cost = spmd_add_bytes(
            cost, spmd_transfer_cost(partitioner->plan->costs, SPMD_TRANSFER_EXCHANGE, atoms, each[i], true));
    if (fft->type != HLO_FftType_IRFFT) return cost;
    const int64_t half = spmd_times_bytes(part, fft->length / 2 / parts + 1);
    return spmd_add_bytes(cost, spmd_transfer_cost(partitioner->plan->costs, SPMD_TRANSFER_PERMUTE, atoms, half, true));
}

HloInstruction *spmd_emit_fft(SpmdPartitioner *partitioner, HloInstruction *operand, int32_t type,
                              const int64_t *lengths, int64_t count) {
    assert(count > 0 && count <= operand->shape->rank);
    HloArena *arena = spmd_arena(partitioner);
    const HloFftAttributes attributes = {type, hlo_ints(arena, lengths, count)};
    const int64_t minor = operand->shape->rank - 1, length = lengths[count - 1];
    const HloShape *shape = operand->shape;
    if (type == HLO_FftType_RFFT) {
        shape = spmd_resized(partitioner, shape, minor, length > 0 ? length / 2 + 1 : 0);
        shape = hlo_shape_with_type(arena, shape, shape->type == HLO_F64 ? HLO_C128 : HLO_C64);
    } else if (type == HLO_FftType_IRFFT) {
        shape = spmd_resized(partitioner, shape, minor, length);
        shape = hlo_shape_with_type(arena, shape, hlo_type_real_part(shape->type));
    }
    return spmd_emit(partitioner, HLO_OP_FFT, shape, &operand, 1, &attributes);
}

// ---- arithmetic ----

static HloInstruction *number(const Steps *steps, int64_t value) {
    return spmd_emit_scalar(steps->partitioner, steps->place, value);
}

static HloInstruction *like(const Steps *steps, HloInstruction *scalar, const HloInstruction *array) {
    return spmd_emit_splat(steps->partitioner, scalar, array->shape->dims, array->shape->rank);
}

// op(array, scalar), element by element.
static HloInstruction *with_scalar(const Steps *steps, HloOpcode opcode, HloInstruction *array,
                                   HloInstruction *scalar) {
    return spmd_emit_binary(steps->partitioner, opcode, array, like(steps, scalar, array));
}

// The position of this device along the axes.
static HloInstruction *position(const Steps *steps) {
    return spmd_emit_convert(steps->partitioner, spmd_emit_index(steps->partitioner, steps->fft->axes), steps->place);
}

// A part of complex numbers, or numbers of two parts.
static HloInstruction *part_of(const Steps *steps, HloOpcode opcode, HloInstruction *array) {
    const HloShape *shape =
        hlo_shape_with_type(spmd_arena(steps->partitioner), array->shape, hlo_type_real_part(array->shape->type));
    return spmd_emit(steps->partitioner, opcode, shape, &array, 1, NULL);
}

static HloInstruction *complex_of(const Steps *steps, HloInstruction *real, HloInstruction *imaginary) {
    HloInstruction *parts[] = {real, imaginary};
    const HloShape *shape = hlo_shape_with_type(spmd_arena(steps->partitioner), real->shape,
                                                real->shape->type == HLO_F64 ? HLO_C128 : HLO_C64);
    return spmd_emit(steps->partitioner, HLO_OP_COMPLEX, shape, parts, 2, NULL);
}

// ---- moving points ----

// [batch, parts, each] <-> [parts, batch, each], and the like.
static HloInstruction *in_order(const Steps *steps, HloInstruction *array, int64_t a, int64_t b, int64_t c) {
    const int64_t order[] = {a, b, c};
    return spmd_emit_transpose(steps->partitioner, array, order);
}

// The same elements as an array of two or three dimensions, the first of which is given too.
static HloInstruction *shaped(const Steps *steps, HloInstruction *array, int64_t a, int64_t b, int64_t c) {
    const int64_t dims[] = {a, b, c};
    return spmd_emit_reshape(steps->partitioner, array, dims, c < 0 ? 2 : 3);
}

static HloInstruction *exchange(const Steps *steps, HloInstruction *array) {
    return spmd_emit_all_to_all(steps->partitioner, array, 0, steps->fft->axes, &steps->reason);
}

// [batch, row] of each row -> [batch, column, parts]: all rows of this device's columns.
static HloInstruction *to_columns(const Steps *steps, HloInstruction *row) {
    const int64_t padded = steps->column * steps->parts;
    HloInstruction *all = spmd_emit_pad(steps->partitioner, row, 1, 0, padded - steps->row, NULL);
    all = in_order(steps, shaped(steps, all, steps->batch, steps->parts, steps->column), 1, 0, 2);
    return in_order(steps, exchange(steps, all), 1, 2, 0);
}

// The way back.
static HloInstruction *to_row(const Steps *steps, HloInstruction *columns) {
    HloInstruction *all = in_order(steps, exchange(steps, in_order(steps, columns, 2, 0, 1)), 1, 0, 2);
    all = shaped(steps, all, steps->batch, steps->column * steps->parts, -1);
    return spmd_emit_slice(steps->partitioner, all, 1, 0, steps->row, 1);
}

// Elements of the second dimension by a list of positions; those outside of it are any.
static HloInstruction *take(const Steps *steps, HloInstruction *array, HloInstruction *positions) {
    SpmdPartitioner *partitioner = steps->partitioner;
    HloArena *arena = spmd_arena(partitioner);
    const int64_t count = positions->shape->dims[0], index_dims[] = {count, 1};
    static const int64_t zero = 0, one = 1;
    const int64_t sizes[] = {steps->batch, 1}, dims[] = {steps->batch, count};
    HloInstruction *operands[] = {array, spmd_emit_reshape(partitioner, positions, index_dims, 2)};
    const HloGatherAttributes attributes = {.offset_dims = {&zero, 1},
                                            .collapsed_slice_dims = {&one, 1},
                                            .start_index_map = {&one, 1},
                                            .index_vector_dim = 1,
                                            .slice_sizes = hlo_ints(arena, sizes, 2)};
    return spmd_emit(partitioner, HLO_OP_GATHER, spmd_with_dims(partitioner, array->shape, dims), operands, 2,
                     &attributes);
}

// ceil((shard * s - k1) / p) for shards of s elements: the first k2 of row k1 that is in the shard.
static HloInstruction *first_in(const Steps *steps, HloInstruction *shard, int64_t size) {
    HloInstruction *first = with_scalar(steps, HLO_OP_MULTIPLY, shard, number(steps, size));
    HloInstruction *low =
        spmd_emit_binary(steps->partitioner, HLO_OP_SUBTRACT, number(steps, steps->parts - 1), position(steps));
    return with_scalar(steps, HLO_OP_DIVIDE, with_scalar(steps, HLO_OP_ADD, first, low), number(steps, steps->parts));
}

// Turns dimension 0, which has `parts` elements, so that it begins with element starts[i] on the device at position i.
static HloInstruction *turned(const Steps *steps, HloInstruction *array, const int64_t *starts) {
    HloInstruction *twice[] = {array, array};
    HloInstruction *both = spmd_emit_concatenate(steps->partitioner, twice, 2, 0);
    HloInstruction *start = spmd_emit_look_up(steps->partitioner, steps->fft->axes, starts, steps->parts);
    return spmd_emit_dynamic_slice(steps->partitioner, both, 0, start, steps->parts);
}

// j s mod p for each shard j of `size` elements, or p less that.
static int64_t *phases(const Steps *steps, int64_t size, bool backwards) {
    int64_t *table = HLO_ARENA_NEW(steps->partitioner->arena, int64_t, steps->parts);
    for (int64_t j = 0; j < steps->parts; j++) {
        const int64_t phase = j * (size % steps->parts) % steps->parts;
        table[j] = backwards ? (steps->parts - phase) % steps->parts : phase;
    }
    return table;
}

// The positions along dimension `dim` of [parts, each], as one list.
static HloInstruction *listed(const Steps *steps, int64_t each, int64_t dim) {
    const int64_t dims[] = {steps->parts, each}, count = steps->parts * each;
    HloInstruction *places = spmd_emit_iota(steps->partitioner, steps->place, dims, 2, dim);
    return spmd_emit_reshape(steps->partitioner, places, &count, 1);
}

// Row k1 of the spectrum, [batch, row] -> this device's `size` elements of it in order.
static HloInstruction *to_shard(const Steps *steps, HloInstruction *row, int64_t size) {
    SpmdPartitioner *partitioner = steps->partitioner;
    const int64_t each = hlo_divide_up(size, steps->parts);
    const bool even = size % steps->parts == 0;
    HloInstruction *all = row;
    if (even) {
        all = spmd_emit_slice(partitioner, row, 1, 0,
                              each * steps->parts < steps->row ? each * steps->parts : steps->row, 1);
        all = spmd_emit_pad(partitioner, all, 1, 0, each * steps->parts - all->shape->dims[1], NULL);
    } else {
        HloInstruction *places = spmd_emit_binary(
            partitioner, HLO_OP_ADD, first_in(steps, listed(steps, each, 0), size), listed(steps, each, 1));
        all = take(steps, row, places);
    }
    all = exchange(steps, in_order(steps, shaped(steps, all, steps->batch, steps->parts, each), 1, 0, 2));
    if (!even) all = turned(steps, all, phases(steps, size, false));
    all = shaped(steps, in_order(steps, all, 1, 2, 0), steps->batch, each * steps->parts, -1);
    return spmd_emit_slice(partitioner, all, 1, 0, size, 1);
}

// This device's part of half a spectrum, [batch, size] -> the first `count` elements of row k1. Those beyond the
// middle of the spectrum are any.
static HloInstruction *from_shard(const Steps *steps, HloInstruction *shard, int64_t count) {
    SpmdPartitioner *partitioner = steps->partitioner;
    const int64_t size = shard->shape->dims[1], each = hlo_divide_up(size, steps->parts);
    HloInstruction *all = spmd_emit_pad(partitioner, shard, 1, 0, each * steps->parts - size, NULL);
    all = in_order(steps, shaped(steps, all, steps->batch, each, steps->parts), 2, 0, 1);
    const bool even = size % steps->parts == 0;
    if (!even) all = turned(steps, all, phases(steps, size, true));
    all = shaped(steps, in_order(steps, exchange(steps, all), 1, 0, 2), steps->batch, each * steps->parts, -1);
    if (even) return spmd_emit_slice(partitioner, all, 1, 0, count, 1);
    HloInstruction *k2 = spmd_emit_iota(partitioner, steps->place, &count, 1, 0);
    HloInstruction *k = with_scalar(steps, HLO_OP_MULTIPLY, k2, number(steps, steps->parts));
    k = with_scalar(steps, HLO_OP_ADD, k, position(steps));
    HloInstruction *from = with_scalar(steps, HLO_OP_DIVIDE, k, number(steps, size));
    HloInstruction *place = with_scalar(steps, HLO_OP_MULTIPLY, from, number(steps, each));
    place = spmd_emit_binary(partitioner, HLO_OP_ADD, place, k2);
    return take(steps, all, spmd_emit_binary(partitioner, HLO_OP_SUBTRACT, place, first_in(steps, from, size)));
}

// Row k1 of a whole spectrum, from the elements of it that are in its first half: element k of the second half is the
// conjugate of element n - k, which is in row p - k1, counted from its end.
static HloInstruction *completed(const Steps *steps, HloInstruction *half) {
    SpmdPartitioner *partitioner = steps->partitioner;
    HloArena *arena = spmd_arena(partitioner);
    const int64_t count = half->shape->dims[1], parts = steps->parts, row = steps->row, dim = 1;
    int64_t *sources = HLO_ARENA_NEW(partitioner->arena, int64_t, parts);
    int64_t *starts = HLO_ARENA_NEW(partitioner->arena, int64_t, parts);
    for (int64_t i = 0; i < parts; i++) {
        sources[i] = (parts - i) % parts;
        starts[i] = i > 0;  // row 0 begins with an element that is its own
    }
    const HloPairs pairs = spmd_pairs_of_positions(partitioner, steps->fft->axes, sources);
    HloInstruction *other = spmd_emit_permute(partitioner, half, pairs, &steps->reason);
    const HloDimensionsAttributes attributes = {hlo_ints(arena, &dim, 1)};
    other = spmd_emit(partitioner, HLO_OP_REVERSE, other->shape, &other, 1, &attributes);
    HloInstruction *negative = spmd_emit_unary(partitioner, HLO_OP_NEGATE, part_of(steps, HLO_OP_IMAG, other));
    other = complex_of(steps, part_of(steps, HLO_OP_REAL, other), negative);
    other = spmd_emit_pad(partitioner, other, 1, row - count + 1, 0, NULL);
    HloInstruction *start = spmd_emit_look_up(partitioner, steps->fft->axes, starts, parts);
    other = spmd_emit_dynamic_slice(partitioner, other, 1, start, row);
    const int64_t dims[] = {steps->batch, row};
    HloInstruction *k = spmd_emit_iota(partitioner, steps->place, dims, 2, 1);
    k = with_scalar(steps, HLO_OP_MULTIPLY, k, number(steps, parts));
    k = with_scalar(steps, HLO_OP_ADD, k, position(steps));
    HloInstruction *middle = like(steps, number(steps, steps->fft->length / 2), k);
    HloInstruction *is_first = spmd_emit_compare(partitioner, HLO_ComparisonDirection_LE, k, middle);
    return spmd_emit_select(partitioner, is_first, spmd_emit_pad(partitioner, half, 1, 0, row - count, NULL), other);
}

// ---- transforms ----

static HloInstruction *real_scalar(const Steps *steps, HloType type, double value) {
    HloArena *arena = spmd_arena(steps->partitioner);
    HloLiteral *literal = hlo_literal_in_arena(arena, hlo_shape_scalar(arena, type));
    hlo_literal_set_double(literal, 0, value);
    const HloConstantAttributes attributes = {literal};
    return spmd_emit(steps->partitioner, HLO_OP_CONSTANT, literal->shape, NULL, 0, &attributes);
}

// Columns [batch, column, k1] times w^(k1 j2). k1 j2 is at most n in columns that are not padding; it is brought to
// less than half of a turn as an integer, so that the angle has no more than the rounding of its type.
static HloInstruction *twiddled(const Steps *steps, HloInstruction *columns) {
    SpmdPartitioner *partitioner = steps->partitioner;
    const int64_t dims[] = {steps->column, steps->parts}, length = steps->fft->length;
    HloInstruction *offset = with_scalar(steps, HLO_OP_MULTIPLY, position(steps), number(steps, steps->column));
    HloInstruction *j2 = spmd_emit_iota(partitioner, steps->place, dims, 2, 0);
    j2 = with_scalar(steps, HLO_OP_ADD, j2, offset);
    HloInstruction *k1 = spmd_emit_iota(partitioner, steps->place, dims, 2, 1);
    HloInstruction *turn = spmd_emit_binary(partitioner, HLO_OP_MULTIPLY, k1, j2);
    HloInstruction *half = like(steps, number(steps, length / 2), turn);
    HloInstruction *back = with_scalar(steps, HLO_OP_SUBTRACT, turn, number(steps, length));
    turn = spmd_emit_select(partitioner, spmd_emit_compare(partitioner, HLO_ComparisonDirection_GT, turn, half), back,
                            turn);
    const HloType real = hlo_type_real_part(columns->shape->type);
    const double angle = (is_inverse(steps->fft->type) ? 2 : -2) * 3.14159265358979323846 / (double)length;
    HloInstruction *angles = spmd_emit_convert(partitioner, turn, real);
    angles = with_scalar(steps, HLO_OP_MULTIPLY, angles, real_scalar(steps, real, angle));
    HloInstruction *factors = complex_of(steps, spmd_emit_unary(partitioner, HLO_OP_COS, angles),
                                         spmd_emit_unary(partitioner, HLO_OP_SIN, angles));
    static const int64_t places[] = {1, 2};
    const HloDimensionsAttributes attributes = {{places, 2}};
    factors = spmd_emit(partitioner, HLO_OP_BROADCAST, columns->shape, &factors, 1, &attributes);
    return spmd_emit_binary(partitioner, HLO_OP_MULTIPLY, columns, factors);
}

// Columns first: the result may have any number of elements.
static HloInstruction *forward(const Steps *steps, HloInstruction *row) {
    SpmdPartitioner *partitioner = steps->partitioner;
    const int32_t type = is_inverse(steps->fft->type) ? HLO_FftType_IFFT : HLO_FftType_FFT;
    HloInstruction *columns = to_columns(steps, row);
    if (steps->fft->type == HLO_FftType_RFFT)
        columns = spmd_emit_convert(partitioner, columns, columns->shape->type == HLO_F64 ? HLO_C128 : HLO_C64);
    columns = twiddled(steps, spmd_emit_fft(partitioner, columns, type, &steps->parts, 1));
    row = spmd_emit_fft(partitioner, to_row(steps, columns), type, &steps->row, 1);
    const int64_t length = steps->fft->length;
    const int64_t size = steps->fft->type == HLO_FftType_RFFT ? length / 2 + 1 : length;
    return to_shard(steps, row, spmd_shard_size(size, steps->parts));
}

// Rows first: of a real signal only half of the spectrum is given.
static HloInstruction *backward(const Steps *steps, HloInstruction *shard) {
    SpmdPartitioner *partitioner = steps->partitioner;
    HloInstruction *row = completed(steps, from_shard(steps, shard, steps->fft->length / 2 / steps->parts + 1));
    row = spmd_emit_fft(partitioner, row, HLO_FftType_IFFT, &steps->row, 1);
    HloInstruction *columns = twiddled(steps, to_columns(steps, row));
    columns = spmd_emit_fft(partitioner, columns, HLO_FftType_IFFT, &steps->parts, 1);
    return to_row(steps, part_of(steps, HLO_OP_REAL, columns));
}

HloInstruction *spmd_emit_four_step(SpmdPartitioner *partitioner, const SpmdFourStep *fft, HloInstruction *local) {
    assert(spmd_four_step_divides(partitioner, fft));
    const int64_t rank = local->shape->rank, points = local->shape->dims[fft->dim];
    Steps steps = {.partitioner = partitioner, .fft = fft, .parts = spmd_axes_product(partitioner->mesh, fft->axes)};
    steps.row = fft->length / steps.parts;
    steps.column = hlo_divide_up(steps.row, steps.parts);
    steps.place = spmd_place_type(2 * fft->length + 2 * steps.parts * steps.parts);
    steps.reason = (SpmdReason){.op = partitioner->op, .what = "exchange between the steps", .is_own = true};
    int64_t *order = HLO_ARENA_NEW(partitioner->arena, int64_t, rank),
            *back = HLO_ARENA_NEW(partitioner->arena, int64_t, rank);
    int64_t *dims = HLO_ARENA_NEW(partitioner->arena, int64_t, rank);
    steps.batch = 1;
    for (int64_t d = 0, at = 0; d < rank; d++) {
        if (d == fft->dim) continue;
        steps.batch *= local->shape->dims[d];
        order[at++] = d;
    }
    order[rank - 1] = fft->dim;
    HloInstruction *lines = local;
    if (fft->dim != rank - 1) lines = spmd_emit_transpose(partitioner, lines, order);
    lines = shaped(&steps, lines, steps.batch, points, -1);
    lines = fft->type == HLO_FftType_IRFFT ? backward(&steps, lines) : forward(&steps, lines);
    for (int64_t i = 0; i < rank; i++) {
        back[order[i]] = i;
        dims[i] = i < rank - 1 ? local->shape->dims[order[i]] : lines->shape->dims[1];
    }
    lines = spmd_emit_reshape(partitioner, lines, dims, rank);
    return fft->dim != rank - 1 ? spmd_emit_transpose(partitioner, lines, back) : lines;
}
