// SPDX-License-Identifier: Apache-2.0
// One thread == several, bit for bit, for operations large enough that several share them. The oracle is the run with
// one thread, which other tests hold to the evaluator over small arrays; that is what makes large ones cheap here. Each
// row is tried several times, since a race shows only sometimes.
#include <criterion/criterion.h>

#include "tests/support/cases.h"
#include "tests/support/compiled.h"

typedef struct Form {
    const char *parameters, *root, *called;
} Form;

#define BINARY(name, type, op)                                                                              \
#name " {\n  a = " #type "[] parameter(0)\n  b = " #type "[] parameter(1)\n  ROOT s = " #type "[] " #op \
          "(a, b)\n}\n"
#define ADD BINARY(add, f32, add)
#define MULTIPLY BINARY(multiply, f32, multiply)
#define GREATER                                                                                        \
    "greater {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT s = pred[] compare(a, b), " \
    "direction=GE\n}\n"
#define MIX                                                                                                   \
    "mix {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  s = f32[] sine(b)\n  t = f32[] add(a, s)\n" \
    "  h = f32[] constant(0.5)\n  ROOT r = f32[] multiply(t, h)\n}\n"
#define LESS \
    "less {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT l = pred[] compare(a, b), direction=LT\n}\n"
#define LESS_OF_TWO                                                                                                    \
    "less {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  c = s32[] parameter(2)\n  d = s32[] parameter(3)\n" \
    "  e = f32[] abs(a)\n  f = f32[] abs(b)\n  l = pred[] compare(e, f), direction=LT\n"                               \
    "  ROOT m = pred[] copy(l)\n}\n"

static const Form kForms[] = {
    // Reductions: of everything, of rows, of columns, in the middle; by any computation.
    {"f32[500003];f32[]", "f32[] reduce(p0, p1), dimensions={0}, to_apply=add", ADD},
    {"f32[700,901];f32[]", "f32[700] reduce(p0, p1), dimensions={1}, to_apply=add", ADD},
    {"f32[901,700];f32[]", "f32[700] reduce(p0, p1), dimensions={0}, to_apply=add", ADD},
    {"f32[3,90001];f32[]", "f32[3] reduce(p0, p1), dimensions={1}, to_apply=add", ADD},
    {"f32[40,300,50];f32[]", "f32[40,50] reduce(p0, p1), dimensions={1}, to_apply=multiply", MULTIPLY},
    {"f32[60,300,20];f32[]", "f32[300] reduce(p0, p1), dimensions={0,2}, to_apply=add", ADD},
    {"bf16[500,701];bf16[]", "bf16[701] reduce(p0, p1), dimensions={0}, to_apply=add", BINARY(add, bf16, add)},
    {"f32[300003];f32[]", "f32[] reduce(p0, p1), dimensions={0}, to_apply=mix", MIX},
    {"f32[301,999];f32[]", "f32[999] reduce(p0, p1), dimensions={0}, to_apply=mix", MIX},
    // Windows and scans: along memory, across it, forward and back, one long row.
    {"f32[300001];f32[]", "f32[300001] reduce-window(p0, p1), window={size=300001 pad=300000_0}, to_apply=add", ADD},
    {"f32[300001];f32[]", "f32[300001] reduce-window(p0, p1), window={size=300001 pad=0_300000}, to_apply=add", ADD},
    {"f32[99,2001];f32[]", "f32[99,2001] reduce-window(p0, p1), window={size=1x2001 pad=0_0x2000_0}, to_apply=add",
     ADD},
    {"f32[401,601];f32[]", "f32[401,601] reduce-window(p0, p1), window={size=401x1 pad=0_400x0_0}, to_apply=add", ADD},
    {"f32[401,301];f32[]", "f32[401,301] reduce-window(p0, p1), window={size=401x1 pad=400_0x0_0}, to_apply=mix", MIX},
    {"bf16[401,301];bf16[]", "bf16[401,301] reduce-window(p0, p1), window={size=1x301 pad=0_0x300_0}, to_apply=add",
     BINARY(add, bf16, add)},
    {"f32[301,401];f32[]", "f32[299,397] reduce-window(p0, p1), window={size=3x5}, to_apply=add", ADD},
    {"f32[301,401];f32[]", "f32[100,133] reduce-window(p0, p1), window={size=3x5 stride=3x3}, to_apply=mix", MIX},
    {"f32[9,200,200];f32[9,67,67];f32[]",
     "f32[9,200,200] select-and-scatter(p0, p1, p2), window={size=1x3x3 stride=1x3x3 pad=0_0x1_0x0_1}, select=greater, "
     "scatter=add",
     GREATER ADD},
    {"f32[9,200,40];f32[9,199,40];f32[]",
     "f32[9,200,40] select-and-scatter(p0, p1, p2), window={size=1x2x1}, select=greater, scatter=multiply",
     GREATER MULTIPLY},
    // Orders.
    {"f32[300001]", "f32[300001] sort(p0), dimensions={0}, to_apply=less", LESS},
    {"f32[401,999]", "f32[401,999] sort(p0), dimensions={0}, is_stable=true, to_apply=less", LESS},
    {"f32[50001];s32[50001]", "(f32[50001], s32[50001]) sort(p0, p1), dimensions={0}, is_stable=true, to_apply=less",
     LESS_OF_TWO},
    {"f32[301,501];s32[301,501]",
     "(f32[301,501], s32[301,501]) sort(p0, p1), dimensions={1}, is_stable=true, to_apply=less", LESS_OF_TWO},
    {"f32[60,5000]", "(f32[60,9], s32[60,9]) topk(p0), k=9, largest=true", ""},
    {"f32[60,5000]", "(f32[60,900], s32[60,900]) topk(p0), k=900, largest=true", ""},
    // Products, convolutions, transforms, factors.
    {"f32[301,257];f32[257,333]", "f32[301,333] dot(p0, p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}", ""},
    {"f32[7,20001];f32[20001,5]", "f32[7,5] dot(p0, p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}", ""},
    {"f32[1,2001];f32[2001,801]", "f32[1,801] dot(p0, p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}", ""},
    {"bf16[201,257];bf16[257,333]", "f32[201,333] dot(p0, p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}", ""},
    {"s8[201,257];s8[257,333]", "s32[201,333] dot(p0, p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}", ""},
    {"c64[99,101];c64[101,98]", "c64[99,98] dot(p0, p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}", ""},
    {"f32[40,31,65];f32[40,65,33]",
     "f32[40,31,33] dot(p0, p1), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, "
     "rhs_contracting_dims={1}",
     ""},
    {"f32[3,40,40,16];f32[3,3,16,24]",
     "f32[3,40,40,24] convolution(p0, p1), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f", ""},
    {"f32[2,30,30,24];f32[5,5,1,24]",
     "f32[2,30,30,24] convolution(p0, p1), window={size=5x5 pad=2_2x2_2}, dim_labels=b01f_01io->b01f, "
     "feature_group_count=24",
     ""},
    {"c64[64,1009]", "c64[64,1009] fft(p0), fft_type=FFT, fft_length={1009}", ""},
    {"c64[70000]", "c64[70000] fft(p0), fft_type=IFFT, fft_length={70000}", ""},
    {"f32[90,1000]", "c64[90,501] fft(p0), fft_type=RFFT, fft_length={1000}", ""},
    {"c64[200,150]", "c64[200,150] fft(p0), fft_type=FFT, fft_length={200,150}", ""},
    {"f32[301,301];f32[301,99]",
     "f32[301,99] triangular-solve(p0, p1), left_side=true, lower=true, unit_diagonal=true, transpose_a=NO_TRANSPOSE",
     ""},
    {"f32[9,65,65]", "f32[9,65,65] cholesky(p0), lower=true", ""},
    // Elements moved, made and converted.
    {"f32[701,999]", "f32[999,701] transpose(p0), dimensions={1,0}", ""},
    {"bf16[70,99,90]", "bf16[90,70,99] transpose(p0), dimensions={2,0,1}", ""},
    {"f32[500,601];s32[40000,1]",
     "f32[40000,601] gather(p0, p1), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
     "index_vector_dim=1, slice_sizes={1,601}",
     ""},
    {"f32[90001]", "f8e4m3fn[90001] convert(p0)", ""},
    {"f32[90001]", "s4[90001] convert(p0)", ""},
    {"u64[2]", "(u64[2], u32[90001]) rng-bit-generator(p0), algorithm=rng_three_fry", ""},
    {"u64[3]", "(u64[3], u16[90001]) rng-bit-generator(p0), algorithm=rng_philox", ""},
};

CaseList(one_thread_or_many, same_bits) {
    return cases_numbered(HLO_COUNT_OF(kForms));
}

CaseTest(const int *index, one_thread_or_many, same_bits) {
    const Form *form = &kForms[*index];
    HloText text = {0}, message = {0};
    cases_program(&text, form->parameters, form->root, form->called);
    HloModule *module = compiled_must_parse(text.data);
    HloLiteral *one[1] = {NULL};
    CompiledCheck check = {.seed = 5, .threads = 1};
    cr_assert(compiled_run(module, &check, one, &message), "%s\n%s", message.data, text.data);
    for (int threads = 2; threads <= 5; threads++) {
        HloLiteral *several[1] = {NULL};
        check.threads = threads;
        cr_assert(compiled_run(module, &check, several, &message), "%s", message.data);
        cr_assert(hlo_literal_equal(one[0], several[0]), "other bits with %d threads\n%s", threads, text.data);
        hlo_literal_free(several[0]);
    }
    hlo_literal_free(one[0]);
    hlo_module_free(module);
    hlo_text_free(&message);
    hlo_text_free(&text);
}
