// SPDX-License-Identifier: Apache-2.0
// A probed instruction becomes a result of the program for one run: a new root has the old results, which keep their
// shardings, and then the probed values, whose shardings are open. Afterwards the old root is the root again.
#include "advice/probe.h"

#include <assert.h>

#include "hlo/eval/eval.h"
#include "hlo/pass/support.h"

void probe_forget(Probe *probe) {
    for (int side = 0; side < 2; side++) {
        for (int64_t i = 0; i < probe->value_count && probe->values[side]; i++)
            hlo_literal_free(probe->values[side][i]);
        probe->values[side] = NULL;
    }
    probe->value_count = 0;
}

// ---- running

// Appends the leaves of a literal to a list.
static void list_leaves(const HloLiteral *literal, const HloLiteral **leaves, int64_t *next) {
    if (literal->shape->type != HLO_TUPLE) {
        leaves[(*next)++] = literal;
        return;
    }
    for (int32_t i = 0; i < literal->shape->element_count; i++) list_leaves(literal->elements[i], leaves, next);
}

static HloStatus run_evaluator(Probe *probe, const HloModule *module, const AdviceRun *run, HloLiteral **values) {
    const HloEvalOptions options = {
        .numerics = run->numerics == TARGET_NUMERICS_TPU ? HLO_NUMERICS_TPU : HLO_NUMERICS_EXACT,
        .device_count = module->num_partitions};
    const HloLiteral **leaves = HLO_ARENA_NEW(probe->arena, const HloLiteral *, probe->value_count + 1);
    HloLiteral *result;
    bool copied = true;
    int64_t next = 0;
    HLO_TRY(hlo_evaluate(module, probe->arguments, probe->argument_count, &options, &result));
    list_leaves(result, leaves, &next);
    for (int64_t i = 0; i < next; i++) copied &= (values[i] = hlo_literal_copy(leaves[i])) != NULL;
    hlo_literal_free(result);
    HLO_FAIL_IF(!copied, HLO_RESOURCE_EXHAUSTED, "no memory for the values of the program");
    return HLO_SUCCESS;
}

static HloStatus run_machine(Probe *probe, const HloModule *module, int side, HloLiteral **values) {
    const AdviceRun *run = probe->runs[side];
    if (!probe->clients[side]) HLO_TRY(target_client_new(run->machine, &probe->clients[side]));
    int64_t count = 0, next = 0;
    for (int64_t i = 0; i < probe->argument_count; i++) count += hlo_shape_leaf_count(probe->arguments[i]->shape);
    const HloLiteral **leaves = HLO_ARENA_NEW(probe->arena, const HloLiteral *, count + 1);
    for (int64_t i = 0; i < probe->argument_count; i++) list_leaves(probe->arguments[i], leaves, &next);
    const TargetProgramOptions options = {.spmd = run->spmd, .numerics = run->numerics};
    TargetProgram *program;
    HLO_TRY(target_program_new(probe->clients[side], module, &options, &program));
    const int64_t results = target_program_boundary(program)->result_count;
    HloStatus status = results == probe->value_count
                           ? target_program_call(program, leaves, count, values)
                           : hlo_error(HLO_UNIMPLEMENTED, "a program of %lld results has become one of %lld",
                                       (long long)probe->value_count, (long long)results);
    target_program_free(program);
    return status;
}

static HloStatus run_one(Probe *probe, int side) {
    const AdviceRun *run = probe->runs[side];
    HloModule *copy = NULL;
    HloStatus status = HLO_SUCCESS;
    if (run->pass_count) {
        copy = hlo_module_clone(probe->module);
        HLO_FAIL_IF(!copy, HLO_RESOURCE_EXHAUSTED, "no memory for a copy of the program");
        status = hlo_run_passes(copy, run->passes, run->pass_count, NULL);
    }
    const HloModule *module = copy ? copy : probe->module;
    if (!status) {
        status = run->machine ? run_machine(probe, module, side, probe->values[side])
                              : run_evaluator(probe, module, run, probe->values[side]);
    }
    hlo_module_free(copy);
    return status;
}

// ---- roots

// Appends get-tuple-elements for the leaves of a value, and its shardings, one per leaf.
static void add_leaves(HloArena *arena, HloInstruction *like, HloInstruction *value, HloInstruction **leaves,
                       int64_t *next) {
    assert(value && leaves);
    if (value->shape->type != HLO_TUPLE) {
        leaves[(*next)++] = value;
        return;
    }
    for (int32_t i = 0; i < value->shape->element_count; i++) {
        HloInstruction *element = hlo_is(value, HLO_OP_TUPLE) ? value->operands[i] : hlo_pass_get(like, value, i);
        add_leaves(arena, like, element, leaves, next);
    }
}

// The sharding of the new root: that of the old one for its leaves, and open for the others.
static const HloSharding *root_sharding(HloArena *arena, const HloSharding *old, int64_t results, int64_t all) {
    if (!old) return NULL;
    const HloSharding **elements = HLO_ARENA_NEW(arena, const HloSharding *, all);
    const HloSharding *open = hlo_sharding_simple(arena, HLO_SHARDING_UNKNOWN);
    const bool is_list = old->kind == HLO_SHARDING_TUPLE && old->element_count == results;
    for (int64_t i = 0; i < all; i++)
        elements[i] = i >= results ? open : is_list ? old->elements[i] : old->kind == HLO_SHARDING_TUPLE ? open : old;
    return hlo_sharding_tuple(arena, elements, all);
}

HloStatus probe_run(Probe *probe, HloInstruction *const *probes, int64_t count) {
    HloModule *module = probe->module;
    HloComputation *entry = module->entry;
    HloInstruction *root = entry->root;
    probe_forget(probe);
    probe->result_count = hlo_shape_leaf_count(root->shape);
    const int64_t all = probe->result_count + count;
    HloInstruction **leaves = HLO_ARENA_NEW(probe->arena, HloInstruction *, all + 1), *last = entry->last;
    int64_t next = 0;
    add_leaves(probe->arena, root, root, leaves, &next);
    for (int64_t i = 0; i < count; i++) leaves[next++] = probes[i];
    HloInstruction *tuple = hlo_pass_tuple(root, leaves, all);
    tuple->sharding = root_sharding(module->arena, root->sharding, probe->result_count, all);
    hlo_computation_set_root(entry, tuple);
    for (int side = 0; side < 2; side++) probe->values[side] = HLO_ARENA_NEW(probe->arena, HloLiteral *, all + 1);
    probe->value_count = all;
    HloStatus status = run_one(probe, 0);
    if (!status) status = run_one(probe, 1);
    hlo_computation_set_root(entry, root);
    while (entry->last != last) hlo_instruction_remove(entry->last);
    return status;
}

// ---- loops

// A parameter of the shape `state`, for a new computation.
static HloInstruction *new_parameter(HloComputation *computation, const HloShape *state) {
    return hlo_instruction_new(computation, HLO_OP_PARAMETER, state, NULL, 0, &(HloParameterAttributes){.number = 0},
                               "state");
}

static HloInstruction *call(HloInstruction *like, HloComputation *callee, HloInstruction *state) {
    return hlo_pass_make(
        like, &(HloBuildRequest){
                  .opcode = HLO_OP_CALL, .operands = &state, .operand_count = 1, .called = &callee, .called_count = 1});
}

HloInstruction *probe_loop_state(const HloInstruction *loop, HloInstruction *limited) {
    if (loop->shape->type != HLO_TUPLE) return hlo_pass_get(limited, limited, 0);
    const int64_t count = loop->shape->element_count;
    HloInstruction **elements = HLO_ARENA_NEW(limited->parent->module->arena, HloInstruction *, count + 1);
    for (int64_t i = 0; i < count; i++) elements[i] = hlo_pass_get(limited, limited, i);
    return hlo_pass_tuple(limited, elements, count);
}

// A tuple of the loop's state and the counter.
static HloInstruction *with_counter(HloInstruction *like, HloInstruction *state, HloInstruction *counter) {
    const int64_t count = state->shape->type == HLO_TUPLE ? state->shape->element_count : 1;
    HloInstruction **elements = HLO_ARENA_NEW(like->parent->module->arena, HloInstruction *, count + 1);
    for (int64_t i = 0; i < count; i++)
        elements[i] = state->shape->type == HLO_TUPLE ? hlo_pass_get(like, state, i) : state;
    elements[count] = counter;
    return hlo_pass_tuple(like, elements, count + 1);
}

HloInstruction *probe_limited_loop(Probe *probe, HloInstruction *loop, int64_t limit) {
    HloModule *module = probe->module;
    const int64_t at = loop->shape->type == HLO_TUPLE ? loop->shape->element_count : 1;
    HloInstruction *zero = hlo_pass_integer(loop, HLO_S32, 0);
    HloInstruction *start = with_counter(loop, loop->operands[0], zero);
    HloComputation *called[2] = {hlo_computation_new(module, "limited_condition"),
                                 hlo_computation_new(module, "limited_body")};
    HloInstruction *state = new_parameter(called[0], start->shape);
    HloInstruction *goes_on = call(state, loop->called[0], probe_loop_state(loop, state));
    HloInstruction *is_below = hlo_pass_compare(state, hlo_pass_get(state, state, at),
                                                hlo_pass_integer(state, HLO_S32, limit), HLO_ComparisonDirection_LT);
    hlo_computation_set_root(called[0], hlo_pass_binary(state, HLO_OP_AND, goes_on, is_below));
    state = new_parameter(called[1], start->shape);
    HloInstruction *after = call(state, loop->called[1], probe_loop_state(loop, state));
    HloInstruction *counter =
        hlo_pass_binary(state, HLO_OP_ADD, hlo_pass_get(state, state, at), hlo_pass_integer(state, HLO_S32, 1));
    hlo_computation_set_root(called[1], with_counter(state, after, counter));
    HloInstruction *limited = hlo_pass_make(
        loop, &(HloBuildRequest){
                  .opcode = HLO_OP_WHILE, .operands = &start, .operand_count = 1, .called = called, .called_count = 2});
    const int64_t leaves = hlo_shape_leaf_count(loop->shape);
    if (loop->sharding && loop->sharding->kind == HLO_SHARDING_TUPLE)
        limited->sharding = root_sharding(module->arena, loop->sharding, leaves, leaves + 1);
    return limited;
}

void probe_remove(Probe *probe, HloInstruction *unused) {
    hlo_instruction_set_called(unused, NULL, 0);
    hlo_instruction_remove(unused);
    hlo_module_remove_unreachable(probe->module);
}
