// SPDX-License-Identifier: Apache-2.0
// What a plan says: as options, as JSON, as annotations of the program.
#include <assert.h>
#include <string.h>

#include "advice/advice.h"
#include "advice/internal.h"
#include "advice/plan.h"
#include "advice/repair.h"
#include "emulator/report.h"
#include "hlo/stablehlo/import/shardy.h"

// ---- names of parameters

// Whether a pattern names several parameters, and all of them are sharded alike.
static bool names_alike(AdvicePlan *plan, const HloModule *module, const char *pattern) {
    const HloInstructionVector *parameters = &module->entry->parameters;
    const HloArenaMark mark = hlo_arena_mark(plan->arena);
    const char *first = NULL;
    int64_t count = 0;
    bool alike = true;
    for (int64_t p = 0, leaf = 0; p < parameters->count && alike; ++p) {
        if (spmd_argument_matches(plan->arena, pattern, parameters->items[p])) {
            const char *spec = plan->best->parameters[leaf];
            if (!count++) first = spec;
            alike = !strcmp(spec, first);
        }
        leaf += hlo_shape_leaf_count(parameters->items[p]->shape);
    }
    hlo_arena_reset(plan->arena, mark);
    return alike && count > 1;
}

void advice_plan_name(AdvicePlan *plan, const HloModule *module) {
    int64_t leaves = 0;
    for (int64_t p = 0; p < module->entry->parameters.count; ++p)
        leaves += hlo_shape_leaf_count(module->entry->parameters.items[p]->shape);
    const char **names = HLO_ARENA_NEW(plan->arena, const char *, leaves + 1);
    const char **patterns = HLO_ARENA_NEW(plan->arena, const char *, leaves + 1);
    HloStringMap alike = {0};  // whether the parameters of a pattern are
    for (int64_t i = 0; i < leaves; ++i) {
        names[i] = advice_parameter_name(plan->arena, module, i);
        const char *pattern = advice_name_pattern(plan->arena, names[i]);
        // Equal layers share few patterns, each of which is matched with all names once.
        const size_t length = strlen(pattern);
        bool *known = hlo_string_map_get(&alike, pattern, length);
        if (!known) {
            known = HLO_ARENA_NEW(plan->arena, bool, 1);
            *known = strchr(pattern, '*') && names_alike(plan, module, pattern);
            hlo_string_map_set(plan->arena, &alike, pattern, length, known);
        }
        patterns[i] = *known ? pattern : names[i];
    }
    plan->parameter_count = leaves;
    plan->names = names;
    plan->patterns = patterns;
}

// ---- as text

double advice_step_cost(const AdvicePlanned *plan) {
    return plan->price * (double)plan->topology->chip_count * (double)plan->step_picoseconds * 1e-12 / 3600;
}

static void print_candidate(HloText *text, const AdvicePlanned *one) {
    hlo_text_string(text, "step ");
    emu_print_time(one->step_picoseconds, text);
    hlo_text_string(text, ", peak ");
    emu_print_size(one->hbm_peak_bytes, text);
    if (!one->fits) hlo_text_string(text, " (does not fit)");
    if (one->repair) hlo_text_format(text, ", with %s", one->pass);
    if (one->price >= 0) hlo_text_format(text, ", cost %.4g a step", advice_step_cost(one));
}

// One line a parameter, or for all equal ones of equal layers; whole ones too, which propagation would shard
// otherwise.
void advice_plan_print(HloText *text, const AdvicePlan *plan) {
    assert(text && plan);
    const AdvicePlanned *best = plan->best;
    hlo_text_format(text, "%s on %s: ", plan->program, best->topology->name);
    print_candidate(text, best);
    hlo_text_format(text, ", %s %.1f %%; %lld %s timed%s\n--mesh %s\n", emu_utilisation_name(best->names_scopes),
                    100 * best->mfu, (long long)plan->evaluated, plan->evaluated == 1 ? "plan" : "plans",
                    best->is_exact ? ", all that there are on this mesh" : "", best->mesh);
    if (best->repair)
        hlo_text_format(text, "repair: nothing fits as the program is; %s: meshlo opt FILE --passes %s -o OUT\n",
                        advice_repair_info(best->repair)->words, best->pass);
    for (int64_t i = 0; i < plan->parameter_count; ++i) {
        bool printed = !*best->parameters[i];
        for (int64_t k = 0; k < i && !printed; ++k) printed = !strcmp(plan->patterns[k], plan->patterns[i]);
        if (!printed) hlo_text_format(text, "--shard \"%s=%s\"\n", plan->patterns[i], best->parameters[i]);
    }
    for (int64_t i = 0; i < best->inner_count; ++i) hlo_text_format(text, "--shard \"%s\"\n", best->inner[i]);
    if (best->inner_count) hlo_text_format(text, "inside: %s\n", best->words);
    for (int64_t i = 0; i < plan->count; ++i) {
        const AdvicePlanned *one = &plan->all[i];
        if (one == best) continue;
        hlo_text_format(text, "instead %s on %s: ", one->mesh, one->topology->name);
        print_candidate(text, one);
        hlo_text_char(text, '\n');
    }
}

// ---- as JSON

// Whether no other plan of the list is better in both time and memory.
static bool is_on_front(const AdvicePlan *plan, const AdvicePlanned *candidate) {
    for (int64_t i = 0; i < plan->count; ++i) {
        const AdvicePlanned *other = &plan->all[i];
        const bool no_worse = other->step_picoseconds <= candidate->step_picoseconds &&
                              other->hbm_peak_bytes <= candidate->hbm_peak_bytes;
        const bool differs = other->step_picoseconds != candidate->step_picoseconds ||
                             other->hbm_peak_bytes != candidate->hbm_peak_bytes;
        if (no_worse && (differs || other < candidate)) return false;
    }
    return true;
}

static void write_candidate(HloJsonWriter *json, const AdvicePlanned *one) {
    hlo_json_member_double(json, "step_seconds", (double)one->step_picoseconds * 1e-12);
    hlo_json_member_int64(json, "hbm_peak_bytes", one->hbm_peak_bytes);
    hlo_json_member_bool(json, "fits", one->fits);
    if (one->repair) hlo_json_member_string(json, "repair", one->pass);
    if (one->price >= 0) hlo_json_member_double(json, "cost_per_step", advice_step_cost(one));
}

static void write_place(HloJsonWriter *json, const AdvicePlanned *one) {
    hlo_json_member_string(json, "topology", one->topology->name);
    hlo_json_member_string(json, "mesh", one->mesh);
}

void advice_plan_write_json(const AdvicePlan *plan, HloText *text) {
    assert(plan && text);
    HloJsonWriter json = {.text = text, .lines = 2};
    hlo_json_begin_object(&json);
    write_place(&json, plan->best);
    hlo_json_key(&json, "shardings");
    hlo_json_begin_object(&json);
    for (int64_t i = 0; i < plan->parameter_count; ++i)
        hlo_json_member_string(&json, plan->names[i], plan->best->parameters[i]);
    hlo_json_end_object(&json);
    if (plan->best->inner_count) {
        hlo_json_key(&json, "inside");
        hlo_json_begin_array(&json);
        for (int64_t i = 0; i < plan->best->inner_count; ++i) hlo_json_string(&json, plan->best->inner[i]);
        hlo_json_end_array(&json);
    }
    write_candidate(&json, plan->best);
    hlo_json_member_double(&json, "mfu", plan->best->mfu);
    hlo_json_member_int64(&json, "evaluated", plan->evaluated);
    hlo_json_member_bool(&json, "exact", plan->best->is_exact);
    hlo_json_key(&json, "front");
    hlo_json_begin_array(&json);
    for (int64_t i = 0; i < plan->count; ++i) {
        if (!is_on_front(plan, &plan->all[i])) continue;
        hlo_json_begin_object(&json);
        write_place(&json, &plan->all[i]);
        write_candidate(&json, &plan->all[i]);
        hlo_json_end_object(&json);
    }
    hlo_json_end_array(&json);
    hlo_json_end_object(&json);
    hlo_text_char(text, '\n');
}

// ---- as annotations

// Takes Shardy's text away from a parameter, which would take precedence over its sharding.
static void drop_shardy(HloModule *module, HloInstruction *parameter) {
    HLO_VECTOR(HloKeyValue) rest = {0};
    for (int64_t i = 0; i < parameter->frontend_attributes.count; ++i)
        if (strcmp(parameter->frontend_attributes.items[i].key, HLO_SDY_SHARDING) != 0)
            hlo_vector_push(module->arena, &rest, parameter->frontend_attributes.items[i]);
    parameter->frontend_attributes.items = rest.items;
    parameter->frontend_attributes.count = rest.count;
}

typedef struct Annotation {
    const AdvicePlanned *best;
    HloModule *module;
} Annotation;

// Annotates the values inside that the plan names.
static HloStatus annotate_inside(HloModule *module, const AdvicePlanned *best) {
    HloStringMap names = {0};
    for (int64_t c = 0; best->inner_count && c < module->computations.count; ++c)
        for (HloInstruction *i = module->computations.items[c]->first; i; i = i->next)
            hlo_string_map_set(module->arena, &names, i->name, strlen(i->name), i);
    for (int64_t k = 0; k < best->inner_count; ++k) {
        const char *equals = strrchr(best->inner[k], '=');
        HloInstruction *i = hlo_string_map_get(&names, best->inner[k], (size_t)(equals - best->inner[k]));
        assert(i);
        HLO_TRY(spmd_spec_parse(module->arena, best->axes, best->axis_count, equals + 1, i->shape->rank, &i->sharding));
    }
    return HLO_SUCCESS;
}

static HloStatus annotate(void *argument) {
    const AdvicePlanned *best = ((Annotation *)argument)->best;
    HloModule *module = ((Annotation *)argument)->module;
    int64_t leaf = 0;
    // The plan was made with results that propagation shards. Annotated parameters would keep them whole.
    static const bool opens = true;
    if (!module->propagate_to_output.count && spmd_opens_boundary(module))
        module->propagate_to_output = (HloBools){&opens, 1};
    for (int64_t p = 0; p < module->entry->parameters.count; ++p) {
        HloInstruction *parameter = module->entry->parameters.items[p];
        const int64_t leaves = hlo_shape_leaf_count(parameter->shape);
        const HloSharding **shardings = HLO_ARENA_NEW(module->arena, const HloSharding *, leaves);
        for (int64_t i = 0; i < leaves; ++i) {
            const HloShape *shape = hlo_shape_leaf(parameter->shape, i);
            HLO_TRY(spmd_spec_parse(module->arena, best->axes, best->axis_count, best->parameters[leaf + i],
                                    hlo_shape_is_array(shape) ? shape->rank : 0, &shardings[i]));
        }
        leaf += leaves;
        if (!leaves) continue;
        parameter->sharding =
            hlo_shape_is_tuple(parameter->shape) ? hlo_sharding_tuple(module->arena, shardings, leaves) : shardings[0];
        drop_shardy(module, parameter);
    }
    HLO_TRY(annotate_inside(module, best));
    module->num_partitions = 1;
    for (int64_t i = 0; i < best->axis_count; ++i) module->num_partitions *= best->axes[i].size;
    return HLO_SUCCESS;
}

HloStatus advice_plan_apply(const HloModule *module, const AdvicePlan *plan, HloModule **annotated) {
    assert(module && plan && annotated);
    Annotation annotation = {.best = plan->best};
    HloModule *changed = NULL;
    if (plan->best->repair)
        HLO_TRY(advice_repair_make(module, plan->best->repair, &changed));
    else if (plan->best->inner_count)
        HLO_TRY(advice_inlined(module, &changed));
    HloStatus status =
        spmd_remesh(changed ? changed : module, plan->best->axes, plan->best->axis_count, &annotation.module);
    if (!status && !annotation.module) annotation.module = changed ? changed : hlo_module_clone(module);
    if (annotation.module != changed) hlo_module_free(changed);
    HLO_TRY(status);
    HLO_FAIL_IF(!annotation.module, HLO_RESOURCE_EXHAUSTED, "no memory to copy the program");
    status = hlo_protect(annotate, &annotation);
    if (status) {
        hlo_module_free(annotation.module);
        return status;
    }
    *annotated = annotation.module;
    return HLO_SUCCESS;
}
