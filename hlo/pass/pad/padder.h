// SPDX-License-Identifier: Apache-2.0
// Internals shared by the files of the pass dynamic-padder. The pass turns a program with arrays of bounded dynamic
// size into one of static shapes: an array keeps its bounds, the sizes of its dynamic dimensions become s32 scalars of
// the program, and the operands of ops that mix elements are masked beyond their sizes.
//
// When an op's rule runs, its operands are already static and their sizes are in the table; the op itself has been made
// static too. Elements beyond the sizes of an array have no meaning.
#ifndef MESHLO_HLO_PASS_PAD_PADDER_H_
#define MESHLO_HLO_PASS_PAD_PADDER_H_

#include "hlo/pass/support.h"

typedef struct HloPadder {
    HloModule *module;
    HloArena *scratch;
    HloIntMap places;            // indices into `sizes`, by instruction, leaf and dimension
    HloInstructionVector sizes;  // s32[]
    HloIntMap signatures;        // of called computations, by id: see dynamic_padder.c
    const HloShape *declared;    // the original shape of the op whose rule runs
} HloPadder;

// The rule of an op: *result is the op itself when the rule starts, and may be replaced by another instruction with the
// same static shape. The rule sets the sizes of *result. UNIMPLEMENTED, naming the op, if static shapes cannot express
// it.
typedef HloStatus HloPadderRule(HloPadder *padder, HloInstruction *op, HloInstruction **result);

// The size of dimension `dim` of leaf `leaf` of a value: an s32[], or NULL if it is static.
HloInstruction *hlo_padder_size(const HloPadder *padder, const HloInstruction *value, int64_t leaf, int64_t dim);
// As hlo_padder_size(), but a constant if it is static.
HloInstruction *hlo_padder_any_size(const HloPadder *padder, const HloInstruction *like, const HloInstruction *value,
                                    int64_t leaf, int64_t dim);
// Sets a size of the result of the op whose rule runs; ignored if the op declares the dimension static. NULL is a
// static size.
void hlo_padder_set_size(HloPadder *padder, HloInstruction *value, int64_t leaf, int64_t dim, HloInstruction *size);
// True if some dimension of the value is of dynamic size.
bool hlo_padder_is_sized(const HloPadder *padder, const HloInstruction *value);
// Gives `result`, leaf by leaf, the sizes of `value`, which has the same shape.
void hlo_padder_copy_sizes(HloPadder *padder, const HloInstruction *value, HloInstruction *result);
// Returns UNIMPLEMENTED: "%op (reverse): WHAT of dynamic size".
HloStatus hlo_padder_refuse(const HloInstruction *op, const char *what);

// An s32 number. Like the arithmetic on sizes below, it is created next to `like`.
HloInstruction *hlo_padder_number(const HloInstruction *like, int64_t value);
// a + number.
HloInstruction *hlo_padder_plus(const HloInstruction *like, HloInstruction *a, int64_t number);
// max(low, min(a, high)).
HloInstruction *hlo_padder_between(const HloInstruction *like, HloInstruction *a, int64_t low, int64_t high);
// The index along `dim`, s32, for the dims of `shape`.
HloInstruction *hlo_padder_places(const HloInstruction *like, const HloShape *shape, int64_t dim);
// Predicates of the dims of `shape`: true where index < size along `dim`.
HloInstruction *hlo_padder_inside(const HloInstruction *like, const HloShape *shape, int64_t dim, HloInstruction *size);
// The value with the scalar `fill` beyond its sizes along the dimensions in `dims`; the value itself if they are
// static.
HloInstruction *hlo_padder_masked(const HloPadder *padder, HloInstruction *like, HloInstruction *value, HloInts dims,
                                  HloInstruction *fill);
// Predicates of the dims of an array: true where all of its indices are below its sizes. NULL if they are static.
HloInstruction *hlo_padder_all_inside(const HloPadder *padder, const HloInstruction *like, const HloInstruction *value);
// The scalar e with op(x, e) = x for every x of the type, or NULL if none is exact.
HloInstruction *hlo_padder_identity(const HloInstruction *like, HloOpcode op, HloType type);

// The rules: moves (moves.c), arithmetic (compute.c), control flow (dynamic_padder.c).
HloPadderRule hlo_padder_broadcast, hlo_padder_transpose, hlo_padder_reshape, hlo_padder_dynamic_reshape,
    hlo_padder_slice, hlo_padder_dynamic_slice, hlo_padder_dynamic_update_slice, hlo_padder_concatenate, hlo_padder_pad,
    hlo_padder_reverse, hlo_padder_gather, hlo_padder_same_dims, hlo_padder_get_dimension_size,
    hlo_padder_set_dimension_size, hlo_padder_leading_dims;
HloPadderRule hlo_padder_pointwise, hlo_padder_reduce, hlo_padder_reduce_window, hlo_padder_select_and_scatter,
    hlo_padder_dot, hlo_padder_convolution, hlo_padder_sort, hlo_padder_topk, hlo_padder_scatter, hlo_padder_fft,
    hlo_padder_cholesky, hlo_padder_triangular_solve;

#endif
