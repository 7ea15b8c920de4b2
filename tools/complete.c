// SPDX-License-Identifier: Apache-2.0
// Completion for shells: `meshlo __complete -- WORD…` prints what may replace the last word, one candidate a line with
// a tab and its help after it. The line ":files" asks the shell for names of files.
//
// Verbs, options and values come from the tables of the verbs and the lists that the library has, so that the scripts
// in completion.* know none of them. What an option's table calls its value (CliOption.value) decides how it is
// completed.
#include <string.h>

#include "advice/advice.h"
#include "compile/pipeline.h"
#include "hlo/pass/pass.h"
#include "spmd_partitioner/spmd.h"
#include "tools/machine.h"
#include "tools/program.h"

typedef struct Completion {
    CliContext *context;
    const CliVerb *verb;  // NULL while the verb itself is completed
    const char *prefix;   // the part of the word before it, such as "--on=" or "v5e-8,"
    const char *part;     // the word that is completed
    const char *mesh;     // what --mesh says on the line, or NULL
} Completion;

static void offer(const Completion *completion, const char *candidate, const char *suffix, const char *help) {
    if (strncmp(candidate, completion->part, strlen(completion->part)) != 0) return;
    const size_t line = strcspn(help, "\n");
    hlo_text_format(&completion->context->out, "%s%s%s\t%.*s\n", completion->prefix, candidate, suffix, (int)line,
                    help);
}

static void offer_files(const Completion *completion) {
    hlo_text_string(&completion->context->out, ":files\n");
}

// ---- values

static void offer_slice(void *argument, const EmuTopology *topology) {
    HloText shape = {0};
    emu_topology_print_shape(topology, &shape);
    offer(argument, topology->name, "", shape.data ? shape.data : "");
    hlo_text_free(&shape);
}

static void offer_slices(Completion *completion) {
    for (int i = 0; i < EMU_GENERATION_COUNT; ++i)
        cli_each_slice(completion->context, emu_chip((EmuGeneration)i), offer_slice, completion);
}

static void offer_machines(Completion *completion) {
    offer(completion, "cpu", "", "host devices");
    offer_slices(completion);
}

static void offer_collectives(Completion *completion) {
    for (HloOpcode opcode = 0; opcode < HLO_OPCODE_COUNT; ++opcode)
        if (hlo_op_is(opcode, HLO_OP_IS_COLLECTIVE) && !hlo_op_is(opcode, HLO_OP_IS_ASYNC_START))
            offer(completion, hlo_op_text(opcode), "", "");
}

static void offer_passes(Completion *completion) {
    const HloPass *pass;
    const HloPipeline *pipeline;
    for (int64_t i = 0; (pass = hlo_pass_at(i)); ++i) offer(completion, pass->name, "", pass->summary);
    for (int64_t i = 0; (pipeline = hlo_pipeline_at(i)); ++i) offer(completion, pipeline->name, "", pipeline->summary);
}

static void offer_stages(Completion *completion) {
    for (int i = 0; i < COMPILE_STAGE_COUNT; ++i) offer(completion, compile_stage_name((CompileStage)i), "", "");
    offer(completion, "all", "", "after every stage");
}

// The program on the command line, or NULL where it cannot be read: who presses the tab key did not ask for errors.
static HloModule *read_program(CliContext *context) {
    HloModule *module = NULL;
    if (context->arguments.count) hlo_status_free(cli_program_load(context, context->arguments.items[0], &module));
    return module;
}

// The axes that the annotations of the program name.
static void offer_axes(const Completion *completion, const char *suffix) {
    CliContext *context = completion->context;
    const SpmdMeshAxis *axes = NULL;
    int64_t count = 0;
    HloModule *module = read_program(context);
    if (module) hlo_status_free(spmd_named_axes(context->arena, module, &axes, &count));
    for (int64_t i = 0; i < count; ++i) offer(completion, axes[i].name, suffix, "");
    hlo_module_free(module);
}

// The axes of --mesh data=4,model=2.
static void offer_axes_of_mesh(const Completion *completion) {
    for (const char *axis = completion->mesh; *axis; axis += strcspn(axis, ","), axis += *axis == ',') {
        const size_t length = strcspn(axis, "=,");
        if (length) offer(completion, hlo_arena_string(completion->context->arena, axis, length), "", "");
    }
}

// The parameters by number, with their names as help.
static void offer_parameters(const Completion *completion) {
    HloArena *arena = completion->context->arena;
    HloModule *module = read_program(completion->context);
    int64_t leaves = 0;
    for (int64_t p = 0; module && p < module->entry->parameters.count; ++p)
        leaves += hlo_shape_leaf_count(module->entry->parameters.items[p]->shape);
    for (int64_t leaf = 0; leaf < leaves; ++leaf) {
        const char *number = hlo_arena_format(arena, "p%lld", (long long)leaf);
        offer(completion, number, "=", advice_parameter_name(arena, module, leaf));
    }
    hlo_module_free(module);
}

static void offer_mesh(Completion *completion) {
    if (!strchr(completion->part, '=')) offer_axes(completion, "=");
}

// Axes follow '=' and the commas between dimensions; what comes before '=' is a parameter's number or name.
static void offer_shard(Completion *completion) {
    const char *equals = strchr(completion->part, '=');
    if (!equals && !strchr(completion->prefix, '=')) {
        offer_parameters(completion);
        return;
    }
    Completion axis = *completion;
    if (equals) {
        const size_t length = (size_t)(equals + 1 - completion->part);
        axis.prefix =
            hlo_arena_format(completion->context->arena, "%s%.*s", completion->prefix, (int)length, completion->part);
        axis.part = equals + 1;
    }
    if (completion->mesh)
        offer_axes_of_mesh(&axis);
    else
        offer_axes(&axis, "");
    offer(&axis, "-", "", "not sharded");
}

// By what the option tables call the value. `list`: several, separated by commas.
static const struct {
    const char *value;
    void (*offer)(Completion *completion);
    bool list;
} kValues[] = {
    {"T", offer_slices, false},           {"TOPOLOGY", offer_machines, false}, {"T1,T2", offer_slices, true},
    {"OPCODES", offer_collectives, true}, {"PASS,…", offer_passes, true},      {"STAGE,…", offer_stages, true},
    {"x=4,y=2", offer_mesh, true},        {"a=*,b=*", offer_mesh, true},       {"p0=x,-", offer_shard, true},
    {"p0=a,-", offer_shard, true},        {"p3=data,-", offer_shard, true},
};

// Values written as `a|b|c` are the candidates themselves.
static void offer_words(const Completion *completion, const char *value) {
    for (const char *word = value;; ++word) {
        const size_t length = strcspn(word, "|");
        offer(completion, hlo_arena_string(completion->context->arena, word, length), "", "");
        word += length;
        if (!*word) return;
    }
}

// Moves the elements before the last comma from the part to the prefix.
static void skip_elements(Completion *completion) {
    const char *comma = strrchr(completion->part, ',');
    if (!comma) return;
    completion->prefix = hlo_arena_format(completion->context->arena, "%s%.*s", completion->prefix,
                                          (int)(comma + 1 - completion->part), completion->part);
    completion->part = comma + 1;
}

static void offer_value(Completion *completion, const CliOption *option) {
    for (size_t i = 0; i < HLO_COUNT_OF(kValues); ++i) {
        if (strcmp(kValues[i].value, option->value) != 0) continue;
        if (kValues[i].list) skip_elements(completion);
        kValues[i].offer(completion);
        return;
    }
    if (strchr(option->value, '|') && !strchr(option->value, '['))
        offer_words(completion, option->value);
    else if (option->kind == CLI_TEXT || option->kind == CLI_LIST || option->kind == CLI_OUTPUT)
        offer_files(completion);
}

// ---- options, verbs

static void offer_options(const Completion *completion) {
    for (int t = 0; t < CLI_MAX_TABLES && completion->verb->tables[t]; ++t) {
        const CliOptionTable *table = completion->verb->tables[t];
        for (int64_t i = 0; i < table->count; ++i) {
            const CliOption *option = &table->options[i];
            offer(completion,
                  hlo_arena_format(completion->context->arena, "%s%s", option->name[1] ? "--" : "-", option->name), "",
                  option->help);
        }
    }
    offer(completion, "--help", "", "Describe the verb.");
}

static void offer_verbs(const Completion *completion) {
    int64_t count;
    const CliVerb *const *verbs = cli_verbs(&count);
    for (int64_t i = 0; i < count; ++i) offer(completion, verbs[i]->name, "", verbs[i]->summary);
    offer(completion, "help", "", "Describe a verb.");
}

// Splits "--name=value"; *value is NULL without '='. NULL if the word is no option of the verb.
static const CliOption *read_option(const Completion *completion, const char *word, const char **value) {
    const char *equals = strchr(word, '=');
    const size_t length = equals ? (size_t)(equals - word) : strlen(word);
    *value = equals ? equals + 1 : NULL;
    if (word[0] != '-' || !word[1]) return NULL;
    const char *name = hlo_arena_string(completion->context->arena, word, length);
    return cli_find_option(completion->verb, name + (name[1] == '-' ? 2 : 1));
}

// Collects the arguments and the mesh among the words before the last one, and returns the option that waits for the
// last one as its value, or NULL.
static const CliOption *walk(Completion *completion, const HloStringVector *words) {
    CliContext *context = completion->context;
    HloStringVector arguments = {0};
    const CliOption *waiting = NULL;
    for (int64_t i = 1; i < words->count - 1; ++i) {
        const char *value;
        const CliOption *option = waiting ? NULL : read_option(completion, words->items[i], &value);
        const bool is_value = waiting != NULL;
        const CliOption *owner = waiting ? waiting : option;
        if (owner && strcmp(owner->name, "mesh") == 0) completion->mesh = waiting ? words->items[i] : value;
        waiting = option && option->kind != CLI_FLAG && !value ? option : NULL;
        if (!option && !is_value && words->items[i][0] != '-')
            hlo_vector_push(context->arena, &arguments, words->items[i]);
    }
    context->arguments = arguments;
    return waiting;
}

static void complete_word(Completion *completion, const HloStringVector *words) {
    CliContext *context = completion->context;
    const char *word = completion->part, *value;
    const CliOption *waiting = walk(completion, words);
    const CliOption *option = waiting ? waiting : read_option(completion, word, &value);
    if (option && !waiting && value) {
        completion->prefix = hlo_arena_string(context->arena, word, (size_t)(value - word));
        completion->part = value;
        waiting = option;
    }
    if (waiting && waiting->value)
        offer_value(completion, waiting);
    else if (word[0] == '-')
        offer_options(completion);
    else if (strcmp(completion->verb->arguments, "TOPOLOGY") == 0)
        offer_machines(completion);
    else if (context->arguments.count < completion->verb->most_arguments)
        offer_files(completion);
}

static HloStatus complete(CliContext *context) {
    const HloStringVector words = context->arguments;
    if (!words.count) return HLO_SUCCESS;
    Completion completion = {.context = context, .prefix = "", .part = words.items[words.count - 1]};
    if (words.count == 1 || (words.count == 2 && strcmp(words.items[0], "help") == 0)) {
        offer_verbs(&completion);
        return HLO_SUCCESS;
    }
    completion.verb = cli_find_verb(words.items[0]);
    if (!completion.verb) return HLO_SUCCESS;
    context->verb = completion.verb;  // whose options reading a program looks at
    complete_word(&completion, &words);
    return HLO_SUCCESS;
}

const CliVerb cli_completion = {
    .name = "__complete",
    .arguments = "-- WORD...",
    .summary = "Print what may complete the last word of a command line.",
    .examples = "meshlo __complete -- emulate --on v5e\n",
    .most_arguments = INT64_MAX,
    .run = complete,
};
