// SPDX-License-Identifier: Apache-2.0
// The plans of small programs are compared by the step of the whole program. The steps are invented here, as if drawn
// by lot, so that every plan wins at some time: the program that is returned is the fastest of all that were asked
// about.
#include <criterion/criterion.h>
#include <math.h>

#include "hlo/base/memory.h"
#include "hlo/text/text.h"
#include "tests/spmd/check.h"
#include "tests/spmd/generate.h"

// What the machine was asked, and what it answered.
typedef struct Lots {
    uint64_t seed;
    double least, first;
    int64_t asked;
} Lots;

// By the text: a copy of a program is the same program.
static double step_by_lot(uint64_t seed, const HloModule *program) {
    HloText text = {0};
    cr_assert_null(hlo_print(program, NULL, &text));
    const uint64_t hash = hlo_hash_bytes(text.data, text.length);
    const uint64_t mixed = (hash ^ seed * 0x9e3779b97f4a7c15u) * 0xd6e8feb86659fd93u;
    hlo_text_free(&text);
    return 1 + (double)(mixed >> 40);
}

static bool open_lots(const SpmdMachine *machine, HloArena *arena, const SpmdMeshAxis *axes, int64_t axis_count,
                      int64_t devices, void **session) {
    (void)axes;
    (void)axis_count;
    (void)devices;
    Lots **lots = HLO_ARENA_NEW(arena, Lots *, 1);
    *lots = (Lots *)(intptr_t)machine->context;
    *session = lots;
    return true;
}

// Messages take long, so that plans by time are not those by bytes.
static double seconds_of(void *session, const HloInstruction *collective) {
    (void)session;
    return 1e-5 + 1e-9 * (double)hlo_shape_bytes(collective->shape);
}

static double program_seconds(void *session, const HloModule *program) {
    Lots *lots = *(Lots **)session;
    const double step = step_by_lot(lots->seed, program);
    if (!lots->asked++) lots->first = step;
    if (step < lots->least) lots->least = step;
    return step;
}

// Whether another than the first program was returned.
static bool check_choice(const HloModule *module, uint64_t seed, bool overlaps) {
    Lots lots = {.seed = seed, .least = HUGE_VAL};
    const SpmdMachine machine = {.context = &lots,
                                 .link_bytes_per_second = 1e9,
                                 .memory_bytes_per_second = 1e11,
                                 .flops_per_second = 1e12,
                                 .kernel_seconds = 1e-6,
                                 .open = open_lots,
                                 .seconds = seconds_of,
                                 .program_seconds = program_seconds};
    const SpmdOptions options = {.machine = &machine, .overlaps = overlaps};
    HloModule *partitioned = NULL;
    HloStatus status = spmd_partition(module, &options, &partitioned, NULL);
    cr_assert_null(status, "%s", hlo_status_message(status));
    const double step = step_by_lot(seed, partitioned);
    hlo_module_free(partitioned);
    if (!lots.asked) return false;  // a program of one device
    cr_expect_eq(step, lots.least, "seed %llu: %g, but %g was seen", (unsigned long long)seed, step, lots.least);
    return step != lots.first;
}

Test(plans, the_fastest_of_all_that_were_simulated_is_kept) {
    int64_t others = 0;
    for (uint64_t seed = 71000; seed < 71200; seed++) {
        char *text = generate_program(seed, NULL);
        HloModule *module = parse_text(text);
        others += check_choice(module, seed, seed % 2);
        hlo_module_free(module);
        hlo_free(text);
    }
    cr_expect_gt(others, 20);
}

// A program of whose plans there are many: with weights gathered or products added up, sums alone or joined, products
// in parts and sums in stages.
Test(plans, every_plan_may_win) {
    static const char *const text =
        "HloModule m, num_partitions=8, allow_spmd_sharding_propagation_to_output={true}\nENTRY e {\n"
        " x = f32[64,256] parameter(0), sharding={devices=[8,1]<=[8]}\n"
        " a = f32[256,512] parameter(1), sharding={devices=[2,4]<=[8]}\n"
        " b = f32[512,256] parameter(2), sharding={devices=[4,2]<=[2,4]T(1,0)}\n"
        " h = f32[64,512] dot(x, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        " t = f32[64,512] tanh(h)\n"
        " y = f32[64,256] dot(t, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        " g = f32[256,512] dot(x, t), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n"
        " k = f32[512,256] dot(t, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n"
        " ROOT r = (f32[64,256], f32[256,512], f32[512,256]) tuple(y, g, k)\n}\n";
    HloModule *module = parse_text(text);
    int64_t others = 0;
    for (uint64_t seed = 0; seed < 40; seed++) others += check_choice(module, seed, true);
    cr_expect_gt(others, 8);
    cr_expect_lt(others, 40);
    hlo_module_free(module);
}
