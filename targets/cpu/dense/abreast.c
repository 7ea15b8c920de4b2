// SPDX-License-Identifier: Apache-2.0
// Batches of small matrices that are worked on side by side.
#include "targets/cpu/dense/abreast.h"

#include <assert.h>
#include <string.h>

#include "hlo/base/arithmetic.h"

typedef struct AbreastBatch {
    const CpuAbreastType *kernels;
    CpuMatrixTask *alone;
    CpuAbreastTask *together;
    const void *job;
    int64_t count;
} AbreastBatch;

// Whether so many matrices are faster together than one after the other, of which each leaves most lanes unused.
static bool is_worth_it(const CpuAbreastType *kernels, int64_t count) {
    return count > 1 && 4 * count >= kernels->lanes;
}

const CpuAbreastType *cpu_abreast_any(HloType type, CpuFeatures features) {
    const CpuAbreastKernels *all = cpu_isa_abreast_kernels(features);
    return type == HLO_F32 ? &all->f32 : type == HLO_F64 ? &all->f64 : NULL;
}

const CpuAbreastType *cpu_abreast_kernels(HloType type, CpuFeatures features, int64_t count, int64_t rows,
                                          int64_t columns) {
    const CpuAbreastType *kernels = cpu_abreast_any(type, features);
    const bool fits = rows <= CPU_ABREAST_ROWS && columns <= CPU_ABREAST_ROWS;
    return kernels && fits && is_worth_it(kernels, count) ? kernels : NULL;
}

// Takes the matrices of one vector.
static void vector_task(CpuMatrix *matrix, const void *argument, int64_t index) {
    const AbreastBatch *batch = argument;
    const int64_t lanes = batch->kernels->lanes, first = index * lanes,
                  count = hlo_smaller(lanes, batch->count - first);
    if (!batch->alone || is_worth_it(batch->kernels, count)) {
        batch->together(matrix, batch->kernels, batch->job, first, count);
        return;
    }
    for (int64_t i = first; i < first + count; i++) {
        CpuMatrix one = *matrix;
        batch->alone(&one, batch->job, i);
    }
}

HloStatus cpu_abreast_batch(CpuPool *pool, const CpuAbreastType *kernels, HloType type, int64_t count,
                            size_t work_bytes, double cost, CpuMatrixTask *alone, CpuAbreastTask *together,
                            const void *job) {
    const AbreastBatch batch = {kernels, alone, together, job, count};
    return cpu_matrix_batch(pool, type, hlo_divide_up(count, kernels->lanes), work_bytes, cost * kernels->lanes,
                            vector_task, &batch);
}

size_t cpu_abreast_bytes(const CpuAbreastType *kernels, HloType type, int64_t size) {
    return cpu_work_bytes(size * kernels->lanes, (size_t)hlo_type_bytes(type));
}

// Fills the lanes from `count` on with the first one.
#define REPEAT(T, S)                                                                 \
    static void repeat_##S(int64_t size, int64_t lanes, int64_t count, T *a) {       \
        for (int64_t i = 0; i < size; i++)                                           \
            for (int64_t l = count; l < lanes; l++) a[i * lanes + l] = a[i * lanes]; \
    }
REPEAT(float, f32)
REPEAT(double, f64)

void *cpu_abreast_load(CpuMatrix *matrix, const CpuAbreastType *kernels, int64_t size, const void *from, int64_t first,
                       int64_t count) {
    const int64_t lanes = kernels->lanes;
    assert(count > 0 && count <= lanes);
    void *a = cpu_matrix_work(matrix, size * lanes, (size_t)matrix->width);
    matrix->vector->turn(count, size, a, lanes, cpu_matrix_at(matrix, from, first * size), size);
    if (matrix->type == HLO_F32)
        repeat_f32(size, lanes, count, a);
    else
        repeat_f64(size, lanes, count, a);
    return a;
}

void cpu_abreast_store(const CpuMatrix *matrix, const CpuAbreastType *kernels, int64_t size, void *to, int64_t first,
                       int64_t count, const void *a) {
    matrix->vector->turn(size, count, cpu_matrix_at(matrix, to, first * size), size, a, kernels->lanes);
}
