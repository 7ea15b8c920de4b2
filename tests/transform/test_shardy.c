// SPDX-License-Identifier: Apache-2.0
// Gradients of manual regions as Shardy writes them in HLO, against those of the program without them.
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "hlo/eval/eval.h"
#include "hlo/hlo.h"
#include "hlo/stablehlo/stablehlo.h"
#include "tests/support/compiled.h"

#define SUM "sum {\n  a = f64[] parameter(0)\n  b = f64[] parameter(1)\n  ROOT c = f64[] add(a, b)\n}\n"

// The sum of x sin(w) over rows of x on two devices, with copies of w.
#define SHARDED(in, axes)                                                                                        \
    "HloModule m, frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<[\"x\"=2]>}}\n" SUM                      \
    "body {\n  x = f64[2,3] parameter(0)\n  w = f64[2,3] parameter(1)\n  s = f64[2,3] sine(w)\n"                 \
    "  y = f64[2,3] multiply(x, s)\n  z = f64[] constant(0)\n"                                                   \
    "  r = f64[] reduce(y, z), dimensions={0,1}, to_apply=sum\n"                                                 \
    "  ROOT t = f64[] all-reduce(r), channel_id=1, replica_groups={{0,1}}, use_global_device_ids=true, "         \
    "to_apply=sum\n}\n"                                                                                          \
    "ENTRY e {\n  x = f64[4,3] parameter(0), frontend_attributes={xla.sdy.sharding=\"#sdy.sharding<@mesh, "      \
    "[{\\\"x\\\"}, {}]>\"}\n  w = f64[2,3] parameter(1)\n"                                                       \
    "  i = (f64[2,3], f64[2,3]) custom-call(x, w), custom_call_target=\"xla.sdy.GlobalToLocalShape\", "          \
    "custom_call_has_side_effect=true, frontend_attributes={xla.sdy.in_shardings=\"#sdy.sharding_per_value<[" in \
    "]>\"" axes                                                                                                  \
    "}\n  a = f64[2,3] get-tuple-element(i), index=0\n  b = f64[2,3] get-tuple-element(i), index=1\n"            \
    "  c = f64[] call(a, b), to_apply=body\n"                                                                    \
    "  ROOT o = f64[] custom-call(c), custom_call_target=\"xla.sdy.LocalToGlobalShape\", "                       \
    "custom_call_has_side_effect=true, "                                                                         \
    "frontend_attributes={xla.sdy.out_shardings=\"#sdy.sharding_per_value<[<@mesh, []>]>\"" axes "}\n}\n"
#define BOTH_IN "<@mesh, [{\\\"x\\\"}, {}]>, <@mesh, [{}, {}]>"
#define MANUAL_X ",xla.sdy.manual_axes=\"#sdy<manual_axes{\\\"x\\\"}>\""

static const char kWhole[] =
    "HloModule m\n" SUM
    "ENTRY e {\n  x = f64[4,3] parameter(0)\n  w = f64[2,3] parameter(1)\n"
    "  v = f64[4,3] concatenate(w, w), dimensions={0}\n  s = f64[4,3] sine(v)\n  y = f64[4,3] multiply(x, s)\n"
    "  z = f64[] constant(0)\n  ROOT r = f64[] reduce(y, z), dimensions={0,1}, to_apply=sum\n}\n";

static HloLiteral *gradient_of(const char *text) {
    static const double kX[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, kW[] = {.1, .2, .3, .4, .5, .6};
    HloModule *module = compiled_must_parse(text);
    HloComputation *gradient;
    HloStatus status = hlo_module_tile_shardy(module);
    cr_assert_null(status, "%s", hlo_status_message(status));
    status = hlo_value_and_gradient(module->entry, &(HloGradientOptions){.wrt = HLO_DIMS(0, 1)}, &gradient);
    cr_assert_null(status, "%s", hlo_status_message(status));
    hlo_make_entry(module, gradient);
    status = hlo_verify(module);
    cr_assert_null(status, "%s", hlo_status_message(status));
    HloLiteral *arguments[] = {hlo_literal_of(HLO_F64, HLO_DIMS(4, 3), kX),
                               hlo_literal_of(HLO_F64, HLO_DIMS(2, 3), kW)},
               *result;
    status = hlo_evaluate(module, (const HloLiteral *const *)arguments, 2, NULL, &result);
    cr_assert_null(status, "%s", hlo_status_message(status));
    for (int i = 0; i < 2; i++) hlo_literal_free(arguments[i]);
    hlo_module_free(module);
    return result;
}

Test(shardy, gradients_of_manual_regions_in_hlo) {
    static const char *const kTexts[] = {SHARDED(BOTH_IN, MANUAL_X), SHARDED(BOTH_IN, "")};
    HloLiteral *wanted = gradient_of(kWhole);
    for (size_t t = 0; t < HLO_COUNT_OF(kTexts); t++) {
        HloLiteral *got = gradient_of(kTexts[t]);
        for (int k = 0; k < 3; k++) {
            cr_assert(hlo_shape_equal(got->elements[k]->shape, wanted->elements[k]->shape, HLO_COMPARE_IGNORE_LAYOUT));
            for (int64_t i = 0; i < hlo_shape_elements(wanted->elements[k]->shape); i++)
                cr_expect_float_eq(hlo_literal_get_double(got->elements[k], i),
                                   hlo_literal_get_double(wanted->elements[k], i), 1e-12, "program %zu, result %d", t,
                                   k);
        }
        hlo_literal_free(got);
    }
    hlo_literal_free(wanted);
}

Test(shardy, text_that_does_not_fit_is_named_with_its_instruction) {
    static const struct {
        const char *text, *part;
    } kRefused[] = {
        {SHARDED("<@mesh, [{\\\"x\\\"}, {}]>", MANUAL_X), "%i: there are 1 shardings for 2 arrays"},
        {SHARDED("<@other, [{\\\"x\\\"}, {}]>, <@mesh, [{}, {}]>", MANUAL_X), "%i"},
        {SHARDED("<@mesh, [{\\\"y\\\"}, {}]>, <@mesh, [{}, {}]>", MANUAL_X), "%i"},
        {SHARDED("<@mesh, [{\\\"x\\\"}]>, <@mesh, [{}, {}]>", MANUAL_X), "%i"},
        {SHARDED(BOTH_IN, ",xla.sdy.manual_axes=\"#sdy<manual_axes{\\\"z\\\"}>\""), "%i"},
    };
    for (size_t i = 0; i < HLO_COUNT_OF(kRefused); i++) {
        HloModule *module = compiled_must_parse(kRefused[i].text);
        HloStatus status = hlo_module_tile_shardy(module);
        cr_expect_eq(hlo_status_code(status), HLO_INVALID_ARGUMENT, "program %zu", i);
        cr_expect(status && strstr(hlo_status_message(status), kRefused[i].part), "program %zu: %s", i,
                  hlo_status_message(status));
        hlo_status_free(status);
        hlo_module_free(module);
    }
}
