// SPDX-License-Identifier: Apache-2.0
// Chooses the minor dimensions and tiles of an array on a TPU. The facts are those that the real compiler prints for
// arrays of all ranks and types (docs/machine-model.md, Memory).
//
// A matrix is stored in tiles of rows x 128 lanes, each of them contiguous, and its two minor dimensions are rounded up
// to whole tiles: f32[10,200]{1,0:T(8,128)} takes 16 x 256 elements. Types below 32 bits are packed along the rows,
// which a second level of tiles expresses: bf16[16,128]{1,0:T(8,128)(2,1)}. A vector is stored in pieces of up to 1024
// lanes: f32[300]{0:T(512)}. The pair of dimensions that pads least becomes the minor pair, row-major first among
// equals: O(rank^3) per array.
//
// Byte counts are computed in double and capped at 2^50, so that sums of thousands of arrays do not overflow.
#include "emulator/layout/layout.h"

#include <assert.h>
#include <math.h>

#include "hlo/base/arithmetic.h"
#include "hlo/ir/attributes.h"

// The chosen form of a default layout.
typedef struct Choice {
    int64_t minor, second;  // dimensions; second is -1 for vectors
    int64_t rows, lanes;    // the first tile; rows is 0 for vectors
    int64_t bits;           // of an element as stored
} Choice;

// Bits of an element in memory: types narrower than a byte are packed, but not on the first chips.
static int64_t element_bits(const EmuChip *chip, HloType type) {
    const int64_t bits = hlo_type_info(type)->bits;
    return chip && chip->generation <= 3 && bits < 8 ? 8 : bits;
}

// How many elements share a word of 32 bits.
static int64_t elements_in_word(int64_t bits) {
    return bits < 32 ? 32 / bits : 1;
}

// The least number of words that a tile has.
static int64_t granule_words(const EmuChip *chip) {
    return chip->generation <= 3 ? 256 : 128;
}

// The rows of the first tile for an array of `rows` rows: 8, fewer if the array has fewer, but at least as many as are
// packed into one word, or two on the first chips. From generation 7 on, arrays of bytes and less have 8 words' worth
// of rows where that pads nothing.
static int64_t tile_rows(const EmuChip *chip, int64_t bits, int64_t rows) {
    const int64_t packed = elements_in_word(bits);
    if (chip->generation >= 7 && bits <= 8 && rows % (8 * packed) == 0) return 8 * packed;
    int64_t tile = granule_words(chip) / 128 * packed;
    while (tile < 8 && tile < rows) tile *= 2;
    return tile;
}

// Lanes of the tile of a vector or scalar: a power of two of words up to 1024 lanes.
static int64_t vector_tile(const EmuChip *chip, int64_t bits, int64_t size) {
    int64_t tile = granule_words(chip) * elements_in_word(bits);
    while (tile < 1024 && tile < size) tile *= 2;
    return tile;
}

// Elements after padding for a pair of minor dimensions.
static double padded_elements(const EmuChip *chip, const HloShape *shape, const Choice *choice) {
    assert(hlo_shape_is_array(shape));
    double elements = 1;
    for (int32_t dim = 0; dim < shape->rank; dim++) {
        int64_t size = shape->dims[dim];
        if (dim == choice->minor) size = hlo_round_up(size, 128);
        if (dim == choice->second) size = hlo_round_up(size, tile_rows(chip, choice->bits, size));
        elements *= (double)size;
    }
    return elements;
}

// Finds the pair of minor dimensions that pads least. All pairs are tried, row-major first, so that it wins among
// equals; if it pads nothing, no other pair can be better.
static Choice choose(const EmuChip *chip, const HloShape *shape) {
    assert(hlo_shape_is_array(shape));
    Choice best = {
        .minor = shape->rank - 1, .second = shape->rank - 2, .lanes = 128, .bits = element_bits(chip, shape->type)};
    if (shape->rank < 2) {
        best.minor = shape->rank ? 0 : -1;
        best.second = -1;
        best.lanes = vector_tile(chip, best.bits, shape->rank ? shape->dims[0] : 1);
        return best;
    }
    double least = padded_elements(chip, shape, &best), unpadded = 1;
    for (int64_t dim = 0; dim < shape->rank; dim++) unpadded *= (double)shape->dims[dim];
    for (int64_t minor = shape->rank - 1; minor >= 0 && least > unpadded; minor--)
        for (int64_t second = shape->rank - 1; second >= 0; second--) {
            Choice candidate = best;
            candidate.minor = minor;
            candidate.second = second;
            if (minor == second) continue;
            const double elements = padded_elements(chip, shape, &candidate);
            if (elements < least) {
                least = elements;
                best = candidate;
            }
        }
    best.rows = tile_rows(chip, best.bits, shape->dims[best.second]);
    return best;
}

// Sets the tiles of a layout whose minor dimensions are chosen: rows and lanes, then the packing of narrow types into
// words.
static void set_tiles(HloArena *arena, const Choice *choice, HloLayout *layout) {
    const bool matrix = choice->second >= 0, packed = choice->bits < 32 && choice->minor >= 0;
    assert(choice->lanes >= 128); /* a tile is never narrower than the vector unit */
    assert(!matrix || choice->rows >= 1);
    HloInts *tiles = HLO_ARENA_NEW(arena, HloInts, 3);
    tiles[0] =
        matrix ? hlo_ints(arena, (int64_t[]){choice->rows, choice->lanes}, 2) : hlo_ints(arena, &choice->lanes, 1);
    layout->tile_count = 1;
    if (packed && !matrix) tiles[layout->tile_count++] = hlo_ints(arena, (int64_t[]){128}, 1);
    if (packed) tiles[layout->tile_count++] = hlo_ints(arena, (int64_t[]){32 / choice->bits, 1}, 2);
    layout->tiles = tiles;
    // Elements below a byte are stored packed, and XLA prints that: s4[8,256]{1,0:T(8,128)(8,1)E(4)}.
    if (choice->bits < 8) layout->element_size_in_bits = choice->bits;
}

const HloLayout *emu_default_layout(HloArena *arena, const EmuChip *chip, const HloShape *shape) {
    assert(hlo_shape_is_array(shape)); /* tuples and tokens have no layout of their own */
    const Choice choice = choose(chip, shape);
    HloLayout *layout = HLO_ARENA_NEW(arena, HloLayout, 1);
    layout->tail_padding_alignment = 1;
    int64_t *order = HLO_ARENA_NEW(arena, int64_t, shape->rank), count = 0;
    if (choice.minor >= 0) order[count++] = choice.minor;
    if (choice.second >= 0) order[count++] = choice.second;
    for (int64_t dim = shape->rank - 1; dim >= 0; dim--)
        if (dim != choice.minor && dim != choice.second) order[count++] = dim;
    assert(count == shape->rank); /* every dimension is in the order once */
    layout->minor_to_major = (HloInts){order, count};
    set_tiles(arena, &choice, layout);
    return layout;
}

// The caller's order, with the tiles that the machine uses for these minor dimensions.
const HloLayout *emu_layout_in_order(HloArena *arena, const EmuChip *chip, const HloShape *shape,
                                     HloInts minor_to_major) {
    assert(hlo_shape_is_array(shape));
    assert(minor_to_major.count == shape->rank); /* the caller has checked what users ask for */
    Choice choice = choose(chip, shape);
    if (choice.second >= 0) {
        choice.minor = minor_to_major.items[0];
        choice.second = minor_to_major.items[1];
        choice.rows = tile_rows(chip, choice.bits, shape->dims[choice.second]);
    }
    HloLayout *layout = HLO_ARENA_NEW(arena, HloLayout, 1);
    layout->tail_padding_alignment = 1;
    layout->minor_to_major = hlo_ints(arena, minor_to_major.items, minor_to_major.count);
    set_tiles(arena, &choice, layout);
    return layout;
}

// Elements after padding to the first tile of a layout, as xla's tiled layout documentation defines it: the tile covers
// the most minor dimensions, and '*' merges one into the next.
static double tiled_elements(const HloShape *shape, const HloLayout *layout) {
    const HloInts tile = layout->tiles[0];
    double elements = 1;
    int64_t at = 0;
    for (int64_t i = tile.count - 1; i >= 0; i--) {
        int64_t size = at < layout->minor_to_major.count ? shape->dims[layout->minor_to_major.items[at]] : 1;
        at++;
        while (i > 0 && tile.items[i - 1] == HLO_TILE_COMBINE) {
            if (at < layout->minor_to_major.count) size *= shape->dims[layout->minor_to_major.items[at]];
            at++;
            i--;
        }
        elements *= (double)(tile.items[i] > 0 ? hlo_round_up(size, tile.items[i]) : size);
    }
    for (; at < layout->minor_to_major.count; at++) elements *= (double)shape->dims[layout->minor_to_major.items[at]];
    return elements;
}

// The most bytes of one array: far above any machine, and thousands of them still add up without overflow.
#define MOST_BYTES (INT64_C(1) << 50)

// Rounds a byte count up.
static int64_t to_bytes(double elements, int64_t bits) {
    const double bytes = ceil(elements * (double)bits / 8);
    return bytes < (double)MOST_BYTES ? (int64_t)bytes : MOST_BYTES;
}

int64_t emu_unpadded_bytes(const HloShape *shape) {
    double elements = 1;
    if (!hlo_shape_is_array(shape)) return 0;
    for (int32_t dim = 0; dim < shape->rank; dim++) elements *= (double)shape->dims[dim];
    return to_bytes(elements, element_bits(NULL, shape->type));
}

bool emu_names_order(const HloShape *shape) {
    if (!shape->layout || shape->rank < 2 || shape->layout->minor_to_major.count != shape->rank) return false;
    for (int64_t i = 0; i < shape->rank; i++)
        if (shape->layout->minor_to_major.items[i] != shape->rank - 1 - i) return true;
    return false;
}

// Uses the layout's own tiles, or those that the compiler would choose: vectors are rounded up to whole lanes, other
// arrays in their two most minor dimensions. Without a chip nothing is padded.
int64_t emu_padded_bytes(const EmuChip *chip, const HloShape *shape) {
    if (hlo_shape_is_tuple(shape)) {
        int64_t total = 0;
        for (int32_t i = 0; i < shape->element_count; i++) total += emu_padded_bytes(chip, shape->elements[i]);
        return total;
    }
    if (!hlo_shape_is_array(shape)) return 0;
    if (!chip) return emu_unpadded_bytes(shape);
    for (int32_t dim = 0; dim < shape->rank; dim++)
        if (shape->dims[dim] <= 0) return 0;
    const HloLayout *layout = shape->layout;
    const int64_t bits =
        layout && layout->element_size_in_bits ? layout->element_size_in_bits : element_bits(chip, shape->type);
    if (layout && layout->tile_count && layout->tiles[0].count) return to_bytes(tiled_elements(shape, layout), bits);
    Choice choice = choose(chip, shape);
    if (emu_names_order(shape)) {
        choice.minor = layout->minor_to_major.items[0];
        choice.second = layout->minor_to_major.items[1];
    }
    if (choice.second >= 0) return to_bytes(padded_elements(chip, shape, &choice), bits);
    const int64_t size = shape->rank ? shape->dims[0] : 1;
    return to_bytes((double)hlo_round_up(size, choice.lanes), bits);
}

int64_t emu_hbm_bytes(const EmuChip *chip, const HloShape *shape) {
    if (!hlo_shape_is_tuple(shape))
        return emu_in_vmem(shape) || hlo_shape_in_host_memory(shape) ? 0 : emu_padded_bytes(chip, shape);
    int64_t total = 0;
    for (int32_t i = 0; i < shape->element_count; i++) total += emu_hbm_bytes(chip, shape->elements[i]);
    return total;
}

int64_t emu_tuple_table_bytes(const EmuChip *chip, const HloShape *shape) {
    if (!chip || !hlo_shape_is_tuple(shape) || !shape->element_count) return 0;
    int64_t total = hlo_round_up(4 * (int64_t)shape->element_count, chip->tuple_table_granule_bytes);
    for (int32_t i = 0; i < shape->element_count; i++) total += emu_tuple_table_bytes(chip, shape->elements[i]);
    return total;
}
