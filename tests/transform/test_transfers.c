// SPDX-License-Identifier: Apache-2.0
// Derivatives of programs with transfers: what is sent may come back, whether or not tokens connect the two.
#include <criterion/criterion.h>
#include <string.h>

#include "hlo/hlo.h"
#include "tests/support/compiled.h"

static const char *const kTransfers[] = {
    // One of the host, without a token between them; one to another device; both in a function; in the body of a loop.
    "ENTRY e {\n  x = f32[] parameter(0)\n  y = f32[] sine(x)\n  t = token[] after-all()\n"
    "  s = (f32[], u32[], token[]) send(y, t), channel_id=1, is_host_transfer=true\n"
    "  d = token[] send-done(s), channel_id=1, is_host_transfer=true\n  u = token[] after-all()\n"
    "  r = (f32[], u32[], token[]) recv(u), channel_id=2, is_host_transfer=true\n"
    "  e = (f32[], token[]) recv-done(r), channel_id=2, is_host_transfer=true\n"
    "  g = f32[] get-tuple-element(e), index=0\n  ROOT z = f32[] multiply(g, g)\n}\n",
    "ENTRY e {\n  x = f32[] parameter(0)\n  u = token[] after-all()\n"
    "  r = (f32[], u32[], token[]) recv(u), channel_id=1\n  e = (f32[], token[]) recv-done(r), channel_id=1\n"
    "  g = f32[] get-tuple-element(e), index=0\n  z = f32[] multiply(g, x)\n  v = token[] get-tuple-element(e), "
    "index=1\n"
    "  s = (f32[], u32[], token[]) send(x, v), channel_id=1\n  d = token[] send-done(s), channel_id=1\n"
    "  ROOT w = f32[] add(z, x)\n}\n",
    "both {\n  x = f32[] parameter(0)\n  t = token[] after-all()\n"
    "  s = (f32[], u32[], token[]) send(x, t), channel_id=1, is_host_transfer=true\n"
    "  d = token[] send-done(s), channel_id=1, is_host_transfer=true\n"
    "  r = (f32[], u32[], token[]) recv(t), channel_id=2, is_host_transfer=true\n"
    "  e = (f32[], token[]) recv-done(r), channel_id=2, is_host_transfer=true\n"
    "  ROOT g = f32[] get-tuple-element(e), index=0\n}\n"
    "ENTRY e {\n  x = f32[] parameter(0)\n  ROOT z = f32[] call(x), to_apply=both\n}\n",
    "less {\n  s = (s32[], f32[]) parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n  n = s32[] constant(3)\n"
    "  ROOT c = pred[] compare(i, n), direction=LT\n}\n"
    "body {\n  p = (s32[], f32[]) parameter(0)\n  i = s32[] get-tuple-element(p), index=0\n  k = s32[] constant(1)\n"
    "  j = s32[] add(i, k)\n  x = f32[] get-tuple-element(p), index=1\n  t = token[] after-all()\n"
    "  s = (f32[], u32[], token[]) send(x, t), channel_id=1, is_host_transfer=true\n"
    "  d = token[] send-done(s), channel_id=1, is_host_transfer=true\n"
    "  r = (f32[], u32[], token[]) recv(t), channel_id=2, is_host_transfer=true\n"
    "  e = (f32[], token[]) recv-done(r), channel_id=2, is_host_transfer=true\n"
    "  g = f32[] get-tuple-element(e), index=0\n  ROOT q = (s32[], f32[]) tuple(j, g)\n}\n"
    "ENTRY e {\n  x = f32[] parameter(0)\n  i = s32[] constant(0)\n  s = (s32[], f32[]) tuple(i, x)\n"
    "  l = (s32[], f32[]) while(s), condition=less, body=body\n  ROOT z = f32[] get-tuple-element(l), index=1\n}\n",
};

Test(transfers, do_not_go_through_transfers) {
    for (size_t i = 0; i < HLO_COUNT_OF(kTransfers); i++) {
        HloText text = {0};
        hlo_text_format(&text, "HloModule m\n%s", kTransfers[i]);
        HloModule *module = compiled_must_parse(text.data);
        HloComputation *result = NULL;
        HloStatus status = hlo_gradient(module->entry, NULL, &result);
        cr_expect_eq(hlo_status_code(status), HLO_UNIMPLEMENTED, "program %zu: %s", i, hlo_status_message(status));
        cr_expect(status && strstr(hlo_status_message(status), "no derivative through transfers"), "program %zu", i);
        hlo_status_free(status);
        hlo_module_free(module);
        hlo_text_free(&text);
    }
}

// What is only sent (a debugging callback), or received without anything active having been sent, hinders no
// derivative.
Test(transfers, pass_by_transfers_that_do_not_matter) {
    static const char *const kPrograms[] = {
        "  s = (f64[], u32[], token[]) send(y, t), channel_id=1, is_host_transfer=true\n"
        "  d = token[] send-done(s), channel_id=1, is_host_transfer=true\n  ROOT z = f64[] multiply(y, x)\n}\n",
        "  r = (f64[], u32[], token[]) recv(t), channel_id=2, is_host_transfer=true\n"
        "  e = (f64[], token[]) recv-done(r), channel_id=2, is_host_transfer=true\n"
        "  g = f64[] get-tuple-element(e), index=0\n  ROOT z = f64[] multiply(y, g)\n}\n",
        "  r = (f64[], u32[], token[]) recv(t), channel_id=2, is_host_transfer=true\n"
        "  e = (f64[], token[]) recv-done(r), channel_id=2, is_host_transfer=true\n"
        "  g = f64[] get-tuple-element(e), index=0\n"
        "  s = (f64[], u32[], token[]) send(g, t), channel_id=1, is_host_transfer=true\n"
        "  d = token[] send-done(s), channel_id=1, is_host_transfer=true\n  ROOT z = f64[] multiply(y, g)\n}\n",
    };
    for (size_t i = 0; i < HLO_COUNT_OF(kPrograms); i++) {
        HloText text = {0};
        hlo_text_format(&text,
                        "HloModule m\nENTRY e {\n  x = f64[] parameter(0)\n  y = f64[] sine(x)\n"
                        "  t = token[] after-all()\n%s",
                        kPrograms[i]);
        HloModule *module = compiled_must_parse(text.data);
        HloComputation *result = NULL;
        HloStatus status = hlo_gradient(module->entry, NULL, &result);
        cr_expect_null(status, "program %zu: %s", i, hlo_status_message(status));
        hlo_status_free(status);
        hlo_module_free(module);
        hlo_text_free(&text);
    }
}
