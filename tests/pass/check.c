// SPDX-License-Identifier: Apache-2.0
#include "check.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "hlo/base/complex.h"
#include "hlo/eval/eval.h"
#include "tests/support/compiled.h"

HloModule *check_parse(const char *text) {
    HloModule *module = NULL;
    HloStatus status = hlo_parse(text, strlen(text), NULL, &module);
    char *message = status ? hlo_status_to_text(status) : NULL;
    cr_assert_null(status, "%s in\n%s", message, text);
    return module;
}

static void run(HloModule *module, const char *passes) {
    const char *names[16];
    int64_t count = 0;
    char *copy = strdup(passes), *rest = NULL;
    for (char *name = strtok_r(copy, ",", &rest); name; name = strtok_r(NULL, ",", &rest)) names[count++] = name;
    // As the compile pipeline does.
    const HloPassOptions options = {.before_partitioning = strstr(passes, "before-partitioning") != NULL};
    HloStatus status = hlo_run_passes(module, names, count, &options);
    cr_assert_null(status, "%s", hlo_status_message(status));
    free(copy);
}

static char *print(const HloModule *module) {
    HloText text = {0};
    HloPrintOptions options = hlo_print_short();
    options.print_percent = false;
    options.canonical_names = true;
    HloStatus status = hlo_print(module, &options, &text);
    cr_assert_null(status, "%s", hlo_status_message(status));
    return text.data;
}

// Without the header line and blank lines.
static char *essence(const char *text) {
    HloText kept = {0};
    for (const char *line = text; *line;) {
        size_t length = strcspn(line, "\n");
        bool header = strncmp(line, "HloModule", 9) == 0;
        if (length && !header) hlo_text_format(&kept, "%.*s\n", (int)length, line);
        line += length + (line[length] == '\n');
    }
    return kept.data ? kept.data : strdup("");
}

void check_pass(const char *passes, const char *before, const char *after) {
    HloModule *module = check_parse(before), *wanted_module = check_parse(after);
    run(module, passes);
    run(wanted_module, "dce");
    char *text = print(module), *got = essence(text);
    char *wanted_text = print(wanted_module), *wanted = essence(wanted_text);
    cr_expect_str_eq(got, wanted, "%s gave\n%s\nnot\n%s", passes, got, wanted);
    free(text);
    free(got);
    free(wanted_text);
    free(wanted);
    hlo_module_free(module);
    hlo_module_free(wanted_module);
}

char *check_module(const char *body) {
    HloText text = {0};
    hlo_text_format(&text, "HloModule m\n\nENTRY main {\n%s}\n", body);
    return text.data;
}

void check_body(const char *passes, const char *before, const char *after) {
    char *from = check_module(before), *to = check_module(after);
    check_pass(passes, from, to);
    hlo_free(from);
    hlo_free(to);
}

// ---------------------------------------------------------------------------------------------------------------------
// Results

static void fill(HloLiteral *literal, uint64_t *state) {
    for (int64_t i = 0; i < hlo_shape_elements(literal->shape); i++) {
        *state = *state * 6364136223846793005U + 1442695040888963407U;
        int64_t number = (int64_t)(*state >> 40) % 17 - 8;
        if (hlo_type_is_float(literal->shape->type))
            hlo_literal_set_double(literal, i, (double)number * 0.375);
        else
            hlo_literal_set_int64(literal, i, literal->shape->type == HLO_PRED ? number & 1 : number);
    }
}

// `seed` makes extreme arguments, without one they are usual.
static HloLiteral *evaluate(const HloModule *module, const uint64_t *seed) {
    HloLiteral *arguments[128] = {0}, *result = NULL;
    int64_t count = hlo_parameter_count(module->entry);
    uint64_t state = 7;
    cr_assert_leq(count, (int64_t)HLO_COUNT_OF(arguments));
    for (int64_t i = 0; i < count; i++) {
        const HloShape *shape = module->entry->parameters.items[i]->shape;
        arguments[i] = seed ? compiled_extremes(shape, *seed + (uint64_t)i) : hlo_literal_new(shape);
        if (!seed) fill(arguments[i], &state);
    }
    HloStatus status = hlo_evaluate(module, (const HloLiteral *const *)arguments, count, NULL, &result);
    cr_assert_null(status, "%s", hlo_status_message(status));
    for (int64_t i = 0; i < count; i++) hlo_literal_free(arguments[i]);
    return result;
}

static bool same_part(double a, double b) {
    return isnan(a) ? isnan(b) : a == b && signbit(a) == signbit(b);
}

// Bit for bit, but that any NaN is any other: which sign one has is the processor's choice, and so the compiler's.
static bool same_but_for_nans(const HloLiteral *a, const HloLiteral *b) {
    if (hlo_literal_equal(a, b)) return true;
    if (hlo_shape_is_tuple(a->shape)) {
        for (int32_t i = 0; i < a->shape->element_count; i++) {
            if (!same_but_for_nans(a->elements[i], b->elements[i])) return false;
        }
        return true;
    }
    if (!hlo_type_is_float(a->shape->type) && !hlo_type_is_complex(a->shape->type)) return false;
    for (int64_t i = 0; i < hlo_shape_elements(a->shape); i++) {
        const double _Complex x = hlo_literal_get_complex(a, i), y = hlo_literal_get_complex(b, i);
        if (!same_part(creal(x), creal(y)) || !same_part(cimag(x), cimag(y))) return false;
    }
    return true;
}

static bool close_enough(const HloLiteral *a, const HloLiteral *b, double tolerance) {
    if (hlo_shape_is_tuple(a->shape)) {
        for (int32_t i = 0; i < a->shape->element_count; i++) {
            if (!close_enough(a->elements[i], b->elements[i], tolerance)) return false;
        }
        return true;
    }
    for (int64_t i = 0; i < hlo_shape_elements(a->shape); i++) {
        double x = hlo_literal_get_double(a, i), y = hlo_literal_get_double(b, i);
        if (!(fabs(x - y) <= tolerance * fmax(1, fmax(fabs(x), fabs(y)))) && !(isnan(x) && isnan(y))) return false;
    }
    return true;
}

void check_same_results(const char *passes, const char *text, double tolerance) {
    HloModule *plain = check_parse(text), *rewritten = check_parse(text);
    run(rewritten, passes);
    HloLiteral *expected = evaluate(plain, NULL), *got = evaluate(rewritten, NULL);
    bool same = tolerance == 0 ? same_but_for_nans(expected, got) : close_enough(expected, got, tolerance);
    char *shown = same ? NULL : print(rewritten);
    cr_expect(same, "%s changes the results of\n%s\n%s", passes, text, shown);
    free(shown);
    hlo_literal_free(expected);
    hlo_literal_free(got);
    hlo_module_free(plain);
    hlo_module_free(rewritten);
}

void check_same_at_the_ends(const char *passes, const char *text, uint64_t seed) {
    HloModule *plain = check_parse(text), *rewritten = check_parse(text);
    run(rewritten, passes);
    HloLiteral *expected = evaluate(plain, &seed), *got = evaluate(rewritten, &seed);
    HloText message = {0};
    const CompiledCheck check = {.extremes = true};
    cr_expect(compiled_same(got, expected, &check, &message), "%s changes the results of\n%s\n%s", passes, text,
              message.data);
    hlo_text_free(&message);
    hlo_literal_free(expected);
    hlo_literal_free(got);
    hlo_module_free(plain);
    hlo_module_free(rewritten);
}

void check_rewrite(const char *before, const char *after) {
    check_body("algebraic-simplifier,dce", before, after);
    char *text = check_module(before);
    check_same_results("algebraic-simplifier,constant-folding,cse,dce", text, 0);
    hlo_free(text);
}
