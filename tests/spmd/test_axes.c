// SPDX-License-Identifier: Apache-2.0
// Reductions of several arrays and convolutions on meshes of several axes, of uneven sizes, and of one element a shard.
#include <criterion/criterion.h>
#include <stdlib.h>

#include "hlo/base/text.h"
#include "tests/spmd/check.h"
#include "tests/support/cases.h"
#include "tests/support/random.h"

// Indices of the largest elements of rows.
#define LARGEST(Devices, Shape, Tiles, Indices, Result)                                                               \
    "HloModule m, num_partitions=" Devices                                                                            \
    "\nlarger { a = f32[] parameter(0) i = s32[] parameter(1) b = f32[] parameter(2) j = s32[] parameter(3)\n"        \
    " g = pred[] compare(a, b), direction=GT\n e = pred[] compare(a, b), direction=EQ\n"                              \
    " l = pred[] compare(i, j), direction=LT\n t = pred[] and(e, l)\n f = pred[] or(g, t)\n"                          \
    " v = f32[] select(f, a, b)\n k = s32[] select(f, i, j)\n ROOT r = (f32[], s32[]) tuple(v, k)\n}\n"               \
    "ENTRY e {\n p = f32" Shape " parameter(0), sharding={devices=" Tiles "}\n q = s32" Shape                         \
    " iota(), iota_dimension=1\n z = f32[] constant(-inf)\n n = s32[] constant(0)\n r = (f32" Indices ", s32" Indices \
    ") reduce(p, q, z, n), dimensions={1}, to_apply=larger\n i = s32" Indices                                         \
    " get-tuple-element(r), index=1\n ROOT c = s32" Indices " copy(i), sharding={" Result "}\n}\n"
// The gradient of a kernel of one feature: the sum over an image of products with the gradient of the result.
#define KERNEL_GRADIENT(Image, Tiles, Gradient, GradientTiles, Window, Result)                           \
    "HloModule m, num_partitions=4\nENTRY e {\n p = f32" Image " parameter(0), sharding={devices=" Tiles \
    "}\n q = f32" Gradient " parameter(1), sharding={devices=" GradientTiles "}\n ROOT c = f32" Result   \
    " convolution(p, q), window={" Window "}, dim_labels=b01f_01io->b01f, sharding={replicated}\n}\n"

static const SentBytes programs[] = {
    // Two values of a row to the device that compares them, and its index to all.
    {"rows of a batch that is split too",
     LARGEST("8", "[8,64]", "[2,4]<=[8]", "[8]", "devices=[2,4]<=[8] last_tile_dim_replicate"), 2 * 3 * 4 + 3 * 4},
    {"rows of two axes", LARGEST("8", "[16,64]", "[1,8]<=[2,4]T(1,0)", "[16]", "replicated"),
     2 * 7 * 2 * 4 + 7 * 2 * 4},
    // Parts of two rows, the last three of padding.
    {"more rows than devices", LARGEST("7", "[8,49]", "[1,7]<=[7]", "[8]", "replicated"), 3 * 6 * 2 * 4},
    // Parts of seven rows would begin elsewhere: all are gathered.
    {"an uneven batch that is split too",
     LARGEST("8", "[14,64]", "[2,4]<=[8]", "[14]", "devices=[2,4]<=[8] last_tile_dim_replicate"), 2 * 3 * 7 * 4},
    {"one row", LARGEST("4", "[1,64]", "[1,4]<=[4]", "[1]", "replicated"), 2 * 3 * 4},
    // An all-reduce of the kernel, and a row of the image to each side.
    {"the kernel of a transposed convolution",
     KERNEL_GRADIENT("[1,16,8,2]", "[1,4,1,1]<=[4]", "[32,16,2,3]", "[4,1,1,1]<=[4]",
                     "size=32x16 pad=2_2x2_2 lhs_dilate=2x2", "[1,4,4,3]"),
     2 * 8 * 2 * 4 + 2 * 4 * 4 * 3 * 4 * 3 / 4},
    {"the kernel of a transposed convolution, one row a shard",
     KERNEL_GRADIENT("[1,4,8,2]", "[1,4,1,1]<=[4]", "[8,16,2,3]", "[4,1,1,1]<=[4]",
                     "size=8x16 pad=2_2x2_2 lhs_dilate=2x2", "[1,4,4,3]"),
     2 * 8 * 2 * 4 + 2 * 4 * 4 * 3 * 4 * 3 / 4},
    // Two devices swap a row of 8 columns, then a column of 8 rows and the two beside them.
    {"the kernel of a transposed convolution of two axes",
     KERNEL_GRADIENT("[1,16,16,2]", "[1,2,2,1]<=[2,2]T(1,0)", "[32,32,2,3]", "[2,2,1,1]<=[2,2]T(1,0)",
                     "size=32x32 pad=2_2x2_2 lhs_dilate=2x2", "[1,4,4,3]"),
     8 * 2 * 4 + 10 * 2 * 4 + 2 * 4 * 4 * 3 * 4 * 3 / 4},
    // Patches of eight rows, no more of them than rows in one: an all-reduce of the kernel alone.
    {"the kernel of a patch embedding of few patches",
     KERNEL_GRADIENT("[1,32,4,2]", "[1,4,1,1]<=[4]", "[4,2,2,3]", "[4,1,1,1]<=[4]", "size=4x2 rhs_dilate=8x2",
                     "[1,8,2,3]"),
     2 * 8 * 2 * 3 * 4 * 3 / 4},
    {"the kernel of a patch embedding of few patches, two axes",
     KERNEL_GRADIENT("[1,16,16,2]", "[1,2,2,1]<=[4]", "[2,2,2,3]", "[2,2,1,1]<=[4]", "size=2x2 rhs_dilate=8x8",
                     "[1,8,8,3]"),
     2 * 8 * 8 * 3 * 4 * 3 / 4},
    {"windows of five rows in shards of one",
     "HloModule m, num_partitions=8\nENTRY e {\n p = f32[1,8,4,2] parameter(0), sharding={devices=[1,8,1,1]<=[8]}\n"
     " k = f32[5,1,2,2] parameter(1), sharding={replicated}\n ROOT c = f32[1,8,4,2] convolution(p, k), "
     "window={size=5x1 pad=2_2x0_0}, dim_labels=b01f_01io->b01f, sharding={devices=[1,8,1,1]<=[8]}\n}\n",
     4 * 4 * 2 * 4},
};

CaseList(axes, plans) {
    return cases_numbered(HLO_COUNT_OF(programs));
}

CaseTest(const int *number, axes, plans) {
    expect_bytes(&programs[*number]);
}

// ---- random ones

static const char *const tiles[] = {"",
                                    ", sharding={devices=[1,4,1,1]<=[4]}",
                                    ", sharding={devices=[1,1,4,1]<=[4]}",
                                    ", sharding={devices=[1,2,2,1]<=[4]}",
                                    ", sharding={devices=[1,2,2,1]<=[2,2]T(1,0)}",
                                    ", sharding={devices=[1,2,1,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}"};
// The same dimensions of a kernel.
static const char *const kernel_tiles[] = {"",
                                           ", sharding={devices=[4,1,1,1]<=[4]}",
                                           ", sharding={devices=[1,4,1,1]<=[4]}",
                                           ", sharding={devices=[2,2,1,1]<=[4]}",
                                           ", sharding={devices=[2,2,1,1]<=[2,2]T(1,0)}",
                                           ", sharding={devices=[2,1,1,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}"};

// One spatial dimension of a convolution whose kernel is about as large as the image.
typedef struct Side {
    int64_t image, kernel, low, high, base_dilation, window_dilation, stride, result;
} Side;

static Side any_side(Random *random) {
    Side side = {.image = 1 + (int64_t)random_under(random, 9),
                 .base_dilation = 1 + (int64_t)random_under(random, 3),
                 .window_dilation = 1 + (int64_t)random_under(random, 2),
                 .stride = random_under(random, 4) ? 1 : 2,
                 .low = (int64_t)random_under(random, 5) - 1,
                 .high = (int64_t)random_under(random, 5) - 1};
    int64_t base = (side.image - 1) * side.base_dilation + 1 + side.low + side.high;
    if (base < 1) {
        side.low = side.high = 0;
        base = (side.image - 1) * side.base_dilation + 1;
    }
    const int64_t outputs = 1 + (int64_t)random_under(random, 3);
    side.kernel = (base - (outputs - 1) * side.stride - 1) / side.window_dilation + 1;
    if (side.kernel < 1) side.kernel = 1;
    side.result = (base - (side.kernel - 1) * side.window_dilation - 1) / side.stride + 1;
    return side;
}

static void write_program(HloText *text, Random *random) {
    const Side a = any_side(random), b = any_side(random);
    const uint64_t tile = random_under(random, HLO_COUNT_OF(tiles));
    const uint64_t other = random_under(random, 3) ? tile : random_under(random, HLO_COUNT_OF(tiles));
    hlo_text_format(text, "HloModule m, num_partitions=4\nENTRY e {\n p = f32[2,%lld,%lld,2] parameter(0)%s\n",
                    (long long)a.image, (long long)b.image, tiles[tile]);
    hlo_text_format(text, " k = f32[%lld,%lld,2,3] parameter(1)%s\n", (long long)a.kernel, (long long)b.kernel,
                    kernel_tiles[other]);
    hlo_text_format(
        text,
        " ROOT c = f32[2,%lld,%lld,3] convolution(p, k), window={size=%lldx%lld stride=%lldx%lld "
        "pad=%lld_%lldx%lld_%lld lhs_dilate=%lldx%lld rhs_dilate=%lldx%lld}, dim_labels=b01f_01io->b01f%s\n}\n",
        (long long)a.result, (long long)b.result, (long long)a.kernel, (long long)b.kernel, (long long)a.stride,
        (long long)b.stride, (long long)a.low, (long long)a.high, (long long)b.low, (long long)b.high,
        (long long)a.base_dilation, (long long)b.base_dilation, (long long)a.window_dilation,
        (long long)b.window_dilation, tiles[random_under(random, 2) ? 0 : random_under(random, HLO_COUNT_OF(tiles))]);
}

// MESHLO_RANDOM_PROGRAMS: how many.
Test(axes, random_gradients_of_kernels_are_the_same_partitioned) {
    const char *many = getenv("MESHLO_RANDOM_PROGRAMS");
    const uint64_t count = many ? strtoull(many, NULL, 10) : 300;
    Random random = {89};
    for (uint64_t seed = 1; seed <= count; seed++) {
        HloText text = {0};
        write_program(&text, &random);
        check_partitioned(text.data, NULL, seed);
        hlo_text_free(&text);
    }
}
