// SPDX-License-Identifier: Apache-2.0
// The boundary of a per-device program: how global arrays enter and leave it, written into the module and read back.
#ifndef MESHLO_SPMD_PARTITIONER_BOUNDARY_H_
#define MESHLO_SPMD_PARTITIONER_BOUNDARY_H_

#include "spmd_partitioner/propagate.h"

// Writes shardings, global dimensions, layouts and the mark into a module that was just partitioned, and drops aliases
// between arrays that no longer have one shape.
void spmd_boundary_write(const SpmdPlan *plan, HloModule *module);
// Marks the module as the program of one device (spmd_is_partitioned()) and drops what described how to partition it.
void spmd_boundary_mark(HloModule *module);
// The root's annotations of the whole results. While they are removed, passes may replace the root by another
// instruction.
typedef struct SpmdResultMarks {
    const HloSharding *sharding;
    const char *dims;  // NULL: nothing
} SpmdResultMarks;
// Takes the marks off the root.
SpmdResultMarks spmd_boundary_take_results(HloModule *module);
// Puts them on the root that there is now. A parameter has marks of its own: where they differ, the result becomes a
// copy of it.
void spmd_boundary_put_results(HloModule *module, const SpmdResultMarks *marks);
// Number of parts into which a written sharding splits dimension `dim`; 1 where it has no entry.
int64_t spmd_tiles_of_dim(const HloSharding *sharding, int64_t dim);

#endif
