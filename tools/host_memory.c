// SPDX-License-Identifier: Apache-2.0
// What a run takes of this host's memory, and how much there is.
//
// The arrays are all there at the same time: global inputs and the devices' parts of them, temporaries of every virtual
// device, which keep their pages once they were used, and results in both forms.
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/execute.h"
#include "tools/sizes.h"

static int64_t add(int64_t a, int64_t b) {
    return a > INT64_MAX - b ? INT64_MAX : a + b;
}

static int64_t times(int64_t a, int64_t b) {
    int64_t product;
    return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

static int64_t bytes_of(const HloShape *shape) {
    return hlo_shape_is_array(shape) ? hlo_shape_bytes(shape) : 0;
}

CliMemory cli_memory_of(const CliExecution *execution, const CliBoundary *boundary) {
    const int64_t devices = execution->program->device_count;
    CliMemory memory = {0};
    for (int64_t i = 0; i < boundary->spmd->parameter_count; ++i) {
        memory.inputs = add(memory.inputs, bytes_of(boundary->parameters[i]));
        memory.arguments = add(memory.arguments, times(devices, bytes_of(boundary->spmd->parameters[i].local)));
    }
    for (int64_t i = 0; i < boundary->spmd->result_count; ++i) {
        memory.results = add(memory.results, bytes_of(boundary->results[i]));
        memory.results = add(memory.results, times(devices, bytes_of(boundary->spmd->results[i].local)));
    }
    if (execution->executable) {
        TargetMemoryAnalysis analysis;
        target_executable_memory_analysis(execution->executable, &analysis);
        memory.temporaries = times(devices, analysis.dense_temporary_bytes);
    }
    memory.total = add(add(memory.inputs, memory.arguments), add(memory.temporaries, memory.results));
    return memory;
}

// A number in a file of the system, in bytes; -1 if there is none, as for "max".
static int64_t number_in(const char *path) {
    FILE *file = fopen(path, "r");
    int64_t number = -1;
    if (!file) return -1;
    if (fscanf(file, "%" SCNd64, &number) != 1) number = -1;
    fclose(file);
    return number;
}

// A row of /proc/meminfo in bytes, 0 if it is not there.
static int64_t meminfo(const char *key) {
    FILE *file = fopen("/proc/meminfo", "r");
    char line[256];
    int64_t bytes = 0;
    while (file && fgets(line, sizeof(line), file))
        if (!strncmp(line, key, strlen(key)) && line[strlen(key)] == ':')
            bytes = times(strtoll(line + strlen(key) + 1, NULL, 10), 1024);
    if (file) fclose(file);
    return bytes > 0 ? bytes : 0;
}

// What the process's own control group leaves, -1 without a limit. In a container its group is the root of the files.
static int64_t left_in_group(void) {
    static const char *const kFiles[][2] = {
        {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"},
        {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"}};
    for (size_t i = 0; i < HLO_COUNT_OF(kFiles); ++i) {
        const int64_t limit = number_in(kFiles[i][0]), used = number_in(kFiles[i][1]);
        if (limit > 0 && used >= 0) return limit > used ? limit - used : 0;
    }
    return -1;
}

HloStatus cli_host_memory(CliContext *context, int64_t *bytes) {
    const char *text = getenv("MESHLO_HOST_MEMORY");
    double value;
    if (text && *text) {
        if (!cli_size_parse(text, &value))
            return cli_usage_error(context, "MESHLO_HOST_MEMORY is a size like 64GiB, not '%s'",
                                   cli_printable(context, text));
        *bytes = value < 0x1p62 ? (int64_t)value : INT64_MAX;
        return HLO_SUCCESS;
    }
    const int64_t group = left_in_group();
    *bytes = add(meminfo("MemAvailable"), meminfo("SwapFree"));
    if (group >= 0 && group < *bytes) *bytes = group;
    return HLO_SUCCESS;
}
