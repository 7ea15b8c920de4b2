// SPDX-License-Identifier: Apache-2.0
// Runs tests that are written with Criterion's headers without its library, one process per test, for systems on which
// that does not start: it starts its own binary once more and places it by hand, which qemu's user mode cannot do (and
// ThreadSanitizer cannot either). Knows what our tests use of it: filters, fixtures, parameters, time limits, skipped
// tests, and theories of up to four whole numbers; no expected signals or reports.
#include <assert.h>
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <criterion/theories.h>
#include <fnmatch.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// What a test's process ends with; anything else is a crash.
enum { kPassed = 0, kFailed = 90, kSkipped = 91 };

static struct {
    const struct criterion_test *test;
    const struct criterion_suite *suite;  // or NULL
    void *parameter;
    bool failed;
} current;

struct criterion_options criterion_options;
static bool verbose;

// ---- what assertions call

void criterion_send_assert(struct criterion_assert_stats *stats) {
    fprintf(stderr, "[----] %s:%u: Assertion failed: %s\n", stats->file, stats->line, stats->message);
}

void criterion_abort_test(void) {
    fflush(NULL);
    _exit(kFailed);
}

void criterion_continue_test(void) {
    current.failed = true;
}

void criterion_skip_test(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "[SKIP] ");
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    va_end(arguments);
    fflush(NULL);
    _exit(kSkipped);
}

void cri_asserts_passed_incr(void) {}

int cr_asprintf(char **text, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const int length = vasprintf(text, format, arguments);
    va_end(arguments);
    return length;
}

void cr_asprintf_free(char *text) {
    free(text);
}

// The condition's own words, which follow the number of the message's form.
char *cr_translate_assert_msg(int form, ...) {
    va_list arguments;
    va_start(arguments, form);
    const char *condition = va_arg(arguments, const char *);
    va_end(arguments);
    return strdup(condition ? condition : "");
}

void cr_log(enum criterion_severity severity, const char *format, ...) {
    va_list arguments;
    (void)severity;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fprintf(stderr, "\n");
}

void *cr_malloc(size_t size) {
    void *memory = malloc(size);
    assert(memory || size == 0);
    return memory;
}

void cr_free(void *memory) {
    free(memory);
}

// ---- the parts of a test

void criterion_internal_test_setup(void) {
    if (current.suite && current.suite->data->init) current.suite->data->init();
    if (current.test->data->init) current.test->data->init();
}

void criterion_internal_test_main(void (*function)(void)) {
    if (current.test->data->kind_ == CR_TEST_PARAMETERIZED)
        ((void (*)(void *))function)(current.parameter);
    else
        function();
}

void criterion_internal_test_teardown(void) {
    if (current.test->data->fini) current.test->data->fini();
    if (current.suite && current.suite->data->fini) current.suite->data->fini();
}

// ---- theories

static jmp_buf assumption;

void cr_theory_abort(void) {
    longjmp(assumption, 1);
}

// Calls the theory with one number of each list; an assumption that does not hold ends the call.
static void call_theory(void (*function)(void), int count, const int *numbers) {
    if (setjmp(assumption)) return;
    switch (count) {
        case 1: ((void (*)(int))function)(numbers[0]); break;
        case 2: ((void (*)(int, int))function)(numbers[0], numbers[1]); break;
        case 3: ((void (*)(int, int, int))function)(numbers[0], numbers[1], numbers[2]); break;
        case 4: ((void (*)(int, int, int, int))function)(numbers[0], numbers[1], numbers[2], numbers[3]); break;
        default: abort();
    }
}

void cr_theory_main(struct criterion_datapoints *lists, size_t count, void (*function)(void)) {
    size_t combinations = 1;
    for (size_t i = 0; i < count; i++) {
        assert(lists[i].size == sizeof(int));
        combinations *= lists[i].len;
    }
    for (size_t combination = 0; combination < combinations; combination++) {
        int numbers[4] = {0};
        size_t rest = combination;
        for (size_t i = 0; i < count && i < 4; i++) {
            numbers[i] = ((const int *)lists[i].arr)[rest % lists[i].len];
            rest /= lists[i].len;
        }
        call_theory(function, (int)count, numbers);
    }
}

// ---- running

// The linker defines the ends of the sections in which Criterion's headers list tests and suites.
extern struct criterion_test *__start_cr_tst[], *__stop_cr_tst[];
extern struct criterion_suite *__start_cr_sts[] __attribute__((weak)), *__stop_cr_sts[] __attribute__((weak));

typedef struct Counts {
    int tested, passed, failed, crashed;
} Counts;

static const struct criterion_suite *find_suite(const char *name) {
    for (struct criterion_suite **suite = __start_cr_sts; suite < __stop_cr_sts; suite++)
        if (strcmp((*suite)->name, name) == 0) return *suite;
    return NULL;
}

// Runs the current test in a process of its own; returns how that ended.
static int run_apart(void) {
    fflush(NULL);
    const pid_t child = fork();
    assert(child >= 0);
    if (child == 0) {
        if (current.test->data->timeout > 0) alarm((unsigned)current.test->data->timeout + 1);
        current.test->test();
        fflush(NULL);
        _exit(current.failed ? kFailed : kPassed);
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0) continue;
    return status;
}

static void run_case(Counts *counts, const struct criterion_test *test, void *parameter) {
    struct timespec begin, end;
    current.test = test;
    current.parameter = parameter;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    const int status = run_apart(), code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    clock_gettime(CLOCK_MONOTONIC, &end);
    if (verbose)
        fprintf(stderr, "[RUN ] %s::%s (%.2f s)\n", test->category, test->name,
                (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec));
    if (code == kSkipped) return;
    counts->tested++;
    if (code == kPassed)
        counts->passed++;
    else if (code == kFailed)
        counts->failed++;
    else
        counts->crashed++;
    if (code == kPassed) return;
    fprintf(stderr, "[FAIL] %s::%s", test->category, test->name);
    if (WIFSIGNALED(status)) fprintf(stderr, ": %s", strsignal(WTERMSIG(status)));
    fprintf(stderr, "\n");
}

static void run_test(Counts *counts, const struct criterion_test *test) {
    current.suite = find_suite(test->category);
    if (test->data->kind_ != CR_TEST_PARAMETERIZED) {
        run_case(counts, test, NULL);
        return;
    }
    struct criterion_test_params list = test->data->param_();
    for (size_t i = 0; i < list.length; i++) run_case(counts, test, (char *)list.params + i * list.size);
    if (list.cleanup) list.cleanup(&list);
}

int main(int count, char **arguments) {
    const char *filter = NULL;
    for (int i = 1; i < count; i++) {
        if (strcmp(arguments[i], "--filter") == 0 && i + 1 < count)
            filter = arguments[++i];
        else if (strcmp(arguments[i], "--verbose") == 0)
            verbose = true;
        else if (strncmp(arguments[i], "--color", 7) != 0) {
            fprintf(stderr, "usage: %s [--color=…] [--verbose] [--filter PATTERN]\n", arguments[0]);
            return 2;
        }
    }
    Counts counts = {0};
    for (struct criterion_test **test = __start_cr_tst; test < __stop_cr_tst; test++) {
        char name[256];
        if (!*test) continue;
        snprintf(name, sizeof name, "%s/%s", (*test)->category, (*test)->name);
        if (!filter || fnmatch(filter, name, FNM_EXTMATCH) == 0) run_test(&counts, *test);
    }
    fprintf(stderr, "[====] Synthesis: Tested: %d | Passing: %d | Failing: %d | Crashing: %d\n", counts.tested,
            counts.passed, counts.failed, counts.crashed);
    return counts.passed == counts.tested ? 0 : 1;
}
