// SPDX-License-Identifier: Apache-2.0
// Slices of one array that overlap: what all of them need is exchanged once.
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "hlo/base/text.h"
#include "tests/spmd/check.h"
#include "tests/support/cases.h"
#include "tests/support/random.h"

#define ROWS ", sharding={devices=[4,1]<=[4]}"
#define TILES ", sharding={devices=[2,2]<=[4]}"
#define THREE(Operand, Tiles)                                                                                      \
    "HloModule m, num_partitions=4\nENTRY e {\n p = " Operand " parameter(0)" Tiles                                \
    "\n a = f32[30,8] slice(p), slice={[0:30],[0:8]}\n b = f32[30,8] slice(p), slice={[1:31],[0:8]}\n"             \
    " c = f32[30,8] slice(p), slice={[2:32],[0:8]}\n s = f32[30,8] add(a, b)\n ROOT t = f32[30,8] add(s, c)" Tiles \
    "\n}\n"

// Bytes by hand. Shards of the array have 8 rows, those of the slices fewer, so that they do not begin alike.
static const SentBytes programs[] = {
    // 8 rows of the result need 10 of the array, the last device 6 + 2: two rows at most.
    {"the same shards", THREE("f32[32,8]", ROWS), 2 * 8 * 4},
    // Jacobi on the inside of a grid: 7 rows of the result need 9 of 8, so that rows come from both sides.
    {"inside of a grid",
     "HloModule m, num_partitions=4\nENTRY e {\n p = f32[32,10] parameter(0)" ROWS
     "\n n = f32[28,8] slice(p), slice={[0:28],[1:9]}\n s = f32[28,8] slice(p), slice={[2:30],[1:9]}\n"
     " w = f32[28,8] slice(p), slice={[1:29],[0:8]}\n e = f32[28,8] slice(p), slice={[1:29],[2:10]}\n"
     " a = f32[28,8] add(n, s)\n b = f32[28,8] add(w, e)\n ROOT t = f32[28,8] add(a, b)" ROWS "\n}\n",
     (3 + 1) * 10 * 4},
    // Corners come with the second exchange: 14 rows need 16 of 16, 6 columns 8 of 8.
    {"nine points of two sharded dimensions",
     "HloModule m, num_partitions=4\nENTRY e {\n p = f32[32,16] parameter(0)" TILES
     "\n a = f32[28,12] slice(p), slice={[0:28],[0:12]}\n b = f32[28,12] slice(p), slice={[4:32],[4:16]}\n"
     " c = f32[28,12] slice(p), slice={[2:30],[2:14]}\n d = f32[28,12] add(a, b)\n"
     " ROOT t = f32[28,12] add(c, d)" TILES "\n}\n",
     (2 * 8 + 2 * 18) * 4},
};

CaseList(overlaps, plans) {
    return cases_numbered(HLO_COUNT_OF(programs));
}

CaseTest(const int *number, overlaps, plans) {
    expect_bytes(&programs[*number]);
}

// Each slice of a moving average was exchanged for itself, 10 MB in all, in time that grew with the square of their
// number. bug: only what was shifted without a change of its size was exchanged together.
Test(overlaps, bug_hundreds_of_slices_were_exchanged_one_by_one) {
    enum { SLICES = 300, ROWS_OF_SLICE = 4096 - SLICES };
    HloText text = {0};
    hlo_text_string(&text,
                    "HloModule m, num_partitions=8\nENTRY e {\n p = f32[4096,2] parameter(0), "
                    "sharding={devices=[8,1]<=[8]}\n z = f32[] constant(0)\n a0 = f32[3796,2] broadcast(z), "
                    "dimensions={}\n");
    for (int k = 0; k < SLICES; k++)
        hlo_text_format(&text, " v%d = f32[%d,2] slice(p), slice={[%d:%d],[0:2]}\n %sa%d = f32[%d,2] add(a%d, v%d)%s\n",
                        k, ROWS_OF_SLICE, k, k + ROWS_OF_SLICE, k + 1 == SLICES ? "ROOT " : "", k + 1, ROWS_OF_SLICE, k,
                        k, k + 1 == SLICES ? ", sharding={devices=[8,1]<=[8]}" : "");
    hlo_text_string(&text, "}\n");
    HloModule *module = parse_text(text.data), *partitioned;
    SpmdReport *report;
    cr_assert_null(spmd_partition(module, NULL, &partitioned, &report));
    // Device i has from 512 i on and needs from 475 i on; 300 rows more than its own 475 or what is left of them.
    cr_expect_leq(report->collective_count, 3);
    cr_expect_leq(report->total_bytes_per_device, 2 * (512 + SLICES) * 8);
    spmd_report_free(report);
    hlo_module_free(partitioned);
    hlo_module_free(module);
    hlo_text_free(&text);
}

// ---- random ones

static const char *const shardings[] = {"",
                                        ", sharding={devices=[4,1]<=[4]}",
                                        ", sharding={devices=[1,4]<=[4]}",
                                        ", sharding={devices=[2,2]<=[4]}",
                                        ", sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}",
                                        ", sharding={devices=[2,2]<=[2,2]T(1,0)}"};

static const char *any_sharding(Random *random) {
    return shardings[random_under(random, HLO_COUNT_OF(shardings))];
}

// Slices of one or two sizes, some with a stride or a sharding of their own, added up.
static void write_program(HloText *text, Random *random) {
    const int64_t rows = 1 + (int64_t)random_under(random, 20), columns = 1 + (int64_t)random_under(random, 7);
    const int64_t height = 1 + (int64_t)random_under(random, (uint64_t)rows);
    const int64_t width = random_under(random, 2) ? columns : 1 + (int64_t)random_under(random, (uint64_t)columns);
    const uint64_t count = 2 + random_under(random, 6);
    hlo_text_format(text, "HloModule m, num_partitions=4\nENTRY e {\n p = f32[%lld,%lld] parameter(0)%s\n",
                    (long long)rows, (long long)columns, any_sharding(random));
    hlo_text_format(text, " q = f32[%lld,%lld] sine(p)\n", (long long)rows, (long long)columns);
    for (uint64_t i = 0; i < count; i++) {
        const int64_t top = (int64_t)random_under(random, (uint64_t)(rows - height + 1));
        const int64_t left = (int64_t)random_under(random, (uint64_t)(columns - width + 1));
        const bool far = top + 2 * height - 1 <= rows && !random_under(random, 4);
        hlo_text_format(text, " v%d = f32[%lld,%lld] slice(%s), slice={[%lld:%lld:%d],[%lld:%lld]}%s\n", (int)i,
                        (long long)height, (long long)width, random_under(random, 4) ? "q" : "p", (long long)top,
                        (long long)(far ? top + 2 * height - 1 : top + height), far ? 2 : 1, (long long)left,
                        (long long)(left + width), random_under(random, 5) ? "" : any_sharding(random));
    }
    for (uint64_t i = 1; i < count; i++) {
        char before[32];
        snprintf(before, sizeof(before), i == 1 ? "v0" : "a%d", (int)i - 1);
        hlo_text_format(text, " %sa%d = f32[%lld,%lld] %s(%s, v%d)%s\n", i + 1 == count ? "ROOT " : "", (int)i,
                        (long long)height, (long long)width, random_under(random, 2) ? "add" : "subtract", before,
                        (int)i, i + 1 == count ? any_sharding(random) : "");
    }
    hlo_text_string(text, "}\n");
}

// MESHLO_RANDOM_PROGRAMS: how many.
Test(overlaps, random_ones_are_the_same_partitioned) {
    const char *many = getenv("MESHLO_RANDOM_PROGRAMS");
    const uint64_t count = many ? strtoull(many, NULL, 10) : 300;
    Random random = {53};
    for (uint64_t seed = 1; seed <= count; seed++) {
        HloText text = {0};
        write_program(&text, &random);
        check_partitioned(text.data, NULL, seed);
        hlo_text_free(&text);
    }
}
