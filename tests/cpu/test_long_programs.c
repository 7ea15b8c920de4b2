// SPDX-License-Identifier: Apache-2.0
// compiled == eval over programs of thousands of operations of one kind. For each of these the compiler once had a
// table for every region, a search along every path, or a scan of all earlier operations: these programs took seconds
// and gigabytes, where they take milliseconds now. The comparison shows that the faster ways find the same: every
// operation depends on the one before it, and a wrong result of any of them shows at the end.
#include <criterion/criterion.h>

#include "tests/support/cases.h"
#include "tests/support/compiled.h"

typedef void Write(HloText *text, int count);

static void write_heading(HloText *text, const char *header) {
    hlo_text_format(text,
                    "HloModule long_program%s\n\nsum {\n  a = s32[] parameter(0)\n  b = s32[] parameter(1)\n"
                    "  ROOT r = s32[] add(a, b)\n}\n\n",
                    header);
}

// The ENTRY, its parameters of 24 bytes or 4, and a flag.
static void write_entry(HloText *text) {
    hlo_text_string(text,
                    "ENTRY main {\n  x_0 = s32[6] parameter(0)\n  y = s32[6] parameter(1)\n  i_0 = s32[] parameter(2)\n"
                    "  q = pred[] parameter(3)\n  zero = s32[] constant(0)\n");
}

// One storage has as many owners as there are updates.
static void write_updates(HloText *text, int count) {
    write_heading(text, "");
    write_entry(text);
    hlo_text_string(text, "  u = s32[2] slice(y), slice={[1:3]}\n");
    for (int k = 0; k < count; k++)
        hlo_text_format(text,
                        "  i_%d = s32[] multiply(i_%d, i_%d)\n"
                        "  x_%d = s32[6] dynamic-update-slice(x_%d, u, i_%d)\n",
                        k + 1, k, k, k + 1, k, k + 1);
    hlo_text_format(text, "  ROOT r = s32[6] negate(x_%d)\n}\n", count);
}

static void write_reshapes(HloText *text, int count) {
    write_heading(text, "");
    write_entry(text);
    for (int k = 0; k < count; k++)
        hlo_text_format(text, "  x_%d = s32[%s] reshape(x_%d)\n", k + 1,
                        k % 3 == 0   ? "2,3"
                        : k % 3 == 1 ? "3,2"
                                     : "6",
                        k);
    const char *last = count % 3 == 1 ? "2,3" : count % 3 == 2 ? "3,2" : "6";
    hlo_text_format(text, "  m = s32[6] reshape(x_%d)\n  n = s32[%s] negate(x_%d)\n", count / 2, last, count);
    hlo_text_format(text, "  ROOT r = (s32[%s], s32[6], s32[6]) tuple(n, m, y)\n}\n", last);
}

// Each region has its groups; each result the two places that its branches leave it in.
static void write_conditionals(HloText *text, int count) {
    write_heading(text, "");
    hlo_text_string(text,
                    "yes {\n  p = s32[6] parameter(0)\n  ROOT r = s32[6] negate(p)\n}\n\n"
                    "no {\n  p = s32[6] parameter(0)\n  ROOT r = s32[6] reverse(p), dimensions={0}\n}\n\n");
    write_entry(text);
    for (int k = 0; k < count; k++)
        hlo_text_format(text, "  x_%d = s32[6] conditional(q, x_%d, %s), true_computation=yes, false_computation=no\n",
                        k + 1, k, k % 5 ? "y" : "x_0");
    hlo_text_format(text, "  ROOT r = s32[6] add(x_%d, y)\n}\n", count);
}

// Each value is used twice by the next: 2^n paths through n of them.
static void write_selects(HloText *text, int count) {
    write_heading(text, "");
    write_entry(text);
    hlo_text_string(text,
                    "  h_0 = s32[16] broadcast(i_0), dimensions={}\n  b_0 = s32[16,32] broadcast(h_0), "
                    "dimensions={0}\n  f_0 = s32[16] iota(), iota_dimension=0\n  h_1 = s32[16] reduce(b_0, zero), "
                    "dimensions={1}, to_apply=sum\n");
    for (int k = 1; k < count; k++)
        hlo_text_format(text,
                        "  g_%d = pred[16] compare(h_%d, f_0), direction=LT\n"
                        "  h_%d = s32[16] select(g_%d, h_%d, h_%d)\n"
                        "  w_%d = s32[16,32] broadcast(h_%d), dimensions={0}\n"
                        "  b_%d = s32[16,32] subtract(b_%d, w_%d)\n",
                        k, k, k + 1, k, k, k, k, k + 1, k, k - 1, k);
    hlo_text_format(text, "  ROOT r = s32[16,32] negate(b_%d)\n}\n", count - 1);
}

// Arrays of many sizes that die in another order than they were born in: many gaps.
static void write_gaps(HloText *text, int count) {
    write_heading(text, "");
    write_entry(text);
    hlo_text_string(text, "  m = s32[2,3] reshape(x_0)\n");
    for (int k = 0; k < count; k++) {
        const int rows = 2 + k * 7919 % 13 * 8;
        hlo_text_format(text,
                        "  p_%d = s32[%d,3] pad(m, i_0), padding=0_%dx0_0\n"
                        "  d_%d = s32[%d,2] dot(p_%d, m), lhs_contracting_dims={1}, rhs_contracting_dims={1}\n",
                        k, rows, rows - 2, k, rows, k);
    }
    hlo_text_string(text, "  e_0 = s32[2,2] broadcast(zero), dimensions={}\n");
    for (int j = 0; j < count; j++) {
        const int k = (int)((int64_t)j * 104729 % count);
        hlo_text_format(text,
                        "  c_%d = s32[2,2] dot(d_%d, d_%d), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n"
                        "  e_%d = s32[2,2] dot(e_%d, c_%d), lhs_contracting_dims={0}, rhs_contracting_dims={1}\n"
                        "  a_%d = s32[2,2] add(e_%d, c_%d)\n",
                        j, k, k, j + 1, j, j, j, j + 1, j);
    }
    hlo_text_format(text, "  ROOT r = (s32[2,2], s32[2,2]) tuple(e_%d, a_%d)\n}\n", count, count - 1);
}

// Every argument is donated to a result of its size.
static void write_donations(HloText *text, int count) {
    HloText header = {0};
    hlo_text_string(&header, ", input_output_alias={ ");
    for (int k = 0; k < count; k++)
        hlo_text_format(&header, "%s{%d}: (%d, {}, may-alias)", k ? ", " : "", k, (k + 3) % count);
    hlo_text_string(&header, " }");
    write_heading(text, header.data);
    hlo_text_free(&header);
    hlo_text_string(text, "ENTRY main {\n");
    for (int k = 0; k < count; k++) hlo_text_format(text, "  p_%d = s32[%d] parameter(%d)\n", k, k % 3 + 2, k);
    for (int k = 0; k < count; k++) hlo_text_format(text, "  s_%d = s32[%d] add(p_%d, p_%d)\n", k, k % 3 + 2, k, k);
    for (int pass = 0; pass < 2; pass++) {
        hlo_text_string(text, pass ? ") tuple(" : "  ROOT r = (");
        for (int k = 0; k < count; k++) {
            if (k) hlo_text_string(text, ", ");
            if (pass)
                hlo_text_format(text, "s_%d", k);
            else
                hlo_text_format(text, "s32[%d]", k % 3 + 2);
        }
    }
    hlo_text_string(text, ")\n}\n");
}

// Scalars of scalars, each dear to compute: light at any depth, they were one loop, as deep as its expression is long.
static void write_scalars(HloText *text, int count) {
    write_heading(text, "");
    write_entry(text);
    hlo_text_string(text, "  s_0 = f32[] convert(i_0)\n");
    for (int k = 0; k < count; k++)
        hlo_text_format(text, k % 2 ? "  s_%d = f32[] tanh(s_%d)\n" : "  s_%d = f32[] add(s_%d, s_0)\n", k + 1, k);
    hlo_text_format(text, "  ROOT r = f32[6] broadcast(s_%d), dimensions={}\n}\n", count);
}

typedef struct LongProgram {
    const char *name;
    Write *write;
    int count;
} LongProgram;

static const LongProgram kPrograms[] = {
    {"updates", write_updates, 6000}, {"reshapes", write_reshapes, 6000}, {"conditionals", write_conditionals, 3000},
    {"selects", write_selects, 1500}, {"gaps", write_gaps, 1500},         {"donations", write_donations, 3000},
    {"scalars", write_scalars, 60000}};

CaseList(long_programs, compiled_equals_eval) {
    return cases_numbered(HLO_COUNT_OF(kPrograms));
}

CaseTest(const int *index, long_programs, compiled_equals_eval) {
    const LongProgram *program = &kPrograms[*index];
    HloText text = {0}, message = {0};
    program->write(&text, program->count);
    HloModule *module = compiled_must_parse(text.data);
    const CompiledCheck check = {.seed = 3, .threads = 1};
    cr_assert(compiled_equals_eval(module, &check, &message), "%s: %s", program->name, message.data);
    hlo_module_free(module);
    hlo_text_free(&message);
    hlo_text_free(&text);
}
