// SPDX-License-Identifier: Apache-2.0
#include "tests/eval/run.h"

#include <criterion/criterion.h>
#include <string.h>

#include "hlo/text/text.h"

HloModule *parse_text(const char *text) {
    HloModule *module = NULL;
    HloStatus status = hlo_parse(text, strlen(text), NULL, &module);
    cr_assert_null(status, "%s", hlo_status_message(status));
    return module;
}

static HloLiteral **make_arguments(const HloModule *module, const float *values) {
    int64_t count = module->entry->parameters.count;
    HloLiteral **arguments = hlo_allocate_zeroed((size_t)count + 1, sizeof(HloLiteral *));
    for (int64_t p = 0; p < count; p++) {
        arguments[p] = hlo_literal_new(module->entry->parameters.items[p]->shape);
        int64_t bytes = hlo_shape_bytes(arguments[p]->shape);
        if (bytes > 0) memcpy(arguments[p]->data, values, (size_t)bytes);
        values += bytes / (int64_t)sizeof(float);
    }
    return arguments;
}

static void free_arguments(const HloModule *module, HloLiteral **arguments) {
    for (int64_t p = 0; p < module->entry->parameters.count; p++) hlo_literal_free(arguments[p]);
    hlo_free(arguments);
}

HloLiteral *run_floats(const char *text, const float *values, const HloEvalOptions *options, HloStatus *status) {
    HloModule *module = parse_text(text);
    HloLiteral **arguments = make_arguments(module, values), *result = NULL;
    *status =
        hlo_evaluate(module, (const HloLiteral *const *)arguments, module->entry->parameters.count, options, &result);
    free_arguments(module, arguments);
    hlo_module_free(module);
    return *status ? NULL : result;
}

HloStatus run_devices(const char *text, int64_t devices, const float *const *values, const HloEvalOptions *options,
                      HloLiteral **results) {
    HloModule *module = parse_text(text);
    HloLiteral **arguments[64];
    const HloLiteral *const *rows[64];
    for (int64_t d = 0; d < devices; d++) {
        arguments[d] = make_arguments(module, values ? values[d] : NULL);
        rows[d] = (const HloLiteral *const *)arguments[d];
    }
    HloStatus status =
        hlo_evaluate_partitioned(module, devices, rows, module->entry->parameters.count, options, results);
    for (int64_t d = 0; d < devices; d++) free_arguments(module, arguments[d]);
    hlo_module_free(module);
    return status;
}

void expect_floats(const HloLiteral *literal, const float *want, int64_t count) {
    cr_assert_not_null(literal);
    cr_assert_eq(hlo_shape_elements(literal->shape), count);
    for (int64_t i = 0; i < count; i++) {
        cr_expect_float_eq(((const float *)literal->data)[i], want[i], 0, "element %lld is %.9g instead of %.9g",
                           (long long)i, (double)((const float *)literal->data)[i], (double)want[i]);
    }
}

void expect_error(HloStatus status, HloCode code, const char *part) {
    cr_assert_not_null(status);
    cr_expect_eq(hlo_status_code(status), code, "%s", hlo_status_message(status));
    cr_expect_not_null(strstr(hlo_status_message(status), part), "%s", hlo_status_message(status));
    hlo_status_free(status);
}
