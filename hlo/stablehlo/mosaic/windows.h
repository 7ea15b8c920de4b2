// SPDX-License-Identifier: Apache-2.0
// The windows of a kernel's grid: a function for each operand maps a point of the grid to the block of the operand that
// the kernel sees there. Between two points a block is moved only if it is another one than before. Private to
// hlo/stablehlo/mosaic.
#ifndef MESHLO_HLO_STABLEHLO_MOSAIC_WINDOWS_H_
#define MESHLO_HLO_STABLEHLO_MOSAIC_WINDOWS_H_

#include "hlo/stablehlo/mosaic/scalars.h"

// Axes of a grid.
#define MOSAIC_MOST_AXES 16

// A grid and what its kernel is called with.
typedef struct MosaicGrid {
    const MlirOperation *top;     // the module with the kernel and the functions
    const MlirOperation *kernel;  // the function with the windows as an attribute
    const int64_t *bounds;
    int64_t rank;
    double weight;                   // runs of the whole grid that each walked run represents
    const MosaicScalars *of_kernel;  // the scalars of the kernel, for its operands and tables
    int64_t steps;                   // that its windows have taken so far: 0 before the first
} MosaicGrid;

// The load of a table that depends on data from which an address or the number of a block is computed, and by what it
// is multiplied; NULL if there is none. The pointer is valid until the next slot is made.
const MosaicSlot *mosaic_addressed_by(MosaicScalars *scalars, const MlirValue *address, int64_t *factor);
// How many blocks of argument `argument` of the kernel move while its grid is walked, those at the edge of the array in
// part; -1 if that is not known, or too much to find out, 0 if the argument has no window. Memory errors jump to
// hlo_protect().
double mosaic_window_changes(HloArena *arena, MosaicGrid *grid, int64_t argument);

#endif
