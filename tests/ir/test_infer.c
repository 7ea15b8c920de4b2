// SPDX-License-Identifier: Apache-2.0
// Shape inference through text whose result shapes are left out. The expected shapes are what XLA's parser infers from
// the same texts (jaxlib 0.10.2, jaxlib._hlo.hlo_module_from_text); "" where XLA refuses too.
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "hlo/hlo.h"
#include "tests/support/cases.h"

typedef struct InferCase {
    const char *parameters;  // separated by semicolons
    const char *root, *called, *shape;
} InferCase;

#define ADD "c {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT t = f32[] add(a,b)\n}\n"

static const InferCase cases[] = {
    {"f32[2];bf16[2]", "add(p0,p1)", "", "f32[2]"},
    {"f32[<=2];f32[2]", "add(p0,p1)", "", "f32[<=2]"},
    {"f32[<=3];f32[2]", "add(p0,p1)", "", ""},
    {"f32[?];f32[2]", "add(p0,p1)", "", "f32[2]"},
    {"f32[?];f32[<=2]", "add(p0,p1)", "", "f32[<=2]"},
    {"pred[];f32[2];f32[2]", "select(p0,p1,p2)", "", "f32[2]"},
    {"pred[2];f32[2];bf16[2]", "select(p0,p1,p2)", "", "f32[2]"},
    {"pred[3];f32[2];f32[2]", "select(p0,p1,p2)", "", ""},
    {"f32[];f32[2];f32[]", "clamp(p0,p1,p2)", "", "f32[2]"},
    {"f32[];f32[2];f32[2]", "clamp(p0,p1,p2)", "", "f32[2]"},
    {"f32[]", "broadcast(p0), dimensions={}", "", "f32[]"},
    {"f32[2,3]", "f32[3,4,2] broadcast(p0), dimensions={2,0}", "", "f32[3,4,2]"},
    {"f32[2,3]", "f32[2,4,3] broadcast(p0), dimensions={0,2}", "", "f32[2,4,3]"},
    {"f32[2,3];f32[2,5]", "concatenate(p0,p1), dimensions={1}", "", "f32[2,8]"},
    {"f32[2,3];bf16[2,5]", "concatenate(p0,p1), dimensions={1}", "", "f32[2,8]"},
    {"f32[2,3]", "get-dimension-size(p0), dimensions={1}", "", "s32[]"},
    {"f32[2,3];s32[]", "set-dimension-size(p0,p1), dimensions={1}", "", "f32[2,<=3]"},
    {"f32[2,<=3];f32[]", "pad(p0,p1), padding=1_1x0_1", "", "f32[4,<=4]"},
    {"f32[2,3];f32[]", "pad(p0,p1), padding=-3_-1x0_1", "", ""},
    {"f32[2,3];bf16[]", "pad(p0,p1), padding=-1_0x0_1", "", "f32[1,4]"},
    {"f32[2,3];f32[3,4]", "dot(p0,p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}", "", "f32[2,4]"},
    {"f32[2,3];bf16[3,4]", "dot(p0,p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}", "", "f32[2,4]"},
    {"s8[2,3];s8[3,4]", "dot(p0,p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}", "", "s8[2,4]"},
    {"bf16[2,3];f8e5m2[3,4]", "dot(p0,p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}", "", "bf16[2,4]"},
    {"s8[2,3];s32[3,4]", "dot(p0,p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}", "", "s32[2,4]"},
    {"s8[2,3];f32[3,4]", "dot(p0,p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}", "", "f32[2,4]"},
    {"s8[2,3];s8[3,4]", "f32[2,4] dot(p0,p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}", "", "f32[2,4]"},
    {"f32[2,3];f32[3,4]", "bf16[2,4] dot(p0,p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}", "", "bf16[2,4]"},
    {"f32[2,3];f32[3,4]", "s32[2,4] dot(p0,p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}", "", "s32[2,4]"},
    {"f32[5,2,3];f32[3,4];s32[7]",
     "ragged-dot(p0,p1,p2), lhs_contracting_dims={2}, rhs_contracting_dims={0}, lhs_ragged_dims={1}, rhs_group_dims={}",
     "", ""},
    {"f32[11,5];f32[3,5,7];s32[3]",
     "ragged-dot(p0,p1,p2), lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, "
     "rhs_group_dims={0}",
     "", "f32[11,7]"},
    {"f32[11,5];f32[5,7];s32[3]",
     "ragged-dot(p0,p1,p2), lhs_contracting_dims={1}, rhs_contracting_dims={0}, lhs_ragged_dims={1}, rhs_group_dims={}",
     "", "f32[3,11,7]"},
    {"f32[3,11,5];f32[3,5,7];s32[3]",
     "ragged-dot(p0,p1,p2), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, "
     "rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={}",
     "", "f32[3,11,7]"},
    {"f32[4,8,8,3];f32[3,3,3,16]",
     "convolution(p0,p1), window={size=3x3 stride=2x2 pad=1_1x1_1}, dim_labels=b01f_01io->b01f", "", "f32[4,4,4,16]"},
    {"f32[4,8,8,3]", "fft(p0), fft_type=RFFT, fft_length={8,3}", "", "c64[4,8,8,2]"},
    {"c64[4,8,8,3]", "fft(p0), fft_type=IRFFT, fft_length={8,4}", "", "f32[4,8,8,4]"},
    {"c64[3,0]", "fft(p0), fft_type=IRFFT, fft_length={0}", "", "f32[3,0]"},
    {"c64[3,1]", "fft(p0), fft_type=IRFFT, fft_length={0}", "", "f32[3,0]"},
    {"c64[4,8,8,3]", "fft(p0), fft_type=FFT, fft_length={8,3}", "", "c64[4,8,8,3]"},
    {"f32[4,8,3];f32[8];f32[8]", "batch-norm-training(p0,p1,p2), epsilon=0.1, feature_index=1", "",
     "(f32[4,8,3],f32[8],f32[8])"},
    {"f32[4,8,3]", "topk(p0), k=2, largest=true", "", "(f32[4,8,2],s32[4,8,2])"},
    {"f32[4];f32[4]", "tuple(p0,p1)", "", "(f32[4],f32[4])"},
    {"f32[4];token[]", "add-dependency(p0,p1)", "", "f32[4]"},
    {"f32[4,4]", "cholesky(p0)", "", "f32[4,4]"},
    {"f32[4,4];f32[4,2]", "triangular-solve(p0,p1), left_side=true, lower=true", "", ""},
    {"f32[4,4];s32[];s32[]", "dynamic-slice(p0,p1,p2), dynamic_slice_sizes={2,2}", "", ""},
    {"f32[4,4]", "slice(p0), slice={[0:4:2],[1:3]}", "", ""},
    {"f32[4,4]", "rng-bit-generator(p0), algorithm=rng_default", "", ""},
    {"u64[2]", "(u64[2],u32[5]) rng-bit-generator(p0), algorithm=rng_default", "", "(u64[2],u32[5])"},
    {"f32[4];f32[];s32[4];s32[]", "reduce(p0,p2,p1,p3), dimensions={0}, to_apply=c",
     "c {\n a=f32[] parameter(0)\n b=s32[] parameter(1)\n d=f32[] parameter(2)\n e=s32[] parameter(3)\n ROOT "
     "t=(f32[],s32[]) tuple(a,b)\n}\n",
     ""},
    {"bf16[4];bf16[]", "reduce(p0,p1), dimensions={0}, to_apply=c",
     "c {\n a=f32[] parameter(0)\n b=f32[] parameter(1)\n ROOT t=f32[] add(a,b)\n}\n", ""},
    {"f32[4,<=4];f32[]", "reduce(p0,p1), dimensions={0}, to_apply=c",
     "c {\n a=f32[] parameter(0)\n b=f32[] parameter(1)\n ROOT t=f32[] add(a,b)\n}\n", ""},
    {"f32[4,4];f32[]", "reduce-window(p0,p1), window={size=2x1 pad=1_0x0_0}, to_apply=c",
     "c {\n a=f32[] parameter(0)\n b=f32[] parameter(1)\n ROOT t=f32[] add(a,b)\n}\n", ""},
    {"f32[4,4];f32[2,4];f32[]", "select-and-scatter(p0,p1,p2), window={size=2x1 stride=2x1}, select=s, scatter=c",
     "c {\n a=f32[] parameter(0)\n b=f32[] parameter(1)\n ROOT t=f32[] add(a,b)\n}\n s {\n a=f32[] parameter(0)\n "
     "b=f32[] parameter(1)\n ROOT t=pred[] compare(a,b), direction=GE\n}\n",
     ""},
    {"f32[4,4];f32[4,4]", "map(p0,p1), dimensions={0,1}, to_apply=c",
     "c {\n a=f32[] parameter(0)\n b=f32[] parameter(1)\n ROOT t=f32[] add(a,b)\n}\n", ""},
    {"f32[4,4];f32[4]", "scan(p0,p1), dimensions={0}, num_carries=1, to_apply=c",
     "c {\n a=f32[4] parameter(0)\n b=f32[4] parameter(1)\n ROOT t=(f32[4],f32[4]) tuple(a,b)\n}\n", ""},
    {"f32[4,4];f32[4]", "scan(p0,p1), dimensions={0}, num_carries=1, to_apply=c",
     "c {\n a=f32[4] parameter(0)\n b=f32[4] parameter(1)\n k=bf16[4] convert(b)\n ROOT t=(bf16[4],f32[4]) "
     "tuple(k,b)\n}\n",
     ""},
    {"f32[4,4]", "call(p0), to_apply=c", "c {\n a=f32[4,4] parameter(0)\n ROOT t=f32[4,4] add(a,a)\n}\n", ""},
    // The order of XLA's verifier and back ends; the inference of jaxlib 0.10.2's parser still has an older one.
    {"f32[10,32];f32[32,7];f32[10,1];f32[1,7]",
     "scaled-dot(p0,p1,p2,p3), lhs_contracting_dims={1}, rhs_contracting_dims={0}", "", "f32[10,7]"},
    {"f32[10,32];f32[10,1];f32[32,7];f32[1,7]",
     "scaled-dot(p0,p1,p2,p3), lhs_contracting_dims={1}, rhs_contracting_dims={0}", "", ""},
    {"bf16[4];bf16[]", "reduce(p0,p1), dimensions={0}, to_apply=c", ADD, "f32[]"},
    {"f32[4,<=4];f32[]", "reduce(p0,p1), dimensions={0}, to_apply=c", ADD, "f32[<=4]"},
    {"f32[4,<=4];f32[]", "reduce-window(p0,p1), window={size=2x2 pad=1_0x0_0}, to_apply=c", ADD, "f32[4,<=3]"},
    {"f32[4,4];f32[]", "reduce-window(p0,p1), window={size=2x1 pad=1_0x0_0}, to_apply=c", ADD, "f32[4,4]"},
    {"f32[4,4];f32[4,4]", "map(p0,p1), dimensions={0,1}, to_apply=c", ADD, "f32[4,4]"},
    {"f32[4,4];f32[4,4]", "map(p0,p1), dimensions={1,0}, to_apply=c", ADD, ""},
    {"f32[9,4];bf16[4]", "scan(p0,p1), dimensions={0}, num_carries=1, to_apply=c",
     "c {\n a = f32[4] parameter(0)\n b = bf16[4] parameter(1)\n ROOT t = (bf16[4],f32[4]) tuple(b,a)\n}\n",
     "(bf16[9,4],f32[4])"},
    {"f32[9,4];bf16[4]", "scan(p0,p1), dimensions={0}, num_carries=2, to_apply=c",
     "c {\n a = f32[4] parameter(0)\n b = bf16[4] parameter(1)\n ROOT t = (bf16[4],f32[4]) tuple(a,b)\n}\n", ""},
    {"f32[9,4];bf16[4]", "scan(p0,p1), dimensions={0}, num_carries=1, to_apply=c",
     "c {\n a = f32[4] parameter(0)\n b = bf16[4] parameter(1)\n ROOT t = (f32[4],bf16[4]) tuple(a,b)\n}\n",
     "(f32[9,4],bf16[4])"},
    {"f32[9,4];bf16[4]", "scan(p0,p1), dimensions={0}, num_carries=2, to_apply=c",
     "c {\n a = f32[4] parameter(0)\n b = bf16[4] parameter(1)\n ROOT t = (bf16[4],f32[4]) tuple(b,a)\n}\n", ""},
    {"f32[9,4];bf16[4]", "scan(p0,p1), dimensions={0}, num_carries=3, to_apply=c",
     "c {\n a = f32[4] parameter(0)\n b = bf16[4] parameter(1)\n ROOT t = (bf16[4],f32[4]) tuple(a,b)\n}\n", ""},
    {"f32[9,4];bf16[4]", "scan(p0,p1), dimensions={0}, num_carries=2, to_apply=c",
     "c {\n a = f32[4] parameter(0)\n b = bf16[4] parameter(1)\n ROOT t = (f32[4],bf16[4]) tuple(a,b)\n}\n", ""},
    {"f32[9,4];bf16[4]", "scan(p0,p1), dimensions={0}, num_carries=3, to_apply=c",
     "c {\n a = f32[4] parameter(0)\n b = bf16[4] parameter(1)\n ROOT t = (bf16[4],f32[4]) tuple(b,a)\n}\n", ""},
    {"f32[9,4];bf16[4]", "scan(p0,p1), dimensions={0}, num_carries=4, to_apply=c",
     "c {\n a = f32[4] parameter(0)\n b = bf16[4] parameter(1)\n ROOT t = (bf16[4],f32[4]) tuple(a,b)\n}\n", ""},
    {"f32[9,4];bf16[4]", "scan(p0,p1), dimensions={0}, num_carries=1, to_apply=c",
     "c {\n a = bf16[4] parameter(0)\n b = f32[4] parameter(1)\n ROOT t = (bf16[4],f32[4]) tuple(b,a)\n}\n",
     "(bf16[9,4],f32[4])"},
    {"f32[9,4];bf16[4]", "scan(p0,p1), dimensions={0}, num_carries=2, to_apply=c",
     "c {\n a = bf16[4] parameter(0)\n b = f32[4] parameter(1)\n ROOT t = (bf16[4],f32[4]) tuple(a,b)\n}\n", ""},
    {"f32[9,4];bf16[4]", "scan(p0,p1), dimensions={0}, num_carries=1, to_apply=c",
     "c {\n a = bf16[4] parameter(0)\n b = f32[4] parameter(1)\n ROOT t = (f32[4],bf16[4]) tuple(a,b)\n}\n",
     "(f32[9,4],bf16[4])"},
    {"f32[9,4];bf16[4]", "scan(p0,p1), dimensions={0}, num_carries=2, to_apply=c",
     "c {\n a = bf16[4] parameter(0)\n b = f32[4] parameter(1)\n ROOT t = (bf16[4],f32[4]) tuple(b,a)\n}\n", ""},
    {"f32[9,4];bf16[4]", "scan(p0,p1), dimensions={0}, num_carries=3, to_apply=c",
     "c {\n a = bf16[4] parameter(0)\n b = f32[4] parameter(1)\n ROOT t = (bf16[4],f32[4]) tuple(a,b)\n}\n", ""},
    {"f32[9,4];bf16[4]", "scan(p0,p1), dimensions={0}, num_carries=2, to_apply=c",
     "c {\n a = bf16[4] parameter(0)\n b = f32[4] parameter(1)\n ROOT t = (f32[4],bf16[4]) tuple(a,b)\n}\n", ""},
    {"f32[9,4];bf16[4]", "scan(p0,p1), dimensions={0}, num_carries=3, to_apply=c",
     "c {\n a = bf16[4] parameter(0)\n b = f32[4] parameter(1)\n ROOT t = (bf16[4],f32[4]) tuple(b,a)\n}\n", ""},
    {"f32[9,4];bf16[4]", "scan(p0,p1), dimensions={0}, num_carries=4, to_apply=c",
     "c {\n a = bf16[4] parameter(0)\n b = f32[4] parameter(1)\n ROOT t = (bf16[4],f32[4]) tuple(a,b)\n}\n", ""},
    {"f32[4,4]", "all-reduce(p0), replica_groups={}, to_apply=c", ADD, ""},
    {"f32[4,4]", "all-gather(p0), replica_groups={}, dimensions={0}", ADD, ""},
    {"f32[4];f32[4]", "triangular-solve(p0,p1), left_side=true, lower=true, transpose_a=NO_TRANSPOSE", "", ""},
    {"f32[4,4];f32[4,2]", "triangular-solve(p0,p1), left_side=true, lower=true, transpose_a=NO_TRANSPOSE", "",
     "f32[4,2]"},
    {"f32[3,4,5];s32[6,2]",
     "gather(p0,p1), offset_dims={1}, collapsed_slice_dims={0,1}, start_index_map={0,1}, index_vector_dim=1, "
     "slice_sizes={1,1,5}",
     "", "f32[6,5]"},
};

// Which element types an op takes: XLA refuses the others.
typedef struct TypeCase {
    const char *op;
    int operands;
    const char *types;
} TypeCase;

#define FLOATS "f4e2m1fn f8e5m2 f8e8m0fnu f16 bf16 f32 f64 "
#define COMPLEXES "c64 c128 "
#define SIGNED "s1 s4 s8 s32 "
#define UNSIGNED "u1 u4 u32 "

static const TypeCase type_cases[] = {
    {"acos", 1, FLOATS COMPLEXES},
    {"cbrt", 1, FLOATS},
    {"erf", 1, FLOATS},
    {"exponential", 1, FLOATS COMPLEXES},
    {"abs", 1, SIGNED FLOATS COMPLEXES},
    {"ceil", 1, FLOATS},
    {"count-leading-zeros", 1, SIGNED UNSIGNED},
    {"imag", 1, FLOATS COMPLEXES},
    {"is-finite", 1, FLOATS},
    {"negate", 1, SIGNED UNSIGNED FLOATS COMPLEXES},
    {"not", 1, "pred " SIGNED UNSIGNED},
    {"popcnt", 1, SIGNED UNSIGNED},
    {"sign", 1, SIGNED FLOATS COMPLEXES},
    {"copy", 1, "pred " SIGNED UNSIGNED FLOATS COMPLEXES},
    {"add", 2, "pred " SIGNED UNSIGNED FLOATS COMPLEXES},
    {"and", 2, "pred " SIGNED UNSIGNED},
    {"atan2", 2, FLOATS COMPLEXES},
    {"complex", 2, "f32 f64 "},
    {"divide", 2, SIGNED UNSIGNED FLOATS COMPLEXES},
    {"maximum", 2, "pred " SIGNED UNSIGNED FLOATS COMPLEXES},
    {"subtract", 2, SIGNED UNSIGNED FLOATS COMPLEXES},
};

static HloStatus parse_program(const char *parameters, const char *root, const char *called, HloModule **module) {
    HloText text = {0};
    cases_program(&text, parameters, root, called);
    HloStatus status = hlo_parse(text.data, text.length, NULL, module);
    hlo_text_free(&text);
    return status;
}

// Without spaces and index comments.
static void squeeze(HloText *text) {
    size_t kept = 0;
    for (size_t i = 0; i < text->length; i++) {
        const char *end = strncmp(&text->data[i], "/*", 2) == 0 ? strstr(&text->data[i], "*/") : NULL;
        if (end)
            i = (size_t)(end - text->data) + 1;
        else if (text->data[i] != ' ')
            text->data[kept++] = text->data[i];
    }
    text->data[kept] = 0;
}

Test(ir_infer, agrees_with_xla) {
    for (size_t i = 0; i < HLO_COUNT_OF(cases); i++) {
        HloModule *module = NULL;
        HloStatus status = parse_program(cases[i].parameters, cases[i].root, cases[i].called, &module);
        HloText shape = {0};
        if (module) hlo_shape_print(&shape, module->entry->root->shape, false);
        if (shape.data) squeeze(&shape);
        cr_expect_str_eq(shape.data ? shape.data : "", cases[i].shape, "(%s) %s: %s", cases[i].parameters,
                         cases[i].root, hlo_status_message(status));
        hlo_text_free(&shape);
        hlo_status_free(status);
        hlo_module_free(module);
    }
}

static bool takes(const TypeCase *one, const char *type) {
    char parameters[64], root[64];
    HloModule *module = NULL;
    snprintf(parameters, sizeof(parameters), one->operands == 2 ? "%s[2];%s[2]" : "%s[2]", type, type);
    snprintf(root, sizeof(root), "%s(%s)", one->op, one->operands == 2 ? "p0, p1" : "p0");
    HloStatus status = parse_program(parameters, root, "", &module);
    hlo_status_free(status);
    hlo_module_free(module);
    return module != NULL;
}

Test(ir_infer, takes_the_types_that_xla_takes) {
    static const char *const types[] = {"pred",   "s1",        "s4",  "s8",   "s32", "u1",  "u4",  "u32", "f4e2m1fn",
                                        "f8e5m2", "f8e8m0fnu", "f16", "bf16", "f32", "f64", "c64", "c128"};
    for (size_t i = 0; i < HLO_COUNT_OF(type_cases); i++) {
        for (size_t t = 0; t < HLO_COUNT_OF(types); t++) {
            char word[32];
            snprintf(word, sizeof(word), "%s ", types[t]);
            const char *found = strstr(type_cases[i].types, word);
            bool expected = found && (found == type_cases[i].types || found[-1] == ' ');
            cr_expect_eq(takes(&type_cases[i], types[t]), expected, "%s of %s", type_cases[i].op, types[t]);
        }
    }
}

// bug: each leaf of a wide tuple with one tuple in it was looked for from the first: 10^10 steps here.
Test(ir_infer, bug_leaves_of_wide_nested_tuples_took_square_time) {
    enum { kWide = 200000 };
    HloArena *arena = hlo_arena_new();
    const HloShape **elements = HLO_ARENA_NEW(arena, const HloShape *, kWide);
    const HloShape *scalar = hlo_shape_scalar(arena, HLO_F32), *token = hlo_shape_token(arena);
    for (int64_t i = 0; i < kWide; i++) elements[i] = scalar;
    const HloShape *pair[] = {scalar, token};
    elements[kWide - 1] = hlo_shape_tuple(arena, pair, 2);
    const HloShape *wide = hlo_shape_tuple(arena, elements, kWide);
    int64_t tokens = 0;
    cr_assert_eq(hlo_shape_leaf_count(wide), kWide + 1);
    for (int64_t i = 0; i <= kWide; i++) tokens += hlo_shape_leaf(wide, i) == token ? i : 0;
    cr_expect_eq(tokens, kWide);
    hlo_arena_free(arena);
}

// ((), a, (b, (c)), d): the leaves that a tuple records are those that a walk finds.
Test(ir_infer, tuples_know_their_leaves) {
    HloArena *arena = hlo_arena_new();
    const HloShape *leaves[4], *none = hlo_shape_tuple(arena, NULL, 0);
    for (int64_t i = 0; i < 4; i++) leaves[i] = hlo_shape_array(arena, HLO_F32, HLO_DIMS(i + 1).items, 1);
    const HloShape *inner = hlo_shape_tuple(arena, &leaves[2], 1), *pair[] = {leaves[1], inner};
    const HloShape *elements[] = {none, leaves[0], hlo_shape_tuple(arena, pair, 2), leaves[3]};
    const HloShape *nested = hlo_shape_tuple(arena, elements, 4), *flat = hlo_shape_tuple(arena, leaves, 4);
    static const int64_t first[] = {0, 0, 1, 3, 4};
    cr_expect(flat->is_flat && !nested->is_flat && none->is_flat);
    cr_expect_eq(hlo_shape_leaf_count(none), 0);
    cr_expect_eq(hlo_shape_leaf_count(nested), 4);
    for (int64_t i = 0; i < 4; i++) {
        cr_expect_eq(hlo_shape_leaf(nested, i), leaves[i]);
        cr_expect_eq(hlo_shape_leaf(flat, i), leaves[i]);
    }
    for (int64_t i = 0; i <= 4; i++) {
        cr_expect_eq(hlo_shape_first_leaf(nested, i), first[i]);
        cr_expect_eq(hlo_shape_first_leaf(flat, i), i);
    }
    // A copy into another module does not refer to the first one's memory.
    HloArena *other = hlo_arena_new();
    const HloShape *copy = hlo_shape_copy(other, nested);
    cr_expect_neq(copy->first_leaves, nested->first_leaves);
    for (int64_t i = 0; i < 4; i++) cr_expect_eq(hlo_shape_leaf(copy, i)->dims[0], i + 1);
    hlo_arena_free(other);
    bool yes = true;
    HloShape moving = *leaves[3];
    moving.dynamic = &yes;
    const HloShape *last = &moving, *holder = hlo_shape_tuple(arena, &last, 1);
    cr_expect(!hlo_shape_is_dynamic(nested) && hlo_shape_is_dynamic(holder));
    cr_expect(hlo_shape_is_dynamic(hlo_shape_with_default_layout(arena, holder)));
    hlo_arena_free(arena);
}
