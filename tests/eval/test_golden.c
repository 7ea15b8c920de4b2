// SPDX-License-Identifier: Apache-2.0
// Every op against XLA:CPU, in the evaluator and in the compiled engine: the cases of golden.txt, or of the file that
// MESHLO_GOLDEN names, made by make_golden.py. Inputs come from the same formulas.
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hlo/base/complex.h"
#include "hlo/eval/eval.h"
#include "hlo/text/text.h"
#include "tests/support/compiled.h"

static uint64_t mix(int64_t parameter, int64_t index) {
    uint64_t x = (uint64_t)index * 0x9E3779B97F4A7C15u + (uint64_t)(parameter + 1) * 0xBF58476D1CE4E5B9u;
    x ^= x >> 31;
    x *= 0x94D049BB133111EBu;
    return x ^ (x >> 29);
}

static double float_element(char mode, int64_t parameter, int64_t index) {
    static const double edges[] = {0.0,  -0.0, 1.0,   -1.0,       INFINITY, -INFINITY, NAN,  0.5, -0.5, 2.0,
                                   -2.0, 3e38, -3e38, 1e-7,       100.,     -100.,     1.5,  2.5, -1.5, -2.5,
                                   0.1,  -0.9, 0.9,   3.14159265, 88.0,     -88.0,     1e10, 7.0};
    uint64_t noise = mix(parameter, index);
    if (mode == 'i') return (double)(noise % 11) - 2;
    size_t edge = (size_t)(index + 5 * parameter) % 32;
    if (mode == 'f' && index < 64 && edge < HLO_COUNT_OF(edges)) return edges[edge];
    return ((double)(noise % 2001) - 1000) / 256.0;
}

static int64_t integer_element(HloType type, char mode, int64_t parameter, int64_t index) {
    uint64_t noise = mix(parameter, index);
    if (type == HLO_PRED) return (int64_t)(noise & 1);
    if (mode == 'i') return (int64_t)(noise % 11) - 2;
    bool is_signed = hlo_type_kind(type) == HLO_KIND_SIGNED;
    if (mode == 's') return is_signed ? (int64_t)(noise % 11) - 5 : (int64_t)(noise % 6);
    uint64_t bits = (uint64_t)hlo_type_info(type)->bits, top = (uint64_t)1 << (bits - 1);
    const uint64_t edges[] = {0,           1, 2, 3, top - 1,  top,  top + 1,  2 * top - 1,
                              2 * top - 2, 5, 7, 8, bits - 1, bits, bits + 1, 31};
    return (int64_t)(mode == 'f' && index < 32 ? edges[(index + 3 * parameter) % 16] : noise);
}

// Part `part` (0 real, 1 imaginary) of a complex number.
static double complex_part(char mode, int64_t parameter, int64_t index, int part) {
    static const double grid[11] = {0.0, -0.0, 1.0, -1.0, INFINITY, -INFINITY, NAN, 0.5, -2.0, 1e30, -1e-30};
    if (mode == 'g') return grid[(part ? index : index / 11) % 11];
    return float_element('s', parameter, 2 * index + part);
}

static HloLiteral *make_input(const HloShape *shape, char mode, int64_t parameter) {
    HloLiteral *literal = hlo_literal_new(shape);
    cr_assert_not_null(literal);
    int64_t count = hlo_shape_elements(shape);
    for (int64_t i = 0; i < count; i++) {
        if (hlo_type_is_complex(shape->type)) {
            hlo_literal_set_complex(literal, i,
                                    CMPLX(complex_part(mode, parameter, i, 0), complex_part(mode, parameter, i, 1)));
        } else if (hlo_type_is_float(shape->type)) {
            hlo_literal_set_double(literal, i, float_element(mode, parameter, i));
        } else {
            hlo_literal_set_int64(literal, i, integer_element(shape->type, mode, parameter, i));
        }
    }
    return literal;
}

static bool close_enough(double want, double got, double rtol, double atol) {
    if (isnan(want) || isnan(got)) return isnan(want) && isnan(got);
    if (isinf(want) || isinf(got)) return want == got;
    if (rtol == 0 && atol < 1e-30 && signbit(want) != signbit(got)) return false;
    return want == got || fabs(want - got) <= atol + rtol * fabs(want);
}

typedef struct Case {
    char name[128], modes[16];
    double rtol, atol;
    HloText text;
} Case;

// One result array against the hex of XLA's.
static void check_array(const Case *c, const HloLiteral *got, const char *hex) {
    HloLiteral *want = hlo_literal_new(got->shape);
    int64_t bytes = hlo_shape_bytes(got->shape), count = hlo_shape_elements(got->shape);
    cr_assert_eq((int64_t)strlen(hex), 2 * bytes, "%s: %zu digits for %lld bytes", c->name, strlen(hex),
                 (long long)bytes);
    for (int64_t i = 0; i < bytes; i++) {
        char pair[3] = {hex[2 * i], hex[2 * i + 1], 0};
        ((uint8_t *)want->data)[i] = (uint8_t)strtoul(pair, NULL, 16);
    }
    HloType type = got->shape->type;
    uint8_t mask = hlo_type_info(type)->bits < 8 ? (uint8_t)((1 << hlo_type_info(type)->bits) - 1) : 0xFF;
    for (int64_t i = 0; i < count; i++) {
        bool same;
        if (hlo_type_is_complex(type)) {
            double _Complex a = hlo_literal_get_complex(want, i), b = hlo_literal_get_complex(got, i);
            double room =
                c->atol + (isfinite(cabs(a)) ? c->rtol * cabs(a) : 0);  // either part may err with the other's size
            same = close_enough(creal(a), creal(b), c->rtol, room) && close_enough(cimag(a), cimag(b), c->rtol, room);
        } else if (hlo_type_is_float(type)) {
            same = close_enough(hlo_literal_get_double(want, i), hlo_literal_get_double(got, i), c->rtol, c->atol);
        } else if (mask != 0xFF) {
            same = ((((uint8_t *)want->data)[i] ^ ((uint8_t *)got->data)[i]) & mask) == 0;
        } else {
            same = hlo_literal_get_int64(want, i) == hlo_literal_get_int64(got, i);
        }
        cr_expect(
            same, "%s: element %lld is %.17g, XLA gives %.17g", c->name, (long long)i,
            hlo_type_is_complex(type) ? creal(hlo_literal_get_complex(got, i)) : hlo_literal_get_double(got, i),
            hlo_type_is_complex(type) ? creal(hlo_literal_get_complex(want, i)) : hlo_literal_get_double(want, i));
        if (!same) break;
    }
    hlo_literal_free(want);
}

static void fail_with(const Case *c, HloStatus status) {
    char *text = hlo_status_to_text(status);
    cr_expect(false, "%s: %s", c->name, text);
    hlo_free(text);
    hlo_status_free(status);
}

enum { MOST_DEVICES = 4, MOST_PARAMETERS = 8 };

// The results of a case: one literal per device.
typedef struct Results {
    HloLiteral *items[MOST_DEVICES];
    int64_t devices;
} Results;

static void drop_results(Results *results) {
    for (int64_t d = 0; d < results->devices; d++) hlo_literal_free(results->items[d]);
    *results = (Results){0};
}

// Array number `index` of the results of all devices, one device after the other; NULL where there is none.
static const HloLiteral *result_array(const Results *results, int64_t index) {
    if (results->devices == 0) return NULL;
    int64_t each = hlo_shape_leaf_count(results->items[0]->shape), device = index / each;
    if (device >= results->devices) return NULL;
    const HloLiteral *literal = results->items[device];
    return literal->elements ? literal->elements[index % each] : literal;
}

// Runs the parsed case in the evaluator or compiled; no results after a failure.
static void run_module(const Case *c, const HloModule *module, HloLiteral ***arguments, bool compiled,
                       Results *results) {
    int64_t devices = results->devices;
    bool ok;
    if (compiled) {
        const CompiledCheck check = {.threads = 1, .allow_fallback = true};
        HloText message = {0};
        ok = compiled_run_with(module, arguments, &check, results->items, &message);
        cr_expect(ok, "%s: %s", c->name, message.data);
        hlo_text_free(&message);
    } else {
        HloStatus status = hlo_evaluate_partitioned(module, devices, (const HloLiteral *const *const *)arguments,
                                                    module->entry->parameters.count, NULL, results->items);
        ok = !status;
        if (status) fail_with(c, status);
    }
    if (!ok) *results = (Results){0};
}

static void run_case(const Case *c, bool compiled, Results *results) {
    HloModule *module = NULL;
    HloStatus status = hlo_parse(c->text.data, c->text.length, NULL, &module);
    if (status) {
        fail_with(c, status);
        return;
    }
    HloLiteral *literals[MOST_DEVICES][MOST_PARAMETERS] = {{NULL}}, **arguments[MOST_DEVICES];
    int64_t count = module->entry->parameters.count;
    *results = (Results){.devices = module->replica_count > 1 ? module->replica_count : 1};
    cr_assert(results->devices <= MOST_DEVICES && count <= MOST_PARAMETERS, "%s", c->name);
    for (int64_t d = 0; d < results->devices; d++) {
        arguments[d] = literals[d];
        for (int64_t p = 0; p < count; p++)
            literals[d][p] = make_input(module->entry->parameters.items[p]->shape, c->modes[p], 16 * d + p);
    }
    int64_t devices = results->devices;
    run_module(c, module, arguments, compiled, results);
    for (int64_t d = 0; d < devices; d++) {
        for (int64_t p = 0; p < count; p++) hlo_literal_free(literals[d][p]);
    }
    hlo_module_free(module);
}

static void check_every_case(bool compiled) {
    const char *other = getenv("MESHLO_GOLDEN");
    FILE *file = fopen(other ? other : MESHLO_SOURCE_DIR "/tests/eval/golden.txt", "r");
    cr_assert_not_null(file);
    Case c = {0};
    Results results = {0};
    char *line = NULL;
    size_t capacity = 0;
    int64_t cases = 0, output = 0;
    for (ssize_t length; (length = getline(&line, &capacity, file)) > 0;) {
        if (!strncmp(line, "case ", 5)) {
            hlo_text_free(&c.text);
            drop_results(&results);
            output = 0;
            cr_assert_eq(sscanf(line, "case %127s %lf %lf %15s", c.name, &c.rtol, &c.atol, c.modes), 4, "%s", line);
        } else if (!strncmp(line, "out ", 4) || !strcmp(line, "out\n")) {
            if (output == 0) {
                run_case(&c, compiled, &results);
                cases++;
            }
            line[strcspn(line, "\n")] = 0;
            const HloLiteral *array = result_array(&results, output++);
            if (array) check_array(&c, array, line + 4);
        } else if (line[0] != '#') {
            hlo_text_append(&c.text, line, (size_t)length);
        }
    }
    hlo_text_free(&c.text);
    drop_results(&results);
    free(line);
    fclose(file);
    cr_expect_gt(cases, other ? 3000 : 1800, "only %lld cases", (long long)cases);
}

Test(golden, the_evaluator_agrees_with_xla) {
    check_every_case(false);
}

Test(golden, the_compiled_engine_agrees_with_xla) {
    check_every_case(true);
}
