// SPDX-License-Identifier: Apache-2.0
// HLO convolution of any rank: strides, padding (negative too), both dilations, window reversal, feature groups, batch
// groups, any dimension order (through strides).
#ifndef MESHLO_TARGETS_CPU_KERNELS_CONVOLUTION_H_
#define MESHLO_TARGETS_CPU_KERNELS_CONVOLUTION_H_

#include <stdbool.h>

#include "hlo/ir/types.h"
#include "targets/cpu/dense/matmul.h"
#include "targets/cpu/host/pool.h"

HLO_BEGIN_C

typedef struct CpuConvolutionDim {
    int64_t input_size, kernel_size, output_size;
    int64_t stride, padding_low, base_dilation, window_dilation;
    bool reversal;
    int64_t input_stride, kernel_stride, output_stride;  // elements between neighbours in memory
} CpuConvolutionDim;

typedef struct CpuConvolution {
    HloType lhs_type, rhs_type, out_type;
    CpuPrecision precision;
    int rank;  // spatial dimensions, may be 0
    const CpuConvolutionDim *dims;
    int64_t batch, input_features, output_features;  // of the input (whole) and the output (whole)
    int64_t feature_groups, batch_groups;            // at least 1, at most one of them above 1
    int64_t input_batch_stride, input_feature_stride;
    int64_t kernel_input_stride, kernel_output_stride;  // kernel's input- and output-feature dimension
    int64_t output_batch_stride, output_feature_stride;
} CpuConvolution;

// Computes the convolution. Types as for cpu_matmul().
HLO_NODISCARD HloStatus cpu_convolution(CpuPool *pool, const CpuConvolution *convolution, void *out, const void *input,
                                        const void *kernel);

HLO_END_C

#endif
