// SPDX-License-Identifier: Apache-2.0
// The part of convolutions that is common to all ways of computing them: operands are converted to the type of the
// arithmetic, and holes between input elements (base dilation) are removed, so that nothing is ever multiplied by them.
#include "targets/cpu/kernels/convolution.h"

#include <assert.h>
#include <string.h>

#include "hlo/base/arithmetic.h"
#include "hlo/base/memory.h"
#include "targets/cpu/dense/matmul_internal.h"
#include "targets/cpu/element/copy.h"
#include "targets/cpu/isa/isa.h"
#include "targets/cpu/kernels/convolution_internal.h"

enum { kRankLimit = CPU_KERNEL_RANK_LIMIT };

CpuConvolutionSizes cpu_convolution_sizes(const CpuConvolution *c) {
    const int64_t groups = c->feature_groups * c->batch_groups;
    CpuConvolutionSizes sizes = {.groups = groups,
                                 .group_inputs = c->input_features / c->feature_groups,
                                 .group_outputs = c->output_features / groups,
                                 .group_batch = c->batch / c->batch_groups,
                                 .places = 1};
    for (int d = 0; d < c->rank; d++) sizes.places *= c->dims[d].kernel_size;
    return sizes;
}

// ---- holes

// Outputs of one dimension reach input elements (rather than holes) in a cycle: those at one point of the cycle use
// every n-th tap of the kernel, over an input without holes.
static int64_t cycle_of(const CpuConvolutionDim *d) {
    const int64_t cycle = d->base_dilation / hlo_gcd(d->base_dilation, d->stride);
    return cycle < d->output_size ? cycle : d->output_size;
}

// Sets up the dimension for outputs first, first + cycle, …; adds the offsets of its first output and tap to *out and
// *kernel. Returns false if those outputs see only holes.
static bool without_holes(const CpuConvolutionDim *from, int64_t first, CpuConvolutionDim *to, int64_t *out,
                          int64_t *kernel) {
    assert(from && to);
    const int64_t base = from->base_dilation, cycle = base / hlo_gcd(base, from->stride),
                  step = base / hlo_gcd(base, from->window_dilation);
    const int64_t start = first * from->stride - from->padding_low;
    int64_t place = 0;
    while (place < step && place < from->kernel_size && (start + place * from->window_dilation) % base != 0) place++;
    if (place == step || place == from->kernel_size) return false;
    const int64_t turn = from->reversal ? -1 : 1;
    *to = (CpuConvolutionDim){.input_size = from->input_size,
                              .kernel_size = hlo_divide_up(from->kernel_size - place, step),
                              .output_size = hlo_divide_up(from->output_size - first, cycle),
                              .stride = cycle * from->stride / base,
                              .padding_low = -(start + place * from->window_dilation) / base,
                              .base_dilation = 1,
                              .window_dilation = step * from->window_dilation / base,
                              .reversal = false,
                              .input_stride = from->input_stride,
                              .kernel_stride = turn * step * from->kernel_stride,
                              .output_stride = cycle * from->output_stride};
    assert(to->stride > 0 && to->window_dilation > 0); /* both are multiples of the dilation before its division */
    *out += first * from->output_stride;
    *kernel += (from->reversal ? from->kernel_size - 1 - place : place) * from->kernel_stride;
    return true;
}

// ---- ways

// True if each image is a matrix of features and positions, and the kernel a matrix of input and output features.
static bool is_pointwise(const CpuConvolution *c) {
    int64_t positions = 1;
    if (c->feature_groups > 1 || c->batch_groups > 1 || c->input_feature_stride == 1) return false;
    for (int d = c->rank - 1; d >= 0; d--) {
        const CpuConvolutionDim *dim = &c->dims[d];
        if (dim->kernel_size != 1 || dim->stride != 1 || dim->padding_low != 0 || dim->input_size != dim->output_size ||
            (dim->input_size > 1 && (dim->input_stride != positions || dim->output_stride != positions)))
            return false;
        positions *= dim->input_size;
    }
    return positions > 1;
}

// A window of one element makes the convolution a product of kernel (outputs x inputs) and image (inputs x positions)
// for each image, without any copy: the image already is a matrix. The kernel is the left side, so that the columns
// along which the product's kernel runs are positions, which are the most numerous and are contiguous in memory.
static HloStatus run_pointwise(CpuPool *pool, const CpuConvolution *c, void *out, const void *input,
                               const void *kernel) {
    int64_t positions = 1;
    for (int d = 0; d < c->rank; d++) positions *= c->dims[d].input_size;
    const CpuMatmul product = {.lhs_type = c->rhs_type,
                               .rhs_type = c->lhs_type,
                               .out_type = c->out_type,
                               .precision = c->precision,
                               .batch = c->batch,
                               .m = c->output_features,
                               .n = positions,
                               .k = c->input_features,
                               .lhs_m_stride = c->kernel_output_stride,
                               .lhs_k_stride = c->kernel_input_stride,
                               .rhs_batch_stride = c->input_batch_stride,
                               .rhs_k_stride = c->input_feature_stride,
                               .rhs_n_stride = 1,
                               .out_batch_stride = c->output_batch_stride,
                               .out_m_stride = c->output_feature_stride,
                               .out_n_stride = 1};
    return cpu_matmul(pool, &product, out, kernel, input);
}

// Multiplies patches, which are rows of contiguous elements. An input with neither contiguous features nor contiguous
// images is first copied to make one of them contiguous: the images if the kernel is larger than the output, as then
// (in gradients of kernels) there are more images than features.
static HloStatus run_products(CpuPool *pool, const CpuConvolution *c, void *out, const void *input,
                              const void *kernel) {
    enum { kFewestFeatures = 4 };
    const bool apart = c->input_feature_stride != 1 && (c->input_batch_stride != 1 || c->batch == 1) &&
                       c->input_features >= kFewestFeatures && c->rank > 0;
    if (!apart) return cpu_convolution_products(pool, c, out, input, kernel);
    int64_t sizes[kRankLimit + 2], from[kRankLimit + 2], to[kRankLimit + 2], kernel_places = 1, positions = 1, next = 1;
    CpuConvolutionDim dims[kRankLimit];
    CpuConvolution together = *c;
    for (int d = 0; d < c->rank; d++) kernel_places *= c->dims[d].kernel_size, positions *= c->dims[d].output_size;
    const bool images_next = kernel_places > positions && c->batch > 1;
    together.dims = dims;
    *(images_next ? &together.input_batch_stride : &together.input_feature_stride) = 1;
    next = images_next ? c->batch : c->input_features;
    for (int d = c->rank - 1; d >= 0; d--) {
        dims[d] = c->dims[d];
        sizes[d] = dims[d].input_size, from[d] = dims[d].input_stride;
        dims[d].input_stride = to[d] = next, next *= sizes[d];
    }
    *(images_next ? &together.input_feature_stride : &together.input_batch_stride) = next;
    sizes[c->rank] = c->batch, from[c->rank] = c->input_batch_stride, to[c->rank] = together.input_batch_stride;
    sizes[c->rank + 1] = c->input_features, from[c->rank + 1] = c->input_feature_stride;
    to[c->rank + 1] = together.input_feature_stride;
    const int64_t elements = next * (images_next ? c->input_features : c->batch), width = hlo_type_bytes(c->lhs_type);
    char *memory = cpu_pool_scratch_take(pool, hlo_array_bytes((size_t)elements, (size_t)width));
    HLO_FAIL_IF(!memory, HLO_RESOURCE_EXHAUSTED, "no memory for a convolution");
    cpu_copy_strided(pool, c->rank + 2, sizes, (int)width, memory, to, input, from);
    const HloStatus status = cpu_convolution_products(pool, &together, out, memory, kernel);
    cpu_pool_scratch_give(pool, memory);
    return status;
}

static HloStatus run_whole(CpuPool *pool, const CpuConvolution *c, void *out, const void *input, const void *kernel) {
    if (cpu_convolution_is_direct(c)) return cpu_convolution_direct(pool, c, out, input, kernel);
    if (cpu_convolution_is_windows(c, cpu_pool_features(pool)))
        return cpu_convolution_windows(pool, c, out, input, kernel);
    if (is_pointwise(c)) return run_pointwise(pool, c, out, input, kernel);
    return run_products(pool, c, out, input, kernel);
}

// ---- holes, one after the other

// Runs one convolution without holes for each combination of points of the dimensions' cycles. `out` is all zeros.
static HloStatus run_cycles(CpuPool *pool, const CpuConvolution *c, char *out, const void *input, const char *kernel) {
    int64_t point[kRankLimit] = {0}, combinations = 1;
    const int width = hlo_type_bytes(c->lhs_type), out_width = hlo_type_bytes(c->out_type);
    for (int d = 0; d < c->rank; d++) combinations *= cycle_of(&c->dims[d]);
    for (int64_t i = 0; i < combinations; i++) {
        CpuConvolutionDim dims[kRankLimit];
        CpuConvolution part = *c;
        int64_t out_offset = 0, kernel_offset = 0, rest = i;
        bool sees = true;
        part.dims = dims;
        for (int d = c->rank - 1; d >= 0; d--) {
            point[d] = rest % cycle_of(&c->dims[d]);
            rest /= cycle_of(&c->dims[d]);
            sees = without_holes(&c->dims[d], point[d], &dims[d], &out_offset, &kernel_offset) && sees;
        }
        if (sees) HLO_TRY(run_whole(pool, &part, out + out_offset * out_width, input, kernel + kernel_offset * width));
    }
    return HLO_SUCCESS;
}

// ---- types

typedef struct Counts {
    int64_t input, kernel, output;  // elements
    bool holes;
} Counts;

static Counts counts_of(const CpuConvolution *c) {
    Counts n = {c->batch * c->input_features, c->input_features / c->feature_groups * c->output_features,
                c->batch / c->batch_groups * c->output_features, false};
    for (int d = 0; d < c->rank; d++) {
        n.input *= c->dims[d].input_size;
        n.kernel *= c->dims[d].kernel_size;
        n.output *= c->dims[d].output_size;
        n.holes |= c->dims[d].base_dilation > 1;
    }
    return n;
}

static size_t round_64(size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

// Returns a copy of a dense array in the type of the arithmetic, rounded like one bf16 pass if `rounded`. Arrays are
// dense, so all strides stay.
static const void *bring(const CpuLoopKernels *kernels, HloType from, HloType to, bool rounded, const void *array,
                         int64_t count, char *memory) {
    if (from == to && !rounded) return array;
    cpu_matmul_pack(kernels, from, to, memory, array, 1, count, 0, 1);
    if (rounded) kernels->round[HLO_BF16](memory, memory, NULL, NULL, count, 0);
    return memory;
}

// Chooses the way. Operands are first converted to the type of the arithmetic if theirs differs. A convolution whose
// kernel has no elements, or positions that no window reaches, yields zeros there.
HloStatus cpu_convolution(CpuPool *pool, const CpuConvolution *c, void *out, const void *input, const void *kernel) {
    assert(c && out && input && kernel);
    const HloType compute = cpu_matmul_compute_type(c->lhs_type, c->rhs_type, c->out_type);
    assert(compute != HLO_INVALID && c->rank <= kRankLimit); /* lowering checks; no array has more dimensions */
    assert(c->feature_groups >= 1 && c->batch_groups >= 1 && (c->feature_groups == 1 || c->batch_groups == 1));
    assert(c->output_features % (c->feature_groups * c->batch_groups) == 0);               /* the verifier checks */
    assert(c->input_features % c->feature_groups == 0 && c->batch % c->batch_groups == 0); /* as above */
    const Counts n = counts_of(c);
    if (n.output == 0) return HLO_SUCCESS;
    if (n.kernel == 0 || n.holes) memset(out, 0, (size_t)(n.output * hlo_type_bytes(c->out_type)));
    if (n.kernel == 0) return HLO_SUCCESS;
    CpuConvolution plain = *c;
    plain.lhs_type = plain.rhs_type = compute;
    // Rounding is idempotent, so it does no harm if parts turn out to be products, which round by themselves.
    const bool rounded =
        c->precision == CPU_PRECISION_BF16_1 && compute == HLO_F32 && (n.holes || cpu_convolution_is_direct(&plain));
    const size_t width = (size_t)hlo_type_bytes(compute);
    const size_t first = c->lhs_type == compute && !rounded ? 0 : round_64(hlo_array_bytes((size_t)n.input, width));
    const size_t second = c->rhs_type == compute && !rounded ? 0 : round_64(hlo_array_bytes((size_t)n.kernel, width));
    char *memory = first + second ? cpu_pool_scratch_take(pool, first + second) : NULL;
    HLO_FAIL_IF(first + second && !memory, HLO_RESOURCE_EXHAUSTED, "no memory for a convolution");
    const CpuLoopKernels *kernels = cpu_isa_loop_kernels(cpu_pool_features(pool));
    input = bring(kernels, c->lhs_type, compute, rounded, input, n.input, memory);
    kernel = bring(kernels, c->rhs_type, compute, rounded, kernel, n.kernel, memory ? memory + first : NULL);
    // As in cpu_matmul().
    if (c->precision == CPU_PRECISION_BF16_6 &&
        !cpu_matmul_has_infinite_part(input, compute, (int64_t[]){1, 1, n.input}, (int64_t[]){0, 0, 1}) &&
        !cpu_matmul_has_infinite_part(kernel, compute, (int64_t[]){1, 1, n.kernel}, (int64_t[]){0, 0, 1}))
        plain.precision = CPU_PRECISION_EXACT;
    const HloStatus status =
        n.holes ? run_cycles(pool, &plain, out, input, kernel) : run_whole(pool, &plain, out, input, kernel);
    cpu_pool_scratch_give(pool, memory);
    return status;
}
