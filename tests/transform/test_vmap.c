// SPDX-License-Identifier: Apache-2.0
// A mapped program against the program itself, item by item: every op with every argument mapped, then with only one of
// them, and the reverse derivative mapped.
#include <complex.h>
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "hlo/eval/eval.h"
#include "hlo/hlo.h"
#include "tests/support/cases.h"
#include "tests/support/compiled.h"
#include "tests/support/random.h"

enum { ITEMS = 3, MOST = 32 };

typedef struct Case {
    const char *name, *parameters, *root, *called;
    bool once;
} Case;

static const Case kCases[] = {
#include "cases.def"
};

static void fill(Random *random, HloLiteral *literal) {
    for (int64_t i = 0; i < hlo_shape_elements(literal->shape); i++) {
        double value = 0.3 + 0.6 * (double)(random_next(random) >> 11) / 9007199254740992.0;
        if (hlo_type_is_float(literal->shape->type) || hlo_type_is_complex(literal->shape->type))
            hlo_literal_set_complex(literal, i, value + (1 - value) * I);
        else
            hlo_literal_set_int64(literal, i, (int64_t)random_under(random, 3));
    }
}

// Item `index` along the first dimension.
static HloLiteral *item_of(const HloLiteral *all, int64_t index) {
    HloLiteral *item = hlo_literal_of(all->shape->type, (HloInts){all->shape->dims + 1, all->shape->rank - 1}, NULL);
    size_t bytes = (size_t)hlo_shape_bytes(item->shape);
    memcpy(item->data, (const char *)all->data + bytes * (size_t)index, bytes);
    return item;
}

static HloLiteral *run(const char *name, const HloComputation *computation, HloLiteral **arguments, int64_t count) {
    HloLiteral *result = NULL;
    HloStatus status =
        hlo_evaluate_computation(computation, (const HloLiteral *const *)arguments, count, NULL, &result);
    cr_assert_null(status, "%s: %s: %s", name, computation->name, hlo_status_message(status));
    return result;
}

static void expect_item(const char *name, const HloLiteral *all, int64_t index, const HloLiteral *wanted) {
    HloLiteral *got = item_of(all, index);
    cr_assert(hlo_shape_equal(got->shape, wanted->shape, HLO_COMPARE_IGNORE_LAYOUT), "%s", name);
    for (int64_t i = 0; i < hlo_shape_elements(wanted->shape); i++) {
        double _Complex a = hlo_literal_get_complex(got, i), b = hlo_literal_get_complex(wanted, i);
        cr_assert(cabs(a - b) <= 1e-12 * (1 + cabs(b)), "%s: item %lld, element %lld: %g, not %g", name,
                  (long long)index, (long long)i, creal(a), creal(b));
    }
    hlo_literal_free(got);
}

// `only` -1: all parameters are mapped.
static void check_mapped(const char *name, HloComputation *computation, int64_t only) {
    int64_t axes[MOST], count = hlo_parameter_count(computation);
    HloComputation *mapped, *entry = computation->module->entry;
    Random random = {5};
    HloLiteral *whole[MOST], *items[MOST];
    cr_assert_leq(count, MOST);
    for (int64_t i = 0; i < count; i++) axes[i] = only < 0 || i == only ? 0 : -1;
    HloStatus status = hlo_vmap(computation, &(HloVmapOptions){.axes = {axes, count}, .size = ITEMS}, &mapped);
    cr_assert_null(status, "%s: %s", name, hlo_status_message(status));
    hlo_make_entry(computation->module, mapped);
    status = hlo_verify(computation->module);
    cr_assert_null(status, "%s: %s", name, hlo_status_message(status));
    hlo_make_entry(computation->module, entry);
    for (int64_t i = 0; i < count; i++) {
        whole[i] = hlo_literal_new(mapped->parameters.items[i]->shape);
        fill(&random, whole[i]);
    }
    HloLiteral *result = run(name, mapped, whole, count);
    for (int64_t item = 0; item < ITEMS; item++) {
        for (int64_t i = 0; i < count; i++) items[i] = axes[i] < 0 ? whole[i] : item_of(whole[i], item);
        HloLiteral *wanted = run(name, computation, items, count);
        bool tuple = hlo_shape_is_tuple(wanted->shape);
        for (int32_t k = 0; k < (tuple ? wanted->shape->element_count : 1); k++)
            expect_item(name, tuple ? result->elements[k] : result, item, tuple ? wanted->elements[k] : wanted);
        hlo_literal_free(wanted);
        for (int64_t i = 0; i < count; i++)
            if (axes[i] == 0) hlo_literal_free(items[i]);
    }
    for (int64_t i = 0; i < count; i++) hlo_literal_free(whole[i]);
    hlo_literal_free(result);
}

CaseList(vmap, of_each_op) {
    return cases_numbered(HLO_COUNT_OF(kCases));
}

CaseTest(int *number, vmap, of_each_op) {
    const Case *c = &kCases[*number];
    HloText text = {0};
    int64_t wrt[MOST], active = 0;
    cases_program(&text, c->parameters, c->root, c->called);
    HloModule *module = compiled_must_parse(text.data);
    check_mapped(c->name, module->entry, -1);
    for (int64_t i = 0; i < hlo_parameter_count(module->entry); i++) {
        HloType type = module->entry->parameters.items[i]->shape->type;
        check_mapped(c->name, module->entry, i);
        if (hlo_type_is_float(type) || hlo_type_is_complex(type)) wrt[active++] = i;
    }
    HloComputation *vjp;
    HloStatus status = hlo_vjp(module->entry, &(HloGradientOptions){.wrt = {wrt, active}}, &vjp);
    cr_assert_null(status, "%s: %s", c->name, hlo_status_message(status));
    check_mapped(c->name, vjp, -1);
    hlo_module_free(module);
    hlo_text_free(&text);
}

// An axis in the middle of one parameter, and collectives that name the axis.
Test(vmap, exchanges_over_its_axis) {
    static const HloPair kShift[] = {{0, 1}, {1, 2}, {2, 0}};
    HloModule *module = hlo_module_new("axis");
    HloBuilder *b = hlo_builder_new(module, "main");
    HloInstruction *x = hlo_build_parameter(b, 0, HLO_F64, HLO_DIMS(2), "x");
    HloInstruction *y = hlo_build_collective_permute(b, x, (HloPairs){kShift, 3}, 0);
    y = hlo_build_with_axis_name(b, y, "i");
    HloInstruction *sum = hlo_build_all_reduce_op(b, HLO_OP_ADD, x, &(HloCollectiveAttributes){0});
    sum = hlo_build_with_axis_name(b, sum, "i");
    HloInstruction *results[] = {hlo_build_div(b, x, sum), y};
    HloStatus status = hlo_builder_finish_entry(b, hlo_build_tuple(b, results, 2));
    cr_assert_null(status, "%s", hlo_status_message(status));
    HloComputation *mapped;
    HloVmapOptions options = {.axes = HLO_DIMS(1), .size = 3, .axis_name = "i"};
    status = hlo_vmap(module->entry, &options, &mapped);
    cr_assert_null(status, "%s", hlo_status_message(status));
    HloLiteral *values = hlo_literal_of(HLO_F64, HLO_DIMS(2, 3), (const double[]){1, 2, 5, 1, 1, 2});
    HloLiteral *result = run("axis", mapped, &values, 1);
    static const double kShares[] = {1. / 8, 1. / 4, 2. / 8, 1. / 4, 5. / 8, 2. / 4}, kMoved[] = {5, 2, 1, 1, 2, 1};
    for (int64_t i = 0; i < 6; i++) {
        cr_expect_eq(hlo_literal_get_double(result->elements[0], i), kShares[i]);
        cr_expect_eq(hlo_literal_get_double(result->elements[1], i), kMoved[i]);
    }
    hlo_literal_free(result);
    hlo_literal_free(values);
    hlo_module_free(module);
}

// Exchanges that give each item another part: of each other item, and of the sum of all.
Test(vmap, redistributes_over_its_axis) {
    HloModule *module = hlo_module_new("axis");
    module->replica_count = 3;
    HloBuilder *b = hlo_builder_new(module, "main");
    HloInstruction *x = hlo_build_parameter(b, 0, HLO_F64, HLO_DIMS(2, 3), "x");
    const HloCollectiveAttributes attributes = {.dimensions = HLO_DIMS(1)};
    HloInstruction *exchanged = hlo_build_all_to_all(b, &x, 1, &attributes);
    exchanged = hlo_build_with_axis_name(b, exchanged, "i");
    HloInstruction *part = hlo_build_reduce_scatter(b, &x, 1, &attributes, hlo_build_combiner(b, HLO_OP_ADD, HLO_F64));
    part = hlo_build_with_axis_name(b, part, "i");
    HloInstruction *results[] = {exchanged, part};
    HloStatus status = hlo_builder_finish_entry(b, hlo_build_tuple(b, results, 2));
    cr_assert_null(status, "%s", hlo_status_message(status));
    HloComputation *mapped;
    status = hlo_vmap(module->entry, &(HloVmapOptions){.size = 3, .axis_name = "i"}, &mapped);
    cr_assert_null(status, "%s", hlo_status_message(status));
    double numbers[18];
    for (int i = 0; i < 18; i++) numbers[i] = i * i;
    HloLiteral *values = hlo_literal_of(HLO_F64, HLO_DIMS(3, 2, 3), numbers);
    HloLiteral *result = run("axis", mapped, &values, 1);
    for (int64_t item = 0; item < 3; item++) {
        for (int64_t row = 0; row < 2; row++) {
            double sum = 0;
            for (int64_t other = 0; other < 3; other++) {
                const double sent = numbers[other * 6 + row * 3 + item];
                cr_expect_eq(hlo_literal_get_double(result->elements[0], item * 6 + row * 3 + other), sent);
                sum += sent;
            }
            cr_expect_eq(hlo_literal_get_double(result->elements[1], item * 2 + row), sum);
        }
    }
    hlo_literal_free(result);
    hlo_literal_free(values);
    hlo_module_free(module);
}

// Items that need different numbers of iterations.
Test(vmap, loops_until_all_have_ended) {
    HloModule *module = compiled_must_parse(
        "HloModule m\nless {\n  x = f64[] parameter(0)\n  c = f64[] constant(9)\n  ROOT y = pred[] compare(x, c), "
        "direction=LT\n}\n"
        "twice {\n  x = f64[] parameter(0)\n  ROOT y = f64[] add(x, x)\n}\n"
        "ENTRY e {\n  p = f64[] parameter(0)\n  ROOT r = f64[] while(p), condition=less, body=twice\n}\n");
    check_mapped("while", module->entry, -1);
    hlo_module_free(module);
}

Test(vmap, refuses_by_name) {
    HloModule *module = compiled_must_parse(
        "HloModule m\nENTRY e {\n  p = f32[] parameter(0)\n  ROOT r = f32[] rng(p, p), distribution=rng_uniform\n}\n");
    HloComputation *mapped;
    HloStatus status = hlo_vmap(module->entry, &(HloVmapOptions){.size = 2}, &mapped);
    cr_assert_eq(hlo_status_code(status), HLO_UNIMPLEMENTED);
    cr_expect_not_null(strstr(hlo_status_message(status), "rng"));
    hlo_status_free(status);
    const HloVmapOptions wrong[] = {{.size = 0}, {.axes = HLO_DIMS(0, 0), .size = 2}, {.axes = HLO_DIMS(1), .size = 2}};
    static const char *const kParts[] = {"size", "2 axes", "no place for axis 1"};
    for (size_t i = 0; i < HLO_COUNT_OF(kParts); i++) {
        status = hlo_vmap(module->entry, &wrong[i], &mapped);
        cr_assert_eq(hlo_status_code(status), HLO_INVALID_ARGUMENT);
        cr_expect_not_null(strstr(hlo_status_message(status), kParts[i]), "%s", hlo_status_message(status));
        hlo_status_free(status);
    }
    hlo_module_free(module);
}
