// SPDX-License-Identifier: Apache-2.0
// One run of the pipeline, and its stages. Private to compile/.
#ifndef MESHLO_COMPILE_STAGES_H_
#define MESHLO_COMPILE_STAGES_H_

#include "compile/dumper.h"
#include "compile/pipeline.h"
#include "compile/resolve_layouts.h"

// What the stages share. `result->module` is the program as far as it has come.
typedef struct Compilation {
    const HloModule *input;
    const CompileOptions *options;
    CompiledModule *result;
    HloArena *arena;  // of this run: partitioning replaces the module and its arena
    CompileDumper dumper;
    int64_t devices;           // of the whole program's mesh, once it is known
    bool optimises;            // the program is to be inlined and simplified, and is not compiled before
    double partition_seconds;  // for the report
    CompileEntryLayouts entry_layouts;
} Compilation;

// Changes `result->module`; errors are those of compile_module(). Runs under hlo_protect().
typedef HloStatus CompileStageFunction(Compilation *compilation);

#define COMPILE_STAGE(id, function, name, summary) CompileStageFunction compile_stage_##function;
#include "compile/stages.def"
#undef COMPILE_STAGE

// Copies the input, records the caller's requests, and decides what is to be done with it.
HLO_NODISCARD HloStatus compile_take_input(Compilation *compilation);
// Makes the report of the finished program.
HLO_NODISCARD HloStatus compile_make_report(Compilation *compilation);

#endif
