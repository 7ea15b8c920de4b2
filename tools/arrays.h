// SPDX-License-Identifier: Apache-2.0
// Arrays that go into a program and come out of it: from files, from a seed, compared, written.
#ifndef MESHLO_TOOLS_ARRAYS_H_
#define MESHLO_TOOLS_ARRAYS_H_

#include "hlo/ir/module.h"
#include "tools/cli.h"

// A list of array literals on the heap, flattened leaf by leaf.
typedef struct CliArrays {
    HloLiteral **items;  // in the context's arena; entries may be NULL
    int64_t count;
} CliArrays;

// Frees the literals and empties the list.
void cli_arrays_free(CliArrays *arrays);

// Reads the inputs of a program from the --input options of the context: K=F.npy where K is a number, p and a number,
// or the name of an entry parameter; F.npz, whose members arr_0, arr_1 … are inputs 0, 1 …. Missing inputs are made
// from --seed. `shapes` are the `count` leaves that the program expects; a file may hold those of `shared` instead
// (NULL: it may not). INVALID_ARGUMENT or NOT_FOUND for files that are missing or do not fit.
HLO_NODISCARD HloStatus cli_inputs_read(CliContext *context, const HloModule *module, const HloShape *const *shapes,
                                        const HloShape *const *shared, int64_t count, CliArrays *inputs);

// Writes the arrays as FOLDER/0.npy, 1.npy ….
HLO_NODISCARD HloStatus cli_arrays_write(const char *folder, const CliArrays *arrays);

// A literal in the arena that shows the values of another one under a shape of as many bytes. It must not outlive
// `literal`; to free it does nothing.
HloLiteral *cli_array_view(HloArena *arena, const HloLiteral *literal, const HloShape *shape);
// The parameters of an entry computation from their flattened leaves, tuples put together: views of the leaves, which
// must outlive them, in the context's arena. Nothing is copied: a network's weights may fill half of the memory.
CliArrays cli_arrays_to_parameters(CliContext *context, const HloComputation *entry, const CliArrays *leaves);
// The leaves of a result: views, in the context's arena.
CliArrays cli_arrays_from_result(CliContext *context, const HloLiteral *result);

#endif
