// SPDX-License-Identifier: Apache-2.0
// From the caller's bytes to an executable: read, compile, and describe the result. The steps in order: parse the
// caller's bytes, compile them to the program of one device (compile/pipeline.h), compile that for the slice, and
// record what the API's getters return. The caller's bytes are kept: a serialised executable is the program and its
// options, to be compiled again.
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hlo/proto/proto.h"
#include "hlo/stablehlo/stablehlo.h"
#include "pjrt/objects.h"
#include "pjrt/options.h"
#include "targets/spmd_machine.h"

// ---- reading

// Formats are named by strings without a NUL.
static bool format_is(const PjrtProgram *program, const char *format) {
    return program->format_size == strlen(format) && memcmp(program->format, format, program->format_size) == 0;
}

// StableHLO comes as bytecode or as text, both named mlir; the content distinguishes them.
static HloStatus read_program(const PjrtProgram *program, HloModule **module) {
    if (format_is(program, "mlir")) {
        if (hlo_looks_like_mlir_bytecode(program->code, program->code_size))
            return hlo_module_from_stablehlo_bytecode(program->code, program->code_size, module);
        return hlo_module_from_stablehlo_text(program->code, program->code_size, "program", module);
    }
    if (format_is(program, "hlo") || format_is(program, "hlo_with_config"))
        return hlo_module_from_proto(program->code, program->code_size, module);
    return hlo_error(HLO_UNIMPLEMENTED, "programs in the format \"%.*s\"; send mlir, hlo or hlo_with_config",
                     (int)program->format_size, program->format);
}

static HloBools copy_bools(HloArena *arena, HloBools from) {
    return (HloBools){hlo_arena_copy(arena, from.items, (size_t)from.count * sizeof(bool)), from.count};
}

// Applies the options that concern the whole program; the module's own counts come from its writer's mesh and may be
// outdated.
static void apply_options(HloModule *module, const PjrtCompileOptions *options) {
    module->replica_count = options->num_replicas;
    module->num_partitions = options->num_partitions;
    module->use_spmd_partitioning = options->num_partitions > 1;
    module->propagate_to_parameters = copy_bools(module->arena, options->propagate_to_parameters);
    module->propagate_to_output = copy_bools(module->arena, options->propagate_to_output);
    // The other fields of the writer's messages (shardings of parameters, say) describe the writer's program, not ours.
    module->proto_rest = module->config_rest = (HloBytes){0};
}

// ---- describing

static HloStatus keep_bytes(HloText *text, const void *data, size_t length) {
    hlo_text_append(text, data, length);
    return hlo_text_status(text);
}

// Allocates one entry more than requested, so that no list is at address zero.
static PjrtStrings new_strings(HloArena *arena, int64_t count) {
    return (PjrtStrings){HLO_ARENA_NEW(arena, const char *, count + 1), HLO_ARENA_NEW(arena, size_t, count + 1),
                         (size_t)count};
}

// The C API hands shardings over as OpSharding protobufs.
static HloStatus serialise_shardings(HloArena *arena, const SpmdBoundaryArray *arrays, int64_t count,
                                     PjrtStrings *strings) {
    assert(count >= 0 && strings);
    *strings = new_strings(arena, count);
    for (int64_t i = 0; i < count; i++) {
        HloText bytes = {0};
        hlo_sharding_to_proto(arrays[i].sharding, &bytes);
        strings->sizes[i] = bytes.length;
        strings->items[i] = hlo_text_to_arena(arena, &bytes);
    }
    return HLO_SUCCESS;
}

// The memory kinds of arguments or of results: names that live as long as the client of the executable.
static PjrtStrings memory_kinds(HloArena *arena, const TargetExecutable *target, bool results) {
    const TargetDevice *device = target_executable_device(target, 0);
    const int64_t count = results ? target_executable_result_count(target) : target_executable_argument_count(target);
    PjrtStrings strings = new_strings(arena, count);
    for (int64_t i = 0; i < count; i++) {
        const TargetMemoryKind kind =
            results ? target_executable_result_memory(target, i) : target_executable_argument_memory(target, i);
        strings.items[i] = target_device_memory(device, kind)->kind;
        strings.sizes[i] = strlen(strings.items[i]);
    }
    return strings;
}

// The C API hands out these arrays as they are, so they are made once and live as long as the executable.
static void describe_results(PjrtExecutable *executable) {
    const TargetExecutable *target = executable->executable;
    HloArena *arena = executable->arena;
    int64_t count = target_executable_result_count(target), total = 0;
    for (int64_t i = 0; i < count; i++) total += target_executable_result_shape(target, i)->rank;
    executable->result_count = (size_t)count;
    executable->result_types = HLO_ARENA_NEW(arena, int32_t, count + 1);
    executable->result_ranks = HLO_ARENA_NEW(arena, size_t, count + 1);
    executable->result_dims = HLO_ARENA_NEW(arena, int64_t, total + 1);
    for (int64_t i = 0, next = 0; i < count; i++) {
        const HloShape *shape = target_executable_result_shape(target, i);
        executable->result_types[i] = pjrt_type_from_hlo(shape->type);
        executable->result_ranks[i] = (size_t)shape->rank;
        for (int32_t j = 0; j < shape->rank; j++) executable->result_dims[next++] = shape->dims[j];
    }
}

// `name` must be static: the list outlives this call.
static PjrtNamedValue cost_value(const char *name, double amount) {
    PjrtNamedValue value = {.struct_size = sizeof(value),
                            .name = name,
                            .name_size = strlen(name),
                            .type = PJRT_VALUE_FLOAT,
                            .value_size = 1};
    value.value.real = (float)amount;
    return value;
}

// The costs of the program of one device.
static void describe_costs(PjrtExecutable *executable) {
    TargetCostAnalysis costs;
    target_executable_cost_analysis(executable->executable, &costs);
    executable->costs[0] = cost_value("flops", costs.flops);
    executable->costs[1] = cost_value("transcendentals", costs.transcendentals);
    executable->costs[2] = cost_value("bytes accessed", costs.bytes_accessed);
    executable->costs[3] = cost_value("collective bytes", costs.collective_bytes);
    executable->costs[4] = cost_value("collectives", (double)costs.collective_count);
}

// The layouts of the leaves of a shape, as text without the memory space: "{1,0:T(8,128)}".
static void print_layouts(HloArena *arena, const HloShape *shape, const char **items, size_t *sizes) {
    const int64_t leaves = hlo_shape_leaf_count(shape);
    for (int64_t i = 0; i < leaves; i++) {
        HloText text = {0};
        pjrt_layout_print(&text, hlo_shape_leaf(shape, i));
        sizes[i] = text.length;
        items[i] = hlo_text_to_arena(arena, &text);
    }
}

// Buffers carry a layout only where it is not the default one of their shape and memory, so that most carry none.
static HloStatus describe_layouts(PjrtExecutable *executable) {
    const HloModule *module = executable->module;
    const HloComputation *entry = module->entry;
    HloArena *arena = executable->arena;
    PjrtStrings *parameters = &executable->parameter_layouts, *results = &executable->result_layouts;
    *parameters = new_strings(arena, target_executable_argument_count(executable->executable));
    *results = new_strings(arena, target_executable_result_count(executable->executable));
    for (int64_t i = 0, next = 0; i < entry->parameters.count; i++) {
        const HloShape *shape = entry->parameters.items[i]->shape;
        if (module->entry_parameter_layouts) shape = module->entry_parameter_layouts[i];
        print_layouts(arena, shape, parameters->items + next, parameters->sizes + next);
        next += hlo_shape_leaf_count(shape);
    }
    const HloShape *result = module->entry_result_layout ? module->entry_result_layout : entry->root->shape;
    print_layouts(arena, result, results->items, results->sizes);
    executable->result_buffer_layouts = HLO_ARENA_NEW(arena, const char *, results->count + 1);
    for (size_t i = 0; i < results->count; i++) {
        const TargetExecutable *target = executable->executable;
        const TargetMemory *memory = target_device_memory(target_executable_device(target, 0),
                                                          target_executable_result_memory(target, (int64_t)i));
        const HloShape *shape = target_executable_result_shape(target, (int64_t)i);
        if (!pjrt_layout_is_default(memory, shape, results->items[i]))
            executable->result_buffer_layouts[i] = results->items[i];
    }
    return HLO_SUCCESS;
}

// What the API's getters answer with, made when the program is compiled: most getters only hand it out.
// Under hlo_protect(): arenas jump when memory is short.
static HloStatus describe(void *argument) {
    PjrtExecutable *executable = argument;
    HloArena *arena = executable->arena;
    if (executable->boundary) {
        const SpmdBoundary *boundary = executable->boundary;
        HLO_TRY(serialise_shardings(arena, boundary->parameters, boundary->parameter_count,
                                    &executable->parameter_shardings));
        HLO_TRY(serialise_shardings(arena, boundary->results, boundary->result_count, &executable->result_shardings));
    }
    describe_results(executable);
    describe_costs(executable);
    executable->parameter_memories = memory_kinds(arena, executable->executable, false);
    executable->result_memories = memory_kinds(arena, executable->executable, true);
    HLO_TRY(describe_layouts(executable));
    snprintf(executable->fingerprint, sizeof(executable->fingerprint), "%016llx",
             (unsigned long long)target_executable_fingerprint(executable->executable));
    return HLO_SUCCESS;
}

// ---- compiling

void pjrt_executable_release(PjrtExecutable *executable) {
    assert(executable);
    if (!executable || atomic_fetch_sub(&executable->references, 1) != 1) return;
    target_executable_release(executable->executable);
    compiled_module_free(executable->compiled);
    hlo_module_free(executable->whole);
    hlo_arena_free(executable->arena);
    hlo_free(executable->parameter_layout_list);
    hlo_free(executable->result_layout_list);
    hlo_text_free(&executable->program);
    hlo_text_free(&executable->options);
    hlo_text_free(&executable->optimised);
    pthread_mutex_destroy(&executable->lock);
    hlo_free(executable);
}

// Replaces the program that is kept for serialisation by that of one device: what authors of custom calls answered is
// part of it, and they cannot be asked again (their calls name objects of this process).
static HloStatus keep_partitioned(PjrtExecutable *executable) {
    hlo_text_free(&executable->program);
    executable->program = (HloText){0};
    executable->is_mlir = false;
    HLO_TRY(hlo_module_to_proto(executable->module, &executable->program));
    return hlo_text_status(&executable->program);
}

// Makes the program of one device. The boundary is needed only for several devices: otherwise JAX requests no
// shardings.
static HloStatus compile_whole(PjrtExecutable *executable, const PjrtCompileRequest *request,
                               const PjrtCompileOptions *parsed) {
    CompileOptions options = {
        .spmd = {.num_partitions = parsed->num_partitions,
                 .even_boundary = true,
                 .inspect = request->stored ? NULL : pjrt_inspect_sharding},
        .layouts = {.arguments = parsed->argument_shapes,
                    .argument_count = parsed->argument_shape_count,
                    .result = parsed->result_shape,
                    .open = executable->is_mlir,  // programs in HLO specify their layouts
                    .machine = target_machine_layout,
                    .context = target_client_device(request->client, 0)}};  // all devices of a machine are alike
    SpmdMachine machine;
    if (target_client_spmd_machine(request->client, &machine)) options.spmd.machine = &machine;
    bool asks = false;
    if (!request->stored && parsed->num_partitions > 1) {
        HLO_TRY(pjrt_find_partitioner(executable->whole, &options.spmd.custom_partitioner));
        asks = pjrt_asks_partitioner(executable->whole);
    }
    // The layouts of options are those of whole arrays; a program that was stored for one device has its own.
    if (spmd_is_partitioned(executable->whole)) options.layouts = (CompileLayouts){0};
    compile_dump_from_environment(executable->arena, &options.dump);
    options.dump.number = compile_dump_next_number();
    CompiledModule *compiled;
    HLO_TRY(compile_module(executable->whole, &options, &compiled));
    executable->compiled = compiled;
    executable->module = compiled->module;
    if (parsed->num_partitions > 1) executable->boundary = compiled->boundary;
    return asks ? keep_partitioned(executable) : HLO_SUCCESS;
}

// Everything made is stored in the executable, also on failure: the caller releases that.
static HloStatus build(PjrtExecutable *executable, const PjrtCompileRequest *request) {
    PjrtCompileOptions parsed;
    executable->is_mlir = format_is(request->program, "mlir");
    HLO_TRY(keep_bytes(&executable->program, request->program->code, request->program->code_size));
    HLO_TRY(keep_bytes(&executable->options, request->options, request->options_size));
    HLO_TRY(pjrt_options_parse(executable->arena, request->options, request->options_size, &parsed));
    executable->portable = parsed.portable && parsed.num_replicas * parsed.num_partitions == 1;
    HLO_TRY(read_program(request->program, &executable->whole));
    apply_options(executable->whole, &parsed);
    HLO_TRY(compile_whole(executable, request, &parsed));
    hlo_module_free(executable->whole);
    executable->whole = NULL;
    const bool named = parsed.assignment.count && !executable->portable;
    TargetCompileOptions compile = {.replica_count = parsed.num_replicas,
                                    .partition_count = parsed.num_partitions,
                                    .device_assignment = named ? parsed.assignment.items : NULL,
                                    .is_inspected = request->described,
                                    .keeps_module = true};
    // Read for each program, so that a test or a notebook may change it between compilations. Unset, it leaves the
    // choice to the client.
    HLO_TRY(target_numerics_from_environment(&compile.numerics));
    HLO_TRY(target_compile(request->client, executable->module, &compile, &executable->executable));
    return hlo_protect(describe, executable);
}

typedef struct BuildCall {
    PjrtExecutable *executable;
    const PjrtCompileRequest *request;
} BuildCall;

static HloStatus build_protected(void *argument) {
    const BuildCall *call = argument;
    return build(call->executable, call->request);
}

// Compiles a program (format "mlir" or "hlo"). On success the caller has one reference. May run on any thread;
// compilations do not share state. Failures at any depth come back as one status; what was made is in the executable by
// then and is freed with its reference.
static HloStatus compile_program(const PjrtCompileRequest *request, PjrtExecutable **result) {
    assert(request && result);
    PjrtExecutable *executable = hlo_allocate_zeroed(1, sizeof(*executable));
    HLO_FAIL_IF(!executable, HLO_RESOURCE_EXHAUSTED, "out of memory");
    atomic_init(&executable->references, 1);
    pthread_mutex_init(&executable->lock, NULL);
    executable->client = request->owner;
    executable->arena = hlo_arena_new();
    BuildCall call = {executable, request};
    HloStatus status =
        executable->arena ? hlo_protect(build_protected, &call) : hlo_error(HLO_RESOURCE_EXHAUSTED, "out of memory");
    if (status) {
        pjrt_executable_release(executable);
        return status;
    }
    *result = executable;
    return HLO_SUCCESS;
}

static void free_loaded(PjrtLoadedExecutable *loaded) {
    pjrt_executable_release(loaded->executable);
    hlo_free(loaded->devices);
    hlo_free(loaded->local_devices);
    hlo_free(loaded->logical_ids);
    hlo_free(loaded->local_places);
    hlo_text_free(&loaded->assignment);
    hlo_free(loaded);
}

// False when memory is short.
static bool print_assignment(PjrtLoadedExecutable *loaded, int64_t replicas, int64_t partitions) {
    int64_t *ids = hlo_allocate_zeroed(loaded->device_count, sizeof(*ids));
    if (!ids) return false;
    for (size_t i = 0; i < loaded->device_count; i++) ids[i] = loaded->devices[i]->device->id;
    pjrt_assignment_print(&loaded->assignment, ids, replicas, partitions);
    hlo_free(ids);
    return !loaded->assignment.failed;
}

// Makes a loaded executable; takes over the reference of `executable`, also on failure.
// Devices in the order of the assignment, and those of this process with their logical ids.
static HloStatus make_loaded(PjrtClient *client, PjrtExecutable *executable, PjrtLoadedExecutable **result) {
    assert(client && executable && result);
    PjrtLoadedExecutable *loaded = hlo_allocate_zeroed(1, sizeof(*loaded));
    if (!loaded) {
        pjrt_executable_release(executable);
        return hlo_error(HLO_RESOURCE_EXHAUSTED, "out of memory");
    }
    loaded->executable = executable;
    int64_t replicas = target_executable_replica_count(executable->executable);
    int64_t partitions = target_executable_partition_count(executable->executable);
    loaded->device_count = (size_t)(replicas * partitions);
    loaded->devices = hlo_allocate_zeroed(loaded->device_count, sizeof(*loaded->devices));
    loaded->local_devices = hlo_allocate_zeroed(loaded->device_count, sizeof(*loaded->local_devices));
    loaded->logical_ids = hlo_allocate_zeroed(loaded->device_count, sizeof(*loaded->logical_ids));
    loaded->local_places = hlo_allocate_zeroed(loaded->device_count, sizeof(*loaded->local_places));
    bool whole = loaded->devices && loaded->local_devices && loaded->logical_ids && loaded->local_places;
    for (size_t i = 0; whole && i < loaded->device_count; i++) {
        loaded->devices[i] = pjrt_device_of(client, target_executable_device(executable->executable, (int64_t)i));
        // A portable program runs on the device that its launch names, whichever it was compiled for.
        if (!executable->portable && !pjrt_is_local(loaded->devices[i])) continue;
        loaded->local_devices[loaded->local_count] = loaded->devices[i];
        loaded->local_places[loaded->local_count] = i;
        loaded->logical_ids[loaded->local_count++] =
            (PjrtLogicalId){(int32_t)((int64_t)i / partitions), (int32_t)((int64_t)i % partitions)};
    }
    if (!whole || (!executable->portable && !print_assignment(loaded, replicas, partitions))) {
        free_loaded(loaded);
        return hlo_error(HLO_RESOURCE_EXHAUSTED, "out of memory");
    }
    *result = loaded;
    return HLO_SUCCESS;
}

PjrtError *pjrt_loaded_executable_destroy(void *arguments) {
    PjrtLoadedExecutableDestroyArgs *args = arguments;
    if (args->object) free_loaded(args->object);
    return NULL;
}

// Compiles and loads in one, as jaxlib does.
PjrtError *pjrt_client_compile(void *arguments) {
    PjrtClientCompileArgs *args = arguments;
    PJRT_CHECK_SIZE(args, executable);
    PjrtExecutable *executable;
    const PjrtCompileRequest request = {.owner = args->client,
                                        .client = args->client->client,
                                        .program = args->program,
                                        .options = args->compile_options,
                                        .options_size = args->compile_options_size};
    PJRT_TRY(compile_program(&request, &executable));
    return pjrt_error_from(make_loaded(args->client, executable, &args->executable));
}

// Compiles ahead of time. A topology that was only described need not exist: its programs are inspected, never run. The
// topology of a client is that client's own, which may run what is compiled for it.
PjrtError *pjrt_compile(void *arguments) {
    PjrtCompileArgs *args = arguments;
    PJRT_CHECK_SIZE(args, executable);
    const PjrtCompileRequest request = {.client = args->topology->client,
                                        .program = args->program,
                                        .options = args->compile_options,
                                        .options_size = args->compile_options_size,
                                        .described = args->topology->owned};
    return pjrt_error_from(compile_program(&request, &args->executable));
}

// ---- serialised executables
// ------------------------------------------------------------------------------------------ The program and its
// options, to be compiled again: compiling takes milliseconds. Of programs that authors of custom calls partitioned it
// is the program of one device.

static const char serial_magic[8] = "MESHLO2";  // before the bytes of the program, those of the options, whether MLIR

static void free_serialised(void *object) {
    HloText *text = object;
    hlo_text_free(text);
    hlo_free(text);
}

// Format: the magic with its version, three u64 (length of the program, length of the options, 1 for MLIR), the
// program, the options. Little endian, as every host that runs this is. Compiled code is not in it: it would depend on
// the CPU.
PjrtError *pjrt_executable_serialize(void *arguments) {
    PjrtExecutableSerializeArgs *args = arguments;
    const PjrtExecutable *executable = args->executable;
    HloText *text = hlo_allocate_zeroed(1, sizeof(*text));
    if (!text) return pjrt_fail(HLO_RESOURCE_EXHAUSTED, "out of memory");
    uint64_t sizes[3] = {executable->program.length, executable->options.length, executable->is_mlir};
    hlo_text_append(text, serial_magic, sizeof(serial_magic));
    hlo_text_append(text, (const char *)sizes, sizeof(sizes));
    hlo_text_append(text, executable->program.data, executable->program.length);
    if (executable->options.length) hlo_text_append(text, executable->options.data, executable->options.length);
    if (text->failed) {
        free_serialised(text);
        return pjrt_fail(HLO_RESOURCE_EXHAUSTED, "out of memory");
    }
    args->serialized_bytes = text->data;
    args->serialized_bytes_size = text->length;
    args->serialized_executable = (void *)text;
    args->serialized_executable_deleter = free_serialised;
    return NULL;
}

// The bytes may come from anywhere: lengths are checked against each other before anything is read, and the program
// passes the verifier like any other.
PjrtError *pjrt_executable_deserialize_and_load(void *arguments) {
    PjrtExecutableDeserializeAndLoadArgs *args = arguments;
    const char *bytes = (const char *)args->serialized_executable;
    size_t size = args->serialized_executable_size, head = sizeof(serial_magic) + 3 * sizeof(uint64_t);
    uint64_t sizes[3];
    if (size < head || memcmp(bytes, serial_magic, sizeof(serial_magic)) != 0) {
        return pjrt_fail(HLO_INVALID_ARGUMENT, "not a Meshlo executable (wrong magic number)");
    }
    memcpy(sizes, bytes + sizeof(serial_magic), sizeof(sizes));
    if (sizes[0] > size - head || sizes[1] != size - head - sizes[0] || sizes[2] > 1) {
        return pjrt_fail(HLO_INVALID_ARGUMENT, "a serialised executable is cut short or damaged");
    }
    char *code = (char *)(uintptr_t)bytes + head;
    PjrtProgram program = {.struct_size = sizeof(program),
                           .code = code,
                           .code_size = sizes[0],
                           .format = sizes[2] ? "mlir" : "hlo",
                           .format_size = sizes[2] ? 4 : 3};
    const char *options = code + sizes[0];
    size_t options_size = sizes[1];
    if (PJRT_HAS(args, overridden_serialized_compile_options_size) && args->overridden_serialized_compile_options) {
        options = args->overridden_serialized_compile_options;
        options_size = args->overridden_serialized_compile_options_size;
    }
    PjrtExecutable *executable;
    const PjrtCompileRequest request = {.owner = args->client,
                                        .client = args->client->client,
                                        .program = &program,
                                        .options = options,
                                        .options_size = options_size,
                                        .stored = true};
    PJRT_TRY(compile_program(&request, &executable));
    return pjrt_error_from(make_loaded(args->client, executable, &args->loaded_executable));
}

// A program that was compiled for a topology, or by another client, has that one's devices: it is compiled again for
// those of this client, as it is if the caller sends other options.
PjrtError *pjrt_client_load(void *arguments) {
    PjrtClientLoadArgs *args = arguments;
    PJRT_CHECK_SIZE(args, loaded_executable);
    PjrtExecutable *executable = args->executable;
    const bool other_options = args->compile_options && args->compile_options_size;
    if (!other_options && target_executable_client(executable->executable) == args->client->client) {
        atomic_fetch_add(&executable->references, 1);
        return pjrt_error_from(make_loaded(args->client, executable, &args->loaded_executable));
    }
    PjrtProgram program = {.struct_size = sizeof(program),
                           .code = executable->program.data,
                           .code_size = executable->program.length,
                           .format = executable->is_mlir ? "mlir" : "hlo",
                           .format_size = executable->is_mlir ? 4 : 3};
    const PjrtCompileRequest request = {
        .owner = args->client,
        .client = args->client->client,
        .program = &program,
        .options = other_options ? args->compile_options : executable->options.data,
        .options_size = other_options ? args->compile_options_size : executable->options.length,
        .stored = true};  // the callbacks that it names were called when it was compiled
    PjrtExecutable *compiled;
    PJRT_TRY(compile_program(&request, &compiled));
    return pjrt_error_from(make_loaded(args->client, compiled, &args->loaded_executable));
}
