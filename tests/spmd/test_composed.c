// SPDX-License-Identifier: Apache-2.0
// Windows of arrays whose edges are repeated, mirrored or taken from the other end: taken from the array itself.
#include <criterion/criterion.h>
#include <stdlib.h>

#include "hlo/base/text.h"
#include "tests/spmd/check.h"
#include "tests/support/cases.h"
#include "tests/support/random.h"

#define ROWS ", sharding={devices=[4,1]<=[4]}"
#define TILES ", sharding={devices=[2,2]<=[4]}"
// f32[32,8] with one row more on both sides.
#define LONGER(First, Last) " q = f32[34,8] concatenate(" First ", p, " Last "), dimensions={0}\n"
#define FIRST " f = f32[1,8] slice(p), slice={[0:1],[0:8]}\n"
#define LAST " l = f32[1,8] slice(p), slice={[31:32],[0:8]}\n"
#define THREE                                                                                        \
    " a = f32[32,8] slice(q), slice={[0:32],[0:8]}\n b = f32[32,8] slice(q), slice={[1:33],[0:8]}\n" \
    " c = f32[32,8] slice(q), slice={[2:34],[0:8]}\n s = f32[32,8] add(a, b)\n ROOT t = f32[32,8] add(s, c)" ROWS "\n"
#define PROGRAM(Body) "HloModule m, num_partitions=4\nENTRY e {\n p = f32[32,8] parameter(0)" ROWS "\n" Body "}\n"

// Bytes by hand: one row of 8 from each side.
static const SentBytes programs[] = {
    {"from the other end", PROGRAM(FIRST LAST LONGER("l", "f") THREE), 2 * 8 * 4},
    {"repeated", PROGRAM(FIRST LAST LONGER("f", "l") THREE), 2 * 8 * 4},
    {"mirrored",
     PROGRAM(" f = f32[1,8] slice(p), slice={[1:2],[0:8]}\n l = f32[1,8] slice(p), slice={[30:31],[0:8]}\n" LONGER(
         "f", "l") THREE),
     2 * 8 * 4},
    {"two mirrored rows",
     PROGRAM(" f = f32[2,8] slice(p), slice={[1:3],[0:8]}\n g = f32[2,8] reverse(f), dimensions={0}\n"
             " q = f32[34,8] concatenate(g, p), dimensions={0}\n a = f32[32,8] slice(q), slice={[0:32],[0:8]}\n"
             " b = f32[32,8] slice(q), slice={[1:33],[0:8]}\n ROOT t = f32[32,8] add(a, b)" ROWS "\n"),
     2 * 8 * 4},
    {"two repeated rows",
     PROGRAM(FIRST " g = f32[1,2,8] broadcast(f), dimensions={0,2}\n h = f32[2,8] reshape(g)\n"
                   " q = f32[34,8] concatenate(h, p), dimensions={0}\n a = f32[32,8] slice(q), slice={[0:32],[0:8]}\n"
                   " b = f32[32,8] slice(q), slice={[1:33],[0:8]}\n ROOT t = f32[32,8] add(a, b)" ROWS "\n"),
     2 * 8 * 4},
    // Game of life: rows of 4, then columns of 16 + 2.
    {"a convolution over both dimensions",
     "HloModule m, num_partitions=4\nENTRY e {\n p = f32[32,8] parameter(0)" TILES
     "\n k = f32[3,3,1,1] parameter(1)\n" FIRST LAST LONGER(
         "l", "f") " u = f32[34,1] slice(q), slice={[0:34],[0:1]}\n v = f32[34,1] slice(q), slice={[0:34],[7:8]}\n"
                   " w = f32[34,10] concatenate(v, q, u), dimensions={1}\n x = f32[1,1,34,10] reshape(w)\n"
                   " y = f32[1,1,32,8] convolution(x, k), window={size=3x3}, dim_labels=bf01_01io->bf01\n"
                   " ROOT t = f32[32,8] reshape(y)" TILES "\n}\n",
     (2 * 4 + 2 * 18) * 4},
    {"a sum over a window",
     "HloModule m, num_partitions=4\nadd {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n"
     " ROOT s = f32[] add(a, b)\n}\nENTRY e {\n p = f32[32,8] parameter(0)" ROWS
     "\n z = f32[] constant(0)\n" FIRST LAST LONGER(
         "f", "l") " ROOT t = f32[32,8] reduce-window(q, z), window={size=3x1}, to_apply=add" ROWS "\n}\n",
     2 * 8 * 4},
    // A pad of zeros is the convolution's own padding.
    {"a padded convolution",
     "HloModule m, num_partitions=4\nENTRY e {\n p = f32[32,8] parameter(0)" ROWS "\n k = f32[3,8,8] parameter(1)\n"
     " z = f32[] constant(0)\n q = f32[34,8] pad(p, z), padding=1_1x0_0\n x = f32[1,34,8] reshape(q)\n"
     " y = f32[1,32,8] convolution(x, k), window={size=3}, dim_labels=b0f_0io->b0f\n"
     " ROOT t = f32[32,8] reshape(y)" ROWS "\n}\n",
     2 * 8 * 4},
};

CaseList(composed, plans) {
    return cases_numbered(HLO_COUNT_OF(programs));
}

CaseTest(const int *number, composed, plans) {
    expect_bytes(&programs[*number]);
}

// ---- random ones

typedef struct Writer {
    HloText text;
    Random *random;
    int64_t dims[2];  // of the array v<name>
    int name, next;
} Writer;

static int64_t under(Writer *writer, int64_t limit) {
    return (int64_t)random_under(writer->random, (uint64_t)limit);
}

static const char *any_sharding(Writer *writer) {
    static const char *const shardings[] = {"",
                                            ROWS,
                                            TILES,
                                            TILES,
                                            ", sharding={devices=[1,4]<=[4]}",
                                            ", sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}",
                                            ", sharding={devices=[2,2]<=[2,2]T(1,0)}"};
    return shardings[under(writer, HLO_COUNT_OF(shardings))];
}

// Rows or columns [start, start + size) of the array; their name.
static int write_slice(Writer *writer, int dim, int64_t start, int64_t size) {
    int64_t starts[2] = {0, 0}, limits[2] = {writer->dims[0], writer->dims[1]};
    starts[dim] = start;
    limits[dim] = start + size;
    hlo_text_format(&writer->text, " v%d = f32[%lld,%lld] slice(v%d), slice={[%lld:%lld],[%lld:%lld]}\n", writer->next,
                    (long long)(limits[0] - starts[0]), (long long)(limits[1] - starts[1]), writer->name,
                    (long long)starts[0], (long long)limits[0], (long long)starts[1], (long long)limits[1]);
    return writer->next++;
}

// `size` elements for one end of a dimension: of the other end, mirrored, or the last one repeated. Its name.
static int write_edge(Writer *writer, int dim, int64_t size, bool low) {
    const int64_t whole = writer->dims[dim];
    int64_t dims[2] = {writer->dims[0], writer->dims[1]};
    dims[dim] = size;
    switch (under(writer, 3)) {
        case 0: return write_slice(writer, dim, low ? whole - size : 0, size);
        case 1: {
            const int part = write_slice(writer, dim, low ? 0 : whole - size, size);
            hlo_text_format(&writer->text, " v%d = f32[%lld,%lld] reverse(v%d), dimensions={%d}\n", writer->next,
                            (long long)dims[0], (long long)dims[1], part, dim);
            return writer->next++;
        }
        default: {
            const int part = write_slice(writer, dim, low ? 0 : whole - 1, 1);
            const bool before = under(writer, 2);
            const int64_t sizes[2] = {before ? size : 1, before ? 1 : size};
            hlo_text_format(&writer->text,
                            dim ? " v%d = f32[%lld,%lld,%lld] broadcast(v%d), dimensions={0,%d}\n"
                                : " v%d = f32[%lld,%lld,%lld] broadcast(v%d), dimensions={%d,2}\n",
                            writer->next, (long long)(dim ? dims[0] : sizes[0]), (long long)sizes[!dim],
                            (long long)(dim ? sizes[1] : dims[1]), part, dim ? (before ? 2 : 1) : before);
            hlo_text_format(&writer->text, " v%d = f32[%lld,%lld] reshape(v%d)\n", writer->next + 1, (long long)dims[0],
                            (long long)dims[1], writer->next);
            writer->next += 2;
            return writer->next - 1;
        }
    }
}

// Makes the array longer along one dimension, by at most as much as it has.
static void write_longer(Writer *writer, int dim) {
    const int64_t most = writer->dims[dim] < 3 ? writer->dims[dim] : 3;
    const int64_t low = under(writer, most + 1), high = under(writer, most + 1);
    if (!low && !high) return;
    const int first = low ? write_edge(writer, dim, low, true) : 0,
              last = high ? write_edge(writer, dim, high, false) : 0;
    HloText parts = {0};
    if (low) hlo_text_format(&parts, "v%d, ", first);
    hlo_text_format(&parts, "v%d", writer->name);
    if (high) hlo_text_format(&parts, ", v%d", last);
    writer->dims[dim] += low + high;
    hlo_text_format(&writer->text, " v%d = f32[%lld,%lld] concatenate(%s), dimensions={%d}\n", writer->next,
                    (long long)writer->dims[0], (long long)writer->dims[1], parts.data, dim);
    hlo_text_free(&parts);
    writer->name = writer->next++;
}

// A sum of slices of one shape.
static void write_slices(Writer *writer) {
    int64_t sizes[2];
    for (int d = 0; d < 2; d++) sizes[d] = writer->dims[d] - under(writer, writer->dims[d] < 3 ? writer->dims[d] : 3);
    int sum = -1;
    for (int64_t count = 2 + under(writer, 3); count > 0; count--) {
        int64_t starts[2];
        for (int d = 0; d < 2; d++) starts[d] = under(writer, writer->dims[d] - sizes[d] + 1);
        const int slice = writer->next++;
        hlo_text_format(&writer->text, " v%d = f32[%lld,%lld] slice(v%d), slice={[%lld:%lld],[%lld:%lld]}\n", slice,
                        (long long)sizes[0], (long long)sizes[1], writer->name, (long long)starts[0],
                        (long long)(starts[0] + sizes[0]), (long long)starts[1], (long long)(starts[1] + sizes[1]));
        if (sum >= 0)
            hlo_text_format(&writer->text, " v%d = f32[%lld,%lld] subtract(v%d, v%d)\n", writer->next++,
                            (long long)sizes[0], (long long)sizes[1], slice, sum);
        sum = writer->next - 1;
    }
    writer->name = writer->next - 1;
    for (int d = 0; d < 2; d++) writer->dims[d] = sizes[d];
}

// A convolution or a reduction over windows of up to 3 x 3.
static void write_windows(Writer *writer) {
    int64_t sizes[2], strides[2], dims[2];
    for (int d = 0; d < 2; d++) {
        sizes[d] = 1 + under(writer, writer->dims[d] < 3 ? writer->dims[d] : 3);
        strides[d] = 1 + under(writer, 2);
        dims[d] = (writer->dims[d] - sizes[d]) / strides[d] + 1;
    }
    const int at = writer->next;
    writer->next += 4;
    if (under(writer, 2)) {
        hlo_text_format(&writer->text,
                        " v%d = f32[%lld,%lld] reduce-window(v%d, z), window={size=%lldx%lld stride=%lldx%lld}, "
                        "to_apply=add\n",
                        at + 3, (long long)dims[0], (long long)dims[1], writer->name, (long long)sizes[0],
                        (long long)sizes[1], (long long)strides[0], (long long)strides[1]);
    } else {
        hlo_text_format(&writer->text,
                        under(writer, 2) ? " v%d = f32[1,1,%lld,%lld] reshape(v%d)\n"
                                         : " v%d = f32[1,1,%lld,%lld] broadcast(v%d), dimensions={2,3}\n",
                        at, (long long)writer->dims[0], (long long)writer->dims[1], writer->name);
        hlo_text_format(&writer->text, " v%d = f32[%lld,%lld,1,1] broadcast(c), dimensions={}\n", at + 1,
                        (long long)sizes[0], (long long)sizes[1]);
        hlo_text_format(&writer->text,
                        " v%d = f32[1,1,%lld,%lld] convolution(v%d, v%d), window={size=%lldx%lld "
                        "stride=%lldx%lld}, dim_labels=bf01_01io->bf01\n v%d = f32[%lld,%lld] reshape(v%d)\n",
                        at + 2, (long long)dims[0], (long long)dims[1], at, at + 1, (long long)sizes[0],
                        (long long)sizes[1], (long long)strides[0], (long long)strides[1], at + 3, (long long)dims[0],
                        (long long)dims[1], at + 2);
    }
    writer->name = at + 3;
    for (int d = 0; d < 2; d++) writer->dims[d] = dims[d];
}

static void write_program(Writer *writer) {
    for (int d = 0; d < 2; d++) writer->dims[d] = 1 + under(writer, 18);
    hlo_text_format(&writer->text,
                    "HloModule m, num_partitions=4\nadd {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n"
                    " ROOT s = f32[] add(a, b)\n}\nENTRY e {\n p = f32[%lld,%lld] parameter(0)%s\n"
                    " z = f32[] constant(0)\n c = f32[] constant(0.5)\n v0 = f32[%lld,%lld] sine(p)\n",
                    (long long)writer->dims[0], (long long)writer->dims[1], any_sharding(writer),
                    (long long)writer->dims[0], (long long)writer->dims[1]);
    writer->next = 1;
    for (int64_t times = 1 + under(writer, 3); times > 0; times--) write_longer(writer, (int)under(writer, 2));
    if (under(writer, 2))
        write_slices(writer);
    else
        write_windows(writer);
    hlo_text_format(&writer->text, " ROOT r = f32[%lld,%lld] negate(v%d)%s\n}\n", (long long)writer->dims[0],
                    (long long)writer->dims[1], writer->name, any_sharding(writer));
}

// MESHLO_RANDOM_PROGRAMS: how many.
Test(composed, random_ones_are_the_same_partitioned) {
    const char *many = getenv("MESHLO_RANDOM_PROGRAMS");
    const uint64_t count = many ? strtoull(many, NULL, 10) : 400;
    Random random = {61};
    for (uint64_t seed = 1; seed <= count; seed++) {
        Writer writer = {.random = &random};
        write_program(&writer);
        check_partitioned(writer.text.data, NULL, seed);
        hlo_text_free(&writer.text);
    }
}
