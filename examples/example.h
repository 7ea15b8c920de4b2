// SPDX-License-Identifier: Apache-2.0
// What the four tutorial programs share: printing, ending, and pmap in C.
#ifndef MESHLO_EXAMPLES_EXAMPLE_H_
#define MESHLO_EXAMPLES_EXAMPLE_H_

#include "hlo/hlo.h"
#include "targets/program.h"

// Prints the error, if there is one, and frees it; returns the exit code for main().
int example_end(HloStatus status);
// Prints `title` and the elements of an array, a row a line, as printf's `format` ("%g") shows a number.
void example_print(const char *title, const char *format, const HloLiteral *array);
// Prints who has which part of an array, as jax.debug.visualize_array_sharding() draws it.
HloStatus example_draw(const char *title, const TargetArray *array);

// ---- pmap: the same program on every device, each with its own row of the arguments

typedef struct Pmap Pmap;
// Arguments and results of a Pmap: the row of each device, in order of devices.
typedef struct PmapArray {
    TargetBuffer *rows[8];
    int64_t count;
} PmapArray;

// Compiles `module`, the program of one device, for module->replica_count devices of the client: at most 8, and
// INVALID_ARGUMENT when the client has fewer. Cross-replica collectives let the devices talk to each other.
HloStatus pmap_new(TargetClient *client, const HloModule *module, Pmap **pmap);
// Frees it; accepts NULL.
void pmap_free(Pmap *pmap);
// Gives each device its row of `array`, whose leading dimension is the number of devices (in_axes=0).
HloStatus pmap_shard(Pmap *pmap, const HloLiteral *array, PmapArray *result);
// Gives every device a copy of `array` (in_axes=None).
HloStatus pmap_replicate(Pmap *pmap, const HloLiteral *array, PmapArray *result);
// Runs the program on all devices; results stay on them, ready to be arguments. Returns before they are there.
HloStatus pmap_run(Pmap *pmap, const PmapArray *arguments, int64_t argument_count, PmapArray *results,
                   int64_t result_count);
// Waits and stacks the rows into one array with a leading dimension of devices (free with hlo_literal_free()).
HloStatus pmap_gather(const PmapArray *array, HloLiteral **result);
// Releases the rows.
void pmap_release(PmapArray *array);

#endif
