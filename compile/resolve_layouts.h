// SPDX-License-Identifier: Apache-2.0
// The two ends of layouts: noting which are open before the program is partitioned, and choosing them afterwards.
// Private to compile/.
#ifndef MESHLO_COMPILE_RESOLVE_LAYOUTS_H_
#define MESHLO_COMPILE_RESOLVE_LAYOUTS_H_

#include "compile/layouts.h"

// Who chooses a layout: the machine, the compiler, or the program (or the caller), which has chosen.
typedef enum CompileLayoutMode { COMPILE_LAYOUT_DEFAULT, COMPILE_LAYOUT_AUTO, COMPILE_LAYOUT_GIVEN } CompileLayoutMode;

// By argument and by result; entries beyond the end of a list are default.
typedef struct CompileEntryLayouts {
    const CompileLayoutMode *arguments;
    int64_t argument_count;
    const CompileLayoutMode *results;
    int64_t result_count;
} CompileEntryLayouts;

// Gives the arrays of a program that was not compiled before the default order of dimensions. Where HLO text names
// another, it is what XLA's shape inference derives for a transpose and what follows it; XLA's layout assignment
// forgets it as well (service/layout_assignment.cc), and StableHLO does not have it. Copies and custom calls, which ask
// for an order, keep theirs (but LAPACK's routines, which are ours and take any), as do arguments and all of a program
// with fusions or bitcasts, where a compiler has chosen. With `results`, the program's results get the default order
// too where it is derived, as JAX's executables return them.
void compile_forget_derived_layouts(HloModule *module, bool results);
// Puts the layouts that the caller requests on the entry of the whole program, and records those that are open (module
// attributes HLO_ARGUMENT_LAYOUT_MODES and HLO_RESULT_LAYOUT_MODES, which are removed). INVALID_ARGUMENT naming a shape
// that is not the program's. The lists of `entry` are allocated in `arena`: partitioning replaces the module.
HLO_NODISCARD HloStatus compile_ask_layouts(HloModule *module, const CompileLayouts *layouts, HloArena *arena,
                                            CompileEntryLayouts *entry);
// Gives the arguments and results of the program of one device the layouts that it leaves open: the machine's default
// ones or, where the compiler may choose, those in which no transpose moves anything. Adds tiles to layouts without
// them. INVALID_ARGUMENT when an argument or result in unpinned host memory has an order other than row-major.
HLO_NODISCARD HloStatus compile_resolve_layouts(HloModule *module, const CompileLayouts *layouts,
                                                const CompileEntryLayouts *entry);

#endif
