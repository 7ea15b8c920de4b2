// SPDX-License-Identifier: Apache-2.0
// Concatenations of parts of arrays along a sharded dimension: what is exchanged is what the parts are taken from. And
// slices that split one: they are exchanged together.
#include <criterion/criterion.h>

#include "hlo/base/text.h"
#include "tests/spmd/check.h"
#include "tests/support/cases.h"
#include "tests/support/random.h"

#define ROWS(Shape, Body)                                                                                         \
    "HloModule m, num_partitions=4\nENTRY e {\n p = " Shape " parameter(0), sharding={devices=[4,1]<=[4]}\n" Body \
    "}"                                                                                                           \
    "\n"
#define RESULT(Shape, Op) " ROOT t = " Shape " " Op ", sharding={devices=[4,1]<=[4]}\n"

static const SentBytes programs[] = {
    // One permute to the device halfway round.
    {"half an array, rotated and negated",
     ROWS("f32[16,3]",
          " a = f32[8,3] slice(p), slice={[0:8],[0:3]}\n b = f32[8,3] slice(p), slice={[8:16],[0:3]}\n"
          " n = f32[8,3] negate(b)\n" RESULT("f32[16,3]", "concatenate(n, a), dimensions={0}")),
     4 * 3 * 4},
    {"half an array, uneven",
     ROWS("f32[14,3]",
          " a = f32[7,3] slice(p), slice={[0:7],[0:3]}\n b = f32[7,3] slice(p), slice={[7:14],[0:3]}\n"
          " n = f32[7,3] negate(b)\n" RESULT("f32[14,3]", "concatenate(n, a), dimensions={0}")),
     (4 + 1) * 3 * 4},
    {"halves of size one",
     ROWS("f32[4,1]",
          " a = f32[2,1] slice(p), slice={[0:2],[0:1]}\n b = f32[2,1] slice(p), slice={[2:4],[0:1]}\n"
          " n = f32[2,1] negate(b)\n" RESULT("f32[4,1]", "concatenate(n, a), dimensions={0}")),
     4},
    {"halves of two axes",
     "HloModule m, num_partitions=4\nENTRY e {\n p = f32[8,6] parameter(0), sharding={devices=[2,2]<=[4]}\n"
     " a = f32[4,6] slice(p), slice={[0:4],[0:6]}\n b = f32[4,6] slice(p), slice={[4:8],[0:6]}\n"
     " n = f32[4,6] negate(b)\n ROOT t = f32[8,6] concatenate(n, a), dimensions={0}, "
     "sharding={devices=[2,2]<=[4]}\n}\n",
     4 * 3 * 4},
    // The halves of p are p as it is in one column, and p rotated in the other. The angles are everywhere.
    {"a rotary embedding of halves",
     ROWS("f32[16,3]",
          " c = f32[8] parameter(1), sharding={replicated}\n s = f32[8] parameter(2), sharding={replicated}\n"
          " a = f32[8,3] slice(p), slice={[0:8],[0:3]}\n b = f32[8,3] slice(p), slice={[8:16],[0:3]}\n"
          " d = f32[8,3] broadcast(c), dimensions={0}\n e = f32[8,3] broadcast(s), dimensions={0}\n"
          " f = f32[8,3] multiply(a, d)\n g = f32[8,3] multiply(b, e)\n h = f32[8,3] subtract(f, g)\n"
          " i = f32[8,3] multiply(b, d)\n j = f32[8,3] multiply(a, e)\n k = f32[8,3] add(i, j)\n" RESULT(
              "f32[16,3]", "concatenate(h, k), dimensions={0}")),
     4 * 3 * 4},
    // The second half is needed in the first one.
    {"a gate",
     ROWS("f32[16,3]",
          " a = f32[8,3] slice(p), slice={[0:8],[0:3]}\n b = f32[8,3] slice(p), slice={[8:16],[0:3]}\n"
          " g = f32[8,3] multiply(a, b)\n" RESULT("f32[16,3]", "concatenate(g, b), dimensions={0}")),
     4 * 3 * 4},
    {"an array put together again",
     ROWS("f32[16,3]",
          " a = f32[5,3] slice(p), slice={[0:5],[0:3]}\n b = f32[11,3] slice(p), slice={[5:16],[0:3]}\n"
          " n = f32[11,3] negate(b)\n" RESULT("f32[16,3]", "concatenate(a, n), dimensions={0}")),
     0},
    {"a shift with a last row that all devices have",
     ROWS("f32[16,3]",
          " v = f32[1,3] parameter(1), sharding={replicated}\n"
          " a = f32[15,3] slice(p), slice={[1:16],[0:3]}\n" RESULT("f32[16,3]", "concatenate(a, v), dimensions={0}")),
     3 * 4},
    {"a shift that repeats the last row",
     ROWS("f32[16,3]",
          " v = f32[1,3] slice(p), slice={[15:16],[0:3]}\n"
          " a = f32[15,3] slice(p), slice={[1:16],[0:3]}\n" RESULT("f32[16,3]", "concatenate(a, v), dimensions={0}")),
     3 * 4},
    {"windows of an array that is continued periodically",
     ROWS("f32[16,3]",
          " a = f32[1,3] slice(p), slice={[15:16],[0:3]}\n b = f32[1,3] slice(p), slice={[0:1],[0:3]}\n"
          " q = f32[18,3] concatenate(a, p, b), dimensions={0}\n c = f32[16,3] slice(q), slice={[0:16],[0:3]}\n"
          " d = f32[16,3] slice(q), slice={[2:18],[0:3]}\n" RESULT("f32[16,3]", "subtract(c, d)")),
     2 * 3 * 4},
    {"windows of an array that is continued in both dimensions",
     ROWS("f32[16,3]",
          " a = f32[1,3] slice(p), slice={[15:16],[0:3]}\n b = f32[1,3] slice(p), slice={[0:1],[0:3]}\n"
          " q = f32[18,3] concatenate(a, p, b), dimensions={0}\n c = f32[18,1] slice(q), slice={[0:18],[2:3]}\n"
          " d = f32[18,1] slice(q), slice={[0:18],[0:1]}\n r = f32[18,5] concatenate(c, q, d), dimensions={1}\n" RESULT(
              "f32[16,3]", "slice(r), slice={[0:16],[2:5]}")),
     3 * 4},
    // A device sends two of the three parts of its shard: two permutes of two rows.
    {"a split in three",
     ROWS("f32[24,3]",
          " a = f32[8,3] slice(p), slice={[0:8],[0:3]}\n b = f32[8,3] slice(p), slice={[8:16],[0:3]}\n"
          " c = f32[8,3] slice(p), slice={[16:24],[0:3]}\n d = f32[8,3] multiply(a, b)\n" RESULT("f32[8,3]",
                                                                                                 "add(c, d)")),
     2 * 2 * 3 * 4},
    {"a split in two, uneven",
     ROWS("f32[13,3]",
          " a = f32[6,3] slice(p), slice={[0:6],[0:3]}\n b = f32[6,3] slice(p), slice={[7:13],[0:3]}\n" RESULT(
              "f32[6,3]", "multiply(a, b)")),
     2 * 2 * 3 * 4},
    {"a split in rows",
     ROWS("f32[8,1]",
          " a = f32[4,1] slice(p), slice={[0:4],[0:1]}\n b = f32[4,1] slice(p), slice={[4:8],[0:1]}\n" RESULT(
              "f32[4,1]", "multiply(a, b)")),
     2 * 4},
    {"a split of one of two axes",
     "HloModule m, num_partitions=4\nENTRY e {\n p = f32[12,6] parameter(0), sharding={devices=[2,2]<=[4]}\n"
     " a = f32[4,6] slice(p), slice={[0:4],[0:6]}\n b = f32[4,6] slice(p), slice={[4:8],[0:6]}\n"
     " c = f32[4,6] slice(p), slice={[8:12],[0:6]}\n d = f32[4,6] multiply(a, b)\n"
     " ROOT t = f32[4,6] add(c, d), sharding={devices=[2,2]<=[4]}\n}\n",
     2 * 3 * 4},
    // %b overlaps %a; %c and %d, which are exchanged with %a, are not exchanged again with %b.
    {"two splits that overlap",
     "HloModule m, num_partitions=4\nENTRY e {\n p = f32[64] parameter(0), sharding={devices=[4]<=[4]}\n"
     " a = f32[16] slice(p), slice={[0:16]}\n b = f32[16] slice(p), slice={[8:24]}\n"
     " c = f32[16] slice(p), slice={[24:40]}\n d = f32[16] slice(p), slice={[40:56]}\n f = f32[16] add(a, b)\n"
     " g = f32[16] add(c, d)\n ROOT t = f32[16] multiply(f, g), sharding={devices=[4]<=[4]}\n}\n",
     80},
};

CaseList(assembled, plans) {
    return cases_numbered(HLO_COUNT_OF(programs));
}

CaseTest(const int *number, assembled, plans) {
    expect_bytes(&programs[*number]);
}

// Two broadcasts of one part, which shard different dimensions of it.
Test(assembled, part_in_two_shardings) {
    check_partitioned(
        "HloModule m, num_partitions=4\nENTRY e {\n"
        " p = f32[16,4] parameter(0), sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}\n"
        " a = f32[8,4] slice(p), slice={[8:16],[0:4]}\n b = f32[8,4] slice(p), slice={[0:8],[0:4]}\n"
        " c = f32[8,4,4] broadcast(a), dimensions={0,1}\n d = f32[8,4,4] broadcast(a), dimensions={0,2}\n"
        " f = f32[8,4,4] subtract(c, d)\n g = f32[8,4,4] broadcast(b), dimensions={0,1}\n"
        " h = f32[8,4,4] broadcast(b), dimensions={0,2}\n i = f32[8,4,4] multiply(g, h)\n"
        " ROOT t = f32[16,4,4] concatenate(f, i), dimensions={0}, sharding={devices=[2,2,1]<=[4]}\n}\n",
        NULL, 7);
}

// The same broadcast of one column in two regions, to different sizes of the other dimension.
Test(assembled, broadcasts_of_different_sizes) {
    check_partitioned(
        "HloModule m, num_partitions=4\nENTRY e {\n p = f32[16] parameter(0), sharding={devices=[4]<=[4]}\n"
        " v = f32[2] parameter(1), sharding={replicated}\n w = f32[3] parameter(2), sharding={replicated}\n"
        " a = f32[8] slice(p), slice={[8:16]}\n b = f32[8] slice(p), slice={[0:8]}\n"
        " c = f32[8,2] broadcast(a), dimensions={0}\n d = f32[8,2] broadcast(v), dimensions={1}\n"
        " f = f32[8,2] add(c, d)\n g = f32[8,2,3] broadcast(f), dimensions={0,1}\n"
        " h = f32[8,3] broadcast(b), dimensions={0}\n i = f32[8,3] broadcast(w), dimensions={1}\n"
        " j = f32[8,3] multiply(h, i)\n k = f32[8,2,3] broadcast(j), dimensions={0,2}\n"
        " ROOT t = f32[16,2,3] concatenate(g, k), dimensions={0}, sharding={devices=[4,1,1]<=[4]}\n}\n",
        NULL, 7);
}

// A chain of concatenations of slices that reverse the order of blocks: each slice leads to all of the chain before it.
// Following every slice for itself would take as many steps as there are ways through the chain.
Test(assembled, a_chain_of_splits, .timeout = 20) {
    HloText text = {0};
    hlo_text_string(&text,
                    "HloModule m, num_partitions=4\nENTRY e {\n c0 = f32[48,4] parameter(0), "
                    "sharding={devices=[2,2]<=[4]}\n");
    int end = 0;
    for (; end < 8; end++) {
        const int first =
            end % 2 ? 2 : 4;  // the size of the first block, so that blocks are not those of the one before
        int count = 0;
        for (int start = 0; start < 48; count++) {
            const int size = start == 0 ? first : start + 4 < 48 ? 4 : 48 - start;
            hlo_text_format(&text, " v%d_%d = f32[%d,4] slice(c%d), slice={[%d:%d],[0:4]}\n", end, count, size, end,
                            start, start + size);
            start += size;
        }
        hlo_text_format(&text, " c%d = f32[48,4] concatenate(", end + 1);
        while (count-- > 0) hlo_text_format(&text, "v%d_%d%s", end, count, count ? ", " : "), dimensions={0}\n");
    }
    hlo_text_format(&text,
                    " ROOT t = f32[48,8] concatenate(c%d, c%d), dimensions={1}, "
                    "sharding={devices=[2,2]<=[4]}\n}\n",
                    end, end);
    check_partitioned(text.data, NULL, 7);
    hlo_text_free(&text);
}

// ---- random ones

static const char *const shardings[] = {"[4,1]<=[4]", "[2,2]<=[4]", "[1,4]<=[4]",
                                        "[2,1,2]<=[4] last_tile_dim_replicate", "[4,1]<=[2,2]T(1,0)"};

static const char *any_sharding(Random *random) {
    return shardings[random_under(random, HLO_COUNT_OF(shardings))];
}

// Appends rows [start, start + size) of the array %p or %q, with a name that is returned.
static int64_t write_slice(HloText *text, Random *random, int64_t *names, int64_t rows, int64_t columns, int64_t size) {
    const int64_t start = (int64_t)random_under(random, (uint64_t)(rows - size + 1)), name = (*names)++;
    hlo_text_format(text, " v%lld = f32[%lld,%lld] slice(%s), slice={[%lld:%lld],[0:%lld]}\n", (long long)name,
                    (long long)size, (long long)columns, random_under(random, 3) ? "p" : "q", (long long)start,
                    (long long)(start + size), (long long)columns);
    return name;
}

// Appends a part of `size` rows: a slice, or an elementwise function of slices, a replicated vector and a scalar.
static int64_t write_part(HloText *text, Random *random, int64_t *names, int64_t rows, int64_t columns, int64_t size) {
    int64_t part = write_slice(text, random, names, rows, columns, size);
    for (uint64_t ops = random_under(random, 4); ops > 0; ops--) {
        const uint64_t kind = random_under(random, 4);
        int64_t other = part;
        if (kind == 1) other = write_slice(text, random, names, rows, columns, size);
        if (kind == 2) {
            other = (*names)++;
            hlo_text_format(text, " v%lld = f32[%lld,%lld] broadcast(s), dimensions={}\n", (long long)other,
                            (long long)size, (long long)columns);
        }
        if (kind == 3) {
            other = (*names)++;
            hlo_text_format(text, " v%lld = f32[%lld,%lld] broadcast(c), dimensions={1}\n", (long long)other,
                            (long long)size, (long long)columns);
        }
        const int64_t made = (*names)++;
        hlo_text_format(text, " v%lld = f32[%lld,%lld] ", (long long)made, (long long)size, (long long)columns);
        if (kind)
            hlo_text_format(text, "%s(v%lld, v%lld)\n", random_under(random, 2) ? "multiply" : "subtract",
                            (long long)part, (long long)other);
        else
            hlo_text_format(text, "negate(v%lld)\n", (long long)part);
        part = made;
    }
    return part;
}

// A concatenation of up to four parts, and perhaps a slice of it.
static void write_program(HloText *text, Random *random) {
    const int64_t rows = 1 + (int64_t)random_under(random, 14), columns = 1 + (int64_t)random_under(random, 5);
    int64_t names = 0, parts[4], total = 0;
    hlo_text_format(
        text,
        "HloModule m, num_partitions=4\nENTRY e {\n p = f32[%lld,%lld] parameter(0), sharding={devices=%s}\n"
        " q = f32[%lld,%lld] parameter(1), sharding={devices=%s}\n c = f32[%lld] parameter(2)\n"
        " s = f32[] parameter(3)\n",
        (long long)rows, (long long)columns, any_sharding(random), (long long)rows, (long long)columns,
        any_sharding(random), (long long)columns);
    const uint64_t count = 1 + random_under(random, 4);
    for (uint64_t i = 0; i < count; i++) {
        const int64_t size = 1 + (int64_t)random_under(random, (uint64_t)rows);
        parts[i] = write_part(text, random, &names, rows, columns, size);
        total += size;
    }
    const bool slices = random_under(random, 2);
    hlo_text_format(text, " %sj = f32[%lld,%lld] concatenate(", slices ? "" : "ROOT ", (long long)total,
                    (long long)columns);
    for (uint64_t i = 0; i < count; i++) hlo_text_format(text, "%sv%lld", i ? ", " : "", (long long)parts[i]);
    hlo_text_format(text, "), dimensions={0}");
    if (!slices) {
        hlo_text_format(text, ", sharding={devices=%s}\n}\n", any_sharding(random));
        return;
    }
    const int64_t size = 1 + (int64_t)random_under(random, (uint64_t)total);
    const int64_t start = (int64_t)random_under(random, (uint64_t)(total - size + 1));
    const int64_t left = (int64_t)random_under(random, (uint64_t)columns);
    hlo_text_format(text,
                    "\n ROOT t = f32[%lld,%lld] slice(j), slice={[%lld:%lld],[%lld:%lld]}, sharding={devices=%s}\n}\n",
                    (long long)size, (long long)(columns - left), (long long)start, (long long)(start + size),
                    (long long)left, (long long)columns, any_sharding(random));
}

Test(assembled, random_parts) {
    Random random = {41};
    for (int trial = 0; trial < 300; trial++) {
        HloText text = {0};
        write_program(&text, &random);
        check_partitioned(text.data, NULL, 7);
        hlo_text_free(&text);
    }
}

// Up to five slices one after the other, with gaps, as results.
static void write_split(HloText *text, Random *random) {
    const long long rows = 2 + (long long)random_under(random, 30), columns = 1 + (long long)random_under(random, 3);
    const char *sharding = any_sharding(random);
    long long end = 0, sizes[5];
    int64_t count = 0;
    hlo_text_format(text,
                    "HloModule m, num_partitions=4\nENTRY e {\n p = f32[%lld,%lld] parameter(0), "
                    "sharding={devices=%s}\n",
                    rows, columns, sharding);
    while (count < 5 && end < rows) {
        const long long start = end + (random_under(random, 3) ? 0 : (long long)random_under(random, 2));
        if (start >= rows) break;
        sizes[count] = 1 + (long long)random_under(random, (uint64_t)(rows - start));
        end = start + sizes[count];
        hlo_text_format(text, " v%lld = f32[%lld,%lld] slice(p), slice={[%lld:%lld],[0:%lld]}\n", (long long)count,
                        sizes[count], columns, start, end, columns);
        count++;
    }
    hlo_text_string(text, " ROOT t = (");
    for (int64_t i = 0; i < count; i++) hlo_text_format(text, "%sf32[%lld,%lld]", i ? ", " : "", sizes[i], columns);
    hlo_text_string(text, ") tuple(");
    for (int64_t i = 0; i < count; i++) hlo_text_format(text, "%sv%lld", i ? ", " : "", (long long)i);
    hlo_text_string(text, "), sharding={");
    for (int64_t i = 0; i < count; i++)
        hlo_text_format(text, "%s{devices=%s}", i ? ", " : "",
                        random_under(random, 8) ? sharding : any_sharding(random));
    hlo_text_string(text, "}\n}\n");
}

Test(assembled, random_splits) {
    Random random = {43};
    for (int trial = 0; trial < 300; trial++) {
        HloText text = {0};
        write_split(&text, &random);
        check_partitioned(text.data, NULL, 7);
        hlo_text_free(&text);
    }
}
