// SPDX-License-Identifier: Apache-2.0
// The array kernels one by one: `kernels [workers]`. With one worker (the default) the processor time of the thread is
// measured, so that a busy machine does not change the figures; with more, the clock on the wall.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "targets/cpu/dense/linalg.h"
#include "targets/cpu/dense/matmul.h"
#include "targets/cpu/element/copy.h"
#include "targets/cpu/kernels/convolution.h"
#include "targets/cpu/kernels/fft.h"
#include "targets/cpu/kernels/gather.h"
#include "targets/cpu/kernels/random.h"
#include "targets/cpu/kernels/sort.h"
#include "targets/cpu/kernels/window.h"
#include "targets/cpu/loop/loop.h"

enum { kElements = 4 << 20 };

static CpuPool *pool;
static HloArena *arena;
static float *inputs[2], *output;
static int64_t parameter[4];  // of the case that runs

typedef void Body(void);

static double seconds(void) {
    struct timespec now;
    clock_gettime(cpu_pool_worker_count(pool) == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void must(HloStatus status) {
    if (!status) return;
    fprintf(stderr, "%s\n", hlo_status_message(status));
    exit(1);
}

// Best of several runs, each long enough to be measured.
static double best_time(Body *body) {
    const double first = seconds();
    body();
    const double once = seconds() - first;
    const int runs = once > 0.01 ? 1 : (int)(0.01 / (once + 1e-6)) + 1;
    double best = 1e30;
    for (int round = 0; round < 6; round++) {
        const double start = seconds();
        for (int i = 0; i < runs; i++) body();
        const double each = (seconds() - start) / runs;
        best = each < best ? each : best;
    }
    return best;
}

static void report(const char *name, double amount, const char *unit, Body *body) {
    const double time = best_time(body);
    printf("%-34s %12.2f us %9.2f %s\n", name, time * 1e6, amount / time * 1e-9, unit);
}

// ---- fused loops

static CpuLoop *loop;
static void run_loop(void) {
    must(cpu_loop_run(loop, pool, (void *[]){inputs[0], inputs[1], output}));
}

static CpuLoopBuilder *flat_builder(int64_t n) {
    const CpuLoopDomain domain = {.outer = 1, .dims = &n};
    return cpu_loop_builder_new(arena, &domain, cpu_pool_features(pool));
}

static void elementwise_case(const char *name, CpuLoopOp op, int64_t n) {
    const int64_t one[] = {1};
    const CpuIndexMap map = {0, one};
    CpuLoopBuilder *b = flat_builder(n);
    const CpuValue x = cpu_loop_load(b, 0, HLO_F32, &map), y = cpu_loop_load(b, 1, HLO_F32, &map);
    cpu_loop_store(b, 2, cpu_loop_op(b, op, x, y, -1), &map);
    must(cpu_loop_finish(b, &loop));
    report(name, (double)n, "Gelem/s", run_loop);
}

static CpuValue constant(CpuLoopBuilder *b, float value) {
    return cpu_loop_constant(b, HLO_F32, &value);
}

// 0.5 x (1 + tanh(0.797885 (x + 0.044715 x^3)))
static void gelu_case(const char *name, int64_t n) {
    const int64_t one[] = {1};
    const CpuIndexMap map = {0, one};
    CpuLoopBuilder *b = flat_builder(n);
    const CpuValue x = cpu_loop_load(b, 0, HLO_F32, &map),
                   cube = cpu_loop_op(b, CPU_OP_MULTIPLY, x, cpu_loop_op(b, CPU_OP_MULTIPLY, x, x, -1), -1);
    const CpuValue inner =
        cpu_loop_op(b, CPU_OP_ADD, x, cpu_loop_op(b, CPU_OP_MULTIPLY, cube, constant(b, 0.044715f), -1), -1);
    const CpuValue t =
        cpu_loop_op(b, CPU_OP_TANH, cpu_loop_op(b, CPU_OP_MULTIPLY, inner, constant(b, 0.797885f), -1), -1, -1);
    const CpuValue half = cpu_loop_op(b, CPU_OP_MULTIPLY, x, constant(b, 0.5f), -1);
    cpu_loop_store(b, 2, cpu_loop_op(b, CPU_OP_MULTIPLY, half, cpu_loop_op(b, CPU_OP_ADD, t, constant(b, 1), -1), -1),
                   &map);
    must(cpu_loop_finish(b, &loop));
    report(name, (double)n, "Gelem/s", run_loop);
}

static void softmax_case(int64_t rows, int64_t n) {
    const int64_t dims[] = {rows, n}, full[] = {n, 1};
    const CpuLoopDomain domain = {.outer = 1, .reduced = 1, .dims = dims};
    const CpuIndexMap map = {0, full};
    CpuLoopBuilder *b = cpu_loop_builder_new(arena, &domain, cpu_pool_features(pool));
    const CpuValue x = cpu_loop_load(b, 0, HLO_F32, &map),
                   maximum = cpu_loop_reduce(b, CPU_REDUCE_MAXIMUM, x, constant(b, -INFINITY));
    const CpuValue e = cpu_loop_op(b, CPU_OP_EXP, cpu_loop_op(b, CPU_OP_SUBTRACT, x, maximum, -1), -1, -1);
    const CpuValue sum = cpu_loop_reduce(b, CPU_REDUCE_ADD, e, constant(b, 0));
    cpu_loop_store(b, 2, cpu_loop_op(b, CPU_OP_DIVIDE, e, sum, -1), &map);
    must(cpu_loop_finish(b, &loop));
    report("softmax 1024x4096", (double)(rows * n), "Gelem/s", run_loop);
}

static void sum_case(const char *name, int64_t outer, int64_t reduced, int64_t inner) {
    const int64_t dims[] = {outer, reduced, inner}, full[] = {reduced * inner, inner, 1}, kept[] = {inner, 0, 1};
    const CpuLoopDomain domain = {.outer = 1, .reduced = 1, .inner = 1, .dims = dims};
    CpuLoopBuilder *b = cpu_loop_builder_new(arena, &domain, cpu_pool_features(pool));
    const CpuValue x = cpu_loop_load(b, 0, HLO_F32, &(CpuIndexMap){0, full});
    cpu_loop_store(b, 2, cpu_loop_reduce(b, CPU_REDUCE_ADD, x, constant(b, 0)), &(CpuIndexMap){0, kept});
    must(cpu_loop_finish(b, &loop));
    report(name, 4.0 * (double)(outer * reduced * inner), "GB/s", run_loop);
}

static void loop_cases(void) {
    static const struct {
        const char *name;
        CpuLoopOp op;
    } rows[] = {{"add 4M", CPU_OP_ADD},   {"exp 4M", CPU_OP_EXP},   {"log 4M", CPU_OP_LOG},
                {"tanh 4M", CPU_OP_TANH}, {"erf 4M", CPU_OP_ERF},   {"logistic 4M", CPU_OP_LOGISTIC},
                {"sin 4M", CPU_OP_SIN},   {"pow 4M", CPU_OP_POWER}, {"atan2 4M", CPU_OP_ATAN2}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) elementwise_case(rows[i].name, rows[i].op, kElements);
    elementwise_case("add 4K", CPU_OP_ADD, 4096);
    elementwise_case("add 16", CPU_OP_ADD, 16);
    gelu_case("gelu(tanh) 4M", kElements);
    gelu_case("gelu(tanh) 16K", 16384);
    elementwise_case("tanh 16K", CPU_OP_TANH, 16384);
    softmax_case(1024, 4096);
    sum_case("sum 4M", 1, kElements, 1);
    sum_case("sum axis 1 of 2048x2048", 2048, 2048, 1);
    sum_case("sum axis 0 of 2048x2048", 1, 2048, 2048);
}

// ---- products

static HloType in_type, out_type;
static CpuPrecision precision;
static void run_matmul(void) {
    const int64_t m = parameter[0], n = parameter[1], k = parameter[2];
    const CpuMatmul mm = {.lhs_type = in_type,
                          .rhs_type = in_type,
                          .out_type = out_type,
                          .precision = precision,
                          .batch = parameter[3],
                          .m = m,
                          .n = n,
                          .k = k,
                          .lhs_batch_stride = m * k,
                          .lhs_m_stride = k,
                          .lhs_k_stride = 1,
                          .rhs_batch_stride = k * n,
                          .rhs_k_stride = n,
                          .rhs_n_stride = 1,
                          .out_batch_stride = m * n,
                          .out_m_stride = n,
                          .out_n_stride = 1};
    must(cpu_matmul(pool, &mm, output, inputs[0], inputs[1]));
}

static void matmul_case(const char *name, HloType in, HloType out, int64_t batch, int64_t m, int64_t n, int64_t k) {
    in_type = in, out_type = out;
    parameter[0] = m, parameter[1] = n, parameter[2] = k, parameter[3] = batch;
    report(name, 2.0 * (double)batch * (double)m * (double)n * (double)k, "GFLOP/s", run_matmul);
}

static void run_convolution(void) {
    static const CpuConvolutionDim dims[2] = {{56, 3, 56, 1, 1, 1, 1, false, 56 * 64, 3 * 64 * 64, 56 * 64},
                                              {56, 3, 56, 1, 1, 1, 1, false, 64, 64 * 64, 64}};
    const CpuConvolution c = {.lhs_type = HLO_F32,
                              .rhs_type = HLO_F32,
                              .out_type = HLO_F32,
                              .rank = 2,
                              .dims = dims,
                              .batch = 8,
                              .input_features = 64,
                              .output_features = 64,
                              .feature_groups = 1,
                              .batch_groups = 1,
                              .input_batch_stride = 56 * 56 * 64,
                              .input_feature_stride = 1,
                              .kernel_input_stride = 64,
                              .kernel_output_stride = 1,
                              .output_batch_stride = 56 * 56 * 64,
                              .output_feature_stride = 1};
    must(cpu_convolution(pool, &c, output, inputs[0], inputs[1]));
}

static void product_cases(void) {
    matmul_case("dot 64", HLO_F32, HLO_F32, 1, 64, 64, 64);
    matmul_case("dot 256", HLO_F32, HLO_F32, 1, 256, 256, 256);
    matmul_case("dot 1024", HLO_F32, HLO_F32, 1, 1024, 1024, 1024);
    matmul_case("dot f64 512", HLO_F64, HLO_F64, 1, 512, 512, 512);
    matmul_case("dot c64 512", HLO_C64, HLO_C64, 1, 512, 512, 512);
    matmul_case("dot bf16 1024", HLO_BF16, HLO_BF16, 1, 1024, 1024, 1024);
    matmul_case("dot s8 to s32 512", HLO_S8, HLO_S32, 1, 512, 512, 512);
    precision = CPU_PRECISION_BF16_1;
    matmul_case("dot 1024, one bf16 pass", HLO_F32, HLO_F32, 1, 1024, 1024, 1024);
    precision = CPU_PRECISION_EXACT;
    matmul_case("64 products 64x64x128", HLO_F32, HLO_F32, 64, 64, 64, 128);
    matmul_case("matrix-vector 2048", HLO_F32, HLO_F32, 1, 2048, 1, 2048);
    report("conv 3x3 8x56x56x64", 2.0 * 8 * 56 * 56 * 64 * 64 * 9, "GFLOP/s", run_convolution);
}

// ---- everything else

static void run_transpose(void) {
    const int64_t sizes[] = {2048, 2048}, to[] = {2048, 1}, from[] = {1, 2048};
    cpu_copy_strided(pool, 2, sizes, 4, output, to, inputs[0], from);
}
static void run_sort(void) {
    const HloType types[] = {HLO_F32, HLO_S32};
    const CpuSortKey key = {0, false, CPU_SORT_NUMERIC};
    const CpuSort sort = {.outer = 1,
                          .length = parameter[0],
                          .inner = 1,
                          .count = (int)parameter[1],
                          .types = types,
                          .key_count = 1,
                          .keys = &key};
    must(cpu_sort(pool, &sort, (void *[]){output, output + kElements / 2}, (const void *[]){inputs[0], inputs[1]}));
}
static void run_top_k(void) {
    must(cpu_top_k(pool, HLO_F32, 64, 32000, 8, true, output, (int32_t *)(void *)(output + 4096), inputs[0]));
}
static void run_argmax(void) {
    must(cpu_argminmax(pool, HLO_F32, true, 1024, 4096, 1, HLO_S32, NULL, output, inputs[0]));
}
static void run_cumsum(void) {
    const float zero = 0;
    must(cpu_scan(pool, HLO_F32, CPU_REDUCE_ADD, false, 1024, 4096, 1, &zero, output, inputs[0]));
}
static void run_bits(void) {
    cpu_threefry_counter_bits(pool, (const uint32_t[]){1, 2}, 0, kElements, 32, output);
}
static void run_philox(void) {
    uint64_t state[3] = {1, 2, 3};
    const int64_t n = kElements;
    cpu_rng_philox(pool, 3, state, state, 1, &n, 32, output);
}
static int32_t *rows;
static CpuIndexing rows_of_table(void) {
    static const int64_t operand[] = {8000, 512}, indices[] = {4096, 1}, result[] = {4096, 512}, window[] = {1},
                         zero[] = {0}, slices[] = {1, 512};
    return (CpuIndexing){.operand_rank = 2,
                         .indices_rank = 2,
                         .result_rank = 2,
                         .operand_sizes = operand,
                         .indices_sizes = indices,
                         .result_sizes = result,
                         .index_type = HLO_S32,
                         .index_vector_dim = 1,
                         .window_count = 1,
                         .window_dims = window,
                         .collapsed_count = 1,
                         .collapsed_dims = zero,
                         .map_count = 1,
                         .start_index_map = zero,
                         .slice_sizes = slices};
}
static void run_gather(void) {
    const CpuIndexing x = rows_of_table();
    must(cpu_gather(pool, &x, 4, output, inputs[0], (const void *[]){rows}));
}
static void run_scatter(void) {
    const HloType type = HLO_F32;
    const CpuScatter s = {.indexing = rows_of_table(), .count = 1, .types = &type, .op = CPU_SCATTER_ADD};
    must(cpu_scatter(pool, &s, (void *[]){output}, (const void *[]){output}, rows, (const void *[]){inputs[0]}));
}
static const CpuFft *fft;
static void run_fft(void) {
    must(cpu_fft_run(pool, fft, parameter[0], output, inputs[0]));
}
static void fft_case(const char *name, CpuFftKind kind, int64_t batch, int64_t n) {
    const bool real = kind == CPU_RFFT || kind == CPU_IRFFT;
    fft = cpu_fft_new(arena, kind, HLO_F32, 1, &n);
    parameter[0] = batch;
    report(name, (real ? 2.5 : 5.0) * (double)batch * (double)n * log2((double)n), "GFLOP/s", run_fft);
}
static void fft_cases(void) {
    fft_case("fft 1024 x 1024 points", CPU_FFT, 1024, 1024);
    fft_case("fft 4096 x 64 points", CPU_FFT, 4096, 64);
    fft_case("fft 1000 x 1000 points", CPU_FFT, 1000, 1000);
    fft_case("fft 256 x 1009 points", CPU_FFT, 256, 1009);
    fft_case("fft 1M points", CPU_FFT, 1, 1 << 20);
    fft_case("rfft 1024 x 1024 points", CPU_RFFT, 1024, 1024);
    fft_case("irfft 1024 x 1024 points", CPU_IRFFT, 1024, 1024);
    fft_case("rfft 1M points", CPU_RFFT, 1, 1 << 20);
}
static void run_cholesky(void) {
    must(cpu_cholesky(pool, HLO_F32, 1, 512, true, output, inputs[1]));
}

static void other_cases(void) {
    report("transpose 2048x2048", 8.0 * 2048 * 2048, "GB/s", run_transpose);
    parameter[0] = 1 << 20, parameter[1] = 1;
    report("sort 1M", 1 << 20, "Gelem/s", run_sort);
    parameter[0] = 256 << 10, parameter[1] = 2;
    report("argsort 256K", 256 << 10, "Gelem/s", run_sort);
    report("top-k 64x32000, k = 8", 64 * 32000, "Gelem/s", run_top_k);
    report("argmax 1024x4096", 4.0 * kElements, "GB/s", run_argmax);
    report("cumsum 1024x4096", 4.0 * kElements, "GB/s", run_cumsum);
    report("threefry bits 4M", kElements, "Gelem/s", run_bits);
    report("philox bits 4M", kElements, "Gelem/s", run_philox);
    report("gather 4096 rows of 512", 8.0 * 4096 * 512, "GB/s", run_gather);
    report("scatter-add 4096 rows of 512", 12.0 * 4096 * 512, "GB/s", run_scatter);
    fft_cases();
    report("cholesky 512", 512.0 * 512 * 512 / 3, "GFLOP/s", run_cholesky);
}

static void fill_inputs(void) {
    uint32_t state = 1;
    const size_t bytes = sizeof(float) * kElements;
    inputs[0] = hlo_allocate_aligned(bytes), inputs[1] = hlo_allocate_aligned(bytes),
    output = hlo_allocate_aligned(2 * bytes);
    rows = hlo_allocate_aligned(sizeof(int32_t) * 4096);
    for (int64_t i = 0; i < kElements; i++) {
        state = state * 1664525 + 1013904223;
        inputs[0][i] = (float)(state >> 8) * 0x1p-24f + 0.01f;
        inputs[1][i] = i < 512 * 512 && i % 513 == 0 ? 600.0f : (float)(i % 512) * 0x1p-10f;
        if (i < 4096) rows[i] = (int32_t)(state >> 8) % 8000;
    }
    memset(output, 0, 2 * bytes);
}

int main(int argc, char **argv) {
    CpuFeatures features;
    must(cpu_features_choose(&features));
    must(cpu_pool_new_with(argc > 1 ? atoi(argv[1]) : 1, features, &pool));
    arena = hlo_arena_new();
    fill_inputs();
    printf("%d workers, %s\n", cpu_pool_worker_count(pool), cpu_features_name(features));
    loop_cases();
    product_cases();
    other_cases();
    hlo_arena_free(arena);
    cpu_pool_free(pool);
    hlo_free(inputs[0]), hlo_free(inputs[1]), hlo_free(output), hlo_free(rows);
    return 0;
}
