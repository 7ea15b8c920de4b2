// SPDX-License-Identifier: Apache-2.0
// compiled == eval over random control flow: loops in branches in loops in calls, whose state is passed on, exchanged,
// doubled, left as it is, updated in place or used only after the loop, as tuples of tuples, and whose results are
// written over donated arguments. The tests look for memory that is given away too early: every array of a program has
// the same bytes, so that each may take any other's place.
//
// Numbers are integers, so results are equal bit for bit. MESHLO_RANDOM_PROGRAMS sets how many programs a case tries,
// MESHLO_RANDOM_SEED the first of them.
#include <criterion/criterion.h>
#include <string.h>

#include "tests/support/cases.h"
#include "tests/support/compiled.h"

// The types of values, in tokens for shapes (write_shapes()). All but scalars and predicates have the same bytes.
typedef enum Kind { SCALAR, FLAG, COUNTER, VECTOR, MATRIX, WIDE, KINDS } Kind;

static const char *const kShapes[KINDS] = {
    [SCALAR] = "s32[]", [FLAG] = "pred[]", [COUNTER] = "s32[]", [VECTOR] = "$V", [MATRIX] = "$M", [WIDE] = "$W"};

enum { MOST_VALUES = 200, MOST_LEAVES = 8, DEVICES = 8 };

typedef struct Value {
    Kind kind;
    int number;
} Value;

typedef struct Program {
    HloText done;  // computations that are written
    uint64_t state;
    int next;  // number of the next name
    int devices;
    bool together;  // there are collectives, and only counters, which are the same everywhere, decide where to go
    int budget;     // how many more computations there may be
} Program;

// A computation that is being written.
typedef struct Scope {
    Program *program;
    HloText text;
    Value values[MOST_VALUES];
    int count;
} Scope;

static int pick(Program *program, int limit) {
    program->state = program->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int)((program->state >> 33) % (uint64_t)limit);
}

// ---- values

static Value add_value(Scope *scope, Kind kind, int number) {
    const Value value = {kind, number};
    if (scope->count < MOST_VALUES) scope->values[scope->count++] = value;
    return value;
}

// "  vN = SHAPE " of a new value; the operation follows.
static Value begin(Scope *scope, Kind kind) {
    const int number = scope->program->next++;
    hlo_text_format(&scope->text, "  v_%d = %s ", number, kShapes[kind]);
    return (Value){kind, number};
}

static Value constant(Scope *scope, Kind kind) {
    const int number = pick(scope->program, 9) - 2;
    if (kind == SCALAR || kind == COUNTER || kind == FLAG) {
        const Value value = begin(scope, kind);
        if (kind == FLAG)
            hlo_text_format(&scope->text, "constant(%s)\n", number & 1 ? "true" : "false");
        else
            hlo_text_format(&scope->text, "constant(%d)\n", number);
        return value;
    }
    const int name = scope->program->next++;
    hlo_text_format(&scope->text, "  c_%d = %s constant(%d)\n", name, kind == WIDE ? "s64[]" : "s32[]", number);
    const Value value = begin(scope, kind);
    hlo_text_format(&scope->text, "broadcast(c_%d), dimensions={}\n", name);
    return value;
}

// Recent values are drawn more often: chains get long.
static Value some(Scope *scope, Kind kind) {
    int candidates[MOST_VALUES], count = 0;
    for (int i = 0; i < scope->count; i++)
        if (scope->values[i].kind == kind) candidates[count++] = i;
    if (count == 0 || pick(scope->program, 20) == 0) return constant(scope, kind);
    const int recent = count < 3 ? count : 3;
    const int at = pick(scope->program, 2) ? count - 1 - pick(scope->program, recent) : pick(scope->program, count);
    return scope->values[candidates[at]];
}

// The value that a branch depends on: with collectives all devices must take the same one.
static Value decision(Scope *scope) {
    if (!scope->program->together) return some(scope, FLAG);
    const Value a = some(scope, COUNTER), b = constant(scope, COUNTER), flag = begin(scope, FLAG);
    hlo_text_format(&scope->text, "compare(v_%d, v_%d), direction=GT\n", a.number, b.number);
    return flag;
}

// ---- tuples

// Leaves as one tuple, or a tuple of a leaf and a tuple of the others.
typedef struct Leaves {
    Kind kinds[MOST_LEAVES];
    int count;
    bool nested;  // (first, (others))
} Leaves;

static Leaves some_leaves(Program *program) {
    Leaves leaves = {.count = 2 + pick(program, MOST_LEAVES - 2), .nested = pick(program, 3) == 0};
    leaves.kinds[0] = COUNTER;
    for (int i = 1; i < leaves.count; i++) leaves.kinds[i] = (Kind)pick(program, KINDS);
    return leaves;
}

static void print_shape(HloText *text, const Leaves *leaves) {
    hlo_text_string(text, "(");
    for (int i = 0; i < leaves->count; i++)
        hlo_text_format(text, "%s%s%s", i ? ", " : "", leaves->nested && i == 1 ? "(" : "", kShapes[leaves->kinds[i]]);
    hlo_text_string(text, leaves->nested ? "))" : ")");
}

// The others of a nested tuple.
static Leaves inner(const Leaves *leaves) {
    Leaves result = {.count = leaves->count - 1};
    memcpy(result.kinds, leaves->kinds + 1, sizeof(Kind) * (size_t)result.count);
    return result;
}

static int print_flat(Scope *scope, const Leaves *leaves, const Value *values, bool root) {
    const int number = scope->program->next++;
    hlo_text_format(&scope->text, "  %st_%d = ", root ? "ROOT " : "", number);
    print_shape(&scope->text, leaves);
    for (int i = 0; i < leaves->count; i++)
        hlo_text_format(&scope->text, "%sv_%d", i ? ", " : " tuple(", values[i].number);
    hlo_text_string(&scope->text, ")\n");
    return number;
}

// Packs the values and returns the number N of the tuple t_N.
static int pack(Scope *scope, const Leaves *leaves, const Value *values, bool root) {
    if (!leaves->nested) return print_flat(scope, leaves, values, root);
    const Leaves others = inner(leaves);
    const int second = print_flat(scope, &others, values + 1, false), number = scope->program->next++;
    hlo_text_format(&scope->text, "  %st_%d = ", root ? "ROOT " : "", number);
    print_shape(&scope->text, leaves);
    hlo_text_format(&scope->text, " tuple(v_%d, t_%d)\n", values[0].number, second);
    return number;
}

// Takes a tuple apart. `keep`: every leaf becomes a value of the scope; else one in two does, and the rest stays
// unread.
static void unpack(Scope *scope, const Leaves *leaves, int tuple, bool keep, Value *values) {
    int second = tuple;
    const Leaves others = inner(leaves);
    if (leaves->nested) {
        second = scope->program->next++;
        hlo_text_format(&scope->text, "  t_%d = ", second);
        print_shape(&scope->text, &others);
        hlo_text_format(&scope->text, " get-tuple-element(t_%d), index=1\n", tuple);
    }
    for (int i = 0; i < leaves->count; i++) {
        values[i].number = -1;
        if (!keep && pick(scope->program, 2)) continue;
        const bool inside = leaves->nested && i > 0;
        values[i] = begin(scope, leaves->kinds[i]);
        hlo_text_format(&scope->text, "get-tuple-element(t_%d), index=%d\n", inside ? second : tuple,
                        inside ? i - 1 : i);
        add_value(scope, leaves->kinds[i], values[i].number);
    }
}

// ---- operations

static void add_scalar(Scope *scope) {
    static const char *const forms[] = {"add", "subtract", "minimum", "maximum", "xor"};
    const Value a = some(scope, SCALAR), b = some(scope, SCALAR), v = some(scope, VECTOR), p = some(scope, FLAG);
    const int form = pick(scope->program, (int)HLO_COUNT_OF(forms) + 4), part = scope->program->next++;
    Value c = {SCALAR, -1};
    HloText *text = &scope->text;
    if (form < (int)HLO_COUNT_OF(forms)) {
        c = begin(scope, SCALAR);
        hlo_text_format(text, "%s(v_%d, v_%d)\n", forms[form], a.number, b.number);
    } else if (form == (int)HLO_COUNT_OF(forms)) {
        c = begin(scope, SCALAR);
        hlo_text_format(text, "select(v_%d, v_%d, v_%d)\n", p.number, a.number, b.number);
    } else if (form == (int)HLO_COUNT_OF(forms) + 1) {
        hlo_text_format(text, "  z_%d = s32[] constant(0)\n", part);
        c = begin(scope, SCALAR);
        hlo_text_format(text, "reduce(v_%d, z_%d), dimensions={0}, to_apply=sum\n", v.number, part);
    } else {
        hlo_text_format(text, "  d_%d = s32[1] dynamic-slice(v_%d, v_%d), dynamic_slice_sizes={1}\n", part, v.number,
                        a.number);
        c = begin(scope, SCALAR);
        hlo_text_format(text, "reshape(d_%d)\n", part);
    }
    add_value(scope, SCALAR, c.number);
}

static void add_flag(Scope *scope) {
    const Value a = some(scope, SCALAR), b = some(scope, SCALAR), p = some(scope, FLAG), q = some(scope, FLAG);
    const int form = pick(scope->program, 4);
    const Value c = begin(scope, FLAG);
    switch (form) {
        case 0: hlo_text_format(&scope->text, "not(v_%d)\n", p.number); break;
        case 1: hlo_text_format(&scope->text, "xor(v_%d, v_%d)\n", p.number, q.number); break;
        default:
            hlo_text_format(&scope->text, "compare(v_%d, v_%d), direction=%s\n", a.number, b.number,
                            form == 2 ? "LT" : "NE");
    }
    add_value(scope, FLAG, c.number);
}

// Whole arrays, elementwise, moved, or updated in a place.
static void add_vector(Scope *scope) {
    const Value a = some(scope, VECTOR), b = some(scope, VECTOR), i = some(scope, SCALAR), p = some(scope, FLAG);
    const Value m = some(scope, MATRIX);
    const int form = pick(scope->program, 11), n = scope->program->next++;
    HloText *text = &scope->text;
    Value c = {VECTOR, -1};
    switch (form) {
        case 0:
            hlo_text_format(text, "  q_%d = $V broadcast(v_%d), dimensions={}\n", n, i.number);
            c = begin(scope, VECTOR);
            hlo_text_format(text, "add(v_%d, q_%d)\n", a.number, n);
            break;
        case 1:
            hlo_text_format(text, "  q_%d = $F broadcast(v_%d), dimensions={}\n", n, p.number);
            c = begin(scope, VECTOR);
            hlo_text_format(text, "select(q_%d, v_%d, v_%d)\n", n, a.number, b.number);
            break;
        case 2:
            c = begin(scope, VECTOR);
            hlo_text_format(text, "reverse(v_%d), dimensions={0}\n", a.number);
            break;
        case 3:
        case 4:
            hlo_text_format(text, "  q_%d = s32[2] %s(v_%d%s%d%s\n", n, form == 3 ? "slice" : "dynamic-slice", b.number,
                            form == 3 ? "), slice={[" : ", v_", form == 3 ? 2 : i.number,
                            form == 3 ? ":4]}" : "), dynamic_slice_sizes={2}");
            c = begin(scope, VECTOR);
            hlo_text_format(text, "dynamic-update-slice(v_%d, q_%d, v_%d)\n", a.number, n, i.number);
            break;
        case 5:
            c = begin(scope, VECTOR);
            hlo_text_format(text, "reshape(v_%d)\n", m.number);
            break;
        case 6:
            c = begin(scope, VECTOR);
            hlo_text_format(text, "sort(v_%d), dimensions={0}, to_apply=less\n", a.number);
            break;
        case 7:
            hlo_text_format(text,
                            "  q_%d = ($V, $V) sort(v_%d, v_%d), dimensions={0}, is_stable=true, "
                            "to_apply=less_of_two\n",
                            n, a.number, b.number);
            c = begin(scope, VECTOR);
            hlo_text_format(text, "get-tuple-element(q_%d), index=%d\n", n, pick(scope->program, 2));
            break;
        case 8:
            hlo_text_format(text,
                            "  q_%d = s32[1,1] broadcast(v_%d), dimensions={}\n"
                            "  u_%d = s32[1] slice(v_%d), slice={[3:4]}\n",
                            n, i.number, n, b.number);
            c = begin(scope, VECTOR);
            hlo_text_format(text,
                            "scatter(v_%d, q_%d, u_%d), update_window_dims={}, inserted_window_dims={0}, "
                            "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum\n",
                            a.number, n, n);
            break;
        case 9:
            hlo_text_format(text, "  q_%d = $I reshape(v_%d)\n", n, b.number);
            c = begin(scope, VECTOR);
            hlo_text_format(text,
                            "gather(v_%d, q_%d), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, "
                            "index_vector_dim=1, slice_sizes={1}\n",
                            a.number, n);
            break;
        default:
            c = begin(scope, VECTOR);
            hlo_text_format(text, "%s(v_%d, v_%d)\n", pick(scope->program, 2) ? "subtract" : "maximum", a.number,
                            b.number);
    }
    add_value(scope, VECTOR, c.number);
}

static void add_matrix(Scope *scope) {
    const Value a = some(scope, MATRIX), b = some(scope, MATRIX), v = some(scope, VECTOR), i = some(scope, SCALAR);
    const int form = pick(scope->program, 4), n = scope->program->next++;
    HloText *text = &scope->text;
    if (form == 1) hlo_text_format(text, "  q_%d = $T transpose(v_%d), dimensions={1,0}\n", n, a.number);
    if (form == 2) hlo_text_format(text, "  q_%d = $R slice(v_%d), slice={[1:2], $C}\n", n, b.number);
    const Value c = begin(scope, MATRIX);
    switch (form) {
        case 0: hlo_text_format(text, "reshape(v_%d)\n", v.number); break;
        case 1: hlo_text_format(text, "reshape(q_%d)\n", n); break;
        case 2:
            hlo_text_format(text, "dynamic-update-slice(v_%d, q_%d, v_%d, v_%d)\n", a.number, n, i.number, i.number);
            break;
        default: hlo_text_format(text, "add(v_%d, v_%d)\n", a.number, b.number);
    }
    add_value(scope, MATRIX, c.number);
}

// Another type of the same bytes, which may reuse the memory.
static void add_wide(Scope *scope) {
    const Value a = some(scope, WIDE), b = some(scope, WIDE), v = some(scope, VECTOR);
    const int form = pick(scope->program, 3), n = scope->program->next++;
    if (form == 0) hlo_text_format(&scope->text, "  q_%d = $P reshape(v_%d)\n", n, v.number);
    const Value c = begin(scope, WIDE);
    switch (form) {
        case 0: hlo_text_format(&scope->text, "bitcast-convert(q_%d)\n", n); break;
        case 1: hlo_text_format(&scope->text, "reverse(v_%d), dimensions={0}\n", a.number); break;
        default: hlo_text_format(&scope->text, "add(v_%d, v_%d)\n", a.number, b.number);
    }
    add_value(scope, WIDE, c.number);
}

static void add_collective(Scope *scope) {
    static const char *const groups[] = {"{}", "{{0,1,2,3,4,5,6,7}}", "{{0,2,4,6},{1,3,5,7}}",
                                         "{{7,0},{3,4},{5,2},{1,6}}", "{{0,1,2},{3,4},{5},{6,7}}"};
    const Value a = some(scope, VECTOR);
    const int form = pick(scope->program, 3), n = scope->program->next++;
    HloText *text = &scope->text;
    if (form == 2)
        hlo_text_format(text,
                        "  q_%d = $3 slice(v_%d), slice={$S}\n"
                        "  g_%d = $4 all-gather(q_%d), dimensions={0}, "
                        "replica_groups={{7,0},{3,4},{5,2},{1,6}}, channel_id=%d, "
                        "use_global_device_ids=true\n",
                        n, a.number, n, n, n + 1);
    const Value c = begin(scope, VECTOR);
    switch (form) {
        case 0:
            hlo_text_format(text,
                            "all-reduce(v_%d), replica_groups=%s, channel_id=%d, use_global_device_ids=true, "
                            "to_apply=sum\n",
                            a.number, groups[pick(scope->program, (int)HLO_COUNT_OF(groups))], n + 1);
            break;
        case 1:
            hlo_text_format(text,
                            "collective-permute(v_%d), channel_id=%d, "
                            "source_target_pairs={{0,1},{1,2},{2,0},{4,7},{7,6}}\n",
                            a.number, n + 1);
            break;
        default: hlo_text_format(text, "concatenate(g_%d, q_%d), dimensions={0}\n", n, n);
    }
    add_value(scope, VECTOR, c.number);
}

static void add_structure(Scope *scope, int depth);

static void add_operation(Scope *scope, int depth) {
    Program *program = scope->program;
    if (depth > 0 && program->budget > 0 && pick(program, 4) == 0) {
        add_structure(scope, depth);
        return;
    }
    switch (pick(program, program->together ? 9 : 8)) {
        case 0:
        case 1: add_scalar(scope); break;
        case 2: add_flag(scope); break;
        case 3: add_matrix(scope); break;
        case 4: add_wide(scope); break;
        case 8: add_collective(scope); break;
        default: add_vector(scope);
    }
}

// ---- computations

// A computation of one tuple to one tuple of the same leaves. A loop's body counts in its first leaf. Results are
// leaves as they came, other leaves, the same value twice, or new values; returns its number.
static int add_computation(Program *program, const Leaves *leaves, bool counts, int depth) {
    Scope scope = {.program = program};
    const int number = program->next++;
    Value values[MOST_LEAVES], results[MOST_LEAVES];
    program->budget--;
    hlo_text_format(&scope.text, "f_%d {\n  t_%d = ", number, number);
    print_shape(&scope.text, leaves);
    hlo_text_string(&scope.text, " parameter(0)\n");
    unpack(&scope, leaves, number, true, values);
    const int operations = pick(program, 7);
    for (int i = 0; i < operations; i++) add_operation(&scope, depth - 1);
    for (int i = 0; i < leaves->count; i++)
        results[i] = pick(program, 4) == 0 ? values[i] : some(&scope, leaves->kinds[i]);
    if (counts) {
        const int one = program->next++;
        hlo_text_format(&scope.text, "  o_%d = s32[] constant(1)\n", one);
        results[0] = begin(&scope, COUNTER);
        hlo_text_format(&scope.text, "add(v_%d, o_%d)\n", values[0].number, one);
    } else {
        results[0] = values[0];
    }
    (void)pack(&scope, leaves, results, true);
    hlo_text_format(&program->done, "%s}\n\n", scope.text.data);
    hlo_text_free(&scope.text);
    return number;
}

// "counter < bound", and perhaps a flag, as it is or negated, or a computation of the state.
static int add_condition(Program *program, const Leaves *leaves) {
    Scope scope = {.program = program};
    const int number = program->next++, bound = pick(program, 4) + 1;
    Value values[MOST_LEAVES];
    hlo_text_format(&scope.text, "f_%d {\n  t_%d = ", number, number);
    print_shape(&scope.text, leaves);
    hlo_text_string(&scope.text, " parameter(0)\n");
    unpack(&scope, leaves, number, true, values);
    hlo_text_format(&scope.text, "  b_%d = s32[] constant(%d)\n  l_%d = pred[] compare(v_%d, b_%d), direction=LT\n",
                    number, bound, number, values[0].number, number);
    if (!program->together) {
        const int operations = pick(program, 6);
        for (int i = 0; i < operations; i++) add_operation(&scope, 0);
        if (pick(program, 3) == 0) add_flag(&scope);
    }
    if (!program->together && pick(program, 3)) {
        const Value flag = some(&scope, FLAG);
        hlo_text_format(&scope.text, "  n_%d = pred[] %s(v_%d)\n  ROOT r_%d = pred[] and(l_%d, n_%d)\n", number,
                        pick(program, 2) ? "not" : "copy", flag.number, number, number, number);
    } else {
        hlo_text_format(&scope.text, "  ROOT r_%d = pred[] copy(l_%d)\n", number, number);
    }
    hlo_text_format(&program->done, "%s}\n\n", scope.text.data);
    hlo_text_free(&scope.text);
    return number;
}

static int some_tuple(Scope *scope, const Leaves *leaves) {
    Value values[MOST_LEAVES];
    for (int i = 0; i < leaves->count; i++) values[i] = some(scope, leaves->kinds[i]);
    return pack(scope, leaves, values, false);
}

// A loop, a conditional of two or three branches, or a call.
static void add_structure(Scope *scope, int depth) {
    Program *program = scope->program;
    const Leaves leaves = some_leaves(program);
    const int kind = pick(program, 5), number = program->next++;
    Value values[MOST_LEAVES];
    int branches[3], tuples[3];
    const int count = kind < 2 ? 1 : kind == 4 ? 1 : kind;
    for (int i = 0; i < count; i++) branches[i] = add_computation(program, &leaves, kind < 2, depth);
    tuples[0] = some_tuple(scope, &leaves);
    for (int i = 1; i < count; i++) tuples[i] = pick(program, 2) ? tuples[0] : some_tuple(scope, &leaves);
    const Value flag = kind == 2 ? decision(scope) : (Value){FLAG, 0};
    const Value index = kind == 3 ? some(scope, program->together ? COUNTER : SCALAR) : (Value){SCALAR, 0};
    const int condition = kind < 2 ? add_condition(program, &leaves) : 0;
    hlo_text_format(&scope->text, "  t_%d = ", number);
    print_shape(&scope->text, &leaves);
    if (kind < 2)
        hlo_text_format(&scope->text, " while(t_%d), condition=f_%d, body=f_%d\n", tuples[0], condition, branches[0]);
    else if (kind == 2)
        hlo_text_format(&scope->text, " conditional(v_%d, t_%d, t_%d), true_computation=f_%d, false_computation=f_%d\n",
                        flag.number, tuples[0], tuples[1], branches[0], branches[1]);
    else if (kind == 3)
        hlo_text_format(&scope->text, " conditional(v_%d, t_%d, t_%d, t_%d), branch_computations={f_%d, f_%d, f_%d}\n",
                        index.number, tuples[0], tuples[1], tuples[2], branches[0], branches[1], branches[2]);
    else
        hlo_text_format(&scope->text, " call(t_%d), to_apply=f_%d\n", tuples[0], branches[0]);
    unpack(scope, &leaves, number, false, values);
}

// ---- whole programs

static const char *const kHelpers =
    "sum {\n  a = s32[] parameter(0)\n  b = s32[] parameter(1)\n  ROOT r = s32[] add(a, b)\n}\n\n"
    "less {\n  a = s32[] parameter(0)\n  b = s32[] parameter(1)\n  ROOT r = pred[] compare(a, b), direction=LT\n}\n\n"
    "less_of_two {\n  a = s32[] parameter(0)\n  b = s32[] parameter(1)\n  c = s32[] parameter(2)\n"
    "  d = s32[] parameter(3)\n  ROOT r = pred[] compare(a, b), direction=LT\n}\n\n";

enum { PARAMETERS = 8, RESULTS = 8 };

// Results of the entry take the memory of parameters of their shape, where the seed says so.
static void print_header(HloText *text, Program *program, const Kind *parameters, const Kind *results) {
    bool given[PARAMETERS] = {false}, first = true;
    hlo_text_string(text, "HloModule control_flow");
    for (int r = 0; r < RESULTS; r++) {
        const int p = pick(program, PARAMETERS);
        if (given[p] || strcmp(kShapes[parameters[p]], kShapes[results[r]]) != 0) continue;
        given[p] = true;
        hlo_text_format(text, "%s{%d}: (%d, {}, may-alias)", first ? ", input_output_alias={ " : ", ", r, p);
        first = false;
    }
    if (!first) hlo_text_string(text, " }");
    if (program->devices > 1) hlo_text_format(text, ", num_partitions=%d", program->devices);
    hlo_text_string(text, "\n\n");
}

// The tokens of the text as shapes: arrays of 24 bytes, or of 4,800. From 4 KiB on devices whose arguments are equal
// share them, and do costly work on them once.
static HloText write_shapes(const HloText *from, bool large) {
    static const struct {
        char token;
        const char *small, *large;
    } kTokens[] = {{'V', "s32[6]", "s32[1200]"},    {'M', "s32[2,3]", "s32[40,30]"}, {'W', "s64[3]", "s64[600]"},
                   {'T', "s32[3,2]", "s32[30,40]"}, {'P', "s32[3,2]", "s32[600,2]"}, {'I', "s32[6,1]", "s32[1200,1]"},
                   {'F', "pred[6]", "pred[1200]"},  {'R', "s32[1,3]", "s32[1,30]"},  {'C', "[0:3]", "[0:30]"},
                   {'3', "s32[2]", "s32[400]"},     {'4', "s32[4]", "s32[800]"},     {'S', "[1:3]", "[1:401]"}};
    HloText text = {0};
    for (size_t i = 0; i < from->length; i++) {
        const char *shape = NULL;
        for (size_t k = 0; from->data[i] == '$' && k < HLO_COUNT_OF(kTokens); k++)
            if (kTokens[k].token == from->data[i + 1]) shape = large ? kTokens[k].large : kTokens[k].small;
        if (shape)
            hlo_text_string(&text, shape);
        else
            hlo_text_append(&text, &from->data[i], 1);
        i += shape != NULL;
    }
    return text;
}

// The branches that devices take: one device; several that take the same, with collectives; each its own.
typedef enum Way { ALONE, TOGETHER, APART } Way;

static HloText make_program(uint64_t seed, Way way, bool large) {
    static const Kind parameters[PARAMETERS] = {SCALAR, VECTOR, VECTOR, VECTOR, MATRIX, MATRIX, WIDE, FLAG};
    static const Kind results[RESULTS] = {FLAG, VECTOR, FLAG, MATRIX, VECTOR, WIDE, SCALAR, FLAG};
    Program program = {
        .state = seed * 2 + 1, .devices = way == ALONE ? 1 : DEVICES, .together = way == TOGETHER, .budget = 24};
    Scope scope = {.program = &program};
    HloText text = {0};
    if (way == APART) hlo_text_string(&scope.text, "  id = u32[] partition-id()\n");
    for (int i = 0; i < PARAMETERS; i++) {
        const Value value = begin(&scope, parameters[i]);
        hlo_text_format(&scope.text, "parameter(%d)\n", i);
        add_value(&scope, parameters[i], value.number);
    }
    if (way == APART) {
        const Value number = begin(&scope, SCALAR);
        hlo_text_format(&scope.text, "convert(id)\n");
        add_value(&scope, SCALAR, number.number);
    }
    for (int i = 4 + pick(&program, 8); i > 0; i--) add_operation(&scope, 3);
    for (int i = 1 + pick(&program, 3); i > 0; i--) add_structure(&scope, 3);
    Value values[RESULTS];
    for (int i = 0; i < RESULTS; i++) values[i] = some(&scope, results[i]);
    Leaves leaves = {.count = RESULTS};
    memcpy(leaves.kinds, results, sizeof results);
    (void)pack(&scope, &leaves, values, true);
    print_header(&text, &program, parameters, results);
    hlo_text_format(&text, "%s%sENTRY main {\n%s}\n", kHelpers, program.done.data ? program.done.data : "",
                    scope.text.data);
    HloText result = write_shapes(&text, large);
    hlo_text_free(&program.done);
    hlo_text_free(&scope.text);
    hlo_text_free(&text);
    return result;
}

static void run_programs(int block, Way way, bool large, int64_t usual) {
    const int64_t count = cases_count("MESHLO_RANDOM_PROGRAMS", usual);
    const int64_t first = cases_setting("MESHLO_RANDOM_SEED", 0) + block * count;
    TargetClient *client = NULL;
    must_succeed(target_client_new_with_threads(way == ALONE ? "cpu:1" : "cpu:8", way == ALONE ? 1 : 3, &client));
    for (int64_t seed = first; seed < first + count; seed++) {
        HloText text = make_program((uint64_t)seed, way, large), message = {0};
        HloModule *module = compiled_must_parse(text.data);
        // Equal arguments on pairs, on six of eight devices, or on none.
        const CompiledCheck check = {
            .client = client, .seed = (uint64_t)seed, .replicas = seed % 3 ? seed % 3 * 4 - 2 : 1};
        cr_assert(compiled_equals_eval(module, &check, &message), "seed %lld: %s\n%s", (long long)seed, message.data,
                  text.data);
        hlo_module_free(module);
        hlo_text_free(&message);
        hlo_text_free(&text);
    }
    target_client_release(client);
}

CaseList(control_flow, on_one_device) {
    return cases_numbered(8);
}

CaseTest(const int *block, control_flow, on_one_device) {
    run_programs(*block, ALONE, false, 150);
}

// All devices take the same branches, with different numbers; groups are whole, interleaved, crossed and of different
// sizes.
CaseList(control_flow, with_collectives) {
    return cases_numbered(4);
}

CaseTest(const int *block, control_flow, with_collectives) {
    run_programs(*block, TOGETHER, false, 40);
}

// Devices whose arguments are equal do costly work once, as long as they take the same branches.
CaseList(control_flow, with_shared_work) {
    return cases_numbered(4);
}

CaseTest(const int *block, control_flow, with_shared_work) {
    run_programs(*block, *block % 2 ? TOGETHER : APART, true, 100);
}
