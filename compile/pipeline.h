// SPDX-License-Identifier: Apache-2.0
// The compile pipeline: from a program as it was read to the program of one device. Every front end (the C API's
// target_program_new(), the command's verbs, the PJRT plugin) calls compile_module() and nothing else, so that what is
// run, timed, explained and printed is the same program.
//
//     CompileOptions options = {.spmd = {.mesh = axes, .mesh_axis_count = 2}};
//     CompiledModule *compiled;
//     HLO_TRY(compile_module(module, &options, &compiled));
//     ... compiled->module, compiled->report, compiled->boundary ...
//     compiled_module_free(compiled);
//
// The stages, in the order in which they run, are the rows of stages.def; pipeline.c runs them in one function:
//
//     verify -> inline -> simplify-before-partitioning -> partition -> expand -> simplify -> layouts -> donation
//            -> offload -> overlap
//
// Terms:
//   stage           a step of the pipeline, with a name. It runs passes (hlo/pass), or code of this folder.
//   whole program   the program as the user wrote it, with arrays of global shape.
//   per device      the program that every device runs, with arrays of local shape. It is what is compiled further.
//   compiled before a program that a compiler has scheduled. Nothing is simplified in it: its times are those of that
//                   compiler's choices.
//   open layout     a layout that the program leaves to the machine ("default") or to the compiler ("auto").
//   donor           an argument whose memory a result may reuse; an alias is a donor with its result.
//
// Invariants: the result computes the same bits as the input for every input, under every numerics (no rounding is
// added or removed, products stay products of the same operands); compiling a result once more changes nothing in its
// computations; metadata survives on rewritten instructions.
//
// Stability: experimental.
#ifndef MESHLO_COMPILE_PIPELINE_H_
#define MESHLO_COMPILE_PIPELINE_H_

#include "compile/dump.h"
#include "compile/layouts.h"
#include "spmd_partitioner/spmd.h"

HLO_BEGIN_C

typedef enum CompileStage {
#define COMPILE_STAGE(id, function, name, summary) COMPILE_STAGE_##id,
#include "compile/stages.def"
#undef COMPILE_STAGE
    COMPILE_STAGE_COUNT
} CompileStage;

// The name of a stage, as --dump-after takes it. Static storage.
HLO_EXPORT const char *compile_stage_name(CompileStage stage);

// How to compile. Zero-initialise for the defaults: the program is optimised, and partitioned by its annotations.
typedef struct CompileOptions {
    SpmdOptions spmd;  // partitions, mesh, shards, even_boundary, inspect; `async` turns on the stage overlap
    // The module is the program of one device already, whether or not it is marked so.
    bool is_per_device;
    // The module has just been verified: the stage verify has nothing to do.
    bool is_verified;
    // Leaves the program as it was written: neither inlining nor simplification. Partitioning still happens.
    bool no_optimise;
    // Layouts that the caller requests, and the machine's choices for the open ones.
    CompileLayouts layouts;
    CompileDump dump;
} CompileOptions;

// The result of compiling. Free with compiled_module_free().
typedef struct CompiledModule {
    HloModule *module;       // the program of one device. Donors are resolved: its `aliases` name argument and result
    SpmdReport *report;      // its collectives, and the reasons for them
    SpmdBoundary *boundary;  // shapes and shardings of its flattened arguments and results
    bool was_per_device;     // the input was the program of one device already
    // Of each stage: wall time, and processor time of the caller's thread, on which it runs; 0 if it had nothing to do.
    int64_t stage_nanoseconds[COMPILE_STAGE_COUNT], processor_nanoseconds[COMPILE_STAGE_COUNT];
    HloStatus dump_failure;  // why a dump that need not succeed could not be written; NULL if all were
} CompiledModule;

// Compiles `module`, which is only read. On success *compiled is new. INVALID_ARGUMENT for programs that are not
// well-formed, for annotations and options that do not fit the program, and for layouts that are not its shapes;
// UNIMPLEMENTED for an op without a partition rule; RESOURCE_EXHAUSTED when memory is short; INTERNAL when a pass is
// wrong. `options` may be NULL. Any thread.
HLO_EXPORT HLO_NODISCARD HloStatus compile_module(const HloModule *module, const CompileOptions *options,
                                                  CompiledModule **compiled);
// Frees the result with its module, report and boundary; accepts NULL.
HLO_EXPORT void compiled_module_free(CompiledModule *compiled);

HLO_END_C

#endif
