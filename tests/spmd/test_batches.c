// SPDX-License-Identifier: Apache-2.0
// Attention over a sharded sequence: scores are sharded by heads or batches where exchanging queries, keys, values and
// the result sends less than gathering keys and values.
#include <criterion/criterion.h>
#include <stdio.h>

#include "tests/spmd/check.h"
#include "tests/support/cases.h"

// softmax without its maximum, of f32[batch, sequence, heads, 4]; the sharding is that of all four.
typedef struct Attention {
    const char *name;
    int batch, sequence, heads;
    const char *sharding;
    bool loop;      // in a loop of three iterations, whose result is the next queries
    int64_t bytes;  // -1: not looked at
} Attention;

// 4 devices exchange 3/4 of their quarter.
#define EXCHANGE(N) ((N)*4 / 4 * 3 / 4 * 4)

static const Attention programs[] = {
    {"by heads", 1, 16, 4, "{devices=[1,4,1,1]<=[4]}", false, 4 * EXCHANGE(64)},
    {"by batches", 4, 16, 3, "{devices=[1,4,1,1]<=[4]}", false, 4 * EXCHANGE(192)},
    {"uneven sequence", 1, 14, 4, "{devices=[1,4,1,1]<=[4]}", false, -1},
    {"uneven heads", 1, 16, 3, "{devices=[1,4,1,1]<=[4]}", false, -1},
    {"one head", 1, 16, 1, "{devices=[1,4,1,1]<=[4]}", false, -1},
    {"two axes", 1, 16, 4, "{devices=[1,4,1,1]<=[2,2]T(1,0)}", false, 4 * EXCHANGE(64)},
    {"an axis of the heads too", 2, 16, 4, "{devices=[1,2,2,1]<=[4]}", false, 4 * 128 * 4 / 4 / 2 * 4},
    {"an axis of the batch too", 2, 16, 2, "{devices=[2,2,1,1]<=[2,2]T(1,0)}", false, 4 * 64 * 4 / 4 / 2 * 4},
    // Queries once before the loop, and the result once after it would be less.
    {"in a loop", 1, 16, 4, "{devices=[1,4,1,1]<=[4]}", true, -1},
};

static const char *write_layer(char *text, size_t size, const Attention *program) {
    const int b = program->batch, n = program->sequence, h = program->heads;
    snprintf(text, size,
             " s = f32[%d,%d,%d,%d] dot(q, k), lhs_batch_dims={0,2}, lhs_contracting_dims={3}, rhs_batch_dims={0,2}, "
             "rhs_contracting_dims={3}\n x = f32[%d,%d,%d,%d] exponential(s)\n z = f32[] constant(0)\n"
             " t = f32[%d,%d,%d] reduce(x, z), dimensions={3}, to_apply=sum\n"
             " u = f32[%d,%d,%d,%d] broadcast(t), dimensions={0,1,2}\n w = f32[%d,%d,%d,%d] divide(x, u)\n"
             " o = f32[%d,%d,%d,4] dot(w, v), lhs_batch_dims={0,1}, lhs_contracting_dims={3}, rhs_batch_dims={0,2}, "
             "rhs_contracting_dims={1}\n y = f32[%d,%d,%d,4] transpose(o), dimensions={0,2,1,3}\n",
             b, h, n, n, b, h, n, n, b, h, n, b, h, n, n, b, h, n, n, b, h, n, b, n, h);
    return text;
}

static void write_program(HloText *text, const Attention *program) {
    char layer[1000], shape[40], tuple[200];
    write_layer(layer, sizeof(layer), program);
    snprintf(shape, sizeof(shape), "f32[%d,%d,%d,4]", program->batch, program->sequence, program->heads);
    snprintf(tuple, sizeof(tuple), "(s32[], %s, %s, %s)", shape, shape, shape);
    hlo_text_string(text,
                    "HloModule m, num_partitions=4\nsum {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n"
                    " ROOT c = f32[] add(a, b)\n}\n");
    if (program->loop)
        hlo_text_format(text,
                        "more {\n p = %s parameter(0)\n i = s32[] get-tuple-element(p), index=0\n"
                        " n = s32[] constant(3)\n ROOT l = pred[] compare(i, n), direction=LT\n}\n"
                        "step {\n p = %s parameter(0)\n i = s32[] get-tuple-element(p), index=0\n"
                        " q = %s get-tuple-element(p), index=1\n k = %s get-tuple-element(p), index=2\n"
                        " v = %s get-tuple-element(p), index=3\n e = s32[] constant(1)\n j = s32[] add(i, e)\n%s"
                        " ROOT r = %s tuple(j, y, k, v)\n}\n",
                        tuple, tuple, shape, shape, shape, layer, tuple);
    hlo_text_string(text, "ENTRY e {\n");
    for (int i = 0; i < 3; i++)
        hlo_text_format(text, " %c = %s parameter(%d), sharding=%s\n", "qkv"[i], shape, i, program -> sharding);
    if (program->loop)
        hlo_text_format(text,
                        " i = s32[] constant(0)\n p = %s tuple(i, q, k, v)\n"
                        " l = %s while(p), condition=more, body=step\n y = %s get-tuple-element(l), index=1\n",
                        tuple, tuple, shape);
    else
        hlo_text_string(text, layer);
    hlo_text_format(text, " ROOT f = %s copy(y), sharding=%s\n}\n", shape, program->sharding);
}

CaseList(batches, attention_by_heads) {
    return cases_numbered(HLO_COUNT_OF(programs));
}

CaseTest(const int *number, batches, attention_by_heads) {
    const Attention *program = &programs[*number];
    HloText text = {0};
    write_program(&text, program);
    if (program->bytes < 0)
        check_partitioned(text.data, &(SpmdOptions){0}, 1);
    else
        expect_bytes(&(SentBytes){program->name, text.data, program->bytes});
    hlo_text_free(&text);
}

#define PRODUCTS(A, ATiles, B, BTiles, Result, Tiles)                                                           \
    "HloModule m, num_partitions=4\nENTRY e {\n a = " A " parameter(0), sharding={devices=" ATiles "}\n b = " B \
    " parameter(1), sharding={devices=" BTiles "}\n d = " Result                                                \
    " dot(a, b), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}\n"  \
    " ROOT t = " Result " copy(d), sharding={devices=" Tiles "}\n}\n"

// Each device has a part of the sums. bug: the exchange of both operands for batches, and of the result back, was
// compared with gathering an operand, not with scattering the sums.
static const SentBytes sums[] = {
    {"rows of sums",
     PRODUCTS("f32[4,16,32]", "[1,1,4]<=[4]", "f32[4,32,16]", "[1,4,1]<=[4]", "f32[4,16,16]", "[1,4,1]<=[4]"),
     4 * 12 * 16 * 4},
    {"rows of sums, uneven in what is summed",
     PRODUCTS("f32[4,16,30]", "[1,1,4]<=[4]", "f32[4,30,16]", "[1,4,1]<=[4]", "f32[4,16,16]", "[1,4,1]<=[4]"),
     4 * 12 * 16 * 4},
    {"columns of sums of two axes",
     PRODUCTS("f32[4,16,32]", "[1,1,4]<=[2,2]T(1,0)", "f32[4,32,16]", "[1,4,1]<=[2,2]T(1,0)", "f32[4,16,16]",
              "[1,1,4]<=[2,2]T(1,0)"),
     4 * 16 * 12 * 4},
    {"one batch",
     PRODUCTS("f32[1,16,32]", "[1,1,4]<=[4]", "f32[1,32,16]", "[1,4,1]<=[4]", "f32[1,16,16]", "[1,4,1]<=[4]"),
     12 * 16 * 4},
    // The operands are smaller than the sums: one is exchanged for rows, and the other gathered.
    {"rows of larger sums",
     PRODUCTS("f32[4,16,4]", "[1,1,4]<=[4]", "f32[4,4,16]", "[1,4,1]<=[4]", "f32[4,16,16]", "[1,4,1]<=[4]"),
     3 * 4 * 4 * 4 + 3 * 4 * 16 * 4},
};

CaseList(batches, bug_sums_of_products_that_are_scattered) {
    return cases_numbered(HLO_COUNT_OF(sums));
}

CaseTest(const int *number, batches, bug_sums_of_products_that_are_scattered) {
    expect_bytes(&sums[*number]);
}
