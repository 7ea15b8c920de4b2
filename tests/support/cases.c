// SPDX-License-Identifier: Apache-2.0
#include "tests/support/cases.h"

#include <glob.h>
#include <stdio.h>
#include <string.h>

struct criterion_test_params cases_numbered(size_t count) {
    int *numbers = cr_malloc(sizeof(*numbers) * count);
    for (size_t i = 0; i < count; i++) numbers[i] = (int)i;
    return cr_make_param_array(int, numbers, count);
}

struct criterion_test_params cases_files(const char *pattern) {
    char full[512];
    snprintf(full, sizeof full, "%s/%s", MESHLO_SOURCE_DIR, pattern);
    glob_t found;
    glob(full, 0, NULL, &found);
    const size_t count = found.gl_pathc;
    CaseFile *files = cr_malloc(sizeof(*files) * (count + 1));
    for (size_t i = 0; i < count; i++) snprintf(files[i].path, sizeof files[i].path, "%s", found.gl_pathv[i]);
    globfree(&found);
    return cr_make_param_array(CaseFile, files, count);
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
