// SPDX-License-Identifier: Apache-2.0
// compiled == eval for every program in tests/cpu/programs, with one thread and with three, whose results must also be
// equal bit for bit; with different arguments on every device and with equal ones on pairs of them.
#include <criterion/criterion.h>
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

CaseList(programs, compiled_equals_eval) {
    return cases_files("tests/cpu/programs/*.hlo");
}

CaseTest(const CaseFile *program, programs, compiled_equals_eval) {
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

// Programs that update large arrays in place: a copy of one would need more memory.
typedef struct LeanProgram {
    char path[96];
    int64_t temporary_bytes;  // at most
} LeanProgram;

CaseList(programs, need_no_copies) {
    static const LeanProgram lean[] = {
        {"tests/cpu/programs/bug_branches_copied_the_buffers_they_pass_on.hlo", 1024},
        {"tests/cpu/programs/bug_loops_copied_what_they_only_read.hlo", 1024},
        // One of two arrays of 2 KiB: its update reads a different part than it writes.
        {"tests/cpu/programs/bug_an_update_of_what_it_reads_copied_the_array.hlo", 2048 + 1024},
    };
    LeanProgram *cases = cr_malloc(sizeof lean);
    memcpy(cases, lean, sizeof lean);
    return cr_make_param_array(LeanProgram, cases, HLO_COUNT_OF(lean));
}

CaseTest(const LeanProgram *lean, programs, need_no_copies) {
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

// Loops that only move their state around: array k becomes array (times * k + plus) % count of the previous iteration.
// Circles of every length, shifts, and several readers of one array, where `times` and `count` have a common divisor.
typedef struct Exchange {
    int count, times, plus;
} Exchange;

CaseList(programs, loops_exchange_their_state) {
    static const Exchange exchanges[] = {{1, 1, 0},  {2, 1, 1},  {3, 1, 1},  {3, 2, 0},  {6, 1, 2},
                                         {6, 5, 3},  {6, 2, 1},  {8, 4, 1},  {12, 5, 0}, {12, 6, 5},
                                         {40, 1, 1}, {40, 7, 3}, {40, 8, 2}, {9, 0, 4}};
    Exchange *cases = cr_malloc(sizeof exchanges);
    memcpy(cases, exchanges, sizeof exchanges);
    return cr_make_param_array(Exchange, cases, HLO_COUNT_OF(exchanges));
}

CaseTest(const Exchange *exchange, programs, loops_exchange_their_state) {
    HloText text = {0}, state = {0}, message = {0};
    hlo_text_string(&state, "(s32[]");
    for (int k = 0; k < exchange->count; k++) hlo_text_string(&state, ", f32[4]");
    hlo_text_format(
        &text,
        "HloModule exchange\n\ncondition {\n  s = %s) parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n"
        "  m = s32[] constant(5)\n  ROOT p = pred[] compare(i, m), direction=LT\n}\n\nbody {\n"
        "  s = %s) parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n  one = s32[] constant(1)\n"
        "  j = s32[] add(i, one)\n",
        state.data, state.data);
    for (int k = 0; k < exchange->count; k++)
        hlo_text_format(&text, "  g%d = f32[4] get-tuple-element(s), index=%d\n", k, k + 1);
    hlo_text_format(&text, "  ROOT t = %s) tuple(j", state.data);
    for (int k = 0; k < exchange->count; k++)
        hlo_text_format(&text, ", g%d", (exchange->times * k + exchange->plus) % exchange->count);
    // The first number keeps the loop from being written out.
    hlo_text_string(&text, ")\n}\n\nENTRY main {\n  i = s32[] parameter(0)\n");
    for (int k = 0; k < exchange->count; k++) hlo_text_format(&text, "  p%d = f32[4] parameter(%d)\n", k, k + 1);
    hlo_text_format(&text, "  t = %s) tuple(i", state.data);
    for (int k = 0; k < exchange->count; k++) hlo_text_format(&text, ", p%d", k);
    hlo_text_format(&text, ")\n  ROOT w = %s) while(t), condition=condition, body=body\n}\n", state.data);
    HloModule *module = compiled_must_parse(text.data);
    for (uint64_t seed = 1; seed <= 3; seed++) {
        const CompiledCheck check = {.seed = seed, .threads = 1};
        cr_expect(compiled_equals_eval(module, &check, &message), "%s\n%s", message.data, text.data);
    }
    hlo_module_free(module);
    hlo_text_free(&message);
    hlo_text_free(&state);
    hlo_text_free(&text);
}
