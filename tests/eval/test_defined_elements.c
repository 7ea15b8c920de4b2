// SPDX-License-Identifier: Apache-2.0
// Element-wise ops and conversions by their definitions: integers of up to 8 bits in all pairs, wider ones at their
// ends and at random, all in 128 bits; floats of a byte or two at every number and halfway between neighbours.
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/eval/defined.h"
#include "tests/support/cases.h"

__extension__ typedef __int128 Wide;

static Dims vector_of(int64_t count) {
    return (Dims){.rank = 1, .at = {count}};
}

// Adds an argument of `count` elements that the test fills in itself.
static HloLiteral *add_vector(Defined *test, HloType type, int64_t count) {
    HloLiteral *literal = hlo_literal_of(type, (HloInts){&count, 1}, NULL);
    cr_assert_not_null(literal);
    return test->arguments[test->count++] = literal;
}

// ---------------------------------------------------------------------------------------------------------------------
// Integers

static const HloType integers[] = {HLO_S1, HLO_U1,  HLO_S2,  HLO_U2,  HLO_S4,  HLO_U4,  HLO_S8,
                                   HLO_U8, HLO_S16, HLO_U16, HLO_S32, HLO_U32, HLO_S64, HLO_U64};

static bool has_sign(HloType type) {
    return hlo_type_kind(type) == HLO_KIND_SIGNED;
}

// The value of a number in the type: its lowest bits, as a number with or without a sign.
static Wide wrap(HloType type, Wide value) {
    const int bits = hlo_type_info(type)->bits;
    const Wide size = (Wide)1 << bits;
    value %= size;
    if (value < 0) value += size;
    return has_sign(type) && value >= size / 2 ? value - size : value;
}

// Its bits as a number without sign.
static Wide unsigned_of(HloType type, Wide value) {
    return value < 0 ? value + ((Wide)1 << hlo_type_info(type)->bits) : value;
}

static Wide element(const HloLiteral *literal, int64_t index) {
    const int64_t value = hlo_literal_get_int64(literal, index);
    return literal->shape->type == HLO_U64 ? (Wide)(uint64_t)value : (Wide)value;
}

static Wide add(HloType type, Wide a, Wide b) {
    (void)type;
    return a + b;
}
static Wide subtract(HloType type, Wide a, Wide b) {
    (void)type;
    return a - b;
}
// In two steps, since a product of two u64 takes all of 128 bits.
static Wide multiply(HloType type, Wide a, Wide b) {
    const Wide half = (Wide)1 << 32;
    return wrap(type, a * (b % half)) + wrap(type, a * (b / half)) % half * half;
}
static Wide divide(HloType type, Wide a, Wide b) {
    (void)type;
    return b == 0 ? -1 : a / b;
}
static Wide rest(HloType type, Wide a, Wide b) {
    (void)type;
    return b == 0 ? a : a % b;
}
static Wide larger(HloType type, Wide a, Wide b) {
    (void)type;
    return a > b ? a : b;
}
static Wide smaller(HloType type, Wide a, Wide b) {
    (void)type;
    return a < b ? a : b;
}

// Bit by bit, by the truth of two bits.
static Wide bitwise(HloType type, Wide a, Wide b, const bool truth[2][2]) {
    Wide result = 0;
    a = unsigned_of(type, a), b = unsigned_of(type, b);
    for (int bit = 0; bit < hlo_type_info(type)->bits; bit++)
        result += truth[a >> bit & 1][b >> bit & 1] ? (Wide)1 << bit : 0;
    return result;
}
static Wide both(HloType type, Wide a, Wide b) {
    return bitwise(type, a, b, (const bool[2][2]){{false, false}, {false, true}});
}
static Wide either(HloType type, Wide a, Wide b) {
    return bitwise(type, a, b, (const bool[2][2]){{false, true}, {true, true}});
}
static Wide one_of(HloType type, Wide a, Wide b) {
    return bitwise(type, a, b, (const bool[2][2]){{false, true}, {true, false}});
}

// A shift is so many doublings or halvings, at most as many as there are bits.
static Wide shift(HloType type, Wide a, Wide b, bool left) {
    Wide steps = unsigned_of(type, b);
    if (steps > hlo_type_info(type)->bits) steps = hlo_type_info(type)->bits;
    for (; steps > 0; steps--) a = left ? wrap(type, 2 * a) : (a - (a & 1)) / 2;  // towards minus infinity
    return a;
}
static Wide shift_left(HloType type, Wide a, Wide b) {
    return shift(type, a, b, true);
}
static Wide shift_logical(HloType type, Wide a, Wide b) {
    return shift(type, unsigned_of(type, a), b, false);
}
// A number without a sign is shifted as if it had one.
static Wide shift_arithmetic(HloType type, Wide a, Wide b) {
    const Wide half = (Wide)1 << (hlo_type_info(type)->bits - 1);
    return shift(type, a >= half ? a - 2 * half : a, b, false);
}

// A product of b factors; with a negative b, one divided by it and cut.
static Wide power(HloType type, Wide a, Wide b) {
    if (b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
    Wide result = 1;
    if (b > 4096) {  // by halving: counting to 2^64 takes too long
        result = power(type, a, b / 2);
        result = wrap(type, multiply(type, result, result));
        return b % 2 ? wrap(type, multiply(type, result, a)) : result;
    }
    for (; b > 0; b--) result = wrap(type, multiply(type, result, a));
    return result;
}

static const struct {
    const char *op;
    Wide (*define)(HloType type, Wide a, Wide b);
} binary_ops[] = {{"add", add},
                  {"subtract", subtract},
                  {"divide", divide},
                  {"remainder", rest},
                  {"maximum", larger},
                  {"minimum", smaller},
                  {"and", both},
                  {"or", either},
                  {"xor", one_of},
                  {"shift-left", shift_left},
                  {"shift-right-logical", shift_logical},
                  {"shift-right-arithmetic", shift_arithmetic},
                  {"power", power},
                  {"multiply", multiply}};

static Wide absolute(HloType type, Wide a) {
    (void)type;
    return a < 0 ? -a : a;
}
static Wide negated(HloType type, Wide a) {
    (void)type;
    return -a;
}
static Wide inverted(HloType type, Wide a) {
    (void)type;
    return -1 - a;
}
static Wide sign(HloType type, Wide a) {
    (void)type;
    return a > 0 ? 1 : a < 0 ? -1 : 0;
}
static Wide ones(HloType type, Wide a) {
    Wide count = 0;
    for (a = unsigned_of(type, a); a > 0; a /= 2) count += a % 2;
    return count;
}
static Wide leading_zeros(HloType type, Wide a) {
    Wide count = hlo_type_info(type)->bits;
    for (a = unsigned_of(type, a); a > 0; a /= 2) count--;
    return count;
}

static const struct {
    const char *op;
    Wide (*define)(HloType type, Wide a);
} unary_ops[] = {{"abs", absolute}, {"negate", negated}, {"not", inverted},
                 {"sign", sign},    {"popcnt", ones},    {"count-leading-zeros", leading_zeros}};

static const struct {
    const char *direction;
    bool less, equal, greater;
} directions[] = {{"EQ", false, true, false}, {"NE", true, false, true},  {"LT", true, false, false},
                  {"LE", true, true, false},  {"GT", false, false, true}, {"GE", false, true, true}};

// All pairs of numbers of up to 8 bits; of wider types pairs of their ends, of small and of random numbers.
static void fill_pairs(Defined *test, HloType type) {
    const int bits = hlo_type_info(type)->bits;
    const int64_t side = bits <= 8 ? 1 << bits : 96;
    HloLiteral *a = add_vector(test, type, side * side), *b = add_vector(test, type, side * side);
    int64_t numbers[256];
    for (int64_t i = 0; i < side; i++) {
        const uint64_t top = UINT64_C(1) << (bits - 1);
        const int64_t ends[] = {
            0,    1,        2, 3,  -1, -2, -3, (int64_t)top, (int64_t)(top - 1), (int64_t)(top + 1), bits - 1,
            bits, bits + 1, 7, 10, 31, 63, 64};
        numbers[i] = bits <= 8 ? i : defined_draw(test, INT64_MIN / 2, INT64_MAX / 2) * 2 + (i & 1);
        if (bits > 8 && i < (int64_t)HLO_COUNT_OF(ends)) numbers[i] = ends[i];
        if (bits > 8 && i % 3 == 2) numbers[i] >>= defined_draw(test, 0, 60);
    }
    for (int64_t i = 0; i < side * side; i++) {
        hlo_literal_set_int64(a, i, numbers[i / side]);
        hlo_literal_set_int64(b, i, numbers[i % side]);
    }
}

CaseList(defined_elements, integers_are_what_128_bits_give) {
    return cases_numbered(HLO_COUNT_OF(integers));
}

CaseTest(const int *which, defined_elements, integers_are_what_128_bits_give) {
    const HloType type = integers[*which];
    const char *name = hlo_type_text(type);
    Defined test = defined_begin((uint64_t)*which);
    fill_pairs(&test, type);
    const int64_t count = hlo_shape_elements(test.arguments[0]->shape);
    HloText results = {0}, shapes = {0};
    for (size_t i = 0; i < HLO_COUNT_OF(binary_ops); i++)
        hlo_text_format(&test.body, " x%zu = %s[%lld] %s(p0, p1)\n", i, name, (long long)count, binary_ops[i].op);
    for (size_t i = 0; i < HLO_COUNT_OF(unary_ops); i++) {
        const bool defined = has_sign(type) || (strcmp(unary_ops[i].op, "abs") && strcmp(unary_ops[i].op, "sign"));
        hlo_text_format(&test.body, " y%zu = %s[%lld] %s(p0)\n", i, name, (long long)count,
                        defined ? unary_ops[i].op : "copy");
    }
    for (size_t i = 0; i < HLO_COUNT_OF(directions); i++)
        hlo_text_format(&test.body, " z%zu = pred[%lld] compare(p0, p1), direction=%s\n", i, (long long)count,
                        directions[i].direction);
    const size_t sections[] = {HLO_COUNT_OF(binary_ops), HLO_COUNT_OF(unary_ops), HLO_COUNT_OF(directions)};
    for (int s = 0; s < 3; s++)
        for (size_t i = 0; i < sections[s]; i++) {
            hlo_text_format(&results, "%s%c%zu", results.length ? ", " : "", "xyz"[s], i);
            hlo_text_format(&shapes, "%s%s[%lld]", shapes.length ? ", " : "", s == 2 ? "pred" : name, (long long)count);
        }
    hlo_text_format(&test.body, " ROOT r = (%s) tuple(%s)", shapes.data, results.data);
    defined_run(&test);
    HloLiteral *const *parts = test.result->elements;
    for (int64_t i = 0; i < count; i++) {
        const Wide a = element(test.arguments[0], i), b = element(test.arguments[1], i);
        for (size_t op = 0; op < HLO_COUNT_OF(binary_ops); op++) {
            const Wide want = wrap(type, binary_ops[op].define(type, a, b)), have = element(parts[op], i);
            cr_assert(have == want, "%s %s(%lld, %lld) is %lld, not %lld", name, binary_ops[op].op, (long long)a,
                      (long long)b, (long long)have, (long long)want);
        }
        for (size_t op = 0; op < HLO_COUNT_OF(unary_ops); op++) {
            if (!has_sign(type) && (unary_ops[op].define == absolute || unary_ops[op].define == sign)) continue;
            const Wide want = wrap(type, unary_ops[op].define(type, a)), have = element(parts[sections[0] + op], i);
            cr_assert(have == want, "%s %s(%lld) is %lld, not %lld", name, unary_ops[op].op, (long long)a,
                      (long long)have, (long long)want);
        }
        for (size_t op = 0; op < HLO_COUNT_OF(directions); op++) {
            const bool want = a < b ? directions[op].less : a > b ? directions[op].greater : directions[op].equal;
            cr_assert_eq(element(parts[sections[0] + sections[1] + op], i), want, "%s %lld %s %lld", name, (long long)a,
                         directions[op].direction, (long long)b);
        }
    }
    hlo_text_free(&results);
    hlo_text_free(&shapes);
    defined_end(&test);
}

// Between all types of integers: the lowest bits stay.
CaseList(defined_elements, integers_are_converted_by_their_lowest_bits) {
    return cases_numbered(HLO_COUNT_OF(integers));
}

CaseTest(const int *which, defined_elements, integers_are_converted_by_their_lowest_bits) {
    const HloType from = integers[*which];
    for (size_t t = 0; t < HLO_COUNT_OF(integers); t++) {
        Defined test = defined_begin(t);
        fill_pairs(&test, from);
        const int64_t count = hlo_shape_elements(test.arguments[0]->shape);
        hlo_text_format(&test.body, " ROOT r = %s[%lld] convert(p0)", hlo_type_text(integers[t]), (long long)count);
        defined_run(&test);
        for (int64_t i = 0; i < count; i++)
            cr_assert(element(test.result, i) == wrap(integers[t], element(test.arguments[0], i)), "%s of %s",
                      hlo_type_text(integers[t]), hlo_type_text(from));
        defined_end(&test);
    }
}

// A float becomes the integer towards zero, the nearest end of the range, or 0 where it is not a number.
CaseList(defined_elements, floats_are_truncated_to_integers) {
    return cases_numbered(HLO_COUNT_OF(integers));
}

CaseTest(const int *which, defined_elements, floats_are_truncated_to_integers) {
    const HloType type = integers[*which];
    const int bits = hlo_type_info(type)->bits;
    const double low = has_sign(type) ? -ldexp(1, bits - 1) : 0, high = ldexp(1, has_sign(type) ? bits - 1 : bits);
    const double edges[] = {0,
                            -0.0,
                            0.5,
                            -0.5,
                            0.99999999,
                            -0.99999999,
                            1,
                            -1,
                            1.5,
                            low,
                            high,
                            low - 1,
                            low - 0.5,
                            high - 0.5,
                            high - 1,
                            high + 1,
                            1e300,
                            -1e300,
                            INFINITY,
                            -INFINITY,
                            NAN,
                            nextafter(high, 0),
                            nextafter(low, -INFINITY),
                            2.5,
                            -2.5,
                            100.75};
    Defined test = defined_begin(1);
    HloLiteral *given = add_vector(&test, HLO_F64, HLO_COUNT_OF(edges));
    memcpy(given->data, edges, sizeof(edges));
    hlo_text_format(&test.body, " ROOT r = %s[%zu] convert(p0)", hlo_type_text(type), HLO_COUNT_OF(edges));
    defined_run(&test);
    for (size_t i = 0; i < HLO_COUNT_OF(edges); i++) {
        const Wide most = wrap(type, -1) < 0 ? ((Wide)1 << (bits - 1)) - 1 : ((Wide)1 << bits) - 1;
        Wide want = isnan(edges[i]) ? 0 : edges[i] >= high ? most : edges[i] <= low ? (Wide)low : (Wide)trunc(edges[i]);
        if (bits == 1 && has_sign(type) && want > 0) want = 0;
        cr_expect(element(test.result, (int64_t)i) == want, "%s of %g is %lld", hlo_type_text(type), edges[i],
                  (long long)element(test.result, (int64_t)i));
    }
    defined_end(&test);
}

// 64 bits do not fit into the mantissa of a float: no other float is nearer.
Test(defined_elements, wide_integers_become_the_nearest_float) {
    static const HloType from[] = {HLO_S64, HLO_U64, HLO_S32, HLO_U32};
    for (size_t t = 0; t < HLO_COUNT_OF(from); t++) {
        Defined test = defined_begin(t);
        fill_pairs(&test, from[t]);
        const int64_t count = hlo_shape_elements(test.arguments[0]->shape);
        hlo_text_format(&test.body, " f = f32[%lld] convert(p0)\n d = f64[%lld] convert(p0)\n", (long long)count,
                        (long long)count);
        hlo_text_format(&test.body, " ROOT r = (f32[%lld], f64[%lld]) tuple(f, d)", (long long)count, (long long)count);
        defined_run(&test);
        for (int64_t i = 0; i < count; i++) {
            const long double exact = (long double)element(test.arguments[0], i);  // 64 bits of mantissa
            const float narrow = ((const float *)test.result->elements[0]->data)[i];
            const double wide = ((const double *)test.result->elements[1]->data)[i];
            const long double error = fabsl(narrow - exact);
            cr_assert(error <= fabsl(nextafterf(narrow, INFINITY) - exact) &&
                      error <= fabsl(nextafterf(narrow, -INFINITY) - exact));
            cr_assert(fabsl(wide - exact) <= fabsl(nextafter(wide, INFINITY) - exact) &&
                      fabsl(wide - exact) <= fabsl(nextafter(wide, -INFINITY) - exact));
        }
        defined_end(&test);
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Floats of one and two bytes

static const HloType narrow_floats[] = {HLO_F16,    HLO_BF16,          HLO_F8E5M2,     HLO_F8E4M3FN,   HLO_F8E4M3,
                                        HLO_F8E3M4, HLO_F8E4M3B11FNUZ, HLO_F8E5M2FNUZ, HLO_F8E4M3FNUZ, HLO_F4E2M1FN};

typedef struct Number {
    double value;
    uint64_t pattern;
} Number;

static int by_value(const void *a, const void *b) {
    const Number *x = a, *y = b;
    return x->value < y->value ? -1 : x->value > y->value;
}

// All finite numbers of the type from zero up, in order.
static int64_t list_numbers(HloType type, Number *numbers) {
    int64_t count = 0;
    for (uint64_t pattern = 0; pattern < UINT64_C(1) << hlo_type_info(type)->bits; pattern++) {
        const double value = hlo_float_decode(type, pattern);
        if (isfinite(value) && value >= 0 && !signbit(value)) numbers[count++] = (Number){value, pattern};
    }
    qsort(numbers, (size_t)count, sizeof(*numbers), by_value);
    return count;
}

static uint64_t pattern_at(const HloLiteral *literal, int64_t index) {
    uint64_t pattern = 0;
    const int64_t bytes = hlo_type_bytes(literal->shape->type);
    memcpy(&pattern, (const char *)literal->data + index * bytes, (size_t)bytes);
    return pattern;
}

CaseList(defined_elements, floats_are_rounded_to_the_nearest_and_to_even) {
    return cases_numbered(HLO_COUNT_OF(narrow_floats));
}

// Four numbers for each pair of neighbours: the lower one, just below the middle, the middle, just above.
CaseTest(const int *which, defined_elements, floats_are_rounded_to_the_nearest_and_to_even) {
    const HloType type = narrow_floats[*which];
    Number *numbers = malloc(sizeof(Number) << 16);
    const int64_t count = list_numbers(type, numbers), given = 4 * (count - 1);
    cr_assert_gt(count, 4);
    for (int negative = 0; negative < 2; negative++) {
        Defined test = defined_begin(1);
        HloLiteral *values = add_vector(&test, HLO_F32, given);
        for (int64_t i = 0; i + 1 < count; i++) {
            const float middle = (float)((numbers[i].value + numbers[i + 1].value) / 2);
            const float four[] = {(float)numbers[i].value, nextafterf(middle, 0), middle, nextafterf(middle, INFINITY)};
            for (int k = 0; k < 4; k++) ((float *)values->data)[4 * i + k] = negative ? -four[k] : four[k];
        }
        hlo_text_format(
            &test.body,
            " n = %s[%lld] convert(p0)\n w = f64[%lld] convert(n)\n ROOT r = (%s[%lld], f64[%lld]) tuple(n, w)",
            hlo_type_text(type), (long long)given, (long long)given, hlo_type_text(type), (long long)given,
            (long long)given);
        defined_run(&test);
        const double *wide = test.result->elements[1]->data;
        for (int64_t i = 0; i + 1 < count; i++) {
            const Number *low = &numbers[i], *high = &numbers[i + 1];
            const double even = low->pattern % 2 == 0 ? low->value : high->value;
            const double want[] = {low->value, low->value, even, high->value};
            for (int k = 0; k < 4; k++) {
                const float from = ((const float *)values->data)[4 * i + k];
                cr_assert(fabs(wide[4 * i + k]) == want[k], "%s of %.9g is %.9g", hlo_type_text(type), (double)from,
                          wide[4 * i + k]);
                cr_assert(want[k] == 0 || signbit(wide[4 * i + k]) == negative);
            }
            if (!negative) cr_assert_eq(pattern_at(test.result->elements[0], 4 * i), low->pattern);
        }
        defined_end(&test);
    }
    free(numbers);
}

// Sums, differences, products and quotients of two narrow numbers are those of doubles, rounded once: f16 has 11 digits
// and a double more than twice as many.
static double float_sum(double a, double b) {
    return a + b;
}
static double float_difference(double a, double b) {
    return a - b;
}
static double float_product(double a, double b) {
    return a * b;
}
static double float_quotient(double a, double b) {
    return a / b;
}

static const struct {
    const char *op;
    double (*define)(double a, double b);
} float_ops[] = {
    {"add", float_sum}, {"subtract", float_difference}, {"multiply", float_product}, {"divide", float_quotient}};

CaseList(defined_elements, narrow_arithmetic_is_rounded_once) {
    return cases_numbered(HLO_COUNT_OF(narrow_floats));
}

CaseTest(const int *which, defined_elements, narrow_arithmetic_is_rounded_once) {
    const HloType type = narrow_floats[*which];
    const int bits = hlo_type_info(type)->bits;
    const int64_t count = bits <= 8 ? INT64_C(1) << (2 * bits) : 40000, bytes = hlo_type_bytes(type);
    Defined test = defined_begin((uint64_t)*which);
    HloLiteral *sides[2] = {add_vector(&test, type, count), add_vector(&test, type, count)};
    for (int64_t i = 0; i < count; i++) {
        const int64_t patterns[] = {bits <= 8 ? i >> bits : defined_draw(&test, 0, 65535),
                                    bits <= 8 ? i & ((1 << bits) - 1) : defined_draw(&test, 0, 65535)};
        for (int s = 0; s < 2; s++) memcpy((char *)sides[s]->data + i * bytes, &patterns[s], (size_t)bytes);
    }
    for (size_t op = 0; op < HLO_COUNT_OF(float_ops); op++)
        hlo_text_format(&test.body, " r%zu = %s[%lld] %s(p0, p1)\n", op, hlo_type_text(type), (long long)count,
                        float_ops[op].op);
    hlo_text_string(&test.body, " ROOT r = (");
    for (size_t op = 0; op < HLO_COUNT_OF(float_ops); op++)
        hlo_text_format(&test.body, "%s%s[%lld]", op ? ", " : "", hlo_type_text(type), (long long)count);
    hlo_text_string(&test.body, ") tuple(r0, r1, r2, r3)");
    defined_run(&test);
    for (int64_t i = 0; i < count; i++) {
        const double a = hlo_float_decode(type, pattern_at(sides[0], i)),
                     b = hlo_float_decode(type, pattern_at(sides[1], i));
        for (size_t op = 0; op < HLO_COUNT_OF(float_ops); op++) {
            const double exact = float_ops[op].define(a, b);
            const double want = hlo_float_decode(type, hlo_float_encode(type, exact));
            const double have = hlo_float_decode(type, pattern_at(test.result->elements[op], i));
            cr_assert(have == want || (isnan(have) && isnan(want)), "%s: %s(%.9g, %.9g) is %.9g, not %.9g",
                      hlo_type_text(type), float_ops[op].op, a, b, have, want);
        }
    }
    defined_end(&test);
}

// With the digits of another type a number has the value of a conversion to it and back, except that no subnormal ones
// are left.
Test(defined_elements, reduced_precision_is_a_conversion_there_and_back) {
    static const struct {
        HloType type;
        int exponent, mantissa;
    } forms[] = {{HLO_F16, 5, 10}, {HLO_BF16, 8, 7}, {HLO_F8E5M2, 5, 2}, {HLO_F8E4M3, 4, 3}, {HLO_F8E3M4, 3, 4}};
    enum { COUNT = 20000 };
    for (size_t f = 0; f < HLO_COUNT_OF(forms); f++) {
        Defined test = defined_begin(f);
        HloLiteral *given = add_vector(&test, HLO_F32, COUNT);
        for (int64_t i = 0; i < COUNT; i++) {
            const double size = ldexp(1, (int)defined_draw(&test, -20, 20));
            ((float *)given->data)[i] = (float)(size * (double)defined_draw(&test, -4096, 4096) / 1024);
        }
        const char *name = hlo_type_text(forms[f].type);
        hlo_text_format(
            &test.body,
            " a = f32[%d] reduce-precision(p0), exponent_bits=%d, mantissa_bits=%d\n n = %s[%d] convert(p0)\n"
            " b = f32[%d] convert(n)\n ROOT r = (f32[%d], f32[%d]) tuple(a, b)",
            COUNT, forms[f].exponent, forms[f].mantissa, name, COUNT, COUNT, COUNT, COUNT);
        defined_run(&test);
        const double smallest = ldexp(1, 2 - (1 << (forms[f].exponent - 1)));  // normal
        for (int64_t i = 0; i < COUNT; i++) {
            const float a = ((const float *)test.result->elements[0]->data)[i];
            const float b = ((const float *)test.result->elements[1]->data)[i];
            const double want = fabs((double)b) < smallest ? 0 : (double)b;
            // A number that rounds up to the smallest normal one may have been below it before.
            const double before = fabs((double)((const float *)given->data)[i]);
            if (before < smallest && fabs((double)b) >= smallest) continue;
            cr_assert((double)a == want, "%s: %.9g became %.9g, not %.9g", name, before, (double)a, want);
        }
        defined_end(&test);
    }
}

// The middle one of three, where the bounds are in order; else the upper bound, which comes last.
Test(defined_elements, clamped_between_its_bounds) {
    static const HloType types[] = {HLO_F32, HLO_S32, HLO_U8, HLO_BF16, HLO_S4, HLO_F64};
    for (uint64_t seed = 0; seed < 200; seed++) {
        Defined test = defined_begin(seed);
        const HloType type = types[defined_draw(&test, 0, (int64_t)HLO_COUNT_OF(types) - 1)];
        const Dims dims = vector_of(defined_draw(&test, 0, 9)), scalar = {.rank = 0};
        const bool wide[] = {defined_draw(&test, 0, 1) == 1, defined_draw(&test, 0, 1) == 1};
        const HloLiteral *low = defined_array(&test, type, wide[0] ? dims : scalar);
        const HloLiteral *value = defined_array(&test, type, dims);
        const HloLiteral *high = defined_array(&test, type, wide[1] ? dims : scalar);
        hlo_text_format(&test.body, " ROOT r = %s[%lld] clamp(p0, p1, p2)", hlo_type_text(type), (long long)dims.at[0]);
        defined_run(&test);
        Dims index;
        for (bool more = defined_first(dims, &index); more; more = defined_next(dims, &index)) {
            const double least = defined_at(low, wide[0] ? index : scalar),
                         most = defined_at(high, wide[1] ? index : scalar);
            const double raised = fmax(defined_at(value, index), least);
            defined_is(&test, test.result, index, fmin(raised, most), 0);
        }
        defined_end(&test);
    }
}
