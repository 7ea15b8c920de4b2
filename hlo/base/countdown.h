// SPDX-License-Identifier: Apache-2.0
// For tests of short memory on several threads. Not a public header.
#ifndef MESHLO_HLO_BASE_COUNTDOWN_H_
#define MESHLO_HLO_BASE_COUNTDOWN_H_

#include <stdint.h>

// What is left in this thread of the countdown that hlo_allocation_fail_after() (memory.h) began, negative for none. A
// thread that works for this one begins with as many.
int64_t hlo_allocation_countdown(void);

#endif
