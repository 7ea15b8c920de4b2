// SPDX-License-Identifier: Apache-2.0
// Writing the dumps of one run of the pipeline. Private to compile/.
#ifndef MESHLO_COMPILE_DUMPER_H_
#define MESHLO_COMPILE_DUMPER_H_

#include <regex.h>

#include "compile/dump.h"
#include "hlo/pass/pass.h"

// The dumps of one run. Zero-initialised, it writes nothing.
typedef struct CompileDumper {
    const CompileDump *options;
    bool writes;  // the folder exists, and the module matches the requested ones
    regex_t passes;
    bool has_pass_pattern;
    const char *stage;  // that runs now
    int64_t count;      // dumps so far that have a number
    HloStatus failure;  // the first one; NULL: none
} CompileDumper;

// Makes the folder. INVALID_ARGUMENT for invalid expressions, however the options treat failures.
HLO_NODISCARD HloStatus compile_dumper_open(CompileDumper *dumper, const CompileDump *options, const HloModule *module);
// Writes the module as DIR/module_NNNN.NAME.WHAT.txt. An error only if dumps must succeed.
HLO_NODISCARD HloStatus compile_dump(CompileDumper *dumper, const HloModule *module, const char *what);
// Writes the module after the current stage, if that was requested.
HLO_NODISCARD HloStatus compile_dump_after_stage(CompileDumper *dumper, const HloModule *module);
// For HloPassOptions: writes the module after each pass that the expression matches. `context` is the dumper.
void compile_dump_observe(void *context, const HloPassEvent *event);
// Frees the dumper's contents; returns its failure, which the caller owns.
HloStatus compile_dumper_close(CompileDumper *dumper);

#endif
