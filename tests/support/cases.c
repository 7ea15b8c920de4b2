// SPDX-License-Identifier: Apache-2.0
#include "tests/support/cases.h"

#include <glob.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct criterion_test_params cases_grouped(struct criterion_test_params list) {
    const size_t count = (list.length + CASES_TOGETHER - 1) / CASES_TOGETHER;
    size_t bytes = sizeof(CaseGroup) + list.size * CASES_TOGETHER;
    bytes += (alignof(CaseGroup) - bytes % alignof(CaseGroup)) % alignof(CaseGroup);
    char *groups = cr_malloc(bytes * (count + 1));
    for (size_t i = 0; i < count; i++) {
        CaseGroup *group = (CaseGroup *)(groups + i * bytes);
        const size_t first = i * CASES_TOGETHER, left = list.length - first;
        *group = (CaseGroup){first, left < CASES_TOGETHER ? left : CASES_TOGETHER, list.size};
        memcpy(group->cases, (char *)list.params + first * list.size, group->count * list.size);
    }
    if (list.cleanup) list.cleanup(&list);
    return (struct criterion_test_params){.size = bytes, .params = groups, .length = count};
}

void *cases_at(const CaseGroup *group, size_t number) {
    const int64_t wanted = cases_setting("MESHLO_CASE", -1);
    if (wanted >= 0 && (size_t)wanted != group->first + number) return NULL;
    return (char *)group->cases + number * group->case_bytes;
}

struct criterion_test_params cases_numbered(size_t count) {
    int *numbers = cr_malloc(sizeof(*numbers) * count);
    for (size_t i = 0; i < count; i++) numbers[i] = (int)i;
    return cr_make_param_array(int, numbers, count);
}

// Writes the path of a file or a pattern: names that begin with "corpus" are under the shared folder.
static void write_path(const char *file, size_t length, char path[4096]) {
    const char *shared = getenv("MESHLO_SHARED");
    if (!shared) shared = MESHLO_SOURCE_DIR "/../shared";
    const char *folder = strncmp(file, "corpus", 6) == 0 ? shared : MESHLO_SOURCE_DIR;
    snprintf(path, 4096, "%s/%.*s", folder, (int)length, file);
}

struct criterion_test_params cases_files(const char *patterns) {
    char path[4096];
    glob_t found = {0};
    for (const char *at = patterns; *at;) {
        const size_t length = strcspn(at, " ");
        write_path(at, length, path);
        glob(path, at == patterns ? 0 : GLOB_APPEND, NULL, &found);
        at += length + (at[length] == ' ');
    }
    const size_t count = found.gl_pathc;
    CaseFile *files = cr_malloc(sizeof(*files) * (count + 1));
    for (size_t i = 0; i < count; i++) snprintf(files[i].path, sizeof files[i].path, "%s", found.gl_pathv[i]);
    globfree(&found);
    return cr_make_param_array(CaseFile, files, count);
}

int64_t cases_setting(const char *name, int64_t usual) {
    const char *text = getenv(name);
    return text ? strtoll(text, NULL, 10) : usual;
}

int64_t cases_count(const char *name, int64_t usual) {
#ifdef MESHLO_SANITIZED
    usual = (usual + 3) / 4;
#endif
    return cases_setting(name, usual);
}

const char *cases_path(const char *file) {
    static char path[4096];
    write_path(file, strlen(file), path);
    return access(path, R_OK) == 0 ? path : NULL;
}

void cases_program(HloText *text, const char *parameters, const char *root, const char *called) {
    hlo_text_format(text, "HloModule m\n\n%s\nENTRY e {\n", called);
    int number = 0;
    for (const char *at = parameters; *at; number++) {
        const size_t length = strcspn(at, ";");
        hlo_text_format(text, "  p%d = %.*s parameter(%d)\n", number, (int)length, at, number);
        at += length + (at[length] == ';');
    }
    hlo_text_format(text, "  ROOT r = %s\n}\n", root);
}

void cases_with_type(HloText *out, const char *text, HloType type) {
    for (; *text; text++) {
        if (*text == '$')
            hlo_text_string(out, hlo_type_text(type));
        else
            hlo_text_char(out, *text);
    }
}

void cases_call_tree(HloText *text, const char *header, int depth) {
    cases_tree_of(text, header, depth, "call", "to_apply");
}

void cases_tree_of(HloText *text, const char *header, int depth, const char *op, const char *called) {
    hlo_text_format(text, "HloModule m%s\n\nc0 {\n  x = f32[] parameter(0)\n  ROOT r = f32[] sine(x)\n}\n\n", header);
    for (int i = 1; i <= depth; i++) {
        hlo_text_format(text,
                        "%s c%d {\n  x = f32[] parameter(0)\n  a = f32[] %s(x), %s=c%d\n"
                        "  b = f32[] %s(a), %s=c%d\n  ROOT r = f32[] add(a, b)\n}\n\n",
                        i == depth ? "ENTRY" : "", i, op, called, i - 1, op, called, i - 1);
    }
}
