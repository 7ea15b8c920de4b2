// SPDX-License-Identifier: Apache-2.0
// The command short of memory: an exit code and a message that say so, whatever it was doing.
#include <criterion/criterion.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hlo/base/memory.h"
#include "tests/support/cases.h"
#include "tools/cli.h"

typedef struct Command {
    const char *program;
    const char *options[4];  // of `run`, after the file
} Command;

static const Command commands[] = {
    // rows of devices, which are taken from inputs and put into results
    {"HloModule m, num_partitions=2\nENTRY e {\n p = f32[4] parameter(0)\n ROOT n = f32[4] negate(p)\n}\n",
     {"--on", "cpu:2", "--partitioned", "--per-device"}},
    // a size that turns out when the program runs
    {"HloModule m\nENTRY e {\n p = f32[4] parameter(0)\n n = s32[] constant(3)\n"
     " ROOT r = f32[<=4] set-dimension-size(p, n), dimensions={0}\n}\n",
     {"--on", "cpu:1"}},
    // a result that is not an array
    {"HloModule m\nENTRY e {\n p = f32[4] parameter(0)\n t = token[] after-all()\n"
     " ROOT r = (f32[4], token[]) tuple(p, t)\n}\n",
     {"--on", "cpu:1"}},
};

static int run_short(const Command *command, char *path, int64_t countdown) {
    char name[] = "meshlo", verb[] = "run";
    char *arguments[8] = {name, verb, path};
    int count = 3;
    for (size_t i = 0; i < HLO_COUNT_OF(command->options) && command->options[i]; i++)
        arguments[count++] = (char *)(uintptr_t)command->options[i];
    hlo_allocation_fail_after(countdown);
    const int code = cli_main(count, arguments);
    hlo_allocation_fail_after(-1);
    return code;
}

// The least countdown that is enough.
static int64_t allocations_of(const Command *command, char *path) {
    int64_t enough = 1;
    while (run_short(command, path, enough) != CLI_EXIT_OK) {
        enough *= 2;
        cr_assert_lt(enough, 1 << 20);
    }
    for (int64_t low = 0, middle; low < enough;) {
        middle = low + (enough - low) / 2;
        if (run_short(command, path, middle) == CLI_EXIT_OK)
            enough = middle;
        else
            low = middle + 1;
    }
    return enough;
}

CaseList(memory, commands) {
    return cases_numbered(HLO_COUNT_OF(commands));
}

// Each of the last allocations, where the program runs, and some of those before.
CaseTest(const int *number, memory, commands) {
    enum { LAST = 200 };
    const Command *command = &commands[*number];
    char path[] = "/tmp/meshlo-command-XXXXXX";
    const int file = mkstemp(path);
    cr_assert_geq(file, 0);
    cr_assert_eq(write(file, command->program, strlen(command->program)), (ssize_t)strlen(command->program));
    close(file);
    cr_assert(freopen("/dev/null", "w", stderr) && freopen("/dev/null", "w", stdout));
    const int64_t enough = allocations_of(command, path);
    for (int64_t at = 0; at < enough; at += at + LAST < enough ? 1 + at / 16 : 1) {
        const int code = run_short(command, path, at);
        // A compiler cannot tell this memory from the device's.
        cr_expect(code == CLI_EXIT_RUN_TIME || code == CLI_EXIT_OUT_OF_MEMORY, "exit code %d after %lld of %lld", code,
                  (long long)at, (long long)enough);
    }
    cr_expect_eq(run_short(command, path, enough), CLI_EXIT_OK);
    unlink(path);
}
