// SPDX-License-Identifier: Apache-2.0
#include "tests/support/child.h"

#include <sys/wait.h>
#include <unistd.h>

#ifdef MESHLO_COVERAGE
void __gcov_dump(void);  // of gcc: _exit() leaves out what writes the counters
#endif

void child_exit(int code) {
#ifdef MESHLO_COVERAGE
    __gcov_dump();
#endif
    _exit(code);
}

bool child_succeeds(pid_t child) {
    int status = -1;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}
