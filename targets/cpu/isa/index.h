// SPDX-License-Identifier: Apache-2.0
// Gathers and scatters of slices that are short runs, per instruction set: kernels/gather.c and kernels/scatter.c drive
// them.
#ifndef MESHLO_TARGETS_CPU_ISA_INDEX_H_
#define MESHLO_TARGETS_CPU_ISA_INDEX_H_

#include <stdbool.h>

#include "targets/cpu/isa/each.h"
#include "targets/cpu/isa/isa.h"

HLO_BEGIN_C

// The form in which the slices' positions in the operand are given: element offsets. Scatters drop those below 0.
typedef enum CpuIndexKind {
    CPU_INDEX_OFFSETS,  // int32_t; in the result or the updates, slices are result_step apart
    CPU_INDEX_PLACES,   // int64_t; there, slices are at result_places
    CPU_INDEX_KIND_COUNT
} CpuIndexKind;

// Slices number 0 to `count`, each a run of `columns` elements. Strides are in elements.
typedef struct CpuIndexLine {
    int64_t count, columns;
    const void *offsets;
    int64_t result_step;           // OFFSETS: from slice to slice in the gather's result or the scatter's updates
    const int64_t *result_places;  // PLACES: instead of result_step
    int64_t ahead;                 // number of slices to prefetch, 0 if caches hold the array
} CpuIndexLine;

// One component of index vectors, 32-bit integers.
typedef struct CpuIndexComponent {
    const int32_t *indices;
    int64_t index_step;  // from one vector to the next
    bool is_unsigned;    // the indices are uint32_t
    int32_t wrap;        // at least 0: added to indices below 0 first
    int32_t largest;     // at least 0: the index at which a slice still fits
    int32_t stride;      // of the operand for one index, in elements
} CpuIndexComponent;

typedef enum CpuIndexOp {
    CPU_INDEX_ASSIGN,  // types are the unsigned integers of the elements' widths
    CPU_INDEX_ADD,     // integers: unsigned ones
    CPU_INDEX_MULTIPLY,
    CPU_INDEX_MINIMUM,
    CPU_INDEX_MAXIMUM,
    CPU_INDEX_OP_COUNT
} CpuIndexOp;

// Copies the slices of `operand` to `result`, elements of `width` bytes (1, 2, 4, 8 or 16).
typedef void CpuGatherKernel(const CpuIndexLine *line, int width, void *result, const void *operand);

// Combines those slices of `updates` into `operand` that begin at its elements [begin, end), in their order; slices
// that do not fit are dropped.
typedef void CpuScatterKernel(const CpuIndexLine *line, int64_t begin, int64_t end, void *operand, const void *updates);

// Adds the component's parts to offsets[0 .. n). With `clamp`, indices are moved to the nearest in 0 .. largest;
// without it, the offsets of vectors that do not fit become -1. The sums fit.
typedef void CpuOffsetsKernel(const CpuIndexComponent *component, bool clamp, int64_t n, int32_t *offsets);
// Does the same with places, for clamped signed indices that are in a row.
typedef void CpuPlacesKernel(const CpuIndexComponent *component, int64_t n, int64_t *places);

enum { CPU_POINT = 3, CPU_POINT_ROOM = 4 };

typedef struct CpuIndexKernels {
    CpuGatherKernel *gather[CPU_INDEX_KIND_COUNT];
    CpuOffsetsKernel *add_offsets;
    CpuPlacesKernel *add_places;
    CpuScatterKernel *scatter[CPU_INDEX_KIND_COUNT][CPU_INDEX_OP_COUNT][CPU_REGISTER_COUNT];  // NULL: has none
    // Adds points of three f32, `result_step` apart, to an operand with CPU_POINT_ROOM numbers for each, of which the
    // last is undefined; OFFSETS.
    CpuScatterKernel *add_points;
} CpuIndexKernels;

// cpu_isa_index_kernels() returns the kernels for an instruction set.
CPU_ISA_TABLES(CpuIndexKernels, index_kernels)

HLO_END_C

#endif
