// SPDX-License-Identifier: Apache-2.0
// Convolutions against the definition, over layouts, paddings, dilations, reversal and groups.
#include <criterion/criterion.h>
#include <string.h>

#include "hlo/base/memory.h"
#include "hlo/ir/literal.h"
#include "targets/cpu/kernels/convolution.h"
#include "tests/support/cases.h"
#include "tests/support/levels.h"

typedef struct Case {
    int rank;
    int64_t batch, in_features, out_features, feature_groups, batch_groups;
    int64_t in[3], kernel[3], stride[3], low[3], high[3], base[3], window[3];
    int reversal[3];
} Case;

static Case kCases[] = {
    {2, 2, 3, 8, 1, 1, {9, 11}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
    {2, 2, 3, 5, 1, 1, {13, 10}, {5, 4}, {2, 3}, {2, -1}, {2, 3}, {1, 1}, {1, 1}, {0, 0}},
    {2, 1, 4, 6, 1, 1, {6, 5}, {3, 2}, {1, 1}, {2, 1}, {2, 1}, {2, 3}, {1, 2}, {1, 1}},
    {2, 3, 6, 4, 2, 1, {7, 7}, {3, 3}, {1, 2}, {0, 1}, {0, 1}, {1, 1}, {2, 1}, {0, 1}},
    {2, 2, 6, 6, 6, 1, {7, 8}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
    {2, 6, 3, 4, 1, 2, {5, 6}, {2, 2}, {1, 1}, {0, 0}, {0, 0}, {1, 1}, {1, 1}, {0, 0}},
    {1, 2, 5, 7, 1, 1, {40}, {9}, {2}, {4}, {4}, {1}, {1}, {0}},
    {3, 1, 2, 3, 1, 1, {4, 5, 6}, {2, 3, 2}, {1, 1, 2}, {1, 0, 1}, {0, 1, 1}, {1, 2, 1}, {1, 1, 1}, {0, 0, 1}},
    {2, 3, 7, 9, 1, 1, {8, 8}, {1, 1}, {1, 1}, {0, 0}, {0, 0}, {1, 1}, {1, 1}, {0, 0}},
    {0, 5, 7, 9, 1, 1, {0}, {0}, {0}, {0}, {0}, {0}, {0}, {0}},
    {2, 16, 8, 3, 1, 1, {12, 12}, {10, 10}, {1, 1}, {0, 0}, {0, 0}, {1, 1}, {1, 1}, {0, 0}},
    {2, 4, 40, 48, 1, 1, {14, 14}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
    {1, 2, 3, 4, 1, 1, {5}, {2}, {1}, {-6}, {9}, {1}, {1}, {0}},
    // Depthwise: one feature a group, two outputs of one, pairs of features, and a group a lane of several vectors.
    {2, 2, 5, 10, 5, 1, {7, 6}, {3, 2}, {2, 1}, {1, 0}, {1, 1}, {1, 1}, {1, 2}, {0, 1}},
    {2, 1, 8, 8, 4, 1, {5, 9}, {3, 3}, {1, 2}, {1, 2}, {1, 0}, {1, 1}, {1, 1}, {1, 0}},
    {1, 2, 150, 150, 150, 1, {9}, {4}, {1}, {2}, {1}, {1}, {1}, {0}},
    {3, 2, 6, 6, 6, 1, {4, 3, 5}, {2, 3, 2}, {1, 1, 2}, {1, 1, 0}, {0, 1, 1}, {1, 1, 1}, {2, 1, 1}, {0, 0, 0}},
    // Gradients of depthwise kernels: groups of the batch, sums longer than one call takes.
    {2, 20, 3, 20, 1, 20, {17, 19}, {15, 17}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
    {2, 6, 2, 6, 1, 6, {9, 9}, {4, 4}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {2, 2}, {0, 0}},
    // Few features over long rows, which are taken apart by the stride and cut into pieces.
    {1, 1, 1, 1, 1, 1, {5001}, {5}, {1}, {2}, {2}, {1}, {1}, {1}},
    {1, 2, 1, 2, 1, 1, {300}, {7}, {3}, {-2}, {9}, {1}, {2}, {0}},
    {2, 1, 2, 3, 1, 1, {20, 33}, {5, 9}, {2, 4}, {3, 8}, {1, 5}, {1, 1}, {1, 1}, {0, 1}},
    {2, 1, 20, 2, 1, 1, {12, 40}, {5, 7}, {1, 1}, {2, 3}, {2, 3}, {1, 1}, {1, 1}, {0, 0}},
    // Holes between input elements: transposed convolutions, with strides, dilated and reversed kernels beside.
    {2, 2, 3, 4, 1, 1, {5, 6}, {4, 4}, {1, 1}, {2, 2}, {2, 2}, {2, 2}, {1, 1}, {0, 0}},
    {2, 1, 2, 3, 1, 1, {7, 5}, {1, 1}, {1, 1}, {0, 0}, {1, 1}, {2, 3}, {1, 1}, {0, 0}},
    {2, 1, 3, 2, 1, 1, {6, 7}, {5, 3}, {2, 3}, {3, 1}, {0, 4}, {3, 4}, {2, 3}, {1, 1}},
    {2, 2, 6, 6, 6, 1, {5, 6}, {3, 3}, {1, 1}, {1, 2}, {2, 2}, {2, 2}, {1, 1}, {1, 1}},
    {1, 2, 2, 2, 1, 1, {3}, {2}, {1}, {0}, {0}, {9}, {1}, {0}},
    // Windows read in place: rows of several tiles and an uneven one, two panels of features; without padding, where
    // the input needs no copy; with negative padding; kernels with dilation, reversed.
    {2, 2, 5, 35, 1, 1, {6, 37}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
    {2, 1, 4, 20, 1, 1, {9, 31}, {2, 5}, {1, 2}, {0, 0}, {0, 0}, {1, 1}, {2, 1}, {0, 1}},
    {2, 2, 3, 17, 1, 1, {8, 29}, {3, 4}, {2, 1}, {-1, -2}, {-1, 0}, {1, 1}, {1, 1}, {1, 0}},
    {3, 1, 3, 33, 1, 1, {4, 5, 15}, {2, 2, 3}, {1, 1, 2}, {1, 0, 1}, {0, 1, 1}, {1, 1, 1}, {1, 2, 2}, {0, 0, 0}},
    {1, 3, 1, 6, 1, 1, {100}, {11}, {1}, {5}, {5}, {1}, {1}, {0}},
    // Short rows of many features: patches with AVX2, with strides too.
    {2, 2, 5, 130, 1, 1, {7, 7}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
    {2, 1, 4, 200, 1, 1, {13, 15}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {0, 1}},
    // Products of features and positions of each image; gradients of kernels, whose images become neighbours.
    {2, 3, 12, 20, 1, 1, {5, 9}, {1, 1}, {1, 1}, {0, 0}, {0, 0}, {1, 1}, {1, 1}, {0, 0}},
    {2, 9, 5, 18, 1, 1, {16, 15}, {14, 13}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
    {2, 2, 8, 12, 2, 1, {9, 8}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {0, 1}},
};
enum { kCaseCount = sizeof kCases / sizeof kCases[0] };

static uint32_t state = 3;
static int small_random(void) {
    state = state * 1664525 + 1013904223;
    return (int)(state >> 24) % 7 - 3;
}

static void put(HloType type, void *array, int64_t i, int value) {
    const float pair[2] = {(float)value, (float)(value + 1)};
    if (type == HLO_C64) {
        memcpy((char *)array + 8 * i, pair, 8);
        return;
    }
    const uint64_t bits = hlo_type_is_float(type) ? hlo_float_encode(type, value) : (uint64_t)(int64_t)value;
    memcpy((char *)array + i * hlo_type_bytes(type), &bits, (size_t)hlo_type_bytes(type));
}

static double get(HloType type, const void *array, int64_t i) {
    uint64_t bits = 0;
    const int width = hlo_type_bytes(type);
    if (type == HLO_C64) return ((const float *)array)[2 * i];
    memcpy(&bits, (const char *)array + i * width, (size_t)width);
    return hlo_type_is_float(type) ? hlo_float_decode(type, bits)
                                   : (double)((int64_t)(bits << (64 - 8 * width)) >> (64 - 8 * width));
}

// Strides of a dense array in the order of `dims` (slowest first); dims: rank spatial ones, then two others.
static void dense(int count, const int *order, const int64_t *sizes, int64_t *strides) {
    int64_t next = 1;
    for (int i = count - 1; i >= 0; i--) strides[order[i]] = next, next *= sizes[order[i]];
}

// layout 0: batch, spatial, feature; 1: batch, feature, spatial; 2: feature, spatial, batch. Dimension `rank` is the
// batch (or the kernel's input features), rank + 1 the feature (or the kernel's output features).
static void order_of(int rank, int layout, int *order) {
    static const int first[] = {0, 0, 1};
    int at = 0;
    order[at++] = rank + first[layout];
    if (layout == 1) order[at++] = rank + 1;
    for (int d = 0; d < rank; d++) order[at++] = d;
    if (layout == 0) order[at++] = rank + 1;
    if (layout == 2) order[at++] = rank;
}

typedef struct Setup {
    CpuConvolution c;
    CpuConvolutionDim dims[3];
    int64_t inputs, kernels, outputs;
} Setup;

static void set_up(const Case *k, int layout, Setup *s) {
    int order[5];
    int64_t in[5], kernel[5], out[5], in_strides[5], kernel_strides[5], out_strides[5];
    const int rank = k->rank;
    s->inputs = s->kernels = s->outputs = 1;
    for (int d = 0; d < rank; d++) {
        const int64_t dilated = (k->in[d] ? (k->in[d] - 1) * k->base[d] + 1 : 0) + k->low[d] + k->high[d],
                      reach = k->kernel[d] ? (k->kernel[d] - 1) * k->window[d] + 1 : 0;
        in[d] = k->in[d], kernel[d] = k->kernel[d],
        out[d] = dilated < reach || dilated < 0 ? 0 : (dilated - reach) / k->stride[d] + 1;
    }
    in[rank] = k->batch, in[rank + 1] = k->in_features;
    kernel[rank] = k->in_features / k->feature_groups, kernel[rank + 1] = k->out_features;
    out[rank] = k->batch / k->batch_groups, out[rank + 1] = k->out_features;
    order_of(rank, layout, order);
    dense(rank + 2, order, in, in_strides);
    dense(rank + 2, order, out, out_strides);
    order_of(rank, (layout + 1) % 3, order);
    dense(rank + 2, order, kernel, kernel_strides);
    for (int d = 0; d < rank + 2; d++) s->inputs *= in[d], s->kernels *= kernel[d], s->outputs *= out[d];
    s->c = (CpuConvolution){.rank = rank,
                            .dims = s->dims,
                            .batch = k->batch,
                            .input_features = k->in_features,
                            .output_features = k->out_features,
                            .feature_groups = k->feature_groups,
                            .batch_groups = k->batch_groups,
                            .input_batch_stride = in_strides[rank],
                            .input_feature_stride = in_strides[rank + 1],
                            .kernel_input_stride = kernel_strides[rank],
                            .kernel_output_stride = kernel_strides[rank + 1],
                            .output_batch_stride = out_strides[rank],
                            .output_feature_stride = out_strides[rank + 1]};
    for (int d = 0; d < rank; d++)
        s->dims[d] = (CpuConvolutionDim){in[d],         kernel[d],         out[d],        k->stride[d],
                                         k->low[d],     k->base[d],        k->window[d],  k->reversal[d],
                                         in_strides[d], kernel_strides[d], out_strides[d]};
}

// A complex number is written as its real part: put() makes the imaginary part one more.
static double *decoded(HloType type, const void *array, int64_t count) {
    double *values = hlo_allocate_aligned((size_t)count * sizeof(double) + 1);
    for (int64_t i = 0; i < count; i++) values[i] = get(type, array, i);
    return values;
}

static double one_output(const Setup *s, HloType type, const double *input, const double *kernel, int64_t n, int64_t o,
                         const int64_t *index) {
    const CpuConvolution *c = &s->c;
    const int64_t ci = c->input_features / c->feature_groups, fg = o / (c->output_features / c->feature_groups),
                  bg = o / (c->output_features / c->batch_groups);
    int64_t places = 1;
    double sum = 0;
    for (int d = 0; d < c->rank; d++) places *= s->dims[d].kernel_size;
    for (int64_t p = 0; p < places; p++) {
        int64_t rest = p, from = (bg * (c->batch / c->batch_groups) + n) * c->input_batch_stride,
                with = o * c->kernel_output_stride;
        bool inside = true;
        for (int d = c->rank - 1; d >= 0; d--) {
            const CpuConvolutionDim *x = &s->dims[d];
            const int64_t k = rest % x->kernel_size,
                          at = index[d] * x->stride + k * x->window_dilation - x->padding_low;
            rest /= x->kernel_size;
            inside &= at >= 0 && at % x->base_dilation == 0 && at / x->base_dilation < x->input_size;
            from += at / x->base_dilation * x->input_stride;
            with += (x->reversal ? x->kernel_size - 1 - k : k) * x->kernel_stride;
        }
        for (int64_t f = 0; inside && f < ci; f++) {
            const double a = input[from + (fg * ci + f) * c->input_feature_stride],
                         b = kernel[with + f * c->kernel_input_stride];
            sum += type == HLO_C64 ? a * b - (a + 1) * (b + 1) : a * b;
        }
    }
    return sum;
}

static void check(CpuPool *pool, const Case *k, int layout, HloType type, HloType out_type) {
    Setup s;
    set_up(k, layout, &s);
    s.c.lhs_type = s.c.rhs_type = type, s.c.out_type = out_type;
    char *input = hlo_allocate_aligned((size_t)(s.inputs * 8)), *kernel = hlo_allocate_aligned((size_t)(s.kernels * 8)),
         *out = hlo_allocate_aligned((size_t)(s.outputs * 8) + 1);
    for (int64_t i = 0; i < s.inputs; i++) put(type, input, i, small_random());
    for (int64_t i = 0; i < s.kernels; i++) put(type, kernel, i, small_random());
    cr_assert_null(cpu_convolution(pool, &s.c, out, input, kernel));
    double *inputs = decoded(type, input, s.inputs), *kernels = decoded(type, kernel, s.kernels);
    const int64_t positions = s.outputs / (k->out_features * (k->batch / k->batch_groups));
    for (int64_t n = 0; n < k->batch / k->batch_groups; n++)
        for (int64_t o = 0; o < k->out_features; o++)
            for (int64_t p = 0; p < positions; p++) {
                int64_t index[3] = {0}, rest = p, at = n * s.c.output_batch_stride + o * s.c.output_feature_stride;
                for (int d = k->rank - 1; d >= 0; d--)
                    index[d] = rest % s.dims[d].output_size, rest /= s.dims[d].output_size,
                    at += index[d] * s.dims[d].output_stride;
                const double want = one_output(&s, type, inputs, kernels, n, o, index);
                cr_assert_eq(get(out_type, out, at), want,
                             "layout %d type %s image %lld feature %lld place %lld: %g, not %g", layout,
                             hlo_type_text(type), (long long)n, (long long)o, (long long)p, get(out_type, out, at),
                             want);
            }
    hlo_free(input), hlo_free(kernel), hlo_free(out), hlo_free(inputs), hlo_free(kernels);
}

static int kNumbers[kCaseCount];
CaseList(cpu_convolution, agrees_with_the_definition) {
    for (int i = 0; i < kCaseCount; i++) kNumbers[i] = i;
    return cr_make_param_array(int, kNumbers, kCaseCount);
}

CaseTest(int *number, cpu_convolution, agrees_with_the_definition) {
    for (int set = levels_first(); set <= levels_last(); set++) {
        CpuPool *pool;
        cr_assert_null(cpu_pool_new_with(2, (CpuFeatures)set, &pool));
        for (int layout = 0; layout < 3; layout++) {
            check(pool, &kCases[*number], layout, HLO_F32, HLO_F32);
            if (set < levels_last()) continue;
            check(pool, &kCases[*number], layout, HLO_BF16, HLO_F32);
            check(pool, &kCases[*number], layout, HLO_S8, HLO_S32);
            check(pool, &kCases[*number], layout, HLO_C64, HLO_C64);
            check(pool, &kCases[*number], layout, HLO_F64, HLO_F64);
        }
        cpu_pool_free(pool);
    }
}

static int64_t up_to(int64_t most) {
    state = state * 1664525 + 1013904223;
    return (int64_t)(state >> 16) % most;
}

// Any form that a convolution can have, small.
static Case random_case(void) {
    Case c = {.rank = (int)up_to(4), .feature_groups = 1, .batch_groups = 1};
    const int64_t form = up_to(3), groups = form ? 1 + up_to(5) : 1;
    if (form == 1) c.feature_groups = groups;
    if (form == 2) c.batch_groups = groups;
    c.batch = (1 + up_to(2)) * c.batch_groups;
    c.in_features = (1 + up_to(3)) * c.feature_groups;
    c.out_features = (1 + up_to(3)) * groups;
    for (int d = 0; d < c.rank; d++) {
        c.in[d] = up_to(7), c.kernel[d] = up_to(12) ? 1 + up_to(4) : 0;
        c.stride[d] = 1 + up_to(3), c.base[d] = 1 + up_to(4), c.window[d] = 1 + up_to(3);
        c.low[d] = up_to(6) - 2, c.high[d] = up_to(6) - 1;
        c.reversal[d] = (int)up_to(2);
        if (c.in[d] == 0) c.low[d] = 3, c.base[d] = 1;  // nothing to be dilated
    }
    return c;
}

Test(cpu_convolution, random_forms_agree_with_the_definition) {
    for (int i = 0; i < 600; i++) {
        const Case c = random_case();
        CpuPool *pool;
        cr_assert_null(cpu_pool_new_with(
            1 + i % 3, (CpuFeatures)(levels_first() + i % (levels_last() - levels_first() + 1)), &pool));
        check(pool, &c, i % 3,
              i % 5   ? HLO_F32
              : i % 2 ? HLO_C64
                      : HLO_F64,
              i % 5   ? HLO_F32
              : i % 2 ? HLO_C64
                      : HLO_F64);
        cpu_pool_free(pool);
    }
}

// Reals whose sums round: the result of a case on a number of workers.
static char *rounded_result(const Case *k, int layout, int workers, size_t *bytes) {
    Setup s;
    CpuPool *pool;
    set_up(k, layout, &s);
    s.c.lhs_type = s.c.rhs_type = s.c.out_type = HLO_F32;
    float *input = hlo_allocate_aligned((size_t)(s.inputs * 4)),
          *kernel = hlo_allocate_aligned((size_t)(s.kernels * 4));
    char *out = hlo_allocate_aligned((size_t)(s.outputs * 4) + 1);
    state = 17;
    for (int64_t i = 0; i < s.inputs; i++) input[i] = (float)up_to(60000) * 1e-4f - 3;
    for (int64_t i = 0; i < s.kernels; i++) kernel[i] = (float)up_to(60000) * 1e-4f - 3;
    cr_assert_null(cpu_pool_new_with(workers, CPU_FEATURES_AMX, &pool));
    cr_assert_null(cpu_convolution(pool, &s.c, out, input, kernel));
    cpu_pool_free(pool);
    hlo_free(input), hlo_free(kernel);
    *bytes = (size_t)(s.outputs * 4);
    return out;
}

Test(cpu_convolution, bits_do_not_depend_on_the_workers) {
    for (int i = 0; i < kCaseCount; i++)
        for (int layout = 0; layout < 3; layout++) {
            size_t bytes;
            char *one = rounded_result(&kCases[i], layout, 1, &bytes),
                 *four = rounded_result(&kCases[i], layout, 4, &bytes);
            cr_assert_arr_eq(one, four, bytes, "case %d, layout %d", i, layout);
            hlo_free(one), hlo_free(four);
        }
}
