// SPDX-License-Identifier: Apache-2.0
// The evaluator's products against three plain loops, bit for bit, at the edges of its tiles and blocks.
#include <criterion/criterion.h>
#include <math.h>

#include "tests/eval/run.h"
#include "tests/support/cases.h"

typedef struct ProductCase {
    const char *type;
    int m, n, k;
} ProductCase;

// A number with all its bits in use, sometimes one that fits f32, or zero.
static double number(int64_t i, uint64_t salt) {
    uint64_t bits = ((uint64_t)i + salt) * UINT64_C(0x9e3779b97f4a7c15);
    bits ^= bits >> 29;
    double value = (double)(int64_t)(bits * UINT64_C(0xbf58476d1ce4e5b9)) * 0x1p-62;
    return bits % 13 == 0 ? 0 : value;
}

static HloLiteral *make(const char *type, int64_t rows, int64_t columns, uint64_t salt) {
    HloType element = strcmp(type, "f64") == 0 ? HLO_F64 : HLO_F32;
    HloLiteral *literal = hlo_literal_of(element, (HloInts){(int64_t[]){rows, columns}, 2}, NULL);
    for (int64_t i = 0; i < rows * columns; i++) hlo_literal_set_double(literal, i, number(i, salt));
    return literal;
}

// The definition: products in ascending order of k, added in double.
static double plain(const HloLiteral *a, const HloLiteral *b, const ProductCase *c, int64_t i, int64_t j) {
    double sum = 0;
    for (int64_t x = 0; x < c->k; x++) {
        sum += hlo_literal_get_double(a, i * c->k + x) * hlo_literal_get_double(b, x * c->n + j);
    }
    return strcmp(c->type, "f64") == 0 ? sum : (float)sum;
}

static const ProductCase cases[] = {
    {"f64", 1, 1, 1},   {"f64", 6, 32, 256}, {"f64", 7, 33, 257},  {"f64", 5, 31, 600}, {"f64", 13, 65, 3},
    {"f64", 2, 5, 700}, {"f64", 3, 6, 40},   {"f32", 6, 32, 256},  {"f32", 7, 33, 513}, {"f32", 64, 40, 30},
    {"f32", 1, 70, 9},  {"f32", 9, 1, 300},  {"f32", 12, 96, 129}, {"f32", 4, 12, 8},   {"f32", 3, 7, 0},
};

CaseList(eval_product, equals_plain_loops) {
    return cases_numbered(HLO_COUNT_OF(cases));
}

CaseTest(const int *index, eval_product, equals_plain_loops) {
    const ProductCase *c = &cases[*index];
    HloLiteral *a = make(c->type, c->m, c->k, 1), *b = make(c->type, c->k, c->n, 77), *result = NULL;
    HloText text = {0};
    hlo_text_format(&text,
                    "HloModule m\n\nENTRY main {\n  a = %s[%d,%d] parameter(0)\n  b = %s[%d,%d] parameter(1)\n"
                    "  ROOT r = %s[%d,%d] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}\n",
                    c->type, c->m, c->k, c->type, c->k, c->n, c->type, c->m, c->n);
    HloModule *module = parse_text(text.data);
    const HloLiteral *arguments[] = {a, b};
    HloStatus status = hlo_evaluate(module, arguments, 2, NULL, &result);
    cr_assert_null(status, "%s", hlo_status_message(status));
    for (int64_t i = 0; i < c->m; i++) {
        for (int64_t j = 0; j < c->n; j++) {
            double got = hlo_literal_get_double(result, i * c->n + j), wanted = plain(a, b, c, i, j);
            cr_assert(got == wanted, "%s %dx%dx%d at %lld,%lld: %.17g instead of %.17g", c->type, c->m, c->n, c->k,
                      (long long)i, (long long)j, got, wanted);
        }
    }
    hlo_literal_free(a);
    hlo_literal_free(b);
    hlo_literal_free(result);
    hlo_text_free(&text);
    hlo_module_free(module);
}

// A convolution of more rows than are made at a time is the product that it spells.
Test(eval_product, convolution_in_several_blocks) {
    ProductCase c = {"f32", 1100, 9, 5};
    HloLiteral *a = make("f32", c.m, c.k, 3), *b = make("f32", c.k, c.n, 5), *result = NULL;
    HloModule *module = parse_text(
        "HloModule m\n\nENTRY main {\n  a = f32[1100,5] parameter(0)\n  b = f32[5,9] parameter(1)\n"
        "  ROOT r = f32[1100,9] convolution(a, b), dim_labels=bf_io->bf\n}\n");
    const HloLiteral *arguments[] = {a, b};
    HloStatus status = hlo_evaluate(module, arguments, 2, NULL, &result);
    cr_assert_null(status, "%s", hlo_status_message(status));
    for (int64_t i = 0; i < c.m * c.n; i++) {
        cr_assert_eq(hlo_literal_get_double(result, i), plain(a, b, &c, i / c.n, i % c.n), "element %lld",
                     (long long)i);
    }
    hlo_literal_free(a);
    hlo_literal_free(b);
    hlo_literal_free(result);
    hlo_module_free(module);
}
