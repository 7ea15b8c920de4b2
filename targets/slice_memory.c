// SPDX-License-Identifier: Apache-2.0
// The memory of a program on a slice, and programs for a slice that need not exist. Such a program is only asked about:
// its signature is read from the module, and nothing is compiled, so that kernels and other calls that nothing here
// could run are no obstacle.
#include <assert.h>

#include "compile/donors.h"
#include "emulator/simulate.h"
#include "hlo/analysis/aliases.h"
#include "hlo/analysis/contents.h"
#include "spmd_partitioner/passes/passes.h"
#include "targets/internal.h"

// ---- the signature of a program that never runs

// The shapes of all leaves of a value, without layouts, after the first `*count` of a list.
static void add_leaves(HloArena *arena, const HloShape *shape, const HloShape **shapes, int64_t *count) {
    const int64_t leaves = hlo_shape_leaf_count(shape);
    for (int64_t i = 0; i < leaves; i++)
        shapes[(*count)++] = hlo_shape_without_layout(arena, hlo_shape_copy(arena, hlo_shape_leaf(shape, i)));
}

// Which argument each result takes over, and which arguments are donated.
static HloStatus match_donors(const HloModule *module, TargetExecutable *executable, int64_t *result_alias,
                              bool *donated) {
    const CompileLayouts layouts = {.machine = target_machine_layout, .context = executable->devices[0]};
    HloAliases aliases;
    HLO_TRY(compile_match_donors(executable->arena, module, &layouts, &aliases));
    hlo_alias_arguments(executable->arena, module, &aliases, result_alias);
    for (int64_t i = 0; i < hlo_shape_leaf_count(module->entry->root->shape); i++)
        if (result_alias[i] >= 0) donated[result_alias[i]] = true;
    return HLO_SUCCESS;
}

static int64_t constant_bytes(const HloModule *module) {
    int64_t bytes = 0;
    for (int64_t c = 0; c < module->computations.count; c++)
        for (const HloInstruction *at = module->computations.items[c]->first; at; at = at->next)
            if (hlo_is(at, HLO_OP_CONSTANT)) bytes += hlo_shape_bytes(at->shape);
    return bytes;
}

HloStatus target_inspect_signature(const HloModule *module, TargetExecutable *executable) {
    assert(module && executable && !executable->arena);
    HLO_FAIL_IF(!module->entry, HLO_INVALID_ARGUMENT, "module %s has no entry computation", module->name);
    HloArena *arena = executable->arena = hlo_arena_new();
    HLO_FAIL_IF(!arena, HLO_RESOURCE_EXHAUSTED, "no memory for an executable");
    const HloComputation *entry = module->entry;
    CpuSignature *signature = HLO_ARENA_NEW(arena, CpuSignature, 1);
    int64_t arguments = 0;
    for (int64_t i = 0; i < entry->parameters.count; i++)
        arguments += hlo_shape_leaf_count(entry->parameters.items[i]->shape);
    const int64_t results = hlo_shape_leaf_count(entry->root->shape);
    const HloShape **argument_shapes = HLO_ARENA_NEW(arena, const HloShape *, arguments);
    const HloShape **result_shapes = HLO_ARENA_NEW(arena, const HloShape *, results);
    bool *donated = HLO_ARENA_NEW(arena, bool, arguments);
    int64_t *result_alias = HLO_ARENA_NEW(arena, int64_t, results);
    for (int64_t i = 0; i < entry->parameters.count; i++)
        add_leaves(arena, entry->parameters.items[i]->shape, argument_shapes, &signature->argument_count);
    add_leaves(arena, entry->root->shape, result_shapes, &signature->result_count);
    HLO_TRY(match_donors(module, executable, result_alias, donated));
    signature->argument_shapes = argument_shapes;
    signature->result_shapes = result_shapes;
    signature->argument_donated = donated;
    signature->result_alias = result_alias;
    signature->constant_bytes = constant_bytes(module);
    signature->fallbacks = "";
    SpmdReport *report = NULL;
    HLO_TRY(spmd_report_new(module, &report));
    signature->collective_count = report->collective_count;
    for (int64_t i = 0; i < report->collective_count; i++)
        signature->collective_bytes += (double)report->collectives[i].bytes_per_device;
    spmd_report_free(report);
    executable->signature = signature;
    return HLO_SUCCESS;
}

// ---- memory

typedef struct SplitCall {
    HloModule *module;
    HloArena *scratch;
} SplitCall;

static HloStatus split_collectives(void *argument) {
    SplitCall *call = argument;
    return spmd_make_async(call->module, call->scratch);
}

// Simulates the program as `meshlo emulate` does, with collectives in halves where the chip overlaps them. A compiler
// for the slice would split them; the program has them whole, because nothing is gained by halves when it runs here.
static HloStatus simulate(const TargetExecutable *executable, const HloModule *module, EmuReport **report) {
    const EmuTopology *topology = executable->client->topology;
    if (!emu_topology_overlaps(topology) || module->is_scheduled || !hlo_module_has_collectives(module))
        return emu_simulate(module, topology, NULL, report);
    SplitCall call = {hlo_module_clone(module), hlo_arena_new()};
    HloStatus status = call.module && call.scratch
                           ? hlo_protect(split_collectives, &call)
                           : hlo_error(HLO_RESOURCE_EXHAUSTED, "no memory for a memory analysis");
    if (!status) status = emu_simulate(call.module, topology, NULL, report);
    hlo_arena_free(call.scratch);
    hlo_module_free(call.module);
    return status;
}

HloStatus target_slice_memory(const TargetExecutable *executable, const HloModule *module,
                              TargetMemoryAnalysis *analysis, EmuReport **result) {
    assert(executable && module && analysis);
    EmuReport *report = NULL;
    target_dense_memory(executable, analysis);  // what is in the host's memory is dense
    HLO_TRY(simulate(executable, module, &report));
    analysis->argument_bytes = report->argument_bytes;
    analysis->output_bytes = report->output_bytes;
    analysis->alias_bytes = report->alias_bytes;
    analysis->temporary_bytes = report->temp_bytes;
    analysis->peak_bytes = report->hbm_peak_bytes;
    if (result)
        *result = report;
    else
        emu_report_free(report);
    return HLO_SUCCESS;
}
