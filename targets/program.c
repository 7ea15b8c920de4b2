// SPDX-License-Identifier: Apache-2.0
// Whole arrays and the programs that run on them: partitioner and client combined. A program owns four things that
// depend on each other: the partitioned module, the report of the partitioning, the boundary (the global array of which
// each parameter and result of one device is a part) and the executable. An array is the other side of that boundary: a
// global shape, a sharding and one buffer per partition. Partitions are numbered as in the program; only the assignment
// maps them to devices.
#include "targets/program.h"

#include <assert.h>
#include <string.h>

#include "compile/pipeline.h"
#include "emulator/draw.h"
#include "emulator/simulate.h"
#include "hlo/analysis/aliases.h"
#include "spmd_partitioner/passes/passes.h"
#include "targets/internal.h"
#include "targets/spmd_machine.h"

// ---- arrays

struct TargetArray {
    _Atomic int64_t references;
    HloArena *arena;  // of shape and sharding
    const HloShape *shape;
    const HloSharding *sharding;
    TargetBuffer **shards;  // by partition
    int64_t count;
};

// Copies of shapes and shardings abort the call by a jump when memory runs out, so they are made under hlo_protect().
typedef struct ArrayFields {
    TargetArray *array;
    const SpmdBoundaryArray *like;
} ArrayFields;

static HloStatus copy_fields(void *argument) {
    ArrayFields *fields = argument;
    fields->array->shape = hlo_shape_copy(fields->array->arena, fields->like->global);
    fields->array->sharding = hlo_sharding_copy(fields->array->arena, fields->like->sharding);
    return HLO_SUCCESS;
}

// Creates an array without its parts. `like` gives shape and sharding, `count` the partitions. Parts come later, one by
// one; target_array_release() accepts missing ones.
static HloStatus new_array(const SpmdBoundaryArray *like, int64_t count, TargetArray **result) {
    assert(like && count > 0 && result);
    TargetArray *array = hlo_allocate_zeroed(1, sizeof *array);
    HLO_FAIL_IF(!array, HLO_RESOURCE_EXHAUSTED, "no memory for an array");
    array->references = 1;
    array->count = count;
    array->arena = hlo_arena_new();
    array->shards = hlo_allocate_zeroed((size_t)count, sizeof(TargetBuffer *));
    HloStatus status = array->arena && array->shards ? hlo_protect(copy_fields, &(ArrayFields){array, like})
                                                     : hlo_error(HLO_RESOURCE_EXHAUSTED, "no memory for an array");
    if (status)
        target_array_release(array);
    else
        *result = array;
    return status;
}

TargetArray *target_array_retain(TargetArray *array) {
    atomic_fetch_add(&array->references, 1);
    return array;
}

void target_array_release(TargetArray *array) {
    if (!array || atomic_fetch_sub(&array->references, 1) != 1) return;
    for (int64_t i = 0; array->shards && i < array->count; i++) target_buffer_release(array->shards[i]);
    hlo_free(array->shards);
    hlo_arena_free(array->arena);
    hlo_free(array);
}

const HloShape *target_array_shape(const TargetArray *array) {
    return array->shape;
}
const HloSharding *target_array_sharding(const TargetArray *array) {
    return array->sharding;
}
int64_t target_array_device_count(const TargetArray *array) {
    return array->count;
}
TargetBuffer *target_array_shard(const TargetArray *array, int64_t index) {
    return index >= 0 && index < array->count ? array->shards[index] : NULL;
}

// Copies every shard to the host, replicas included: spmd_unshard_literal() takes one of each and drops the padding of
// uneven parts.
HloStatus target_array_to_literal(const TargetArray *array, HloLiteral **literal) {
    assert(array && literal);
    HloLiteral **parts = hlo_allocate_zeroed((size_t)array->count, sizeof(HloLiteral *));
    HLO_FAIL_IF(!parts, HLO_RESOURCE_EXHAUSTED, "no memory for an array");
    HloStatus status = HLO_SUCCESS;
    for (int64_t i = 0; i < array->count && !status; i++)
        status = target_buffer_to_literal(array->shards[i], &parts[i]);
    if (!status)
        status = spmd_unshard_literal((const HloLiteral *const *)parts, array->sharding, array->count, array->shape,
                                      literal);
    for (int64_t i = 0; i < array->count; i++) hlo_literal_free(parts[i]);
    hlo_free(parts);
    return status;
}

// Draws the parts at the end of an unevenly divided dimension with the size of their array elements; the padding after
// them, which the buffers have too, is irrelevant to the reader.
HloStatus target_array_draw(const TargetArray *array, HloText *text) {
    assert(array && text);
    const HloShape *shape = array->shape;
    HLO_FAIL_IF(!hlo_shape_is_array(shape) || shape->rank < 1 || shape->rank > 2, HLO_INVALID_ARGUMENT,
                "only arrays of one or two dimensions can be drawn");
    EmuShard *parts = hlo_allocate_zeroed((size_t)array->count, sizeof *parts);
    HLO_FAIL_IF(!parts, HLO_RESOURCE_EXHAUSTED, "no memory for a drawing");
    HloStatus status = HLO_SUCCESS;
    for (int64_t d = 0; d < array->count && !status; d++) {
        EmuShard *part = &parts[d];
        part->device_id = target_buffer_device(array->shards[d])->id;
        status = spmd_shard_offsets(shape, array->sharding, d, part->start);
        for (int64_t i = 0; i < shape->rank; i++) {
            int64_t limit = part->start[i] + target_buffer_shape(array->shards[d])->dims[i];
            part->limit[i] = limit < shape->dims[i] ? limit : shape->dims[i];
        }
    }
    if (!status && array->count) {
        TargetClient *client = target_buffer_device(array->shards[0])->client;
        const char *label = strcmp(target_client_platform(client), "tpu") ? "CPU" : "TPU";
        status = emu_draw_sharding(label, shape->dims, shape->rank, parts, array->count, EMU_BOX_LINES, text);
    }
    hlo_free(parts);
    return status;
}

// ---- the partitions' devices

typedef struct MeshSizes {
    HloArena *arena;
    const HloModule *module;
    const SpmdMeshAxis *axes;
    int64_t count, partitions;
    const EmuTopology *topology;
    int64_t *ids;
} MeshSizes;

// Makes neighbours in the mesh of the program neighbours in the torus. The mesh is the caller's or, failing that, the
// one that the program's own shardings use; the last axis varies fastest, as in JAX's make_mesh().
static HloStatus assign_in_mesh_order(void *argument) {
    MeshSizes *mesh = argument;
    if (!mesh->count) HLO_TRY(spmd_module_mesh(mesh->arena, mesh->module, &mesh->axes, &mesh->count));
    int64_t *sizes = HLO_ARENA_NEW(mesh->arena, int64_t, mesh->count + 1);
    int64_t product = 1;
    for (int64_t i = 0; i < mesh->count; i++) product *= sizes[i] = mesh->axes[i].size;
    if (!mesh->count || product != mesh->partitions) {  // no usable mesh: all in a row
        sizes[0] = mesh->partitions;
        mesh->count = 1;
    }
    return emu_default_assignment(mesh->topology, sizes, mesh->count, mesh->ids);
}

// Host devices have no interconnect to optimise for; partitions keep list order.
HloStatus target_default_assignment(const EmuTopology *topology, const HloModule *module, const SpmdMeshAxis *mesh,
                                    int64_t mesh_axis_count, int64_t partition_count, int64_t *ids) {
    assert(module && partition_count > 0 && ids);
    HLO_FAIL_IF(partition_count > topology->device_count, HLO_INVALID_ARGUMENT,
                "the program needs %lld devices, %s has %lld", (long long)partition_count, topology->name,
                (long long)topology->device_count);
    if (!emu_topology_is_tpu(topology)) {
        for (int64_t i = 0; i < partition_count; i++) ids[i] = topology->devices[i].id;
        return HLO_SUCCESS;
    }
    HloArena *arena = hlo_arena_new();
    HLO_FAIL_IF(!arena, HLO_RESOURCE_EXHAUSTED, "no memory for a device assignment");
    MeshSizes sizes = {arena, module, mesh, mesh_axis_count, partition_count, topology, ids};
    HloStatus status = hlo_protect(assign_in_mesh_order, &sizes);
    hlo_arena_free(arena);
    return status;
}

// ---- programs

struct TargetProgram {
    CompiledModule *compiled;
    SpmdBoundary *boundary;  // the compiled module's
    int64_t *replaced;       // by result: the argument that it takes over, or -1
    TargetExecutable *executable;
    bool is_async;  // compiled with its collectives in halves
};

// Finds the mesh in the module before partitioning: afterwards it has no shardings to derive it from. One replica:
// fill_program() has rejected others. If the caller has no assignment, partitions are placed as in JAX.
static HloStatus compile(TargetClient *client, const HloModule *original, const TargetProgramOptions *options,
                         TargetProgram *program) {
    assert(original && program);
    int64_t count = program->boundary->num_partitions;
    int64_t *ids = hlo_allocate_zeroed((size_t)count, sizeof *ids);
    HLO_FAIL_IF(!ids, HLO_RESOURCE_EXHAUSTED, "no memory for a program");
    HloStatus status = HLO_SUCCESS;
    if (options->device_assignment)
        memcpy(ids, options->device_assignment, (size_t)count * sizeof *ids);
    else
        status = target_default_assignment(client->topology, original, options->spmd.mesh,
                                           options->spmd.mesh_axis_count, count, ids);
    TargetCompileOptions compile_options = {
        .partition_count = count, .device_assignment = ids, .numerics = options->numerics, .keeps_module = true};
    if (!status) status = target_compile(client, program->compiled->module, &compile_options, &program->executable);
    hlo_free(ids);
    return status;
}

// In the arena of the boundary.
static HloStatus find_replaced(void *argument) {
    TargetProgram *program = argument;
    const HloModule *module = program->compiled->module;
    program->replaced = HLO_ARENA_NEW(program->boundary->arena, int64_t, program->boundary->result_count + 1);
    hlo_alias_arguments(program->boundary->arena, module, &module->aliases, program->replaced);
    return HLO_SUCCESS;
}

static HloStatus fill_program(TargetClient *client, const HloModule *module, const TargetProgramOptions *options,
                              TargetProgram *program) {
    HLO_FAIL_IF(module->replica_count > 1, HLO_UNIMPLEMENTED,
                "a program of %lld replicas has one array per replica, not whole arrays: use target_compile()",
                (long long)module->replica_count);
    CompileOptions compile_options = {
        .spmd = options->spmd,
        .layouts = {.machine = target_machine_layout, .context = target_client_device(client, 0)}};
    SpmdMachine machine;
    if (!options->spmd.machine && target_client_spmd_machine(client, &machine)) compile_options.spmd.machine = &machine;
    HLO_TRY(compile_module(module, &compile_options, &program->compiled));
    program->boundary = program->compiled->boundary;
    program->is_async = options->spmd.async;
    HLO_TRY(hlo_protect(find_replaced, program));
    return compile(client, module, options, program);
}

HloStatus target_program_new(TargetClient *client, const HloModule *module, const TargetProgramOptions *options,
                             TargetProgram **result) {
    assert(client && module && result);
    static const TargetProgramOptions defaults;
    TargetProgram *program = hlo_allocate_zeroed(1, sizeof *program);
    HLO_FAIL_IF(!program, HLO_RESOURCE_EXHAUSTED, "no memory for a program");
    HloStatus status = fill_program(client, module, options ? options : &defaults, program);
    if (status)
        target_program_free(program);
    else
        *result = program;
    return status;
}

void target_program_free(TargetProgram *program) {
    if (!program) return;
    // Others may hold the executable, but the module ends here.
    if (program->executable) target_executable_forget_module(program->executable);
    target_executable_release(program->executable);
    compiled_module_free(program->compiled);
    hlo_free(program);
}

const HloModule *target_program_module(const TargetProgram *program) {
    return program->compiled->module;
}
const SpmdReport *target_program_report(const TargetProgram *program) {
    return program->compiled->report;
}
const SpmdBoundary *target_program_boundary(const TargetProgram *program) {
    return program->boundary;
}
TargetExecutable *target_program_executable(const TargetProgram *program) {
    return program->executable;
}

// Returns INVALID_ARGUMENT with the actual and the expected form of argument `index`.
static HloStatus wrong_argument(int64_t index, const HloShape *have, const HloSharding *have_sharding,
                                const SpmdBoundaryArray *want) {
    assert(index >= 0 && want);
    HloText text = {0};
    hlo_text_format(&text, "argument %lld is ", (long long)index);
    hlo_shape_print(&text, have, false);
    if (have_sharding) hlo_sharding_print(&text, have_sharding);
    hlo_text_string(&text, "; the program takes ");
    hlo_shape_print(&text, want->global, false);
    if (have_sharding) hlo_sharding_print(&text, want->sharding);
    HloStatus status = hlo_error(HLO_INVALID_ARGUMENT, "%s", text.data ? text.data : "an argument does not fit");
    hlo_text_free(&text);
    return status;
}

// Divides a whole array into one part for each device and copies each to that device's memory. Parts of equal content
// (replicas) are separate buffers nevertheless, as a program may take them over one by one.
static HloStatus place(const TargetProgram *program, int64_t index, const HloLiteral *literal, TargetArray **result) {
    const SpmdBoundary *boundary = program->boundary;
    const SpmdBoundaryArray *like = &boundary->parameters[index];
    if (!hlo_shape_equal(literal->shape, like->global, HLO_COMPARE_IGNORE_LAYOUT))
        return wrong_argument(index, literal->shape, NULL, like);
    int64_t count = boundary->num_partitions;
    HloLiteral **parts = hlo_allocate_zeroed((size_t)count, sizeof(HloLiteral *));
    HLO_FAIL_IF(!parts, HLO_RESOURCE_EXHAUSTED, "no memory for an argument");
    TargetArray *array = NULL;
    HloStatus status = new_array(like, count, &array);
    if (!status) status = spmd_shard_literal(literal, like->sharding, count, parts);
    for (int64_t d = 0; d < count && !status; d++) {
        TargetMemory *memory = target_device_default_memory(target_executable_device(program->executable, d));
        status = target_buffer_from_literal(parts[d], memory, &array->shards[d]);
    }
    for (int64_t d = 0; d < count; d++) hlo_literal_free(parts[d]);
    hlo_free(parts);
    if (status)
        target_array_release(array);
    else
        *result = array;
    return status;
}

HloStatus target_program_place(const TargetProgram *program, int64_t index, const HloLiteral *literal,
                               TargetArray **result) {
    assert(program && result);
    const SpmdBoundary *boundary = program->boundary;
    *result = NULL;
    HLO_FAIL_IF(index < 0 || index >= boundary->parameter_count, HLO_INVALID_ARGUMENT,
                "there is no argument %lld: the program has %lld arguments", (long long)index,
                (long long)boundary->parameter_count);
    if (literal) return place(program, index, literal, result);
    HloLiteral *zeros = hlo_literal_new(boundary->parameters[index].global);
    HLO_FAIL_IF(!zeros, HLO_RESOURCE_EXHAUSTED, "no memory for an argument");
    HloStatus status = place(program, index, zeros, result);
    hlo_literal_free(zeros);
    return status;
}

static HloStatus check_count(const TargetProgram *program, int64_t argument_count) {
    HLO_FAIL_IF(argument_count != program->boundary->parameter_count, HLO_INVALID_ARGUMENT,
                "%lld arguments; %s takes %lld", (long long)argument_count, target_executable_name(program->executable),
                (long long)program->boundary->parameter_count);
    return HLO_SUCCESS;
}

// Checks whether each device has the same elements under both shardings, however they are written. O(partitions):
// shardings may be written in many ways, so equal parts are recognised by their offsets, device by device.
static HloStatus check_parts(const SpmdBoundary *boundary, int64_t index, const TargetArray *array) {
    assert(index >= 0 && index < boundary->parameter_count && array);
    const SpmdBoundaryArray *want = &boundary->parameters[index];
    if (array->count != boundary->num_partitions ||
        !hlo_shape_equal(array->shape, want->global, HLO_COMPARE_IGNORE_LAYOUT))
        return wrong_argument(index, array->shape, array->sharding, want);
    if (hlo_sharding_equal(array->sharding, want->sharding)) return HLO_SUCCESS;
    enum { kMaximumRank = 64 };
    int64_t have_offsets[kMaximumRank], want_offsets[kMaximumRank];
    assert(want->global->rank <= kMaximumRank); /* no array has more dimensions */
    for (int64_t d = 0; d < array->count; d++) {
        HLO_TRY(spmd_shard_offsets(array->shape, array->sharding, d, have_offsets));
        HLO_TRY(spmd_shard_offsets(want->global, want->sharding, d, want_offsets));
        bool same = hlo_shape_equal(target_buffer_shape(array->shards[d]), want->local, HLO_COMPARE_IGNORE_LAYOUT) &&
                    !memcmp(have_offsets, want_offsets, (size_t)want->global->rank * sizeof *have_offsets);
        if (!same) return wrong_argument(index, array->shape, array->sharding, want);
    }
    return HLO_SUCCESS;
}

// The tables of one execution, by device: arguments, whose references stay with their arrays, and results.
typedef struct Run {
    TargetBuffer **buffers;
    TargetBuffer ***arguments, ***results;
} Run;

static HloStatus new_run(int64_t devices, int64_t arguments, int64_t results, Run *run) {
    assert(devices > 0 && arguments >= 0 && results >= 0);
    run->buffers = hlo_allocate_zeroed((size_t)devices * (size_t)(arguments + results) + 1, sizeof *run->buffers);
    run->arguments = hlo_allocate_zeroed((size_t)devices, sizeof *run->arguments);
    run->results = hlo_allocate_zeroed((size_t)devices, sizeof *run->results);
    HLO_FAIL_IF(!run->buffers || !run->arguments || !run->results, HLO_RESOURCE_EXHAUSTED, "no memory for a run");
    for (int64_t d = 0; d < devices; d++) {
        run->arguments[d] = run->buffers + d * (arguments + results);
        run->results[d] = run->arguments[d] + arguments;
    }
    return HLO_SUCCESS;
}

static void free_run(Run *run) {
    hlo_free(run->buffers);
    hlo_free(run->arguments);
    hlo_free(run->results);
}

// Takes over the results; references to the arguments stay with the arrays. Returns when the launch is in flight: the
// arrays' buffers report when they are ready. After an error `results` is still empty, and the caller releases the
// empty arrays.
static HloStatus execute(TargetProgram *program, TargetArray *const *arguments, TargetArray **results, Run *run) {
    const SpmdBoundary *boundary = program->boundary;
    int64_t devices = boundary->num_partitions;
    for (int64_t d = 0; d < devices; d++)
        for (int64_t i = 0; i < boundary->parameter_count; i++) run->arguments[d][i] = arguments[i]->shards[d];
    HLO_TRY(target_execute(program->executable, NULL, (TargetBuffer *const *const *)run->arguments,
                           boundary->parameter_count, (TargetBuffer * *const *)run->results, NULL));
    for (int64_t d = 0; d < devices; d++)
        for (int64_t i = 0; i < boundary->result_count; i++) results[i]->shards[d] = run->results[d][i];
    return HLO_SUCCESS;
}

// All arguments are checked before anything is created, and all results exist before anything is launched: a run either
// returns all of them or leaves none behind.
HloStatus target_program_run(TargetProgram *program, TargetArray *const *arguments, int64_t argument_count,
                             TargetArray **results) {
    assert(program && argument_count >= 0);
    const SpmdBoundary *boundary = program->boundary;
    HLO_TRY(check_count(program, argument_count));
    for (int64_t i = 0; i < argument_count; i++) HLO_TRY(check_parts(boundary, i, arguments[i]));
    Run run = {0};
    HloStatus status = new_run(boundary->num_partitions, boundary->parameter_count, boundary->result_count, &run);
    for (int64_t i = 0; i < boundary->result_count; i++) {
        results[i] = NULL;
        if (!status) status = new_array(&boundary->results[i], boundary->num_partitions, &results[i]);
    }
    if (!status) status = execute(program, arguments, results, &run);
    for (int64_t i = 0; i < boundary->result_count && status; i++) {
        target_array_release(results[i]);
        results[i] = NULL;
    }
    free_run(&run);
    return status;
}

HloStatus target_program_advance(TargetProgram *program, TargetArray **arguments, int64_t argument_count,
                                 TargetArray **results) {
    assert(program && argument_count >= 0);
    const int64_t count = program->boundary->result_count;
    TargetArray **all = hlo_allocate_zeroed((size_t)count + 1, sizeof *all);
    HLO_FAIL_IF(!all, HLO_RESOURCE_EXHAUSTED, "no memory for a run");
    HloStatus status = target_program_run(program, arguments, argument_count, all);
    for (int64_t i = 0, rest = 0; i < count && !status; i++) {
        const int64_t argument = program->replaced[i];
        if (argument < 0) {
            results[rest++] = all[i];
        } else {
            target_array_release(arguments[argument]);
            arguments[argument] = all[i];
        }
    }
    hlo_free(all);
    return status;
}

// Runs with the arrays of target_program_call(): arguments, then results.
static HloStatus call(TargetProgram *program, const HloLiteral *const *arguments, TargetArray **arrays,
                      HloLiteral **results) {
    const SpmdBoundary *boundary = program->boundary;
    int64_t count = boundary->parameter_count;
    for (int64_t i = 0; i < count; i++) HLO_TRY(target_program_place(program, i, arguments[i], &arrays[i]));
    HLO_TRY(target_program_run(program, arrays, count, arrays + count));
    for (int64_t i = 0; i < boundary->result_count; i++) {
        HloStatus status = target_array_to_literal(arrays[count + i], &results[i]);
        if (!status) continue;
        while (i--) {
            hlo_literal_free(results[i]);
            results[i] = NULL;  // a caller may free what it finds there
        }
        return status;
    }
    return HLO_SUCCESS;
}

HloStatus target_program_call(TargetProgram *program, const HloLiteral *const *arguments, int64_t argument_count,
                              HloLiteral **results) {
    assert(program && argument_count >= 0);
    const SpmdBoundary *boundary = program->boundary;
    HLO_TRY(check_count(program, argument_count));
    for (int64_t i = 0; i < boundary->result_count; i++) results[i] = NULL;
    int64_t count = argument_count + boundary->result_count;
    TargetArray **arrays = hlo_allocate_zeroed((size_t)count + 1, sizeof *arrays);
    HLO_FAIL_IF(!arrays, HLO_RESOURCE_EXHAUSTED, "no memory for a call");
    HloStatus status = call(program, arguments, arrays, results);
    for (int64_t i = 0; i < count; i++) target_array_release(arrays[i]);
    hlo_free(arrays);
    return status;
}

// ---- timing

// The devices of the program, as emu_simulate() takes them.
static HloStatus simulate(const TargetProgram *program, const HloModule *module, const EmuOptions *given,
                          EmuReport **report) {
    const int64_t count = program->boundary->num_partitions;
    int64_t *ids = hlo_allocate_zeroed((size_t)count, sizeof *ids);
    HLO_FAIL_IF(!ids, HLO_RESOURCE_EXHAUSTED, "no memory for an emulation");
    for (int64_t d = 0; d < count; d++) ids[d] = target_executable_device(program->executable, d)->id;
    EmuOptions options = given ? *given : (EmuOptions){0};
    options.device_assignment = ids;
    options.device_assignment_count = count;
    HloStatus status =
        emu_simulate(module, target_executable_device(program->executable, 0)->client->topology, &options, report);
    hlo_free(ids);
    return status;
}

// A copy of a program for its machine's timeline.
typedef struct Overlap {
    HloModule *copy;
    HloArena *scratch;
} Overlap;

static HloStatus split_collectives(void *argument) {
    const Overlap *overlap = argument;
    return spmd_make_async(overlap->copy, overlap->scratch);
}

// The program that runs here has its collectives in one piece; the machine's has them in halves where it can overlap
// them, unless the program was compiled elsewhere (compile/pipeline.c).
HloStatus target_program_emulate(const TargetProgram *program, const EmuOptions *options, EmuReport **report) {
    assert(program && report);
    const EmuTopology *topology = target_executable_device(program->executable, 0)->client->topology;
    HLO_FAIL_IF(!emu_topology_is_tpu(topology), HLO_UNIMPLEMENTED, "%s has no machine model", topology->name);
    const CompiledModule *compiled = program->compiled;
    const bool overlaps = emu_topology_overlaps(topology) && !compiled->was_per_device && !program->is_async;
    if (!overlaps) return simulate(program, compiled->module, options, report);
    Overlap overlap = {hlo_module_clone(compiled->module), hlo_arena_new()};
    HloStatus status = overlap.copy && overlap.scratch
                           ? hlo_protect(split_collectives, &overlap)
                           : hlo_error(HLO_RESOURCE_EXHAUSTED, "no memory for an emulation");
    if (!status) status = simulate(program, overlap.copy, options, report);
    hlo_arena_free(overlap.scratch);
    hlo_module_free(overlap.copy);
    return status;
}
