// SPDX-License-Identifier: Apache-2.0
// The command's frame: finds the verb, parses, runs, writes results to stdout and errors to stderr, chooses the exit
// code. A verb only fills `out` and returns a status.
//
// main() calls cli_main(), which finds the verb; run_verb() makes the context and calls the verb under hlo_protect(),
// so that lack of memory anywhere is an error with an exit code; then results, complaints and the exit code are handled
// in one place. Streams are written with write(2): stdio would hide errors until the process ends.
#include "tools/cli.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "hlo/base/clock.h"
#include "hlo/base/printable.h"
#include "hlo/text/text.h"
#include "tools/program.h"
#include "tools/terminal.h"

#define CLI_VERB(name) extern const CliVerb cli_verb_##name;
#include "tools/verbs.def"
#undef CLI_VERB

static const CliVerb *const kVerbs[] = {
#define CLI_VERB(name) &cli_verb_##name,
#include "tools/verbs.def"
#undef CLI_VERB
};

const CliVerb *const *cli_verbs(int64_t *count) {
    *count = (int64_t)HLO_COUNT_OF(kVerbs);
    return kVerbs;
}

const CliVerb *cli_find_verb(const char *name) {
    for (size_t i = 0; i < HLO_COUNT_OF(kVerbs); ++i) {
        if (strcmp(kVerbs[i]->name, name) == 0) return kVerbs[i];
    }
    return NULL;
}

// clang-format off
static const struct {
    HloCode code;
    CliExit exits[CLI_STAGE_COUNT];  // usage, program, compile, run
} kExitCodes[] = {
    {HLO_OK,                  {CLI_EXIT_OK,          CLI_EXIT_OK,          CLI_EXIT_OK,            CLI_EXIT_OK}},
    {HLO_INVALID_ARGUMENT,    {CLI_EXIT_USAGE,       CLI_EXIT_PROGRAM,     CLI_EXIT_RUN_TIME,      CLI_EXIT_RUN_TIME}},
    {HLO_NOT_FOUND,           {CLI_EXIT_USAGE,       CLI_EXIT_USAGE,       CLI_EXIT_USAGE,         CLI_EXIT_USAGE}},
    {HLO_PERMISSION_DENIED,   {CLI_EXIT_USAGE,       CLI_EXIT_USAGE,       CLI_EXIT_USAGE,         CLI_EXIT_USAGE}},
    {HLO_ALREADY_EXISTS,      {CLI_EXIT_USAGE,       CLI_EXIT_USAGE,       CLI_EXIT_USAGE,         CLI_EXIT_USAGE}},
    {HLO_UNKNOWN,             {CLI_EXIT_USAGE,       CLI_EXIT_USAGE,       CLI_EXIT_RUN_TIME,      CLI_EXIT_RUN_TIME}},
    {HLO_OUT_OF_RANGE,        {CLI_EXIT_USAGE,       CLI_EXIT_PROGRAM,     CLI_EXIT_RUN_TIME,      CLI_EXIT_RUN_TIME}},
    {HLO_FAILED_PRECONDITION, {CLI_EXIT_USAGE,       CLI_EXIT_PROGRAM,     CLI_EXIT_RUN_TIME,      CLI_EXIT_RUN_TIME}},
    {HLO_DATA_LOSS,           {CLI_EXIT_USAGE,       CLI_EXIT_PROGRAM,     CLI_EXIT_RUN_TIME,      CLI_EXIT_RUN_TIME}},
    {HLO_UNIMPLEMENTED,       {CLI_EXIT_UNSUPPORTED, CLI_EXIT_UNSUPPORTED, CLI_EXIT_UNSUPPORTED,   CLI_EXIT_UNSUPPORTED}},
    {HLO_RESOURCE_EXHAUSTED,  {CLI_EXIT_RUN_TIME,    CLI_EXIT_RUN_TIME,    CLI_EXIT_OUT_OF_MEMORY, CLI_EXIT_RUN_TIME}},
    {HLO_ABORTED,             {CLI_EXIT_RUN_TIME,    CLI_EXIT_RUN_TIME,    CLI_EXIT_RUN_TIME,      CLI_EXIT_RUN_TIME}},
    {HLO_CANCELLED,           {CLI_EXIT_RUN_TIME,    CLI_EXIT_RUN_TIME,    CLI_EXIT_RUN_TIME,      CLI_EXIT_RUN_TIME}},
    {HLO_DEADLINE_EXCEEDED,   {CLI_EXIT_RUN_TIME,    CLI_EXIT_RUN_TIME,    CLI_EXIT_RUN_TIME,      CLI_EXIT_RUN_TIME}},
    {HLO_UNAVAILABLE,         {CLI_EXIT_RUN_TIME,    CLI_EXIT_RUN_TIME,    CLI_EXIT_RUN_TIME,      CLI_EXIT_RUN_TIME}},
    {HLO_UNAUTHENTICATED,     {CLI_EXIT_USAGE,       CLI_EXIT_USAGE,       CLI_EXIT_USAGE,         CLI_EXIT_USAGE}},
    {HLO_INTERNAL,            {CLI_EXIT_BUG,         CLI_EXIT_BUG,         CLI_EXIT_BUG,           CLI_EXIT_BUG}},
};
// clang-format on

// The same code means different exits by stage. An invalid argument is wrong usage before the program is read; a wrong
// program while it is read and rewritten; and a failure at run time after that, since what is verified and still
// refused by the compiler would fail while running. Memory that the compiler finds too small is a prediction. Codes
// without a row are bugs of ours, since every code of status.def has one; tests/tools/test_cli.c holds the table to it.
CliExit cli_exit_code(HloCode code, CliStage stage) {
    for (size_t i = 0; i < HLO_COUNT_OF(kExitCodes); ++i) {
        if (kExitCodes[i].code == code) return kExitCodes[i].exits[stage];
    }
    return CLI_EXIT_BUG;
}

// Sets the stage too: a verb may detect wrong usage late, when it has read the program.
HloStatus cli_usage_error(CliContext *context, const char *format, ...) {
    va_list arguments;
    HloText message = {0};
    va_start(arguments, format);
    hlo_text_format_list(&message, format, arguments);
    va_end(arguments);
    HloText line = {0};  // what the user wrote may have newlines, the message is one line
    hlo_text_printable(&line, message.data, message.length, false);
    HloStatus status = hlo_error(HLO_INVALID_ARGUMENT, "%s", line.data ? line.data : "wrong usage");
    hlo_text_free(&line);
    hlo_text_free(&message);
    context->stage = CLI_STAGE_USAGE;
    return status;
}

// For findings, which are not errors: a check that fails reports what it found and still prints its results. Complaints
// accumulate; the exit code is that of the last one.
HloStatus cli_fail(CliContext *context, CliExit exit_code, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    hlo_text_format_list(&context->complaint, format, arguments);
    va_end(arguments);
    hlo_text_char(&context->complaint, '\n');
    context->exit_code = exit_code;
    return HLO_SUCCESS;
}

const char *cli_printable(CliContext *context, const char *text) {
    HloText printable = {0};
    hlo_text_printable(&printable, text, strlen(text), false);
    return hlo_text_to_arena(context->arena, &printable);
}

double cli_seconds(void) {
    return 1e-9 * (double)hlo_clock_nanoseconds();
}

// To the terminal only, on one line that is written over; with MESHLO_LOG a line a step instead, for logs. Both on
// stderr: stdout belongs to the results.
void cli_progress(const CliContext *context, const char *what) {
    if (context->log && *what) fprintf(stderr, "meshlo: %8.3f ms  %s\n", (cli_seconds() - context->start) * 1e3, what);
    if (!context->progress || context->log) return;
    fprintf(stderr, "\r\033[K%s%s", what, *what ? " …" : "");
    fflush(stderr);
}

void cli_progress_share(CliContext *context, const char *what, double share) {
    const double now = cli_seconds();
    if (!context->under_way || strcmp(context->under_way, what) != 0) {
        context->under_way = hlo_arena_text(context->arena, what);
        context->under_way_since = now;
        cli_progress(context, what);
    } else if (context->progress && !context->log && share > 0 && share <= 1 && now - context->shown >= 0.1) {
        const double left = (now - context->under_way_since) * (1 - share) / share;
        fprintf(stderr, "\r\033[K%s, %.0f %%, %.0f s left …", what, 100 * share, left);
        fflush(stderr);
        context->shown = now;
    }
}

// One line each interval. Small shares say little about the time that is left.
static void *tick(void *argument) {
    static const long kInterval = 200000000, kSecond = 1000000000;
    static const double kLeastShare = 0.01;
    CliContext *context = argument;
    CliTicker *ticker = &context->ticker;
    pthread_mutex_lock(&ticker->lock);
    while (!ticker->ended) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += kInterval;
        until.tv_sec += until.tv_nsec / kSecond;
        until.tv_nsec %= kSecond;
        if (pthread_cond_timedwait(&ticker->changed, &ticker->lock, &until) != ETIMEDOUT) continue;
        const double share = atomic_load(&ticker->share), passed = cli_seconds() - context->under_way_since;
        if (share >= kLeastShare)
            cli_progress_share(context, context->under_way, share);
        else
            fprintf(stderr, "\r\033[K%s, %.0f s …", context->under_way, passed);
    }
    pthread_mutex_unlock(&ticker->lock);
    return NULL;
}

void cli_ticker_start(CliContext *context, const char *what) {
    CliTicker *ticker = &context->ticker;
    assert(!ticker->runs);
    context->under_way = NULL;
    cli_progress_share(context, what, 0);
    atomic_store(&ticker->share, 0);
    ticker->ended = false;
    if (!context->progress || context->log) return;
    pthread_mutex_init(&ticker->lock, NULL);
    pthread_cond_init(&ticker->changed, NULL);
    ticker->runs = pthread_create(&ticker->thread, NULL, tick, context) == 0;
}

void cli_ticker_report(void *context, double share) {
    atomic_store(&((CliContext *)context)->ticker.share, share);
}

void cli_ticker_stop(CliContext *context) {
    CliTicker *ticker = &context->ticker;
    if (!ticker->runs) return;
    pthread_mutex_lock(&ticker->lock);
    ticker->ended = true;
    pthread_cond_signal(&ticker->changed);
    pthread_mutex_unlock(&ticker->lock);
    pthread_join(ticker->thread, NULL);
    pthread_cond_destroy(&ticker->changed);
    pthread_mutex_destroy(&ticker->lock);
    ticker->runs = false;
}

void cli_note(CliContext *context, const char *text) {
    if (context->log)
        fprintf(stderr, "meshlo: %8.3f ms  %s\n", (cli_seconds() - context->start) * 1e3, text);
    else if (context->progress)
        fprintf(stderr, "\r\033[K%s\n", text);
    else
        hlo_text_format(&context->complaint, "note: %s\n", text);
}

// Writes to a standard stream. A reader that has gone (a pipe to head) is not an error, as for other commands; SIGPIPE
// is ignored so that write() reports it. Returns false for any other failure.
static bool write_stream(int descriptor, const char *data, size_t length) {
    while (length > 0) {
        ssize_t written = write(descriptor, data, length);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return errno == EPIPE;
        data += written;
        length -= (size_t)written;
    }
    return true;
}

// Writes text to a standard stream, with what a terminal gets beside it. `breaks`: lines may be broken.
static bool write_text(int descriptor, bool breaks, bool help, const char *data, size_t length) {
    CliTerminal terminal = cli_terminal_open(descriptor);
    if (!breaks) terminal.width = 0;
    if (!terminal.colours && !terminal.width) return write_stream(descriptor, data, length);
    HloText text = {0};
    cli_terminal_text(&terminal, help, data, length, &text);
    const bool good = text.failed ? write_stream(descriptor, data, length)  // without memory: plain
                                  : write_stream(descriptor, text.data, text.length);
    hlo_text_free(&text);
    return good;
}

// Writes the verb's results.
static bool write_results(const CliContext *context) {
    const HloText *out = &context->out;
    const bool json = !context->is_help && cli_has_option(context->verb, "json") && cli_flag(context, "json");
    if (json || (!context->verb->is_table && !context->is_help))
        return write_stream(STDOUT_FILENO, out->data, out->length);
    return write_text(STDOUT_FILENO, true, context->is_help, out->data, out->length);
}

// Reports that write_stream() failed; returns the exit code, that of a file which cannot be written for the same
// reason.
static int stdout_failed(void) {
    const bool full = errno == ENOSPC || errno == EDQUOT || errno == EFBIG;
    fprintf(stderr, "error: cannot write to standard output: %s\n", strerror(errno));
    return full ? CLI_EXIT_RUN_TIME : CLI_EXIT_USAGE;
}

// Prints the message of a status and returns its exit code. Takes ownership. Errors that name an instruction but have
// no position in the text get one here: the program's text is still in the context, and docs/cli.md promises
// FILE:LINE:COL with the line and a caret.
static int report_status(CliContext *context, HloStatus status) {
    const HloPlace *place = hlo_status_place(status);
    if (place && place->instruction && !place->line_text && context->source.data) {
        HloParseOptions options = {.file = context->source_name};
        status = hlo_status_place_in_text(status, context->source.data, context->source.size, &options);
    } else if (place && place->instruction && !place->line_text && context->other_path) {
        status = cli_program_place(context, status);
    }
    char *message = hlo_status_to_text(status);
    const char *shown = message ? message : "error: out of memory\n";
    fflush(stderr);
    write_text(STDERR_FILENO, false, false, shown, strlen(shown));
    int exit_code = cli_exit_code(hlo_status_code(status), context->stage);
    if (exit_code == CLI_EXIT_USAGE && context->environment_count)
        fprintf(stderr, "note: MESHLO_FLAGS inserts options before those of the command line: %s\n",
                cli_printable(context, getenv("MESHLO_FLAGS")));
    if (exit_code == CLI_EXIT_BUG) fputs("This is a bug in Meshlo; please report it with the program.\n", stderr);
    hlo_free(message);
    hlo_status_free(status);
    return exit_code;
}

typedef struct RunCall {
    CliContext *context;
    int argument_count;
    char **arguments;
} RunCall;

// The words of MESHLO_FLAGS come before those of the command line.
static void add_environment_flags(RunCall *call) {
    const char *flags = getenv("MESHLO_FLAGS");
    HloArena *arena = call->context->arena;
    HLO_VECTOR(char *) all = {0};
    while (flags && *flags) {
        flags += strspn(flags, " \t\n");
        size_t length = strcspn(flags, " \t\n");
        if (length) hlo_vector_push(arena, &all, hlo_arena_string(arena, flags, length));
        flags += length;
    }
    call->context->environment_count = (int)all.count;
    for (int i = 0; i < call->argument_count; ++i) hlo_vector_push(arena, &all, call->arguments[i]);
    call->arguments = all.items;
    call->argument_count = (int)all.count;
}

// A request for help anywhere before `--` is answered before the rest is parsed, which may well be wrong. `--help=man`
// is how the build makes the manual pages.
static HloStatus parse_and_run(void *argument) {
    RunCall *call = argument;
    CliContext *context = call->context;
    add_environment_flags(call);
    for (int i = 0; i < call->argument_count && strcmp(call->arguments[i], "--") != 0; ++i) {
        bool manual = strcmp(call->arguments[i], "--help=man") == 0;
        if (manual) cli_print_manual(&context->out, context->verb);
        if (strcmp(call->arguments[i], "--help") == 0 || strcmp(call->arguments[i], "-h") == 0) {
            cli_print_verb_help(&context->out, context->verb);
            context->is_help = true;
            manual = true;
        }
        if (manual) return HLO_SUCCESS;
    }
    HLO_TRY(cli_parse(context, call->argument_count, call->arguments));
    return context->verb->run(context);
}

// Names in it are the program's, and those of files the user's.
static void print_complaint(const HloText *complaint) {
    HloText text = {0};
    hlo_text_printable(&text, complaint->data, complaint->length, true);
    if (text.length) write_text(STDERR_FILENO, true, false, text.data, text.length);
    hlo_text_free(&text);
}

// Texts have no control characters but those of lines and colours; bytecode, protobufs and arrays do.
static bool is_binary(const HloText *text) {
    for (size_t i = 0; i < text->length; ++i) {
        const unsigned char c = (unsigned char)text->data[i];
        if (c < 0x20 && !memchr("\t\n\r\x1b", c, 4)) return true;
    }
    return false;
}

// Results are written after the verb has succeeded, in one go, so that a failing verb leaves no partial output.
static int run_verb(const CliVerb *verb, int argument_count, char **arguments) {
    CliContext context = {.verb = verb, .arena = hlo_arena_new()};
    if (!context.arena) {
        fputs("error: out of memory\n", stderr);
        return CLI_EXIT_RUN_TIME;
    }
    const char *log = getenv("MESHLO_LOG");
    context.log = log && *log && strcmp(log, "0") != 0;
    context.start = cli_seconds();
    context.progress =
        cli_terminal_open(STDERR_FILENO).colours;  // lines that are written over need such a terminal too
    RunCall call = {&context, argument_count, arguments};
    HloStatus status = hlo_protect(parse_and_run, &call);
    cli_ticker_stop(&context);  // lack of memory ends a verb anywhere
    cli_progress(&context, "");
    if (!status) status = hlo_text_status(&context.out);
    int exit_code = context.exit_code;
    if (!status && isatty(STDOUT_FILENO) && is_binary(&context.out))
        status = cli_usage_error(&context,
                                 "the output is binary and would garble the terminal: -o FILE writes it to a file");
    if (status) {
        exit_code = report_status(&context, status);
    } else if (!write_results(&context)) {
        exit_code = stdout_failed();
    }
    if (context.complaint.length) print_complaint(&context.complaint);
    hlo_text_free(&context.out);
    hlo_text_free(&context.complaint);
    hlo_file_content_free(&context.source);
    hlo_arena_free(context.arena);
    return exit_code;
}

// Help that cannot be written is an error too: a script that keeps it must not take an empty file for it.
static int print_text(void (*print)(HloText *text), int descriptor, int exit_code) {
    HloText text = {0};
    print(&text);
    if (!write_stream(descriptor, text.data, text.length)) {
        exit_code = stdout_failed();
    }
    hlo_text_free(&text);
    return exit_code;
}

// A standard stream that is closed gets a descriptor that can be neither read nor written: the first file that is
// opened would take its number otherwise, and get the results or the messages.
static void hold_standard_streams(void) {
    static const int kWrongWay[] = {O_WRONLY, O_RDONLY, O_RDONLY};
    for (int i = 0; i < (int)HLO_COUNT_OF(kWrongWay); ++i) {
        if (fcntl(i, F_GETFD) < 0 && errno == EBADF && open("/dev/null", kWrongWay[i]) < 0) return;
    }
}

// SIGPIPE and SIGXFSZ are ignored for the whole process: a reader that has gone and a file that may not grow are errors
// of the write that detects them. The verb's name comes first; the only options of the command itself are --help and
// --version.
int cli_main(int argument_count, char **arguments) {
    hold_standard_streams();
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    if (argument_count < 2) {
        fputs("error: no verb given\n\n", stderr);
        return print_text(cli_print_help, STDERR_FILENO, CLI_EXIT_USAGE);
    }
    const char *name = arguments[1];
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0) name = "version";
    if (strcmp(name, "help") == 0 && argument_count > 2) {  // help VERB is VERB --help
        char help[] = "--help", *swapped[] = {arguments[0], arguments[2], help};
        return cli_main((int)HLO_COUNT_OF(swapped), swapped);
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        return print_text(cli_print_help, STDOUT_FILENO, CLI_EXIT_OK);
    }
    if (strcmp(name, "--help=man") == 0) return print_text(cli_print_overview, STDOUT_FILENO, CLI_EXIT_OK);
    const CliVerb *verb = strcmp(name, cli_completion.name) == 0 ? &cli_completion : cli_find_verb(name);
    if (verb) return run_verb(verb, argument_count - 2, arguments + 2);
    const char *nearest = cli_nearest_verb(name);
    HloText text = {0};
    hlo_text_string(&text, "error: unknown verb '");
    hlo_text_printable(&text, name, strlen(name), false);
    if (nearest) hlo_text_format(&text, "'; did you mean %s?\n", nearest);
    if (!nearest) hlo_text_string(&text, "' (see meshlo --help)\n");
    write_stream(STDERR_FILENO, text.data, text.length);
    hlo_text_free(&text);
    return CLI_EXIT_USAGE;
}
