// SPDX-License-Identifier: Apache-2.0
#include "targets/cpu/host/blas_choice.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static const char *const kNames[CPU_BLAS_CHOICES] = {
    [CPU_BLAS_AUTO] = "auto", [CPU_BLAS_BUILTIN] = "builtin", [CPU_BLAS_OPENBLAS] = "openblas"};

const char *cpu_blas_choice_name(CpuBlasChoice choice) {
    return kNames[choice];
}

HloStatus cpu_blas_choose(CpuBlasChoice *choice) {
    assert(choice);
    const char *asked = getenv("MESHLO_BLAS");
    *choice = CPU_BLAS_AUTO;
    if (!asked || !*asked) return HLO_SUCCESS;
    for (int i = 0; i < CPU_BLAS_CHOICES; i++) {
        if (strcmp(asked, kNames[i]) != 0) continue;
        *choice = (CpuBlasChoice)i;
        return HLO_SUCCESS;
    }
    return hlo_error(HLO_INVALID_ARGUMENT, "MESHLO_BLAS is '%s'; expected openblas, builtin or auto", asked);
}
