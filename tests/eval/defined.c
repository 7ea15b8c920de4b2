// SPDX-License-Identifier: Apache-2.0
#include "tests/eval/defined.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "hlo/base/complex.h"
#include "tests/eval/run.h"

Defined defined_begin(uint64_t seed) {
    return (Defined){.state = seed * UINT64_C(0x9E3779B97F4A7C15) + 1};
}

void defined_end(Defined *test) {
    for (int64_t i = 0; i < test->count; i++) hlo_literal_free(test->arguments[i]);
    hlo_literal_free(test->result);
    hlo_text_free(&test->called);
    hlo_text_free(&test->body);
}

// splitmix64
int64_t defined_draw(Defined *test, int64_t low, int64_t high) {
    cr_assert_leq(low, high);
    uint64_t z = test->state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    const uint64_t count = (uint64_t)high - (uint64_t)low + 1;  // 0: all there are
    z ^= z >> 31;
    return (int64_t)((uint64_t)low + (count ? z % count : z));
}

void defined_distinct(Defined *test, int64_t limit, int64_t count, int64_t *numbers) {
    cr_assert(count <= limit && limit <= 64);
    int64_t all[64];
    for (int64_t i = 0; i < limit; i++) all[i] = i;
    for (int64_t i = 0; i < count; i++) {
        int64_t from = defined_draw(test, i, limit - 1);
        numbers[i] = all[from];
        all[from] = all[i];
    }
}

Dims defined_dims(Defined *test, int64_t rank, int64_t low, int64_t high) {
    Dims dims = {.rank = rank};
    for (int64_t i = 0; i < rank; i++) dims.at[i] = defined_draw(test, low, high);
    return dims;
}

HloType defined_type(Defined *test) {
    static const HloType types[] = {HLO_PRED, HLO_S4,  HLO_U4,   HLO_S8,     HLO_U16, HLO_S32, HLO_U64,
                                    HLO_F32,  HLO_F64, HLO_BF16, HLO_F8E5M2, HLO_C64, HLO_C128};
    return types[defined_draw(test, 0, (int64_t)HLO_COUNT_OF(types) - 1)];
}

static HloLiteral *add_argument(Defined *test, HloType type, Dims dims) {
    cr_assert_lt(test->count, DEFINED_MOST_ARRAYS);
    HloLiteral *literal = hlo_literal_of(type, (HloInts){dims.at, dims.rank}, NULL);
    cr_assert_not_null(literal);
    return test->arguments[test->count++] = literal;
}

HloLiteral *defined_array(Defined *test, HloType type, Dims dims) {
    HloLiteral *literal = add_argument(test, type, dims);
    const bool has_sign = hlo_type_kind(type) != HLO_KIND_UNSIGNED;
    for (int64_t i = 0; i < hlo_shape_elements(literal->shape); i++) {
        const double real = (double)defined_draw(test, has_sign ? -5 : 0, 5);
        const double part = hlo_type_is_integer(type) ? 0 : (double)defined_draw(test, 0, 3) / 4;
        if (hlo_type_is_complex(type)) {
            hlo_literal_set_complex(literal, i, CMPLX(real, part));
        } else if (type == HLO_PRED) {
            hlo_literal_set_int64(literal, i, defined_draw(test, 0, 1));
        } else {
            hlo_literal_set_double(literal, i, real + part);
        }
    }
    return literal;
}

HloLiteral *defined_indices(Defined *test, Dims dims, int64_t low, int64_t high) {
    HloLiteral *literal = add_argument(test, HLO_S32, dims);
    for (int64_t i = 0; i < hlo_shape_elements(literal->shape); i++)
        hlo_literal_set_int64(literal, i, defined_draw(test, low, high));
    return literal;
}

void defined_shape(HloText *text, HloType type, Dims dims) {
    hlo_text_format(text, "%s[", hlo_type_text(type));
    for (int64_t i = 0; i < dims.rank; i++) hlo_text_format(text, i ? ",%lld" : "%lld", (long long)dims.at[i]);
    hlo_text_string(text, "]");
}

void defined_list(HloText *text, const int64_t *numbers, int64_t count) {
    hlo_text_string(text, "{");
    for (int64_t i = 0; i < count; i++) hlo_text_format(text, i ? ",%lld" : "%lld", (long long)numbers[i]);
    hlo_text_string(text, "}");
}

const char *defined_text(const Defined *test) {
    return test->body.data ? test->body.data : "";
}

HloStatus defined_try(Defined *test) {
    HloText text = {0};
    hlo_text_format(&text, "HloModule m\n%sENTRY e {\n", test->called.data ? test->called.data : "");
    for (int64_t i = 0; i < test->count; i++) {
        hlo_text_format(&text, " p%lld = ", (long long)i);
        defined_shape(&text, test->arguments[i]->shape->type, defined_sizes(test->arguments[i]));
        hlo_text_format(&text, " parameter(%lld)\n", (long long)i);
    }
    hlo_text_format(&text, "%s\n}\n", test->body.data);
    HloModule *module = parse_text(text.data);
    HloStatus status =
        hlo_evaluate(module, (const HloLiteral *const *)test->arguments, test->count, NULL, &test->result);
    hlo_module_free(module);
    hlo_text_free(&text);
    return status;
}

void defined_run(Defined *test) {
    HloStatus status = defined_try(test);
    cr_assert_null(status, "%s: %s", defined_text(test), hlo_status_message(status));
}

bool defined_first(Dims dims, Dims *index) {
    *index = (Dims){.rank = dims.rank};
    for (int64_t i = 0; i < dims.rank; i++)
        if (dims.at[i] == 0) return false;
    return true;
}

bool defined_next(Dims dims, Dims *index) {
    for (int64_t i = dims.rank - 1; i >= 0; i--) {
        if (++index->at[i] < dims.at[i]) return true;
        index->at[i] = 0;
    }
    return false;
}

Dims defined_sizes(const HloLiteral *literal) {
    Dims dims = {.rank = literal->shape->rank};
    cr_assert_leq(dims.rank, DEFINED_MOST_RANK);
    for (int64_t i = 0; i < dims.rank; i++) dims.at[i] = literal->shape->dims[i];
    return dims;
}

int64_t defined_place(const HloLiteral *literal, Dims index) {
    int64_t place = 0;
    cr_assert_eq(index.rank, literal->shape->rank);
    for (int64_t i = 0; i < index.rank; i++) {
        cr_assert(index.at[i] >= 0 && index.at[i] < literal->shape->dims[i]);
        place = place * literal->shape->dims[i] + index.at[i];
    }
    return place;
}

double defined_at(const HloLiteral *literal, Dims index) {
    return hlo_literal_get_double(literal, defined_place(literal, index));
}

void defined_same(const Defined *test, const HloLiteral *have, Dims at, const HloLiteral *want, Dims from) {
    const int64_t bytes = hlo_type_bytes(want->shape->type), place = defined_place(have, at);
    const char *left = (const char *)have->data + place * bytes;
    const char *right = (const char *)want->data + defined_place(want, from) * bytes;
    cr_assert_eq(have->shape->type, want->shape->type);
    cr_assert_eq(memcmp(left, right, (size_t)bytes), 0, "%s: element %lld", defined_text(test), (long long)place);
}

void defined_is(const Defined *test, const HloLiteral *have, Dims at, double want, double tolerance) {
    const double is = defined_at(have, at), room = tolerance * fmax(1, fabs(want));
    cr_assert(is == want || (isnan(is) && isnan(want)) || fabs(is - want) <= room,
              "%s: element %lld is %.17g, not %.17g", defined_text(test), (long long)defined_place(have, at), is, want);
}
