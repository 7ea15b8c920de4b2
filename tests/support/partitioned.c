// SPDX-License-Identifier: Apache-2.0
#include "tests/support/partitioned.h"
#include "tests/support/random.h"

#include <math.h>
#include <string.h>

#include "hlo/base/complex.h"
#include "hlo/eval/eval.h"
#include "hlo/text/text.h"
#include "hlo/verify/verify.h"

// Small whole numbers: sums of them are exact in any order.
static void fill(HloLiteral *literal, Random *random) {
    int64_t count = hlo_shape_elements(literal->shape);
    HloTypeKind kind = hlo_type_kind(literal->shape->type);
    for (int64_t i = 0; i < count; i++) {
        int64_t value = (int64_t)random_under(random, 9) - (kind == HLO_KIND_UNSIGNED || kind == HLO_KIND_PRED ? 0 : 4);
        if (kind == HLO_KIND_PRED) value &= 1;
        if (kind == HLO_KIND_FLOAT) {
            hlo_literal_set_double(literal, i, (double)value);
        } else if (kind == HLO_KIND_COMPLEX) {
            hlo_literal_set_complex(literal, i, (double)value);
        } else {
            hlo_literal_set_int64(literal, i, value);
        }
    }
}

static char *message(const char *format, ...) {
    HloText text = {0};
    va_list arguments;
    va_start(arguments, format);
    hlo_text_format_list(&text, format, arguments);
    va_end(arguments);
    return text.data;
}

static char *status_message(const char *stage, HloStatus status) {
    char *text = message("%s: %s", stage, hlo_status_message(status));
    hlo_status_free(status);
    return text;
}

// Leaf `index` of a literal.
static const HloLiteral *leaf_of(const HloLiteral *literal, int64_t *index) {
    if (!hlo_shape_is_tuple(literal->shape)) return (*index)-- == 0 ? literal : NULL;
    for (int32_t i = 0; i < literal->shape->element_count; i++) {
        const HloLiteral *found = leaf_of(literal->elements[i], index);
        if (found) return found;
    }
    return NULL;
}

static char *compare_literals(const HloLiteral *want, const HloLiteral *got, int64_t result) {
    int64_t count = hlo_shape_elements(want->shape);
    double largest = 0;
    for (int64_t i = 0; i < count; i++) largest = fmax(largest, cabs(hlo_literal_get_complex(want, i)));
    if (isinf(largest)) largest = 0;
    bool exact = !hlo_type_is_float(want->shape->type) && !hlo_type_is_complex(want->shape->type);
    for (int64_t i = 0; i < count; i++) {
        if (exact) {
            int64_t a = hlo_literal_get_int64(want, i), b = hlo_literal_get_int64(got, i);
            if (a != b)
                return message("result %lld [%lld]: %lld, not %lld", (long long)result, (long long)i, (long long)b,
                               (long long)a);
            continue;
        }
        double _Complex a = hlo_literal_get_complex(want, i), b = hlo_literal_get_complex(got, i);
        double error = cabs(a - b), scale = cabs(a);
        bool same =
            error <= 1e-5 + 2e-4 * scale + 1e-4 * largest || (isnan(scale) && isnan(cabs(b))) || creal(a) == creal(b);
        if (!same)
            return message("result %lld [%lld]: %g, not %g", (long long)result, (long long)i, creal(b), creal(a));
    }
    return NULL;
}

enum { MOST_DEVICES = 256 };  // annotations may name any number of them

// The objects that one comparison owns.
typedef struct Trial {
    const HloModule *module;
    HloModule *partitioned;
    SpmdBoundary *boundary;
    int64_t devices;
    HloLiteral *inputs[64];                      // whole parameters
    HloLiteral **shards[64];                     // by parameter, by device
    const HloLiteral **arguments[MOST_DEVICES];  // by device, by parameter
    HloLiteral *want;
    HloLiteral *results[MOST_DEVICES];
} Trial;

// Sets the elements of a shard beyond the end of the array to values that must not matter: NaN, or a large number.
// Splitting leaves zeros there, which many an op would not notice.
static char *spoil_padding(HloLiteral *shard, const SpmdBoundaryArray *array, int64_t device) {
    int64_t offsets[16] = {0};
    const HloShape *local = shard->shape;
    HloStatus status = spmd_shard_offsets(array->global, array->sharding, device, offsets);
    if (status) return status_message("offsets", status);
    for (int64_t i = 0, count = hlo_shape_elements(local); i < count; i++) {
        bool inside = true;
        for (int64_t d = local->rank - 1, rest = i; d >= 0; rest /= local->dims[d--]) {
            inside &= offsets[d] + rest % local->dims[d] < array->global->dims[d];
        }
        if (inside) continue;
        if (hlo_type_is_complex(local->type)) {
            hlo_literal_set_complex(shard, i, (double)NAN);
        } else if (hlo_type_is_float(local->type)) {
            hlo_literal_set_double(shard, i, (double)NAN);
        } else {
            hlo_literal_set_int64(shard, i, local->type == HLO_PRED ? 1 : 99);
        }
    }
    return NULL;
}

static char *make_inputs(Trial *trial, uint64_t seed) {
    Random random = {seed};
    int64_t count = trial->module->entry->parameters.count;
    for (int64_t p = 0; p < count; p++) {
        const HloInstruction *parameter = trial->module->entry->parameters.items[p];
        trial->inputs[p] = hlo_literal_new(parameter->shape);
        fill(trial->inputs[p], &random);
        trial->shards[p] = hlo_allocate_zeroed((size_t)trial->devices, sizeof(HloLiteral *));
        HloStatus status = spmd_shard_literal(trial->inputs[p], trial->boundary->parameters[p].sharding, trial->devices,
                                              trial->shards[p]);
        if (status) return status_message("split", status);
        for (int64_t d = 0; d < trial->devices; d++) {
            char *problem = spoil_padding(trial->shards[p][d], &trial->boundary->parameters[p], d);
            if (problem) return problem;
        }
    }
    for (int64_t d = 0; d < trial->devices; d++) {
        trial->arguments[d] = hlo_allocate_zeroed((size_t)count + 1, sizeof(HloLiteral *));
        for (int64_t p = 0; p < count; p++) trial->arguments[d][p] = trial->shards[p][d];
    }
    return NULL;
}

// As spmd_unshard_literal(), for arrays whose dynamic dimensions, which are whole on every device, have turned out to
// be of some size; `dims` is room for the sizes of the whole.
static HloStatus join(const HloLiteral *const *parts, const SpmdBoundaryArray *array, int64_t devices, int64_t *dims,
                      HloLiteral **whole) {
    HloShape shape = *array->global;
    for (int32_t d = 0; d < shape.rank; d++)
        dims[d] = shape.dynamic && shape.dynamic[d] ? parts[0]->shape->dims[d] : shape.dims[d];
    shape.dims = dims;
    shape.dynamic = NULL;
    return spmd_unshard_literal(parts, array->sharding, devices, &shape, whole);
}

static char *compare_results(Trial *trial) {
    int64_t dims[64];
    for (int64_t r = 0; r < trial->boundary->result_count; r++) {
        const SpmdBoundaryArray *array = &trial->boundary->results[r];
        if (!hlo_shape_is_array(array->global)) continue;  // a token
        const HloLiteral *parts[MOST_DEVICES];
        for (int64_t d = 0; d < trial->devices; d++) {
            int64_t index = r;
            parts[d] = leaf_of(trial->results[d], &index);
        }
        HloLiteral *whole;
        HloStatus status = join(parts, array, trial->devices, dims, &whole);
        if (status) return status_message("join", status);
        int64_t index = r;
        const HloLiteral *want = leaf_of(trial->want, &index);
        char *text = hlo_shape_equal(want->shape, whole->shape, HLO_COMPARE_IGNORE_LAYOUT)
                         ? compare_literals(want, whole, r)
                         : message("result %lld is of another size", (long long)r);
        hlo_literal_free(whole);
        if (text) return text;
    }
    return NULL;
}

// Refused by the partitioner, or by the evaluator as a whole: that is not a finding. What goes wrong after that is one.
static char *run_trial(Trial *trial, const SpmdOptions *options, uint64_t seed, bool *refused) {
    *refused = true;
    HloStatus status = spmd_partition(trial->module, options, &trial->partitioned, NULL);
    if (status) return status_message("partition", status);
    *refused = false;
    status = hlo_verify(trial->partitioned);
    if (status) return status_message("verify", status);
    status = spmd_boundary_new(trial->partitioned, &trial->boundary);
    if (status) return status_message("boundary", status);
    trial->devices = trial->boundary->num_partitions;
    *refused = trial->devices > MOST_DEVICES;
    if (*refused) {
        trial->devices = 0;
        return message("more than %d devices", MOST_DEVICES);
    }
    char *problem = make_inputs(trial, seed);
    if (problem) return problem;
    int64_t count = trial->module->entry->parameters.count;
    HloEvalOptions eval = {.thread_count = 1, .device_count = trial->devices};
    status = hlo_evaluate(trial->module, (const HloLiteral *const *)trial->inputs, count, &eval, &trial->want);
    *refused = status != NULL;
    if (status) return status_message("evaluate", status);
    status = hlo_evaluate_partitioned(trial->partitioned, trial->devices,
                                      (const HloLiteral *const *const *)trial->arguments, count, &eval, trial->results);
    if (status) return status_message("evaluate partitioned", status);
    return compare_results(trial);
}

char *partitioned_difference(const HloModule *module, const SpmdOptions *options, uint64_t seed, bool *refused) {
    bool unused;
    Trial *trial = hlo_allocate_zeroed(1, sizeof(*trial));
    trial->module = module;
    char *problem = run_trial(trial, options, seed, refused ? refused : &unused);
    if (problem && trial->partitioned) {
        HloText shown = {0};
        HloPrintOptions print = hlo_print_short();
        hlo_text_format(&shown, "%s\n", problem);
        hlo_status_free(hlo_print(trial->partitioned, &print, &shown));
        hlo_free(problem);
        problem = shown.data;
    }
    for (size_t p = 0; p < HLO_COUNT_OF(trial->inputs); p++) {
        hlo_literal_free(trial->inputs[p]);
        for (int64_t d = 0; trial->shards[p] && d < trial->devices; d++) hlo_literal_free(trial->shards[p][d]);
        hlo_free(trial->shards[p]);
    }
    for (int64_t d = 0; d < trial->devices; d++) {
        hlo_free(trial->arguments[d]);
        hlo_literal_free(trial->results[d]);
    }
    hlo_literal_free(trial->want);
    spmd_boundary_free(trial->boundary);
    hlo_module_free(trial->partitioned);
    hlo_free(trial);
    return problem;
}
