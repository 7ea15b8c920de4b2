// SPDX-License-Identifier: Apache-2.0
// The interpreter: prepares computations, steps through them, and provides the public entry points.
//
// A computation is prepared once (HloEvalPlan): its live instructions in order, operands by slot number, and for each
// operand whether this is its last use. Values then move out of their slots at their last use, so that a handler that
// gets the only reference may write its result into the operand's memory. So a loop that updates one row of a large
// array in each iteration takes linear time.
//
// Calls nest by recursion, bounded by HLO_EVAL_MAX_DEPTH. Every device has its own stack, scratch arena and list of
// values, and shares plans and constants with the others.
#include <assert.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "hlo/analysis/calls.h"
#include "hlo/eval/internal.h"
#include "hlo/ir/custom_call.h"

// One column of ops.def: an op without an evaluator does not link.
static HloEvalFunction *const handlers[] = {
#define HLO_OP(name, text, arity, flags, family, kinds, shape, eval, partition, cost, jvp, transpose, batching) \
    hlo_eval_##eval,
#include "hlo/ops.def"
#undef HLO_OP
};

// Opcodes index the table.
HloEvalFunction *hlo_eval_handler(HloOpcode opcode) {
    return handlers[opcode];
}

HloStatus hlo_eval_unsupported(const HloInstruction *instruction, const char *what) {
    return hlo_error(HLO_UNIMPLEMENTED, "%%%s (%s): %s cannot be evaluated", instruction->name,
                     hlo_op_text(instruction->opcode), what);
}

// ---- preparation

typedef struct Planner {
    HloEvalWorld *world;
    int32_t *slots;  // by instruction id; -1 for dead instructions
    int64_t depth;
} Planner;

// Dead code is legal in HLO and may even be impossible to evaluate; only the root, instructions with effects, and their
// operands are needed.
static void mark_live(const HloComputation *computation, HloInstruction *const *order, int64_t count, int32_t *slots) {
    for (int64_t i = 0; i < count; i++) {
        bool needed = order[i] == computation->root || hlo_instruction_has_side_effect(order[i]);
        slots[order[i]->id] = needed ? 0 : -1;
    }
    for (int64_t i = count - 1; i >= 0; i--) {
        if (slots[order[i]->id] < 0) continue;
        for (int32_t k = 0; k < order[i]->operand_count; k++) slots[order[i]->operands[k]->id] = 0;
    }
}

// Lets a tuple whose only users are get-tuple-elements give each element away at the last one with its index. Loops
// carry their state in such tuples: if elements were shared instead of moved, every in-place update would copy its
// array, and a loop over rows would take quadratic time.
static void mark_moves(Planner *planner, HloEvalPlan *plan, const HloInstruction *tuple) {
    const HloInstructionVector *users = &tuple->users;
    if (tuple->shape->type != HLO_TUPLE || tuple == tuple->parent->root) return;
    for (int64_t i = 0; i < users->count; i++) {
        if (!hlo_is(users->items[i], HLO_OP_GET_TUPLE_ELEMENT)) return;
    }
    HloArena *arena = planner->world->arena;
    HloArenaMark mark = hlo_arena_mark(arena);
    int32_t *last = HLO_ARENA_NEW(arena, int32_t, tuple->shape->element_count);
    for (int64_t i = 0; i < users->count; i++) {
        int32_t slot = planner->slots[users->items[i]->id];
        int64_t index = HLO_ATTRIBUTES(users->items[i], TupleIndex)->index;
        if (slot >= last[index]) last[index] = slot;
    }
    for (int64_t i = 0; i < users->count; i++) {
        int32_t slot = planner->slots[users->items[i]->id];
        if (slot >= 0)
            plan->steps[slot].moves_element = last[HLO_ATTRIBUTES(users->items[i], TupleIndex)->index] == slot;
    }
    hlo_arena_reset(arena, mark);
}

// Walks from the end to the beginning: the first use seen is the last one. The step may then take the value over, and
// an op that has the only reference to its operand writes its result into the operand's memory.
static void mark_last_uses(HloArena *arena, HloEvalPlan *plan) {
    HloArenaMark mark = hlo_arena_mark(arena);
    bool *used = HLO_ARENA_NEW(arena, bool, plan->count);
    used[plan->root_slot] = true;
    for (int32_t s = plan->count - 1; s >= 0; s--) {
        HloEvalStep *step = &plan->steps[s];
        bool *last_use = (bool *)step->last_use;
        for (int32_t k = step->instruction->operand_count - 1; k >= 0; k--) {
            last_use[k] = !used[step->operand_slots[k]];
            used[step->operand_slots[k]] = true;
        }
        step->has_uses = used[s];
    }
    hlo_arena_reset(arena, mark);
}

// Makes a computation into a list of steps with numbered slots, once for many runs: the body of a loop must not look up
// names in each iteration.
static HloEvalPlan *make_plan(Planner *planner, const HloComputation *computation) {
    assert(computation->root);
    HloArena *arena = planner->world->arena;
    int64_t count;
    HloInstruction **order = hlo_computation_post_order(computation, arena, &count);
    mark_live(computation, order, count, planner->slots);
    HloEvalPlan *plan = HLO_ARENA_NEW(arena, HloEvalPlan, 1);
    plan->steps = HLO_ARENA_NEW(arena, HloEvalStep, count);
    for (int64_t i = 0; i < count; i++) {
        const HloInstruction *instruction = order[i];
        if (planner->slots[instruction->id] < 0) continue;
        int32_t operand_count = instruction->operand_count;
        int32_t *operand_slots = HLO_ARENA_NEW(arena, int32_t, operand_count);
        for (int32_t k = 0; k < operand_count; k++) operand_slots[k] = planner->slots[instruction->operands[k]->id];
        planner->slots[instruction->id] = plan->count;
        plan->steps[plan->count++] = (HloEvalStep){.instruction = instruction,
                                                   .operand_slots = operand_slots,
                                                   .last_use = HLO_ARENA_NEW(arena, bool, operand_count)};
    }
    plan->root_slot = planner->slots[computation->root->id];
    int32_t *parameter_slots = HLO_ARENA_NEW(arena, int32_t, computation->parameters.count);
    for (int64_t p = 0; p < computation->parameters.count; p++) {
        const HloInstruction *parameter = computation->parameters.items[p];
        parameter_slots[p] = parameter ? planner->slots[parameter->id] : -1;
    }
    plan->parameter_slots = parameter_slots;
    mark_last_uses(arena, plan);
    for (int32_t s = 0; s < plan->count; s++) mark_moves(planner, plan, plan->steps[s].instruction);
    return plan;
}

// Also determines whether the program has manual regions. Even an unpartitioned program with them runs on all devices
// at the same time, since the code inside is written for one device of several.
static HloStatus plan_computation(Planner *planner, const HloComputation *computation) {
    HloEvalWorld *world = planner->world;
    if (world->plans[computation->id]) return HLO_SUCCESS;
    HLO_FAIL_IF(!computation->root, HLO_INVALID_ARGUMENT, "computation %%%s has no root", computation->name);
    HLO_FAIL_IF(planner->depth >= HLO_EVAL_MAX_DEPTH, HLO_UNIMPLEMENTED,
                "calls nest more than %d levels deep at computation %%%s", HLO_EVAL_MAX_DEPTH, computation->name);
    world->plans[computation->id] = make_plan(planner, computation);
    const HloEvalPlan *plan = world->plans[computation->id];
    for (int32_t p = 0; p < plan->count; p++) HLO_TRY(hlo_eval_check_types(plan->steps[p].instruction));
    planner->depth++;
    for (const HloInstruction *i = computation->first; i; i = i->next) {
        world->manual_regions |= hlo_custom_call_is_region_boundary(i);
        for (int32_t c = 0; c < i->called_count; c++) HLO_TRY(plan_computation(planner, i->called[c]));
    }
    planner->depth--;
    return HLO_SUCCESS;
}

// ---- running

bool hlo_eval_forwards_operands(HloOpcode opcode) {
    switch (opcode) {
        case HLO_OP_TUPLE:
        case HLO_OP_GET_TUPLE_ELEMENT:
        case HLO_OP_CALL:
        case HLO_OP_FUSION:
        case HLO_OP_WHILE:
        case HLO_OP_CONDITIONAL:
        case HLO_OP_ASYNC_START:
        case HLO_OP_ASYNC_UPDATE:
        case HLO_OP_ASYNC_DONE:
        case HLO_OP_COPY:
        case HLO_OP_COPY_START:
        case HLO_OP_COPY_DONE:
        case HLO_OP_ADD_DEPENDENCY:
        case HLO_OP_DOMAIN:
        case HLO_OP_OPTIMIZATION_BARRIER: return true;
        default: return false;
    }
}

// Whether an array, or any array of a tuple, contains a NaN. Arrays of dynamic size are not examined: the elements
// beyond their sizes may have any value.
static bool has_nan(const HloEvalValue *value) {
    for (int32_t i = 0; value->elements && i < value->shape->element_count; i++) {
        if (has_nan(value->elements[i])) return true;
    }
    if (!value->data || value->sizes) return false;
    HloType type = value->shape->type, part = hlo_type_real_part(type);
    if (!hlo_type_is_float(part)) return false;
    double buffer[HLO_EVAL_CHUNK];
    int64_t count = hlo_eval_elements(value) * (part == type ? 1 : 2), bytes = hlo_type_bytes(part);
    for (int64_t start = 0; start < count; start += HLO_EVAL_CHUNK) {
        int64_t length = count - start < HLO_EVAL_CHUNK ? count - start : HLO_EVAL_CHUNK;
        hlo_eval_decode_double(part, (const char *)value->data + start * bytes, length, buffer);
        for (int64_t i = 0; i < length; i++) {
            if (isnan(buffer[i])) return true;
        }
    }
    return false;
}

// get-tuple-element reads the slot directly, so that the last one of an index can move the element out.
static HloEvalValue *get_element(HloEvalDevice *device, const HloEvalStep *step, HloEvalValue **slots) {
    HloEvalValue *tuple = slots[step->operand_slots[0]];
    HloEvalValue **element = &tuple->elements[HLO_ATTRIBUTES(step->instruction, TupleIndex)->index];
    HloEvalValue *result = *element;
    HLO_BUG_IF(!result);
    if (step->moves_element && tuple->references == 1) {
        *element = NULL;
    } else {
        hlo_eval_retain(result);
    }
    if (step->last_use[0]) {
        hlo_eval_release(device, tuple);
        slots[step->operand_slots[0]] = NULL;
    }
    return result;
}

// Operands whose last use this is move out of their slot, with their reference; others are shared.
static HloStatus run_step(HloEvalDevice *device, const HloEvalStep *step, HloEvalValue **slots, HloEvalValue **result) {
    assert(step->instruction && slots && result);
    const HloInstruction *instruction = step->instruction;
    int32_t count = instruction->operand_count;
    HloEvalValue **operands = HLO_EVAL_SCRATCH(device, HloEvalValue *, count);
    for (int32_t k = 0; k < count; k++) {
        int32_t slot = step->operand_slots[k];
        operands[k] = slots[slot];
        if (step->last_use[k]) {
            slots[slot] = NULL;
        } else {
            hlo_eval_retain(operands[k]);
        }
    }
    HLO_TRY(hlo_eval_apply(device, instruction, operands, result));
    for (int32_t k = 0; k < count; k++) hlo_eval_release(device, operands[k]);
    // Values that are passed on were checked where they were made; so were values that are sent.
    const bool made = !hlo_eval_forwards_operands(instruction->opcode) && !hlo_is(instruction, HLO_OP_SEND);
    if (device->world->options.trap_nan && made && has_nan(*result)) {
        return hlo_error(HLO_FAILED_PRECONDITION, "%%%s (%s) produces a NaN", instruction->name,
                         hlo_op_text(instruction->opcode));
    }
    return HLO_SUCCESS;
}

// Errors return early without releasing the slots: hlo_eval_release_all() finds their values at the end, in the
// device's list of all values.
HloStatus hlo_eval_run(HloEvalDevice *device, const HloComputation *computation, HloEvalValue *const *arguments,
                       HloEvalValue **result) {
    assert(computation->root && result);
    HLO_FAIL_IF(device->depth >= HLO_EVAL_MAX_DEPTH, HLO_UNIMPLEMENTED, "calls nest more than %d levels deep",
                HLO_EVAL_MAX_DEPTH);
    device->depth++;
    const HloEvalPlan *plan = device->world->plans[computation->id];
    HloArenaMark mark = hlo_arena_mark(device->scratch);
    HloEvalValue **slots = HLO_ARENA_NEW(device->scratch, HloEvalValue *, plan->count);
    for (int64_t p = 0; p < computation->parameters.count; p++) {
        if (plan->parameter_slots[p] >= 0) {
            slots[plan->parameter_slots[p]] = arguments[p];
        } else {
            hlo_eval_release(device, arguments[p]);
        }
    }
    HloArenaMark step_mark = hlo_arena_mark(device->scratch);
    for (int32_t s = 0; s < plan->count; s++) {
        const HloEvalStep *step = &plan->steps[s];
        if (hlo_is(step->instruction, HLO_OP_PARAMETER)) continue;
        if (hlo_is(step->instruction, HLO_OP_GET_TUPLE_ELEMENT)) {
            slots[s] = get_element(device, step, slots);
            continue;
        }
        HLO_TRY(hlo_status_at_instruction(run_step(device, step, slots, &slots[s]), step->instruction));
        if (!step->has_uses) {
            hlo_eval_release(device, slots[s]);
            slots[s] = NULL;
        }
        hlo_arena_reset(device->scratch, step_mark);
    }
    *result = hlo_eval_retain(slots[plan->root_slot]);
    for (int32_t s = 0; s < plan->count; s++) hlo_eval_release(device, slots[s]);
    hlo_arena_reset(device->scratch, mark);
    device->depth--;
    return HLO_SUCCESS;
}

// Arguments are views of the caller's literals; only the result is copied.
HloStatus hlo_eval_run_device(HloEvalDevice *device, const HloComputation *computation,
                              const HloLiteral *const *arguments, HloLiteral **result) {
    assert(computation && result);
    int64_t count = computation->parameters.count;
    HloEvalValue **values = HLO_EVAL_SCRATCH(device, HloEvalValue *, count);
    for (int64_t p = 0; p < count; p++)
        HLO_TRY(hlo_eval_borrow_argument(device, arguments[p], computation->parameters.items[p]->shape, &values[p]));
    HloEvalValue *root;
    HLO_TRY(hlo_eval_run(device, computation, values, &root));
    HloStatus status = hlo_eval_to_literal(root, result);
    hlo_eval_release(device, root);
    return status;
}

// ---- entry points

// Checks number and shapes of arguments; differences are printed as HLO text.
static HloStatus check_arguments(const HloComputation *computation, const HloLiteral *const *arguments, int64_t count) {
    assert(count >= 0);
    HLO_FAIL_IF(count != computation->parameters.count, HLO_INVALID_ARGUMENT,
                "computation %%%s takes %lld arguments, but %lld are given", computation->name,
                (long long)computation->parameters.count, (long long)count);
    for (int64_t p = 0; p < count; p++) {
        const HloInstruction *parameter = computation->parameters.items[p];
        if (!parameter || hlo_eval_argument_fits(arguments[p]->shape, parameter->shape)) continue;
        HloText text = {0};
        hlo_shape_print(&text, arguments[p]->shape, false);
        hlo_text_string(&text, " given, expected ");
        hlo_shape_print(&text, parameter->shape, false);
        HloStatus status = hlo_error(HLO_INVALID_ARGUMENT, "argument %lld (%%%s): %s", (long long)p, parameter->name,
                                     text.data ? text.data : "");
        hlo_text_free(&text);
        return status;
    }
    return HLO_SUCCESS;
}

// A call of one of the public functions, for hlo_protect().
typedef struct Request {
    HloEvalWorld *world;
    const HloComputation *computation;          // to run, or
    const HloInstruction *instruction;          // to apply to arguments[0]
    const HloLiteral *const *const *arguments;  // [device][parameter]
    int64_t argument_count;
    HloLiteral **results;
    bool partitioned;
} Request;

// Plans all reachable computations before anything runs, so that type errors come first.
static HloStatus make_plans(Request *request) {
    HloEvalWorld *world = request->world;
    world->plans = HLO_ARENA_NEW(world->arena, HloEvalPlan *, world->module->computation_limit);
    Planner planner = {.world = world};
    planner.slots = HLO_ARENA_NEW(world->arena, int32_t, world->module->instruction_limit);
    if (request->computation) return plan_computation(&planner, request->computation);
    for (int32_t c = 0; c < request->instruction->called_count; c++) {
        HLO_TRY(plan_computation(&planner, request->instruction->called[c]));
    }
    return HLO_SUCCESS;
}

// Applies one instruction outside its computation, for constant folding.
static HloStatus apply_instruction(HloEvalDevice *device, const Request *request) {
    const HloInstruction *instruction = request->instruction;
    int32_t count = instruction->operand_count;
    HLO_TRY(hlo_eval_check_types(instruction));
    HloEvalValue **operands = HLO_EVAL_SCRATCH(device, HloEvalValue *, count);
    for (int32_t k = 0; k < count; k++)
        HLO_TRY(
            hlo_eval_borrow_argument(device, request->arguments[0][k], instruction->operands[k]->shape, &operands[k]));
    HloEvalValue *result;
    HLO_TRY(hlo_eval_apply(device, instruction, operands, &result));
    return hlo_eval_to_literal(result, request->results);
}

// Runs one of four kinds of request: one instruction (constant folding); one device with whole arrays; the devices of a
// partitioned program; or whole arrays on several devices, because the program has manual regions (shard_map) in which
// devices differ. In the last kind all devices end with the same results, and one copy is kept.
static HloStatus run_request(void *argument) {
    Request *request = argument;
    HloEvalWorld *world = request->world;
    if (request->computation) HLO_TRY(hlo_check_call_copies(world->module, world->arena));
    HLO_TRY(make_plans(request));
    bool manual = world->manual_regions && !request->partitioned && world->device_count > 1 && request->computation;
    world->manual_regions = manual;
    HLO_FAIL_IF(manual && world->device_count % world->replica_count != 0, HLO_INVALID_ARGUMENT,
                "%lld devices cannot hold %lld replicas", (long long)world->device_count,
                (long long)world->replica_count);
    if (!request->partitioned && !manual) {
        world->device_count = world->replica_count = world->partition_count = 1;
    }
    world->devices = HLO_ARENA_NEW(world->arena, HloEvalDevice, world->device_count);
    for (int64_t d = 0; d < world->device_count; d++) {
        const int64_t replica = d / world->partition_count;
        world->devices[d] =
            (HloEvalDevice){.world = world, .number = d, .draws = hlo_draws_start(world->options.seed, replica)};
        world->devices[d].scratch = hlo_arena_new();
        HLO_FAIL_IF(!world->devices[d].scratch, HLO_RESOURCE_EXHAUSTED, "out of memory");
    }
    if (request->instruction) return apply_instruction(&world->devices[0], request);
    if (world->device_count == 1) {
        return hlo_eval_run_device(&world->devices[0], request->computation, request->arguments[0], request->results);
    }
    if (!manual) return hlo_eval_run_world(world, request->computation, request->arguments, request->results);
    // Every device starts from the same whole arrays; they end with the same whole results.
    const HloLiteral *const **same = HLO_ARENA_NEW(world->arena, const HloLiteral *const *, world->device_count);
    for (int64_t d = 0; d < world->device_count; d++) same[d] = request->arguments[0];
    HloLiteral **results = HLO_ARENA_NEW(world->arena, HloLiteral *, world->device_count);
    HLO_TRY(hlo_eval_run_world(world, request->computation, same, results));
    request->results[0] = results[0];
    for (int64_t d = 1; d < world->device_count; d++) hlo_literal_free(results[d]);
    return HLO_SUCCESS;
}

// Nine tenths of the machine's memory: the rest is left to other processes.
static int64_t memory_limit(const HloEvalOptions *options) {
    if (options->memory_limit > 0) return options->memory_limit;
    long pages = sysconf(_SC_PHYS_PAGES), bytes = sysconf(_SC_PAGESIZE);
    return pages > 0 && bytes > 0 ? (int64_t)pages / 10 * 9 * bytes : INT64_MAX;
}

// Builds the world of a run, runs the request under hlo_protect(), and frees everything again, whatever the outcome.
static HloStatus serve(Request *request, const HloModule *module, const HloEvalOptions *options, int64_t device_count) {
    assert(device_count > 0);
    HloEvalWorld world = {.module = module, .arena = hlo_arena_new(), .device_count = device_count};
    HLO_FAIL_IF(!world.arena, HLO_RESOURCE_EXHAUSTED, "out of memory");
    if (options) world.options = *options;
    world.memory_limit = memory_limit(&world.options);
    world.replica_count = module->replica_count > 0 ? module->replica_count : 1;
    world.partition_count = device_count / world.replica_count;
    request->world = &world;
    HloStatus status = hlo_protect(run_request, request);
    hlo_eval_free_mail(&world);
    for (int64_t d = 0; world.devices && d < world.device_count; d++) {
        hlo_eval_release_all(&world.devices[d]);
        hlo_arena_free(world.devices[d].scratch);
    }
    hlo_arena_free(world.arena);
    return status;
}

HloStatus hlo_evaluate_computation(const HloComputation *computation, const HloLiteral *const *arguments, int64_t count,
                                   const HloEvalOptions *options, HloLiteral **result) {
    assert(computation && result);
    assert(count >= 0 && (arguments || count == 0));
    HLO_TRY(check_arguments(computation, arguments, count));
    const HloModule *module = computation->module;
    // The counts come from the program's text and may not have been verified.
    int64_t devices = options ? options->device_count : 0;
    bool fits = devices || !__builtin_mul_overflow(module->num_partitions, module->replica_count, &devices);
    HLO_FAIL_IF(!fits || devices < 1, HLO_INVALID_ARGUMENT, "%lld devices, of %lld replicas of %lld partitions",
                (long long)devices, (long long)module->replica_count, (long long)module->num_partitions);
    Request request = {.computation = computation, .arguments = &arguments, .argument_count = count, .results = result};
    return serve(&request, module, options, devices);
}

HloStatus hlo_evaluate(const HloModule *module, const HloLiteral *const *arguments, int64_t count,
                       const HloEvalOptions *options, HloLiteral **result) {
    HLO_FAIL_IF(!module->entry, HLO_INVALID_ARGUMENT, "the module has no entry computation");
    return hlo_evaluate_computation(module->entry, arguments, count, options, result);
}

HloStatus hlo_evaluate_instruction(const HloInstruction *instruction, const HloLiteral *const *operands,
                                   const HloEvalOptions *options, HloLiteral **result) {
    assert(instruction && result);
    if (hlo_is(instruction, HLO_OP_PARAMETER)) {
        return hlo_error(HLO_INVALID_ARGUMENT, "%%%s: a parameter cannot be evaluated by itself", instruction->name);
    }
    for (int32_t k = 0; k < instruction->operand_count; k++) {
        HLO_FAIL_IF(!hlo_eval_argument_fits(operands[k]->shape, instruction->operands[k]->shape), HLO_INVALID_ARGUMENT,
                    "%%%s: operand %d has another shape", instruction->name, (int)k);
    }
    Request request = {.instruction = instruction, .arguments = &operands, .results = result};
    return serve(&request, instruction->parent->module, options, 1);
}

HloStatus hlo_evaluate_partitioned(const HloModule *module, int64_t device_count,
                                   const HloLiteral *const *const *arguments, int64_t count,
                                   const HloEvalOptions *options, HloLiteral **results) {
    assert(module && results);
    HLO_FAIL_IF(!module->entry, HLO_INVALID_ARGUMENT, "the module has no entry computation");
    int64_t replicas = module->replica_count > 0 ? module->replica_count : 1;
    HLO_FAIL_IF(device_count < 1 || device_count % replicas != 0, HLO_INVALID_ARGUMENT,
                "%lld devices cannot hold %lld replicas", (long long)device_count, (long long)replicas);
    for (int64_t d = 0; d < device_count; d++) {
        HLO_TRY(hlo_status_annotate(check_arguments(module->entry, arguments[d], count), "device %lld", (long long)d));
    }
    Request request = {.computation = module->entry,
                       .arguments = arguments,
                       .argument_count = count,
                       .results = results,
                       .partitioned = true};
    return serve(&request, module, options, device_count);
}
