// SPDX-License-Identifier: Apache-2.0
#include "tests/support/levels.h"

#include <stdlib.h>

#include "targets/cpu/host/pool.h"

int levels_first(void) {
    const char *named = getenv("MESHLO_CPU_FEATURES");
    return named && *named ? levels_last() : 0;
}

int levels_last(void) {
    return (int)cpu_pool_features(NULL);
}

bool levels_have_blas(void) {
    const CpuBlas *blas = NULL;
    hlo_status_free(cpu_blas_open(&blas));
    return blas && (CpuFeatures)levels_last() == cpu_features_detect();
}

bool levels_include(CpuFeatures features) {
    return (int)features >= levels_first() && (int)features <= levels_last();
}

struct criterion_test_params levels_cases(void) {
    int *sets = cr_malloc(sizeof(*sets) * CPU_FEATURES_COUNT);
    size_t count = 0;
    for (int set = levels_first(); set <= levels_last(); set++) sets[count++] = set;
    return cr_make_param_array(int, sets, count);
}
