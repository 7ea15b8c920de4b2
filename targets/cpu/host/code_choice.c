// SPDX-License-Identifier: Apache-2.0
#include "targets/cpu/host/code_choice.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "targets/cpu/host/processor.h"

HloStatus cpu_code_choose(bool *allowed) {
    assert(allowed);
    const char *asked = getenv("MESHLO_GENERATED_CODE");
    *allowed = cpu_processor_architecture() != CPU_ARCHITECTURE_OTHER;
    if (!asked || !*asked || strcmp(asked, "on") == 0) return HLO_SUCCESS;
    *allowed = false;
    if (strcmp(asked, "off") == 0) return HLO_SUCCESS;
    return hlo_error(HLO_INVALID_ARGUMENT, "MESHLO_GENERATED_CODE is '%s'; expected on or off", asked);
}
