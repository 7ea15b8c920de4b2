// SPDX-License-Identifier: Apache-2.0
// Ops without an evaluator yet, refused by name.
#include "hlo/eval/internal.h"

#define REFUSED(name)                                                                                           \
    HloStatus hlo_eval_##name(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands, \
                              HloEvalValue **result) {                                                          \
        (void)device;                                                                                           \
        (void)operands;                                                                                         \
        (void)result;                                                                                           \
        return hlo_eval_unsupported(instruction, "this op");                                                    \
    }
REFUSED(dynamic_reshape)
REFUSED(get_dimension_size)
REFUSED(set_dimension_size)
REFUSED(ragged_dot)
REFUSED(scaled_dot)
REFUSED(convolution)
REFUSED(cholesky)
REFUSED(triangular_solve)
REFUSED(fft)
REFUSED(batch_norm_training)
REFUSED(batch_norm_inference)
REFUSED(batch_norm_grad)
REFUSED(scan)
