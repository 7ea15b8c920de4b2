// SPDX-License-Identifier: Apache-2.0
// Bytes that are no text (a callback's address in a custom-call's configuration), as two hexadecimal digits each. Any
// thread may call these.
//
// Stability: experimental.
#ifndef MESHLO_HLO_BASE_HEXADECIMAL_H_
#define MESHLO_HLO_BASE_HEXADECIMAL_H_

#include <stddef.h>

#include "hlo/base/memory.h"

HLO_BEGIN_C

// 2 * `count` lower-case digits and a NUL, in the arena.
HLO_EXPORT char *hlo_hexadecimal(HloArena *arena, const void *bytes, size_t count);
// The bytes of an even number of digits, lower-case ones as above, into `bytes`, which holds strlen(digits) / 2 of
// them. False, with anything in `bytes`, where `digits` is something else.
HLO_EXPORT bool hlo_bytes_of_hexadecimal(const char *digits, void *bytes);

HLO_END_C

#endif
