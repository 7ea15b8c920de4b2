// SPDX-License-Identifier: Apache-2.0
// The ends of processes that tests fork.
#ifndef MESHLO_TESTS_SUPPORT_CHILD_H_
#define MESHLO_TESTS_SUPPORT_CHILD_H_

#include <stdbool.h>
#include <sys/types.h>

// Ends a child without what belongs to the test around it; under gcov what it ran counts.
_Noreturn void child_exit(int code);
// Waits for a child: true if it ended with code 0.
bool child_succeeds(pid_t child);

#endif
