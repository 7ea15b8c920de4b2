// SPDX-License-Identifier: Apache-2.0
// Attention by bands of rows (lower/bands.h) has the bits of the separate steps, at every instruction set, and needs no
// matrix of scores. The separate steps are those of the same program whose matrices are results too. The evaluator is
// the oracle of both.
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/cases.h"
#include "tests/support/compiled.h"

typedef struct AttentionCase {
    HloType type;
    int64_t batch, heads, queries, keys, depth, width;  // the width is that of the values
    bool heads_inside;                                  // [batch, row, head, depth], as in JAX; else heads before rows
    bool masked;                                        // no query sees later keys; the first rows see none at all
    bool fused;
} AttentionCase;

static const AttentionCase kAttention[] = {
    {HLO_F32, 2, 3, 300, 300, 40, 40, false, true, true},  {HLO_F32, 2, 3, 300, 300, 40, 40, true, true, true},
    {HLO_F32, 1, 4, 257, 513, 17, 33, false, false, true}, {HLO_F32, 1, 4, 257, 513, 17, 33, true, true, true},
    {HLO_F32, 1, 1, 600, 1030, 64, 64, false, true, true}, {HLO_F32, 3, 1, 131, 1500, 7, 9, true, false, true},
    {HLO_BF16, 2, 3, 300, 300, 40, 40, false, true, true}, {HLO_BF16, 2, 2, 401, 419, 24, 5, true, true, true},
    {HLO_F16, 2, 2, 401, 419, 24, 5, true, false, true},   {HLO_F64, 1, 2, 300, 400, 20, 20, false, true, false},
    {HLO_F32, 1, 2, 900, 700, 1, 3, false, true, true},    {HLO_F32, 2, 64, 1, 4000, 16, 16, false, false, false},
    {HLO_F32, 70, 70, 9, 21, 16, 16, false, true, false},  {HLO_F32, 2, 3, 300, 300, 40, 1, false, false, false},
};

// Appends the module up to the result of attention, %o: [batch, head, row, width] or [batch, row, head, width].
static void append_attention(HloText *text, const AttentionCase *c) {
    const char *type = hlo_type_text(c->type), *sum = c->type == HLO_F64 ? "f64" : "f32";
    const long long b = c->batch, h = c->heads, t = c->queries, s = c->keys, d = c->depth, w = c->width;
    char scores[64];
    snprintf(scores, sizeof scores, "[%lld,%lld,%lld,%lld]", b, h, t, s);
    hlo_text_format(text,
                    "HloModule m\nadd { a = %s[] parameter(0)  b = %s[] parameter(1)  ROOT r = %s[] add(a, b) }\n"
                    "max { a = %s[] parameter(0)  b = %s[] parameter(1)  ROOT r = %s[] maximum(a, b) }\nENTRY e {\n",
                    sum, sum, sum, sum, sum, sum);
    if (c->heads_inside)
        hlo_text_format(text,
                        " q = %s[%lld,%lld,%lld,%lld] parameter(0)\n k = %s[%lld,%lld,%lld,%lld] parameter(1)\n"
                        " v = %s[%lld,%lld,%lld,%lld] parameter(2)\n s = %s%s dot(q, k), lhs_batch_dims={0,2}, "
                        "rhs_batch_dims={0,2}, lhs_contracting_dims={3}, rhs_contracting_dims={3}\n",
                        type, b, t, h, d, type, b, s, h, d, type, b, s, h, w, sum, scores);
    else
        hlo_text_format(text,
                        " q = %s[%lld,%lld,%lld,%lld] parameter(0)\n k = %s[%lld,%lld,%lld,%lld] parameter(1)\n"
                        " v = %s[%lld,%lld,%lld,%lld] parameter(2)\n s = %s%s dot(q, k), lhs_batch_dims={0,1}, "
                        "rhs_batch_dims={0,1}, lhs_contracting_dims={3}, rhs_contracting_dims={3}\n",
                        type, b, h, t, d, type, b, h, s, d, type, b, h, s, w, sum, scores);
    hlo_text_format(text,
                    " f = %s[] constant(0.3)\n fs = %s%s broadcast(f), dimensions={}\n x = %s%s multiply(s, fs)\n"
                    " low = %s[] constant(-inf)\n lows = %s%s broadcast(low), dimensions={}\n"
                    " i = s32%s iota(), iota_dimension=2\n j = s32%s iota(), iota_dimension=3\n"
                    " two = s32[] constant(%d)\n twos = s32%s broadcast(two), dimensions={}\n"
                    " ij = s32%s subtract(i, twos)\n see = pred%s compare(ij, j), direction=GE\n"
                    " y = %s%s select(see, x, lows)\n zero = %s[] constant(0)\n"
                    " m = %s[%lld,%lld,%lld] reduce(y, low), dimensions={3}, to_apply=max\n"
                    " ms = %s%s broadcast(m), dimensions={0,1,2}\n z = %s%s subtract(y, ms)\n"
                    " g = %s%s exponential(z)\n"
                    " l = %s[%lld,%lld,%lld] reduce(g, zero), dimensions={3}, to_apply=add\n"
                    " ls = %s%s broadcast(l), dimensions={0,1,2}\n p = %s%s divide(g, ls)\n"
                    " pc = %s%s convert(p)\n",
                    sum, sum, scores, sum, scores, sum, sum, scores, scores, scores, c->masked ? 2 : -(int)s, scores,
                    scores, scores, sum, scores, sum, sum, b, h, t, sum, scores, sum, scores, sum, scores, sum, b, h, t,
                    sum, scores, sum, scores, type, scores);
    if (c->heads_inside)
        hlo_text_format(text,
                        " n = %s[%lld,%lld,%lld,%lld] dot(v, pc), lhs_batch_dims={0,2}, rhs_batch_dims={0,1}, "
                        "lhs_contracting_dims={1}, rhs_contracting_dims={3}\n"
                        " o = %s[%lld,%lld,%lld,%lld] transpose(n), dimensions={0,3,1,2}\n",
                        type, b, h, w, t, type, b, t, h, w);
    else
        hlo_text_format(text,
                        " o = %s[%lld,%lld,%lld,%lld] dot(pc, v), lhs_batch_dims={0,1}, rhs_batch_dims={0,1}, "
                        "lhs_contracting_dims={3}, rhs_contracting_dims={2}\n",
                        type, b, h, t, w);
}

// Appends the gradients of the attention for that of its result, parameter 3.
static void append_gradients(HloText *text, const AttentionCase *c) {
    const char *type = hlo_type_text(c->type), *sum = c->type == HLO_F64 ? "f64" : "f32";
    const char *batch = c->heads_inside ? "0,2" : "0,1", *row = c->heads_inside ? "1" : "2";
    const long long b = c->batch, h = c->heads, t = c->queries, s = c->keys, d = c->depth, w = c->width;
    char scores[64];
    snprintf(scores, sizeof scores, "[%lld,%lld,%lld,%lld]", b, h, t, s);
    hlo_text_format(text, " go = %s[%lld,%lld,%lld,%lld] parameter(3)\n", type, b, c->heads_inside ? t : h,
                    c->heads_inside ? h : t, w);
    hlo_text_format(text,
                    " gv = f32[%lld,%lld,%lld,%lld] dot(pc, go), lhs_batch_dims={0,1}, rhs_batch_dims={%s}, "
                    "lhs_contracting_dims={2}, rhs_contracting_dims={%s}\n"
                    " gp = %s%s dot(go, v), lhs_batch_dims={%s}, rhs_batch_dims={%s}, lhs_contracting_dims={3}, "
                    "rhs_contracting_dims={3}\n"
                    " gx = %s%s multiply(gp, p)\n"
                    " gl = %s[%lld,%lld,%lld] reduce(gx, zero), dimensions={3}, to_apply=add\n"
                    " gls = %s%s broadcast(gl), dimensions={0,1,2}\n gd = %s%s subtract(gp, gls)\n"
                    " gs = %s%s multiply(gd, p)\n gf = %s%s multiply(gs, fs)\n gc = %s%s convert(gf)\n",
                    b, h, s, w, batch, row, sum, scores, batch, batch, sum, scores, sum, b, h, t, sum, scores, sum,
                    scores, sum, scores, sum, scores, type, scores);
    hlo_text_format(text,
                    " gq = %s[%lld,%lld,%lld,%lld] dot(gc, k), lhs_batch_dims={0,1}, rhs_batch_dims={%s}, "
                    "lhs_contracting_dims={3}, rhs_contracting_dims={%s}\n"
                    " gk = f32[%lld,%lld,%lld,%lld] dot(q, gc), lhs_batch_dims={%s}, rhs_batch_dims={0,1}, "
                    "lhs_contracting_dims={%s}, rhs_contracting_dims={2}\n",
                    type, b, h, t, d, batch, row, b, h, d, s, batch, row);
}

// Appends a program of attention and, with `gradient`, what it gives for the gradient of its result; with `whole`, its
// matrices are results too.
static void append_program(HloText *text, const AttentionCase *c, bool gradient, bool whole) {
    const char *type = hlo_type_text(c->type), *sum = c->type == HLO_F64 ? "f64" : "f32";
    const long long b = c->batch, h = c->heads, t = c->queries, s = c->keys, d = c->depth, w = c->width;
    append_attention(text, c);
    if (gradient) append_gradients(text, c);
    const long long rows = c->heads_inside ? t : h, inner = c->heads_inside ? h : t;
    hlo_text_format(text, " ROOT r = (%s[%lld,%lld,%lld,%lld]", type, b, rows, inner, w);
    if (gradient)
        hlo_text_format(text, ", %s[%lld,%lld,%lld,%lld], f32[%lld,%lld,%lld,%lld], f32[%lld,%lld,%lld,%lld]", type, b,
                        h, t, d, b, h, d, s, b, h, s, w);
    for (int i = 0; whole && i < (gradient ? 4 : 2); i++)
        hlo_text_format(text, ", %s[%lld,%lld,%lld,%lld]", i % 2 ? type : sum, b, h, t, s);
    hlo_text_format(text, ") tuple(o%s%s%s)\n}\n", gradient ? ", gq, gk, gv" : "", whole ? ", s, pc" : "",
                    whole && gradient ? ", gp, gc" : "");
}

// Compiles the program and returns its temporaries.
static int64_t temporaries_of(const char *program) {
    TargetClient *client;
    must_succeed(target_client_new("cpu:1", &client));
    TargetExecutable *executable = compiled_must_compile(client, program, NULL);
    TargetMemoryAnalysis analysis;
    target_executable_memory_analysis(executable, &analysis);
    target_executable_release(executable);
    target_client_release(client);
    return analysis.temporary_bytes;
}

// Runs the program; the caller frees the results.
static HloLiteral *run(const char *program, HloLiteral **arguments, int threads) {
    const CompiledCheck check = {.spec = "cpu:1", .threads = threads};
    HloModule *module = compiled_must_parse(program);
    HloText message = {0};
    HloLiteral *results;
    cr_assert(compiled_run_on_one(module, arguments, &check, &results, &message), "%s", message.data);
    hlo_text_free(&message);
    hlo_module_free(module);
    return results;
}

// Makes the arguments; with `strange`, a few elements of each are infinite, NaN, subnormal or large.
static void make_arguments(const char *program, bool strange, HloLiteral **arguments) {
    HloModule *module = compiled_must_parse(program);
    const double numbers[] = {NAN, INFINITY, -INFINITY, 1e-39, -0.0, 1e14};
    for (int64_t i = 0; i < module->entry->parameters.count; i++) {
        arguments[i] = compiled_random(module->entry->parameters.items[i]->shape, (uint64_t)(i + 1));
        const int64_t count = hlo_shape_elements(arguments[i]->shape);
        for (int64_t k = 0; strange && k < 6; k++)
            hlo_literal_set_double(arguments[i], (count / 7 * (k + 1) + 13 * i) % count, numbers[(k + i) % 6]);
    }
    hlo_module_free(module);
}

// The instruction sets that there may be; a machine that lacks one runs its best instead.
static const char *const kLevels[] = {
#define CPU_FEATURE(name, text, use) text,
#include "targets/cpu/host/features.def"
#undef CPU_FEATURE
};

// Compares all bits, except those of NaNs: of two NaNs, different code may pass on either.
static bool same_bits(const HloLiteral *have, const HloLiteral *want) {
    if (hlo_literal_equal(have, want)) return true;
    for (int64_t i = 0; i < hlo_shape_elements(want->shape); i++) {
        const double a = hlo_literal_get_double(have, i), b = hlo_literal_get_double(want, i);
        if (isnan(a) != isnan(b) || (!isnan(a) && (a != b || signbit(a) != signbit(b)))) return false;
    }
    return true;
}

// Compares the program with the one whose matrices are results, for ordinary and for strange arguments.
static void compare(const char *program, const char *whole, const char *level) {
    setenv("MESHLO_CPU_FEATURES", level, 1);
    for (int strange = 0; strange < 2; strange++) {
        HloLiteral *arguments[8];
        make_arguments(program, strange, arguments);
        HloLiteral *want = run(whole, arguments, 2);
        for (int threads = 1; threads <= 3; threads += 2) {
            HloLiteral *have = run(program, arguments, threads);
            for (int64_t i = 0; i < hlo_shape_leaf_count(have->shape); i++)
                cr_expect(same_bits(have->elements[i], want->elements[i]), "%s, %d threads, %s numbers, result %d:\n%s",
                          level, threads, strange ? "strange" : "ordinary", (int)i, program);
            hlo_literal_free(have);
        }
        hlo_literal_free(want);
        HloModule *module = compiled_must_parse(program);
        for (int64_t i = 0; i < module->entry->parameters.count; i++) hlo_literal_free(arguments[i]);
        hlo_module_free(module);
    }
}

// Holds a case to its oracle, at every instruction set, and its temporaries to `most` matrices of scores.
static void check_case(const AttentionCase *c, bool gradient, double most) {
    HloText program = {0}, whole = {0};
    append_program(&program, c, gradient, false);
    append_program(&whole, c, gradient, true);
    for (size_t level = 0; level < HLO_COUNT_OF(kLevels); level++) compare(program.data, whole.data, kLevels[level]);
    setenv("MESHLO_CPU_FEATURES", "", 1);
    const double matrix = (double)(c->batch * c->heads * c->queries * c->keys) * hlo_type_bytes(c->type);
    const double temporaries = (double)temporaries_of(program.data);
    cr_expect_eq(temporaries < most * matrix, c->fused, "%.0f bytes of temporaries, a matrix has %.0f:\n%s",
                 temporaries, matrix, program.data);
    hlo_text_free(&program);
    hlo_text_free(&whole);
}

CaseList(bands, attention) {
    return cases_numbered(HLO_COUNT_OF(kAttention));
}

CaseTest(const int *index, bands, attention) {
    check_case(&kAttention[*index], false, 0.125);
}

static const AttentionCase kGradients[] = {
    {HLO_F32, 2, 4, 300, 300, 40, 40, false, true, true}, {HLO_F32, 2, 4, 300, 300, 40, 40, true, true, true},
    {HLO_F32, 1, 8, 777, 213, 17, 33, true, false, true}, {HLO_F32, 1, 9, 1600, 130, 24, 24, false, true, true},
    {HLO_BF16, 1, 8, 1200, 119, 24, 9, true, true, true},
};

CaseList(bands, gradients) {
    return cases_numbered(HLO_COUNT_OF(kGradients));
}

CaseTest(const int *index, bands, gradients) {
    check_case(&kGradients[*index], true, 0.125);
}

// The smallest of the cases, since the evaluator is slow.
Test(bands, attention_equals_the_evaluator) {
    for (int i = 0; i < 2; i++) {
        const AttentionCase c = {i ? HLO_BF16 : HLO_F32, 1, 2, 200, 700, 8, 8, i > 0, false, true};
        HloText program = {0}, message = {0};
        append_program(&program, &c, true, false);
        HloModule *module = compiled_must_parse(program.data);
        const CompiledCheck check = {.seed = 3, .threads = 2};
        cr_expect(compiled_equals_eval(module, &check, &message), "%s", message.data);
        hlo_module_free(module);
        hlo_text_free(&program);
        hlo_text_free(&message);
    }
}

// Each band of a perceptron's rows packed both matrices of weights again: a transformer block took a fifth longer.
Test(bands, bug_layers_packed_their_weights_for_every_band) {
    const char *program =
        "HloModule m\nENTRY e {\n x = f32[512,384] parameter(0)\n w = f32[384,1536] parameter(1)\n"
        " u = f32[1536,384] parameter(2)\n"
        " h = f32[512,1536] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        " t = f32[512,1536] tanh(h)\n"
        " ROOT y = f32[512,384] dot(t, u), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}\n";
    cr_expect_geq(temporaries_of(program), 512 * 1536 * 4);
}

// The products of some bands, or of all rows, have a last tile of one row, which is a product of a vector: it was added
// up in another order than the same row in a tile of several.
Test(bands, bug_rows_of_the_last_tile_had_other_bits) {
    const AttentionCase cases[] = {{HLO_BF16, 3, 2, 65, 1447, 3, 17, false, false, true},
                                   {HLO_BF16, 1, 8, 129, 700, 3, 65, false, true, true},
                                   {HLO_F16, 1, 2, 257, 600, 40, 33, true, false, true}};
    for (size_t i = 0; i < HLO_COUNT_OF(cases); i++) {
        HloText program = {0}, whole = {0};
        append_program(&program, &cases[i], false, false);
        append_program(&whole, &cases[i], false, true);
        for (size_t level = 0; level < HLO_COUNT_OF(kLevels); level++)
            compare(program.data, whole.data, kLevels[level]);
        setenv("MESHLO_CPU_FEATURES", "", 1);
        hlo_text_free(&program);
        hlo_text_free(&whole);
    }
}

// %e joined the group of the first scores as a producer of %p, which also needs what the sort makes of %l: the sort ran
// before the group computed %l.
Test(bands, bug_a_producer_was_read_before_its_group_ran) {
    const char *program =
        "HloModule m\nmax { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] maximum(a, b) }\n"
        "less { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = pred[] compare(a, b), direction=LT }\n"
        "ENTRY f {\n q = f32[9000,8] parameter(0)\n k = f32[30,8] parameter(1)\n v = f32[30,8] parameter(2)\n"
        " x = f32[9000,8] parameter(3)\n y = f32[30,8] parameter(4)\n"
        " first = f32[9000,30] dot(q, k), lhs_contracting_dims={1}, rhs_contracting_dims={1}\n"
        " second = f32[9000,30] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={1}\n"
        " low = f32[] constant(-inf)\n l = f32[9000] reduce(second, low), dimensions={1}, to_apply=max\n"
        " ls = f32[9000,30] broadcast(l), dimensions={0}\n d = f32[9000,30] subtract(second, ls)\n"
        " e = f32[9000,30] tanh(d)\n s = f32[9000] sort(l), dimensions={0}, to_apply=less\n"
        " ss = f32[9000,30] broadcast(s), dimensions={0}\n g = f32[9000,30] add(e, first)\n"
        " p = f32[9000,30] add(g, ss)\n"
        " o = f32[9000,8] dot(p, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        " ROOT r = (f32[9000,8], f32[9000,30]) tuple(o, e)\n}\n";
    HloModule *module = compiled_must_parse(program);
    HloText message = {0};
    const CompiledCheck check = {.seed = 3, .threads = 2};
    cr_expect(compiled_equals_eval(module, &check, &message), "%s", message.data);
    hlo_module_free(module);
    hlo_text_free(&message);
}

// A group of products grew from each one through all that follow, though no kernel has so many arrays: 8,000 products
// in a chain, or in a sum, took more than half a minute to compile.
Test(bands, bug_long_chains_and_sums_of_products_took_cubic_time_to_compile) {
    enum { kCount = 8000 };
    HloText chain = {0}, sum = {0};
    hlo_text_format(&chain, "HloModule m\nENTRY e {\n x0 = f32[64,64] parameter(0)\n w = f32[64,64] parameter(1)\n");
    hlo_text_format(&sum, "HloModule m\nENTRY e {\n x = f32[64,64] parameter(0)\n z0 = f32[64,64] abs(x)\n");
    for (int i = 1; i <= kCount; i++) {
        hlo_text_format(&chain, " x%d = f32[64,64] dot(x%d, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n",
                        i, i - 1);
        hlo_text_format(&sum,
                        " w%d = f32[64,64] parameter(%d)\n"
                        " y%d = f32[64,64] dot(x, w%d), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
                        " z%d = f32[64,64] add(z%d, y%d)\n",
                        i, i, i, i, i, i - 1, i);
    }
    hlo_text_format(&chain, " ROOT r = f32[64,64] negate(x%d)\n}\n", kCount);
    hlo_text_format(&sum, " ROOT r = f32[64,64] negate(z%d)\n}\n", kCount);
    const int64_t matrix = 64 * 64 * 4;
    cr_expect_leq(temporaries_of(chain.data), 3 * matrix);
    cr_expect_leq(temporaries_of(sum.data), (kCount + 1) * matrix);
    hlo_text_free(&chain);
    hlo_text_free(&sum);
}
