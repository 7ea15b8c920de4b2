// SPDX-License-Identifier: Apache-2.0
// The pass dynamic-padder: static programs that compute the same, for every size; and the ops that it refuses by name.
#include <criterion/criterion.h>
#include <string.h>

#include "check.h"
#include "hlo/eval/eval.h"
#include "tests/support/bounded.h"
#include "tests/support/cases.h"
#include "tests/support/compiled.h"

static HloStatus pad(HloModule *module) {
    const char *names[] = {"batch-norm-expander", "dynamic-padder", "dce"};
    return hlo_run_passes(module, names, 3, NULL);
}

// Only the two calls at the boundary, and what precedes and follows them, may still have dynamic sizes.
static void expect_static(const HloModule *module, const char *name) {
    for (int64_t c = 0; c < module->computations.count; c++) {
        for (const HloInstruction *i = module->computations.items[c]->first; i; i = i->next) {
            const char *target = hlo_is(i, HLO_OP_CUSTOM_CALL) ? HLO_ATTRIBUTES(i, CustomCall)->target : NULL;
            const bool boundary = hlo_is(i, HLO_OP_PARAMETER) || hlo_is(i, HLO_OP_GET_TUPLE_ELEMENT) ||
                                  (hlo_is(i, HLO_OP_TUPLE) && hlo_instruction_is_root(i)) ||
                                  (target && !strcmp(target, "SliceToDynamic"));
            cr_expect(boundary || !hlo_shape_is_dynamic(i->shape), "%s: %s", name, i->name);
            cr_expect(!hlo_is(i, HLO_OP_SET_DIMENSION_SIZE) && !hlo_is(i, HLO_OP_GET_DIMENSION_SIZE), "%s", name);
        }
    }
}

CaseList(dynamic_padder, keeps_results) {
    return cases_numbered(bounded_count());
}

CaseTest(const int *index, dynamic_padder, keeps_results) {
    const BoundedCase *bounded = bounded_case((size_t)*index);
    HloModule *plain = bounded_program(bounded), *padded = bounded_program(bounded);
    must_succeed(pad(padded));
    expect_static(padded, bounded->name);
    for (int64_t n = 0; n <= BOUNDED_SIZE; n += 3) {
        HloLiteral *arguments[BOUNDED_ARGUMENTS], *have = NULL, *want = NULL;
        HloText message = {0};
        bounded_arguments(plain, n, 2, arguments);
        must_succeed(hlo_evaluate(plain, (const HloLiteral *const *)arguments, BOUNDED_ARGUMENTS, NULL, &want));
        must_succeed(hlo_evaluate(padded, (const HloLiteral *const *)arguments, BOUNDED_ARGUMENTS, NULL, &have));
        const CompiledCheck check = {0};
        cr_assert(compiled_same(have, want, &check, &message), "%s, size %lld: %s", bounded->name, (long long)n,
                  message.data);
        for (int p = 0; p < BOUNDED_ARGUMENTS; p++) hlo_literal_free(arguments[p]);
        hlo_literal_free(have);
        hlo_literal_free(want);
    }
    hlo_module_free(plain);
    hlo_module_free(padded);
}

Test(dynamic_padder, leaves_static_programs_alone) {
    HloModule *module =
        check_parse("HloModule m\nENTRY e {\n p = f32[3] parameter(0)\n ROOT r = f32[3] negate(p)\n}\n");
    const uint64_t before = hlo_module_hash(module);
    must_succeed(pad(module));
    cr_expect_eq(hlo_module_hash(module), before);
    hlo_module_free(module);
}

Test(dynamic_padder, takes_arguments_apart_and_puts_results_together) {
    check_body("dynamic-padder,dce", "  p0 = f32[<=3] parameter(0)\n  ROOT r = f32[<=3] negate(p0)\n",
               "  p0 = f32[<=3] parameter(0)\n"
               "  custom-call = (f32[3], s32[]) custom-call(p0), custom_call_target=\"PadToStatic\"\n"
               "  get-tuple-element.1 = f32[3] get-tuple-element(custom-call), index=0\n"
               "  r = f32[3] negate(get-tuple-element.1)\n"
               "  get-tuple-element = s32[] get-tuple-element(custom-call), index=1\n"
               "  ROOT custom-call.1 = f32[<=3] custom-call(r, get-tuple-element), "
               "custom_call_target=\"SliceToDynamic\"\n");
}

typedef struct RefusedCase {
    const char *instructions, *words;
} RefusedCase;

// Ops without a static form; the message names the op.
static const RefusedCase refused[] = {
    {"a = f32[1,6,4] reshape(q)\n k = f32[<=6,1,1] reshape(d)\n"
     " ROOT x = f32[1,<=6,4] convolution(a, k), window={size=6}, dim_labels=b0f_0io->b0f, feature_group_count=4",
     "(convolution)"},
    {"a = c64[<=6] convert(d)\n ROOT x = c64[<=6] fft(a), fft_type=FFT, fft_length={6}", "fft"},
    {"ROOT x = f32[<=6] custom-call(d, e), custom_call_target=\"other\"", "custom call \"other\""},
    {"g = pred[] compare(n, m), direction=LT\n s = (f32[<=6]) tuple(d)\n t = (f32[<=6]) tuple(e)\n"
     " ROOT x = (f32[<=6]) select(g, s, t)",
     "select"},
    {"a = s32[<=6,1] reshape(j)\n k = s32[6,1] reshape(i)\n u = f32[6,<=6] broadcast(d), dimensions={1}\n"
     " w = f32[6,6] broadcast(zero), dimensions={}\n"
     " ROOT x = f32[6,6] scatter(w, k, u), update_window_dims={1}, inserted_window_dims={0}, "
     "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=second",
     "a window of dynamic size"},
};

CaseList(dynamic_padder, refuses_by_name) {
    return cases_numbered(HLO_COUNT_OF(refused));
}

CaseTest(const int *index, dynamic_padder, refuses_by_name) {
    const RefusedCase *test = &refused[*index];
    const BoundedCase bounded = {"refused", test->instructions};
    HloText message = {0};
    HloModule *module = bounded_program(&bounded);
    must_fail(pad(module), HLO_UNIMPLEMENTED, test->words);
    hlo_text_free(&message);
    hlo_module_free(module);
}

// Beyond the table above: calls whose sides disagree about dynamic sizes, and ops with a form of dynamic size that has
// no static one. A size that is lost here would be an element that does not exist in a result.
typedef struct RefusedModule {
    const char *called, *body, *words;
} RefusedModule;

#define SAME(type) "c {\n  ROOT a = " type " parameter(0)\n}\n"
#define ADDS(name) name " {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT t = f32[] add(a, b)\n}\n"

static const RefusedModule refused_modules[] = {
    {SAME("f32[<=8,8]"), "  p = f32[<=8,<=8] parameter(0)\n  ROOT r = f32[<=8,8] call(p), to_apply=c\n",
     "declared static, an array"},
    {SAME("f32[8]"), "  p = f32[<=8] parameter(0)\n  ROOT r = f32[8] call(p), to_apply=c\n",
     "passed to a computation that takes a static one, an operand"},
    {SAME("f32[<=8]") "d {\n  ROOT a = f32[8] parameter(0)\n}\n",
     "  p = f32[<=8] parameter(0)\n  q = f32[8] parameter(1)\n  g = pred[] parameter(2)\n"
     "  ROOT r = f32[<=8] conditional(g, p, q), true_computation=c, false_computation=d\n",
     "in only one of its computations, an array"},
    {"s {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT t = pred[] compare(a, b), direction=GE\n}\n"
     "c {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT t = f32[] subtract(a, b)\n}\n",
     "  p = f32[<=8] parameter(0)\n  q = f32[<=4] parameter(1)\n  z = f32[] constant(0)\n"
     "  ROOT r = f32[<=8] select-and-scatter(p, q, z), window={size=2 stride=2}, select=s, scatter=c\n",
     "(select-and-scatter)"},
    {"",
     "  p = f32[<=8,16] parameter(0)\n  q = f32[32,4] parameter(1)\n  m = u16[8,2] parameter(2)\n"
     "  ROOT r = f32[<=8,4] dot(p, q, m), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n",
     "a sparse operand"},
    {"",
     "  p = f32[<=8,4] parameter(0)\n  q = f32[4,8] parameter(1)\n"
     "  ROOT r = f32[4,8] convolution(p, q), dim_labels=bf_io->bf, batch_group_count=2\n",
     "batch groups"},
    {"",
     "  p = f32[8,<=4] parameter(0)\n  q = f32[2,8] parameter(1)\n"
     "  ROOT r = f32[8,8] convolution(p, q), dim_labels=bf_io->bf, feature_group_count=2\n",
     "feature groups"},
    {"", "  p = f8e4m3fn[2,<=8] parameter(0)\n  ROOT r = (f8e4m3fn[2,3], s32[2,3]) topk(p), k=3, largest=true\n",
     "a row of narrow floating-point numbers"},
    {ADDS("c"),
     "  p = f32[] parameter(0)\n  i = s32[<=6,0] parameter(1)\n  u = f32[<=6] parameter(2)\n"
     "  ROOT r = f32[] scatter(p, i, u), update_window_dims={}, inserted_window_dims={}, "
     "scatter_dims_to_operand_dims={}, index_vector_dim=1, to_apply=c\n",
     "a list of scalar updates"},
    {"", "  p = f32[<=4] parameter(0)\n  ROOT r = f32[<=8] all-gather(p), dimensions={0}, replica_groups={{0,1}}\n",
     "splitting a dimension"},
};

CaseList(dynamic_padder, refuses_what_sides_disagree_about) {
    return cases_numbered(HLO_COUNT_OF(refused_modules));
}

CaseTest(const int *index, dynamic_padder, refuses_what_sides_disagree_about) {
    const RefusedModule *test = &refused_modules[*index];
    HloText text = {0};
    hlo_text_format(&text, "HloModule m, replica_count=2\n%sENTRY e {\n%s}\n", test->called, test->body);
    HloModule *module = check_parse(text.data);
    must_fail(pad(module), HLO_UNIMPLEMENTED, test->words);
    hlo_module_free(module);
    hlo_text_free(&text);
}

// Boundary calls that do not fit, and sizes without a bound, come from outside: errors, never assertions.
static const char *const kMisfits[] = {
    "  p = f32[<=8] parameter(0)\n  k = f32[] constant(1)\n"
    "  ROOT r = f32[<=8] custom-call(p, k), custom_call_target=\"SliceToDynamic\"\n",
    "  p = f32[<=8] parameter(0)\n  ROOT r = f32[8] custom-call(p), custom_call_target=\"PadToStatic\"\n",
    "  p = f32[<=8] parameter(0)\n  ROOT r = (f32[8], f32[]) custom-call(p), custom_call_target=\"PadToStatic\"\n",
    "  p = f32[?] parameter(0)\n  ROOT r = f32[?] negate(p)\n",
    "  p = f32[<=4294967296] parameter(0)\n  ROOT r = f32[<=4294967296] negate(p)\n",
    "  t = token[] after-all()\n  i = (f32[<=4], token[]) infeed(t)\n"
    "  ROOT r = f32[<=4] get-tuple-element(i), index=0\n",
};

CaseList(dynamic_padder, misfits_are_errors) {
    return cases_numbered(HLO_COUNT_OF(kMisfits));
}

CaseTest(const int *index, dynamic_padder, misfits_are_errors) {
    HloText text = {0};
    hlo_text_format(&text, "HloModule m\nENTRY e {\n%s}\n", kMisfits[*index]);
    HloModule *module = check_parse(text.data);
    HloStatus status = pad(module);
    const HloCode code = hlo_status_code(status);
    cr_expect(code == HLO_INVALID_ARGUMENT || code == HLO_UNIMPLEMENTED, "%s", kMisfits[*index]);
    cr_expect(status && strchr(hlo_status_message(status), '%'), "no instruction is named");
    hlo_status_free(status);
    hlo_text_free(&text);
    hlo_module_free(module);
}
