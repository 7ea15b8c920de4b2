// SPDX-License-Identifier: Apache-2.0
// Bytes that are not text (a callback's address in a custom-call's configuration), as two hexadecimal digits each. Any
// thread may call these.
//
// Stability: experimental.
#ifndef MESHLO_HLO_BASE_HEXADECIMAL_H_
#define MESHLO_HLO_BASE_HEXADECIMAL_H_

#include <stddef.h>

#include "hlo/base/memory.h"

HLO_BEGIN_C

// Returns 2 * `count` lower-case digits and a NUL, in the arena.
HLO_EXPORT char *hlo_hexadecimal(HloArena *arena, const void *bytes, size_t count);
// Decodes an even number of lower-case digits into `bytes`, which has room for strlen(digits) / 2 of them. False, with
// undefined content of `bytes`, if `digits` is malformed.
HLO_EXPORT bool hlo_bytes_of_hexadecimal(const char *digits, void *bytes);

HLO_END_C

#endif
