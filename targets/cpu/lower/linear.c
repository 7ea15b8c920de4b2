// SPDX-License-Identifier: Apache-2.0
// Lowers Fourier transforms, Cholesky factors and triangular systems. Kernels exist for f32, f64 and complex numbers;
// bf16 and f16 matrices are widened to f32, solved there and rounded once, which is more exact than rounding at each
// step. Anything else is left to the evaluator.
#include <assert.h>
#include <math.h>
#include <string.h>

#include "targets/cpu/dense/linalg.h"
#include "targets/cpu/dense/matrix.h"
#include "targets/cpu/element/element.h"
#include "targets/cpu/kernels/fft.h"
#include "targets/cpu/lower/lower.h"

// ---- fft

typedef struct FftKernel {
    const CpuFft *fft;
    int64_t batch;
} FftKernel;

static HloStatus run_fft(const void *data, void *const *arguments, CpuPool *pool) {
    const FftKernel *kernel = data;
    return cpu_fft_run(pool, kernel->fft, kernel->batch, arguments[1], arguments[0]);
}

HloStatus cpu_lower_fft(CpuLowering *lowering, CpuNode *node, CpuStep *step) {
    assert(node->operand_count == 1);
    static const CpuFftKind kKinds[] = {[HLO_FftType_FFT] = CPU_FFT,
                                        [HLO_FftType_IFFT] = CPU_IFFT,
                                        [HLO_FftType_RFFT] = CPU_RFFT,
                                        [HLO_FftType_IRFFT] = CPU_IRFFT};
    const HloFftAttributes *attributes = HLO_ATTRIBUTES(node->instruction, Fft);
    const HloShape *shape = node->operands[0]->shape;
    const HloInts lengths = attributes->length;
    const HloType type = hlo_type_real_part(shape->type);
    if (lengths.count < 1 || lengths.count > CPU_FFT_DIMENSIONS || lengths.count > shape->rank ||
        (type != HLO_F32 && type != HLO_F64))
        return cpu_lower_give_up(lowering, node);
    FftKernel *kernel = HLO_ARENA_NEW(lowering->arena, FftKernel, 1);
    *kernel =
        (FftKernel){cpu_fft_new(lowering->arena, kKinds[attributes->type], type, (int)lengths.count, lengths.items), 1};
    for (int64_t d = 0; d < shape->rank - lengths.count; d++) kernel->batch *= shape->dims[d];
    cpu_step_kernel(lowering, node, step, run_fft, kernel);
    step->cost *= 10;
    return HLO_SUCCESS;
}

// ---- matrices

typedef struct MatrixKernel {
    HloType type;    // computation type of the kernel
    HloType stored;  // narrower than that: arrays are widened and the result is rounded once
    CpuKernelFunction *run;
    int64_t operand_elements[2], result_elements;
    int64_t batch, rows, columns;
    bool lower, left_side, unit_diagonal;
    CpuTranspose transpose;
} MatrixKernel;

// Returns the type that matrices of this type are computed in.
static HloType register_type(HloType type) {
    return hlo_type_is_float(type) && hlo_type_bytes(type) < 4 ? HLO_F32 : type;
}

// Makes a kernel for matrices in the last two dimensions; all dimensions before them are the batch.
static MatrixKernel *new_kernel(CpuLowering *lowering, const HloShape *shape) {
    MatrixKernel *kernel = HLO_ARENA_NEW(lowering->arena, MatrixKernel, 1);
    kernel->stored = shape->type;
    kernel->type = register_type(shape->type);
    kernel->batch = 1;
    for (int64_t d = 0; d < shape->rank - 2; d++) kernel->batch *= shape->dims[d];
    kernel->rows = shape->dims[shape->rank - 2];
    kernel->columns = shape->dims[shape->rank - 1];
    return kernel;
}

// Runs an f32 kernel on copies of narrower arrays.
static HloStatus run_widened(const void *data, void *const *arguments, CpuPool *pool) {
    const MatrixKernel *kernel = data;
    const CpuLoopKernels *kernels = cpu_isa_loop_kernels(cpu_pool_features(pool));
    const int64_t first = kernel->operand_elements[0], second = kernel->operand_elements[1];
    float *wide =
        cpu_pool_scratch_take(pool, hlo_array_bytes((size_t)(first + second + kernel->result_elements), sizeof(float)));
    HLO_FAIL_IF(!wide, HLO_RESOURCE_EXHAUSTED, "no memory for matrices in f32");
    const bool two = second > 0;
    float *result = wide + first + second;
    cpu_widen(kernels, kernel->stored, wide, arguments[0], first);
    if (two) cpu_widen(kernels, kernel->stored, wide + first, arguments[1], second);
    void *const pair[] = {wide, two ? wide + first : result, result};
    const HloStatus status = kernel->run(kernel, pair, pool);
    if (!status) cpu_narrow(kernels, kernel->stored, arguments[two ? 2 : 1], result, kernel->result_elements);
    cpu_pool_scratch_give(pool, wide);
    return status;
}

// Fills in a step. Its cost, by which the scheduler decides about threads, grows with the rows: each element of the
// result takes that many products.
static void step_matrices(CpuLowering *lowering, CpuNode *node, CpuStep *step, CpuKernelFunction *run,
                          MatrixKernel *kernel) {
    kernel->run = run;
    assert(node->operand_count <= 2); /* a matrix, or a matrix and right sides */
    for (int32_t i = 0; i < node->operand_count; i++) kernel->operand_elements[i] = node->operands[i]->elements;
    kernel->result_elements = node->results[0]->elements;
    cpu_step_kernel(lowering, node, step, kernel->stored == kernel->type ? run : run_widened, kernel);
    step->cost *= (double)(kernel->rows / 8 + 1);
}

static bool is_nan(HloType real, const char *at) {
    return real == HLO_F64 ? isnan(*(const double *)(const void *)at) : isnan(*(const float *)(const void *)at);
}

// Fills with NaN; for complex numbers in the real parts only, as in XLA, which converts them from real NaNs.
static void fill_nan(HloType type, char *matrix, int64_t count) {
    const HloType real = hlo_type_real_part(type);
    const double wide[2] = {NAN, 0};
    const float narrow[2] = {NAN, 0};
    const size_t bytes = (size_t)hlo_type_bytes(type);
    for (int64_t i = 0; i < count; i++)
        memcpy(matrix + (size_t)i * bytes, real == HLO_F64 ? (const void *)wide : (const void *)narrow, bytes);
}

// Runs a factorisation. A pivot that is not positive makes all rows from it on NaN, so that the last row shows failure.
// The rows before it are not a valid factor either, so the whole result becomes NaN.
static HloStatus run_cholesky(const void *data, void *const *arguments, CpuPool *pool) {
    const MatrixKernel *kernel = data;
    const int64_t n = kernel->rows, width = hlo_type_bytes(kernel->type);
    HLO_TRY(cpu_cholesky(pool, kernel->type, kernel->batch, n, kernel->lower, arguments[1], arguments[0]));
    for (int64_t b = 0; b < kernel->batch && n > 0; b++) {
        char *matrix = (char *)arguments[1] + b * n * n * width;
        if (is_nan(hlo_type_real_part(kernel->type), matrix + (n * n - 1) * width))
            fill_nan(kernel->type, matrix, n * n);
    }
    return HLO_SUCCESS;
}

HloStatus cpu_lower_cholesky(CpuLowering *lowering, CpuNode *node, CpuStep *step) {
    assert(node->operand_count == 1);
    const HloShape *shape = node->operands[0]->shape;
    if (!cpu_matrix_has(register_type(shape->type)) || shape->rank < 2) return cpu_lower_give_up(lowering, node);
    MatrixKernel *kernel = new_kernel(lowering, shape);
    kernel->lower = HLO_ATTRIBUTES(node->instruction, Cholesky)->lower;
    step_matrices(lowering, node, step, run_cholesky, kernel);
    return HLO_SUCCESS;
}

static HloStatus run_solve(const void *data, void *const *arguments, CpuPool *pool) {
    const MatrixKernel *kernel = data;
    return cpu_triangular_solve(pool, kernel->type, kernel->batch, kernel->rows, kernel->columns, kernel->left_side,
                                kernel->lower, kernel->unit_diagonal, kernel->transpose, arguments[2], arguments[0],
                                arguments[1]);
}

HloStatus cpu_lower_triangular_solve(CpuLowering *lowering, CpuNode *node, CpuStep *step) {
    assert(node->operand_count == 2);
    const HloTriangularSolveAttributes *attributes = HLO_ATTRIBUTES(node->instruction, TriangularSolve);
    const HloShape *shape = node->operands[1]->shape;
    if (!cpu_matrix_has(register_type(shape->type)) || shape->rank < 2) return cpu_lower_give_up(lowering, node);
    MatrixKernel *kernel = new_kernel(lowering, shape);
    kernel->lower = attributes->lower;
    kernel->left_side = attributes->left_side;
    kernel->unit_diagonal = attributes->unit_diagonal;
    kernel->transpose = attributes->transpose_a == HLO_Transpose_TRANSPOSE ? CPU_TRANSPOSE
                        : attributes->transpose_a == HLO_Transpose_ADJOINT ? CPU_ADJOINT
                                                                           : CPU_NO_TRANSPOSE;
    step_matrices(lowering, node, step, run_solve, kernel);
    return HLO_SUCCESS;
}
