// SPDX-License-Identifier: Apache-2.0
// Steps of random_module() on arrays of bounded dynamic size. Their values are used by each other and by the results:
// no other step takes a value with sizes, until a reduction or a question leaves none.
#include "tests/support/random_internal.h"

bool random_is_bounded(const Value *value) {
    bool any = false;
    for (int d = 0; d < value->rank; d++) any |= value->bounds[d] != 0;
    return any;
}

static int new_size(Generator *g) {
    return 1 + random_called(g);
}

static bool is_rounding(HloType type) {
    return hlo_type_is_float(type) || hlo_type_is_complex(type);
}

static bool wants_elements(const Value *value) {
    return value->rank > 0 && random_elements(value) > 0 && random_elements(value) < 600;
}

// An s32 from 0 to `most`.
static int some_size(Generator *g, int64_t most) {
    const Value scalar = random_scalar(HLO_S32);
    const int number = random_equal_partner(g, scalar);
    const int low = random_put(g, scalar, "constant(0)"), high = random_put(g, scalar, "constant(%d)", (int)most);
    return random_put(g, scalar, "clamp(v%d, v%d, v%d)", low, number, high);
}

static int with_size(Generator *g, int number, int dim, int size, int id) {
    Value value = g->values[number];
    value.bounds[dim] = id;
    return random_put(g, value, "set-dimension-size(v%d, v%d), dimensions={%d}", number, size, dim);
}

// A parameter, or an array that is cut to sizes that are computed. -1: no array will do.
static int make_bounded(Generator *g) {
    const int a = random_pick_where(g, wants_elements);
    if (a < 0) return -1;
    Value value = g->values[a];
    const int dim = (int)random_below(g, value.rank);
    if (g->depth == 0 && random_chance(g, 25)) {
        value.bounds[dim] = new_size(g);
        return random_parameter(g, value);
    }
    int number = with_size(g, a, dim, some_size(g, value.dims[dim]), new_size(g));
    const int other = (int)random_below(g, value.rank);
    if (other != dim && random_chance(g, 30))
        number = with_size(g, number, other, some_size(g, value.dims[other]), new_size(g));
    return number;
}

static int pick_bounded(Generator *g) {
    for (int tries = 0; tries < 20; tries++) {
        const int number = (int)random_below(g, g->count);
        const Value *value = &g->values[number];
        if (random_is_bounded(value) && !value->unscaled && random_elements(value) < 2000) return number;
    }
    return make_bounded(g);
}

// Another array of the same bounds and sizes as that of `number`, of any type: one that is there, or one that is cut to
// them.
static int fitting(Generator *g, int number, HloType type) {
    Value form = g->values[number];
    form.type = type;
    for (int tries = 0; tries < 6; tries++) {
        const int other = (int)random_below(g, g->count);
        if (random_same_form(&g->values[other], &form) && !g->values[other].unscaled) return other;
    }
    Value whole = form;
    for (int d = 0; d < whole.rank; d++) whole.bounds[d] = 0;
    int result = random_partner(g, whole);
    for (int d = 0; d < form.rank; d++) {
        if (!form.bounds[d]) continue;
        const int size = random_put(g, random_scalar(HLO_S32), "get-dimension-size(v%d), dimensions={%d}", number, d);
        result = with_size(g, result, d, size, form.bounds[d]);
    }
    return result;
}

// ---- the same sizes

static void bounded_elementwise(Generator *g, int a) {
    static const char *const either[] = {"maximum", "minimum", "add", "multiply"};
    Value value = g->values[a];
    const bool rounds = is_rounding(value.type), is_complex = hlo_type_is_complex(value.type);
    if (random_chance(g, 30) && value.type != HLO_PRED && !is_complex && value.exact) {
        value.type = random_type(g);
        random_put(g, value, "convert(v%d)", a);
        return;
    }
    const int b = fitting(g, a, value.type);
    const int op = value.type == HLO_PRED ? (int)random_below(g, 2)
                   : is_complex           ? 2
                   : rounds && !g->exact  ? (int)random_below(g, 2)
                                          : (int)random_below(g, 4);
    value.exact = value.exact && g->values[b].exact && (g->exact || !is_complex);
    const int result = random_put(g, value, "%s(v%d, v%d)", either[op], a, b);
    if (is_complex && !g->exact) g->values[result].unscaled = true;
}

static void bounded_select(Generator *g, int a) {
    Value value = g->values[a], truth = value;
    if (!random_wants_exact(&value)) return;
    int b = fitting(g, a, value.type);
    if (!g->values[b].exact) return;
    truth.type = HLO_PRED;
    const int predicate = random_put(g, truth, "compare(v%d, v%d), direction=LT", a, b);
    value.type = random_type(g);
    const int x = fitting(g, a, value.type), y = fitting(g, a, value.type);
    value.exact = g->values[x].exact && g->values[y].exact;
    random_put(g, value, "select(v%d, v%d, v%d)", predicate, x, y);
}

static void bounded_sort(Generator *g, int a) {
    const Value value = g->values[a];
    if (!random_wants_exact(&value) || (g->exact && hlo_type_is_float(value.type))) return;
    const int number = random_called(g);
    const char *type = hlo_type_text(value.type);
    hlo_text_format(g->head,
                    "before%d { x = %s[] parameter(0)\n y = %s[] parameter(1)\n ROOT r = pred[] compare(x, y), "
                    "direction=%s }\n\n",
                    number, type, type, random_chance(g, 50) ? "LT" : "GT");
    random_put(g, value, "sort(v%d), dimensions={%d}, is_stable=true, to_apply=before%d", a,
               (int)random_below(g, value.rank), number);
}

static void bounded_reverse(Generator *g, int a) {
    random_put(g, g->values[a], "reverse(v%d), dimensions={%d}", a, (int)random_below(g, g->values[a].rank));
}

// ---- the same sizes in other places

static void bounded_transpose(Generator *g, int a) {
    const Value from = g->values[a];
    Value to = from;
    int64_t permutation[kMaximumRank];
    random_permutation(g, permutation, from.rank);
    for (int d = 0; d < from.rank; d++) {
        to.dims[d] = from.dims[permutation[d]];
        to.bounds[d] = from.bounds[permutation[d]];
    }
    random_begin(g, to);
    hlo_text_format(g->text, "transpose(v%d), ", a);
    random_print_list(g->text, "dimensions=", permutation, from.rank);
    hlo_text_char(g->text, '\n');
}

static void bounded_broadcast(Generator *g, int a) {
    const Value from = g->values[a];
    Value to = from;
    if (from.rank == kMaximumRank) return;
    const int at = (int)random_below(g, from.rank + 1);
    int64_t dimensions[kMaximumRank];
    to.rank++;
    for (int d = 0, next = 0; d < to.rank; d++) {
        to.dims[d] = d == at ? random_size(g, 3) : from.dims[next];
        to.bounds[d] = d == at ? 0 : from.bounds[next];
        if (d != at) dimensions[next++] = d;
    }
    random_begin(g, to);
    hlo_text_format(g->text, "broadcast(v%d), ", a);
    random_print_list(g->text, "dimensions=", dimensions, from.rank);
    hlo_text_char(g->text, '\n');
}

// Takes a part of the dimensions of static size.
static void bounded_slice(Generator *g, int a) {
    const Value from = g->values[a];
    Value to = from;
    int64_t start[kMaximumRank];
    for (int d = 0; d < from.rank; d++) {
        start[d] = from.bounds[d] ? 0 : random_below(g, from.dims[d]);
        if (!from.bounds[d]) to.dims[d] = from.dims[d] ? random_size(g, from.dims[d] - start[d]) : 0;
    }
    random_begin(g, to);
    hlo_text_format(g->text, "slice(v%d), slice={", a);
    for (int d = 0; d < from.rank; d++)
        hlo_text_format(g->text, "%s[%d:%d]", d ? ", " : "", (int)start[d], (int)(start[d] + to.dims[d]));
    hlo_text_string(g->text, "}\n");
}

// Questions for sizes are scalars like any others.
static void bounded_question(Generator *g, int a) {
    random_put(g, random_scalar(HLO_S32), "get-dimension-size(v%d), dimensions={%d}", a,
               (int)random_below(g, g->values[a].rank));
}

// ---- other sizes

static void bounded_pad(Generator *g, int a) {
    const Value from = g->values[a];
    Value to = from;
    int64_t low[kMaximumRank], high[kMaximumRank], interior[kMaximumRank];
    for (int d = 0; d < from.rank; d++) {
        low[d] = random_below(g, 3);
        high[d] = random_below(g, 3);
        interior[d] = random_chance(g, 25) ? 1 : 0;
        if (low[d] + high[d] + interior[d] > 0 && from.bounds[d]) to.bounds[d] = new_size(g);
        to.dims[d] = from.dims[d] + low[d] + high[d] + (from.dims[d] ? (from.dims[d] - 1) * interior[d] : 0);
    }
    if (random_elements(&to) > 2000) return;
    const int value = random_parameter(g, random_scalar(from.type));
    random_begin(g, to);
    hlo_text_format(g->text, "pad(v%d, v%d), padding=", a, value);
    for (int d = 0; d < from.rank; d++)
        hlo_text_format(g->text, "%s%d_%d_%d", d ? "x" : "", (int)low[d], (int)high[d], (int)interior[d]);
    hlo_text_char(g->text, '\n');
}

static void bounded_concatenate(Generator *g, int a) {
    Value value = g->values[a];
    const int dim = (int)random_below(g, value.rank), b = fitting(g, a, value.type);
    value.exact = value.exact && g->values[b].exact;
    value.dims[dim] *= 2;
    if (value.bounds[dim]) value.bounds[dim] = new_size(g);
    random_put(g, value, "concatenate(v%d, v%d), dimensions={%d}", a, b, dim);
}

// A dimension of one element more, or two neighbours, of which at most one has sizes, become one.
static void bounded_reshape(Generator *g, int a) {
    Value value = g->values[a];
    // Nothing distinguishes dimensions of one element.
    for (int d = 0; d < value.rank; d++)
        if (value.bounds[d] && value.dims[d] == 1) return;
    if (value.rank < kMaximumRank && random_chance(g, 40)) {
        const int at = (int)random_below(g, value.rank + 1);
        for (int d = value.rank++; d > at; d--) {
            value.dims[d] = value.dims[d - 1];
            value.bounds[d] = value.bounds[d - 1];
        }
        value.dims[at] = 1;
        value.bounds[at] = 0;
        random_put(g, value, "reshape(v%d)", a);
        return;
    }
    const int at = (int)random_below(g, value.rank);
    if (at + 1 >= value.rank || (value.bounds[at] && value.bounds[at + 1])) return;
    const bool sized = value.bounds[at] || value.bounds[at + 1];
    value.dims[at] *= value.dims[at + 1];
    value.bounds[at] = sized ? new_size(g) : 0;
    for (int d = at + 2; d < value.rank; d++) {
        value.dims[d - 1] = value.dims[d];
        value.bounds[d - 1] = value.bounds[d];
    }
    value.rank--;
    random_put(g, value, "reshape(v%d)", a);
}

// ---- sums

static void bounded_reduce(Generator *g, int a) {
    Value value = g->values[a];
    if (hlo_type_is_complex(value.type)) return;
    const bool sum = !g->exact && hlo_type_is_float(value.type) && hlo_type_bytes(value.type) > 1;
    int64_t dimensions[kMaximumRank];
    int reduced = 0, kept = 0;
    for (int d = 0; d < g->values[a].rank; d++) {
        const bool goes = random_chance(g, g->values[a].bounds[d] ? 75 : 40);
        if (goes) {
            dimensions[reduced++] = d;
            continue;
        }
        value.dims[kept] = value.dims[d];
        value.bounds[kept++] = value.bounds[d];
    }
    value.rank = kept;
    value.exact = value.exact && !sum;
    const ReducerName reducer = random_reducer(g, sum ? ADD : random_exact_reducer(g, value.type), value.type);
    const int init = random_parameter(g, random_scalar(value.type));
    const int result = random_begin(g, value);
    hlo_text_format(g->text, "reduce(v%d, v%d), ", a, init);
    random_print_list(g->text, "dimensions=", dimensions, reduced);
    hlo_text_format(g->text, ", to_apply=%s\n", reducer.text);
    if (!sum) return;
    if (random_is_bounded(&value))
        g->values[result].unscaled = true;
    else
        random_scaled(g, result, "0.015625");
}

// Windows that padding fills, however few elements there are.
static void bounded_window(Generator *g, int a) {
    Value from = g->values[a], to = from;
    if (!random_wants_exact(&from)) return;
    int64_t size[kMaximumRank], stride[kMaximumRank], high[kMaximumRank];
    for (int d = 0; d < from.rank; d++) {
        size[d] = random_chance(g, 50) ? random_size(g, 3) : 1;
        stride[d] = random_chance(g, 30) ? 2 : 1;
        high[d] = size[d] - 1 + random_below(g, 2);
        to.dims[d] = (from.dims[d] + high[d] - size[d]) / stride[d] + 1;
        if (from.bounds[d] && (size[d] > 1 || stride[d] > 1 || high[d])) to.bounds[d] = new_size(g);
    }
    const ReducerName reducer = random_reducer(g, random_exact_reducer(g, from.type), from.type);
    const int init = random_parameter(g, random_scalar(from.type));
    random_begin(g, to);
    hlo_text_format(g->text, "reduce-window(v%d, v%d), window={size=", a, init);
    for (int d = 0; d < from.rank; d++) hlo_text_format(g->text, "%s%d", d ? "x" : "", (int)size[d]);
    hlo_text_string(g->text, " stride=");
    for (int d = 0; d < from.rank; d++) hlo_text_format(g->text, "%s%d", d ? "x" : "", (int)stride[d]);
    hlo_text_string(g->text, " pad=");
    for (int d = 0; d < from.rank; d++) hlo_text_format(g->text, "%s0_%d", d ? "x" : "", (int)high[d]);
    hlo_text_format(g->text, "}, to_apply=%s\n", reducer.text);
}

// A product with an array of the same sizes, of integers, over some of the dimensions.
static void bounded_dot(Generator *g, int a) {
    const Value left = g->values[a];
    if (!hlo_type_is_integer(left.type) || left.rank > 3 || random_elements(&left) > 200) return;
    const int b = fitting(g, a, left.type);
    int64_t batch[kMaximumRank], summed[kMaximumRank];
    int batches = 0, sums = 0;
    Value own = {.rank = 0}, out = {.type = left.type, .exact = left.exact && g->values[b].exact};
    for (int d = 0; d < left.rank; d++) {
        const int64_t role = random_below(g, 3);
        if (role == 0) {
            out.dims[out.rank] = left.dims[d];
            out.bounds[out.rank++] = left.bounds[d];
            batch[batches++] = d;
        } else if (role == 1) {
            summed[sums++] = d;
        } else {
            own.dims[own.rank] = left.dims[d];
            own.bounds[own.rank++] = left.bounds[d];
        }
    }
    for (int side = 0; side < 2; side++) {
        for (int d = 0; d < own.rank; d++) {
            if (out.rank == kMaximumRank) return;
            out.dims[out.rank] = own.dims[d];
            out.bounds[out.rank++] = own.bounds[d];
        }
    }
    if (random_elements(&out) > 2000) return;
    random_begin(g, out);
    hlo_text_format(g->text, "dot(v%d, v%d), ", a, b);
    random_print_list(g->text, "lhs_batch_dims=", batch, batches);
    random_print_list(g->text, ", lhs_contracting_dims=", summed, sums);
    random_print_list(g->text, ", rhs_batch_dims=", batch, batches);
    random_print_list(g->text, ", rhs_contracting_dims=", summed, sums);
    hlo_text_char(g->text, '\n');
}

// ---- indices

// Rows of an array, as many as there are indices.
static void bounded_gather(Generator *g, int a) {
    const Value rows = g->values[a];
    if (rows.type != HLO_S32 || rows.rank != 1 || !rows.exact) return;
    const int from = random_pick_where(g, wants_elements);
    if (from < 0) return;
    const Value whole = g->values[from];
    Value to = whole;
    int64_t offsets[kMaximumRank], sizes[kMaximumRank];
    to.dims[0] = rows.dims[0];
    to.bounds[0] = rows.bounds[0];
    for (int d = 0; d < whole.rank; d++) {
        sizes[d] = d ? whole.dims[d] : 1;
        offsets[d] = d + 1;
    }
    if (random_elements(&to) > 2000) return;
    random_begin(g, to);
    hlo_text_format(g->text, "gather(v%d, v%d), ", from, a);
    random_print_list(g->text, "offset_dims=", offsets, whole.rank - 1);
    hlo_text_string(g->text, ", collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, ");
    random_print_list(g->text, "slice_sizes=", sizes, whole.rank);
    hlo_text_char(g->text, '\n');
}

// Adds as many numbers to an array as there are, by indices that there are as many of.
static void bounded_scatter(Generator *g, int a) {
    const Value updates = g->values[a];
    if (updates.rank != 1 || !random_wants_exact(&updates)) return;
    const Value into = {.type = updates.type, .rank = 1, .dims = {random_size(g, 9)}, .exact = true};
    const ReducerName reducer = random_reducer(g, random_exact_reducer(g, into.type), into.type);
    const int target = random_equal_partner(g, into), rows = fitting(g, a, HLO_S32);
    random_put(g, into,
               "scatter(v%d, v%d, v%d), update_window_dims={}, inserted_window_dims={0}, "
               "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=%s",
               target, rows, a, reducer.text);
}

// ---- control flow

// One of two arrays, of different sizes.
static void bounded_choice(Generator *g, int a) {
    Value value = g->values[a], whole = value, scalar = random_scalar(HLO_PRED);
    for (int d = 0; d < whole.rank; d++) whole.bounds[d] = 0;
    int other = random_partner(g, whole);
    for (int d = 0; d < value.rank; d++) {
        if (!value.bounds[d]) continue;
        other = with_size(g, other, d, some_size(g, value.dims[d]), new_size(g));
        value.bounds[d] = new_size(g);
    }
    const int choice = random_equal_partner(g, scalar), number = random_called(g);
    for (int b = 0; b < 2; b++) {
        hlo_text_format(g->head, "kept%d_%d { x = ", number, b);
        random_print_shape(g->head, &value);
        hlo_text_string(g->head, " parameter(0)\n ROOT r = ");
        random_print_shape(g->head, &value);
        hlo_text_string(g->head, b ? " copy(x) }\n\n" : " reverse(x), dimensions={0} }\n\n");
    }
    value.exact = value.exact && g->values[other].exact;
    random_put(g, value, "conditional(v%d, v%d, v%d), true_computation=kept%d_0, false_computation=kept%d_1", choice, a,
               other, number, number);
}

void random_bounded(Generator *g) {
    static void (*const steps[])(Generator * g, int a) = {
        bounded_elementwise, bounded_elementwise, bounded_select,   bounded_sort,   bounded_reverse,
        bounded_transpose,   bounded_broadcast,   bounded_question, bounded_pad,    bounded_reshape,
        bounded_reduce,      bounded_reduce,      bounded_reduce,   bounded_window, bounded_concatenate,
        bounded_dot,         bounded_gather,      bounded_scatter,  bounded_choice, bounded_slice};
    for (int64_t count = random_size(g, 4); count > 0; count--) {
        const int a = pick_bounded(g);
        if (a < 0) return;
        steps[random_below(g, HLO_COUNT_OF(steps))](g, a);
    }
}
