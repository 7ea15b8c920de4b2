// SPDX-License-Identifier: Apache-2.0
// Passes that spell ops out or bring them into another form: equal results, and the op is gone.
#include <criterion/criterion.h>

#include "check.h"
#include "tests/support/cases.h"

typedef struct ExpansionCase {
    const char *pass;
    HloOpcode gone;  // must not be there afterwards
    double tolerance;
    const char *called, *body;
} ExpansionCase;

#define ADD "c {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT t = f32[] add(a, b)\n}\n\n"
#define SUB "c {\n  a = s32[] parameter(0)\n  b = s32[] parameter(1)\n  ROOT t = s32[] subtract(a, b)\n}\n\n"
#define ARGMAX(type)                                                                                           \
    "c {\n  a = " type "[] parameter(0)\n  i = s64[] parameter(1)\n  b = " type                                \
    "[] parameter(2)\n  j = s64[] parameter(3)\n  g = pred[] compare(a, b), direction=GT\n  v = " type         \
    "[] select(g, a, b)\n  e = pred[] compare(a, b), direction=EQ\n  l = pred[] compare(i, j), direction=LT\n" \
    "  f = pred[] and(e, l)\n  o = pred[] or(g, f)\n  k = s64[] select(o, i, j)\n  ROOT t = (" type            \
    "[], s64[]) tuple(v, k)\n}\n\n"
#define P(number, type) "  p" #number " = " type " parameter(" #number ")\n"

#define ONES "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,"
#define COUNT "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30"
static const ExpansionCase cases[] = {
    {"gather-expander", HLO_OP_GATHER, 0, "",
     P(0, "f32[6,7,5]")
         P(1, "s32[4,2]") "  ROOT r = f32[4,5] gather(p0, p1), offset_dims={1}, collapsed_slice_dims={0,1}, "
                          "start_index_map={0,1}, index_vector_dim=1, slice_sizes={1,1,5}\n"},
    {"gather-expander", HLO_OP_GATHER, 0, "",
     P(0, "f32[6,7]") P(1, "s32[2,3]") "  ROOT r = f32[2,4,3,7] gather(p0, p1), offset_dims={1,3}, "
                                       "collapsed_slice_dims={}, start_index_map={0}, index_vector_dim=2, "
                                       "slice_sizes={4,7}\n"},
    {"gather-expander", HLO_OP_GATHER, 0, "",
     P(0, "s32[3,8,5]")
         P(1, "s32[3,4,1]") "  ROOT r = s32[3,4,5] gather(p0, p1), offset_dims={2}, "
                            "collapsed_slice_dims={1}, start_index_map={1}, operand_batching_dims={0}, "
                            "start_indices_batching_dims={0}, index_vector_dim=2, slice_sizes={1,1,5}\n"},
    // bug: a gather of empty slices, which reads nothing, was expanded; it must stay.
    // bug: indices of 2^63 and more, which arguments of -8 to -1 become, were taken for negative ones.
    {"gather-expander", HLO_OP_GATHER, 0, "",
     P(0, "f32[10]") P(1, "u64[6,1]") "  ROOT r = f32[6,3] gather(p0, p1), offset_dims={1}, collapsed_slice_dims={}, "
                                      "start_index_map={0}, index_vector_dim=1, slice_sizes={3}\n"},
    {"gather-expander", HLO_OPCODE_COUNT, 0, "",
     P(0, "f32[4,8]") P(1, "s32[4,1]") "  ROOT r = f32[4] gather(p0, p1), offset_dims={}, collapsed_slice_dims={1}, "
                                       "start_index_map={1}, operand_batching_dims={0}, "
                                       "start_indices_batching_dims={0}, index_vector_dim=1, slice_sizes={1,0}\n"},
    {"scatter-expander", HLO_OP_SCATTER, 1e-6, ADD,
     P(0, "f32[6,5]") P(1, "s32[7,1]")
         P(2, "f32[7,5]") "  ROOT r = f32[6,5] scatter(p0, p1, p2), "
                          "update_window_dims={1}, inserted_window_dims={0}, "
                          "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=c\n"},
    {"scatter-expander", HLO_OP_SCATTER, 0, SUB,
     P(0, "s32[6,5]") P(1, "s32[2,9]")
         P(2, "s32[2,9,3]") "  ROOT r = s32[6,5] scatter(p0, p1, p2), "
                            "update_window_dims={0,2}, inserted_window_dims={}, "
                            "scatter_dims_to_operand_dims={1,0}, index_vector_dim=0, to_apply=c\n"},
    {"scatter-expander", HLO_OP_SCATTER, 0, SUB,
     P(0, "s32[3,8]") P(1, "s32[3,4,1]")
         P(2, "s32[3,4]") "  ROOT r = s32[3,8] scatter(p0, p1, p2), "
                          "update_window_dims={}, inserted_window_dims={1}, "
                          "scatter_dims_to_operand_dims={1}, input_batching_dims={0}, "
                          "scatter_indices_batching_dims={0}, index_vector_dim=2, to_apply=c\n"},
    {"scan-expander", HLO_OP_SCAN, 0,
     "c {\n  x = f32[5] parameter(0)\n  a = f32[5] parameter(1)\n  s = f32[5] add(a, x)\n  m = f32[5] multiply(s, x)\n"
     "  ROOT t = (f32[5], f32[5]) tuple(m, s)\n}\n\n",
     P(0, "f32[6,5]")
         P(1, "f32[5]") "  ROOT r = (f32[6,5], f32[5]) scan(p0, p1), dimensions={0}, to_apply=c, num_carries=1\n"},
    {"scan-expander", HLO_OP_SCAN, 0,
     "c {\n  x = f32[6] parameter(0)\n  a = f32[6] parameter(1)\n  s = f32[6] subtract(a, x)\n"
     "  ROOT t = (f32[6], f32[6]) tuple(s, s)\n}\n\n",
     P(0, "f32[6,5]") P(1, "f32[6]") "  ROOT r = (f32[6,5], f32[6]) scan(p0, p1), dimensions={1}, to_apply=c, "
                                     "num_carries=1, is_reverse=true\n"},
    // bug: a scan of no steps took a row.
    {"scan-expander", HLO_OP_SCAN, 0,
     "c {\n  x = f32[5] parameter(0)\n  a = f32[5] parameter(1)\n  s = f32[5] add(a, x)\n"
     "  ROOT t = (f32[5], f32[5]) tuple(s, s)\n}\n\n",
     P(0, "f32[0,5]")
         P(1, "f32[5]") "  ROOT r = (f32[0,5], f32[5]) scan(p0, p1), dimensions={0}, to_apply=c, num_carries=1\n"},
    {"bitcast-expander", HLO_OP_BITCAST, 0, "", P(0, "f32[3,4]{0,1}") "  ROOT r = f32[2,6]{0,1} bitcast(p0)\n"},
    {"bitcast-expander", HLO_OP_BITCAST, 0, "",
     P(0, "f32[3,4,5]{1,2,0:T(2,4)}") "  ROOT r = f32[4,3,1,5]{0,3,2,1:T(2,4)} bitcast(p0)\n"},
    {"bitcast-expander", HLO_OP_BITCAST, 0, "", P(0, "f32[3,4]{0,1}") "  ROOT r = s32[4,3]{1,0} bitcast(p0)\n"},
    {"scaled-dot-expander", HLO_OP_SCALED_DOT, 1e-6, "",
     P(0, "f8e4m3fn[4,64]") P(1, "f8e5m2[8,64]") P(2, "f8e8m0fnu[4,2]")
         P(3, "f8e8m0fnu[8,4]") "  ROOT r = f32[4,8] scaled-dot(p0, p1, p2, p3), lhs_contracting_dims={1}, "
                                "rhs_contracting_dims={1}\n"},
    // More than half of the dimensions that an array may have.
    {"scaled-dot-expander", HLO_OP_SCALED_DOT, 1e-6, "",
     P(0, "f32[" ONES "2,4]") P(1, "f32[" ONES "3,4]") P(2, "f32[" ONES "2,2]")
         P(3, "f32[" ONES "3,1]") "  ROOT r = f32[" ONES "2,3] scaled-dot(p0, p1, p2, p3), lhs_batch_dims={" COUNT "}, "
                                  "rhs_batch_dims={" COUNT "}, lhs_contracting_dims={32}, rhs_contracting_dims={32}\n"},
    {"scaled-dot-expander", HLO_OP_SCALED_DOT, 1e-12, "",
     P(0, "f64[2,6]") P(1, "f64[6,3]") P(2, "f64[]")
         P(3, "f64[2,3]") "  ROOT r = f64[2,3] scaled-dot(p0, p1, p2, p3), lhs_contracting_dims={1}, "
                          "rhs_contracting_dims={0}\n"},
    {"async-to-sync", HLO_OP_ASYNC_START, 0, "c {\n  x = f32[6] parameter(0)\n  ROOT y = f32[6] negate(x)\n}\n\n",
     P(0, "f32[6]") "  s = ((f32[6]), f32[6], u32[]) async-start(p0), calls=c\n"
                    "  u = ((f32[6]), f32[6], u32[]) async-update(s)\n  d = f32[6] async-done(u)\n"
                    "  ROOT r = f32[6] add(d, p0)\n"},
    {"async-to-sync", HLO_OP_COPY_START, 0, "",
     P(0, "f32[6]") "  s = (f32[6], f32[6], u32[]) copy-start(p0)\n  ROOT d = f32[6] copy-done(s)\n"},
    {"batch-norm-expander", HLO_OP_BATCH_NORM_TRAINING, 1e-4, "",
     P(0, "f32[4,3,5]") P(1, "f32[3]")
         P(2, "f32[3]") "  ROOT r = (f32[4,3,5], f32[3], f32[3]) "
                        "batch-norm-training(p0, p1, p2), epsilon=0.01, feature_index=1\n"},
    {"batch-norm-expander", HLO_OP_BATCH_NORM_INFERENCE, 1e-4, "",
     P(0, "f32[4,3]") P(1, "f32[3]") P(2, "f32[3]")
         P(3, "f32[3]") "  v = f32[3] multiply(p1, p1)\n  ROOT r = f32[4,3] batch-norm-inference(p0, p1, p2, p3, v), "
                        "epsilon=0.1, "
                        "feature_index=1\n"},
    {"batch-norm-expander", HLO_OP_BATCH_NORM_GRAD, 1e-4, "",
     P(0, "f32[4,3]") P(1, "f32[3]") P(2, "f32[3]")
         P(3, "f32[4,3]") "  v = f32[3] multiply(p1, p1)\n  ROOT r = (f32[4,3], f32[3], f32[3]) batch-norm-grad(p0, "
                          "p1, p2, v, p3), "
                          "epsilon=0.1, feature_index=1\n"},
    {"rng-expander", HLO_OP_RNG_BIT_GENERATOR, 0, "",
     P(0, "u64[2]") "  ROOT r = (u64[2], u32[5,6,3]) rng-bit-generator(p0), algorithm=rng_three_fry\n"},
    {"rng-expander", HLO_OP_RNG_BIT_GENERATOR, 0, "",
     P(0, "u64[2]") "  ROOT r = (u64[2], u8[7,3]) rng-bit-generator(p0), algorithm=rng_three_fry\n"},
    {"rng-expander", HLO_OP_RNG_BIT_GENERATOR, 0, "",
     P(0, "u64[2]") "  ROOT r = (u64[2], u64[7]) rng-bit-generator(p0), algorithm=rng_three_fry\n"},
    {"rng-expander", HLO_OP_RNG_BIT_GENERATOR, 0, "",
     P(0, "u64[2]") "  ROOT r = (u64[2], u32[]) rng-bit-generator(p0), algorithm=rng_three_fry\n"},
    {"rng-expander", HLO_OP_RNG_BIT_GENERATOR, 0, "",
     P(0, "u64[3]") "  ROOT r = (u64[3], u32[5,3]) rng-bit-generator(p0), algorithm=rng_philox\n"},
    {"rng-expander", HLO_OP_RNG_BIT_GENERATOR, 0, "",
     P(0, "u64[2]") "  ROOT r = (u64[2], s64[5]) rng-bit-generator(p0), algorithm=rng_philox\n"},
    {"rng-expander", HLO_OP_RNG_BIT_GENERATOR, 0, "",  // without the state that follows
     P(0, "u64[2]") "  ROOT r = u16[7] rng-bit-generator(p0), algorithm=rng_three_fry\n"},
    {"dot-canonicalizer", HLO_OPCODE_COUNT, 1e-6, "",
     P(0, "f32[2,3,4,5]") P(1, "f32[5,6,2,3]") "  ROOT r = f32[2,4,6] dot(p0, p1), lhs_batch_dims={0}, "
                                               "rhs_batch_dims={2}, lhs_contracting_dims={1,3}, "
                                               "rhs_contracting_dims={3,0}\n"},
    {"dot-canonicalizer", HLO_OPCODE_COUNT, 1e-6, "",
     P(0, "f32[3,4]")
         P(1, "f32[2]") "  ROOT r = f32[3,4,2] dot(p0, p1), lhs_contracting_dims={}, rhs_contracting_dims={}\n"},
    // Convolutions in other orders: with groups, dilations, reversal, uneven padding, integers, no spatial dimension.
    {"convolution-canonicalizer", HLO_OPCODE_COUNT, 1e-6, "",
     P(0, "f32[2,6,8,9]")
         P(1, "f32[4,3,2,3]") "  ROOT r = f32[2,4,9,4] convolution(p0, p1), window={size=2x3 stride=1x2 "
                              "pad=1_1x0_0}, dim_labels=bf01_oi01->bf01, feature_group_count=2\n"},
    {"convolution-canonicalizer", HLO_OPCODE_COUNT, 1e-6, "",
     P(0, "f32[3,7,4]")
         P(1, "f32[6,3,3]") "  ROOT r = f32[6,2,12] convolution(p0, p1), window={size=3 pad=2_-1 "
                            "lhs_dilate=2 rhs_reversal=1}, dim_labels=f0b_oi0->fb0, batch_group_count=2\n"},
    {"convolution-canonicalizer", HLO_OPCODE_COUNT, 0, "",
     P(0, "s8[5,2,3,4]") P(1, "s8[2,4,2,3]") "  ROOT r = s32[2,3,2,3] convolution(p0, p1), window={size=2x2 "
                                             "rhs_dilate=1x2}, dim_labels=1b0f_1i0o->b10f\n"},
    {"convolution-canonicalizer", HLO_OPCODE_COUNT, 1e-6, "",
     P(0, "f32[4,3]") P(1, "f32[6,3]") "  ROOT r = f32[6,4] convolution(p0, p1), dim_labels=bf_oi->fb\n"},
    {"convolution-to-dot", HLO_OP_CONVOLUTION, 1e-6, "",
     P(0, "f32[2,4,5,3]") P(1, "f32[1,1,3,6]") "  ROOT r = f32[2,6,4,5] convolution(p0, p1), window={size=1x1}, "
                                               "dim_labels=b01f_01io->bf01\n"},
    {"convolution-to-dot", HLO_OP_CONVOLUTION, 1e-6, "",
     P(0, "f32[4,3]") P(1, "f32[6,3]") "  ROOT r = f32[4,6] convolution(p0, p1), dim_labels=bf_oi->bf\n"},
    {"convolution-to-dot", HLO_OP_CONVOLUTION, 1e-6, "",
     P(0, "f32[2,5,3]") P(1, "f32[5,3,6]") "  ROOT r = f32[2,1,6] convolution(p0, p1), window={size=5}, "
                                           "dim_labels=b0f_0io->b0f\n"},
    {"convolution-to-dot", HLO_OP_CONVOLUTION, 1e-6, "",
     P(0, "f32[2,5,3]") P(1, "f32[5,3,6]") "  ROOT r = f32[2,1,6] convolution(p0, p1), window={size=5 rhs_reversal=1}, "
                                           "dim_labels=b0f_0io->b0f\n"},
    {"convolution-to-dot", HLO_OP_CONVOLUTION, 1e-6, "",
     P(0, "f32[2,1,3]") P(1, "f32[5,3,6]") "  ROOT r = f32[2,5,6] convolution(p0, p1), "
                                           "window={size=5 pad=4_4 rhs_reversal=1}, dim_labels=b0f_0io->b0f\n"},
    {"convolution-to-dot", HLO_OP_CONVOLUTION, 1e-6, "",
     P(0, "f32[2,5,3]") P(1, "f32[5,3,6]") "  ROOT r = f32[2,5,6] convolution(p0, p1), "
                                           "window={size=5 stride=4 lhs_dilate=5}, dim_labels=b0f_0io->b0f\n"},
    {"stack-expander", HLO_OP_REDUCE, 0, ADD,
     P(0, "f32[6,1,5]") P(1, "f32[6,1,5]")
         P(2, "f32[6,5]") "  t = f32[6,1,5] reshape(p2)\n"
                          "  s = f32[6,3,5] concatenate(p0, p1, t), dimensions={1}\n"
                          "  z = f32[] constant(0.5)\n"
                          "  ROOT r = f32[6,5] reduce(s, z), dimensions={1}, to_apply=c\n"},
    // Elementwise operations and broadcasts between the stack and its sum, and a sum of scalars.
    {"stack-expander", HLO_OP_REDUCE, 0, ADD,
     P(0, "f32[4,1]") P(1, "f32[4,1]") P(2, "f32[1]") "  s = f32[4,2] concatenate(p0, p1), dimensions={1}\n"
                                                      "  w = f32[2] concatenate(p2, p2), dimensions={0}\n"
                                                      "  u = f32[3,4,2] broadcast(s), dimensions={1,2}\n"
                                                      "  v = f32[3,4,2] broadcast(w), dimensions={2}\n"
                                                      "  m = f32[3,4,2] multiply(u, v)\n"
                                                      "  i = f32[2] iota(), iota_dimension=0\n"
                                                      "  j = f32[3,4,2] broadcast(i), dimensions={2}\n"
                                                      "  a = f32[3,4,2] add(m, j)\n"
                                                      "  z = f32[] constant(0)\n"
                                                      "  q = f32[3,4] reduce(a, z), dimensions={2}, to_apply=c\n"
                                                      "  y = f32[] reduce(w, z), dimensions={0}, to_apply=c\n"
                                                      "  ROOT r = (f32[3,4], f32[]) tuple(q, y)\n"},
    // The first true predicate of a stack, and of its cumulative sums.
    {"stack-expander", HLO_OP_REDUCE, 0, ARGMAX("pred"),
     P(0, "pred[1,7]")
         P(1, "pred[1,7]") "  n = pred[] constant(false)\n"
                           "  b = pred[1,7] broadcast(n), dimensions={}\n"
                           "  s = pred[3,7] concatenate(b, p0, p1), dimensions={0}\n"
                           "  i = s64[3,7] iota(), iota_dimension=0\n"
                           "  z = s64[] constant(0)\n"
                           "  ROOT r = (pred[7], s64[7]) reduce(s, i, n, z), dimensions={0}, to_apply=c\n"},
    {"stack-expander", HLO_OP_REDUCE, 0,
     ARGMAX("s64") "add {\n  x = s64[] parameter(0)\n  y = s64[] parameter(1)\n  ROOT z = s64[] add(x, y)\n}\n\n",
     P(0, "pred[7,1]")
         P(1, "pred[7,1]") "  s = pred[7,2] concatenate(p0, p1), dimensions={1}\n"
                           "  n = s64[7,2] convert(s)\n"
                           "  z = s64[] constant(0)\n"
                           "  w = s64[7,2] reduce-window(n, z), window={size=1x2 pad=0_0x1_0}, to_apply=add\n"
                           "  v = s64[2] iota(), iota_dimension=0\n"
                           "  i = s64[7,2] broadcast(v), dimensions={1}\n"
                           "  m = s64[] constant(-9223372036854775808)\n"
                           "  ROOT r = (s64[7], s64[7]) reduce(w, i, m, z), dimensions={1}, to_apply=c\n"},
    {"layout-normalization", HLO_OP_BITCAST, 0, "",
     P(0, "f32[4,6]{0,1}") "  b = f32[6,4]{1,0} bitcast(p0)\n  ROOT r = f32[2,3,4]{1,2,0} bitcast(b)\n"},
};

static HloText program(const ExpansionCase *one) {
    HloText text = {0};
    hlo_text_format(&text, "HloModule m\n\n%sENTRY main {\n%s}\n", one->called, one->body);
    return text;
}

CaseList(pass_expanders, compute_the_same) {
    return cases_numbered(HLO_COUNT_OF(cases));
}

CaseTest(const int *index, pass_expanders, compute_the_same) {
    const ExpansionCase *one = &cases[*index];
    HloText text = program(one);
    HloModule *module = check_parse(text.data);
    cr_assert_null(hlo_run_passes(module, (const char *const[]){one->pass, "dce"}, 2, NULL));
    for (const HloInstruction *i = module->entry->first; i; i = i->next) {
        cr_expect_neq(i->opcode, one->gone, "%s is still there", i->name);
    }
    hlo_module_free(module);
    check_same_results(one->pass, text.data, one->tolerance);
    HloText all = {0};
    hlo_text_format(&all, "%s,simplify", one->pass);
    check_same_results(all.data, text.data, one->tolerance);
    hlo_text_free(&all);
    hlo_text_free(&text);
}

Test(pass_expanders, canonical_dots_stay) {
    const char *body = P(0, "f32[2,3,4]") P(1, "f32[2,4,5]")
        "  ROOT r = f32[2,3,5] dot(p0, p1), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, "
        "rhs_contracting_dims={1}\n";
    check_body("dot-canonicalizer", body, body);
}

Test(pass_expanders, convolutions_in_another_order_are_transposed) {
    check_body("convolution-canonicalizer",
               P(0, "f32[2,3,9]") P(1, "f32[6,3,4]") "  ROOT r = f32[2,6,6] convolution(p0, p1), window={size=4}, "
                                                     "dim_labels=bf0_oi0->bf0\n",
               P(0, "f32[2,3,9]") P(1, "f32[6,3,4]") "  a = f32[2,9,3] transpose(p0), dimensions={0,2,1}\n"
                                                     "  b = f32[4,3,6] transpose(p1), dimensions={2,1,0}\n"
                                                     "  c = f32[2,6,6] convolution(a, b), window={size=4}, "
                                                     "dim_labels=b0f_0io->b0f\n"
                                                     "  ROOT r = f32[2,6,6] transpose(c), dimensions={0,2,1}\n");
}

Test(pass_expanders, canonical_convolutions_stay) {
    const char *body = P(0, "f32[2,5,3]")
        P(1, "f32[3,3,6]") "  ROOT r = f32[2,3,6] convolution(p0, p1), window={size=3}, dim_labels=b0f_0io->b0f\n";
    check_body("convolution-canonicalizer", body, body);
}

Test(pass_expanders, real_convolutions_stay) {
    const char *body = P(0, "f32[2,5,3]")
        P(1, "f32[3,3,6]") "  ROOT r = f32[2,3,6] convolution(p0, p1), window={size=3}, dim_labels=b0f_0io->b0f\n";
    check_body("convolution-to-dot", body, body);
}

Test(pass_expanders, reshapes_move_after_elementwise_ops) {
    check_body("reshape-mover,dce",
               P(0, "f32[2,3]") P(1, "f32[2,3]") "  a = f32[6] reshape(p0)\n  b = f32[6] reshape(p1)\n"
                                                 "  ROOT r = pred[6] compare(a, b), direction=LT\n",
               P(0, "f32[2,3]") P(1, "f32[2,3]") "  c = pred[2,3] compare(p0, p1), direction=LT\n"
                                                 "  ROOT r = pred[6] reshape(c)\n");
}

Test(pass_expanders, transposes_move_with_repeated_scalars) {
    check_body("reshape-mover,dce",
               P(0, "f32[2,3]") P(1, "f32[]") "  a = f32[3,2] transpose(p0), dimensions={1,0}\n"
                                              "  b = f32[3,2] broadcast(p1), dimensions={}\n"
                                              "  ROOT r = f32[3,2] multiply(a, b)\n",
               P(0, "f32[2,3]") P(1, "f32[]") "  b = f32[2,3] broadcast(p1), dimensions={}\n"
                                              "  c = f32[2,3] multiply(p0, b)\n"
                                              "  ROOT r = f32[3,2] transpose(c), dimensions={1,0}\n");
}

Test(pass_expanders, unlike_reshapes_stay) {
    const char *body = P(0, "f32[2,3]")
        P(1, "f32[3,2]") "  a = f32[6] reshape(p0)\n  b = f32[6] reshape(p1)\n  ROOT r = f32[6] add(a, b)\n";
    check_body("reshape-mover", body, body);
}

Test(pass_expanders, immense_arrays_are_left_alone) {
    const char *body =
        P(0, "u64[2]") "  ROOT r = (u64[2], u8[1152921504606846976]) rng-bit-generator(p0), algorithm=rng_three_fry\n";
    check_body("expand", body, body);
    const char *slices = P(0, "f32[8]") "  a = f32[1] slice(p0), slice={[2:3:4611686018427387904]}\n"
                                        "  ROOT r = f32[1] slice(a), slice={[0:1:8]}\n";
    check_body("algebraic-simplifier", slices,
               P(0, "f32[8]") "  ROOT r = f32[1] slice(p0), slice={[2:3:4611686018427387904]}\n");
}

// Reductions that "stack-expander" leaves alone: sums that a target adds in a wider type, stacks of slices that are
// wider than 1 or along another dimension, long ones, and what several instructions read between.
#define STAYS(type, body)                                                                                \
    "HloModule m\n\nc {\n  a = " type "[] parameter(0)\n  b = " type "[] parameter(1)\n  ROOT t = " type \
    "[] add(a, b)\n}\n\nENTRY main {\n  z = " type "[] constant(0)\n" body "}\n"
static const char *const kStay[] = {
    STAYS("bf16", P(0, "bf16[4,1]") "  s = bf16[4,2] concatenate(p0, p0), dimensions={1}\n"
                                    "  ROOT r = bf16[4] reduce(s, z), dimensions={1}, to_apply=c\n"),
    STAYS("f32", P(0, "f32[4,2]") "  s = f32[4,4] concatenate(p0, p0), dimensions={1}\n"
                                  "  ROOT r = f32[4] reduce(s, z), dimensions={1}, to_apply=c\n"),
    STAYS("f32", P(0, "f32[4,1]") "  s = f32[4,2] concatenate(p0, p0), dimensions={1}\n"
                                  "  ROOT r = f32[2] reduce(s, z), dimensions={0}, to_apply=c\n"),
    STAYS("f32", P(0, "f32[4,1]") "  s = f32[4,9] concatenate(p0, p0, p0, p0, p0, p0, p0, p0, p0), dimensions={1}\n"
                                  "  ROOT r = f32[4] reduce(s, z), dimensions={1}, to_apply=c\n"),
    STAYS("f32", P(0, "f32[4,1]") "  s = f32[4,2] concatenate(p0, p0), dimensions={1}\n"
                                  "  e = f32[4,2] exponential(s)\n"
                                  "  q = f32[4] reduce(e, z), dimensions={1}, to_apply=c\n"
                                  "  ROOT r = (f32[4,2], f32[4]) tuple(e, q)\n"),
};

CaseList(pass_expanders, leave_reductions_of_other_arrays) {
    return cases_numbered(HLO_COUNT_OF(kStay));
}

CaseTest(const int *index, pass_expanders, leave_reductions_of_other_arrays) {
    HloModule *module = check_parse(kStay[*index]);
    cr_assert_null(hlo_run_passes(module, (const char *const[]){"stack-expander"}, 1, NULL));
    bool stays = false;
    for (const HloInstruction *i = module->entry->first; i; i = i->next) stays |= i->opcode == HLO_OP_REDUCE;
    cr_expect(stays);
    hlo_module_free(module);
}
