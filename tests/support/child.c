// SPDX-License-Identifier: Apache-2.0
#include "tests/support/child.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef MESHLO_COVERAGE
void __gcov_dump(void);  // of gcc: _exit() leaves out what writes the counters
#endif

#ifdef __SANITIZE_ADDRESS__
static const int kTrials = kChildTrials;
#else
static const int kTrials = 1;
#endif

static int run_once(int (*body)(void *context), void *context) {
    fflush(NULL);
    const pid_t child = fork();
    if (child < 0) return -SIGCHLD;
    if (child == 0) {
        signal(SIGALRM, SIG_DFL);
        alarm(kChildSeconds);
        const int code = body(context);
#ifdef MESHLO_COVERAGE
        __gcov_dump();
#endif
        _exit(code);
    }
    int status = 0;
    if (waitpid(child, &status, 0) != child) return -SIGCHLD;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

int run_in_child(int (*body)(void *context), void *context) {
    int result = -SIGALRM;
    for (int i = 0; i < kTrials && result == -SIGALRM; i++) result = run_once(body, context);
    return result;
}
