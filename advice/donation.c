// SPDX-License-Identifier: Apache-2.0
// Donation that is missing: arguments whose new values are results, of which a step holds both until it ends.
//
//     jax.jit(step)                                                params, moments and their new values: 4 arrays
//     jax.jit(step, donate_argnames=('params', 'moments'))         the new values take the old ones' memory: 2
//
// JAX donates whole arguments of the function. One that nearly all of whose bytes have new values is worth it.
#include <assert.h>
#include <string.h>

#include "advice/internal.h"

enum { MOST_NAMED = 4 };

typedef struct Donation {
    AdviceRequest *request;
    HloArena *arena;
    const SpmdBoundary *boundary;
    bool *is_donated;    // by flattened parameter: in the program as it is
    bool *is_updated;    // by flattened parameter: a result is its new value
    const char **roots;  // by flattened parameter: the function's argument that it is a part of
} Donation;

// "params" of params['layers'][0] and of params__layers__, as JAX's HLO text has it; "args[1]" of args[1]['x'].
static const char *root_of(HloArena *arena, const char *name) {
    const char *mangled = strstr(name, "__");
    size_t length = strcspn(name, "[.");
    if (name[length] != '[' && mangled > name && name[length - 1] == '_') length = (size_t)(mangled - name);
    if (length == 4 && !memcmp(name, "args", 4) && name[4] == '[') length += strcspn(name + length, "]") + 1;
    return hlo_arena_string(arena, name, length);
}

static void read_program(Donation *donation) {
    const AdviceRequest *request = donation->request;
    const HloModule *module = request->module;
    const SpmdBoundary *boundary = donation->boundary;
    const int64_t count = boundary->parameter_count;
    donation->is_donated = HLO_ARENA_NEW(donation->arena, bool, count + 1);
    donation->is_updated = HLO_ARENA_NEW(donation->arena, bool, count + 1);
    donation->roots = HLO_ARENA_NEW(donation->arena, const char *, count + 1);
    for (int64_t i = 0; i < module->aliases.count; i++)
        if (module->aliases.items[i].operand < count) donation->is_donated[module->aliases.items[i].operand] = true;
    for (int64_t i = 0; i < module->donor_count; i++)
        if (module->donors[i].parameter < count) donation->is_donated[module->donors[i].parameter] = true;
    for (int64_t r = 0; r < boundary->result_count; r++) {
        const HloInt64Vector leaves = advice_updated_leaves(&request->facts, r);
        for (int64_t i = 0; i < leaves.count; i++) donation->is_updated[leaves.items[i]] = true;
    }
    for (int64_t p = 0; p < count; p++)
        donation->roots[p] = root_of(donation->arena, advice_parameter_name(donation->arena, module, p));
}

// Whether an argument of the function is worth donating: nearly all of it has new values, and is not donated yet.
static bool is_worth(const Donation *donation, const char *root) {
    const double kNearlyAll = 0.9;
    double all = 0, updated = 0;
    for (int64_t p = 0; p < donation->boundary->parameter_count; p++) {
        const double bytes = (double)hlo_shape_bytes(donation->boundary->parameters[p].local);
        if (strcmp(donation->roots[p], root) != 0) continue;
        all += bytes;
        if (donation->is_updated[p] && !donation->is_donated[p]) updated += bytes;
    }
    return updated > 0 && updated >= kNearlyAll * all;
}

// Lists the arguments that are worth it, each once.
static HloStringVector list_roots(const Donation *donation) {
    HloStringVector roots = {0};
    for (int64_t p = 0; p < donation->boundary->parameter_count; p++) {
        bool known = !donation->is_updated[p];
        for (int64_t i = 0; i < roots.count && !known; i++) known = !strcmp(roots.items[i], donation->roots[p]);
        if (!known && is_worth(donation, donation->roots[p]))
            hlo_vector_push(donation->arena, &roots, donation->roots[p]);
    }
    return roots;
}

// Declares the donors of these arguments.
static void add_donors(const Donation *donation, const HloStringVector *roots, HloModule *module) {
    HLO_VECTOR(HloDonor) donors = {0};
    for (int64_t i = 0; i < module->donor_count; i++) hlo_vector_push(module->arena, &donors, module->donors[i]);
    for (int64_t p = 0; p < donation->boundary->parameter_count; p++) {
        bool is_listed = false;
        for (int64_t i = 0; i < roots->count; i++) is_listed |= !strcmp(roots->items[i], donation->roots[p]);
        if (is_listed && donation->is_updated[p] && !donation->is_donated[p])
            hlo_vector_push(module->arena, &donors, ((HloDonor){.parameter = p}));
    }
    module->donors = donors.items;
    module->donor_count = donors.count;
}

// "donate params and moments, …: jax.jit(…, donate_argnames=('params', 'moments'))".
static const char *words_of(const Donation *donation, const HloStringVector *roots) {
    HloText text = {0};
    bool by_number = true, by_name = true;
    const int64_t named = roots->count <= MOST_NAMED ? roots->count : MOST_NAMED - 1;
    for (int64_t i = 0; i < roots->count; i++) {
        const bool is_number = !strncmp(roots->items[i], "args[", 5);
        by_number &= is_number;
        by_name &= !is_number && roots->items[i][strlen(roots->items[i]) - 1] != '_';  // params_0_
    }
    for (int64_t p = 0; p < donation->boundary->parameter_count; p++)
        by_name &= *spmd_argument_name(donation->request->module->entry->parameters.items[p]) != 0;
    hlo_text_string(&text, "donate ");
    for (int64_t i = 0; i < named; i++)
        hlo_text_format(&text, "%s%s", !i ? "" : i + 1 < roots->count ? ", " : " and ", roots->items[i]);
    if (named < roots->count) hlo_text_format(&text, " and %lld more", (long long)(roots->count - named));
    hlo_text_string(&text, ", whose new values are results and take their memory then");
    if (by_number || by_name) {
        hlo_text_format(&text, ": jax.jit(..., donate_%s=(", by_number ? "argnums" : "argnames");
        for (int64_t i = 0; i < roots->count; i++) {
            const char *root = roots->items[i];
            hlo_text_string(&text, i ? ", " : "");
            if (by_number)
                hlo_text_append(&text, root + 5, strcspn(root + 5, "]"));
            else
                hlo_text_format(&text, "'%s'", root);
        }
        hlo_text_string(&text, roots->count == 1 ? ",))" : "))");
    }
    return hlo_text_to_arena(donation->arena, &text);
}

// Compiles and times a copy of the program with these donors.
static HloStatus try_donors(const Donation *donation, const HloStringVector *roots) {
    AdviceRequest *request = donation->request;
    CompileOptions compile = *request->compile;
    HloModule *copy = hlo_module_clone(request->module);
    HLO_FAIL_IF(!copy, HLO_RESOURCE_EXHAUSTED, "no memory for a copy of the program");
    const EmuOptions emulation = {.device_assignment = request->options->device_assignment,
                                  .device_assignment_count = request->options->device_assignment_count};
    compile.is_verified = true;
    compile.dump = (CompileDump){0};
    add_donors(donation, roots, copy);
    HloStatus status = advice_trial_run(copy, &compile, request->options->topology, &emulation, &request->trial);
    hlo_module_free(copy);
    return status;
}

HloStatus advice_suggest_donation(AdviceRequest *request) {
    const double kHelps = 0.99, kSame = 1.001;
    AdviceReport *report = request->report;
    Donation donation = {.request = request, .arena = report->arena, .boundary = request->compiled->boundary};
    // Arguments of JAX are arrays. The numbers of others would not be those of their leaves.
    if (request->compiled->was_per_device ||
        donation.boundary->parameter_count != request->module->entry->parameters.count)
        return HLO_SUCCESS;
    read_program(&donation);
    const HloStringVector roots = list_roots(&donation);
    if (!roots.count) return HLO_SUCCESS;
    HloStatus status = try_donors(&donation, &roots);
    if (!status) {
        const EmuReport *emulated = request->trial.report;
        const AdviceSuggestion suggestion = {
            .text = words_of(&donation, &roots),
            .step_picoseconds = emulated->step_picoseconds,
            .hbm_peak_bytes = emulated->hbm_peak_bytes,
            .bytes_per_device = request->trial.compiled->report->total_bytes_per_device,
            .fits = !emu_report_out_of_memory(emulated)};
        if (suggestion.fits >= report->fits &&
            (double)suggestion.hbm_peak_bytes <= kHelps * (double)report->hbm_peak_bytes &&
            (double)suggestion.step_picoseconds <= kSame * (double)report->step_picoseconds)
            report->donation = hlo_arena_copy(report->arena, &suggestion, sizeof(suggestion));
    }
    advice_trial_free(&request->trial);
    if (hlo_status_code(status) == HLO_RESOURCE_EXHAUSTED) return status;
    hlo_status_free(status);
    return HLO_SUCCESS;
}
