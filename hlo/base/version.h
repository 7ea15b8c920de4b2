// SPDX-License-Identifier: Apache-2.0
// The version of the C API, and the meaning of the stability mark of a public header.
//
// Every public header ends its introduction with a line "Stability: stable." or "Stability: experimental.". A stable
// header changes incompatibly only with a new major version (before 1.0: a new minor version), and the CHANGELOG names
// the change. An experimental header may change in any version; a program that includes one should check
// hlo_api_version().
//
// Stability: stable.
#ifndef MESHLO_HLO_BASE_VERSION_H_
#define MESHLO_HLO_BASE_VERSION_H_

#include <stdint.h>

#include "hlo/base/macros.h"

HLO_BEGIN_C

// The version with which a program is compiled: major, minor and patch in bits 16 up, 8 to 15 and 0 to 7. CMake reads
// the project's version from here.
#define HLO_API_VERSION_MAJOR 0
#define HLO_API_VERSION_MINOR 1
#define HLO_API_VERSION_PATCH 0
#define HLO_API_VERSION (HLO_API_VERSION_MAJOR << 16 | HLO_API_VERSION_MINOR << 8 | HLO_API_VERSION_PATCH)

// The HLO_API_VERSION of the library with which the program runs. A program that was compiled with another major
// version (before 1.0: another minor version) must not continue. Any thread.
HLO_EXPORT uint32_t hlo_api_version(void);

HLO_END_C

#endif
