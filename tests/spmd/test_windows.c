// SPDX-License-Identifier: Apache-2.0
// Products in parts (passes/windows.c): they compute what the whole product computes, in either direction around the
// group, and send the same bytes; and they are made only where something waits and the machine is faster.
#include <criterion/criterion.h>
#include <string.h>

#include "tests/spmd/check.h"
#include "tests/spmd/generate.h"

// Seconds of a byte that a permute sends and of any other collective, and whether permutes run beside each other.
typedef struct Rings {
    double byte, other;
    bool both_ways;
} Rings;

static bool open_rings(const SpmdMachine *machine, HloArena *arena, const SpmdMeshAxis *axes, int64_t axis_count,
                       int64_t devices, void **session) {
    (void)axes;
    (void)axis_count;
    (void)devices;
    *session = hlo_arena_copy(arena, machine->context, sizeof(Rings));
    return true;
}

static double seconds_on(void *session, const HloInstruction *collective) {
    const Rings *rings = session;
    const double bytes = (double)hlo_shape_bytes(collective->shape);
    return hlo_is(collective, HLO_OP_COLLECTIVE_PERMUTE) ? rings->byte * bytes : rings->other;
}

static bool beside(void *session, const HloInstruction *a, const HloInstruction *b) {
    cr_expect(hlo_is(a, HLO_OP_COLLECTIVE_PERMUTE) && hlo_is(b, HLO_OP_COLLECTIVE_PERMUTE));
    return ((const Rings *)session)->both_ways;
}

static SpmdMachine machine_of(const Rings *rings) {
    return (SpmdMachine){.context = rings,
                         .link_bytes_per_second = 1e9,
                         .memory_bytes_per_second = 1e15,
                         .flops_per_second = 1e12,
                         .open = open_rings,
                         .seconds = seconds_on,
                         .beside = beside};
}

// Permutes cost as much as products and nothing beside other collectives: every product in parts pays, and so do
// halves.
static const Rings ONE_WAY = {2e-12, 1, false}, BOTH_WAYS = {2e-12, 1, true}, SLOW = {1, 1, true};

// Of 4 devices but in the rows that say otherwise. `l` is a product, so that what follows waits for it.
#define BEGIN "HloModule m, num_partitions=4\nENTRY e {\n a = f32[8,16] parameter(0)\n b = f32[16,12] parameter(1)\n"
#define LATE(sharding) " l = f32[8,12] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}" sharding "\n"
#define ROWS ", sharding={devices=[4,1]<=[4]}"
#define COLUMNS ", sharding={devices=[1,4]<=[4]}"
#define TIMES ", lhs_contracting_dims={1}, rhs_contracting_dims={0}"

// What waits for a sum: scattered results of the program do not.
#define END(number) "\n k = f32[8,4] parameter(" #number ")\n ROOT z = f32[8,4] dot(r, k)" TIMES ROWS "\n}\n"

typedef struct WindowCase {
    const char *name, *text;
    int64_t permutes;  // of the program in parts
    int64_t halves;    // permutes beside these where sums go around in one direction, in halves
} WindowCase;

static const WindowCase kCases[] = {
    {"gathered and summed over",
     BEGIN LATE(COLUMNS) " w = f32[12,8] parameter(2)" COLUMNS "\n ROOT r = f32[8,8] dot(l, w)" TIMES COLUMNS "\n}\n",
     3, 0},
    {"gathered, right operand",
     BEGIN LATE(ROWS) " w = f32[12,8] parameter(2)" ROWS
                      "\n ROOT r = f32[12,12] dot(w, l), lhs_contracting_dims={1}, rhs_contracting_dims={0}" ROWS
                      "\n}\n",
     3, 0},
    {"gathered rows of the result",
     BEGIN LATE(ROWS) " w = f32[12,8] parameter(2)" COLUMNS "\n ROOT r = f32[8,8] dot(l, w)" TIMES COLUMNS "\n}\n", 3,
     0},
    {"uneven parts stay whole",
     BEGIN " d = f32[8,12] dot(a, b)" TIMES "\n l = f32[8,10] slice(d), slice={[0:8],[0:10]}" COLUMNS
           "\n w = f32[10,8] parameter(2)" COLUMNS "\n ROOT r = f32[8,8] dot(l, w)" TIMES COLUMNS "\n}\n",
     0, 0},
    {"parts of one element",
     "HloModule m, num_partitions=4\nENTRY e {\n a = f32[4,6] parameter(0)\n b = f32[6,4] parameter(1)\n"
     " l = f32[4,4] dot(a, b)" TIMES COLUMNS "\n w = f32[4,8] parameter(2)" COLUMNS
     "\n ROOT r = f32[4,8] dot(l, w)" TIMES COLUMNS "\n}\n",
     3, 0},
    {"two devices",
     "HloModule m, num_partitions=2\nENTRY e {\n a = f32[4,6] parameter(0)\n b = f32[6,4] parameter(1)\n"
     " l = f32[4,4] dot(a, b)" TIMES ", sharding={devices=[1,2]<=[2]}\n w = f32[4,8] parameter(2), "
     "sharding={devices=[1,2]<=[2]}\n ROOT r = f32[4,8] dot(l, w)" TIMES ", sharding={devices=[1,2]<=[2]}\n}\n",
     1, 0},
    {"three devices",
     "HloModule m, num_partitions=3\nENTRY e {\n a = f32[4,6] parameter(0)\n b = f32[6,9] parameter(1)\n"
     " l = f32[4,9] dot(a, b)" TIMES ", sharding={devices=[1,3]<=[3]}\n w = f32[9,6] parameter(2), "
     "sharding={devices=[1,3]<=[3]}\n ROOT r = f32[4,6] dot(l, w)" TIMES ", sharding={devices=[1,3]<=[3]}\n}\n",
     2, 0},
    {"two axes",
     "HloModule m, num_partitions=8\nENTRY e {\n a = f32[8,16] parameter(0), sharding={devices=[2,1,4]<=[8] "
     "last_tile_dim_replicate}\n b = f32[16,12] parameter(1), sharding={devices=[1,4,2]<=[2,4]T(1,0) "
     "last_tile_dim_replicate}\n l = f32[8,12] dot(a, b)" TIMES ", sharding={devices=[2,4]<=[8]}\n w = f32[12,8] "
     "parameter(2), sharding={devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}\n ROOT r = f32[8,8] dot(l, w)" TIMES
     ", sharding={devices=[2,4]<=[8]}\n}\n",
     3, 0},
    // bug: the product that was made of the parts of one operand was looked up among those that were there before.
    {"both operands gathered",
     "HloModule m, num_partitions=8\nENTRY e {\n a = f32[8,16] parameter(0)\n b = f32[16,12] parameter(1)\n"
     " c = f32[12,16] parameter(2)\n d = f32[16,8] parameter(3)\n l = f32[8,12] dot(a, b)" TIMES
     ", sharding={devices=[8,1]<=[8]}\n w = f32[12,8] dot(c, d)" TIMES ", sharding={devices=[2,4]<=[8]}\n"
     " ROOT r = f32[8,8] dot(l, w)" TIMES ", sharding={devices=[2,4]<=[8]}\n}\n",
     3, 0},
    {"two products of one gathered array",
     BEGIN LATE(COLUMNS) " w = f32[12,8] parameter(2)" COLUMNS "\n v = f32[12,8] parameter(3)" COLUMNS
                         "\n x = f32[8,8] dot(l, w)" TIMES COLUMNS "\n y = f32[8,8] dot(l, v)" TIMES COLUMNS
                         "\n ROOT r = f32[8,8] multiply(x, y)" COLUMNS "\n}\n",
     3, 0},
    {"the second product needs the first",
     BEGIN LATE(COLUMNS) " w = f32[12,12] parameter(2)" COLUMNS "\n x = f32[8,12] dot(l, w)" TIMES COLUMNS
                         "\n ROOT y = f32[12,12] dot(l, x), lhs_contracting_dims={0}, rhs_contracting_dims={0}" COLUMNS
                         "\n}\n",
     3, 0},
    {"the gathered array is a result too",
     BEGIN LATE(COLUMNS) " w = f32[12,8] parameter(2)" COLUMNS "\n x = f32[8,8] dot(l, w)" TIMES COLUMNS
                         "\n g = f32[8,12] copy(l), sharding={replicated}\n ROOT r = (f32[8,8], f32[8,12]) tuple(x, g)"
                         ", sharding={{devices=[1,4]<=[4]}, {replicated}}\n}\n",
     3, 0},
    {"scattered rows",
     BEGIN LATE(COLUMNS) " w = f32[12,8] parameter(2)" ROWS "\n r = f32[8,8] dot(l, w)" TIMES ROWS END(3), 3, 3},
    {"a scattered sum of two products",
     BEGIN LATE(COLUMNS) " w = f32[12,8] parameter(2)" ROWS "\n v = f32[12,8] parameter(3)" ROWS
                         "\n x = f32[8,8] dot(l, w)" TIMES "\n y = f32[8,8] dot(l, v)" TIMES
                         "\n r = f32[8,8] add(x, y)" ROWS END(4),
     3, 3},
    {"scattered rows with an odd number of columns",
     BEGIN LATE(COLUMNS) " w = f32[12,7] parameter(2)" ROWS "\n r = f32[8,7] dot(l, w)" TIMES ROWS
                         "\n k = f32[7,4] parameter(3)\n ROOT z = f32[8,4] dot(r, k)" TIMES ROWS "\n}\n",
     3, 0},
    {"of a loop",
     "HloModule m, num_partitions=4\nbody {\n t = (s32[], f32[8,12], f32[12,16], f32[16,12]) parameter(0)\n"
     " i = s32[] get-tuple-element(t), index=0\n x = f32[8,12] get-tuple-element(t), index=1\n"
     " v = f32[12,16] get-tuple-element(t), index=2\n w = f32[16,12] get-tuple-element(t), index=3\n one = s32[] "
     "constant(1)\n"
     " n = s32[] add(i, one)\n y = f32[8,16] dot(x, v)" TIMES COLUMNS "\n z = f32[8,12] dot(y, w)" TIMES COLUMNS
     "\n c = f32[] constant(0.01)\n d = f32[8,12] broadcast(c), dimensions={}\n q = f32[8,12] multiply(z, d)\n"
     " ROOT r = (s32[], f32[8,12], f32[12,16], f32[16,12]) tuple(n, q, v, w)\n}\n"
     "condition {\n t = (s32[], f32[8,12], f32[12,16], f32[16,12]) parameter(0)\n i = s32[] get-tuple-element(t), "
     "index=0\n"
     " three = s32[] constant(3)\n ROOT l = pred[] compare(i, three), direction=LT\n}\n"
     "ENTRY e {\n a = f32[8,12] parameter(0)" COLUMNS "\n v = f32[12,16] parameter(1)" COLUMNS
     "\n w = f32[16,12] parameter(2)" ROWS "\n zero = s32[] constant(0)\n"
     " t = (s32[], f32[8,12], f32[12,16], f32[16,12]) tuple(zero, a, v, w)\n"
     " l = (s32[], f32[8,12], f32[12,16], f32[16,12]) while(t), condition=condition, body=body\n"
     " ROOT r = f32[8,12] get-tuple-element(l), index=1" COLUMNS "\n}\n",
     6, 3},
};

static SpmdOptions options_of(const SpmdMachine *machine, bool overlaps) {
    return (SpmdOptions){.machine = machine, .overlaps = overlaps, .async = overlaps};
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

static int64_t count_of(const SpmdReport *report, const char *opcode) {
    int64_t count = 0;
    for (int64_t i = 0; i < report->collective_count; i++) count += !strcmp(report->collectives[i].opcode, opcode);
    return count;
}

Test(windows, products_in_parts_are_those_of_the_whole) {
    for (size_t i = 0; i < HLO_COUNT_OF(kCases); i++) {
        for (int both = 0; both < 2; both++) {
            const SpmdMachine machine = machine_of(both ? &BOTH_WAYS : &ONE_WAY);
            const SpmdOptions whole = options_of(&machine, false), parts = options_of(&machine, true);
            SpmdReport *before = report_of(kCases[i].text, &whole), *after = report_of(kCases[i].text, &parts);
            const int64_t permutes = count_of(after, "collective-permute");
            cr_expect_eq(permutes, kCases[i].permutes + (both ? 0 : kCases[i].halves), "%s: %lld permutes",
                         kCases[i].name, (long long)permutes);
            cr_expect_leq(after->total_bytes_per_device, before->total_bytes_per_device, "%s", kCases[i].name);
            spmd_report_free(before);
            spmd_report_free(after);
            check_partitioned(kCases[i].text, &parts, i);
        }
    }
}

// Nothing changes where permutes are slow, nothing says that transfers overlap, or nothing waits: a weight can be
// gathered ahead of time, and a result only leaves.
Test(windows, only_where_they_are_faster) {
    static const char weight[] =
        BEGIN LATE(ROWS) " w = f32[12,8] parameter(2)" COLUMNS "\n ROOT r = f32[8,8] dot(l, w)" TIMES ROWS "\n}\n";
    static const char leaves[] =
        BEGIN LATE(COLUMNS) " w = f32[12,8] parameter(2)" ROWS "\n ROOT r = f32[8,8] dot(l, w)" TIMES ROWS "\n}\n";
    const SpmdMachine slow = machine_of(&SLOW), fast = machine_of(&BOTH_WAYS);
    const SpmdOptions cases[] = {options_of(&slow, true), options_of(&fast, false), options_of(NULL, true)};
    for (size_t i = 0; i < HLO_COUNT_OF(cases); i++) {
        SpmdReport *report = report_of(kCases[0].text, &cases[i]);
        cr_expect_eq(count_of(report, "collective-permute"), 0, "case %zu", i);
        spmd_report_free(report);
    }
    const SpmdOptions options = options_of(&fast, true);
    const char *const ahead[] = {weight, leaves};
    for (size_t i = 0; i < HLO_COUNT_OF(ahead); i++) {
        SpmdReport *report = report_of(ahead[i], &options);
        cr_expect_eq(count_of(report, "collective-permute"), 0, "%s", ahead[i]);
        spmd_report_free(report);
    }
}

Test(windows, random_programs_compute_the_same) {
    const SpmdMachine machines[] = {machine_of(&ONE_WAY), machine_of(&BOTH_WAYS)};
    for (uint64_t seed = 61000; seed < 61600; seed++) {
        const SpmdOptions options = options_of(&machines[seed % 2], true);
        char *text = generate_program(seed, NULL);
        check_partitioned(text, &options, seed);
        hlo_free(text);
    }
}
