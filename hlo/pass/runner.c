// SPDX-License-Identifier: Apache-2.0
// The runner: verifies, times, dumps and checks, so that passes need not.
//
// A pass is a function that reports whether it changed something. The runner measures its time, restores the order of
// the lists of computations (passes append), verifies the module, and compares hashes if the pass reports no change.
// Everything that allocates from an arena runs under hlo_protect(), which is why the steps are functions of one
// argument.
#include <assert.h>
#include <regex.h>

#include "hlo/base/clock.h"
#include "hlo/base/file.h"
#include "hlo/pass/pass.h"
#include "hlo/text/text.h"
#include "hlo/verify/verify.h"

enum { DEFAULT_FOLD_ELEMENTS = 1 << 20, DEFAULT_UNROLL_INSTRUCTIONS = 256 };

typedef struct Run {
    HloModule *module;
    HloPassOptions options;
    const char *pipeline;  // for dump names
    regex_t pattern;
    bool has_pattern;
    int64_t number;  // runs of passes so far
    uint64_t hash;   // of the current module, if `has_hash`
    bool has_hash;
} Run;

// Names are those of XLA's --xla_dump_to, so that existing scripts find them.
static HloStatus dump(const Run *run, const char *stage) {
    assert(run->module && stage);
    HloText path = {0}, text = {0};
    HloPrintOptions print = hlo_print_default();
    hlo_text_format(&path, "%s/module_%04lld.", run->options.dump_folder, (long long)run->options.module_number);
    hlo_file_name_part(&path, run->module->name);
    hlo_text_format(&path, ".%s.txt", stage);
    HloStatus status = hlo_print(run->module, &print, &text);
    if (!status) status = hlo_text_status(&path);
    if (!status) status = hlo_file_write(path.data, text.data, text.length);
    hlo_text_free(&path);
    hlo_text_free(&text);
    return status;
}

// Dumps the module after one pass, if the user's pattern matches it.
static HloStatus dump_after(const Run *run, const char *pass) {
    if (!run->options.dump_folder || !run->has_pattern || regexec(&run->pattern, pass, 0, NULL, 0) != 0) {
        return HLO_SUCCESS;
    }
    HloText stage = {0};
    hlo_text_format(&stage, "%04lld.%s.after_%s", (long long)run->number, run->pipeline, pass);
    HloStatus status = hlo_text_status(&stage);
    if (!status) status = dump(run, stage.data);
    hlo_text_free(&stage);
    return status;
}

typedef struct PassCall {
    const HloPass *pass;
    HloModule *module;
    HloPassEnv env;
    bool changed;
} PassCall;

// Runs the pass itself, with a scratch arena that lives as long as it runs.
static HloStatus pass_body(void *argument) {
    PassCall *call = argument;
    call->env.scratch = hlo_arena_scratch_new();
    HloStatus status = call->pass->run(call->module, &call->env, &call->changed);
    hlo_arena_free(call->env.scratch);
    return status;
}

// True if operands and control predecessors come first; `passed` has a mark for every id of the module. Passes append
// their new instructions and leave the order to the runner; checking is much cheaper than sorting.
static bool is_in_order(const HloComputation *computation, bool *passed) {
    for (const HloInstruction *i = computation->first; i; i = i->next) {
        for (int64_t k = 0; k < i->operand_count; k++) {
            if (!passed[i->operands[k]->id]) return false;
        }
        for (int64_t k = 0; k < i->control_predecessors.count; k++) {
            if (!passed[i->control_predecessors.items[k]->id]) return false;
        }
        passed[i->id] = true;
    }
    return true;
}

// Sorts only lists that are out of order: most passes touch one computation of many, or none.
static HloStatus sort_body(void *argument) {
    HloModule *module = argument;
    HloArena *scratch = hlo_arena_scratch_new();
    bool *passed = HLO_ARENA_NEW(scratch, bool, module->instruction_limit);
    for (int64_t i = 0; i < module->computations.count; i++) {
        if (!is_in_order(module->computations.items[i], passed)) hlo_computation_sort(module->computations.items[i]);
    }
    hlo_arena_free(scratch);
    return HLO_SUCCESS;
}

typedef struct HashCall {
    const HloModule *module;
    uint64_t hash;
} HashCall;

// Computes the hash of everything that printing shows except names.
static HloStatus hash_body(void *argument) {
    HashCall *call = argument;
    call->hash = hlo_module_hash(call->module);
    return HLO_SUCCESS;
}

// A pass that wrongly reports no change would end a pipeline's iterations too early, or skip the verifier. The hash
// makes the first test in which that happens fail.
static HloStatus after_pass(Run *run, const PassCall *call) {
    assert(call && run->module);
    if (!call->changed) {
        HashCall after = {.module = run->module};
        if (run->options.skip_verify) return HLO_SUCCESS;
        HLO_TRY(hlo_protect(hash_body, &after));
        HLO_FAIL_IF(after.hash != run->hash, HLO_INTERNAL, "the pass changed the module, but reported no change");
        return HLO_SUCCESS;
    }
    run->has_hash = false;
    HLO_TRY(hlo_protect(sort_body, run->module));
    if (run->options.skip_verify) return HLO_SUCCESS;
    HloStatus status = hlo_verify(run->module);
    if (!status) return HLO_SUCCESS;
    // If the module was valid before the pass and is not after it, the error is ours, not the user's.
    HloStatus internal = hlo_error(HLO_INTERNAL, "the pass broke the module: %s", hlo_status_message(status));
    hlo_status_free(status);
    return internal;
}

// Computes the hash of the module before a pass. A pass that changed nothing keeps the previous hash.
static HloStatus find_hash(Run *run) {
    HashCall before = {.module = run->module};
    if (run->has_hash || run->options.skip_verify) return HLO_SUCCESS;
    HLO_TRY(hlo_protect(hash_body, &before));
    run->hash = before.hash;
    run->has_hash = true;
    return HLO_SUCCESS;
}

// Runs one pass with everything around it; errors name the pass.
static HloStatus run_one(Run *run, const HloPass *pass, bool *changed) {
    assert(pass && pass->run && changed);
    PassCall call = {.pass = pass,
                     .module = run->module,
                     .env = {.fold_elements = run->options.fold_elements,
                             .unroll_instructions = run->options.unroll_instructions,
                             .keep_products = run->options.keep_products,
                             .before_partitioning = run->options.before_partitioning}};
    HLO_TRY(find_hash(run));
    int64_t start = hlo_clock_nanoseconds();
    HloStatus status = hlo_protect(pass_body, &call);
    int64_t end = hlo_clock_nanoseconds();
    if (!status) status = after_pass(run, &call);
    if (!status) status = dump_after(run, pass->name);
    if (status) return hlo_status_annotate(status, "pass %s", pass->name);
    *changed |= call.changed;
    HloPassEvent event = {pass->name, run->number++, call.changed, end - start, run->module};
    if (run->options.observe) run->options.observe(run->options.context, &event);
    return HLO_SUCCESS;
}

// Iterates until nothing changes, but not forever: two passes that undo each other must not hang a compilation. The
// last iteration ends at the pass that made the last change: those after it have already seen the current module.
static HloStatus run_pipeline(Run *run, const HloPipeline *pipeline) {
    assert(pipeline);
    run->pipeline = pipeline->name;
    int32_t unchanged = 0;  // consecutive passes that changed nothing
    for (int32_t n = 0; n < pipeline->iterations * pipeline->count && unchanged < pipeline->count; n++) {
        bool changed = false;
        HLO_TRY(run_one(run, hlo_pass_find(pipeline->passes[n % pipeline->count]), &changed));
        unchanged = changed ? 0 : unchanged + 1;
    }
    return HLO_SUCCESS;
}

// Starts a run, with its options filled in. The pattern is compiled before anything runs, since it is the user's.
static HloStatus start(Run *run, HloModule *module, const HloPassOptions *options) {
    *run = (Run){.module = module, .pipeline = "passes"};
    if (options) run->options = *options;
    if (run->options.fold_elements <= 0) run->options.fold_elements = DEFAULT_FOLD_ELEMENTS;
    if (run->options.unroll_instructions <= 0) run->options.unroll_instructions = DEFAULT_UNROLL_INSTRUCTIONS;
    if (run->options.dump_pattern) {
        HLO_FAIL_IF(regcomp(&run->pattern, run->options.dump_pattern, REG_EXTENDED | REG_NOSUB) != 0,
                    HLO_INVALID_ARGUMENT, "'%s' is not a regular expression", run->options.dump_pattern);
        run->has_pattern = true;
    }
    return HLO_SUCCESS;
}

// Writes the dumps before the first and after the last pass, for which a folder suffices.
static HloStatus dump_if_wanted(const Run *run, const char *stage) {
    return run->options.dump_folder ? dump(run, stage) : HLO_SUCCESS;
}

// Runs names in order: each is a pipeline with its iterations, or a single pass.
static HloStatus run_names(Run *run, const char *const *names, int64_t count) {
    assert(count >= 0);
    HLO_TRY(dump_if_wanted(run, "before_optimizations"));
    for (int64_t i = 0; i < count; i++) {
        const HloPipeline *pipeline = hlo_pipeline_find(names[i]);
        bool changed = false;
        run->pipeline = "passes";
        if (pipeline)
            HLO_TRY(run_pipeline(run, pipeline));
        else
            HLO_TRY(run_one(run, hlo_pass_find(names[i]), &changed));
    }
    return dump_if_wanted(run, "after_optimizations");
}

// All names are looked up before anything runs, so that a misspelt name at the end leaves the module unchanged.
HloStatus hlo_run_passes(HloModule *module, const char *const *names, int64_t count, const HloPassOptions *options) {
    assert(module && count >= 0 && (names || count == 0));
    for (int64_t i = 0; i < count; i++) {
        HLO_FAIL_IF(!hlo_pass_find(names[i]) && !hlo_pipeline_find(names[i]), HLO_NOT_FOUND,
                    "there is no pass or pipeline called %s", names[i]);
    }
    Run run;
    HLO_TRY(start(&run, module, options));
    HloStatus status = run_names(&run, names, count);
    if (run.has_pattern) regfree(&run.pattern);
    return status;
}

// For callers that have the passes themselves: no names, no dumps before the first and after the last pass.
HloStatus hlo_run_pass_list(HloModule *module, const HloPass *const *passes, int64_t count,
                            const HloPassOptions *options, bool *changed) {
    assert(module && count >= 0 && (passes || count == 0));
    Run run;
    HloStatus status = HLO_SUCCESS;
    HLO_TRY(start(&run, module, options));
    for (int64_t i = 0; i < count && !status; i++) status = run_one(&run, passes[i], changed);
    if (run.has_pattern) regfree(&run.pattern);
    return status;
}
