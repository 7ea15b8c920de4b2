// SPDX-License-Identifier: Apache-2.0
// What the two doors of StableHLO must refuse: text that is no program, programs that HLO has no form for, modules that
// StableHLO has no form for. @@ marks the place that the message must name; without one the message names none.
#include <criterion/criterion.h>
#include <string.h>

#include "hlo/stablehlo/stablehlo.h"
#include "hlo/text/text.h"

typedef struct RefusedText {
    const char *text;
    const char *part;  // of the message
} RefusedText;

#define MAIN(body) "func.func @main(%a: tensor<4xf32>, %i: tensor<4xi32>) {\n  " body "\n  return\n}"

static const RefusedText imports[] = {
    // words, numbers, strings
    {MAIN("%0 = stablehlo.constant dense<\"0x@@000\"> : tensor<4xf32>"), "odd number of hexadecimal digits"},
    {MAIN("%0 = stablehlo.constant dense<\"0x@@GG\"> : tensor<4xf32>"), "not hexadecimal"},
    {MAIN("%0 = stablehlo.constant dense<\"@@text\"> : tensor<4xf32>"), "strings"},
    {MAIN("%0 = stablehlo.constant dense<[1.0, 2.0, 3.0, 4.0@@, 5.0]> : tensor<4xf32>"), "expected ']'"},
    {MAIN("%0 = stablehlo.constant dense<1@@.5> : tensor<4xi32>"), "expected '>'"},
    {MAIN("%0 = stablehlo.abs %a {x = @@\"} : tensor<4xf32>"), "a string without its end"},
    {MAIN("%0 = stablehlo.abs %a {x = @@\"\\q\"} : tensor<4xf32>"), "a string with an unknown escape"},
    {MAIN("%0 = stablehlo.abs %a {x = @@99999999999999999999 : i64} : tensor<4xf32>"),
     "an integer of more than 64 bits"},
    {MAIN("%0 = stablehlo.abs %a {x = @@1.5 : i32} : tensor<4xf32>"), "a decimal number is not of an integer type"},
    {MAIN("%0 = stablehlo.abs %a {x = #foo.bar<[@@}>} : tensor<4xf32>"), "'}' closes nothing"},
    {"func.func @main(%a: tensor<@@99999999999999999999xf32>) { return }", "a dimension is too large"},
    {"func.func @main(%a: tuple<@@tensor<2xf32>, none>) { return }", "a tuple holds something that has no shape"},
    {"module {\nfunc.func @main() { return }\n  @@#a = loc(unknown)\n}", "expected an operation, not '#'"},
    {"func.func @main() { return }\n{@@-# dialect_resources: {", "the resources have no end"},
    // regions and results
    {MAIN("\"stablehlo.while\"(%a) ({\n^bb0(%x: tensor<4xf32>):\n  stablehlo.return %x : tensor<4xf32>\n@@^bb1:\n  "
          "stablehlo.return "
          "%x : tensor<4xf32>\n}, {}) : (tensor<4xf32>) -> tensor<4xf32>"),
     "a region of several blocks"},
    {MAIN("\"cf.br\"()@@[^bb1] : () -> ()"), "a branch to other blocks"},
    {MAIN("%0, %1 = @@stablehlo.abs %a : tensor<4xf32>"), "has 1 results, not as many as are named"},
    // short forms
    {MAIN("%0 = stablehlo.reduce(%a init: %a) applies @@stablehlo.foo across dimensions = [0] : (tensor<4xf32>, "
          "tensor<4xf32>) -> "
          "tensor<f32>"),
     "expected a commutative operation of two operands"},
    {MAIN("%0 = stablehlo.slice %a [@@x:4] : (tensor<4xf32>) -> tensor<4xf32>"), "expected an integer, not 'x'"},
    // programs that HLO has no form for
    {"func.func @main() {\n  func.call @f() : () -> ()\n  return\n}\n@@func.func private @f() {\n  func.call @f() : () "
     "-> ()\n  "
     "return\n}",
     "calls itself"},
    {"@@func.func private @main()", "has no body of one block"},
};

// Takes the mark out of `marked`; where it stood, 1-based, 0 without a mark.
static void unmark(const char *marked, HloText *text, int64_t *line, int64_t *column) {
    const char *mark = strstr(marked, "@@");
    *line = *column = mark != NULL;
    for (const char *at = marked; mark && at < mark; at++) {
        *column = *at == '\n' ? 1 : *column + 1;
        *line += *at == '\n';
    }
    if (mark) hlo_text_append(text, marked, (size_t)(mark - marked));
    hlo_text_string(text, mark ? mark + 2 : marked);
}

Test(stablehlo_refused, text_is_refused_at_its_place) {
    for (size_t i = 0; i < HLO_COUNT_OF(imports); i++) {
        HloText text = {0};
        int64_t line, column;
        unmark(imports[i].text, &text, &line, &column);
        HloModule *module = NULL;
        HloStatus status = hlo_module_from_stablehlo_text(text.data, text.length, "t.mlir", &module);
        cr_expect(status, "accepted: %s", text.data);
        cr_expect(strstr(hlo_status_message(status), imports[i].part), "%s: '%s' is not in '%s'", text.data,
                  imports[i].part, hlo_status_message(status));
        const HloPlace *place = hlo_status_place(status);
        int64_t at_line = place ? place->line : 0, at_column = place ? place->column : 0;
        cr_expect(at_line == line && at_column == column, "%s: %s at %lld:%lld, not %lld:%lld", text.data,
                  hlo_status_message(status), (long long)at_line, (long long)at_column, (long long)line,
                  (long long)column);
        hlo_status_free(status);
        hlo_module_free(module);
        hlo_text_free(&text);
    }
}

#define ENTRY(body)                                                                                                  \
    "HloModule m, num_partitions=4\n" ADD "ENTRY e {\n  p = f32[8,8] parameter(0)\n  z = f32[] constant(0)\n  " body \
    "\n}\n"
#define ADD "c {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT t = f32[] add(a, b)\n}\n"

static const RefusedText exports[] = {
    {ENTRY("ROOT r = f32[7,7] reduce-window(p, z), window={size=2x2 rhs_reversal=1x1}, to_apply=c"),
     "a window that is reversed"},
    {ENTRY("ROOT r = (f32[8,2], s32[8,2]) topk(p), k=2, largest=false"), "the smallest elements"},
    {ENTRY("s = u64[2] constant({1,2})\n  ROOT r = u32[4] rng-bit-generator(s), algorithm=rng_default"),
     "random bits without their state"},
    {ENTRY("i = s32[2] constant({0,0})\n  ROOT r = f32[2,2] dynamic-slice(p, i), dynamic_slice_sizes={2,2}"),
     "start indices in one array"},
    {ENTRY("ROOT r = (f32[], f32[]) constant((1, 2))"), "a constant of a structure"},
    {ENTRY("ROOT r = (f32[8,8], f32[8,8]) all-to-all(p, p), replica_groups={{0,1}}"), "all-to-all"},
};

Test(stablehlo_refused, modules_without_a_form_are_refused_by_name) {
    for (size_t i = 0; i < HLO_COUNT_OF(exports); i++) {
        HloModule *module = NULL;
        HloStatus parsed = hlo_parse(exports[i].text, strlen(exports[i].text), NULL, &module);
        cr_assert_null(parsed, "%s", hlo_status_message(parsed));
        HloText text = {0};
        HloStatus status = hlo_module_to_stablehlo_text(module, false, &text);
        cr_expect_eq(hlo_status_code(status), HLO_UNIMPLEMENTED, "%s: %s", exports[i].text, hlo_status_message(status));
        cr_expect(strstr(hlo_status_message(status), exports[i].part), "%s: '%s' is not in '%s'", exports[i].text,
                  exports[i].part, hlo_status_message(status));
        hlo_status_free(status);
        hlo_text_free(&text);
        hlo_module_free(module);
    }
}
