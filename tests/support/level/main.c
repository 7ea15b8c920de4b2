// SPDX-License-Identifier: Apache-2.0
// usage: kernel_level LEVEL      Exits 0 if this machine has the instruction set, 1 if it does not, 2 if there is none
// of that name. MESHLO_CPU_FEATURES has no effect.
#include <stdio.h>
#include <string.h>

#include "targets/cpu/host/features.h"

int main(int count, char **arguments) {
    for (int i = 0; count == 2 && i < CPU_FEATURES_COUNT; i++)
        if (strcmp(arguments[1], cpu_features_name((CpuFeatures)i)) == 0)
            return (int)cpu_features_detect() >= i ? 0 : 1;
    fprintf(stderr, "usage: kernel_level LEVEL, as MESHLO_CPU_FEATURES names it\n");
    return 2;
}
