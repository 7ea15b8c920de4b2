// SPDX-License-Identifier: Apache-2.0
// Steps of random_module() that compare elements with each other: sorts by several keys, the largest few, arguments of
// maxima, gradients of pooling.
#include "tests/support/random_internal.h"

// Keys, keys for those that are equal, and the places of both: by keys, by keys of any sign, or the other way around.
void random_sort_by_keys(Generator *g) {
    static const char *const less[] = {"LT", "GT"};
    int a = random_pick_where(g, random_wants_exact_array);
    if (a < 0) return;
    a = random_ordered(g, a);
    const Value first = g->values[a];
    Value second = first, places = first;
    second.type = random_chance(g, 50) ? HLO_S32 : HLO_F32;
    places.type = HLO_S32;
    const int number = random_called(g), dim = (int)random_below(g, first.rank);
    int b = random_partner(g, second);
    if (!g->values[b].exact) b = random_parameter(g, second);
    b = random_ordered(g, b);
    const int order = random_put(g, places, "iota(), iota_dimension=%d", dim);
    const char *t = hlo_type_text(first.type), *u = hlo_type_text(second.type);
    const HloTypeKind kind = hlo_type_kind(first.type);
    const bool absolute = (kind == HLO_KIND_SIGNED || kind == HLO_KIND_FLOAT) && random_chance(g, 40);
    const char *total = kind == HLO_KIND_FLOAT && !absolute ? ", type=TOTALORDER" : "";
    const char *sense = less[random_below(g, 2)], *key = absolute ? "abs" : "copy";
    hlo_text_format(
        g->head,
        "keys%d { a0 = %s[] parameter(0)\n b0 = %s[] parameter(1)\n c = %s[] parameter(2)\n d = %s[] "
        "parameter(3)\n i = s32[] parameter(4)\n j = s32[] parameter(5)\n a = %s[] %s(a0)\n b = %s[] %s(b0)\n"
        " lt = pred[] compare(a, b), direction=%s%s\n eq = pred[] compare(a, b), direction=EQ%s\n"
        " second = pred[] compare(c, d), direction=%s\n both = pred[] and(eq, second)\n"
        " ROOT r = pred[] or(lt, both) }\n\n",
        number, t, t, u, u, t, key, t, key, sense, total, total, less[random_below(g, 2)]);
    hlo_text_format(g->text, "  keys%d = (", number);
    random_print_shape(g->text, &first);
    hlo_text_string(g->text, ", ");
    random_print_shape(g->text, &second);
    hlo_text_string(g->text, ", ");
    random_print_shape(g->text, &places);
    hlo_text_format(g->text, ") sort(v%d, v%d, v%d), dimensions={%d}, is_stable=true, to_apply=keys%d\n", a, b, order,
                    dim, number);
    random_put(g, first, "get-tuple-element(keys%d), index=0", number);
    random_put(g, second, "get-tuple-element(keys%d), index=1", number);
    random_put(g, places, "get-tuple-element(keys%d), index=2", number);
}

void random_topk(Generator *g) {
    int a = random_pick_where(g, random_wants_exact_array);
    if (a < 0) return;
    a = random_ordered(g, a);
    Value values = g->values[a], places = values;
    const int64_t last = values.dims[values.rank - 1];
    if (last == 0) return;
    const int number = random_called(g), k = (int)random_size(g, last);
    values.dims[values.rank - 1] = places.dims[values.rank - 1] = k;
    places.type = HLO_S32;
    hlo_text_format(g->text, "  top%d = (", number);
    random_print_shape(g->text, &values);
    hlo_text_string(g->text, ", ");
    random_print_shape(g->text, &places);
    hlo_text_format(g->text, ") topk(v%d), k=%d, largest=true\n", a, k);
    random_put(g, values, "get-tuple-element(top%d), index=0", number);
    random_put(g, places, "get-tuple-element(top%d), index=1", number);
}

// The extreme of each row and the first place of it; beside that a sum of integers, in one reduction.
void random_argument(Generator *g) {
    int a = random_pick_where(g, random_wants_exact_array);
    if (a < 0) return;
    a = random_ordered(g, a);
    const Value value = g->values[a];
    Value out = value, places = value;
    const int number = random_called(g), dim = (int)random_below(g, value.rank);
    places.type = HLO_S32;
    const int order = random_put(g, places, "iota(), iota_dimension=%d", dim);
    int numbers = random_partner(g, places);
    if (!g->values[numbers].exact) numbers = order;
    out.rank--;
    for (int d = dim; d < out.rank; d++) out.dims[d] = value.dims[d + 1];
    Value out_places = out;
    out_places.type = HLO_S32;
    const char *t = hlo_type_text(value.type), *direction = random_chance(g, 50) ? "GT" : "LT";
    hlo_text_format(g->head,
                    "arg%d { a = %s[] parameter(0)\n i = s32[] parameter(1)\n m = s32[] parameter(2)\n"
                    " b = %s[] parameter(3)\n j = s32[] parameter(4)\n n = s32[] parameter(5)\n"
                    " gt = pred[] compare(a, b), direction=%s\n eq = pred[] compare(a, b), direction=EQ\n"
                    " lt = pred[] compare(i, j), direction=LT\n tie = pred[] and(eq, lt)\n first = pred[] or(gt, tie)\n"
                    " v = %s[] select(first, a, b)\n k = s32[] select(first, i, j)\n s = s32[] add(m, n)\n"
                    " ROOT r = (%s[], s32[], s32[]) tuple(v, k, s) }\n\n",
                    number, t, t, direction, t, t);
    const int init = random_splat(g, random_scalar(value.type), hlo_type_is_float(value.type) ? "0.5" : "0");
    const int none = random_splat(g, random_scalar(HLO_S32), "1000000"),
              zero = random_parameter(g, random_scalar(HLO_S32));
    hlo_text_format(g->text, "  arg%d = (", number);
    random_print_shape(g->text, &out);
    for (int i = 0; i < 2; i++) {
        hlo_text_string(g->text, ", ");
        random_print_shape(g->text, &out_places);
    }
    hlo_text_format(g->text, ") reduce(v%d, v%d, v%d, v%d, v%d, v%d), dimensions={%d}, to_apply=arg%d\n", a, order,
                    numbers, init, none, zero, dim, number);
    random_put(g, out, "get-tuple-element(arg%d), index=0", number);
    random_put(g, out_places, "get-tuple-element(arg%d), index=1", number);
    random_put(g, out_places, "get-tuple-element(arg%d), index=2", number);
}

// The gradient of pooling by maxima or minima.
void random_select_and_scatter(Generator *g) {
    const int a = random_pick_where(g, random_wants_exact_array);
    if (a < 0) return;
    Value value = g->values[a], source = value;
    int64_t size[kMaximumRank], stride[kMaximumRank], low[kMaximumRank], high[kMaximumRank];
    for (int d = 0; d < value.rank; d++) {
        size[d] = random_chance(g, 50) ? 1 : random_size(g, 3);
        stride[d] = random_size(g, 3);
        low[d] = random_below(g, size[d]);
        high[d] = random_below(g, size[d]);
        if (value.dims[d] + low[d] + high[d] < size[d]) size[d] = 1;
        const int64_t padded = value.dims[d] + low[d] + high[d];
        source.dims[d] = padded < size[d] ? 0 : (padded - size[d]) / stride[d] + 1;
    }
    const int from = random_parameter(g, source), init = random_parameter(g, random_scalar(value.type));
    const int number = random_called(g);
    const char *t = hlo_type_text(value.type);
    hlo_text_format(g->head,
                    "pick%d { x = %s[] parameter(0)\n y = %s[] parameter(1)\n ROOT r = pred[] compare(x, y), "
                    "direction=%s }\n\n",
                    number, t, t, random_chance(g, 50) ? "GE" : "LE");
    const ReducerName reducer = random_reducer(g, random_exact_reducer(g, value.type), value.type);
    random_begin(g, value);
    hlo_text_format(g->text, "select-and-scatter(v%d, v%d, v%d), window={size=", a, from, init);
    for (int d = 0; d < value.rank; d++) hlo_text_format(g->text, "%s%d", d ? "x" : "", (int)size[d]);
    hlo_text_string(g->text, " stride=");
    for (int d = 0; d < value.rank; d++) hlo_text_format(g->text, "%s%d", d ? "x" : "", (int)stride[d]);
    hlo_text_string(g->text, " pad=");
    for (int d = 0; d < value.rank; d++) hlo_text_format(g->text, "%s%d_%d", d ? "x" : "", (int)low[d], (int)high[d]);
    hlo_text_format(g->text, "}, select=pick%d, scatter=%s\n", number, reducer.text);
}
