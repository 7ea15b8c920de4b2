// SPDX-License-Identifier: Apache-2.0
// Sorting along a cut dimension: on another dimension, by a network of merges, or of the first few only.
#include <criterion/criterion.h>

#include "hlo/base/text.h"
#include "tests/spmd/check.h"
#include "tests/support/cases.h"

#define KEYS                                                                                \
    "less {\n x = f32[] parameter(0)\n y = f32[] parameter(1)\n"                            \
    " ROOT l = pred[] compare(x, y), direction=LT\n}\n"                                     \
    "greater {\n x = f32[] parameter(0)\n y = f32[] parameter(1)\n"                         \
    " ROOT l = pred[] compare(x, y), direction=GT\n}\n"                                     \
    "fewer {\n x = s32[] parameter(0)\n y = s32[] parameter(1)\n"                           \
    " ROOT l = pred[] compare(x, y), direction=LT\n}\n"                                     \
    "coarse {\n x = f32[] parameter(0)\n y = f32[] parameter(1)\n a = s32[] parameter(2)\n" \
    " b = s32[] parameter(3)\n f = f32[] floor(x)\n g = f32[] floor(y)\n"                   \
    " ROOT l = pred[] compare(f, g), direction=GT\n}\n"
#define CUT(count) ", sharding={devices=[" #count "]<=[" #count "]}"
#define COLUMNS ", sharding={devices=[1,8]<=[8]}"

// The places that the elements of rows have in order, in order.
#define PLACES(rows, sharding)                                                                                       \
    "p = f32[" rows ",64] parameter(0)" sharding "\n q = s32[" rows ",64] iota(), iota_dimension=1\n s = (f32[" rows \
    ",64], s32[" rows ",64]) sort(p, q), dimensions={1}, is_stable=true, to_apply=coarse\n i = s32[" rows            \
    ",64] get-tuple-element(s), index=1\n ROOT t = s32[" rows ",64] sort(i), dimensions={1}, to_apply=fewer" sharding

// Programs, the devices that they are cut over, and their collectives.
static const struct {
    const char *name;
    int devices;
    const char *body, *want;
} programs[] = {
    // Six rounds of merges send less than seven shards for each device, but six messages.
    {"integers", 8,
     "p = s32[1024] parameter(0)" CUT(8) "\n ROOT s = s32[1024] sort(p), dimensions={0}, to_apply=fewer" CUT(8),
     "6 collective-permute"},
    {"few integers", 8,
     "p = s32[64] parameter(0)" CUT(8) "\n ROOT s = s32[64] sort(p), dimensions={0}, to_apply=fewer" CUT(8),
     "1 all-gather"},
    // Padding needs indices besides the elements, which makes gathering cheaper.
    {"integers, uneven", 8,
     "p = s32[1021] parameter(0)" CUT(8) "\n ROOT s = s32[1021] sort(p), dimensions={0}, to_apply=fewer" CUT(8),
     "1 all-gather"},
    {"a number of shards that is not a power of two", 48,
     "p = s32[768] parameter(0)" CUT(48) "\n ROOT s = s32[768] sort(p), dimensions={0}, to_apply=fewer" CUT(48),
     "21 collective-permute"},
    {"numbers, which carry their places", 64,
     "p = f32[2048] parameter(0)" CUT(64) "\n ROOT s = f32[2048] sort(p), dimensions={0}, to_apply=less" CUT(64),
     "21 collective-permute"},
    {"numbers, uneven", 64,
     "p = f32[2040] parameter(0)" CUT(64) "\n ROOT s = f32[2040] sort(p), dimensions={0}, to_apply=greater" CUT(64),
     "21 collective-permute"},
    {"few numbers", 64,
     "p = f32[259] parameter(0)" CUT(64) "\n ROOT s = f32[259] sort(p), dimensions={0}, to_apply=less" CUT(64),
     "1 all-gather"},
    {"pairs with ties, which stay in order", 64,
     "p = f32[2040] parameter(0)" CUT(64) "\n q = s32[2040] parameter(1)" CUT(
         64) "\n s = (f32[2040], s32[2040]) sort(p, q), dimensions={0}, is_stable=true, to_apply=coarse\n"
             " a = f32[2040] get-tuple-element(s), index=0\n b = s32[2040] get-tuple-element(s), index=1\n"
             " ROOT t = (f32[2040], s32[2040]) tuple(a, b), sharding={{devices=[64]<=[64]}, {devices=[64]<=[64]}}",
     "21 collective-permute"},
    // Another dimension takes the axes and gives them back.
    {"rows", 8,
     "p = f32[16,24] parameter(0)" COLUMNS "\n ROOT s = f32[16,24] sort(p), dimensions={1}, to_apply=less" COLUMNS,
     "2 all-to-all"},
    // bug: uneven rows were gathered before the first sort, and exchanged after the second: 12,544 bytes of 12 rows of
    // 256, which are 3,584 when they are exchanged twice.
    {"sorts of even rows", 8, PLACES("16", COLUMNS), "2 all-to-all"},
    {"sorts of uneven rows", 8, PLACES("12", COLUMNS), "2 all-to-all"},
    {"sorts of uneven rows over two axes", 8, PLACES("11", ", sharding={devices=[1,8]<=[2,4]T(1,0)}"), "2 all-to-all"},
    {"sorts of uneven rows beside another axis", 8,
     PLACES("6", ", sharding={devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}"), "2 all-to-all"},
    {"sorts of one row", 8, PLACES("1", COLUMNS), "1 all-gather"},
    // Only the first elements are needed: those of each shard are enough.
    {"the first of rows", 8,
     "p = f32[4,64] parameter(0)" COLUMNS "\n s = f32[4,64] sort(p), dimensions={1}, to_apply=greater\n"
     " ROOT t = f32[4,3] slice(s), slice={[0:4], [0:3]}, sharding={replicated}",
     "1 all-gather"},
    {"the first of uneven shards, with their places", 8,
     "p = f32[4,59] parameter(0)" COLUMNS "\n q = s32[4,59] iota(), iota_dimension=1\n"
     " s = (f32[4,59], s32[4,59]) sort(p, q), dimensions={1}, is_stable=true, to_apply=coarse\n"
     " a = f32[4,59] get-tuple-element(s), index=0\n b = s32[4,59] get-tuple-element(s), index=1\n"
     " c = f32[4,5] slice(a), slice={[0:4], [0:5]}\n d = s32[4,2] slice(b), slice={[0:4], [0:2]}\n"
     " ROOT t = (f32[4,5], s32[4,2]) tuple(c, d), sharding={{replicated}, {replicated}}",
     "1 all-gather"},
    // The calls that keep the first do the same.
    {"TopK", 8,
     "p = f32[4,64] parameter(0)" COLUMNS "\n c = (f32[4,3], s32[4,3]) custom-call(p), custom_call_target=\"TopK\", "
     "called_computations={coarse}\n a = f32[4,3] get-tuple-element(c), index=0\n"
     " b = s32[4,3] get-tuple-element(c), index=1\n"
     " ROOT t = (f32[4,3], s32[4,3]) tuple(a, b), sharding={{replicated}, {replicated}}",
     "1 all-gather"},
    {"ApproxTopK", 8,
     "p = f32[4,64] parameter(0)" COLUMNS "\n q = s32[4,64] iota(), iota_dimension=1\n y = f32[] constant(-inf)\n"
     " z = s32[] constant(-1)\n c = (f32[4,3], s32[4,3]) custom-call(p, q, y, z), custom_call_target=\"ApproxTopK\", "
     "called_computations={coarse}, backend_config={reduction_dim = 1 : i64, top_k = 3 : i64}\n"
     " a = f32[4,3] get-tuple-element(c), index=0\n b = s32[4,3] get-tuple-element(c), index=1\n"
     " ROOT t = (f32[4,3], s32[4,3]) tuple(a, b), sharding={{replicated}, {replicated}}",
     "1 all-gather"},
    {"the first, and the last", 8,
     "p = f32[4,64] parameter(0)" COLUMNS "\n s = f32[4,64] sort(p), dimensions={1}, to_apply=greater\n"
     " t = f32[4,3] slice(s), slice={[0:4], [0:3]}\n u = f32[4,3] slice(s), slice={[0:4], [61:64]}\n"
     " ROOT r = f32[4,3] add(t, u), sharding={replicated}",
     "1 all-gather"},
};

CaseList(sort, sends_little) {
    return cases_numbered(HLO_COUNT_OF(programs));
}

CaseTest(const int *number, sort, sends_little) {
    HloText text = {0};
    hlo_text_format(&text, "HloModule m, num_partitions=%d\n" KEYS "ENTRY e {\n %s\n}\n", programs[*number].devices,
                    programs[*number].body);
    expect_collectives(text.data, NULL, programs[*number].want);
    hlo_text_free(&text);
}
