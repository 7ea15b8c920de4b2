// SPDX-License-Identifier: Apache-2.0
// Writes the program to files on its way through the pipeline, as the command line, the environment or XLA_FLAGS
// request. A dump is a by-product: unless the command line requests it, a failure is noted and compiling continues.
#include "compile/dump.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "compile/dumper.h"
#include "compile/pipeline.h"
#include "compile/xla_flags.h"
#include "hlo/base/file.h"
#include "hlo/proto/proto.h"
#include "hlo/proto/wire.h"
#include "hlo/text/text.h"

// ---- requests

// "DIR", or "DIR:STAGE,STAGE". The last colon counts, as folders may have some.
static void read_own(HloArena *arena, const char *text, CompileDump *dump) {
    const char *colon = strrchr(text, ':');
    dump->folder = hlo_arena_string(arena, text, colon ? (size_t)(colon - text) : strlen(text));
    dump->stages = colon ? colon + 1 : "all";
}

static bool is_true(const char *value) {
    return value && strcmp(value, "false") != 0 && strcmp(value, "0") != 0;
}

// "-" means standard output to XLA; nothing in a library prints.
void compile_dump_from_environment(HloArena *arena, CompileDump *dump) {
    assert(arena && dump);
    *dump = (CompileDump){0};
    const char *own = getenv("MESHLO_DUMP");
    if (own && *own) {
        read_own(arena, own, dump);
        return;
    }
    dump->folder = compile_xla_flag(arena, "xla_dump_to");
    if (!dump->folder || !*dump->folder || strcmp(dump->folder, "-") == 0) {
        dump->folder = NULL;
        return;
    }
    dump->pass_pattern = compile_xla_flag(arena, "xla_dump_hlo_pass_re");
    dump->module_pattern = compile_xla_flag(arena, "xla_dump_hlo_module_re");
    dump->as_text = is_true(compile_xla_flag(arena, "xla_dump_hlo_as_text"));
    dump->as_proto = is_true(compile_xla_flag(arena, "xla_dump_hlo_as_proto"));
}

// The only state of this folder: like XLA's, numbers are a process's own, so that several clients share a folder.
int64_t compile_dump_next_number(void) {
    static _Atomic int64_t last;
    return atomic_fetch_add(&last, 1) + 1;
}

// Whether the comma-separated list has the word.
static bool list_has(const char *list, const char *word) {
    const size_t length = strlen(word);
    while (list && *list) {
        const size_t item = strcspn(list, ",");
        if (item == length && memcmp(list, word, length) == 0) return true;
        list += item + (list[item] == ',');
    }
    return false;
}

static HloStatus check_stages(const char *list) {
    while (list && *list) {
        const size_t length = strcspn(list, ",");
        bool known = length == strlen("all") && memcmp(list, "all", length) == 0;
        for (int stage = 0; stage < COMPILE_STAGE_COUNT; stage++) {
            const char *name = compile_stage_name((CompileStage)stage);
            known |= strlen(name) == length && memcmp(list, name, length) == 0;
        }
        HLO_FAIL_IF(!known, HLO_INVALID_ARGUMENT, "'%.*s' is not a stage of the compile pipeline", (int)length, list);
        list += length + (list[length] == ',');
    }
    return HLO_SUCCESS;
}

// Compiles an expression; *has stays false for NULL.
static HloStatus compile_expression(const char *text, regex_t *expression, bool *has) {
    if (!text) return HLO_SUCCESS;
    HLO_FAIL_IF(regcomp(expression, text, REG_EXTENDED | REG_NOSUB) != 0, HLO_INVALID_ARGUMENT,
                "'%s' is not a regular expression", text);
    *has = true;
    return HLO_SUCCESS;
}

static HloStatus check_expression(const char *text) {
    regex_t expression;
    bool has = false;
    HLO_TRY(compile_expression(text, &expression, &has));
    if (has) regfree(&expression);
    return HLO_SUCCESS;
}

HloStatus compile_dump_check(const CompileDump *dump) {
    HLO_TRY(check_stages(dump->stages));
    HLO_TRY(check_expression(dump->pass_pattern));
    return check_expression(dump->module_pattern);
}

// ---- writing

// Records the first failure, or returns it where dumps must succeed.
static HloStatus fail(CompileDumper *dumper, HloStatus status) {
    if (!status || dumper->options->must_succeed) return status;
    if (dumper->failure)
        hlo_status_free(status);
    else
        dumper->failure = status;
    dumper->writes = false;
    return HLO_SUCCESS;
}

static HloStatus matches(const char *pattern, const char *text, bool *matched) {
    regex_t expression;
    bool has = false;
    *matched = true;
    HLO_TRY(compile_expression(pattern, &expression, &has));
    if (!has) return HLO_SUCCESS;
    *matched = regexec(&expression, text, 0, NULL, 0) == 0;
    regfree(&expression);
    return HLO_SUCCESS;
}

static HloStatus open_dumper(CompileDumper *dumper, const HloModule *module) {
    const CompileDump *options = dumper->options;
    bool wanted;
    HLO_TRY(check_stages(options->stages));
    HLO_TRY(matches(options->module_pattern, module->name, &wanted));
    if (!wanted) return HLO_SUCCESS;
    HLO_TRY(hlo_file_make_folder(options->folder));
    HLO_TRY(compile_expression(options->pass_pattern, &dumper->passes, &dumper->has_pass_pattern));
    dumper->writes = true;
    return HLO_SUCCESS;
}

HloStatus compile_dumper_open(CompileDumper *dumper, const CompileDump *options, const HloModule *module) {
    *dumper = (CompileDumper){.options = options};
    return options->folder ? fail(dumper, open_dumper(dumper, module)) : HLO_SUCCESS;
}

// An HloProto, whose field 1 is the module, as XLA dumps it.
static HloStatus print_proto(const HloModule *module, HloText *bytes) {
    const size_t mark = hlo_wire_begin(bytes, 1);
    HLO_TRY(hlo_module_to_proto(module, bytes));
    hlo_wire_end(bytes, mark);
    return hlo_text_status(bytes);
}

// Writes one file in one form.
static HloStatus write_form(const CompileDumper *dumper, const HloModule *module, const char *what, bool proto) {
    HloText path = {0}, content = {0};
    hlo_text_format(&path, "%s/module_%04lld.", dumper->options->folder, (long long)dumper->options->number);
    hlo_file_name_part(&path, module->name);
    hlo_text_format(&path, ".%s.%s", what, proto ? "hlo.pb" : "txt");
    HloStatus status = proto ? print_proto(module, &content) : hlo_print(module, NULL, &content);
    if (!status) status = hlo_text_status(&path);
    if (!status) status = hlo_file_write(path.data, content.data, content.length);
    hlo_text_free(&path);
    hlo_text_free(&content);
    return status;
}

HloStatus compile_dump(CompileDumper *dumper, const HloModule *module, const char *what) {
    if (!dumper->writes) return HLO_SUCCESS;
    const CompileDump *options = dumper->options;
    HloStatus status = HLO_SUCCESS;
    if (options->as_text || !options->as_proto) status = write_form(dumper, module, what, false);
    if (!status && options->as_proto) status = write_form(dumper, module, what, true);
    return fail(dumper, status);
}

// A dump in the middle of a stage or after it: numbered in the order of writing.
static HloStatus dump_numbered(CompileDumper *dumper, const HloModule *module, const char *after) {
    HloText what = {0};
    hlo_text_format(&what, "%04lld.%s.after_%s", (long long)++dumper->count, dumper->stage, after);
    HloStatus status = hlo_text_status(&what);
    if (!status) status = compile_dump(dumper, module, what.data);
    hlo_text_free(&what);
    return status;
}

HloStatus compile_dump_after_stage(CompileDumper *dumper, const HloModule *module) {
    const char *stages = dumper->options->stages;
    if (!dumper->writes || !(list_has(stages, "all") || list_has(stages, dumper->stage))) return HLO_SUCCESS;
    return dump_numbered(dumper, module, dumper->stage);
}

// The runner has no way to take an error: it is kept, and compiling ends with it at the end of the run.
void compile_dump_observe(void *context, const HloPassEvent *event) {
    CompileDumper *dumper = context;
    if (!dumper->writes || !dumper->has_pass_pattern || regexec(&dumper->passes, event->pass, 0, NULL, 0) != 0) return;
    HloStatus status = dump_numbered(dumper, event->module, event->pass);
    if (!status) return;
    dumper->writes = false;
    if (dumper->failure)
        hlo_status_free(status);
    else
        dumper->failure = status;
}

HloStatus compile_dumper_close(CompileDumper *dumper) {
    if (dumper->has_pass_pattern) regfree(&dumper->passes);
    dumper->has_pass_pattern = false;
    return dumper->failure;
}
