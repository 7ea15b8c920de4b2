// SPDX-License-Identifier: Apache-2.0
// From a file to the program of one device: load, decide whether it is partitioned already, check that the machine has
// enough devices, partition. Options that contradict the program are usage errors (exit code 2), contradictory
// annotations errors of the program (3): cli_blame_options() determines which by trying without the options.
#include "tools/prepare.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "advice/trial.h"
#include "compile/xla_flags.h"
#include "hlo/base/nearest.h"
#include "tools/execute.h"
#include "tools/machine.h"

// More devices than any machine has that can be named.
static const int64_t kMostDevices = 1 << 20;

static const CliOption kPartitionOptions[] = {
    {"mesh", CLI_TEXT, "x=4,y=2",
     "The mesh, axes major first; the program's annotations are laid out on it by the names of their axes."},
    {"shard", CLI_LIST, "p0=x,-", "Shards a parameter (p0 or its name) or a result (r0): one item a dimension."},
    {"num-partitions", CLI_INTEGER, "N", "Number of devices, if neither the file nor the mesh gives it."},
};
const CliOptionTable cli_partition_options = CLI_TABLE(kPartitionOptions);

static const CliOption kCompileOptions[] = {
    {"device-assignment", CLI_TEXT, "0,1,…",
     "Device of each partition of each replica (default: make_mesh order of the program's mesh)."},
    {"partitioned", CLI_FLAG, NULL,
     "The file is already the program of one device (assumed for scheduled dumps of several devices)."},
    {"async", CLI_FLAG, NULL, "Split collectives into start and done, so that computation can overlap them."},
    {"propagate-boundary", CLI_FLAG, NULL,
     "Let propagation shard parameters and results without annotations also where XLA keeps them whole: in "
     "programs with HLO shardings whose header does not allow it."},
    {"dump-to", CLI_TEXT, "DIR", "Write the program before and after compiling to DIR, named as XLA names dumps."},
    {"dump-after", CLI_TEXT, "STAGE,…",
     "With --dump-to: also write it after these stages (verify, inline, simplify-before-partitioning, partition, "
     "expand, "
     "simplify, layouts, donation, offload, overlap), or all."},
    {"stage-times", CLI_FLAG, NULL,
     "Print how long each stage of compiling took, and its processor time, to standard error."},
};
const CliOptionTable cli_compile_options = CLI_TABLE(kCompileOptions);

static const CliOption kMachineOptions[] = {
    {"on", CLI_TEXT, "TOPOLOGY",
     "The machine: cpu, cpu:N or a slice like v5e-16; also --topology (default: MESHLO_TOPOLOGY, or cpu)."},
};
const CliOptionTable cli_machine_options = CLI_TABLE(kMachineOptions);

const char *cli_machine(CliContext *context) {
    const char *spec = cli_text_or(context, "on", getenv("MESHLO_TOPOLOGY"));
    if (spec && *spec && strcmp(spec, "cpu") != 0) return spec;
    const char *devices = compile_xla_flag(context->arena, "xla_force_host_platform_device_count");
    int64_t count = devices ? strtoll(devices, NULL, 10) : 0;
    return count > 0 && count <= kMostDevices ? hlo_arena_format(context->arena, "cpu:%lld", (long long)count) : NULL;
}

// True if some --shard uses the axis: it is a word of the option's value.
static bool shards_use(const HloStringVector *shards, const char *axis) {
    const size_t length = strlen(axis);
    for (int64_t i = 0; i < shards->count; ++i) {
        const char *spec = strrchr(shards->items[i], '=');
        for (const char *at = spec; at && (at = strstr(at + 1, axis));) {
            if (strchr(" =,(+\"'", at[-1]) && strchr(" ,)+:\"'", at[length])) return true;  // also at the end
        }
    }
    return false;
}

// Whether every --shard has the form of one, with axes of the mesh.
static bool are_specs(CliContext *context, const CliMesh *mesh, const HloStringVector *shards) {
    for (int64_t i = 0; i < shards->count; ++i) {
        const char *equals = strrchr(shards->items[i], '=');
        const HloSharding *sharding;
        if (!equals) return false;
        HloStatus status =
            spmd_spec_parse(context->arena, mesh->axes, mesh->count, equals + 1, (int64_t)strlen(equals), &sharding);
        hlo_status_free(status);
        if (status) return false;
    }
    return true;
}

// Whether a --shard names each array that the program reads; plans leave out what has no dimensions.
static bool names_all_parameters(CliContext *context, const HloModule *module, const HloStringVector *shards) {
    const HloArenaMark mark = hlo_arena_mark(context->arena);
    bool all = true;
    for (int64_t p = 0; p < module->entry->parameters.count && all; ++p) {
        const HloInstruction *parameter = module->entry->parameters.items[p];
        bool named = !parameter->users.count || (hlo_shape_is_array(parameter->shape) && parameter->shape->rank == 0);
        for (int64_t i = 0; i < shards->count && !named; ++i) {
            const size_t length = (size_t)(strrchr(shards->items[i], '=') - shards->items[i]);
            const char *pattern = hlo_arena_string(context->arena, shards->items[i], length);
            named = spmd_argument_matches(context->arena, pattern, parameter);
            hlo_arena_reset(context->arena, mark);
        }
        all = named;
    }
    return all;
}

// An axis that neither the program nor --shard names would change nothing but the number of devices: it is misspelt.
// Device lists have no names, and a program without annotations runs whole on every device of the mesh. Where --shard
// names all parameters, as plans do, an axis that it leaves out is meant.
HloStatus cli_mesh_check(CliContext *context, const HloModule *module, const CliMesh *mesh,
                         const HloStringVector *shards) {
    const SpmdMeshAxis *known;
    int64_t count;
    HloText list = {0};
    context->stage = CLI_STAGE_PROGRAM;
    HLO_TRY(spmd_named_axes(context->arena, module, &known, &count));
    context->stage = CLI_STAGE_USAGE;
    if (count == 0 && (shards->count == 0 || spmd_has_device_lists(module))) return HLO_SUCCESS;
    const char **names = HLO_ARENA_NEW(context->arena, const char *, count);
    for (int64_t i = 0; i < count; ++i) {
        names[i] = known[i].name;
        hlo_text_format(&list, "%s%s", i ? ", " : "", names[i]);
    }
    const char *all = hlo_text_to_arena(context->arena, &list);
    if (count == 0 && !are_specs(context, mesh, shards)) return HLO_SUCCESS;  // refused where the array is known
    if (count == 0 && names_all_parameters(context, module, shards)) return HLO_SUCCESS;
    for (int64_t a = 0; a < mesh->count; ++a) {
        const char *name = mesh->axes[a].name, *nearest = hlo_nearest_name(name, names, count);
        bool used = shards_use(shards, name);
        for (int64_t i = 0; i < count && !used; ++i) used = strcmp(names[i], name) == 0;
        if (used || (count == 0 && mesh->axes[a].size == 1)) continue;  // as JAX's meshes have them
        if (count == 0)
            return cli_usage_error(context, "--mesh %s: no --shard uses the axis '%s', and the program names none",
                                   spmd_mesh_text(context->arena, mesh->axes, mesh->count), name);
        return cli_usage_error(
            context, "--mesh %s: neither the program nor --shard uses the axis '%s'%s%s%s; the program's axes: %s",
            spmd_mesh_text(context->arena, mesh->axes, mesh->count), name, nearest ? " (did you mean '" : "",
            nearest ? nearest : "", nearest ? "'?)" : "", all);
    }
    return HLO_SUCCESS;
}

HloStatus cli_spmd_options(CliContext *context, const HloModule *module, SpmdOptions *options) {
    assert(module && options);
    CliMesh mesh;
    HloStringVector shards = cli_list(context, "shard");
    HLO_TRY(cli_mesh_parse(context, cli_text(context, "mesh"), &mesh));
    int64_t wanted = cli_integer(context, "num-partitions", 0);
    if (cli_flag(context, "num-partitions") && (wanted < 1 || (mesh.count && mesh.devices != wanted))) {
        return cli_usage_error(context, "--num-partitions %lld does not fit a mesh of %lld devices", (long long)wanted,
                               (long long)mesh.devices);
    }
    *options = (SpmdOptions){.num_partitions = wanted       ? wanted
                                               : mesh.count ? mesh.devices
                                                            : 0,
                             .mesh = mesh.axes,
                             .mesh_axis_count = mesh.count,
                             .shards = shards.items,
                             .shard_count = shards.count,
                             .propagate_boundary = cli_flag(context, "propagate-boundary")};
    if (options->num_partitions == 0 && module->num_partitions > 1) options->num_partitions = module->num_partitions;
    return mesh.count && !spmd_is_partitioned(module) ? cli_mesh_check(context, module, &mesh, &shards) : HLO_SUCCESS;
}

void cli_mesh_describe(CliContext *context, const HloModule *module, const CliMesh *mesh, const char **text,
                       const char **source) {
    HloStatus status = advice_mesh_describe(context->arena, module, mesh->axes, mesh->count, "--mesh", text, source);
    hlo_status_free(status);  // of memory alone, which the next allocation finds too
}

// Finds the mesh that the program is partitioned for, which has one axis where only a number of devices is known.
static void describe_mesh(CliContext *context, CliProgram *program, const SpmdOptions *options) {
    CliMesh mesh = {options->mesh, options->mesh_axis_count, program->num_partitions};
    const SpmdMeshAxis all = {"axis0", program->num_partitions};
    cli_mesh_describe(context, program->original, &mesh, &program->mesh, &program->mesh_source);
    if (*program->mesh || program->num_partitions <= 1) return;
    program->mesh = spmd_mesh_text(context->arena, &all, 1);
    program->mesh_source =
        cli_flag(context, "num-partitions") ? "--num-partitions" : "the program's number of partitions";
}

// How many devices the program runs on; a file may claim any number of replicas.
static HloStatus count_devices(CliProgram *program, int64_t num_partitions) {
    program->num_partitions = num_partitions > 0 ? num_partitions : 1;
    program->replica_count = program->original->replica_count > 0 ? program->original->replica_count : 1;
    HLO_FAIL_IF(program->num_partitions > kMostDevices / program->replica_count, HLO_INVALID_ARGUMENT,
                "%lld replicas of %lld partitions are more than %lld devices", (long long)program->replica_count,
                (long long)program->num_partitions, (long long)kMostDevices);
    program->device_count = program->replica_count * program->num_partitions;
    return HLO_SUCCESS;
}

// The machine that was named must have a device for each partition of each replica.
// Before partitioning, which may take long, and which compares plans by a slice. The topology is opened again when it
// is needed: parsing a name is cheap. The devices that are named for the partitions are checked here for every verb,
// also where they change nothing.
static HloStatus check_machine(CliContext *context, CliProgram *program) {
    const char *spec = cli_machine(context), *assignment = cli_text(context, "device-assignment");
    EmuTopology *topology = NULL;
    if (!spec && !assignment) return HLO_SUCCESS;
    if (!spec) spec = hlo_arena_format(context->arena, "cpu:%lld", (long long)program->device_count);
    HLO_TRY(cli_topology_open(context, spec, NULL, &topology));
    const int64_t devices = topology->device_count, *ids = NULL;
    HloStatus status = HLO_SUCCESS;
    if (assignment && devices >= program->device_count)
        status = cli_device_assignment(context, topology, program, &ids);
    if (target_spmd_machine(topology, &program->machine)) {
        program->topology = topology;
        program->machine.assignment = ids;
        program->machine.assignment_count = ids ? program->device_count : 0;
    } else {
        emu_topology_free(topology);
    }
    HLO_TRY(status);
    context->stage = CLI_STAGE_PROGRAM;
    if (devices >= program->device_count) return HLO_SUCCESS;
    return cli_usage_error(context, "the program needs %lld devices, %s has %lld", (long long)program->device_count,
                           spec, (long long)devices);
}

// The same refusal may concern the options or the program: propagating the program without the options shows which.
// This costs time only when there is an error.
HloStatus cli_blame_options(CliContext *context, const HloModule *module, HloStatus status) {
    static const SpmdOptions none = {0};
    HloModule *annotated = NULL;
    if (hlo_status_code(status) != HLO_INVALID_ARGUMENT) return status;
    HloStatus alone = spmd_propagate(module, &none, &annotated);
    if (!alone) context->stage = CLI_STAGE_USAGE;
    hlo_module_free(annotated);
    hlo_status_free(alone);
    return status;
}

// True for equal texts too.
static bool ends_with(const char *text, const char *end) {
    size_t length = strlen(text), tail = strlen(end);
    return length >= tail && !strcmp(text + length - tail, end);
}

// A partitioner's output has a schedule, which no compiler makes before it partitions, or an entry with the name that
// XLA gives to what it partitioned. A hand-written program may have the same traces: hence the note, and the flag that
// silences it.
bool cli_is_per_device(const HloModule *module, bool is_explicit) {
    if (spmd_is_partitioned(module)) return true;
    return !is_explicit && module->num_partitions > 1 &&
           (module->is_scheduled || ends_with(module->entry->name, "_spmd"));
}

// Rejects what the program of one device can no longer follow: another sharding, another number of devices. A mesh of
// the same number of devices still determines their positions.
static HloStatus check_partitioned(CliContext *context, const HloModule *module, const SpmdOptions *options) {
    assert(module->num_partitions > 0);
    if (options->shard_count) {
        return cli_usage_error(context, "--shard %s: the program is already that of one device", options->shards[0]);
    }
    if (options->num_partitions > 1 && options->num_partitions != module->num_partitions) {
        return cli_usage_error(context, "the program is already partitioned for %lld devices, not %lld",
                               (long long)module->num_partitions, (long long)options->num_partitions);
    }
    return HLO_SUCCESS;
}

// A dump that the command line requests must succeed; one that the environment requests is a by-product.
static HloStatus read_dump(CliContext *context, CompileDump *dump) {
    compile_dump_from_environment(context->arena, dump);
    const char *folder = cli_text(context, "dump-to"), *stages = cli_text(context, "dump-after");
    if (stages && !folder && !dump->folder)
        return cli_usage_error(context, "--dump-after needs --dump-to: without a folder nothing is dumped");
    if (folder) *dump = (CompileDump){.folder = folder, .must_succeed = true};
    if (stages) dump->stages = stages;
    HloStatus status = stages ? compile_dump_check(dump) : HLO_SUCCESS;
    if (status) context->stage = CLI_STAGE_USAGE;
    return status;
}

static void print_stage(CliContext *context, const char *name, int64_t nanoseconds, int64_t processor_nanoseconds) {
    hlo_text_format(&context->complaint, "stage %-28s %9.3f ms, %9.3f ms of processor time\n", name,
                    (double)nanoseconds * 1e-6, (double)processor_nanoseconds * 1e-6);
}

// One line a stage that had something to do, and their sum.
static void print_stages(CliContext *context, const CompiledModule *compiled) {
    int64_t sum = 0, processor_sum = 0;
    for (int stage = 0; stage < COMPILE_STAGE_COUNT; stage++) {
        if (!compiled->stage_nanoseconds[stage]) continue;
        sum += compiled->stage_nanoseconds[stage];
        processor_sum += compiled->processor_nanoseconds[stage];
        print_stage(context, compile_stage_name((CompileStage)stage), compiled->stage_nanoseconds[stage],
                    compiled->processor_nanoseconds[stage]);
    }
    print_stage(context, "(all)", sum, processor_sum);
}

// The program of one device, by the pipeline that all front ends share. The program was verified when it was read.
static HloStatus compile_program(CliContext *context, CliProgram *program, const SpmdOptions *spmd) {
    CompileOptions *options = &program->compile;
    *options = (CompileOptions){.spmd = *spmd, .is_per_device = program->was_partitioned, .is_verified = true};
    HLO_TRY(read_dump(context, &options->dump));
    if (program->topology) options->spmd.machine = &program->machine;
    const bool partitions = !program->was_partitioned && program->num_partitions > 1;
    cli_ticker_start(context, partitions ? "partitioning" : "compiling");
    HloStatus status = compile_module(program->original, options, &program->compiled);
    cli_ticker_stop(context);
    if (status && (cli_flag(context, "mesh") || cli_flag(context, "shard") || cli_flag(context, "num-partitions")))
        return cli_blame_options(context, program->original, status);
    HLO_TRY(status);
    program->per_device = program->compiled->module;
    program->report = program->compiled->report;
    program->report->mesh = program->mesh;
    program->report->mesh_source = program->mesh_source;
    if (program->compiled->dump_failure)
        hlo_text_format(&context->complaint, "warning: %s\n", hlo_status_message(program->compiled->dump_failure));
    if (cli_flag(context, "stage-times")) print_stages(context, program->compiled);
    return HLO_SUCCESS;
}

// Loads the program, determines the number of partitions and the machine, and partitions. A program of one device is
// taken as it is: one that `partition` has marked, one declared by --partitioned, or one that looks like a dump of
// XLA's, which is noted.
HloStatus cli_program_prepare(CliContext *context, CliProgram *program) {
    assert(program);
    SpmdOptions options;
    HLO_TRY(cli_program_load(context, context->arguments.items[0], &program->original));
    HLO_TRY(cli_spmd_options(context, program->original, &options));
    context->stage = CLI_STAGE_PROGRAM;
    const bool is_explicit =
        cli_flag(context, "mesh") || cli_flag(context, "shard") || cli_flag(context, "num-partitions");
    const bool is_marked = cli_flag(context, "partitioned") || spmd_is_partitioned(program->original);
    program->was_partitioned = is_marked || cli_is_per_device(program->original, is_explicit);
    // What another compiler has left whole stays whole unless the user asks.
    options.async = cli_flag(context, "async") || (program->overlap && !program->was_partitioned);
    if (program->was_partitioned && !is_marked) {
        hlo_text_format(
            &context->complaint,
            "note: assumed to be the program of one of its %lld devices: %s (--partitioned suppresses this note, "
            "--mesh or --num-partitions partition it)\n",
            (long long)program->original->num_partitions,
            program->original->is_scheduled ? "it is scheduled" : "its entry has the name of a partitioned program");
    }
    if (program->was_partitioned) HLO_TRY(check_partitioned(context, program->original, &options));
    HLO_TRY(count_devices(program, options.num_partitions));
    HLO_TRY(check_machine(context, program));
    if (!options.num_partitions && !options.mesh_axis_count && !program->was_partitioned) {
        HLO_TRY(spmd_device_count(program->original, &options, &program->num_partitions));
        HLO_TRY(count_devices(program, program->num_partitions));
    }
    describe_mesh(context, program, &options);
    HLO_TRY(compile_program(context, program, &options));
    return count_devices(program, program->per_device->num_partitions);
}

void cli_program_free(CliProgram *program) {
    compiled_module_free(program->compiled);
    hlo_module_free(program->original);
    emu_topology_free(program->topology);
    *program = (CliProgram){0};
}
