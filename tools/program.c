// SPDX-License-Identifier: Apache-2.0
#include "tools/program.h"

#include <assert.h>
#include <string.h>

#include "hlo/base/file.h"
#include "hlo/proto/proto.h"
#include "hlo/stablehlo/stablehlo.h"
#include "hlo/text/text.h"
#include "hlo/verify/verify.h"

// The most that a compressed program may expand to.
#define MAX_PROGRAM_BYTES ((size_t)4 << 30)

const char *cli_format_name(CliFormat format) {
    static const char *const kNames[] = {"HLO text", "HloModuleProto", "StableHLO text", "StableHLO bytecode"};
    return kNames[format];
}

static bool starts_with(const char *data, size_t size, const char *word) {
    size_t length = strlen(word);
    return size >= length && memcmp(data, word, length) == 0;
}

// Skips blanks and // comments.
// Programs of test suites begin with // RUN lines.
static void skip_comments(const char **data, size_t *size) {
    assert(*data);
    for (;;) {
        size_t blanks = 0;
        while (blanks < *size && memchr(" \t\r\n", (*data)[blanks], 4)) ++blanks;
        *data += blanks;
        *size -= blanks;
        if (!starts_with(*data, *size, "//")) return;
        const char *newline = memchr(*data, '\n', *size);
        size_t length = newline ? (size_t)(newline - *data) : *size;
        *data += length;
        *size -= length;
    }
}

// By content, as names lie: magic numbers first, then the first word of the text. HLO text is what is left, so that its
// parser gives the error for text that is neither.
CliFormat cli_format_detect(const char *data, size_t size) {
    static const char *const kMlirWords[] = {"module @", "module {",  "module attributes",  "builtin.module",
                                             "#",        "func.func", "\"builtin.module\"", "\"func.func\"",
                                             "sdy.mesh", "!"};
    if (hlo_looks_like_mlir_bytecode(data, size)) return CLI_FORMAT_BYTECODE;
    if (hlo_looks_like_proto(data, size)) return CLI_FORMAT_HLO_PROTO;
    skip_comments(&data, &size);
    for (size_t i = 0; i < HLO_COUNT_OF(kMlirWords); ++i) {
        if (starts_with(data, size, kMlirWords[i])) return CLI_FORMAT_STABLEHLO_TEXT;
    }
    return CLI_FORMAT_HLO_TEXT;
}

// Binary formats have no lines: their errors get the file's name in front.
static HloStatus decode_program(const char *name, const HloFileContent *content, HloModule **module) {
    HloParseOptions options = {.file = name};
    CliFormat format = cli_format_detect(content->data, content->size);
    switch (format) {
        case CLI_FORMAT_HLO_TEXT: return hlo_parse(content->data, content->size, &options, module);
        case CLI_FORMAT_HLO_PROTO:
            return hlo_status_annotate(hlo_module_from_proto(content->data, content->size, module), "%s", name);
        case CLI_FORMAT_BYTECODE:
            return hlo_status_annotate(hlo_module_from_stablehlo_bytecode(content->data, content->size, module), "%s",
                                       name);
        case CLI_FORMAT_STABLEHLO_TEXT: break;
    }
    return hlo_module_from_stablehlo_text(content->data, content->size, name, module);
}

// A program is verified at once, whatever it came from: every later step takes that for granted.
static HloStatus parse_program(const char *name, const HloFileContent *content, HloModule **module) {
    HLO_TRY(decode_program(name, content, module));
    HloStatus status = hlo_verify(*module);
    if (!status) return HLO_SUCCESS;
    if (cli_format_detect(content->data, content->size) == CLI_FORMAT_HLO_TEXT) {
        HloParseOptions options = {.file = name};
        status = hlo_status_place_in_text(status, content->data, content->size, &options);
    } else {
        status = hlo_status_annotate(status, "%s", name);
    }
    hlo_module_free(*module);
    *module = NULL;
    return status;
}

// The text of an HLO program stays in the context, because errors of later steps name instructions, and cli.c finds
// their places in it. Compressed files are expanded by hlo_file_read(), up to MAX_PROGRAM_BYTES.
HloStatus cli_program_load(CliContext *context, const char *path, HloModule **module) {
    assert(path && module);
    HloFileContent content;
    cli_progress(context, "reading");
    context->stage = CLI_STAGE_PROGRAM;
    HLO_TRY(hlo_file_read(path, MAX_PROGRAM_BYTES, &content));
    const char *name = strcmp(path, "-") == 0 ? "<stdin>" : path;
    HloStatus status = parse_program(name, &content, module);
    if (status || cli_format_detect(content.data, content.size) != CLI_FORMAT_HLO_TEXT) {
        hlo_file_content_free(&content);
        return status;
    }
    hlo_file_content_free(&context->source);
    context->source_name = name;
    context->source = content;  // for what is found out about the program later
    return HLO_SUCCESS;
}

// Output for stdout is only collected here: cli.c writes it when the verb has succeeded. Files are written to a
// temporary name and renamed.
HloStatus cli_write_output(CliContext *context, const HloText *text) {
    const char *path = cli_text_or(context, "o", "-");
    HLO_TRY(hlo_text_status(text));
    if (strcmp(path, "-") != 0) return hlo_file_write(path, text->data, text->length);
    hlo_text_append(&context->out, text->data, text->length);
    return HLO_SUCCESS;
}
