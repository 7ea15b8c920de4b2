// SPDX-License-Identifier: Apache-2.0
// Whether the environment variable MESHLO_GENERATED_CODE allows generated machine code.
#ifndef MESHLO_TARGETS_CPU_HOST_CODE_CHOICE_H_
#define MESHLO_TARGETS_CPU_HOST_CODE_CHOICE_H_

#include <stdbool.h>

#include "hlo/base/status.h"

HLO_BEGIN_C

// Sets *allowed to what MESHLO_GENERATED_CODE says (on or off), true if it is not set; false on architectures that the
// generator does not know. INVALID_ARGUMENT for other values. Any thread.
HLO_NODISCARD HloStatus cpu_code_choose(bool *allowed);

HLO_END_C

#endif
