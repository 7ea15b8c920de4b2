// SPDX-License-Identifier: Apache-2.0
// Instructions whose floats have several precisions, which HLO allows everywhere and StableHLO in a few operations:
// they go through text, generic text and bytecode and come back as they were; those that can be evaluated with the same
// numbers.
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "hlo/eval/eval.h"
#include "hlo/stablehlo/stablehlo.h"
#include "hlo/text/text.h"
#include "hlo/verify/verify.h"
#include "tests/support/cases.h"
#include "tests/support/compiled.h"

// The arguments and computations that the instructions below use.
static const char head[] =
    "HloModule m\n"
    "add { ax = f32[] parameter(0)\n ay = f32[] parameter(1)\n ROOT as = f32[] add(ax, ay) }\n"
    "narrow { nx = bf16[] parameter(0)\n ny = bf16[] parameter(1)\n ROOT ns = bf16[] add(nx, ny) }\n"
    "wide { wx = f64[] parameter(0)\n wy = f64[] parameter(1)\n ROOT ws = f64[] add(wx, wy) }\n"
    "ge { gx = f32[] parameter(0)\n gy = f32[] parameter(1)\n ROOT gs = pred[] compare(gx, gy), direction=GE }\n"
    "geb { hx = bf16[] parameter(0)\n hy = bf16[] parameter(1)\n ROOT hs = pred[] compare(hx, hy), direction=GE }\n"
    "ENTRY e {\n  a = bf16[4,4] parameter(0)\n  b = f32[4,4] parameter(1)\n  w = bf16[2,2] parameter(2)\n"
    "  v = f32[2,2] parameter(3)\n  s = f32[4] parameter(4)\n  i = s8[4,4] parameter(5)\n  p = pred[4,4] parameter(6)\n"
    "  zb = bf16[] constant(0)\n  z = f32[] constant(0)\n  n = s32[] constant(1)\n"
    "  k = s32[2,1] constant({{2}, {0}})\n  u = f32[2,4] slice(b), slice={[0:2],[0:4]}\n";

static const char *const instructions[] = {
    "f32[4,4] add(a, b)",
    "bf16[4,4] add(a, b)",
    "f32[4,4] multiply(a, a)",
    "bf16[4,4] negate(b)",
    "f32[4,4] negate(a)",
    "bf16[4,4] erf(b)",  // goes through bytecode as a composite
    "f32[4,4] select(p, a, b)",
    "f32[4,4] clamp(zb, b, z)",
    "pred[4,4] compare(a, b), direction=LT",
    "bf16[4,4] broadcast(s), dimensions={0}",
    "f32[4] reduce(a, z), dimensions={1}, to_apply=add",
    "bf16[4] reduce(b, z), dimensions={1}, to_apply=add",
    "f32[4] reduce(a, z), dimensions={1}, to_apply=narrow",
    "f64[4] reduce(b, z), dimensions={1}, to_apply=wide",
    "f32[3,3] reduce-window(a, z), window={size=2x2}, to_apply=add",
    "bf16[3,3] reduce-window(b, zb), window={size=2x2}, to_apply=narrow",
    "f32[4,4] select-and-scatter(a, v, z), window={size=2x2 stride=2x2}, select=ge, scatter=add",
    "f32[4,4] select-and-scatter(a, w, z), window={size=2x2 stride=2x2}, select=geb, scatter=add",
    "f32[4,4] scatter(a, k, u), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
    "index_vector_dim=1, to_apply=add",
    "f32[6,6] pad(a, z), padding=1_1x1_1",
    "bf16[6,6] pad(b, zb), padding=1_1x1_1",
    "bf16[4,4] dynamic-update-slice(a, v, n, n)",
    "f32[4,8] concatenate(a, b), dimensions={1}",
    "bf16[2,2] slice(b), slice={[0:2],[0:2]}",
    "bf16[16] reshape(b)",
    "bf16[4,4] transpose(b), dimensions={1,0}",
    "bf16[2,2] dynamic-slice(b, n, n), dynamic_slice_sizes={2,2}",
    "f32[2,4] gather(a, k), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, "
    "slice_sizes={1,4}",
    "f32[4,4] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    "f32[4,4] dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    "bf16[4,4] dot(b, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    "s32[4,4] dot(i, i), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    "f32[4,4] dot(i, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    "f32[4,4] convolution(a, b), dim_labels=bf_io->bf",
    "(f32[4,4], f32[4], f32[4]) batch-norm-training(a, s, s), epsilon=0.001, feature_index=1",
    "f32[4,4] triangular-solve(a, b), left_side=true, lower=true, transpose_a=NO_TRANSPOSE",
};

typedef enum Door { PRETTY, GENERIC, BYTECODE } Door;

static void must(HloStatus status, const char *what) {
    cr_assert_null(status, "%s: %s", what, hlo_status_message(status));
}

static HloModule *program(const char *instruction) {
    char text[4096];
    snprintf(text, sizeof(text), "%s  ROOT r = %s\n}\n", head, instruction);
    HloModule *module = NULL;
    must(hlo_parse(text, strlen(text), NULL, &module), instruction);
    must(hlo_verify(module), instruction);
    return module;
}

static HloModule *through(const HloModule *module, Door door, const char *what) {
    HloText bytes = {0};
    HloModule *again = NULL;
    if (door == BYTECODE) {
        must(hlo_module_to_stablehlo_bytecode(module, NULL, &bytes), what);
        must(hlo_module_from_stablehlo_bytecode(bytes.data, bytes.length, &again), what);
    } else {
        must(door == PRETTY ? hlo_module_to_stablehlo_text(module, false, &bytes)
                            : hlo_module_to_stablehlo_generic(module, false, &bytes),
             what);
        must(hlo_module_from_stablehlo_text(bytes.data, bytes.length, "mixed.mlir", &again), what);
    }
    must(hlo_verify(again), what);
    hlo_text_free(&bytes);
    return again;
}

// NULL for calls that are refused by name: most of these are for other compilers.
static HloLiteral *evaluate(const HloModule *module, const char *what) {
    const HloLiteral *arguments[16];
    const int64_t count = module->entry->parameters.count;
    cr_assert_leq(count, 16);
    for (int64_t i = 0; i < count; i++)
        arguments[i] = compiled_random(module->entry->parameters.items[i]->shape, 7 + (uint64_t)i);
    HloLiteral *result = NULL;
    HloStatus status = hlo_evaluate(module, arguments, count, NULL, &result);
    if (hlo_status_code(status) != HLO_UNIMPLEMENTED) must(status, what);
    hlo_status_free(status);
    for (int64_t i = 0; i < count; i++) hlo_literal_free((HloLiteral *)(uintptr_t)arguments[i]);
    return result;
}

CaseList(stablehlo_mixed, comes_back_as_it_was) {
    return cases_numbered(HLO_COUNT_OF(instructions));
}

CaseTest(const int *index, stablehlo_mixed, comes_back_as_it_was) {
    const char *what = instructions[*index];
    HloModule *module = program(what);
    HloLiteral *expected = evaluate(module, what);
    for (Door door = PRETTY; door <= BYTECODE; door++) {
        HloModule *again = through(module, door, what);
        const HloInstruction *root = module->entry->root, *other = again->entry->root;
        // Several results come back as a tuple of the elements of one.
        if (hlo_is(other, HLO_OP_TUPLE)) other = other->operands[0]->operands[0];
        cr_expect_eq(other->opcode, root->opcode, "%s", what);
        cr_expect(hlo_shape_equal(other->shape, root->shape, HLO_COMPARE_IGNORE_LAYOUT), "%s", what);
        // Windows and scatters whose computation is wider get their operands converted when they are read.
        for (int32_t i = 0; i < root->operand_count; i++)
            cr_expect(other->operands[i]->shape->type == root->operands[i]->shape->type ||
                          hlo_is(other->operands[i], HLO_OP_CONVERT),
                      "%s: operand %d", what, i);
        HloLiteral *got = evaluate(again, what);
        cr_expect(!expected || got, "%s", what);
        if (expected && got)
            cr_expect(hlo_literal_equal(expected, got), "%s: other numbers through door %d", what, (int)door);
        hlo_literal_free(got);
        hlo_module_free(again);
    }
    hlo_literal_free(expected);
    hlo_module_free(module);
}

// Copies, tuples and their elements become no operation. bug: one that changed the precision lost its conversion.
static const char *const silent[] = {"bf16[4,4] copy(b)", "f32[4,4] copy(a)"};

CaseList(stablehlo_mixed, what_becomes_no_operation_converts) {
    return cases_numbered(HLO_COUNT_OF(silent));
}

CaseTest(const int *index, stablehlo_mixed, what_becomes_no_operation_converts) {
    const char *what = silent[*index];
    HloModule *module = program(what);
    for (Door door = PRETTY; door <= BYTECODE; door++) {
        HloModule *again = through(module, door, what);
        cr_expect(hlo_shape_equal(again->entry->root->shape, module->entry->root->shape, HLO_COMPARE_IGNORE_LAYOUT),
                  "%s", what);
        int64_t converts = 0;
        for (const HloInstruction *at = again->entry->first; at; at = at->next) converts += hlo_is(at, HLO_OP_CONVERT);
        cr_expect_eq(converts, 1, "%s: %lld conversions through door %d", what, (long long)converts, (int)door);
        hlo_module_free(again);
    }
    hlo_module_free(module);
}

// Programs of other writers do not say so: there another precision is a mistake, but where a computation may be wider.
typedef struct Foreign {
    const char *operation;
    bool accepted;
} Foreign;

static const Foreign foreign[] = {
    {"stablehlo.add %a, %a : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf64>", false},
    {"stablehlo.negate %a : (tensor<4xf32>) -> tensor<4xbf16>", false},
    {"stablehlo.reshape %a : (tensor<4xf32>) -> tensor<4xbf16>", false},
    {"chlo.erfc %a : tensor<4xf32> -> tensor<4xbf16>", false},
    {"chlo.erf %a : tensor<4xf32> -> tensor<4xf64>", false},
    {"chlo.is_inf %a : tensor<4xf32> -> tensor<4xi8>", false},
    {"chlo.erf %a {meshlo.mixed_precision} : tensor<4xf32> -> tensor<4xbf16>", true},
    {"stablehlo.reshape %a {meshlo.mixed_precision} : (tensor<4xf32>) -> tensor<4xbf16>", true},
    {"stablehlo.reshape %a {meshlo.mixed_precision} : (tensor<4xf32>) -> tensor<4xi32>", false},
    {"stablehlo.reshape %a {meshlo.mixed_precision} : (tensor<4xf32>) -> tensor<5xbf16>", false},
};

CaseList(stablehlo_mixed, other_writers) {
    return cases_numbered(HLO_COUNT_OF(foreign));
}

CaseTest(const int *index, stablehlo_mixed, other_writers) {
    const Foreign *param = &foreign[*index];
    char text[512];
    const char *type = strstr(param->operation, "-> ") + 3;
    snprintf(text, sizeof(text), "func.func @main(%%a: tensor<4xf32>) -> %s {\n  %%0 = %s\n  return %%0 : %s\n}\n",
             type, param->operation, type);
    HloModule *module = NULL;
    HloStatus status = hlo_module_from_stablehlo_text(text, strlen(text), "foreign.mlir", &module);
    cr_expect_eq(hlo_status_code(status), param->accepted ? HLO_OK : HLO_INVALID_ARGUMENT, "%s: %s", param->operation,
                 hlo_status_message(status));
    hlo_status_free(status);
    if (param->accepted) hlo_module_free(module);
}
