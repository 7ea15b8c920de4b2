// SPDX-License-Identifier: Apache-2.0
// Passes: functions that rewrite a module, and the runner that runs lists of them.
//
//     static const char *const names[] = {"call-inliner", "simplify", "dce"};
//     HloPassOptions options = {.dump_folder = "dumps", .dump_pattern = ".*"};
//     HloStatus status = hlo_run_passes(module, names, 3, &options);
//
// A pass only rewrites; the runner does the rest: it puts instructions in order, verifies the module after every pass
// that changed it, times it, dumps it, and checks that a pass which says that nothing changed tells the truth. Passes
// change nothing about what a program computes: integers and exact ops bit for bit, floats too (no reassociation, no
// x*0 -> 0). Passes are listed in hlo/pass/passes.def, pipelines (which run like one pass) in hlo/pass/pipeline.c.
//
// Stability: stable.
//
// Terms:
//   pass       a function that rewrites a module; it has a name and a row in passes.def.
//   pipeline   a named list of passes that runs like one pass.
//   rule       a function of the algebraic simplifier: one instruction in, its replacement or NULL out (simplify/).
//   expander   a pass that spells an op out as others.
//   padder     the pass that gives arrays of dynamic size their bounds and masks what lies beyond the size (pad/).
//   invariant  what has the same value in every iteration of a loop.
#ifndef MESHLO_HLO_PASS_PASS_H_
#define MESHLO_HLO_PASS_PASS_H_

#include "hlo/ir/module.h"

HLO_BEGIN_C

// What a pass gets besides the module.
typedef struct HloPassEnv {
    HloArena *scratch;            // dropped after the pass
    int64_t fold_elements;        // largest result of constant folding, in elements
    int64_t unroll_instructions;  // largest body times trip count that is unrolled
    bool keep_products;           // constant folding leaves floating products alone
    bool before_partitioning;     // see HloPassOptions
} HloPassEnv;

// Rewrites `module`; sets *changed when it did. Runs below hlo_protect(). May leave new instructions at the end of
// their computation's list; may leave unused ones behind.
typedef HloStatus HloPassFunction(HloModule *module, const HloPassEnv *env, bool *changed);

typedef struct HloPass {
    const char *name;
    const char *summary;
    HloPassFunction *run;
} HloPass;

// Passes that run one after the other, again and again until nothing changes, `rounds` times at most.
typedef struct HloPipeline {
    const char *name;
    const char *summary;
    const char *const *passes;
    int32_t count;
    int32_t rounds;
} HloPipeline;

#define HLO_PASS(function, name, summary) HloPassFunction hlo_pass_##function;
#include "hlo/pass/passes.def"
#undef HLO_PASS

// The pass of that name, or NULL. Static storage, any thread.
HLO_EXPORT const HloPass *hlo_pass_find(const char *name);
// Pass number `index`, alphabetically; NULL behind the last.
HLO_EXPORT const HloPass *hlo_pass_at(int64_t index);
// The pipeline of that name, or NULL.
HLO_EXPORT const HloPipeline *hlo_pipeline_find(const char *name);
// Pipeline number `index`; NULL behind the last.
HLO_EXPORT const HloPipeline *hlo_pipeline_at(int64_t index);

// What happened in one run of one pass.
typedef struct HloPassEvent {
    const char *pass;
    int64_t number;  // of the run, from 0
    bool changed;
    int64_t nanoseconds;  // of the pass alone
    const HloModule *module;
} HloPassEvent;

// How to run. Zero-initialised is a good default; NULL means that too.
typedef struct HloPassOptions {
    // Trust the passes: neither verify the module after each that changed it, nor compare hashes after each that says
    // it did not. Together these checks cost as much as the passes. The input is never verified.
    bool skip_verify;
    const char *dump_folder;      // write module_NNNN.NAME.STAGE.txt there, as XLA names them; NULL: nowhere
    const char *dump_pattern;     // POSIX extended regular expression: passes to dump after; NULL: only first and last
    int64_t module_number;        // NNNN
    int64_t fold_elements;        // see HloPassEnv; 0: 1,048,576
    int64_t unroll_instructions;  // see HloPassEnv; 0: 256
    // Constants are folded in exact arithmetic. A TPU multiplies f32 as bf16 unless told otherwise: whoever does not
    // know on which machine the program will run leaves products of floats to it.
    bool keep_products;
    // The program is still to be partitioned: products keep the dimensions that their operands were annotated by.
    bool before_partitioning;
    void (*observe)(void *context, const HloPassEvent *event);  // called after every pass
    void *context;
} HloPassOptions;

// Runs passes and pipelines by name, in order. NOT_FOUND for an unknown name (before anything runs); an error of a
// pass, a dump or the verifier comes back with the name of the pass, and the module must then only be freed.
HLO_EXPORT HLO_NODISCARD HloStatus hlo_run_passes(HloModule *module, const char *const *names, int64_t count,
                                                  const HloPassOptions *options);
// Runs passes that need not be in the registry; for rooms with passes of their own.
HLO_EXPORT HLO_NODISCARD HloStatus hlo_run_pass_list(HloModule *module, const HloPass *const *passes, int64_t count,
                                                     const HloPassOptions *options, bool *changed);

HLO_END_C

#endif
