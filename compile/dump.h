// SPDX-License-Identifier: Apache-2.0
// Dumps of the program on its way through the pipeline, under the names that XLA uses:
//
//     DIR/module_0001.NAME.before_optimizations.txt
//     DIR/module_0001.NAME.0003.partition.after_partition.txt          after a requested stage
//     DIR/module_0001.NAME.0004.simplify.after_cse.txt                 after a pass that the expression matches
//     DIR/module_0001.NAME.after_spmd_partitioning.txt                 for programs that are partitioned
//     DIR/module_0001.NAME.after_optimizations.txt
//
// They are requested on the command line (--dump-to, --dump-after), by MESHLO_DUMP, or by XLA_FLAGS.
//
// Stability: experimental.
#ifndef MESHLO_COMPILE_DUMP_H_
#define MESHLO_COMPILE_DUMP_H_

#include "hlo/ir/module.h"

HLO_BEGIN_C

// Zero-initialised: nothing is written.
typedef struct CompileDump {
    const char *folder;          // made where it is missing; NULL: nothing is written
    const char *stages;          // names of stages to dump after, with commas between, or "all"; NULL: none
    const char *pass_pattern;    // POSIX extended regular expression: passes to dump after; NULL: none
    const char *module_pattern;  // the same of names of modules; NULL: all
    bool as_text, as_proto;      // neither means text
    bool must_succeed;           // a dump that cannot be written is an error of compiling
    int64_t number;              // of the module, as in module_0001
} CompileDump;

// Reads MESHLO_DUMP ("DIR" or "DIR:STAGE,STAGE") and, where that is not set, XLA_FLAGS (--xla_dump_to,
// --xla_dump_hlo_as_text, --xla_dump_hlo_as_proto, --xla_dump_hlo_pass_re, --xla_dump_hlo_module_re). Texts live in
// `arena`. XLA_FLAGS is never fatal: unknown and unreadable parts are ignored. Memory errors jump to hlo_protect().
HLO_EXPORT void compile_dump_from_environment(HloArena *arena, CompileDump *dump);
// INVALID_ARGUMENT for an unknown stage in `stages` (with the nearest name) or an invalid regular expression.
HLO_EXPORT HLO_NODISCARD HloStatus compile_dump_check(const CompileDump *dump);
// A number for the next module of this process, from 1. Any thread.
HLO_EXPORT int64_t compile_dump_next_number(void);

HLO_END_C

#endif
