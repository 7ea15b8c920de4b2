// SPDX-License-Identifier: Apache-2.0
// The flags of XLA_FLAGS that have a meaning here. The variable is shared by all XLA programs, so what is unknown or
// unreadable in it is ignored.
#ifndef MESHLO_COMPILE_XLA_FLAGS_H_
#define MESHLO_COMPILE_XLA_FLAGS_H_

#include "hlo/base/memory.h"

// The value of --NAME in XLA_FLAGS (or in the file of flags that it names): the last one counts; "true" for a flag
// without a value; NULL where it is not set. In `arena`. Memory errors jump to hlo_protect().
const char *compile_xla_flag(HloArena *arena, const char *name);

#endif
