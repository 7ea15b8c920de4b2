// SPDX-License-Identifier: Apache-2.0
// How much memory programs need besides arguments and results.
#include <criterion/criterion.h>

#include "hlo/pass/pass.h"
#include "hlo/text/text.h"
#include "tests/support/compiled.h"

// Simplifies and compiles the program, checks its results against the evaluator's and returns its temporaries.
static int64_t temporaries(const char *text, double tolerance) {
    static const char *const passes[] = {"simplify"};
    HloModule *module = compiled_must_parse(text);
    must_succeed(hlo_run_passes(module, passes, 1, NULL));
    HloText message = {0};
    const CompiledCheck check = {.seed = 5, .threads = 2, .tolerance = tolerance};
    cr_assert(compiled_equals_eval(module, &check, &message), "%s", message.data);
    TargetClient *client;
    TargetExecutable *executable;
    must_succeed(target_client_new("cpu:1", &client));
    must_succeed(target_compile(client, module, NULL, &executable));
    TargetMemoryAnalysis analysis;
    target_executable_memory_analysis(executable, &analysis);
    target_executable_release(executable);
    target_client_release(client);
    hlo_text_free(&message);
    hlo_module_free(module);
    return analysis.temporary_bytes;
}

// Appends the gradient of `layers` layers that each take one 64 x 64 matrix of a stack: a sum of one padded matrix, or
// one update of zeros, a layer.
static void stacked_gradient(HloText *text, int layers, bool dynamic) {
    hlo_text_format(text,
                    "HloModule m\nENTRY e {\n w = f32[%d,64,64] parameter(0)\n x0 = f32[4,64] parameter(1)\n"
                    " z = f32[] constant(0)\n f = f32[] constant(0.0625)\n v = f32[4,64] broadcast(f), dimensions={}\n"
                    " zeros = f32[%d,64,64] broadcast(z), dimensions={}\n"
                    " c0 = s32[] constant(0)\n",
                    layers, layers);
    for (int i = 0; i < layers; i++)
        hlo_text_format(
            text,
            " s%da = f32[1,64,64] slice(w), slice={[%d:%d], [0:64], [0:64]}\n w%d = f32[64,64] reshape(s%da)\n"
            " d%d = f32[4,64] dot(x%d, w%d), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
            " e%d = f32[4,64] multiply(d%d, v)\n x%d = f32[4,64] tanh(e%d)\n",
            i, i, i + 1, i, i, i, i, i, i, i, i + 1, i);
    hlo_text_format(text, " g%d = f32[4,64] multiply(x%d, x%d)\n", layers, layers, layers);
    for (int i = layers; i-- > 0;) {
        hlo_text_format(text,
                        " q%d = f32[64,64] dot(x%d, g%d), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n"
                        " r%d = f32[1,64,64] reshape(q%d)\n",
                        i, i, i + 1, i, i);
        if (dynamic)
            hlo_text_format(text,
                            " i%d = s32[] constant(%d)\n"
                            " p%d = f32[%d,64,64] dynamic-update-slice(zeros, r%d, i%d, c0, c0)\n",
                            i, i, i, layers, i, i);
        else
            hlo_text_format(text, " p%d = f32[%d,64,64] pad(r%d, z), padding=%d_%dx0_0x0_0\n", i, layers, i, i,
                            layers - 1 - i);
        if (i < layers - 1)
            hlo_text_format(text, " %st%d = f32[%d,64,64] add(%c%d, p%d)\n", i ? "" : "ROOT ", i, layers,
                            i == layers - 2 ? 'p' : 't', i + 1, i);
        hlo_text_format(text,
                        " b%d = f32[4,64] dot(g%d, w%d), lhs_contracting_dims={1}, rhs_contracting_dims={1}\n"
                        " m%d = f32[4,64] multiply(b%d, x%d)\n g%d = f32[4,64] multiply(m%d, v)\n",
                        i, i + 1, i, i, i, i, i, i);
    }
    hlo_text_string(text, "}\n");
}

// It took as many times the weights as the model has layers: each padded gradient was kept until one loop added all.
Test(temporaries, bug_gradients_of_stacked_weights_were_padded_and_kept) {
    for (int dynamic = 0; dynamic < 2; dynamic++) {
        HloText text = {0};
        stacked_gradient(&text, 24, dynamic);
        const int64_t bytes = temporaries(text.data, 0), weights = 24 * 64 * 64 * 4;
        cr_expect_lt(bytes, weights + weights / 4, "%lld bytes for weights of %lld", (long long)bytes,
                     (long long)weights);
        hlo_text_free(&text);
    }
}

// Sums of terms that are each as large as the sum, and each made by a step of its own before it is added.
static void sum_of(HloText *text, int terms, const char *term) {
    hlo_text_string(text,
                    "HloModule m\nENTRY e {\n x = f32[64,1024] parameter(0)\n i0 = s32[] parameter(1)\n"
                    " z = f32[] constant(0)\n n = f32[] constant(-0.5)\n u = f32[40,1024] slice(x), slice={[8:48], "
                    "[0:1024]}\n zeros = f32[64,1024] broadcast(z), dimensions={}\n c0 = s32[] constant(0)\n");
    for (int k = 0; k < terms; k++) {
        hlo_text_format(text,
                        " c%d = f32[] constant(%d.25)\n f%d = f32[40,1024] broadcast(c%d), dimensions={}\n"
                        " y%d = f32[40,1024] multiply(u, f%d)\n j%d = s32[] constant(%d)\n k%d = s32[] add(i0, j%d)\n",
                        k + 1, k, k, k + 1, k, k, k, k, k, k);
        for (const char *at = term; *at; at++) {
            if (*at == '#')
                hlo_text_format(text, "%d", k);
            else if (*at == '<')
                hlo_text_format(text, "%d", k + 1);
            else if (*at == '>')
                hlo_text_format(text, "%d", 64 - k - 1);
            else if (*at == '~')
                hlo_text_format(text, "%d", 24 - k);
            else
                hlo_text_format(text, "%c", *at);
        }
        if (k)
            hlo_text_format(text, " %ssum%d = f32[64,1024] add(%s%d, p%d)\n", k == terms - 1 ? "ROOT " : "", k,
                            k > 1 ? "sum" : "p", k - 1, k);
    }
    hlo_text_string(text, "}\n");
}

// All terms lived until one loop added them.
Test(temporaries, bug_all_terms_of_a_sum_lived_until_one_loop) {
    static const struct {
        const char *name, *term;
        double tolerance;  // numbers of a hundred thousand cancel
    } kTerms[] = {
        {"pads of most of the array", " p# = f32[64,1024] pad(y#, n), padding=#_~x0_0\n", 0},
        {"updates at unknown places", " p# = f32[64,1024] dynamic-update-slice(zeros, y#, k#, c0)\n", 0},
        {"rolls",
         " a# = f32[<,1024] slice(x), slice={[0:<], [0:1024]}\n b# = f32[>,1024] slice(x), slice={[<:64], "
         "[0:1024]}\n p# = f32[64,1024] concatenate(b#, a#), dimensions={0}\n",
         0},
        {"products",
         " t# = f32[40,64] slice(y#), slice={[0:40], [0:64]}\n p# = f32[64,1024] dot(t#, y#), "
         "lhs_contracting_dims={0}, rhs_contracting_dims={0}\n",
         1e-2},
    };
    for (size_t i = 0; i < HLO_COUNT_OF(kTerms); i++) {
        HloText text = {0};
        sum_of(&text, 16, kTerms[i].term);
        const int64_t bytes = temporaries(text.data, kTerms[i].tolerance), term = 64 * 1024 * 4;
        cr_expect_lt(bytes, 4 * term, "%s: %lld bytes for terms of %lld", kTerms[i].name, (long long)bytes,
                     (long long)term);
        hlo_text_free(&text);
    }
}
