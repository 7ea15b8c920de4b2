// SPDX-License-Identifier: Apache-2.0
// The verifier lets float types mix; the engine once read f64 operands as the f32 that the result said.
#include <criterion/criterion.h>
#include <string.h>

#include "hlo/text/text.h"
#include "hlo/verify/verify.h"
#include "tests/support/compiled.h"

static void refuses(const char *text) {
    HloModule *module = NULL;
    TargetClient *client = NULL;
    TargetExecutable *executable = NULL;
    HloParseOptions options = {0};
    HloStatus status = hlo_parse(text, strlen(text), &options, &module);
    cr_assert(!status, "%s", hlo_status_message(status));
    status = hlo_verify(module);
    cr_assert(!status, "%s", hlo_status_message(status));
    cr_assert(!target_client_new("cpu:1", &client));
    status = target_compile(client, module, NULL, &executable);
    cr_assert_eq(hlo_status_code(status), HLO_UNIMPLEMENTED, "%s", hlo_status_message(status));
    cr_assert(strstr(hlo_status_message(status), "mixture of float types"), "%s", hlo_status_message(status));
    hlo_status_free(status);
    target_client_release(client);
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
