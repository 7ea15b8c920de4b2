// SPDX-License-Identifier: Apache-2.0
// Steps of random_module() that call computations, move by indices, or visit the rarer element types.
#include "tests/support/random_internal.h"

static bool wants_exact_integers(const Value *value) {
    return random_wants_exact_array(value) && hlo_type_is_integer(value->type);
}

// Numbers of any type through one of the rarer ones, with an operation that rounds once there, and back.
void random_any_type(Generator *g) {
    static const HloType types[] = {
        HLO_S2,       HLO_U2,     HLO_S4,     HLO_U4,         HLO_S16,        HLO_U16, HLO_U64,  HLO_F8E5M2,
        HLO_F8E4M3FN, HLO_F8E4M3, HLO_F8E3M4, HLO_F8E4M3FNUZ, HLO_F8E5M2FNUZ, HLO_C64, HLO_C128, HLO_F8E4M3B11FNUZ};
    static const char *const operations[] = {"add", "multiply", "subtract", "maximum", "minimum"};
    int a = random_pick_where(g, random_wants_exact);
    if (a < 0) return;
    Value value = g->values[a];
    HloType back = value.type == HLO_F64 ? HLO_F64 : HLO_F32;
    value.type = types[random_below(g, HLO_COUNT_OF(types))];
    bool is_complex = hlo_type_is_complex(value.type);
    // The intermediate values have names of their own, since other steps cannot use them.
    int number = random_called(g);
    HloText form = {0};
    random_print_shape(&form, &value);
    hlo_text_char(&form, 0);
    hlo_text_format(g->text, "  n%d_0 = %s convert(v%d)\n", number, form.data, a);
    hlo_text_format(g->text, "  n%d_1 = %s %s(n%d_0)\n", number, form.data, random_chance(g, 50) ? "negate" : "copy",
                    number);
    hlo_text_format(g->text, "  n%d_2 = %s %s(n%d_0, n%d_1)\n", number, form.data,
                    operations[random_below(g, is_complex ? 3 : 5)], number, number);
    hlo_text_free(&form);
    value.exact = !is_complex;
    if (is_complex) back = value.type == HLO_C64 ? HLO_F32 : HLO_F64;
    bool wide = value.type == HLO_U16 || value.type == HLO_S16, widest = value.type == HLO_U64;
    value.type = back;
    int result = random_begin(g, value);
    hlo_text_format(g->text, "%s(n%d_2)\n", !is_complex ? "convert" : random_chance(g, 50) ? "real" : "imag", number);
    if (!wide && !widest) return;
    // Negative numbers are large now, and their sums lose digits that a sum in double keeps: below 1 they do not.
    g->values[result].unscaled = true;
    int scale = random_splat(g, value, widest ? "5.4210108624275222e-20" : "0.0000152587890625");
    random_begin(g, value);
    hlo_text_format(g->text, "multiply(v%d, v%d)\n", result, scale);
}

static void print_comparator(Generator *g, int number, HloType type, bool pairs) {
    const char *name = hlo_type_text(type);
    bool is_float = hlo_type_is_float(type);
    hlo_text_format(g->head, "less%d { x = %s[] parameter(0)\n y = %s[] parameter(1)\n", number, name, name);
    if (pairs) hlo_text_string(g->head, " i = s32[] parameter(2)\n j = s32[] parameter(3)\n");
    hlo_text_format(g->head, " ROOT r = pred[] compare(x, y), direction=%s%s }\n\n", random_chance(g, 50) ? "LT" : "GT",
                    is_float ? ", type=TOTALORDER" : "");
}

void random_sort(Generator *g) {
    int a = random_pick_where(g, random_wants_exact_array);
    if (a < 0) return;
    Value value = g->values[a], places = value;
    int64_t dimension = random_below(g, value.rank);
    bool pairs = random_chance(g, 50);
    a = random_ordered(g, a);
    int number = random_called(g);
    print_comparator(g, number, value.type, pairs);
    if (!pairs) {
        random_begin(g, value);
        hlo_text_format(g->text, "sort(v%d), dimensions={%d}, is_stable=true, to_apply=less%d\n", a, (int)dimension,
                        number);
        return;
    }
    places.type = HLO_S32;
    int order = random_begin(g, places);
    hlo_text_format(g->text, "iota(), iota_dimension=%d\n", (int)dimension);
    hlo_text_format(g->text, "  sorted%d = (", number);
    random_print_shape(g->text, &value);
    hlo_text_string(g->text, ", ");
    random_print_shape(g->text, &places);
    hlo_text_format(g->text, ") sort(v%d, v%d), dimensions={%d}, is_stable=true, to_apply=less%d\n", a, order,
                    (int)dimension, number);
    random_begin(g, value);
    hlo_text_format(g->text, "get-tuple-element(sorted%d), index=0\n", number);
    random_begin(g, places);
    hlo_text_format(g->text, "get-tuple-element(sorted%d), index=1\n", number);
}

// The window of one dimension.
typedef struct Window {
    int64_t size, stride, low, high, base, dilation;
} Window;

static int64_t dilated(int64_t size, int64_t base) {
    return size ? (size - 1) * base + 1 : 0;
}

// Of any form, or as long as the dimension, which gives sums of all that is before an element.
static Window random_form(Generator *g, int64_t size) {
    Window window = {.size = random_size(g, 3), .stride = random_size(g, 2), .base = 1, .dilation = random_size(g, 2)};
    if (size > 1 && random_chance(g, 15)) return (Window){size, 1, size - 1, 0, 1, 1};
    if (random_chance(g, 25)) window.base = 2;
    window.low = random_below(g, 4) - 1;
    window.high = random_below(g, 4) - 1;
    const int64_t padded = dilated(size, window.base) + window.low + window.high;
    if (padded < 0) window.low = window.high = 0;
    if (dilated(window.size, window.dilation) > padded) window.size = 1;
    return window;
}

// Reductions that do not depend on the order, and sums, over windows of any form.
void random_window(Generator *g) {
    int a = random_pick_where(g, random_wants_exact_array);
    if (a < 0) return;
    Value value = g->values[a], to = value;
    const bool sum =
        !g->exact && hlo_type_is_float(value.type) && hlo_type_bytes(value.type) > 1 && random_chance(g, 40);
    Window windows[kMaximumRank];
    for (int d = 0; d < value.rank; d++) {
        const Window w = windows[d] = random_form(g, value.dims[d]);
        const int64_t padded = dilated(value.dims[d], w.base) + w.low + w.high, reach = dilated(w.size, w.dilation);
        to.dims[d] = padded < reach ? 0 : (padded - reach) / w.stride + 1;
    }
    if (random_elements(&to) > 2 * g->most_elements) return;
    if (random_is_large(g) && random_elements(&to) == 0) return;  // other dimensions of an empty array may be immense
    to.exact = !sum;
    const ReducerName reducer = random_reducer(g, sum ? ADD : random_exact_reducer(g, value.type), value.type);
    const int init = random_parameter(g, random_scalar(value.type));
    const int result = random_begin(g, to);
    hlo_text_format(g->text, "reduce-window(v%d, v%d), window={size=", a, init);
    for (int d = 0; d < value.rank; d++) hlo_text_format(g->text, "%s%d", d ? "x" : "", (int)windows[d].size);
    hlo_text_string(g->text, " stride=");
    for (int d = 0; d < value.rank; d++) hlo_text_format(g->text, "%s%d", d ? "x" : "", (int)windows[d].stride);
    hlo_text_string(g->text, " pad=");
    for (int d = 0; d < value.rank; d++)
        hlo_text_format(g->text, "%s%d_%d", d ? "x" : "", (int)windows[d].low, (int)windows[d].high);
    hlo_text_string(g->text, " lhs_dilate=");
    for (int d = 0; d < value.rank; d++) hlo_text_format(g->text, "%s%d", d ? "x" : "", (int)windows[d].base);
    hlo_text_string(g->text, " rhs_dilate=");
    for (int d = 0; d < value.rank; d++) hlo_text_format(g->text, "%s%d", d ? "x" : "", (int)windows[d].dilation);
    hlo_text_format(g->text, "}, to_apply=%s\n", reducer.text);
    if (sum) random_scaled(g, result, "0.03125");
}

// A vector of s32 row numbers, some of them out of range.
static int row_numbers(Generator *g, int64_t count) {
    Value rows = {.type = HLO_S32, .rank = 1, .dims = {count}, .exact = true};
    return random_partner(g, rows);
}

void random_gather(Generator *g) {
    int a = random_pick_where(g, random_wants_dimensions);
    if (a < 0) return;
    Value from = g->values[a], to = from;
    int64_t dimension = random_below(g, from.rank), count = 1 + random_below(g, 7);
    if (from.dims[dimension] == 0) return;  // there is no row to take
    int64_t sizes[kMaximumRank], offsets[kMaximumRank];
    to.dims[0] = count;
    for (int d = 0, at = 1; d < from.rank; d++) {
        sizes[d] = d == dimension ? 1 : from.dims[d];
        if (d == dimension) continue;
        offsets[at - 1] = at;
        to.dims[at++] = from.dims[d];
    }
    if (random_elements(&to) > g->most_elements) return;
    int rows = row_numbers(g, count);
    random_begin(g, to);
    hlo_text_format(g->text, "gather(v%d, v%d), ", a, rows);
    random_print_list(g->text, "offset_dims=", offsets, from.rank - 1);
    hlo_text_format(g->text, ", collapsed_slice_dims={%d}, start_index_map={%d}, index_vector_dim=1, ", (int)dimension,
                    (int)dimension);
    random_print_list(g->text, "slice_sizes=", sizes, from.rank);
    hlo_text_char(g->text, '\n');
}

void random_scatter(Generator *g) {
    int a = random_pick_where(g, random_wants_exact_array);
    if (a < 0) return;
    Value into = g->values[a], updates = into;
    const ReducerName reducer = random_reducer(g, random_exact_reducer(g, into.type), into.type);
    updates.dims[0] = 1 + random_below(g, 6);
    int64_t windows[kMaximumRank];
    for (int d = 1; d < into.rank; d++) windows[d - 1] = d;
    int rows = row_numbers(g, updates.dims[0]), update = random_partner(g, updates);
    if (!g->values[update].exact) update = random_parameter(g, updates);
    random_begin(g, into);
    hlo_text_format(g->text, "scatter(v%d, v%d, v%d), ", a, rows, update);
    random_print_list(g->text, "update_window_dims=", windows, into.rank - 1);
    hlo_text_format(g->text,
                    ", inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=%s\n",
                    reducer.text);
}

// A computation of two parameters of the value's form.
static void print_mixer(Generator *g, const char *name, int number, const Value *value) {
    static const char *const operations[] = {"maximum", "minimum", "xor", "add"};
    int64_t pick = hlo_type_is_integer(value->type) ? random_below(g, 4) : random_below(g, 2);
    hlo_text_format(g->head, "%s%d { x = ", name, number);
    random_print_shape(g->head, value);
    hlo_text_string(g->head, " parameter(0)\n y = ");
    random_print_shape(g->head, value);
    hlo_text_string(g->head, " parameter(1)\n ROOT r = ");
    random_print_shape(g->head, value);
    hlo_text_format(g->head, " %s(x, y) }\n\n", operations[pick]);
}

static void print_state(HloText *text, const Value *value) {
    hlo_text_string(text, "(s32[], ");
    random_print_shape(text, value);
    hlo_text_string(text, ", ");
    random_print_shape(text, value);
    hlo_text_char(text, ')');
}

// A loop that mixes two arrays a few times; the number of rounds is known, or not.
void random_loop(Generator *g) {
    int a = random_pick_where(g, random_wants_exact);
    if (a < 0) return;
    Value value = g->values[a], scalar = {.type = HLO_S32, .exact = true};
    int b = random_partner(g, value), number = random_called(g);
    if (!g->values[b].exact) b = random_parameter(g, value);
    print_mixer(g, "m", number, &value);
    hlo_text_format(g->head, "cond%d { s = ", number);
    print_state(g->head, &value);
    hlo_text_format(g->head,
                    " parameter(0)\n i = s32[] get-tuple-element(s), index=0\n n = s32[] constant(%d)\n"
                    " ROOT r = pred[] compare(i, n), direction=LT }\n\nbody%d { s = ",
                    (int)random_below(g, 5), number);
    print_state(g->head, &value);
    hlo_text_string(g->head,
                    " parameter(0)\n i = s32[] get-tuple-element(s), index=0\n o = s32[] constant(1)\n"
                    " j = s32[] add(i, o)\n x = ");
    random_print_shape(g->head, &value);
    hlo_text_string(g->head, " get-tuple-element(s), index=1\n y = ");
    random_print_shape(g->head, &value);
    hlo_text_string(g->head, " get-tuple-element(s), index=2\n z = ");
    random_print_shape(g->head, &value);
    hlo_text_format(g->head, " call(x, y), to_apply=m%d\n ROOT t = ", number);
    print_state(g->head, &value);
    hlo_text_format(g->head, " tuple(j, %s) }\n\n", random_chance(g, 50) ? "y, z" : "z, y");
    int start = random_chance(g, 70) ? random_splat(g, scalar, "0") : random_partner(g, scalar);
    if (!g->values[start].exact) start = random_parameter(g, scalar);
    // From far below zero it would never end.
    int least = random_splat(g, scalar, "-3"), first = random_begin(g, scalar);
    hlo_text_format(g->text, "maximum(v%d, v%d)\n  i%d = ", start, least, number);
    print_state(g->text, &value);
    hlo_text_format(g->text, " tuple(v%d, v%d, v%d)\n  w%d = ", first, a, b, number);
    print_state(g->text, &value);
    hlo_text_format(g->text, " while(i%d), condition=cond%d, body=body%d\n", number, number, number);
    random_begin(g, value);
    hlo_text_format(g->text, "get-tuple-element(w%d), index=%d\n", number, 1 + (int)random_below(g, 2));
}

void random_branch(Generator *g) {
    int a = random_pick_where(g, random_wants_exact);
    if (a < 0) return;
    Value value = g->values[a], scalar = {.type = HLO_S32, .exact = true}, pair = value;
    int b = random_partner(g, value), number = random_called(g), branches = 1 + (int)random_below(g, 3);
    if (!g->values[b].exact) b = random_parameter(g, value);
    print_mixer(g, "m", number, &value);
    for (int i = 0; i < branches; i++) {
        hlo_text_format(g->head, "b%d_%d { s = (", number, i);
        random_print_shape(g->head, &value);
        hlo_text_string(g->head, ", ");
        random_print_shape(g->head, &value);
        hlo_text_string(g->head, ") parameter(0)\n x = ");
        random_print_shape(g->head, &value);
        hlo_text_string(g->head, " get-tuple-element(s), index=0\n y = ");
        random_print_shape(g->head, &value);
        hlo_text_string(g->head, " get-tuple-element(s), index=1\n ROOT r = ");
        random_print_shape(g->head, &value);
        hlo_text_format(g->head, i ? " copy(y) }\n\n" : " call(y, x), to_apply=m%d }\n\n", number);
    }
    int choice = random_partner(g, scalar);
    if (!g->values[choice].exact) choice = random_parameter(g, scalar);
    hlo_text_format(g->text, "  p%d = (", number);
    random_print_shape(g->text, &pair);
    hlo_text_string(g->text, ", ");
    random_print_shape(g->text, &pair);
    hlo_text_format(g->text, ") tuple(v%d, v%d)\n", a, b);
    random_begin(g, value);
    hlo_text_format(g->text, "conditional(v%d", choice);
    for (int i = 0; i < branches; i++) hlo_text_format(g->text, ", p%d", number);
    hlo_text_string(g->text, "), branch_computations={");
    for (int i = 0; i < branches; i++) hlo_text_format(g->text, "%sb%d_%d", i ? ", " : "", number, i);
    hlo_text_string(g->text, "}\n");
}

// A convolution of integers, whose sums have no rounding: batch, features, and what else the value has as places.
void random_convolution(Generator *g) {
    int a = random_pick_where(g, wants_exact_integers);
    if (a < 0 || g->values[a].rank < 2) return;
    Value input = g->values[a], kernel = input, out = input;
    int places = input.rank - 2;
    int64_t size[kMaximumRank], stride[kMaximumRank], low[kMaximumRank], dilate[kMaximumRank];
    kernel.dims[0] = input.dims[1];
    kernel.dims[1] = out.dims[1] = 1 + random_below(g, 3);
    for (int d = 0; d < places; d++) {
        size[d] = 1 + random_below(g, 3);
        stride[d] = 1 + random_below(g, 2);
        low[d] = random_below(g, 3);
        dilate[d] = 1 + random_below(g, 2);
        int64_t padded = (input.dims[2 + d] ? (input.dims[2 + d] - 1) * dilate[d] + 1 : 0) + low[d];
        if (size[d] > padded) size[d] = 1;
        kernel.dims[2 + d] = size[d];
        out.dims[2 + d] = padded < size[d] ? 0 : (padded - size[d]) / stride[d] + 1;
    }
    int k = random_partner(g, kernel);
    if (!g->values[k].exact) k = random_parameter(g, kernel);
    random_begin(g, out);
    hlo_text_format(g->text, "convolution(v%d, v%d), ", a, k);
    if (places) {
        hlo_text_string(g->text, "window={size=");
        for (int d = 0; d < places; d++) hlo_text_format(g->text, "%s%d", d ? "x" : "", (int)size[d]);
        hlo_text_string(g->text, " stride=");
        for (int d = 0; d < places; d++) hlo_text_format(g->text, "%s%d", d ? "x" : "", (int)stride[d]);
        hlo_text_string(g->text, " pad=");
        for (int d = 0; d < places; d++) hlo_text_format(g->text, "%s%d_0", d ? "x" : "", (int)low[d]);
        hlo_text_string(g->text, " lhs_dilate=");
        for (int d = 0; d < places; d++) hlo_text_format(g->text, "%s%d", d ? "x" : "", (int)dilate[d]);
        hlo_text_string(g->text, "}, ");
    }
    static const char *const labels[] = {"bf_io->bf", "bf0_io0->bf0", "bf01_io01->bf01", "bf012_io012->bf012",
                                         "bf0123_io0123->bf0123"};
    hlo_text_format(g->text, "dim_labels=%s\n", labels[places]);
}
