// SPDX-License-Identifier: Apache-2.0
// Programs as files: determines the format of one and reads it into a verified module. A file is first decompressed
// (xz, gzip or zstd, by magic number), then recognised by its content, since names are unreliable, and read by the
// front end of its format.
#include "tools/program.h"

#include <assert.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "hlo/base/file.h"
#include "hlo/proto/proto.h"
#include "hlo/stablehlo/stablehlo.h"
#include "hlo/text/text.h"
#include "hlo/transform/transform.h"
#include "hlo/verify/verify.h"
#include "tools/machine.h"

// The most that a compressed program may expand to.
#define MAX_PROGRAM_BYTES ((size_t)4 << 30)

const char *cli_format_name(CliFormat format) {
    static const char *const kNames[] = {"HLO text", "HloModuleProto", "StableHLO text", "StableHLO bytecode"};
    return kNames[format];
}

// Looks at the content, as names are unreliable: magic numbers first, then the first words of the text. HLO text is the
// default, so that its parser gives the error for text that is neither.
CliFormat cli_format_detect(const char *data, size_t size) {
    if (hlo_looks_like_mlir_bytecode(data, size)) return CLI_FORMAT_BYTECODE;
    if (hlo_looks_like_proto(data, size)) return CLI_FORMAT_HLO_PROTO;
    return hlo_looks_like_mlir_text(data, size) ? CLI_FORMAT_STABLEHLO_TEXT : CLI_FORMAT_HLO_TEXT;
}

static const CliOption kProgramOptions[] = {
    {"sizes", CLI_LIST, "p0=8,6",
     "For StableHLO: the sizes of an argument (p0 or 0) whose type has dynamic dimensions (tensor<?x6xf32>, as from "
     "jax.export)."},
};
const CliOptionTable cli_program_options = CLI_TABLE(kProgramOptions);

// More arguments than any program has, and more dimensions than any array.
enum { MOST_ARGUMENTS = 1 << 16, MOST_DIMENSIONS = 64 };

// Parses one p0=8,6 into its entry of the list.
static HloStatus read_sizes(CliContext *context, const char *option, HloInts *sizes, int64_t *count) {
    const char *digits = option + (option[0] == 'p'), *equals = strchr(option, '=');
    const size_t length = strspn(digits, "0123456789");
    if (!equals || length == 0 || length > 5 || digits + length != equals)
        return cli_usage_error(context, "--sizes expects p0=8,6, not '%s'", option);
    const int64_t index = strtoll(digits, NULL, 10);
    if (index >= MOST_ARGUMENTS) return cli_usage_error(context, "--sizes %s: argument number too large", option);
    if (sizes[index].items)
        return cli_usage_error(context, "--sizes %s: the sizes of argument %lld are given twice", option,
                               (long long)index);
    int64_t *numbers = HLO_ARENA_NEW(context->arena, int64_t, MOST_DIMENSIONS);
    HLO_TRY(cli_numbers_parse(context, "sizes", equals + 1, MOST_DIMENSIONS, numbers, &sizes[index].count));
    sizes[index].items = numbers;
    if (index >= *count) *count = index + 1;
    return HLO_SUCCESS;
}

// Reads StableHLO in either form; what is skipped is reported when the verb is done.
static HloStatus decode_stablehlo(CliContext *context, const char *name, const HloFileContent *content,
                                  const HloInts *sizes, int64_t count, HloModule **module) {
    const HloStablehloOptions options = {
        .file = name, .sizes = sizes, .size_count = count, .notes = &context->complaint};
    HloStatus status = hlo_module_from_stablehlo(content->data, content->size, &options, module);
    const bool has_lines = cli_format_detect(content->data, content->size) == CLI_FORMAT_STABLEHLO_TEXT;
    return has_lines ? status : hlo_status_annotate(status, "%s", name);
}

// With --sizes: only StableHLO has sizes that are open.
static HloStatus decode_sized(CliContext *context, const char *name, const HloFileContent *content,
                              HloModule **module) {
    const HloStringVector options = cli_list(context, "sizes");
    const CliFormat format = cli_format_detect(content->data, content->size);
    HloInts *sizes = HLO_ARENA_NEW(context->arena, HloInts, MOST_ARGUMENTS);
    int64_t count = 0;
    if (format != CLI_FORMAT_STABLEHLO_TEXT && format != CLI_FORMAT_BYTECODE)
        return cli_usage_error(context, "--sizes: %s is %s, which has no dynamic sizes", name, cli_format_name(format));
    for (int64_t i = 0; i < options.count; ++i) HLO_TRY(read_sizes(context, options.items[i], sizes, &count));
    return decode_stablehlo(context, name, content, sizes, count, module);
}

// Binary formats have no lines: their errors get the file's name in front.
static HloStatus decode_program(CliContext *context, const char *name, const HloFileContent *content,
                                HloModule **module) {
    HloParseOptions options = {.file = name};
    if (cli_flag(context, "sizes")) return decode_sized(context, name, content, module);
    CliFormat format = cli_format_detect(content->data, content->size);
    switch (format) {
        case CLI_FORMAT_HLO_TEXT: return hlo_parse(content->data, content->size, &options, module);
        case CLI_FORMAT_HLO_PROTO:
            return hlo_status_annotate(hlo_module_from_proto(content->data, content->size, module), "%s", name);
        case CLI_FORMAT_BYTECODE:
        case CLI_FORMAT_STABLEHLO_TEXT: break;
    }
    return decode_stablehlo(context, name, content, NULL, 0, module);
}

// A program is verified immediately, whatever its format: every later step relies on that.
static HloStatus parse_program(CliContext *context, const char *name, const HloFileContent *content,
                               HloModule **module) {
    HLO_TRY(decode_program(context, name, content, module));
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

// The first device that a list of replica groups names beyond those that it would need, or -1.
static int64_t device_beyond(const HloInstruction *instruction) {
    if (hlo_op_info(instruction->opcode)->family != HLO_FAMILY_Collective) return -1;
    const HloReplicaGroups *groups = HLO_ATTRIBUTES(instruction, Collective)->replica_groups;
    if (!groups || groups->form != HLO_GROUPS_LIST) return -1;
    int64_t named = 0;
    for (int64_t i = 0; i < groups->count; ++i) named += groups->groups[i].count;
    for (int64_t i = 0; i < groups->count; ++i) {
        for (int64_t j = 0; j < groups->groups[i].count; ++j) {
            if (groups->groups[i].items[j] >= named) return groups->groups[i].items[j];
        }
    }
    return -1;
}

// A module without counts has one device; groups that name others are legal, but hardly meant.
static void warn_of_groups(CliContext *context, const HloModule *module) {
    if (module->replica_count != 1 || module->num_partitions != 1) return;
    for (int64_t c = 0; c < module->computations.count; ++c) {
        for (const HloInstruction *at = module->computations.items[c]->first; at; at = at->next) {
            const int64_t device = device_beyond(at);
            if (device < 0) continue;
            hlo_text_format(&context->complaint,
                            "warning: the replica groups of %s name device %lld, but the module has neither "
                            "replica_count nor num_partitions\n",
                            at->name, (long long)device);
            return;
        }
    }
}

// Whether there is nothing but blanks.
static bool is_empty(const HloFileContent *content) {
    const char *text = content->data;
    size_t at = 0;
    while (at < content->size && strchr(" \t\r\n", text[at]) && text[at]) ++at;
    return at == content->size;
}

// A parser would expect the first word of some format, which is not what the user needs to know.
static HloStatus empty_program(CliContext *context, const char *path, HloFileContent *content) {
    hlo_file_content_free(content);
    if (strcmp(path, "-") == 0) return hlo_error(HLO_INVALID_ARGUMENT, "standard input is empty");
    return hlo_error(HLO_INVALID_ARGUMENT, "%s is empty", cli_printable(context, path));
}

// ---- folders

// A file in a folder that is a program by its name.
typedef struct FolderFile {
    const char *name;
    off_t size;
    bool before_optimizations;  // a dump of XLA from before its passes
} FolderFile;

typedef HLO_VECTOR(FolderFile) FolderFiles;

static bool is_folder(const char *path) {
    struct stat info;
    return strcmp(path, "-") != 0 && stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

// Programs from before XLA's passes come first, since they are what Meshlo compiles; then the larger, since JAX dumps
// many programs of a few operations beside a step.
static int compare_files(const void *left, const void *right) {
    const FolderFile *a = left, *b = right;
    if (a->before_optimizations != b->before_optimizations) return a->before_optimizations ? -1 : 1;
    if (a->size != b->size) return a->size > b->size ? -1 : 1;
    return strcmp(a->name, b->name);
}

// Collects the files in a folder whose names are those of programs. A folder that cannot be listed seems empty.
static void list_programs(CliContext *context, const char *path, FolderFiles *files) {
    static const char *const kMarks[] = {"before_optimizations", ".hlo", ".mlir", ".stablehlo"};
    DIR *folder = opendir(path);
    if (!folder) return;
    for (const struct dirent *entry; (entry = readdir(folder));) {
        bool marked = false;
        for (size_t m = 0; m < HLO_COUNT_OF(kMarks); ++m) marked |= strstr(entry->d_name, kMarks[m]) != NULL;
        struct stat info;
        if (!marked || fstatat(dirfd(folder), entry->d_name, &info, 0) != 0 || !S_ISREG(info.st_mode)) continue;
        const FolderFile file = {hlo_arena_text(context->arena, entry->d_name), info.st_size,
                                 strstr(entry->d_name, kMarks[0]) != NULL};
        hlo_vector_push(context->arena, files, file);
    }
    closedir(folder);
}

// Names up to three programs in a folder that was given for one.
static HloStatus folder_error(CliContext *context, const char *path) {
    enum { MOST_NAMES = 3 };
    FolderFiles files = {0};
    list_programs(context, path, &files);
    if (files.count == 0)
        return cli_usage_error(context,
                               "%s is a folder, not a program, and has no file *before_optimizations*, *.hlo* "
                               "or *.mlir*",
                               path);
    qsort(files.items, (size_t)files.count, sizeof *files.items, compare_files);
    const char *slash = path[strlen(path) - 1] == '/' ? "" : "/";
    const int64_t named = files.count < MOST_NAMES ? files.count : MOST_NAMES;
    HloText names = {0};
    for (int64_t i = 0; i < named; ++i) {
        const char *separator = i == 0 ? "" : i == files.count - 1 ? " or " : ", ";
        hlo_text_format(&names, "%s%s%s%s", separator, path, slash, files.items[i].name);
    }
    if (named < files.count) hlo_text_format(&names, " or one of %lld more", (long long)(files.count - named));
    return cli_usage_error(context, "%s is a folder, not a program; did you mean %s?", path,
                           hlo_text_to_arena(context->arena, &names));
}

// ---- loading

// The text of an HLO program stays in the context, because errors of later steps name instructions, and cli.c looks up
// their positions in it. hlo_file_read() expands compressed files, up to MAX_PROGRAM_BYTES.
HloStatus cli_program_load(CliContext *context, const char *path, HloModule **module) {
    assert(path && module);
    HloFileContent content;
    cli_progress(context, "reading");
    context->stage = CLI_STAGE_PROGRAM;
    if (is_folder(path)) return folder_error(context, path);
    HLO_TRY(hlo_file_read(path, MAX_PROGRAM_BYTES, &content));
    if (is_empty(&content)) return empty_program(context, path, &content);
    const char *name = strcmp(path, "-") == 0 ? "<stdin>" : cli_printable(context, path);
    HloStatus status = parse_program(context, name, &content, module);
    if (!status) warn_of_groups(context, *module);
    if (status || cli_format_detect(content.data, content.size) != CLI_FORMAT_HLO_TEXT) {
        hlo_file_content_free(&content);
        if (!status && strcmp(path, "-") != 0) context->other_path = path;
        return status;
    }
    context->other_path = NULL;
    hlo_file_content_free(&context->source);
    context->source_name = name;
    context->source = content;  // for errors found in the program later
    return HLO_SUCCESS;
}

HloStatus cli_program_place(CliContext *context, HloStatus status) {
    const char *name = hlo_arena_format(context->arena, "%s, as HLO", cli_printable(context, context->other_path));
    const HloParseOptions place = {.file = name};
    const HloPrintOptions options = hlo_print_default();
    HloFileContent content;
    HloModule *module = NULL;
    HloText text = {0};
    HloStatus again = hlo_file_read(context->other_path, MAX_PROGRAM_BYTES, &content);
    if (!again) {
        again = decode_program(context, name, &content, &module);
        hlo_file_content_free(&content);
    }
    if (!again) again = hlo_print(module, &options, &text);
    if (!again && !text.failed) status = hlo_status_place_in_text(status, text.data, text.length, &place);
    hlo_status_free(again);
    hlo_text_free(&text);
    hlo_module_free(module);
    return status;
}

HloStatus cli_write_file(CliContext *context, const char *path, const HloText *text) {
    assert(path && text);
    cli_progress(context, "");
    HLO_TRY(hlo_text_status(text));
    return hlo_file_write(path, text->data, text->length);
}

// Output for stdout is only collected here: cli.c writes it when the verb has succeeded. Files are written to a
// temporary name and renamed.
HloStatus cli_write_output(CliContext *context, const HloText *text) {
    const char *path = cli_text_or(context, "o", "-");
    HLO_TRY(hlo_text_status(text));
    if (strcmp(path, "-") != 0) return cli_write_file(context, path, text);
    hlo_text_append(&context->out, text->data, text->length);
    return HLO_SUCCESS;
}

HloStatus cli_write_program(CliContext *context, HloModule *module) {
    HloPrintOptions options = hlo_print_default();
    HloText text = {0};
    hlo_order_as_printed(module);
    hlo_module_renumber_frames(module);
    options.print_large_constants = true;
    HloStatus status = hlo_print(module, &options, &text);
    if (!status) status = cli_write_output(context, &text);
    hlo_text_free(&text);
    return status;
}

HloStatus cli_write_transformed(CliContext *context, HloModule *module, HloComputation *entry) {
    hlo_make_entry(module, entry);
    return cli_write_entry(context, module);
}

HloStatus cli_write_entry(CliContext *context, HloModule *module) {
    hlo_module_remove_unreachable(module);
    HLO_TRY(hlo_verify(module));
    return cli_write_program(context, module);
}
