// SPDX-License-Identifier: Apache-2.0
// compiled == eval over random programs like gradients of functions of a few numbers: elements are taken from short
// vectors, much scalar arithmetic has common subexpressions, and the results are padded, concatenated and added to
// vectors again, also in the iterations of a loop. MESHLO_RANDOM_PROGRAMS sets their number, MESHLO_RANDOM_SEED the
// first.
#include <criterion/criterion.h>

#include "tests/support/cases.h"
#include "tests/support/compiled.h"

enum { LENGTH = 3, MOST_SCALARS = 64 };

typedef struct Program {
    HloText text;
    uint64_t state;
    int scalars;  // of matrices as well: values k0, k1 and so on
    int vectors;
} Program;

static int pick(Program *program, int limit) {
    program->state = program->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int)((program->state >> 33) % (uint64_t)limit);
}

// Recent values are drawn more often: chains get long.
static int some_scalar(Program *program) {
    const int last = program->scalars - 1;
    return pick(program, 3) ? last - pick(program, last < 6 ? last + 1 : 6) : pick(program, program->scalars);
}

// No operation here magnifies a difference of rounding: products go through a tangent, and choices depend on the
// arguments alone.
static void add_scalar(Program *program) {
    static const char *const forms[] = {"add(k%d, k%d)",     "subtract(k%d, k%d)", "minimum(k%d, k%d)",
                                        "maximum(k%d, k%d)", "negate(k%d)",        "sine(k%d)",
                                        "cosine(k%d)",       "tanh(k%d)",          "abs(k%d)"};
    const int a = some_scalar(program), b = some_scalar(program), n = program->scalars++;
    const int form = pick(program, (int)HLO_COUNT_OF(forms) + 3), first = pick(program, LENGTH);
    HloText *text = &program->text;
    if (form < (int)HLO_COUNT_OF(forms)) {
        hlo_text_format(text, "  k%d = f32[] ", n);
        hlo_text_format(text, forms[form], a, b);  // the unary forms ignore the second number
        hlo_text_string(text, "\n");
    } else if (form == (int)HLO_COUNT_OF(forms)) {
        hlo_text_format(text, "  w%d = pred[] compare(k%d, k%d), direction=GE\n  k%d = f32[] select(w%d, k%d, k%d)\n",
                        n, first, first + 1, n, n, a, b);
    } else if (form == (int)HLO_COUNT_OF(forms) + 1) {
        hlo_text_format(text, "  m%d = f32[] multiply(k%d, k%d)\n  k%d = f32[] tanh(m%d)\n", n, a, b, n, n);
    } else {
        hlo_text_format(text, "  a%d = f32[] abs(k%d)\n  b%d = f32[] add(a%d, half)\n  k%d = f32[] sqrt(b%d)\n", n, a,
                        n, n, n, n);
    }
}

static void add_vector(Program *program) {
    HloText *text = &program->text;
    const int n = program->vectors++, scalar = some_scalar(program), place = pick(program, LENGTH);
    switch (n > 1 ? pick(program, 4) : pick(program, 2)) {
        case 0:
            hlo_text_format(text,
                            "  o%d = f32[1] broadcast(k%d), dimensions={}\n"
                            "  v%d = f32[3] pad(o%d, zero), padding=%d_%d\n",
                            n, scalar, n, n, place, LENGTH - 1 - place);
            break;
        case 1: {
            const int other = some_scalar(program), third = some_scalar(program);
            hlo_text_format(text,
                            "  o%d = f32[1] reshape(k%d)\n  p%d = f32[1] reshape(k%d)\n  q%d = f32[1] reshape(k%d)\n"
                            "  v%d = f32[3] concatenate(o%d, p%d, q%d), dimensions={0}\n",
                            n, scalar, n, other, n, third, n, n, n, n);
            break;
        }
        case 2: hlo_text_format(text, "  v%d = f32[3] add(v%d, v%d)\n", n, pick(program, n), n - 1); break;
        default:
            hlo_text_format(text, "  o%d = f32[3] broadcast(k%d), dimensions={}\n  v%d = f32[3] multiply(v%d, o%d)\n",
                            n, scalar, n, pick(program, n), n);
    }
}

// ---- scalars in vectors

// The elements of x and y are the first scalars.
static void add_arithmetic(Program *program) {
    static const char names[] = "xy";
    program->scalars = program->vectors = 0;
    for (int v = 0; v < 2; v++)
        for (int i = 0; i < LENGTH; i++, program->scalars++)
            hlo_text_format(&program->text, "  e%d = f32[1] slice(%c), slice={[%d:%d]}\n  k%d = f32[] reshape(e%d)\n",
                            program->scalars, names[v], i, i + 1, program->scalars, program->scalars);
    const int scalars = 8 + pick(program, 30), vectors = 3 + pick(program, 6);
    while (program->scalars < scalars + 2 * LENGTH) add_scalar(program);
    while (program->vectors < vectors) {
        add_vector(program);
        if (pick(program, 2)) add_scalar(program);
    }
}

static void make_plain(Program *program) {
    hlo_text_string(&program->text,
                    "HloModule scalars\n\nENTRY main {\n  x = f32[3] parameter(0)\n  y = f32[3] parameter(1)\n"
                    "  zero = f32[] constant(0)\n  half = f32[] constant(0.5)\n");
    add_arithmetic(program);
    hlo_text_format(&program->text, "  ROOT r = (f32[3], f32[3], f32[]) tuple(v%d, v%d, k%d)\n}\n",
                    program->vectors - 1, pick(program, program->vectors), program->scalars - 1);
}

// Each iteration begins with sines of the previous one's results.
static void make_loop(Program *program) {
    hlo_text_string(&program->text,
                    "HloModule scalars\n\ncondition {\n  t = (s32[], f32[3], f32[3]) parameter(0)\n"
                    "  i = s32[] get-tuple-element(t), index=0\n  m = s32[] constant(20)\n"
                    "  ROOT p = pred[] compare(i, m), direction=LT\n}\n\nbody {\n"
                    "  t = (s32[], f32[3], f32[3]) parameter(0)\n  i = s32[] get-tuple-element(t), index=0\n"
                    "  f = f32[3] get-tuple-element(t), index=1\n  g = f32[3] get-tuple-element(t), index=2\n"
                    "  x = f32[3] sine(f)\n  y = f32[3] cosine(g)\n  one = s32[] constant(9)\n"
                    "  j = s32[] add(i, one)\n  zero = f32[] constant(0)\n  half = f32[] constant(0.5)\n");
    add_arithmetic(program);
    hlo_text_format(&program->text,
                    "  ROOT r = (s32[], f32[3], f32[3]) tuple(j, v%d, v%d)\n}\n\nENTRY main {\n"
                    "  i = s32[] parameter(0)\n  x = f32[3] parameter(1)\n  y = f32[3] parameter(2)\n"
                    "  t = (s32[], f32[3], f32[3]) tuple(i, x, y)\n"
                    "  ROOT w = (s32[], f32[3], f32[3]) while(t), condition=condition, body=body\n}\n",
                    program->vectors - 1, pick(program, program->vectors));
}

// ---- matrices

static void add_matrix(Program *program) {
    enum { kRows = 4, kColumns = 6 };
    HloText *text = &program->text;
    const int a = some_scalar(program), b = some_scalar(program), c = some_scalar(program), n = program->scalars++;
    const int row = pick(program, kRows), column = pick(program, kColumns);
    switch (pick(program, 16)) {
        case 0:
            hlo_text_format(text,
                            "  r%d = f32[4] reduce(k%d, zero), dimensions={1}, to_apply=add\n  t%d = f32[4] tanh(r%d)\n"
                            "  k%d = f32[4,6] broadcast(t%d), dimensions={0}\n",
                            n, a, n, n, n, n);
            break;
        case 1:
            hlo_text_format(text,
                            "  r%d = f32[6] reduce(k%d, least), dimensions={0}, to_apply=larger\n"
                            "  k%d = f32[4,6] broadcast(r%d), dimensions={1}\n",
                            n, a, n, n);
            break;
        case 2:
            hlo_text_format(text,
                            "  r%d = f32[4,%d] slice(k%d), slice={[0:4], [%d:6]}\n"
                            "  k%d = f32[4,6] pad(r%d, zero), padding=0_0x0_%d\n",
                            n, kColumns - column, a, column, n, n, column);
            break;
        case 3:
            hlo_text_format(text,
                            "  r%d = f32[%d,6] slice(k%d), slice={[0:%d], [0:6]}\n"
                            "  t%d = f32[%d,6] slice(k%d), slice={[%d:4], [0:6]}\n"
                            "  k%d = f32[4,6] concatenate(r%d, t%d), dimensions={0}\n",
                            n, row + 1, a, row + 1, n, kRows - row - 1, b, row + 1, n, n, n);
            break;
        case 4:
            hlo_text_format(text,
                            "  r%d = f32[6,4] transpose(k%d), dimensions={1,0}\n  t%d = f32[6,4] reverse(r%d), "
                            "dimensions={0}\n  k%d = f32[4,6] transpose(t%d), dimensions={1,0}\n",
                            n, a, n, n, n, n);
            break;
        case 5:
            hlo_text_format(text,
                            "  r%d = f32[4,4] dot(k%d, k%d), lhs_contracting_dims={1}, rhs_contracting_dims={1}\n"
                            "  t%d = f32[4,6] dot(r%d, k%d), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
                            "  k%d = f32[4,6] tanh(t%d)\n",
                            n, a, b, n, n, c, n, n);
            break;
        case 6:
            hlo_text_format(text,
                            "  r%d = f32[2,3] dynamic-slice(k%d, i, i), dynamic_slice_sizes={2,3}\n"
                            "  k%d = f32[4,6] dynamic-update-slice(k%d, r%d, i, j)\n",
                            n, a, n, pick(program, 2) ? a : b, n);
            break;
        case 7:
            hlo_text_format(text,
                            "  r%d = f32[24] reshape(k%d)\n  t%d = f32[24] reverse(r%d), dimensions={0}\n"
                            "  k%d = f32[4,6] reshape(t%d)\n",
                            n, a, n, n, n, n);
            break;
        case 8:
            hlo_text_format(text,
                            "  w%d = pred[4,6] compare(k0, k1), direction=LT\n  k%d = f32[4,6] select(w%d, k%d, k%d)\n",
                            n, n, n, b, a);
            break;
        case 9: hlo_text_format(text, "  k%d = f32[4,6] tanh(k%d)\n", n, a); break;
        case 10: hlo_text_format(text, "  k%d = f32[4,6] sine(k%d)\n", n, a); break;
        case 11: hlo_text_format(text, "  k%d = f32[4,6] maximum(k%d, k%d)\n", n, a, b); break;
        case 12:
            hlo_text_format(text, "  m%d = f32[4,6] multiply(k%d, k%d)\n  k%d = f32[4,6] tanh(m%d)\n", n, a, b, n, n);
            break;
        case 13: hlo_text_format(text, "  k%d = f32[4,6] subtract(k%d, k%d)\n", n, a, b); break;
        default: hlo_text_format(text, "  k%d = f32[4,6] add(k%d, k%d)\n", n, a, b);
    }
}

static void make_matrices(Program *program) {
    hlo_text_string(&program->text,
                    "HloModule matrices\n\nadd {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
                    "  ROOT r = f32[] add(a, b)\n}\n\nlarger {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
                    "  ROOT r = f32[] maximum(a, b)\n}\n\nENTRY main {\n  k0 = f32[4,6] parameter(0)\n"
                    "  k1 = f32[4,6] parameter(1)\n  i = s32[] parameter(2)\n  zero = f32[] constant(0)\n"
                    "  least = f32[] constant(-inf)\n  two = s32[] constant(2)\n  j = s32[] add(i, two)\n");
    program->scalars = 2;
    const int count = 6 + pick(program, 24);
    while (program->scalars < count) add_matrix(program);
    const int last = program->scalars - 1;
    hlo_text_format(&program->text, "  ROOT r = (f32[4,6], f32[4,6], f32[4,6]) tuple(k%d, k%d, k%d)\n}\n", last,
                    pick(program, program->scalars), pick(program, program->scalars));
}

// ---- runs

static void run_programs(void (*make)(Program *program)) {
    const int64_t first = cases_setting("MESHLO_RANDOM_SEED", 0), count = cases_count("MESHLO_RANDOM_PROGRAMS", 1000);
    TargetClient *client = NULL;
    must_succeed(target_client_new_with_threads("cpu:1", 1, &client));
    for (int64_t seed = first; seed < first + count; seed++) {
        Program program = {.state = (uint64_t)seed * 2 + 1};
        HloText message = {0};
        make(&program);
        HloModule *module = compiled_must_parse(program.text.data);
        const CompiledCheck check = {.client = client, .seed = (uint64_t)seed, .tolerance = 5e-3};
        cr_assert(compiled_equals_eval(module, &check, &message), "seed %lld: %s\n%s", (long long)seed, message.data,
                  program.text.data);
        hlo_module_free(module);
        hlo_text_free(&message);
        hlo_text_free(&program.text);
    }
    target_client_release(client);
}

Test(shared_parts, of_scalars) {
    run_programs(make_plain);
}

Test(shared_parts, of_scalars_in_loops) {
    run_programs(make_loop);
}

Test(shared_parts, of_matrices) {
    run_programs(make_matrices);
}
