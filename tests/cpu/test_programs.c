// SPDX-License-Identifier: Apache-2.0
// compiled == eval for every program in tests/cpu/programs, with one thread and with three, whose results must also be
// equal bit for bit; with different arguments on every device and with equal ones on pairs of them.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <string.h>

#include "hlo/base/file.h"
#include "tests/support/cases.h"
#include "tests/support/compiled.h"

static HloModule *load(const char *path) {
    HloFileContent content;
    cr_assert_null(hlo_file_read(path, 1 << 24, &content));
    HloText message = {0};
    HloModule *module = compiled_parse(content.data, &message);
    cr_assert_not_null(module, "%s: %s", path, message.data);
    hlo_file_content_free(&content);
    return module;
}

ParameterizedTestParameters(programs, compiled_equals_eval) {
    return cases_files("tests/cpu/programs/*.hlo");
}

ParameterizedTest(const CaseFile *program, programs, compiled_equals_eval) {
    HloModule *module = load(program->path);
    HloText message = {0};
    HloLiteral *one[64] = {0}, *three[64] = {0};
    CompiledCheck check = {.seed = 7, .threads = 1, .tolerance = 1e-4};
    cr_assert(compiled_equals_eval(module, &check, &message), "%s: %s", program->path, message.data);
    check.replicas = 2;
    cr_assert(compiled_equals_eval(module, &check, &message), "%s, replicated: %s", program->path, message.data);
    cr_assert(compiled_run(module, &check, one, &message), "%s", message.data);
    check.threads = 3;
    cr_assert(compiled_run(module, &check, three, &message), "%s", message.data);
    for (int d = 0; d < 64 && one[d]; d++) {
        cr_assert(hlo_literal_equal(one[d], three[d]), "%s: other bits with three threads", program->path);
        hlo_literal_free(one[d]);
        hlo_literal_free(three[d]);
    }
    hlo_text_free(&message);
    hlo_module_free(module);
}

// Programs that change large arrays where they are: a copy of one would need memory of its own.
typedef struct LeanProgram {
    char path[96];
    int64_t temporary_bytes;  // at most
} LeanProgram;

ParameterizedTestParameters(programs, need_no_copies) {
    static const LeanProgram lean[] = {
        {"tests/cpu/programs/bug_branches_copied_the_buffers_they_pass_on.hlo", 1024},
        {"tests/cpu/programs/bug_loops_copied_what_they_only_read.hlo", 1024},
        // One of two arrays of 2 KiB: its update reads another piece than it writes.
        {"tests/cpu/programs/bug_an_update_of_what_it_reads_copied_the_array.hlo", 2048 + 1024},
    };
    LeanProgram *cases = cr_malloc(sizeof lean);
    memcpy(cases, lean, sizeof lean);
    return cr_make_param_array(LeanProgram, cases, HLO_COUNT_OF(lean));
}

ParameterizedTest(const LeanProgram *lean, programs, need_no_copies) {
    HloModule *module = load(cases_path(lean->path));
    TargetClient *client = NULL;
    TargetExecutable *executable = NULL;
    TargetMemoryAnalysis memory;
    must_succeed(target_client_new_with_threads("cpu:1", 1, &client));
    must_succeed(target_compile(client, module, NULL, &executable));
    target_executable_memory_analysis(executable, &memory);
    cr_expect_leq(memory.temporary_bytes, lean->temporary_bytes, "%s: %lld", lean->path,
                  (long long)memory.temporary_bytes);
    target_executable_release(executable);
    target_client_release(client);
    hlo_module_free(module);
}
