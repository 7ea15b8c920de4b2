// SPDX-License-Identifier: Apache-2.0
// The engine for dense linear algebra that the environment variable MESHLO_BLAS selects.
#ifndef MESHLO_TARGETS_CPU_HOST_BLAS_CHOICE_H_
#define MESHLO_TARGETS_CPU_HOST_BLAS_CHOICE_H_

#include "hlo/base/status.h"

HLO_BEGIN_C

typedef enum CpuBlasChoice {
    CPU_BLAS_AUTO,      // OpenBLAS where measurements favour it (targets/cpu/blas/auto.def), if it is installed
    CPU_BLAS_BUILTIN,   // our own kernels only; OpenBLAS is never loaded
    CPU_BLAS_OPENBLAS,  // OpenBLAS wherever it has a routine; an error if it is not installed
    CPU_BLAS_CHOICES
} CpuBlasChoice;

// Sets *choice to what MESHLO_BLAS names, CPU_BLAS_AUTO if it is not set. INVALID_ARGUMENT for an unknown name. Loads
// nothing. Any thread.
HLO_NODISCARD HloStatus cpu_blas_choose(CpuBlasChoice *choice);

// Returns the name of a choice ("auto"). Static storage.
const char *cpu_blas_choice_name(CpuBlasChoice choice);

HLO_END_C

#endif
