// SPDX-License-Identifier: Apache-2.0
// usage: meshlo_array_benchmarks DIRECTORY [NAME…]     Compiles and runs the programs DIRECTORY/NAME.hlo on one device
// and prints `NAME run-milliseconds compile-milliseconds`, each the least of many repeats. BENCH_CLOCK=processor: see
// program_cases.py.
//        meshlo_array_benchmarks --serve DIRECTORY     Answers requests on standard input, a line each, for peers.py:
//     prepare NAME        compiles a program and forgets the one before: `ok compile-milliseconds [by the evaluator]`
//     time SECONDS        `ok milliseconds`, the least of the runs in so many seconds
//     limit SECONDS       `ok milliseconds`, in which no program of its arguments, results and operations can run here
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "benchmarks/bench.h"
#include "benchmarks/limits.h"
#include "hlo/analysis/cost.h"
#include "hlo/base/file.h"
#include "hlo/text/text.h"
#include "targets/client.h"

enum { kMaxArrays = 512, kMaxLine = 256 };

// A compiled program and its arrays.
typedef struct Rig {
    HloModule *module;
    TargetExecutable *executable;
    TargetBuffer *arguments[kMaxArrays], *results[kMaxArrays];
    int64_t argument_count, result_count;
} Rig;

static uint32_t next(uint32_t *state) {
    return (*state = *state * 1664525u + 1013904223u) >> 8;
}

// Floats from 0.01 to 1; integers are row numbers below 32,000, bytes below 100.
static HloStatus fill(HloLiteral *literal, uint32_t seed) {
    const HloType type = literal->shape->type;
    const int64_t parts = hlo_type_is_complex(type) ? 2 : 1, count = hlo_shape_elements(literal->shape) * parts;
    uint32_t state = seed + 1;
    HLO_FAIL_IF(type != HLO_F32 && type != HLO_F64 && type != HLO_C64 && type != HLO_C128 && type != HLO_BF16 &&
                    type != HLO_S8 && type != HLO_U8 && type != HLO_S32 && type != HLO_U32,
                HLO_UNIMPLEMENTED, "no random %s", hlo_type_text(type));
    for (int64_t i = 0; i < count; i++) {
        const uint32_t draw = next(&state);
        const float value = 0.01f + 0.99f * (float)draw / 16777216.0f;
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        if (type == HLO_F32 || type == HLO_C64)
            ((float *)literal->data)[i] = value;
        else if (type == HLO_F64 || type == HLO_C128)
            ((double *)literal->data)[i] = value;
        else if (type == HLO_BF16)
            ((uint16_t *)literal->data)[i] = (uint16_t)(bits >> 16);
        else if (type == HLO_S8 || type == HLO_U8)
            ((int8_t *)literal->data)[i] = (int8_t)(draw % 100);
        else
            ((uint32_t *)literal->data)[i] = draw % 32000;
    }
    return HLO_SUCCESS;
}

static HloStatus read_module(const char *directory, const char *name, HloModule **module) {
    char path[4096];
    HloFileContent content;
    snprintf(path, sizeof path, "%s/%s.hlo", directory, name);
    HLO_TRY(hlo_file_read(path, SIZE_MAX / 4, &content));
    const HloStatus status = hlo_parse(content.data, content.size, NULL, module);
    hlo_file_content_free(&content);
    return status;
}

static HloStatus make_arguments(TargetClient *client, Rig *rig) {
    TargetMemory *memory = target_device_default_memory(target_client_device(client, 0));
    rig->argument_count = target_executable_argument_count(rig->executable);
    rig->result_count = target_executable_result_count(rig->executable);
    HLO_FAIL_IF(rig->argument_count > kMaxArrays || rig->result_count > kMaxArrays, HLO_INTERNAL, "too many arrays");
    for (int64_t i = 0; i < rig->argument_count; i++) {
        HloLiteral *values = hlo_literal_new(target_executable_argument_shape(rig->executable, i));
        HLO_FAIL_IF(!values, HLO_RESOURCE_EXHAUSTED, "out of memory");
        HloStatus status = fill(values, (uint32_t)i);
        if (!status) status = target_buffer_from_literal(values, memory, &rig->arguments[i]);
        hlo_literal_free(values);
        HLO_TRY(status);
    }
    return HLO_SUCCESS;
}

static HloStatus execute(Rig *rig) {
    const TargetExecuteOptions options = {.synchronous = true};
    TargetBuffer *const *arguments = rig->arguments;
    TargetBuffer **results = rig->results;
    HLO_TRY(target_execute(rig->executable, &options, &arguments, rig->argument_count, &results, NULL));
    for (int64_t i = 0; i < rig->result_count; i++) target_buffer_release(rig->results[i]);
    return HLO_SUCCESS;
}

// Compiles the program several times and keeps the last; *compile is the least time, in seconds.
static HloStatus compile_program(TargetClient *client, Rig *rig, double *compile) {
    *compile = 1e30;
    const double begin = bench_seconds();
    for (int i = 0; i < 3 || (i < 200 && bench_seconds() - begin < 0.1); i++) {
        target_executable_release(rig->executable);
        rig->executable = NULL;
        const double start = bench_seconds();
        HLO_TRY(target_compile(client, rig->module, NULL, &rig->executable));
        const double each = bench_seconds() - start;
        *compile = each < *compile ? each : *compile;
    }
    return HLO_SUCCESS;
}

// The least time of a call, over at least `seconds` and three calls.
static HloStatus measure(Rig *rig, double seconds, double *run) {
    *run = 1e30;
    const double begin = bench_seconds();
    HLO_TRY(execute(rig));
    const double first = bench_seconds();
    HLO_TRY(execute(rig));
    const int batch = 1 + (int)(1e-4 / (bench_seconds() - first + 1e-7));  // the clock itself takes time
    for (int i = 0; i < 3 || bench_seconds() - begin < seconds; i++) {
        const double start = bench_seconds();
        for (int k = 0; k < batch; k++) HLO_TRY(execute(rig));
        const double each = (bench_seconds() - start) / batch;
        *run = each < *run ? each : *run;
    }
    return HLO_SUCCESS;
}

static void forget(Rig *rig) {
    for (int64_t i = 0; i < rig->argument_count; i++) target_buffer_release(rig->arguments[i]);
    target_executable_release(rig->executable);
    hlo_module_free(rig->module);
    *rig = (Rig){0};
}

static HloStatus prepare(TargetClient *client, const char *directory, const char *name, Rig *rig, double *compile) {
    HLO_TRY(read_module(directory, name, &rig->module));
    HLO_TRY(compile_program(client, rig, compile));
    return make_arguments(client, rig);
}

static const char *evaluated(const Rig *rig) {
    return *target_executable_fallbacks(rig->executable) ? " by the evaluator" : "";
}

static HloStatus run_case(TargetClient *client, const char *directory, const char *name) {
    Rig rig = {0};
    double compile = 0, run = 0;
    HloStatus status = prepare(client, directory, name, &rig, &compile);
    if (!status) status = measure(&rig, 0.5, &run);
    if (!status) printf("%s %.6g %.6g%s\n", name, run * 1e3, compile * 1e3, evaluated(&rig));
    forget(&rig);
    return status;
}

// Operations of the f32 products and convolutions outside of loops; those of f64 count twice, as a vector holds half as
// many. Other types have peaks of their own, which bench_peak_flops() does not measure: they count as nothing.
static double product_flops(const HloModule *module) {
    HloCostAnalysis *costs = hlo_cost_analysis_new(module);
    double flops = 0;
    for (const HloInstruction *at = costs ? module->entry->first : NULL; at; at = at->next) {
        if (at->opcode != HLO_OP_DOT && at->opcode != HLO_OP_CONVOLUTION) continue;
        const HloType type = at->operands[0]->shape->type;
        const double weight = type == HLO_F32 || type == HLO_C64 ? 1 : type == HLO_F64 || type == HLO_C128 ? 2 : 0;
        flops += weight * hlo_cost_of_instruction(costs, at).flops;
    }
    hlo_cost_analysis_free(costs);
    return flops;
}

// A program cannot be faster than its products at the peak, nor than reading its arguments and writing its results.
static HloStatus find_limit(const Rig *rig, double seconds, double *limit) {
    const char *asked = getenv("MESHLO_NUM_THREADS");
    const int threads = asked ? atoi(asked) : 0;
    TargetMemoryAnalysis memory;
    TargetCostAnalysis cost;
    target_executable_memory_analysis(rig->executable, &memory);
    target_executable_cost_analysis(rig->executable, &cost);
    // A gather reads fewer bytes than it is given.
    const double touched = cost.bytes_accessed - (double)memory.output_bytes;
    const int64_t read =
        touched < (double)memory.argument_bytes && touched > 0 ? (int64_t)touched : memory.argument_bytes;
    const double traffic = bench_traffic_seconds(read, memory.output_bytes, threads, seconds);
    HLO_FAIL_IF(traffic < 0, HLO_RESOURCE_EXHAUSTED, "out of memory");
    const double flops = product_flops(rig->module), products = flops > 0 ? flops / bench_peak_flops(threads) : 0;
    *limit = traffic > products ? traffic : products;
    return HLO_SUCCESS;
}

// Answers one request on standard output.
static HloStatus answer(TargetClient *client, const char *directory, Rig *rig, char *line) {
    char name[kMaxLine] = "";
    double seconds = 0, value = 0;
    if (sscanf(line, "prepare %255s", name) == 1) {
        forget(rig);
        HLO_TRY(prepare(client, directory, name, rig, &value));
        printf("ok %.6g%s\n", value * 1e3, evaluated(rig));
        return HLO_SUCCESS;
    }
    HLO_FAIL_IF(!rig->executable, HLO_FAILED_PRECONDITION, "no program is prepared");
    if (sscanf(line, "time %lf", &seconds) == 1)
        HLO_TRY(measure(rig, seconds, &value));
    else if (sscanf(line, "limit %lf", &seconds) == 1)
        HLO_TRY(find_limit(rig, seconds, &value));
    else
        return hlo_error(HLO_INVALID_ARGUMENT, "unknown request");
    printf("ok %.6g\n", value * 1e3);
    return HLO_SUCCESS;
}

static int serve(TargetClient *client, const char *directory) {
    Rig rig = {0};
    char line[kMaxLine];
    while (fgets(line, sizeof line, stdin)) {
        HloStatus status = answer(client, directory, &rig, line);
        if (status) printf("error %s\n", hlo_status_message(status));
        hlo_status_free(status);
        fflush(stdout);
    }
    forget(&rig);
    return 0;
}

static int report(HloStatus status, const char *name) {
    fflush(stdout);
    if (!status) return 0;
    fprintf(stderr, "%s: %s\n", name, hlo_status_message(status));
    hlo_status_free(status);
    return 1;
}

static int is_program(const struct dirent *entry) {
    const size_t length = strlen(entry->d_name);
    return length > 4 && strcmp(entry->d_name + length - 4, ".hlo") == 0;
}

static int run_all(TargetClient *client, const char *directory) {
    struct dirent **entries;
    int failures = 0;
    const int count = scandir(directory, &entries, is_program, alphasort);
    for (int i = 0; i < count; i++) {
        char *name = entries[i]->d_name;
        name[strlen(name) - 4] = '\0';
        failures += report(run_case(client, directory, name), name);
        free(entries[i]);
    }
    if (count >= 0) free(entries);
    return failures + (count <= 0);
}

int main(int count, char **arguments) {
    TargetClient *client;
    if (count < 2) return 2;
    const bool serves = strcmp(arguments[1], "--serve") == 0;
    if (serves && count != 3) return 2;
    if (report(target_client_new("cpu:1", &client), "cpu:1")) return 1;
    int failures = 0;
    if (serves)
        failures = serve(client, arguments[2]);
    else if (count == 2)
        failures = run_all(client, arguments[1]);
    for (int i = 2; i < count && !serves; i++) {
        failures += report(run_case(client, arguments[1], arguments[i]), arguments[i]);
    }
    target_client_release(client);
    return failures ? 1 : 0;
}
