// SPDX-License-Identifier: Apache-2.0
// For tests of memory shortage on several threads. Not a public header.
#ifndef MESHLO_HLO_BASE_COUNTDOWN_H_
#define MESHLO_HLO_BASE_COUNTDOWN_H_

#include <stdint.h>

// The rest of the countdown that hlo_allocation_fail_after() (memory.h) started in this thread, negative for none. A
// thread that works for this one starts with the same value.
int64_t hlo_allocation_countdown(void);

#endif
