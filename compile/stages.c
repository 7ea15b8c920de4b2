// SPDX-License-Identifier: Apache-2.0
// What each stage of the pipeline does. pipeline.c has their order.
#include "compile/stages.h"

#include <assert.h>

#include "compile/donors.h"
#include "hlo/analysis/calls.h"
#include "hlo/analysis/contents.h"
#include "hlo/base/clock.h"
#include "hlo/pass/pass.h"
#include "hlo/text/text.h"
#include "hlo/verify/verify.h"
#include "spmd_partitioner/boundary.h"
#include "spmd_partitioner/passes/passes.h"

// ---- the ends of the pipeline

// A scheduled program is the output of a compiler, which has simplified it already and decided the order.
HloStatus compile_take_input(Compilation *compilation) {
    const CompileOptions *options = compilation->options;
    CompiledModule *result = compilation->result;
    HLO_FAIL_IF(!compilation->input->entry, HLO_INVALID_ARGUMENT, "module %s has no entry computation",
                compilation->input->name);
    result->was_per_device = options->is_per_device || spmd_is_partitioned(compilation->input);
    // A copy on the requested mesh, where that differs from the program's.
    if (options->spmd.mesh_axis_count && !result->was_per_device)
        HLO_TRY(spmd_remesh(compilation->input, options->spmd.mesh, options->spmd.mesh_axis_count, &result->module));
    if (!result->module) result->module = hlo_module_clone(compilation->input);
    HLO_FAIL_IF(!result->module, HLO_RESOURCE_EXHAUSTED, "no memory for a program");
    compilation->optimises = !options->no_optimise && !result->module->is_scheduled;
    if (compilation->optimises && !result->was_per_device)
        compile_forget_derived_layouts(result->module, !options->layouts.machine);
    return compile_ask_layouts(result->module, &options->layouts, compilation->arena, &compilation->entry_layouts);
}

HloStatus compile_make_report(Compilation *compilation) {
    HLO_TRY(spmd_report_new(compilation->result->module, &compilation->result->report));
    compilation->result->report->seconds = compilation->partition_seconds;
    return HLO_SUCCESS;
}

// ---- running passes

// Passes of the pipeline are trusted: the runner's checks after each of them cost as much as the passes themselves, and
// the tests make them for all.
static HloStatus run_passes(Compilation *compilation, const char *const *names, int64_t count) {
    const HloPassOptions options = {.skip_verify = true,
                                    .keep_products = true,
                                    .before_partitioning = !compilation->result->was_per_device &&
                                                           !spmd_is_partitioned(compilation->result->module),
                                    .observe = compilation->dumper.has_pass_pattern ? compile_dump_observe : NULL,
                                    .context = &compilation->dumper};
    return hlo_run_passes(compilation->result->module, names, count, &options);
}

#define RUN(compilation, ...)                                   \
    run_passes(compilation, (const char *const[]){__VA_ARGS__}, \
               (int64_t)(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *)))

// ---- the stages

HloStatus compile_stage_verify(Compilation *compilation) {
    return hlo_verify(compilation->input);
}

// Nested calls can expand to more copies than memory holds. Such a program keeps its calls and is not simplified; a
// target that needs the copies refuses it.
static HloStatus check_copies(Compilation *compilation) {
    HloArena *scratch = hlo_arena_scratch_new();
    HloStatus status = hlo_check_call_copies(compilation->result->module, scratch);
    hlo_arena_free(scratch);
    if (hlo_status_code(status) != HLO_UNIMPLEMENTED) return status;
    hlo_status_free(status);
    compilation->optimises = false;
    return HLO_SUCCESS;
}

// Sharding propagation then sees through calls, and loops fuse across them.
HloStatus compile_stage_inline_calls(Compilation *compilation) {
    HLO_TRY(check_copies(compilation));
    if (!compilation->optimises) return HLO_SUCCESS;
    return RUN(compilation, "call-inliner", "tuple-simplifier", "dce");
}

// For one device the stage simplify does the same. Einsums that a TPU compiler wrote as convolutions become dots, where
// partitioning sends less for these, gathers of known rows become slices (simplify/gather.c), and components that count
// become batching dimensions (simplify/batching.c). The canonical forms of dots and convolutions are no part of this:
// they merge dimensions, which hides how these are sharded. Measured over 127 programs they never send less, and more
// in four (benchmarks/measurements.md).
HloStatus compile_stage_simplify_whole(Compilation *compilation) {
    if (compilation->devices == 1) return HLO_SUCCESS;
    if (hlo_module_has(compilation->result->module, HLO_OP_CONVOLUTION))
        HLO_TRY(RUN(compilation, "convolution-to-dot"));
    return RUN(compilation, "simplify-before-partitioning");
}

// Halves of collectives are made at the end of the pipeline, when it is known what remains between them.
HloStatus compile_stage_partition(Compilation *compilation) {
    SpmdOptions options = compilation->options->spmd;
    HloModule *partitioned = NULL;
    if (compilation->devices == 1 && options.shard_count == 0) return spmd_keep_whole(compilation->result->module);
    const int64_t start = hlo_clock_nanoseconds();
    options.overlaps = options.async;
    options.async = false;
    // Inlining leaves an order that depends on how calls were read; the choice of what is joined depends on the order.
    hlo_order_as_printed(compilation->result->module);
    HLO_TRY(spmd_partition(compilation->result->module, &options, &partitioned, NULL));
    compilation->partition_seconds = 1e-9 * (double)(hlo_clock_nanoseconds() - start);
    hlo_module_free(compilation->result->module);
    compilation->result->module = partitioned;
    return HLO_SUCCESS;
}

// Which pass replaces which operation, in the order in which they run.
static const struct {
    HloOpcode opcode;
    const char *pass;
} kExpansions[] = {
    {HLO_OP_BATCH_NORM_TRAINING, "batch-norm-expander"},
    {HLO_OP_BATCH_NORM_INFERENCE, "batch-norm-expander"},
    {HLO_OP_BATCH_NORM_GRAD, "batch-norm-expander"},
    {HLO_OP_SCAN, "scan-expander"},
};

// Operations with control edges stay as they are; the target replaces these itself.
HloStatus compile_stage_expand(Compilation *compilation) {
    for (size_t i = 0; i < HLO_COUNT_OF(kExpansions); i++) {
        if (hlo_module_has(compilation->result->module, kExpansions[i].opcode))
            HLO_TRY(RUN(compilation, kExpansions[i].pass));
    }
    return HLO_SUCCESS;
}

// The root's annotations of the whole results would keep passes from replacing it.
HloStatus compile_stage_simplify(Compilation *compilation) {
    HloModule *module = compilation->result->module;
    const SpmdResultMarks marks = spmd_boundary_take_results(module);
    HLO_TRY(RUN(compilation, "simplify"));
    spmd_boundary_put_results(module, &marks);
    return HLO_SUCCESS;
}

HloStatus compile_stage_layouts(Compilation *compilation) {
    return compile_resolve_layouts(compilation->result->module, &compilation->options->layouts,
                                   &compilation->entry_layouts);
}

// Donors are aliases afterwards, or the caller's.
HloStatus compile_stage_donation(Compilation *compilation) {
    HloModule *module = compilation->result->module;
    HLO_TRY(compile_match_donors(module->arena, module, &compilation->options->layouts, &module->aliases));
    module->donors = NULL;
    module->donor_count = 0;
    return HLO_SUCCESS;
}

static bool moves_between_memories(const HloInstruction *at) {
    return hlo_is(at, HLO_OP_COPY) && hlo_shape_is_array(at->shape) &&
           hlo_shape_memory_space(at->shape) != hlo_shape_memory_space(at->operands[0]->shape);
}

// The passes look for values that layouts put into another memory, and so run after layouts are known.
HloStatus compile_stage_offload(Compilation *compilation) {
    const HloModule *module = compilation->result->module;
    if (module->is_scheduled) return HLO_SUCCESS;  // keep the copies that another compiler placed
    for (int64_t c = 0; c < module->computations.count; c++)
        for (const HloInstruction *at = module->computations.items[c]->first; at; at = at->next)
            if (moves_between_memories(at)) return RUN(compilation, "offload");
    return HLO_SUCCESS;
}

HloStatus compile_stage_overlap(Compilation *compilation) {
    HloArena *scratch = hlo_arena_scratch_new();
    HloStatus status = spmd_make_async(compilation->result->module, scratch);
    hlo_arena_free(scratch);
    return status;
}
