// SPDX-License-Identifier: Apache-2.0
// JAX, "Distributed arrays and automatic parallelization", in C: arrays sharded over eight TPU cores in all the ways
// that the tutorial draws, programs that follow their data, and random numbers that need no communication. Its network
// is in network_training.c.
//
//     distributed_arrays [N]     N x N arrays (default 1024; the document's are 8192)
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emulator/emulator.h"
#include "example.h"

enum { kDevices = 8 };

static const SpmdMeshAxis kMesh[] = {{"a", 4}, {"b", 2}};
static const SpmdMeshAxis kLine[] = {{"x", 8}};

typedef HloInstruction *Function(HloBuilder *b, int64_t size);

static HloStatus build(Function *f, int64_t size, HloModule **result) {
    HloModule *module = hlo_module_new("f");
    HLO_FAIL_IF(!module, HLO_RESOURCE_EXHAUSTED, "out of memory");
    HloBuilder *b = hlo_builder_new(module, "main");
    HloStatus status = hlo_builder_finish_entry(b, f(b, size));
    if (status)
        hlo_module_free(module);
    else
        *result = module;
    return status;
}

// ---- the programs

static HloInstruction *parameter(HloBuilder *b, int64_t number, int64_t size) {
    return hlo_build_parameter(b, number, HLO_F32, HLO_DIMS(size, size), number ? "z" : "x");
}
static HloInstruction *sine(HloBuilder *b, int64_t size) {
    return hlo_build_sin(b, parameter(b, 0, size));
}
static HloInstruction *copy(HloBuilder *b, int64_t size) {
    return hlo_build_copy(b, parameter(b, 0, size));
}
static HloInstruction *product(HloBuilder *b, int64_t size) {
    HloInstruction *x = parameter(b, 0, size);
    return hlo_build_matmul(b, x, parameter(b, 1, size));
}
static HloInstruction *plus_one(HloBuilder *b, int64_t size) {
    HloInstruction *x = parameter(b, 0, size);
    return hlo_build_add(b, x, hlo_build_splat_like(b, x, 1));
}
// 0, 1, … 23 plus uniform numbers from key(42).
static HloInstruction *noisy(HloBuilder *b, HloRandomForm form) {
    HloInstruction *numbers = hlo_random_uniform(b, form, hlo_random_key(b, 42), HLO_F32, HLO_DIMS(24), 0, 1);
    HloInstruction *x = hlo_build_convert(b, hlo_build_parameter(b, 0, HLO_S32, HLO_DIMS(24), "x"), HLO_F32);
    return hlo_build_add(b, x, numbers);
}
static HloInstruction *noisy_stable(HloBuilder *b, int64_t size) {
    (void)size;
    return noisy(b, HLO_RANDOM_ORIGINAL);
}
static HloInstruction *noisy_partitionable(HloBuilder *b, int64_t size) {
    (void)size;
    return noisy(b, HLO_RANDOM_PARTITIONABLE);
}

// ---- running them

typedef struct Example {
    TargetClient *client;
    int64_t size;
    HloLiteral *x;  // normal numbers from key(0)
} Example;

// f, partitioned for the 4 x 2 mesh with the given shardings.
static HloStatus new_program(const Example *example, Function *f, const char *const *shards, int64_t shard_count,
                             TargetProgram **program) {
    HloModule *module = NULL;
    HLO_TRY(build(f, example->size, &module));
    TargetProgramOptions options = {
        .spmd = {.mesh = kMesh, .mesh_axis_count = 2, .shards = shards, .shard_count = shard_count}};
    HloStatus status = target_program_new(example->client, module, &options, program);
    hlo_module_free(module);
    return status;
}

static HloStatus draw_placements(const Example *example) {
    static const char *const specs[] = {"a,b", "b,a", "a,-", "-,b", "-,a", "a+b,-", "-,-"};
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        char shard[16], title[32];
        snprintf(shard, sizeof shard, "p0=%s", specs[i]);
        snprintf(title, sizeof title, "x placed as %s", specs[i]);
        TargetProgram *program = NULL;
        TargetArray *array = NULL;
        HLO_TRY(new_program(example, copy, (const char *const[]){shard}, 1, &program));
        HLO_TRY(target_program_place(program, 0, example->x, &array));
        HLO_TRY(example_draw(title, array));
        target_array_release(array);
        target_program_free(program);
    }
    return HLO_SUCCESS;
}

// Runs f on x (twice when it takes two arguments) and draws the result.
static HloStatus run_and_draw(const Example *example, const char *title, Function *f, const char *const *shards,
                              int64_t shard_count, HloLiteral **value) {
    TargetProgram *program = NULL;
    TargetArray *arguments[2] = {0}, *result = NULL;
    HLO_TRY(new_program(example, f, shards, shard_count, &program));
    int64_t count = target_program_boundary(program)->parameter_count;
    for (int64_t i = 0; i < count; i++) HLO_TRY(target_program_place(program, i, example->x, &arguments[i]));
    HLO_TRY(target_program_run(program, arguments, count, &result));
    HLO_TRY(example_draw(title, result));
    printf("collectives: %lld\n", (long long)target_program_report(program)->collective_count);
    if (value) HLO_TRY(target_array_to_literal(result, value));
    for (int64_t i = 0; i < count; i++) target_array_release(arguments[i]);
    target_array_release(result);
    target_program_free(program);
    return HLO_SUCCESS;
}

static const char *const kSplit[] = {"p0=a,b"}, *const kProduct[] = {"p0=a,-", "p1=-,b"};

static HloStatus compute(const Example *example) {
    HloLiteral *one = NULL, *eight = NULL;
    HLO_TRY(run_and_draw(example, "sin(x) follows x", sine, kSplit, 1, NULL));
    HLO_TRY(run_and_draw(example, "dot(y, z) of y over a and z over b", product, kProduct, 2, &eight));
    HLO_TRY(run_and_draw(example, "copy(w) follows w", copy, kSplit, 1, NULL));
    HLO_TRY(run_and_draw(example, "x + 1, constrained to b,a", plus_one, (const char *const[]){"p0=a,b", "r0=b,a"}, 2,
                         NULL));
    HLO_TRY(run_and_draw(example, "x + 1, constrained to be whole everywhere", plus_one,
                         (const char *const[]){"p0=a,b", "r0=-,-"}, 2, NULL));
    HloModule *module = NULL;
    TargetProgram *program = NULL;
    HLO_TRY(build(product, example->size, &module));
    HLO_TRY(target_program_new(example->client, module, NULL, &program));
    HLO_TRY(target_program_call(program, (const HloLiteral *const[]){example->x, example->x}, 2, &one));
    printf("\none device and eight agree: %s\n", hlo_literal_equal(one, eight) ? "True" : "False");
    target_program_free(program);
    hlo_module_free(module);
    hlo_literal_free(one);
    hlo_literal_free(eight);
    return HLO_SUCCESS;
}

static HloInstruction *sum(HloBuilder *b, int64_t size) {
    HloInstruction *x = parameter(b, 0, size);
    return hlo_build_add(b, x, parameter(b, 1, size));
}

// Arrays that were placed on devices in different orders cannot be combined.
static HloStatus disagree(const Example *example) {
    static const char *const shards[] = {"p0=x,-", "p1=x,-"};
    static const int64_t order[kDevices] = {0, 1, 2, 3, 4, 5, 6, 7}, permuted[kDevices] = {0, 1, 2, 3, 6, 7, 4, 5};
    HloModule *module = NULL;
    TargetProgram *programs[2] = {0};
    TargetArray *arguments[2] = {0}, *result = NULL;
    HLO_TRY(build(sum, example->size, &module));
    for (int i = 0; i < 2; i++) {
        TargetProgramOptions options = {
            .spmd = {.mesh = kLine, .mesh_axis_count = 1, .shards = shards, .shard_count = 2},
            .device_assignment = i ? permuted : order};
        HLO_TRY(target_program_new(example->client, module, &options, &programs[i]));
        HLO_TRY(target_program_place(programs[i], i, example->x, &arguments[i]));
    }
    HloStatus status = target_program_run(programs[0], arguments, 2, &result);
    printf("\ny + z of arrays on devices in different orders: %s\n", status ? hlo_status_message(status) : "no error!");
    hlo_status_free(status);
    for (int i = 0; i < 2; i++) {
        target_array_release(arguments[i]);
        target_program_free(programs[i]);
    }
    target_array_release(result);
    hlo_module_free(module);
    return HLO_SUCCESS;
}

// What the document timed on its slice, as the machine model predicts it: arrays of 8192 x 8192.
static HloStatus predict(const char *title, Function *f, const SpmdOptions *options) {
    HloModule *module = NULL, *per_device = NULL;
    EmuTopology *topology = NULL;
    EmuReport *report = NULL;
    HLO_TRY(build(f, 8192, &module));
    HLO_TRY(spmd_partition(module, options, &per_device, NULL));
    HLO_TRY(emu_topology_parse("v2-8", &topology));
    HLO_TRY(emu_simulate(per_device, topology, NULL, &report));
    printf("%s: %.1f ms\n", title, (double)report->step_picoseconds / 1e9);
    emu_report_free(report);
    emu_topology_free(topology);
    hlo_module_free(per_device);
    hlo_module_free(module);
    return HLO_SUCCESS;
}

static HloStatus predict_all(void) {
    SpmdOptions one = {0}, split = {.mesh = kMesh, .mesh_axis_count = 2, .shards = kSplit, .shard_count = 1},
                products = {.mesh = kMesh, .mesh_axis_count = 2, .shards = kProduct, .shard_count = 2};
    printf("\npredicted for v2-8, arrays of 8192 x 8192\n");
    HLO_TRY(predict("sin on eight cores (measured 2.4)", sine, &split));
    HLO_TRY(predict("dot on one core (measured 49.7)", product, &one));
    return predict("dot on eight cores (measured 7.47)", product, &products);
}

static HloStatus draw_numbers(const Example *example, const char *title, Function *f) {
    static const char *const shards[] = {"p0=x"};
    HloModule *module = NULL;
    TargetProgram *program = NULL;
    HloLiteral *x = hlo_literal_of(HLO_S32, HLO_DIMS(24), NULL), *result = NULL;
    HLO_FAIL_IF(!x, HLO_RESOURCE_EXHAUSTED, "out of memory");
    for (int64_t i = 0; i < 24; i++) hlo_literal_set_int64(x, i, i);
    HLO_TRY(build(f, 0, &module));
    TargetProgramOptions options = {.spmd = {.mesh = kLine, .mesh_axis_count = 1, .shards = shards, .shard_count = 1}};
    HLO_TRY(target_program_new(example->client, module, &options, &program));
    HLO_TRY(target_program_call(program, (const HloLiteral *const[]){x}, 1, &result));
    putchar('\n');
    example_print(title, "%.7g", result);
    printf("collectives: %lld\n", (long long)target_program_report(program)->collective_count);
    hlo_literal_free(result);
    hlo_literal_free(x);
    target_program_free(program);
    hlo_module_free(module);
    return HLO_SUCCESS;
}

static HloInstruction *normal(HloBuilder *b, int64_t size) {
    return hlo_random_normal(b, HLO_RANDOM_PARTITIONABLE, hlo_random_key(b, 0), HLO_F32, HLO_DIMS(size, size));
}

static HloStatus make_x(Example *example) {
    HloModule *module = NULL;
    TargetProgram *program = NULL;
    HLO_TRY(build(normal, example->size, &module));
    HloStatus status = target_program_new(example->client, module, NULL, &program);
    if (!status) status = target_program_call(program, NULL, 0, &example->x);
    target_program_free(program);
    hlo_module_free(module);
    return status;
}

static HloStatus run(Example *example) {
    HLO_TRY(target_client_new("v2-8", &example->client));
    HLO_TRY(make_x(example));
    HLO_TRY(draw_placements(example));
    HLO_TRY(compute(example));
    HLO_TRY(disagree(example));
    HLO_TRY(predict_all());
    HLO_TRY(draw_numbers(example, "Stable:", noisy_stable));
    return draw_numbers(example, "Partitionable:", noisy_partitionable);
}

int main(int argc, char **argv) {
    Example example = {.size = argc > 1 ? atoll(argv[1]) : 1024};
    if (example.size < 8 || example.size > 16384 || example.size % kDevices) {
        fputs("usage: distributed_arrays [N]     N: a multiple of 8, at most 16384\n", stderr);
        return 2;
    }
    HloStatus status = run(&example);
    hlo_literal_free(example.x);
    target_client_release(example.client);
    return example_end(status);
}
