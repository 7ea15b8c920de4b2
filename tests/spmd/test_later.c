// SPDX-License-Identifier: Apache-2.0
// Sums over devices that are finished after the ops that follow.
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "hlo/base/text.h"
#include "tests/spmd/check.h"
#include "tests/support/cases.h"
#include "tests/support/random.h"

#define ADDER \
    "HloModule m, num_partitions=4\nadd { x = f32[] parameter(0) y = f32[] parameter(1) ROOT z = f32[] add(x, y) }\n"
#define ROWS ", sharding={devices=[4,1]<=[4]}"
#define COLUMNS ", sharding={devices=[1,4]<=[4]}"
// Rows of `Table` at `Indices`, all of a table split in four.
#define BAG(Table, TableTiles, Indices, IndexTiles, Rows, Width, Body)                                           \
    ADDER "ENTRY e {\n t = f32" Table " parameter(0)" TableTiles "\n i = s32" Indices " parameter(1)" IndexTiles \
          "\n zero = f32[] constant(0)\n g = f32" Rows                                                           \
          " gather(t, i), offset_dims={2}, collapsed_slice_dims={0}, "                                           \
          "start_index_map={0}, index_vector_dim=2, slice_sizes={1," Width "}\n" Body "}\n"
#define ADDED " ROOT s = f32[16,8] reduce(w, zero), dimensions={1}, to_apply=add" ROWS "\n"

// Bytes by hand, of one device of four.
static const SentBytes programs[] = {
    // The list of indices is gathered, and the sums are scattered.
    {"a bag", BAG("[512,8]", ROWS, "[16,6]", ROWS, "[16,6,8]", "8", " w = f32[16,6,8] negate(g)\n" ADDED),
     3 * 4 * 6 * 4 + 3 * 4 * 8 * 4},
    // The weights are gathered too, before they are repeated along the columns.
    {"a weighted bag",
     BAG("[512,8]", ROWS, "[16,6]", ROWS, "[16,6,8]", "8",
         " v = f32[16,6] parameter(2)" ROWS "\n b = f32[16,6,8] broadcast(v), dimensions={0,1}\n"
         " w = f32[16,6,8] multiply(b, g)\n" ADDED),
     2 * 3 * 4 * 6 * 4 + 3 * 4 * 8 * 4},
    {"a weighted bag as a product",
     BAG("[512,8]", ROWS, "[16,6]", ROWS, "[16,6,8]", "8",
         " v = f32[16,6] parameter(2)" ROWS
         "\n ROOT s = f32[16,8] dot(v, g), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={1}, "
         "rhs_contracting_dims={1}" ROWS "\n"),
     2 * 3 * 4 * 6 * 4 + 3 * 4 * 8 * 4},
    {"a bag with a mask",
     BAG("[512,8]", ROWS, "[16,6]", ROWS, "[16,6,8]", "8",
         " z = f32[16,6,8] broadcast(zero), dimensions={}\n m = s32[16,6,8] broadcast(i), dimensions={0,1}\n"
         " n = s32[16,6,8] iota(), iota_dimension=2\n p = pred[16,6,8] compare(m, n), direction=GT\n"
         " w = f32[16,6,8] select(p, g, z)\n" ADDED),
     3 * 4 * 6 * 4 + 3 * 4 * 8 * 4},
    {"uneven bags of an uneven table",
     BAG("[510,8]", ROWS, "[14,6]", ROWS, "[14,6,8]", "8",
         " ROOT s = f32[14,8] reduce(g, zero), dimensions={1}, to_apply=add" ROWS "\n"),
     3 * 4 * 6 * 4 + 3 * 4 * 8 * 4},
    // Nothing becomes smaller: rows are scattered where they are found.
    {"bags of one row",
     BAG("[512,8]", ROWS, "[16,1]", ROWS, "[16,1,8]", "8",
         " ROOT s = f32[16,8] reduce(g, zero), dimensions={1}, to_apply=add" ROWS "\n"),
     3 * 4 * 4 + 3 * 4 * 8 * 4},
    {"a bag of a table on the other axis",
     BAG("[512,8]", ", sharding={devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}", "[16,6]",
         ", sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}", "[16,6,8]", "8",
         " ROOT s = f32[16,8] reduce(g, zero), dimensions={1}, to_apply=add, sharding={devices=[2,1,2]<=[4] "
         "last_tile_dim_replicate}\n"),
     8 * 8 * 4},
    // One number instead of a matrix.
    {"the sum of a product",
     ADDER "ENTRY e {\n a = f32[16,32] parameter(0)" COLUMNS "\n b = f32[32,24] parameter(1)" ROWS
           "\n zero = f32[] constant(0)\n d = f32[16,24] dot(a, b), lhs_contracting_dims={1}, "
           "rhs_contracting_dims={0}\n h = f32[] constant(0.5)\n k = f32[16,24] broadcast(h), dimensions={}\n"
           " w = f32[16,24] multiply(d, k)\n ROOT s = f32[] reduce(w, zero), dimensions={0,1}, to_apply=add, "
           "sharding={replicated}\n}\n",
     2 * 3},
};

CaseList(later, plans) {
    return cases_numbered(HLO_COUNT_OF(programs));
}

CaseTest(const int *number, later, plans) {
    expect_bytes(&programs[*number]);
}

// Zeros of the devices that have not found a row were multiplied by an infinite weight.
Test(later, infinite_weights_do_not_meet_the_zeros_of_other_devices) {
    const char *text = BAG("[512,8]", ROWS, "[16,6]", ROWS, "[16,6,8]", "8",
                           " f = f32[] constant(inf)\n b = f32[16,6,8] broadcast(f), dimensions={}\n"
                           " k = f32[512,8] abs(t)\n w = f32[16,6,8] multiply(g, b)\n" ADDED);
    check_partitioned(text, NULL, 3);
}

// bug: as above, where the rows were reshaped, selected from or transposed before, and in products that add up.
Test(later, bug_infinite_weights_met_zeros_that_were_rearranged) {
    static const char *const bodies[] = {
        " h = f32[96,8] reshape(k)\n b = f32[96,8] broadcast(f), dimensions={}\n q = f32[96,8] multiply(h, b)\n"
        " w = f32[16,6,8] reshape(q)\n" ADDED,
        " h = f32[8,16,6] transpose(k), dimensions={2,0,1}\n b = f32[8,16,6] broadcast(f), dimensions={}\n"
        " q = f32[8,16,6] multiply(b, h)\n w = f32[16,6,8] transpose(q), dimensions={1,2,0}\n" ADDED,
        " n = f32[16,6,8] negate(k)\n b = f32[16,6,8] broadcast(f), dimensions={}\n"
        " q = f32[16,6,8] multiply(n, b)\n w = f32[16,6,8] multiply(q, b)\n" ADDED,
        " b = f32[16,6] broadcast(f), dimensions={}\n"
        " ROOT s = f32[16,8] dot(b, k), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={1}, "
        "rhs_contracting_dims={1}" ROWS "\n",
        " b = f32[6,5,16] broadcast(f), dimensions={}\n"
        " ROOT s = f32[16,8,5] dot(k, b), lhs_batch_dims={0}, rhs_batch_dims={2}, lhs_contracting_dims={1}, "
        "rhs_contracting_dims={0}, sharding={devices=[4,1,1]<=[4]}\n"};
    for (size_t i = 0; i < HLO_COUNT_OF(bodies); i++) {
        HloText text = {0};
        hlo_text_format(&text,
                        ADDER "ENTRY e {\n t = f32[512,8] parameter(0)" ROWS "\n i = s32[16,6] parameter(1)" ROWS
                              "\n zero = f32[] constant(0)\n f = f32[] constant(inf)\n a = f32[512,8] abs(t)\n"
                              " k = f32[16,6,8] gather(a, i), offset_dims={2}, collapsed_slice_dims={0}, "
                              "start_index_map={0}, index_vector_dim=2, slice_sizes={1,8}\n%s}\n",
                        bodies[i]);
        check_partitioned(text.data, NULL, 3);
        hlo_text_free(&text);
    }
}

// bug: devices added up what had wrapped on each of them, in a wider type.
Test(later, bug_sums_of_narrow_integers_wrap_before_a_wider_product) {
    check_partitioned("HloModule m, num_partitions=4\nENTRY e {\n a = s8[16,32] parameter(0)" COLUMNS
                      "\n b = s8[32,24] parameter(1)" ROWS
                      "\n c = s8[] constant(101)\n e = s8[16,32] broadcast(c), dimensions={}\n"
                      " f = s8[16,32] multiply(a, e)\n"
                      " d = s8[16,24] dot(f, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
                      " u = s8[24] parameter(2)\n ROOT s = s32[16] dot(d, u), lhs_contracting_dims={1}, "
                      "rhs_contracting_dims={0}, sharding={replicated}\n}\n",
                      NULL, 5);
}

// ---- random ones

static const char *const tiles_of_two[] = {"",
                                           ROWS,
                                           COLUMNS,
                                           ", sharding={devices=[2,2]<=[4]}",
                                           ", sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}",
                                           ", sharding={devices=[1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate}",
                                           ", sharding={devices=[2,2]<=[2,2]T(1,0)}"};
static const char *const tiles_of_three[] = {"",
                                             ", sharding={devices=[4,1,1]<=[4]}",
                                             ", sharding={devices=[1,4,1]<=[4]}",
                                             ", sharding={devices=[1,1,4]<=[4]}",
                                             ", sharding={devices=[2,1,2]<=[2,2]T(1,0)}",
                                             ", sharding={devices=[1,2,1,2]<=[4] last_tile_dim_replicate}"};

static const char *any_of_two(Random *random) {
    return tiles_of_two[random_under(random, HLO_COUNT_OF(tiles_of_two))];
}

static const char *any_of_three(Random *random) {
    return tiles_of_three[random_under(random, HLO_COUNT_OF(tiles_of_three))];
}

// Writes what leaves a sum %v0 of rows x bag x width.
static void write_start(HloText *text, Random *random, int rows, int bag, int width) {
    const int other = 1 + (int)random_under(random, 12);
    if (random_under(random, 3)) {
        hlo_text_format(text, " t = f32[%d,%d] parameter(0)%s\n i = s32[%d,%d] parameter(1)%s\n", other, width,
                        any_of_two(random), rows, bag, any_of_two(random));
        hlo_text_format(text,
                        " v0 = f32[%d,%d,%d] gather(t, i), offset_dims={2}, collapsed_slice_dims={0}, "
                        "start_index_map={0}, index_vector_dim=2, slice_sizes={1,%d}\n",
                        rows, bag, width, width);
        return;
    }
    hlo_text_format(text, " t = f32[%d,%d,%d] parameter(0)%s\n i = f32[%d,%d] parameter(1)%s\n", rows, bag, other,
                    any_of_three(random), other, width, any_of_two(random));
    hlo_text_format(text, " v0 = f32[%d,%d,%d] dot(t, i), lhs_contracting_dims={2}, rhs_contracting_dims={0}\n", rows,
                    bag, width);
}

// Writes %v`to` made of %v`to - 1`, of the same sizes.
static void write_step(HloText *text, Random *random, int to, int rows, int bag, int width) {
    const uint64_t kind = random_under(random, 7);
    char shape[64];
    snprintf(shape, sizeof(shape), "f32[%d,%d,%d]", rows, bag, width);
    if (kind == 0) {
        hlo_text_format(text, " v%d = %s negate(v%d)\n", to, shape, to - 1);
    } else if (kind == 1) {
        hlo_text_format(text, " v%d = %s multiply(v%d, b)\n", to, shape, to - 1);
    } else if (kind == 2) {
        hlo_text_format(text, " v%d = %s multiply(w, v%d)\n", to, shape, to - 1);
    } else if (kind == 3) {
        hlo_text_format(text, " v%d = %s divide(v%d, three)\n", to, shape, to - 1);
    } else if (kind == 4) {
        hlo_text_format(text, " v%d = %s select(p, v%d, none)\n", to, shape, to - 1);
    } else if (kind == 5) {
        hlo_text_format(text,
                        " x%d = f32[%d,%d] reshape(v%d)\n y%d = f32[%d,%d] sine(x%d)\n v%d = %s reshape(%s%d)%s\n", to,
                        rows * bag, width, to - 1, to, rows * bag, width, to, to, shape,
                        random_under(random, 2) ? "x" : "y", to, random_under(random, 4) ? "" : any_of_three(random));
    } else {
        hlo_text_format(text, " v%d = %s multiply(v%d, v%d)%s\n", to, shape, to - 1,
                        random_under(random, 2) ? 0 : to - 1, random_under(random, 2) ? "" : any_of_three(random));
    }
}

// Writes the root, made of %v`last`.
static void write_end(HloText *text, Random *random, int last, int rows, int bag, int width) {
    if (random_under(random, 2)) {
        hlo_text_format(text, " ROOT r = f32[%d,%d] reduce(v%d, zero), dimensions={1}, to_apply=add%s\n", rows, width,
                        last, any_of_two(random));
    } else if (random_under(random, 2)) {
        hlo_text_format(text, " ROOT r = f32[%d,%d] reduce(v%d, two), dimensions={2}, to_apply=add%s\n", rows, bag,
                        last, any_of_two(random));
    } else {
        hlo_text_format(text,
                        " ROOT r = f32[%d,%d] dot(v%d, u), lhs_batch_dims={0}, rhs_batch_dims={0}, "
                        "lhs_contracting_dims={1}, rhs_contracting_dims={1}%s\n",
                        rows, width, last, any_of_two(random));
    }
}

static void write_program(HloText *text, Random *random) {
    const int rows = 1 + (int)random_under(random, 9), bag = 1 + (int)random_under(random, 9);
    const int width = 1 + (int)random_under(random, 9), steps = (int)random_under(random, 4);
    char shape[64];
    snprintf(shape, sizeof(shape), "f32[%d,%d,%d]", rows, bag, width);
    hlo_text_string(text, ADDER "ENTRY e {\n zero = f32[] constant(0)\n two = f32[] constant(2)\n");
    write_start(text, random, rows, bag, width);
    hlo_text_format(text, " u = f32[%d,%d] parameter(2)%s\n w = %s parameter(3)%s\n", rows, bag, any_of_two(random),
                    shape, any_of_three(random));
    hlo_text_format(text, " b = %s broadcast(u), dimensions={0,1}\n h = f32[] constant(3)\n", shape);
    hlo_text_format(text, " three = %s broadcast(h), dimensions={}\n none = %s broadcast(zero), dimensions={}\n", shape,
                    shape);
    hlo_text_format(text, " p = pred[%d,%d,%d] compare(w, none), direction=GT\n", rows, bag, width);
    for (int i = 1; i <= steps; i++) write_step(text, random, i, rows, bag, width);
    write_end(text, random, steps, rows, bag, width);
    hlo_text_string(text, "}\n");
}

// MESHLO_RANDOM_PROGRAMS: how many.
Test(later, random_ones_are_the_same_partitioned) {
    const char *many = getenv("MESHLO_RANDOM_PROGRAMS");
    const uint64_t count = many ? strtoull(many, NULL, 10) : 300;
    Random random = {71};
    for (uint64_t seed = 1; seed <= count; seed++) {
        HloText text = {0};
        write_program(&text, &random);
        check_partitioned(text.data, NULL, seed);
        hlo_text_free(&text);
    }
}
