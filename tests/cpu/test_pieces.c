// SPDX-License-Identifier: Apache-2.0
// Loops that read the pieces of concatenations and pads where they are: random programs of rolls, pads, slices and
// other moves between elementwise operations give the evaluator's elements, on arguments with NaN and zeros of both
// signs too, in the entry and inside of a loop, with any number of threads.
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/cases.h"
#include "tests/support/compiled.h"

enum { kRank = 3, kMostValues = 64 };

// A program text while it grows. All values named v0, v1 … have the same shape.
typedef struct Writer {
    HloText text;
    uint64_t state;
    int64_t dims[kRank];
    int rank, values, names;
    const char *type;
} Writer;

static int64_t draw(Writer *w, int64_t below) {
    w->state = w->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int64_t)((w->state >> 33) % (uint64_t)below);
}

static void write_shape(Writer *w, const int64_t *dims, int rank) {
    hlo_text_format(&w->text, "%s[", w->type);
    for (int d = 0; d < rank; d++) hlo_text_format(&w->text, "%s%lld", d ? "," : "", (long long)dims[d]);
    hlo_text_string(&w->text, "]");
}

// Begins an instruction without a number in the list of values, and returns the number of its name, t0, t1 …
static int begin(Writer *w, const int64_t *dims, int rank) {
    hlo_text_format(&w->text, "  t%d = ", w->names);
    write_shape(w, dims, rank);
    hlo_text_string(&w->text, " ");
    return w->names++;
}

// Names a value of the common shape: the instruction that `format` completes.
#define VALUE(w, ...)                                           \
    do {                                                        \
        hlo_text_format(&(w)->text, "  v%d = ", (w)->values++); \
        write_shape(w, (w)->dims, (w)->rank);                   \
        hlo_text_format(&(w)->text, " " __VA_ARGS__);           \
        hlo_text_string(&(w)->text, "\n");                      \
    } while (0)

// Writes slice={…} of a value whose dimension `along` has `size` elements: [start, start + count) of it.
static void write_bounds(Writer *w, int along, int64_t start, int64_t count) {
    hlo_text_string(&w->text, ", slice={");
    for (int d = 0; d < w->rank; d++)
        hlo_text_format(&w->text, "%s[%lld:%lld]", d ? ", " : "", (long long)(d == along ? start : 0),
                        (long long)(d == along ? start + count : w->dims[d]));
    hlo_text_string(&w->text, "}\n");
}

// Writes a slice of `count` elements of t or v `number` along a dimension.
static int slice(Writer *w, const char *kind, int number, int along, int64_t start, int64_t count) {
    int64_t dims[kRank];
    memcpy(dims, w->dims, sizeof dims);
    dims[along] = count;
    const int name = begin(w, dims, w->rank);
    hlo_text_format(&w->text, "slice(%s%d)", kind, number);
    write_bounds(w, along, start, count);
    return name;
}

static void roll(Writer *w, int x, int along) {
    const int64_t size = w->dims[along], by = 1 + draw(w, size - 1);
    const int a = slice(w, "v", x, along, size - by, by), b = slice(w, "v", x, along, 0, size - by);
    VALUE(w, "concatenate(t%d, t%d), dimensions={%d}", a, b, along);
}

static void pad_and_cut(Writer *w, int x, int along) {
    const int64_t size = w->dims[along], low = draw(w, 6) - 2, high = 2 + draw(w, 4), spare = low + high;
    const bool apart = draw(w, 6) == 0;
    int64_t dims[kRank];
    memcpy(dims, w->dims, sizeof dims);
    dims[along] = size + spare + (apart ? size - 1 : 0);
    const int padded = begin(w, dims, w->rank);
    hlo_text_format(&w->text, "pad(v%d, c), padding=", x);
    for (int d = 0; d < w->rank; d++)
        hlo_text_format(&w->text, "%s%lld_%lld%s", d ? "x" : "", (long long)(d == along ? low : 0),
                        (long long)(d == along ? high : 0), d == along && apart ? "_1" : "");
    hlo_text_string(&w->text, "\n");
    const int cut = slice(w, "t", padded, along, draw(w, spare + 1), size);
    VALUE(w, "negate(t%d)", cut);
}

static void join_and_cut(Writer *w, int x, int y, int along) {
    const int64_t size = w->dims[along], first = 1 + draw(w, size), last = 1 + draw(w, size);
    const int a = slice(w, "v", x, along, size - first, first), b = slice(w, "v", y, along, 0, last);
    int64_t dims[kRank];
    memcpy(dims, w->dims, sizeof dims);
    dims[along] = first + size + last;
    const int joined = begin(w, dims, w->rank);
    hlo_text_format(&w->text, "concatenate(t%d, v%d, t%d), dimensions={%d}\n", a, draw(w, 2) ? x : y, b, along);
    const int cut = slice(w, "t", joined, along, draw(w, first + last + 1), size);
    VALUE(w, "abs(t%d)", cut);
}

static void turn(Writer *w, int x, int along) {
    VALUE(w, "reverse(v%d), dimensions={%d}", x, along);
}

// Rolls the flattened array.
static void roll_flat(Writer *w, int x) {
    int64_t all = 1;
    for (int d = 0; d < w->rank; d++) all *= w->dims[d];
    const int64_t by = 1 + draw(w, all - 1), rest = all - by;
    const int flat = begin(w, &all, 1);
    hlo_text_format(&w->text, "reshape(v%d)\n", x);
    const int a = begin(w, &by, 1);
    hlo_text_format(&w->text, "slice(t%d), slice={[%lld:%lld]}\n", flat, (long long)rest, (long long)all);
    const int b = begin(w, &rest, 1);
    hlo_text_format(&w->text, "slice(t%d), slice={[0:%lld]}\n", flat, (long long)rest);
    const int joined = begin(w, &all, 1);
    hlo_text_format(&w->text, "concatenate(t%d, t%d), dimensions={0}\n", a, b);
    VALUE(w, "reshape(t%d)", joined);
}

// Divides by the largest of each row.
static void scale_rows(Writer *w, int x) {
    const int largest = begin(w, w->dims, w->rank - 1);
    hlo_text_format(&w->text, "reduce(v%d, c), dimensions={%d}, to_apply=largest\n", x, w->rank - 1);
    const int all = begin(w, w->dims, w->rank);
    hlo_text_format(&w->text, "broadcast(t%d), dimensions={%s}\n", largest, w->rank == 2 ? "0" : "0,1");
    VALUE(w, "subtract(v%d, t%d)", x, all);
}

static void write_step(Writer *w) {
    const int newest = w->values - 1, x = draw(w, 2) ? newest : (int)draw(w, w->values), y = (int)draw(w, w->values);
    const int along = (int)draw(w, w->rank);
    switch (draw(w, 14)) {
        case 0:
        case 1:
        case 2: roll(w, x, along); break;
        case 3:
        case 4: pad_and_cut(w, x, along); break;
        case 5: join_and_cut(w, x, y, along); break;
        case 6: turn(w, x, along); break;
        case 7: roll_flat(w, x); break;
        case 8: draw(w, 3) ? (void)0 : scale_rows(w, x); break;
        case 9: VALUE(w, "maximum(v%d, v%d)", x, y); break;
        case 10: VALUE(w, "multiply(v%d, v%d)", x, y); break;
        default: VALUE(w, "add(v%d, v%d)", x, y); break;
    }
}

// Writes the steps of a computation whose parameters are v0 and v1 and returns the value that all of them may reach.
static void write_steps(Writer *w, int steps) {
    w->values = 2, w->names = 0;
    const bool is_float = *w->type == 'f';
    hlo_text_format(&w->text, "  c = %s[] constant(%s)\n", w->type, is_float ? "-0.5" : "-3");
    for (int i = 0; i < steps; i++) write_step(w);
    const int last = w->values - 1;
    VALUE(w, "add(v%d, v%d)", last, last - 1);
}

static void write_parameters(Writer *w) {
    for (int i = 0; i < 2; i++) {
        hlo_text_format(&w->text, "  v%d = ", i);
        write_shape(w, w->dims, w->rank);
        hlo_text_format(&w->text, " parameter(%d)\n", i);
    }
}

// Concatenates three expressions of the values so far, which one loop may compute.
static int write_expressions(Writer *w, const int64_t *dims, int along) {
    const int x = (int)draw(w, w->values), y = (int)draw(w, w->values);
    VALUE(w, "multiply(v%d, v%d)", x, y);
    VALUE(w, "%s(v%d)", draw(w, 2) ? "negate" : "abs", x);
    VALUE(w, "subtract(v%d, v%d)", y, draw(w, 2) ? x : 0);
    const int joined = begin(w, dims, w->rank), first = w->values - 3;
    hlo_text_format(&w->text, "concatenate(v%d, v%d, v%d), dimensions={%d}\n", first, first + 1, first + 2, along);
    return joined;
}

static void write_program(Writer *w, uint64_t seed) {
    static const char *const types[] = {"f32", "f32", "s32", "f64", "s8"};
    w->state = seed * 7919 + 1;
    for (int i = 0; i < 4; i++) (void)draw(w, 2);
    w->type = types[draw(w, HLO_COUNT_OF(types))];
    w->rank = 2 + (int)draw(w, 2);
    for (int d = 0; d < w->rank; d++) w->dims[d] = 3 + draw(w, w->rank == 2 ? 40 : 14);
    hlo_text_format(&w->text,
                    "HloModule pieces\nlargest { a = %s[] parameter(0)  b = %s[] parameter(1)"
                    "  ROOT m = %s[] maximum(a, b) }\nENTRY e {\n",
                    w->type, w->type, w->type);
    write_parameters(w);
    write_steps(w, 3 + (int)draw(w, 10));
    const int last = w->values - 1;
    if (*w->type == 'f') {  // zeros of both signs differ then
        hlo_text_format(&w->text, "  one = %s[] constant(1)\n", w->type);
        const int ones = begin(w, w->dims, w->rank);
        hlo_text_string(&w->text, "broadcast(one), dimensions={}\n");
        VALUE(w, "divide(t%d, v%d)", ones, last);
    } else
        VALUE(w, "negate(v%d)", last);
    const int along = (int)draw(w, w->rank);
    int64_t dims[kRank];
    memcpy(dims, w->dims, sizeof dims);
    dims[along] *= 3;
    const int joined = write_expressions(w, dims, along);
    hlo_text_string(&w->text, "  ROOT r = (");
    for (int i = 0; i < 3; i++) {
        write_shape(w, i < 2 ? w->dims : dims, w->rank);
        hlo_text_string(&w->text, i < 2 ? ", " : "");
    }
    hlo_text_format(&w->text, ") tuple(v%d, v%d, t%d)\n}\n", last, w->values - 4, joined);
}

CaseList(pieces, random_programs) {
    static int cases[8];
    for (int i = 0; i < 8; i++) cases[i] = i;
    return cr_make_param_array(int, cases, HLO_COUNT_OF(cases));
}

CaseTest(int *part, pieces, random_programs) {
    const char *given = getenv("MESHLO_RANDOM_PROGRAMS");
    const int count = given ? atoi(given) : 40;
    for (int i = 0; i < count; i++) {
        Writer w = {.rank = 0};
        HloText message = {0};
        write_program(&w, (uint64_t)(*part * 1000003 + i));
        HloModule *module = compiled_must_parse(w.text.data);
        for (int form = 0; form < 3; form++) {
            const CompiledCheck check = {.seed = (uint64_t)i, .threads = form == 1 ? 3 : 1, .extremes = form == 2};
            cr_assert(compiled_equals_eval(module, &check, &message), "form %d of\n%s%s", form, w.text.data,
                      message.data);
        }
        hlo_module_free(module);
        hlo_text_free(&w.text);
        hlo_text_free(&message);
    }
}

// Writes the columns of points with `columns` coordinates, each an expression of two others, as an array by itself and
// added to the points, and arrays of columns that are in memory.
static void write_columns(Writer *w, const char *type, int64_t rows, int columns) {
    w->type = type;
    w->rank = 2, w->dims[0] = rows, w->dims[1] = columns;
    const int64_t column[2] = {rows, 1};
    hlo_text_string(&w->text, "HloModule columns\nENTRY e {\n");
    write_parameters(w);
    w->values = 2;
    int pieces[8], sides[8];
    for (int i = 0; i < columns; i++) sides[i] = slice(w, "v", 0, 1, i, 1);
    for (int i = 0; i < columns; i++) {
        pieces[i] = begin(w, column, 2);
        hlo_text_format(&w->text, "%s(t%d, t%d)\n", i % 2 ? "subtract" : "multiply", sides[i],
                        sides[(i + 1) % columns]);
    }
    for (int form = 0; form < 2; form++) {
        const int *parts = form ? sides : pieces;
        const int joined = begin(w, w->dims, 2);
        hlo_text_string(&w->text, "concatenate(");
        for (int i = columns - 1; i >= 0; i--) hlo_text_format(&w->text, "t%d%s", parts[i], i ? ", " : "");
        hlo_text_string(&w->text, "), dimensions={1}\n");
        const int sum = w->values;
        VALUE(w, "add(v1, t%d)", joined);
        VALUE(w, "multiply(v%d, v0)", sum);
        if (!form) VALUE(w, "negate(t%d)", joined);
    }
    hlo_text_string(&w->text, "  ROOT r = (");
    for (int i = 2; i < w->values; i++) {
        write_shape(w, w->dims, 2);
        hlo_text_string(&w->text, i + 1 < w->values ? ", " : ") tuple(");
    }
    for (int i = 2; i < w->values; i++) hlo_text_format(&w->text, "v%d%s", i, i + 1 < w->values ? ", " : ")\n}\n");
}

Test(pieces, columns_of_points_are_stored_together) {
    static const char *const types[] = {"f32", "s8", "f64", "s16", "bf16", "f16", "c64", "c128"};
    static const int64_t rows[] = {1, 7, 130, 1025, 5000};
    for (size_t i = 0; i < HLO_COUNT_OF(types) * HLO_COUNT_OF(rows) * 4; i++) {
        Writer w = {.rank = 0};
        HloText message = {0};
        write_columns(&w, types[i % HLO_COUNT_OF(types)], rows[i / HLO_COUNT_OF(types) % HLO_COUNT_OF(rows)],
                      2 + (int)(i / HLO_COUNT_OF(types) / HLO_COUNT_OF(rows)));
        HloModule *module = compiled_must_parse(w.text.data);
        for (int form = 0; form < 3; form++) {
            const CompiledCheck check = {.seed = i, .threads = form == 1 ? 3 : 1, .extremes = form == 2};
            cr_assert(compiled_equals_eval(module, &check, &message), "form %d of\n%s%s", form, w.text.data,
                      message.data);
        }
        hlo_module_free(module);
        hlo_text_free(&w.text);
        hlo_text_free(&message);
    }
}
