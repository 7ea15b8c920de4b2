// SPDX-License-Identifier: Apache-2.0
#include "hlo/base/version.h"

uint32_t hlo_api_version(void) {
    return HLO_API_VERSION;
}
