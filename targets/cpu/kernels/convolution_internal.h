// SPDX-License-Identifier: Apache-2.0
// The three ways to compute a convolution. convolution.c converts operands to the type of the arithmetic and removes
// holes between input elements; each of the other files implements one way. "Place" in names here is a tap of the
// kernel.
#ifndef MESHLO_TARGETS_CPU_KERNELS_CONVOLUTION_INTERNAL_H_
#define MESHLO_TARGETS_CPU_KERNELS_CONVOLUTION_INTERNAL_H_

#include "targets/cpu/kernels/convolution.h"

// All ways require: operands of one type, that of the arithmetic; no base dilation; at least one output, one kernel tap
// and one feature per group.

// Quantities derived from a convolution's sizes.
typedef struct CpuConvolutionSizes {
    int64_t groups;                                    // of features or of the batch
    int64_t group_inputs, group_outputs, group_batch;  // features and images of one group
    int64_t places;                                    // taps of the kernel: product of its spatial sizes
} CpuConvolutionSizes;
CpuConvolutionSizes cpu_convolution_sizes(const CpuConvolution *convolution);  // after shape inference

// Computes the convolution by matrix products of patches and the kernel (convolution_products.c). RESOURCE_EXHAUSTED.
HLO_NODISCARD HloStatus cpu_convolution_products(CpuPool *pool, const CpuConvolution *convolution, void *out,
                                                 const void *input, const void *kernel);

// True for convolutions that are faster as sums of weighted rows: groups of few features whose neighbours in memory
// belong to other groups (depthwise convolutions and their gradients), or few features over rows contiguous in memory.
bool cpu_convolution_is_direct(const CpuConvolution *convolution);

// Computes those by sums of weighted rows (convolution_direct.c); the caller applies the precision's rounding.
// RESOURCE_EXHAUSTED.
HLO_NODISCARD HloStatus cpu_convolution_direct(CpuPool *pool, const CpuConvolution *convolution, void *out,
                                               const void *input, const void *kernel);

// True for convolutions that are best multiplied directly from the input on that instruction set: exact real arithmetic
// in one group, unless tiles are faster.
bool cpu_convolution_is_windows(const CpuConvolution *convolution, CpuFeatures features);

// Computes those by products of windows of the input (convolution_windows.c). RESOURCE_EXHAUSTED.
HLO_NODISCARD HloStatus cpu_convolution_windows(CpuPool *pool, const CpuConvolution *convolution, void *out,
                                                const void *input, const void *kernel);

#endif
