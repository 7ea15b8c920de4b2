// SPDX-License-Identifier: Apache-2.0
// Lowers custom calls: the kernel column of hlo/ir/custom_calls.def.
//
// Each row of that table names a function here, cpu_call_NAME, through the array at the end of the file, so that a row
// without one does not compile. Decompositions that have a kernel (dense/linalg.h) get a frame from KERNEL(): shapes
// and options are read once, when the program is lowered. Those without run LAPACK's (dense/lapack_call.h) or the
// evaluator's routines (hlo_decompose()) on the engine's own memory, matrix by matrix on all workers. The last few are
// not really calls: annotations, results of zeros, and the evaluator's calls.
#include <assert.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "hlo/base/arithmetic.h"
#include "hlo/eval/linear/decompositions.h"
#include "hlo/ir/custom_call.h"
#include "targets/cpu/blas/blas.h"
#include "targets/cpu/dense/lapack_call.h"
#include "targets/cpu/dense/linalg.h"
#include "targets/cpu/dense/matrix.h"
#include "targets/cpu/graph/bounded.h"
#include "targets/cpu/lower/fallbacks.h"
#include "targets/cpu/lower/lower.h"

// Shapes and options of a call; each kernel reads those it needs.
typedef struct CallKernel {
    HloType type;
    int64_t batch, rows, columns;  // of the last operand that is a matrix
    int64_t count;                 // of reflections
    bool lower, left, unit, vectors, sort;
    CpuTranspose transpose;
} CallKernel;

static CallKernel *new_kernel(CpuLowering *lowering, const CpuNode *node) {
    const HloInstruction *call = node->instruction;
    const HloShape *first = node->operands[0]->shape, *last = node->operands[node->operand_count - 1]->shape;
    const HloShape *matrix = last->rank < first->rank ? first : last;
    CallKernel *kernel = HLO_ARENA_NEW(lowering->arena, CallKernel, 1);
    const int64_t form = hlo_custom_call_option(call, "trans_x", 'N');
    *kernel = (CallKernel){.type = matrix->type,
                           .batch = 1,
                           .rows = matrix->dims[matrix->rank - 2],
                           .columns = matrix->dims[matrix->rank - 1],
                           .count = last->rank ? last->dims[last->rank - 1] : 0,
                           .lower = hlo_custom_call_option(call, "uplo", 'L') == 'L',
                           .left = hlo_custom_call_option(call, "side", 'L') == 'L',
                           .unit = hlo_custom_call_option(call, "diag", 'N') == 'U',
                           .vectors = hlo_custom_call_option(call, "mode", 'V') == 'V',
                           .transpose = form == 'N'   ? CPU_NO_TRANSPOSE
                                        : form == 'T' ? CPU_TRANSPOSE
                                                      : CPU_ADJOINT};
    for (int32_t d = 0; d + 2 < matrix->rank; d++) kernel->batch *= matrix->dims[d];
    // There may be 10^15 matrices without elements: if no result has bytes, skip them all.
    int64_t bytes = 0;
    for (int32_t i = 0; i < node->result_count; i++) bytes += node->results[i]->bytes;
    if (bytes == 0) kernel->batch = 0;
    return kernel;
}

// Makes a step that runs `run` on the call's matrices; types without a kernel are left to the evaluator.
static HloStatus lower_call(CpuLowering *lowering, CpuNode *node, CpuStep *step, CpuKernelFunction *run) {
    CallKernel *kernel = new_kernel(lowering, node);
    if (!cpu_matrix_has(kernel->type)) return cpu_lower_give_up(lowering, node);
    cpu_step_kernel(lowering, node, step, run, kernel);
    step->cost *= (double)(kernel->rows / 4 + 1);
    return HLO_SUCCESS;
}

// Expands to the lowering of one call and the head of the function that runs it.
#define KERNEL(name)                                                                        \
    static HloStatus run_##name(const void *data, void *const *arguments, CpuPool *pool);   \
    static HloStatus cpu_call_##name(CpuLowering *lowering, CpuNode *node, CpuStep *step) { \
        return lower_call(lowering, node, step, run_##name);                                \
    }                                                                                       \
    static HloStatus run_##name(const void *data, void *const *arguments, CpuPool *pool)

// ---- factors

KERNEL(lu) {
    const CallKernel *k = data;
    return cpu_lu(pool, k->type, k->batch, k->rows, k->columns, arguments[1], arguments[2], arguments[3], NULL,
                  arguments[0]);
}

// LAPACK counts pivots from 1.
KERNEL(getrf) {
    const CallKernel *k = data;
    int32_t *pivots = arguments[2];
    HLO_TRY(
        cpu_lu(pool, k->type, k->batch, k->rows, k->columns, arguments[1], pivots, NULL, arguments[3], arguments[0]));
    for (int64_t i = 0; i < k->batch * hlo_smaller(k->rows, k->columns); i++) pivots[i]++;
    return HLO_SUCCESS;
}

KERNEL(geqrf) {
    const CallKernel *k = data;
    return cpu_qr(pool, k->type, k->batch, k->rows, k->columns, arguments[1], arguments[2], arguments[0]);
}

KERNEL(orgqr) {
    const CallKernel *k = data;
    return cpu_householder_product(pool, k->type, k->batch, k->rows, k->columns, k->count, arguments[2], arguments[0],
                                   arguments[1]);
}

// Returns the number, from 1, of the first diagonal element that is NaN, or 0.
static int32_t first_failure(HloType type, int64_t n, const char *a) {
    const bool wide = type == HLO_F64 || type == HLO_C128;
    for (int64_t i = 0; i < n; i++) {
        const char *at = a + i * (n + 1) * hlo_type_bytes(type);
        if (wide ? isnan(*(const double *)(const void *)at) : isnan(*(const float *)(const void *)at))
            return (int32_t)(i + 1);
    }
    return 0;
}

// Factors one triangle. The other triangle keeps the operand's elements.
KERNEL(potrf) {
    const CallKernel *k = data;
    const int64_t n = k->rows, width = hlo_type_bytes(k->type);
    int32_t *info = arguments[2];
    HLO_TRY(cpu_cholesky(pool, k->type, k->batch, n, k->lower, arguments[1], arguments[0]));
    for (int64_t b = 0; b < k->batch; b++) {
        char *out = (char *)arguments[1] + b * n * n * width;
        const char *in = (const char *)arguments[0] + b * n * n * width;
        info[b] = first_failure(k->type, n, out);
        for (int64_t i = 0; i < n; i++) {
            const int64_t from = i * n + (k->lower ? i + 1 : 0), count = k->lower ? n - i - 1 : i;
            memcpy(out + from * width, in + from * width, (size_t)(count * width));
        }
    }
    return HLO_SUCCESS;
}

KERNEL(trsm) {
    const CallKernel *k = data;
    return cpu_triangular_solve(pool, k->type, k->batch, k->rows, k->columns, k->left, k->lower, k->unit, k->transpose,
                                arguments[2], arguments[0], arguments[1]);
}

// ---- eigenvalues

// Without vectors the first result keeps the matrix.
KERNEL(syevd) {
    const CallKernel *k = data;
    if (!k->vectors)
        memcpy(arguments[1], arguments[0], (size_t)(k->batch * k->rows * k->rows * hlo_type_bytes(k->type)));
    return cpu_eigh(pool, k->type, k->batch, k->rows, k->lower, true, k->vectors ? arguments[1] : NULL, arguments[2],
                    arguments[3], arguments[0]);
}

static HloStatus run_eigh(const void *data, void *const *arguments, CpuPool *pool) {
    const CallKernel *k = data;
    return cpu_eigh(pool, k->type, k->batch, k->rows, k->lower, k->sort, arguments[1], arguments[2], NULL,
                    arguments[0]);
}

static HloStatus cpu_call_eigh(CpuLowering *lowering, CpuNode *node, CpuStep *step) {
    CallKernel *kernel = new_kernel(lowering, node);
    if (!cpu_matrix_has(kernel->type)) return cpu_lower_give_up(lowering, node);
    hlo_custom_call_eigh(node->instruction, &kernel->lower, &kernel->sort);
    cpu_step_kernel(lowering, node, step, run_eigh, kernel);
    step->cost *= (double)(kernel->rows + 1);
    return HLO_SUCCESS;
}

// ---- routines of LAPACK or of the evaluator, on the engine's memory

typedef struct DecomposeKernel {
    const HloInstruction *call;  // in the copy of the module that the executable keeps
    int64_t batch;
    CpuLapackCall *lapack;  // NULL: the evaluator's routine is the only one
} DecomposeKernel;

typedef struct DecomposeJob {
    const DecomposeKernel *kernel;
    void *const *arguments;
    const CpuBlas *blas;  // NULL: the evaluator's routine
    CpuFeatures features;
    _Atomic bool failed;  // memory was short
} DecomposeJob;

typedef struct DecomposePart {
    const DecomposeJob *job;
    int64_t begin, end;
    HloArena *scratch;
} DecomposePart;

static HloStatus decompose_protected(void *argument) {
    const DecomposePart *part = argument;
    const DecomposeJob *job = part->job;
    const HloInstruction *call = job->kernel->call;
    const void *const *operands = (const void *const *)job->arguments;
    void *const *results = job->arguments + call->operand_count;
    if (!job->blas) {
        hlo_decompose(call, operands, results, part->begin, part->end - part->begin, part->scratch);
        return HLO_SUCCESS;
    }
    const HloArenaMark mark = hlo_arena_mark(part->scratch);
    for (int64_t i = part->begin; i < part->end; i++) {
        const bool done =
            cpu_lapack_call_run(job->kernel->lapack, job->blas, job->features, operands, results, i, part->scratch);
        hlo_arena_reset(part->scratch, mark);
        if (!done) hlo_decompose(call, operands, results, i, 1, part->scratch);
        hlo_arena_reset(part->scratch, mark);
    }
    return HLO_SUCCESS;
}

static void decompose_task(void *argument, int64_t begin, int64_t end, int worker) {
    DecomposeJob *job = argument;
    DecomposePart part = {job, begin, end, hlo_arena_new()};
    (void)worker;
    const HloStatus status = part.scratch ? hlo_protect(decompose_protected, &part) : NULL;
    if (!part.scratch || status) atomic_store(&job->failed, true);
    hlo_status_free(status);
    hlo_arena_free(part.scratch);
}

static HloStatus run_decompose(const void *data, void *const *arguments, CpuPool *pool) {
    DecomposeJob job = {.kernel = data, .arguments = arguments, .features = cpu_pool_features(pool)};
    const int64_t batch = job.kernel->batch;
    if (job.kernel->lapack && batch > 0) HLO_TRY(cpu_lapack_call_find(job.kernel->lapack, pool, &job.blas));
    cpu_pool_parallel_for_grain(pool, batch, 1, decompose_task, &job);
    HLO_FAIL_IF(atomic_load(&job.failed), HLO_RESOURCE_EXHAUSTED, "no memory to decompose matrices");
    return HLO_SUCCESS;
}

static HloStatus cpu_call_decompose(CpuLowering *lowering, CpuNode *node, CpuStep *step) {
    DecomposeKernel *kernel = HLO_ARENA_NEW(lowering->arena, DecomposeKernel, 1);
    HLO_TRY(hlo_decompose_check(node->instruction));
    assert(node->operand_count == node->instruction->operand_count); /* all operands are arrays */
    kernel->call = node->instruction;
    kernel->batch = hlo_decompose_batch(node->instruction);
    kernel->lapack = cpu_lapack_call_new(lowering->arena, node->instruction, kernel->batch);
    cpu_step_kernel(lowering, node, step, run_decompose, kernel);
    step->cost *= 400;
    return HLO_SUCCESS;
}

// ---- the rest

static HloStatus run_zeros(const void *data, void *const *arguments, CpuPool *pool) {
    const int64_t *bytes = data;
    (void)pool;
    for (int32_t i = 0; bytes[i] >= 0; i++)
        if (bytes[i]) memset(arguments[i], 0, (size_t)bytes[i]);
    return HLO_SUCCESS;
}

// Results are zeros; operands are not read.
static HloStatus cpu_call_zeros(CpuLowering *lowering, CpuNode *node, CpuStep *step) {
    int64_t *bytes = HLO_ARENA_NEW(lowering->arena, int64_t, node->result_count + 1);
    for (int32_t i = 0; i < node->result_count; i++) bytes[i] = node->results[i]->bytes;
    bytes[node->result_count] = -1;
    cpu_step_kernel(lowering, node, step, run_zeros, bytes);
    step->read_count = 0;
    return HLO_SUCCESS;
}

static HloStatus cpu_call_nothing(CpuLowering *lowering, CpuNode *node, CpuStep *step) {
    return cpu_call_zeros(lowering, node, step);
}

static HloStatus cpu_call_evaluator(CpuLowering *lowering, CpuNode *node, CpuStep *step) {
    (void)step;
    return cpu_lower_give_up(lowering, node);
}

static HloStatus cpu_call_top_k(CpuLowering *lowering, CpuNode *node, CpuStep *step) {
    return cpu_lower_top_k_call(lowering, node, step);
}

static HloStatus cpu_call_approximate_top_k(CpuLowering *lowering, CpuNode *node, CpuStep *step) {
    return cpu_lower_approximate_top_k(lowering, node, step);
}

static HloStatus cpu_call_pad_to_static(CpuLowering *lowering, CpuNode *node, CpuStep *step) {
    return cpu_lower_pad_to_static(lowering, node, step);
}

static HloStatus cpu_call_slice_to_dynamic(CpuLowering *lowering, CpuNode *node, CpuStep *step) {
    return cpu_lower_slice_to_dynamic(lowering, node, step);
}

// These two are called only if graph/build.c could not resolve the call because of its shapes or types.
static HloStatus cpu_call_identity(CpuLowering *lowering, CpuNode *node, CpuStep *step) {
    return cpu_call_evaluator(lowering, node, step);
}

static HloStatus cpu_call_unary(CpuLowering *lowering, CpuNode *node, CpuStep *step) {
    return cpu_call_evaluator(lowering, node, step);
}

// By row of the table.
static const struct {
    const char *target;
    CpuLowerFunction *lower;
} kCalls[] = {
#define CUSTOM_CALL(target, type, signature, evaluator, kernel, kind, configuration) {target, cpu_call_##kernel},
#include "hlo/ir/custom_calls.def"
#undef CUSTOM_CALL
};

HloStatus cpu_lower_custom_call(CpuLowering *lowering, CpuNode *node, CpuStep *step) {
    return kCalls[hlo_custom_call_row(node->instruction)].lower(lowering, node, step);
}

const char *cpu_fallback_custom_call(int64_t index) {
    for (size_t i = 0; i < HLO_COUNT_OF(kCalls); i++)
        if (kCalls[i].lower == cpu_call_evaluator && index-- == 0) return kCalls[i].target;
    return NULL;
}
