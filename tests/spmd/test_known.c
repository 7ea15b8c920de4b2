// SPDX-License-Identifier: Apache-2.0
// Gathers whose indices, and products whose weights, are functions of iotas: devices get the elements that these
// select.
#include <criterion/criterion.h>

#include "hlo/base/text.h"
#include "tests/spmd/check.h"
#include "tests/support/cases.h"

// The rows of %p that an index array of N rows selects, with the rows of both split in 4.
#define ROWS(Table, Result, Indices)                                                                                 \
    "HloModule m, num_partitions=4\nENTRY e {\n p = " Table " parameter(0), sharding={devices=[4,1]<=[4]}\n" Indices \
    " ROOT g = " Result                                                                                              \
    " gather(p, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, "            \
    "slice_sizes={1,3}, sharding={devices=[4,1]<=[4]}\n}\n"
#define COUNT(Type, Count, Op, Number)                                                                              \
    " n = " Type "[" Count "] iota(), iota_dimension=0\n c = " Type "[] constant(" Number ")\n b = " Type "[" Count \
    "] broadcast(c), dimensions={}\n i = " Type "[" Count "] " Op "\n"

// Of 64 rows as a square of 8, the transposed one; every second row, twice; and every seventh.
#define NUMBERS(Count, Number)                                                                          \
    " c = s32[] constant(" Number ")\n b = s32[" Count "] broadcast(c), dimensions={}\n n = s32[" Count \
    "] iota(), "                                                                                        \
    "iota_dimension=0\n"
#define TRANSPOSED     \
    NUMBERS("64", "8") \
    " r = s32[64] remainder(n, b)\n m = s32[64] multiply(r, b)\n d = s32[64] divide(n, b)\n i = s32[64] add(m, d)\n"
#define MULTIPLES(Count, Factor)                                                          \
    NUMBERS(Count, Factor)                                                                \
    " m = s32[" Count "] multiply(n, b)\n w = s32[] constant(" Count ")\n v = s32[" Count \
    "] broadcast(w), "                                                                    \
    "dimensions={}\n i = s32[" Count "] remainder(m, v)\n"

static const SentBytes programs[] = {
    // Scattered rows: those between them are not sent. An all-to-all, two permutes, an uneven one.
    {"transposed", ROWS("f32[64,3]", "f32[64,3]", TRANSPOSED), 3 * 4 * 3 * 4},
    {"every second, twice", ROWS("f32[64,3]", "f32[64,3]", MULTIPLES("64", "2")), 2 * 8 * 3 * 4},
    {"every seventh, uneven", ROWS("f32[62,3]", "f32[62,3]", MULTIPLES("62", "7")), 15 * 3 * 4},
    {"a vector",
     "HloModule m, num_partitions=4\nENTRY e {\n p = f32[64] parameter(0), sharding={devices=[4]<=[4]}\n" TRANSPOSED
     " ROOT g = f32[64] gather(p, i), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, "
     "index_vector_dim=1, slice_sizes={1}, sharding={devices=[4]<=[4]}\n}\n",
     3 * 4 * 4},
    {"transposed, two axes",
     "HloModule m, num_partitions=4\nENTRY e {\n p = f32[64,6] parameter(0), sharding={devices=[2,2]<=[4]}\n" TRANSPOSED
     " ROOT g = f32[64,6] gather(p, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
     "index_vector_dim=1, slice_sizes={1,6}, sharding={devices=[2,2]<=[4]}\n}\n",
     16 * 3 * 4},
    {"reversed", ROWS("f32[8,3]", "f32[8,3]", COUNT("s32", "8", "subtract(b, n)", "7")), 2 * 3 * 4},
    {"reversed, uneven", ROWS("f32[10,3]", "f32[10,3]", COUNT("s32", "10", "subtract(b, n)", "9")), (2 + 1) * 3 * 4},
    {"repeated", ROWS("f32[8,3]", "f32[16,3]", COUNT("s32", "16", "divide(n, b)", "2")), 0},
    {"rotated",
     ROWS("f32[8,3]", "f32[8,3]",
          " m = s32[] constant(8)\n d = s32[8] broadcast(m), dimensions={}\n"
          " n = s32[8] iota(), iota_dimension=0\n c = s32[] constant(1)\n b = s32[8] broadcast(c), dimensions={}\n"
          " a = s32[8] add(n, b)\n i = s32[8] remainder(a, d)\n"),
     3 * 4},
    {"clamped below", ROWS("f32[8,3]", "f32[8,3]", COUNT("s8", "8", "subtract(n, b)", "3")), 2 * 3 * 4},
    // -1, which is too large, then 0, 1, 2 ...
    {"clamped above", ROWS("f32[8,3]", "f32[8,3]", COUNT("u32", "8", "add(n, b)", "4294967295")), 3 * 4},
    {"one row", ROWS("f32[1,3]", "f32[4,3]", COUNT("s32", "4", "multiply(n, b)", "0")), 3 * 4},
    {"floats",
     ROWS("f32[12,3]", "f32[8,3]",
          " n = f32[8] iota(), iota_dimension=0\n c = f32[] constant(1.5)\n"
          " b = f32[8] broadcast(c), dimensions={}\n a = f32[8] multiply(n, b)\n f = f32[8] floor(a)\n"
          " i = s32[8] convert(f)\n"),
     0},
    {"a constant", ROWS("f32[8,3]", "f32[4,3]", " i = s32[4] constant({1, 0, 7, 4})\n"), 3 * 4},
    {"windows",
     "HloModule m, num_partitions=4\nENTRY e {\n p = f32[8,3] parameter(0), sharding={devices=[4,1]<=[4]}\n"
     " i = s32[8] iota(), iota_dimension=0\n ROOT g = f32[8,2,3] gather(p, i), offset_dims={1,2}, "
     "collapsed_slice_dims={}, start_index_map={0}, index_vector_dim=1, slice_sizes={2,3}, "
     "sharding={devices=[4,1,1]<=[4]}\n}\n",
     3 * 4},
    {"two dimensions",
     "HloModule m, num_partitions=4\nENTRY e {\n p = f32[8,6] parameter(0), sharding={devices=[2,2]<=[4]}\n"
     " n = s32[8,6,1] iota(), iota_dimension=0\n c = s32[] constant(7)\n b = s32[8,6,1] broadcast(c), dimensions={}\n"
     " r = s32[8,6,1] subtract(b, n)\n k = s32[8,6,1] iota(), iota_dimension=1\n"
     " i = s32[8,6,2] concatenate(r, k), dimensions={2}\n ROOT g = f32[8,6] gather(p, i), offset_dims={}, "
     "collapsed_slice_dims={0,1}, start_index_map={0,1}, index_vector_dim=2, slice_sizes={1,1}, "
     "sharding={devices=[2,2]<=[4]}\n}\n",
     4 * 3 * 4},
    {"two axes",
     "HloModule m, num_partitions=4\nENTRY e {\n p = f32[8,6] parameter(0), sharding={devices=[2,2]<=[4]}\n"
     " n = s32[8] iota(), iota_dimension=0\n c = s32[] constant(1)\n b = s32[8] broadcast(c), dimensions={}\n"
     " i = s32[8] add(n, b)\n ROOT g = f32[8,6] gather(p, i), offset_dims={1}, collapsed_slice_dims={0}, "
     "start_index_map={0}, index_vector_dim=1, slice_sizes={1,6}, sharding={devices=[2,2]<=[4]}\n}\n",
     3 * 4},
    // Every position needs every row: the table is gathered.
    {"all of them",
     ROWS("f32[8,3]", "f32[32,3]",
          " m = s32[] constant(8)\n d = s32[32] broadcast(m), dimensions={}\n"
          " n = s32[32] iota(), iota_dimension=0\n i = s32[32] remainder(n, d)\n"),
     3 * 2 * 3 * 4},
    {"data", ROWS("f32[8,3]", "f32[8,3]", " i = s32[8] parameter(1), sharding={devices=[4]<=[4]}\n"), 3 * 2 * 3 * 4},
};

CaseList(known, indices) {
    return cases_numbered(HLO_COUNT_OF(programs));
}

CaseTest(const int *number, known, indices) {
    expect_bytes(&programs[*number]);
}

// bug: the indices of a scatter were read as numbers that grow evenly where their type had wrapped: elements 128 and
// 129 of 130 were written, of which an s8 holds none.
Test(known, bug_indices_that_wrapped_were_rows_of_a_scatter) {
    static const char *const indices[] = {
        " i = s8[130,1] iota(), iota_dimension=0\n",
        (" n = u8[130,1] iota(), iota_dimension=0\n c = u8[] constant(127)\n b = u8[130,1] broadcast(c), "
         "dimensions={}\n"
         " i = u8[130,1] add(n, b)\n"),
        " n = s16[130,1] iota(), iota_dimension=0\n i = s16[130,1] copy(n)\n",
    };
    for (size_t k = 0; k < HLO_COUNT_OF(indices); k++) {
        HloText text = {0};
        hlo_text_format(
            &text,
            "HloModule m, num_partitions=2\nset {\n a = f32[] parameter(0)\n ROOT b = f32[] parameter(1)\n}\n"
            "ENTRY e {\n p = f32[260] parameter(0)\n u = f32[130] parameter(1), sharding={devices=[2]<=[2]}\n%s"
            " ROOT r = f32[260] scatter(p, i, u), update_window_dims={}, inserted_window_dims={0}, "
            "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=set, "
            "sharding={devices=[2]<=[2]}\n}\n",
            indices[k]);
        check_partitioned(text.data, NULL, k);
        hlo_text_free(&text);
    }
}

// bug: a gather from an array without elements, whose indices are known, stopped at an assertion.
Test(known, bug_nothing_is_gathered_from_nothing) {
    check_partitioned(
        "HloModule m, num_partitions=3\nENTRY e {\n p = f32[0,4] parameter(0), sharding={devices=[3,1]<=[3]}\n"
        " i = s32[0,1] iota(), iota_dimension=0\n ROOT g = f32[0,4] gather(p, i), offset_dims={1}, "
        "collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={0,4}, "
        "sharding={devices=[3,1]<=[3]}\n}\n",
        NULL, 1);
    check_partitioned(
        "HloModule m, num_partitions=3\nENTRY e {\n p = f32[0,0] parameter(0), sharding={devices=[3,1]<=[3]}\n"
        " i = u8[2,0] iota(), iota_dimension=1\n ROOT g = f32[0] gather(p, i), offset_dims={}, "
        "collapsed_slice_dims={0,1}, start_index_map={1,0}, index_vector_dim=0, slice_sizes={0,0}, "
        "sharding={devices=[3]<=[3]}\n}\n",
        NULL, 1);
}

// max(0, 1 - |i - j / 2|) in an array of N x M, weights that interpolate between neighbours: %w.
#define WEIGHTS(Shape)                                                                                      \
    " i = " Shape " iota(), iota_dimension=0\n j = " Shape                                                  \
    " iota(), iota_dimension=1\n"                                                                           \
    " half = f32[] constant(0.5)\n h = " Shape " broadcast(half), dimensions={}\n k = " Shape               \
    " multiply(j, h)\n"                                                                                     \
    " d = " Shape " subtract(i, k)\n a = " Shape " abs(d)\n one = f32[] constant(1)\n o = " Shape           \
    " broadcast(one), dimensions={}\n s = " Shape " subtract(o, a)\n zero = f32[] constant(0)\n z = " Shape \
    " broadcast(zero), dimensions={}\n w = " Shape " maximum(s, z)\n"

static const SentBytes products[] = {
    {"upwards",
     "HloModule m, num_partitions=4\nENTRY e {\n p = f32[8,3] parameter(0), "
     "sharding={devices=[4,1]<=[4]}\n" WEIGHTS(
         "f32[8,16]") " ROOT r = f32[16,3] dot(w, p), lhs_contracting_dims={0}, "
                      "rhs_contracting_dims={0}, sharding={devices=[4,1]<=[4]}\n}\n",
     3 * 4},
    {"downwards",
     "HloModule m, num_partitions=4\nENTRY e {\n p = f32[16,3] parameter(0), "
     "sharding={devices=[4,1]<=[4]}\n" WEIGHTS(
         "f32[8,16]") " ROOT r = f32[8,3] dot(w, p), lhs_contracting_dims={1}, "
                      "rhs_contracting_dims={0}, sharding={devices=[4,1]<=[4]}\n}\n",
     3 * 4},
    {"from the right, of two axes",
     "HloModule m, num_partitions=4\nENTRY e {\n p = f32[6,8] parameter(0), "
     "sharding={devices=[2,2]<=[4]}\n" WEIGHTS(
         "f32[8,16]") " ROOT r = f32[6,16] dot(p, w), lhs_contracting_dims={1}, "
                      "rhs_contracting_dims={0}, sharding={devices=[2,2]<=[4]}\n}\n",
     3 * 4},
    {"uneven",
     "HloModule m, num_partitions=4\nENTRY e {\n p = f32[7,3] parameter(0), "
     "sharding={devices=[4,1]<=[4]}\n" WEIGHTS(
         "f32[7,13]") " ROOT r = f32[13,3] dot(w, p), lhs_contracting_dims={0}, "
                      "rhs_contracting_dims={0}, sharding={devices=[4,1]<=[4]}\n}\n",
     3 * 4},
    {"of which most are zero",
     "HloModule m, num_partitions=4\nENTRY e {\n p = f32[8,3] parameter(0), "
     "sharding={devices=[4,1]<=[4]}\n" WEIGHTS(
         "f32[8,64]") " ROOT r = f32[64,3] dot(w, p), lhs_contracting_dims={0}, "
                      "rhs_contracting_dims={0}, sharding={devices=[4,1]<=[4]}\n}\n",
     3 * 2 * 3 * 4},
    {"of size one",
     "HloModule m, num_partitions=4\nENTRY e {\n p = f32[4,1] parameter(0), "
     "sharding={devices=[4,1]<=[4]}\n" WEIGHTS(
         "f32[4,8]") " ROOT r = f32[8,1] dot(w, p), lhs_contracting_dims={0}, "
                     "rhs_contracting_dims={0}, sharding={devices=[4,1]<=[4]}\n}\n",
     4},
    {"a mask of integers",
     "HloModule m, num_partitions=4\nENTRY e {\n p = s32[8,3] parameter(0), "
     "sharding={devices=[4,1]<=[4]}\n i = s32[8,8] iota(), iota_dimension=0\n j = s32[8,8] iota(), iota_dimension=1\n"
     " c = pred[8,8] compare(i, j), direction=EQ\n w = s32[8,8] convert(c)\n ROOT r = s32[8,3] dot(w, p), "
     "lhs_contracting_dims={0}, rhs_contracting_dims={0}, sharding={devices=[4,1]<=[4]}\n}\n",
     0},
    {"weights that are data",
     "HloModule m, num_partitions=4\nENTRY e {\n p = f32[8,3] parameter(0), "
     "sharding={devices=[4,1]<=[4]}\n w = f32[8,16] parameter(1), sharding={replicated}\n"
     " ROOT r = f32[16,3] dot(w, p), lhs_contracting_dims={0}, rhs_contracting_dims={0}, "
     "sharding={devices=[4,1]<=[4]}\n}\n",
     3 * 2 * 3 * 4},
};

CaseList(known, weights) {
    return cases_numbered(HLO_COUNT_OF(products));
}

CaseTest(const int *number, known, weights) {
    expect_bytes(&products[*number]);
}
