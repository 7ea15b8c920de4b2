// SPDX-License-Identifier: Apache-2.0
// PartitionSpec-like strings and the --shard option.
// The syntax is PartitionSpec's as far as a shell lets it be written: items for dimensions, separated by commas, an
// axis or several of them. Wrong names are answered with the nearest right one.
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hlo/base/nearest.h"
#include "hlo/ir/build/internal.h"
#include "spmd_partitioner/convert.h"
#include "spmd_partitioner/custom_call.h"

// Suggests the nearest name, then lists all of them.
static HloStatus unknown_axis(HloArena *arena, const SpmdMeshAxis *mesh, int64_t axis_count, const char *name,
                              size_t length) {
    assert(name && axis_count >= 0);
    HloText known = {0};
    const char **names = HLO_ARENA_NEW(arena, const char *, axis_count + 1);
    for (int64_t i = 0; i < axis_count; i++) {
        hlo_text_format(&known, "%s%s", i ? ", " : "", mesh[i].name);
        names[i] = mesh[i].name;
    }
    const char *near = hlo_nearest_name(hlo_arena_string(arena, name, length), names, axis_count);
    HloStatus status = hlo_error(HLO_INVALID_ARGUMENT, "unknown mesh axis '%.*s'%s%s%s; the mesh has: %s", (int)length,
                                 name, near ? " (did you mean '" : "", near ? near : "", near ? "'?)" : "",
                                 known.data ? known.data : "no axes");
    hlo_text_free(&known);
    return status;
}

// Quotes too: people paste Python.
static bool blank(char c) {
    return c == ' ' || c == '\t' || c == '"' || c == '\'';
}

// The axes and parts of axes that a spec has named so far, with their sizes.
typedef struct Named {
    HloAxisRef *items;
    int64_t count;
} Named;

// Parses a part of an axis, `:(4)2`: two pieces, each preceded by four. True if the text has that form.
static bool take_part(const char *text, size_t length, int64_t *before, int64_t *size) {
    char copy[48];
    int end = 0;
    if (length >= sizeof(copy)) return false;
    memcpy(copy, text, length);
    copy[length] = 0;
    return sscanf(copy, ":(%9" SCNd64 ")%9" SCNd64 "%n", before, size, &end) == 2 && end == (int)length;
}

// Reads one axis of a dimension, or a part of one: `x`, `x:(2)4`. No part of an axis may be named twice.
static HloStatus take_axis(HloArena *arena, const SpmdMeshAxis *mesh, int64_t axis_count, const char *name,
                           size_t length, Named *named, HloAxisRef *ref) {
    assert(ref && named);
    while (length && blank(*name)) name++, length--;
    while (length && blank(name[length - 1])) length--;
    const char *colon = memchr(name, ':', length);
    const size_t letters = colon ? (size_t)(colon - name) : length;
    int64_t axis = 0, before = 1, size;
    for (; axis < axis_count; ++axis) {
        if (strlen(mesh[axis].name) == letters && !memcmp(mesh[axis].name, name, letters)) break;
    }
    if (axis == axis_count) return unknown_axis(arena, mesh, axis_count, name, letters);
    size = mesh[axis].size;
    if (colon) {
        bool fits = take_part(colon, length - letters, &before, &size) && before > 0 && size > 0 &&
                    mesh[axis].size % (before * size) == 0;
        HLO_FAIL_IF(!fits, HLO_INVALID_ARGUMENT,
                    "'%.*s' is not a sub-axis of the mesh axis '%s' of size %lld; write for example %s:(1)2 for the "
                    "first two parts",
                    (int)length, name, mesh[axis].name, (long long)mesh[axis].size, mesh[axis].name);
    }
    for (int64_t i = 0; i < named->count;
         i++) {  // parts of an axis may be named apart from each other; an axis of size 1 may not be named twice
        const HloAxisRef *other = &named->items[i];
        bool apart = other->axis != axis || before >= other->pre_size * other->size || other->pre_size >= before * size;
        HLO_FAIL_IF(!apart || (other->axis == axis && !colon), HLO_INVALID_ARGUMENT,
                    "mesh axis '%s' is used twice in one sharding", mesh[axis].name);
    }
    named->items[named->count++] = (HloAxisRef){.axis = axis, .pre_size = before, .size = size};
    *ref = (HloAxisRef){.axis = axis, .pre_size = before, .size = colon ? size : 0};
    return HLO_SUCCESS;
}

// One dimension: `-`, ``, `?`, `a`, `a+b`, `(a,b)`, with a `?` among them to leave it open.
static HloStatus take_dim(HloArena *arena, const SpmdMeshAxis *mesh, int64_t axis_count, const char *item,
                          size_t length, Named *named, HloAxisRefs *refs) {
    HloAxisRef *axes = HLO_ARENA_NEW(arena, HloAxisRef, length + 1);
    refs->items = axes;
    while (length && (blank(*item) || *item == '(')) item++, length--;
    while (length && (blank(item[length - 1]) || item[length - 1] == ')')) length--;
    for (bool joined = false; length || joined;) {
        size_t part = 0;
        while (part < length && item[part] != '+' && item[part] != ',') part++;
        bool joins = part < length && item[part] == '+';
        HLO_FAIL_IF(part == 0 && (joined || joins), HLO_INVALID_ARGUMENT, "an axis is missing next to a '+'");
        joined = joins;
        bool none = part == 0 || (part == 1 && *item == '-') || (part == 4 && !memcmp(item, "None", 4));
        if ((part == 1 && *item == '?') || (part == 15 && !memcmp(item, "P.UNCONSTRAINED", 15)))
            refs->open = true;
        else if (!none)
            HLO_TRY(take_axis(arena, mesh, axis_count, item, part, named, &axes[refs->count++]));
        part += part < length;
        item += part;
        length -= part;
    }
    return HLO_SUCCESS;
}

// The mesh of a V3 annotation, in the plain device order.
static HloMesh spec_mesh(HloArena *arena, const SpmdMeshAxis *mesh, int64_t axis_count) {
    const char **names = HLO_ARENA_NEW(arena, const char *, axis_count);
    int64_t *sizes = HLO_ARENA_NEW(arena, int64_t, axis_count);
    for (int64_t i = 0; i < axis_count; i++) {
        names[i] = hlo_arena_text(arena, mesh[i].name);
        sizes[i] = mesh[i].size;
    }
    return (HloMesh){.axis_names = names, .axis_sizes = {sizes, axis_count}};
}

// Length of the first item of a spec: up to a comma outside of parentheses.
static size_t item_length(const char *spec) {
    int depth = 0;
    size_t length = 0;
    for (; spec[length]; length++) {
        depth += (spec[length] == '(') - (spec[length] == ')');
        if (spec[length] == ',' && depth <= 0) break;
    }
    return length;
}

// Checked once, so that items can be split at commas outside of parentheses.
static bool is_balanced(const char *spec) {
    int depth = 0;
    for (; *spec && depth >= 0; spec++) depth += (*spec == '(') - (*spec == ')');
    return depth == 0;
}

// What is between the parentheses of `P('x', None)` or `PartitionSpec('x', None)`; other texts as they are.
static const char *without_constructor(HloArena *arena, const char *spec) {
    static const char *const constructors[] = {"P(", "PartitionSpec(", "jax.P("};
    const char *at = spec + strspn(spec, " ");
    size_t length = strlen(at);
    while (length && at[length - 1] == ' ') length--;
    for (size_t i = 0; i < HLO_COUNT_OF(constructors); i++) {
        const size_t before = strlen(constructors[i]);
        if (strncmp(at, constructors[i], before) != 0 || at[length - 1] != ')') continue;
        at += before;
        length -= before + 1;
        while (length && at[length - 1] == ' ') length--;
        if (length && at[length - 1] == ',') length--;  // P('x',)
        return hlo_arena_string(arena, at, length);
    }
    return spec;
}

// Fewer items than dimensions are allowed, as in JAX: the rest is unsharded. An empty spec has none.
HloStatus spmd_spec_parse(HloArena *arena, const SpmdMeshAxis *mesh, int64_t axis_count, const char *spec, int64_t rank,
                          const HloSharding **result) {
    assert(arena && spec && result && rank >= 0);
    spec = without_constructor(arena, spec);
    HloNamedSharding *named = HLO_ARENA_NEW(arena, HloNamedSharding, 1);
    HloAxisRefs *dims = HLO_ARENA_NEW(arena, HloAxisRefs, rank);
    Named found = {HLO_ARENA_NEW(arena, HloAxisRef, strlen(spec) + 1), 0};
    int64_t count = 0;
    HLO_FAIL_IF(!is_balanced(spec), HLO_INVALID_ARGUMENT, "unbalanced parenthesis in '%s'", spec);
    for (const char *at = spec; *spec;) {
        size_t length = item_length(at);
        HLO_FAIL_IF(count == rank, HLO_INVALID_ARGUMENT, "'%s' names more dimensions than the array has: %lld", spec,
                    (long long)rank);
        HLO_TRY(take_dim(arena, mesh, axis_count, at, length, &found, &dims[count++]));
        if (!at[length]) break;
        at += length + 1;
    }
    *named = (HloNamedSharding){
        .mesh = spec_mesh(arena, mesh, axis_count), .whole = HLO_SHARDING_TILED, .dims = dims, .dim_count = rank};
    HloSharding *sharding = HLO_ARENA_NEW(arena, HloSharding, 1);
    sharding->kind = HLO_SHARDING_NAMED;
    sharding->named = named;
    *result = sharding;
    return HLO_SUCCESS;
}

typedef struct Annotation {
    HloInstruction *array;
    const SpmdMeshAxis *mesh;
    int64_t axis_count;
    const char *spec;
} Annotation;

static HloStatus annotate(void *argument) {
    const Annotation *a = argument;
    return spmd_spec_parse(a->array->parent->module->arena, a->mesh, a->axis_count, a->spec, a->array->shape->rank,
                           &a->array->sharding);
}

HloInstruction *spmd_build_sharded(HloBuilder *builder, HloInstruction *array, const SpmdMeshAxis *mesh,
                                   int64_t axis_count, const char *spec) {
    assert(builder && spec);
    HloStatus status = array ? hlo_protect(annotate, &(Annotation){array, mesh, axis_count, spec}) : HLO_SUCCESS;
    if (status) hlo_builder_fail(builder, status);
    return status ? NULL : array;
}

// ---- --shard ----

// Results are arrays of their own in the plan: their requested sharding may differ from the one that the program
// produces.
static HloStatus result_target(const SpmdPlan *plan, int64_t number, int32_t *array) {
    HLO_FAIL_IF(number >= plan->result_count, HLO_INVALID_ARGUMENT,
                "there is no result r%lld: the program has %lld results", (long long)number,
                (long long)plan->result_count);
    *array = plan->results[number];
    return HLO_SUCCESS;
}

// Array `number` among the flattened parameters.
static HloStatus parameter_target(const SpmdPlan *plan, int64_t number, int32_t *array) {
    int64_t left = number;
    for (int64_t p = 0; p < plan->module->entry->parameters.count; p++) {
        const HloInstruction *parameter = plan->module->entry->parameters.items[p];
        int64_t leaves = hlo_shape_leaf_count(parameter->shape);
        if (left < leaves) {
            *array = plan->array_of_leaf[plan->first_leaf[parameter->id] + left];
            return HLO_SUCCESS;
        }
        left -= leaves;
    }
    return hlo_error(HLO_INVALID_ARGUMENT, "there is no parameter p%lld: the program has %lld parameters",
                     (long long)number, (long long)(number - left));
}

// The instructions of the entry, and of the loops, branches and calls in it, by name. The entry comes last, so that its
// instruction has a name that another computation has too.
static void index_instructions(const SpmdPlan *plan, HloStringMap *instructions) {
    for (int64_t c = 0; c < plan->computation_count; c++)
        for (HloInstruction *at = plan->computations[c]->first; at; at = at->next)
            hlo_string_map_set(plan->arena, instructions, at->name, strlen(at->name), at);
}

// The array that TARGET names: an instruction of the entry, pN, rN, or an instruction of a loop, branch or call. *array
// is -1 where it is none of these.
static HloStatus find_target(const SpmdPlan *plan, const HloStringMap *instructions, const char *name, int32_t *array) {
    const HloInstruction *at = hlo_string_map_get(instructions, name, strlen(name));
    char *end = NULL;
    const int64_t number = name[0] && name[1] >= '0' && name[1] <= '9' ? strtoll(name + 1, &end, 10) : -1;
    const bool numbered = number >= 0 && !*end && (*name == 'p' || *name == 'r');
    *array = -1;
    if (at && (at->parent == plan->module->entry || !numbered)) {
        HLO_FAIL_IF(hlo_shape_is_tuple(at->shape), HLO_INVALID_ARGUMENT, "%%%s is a tuple", at->name);
        HLO_FAIL_IF(plan->free[at->id], HLO_INVALID_ARGUMENT,
                    "%%%s is recomputed where it is used and has no sharding of its own", at->name);
        *array = plan->array_of_leaf[plan->first_leaf[at->id]];
        return HLO_SUCCESS;
    }
    if (!numbered) return HLO_SUCCESS;
    return *name == 'p' ? parameter_target(plan, number, array) : result_target(plan, number, array);
}

// JAX writes the name of an argument as the name of its operation.
const char *spmd_argument_name(const HloInstruction *parameter) {
    const bool named = parameter->metadata && parameter->metadata->op_name && *parameter->metadata->op_name;
    return named ? parameter->metadata->op_name : parameter->name;
}

// The letters and digits of a name, and `*` and `?`, with one dot for whatever is between them: params['layers'][0],
// params.layers.0 and params__layers___0_, which XLA makes of it, become the same. XLA's number at the end is left out.
static const char *squash(HloArena *arena, const char *name, bool is_instruction) {
    size_t length = strlen(name);
    char *out = HLO_ARENA_NEW(arena, char, length + 1);
    size_t count = 0;
    if (is_instruction) {
        size_t digits = length;
        while (digits && name[digits - 1] >= '0' && name[digits - 1] <= '9') digits--;
        if (digits > 1 && digits < length && name[digits - 1] == '.') length = digits - 1;
    }
    for (size_t i = 0; i < length; i++) {
        const char c = name[i];
        const bool kept = (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || c == '*' || c == '?';
        if (kept)
            out[count++] = c;
        else if (count && out[count - 1] != '.')
            out[count++] = '.';
    }
    if (count && out[count - 1] == '.') count--;
    out[count] = 0;
    return out;
}

// Whether the whole text fits a pattern in which `*` is any text and `?` one letter.
static bool matches(const char *pattern, const char *text) {
    const char *star = NULL, *back = NULL;
    while (*text) {
        if (*pattern == '*') {
            star = pattern++;
            back = text;
        } else if (*pattern == '?' || *pattern == *text) {
            pattern++;
            text++;
        } else if (star) {
            pattern = star + 1;
            text = ++back;
        } else {
            return false;
        }
    }
    while (*pattern == '*') pattern++;
    return !*pattern;
}

// Whether a squashed pattern fits a parameter, by JAX's name or by the instruction's.
static bool fits_parameter(HloArena *arena, const char *squashed, const HloInstruction *parameter) {
    const char *label = spmd_argument_name(parameter);
    return hlo_shape_is_array(parameter->shape) && (matches(squashed, squash(arena, label, label == parameter->name)) ||
                                                    matches(squashed, squash(arena, parameter->name, true)));
}

bool spmd_argument_matches(HloArena *arena, const char *pattern, const HloInstruction *parameter) {
    const bool as_written = hlo_shape_is_array(parameter->shape) && !strcmp(spmd_argument_name(parameter), pattern);
    return as_written || fits_parameter(arena, squash(arena, pattern, false), parameter);
}

// The arrays of an option.
typedef struct Targets {
    int32_t *items;
    int64_t count;
    bool several;  // a pattern, whose arrays may have options of their own
} Targets;

// The parameters whose names match: as written if one does, else without regard to punctuation.
static void match_arguments(const SpmdPlan *plan, const char *name, Targets *targets) {
    const HloInstructionVector *parameters = &plan->module->entry->parameters;
    targets->items = HLO_ARENA_NEW(plan->arena, int32_t, parameters->count);
    const char *squashed = squash(plan->arena, name, false);
    targets->several = strchr(name, '*') || strchr(name, '?');
    for (int way = 0; way < 2 && !targets->count; way++) {
        for (int64_t i = 0; i < parameters->count; i++) {
            const HloInstruction *parameter = parameters->items[i];
            const bool fits = way == 0
                                  ? hlo_shape_is_array(parameter->shape) && !strcmp(spmd_argument_name(parameter), name)
                                  : fits_parameter(plan->arena, squashed, parameter);
            if (fits) targets->items[targets->count++] = plan->array_of_leaf[plan->first_leaf[parameter->id]];
        }
    }
}

static HloStatus unknown_target(const SpmdPlan *plan, const char *name) {
    const HloInstructionVector *parameters = &plan->module->entry->parameters;
    const char **names = HLO_ARENA_NEW(plan->arena, const char *, parameters->count + 1);
    for (int64_t i = 0; i < parameters->count; i++) names[i] = spmd_argument_name(parameters->items[i]);
    const char *nearest = hlo_nearest_name(name, names, parameters->count);
    return hlo_error(HLO_INVALID_ARGUMENT,
                     "'%s' is neither pN (a parameter), rN (a result) nor the name of a parameter or an instruction"
                     "%s%s%s",
                     name, nearest ? "; did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "");
}

static HloStatus find_targets(const SpmdPlan *plan, const HloStringMap *instructions, const char *name,
                              Targets *targets) {
    int32_t one;
    HLO_TRY(find_target(plan, instructions, name, &one));
    if (one >= 0) {
        targets->items = hlo_arena_copy(plan->arena, &one, sizeof(one));
        targets->count = 1;
        return HLO_SUCCESS;
    }
    match_arguments(plan, name, targets);
    return targets->count ? HLO_SUCCESS : unknown_target(plan, name);
}

static HloStatus apply_spec(SpmdPlan *plan, const char *spec, SpmdArray *array) {
    const HloSharding *sharding;
    HLO_TRY(
        spmd_spec_parse(plan->arena, plan->mesh->axes, plan->mesh->axis_count, spec, array->shape->rank, &sharding));
    SpmdAnnotation annotation;
    HLO_TRY(spmd_annotation_from_hlo(plan->arena, plan->mesh, sharding, array->shape->rank, &annotation));
    HLO_TRY(spmd_annotation_keep_dynamic(array->shape, &annotation));
    array->sharding = annotation.sharding;
    array->open = annotation.open;
    array->devices = NULL;
    array->annotated = true;
    return HLO_SUCCESS;
}

// The option of each kind that names an array, by the array's number: its number + 1.
typedef struct Owners {
    int32_t *alone, *pattern;
} Owners;

// Puts the option as the user gave it before an error.
static HloStatus blame(const SpmdOptions *options, int64_t index, HloStatus status) {
    return hlo_status_annotate(status, "%s '%s'", options->shard_option ? options->shard_option : "--shard",
                               options->shards[index]);
}

// Finds the options of all arrays; two of one kind must not name the same.
static HloStatus find_owners(const SpmdPlan *plan, const SpmdOptions *options, const Targets *targets, Owners *owners) {
    owners->alone = HLO_ARENA_NEW(plan->arena, int32_t, plan->arrays.count + 1);
    owners->pattern = HLO_ARENA_NEW(plan->arena, int32_t, plan->arrays.count + 1);
    for (int64_t i = 0; i < options->shard_count; i++) {
        for (int64_t t = 0; t < targets[i].count; t++) {
            int32_t *owner = &(targets[i].several ? owners->pattern : owners->alone)[targets[i].items[t]];
            if (*owner && *owner != i + 1)
                return blame(
                    options, i,
                    hlo_error(HLO_INVALID_ARGUMENT, "names the same array as '%s'", options->shards[*owner - 1]));
            *owner = (int32_t)i + 1;
        }
    }
    return HLO_SUCCESS;
}

// Shards the arrays of option `index`, but those of a pattern that another option names by itself.
static HloStatus apply_option(SpmdPlan *plan, const SpmdOptions *options, const Targets *targets, const Owners *owners,
                              int64_t index) {
    const char *spec = strrchr(options->shards[index], '=') + 1;
    for (int64_t t = 0; t < targets[index].count; t++) {
        const int32_t array = targets[index].items[t];
        if (targets[index].several && owners->alone[array]) continue;
        HLO_TRY(apply_spec(plan, spec, &plan->arrays.items[array]));
    }
    return HLO_SUCCESS;
}

HloStatus spmd_apply_shard_options(SpmdPlan *plan, const SpmdOptions *options) {
    Targets *targets = HLO_ARENA_NEW(plan->arena, Targets, options->shard_count);
    HloStringMap instructions = {0};
    if (options->shard_count) index_instructions(plan, &instructions);
    for (int64_t i = 0; i < options->shard_count; i++) {
        const char *option = options->shards[i], *equals = strrchr(option, '=');
        HloStatus status = HLO_SUCCESS;
        if (!equals)
            status = hlo_error(HLO_INVALID_ARGUMENT, "expected TARGET=SPEC, as in p0=x,-");
        else
            status = find_targets(plan, &instructions, hlo_arena_string(plan->arena, option, (size_t)(equals - option)),
                                  &targets[i]);
        if (status) return blame(options, i, status);
    }
    Owners owners;
    HLO_TRY(find_owners(plan, options, targets, &owners));
    for (int64_t i = 0; i < options->shard_count; i++) {
        HloStatus status = apply_option(plan, options, targets, &owners, i);
        if (status) return blame(options, i, status);
    }
    return HLO_SUCCESS;
}
