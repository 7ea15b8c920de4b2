// SPDX-License-Identifier: Apache-2.0
// The search: all values of one place are compared at once, as far as memory allows; then the first one that differs is
// replaced by the program inside of it, and the search goes on there.
#include "advice/difference.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "advice/probe.h"
#include "hlo/analysis/closeness.h"
#include "hlo/analysis/loop.h"
#include "hlo/analysis/roundings.h"
#include "hlo/base/arithmetic.h"
#include "hlo/ir/custom_call.h"
#include "hlo/pass/support.h"
#include "hlo/verify/verify.h"

// More iterations than any loop has that is searched.
enum { MOST_ITERATIONS = 1 << 30 };

// The known facts about the value of an instruction.
typedef struct Finding {
    AdviceValue value;
    HloInstruction *instruction;
} Finding;

typedef struct Search {
    Probe probe;
    HloTolerance tolerance;
    int64_t memory_bytes;
    AdviceDifference *result;
    HloText place;
    // Of the current place: errors by the instruction's id, and what has been found in the order of execution.
    double *errors;
    HLO_VECTOR(Finding) findings;
    double *depths;  // roundings one after the other that lead to a value, by the instruction's id
    HloRoundings roundings;
    HloIntMap names;  // of copies, by id: those that the user's program has
} Search;

// The values that one run compares: arrays, and the candidates that they belong to.
typedef struct Group {
    HLO_VECTOR(HloInstruction *) arrays, owners;
    int64_t bytes;
} Group;

static HloArena *arena_of(const Search *search) {
    return search->probe.arena;
}

// ---- descriptions

static void set_index(Search *search, const HloShape *shape, int64_t flat) {
    HloText text = {0};
    hlo_shape_print_index(&text, shape, flat);
    search->result->index = hlo_text_to_arena(search->result->arena, &text);
}

// The name of an instruction in the user's program; copies have others.
static const char *name_of(const Search *search, const HloInstruction *instruction) {
    const int64_t *name = hlo_int_map_find(&search->names, (uint64_t)instruction->id);
    return name ? (const char *)(uintptr_t)*name : instruction->name;
}

static AdviceValue describe(const Search *search, const HloInstruction *instruction) {
    HloArena *arena = search->result->arena;
    const HloMetadata *metadata = instruction->metadata;
    return (AdviceValue){.name = hlo_arena_text(arena, name_of(search, instruction)),
                         .opcode = hlo_op_text(instruction->opcode),
                         .shape = "",
                         .scope = metadata && metadata->op_name ? hlo_arena_text(arena, metadata->op_name) : "",
                         .source = hlo_instruction_source_text(arena, instruction)};
}

// Notes the worst array of a value.
static void note(Search *search, AdviceValue *value, const HloShape *shape, const HloDifference *difference) {
    const bool is_worse = !(difference->largest_relative <= value->error) || !*value->shape;
    if (is_worse) {
        HloText text = {0};
        hlo_shape_print(&text, shape, false);
        value->shape = hlo_text_to_arena(search->result->arena, &text);
        value->error = difference->largest_relative;
    }
    value->differs |= difference->count > 0;
}

// ---- comparing

static HloStatus compare(Search *search, int64_t index, double roundings, HloDifference *difference) {
    const HloLiteral *a = search->probe.values[0][index], *b = search->probe.values[1][index];
    HLO_FAIL_IF(!a || !b, HLO_RESOURCE_EXHAUSTED, "no memory for the values of the program");
    if (!hlo_shape_is_array(a->shape)) return HLO_SUCCESS;
    if (!hlo_shape_equal(a->shape, b->shape, HLO_COMPARE_DIMS_ONLY)) {
        *difference = (HloDifference){.count = 1, .largest_error = INFINITY, .largest_relative = INFINITY};
        return HLO_SUCCESS;
    }
    HloTolerance tolerance = search->tolerance;
    tolerance.roundings = roundings;
    *difference = hlo_literal_compare(a, b, &tolerance);
    return HLO_SUCCESS;
}

// The printed description of the value that differs first; its values are those of the last run.
static void note_first(Search *search, const AdviceValue *value, const HloLiteral *literal,
                       const HloDifference *difference) {
    AdviceDifference *result = search->result;
    result->found = true;
    result->first = *value;
    result->a = difference->expected;
    result->b = difference->actual;
    result->differing = difference->count;
    result->elements = hlo_shape_elements(literal->shape);
    set_index(search, literal->shape, difference->first);
}

// The results of the program, from the values of any run.
static HloStatus compare_results(Search *search) {
    AdviceDifference *result = search->result;
    HloArena *arena = result->arena;
    if (result->results) return HLO_SUCCESS;
    AdviceValue *values = HLO_ARENA_NEW(arena, AdviceValue, search->probe.result_count + 1);
    const HloInstruction *root = search->probe.module->entry->root;
    for (int64_t i = 0; i < search->probe.result_count; i++) {
        HloDifference difference = {0};
        const bool is_tuple = hlo_is(root, HLO_OP_TUPLE) && root->operand_count == search->probe.result_count;
        const HloInstruction *at = is_tuple ? root->operands[i] : root;
        HLO_TRY(compare(search, i, search->depths[at->id], &difference));
        values[i] = describe(search, at);
        values[i].name = hlo_arena_format(arena, "r%lld", (long long)i);
        note(search, &values[i], search->probe.values[0][i]->shape, &difference);
        if (values[i].differs && !result->found) {
            note_first(search, &values[i], search->probe.values[0][i], &difference);
            result->is_result = true;
        }
    }
    result->results = values;
    result->result_count = search->probe.result_count;
    return HLO_SUCCESS;
}

// ---- one place

// The error of a value's operands, and of what they only pass on.
static double operand_error(const Search *search, const HloInstruction *instruction) {
    double worst = 0;
    for (int32_t k = 0; k < instruction->operand_count; k++) {
        const double error = search->errors[instruction->operands[k]->id];
        if (!(error <= worst)) worst = error;
    }
    return worst;
}

// Compares the values of a group. Does not stop at an error: later ones show how the first one grows.
static HloStatus compare_group(Search *search, Group *group) {
    HLO_TRY(probe_run(&search->probe, group->arrays.items, group->arrays.count));
    HLO_TRY(compare_results(search));
    AdviceDifference *result = search->result;
    for (int64_t i = 0; i < group->arrays.count;) {
        HloInstruction *owner = group->owners.items[i];
        AdviceValue value = describe(search, owner);
        bool is_noted = false;
        for (; i < group->arrays.count && group->owners.items[i] == owner; i++) {
            HloDifference difference = {0};
            const int64_t at = search->probe.result_count + i;
            HLO_TRY(compare(search, at, search->depths[owner->id], &difference));
            note(search, &value, group->arrays.items[i]->shape, &difference);
            if (!difference.count || is_noted) continue;
            is_noted = true;
            if (result->found && !result->is_result) continue;
            result->is_result = false;
            note_first(search, &value, search->probe.values[0][at], &difference);
        }
        const double before = operand_error(search, owner);
        value.growth = before > 0 ? value.error / before : 0;
        search->errors[owner->id] = value.error;
        if (result->found && !result->is_result && strcmp(result->first.name, value.name) == 0) result->first = value;
        const Finding finding = {value, owner};
        hlo_vector_push(arena_of(search), &search->findings, finding);
    }
    probe_forget(&search->probe);
    return HLO_SUCCESS;
}

// Marks the instructions whose arrays are those of one device.
static bool *mark_manual(Search *search, HloInstruction *const *order, int64_t count) {
    bool *manual = HLO_ARENA_NEW(arena_of(search), bool, search->probe.module->instruction_limit);
    for (int64_t i = 0; i < count; i++) {
        const HloInstruction *one = order[i];
        const HloCustomCallKind kind = hlo_custom_call_kind(one);
        bool inside = kind == HLO_CALL_FULL_TO_SHARD;
        for (int32_t k = 0; k < one->operand_count; k++) inside |= manual[one->operands[k]->id];
        manual[one->id] = inside && kind != HLO_CALL_SHARD_TO_FULL;
    }
    return manual;
}

// True for values that say nothing new: those that only pass on others, and those that both ways read.
static bool passes_on(const HloInstruction *one) {
    switch (one->opcode) {
        case HLO_OP_PARAMETER:
        case HLO_OP_CONSTANT:
        case HLO_OP_IOTA:
        case HLO_OP_TUPLE:
        case HLO_OP_GET_TUPLE_ELEMENT:
        case HLO_OP_COPY:
        case HLO_OP_OPTIMIZATION_BARRIER:
        case HLO_OP_ADD_DEPENDENCY: return true;
        default: return hlo_custom_call_returns_operand(one);
    }
}

static void add_arrays(Search *search, Group *group, HloInstruction *owner, HloInstruction *value) {
    if (hlo_shape_is_array(value->shape)) {
        hlo_vector_push(arena_of(search), &group->arrays, value);
        hlo_vector_push(arena_of(search), &group->owners, owner);
        group->bytes += hlo_shape_bytes(value->shape);
        return;
    }
    for (int32_t i = 0; value->shape->type == HLO_TUPLE && i < value->shape->element_count; i++)
        add_arrays(search, group, owner, hlo_pass_get(owner, value, i));
}

// True for ops whose result is work in progress, not a value.
static bool is_half(HloOpcode opcode) {
    return hlo_op_is(opcode, HLO_OP_IS_ASYNC_START) || opcode == HLO_OP_ASYNC_UPDATE || opcode == HLO_OP_ASYNC_DONE;
}

// Compares the values of the entry computation whose ids are at least `from`, group by group, until one differs.
static HloStatus search_place(Search *search, int32_t from) {
    int64_t count;
    HloModule *module = search->probe.module;
    hlo_computation_sort(module->entry);
    HloInstruction **order = hlo_computation_post_order(module->entry, arena_of(search), &count);
    const bool *manual = mark_manual(search, order, count);
    const int64_t limit = module->instruction_limit;
    search->errors = HLO_ARENA_NEW(arena_of(search), double, limit + 1);
    search->depths = HLO_ARENA_NEW(arena_of(search), double, limit + 1);
    hlo_roundings_fill(&search->roundings, module->entry, search->depths);
    search->findings.count = 0;
    Group group = {0};
    HloInstruction *last = module->entry->last;
    bool found = false, any = false;
    HloStatus status = HLO_SUCCESS;
    for (int64_t i = 0; i < count && !status && !found; i++) {
        HloInstruction *one = order[i];
        if (one->id < from || one->id >= limit) continue;
        search->errors[one->id] = operand_error(search, one);
        if (manual[one->id] || passes_on(one) || is_half(one->opcode)) continue;
        add_arrays(search, &group, one, one);
        if (group.bytes * 2 < search->memory_bytes) continue;
        status = compare_group(search, &group);
        found = search->result->found && !search->result->is_result;
        group.arrays.count = group.owners.count = group.bytes = 0;
        any = true;
    }
    if (!status && !found && (group.arrays.count || !any)) status = compare_group(search, &group);
    while (!status && module->entry->last != last) hlo_instruction_remove(module->entry->last);
    return status;
}

// The instruction of the current place that differs first; NULL if none does.
static HloInstruction *first_differing(const Search *search) {
    for (int64_t i = 0; i < search->findings.count; i++)
        if (search->findings.items[i].value.differs) return search->findings.items[i].instruction;
    return NULL;
}

// ---- entering a value

// Removes a limited loop, and the instructions made for it after `last`.
static void remove_limited(Search *search, HloInstruction *limited, const HloInstruction *last) {
    const HloComputation *computation = last->parent;
    while (computation->last != last) {
        if (computation->last == limited)
            probe_remove(&search->probe, limited);
        else
            hlo_instruction_remove(computation->last);
    }
}

// Compares the loop's state after `limit` iterations; *error is its largest error.
static HloStatus compare_state(Search *search, HloInstruction *loop, int64_t limit, bool *differs, double *error) {
    Group group = {0};
    HloInstruction *last = loop->parent->last;
    HloInstruction *limited = probe_limited_loop(&search->probe, loop, limit);
    const double roundings = search->depths[loop->operands[0]->id] +
                             (double)limit * hlo_roundings_through(&search->roundings, loop->called[1]);
    add_arrays(search, &group, limited, limited);
    HLO_TRY(probe_run(&search->probe, group.arrays.items, group.arrays.count));
    *differs = false;
    *error = 0;
    for (int64_t i = 0; i < group.arrays.count; i++) {
        HloDifference difference = {0};
        HLO_TRY(compare(search, search->probe.result_count + i, roundings, &difference));
        *differs |= difference.count > 0;
        if (!(difference.largest_relative <= *error)) *error = difference.largest_relative;
    }
    probe_forget(&search->probe);
    remove_limited(search, limited, last);
    return HLO_SUCCESS;
}

static HloStatus count_iterations(Search *search, HloInstruction *loop, int64_t *count) {
    HloInstruction *last = loop->parent->last;
    HloInstruction *limited = probe_limited_loop(&search->probe, loop, MOST_ITERATIONS);
    HloInstruction *counter = hlo_pass_get(loop, limited, limited->shape->element_count - 1);
    HLO_TRY(probe_run(&search->probe, &counter, 1));
    int64_t counts[2];
    for (int side = 0; side < 2; side++)
        counts[side] = hlo_literal_get_int64(search->probe.values[side][search->probe.result_count], 0);
    *count = hlo_larger(counts[0], counts[1]);
    probe_forget(&search->probe);
    remove_limited(search, limited, last);
    return HLO_SUCCESS;
}

// The first iteration after which the state differs, from 1 on; 0 if there is none. Doubles the number first: where
// errors come from rounding, an early iteration differs, and the series shows how they grow.
static HloStatus first_iteration(Search *search, HloInstruction *loop, int64_t *first) {
    AdviceDifference *result = search->result;
    int64_t count, low = 0, high = 0, known = 0;
    HLO_TRY(count_iterations(search, loop, &count));
    int64_t *iterations = HLO_ARENA_NEW(result->arena, int64_t, 64);
    double *errors = HLO_ARENA_NEW(result->arena, double, 64);
    for (int64_t at = 1; count > 0; at = at * 2 < count ? at * 2 : count) {
        bool differs;
        iterations[known] = at;
        HLO_TRY(compare_state(search, loop, at, &differs, &errors[known++]));
        if (differs && !high) high = at;
        if (!differs && !high) low = at;
        if (at == count) break;
    }
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        bool differs;
        double error;
        HLO_TRY(compare_state(search, loop, middle, &differs, &error));
        *(differs ? &high : &low) = middle;
    }
    *first = high;
    result->iterations = iterations;
    result->iteration_error = errors;
    result->iteration_count = known;
    return HLO_SUCCESS;
}

// Copies `body` before `value`, on these arguments.
static void enter_body(Search *search, HloInstruction *value, const HloComputation *body,
                       HloInstruction *const *arguments) {
    int32_t id = search->probe.module->instruction_limit;  // copies are numbered in the order of the body
    hlo_pass_inline(value, body, arguments, arena_of(search));
    hlo_computation_sort(value->parent);
    for (const HloInstruction *one = body->first; one; one = one->next) {
        if (hlo_is(one, HLO_OP_PARAMETER)) continue;
        hlo_int_map_set(arena_of(search), &search->names, (uint64_t)id++, (int64_t)(uintptr_t)one->name);
    }
}

// Names the value that is entered.
static void extend_place(Search *search, const HloInstruction *value) {
    hlo_text_format(&search->place, "%s%s", search->place.length ? "; " : "", name_of(search, value));
}

static HloStatus enter_loop(Search *search, HloInstruction *loop, bool *entered) {
    int64_t iteration;
    HLO_TRY(first_iteration(search, loop, &iteration));
    if (!iteration) return HLO_SUCCESS;
    HloInstruction *state = loop->operands[0];
    if (iteration > 1) {
        HloInstruction *limited = probe_limited_loop(&search->probe, loop, iteration - 1);
        state = probe_loop_state(loop, limited);
    }
    extend_place(search, loop);
    hlo_text_format(&search->place, ", iteration %lld", (long long)iteration);
    enter_body(search, loop, loop->called[1], &state);
    *entered = true;
    return HLO_SUCCESS;
}

static HloStatus enter_branch(Search *search, HloInstruction *conditional, bool *entered) {
    HLO_TRY(probe_run(&search->probe, &conditional->operands[0], 1));
    const HloLiteral *literal = search->probe.values[0][search->probe.result_count];
    int64_t branch = hlo_literal_get_int64(literal, 0);
    if (literal->shape->type == HLO_PRED)
        branch = branch ? 0 : 1;
    else if (branch < 0 || branch >= conditional->called_count)
        branch = conditional->called_count - 1;
    probe_forget(&search->probe);
    extend_place(search, conditional);
    hlo_text_format(&search->place, ", branch %lld", (long long)branch);
    enter_body(search, conditional, conditional->called[branch], &conditional->operands[1 + branch]);
    *entered = true;
    return HLO_SUCCESS;
}

// Replaces a value by what computes it: new instructions in the entry computation.
static HloStatus enter(Search *search, HloInstruction *value, bool *entered) {
    *entered = false;
    switch (value->opcode) {
        case HLO_OP_WHILE: return enter_loop(search, value, entered);
        case HLO_OP_CONDITIONAL: return enter_branch(search, value, entered);
        case HLO_OP_CALL:
        case HLO_OP_FUSION:
            extend_place(search, value);
            enter_body(search, value, value->called[0], value->operands);
            *entered = true;
            return HLO_SUCCESS;
        default: return HLO_SUCCESS;
    }
}

// ---- the whole

static void keep_findings(Search *search) {
    AdviceDifference *result = search->result;
    AdviceValue *values = HLO_ARENA_NEW(result->arena, AdviceValue, search->findings.count + 1);
    for (int64_t i = 0; i < search->findings.count; i++) values[i] = search->findings.items[i].value;
    result->values = values;
    result->value_count = search->findings.count;
    result->place = hlo_arena_text(result->arena, search->place.data ? search->place.data : "");
}

// The results of the program get other numbers and other arrays beside them.
static void open_results(HloModule *module) {
    module->is_scheduled = false;
    module->entry_result_layout = NULL;
    module->aliases = (HloAliases){0};
    module->donors = NULL;
    module->donor_count = 0;
    module->propagate_to_output = (HloBools){0};
}

static HloStatus search_all(void *argument) {
    Search *search = argument;
    open_results(search->probe.module);
    HLO_TRY(search_place(search, 0));
    keep_findings(search);
    for (HloInstruction *value = first_differing(search); value;) {
        bool entered;
        const int32_t from = search->probe.module->instruction_limit;
        const size_t length = search->place.length;
        const AdviceDifference outside = *search->result;
        HLO_TRY(enter(search, value, &entered));
        if (!entered) break;
        search->result->found = false;
        HLO_TRY(search_place(search, from));
        value = first_differing(search);
        if (value) {
            keep_findings(search);
        } else {  // what differs is not in any array of its own
            *search->result = outside;
            search->place.length = length;
        }
    }
    return HLO_SUCCESS;
}

static HloStatus check(const HloModule *module, const HloLiteral *const *arguments, int64_t count,
                       const AdviceRun *const *runs) {
    HLO_TRY(hlo_verify(module));
    const HloComputation *entry = module->entry;
    HLO_FAIL_IF(count != hlo_parameter_count(entry), HLO_INVALID_ARGUMENT, "%lld arguments; the program takes %lld",
                (long long)count, (long long)hlo_parameter_count(entry));
    HLO_FAIL_IF(module->replica_count > 1, HLO_UNIMPLEMENTED,
                "a program of %lld replicas has no whole arrays that could be compared",
                (long long)module->replica_count);
    for (int64_t i = 0; i < count; i++) {
        HLO_FAIL_IF(!hlo_shape_equal(arguments[i]->shape, entry->parameters.items[i]->shape, HLO_COMPARE_IGNORE_LAYOUT),
                    HLO_INVALID_ARGUMENT, "argument %lld does not have the shape of parameter %%%s", (long long)i,
                    entry->parameters.items[i]->name);
    }
    for (int side = 0; side < 2; side++) {
        const AdviceRun *run = runs[side];
        HLO_FAIL_IF(!run->machine && (run->spmd.mesh_axis_count || run->spmd.shard_count), HLO_INVALID_ARGUMENT,
                    "a mesh and shardings need a machine with virtual devices");
    }
    return HLO_SUCCESS;
}

HloStatus advice_first_difference(const HloModule *module, const HloLiteral *const *arguments, int64_t count,
                                  const AdviceRun *a, const AdviceRun *b, const AdviceDifferenceOptions *options,
                                  AdviceDifference **difference) {
    assert(module && a && b && difference);
    const AdviceDifferenceOptions given = options ? *options : (AdviceDifferenceOptions){0};
    Search search = {.probe = {.arguments = arguments, .argument_count = count, .runs = {a, b}},
                     .memory_bytes = given.memory_bytes > 0 ? given.memory_bytes : (int64_t)1 << 30};
    HLO_TRY(check(module, arguments, count, search.probe.runs));
    search.tolerance =
        (HloTolerance){given.is_relative_set ? given.relative : -1, given.is_absolute_set ? given.absolute : -1,
                       hlo_narrowest_float(module), false, 0};
    HloArena *kept = hlo_arena_new();
    search.probe.arena = search.roundings.arena = hlo_arena_new();
    search.probe.module = hlo_module_clone(module);
    search.result = hlo_allocate_zeroed(1, sizeof *search.result);
    HloStatus status = HLO_SUCCESS;
    if (!kept || !search.probe.arena || !search.probe.module || !search.result) {
        status = hlo_error(HLO_RESOURCE_EXHAUSTED, "no memory for the search");
        hlo_arena_free(kept);
    } else {
        *search.result =
            (AdviceDifference){.arena = kept,
                               .place = "",
                               .index = "",
                               .first = {.name = "", .opcode = "", .shape = "", .scope = "", .source = ""}};
        status = hlo_protect(search_all, &search);
    }
    probe_forget(&search.probe);
    for (int side = 0; side < 2; side++) target_client_release(search.probe.clients[side]);
    hlo_module_free(search.probe.module);
    hlo_arena_free(search.probe.arena);
    hlo_text_free(&search.place);
    if (status)
        advice_difference_free(search.result);
    else
        *difference = search.result;
    return status;
}

void advice_difference_free(AdviceDifference *difference) {
    if (!difference) return;
    hlo_arena_free(difference->arena);
    hlo_free(difference);
}

// ---- printing

static void print_value(HloText *text, const AdviceValue *value) {
    hlo_text_format(text, "  %-10.3g", value->error);
    if (value->growth > 0)
        hlo_text_format(text, " x %-8.3g", value->growth);
    else
        hlo_text_format(text, " %-10s", value->error > 0 ? "new" : "");
    hlo_text_format(text, " %s %s %s", value->name, value->opcode, value->shape);
    if (*value->source) hlo_text_format(text, "  %s", value->source);
    hlo_text_char(text, '\n');
}

// The lines of values at most, and the growth from which one is worth a line.
enum { MOST_LINES = 12 };
static const double NOTABLE_GROWTH = 1.1;

static void print_growth(HloText *text, const AdviceDifference *difference) {
    hlo_text_string(
        text,
        "error, of the root mean square of the value, where it appears or grows, and its growth over the operands':\n");
    int64_t lines = 0;
    for (int64_t i = 0; i < difference->value_count && lines < MOST_LINES; i++) {
        const AdviceValue *value = &difference->values[i];
        if (!(value->error > 0) || (value->growth > 0 && value->growth < NOTABLE_GROWTH)) continue;
        print_value(text, value);
        lines++;
    }
    for (int64_t i = 0; i < difference->result_count && i < MOST_LINES; i++) {
        const AdviceValue *result = &difference->results[i];
        hlo_text_format(text, "  %-10.3g            result %lld, %s\n", result->error, (long long)i, result->shape);
    }
    if (!difference->iteration_count) return;
    hlo_text_string(text, "error of the loop's state, by iteration:");
    for (int64_t i = 0; i < difference->iteration_count; i++)
        hlo_text_format(text, "%s %lld: %.3g", i ? "," : "", (long long)difference->iterations[i],
                        difference->iteration_error[i]);
    hlo_text_char(text, '\n');
}

void advice_difference_print(HloText *text, const AdviceDifference *difference) {
    const AdviceValue *first = &difference->first;
    if (!difference->found) {
        double worst = 0;
        for (int64_t i = 0; i < difference->result_count; i++)
            if (!(difference->results[i].error <= worst)) worst = difference->results[i].error;
        hlo_text_format(text, "no value differs beyond the tolerance; largest error of a result %.3g\n", worst);
        return;
    }
    hlo_text_format(text, "first difference: %s %s %s\n", first->name, first->opcode, first->shape);
    if (difference->is_result) hlo_text_string(text, "  a result; no intermediate value differs when it is kept\n");
    if (*difference->place) hlo_text_format(text, "  in %s\n", difference->place);
    if (*first->source) hlo_text_format(text, "  at %s\n", first->source);
    if (*first->scope) hlo_text_format(text, "  %s\n", first->scope);
    hlo_text_format(text, "  %lld of %lld elements, first %s: a %.9g, b %.9g\n", (long long)difference->differing,
                    (long long)difference->elements, difference->index, difference->a, difference->b);
    print_growth(text, difference);
}

static void json_value(HloJsonWriter *json, const AdviceValue *value) {
    hlo_json_begin_object(json);
    hlo_json_member_string(json, "name", value->name);
    hlo_json_member_string(json, "opcode", value->opcode);
    hlo_json_member_string(json, "shape", value->shape);
    hlo_json_member_string(json, "scope", value->scope);
    hlo_json_member_string(json, "source", value->source);
    hlo_json_member_double(json, "error", value->error);
    hlo_json_member_double(json, "growth", value->growth);
    hlo_json_member_bool(json, "differs", value->differs);
    hlo_json_end_object(json);
}

static void json_values(HloJsonWriter *json, const char *key, const AdviceValue *values, int64_t count) {
    hlo_json_key(json, key);
    hlo_json_begin_array(json);
    for (int64_t i = 0; i < count; i++) json_value(json, &values[i]);
    hlo_json_end_array(json);
}

void advice_difference_json(HloJsonWriter *writer, const AdviceDifference *difference) {
    hlo_json_begin_object(writer);
    hlo_json_member_bool(writer, "found", difference->found);
    hlo_json_member_bool(writer, "is_result", difference->is_result);
    hlo_json_key(writer, "first");
    json_value(writer, &difference->first);
    hlo_json_member_string(writer, "place", difference->place);
    hlo_json_member_string(writer, "index", difference->index);
    hlo_json_member_double(writer, "a", difference->a);
    hlo_json_member_double(writer, "b", difference->b);
    hlo_json_member_int64(writer, "differing", difference->differing);
    hlo_json_member_int64(writer, "elements", difference->elements);
    json_values(writer, "values", difference->values, difference->value_count);
    json_values(writer, "results", difference->results, difference->result_count);
    hlo_json_key(writer, "iterations");
    hlo_json_begin_array(writer);
    for (int64_t i = 0; i < difference->iteration_count; i++) {
        hlo_json_begin_object(writer);
        hlo_json_member_int64(writer, "after", difference->iterations[i]);
        hlo_json_member_double(writer, "error", difference->iteration_error[i]);
        hlo_json_end_object(writer);
    }
    hlo_json_end_array(writer);
    hlo_json_end_object(writer);
}

void advice_difference_write_json(const AdviceDifference *difference, HloText *text) {
    HloJsonWriter json = {.text = text, .lines = 2};
    advice_difference_json(&json, difference);
    hlo_text_char(text, '\n');
}
