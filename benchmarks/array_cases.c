// SPDX-License-Identifier: Apache-2.0
// usage: meshlo_array_benchmarks DIRECTORY [NAME…]     Compiles and runs the programs DIRECTORY/NAME.hlo on one device
// and prints `NAME run-milliseconds compile-milliseconds`, each the least of many repeats. BENCH_CLOCK=processor: see
// program_cases.py.
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "hlo/base/file.h"
#include "hlo/text/text.h"
#include "targets/client.h"

enum { kMaxArrays = 128 };

// A compiled program and its arrays.
typedef struct Rig {
    HloModule *module;
    TargetExecutable *executable;
    TargetBuffer *arguments[kMaxArrays], *results[kMaxArrays];
    int64_t argument_count, result_count;
} Rig;

static double seconds(void) {
    const char *asked = getenv("BENCH_CLOCK");
    struct timespec now;
    clock_gettime(asked && strcmp(asked, "processor") == 0 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static uint32_t next(uint32_t *state) {
    return (*state = *state * 1664525u + 1013904223u) >> 8;
}

// Floats from 0.01 to 1; integers are row numbers below 32,000, bytes below 100.
static HloStatus fill(HloLiteral *literal, uint32_t seed) {
    const HloType type = literal->shape->type;
    const int64_t parts = hlo_type_is_complex(type) ? 2 : 1, count = hlo_shape_elements(literal->shape) * parts;
    uint32_t state = seed + 1;
    HLO_FAIL_IF(type != HLO_F32 && type != HLO_F64 && type != HLO_C64 && type != HLO_C128 && type != HLO_BF16 &&
                    type != HLO_S8 && type != HLO_S32 && type != HLO_U32,
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
        else if (type == HLO_S8)
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

// The least time of a call, over at least half a second and three calls.
static HloStatus measure(TargetClient *client, Rig *rig, double *compile, double *run) {
    *compile = *run = 1e30;
    const double begin = seconds();
    for (int i = 0; i < 3 || (i < 200 && seconds() - begin < 0.1); i++) {
        target_executable_release(rig->executable);
        rig->executable = NULL;
        const double start = seconds();
        HLO_TRY(target_compile(client, rig->module, NULL, &rig->executable));
        const double each = seconds() - start;
        *compile = each < *compile ? each : *compile;
    }
    HLO_TRY(make_arguments(client, rig));
    const double running = seconds();
    HLO_TRY(execute(rig));
    const double first = seconds();
    HLO_TRY(execute(rig));
    const int batch = 1 + (int)(1e-4 / (seconds() - first + 1e-7));  // the clock itself takes time
    for (int i = 0; i < 3 || seconds() - running < 0.5; i++) {
        const double start = seconds();
        for (int k = 0; k < batch; k++) HLO_TRY(execute(rig));
        const double each = (seconds() - start) / batch;
        *run = each < *run ? each : *run;
    }
    return HLO_SUCCESS;
}

static HloStatus run_case(TargetClient *client, const char *directory, const char *name) {
    Rig rig = {0};
    double compile = 0, run = 0;
    HloStatus status = read_module(directory, name, &rig.module);
    if (!status) status = measure(client, &rig, &compile, &run);
    if (!status)
        printf("%s %.6g %.6g%s\n", name, run * 1e3, compile * 1e3,
               *target_executable_fallbacks(rig.executable) ? " by the evaluator" : "");
    for (int64_t i = 0; i < rig.argument_count; i++) target_buffer_release(rig.arguments[i]);
    target_executable_release(rig.executable);
    hlo_module_free(rig.module);
    return status;
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
    if (report(target_client_new("cpu:1", &client), "cpu:1")) return 1;
    int failures = count == 2 ? run_all(client, arguments[1]) : 0;
    for (int i = 2; i < count; i++) failures += report(run_case(client, arguments[1], arguments[i]), arguments[i]);
    target_client_release(client);
    return failures ? 1 : 0;
}
