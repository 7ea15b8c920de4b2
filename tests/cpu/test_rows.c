// SPDX-License-Identifier: Apache-2.0
// Loops over rows (softmax, layer norm and the like) of many lengths, around those where rows are divided into chunks:
// compiled == eval, and the same bits with one thread and with three.
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/cases.h"
#include "tests/support/compiled.h"

typedef struct Rows {
    int pattern;
    int rows, length;
} Rows;

// In the patterns, T is the element type, R and N are rows and their length.
typedef struct Pattern {
    const char *type;
    const char *entry;
} Pattern;

static const Pattern kPatterns[] = {
    // softmax
    {"f32",
     "x = T[R,N] parameter(0)  m = T[R] reduce(x, low), dimensions={1}, to_apply=max\n"
     " mb = T[R,N] broadcast(m), dimensions={0}  d = T[R,N] subtract(x, mb)  e = T[R,N] exponential(d)\n"
     " s = T[R] reduce(e, zero), dimensions={1}, to_apply=add  sb = T[R,N] broadcast(s), dimensions={0}\n"
     " ROOT r = T[R,N] divide(e, sb)"},
    // log-softmax
    {"f32",
     "x = T[R,N] parameter(0)  m = T[R] reduce(x, low), dimensions={1}, to_apply=max\n"
     " mb = T[R,N] broadcast(m), dimensions={0}  d = T[R,N] subtract(x, mb)  e = T[R,N] exponential(d)\n"
     " s = T[R] reduce(e, zero), dimensions={1}, to_apply=add  l = T[R] log(s)\n"
     " lb = T[R,N] broadcast(l), dimensions={0}  ROOT r = T[R,N] subtract(d, lb)"},
    // layer norm with a scale and a bias of the columns
    {"f32",
     "x = T[R,N] parameter(0)  a = T[N] parameter(1)  b = T[N] parameter(2)  n = T[] constant(N)\n"
     " nb = T[R] broadcast(n), dimensions={}  t = T[R] reduce(x, zero), dimensions={1}, to_apply=add\n"
     " mean = T[R] divide(t, nb)  mb = T[R,N] broadcast(mean), dimensions={0}  d = T[R,N] subtract(x, mb)\n"
     " q = T[R,N] multiply(d, d)  v = T[R] reduce(q, zero), dimensions={1}, to_apply=add\n"
     " w = T[R] divide(v, nb)  o = T[R] rsqrt(w)  ob = T[R,N] broadcast(o), dimensions={0}\n"
     " ab = T[R,N] broadcast(a), dimensions={1}  bb = T[R,N] broadcast(b), dimensions={1}\n"
     " y = T[R,N] multiply(d, ob)  z = T[R,N] multiply(y, ab)  ROOT r = T[R,N] add(z, bb)"},
    // one number per row is returned
    {"f32",
     "x = T[R,N] parameter(0)  m = T[R] reduce(x, low), dimensions={1}, to_apply=max\n"
     " mb = T[R,N] broadcast(m), dimensions={0}  d = T[R,N] subtract(x, mb)  e = T[R,N] exponential(d)\n"
     " s = T[R] reduce(e, zero), dimensions={1}, to_apply=add  l = T[R] log(s)  ROOT r = T[R] add(l, m)"},
    // four reductions, each of the result of the one before; the last reads the first values again
    {"f32",
     "x = T[R,N] parameter(0)  f = T[R,N] tanh(x)  m = T[R] reduce(f, low), dimensions={1}, to_apply=max\n"
     " mb = T[R,N] broadcast(m), dimensions={0}  d = T[R,N] subtract(f, mb)  g = T[R,N] multiply(d, x)\n"
     " s = T[R] reduce(g, zero), dimensions={1}, to_apply=add  sb = T[R,N] broadcast(s), dimensions={0}\n"
     " h = T[R,N] subtract(g, sb)  k = T[R] reduce(h, low), dimensions={1}, to_apply=max\n"
     " kb = T[R,N] broadcast(k), dimensions={0}  i = T[R,N] multiply(h, kb)  j = T[R,N] abs(i)\n"
     " u = T[R] reduce(j, low), dimensions={1}, to_apply=max  ub = T[R,N] broadcast(u), dimensions={0}\n"
     " p = T[R,N] divide(j, ub)  c = T[R,N] add(p, f)  ROOT r = T[R,N] multiply(c, x)"},
    // an operand that must be gathered from columns
    {"f32",
     "y = T[N,R] parameter(0)  x = T[R,N] transpose(y), dimensions={1,0}\n"
     " m = T[R] reduce(x, low), dimensions={1}, to_apply=max  mb = T[R,N] broadcast(m), dimensions={0}\n"
     " d = T[R,N] subtract(x, mb)  e = T[R,N] exponential(d)\n"
     " s = T[R] reduce(e, zero), dimensions={1}, to_apply=add  sb = T[R,N] broadcast(s), dimensions={0}\n"
     " q = T[R,N] divide(e, sb)  ROOT r = T[R,N] add(q, x)"},
    // positions in the row, and the operand reversed
    {"f32",
     "x = T[R,N] parameter(0)  i = T[R,N] iota(), iota_dimension=1  w = T[R,N] multiply(x, i)\n"
     " s = T[R] reduce(w, zero), dimensions={1}, to_apply=add  sb = T[R,N] broadcast(s), dimensions={0}\n"
     " v = T[R,N] reverse(x), dimensions={1}  q = T[R,N] divide(v, sb)  ROOT r = T[R,N] multiply(q, i)"},
    {"f64",
     "x = T[R,N] parameter(0)  m = T[R] reduce(x, low), dimensions={1}, to_apply=max\n"
     " mb = T[R,N] broadcast(m), dimensions={0}  d = T[R,N] subtract(x, mb)  e = T[R,N] exponential(d)\n"
     " s = T[R] reduce(e, zero), dimensions={1}, to_apply=add  sb = T[R,N] broadcast(s), dimensions={0}\n"
     " ROOT r = T[R,N] divide(e, sb)"},
    {"bf16",
     "x = T[R,N] parameter(0)  m = T[R] reduce(x, low), dimensions={1}, to_apply=max\n"
     " mb = T[R,N] broadcast(m), dimensions={0}  ROOT d = T[R,N] subtract(x, mb)"},
    {"s32",
     "x = T[R,N] parameter(0)  m = T[R] reduce(x, zero), dimensions={1}, to_apply=max\n"
     " mb = T[R,N] broadcast(m), dimensions={0}  d = T[R,N] subtract(x, mb)  q = T[R,N] multiply(d, d)\n"
     " s = T[R] reduce(q, zero), dimensions={1}, to_apply=add  sb = T[R,N] broadcast(s), dimensions={0}\n"
     " ROOT r = T[R,N] xor(q, sb)"},
    {"u8",
     "x = T[R,N] parameter(0)  m = T[R] reduce(x, zero), dimensions={1}, to_apply=max\n"
     " mb = T[R,N] broadcast(m), dimensions={0}  d = T[R,N] subtract(mb, x)\n"
     " s = T[R] reduce(d, zero), dimensions={1}, to_apply=add  sb = T[R,N] broadcast(s), dimensions={0}\n"
     " ROOT r = T[R,N] add(d, sb)"},
};
enum { kPatternCount = sizeof kPatterns / sizeof kPatterns[0] };

static void append_filled(HloText *text, const char *form, const Rows *given) {
    for (const char *at = form; *at; at++) {
        const bool alone = at == form || strchr(" [,(", at[-1]);
        if (*at == 'T' && at[1] == '[')
            hlo_text_string(text, kPatterns[given->pattern].type);
        else if (alone && (*at == 'R' || *at == 'N') && strchr(",])", at[1]))
            hlo_text_int64(text, *at == 'R' ? given->rows : given->length);
        else
            hlo_text_append(text, at, 1);
    }
}

static HloModule *rows_module(const Rows *given) {
    HloText text = {0}, message = {0};
    const char *low =
        kPatterns[given->pattern].type[0] == 's' || kPatterns[given->pattern].type[0] == 'u' ? "0" : "-inf";
    hlo_text_string(&text, "HloModule rows\n");
    append_filled(&text, "add { a = T[] parameter(0)  b = T[] parameter(1)  ROOT r = T[] add(a, b) }\n", given);
    append_filled(&text, "max { a = T[] parameter(0)  b = T[] parameter(1)  ROOT r = T[] maximum(a, b) }\n", given);
    append_filled(&text, "ENTRY e { zero = T[] constant(0)  low = T[] constant(", given);
    hlo_text_string(&text, low);
    hlo_text_string(&text, ")\n ");
    append_filled(&text, kPatterns[given->pattern].entry, given);
    hlo_text_string(&text, "\n}\n");
    HloModule *module = compiled_parse(text.data, &message);
    cr_assert_not_null(module, "%s\n%s", message.data, text.data);
    hlo_text_free(&text);
    hlo_text_free(&message);
    return module;
}

CaseList(rows, compiled_equals_eval_at_every_length) {
    static const int kLengths[] = {255, 1024, 1025, 2048, 3001, 4096, 4097, 20000};
    enum { kLengthCount = sizeof kLengths / sizeof kLengths[0] };
    Rows *all = cr_malloc(sizeof(Rows) * (kPatternCount * kLengthCount + 1));
    size_t count = 0;
    for (int p = 0; p < kPatternCount; p++)
        for (int n = 0; n < kLengthCount; n++) all[count++] = (Rows){p, n % 2 ? 9 : 17, kLengths[n]};
    all[count++] = (Rows){0, 8, 65536};  // a row of the longest kind
    return cr_make_param_array(Rows, all, count);
}

CaseTest(Rows *given, rows, compiled_equals_eval_at_every_length) {
    HloModule *module = rows_module(given);
    HloText message = {0};
    HloLiteral *one[64] = {0}, *three[64] = {0};
    CompiledCheck check = {.seed = 11, .threads = 1, .tolerance = 2e-4};
    cr_assert(compiled_equals_eval(module, &check, &message), "pattern %d, %d x %d: %s", given->pattern, given->rows,
              given->length, message.data);
    cr_assert(compiled_run(module, &check, one, &message), "%s", message.data);
    check.threads = 3;
    cr_assert(compiled_run(module, &check, three, &message), "%s", message.data);
    for (int d = 0; d < 64 && one[d]; d++) {
        cr_assert(hlo_literal_equal(one[d], three[d]), "pattern %d, %d x %d: other bits with three threads",
                  given->pattern, given->rows, given->length);
        hlo_literal_free(one[d]);
        hlo_literal_free(three[d]);
    }
    hlo_text_free(&message);
    hlo_module_free(module);
}

// ---- elements combined with numbers of their row, alone and two operations at a time: each rounds once, so that
// results are those of eval bit for bit

static const char *const kCombinations[] = {"add", "subtract", "multiply", "divide"};
enum { ADD, SUBTRACT, MULTIPLY, DIVIDE, COMBINATION_COUNT };

typedef struct Combined {
    int inner, outer;
    bool second, third, swapped;  // which operands are numbers of the row; `outer` the other way round
    int rows, length;
} Combined;

CaseList(rows, combined_with_their_own_numbers) {
    Combined *all = cr_malloc(sizeof(Combined) * (COMBINATION_COUNT * COMBINATION_COUNT * 8 + 2));
    size_t count = 0;
    for (int inner = 0; inner < COMBINATION_COUNT; inner++)
        for (int outer = 0; outer < COMBINATION_COUNT; outer++)
            for (int which = 0; which < 8; which++)
                all[count++] = (Combined){inner, outer, which & 1, which & 2, which > 3, 64, which % 2 ? 600 : 1024};
    all[count++] = (Combined){SUBTRACT, MULTIPLY, true, true, false, 2700, 1024};  // is stored past the caches
    all[count++] = (Combined){MULTIPLY, DIVIDE, false, true, false, 2700, 1024};
    return cr_make_param_array(Combined, all, count);
}

// The first reduction and the operation that combines it are one loop because a second reduction reads it.
CaseTest(Combined *given, rows, combined_with_their_own_numbers) {
    HloText text = {0}, message = {0};
    const int r = given->rows, n = given->length;
    const char *third = given->third ? "kb" : "z";
    hlo_text_format(
        &text,
        "HloModule rows\nmax { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] maximum(a, b) }\n"
        "ENTRY e { low = f32[] constant(-inf)  x = f32[%d,%d] parameter(0)  y = f32[%d,%d] parameter(1)\n"
        " z = f32[%d,%d] parameter(2)  m = f32[%d] reduce(x, low), dimensions={1}, to_apply=max\n"
        " k = f32[%d] negate(m)  mb = f32[%d,%d] broadcast(m), dimensions={0}\n"
        " kb = f32[%d,%d] broadcast(k), dimensions={0}  i = f32[%d,%d] %s(x, %s)\n",
        r, n, r, n, r, n, r, r, r, n, r, n, r, n, kCombinations[given->inner], given->second ? "mb" : "y");
    hlo_text_format(&text,
                    " o = f32[%d,%d] %s(%s, %s)  s = f32[%d] reduce(o, low), dimensions={1}, to_apply=max\n"
                    " sb = f32[%d,%d] broadcast(s), dimensions={0}  ROOT t = f32[%d,%d] subtract(o, sb) }\n",
                    r, n, kCombinations[given->outer], given->swapped ? third : "i", given->swapped ? "i" : third, r, r,
                    n, r, n);
    HloModule *module = compiled_must_parse(text.data);
    const CompiledCheck check = {.seed = 5, .threads = 1, .tolerance = 1e-30};
    cr_expect(compiled_equals_eval(module, &check, &message), "%s: %s", text.data, message.data);
    hlo_module_free(module);
    hlo_text_free(&text);
    hlo_text_free(&message);
}

// bug: an infinite product was multiplied by the 1 of a lane without an element and by the initial 1 again, which makes
// a NaN of its imaginary part.
Test(rows, bug_complex_products_met_ones) {
    static const char *const forms[] = {
        "c64[2] parameter(0)\n p = c64[2] constant({(3e38, 1), (2, 1)})\n ROOT r = c64[] reduce(p, one), "
        "dimensions={0}",
        "c64[2] parameter(0)\n q = c64[2] constant({(3e38, 1), (2, 1)})\n p = c64[20,2] broadcast(q), dimensions={1}\n"
        " ROOT r = c64[20] reduce(p, one), dimensions={1}",
        "c64[2] parameter(0)\n q = c64[2] constant({(3e38, 1), (2, 1)})\n p = c64[2,20] broadcast(q), dimensions={0}\n"
        " ROOT r = c64[20] reduce(p, one), dimensions={0}",
        "c64[2] parameter(0)\n p = c64[2] constant({(3e38, 1), (2, 1)})\n"
        " ROOT r = c64[1] reduce-window(p, one), window={size=2}"};
    for (size_t i = 0; i < HLO_COUNT_OF(forms); i++) {
        HloText text = {0}, message = {0};
        hlo_text_format(&text,
                        "HloModule m\nf {\n a = c64[] parameter(0)\n b = c64[] parameter(1)\n"
                        " ROOT c = c64[] multiply(a, b)\n}\nENTRY e {\n one = c64[] constant((1, 0))\n"
                        " unused = %s, to_apply=f\n}\n",
                        forms[i]);
        HloModule *module = compiled_must_parse(text.data);
        const CompiledCheck check = {0};
        cr_expect(compiled_equals_eval(module, &check, &message), "%s: %s", text.data, message.data);
        hlo_module_free(module);
        hlo_text_free(&text);
        hlo_text_free(&message);
    }
}
