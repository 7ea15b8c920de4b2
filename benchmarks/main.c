// SPDX-License-Identifier: Apache-2.0
// usage: meshlo_benchmarks [NAME…]     Prints a row for each case: name, value, unit, goal, whether it is reached.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "benchmarks/bench.h"

static const BenchCase kCases[] = {
#define BENCH_CASE(name, unit, at_most, goal) {#name, unit, goal, at_most, bench_##name},
#include "benchmarks/cases.def"
#undef BENCH_CASE
};

void bench_forget_peak(void) {
    FILE *file = fopen("/proc/self/clear_refs", "w");
    if (!file) return;
    fputs("5", file);
    fclose(file);
}

double bench_peak_bytes(void) {
    FILE *file = fopen("/proc/self/status", "r");
    char line[256];
    double kilobytes = 0;
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "VmHWM: %lf", &kilobytes) == 1) break;
    }
    if (file) fclose(file);
    return kilobytes * 1024;
}

static int run_case(const BenchCase *bench) {
    BenchResult result = {0};
    HloStatus status = bench->run(&result);
    if (status) {
        fprintf(stderr, "%s: %s\n", bench->name, hlo_status_message(status));
        hlo_status_free(status);
        return 1;
    }
    if (result.skipped) {
        printf("%-20s %12s\n", bench->name, "skipped");
        return 0;
    }
    bool reached = bench->at_most ? result.value <= bench->goal : result.value >= bench->goal;
    printf("%-20s %12.4g %-5s goal %s %-6g %s\n", bench->name, result.value, bench->unit,
           bench->at_most ? "<=" : ">=", bench->goal, reached ? "reached" : "MISSED");
    return 0;
}

static bool is_wanted(const char *name, int count, char **names) {
    for (int i = 0; i < count; ++i) {
        if (strcmp(names[i], name) == 0) return true;
    }
    return count == 0;
}

// Each case in a process of its own: one's memory and threads do not disturb the next.
int main(int argument_count, char **arguments) {
    int failures = 0;
    for (size_t i = 0; i < HLO_COUNT_OF(kCases); ++i) {
        if (!is_wanted(kCases[i].name, argument_count - 1, arguments + 1)) continue;
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            int result = run_case(&kCases[i]);
            fflush(stdout);
            _exit(result);
        }
        int outcome = 1;
        waitpid(child, &outcome, 0);
        failures += outcome != 0;
    }
    return failures ? 1 : 0;
}
