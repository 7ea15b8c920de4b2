// SPDX-License-Identifier: Apache-2.0
// Collectives in stages over parts of their groups (passes/stages.c): they compute what the whole ones compute, and are
// made only where the machine takes less time for them.
#include <criterion/criterion.h>
#include <string.h>

#include "hlo/base/memory.h"
#include "tests/spmd/check.h"
#include "tests/spmd/generate.h"

// Seconds of a step of a ring, and of a byte.
typedef struct Rings {
    double step, byte;
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
    const double bytes = rings->byte * (double)hlo_shape_bytes(collective->shape);
    if (hlo_is(collective, HLO_OP_COLLECTIVE_PERMUTE)) return rings->step + bytes;
    const HloCollectiveAttributes *attributes = HLO_ATTRIBUTES(collective, Collective);
    return rings->step * (double)(hlo_replica_groups_size(attributes->replica_groups) - 1) + bytes;
}

// All collectives, one after the other.
static double program_seconds_on(void *session, const HloModule *program) {
    double seconds = 0;
    for (int64_t c = 0; c < program->computations.count; c++)
        for (const HloInstruction *at = program->computations.items[c]->first; at; at = at->next)
            if (hlo_op_is(at->opcode, HLO_OP_IS_COLLECTIVE)) seconds += seconds_on(session, at);
    return seconds;
}

static SpmdMachine machine_of(const Rings *rings) {
    return (SpmdMachine){.context = rings,
                         .link_bytes_per_second = 1e9,
                         .memory_bytes_per_second = 1e15,
                         .flops_per_second = 1e12,
                         .open = open_rings,
                         .seconds = seconds_on,
                         .program_seconds = program_seconds_on};
}

// Steps take longer than bytes, or the other way around.
static const Rings STEPS = {1e-3, 1e-12}, BYTES = {1e-12, 1e-3};

#define PROGRAM(devices)                    \
    "HloModule m, num_partitions=" #devices \
    "\ns {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b)\n}\nENTRY e {\n"

typedef struct StageCase {
    const char *name, *text, *staged;
} StageCase;

static const StageCase kCases[] = {
    {"a sum over eight devices",
     PROGRAM(8) " a = f32[4,16] parameter(0), sharding={devices=[1,8]<=[8]}\n w = f32[16,4] parameter(1), "
                "sharding={devices=[8,1]<=[8]}\n ROOT r = f32[4,4] dot(a, w), lhs_contracting_dims={1}, "
                "rhs_contracting_dims={0}, sharding={replicated}\n}\n",
     "1 reduce-scatter 1 all-reduce 1 all-gather"},
    {"a sum over four devices takes as long whole",
     PROGRAM(8) " a = f32[4,16] parameter(0), sharding={devices=[2,4]<=[8]}\n w = f32[16,4] parameter(1), "
                "sharding={devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}\n ROOT r = f32[4,4] dot(a, w), "
                "lhs_contracting_dims={1}, rhs_contracting_dims={0}, sharding={devices=[2,1,4]<=[8] "
                "last_tile_dim_replicate}\n}\n",
     "1 all-reduce"},
    {"a sum of larger arrays, which sends as much as before",
     PROGRAM(8) " a = f32[8,16,16] parameter(0), sharding={devices=[8,1,1]<=[8]}\n z = f32[] constant(0)\n ROOT r = "
                "f32[16,16] reduce(a, z), dimensions={0}, to_apply=s, sharding={replicated}\n}\n",
     "1 reduce-scatter 1 all-reduce 1 all-gather"},
    {"a sum of an odd number of elements",
     PROGRAM(4) " a = f32[4,5,7] parameter(0), sharding={devices=[4,1,1]<=[4]}\n z = f32[] constant(0)\n ROOT r = "
                "f32[5,7] reduce(a, z), dimensions={0}, to_apply=s, sharding={replicated}\n}\n",
     "2 all-reduce"},
    {"two sums at once stay whole",
     PROGRAM(
         4) " a = f32[4,16] parameter(0), sharding={devices=[1,4]<=[4]}\n b = f32[8,16] parameter(1), "
            "sharding={devices=[1,4]<=[4]}\n w = f32[16,4] parameter(2), sharding={devices=[4,1]<=[4]}\n x = f32[4,4] "
            "dot(a, "
            "w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, sharding={replicated}\n y = f32[8,4] dot(b, w), "
            "lhs_contracting_dims={1}, rhs_contracting_dims={0}, sharding={replicated}\n ROOT r = (f32[4,4], f32[8,4]) "
            "tuple(x, y), sharding={{replicated}, {replicated}}\n}\n",
     "1 all-reduce"},
    {"a gather",
     PROGRAM(6) " a = f32[12,5] parameter(0), sharding={devices=[6,1]<=[6]}\n ROOT r = f32[12,5] copy(a), "
                "sharding={replicated}\n}\n",
     "2 all-gather"},
    {"a gather over the outer axis, and columns",
     PROGRAM(8) " a = f32[5,8] parameter(0), sharding={devices=[1,4,2]<=[8] last_tile_dim_replicate}\n ROOT r = "
                "f32[5,8] copy(a), sharding={replicated}\n}\n",
     "2 all-gather"},
    {"a scattered sum",
     PROGRAM(4) " a = f32[8,16] parameter(0), sharding={devices=[1,4]<=[4]}\n w = f32[16,4] parameter(1), "
                "sharding={devices=[4,1]<=[4]}\n ROOT r = f32[8,4] dot(a, w), lhs_contracting_dims={1}, "
                "rhs_contracting_dims={0}, sharding={devices=[4,1]<=[4]}\n}\n",
     "2 reduce-scatter"},
    {"a prime number of devices stays whole",
     PROGRAM(5) " a = f32[10,3] parameter(0), sharding={devices=[5,1]<=[5]}\n ROOT r = f32[10,3] copy(a), "
                "sharding={replicated}\n}\n",
     "1 all-gather"},
    // bug: the loop had the time of an iteration for it, but waited for the second stage.
    {"a sum that a loop only stores stays whole",
     "HloModule m, num_partitions=4\nbody {\n t = (s32[], f32[8,16], f32[16,4], f32[3,8,4]) parameter(0)\n i = s32[] "
     "get-tuple-element(t), index=0\n x = f32[8,16] get-tuple-element(t), index=1\n w = f32[16,4] "
     "get-tuple-element(t), index=2\n s = f32[3,8,4] get-tuple-element(t), index=3\n one = s32[] constant(1)\n zero = "
     "s32[] constant(0)\n n = s32[] add(i, one)\n v = f32[8,16] tanh(x)\n y = f32[8,4] dot(v, w), "
     "lhs_contracting_dims={1}, rhs_contracting_dims={0}, sharding={replicated}\n a = f32[8,4] tanh(y)\n z = "
     "f32[1,8,4] reshape(a)\n u = f32[3,8,4] dynamic-update-slice(s, z, i, zero, zero)\n ROOT r = (s32[], f32[8,16], "
     "f32[16,4], f32[3,8,4]) tuple(n, v, w, u)\n}\ncondition {\n t = (s32[], f32[8,16], f32[16,4], f32[3,8,4]) "
     "parameter(0)\n i = s32[] get-tuple-element(t), index=0\n three = s32[] constant(3)\n ROOT l = pred[] compare(i, "
     "three), direction=LT\n}\nENTRY e {\n x = f32[8,16] parameter(0), sharding={devices=[1,4]<=[4]}\n w = f32[16,4] "
     "parameter(1), sharding={devices=[4,1]<=[4]}\n c = f32[] constant(0)\n s = f32[3,8,4] broadcast(c), "
     "dimensions={}, sharding={replicated}\n zero = s32[] constant(0)\n t = (s32[], f32[8,16], f32[16,4], f32[3,8,4]) "
     "tuple(zero, x, w, s)\n l = (s32[], f32[8,16], f32[16,4], f32[3,8,4]) while(t), condition=condition, body=body\n"
     " ROOT r = f32[3,8,4] get-tuple-element(l), index=3, sharding={replicated}\n}\n",
     "1 all-reduce"},
    {"two devices stay whole",
     PROGRAM(2) " a = f32[10,1] parameter(0), sharding={devices=[2,1]<=[2]}\n ROOT r = f32[10,1] copy(a), "
                "sharding={replicated}\n}\n",
     "1 all-gather"},
};

Test(stages, compute_what_the_whole_computes) {
    const SpmdMachine machine = machine_of(&STEPS);
    const SpmdOptions options = {.machine = &machine, .overlaps = true};
    for (size_t i = 0; i < HLO_COUNT_OF(kCases); i++) {
        char *found = collectives_of(kCases[i].text, &options);
        cr_expect_str_eq(found, kCases[i].staged, "%s: %s", kCases[i].name, found);
        hlo_free(found);
        check_partitioned(kCases[i].text, &options, i);
    }
}

// Nothing is staged where bytes take the time, without a machine, or where transfers do not run beside work: in the
// plugin, whose programs run here, people count collectives.
Test(stages, only_where_steps_take_the_time) {
    const SpmdMachine bytes = machine_of(&BYTES), steps = machine_of(&STEPS);
    const SpmdOptions options[] = {
        {.machine = &bytes, .overlaps = true}, {.machine = NULL, .overlaps = true}, {.machine = &steps}};
    for (size_t i = 0; i < HLO_COUNT_OF(options); i++) {
        char *found = collectives_of(kCases[2].text, &options[i]);
        cr_expect_str_eq(found, "1 all-reduce", "case %zu: %s", i, found);
        hlo_free(found);
    }
}

Test(stages, random_programs_compute_the_same) {
    const SpmdMachine machine = machine_of(&STEPS);
    for (uint64_t seed = 65000; seed < 65300; seed++) {
        const SpmdOptions options = {.machine = &machine, .overlaps = true, .async = seed % 2};
        char *text = generate_program(seed, NULL);
        check_partitioned(text, &options, seed);
        hlo_free(text);
    }
}
