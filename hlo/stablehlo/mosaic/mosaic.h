// SPDX-License-Identifier: Apache-2.0
// Kernels that Pallas compiles for TPUs: the custom call `tpu_custom_call`, whose configuration holds a program of
// MLIR's dialect Mosaic as bytecode. The kernel runs once for each point of a grid; this file counts how often each of
// its operations runs, so that a machine model can price them.
//
//   "iteration_bounds" = 3, 32, 4, 4        the grid: the kernel's first four arguments are a point of it
//   scf.if (block_mask[i, j] > 0)           decided for each point, where the mask is a known constant
//     tpu.matmul 2048x128, 128x2048         counted as often as the branch is taken
//
// Sources: jax _src/tpu_custom_call.py (the configuration), _src/pallas/mosaic/lowering.py (grid, order of arguments),
// jaxlib/mosaic/serde.cc (operations of all dialects have the prefix `stable_mosaic.` in a file), and MLIR's
// BuiltinDialectBytecode.td.
#ifndef MESHLO_HLO_STABLEHLO_MOSAIC_MOSAIC_H_
#define MESHLO_HLO_STABLEHLO_MOSAIC_MOSAIC_H_

#include "hlo/ir/module.h"

// An operation of a kernel and how often it runs.
typedef struct MosaicOperation {
    const char *name;             // "tpu.matmul", "arith.addf"
    double count;                 // in all points of the grid together
    const HloShape *operands[3];  // of vectors; NULL for scalars, memory and anything else
    const HloShape *result;       // the first; likewise
    // A bit for each dimension along which all elements of the result are equal, as in a mask that is made from an iota
    // of the other dimension: what is equal in several registers is computed once.
    uint64_t equal_along;
    // Of tpu.matmul: the dimensions that are added up, and those that both operands have in common.
    HloInts left_contracting, right_contracting, left_batch, right_batch;
} MosaicOperation;

// A block of an array in HBM that a kernel reads or writes, and how often it does.
typedef struct MosaicTransfer {
    const HloShape *block;
    double count;
} MosaicTransfer;

// The operations of a kernel on vectors.
typedef struct MosaicWork {
    const MosaicOperation *operations;
    int64_t operation_count;
    // Every grid bound, trip count and branch around these operations, or around the products if there are any, is
    // known or has a known bound, which is counted. If false, the counts are those of running each unknown loop once.
    // Each unknown branch is taken.
    bool is_complete;
    // What moves between HBM and the chip, by the kernel's own transfers and between points of its grid, and whether
    // all that decides how often it does is known.
    const MosaicTransfer *transfers;
    int64_t transfer_count;
    bool moves_are_complete;
} MosaicWork;

// Counts the operations of the kernel in `bytes`, the bytecode. operands[i] is the value of the call's operand i, NULL
// where that is not a constant; `shapes` are those of the call's operands and then of its results. Everything is
// allocated in `arena`, memory errors jump to hlo_protect(), and the result lives as long as the arena, `bytes` and the
// operands. INVALID_ARGUMENT for malformed bytecode and for programs without a kernel. Any thread.
HLO_NODISCARD HloStatus mosaic_count(HloArena *arena, const void *bytes, size_t length,
                                     const HloLiteral *const *operands, int64_t operand_count,
                                     const HloShape *const *shapes, int64_t shape_count, MosaicWork *work);

// Decodes base64 of `length` characters in `arena`; NULL unless it is well-formed. *size is the number of bytes.
unsigned char *mosaic_decode_base64(HloArena *arena, const char *text, size_t length, size_t *size);

#endif
