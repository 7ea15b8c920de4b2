// SPDX-License-Identifier: Apache-2.0
// What the gather and scatter expanders share: index vectors in one matrix, and loops over its rows.
#ifndef MESHLO_HLO_PASS_EXPAND_INDEXED_LOOP_H_
#define MESHLO_HLO_PASS_EXPAND_INDEXED_LOOP_H_

#include "hlo/pass/support.h"

// Indices as a matrix s64[rows, columns]: one row an index vector, in row-major order of the batch dimensions; columns
// as `to_operand` says, then one for each batching dimension, which holds that coordinate.
typedef struct HloIndexMatrix {
    HloInstruction *matrix;
    int64_t rows, columns;
    HloInts batch_dims;  // sizes of the dimensions of the indices that are not the index vector
    HloInts to_operand;  // operand dimension of each column
} HloIndexMatrix;

// Makes the matrix beside `like`.
HloIndexMatrix hlo_pass_index_matrix(const HloInstruction *like, HloInstruction *indices, int64_t index_vector_dim,
                                     HloInts to_operand, HloInts batching, HloInts index_batching);
// The scalars of row `row` (a scalar s64) of a matrix as start indices of an operand of rank `rank`: zeros where no
// column speaks. `starts` has room for `rank`.
void hlo_pass_row_starts(HloInstruction *matrix, HloInstruction *row, HloInts to_operand, int64_t rank,
                         HloInstruction **starts);
// A while over rows 0 .. rows-1 with state (row, carried...): calls step(context, state, row) to make the body's new
// carried values from those in `carried`, and gives the loop's result, whose element 1 + i is carried value i.
typedef void HloRowStep(void *context, HloInstruction *row, HloInstruction **carried);
// The loop, beside `like`; `carried` holds `count` initial values. Of no rows, the tuple of the initial state, and no
// step.
HloInstruction *hlo_pass_row_loop(const HloInstruction *like, int64_t rows, HloInstruction *const *carried,
                                  int64_t count, HloRowStep *step, void *context);

#endif
