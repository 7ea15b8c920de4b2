// SPDX-License-Identifier: Apache-2.0
// Processes that tests fork.
#ifndef MESHLO_TESTS_SUPPORT_CHILD_H_
#define MESHLO_TESTS_SUPPORT_CHILD_H_

#include <stdbool.h>
#include <sys/types.h>
#include <unistd.h>

// Ends a child without what belongs to the test around it; under gcov what it ran counts.
_Noreturn void child_exit(int code);
// Waits for a child: true if it ended with code 0.
bool child_succeeds(pid_t child);

// As fork(). AddressSanitizer allocates while a thread starts, under a lock that would stay taken in the child for
// ever, so the threads of the process get the time to start.
static inline pid_t fork_with_threads(void) {
#ifdef __SANITIZE_ADDRESS__
    usleep(500000);
#endif
    return fork();
}

#endif
