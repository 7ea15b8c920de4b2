// SPDX-License-Identifier: Apache-2.0
// Steps of random_module() that gather and scatter in the general form: any dimensions by any index, with windows,
// batching dimensions and several operands.
#include "tests/support/random_internal.h"

enum { kMostBatch = 2 };

// The roles of the operand's dimensions for an index, and the form of the other side.
typedef struct Numbers {
    int64_t sizes[kMaximumRank];                                  // of the slice
    int64_t dropped[kMaximumRank], batching[kMaximumRank];        // of the operand
    int64_t index_batching[kMaximumRank], windows[kMaximumRank];  // of the indices, of the other side
    int64_t map[kMaximumRank];
    int dropped_count, batching_count, window_count, map_count;
    int64_t vector;  // index_vector_dim
    Value indices, side;
} Numbers;

static HloType index_type(Generator *g) {
    static const HloType types[] = {HLO_S32, HLO_S32, HLO_S32, HLO_S64, HLO_U32, HLO_U8, HLO_S8, HLO_U64, HLO_U16};
    return types[random_below(g, HLO_COUNT_OF(types))];
}

static void choose_roles(Generator *g, const Value *operand, Numbers *numbers) {
    int64_t indexed[kMaximumRank];
    int count = 0;
    for (int d = 0; d < operand->rank; d++) {
        const int64_t role = operand->dims[d] ? random_below(g, 10) : 9;
        numbers->sizes[d] = role < 5 ? 1 : operand->dims[d];
        if (role < 4) {
            numbers->dropped[numbers->dropped_count++] = d;
        } else if (role == 4 && numbers->batching_count < kMostBatch) {
            numbers->batching[numbers->batching_count++] = d;
            continue;
        } else if (operand->dims[d] && random_chance(g, 40)) {
            numbers->sizes[d] = random_size(g, operand->dims[d]);
        }
        if (operand->dims[d] && (role < 4 || random_chance(g, 30))) indexed[count++] = d;
    }
    int64_t order[kMaximumRank];
    random_permutation(g, order, count);
    for (int i = 0; i < count; i++) numbers->map[i] = indexed[order[i]];
    numbers->map_count = count;
}

// The index array, and the array on the other side: its batch dimensions with the windows' put in between.
static bool choose_forms(Generator *g, const Value *operand, Numbers *numbers) {
    const int batch = numbers->batching_count + (int)random_below(g, kMostBatch + 1 - (numbers->batching_count > 1));
    int64_t sizes[2 * kMostBatch], order[2 * kMostBatch];
    random_permutation(g, order, batch);
    for (int i = 0; i < batch; i++) sizes[i] = random_size(g, 6);
    for (int i = 0; i < numbers->batching_count; i++) sizes[order[i]] = operand->dims[numbers->batching[i]];
    const bool is_scalar = numbers->map_count == 1 && random_chance(g, 50);
    numbers->indices = (Value){.type = index_type(g), .rank = batch + !is_scalar, .exact = true};
    numbers->vector = is_scalar ? batch : random_below(g, batch + 1);
    for (int i = 0, at = 0; i < numbers->indices.rank; i++)
        numbers->indices.dims[i] = !is_scalar && i == numbers->vector ? numbers->map_count : sizes[at++];
    for (int i = 0; i < numbers->batching_count; i++)
        numbers->index_batching[i] = order[i] + (!is_scalar && order[i] >= numbers->vector);
    numbers->window_count = operand->rank - numbers->dropped_count - numbers->batching_count;
    numbers->side = *operand;
    memset(numbers->side.bounds, 0, sizeof numbers->side.bounds);  // of more dimensions than the operand has
    numbers->side.rank = batch + numbers->window_count;
    if (numbers->side.rank > kMaximumRank) return false;
    int64_t window_sizes[kMaximumRank];
    for (int d = 0, at = 0; d < operand->rank; d++) {
        bool kept = true;
        for (int i = 0; i < numbers->dropped_count; i++) kept &= numbers->dropped[i] != d;
        for (int i = 0; i < numbers->batching_count; i++) kept &= numbers->batching[i] != d;
        if (kept) window_sizes[at++] = numbers->sizes[d];
    }
    for (int i = 0, window = 0, index = 0; i < numbers->side.rank; i++) {
        const int left = numbers->side.rank - i, windows = numbers->window_count - window;
        const bool is_window = windows && (windows == left || random_chance(g, 50));
        if (is_window) numbers->windows[window] = i;
        numbers->side.dims[i] = is_window ? window_sizes[window++] : sizes[index++];
    }
    return random_elements(&numbers->side) <= g->most_elements;
}

static bool choose_numbers(Generator *g, const Value *operand, Numbers *numbers) {
    *numbers = (Numbers){.vector = 0};
    choose_roles(g, operand, numbers);
    return choose_forms(g, operand, numbers);
}

void random_any_gather(Generator *g) {
    const int a = random_pick_where(g, random_wants_dimensions);
    Numbers numbers;
    if (a < 0 || !choose_numbers(g, &g->values[a], &numbers)) return;
    const int indices = random_partner(g, numbers.indices);
    numbers.side.exact = g->values[a].exact;
    random_begin(g, numbers.side);
    hlo_text_format(g->text, "gather(v%d, v%d), ", a, indices);
    random_print_list(g->text, "offset_dims=", numbers.windows, numbers.window_count);
    random_print_list(g->text, ", collapsed_slice_dims=", numbers.dropped, numbers.dropped_count);
    random_print_list(g->text, ", start_index_map=", numbers.map, numbers.map_count);
    random_print_list(g->text, ", operand_batching_dims=", numbers.batching, numbers.batching_count);
    random_print_list(g->text, ", start_indices_batching_dims=", numbers.index_batching, numbers.batching_count);
    hlo_text_format(g->text, ", index_vector_dim=%d, ", (int)numbers.vector);
    random_print_list(g->text, "slice_sizes=", numbers.sizes, g->values[a].rank);
    hlo_text_char(g->text, '\n');
}

static void print_scatter_numbers(HloText *text, const Numbers *numbers) {
    random_print_list(text, "update_window_dims=", numbers->windows, numbers->window_count);
    random_print_list(text, ", inserted_window_dims=", numbers->dropped, numbers->dropped_count);
    random_print_list(text, ", scatter_dims_to_operand_dims=", numbers->map, numbers->map_count);
    random_print_list(text, ", input_batching_dims=", numbers->batching, numbers->batching_count);
    random_print_list(text, ", scatter_indices_batching_dims=", numbers->index_batching, numbers->batching_count);
    hlo_text_format(text, ", index_vector_dim=%d", (int)numbers->vector);
}

// Two arrays at once, each with its own operation.
static void scatter_two(Generator *g, int a, const Numbers *numbers) {
    const Value first = g->values[a];
    Value second = first, other = numbers->side;
    second.type = other.type = random_chance(g, 50) ? HLO_S32 : HLO_F32;
    const int b = random_parameter(g, second), indices = random_partner(g, numbers->indices),
              x = random_parameter(g, numbers->side), y = random_parameter(g, other), number = random_called(g);
    static const char *const operations[] = {"maximum", "minimum"};
    const char *type = hlo_type_text(first.type), *second_type = hlo_type_text(second.type);
    hlo_text_format(g->head,
                    "two%d { a = %s[] parameter(0)\n b = %s[] parameter(1)\n c = %s[] parameter(2)\n d = %s[] "
                    "parameter(3)\n x = %s[] %s(a, c)\n y = %s[] %s(b, d)\n ROOT r = (%s[], %s[]) tuple(x, y) }\n\n",
                    number, type, second_type, type, second_type, type, operations[random_below(g, 2)], second_type,
                    operations[random_below(g, 2)], type, second_type);
    hlo_text_format(g->text, "  two%d = (", number);
    random_print_shape(g->text, &first);
    hlo_text_string(g->text, ", ");
    random_print_shape(g->text, &second);
    hlo_text_format(g->text, ") scatter(v%d, v%d, v%d, v%d, v%d), ", a, b, indices, x, y);
    print_scatter_numbers(g->text, numbers);
    hlo_text_format(g->text, ", to_apply=two%d\n", number);
    random_put(g, first, "get-tuple-element(two%d), index=0", number);
    random_put(g, second, "get-tuple-element(two%d), index=1", number);
}

void random_any_scatter(Generator *g) {
    const int a = random_pick_where(g, random_wants_exact_array);
    Numbers numbers;
    if (a < 0 || !choose_numbers(g, &g->values[a], &numbers)) return;
    numbers.side.exact = true;
    if (random_chance(g, 20)) {
        scatter_two(g, a, &numbers);
        return;
    }
    Value into = g->values[a];
    const bool sum = !g->exact && hlo_type_is_float(into.type) && hlo_type_bytes(into.type) > 2 && random_chance(g, 30);
    const int indices = random_partner(g, numbers.indices);
    int update = random_partner(g, numbers.side);
    if (!g->values[update].exact) update = random_parameter(g, numbers.side);
    const ReducerName reducer = random_reducer(g, sum ? ADD : random_exact_reducer(g, into.type), into.type);
    into.exact = !sum;
    const int result = random_begin(g, into);
    hlo_text_format(g->text, "scatter(v%d, v%d, v%d), ", a, indices, update);
    print_scatter_numbers(g->text, &numbers);
    hlo_text_format(g->text, ", to_apply=%s\n", reducer.text);
    if (sum) random_scaled(g, result, "0.0625");
}
