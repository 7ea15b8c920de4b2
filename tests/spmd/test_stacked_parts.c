// SPDX-License-Identifier: Apache-2.0
// What a loop stacks up after it was sent is sent once, after the loop (passes/stacked.c), where the loop may change
// and that is worth it. The programs compute the same, bit for bit: they add up integers.
#include <criterion/criterion.h>
#include <string.h>

#include "hlo/base/memory.h"
#include "hlo/text/text.h"
#include "hlo/verify/verify.h"
#include "spmd_partitioner/passes/passes.h"
#include "tests/spmd/check.h"
#include "tests/spmd/generate.h"

// A loop for i = start; i < limit; i += step, which stacks up sums of what each device has, times i.
typedef struct Loop {
    const char *name, *mesh;      // the sharding of x
    int32_t devices, rows;        // of x: s32[rows,12]
    int32_t start, limit, step;   // of the counter
    int32_t stacked;              // rows of the stack
    const char *index;            // of the row, from %i
    const char *initial, *stack;  // the stack before the loop, its sharding after it
    const char *inside;           // of the row that is added to what is stacked, as %k: "" for zero
    int64_t sent;                 // collectives, as often as they run
    bool stays;                   // in the loop
} Loop;

#define LINE8 "devices=[8,1]<=[8]"
#define BY_I " j = s32[] copy(i)\n"
#define WHOLE "sharding={replicated}"

static const Loop kLoops[] = {
    {"even", LINE8, 8, 16, 0, 5, 1, 5, BY_I, "0", WHOLE, "", 1, false},
    {"uneven", LINE8, 8, 13, 0, 5, 1, 5, BY_I, "0", WHOLE, "", 1, false},
    {"a dimension of one", "devices=[1,8]<=[8]", 8, 1, 0, 5, 1, 5, BY_I, "0", WHOLE, "", 1, false},
    {"three devices", "devices=[3,1]<=[3]", 3, 7, 0, 5, 1, 5, BY_I, "0", WHOLE, "", 1, false},
    {"devices in another order", "devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate", 4, 6, 0, 5, 1, 5, BY_I, "0",
     WHOLE, "", 1, false},
    {"two axes", "devices=[2,4]<=[8]", 8, 6, 0, 5, 1, 5, BY_I, "0", WHOLE, "", 1, false},
    {"the outer of two axes", "devices=[2,1,4]<=[8] last_tile_dim_replicate", 8, 6, 0, 5, 1, 5, BY_I, "0", WHOLE, "", 1,
     false},
    {"the inner of two axes", "devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate", 8, 6, 0, 5, 1, 5, BY_I, "0",
     WHOLE, "", 1, false},
    {"one iteration", LINE8, 8, 16, 0, 1, 1, 1, BY_I, "0", WHOLE, "", 1, true},
    {"another start", LINE8, 8, 16, 3, 8, 1, 5, " k3 = s32[] constant(3)\n j = s32[] subtract(i, k3)\n", "0", WHOLE, "",
     1, false},
    {"from the last row to the first", LINE8, 8, 16, 0, 5, 1, 5,
     " k4 = s32[] constant(4)\n j = s32[] subtract(k4, i)\n", "0", WHOLE, "", 1, false},
    {"steps of two", LINE8, 8, 16, 0, 10, 2, 5, " k2 = s32[] constant(2)\n j = s32[] divide(i, k2)\n", "0", WHOLE, "",
     1, false},
    {"a known permutation of rows", LINE8, 8, 16, 0, 5, 1, 5,
     " order = s32[5] constant({3,0,4,1,2})\n js = s32[1] dynamic-slice(order, i), dynamic_slice_sizes={1}\n j = s32[] "
     "reshape(js)\n",
     "0", WHOLE, "", 1, false},
    {"rows that are written several times", LINE8, 8, 16, 0, 9, 1, 4,
     " k3 = s32[] constant(3)\n j = s32[] minimum(i, k3)\n", "0", WHOLE, "", 1, false},
    {"rows beyond the stack are the last one", LINE8, 8, 16, 0, 7, 1, 5, BY_I, "0", WHOLE, "", 1, false},
    {"every second row: the whole stack would be more", LINE8, 8, 16, 0, 10, 2, 10, BY_I, "0", WHOLE, "", 5, true},
    {"a stack that does not begin with zeros", LINE8, 8, 16, 0, 5, 1, 7, BY_I, "9", WHOLE, "", 5, true},
    {"a stack that is read inside", LINE8, 8, 16, 0, 5, 1, 5, BY_I, "0", WHOLE,
     " k = s32[1] dynamic-slice(stack, i), dynamic_slice_sizes={1}\n", 5, true},
    {"rows that each device takes from its number", LINE8, 8, 16, 0, 8, 1, 8, BY_I, "0", "sharding={devices=[8]<=[8]}",
     "", 8, true},
};

static char *text_of(const Loop *loop) {
    HloText text = {0};
#define TUPLE "(s32[], s32[%d,12], s32[%d])"
    hlo_text_format(
        &text,
        "HloModule m, num_partitions=%d\nadd {\n a = s32[] parameter(0)\n b = s32[] parameter(1)\n ROOT c = "
        "s32[] add(a, b)\n}\ncondition {\n t = " TUPLE
        " parameter(0)\n i = s32[] get-tuple-element(t), index=0\n n = s32[] constant(%d)\n ROOT l = pred[] "
        "compare(i, n), direction=LT\n}\nbody {\n t = " TUPLE
        " parameter(0)\n i = s32[] get-tuple-element(t), index=0\n x = s32[%d,12] get-tuple-element(t), "
        "index=1\n stack = s32[%d] get-tuple-element(t), index=2\n",
        loop->devices, loop->rows, loop->stacked, loop->limit, loop->rows, loop->stacked, loop->rows, loop->stacked);
    hlo_text_format(&text,
                    " step = s32[] constant(%d)\n next = s32[] add(i, step)\n many = s32[%d,12] broadcast(i), "
                    "dimensions={}\n y = s32[%d,12] multiply(x, many)\n zero = s32[] constant(0)\n r = s32[] reduce(y, "
                    "zero), dimensions={0,1}, to_apply=add\n row = s32[1] reshape(r)\n%s%s%s u = s32[%d] "
                    "dynamic-update-slice(stack, %s, j)\n ROOT o = " TUPLE " tuple(next, x, u)\n}\n",
                    loop->step, loop->rows, loop->rows, loop->index, loop->inside,
                    *loop->inside ? " sum = s32[1] add(row, k)\n" : "", loop->stacked, *loop->inside ? "sum" : "row",
                    loop->rows, loop->stacked);
    hlo_text_format(
        &text,
        "ENTRY e {\n i = s32[] constant(%d)\n x = s32[%d,12] parameter(0), sharding={%s}\n c = s32[] "
        "constant(%s)\n stack = s32[%d] broadcast(c), dimensions={}, %s\n t = " TUPLE " tuple(i, x, stack)\n w = " TUPLE
        " while(t), condition=condition, body=body\n ROOT r = s32[%d] get-tuple-element(w), index=2, %s\n}\n",
        loop->start, loop->rows, loop->mesh, loop->initial, loop->stacked, loop->stack, loop->rows, loop->stacked,
        loop->rows, loop->stacked, loop->stacked, loop->stack);
    return text.data;
}

// Fails the current test unless devices send something `want` times, in the loop if it stays there.
static void expect_messages(const char *name, const char *text, const SpmdOptions *options, int64_t want, bool stays) {
    HloModule *module = parse_text(text), *partitioned;
    SpmdReport *report;
    HloStatus status = spmd_partition(module, options, &partitioned, &report);
    if (status) cr_assert_fail("%s: %s\n%s", name, hlo_status_message(status), text);
    int64_t count = 0;
    bool loops = false;
    for (int64_t i = 0; i < report->collective_count; i++) {
        count += report->collectives[i].trip_count;
        loops |= strcmp(report->collectives[i].computation, partitioned->entry->name) != 0;
    }
    cr_expect_eq(count, want, "%s: %lld messages", name, (long long)count);
    cr_expect_eq(loops, stays, "%s", name);
    const bool says = strstr(report->collectives[0].reason, "a loop stacks this up, and the stack is sent once");
    cr_expect_neq(says, stays, "%s: %s", name, report->collectives[0].reason);
    spmd_report_free(report);
    hlo_module_free(partitioned);
    hlo_module_free(module);
    check_partitioned(text, options, 7);
}

Test(stacked_parts, sums_are_sent_once) {
    for (size_t i = 0; i < HLO_COUNT_OF(kLoops); i++) {
        char *text = text_of(&kLoops[i]);
        expect_messages(kLoops[i].name, text, NULL, kLoops[i].sent, kLoops[i].stays);
        hlo_free(text);
    }
}

// What the last of four stages makes of five arrays, in eight steps. The first three rows of `first` are not used.
#define STAGES(index, rows, result)                                                                                 \
    "HloModule m, num_partitions=4\ncondition {\n t = (s32[], s32[4,6], s32[" rows                                  \
    ",6]) parameter(0)\n i = s32[] get-tuple-element(t), index=0\n n = s32[] constant(8)\n ROOT l = pred[] "        \
    "compare(i, "                                                                                                   \
    "n), direction=LT\n}\nbody {\n t = (s32[], s32[4,6], s32[" rows                                                 \
    ",6]) parameter(0)\n i = s32[] get-tuple-element(t), index=0\n x = s32[4,6] get-tuple-element(t), index=1\n "   \
    "stack "                                                                                                        \
    "= s32[" rows                                                                                                   \
    ",6] get-tuple-element(t), index=2\n one = s32[] constant(1)\n zero = s32[] constant(0)\n next = s32[] add(i, " \
    "one)\n many = s32[4,6] broadcast(i), dimensions={}\n y = s32[4,6] subtract(x, many), "                         \
    "sharding={devices=[4,1]<=[4]}\n last = s32[1,6] slice(y), slice={[3:4], [0:6]}, sharding={replicated}\n" index \
    " u = s32[" rows ",6] dynamic-update-slice(stack, last, j, zero)\n ROOT o = (s32[], s32[4,6], s32[" rows        \
    ",6]) tuple(next, y, u)\n}\nENTRY e {\n i = s32[] constant(0)\n x = s32[4,6] parameter(0), "                    \
    "sharding={devices=[4,1]<=[4]}\n c = s32[] constant(2)\n stack = s32[" rows                                     \
    ",6] broadcast(c), dimensions={}, sharding={replicated}\n t = (s32[], s32[4,6], s32[" rows                      \
    ",6]) tuple(i, x, stack)\n w = (s32[], s32[4,6], s32[" rows                                                     \
    ",6]) while(t), condition=condition, body=body\n" result "}\n"

Test(stacked_parts, results_of_one_device_are_sent_once) {
    static const char *const late =
        STAGES(" k3 = s32[] constant(3)\n jk = s32[] subtract(i, k3)\n j = s32[] maximum(jk, zero)\n", "5",
               " ROOT r = s32[5,6] get-tuple-element(w), index=2, sharding={replicated}\n");
    static const char *const sliced =
        STAGES(" j = s32[] copy(i)\n", "8",
               " s = s32[8,6] get-tuple-element(w), index=2, sharding={replicated}\n ROOT r = s32[5,6] slice(s), "
               "slice={[3:8], [0:6]}, sharding={replicated}\n");
    static const char *const filled = STAGES(" j = s32[] copy(i)\n", "10",
                                             " ROOT r = s32[10,6] get-tuple-element(w), index=2, "
                                             "sharding={replicated}\n");
    expect_messages("places written several times", late, NULL, 1, false);
    expect_messages("only used rows", sliced, NULL, 1, false);
    expect_messages("rows that the loop leaves would be sent, too", filled, NULL, 8, true);
}

// The rows of an inner loop's stack are rows of the outer loop's.
Test(stacked_parts, stacks_leave_both_loops) {
    static const char *const text =
        "HloModule m, num_partitions=4\nadd {\n a = s32[] parameter(0)\n b = s32[] parameter(1)\n ROOT c = s32[] "
        "add(a, "
        "b)\n}\ninner_condition {\n t = (s32[], s32[6,2], s32[3]) parameter(0)\n i = s32[] get-tuple-element(t), "
        "index=0\n n = s32[] constant(3)\n ROOT l = pred[] compare(i, n), direction=LT\n}\ninner {\n t = (s32[], "
        "s32[6,2], s32[3]) parameter(0)\n i = s32[] get-tuple-element(t), index=0\n x = s32[6,2] get-tuple-element(t), "
        "index=1\n stack = s32[3] get-tuple-element(t), index=2\n one = s32[] constant(1)\n zero = s32[] constant(0)\n "
        "next = s32[] add(i, one)\n many = s32[6,2] broadcast(i), dimensions={}\n y = s32[6,2] multiply(x, many)\n r = "
        "s32[] reduce(y, zero), dimensions={0,1}, to_apply=add\n row = s32[1] reshape(r)\n u = s32[3] "
        "dynamic-update-slice(stack, row, i)\n ROOT o = (s32[], s32[6,2], s32[3]) tuple(next, x, u)\n}\n"
        "outer_condition {\n t = (s32[], s32[6,2], s32[4,3]) parameter(0)\n i = s32[] get-tuple-element(t), index=0\n "
        "n "
        "= s32[] constant(4)\n ROOT l = pred[] compare(i, n), direction=LT\n}\nouter {\n t = (s32[], s32[6,2], "
        "s32[4,3]) parameter(0)\n i = s32[] get-tuple-element(t), index=0\n x = s32[6,2] get-tuple-element(t), "
        "index=1\n stack = s32[4,3] get-tuple-element(t), index=2\n one = s32[] constant(1)\n zero = s32[] "
        "constant(0)\n next = s32[] add(i, one)\n many = s32[6,2] broadcast(i), dimensions={}\n y = s32[6,2] add(x, "
        "many)\n empty = s32[3] broadcast(zero), dimensions={}\n it = (s32[], s32[6,2], s32[3]) tuple(zero, y, "
        "empty)\n "
        "iw = (s32[], s32[6,2], s32[3]) while(it), condition=inner_condition, body=inner\n row = s32[3] "
        "get-tuple-element(iw), index=2\n rows = s32[1,3] reshape(row)\n u = s32[4,3] dynamic-update-slice(stack, "
        "rows, "
        "i, zero)\n ROOT o = (s32[], s32[6,2], s32[4,3]) tuple(next, x, u)\n}\nENTRY e {\n i = s32[] constant(0)\n x = "
        "s32[6,2] parameter(0), sharding={devices=[4,1]<=[4]}\n stack = s32[4,3] broadcast(i), dimensions={}\n t = "
        "(s32[], s32[6,2], s32[4,3]) tuple(i, x, stack)\n w = (s32[], s32[6,2], s32[4,3]) while(t), "
        "condition=outer_condition, body=outer\n ROOT r = s32[4,3] get-tuple-element(w), index=2, "
        "sharding={replicated}\n}\n";
    expect_messages("nested loops", text, NULL, 1, false);
}

// A loop of one device's program, which writes sums over four devices to row `j`.
#define WRITES(j)                                                                                                     \
    "HloModule m, num_partitions=4\nadd {\n a = s32[] parameter(0)\n b = s32[] parameter(1)\n ROOT c = s32[] add(a, " \
    "b)\n}\ncondition {\n t = (s32[], s32[1], s32[8]) parameter(0)\n i = s32[] get-tuple-element(t), index=0\n n = "  \
    "s32[] constant(8)\n ROOT l = pred[] compare(i, n), direction=LT\n}\nbody {\n t = (s32[], s32[1], s32[8]) "       \
    "parameter(0)\n i = s32[] get-tuple-element(t), index=0\n x = s32[1] get-tuple-element(t), index=1\n stack = "    \
    "s32[8] get-tuple-element(t), index=2\n one = s32[] constant(1)\n next = s32[] add(i, one)\n d = u32[] "          \
    "partition-id()\n device = s32[] convert(d)\n xs = s32[] reshape(x)\n r = s32[1] all-reduce(x), channel_id=1, "   \
    "replica_groups=[1,4]<=[4], use_global_device_ids=true, to_apply=add, "                                           \
    "frontend_attributes={meshlo.reason=\"test\"}\n j = s32[] " j                                                     \
    "\n u = s32[8] dynamic-update-slice(stack, r, j)\n ROOT o = (s32[], s32[1], s32[8]) tuple(next, x, u)\n}\nENTRY " \
    "e {\n i = s32[] constant(0)\n x = s32[1] parameter(0)\n stack = s32[8] broadcast(i), dimensions={}\n t = "       \
    "(s32[], s32[1], s32[8]) tuple(i, x, stack)\n w = (s32[], s32[1], s32[8]) while(t), condition=condition, "        \
    "body=body\n ROOT r = s32[8] get-tuple-element(w), index=2\n}\n"

// Devices that write to different places would add up different rows.
Test(stacked_parts, all_devices_write_to_one_place) {
    static const struct {
        const char *text;
        bool leaves;
    } cases[] = {{WRITES("negate(i)"), true}, {WRITES("add(i, device)"), false}, {WRITES("add(i, xs)"), false}};
    for (size_t i = 0; i < HLO_COUNT_OF(cases); i++) {
        HloModule *module = parse_text(cases[i].text);
        HloArena *scratch = hlo_arena_new();
        cr_expect_eq(spmd_stack_parts(module, INT64_MAX, scratch), cases[i].leaves, "case %zu", i);
        HloStatus status = hlo_verify(module);
        cr_expect_null(status, "case %zu: %s", i, hlo_status_message(status));
        hlo_status_free(status);
        hlo_arena_free(scratch);
        hlo_module_free(module);
    }
}

// ---- on a machine

static bool open_machine(const SpmdMachine *machine, HloArena *arena, const SpmdMeshAxis *axes, int64_t axis_count,
                         int64_t devices, void **session) {
    (void)arena;
    (void)axes;
    (void)axis_count;
    (void)devices;
    *session = (void *)machine->context;
    return true;
}

static double collective_seconds(void *session, const HloInstruction *collective) {
    (void)session;
    (void)collective;
    return 1e-3;
}

// Either collectives of loops run beside their work, and only those of the entry take time, or the other way around.
static double program_seconds(void *session, const HloModule *program) {
    double seconds = 1;
    for (int64_t c = 0; c < program->computations.count; c++)
        for (const HloInstruction *at = program->computations.items[c]->first; at; at = at->next)
            seconds += hlo_op_is(at->opcode, HLO_OP_IS_COLLECTIVE) && (at->parent == program->entry) == !!session;
    return seconds;
}

Test(stacked_parts, step_decides_on_a_machine) {
    static const int beside = 0;
    char *text = text_of(&kLoops[0]);
    for (int hides = 0; hides < 2; hides++) {
        const SpmdMachine machine = {.context = hides ? &beside : NULL,
                                     .link_bytes_per_second = 1e9,
                                     .memory_bytes_per_second = 1e9,
                                     .flops_per_second = 1e9,
                                     .open = open_machine,
                                     .seconds = collective_seconds,
                                     .program_seconds = program_seconds};
        const SpmdOptions options = {.machine = &machine, .overlaps = true};
        expect_messages(hides ? "beside work" : "alone", text, &options, hides ? 5 : 1, hides);
    }
    hlo_free(text);
}

// A stack of two rows, into which a loop writes six times.
#define WIDE(columns)                                                                                                 \
    "HloModule m, num_partitions=2\nadd {\n a = s32[] parameter(0)\n b = s32[] parameter(1)\n ROOT c = s32[] add(a, " \
    "b)\n}\ncondition {\n t = (s32[], s32[4," columns "], s32[2," columns                                             \
    "]) parameter(0)\n i = s32[] get-tuple-element(t), index=0\n n = s32[] constant(6)\n ROOT l = pred[] compare(i, " \
    "n), direction=LT\n}\nbody {\n t = (s32[], s32[4," columns "], s32[2," columns                                    \
    "]) parameter(0)\n i = s32[] get-tuple-element(t), index=0\n x = s32[4," columns                                  \
    "] get-tuple-element(t), index=1\n stack = s32[2," columns                                                        \
    "] get-tuple-element(t), index=2\n one = s32[] constant(1)\n zero = s32[] constant(0)\n next = s32[] add(i, "     \
    "one)\n r = s32[" columns                                                                                         \
    "] reduce(x, zero), dimensions={0}, to_apply=add, sharding={replicated}\n row = s32[1," columns                   \
    "] reshape(r)\n y = s32[4," columns "] multiply(x, x)\n u = s32[2," columns                                       \
    "] dynamic-update-slice(stack, row, i, zero)\n ROOT o = (s32[], s32[4," columns "], s32[2," columns               \
    "]) tuple(next, y, u)\n}\nENTRY e {\n i = s32[] constant(0)\n x = s32[4," columns                                 \
    "] parameter(0), sharding={devices=[2,1]<=[2]}\n stack = s32[2," columns                                          \
    "] broadcast(i), dimensions={}\n t = (s32[], s32[4," columns "], s32[2," columns                                  \
    "]) tuple(i, x, stack)\n w = (s32[], s32[4," columns "], s32[2," columns                                          \
    "]) while(t), condition=condition, body=body\n ROOT r = s32[2," columns                                           \
    "] get-tuple-element(w), index=2, sharding={replicated}\n}\n"

// Large stacks of large programs stay where they may run beside the work of the loop.
Test(stacked_parts, large_ones_stay_where_transfers_overlap) {
    const SpmdMachine machine = {.link_bytes_per_second = 1e9,
                                 .memory_bytes_per_second = 1e9,
                                 .flops_per_second = 1e9,
                                 .open = open_machine,
                                 .seconds = collective_seconds};
    const SpmdOptions options = {.machine = &machine, .overlaps = true};
    static const char *const wide = WIDE("70000"), *const wider = WIDE("140000");
    expect_messages("with bytes alone", wide, NULL, 1, false);
    expect_messages("in two thirds of a MB", wide, &options, 1, false);
    expect_messages("in more than a MB", wider, &options, 6, true);
}
