// SPDX-License-Identifier: Apache-2.0
// Arrays that are the sum of what the devices hold: they enter, leave and pass linear ops without communication.
#include <criterion/criterion.h>
#include <stdio.h>

#include "hlo/text/text.h"
#include "tests/spmd/check.h"
#include "tests/support/cases.h"

// On four devices, as two by two: U is the whole mesh, V its minor half, R the shards of a matrix's rows.
#define U "sharding={devices=[1,1,4]<=[4] last_tile_dims={unreduced}}"
#define V "sharding={devices=[2,1,2]<=[4] last_tile_dims={unreduced}}"
#define R "sharding={devices=[4,1]<=[4]}"

static const struct {
    const char *body, *want;
} cases[] = {
    // A product that returns partial sums, and their reduction by another program.
    {"p = f32[6,8] parameter(0), sharding={devices=[1,4]<=[4]}\n q = f32[8,6] parameter(1), " R
     "\n ROOT d = f32[6,6] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}, " U,
     ""},
    {"p = f32[6,8] parameter(0), " U "\n ROOT c = f32[6,8] copy(p), sharding={replicated}", "1 all-reduce"},
    {"p = f32[8,8] parameter(0), " U "\n ROOT c = f32[8,8] copy(p), " R, "1 reduce-scatter"},
    {"p = f32[7,8] parameter(0), " U "\n ROOT c = f32[7,8] copy(p), " R, "1 reduce-scatter"},
    {"p = f32[8,8] parameter(0), " V "\n ROOT c = f32[8,8] copy(p), " R, "1 reduce-scatter"},
    // One device has the whole value, the others zeros.
    {"p = f32[6,8] parameter(0), sharding={replicated}\n ROOT c = f32[6,8] copy(p), " U, ""},
    {"p = f32[6,8] parameter(0), " V "\n ROOT c = f32[6,8] copy(p), " V, ""},
    {"ROOT i = f32[6,8] iota(), iota_dimension=1, " V, ""},
    // The shards of an array form a sum, too.
    {"p = f32[8,8] parameter(0), " R "\n ROOT c = f32[8,8] copy(p), " U, ""},
    {"p = f32[7,8] parameter(0), " R "\n ROOT c = f32[7,8] copy(p), " U, ""},
    {"p = f32[8,8] parameter(0), sharding={devices=[2,2]<=[4]}\n ROOT c = f32[8,8] copy(p), " V, ""},
    // A loop adds sums to a sum: one reduction after it.
    {"i = s32[] constant(0)\n p = f32[6,8] parameter(0), " U "\n q = f32[6,8] parameter(1), " U
     "\n t = (s32[], f32[6,8], f32[6,8]) tuple(i, p, q)\n w = (s32[], f32[6,8], f32[6,8]) while(t), condition=more, "
     "body=step\n g = f32[6,8] get-tuple-element(w), index=1\n ROOT r = f32[6,8] custom-call(g), "
     "custom_call_target=\"Sharding\", sharding={replicated}",
     "1 all-reduce"},
    // Linear ops pass sums on; a sum and a complete array do not add up.
    {"p = f32[6,8] parameter(0), " U "\n q = f32[6,8] parameter(1), " U "\n ROOT s = f32[6,8] add(p, q), " U, ""},
    {"p = f32[6,8] parameter(0), " U "\n q = f32[6,8] parameter(1), sharding={replicated}\n"
     " ROOT s = f32[6,8] multiply(p, q), " U,
     ""},
    {"p = f32[6,8] parameter(0), " U "\n c = f32[] constant(3)\n q = f32[6,8] broadcast(c), dimensions={}\n"
     " ROOT s = f32[6,8] divide(p, q), " U,
     ""},
    {"p = f32[6,8] parameter(0), " U "\n c = f32[] constant(3)\n q = f32[6,8] broadcast(c), dimensions={}\n"
     " ROOT s = f32[6,8] maximum(q, p), " U,
     "1 all-reduce"},
    {"p = f32[6,8] parameter(0), " U "\n q = f32[6,8] parameter(1), sharding={replicated}\n"
     " ROOT s = f32[6,8] add(p, q), " U,
     "1 all-reduce"},
    {"p = f32[6,8] parameter(0), " U "\n q = f32[6,8] parameter(1), " U "\n ROOT s = f32[6,8] multiply(p, q), " U,
     "1 all-reduce"},  // of both, combined
    {"p = f32[6,8] parameter(0), " U "\n q = f32[6,8] parameter(1), " U "\n s = f32[6,8] subtract(p, q)\n"
     " t = f32[6,8] custom-call(s), custom_call_target=\"Sharding\", " U "\n ROOT r = f32[6,8] custom-call(t), "
     "custom_call_target=\"Sharding\", sharding={replicated}",
     "1 all-reduce"},
    // A layout that is asked for inside changes nothing: jax.experimental.layout.with_layout_constraint.
    {"p = f32[6,8] parameter(0), " U "\n l = f32[6,8]{0,1} custom-call(p), custom_call_target=\"LayoutConstraint\"\n"
     " ROOT r = f32[6,8] custom-call(l), custom_call_target=\"Sharding\", " U,
     ""},
    // Parts of a sum in other places, and another precision.
    {"p = f32[6,8] parameter(0), " U "\n q = f32[2,8] parameter(1), " U "\n i = s32[] parameter(2), "
     "sharding={replicated}\n z = s32[] constant(0)\n ROOT s = f32[6,8] dynamic-update-slice(p, q, i, z), " U,
     ""},
    {"p = f32[6,8] parameter(0), " U "\n i = s32[] parameter(1), sharding={replicated}\n z = s32[] constant(0)\n"
     " s = f32[1,8] dynamic-slice(p, i, z), dynamic_slice_sizes={1,8}\n ROOT c = f32[1,8] custom-call(s), "
     "custom_call_target=\"Sharding\", " U,
     ""},
    {"p = f32[6,8] parameter(0), " U "\n ROOT s = f64[6,8] convert(p), " U, ""},
    {"p = f32[6,8] parameter(0), " U "\n ROOT s = s32[6,8] convert(p), " U, "1 all-reduce"},
    // The indices cut the result along the axes that its sum is over: found by random programs.
    {"p = f32[5,8] parameter(0), sharding={devices=[1,2,2]<=[4] last_tile_dim_replicate}\n i = s32[2] parameter(1), "
     "sharding={devices=[2,2]<=[4] last_tile_dim_replicate}\n g = f32[2,3] gather(p, i), offset_dims={1}, "
     "collapsed_slice_dims={1}, start_index_map={1}, index_vector_dim=1, slice_sizes={3,1}\n"
     " ROOT c = f32[2,3] custom-call(g), custom_call_target=\"Sharding\", " U,
     "1 all-gather"},
    // All other ops take the finished sum.
    {"p = f32[6,8] parameter(0), " U "\n ROOT s = f32[6,8] exponential(p), sharding={replicated}", "1 all-reduce"},
    {"p = f32[6,8] parameter(0), " U "\n ROOT s = f32[6,8] exponential(p), " U, "1 all-reduce"},
    {"p = s32[6,8] parameter(0), " U "\n z = s32[] constant(0)\n ROOT s = s32[6] reduce(p, z), dimensions={1}, "
     "to_apply=sum, sharding={replicated}",
     "1 all-reduce"},
    // In and out of a tuple, and of a manual region that sums over the devices.
    {"p = f32[6,8] parameter(0), " U "\n q = f32[6,8] parameter(1), " U
     "\n ROOT t = (f32[6,8], f32[6,8]) tuple(p, q), sharding={{devices=[1,1,4]<=[4] last_tile_dims={unreduced}}, "
     "{replicated}}",
     "1 all-reduce"},
    {"p = f32[6,8] parameter(0), sharding={devices=[1,4]<=[4]}\n m = f32[6,2] custom-call(p), "
     "custom_call_target=\"SPMDFullToShardShape\", sharding={manual}\n n = f32[6,2] negate(m)\n"
     " c = f32[6,2] custom-call(n), custom_call_target=\"Sharding\", sharding={manual}\n ROOT o = f32[6,2] "
     "custom-call(c), custom_call_target=\"SPMDShardToFullShape\", " U,
     NULL},
};

CaseList(unreduced, needs_only_these_collectives) {
    return cases_numbered(HLO_COUNT_OF(cases));
}

CaseTest(const int *number, unreduced, needs_only_these_collectives) {
    HloText text = {0};
    hlo_text_format(&text,
                    "HloModule m, num_partitions=4\n\nsum {\n x = s32[] parameter(0)\n y = s32[] parameter(1)\n"
                    " ROOT z = s32[] add(x, y)\n}\n\nmore {\n t = (s32[], f32[6,8], f32[6,8]) parameter(0)\n"
                    " i = s32[] get-tuple-element(t), index=0\n n = s32[] constant(3)\n"
                    " ROOT l = pred[] compare(i, n), direction=LT\n}\n\nstep {\n t = (s32[], f32[6,8], f32[6,8]) "
                    "parameter(0)\n i = s32[] get-tuple-element(t), index=0\n o = s32[] constant(1)\n"
                    " j = s32[] add(i, o)\n a = f32[6,8] get-tuple-element(t), index=1\n"
                    " b = f32[6,8] get-tuple-element(t), index=2\n s = f32[6,8] add(a, b)\n"
                    " c = f32[6,8] custom-call(s), custom_call_target=\"Sharding\", " U
                    "\n ROOT r = (s32[], f32[6,8], f32[6,8]) tuple(j, c, b)\n}\n\nENTRY e {\n %s\n}\n",
                    cases[*number].body);
    const char *want = cases[*number].want ? cases[*number].want : "";
    char *counts = collectives_of(text.data, NULL);
    cr_expect_str_eq(counts, want, "%s, not %s, for\n%s", counts, want, text.data);
    hlo_free(counts);
    // What a manual region makes has no meaning without devices: only its collectives are compared.
    if (cases[*number].want) check_partitioned(text.data, NULL, 5);
    hlo_text_free(&text);
}

// ---------------------------------------------------------------------------------------------------------------------
// Init values count once

// bug: in a reduction with an init value that is not an identity, whose result is left as a sum over the axes, each
// device added the init value to its part once.
typedef struct InitCase {
    char op[12], type[8], init[8];
} InitCase;

CaseList(unreduced, init_values_count_once) {
    static InitCase inits[] = {
        {"add", "f32", "5"},      {"add", "f32", "0"},      {"add", "s32", "-7"},    {"multiply", "f32", "3"},
        {"multiply", "s32", "2"}, {"maximum", "f32", "9"},  {"maximum", "s32", "1"}, {"minimum", "f32", "-9"},
        {"and", "s32", "6"},      {"or", "s32", "8"},       {"xor", "s32", "5"},     {"add", "bf16", "2"},
        {"add", "c64", "(2,1)"},  {"minimum", "s32", "-3"},
    };
    return cr_make_param_array(InitCase, inits, sizeof(inits) / sizeof(inits[0]));
}

// In each form: as the program's result, gathered afterwards, cut elsewhere, with the init value as a parameter.
CaseTest(InitCase *one, unreduced, init_values_count_once) {
    static const char *const wanted[] = {"{devices=[1,4]<=[4] last_tile_dims={unreduced}}",
                                         "{devices=[2,2]<=[2,2]T(1,0) last_tile_dims={unreduced}}", "{replicated}",
                                         "{devices=[2,2]<=[4] last_tile_dim_replicate}"};
    for (size_t w = 0; w < HLO_COUNT_OF(wanted); w++) {
        for (int parameter = 0; parameter < 2; parameter++) {
            HloText text = {0};
            hlo_text_format(&text,
                            "HloModule m, num_partitions=4\nfold {\n a = %s[] parameter(0)\n b = %s[] parameter(1)\n"
                            " ROOT c = %s[] %s(a, b)\n}\nENTRY e {\n"
                            " p = %s[6,7] parameter(0), sharding={devices=[1,4]<=[4]}\n",
                            one->type, one->type, one->type, one->op, one->type);
            if (parameter)
                hlo_text_format(&text, " z = %s[] parameter(1)\n", one->type);
            else
                hlo_text_format(&text, " z = %s[] constant(%s)\n", one->type, one->init);
            hlo_text_format(&text,
                            " r = %s[6] reduce(p, z), dimensions={1}, to_apply=fold, sharding=%s\n"
                            " ROOT s = %s[6] copy(r), sharding=%s\n}\n",
                            one->type, wanted[w], one->type, wanted[(w + 2) % HLO_COUNT_OF(wanted)]);
            check_partitioned(text.data, NULL, 7);
            hlo_text_free(&text);
        }
    }
}
