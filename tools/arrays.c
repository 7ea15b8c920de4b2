// SPDX-License-Identifier: Apache-2.0
// Inputs and results of a run: reading them from files, making those that are missing from a seed (the same on every
// machine, see `meshlo run --help`), writing results.
#include "tools/arrays.h"

#include <assert.h>
#include <string.h>

#include "hlo/base/file.h"
#include "hlo/base/nearest.h"
#include "hlo/ir/literal_values.h"
#include "tools/npy.h"

void cli_arrays_free(CliArrays *arrays) {
    for (int64_t i = 0; i < arrays->count; ++i) hlo_literal_free(arrays->items[i]);
    *arrays = (CliArrays){0};
}

// The flattened input that `key` names: a number, p and a number, or a parameter's name; -1 when there is none. A
// parameter's name means its first leaf. Names of the form p and a number are indices, whatever the parameters are
// called.
static int64_t find_input(const HloModule *module, const char *key, int64_t count) {
    assert(key && count >= 0);
    const char *digits = key[0] == 'p' ? key + 1 : key;
    if (*digits && strspn(digits, "0123456789") == strlen(digits) && strlen(digits) < 10) {
        int64_t index = 0;
        for (; *digits; ++digits) index = index * 10 + (*digits - '0');
        return index < count ? index : -1;
    }
    int64_t leaf = 0;
    for (int64_t i = 0; i < hlo_parameter_count(module->entry); ++i) {
        const HloInstruction *parameter = module->entry->parameters.items[i];
        if (strcmp(parameter->name, key) == 0) return leaf < count ? leaf : -1;
        leaf += hlo_shape_leaf_count(parameter->shape);
    }
    return -1;
}

// With the nearest name, as for options.
static HloStatus unknown_input(CliContext *context, const HloModule *module, const char *key, int64_t count) {
    HloStringVector names = {0};
    for (int64_t i = 0; i < hlo_parameter_count(module->entry); ++i) {
        hlo_vector_push(context->arena, &names, module->entry->parameters.items[i]->name);
    }
    const char *digits = key[0] == 'p' ? key + 1 : key;
    const bool is_place = *digits && strspn(digits, "0123456789") == strlen(digits);  // and no misspelt name
    const char *nearest = is_place ? NULL : hlo_nearest_name(key, names.items, names.count);
    if (nearest) return cli_usage_error(context, "--input: no parameter '%s'; did you mean %s?", key, nearest);
    return cli_usage_error(context, "--input: no parameter '%s'; the program has %lld inputs", key, (long long)count);
}

// The shapes that inputs may have: see cli_inputs_read().
typedef struct Wanted {
    const HloShape *const *shapes, *const *shared;
} Wanted;

// Input number `index` from a member of an archive, or, with NULL, from the file `path`.
static HloStatus read_array(const Wanted *wanted, int64_t index, NpzArchive *archive, const char *path,
                            HloLiteral **input) {
    const HloShape *shape = wanted->shapes[index], *shared = wanted->shared ? wanted->shared[index] : shape;
    HloStatus status = archive ? npz_read(archive, path, shape, input) : npy_read(path, shape, input);
    if (hlo_status_code(status) != HLO_INVALID_ARGUMENT || shared == shape) return status;
    const HloStatus second = archive ? npz_read(archive, path, shared, input) : npy_read(path, shared, input);
    hlo_status_free(second ? second : status);  // where neither fits, report the one with all replicas
    return second ? status : HLO_SUCCESS;
}

// Members that are there; inputs without one are made from the seed.
// An input that was given by name already is an error, not a silent choice.
static HloStatus read_archive(CliContext *context, const char *path, const Wanted *wanted, CliArrays *inputs) {
    assert(path && inputs);
    NpzArchive archive = {0};
    bool *there = HLO_ARENA_NEW(context->arena, bool, inputs->count);
    HLO_TRY(npz_open(path, &archive));
    HloStatus status = npz_check_names(&archive, there, inputs->count);
    for (int64_t i = 0; i < inputs->count && !status; ++i) {
        if (!there[i]) continue;
        const char *name = hlo_arena_format(context->arena, "arr_%lld", (long long)i);
        status = inputs->items[i]
                     ? cli_usage_error(context, "--input %s: input %lld is given twice", path, (long long)i)
                     : HLO_SUCCESS;
        if (!status) status = read_array(wanted, i, &archive, name, &inputs->items[i]);
    }
    npz_close(&archive);
    return status;
}

static bool ends_with(const char *text, const char *end) {
    size_t length = strlen(text), end_length = strlen(end);
    return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

// K=FILE.npy, or FILE.npz for several.
static HloStatus read_one(CliContext *context, const HloModule *module, const char *option, const Wanted *wanted,
                          CliArrays *inputs) {
    const char *equals = strchr(option, '=');
    if (!equals && ends_with(option, ".npz")) return read_archive(context, option, wanted, inputs);
    if (!equals) return cli_usage_error(context, "--input expects K=FILE.npy or FILE.npz, not '%s'", option);
    const char *key = hlo_arena_string(context->arena, option, (size_t)(equals - option));
    int64_t index = find_input(module, key, inputs->count);
    if (index < 0) return unknown_input(context, module, key, inputs->count);
    if (inputs->items[index])
        return cli_usage_error(context, "--input %s: input %lld is given twice", option, (long long)index);
    return read_array(wanted, index, NULL, equals + 1, &inputs->items[index]);
}

// Notes which inputs are made up, unless --seed requests that.
static void say_what_is_missing(CliContext *context, const HloShape *const *shapes, const CliArrays *inputs) {
    enum { kMostNamed = 8 };
    int64_t missing = 0, total = 0;
    HloText list = {0};
    for (int64_t i = 0; i < inputs->count; ++i) {
        if (!hlo_shape_is_array(shapes[i])) continue;
        ++total;
        if (inputs->items[i]) continue;
        if (++missing <= kMostNamed) hlo_text_format(&list, "%s%lld", missing > 1 ? ", " : "", (long long)i);
    }
    if (missing && !cli_flag(context, "seed"))
        hlo_text_format(&context->complaint,
                        "note: %lld of %lld inputs %s not given (%s%s) and generated from seed 0 (--seed 0 suppresses "
                        "this note, --input gives them)\n",
                        (long long)missing, (long long)total, missing == 1 ? "is" : "are", list.data ? list.data : "",
                        missing > kMostNamed ? ", …" : "");
    hlo_text_free(&list);
}

static HloStatus fill_missing(CliContext *context, const HloShape *const *shapes, CliArrays *inputs) {
    say_what_is_missing(context, shapes, inputs);
    uint64_t seed = (uint64_t)cli_integer(context, "seed", 0);
    double bytes = 0, done = 0;
    for (int64_t i = 0; i < inputs->count; ++i)
        if (!inputs->items[i]) bytes += (double)hlo_shape_bytes(shapes[i]);
    for (int64_t i = 0; i < inputs->count; ++i) {
        if (inputs->items[i]) continue;
        cli_progress_share(context, "making inputs", bytes > 0 ? done / bytes : 0);
        done += (double)hlo_shape_bytes(shapes[i]);
        inputs->items[i] = hlo_literal_new(shapes[i]);
        HLO_FAIL_IF(!inputs->items[i], HLO_RESOURCE_EXHAUSTED, "out of memory for input %lld (%lld bytes)",
                    (long long)i, (long long)hlo_shape_bytes(shapes[i]));
        if (hlo_shape_is_array(shapes[i])) hlo_literal_fill_random(inputs->items[i], seed, i);
    }
    return HLO_SUCCESS;
}

HloStatus cli_inputs_read(CliContext *context, const HloModule *module, const HloShape *const *shapes,
                          const HloShape *const *shared, int64_t count, CliArrays *inputs) {
    assert(count >= 0 && inputs);
    const Wanted wanted = {shapes, shared};
    *inputs = (CliArrays){HLO_ARENA_NEW(context->arena, HloLiteral *, count), count};
    HloStringVector options = cli_list(context, "input");
    context->stage = CLI_STAGE_USAGE;
    HloStatus status = HLO_SUCCESS;
    for (int64_t i = 0; i < options.count && !status; ++i) {
        status = read_one(context, module, options.items[i], &wanted, inputs);
        if (status && strncmp(hlo_status_message(status), "--input", 7) != 0)
            status = hlo_status_annotate(status, "--input %s", cli_printable(context, options.items[i]));
    }
    if (!status) status = fill_missing(context, shapes, inputs);
    if (status) cli_arrays_free(inputs);
    return status;
}

HloStatus cli_arrays_write(const char *folder, const CliArrays *arrays) {
    assert(folder && arrays);
    HLO_TRY(hlo_file_make_folder(folder));
    for (int64_t i = 0; i < arrays->count; ++i) {
        if (!arrays->items[i] || !hlo_shape_is_array(arrays->items[i]->shape)) continue;
        HloText path = {0};
        hlo_text_format(&path, "%s/%lld.npy", folder, (long long)i);
        HloStatus status = hlo_text_status(&path);
        if (!status) status = npy_write(path.data, arrays->items[i]);
        hlo_text_free(&path);
        HLO_TRY(status);
    }
    return HLO_SUCCESS;
}

HloLiteral *cli_array_view(HloArena *arena, const HloLiteral *literal, const HloShape *shape) {
    assert(hlo_shape_bytes(shape) == hlo_shape_bytes(literal->shape));
    HloLiteral *view = HLO_ARENA_NEW(arena, HloLiteral, 1);
    *view = (HloLiteral){.shape = shape, .data = literal->data, .elided = literal->elided};
    return view;
}

// A literal of this shape whose arrays are views of the next leaves.
static HloLiteral *view_leaves(HloArena *arena, const HloShape *shape, const CliArrays *leaves, int64_t *next) {
    assert(hlo_shape_is_tuple(shape) || *next < leaves->count);
    if (!hlo_shape_is_tuple(shape)) {
        const HloLiteral *leaf = leaves->items[(*next)++];
        if (leaf && hlo_shape_is_dynamic(shape)) shape = leaf->shape;  // as large as it is
        return leaf && leaf->data ? cli_array_view(arena, leaf, shape) : hlo_literal_in_arena(arena, shape);
    }
    HloLiteral *tuple = HLO_ARENA_NEW(arena, HloLiteral, 1);
    tuple->elements = HLO_ARENA_NEW(arena, HloLiteral *, shape->element_count);
    const HloShape **elements = HLO_ARENA_NEW(arena, const HloShape *, shape->element_count);
    for (int32_t i = 0; i < shape->element_count; ++i) {
        tuple->elements[i] = view_leaves(arena, shape->elements[i], leaves, next);
        elements[i] = tuple->elements[i]->shape;
    }
    tuple->shape = hlo_shape_tuple(arena, elements, shape->element_count);
    return tuple;
}

CliArrays cli_arrays_to_parameters(CliContext *context, const HloComputation *entry, const CliArrays *leaves) {
    int64_t next = 0, count = hlo_parameter_count(entry);
    CliArrays parameters = {HLO_ARENA_NEW(context->arena, HloLiteral *, count), count};
    for (int64_t i = 0; i < count; ++i) {
        parameters.items[i] = view_leaves(context->arena, entry->parameters.items[i]->shape, leaves, &next);
    }
    assert(next == leaves->count);  // the shapes of the leaves were taken from the same parameters
    return parameters;
}

// Views: the literal keeps its memory.
static void list_leaves(HloArena *arena, const HloLiteral *literal, CliArrays *leaves, int64_t *next) {
    if (!hlo_shape_is_tuple(literal->shape)) {
        leaves->items[(*next)++] = cli_array_view(arena, literal, literal->shape);
        return;
    }
    for (int32_t i = 0; i < literal->shape->element_count; ++i) list_leaves(arena, literal->elements[i], leaves, next);
}

CliArrays cli_arrays_from_result(CliContext *context, const HloLiteral *result) {
    int64_t count = hlo_shape_leaf_count(result->shape), next = 0;
    CliArrays leaves = {HLO_ARENA_NEW(context->arena, HloLiteral *, count), count};
    list_leaves(context->arena, result, &leaves, &next);
    assert(next == count);
    return leaves;
}
