// SPDX-License-Identifier: Apache-2.0
// Options: `--name=value`, `--name value`, `-o value`; '-' and '_' inside a name are the same; "--" ends them. A single
// "-" is an argument.
//
// The verb's tables (cli.h) define the options; here they are only read. Values are checked when they are parsed, so
// that a verb may rely on them, and kept in the order given: the last value of a repeated option counts, except for
// lists. Whether an option takes a value follows from the table, so `--seed -1` has the value -1.
#include <assert.h>
#include <errno.h>
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "hlo/base/decimal.h"
#include "hlo/base/nearest.h"
#include "tools/cli.h"

// Compares with `name`, which is written with '-'. Both spellings are accepted because XLA's flags have '_' and those
// of most other programs '-'.
static bool same_name(const char *name, const char *text, size_t length) {
    if (strlen(name) != length) return false;
    for (size_t i = 0; i < length; ++i) {
        if ((text[i] == '_' ? '-' : text[i]) != name[i]) return false;
    }
    return true;
}

// A verb's tables are searched in order; names do not repeat among them.
static const CliOption *find_named(const CliVerb *verb, const char *text, size_t length) {
    for (int t = 0; t < CLI_MAX_TABLES && verb->tables[t]; ++t) {
        for (int64_t i = 0; i < verb->tables[t]->count; ++i) {
            if (same_name(verb->tables[t]->options[i].name, text, length)) return &verb->tables[t]->options[i];
        }
    }
    return NULL;
}

// --on and --topology are the same option: each verb has one of the two in its table.
static const CliOption *find_option(const CliVerb *verb, const char *text, size_t length) {
    static const char *const kSynonyms[] = {"on", "topology"};
    const CliOption *option = find_named(verb, text, length);
    for (size_t i = 0; i < HLO_COUNT_OF(kSynonyms) && !option; ++i) {
        if (!same_name(kSynonyms[i], text, length)) continue;
        const char *other = kSynonyms[1 - i];
        option = find_named(verb, other, strlen(other));
    }
    return option;
}

const CliOption *cli_find_option(const CliVerb *verb, const char *name) {
    return find_option(verb, name, strlen(name));
}

bool cli_has_option(const CliVerb *verb, const char *name) {
    return cli_find_option(verb, name) != NULL;
}

// The first verb that has an option of this name, or NULL.
static const CliVerb *verb_with_option(const char *name, size_t length) {
    int64_t count;
    const CliVerb *const *verbs = cli_verbs(&count);
    for (int64_t i = 0; i < count; ++i)
        if (find_option(verbs[i], name, length)) return verbs[i];
    return NULL;
}

// The option of a verb for what another verb calls `name`: the search of plan keeps the shardings that others are
// given. NULL if there is none.
static const char *option_instead(const CliVerb *verb, const char *name) {
    static const char *const kSame[][2] = {{"shard", "keep"}, {"keep", "shard"}};
    for (size_t i = 0; i < HLO_COUNT_OF(kSame); ++i)
        if (!strcmp(name, kSame[i][0]) && cli_has_option(verb, kSame[i][1])) return kSame[i][1];
    return NULL;
}

// Distinguishes the right name with the wrong number of dashes from a misspelt one.
static HloStatus unknown_option(CliContext *context, const char *argument, size_t name_length) {
    const char *dashes = argument[1] == '-' ? "--" : "-";
    const char *name = hlo_arena_string(context->arena, argument + strlen(dashes), name_length);
    const CliOption *same = find_option(context->verb, name, name_length);  // with the other number of dashes
    if (same) {
        return cli_usage_error(context, "unknown option %s%s; did you mean %s%s?", dashes, name,
                               same->name[1] ? "--" : "-", same->name);
    }
    const char *nearest = cli_nearest_option(context->verb, name, context->arena);
    const CliVerb *owner = verb_with_option(name, name_length);
    const char *instead = option_instead(context->verb, name);
    if (instead)
        return cli_usage_error(context, "unknown option %s%s: meshlo %s has --%s for that", dashes, name,
                               context->verb->name, instead);
    if (owner && !nearest)
        return cli_usage_error(context, "unknown option %s%s: meshlo %s has no such option, meshlo %s does", dashes,
                               name, context->verb->name, owner->name);
    if (nearest) return cli_usage_error(context, "unknown option %s%s; did you mean --%s?", dashes, name, nearest);
    return cli_usage_error(context, "unknown option %s%s (see meshlo %s --help)", dashes, name, context->verb->name);
}

// `text` must be a whole number in range with nothing after it: strtoll() and strtod() report that by `end` and errno.
// NaN fails the comparison with 0, infinity that with DBL_MAX.
static HloStatus check_value(CliContext *context, const CliOption *option, const char *name, const char *text) {
    char *end = NULL;
    double number = 0;
    errno = 0;
    if (option->kind == CLI_INTEGER) {
        strtoll(text, &end, 10);
    } else if (option->kind == CLI_NUMBER) {
        number = hlo_strtod(text, &end);
    } else {
        return HLO_SUCCESS;
    }
    bool out_of_range = errno == ERANGE || !(number >= 0 && number <= DBL_MAX);
    if (end == text || *end || out_of_range) {
        return cli_usage_error(context, "--%s expects %s, not '%s'", name,
                               option->kind == CLI_INTEGER ? "an integer" : "a number of at least 0", text);
    }
    return HLO_SUCCESS;
}

// MESHLO_FLAGS serves all verbs: an option of another verb is left out, with its value, and named in a note.
static bool skip_foreign(CliContext *context, const char *argument, size_t length, int *at) {
    const char *name = argument + strspn(argument, "-");
    const CliVerb *owner = verb_with_option(name, length);
    if (!owner) return false;
    const CliOption *option = find_option(owner, name, length);
    if (option->kind != CLI_FLAG && !name[length]) ++*at;
    hlo_text_format(&context->complaint, "note: MESHLO_FLAGS: meshlo %s has no option --%s\n", context->verb->name,
                    option->name);
    return true;
}

// Takes the option at arguments[*at], and the argument after it when that is its value.
// *at moves over a value that is an argument of its own. A value after '=' may be empty, one that is an argument too.
static HloStatus parse_option(CliContext *context, int count, char **arguments, int *at) {
    const char *argument = arguments[*at];
    const char *name = argument + (argument[1] == '-' ? 2 : 1);
    const char *equals = strchr(name, '=');
    size_t length = equals ? (size_t)(equals - name) : strlen(name);
    const CliOption *option = find_option(context->verb, name, length);
    bool one_letter = argument[1] != '-';
    if (!option && *at < context->environment_count && skip_foreign(context, argument, length, at)) return HLO_SUCCESS;
    if (!option || one_letter != (option->name[1] == 0)) return unknown_option(context, argument, length);
    const char *text = equals ? equals + 1 : NULL, *typed = hlo_arena_string(context->arena, name, length);
    if (option->kind == CLI_FLAG) {
        if (text) return cli_usage_error(context, "--%s takes no value", typed);
    } else {
        if (!text && *at + 1 < count) text = arguments[++*at];
        if (!text) return cli_usage_error(context, "%s needs a value (%s)", argument, option->value);
        HLO_TRY(check_value(context, option, typed, text));
    }
    hlo_vector_push(context->arena, &context->values, ((CliValue){option, text, typed}));
    return HLO_SUCCESS;
}

// The last value given for `name`; NULL when there is none. Searches from the end, so that the command line takes
// precedence over MESHLO_FLAGS.
static const CliValue *find_value(const CliContext *context, const char *name) {
    const CliOption *option = find_option(context->verb, name, strlen(name));
    HLO_BUG_IF(!option);
    for (int64_t i = context->values.count - 1; i >= 0; --i) {
        if (context->values.items[i].option == option) return &context->values.items[i];
    }
    return NULL;
}

// Refuses files that could not be written, before the work whose result they would be.
static HloStatus check_outputs(const CliContext *context) {
    for (int64_t i = 0; i < context->values.count; ++i) {
        const CliValue *value = &context->values.items[i];
        if (value->option->kind == CLI_OUTPUT && find_value(context, value->option->name) == value)
            HLO_TRY(hlo_file_check_writable(value->text));
    }
    return HLO_SUCCESS;
}

HloStatus cli_parse(CliContext *context, int argument_count, char **arguments) {
    bool options_over = false;
    for (int i = 0; i < argument_count; ++i) {
        if (options_over || arguments[i][0] != '-' || arguments[i][1] == 0) {
            hlo_vector_push(context->arena, &context->arguments, arguments[i]);
        } else if (strcmp(arguments[i], "--") == 0) {
            options_over = true;
        } else {
            HLO_TRY(parse_option(context, argument_count, arguments, &i));
        }
    }
    const CliVerb *verb = context->verb;
    if (context->arguments.count < verb->least_arguments) {
        return cli_usage_error(context, "%s is missing (see meshlo %s --help)", verb->arguments, verb->name);
    }
    if (context->arguments.count > verb->most_arguments) {
        return cli_usage_error(context, "unexpected argument '%s' (see meshlo %s --help)",
                               context->arguments.items[verb->most_arguments], verb->name);
    }
    return check_outputs(context);
}

const char *cli_option_name(const CliContext *context, const char *name) {
    const CliOption *option = cli_find_option(context->verb, name);
    const CliValue *value = option ? find_value(context, name) : NULL;
    return value ? value->name : option ? option->name : name;
}

const char *cli_text(const CliContext *context, const char *name) {
    return cli_text_or(context, name, NULL);
}

const char *cli_text_or(const CliContext *context, const char *name, const char *otherwise) {
    const CliValue *value = find_value(context, name);
    return value ? value->text : otherwise;
}

// For any other option, returns whether it was given.
bool cli_flag(const CliContext *context, const char *name) {
    return find_value(context, name) != NULL;
}

int64_t cli_integer(const CliContext *context, const char *name, int64_t otherwise) {
    const CliValue *value = find_value(context, name);
    return value ? strtoll(value->text, NULL, 10) : otherwise;
}

double cli_number(const CliContext *context, const char *name, double otherwise) {
    const CliValue *value = find_value(context, name);
    return value ? hlo_strtod(value->text, NULL) : otherwise;
}

// The owners so far are remembered by name, for the message. Flags print to standard output by nature; text options
// only with the value "-".
HloStatus cli_standard_output(CliContext *context, const char *const *options, int64_t count, bool *taken) {
    const char *owner = NULL, *other = NULL;
    assert(options && count > 0 && taken);
    *taken = false;
    for (int64_t i = 0; i < count; ++i) {
        const CliValue *value = find_value(context, options[i]);
        bool file = value && value->option->kind == CLI_OUTPUT;
        if (!value || (file && strcmp(value->text, "-") != 0)) continue;
        *taken |= file;
        other = owner;
        owner = options[i];
        if (other && *taken) {
            return cli_usage_error(context, "%s%s and %s%s both write to standard output", other[1] ? "--" : "-", other,
                                   owner[1] ? "--" : "-", owner);
        }
    }
    return HLO_SUCCESS;
}

HloStatus cli_choice(CliContext *context, const char *name, int64_t *number) {
    const CliOption *option = cli_find_option(context->verb, name);
    const char *text = cli_text(context, name);
    HloText list = {0};
    *number = 0;
    if (!text) return HLO_SUCCESS;
    for (const char *at = option->value; *at; at += *at == '|') {
        const size_t length = strcspn(at, "|");
        if (strlen(text) == length && memcmp(text, at, length) == 0) {
            hlo_text_free(&list);
            return HLO_SUCCESS;
        }
        hlo_text_format(&list, "%s%.*s", *number ? ", " : "", (int)length, at);
        at += length;
        ++*number;
    }
    HloStatus status = cli_usage_error(context, "--%s: '%s' is none of %s", name, text, list.data ? list.data : "");
    hlo_text_free(&list);
    return status;
}

HloStringVector cli_list(CliContext *context, const char *name) {
    const CliOption *option = find_option(context->verb, name, strlen(name));
    HLO_BUG_IF(!option || option->kind != CLI_LIST);
    HloStringVector list = {0};
    for (int64_t i = 0; i < context->values.count; ++i) {
        if (context->values.items[i].option == option) {
            hlo_vector_push(context->arena, &list, context->values.items[i].text);
        }
    }
    return list;
}

const char *cli_nearest_option(const CliVerb *verb, const char *name, HloArena *arena) {
    HloStringVector names = {0};
    assert(verb && name && arena);
    for (int t = 0; t < CLI_MAX_TABLES && verb->tables[t]; ++t) {
        for (int64_t i = 0; i < verb->tables[t]->count; ++i) {
            if (verb->tables[t]->options[i].name[1]) {
                hlo_vector_push(arena, &names, verb->tables[t]->options[i].name);
            }
        }
    }
    return hlo_nearest_name(name, names.items, names.count);
}

const char *cli_nearest_verb(const char *name) {
    const char *names[32];
    int64_t count;
    const CliVerb *const *verbs = cli_verbs(&count);
    HLO_BUG_IF(count > (int64_t)HLO_COUNT_OF(names));
    for (int64_t i = 0; i < count; ++i) names[i] = verbs[i]->name;
    return hlo_nearest_name(name, names, count);
}
