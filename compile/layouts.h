// SPDX-License-Identifier: Apache-2.0
// Layouts of a program's arguments and results: those that the caller requests, and the choice where the program leaves
// them open. Layouts are only names here (arrays are row-major in memory), but programs request and query them, so they
// are chosen as the real compiler would.
//
// Stability: experimental.
#ifndef MESHLO_COMPILE_LAYOUTS_H_
#define MESHLO_COMPILE_LAYOUTS_H_

#include "hlo/ir/module.h"

HLO_BEGIN_C

// The machine's choice of a layout: in `arena`, for an array in the memory space that its layout names, in the order
// `minor_to_major` (each dimension once) or, for NULL, in the order that the machine prefers.
typedef const HloLayout *CompileLayoutFunction(void *context, HloArena *arena, const HloShape *shape,
                                               const HloInts *minor_to_major);

// Zero-initialised: nothing is requested, and layouts stay as the program has them.
typedef struct CompileLayouts {
    // Shapes of the whole program, with layouts where the caller requests one. The result of a program with several
    // results is a tuple. No arguments, or NULL: nothing is requested.
    const HloShape *const *arguments;
    int64_t argument_count;
    const HloShape *result;
    // Layouts that the program does not name are open (StableHLO), and the machine chooses them. HLO names them all.
    bool open;
    // NULL: open layouts stay open, as do those of results that HLO text only derives from a transpose.
    CompileLayoutFunction *machine;
    void *context;
} CompileLayouts;

HLO_END_C

#endif
