// SPDX-License-Identifier: Apache-2.0
// Makes the report: classifies each collective, adds up equal ones, and sums by kind and by axes.
#include "advice/internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "advice/flow.h"

static const struct {
    const char *key, *title;
    bool warned;
} KINDS[] = {
#define ADVICE_KIND(id, key, title, warned) {key, title, warned},
#include "advice/kinds.def"
#undef ADVICE_KIND
};

const char *advice_kind_key(AdviceKind kind) {
    return KINDS[kind].key;
}

const char *advice_kind_title(AdviceKind kind) {
    return KINDS[kind].title;
}

// ---- times

static int64_t times(int64_t a, int64_t b) {
    int64_t product;
    return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

static int64_t plus(int64_t a, int64_t b) {
    return a > INT64_MAX - b ? INT64_MAX : a + b;
}

// Operations of the network with one name.
typedef struct Op {
    const EmuOp *op;
    struct Op *next;
} Op;

// What the emulator says of a collective, which may run at several points of the timeline.
static void add_times(const HloStringMap *ops, const HloInstruction *op, AdviceAmount *amount) {
    const char *name = op ? advice_visible(op)->name : "";
    for (const Op *one = hlo_string_map_get(ops, name, strlen(name)); one; one = one->next) {
        amount->picoseconds = plus(amount->picoseconds, times(one->op->duration, one->op->count));
        amount->waited = plus(amount->waited, one->op->waited);
    }
}

static void index_ops(AdviceRequest *request, HloStringMap *map) {
    const EmuReport *emulated = request->emulated;
    for (int64_t i = 0; emulated && i < emulated->op_count; i++) {
        if (!emulated->ops[i].network) continue;
        const char *name = emulated->ops[i].name;
        Op *one = HLO_ARENA_NEW(request->report->arena, Op, 1);
        *one = (Op){&emulated->ops[i], hlo_string_map_get(map, name, strlen(name))};
        hlo_string_map_set(request->report->arena, map, name, strlen(name), one);
    }
}

static void index_instructions(AdviceRequest *request, HloStringMap *map) {
    const HloModule *module = request->compiled->module;
    for (int64_t c = 0; c < module->computations.count; c++)
        for (HloInstruction *at = module->computations.items[c]->first; at; at = at->next)
            if (hlo_op_is(at->opcode, HLO_OP_IS_COLLECTIVE))
                hlo_string_map_set(request->report->arena, map, at->name, strlen(at->name), at);
}

// ---- groups

typedef HLO_VECTOR(AdviceGroup) Groups;
typedef HLO_VECTOR(AdviceTotal) Totals;

static void add_amount(AdviceAmount *sum, const AdviceAmount *one) {
    sum->sites += one->sites;
    sum->count = plus(sum->count, one->count);
    sum->bytes = plus(sum->bytes, one->bytes);
    sum->picoseconds = plus(sum->picoseconds, one->picoseconds);
    sum->waited = plus(sum->waited, one->waited);
}

static bool same_group(const AdviceGroup *a, const AdviceGroup *b) {
    return a->kind == b->kind && !strcmp(a->opcode, b->opcode) && !strcmp(a->axes, b->axes) &&
           !strcmp(a->what, b->what) && !strcmp(a->scope, b->scope);
}

// Adds to the group of its like; returns the group's number.
static int32_t add_to_groups(HloArena *arena, Groups *groups, const AdviceGroup *one) {
    for (int64_t i = 0; i < groups->count; i++) {
        if (!same_group(&groups->items[i], one)) continue;
        add_amount(&groups->items[i].amount, &one->amount);
        return (int32_t)i;
    }
    hlo_vector_push(arena, groups, *one);
    return (int32_t)groups->count - 1;
}

static void add_to_totals(HloArena *arena, Totals *totals, const char *name, const AdviceAmount *amount) {
    for (int64_t i = 0; i < totals->count; i++) {
        if (strcmp(totals->items[i].name, name) != 0) continue;
        add_amount(&totals->items[i].amount, amount);
        return;
    }
    const AdviceTotal made = {name, *amount};
    hlo_vector_push(arena, totals, made);
}

// The larger first: by what the device waits for, then by the network's time, then by bytes.
static int compare_amounts(const AdviceAmount *a, const AdviceAmount *b) {
    if (a->waited != b->waited) return a->waited < b->waited ? 1 : -1;
    if (a->picoseconds != b->picoseconds) return a->picoseconds < b->picoseconds ? 1 : -1;
    return a->bytes < b->bytes ? 1 : a->bytes > b->bytes ? -1 : 0;
}

static int compare_groups(const void *a, const void *b) {
    const AdviceGroup *x = a, *y = b;
    const int order = compare_amounts(&x->amount, &y->amount);
    return order ? order : strcmp(x->what, y->what);
}

static int compare_totals(const void *a, const void *b) {
    const AdviceTotal *x = a, *y = b;
    const int order = compare_amounts(&x->amount, &y->amount);
    return order ? order : strcmp(x->name, y->name);
}

double advice_share(const AdviceReport *report, const AdviceAmount *amount) {
    if (report->step_picoseconds > 0) {
        const int64_t most = amount->waited > amount->picoseconds ? amount->waited : amount->picoseconds;
        return (double)most / (double)report->step_picoseconds;
    }
    return report->bytes_per_device > 0 ? (double)amount->bytes / (double)report->bytes_per_device : 1;
}

// Paths without the folders that say nothing.
static const char *short_source(const char *source) {
    const char *slash = strrchr(source, '/');
    return slash ? slash + 1 : source;
}

static void make_groups(AdviceRequest *request, Groups *groups, Totals *kinds, Totals *axes) {
    AdviceReport *report = request->report;
    const SpmdReport *collectives = request->compiled->report;
    HloStringMap instructions = {0}, ops = {0};
    index_instructions(request, &instructions);
    index_ops(request, &ops);
    request->findings = HLO_ARENA_NEW(report->arena, AdviceFinding, collectives->collective_count + 1);
    request->group_of = HLO_ARENA_NEW(report->arena, int32_t, collectives->collective_count + 1);
    for (int64_t i = 0; i < collectives->collective_count; i++) {
        const SpmdCollective *one = &collectives->collectives[i];
        const HloInstruction *op = hlo_string_map_get(&instructions, one->name, strlen(one->name));
        AdviceFinding *finding = &request->findings[i];
        advice_classify(&request->facts, one, op, finding);
        const int64_t count = one->trip_count > 0 ? one->trip_count : 1;
        AdviceGroup group = {.kind = finding->kind,
                             .opcode = hlo_arena_text(report->arena, one->opcode),
                             .axes = advice_axes_text(&request->facts, finding->axes),
                             .what = finding->what,
                             .scope = finding->scope,
                             .source = hlo_arena_text(report->arena, short_source(one->source)),
                             .cause = finding->cause,
                             .amount = {1, count, times(one->bytes_per_device, count), 0, 0}};
        if (request->emulated) add_times(&ops, op, &group.amount);
        request->group_of[i] = add_to_groups(report->arena, groups, &group);
        add_to_totals(report->arena, kinds, KINDS[group.kind].title, &group.amount);
        add_to_totals(report->arena, axes, *group.axes ? group.axes : "unknown axes", &group.amount);
    }
}

// Sorts the groups, and keeps the numbers of the collectives' groups.
static void sort_groups(AdviceRequest *request, Groups *groups) {
    HloArena *arena = request->report->arena;
    const int64_t count = request->compiled->report->collective_count;
    if (!groups->count) return;
    AdviceGroup *before = hlo_arena_copy(arena, groups->items, (size_t)groups->count * sizeof(AdviceGroup));
    qsort(groups->items, (size_t)groups->count, sizeof(AdviceGroup), compare_groups);
    for (int64_t i = 0; i < count; i++) {
        const AdviceGroup *old = &before[request->group_of[i]];
        int32_t at = 0;
        while (!same_group(&groups->items[at], old)) at++;
        request->group_of[i] = at;
    }
}

// ---- the report

static void set_emulated(AdviceReport *report, const EmuReport *emulated) {
    report->step_picoseconds = emulated->step_picoseconds;
    report->exposed_picoseconds = emulated->exposed_picoseconds;
    report->hbm_peak_bytes = emulated->hbm_peak_bytes;
    report->fits = !emu_report_out_of_memory(emulated);
    report->topology = hlo_arena_text(report->arena, emulated->topology);
}

// The mesh of the partitioning: that of the options, else the program's own.
static HloStatus find_mesh(AdviceRequest *request, const SpmdMeshAxis **axes, int64_t *count) {
    const SpmdOptions *spmd = &request->compile->spmd;
    HloArena *arena = request->report->arena;
    *axes = spmd->mesh;
    *count = spmd->mesh_axis_count;
    if (*count) return HLO_SUCCESS;
    HLO_TRY(spmd_module_mesh(arena, request->module, axes, count));
    int64_t devices = 1;
    for (int64_t i = 0; i < *count; i++) devices *= (*axes)[i].size;
    if (devices == request->compiled->module->num_partitions) return HLO_SUCCESS;
    SpmdMeshAxis *all = HLO_ARENA_NEW(arena, SpmdMeshAxis, 1);
    *all = (SpmdMeshAxis){"axis0", request->compiled->module->num_partitions};
    *axes = all;
    *count = 1;
    return HLO_SUCCESS;
}

static HloStatus make_report(void *argument) {
    AdviceRequest *request = argument;
    AdviceReport *report = request->report;
    const SpmdMeshAxis *axes;
    int64_t axis_count;
    report->collectives = request->compiled->report;
    report->num_partitions = request->compiled->report->num_partitions;
    report->bytes_per_device = request->compiled->report->total_bytes_per_device;
    report->topology = "";
    HLO_TRY(find_mesh(request, &axes, &axis_count));
    report->mesh = report->num_partitions > 1 ? spmd_mesh_text(report->arena, axes, axis_count) : "";
    report->mesh_source =
        hlo_arena_text(report->arena, request->options->mesh_source ? request->options->mesh_source : "");
    if (request->options->topology && emu_topology_is_tpu(request->options->topology)) {
        const EmuOptions emulation = {.device_assignment = request->options->device_assignment,
                                      .device_assignment_count = request->options->device_assignment_count};
        HLO_TRY(advice_simulate(request->module, request->compile, request->compiled, request->options->topology,
                                &emulation, &request->emulated));
        set_emulated(report, request->emulated);
    }
    advice_facts_new(report->arena, request->compiled, axes, axis_count, &request->facts);
    Groups groups = {0};
    Totals kinds = {0}, by_axes = {0};
    make_groups(request, &groups, &kinds, &by_axes);
    sort_groups(request, &groups);
    if (kinds.count) qsort(kinds.items, (size_t)kinds.count, sizeof(AdviceTotal), compare_totals);
    if (by_axes.count) qsort(by_axes.items, (size_t)by_axes.count, sizeof(AdviceTotal), compare_totals);
    report->groups = groups.items;
    report->group_count = groups.count;
    report->kinds = kinds.items;
    report->kind_count = kinds.count;
    report->axes = by_axes.items;
    report->axis_count = by_axes.count;
    return request->emulated && request->options->budget_seconds > 0 ? advice_suggest(request) : HLO_SUCCESS;
}

static HloStatus run(AdviceRequest *request, AdviceReport **result) {
    AdviceReport *report = hlo_allocate_zeroed(1, sizeof(*report));
    HloArena *arena = hlo_arena_new();
    HloStatus status = HLO_SUCCESS;
    if (report && arena) {
        report->arena = arena;
        request->report = report;
        status = hlo_protect(make_report, request);
    } else {
        status = hlo_error(HLO_RESOURCE_EXHAUSTED, "out of memory");
        hlo_free(report);
        report = NULL;
        hlo_arena_free(arena);
    }
    emu_report_free(request->emulated);
    advice_trial_free(&request->trial);
    if (status) {
        advice_free(report);
        return status;
    }
    *result = report;
    return HLO_SUCCESS;
}

HloStatus advice_of_compiled(const HloModule *module, const CompileOptions *compile, const CompiledModule *compiled,
                             const AdviceOptions *options, AdviceReport **report) {
    assert(module && compiled && report);
    static const CompileOptions compile_defaults = {0};
    static const AdviceOptions defaults = {0};
    AdviceRequest request = {.module = module,
                             .compile = compile ? compile : &compile_defaults,
                             .compiled = compiled,
                             .options = options ? options : &defaults};
    return run(&request, report);
}

HloStatus advice_new(const HloModule *module, const CompileOptions *compile, const AdviceOptions *options,
                     AdviceReport **report) {
    CompiledModule *compiled;
    HLO_TRY(compile_module(module, compile, &compiled));
    HloStatus status = advice_of_compiled(module, compile, compiled, options, report);
    if (status)
        compiled_module_free(compiled);
    else
        (*report)->compiled = compiled;
    return status;
}

void advice_free(AdviceReport *report) {
    if (!report) return;
    compiled_module_free(report->compiled);
    hlo_arena_free(report->arena);
    hlo_free(report);
}
