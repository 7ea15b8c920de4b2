// SPDX-License-Identifier: Apache-2.0
// Ops that only move elements, by their definitions: result[index] is operand[where that index comes from].
#include <criterion/criterion.h>
#include <string.h>

#include "tests/eval/defined.h"
#include "tests/support/cases.h"

// " ROOT r = TYPE[DIMS] "
static void begin_root(Defined *test, HloType type, Dims dims) {
    hlo_text_string(&test->body, " ROOT r = ");
    defined_shape(&test->body, type, dims);
    hlo_text_char(&test->body, ' ');
}

// Dimension i of the operand becomes dimension map[i] of the result.
static void broadcast(Defined *test) {
    const HloType type = defined_type(test);
    const Dims dims = defined_dims(test, defined_draw(test, 0, 4), 0, 3);
    int64_t map[DEFINED_MOST_RANK];
    Dims from = {.rank = defined_draw(test, 0, dims.rank)}, index, source;
    defined_distinct(test, dims.rank, from.rank, map);
    for (int64_t i = 0; i < from.rank; i++) from.at[i] = dims.at[map[i]];
    const HloLiteral *operand = defined_array(test, type, from);
    begin_root(test, type, dims);
    hlo_text_string(&test->body, "broadcast(p0), dimensions=");
    defined_list(&test->body, map, from.rank);
    defined_run(test);
    for (bool more = defined_first(dims, &index); more; more = defined_next(dims, &index)) {
        source = (Dims){.rank = from.rank};
        for (int64_t i = 0; i < from.rank; i++) source.at[i] = index.at[map[i]];
        defined_same(test, test->result, index, operand, source);
    }
}

// Dimension i of the result is dimension permutation[i] of the operand.
static void transpose(Defined *test) {
    const HloType type = defined_type(test);
    const Dims from = defined_dims(test, defined_draw(test, 0, 5), 0, 3);
    int64_t permutation[DEFINED_MOST_RANK];
    Dims dims = {.rank = from.rank}, index, source = from;
    defined_distinct(test, from.rank, from.rank, permutation);
    for (int64_t i = 0; i < from.rank; i++) dims.at[i] = from.at[permutation[i]];
    const HloLiteral *operand = defined_array(test, type, from);
    begin_root(test, type, dims);
    hlo_text_string(&test->body, "transpose(p0), dimensions=");
    defined_list(&test->body, permutation, from.rank);
    defined_run(test);
    for (bool more = defined_first(dims, &index); more; more = defined_next(dims, &index)) {
        for (int64_t i = 0; i < from.rank; i++) source.at[permutation[i]] = index.at[i];
        defined_same(test, test->result, index, operand, source);
    }
}

static void reverse(Defined *test) {
    const HloType type = defined_type(test);
    const Dims dims = defined_dims(test, defined_draw(test, 0, 4), 0, 4);
    int64_t reversed[DEFINED_MOST_RANK];
    const int64_t count = defined_draw(test, 0, dims.rank);
    Dims index, source;
    defined_distinct(test, dims.rank, count, reversed);
    const HloLiteral *operand = defined_array(test, type, dims);
    begin_root(test, type, dims);
    hlo_text_string(&test->body, "reverse(p0), dimensions=");
    defined_list(&test->body, reversed, count);
    defined_run(test);
    for (bool more = defined_first(dims, &index); more; more = defined_next(dims, &index)) {
        source = index;
        for (int64_t i = 0; i < count; i++) source.at[reversed[i]] = dims.at[reversed[i]] - 1 - index.at[reversed[i]];
        defined_same(test, test->result, index, operand, source);
    }
}

// Element i of the result is element start + i * stride; there are as many as lie below the limit.
static void slice(Defined *test) {
    const HloType type = defined_type(test);
    const Dims from = defined_dims(test, defined_draw(test, 0, 4), 0, 6);
    Dims start = from, stride = from, dims = from, index, source = from;
    HloText ranges = {0};
    for (int64_t i = 0; i < from.rank; i++) {
        start.at[i] = defined_draw(test, 0, from.at[i]);
        stride.at[i] = defined_draw(test, 1, 3);
        const int64_t limit = defined_draw(test, start.at[i], from.at[i]);
        dims.at[i] = 0;
        for (int64_t k = start.at[i]; k < limit; k += stride.at[i]) dims.at[i]++;
        hlo_text_format(&ranges, "%s[%lld:%lld:%lld]", i ? ", " : "", (long long)start.at[i], (long long)limit,
                        (long long)stride.at[i]);
    }
    const HloLiteral *operand = defined_array(test, type, from);
    begin_root(test, type, dims);
    hlo_text_format(&test->body, "slice(p0), slice={%s}", ranges.data ? ranges.data : "");
    hlo_text_free(&ranges);
    defined_run(test);
    for (bool more = defined_first(dims, &index); more; more = defined_next(dims, &index)) {
        for (int64_t i = 0; i < dims.rank; i++) source.at[i] = start.at[i] + index.at[i] * stride.at[i];
        defined_same(test, test->result, index, operand, source);
    }
}

static int64_t clamped(int64_t start, int64_t size, int64_t block) {
    return start < 0 ? 0 : start > size - block ? size - block : start;
}

// Start indices as scalars p1 … or as one vector p1, some of them outside.
static void add_starts(Defined *test, Dims of, Dims block, bool vector, int64_t *starts) {
    for (int64_t i = 0; i < of.rank; i++) {
        if (i == 0 || !vector) defined_indices(test, (Dims){.rank = vector, .at = {of.rank}}, -3, 7);
        const HloLiteral *given = test->arguments[test->count - 1];
        starts[i] = clamped(hlo_literal_get_int64(given, vector ? i : 0), of.at[i], block.at[i]);
    }
}

static void append_operands(Defined *test) {
    for (int64_t i = 0; i < test->count; i++) hlo_text_format(&test->body, i ? ", p%lld" : "p%lld", (long long)i);
}

static void dynamic_slice(Defined *test) {
    const HloType type = defined_type(test);
    const Dims from = defined_dims(test, defined_draw(test, 1, 4), 0, 5);
    Dims dims = from, index, source = from;
    int64_t starts[DEFINED_MOST_RANK];
    for (int64_t i = 0; i < from.rank; i++) dims.at[i] = defined_draw(test, 0, from.at[i]);
    const HloLiteral *operand = defined_array(test, type, from);
    add_starts(test, from, dims, defined_draw(test, 0, 3) == 0, starts);
    begin_root(test, type, dims);
    hlo_text_string(&test->body, "dynamic-slice(");
    append_operands(test);
    hlo_text_string(&test->body, "), dynamic_slice_sizes=");
    defined_list(&test->body, dims.at, dims.rank);
    defined_run(test);
    for (bool more = defined_first(dims, &index); more; more = defined_next(dims, &index)) {
        for (int64_t i = 0; i < dims.rank; i++) source.at[i] = starts[i] + index.at[i];
        defined_same(test, test->result, index, operand, source);
    }
}

static void dynamic_update_slice(Defined *test) {
    const HloType type = defined_type(test);
    const Dims dims = defined_dims(test, defined_draw(test, 1, 4), 0, 5);
    Dims block = dims, index, inner;
    int64_t starts[DEFINED_MOST_RANK];
    for (int64_t i = 0; i < dims.rank; i++) block.at[i] = defined_draw(test, 0, dims.at[i]);
    const HloLiteral *operand = defined_array(test, type, dims), *update = defined_array(test, type, block);
    add_starts(test, dims, block, false, starts);
    begin_root(test, type, dims);
    hlo_text_string(&test->body, "dynamic-update-slice(");
    append_operands(test);
    hlo_text_string(&test->body, ")");
    defined_run(test);
    for (bool more = defined_first(dims, &index); more; more = defined_next(dims, &index)) {
        bool inside = true;
        inner = index;
        for (int64_t i = 0; i < dims.rank; i++) {
            inner.at[i] -= starts[i];
            inside = inside && inner.at[i] >= 0 && inner.at[i] < block.at[i];
        }
        defined_same(test, test->result, index, inside ? update : operand, inside ? inner : index);
    }
}

static void concatenate(Defined *test) {
    const HloType type = defined_type(test);
    Dims dims = defined_dims(test, defined_draw(test, 1, 4), 0, 3), index, source;
    const int64_t along = defined_draw(test, 0, dims.rank - 1), count = defined_draw(test, 1, 5);
    int64_t total = 0;
    for (int64_t k = 0; k < count; k++) {
        dims.at[along] = defined_draw(test, 0, 3);
        total += dims.at[along];
        defined_array(test, type, dims);
    }
    dims.at[along] = total;
    begin_root(test, type, dims);
    hlo_text_string(&test->body, "concatenate(");
    append_operands(test);
    hlo_text_format(&test->body, "), dimensions={%lld}", (long long)along);
    defined_run(test);
    for (bool more = defined_first(dims, &index); more; more = defined_next(dims, &index)) {
        int64_t k = 0;
        for (source = index; source.at[along] >= defined_sizes(test->arguments[k]).at[along]; k++)
            source.at[along] -= defined_sizes(test->arguments[k]).at[along];
        defined_same(test, test->result, index, test->arguments[k], source);
    }
}

// Element k of the operand is at low + k * (interior + 1), if that is inside of the result; the rest is padding.
static void pad(Defined *test) {
    const HloType type = defined_type(test);
    const Dims from = defined_dims(test, defined_draw(test, 0, 3), 0, 4);
    Dims low = from, step = from, dims = from, index, source = from;
    HloText padding = {0};
    for (int64_t i = 0; i < from.rank; i++) {
        const int64_t spread = from.at[i] ? (from.at[i] - 1) * (step.at[i] = defined_draw(test, 1, 3)) + 1 : 0;
        if (from.at[i] == 0) step.at[i] = 1;
        low.at[i] = defined_draw(test, -spread, 2);
        const int64_t high = defined_draw(test, -(spread + low.at[i]), 3);
        dims.at[i] = spread + low.at[i] + high;
        hlo_text_format(&padding, "%s%lld_%lld_%lld", i ? "x" : "", (long long)low.at[i], (long long)high,
                        (long long)(step.at[i] - 1));
    }
    const HloLiteral *operand = defined_array(test, type, from);
    const HloLiteral *value = defined_array(test, type, (Dims){.rank = 0});
    begin_root(test, type, dims);
    hlo_text_format(&test->body, "pad(p0, p1), padding=%s", padding.data ? padding.data : "");
    hlo_text_free(&padding);
    defined_run(test);
    for (bool more = defined_first(dims, &index); more; more = defined_next(dims, &index)) {
        bool inside = true;
        for (int64_t i = 0; i < dims.rank; i++) {
            const int64_t place = index.at[i] - low.at[i];
            inside = inside && place >= 0 && place % step.at[i] == 0 && place / step.at[i] < from.at[i];
            source.at[i] = place / step.at[i];
        }
        defined_same(test, test->result, index, inside ? operand : value, inside ? source : (Dims){.rank = 0});
    }
}

// The same elements in row-major order.
static void reshape(Defined *test) {
    const HloType type = defined_type(test);
    Dims from = defined_dims(test, defined_draw(test, 0, 4), 1, 4), to = {.rank = 0}, index, source;
    for (int64_t i = 0; i < from.rank; i++) {  // dimensions are joined, and ones put between
        if (to.rank == 0 || defined_draw(test, 0, 1)) to.at[to.rank++] = 1;
        to.at[to.rank - 1] *= from.at[i];
        if (defined_draw(test, 0, 3) == 0 && to.rank < DEFINED_MOST_RANK - 1) to.at[to.rank++] = 1;
    }
    const HloLiteral *operand = defined_array(test, type, from);
    begin_root(test, type, to);
    hlo_text_string(&test->body, "reshape(p0)");
    defined_run(test);
    bool more = defined_first(to, &index);
    for (defined_first(from, &source); more; more = defined_next(to, &index)) {
        defined_same(test, test->result, index, operand, source);
        defined_next(from, &source);
    }
}

static void iota(Defined *test) {
    const HloType types[] = {HLO_S8, HLO_U32, HLO_F32, HLO_BF16, HLO_F64, HLO_U4};
    const HloType type = types[defined_draw(test, 0, (int64_t)HLO_COUNT_OF(types) - 1)];
    const Dims dims = defined_dims(test, defined_draw(test, 1, 4), 0, 5);
    const int64_t along = defined_draw(test, 0, dims.rank - 1);
    Dims index;
    begin_root(test, type, dims);
    hlo_text_format(&test->body, "iota(), iota_dimension=%lld", (long long)along);
    defined_run(test);
    for (bool more = defined_first(dims, &index); more; more = defined_next(dims, &index))
        defined_is(test, test->result, index, (double)index.at[along], 0);
}

static void select_between(Defined *test) {
    const HloType type = defined_type(test);
    const Dims dims = defined_dims(test, defined_draw(test, 0, 3), 0, 4);
    const bool scalar = defined_draw(test, 0, 2) == 0;
    Dims index;
    const HloLiteral *choice = defined_array(test, HLO_PRED, scalar ? (Dims){.rank = 0} : dims);
    const HloLiteral *yes = defined_array(test, type, dims), *no = defined_array(test, type, dims);
    begin_root(test, type, dims);
    hlo_text_string(&test->body, "select(p0, p1, p2)");
    defined_run(test);
    for (bool more = defined_first(dims, &index); more; more = defined_next(dims, &index)) {
        const double chosen = defined_at(choice, scalar ? (Dims){.rank = 0} : index);
        defined_same(test, test->result, index, chosen != 0 ? yes : no, index);
    }
}

// The common part of a gather and a scatter: which dimensions of the operand are windows, indexed and batching, in
// random numbers. Window dimensions of the other side are at random positions among its batch dimensions.
typedef struct Indexed {
    Dims operand, window;  // sizes; a window is 1 in collapsed and batching dimensions
    Dims indices;          // with the vector dimension
    int64_t vector;        // index_vector_dim
    int64_t map[DEFINED_MOST_RANK], mapped;
    int64_t collapsed[DEFINED_MOST_RANK], collapsed_count;
    int64_t batching[DEFINED_MOST_RANK], indices_batching[DEFINED_MOST_RANK], batching_count;
    int64_t offset[DEFINED_MOST_RANK], offset_count;  // dimensions of the other side that are of the window
    Dims other;                                       // sizes of the other side
} Indexed;

static bool holds(const int64_t *list, int64_t count, int64_t number) {
    for (int64_t i = 0; i < count; i++)
        if (list[i] == number) return true;
    return false;
}

static void sort_numbers(int64_t *list, int64_t count) {
    for (int64_t i = 1; i < count; i++)
        for (int64_t j = i; j > 0 && list[j - 1] > list[j]; j--) {
            const int64_t held = list[j];
            list[j] = list[j - 1];
            list[j - 1] = held;
        }
}

static Indexed draw_indexed(Defined *test) {
    Indexed x = {.operand = defined_dims(test, defined_draw(test, 1, 3), 1, 4)};
    x.window = x.operand;
    int64_t order[DEFINED_MOST_RANK];
    defined_distinct(test, x.operand.rank, x.operand.rank, order);
    x.batching_count = x.operand.rank > 1 ? defined_draw(test, 0, 1) : 0;
    x.collapsed_count = defined_draw(test, 0, x.operand.rank - x.batching_count);
    for (int64_t i = 0; i < x.batching_count; i++) x.batching[i] = order[i];
    for (int64_t i = 0; i < x.collapsed_count; i++) x.collapsed[i] = order[x.batching_count + i];
    sort_numbers(x.collapsed, x.collapsed_count);
    x.mapped = defined_draw(test, 0, x.operand.rank - x.batching_count);
    for (int64_t i = 0; i < x.mapped; i++) x.map[i] = order[x.operand.rank - 1 - i];
    for (int64_t i = 0; i < x.operand.rank; i++) {
        const bool gone = holds(x.collapsed, x.collapsed_count, i) || holds(x.batching, x.batching_count, i);
        x.window.at[i] = gone ? 1 : defined_draw(test, 1, x.operand.at[i]);
    }
    // The indices: some batch dimensions, one of which may go along with a batching dimension, and the vector.
    Dims batch = defined_dims(test, x.batching_count + defined_draw(test, 0, 2), 1, 3);
    for (int64_t i = 0; i < x.batching_count; i++) batch.at[i] = x.operand.at[x.batching[i]];
    x.vector = defined_draw(test, 0, batch.rank);
    x.indices = (Dims){.rank = batch.rank + 1};
    for (int64_t i = 0; i < x.indices.rank; i++)
        x.indices.at[i] = i == x.vector ? x.mapped : batch.at[i < x.vector ? i : i - 1];
    for (int64_t i = 0; i < x.batching_count; i++) x.indices_batching[i] = i < x.vector ? i : i + 1;
    // The other side.
    x.offset_count = x.operand.rank - x.collapsed_count - x.batching_count;
    x.other.rank = batch.rank + x.offset_count;
    defined_distinct(test, x.other.rank, x.offset_count, x.offset);
    sort_numbers(x.offset, x.offset_count);
    for (int64_t i = 0, next = 0, w = 0; i < x.other.rank; i++) {
        if (!holds(x.offset, x.offset_count, i)) {
            x.other.at[i] = batch.at[next++];
            continue;
        }
        while (holds(x.collapsed, x.collapsed_count, w) || holds(x.batching, x.batching_count, w)) w++;
        x.other.at[i] = x.window.at[w++];
    }
    return x;
}

// The position of the window to which element `at` of the other side belongs, and the element's index in it.
static void split_index(const Indexed *x, const HloLiteral *indices, Dims at, Dims *start, Dims *inner) {
    Dims place = {.rank = x->indices.rank};
    *start = *inner = (Dims){.rank = x->operand.rank};
    for (int64_t i = 0, next = 0, w = 0; i < at.rank; i++) {
        if (!holds(x->offset, x->offset_count, i)) {
            if (next == x->vector) next++;
            place.at[next++] = at.at[i];
            continue;
        }
        while (holds(x->collapsed, x->collapsed_count, w) || holds(x->batching, x->batching_count, w)) w++;
        inner->at[w++] = at.at[i];
    }
    for (int64_t i = 0; i < x->mapped; i++) {
        place.at[x->vector] = i;
        start->at[x->map[i]] = (int64_t)defined_at(indices, place);
    }
    for (int64_t i = 0; i < x->batching_count; i++) start->at[x->batching[i]] = place.at[x->indices_batching[i]];
}

static void gather(Defined *test) {
    const HloType type = defined_type(test);
    const Indexed x = draw_indexed(test);
    const HloLiteral *operand = defined_array(test, type, x.operand),
                     *indices = defined_indices(test, x.indices, -2, 5);
    Dims index, start, inner;
    begin_root(test, type, x.other);
    hlo_text_string(&test->body, "gather(p0, p1), offset_dims=");
    defined_list(&test->body, x.offset, x.offset_count);
    hlo_text_string(&test->body, ", collapsed_slice_dims=");
    defined_list(&test->body, x.collapsed, x.collapsed_count);
    hlo_text_string(&test->body, ", start_index_map=");
    defined_list(&test->body, x.map, x.mapped);
    hlo_text_string(&test->body, ", operand_batching_dims=");
    defined_list(&test->body, x.batching, x.batching_count);
    hlo_text_string(&test->body, ", start_indices_batching_dims=");
    defined_list(&test->body, x.indices_batching, x.batching_count);
    hlo_text_format(&test->body, ", index_vector_dim=%lld, slice_sizes=", (long long)x.vector);
    defined_list(&test->body, x.window.at, x.window.rank);
    defined_run(test);
    for (bool more = defined_first(x.other, &index); more; more = defined_next(x.other, &index)) {
        split_index(&x, indices, index, &start, &inner);
        for (int64_t i = 0; i < x.operand.rank; i++)
            inner.at[i] += clamped(start.at[i], x.operand.at[i], x.window.at[i]);
        defined_same(test, test->result, index, operand, inner);
    }
}

// Sums of small whole numbers, so that order does not matter. A window that does not fit is left out altogether.
static void scatter(Defined *test) {
    const Indexed x = draw_indexed(test);
    const HloLiteral *operand = defined_indices(test, x.operand, -9, 9),
                     *indices = defined_indices(test, x.indices, -2, 5);
    const HloLiteral *updates = defined_indices(test, x.other, -9, 9);
    hlo_text_string(&test->called,
                    "add { a = s32[] parameter(0)\n b = s32[] parameter(1)\n ROOT c = s32[] add(a, b) }\n");
    begin_root(test, HLO_S32, x.operand);
    hlo_text_string(&test->body, "scatter(p0, p1, p2), update_window_dims=");
    defined_list(&test->body, x.offset, x.offset_count);
    hlo_text_string(&test->body, ", inserted_window_dims=");
    defined_list(&test->body, x.collapsed, x.collapsed_count);
    hlo_text_string(&test->body, ", scatter_dims_to_operand_dims=");
    defined_list(&test->body, x.map, x.mapped);
    hlo_text_string(&test->body, ", input_batching_dims=");
    defined_list(&test->body, x.batching, x.batching_count);
    hlo_text_string(&test->body, ", scatter_indices_batching_dims=");
    defined_list(&test->body, x.indices_batching, x.batching_count);
    hlo_text_format(&test->body, ", index_vector_dim=%lld, to_apply=add", (long long)x.vector);
    defined_run(test);
    Dims index, at, start, inner;
    for (bool more = defined_first(x.operand, &at); more; more = defined_next(x.operand, &at)) {
        double sum = defined_at(operand, at);
        for (bool other = defined_first(x.other, &index); other; other = defined_next(x.other, &index)) {
            split_index(&x, indices, index, &start, &inner);
            bool fits = true, hits = true;
            for (int64_t i = 0; i < x.operand.rank; i++) {
                fits = fits && start.at[i] >= 0 && start.at[i] + x.window.at[i] <= x.operand.at[i];
                hits = hits && start.at[i] + inner.at[i] == at.at[i];
            }
            if (fits && hits) sum += defined_at(updates, index);
        }
        defined_is(test, test->result, at, sum, 0);
    }
}

// In both directions, an element of twice the bits or more corresponds to its parts, lowest first, along a new last
// dimension.
static void bitcast_convert(Defined *test) {
    static const HloType pairs[][2] = {{HLO_U8, HLO_U32}, {HLO_S16, HLO_F64},  {HLO_U4, HLO_U32},
                                       {HLO_S2, HLO_S8},  {HLO_BF16, HLO_S32}, {HLO_U1, HLO_U16}};
    const HloType *pair = pairs[defined_draw(test, 0, (int64_t)HLO_COUNT_OF(pairs) - 1)];
    const int bits = hlo_type_info(pair[0])->bits, parts = hlo_type_info(pair[1])->bits / bits;
    const Dims dims = defined_dims(test, defined_draw(test, 0, 2), 0, 3);
    Dims split = dims, index, part;
    split.at[split.rank++] = parts;
    defined_indices(test, dims, -1000000, 1000000);  // numbers with all sorts of bits
    hlo_text_string(&test->body, " w = ");
    defined_shape(&test->body, pair[1], dims);
    hlo_text_string(&test->body,
                    hlo_type_is_float(pair[1]) || pair[1] == HLO_S32 ? " convert(p0)\n" : " convert(p0)\n");
    hlo_text_string(&test->body, " n = ");
    defined_shape(&test->body, pair[0], split);
    hlo_text_string(&test->body, " bitcast-convert(w)\n b = ");
    defined_shape(&test->body, pair[1], dims);
    hlo_text_string(&test->body, " bitcast-convert(n)\n ROOT r = (");
    defined_shape(&test->body, pair[1], dims);
    hlo_text_string(&test->body, ", ");
    defined_shape(&test->body, pair[0], split);
    hlo_text_string(&test->body, ", ");
    defined_shape(&test->body, pair[1], dims);
    hlo_text_string(&test->body, ") tuple(w, n, b)");
    defined_run(test);
    const HloLiteral *whole = test->result->elements[0], *narrow = test->result->elements[1];
    const int64_t bytes = hlo_type_bytes(pair[1]), narrow_bytes = hlo_type_bytes(pair[0]);
    for (bool more = defined_first(dims, &index); more; more = defined_next(dims, &index)) {
        defined_same(test, test->result->elements[2], index, whole, index);
        uint64_t pattern = 0, mask = bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
        memcpy(&pattern, (const char *)whole->data + defined_place(whole, index) * bytes, (size_t)bytes);
        if (hlo_type_info(pair[1])->bits < 64) pattern &= (UINT64_C(1) << hlo_type_info(pair[1])->bits) - 1;
        part = index;
        for (part.at[part.rank++] = 0; part.at[index.rank] < parts; part.at[index.rank]++) {
            uint64_t have = 0;
            memcpy(&have, (const char *)narrow->data + defined_place(narrow, part) * narrow_bytes,
                   (size_t)narrow_bytes);
            cr_assert_eq(have & mask, pattern >> (bits * part.at[index.rank]) & mask, "%s", defined_text(test));
        }
    }
}

static const struct {
    const char *name;
    void (*check)(Defined *test);
} ops[] = {{"broadcast", broadcast},
           {"transpose", transpose},
           {"reverse", reverse},
           {"slice", slice},
           {"dynamic-slice", dynamic_slice},
           {"dynamic-update-slice", dynamic_update_slice},
           {"concatenate", concatenate},
           {"pad", pad},
           {"reshape", reshape},
           {"iota", iota},
           {"select", select_between},
           {"gather", gather},
           {"scatter", scatter},
           {"bitcast-convert", bitcast_convert}};

CaseList(defined_moves, each_element_comes_from_where_the_definition_says) {
    return cases_numbered(HLO_COUNT_OF(ops));
}

CaseTest(const int *op, defined_moves, each_element_comes_from_where_the_definition_says) {
    const int64_t cases = cases_count("MESHLO_DEFINED_CASES", 300);
    for (int64_t seed = 0; seed < cases; seed++) {
        Defined test = defined_begin((uint64_t)seed);
        ops[*op].check(&test);
        defined_end(&test);
    }
}
