// SPDX-License-Identifier: Apache-2.0
// Random numbers without communication: every element is computed from its place in the whole
// array, so that the bits do not depend on the sharding. Block layouts as in
// XLA's operation semantics, RngBitGenerator.
//
// The bit generators' algorithms are written out as graphs over the element's global index (a counter), which is why
// any sharding gives the same bits: only the index of the first local element differs. The state after the draw follows
// from the total number of elements, on every device alike. rng (the old op) is the same over the counter of the
// program, from which the evaluator and the engine draw too.
//
// The block of the counter c (from the state), and the word of it, that element e of the row-major array gets:
//     Threefry-2x32, 64 bits   block c + e, both words as one number
//     Threefry-2x32, 32 bits   block c + e' with the split dimension halved; word by the index along it, even or odd
//     Philox-4x32, 64 bits     block c + e / 2, words 0 and 1 or 2 and 3
//     Philox-4x32, 32 bits     block c + e / 4, word e % 4
// Types narrower than 32 bits take the low bits of a 32-bit word. Every device computes whole blocks and keeps one word
// of each, up to four times the work of an unsharded generator: that is the price of having no exchange.
//
// Sources: Salmon and others, Parallel Random Numbers: As Easy as 1, 2, 3 (2011), for both functions and their
// constants; XLA's rng_bit_generator_expander for the block layouts.
#include <assert.h>

#include "hlo/eval/draw.h"
#include "spmd_partitioner/emit.h"

static void rng_bit_generator_rule(SpmdRule *rule, const HloInstruction *op) {
    assert(hlo_is(op, HLO_OP_RNG_BIT_GENERATOR));
    int32_t output = spmd_rule_result(rule, hlo_shape_is_tuple(op->shape) ? 1 : 0);
    for (int32_t d = 0; d < rule->tensors[output].shape->rank; d++) {
        spmd_rule_map(rule, output, d, spmd_rule_factor(rule, SPMD_PASS, rule->tensors[output].shape->dims[d]));
    }
}

// The bits being computed: arrays of these local dims. `sharding` is the planned one of the array; the state is whole
// everywhere.
typedef struct Bits {
    SpmdPartitioner *partitioner;
    const HloShape *global, *local;
    const SpmdSharding *sharding;
} Bits;

// A scalar as an array of the local dims.
static HloInstruction *splat(const Bits *bits, HloInstruction *scalar) {
    if (bits->local->rank == 0) return scalar;
    return spmd_emit_splat(bits->partitioner, scalar, bits->local->dims, bits->local->rank);
}

// A constant in the shape of the bits.
static HloInstruction *number(const Bits *bits, HloType type, uint64_t value) {
    return splat(bits, spmd_emit_scalar(bits->partitioner, type, (int64_t)value));
}

// op(a, constant) in the type of `a`.
static HloInstruction *with(const Bits *bits, HloOpcode opcode, HloInstruction *a, uint64_t value) {
    return spmd_emit_binary(bits->partitioner, opcode, a, number(bits, a->shape->type, value));
}

// op(a, b).
static HloInstruction *both(const Bits *bits, HloOpcode opcode, HloInstruction *a, HloInstruction *b) {
    return spmd_emit_binary(bits->partitioner, opcode, a, b);
}

// Converting to u32 keeps the low bits.
static HloInstruction *low_word(const Bits *bits, HloInstruction *wide) {
    return spmd_emit_convert(bits->partitioner, wide, HLO_U32);
}

// The upper half of a u64, as u32.
static HloInstruction *high_word(const Bits *bits, HloInstruction *wide) {
    return low_word(bits, with(bits, HLO_OP_SHIFT_RIGHT_LOGICAL, wide, 32));
}

// Two u32 as one u64.
static HloInstruction *join_words(const Bits *bits, HloInstruction *low, HloInstruction *high) {
    HloInstruction *wide = spmd_emit_convert(bits->partitioner, high, HLO_U64);
    wide = with(bits, HLO_OP_SHIFT_LEFT, wide, 32);
    return both(bits, HLO_OP_OR, wide, spmd_emit_convert(bits->partitioner, low, HLO_U64));
}

// u64: the global index of each local element along one dimension.
static HloInstruction *index_along(const Bits *bits, int32_t dim) {
    SpmdPartitioner *partitioner = bits->partitioner;
    HloInstruction *index = spmd_emit_iota(partitioner, HLO_U64, bits->local->dims, bits->local->rank, dim);
    if (!bits->sharding->dims[dim].count) return index;
    HloInstruction *offset = spmd_emit_offset(partitioner, &bits->sharding->dims[dim], bits->local->dims[dim]);
    return both(bits, HLO_OP_ADD, index, splat(bits, spmd_emit_convert(partitioner, offset, HLO_U64)));
}

// u64: the row-major index of each element in an array of the global dims, with dimension `split` (if any) halved.
static HloInstruction *linear_index(const Bits *bits, int32_t split) {
    HloInstruction *index = number(bits, HLO_U64, 0);
    uint64_t stride = 1;
    for (int32_t d = bits->global->rank - 1; d >= 0; d--) {
        HloInstruction *along = index_along(bits, d);
        int64_t size = bits->global->dims[d];
        if (d == split) {
            along = with(bits, HLO_OP_SHIFT_RIGHT_LOGICAL, along, 1);
            size = (size + 1) / 2;
        }
        index = both(bits, HLO_OP_ADD, index, with(bits, HLO_OP_MULTIPLY, along, stride));
        stride *= (uint64_t)size;
    }
    return index;
}

// A u32 rotated left.
static HloInstruction *rotate(const Bits *bits, HloInstruction *word, uint64_t by) {
    return both(bits, HLO_OP_OR, with(bits, HLO_OP_SHIFT_LEFT, word, by),
                with(bits, HLO_OP_SHIFT_RIGHT_LOGICAL, word, 32 - by));
}

// Threefry-2x32 of 20 rounds on words[0], words[1].
static void threefry(const Bits *bits, HloInstruction *key_low, HloInstruction *key_high, HloInstruction *words[2]) {
    static const uint64_t rotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
    HloInstruction *keys[3] = {key_low, key_high, both(bits, HLO_OP_XOR, key_low, key_high)};
    keys[2] = with(bits, HLO_OP_XOR, keys[2], 0x1BD11BDA);
    words[0] = both(bits, HLO_OP_ADD, words[0], keys[0]);
    words[1] = both(bits, HLO_OP_ADD, words[1], keys[1]);
    for (int group = 1; group <= 5; group++) {
        for (int round = 0; round < 4; round++) {
            words[0] = both(bits, HLO_OP_ADD, words[0], words[1]);
            words[1] = both(bits, HLO_OP_XOR, rotate(bits, words[1], rotations[(group - 1) % 2][round]), words[0]);
        }
        words[0] = both(bits, HLO_OP_ADD, words[0], keys[group % 3]);
        words[1] = both(bits, HLO_OP_ADD, words[1], keys[(group + 1) % 3]);
        words[1] = with(bits, HLO_OP_ADD, words[1], (uint64_t)group);
    }
}

// Philox-4x32 of 10 rounds.
static void philox(const Bits *bits, HloInstruction *key_low, HloInstruction *key_high, HloInstruction *words[4]) {
    for (int round = 0; round < 10; round++) {
        HloInstruction *products[2];
        for (int i = 0; i < 2; i++) {
            HloInstruction *wide = spmd_emit_convert(bits->partitioner, words[2 * i], HLO_U64);
            products[i] = with(bits, HLO_OP_MULTIPLY, wide, i ? 0xCD9E8D57 : 0xD2511F53);
        }
        HloInstruction *first = both(bits, HLO_OP_XOR, high_word(bits, products[1]), words[1]);
        HloInstruction *third = both(bits, HLO_OP_XOR, high_word(bits, products[0]), words[3]);
        words[0] = both(bits, HLO_OP_XOR, first, key_low);
        words[1] = low_word(bits, products[1]);
        words[2] = both(bits, HLO_OP_XOR, third, key_high);
        words[3] = low_word(bits, products[0]);
        key_low = with(bits, HLO_OP_ADD, key_low, 0x9E3779B9);
        key_high = with(bits, HLO_OP_ADD, key_high, 0xBB67AE85);
    }
}

// words[lane] by element; `lane` is u64 and below `count`.
static HloInstruction *pick_lane(const Bits *bits, HloInstruction *lane, HloInstruction *const *words, int64_t count) {
    assert(count > 0);
    HloInstruction *picked = words[0];
    for (int64_t i = 1; i < count; i++) {
        HloInstruction *here =
            spmd_emit_compare(bits->partitioner, HLO_ComparisonDirection_EQ, lane, number(bits, HLO_U64, (uint64_t)i));
        picked = spmd_emit_select(bits->partitioner, here, words[i], picked);
    }
    return picked;
}

// The dimension whose neighbours share a block of two 32-bit numbers: the first even one, else the largest. The choice
// is XLA's, so that the bits agree.
static int32_t split_dimension(const HloShape *shape) {
    int32_t largest = 0;
    for (int32_t d = 0; d < shape->rank; d++) {
        if (shape->dims[d] % 2 == 0) return d;
        if (shape->dims[d] > shape->dims[largest]) largest = d;
    }
    return largest;
}

// state[index] as a u64 scalar.
static HloInstruction *state_word(SpmdPartitioner *partitioner, HloInstruction *state, int64_t index) {
    return spmd_emit_reshape(partitioner, spmd_emit_slice(partitioner, state, 0, index, index + 1, 1), NULL, 0);
}

// A block of the counter gives two words: both together are one 64-bit number, or one each for two neighbours along the
// split dimension.
static HloInstruction *threefry_bits(const Bits *bits, HloInstruction *state, bool wide) {
    HloInstruction *key = splat(bits, state_word(bits->partitioner, state, 0));
    int32_t split = wide || bits->global->rank == 0 ? -1 : split_dimension(bits->global);
    HloInstruction *counter =
        both(bits, HLO_OP_ADD, splat(bits, state_word(bits->partitioner, state, 1)), linear_index(bits, split));
    HloInstruction *words[2] = {low_word(bits, counter), high_word(bits, counter)};
    threefry(bits, low_word(bits, key), high_word(bits, key), words);
    if (wide) return join_words(bits, words[0], words[1]);
    if (split < 0) return words[0];
    return pick_lane(bits, with(bits, HLO_OP_AND, index_along(bits, split), 1), words, 2);
}

// A block gives four words, for neighbours in row-major order. The counter has 128 bits: low and high word of the
// state, with a carry between them.
static HloInstruction *philox_bits(const Bits *bits, HloInstruction *state, bool wide) {
    SpmdPartitioner *partitioner = bits->partitioner;
    HloInstruction *key = splat(bits, state_word(partitioner, state, 0));
    HloInstruction *start = splat(bits, state_word(partitioner, state, 1));
    HloInstruction *high = splat(bits, state_word(partitioner, state, state->shape->dims[0] == 3 ? 2 : 0));
    HloInstruction *index = linear_index(bits, -1);
    HloInstruction *block = with(bits, HLO_OP_SHIFT_RIGHT_LOGICAL, index, wide ? 1 : 2);
    HloInstruction *low = both(bits, HLO_OP_ADD, start, block);
    HloInstruction *carry = spmd_emit_compare(partitioner, HLO_ComparisonDirection_LT, low, start);
    high = both(bits, HLO_OP_ADD, high, spmd_emit_convert(partitioner, carry, HLO_U64));
    HloInstruction *words[4] = {low_word(bits, low), high_word(bits, low), low_word(bits, high), high_word(bits, high)};
    philox(bits, low_word(bits, key), high_word(bits, key), words);
    if (!wide) return pick_lane(bits, with(bits, HLO_OP_AND, index, 3), words, 4);
    HloInstruction *pairs[2] = {join_words(bits, words[0], words[1]), join_words(bits, words[2], words[3])};
    return pick_lane(bits, with(bits, HLO_OP_AND, index, 1), pairs, 2);
}

// The state after all elements of the global array, the same on every device.
// A state of three words is (key, counter low, counter high).
static HloInstruction *next_state(SpmdPartitioner *partitioner, const HloShape *global, HloInstruction *state,
                                  bool is_threefry, bool wide) {
    uint64_t count = (uint64_t)hlo_shape_elements(global), blocks = wide ? (count + 1) / 2 : (count + 3) / 4;
    if (is_threefry) {
        blocks = count;
        if (!wide && global->rank) {
            uint64_t size = (uint64_t)global->dims[split_dimension(global)];
            blocks = size ? count / size * ((size + 1) / 2) : 0;
        }
    }
    HloInstruction *words[3] = {state_word(partitioner, state, 0), state_word(partitioner, state, 1)};
    HloInstruction *after =
        spmd_emit_binary(partitioner, HLO_OP_ADD, words[1], spmd_emit_scalar(partitioner, HLO_U64, (int64_t)blocks));
    int64_t rank = state->shape->dims[0];
    if (rank == 3) {
        words[2] = state_word(partitioner, state, 2);
        HloInstruction *carry = spmd_emit_compare(partitioner, HLO_ComparisonDirection_LT, after, words[1]);
        carry = spmd_emit_convert(partitioner, carry, HLO_U64);
        if (!is_threefry) words[2] = spmd_emit_binary(partitioner, HLO_OP_ADD, words[2], carry);
    }
    words[1] = after;
    int64_t one = 1;
    for (int64_t i = 0; i < rank; i++) words[i] = spmd_emit_reshape(partitioner, words[i], &one, 1);
    return spmd_emit_concatenate(partitioner, words, rank, 0);
}

// Unsigned words as the bits of another type, of which they may have more than it takes.
static HloInstruction *as_bits_of(SpmdPartitioner *partitioner, HloInstruction *words, HloType type) {
    int bits = hlo_type_info(type)->bits;
    if (!hlo_type_is_float(type) || bits < 8) return spmd_emit_convert(partitioner, words, type);
    assert(bits <= 64);
    words = spmd_emit_convert(partitioner, words,
                              bits > 32   ? HLO_U64
                              : bits > 16 ? HLO_U32
                              : bits > 8  ? HLO_U16
                                          : HLO_U8);
    const HloShape *shape = hlo_shape_with_type(spmd_arena(partitioner), words->shape, type);
    return spmd_emit(partitioner, HLO_OP_BITCAST_CONVERT, shape, &words, 1, NULL);
}

// Result 0 is the state after the draw, result 1 the bits; or the bits are the only result.
static HloStatus rng_bit_generator_partition(SpmdPartitioner *partitioner, const HloInstruction *op) {
    assert(hlo_is(op, HLO_OP_RNG_BIT_GENERATOR));
    const HloShape *state_shape = op->operands[0]->shape;
    const int64_t leaf = hlo_shape_is_tuple(op->shape) ? 1 : 0;
    HLO_FAIL_IF(!partitioner->plan->rules[op->id] || state_shape->type != HLO_U64 || state_shape->rank != 1 ||
                    (state_shape->dims[0] != 2 && state_shape->dims[0] != 3),
                HLO_UNIMPLEMENTED, "rng-bit-generator without a u64[2] or u64[3] state cannot be partitioned");
    bool is_threefry = HLO_ATTRIBUTES(op, RngBits)->algorithm == HLO_RandomAlgorithm_THREE_FRY;
    HloInstruction *state = spmd_operand_whole(partitioner, 0);
    Bits bits = {.partitioner = partitioner,
                 .global = hlo_shape_leaf(op->shape, leaf),
                 .sharding = spmd_planned(partitioner, leaf)};
    bits.local = spmd_local_shape(partitioner->module->arena, partitioner->mesh, bits.global, bits.sharding);
    bool wide = hlo_type_info(bits.global->type)->bits == 64;
    HloInstruction *words = is_threefry ? threefry_bits(&bits, state, wide) : philox_bits(&bits, state, wide);
    words = as_bits_of(partitioner, words, bits.global->type);
    spmd_define(partitioner, leaf, words, bits.sharding, 0, HLO_OPCODE_COUNT);
    if (!leaf) return HLO_SUCCESS;
    HloInstruction *after = next_state(partitioner, bits.global, state, is_threefry, wide);
    SpmdSharding *whole = spmd_sharding_new(partitioner->arena, 1, spmd_manual_axes(partitioner, op));
    spmd_define(partitioner, 0, after, whole, 0, HLO_OPCODE_COUNT);
    return HLO_SUCCESS;
}
const SpmdOp spmd_op_rng_bit_generator = {
    .name = "rng-bit-generator", .rule = rng_bit_generator_rule, .partition = rng_bit_generator_partition};

// ---- the stateful ops: the state is the same on every device, because every device runs the same program

// Only the counter is advanced, by a constant.
static HloStatus rng_state_partition(SpmdPartitioner *partitioner, const HloInstruction *op) {
    SpmdSharding *whole = spmd_sharding_new(partitioner->arena, op->shape->rank, spmd_manual_axes(partitioner, op));
    HloInstruction *state = spmd_clone(partitioner, op, op->shape, NULL, 0);
    spmd_define(partitioner, 0, state, whole, 0, HLO_OPCODE_COUNT);
    return HLO_SUCCESS;
}
const SpmdOp spmd_op_rng_state = {.name = "rng-get-and-update-state", .partition = rng_state_partition};

// All dimensions pass: no part of the array depends on another.
static void rng_rule(SpmdRule *rule, const HloInstruction *op) {
    for (int32_t d = 0; d < op->shape->rank; d++) {
        spmd_rule_map(rule, spmd_rule_result(rule, 0), d, spmd_rule_factor(rule, SPMD_PASS, op->shape->dims[d]));
    }
}

// The state of Philox for this draw: the key of all draws and the counter of the program (hlo/eval/draw.h).
static HloInstruction *draw_state(SpmdPartitioner *partitioner, const HloInstruction *op) {
    HloArena *arena = partitioner->module->arena;
    int64_t one = 1, two = 2;
    const HloShape *shape = hlo_shape_with_default_layout(arena, hlo_shape_array(arena, HLO_U64, &two, 1));
    HloRngStateAttributes attributes = {.delta = hlo_draw_delta(hlo_shape_elements(op->shape))};
    HloInstruction *counter = spmd_emit(partitioner, HLO_OP_RNG_GET_AND_UPDATE_STATE, shape, NULL, 0, &attributes);
    HloInstruction *key = spmd_emit_scalar(partitioner, HLO_U64, (int64_t)HLO_DRAW_KEY);
    HloInstruction *parts[2] = {spmd_emit_reshape(partitioner, key, &one, 1), counter};
    return spmd_emit_concatenate(partitioner, parts, 2, 0);
}

// A number that no integer is, everywhere.
static HloInstruction *real_number(const Bits *bits, HloType type, double value) {
    HloArena *arena = bits->partitioner->module->arena;
    HloLiteral *literal = hlo_literal_in_arena(arena, hlo_shape_scalar(arena, type));
    hlo_literal_set_double(literal, 0, value);
    HloConstantAttributes attributes = {literal};
    return splat(bits, spmd_emit(bits->partitioner, HLO_OP_CONSTANT, literal->shape, NULL, 0, &attributes));
}

// Uniform in [0, 1): as many of the highest bits as the type's numbers below one have.
// `type` is f32 or f64: narrower types are rounded from f32 by the caller.
static HloInstruction *unit_interval(const Bits *bits, HloInstruction *words, HloType type) {
    uint64_t width = (uint64_t)hlo_type_info(words->shape->type)->bits, digits = type == HLO_F64 ? 53 : 24;
    if (digits > width) digits = width;
    words = with(bits, HLO_OP_SHIFT_RIGHT_LOGICAL, words, width - digits);
    HloInstruction *unit = spmd_emit_convert(bits->partitioner, words, type);
    return both(bits, HLO_OP_MULTIPLY, unit, real_number(bits, type, 1 / (double)(UINT64_C(1) << digits)));
}

// Box and Muller's transform of the two halves of each draw.
static HloInstruction *standard_normal(const Bits *bits, HloInstruction *words, HloType type) {
    HloInstruction *radius = unit_interval(bits, high_word(bits, words), type);
    HloInstruction *angle = unit_interval(bits, low_word(bits, words), type);
    radius = spmd_emit_unary(bits->partitioner, HLO_OP_NEGATE, radius);
    radius = spmd_emit_unary(bits->partitioner, HLO_OP_LOG1P, radius);
    radius = both(bits, HLO_OP_MULTIPLY, radius, real_number(bits, type, -2));
    radius = spmd_emit_unary(bits->partitioner, HLO_OP_SQRT, radius);
    angle = both(bits, HLO_OP_MULTIPLY, angle, real_number(bits, type, 6.283185307179586));
    return both(bits, HLO_OP_MULTIPLY, radius, spmd_emit_unary(bits->partitioner, HLO_OP_COS, angle));
}

// The draws in their distribution; parameters[0], [1] are low and high, or mean and deviation.
static HloInstruction *distribute(const Bits *bits, HloInstruction *words, HloInstruction *const parameters[2],
                                  bool normal) {
    SpmdPartitioner *partitioner = bits->partitioner;
    HloType type = bits->global->type;
    if (!hlo_type_is_float(type)) {
        HloInstruction *low = splat(bits, spmd_emit_convert(partitioner, parameters[0], HLO_U64));
        HloInstruction *high = splat(bits, spmd_emit_convert(partitioner, parameters[1], HLO_U64));
        HloInstruction *range = both(bits, HLO_OP_SUBTRACT, high, low);
        words = both(bits, HLO_OP_ADD, low, both(bits, HLO_OP_REMAINDER, words, range));
        return spmd_emit_convert(partitioner, words, type);
    }
    HloType compute = type == HLO_F64 ? HLO_F64 : HLO_F32;
    HloInstruction *first = splat(bits, spmd_emit_convert(partitioner, parameters[0], compute));
    HloInstruction *second = splat(bits, spmd_emit_convert(partitioner, parameters[1], compute));
    HloInstruction *scale = normal ? second : both(bits, HLO_OP_SUBTRACT, second, first);
    HloInstruction *standard = normal ? standard_normal(bits, words, compute) : unit_interval(bits, words, compute);
    HloInstruction *value = both(bits, HLO_OP_ADD, first, both(bits, HLO_OP_MULTIPLY, standard, scale));
    value = spmd_emit_convert(partitioner, value, type);
    if (normal) return value;
    // Rounding may reach the upper end, which does not belong to the interval.
    HloInstruction *end = splat(bits, parameters[1]), *start = splat(bits, parameters[0]);
    HloInstruction *below = spmd_emit_compare(partitioner, HLO_ComparisonDirection_LT, value, end);
    return spmd_emit_select(partitioner, below, value, start);
}

// Computes by global index, as the bit generator does: any mesh gives the same numbers. The planned sharding is kept,
// since all parts of the array cost the same to make.
static HloStatus rng_partition(SpmdPartitioner *partitioner, const HloInstruction *op) {
    assert(hlo_is(op, HLO_OP_RNG));
    HloType type = op->shape->type;
    HLO_FAIL_IF(hlo_type_is_complex(type) || type == HLO_PRED || op->operand_count != 2, HLO_UNIMPLEMENTED,
                "rng of %s cannot be partitioned", hlo_type_text(type));
    HloInstruction *parameters[2] = {spmd_operand_whole(partitioner, 0), spmd_operand_whole(partitioner, 1)};
    Bits bits = {.partitioner = partitioner, .global = op->shape, .sharding = spmd_planned(partitioner, 0)};
    bits.local = spmd_local_shape(partitioner->module->arena, partitioner->mesh, bits.global, bits.sharding);
    HloInstruction *words = philox_bits(&bits, draw_state(partitioner, op), true);
    bool normal = HLO_ATTRIBUTES(op, Rng)->distribution == HLO_RandomDistribution_NORMAL;
    spmd_define(partitioner, 0, distribute(&bits, words, parameters, normal), bits.sharding, 0, HLO_OPCODE_COUNT);
    return HLO_SUCCESS;
}
const SpmdOp spmd_op_rng = {.name = "rng", .rule = rng_rule, .partition = rng_partition};
