// SPDX-License-Identifier: Apache-2.0
#include "tests/support/random_module.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/random_internal.h"

enum { kUsualElements = 4096, kManyElements = 65536 };

uint64_t random_draw(Generator *g) {
    return random_next(&g->random);
}

int64_t random_below(Generator *g, int64_t limit) {
    return limit ? (int64_t)(random_draw(g) % (uint64_t)limit) : 0;
}
bool random_is_large(const Generator *g) {
    return g->most_elements > kUsualElements;
}

bool random_chance(Generator *g, int64_t percent) {
    return random_below(g, 100) < percent;
}

int64_t random_size(Generator *g, int64_t most) {
    return 1 + random_below(g, most);
}

int random_called(Generator *g) {
    return g->called_count++;
}

Value random_scalar(HloType type) {
    return (Value){.type = type, .exact = true};
}

void random_permutation(Generator *g, int64_t *items, int count) {
    for (int i = 0; i < count; i++) items[i] = i;
    for (int i = count; i-- > 1;) {
        const int64_t other = random_below(g, i + 1), swap = items[i];
        items[i] = items[other];
        items[other] = swap;
    }
}

int64_t random_elements(const Value *value) {
    int64_t product = 1;
    for (int d = 0; d < value->rank; d++) product *= value->dims[d];
    return product;
}

static bool is_float(HloType type) {
    return hlo_type_is_float(type);
}

// ---- text

void random_print_list(HloText *text, const char *name, const int64_t *items, int count) {
    hlo_text_format(text, "%s{", name);
    for (int i = 0; i < count; i++) hlo_text_format(text, "%s%lld", i ? "," : "", (long long)items[i]);
    hlo_text_char(text, '}');
}

void random_print_shape(HloText *text, const Value *value) {
    hlo_text_format(text, "%s[", hlo_type_text(value->type));
    for (int d = 0; d < value->rank; d++)
        hlo_text_format(text, "%s%s%lld", d ? "," : "", value->bounds[d] ? "<=" : "", (long long)value->dims[d]);
    hlo_text_char(text, ']');
}

// "  v7 = f32[2,3] "; the caller goes on with the op. Returns the new value's number.
int random_begin(Generator *g, Value value) {
    const int number = g->count++;
    if (number == kMaximumValues) abort();
    g->values[number] = value;
    hlo_text_format(g->text, "  v%d = ", number);
    random_print_shape(g->text, &value);
    hlo_text_char(g->text, ' ');
    return number;
}

int random_put(Generator *g, Value value, const char *format, ...) {
    const int number = random_begin(g, value);
    va_list arguments;
    va_start(arguments, format);
    hlo_text_format_list(g->text, format, arguments);
    va_end(arguments);
    hlo_text_char(g->text, '\n');
    return number;
}

int random_scaled(Generator *g, int number, const char *factor) {
    const Value value = g->values[number];
    g->values[number].unscaled = true;
    const int scale = random_splat(g, value, factor);
    return random_put(g, value, "multiply(v%d, v%d)", number, scale);
}

int random_ordered(Generator *g, int number) {
    const Value value = g->values[number];
    if (!g->exact || !hlo_type_is_float(value.type)) return number;
    Value truth = value;
    truth.type = HLO_PRED;
    const int same = random_put(g, truth, "compare(v%d, v%d), direction=EQ", number, number);
    const int one = random_splat(g, value, "1");
    return random_put(g, value, "select(v%d, v%d, v%d)", same, number, one);
}

// ---- reducers

static const char *const kReducers[REDUCERS] = {"add", "maximum", "minimum", "multiply", "and", "or", "xor"};

ReducerName random_reducer(Generator *g, Reducer reducer, HloType type) {
    ReducerName name;
    const char *text = hlo_type_text(type), *op = kReducers[reducer];
    snprintf(name.text, sizeof name.text, "%s_%s", op, text);
    if (!(g->reducers[type] >> reducer & 1)) {
        hlo_text_format(g->head, "%s { x = %s[] parameter(0)\n y = %s[] parameter(1)\n ROOT r = %s[] %s(x, y) }\n\n",
                        name.text, text, text, text, op);
        g->reducers[type] |= (uint8_t)(1U << reducer);
    }
    return name;
}

Reducer random_exact_reducer(Generator *g, HloType type) {
    if (type == HLO_PRED) return (Reducer)(AND + random_below(g, 3));
    if (is_float(type)) return random_chance(g, 50) ? MAXIMUM : MINIMUM;
    return (Reducer)random_below(g, REDUCERS);
}

// ---- leaves

static const HloType kTypes[] = {HLO_F32,    HLO_F32,      HLO_F32,        HLO_F32,        HLO_F32,
                                 HLO_F32,    HLO_S32,      HLO_S32,        HLO_S32,        HLO_F64,
                                 HLO_F64,    HLO_F16,      HLO_BF16,       HLO_BF16,       HLO_U8,
                                 HLO_S8,     HLO_S16,      HLO_U16,        HLO_U32,        HLO_U32,
                                 HLO_S64,    HLO_U64,      HLO_PRED,       HLO_PRED,       HLO_S4,
                                 HLO_U4,     HLO_C64,      HLO_C64,        HLO_C128,       HLO_S2,
                                 HLO_U2,     HLO_F8E5M2,   HLO_F8E4M3FN,   HLO_F8E8M0FNU,  HLO_F8E4M3,
                                 HLO_F8E3M4, HLO_F4E2M1FN, HLO_F8E5M2FNUZ, HLO_F8E4M3FNUZ, HLO_F8E4M3B11FNUZ,
                                 HLO_S1,     HLO_U1};

HloType random_type(Generator *g) {
    enum { kForeign = 2 };  // the last ones, which StableHLO does not have
    return kTypes[random_below(g, (int64_t)HLO_COUNT_OF(kTypes) - (g->portable ? kForeign : 0))];
}

static Value random_value(Generator *g, HloType type) {
    static const int64_t kSmall[] = {1, 2, 3, 4, 5, 7, 8, 16, 17, 0},
                         kLarge[] = {1, 2, 3, 7, 16, 31, 33, 64, 100, 257, 1000, 4099};
    Value value = {.type = type, .rank = (int)random_below(g, kUsualRank + 1), .exact = true};
    for (int d = 0; d < value.rank; d++) {
        value.dims[d] = random_is_large(g) ? kLarge[random_below(g, HLO_COUNT_OF(kLarge))]
                                           : kSmall[random_below(g, HLO_COUNT_OF(kSmall))];
    }
    while (random_elements(&value) > g->most_elements) value.rank--;
    return value;
}

int random_parameter(Generator *g, Value value) {
    value.exact = true;
    const int number = random_begin(g, value), place = g->parameter_count++;
    g->parameters[place] = number;
    hlo_text_format(g->text, g->takes_tuple ? "get-tuple-element(state), index=%d\n" : "parameter(%d)\n", place);
    return number;
}

// The first one is a parameter, so the way back from an unscaled sum ends.
int random_pick(Generator *g) {
    int number = (int)random_below(g, g->count);
    while (g->values[number].unscaled || random_is_bounded(&g->values[number])) number--;
    return number;
}

// A value that an op which needs `wanted` types may take, or -1.
int random_pick_where(Generator *g, bool (*wanted)(const Value *value)) {
    for (int tries = 0; tries < 12; tries++) {
        const int number = random_pick(g);
        if (wanted(&g->values[number])) return number;
    }
    return -1;
}

bool random_same_form(const Value *a, const Value *b) {
    if (a->type != b->type || a->rank != b->rank) return false;
    for (int d = 0; d < a->rank; d++)
        if (a->dims[d] != b->dims[d] || a->bounds[d] != b->bounds[d]) return false;
    return true;
}

// Another value of the same form: one that is there, or a new parameter.
int random_partner(Generator *g, Value form) {
    for (int tries = 0; tries < 8; tries++) {
        const int number = random_pick(g);
        if (random_same_form(&g->values[number], &form)) return number;
    }
    return random_parameter(g, form);
}

int random_equal_partner(Generator *g, Value form) {
    const int number = random_partner(g, form);
    return g->values[number].exact || !form.exact ? number : random_parameter(g, form);
}

int random_splat(Generator *g, Value form, const char *literal) {
    const bool is_complex = hlo_type_is_complex(form.type);
    const int number =
        random_put(g, random_scalar(form.type), is_complex ? "constant((%s, 0))" : "constant(%s)", literal);
    if (form.rank == 0) return number;
    form.exact = true;
    const int result = random_begin(g, form);
    hlo_text_format(g->text, "broadcast(v%d), dimensions={}\n", number);
    return result;
}

// ---- elementwise

static bool wants_float(const Value *value) {
    return is_float(value->type);
}
static bool wants_any(const Value *value) {
    return value->rank >= 0;
}
bool random_wants_exact(const Value *value) {
    return value->exact && value->type != HLO_PRED && !hlo_type_is_complex(value->type);
}
bool random_wants_dimensions(const Value *value) {
    return value->rank > 0;
}

bool random_wants_exact_array(const Value *value) {
    return random_wants_exact(value) && random_wants_dimensions(value);
}

static void smooth_unary(Generator *g) {
    static const char *const kOps[] = {"tanh", "sine", "cosine", "logistic", "negate", "abs", "erf", "atan2"};
    const int a = random_pick_where(g, wants_float);
    if (a < 0) return;
    const int64_t op = random_below(g, 7);
    Value value = g->values[a];
    value.exact = value.exact && op >= 4 && op <= 5;
    random_begin(g, value);
    hlo_text_format(g->text, "%s(v%d)\n", kOps[op], a);
}

static void jumping_unary(Generator *g) {
    static const char *const kOps[] = {"floor", "ceil", "sign", "round-nearest-even", "round-nearest-afz", "is-finite"};
    const int a = random_pick_where(g, random_wants_exact);
    if (a < 0) return;
    Value value = g->values[a];
    if (is_float(value.type)) {
        const int64_t op = random_below(g, 6);
        if (op == 5) value.type = HLO_PRED;
        random_begin(g, value);
        hlo_text_format(g->text, "%s(v%d)\n", kOps[op], a);
    } else {
        static const char *const kInteger[] = {"not", "popcnt", "count-leading-zeros", "sign", "negate", "abs"};
        const bool is_signed = hlo_type_kind(value.type) == HLO_KIND_SIGNED;
        random_put(g, value, "%s(v%d)", kInteger[random_below(g, is_signed ? 6 : 3)], a);
    }
}

static void binary(Generator *g) {
    static const char *const kNumber[] = {"add", "subtract", "multiply", "maximum", "minimum"};
    static const char *const kInteger[] = {
        "and",  "or", "xor", "divide", "remainder", "shift-left", "shift-right-logical", "shift-right-arithmetic",
        "power"};
    static const char *const kExact[] = {"add", "subtract", "multiply", "divide", "maximum", "minimum", "remainder"};
    static const char *const kLogical[] = {"and", "or", "xor", "maximum", "minimum", "add", "multiply"};
    const int a = random_pick_where(g, wants_any);
    if (a < 0) return;
    const int b = random_partner(g, g->values[a]);
    Value value = g->values[a];
    const bool is_complex = hlo_type_is_complex(value.type), rounds = is_float(value.type) || is_complex;
    const char *op = kNumber[random_below(g, !is_complex ? 5 : g->exact ? 2 : 3)];
    if (value.type == HLO_PRED)
        op = kLogical[random_below(g, HLO_COUNT_OF(kLogical))];
    else if (!rounds && random_chance(g, 60))
        op = kInteger[random_below(g, HLO_COUNT_OF(kInteger))];
    else if (g->exact && is_float(value.type))
        op = kExact[random_below(g, HLO_COUNT_OF(kExact))];
    const bool chooses = g->exact || (op[0] == 'm' && op[1] != 'u');
    value.exact = g->values[a].exact && g->values[b].exact && (!rounds || chooses);
    const int result = random_put(g, value, "%s(v%d, v%d)", op, a, b);
    if (rounds && !chooses) random_scaled(g, result, "0.25");
}

static void compare_and_select(Generator *g) {
    static const char *const kDirections[] = {"EQ", "NE", "LT", "LE", "GT", "GE"};
    int a = random_pick_where(g, random_wants_exact);
    if (a < 0) return;
    Value form = g->values[a];
    int b = random_partner(g, form);
    if (!g->values[b].exact) b = random_parameter(g, form);
    const bool total = is_float(form.type) && random_chance(g, 25);
    if (total) {
        a = random_ordered(g, a);
        b = random_ordered(g, b);
    }
    form.type = HLO_PRED;
    const int predicate = random_begin(g, form);
    hlo_text_format(g->text, "compare(v%d, v%d), direction=%s%s\n", a, b, kDirections[random_below(g, 6)],
                    total ? ", type=TOTALORDER" : "");
    form.type = random_type(g);
    const int x = random_partner(g, form), y = random_partner(g, form);
    form.exact = g->values[x].exact && g->values[y].exact;
    random_begin(g, form);
    hlo_text_format(g->text, "select(v%d, v%d, v%d)\n", predicate, x, y);
}

// By numbers, or by arrays that may cross.
static void clamp(Generator *g) {
    if (random_chance(g, 50)) {
        const int a = random_pick_where(g, random_wants_exact);
        if (a < 0) return;
        Value value = g->values[a];
        const bool scalars = random_chance(g, 30);
        const Value bound = scalars ? random_scalar(value.type) : value;
        const int low = random_partner(g, bound), high = random_partner(g, bound);
        value.exact = g->values[low].exact && g->values[high].exact;
        random_put(g, value, "clamp(v%d, v%d, v%d)", low, a, high);
        return;
    }
    const int a = random_pick_where(g, wants_float);
    if (a < 0) return;
    const Value scalar = random_scalar(g->values[a].type);
    const bool negative = scalar.type != HLO_F8E8M0FNU;  // which has no sign
    const int low = random_splat(g, scalar, negative ? "-0.5" : "0.5"), high = random_splat(g, scalar, "0.75");
    random_put(g, g->values[a], "clamp(v%d, v%d, v%d)", low, a, high);
}

static void convert(Generator *g) {
    const int a = random_pick_where(g, random_wants_exact);
    if (a < 0) return;
    Value value = g->values[a];
    value.type = random_type(g);
    random_begin(g, value);
    hlo_text_format(g->text, "convert(v%d)\n", a);
}

// ---- movement

static void broadcast(Generator *g) {
    const int a = random_pick_where(g, wants_any);
    Value from = g->values[a], to = from;
    if (from.rank == kMaximumRank || random_elements(&from) * 5 > g->most_elements) return;
    const int at = (int)random_below(g, from.rank + 1);
    to.rank++;
    int64_t dimensions[kMaximumRank];
    for (int d = 0, next = 0; d < to.rank; d++) {
        to.dims[d] = d == at ? 2 + random_below(g, 4) : from.dims[next];
        if (d != at) dimensions[next++] = d;
    }
    random_begin(g, to);
    hlo_text_format(g->text, "broadcast(v%d), ", a);
    random_print_list(g->text, "dimensions=", dimensions, from.rank);
    hlo_text_char(g->text, '\n');
}

static void reshape(Generator *g) {
    const int a = random_pick_where(g, random_wants_dimensions);
    if (a < 0) return;
    Value to = g->values[a];
    const int64_t total = random_elements(&to);
    to.rank = 1;
    to.dims[0] = total;
    for (int64_t split = 2; split < 9 && random_chance(g, 80); split++) {
        if (to.rank == kMaximumRank || to.dims[to.rank - 1] % split) continue;
        to.dims[to.rank] = to.dims[to.rank - 1] / split;
        to.dims[to.rank - 1] = split;
        to.rank++;
    }
    random_begin(g, to);
    hlo_text_format(g->text, "reshape(v%d)\n", a);
}

static void transpose(Generator *g) {
    const int a = random_pick_where(g, random_wants_dimensions);
    if (a < 0) return;
    const Value from = g->values[a];
    Value to = from;
    int64_t permutation[kMaximumRank];
    for (int d = 0; d < from.rank; d++) permutation[d] = d;
    for (int d = from.rank; d-- > 1;) {
        const int64_t other = random_below(g, d + 1), swap = permutation[d];
        permutation[d] = permutation[other];
        permutation[other] = swap;
    }
    for (int d = 0; d < from.rank; d++) to.dims[d] = from.dims[permutation[d]];
    random_begin(g, to);
    hlo_text_format(g->text, "transpose(v%d), ", a);
    random_print_list(g->text, "dimensions=", permutation, from.rank);
    hlo_text_char(g->text, '\n');
}

static void slice(Generator *g) {
    const int a = random_pick_where(g, random_wants_dimensions);
    if (a < 0) return;
    const Value from = g->values[a];
    Value to = from;
    int64_t start[kMaximumRank], limit[kMaximumRank], stride[kMaximumRank];
    for (int d = 0; d < from.rank; d++) {
        start[d] = random_below(g, from.dims[d]);
        limit[d] = from.dims[d] ? start[d] + 1 + random_below(g, from.dims[d] - start[d]) : 0;
        stride[d] = 1 + random_below(g, 3);
        to.dims[d] = (limit[d] - start[d] + stride[d] - 1) / stride[d];
    }
    random_begin(g, to);
    hlo_text_format(g->text, "slice(v%d), slice={", a);
    for (int d = 0; d < from.rank; d++)
        hlo_text_format(g->text, "%s[%lld:%lld:%lld]", d ? ", " : "", (long long)start[d], (long long)limit[d],
                        (long long)stride[d]);
    hlo_text_string(g->text, "}\n");
}

static void reverse(Generator *g) {
    const int a = random_pick_where(g, random_wants_dimensions);
    if (a < 0) return;
    const Value value = g->values[a];
    const int64_t dimension = random_below(g, value.rank);
    random_begin(g, value);
    hlo_text_format(g->text, "reverse(v%d), dimensions={%lld}\n", a, (long long)dimension);
}

static void pad(Generator *g) {
    const int a = random_pick_where(g, random_wants_dimensions);
    if (a < 0) return;
    const Value from = g->values[a];
    Value to = from;
    int64_t low[kMaximumRank], high[kMaximumRank], interior[kMaximumRank];
    for (int d = 0; d < from.rank; d++) {
        interior[d] = random_chance(g, 30) ? 1 + random_below(g, 2) : 0;
        const int64_t inner = from.dims[d] + (from.dims[d] ? (from.dims[d] - 1) * interior[d] : 0);
        low[d] = random_below(g, 5) - 2;
        high[d] = random_below(g, 5) - 2;
        if (inner + low[d] + high[d] < 1) low[d] = high[d] = 0;
        to.dims[d] = inner + low[d] + high[d];
    }
    if (random_elements(&to) > 2 * g->most_elements) return;
    const Value scalar = {.type = from.type, .exact = true};
    const int value = random_parameter(g, scalar);
    random_begin(g, to);
    hlo_text_format(g->text, "pad(v%d, v%d), padding=", a, value);
    for (int d = 0; d < from.rank; d++)
        hlo_text_format(g->text, "%s%lld_%lld_%lld", d ? "x" : "", (long long)low[d], (long long)high[d],
                        (long long)interior[d]);
    hlo_text_char(g->text, '\n');
}

static void concatenate(Generator *g) {
    const int a = random_pick_where(g, random_wants_dimensions);
    if (a < 0 || random_elements(&g->values[a]) * 2 > g->most_elements) return;
    Value value = g->values[a];
    const int b = random_partner(g, value);
    const int64_t dimension = random_below(g, value.rank);
    value.dims[dimension] *= 2;
    value.exact = g->values[a].exact && g->values[b].exact;
    random_begin(g, value);
    hlo_text_format(g->text, "concatenate(v%d, v%d), dimensions={%lld}\n", a, b, (long long)dimension);
}

// Start indices as s32 parameters.
static void print_starts(Generator *g, const int *starts, int rank) {
    for (int d = 0; d < rank; d++) hlo_text_format(g->text, ", v%d", starts[d]);
}

// A start as programs compute them: an s32 scalar, which later steps may use as well.
static int computed_start(Generator *g) {
    static const char *const kOperations[] = {"add", "xor", "maximum"};
    int start = random_partner(g, (Value){.type = HLO_S32});
    for (int64_t steps = random_below(g, 3); steps > 0; steps--) {
        const int left = start, right = random_partner(g, (Value){.type = HLO_S32});
        start = random_begin(g, (Value){.type = HLO_S32});
        hlo_text_format(g->text, "%s(v%d, v%d)\n", kOperations[random_below(g, HLO_COUNT_OF(kOperations))], left,
                        right);
    }
    return start;
}

static void dynamic(Generator *g) {
    const int a = random_pick_where(g, random_wants_dimensions);
    if (a < 0) return;
    const Value from = g->values[a];
    Value part = from;
    int starts[kMaximumRank];
    const bool element = random_chance(g, 25);  // as x[i] in a program
    static const HloType kStarts[] = {HLO_S64, HLO_U64, HLO_U32, HLO_U8, HLO_S8, HLO_S16, HLO_U16};
    const HloType type = random_chance(g, 75) ? HLO_S32 : kStarts[random_below(g, HLO_COUNT_OF(kStarts))];
    for (int d = 0; d < from.rank; d++) {
        starts[d] = type == HLO_S32 ? computed_start(g) : random_partner(g, random_scalar(type));
        part.dims[d] = element || !from.dims[d] ? from.dims[d] > 0 : 1 + random_below(g, from.dims[d]);
    }
    const int piece = random_begin(g, part);
    hlo_text_format(g->text, "dynamic-slice(v%d", a);
    print_starts(g, starts, from.rank);
    hlo_text_string(g->text, "), ");
    random_print_list(g->text, "dynamic_slice_sizes=", part.dims, from.rank);
    hlo_text_char(g->text, '\n');
    if (element && random_elements(&part) == 1 && random_chance(g, 70)) {
        const int scalar = random_begin(g, (Value){.type = from.type, .exact = from.exact});
        hlo_text_format(g->text, "reshape(v%d)\n", piece);
        if (from.type != HLO_S32 || type != HLO_S32) return;
        random_begin(g, (Value){.type = HLO_S32, .exact = true});
        hlo_text_format(g->text, "add(v%d, v%d)\n", scalar, starts[0]);
        return;
    }
    if (random_chance(g, 50)) return;
    int update = piece;
    if (random_chance(g, 50)) {
        update = random_begin(g, part);
        hlo_text_format(g->text, "%s(v%d, v%d)\n",
                        part.type == HLO_PRED            ? "xor"
                        : hlo_type_is_complex(part.type) ? "add"
                                                         : "maximum",
                        piece, piece);
    }
    random_begin(g, from);
    hlo_text_format(g->text, "dynamic-update-slice(v%d, v%d", a, update);
    print_starts(g, starts, from.rank);
    hlo_text_string(g->text, ")\n");
}

static void iota(Generator *g) {
    const Value value = random_value(g, random_type(g));
    if (value.rank == 0 || value.type == HLO_PRED) return;
    const int64_t dimension = random_below(g, value.rank);
    random_begin(g, value);
    hlo_text_format(g->text, "iota(), iota_dimension=%lld\n", (long long)dimension);
}

// ---- reductions

static void reduce(Generator *g) {
    const int a = random_pick_where(g, random_wants_dimensions);
    if (a < 0) return;
    Value value = g->values[a];
    const bool rounds = is_float(value.type) || hlo_type_is_complex(value.type);
    // Eight bits hold no sum.
    const bool sum =
        hlo_type_is_complex(value.type) || (rounds && hlo_type_bytes(value.type) > 1 && random_chance(g, 60));
    // Long sums of either side have errors of their own.
    if (sum && random_elements(&value) > kUsualElements) return;
    if (g->exact && sum) return;
    int64_t dimensions[kMaximumRank];
    int reduced = 0, kept = 0;
    for (int d = 0; d < g->values[a].rank; d++) {
        if (random_chance(g, 50))
            dimensions[reduced++] = d;
        else
            value.dims[kept++] = g->values[a].dims[d];
    }
    value.rank = kept;
    value.exact = value.exact && !sum;
    const ReducerName reducer = random_reducer(g, sum ? ADD : random_exact_reducer(g, value.type), value.type);
    const Value scalar = random_scalar(value.type);
    const int init = sum && random_chance(g, 50) ? random_splat(g, scalar, "0") : random_parameter(g, scalar);
    const int result = random_begin(g, value);
    hlo_text_format(g->text, "reduce(v%d, v%d), ", a, init);
    random_print_list(g->text, "dimensions=", dimensions, reduced);
    hlo_text_format(g->text, ", to_apply=%s\n", reducer.text);
    if (sum) random_scaled(g, result, "0.015625");
}

// ---- the module

typedef enum StepKind {
    USUAL,
    ROUNDS,   // makes sums of floats, or functions that are no two alike in the last digit
    FOREIGN,  // makes operations that StableHLO does not have
    ROUNDS_AND_FOREIGN
} StepKind;

typedef struct Step {
    void (*append)(Generator *g);
    StepKind kind;
} Step;

static const Step kSteps[] = {{smooth_unary, ROUNDS},
                              {jumping_unary, USUAL},
                              {binary, USUAL},
                              {binary, USUAL},
                              {binary, USUAL},
                              {compare_and_select, USUAL},
                              {clamp, USUAL},
                              {convert, USUAL},
                              {broadcast, USUAL},
                              {broadcast, USUAL},
                              {reshape, USUAL},
                              {transpose, USUAL},
                              {slice, USUAL},
                              {reverse, USUAL},
                              {pad, USUAL},
                              {concatenate, USUAL},
                              {dynamic, USUAL},
                              {iota, USUAL},
                              {reduce, USUAL},
                              {reduce, USUAL},
                              {random_dot, USUAL},
                              {random_dot, USUAL},
                              {random_any_type, USUAL},
                              {random_sort, USUAL},
                              {random_window, USUAL},
                              {random_gather, USUAL},
                              {random_scatter, USUAL},
                              {random_loop, USUAL},
                              {random_branch, USUAL},
                              {random_convolution, USUAL},
                              {random_any_convolution, USUAL},
                              {random_fft, ROUNDS},
                              {random_linear_algebra, ROUNDS},
                              {random_batch_norm, ROUNDS},
                              {random_any_gather, USUAL},
                              {random_any_scatter, USUAL},
                              {random_sort_by_keys, USUAL},
                              {random_topk, USUAL},
                              {random_argument, USUAL},
                              {random_select_and_scatter, USUAL},
                              {random_transcendental, ROUNDS},
                              {random_transcendental, ROUNDS},
                              {random_complex, ROUNDS},
                              {random_bits, USUAL},
                              {random_precision, USUAL},
                              {random_map, USUAL},
                              {random_barrier, USUAL},
                              {random_generator, USUAL},
                              {random_call, USUAL},
                              {random_fusion, USUAL},
                              {random_async, USUAL},
                              {random_choice, USUAL},
                              {random_stacking_loop, USUAL},
                              {random_scan, FOREIGN},
                              {random_ragged_dot, FOREIGN},
                              {random_scaled_dot, ROUNDS_AND_FOREIGN},
                              {random_stochastic, FOREIGN},
                              {random_high_product, FOREIGN},
                              {random_copy, USUAL},
                              {random_bounded, USUAL},
                              {random_bounded, USUAL}};

// Collectives and messages.
static const Step kDeviceSteps[] = {
    {random_own_number, USUAL}, {random_all_reduce, USUAL}, {random_reduce_scatter, USUAL},
    {random_all_gather, USUAL}, {random_all_to_all, USUAL}, {random_collective_broadcast, USUAL},
    {random_permute, USUAL},    {random_messages, USUAL},   {random_ragged_exchange, USUAL}};

static const Step *some_step(Generator *g) {
    const bool together = g->replicas * g->partitions > 1 && !g->apart;
    if (together && random_chance(g, 40)) return &kDeviceSteps[random_below(g, HLO_COUNT_OF(kDeviceSteps))];
    return &kSteps[random_below(g, HLO_COUNT_OF(kSteps))];
}

void random_steps(Generator *g, int count) {
    for (int i = 0; i < count && g->count < kMaximumValues - kMostOfAStep; i++) {
        const Step *step = some_step(g);
        if (!(g->exact && step->kind & ROUNDS) && !(g->portable && step->kind & FOREIGN)) step->append(g);
    }
}

// Some values, or nearly all of them: a value that is not a result may become part of a loop.
static int print_results(Generator *g, int *results) {
    int count = 0;
    const int64_t percent = random_chance(g, 70) ? 25 : 80, most = percent == 25 ? 8 : kMaximumValues;
    for (int i = g->count; i-- > 0 && count < most;)
        if (!g->values[i].unscaled && (i == g->count - 1 || random_chance(g, percent))) results[count++] = i;
    hlo_text_string(g->text, "  ROOT result = (");
    for (int i = 0; i < count; i++) {
        if (i) hlo_text_string(g->text, ", ");
        random_print_shape(g->text, &g->values[results[i]]);
    }
    hlo_text_string(g->text, ") tuple(");
    for (int i = 0; i < count; i++) hlo_text_format(g->text, "%sv%d", i ? ", " : "", results[i]);
    hlo_text_string(g->text, ")\n}\n");
    return count;
}

// Parameters that are donated to results of their form, and some that are donated without a result.
static void print_header(Generator *g, const int *results, int count, uint64_t seed, HloText *text) {
    bool given[kMaximumValues] = {false}, first = true;
    hlo_text_format(text, "HloModule random_%llu", (unsigned long long)seed);
    if (g->replicas > 1) hlo_text_format(text, ", replica_count=%d", g->replicas);
    if (g->partitions > 1) hlo_text_format(text, ", num_partitions=%d", g->partitions);
    const int64_t percent = random_chance(g, 40) ? 60 : 0;
    for (int r = 0; r < count; r++) {
        const int p = (int)random_below(g, g->parameter_count);
        if (given[p] || !random_chance(g, percent) ||
            !random_same_form(&g->values[g->parameters[p]], &g->values[results[r]]))
            continue;
        given[p] = true;
        hlo_text_format(text, "%s{%d}: (%d, {}, %s-alias)", first ? ", input_output_alias={ " : ", ", r, p,
                        random_chance(g, 50) ? "may" : "must");
        first = false;
    }
    if (!first) hlo_text_string(text, " }");
    const int donor = (int)random_below(g, g->parameter_count);
    if (percent && !given[donor]) hlo_text_format(text, ", buffer_donor={ (%d, {}) }", donor);
    hlo_text_string(text, "\n\n");
}

// The properties that a program must have.
typedef struct Wanted {
    bool exact, portable;
    int64_t most_elements;
    bool devices;  // several, that meet
} Wanted;

static void make_module(uint64_t seed, int operations, Wanted wanted, HloText *text) {
    Generator *g = calloc(1, sizeof *g);
    if (!g) abort();
    HloText entry = {0}, head = {0};
    int results[kMaximumValues];
    g->random.state = seed * 7919 + 17;
    g->text = &entry;
    g->head = &head;
    g->exact = wanted.exact;
    g->portable = wanted.portable;
    g->most_elements = wanted.most_elements;
    g->replicas = g->partitions = 1;
    if (wanted.devices) {
        static const int kWorlds[][2] = {{1, 2}, {1, 4}, {1, 8}, {2, 1}, {4, 1}, {2, 2}, {2, 4}, {3, 2}, {1, 3}};
        const int *world = kWorlds[random_below(g, HLO_COUNT_OF(kWorlds))];
        g->replicas = world[0];
        g->partitions = world[1];
    }
    for (int i = 0; i < 3; i++) random_parameter(g, random_value(g, i ? random_type(g) : HLO_F32));
    random_steps(g, operations);
    const int count = print_results(g, results);
    print_header(g, results, count, seed, text);
    if (head.length) hlo_text_append(text, head.data, head.length);
    hlo_text_string(text, "ENTRY main {\n");
    hlo_text_append(text, entry.data, entry.length);
    hlo_text_free(&entry);
    hlo_text_free(&head);
    free(g);
}

void random_module(uint64_t seed, int operations, HloText *text) {
    make_module(seed, operations, (Wanted){.most_elements = kUsualElements}, text);
}

void random_exact_module(uint64_t seed, int operations, HloText *text) {
    make_module(seed, operations, (Wanted){.exact = true, .most_elements = kUsualElements}, text);
}

void random_large_module(uint64_t seed, int operations, HloText *text) {
    make_module(seed, operations, (Wanted){.exact = seed % 2 == 0, .most_elements = kManyElements}, text);
}

void random_portable_module(uint64_t seed, int operations, HloText *text) {
    make_module(seed, operations, (Wanted){.portable = true, .most_elements = kUsualElements}, text);
}

void random_devices_module(uint64_t seed, int operations, HloText *text) {
    make_module(seed, operations, (Wanted){.exact = seed % 3 == 0, .most_elements = kUsualElements, .devices = true},
                text);
}
