// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>

#include "hlo/base/nearest.h"
#include "tests/support/cases.h"
#include "tools/cli.h"

static const CliOption kFirst[] = {
    {"num-partitions", CLI_INTEGER, "N", "How many."},
    {"rtol", CLI_NUMBER, "R", "How far."},
    {"json", CLI_FLAG, NULL, "JSON."},
};
static const CliOption kSecond[] = {
    {"shard", CLI_LIST, "K=SPEC", "A sharding."},
    {"o", CLI_TEXT, "OUT", "Where to."},
};
static const CliOptionTable kFirstTable = CLI_TABLE(kFirst);
static const CliOptionTable kSecondTable = CLI_TABLE(kSecond);
static const CliVerb kVerb = {
    .name = "try",
    .arguments = "FILE",
    .summary = "Tries - it.",
    .description = ".starts with a dot",
    .examples = "meshlo try a\nmeshlo try b",
    .least_arguments = 1,
    .most_arguments = 1,
    .tables = {&kFirstTable, &kSecondTable},
};

static HloStatus parse(CliContext *context, int count, const char *const *arguments) {
    *context = (CliContext){.verb = &kVerb, .arena = hlo_arena_new()};
    return cli_parse(context, count, (char **)arguments);
}

Test(tools_cli, takes_every_spelling) {
    CliContext context;
    const char *arguments[] = {"--num_partitions=8", "--rtol", "1e-3", "-", "--shard", "p0=x,-",
                               "--shard=p1=y",       "-o",     "-"};
    cr_assert_null(parse(&context, HLO_COUNT_OF(arguments), arguments));
    cr_assert_eq(cli_integer(&context, "num-partitions", 1), 8);
    cr_assert_eq(cli_number(&context, "rtol", 0), 1e-3);
    cr_assert_not(cli_flag(&context, "json"));
    cr_assert_str_eq(context.arguments.items[0], "-");
    HloStringVector shards = cli_list(&context, "shard");
    cr_assert_eq(shards.count, 2);
    cr_assert_str_eq(shards.items[0], "p0=x,-");
    cr_assert_str_eq(shards.items[1], "p1=y");
    cr_assert_str_eq(cli_text(&context, "o"), "-");
    hlo_arena_free(context.arena);
}

Test(tools_cli, the_last_value_counts_and_two_dashes_end_options) {
    CliContext context;
    const char *arguments[] = {"--json", "--num-partitions", "2", "--num-partitions", "4", "--", "--json"};
    cr_assert_null(parse(&context, HLO_COUNT_OF(arguments), arguments));
    cr_assert_eq(cli_integer(&context, "num-partitions", 1), 4);
    cr_assert(cli_flag(&context, "json"));
    cr_assert_str_eq(context.arguments.items[0], "--json");
    cr_assert_str_eq(cli_text_or(&context, "o", "x"), "x");
    hlo_arena_free(context.arena);
}

typedef struct BadLine {
    char argument[48];
    char message[48];
} BadLine;

CaseList(tools_cli, refuses) {
    static BadLine cases[] = {
        {"--num-partition=3", "did you mean --num-partitions?"},
        {"--num-partitions=x", "expects an integer"},
        {"--num-partitions=", "expects an integer"},
        {"--rtol=1.0z", "expects a number"},
        {"--json=1", "takes no value"},
        {"--quite-another", "see meshlo try --help"},
        {"-x", "unknown option -x"},
        {"--rtol", "needs a value (R)"},
        {"--o", "unknown option --o"},
        {"-json", "unknown option -json"},
        {"--num-partitions=99999999999999999999", "expects an integer"},
    };
    return cr_make_param_array(BadLine, cases, HLO_COUNT_OF(cases));
}

CaseTest(BadLine *bad, tools_cli, refuses) {
    CliContext context;
    const char *arguments[] = {"FILE", bad->argument};
    HloStatus status = parse(&context, 2, arguments);
    cr_assert_eq(hlo_status_code(status), HLO_INVALID_ARGUMENT);
    cr_assert(strstr(hlo_status_message(status), bad->message), "%s", hlo_status_message(status));
    hlo_status_free(status);
    hlo_arena_free(context.arena);
}

Test(tools_cli, counts_arguments) {
    CliContext context;
    HloStatus status = parse(&context, 0, NULL);
    cr_assert(strstr(hlo_status_message(status), "FILE is missing"));
    hlo_status_free(status);
    hlo_arena_free(context.arena);
    const char *arguments[] = {"a", "b"};
    status = parse(&context, 2, arguments);
    cr_assert(strstr(hlo_status_message(status), "unexpected argument 'b'"));
    hlo_status_free(status);
    hlo_arena_free(context.arena);
}

Test(tools_cli, every_status_code_has_an_exit_code) {
    static const HloCode kCodes[] = {
#define HLO_CODE(name, number, text) HLO_##name,
#include "hlo/base/status.def"
#undef HLO_CODE
    };
    for (size_t i = 0; i < HLO_COUNT_OF(kCodes); ++i) {
        for (CliStage stage = 0; stage < CLI_STAGE_COUNT; ++stage) {
            CliExit exit_code = cli_exit_code(kCodes[i], stage);
            cr_assert_eq(exit_code == CLI_EXIT_OK, kCodes[i] == HLO_OK);
            cr_assert_eq(exit_code == CLI_EXIT_BUG, kCodes[i] == HLO_INTERNAL, "%s", hlo_code_name(kCodes[i]));
        }
    }
    cr_assert_eq(cli_exit_code(HLO_INVALID_ARGUMENT, CLI_STAGE_PROGRAM), 3);
    cr_assert_eq(cli_exit_code(HLO_UNIMPLEMENTED, CLI_STAGE_RUN), 4);
}

Test(tools_cli, help_and_manual_hold_every_option) {
    HloText help = {0}, manual = {0};
    cli_print_verb_help(&help, &kVerb);
    cli_print_manual(&manual, &kVerb);
    cr_assert(strstr(help.data, "--num-partitions N"));
    cr_assert(strstr(help.data, "-o OUT"));
    cr_assert(strstr(help.data, "  meshlo try b\n"));
    cr_assert(strstr(manual.data, "\\-\\-num\\-partitions N"));
    cr_assert(strstr(manual.data, "\\&.starts with a dot"), "a dot at the start of a line would be a command of roff");
    hlo_text_free(&help);
    hlo_text_free(&manual);
}

Test(tools_cli, nearest_names) {
    const char *names[] = {"convert", "partition", "run"};
    cr_assert_str_eq(hlo_nearest_name("partiton", names, 3), "partition");
    cr_assert_str_eq(hlo_nearest_name("rn", names, 3), "run");
    cr_assert_null(hlo_nearest_name("emulate", names, 3));
    cr_assert_null(hlo_nearest_name("b", (const char *const[]){"a"}, 1));
    cr_assert_null(hlo_nearest_name("foo", (const char *const[]){"hlo"}, 1));
    cr_assert_str_eq(cli_nearest_verb("vershion"), "version");
}
