// SPDX-License-Identifier: Apache-2.0
// Roundings are the program's and the machine's: under the numerics of a TPU, where products are rounded to bf16, the
// optimised program computes the bits of the unoptimised one. Random programs of products, conversions and
// reduce-precision, between operations that the optimiser removes, moves or merges.
#include <criterion/criterion.h>

#include "compile/pipeline.h"
#include "hlo/eval/eval.h"
#include "hlo/text/text.h"
#include "hlo/verify/verify.h"
#include "tests/support/cases.h"
#include "tests/support/compiled.h"

enum { kParameters = 4, kSteps = 18, kSide = 4 };

// Every value is a square matrix, so that any two of one type can meet.
typedef struct Maker {
    HloText *text;
    uint64_t state;
    int count;
    const char *types[kParameters + 2 * kSteps + 64];
} Maker;

static const char *const kTypes[] = {"f32", "f32", "bf16", "f16", "f64", "f8e4m3fn"};

static int draw(Maker *maker, int below) {
    maker->state = maker->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int)((maker->state >> 33) % (uint64_t)below);
}

// Begins the line of a new value, and returns its number.
static int begin(Maker *maker, const char *type) {
    cr_assert_lt(maker->count, (int)HLO_COUNT_OF(maker->types));
    maker->types[maker->count] = type;
    hlo_text_format(maker->text, " v%d = %s[4,4] ", maker->count, type);
    return maker->count++;
}

static int convert(Maker *maker, int x, const char *type) {
    const int made = begin(maker, type);
    hlo_text_format(maker->text, "convert(v%d)\n", x);
    return made;
}

// A value of this type: one that there is, or another one converted.
static int of_type(Maker *maker, const char *type) {
    for (int tries = 0; tries < 5; tries++) {
        const int x = draw(maker, maker->count);
        if (maker->types[x] == type) return x;
    }
    return convert(maker, draw(maker, maker->count), type);
}

// Numbers that rules look for, and one that every rounding changes.
static int constant(Maker *maker, const char *type) {
    static const char *const numbers[] = {"0", "-0", "1", "-1", "2", "0.5", "8", "0.3333"};
    const int scalar = maker->count;
    hlo_text_format(maker->text, " c%d = %s[] constant(%s)\n", scalar, type,
                    numbers[draw(maker, (int)HLO_COUNT_OF(numbers))]);
    const int made = begin(maker, type);
    hlo_text_format(maker->text, "broadcast(c%d), dimensions={}\n", scalar);
    return made;
}

static void product(Maker *maker, int x) {
    static const char *const precisions[] = {"", ", operand_precision={highest,highest}",
                                             ", algorithm=dot_bf16_bf16_f32"};
    const char *type = maker->types[x];
    const bool widens = draw(maker, 3) == 0 && (type == kTypes[2] || type == kTypes[3]);
    int y = draw(maker, 6) ? of_type(maker, type) : constant(maker, type);
    if (draw(maker, 2)) {
        const int z = x;
        x = y;
        y = z;
    }
    begin(maker, widens ? kTypes[0] : type);
    hlo_text_format(maker->text, "dot(v%d, v%d), lhs_contracting_dims={%d}, rhs_contracting_dims={%d}%s\n", x, y,
                    draw(maker, 2), draw(maker, 2), precisions[type == kTypes[0] ? draw(maker, 3) : 0]);
}

static void move(Maker *maker, int x) {
    static const char *const moves[] = {"transpose(v%d), dimensions={1,0}", "reverse(v%d), dimensions={0,1}",
                                        "reverse(v%d), dimensions={1}", "copy(v%d)",
                                        "transpose(v%d), dimensions={0,1}"};
    const char *type = maker->types[x];
    if (draw(maker, 4) == 0) {  // through another shape
        const int flat = maker->count;
        hlo_text_format(maker->text, " r%d = %s[16] reshape(v%d)\n", flat, type, x);
        begin(maker, type);
        hlo_text_format(maker->text, "reshape(r%d)\n", flat);
        return;
    }
    const char *form = moves[draw(maker, (int)HLO_COUNT_OF(moves))];
    begin(maker, type);
    const char *place = strstr(form, "%d");
    hlo_text_append(maker->text, form, (size_t)(place - form));
    hlo_text_format(maker->text, "%d%s\n", x, place + 2);
}

static void elementwise(Maker *maker, int x) {
    static const char *const names[] = {"add", "subtract", "multiply", "divide", "maximum", "minimum"};
    const char *type = maker->types[x];
    int y = draw(maker, 3) ? constant(maker, type) : of_type(maker, type);
    if (draw(maker, 3) == 0) {
        const int z = x;
        x = y;
        y = z;
    }
    begin(maker, type);
    hlo_text_format(maker->text, "%s(v%d, v%d)\n", names[draw(maker, (int)HLO_COUNT_OF(names))], x, y);
}

static void round_off(Maker *maker, int x) {
    static const int bits[][2] = {{8, 7}, {5, 10}, {8, 23}, {4, 3}, {5, 2}};
    const int *form = bits[draw(maker, (int)HLO_COUNT_OF(bits))];
    begin(maker, maker->types[x]);
    hlo_text_format(maker->text, "reduce-precision(v%d), exponent_bits=%d, mantissa_bits=%d\n", x, form[0], form[1]);
}

// Conversions there and back, in pairs that seem to be inverse.
static void convert_twice(Maker *maker, int x) {
    const char *type = maker->types[x];
    const int through = convert(maker, x, kTypes[draw(maker, (int)HLO_COUNT_OF(kTypes))]);
    convert(maker, through, type);
}

static void step(Maker *maker) {
    const int x = draw(maker, maker->count);
    switch (draw(maker, 8)) {
        case 0:
        case 1: product(maker, x); break;
        case 2: convert(maker, x, kTypes[draw(maker, (int)HLO_COUNT_OF(kTypes))]); break;
        case 3: convert_twice(maker, x); break;
        case 4: round_off(maker, x); break;
        case 5: move(maker, x); break;
        case 6:
            begin(maker, maker->types[x]);
            hlo_text_format(maker->text, "negate(v%d)\n", x);
            break;
        default: elementwise(maker, x); break;
    }
}

static void make_program(uint64_t seed, HloText *text) {
    Maker maker = {.text = text, .state = seed * 2654435761U + 1};
    hlo_text_string(text, "HloModule t\nENTRY e {\n");
    for (int i = 0; i < kParameters; i++) {
        begin(&maker, kTypes[i ? draw(&maker, (int)HLO_COUNT_OF(kTypes)) : 0]);
        hlo_text_format(text, "parameter(%d)\n", i);
    }
    for (int i = 0; i < kSteps; i++) step(&maker);
    hlo_text_string(text, " ROOT r = (");
    for (int i = 0; i < 6; i++) hlo_text_format(text, "%s%s[4,4]", i ? ", " : "", maker.types[maker.count - 6 + i]);
    hlo_text_string(text, ") tuple(");
    for (int i = 0; i < 6; i++) hlo_text_format(text, "%sv%d", i ? ", " : "", maker.count - 6 + i);
    hlo_text_string(text, ")\n}\n");
}

static HloLiteral *evaluate(const HloModule *module, HloLiteral *const *arguments, HloNumerics numerics) {
    HloLiteral *result = NULL;
    const HloEvalOptions options = {.numerics = numerics};
    must_succeed(hlo_evaluate(module, (const HloLiteral *const *)arguments, kParameters, &options, &result));
    return result;
}

static int64_t count_instructions(const HloModule *module) {
    return module->entry->instruction_count;
}

// Both forms under both numerics, on numbers of full precision or on the ends of the types. Whether anything was
// rewritten.
static bool check_program(const char *text, uint64_t seed) {
    HloModule *module = compiled_must_parse(text);
    CompiledModule *compiled = NULL;
    must_succeed(hlo_verify(module));
    must_succeed(compile_module(module, NULL, &compiled));
    HloLiteral *arguments[kParameters];
    for (int i = 0; i < kParameters; i++) {
        const HloShape *shape = module->entry->parameters.items[i]->shape;
        arguments[i] =
            seed % 4 ? compiled_random(shape, seed + (uint64_t)i) : compiled_extremes(shape, seed + (uint64_t)i);
    }
    for (int numerics = HLO_NUMERICS_EXACT; numerics <= HLO_NUMERICS_TPU; numerics++) {
        HloLiteral *want = evaluate(module, arguments, (HloNumerics)numerics);
        HloLiteral *have = evaluate(compiled->module, arguments, (HloNumerics)numerics);
        HloText message = {0}, made = {0};
        const CompiledCheck check = {.extremes = true};  // equal, but for which NaN it is
        if (!compiled_same(have, want, &check, &message)) {
            must_succeed(hlo_print(compiled->module, NULL, &made));
            cr_expect_fail("seed %d, %s numerics: %s\n%s\nbecame\n%s", (int)seed, numerics ? "TPU" : "exact",
                           message.data, text, made.data);
        }
        hlo_text_free(&message);
        hlo_text_free(&made);
        hlo_literal_free(want);
        hlo_literal_free(have);
    }
    const bool changed = count_instructions(compiled->module) < count_instructions(module);
    for (int i = 0; i < kParameters; i++) hlo_literal_free(arguments[i]);
    compiled_module_free(compiled);
    hlo_module_free(module);
    return changed;
}

Test(compile_roundings, optimised_programs_have_the_bits_of_a_tpu, .timeout = 600) {
    const int64_t first = cases_setting("MESHLO_RANDOM_SEED", 0), count = cases_count("MESHLO_RANDOM_PROGRAMS", 600);
    int64_t changed = 0;
    for (int64_t seed = first; seed < first + count; seed++) {
        HloText text = {0};
        make_program((uint64_t)seed, &text);
        changed += check_program(text.data, (uint64_t)seed);
        hlo_text_free(&text);
    }
    cr_expect_geq(changed, count / 2);
}
