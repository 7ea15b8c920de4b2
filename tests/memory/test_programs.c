// SPDX-License-Identifier: Apache-2.0
// Short of memory while the programs of tests/cpu and of the folder beside this file are compiled and while their
// kernels run, which take scratch memory of their own. Runs are synchronous on a client of one thread: all of it
// happens in the test's thread, where allocations are made to fail.
#include <criterion/criterion.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>

#include "hlo/base/file.h"
#include "hlo/base/memory.h"
#include "targets/client.h"
#include "tests/support/cases.h"
#include "tests/support/compiled.h"

typedef struct ProgramFile {
    char path[256];
} ProgramFile;

enum { kMostDevices = 130, kMostArrays = 128, kMostFailures = 100000 };

// A program on its devices, with arguments.
typedef struct Fixture {
    TargetClient *client;
    HloModule *module;
    TargetExecutable *executable;
    int64_t devices, argument_count, result_count;
    TargetBuffer *arguments[kMostDevices][kMostArrays];
    TargetBuffer *const *argument_rows[kMostDevices];
} Fixture;

static void read_program(Fixture *fixture, const char *path) {
    HloFileContent content;
    must_succeed(hlo_file_read(path, 1 << 24, &content));
    fixture->module = compiled_must_parse(content.data);
    hlo_file_content_free(&content);
}

static void place_arguments(Fixture *fixture) {
    fixture->devices = target_executable_device_count(fixture->executable);
    fixture->argument_count = target_executable_argument_count(fixture->executable);
    fixture->result_count = target_executable_result_count(fixture->executable);
    cr_assert_leq(fixture->devices, kMostDevices);
    cr_assert_leq(fixture->argument_count, kMostArrays);
    cr_assert_leq(fixture->result_count, kMostArrays);
    for (int64_t d = 0; d < fixture->devices; d++) {
        TargetMemory *memory = target_device_default_memory(target_executable_device(fixture->executable, d));
        for (int64_t i = 0; i < fixture->argument_count; i++) {
            HloLiteral *value = compiled_random(target_executable_argument_shape(fixture->executable, i), (uint64_t)i);
            must_succeed(target_buffer_from_literal(value, memory, &fixture->arguments[d][i]));
            hlo_literal_free(value);
        }
        fixture->argument_rows[d] = fixture->arguments[d];
    }
}

static void release_fixture(Fixture *fixture) {
    for (int64_t d = 0; d < fixture->devices; d++)
        for (int64_t i = 0; i < fixture->argument_count; i++) target_buffer_release(fixture->arguments[d][i]);
    target_executable_release(fixture->executable);
    hlo_module_free(fixture->module);
    target_client_release(fixture->client);
}

// Fails at each allocation in turn, the later ones in larger steps, until the call needs no more of them.
static void must_survive(const char *path, const char *what, Fixture *fixture, HloStatus (*call)(Fixture *fixture),
                         int64_t step) {
    bool enough = false;
    for (int64_t countdown = 0; !enough && countdown < kMostFailures; countdown += 1 + countdown / step) {
        hlo_allocation_fail_after(countdown);
        HloStatus status = call(fixture);
        hlo_allocation_fail_after(-1);
        enough = !status;
        cr_expect(enough || hlo_status_code(status) == HLO_RESOURCE_EXHAUSTED, "%s: %s after %lld allocations: %s",
                  path, what, (long long)countdown, hlo_status_message(status));
        hlo_status_free(status);
    }
    cr_expect(enough, "%s: %s never ends", path, what);
}

static HloStatus compile(Fixture *fixture) {
    return target_compile(fixture->client, fixture->module, NULL, &fixture->executable);
}

static HloStatus run(Fixture *fixture) {
    TargetBuffer *results[kMostDevices][kMostArrays] = {0}, **rows[kMostDevices];
    int64_t kept[kMostArrays];
    for (int64_t i = 0; i < kMostArrays; i++) kept[i] = i;
    for (int64_t d = 0; d < kMostDevices; d++) rows[d] = results[d];
    const TargetExecuteOptions options = {
        .non_donatable = kept, .non_donatable_count = fixture->argument_count, .synchronous = true};
    HloStatus status =
        target_execute(fixture->executable, &options, fixture->argument_rows, fixture->argument_count, rows, NULL);
    for (int64_t d = 0; d < fixture->devices; d++)
        for (int64_t i = 0; i < fixture->result_count; i++) target_buffer_release(results[d][i]);
    return status;
}

CaseList(memory, programs) {
    glob_t found;
    glob(MESHLO_SOURCE_DIR "/tests/cpu/programs/*.hlo", 0, NULL, &found);
    glob(MESHLO_SOURCE_DIR "/tests/cpu/decompositions/*.hlo", GLOB_APPEND, NULL, &found);
    glob(MESHLO_SOURCE_DIR "/tests/memory/programs/*.hlo", GLOB_APPEND, NULL, &found);
    ProgramFile *files = cr_malloc(sizeof(*files) * (found.gl_pathc + 1));
    for (size_t i = 0; i < found.gl_pathc; i++) snprintf(files[i].path, sizeof(files[i].path), "%s", found.gl_pathv[i]);
    const size_t count = found.gl_pathc;
    globfree(&found);
    return cr_make_param_array(ProgramFile, files, count);
}

CaseTest(const ProgramFile *file, memory, programs) {
    Fixture fixture = {0};
    char machine[16];
    read_program(&fixture, file->path);
    snprintf(machine, sizeof(machine), "cpu:%d", fixture.module->num_partitions > 8 ? kMostDevices : 8);
    must_succeed(target_client_new_with_threads(machine, 1, &fixture.client));
    must_survive(file->path, "compiling", &fixture, compile, 8);
    place_arguments(&fixture);
    must_survive(file->path, "running", &fixture, run, 512);
    release_fixture(&fixture);
}
