// SPDX-License-Identifier: Apache-2.0
// Executables: compiled programs with the devices they run on. An executable is counted, since launches in flight keep
// it: deleting one only rejects new launches. Its properties (shapes, aliases, memories, cost, fingerprint) are
// computed once at compilation, as the module is not kept.
#include <assert.h>
#include <string.h>

#include "compile/donors.h"
#include "emulator/simulate.h"
#include "hlo/analysis/cost.h"
#include "targets/cpu/graph/bounded.h"
#include "targets/internal.h"

// ---- compiling

// The caller's counts override the module's; the default is one. Division keeps the product from wrapping around.
static HloStatus choose_counts(const HloModule *module, const TargetCompileOptions *options,
                               TargetExecutable *executable) {
    assert(module && executable);
    executable->replica_count = options->replica_count ? options->replica_count : module->replica_count;
    executable->partition_count = options->partition_count ? options->partition_count : module->num_partitions;
    if (executable->replica_count == 0) executable->replica_count = 1;
    if (executable->partition_count == 0) executable->partition_count = 1;
    const int64_t have = target_client_device_count(executable->client);
    HLO_FAIL_IF(executable->replica_count < 1 || executable->partition_count < 1 ||
                    executable->partition_count > have / executable->replica_count,
                HLO_INVALID_ARGUMENT, "%lld replicas of %lld partitions do not fit on the %lld devices of %s",
                (long long)executable->replica_count, (long long)executable->partition_count, (long long)have,
                target_client_spec(executable->client));
    executable->device_count = executable->replica_count * executable->partition_count;
    return HLO_SUCCESS;
}

// Without an assignment, uses the first devices in list order. Assignments contain ids rather than list indices, like
// those in XLA's protobufs.
static HloStatus assign_devices(const TargetCompileOptions *options, TargetExecutable *executable) {
    executable->devices = hlo_allocate_zeroed((size_t)executable->device_count, sizeof(TargetDevice *));
    HLO_FAIL_IF(!executable->devices, HLO_RESOURCE_EXHAUSTED, "no memory for an executable");
    bool *taken = hlo_allocate_zeroed((size_t)target_client_device_count(executable->client), sizeof(bool));
    HLO_FAIL_IF(!taken, HLO_RESOURCE_EXHAUSTED, "no memory for an executable");
    HloStatus status = HLO_SUCCESS;
    for (int64_t i = 0; i < executable->device_count && !status; i++) {
        TargetDevice *device = options->device_assignment
                                   ? target_client_find_device(executable->client, options->device_assignment[i])
                                   : target_client_device(executable->client, i);
        if (!device)
            status = hlo_error(HLO_INVALID_ARGUMENT, "the device assignment names device %lld, which %s does not have",
                               (long long)options->device_assignment[i], target_client_spec(executable->client));
        else if (taken[device->index])
            status =
                hlo_error(HLO_INVALID_ARGUMENT, "the device assignment names device %lld twice", (long long)device->id);
        else
            taken[device->index] = true;
        executable->devices[i] = device;
    }
    hlo_free(taken);
    return status;
}

// ---- memories

TargetMemoryKind target_memory_kind_of(const HloShape *shape) {
    assert(!hlo_shape_is_tuple(shape)); /* the leaves of a tuple may be apart */
    switch (hlo_shape_memory_space(shape)) {
        case HLO_SPACE_PINNED_HOST: return TARGET_MEMORY_PINNED_HOST;
        case HLO_SPACE_UNPINNED_HOST: return TARGET_MEMORY_UNPINNED_HOST;
        default: return TARGET_MEMORY_DEVICE;
    }
}

// Writes one byte per leaf; returns the position for the next ones.
static uint8_t *note_kinds(uint8_t *kinds, const HloShape *shape) {
    const int64_t leaves = hlo_shape_leaf_count(shape);
    for (int64_t i = 0; i < leaves; i++) *kinds++ = (uint8_t)target_memory_kind_of(hlo_shape_leaf(shape, i));
    return kinds;
}

// Returns the bytes of values that the program puts into host memory during the run: XLA's memory analysis reports them
// as host_temp_size_in_bytes. Copies move values there, and the pass "host-offloader" creates stacks there; all other
// ops only pass on values that are there already.
static int64_t host_temporaries(const HloModule *module) {
    int64_t bytes = 0;
    for (int64_t c = 0; c < module->computations.count; c++) {
        for (const HloInstruction *at = module->computations.items[c]->first; at; at = at->next) {
            const bool makes = hlo_is(at, HLO_OP_COPY) || hlo_is(at, HLO_OP_COPY_DONE) || hlo_is(at, HLO_OP_BROADCAST);
            if (makes && hlo_shape_is_array(at->shape) && target_memory_kind_of(at->shape) != TARGET_MEMORY_DEVICE)
                bytes += hlo_shape_bytes(at->shape);
        }
    }
    return bytes;
}

// Determines the memory of arguments and results: the entry's layouts decide if the module has some, since JAX puts
// memory kinds there; else the shapes in the computation.
static HloStatus read_memories(const HloModule *module, TargetExecutable *executable) {
    const HloComputation *entry = module->entry;
    const int64_t count = executable->signature->argument_count + executable->signature->result_count;
    executable->memory_kinds = hlo_allocate_zeroed((size_t)count + 1, 1);
    HLO_FAIL_IF(!executable->memory_kinds, HLO_RESOURCE_EXHAUSTED, "no memory for an executable");
    uint8_t *next = executable->memory_kinds;
    for (int64_t i = 0; i < entry->parameters.count; i++)
        next = note_kinds(next, module->entry_parameter_layouts ? module->entry_parameter_layouts[i]
                                                                : entry->parameters.items[i]->shape);
    note_kinds(next, module->entry_result_layout ? module->entry_result_layout : entry->root->shape);
    executable->host_temporary_bytes = host_temporaries(module);
    return HLO_SUCCESS;
}

// A program whose dense bytes are this share of a device's memory certainly fits, and is not analysed until a caller
// asks: tiles hardly ever make arrays 64 times as large.
static const int64_t kCertainShare = 64;

static bool is_on_slice(const TargetExecutable *executable) {
    return emu_topology_is_tpu(executable->client->topology);
}

// Prints the largest buffers of a program that does not fit.
static void print_largest(const EmuReport *report, HloText *text) {
    for (int64_t i = 0; i < report->buffer_count && i < 5; i++) {
        const EmuBufferUse *buffer = &report->buffers[i];
        hlo_text_format(text, "\n  %s %s, %s%s%s", target_amount(buffer->bytes).text, buffer->shape, buffer->kind,
                        *buffer->op_name ? " " : "", buffer->op_name);
    }
}

// The wording is XLA's: programs and people look for it.
static HloStatus refuse_for_memory(const TargetExecutable *executable, int64_t peak, int64_t limit,
                                   const EmuReport *report) {
    HloText largest = {0};
    if (report) print_largest(report, &largest);
    HloStatus status =
        hlo_error(HLO_RESOURCE_EXHAUSTED,
                  "Ran out of memory on HBM, the total memory required for HLO temporaries (%s, arguments and results "
                  "included) exceeds available HBM (%s) of %s%s%s",
                  target_amount(peak).text, target_amount(limit).text, executable->devices[0]->kind,
                  largest.length ? "; the largest buffers:" : "", largest.length ? largest.data : "");
    hlo_text_free(&largest);
    return status;
}

// Checks the program against the memory of a device by the machine model, as `meshlo emulate` does. All devices of a
// slice are alike, so the first represents all. What the model cannot time (UNIMPLEMENTED) may still run here, and is
// checked by its dense bytes.
static HloStatus check_capacity(const HloModule *module, const TargetCompileOptions *options,
                                TargetExecutable *executable) {
    TargetMemoryAnalysis analysis;
    TargetMemoryStatistics statistics;
    EmuReport *report = NULL;
    target_dense_memory(executable, &analysis);
    target_device_memory_statistics(executable->devices[0], &statistics);
    if (!is_on_slice(executable)) return HLO_SUCCESS;
    const bool fits = executable->module && analysis.peak_bytes <= statistics.bytes_limit / kCertainShare;
    if (fits && !options->is_inspected) return HLO_SUCCESS;
    HloStatus status = target_slice_memory(executable, module, &analysis, &report);
    if (options->is_inspected || hlo_status_code(status) == HLO_RESOURCE_EXHAUSTED) HLO_TRY(status);
    hlo_status_free(status);
    executable->memory = analysis;
    executable->is_analysed = true;
    if (analysis.peak_bytes > statistics.bytes_limit) {
        if (options->exceeds_device) *options->exceeds_device = true;
        status = refuse_for_memory(executable, analysis.peak_bytes, statistics.bytes_limit, report);
    } else {
        status = HLO_SUCCESS;
    }
    // The kernels of a program that is only inspected are in no other count of its work.
    for (int64_t i = 0; report && options->is_inspected && i < report->op_count; i++)
        if (strcmp(report->ops[i].opcode, "custom-call") == 0)
            executable->cost.flops += report->ops[i].flops * (double)report->ops[i].count;
    emu_report_free(report);
    return status;
}

// The compiler counts collectives, as it knows the groups; the rest is the analysis of the module as in XLA.
static HloStatus analyse_cost(const HloModule *module, TargetExecutable *executable) {
    HloCostAnalysis *analysis = hlo_cost_analysis_new(module);
    HLO_FAIL_IF(!analysis, HLO_RESOURCE_EXHAUSTED, "no memory for an executable");
    const HloCost cost = hlo_cost_of_computation(analysis, module->entry);
    hlo_cost_analysis_free(analysis);
    executable->cost = (TargetCostAnalysis){.flops = cost.flops,
                                            .transcendentals = cost.transcendentals,
                                            .bytes_accessed = cost.bytes_read + cost.bytes_written,
                                            .collective_bytes = executable->signature->collective_bytes,
                                            .collective_count = executable->signature->collective_count};
    return HLO_SUCCESS;
}

const HloLayout *target_machine_layout(void *device, HloArena *arena, const HloShape *shape, const HloInts *order) {
    const TargetMemory *memory = target_device_memory(device, target_memory_kind_of(shape));
    return target_memory_layout(memory, shape, order, arena);
}

// Donors of a program that did not pass through the compile pipeline are matched here, by the same rule.
static HloStatus compile_for_processor(const HloModule *module, TargetExecutable *executable, HloArena *scratch) {
    CpuCompileOptions options = {.replica_count = executable->replica_count,
                                 .partition_count = executable->partition_count,
                                 .tpu_numerics = executable->numerics == TARGET_NUMERICS_TPU,
                                 .features = cpu_pool_features(executable->client->pool)};
    const CompileLayouts layouts = {.machine = target_machine_layout, .context = executable->devices[0]};
    HLO_FAIL_IF(!module->entry, HLO_INVALID_ARGUMENT, "module %s has no entry computation", module->name);
    HLO_TRY(compile_match_donors(scratch, module, &layouts, &options.aliases));
    return cpu_compile(module, &options, &executable->program);
}

// Divides the program among the processes of a connected client.
static HloStatus divide(TargetExecutable *executable) {
    const TargetClient *client = executable->client;
    if (!client->process_count) return HLO_SUCCESS;
    int64_t *processes = hlo_allocate((size_t)executable->device_count * sizeof *processes);
    HLO_FAIL_IF(!processes, HLO_RESOURCE_EXHAUSTED, "no memory for an executable");
    executable->launch_fingerprint =
        hlo_hash_mix(executable->fingerprint, hlo_hash_bytes(executable->name, strlen(executable->name)));
    for (int64_t d = 0; d < executable->device_count; d++) {
        processes[d] = executable->devices[d]->process_index;
        executable->launch_fingerprint =
            hlo_hash_mix(executable->launch_fingerprint, (uint64_t)executable->devices[d]->id);
    }
    const HloStatus status =
        cpu_span_new(executable->program, processes, target_client_process_index(client), &executable->span);
    hlo_free(processes);
    return status;
}

typedef struct CompileCall {
    const HloModule *module;
    const TargetCompileOptions *options;
    TargetExecutable *executable;
} CompileCall;

// Leaves its allocations in the executable, even when memory runs out. The fingerprint is of the module, the numerics
// and the counts, not of the devices: a cache may use it on another slice of the same shape.
static HloStatus fill_executable(void *argument) {
    const CompileCall *call = argument;
    const HloModule *module = call->module;
    const TargetCompileOptions *options = call->options;
    TargetExecutable *executable = call->executable;
    HLO_TRY(choose_counts(module, options, executable));
    HLO_TRY(assign_devices(options, executable));
    executable->numerics =
        options->numerics == TARGET_NUMERICS_DEFAULT ? target_client_numerics(executable->client) : options->numerics;
    executable->name = hlo_allocate_text(module->name ? module->name : "");
    HLO_FAIL_IF(!executable->name, HLO_RESOURCE_EXHAUSTED, "no memory for an executable");
    if (options->is_inspected) {
        HLO_TRY(target_inspect_signature(module, executable));
    } else {
        HloArena *scratch = hlo_arena_scratch_new();
        const HloStatus status = compile_for_processor(module, executable, scratch);
        hlo_arena_free(scratch);
        HLO_TRY(status);
        executable->signature = cpu_executable_signature(executable->program);
    }
    if (options->keeps_module) executable->module = module;
    executable->fingerprint =
        hlo_hash_mix(hlo_hash_mix(hlo_module_hash(module), (uint64_t)executable->numerics),
                     hlo_hash_mix((uint64_t)executable->replica_count, (uint64_t)executable->partition_count));
    HLO_TRY(divide(executable));
    HLO_TRY(read_memories(module, executable));
    HLO_TRY(analyse_cost(module, executable));
    return check_capacity(module, options, executable);
}

// The module is not kept, unless the caller keeps it.
HloStatus target_compile(TargetClient *client, const HloModule *module, const TargetCompileOptions *options,
                         TargetExecutable **result) {
    assert(client && module && result);
    static const TargetCompileOptions kDefaults = {0};
    TargetExecutable *executable = hlo_allocate_zeroed(1, sizeof *executable);
    HLO_FAIL_IF(!executable, HLO_RESOURCE_EXHAUSTED, "no memory for an executable");
    executable->references = 1;
    pthread_mutex_init(&executable->lock, NULL);
    executable->client = target_client_retain(client);
    CompileCall call = {module, options ? options : &kDefaults, executable};
    const HloStatus status = hlo_protect(fill_executable, &call);
    if (status)
        target_executable_release(executable);
    else
        *result = executable;
    return status;
}

TargetExecutable *target_executable_retain(TargetExecutable *executable) {
    atomic_fetch_add(&executable->references, 1);
    return executable;
}

void target_executable_release(TargetExecutable *executable) {
    if (!executable || atomic_fetch_sub(&executable->references, 1) != 1) return;
    cpu_share_plan_free(executable->sharing);
    cpu_span_free(executable->span);
    cpu_executable_free(executable->program);
    hlo_free(executable->devices);
    hlo_free(executable->memory_kinds);
    hlo_free(executable->name);
    hlo_arena_free(executable->arena);
    pthread_mutex_destroy(&executable->lock);
    TargetClient *client = executable->client;
    hlo_free(executable);
    target_client_release(client);
}

// ---- questions

void target_executable_delete(TargetExecutable *executable) {
    atomic_store(&executable->deleted, true);
}
bool target_executable_is_deleted(const TargetExecutable *executable) {
    return atomic_load(&((TargetExecutable *)(uintptr_t)executable)->deleted);
}
const char *target_executable_name(const TargetExecutable *executable) {
    return executable->name;
}
TargetClient *target_executable_client(const TargetExecutable *executable) {
    return executable->client;
}
int64_t target_executable_replica_count(const TargetExecutable *executable) {
    return executable->replica_count;
}
int64_t target_executable_partition_count(const TargetExecutable *executable) {
    return executable->partition_count;
}
int64_t target_executable_device_count(const TargetExecutable *executable) {
    return executable->device_count;
}

TargetDevice *target_executable_device(const TargetExecutable *executable, int64_t index) {
    return executable->devices[index];
}

int64_t target_executable_argument_count(const TargetExecutable *executable) {
    return executable->signature->argument_count;
}
const HloShape *target_executable_argument_shape(const TargetExecutable *executable, int64_t index) {
    return executable->signature->argument_shapes[index];
}
int64_t target_executable_result_count(const TargetExecutable *executable) {
    return executable->signature->result_count;
}
const HloShape *target_executable_result_shape(const TargetExecutable *executable, int64_t index) {
    return executable->signature->result_shapes[index];
}
TargetMemoryKind target_executable_argument_memory(const TargetExecutable *executable, int64_t index) {
    return (TargetMemoryKind)executable->memory_kinds[index];
}
TargetMemoryKind target_executable_result_memory(const TargetExecutable *executable, int64_t index) {
    return (TargetMemoryKind)executable->memory_kinds[executable->signature->argument_count + index];
}
int64_t target_executable_result_alias(const TargetExecutable *executable, int64_t index) {
    return executable->signature->result_alias[index];
}
bool target_executable_argument_is_donated(const TargetExecutable *executable, int64_t index) {
    return executable->signature->argument_donated[index];
}
int64_t target_executable_transfer_count(const TargetExecutable *executable) {
    return executable->signature->transfer_count;
}
int64_t target_executable_transfer(const TargetExecutable *executable, int64_t index, bool *to_host) {
    *to_host = executable->signature->transfers[index].to_host;
    return executable->signature->transfers[index].channel;
}
bool target_executable_transfer_is_unread(const TargetExecutable *executable, int64_t index) {
    return executable->signature->transfers[index].unread;
}
uint64_t target_executable_fingerprint(const TargetExecutable *executable) {
    return executable->fingerprint;
}
const char *target_executable_fallbacks(const TargetExecutable *executable) {
    return executable->signature->fallbacks;
}

// A result that aliases an argument is in that argument's memory, so it counts once in the peak. The arena includes the
// values of host memory: they are subtracted as if all were live at its peak, which is true for the stacks of loops.
void target_dense_memory(const TargetExecutable *executable, TargetMemoryAnalysis *analysis) {
    assert(executable && analysis);
    const CpuSignature *signature = executable->signature;
    const int64_t host = executable->host_temporary_bytes;
    *analysis =
        (TargetMemoryAnalysis){.temporary_bytes = signature->arena_bytes > host ? signature->arena_bytes - host : 0,
                               .constant_bytes = signature->constant_bytes,
                               .host_temporary_bytes = host,
                               .dense_temporary_bytes = signature->arena_bytes};
    for (int64_t i = 0; i < signature->argument_count; i++) {
        const bool here = target_executable_argument_memory(executable, i) == TARGET_MEMORY_DEVICE;
        *(here ? &analysis->argument_bytes : &analysis->host_argument_bytes) +=
            cpu_buffer_bytes(signature->argument_shapes[i]);
    }
    for (int64_t i = 0; i < signature->result_count; i++) {
        const bool here = target_executable_result_memory(executable, i) == TARGET_MEMORY_DEVICE;
        const int64_t bytes = cpu_buffer_bytes(signature->result_shapes[i]);
        *(here ? &analysis->output_bytes : &analysis->host_output_bytes) += bytes;
        if (signature->result_alias[i] >= 0) *(here ? &analysis->alias_bytes : &analysis->host_alias_bytes) += bytes;
    }
    analysis->peak_bytes =
        analysis->argument_bytes + analysis->output_bytes - analysis->alias_bytes + analysis->temporary_bytes;
}

// The analysis of a program on a slice is made for whoever asks first. What the machine model cannot time has its dense
// bytes.
void target_executable_memory_analysis(const TargetExecutable *executable, TargetMemoryAnalysis *analysis) {
    assert(executable && analysis);
    TargetExecutable *owner = (TargetExecutable *)(uintptr_t)executable;
    pthread_mutex_lock(&owner->lock);
    if (!owner->is_analysed) {
        target_dense_memory(executable, &owner->memory);
        if (is_on_slice(executable) && executable->module)
            hlo_status_free(target_slice_memory(executable, executable->module, &owner->memory, NULL));
        owner->is_analysed = true;
    }
    *analysis = owner->memory;
    pthread_mutex_unlock(&owner->lock);
}

void target_executable_forget_module(TargetExecutable *executable) {
    // The memory of a program that only its owner knows is never asked for.
    TargetMemoryAnalysis analysis;
    if (atomic_load(&executable->references) > 1) target_executable_memory_analysis(executable, &analysis);
    pthread_mutex_lock(&executable->lock);
    executable->module = NULL;
    pthread_mutex_unlock(&executable->lock);
}

void target_executable_cost_analysis(const TargetExecutable *executable, TargetCostAnalysis *analysis) {
    *analysis = executable->cost;
}

char *target_executable_to_text(const TargetExecutable *executable) {
    HloText text = {0};
    if (!executable->program) return hlo_allocate_text("");
    cpu_executable_print(executable->program, &text);
    const HloStatus status = hlo_text_status(&text);
    if (!status) return text.data;
    hlo_status_free(status);
    hlo_text_free(&text);
    return NULL;
}
