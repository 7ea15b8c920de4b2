// SPDX-License-Identifier: Apache-2.0
// meshlo version: what this build is and what it runs on.
#include <hwloc.h>
#include <libxml/xmlversion.h>
#include <lzma.h>
#include <zlib.h>
#include <zstd.h>

#include "meshlo_version.h"
#include "targets/cpu/blas/blas.h"
#include "targets/cpu/host/features.h"
#include "targets/cpu/lower/fallbacks.h"
#include "tools/cli.h"

static const CliOption kOptions[] = {
    {"json", CLI_FLAG, NULL, "Print JSON."},
};
static const CliOptionTable kTable = CLI_TABLE(kOptions);

// Prints the ops that the engine leaves to the reference evaluator, from targets/cpu/lower/lowerings.def: a test of
// every op holds that list to the engine's behaviour.
static void print_evaluated(HloJsonWriter *json) {
    hlo_json_key(json, "evaluated");
    hlo_json_begin_array(json);
    for (int opcode = 0; opcode < HLO_OPCODE_COUNT; ++opcode) {
        const char *reason = cpu_fallback_reason((HloOpcode)opcode);
        if (!reason) continue;
        hlo_json_begin_object(json);
        hlo_json_member_string(json, "op", hlo_op_text((HloOpcode)opcode));
        hlo_json_member_string(json, "when", reason);
        hlo_json_end_object(json);
    }
    hlo_json_end_array(json);
    hlo_json_key(json, "evaluated_custom_calls");
    hlo_json_begin_array(json);
    for (int64_t i = 0; cpu_fallback_custom_call(i); ++i) hlo_json_string(json, cpu_fallback_custom_call(i));
    hlo_json_end_array(json);
}

// The engine for linear algebra: the choice of MESHLO_BLAS, then the library and the core whose kernels it uses, or the
// reason it cannot be used. Nothing is loaded if the choice rules it out.
typedef struct Blas {
    CpuBlasChoice choice;
    const CpuBlas *library;  // NULL: not used
    HloStatus missing;
} Blas;

static HloStatus find_blas(Blas *blas) {
    *blas = (Blas){0};
    HLO_TRY(cpu_blas_choose(&blas->choice));
    if (blas->choice != CPU_BLAS_BUILTIN) blas->missing = cpu_blas_open(&blas->library);
    return HLO_SUCCESS;
}

static void print_blas(HloText *out, const Blas *blas) {
    hlo_text_format(out, "blas: %s", cpu_blas_choice_name(blas->choice));
    if (blas->library)
        hlo_text_format(out, " (%s, core %s)", blas->library->config, blas->library->core);
    else if (blas->missing)
        hlo_text_format(out, " (builtin only: %s)", hlo_status_message(blas->missing));
    hlo_text_char(out, '\n');
}

static void print_blas_json(HloJsonWriter *json, const Blas *blas) {
    hlo_json_key(json, "blas");
    hlo_json_begin_object(json);
    hlo_json_member_string(json, "choice", cpu_blas_choice_name(blas->choice));
    if (blas->library) {
        hlo_json_member_string(json, "library", blas->library->config);
        hlo_json_member_string(json, "core", blas->library->core);
    }
    if (blas->missing) hlo_json_member_string(json, "missing", hlo_status_message(blas->missing));
    hlo_json_end_object(json);
}

// CPU features are those in use, after MESHLO_CPU_FEATURES has lowered them.
static HloStatus run_version(CliContext *context) {
    CpuFeatures features;
    Blas blas;
    HLO_TRY(cpu_features_choose(&features));
    HLO_TRY(find_blas(&blas));
    char hwloc_version[32];
    snprintf(hwloc_version, sizeof hwloc_version, "%u.%u", hwloc_get_api_version() >> 16,
             hwloc_get_api_version() >> 8 & 255);
    const struct {
        const char *name, *version;
    } libraries[] = {{"hwloc", hwloc_version},
                     {"libxml2", LIBXML_DOTTED_VERSION},
                     {"liblzma", lzma_version_string()},
                     {"zlib", zlibVersion()},
                     {"libzstd", ZSTD_versionString()}};
    if (!cli_flag(context, "json")) {
        hlo_text_format(&context->out, "meshlo %s (%s, %s)\ncpu features: %s\n", MESHLO_VERSION, MESHLO_BUILD_TYPE,
                        MESHLO_COMPILER, cpu_features_name(features));
        print_blas(&context->out, &blas);
        hlo_status_free(blas.missing);
        for (size_t i = 0; i < HLO_COUNT_OF(libraries); ++i) {
            hlo_text_format(&context->out, "%s %s\n", libraries[i].name, libraries[i].version);
        }
        return HLO_SUCCESS;
    }
    HloJsonWriter json = {.text = &context->out, .lines = 1};
    hlo_json_begin_object(&json);
    hlo_json_member_string(&json, "version", MESHLO_VERSION);
    hlo_json_member_string(&json, "build", MESHLO_BUILD_TYPE);
    hlo_json_member_string(&json, "compiler", MESHLO_COMPILER);
    hlo_json_member_string(&json, "cpu_features", cpu_features_name(features));
    print_blas_json(&json, &blas);
    hlo_status_free(blas.missing);
    hlo_json_key(&json, "libraries");
    hlo_json_begin_object(&json);
    for (size_t i = 0; i < HLO_COUNT_OF(libraries); ++i) {
        hlo_json_member_string(&json, libraries[i].name, libraries[i].version);
    }
    hlo_json_end_object(&json);
    print_evaluated(&json);
    hlo_json_end_object(&json);
    hlo_text_char(&context->out, '\n');
    return HLO_SUCCESS;
}

const CliVerb cli_verb_version = {
    .name = "version",
    .arguments = "",
    .summary = "Print the version, the build, the CPU features in use and the libraries.",
    .examples = "meshlo version\nmeshlo version --json",
    .tables = {&kTable},
    .run = run_version,
};
