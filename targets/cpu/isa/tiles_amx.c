// SPDX-License-Identifier: Apache-2.0
// Products by AMX tiles. A sum of bf16 products runs, for each 32 of the depth, in two chains of fused multiply-adds
// (even and odd k) that are added and then added to the result; subnormal numbers count as zero.
#if defined(__x86_64__)
#define CPU_ISA amx
#include "targets/cpu/isa/tiles.inc"

// The memory operand of LDTILECFG (Intel SDM, volume 1, 18.2): palette 1, eight tiles of 16 rows of 64 bytes.
typedef struct TileConfiguration {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} TileConfiguration;

static void begin(void) {
    static const TileConfiguration configuration = {
        .palette = 1, .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64}, .rows = {16, 16, 16, 16, 16, 16, 16, 16}};
    // gcc 12's header declares that 8 bytes are read, not 64; a constant is stored whole anyway.
    _tile_loadconfig(&configuration);
}

static void end(void) {
    _tile_release();
}

// Tiles 0 to 3 are the result, 4 and 5 the left side, 6 and 7 the right side.
#define LOAD_LEFT(part)                                        \
    do {                                                       \
        _tile_loadd(4, a + (part)*CPU_TILE_BYTES, 64);         \
        _tile_loadd(5, a + (part)*CPU_TILE_BYTES + kTile, 64); \
    } while (0)
#define LOAD_RIGHT(part)                                       \
    do {                                                       \
        _tile_loadd(6, b + (part)*CPU_TILE_BYTES, 64);         \
        _tile_loadd(7, b + (part)*CPU_TILE_BYTES + kTile, 64); \
    } while (0)
#define MULTIPLY(dot) \
    do {              \
        dot(0, 4, 6); \
        dot(1, 4, 7); \
        dot(2, 5, 6); \
        dot(3, 5, 7); \
    } while (0)

// Multiplies bytes of either sign on either side: AMX has an instruction for each of the four pairs, with exact sums in
// s32.
static void multiply_integers(CpuTileSource left, CpuTileSource right, int64_t chunks, const char *a, const char *b) {
    for (int64_t k = 0; k < chunks; k++, a += CPU_TILE_BYTES, b += CPU_TILE_BYTES) {
        LOAD_LEFT(0);
        LOAD_RIGHT(0);
        if (left == CPU_TILE_S8 && right == CPU_TILE_S8)
            MULTIPLY(_tile_dpbssd);
        else if (left == CPU_TILE_S8)
            MULTIPLY(_tile_dpbsud);
        else if (right == CPU_TILE_S8)
            MULTIPLY(_tile_dpbusd);
        else
            MULTIPLY(_tile_dpbuud);
    }
}

// Multiplies f32, each a sum of two or three bf16 (parts), of which part 0 is the most significant. Products of parts
// (i, j) too small to matter are skipped: with three parts those with i + j > 2, with two (1, 1). All are added to the
// same sums one after the other, so their order is part of the result's bits.
static void multiply_floats(int parts, int64_t chunks, const char *a, const char *b) {
    const int64_t step = (int64_t)parts * CPU_TILE_BYTES;
    for (int64_t k = 0; k < chunks; k++, a += step, b += step) {
        LOAD_LEFT(0);
        if (parts > 2) {
            LOAD_RIGHT(2);
            MULTIPLY(_tile_dpbf16ps);
        }
        if (parts > 1) {
            LOAD_RIGHT(1);
            MULTIPLY(_tile_dpbf16ps);
        }
        LOAD_RIGHT(0);
        MULTIPLY(_tile_dpbf16ps);
        if (parts > 1) {
            LOAD_LEFT(1);
            MULTIPLY(_tile_dpbf16ps);
        }
        if (parts > 2) {
            LOAD_RIGHT(1);
            MULTIPLY(_tile_dpbf16ps);
            LOAD_LEFT(2);
            LOAD_RIGHT(0);
            MULTIPLY(_tile_dpbf16ps);
        }
    }
}

// Multiplies a square of 2 x 2 tiles, 32 rows by 32 columns, which stay in registers for the whole depth: each pair of
// loads then feeds two products, and all eight tiles (four sums, two and two of the sides) are in use.
static void multiply(CpuTileSource left, CpuTileSource right, int64_t chunks, const void *a, const void *b, void *c,
                     int64_t ldc, bool accumulate) {
    char *to = c;
    const size_t row = (size_t)ldc * 4, below = 16 * row;
    if (accumulate) {
        _tile_loadd(0, to, row);
        _tile_loadd(1, to + 64, row);
        _tile_loadd(2, to + below, row);
        _tile_loadd(3, to + below + 64, row);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    if (left >= CPU_TILE_S8)
        multiply_integers(left, right, chunks, a, b);
    else
        multiply_floats(cpu_tile_parts(left), chunks, a, b);
    _tile_stored(0, to, row);
    _tile_stored(1, to + 64, row);
    _tile_stored(2, to + below, row);
    _tile_stored(3, to + below + 64, row);
}

const CpuTileKernels cpu_tile_kernels_amx = {pack, begin, end, multiply};
#else
extern int cpu_tiles_have_no_amx;
#endif
