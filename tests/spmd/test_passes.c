// SPDX-License-Identifier: Apache-2.0
// The passes after partitioning: their results for small programs, and that programs still compute the same.
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "hlo/text/text.h"
#include "hlo/verify/verify.h"
#include "spmd_partitioner/passes/passes.h"
#include "tests/spmd/generate.h"

static int64_t count_ops(const HloModule *module, HloOpcode opcode) {
    int64_t count = 0;
    for (int64_t c = 0; c < module->computations.count; c++) {
        for (const HloInstruction *at = module->computations.items[c]->first; at; at = at->next)
            count += at->opcode == opcode;
    }
    return count;
}

static void expect_valid(const HloModule *module) {
    HloStatus status = hlo_verify(module);
    cr_expect_null(status, "%s", hlo_status_message(status));
    hlo_status_free(status);
}

#define SUM "sum {\n x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT z = f32[] add(x, y)\n}\n\n"

Test(passes, identical_collectives_merge) {
    HloModule *module = parse_text(
        "HloModule m, num_partitions=4\n" SUM
        "ENTRY e {\n p = f32[4] parameter(0)\n"
        " a = f32[4] all-reduce(p), channel_id=1, replica_groups=[1,4]<=[4], use_global_device_ids=true, to_apply=sum\n"
        " b = f32[4] all-reduce(p), channel_id=2, replica_groups=[1,4]<=[4], use_global_device_ids=true, to_apply=sum\n"
        " c = f32[4] all-reduce(p), channel_id=3, replica_groups=[2,2]<=[4], use_global_device_ids=true, to_apply=sum\n"
        " d = f32[4] add(a, b)\n ROOT s = f32[4] add(c, d)\n}\n");
    HloArena *scratch = hlo_arena_new();
    cr_assert_null(spmd_merge_collectives(module, scratch));
    cr_expect_eq(count_ops(module, HLO_OP_ALL_REDUCE), 2);
    expect_valid(module);
    hlo_arena_free(scratch);
    hlo_module_free(module);
}

// Two equal chains: each exchange is equal to its twin only once everything before is, also with the factors swapped.
Test(passes, equal_chains_become_one) {
    enum { LENGTH = 40 };
    HloText text = {0};
    hlo_text_string(&text, "HloModule m, num_partitions=4\n" SUM "ENTRY e {\n p = f32[4] parameter(0)\n");
    for (int chain = 0; chain < 2; chain++) {
        for (int i = 0; i < LENGTH; i++) {
            char operand[16] = "p";
            if (i) snprintf(operand, sizeof(operand), "c%d.%d", chain, i - 1);
            hlo_text_format(&text,
                            " a%d.%d = f32[4] all-reduce(%s), channel_id=%d, replica_groups=[1,4]<=[4], "
                            "use_global_device_ids=true, to_apply=sum\n b%d.%d = f32[4] sine(a%d.%d)\n"
                            " c%d.%d = f32[4] multiply(%c%d.%d, %c%d.%d)\n",
                            chain, i, operand, chain * LENGTH + i + 1, chain, i, chain, i, chain, i, chain ? 'b' : 'a',
                            chain, i, chain ? 'a' : 'b', chain, i);
        }
    }
    hlo_text_format(&text, " ROOT s = f32[4] add(c0.%d, c1.%d)\n}\n", LENGTH - 1, LENGTH - 1);
    HloModule *module = parse_text(text.data);
    HloArena *scratch = hlo_arena_new();
    cr_assert_null(spmd_merge_collectives(module, scratch));
    cr_expect_eq(count_ops(module, HLO_OP_ALL_REDUCE), LENGTH);
    cr_expect_eq(count_ops(module, HLO_OP_MULTIPLY), LENGTH);
    expect_valid(module);
    hlo_arena_free(scratch);
    hlo_module_free(module);
    hlo_text_free(&text);
}

// bug: users of two equal exchanges were not compared with other users.
Test(passes, bug_users_of_both_twins_stayed_apart) {
    static const char *const kSums[][3] = {{"a", "p", ""},
                                           {"b", "p", ""},
                                           {"c", "p", "v = f32[4] atan2(a, b)\n w = f32[4] atan2(a, c)\n"},
                                           {"d", "v", ""},
                                           {"e", "w", "ROOT r = f32[4] power(d, e)\n}\n"}};
    HloText text = {0};
    hlo_text_string(&text, "HloModule m, num_partitions=4\n" SUM "ENTRY entry {\n p = f32[4] parameter(0)\n");
    for (size_t i = 0; i < HLO_COUNT_OF(kSums); i++)
        hlo_text_format(&text,
                        " %s = f32[4] all-reduce(%s), channel_id=%d, replica_groups=[1,4]<=[4], "
                        "use_global_device_ids=true, to_apply=sum\n %s",
                        kSums[i][0], kSums[i][1], (int)i + 1, kSums[i][2]);
    HloModule *module = parse_text(text.data);
    HloArena *scratch = hlo_arena_new();
    cr_assert_null(spmd_merge_collectives(module, scratch));
    cr_expect_eq(count_ops(module, HLO_OP_ALL_REDUCE), 2);
    expect_valid(module);
    hlo_arena_free(scratch);
    hlo_module_free(module);
    hlo_text_free(&text);
}

// bug: an all-reduce without a channel sums over replicas, one with a channel over partitions; they were merged as
// equal.
Test(passes, bug_collectives_of_replicas_and_of_partitions_merged) {
    HloModule *module = parse_text("HloModule m, replica_count=2, num_partitions=2\n" SUM
                                   "ENTRY e {\n p = f32[4] parameter(0)\n"
                                   " a = f32[4] all-reduce(p), replica_groups={{0,1}}, to_apply=sum\n"
                                   " b = f32[4] all-reduce(p), channel_id=2, replica_groups={{0,1}}, to_apply=sum\n"
                                   " c = f32[4] collective-permute(p), source_target_pairs={{0,1}}\n"
                                   " d = f32[4] collective-permute(p), channel_id=3, source_target_pairs={{0,1}}\n"
                                   " ROOT t = (f32[4], f32[4], f32[4], f32[4]) tuple(a, b, c, d)\n}\n");
    HloArena *scratch = hlo_arena_new();
    cr_assert_null(spmd_merge_collectives(module, scratch));
    cr_expect_eq(count_ops(module, HLO_OP_ALL_REDUCE), 2);
    cr_expect_eq(count_ops(module, HLO_OP_COLLECTIVE_PERMUTE), 2);
    hlo_arena_free(scratch);
    hlo_module_free(module);
}

// As x.mean(0) beside x.var(0), which takes the mean again: two reductions of two computations, one with a reshape
// after it, and what follows from both. Four sums become two.
Test(passes, what_is_computed_twice_is_exchanged_once) {
    static const char *const text =
        "HloModule m, num_partitions=4\n" SUM
        "again {\n x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT z = f32[] add(x, y)\n}\n\n"
        "ENTRY e {\n p = f32[8,6] parameter(0), sharding={devices=[4,1]<=[4]}\n z = f32[] constant(0)\n"
        " o = f32[] constant(0)\n a = f32[6] reduce(p, z), dimensions={0}, to_apply=sum\n"
        " b = f32[6] reduce(p, o), dimensions={0}, to_apply=again\n c = f32[1,6] reshape(b)\n"
        " d = f32[1,6] cosine(c)\n f = f32[6] reshape(d)\n g = f32[6] sine(a)\n h = f32[6] sine(b)\n"
        " i = f32[8,6] broadcast(g), dimensions={1}\n j = f32[8,6] broadcast(h), dimensions={1}\n"
        " k = f32[8,6] multiply(p, i)\n l = f32[8,6] multiply(p, j)\n"
        " n = f32[6] reduce(k, z), dimensions={0}, to_apply=again\n q = f32[6] reduce(l, o), dimensions={0}, "
        "to_apply=sum\n r = f32[6] add(n, q)\n ROOT s = f32[6] multiply(r, f)\n}\n";
    SpmdOptions alone = {.no_combine = true};
    char *counts = collectives_of(text, &alone);
    cr_expect_str_eq(counts, "2 all-reduce");
    hlo_free(counts);
    check_partitioned(text, NULL, 1);
}

Test(passes, sliced_all_reduce_becomes_reduce_scatter) {
    static const char *const text =
        "HloModule m, num_partitions=4\n" SUM
        "ENTRY e {\n p = f32[8] parameter(0)\n"
        " a = f32[8] all-reduce(p), channel_id=1, replica_groups=[1,4]<=[4], use_global_device_ids=true, to_apply=sum\n"
        " t = s32[4] constant({0,2,4,%d})\n i = u32[] partition-id()\n s = s32[1] dynamic-slice(t, i), "
        "dynamic_slice_sizes={1}\n"
        " o = s32[] reshape(s)\n d = f32[2] dynamic-slice(a, o), dynamic_slice_sizes={2}\n ROOT n = f32[2] "
        "negate(d)\n}\n";
    for (int right = 0; right < 2; right++) {
        HloText whole = {0};
        hlo_text_format(&whole, text, right ? 6 : 5);
        HloModule *module = parse_text(whole.data);
        HloArena *scratch = hlo_arena_new();
        spmd_form_reduce_scatters(module, scratch);
        cr_expect_eq(count_ops(module, HLO_OP_REDUCE_SCATTER), right);
        cr_expect_eq(count_ops(module, HLO_OP_ALL_REDUCE), 1 - right);
        expect_valid(module);
        hlo_arena_free(scratch);
        hlo_module_free(module);
        hlo_text_free(&whole);
    }
}

// A weight that the loop only reads is gathered once, not five times.
Test(passes, invariant_collectives_leave_loops) {
    static const char *const text =
        "HloModule m, num_partitions=2\n\nc {\n p = (s32[], f32[4,4], f32[4,4]) parameter(0)\n i = s32[] "
        "get-tuple-element(p), index=0\n"
        " n = s32[] constant(5)\n ROOT l = pred[] compare(i, n), direction=LT\n}\n\n"
        "b {\n p = (s32[], f32[4,4], f32[4,4]) parameter(0)\n i = s32[] get-tuple-element(p), index=0\n o = s32[] "
        "constant(1)\n j = s32[] add(i, o)\n"
        " x = f32[4,4] get-tuple-element(p), index=1\n w = f32[4,4] get-tuple-element(p), index=2\n"
        " g = f32[4,4] custom-call(w), custom_call_target=\"Sharding\", sharding={replicated}\n y = f32[4,4] add(x, "
        "g)\n"
        " ROOT t = (s32[], f32[4,4], f32[4,4]) tuple(j, y, w)\n}\n\n"
        "ENTRY e {\n z = s32[] constant(0)\n a = f32[4,4] parameter(0), sharding={replicated}\n"
        " v = f32[4,4] parameter(1), sharding={devices=[2,1]<=[2]}\n t = (s32[], f32[4,4], f32[4,4]) tuple(z, a, v)\n"
        " w = (s32[], f32[4,4], f32[4,4]) while(t), condition=c, body=b\n ROOT r = f32[4,4] get-tuple-element(w), "
        "index=1\n}\n";
    check_partitioned(text, NULL, 1);
    HloModule *module = parse_text(text), *partitioned;
    SpmdReport *report;
    cr_assert_null(spmd_partition(module, NULL, &partitioned, &report));
    cr_assert_eq(report->collective_count, 1);
    cr_expect_eq(report->collectives[0].trip_count, 1);
    spmd_report_free(report);
    hlo_module_free(partitioned);
    hlo_module_free(module);
}

// All-reduces that do not depend on each other are combined; one that depends on another is not.
Test(passes, independent_all_reduces_combine) {
    static const char *const text = "HloModule m, num_partitions=2\n" SUM
                                    "ENTRY e {\n p = f32[4,6] parameter(0), sharding={devices=[2,1]<=[2]}\n q = "
                                    "f32[4,6] parameter(1), sharding={devices=[2,1]<=[2]}\n"
                                    " z = f32[] constant(0)\n a = f32[6] reduce(p, z), dimensions={0}, to_apply=sum\n "
                                    "b = f32[6] reduce(q, z), dimensions={0}, to_apply=sum\n"
                                    " s = f32[6] broadcast(z), dimensions={}\n t = f32[4,6] broadcast(a), "
                                    "dimensions={1}\n u = f32[4,6] multiply(t, p)\n"
                                    " c = f32[6] reduce(u, z), dimensions={0}, to_apply=sum\n d = f32[6] add(a, b)\n "
                                    "ROOT r = f32[6] add(c, d)\n}\n";
    char *counts = collectives_of(text, NULL);
    cr_expect_str_eq(counts, "2 all-reduce");
    hlo_free(counts);
    SpmdOptions alone = {.no_combine = true};
    counts = collectives_of(text, &alone);
    cr_expect_str_eq(counts, "3 all-reduce");
    hlo_free(counts);
    check_partitioned(text, NULL, 1);
}

// Collectives of one kind that do not need each other, of arrays of different shapes and types: `want` is the number
// left of them, `alone` their number without the pass.
static void expect_joined(const char *body, const char *want, const char *alone) {
    HloText text = {0};
    hlo_text_format(&text, "HloModule m, num_partitions=4\n" SUM "ENTRY e {\n%s}\n", body);
    const SpmdOptions apart = {.no_combine = true}, async = {.async = true};
    expect_collectives(text.data, NULL, want);
    expect_collectives(text.data, &apart, alone);
    check_partitioned(text.data, &async, 5);
    hlo_text_free(&text);
}

#define ROWS ", sharding={devices=[4,1]<=[4]}"
#define COLUMNS ", sharding={devices=[1,4]<=[4]}"
#define WHOLE ", sharding={replicated}"

Test(passes, independent_gathers_combine) {
    // Sizes differ, one is uneven, one has another type; that of d needs that of a.
    expect_joined(" p = f32[8,6] parameter(0)" ROWS "\n q = f32[7,3] parameter(1)" ROWS
                  "\n s = bf16[4,2] parameter(2)" ROWS "\n a = f32[8,6] copy(p)" WHOLE "\n b = f32[7,3] copy(q)" WHOLE
                  "\n c = bf16[4,2] copy(s)" WHOLE "\n d = f32[8,6] reverse(a), dimensions={1}" ROWS
                  "\n e = f32[8,6] copy(d)" WHOLE
                  "\n ROOT t = (f32[8,6], f32[7,3], bf16[4,2], f32[8,6]) tuple(a, b, c, e)"
                  ", sharding={{replicated}, {replicated}, {replicated}, {replicated}}\n",
                  "2 all-gather", "4 all-gather");
    // Gathered along different dimensions: two kinds.
    expect_joined(" p = f32[8,4] parameter(0)" ROWS "\n q = f32[8,4] parameter(1)" COLUMNS
                  "\n a = f32[8,4] copy(p)" WHOLE "\n b = f32[8,4] copy(q)" WHOLE "\n ROOT t = f32[8,4] add(a, b)" WHOLE
                  "\n",
                  "2 all-gather", "2 all-gather");
    // Large arrays gain nothing.
    expect_joined(" p = f32[1024,512] parameter(0)" ROWS "\n q = f32[1024,512] parameter(1)" ROWS
                  "\n a = f32[1024,512] copy(p)" WHOLE "\n b = f32[1024,512] copy(q)" WHOLE
                  "\n ROOT t = f32[1024,512] add(a, b)" WHOLE "\n",
                  "2 all-gather", "2 all-gather");
}

Test(passes, independent_exchanges_combine) {
    // Blocks of the first dimension, of another one, of an array that needs padding, and of another type.
    expect_joined(" p = f32[8,4] parameter(0)" ROWS
                  "\n q = f32[3,4,8] parameter(1), sharding={devices=[1,4,1]<=[4]}"
                  "\n s = f32[6,5] parameter(2)" ROWS "\n u = s8[4,4] parameter(3)" ROWS
                  "\n a = f32[8,4] copy(p)" COLUMNS
                  "\n b = f32[3,4,8] copy(q), sharding={devices=[1,1,4]<=[4]}"
                  "\n c = f32[6,5] copy(s)" COLUMNS "\n d = s8[4,4] copy(u)" COLUMNS
                  "\n ROOT t = (f32[8,4], f32[3,4,8], f32[6,5], s8[4,4]) tuple(a, b, c, d), "
                  "sharding={{devices=[1,4]<=[4]}, {devices=[1,1,4]<=[4]}, {devices=[1,4]<=[4]}, "
                  "{devices=[1,4]<=[4]}}\n",
                  "2 all-to-all", "4 all-to-all");
}

Test(passes, independent_parts_of_sums_combine) {
    expect_joined(" p = f32[8,6] parameter(0)" ROWS "\n q = f32[8,4] parameter(1)" ROWS
                  "\n z = f32[] constant(0)"
                  "\n a = f32[4,6] dot(q, p), lhs_contracting_dims={0}, rhs_contracting_dims={0}" ROWS
                  "\n b = f32[6,4] dot(p, q), lhs_contracting_dims={0}, rhs_contracting_dims={0}" COLUMNS
                  "\n c = f32[4,4] dot(q, q), lhs_contracting_dims={0}, rhs_contracting_dims={0}" ROWS
                  "\n ROOT t = (f32[4,6], f32[6,4], f32[4,4]) tuple(a, b, c), sharding={{devices=[4,1]<=[4]}, "
                  "{devices=[1,4]<=[4]}, {devices=[4,1]<=[4]}}\n",
                  "2 reduce-scatter", "3 reduce-scatter");
}

Test(passes, equal_permutes_combine) {
    expect_joined(" p = f32[8,6] parameter(0)" ROWS "\n q = s8[4,2] parameter(1)" ROWS
                  "\n a = f32[8,6] copy(p), sharding={devices=[4,1]3,2,1,0}"
                  "\n b = s8[4,2] copy(q), sharding={devices=[4,1]3,2,1,0}"
                  "\n ROOT t = (f32[8,6], s8[4,2]) tuple(a, b), sharding={{devices=[4,1]3,2,1,0}, "
                  "{devices=[4,1]3,2,1,0}}\n",
                  "1 collective-permute", "2 collective-permute");
}

// More kinds than can be filled in one walk: twice as many gathers as there are groups, no two of which are of one kind
// but for pairs along one dimension.
Test(passes, any_number_of_kinds_combine) {
    HloText text = {0};
    hlo_text_string(&text,
                    "HloModule m, num_partitions=2\nENTRY e {\n x0 = f32[2,4] parameter(0), "
                    "sharding={devices=[2,1]<=[2]}\n y0 = f32[2,2] parameter(1), "
                    "sharding={devices=[2,1]<=[2]}\n");
    enum { LINKS = 70 };  // each needs the one before, so that none of them can share a group
    for (int i = 0; i < LINKS; i++) {
        for (const char *name = "xy"; *name; name++) {
            const int columns = *name == 'x' ? 4 : 2;
            hlo_text_format(&text,
                            " g%c%d = f32[2,%d] copy(%c%d), sharding={replicated}\n"
                            " %c%d = f32[2,%d] reverse(g%c%d), dimensions={1}, sharding={devices=[2,1]<=[2]}\n",
                            *name, i, columns, *name, i, *name, i + 1, columns, *name, i);
        }
    }
    hlo_text_format(&text,
                    " ROOT t = (f32[2,4], f32[2,2]) tuple(x%d, y%d), sharding={{devices=[2,1]<=[2]}, "
                    "{devices=[2,1]<=[2]}}\n}\n",
                    LINKS, LINKS);
    expect_collectives(text.data, NULL, "70 all-gather");
    hlo_text_free(&text);
}

// The instructions of the entry, one letter each: S and D for the halves of a collective, P for parameters, . for
// others.
static char *order_of(const char *text) {
    SpmdOptions options = {.async = true};
    HloModule *module = parse_text(text), *partitioned = NULL;
    cr_assert_null(spmd_partition(module, &options, &partitioned, NULL));
    HloText order = {0};
    for (const HloInstruction *at = partitioned->entry->first; at; at = at->next) {
        bool start = hlo_op_is(at->opcode, HLO_OP_IS_ASYNC_START), done = hlo_op_is(at->opcode, HLO_OP_IS_ASYNC_DONE);
        hlo_text_char(&order, start ? 'S' : done ? 'D' : hlo_is(at, HLO_OP_PARAMETER) ? 'P' : '.');
    }
    hlo_module_free(partitioned);
    hlo_module_free(module);
    return order.data;
}

// Weights are not all gathered at the start of a step: the second product's come while the first is computed.
Test(passes, gathers_start_only_so_early_as_they_must) {
    char *order = order_of(
        "HloModule m, num_partitions=4\nENTRY e {\n x = f32[512,512] parameter(0), sharding={devices=[4,1]<=[4]}\n"
        " v = f32[512,512] parameter(1), sharding={devices=[4,1]<=[4]}\n"
        " w = f32[512,512] parameter(2), sharding={devices=[4,1]<=[4]}\n"
        " a = f32[512,512] dot(x, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
        "sharding={devices=[4,1]<=[4]}\n"
        " b = f32[512,512] dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={1}, "
        "sharding={devices=[4,1]<=[4]}\n"
        " c = f32[512,512] dot(b, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
        "sharding={devices=[4,1]<=[4]}\n"
        " ROOT d = f32[512,512] dot(c, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
        "sharding={devices=[4,1]<=[4]}\n}\n");
    char *last = strrchr(order, 'S');
    cr_assert_not_null(last, "%s", order);
    cr_expect_gt(last - strchr(order, 'D'), 0, "all gathers start before anything is there: %s", order);
    hlo_free(order);
}

// A sum starts as soon as its operands are there and ends where it is used.
Test(passes, sums_run_beside_what_does_not_need_them) {
    char *order = order_of(
        "HloModule m, num_partitions=4\nENTRY e {\n x = f32[64,64] parameter(0), sharding={devices=[1,4]<=[4]}\n"
        " y = f32[64,64] parameter(1), sharding={devices=[4,1]<=[4]}\n z = f32[64] parameter(2), "
        "sharding={replicated}\n"
        " a = f32[64,64] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}, sharding={replicated}\n"
        " s = f32[64] sine(z), sharding={replicated}\n t = f32[64] cosine(s), sharding={replicated}\n"
        " u = f32[64,64] broadcast(t), dimensions={0}\n ROOT r = f32[64,64] add(a, u), sharding={replicated}\n}\n");
    cr_expect_str_eq(order, "PPP.S...D.");
    hlo_free(order);
}

// bug: the halves had none of the edges of the collective, which could then start before what it had to wait for.
Test(passes, bug_halves_of_collectives_lost_their_control_edges) {
    HloModule *module = parse_text("HloModule m, num_partitions=4\n" SUM
                                   "ENTRY e {\n p = f32[8] parameter(0)\n a = f32[8] sine(p)\n b = f32[8] cosine(p)\n"
                                   " s = f32[8] all-reduce(p), channel_id=1, replica_groups={{0,1,2,3}}, "
                                   "use_global_device_ids=true, to_apply=sum, "
                                   "control-predecessors={a}\n"
                                   " t = f32[8] all-reduce(b), channel_id=1, replica_groups={{0,1,2,3}}, "
                                   "use_global_device_ids=true, to_apply=sum, "
                                   "control-predecessors={s}\n"
                                   " c = f32[8] negate(p), control-predecessors={t}\n"
                                   " ROOT r = (f32[8], f32[8], f32[8], f32[8], f32[8]) tuple(a, b, s, t, c)\n}\n");
    HloArena *scratch = hlo_arena_new();
    cr_assert_null(spmd_make_async(module, scratch));
    hlo_arena_free(scratch);
    expect_valid(module);
    const HloInstruction *tuple = module->entry->root, *s = tuple->operands[2], *t = tuple->operands[3];
    cr_assert(hlo_is(s, HLO_OP_ALL_REDUCE_DONE) && hlo_is(t, HLO_OP_ALL_REDUCE_DONE));
    const HloInstructionVector *before_s = &s->operands[0]->control_predecessors;
    const HloInstructionVector *before_t = &t->operands[0]->control_predecessors;
    const HloInstructionVector *before_c = &tuple->operands[4]->control_predecessors;
    cr_assert(before_s->count == 1 && before_t->count == 1 && before_c->count == 1);
    cr_expect_eq(before_s->items[0], tuple->operands[0]);
    cr_expect_eq(before_t->items[0], s);
    cr_expect_eq(before_c->items[0], t);
    // The list is an order that keeps them.
    HloText order = {0};
    for (const HloInstruction *at = module->entry->first; at; at = at->next)
        hlo_text_char(&order, at == s->operands[0]   ? 'S'
                              : at == s              ? 's'
                              : at == t->operands[0] ? 'T'
                              : at == t              ? 't'
                                                     : '.');
    cr_expect_str_eq(order.data, "..S.sTt..");
    hlo_text_free(&order);
    hlo_module_free(module);
}

// Reduce-scatters and all-to-alls have no start op of their own: async-start calls them.
Test(passes, exchanges_run_beside_what_does_not_need_them) {
    const char *text =
        "HloModule m, num_partitions=4\nENTRY e {\n x = f32[64,64] parameter(0), sharding={devices=[1,4]<=[4]}\n"
        " y = f32[64,64] parameter(1), sharding={devices=[4,1]<=[4]}\n z = f32[64] parameter(2), "
        "sharding={replicated}\n"
        " a = f32[64,64] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}, sharding={devices=[4,1]<=[4]}\n"
        " b = f32[64,64] copy(x), sharding={devices=[4,1]<=[4]}\n"
        " s = f32[64] sine(z), sharding={replicated}\n u = f32[64,64] broadcast(s), dimensions={1}\n"
        " v = f32[64,64] add(u, a)\n ROOT r = f32[64,64] add(v, b), sharding={devices=[4,1]<=[4]}\n}\n";
    char *counts = collectives_of(text, NULL);
    cr_expect(strstr(counts, "1 all-to-all") && strstr(counts, "1 reduce-scatter"), "%s", counts);
    SpmdOptions options = {.async = true};
    char *halved = collectives_of(text, &options);
    cr_expect(strstr(halved, "1 all-to-all") && strstr(halved, "1 reduce-scatter"), "%s", halved);
    char *order = order_of(text);
    int starts = 0, between = 0;
    for (const char *at = order; *at; at++) {
        starts += (*at == 'S') - (*at == 'D');
        between += *at == '.' && starts > 0;
    }
    cr_expect_geq(between, 2, "nothing runs beside them: %s", order);
    check_partitioned(text, &options, 4);
    hlo_free(order);
    hlo_free(halved);
    hlo_free(counts);
}

Test(passes, programs_compute_the_same_with_async_pairs) {
    SpmdOptions options = {.async = true};
    for (uint64_t seed = 50000; seed < 50400; seed++) {
        char *text = generate_program(seed, NULL);
        check_partitioned(text, &options, seed);
        hlo_free(text);
    }
}

// The start of a part as a program of its own may compute it, from a device's number `i`.
static void expect_scatters(const char *index, const char *start, int want) {
    HloText text = {0};
    hlo_text_format(&text,
                    "HloModule m, num_partitions=4\n" SUM
                    "ENTRY e {\n p = f32[256] parameter(0)\n a = f32[256] all-reduce(p), channel_id=1, "
                    "replica_groups=[1,4]<=[4], use_global_device_ids=true, to_apply=sum\n i = u32[] partition-id()\n%s"
                    " d = f32[64] dynamic-slice(a, %s), dynamic_slice_sizes={64}\n ROOT n = f32[64] negate(d)\n}\n",
                    index, start);
    HloModule *module = parse_text(text.data);
    HloArena *scratch = hlo_arena_new();
    spmd_form_reduce_scatters(module, scratch);
    cr_expect_eq(count_ops(module, HLO_OP_REDUCE_SCATTER), want, "%s", text.data);
    expect_valid(module);
    hlo_arena_free(scratch);
    hlo_module_free(module);
    hlo_text_free(&text);
}

Test(passes, indices_are_recognised_in_any_spelling) {
    expect_scatters(" k = u32[] constant(64)\n s = u32[] multiply(i, k)\n", "s", 1);
    expect_scatters(" j = s64[] convert(i)\n k = s64[] constant(64)\n s = s64[] multiply(k, j)\n", "s", 1);
    expect_scatters(
        " a1 = u32[] add(i, i)\n a2 = u32[] add(a1, a1)\n a3 = u32[] add(a2, a2)\n"
        " a4 = u32[] add(a3, a3)\n a5 = u32[] add(a4, a4)\n s = u32[] add(a5, a5)\n",
        "s", 1);
    expect_scatters(
        " k = u32[] constant(256)\n q = u32[] constant(4)\n t = u32[] multiply(i, k)\n"
        " s = u32[] divide(t, q)\n",
        "s", 1);
    expect_scatters(" k = u32[] constant(32)\n s = u32[] multiply(i, k)\n", "s", 0);
    expect_scatters(
        " k = f32[] constant(64)\n f = f32[] convert(i)\n t = f32[] multiply(f, k)\n"
        " s = s32[] convert(t)\n",
        "s", 0);
}

// bug: 2 * 64 is -128 in eight bits, and the third device's part begins at 0; the numbers were read as if they did not
// wrap.
Test(passes, indices_that_wrap_around_are_not_a_separate_part) {
    expect_scatters(" j = s8[] convert(i)\n k = s8[] constant(64)\n s = s8[] multiply(j, k)\n", "s", 0);
    expect_scatters(" j = u8[] convert(i)\n k = u8[] constant(64)\n s = u8[] multiply(j, k)\n", "s", 1);
    expect_scatters(
        " k = u32[] constant(64)\n o = u32[] constant(1)\n j = u32[] subtract(i, o)\n"
        " t = u32[] multiply(j, k)\n s = u32[] add(t, k)\n",
        "s", 0);
}

// bug: each value of a chain of doublings is used twice, and walking it once for each use took 2^38 steps.
Test(passes, indices_of_shared_values_end) {
    HloText index = {0};
    hlo_text_string(&index, " a0 = u64[] convert(i)\n");
    for (int k = 1; k <= 37; k++) hlo_text_format(&index, " a%d = u64[] add(a%d, a%d)\n", k, k - 1, k - 1);
    expect_scatters(index.data, "a37", 0);
    hlo_text_free(&index);
}
