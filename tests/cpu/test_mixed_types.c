// SPDX-License-Identifier: Apache-2.0
// The verifier lets float types mix; the engine once read f64 operands as the f32 that the result said.
#include <criterion/criterion.h>
#include <string.h>

#include "hlo/text/text.h"
#include "hlo/verify/verify.h"
#include "tests/support/cases.h"
#include "tests/support/compiled.h"

static void refuses_to_compile(const HloModule *module, const char *text) {
    TargetClient *client = NULL;
    TargetExecutable *executable = NULL;
    cr_assert(!target_client_new("cpu:1", &client));
    HloStatus status = target_compile(client, module, NULL, &executable);
    cr_assert(status, "%s", text);
    cr_assert_eq(hlo_status_code(status), HLO_UNIMPLEMENTED, "%s", hlo_status_message(status));
    cr_assert(strstr(hlo_status_message(status), "a mixture of "), "%s", hlo_status_message(status));
    hlo_status_free(status);
    target_client_release(client);
}

static void refuses(const char *text) {
    HloModule *module = compiled_must_parse(text);
    refuses_to_compile(module, text);
    hlo_module_free(module);
}

Test(cpu_mixed_types, f32_result_of_f64_operand_is_refused) {
    refuses("HloModule m\nENTRY e { p = f64[4] parameter(0)\nROOT r = f32[4] log(p) }");
    refuses("HloModule m\nENTRY e { p = f64[4] parameter(0)\nROOT r = f32[4] add(p, p) }");
}

// Under a TPU's numerics an f32 operand is rounded beside a bf16 one too. The engine once multiplied it as it was,
// which the tests of programs never saw: they had one type on both sides.
Test(cpu_mixed_types, products_of_f32_and_bf16_are_rounded_as_on_a_tpu) {
    static const char *const types[] = {"f32", "bf16"};
    static const char *const products[] = {
        "dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        "dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}, operand_precision={high,high}",
        "dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}, operand_precision={highest,default}",
        "dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}, algorithm=dot_bf16_bf16_f32",
        "convolution(p, q), dim_labels=bf_io->bf",
    };
    for (size_t i = 0; i < 4 * HLO_COUNT_OF(products); i++) {
        HloText text = {0}, message = {0};
        hlo_text_format(&text,
                        "HloModule m\n\nENTRY e {\n  p = %s[9,40] parameter(0)\n  q = %s[40,11] parameter(1)\n"
                        "  ROOT r = f32[9,11] %s\n}\n",
                        types[i % 2], types[i / 2 % 2], products[i / 4]);
        HloModule *module = compiled_must_parse(text.data);
        const CompiledCheck check = {.threads = 1, .seed = i, .numerics = TARGET_NUMERICS_TPU};
        cr_expect(compiled_equals_eval(module, &check, &message), "%s: %s", text.data, message.data);
        hlo_module_free(module);
        hlo_text_free(&text);
        hlo_text_free(&message);
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Operands and computations of any float types: what the evaluator refuses is not compiled, and what it runs is equal.

// A and B are types; the computation s is R[] add(T[], U[]) with each of T, U and R one of them.
static const char *const mixed[] = {
    "p = A[5,3] parameter(0)\n i = s32[20] parameter(1)\n u = B[20,1] parameter(2)\n"
    " ROOT r = A[5,3] scatter(p, i, u), update_window_dims={1}, inserted_window_dims={0}, "
    "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=s",
    "p = A[500] parameter(0)\n q = B[500] parameter(1)\n ROOT r = A[500] map(p, q), dimensions={0}, to_apply=s",
    "p = A[500] parameter(0)\n q = A[500] parameter(1)\n ROOT r = B[500] map(p, q), dimensions={0}, to_apply=s",
    "p = A[500] parameter(0)\n z = A[] parameter(1)\n ROOT r = A[] reduce(p, z), dimensions={0}, to_apply=s",
    "p = A[500] parameter(0)\n z = B[] parameter(1)\n ROOT r = A[] reduce(p, z), dimensions={0}, to_apply=s",
    "p = A[500] parameter(0)\n z = A[] parameter(1)\n ROOT r = A[499] reduce-window(p, z), window={size=2}, to_apply=s",
    "p = A[500] parameter(0)\n z = B[] parameter(1)\n ROOT r = A[499] reduce-window(p, z), window={size=2}, to_apply=s",
    "p = A[6] parameter(0)\n z = A[] parameter(1)\n"
    " ROOT r = A[6] reduce-window(p, z), window={size=6 pad=5_0}, to_apply=s",
    "p = A[500] parameter(0)\n q = A[250] parameter(1)\n z = A[] parameter(2)\n"
    " ROOT r = A[500] select-and-scatter(p, q, z), window={size=2 stride=2}, select=g, scatter=s",
    "p = A[500] parameter(0)\n q = B[250] parameter(1)\n z = A[] parameter(2)\n"
    " ROOT r = A[500] select-and-scatter(p, q, z), window={size=2 stride=2}, select=h, scatter=s",
    "p = A[500] parameter(0)\n ROOT r = A[500] sort(p), dimensions={0}, to_apply=h",
    "p = A[500] parameter(0)\n q = B[500] parameter(1)\n"
    " ROOT r = (A[500], B[500]) sort(p, q), dimensions={0}, to_apply=l",
    "p = A[500] parameter(0)\n ROOT r = A[500] all-reduce(p), replica_groups={}, to_apply=s",
    "p = A[5,300] parameter(0)\n u = B[2,300] parameter(1)\n i = s32[] parameter(2)\n"
    " ROOT r = A[5,300] dynamic-update-slice(p, u, i, i)",
};

// Replaces A, B, T, U and R where they are placeholders of a type.
static void write_types(HloText *text, const char *program, const char *const types[5]) {
    for (const char *at = program; *at; at++) {
        const char *place = strchr("ABTUR", *at);
        if (*at != '\0' && place && at[1] == '[')
            hlo_text_string(text, types[place - "ABTUR"]);
        else
            hlo_text_char(text, *at);
    }
}

static void check_mixture(const char *program, const char *const types[5]) {
    HloText text = {0}, message = {0};
    hlo_text_string(&text, "HloModule m\n\n");
    write_types(&text,
                "s {\n a = T[] parameter(0)\n b = U[] parameter(1)\n ROOT c = R[] add(a, b)\n}\n\n"
                "g {\n a = A[] parameter(0)\n b = A[] parameter(1)\n ROOT c = pred[] compare(a, b), direction=GE\n}\n\n"
                "h {\n a = B[] parameter(0)\n b = B[] parameter(1)\n ROOT c = pred[] compare(a, b), direction=GE\n}\n\n"
                "l {\n a = A[] parameter(0)\n b = A[] parameter(1)\n c = A[] parameter(2)\n d = A[] parameter(3)\n"
                " ROOT e = pred[] compare(a, b), direction=LT\n}\n\nENTRY e {\n ",
                types);
    write_types(&text, program, types);
    hlo_text_string(&text, "\n}\n");
    HloModule *module = NULL;
    HloStatus status = hlo_parse(text.data, text.length, NULL, &module);
    if (!status) status = hlo_verify(module);
    if (!status) {
        bool refused = false;
        const CompiledCheck check = {.threads = 1, .refused = &refused, .allow_fallback = true};
        const bool same = compiled_equals_eval(module, &check, &message);
        cr_expect(same || refused, "%s: %s", text.data, message.data);
        if (refused) refuses_to_compile(module, text.data);
    }
    hlo_status_free(status);
    hlo_module_free(module);
    hlo_text_free(&text);
    hlo_text_free(&message);
}

CaseList(cpu_mixed_types, bug_operands_were_read_as_another_type) {
    return cases_numbered(HLO_COUNT_OF(mixed));
}

CaseTest(const int *number, cpu_mixed_types, bug_operands_were_read_as_another_type) {
    static const char *const floats[] = {"f32", "f16", "bf16", "f64", "f8e5m2"};
    enum { COUNT = HLO_COUNT_OF(floats) };
    for (int pair = 0; pair < COUNT * COUNT; pair++)
        for (int which = 0; which < 8; which++) {
            const char *a = floats[pair % COUNT], *b = floats[pair / COUNT];
            check_mixture(mixed[*number],
                          (const char *const[]){a, b, which & 1 ? b : a, which & 2 ? b : a, which & 4 ? b : a});
        }
}
