// SPDX-License-Identifier: Apache-2.0
// Ops that combine elements, by their definitions: each element of the result is a sum, a winner or a place in an order
// of its own, computed from indices alone. Numbers are small quarters, so that sums are exact in any order.
#include <complex.h>
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "hlo/base/complex.h"
#include "tests/eval/defined.h"
#include "tests/support/cases.h"

// One of a few types whose sums of small quarters are exact.
static HloType exact_type(Defined *test) {
    static const HloType types[] = {HLO_F32, HLO_F64, HLO_S32, HLO_U8, HLO_S64};
    return types[defined_draw(test, 0, (int64_t)HLO_COUNT_OF(types) - 1)];
}

// As the type holds it: a u8 wraps.
static double wrapped(HloType type, double sum) {
    return type == HLO_U8 ? (double)(uint8_t)(int64_t)sum : sum;
}

// A computation `name` of two scalars.
static void append_binary(Defined *test, const char *name, const char *op, HloType type, const char *result) {
    const char *text = hlo_type_text(type);
    hlo_text_format(&test->called, "%s { a = %s[] parameter(0)\n b = %s[] parameter(1)\n ROOT c = %s[] %s }\n", name,
                    text, text, result ? result : text, op);
}

static void begin_root(Defined *test, HloType type, Dims dims) {
    hlo_text_string(&test->body, " ROOT r = ");
    defined_shape(&test->body, type, dims);
    hlo_text_char(&test->body, ' ');
}

static bool holds(const int64_t *list, int64_t count, int64_t number) {
    for (int64_t i = 0; i < count; i++)
        if (list[i] == number) return true;
    return false;
}

// Sums or largest elements over some dimensions, from an initial value.
static void reduce(Defined *test) {
    const HloType type = exact_type(test);
    const Dims from = defined_dims(test, defined_draw(test, 0, 4), 0, 4);
    const int64_t count = defined_draw(test, 0, from.rank);
    const bool largest = defined_draw(test, 0, 1) == 1;
    int64_t reduced[DEFINED_MOST_RANK];
    Dims dims = {.rank = 0}, index, source;
    defined_distinct(test, from.rank, count, reduced);
    for (int64_t i = 0; i < from.rank; i++)
        if (!holds(reduced, count, i)) dims.at[dims.rank++] = from.at[i];
    const HloLiteral *operand = defined_array(test, type, from),
                     *initial = defined_array(test, type, (Dims){.rank = 0});
    append_binary(test, "f", largest ? "maximum(a, b)" : "add(b, a)", type, NULL);
    begin_root(test, type, dims);
    hlo_text_string(&test->body, "reduce(p0, p1), dimensions=");
    defined_list(&test->body, reduced, count);
    hlo_text_string(&test->body, ", to_apply=f");
    defined_run(test);
    for (bool more = defined_first(dims, &index); more; more = defined_next(dims, &index)) {
        double total = defined_at(initial, (Dims){.rank = 0});
        for (bool other = defined_first(from, &source); other; other = defined_next(from, &source)) {
            bool mine = true;
            for (int64_t i = 0, k = 0; i < from.rank; i++)
                if (!holds(reduced, count, i)) mine = mine && source.at[i] == index.at[k++];
            if (mine) total = largest ? fmax(total, defined_at(operand, source)) : total + defined_at(operand, source);
        }
        defined_is(test, test->result, index, wrapped(type, total), 0);
    }
}

// The largest element and its first position, as an argmax is written.
static void reduce_pairs(Defined *test) {
    const Dims from = defined_dims(test, defined_draw(test, 1, 3), 1, 4);
    const int64_t along = defined_draw(test, 0, from.rank - 1);
    Dims dims = {.rank = 0}, index;
    for (int64_t i = 0; i < from.rank; i++)
        if (i != along) dims.at[dims.rank++] = from.at[i];
    const HloLiteral *operand = defined_array(test, HLO_F32, from);
    hlo_text_string(
        &test->called,
        "f { v = f32[] parameter(0)\n i = s32[] parameter(1)\n w = f32[] parameter(2)\n j = s32[] parameter(3)\n"
        " more = pred[] compare(v, w), direction=GT\n same = pred[] compare(v, w), direction=EQ\n"
        " less = pred[] compare(i, j), direction=LT\n tie = pred[] and(same, less)\n keep = pred[] or(more, tie)\n"
        " x = f32[] select(keep, v, w)\n y = s32[] select(keep, i, j)\n ROOT t = (f32[], s32[]) tuple(x, y) }\n");
    hlo_text_string(&test->body, " n = ");
    defined_shape(&test->body, HLO_S32, from);
    hlo_text_format(&test->body,
                    " iota(), iota_dimension=%lld\n low = f32[] constant(-inf)\n none = s32[] constant(99)\n"
                    " ROOT r = (",
                    (long long)along);
    defined_shape(&test->body, HLO_F32, dims);
    hlo_text_string(&test->body, ", ");
    defined_shape(&test->body, HLO_S32, dims);
    hlo_text_format(&test->body, ") reduce(p0, n, low, none), dimensions={%lld}, to_apply=f", (long long)along);
    defined_run(test);
    for (bool more = defined_first(dims, &index); more; more = defined_next(dims, &index)) {
        Dims source = {.rank = from.rank};
        for (int64_t i = 0, k = 0; i < from.rank; i++)
            if (i != along) source.at[i] = index.at[k++];
        int64_t best = 0;
        double most = -INFINITY;
        for (source.at[along] = 0; source.at[along] < from.at[along]; source.at[along]++)
            if (defined_at(operand, source) > most) most = defined_at(operand, source), best = source.at[along];
        defined_is(test, test->result->elements[0], index, most, 0);
        defined_is(test, test->result->elements[1], index, (double)best, 0);
    }
}

// Windows in random sizes, strides, dilations and paddings, as window={...} says them.
typedef struct Windows {
    Dims size, stride, low, high, base_dilation, window_dilation, outputs;
} Windows;

static void append_by_x(HloText *text, const char *name, Dims numbers) {
    hlo_text_format(text, " %s=", name);
    for (int64_t i = 0; i < numbers.rank; i++) hlo_text_format(text, i ? "x%lld" : "%lld", (long long)numbers.at[i]);
}

static int64_t dilated(int64_t size, int64_t dilation) {
    return size ? (size - 1) * dilation + 1 : 0;
}

// Windows over `from`, of which some position exists in every dimension.
static Windows draw_windows(Defined *test, Dims from, bool dilates_base) {
    Windows w = {.size = defined_dims(test, from.rank, 1, 3),
                 .stride = defined_dims(test, from.rank, 1, 3),
                 .low = defined_dims(test, from.rank, -1, 2),
                 .high = defined_dims(test, from.rank, 0, 2),
                 .base_dilation = defined_dims(test, from.rank, 1, dilates_base ? 2 : 1),
                 .window_dilation = defined_dims(test, from.rank, 1, 2),
                 .outputs = from};
    for (int64_t i = 0; i < from.rank; i++) {
        const int64_t reach = dilated(w.size.at[i], w.window_dilation.at[i]);
        int64_t extent;
        while ((extent = dilated(from.at[i], w.base_dilation.at[i]) + w.low.at[i] + w.high.at[i]) < reach)
            w.high.at[i]++;
        w.outputs.at[i] = (extent - reach) / w.stride.at[i] + 1;
    }
    return w;
}

static void append_windows(HloText *text, const Windows *w) {
    if (w->size.rank == 0) return;
    hlo_text_string(text, ", window={size=");
    for (int64_t i = 0; i < w->size.rank; i++) hlo_text_format(text, i ? "x%lld" : "%lld", (long long)w->size.at[i]);
    append_by_x(text, "stride", w->stride);
    hlo_text_string(text, " pad=");
    for (int64_t i = 0; i < w->size.rank; i++)
        hlo_text_format(text, "%s%lld_%lld", i ? "x" : "", (long long)w->low.at[i], (long long)w->high.at[i]);
    append_by_x(text, "lhs_dilate", w->base_dilation);
    append_by_x(text, "rhs_dilate", w->window_dilation);
    hlo_text_string(text, "}");
}

// Where element `tap` of the window at `output` looks; false in padding and between dilated elements.
static bool looks_at(const Windows *w, Dims from, Dims output, Dims tap, Dims *source) {
    *source = from;
    for (int64_t i = 0; i < from.rank; i++) {
        const int64_t place = output.at[i] * w->stride.at[i] + tap.at[i] * w->window_dilation.at[i] - w->low.at[i];
        if (place < 0 || place % w->base_dilation.at[i] != 0) return false;
        source->at[i] = place / w->base_dilation.at[i];
        if (source->at[i] >= from.at[i]) return false;
    }
    return true;
}

static void reduce_window(Defined *test) {
    const HloType type = exact_type(test);
    const Dims from = defined_dims(test, defined_draw(test, 1, 3), 1, 5);
    const Windows w = draw_windows(test, from, true);
    const bool product = defined_draw(test, 0, 3) == 0;
    Dims output, tap, source;
    const HloLiteral *operand = defined_array(test, type, from),
                     *initial = defined_array(test, type, (Dims){.rank = 0});
    append_binary(test, "f", product ? "minimum(a, b)" : "add(a, b)", type, NULL);
    begin_root(test, type, w.outputs);
    hlo_text_string(&test->body, "reduce-window(p0, p1)");
    append_windows(&test->body, &w);
    hlo_text_string(&test->body, ", to_apply=f");
    defined_run(test);
    for (bool more = defined_first(w.outputs, &output); more; more = defined_next(w.outputs, &output)) {
        double total = defined_at(initial, (Dims){.rank = 0});
        for (bool other = defined_first(w.size, &tap); other; other = defined_next(w.size, &tap)) {
            if (!looks_at(&w, from, output, tap, &source)) continue;
            total = product ? fmin(total, defined_at(operand, source)) : total + defined_at(operand, source);
        }
        defined_is(test, test->result, output, wrapped(type, total), 0);
    }
}

// The gradient of a largest element: each window's source goes to the first of its largest.
static void select_and_scatter(Defined *test) {
    const Dims from = defined_dims(test, defined_draw(test, 1, 3), 1, 5);
    Windows w = draw_windows(test, from, false);
    for (int64_t i = 0; i < from.rank; i++) {  // the op knows neither dilation
        w.window_dilation.at[i] = 1;
        while (from.at[i] + w.low.at[i] + w.high.at[i] < w.size.at[i]) w.high.at[i]++;
        w.outputs.at[i] = (from.at[i] + w.low.at[i] + w.high.at[i] - w.size.at[i]) / w.stride.at[i] + 1;
    }
    Dims output, tap, source, at;
    const HloLiteral *operand = defined_array(test, HLO_F32, from), *given = defined_array(test, HLO_F32, w.outputs);
    double sums[5 * 5 * 5] = {0};
    append_binary(test, "ge", "compare(a, b), direction=GE", HLO_F32, "pred");
    append_binary(test, "add", "add(a, b)", HLO_F32, NULL);
    hlo_text_string(&test->body, " zero = f32[] constant(0)\n");
    begin_root(test, HLO_F32, from);
    hlo_text_string(&test->body, "select-and-scatter(p0, p1, zero)");
    append_windows(&test->body, &w);
    hlo_text_string(&test->body, ", select=ge, scatter=add");
    defined_run(test);
    for (bool more = defined_first(w.outputs, &output); more; more = defined_next(w.outputs, &output)) {
        double most = -INFINITY;
        bool any = false;
        for (bool other = defined_first(w.size, &tap); other; other = defined_next(w.size, &tap)) {
            if (!looks_at(&w, from, output, tap, &source) || !(defined_at(operand, source) > most)) continue;
            most = defined_at(operand, source), at = source, any = true;
        }
        if (any) sums[defined_place(operand, at)] += defined_at(given, output);
    }
    for (bool more = defined_first(from, &at); more; more = defined_next(from, &at))
        defined_is(test, test->result, at, sums[defined_place(operand, at)], 0);
}

// Batch dimensions, then those of the left, then those of the right, which are left when terms have been summed up.
static void dot(Defined *test) {
    const HloType type = exact_type(test);
    const int64_t batches = defined_draw(test, 0, 2), terms = defined_draw(test, 0, 2);
    const Dims shared = defined_dims(test, batches + terms, 0, 3);
    Dims sides[2], dims = {.rank = 0}, index, term;
    int64_t roles[2][DEFINED_MOST_RANK];  // the dimension of each batch number and term
    for (int s = 0; s < 2; s++) {
        sides[s] = defined_dims(test, batches + terms + defined_draw(test, 0, 2), 0, 3);
        defined_distinct(test, sides[s].rank, batches + terms, roles[s]);
        for (int64_t i = 0; i < shared.rank; i++) sides[s].at[roles[s][i]] = shared.at[i];
    }
    for (int64_t i = 0; i < batches; i++) dims.at[dims.rank++] = shared.at[i];
    for (int s = 0; s < 2; s++)
        for (int64_t i = 0; i < sides[s].rank; i++)
            if (!holds(roles[s], shared.rank, i)) dims.at[dims.rank++] = sides[s].at[i];
    const HloLiteral *lhs = defined_array(test, type, sides[0]), *rhs = defined_array(test, type, sides[1]);
    begin_root(test, type, dims);
    hlo_text_string(&test->body, "dot(p0, p1), lhs_batch_dims=");
    defined_list(&test->body, roles[0], batches);
    hlo_text_string(&test->body, ", rhs_batch_dims=");
    defined_list(&test->body, roles[1], batches);
    hlo_text_string(&test->body, ", lhs_contracting_dims=");
    defined_list(&test->body, roles[0] + batches, terms);
    hlo_text_string(&test->body, ", rhs_contracting_dims=");
    defined_list(&test->body, roles[1] + batches, terms);
    defined_run(test);
    Dims sizes = {.rank = terms};
    for (int64_t i = 0; i < terms; i++) sizes.at[i] = shared.at[batches + i];
    for (bool more = defined_first(dims, &index); more; more = defined_next(dims, &index)) {
        double sum = 0;
        for (bool other = defined_first(sizes, &term); other; other = defined_next(sizes, &term)) {
            Dims at[2] = {{.rank = sides[0].rank}, {.rank = sides[1].rank}};
            int64_t free = batches;
            for (int s = 0; s < 2; s++) {
                for (int64_t i = 0; i < shared.rank; i++)
                    at[s].at[roles[s][i]] = i < batches ? index.at[i] : term.at[i - batches];
                for (int64_t i = 0; i < sides[s].rank; i++)
                    if (!holds(roles[s], shared.rank, i)) at[s].at[i] = index.at[free++];
            }
            sum += defined_at(lhs, at[0]) * defined_at(rhs, at[1]);
        }
        defined_is(test, test->result, index, wrapped(type, sum), 0);
    }
}

// Which dimension of an array is which: batch (or input features), features, then the spatial ones.
static void append_labels(HloText *text, const int64_t *order, int64_t rank, const char *letters) {
    for (int64_t i = 0; i < rank; i++) {
        int64_t role = 0;
        while (order[role] != i) role++;
        if (role < 2)
            hlo_text_char(text, letters[role]);
        else
            hlo_text_format(text, "%lld", (long long)(role - 2));
    }
}

// `order` says where batch, features and spatial sizes go.
static Dims arranged(Dims spatial, int64_t first, int64_t second, const int64_t *order) {
    Dims dims = {.rank = spatial.rank + 2};
    dims.at[order[0]] = first;
    dims.at[order[1]] = second;
    for (int64_t i = 0; i < spatial.rank; i++) dims.at[order[2 + i]] = spatial.at[i];
    return dims;
}

// Every output position sums, over the window and the input features of its group, input times kernel.
static void convolution(Defined *test) {
    const HloType type = exact_type(test);
    const Dims from = defined_dims(test, defined_draw(test, 0, 2), 1, 5);
    const Windows w = draw_windows(test, from, true);
    const int64_t kind = defined_draw(test, 0, 2);  // plain, groups of features, groups of the batch
    const int64_t feature_groups = kind == 1 ? 2 : 1, batch_groups = kind == 2 ? 2 : 1;
    const int64_t batch = defined_draw(test, 1, 2) * batch_groups, each = defined_draw(test, 1, 2);
    const int64_t outputs = defined_draw(test, 1, 2) * feature_groups * batch_groups;
    int64_t orders[3][DEFINED_MOST_RANK];
    Dims reversed = defined_dims(test, from.rank, 0, 1), index, tap, place;
    for (int i = 0; i < 3; i++) defined_distinct(test, from.rank + 2, from.rank + 2, orders[i]);
    const HloLiteral *input = defined_array(test, type, arranged(from, batch, each * feature_groups, orders[0]));
    const HloLiteral *kernel = defined_array(test, type, arranged(w.size, each, outputs, orders[1]));
    const Dims dims = arranged(w.outputs, batch / batch_groups, outputs, orders[2]);
    begin_root(test, type, dims);
    hlo_text_string(&test->body, "convolution(p0, p1)");
    append_windows(&test->body, &w);
    if (from.rank) {
        test->body.data[--test->body.length] = 0;  // the brace, to say one thing more
        append_by_x(&test->body, "rhs_reversal", reversed);
        hlo_text_string(&test->body, "}");
    }
    hlo_text_string(&test->body, ", dim_labels=");
    append_labels(&test->body, orders[0], from.rank + 2, "bf");
    hlo_text_char(&test->body, '_');
    append_labels(&test->body, orders[1], from.rank + 2, "io");
    hlo_text_string(&test->body, "->");
    append_labels(&test->body, orders[2], from.rank + 2, "bf");
    hlo_text_format(&test->body, ", feature_group_count=%lld, batch_group_count=%lld", (long long)feature_groups,
                    (long long)batch_groups);
    defined_run(test);
    for (bool more = defined_first(dims, &index); more; more = defined_next(dims, &index)) {
        const int64_t b = index.at[orders[2][0]], o = index.at[orders[2][1]];
        const int64_t group = o / (outputs / (feature_groups * batch_groups));
        Dims output = {.rank = from.rank};
        double sum = 0;
        for (int64_t i = 0; i < from.rank; i++) output.at[i] = index.at[orders[2][2 + i]];
        for (bool other = defined_first(w.size, &tap); other; other = defined_next(w.size, &tap)) {
            Dims at = tap;
            for (int64_t i = 0; i < from.rank; i++)
                if (reversed.at[i]) at.at[i] = w.size.at[i] - 1 - tap.at[i];
            if (!looks_at(&w, from, output, tap, &place)) continue;
            for (int64_t f = 0; f < each; f++) {
                const int64_t line = batch_groups > 1 ? group * (batch / batch_groups) + b : b;
                const int64_t feature = feature_groups > 1 ? group * each + f : f;
                sum += defined_at(input, arranged(place, line, feature, orders[0])) *
                       defined_at(kernel, arranged(at, f, o, orders[1]));
            }
        }
        defined_is(test, test->result, index, wrapped(type, sum), 0);
    }
}

// An element's position along a dimension is the number of elements before it: smaller ones (larger ones in descending
// order), and equal ones with a lower index.
static Dims place_in_order(const HloLiteral *keys, Dims dims, int64_t along, bool falling, Dims index) {
    const double mine = defined_at(keys, index);
    Dims other = index, place = index;
    place.at[along] = 0;
    for (other.at[along] = 0; other.at[along] < dims.at[along]; other.at[along]++) {
        const double theirs = defined_at(keys, other);
        const bool before = falling ? theirs > mine : theirs < mine;
        place.at[along] += before || (theirs == mine && other.at[along] < index.at[along]);
    }
    return place;
}

static void sort(Defined *test) {
    const Dims dims = defined_dims(test, defined_draw(test, 1, 3), 0, 6);
    const int64_t along = defined_draw(test, 0, dims.rank - 1);
    const bool falling = defined_draw(test, 0, 1) == 1;
    Dims index;
    const HloLiteral *keys = defined_array(test, HLO_F32, dims), *values = defined_array(test, HLO_S32, dims);
    hlo_text_format(
        &test->called,
        "f { a = f32[] parameter(0)\n b = f32[] parameter(1)\n c = s32[] parameter(2)\n d = s32[] parameter(3)\n"
        " ROOT t = pred[] compare(a, b), direction=%s }\n",
        falling ? "GT" : "LT");
    hlo_text_string(&test->body, " ROOT r = (");
    defined_shape(&test->body, HLO_F32, dims);
    hlo_text_string(&test->body, ", ");
    defined_shape(&test->body, HLO_S32, dims);
    hlo_text_format(&test->body, ") sort(p0, p1), dimensions={%lld}, is_stable=true, to_apply=f", (long long)along);
    defined_run(test);
    for (bool more = defined_first(dims, &index); more; more = defined_next(dims, &index)) {
        const Dims place = place_in_order(keys, dims, along, falling, index);
        defined_same(test, test->result->elements[0], place, keys, index);
        defined_same(test, test->result->elements[1], place, values, index);
    }
}

// The same for the k first, which are those with a number below k.
static void topk(Defined *test) {
    const Dims from = defined_dims(test, defined_draw(test, 1, 3), 1, 6);
    Dims dims = from, index;
    const int64_t last = from.rank - 1;
    const bool largest = defined_draw(test, 0, 1) == 1;
    dims.at[last] = defined_draw(test, 0, from.at[last]);
    const HloLiteral *operand = defined_array(test, HLO_BF16, from);
    hlo_text_string(&test->body, " ROOT r = (");
    defined_shape(&test->body, HLO_BF16, dims);
    hlo_text_string(&test->body, ", ");
    defined_shape(&test->body, HLO_S32, dims);
    hlo_text_format(&test->body, ") topk(p0), k=%lld, largest=%s", (long long)dims.at[last],
                    largest ? "true" : "false");
    defined_run(test);
    for (bool more = defined_first(from, &index); more; more = defined_next(from, &index)) {
        const Dims place = place_in_order(operand, from, last, largest, index);
        if (place.at[last] >= dims.at[last]) continue;
        defined_same(test, test->result->elements[0], place, operand, index);
        defined_is(test, test->result->elements[1], place, (double)index.at[last], 0);
    }
}

// A running sum, forwards or backwards.
static void scan(Defined *test) {
    const Dims dims = defined_dims(test, defined_draw(test, 1, 3), 1, 5);
    const int64_t along = defined_draw(test, 0, dims.rank - 1);
    const bool backwards = defined_draw(test, 0, 1) == 1;
    Dims step = {.rank = 0}, index;
    for (int64_t i = 0; i < dims.rank; i++)
        if (i != along) step.at[step.rank++] = dims.at[i];
    const HloLiteral *operand = defined_array(test, HLO_F32, dims), *initial = defined_array(test, HLO_F32, step);
    HloText shape = {0};
    defined_shape(&shape, HLO_F32, step);
    hlo_text_format(
        &test->called,
        "f { a = %s parameter(0)\n b = %s parameter(1)\n s = %s add(b, a)\n ROOT t = (%s, %s) tuple(s, s) }\n",
        shape.data, shape.data, shape.data, shape.data, shape.data);
    hlo_text_string(&test->body, " ROOT r = (");
    defined_shape(&test->body, HLO_F32, dims);
    hlo_text_format(&test->body, ", %s) scan(p0, p1), dimensions={%lld}, is_reverse=%s, num_carries=1, to_apply=f",
                    shape.data, (long long)along, backwards ? "true" : "false");
    hlo_text_free(&shape);
    defined_run(test);
    for (bool more = defined_first(dims, &index); more; more = defined_next(dims, &index)) {
        Dims start = {.rank = 0}, source = index;
        for (int64_t i = 0; i < dims.rank; i++)
            if (i != along) start.at[start.rank++] = index.at[i];
        double sum = defined_at(initial, start);
        for (source.at[along] = 0; source.at[along] < dims.at[along]; source.at[along]++) {
            const int64_t ahead = source.at[along] - index.at[along];
            if (backwards ? ahead >= 0 : ahead <= 0) sum += defined_at(operand, source);
        }
        defined_is(test, test->result->elements[0], index, sum, 0);
        const bool last = index.at[along] == (backwards ? 0 : dims.at[along] - 1);
        if (last) defined_is(test, test->result->elements[1], start, sum, 0);
    }
}

// The sum over all elements of the transformed dimensions, each times e^(-+ 2 pi i (j k / n + …)).
static void fft(Defined *test) {
    const Dims dims = defined_dims(test, defined_draw(test, 1, 3), 1, 6);
    const int64_t count = defined_draw(test, 1, dims.rank), first = dims.rank - count;
    const bool inverse = defined_draw(test, 0, 1) == 1;
    Dims index, source;
    const HloLiteral *operand = defined_array(test, HLO_C128, dims);
    begin_root(test, HLO_C128, dims);
    hlo_text_format(&test->body, "fft(p0), fft_type=%s, fft_length=", inverse ? "IFFT" : "FFT");
    defined_list(&test->body, dims.at + first, count);
    defined_run(test);
    for (bool more = defined_first(dims, &index); more; more = defined_next(dims, &index)) {
        double _Complex sum = 0;
        double size = 1;
        for (int64_t i = first; i < dims.rank; i++) size *= inverse ? (double)dims.at[i] : 1;
        for (bool other = defined_first(dims, &source); other; other = defined_next(dims, &source)) {
            double turn = 0;
            bool mine = true;
            for (int64_t i = 0; i < dims.rank; i++) {
                if (i < first) mine = mine && source.at[i] == index.at[i];
                if (i >= first) turn += (double)(source.at[i] * index.at[i] % dims.at[i]) / (double)dims.at[i];
            }
            if (mine)
                sum += hlo_literal_get_complex(operand, defined_place(operand, source)) *
                       cexp((inverse ? 2 : -2) * 3.14159265358979323846 * turn * I);
        }
        const double _Complex have = hlo_literal_get_complex(test->result, defined_place(test->result, index));
        cr_assert_lt(cabs(have - sum / size), 1e-11, "%s: element %lld", defined_text(test),
                     (long long)defined_place(test->result, index));
    }
}

// A real signal is half of a complex one, and comes back from its half.
static void real_fft(Defined *test) {
    Dims dims = defined_dims(test, defined_draw(test, 1, 3), 1, 6), index;
    const int64_t last = dims.rank - 1, count = defined_draw(test, 1, dims.rank);
    Dims half = dims;
    half.at[last] = dims.at[last] / 2 + 1;
    const HloLiteral *operand = defined_array(test, HLO_F64, dims);
    HloText lengths = {0};
    defined_list(&lengths, dims.at + dims.rank - count, count);
    hlo_text_string(&test->body, " c = ");
    defined_shape(&test->body, HLO_C128, dims);
    hlo_text_string(&test->body, " convert(p0)\n whole = ");
    defined_shape(&test->body, HLO_C128, dims);
    hlo_text_format(&test->body, " fft(c), fft_type=FFT, fft_length=%s\n half = ", lengths.data);
    defined_shape(&test->body, HLO_C128, half);
    hlo_text_format(&test->body, " fft(p0), fft_type=RFFT, fft_length=%s\n back = ", lengths.data);
    defined_shape(&test->body, HLO_F64, dims);
    hlo_text_format(&test->body, " fft(half), fft_type=IRFFT, fft_length=%s\n ROOT r = (", lengths.data);
    defined_shape(&test->body, HLO_C128, dims);
    hlo_text_string(&test->body, ", ");
    defined_shape(&test->body, HLO_C128, half);
    hlo_text_string(&test->body, ", ");
    defined_shape(&test->body, HLO_F64, dims);
    hlo_text_string(&test->body, ") tuple(whole, half, back)");
    hlo_text_free(&lengths);
    defined_run(test);
    HloLiteral *const *results = test->result->elements;
    for (bool more = defined_first(half, &index); more; more = defined_next(half, &index)) {
        const double _Complex is = hlo_literal_get_complex(results[1], defined_place(results[1], index));
        const double _Complex want = hlo_literal_get_complex(results[0], defined_place(results[0], index));
        cr_assert_lt(cabs(is - want), 1e-11, "%s", defined_text(test));
    }
    for (bool more = defined_first(dims, &index); more; more = defined_next(dims, &index))
        defined_is(test, results[2], index, defined_at(operand, index), 1e-12);
}

// op(a) x = b, or x op(a) = b: the result is multiplied back, with the triangle that counts.
static void triangular_solve(Defined *test) {
    static const char *const transposes[] = {"NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"};
    const HloType type = defined_draw(test, 0, 1) ? HLO_C128 : HLO_F64;
    const bool left = defined_draw(test, 0, 1) == 1, lower = defined_draw(test, 0, 1) == 1;
    const bool unit = defined_draw(test, 0, 1) == 1;
    const int64_t form = defined_draw(test, 0, 2), n = defined_draw(test, 1, 4), m = defined_draw(test, 1, 3);
    Dims square = {.rank = 3, .at = {defined_draw(test, 1, 2), n, n}}, dims = square, index;
    dims.at[left ? 2 : 1] = m;
    HloLiteral *a = defined_array(test, type, square);
    const HloLiteral *b = defined_array(test, type, dims);
    for (int64_t i = 0; i < square.at[0]; i++)  // a diagonal that may be divided by
        for (int64_t k = 0; k < n; k++)
            hlo_literal_set_complex(a, (i * n + k) * n + k, CMPLX((double)(k + 2), type == HLO_C128 ? 1 : 0));
    begin_root(test, type, dims);
    hlo_text_format(&test->body, "triangular-solve(p0, p1), left_side=%s, lower=%s, unit_diagonal=%s, transpose_a=%s",
                    left ? "true" : "false", lower ? "true" : "false", unit ? "true" : "false", transposes[form]);
    defined_run(test);
    for (bool more = defined_first(dims, &index); more; more = defined_next(dims, &index)) {
        double _Complex sum = 0;
        const int64_t line = left ? index.at[1] : index.at[2];
        for (int64_t k = 0; k < n; k++) {
            // Element (line, k) of op(a), or (k, line) where it is on the right.
            int64_t row = left ? line : k, column = left ? k : line;
            if (form) row = left ? k : line, column = left ? line : k;
            double _Complex element = hlo_literal_get_complex(a, (index.at[0] * n + row) * n + column);
            if (lower ? column > row : column < row) element = 0;
            if (row == column && unit) element = 1;
            if (form == 2) element = conj(element);
            Dims at = index;
            at.at[left ? 1 : 2] = k;
            sum += element * hlo_literal_get_complex(test->result, defined_place(test->result, at));
        }
        const double _Complex want = hlo_literal_get_complex(b, defined_place(b, index));
        cr_assert_lt(cabs(sum - want), 1e-9 * (1 + cabs(want)), "%s", defined_text(test));
    }
}

// A factor times its adjoint is the matrix, whose other triangle does not count; all beyond the factor's is zero.
static void cholesky(Defined *test) {
    const HloType type = defined_draw(test, 0, 1) ? HLO_C128 : HLO_F64;
    const bool lower = defined_draw(test, 0, 1) == 1;
    const int64_t n = defined_draw(test, 0, 4);
    const Dims dims = {.rank = 3, .at = {2, n, n}};
    HloLiteral *a = defined_array(test, type, dims);
    for (int64_t i = 0; i < 2 * n; i++)  // dominated by its diagonal, which is real
        hlo_literal_set_complex(a, i / n * n * n + i % n * (n + 1), 30);
    begin_root(test, type, dims);
    hlo_text_format(&test->body, "cholesky(p0), lower=%s", lower ? "true" : "false");
    defined_run(test);
    for (int64_t batch = 0; batch < 2; batch++) {
        for (int64_t i = 0; i < n; i++) {
            for (int64_t j = 0; j < n; j++) {
                const int64_t at = (batch * n + i) * n + j;
                if (lower ? j > i : j < i) {
                    cr_assert(hlo_literal_get_complex(test->result, at) == 0, "%s", defined_text(test));
                    continue;
                }
                double _Complex sum = 0;
                for (int64_t k = 0; k < n; k++) {
                    const int64_t row = batch * n * n;
                    const double _Complex x =
                        hlo_literal_get_complex(test->result, row + (lower ? i * n + k : k * n + i));
                    const double _Complex y =
                        hlo_literal_get_complex(test->result, row + (lower ? j * n + k : k * n + j));
                    sum += lower ? x * conj(y) : conj(x) * y;
                }
                cr_assert_lt(cabs(sum - hlo_literal_get_complex(a, at)), 1e-12 * 30, "%s", defined_text(test));
            }
        }
    }
}

// Each feature's mean and variance over all other dimensions.
static void batch_norm(Defined *test) {
    const Dims dims = defined_dims(test, defined_draw(test, 1, 4), 1, 3);
    const int64_t feature = defined_draw(test, 0, dims.rank - 1);
    const Dims vector = {.rank = 1, .at = {dims.at[feature]}};
    Dims index;
    const HloLiteral *x = defined_array(test, HLO_F64, dims), *scale = defined_array(test, HLO_F64, vector);
    const HloLiteral *offset = defined_array(test, HLO_F64, vector);
    hlo_text_string(&test->body, " ROOT r = (");
    defined_shape(&test->body, HLO_F64, dims);
    for (int i = 0; i < 2; i++) {
        hlo_text_string(&test->body, ", ");
        defined_shape(&test->body, HLO_F64, vector);
    }
    hlo_text_format(&test->body, ") batch-norm-training(p0, p1, p2), epsilon=0.5, feature_index=%lld",
                    (long long)feature);
    defined_run(test);
    double sums[3] = {0}, squares[3] = {0}, count = 0;
    for (bool more = defined_first(dims, &index); more; more = defined_next(dims, &index)) {
        sums[index.at[feature]] += defined_at(x, index);
        squares[index.at[feature]] += defined_at(x, index) * defined_at(x, index);
        count += index.at[feature] == 0;
    }
    for (bool more = defined_first(dims, &index); more; more = defined_next(dims, &index)) {
        const Dims at = {.rank = 1, .at = {index.at[feature]}};
        const double mean = sums[at.at[0]] / count, variance = squares[at.at[0]] / count - mean * mean;
        defined_is(
            test, test->result->elements[0], index,
            (defined_at(x, index) - mean) / sqrt(variance + 0.5) * defined_at(scale, at) + defined_at(offset, at),
            1e-12);
        defined_is(test, test->result->elements[1], at, mean, 1e-13);
        defined_is(test, test->result->elements[2], at, variance, 1e-12);
    }
}

static const struct {
    const char *name;
    void (*check)(Defined *test);
} ops[] = {{"reduce", reduce},
           {"reduce of pairs", reduce_pairs},
           {"reduce-window", reduce_window},
           {"select-and-scatter", select_and_scatter},
           {"dot", dot},
           {"convolution", convolution},
           {"sort", sort},
           {"topk", topk},
           {"scan", scan},
           {"fft", fft},
           {"fft of real numbers", real_fft},
           {"triangular-solve", triangular_solve},
           {"cholesky", cholesky},
           {"batch-norm-training", batch_norm}};

CaseList(defined_sums, each_element_is_what_the_definition_gives) {
    return cases_numbered(HLO_COUNT_OF(ops));
}

CaseTest(const int *op, defined_sums, each_element_is_what_the_definition_gives) {
    const int64_t cases = cases_count("MESHLO_DEFINED_CASES", 300);
    for (int64_t seed = 0; seed < cases; seed++) {
        Defined test = defined_begin((uint64_t)seed);
        ops[*op].check(&test);
        defined_end(&test);
    }
}
