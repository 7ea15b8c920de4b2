// SPDX-License-Identifier: Apache-2.0
// Any bytes as the words of a command line, one a line, the verb first: options of every verb, and the lists of numbers
// and axes in them (meshes, device assignments). MESHLO_FLAGS comes the same way.
#include "tools/cli.h"
#include "tools/machine.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_WORDS = 64, MOST_NUMBERS = 32 };

typedef struct Line {
    CliContext context;
    char *words[MOST_WORDS];
    int count;
} Line;

static HloStatus read_values(CliContext *context) {
    for (int64_t i = 0; i < context->values.count; i++) {
        const CliValue *value = &context->values.items[i];
        CliMesh mesh;
        int64_t numbers[MOST_NUMBERS], count;
        if (!value->text || value->option->kind != CLI_TEXT) continue;
        hlo_status_free(cli_mesh_parse(context, value->text, &mesh));
        hlo_status_free(cli_numbers_parse(context, value->option->name, value->text, MOST_NUMBERS, numbers, &count));
    }
    return HLO_SUCCESS;
}

static HloStatus parse(void *argument) {
    Line *line = argument;
    HLO_TRY(cli_parse(&line->context, line->count, line->words));
    return read_values(&line->context);
}

// Words are cut at newlines; the verb is chosen by the first byte.
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Line line = {.context = {.arena = hlo_arena_new()}};
    int64_t verbs;
    const CliVerb *const *table = cli_verbs(&verbs);
    if (size == 0 || !line.context.arena) {
        hlo_arena_free(line.context.arena);
        return 0;
    }
    line.context.verb = table[data[0] % verbs];
    for (size_t at = 1; at < size && line.count < MOST_WORDS;) {
        size_t end = at;
        while (end < size && data[end] != '\n') end++;
        line.words[line.count++] = hlo_arena_string(line.context.arena, (const char *)data + at, end - at);
        at = end + 1;
    }
    hlo_status_free(hlo_protect(parse, &line));
    hlo_text_free(&line.context.out);
    hlo_text_free(&line.context.complaint);
    hlo_arena_free(line.context.arena);
    return 0;
}
