// SPDX-License-Identifier: Apache-2.0
// Arrays shifted along two sharded dimensions: the shard is exchanged once with margins, corners included.
#include <criterion/criterion.h>

#include "hlo/base/text.h"
#include "tests/spmd/check.h"
#include "tests/support/cases.h"
#include "tests/support/random.h"

// A sum of three of the shifts of an array over 2 x 2 devices, filled up with zeros.
#define CORNERS(Shape)                                                                                        \
    "HloModule m, num_partitions=4\nENTRY e {\n p = " Shape                                                   \
    " parameter(0), sharding={devices=[2,2]<=[4]}\n"                                                          \
    " z = f32[] constant(0)\n a = " Shape " pad(p, z), padding=1_-1x1_-1\n b = " Shape                        \
    " pad(p, z), padding=-1_1x-1_1\n c = " Shape " pad(p, z), padding=-1_1x1_-1\n d = " Shape                 \
    " pad(p, z), padding=0_0x1_-1\n e = " Shape " add(a, b)\n f = " Shape " multiply(c, d)\n ROOT t = " Shape \
    " add(e, f), sharding={devices=[2,2]<=[4]}\n}\n"

// The same shifts side by side along a third dimension.
#define PATCHES(Shape, All)                                                                           \
    "HloModule m, num_partitions=4\nENTRY e {\n p = " Shape                                           \
    " parameter(0), sharding={devices=[2,2,1]<=[4]}\n"                                                \
    " z = f32[] constant(0)\n a = " Shape " pad(p, z), padding=1_-1x1_-1x0_0\n b = " Shape            \
    " pad(p, z), padding=-1_1x-1_1x0_0\n c = " Shape " pad(p, z), padding=-1_1x1_-1x0_0\n d = " Shape \
    " pad(p, z), padding=0_0x1_-1x0_0\n ROOT t = " All                                                \
    " concatenate(a, b, c, d), dimensions={2}, sharding={devices=[2,2,1]<=[4]}\n}\n"

static const SentBytes programs[] = {
    // Two rows of 3 elements, and two columns of 4 + 2.
    {"corners", CORNERS("f32[8,6]"), (2 * 3 + 2 * 6) * 4},
    // The other device of each axis has what comes from both sides.
    {"corners of size one", CORNERS("f32[2,2]"), 2 * 3 * 4},
    // Patches side by side, as a convolution by hand has them, are no parts of the array.
    {"corners of patches", PATCHES("f32[8,6,1]", "f32[8,6,4]"), (2 * 3 + 2 * 6) * 4},
    {"corners of patches of size one", PATCHES("f32[2,2,1]", "f32[2,2,4]"), 2 * 3 * 4},
    // Rows along one axis, columns along the other: neither has a corner.
    {"no corners",
     "HloModule m, num_partitions=4\nENTRY e {\n p = f32[8,6] parameter(0), sharding={devices=[2,2]<=[4]}\n"
     " z = f32[] constant(0)\n a = f32[8,6] pad(p, z), padding=1_-1x0_0\n b = f32[8,6] pad(p, z), padding=0_0x1_-1\n"
     " ROOT t = f32[8,6] add(a, b), sharding={devices=[2,2]<=[4]}\n}\n",
     (3 + 4) * 4},
};

CaseList(shifts, plans) {
    return cases_numbered(HLO_COUNT_OF(programs));
}

CaseTest(const int *number, shifts, plans) {
    expect_bytes(&programs[*number]);
}

// ---- associative scans, as JAX writes them

typedef struct Scan {
    HloText text;
    int64_t names, columns;
} Scan;

// Appends an instruction with `rows` rows; its name.
static int64_t write_row_op(Scan *scan, int64_t rows, const char *format, ...) {
    hlo_text_format(&scan->text, " v%lld = f32[%lld,%lld] ", (long long)++scan->names, (long long)rows,
                    (long long)scan->columns);
    va_list arguments;
    va_start(arguments, format);
    hlo_text_format_list(&scan->text, format, arguments);
    va_end(arguments);
    hlo_text_string(&scan->text, "\n");
    return scan->names;
}

static long long write_slice(Scan *scan, int64_t of, int64_t start, int64_t limit, int64_t stride) {
    return write_row_op(scan, (limit - start + stride - 1) / stride, "slice(v%lld), slice={[%lld:%lld:%lld],[0:%lld]}",
                        (long long)of, (long long)start, (long long)limit, (long long)stride, (long long)scan->columns);
}

// The running maxima of the rows of `of`: those of pairs of rows, and between them each combined with the next row.
static long long write_scan(Scan *scan, int64_t of, int64_t rows) {
    if (rows < 2) return of;
    const int64_t half = rows / 2, others = rows - half;
    const long long first = write_slice(scan, of, 0, rows - 1, 2), second = write_slice(scan, of, 1, rows, 2);
    const long long odd = write_scan(scan, write_row_op(scan, half, "maximum(v%lld, v%lld)", first, second), half);
    long long even = write_slice(scan, of, 0, 1, 1);
    if (others > 1) {
        const long long before = write_slice(scan, odd, 0, others - 1, 1), next = write_slice(scan, of, 2, rows, 2);
        const long long more = write_row_op(scan, others - 1, "maximum(v%lld, v%lld)", before, next);
        even = write_row_op(scan, others, "concatenate(v%lld, v%lld), dimensions={0}", even, more);
    }
    const int is_odd = rows % 2;
    const long long spread = write_row_op(scan, rows, "pad(v%lld, z), padding=0_%d_1x0_0", even, !is_odd);
    const long long between = write_row_op(scan, rows, "pad(v%lld, z), padding=1_%d_1x0_0", odd, is_odd);
    return write_row_op(scan, rows, "add(v%lld, v%lld)", spread, between);
}

static const struct {
    const char *name, *devices;
    int64_t rows, columns, bytes;
} scans[] = {
    // The last row of each shard is the same in all levels that have two rows a shard, or more.
    {"levels", "[4,1]", 64, 3, 6 * 3 * 4},          {"six more levels", "[4,1]", 4096, 3, 6 * 3 * 4},
    {"levels, uneven", "[4,1]", 60, 3, 17 * 3 * 4}, {"levels, two axes", "[2,2]", 64, 6, 5 * 3 * 4},
    {"levels of size one", "[4,1]", 64, 1, 5 * 4},
};

CaseList(shifts, scans) {
    return cases_numbered(HLO_COUNT_OF(scans));
}

CaseTest(const int *number, shifts, scans) {
    Scan scan = {.names = 0, .columns = scans[*number].columns};
    hlo_text_format(&scan.text,
                    "HloModule m, num_partitions=4\nENTRY e {\n v0 = f32[%lld,%lld] parameter(0), "
                    "sharding={devices=%s<=[4]}\n z = f32[] constant(0)\n",
                    (long long)scans[*number].rows, (long long)scan.columns, scans[*number].devices);
    const long long made = write_scan(&scan, 0, scans[*number].rows);
    hlo_text_format(&scan.text, " ROOT t = f32[%lld,%lld] negate(v%lld), sharding={devices=%s<=[4]}\n}\n",
                    (long long)scans[*number].rows, (long long)scan.columns, made, scans[*number].devices);
    expect_bytes(&(SentBytes){scans[*number].name, scan.text.data, scans[*number].bytes});
    hlo_text_free(&scan.text);
}

// ---- sums with zero

// An array of `Type`, put between the elements of itself and shifted by one: a shard's last element is one of the
// array's, plus `Zero`. Its elements are made of v, which is made of k, `Number` everywhere; `Back` makes numbers of h.
#define INTERLEAVED(Type, Number, Value, Elements, Zero, Back)                                                      \
    "HloModule m, num_partitions=4\nENTRY e {\n x = f32[8] parameter(0), sharding={devices=[4]<=[4]}\n n = f32[] "  \
    "constant(" Number ")\n b = f32[8] broadcast(n), dimensions={}\n k = f32[8] clamp(b, x, b)\n v = f32[8] " Value \
    "\n p = " Type "[8] " Elements ", sharding={devices=[4]<=[4]}\n z = " Type "[] constant(" Zero ")\n e = " Type  \
    "[16] pad(p, z), padding=0_1_1\n o = " Type "[16] pad(p, z), padding=1_0_1\n i = " Type                         \
    "[16] add(e, o), sharding={devices=[4]<=[4]}\n s = " Type "[15] slice(i), slice={[0:15]}\n h = " Type           \
    "[16] pad(s, z), padding=1_0\n r = f32[16] " Back                                                               \
    "\n c = f32[] constant(1)\n y = f32[16] broadcast(c), dimensions={}\n ROOT d = f32[16] divide(y, r), "          \
    "sharding={devices=[4]<=[4]}\n}\n"
#define LEAST "5.8774717541114375e-39"

static const struct {
    const char *name, *text;
} interleaved[] = {
    {"negative zeros", INTERLEAVED("f32", "0", "negate(k)", "copy(v)", "0", "copy(h)")},
    {"complex negative zeros", INTERLEAVED("c64", "0", "negate(k)", "complex(v, v)", "(0,0)", "real(h)")},
    {"a type without zero", INTERLEAVED("f8e8m0fnu", LEAST, "copy(k)", "convert(v)", LEAST, "convert(h)")},
};

CaseList(shifts, interleaved) {
    return cases_numbered(HLO_COUNT_OF(interleaved));
}

CaseTest(const int *number, shifts, interleaved) {
    check_partitioned(interleaved[*number].text, NULL, 7);
}

// ---- random ones

// Appends the rotation of an array by `by` elements along a dimension; its name.
static int64_t write_rotation(HloText *text, int64_t *names, int64_t array, const int64_t *dims, int dim, int64_t by) {
    const int64_t size = dims[dim], at = by > 0 ? by : size + by;
    if (by == 0) return array;
    const int64_t first = *names;
    *names += 3;
    for (int part = 0; part < 2; part++) {
        const int64_t from = part ? 0 : at, to = part ? at : size;
        int64_t starts[2] = {0, 0}, limits[2] = {dims[0], dims[1]};
        starts[dim] = from;
        limits[dim] = to;
        hlo_text_format(text, " v%lld = f32[%lld,%lld] slice(v%lld), slice={[%lld:%lld],[%lld:%lld]}\n",
                        (long long)(first + part), (long long)(limits[0] - starts[0]),
                        (long long)(limits[1] - starts[1]), (long long)array, (long long)starts[0],
                        (long long)limits[0], (long long)starts[1], (long long)limits[1]);
    }
    hlo_text_format(text, " v%lld = f32[%lld,%lld] concatenate(v%lld, v%lld), dimensions={%d}\n",
                    (long long)(first + 2), (long long)dims[0], (long long)dims[1], (long long)first,
                    (long long)(first + 1), dim);
    return first + 2;
}

static int64_t write_pad(HloText *text, int64_t *names, const int64_t *dims, const int64_t *by) {
    const int64_t name = (*names)++;
    hlo_text_format(text, " v%lld = f32[%lld,%lld] pad(v0, z), padding=%lld_%lldx%lld_%lld\n", (long long)name,
                    (long long)dims[0], (long long)dims[1], (long long)-by[0], (long long)by[0], (long long)-by[1],
                    (long long)by[1]);
    return name;
}

// A sum of up to six shifts, rotations and pads, of one array.
static void write_program(HloText *text, Random *random) {
    static const char *const shardings[] = {"[2,2]<=[4]", "[2,3]<=[6]", "[2,3]<=[3,2]T(1,0)", "[3,1,2]<=[6]"};
    static const int devices[] = {4, 6, 6, 6};
    const uint64_t grid = random_under(random, HLO_COUNT_OF(shardings));
    const char *replicate = grid == 3 ? " last_tile_dim_replicate" : "";
    int64_t dims[2], names = 1, sum = 0;
    for (int d = 0; d < 2; d++)
        dims[d] =
            random_under(random, 3) ? 6 * (1 + (int64_t)random_under(random, 2)) : 2 + (int64_t)random_under(random, 9);
    hlo_text_format(text,
                    "HloModule m, num_partitions=%d\nENTRY e {\n v0 = f32[%lld,%lld] parameter(0), "
                    "sharding={devices=%s%s}\n z = f32[] parameter(1)\n",
                    devices[grid], (long long)dims[0], (long long)dims[1], shardings[grid], replicate);
    for (uint64_t count = 2 + random_under(random, 5); count > 0; count--) {
        int64_t by[2], shifted = 0;
        for (int d = 0; d < 2; d++) {
            const int64_t most = dims[d] < 4 ? 1 : 2;
            by[d] = (int64_t)random_under(random, (uint64_t)(2 * most + 1)) - most;
        }
        if (random_under(random, 2)) {
            shifted = write_pad(text, &names, dims, by);
        } else {
            for (int d = 0; d < 2; d++) shifted = write_rotation(text, &names, shifted, dims, d, by[d]);
        }
        const int64_t made = names++;
        hlo_text_format(text, " v%lld = f32[%lld,%lld] subtract(v%lld, v%lld)\n", (long long)made, (long long)dims[0],
                        (long long)dims[1], (long long)shifted, (long long)sum);
        sum = made;
    }
    hlo_text_format(text, " ROOT t = f32[%lld,%lld] negate(v%lld), sharding={devices=%s%s}\n}\n", (long long)dims[0],
                    (long long)dims[1], (long long)sum, shardings[grid], replicate);
}

Test(shifts, random_sums) {
    Random random = {47};
    for (int trial = 0; trial < 300; trial++) {
        HloText text = {0};
        write_program(&text, &random);
        check_partitioned(text.data, NULL, 7);
        hlo_text_free(&text);
    }
}
