// SPDX-License-Identifier: Apache-2.0
// Programs without most of their equal layers: they are valid, have as many layers as asked for, and compute what a
// program that was written with these layers computes.
#include <criterion/criterion.h>
#include <string.h>

#include "hlo/eval/eval.h"
#include "hlo/text/text.h"
#include "hlo/verify/verify.h"
#include "spmd_partitioner/search/repeats.h"
#include "tests/support/compiled.h"

enum { LAYERS = 16, MOST = 24 };

typedef enum Extra { NOTHING, SUM_OF_ALL, NO_TUPLE } Extra;

static HloModule *parse(HloText *text) {
    HloModule *module;
    must_succeed(hlo_parse(text->data, text->length, NULL, &module));
    hlo_text_free(text);
    return module;
}

// Equal layers, their gradients from the last to the first, and the update of their weights. With SUM_OF_ALL the first
// layer's gradient begins with a product over all activations, which needs every copy.
static HloModule *network(int layers, Extra extra) {
    HloText text = {0};
    hlo_text_string(&text, "HloModule network\nENTRY e {\n x0 = f32[4,8] parameter(0)\n");
    for (int i = 0; i < layers; i++) hlo_text_format(&text, " w%d = f32[8,8] parameter(%d)\n", i, i + 1);
    for (int i = 0; i < layers; i++)
        hlo_text_format(&text,
                        " y%d = f32[4,8] dot(x%d, w%d), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
                        " t%d = f32[4,8] tanh(y%d)\n x%d = f32[4,8] add(x%d, t%d)\n",
                        i, i, i, i, i, i + 1, i, i);
    hlo_text_format(&text, " a0 = f32[4,8] negate(x%d)\n", layers);
    int sums = 0;
    for (; extra == SUM_OF_ALL && sums < layers; sums++)  // alternating, so that it is no run
        hlo_text_format(&text, " a%d = f32[4,8] %s(a%d, t%d)\n", sums + 1,
                        sums % 3 == 0 || sums % 7 == 0 ? "multiply" : "maximum", sums, sums);
    hlo_text_format(&text, " g%d = f32[4,8] cosine(a%d)\n", layers, sums);
    for (int i = layers - 1; i >= 0; i--)
        hlo_text_format(&text,
                        " z%d = f32[4,8] multiply(t%d, g%d)\n"
                        " d%d = f32[8,8] dot(x%d, z%d), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n"
                        " b%d = f32[4,8] dot(z%d, w%d), lhs_contracting_dims={1}, rhs_contracting_dims={1}\n"
                        " g%d = f32[4,8] add(g%d, b%d)\n",
                        i, i, i + 1, i, i, i, i, i, i, i, i + 1, i);
    for (int i = 0; i < layers; i++) hlo_text_format(&text, " m%d = f32[8,8] subtract(w%d, d%d)\n", i, i, i);
    hlo_text_string(&text, extra == NO_TUPLE ? " ROOT r = f32[4,8] exponential(g0)\n" : " ROOT r = (f32[4,8]");
    for (int i = 0; extra != NO_TUPLE && i < layers; i++) hlo_text_string(&text, ", f32[8,8]");
    if (extra != NO_TUPLE) hlo_text_string(&text, ") tuple(g0");
    for (int i = 0; extra != NO_TUPLE && i < layers; i++) hlo_text_format(&text, ", m%d", i);
    hlo_text_string(&text, extra == NO_TUPLE ? "}\n" : ")\n}\n");
    return parse(&text);
}

// The first result.
static HloLiteral *evaluate(const HloModule *module, HloLiteral *const *arguments) {
    HloEvalOptions options = {0};
    HloLiteral *result;
    must_succeed(
        hlo_evaluate(module, (const HloLiteral *const *)arguments, module->entry->parameters.count, &options, &result));
    return result;
}

Test(repeats, what_is_left_computes_what_so_many_layers_do) {
    HloModule *module = network(LAYERS, NOTHING);
    HloLiteral *arguments[LAYERS + 1];
    for (int i = 0; i <= LAYERS; i++)
        arguments[i] = compiled_random(module->entry->parameters.items[i]->shape, (uint64_t)i + 1);
    for (int64_t layers = 2; layers <= 5; layers++) {
        HloModule *shorter, *written = network((int)layers, NOTHING);
        int64_t all;
        must_succeed(spmd_search_shorten(module, layers, &shorter, &all));
        cr_assert_not_null(shorter);
        cr_assert_geq(all, LAYERS - 1);
        must_succeed(hlo_verify(shorter));
        cr_assert_eq(shorter->entry->parameters.count, LAYERS + 1);
        cr_assert(hlo_shape_equal(shorter->entry->root->shape, module->entry->root->shape, HLO_COMPARE_ALL));
        cr_assert_lt(shorter->entry->instruction_count, 3 * LAYERS + 10 * layers);
        HloLiteral *result = evaluate(shorter, arguments);
        bool found = false;  // the layers that are left are the first few and the last ones
        const int64_t left = layers + LAYERS - all;
        HloModule *expected = left == layers ? written : network((int)left, NOTHING);
        for (int64_t first = 1; first <= left && !found; first++) {
            HloLiteral *some[MOST] = {arguments[0]};
            for (int64_t i = 0; i < left; i++) some[i + 1] = arguments[1 + (i < first ? i : LAYERS - left + i)];
            HloLiteral *want = evaluate(expected, some);
            found = hlo_literal_equal(result->elements[0], want->elements[0]);
            hlo_literal_free(want);
        }
        cr_assert(found, "%lld layers", (long long)layers);
        hlo_literal_free(result);
        if (expected != written) hlo_module_free(expected);
        hlo_module_free(written);
        hlo_module_free(shorter);
    }
    for (int i = 0; i <= LAYERS; i++) hlo_literal_free(arguments[i]);
    hlo_module_free(module);
}

static bool can_be_shortened(HloModule *module, int64_t layers) {
    HloModule *shorter;
    int64_t all;
    must_succeed(spmd_search_shorten(module, layers, &shorter, &all));
    const bool made = shorter != NULL;
    hlo_module_free(shorter);
    hlo_module_free(module);
    return made;
}

Test(repeats, programs_that_need_all_copies_stay_as_they_are) {
    cr_assert(can_be_shortened(network(LAYERS, NOTHING), 4));
    cr_assert_not(can_be_shortened(network(LAYERS, SUM_OF_ALL), 4));
    cr_assert_not(can_be_shortened(network(LAYERS, NO_TUPLE), 4), "all results are needed");
    cr_assert_not(can_be_shortened(network(3, NOTHING), 2), "there are few layers");
    cr_assert_not(can_be_shortened(network(LAYERS, NOTHING), LAYERS - 1), "nothing would be left out");
}
