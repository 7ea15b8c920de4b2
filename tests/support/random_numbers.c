// SPDX-License-Identifier: Apache-2.0
// Steps of random_module() about numbers themselves: functions of floats, complex numbers, bits, precision, and how
// computations are put together.
#include <string.h>

#include "tests/support/random_internal.h"

static bool wants_float(const Value *value) {
    return hlo_type_is_float(value->type);
}
static bool wants_exact_float(const Value *value) {
    return value->exact && hlo_type_is_float(value->type);
}

// Where a function does not magnify errors.
typedef enum Domain { UNIT, POSITIVE, ABOVE_ONE } Domain;

// A number of the domain made of any: all are well inside of it.
static int into(Generator *g, int number, Domain domain) {
    Value value = g->values[number];
    value.exact = false;
    number = random_put(g, value, "tanh(v%d)", number);
    const int most = random_splat(g, value, "0.875");
    number = random_put(g, value, "multiply(v%d, v%d)", number, most);
    if (domain == UNIT) return number;
    number = random_put(g, value, "abs(v%d)", number);
    const int least = random_splat(g, value, domain == POSITIVE ? "0.25" : "1.25");
    return random_put(g, value, "add(v%d, v%d)", number, least);
}

void random_transcendental(Generator *g) {
    static const struct {
        const char *name;
        Domain domain;
    } functions[] = {{"tan", UNIT},          {"asin", UNIT},        {"acos", UNIT},
                     {"atanh", UNIT},        {"asinh", UNIT},       {"sinh", UNIT},
                     {"cosh", UNIT},         {"exponential", UNIT}, {"exponential-minus-one", UNIT},
                     {"log-plus-one", UNIT}, {"log", POSITIVE},     {"sqrt", POSITIVE},
                     {"rsqrt", POSITIVE},    {"cbrt", POSITIVE},    {"acosh", ABOVE_ONE}};
    static const char *const two[] = {"divide", "remainder", "atan2"};
    if (random_chance(g, 25)) {  // of what has no error yet: they jump
        const int a = random_pick_where(g, wants_exact_float);
        if (a < 0) return;
        Value value = g->values[a];
        int b = random_partner(g, value);
        if (!g->values[b].exact) b = random_parameter(g, value);
        value.exact = false;
        const int result = random_put(g, value, "%s(v%d, v%d)", two[random_below(g, 3)], a, b);
        g->values[result].unscaled = true;
        random_put(g, value, "tanh(v%d)", result);
        return;
    }
    const int a = random_pick_where(g, wants_float);
    if (a < 0) return;
    const size_t f = (size_t)random_below(g, HLO_COUNT_OF(functions) + 2);
    const int x = into(g, a, f < HLO_COUNT_OF(functions) ? functions[f].domain : POSITIVE);
    const Value value = g->values[x];
    int result;
    if (f < HLO_COUNT_OF(functions)) {
        result = random_put(g, value, "%s(v%d)", functions[f].name, x);
    } else {
        const int y = into(g, random_partner(g, value), UNIT);
        result = f == HLO_COUNT_OF(functions) ? random_put(g, value, "power(v%d, v%d)", x, y)
                                              : random_put(g, value, "divide(v%d, v%d)", y, x);
    }
    random_scaled(g, result, "0.25");
}

// ---- complex numbers

static bool wants_part(const Value *value) {
    return value->type == HLO_F32 || value->type == HLO_F64;
}
static bool wants_complex(const Value *value) {
    return hlo_type_is_complex(value->type);
}

static void take_apart(Generator *g, int number) {
    static const char *const parts[] = {"real", "imag", "abs"};
    Value value = g->values[number];
    const int64_t part = random_below(g, 3);
    value.type = hlo_type_real_part(value.type);
    value.exact = value.exact && part < 2;
    random_put(g, value, "%s(v%d)", parts[part], number);
}

// A number of two, a function of one, or a part.
void random_complex(Generator *g) {
    static const char *const functions[] = {"exponential",           "sine", "cosine", "tanh", "logistic",
                                            "exponential-minus-one", "sqrt", "log",    "sign"};
    const int z = random_pick_where(g, wants_complex), a = random_pick_where(g, wants_part);
    if (z >= 0 && random_chance(g, 50)) {
        if (g->values[z].exact && random_chance(g, 30)) {
            Value truth = g->values[z];
            truth.type = HLO_PRED;
            const int other = random_partner(g, g->values[z]);
            if (g->values[other].exact)
                random_put(g, truth, "compare(v%d, v%d), direction=%s", z, other, random_chance(g, 50) ? "EQ" : "NE");
            return;
        }
        if (random_chance(g, 30)) random_put(g, g->values[z], "negate(v%d)", z);
        take_apart(g, z);
        return;
    }
    if (a < 0) return;
    Value value = g->values[a], complex = value;
    const bool applies = random_chance(g, 50);
    // The parts are in the right half plane, where roots and logarithms are smooth.
    const int re = applies ? into(g, a, POSITIVE) : a,
              im = applies ? into(g, random_partner(g, value), UNIT) : random_partner(g, value);
    complex.type = value.type == HLO_F32 ? HLO_C64 : HLO_C128;
    complex.exact = g->values[re].exact && g->values[im].exact;
    const int made = random_put(g, complex, "complex(v%d, v%d)", re, im);
    if (!applies) return;
    complex.exact = false;
    const int result = random_put(g, complex, "%s(v%d)", functions[random_below(g, HLO_COUNT_OF(functions))], made);
    take_apart(g, random_scaled(g, result, "0.25"));
}

// ---- bits

static HloType unsigned_of(int bits) {
    switch (bits) {
        case 1: return HLO_U1;
        case 2: return HLO_U2;
        case 4: return HLO_U4;
        case 8: return HLO_U8;
        case 16: return HLO_U16;
        case 32: return HLO_U32;
        default: return HLO_U64;
    }
}

// The bits of a number as an integer, or as several: what stays of them is small.
void random_bits(Generator *g) {
    const int a = random_pick_where(g, random_wants_exact);
    if (a < 0 || (g->exact && hlo_type_is_float(g->values[a].type))) return;  // of NaNs there are many
    Value value = g->values[a], bits = value;
    const int width = hlo_type_info(value.type)->bits;
    bits.type = unsigned_of(width);
    int number = random_put(g, bits, "bitcast-convert(v%d)", a);
    g->values[number].unscaled = true;
    if (random_chance(g, 30)) {
        random_put(g, value, "bitcast-convert(v%d)", number);
        return;
    }
    const int part = width > 8 && random_chance(g, 60) ? width / (random_chance(g, 50) ? 2 : 4) : width;
    if (part != width && part >= 4 && bits.rank < kMaximumRank &&
        random_elements(&bits) * (width / part) <= g->most_elements) {
        Value pieces = bits;
        pieces.type = unsigned_of(part);
        pieces.dims[pieces.rank++] = width / part;
        const int cut = random_put(g, pieces, "bitcast-convert(v%d)", number);
        g->values[cut].unscaled = true;
        const int turned = random_put(g, pieces, "reverse(v%d), dimensions={%d}", cut, pieces.rank - 1);
        g->values[turned].unscaled = true;
        number = random_put(g, bits, "bitcast-convert(v%d)", turned);
        g->values[number].unscaled = true;
    }
    const int mask = random_splat(g, bits, width == 1 ? "1" : width == 2 ? "3" : "7");
    random_put(g, bits, "and(v%d, v%d)", number, mask);
}

// Random bits of which three stay.
void random_generator(Generator *g) {
    static const char *const algorithms[] = {"rng_three_fry", "rng_philox", "rng_default"};
    static const HloType types[] = {HLO_U32, HLO_U64, HLO_U16, HLO_U8, HLO_S32};
    Value value = {.type = types[random_below(g, HLO_COUNT_OF(types))], .rank = (int)random_size(g, 3), .exact = true};
    const int number = random_called(g), algorithm = (int)random_below(g, 3);
    for (int d = 0; d < value.rank; d++) value.dims[d] = random_below(g, 9);
    hlo_text_format(g->text, "  state%d = u64[2] constant({%d, %d})\n  bits%d = (u64[2], ", number,
                    (int)random_below(g, 1000), (int)random_below(g, 1000), number);
    random_print_shape(g->text, &value);
    hlo_text_format(g->text, ") rng-bit-generator(state%d), algorithm=%s\n", number, algorithms[algorithm]);
    const int bits = random_put(g, value, "get-tuple-element(bits%d), index=1", number);
    g->values[bits].unscaled = true;
    const int mask = random_splat(g, value, "7");
    random_put(g, value, "and(v%d, v%d)", bits, mask);
}

void random_precision(Generator *g) {
    const int a = random_pick_where(g, wants_exact_float);
    if (a < 0) return;
    random_put(g, g->values[a], "reduce-precision(v%d), exponent_bits=%d, mantissa_bits=%d", a,
               5 + (int)random_below(g, 7), (int)random_below(g, 25));
}

// Rounded up or down as random bits say.
void random_stochastic(Generator *g) {
    static const HloType from64[] = {HLO_F32, HLO_BF16, HLO_F16, HLO_S32, HLO_S8},
                         from16[] = {HLO_F8E5M2, HLO_F8E4M3FN, HLO_S8, HLO_U8};
    const int a = random_pick_where(g, wants_exact_float);
    if (a < 0) return;
    Value value = g->values[a], bits = value;
    const int bytes = (int)hlo_type_bytes(value.type);
    if (bytes < 2) return;
    bits.type = bytes == 8 ? HLO_U64 : bytes == 4 ? HLO_U32 : HLO_U16;
    value.type = bytes == 2 ? from16[random_below(g, HLO_COUNT_OF(from16))]
                            : from64[(bytes == 4) + random_below(g, HLO_COUNT_OF(from64) - (bytes == 4))];
    const int random = random_equal_partner(g, bits);
    random_put(g, value, "stochastic-convert(v%d, v%d)", a, random);
}

static bool wants_word(const Value *value) {
    return value->exact && hlo_type_is_integer(value->type) && hlo_type_bytes(value->type) >= 4;
}

// The upper half of products.
void random_high_product(Generator *g) {
    const int a = random_pick_where(g, wants_word);
    if (a < 0) return;
    const int b = random_equal_partner(g, g->values[a]);
    random_put(g, g->values[a], "mulhi(v%d, v%d)", a, b);
}

// ---- structure

// A computation applied to each element of two arrays.
void random_map(Generator *g) {
    const int a = random_pick_where(g, random_wants_exact);
    if (a < 0) return;
    Value value = g->values[a];
    const int b = random_partner(g, value);
    const ReducerName reducer = random_reducer(g, random_exact_reducer(g, value.type), value.type);
    int64_t dimensions[kMaximumRank];
    for (int d = 0; d < value.rank; d++) dimensions[d] = d;
    value.exact = g->values[b].exact;
    random_begin(g, value);
    hlo_text_format(g->text, "map(v%d, v%d), ", a, b);
    random_print_list(g->text, "dimensions=", dimensions, value.rank);
    hlo_text_format(g->text, ", to_apply=%s\n", reducer.text);
}

static bool wants_any(const Value *value) {
    return value->rank >= 0;
}

// Two values through a barrier.
void random_barrier(Generator *g) {
    const int a = random_pick_where(g, wants_any), b = random_pick_where(g, wants_any), number = random_called(g);
    if (a < 0 || b < 0) return;
    const Value first = g->values[a], second = g->values[b];
    HloText shape = {0};
    random_print_shape(&shape, &first);
    hlo_text_string(&shape, ", ");
    random_print_shape(&shape, &second);
    hlo_text_format(g->text, "  pair%d = (%s) tuple(v%d, v%d)\n  kept%d = (%s) opt-barrier(pair%d)\n", number,
                    shape.data, a, b, number, shape.data, number);
    hlo_text_free(&shape);
    random_put(g, first, "get-tuple-element(kept%d), index=0", number);
    random_put(g, second, "get-tuple-element(kept%d), index=1", number);
}
