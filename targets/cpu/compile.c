// SPDX-License-Identifier: Apache-2.0
// Compiles a module to an executable: graph, fusion and lowering, buffers, thunks.
//
// Each stage has a file of its own: expand (writes ops out as others), build (the graph, with calls inlined), simplify,
// check (collectives and messages that can never match), fuse and lower (steps), buffers (where each array is stored,
// in place or not), thunks (the list that run/execute.c walks). Scratch memory lives for the call; what the executable
// keeps is in its own arena.
//
// The executable keeps the clone of the module, because fallbacks are evaluated from it and errors and traces name its
// instructions.
#include <assert.h>
#include <string.h>

#include "hlo/analysis/aliases.h"
#include "hlo/analysis/calls.h"
#include "hlo/ir/names.h"
#include "targets/cpu/graph/bounded.h"
#include "targets/cpu/graph/check.h"
#include "targets/cpu/graph/expand.h"
#include "targets/cpu/host/code_choice.h"
#include "targets/cpu/jit/chains.h"
#include "targets/cpu/jit/while_program.h"
#include "targets/cpu/lower/lower.h"
#include "targets/cpu/run/internal.h"

typedef struct CompileCall {
    const HloModule *module;
    const CpuCompileOptions *options;
    CpuExecutable *executable;
    HloArena *scratch;  // lives during compilation
} CompileCall;

// ---- signature

// Returns the leaf shapes without layouts: within the engine, arrays are dense and row-major.
static const HloShape *const *leaf_shapes(HloArena *arena, const CpuArrayVector *arrays) {
    const HloShape **shapes = HLO_ARENA_NEW(arena, const HloShape *, arrays->count);
    for (int64_t i = 0; i < arrays->count; i++)
        shapes[i] = hlo_shape_without_layout(arena, hlo_shape_copy(arena, arrays->items[i]->shape));
    return shapes;
}

// Records the program's arguments and results. wanted[k] is the argument that result k may reuse by the options, or -1.
// Buffer assignment decides what comes of it (result_alias), as it knows whether the argument is read after the result
// is written.
static void make_signature(CompileCall *call, const CpuProgram *program, int64_t **wanted) {
    HloArena *arena = call->executable->arena;
    CpuSignature *signature = &call->executable->signature;
    signature->argument_count = program->entry->parameters.count;
    signature->result_count = program->entry->results.count;
    signature->argument_shapes = leaf_shapes(arena, &program->entry->parameters);
    signature->result_shapes = leaf_shapes(arena, &program->entry->results);
    bool *donated = HLO_ARENA_NEW(arena, bool, signature->argument_count);
    *wanted = HLO_ARENA_NEW(call->scratch, int64_t, signature->result_count);
    hlo_alias_arguments(call->scratch, call->executable->module, &call->options->aliases, *wanted);
    for (int64_t i = 0; i < signature->result_count; i++)
        if ((*wanted)[i] >= 0) donated[(*wanted)[i]] = true;
    signature->argument_donated = donated;
}

// Lists the instructions that the evaluator will run, one per line, for reports.
static const char *list_fallbacks(HloArena *arena, const CpuLowering *lowering) {
    HloText list = {0};
    for (int64_t i = 0; i < lowering->fallbacks.count; i++) {
        const CpuNode *node = lowering->fallbacks.items[i];
        hlo_text_format(&list, "%s %s\n", hlo_op_text(node->opcode), node->instruction->name);
    }
    return hlo_text_to_arena(arena, &list);
}

// ---- constants and collectives

// Stores all constants of a program in one block, at the offsets that buffer assignment chose.
static HloStatus store_constants(CpuExecutable *executable, const CpuAssignment *assignment) {
    executable->signature.constant_bytes = assignment->constant_bytes;
    executable->constants = hlo_allocate_aligned((size_t)assignment->constant_bytes);
    HLO_FAIL_IF(!executable->constants, HLO_RESOURCE_EXHAUSTED, "no memory for %lld bytes of constants",
                (long long)assignment->constant_bytes);
    for (int64_t i = 0; i < assignment->constants.count; i++) {
        CpuArray *array = assignment->constants.items[i];
        char *to = (char *)executable->constants + cpu_array_slice(array).offset;
        if (array->bytes) memcpy(to, array->literal->data, (size_t)array->bytes);
    }
    return HLO_SUCCESS;
}

// Returns the bytes that one device of a group sends. The ring algorithm moves (g - 1) / g of the full array once, and
// twice for all-reduces. The first group represents all: the groups of a collective have one size, except ragged ones,
// for which this is an estimate.
static double bytes_sent(const CpuCollective *collective) {
    const double size = (double)collective->groups[0].count, bytes = (double)collective->bytes;
    const double share = size > 0 ? (size - 1) / size : 0;
    switch (collective->opcode) {
        case HLO_OP_ALL_REDUCE: return 2 * share * bytes;
        case HLO_OP_ALL_GATHER: return share * size * bytes;
        case HLO_OP_COLLECTIVE_PERMUTE: return bytes;
        default: return share * bytes;
    }
}

typedef HLO_VECTOR(const CpuCollective *) CollectiveVector;

typedef HLO_VECTOR(CpuTransfer) TransferVector;

// Collects host transfers, also those within loops and branches.
static void collect_transfers(HloArena *arena, const CpuSteps *steps, TransferVector *found) {
    for (int64_t i = 0; i < steps->steps.count; i++) {
        const CpuStep *step = &steps->steps.items[i];
        if (step->kind == CPU_STEP_TRANSFER) hlo_vector_push(arena, found, *(const CpuTransfer *)step->kernel);
        for (int32_t k = 0; step->regions && k < step->node->region_count; k++)
            collect_transfers(arena, &step->regions[k], found);
    }
}

// Numbers the collectives through the whole program, also inside loops; run/execute.c identifies a rendezvous by that
// number. The step gets its own copy, since the lowered one is shared.
static void collect_collectives(HloArena *arena, CpuSteps *steps, CollectiveVector *found) {
    for (int64_t i = 0; i < steps->steps.count; i++) {
        CpuStep *step = &steps->steps.items[i];
        if (step->kind == CPU_STEP_COLLECTIVE) {
            CpuCollective *collective = HLO_ARENA_NEW(arena, CpuCollective, 1);
            *collective = *(const CpuCollective *)step->kernel;
            collective->index = (int32_t)found->count;
            step->kernel = collective;
            hlo_vector_push(arena, found, collective);
        }
        const bool nested = step->kind == CPU_STEP_WHILE || step->kind == CPU_STEP_CONDITIONAL;
        for (int32_t k = 0; nested && k < step->node->region_count; k++)
            collect_collectives(arena, &step->regions[k], found);
    }
}

// Returns the cost with each loop counted once. Decisions made once per iteration (how many workers a step is worth)
// must not depend on the number of iterations.
static double cost_of_one_iteration(const CpuSteps *steps) {
    double cost = 0;
    for (int64_t i = 0; i < steps->steps.count; i++) {
        const CpuStep *step = &steps->steps.items[i];
        if (!step->regions) cost += step->cost;
        for (int32_t k = 0; step->regions && k < step->node->region_count; k++)
            cost += cost_of_one_iteration(&step->regions[k]);
    }
    return cost;
}

// ---- the pipeline

// Whether a leaf is a buffer or an opaque type that only its producer can read. The engine cannot store these.
static bool has_strange_leaves(const HloShape *shape) {
    for (int64_t leaf = 0; leaf < hlo_shape_leaf_count(shape); leaf++) {
        const HloShape *part = hlo_shape_leaf(shape, leaf);
        if (!hlo_shape_is_array(part) && part->type != HLO_TOKEN) return true;
    }
    return false;
}

// Rejects open dimensions: everything below counts bytes by bounds.
static HloStatus check_shapes(const HloModule *module) {
    for (int64_t c = 0; c < module->computations.count; c++) {
        for (const HloInstruction *at = module->computations.items[c]->first; at; at = at->next) {
            HloStatus status = HLO_SUCCESS;
            if (hlo_shape_is_unbounded(at->shape))
                status = hlo_error(HLO_UNIMPLEMENTED, "%%%s has an unbounded dimension", at->name);
            else if (has_strange_leaves(at->shape))
                status = hlo_error(HLO_UNIMPLEMENTED, "%%%s is a value that is neither an array nor a token", at->name);
            HLO_TRY(hlo_status_at_instruction(status, at));
        }
    }
    return HLO_SUCCESS;
}

// Runs under hlo_protect(). The order is fixed: checks come before lowering, which relies on groups that cover all
// devices.
static HloStatus compile_protected(void *argument) {
    CompileCall *call = argument;
    CpuExecutable *executable = call->executable;
    HLO_TRY(check_shapes(call->module));
    HLO_TRY(hlo_check_call_copies(call->module, call->scratch));
    // Store each part as it is made, so that the executable owns everything so far if memory runs out half-way.
    executable->module = hlo_module_new(call->module->name);
    HLO_FAIL_IF(!executable->module, HLO_RESOURCE_EXHAUSTED, "no memory for an executable");
    hlo_module_copy_header(executable->module, call->module);
    hlo_module_clone_computations(executable->module, call->module);
    HLO_TRY(cpu_expand(executable->module));
    CpuProgram *program;
    HLO_TRY(cpu_program_build(call->scratch, executable->module, &program));
    program->replica_count = executable->replica_count;
    program->partition_count = executable->partition_count;
    cpu_program_simplify(program, executable->tpu_numerics);
    int64_t *wanted;
    make_signature(call, program, &wanted);
    CpuLowering lowering = {.program = program,
                            .arena = executable->arena,
                            .features = call->options->features,
                            .tpu_numerics = call->options->tpu_numerics};
    HLO_TRY(cpu_check_collectives(call->scratch, program));
    HLO_TRY(cpu_check_p2p(call->scratch, program));
    CpuSteps *steps;
    HLO_TRY(cpu_lower(&lowering, &steps));
    CpuAssignment assignment;
    cpu_assign_buffers(call->scratch, program, steps, wanted, &assignment);
    HLO_TRY(store_constants(executable, &assignment));
    CollectiveVector collectives = {0};
    collect_collectives(executable->arena, steps, &collectives);
    executable->collectives = collectives.items;
    executable->collective_count = (int32_t)collectives.count;
    executable->signature.collective_count = collectives.count;
    for (int64_t i = 0; i < collectives.count; i++)
        executable->signature.collective_bytes += bytes_sent(collectives.items[i]);
    TransferVector transfers = {0};
    collect_transfers(executable->arena, steps, &transfers);
    executable->signature.transfers = transfers.items;
    executable->signature.transfer_count = transfers.count;
    cpu_thunks_build(executable->arena, steps, &assignment, &executable->entry, &executable->depth,
                     &executable->shareable_count);
    bool code;
    HLO_TRY(cpu_code_choose(&code));
    cpu_while_programs_plan(executable->arena, call->scratch, &executable->entry, code);
    if (code) executable->chains = cpu_chains_of_program(executable->arena, call->scratch, &executable->entry);
    executable->array_count = (int32_t)program->arrays.count;
    int32_t *arguments = HLO_ARENA_NEW(executable->arena, int32_t, program->entry->parameters.count);
    for (int64_t i = 0; i < program->entry->parameters.count; i++)
        arguments[i] = program->entry->parameters.items[i]->id;
    executable->argument_arrays = arguments;
    CpuSignature *signature = &executable->signature;
    signature->arena_bytes = assignment.arena_bytes;
    signature->result_alias =
        hlo_arena_copy(executable->arena, assignment.result_alias, sizeof(int64_t) * (size_t)signature->result_count);
    signature->fallbacks = list_fallbacks(executable->arena, &lowering);
    for (int64_t i = 0; i < steps->steps.count; i++) signature->cost += steps->steps.items[i].cost;
    signature->iteration_cost = cost_of_one_iteration(steps);
    return HLO_SUCCESS;
}

// Uses two arenas: one for what the executable needs when it runs, which lives as long as it does, and scratch for
// compilation only. Allocation failures jump out of compile_protected(), so both arenas and the executable are owned
// here.
HloStatus cpu_compile(const HloModule *module, const CpuCompileOptions *options, CpuExecutable **result) {
    assert(module && result);
    HLO_FAIL_IF(!module->entry, HLO_INVALID_ARGUMENT, "module %s has no entry computation", module->name);
    CpuExecutable *executable = hlo_allocate_zeroed(1, sizeof *executable);
    HLO_FAIL_IF(!executable, HLO_RESOURCE_EXHAUSTED, "no memory for an executable");
    executable->replica_count = options->replica_count;
    executable->partition_count = options->partition_count;
    executable->tpu_numerics = options->tpu_numerics;
    executable->arena = hlo_arena_new();
    CompileCall call = {.module = module, .options = options, .executable = executable, .scratch = hlo_arena_new()};
    HloStatus status = HLO_SUCCESS;
    if (!executable->arena || !call.scratch)
        status = hlo_error(HLO_RESOURCE_EXHAUSTED, "no memory for an executable");
    else
        status = hlo_protect(compile_protected, &call);
    hlo_arena_free(call.scratch);
    if (status)
        cpu_executable_free(executable);
    else
        *result = executable;
    return status;
}

void cpu_executable_free(CpuExecutable *executable) {
    if (!executable) return;
    cpu_while_programs_free(&executable->entry);
    cpu_chains_free(executable->chains);
    hlo_free(executable->constants);
    hlo_module_free(executable->module);
    hlo_arena_free(executable->arena);
    hlo_free(executable);
}

const CpuSignature *cpu_executable_signature(const CpuExecutable *executable) {
    return &executable->signature;
}

// ---- text

// Returns the name of a step for cpu_executable_print().
static const char *kind_name(CpuStepKind kind) {
    static const char *const kNames[] = {[CPU_STEP_LOOPS] = "loops",
                                         [CPU_STEP_COPY_LOOPS] = "update",
                                         [CPU_STEP_KERNEL] = "kernel",
                                         [CPU_STEP_WHILE] = "while",
                                         [CPU_STEP_CONDITIONAL] = "conditional",
                                         [CPU_STEP_COLLECTIVE] = "collective",
                                         [CPU_STEP_DEVICE_ID] = "device-id",
                                         [CPU_STEP_DRAW] = "draw",
                                         [CPU_STEP_FALLBACK] = "evaluate",
                                         [CPU_STEP_TRANSFER] = "transfer",
                                         [CPU_STEP_SEND] = "send",
                                         [CPU_STEP_RECEIVE] = "receive"};
    return kNames[kind];
}

// Bases are numbered: arena, constants, arguments, results (graph/graph.h).
static void print_slice(const CpuExecutable *executable, CpuSlice slice, HloText *text) {
    assert(text);
    const int64_t argument = slice.base - CPU_BASE_FIRST_ARGUMENT;
    if (slice.base == CPU_BASE_ARENA)
        hlo_text_format(text, " temp+%lld", (long long)slice.offset);
    else if (slice.base == CPU_BASE_CONSTANTS)
        hlo_text_format(text, " constant+%lld", (long long)slice.offset);
    else if (argument < executable->signature.argument_count)
        hlo_text_format(text, " argument%lld", (long long)argument);
    else
        hlo_text_format(text, " result%lld", (long long)(argument - executable->signature.argument_count));
}

// Indents a region's lists below their thunk.
static void print_list(const CpuExecutable *executable, const CpuThunkList *list, int indent, HloText *text) {
    assert(text && indent >= 0);
    for (int64_t i = 0; i < list->count; i++) {
        const CpuThunk *thunk = &list->thunks[i];
        hlo_text_format(text, "%*s%s %%%s:", indent, "", kind_name(thunk->kind), thunk->name);
        for (int32_t k = 0; k < thunk->read_count + thunk->write_count; k++) {
            if (k == thunk->read_count) hlo_text_string(text, " ->");
            print_slice(executable, thunk->slices[k], text);
        }
        hlo_text_format(text, " cost %.0f\n", thunk->cost);
        for (int32_t k = 0; k < thunk->region_count; k++) {
            hlo_text_format(text, "%*sregion %d\n", indent, "", (int)k);
            print_list(executable, &thunk->regions[k], indent + 2, text);
        }
    }
    for (int32_t i = 0; i < list->end_copy_count; i++) {
        hlo_text_format(text, "%*scopy", indent, "");
        print_slice(executable, list->end_copies[i].from, text);
        hlo_text_string(text, " ->");
        print_slice(executable, list->end_copies[i].to, text);
        hlo_text_format(text, " %lld bytes\n", (long long)list->end_copies[i].bytes);
    }
}

void cpu_executable_print(const CpuExecutable *executable, HloText *text) {
    hlo_text_format(text, "%s: %lld bytes of temporaries, %lld of constants\n", executable->module->name,
                    (long long)executable->signature.arena_bytes, (long long)executable->signature.constant_bytes);
    print_list(executable, &executable->entry, 0, text);
}
