// SPDX-License-Identifier: Apache-2.0
// Helpers shared by the gather and scatter expanders: index vectors in one matrix, and loops over its rows.
#ifndef MESHLO_HLO_PASS_EXPAND_INDEXED_LOOP_H_
#define MESHLO_HLO_PASS_EXPAND_INDEXED_LOOP_H_

#include "hlo/pass/support.h"

// Indices as a matrix s64[rows, columns]: one row per index vector, in row-major order of the batch dimensions; the
// columns are those of `to_operand`, then one for each batching dimension with that coordinate.
typedef struct HloIndexMatrix {
    HloInstruction *matrix;
    int64_t rows, columns;
    HloInts batch_dims;  // sizes of the dimensions of the indices other than the index vector
    HloInts to_operand;  // operand dimension of each column
} HloIndexMatrix;

// Makes the matrix next to `like`.
HloIndexMatrix hlo_pass_index_matrix(const HloInstruction *like, HloInstruction *indices, int64_t index_vector_dim,
                                     HloInts to_operand, HloInts batching, HloInts index_batching);
// Writes the scalars of row `row` (a scalar s64) of a matrix as start indices of an operand of rank `rank`; dimensions
// without a column get zeros. `starts` has room for `rank`.
void hlo_pass_row_starts(HloInstruction *matrix, HloInstruction *row, HloInts to_operand, int64_t rank,
                         HloInstruction **starts);
// A step of the loop over rows 0 .. rows-1 with state (row, carried...): replaces the values in `carried` by the new
// ones for the body. Element 1 + i of the loop's result is carried value i.
typedef void HloRowStep(void *context, HloInstruction *row, HloInstruction **carried);
// Makes the loop next to `like`; `carried` has `count` initial values. Without rows, returns the tuple of the initial
// state and calls no step.
HloInstruction *hlo_pass_row_loop(const HloInstruction *like, int64_t rows, HloInstruction *const *carried,
                                  int64_t count, HloRowStep *step, void *context);

#endif
