// SPDX-License-Identifier: Apache-2.0
// A run from whole arrays to whole arrays: split the inputs by the boundary, place the parts, compile and execute (or
// evaluate), and reassemble the results. Everything that lives across a call that may fail is in a Job, so that one
// function frees it.
#include "tools/execute.h"

#include <assert.h>
#include <string.h>

#include "targets/program.h"
#include "tools/machine.h"

// The shape with one more dimension in front.
// Tokens have no dimensions and stay as they are.
static const HloShape *with_device_axis(HloArena *arena, const HloShape *local, int64_t devices) {
    if (!hlo_shape_is_array(local)) return local;
    int64_t *dims = HLO_ARENA_NEW(arena, int64_t, local->rank + 1);
    dims[0] = devices;
    if (local->rank) memcpy(dims + 1, local->dims, (size_t)local->rank * sizeof *dims);
    return hlo_shape_array(arena, local->type, dims, local->rank + 1);
}

static const HloShape **list_shapes(CliContext *context, const SpmdBoundaryArray *arrays, int64_t count,
                                    bool per_device, const CliProgram *program) {
    const HloShape **shapes = HLO_ARENA_NEW(context->arena, const HloShape *, count);
    for (int64_t i = 0; i < count; ++i) {
        if (per_device) {
            shapes[i] = with_device_axis(context->arena, arrays[i].local, program->device_count);
        } else if (program->replica_count > 1) {
            shapes[i] = with_device_axis(context->arena, arrays[i].global, program->replica_count);
        } else {
            shapes[i] = arrays[i].global;
        }
    }
    return shapes;
}

// What every replica may get alike.
static const HloShape **list_shared_shapes(CliContext *context, const SpmdBoundary *spmd) {
    const HloShape **shapes = HLO_ARENA_NEW(context->arena, const HloShape *, spmd->parameter_count);
    for (int64_t i = 0; i < spmd->parameter_count; ++i) shapes[i] = spmd->parameters[i].global;
    return shapes;
}

// With `per_device` a user sees each array with one more dimension in front, the devices, instead of put together.
HloStatus cli_boundary_read(CliContext *context, const CliProgram *program, bool per_device, CliBoundary *boundary) {
    *boundary = (CliBoundary){0};
    HLO_TRY(spmd_boundary_new(program->per_device, &boundary->spmd));
    const SpmdBoundary *spmd = boundary->spmd;
    boundary->parameters = list_shapes(context, spmd->parameters, spmd->parameter_count, per_device, program);
    boundary->results = list_shapes(context, spmd->results, spmd->result_count, per_device, program);
    if (!per_device && program->replica_count > 1) boundary->shared = list_shared_shapes(context, spmd);
    return HLO_SUCCESS;
}

// The arrays as they are before a partitioner cuts them.
static const SpmdBoundaryArray *whole_arrays(HloArena *arena, const SpmdBoundaryArray *arrays, int64_t count) {
    SpmdBoundaryArray *whole = HLO_ARENA_NEW(arena, SpmdBoundaryArray, count);
    for (int64_t i = 0; i < count; ++i) {
        whole[i] = (SpmdBoundaryArray){arrays[i].global, arrays[i].global,
                                       hlo_sharding_simple(arena, HLO_SHARDING_REPLICATED)};
    }
    return whole;
}

CliBoundary cli_boundary_whole(CliContext *context, const CliBoundary *boundary) {
    CliBoundary whole = *boundary;
    whole.spmd = HLO_ARENA_NEW(context->arena, SpmdBoundary, 1);
    *whole.spmd = *boundary->spmd;
    whole.spmd->num_partitions = 1;
    whole.spmd->parameters = whole_arrays(context->arena, boundary->spmd->parameters, boundary->spmd->parameter_count);
    whole.spmd->results = whole_arrays(context->arena, boundary->spmd->results, boundary->spmd->result_count);
    return whole;
}

void cli_boundary_free(CliBoundary *boundary) {
    spmd_boundary_free(boundary->spmd);
    *boundary = (CliBoundary){0};
}

// The part of `input` that device number `device` gets, by leading axis.
static HloLiteral *take_device_row(const HloLiteral *input, const HloShape *local, int64_t device) {
    HloLiteral *row = hlo_literal_new(local);
    size_t bytes = (size_t)hlo_shape_bytes(local);
    if (row && bytes && row->data) memcpy(row->data, (const char *)input->data + (size_t)device * bytes, bytes);
    return row;
}

// What one replica gets of an input that has an axis of replicas in front, or is for all of them alike: a view.
static HloLiteral replica_part(const CliProgram *program, const SpmdBoundaryArray *array, const HloLiteral *input,
                               int64_t replica) {
    HloLiteral part = *input;
    if (program->replica_count == 1 || input->shape->rank == array->global->rank) return part;
    part.shape = array->global;
    if (part.data) part.data = (char *)part.data + (size_t)replica * (size_t)hlo_shape_bytes(array->global);
    return part;
}

// Splits one input into a literal for each device.
// Also after an error, `shards` holds the literals made so far: the caller frees them.
static HloStatus split_input(const CliExecution *execution, const SpmdBoundaryArray *array, const HloLiteral *input,
                             HloLiteral **shards) {
    const CliProgram *program = execution->program;
    const bool whole = !execution->per_device && hlo_shape_is_array(array->global);
    for (int64_t r = 0; r < program->replica_count && whole; ++r) {
        const HloLiteral part = replica_part(program, array, input, r);
        HLO_TRY(
            spmd_shard_literal(&part, array->sharding, program->num_partitions, shards + r * program->num_partitions));
    }
    for (int64_t d = 0; d < program->device_count && !whole; ++d) {
        shards[d] = execution->per_device ? take_device_row(input, array->local, d) : hlo_literal_copy(input);
        HLO_FAIL_IF(!shards[d], HLO_RESOURCE_EXHAUSTED, "out of memory for the inputs");
    }
    return HLO_SUCCESS;
}

// Reassembles an array of dynamic size: it is as large as the first device's, since its dynamic dimensions are whole on
// every device.
static HloStatus join_dynamic(const CliExecution *execution, const SpmdBoundaryArray *array, const HloShape *shape,
                              HloLiteral **shards, HloLiteral **result) {
    const CliProgram *program = execution->program;
    if (program->device_count == 1) {  // of the size that it has turned out to be
        *result = hlo_literal_copy(shards[0]);
        HLO_FAIL_IF(!*result, HLO_RESOURCE_EXHAUSTED, "out of memory for the results");
        return HLO_SUCCESS;
    }
    HLO_FAIL_IF(execution->per_device || program->replica_count > 1, HLO_UNIMPLEMENTED,
                "results of dynamic size cannot be stacked along an axis of %s",
                execution->per_device ? "devices" : "replicas");
    HloArena *arena = program->per_device->arena;
    int64_t *dims = HLO_ARENA_NEW(arena, int64_t, shape->rank);
    for (int32_t d = 0; d < shape->rank; ++d)
        dims[d] = array->global->dynamic[d] ? shards[0]->shape->dims[d] : array->global->dims[d];
    const HloShape *actual = hlo_shape_array(arena, shape->type, dims, shape->rank);
    return spmd_unshard_literal((const HloLiteral *const *)shards, array->sharding, program->num_partitions, actual,
                                result);
}

// Copies row number `index` of a result that has an axis in front.
static void put_row(HloLiteral *result, int64_t index, const HloLiteral *row) {
    const size_t bytes = (size_t)hlo_shape_bytes(row->shape);
    if (bytes && row->data) memcpy((char *)result->data + (size_t)index * bytes, row->data, bytes);
}

// Puts the parts of each replica together, and the replicas one after another.
static HloStatus join_replicas(const CliProgram *program, const SpmdBoundaryArray *array, HloLiteral **shards,
                               HloLiteral *result) {
    for (int64_t r = 0; r < program->replica_count; ++r) {
        HloLiteral *row;
        HLO_TRY(spmd_unshard_literal((const HloLiteral *const *)shards + r * program->num_partitions, array->sharding,
                                     program->num_partitions, array->global, &row));
        put_row(result, r, row);
        hlo_literal_free(row);
    }
    return HLO_SUCCESS;
}

// Puts the results of all devices together, in an array of this shape.
static HloStatus join_result(const CliExecution *execution, const SpmdBoundaryArray *array, const HloShape *shape,
                             HloLiteral **shards, HloLiteral **result) {
    const CliProgram *program = execution->program;
    const bool whole = !execution->per_device && hlo_shape_is_array(array->global);
    if (hlo_shape_is_array(array->global) && hlo_shape_is_dynamic(array->local))
        return join_dynamic(execution, array, shape, shards, result);
    if (whole && program->replica_count == 1) {
        return spmd_unshard_literal((const HloLiteral *const *)shards, array->sharding, program->num_partitions,
                                    array->global, result);
    }
    *result = hlo_literal_new(shape);
    HLO_FAIL_IF(!*result, HLO_RESOURCE_EXHAUSTED, "out of memory for the results");
    if (whole) return join_replicas(program, array, shards, *result);
    for (int64_t d = 0; d < program->device_count && execution->per_device; ++d) put_row(*result, d, shards[d]);
    return HLO_SUCCESS;
}

// What one run of the compiled form holds.
typedef struct Job {
    CliContext *context;
    const CliExecution *execution;
    const CliBoundary *boundary;
    int64_t devices, argument_count, result_count;
    TargetExecutable *executable;  // the execution's
    CliHosts hosts;                // the processes that run this job
    TargetBuffer ***arguments;     // by device, then argument
    TargetBuffer ***results;
    HloLiteral **shards;  // of the array that is being split or joined
} Job;

// All NULL, so that release_table() may come at any time.
static TargetBuffer ***new_table(HloArena *arena, int64_t rows, int64_t columns) {
    TargetBuffer ***table = HLO_ARENA_NEW(arena, TargetBuffer **, rows);
    for (int64_t i = 0; i < rows; ++i) table[i] = HLO_ARENA_NEW(arena, TargetBuffer *, columns);
    return table;
}

static void release_table(TargetBuffer ***table, int64_t rows, int64_t columns) {
    for (int64_t i = 0; table && i < rows; ++i) {
        for (int64_t j = 0; j < columns; ++j) {
            target_buffer_release(table[i][j]);
            table[i][j] = NULL;
        }
    }
}

static void drop_shards(Job *job) {
    for (int64_t i = 0; i < job->devices; ++i) {
        hlo_literal_free(job->shards[i]);
        job->shards[i] = NULL;
    }
}

// In the opposite order of making; accepts a half-made one.
static void job_free(Job *job) {
    drop_shards(job);
    release_table(job->arguments, job->devices, job->argument_count);
    release_table(job->results, job->devices, job->result_count);
}

// One input at a time, so that host memory holds the parts of one array only.
// Shapes of the executable are used and not those of the parts: a bounded dimension has its bound there.
static HloStatus job_place_argument(Job *job, int64_t index, const HloLiteral *input) {
    HLO_TRY(split_input(job->execution, &job->boundary->spmd->parameters[index], input, job->shards));
    for (int64_t d = 0; d < job->devices; ++d) {
        if (!target_device_is_local(target_executable_device(job->executable, d))) continue;
        TargetMemory *memory = target_device_default_memory(target_executable_device(job->executable, d));
        if (hlo_shape_is_array(job->shards[d]->shape)) {
            HLO_TRY(target_buffer_from_literal_bounded(job->shards[d],
                                                       target_executable_argument_shape(job->executable, index), memory,
                                                       &job->arguments[d][index]));
        } else {
            HLO_TRY(target_buffer_uninitialized(job->shards[d]->shape, memory, &job->arguments[d][index]));
        }
    }
    drop_shards(job);
    return HLO_SUCCESS;
}

// How many of the repeats are done.
typedef struct Repeats {
    CliContext *context;
    int64_t done, count;
} Repeats;

static void report_repeat(void *context, double share) {
    const Repeats *repeats = context;
    cli_ticker_report(repeats->context, ((double)repeats->done + share) / (double)repeats->count);
}

// Only the last repeat's results are kept; times are of the launch to its end, without reading results back.
static HloStatus job_run(Job *job, CliTimes *times) {
    int64_t *all = HLO_ARENA_NEW(job->context->arena, int64_t, job->argument_count);
    for (int64_t i = 0; i < job->argument_count; ++i) all[i] = i;
    // Arguments are used again by the next repeat, so none is donated.
    TargetExecuteOptions options = {
        .non_donatable = all, .non_donatable_count = job->argument_count, .synchronous = true};
    const TargetHostTransfers transfers = cli_feeds_transfers(job->execution->feeds);
    if (target_executable_transfer_count(job->executable) > 0) options.transfers = &transfers;
    times->count = job->execution->repeat;
    times->run_seconds = HLO_ARENA_NEW(job->context->arena, double, times->count);
    cli_ticker_start(job->context, "running");
    Repeats repeats = {job->context, 0, times->count};
    const TargetProgress progress = {report_repeat, &repeats};
    if (job->context->ticker.runs) options.progress = &progress;
    HloStatus status = HLO_SUCCESS;
    for (int64_t i = 0; i < times->count && !status; ++i) {
        repeats.done = i;
        release_table(job->results, job->devices, job->result_count);
        cli_feeds_rewind(job->execution->feeds);
        double start = cli_seconds();
        status = target_execute(job->executable, &options, (TargetBuffer *const *const *)job->arguments,
                                job->argument_count, (TargetBuffer * *const *)job->results, NULL);
        times->run_seconds[i] = cli_seconds() - start;
    }
    cli_ticker_stop(job->context);
    return status;
}

// The part of result `index` that a device has: waits for it, or gets it from the device's process.
static HloStatus job_take(Job *job, int64_t index, int64_t d) {
    const HloShape *local = job->boundary->spmd->results[index].local;
    const TargetDevice *device = target_executable_device(job->executable, d);
    if (!hlo_shape_is_array(local)) {  // an empty literal takes the position of a token
        job->shards[d] = hlo_literal_new(local);
        HLO_FAIL_IF(!job->shards[d], HLO_RESOURCE_EXHAUSTED, "out of memory for the results");
        return HLO_SUCCESS;
    }
    if (target_device_is_local(device)) HLO_TRY(target_buffer_to_literal(job->results[d][index], &job->shards[d]));
    return cli_hosts_bring(&job->hosts, device, local, job->context->arena, &job->shards[d]);
}

// Result by result and device by device, in all processes. Only process 0 has all parts.
static HloStatus job_collect(Job *job, CliArrays *results) {
    for (int64_t i = 0; i < job->result_count; ++i) {
        const SpmdBoundaryArray *array = &job->boundary->spmd->results[i];
        cli_progress_share(job->context, "collecting results", (double)i / (double)job->result_count);
        for (int64_t d = 0; d < job->devices; ++d) HLO_TRY(job_take(job, i, d));
        if (job->hosts.process_index == 0)
            HLO_TRY(join_result(job->execution, array, job->boundary->results[i], job->shards, &results->items[i]));
        drop_shards(job);
    }
    if (job->hosts.process_index > 0) results->count = 0;
    return HLO_SUCCESS;
}

// Notes whose outfeeds this process will not see.
static void mark_feeds(const Job *job) {
    CliFeeds *feeds = job->execution->feeds;
    if (!feeds || job->hosts.process_count == 1) return;
    feeds->elsewhere = HLO_ARENA_NEW(job->context->arena, bool, job->devices);
    for (int64_t d = 0; d < job->devices; ++d)
        feeds->elsewhere[d] = !target_device_is_local(target_executable_device(job->executable, d));
}

// Argument and result counts of the compiled program and of the boundary come from the same module: a difference is a
// bug.
static HloStatus job_do(Job *job, const CliArrays *inputs, CliArrays *results, CliTimes *times) {
    assert(target_executable_argument_count(job->executable) == job->argument_count &&
           target_executable_result_count(job->executable) == job->result_count);
    job->context->stage = CLI_STAGE_RUN;
    mark_feeds(job);
    for (int64_t i = 0; i < job->argument_count; ++i) {
        cli_progress_share(job->context, "placing arguments", (double)i / (double)job->argument_count);
        HLO_TRY(job_place_argument(job, i, inputs->items[i]));
    }
    HLO_TRY(job_run(job, times));
    return job_collect(job, results);
}

// Runs on the engine. `shards` has an entry for each device and is used for one array at a time.
static HloStatus execute_compiled(CliContext *context, const CliExecution *execution, const CliBoundary *boundary,
                                  const CliArrays *inputs, CliArrays *results, CliTimes *times) {
    Job job = {.context = context,
               .execution = execution,
               .boundary = boundary,
               .executable = execution->executable,
               .hosts = execution->hosts,
               .devices = execution->program->device_count,
               .argument_count = boundary->spmd->parameter_count,
               .result_count = boundary->spmd->result_count};
    job.shards = HLO_ARENA_NEW(context->arena, HloLiteral *, job.devices);
    job.arguments = new_table(context->arena, job.devices, job.argument_count);
    job.results = new_table(context->arena, job.devices, job.result_count);
    assert(job.executable); /* cli_execution_compile() was called */
    times->compile_seconds = execution->compile_seconds;
    HloStatus status = job_do(&job, inputs, results, times);
    job_free(&job);
    return status;
}

// The evaluator takes whole parameters, a list for each device.
typedef struct Evaluation {
    int64_t devices;
    CliArrays *leaves;     // by device: flattened
    HloLiteral **results;  // by device
    HloLiteral **shards;
} Evaluation;

// The evaluator only reads its arguments: what every device gets whole is there once.
static HloStatus share_input(CliContext *context, const CliExecution *execution, const SpmdBoundaryArray *array,
                             const HloLiteral *input, HloLiteral **shards) {
    if (execution->per_device || !hlo_shape_is_array(array->global) ||
        array->sharding->kind != HLO_SHARDING_REPLICATED) {
        return split_input(execution, array, input, shards);
    }
    for (int64_t d = 0; d < execution->program->device_count; ++d) {
        const HloLiteral part = replica_part(execution->program, array, input, d / execution->program->num_partitions);
        // An array of dynamic size is as large as it is.
        shards[d] =
            cli_array_view(context->arena, &part, hlo_shape_is_dynamic(array->local) ? part.shape : array->local);
    }
    return HLO_SUCCESS;
}

// All devices' parameters are in memory at the same time, since the evaluator runs all devices together; whole inputs
// are shared (share_input()), so this costs no more than the arrays.
static HloStatus evaluation_run(CliContext *context, const CliExecution *execution, const CliBoundary *boundary,
                                const CliArrays *inputs, Evaluation *evaluation, CliTimes *times) {
    const HloModule *module = execution->program->per_device;
    int64_t devices = evaluation->devices;
    for (int64_t i = 0; i < inputs->count; ++i) {
        const SpmdBoundaryArray *array = &boundary->spmd->parameters[i];
        HLO_TRY(share_input(context, execution, array, inputs->items[i], evaluation->shards));
        for (int64_t d = 0; d < devices; ++d) {
            evaluation->leaves[d].items[i] = evaluation->shards[d];
            evaluation->shards[d] = NULL;
        }
    }
    const HloLiteral *const **arguments = HLO_ARENA_NEW(context->arena, const HloLiteral *const *, devices);
    for (int64_t d = 0; d < devices; ++d) {
        CliArrays parameters = cli_arrays_to_parameters(context, module->entry, &evaluation->leaves[d]);
        arguments[d] = (const HloLiteral *const *)parameters.items;
    }
    const HloEvalHost host = cli_feeds_host(execution->feeds);
    HloEvalOptions options = {
        .numerics = execution->numerics == TARGET_NUMERICS_TPU ? HLO_NUMERICS_TPU : HLO_NUMERICS_EXACT, .host = &host};
    context->stage = CLI_STAGE_RUN;
    cli_ticker_start(context, "evaluating");
    HloStatus status = HLO_SUCCESS;
    for (int64_t i = 0; i < times->count && !status; ++i) {
        cli_ticker_report(context, (double)i / (double)times->count);
        cli_feeds_rewind(execution->feeds);
        for (int64_t d = 0; d < devices; ++d) {
            hlo_literal_free(evaluation->results[d]);
            evaluation->results[d] = NULL;
        }
        double start = cli_seconds();
        status = hlo_evaluate_partitioned(module, devices, arguments, hlo_parameter_count(module->entry), &options,
                                          evaluation->results);
        times->run_seconds[i] = cli_seconds() - start;
    }
    cli_ticker_stop(context);
    return status;
}

static HloStatus evaluation_join(CliContext *context, const CliExecution *execution, const CliBoundary *boundary,
                                 Evaluation *evaluation, CliArrays *results) {
    int64_t devices = evaluation->devices;
    for (int64_t d = 0; d < devices; ++d) {
        cli_arrays_free(&evaluation->leaves[d]);
        evaluation->leaves[d] = cli_arrays_from_result(context, evaluation->results[d]);
    }
    for (int64_t i = 0; i < results->count; ++i) {
        HloLiteral **row = HLO_ARENA_NEW(context->arena, HloLiteral *, devices);
        for (int64_t d = 0; d < devices; ++d) row[d] = evaluation->leaves[d].items[i];
        HLO_TRY(join_result(execution, &boundary->spmd->results[i], boundary->results[i], row, &results->items[i]));
    }
    return HLO_SUCCESS;
}

// By the reference evaluator, on the program of one device.
static HloStatus execute_evaluated(CliContext *context, const CliExecution *execution, const CliBoundary *boundary,
                                   const CliArrays *inputs, CliArrays *results, CliTimes *times) {
    int64_t devices = execution->program->device_count;
    Evaluation evaluation = {.devices = devices,
                             .leaves = HLO_ARENA_NEW(context->arena, CliArrays, devices),
                             .results = HLO_ARENA_NEW(context->arena, HloLiteral *, devices),
                             .shards = HLO_ARENA_NEW(context->arena, HloLiteral *, devices)};
    for (int64_t d = 0; d < devices; ++d) {
        evaluation.leaves[d] = (CliArrays){HLO_ARENA_NEW(context->arena, HloLiteral *, inputs->count), inputs->count};
    }
    times->count = execution->repeat;
    times->run_seconds = HLO_ARENA_NEW(context->arena, double, times->count);
    HloStatus status = evaluation_run(context, execution, boundary, inputs, &evaluation, times);
    if (!status) status = evaluation_join(context, execution, boundary, &evaluation, results);
    for (int64_t d = 0; d < devices; ++d) {
        cli_arrays_free(&evaluation.leaves[d]);
        hlo_literal_free(evaluation.results[d]);
        hlo_literal_free(evaluation.shards[d]);
    }
    return status;
}

// Times are of compiling only: making the client (finding the machine) is not the program's doing.
HloStatus cli_execution_compile(CliContext *context, CliExecution *execution) {
    bool exceeds_device = false;
    TargetCompileOptions options = {.replica_count = execution->program->replica_count,
                                    .partition_count = execution->program->num_partitions,
                                    .device_assignment = execution->assignment,
                                    .numerics = execution->numerics,
                                    .exceeds_device = &exceeds_device};
    if (execution->evaluate) return cli_hosts_refuse(context, "--engine eval");
    context->stage = CLI_STAGE_USAGE;  // the environment's settings
    HLO_TRY(cli_hosts_join(context, execution->machine, &execution->client, &execution->hosts));
    cli_ticker_start(context, "compiling");
    const double start = cli_seconds();
    context->stage = CLI_STAGE_RUN;
    const HloStatus status =
        target_compile(execution->client, execution->program->per_device, &options, &execution->executable);
    cli_ticker_stop(context);
    if (exceeds_device) context->stage = CLI_STAGE_COMPILE;  // a prediction; all else is this machine's lack
    HLO_TRY(status);
    execution->compile_seconds = cli_seconds() - start;
    return HLO_SUCCESS;
}

void cli_execution_free(CliExecution *execution) {
    target_executable_release(execution->executable);
    target_client_release(execution->client);
    execution->executable = NULL;
    execution->client = NULL;
}

HloStatus cli_execute(CliContext *context, const CliExecution *execution, const CliBoundary *boundary,
                      const CliArrays *inputs, CliArrays *results, CliTimes *times) {
    int64_t count = boundary->spmd->result_count;
    *results = (CliArrays){HLO_ARENA_NEW(context->arena, HloLiteral *, count), count};
    HloStatus status = execution->evaluate ? execute_evaluated(context, execution, boundary, inputs, results, times)
                                           : execute_compiled(context, execution, boundary, inputs, results, times);
    if (status) cli_arrays_free(results);
    return status;
}

// Checks a list of device ids: one for each partition of each replica, none twice. They are ids of the slice, not
// indices of its list. A map finds duplicates, so that a slice of thousands takes no quadratic time.
static HloStatus check_assignment(CliContext *context, const EmuTopology *topology, const CliProgram *program,
                                  const char *text, const int64_t **ids) {
    const int64_t wanted = program->device_count;
    int64_t *numbers = HLO_ARENA_NEW(context->arena, int64_t, wanted), count = *text != 0;
    assert(wanted > 0);
    for (const char *at = text; *at; ++at) count += *at == ',';
    if (count != wanted) {
        return cli_usage_error(context, "--device-assignment '%s' does not name %lld device%s, one for each partition",
                               text, (long long)wanted, wanted == 1 ? "" : "s");
    }
    HLO_TRY(cli_numbers_parse(context, "device-assignment", text, wanted, numbers, &count));
    HloIntMap seen = {0};
    for (int64_t i = 0; i < count; ++i) {
        if (emu_topology_find_device(topology, numbers[i]) < 0 || hlo_int_map_find(&seen, (uint64_t)numbers[i])) {
            return cli_usage_error(context, "--device-assignment: %lld is not a device of %s, or is listed twice",
                                   (long long)numbers[i], topology->name);
        }
        hlo_int_map_set(context->arena, &seen, (uint64_t)numbers[i], i);
    }
    *ids = numbers;
    return HLO_SUCCESS;
}

HloStatus cli_device_assignment(CliContext *context, const EmuTopology *topology, const CliProgram *program,
                                const int64_t **ids) {
    CliMesh mesh;
    *ids = NULL;
    const char *text = cli_text(context, "device-assignment");
    if (text) return check_assignment(context, topology, program, text, ids);
    if (!emu_topology_is_tpu(topology) || program->replica_count > 1) return HLO_SUCCESS;
    HLO_TRY(cli_mesh_parse(context, cli_text(context, "mesh"), &mesh));
    int64_t *out = HLO_ARENA_NEW(context->arena, int64_t, program->num_partitions);
    *ids = out;
    return target_default_assignment(topology, program->original, mesh.axes, mesh.count, program->num_partitions, out);
}
