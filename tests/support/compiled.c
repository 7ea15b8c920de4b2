// SPDX-License-Identifier: Apache-2.0
#include "tests/support/compiled.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hlo/base/complex.h"
#include "hlo/eval/eval.h"
#include "hlo/text/text.h"

HloModule *compiled_parse(const char *text, HloText *message) {
    HloModule *module = NULL;
    HloStatus status = hlo_parse(text, strlen(text), NULL, &module);
    if (!status) return module;
    char *complaint = hlo_status_to_text(status);
    hlo_text_string(message, complaint ? complaint : "no memory");
    hlo_free(complaint);
    hlo_status_free(status);
    return NULL;
}

static uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
    return x ^ (x >> 31);
}

void compiled_fill(HloLiteral *literal, uint64_t seed) {
    const HloType type = literal->shape->type;
    const int64_t count = hlo_shape_elements(literal->shape);
    for (int64_t i = 0; i < count; i++) {
        const uint64_t bits = mix(seed * 1000003 + (uint64_t)i + 1);
        const double unit = (double)(bits >> 11) / 9007199254740992.0;
        if (hlo_type_is_complex(type)) {
            const double other = (double)(mix(bits) >> 11) / 9007199254740992.0;
            hlo_literal_set_complex(literal, i, (4 * unit - 2) + (4 * other - 2) * (double _Complex)_Complex_I);
        } else if (type == HLO_F8E8M0FNU) {  // has no negative numbers
            hlo_literal_set_double(literal, i, 1 + unit);
        } else if (hlo_type_is_float(type)) {
            hlo_literal_set_double(literal, i, 4 * unit - 2);
        } else if (type == HLO_PRED) {
            hlo_literal_set_int64(literal, i, (int64_t)(bits & 1));
        } else {
            hlo_literal_set_int64(literal, i, (int64_t)(bits % 7) - (hlo_type_kind(type) == HLO_KIND_SIGNED ? 3 : 0));
        }
    }
}

static double extreme_float(uint64_t bits) {
    static const double values[] = {0,
                                    -0.0,
                                    1,
                                    -1,
                                    0.5,
                                    1.5,
                                    2.5,
                                    -2.5,
                                    127.5,
                                    255.5,
                                    65504,
                                    65520,
                                    2147483648.,
                                    4294967296.,
                                    -2147483649.,
                                    1e-40,
                                    -1e-40,
                                    1e-45,
                                    3e38,
                                    -3.4028e38,
                                    9.2233720368547758e18,
                                    1.8446744073709552e19,
                                    1e300,
                                    1e-310,
                                    3,
                                    7.99999,
                                    1e10,
                                    -1e10,
                                    16777217,
                                    0.1};
    switch (bits % 16) {
        case 0: return (double)INFINITY;
        case 1: return -(double)INFINITY;
        case 2: return (double)NAN;
        case 3: return (double)(bits >> 11) / 9007199254740992.0;
        default: return values[bits / 16 % HLO_COUNT_OF(values)];
    }
}

// The ends, their neighbours, widths of types, small numbers, or any bits: 64 of them, of which the type takes its own.
static int64_t extreme_integer(uint64_t bits, int width) {
    static const int64_t values[] = {0, 1, -1, 2, 3, 4, 7, 8, 15, 16, 31, 32, 63, 64, 65, 100, -2, -7};
    const int64_t lowest = (int64_t)(~UINT64_C(0) << (width - 1));
    switch (bits % 8) {
        case 0: return lowest + (int64_t)(bits / 8 % 2);
        case 1: return ~lowest - (int64_t)(bits / 8 % 2);
        case 2: return (int64_t)mix(bits);
        default: return values[bits / 8 % HLO_COUNT_OF(values)];
    }
}

static void fill_extremes(HloLiteral *literal, uint64_t seed) {
    const HloType type = literal->shape->type;
    const HloTypeInfo *info = hlo_type_info(type);
    for (int64_t i = 0; i < hlo_shape_elements(literal->shape); i++) {
        const uint64_t bits = mix(seed * 1000003 + (uint64_t)i + 1);
        if (hlo_type_is_complex(type)) {
            double parts[2] = {extreme_float(bits), extreme_float(mix(bits))};
            double _Complex value;
            memcpy(&value, parts, sizeof value);
            hlo_literal_set_complex(literal, i, value);
        } else if (hlo_type_is_float(type)) {
            hlo_literal_set_double(literal, i, extreme_float(bits));
        } else if (type == HLO_PRED) {
            hlo_literal_set_int64(literal, i, (int64_t)(bits & 1));
        } else {
            int64_t value = extreme_integer(bits, info->bits);
            const int unused = 64 - info->bits;
            value = hlo_type_kind(type) == HLO_KIND_SIGNED ? (int64_t)((uint64_t)value << unused) >> unused
                                                           : (int64_t)((uint64_t)value << unused >> unused);
            hlo_literal_set_int64(literal, i, value);
        }
    }
}

static void fill_tree(HloLiteral *literal, uint64_t seed, void (*fill)(HloLiteral *literal, uint64_t seed)) {
    if (hlo_shape_is_array(literal->shape)) fill(literal, seed);
    for (int32_t i = 0; hlo_shape_is_tuple(literal->shape) && i < literal->shape->element_count; i++)
        fill_tree(literal->elements[i], mix(seed + (uint64_t)i), fill);
}

HloLiteral *compiled_random(const HloShape *shape, uint64_t seed) {
    HloLiteral *literal = hlo_literal_new(shape);
    if (!literal) abort();
    fill_tree(literal, seed, compiled_fill);
    return literal;
}

HloLiteral *compiled_extremes(const HloShape *shape, uint64_t seed) {
    HloLiteral *literal = hlo_literal_new(shape);
    if (!literal) abort();
    fill_tree(literal, seed, fill_extremes);
    return literal;
}

static bool passed(HloStatus status, const char *what, HloText *message) {
    if (!status) return true;
    hlo_text_format(message, "%s: %s: %s", what, hlo_code_name(hlo_status_code(status)), hlo_status_message(status));
    hlo_status_free(status);
    return false;
}

static int64_t device_count(const HloModule *module) {
    return (module->replica_count > 0 ? module->replica_count : 1) *
           (module->num_partitions > 0 ? module->num_partitions : 1);
}

// ---- running

static const HloLiteral *leaf(const HloLiteral *literal, int64_t *index) {
    if (!hlo_shape_is_tuple(literal->shape)) return (*index)-- == 0 ? literal : NULL;
    for (int32_t i = 0; i < literal->shape->element_count; i++) {
        const HloLiteral *found = leaf(literal->elements[i], index);
        if (found) return found;
    }
    return NULL;
}

static HloLiteral *leaf_of(const HloLiteral *literal, int64_t index) {
    return (HloLiteral *)(uintptr_t)leaf(literal, &index);
}

// The shape with a size from the seed for each dimension of dynamic size, the same on every device.
static const HloShape *sized(HloArena *arena, const HloShape *shape, uint64_t seed) {
    if (!hlo_shape_is_dynamic(shape)) return shape;
    if (hlo_shape_is_tuple(shape)) {
        const HloShape **elements = HLO_ARENA_NEW(arena, const HloShape *, shape->element_count);
        for (int32_t i = 0; i < shape->element_count; i++)
            elements[i] = sized(arena, shape->elements[i], seed + (uint64_t)i);
        return hlo_shape_tuple(arena, elements, shape->element_count);
    }
    int64_t *dims = HLO_ARENA_NEW(arena, int64_t, shape->rank);
    for (int32_t d = 0; d < shape->rank; d++)
        dims[d] =
            shape->dynamic[d] ? (int64_t)((seed * 5 + (uint64_t)d) % (uint64_t)(shape->dims[d] + 1)) : shape->dims[d];
    return hlo_shape_with_dims(arena, shape, dims, shape->rank);
}

// Literals [device][parameter] from the seed.
static HloLiteral ***make_arguments(const HloModule *module, const CompiledCheck *check) {
    const int64_t devices = device_count(module), count = module->entry->parameters.count;
    const int64_t equal = check->replicas > 0 ? check->replicas : 1;
    HloLiteral ***arguments = calloc((size_t)devices, sizeof *arguments);
    HloArena *arena = hlo_arena_new();
    for (int64_t d = 0; d < devices; d++) {
        arguments[d] = calloc((size_t)count + 1, sizeof **arguments);
        for (int64_t i = 0; i < count; i++) {
            const HloShape *shape = sized(arena, module->entry->parameters.items[i]->shape, check->seed + (uint64_t)i);
            const uint64_t seed = check->seed + (uint64_t)(1000 * (d / equal) + i);
            arguments[d][i] = check->extremes ? compiled_extremes(shape, seed) : compiled_random(shape, seed);
        }
    }
    hlo_arena_free(arena);
    return arguments;
}

static void free_arguments(const HloModule *module, HloLiteral ***arguments) {
    for (int64_t d = 0; d < device_count(module); d++) {
        for (int64_t i = 0; i < module->entry->parameters.count; i++) hlo_literal_free(arguments[d][i]);
        free(arguments[d]);
    }
    free(arguments);
}

// The result's shape, as large as its arrays turned out to be.
static HloStatus result_shape(HloArena *arena, const HloShape *shape, TargetBuffer *const *leaves, int64_t *next,
                              const HloShape **result) {
    *result = shape;
    if (hlo_shape_is_tuple(shape)) {
        const HloShape **elements = HLO_ARENA_NEW(arena, const HloShape *, shape->element_count);
        for (int32_t i = 0; i < shape->element_count; i++)
            HLO_TRY(result_shape(arena, shape->elements[i], leaves, next, &elements[i]));
        *result = hlo_shape_tuple(arena, elements, shape->element_count);
        return HLO_SUCCESS;
    }
    TargetBuffer *leaf = leaves[(*next)++];
    if (!hlo_shape_is_dynamic(shape)) return HLO_SUCCESS;
    int64_t *sizes = HLO_ARENA_NEW(arena, int64_t, shape->rank);
    HLO_TRY(target_buffer_sizes(leaf, sizes));
    *result = hlo_shape_with_dims(arena, shape, sizes, shape->rank);
    return HLO_SUCCESS;
}

static bool run_on_client(TargetClient *client, const HloModule *module, HloLiteral ***arguments,
                          const CompiledCheck *check, HloLiteral **results, HloText *message) {
    const TargetCompileOptions options = {.numerics = check->numerics};
    TargetExecutable *executable = NULL;
    if (!passed(target_compile(client, module, &options, &executable), "compile", message)) return false;
    const char *fallbacks = target_executable_fallbacks(executable);
    if (check->fallbacks) hlo_text_string(check->fallbacks, fallbacks);
    if (*fallbacks && !check->allow_fallback) {
        hlo_text_format(message, "not compiled: %s", fallbacks);
        target_executable_release(executable);
        return false;
    }
    const int64_t devices = target_executable_device_count(executable);
    const int64_t count = target_executable_argument_count(executable);
    const int64_t result_count = target_executable_result_count(executable);
    TargetBuffer ***inputs = calloc((size_t)devices, sizeof *inputs),
                 ***outputs = calloc((size_t)devices, sizeof *outputs);
    bool ok = true;
    for (int64_t d = 0; d < devices; d++) {
        results[d] = NULL;
        inputs[d] = calloc((size_t)count + 1, sizeof **inputs);
        outputs[d] = calloc((size_t)result_count + 1, sizeof **outputs);
        int64_t next = 0;
        if (!target_device_is_local(target_executable_device(executable, d))) continue;
        for (int64_t i = 0; i < module->entry->parameters.count && ok; i++) {
            const int64_t leaves = hlo_shape_leaf_count(arguments[d][i]->shape);
            for (int64_t k = 0; k < leaves && ok; k++, next++)
                ok =
                    passed(target_buffer_from_literal_bounded(
                               leaf_of(arguments[d][i], k), target_executable_argument_shape(executable, next),
                               target_device_default_memory(target_executable_device(executable, d)), &inputs[d][next]),
                           "argument", message);
        }
    }
    ok = ok && passed(target_execute(executable, NULL, (TargetBuffer *const *const *)inputs, count, outputs, NULL),
                      "execute", message);
    for (int64_t d = 0; d < devices; d++) {
        if (ok && target_device_is_local(target_executable_device(executable, d))) {
            HloArena *arena = hlo_arena_new();
            int64_t first = 0;
            const HloShape *shape = NULL;
            ok = passed(result_shape(arena, module->entry->root->shape, outputs[d], &first, &shape), "result", message);
            results[d] = ok ? hlo_literal_new(shape) : NULL;
            for (int64_t k = 0; k < result_count && ok; k++) {
                HloLiteral *to = leaf_of(results[d], k);
                ok = passed(target_buffer_to_host_raw(outputs[d][k], to->data, 0, hlo_shape_bytes(to->shape)), "result",
                            message);
            }
            hlo_arena_free(arena);
        }
        for (int64_t i = 0; i < count; i++) target_buffer_release(inputs[d][i]);
        for (int64_t i = 0; i < result_count; i++) target_buffer_release(outputs[d][i]);
        free(inputs[d]);
        free(outputs[d]);
    }
    for (int64_t d = 0; d < devices && !ok; d++) {
        hlo_literal_free(results[d]);
        results[d] = NULL;
    }
    free(inputs);
    free(outputs);
    target_executable_release(executable);
    return ok;
}

bool compiled_run_with(const HloModule *module, HloLiteral ***arguments, const CompiledCheck *check,
                       HloLiteral **results, HloText *message) {
    if (check->client) return run_on_client(check->client, module, arguments, check, results, message);
    char spec[32];
    snprintf(spec, sizeof spec, "cpu:%lld", (long long)device_count(module));
    TargetClient *client = NULL;
    if (!passed(target_client_new_with_threads(check->spec ? check->spec : spec, check->threads, &client), "client",
                message))
        return false;
    const bool ok = run_on_client(client, module, arguments, check, results, message);
    target_client_release(client);
    return ok;
}

bool compiled_run(const HloModule *module, const CompiledCheck *check, HloLiteral **results, HloText *message) {
    HloLiteral ***arguments = make_arguments(module, check);
    const bool ok = compiled_run_with(module, arguments, check, results, message);
    free_arguments(module, arguments);
    return ok;
}

bool compiled_run_on_one(const HloModule *module, HloLiteral **arguments, const CompiledCheck *check,
                         HloLiteral **result, HloText *message) {
    *result = NULL;
    return compiled_run_with(module, &arguments, check, result, message);
}

// ---- comparing

static double type_tolerance(HloType type, double f32_tolerance, double narrow_ulps) {
    const HloTypeInfo *info = hlo_type_info(hlo_type_real_part(type));
    if (!hlo_type_is_float(type) && !hlo_type_is_complex(type)) return 0;
    if (info->mantissa_bits >= 52) return f32_tolerance * 1e-6;
    if (info->mantissa_bits >= 23) return f32_tolerance;
    return narrow_ulps * ldexp(1, -info->mantissa_bits);
}

static bool near(double have, double want, double tolerance) {
    if (isnan(want) || isnan(have)) return isnan(want) && isnan(have);
    if (isinf(want) || isinf(have)) return have == want;
    return fabs(have - want) <= tolerance * fmax(1, fabs(want));
}

static bool same_element(const HloLiteral *have, const HloLiteral *want, int64_t i, double tolerance) {
    const HloType type = want->shape->type;
    if (hlo_type_is_complex(type)) {
        const double _Complex a = hlo_literal_get_complex(have, i), b = hlo_literal_get_complex(want, i);
        const double error = tolerance > 0 ? tolerance * fmax(1, cabs(b)) : 0;
        return near(creal(a), creal(b), error) && near(cimag(a), cimag(b), error);
    }
    if (hlo_type_is_float(type))
        return near(hlo_literal_get_double(have, i), hlo_literal_get_double(want, i), tolerance);
    return hlo_literal_get_int64(have, i) == hlo_literal_get_int64(want, i);
}

static bool compare(const HloLiteral *have, const HloLiteral *want, int64_t device, const CompiledCheck *check,
                    HloText *message) {
    const double tolerance = check->extremes ? 0 : check->tolerance > 0 ? check->tolerance : 2e-5;
    const double narrow_ulps = check->extremes ? 0 : check->narrow_ulps > 0 ? check->narrow_ulps : 3;
    for (int64_t k = 0; k < hlo_shape_leaf_count(want->shape); k++) {
        const HloLiteral *a = leaf_of(have, k), *b = leaf_of(want, k);
        const int64_t count = hlo_shape_elements(b->shape);
        if (!hlo_shape_equal(a->shape, b->shape, HLO_COMPARE_BOUNDS)) {
            hlo_text_format(message, "device %lld, result %lld: another size", (long long)device, (long long)k);
            return false;
        }
        for (int64_t i = 0; i < count; i++) {
            if (same_element(a, b, i, type_tolerance(b->shape->type, tolerance, narrow_ulps))) continue;
            hlo_text_format(message, "device %lld, result %lld, element %lld: compiled %.17g, evaluator %.17g",
                            (long long)device, (long long)k, (long long)i, hlo_literal_get_double(a, i),
                            hlo_literal_get_double(b, i));
            return false;
        }
    }
    return true;
}

bool compiled_same(const HloLiteral *have, const HloLiteral *want, const CompiledCheck *check, HloText *message) {
    return compare(have, want, 0, check, message);
}

bool compiled_equals_eval(const HloModule *module, const CompiledCheck *check, HloText *message) {
    const int64_t devices = device_count(module);
    HloLiteral ***arguments = make_arguments(module, check);
    HloLiteral **have = calloc((size_t)devices, sizeof *have), **want = calloc((size_t)devices, sizeof *want);
    const HloEvalOptions options = {.numerics =
                                        check->numerics == TARGET_NUMERICS_TPU ? HLO_NUMERICS_TPU : HLO_NUMERICS_EXACT};
    bool ok = passed(hlo_evaluate_partitioned(module, devices, (const HloLiteral *const *const *)arguments,
                                              module->entry->parameters.count, &options, want),
                     "evaluate", message);
    if (check->refused) *check->refused = !ok;
    ok = ok && compiled_run_with(module, arguments, check, have, message);
    for (int64_t d = 0; d < devices; d++) {
        ok = ok && compare(have[d], want[d], d, check, message);
        hlo_literal_free(have[d]);
        hlo_literal_free(want[d]);
    }
    free(have);
    free(want);
    free_arguments(module, arguments);
    return ok;
}
