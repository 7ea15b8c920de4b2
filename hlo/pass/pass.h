// SPDX-License-Identifier: Apache-2.0
// Passes: functions that rewrite a module, and the runner that runs lists of them.
//
//     static const char *const names[] = {"call-inliner", "simplify", "dce"};
//     HloPassOptions options = {.dump_folder = "dumps", .dump_pattern = ".*"};
//     HloStatus status = hlo_run_passes(module, names, 3, &options);
//
// A pass only rewrites; the runner does the rest: it restores the order of instructions, verifies the module after
// every pass that changed it, times it, dumps it, and checks that a pass that reports no change made none. Passes
// preserve the results of a program: integers and exact ops bit for bit, and floats too (no reassociation, and x*0 is
// not 0). Passes are listed in hlo/pass/passes.def, pipelines (which run like one pass) in hlo/pass/pipeline.c.
//
// Stability: stable.
//
// Terms:
//   pass       a function that rewrites a module; it has a name and a row in passes.def.
//   pipeline   a named list of passes that runs like one pass.
//   rule       a function of the algebraic simplifier: one instruction in, its replacement or NULL out (simplify/).
//   expander   a pass that rewrites an op in terms of others.
//   padder     the pass that gives arrays of dynamic size their bounds and masks the elements beyond the size (pad/).
//   invariant  a value that is the same in every iteration of a loop.
#ifndef MESHLO_HLO_PASS_PASS_H_
#define MESHLO_HLO_PASS_PASS_H_

#include "hlo/ir/module.h"

HLO_BEGIN_C

// The input of a pass besides the module.
typedef struct HloPassEnv {
    HloArena *scratch;            // freed after the pass
    int64_t fold_elements;        // largest result of constant folding, in elements
    int64_t unroll_instructions;  // largest body times trip count that is unrolled
    bool keep_products;           // constant folding does not fold floating-point products
    bool before_partitioning;     // see HloPassOptions
} HloPassEnv;

// Rewrites `module`; sets *changed if it did. Runs below hlo_protect(). May append new instructions at the end of their
// computation's list; may leave unused ones there.
typedef HloStatus HloPassFunction(HloModule *module, const HloPassEnv *env, bool *changed);

typedef struct HloPass {
    const char *name;
    const char *summary;
    HloPassFunction *run;
} HloPass;

// Passes that run one after the other, repeatedly until nothing changes, at most `iterations` times.
typedef struct HloPipeline {
    const char *name;
    const char *summary;
    const char *const *passes;
    int32_t count;
    int32_t iterations;
} HloPipeline;

#define HLO_PASS(function, name, summary) HloPassFunction hlo_pass_##function;
#include "hlo/pass/passes.def"
#undef HLO_PASS

// The pass with this name, or NULL. Static storage, any thread.
HLO_EXPORT const HloPass *hlo_pass_find(const char *name);
// Pass number `index`, alphabetically; NULL after the last.
HLO_EXPORT const HloPass *hlo_pass_at(int64_t index);
// The pipeline with this name, or NULL.
HLO_EXPORT const HloPipeline *hlo_pipeline_find(const char *name);
// Pipeline number `index`; NULL after the last.
HLO_EXPORT const HloPipeline *hlo_pipeline_at(int64_t index);

// Whether "stack-expander" replaces the instruction, a reduction over the dimension of stacked arrays. Any thread.
HLO_EXPORT bool hlo_is_reduction_of_stacks(const HloInstruction *instruction);

// The result of one run of one pass.
typedef struct HloPassEvent {
    const char *pass;
    int64_t number;  // of the run, from 0
    bool changed;
    int64_t nanoseconds;  // of the pass itself
    const HloModule *module;
} HloPassEvent;

// Options of a run. Zero-initialised means the defaults, and so does NULL.
typedef struct HloPassOptions {
    // Trusts the passes: neither verifies the module after each that changed it, nor compares hashes after each that
    // reports no change. Together these checks cost as much as the passes. The input is never verified.
    bool skip_verify;
    const char *dump_folder;      // write module_NNNN.NAME.STAGE.txt there, as XLA names them; NULL: nowhere
    const char *dump_pattern;     // POSIX extended regular expression: passes to dump after; NULL: only first and last
    int64_t module_number;        // NNNN
    int64_t fold_elements;        // see HloPassEnv; 0: 1,048,576
    int64_t unroll_instructions;  // see HloPassEnv; 0: 256
    // Constants are folded in exact arithmetic, but a TPU by default multiplies f32 as bf16: if it is not known on
    // which machine the program will run, set this to leave products of floats to the machine.
    bool keep_products;
    // The program will be partitioned later: products keep the dimensions that the annotations of their operands refer
    // to.
    bool before_partitioning;
    void (*observe)(void *context, const HloPassEvent *event);  // called after every pass
    void *context;
} HloPassOptions;

// Runs passes and pipelines by name, in order. NOT_FOUND for an unknown name (before anything runs); an error of a
// pass, a dump or the verifier is returned with the name of the pass, and the module must then only be freed.
HLO_EXPORT HLO_NODISCARD HloStatus hlo_run_passes(HloModule *module, const char *const *names, int64_t count,
                                                  const HloPassOptions *options);
// Runs passes that need not be in the registry; for other parts of Meshlo with private passes.
HLO_EXPORT HLO_NODISCARD HloStatus hlo_run_pass_list(HloModule *module, const HloPass *const *passes, int64_t count,
                                                     const HloPassOptions *options, bool *changed);

HLO_END_C

#endif
