// SPDX-License-Identifier: Apache-2.0
// The order of the pipeline, in one function, and what surrounds each stage: timing and dumps.
//
// Everything works on one copy of the caller's module; partitioning replaces it by a new one. Stages are functions of
// stages.c, numbered and named by stages.def. Memory errors jump from any depth to compile_module(), which owns all
// that has been made by then.
#include "compile/pipeline.h"

#include <assert.h>

#include "compile/stages.h"
#include "hlo/base/clock.h"

static const char *const kStages[] = {
#define COMPILE_STAGE(id, function, name, summary) name,
#include "compile/stages.def"
#undef COMPILE_STAGE
};

const char *compile_stage_name(CompileStage stage) {
    return kStages[stage];
}

// Runs one stage, times it, and dumps its result.
static HloStatus run_stage(Compilation *compilation, CompileStage stage, CompileStageFunction *function) {
    const int64_t start = hlo_clock_nanoseconds(), processor_start = hlo_clock_thread_nanoseconds();
    compilation->dumper.stage = kStages[stage];
    HLO_TRY(function(compilation));
    compilation->result->stage_nanoseconds[stage] = hlo_clock_nanoseconds() - start;
    compilation->result->processor_nanoseconds[stage] = hlo_clock_thread_nanoseconds() - processor_start;
    const HloModule *module = compilation->result->module ? compilation->result->module : compilation->input;
    return compile_dump_after_stage(&compilation->dumper, module);
}

#define STAGE(id, function) HLO_TRY(run_stage(compilation, COMPILE_STAGE_##id, compile_stage_##function))

// The whole compiler up to the target, under hlo_protect().
static HloStatus run_pipeline(void *argument) {
    Compilation *compilation = argument;
    CompiledModule *result = compilation->result;
    const CompileOptions *options = compilation->options;

    if (!options->is_verified) STAGE(VERIFY, verify);
    HLO_TRY(compile_dump(&compilation->dumper, compilation->input, "before_optimizations"));
    HLO_TRY(compile_take_input(compilation));
    if (compilation->optimises) STAGE(INLINE, inline_calls);
    if (!result->was_per_device) {
        HLO_TRY(spmd_device_count(result->module, &options->spmd, &compilation->devices));
        if (compilation->optimises) STAGE(SIMPLIFY_WHOLE, simplify_whole);
        STAGE(PARTITION, partition);
        HLO_TRY(compile_dump(&compilation->dumper, result->module, "after_spmd_partitioning"));
    }
    HLO_TRY(spmd_boundary_new(result->module, &result->boundary));
    if (compilation->optimises) {
        STAGE(EXPAND, expand);
        STAGE(SIMPLIFY, simplify);
    }
    if (options->layouts.machine && options->layouts.open) STAGE(LAYOUTS, layouts);
    STAGE(DONATION, donation);
    STAGE(OFFLOAD, offload);
    if (options->spmd.async) STAGE(OVERLAP, overlap);

    HLO_TRY(compile_dump(&compilation->dumper, result->module, "after_optimizations"));
    return compile_make_report(compilation);
}

HloStatus compile_module(const HloModule *module, const CompileOptions *options, CompiledModule **compiled) {
    assert(module && compiled);
    static const CompileOptions kDefaults = {0};
    CompiledModule *result = hlo_allocate_zeroed(1, sizeof *result);
    HLO_FAIL_IF(!result, HLO_RESOURCE_EXHAUSTED, "no memory for a program");
    Compilation compilation = {.input = module, .options = options ? options : &kDefaults, .result = result};
    HloStatus status = compile_dumper_open(&compilation.dumper, &compilation.options->dump, module);
    compilation.arena = hlo_arena_new();
    if (!status && !compilation.arena) status = hlo_error(HLO_RESOURCE_EXHAUSTED, "no memory for a program");
    if (!status) status = hlo_protect(run_pipeline, &compilation);
    result->dump_failure = compile_dumper_close(&compilation.dumper);
    hlo_arena_free(compilation.arena);
    if (status)
        compiled_module_free(result);
    else
        *compiled = result;
    return status;
}

void compiled_module_free(CompiledModule *compiled) {
    if (!compiled) return;
    spmd_report_free(compiled->report);
    spmd_boundary_free(compiled->boundary);
    hlo_module_free(compiled->module);
    hlo_status_free(compiled->dump_failure);
    hlo_free(compiled);
}
