// SPDX-License-Identifier: Apache-2.0
// f32 products under a TPU's numerics: every way in which a dot or a convolution is compiled gives infinities and NaN
// where the reference evaluator does.
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "hlo/eval/eval.h"
#include "hlo/ir/literal.h"
#include "tests/support/cases.h"
#include "tests/support/compiled.h"

// Both operands hold 72 numbers for each sum: "@" is replaced by the attribute of the precision.
typedef struct Form {
    const char *left, *right, *root;
} Form;

static const Form kForms[] = {
    {"f32[40,72]", "f32[72,48]", "f32[40,48] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}@"},
    {"f32[72,40]", "f32[72,48]", "f32[40,48] dot(p, q), lhs_contracting_dims={0}, rhs_contracting_dims={0}@"},
    {"f32[4,72]", "f32[72,3]", "f32[4,3] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}@"},
    {"f32[100,72]", "f32[72,80]", "f32[100,80] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}@"},
    {"f32[40,8,9]", "f32[8,9,48]", "f32[40,48] dot(p, q), lhs_contracting_dims={1,2}, rhs_contracting_dims={0,1}@"},
    {"f32[8,40,9]", "f32[9,48,8]", "f32[40,48] dot(p, q), lhs_contracting_dims={0,2}, rhs_contracting_dims={2,0}@"},
    {"f32[3,40,24]", "f32[3,24,48]",
     "f32[3,40,48] dot(p, q), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, "
     "rhs_contracting_dims={1}@"},
    {"f32[40,72]", "f32[72]", "f32[40] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}@"},
    {"f32[2,6,6,72]", "f32[1,1,72,48]",
     "f32[2,6,6,48] convolution(p, q), dim_labels=b01f_01io->b01f, window={size=1x1}@"},
    {"f32[2,9,9,8]", "f32[3,3,8,48]",
     "f32[2,7,7,48] convolution(p, q), dim_labels=b01f_01io->b01f, window={size=3x3}@"},
    {"f32[1,2,12,12]", "f32[6,6,2,5]",
     "f32[1,5,12,12] convolution(p, q), dim_labels=bf01_01io->bf01, window={size=6x6 pad=3_2x3_2}@"},
    {"f32[2,5,5,8]", "f32[3,3,8,6]",
     "f32[2,11,11,6] convolution(p, q), dim_labels=b01f_01io->b01f, window={size=3x3 pad=2_2x2_2 lhs_dilate=2x2}@"},
};

static const char *const kPrecisions[] = {"",
                                          ", operand_precision={high,high}",
                                          ", operand_precision={highest,highest}",
                                          ", algorithm=dot_bf16_bf16_f32_x3",
                                          ", algorithm=dot_bf16_bf16_f32_x6",
                                          ", algorithm=dot_bf16_bf16_f32_x9"};

static const double kSpecials[] = {INFINITY, -INFINITY, NAN, 0x1.fffffep127, -0x1.fffffep127, 0x1.fefffep127};

// Small numbers, of which some are bf16 and some are 0, and a special one here and there.
static HloLiteral *operand(const HloShape *shape, double special) {
    HloLiteral *literal = hlo_literal_new(shape);
    cr_assert_not_null(literal);
    uint32_t state = 77;
    for (int64_t i = 0; i < hlo_shape_elements(shape); i++) {
        state = state * 1664525 + 1013904223;
        const double value = (double)((int)(state >> 16) % 9 - 4) / 8;
        hlo_literal_set_double(literal, i, i % 331 == 17 ? special : state >> 30 ? value : (float)(value * 1.003));
    }
    return literal;
}

static void compare(const HloModule *module, double special, int side, const char *text) {
    const CompiledCheck check = {.threads = 1, .numerics = TARGET_NUMERICS_TPU, .tolerance = 1e-2};
    const HloEvalOptions options = {.numerics = HLO_NUMERICS_TPU};
    const HloInstruction *const *parameters = (const HloInstruction *const *)module->entry->parameters.items;
    HloLiteral *arguments[2], *have = NULL, *want = NULL;
    HloText message = {0};
    for (int i = 0; i < 2; i++) arguments[i] = operand(parameters[i]->shape, i == side ? special : 0.25);
    must_succeed(hlo_evaluate(module, (const HloLiteral *const *)arguments, 2, &options, &want));
    const bool same =
        compiled_run_on_one(module, arguments, &check, &have, &message) && compiled_same(have, want, &check, &message);
    cr_expect(same, "%a on side %d: %s\n%s", special, side, message.data, text);
    hlo_literal_free(have), hlo_literal_free(want);
    for (int i = 0; i < 2; i++) hlo_literal_free(arguments[i]);
    hlo_text_free(&message);
}

CaseList(cpu_passes, infinities_and_nan_are_those_of_the_evaluator) {
    return cases_numbered(HLO_COUNT_OF(kForms));
}

CaseTest(const int *number, cpu_passes, infinities_and_nan_are_those_of_the_evaluator) {
    const Form *form = &kForms[*number];
    // The evaluator multiplies the zeros between the left side's elements, the engine leaves them out.
    const int sides = strstr(form->root, "lhs_dilate") ? 1 : 2;
    for (size_t p = 0; p < HLO_COUNT_OF(kPrecisions); p++) {
        const char *at = strchr(form->root, '@');
        HloText text = {0};
        if (p > 2 && strstr(form->root, "convolution")) continue;
        hlo_text_format(
            &text, "HloModule m\n\nENTRY e {\n  p = %s parameter(0)\n  q = %s parameter(1)\n  ROOT r = %.*s%s\n}\n",
            form->left, form->right, (int)(at - form->root), form->root, kPrecisions[p]);
        HloModule *module = compiled_must_parse(text.data);
        for (size_t s = 0; s < HLO_COUNT_OF(kSpecials); s++)
            for (int side = 0; side < sides; side++) compare(module, kSpecials[s], side, text.data);
        hlo_module_free(module);
        hlo_text_free(&text);
    }
}
