// SPDX-License-Identifier: Apache-2.0
// The entry points: read, then import; export, then write. The MLIR module in between lives in a scratch arena, which
// is freed before they return.
#include "hlo/stablehlo/stablehlo.h"

#include <assert.h>
#include <string.h>

#include "hlo/stablehlo/bytecode/format.h"
#include "hlo/stablehlo/bytecode/reader.h"
#include "hlo/stablehlo/bytecode/writer.h"
#include "hlo/stablehlo/composite/composite.h"
#include "hlo/stablehlo/export/export.h"
#include "hlo/stablehlo/import/import.h"
#include "hlo/stablehlo/text/parser.h"
#include "hlo/stablehlo/text/printer.h"

// ---------------------------------------------------------------------------------------------------------------------
// In

typedef struct ImportRequest {
    const void *bytes;
    size_t length;
    bool is_text;
    HloStablehloOptions options;
    HloModule *module;
} ImportRequest;

// The MLIR module and scratch data share an arena, which is freed afterwards; the HLO module has copies of what it
// needs.
static HloStatus import_request(void *argument) {
    ImportRequest *request = argument;
    HloArena *arena = hlo_arena_scratch_new();
    MlirOperation *top = NULL;
    HloStatus status = request->is_text
                           ? mlir_read_text(arena, request->options.file, request->bytes, request->length, &top)
                           : mlir_read_file(arena, request->bytes, request->length, &top);
    if (!status) {
        const char *begin = request->bytes;
        const AsmText text = {request->options.file, begin, begin + request->length};
        const ImportOptions options = {request->is_text ? &text : NULL, request->options.sizes,
                                       request->options.size_count, request->options.notes};
        status = mlir_import_module(top, &options, arena, request->module);
    }
    hlo_arena_free(arena);
    return status;
}

static HloStatus import_new_module(ImportRequest *request, HloModule **module) {
    request->module = hlo_module_new("module");
    HLO_FAIL_IF(!request->module, HLO_RESOURCE_EXHAUSTED, "out of memory");
    HloStatus status = hlo_protect(import_request, request);
    if (status) {
        hlo_module_free(request->module);
        return status;
    }
    *module = request->module;
    return HLO_SUCCESS;
}

HloStatus hlo_module_from_stablehlo_bytecode(const void *bytes, size_t length, HloModule **module) {
    ImportRequest request = {.bytes = bytes, .length = length};
    return import_new_module(&request, module);
}

HloStatus hlo_module_from_stablehlo_text(const char *text, size_t length, const char *file, HloModule **module) {
    ImportRequest request = {.bytes = text, .length = length, .is_text = true, .options = {.file = file}};
    return import_new_module(&request, module);
}

HloStatus hlo_module_from_stablehlo(const void *data, size_t length, const HloStablehloOptions *options,
                                    HloModule **module) {
    static const HloStablehloOptions none = {0};
    if (!options) options = &none;
    assert(options->size_count >= 0 && (options->sizes || options->size_count == 0));
    ImportRequest request = {
        .bytes = data, .length = length, .is_text = !hlo_looks_like_mlir_bytecode(data, length), .options = *options};
    return import_new_module(&request, module);
}

HloStatus hlo_module_from_stablehlo_sized(const void *data, size_t length, const char *file, const HloInts *sizes,
                                          int64_t count, HloModule **module) {
    const HloStablehloOptions options = {.file = file, .sizes = sizes, .size_count = count};
    return hlo_module_from_stablehlo(data, length, &options, module);
}

bool hlo_looks_like_mlir_bytecode(const void *bytes, size_t length) {
    return length >= MLIR_MAGIC_BYTES && memcmp(bytes, MLIR_MAGIC, MLIR_MAGIC_BYTES) == 0;
}

// Skips white space and comments, including those of HLO.
static const char *skip_blanks(const char *at, const char *end) {
    for (;;) {
        while (at < end && (*at == ' ' || *at == '\t' || *at == '\r' || *at == '\n')) at++;
        if (end - at < 2 || at[0] != '/') return at;
        if (at[1] == '/') {
            while (at < end && *at != '\n' && *at != '\r') at++;
        } else if (at[1] == '*') {
            at += 2;
            while (at < end && !(*at == '*' && end - at > 1 && at[1] == '/')) at++;
            at = end - at < 2 ? end : at + 2;
        } else {
            return at;
        }
    }
}

static const char *skip_word(const char *at, const char *end) {
    while (at < end && (*at == '_' || *at == '.' || *at == '$' || (*at >= '0' && *at <= '9') ||
                        ((*at | 32) >= 'a' && (*at | 32) <= 'z')))
        at++;
    return at;
}

// A name in HLO may have a dot too, but an equals sign, a brace or parameters follow it.
bool hlo_looks_like_mlir_text(const char *text, size_t length) {
    static const char *const dialects[] = {"builtin.", "func.", "stablehlo.", "chlo.", "sdy.", "mhlo."};
    const char *end = text + length, *at = skip_blanks(asm_skip_byte_order_mark(text, length), end);
    if (at == end) return false;
    if (strchr("#!\"", *at)) return true;
    if (*at == '{') return end - at > 2 && at[1] == '-' && at[2] == '#';
    const char *after = skip_word(at, end), *next = skip_blanks(after, end);
    const size_t word = (size_t)(after - at), rest = (size_t)(end - next);
    const bool is_module = (word == 6 && !memcmp(at, "module", 6)) || (word == 14 && !memcmp(at, "builtin.module", 14));
    const bool is_function = word == 4 && !memcmp(at, "func", 4);
    if (is_module && rest && (*next == '@' || *next == '{')) return true;
    if (is_module && rest >= 10 && !memcmp(next, "attributes", 10) && skip_word(next, end) == next + 10) return true;
    if (is_function) return rest && (*next == '@' || skip_word(next, end) > next);
    for (size_t i = 0; i < HLO_COUNT_OF(dialects); i++) {
        const size_t prefix = strlen(dialects[i]);
        if (word > prefix && !memcmp(at, dialects[i], prefix)) return !rest || !strchr("={(", *next);
    }
    return false;
}

// ---------------------------------------------------------------------------------------------------------------------
// Out

typedef struct ExportRequest {
    const HloModule *module;
    HloText *text;
    bool locations, is_generic;
    const char *release;  // of bytecode; NULL for text
    HloModule *scratch;   // of bytecode, which has no chlo: holds the decompositions of its operations
} ExportRequest;

// The MLIR module is in one scratch arena, which is freed once the text is complete.
static HloStatus export_request(void *argument) {
    ExportRequest *request = argument;
    HloArena *arena = hlo_arena_scratch_new();
    MlirOperation *top = NULL;
    HloStatus status = mlir_export_module(request->module, arena, &top);
    if (!status && request->release) status = mlir_make_composites(arena, top, request->release, request->scratch);
    if (!status && request->release) status = mlir_write(arena, top, request->release, request->text);
    if (!status && !request->release) mlir_print(arena, top, request->locations, request->is_generic, request->text);
    hlo_arena_free(arena);
    return status ? status : hlo_text_status(request->text);
}

HloStatus hlo_module_to_stablehlo_text(const HloModule *module, bool locations, HloText *text) {
    ExportRequest request = {.module = module, .text = text, .locations = locations};
    return hlo_protect(export_request, &request);
}

HloStatus hlo_module_to_stablehlo_generic(const HloModule *module, bool locations, HloText *text) {
    ExportRequest request = {.module = module, .text = text, .locations = locations, .is_generic = true};
    return hlo_protect(export_request, &request);
}

HloStatus hlo_module_to_stablehlo_bytecode(const HloModule *module, const char *release, HloText *bytes) {
    ExportRequest request = {.module = module, .text = bytes, .locations = true, .release = release};
    if (!release) request.release = HLO_STABLEHLO_DEFAULT_RELEASE;
    request.scratch = hlo_module_new("composites");
    HLO_FAIL_IF(!request.scratch, HLO_RESOURCE_EXHAUSTED, "out of memory");
    HloStatus status = hlo_protect(export_request, &request);
    hlo_module_free(request.scratch);
    return status;
}
