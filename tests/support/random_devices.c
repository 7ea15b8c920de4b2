// SPDX-License-Identifier: Apache-2.0
// Steps of random_devices_module(): collectives and messages, in groups of replicas, of partitions, and of both.
#include <stdio.h>

#include "tests/support/random_internal.h"

enum { kMostGroups = kMostDevices };

// The units of the numbers in replica_groups. Source: GetCollectiveOpGroupMode() in
// xla/service/collective_ops_utils.cc.
typedef enum Kind { REPLICAS, PARTITIONS, BUNDLES, DEVICES } Kind;

typedef struct Groups {
    Kind kind;
    int count;
    int64_t sizes[kMostGroups];  // of numbers
    int64_t numbers[kMostDevices];
    int64_t members;  // devices of each group, where all are of one size
    char text[160];   // replica_groups=…
} Groups;

static int device_count(const Generator *g) {
    return g->replicas * g->partitions;
}

// A divisor of the number.
static int64_t divisor(Generator *g, int64_t number) {
    int64_t result;
    do {
        result = random_size(g, number);
    } while (number % result != 0);
    return result;
}

static void print_groups(Generator *g, Groups *groups, int64_t count) {
    HloText text = {0};
    if (groups->count == 1 && groups->kind == REPLICAS && random_chance(g, 20)) {
        hlo_text_string(&text, "{}");
    } else if (groups->sizes[0] * groups->count == count && random_chance(g, 25)) {
        // In order, or across.
        const int64_t size = groups->sizes[0];
        const bool across = random_chance(g, 50);
        for (int64_t i = 0; i < count; i++) groups->numbers[i] = across ? i % size * groups->count + i / size : i;
        hlo_text_format(&text, "[%d,%d]<=[", groups->count, (int)size);
        if (across)
            hlo_text_format(&text, "%d,%d]T(1,0)", (int)size, groups->count);
        else
            hlo_text_format(&text, "%d]", (int)count);
    } else {
        hlo_text_char(&text, '{');
        for (int i = 0, at = 0; i < groups->count; at += (int)groups->sizes[i++])
            random_print_list(&text, i ? "," : "", groups->numbers + at, (int)groups->sizes[i]);
        hlo_text_char(&text, '}');
    }
    snprintf(groups->text, sizeof groups->text, "replica_groups=%s", text.data);
    hlo_text_free(&text);
}

// Groups of all numbers of a kind. `global`: the op takes use_global_device_ids; without that a channel means
// partitions. `even`: all of one size.
static Groups some_groups(Generator *g, bool global, bool even) {
    static const Kind with[] = {REPLICAS, BUNDLES, DEVICES, DEVICES}, without[] = {REPLICAS, PARTITIONS, PARTITIONS};
    Groups groups = {.kind = global ? with[random_below(g, 4)] : without[random_below(g, 3)]};
    const int64_t counts[] = {g->replicas, g->partitions, g->replicas, device_count(g)}, count = counts[groups.kind];
    random_permutation(g, groups.numbers, (int)count);
    if (even) {
        const int64_t size = divisor(g, count);
        for (int64_t rest = count; rest > 0; rest -= size) groups.sizes[groups.count++] = size;
        groups.members = groups.kind == BUNDLES ? size * g->partitions : size;
    } else {
        for (int64_t rest = count; rest > 0; rest -= groups.sizes[groups.count++])
            groups.sizes[groups.count] = random_size(g, rest);
    }
    print_groups(g, &groups, count);
    return groups;
}

// ", channel_id=7, replica_groups={{0,1}}, use_global_device_ids=true"
static void print_group_attributes(Generator *g, const Groups *groups) {
    if (groups->kind != REPLICAS) hlo_text_format(g->text, ", channel_id=%d", 1 + random_called(g));
    hlo_text_format(g->text, ", %s%s", groups->text, groups->kind == DEVICES ? ", use_global_device_ids=true" : "");
}

// ---- who one is

int random_device_number(Generator *g) {
    const Value word = random_scalar(HLO_U32), number = random_scalar(HLO_S32);
    const int replica = random_put(g, word, "replica-id()"), partition = random_put(g, word, "partition-id()");
    const int count = random_put(g, word, "constant(%d)", g->partitions);
    const int first = random_put(g, word, "multiply(v%d, v%d)", replica, count);
    const int sum = random_put(g, word, "add(v%d, v%d)", first, partition);
    return random_put(g, number, "convert(v%d)", sum);
}

void random_own_number(Generator *g) {
    random_device_number(g);
}

// ---- several operands of one form or of several

enum { kMostOperands = 3 };

typedef struct Operands {
    int numbers[kMostOperands], count;
    Value results[kMostOperands];
} Operands;

static void print_operands(HloText *text, const Operands *operands) {
    for (int i = 0; i < operands->count; i++) hlo_text_format(text, "%sv%d", i ? ", " : "", operands->numbers[i]);
}

static void print_shapes(HloText *text, const Value *forms, int count) {
    if (count == 1)
        random_print_shape(text, &forms[0]);
    else
        random_print_forms(text, forms, count);
}

// "name7 = SHAPE ", or of one result "v7 = SHAPE ".
static void begin_results(Generator *g, const Operands *operands, int number) {
    if (operands->count == 1) {
        random_begin(g, operands->results[0]);
        return;
    }
    hlo_text_format(g->text, "  all%d = ", number);
    random_print_forms(g->text, operands->results, operands->count);
    hlo_text_char(g->text, ' ');
}

// The results' numbers are the last ones.
static void end_results(Generator *g, const Operands *operands, int number) {
    if (operands->count > 1) random_take_apart(g, "all", number, operands->results, operands->count);
}

// The asynchronous form "OP-start(...)" of (operands, results), with other steps before its end.
static void print_pair(Generator *g, const Operands *operands, int number, const char *op, const char *context,
                       const HloText *attributes) {
    Value from[kMostOperands];
    for (int i = 0; i < operands->count; i++) from[i] = g->values[operands->numbers[i]];
    hlo_text_format(g->text, "  begun%d = ", number);
    if (context) {
        hlo_text_char(g->text, '(');
        print_shapes(g->text, from, operands->count);
        hlo_text_string(g->text, ", ");
    }
    print_shapes(g->text, operands->results, operands->count);
    hlo_text_format(g->text, "%s%s %s-start(", context ? context : "", context ? ")" : "", op);
    print_operands(g->text, operands);
    hlo_text_format(g->text, ")%s\n", attributes->data);
    random_steps(g, (int)random_below(g, 3));
    begin_results(g, operands, number);
    hlo_text_format(g->text, "%s-done(begun%d)\n", op, number);
    end_results(g, operands, number);
}

// The asynchronous form of an op that has no start op of its own.
static void print_wrapped(Generator *g, const Operands *operands, int number, const char *op,
                          const HloText *attributes) {
    Value from[kMostOperands];
    hlo_text_format(g->head, "wrapped%d {\n", number);
    for (int i = 0; i < operands->count; i++) {
        from[i] = g->values[operands->numbers[i]];
        hlo_text_format(g->head, "  p%d = ", i);
        random_print_shape(g->head, &from[i]);
        hlo_text_format(g->head, " parameter(%d)\n", i);
    }
    hlo_text_string(g->head, "  ROOT r = ");
    print_shapes(g->head, operands->results, operands->count);
    hlo_text_format(g->head, " %s(", op);
    for (int i = 0; i < operands->count; i++) hlo_text_format(g->head, "%sp%d", i ? ", " : "", i);
    hlo_text_format(g->head, ")%s\n}\n\n", attributes->data);
    hlo_text_format(g->text, "  begun%d = (", number);
    random_print_forms(g->text, from, operands->count);
    hlo_text_string(g->text, ", ");
    print_shapes(g->text, operands->results, operands->count);
    hlo_text_string(g->text, ", s32[]) async-start(");
    print_operands(g->text, operands);
    hlo_text_format(g->text, "), calls=wrapped%d\n", number);
    random_steps(g, (int)random_below(g, 3));
    begin_results(g, operands, number);
    hlo_text_format(g->text, "async-done(begun%d), calls=wrapped%d\n", number, number);
    end_results(g, operands, number);
}

typedef enum Pair { NO_PAIR, OWN_PAIR, WRAPPED } Pair;

// Writes the collective in one of its forms; the numbers of its results are the last ones. Returns the first.
static int print_collective(Generator *g, const Operands *operands, const char *op, Pair pair, const char *context,
                            HloText *attributes) {
    const int number = random_called(g);
    if (pair != NO_PAIR && g->depth < 2 && random_chance(g, 30)) {
        if (pair == OWN_PAIR)
            print_pair(g, operands, number, op, context, attributes);
        else
            print_wrapped(g, operands, number, op, attributes);
    } else {
        begin_results(g, operands, number);
        hlo_text_format(g->text, "%s(", op);
        print_operands(g->text, operands);
        hlo_text_format(g->text, ")%s\n", attributes->data);
        end_results(g, operands, number);
    }
    hlo_text_free(attributes);
    return g->count - operands->count;
}

// The attributes of groups in a text of their own.
static HloText group_attributes(Generator *g, const Groups *groups) {
    HloText text = {0}, *const before = g->text;
    g->text = &text;
    print_group_attributes(g, groups);
    g->text = before;
    return text;
}

// ---- sums

static bool wants_any(const Value *value) {
    return value->rank >= 0;
}

// A reducer of a type, and whether it is a sum that rounds: those of 8 bits hold none.
static ReducerName some_reducer(Generator *g, HloType type, bool *sum) {
    *sum = !g->exact &&
           (hlo_type_is_complex(type) || (hlo_type_is_float(type) && hlo_type_bytes(type) > 1 && random_chance(g, 50)));
    return random_reducer(g, *sum ? ADD : random_exact_reducer(g, type), type);
}

static bool reduces(const Generator *g, HloType type) {
    return !(g->exact && hlo_type_is_complex(type));
}

void random_all_reduce(Generator *g) {
    Operands operands = {.count = (int)random_size(g, kMostOperands)};
    const int first = random_pick_where(g, wants_any);
    const HloType type = g->values[first].type;
    if (!reduces(g, type)) return;
    bool sum;
    const ReducerName reducer = some_reducer(g, type, &sum);
    for (int i = 0; i < operands.count; i++) {
        int number = first;
        for (int tries = 0; i > 0 && tries < 8; tries++) {
            const int other = random_pick(g);
            if (g->values[other].type == type) number = other;
        }
        operands.numbers[i] = number;
        operands.results[i] = g->values[number];
        operands.results[i].exact &= !sum;
    }
    const Groups groups = some_groups(g, true, false);
    HloText attributes = group_attributes(g, &groups);
    hlo_text_format(&attributes, ", to_apply=%s", reducer.text);
    const int at = print_collective(g, &operands, "all-reduce", OWN_PAIR, NULL, &attributes);
    for (int i = 0; sum && i < operands.count; i++) random_scaled(g, at + i, "0.125");
}

void random_reduce_scatter(Generator *g) {
    const int a = random_pick_where(g, random_wants_dimensions);
    if (a < 0 || !reduces(g, g->values[a].type)) return;
    const Groups groups = some_groups(g, true, true);
    Value from = g->values[a];
    const int dim = (int)random_below(g, from.rank);
    from.dims[dim] = groups.members * random_below(g, 4);
    if (random_elements(&from) > g->most_elements) return;
    bool sum;
    const ReducerName reducer = some_reducer(g, from.type, &sum);
    Operands operands = {.numbers = {random_partner(g, from)}, .count = 1};
    operands.results[0] = g->values[operands.numbers[0]];
    operands.results[0].dims[dim] /= groups.members;
    operands.results[0].exact &= !sum;
    HloText attributes = group_attributes(g, &groups);
    hlo_text_format(&attributes, ", dimensions={%d}, to_apply=%s", dim, reducer.text);
    const int result = print_collective(g, &operands, "reduce-scatter", WRAPPED, NULL, &attributes);
    if (sum) random_scaled(g, result, "0.125");
}

// ---- moves

void random_all_gather(Generator *g) {
    const int a = random_pick_where(g, random_wants_dimensions);
    if (a < 0) return;
    const Groups groups = some_groups(g, true, true);
    const int dim = (int)random_below(g, g->values[a].rank);
    Operands operands = {.count = (int)random_size(g, 2)};
    for (int i = 0; i < operands.count; i++) {
        const int other = random_pick(g), number = i && g->values[other].rank > dim ? other : a;
        operands.numbers[i] = number;
        operands.results[i] = g->values[number];
        operands.results[i].dims[dim] *= groups.members;
        if (random_elements(&operands.results[i]) > g->most_elements) return;
    }
    HloText attributes = group_attributes(g, &groups);
    hlo_text_format(&attributes, ", dimensions={%d}", dim);
    print_collective(g, &operands, "all-gather", OWN_PAIR, "", &attributes);
}

void random_all_to_all(Generator *g) {
    const int a = random_pick_where(g, random_wants_dimensions);
    if (a < 0) return;
    const Groups groups = some_groups(g, false, true);
    if (groups.members <= kMostOperands && groups.members > 1 && random_chance(g, 40)) {
        Operands operands = {.count = (int)groups.members};
        bool exact = true;
        for (int i = 0; i < operands.count; i++) {
            operands.numbers[i] = random_partner(g, g->values[a]);
            exact = exact && g->values[operands.numbers[i]].exact;
        }
        for (int i = 0; i < operands.count; i++) {
            operands.results[i] = g->values[a];
            operands.results[i].exact = exact;
        }
        HloText attributes = group_attributes(g, &groups);
        print_collective(g, &operands, "all-to-all", WRAPPED, NULL, &attributes);
        return;
    }
    Value from = g->values[a];
    const int dim = (int)random_below(g, from.rank);
    from.dims[dim] = groups.members * random_below(g, 4);
    if (random_elements(&from) > g->most_elements) return;
    Operands operands = {.numbers = {random_partner(g, from)}, .count = 1};
    operands.results[0] = g->values[operands.numbers[0]];
    HloText attributes = group_attributes(g, &groups);
    hlo_text_format(&attributes, ", dimensions={%d}", dim);
    print_collective(g, &operands, "all-to-all", WRAPPED, NULL, &attributes);
}

void random_collective_broadcast(Generator *g) {
    const int a = random_pick(g);
    const Groups groups = some_groups(g, false, false);
    const Operands operands = {.numbers = {a}, .count = 1, .results = {g->values[a]}};
    HloText attributes = group_attributes(g, &groups);
    print_collective(g, &operands, "collective-broadcast", WRAPPED, NULL, &attributes);
}

// {{0,1},{2,0}}: no number sends twice or receives twice.
static void print_pairs(Generator *g, HloText *text, int count) {
    int64_t targets[kMostDevices];
    random_permutation(g, targets, count);
    hlo_text_char(text, '{');
    bool first = true;
    for (int i = 0; i < count; i++) {
        if (random_chance(g, 25)) continue;
        hlo_text_format(text, "%s{%d,%d}", first ? "" : ",", i, (int)targets[i]);
        first = false;
    }
    if (first) hlo_text_format(text, "{0,%d}", (int)targets[0]);
    hlo_text_char(text, '}');
}

void random_permute(Generator *g) {
    Operands operands = {.count = (int)random_size(g, 2)};
    for (int i = 0; i < operands.count; i++) {
        operands.numbers[i] = random_pick(g);
        operands.results[i] = g->values[operands.numbers[i]];
    }
    const bool partitions = random_chance(g, 70);
    HloText attributes = {0};
    if (partitions) hlo_text_format(&attributes, ", channel_id=%d", 1 + random_called(g));
    hlo_text_string(&attributes, ", source_target_pairs=");
    print_pairs(g, &attributes, partitions ? g->partitions : g->replicas);
    print_collective(g, &operands, "collective-permute", OWN_PAIR, random_chance(g, 50) ? ", u32[], u32[]" : "",
                     &attributes);
}

// A permute as messages.
void random_messages(Generator *g) {
    const int a = random_pick(g), number = random_called(g), channel = 1 + random_called(g);
    const Value value = g->values[a];
    HloText shape = {0}, pairs = {0};
    random_print_shape(&shape, &value);
    print_pairs(g, &pairs, g->partitions > 1 ? g->partitions : g->replicas);
    hlo_text_format(g->text,
                    "  after%d = token[] after-all()\n  recv%d = (%s, u32[], token[]) recv(after%d), channel_id=%d, "
                    "frontend_attributes={_xla_send_recv_source_target_pairs=\"%s\"}\n",
                    number, number, shape.data, number, channel, pairs.data);
    hlo_text_format(g->text,
                    "  send%d = (%s, u32[], token[]) send(v%d, after%d), channel_id=%d, control-predecessors={recv%d}, "
                    "frontend_attributes={_xla_send_recv_source_target_pairs=\"%s\"}\n",
                    number, shape.data, a, number, channel, number, pairs.data);
    if (g->depth < 2) random_steps(g, (int)random_below(g, 3));
    hlo_text_format(g->text,
                    "  got%d = (%s, token[]) recv-done(recv%d), channel_id=%d, control-predecessors={send%d}\n"
                    "  sent%d = token[] send-done(send%d), channel_id=%d, control-predecessors={got%d}\n",
                    number, shape.data, number, channel, number, number, number, channel, number);
    random_put(g, value, "get-tuple-element(got%d), index=0", number);
    hlo_text_free(&shape);
    hlo_text_free(&pairs);
}

// ---- ragged

// The devices of a device's group, in order, and its own place among them.
static int group_of(const Generator *g, const Groups *groups, int device, int *members) {
    const bool partitions = groups->kind == PARTITIONS;
    const int own = partitions ? device % g->partitions : device / g->partitions;
    const int64_t size = groups->sizes[0];
    int64_t place = 0;
    while (groups->numbers[place] != own) place++;
    const int64_t first = place / size * size;
    for (int64_t i = 0; i < size; i++) {
        const int other = (int)groups->numbers[first + i];
        members[i] = partitions ? device / g->partitions * g->partitions + other
                                : other * g->partitions + device % g->partitions;
    }
    return (int)(place - first);
}

typedef struct Table {
    int64_t rows[kMostDevices][kMostDevices];
} Table;

// The device's row of a table.
static int own_row(Generator *g, const Table *table, int64_t width, int device) {
    const Value whole = {.type = HLO_S32, .rank = 2, .dims = {device_count(g), width}, .exact = true},
                row = {.type = HLO_S32, .rank = 2, .dims = {1, width}, .exact = true},
                flat = {.type = HLO_S32, .rank = 1, .dims = {width}, .exact = true};
    const int number = random_begin(g, whole);
    hlo_text_string(g->text, "constant({");
    for (int d = 0; d < device_count(g); d++) random_print_list(g->text, d ? "," : "", table->rows[d], (int)width);
    hlo_text_string(g->text, "})\n");
    const int zero = random_put(g, random_scalar(HLO_S32), "constant(0)");
    const int part = random_put(g, row, "dynamic-slice(v%d, v%d, v%d), dynamic_slice_sizes={1,%d}", number, device,
                                zero, (int)width);
    return random_put(g, flat, "reshape(v%d)", part);
}

// Every device sends so many rows to each one of its group, from one array to the next places of another.
void random_ragged_exchange(Generator *g) {
    const Groups groups = some_groups(g, false, true);
    const int64_t size = groups.sizes[0];
    const int devices = device_count(g);
    Table sent, from, to, got;
    int members[kMostDevices];
    for (int d = 0; d < devices; d++) {
        int64_t at = 0;
        for (int64_t i = 0; i < size; at += sent.rows[d][i++]) {
            sent.rows[d][i] = random_below(g, 3);
            from.rows[d][i] = at;
        }
    }
    for (int d = 0; d < devices; d++) {
        const int place = group_of(g, &groups, d, members);
        for (int64_t i = 0; i < size; i++) {
            got.rows[d][i] = sent.rows[members[i]][place];
            to.rows[d][i] = 0;
            for (int k = 0; k < place; k++) to.rows[d][i] += sent.rows[members[k]][i];
        }
    }
    const int a = random_pick_where(g, random_wants_dimensions);
    if (a < 0) return;
    Value input = g->values[a], output = input;
    input.dims[0] = output.dims[0] = 2 * size;
    output.dims[0] += random_below(g, 3);
    if (random_elements(&output) > g->most_elements) return;
    const int x = random_partner(g, input), y = random_partner(g, output), own = random_device_number(g);
    const int f = own_row(g, &from, size, own), s = own_row(g, &sent, size, own), t = own_row(g, &to, size, own),
              r = own_row(g, &got, size, own);
    output.exact = g->values[x].exact && g->values[y].exact;
    random_begin(g, output);
    hlo_text_format(g->text, "ragged-all-to-all(v%d, v%d, v%d, v%d, v%d, v%d)", x, y, f, s, t, r);
    print_group_attributes(g, &groups);
    hlo_text_char(g->text, '\n');
}

// ---- agreement

int random_agreed(Generator *g) {
    const int a = random_equal_partner(g, random_scalar(HLO_S32));
    if (device_count(g) == 1) return a;
    const ReducerName reducer = random_reducer(g, random_exact_reducer(g, HLO_S32), HLO_S32);
    return random_put(g, random_scalar(HLO_S32),
                      "all-reduce(v%d), channel_id=%d, replica_groups=[1,%d]<=[%d], use_global_device_ids=true, "
                      "to_apply=%s",
                      a, 1 + random_called(g), device_count(g), device_count(g), reducer.text);
}
