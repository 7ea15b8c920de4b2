// SPDX-License-Identifier: Apache-2.0
// The three ways in which convolutions are computed, between convolution.c, which brings operands into the type of the
// arithmetic and takes holes between input elements apart, and the files that have one way each.
#ifndef MESHLO_TARGETS_CPU_KERNELS_CONVOLUTION_INTERNAL_H_
#define MESHLO_TARGETS_CPU_KERNELS_CONVOLUTION_INTERNAL_H_

#include "targets/cpu/kernels/convolution.h"

// All ways want: operands of one type, that of the arithmetic; no base dilation; at least one output, one place of the
// kernel and one feature of a group.

// What follows from a convolution's sizes.
typedef struct CpuConvolutionSizes {
    int64_t groups;                                    // of features or of the batch
    int64_t group_inputs, group_outputs, group_batch;  // features and images of one group
    int64_t places;                                    // of the kernel: product of its spatial sizes
} CpuConvolutionSizes;
CpuConvolutionSizes cpu_convolution_sizes(const CpuConvolution *convolution);  // which shape inference has passed

// By matrix products of patches and the kernel (convolution_products.c). RESOURCE_EXHAUSTED.
HLO_NODISCARD HloStatus cpu_convolution_products(CpuPool *pool, const CpuConvolution *convolution, void *out,
                                                 const void *input, const void *kernel);

// True for those that sums of weighted rows suit better: groups of few features whose neighbours in memory are other
// groups (depthwise convolutions and their gradients), or few features over rows that are neighbours in memory.
bool cpu_convolution_is_direct(const CpuConvolution *convolution);

// By sums of weighted rows (convolution_direct.c), for those; the precision's rounding is the caller's.
// RESOURCE_EXHAUSTED.
HLO_NODISCARD HloStatus cpu_convolution_direct(CpuPool *pool, const CpuConvolution *convolution, void *out,
                                               const void *input, const void *kernel);

// True for those that are best multiplied where the input stands, on that set: exact real arithmetic in one group,
// unless tiles are faster.
bool cpu_convolution_is_windows(const CpuConvolution *convolution, CpuFeatures features);

// By products of windows of the input (convolution_windows.c), for those. RESOURCE_EXHAUSTED.
HLO_NODISCARD HloStatus cpu_convolution_windows(CpuPool *pool, const CpuConvolution *convolution, void *out,
                                                const void *input, const void *kernel);

#endif
