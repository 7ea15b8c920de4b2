// SPDX-License-Identifier: Apache-2.0
// The cost of choosing: the bytes of immense arrays do not overflow, and ops of many operands are examined by kinds of
// operands.
#include <criterion/criterion.h>
#include <string.h>

#include "hlo/hlo.h"
#include "hlo/verify/verify.h"
#include "spmd_partitioner/sharding.h"
#include "spmd_partitioner/spmd.h"
#include "tests/spmd/check.h"
#include "tests/support/cases.h"

// Up to 2^62 bytes per array. bug: bytes of a step, of a path or of all operands together exceeded 2^63, and the
// partitioner crashed.
#define S "sharding={devices=[2,2]<=[4]}"
#define ROWS "sharding={devices=[4,1]<=[4]}"
#define COLUMNS "sharding={devices=[1,4]<=[4]}"
#define PARTIAL "sharding={devices=[1,1,4]<=[4] last_tile_dims={unreduced}}"
static const char *const immense[] = {
    " p = s8[2000000000,2000000000] parameter(0), " S "\n q = s8[2000000000,2000000000] parameter(1), " S
    "\n ROOT r = s8[2000000000,2000000000] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    " p = f32[1000000000,1000000000] parameter(0), " ROWS "\n ROOT r = f32[1000000000,1000000000] negate(p), " COLUMNS,
    " p = f32[1000000000,1000000000] parameter(0), " ROWS
    "\n ROOT r = f32[1000000000,1000000000] negate(p), sharding={replicated}",
    " p = f32[1000000000,1000000000] parameter(0), " PARTIAL
    "\n ROOT r = f32[1000000000,1000000000] copy(p), sharding={replicated}",
    " p = f32[1000000000,1000000000] parameter(0), " PARTIAL "\n ROOT r = f32[1000000000,1000000000] copy(p), " ROWS,
    " p = f64[500000000,1000000000] parameter(0), " ROWS "\n q = f64[500000000,1000000000] parameter(1), " COLUMNS
    "\n ROOT r = (f64[500000000,1000000000], f64[500000000,1000000000]) sort(p, q), dimensions={0}, to_apply=less",
    " p = s8[1000000000,1000000000] parameter(0), " ROWS
    "\n ROOT r = s8[999999999,1000000000] slice(p), slice={[1:1000000000], [0:1000000000]}, " ROWS,
    " p = s8[1000000000,1000000000] parameter(0), " ROWS
    "\n ROOT r = s8[1000000000,1000000000] reverse(p), dimensions={0}, " ROWS,
    // An empty array with one immense dimension.
    " p = f32[0,1000000000000000000] parameter(0), " COLUMNS "\n ROOT r = f32[0,1000000000000000000] negate(p), " ROWS,
};

CaseList(costs, arrays_beyond_every_machine) {
    return cases_numbered(HLO_COUNT_OF(immense));
}
CaseTest(int *number, costs, arrays_beyond_every_machine) {
    HloText text = {0};
    hlo_text_format(
        &text,
        "HloModule m, num_partitions=4\nless {\n a = f64[] parameter(0)\n b = f64[] parameter(1)\n"
        " c = f64[] parameter(2)\n d = f64[] parameter(3)\n ROOT e = pred[] compare(a, b), direction=LT\n}\n"
        "ENTRY e {\n%s\n}\n",
        immense[*number]);
    HloModule *module = parse_text(text.data), *partitioned = NULL;
    SpmdReport *report = NULL;
    HloStatus status = spmd_partition(module, NULL, &partitioned, &report);
    cr_assert_null(status, "%s: %s", text.data, hlo_status_message(status));
    status = hlo_verify(partitioned);
    cr_expect_null(status, "%s", hlo_status_message(status));
    for (int64_t i = 0; i < report->collective_count; i++) cr_expect_geq(report->collectives[i].bytes_per_device, 0);
    cr_expect_geq(report->total_bytes_per_device, 0);
    spmd_report_free(report);
    hlo_module_free(partitioned);
    hlo_module_free(module);
    hlo_text_free(&text);
}

Test(costs, amounts_stop_at_the_most) {
    cr_expect_eq(spmd_add_bytes(3, 4), 7);
    cr_expect_eq(spmd_add_bytes(SPMD_MOST_BYTES, 1), SPMD_MOST_BYTES);
    cr_expect_eq(spmd_add_bytes(1, INT64_MAX), SPMD_MOST_BYTES);
    cr_expect_eq(spmd_times_bytes(3, 4), 12);
    cr_expect_eq(spmd_times_bytes(SPMD_MOST_BYTES, 0), 0);
    cr_expect_eq(spmd_times_bytes(INT64_MAX, 2), SPMD_MOST_BYTES);
    cr_expect_eq(spmd_times_bytes(SPMD_MOST_BYTES / 2 + 1, 2), SPMD_MOST_BYTES);
}

// Many operands of a few kinds. bug: each operand led candidates of its own, and 2,000 of them took 30 seconds.
static const char *const kinds[] = {"{devices=[4,1]<=[4]}", "{devices=[1,4]<=[4]}", "{devices=[2,2]<=[4]}",
                                    "{replicated}"};

typedef struct ManyOperands {
    int count, kinds;
} ManyOperands;

CaseList(costs, concatenations_of_many_operands) {
    static ManyOperands cases[] = {{2, 1}, {2, 2}, {7, 2}, {8, 4}, {13, 3}, {60, 4}};
    return cr_make_param_array(ManyOperands, cases, sizeof(cases) / sizeof(cases[0]));
}
CaseTest(ManyOperands *one, costs, concatenations_of_many_operands) {
    for (int along = 0; along < 2; along++) {
        HloText text = {0}, operands = {0};
        hlo_text_string(&text, "HloModule m, num_partitions=4\nENTRY e {\n");
        for (int i = 0; i < one->count; i++) {
            hlo_text_format(&text, " p%d = f32[5,6] parameter(%d), sharding=%s\n", i, i, kinds[i % one->kinds]);
            hlo_text_format(&operands, "%sp%d", i ? ", " : "", i);
        }
        hlo_text_format(&text, " ROOT r = f32[%d,%d] concatenate(%s), dimensions={%d}\n}\n", along ? 5 : 5 * one->count,
                        along ? 6 * one->count : 6, operands.data, along);
        check_partitioned(text.data, NULL, 4);
        hlo_text_free(&operands);
        hlo_text_free(&text);
    }
}

Test(costs, thousands_of_operands) {
    enum { COUNT = 2000 };
    HloText text = {0}, operands = {0};
    hlo_text_string(&text, "HloModule m, num_partitions=4\nENTRY e {\n");
    for (int i = 0; i < COUNT; i++) {
        hlo_text_format(&text, " p%d = f32[8,8] parameter(%d), sharding=%s\n", i, i, kinds[i % 2]);
        hlo_text_format(&operands, "%sp%d", i ? ", " : "", i);
    }
    hlo_text_format(&text, " ROOT r = f32[%d,8] concatenate(%s), dimensions={0}\n}\n", 8 * COUNT, operands.data);
    HloModule *module = parse_text(text.data), *partitioned = NULL;
    HloStatus status = spmd_partition(module, NULL, &partitioned, NULL);
    cr_assert_null(status, "%s", hlo_status_message(status));
    hlo_module_free(partitioned);
    hlo_module_free(module);
    hlo_text_free(&operands);
    hlo_text_free(&text);
}

// A weight that a loop reads is gathered once, before the loop, however large: 32 x 16 floats less an eighth, then the
// sum of 16. bug: it was priced as if every iteration gathered it, and each moved its activations instead (9,072
// bytes).
Test(costs, bug_what_a_loop_reads_was_priced_for_each_iteration) {
    expect_bytes(&(SentBytes){
        "a loop over batches",
        "HloModule m, num_partitions=8\nsum {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n"
        " ROOT s = f32[] add(a, b)\n}\nmore {\n t = (s32[], f32[16], f32[16,8,32], f32[32,16]) parameter(0)\n"
        " i = s32[] get-tuple-element(t), index=0\n n = s32[] constant(16)\n"
        " ROOT l = pred[] compare(i, n), direction=LT\n}\nstep {\n"
        " t = (s32[], f32[16], f32[16,8,32], f32[32,16]) parameter(0)\n i = s32[] get-tuple-element(t), index=0\n"
        " c = f32[16] get-tuple-element(t), index=1\n x = f32[16,8,32] get-tuple-element(t), index=2\n"
        " w = f32[32,16] get-tuple-element(t), index=3\n o = s32[] constant(1)\n z = s32[] constant(0)\n"
        " j = s32[] add(i, o)\n d = f32[1,8,32] dynamic-slice(x, i, z, z), dynamic_slice_sizes={1,8,32}\n"
        " e = f32[8,32] reshape(d)\n"
        " y = f32[8,16] dot(e, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n q = f32[] constant(0)\n"
        " h = f32[8,16] tanh(y)\n r = f32[16] reduce(h, q), dimensions={0}, to_apply=sum\n"
        " a = f32[16] add(c, r)\n"
        " ROOT u = (s32[], f32[16], f32[16,8,32], f32[32,16]) tuple(j, a, x, w)\n}\nENTRY e {\n"
        " x = f32[16,8,32] parameter(0), sharding={devices=[1,8,1]<=[8]}\n"
        " w = f32[32,16] parameter(1), sharding={devices=[8,1]<=[8]}\n z = s32[] constant(0)\n"
        " q = f32[] constant(0)\n c = f32[16] broadcast(q), dimensions={}\n"
        " t = (s32[], f32[16], f32[16,8,32], f32[32,16]) tuple(z, c, x, w)\n"
        " u = (s32[], f32[16], f32[16,8,32], f32[32,16]) while(t), condition=more, body=step\n"
        " ROOT g = f32[16] get-tuple-element(u), index=1, sharding={replicated}\n}\n",
        32 * 16 * 4 / 8 * 7 + 2 * 16 * 4 / 8 * 7});
}
