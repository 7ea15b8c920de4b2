// SPDX-License-Identifier: Apache-2.0
// Recomputation in programs that have their backward part already. The oracle is the same program before.
#include <criterion/criterion.h>

#include "hlo/eval/eval.h"
#include "hlo/hlo.h"
#include "tests/support/compiled.h"

enum { LAYERS = 6, ROWS = 16, WIDTH = 8, HIDDEN = 32 };

static int64_t count_of(const HloComputation *computation, HloOpcode opcode) {
    int64_t count = 0;
    for (const HloInstruction *i = computation->first; i; i = i->next) count += hlo_is(i, opcode);
    return count;
}

// The gradient of a stack of layers x + sine(tanh(x up)) down, by all weights.
static HloModule *gradient_of_layers(void) {
    HloModule *module = hlo_module_new("layers");
    HloBuilder *b = hlo_builder_new(module, "main");
    HloInstruction *x = hlo_build_parameter(b, 0, HLO_F32, HLO_DIMS(ROWS, WIDTH), "x");
    int64_t wrt[2 * LAYERS];
    for (int64_t layer = 0; layer < LAYERS; layer++) {
        HloInstruction *up = hlo_build_parameter(b, 2 * layer + 1, HLO_F32, HLO_DIMS(WIDTH, HIDDEN), "up");
        HloInstruction *down = hlo_build_parameter(b, 2 * layer + 2, HLO_F32, HLO_DIMS(HIDDEN, WIDTH), "down");
        HloInstruction *inner = hlo_build_sin(b, hlo_build_tanh(b, hlo_build_matmul(b, x, up)));
        x = hlo_build_add(b, x, hlo_build_matmul(b, inner, down));
        wrt[2 * layer] = 2 * layer + 1;
        wrt[2 * layer + 1] = 2 * layer + 2;
    }
    must_succeed(
        hlo_builder_finish_entry(b, hlo_build_reduce_op(b, HLO_OP_ADD, hlo_build_mul(b, x, x), HLO_DIMS(0, 1))));
    HloComputation *gradient;
    must_succeed(hlo_value_and_gradient(module->entry, &(HloGradientOptions){.wrt = {wrt, 2 * LAYERS}}, &gradient));
    hlo_make_entry(module, gradient);
    hlo_module_remove_unreachable(module);
    return module;
}

static HloLiteral *evaluate(const HloModule *module) {
    HloLiteral *arguments[2 * LAYERS + 1], *result = NULL;
    for (int64_t i = 0; i < 2 * LAYERS + 1; i++)
        arguments[i] = compiled_random(module->entry->parameters.items[i]->shape, (uint64_t)i);
    must_succeed(hlo_evaluate(module, (const HloLiteral *const *)arguments, 2 * LAYERS + 1, NULL, &result));
    for (int64_t i = 0; i < 2 * LAYERS + 1; i++) hlo_literal_free(arguments[i]);
    return result;
}

Test(recompute, gives_the_same_bits_with_the_work_that_it_says) {
    static const struct {
        HloRecompute how;
        bool products, offloads;
    } kWanted[] = {{HLO_RECOMPUTE_ELEMENTWISE, false, false},
                   {HLO_RECOMPUTE_SCOPES, true, false},
                   {HLO_RECOMPUTE_SCOPES_OFFLOADED, true, true}};
    HloModule *module = gradient_of_layers();
    HloLiteral *expected = evaluate(module);
    for (size_t i = 0; i < HLO_COUNT_OF(kWanted); i++) {
        HloModule *again = hlo_module_clone(module);
        cr_expect(hlo_recompute(again->entry, kWanted[i].how), "%zu", i);
        must_succeed(hlo_verify(again));
        HloLiteral *result = evaluate(again);
        cr_expect(hlo_literal_equal(expected, result), "%zu: other values", i);
        cr_expect_eq(count_of(again->entry, HLO_OP_DOT) > count_of(module->entry, HLO_OP_DOT), kWanted[i].products);
        cr_expect(count_of(again->entry, HLO_OP_SIN) > count_of(module->entry, HLO_OP_SIN), "%zu", i);
        int64_t there = 0, back = 0;
        for (const HloInstruction *n = again->entry->first; n; n = n->next) {
            there += hlo_is(n, HLO_OP_COPY) && hlo_shape_memory_space(n->shape) == HLO_SPACE_PINNED_HOST;
            back += hlo_is(n, HLO_OP_COPY) && hlo_shape_memory_space(n->operands[0]->shape) == HLO_SPACE_PINNED_HOST;
        }
        cr_expect_eq(there > 0, kWanted[i].offloads, "%zu: %lld values on the host", i, (long long)there);
        cr_expect_eq(there, back, "%zu", i);
        hlo_literal_free(result);
        hlo_module_free(again);
    }
    hlo_literal_free(expected);
    hlo_module_free(module);
}

// A part that is computed again must not run before the backward part is there: each saved value is tied to one of it.
Test(recompute, copies_wait_for_the_backward_part) {
    HloModule *module = gradient_of_layers();
    cr_assert(hlo_recompute(module->entry, HLO_RECOMPUTE_SCOPES));
    int64_t barriers = 0;
    for (const HloInstruction *i = module->entry->first; i; i = i->next) {
        if (!hlo_is(i, HLO_OP_OPTIMIZATION_BARRIER)) continue;
        barriers++;
        cr_expect(hlo_shape_is_tuple(i->shape), "%s waits for nothing", i->name);
    }
    cr_expect(barriers > 0);
    hlo_module_free(module);
}

Test(recompute, leaves_programs_without_a_backward_part_alone) {
    HloModule *module = compiled_must_parse(
        "HloModule forward\nENTRY main {\n  x = f32[8,8] parameter(0)\n  y = f32[8,8] tanh(x)\n"
        "  ROOT z = f32[8,8] add(y, y)\n}\n");
    for (int how = HLO_RECOMPUTE_ELEMENTWISE; how <= HLO_RECOMPUTE_SCOPES_OFFLOADED; how++)
        cr_expect_not(hlo_recompute(module->entry, (HloRecompute)how));
    hlo_module_free(module);
}
