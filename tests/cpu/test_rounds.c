// SPDX-License-Identifier: Apache-2.0
// Loops of short iterations, which the engine compiles to machine code where it can: every operation and conversion
// that has instructions of its own, at the ends of its types, gives the evaluator's result, in arrays that become
// values and in longer ones that do not, also with any other operations between them.
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "targets/cpu/jit/emit.h"
#include "targets/cpu/jit/internal.h"
#include "targets/cpu/run/internal.h"
#include "tests/support/cases.h"
#include "tests/support/compiled.h"

enum { kRounds = 40 };

static void expect_equal(const char *text, bool extremes, int threads) {
    HloText message = {0};
    HloModule *module = compiled_must_parse(text);
    const CompiledCheck check = {.threads = threads, .seed = 5, .extremes = extremes, .tolerance = 1e-5};
    cr_expect(compiled_equals_eval(module, &check, &message), "%s\n%s", message.data, text);
    hlo_text_free(&message);
    hlo_module_free(module);
}

// A loop whose iteration `i` has row i of each parameter as x, y and z and makes row i of the result of r.
static void write_loop(HloText *text, const char *const *types, int operands, const char *result, int n,
                       const char *body) {
    HloText state = {0};
    hlo_text_format(&state, "(s32[], %s[%d,%d]", result, kRounds, n);
    for (int k = 0; k < operands; k++) hlo_text_format(&state, ", %s[%d,%d]", types[k], kRounds, n);
    hlo_text_string(&state, ")");
    hlo_text_format(text,
                    "HloModule m\nc {\n  s = %s parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n"
                    "  k = s32[] constant(%d)\n  ROOT l = pred[] compare(i, k), direction=LT\n}\nb {\n"
                    "  s = %s parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n"
                    "  out = %s[%d,%d] get-tuple-element(s), index=1\n  zero = s32[] constant(0)\n",
                    state.data, kRounds, state.data, result, kRounds, n);
    for (int k = 0; k < operands; k++) {
        const char name = "xyz"[k];
        hlo_text_format(text,
                        "  a%c = %s[%d,%d] get-tuple-element(s), index=%d\n"
                        "  s%c = %s[1,%d] dynamic-slice(a%c, i, zero), dynamic_slice_sizes={1,%d}\n"
                        "  %c = %s[%d] reshape(s%c)\n",
                        name, types[k], kRounds, n, k + 2, name, types[k], n, name, n, name, types[k], n, name);
    }
    hlo_text_format(text,
                    "%s  row = %s[1,%d] reshape(r)\n"
                    "  new = %s[%d,%d] dynamic-update-slice(out, row, i, zero)\n  one = s32[] constant(1)\n"
                    "  next = s32[] add(i, one)\n  ROOT t = %s tuple(next, new",
                    body, result, n, result, kRounds, n, state.data);
    for (int k = 0; k < operands; k++) hlo_text_format(text, ", a%c", "xyz"[k]);
    hlo_text_format(text, ")\n}\nENTRY e {\n  i = s32[] constant(0)\n  out = %s[%d,%d] parameter(0)\n", result, kRounds,
                    n);
    for (int k = 0; k < operands; k++)
        hlo_text_format(text, "  a%c = %s[%d,%d] parameter(%d)\n", "xyz"[k], types[k], kRounds, n, k + 1);
    hlo_text_format(text, "  s = %s tuple(i, out", state.data);
    for (int k = 0; k < operands; k++) hlo_text_format(text, ", a%c", "xyz"[k]);
    hlo_text_format(text,
                    ")\n  w = %s while(s), condition=c, body=b\n"
                    "  ROOT r = %s[%d,%d] get-tuple-element(w), index=1\n}\n",
                    state.data, result, kRounds, n);
    hlo_text_free(&state);
}

static void check_body(const char *const *types, int operands, const char *result, const char *body) {
    static const int lengths[] = {1, 3, 4, 5};
    for (size_t i = 0; i < HLO_COUNT_OF(lengths); i++) {
        HloText text = {0}, line = {0};
        // "$" is replaced by the length.
        for (const char *at = body; *at; at++) {
            if (*at == '$')
                hlo_text_format(&line, "%d", lengths[i]);
            else
                hlo_text_char(&line, *at);
        }
        write_loop(&text, types, operands, result, lengths[i], line.data);
        expect_equal(text.data, true, 1);
        hlo_text_free(&text);
        hlo_text_free(&line);
    }
}

static const char *const kTypes[] = {"pred", "s8",  "s16",  "s32", "s64", "u8", "u16",
                                     "u32",  "u64", "bf16", "f16", "f32", "f64"};

typedef struct Operation {
    char name[32], attributes[24];
    int operands;
    bool whole, real;  // for integers, for floats
    bool compares, selects;
} Operation;

CaseList(cpu_rounds, operations) {
    static const Operation all[] = {
        {"add", "", 2, true, true, false, false},
        {"subtract", "", 2, true, true, false, false},
        {"multiply", "", 2, true, true, false, false},
        {"divide", "", 2, true, true, false, false},
        {"maximum", "", 2, true, true, false, false},
        {"minimum", "", 2, true, true, false, false},
        {"clamp", "", 3, true, true, false, false},
        {"negate", "", 1, true, true, false, false},
        {"abs", "", 1, true, true, false, false},
        {"sqrt", "", 1, false, true, false, false},
        {"floor", "", 1, false, true, false, false},
        {"ceil", "", 1, false, true, false, false},
        {"round-nearest-even", "", 1, false, true, false, false},
        {"is-finite", "", 1, false, true, true, false},
        {"and", "", 2, true, false, false, false},
        {"or", "", 2, true, false, false, false},
        {"xor", "", 2, true, false, false, false},
        {"not", "", 1, true, false, false, false},
        {"shift-left", "", 2, true, false, false, false},
        {"shift-right-logical", "", 2, true, false, false, false},
        {"shift-right-arithmetic", "", 2, true, false, false, false},
        {"compare", ", direction=EQ", 2, true, true, true, false},
        {"compare", ", direction=NE", 2, true, true, true, false},
        {"compare", ", direction=LT", 2, true, true, true, false},
        {"compare", ", direction=LE", 2, true, true, true, false},
        {"compare", ", direction=GT", 2, true, true, true, false},
        {"compare", ", direction=GE", 2, true, true, true, false},
        {"select", "", 3, true, true, false, true},
    };
    Operation *cases = cr_malloc(sizeof all);
    memcpy(cases, all, sizeof all);
    return cr_make_param_array(Operation, cases, HLO_COUNT_OF(all));
}

static bool is_real(const char *type) {
    return type[0] == 'f' || type[0] == 'b';
}

// Predicates are not numbers, but may be compared, selected and joined.
static bool has(const Operation *op, const char *type) {
    if (is_real(type)) return op->real;
    if (!strcmp(type, "pred"))
        return op->whole && (!op->real || op->compares || op->selects || !strncmp(op->name, "m", 1)) &&
               strncmp(op->name, "shift", 5) != 0;
    return op->whole && !(type[0] == 'u' && !strcmp(op->name, "abs"));
}

CaseTest(Operation *op, cpu_rounds, operations) {
    for (size_t t = 0; t < HLO_COUNT_OF(kTypes); t++) {
        if (!has(op, kTypes[t])) continue;
        const char *result = op->compares ? "pred" : kTypes[t];
        const char *types[3] = {op->selects ? "pred" : kTypes[t], kTypes[t], kTypes[t]};
        HloText body = {0};
        hlo_text_format(&body, "  r = %s[$] %s(x%s%s)%s\n", result, op->name, op->operands > 1 ? ", y" : "",
                        op->operands > 2 ? ", z" : "", op->attributes);
        check_body(types, op->operands, result, body.data);
        hlo_text_free(&body);
    }
}

Test(cpu_rounds, conversions) {
    for (size_t from = 0; from < HLO_COUNT_OF(kTypes); from++)
        for (size_t to = 0; to < HLO_COUNT_OF(kTypes); to++) {
            if (from == to) continue;
            HloText body = {0};
            hlo_text_format(&body, "  r = %s[$] convert(x)\n", kTypes[to]);
            check_body(&kTypes[from], 1, kTypes[to], body.data);
            hlo_text_free(&body);
        }
}

// What loops join to one kernel, predicates on their way, and the same value computed twice.
Test(cpu_rounds, several_operations) {
    static const struct {
        const char *type, *result, *body;
    } bodies[] = {
        {"u32", "u32",
         "  c13 = u32[] constant(13)\n  l = u32[$] broadcast(c13), dimensions={}\n  c19 = u32[] constant(19)\n"
         "  h = u32[$] broadcast(c19), dimensions={}\n  a = u32[$] shift-left(x, l)\n"
         "  b = u32[$] shift-right-logical(x, h)\n  o = u32[$] or(a, b)\n  w = u32[$] xor(o, y)\n"
         "  r = u32[$] add(w, o)\n"},
        {"f32", "f32",
         "  a = f32[$] multiply(x, y)\n  b = f32[$] add(a, z)\n  c = f32[$] subtract(z, a)\n"
         "  d = f32[$] multiply(b, c)\n  f = f32[$] subtract(a, d)\n  g = f32[$] multiply(x, y)\n"
         "  r = f32[$] add(f, g)\n"},
        {"f64", "f64",
         "  a = pred[$] compare(x, y), direction=LT\n  b = pred[$] compare(y, z), direction=GE\n"
         "  c = pred[$] xor(a, b)\n  d = pred[$] not(c)\n  f = f64[$] select(d, x, z)\n"
         "  g = f64[$] convert(a)\n  r = f64[$] add(f, g)\n"},
        {"f32", "s32",
         "  a = pred[$] is-finite(x)\n  b = pred[$] compare(x, y), direction=EQ\n  d = pred[$] or(a, b)\n"
         "  f = pred[$] select(d, b, a)\n  g = s32[$] convert(f)\n  h = s32[$] convert(z)\n"
         "  r = s32[$] subtract(h, g)\n"},
        {"f32", "f32",
         "  a = f32[$] exponential(x)\n  b = f32[$] add(a, y)\n  c = f32[$] tanh(b)\n  r = f32[$] multiply(c, z)\n"},
    };
    for (size_t i = 0; i < HLO_COUNT_OF(bodies); i++) {
        const char *types[3] = {bodies[i].type, bodies[i].type, bodies[i].type};
        HloText body = {0}, text = {0};
        for (int n = 1; n <= 5; n++) {
            body.length = text.length = 0;
            for (const char *at = bodies[i].body; *at; at++) {
                if (*at == '$')
                    hlo_text_format(&body, "%d", n);
                else
                    hlo_text_char(&body, *at);
            }
            write_loop(&text, types, 3, bodies[i].result, n, body.data);
            expect_equal(text.data, false, n % 2 ? 1 : 3);
        }
        hlo_text_free(&body);
        hlo_text_free(&text);
    }
}

// Rows of every length that becomes values and of some that do not, of one and of several.
Test(cpu_rounds, reductions) {
    static const char *const combiners[] = {"add", "multiply", "maximum", "minimum", "and", "or", "xor"};
    static const char *const types[] = {"f32", "f64", "s32", "u32", "pred"};
    for (size_t c = 0; c < HLO_COUNT_OF(combiners); c++)
        for (size_t t = 0; t < HLO_COUNT_OF(types); t++)
            for (int rows = 1; rows <= 2; rows++)
                for (int n = 1; n <= 10; n++) {
                    const char *type = types[t];
                    const bool is_bits = c >= 4, is_pred = !strcmp(type, "pred");
                    if ((is_bits && is_real(type)) || (is_pred && !is_bits)) continue;
                    HloText text = {0};
                    hlo_text_format(&text,
                                    "HloModule m\nf {\n  a = %s[] parameter(0)\n  b = %s[] parameter(1)\n"
                                    "  ROOT r = %s[] %s(a, b)\n}\n"
                                    "c {\n  s = (s32[], %s[%d,%d], %s[%d]) parameter(0)\n"
                                    "  i = s32[] get-tuple-element(s), index=0\n  k = s32[] constant(40)\n"
                                    "  ROOT l = pred[] compare(i, k), direction=LT\n}\n",
                                    type, type, type, combiners[c], type, rows, n, type, rows);
                    hlo_text_format(&text,
                                    "b {\n  s = (s32[], %s[%d,%d], %s[%d]) parameter(0)\n"
                                    "  i = s32[] get-tuple-element(s), index=0\n"
                                    "  x = %s[%d,%d] get-tuple-element(s), index=1\n"
                                    "  y = %s[%d] get-tuple-element(s), index=2\n  z = %s[] constant(%s)\n"
                                    "  d = %s[%d] reduce(x, z), dimensions={1}, to_apply=f\n"
                                    "  w = %s[%d,%d] broadcast(y), dimensions={0}\n"
                                    "  v = %s[%d,%d] %s(x, w)\n  one = s32[] constant(1)\n"
                                    "  j = s32[] add(i, one)\n"
                                    "  ROOT t = (s32[], %s[%d,%d], %s[%d]) tuple(j, v, d)\n}\n",
                                    type, rows, n, type, rows, type, rows, n, type, rows, type, is_pred ? "false" : "1",
                                    type, rows, type, rows, n, type, rows, n, is_bits ? "xor" : "minimum", type, rows,
                                    n, type, rows);
                    hlo_text_format(&text,
                                    "ENTRY e {\n  i = s32[] constant(0)\n  x = %s[%d,%d] parameter(0)\n"
                                    "  y = %s[%d] parameter(1)\n"
                                    "  s = (s32[], %s[%d,%d], %s[%d]) tuple(i, x, y)\n"
                                    "  ROOT w = (s32[], %s[%d,%d], %s[%d]) while(s), condition=c, body=b\n}\n",
                                    type, rows, n, type, rows, type, rows, n, type, rows, type, rows, n, type, rows);
                    expect_equal(text.data, is_bits || c == 2 || c == 3, 1);
                    hlo_text_free(&text);
                }
}

// A product in a loop and the same one outside, compared bit by bit: r is the difference.
static void write_product(HloText *text, bool is_double, int n, int k, bool by_columns, bool vector_first) {
    const char *type = is_double ? "f64" : "f32", *bits = is_double ? "u64" : "u32";
    HloText a = {0}, dot = {0};
    hlo_text_format(&a, "%s[%d,%d]", type, by_columns ? k : n, by_columns ? n : k);
    hlo_text_format(&dot,
                    vector_first ? "dot(v, a), lhs_contracting_dims={0}, rhs_contracting_dims={%d}"
                                 : "dot(a, v), lhs_contracting_dims={%d}, rhs_contracting_dims={0}",
                    by_columns ? 0 : 1);
    hlo_text_format(text,
                    "HloModule m\nc {\n  s = (s32[], %s, %s[40,%d], %s[40,%d]) parameter(0)\n"
                    "  i = s32[] get-tuple-element(s), index=0\n  h = s32[] constant(40)\n"
                    "  ROOT l = pred[] compare(i, h), direction=LT\n}\nb {\n"
                    "  s = (s32[], %s, %s[40,%d], %s[40,%d]) parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n"
                    "  a = %s get-tuple-element(s), index=1\n  x = %s[40,%d] get-tuple-element(s), index=2\n"
                    "  y = %s[40,%d] get-tuple-element(s), index=3\n  zero = s32[] constant(0)\n",
                    a.data, type, k, type, n, a.data, type, k, type, n, a.data, type, k, type, n);
    hlo_text_format(text,
                    "  w = %s[1,%d] dynamic-slice(x, i, zero), dynamic_slice_sizes={1,%d}\n  v = %s[%d] reshape(w)\n"
                    "  d = %s[%d] %s\n  e = %s[1,%d] reshape(d)\n"
                    "  z = %s[40,%d] dynamic-update-slice(y, e, i, zero)\n  one = s32[] constant(1)\n"
                    "  j = s32[] add(i, one)\n  ROOT t = (s32[], %s, %s[40,%d], %s[40,%d]) tuple(j, a, x, z)\n}\n",
                    type, k, k, type, k, type, n, dot.data, type, n, type, n, a.data, type, k, type, n);
    hlo_text_format(text,
                    "ENTRY e {\n  i = s32[] constant(0)\n  a = %s parameter(0)\n  x = %s[40,%d] parameter(1)\n"
                    "  y = %s[40,%d] parameter(2)\n  s = (s32[], %s, %s[40,%d], %s[40,%d]) tuple(i, a, x, y)\n"
                    "  w = (s32[], %s, %s[40,%d], %s[40,%d]) while(s), condition=c, body=b\n"
                    "  z = %s[40,%d] get-tuple-element(w), index=3\n  row = %s[1,%d] slice(z), slice={[7:8],[0:%d]}\n"
                    "  d = %s[%d] reshape(row)\n",
                    a.data, type, k, type, n, a.data, type, k, type, n, a.data, type, k, type, n, type, n, type, n, n,
                    type, n);
    hlo_text_format(text,
                    "  u = %s[1,%d] slice(x), slice={[7:8],[0:%d]}\n  v = %s[%d] reshape(u)\n  f = %s[%d] %s\n"
                    "  g = %s[%d] bitcast-convert(d)\n  h = %s[%d] bitcast-convert(f)\n  r = %s[%d] xor(g, h)\n"
                    "  ROOT t = (%s[%d], %s[40,%d]) tuple(r, z)\n}\n",
                    type, k, k, type, k, type, n, dot.data, bits, n, bits, n, bits, n, bits, n, type, n);
    hlo_text_free(&a);
    hlo_text_free(&dot);
}

Test(cpu_rounds, small_products) {
    for (int form = 0; form < 8; form++)
        for (int n = 1; n <= 9; n++)
            for (int k = 1; k <= 10; k++) {
                HloText text = {0};
                write_product(&text, form & 1, n, k, form & 2, form & 4);
                expect_equal(text.data, false, 1);
                hlo_text_free(&text);
            }
}

// More values at once than there are registers, with a called function in the middle.
static void write_many_values(HloText *text, int count, const char *between) {
    hlo_text_format(text,
                    "HloModule m\nc {\n  s = (s32[], f32[%d]) parameter(0)\n"
                    "  i = s32[] get-tuple-element(s), index=0\n  k = s32[] constant(40)\n"
                    "  ROOT l = pred[] compare(i, k), direction=LT\n}\nb {\n  s = (s32[], f32[%d]) parameter(0)\n"
                    "  i = s32[] get-tuple-element(s), index=0\n  x = f32[%d] get-tuple-element(s), index=1\n",
                    count, count, count);
    for (int k = 0; k < count; k++)
        hlo_text_format(text,
                        "  e_%d = f32[1] slice(x), slice={[%d:%d]}\n  v_%d = f32[] reshape(e_%d)\n"
                        "  k_%d = f32[] constant(0.%d)\n  m_%d = f32[] multiply(v_%d, k_%d)\n",
                        k, k, k + 1, k, k, k, k + 3, k, k, k);
    for (int k = 0; k < count; k++) hlo_text_format(text, "  a_%d = f32[] add(m_%d, m_%d)\n", k, k, count - 1 - k);
    hlo_text_format(text, "  t_0 = f32[] %s(a_0)\n", between);
    for (int k = 1; k < count; k++) hlo_text_format(text, "  t_%d = f32[] subtract(a_%d, t_%d)\n", k, k, k - 1);
    for (int k = 0; k < count; k++)
        hlo_text_format(text, "  p_%d = f32[] multiply(t_%d, m_%d)\n  r_%d = f32[1] reshape(p_%d)\n", k, count - 1 - k,
                        k, k, k);
    hlo_text_format(text, "  n = f32[%d] concatenate(", count);
    for (int k = 0; k < count; k++) hlo_text_format(text, "%sr_%d", k ? ", " : "", k);
    hlo_text_format(text,
                    "), dimensions={0}\n  one = s32[] constant(1)\n  j = s32[] add(i, one)\n"
                    "  ROOT t = (s32[], f32[%d]) tuple(j, n)\n}\nENTRY e {\n  i = s32[] constant(0)\n"
                    "  x = f32[%d] parameter(0)\n  s = (s32[], f32[%d]) tuple(i, x)\n"
                    "  ROOT w = (s32[], f32[%d]) while(s), condition=c, body=b\n}\n",
                    count, count, count, count);
}

Test(cpu_rounds, more_values_than_registers) {
    static const int counts[] = {3, 12, 13, 14, 40, 120, 400};
    for (size_t i = 0; i < HLO_COUNT_OF(counts); i++)
        for (int calls = 0; calls < 2; calls++) {
            HloText text = {0};
            write_many_values(&text, counts[i], calls ? "tanh" : "negate");
            expect_equal(text.data, false, 1);
            hlo_text_free(&text);
        }
}

// The positions of slices by indices of every type, also beyond both ends of the array.
Test(cpu_rounds, indices_of_every_type) {
    static const char *const types[] = {"s8", "s16", "s32", "s64", "u8", "u16", "u32", "u64"};
    for (size_t t = 0; t < HLO_COUNT_OF(types); t++)
        for (int extremes = 0; extremes < 2; extremes++) {
            const char *type = types[t];
            HloText text = {0};
            hlo_text_format(
                &text,
                "HloModule m\nc {\n  s = (s32[], %s[40,2], f32[7,9], f32[2,3]) parameter(0)\n"
                "  i = s32[] get-tuple-element(s), index=0\n  k = s32[] constant(40)\n"
                "  ROOT l = pred[] compare(i, k), direction=LT\n}\n"
                "b {\n  s = (s32[], %s[40,2], f32[7,9], f32[2,3]) parameter(0)\n"
                "  i = s32[] get-tuple-element(s), index=0\n"
                "  p = %s[40,2] get-tuple-element(s), index=1\n"
                "  x = f32[7,9] get-tuple-element(s), index=2\n"
                "  y = f32[2,3] get-tuple-element(s), index=3\n  zero = s32[] constant(0)\n"
                "  row = %s[1,2] dynamic-slice(p, i, zero), dynamic_slice_sizes={1,2}\n"
                "  f = %s[1,1] slice(row), slice={[0:1],[0:1]}\n  g = %s[1,1] slice(row), slice={[0:1],[1:2]}\n"
                "  u = %s[] reshape(f)\n  v = %s[] reshape(g)\n"
                "  d = f32[2,3] dynamic-slice(x, u, v), dynamic_slice_sizes={2,3}\n"
                "  a = f32[2,3] add(d, y)\n  z = f32[7,9] dynamic-update-slice(x, a, v, u)\n",
                type, type, type, type, type, type, type, type);
            hlo_text_format(&text,
                            "  one = s32[] constant(1)\n  j = s32[] add(i, one)\n"
                            "  ROOT t = (s32[], %s[40,2], f32[7,9], f32[2,3]) tuple(j, p, z, y)\n}\n"
                            "ENTRY e {\n  i = s32[] constant(0)\n  p = %s[40,2] parameter(0)\n"
                            "  x = f32[7,9] parameter(1)\n  y = f32[2,3] parameter(2)\n"
                            "  s = (s32[], %s[40,2], f32[7,9], f32[2,3]) tuple(i, p, x, y)\n"
                            "  ROOT w = (s32[], %s[40,2], f32[7,9], f32[2,3]) while(s), condition=c, body=b\n}\n",
                            type, type, type, type);
            expect_equal(text.data, extremes, 1);
            hlo_text_free(&text);
        }
}

// ---- whether there is code

static const CpuThunk *find_loop(const CpuThunkList *list) {
    for (int64_t i = 0; i < list->count; i++)
        if (list->thunks[i].program) return &list->thunks[i];
    return NULL;
}

static bool has_code(const char *text, CpuFeatures features) {
    HloModule *module = compiled_must_parse(text);
    const CpuCompileOptions options = {.replica_count = 1, .partition_count = 1, .features = features};
    CpuExecutable *executable;
    must_succeed(cpu_compile(module, &options, &executable));
    const CpuThunk *loop = find_loop(&executable->entry);
    cr_assert_not_null(loop);
    const bool found = loop->program->code != NULL;
    cpu_executable_free(executable);
    hlo_module_free(module);
    return found;
}

// The instruction set that programs are compiled for decides, not the machine.
Test(cpu_rounds, code_is_there_where_instructions_are) {
    HloText text = {0};
    write_many_values(&text, 40, "tanh");
    cr_expect_not(has_code(text.data, CPU_FEATURES_BASELINE));
    if (cpu_features_detect() >= CPU_FEATURES_AVX2) cr_expect(has_code(text.data, CPU_FEATURES_AVX2));
    hlo_text_free(&text);
}

// Processors that track indirect branches accept only ENDBR64 as the target of a call through a pointer.
Test(cpu_rounds, code_begins_with_a_landing_pad) {
    CpuJitEmitter emitter = {.x86.arena = hlo_arena_new()};
    cpu_jit_emit_begin(&emitter);
    cr_assert_geq(emitter.x86.bytes.count, 4);
    cr_expect_arr_eq(emitter.x86.bytes.items, "\xf3\x0f\x1e\xfa", 4);
    hlo_arena_free(emitter.x86.arena);
}

// ---- loops without code

// Branches of a predicate and of an index, and values that move from iteration to iteration.
static const char kBranches[] =
    "HloModule m\nminus {\n  a = f32[3] parameter(0)\n  ROOT r = f32[3] negate(a)\n}\n"
    "twice {\n  a = f32[3] parameter(0)\n  ROOT r = f32[3] add(a, a)\n}\n"
    "half {\n  a = f32[3] parameter(0)\n  k = f32[] constant(0.5)\n  l = f32[3] broadcast(k), dimensions={}\n"
    "  ROOT r = f32[3] multiply(a, l)\n}\n"
    "c {\n  s = (s32[], f32[3], f32[9,3]) parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n"
    "  k = s32[] constant(9)\n  ROOT l = pred[] compare(i, k), direction=LT\n}\n"
    "b {\n  s = (s32[], f32[3], f32[9,3]) parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n"
    "  x = f32[3] get-tuple-element(s), index=1\n  all = f32[9,3] get-tuple-element(s), index=2\n"
    "  four = s32[] constant(4)\n  p = pred[] compare(i, four), direction=LT\n"
    "  y = f32[3] conditional(p, x, x), true_computation=minus, false_computation=twice\n"
    "  z = f32[3] conditional(i, y, y, y), branch_computations={twice, minus, half}\n"
    "  row = f32[1,3] reshape(z)\n  zero = s32[] constant(0)\n"
    "  new = f32[9,3] dynamic-update-slice(all, row, i, zero)\n  one = s32[] constant(1)\n  j = s32[] add(i, one)\n"
    "  ROOT t = (s32[], f32[3], f32[9,3]) tuple(j, z, new)\n}\n"
    "ENTRY e {\n  i = s32[] constant(0)\n  x = f32[3] parameter(0)\n  all = f32[9,3] parameter(1)\n"
    "  s = (s32[], f32[3], f32[9,3]) tuple(i, x, all)\n"
    "  ROOT w = (s32[], f32[3], f32[9,3]) while(s), condition=c, body=b\n}\n";

static void check_loops(void) {
    static const char *const floats[] = {"f32", "f32"};
    static const int counts[] = {3, 40, 120};
    expect_equal(kBranches, false, 1);
    check_body(floats, 2, "f32", "  sum = f32[$] add(x, y)\n  r = f32[$] maximum(sum, x)\n");
    for (size_t i = 0; i < HLO_COUNT_OF(counts); i++) {
        HloText text = {0};
        write_many_values(&text, counts[i], "tanh");
        expect_equal(text.data, false, 1);
        hlo_text_free(&text);
    }
}

// Loops of the least instruction set have kernels, but no code.
Test(cpu_rounds, loops_of_the_baseline) {
    setenv("MESHLO_CPU_FEATURES", "baseline", 1);
    check_loops();
}

// Hardened systems do not let memory that was written become code (prctl of Linux 6.3; before it this changes nothing).
Test(cpu_rounds, loops_where_no_code_may_be_made) {
    enum { SET_MDWE = 65, REFUSE_EXEC_GAIN = 1 };
    (void)prctl(SET_MDWE, REFUSE_EXEC_GAIN, 0, 0, 0);
    check_loops();
}

// A loop of more calls than fit on the stack, short of memory.
Test(cpu_rounds, loops_without_memory) {
    HloText text = {0};
    TargetClient *client = NULL;
    TargetBuffer *argument = NULL;
    setenv("MESHLO_CPU_FEATURES", "baseline", 1);
    must_succeed(target_client_new_with_threads("cpu:1", 1, &client));
    write_many_values(&text, 12, "negate");
    TargetExecutable *executable = compiled_must_compile(client, text.data, NULL);
    HloLiteral *literal = compiled_random(target_executable_argument_shape(executable, 0), 1);
    must_succeed(
        target_buffer_from_literal(literal, target_device_default_memory(target_client_device(client, 0)), &argument));
    int64_t countdown = 0;
    for (bool enough = false; !enough; countdown++) {
        TargetBuffer *results[2] = {0}, *const list[1] = {argument};
        TargetBuffer *const *const lists[1] = {list};
        TargetBuffer **const result_lists[1] = {results};
        cr_assert_lt(countdown, 1000);
        hlo_allocation_fail_after(countdown);
        HloStatus status =
            target_execute(executable, &(TargetExecuteOptions){.synchronous = true}, lists, 1, result_lists, NULL);
        hlo_allocation_fail_after(-1);
        enough = !status;
        cr_assert(enough || hlo_status_code(status) == HLO_RESOURCE_EXHAUSTED, "%s", hlo_status_message(status));
        hlo_status_free(status);
        target_buffer_release(results[0]);
        target_buffer_release(results[1]);
    }
    cr_expect_gt(countdown, 5);
    hlo_literal_free(literal);
    target_buffer_release(argument);
    target_executable_release(executable);
    target_client_release(client);
    hlo_text_free(&text);
}
