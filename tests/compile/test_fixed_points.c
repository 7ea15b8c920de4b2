// SPDX-License-Identifier: Apache-2.0
// What must not change when it is done twice, over the programs of this repository and, where it is present, the shared
// corpus: print(parse(x)) is x for a printed x, and optimising a program again changes nothing.
#include <criterion/criterion.h>
#include <string.h>

#include "hlo/base/file.h"
#include "hlo/pass/pass.h"
#include "hlo/text/text.h"
#include "tests/support/cases.h"
#include "tests/support/compiled.h"

CaseList(compile_fixed_points, printing_and_optimising) {
    return cases_files(
        "tests/cpu/programs/*.hlo examples/*.hlo benchmarks/programs/*.hlo corpus/*.hlo.xz corpus/*/*.hlo.xz");
}

static HloModule *parse(const char *text, size_t length, const char *path) {
    const HloParseOptions options = {.elided = HLO_ELIDED_KEEP};
    HloModule *module = NULL;
    HloStatus status = hlo_parse(text, length, &options, &module);
    cr_assert_null(status, "%s: %s", path, hlo_status_message(status));
    return module;
}

static HloText print(const HloModule *module) {
    HloText text = {0};
    HloPrintOptions options = hlo_print_default();
    options.print_large_constants = true;
    must_succeed(hlo_print(module, &options, &text));
    return text;
}

// Returns the module that a printed text is read back as, which must print as that text.
static HloModule *read_back(HloText text, const char *path, const char *what) {
    HloModule *module = parse(text.data, text.length, path);
    HloText again = print(module);
    size_t at = 0;
    while (at < text.length && again.data[at] == text.data[at]) at++;
    const size_t from = at < 80 ? 0 : at - 80;
    cr_expect_eq(at, again.length, "%s, %s, at %zu of %zu: \"%.160s\" is read back as \"%.160s\"", path, what, at,
                 text.length, text.data + from, again.data + from);
    hlo_text_free(&again);
    return module;
}

// Then prepares the module to be written, as the command does (cli_write_program()).
static void optimise(HloModule *module, const char *path) {
    static const char *const passes[] = {"simplify"};
    HloStatus status = hlo_run_passes(module, passes, HLO_COUNT_OF(passes), NULL);
    cr_assert_null(status, "%s: %s", path, hlo_status_message(status));
    hlo_order_as_printed(module);
    hlo_module_renumber_frames(module);
}

CaseTest(const CaseFile *file, compile_fixed_points, printing_and_optimising) {
    HloFileContent content = {0};
    must_succeed(hlo_file_read(file->path, SIZE_MAX / 2, &content));
    HloModule *module = parse((const char *)content.data, content.size, file->path);
    // Readers number the frames of stacks, in their order: texts of three models need a second reading, in XLA too.
    HloText dumped = print(module);
    HloModule *read = parse(dumped.data, dumped.length, file->path);
    HloText written = print(read);
    hlo_module_free(read_back(written, file->path, "as written"));
    optimise(module, file->path);
    HloText once = print(module);
    HloModule *again = read_back(once, file->path, "optimised");
    optimise(again, file->path);
    HloText twice = print(again);
    cr_expect_str_eq(twice.data, once.data, "%s: optimising again changes it", file->path);
    HloText *const texts[] = {&dumped, &written, &once, &twice};
    for (size_t i = 0; i < HLO_COUNT_OF(texts); i++) hlo_text_free(texts[i]);
    hlo_module_free(module);
    hlo_module_free(read);
    hlo_module_free(again);
    hlo_file_content_free(&content);
}
