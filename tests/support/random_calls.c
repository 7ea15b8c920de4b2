// SPDX-License-Identifier: Apache-2.0
// Steps of random_module() that run computations of their own, which are made of any steps in turn: calls, fusions,
// asynchronous calls, branches, loops that stack results, scans.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/random_internal.h"

enum { kDeepest = 2, kMostOperands = 4, kMostResults = 3 };

// ---- computations

void random_enter(Generator *g, Generator *outer, const int *operands, int count, bool takes_tuple) {
    *outer = *g;
    g->text = calloc(1, sizeof *g->text);
    if (!g->text) abort();
    g->count = g->parameter_count = 0;
    g->takes_tuple = takes_tuple;
    g->depth++;
    for (int i = 0; i < count; i++) {
        const Value value = outer->values[operands[i]];
        g->values[random_parameter(g, value)].exact = value.exact;
    }
}

void random_print_forms(HloText *text, const Value *forms, int count) {
    for (int i = 0; i < count; i++) {
        hlo_text_string(text, i ? ", " : "(");
        random_print_shape(text, &forms[i]);
    }
    hlo_text_char(text, ')');
}

// "  v7 = " becomes "  ROOT v7 = ".
static void print_with_root(HloText *text, const HloText *body, int root) {
    char name[16];
    snprintf(name, sizeof name, "  v%d = ", root);
    const char *at = strstr(body->data, name);
    hlo_text_append(text, body->data, (size_t)(at - body->data));
    hlo_text_format(text, "  ROOT%s", at + 1);
}

int random_leave(Generator *g, Generator *outer, const char *name, const int *results, int result_count, bool single,
                 const int *operands, int count, int *arguments) {
    const int total = g->parameter_count;
    Value parameters[kMaximumValues];
    for (int i = 0; i < total; i++) parameters[i] = g->values[g->parameters[i]];
    hlo_text_format(g->head, "%s {\n", name);
    if (g->takes_tuple) {
        hlo_text_string(g->head, "  state = ");
        random_print_forms(g->head, parameters, total);
        hlo_text_string(g->head, " parameter(0)\n");
    }
    if (single) {
        print_with_root(g->head, g->text, results[0]);
    } else {
        Value forms[kMaximumValues];
        for (int i = 0; i < result_count; i++) forms[i] = g->values[results[i]];
        hlo_text_format(g->head, "%s  ROOT results = ", g->text->data);
        random_print_forms(g->head, forms, result_count);
        for (int i = 0; i < result_count; i++) hlo_text_format(g->head, "%sv%d", i ? ", " : " tuple(", results[i]);
        hlo_text_string(g->head, ")\n");
    }
    hlo_text_string(g->head, "}\n\n");
    hlo_text_free(g->text);
    free(g->text);
    outer->random = g->random;
    outer->called_count = g->called_count;
    memcpy(outer->reducers, g->reducers, sizeof g->reducers);
    *g = *outer;
    for (int i = 0; i < total; i++) arguments[i] = i < count ? operands[i] : random_equal_partner(g, parameters[i]);
    return total;
}

void random_take_apart(Generator *g, const char *name, int number, const Value *forms, int count) {
    for (int i = 0; i < count; i++) random_put(g, forms[i], "get-tuple-element(%s%d), index=%d", name, number, i);
}

static void print_arguments(HloText *text, const char *op, const int *arguments, int count) {
    hlo_text_format(text, "%s(", op);
    for (int i = 0; i < count; i++) hlo_text_format(text, "%sv%d", i ? ", " : "", arguments[i]);
    hlo_text_char(text, ')');
}

static int some_values(Generator *g, int *values, int most) {
    const int count = (int)random_size(g, most);
    for (int i = 0; i < count; i++) values[i] = random_pick(g);
    return count;
}

// A computation of a few steps that is called once. Its results' forms.
typedef struct Called {
    char name[16];
    int number;
    int arguments[kMaximumValues], argument_count;
    Value forms[kMostResults];
    int form_count;
    bool single;
} Called;

static bool is_deep(const Generator *g) {
    return g->depth >= kDeepest || g->count > kMaximumValues / 2;
}

// `together`: devices may meet in it.
static void make_called(Generator *g, Called *called, bool together) {
    int operands[kMostOperands], results[kMostResults];
    const int count = some_values(g, operands, kMostOperands);
    called->number = random_called(g);
    snprintf(called->name, sizeof called->name, "called%d", called->number);
    Generator outer;
    random_enter(g, &outer, operands, count, false);
    g->apart |= !together;
    random_steps(g, (int)random_size(g, 7));
    called->form_count = some_values(g, results, kMostResults);
    if (!g->values[g->count - 1].unscaled) results[0] = g->count - 1;
    called->single = called->form_count == 1 && random_chance(g, 80);
    for (int i = 0; i < called->form_count; i++) called->forms[i] = g->values[results[i]];
    called->argument_count = random_leave(g, &outer, called->name, results, called->form_count, called->single,
                                          operands, count, called->arguments);
}

static void print_result_shape(HloText *text, const Called *called) {
    if (called->single)
        random_print_shape(text, &called->forms[0]);
    else
        random_print_forms(text, called->forms, called->form_count);
}

static void print_call(Generator *g, const Called *called, const char *op, const char *attributes) {
    if (called->single) {
        random_begin(g, called->forms[0]);
    } else {
        hlo_text_format(g->text, "  r%d = ", called->number);
        print_result_shape(g->text, called);
        hlo_text_char(g->text, ' ');
    }
    print_arguments(g->text, op, called->arguments, called->argument_count);
    hlo_text_format(g->text, ", %s=%s\n", attributes, called->name);
    if (!called->single) random_take_apart(g, "r", called->number, called->forms, called->form_count);
}

void random_call(Generator *g) {
    Called called;
    if (is_deep(g)) return;
    make_called(g, &called, true);
    print_call(g, &called, "call", "to_apply");
}

void random_fusion(Generator *g) {
    static const char *const kinds[] = {"kind=kLoop, calls", "kind=kInput, calls", "kind=kOutput, calls",
                                        "kind=kCustom, calls"};
    Called called;
    if (is_deep(g)) return;
    make_called(g, &called, false);
    print_call(g, &called, "fusion", kinds[random_below(g, HLO_COUNT_OF(kinds))]);
}

// A call that is under way while other steps are made.
void random_async(Generator *g) {
    Called called;
    if (is_deep(g)) return;
    make_called(g, &called, false);
    HloText state = {0};
    hlo_text_char(&state, '(');
    Value forms[kMaximumValues];
    for (int i = 0; i < called.argument_count; i++) forms[i] = g->values[called.arguments[i]];
    random_print_forms(&state, forms, called.argument_count);
    hlo_text_string(&state, ", ");
    print_result_shape(&state, &called);
    hlo_text_string(&state, ", s32[])");
    hlo_text_format(g->text, "  start%d = %s ", called.number, state.data);
    print_arguments(g->text, "async-start", called.arguments, called.argument_count);
    hlo_text_format(g->text, ", calls=%s\n", called.name);
    const char *last = "start";
    random_steps(g, (int)random_below(g, 3));
    if (random_chance(g, 40)) {
        hlo_text_format(g->text, "  update%d = %s async-update(start%d), calls=%s\n", called.number, state.data,
                        called.number, called.name);
        last = "update";
        random_steps(g, (int)random_below(g, 2));
    }
    hlo_text_free(&state);
    if (called.single) {
        random_put(g, called.forms[0], "async-done(%s%d), calls=%s", last, called.number, called.name);
        return;
    }
    hlo_text_format(g->text, "  r%d = ", called.number);
    print_result_shape(g->text, &called);
    hlo_text_format(g->text, " async-done(%s%d), calls=%s\n", last, called.number, called.name);
    random_take_apart(g, "r", called.number, called.forms, called.form_count);
}

// A copy that is under way while other steps are made.
void random_copy(Generator *g) {
    const int a = random_pick(g), number = random_called(g);
    const Value value = g->values[a];
    hlo_text_format(g->text, "  start%d = (", number);
    random_print_shape(g->text, &value);
    hlo_text_string(g->text, ", ");
    random_print_shape(g->text, &value);
    hlo_text_format(g->text, ", u32[]) copy-start(v%d)\n", a);
    random_steps(g, (int)random_below(g, 3));
    random_put(g, value, "copy-done(start%d)", number);
}

// ---- branches

static bool wants_choice(const Value *value) {
    return value->exact && value->rank == 0 && (value->type == HLO_PRED || value->type == HLO_S32);
}

// A predicate or a number that is the same on every device.
static int agreed_choice(Generator *g) {
    const int number = random_agreed(g);
    if (random_chance(g, 50)) return number;
    const int one = random_put(g, random_scalar(HLO_S32), "constant(1)");
    return random_put(g, random_scalar(HLO_PRED), "compare(v%d, v%d), direction=GE", number, one);
}

// Packs values into the tuple "NAMEnumber".
static void print_tuple(Generator *g, const char *name, int number, const int *values, int count) {
    Value forms[kMaximumValues];
    for (int i = 0; i < count; i++) forms[i] = g->values[values[i]];
    hlo_text_format(g->text, "  %s%d = ", name, number);
    random_print_forms(g->text, forms, count);
    hlo_text_char(g->text, ' ');
    print_arguments(g->text, "tuple", values, count);
    hlo_text_char(g->text, '\n');
}

// Branches of any steps, each with operands of its own, that give results of the same forms.
void random_choice(Generator *g) {
    if (is_deep(g)) return;
    const bool agreed = !g->apart && random_chance(g, 60);
    int choice = agreed ? agreed_choice(g) : random_pick_where(g, wants_choice);
    if (choice < 0) choice = random_parameter(g, random_scalar(random_chance(g, 50) ? HLO_PRED : HLO_S32));
    const bool truth = g->values[choice].type == HLO_PRED;
    const int branches = truth ? 2 : (int)random_size(g, 3), number = random_called(g);
    Value forms[kMostResults];
    bool exact[kMostResults];
    int form_count = 0;
    for (int b = 0; b < branches; b++) {
        int operands[kMostOperands], results[kMostResults], arguments[kMaximumValues];
        const int count = some_values(g, operands, kMostOperands);
        char name[32];
        snprintf(name, sizeof name, "b%d_%d", number, b);
        Generator outer;
        random_enter(g, &outer, operands, count, true);
        g->apart |= !agreed;
        random_steps(g, (int)random_below(g, 5));
        if (b == 0) form_count = some_values(g, results, kMostResults);
        for (int i = 0; i < form_count; i++) {
            if (b > 0) results[i] = random_partner(g, forms[i]);
            const Value value = g->values[results[i]];
            exact[i] = value.exact && (b == 0 || exact[i]);
            forms[i] = value;
        }
        const int total = random_leave(g, &outer, name, results, form_count, false, operands, count, arguments);
        snprintf(name, sizeof name, "t%d_", number);
        print_tuple(g, name, b, arguments, total);
    }
    hlo_text_format(g->text, "  r%d = ", number);
    random_print_forms(g->text, forms, form_count);
    hlo_text_format(g->text, " conditional(v%d", choice);
    for (int b = 0; b < branches; b++) hlo_text_format(g->text, ", t%d_%d", number, b);
    if (truth) {
        hlo_text_format(g->text, "), true_computation=b%d_0, false_computation=b%d_1\n", number, number);
    } else {
        hlo_text_string(g->text, "), branch_computations={");
        for (int b = 0; b < branches; b++) hlo_text_format(g->text, "%sb%d_%d", b ? ", " : "", number, b);
        hlo_text_string(g->text, "}\n");
    }
    for (int i = 0; i < form_count; i++) forms[i].exact = exact[i];
    random_take_apart(g, "r", number, forms, form_count);
}

// ---- loops

static bool wants_rows(const Value *value) {
    return value->rank > 0 && value->dims[0] > 0 && value->dims[0] <= 8;
}

static bool is_rounding(HloType type) {
    return hlo_type_is_float(type) || hlo_type_is_complex(type);
}

static Value row_of(Value array) {
    for (int d = 1; d < array.rank; d++) array.dims[d - 1] = array.dims[d];
    array.rank--;
    return array;
}

// array[at], for an s32 `at`.
static int take_row(Generator *g, int array, int at) {
    Value part = g->values[array];
    part.dims[0] = 1;
    const int zero = part.rank > 1 ? random_put(g, random_scalar(HLO_S32), "constant(0)") : 0;
    const int piece = random_begin(g, part);
    hlo_text_format(g->text, "dynamic-slice(v%d, v%d", array, at);
    for (int d = 1; d < part.rank; d++) hlo_text_format(g->text, ", v%d", zero);
    random_print_list(g->text, "), dynamic_slice_sizes=", part.dims, part.rank);
    hlo_text_char(g->text, '\n');
    return random_put(g, row_of(part), "reshape(v%d)", piece);
}

// array with array[at] = row.
static int put_row(Generator *g, int array, int row, int at) {
    Value part = g->values[array], whole = part;
    part.dims[0] = 1;
    part.exact = g->values[row].exact;
    whole.exact = whole.exact && part.exact;
    const int zero = part.rank > 1 ? random_put(g, random_scalar(HLO_S32), "constant(0)") : 0;
    const int piece = random_put(g, part, "reshape(v%d)", row);
    const int result = random_begin(g, whole);
    hlo_text_format(g->text, "dynamic-update-slice(v%d, v%d, v%d", array, piece, at);
    for (int d = 1; d < part.rank; d++) hlo_text_format(g->text, ", v%d", zero);
    hlo_text_string(g->text, ")\n");
    return result;
}

// The value that replaces another in the next iteration: any that is as exact, or itself.
static int next_state(Generator *g, int number) {
    const Value value = g->values[number];
    for (int tries = 0; tries < 12; tries++) {
        const int other = random_pick(g);
        if (random_same_form(&g->values[other], &value) && (g->values[other].exact || !value.exact)) return other;
    }
    return number;
}

// The condition "counter < bound" of a loop with this state.
static void print_condition(Generator *g, int number, const Value *forms, int count, int64_t bound) {
    hlo_text_format(g->head, "going%d {\n  state = ", number);
    random_print_forms(g->head, forms, count);
    hlo_text_format(g->head,
                    " parameter(0)\n  i = s32[] get-tuple-element(state), index=0\n  n = s32[] constant(%d)\n"
                    "  ROOT r = pred[] compare(i, n), direction=LT\n}\n\n",
                    (int)bound);
}

// Where a loop begins to count: from a number, or from any of 0 ... 3, which devices know alike where they agreed.
static int first_round(Generator *g, bool agreed) {
    const Value scalar = random_scalar(HLO_S32);
    if (agreed && (g->apart || random_chance(g, 70))) return random_splat(g, scalar, random_chance(g, 80) ? "0" : "1");
    const int number = agreed ? random_agreed(g) : random_equal_partner(g, scalar);
    const int mask = random_put(g, scalar, "constant(3)");
    return random_put(g, scalar, "and(v%d, v%d)", number, mask);
}

// A loop over the rows of an array that carries values on and stacks others, as jax.lax.scan() makes it.
void random_stacking_loop(Generator *g) {
    if (is_deep(g)) return;
    enum { COUNTER, ROWS, CARRIED };
    const int number = random_called(g), rows = random_pick_where(g, wants_rows);
    const int64_t length = rows < 0 ? random_size(g, 4) : g->values[rows].dims[0];
    int operands[CARRIED + kMostOperands], results[kMaximumValues], arguments[kMaximumValues];
    const bool agreed = random_chance(g, 80);
    operands[COUNTER] = first_round(g, agreed);
    operands[ROWS] = rows < 0 ? operands[COUNTER] : rows;
    const int count = CARRIED + some_values(g, operands + CARRIED, kMostOperands);
    Generator outer;
    random_enter(g, &outer, operands, count, true);
    g->apart |= !agreed;
    // A value that is rounded is exact in the first iteration only.
    for (int i = CARRIED; i < count; i++) g->values[i].exact &= g->exact || !is_rounding(g->values[i].type);
    const int one = random_put(g, random_scalar(HLO_S32), "constant(1)");
    const int next = random_put(g, random_scalar(HLO_S32), "add(v%d, v%d)", COUNTER, one);
    int at = COUNTER;
    if (random_chance(g, 30)) {
        const int last = random_put(g, random_scalar(HLO_S32), "constant(%d)", (int)length - 1);
        at = random_put(g, random_scalar(HLO_S32), "subtract(v%d, v%d)", last, COUNTER);
    }
    if (rows >= 0) take_row(g, ROWS, at);
    random_steps(g, (int)random_size(g, 6));
    // A row of each of up to two stacks.
    int stacks[2], filled[2], stack_count = 0;
    for (const int64_t wanted = random_below(g, 3); stack_count < wanted; stack_count++) {
        const int row = random_pick(g);
        Value stack = g->values[row];
        if (stack.rank == kMaximumRank || random_elements(&stack) * length > g->most_elements) break;
        for (int d = stack.rank++; d > 0; d--) stack.dims[d] = stack.dims[d - 1];
        stack.dims[0] = length;
        stacks[stack_count] = random_parameter(g, stack);
        g->values[stacks[stack_count]].exact = stack.exact;
        filled[stack_count] = put_row(g, stacks[stack_count], row, at);
    }
    Value forms[kMaximumValues];
    int total = 0;
    for (; total < g->parameter_count; total++) {
        const int parameter = g->parameters[total];
        results[total] = total >= CARRIED && total < count ? next_state(g, parameter) : parameter;
        for (int k = 0; k < stack_count; k++)
            if (stacks[k] == parameter) results[total] = filled[k];
        forms[total] = g->values[results[total]];
    }
    results[COUNTER] = next;
    char name[16];
    snprintf(name, sizeof name, "l%d", number);
    random_leave(g, &outer, name, results, total, false, operands, count, arguments);
    print_condition(g, number, forms, total, random_chance(g, 80) ? length : random_below(g, length + 2));
    print_tuple(g, "t", number, arguments, total);
    hlo_text_format(g->text, "  w%d = ", number);
    random_print_forms(g->text, forms, total);
    hlo_text_format(g->text, " while(t%d), condition=going%d, body=l%d\n", number, number, number);
    for (int i = 0; i < total; i++) {
        if (i >= count && random_chance(g, 50)) continue;
        forms[i].exact = forms[i].exact && g->values[arguments[i]].exact;
        random_put(g, forms[i], "get-tuple-element(w%d), index=%d", number, i);
    }
}

// ---- scan

// A running combination of the rows of an array along any dimension, in either direction.
void random_scan(Generator *g) {
    const int a = random_pick_where(g, random_wants_exact_array);
    if (a < 0) return;
    const Value value = g->values[a];
    const int dim = (int)random_below(g, value.rank), number = random_called(g);
    Value row = value;
    for (int d = dim + 1; d < row.rank; d++) row.dims[d - 1] = row.dims[d];
    row.rank--;
    const bool sum = hlo_type_is_integer(value.type) && random_chance(g, 50);
    const int carry = random_equal_partner(g, row);
    hlo_text_format(g->head, "step%d {\n  x = ", number);
    random_print_shape(g->head, &row);
    hlo_text_string(g->head, " parameter(0)\n  c = ");
    random_print_shape(g->head, &row);
    hlo_text_string(g->head, " parameter(1)\n  y = ");
    random_print_shape(g->head, &row);
    hlo_text_format(g->head, " %s(c, x)\n  ROOT t = ", sum ? "add" : random_chance(g, 50) ? "maximum" : "minimum");
    const Value both[] = {row, row}, results[] = {value, row};
    random_print_forms(g->head, both, 2);
    hlo_text_format(g->head, " tuple(%s, y)\n}\n\n", random_chance(g, 50) ? "y" : "c");
    hlo_text_format(g->text, "  r%d = ", number);
    random_print_forms(g->text, results, 2);
    hlo_text_format(g->text, " scan(v%d, v%d), dimensions={%d}, num_carries=1%s, to_apply=step%d\n", a, carry, dim,
                    random_chance(g, 50) ? ", is_reverse=true" : "", number);
    random_take_apart(g, "r", number, results, 2);
}
