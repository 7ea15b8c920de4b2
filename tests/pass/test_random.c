// SPDX-License-Identifier: Apache-2.0
// Optimised == unoptimised, bit for bit, over random programs of exact ops: integers, comparisons, selections and moves
// of all kinds, and floating-point ops that round only once. MESHLO_RANDOM_PROGRAMS sets how many are tried,
// MESHLO_RANDOM_SEED the first.
#include <criterion/criterion.h>
#include <glob.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "hlo/base/file.h"
#include "hlo/eval/eval.h"
#include "tests/support/cases.h"
#include "tests/support/random_module.h"

enum { VALUES = 24, MAX_DIM = 4 };

typedef struct Maker {
    uint64_t state;
    HloBuilder *b;
    HloInstruction *values[VALUES];
    int64_t count;
} Maker;

static uint64_t draw(Maker *maker, uint64_t below) {
    maker->state = maker->state * 6364136223846793005U + 1442695040888963407U;
    return (maker->state >> 33) % below;
}

static HloInstruction *any(Maker *maker) {
    return maker->values[draw(maker, (uint64_t)maker->count)];
}

// A value of the same shape: an existing one, or a constant that rules like to see.
static HloInstruction *like(Maker *maker, const HloInstruction *x) {
    for (int tries = 0; tries < 6; tries++) {
        HloInstruction *other = any(maker);
        if (hlo_shape_equal(other->shape, x->shape, HLO_COMPARE_IGNORE_LAYOUT)) return other;
    }
    static const double favourites[] = {0, 1, 2, 8, -1, -0.0, 3};
    double value = favourites[draw(maker, HLO_COUNT_OF(favourites))];
    bool is_signed = hlo_type_kind(x->shape->type) == HLO_KIND_SIGNED || hlo_type_is_float(x->shape->type);
    if (!is_signed && value < 0) value = 5;
    return hlo_build_splat_like(maker->b, x, x->shape->type == HLO_PRED ? value != 0 : value);
}

static HloInstruction *elementwise(Maker *maker, HloInstruction *x) {
    static const HloOpcode all[] = {HLO_OP_ADD, HLO_OP_MULTIPLY, HLO_OP_MAXIMUM, HLO_OP_MINIMUM};
    static const HloOpcode numbers[] = {HLO_OP_SUBTRACT, HLO_OP_DIVIDE, HLO_OP_REMAINDER};
    static const HloOpcode bits[] = {HLO_OP_AND,
                                     HLO_OP_OR,
                                     HLO_OP_XOR,
                                     HLO_OP_SHIFT_LEFT,
                                     HLO_OP_SHIFT_RIGHT_LOGICAL,
                                     HLO_OP_SHIFT_RIGHT_ARITHMETIC};
    HloInstruction *operands[] = {x, like(maker, x)};
    if (draw(maker, 2)) {
        operands[0] = operands[1];
        operands[1] = x;
    }
    HloBuildRequest request = {.operands = operands, .operand_count = 2};
    bool pred = x->shape->type == HLO_PRED, is_float = hlo_type_is_float(x->shape->type);
    uint64_t group = draw(maker, 3);
    if (group == 0 || (pred && group == 1))
        request.opcode = all[draw(maker, HLO_COUNT_OF(all))];
    else if (group == 1 || is_float)
        request.opcode = numbers[draw(maker, is_float ? 2 : HLO_COUNT_OF(numbers))];
    else
        request.opcode = bits[draw(maker, pred ? 3 : HLO_COUNT_OF(bits))];
    return hlo_build(maker->b, &request);
}

static HloInstruction *unary(Maker *maker, HloInstruction *x) {
    static const HloType types[] = {HLO_S32, HLO_F32, HLO_U8, HLO_PRED, HLO_BF16, HLO_S64};
    bool is_float = hlo_type_is_float(x->shape->type), pred = x->shape->type == HLO_PRED;
    switch (draw(maker, 4)) {
        case 0: return hlo_build_convert(maker->b, x, types[draw(maker, HLO_COUNT_OF(types))]);
        case 1: return pred ? hlo_build_not(maker->b, x) : hlo_build_negate(maker->b, x);
        case 2: return is_float ? hlo_build_floor(maker->b, x) : hlo_build_not(maker->b, x);
        default: return is_float ? hlo_build_abs(maker->b, x) : hlo_build_copy(maker->b, x);
    }
}

static HloInstruction *choose(Maker *maker, HloInstruction *x) {
    HloInstruction *other = like(maker, x);
    HloInstruction *truth = hlo_build_compare(maker->b, x, other, (int32_t)draw(maker, 6));
    if (draw(maker, 3) == 0) truth = hlo_build_not(maker->b, truth);
    if (draw(maker, 3) == 0) return truth;
    return hlo_build_select(maker->b, truth, like(maker, x), draw(maker, 2) ? other : like(maker, x));
}

static HloInstruction *rearrange(Maker *maker, HloInstruction *x) {
    int64_t permutation[8], rank = x->shape->rank, flat = hlo_shape_elements(x->shape);
    for (int64_t i = 0; i < rank; i++) permutation[i] = i;
    for (int64_t i = rank - 1; i > 0; i--) {
        int64_t j = (int64_t)draw(maker, (uint64_t)i + 1), swap = permutation[i];
        permutation[i] = permutation[j];
        permutation[j] = swap;
    }
    switch (draw(maker, 4)) {
        case 0: return hlo_build_transpose(maker->b, x, (HloInts){permutation, rank});
        case 1: return hlo_build_reverse(maker->b, x, (HloInts){permutation, (int64_t)draw(maker, (uint64_t)rank + 1)});
        case 2:
            return flat % 2 == 0 ? hlo_build_reshape(maker->b, x, HLO_DIMS(2, flat / 2))
                                 : hlo_build_reshape(maker->b, x, HLO_DIMS(flat, 1));
        default: return hlo_build_reshape(maker->b, x, HLO_DIMS(flat));
    }
}

static HloInstruction *widen(Maker *maker, HloInstruction *x) {
    int64_t dims[8], mapping[8], rank = x->shape->rank, extra = (int64_t)draw(maker, (uint64_t)rank + 1);
    if (rank > 2) return x;
    for (int64_t i = 0, at = 0; i <= rank; i++) {
        if (i == extra)
            dims[i] = 1 + (int64_t)draw(maker, 3);
        else {
            mapping[at] = i;
            dims[i] = x->shape->dims[at++];
        }
    }
    return hlo_build_broadcast(maker->b, x, (HloInts){dims, rank + 1}, (HloInts){mapping, rank});
}

static HloInstruction *cut(Maker *maker, HloInstruction *x) {
    int64_t starts[8], limits[8], strides[8], high[8], rank = x->shape->rank;
    HloInstruction *places[8];
    for (int64_t i = 0; i < rank; i++) {
        int64_t size = x->shape->dims[i];
        starts[i] = size ? (int64_t)draw(maker, (uint64_t)size) : 0;
        limits[i] = starts[i] + (int64_t)draw(maker, (uint64_t)(size - starts[i]) + 1);
        strides[i] = 1 + (int64_t)draw(maker, 2);
        high[i] = (int64_t)draw(maker, 3) - (size > 1);
        places[i] = hlo_build_scalar(maker->b, HLO_S32, (double)draw(maker, 6) - 2);
    }
    HloInts from = {starts, rank};
    if (rank == 0) return x;  // XLA's text has no form for a pad without dimensions
    switch (draw(maker, 3)) {
        case 0: return hlo_build_slice(maker->b, x, from, (HloInts){limits, rank}, (HloInts){strides, rank});
        case 1: {
            for (int64_t i = 0; i < rank; i++) limits[i] -= starts[i];
            return hlo_build_dynamic_slice(maker->b, x, places, (HloInts){limits, rank});
        }
        default: {
            for (int64_t i = 0; i < rank; i++) starts[i] = (int64_t)draw(maker, 2);
            HloInstruction *value = hlo_build_scalar(maker->b, x->shape->type, (double)draw(maker, 2));
            return hlo_build_pad(maker->b, x, value, from, (HloInts){high, rank}, HLO_DIMS());
        }
    }
}

static HloInstruction *gather_up(Maker *maker, HloInstruction *x) {
    int64_t rank = x->shape->rank, dimension = rank ? (int64_t)draw(maker, (uint64_t)rank) : 0;
    if (rank == 0) return x;
    bool exact = !hlo_type_is_float(x->shape->type);
    HloInstruction *parts[] = {x, like(maker, x), x};
    switch (draw(maker, 3)) {
        case 0: return hlo_build_concatenate(maker->b, parts, 1 + (int64_t)draw(maker, 3), dimension);
        case 1: return hlo_build_reduce_op(maker->b, exact ? HLO_OP_ADD : HLO_OP_MAXIMUM, x, HLO_DIMS(dimension));
        default: {
            if (!exact || x->shape->type == HLO_PRED || rank != 2) return x;
            HloInstruction *turned = hlo_build_transpose(maker->b, like(maker, x), HLO_DIMS(1, 0));
            return hlo_build_matmul(maker->b, x, turned);
        }
    }
}

static HloInstruction *step(Maker *maker) {
    HloInstruction *x = any(maker), *made;
    switch (draw(maker, 8)) {
        case 0:
        case 1: made = elementwise(maker, x); break;
        case 2: made = unary(maker, x); break;
        case 3: made = choose(maker, x); break;
        case 4: made = rearrange(maker, x); break;
        case 5: made = widen(maker, x); break;
        case 6: made = cut(maker, x); break;
        default: made = gather_up(maker, x); break;
    }
    const struct HloError *error = hlo_builder_status(maker->b);
    cr_assert_not_null(made, "%s", error ? hlo_status_message(error) : "");
    return hlo_shape_elements(made->shape) <= 400 ? made : x;
}

static HloModule *make_program(uint64_t seed) {
    HloModule *module = hlo_module_new("random");
    Maker maker = {.state = seed * 2654435761U + 1, .b = hlo_builder_new(module, "main")};
    static const HloType types[] = {HLO_S32, HLO_F32, HLO_U8, HLO_PRED};
    for (int64_t i = 0; i < 4; i++) {
        int64_t rows = 1 + (int64_t)draw(&maker, MAX_DIM), columns = 1 + (int64_t)draw(&maker, MAX_DIM);
        maker.values[maker.count++] = hlo_build_parameter(maker.b, i, types[i], HLO_DIMS(rows, columns), NULL);
    }
    while (maker.count < VALUES) {
        HloInstruction *made = step(&maker);
        maker.values[maker.count++] = made;
    }
    HloInstruction *root = hlo_build_tuple(maker.b, maker.values + VALUES - 6, 6);
    HloStatus status = hlo_builder_finish_entry(maker.b, root);
    cr_assert_null(status, "%s", hlo_status_message(status));
    return module;
}

Test(pass_random, optimised_programs_compute_the_same_bits, .timeout = 900) {
    const int64_t first = cases_setting("MESHLO_RANDOM_SEED", 0), count = cases_count("MESHLO_RANDOM_PROGRAMS", 1500);
    for (int64_t seed = first; seed < first + count; seed++) {
        HloModule *module = make_program((uint64_t)seed);
        HloText text = {0};
        HloPrintOptions options = hlo_print_default();
        options.print_large_constants = true;
        cr_assert_null(hlo_print(module, &options, &text));
        check_same_results(seed % 3 ? "simplify" : "simplify,dot-canonicalizer,reshape-mover,simplify", text.data, 0);
        hlo_text_free(&text);
        hlo_module_free(module);
    }
}

enum { KEEP_SUMS = 5 };  // the first few: what follows them sums floats in another order

static const char *const passes[] = {"simplify",
                                     "while-loop-unroller,simplify",
                                     "scatter-expander,gather-expander",
                                     "call-inliner,conditional-simplifier,while-loop-simplifier,dce",
                                     "constant-folding,cse,reshape-mover,dce",
                                     "expand,simplify",
                                     "convolution-canonicalizer,convolution-to-dot,dot-canonicalizer,simplify"};

// The programs of tests/support: more ops and types, and floats that round. Rewrites keep the bits of all of them.
Test(pass_random, optimised_programs_of_every_op_compute_the_same, .timeout = 900) {
    const int64_t first = cases_setting("MESHLO_RANDOM_SEED", 0), count = cases_count("MESHLO_RANDOM_PROGRAMS", 600);
    for (int64_t seed = first; seed < first + count; seed++) {
        HloText text = {0};
        random_module((uint64_t)seed, 6 + (int)(seed % 25), &text);
        check_same_results(passes[seed % KEEP_SUMS], text.data, 0);
        hlo_text_free(&text);
    }
}

// Rules about zeros, infinities, NaNs and integers that wrap.
Test(pass_random, optimised_programs_compute_the_same_at_the_ends, .timeout = 900) {
    const int64_t first = cases_setting("MESHLO_RANDOM_SEED", 0), count = cases_count("MESHLO_RANDOM_PROGRAMS", 600);
    for (int64_t seed = first; seed < first + count; seed++) {
        HloText text = {0};
        random_exact_module((uint64_t)seed, 8 + (int)(seed % 30), &text);
        check_same_at_the_ends(passes[seed % (int64_t)HLO_COUNT_OF(passes)], text.data, (uint64_t)seed);
        hlo_text_free(&text);
    }
}

// The text that `meshlo opt` writes.
static char *optimised(const char *text) {
    HloModule *module = check_parse(text);
    const char *name = "simplify";
    HloText printed = {0};
    HloPrintOptions options = hlo_print_default();
    options.print_large_constants = true;
    HloStatus status = hlo_run_passes(module, &name, 1, NULL);
    cr_assert_null(status, "%s in\n%s", hlo_status_message(status), text);
    hlo_order_as_printed(module);
    hlo_module_renumber_frames(module);
    cr_assert_null(hlo_print(module, &options, &printed));
    hlo_module_free(module);
    return printed.data;
}

static void check_fixed_point(const char *text) {
    char *once = optimised(text), *twice = optimised(once);
    cr_expect_str_eq(twice, once);
    hlo_free(once);
    hlo_free(twice);
}

Test(pass_random, a_second_run_finds_nothing, .timeout = 600) {
    const int64_t first = cases_setting("MESHLO_RANDOM_SEED", 0), count = cases_count("MESHLO_RANDOM_PROGRAMS", 300);
    for (int64_t seed = first; seed < first + count; seed++) {
        HloText texts[2] = {{0}, {0}};
        random_module((uint64_t)seed, 6 + (int)(seed % 30), &texts[0]);
        random_exact_module((uint64_t)seed, 6 + (int)(seed % 30), &texts[1]);
        for (int i = 0; i < 2; i++) {
            check_fixed_point(texts[i].data);
            hlo_text_free(&texts[i]);
        }
        HloModule *module = make_program((uint64_t)seed);
        HloText text = {0};
        cr_assert_null(hlo_print(module, NULL, &text));
        check_fixed_point(text.data);
        hlo_text_free(&text);
        hlo_module_free(module);
    }
}

Test(pass_random, a_second_run_finds_nothing_in_real_programs, .timeout = 600) {
    glob_t files;
    cr_assert_eq(glob(MESHLO_SOURCE_DIR "/benchmarks/programs/*.hlo", 0, NULL, &files), 0);
    cr_assert_eq(glob(MESHLO_SOURCE_DIR "/tests/cpu/programs/*.hlo", GLOB_APPEND, NULL, &files), 0);
    for (size_t i = 0; i < files.gl_pathc; i++) {
        HloFileContent content;
        HloText text = {0};
        cr_assert_null(hlo_file_read(files.gl_pathv[i], SIZE_MAX / 4, &content));
        hlo_text_append(&text, content.data, content.size);
        check_fixed_point(text.data);
        hlo_text_free(&text);
        hlo_file_content_free(&content);
    }
    globfree(&files);
}
