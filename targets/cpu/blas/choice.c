// SPDX-License-Identifier: Apache-2.0
// Chooses between OpenBLAS and our own kernels: auto.def as a table.
#include <assert.h>

#include "targets/cpu/blas/blas.h"

// A cell of auto.def.
typedef struct Sizes {
    int64_t from, to;
    bool everywhere;  // on every processor
} Sizes;

enum { MOST = INT32_MAX };

// The levels that were measured; others have the sizes of the first one that are for every processor.
enum { LEVELS = 2 };
static const Sizes kSizes[CPU_BLAS_ROUTINES][LEVELS][CPU_BLAS_TYPES] = {
#define NEVER \
    { MOST, 0, false }
#define BETWEEN(from, to) \
    { from, to, false }
#define FROM(from) \
    { from, MOST, true }
#define TYPES(f32, f64, c64, c128) \
    { f32, f64, c64, c128 }
#define CPU_BLAS_ROUTINE(name, avx2, avx512) {avx2, avx512},
#include "targets/cpu/blas/auto.def"
#undef CPU_BLAS_ROUTINE
};
static const CpuFeatures kLevels[LEVELS] = {CPU_FEATURES_AVX2, CPU_FEATURES_AVX512};

HloStatus cpu_blas_find(const CpuPool *pool, CpuBlasRoutine routine, HloType type, int64_t rows, int64_t columns,
                        const CpuBlas **blas) {
    assert(routine < CPU_BLAS_ROUTINES);
    const int64_t smallest = rows < columns ? rows : columns, largest = rows < columns ? columns : rows;
    *blas = NULL;
    const CpuBlasChoice choice = cpu_pool_blas(pool);
    const int64_t most = routine == CPU_BLAS_GEMM ? INT32_MAX : CPU_BLAS_LARGEST;
    if (choice == CPU_BLAS_BUILTIN || smallest < 1 || largest > most) return HLO_SUCCESS;
    if (choice == CPU_BLAS_OPENBLAS) return cpu_blas_open(blas);
    const CpuFeatures features = cpu_pool_features(pool);
    const bool measured = features >= CPU_FEATURES_AVX2 && features < CPU_FEATURES_AMX;
    const int level = measured && features >= CPU_FEATURES_AVX512;
    const Sizes *sizes = &kSizes[routine][level][cpu_blas_type(type)];
    if (smallest < sizes->from || largest > sizes->to) return HLO_SUCCESS;
    if (!sizes->everywhere && !measured) return HLO_SUCCESS;
    const HloStatus missing = cpu_blas_open(blas);
    if (missing) *blas = NULL;
    hlo_status_free(missing);
    if (*blas && !sizes->everywhere && (*blas)->level != kLevels[level]) *blas = NULL;
    return HLO_SUCCESS;
}
