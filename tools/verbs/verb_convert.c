// SPDX-License-Identifier: Apache-2.0
// meshlo convert: reads a program in any format (program.c detects which) and prints it in another. Each option belongs
// to some of the formats; one that does not apply to the requested format is refused, since the user expects it to have
// an effect. The output can be read again: constants are whole unless XLA's
// short form is requested.
#include <assert.h>
#include <string.h>

#include "hlo/base/nearest.h"
#include "hlo/proto/proto.h"
#include "hlo/stablehlo/stablehlo.h"
#include "hlo/text/text.h"
#include "tools/program.h"

static const CliOption kOptions[] = {
    {"to", CLI_TEXT, "hlo|stablehlo|bytecode|proto|dot",
     "hlo (default), stablehlo (MLIR text), bytecode (portable StableHLO), proto (HloModuleProto) or dot (Graphviz)."},
    {"print", CLI_TEXT, "long|short|canonical",
     "Of hlo: long (default, as XLA's to_string()), short or canonical. Of stablehlo: long (default, with locations) "
     "or short."},
    {"elide-constants", CLI_FLAG, NULL,
     "Of hlo: {...} in place of constants of more than 10 elements, byte for byte what XLA's to_string() prints. Such "
     "text can be run only with made-up values."},
    {"large-constants", CLI_FLAG, NULL, "Of hlo: all constants in full, which is the default."},
    {"generic", CLI_FLAG, NULL,
     "Of stablehlo: MLIR's generic form, \"stablehlo.add\"(%0, %1) : …, for tools that do not know StableHLO."},
    {"release", CLI_TEXT, "VERSION",
     "Of bytecode: the StableHLO release that has to read it, 0.9.0 to 1.20.0; 1.10.0 if not given."},
    {"config", CLI_FLAG, NULL,
     "Of proto: HloModuleProtoWithConfig, which has the numbers of replicas and partitions, and what else a "
     "HloModuleConfigProto said when it was read."},
    {"o", CLI_OUTPUT, "OUT", "Write to OUT."},
};
static const CliOptionTable kTable = CLI_TABLE(kOptions);

enum { kHlo, kDot, kProto, kStablehlo, kBytecode };
enum { kLong, kShort, kCanonical };
static const char *const kFormats[] = {"hlo", "dot", "proto", "stablehlo", "bytecode"};
static const char *const kForms[] = {"long", "short", "canonical"};

// The first name is the default. *choice is the index in `names`.
static HloStatus choose(CliContext *context, const char *option, const char *const *names, int64_t count,
                        int64_t *choice) {
    assert(option && names && count > 0 && choice);
    const char *text = cli_text_or(context, option, names[0]);
    for (*choice = 0; *choice < count; ++*choice) {
        if (strcmp(text, names[*choice]) == 0) return HLO_SUCCESS;
    }
    const char *nearest = hlo_nearest_name(text, names, count);
    return cli_usage_error(context, "--%s: unknown value '%s'; did you mean %s?", option, text,
                           nearest ? nearest : names[0]);
}

// Refuses an option that does not apply to the requested format. Each option has a bit set of formats: only `kOwners`
// defines which belong together.
static HloStatus check_options(CliContext *context, int64_t format, int64_t form) {
    static const struct {
        const char *option;
        unsigned formats;  // the formats that it speaks about, a bit each
    } kOwners[] = {{"print", 1u << kHlo | 1u << kStablehlo},
                   {"large-constants", 1u << kHlo},
                   {"elide-constants", 1u << kHlo},
                   {"generic", 1u << kStablehlo},
                   {"release", 1u << kBytecode},
                   {"config", 1u << kProto}};
    assert(format >= 0 && format < (int64_t)HLO_COUNT_OF(kFormats) && form >= 0);
    for (size_t i = 0; i < HLO_COUNT_OF(kOwners); ++i) {
        if (!cli_flag(context, kOwners[i].option) || kOwners[i].formats >> format & 1) continue;
        return cli_usage_error(context, "--%s does not apply to --to %s (see meshlo convert --help)", kOwners[i].option,
                               kFormats[format]);
    }
    if (cli_flag(context, "large-constants") && cli_flag(context, "elide-constants"))
        return cli_usage_error(context, "--large-constants and --elide-constants exclude each other");
    if (format == kStablehlo && form == kCanonical) {
        return cli_usage_error(context, "--print canonical is for hlo; stablehlo has long and short");
    }
    return HLO_SUCCESS;
}

// What a format cannot express is an error that names it (exit code 4), never left out.
static HloStatus print_format(CliContext *context, const HloModule *module, int64_t format, int64_t form,
                              HloText *text) {
    HloPrintOptions forms[] = {hlo_print_default(), hlo_print_short(), hlo_print_canonical()};
    if (format == kDot) return hlo_dot_draw(module, text);
    if (format == kProto && cli_flag(context, "config")) return hlo_module_to_proto_with_config(module, text);
    if (format == kProto) return hlo_module_to_proto(module, text);
    if (format == kStablehlo && cli_flag(context, "generic")) {
        return hlo_module_to_stablehlo_generic(module, form == kLong, text);
    }
    if (format == kStablehlo) return hlo_module_to_stablehlo_text(module, form == kLong, text);
    if (format == kBytecode) {
        HloStatus status = hlo_module_to_stablehlo_bytecode(module, cli_text(context, "release"), text);
        if (hlo_status_code(status) != HLO_INVALID_ARGUMENT) return status;
        context->stage = CLI_STAGE_USAGE;  // the one thing that it refuses as invalid is the release
        return hlo_status_annotate(status, "--release");
    }
    forms[form].print_large_constants = !cli_flag(context, "elide-constants");
    HLO_TRY(hlo_print(module, &forms[form], text));
    if (text->length && text->data[text->length - 1] != '\n') hlo_text_char(text, '\n');
    return hlo_text_status(text);
}

static HloStatus run_convert(CliContext *context) {
    int64_t format, form;
    HloModule *module = NULL;
    HloText text = {0};
    HLO_TRY(choose(context, "to", kFormats, HLO_COUNT_OF(kFormats), &format));
    HLO_TRY(choose(context, "print", kForms, HLO_COUNT_OF(kForms), &form));
    HLO_TRY(check_options(context, format, form));
    HLO_TRY(cli_program_load(context, context->arguments.items[0], &module));
    HloStatus status = print_format(context, module, format, form, &text);
    if (!status) status = cli_write_output(context, &text);
    hlo_text_free(&text);
    hlo_module_free(module);
    return status;
}

const CliVerb cli_verb_convert = {
    .name = "convert",
    .arguments = "FILE",
    .summary = "Parse, verify and print a program in another format.",
    .examples = "meshlo convert step.hlo.xz --print short\nmeshlo convert - --to dot -o step.dot < step.hlo",
    .least_arguments = 1,
    .most_arguments = 1,
    .tables = {&kTable, &cli_program_options},
    .run = run_convert,
};
