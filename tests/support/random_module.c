// SPDX-License-Identifier: Apache-2.0
#include "tests/support/random_module.h"

#include <stdlib.h>

#include "tests/support/random_internal.h"

uint64_t random_draw(Generator *g) {
    g->state += UINT64_C(0x9E3779B97F4A7C15);
    uint64_t x = g->state;
    x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
    return x ^ (x >> 31);
}

int64_t random_below(Generator *g, int64_t limit) {
    return limit ? (int64_t)(random_draw(g) % (uint64_t)limit) : 0;
}
bool random_chance(Generator *g, int64_t percent) {
    return random_below(g, 100) < percent;
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
    for (int d = 0; d < value->rank; d++) hlo_text_format(text, "%s%lld", d ? "," : "", (long long)value->dims[d]);
    hlo_text_char(text, ']');
}

// "  v7 = f32[2,3] "; the caller goes on with the op. Returns the new value's number.
int random_begin(Generator *g, Value value) {
    const int number = g->count;
    if (g->count < kMaximumValues) g->values[g->count++] = value;
    hlo_text_format(g->text, "  v%d = ", number);
    random_print_shape(g->text, &value);
    hlo_text_char(g->text, ' ');
    return number;
}

// ---- leaves

static const HloType kTypes[] = {HLO_F32, HLO_F32,  HLO_F32, HLO_F32, HLO_S32, HLO_S32, HLO_PRED,
                                 HLO_F64, HLO_BF16, HLO_F16, HLO_U8,  HLO_S64, HLO_U32, HLO_S8};

static Value random_value(Generator *g, HloType type) {
    static const int64_t kSizes[] = {1, 2, 3, 4, 5, 7, 8, 16, 17, 0};
    Value value = {.type = type, .rank = (int)random_below(g, kMaximumRank + 1), .exact = true};
    for (int d = 0; d < value.rank; d++) value.dims[d] = kSizes[random_below(g, HLO_COUNT_OF(kSizes))];
    while (random_elements(&value) > kMaximumElements) value.rank--;
    return value;
}

int random_parameter(Generator *g, Value value) {
    value.exact = true;
    const int number = random_begin(g, value);
    hlo_text_format(g->text, "parameter(%d)\n", g->parameter_count++);
    return number;
}

// Any value made so far. The first one is a parameter, so the way back from an unscaled sum ends.
static int pick(Generator *g) {
    int number = (int)random_below(g, g->count);
    while (g->values[number].unscaled) number--;
    return number;
}

// A value that an op which needs `wanted` types may take, or -1.
int random_pick_where(Generator *g, bool (*wanted)(const Value *value)) {
    for (int tries = 0; tries < 12; tries++) {
        const int number = pick(g);
        if (wanted(&g->values[number])) return number;
    }
    return -1;
}

static bool same_form(const Value *a, const Value *b) {
    if (a->type != b->type || a->rank != b->rank) return false;
    for (int d = 0; d < a->rank; d++)
        if (a->dims[d] != b->dims[d]) return false;
    return true;
}

// Another value of the same form: one that is there, or a new parameter.
int random_partner(Generator *g, Value form) {
    for (int tries = 0; tries < 8; tries++) {
        const int number = pick(g);
        if (same_form(&g->values[number], &form)) return number;
    }
    return random_parameter(g, form);
}

int random_splat(Generator *g, Value form, const char *literal) {
    Value scalar = {.type = form.type, .exact = true};
    const int number = random_begin(g, scalar);
    hlo_text_format(g->text, "constant(%s)\n", literal);
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
    return value->exact && value->type != HLO_PRED;
}
bool random_wants_dimensions(const Value *value) {
    return value->rank > 0;
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
        static const char *const kInteger[] = {"not", "popcnt", "count-leading-zeros"};
        random_begin(g, value);
        hlo_text_format(g->text, "%s(v%d)\n", kInteger[random_below(g, 3)], a);
    }
}

static void binary(Generator *g) {
    static const char *const kNumber[] = {"add", "subtract", "maximum", "minimum", "multiply"};
    static const char *const kInteger[] = {
        "and",  "or", "xor", "divide", "remainder", "shift-left", "shift-right-logical", "shift-right-arithmetic",
        "power"};
    static const char *const kLogical[] = {"and", "or", "xor"};
    const int a = random_pick_where(g, wants_any);
    if (a < 0) return;
    const int b = random_partner(g, g->values[a]);
    Value value = g->values[a];
    const char *op = kNumber[random_below(g, 5)];
    if (value.type == HLO_PRED)
        op = kLogical[random_below(g, 3)];
    else if (!is_float(value.type) && random_chance(g, 60))
        op = kInteger[random_below(g, 8)];
    const bool chooses = op[0] == 'm' && op[1] != 'u';
    value.exact = g->values[a].exact && g->values[b].exact && (!is_float(value.type) || chooses);
    const int result = random_begin(g, value);
    hlo_text_format(g->text, "%s(v%d, v%d)\n", op, a, b);
    if (!is_float(value.type) || chooses) return;
    const int half = random_splat(g, value, "0.25");
    random_begin(g, value);
    hlo_text_format(g->text, "multiply(v%d, v%d)\n", result, half);
}

static void compare_and_select(Generator *g) {
    static const char *const kDirections[] = {"EQ", "NE", "LT", "LE", "GT", "GE"};
    const int a = random_pick_where(g, random_wants_exact);
    if (a < 0) return;
    Value form = g->values[a];
    int b = random_partner(g, form);
    if (!g->values[b].exact) b = random_parameter(g, form);
    form.type = HLO_PRED;
    const int predicate = random_begin(g, form);
    hlo_text_format(g->text, "compare(v%d, v%d), direction=%s\n", a, b, kDirections[random_below(g, 6)]);
    form.type = kTypes[random_below(g, HLO_COUNT_OF(kTypes))];
    const int x = random_partner(g, form), y = random_partner(g, form);
    form.exact = g->values[x].exact && g->values[y].exact;
    random_begin(g, form);
    hlo_text_format(g->text, "select(v%d, v%d, v%d)\n", predicate, x, y);
}

static void clamp(Generator *g) {
    const int a = random_pick_where(g, wants_float);
    if (a < 0) return;
    const Value scalar = {.type = g->values[a].type, .exact = true};
    const int low = random_splat(g, scalar, "-0.5"), high = random_splat(g, scalar, "0.75");
    const Value value = g->values[a];
    random_begin(g, value);
    hlo_text_format(g->text, "clamp(v%d, v%d, v%d)\n", low, a, high);
}

static void convert(Generator *g) {
    const int a = random_pick_where(g, random_wants_exact);
    if (a < 0) return;
    Value value = g->values[a];
    value.type = kTypes[random_below(g, HLO_COUNT_OF(kTypes))];
    random_begin(g, value);
    hlo_text_format(g->text, "convert(v%d)\n", a);
}

// ---- movement

static void broadcast(Generator *g) {
    const int a = random_pick_where(g, wants_any);
    Value from = g->values[a], to = from;
    if (from.rank == kMaximumRank || random_elements(&from) * 5 > kMaximumElements) return;
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
    if (random_elements(&to) > 2 * kMaximumElements) return;
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
    if (a < 0 || random_elements(&g->values[a]) * 2 > kMaximumElements) return;
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
    for (int d = 0; d < from.rank; d++) {
        starts[d] = computed_start(g);
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
        if (from.type != HLO_S32) return;
        random_begin(g, (Value){.type = HLO_S32, .exact = true});
        hlo_text_format(g->text, "add(v%d, v%d)\n", scalar, starts[0]);
        return;
    }
    if (random_chance(g, 50)) return;
    int update = piece;
    if (random_chance(g, 50)) {
        update = random_begin(g, part);
        hlo_text_format(g->text, "%s(v%d, v%d)\n", part.type == HLO_PRED ? "xor" : "maximum", piece, piece);
    }
    random_begin(g, from);
    hlo_text_format(g->text, "dynamic-update-slice(v%d, v%d", a, update);
    print_starts(g, starts, from.rank);
    hlo_text_string(g->text, ")\n");
}

static void iota(Generator *g) {
    const Value value = random_value(g, random_chance(g, 50) ? HLO_F32 : HLO_S32);
    if (value.rank == 0) return;
    const int64_t dimension = random_below(g, value.rank);
    random_begin(g, value);
    hlo_text_format(g->text, "iota(), iota_dimension=%lld\n", (long long)dimension);
}

// ---- reductions

static void reduce(Generator *g) {
    const int a = random_pick_where(g, random_wants_dimensions);
    if (a < 0) return;
    Value value = g->values[a];
    const bool maximum = random_chance(g, 40), logical = value.type == HLO_PRED;
    int64_t dimensions[kMaximumRank];
    int reduced = 0, kept = 0;
    for (int d = 0; d < g->values[a].rank; d++) {
        if (random_chance(g, 50))
            dimensions[reduced++] = d;
        else
            value.dims[kept++] = g->values[a].dims[d];
    }
    value.rank = kept;
    value.exact = value.exact && (maximum || !is_float(value.type));
    const Value scalar = {.type = value.type, .exact = true};
    const int init =
        logical || !maximum ? random_splat(g, scalar, logical ? "false" : "0") : random_parameter(g, scalar);
    const int result = random_begin(g, value);
    hlo_text_format(g->text, "reduce(v%d, v%d), ", a, init);
    random_print_list(g->text, "dimensions=", dimensions, reduced);
    hlo_text_format(g->text, ", to_apply=%s_%s\n", logical ? "or" : maximum ? "max" : "sum", hlo_type_text(value.type));
    if (!is_float(value.type) || maximum) return;
    g->values[result].unscaled = true;
    const int scale = random_splat(g, value, "0.015625");
    random_begin(g, value);
    hlo_text_format(g->text, "multiply(v%d, v%d)\n", result, scale);
}

static void dot(Generator *g) {
    const int a = random_pick_where(g, random_wants_dimensions);
    if (a < 0 || !is_float(g->values[a].type) || g->values[a].type == HLO_F64) return;
    const Value left = g->values[a];
    const int64_t contracting = random_below(g, left.rank), size = left.dims[contracting];
    Value right = {.type = left.type, .rank = 2, .exact = true};
    const int64_t place = random_below(g, 2);
    right.dims[place] = size;
    right.dims[1 - place] = 1 + random_below(g, 9);
    Value out = {.type = left.type, .rank = left.rank};
    for (int d = 0, next = 0; d < left.rank; d++)
        if (d != contracting) out.dims[next++] = left.dims[d];
    out.dims[left.rank - 1] = right.dims[1 - place];
    const int b = random_partner(g, right);
    const int result = random_begin(g, out);
    hlo_text_format(g->text, "dot(v%d, v%d), lhs_contracting_dims={%lld}, rhs_contracting_dims={%lld}\n", a, b,
                    (long long)contracting, (long long)place);
    g->values[result].unscaled = true;
    const int scale = random_splat(g, out, "0.0625");
    random_begin(g, out);
    hlo_text_format(g->text, "multiply(v%d, v%d)\n", result, scale);
}

// ---- the module

typedef void Step(Generator *g);

static Step *const kSteps[] = {smooth_unary,
                               jumping_unary,
                               binary,
                               binary,
                               binary,
                               compare_and_select,
                               clamp,
                               convert,
                               broadcast,
                               broadcast,
                               reshape,
                               transpose,
                               slice,
                               reverse,
                               pad,
                               concatenate,
                               dynamic,
                               iota,
                               reduce,
                               reduce,
                               dot,
                               random_any_type,
                               random_sort,
                               random_window,
                               random_gather,
                               random_scatter,
                               random_loop,
                               random_branch,
                               random_convolution};

static void print_reducers(HloText *text) {
    static const HloType kEvery[] = {HLO_F32, HLO_S32, HLO_F64, HLO_BF16, HLO_F16, HLO_U8, HLO_S64, HLO_U32, HLO_S8};
    for (size_t i = 0; i < HLO_COUNT_OF(kEvery); i++) {
        const char *type = hlo_type_text(kEvery[i]);
        hlo_text_format(text, "sum_%s { x = %s[] parameter(0)\n y = %s[] parameter(1)\n ROOT r = %s[] add(x, y) }\n\n",
                        type, type, type, type);
        hlo_text_format(text,
                        "max_%s { x = %s[] parameter(0)\n y = %s[] parameter(1)\n ROOT r = %s[] maximum(x, y) }\n\n",
                        type, type, type, type);
    }
    hlo_text_string(text,
                    "or_pred { x = pred[] parameter(0)\n y = pred[] parameter(1)\n ROOT r = pred[] or(x, y) }\n\n");
}

void random_module(uint64_t seed, int operations, HloText *text) {
    Generator *g = calloc(1, sizeof *g);
    if (!g) abort();
    HloText entry = {0};
    g->state = seed * 7919 + 17;
    g->text = &entry;
    g->head = text;
    hlo_text_format(text, "HloModule random_%llu\n\n", (unsigned long long)seed);
    print_reducers(text);
    for (int i = 0; i < 3; i++)
        random_parameter(g, random_value(g, kTypes[random_below(g, i ? (int64_t)HLO_COUNT_OF(kTypes) : 4)]));
    for (int i = 0; i < operations && g->count < kMaximumValues - 16; i++)
        kSteps[random_below(g, HLO_COUNT_OF(kSteps))](g);
    int results[8], count = 0;
    for (int i = g->count; i-- > 0 && count < 8;)
        if (!g->values[i].unscaled && (i == g->count - 1 || random_chance(g, 25))) results[count++] = i;
    hlo_text_string(&entry, "  ROOT result = (");
    for (int i = 0; i < count; i++) {
        if (i) hlo_text_string(&entry, ", ");
        random_print_shape(&entry, &g->values[results[i]]);
    }
    hlo_text_string(&entry, ") tuple(");
    for (int i = 0; i < count; i++) hlo_text_format(&entry, "%sv%d", i ? ", " : "", results[i]);
    hlo_text_string(&entry, ")\n}\n");
    hlo_text_string(text, "ENTRY main {\n");
    hlo_text_append(text, entry.data, entry.length);
    hlo_text_free(&entry);
    free(g);
}
