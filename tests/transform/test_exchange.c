// SPDX-License-Identifier: Apache-2.0
// Derivatives of exchanges that give devices different parts: <J t, c> summed over the devices is <t, J' c>, where the
// forward derivative J and its transpose J' run on several devices. The exchanges are mapped over an axis too.
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>

#include "hlo/eval/eval.h"
#include "hlo/hlo.h"
#include "tests/support/compiled.h"

enum { DEVICES = 3, MOST = 8 };

typedef struct Exchange {
    const char *name, *header, *body;
    int64_t parameters;
} Exchange;

// Device k keeps row 0 of y and receives the others: of x, one row from each device, the last device's twice as many.
static const Exchange kExchanges[] = {
    {"ragged-all-to-all", "num_partitions=3",
     "  x = f64[6,2] parameter(0)\n  y = f64[7,2] parameter(1)\n  xx = f64[6,2] multiply(x, x)\n  yy = f64[7,2] "
     "sine(y)\n"
     "  a = s32[3] constant({0, 2, 4})\n  p = u32[] partition-id()\n  k = s32[] convert(p)\n  one = s32[] constant(1)\n"
     "  two = s32[] constant(2)\n  last = pred[] compare(k, two), direction=EQ\n  rows = s32[] select(last, two, one)\n"
     "  n = s32[3] broadcast(rows), dimensions={}\n  first = s32[] add(k, one)\n  t = s32[3] broadcast(first), "
     "dimensions={}\n"
     "  r = s32[3] constant({1, 1, 2})\n"
     "  ROOT z = f64[7,2] ragged-all-to-all(xx, yy, a, n, t, r), channel_id=1, replica_groups={{0,1,2}}\n",
     2},
    {"collective-broadcast", "num_partitions=3",
     "  x = f64[4] parameter(0)\n  s = f64[4] sine(x)\n"
     "  b = f64[4] collective-broadcast(s), channel_id=1, replica_groups={{1,0,2}}\n  ROOT z = f64[4] multiply(b, x)\n",
     1},
    {"collective-broadcast without a device", "num_partitions=3",
     "  x = f64[4] parameter(0)\n  s = f64[4] sine(x)\n"
     "  b = f64[4] collective-broadcast(s), channel_id=1, replica_groups={{2,0}}\n  ROOT z = f64[4] add(b, x)\n",
     1},
    {"collective-broadcast among replicas", "replica_count=3",
     "  x = f64[4] parameter(0)\n  s = f64[4] sine(x)\n"
     "  b = f64[4] collective-broadcast(s), replica_groups={{0,2,1}}\n  ROOT z = f64[4] multiply(b, x)\n",
     1},
};

static HloModule *program_of(const Exchange *e) {
    HloText text = {0};
    hlo_text_format(&text, "HloModule m, %s\nENTRY e {\n%s}\n", e->header, e->body);
    HloModule *module = compiled_must_parse(text.data);
    hlo_text_free(&text);
    return module;
}

static HloLiteral *numbers(const HloShape *shape, int64_t seed) {
    double data[64];
    const int64_t count = hlo_shape_elements(shape);
    cr_assert_leq(count, 64);
    for (int64_t i = 0; i < count; i++) data[i] = sin((double)(seed * 31 + i * 7));
    return hlo_literal_of(shape->type, hlo_shape_dims(shape), data);
}

static double product(const HloLiteral *a, const HloLiteral *b) {
    double sum = 0;
    for (int64_t i = 0; i < hlo_shape_elements(a->shape); i++)
        sum += hlo_literal_get_double(a, i) * hlo_literal_get_double(b, i);
    return sum;
}

// Runs the entry on all devices with arguments of their own; the caller frees both.
static void run_devices(HloModule *module, HloLiteral *arguments[DEVICES][MOST], HloLiteral *results[DEVICES]) {
    const HloLiteral *const *lists[DEVICES];
    const int64_t count = hlo_parameter_count(module->entry);
    HloStatus status = hlo_verify(module);
    cr_assert_null(status, "%s", hlo_status_message(status));
    for (int64_t d = 0; d < DEVICES; d++) {
        for (int64_t i = 0; i < count; i++)
            arguments[d][i] = numbers(module->entry->parameters.items[i]->shape, 10 * d + i);
        lists[d] = (const HloLiteral *const *)arguments[d];
    }
    status = hlo_evaluate_partitioned(module, DEVICES, lists, count, NULL, results);
    cr_assert_null(status, "%s", hlo_status_message(status));
}

static void free_devices(const HloModule *module, HloLiteral *arguments[DEVICES][MOST], HloLiteral *results[DEVICES]) {
    for (int64_t d = 0; d < DEVICES; d++) {
        for (int64_t i = 0; i < hlo_parameter_count(module->entry); i++) hlo_literal_free(arguments[d][i]);
        hlo_literal_free(results[d]);
    }
}

// The sum over the devices of the products of the results from `first` on with numbers of the seed of an argument: of
// the cotangent (forward), or of the tangents (reverse), as the other run has them.
static double total(const Exchange *e, bool forward) {
    HloModule *module = program_of(e);
    HloComputation *derived;
    HloLiteral *arguments[DEVICES][MOST], *results[DEVICES];
    static const int64_t kAll[] = {0, 1};
    const HloGradientOptions options = {.wrt = {kAll, e->parameters}};
    HloStatus status =
        forward ? hlo_jvp(module->entry, &options, &derived) : hlo_vjp(module->entry, &options, &derived);
    cr_assert_null(status, "%s: %s", e->name, hlo_status_message(status));
    hlo_make_entry(module, derived);
    run_devices(module, arguments, results);
    double sum = 0;
    for (int64_t d = 0; d < DEVICES; d++) {
        for (int64_t i = 0; i < (forward ? 1 : e->parameters); i++) {
            const HloLiteral *result = results[d]->elements[1 + i];
            HloLiteral *other = numbers(result->shape, 10 * d + e->parameters + i);
            sum += product(result, other);
            hlo_literal_free(other);
        }
    }
    free_devices(module, arguments, results);
    hlo_module_free(module);
    return sum;
}

Test(exchange, reverse_mode_is_the_transpose_of_forward_mode) {
    for (size_t i = 0; i < HLO_COUNT_OF(kExchanges); i++) {
        const double forward = total(&kExchanges[i], true), reverse = total(&kExchanges[i], false);
        cr_expect(fabs(forward) > 1e-3, "%s", kExchanges[i].name);
        cr_expect(fabs(forward - reverse) < 1e-12, "%s: forward %.15g, reverse %.15g", kExchanges[i].name, forward,
                  reverse);
    }
}

// Two items at once have the results that each has alone.
Test(exchange, maps_over_an_axis) {
    for (size_t i = 0; i < HLO_COUNT_OF(kExchanges); i++) {
        HloModule *one = program_of(&kExchanges[i]), *both = program_of(&kExchanges[i]);
        HloComputation *mapped;
        HloStatus status = hlo_vmap(both->entry, &(HloVmapOptions){.size = 2}, &mapped);
        cr_assert_null(status, "%s: %s", kExchanges[i].name, hlo_status_message(status));
        hlo_make_entry(both, mapped);
        HloLiteral *arguments[DEVICES][MOST], *results[DEVICES], *items[DEVICES][MOST], *alone[DEVICES];
        run_devices(both, arguments, results);
        for (int64_t item = 0; item < 2; item++) {
            const HloLiteral *const *lists[DEVICES];
            const int64_t count = hlo_parameter_count(one->entry);
            for (int64_t d = 0; d < DEVICES; d++) {
                for (int64_t k = 0; k < count; k++) {
                    const HloShape *shape = one->entry->parameters.items[k]->shape;
                    const int64_t elements = hlo_shape_elements(shape);
                    double data[64];
                    for (int64_t n = 0; n < elements; n++)
                        data[n] = hlo_literal_get_double(arguments[d][k], item * elements + n);
                    items[d][k] = hlo_literal_of(shape->type, hlo_shape_dims(shape), data);
                }
                lists[d] = (const HloLiteral *const *)items[d];
            }
            status = hlo_evaluate_partitioned(one, DEVICES, lists, count, NULL, alone);
            cr_assert_null(status, "%s", hlo_status_message(status));
            for (int64_t d = 0; d < DEVICES; d++)
                for (int64_t n = 0; n < hlo_shape_elements(alone[d]->shape); n++)
                    cr_expect_eq(hlo_literal_get_double(results[d], item * hlo_shape_elements(alone[d]->shape) + n),
                                 hlo_literal_get_double(alone[d], n), "%s: item %lld of device %lld",
                                 kExchanges[i].name, (long long)item, (long long)d);
            free_devices(one, items, alone);
        }
        free_devices(both, arguments, results);
        hlo_module_free(one);
        hlo_module_free(both);
    }
}

// A broadcast over the mapped axis takes the item that its group names first.
Test(exchange, broadcasts_an_item) {
    HloModule *module = hlo_module_new("axis");
    module->replica_count = 3;
    HloBuilder *b = hlo_builder_new(module, "main");
    HloInstruction *x = hlo_build_parameter(b, 0, HLO_F64, HLO_DIMS(2), "x");
    const HloInts group = HLO_DIMS(2, 0, 1);
    const HloCollectiveAttributes attributes = {.replica_groups = hlo_replica_groups_list(module->arena, &group, 1)};
    HloInstruction *y = hlo_build_collective_broadcast(b, &x, 1, &attributes);
    HloStatus status = hlo_builder_finish_entry(b, hlo_build_mul(b, x, hlo_build_with_axis_name(b, y, "i")));
    cr_assert_null(status, "%s", hlo_status_message(status));
    HloComputation *mapped;
    status = hlo_vmap(module->entry, &(HloVmapOptions){.size = 3, .axis_name = "i"}, &mapped);
    cr_assert_null(status, "%s", hlo_status_message(status));
    HloLiteral *values = hlo_literal_of(HLO_F64, HLO_DIMS(3, 2), (const double[]){1, 2, 3, 4, 5, 6}), *result;
    status = hlo_evaluate_computation(mapped, (const HloLiteral *const *)&values, 1, NULL, &result);
    cr_assert_null(status, "%s", hlo_status_message(status));
    static const double kWanted[] = {5, 12, 15, 24, 25, 36};
    for (int64_t i = 0; i < 6; i++) cr_expect_eq(hlo_literal_get_double(result, i), kWanted[i]);
    hlo_literal_free(result);
    hlo_literal_free(values);
    hlo_module_free(module);
}
