// SPDX-License-Identifier: Apache-2.0
// Help and manual pages, made from the option tables.
//
// Help, manual pages (man -l, mandoc) and completion agree because they are made from the same tables; nothing about an
// option is written down twice.
#include <string.h>

#include "tools/cli.h"

static const struct {
    CliExit code;
    const char *text;
} kExits[] = {
    {CLI_EXIT_OK, "success"},
    {CLI_EXIT_CHECK_FAILED, "a comparison or a check failed"},
    {CLI_EXIT_USAGE, "the command line is wrong, or a file cannot be opened or written"},
    {CLI_EXIT_PROGRAM, "a program or a pod description does not parse or verify"},
    {CLI_EXIT_UNSUPPORTED, "something is not supported; the message names it"},
    {CLI_EXIT_OUT_OF_MEMORY, "the program is predicted to run out of device memory"},
    {CLI_EXIT_RUN_TIME, "the run failed: deadlock, bad buffer, NaN trap, out of memory"},
    {CLI_EXIT_BUG, "a bug in Meshlo; please report it"},
};

static const struct {
    const char *name, *text;
} kVariables[] = {
    {"MESHLO_TOPOLOGY", "the slice to use if none is given"},
    {"MESHLO_NUM_THREADS", "number of worker threads (default: one per core)"},
    {"MESHLO_CPU_FEATURES",
     "lowers the instruction set in use: baseline; avx2, avx512, avx512_bf16, amx on x86-64; neon on aarch64"},
    {"MESHLO_BLAS", "linear algebra by openblas, builtin kernels, or auto (the faster one; default)"},
    {"MESHLO_GENERATED_CODE",
     "off: no machine code is generated, for systems that forbid it and to compare (default: on)"},
    {"MESHLO_NUMERICS", "exact or tpu, if --numerics is not given"},
    {"MESHLO_FLAGS", "options to insert before those of the command line"},
    {"MESHLO_HOST_MEMORY", "bytes of this host that run may use (KiB, MiB, GiB; default: what is free)"},
    {"MESHLO_LOG", "1 prints what is done, with times, to stderr"},
    {"NO_COLOR", "no colour and no progress messages"},
};

void cli_print_help(HloText *text) {
    int64_t count;
    const CliVerb *const *verbs = cli_verbs(&count);
    hlo_text_string(
        text,
        "usage: meshlo VERB [options] FILE\n\nAn HLO compiler: partitions programs for a mesh, runs them on virtual "
        "devices, times them on TPU slices.\n\n");
    for (int64_t i = 0; i < count; ++i) hlo_text_format(text, "  %-10s  %s\n", verbs[i]->name, verbs[i]->summary);
    hlo_text_string(
        text,
        "\nmeshlo VERB --help describes a verb, with examples. FILE may be - for standard input, and may be compressed "
        "(xz, gzip, zstd).\n\nExit codes:\n");
    for (size_t i = 0; i < HLO_COUNT_OF(kExits); ++i)
        hlo_text_format(text, "  %2d  %s\n", kExits[i].code, kExits[i].text);
    hlo_text_string(text, "\nEnvironment:\n");
    for (size_t i = 0; i < HLO_COUNT_OF(kVariables); ++i) {
        hlo_text_format(text, "  %-19s  %s\n", kVariables[i].name, kVariables[i].text);
    }
}

static void print_option_name(HloText *text, const CliOption *option) {
    hlo_text_format(text, "%s%s", option->name[1] ? "--" : "-", option->name);
    if (option->value) hlo_text_format(text, " %s", option->value);
}

// Prints one option: its name in a column, its help beside it, or below when the name is long. Columns are counted in
// bytes: names of options and values are ASCII except for an ellipsis, which shifts its help by two columns.
static void print_option(HloText *text, const CliOption *option) {
    size_t start = text->length;
    hlo_text_string(text, "  ");
    print_option_name(text, option);
    size_t width = text->length - start;
    if (width > 24) {
        hlo_text_char(text, '\n');
        width = 0;
    }
    for (; width < 26; ++width) hlo_text_char(text, ' ');
    hlo_text_format(text, "%s\n", option->help);
}

// Calls print(text, option) for each option of a verb.
static void each_option(HloText *text, const CliVerb *verb, void (*print)(HloText *text, const CliOption *option)) {
    for (int t = 0; t < CLI_MAX_TABLES && verb->tables[t]; ++t) {
        for (int64_t i = 0; i < verb->tables[t]->count; ++i) print(text, &verb->tables[t]->options[i]);
    }
}

// Calls for each line of `lines` that prefix, the line, and a line break are appended.
static void print_lines(HloText *text, const char *lines, const char *prefix, const char *suffix) {
    while (*lines) {
        size_t length = strcspn(lines, "\n");
        hlo_text_string(text, prefix);
        hlo_text_append(text, lines, length);
        hlo_text_string(text, suffix);
        lines += length + (lines[length] == '\n');
    }
}

void cli_print_verb_help(HloText *text, const CliVerb *verb) {
    hlo_text_format(text, "usage: meshlo %s [options] %s\n\n%s\n", verb->name, verb->arguments, verb->summary);
    if (verb->description) hlo_text_format(text, "\n%s\n", verb->description);
    if (verb->tables[0]) {
        hlo_text_string(text, "\nOptions:\n");
        each_option(text, verb, print_option);
    }
    hlo_text_string(text, "\nExamples:\n");
    print_lines(text, verb->examples, "  ", "\n");
}

// Text in which roff must not find commands.
// A backslash, a hyphen that must stay one, and a dot or quote at the beginning of a line mean something to roff
// (groff_char(7), groff(7)).
static void print_roff(HloText *text, const char *plain) {
    for (const char *p = plain; *p; ++p) {
        if (*p == '\\')
            hlo_text_string(text, "\\e");
        else if (*p == '-')
            hlo_text_string(text, "\\-");
        else if ((*p == '.' || *p == '\'') && (p == plain || p[-1] == '\n'))
            hlo_text_format(text, "\\&%c", *p);
        else
            hlo_text_char(text, *p);
    }
}

// The command's own page is its help, unfilled (.nf): it is laid out in columns already.
void cli_print_overview(HloText *text) {
    HloText help = {0};
    cli_print_help(&help);
    hlo_text_string(text, ".TH MESHLO 1\n.SH NAME\nmeshlo \\- an HLO compiler\n.SH DESCRIPTION\n.nf\n");
    print_roff(text, help.data ? help.data : "");
    hlo_text_string(text, ".fi\n");
    hlo_text_free(&help);
}

static void print_roff_option(HloText *text, const CliOption *option) {
    HloText name = {0};
    print_option_name(&name, option);
    hlo_text_string(text, ".TP\n.B ");
    print_roff(text, name.data ? name.data : "");
    hlo_text_char(text, '\n');
    print_roff(text, option->help);
    hlo_text_char(text, '\n');
    hlo_text_free(&name);
}

// Prints a page of man(7) for one verb from the same tables as --help, so that the two cannot disagree. print_roff()
// escapes roff's own characters.
void cli_print_manual(HloText *text, const CliVerb *verb) {
    hlo_text_format(text, ".TH MESHLO\\-%s 1\n.SH NAME\nmeshlo\\-%s \\- ", verb->name, verb->name);
    print_roff(text, verb->summary);
    hlo_text_format(text, "\n.SH SYNOPSIS\n.B meshlo %s\n[options] %s\n", verb->name, verb->arguments);
    if (verb->description) {
        hlo_text_string(text, ".SH DESCRIPTION\n");
        print_roff(text, verb->description);
        hlo_text_char(text, '\n');
    }
    if (verb->tables[0]) {
        hlo_text_string(text, ".SH OPTIONS\n");
        each_option(text, verb, print_roff_option);
    }
    hlo_text_string(text, ".SH EXAMPLES\n.nf\n");
    print_roff(text, verb->examples);
    hlo_text_string(text, "\n.fi\n.SH EXIT STATUS\n");
    for (size_t i = 0; i < HLO_COUNT_OF(kExits); ++i) {
        hlo_text_format(text, ".TP\n.B %d\n", kExits[i].code);
        print_roff(text, kExits[i].text);
        hlo_text_char(text, '\n');
    }
    hlo_text_string(text, ".SH ENVIRONMENT\n");
    for (size_t i = 0; i < HLO_COUNT_OF(kVariables); ++i) {
        hlo_text_format(text, ".TP\n.B %s\n", kVariables[i].name);
        print_roff(text, kVariables[i].text);
        hlo_text_char(text, '\n');
    }
}
