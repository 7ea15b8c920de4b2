// SPDX-License-Identifier: Apache-2.0
// The report as a table and as JSON.
//
//     jit_step on v5e-8, mesh data=4,model=2 (the program's): step 15.500 ms, of which it waits 2.310 ms (14.9 %) …
//
//        waits   share      network        sent   times  what
//     1.200 ms   7.7 %     1.900 ms   96.00 MiB  32 x 2  all-gather over data: params['layers'][*]['wq'] (FSDP …)
#include <assert.h>
#include <string.h>

#include "advice/internal.h"
#include "emulator/report.h"

// Groups that cost less than this share are one line.
#define FOLDED 0.01

// Appends `cell` right-aligned in `width` columns, and empties it.
static void align(HloText *text, HloText *cell, int width) {
    hlo_text_format(text, "%*s", width, cell->data ? cell->data : "");
    hlo_text_free(cell);
    *cell = (HloText){0};
}

static void print_amount(HloText *text, const AdviceReport *report, const AdviceAmount *amount) {
    HloText cell = {0};
    if (report->step_picoseconds) {
        emu_print_time_in_column(amount->waited, 12, text);
        hlo_text_format(text, "  %5.1f %%", 100 * (double)amount->waited / (double)report->step_picoseconds);
        emu_print_time_in_column(amount->picoseconds, 13, text);
    } else {
        hlo_text_format(text, "%7.1f %%", 100 * advice_share(report, amount));
    }
    emu_print_size(amount->bytes, &cell);
    align(text, &cell, 12);
}

static void print_times(HloText *text, int64_t count) {
    HloText cell = {0};
    hlo_text_format(&cell, "x %lld", (long long)count);
    align(text, &cell, 11);
}

// How often: equal collectives of several layers, times the iterations of loops around them.
static void print_sites(HloText *text, const AdviceAmount *amount) {
    const int64_t trips = amount->sites ? amount->count / amount->sites : 0;
    if (trips <= 1 || amount->sites <= 1 || trips * amount->sites != amount->count) {
        print_times(text, amount->count);
        return;
    }
    HloText cell = {0};
    hlo_text_format(&cell, "x %lld x %lld", (long long)amount->sites, (long long)trips);
    align(text, &cell, 11);
}

static void print_head(HloText *text, const AdviceReport *report) {
    if (*report->topology) hlo_text_format(text, "on %s", report->topology);
    if (*report->mesh) {
        hlo_text_format(text, "%smesh %s", text->length ? ", " : "", report->mesh);
        if (*report->mesh_source) hlo_text_format(text, " (%s)", report->mesh_source);
    }
    hlo_text_format(text, "%s%lld collective%s on %lld device%s, ", text->length ? ": " : "",
                    (long long)report->collectives->collective_count,
                    report->collectives->collective_count == 1 ? "" : "s", (long long)report->num_partitions,
                    report->num_partitions == 1 ? "" : "s");
    emu_print_size(report->bytes_per_device, text);
    hlo_text_string(text, " sent by each device\n");
    if (!report->step_picoseconds) return;
    hlo_text_string(text, "step ");
    emu_print_time(report->step_picoseconds, text);
    hlo_text_string(text, ", of which it waits ");
    emu_print_time(report->exposed_picoseconds, text);
    hlo_text_format(text, " (%.1f %%) for the network; peak memory ",
                    100 * (double)report->exposed_picoseconds / (double)report->step_picoseconds);
    emu_print_size(report->hbm_peak_bytes, text);
    hlo_text_string(text, report->fits ? "\n" : ", which does not fit\n");
}

static void print_group(HloText *text, const AdviceReport *report, const AdviceGroup *group) {
    print_amount(text, report, &group->amount);
    print_sites(text, &group->amount);
    hlo_text_format(text, "  %s", group->opcode);
    if (*group->axes) hlo_text_format(text, " over %s", group->axes);
    hlo_text_format(text, ": %s (%s)", group->what, advice_kind_title(group->kind));
    if (*group->scope) hlo_text_format(text, " in %s", group->scope);
    if (*group->source) hlo_text_format(text, ", %s", group->source);
    hlo_text_char(text, '\n');
}

static void print_header(HloText *text, const AdviceReport *report) {
    hlo_text_string(text, report->step_picoseconds
                              ? "\n       waits    share      network        sent      times  what\n"
                              : "\n    share        sent      times  what\n");
}

static void print_groups(HloText *text, const AdviceReport *report) {
    AdviceAmount rest = {0};
    int64_t folded = 0;
    if (report->group_count) print_header(text, report);
    for (int64_t i = 0; i < report->group_count; i++) {
        const AdviceGroup *group = &report->groups[i];
        if (advice_share(report, &group->amount) >= FOLDED) {
            print_group(text, report, group);
            continue;
        }
        folded++;
        rest.count += group->amount.count;
        rest.bytes += group->amount.bytes;
        rest.picoseconds += group->amount.picoseconds;
        rest.waited += group->amount.waited;
    }
    if (!folded) return;
    print_amount(text, report, &rest);
    print_times(text, rest.count);
    hlo_text_format(text, "  %lld other%s of less than 1 %% each\n", (long long)folded, folded == 1 ? "" : "s");
}

static void print_totals(HloText *text, const AdviceReport *report, const char *title, const AdviceTotal *totals,
                         int64_t count) {
    if (!count) return;
    hlo_text_format(text, "\n%s\n", title);
    for (int64_t i = 0; i < count; i++) {
        print_amount(text, report, &totals[i].amount);
        print_times(text, totals[i].amount.count);
        hlo_text_format(text, "  %s\n", totals[i].name);
    }
}

// One line a cause, however many groups have it.
static void print_warnings(HloText *text, const AdviceReport *report) {
    for (int64_t i = 0; i < report->group_count; i++) {
        const AdviceGroup *group = &report->groups[i];
        if (!*group->cause || advice_share(report, &group->amount) < FOLDED) continue;
        bool seen = false;
        for (int64_t k = 0; k < i; k++) seen |= !strcmp(report->groups[k].cause, group->cause);
        if (seen) continue;
        hlo_text_format(text, "\nwarning: %s of %s: %s\n",
                        group->kind == ADVICE_KIND_ACCIDENTAL ? "accidental gather" : "resharding", group->what,
                        group->cause);
    }
}

// "1.5 GiB instead of 1.3 GiB", or one of them where both are written alike.
static void print_change(HloText *text, int64_t before, int64_t after, void (*print)(int64_t, HloText *)) {
    HloText old = {0}, now = {0};
    print(before, &old);
    print(after, &now);
    if (now.data) hlo_text_string(text, now.data);
    if (now.data && old.data && strcmp(old.data, now.data) != 0) hlo_text_format(text, " instead of %s", old.data);
    text->failed |= old.failed || now.failed;
    hlo_text_free(&old);
    hlo_text_free(&now);
}

static void print_suggestion(HloText *text, const AdviceReport *report, const AdviceSuggestion *one) {
    hlo_text_string(text, "  step ");
    print_change(text, report->step_picoseconds, one->step_picoseconds, emu_print_time);
    hlo_text_format(text, " (%+.1f %%), peak ",
                    100 * ((double)one->step_picoseconds / (double)report->step_picoseconds - 1));
    print_change(text, report->hbm_peak_bytes, one->hbm_peak_bytes, emu_print_size);
    if (one->fits != report->fits) hlo_text_string(text, one->fits ? ", which fits" : ", which does not fit");
    hlo_text_string(text, ", sends ");
    print_change(text, report->bytes_per_device, one->bytes_per_device, emu_print_size);
    hlo_text_format(text, "\n    %s\n   ", one->text);
    for (int64_t i = 0; i < one->option_count; i++)
        hlo_text_format(text, one->options[i][0] == '-' ? " %s" : " \"%s\"", one->options[i]);
    hlo_text_char(text, '\n');
}

static void print_donation(HloText *text, const AdviceReport *report) {
    const AdviceSuggestion *one = report->donation;
    if (!one) return;
    hlo_text_string(text, "\nwhat saves memory:\n  peak ");
    print_change(text, report->hbm_peak_bytes, one->hbm_peak_bytes, emu_print_size);
    if (one->fits != report->fits) hlo_text_string(text, ", which fits");
    hlo_text_format(text, "\n    %s\n", one->text);
}

static void print_suggestions(HloText *text, const AdviceReport *report) {
    const long long tried = (long long)report->tried;
    if (!report->step_picoseconds && report->num_partitions > 1) {
        hlo_text_string(text, "\nwith a slice (--on v5e-8) this table has times, and changes are tried\n");
    } else if (report->suggestion_count) {
        hlo_text_format(text, "\nwhat helps, of %lld changes that were tried%s:\n", tried,
                        report->is_incomplete ? " before the budget ended" : "");
        for (int64_t i = 0; i < report->suggestion_count; i++) print_suggestion(text, report, &report->suggestions[i]);
    } else if (report->is_incomplete) {
        hlo_text_format(text, "\nno change helps of the %lld that were tried before the budget ended\n", tried);
    } else if (report->tried) {
        hlo_text_string(text, report->fits ? "\nthe plan is sound: " : "\n");
        if (tried == 1)
            hlo_text_string(text, "the one change that was tried does not make ");
        else
            hlo_text_format(text, "none of the %lld changes that were tried makes ", tried);
        hlo_text_string(text, report->fits ? "the step 1 % faster\n" : "the program fit\n");
    }
}

void advice_print(HloText *text, const AdviceReport *report) {
    assert(text && report);
    HloText head = {0};
    print_head(&head, report);
    if (head.data) hlo_text_string(text, head.data);
    hlo_text_free(&head);
    print_groups(text, report);
    if (report->group_count > 1) {
        print_totals(text, report, "by kind", report->kinds, report->kind_count);
        print_totals(text, report, "by axes", report->axes, report->axis_count);
    }
    print_warnings(text, report);
    print_suggestions(text, report);
    print_donation(text, report);
}

// ---- JSON

static void json_amount(HloJsonWriter *writer, const AdviceReport *report, const AdviceAmount *amount) {
    hlo_json_member_int64(writer, "sites", amount->sites);
    hlo_json_member_int64(writer, "count", amount->count);
    hlo_json_member_int64(writer, "bytes_per_device", amount->bytes);
    if (!report->step_picoseconds) return;
    hlo_json_member_double(writer, "network_seconds", (double)amount->picoseconds * 1e-12);
    hlo_json_member_double(writer, "exposed_seconds", (double)amount->waited * 1e-12);
}

static void json_totals(HloJsonWriter *writer, const AdviceReport *report, const char *key, const AdviceTotal *totals,
                        int64_t count) {
    hlo_json_key(writer, key);
    hlo_json_begin_array(writer);
    for (int64_t i = 0; i < count; i++) {
        hlo_json_begin_object(writer);
        hlo_json_member_string(writer, "name", totals[i].name);
        json_amount(writer, report, &totals[i].amount);
        hlo_json_end_object(writer);
    }
    hlo_json_end_array(writer);
}

static void json_groups(HloJsonWriter *writer, const AdviceReport *report) {
    hlo_json_key(writer, "groups");
    hlo_json_begin_array(writer);
    for (int64_t i = 0; i < report->group_count; i++) {
        const AdviceGroup *group = &report->groups[i];
        const char *const texts[][2] = {{"kind", advice_kind_key(group->kind)},
                                        {"opcode", group->opcode},
                                        {"axes", group->axes},
                                        {"what", group->what},
                                        {"scope", group->scope},
                                        {"source", group->source},
                                        {"cause", group->cause}};
        hlo_json_begin_object(writer);
        for (size_t k = 0; k < HLO_COUNT_OF(texts); k++) hlo_json_member_string(writer, texts[k][0], texts[k][1]);
        json_amount(writer, report, &group->amount);
        hlo_json_end_object(writer);
    }
    hlo_json_end_array(writer);
}

static void json_suggestion(HloJsonWriter *writer, const AdviceSuggestion *one) {
    hlo_json_begin_object(writer);
    hlo_json_member_string(writer, "change", one->text);
    hlo_json_key(writer, "options");
    hlo_json_begin_array(writer);
    for (int64_t k = 0; k < one->option_count; k++) hlo_json_string(writer, one->options[k]);
    hlo_json_end_array(writer);
    hlo_json_member_double(writer, "step_seconds", (double)one->step_picoseconds * 1e-12);
    hlo_json_member_int64(writer, "hbm_peak_bytes", one->hbm_peak_bytes);
    hlo_json_member_int64(writer, "bytes_per_device", one->bytes_per_device);
    hlo_json_member_bool(writer, "fits", one->fits);
    hlo_json_end_object(writer);
}

static void json_suggestions(HloJsonWriter *writer, const AdviceReport *report) {
    hlo_json_key(writer, "suggestions");
    hlo_json_begin_array(writer);
    for (int64_t i = 0; i < report->suggestion_count; i++) json_suggestion(writer, &report->suggestions[i]);
    hlo_json_end_array(writer);
    if (!report->donation) return;
    hlo_json_key(writer, "donation");
    json_suggestion(writer, report->donation);
}

void advice_json(HloJsonWriter *writer, const AdviceReport *report) {
    assert(writer && report);
    hlo_json_begin_object(writer);
    spmd_report_json_members(writer, report->collectives);
    hlo_json_member_string(writer, "topology", report->topology);
    if (report->step_picoseconds) {
        hlo_json_member_double(writer, "step_seconds", (double)report->step_picoseconds * 1e-12);
        hlo_json_member_double(writer, "exposed_collective_seconds", (double)report->exposed_picoseconds * 1e-12);
        hlo_json_member_int64(writer, "hbm_peak_bytes", report->hbm_peak_bytes);
        hlo_json_member_bool(writer, "fits", report->fits);
    }
    json_groups(writer, report);
    json_totals(writer, report, "by_kind", report->kinds, report->kind_count);
    json_totals(writer, report, "by_axes", report->axes, report->axis_count);
    json_suggestions(writer, report);
    hlo_json_member_int64(writer, "tried", report->tried);
    hlo_json_member_bool(writer, "complete", !report->is_incomplete);
    hlo_json_end_object(writer);
}

void advice_write_json(const AdviceReport *report, HloText *text) {
    HloJsonWriter writer = {.text = text, .lines = 2};
    advice_json(&writer, report);
    hlo_text_char(text, '\n');
}
