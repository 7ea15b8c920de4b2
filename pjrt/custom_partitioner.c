// SPDX-License-Identifier: Apache-2.0
// The extension CustomPartitioner: a framework registers functions that partition its custom calls, and the partitioner
// calls them while it works. JAX has one partitioner for all calls of custom_partitioning; the call's configuration
// determines whose functions it means.
//
// Structs: xla/pjrt/c/pjrt_c_api_custom_partitioner_extension.h. Arguments belong to us until the call returns; results
// belong to the framework until its cleanup function has run. Registrations are never removed: a program that is being
// compiled may be using them.
#include <pthread.h>
#include <string.h>

#include "hlo/ir/attributes.h"
#include "hlo/pass/pass.h"
#include "hlo/proto/proto.h"
#include "hlo/stablehlo/import/shardy.h"
#include "hlo/stablehlo/stablehlo.h"
#include "hlo/verify/verify.h"
#include "pjrt/extensions.h"
#include "pjrt/interpreter.h"
#include "pjrt/objects.h"

// ---- registrations

typedef struct Registration {
    char *target;
    PjrtPartitionerCallbacks *callbacks;
    struct Registration *next;
} Registration;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Registration *registrations;  // the newest first

static PjrtPartitionerCallbacks *find(const char *target) {
    PjrtPartitionerCallbacks *found = NULL;
    pthread_mutex_lock(&lock);
    for (const Registration *at = registrations; at && !found; at = at->next)
        if (strcmp(at->target, target) == 0) found = at->callbacks;
    pthread_mutex_unlock(&lock);
    return found;
}

// The name lives for the time of the call, the callbacks for good.
static PjrtError *register_partitioner(void *arguments) {
    const PjrtRegisterPartitionerArgs *args = arguments;
    if (!args->name || !args->callbacks) return pjrt_fail(HLO_INVALID_ARGUMENT, "custom partitioner without a name");
    Registration *made = hlo_allocate_zeroed(1, sizeof(*made));
    char *target = made ? hlo_allocate(args->name_size + 1) : NULL;
    if (!target) {
        hlo_free(made);
        return pjrt_fail(HLO_RESOURCE_EXHAUSTED, "out of memory");
    }
    memcpy(target, args->name, args->name_size);
    target[args->name_size] = '\0';
    made->target = target;
    made->callbacks = args->callbacks;
    pthread_mutex_lock(&lock);
    made->next = registrations;
    registrations = made;
    pthread_mutex_unlock(&lock);
    return NULL;
}

// A call that works on each row of a batch would be sharded along the batch; no call of that kind runs here.
static PjrtError *register_batch_partitionable(void *arguments) {
    (void)arguments;
    return NULL;
}

PjrtCustomPartitionerExtension pjrt_custom_partitioner_extension = {
    .node = {.struct_size = sizeof(PjrtCustomPartitionerExtension),
             .type = PJRT_EXTENSION_CUSTOM_PARTITIONER,
             .next = &pjrt_profiler_extension.node},
    .register_partitioner = register_partitioner,
    .register_batch_partitionable = register_batch_partitionable,
};

// ---- arguments and results of the callbacks

// Texts that a call takes, in the arena of the compilation.
static PjrtPartitionerString string_of(HloArena *arena, HloText *text) {
    const size_t size = text->length;
    return (PjrtPartitionerString){hlo_text_to_arena(arena, text), size};
}

static PjrtPartitionerString shape_bytes(HloArena *arena, const HloShape *shape) {
    HloText text = {0};
    hlo_shape_to_proto(shape, &text);
    return string_of(arena, &text);
}

static PjrtPartitionerString sharding_bytes(HloArena *arena, const HloSharding *sharding) {
    HloText text = {0};
    hlo_sharding_to_proto(sharding, &text);
    return string_of(arena, &text);
}

static PjrtPartitionerString configuration(const HloInstruction *call) {
    const char *text = call->backend_config ? call->backend_config : "";
    return (PjrtPartitionerString){text, strlen(text)};
}

static PjrtPartitionerArray *describe_operands(HloArena *arena, const HloInstruction *call,
                                               const HloSharding *const *shardings) {
    PjrtPartitionerArray *arrays = HLO_ARENA_NEW(arena, PjrtPartitionerArray, call->operand_count + 1);
    for (int32_t i = 0; i < call->operand_count; i++)
        arrays[i] = (PjrtPartitionerArray){.shape = shape_bytes(arena, call->operands[i]->shape),
                                           .has_sharding = true,
                                           .sharding = sharding_bytes(arena, shardings[i])};
    return arrays;
}

// The error of a call, placed at its instruction; its results are still to be cleaned up.
static HloStatus error_of(const PjrtPartitionerHeader *header, const HloInstruction *call, const char *function) {
    if (!header->has_error) return HLO_SUCCESS;
    HloStatus status = pjrt_status_of(header->code, header->error.data, header->error.size);
    return hlo_status_annotate(status, "%s of custom call \"%s\"", function, HLO_ATTRIBUTES(call, CustomCall)->target);
}

static void clean_up(PjrtPartitionerHeader *header) {
    if (header->cleanup) header->cleanup(header->data);
}

static HloStatus read_sharding(HloArena *arena, PjrtPartitionerString bytes, const HloSharding **sharding) {
    return hlo_sharding_from_proto(arena, bytes.data ? bytes.data : "", bytes.size, sharding);
}

static const char *target_of(const HloInstruction *call) {
    const char *target = HLO_ATTRIBUTES(call, CustomCall)->target;
    return target ? target : "";
}

// ---- the partitioner's questions

static bool knows(void *context, const HloInstruction *call) {
    (void)context;
    return find(target_of(call)) != NULL;
}

static HloStatus infer(void *context, HloArena *arena, const HloInstruction *call, const HloSharding *const *operands,
                       const HloSharding **result) {
    (void)context;
    PjrtPartitionerCallbacks *callbacks = find(target_of(call));
    PjrtPartitionerInferArgs args = {.operand_count = (size_t)call->operand_count,
                                     .operands = describe_operands(arena, call, operands),
                                     .result_shape = shape_bytes(arena, call->shape),
                                     .configuration = configuration(call)};
    callbacks->infer(callbacks, &args);
    HloStatus status = error_of(&args.header, call, "infer_sharding_from_operands");
    *result = NULL;
    if (!status && args.has_result_sharding) status = read_sharding(arena, args.result_sharding, result);
    clean_up(&args.header);
    return status;
}

// Calls the author's function for a sharding that a user of the results requests.
static HloStatus propagate_user_sharding(PjrtPartitionerCallbacks *callbacks, HloArena *arena,
                                         const HloInstruction *call, const HloSharding **result) {
    PjrtPartitionerUserArgs args = {.configuration = configuration(call),
                                    .result_shape = shape_bytes(arena, call->shape),
                                    .result_sharding = sharding_bytes(arena, *result)};
    callbacks->propagate_user_sharding(callbacks, &args);
    HloStatus status = error_of(&args.header, call, "propagate_user_sharding");
    if (!status) status = read_sharding(arena, args.result_sharding, result);
    clean_up(&args.header);
    return status;
}

// Bytes that only their writer can read go through the writer once more.
static HloStatus read_body(PjrtPartitionerString bytes, HloModule **body) {
    HloStatus status = hlo_module_from_stablehlo_bytecode(bytes.data, bytes.size, body);
    if (!status) return HLO_SUCCESS;
    HloText portable = {0};
    HloStatus converted = pjrt_interpreter_make_portable(bytes.data, bytes.size, &portable);
    if (hlo_status_code(converted) == HLO_FAILED_PRECONDITION) {
        hlo_status_free(converted);
        hlo_text_free(&portable);
        return status;
    }
    hlo_status_free(status);
    if (!converted) converted = hlo_module_from_stablehlo_bytecode(portable.data, portable.length, body);
    hlo_text_free(&portable);
    return converted;
}

// The partitioner copies the entry's instructions, so that calls are inlined first.
static HloStatus prepare_body(HloModule *body) {
    static const char *const passes[] = {"call-inliner", "dce"};
    HloPassOptions options = {.skip_verify = true};
    HLO_TRY(hlo_verify(body));
    return hlo_run_passes(body, passes, HLO_COUNT_OF(passes), &options);
}

static HloStatus take_partition(HloArena *arena, const HloInstruction *call, const PjrtPartitionerPartitionArgs *args,
                                const HloSharding **operands, const HloSharding **result, HloModule **body) {
    HLO_TRY(error_of(&args->header, call, "partition"));
    for (int32_t i = 0; i < call->operand_count; i++)
        HLO_TRY(read_sharding(arena, args->operand_shardings[i], &operands[i]));
    HLO_TRY(read_sharding(arena, args->result_sharding, result));
    HLO_TRY(read_body(args->program, body));
    HloStatus status = prepare_body(*body);
    if (status) hlo_module_free(*body);
    return status;
}

static HloStatus partition(void *context, HloArena *arena, const HloInstruction *call, const HloSharding **operands,
                           const HloSharding **result, HloModule **body) {
    (void)context;
    PjrtPartitionerCallbacks *callbacks = find(target_of(call));
    if (!hlo_instruction_frontend_attribute(call, HLO_SDY_SHARDING_RULE))
        HLO_TRY(propagate_user_sharding(callbacks, arena, call, result));
    PjrtPartitionerPartitionArgs args = {
        .operand_count = (size_t)call->operand_count,
        .operands = describe_operands(arena, call, operands),
        .result = {shape_bytes(arena, call->shape), true, sharding_bytes(arena, *result)},
        .configuration = configuration(call)};
    callbacks->partition(callbacks, &args);
    HloStatus status = take_partition(arena, call, &args, operands, result, body);
    clean_up(&args.header);
    return status;
}

// ---- for the compiler

bool pjrt_asks_partitioner(const HloModule *module) {
    for (int64_t c = 0; c < module->computations.count; c++) {
        for (const HloInstruction *at = module->computations.items[c]->first; at; at = at->next)
            if (hlo_is(at, HLO_OP_CUSTOM_CALL) && !at->called_count && find(target_of(at))) return true;
    }
    return false;
}

// Whether the program has a call of JAX's custom_partitioning.
static bool has_jax_call(const HloModule *module) {
    for (int64_t c = 0; c < module->computations.count; c++) {
        for (const HloInstruction *at = module->computations.items[c]->first; at; at = at->next)
            if (hlo_is(at, HLO_OP_CUSTOM_CALL) && !at->called_count &&
                strcmp(target_of(at), PJRT_JAX_PARTITIONING_CALL) == 0)
                return true;
    }
    return false;
}

HloStatus pjrt_find_partitioner(const HloModule *module, const SpmdCustomPartitioner **partitioner) {
    static const SpmdCustomPartitioner all = {.knows = knows, .infer = infer, .partition = partition};
    *partitioner = &all;
    if (!has_jax_call(module) || find(PJRT_JAX_PARTITIONING_CALL)) return HLO_SUCCESS;
    HloStatus status = pjrt_interpreter_register_partitioner(pjrt_api());
    if (!status) return HLO_SUCCESS;
    // Without Python the call is refused where it is met, by name.
    if (hlo_status_code(status) != HLO_FAILED_PRECONDITION)
        return hlo_status_annotate(status, "JAX's custom_partitioning does not register with this plugin");
    hlo_status_free(status);
    return HLO_SUCCESS;
}
