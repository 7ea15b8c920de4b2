// SPDX-License-Identifier: Apache-2.0
// Everything that is held across a call that may fail sits in a Job, so that one function frees it.
// A run from whole arrays to whole arrays: split the inputs as the boundary says, place the parts, compile and execute
// (or evaluate), and put the results together.
#include "tools/execute.h"

#include <assert.h>
#include <string.h>

#include "targets/program.h"
#include "tools/machine.h"

// The shape with one more dimension in front.
static const HloShape *with_device_axis(HloArena *arena, const HloShape *local, int64_t devices) {
    if (!hlo_shape_is_array(local)) return local;
    int64_t *dims = HLO_ARENA_NEW(arena, int64_t, local->rank + 1);
    dims[0] = devices;
    if (local->rank) memcpy(dims + 1, local->dims, (size_t)local->rank * sizeof *dims);
    return hlo_shape_array(arena, local->type, dims, local->rank + 1);
}

static const HloShape **list_shapes(CliContext *context, const SpmdBoundaryArray *arrays, int64_t count,
                                    bool per_device, int64_t devices) {
    const HloShape **shapes = HLO_ARENA_NEW(context->arena, const HloShape *, count);
    for (int64_t i = 0; i < count; ++i) {
        shapes[i] = per_device ? with_device_axis(context->arena, arrays[i].local, devices) : arrays[i].global;
    }
    return shapes;
}

// With `per_device` a user sees each array with one more dimension in front, the devices, instead of put together.
HloStatus cli_boundary_read(CliContext *context, const CliProgram *program, bool per_device, CliBoundary *boundary) {
    *boundary = (CliBoundary){0};
    HLO_TRY(spmd_boundary_new(program->per_device, &boundary->spmd));
    const SpmdBoundary *spmd = boundary->spmd;
    boundary->parameters =
        list_shapes(context, spmd->parameters, spmd->parameter_count, per_device, program->num_partitions);
    boundary->results = list_shapes(context, spmd->results, spmd->result_count, per_device, program->num_partitions);
    return HLO_SUCCESS;
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

// Splits one input into a literal for each device.
static HloStatus split_input(const CliExecution *execution, const SpmdBoundaryArray *array, const HloLiteral *input,
                             HloLiteral **shards) {
    int64_t devices = execution->program->num_partitions;
    if (!execution->per_device && hlo_shape_is_array(array->global)) {
        return spmd_shard_literal(input, array->sharding, devices, shards);
    }
    for (int64_t d = 0; d < devices; ++d) {
        shards[d] = execution->per_device ? take_device_row(input, array->local, d) : hlo_literal_copy(input);
        HLO_FAIL_IF(!shards[d], HLO_RESOURCE_EXHAUSTED, "out of memory for the inputs");
    }
    return HLO_SUCCESS;
}

// Puts the results of all devices together.
// Arrays of dynamic size are as large as the first device's: their dynamic dimensions are whole on every device.
static HloStatus join_result(const CliExecution *execution, const SpmdBoundaryArray *array, const HloShape *shape,
                             HloLiteral **shards, HloLiteral **result) {
    int64_t devices = execution->program->num_partitions;
    if (devices == 1 && hlo_shape_is_dynamic(array->local)) {  // of the size that it has turned out to be
        *result = hlo_literal_copy(shards[0]);
        HLO_FAIL_IF(!*result, HLO_RESOURCE_EXHAUSTED, "out of memory for the results");
        return HLO_SUCCESS;
    }
    const bool dynamic = hlo_shape_is_dynamic(array->local);
    HLO_FAIL_IF(dynamic && execution->per_device, HLO_UNIMPLEMENTED,
                "results of dynamic size have no place along an axis of devices");
    if (dynamic && hlo_shape_is_array(array->global)) {  // a dimension of dynamic size is whole on every device
        int64_t *dims = HLO_ARENA_NEW(execution->program->per_device->arena, int64_t, shape->rank);
        for (int32_t d = 0; d < shape->rank; ++d)
            dims[d] = array->global->dynamic[d] ? shards[0]->shape->dims[d] : array->global->dims[d];
        const HloShape *actual = hlo_shape_array(execution->program->per_device->arena, shape->type, dims, shape->rank);
        return spmd_unshard_literal((const HloLiteral *const *)shards, array->sharding, devices, actual, result);
    }
    if (!execution->per_device && hlo_shape_is_array(array->global)) {
        return spmd_unshard_literal((const HloLiteral *const *)shards, array->sharding, devices, array->global, result);
    }
    *result = hlo_literal_new(shape);
    HLO_FAIL_IF(!*result, HLO_RESOURCE_EXHAUSTED, "out of memory for the results");
    size_t bytes = (size_t)hlo_shape_bytes(array->local);
    for (int64_t d = 0; d < devices && bytes && execution->per_device; ++d) {
        memcpy((char *)(*result)->data + (size_t)d * bytes, shards[d]->data, bytes);
    }
    return HLO_SUCCESS;
}

// What one run of the compiled form holds.
typedef struct Job {
    CliContext *context;
    const CliExecution *execution;
    const CliBoundary *boundary;
    int64_t devices, argument_count, result_count;
    TargetClient *client;
    TargetExecutable *executable;
    TargetBuffer ***arguments;  // by device, then argument
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

// In the opposite order of making; accepts what was only half made.
static void job_free(Job *job) {
    drop_shards(job);
    release_table(job->arguments, job->devices, job->argument_count);
    release_table(job->results, job->devices, job->result_count);
    target_executable_release(job->executable);
    target_client_release(job->client);
}

// Times are of compiling only: making the client (finding the machine) is not the program's doing.
static HloStatus job_compile(Job *job, CliTimes *times) {
    const CliExecution *execution = job->execution;
    TargetCompileOptions options = {
        .partition_count = job->devices, .device_assignment = execution->assignment, .numerics = execution->numerics};
    HLO_TRY(target_client_new(execution->machine, &job->client));
    cli_progress(job->context, "compiling");
    double start = cli_seconds();
    job->context->stage = CLI_STAGE_RUN;  // the program is verified: what is refused now would go wrong while running
    HLO_TRY(target_compile(job->client, execution->program->per_device, &options, &job->executable));
    times->compile_seconds = cli_seconds() - start;
    return HLO_SUCCESS;
}

// One input at a time, so that host memory holds the parts of one array only.
static HloStatus job_place_argument(Job *job, int64_t index, const HloLiteral *input) {
    HLO_TRY(split_input(job->execution, &job->boundary->spmd->parameters[index], input, job->shards));
    for (int64_t d = 0; d < job->devices; ++d) {
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
    for (int64_t i = 0; i < times->count; ++i) {
        cli_progress(job->context, "running");
        release_table(job->results, job->devices, job->result_count);
        cli_feeds_rewind(job->execution->feeds);
        double start = cli_seconds();
        HLO_TRY(target_execute(job->executable, &options, (TargetBuffer *const *const *)job->arguments,
                               job->argument_count, (TargetBuffer * *const *)job->results, NULL));
        times->run_seconds[i] = cli_seconds() - start;
    }
    return HLO_SUCCESS;
}

// Waits for each result, device by device.
static HloStatus job_collect(Job *job, CliArrays *results) {
    for (int64_t i = 0; i < job->result_count; ++i) {
        const SpmdBoundaryArray *array = &job->boundary->spmd->results[i];
        for (int64_t d = 0; d < job->devices; ++d) {
            if (hlo_shape_is_array(array->local)) {
                HLO_TRY(target_buffer_to_literal(job->results[d][i], &job->shards[d]));
            } else {
                job->shards[d] = hlo_literal_new(array->local);
            }
        }
        HLO_TRY(join_result(job->execution, array, job->boundary->results[i], job->shards, &results->items[i]));
        drop_shards(job);
    }
    return HLO_SUCCESS;
}

static HloStatus job_do(Job *job, const CliArrays *inputs, CliArrays *results, CliTimes *times) {
    HLO_TRY(job_compile(job, times));
    HLO_FAIL_IF(target_executable_argument_count(job->executable) != job->argument_count ||
                    target_executable_result_count(job->executable) != job->result_count,
                HLO_INTERNAL, "the compiled program has another number of arguments than its module");
    for (int64_t i = 0; i < job->argument_count; ++i) HLO_TRY(job_place_argument(job, i, inputs->items[i]));
    HLO_TRY(job_run(job, times));
    return job_collect(job, results);
}

// By the engine.
static HloStatus execute_compiled(CliContext *context, const CliExecution *execution, const CliBoundary *boundary,
                                  const CliArrays *inputs, CliArrays *results, CliTimes *times) {
    Job job = {.context = context,
               .execution = execution,
               .boundary = boundary,
               .devices = execution->program->num_partitions,
               .argument_count = boundary->spmd->parameter_count,
               .result_count = boundary->spmd->result_count};
    job.shards = HLO_ARENA_NEW(context->arena, HloLiteral *, job.devices);
    job.arguments = new_table(context->arena, job.devices, job.argument_count);
    job.results = new_table(context->arena, job.devices, job.result_count);
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
    for (int64_t d = 0; d < execution->program->num_partitions; ++d) {
        // An array of dynamic size is as large as it is.
        shards[d] =
            cli_array_view(context->arena, input, hlo_shape_is_dynamic(array->local) ? input->shape : array->local);
    }
    return HLO_SUCCESS;
}

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
    cli_feeds_rewind(execution->feeds);
    context->stage = CLI_STAGE_RUN;
    for (int64_t i = 0; i < times->count; ++i) {
        cli_progress(context, "evaluating");
        for (int64_t d = 0; d < devices; ++d) {
            hlo_literal_free(evaluation->results[d]);
            evaluation->results[d] = NULL;
        }
        double start = cli_seconds();
        HLO_TRY(hlo_evaluate_partitioned(module, devices, arguments, hlo_parameter_count(module->entry), &options,
                                         evaluation->results));
        times->run_seconds[i] = cli_seconds() - start;
    }
    return HLO_SUCCESS;
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
    int64_t devices = execution->program->num_partitions;
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

HloStatus cli_execute(CliContext *context, const CliExecution *execution, const CliBoundary *boundary,
                      const CliArrays *inputs, CliArrays *results, CliTimes *times) {
    int64_t count = boundary->spmd->result_count;
    *results = (CliArrays){HLO_ARENA_NEW(context->arena, HloLiteral *, count), count};
    HloStatus status = execution->evaluate ? execute_evaluated(context, execution, boundary, inputs, results, times)
                                           : execute_compiled(context, execution, boundary, inputs, results, times);
    if (status) cli_arrays_free(results);
    return status;
}

// Device ids, one a partition, each once.
static HloStatus check_assignment(CliContext *context, const EmuTopology *topology, const CliProgram *program,
                                  const char *text, const int64_t **ids) {
    const int64_t wanted = program->num_partitions;
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
            return cli_usage_error(context, "--device-assignment: %lld is no device of %s, or is there twice",
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
    if (!emu_topology_is_tpu(topology)) return HLO_SUCCESS;
    HLO_TRY(cli_mesh_parse(context, cli_text(context, "mesh"), &mesh));
    int64_t *out = HLO_ARENA_NEW(context->arena, int64_t, program->num_partitions);
    *ids = out;
    return target_default_assignment(topology, program->original, mesh.axes, mesh.count, program->num_partitions, out);
}
