// SPDX-License-Identifier: Apache-2.0
// Donation that is missing: arguments whose new values are results, of which a step holds both until it ends.
//
//     jax.jit(step)                                                params, moments and their new values: 4 arrays
//     jax.jit(step, donate_argnames=('params', 'moments'))         the new values take the old ones' memory: 2
//
// JAX donates whole arguments of the function. One that nearly all of whose bytes have new values is worth it.
#include <assert.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "advice/internal.h"

enum { MOST_NAMED = 4 };

typedef HLO_VECTOR(HloDonor) DonorVector;

// An argument of the function, of which parameters are parts.
typedef struct Argument {
    const char *name;
    double bytes, updated;  // of all parts, and of those that a result replaces and that are not donated
} Argument;

typedef HLO_VECTOR(Argument *) ArgumentVector;

typedef struct Donation {
    AdviceRequest *request;
    HloArena *arena;
    const SpmdBoundary *boundary;
    bool *is_donated;       // by flattened parameter: in the program as it is
    bool *is_updated;       // by flattened parameter: a result replaces it
    Argument **arguments;   // by flattened parameter: of which it is a part
    ArgumentVector listed;  // these, each once
} Donation;

// Whether a name has the form of an argument of a Python function, not the mangled one of a part of it (params_0_).
static bool is_identifier(const char *name) {
    const size_t length = strlen(name);
    if (!length || name[length - 1] == '_' || (*name >= '0' && *name <= '9')) return false;
    for (const char *at = name; *at; at++)
        if (!isalnum((unsigned char)*at) && *at != '_') return false;
    return true;
}

// Whether a root is "args[1]", an argument that has a number alone.
static bool is_numbered(const char *root) {
    const size_t digits = !strncmp(root, "args[", 5) ? strspn(root + 5, "0123456789") : 0;
    return digits > 0 && !strcmp(root + 5 + digits, "]");
}

// "params" of params['layers'][0] and of params__layers__, as JAX's HLO text has it; "args[1]" of args[1]['x'].
static const char *root_of(HloArena *arena, const char *name) {
    const char *mangled = strstr(name, "__");
    size_t length = strcspn(name, "[.");
    if (name[length] != '[' && mangled > name && name[length - 1] == '_') length = (size_t)(mangled - name);
    if (!strncmp(name, "args[", 5) || !strncmp(name, "kwargs[", 7)) {
        length += strcspn(name + length, "]");
        length += name[length] == ']';
    }
    return hlo_arena_string(arena, name, length ? length : strlen(name));
}

// A parameter and the results that are computed from it element by element.
typedef struct Reach {
    int64_t leaf;
    HloInt64Vector results;
    bool is_donated;
} Reach;

// Donated parameters first, then those that reach the fewest results: gradients reach the new weights and the new
// moments, old moments both too, an old weight the new one alone.
static int compare_reaches(const void *left, const void *right) {
    const Reach *a = left, *b = right;
    if (a->is_donated != b->is_donated) return a->is_donated ? -1 : 1;
    if (a->results.count != b->results.count) return a->results.count < b->results.count ? -1 : 1;
    return (a->leaf > b->leaf) - (a->leaf < b->leaf);
}

// Finds the parameters whose memory a result can take, each result that of one: a sum of two arrays replaces one of
// them.
static void find_updated(Donation *donation) {
    const SpmdBoundary *boundary = donation->boundary;
    const int64_t count = boundary->parameter_count;
    Reach *reaches = HLO_ARENA_NEW(donation->arena, Reach, count + 1);
    int64_t *sources = HLO_ARENA_NEW(donation->arena, int64_t, boundary->result_count + 1);
    bool *is_taken = HLO_ARENA_NEW(donation->arena, bool, boundary->result_count + 1);
    for (int64_t p = 0; p < count; p++) reaches[p] = (Reach){.leaf = p, .is_donated = donation->is_donated[p]};
    for (int64_t r = 0; r < boundary->result_count; r++) {
        const HloInt64Vector leaves = advice_updated_leaves(&donation->request->facts, r);
        sources[r] = leaves.count;
        for (int64_t i = 0; i < leaves.count; i++)
            if (boundary->results[r].global->type == boundary->parameters[leaves.items[i]].global->type)
                hlo_vector_push(donation->arena, &reaches[leaves.items[i]].results, r);
    }
    qsort(reaches, (size_t)count, sizeof(*reaches), compare_reaches);
    for (int64_t p = 0; p < count; p++) {
        int64_t best = -1;
        for (int64_t i = 0; i < reaches[p].results.count; i++) {
            const int64_t r = reaches[p].results.items[i];
            if (!is_taken[r] && (best < 0 || sources[r] < sources[best])) best = r;
        }
        if (best < 0) continue;
        is_taken[best] = true;
        donation->is_updated[reaches[p].leaf] = true;
    }
}

// Finds the arguments in the order of their first parts.
static void find_arguments(Donation *donation) {
    const SpmdBoundary *boundary = donation->boundary;
    HloStringMap by_name = {0};
    donation->arguments = HLO_ARENA_NEW(donation->arena, Argument *, boundary->parameter_count + 1);
    for (int64_t p = 0; p < boundary->parameter_count; p++) {
        const double bytes = (double)hlo_shape_bytes(boundary->parameters[p].local);
        const char *name =
            root_of(donation->arena, advice_parameter_name(donation->arena, donation->request->module, p));
        Argument *argument = hlo_string_map_get(&by_name, name, strlen(name));
        if (!argument) {
            argument = HLO_ARENA_NEW(donation->arena, Argument, 1);
            argument->name = name;
            hlo_string_map_set(donation->arena, &by_name, name, strlen(name), argument);
            hlo_vector_push(donation->arena, &donation->listed, argument);
        }
        argument->bytes += bytes;
        if (donation->is_updated[p] && !donation->is_donated[p]) argument->updated += bytes;
        donation->arguments[p] = argument;
    }
}

static void read_program(Donation *donation) {
    const HloModule *module = donation->request->module;
    const int64_t count = donation->boundary->parameter_count;
    donation->is_donated = HLO_ARENA_NEW(donation->arena, bool, count + 1);
    donation->is_updated = HLO_ARENA_NEW(donation->arena, bool, count + 1);
    for (int64_t i = 0; i < module->aliases.count; i++)
        if (module->aliases.items[i].operand < count) donation->is_donated[module->aliases.items[i].operand] = true;
    for (int64_t i = 0; i < module->donor_count; i++)
        if (module->donors[i].parameter < count) donation->is_donated[module->donors[i].parameter] = true;
    find_updated(donation);
    find_arguments(donation);
}

// Whether an argument is worth donating: results replace nearly all of it, and it is not donated yet.
static bool is_worth(const Argument *argument) {
    const double kNearlyAll = 0.9;
    return argument->updated > 0 && argument->updated >= kNearlyAll * argument->bytes;
}

// The names of the arguments that are worth it.
static HloStringVector list_worthy(const Donation *donation) {
    HloStringVector names = {0};
    for (int64_t i = 0; i < donation->listed.count; i++)
        if (is_worth(donation->listed.items[i]))
            hlo_vector_push(donation->arena, &names, donation->listed.items[i]->name);
    return names;
}

// The donors of the program, and of the arguments that are worth it.
static void list_donors(const Donation *donation, DonorVector *donors) {
    const HloModule *module = donation->request->module;
    for (int64_t i = 0; i < module->donor_count; i++) hlo_vector_push(donation->arena, donors, module->donors[i]);
    for (int64_t p = 0; p < donation->boundary->parameter_count; p++)
        if (is_worth(donation->arguments[p]) && donation->is_updated[p] && !donation->is_donated[p])
            hlo_vector_push(donation->arena, donors, ((HloDonor){.parameter = p}));
}

// "donate params and moments, so that …: jax.jit(…, donate_argnames=('params', 'moments'))".
static const char *words_of(const Donation *donation, const HloStringVector *roots) {
    HloText text = {0};
    bool by_number = true, by_name = true;
    const int64_t named = roots->count <= MOST_NAMED ? roots->count : MOST_NAMED - 1;
    for (int64_t i = 0; i < roots->count; i++) {
        by_number &= is_numbered(roots->items[i]);
        by_name &= is_identifier(roots->items[i]);
    }
    for (int64_t p = 0; p < donation->boundary->parameter_count; p++)
        by_name &= *spmd_argument_name(donation->request->module->entry->parameters.items[p]) != 0;
    hlo_text_string(&text, "donate ");
    for (int64_t i = 0; i < named; i++)
        hlo_text_format(&text, "%s%s", !i ? "" : i + 1 < roots->count ? ", " : " and ", roots->items[i]);
    if (named < roots->count) hlo_text_format(&text, " and %lld more", (long long)(roots->count - named));
    hlo_text_string(&text, ", so that the new values reuse the memory of the old");
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
static HloStatus try_donors(const Donation *donation) {
    AdviceRequest *request = donation->request;
    CompileOptions compile = *request->compile;
    DonorVector donors = {0};
    list_donors(donation, &donors);
    HloModule *copy = hlo_module_clone(request->module);
    HLO_FAIL_IF(!copy, HLO_RESOURCE_EXHAUSTED, "no memory for a copy of the program");
    const EmuOptions emulation = {.device_assignment = request->options->device_assignment,
                                  .device_assignment_count = request->options->device_assignment_count};
    compile.is_verified = true;
    compile.dump = (CompileDump){0};
    // They are in the report's arena: if the copy had to allocate them and memory ran out, it would leak.
    copy->donors = donors.items;
    copy->donor_count = donors.count;
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
    const HloStringVector roots = list_worthy(&donation);
    if (!roots.count) return HLO_SUCCESS;
    HloStatus status = try_donors(&donation);
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
