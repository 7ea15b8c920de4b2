// SPDX-License-Identifier: Apache-2.0
// The runner: names, order, dumps, verification, and catching passes that lie or break things.
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"

#define PROGRAM "HloModule m\n\nENTRY main {\n  x = f32[4] parameter(0)\n  ROOT r = f32[4] negate(x)\n}\n"

static void expect_failure(HloStatus status, HloCode code, const char *message) {
    cr_assert_not_null(status);
    cr_expect_eq(hlo_status_code(status), code);
    cr_expect_not_null(strstr(hlo_status_message(status), message), "%s", hlo_status_message(status));
    hlo_status_free(status);
}

Test(pass_runner, refuses_unknown_names) {
    HloModule *module = check_parse(PROGRAM);
    const char *names[] = {"dce", "no-such-pass"};
    expect_failure(hlo_run_passes(module, names, 2, NULL), HLO_NOT_FOUND, "no-such-pass");
    hlo_module_free(module);
}

Test(pass_runner, refuses_broken_patterns) {
    HloModule *module = check_parse(PROGRAM);
    const char *names[] = {"dce"};
    HloPassOptions options = {.dump_pattern = "("};
    expect_failure(hlo_run_passes(module, names, 1, &options), HLO_INVALID_ARGUMENT, "regular expression");
    hlo_module_free(module);
}

static HloStatus lie(HloModule *module, const HloPassEnv *env, bool *changed) {
    (void)env, (void)changed;
    HloInstruction *root = module->entry->root;
    hlo_instruction_new(module->entry, HLO_OP_ABS, root->shape, &root, 1, NULL, NULL);
    return HLO_SUCCESS;
}

static HloStatus wreck(HloModule *module, const HloPassEnv *env, bool *changed) {
    (void)env;
    module->entry->root->shape = hlo_shape_scalar(module->arena, HLO_S32);
    *changed = true;
    return HLO_SUCCESS;
}

static HloStatus run_one(HloModule *module, HloPassFunction *function, const HloPassOptions *options) {
    HloPass pass = {"mine", "a pass of a test", function};
    const HloPass *list[] = {&pass};
    bool changed = false;
    return hlo_run_pass_list(module, list, 1, options, &changed);
}

Test(pass_runner, catches_passes_that_lie) {
    HloModule *module = check_parse(PROGRAM);
    expect_failure(run_one(module, lie, NULL), HLO_INTERNAL, "reported no change");
    hlo_module_free(module);
}

Test(pass_runner, catches_passes_that_break_the_module) {
    HloModule *module = check_parse(PROGRAM);
    expect_failure(run_one(module, wreck, NULL), HLO_INTERNAL, "pass mine: the pass broke the module");
    hlo_module_free(module);
}

static void count_events(void *context, const HloPassEvent *event) {
    int64_t *counts = context;
    counts[event->changed]++;
}

Test(pass_runner, repeats_pipelines_until_nothing_changes) {
    HloModule *module = check_parse(PROGRAM);
    const char *names[] = {"simplify"};
    int64_t counts[2] = {0, 0};
    HloPassOptions options = {.observe = count_events, .context = counts};
    cr_assert_null(hlo_run_passes(module, names, 1, &options));
    cr_expect_eq(counts[1], 0);
    cr_expect_eq(counts[0], hlo_pipeline_find("simplify")->count);
    hlo_module_free(module);
}

static bool exists(const char *folder, const char *name) {
    char path[512];
    struct stat info;
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    bool found = stat(path, &info) == 0;
    if (found) unlink(path);
    return found;
}

Test(pass_runner, dumps_as_xla_names_them) {
    char folder[] = "/tmp/meshlo_dump_XXXXXX";
    cr_assert_not_null(mkdtemp(folder));
    HloModule *module = check_parse(PROGRAM);
    const char *names[] = {"cse", "dce"};
    HloPassOptions options = {.dump_folder = folder, .dump_pattern = "^d", .module_number = 7};
    HloStatus status = hlo_run_passes(module, names, 2, &options);
    cr_expect_null(status, "%s", hlo_status_message(status));
    cr_expect(exists(folder, "module_0007.m.before_optimizations.txt"));
    cr_expect(exists(folder, "module_0007.m.0001.passes.after_dce.txt"));
    cr_expect_not(exists(folder, "module_0007.m.0000.passes.after_cse.txt"));
    cr_expect(exists(folder, "module_0007.m.after_optimizations.txt"));
    rmdir(folder);
    hlo_module_free(module);
}

Test(pass_runner, the_registry_is_sorted_and_complete) {
    for (int64_t i = 0; hlo_pass_at(i); i++) {
        cr_expect_eq(hlo_pass_find(hlo_pass_at(i)->name), hlo_pass_at(i));
        if (i > 0) cr_expect_lt(strcmp(hlo_pass_at(i - 1)->name, hlo_pass_at(i)->name), 0);
    }
    for (int64_t i = 0; hlo_pipeline_at(i); i++) {
        const HloPipeline *pipeline = hlo_pipeline_at(i);
        for (int32_t p = 0; p < pipeline->count; p++) cr_expect_not_null(hlo_pass_find(pipeline->passes[p]));
    }
    cr_expect_null(hlo_pass_find("nonsense"));
}

Test(pass_runner, survives_lack_of_memory) {
    for (int64_t after = 0; after < 300; after += 7) {
        HloModule *module = check_parse(PROGRAM);
        const char *names[] = {"simplify"};
        hlo_allocation_fail_after(after);
        HloStatus status = hlo_run_passes(module, names, 1, NULL);
        hlo_allocation_fail_after(-1);
        cr_expect(!status || hlo_status_code(status) == HLO_RESOURCE_EXHAUSTED, "%s", hlo_status_message(status));
        hlo_status_free(status);
        hlo_module_free(module);
    }
}
