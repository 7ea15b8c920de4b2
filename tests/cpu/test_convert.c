// SPDX-License-Identifier: Apache-2.0
// f64 to narrow floats next to ties, in both engines. The engine once rounded to f32 first, where such numbers become
// ties; a random program found it. XLA (jaxlib 0.10.2) does that for bf16 only.
#include <criterion/criterion.h>
#include <math.h>

#include "hlo/eval/eval.h"
#include "tests/support/cases.h"
#include "tests/support/compiled.h"

static const HloType narrow[] = {HLO_F16,        HLO_BF16,       HLO_F8E5M2, HLO_F8E4M3,       HLO_F8E4M3FN,
                                 HLO_F8E4M3FNUZ, HLO_F8E5M2FNUZ, HLO_F8E3M4, HLO_F8E4M3B11FNUZ};

enum { TIES = 3, SIDES = 4, NUMBERS = TIES * SIDES };
static const double sides[SIDES] = {-0x1p-40, 0x1p-40, -0x1p-12, 0x1p-12};

// A number beside tie number i of the type, in [1, 2), and the neighbour that it is nearer to.
static double near_tie(HloType type, int64_t i, double *nearest) {
    double unit = ldexp(1, -hlo_type_info(type)->mantissa_bits), side = sides[i % SIDES];
    double below = 1 + (double)(i / SIDES) * unit;
    // By way of f32 the last bits are lost, and the tie goes to the even neighbour.
    bool tie = type == HLO_BF16 && fabs(side) < 0x1p-24, below_is_even = i / SIDES % 2 == 0;
    bool goes_down = tie ? below_is_even : side < 0;
    *nearest = goes_down ? below : below + unit;
    return below + unit * (0.5 + side);
}

CaseList(cpu_convert, f64_to_narrow_floats_rounds_once) {
    static size_t indices[HLO_COUNT_OF(narrow)];
    for (size_t i = 0; i < HLO_COUNT_OF(narrow); i++) indices[i] = i;
    return cr_make_param_array(size_t, indices, HLO_COUNT_OF(narrow));
}

CaseTest(size_t *index, cpu_convert, f64_to_narrow_floats_rounds_once) {
    HloType type = narrow[*index];
    HloText text = {0}, message = {0};
    hlo_text_format(&text, "HloModule m\n\nENTRY e {\n  p = f64[%d] parameter(0)\n  ROOT r = %s[%d] convert(p)\n}\n",
                    NUMBERS, hlo_type_text(type), NUMBERS);
    HloModule *module = compiled_must_parse(text.data);
    HloLiteral *input = hlo_literal_of(HLO_F64, (HloInts){(int64_t[]){NUMBERS}, 1}, NULL), *results[2] = {NULL};
    double wanted[NUMBERS];
    for (int64_t i = 0; i < NUMBERS; i++) hlo_literal_set_double(input, i, near_tie(type, i, &wanted[i]));
    const CompiledCheck check = {.threads = 1};
    cr_assert(compiled_run_on_one(module, &input, &check, &results[0], &message), "%s", message.data);
    must_succeed(hlo_evaluate(module, (const HloLiteral *const *)&input, 1, NULL, &results[1]));
    for (int engine = 0; engine < 2; engine++) {
        for (int64_t i = 0; i < NUMBERS; i++) {
            cr_expect_eq(hlo_literal_get_double(results[engine], i), wanted[i], "%s, %s: %.17g became %g, not %g",
                         hlo_type_text(type), engine ? "evaluator" : "compiled", hlo_literal_get_double(input, i),
                         hlo_literal_get_double(results[engine], i), wanted[i]);
        }
        hlo_literal_free(results[engine]);
    }
    hlo_literal_free(input);
    hlo_module_free(module);
    hlo_text_free(&text);
    hlo_text_free(&message);
}
