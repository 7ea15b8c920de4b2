// SPDX-License-Identifier: Apache-2.0
// Getters of executables, and running them. Getters return what compile.c prepared when the program was compiled: their
// answers live as long as the executable, as the C API requires. A launch checks what only the C API can express
// (devices of other processes, portable programs, missing arguments), wraps the caller's callbacks, and leaves
// everything else to target_execute().
#include <string.h>

#include "hlo/base/clock.h"
#include "hlo/proto/proto.h"
#include "hlo/proto/wire.h"
#include "pjrt/abi_transfer.h"
#include "pjrt/objects.h"

// ---- executables

// Gives back one reference: loaded executables hold others.
PjrtError *pjrt_executable_destroy(void *arguments) {
    PjrtExecutableDestroyArgs *args = arguments;
    if (args->object) pjrt_executable_release(args->object);
    return NULL;
}

PjrtError *pjrt_executable_name(void *arguments) {
    PjrtExecutableNameArgs *args = arguments;
    args->executable_name = target_executable_name(args->executable->executable);
    args->executable_name_size = strlen(args->executable_name);
    return NULL;
}

PjrtError *pjrt_executable_num_replicas(void *arguments) {
    PjrtExecutableNumReplicasArgs *args = arguments;
    args->num_replicas = (size_t)target_executable_replica_count(args->executable->executable);
    return NULL;
}

PjrtError *pjrt_executable_num_partitions(void *arguments) {
    PjrtExecutableNumPartitionsArgs *args = arguments;
    args->num_partitions = (size_t)target_executable_partition_count(args->executable->executable);
    return NULL;
}

PjrtError *pjrt_executable_num_outputs(void *arguments) {
    PjrtExecutableNumOutputsArgs *args = arguments;
    args->num_outputs = args->executable->result_count;
    return NULL;
}

PjrtError *pjrt_executable_size_of_generated_code_in_bytes(void *arguments) {
    PjrtExecutableSizeOfGeneratedCodeInBytesArgs *args = arguments;
    TargetMemoryAnalysis analysis;
    target_executable_memory_analysis(args->executable->executable, &analysis);
    args->size_in_bytes = analysis.generated_code_bytes;
    return NULL;
}

PjrtError *pjrt_executable_fingerprint(void *arguments) {
    PjrtExecutableFingerprintArgs *args = arguments;
    args->executable_fingerprint = args->executable->fingerprint;
    args->executable_fingerprint_size = strlen(args->executable->fingerprint);
    return NULL;
}

// Deprecated in the API: callers use the executable's function.
PjrtError *pjrt_loaded_executable_fingerprint(void *arguments) {
    (void)arguments;
    return pjrt_fail(HLO_UNIMPLEMENTED, "ask PJRT_Executable_Fingerprint");
}

// The names are those that XLA's cost analysis uses; jax's cost_analysis() shows them as they are.
PjrtError *pjrt_executable_get_cost_analysis(void *arguments) {
    PjrtExecutableGetCostAnalysisArgs *args = arguments;
    args->properties = args->executable->costs;
    args->num_properties = HLO_COUNT_OF(args->executable->costs);
    return NULL;
}

// The struct may be longer than ours or shorter; the fields within its size are set, the rest is zero.
PjrtError *pjrt_executable_get_compiled_memory_stats(void *arguments) {
    PjrtExecutableGetCompiledMemoryStatsArgs *args = arguments;
    TargetMemoryAnalysis analysis;
    target_executable_memory_analysis(args->executable->executable, &analysis);
    size_t first = offsetof(PjrtExecutableGetCompiledMemoryStatsArgs, generated_code_size_in_bytes);
    if (args->struct_size > first) memset((char *)args + first, 0, args->struct_size - first);
    if (PJRT_HAS(args, temp_size_in_bytes)) {
        args->generated_code_size_in_bytes = analysis.generated_code_bytes;
        args->argument_size_in_bytes = analysis.argument_bytes;
        args->output_size_in_bytes = analysis.output_bytes;
        args->alias_size_in_bytes = analysis.alias_bytes;
        args->temp_size_in_bytes = analysis.temporary_bytes;
    }
    if (PJRT_HAS(args, host_temp_size_in_bytes)) {
        args->host_argument_size_in_bytes = analysis.host_argument_bytes;
        args->host_output_size_in_bytes = analysis.host_output_bytes;
        args->host_alias_size_in_bytes = analysis.host_alias_bytes;
        args->host_temp_size_in_bytes = analysis.host_temporary_bytes;
    }
    if (PJRT_HAS(args, peak_memory_in_bytes)) args->peak_memory_in_bytes = analysis.peak_bytes;
    return NULL;
}

PjrtError *pjrt_executable_output_element_types(void *arguments) {
    PjrtExecutableOutputElementTypesArgs *args = arguments;
    args->output_types = args->executable->result_types;
    args->num_output_types = args->executable->result_count;
    return NULL;
}

// The dimensions of all results in one list, and how many of them belong to each.
PjrtError *pjrt_executable_output_dimensions(void *arguments) {
    PjrtExecutableOutputDimensionsArgs *args = arguments;
    args->num_outputs = args->executable->result_count;
    args->dims = args->executable->result_dims;
    args->dim_sizes = args->executable->result_ranks;
    return NULL;
}

PjrtError *pjrt_executable_output_memory_kinds(void *arguments) {
    PjrtExecutableOutputMemoryKindsArgs *args = arguments;
    args->num_outputs = args->executable->result_memories.count;
    args->memory_kinds = args->executable->result_memories.items;
    args->memory_kind_sizes = args->executable->result_memories.sizes;
    return NULL;
}

PjrtError *pjrt_executable_parameter_memory_kinds(void *arguments) {
    PjrtExecutableParameterMemoryKindsArgs *args = arguments;
    args->num_parameters = args->executable->parameter_memories.count;
    args->memory_kinds = args->executable->parameter_memories.items;
    args->memory_kind_sizes = args->executable->parameter_memories.sizes;
    return NULL;
}

// HloModuleProtoWithConfig {1: module, 2: config}. Shardings of parameters (14) and result (12) are fields of the
// module, which may follow its others: messages merge.
// Once, under the executable's lock; what was written before an error is dropped by the caller.
static HloStatus print_optimised(PjrtExecutable *executable) {
    HloText *text = &executable->optimised;
    size_t mark = hlo_wire_begin(text, 1);
    HLO_TRY(hlo_module_to_proto(executable->module, text));
    const PjrtStrings *parameters = &executable->parameter_shardings, *results = &executable->result_shardings;
    for (size_t i = 0; i < parameters->count; i++) {
        hlo_wire_bytes(text, 14, parameters->items[i], parameters->sizes[i]);
    }
    if (results->count == 1 && !hlo_shape_is_tuple(executable->module->entry->root->shape)) {
        hlo_wire_bytes(text, 12, results->items[0], results->sizes[0]);
    } else if (results->count) {
        size_t tuple = hlo_wire_begin(text, 12);
        hlo_wire_varint(text, 1, 2);  // OpSharding.TUPLE
        for (size_t i = 0; i < results->count; i++) hlo_wire_bytes(text, 5, results->items[i], results->sizes[i]);
        hlo_wire_end(text, tuple);
    }
    hlo_wire_end(text, mark);
    mark = hlo_wire_begin(text, 2);
    HLO_TRY(hlo_module_config_to_proto(executable->module, text));
    hlo_wire_end(text, mark);
    return hlo_text_status(text);
}

// Called twice: with code NULL for the size, then with a buffer for the bytes.
PjrtError *pjrt_executable_optimized_program(void *arguments) {
    PjrtExecutableOptimizedProgramArgs *args = arguments;
    PjrtExecutable *executable = args->executable;
    HloStatus status = NULL;
    pthread_mutex_lock(&executable->lock);
    if (!executable->optimised.length) status = print_optimised(executable);
    if (status) hlo_text_free(&executable->optimised);
    pthread_mutex_unlock(&executable->lock);
    PJRT_TRY(status);
    PjrtProgram *program = args->program;
    program->format = "hlo_with_config";
    program->format_size = strlen(program->format);
    if (!program->code) {
        program->code_size = executable->optimised.length;
        return NULL;
    }
    if (program->code_size < executable->optimised.length) {
        return pjrt_fail(HLO_INVALID_ARGUMENT, "the program has %zu bytes, there is room for %zu",
                         executable->optimised.length, program->code_size);
    }
    memcpy(program->code, executable->optimised.data, executable->optimised.length);
    program->code_size = executable->optimised.length;
    return NULL;
}

static void free_nothing(void *object) {
    (void)object;
}

// The bytes that came with the program, unchanged.
PjrtError *pjrt_executable_get_compile_options(void *arguments) {
    PjrtExecutableGetCompileOptionsArgs *args = arguments;
    args->serialized_bytes = args->executable->options.data ? args->executable->options.data : "";
    args->serialized_bytes_size = args->executable->options.length;
    args->serialized_compile_options = NULL;
    args->serialized_compile_options_deleter = free_nothing;
    return NULL;
}

// ---- loaded executables

// The caller gets a reference of its own and destroys it.
PjrtError *pjrt_loaded_executable_get_executable(void *arguments) {
    PjrtLoadedExecutableGetExecutableArgs *args = arguments;
    atomic_fetch_add(&args->loaded_executable->executable->references, 1);
    args->executable = args->loaded_executable->executable;
    return NULL;
}

// A portable program has no devices: each launch names one.
PjrtError *pjrt_loaded_executable_addressable_devices(void *arguments) {
    PjrtLoadedExecutableAddressableDevicesArgs *args = arguments;
    args->addressable_devices = args->executable->local_devices;
    args->num_addressable_devices = args->executable->executable->portable ? 0 : args->executable->local_count;
    return NULL;
}

PjrtError *pjrt_loaded_executable_addressable_device_logical_ids(void *arguments) {
    PjrtLoadedExecutableAddressableDeviceLogicalIdsArgs *args = arguments;
    args->addressable_device_logical_ids = args->executable->logical_ids;
    args->num_addressable_device_logical_ids =
        args->executable->executable->portable ? 0 : args->executable->local_count;
    return NULL;
}

PjrtError *pjrt_loaded_executable_get_device_assignment(void *arguments) {
    PjrtLoadedExecutableGetDeviceAssignmentArgs *args = arguments;
    args->serialized_bytes = args->executable->assignment.data ? args->executable->assignment.data : "";
    args->serialized_bytes_size = args->executable->assignment.length;
    args->serialized_device_assignment = NULL;
    args->serialized_device_assignment_deleter = free_nothing;
    return NULL;
}

// Launches under way go on: they have references of their own. New ones are refused. The flag is the handle's and not
// the program's, which other handles may have loaded too (Client_Load()).
PjrtError *pjrt_loaded_executable_delete(void *arguments) {
    PjrtLoadedExecutableDeleteArgs *args = arguments;
    atomic_store(&args->object->deleted, true);
    return NULL;
}

PjrtError *pjrt_loaded_executable_is_deleted(void *arguments) {
    PjrtLoadedExecutableIsDeletedArgs *args = arguments;
    args->is_deleted = atomic_load(&args->executable->deleted);
    return NULL;
}

// ---- execution

// The lists that target_execute() takes, in one block of memory.
typedef struct Launch {
    TargetBuffer **arguments, **results;
    TargetBuffer *const **argument_lists;
    TargetBuffer ***result_lists;
    TargetEvent **events;
    void *memory;
} Launch;

// False when memory is short. Zeroed, so that a failure half-way leaves nothing to guess.
// Words are pointers; the counts are those of lists that the caller holds, so the product fits. One more word than
// needed, as a block of none may be NULL.
static bool open_launch(Launch *launch, size_t devices, size_t arguments, size_t results) {
    size_t words = devices * (arguments + results + 3);
    void **memory = launch->memory = hlo_allocate_zeroed(words + 1, sizeof(void *));
    if (!memory) return false;
    launch->arguments = (TargetBuffer **)memory;
    launch->results = launch->arguments + devices * arguments;
    launch->argument_lists = (TargetBuffer *const **)(memory + devices * (arguments + results));
    launch->result_lists = (TargetBuffer ***)(memory + devices * (arguments + results + 1));
    launch->events = (TargetEvent **)(memory + devices * (arguments + results + 2));
    for (size_t d = 0; d < devices; d++) {
        launch->argument_lists[d] = launch->arguments + d * arguments;
        launch->result_lists[d] = launch->results + d * results;
    }
    return true;
}

// Wraps results and events for the caller, whose lists are those of this process's devices. After a failure everything
// made so far is released.
static bool hand_out(PjrtLoadedExecutableExecuteArgs *args, Launch *launch) {
    const PjrtLoadedExecutable *loaded = args->executable;
    const PjrtExecutable *executable = loaded->executable;
    PjrtClient *client = loaded->devices[0]->client;
    const size_t results = executable->result_count;
    bool whole = true;
    for (size_t l = 0; l < args->num_devices; l++) {
        const size_t place = loaded->local_places[l];
        for (size_t i = 0; i < results; i++) {
            args->output_lists[l][i] =
                pjrt_buffer_from(client, launch->results[place * results + i], executable->result_buffer_layouts[i]);
            whole &= args->output_lists[l][i] != NULL;
        }
        if (!args->device_complete_events) continue;
        args->device_complete_events[l] = pjrt_event_from(launch->events[place]);
        whole &= args->device_complete_events[l] != NULL;
    }
    for (size_t l = 0; !whole && l < args->num_devices; l++) {
        for (size_t i = 0; i < results; i++)
            pjrt_buffer_destroy(&(PjrtBufferDestroyArgs){.object = args->output_lists[l][i]});
        if (args->device_complete_events) {
            pjrt_event_destroy(&(PjrtEventDestroyArgs){.object = args->device_complete_events[l]});
        }
    }
    return whole;
}

// The device that the launch of a portable program names; NULL where it names none, as in the struct of a client older
// than portable programs, which ends before the field.
static PjrtDevice *device_of_launch(const PjrtLoadedExecutableExecuteArgs *args) {
    return PJRT_HAS(args, execute_device) ? args->execute_device : NULL;
}

// Checks what the layers below cannot report in the caller's terms. Everything that target_execute() can report itself
// (counts, shapes, deleted buffers) is left to it.
static PjrtError *check_launch(const PjrtLoadedExecutableExecuteArgs *args) {
    const PjrtLoadedExecutable *loaded = args->executable;
    const PjrtDevice *device = device_of_launch(args);
    if (atomic_load(&((PjrtLoadedExecutable *)(uintptr_t)loaded)->deleted))
        return pjrt_fail(HLO_FAILED_PRECONDITION, "executable %s has been deleted",
                         target_executable_name(loaded->executable->executable));
    if (loaded->executable->portable && !device)
        return pjrt_fail(HLO_INVALID_ARGUMENT, "%s is portable: the launch must name a device",
                         target_executable_name(loaded->executable->executable));
    if (device && !loaded->executable->portable && device != loaded->devices[0])
        return pjrt_fail(HLO_INVALID_ARGUMENT, "%s is not portable and belongs to another device",
                         target_executable_name(loaded->executable->executable));
    // A portable program has been compiled for some device, which need not be one of this process.
    const PjrtClient *client = loaded->devices[0]->client;
    if (device && loaded->executable->portable && !pjrt_is_local(device))
        return pjrt_fail(HLO_INVALID_ARGUMENT, "%s cannot run on %s, which belongs to process %lld; this is process %d",
                         target_executable_name(loaded->executable->executable), device->device->text,
                         (long long)device->device->process_index, client->process_index);
    if (client->is_alone && loaded->local_count < loaded->device_count)
        return pjrt_fail(
            HLO_UNIMPLEMENTED,
            "%s runs on %zu devices, of which this process (%d) has %zu; MESHLO_PROCESS_INDEX alone makes it "
            "one host without the others, so arrays cannot be exchanged between processes",
            target_executable_name(loaded->executable->executable), loaded->device_count, client->process_index,
            loaded->local_count);
    if (args->num_devices != loaded->local_count) {
        return pjrt_fail(HLO_INVALID_ARGUMENT, "%s runs on %zu devices of this process, but there are lists for %zu",
                         target_executable_name(loaded->executable->executable), loaded->local_count,
                         args->num_devices);
    }
    return NULL;
}

// True for programs that only send to the host. The unused value that they receive is an acknowledgement, which JAX
// adds to every callback without results.
static bool only_tells(const TargetExecutable *executable) {
    const int64_t count = target_executable_transfer_count(executable);
    for (int64_t i = 0; i < count; i++) {
        bool to_host;
        (void)target_executable_transfer(executable, i, &to_host);
        if (!to_host && !target_executable_transfer_is_unread(executable, i)) return false;
    }
    return count > 0;
}

// A launch with callbacks is complete when the call returns, as on XLA's CPU: the output of jax.debug.print comes
// before what the caller prints next, and an error that a callback raises is raised here. But where a program expects
// an answer from the host, the answer may have to come from the very thread that launches it, once the call has
// returned. So the call waits for these programs only for a limited time, and not at all after that has failed once.
// Their results become ready later, with the error if there is one. The first error of any device is returned.
static HloStatus wait_for_callbacks(const PjrtLoadedExecutable *loaded, const Launch *launch) {
    enum { PATIENCE_MILLISECONDS = 5000, NANOSECONDS = 1000000 };
    PjrtExecutable *executable = loaded->executable;
    const bool is_patient = only_tells(executable->executable);
    if (!is_patient && atomic_load(&executable->is_answered_late)) return HLO_SUCCESS;
    const int64_t end = hlo_clock_nanoseconds() + (int64_t)PATIENCE_MILLISECONDS * NANOSECONDS;
    HloStatus first = HLO_SUCCESS;
    for (size_t l = 0; l < loaded->local_count; l++) {
        TargetEvent *event = launch->events[loaded->local_places[l]];
        const int64_t left = (end - hlo_clock_nanoseconds()) / NANOSECONDS;
        const bool is_over = is_patient || target_event_wait_for(event, left > 0 ? left : 0);
        if (!is_over) atomic_store(&executable->is_answered_late, true);
        HloStatus error = is_over ? target_event_wait(event) : HLO_SUCCESS;
        if (first) hlo_status_free(error);
        if (!first) first = error;
    }
    return first;
}

// Starts a run. On success the launch owns its results and events; after an error it has neither.
static HloStatus start(const PjrtLoadedExecutableExecuteArgs *args, TargetExecuteOptions *options, Launch *launch) {
    TargetExecutable *executable = args->executable->executable->executable;
    TargetHostTransfers transfers = {0};
    TargetTrace trace;
    HLO_TRY(pjrt_transfers_new(args->options, args->executable, &transfers));
    const bool has_callbacks = transfers.context != NULL, traced = pjrt_profiler_trace(&trace);
    if (has_callbacks) options->transfers = &transfers;
    if (traced) options->trace = &trace;
    const bool needs_events = args->device_complete_events || has_callbacks;
    HloStatus status =
        target_execute(executable, options, (TargetBuffer *const *const *)launch->argument_lists,
                       (int64_t)args->num_args, launch->result_lists, needs_events ? launch->events : NULL);
    if (status && has_callbacks) transfers.release(transfers.context);
    if (status && traced) trace.release(trace.context);
    if (status || !has_callbacks) return status;
    status = wait_for_callbacks(args->executable, launch);
    // Entries of other processes' devices are NULL.
    const size_t devices = args->executable->device_count;
    const size_t results = args->executable->executable->result_count * devices;
    for (size_t i = 0; status && i < results; i++) target_buffer_release(launch->results[i]);
    const bool keeps_events = args->device_complete_events && !status;
    for (size_t d = 0; !keeps_events && d < devices; d++) target_event_release(launch->events[d]);
    return status;
}

// Ownership: results and events belong to the caller once they are in its lists; transfers and trace belong to the
// launch once target_execute() has accepted it, and are released here otherwise. Handles of arguments are only read:
// the launch has its own references to the underlying buffers.
PjrtError *pjrt_loaded_executable_execute(void *arguments) {
    PjrtLoadedExecutableExecuteArgs *args = arguments;
    PJRT_CHECK_SIZE(args, device_complete_events);
    PjrtError *refused = check_launch(args);
    if (refused) return refused;
    // Other processes run it: frameworks launch a program in all of them.
    if (args->executable->local_count == 0) return NULL;
    PjrtExecutable *executable = args->executable->executable;
    size_t results = executable->result_count;
    Launch launch;
    if (!open_launch(&launch, args->executable->device_count, args->num_args, results)) {
        return pjrt_fail(HLO_RESOURCE_EXHAUSTED, "out of memory");
    }
    for (size_t d = 0; d < args->num_devices; d++) {
        for (size_t i = 0; i < args->num_args; i++) {
            if (!args->argument_lists[d][i]) {
                hlo_free(launch.memory);
                return pjrt_fail(HLO_INVALID_ARGUMENT, "argument %zu of launch position %zu is missing", i, d);
            }
            const size_t place = args->executable->local_places[d];
            launch.arguments[place * args->num_args + i] = args->argument_lists[d][i]->buffer;
        }
    }
    TargetExecuteOptions options = {0};
    if (executable->portable) options.device = device_of_launch(args)->device;
    if (args->options && PJRT_HAS(args->options, num_non_donatable_input_indices)) {
        options.non_donatable = args->options->non_donatable_input_indices;
        options.non_donatable_count = (int64_t)args->options->num_non_donatable_input_indices;
    }
    if (args->options && PJRT_HAS(args->options, launch_id)) options.launch_id = args->options->launch_id;
    HloStatus status = start(args, &options, &launch);
    bool whole = !status && hand_out(args, &launch);
    hlo_free(launch.memory);
    PJRT_TRY(status);
    return whole ? NULL : pjrt_fail(HLO_RESOURCE_EXHAUSTED, "out of memory");
}

// A device's executions that wait in line with this launch id fail with the error instead of running.
PjrtError *pjrt_device_poison_execution(void *arguments) {
    PjrtDevicePoisonExecutionArgs *args = arguments;
    PJRT_CHECK_SIZE(args, poisoned);
    HloStatus status = pjrt_status_of(args->error_code, args->error_message, args->error_message_size);
    args->poisoned = target_device_poison(args->device->device, args->launch_id, status);
    return NULL;
}

// A context carries data for FFI calls, of which there are none here: it is an object without content.
PjrtError *pjrt_execute_context_create(void *arguments) {
    PjrtExecuteContextArgs *args = arguments;
    args->context = hlo_allocate(1);
    return args->context ? NULL : pjrt_fail(HLO_RESOURCE_EXHAUSTED, "out of memory");
}

PjrtError *pjrt_execute_context_destroy(void *arguments) {
    PjrtExecuteContextArgs *args = arguments;
    hlo_free(args->context);
    return NULL;
}
