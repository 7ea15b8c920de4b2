// SPDX-License-Identifier: Apache-2.0
// What every verb of the command uses: option tables, help made from them, results and errors, exit codes.
//
// Terms:
//   verb         the first word of a command line (run, emulate ...): a row of verbs.def and a file verbs/verb_NAME.c.
//   option table the options of a verb; several verbs share those of program.c, prepare.c and machine.c.
//   stage        the phase that an error belongs to: it decides the exit code (CliStage).
//   output       what a verb produces: text for standard output, and files that are written only if it succeeds.
//   note         a line on standard error that is neither an error nor a result, such as "note: ...".
#ifndef MESHLO_TOOLS_CLI_H_
#define MESHLO_TOOLS_CLI_H_

#include <pthread.h>
#include <stdatomic.h>

#include "hlo/base/file.h"
#include "hlo/base/json.h"
#include "hlo/base/memory.h"
#include "hlo/base/text.h"
#include "hlo/base/vector.h"

// Exit codes: a contract (docs/cli.md).
typedef enum CliExit {
    CLI_EXIT_OK = 0,
    CLI_EXIT_CHECK_FAILED = 1,
    CLI_EXIT_USAGE = 2,
    CLI_EXIT_PROGRAM = 3,
    CLI_EXIT_UNSUPPORTED = 4,
    CLI_EXIT_OUT_OF_MEMORY = 5,
    CLI_EXIT_RUN_TIME = 6,
    CLI_EXIT_BUG = 70,
} CliExit;

// What the command is busy with: the same status code means another exit code in each.
typedef enum CliStage {
    CLI_STAGE_USAGE,    // options, names, files that cannot be opened
    CLI_STAGE_PROGRAM,  // reading, verifying, rewriting the program
    CLI_STAGE_COMPILE,  // for a machine, which determines whether there is enough memory
    CLI_STAGE_RUN,      // running it
    CLI_STAGE_COUNT,
} CliStage;

typedef enum CliKind {
    CLI_FLAG,     // no value
    CLI_TEXT,     // any text; the last one given counts
    CLI_INTEGER,  // a decimal integer
    CLI_NUMBER,   // a finite decimal number from 0 on
    CLI_LIST,     // any text, may be given several times
    CLI_OUTPUT,   // a CLI_TEXT that names the file to write, or - ; refused before the verb runs if that cannot be
} CliKind;

// One row of an option table.
typedef struct CliOption {
    const char *name;  // without dashes, words joined by '-'; one letter for "-o"
    CliKind kind;
    const char *value;  // what the help calls the value, and complete.c knows it by; NULL for a flag
    const char *help;   // one sentence
} CliOption;

// A table that several verbs may share.
typedef struct CliOptionTable {
    const CliOption *options;
    int64_t count;
} CliOptionTable;

// Initialises a CliOptionTable from an array of rows.
#define CLI_TABLE(rows) \
    { (rows), (int64_t)HLO_COUNT_OF(rows) }

enum { CLI_MAX_TABLES = 5 };

typedef struct CliContext CliContext;

typedef struct CliVerb {
    const char *name;
    const char *arguments;    // "FILE", "TOPOLOGY" or ""
    const char *summary;      // one line
    const char *description;  // paragraphs, or NULL
    const char *examples;     // command lines, one a line
    int64_t least_arguments, most_arguments;
    const CliOptionTable *tables[CLI_MAX_TABLES];  // NULL ends the list
    HloStatus (*run)(CliContext *context);
    bool is_table;  // prints tables for people, not programs, drawings or arrays: a terminal may break its lines
} CliVerb;

// One option that was given.
typedef struct CliValue {
    const CliOption *option;
    const char *text;  // NULL for a flag
    const char *name;  // as it was typed: of an option with a synonym either one
} CliValue;

// The thread of cli_ticker_start().
typedef struct CliTicker {
    bool runs;
    pthread_t thread;
    _Atomic double share;
    pthread_mutex_t lock;    // guards `ended`
    pthread_cond_t changed;  // `ended`
    bool ended;
} CliTicker;

// One run of one verb.
struct CliContext {
    const CliVerb *verb;
    HloArena *arena;  // lives for the run
    HLO_VECTOR(CliValue) values;
    HloStringVector arguments;
    int environment_count;  // so many of the first words to parse come from MESHLO_FLAGS
    CliStage stage;
    HloText out;        // written to stdout when the verb has succeeded or failed a check
    HloText complaint;  // why the exit code is not 0, where no status reports it
    bool is_help;       // `out` is the verb's help
    CliExit exit_code;  // used when the verb returns success
    // The program's name and HLO text, to locate errors in it; empty for other formats.
    const char *source_name;
    HloFileContent source;
    const char *other_path;  // of a program in another format, to show its instructions as HLO; or NULL
    bool progress;           // stderr is a terminal whose lines can be written over
    bool log;                // MESHLO_LOG: each step is a line with its time
    double start;            // cli_seconds() when the run began
    // Of cli_progress_share(): the work under way, since when, and when it was shown last.
    const char *under_way;
    double under_way_since, shown;
    CliTicker ticker;  // of cli_ticker_start()
};

// The verb that the completion scripts of the shells call (complete.c). The help does not list it.
extern const CliVerb cli_completion;

// The verbs, in the order of the help. Sets *count.
const CliVerb *const *cli_verbs(int64_t *count);
// The verb of this name, or NULL.
const CliVerb *cli_find_verb(const char *name);

// Runs the whole command with main()'s arguments and returns its exit code.
int cli_main(int argument_count, char **arguments);

// Parses what follows the verb into `context` (its verb and arena are set). INVALID_ARGUMENT, with the nearest name,
// for an unknown option, a missing or malformed value, or a wrong number of arguments.
HLO_NODISCARD HloStatus cli_parse(CliContext *context, int argument_count, char **arguments);

// The option of this name (without dashes) in the verb's tables; NULL where they lack it.
const CliOption *cli_find_option(const CliVerb *verb, const char *name);
// True when the verb's tables have an option of this name.
bool cli_has_option(const CliVerb *verb, const char *name);

// What to call an option that may have a synonym (--on, --topology): as it was typed, else as the verb's tables have
// it; `name` itself where they lack it.
const char *cli_option_name(const CliContext *context, const char *name);

// The last value of a CLI_TEXT or CLI_OUTPUT option; NULL when it was not given. Asking for an option that the verb's
// tables lack is a bug, here and below.
const char *cli_text(const CliContext *context, const char *name);
// As above, with a value to use when it was not given.
const char *cli_text_or(const CliContext *context, const char *name, const char *otherwise);
// True when the option was given.
bool cli_flag(const CliContext *context, const char *name);
// The value of a CLI_INTEGER option (checked while parsing), or `otherwise`.
int64_t cli_integer(const CliContext *context, const char *name, int64_t otherwise);
// The value of a CLI_NUMBER option (checked while parsing), or `otherwise`.
double cli_number(const CliContext *context, const char *name, double otherwise);
// The number of the value given, among those that the table lists as `a|b|c`: 0 for the first, and where none was
// given. A usage error that lists them for any other.
HLO_NODISCARD HloStatus cli_choice(CliContext *context, const char *name, int64_t *number);
// The values of a CLI_LIST option in the order given, in the context's arena.
HloStringVector cli_list(CliContext *context, const char *name);

// Standard output holds one thing. An option claims it if it is a text option with the value "-", or a flag that is
// set; a usage error if one with "-" is not alone. Sets *taken if an option claims it, so that the verb leaves out what
// it would print.
HLO_NODISCARD HloStatus cli_standard_output(CliContext *context, const char *const *options, int64_t count,
                                            bool *taken);

// Makes an error about usage: INVALID_ARGUMENT whatever the stage, exit code 2.
HLO_NODISCARD HloStatus cli_usage_error(CliContext *context, const char *format, ...) HLO_PRINTF(2, 3);
// Ends the run with this exit code and a reason on stderr, while results still go to stdout. Returns success, so that a
// verb can `return cli_fail(…)`.
HLO_NODISCARD HloStatus cli_fail(CliContext *context, CliExit exit_code, const char *format, ...) HLO_PRINTF(3, 4);
// The exit code for a status code in a stage. No other function maps them.
CliExit cli_exit_code(HloCode code, CliStage stage);

// A path or another text of the user's as messages show it: on one line, without commands for a terminal.
const char *cli_printable(CliContext *context, const char *text);

// Seconds on a monotonic clock.
double cli_seconds(void);

// Shows the current work on one line of a terminal; does nothing when stderr is not one. "" clears the line.
void cli_progress(const CliContext *context, const char *what);

// The same with the share that is done, and the time that is left if the rest is as fast; at most ten times a second.
void cli_progress_share(CliContext *context, const char *what, double share);

// Shows work of one long call from a thread of its own, until cli_ticker_stop(): with the share that is done and the
// time that is left as soon as cli_ticker_report() says some share, until then with the time that has passed. Without
// a terminal, or without a thread, it does what cli_progress() does. One work at a time.
void cli_ticker_start(CliContext *context, const char *what);
// Takes the share that is done, from 0 to 1. Any thread; `context` is a CliContext.
void cli_ticker_report(void *context, double share);
// Ends the thread, if there is one. Does nothing after the first time.
void cli_ticker_stop(CliContext *context);

// Prints a line to stderr at once if that is a terminal or a log, else with the other notes.
void cli_note(CliContext *context, const char *text);

// As hlo_nearest_name(), among the names of a verb's options.
const char *cli_nearest_option(const CliVerb *verb, const char *name, HloArena *arena);
// The same for the names of all verbs.
const char *cli_nearest_verb(const char *name);

// Writes the help of the whole command.
void cli_print_help(HloText *text);
// Writes the help of a verb.
void cli_print_verb_help(HloText *text, const CliVerb *verb);
// Writes the help of a verb as a manual page (roff).
void cli_print_manual(HloText *text, const CliVerb *verb);
// Writes the help of the whole command as a manual page.
void cli_print_overview(HloText *text);

#endif
