// SPDX-License-Identifier: Apache-2.0
// All-to-alls beside products, a part at a time (passes/exchanges.c): they compute what the whole ones compute, send
// the same bytes, and are made only where something waits and the machine is faster.
#include <criterion/criterion.h>
#include <string.h>

#include "tests/spmd/check.h"
#include "tests/support/random.h"

// Seconds that a collective takes, and seconds of each of its bytes.
typedef struct Links {
    double message, byte;
} Links;

static bool open_links(const SpmdMachine *machine, HloArena *arena, const SpmdMeshAxis *axes, int64_t axis_count,
                       int64_t devices, void **session) {
    (void)axes;
    (void)axis_count;
    (void)devices;
    *session = hlo_arena_copy(arena, machine->context, sizeof(Links));
    return true;
}

static double seconds_on(void *session, const HloInstruction *collective) {
    const Links *links = session;
    return links->message + links->byte * (double)hlo_shape_bytes(collective->shape);
}

static SpmdMachine machine_of(const Links *links) {
    return (SpmdMachine){.context = links,
                         .link_bytes_per_second = 1e9,
                         .memory_bytes_per_second = 1e15,
                         .flops_per_second = 1e10,
                         .open = open_links,
                         .seconds = seconds_on};
}

// Bytes take about as long as products, so that all parts pay; messages take longer than anything.
static const Links FAST = {0, 1e-10}, SLOW = {1, 1e-10};

#define TIMES ", lhs_contracting_dims={2}, rhs_contracting_dims={0}"
#define ROWS ", sharding={devices=[4,1,1]<=[4]}"
#define COLUMNS ", sharding={devices=[1,1,4]<=[4]}"
#define WHOLE ", sharding={replicated}"
// `l` is a product whose columns are cut, so that what follows waits for it; `m` is the same with its rows cut.
#define BEGIN                                                                                                 \
    "HloModule m, num_partitions=4\nENTRY e {\n a = f32[8,6,16] parameter(0)" WHOLE                           \
    "\n b = f32[16,12] parameter(1), sharding={devices=[1,4]<=[4]}\n l = f32[8,6,12] dot(a, b)" TIMES COLUMNS \
    "\n m = f32[8,6,12] copy(l)" ROWS "\n"
#define WEIGHT(name, sizes, number) " " name " = f32" sizes " parameter(" #number ")" WHOLE "\n"
// `q` is what `r` is with its columns cut, and a product waits for that.
#define LEAVE "\n q = f32[8,6,8] copy(r)" COLUMNS
#define END(number)                                                \
    "\n k = f32[4,8] parameter(" #number ")" WHOLE                 \
    "\n ROOT z = f32[8,6,4] dot(q, k), lhs_contracting_dims={2}, " \
    "rhs_contracting_dims={1}" WHOLE "\n}\n"

typedef struct ExchangeCase {
    const char *name, *text;
    int64_t whole, parts;  // all-to-alls without and with parts
} ExchangeCase;

static const ExchangeCase kCases[] = {
    {"before a product", BEGIN WEIGHT("w", "[12,8]", 2) " ROOT r = f32[8,6,8] dot(m, w)" TIMES ROWS "\n}\n", 1, 2},
    {"before a product and after it",
     BEGIN WEIGHT("w", "[12,8]", 2) " r = f32[8,6,8] dot(m, w)" TIMES ROWS LEAVE END(3), 2, 4},
    {"after a product",
     "HloModule m, num_partitions=4\nENTRY e {\n m = f32[8,6,12] parameter(0)" ROWS
     "\n" WEIGHT("w", "[12,8]", 1) " r = f32[8,6,8] dot(m, w)" TIMES ROWS LEAVE END(2),
     1, 2},
    {"after what follows a product",
     "HloModule m, num_partitions=4\nENTRY e {\n m = f32[8,6,12] parameter(0)" ROWS
     "\n o = f32[8,6,8] parameter(1)" ROWS "\n" WEIGHT(
         "w", "[12,8]", 2) " d = f32[8,6,8] dot(m, w)" TIMES ROWS "\n t = f32[8,6,8] tanh(d)" ROWS
                           "\n p = f32[8,6,8] multiply(d, t)" ROWS "\n r = f32[8,6,8] add(o, p)" ROWS LEAVE END(3),
     1, 2},
    {"before two products, with more between",
     BEGIN WEIGHT("w", "[12,8]", 2)
         WEIGHT("v", "[12,8]", 3) " n = f32[8,6,12] tanh(m)" ROWS "\n c = s32[8,6,12] convert(n)" ROWS
                                  "\n d = f32[8,6,12] convert(c)" ROWS "\n r = f32[8,6,8] dot(d, w)" TIMES ROWS
                                  "\n s = f32[8,6,8] dot(d, v)" TIMES ROWS "\n ROOT t = f32[8,6,8] multiply(r, s)" ROWS
                                  "\n}\n",
     1, 2},
    {"what arrives is needed whole too",
     BEGIN WEIGHT("w", "[12,8]", 2) " r = f32[8,6,8] dot(m, w)" TIMES ROWS
                                    "\n ROOT t = (f32[8,6,8], f32[8,6,12]) tuple(r, m), "
                                    "sharding={{devices=[4,1,1]<=[4]}, {devices=[4,1,1]<=[4]}}"
                                    "\n}\n",
     1, 2},
    {"the second product needs the first",
     BEGIN WEIGHT(
         "w", "[12,12]",
         2) " r = f32[8,6,12] dot(m, w)" TIMES ROWS
            "\n ROOT s = f32[8,6,6] dot(r, m), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, "
            "rhs_contracting_dims={2}" ROWS "\n}\n",
     1, 2},
    {"a product with a batch",
     BEGIN " w = f32[8,12,8] parameter(2)" ROWS "\n r = f32[8,6,8] dot(m, w), lhs_batch_dims={0}, rhs_batch_dims={0}, "
           "lhs_contracting_dims={2}, rhs_contracting_dims={1}" ROWS "\n ROOT s = f32[8,6,8] tanh(r)" ROWS "\n}\n",
     1, 2},
    {"the right operand",
     BEGIN WEIGHT("w", "[12,8]",
                  2) " ROOT r = f32[8,8,6] dot(w, m), lhs_contracting_dims={0}, rhs_contracting_dims={2}, "
                     "sharding={devices=[1,4,1]<=[4]}\n}\n",
     1, 2},
    {"halves of a result leave apart",
     BEGIN WEIGHT("w", "[12,8,2]",
                  2) " d = f32[8,6,8,2] dot(m, w)" TIMES ", sharding={devices=[4,1,1,1]<=[4]}"
                     "\n g = f32[8,6,8,1] slice(d), slice={[0:8],[0:6],[0:8],[0:1]}"
                     "\n h = f32[8,6,8,1] slice(d), slice={[0:8],[0:6],[0:8],[1:2]}"
                     "\n i = f32[8,6,8] reshape(g)" COLUMNS "\n q = f32[8,6,8] reshape(h)" COLUMNS
                     "\n k = f32[4,8] parameter(3)" WHOLE
                     "\n u = f32[8,6,4] dot(i, k), lhs_contracting_dims={2}, rhs_contracting_dims={1}" WHOLE
                     "\n v = f32[8,6,4] dot(q, k), lhs_contracting_dims={2}, rhs_contracting_dims={1}" WHOLE
                     "\n ROOT z = f32[8,6,4] multiply(u, v)" WHOLE "\n}\n",
     3, 6},
    {"dimensions that no number of parts divides stay whole",
     "HloModule m, num_partitions=3\nENTRY e {\n a = f32[3,5,16] parameter(0)" WHOLE
     "\n b = f32[16,9] parameter(1), sharding={devices=[1,3]<=[3]}\n l = f32[3,5,9] dot(a, b)" TIMES
     ", sharding={devices=[1,1,3]<=[3]}\n m = f32[3,5,9] copy(l), sharding={devices=[3,1,1]<=[3]}\n" WEIGHT(
         "w", "[9,7]", 2) " ROOT r = f32[3,5,7] dot(m, w)" TIMES ", sharding={devices=[3,1,1]<=[3]}\n}\n",
     1, 1},
    {"dimensions of size one stay whole",
     "HloModule m, num_partitions=4\nENTRY e {\n a = f32[4,1,16] parameter(0)" WHOLE
     "\n b = f32[16,12] parameter(1), sharding={devices=[1,4]<=[4]}\n l = f32[4,1,12] dot(a, b)" TIMES COLUMNS
     "\n m = f32[4,1,12] copy(l)" ROWS "\n" WEIGHT("w", "[12,7]", 2) " ROOT r = f32[4,1,7] dot(m, w)" TIMES ROWS
                                                                     "\n}\n",
     1, 1},
    {"one axis of two",
     "HloModule m, num_partitions=8\nENTRY e {\n a = f32[8,6,16] parameter(0), sharding={devices=[2,1,1,4]<=[8] "
     "last_tile_dim_replicate}\n b = f32[16,12] parameter(1), sharding={devices=[1,4,2]<=[2,4]T(1,0) "
     "last_tile_dim_replicate}\n l = f32[8,6,12] dot(a, b)" TIMES ", sharding={devices=[2,1,4]<=[8]}\n m = "
     "f32[8,6,12] copy(l), sharding={devices=[8,1,1]<=[8]}\n" WEIGHT(
         "w", "[12,8]", 2) " ROOT r = f32[8,6,8] dot(m, w)" TIMES ", sharding={devices=[8,1,1]<=[8]}\n}\n",
     1, 2},
    {"in a loop",
     "HloModule m, num_partitions=4\nbody {\n t = (s32[], f32[8,6,12], f32[12,12]) parameter(0)\n"
     " i = s32[] get-tuple-element(t), index=0\n x = f32[8,6,12] get-tuple-element(t), index=1\n"
     " w = f32[12,12] get-tuple-element(t), index=2\n one = s32[] constant(1)\n n = s32[] add(i, one)\n"
     " h = f32[8,6,12] tanh(x)" COLUMNS "\n m = f32[8,6,12] copy(h)" ROWS "\n y = f32[8,6,12] dot(m, w)" TIMES ROWS
     "\n z = f32[8,6,12] copy(y)" COLUMNS "\n ROOT r = (s32[], f32[8,6,12], f32[12,12]) tuple(n, z, w)\n}\n"
     "condition {\n t = (s32[], f32[8,6,12], f32[12,12]) parameter(0)\n i = s32[] get-tuple-element(t), index=0\n"
     " three = s32[] constant(3)\n ROOT l = pred[] compare(i, three), direction=LT\n}\n"
     "ENTRY e {\n a = f32[8,6,12] parameter(0)" COLUMNS "\n w = f32[12,12] parameter(1)" WHOLE
     "\n zero = s32[] constant(0)\n t = (s32[], f32[8,6,12], f32[12,12]) tuple(zero, a, w)\n"
     " l = (s32[], f32[8,6,12], f32[12,12]) while(t), condition=condition, body=body\n"
     " ROOT r = f32[8,6,12] get-tuple-element(l), index=1" COLUMNS "\n}\n",
     2, 4},
};

static SpmdOptions options_of(const SpmdMachine *machine, bool overlaps) {
    return (SpmdOptions){.machine = machine, .overlaps = overlaps, .async = overlaps, .no_combine = true};
}

static SpmdReport *report_of(const char *text, const SpmdOptions *options) {
    HloModule *module = parse_text(text), *partitioned;
    SpmdReport *report;
    HloStatus status = spmd_partition(module, options, &partitioned, &report);
    cr_assert_null(status, "%s\n%s", hlo_status_message(status), text);
    hlo_module_free(partitioned);
    hlo_module_free(module);
    return report;
}

static int64_t exchanges_of(const SpmdReport *report) {
    int64_t count = 0;
    for (int64_t i = 0; i < report->collective_count; i++)
        count += !strcmp(report->collectives[i].opcode, "all-to-all");
    return count;
}

Test(exchanges, parts_are_those_of_the_whole) {
    const SpmdMachine machine = machine_of(&FAST);
    const SpmdOptions whole = options_of(&machine, false), parts = options_of(&machine, true);
    for (size_t i = 0; i < HLO_COUNT_OF(kCases); i++) {
        SpmdReport *before = report_of(kCases[i].text, &whole), *after = report_of(kCases[i].text, &parts);
        cr_expect_eq(exchanges_of(before), kCases[i].whole, "%s: %lld whole", kCases[i].name,
                     (long long)exchanges_of(before));
        cr_expect_eq(exchanges_of(after), kCases[i].parts, "%s: %lld parts", kCases[i].name,
                     (long long)exchanges_of(after));
        cr_expect_eq(after->total_bytes_per_device, before->total_bytes_per_device, "%s", kCases[i].name);
        spmd_report_free(before);
        spmd_report_free(after);
        check_partitioned(kCases[i].text, &parts, i);
    }
}

// Nothing changes where messages are slow, or nothing says that transfers overlap.
Test(exchanges, only_where_they_are_faster) {
    const SpmdMachine slow = machine_of(&SLOW), fast = machine_of(&FAST);
    const SpmdOptions cases[] = {options_of(&slow, true), options_of(&fast, false), options_of(NULL, true)};
    for (size_t i = 0; i < HLO_COUNT_OF(cases); i++) {
        SpmdReport *report = report_of(kCases[0].text, &cases[i]);
        cr_expect_leq(exchanges_of(report), kCases[0].whole, "case %zu", i);
        spmd_report_free(report);
    }
}

// An array that is there from the beginning can be sent ahead of time, and a result only leaves.
Test(exchanges, only_where_something_waits) {
    static const char ahead[] = "HloModule m, num_partitions=4\nENTRY e {\n l = f32[8,6,12] parameter(0)" COLUMNS
                                "\n m = f32[8,6,12] copy(l)" ROWS
                                "\n" WEIGHT("w", "[12,8]", 1) " ROOT r = f32[8,6,8] dot(m, w)" TIMES ROWS "\n}\n";
    static const char leaves[] = "HloModule m, num_partitions=4\nENTRY e {\n m = f32[8,6,12] parameter(0)" ROWS
                                 "\n" WEIGHT("w", "[12,8]", 1) " r = f32[8,6,8] dot(m, w)" TIMES ROWS
                                                               "\n ROOT q = f32[8,6,8] copy(r)" COLUMNS "\n}\n";
    const SpmdMachine machine = machine_of(&FAST);
    const SpmdOptions options = options_of(&machine, true);
    const char *const programs[] = {ahead, leaves};
    for (size_t i = 0; i < HLO_COUNT_OF(programs); i++) {
        SpmdReport *report = report_of(programs[i], &options);
        cr_expect_eq(exchanges_of(report), 1, "%s", programs[i]);
        spmd_report_free(report);
    }
}

#define BATCHED "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims="

// A chain of operations on f32[8,s,8], each with a random dimension cut: products with weights, and with what was
// computed before, between functions that keep the numbers small.
static char *random_chain(uint64_t seed) {
    static const char *const cuts[] = {ROWS, COLUMNS, ", sharding={devices=[1,4,1]<=[4]}"};
    Random random = {seed};
    const int s = 4 + 4 * (int)random_under(&random, 2), count = 4 + (int)random_under(&random, 8);
    int weights = 1;
    HloText text = {0};
    hlo_text_format(&text, "HloModule m, num_partitions=4\nENTRY e {\n a = f32[8,%d,8] parameter(0)\n", s);
    hlo_text_format(&text, " w = f32[8,8] parameter(1)\n x0 = f32[8,%d,8] dot(a, w)" TIMES COLUMNS "\n", s);
    for (int i = 1; i <= count; i++) {
        const char *cut = cuts[random_under(&random, HLO_COUNT_OF(cuts))];
        const char *other = cuts[random_under(&random, HLO_COUNT_OF(cuts))];
        const int last = i - 1;
        switch (random_under(&random, 4)) {
            case 0: hlo_text_format(&text, " x%d = f32[8,%d,8] tanh(x%d)%s\n", i, s, last, cut); break;
            case 1: hlo_text_format(&text, " x%d = f32[8,%d,8] copy(x%d)%s\n", i, s, last, cut); break;
            case 2:
                hlo_text_format(&text, " w%d = f32[8,8] parameter(%d)\n", i, ++weights);
                hlo_text_format(&text, " x%d = f32[8,%d,8] dot(x%d, w%d)" TIMES "%s\n", i, s, last, i, cut);
                break;
            default:
                hlo_text_format(&text, " t%d = f32[8,%d,8] tanh(x%d)%s\n", i, s, last, other);
                hlo_text_format(&text, " d%d = f32[8,%d,%d] dot(t%d, t%d), " BATCHED "{2}%s\n", i, s, s, i, i, other);
                hlo_text_format(&text, " x%d = f32[8,%d,8] dot(d%d, t%d), " BATCHED "{1}%s\n", i, s, i, i, cut);
        }
    }
    hlo_text_format(&text, " ROOT r = f32[8,%d,8] negate(x%d)" WHOLE "\n}\n", s, count);
    return text.data;
}

Test(exchanges, random_chains_compute_the_same) {
    const SpmdMachine machine = machine_of(&FAST);
    const SpmdOptions options = options_of(&machine, true), whole = options_of(&machine, false);
    int64_t cut = 0;
    for (uint64_t seed = 64000; seed < 64600; seed++) {
        char *text = random_chain(seed);
        SpmdReport *before = report_of(text, &whole), *after = report_of(text, &options);
        cut += exchanges_of(after) - exchanges_of(before);
        spmd_report_free(before);
        spmd_report_free(after);
        check_partitioned(text, &options, seed);
        hlo_free(text);
    }
    cr_expect_geq(cut, 10, "%lld parts", (long long)cut);
}
