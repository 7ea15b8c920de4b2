// SPDX-License-Identifier: Apache-2.0
// What becomes one loop: counted in the text of the compiled program.
#include <criterion/criterion.h>
#include <string.h>

#include "hlo/text/text.h"
#include "tests/support/cases.h"
#include "tests/support/compiled.h"

#define COMPUTATIONS                                                                     \
    "HloModule m\n"                                                                      \
    "add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }\n" \
    "max { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] maximum(a, b) }\n"

typedef struct FusionCase {
    int steps;
    char text[1600];
} FusionCase;

static FusionCase kCases[] = {
    {1, COMPUTATIONS "ENTRY e { x = f32[64,300] parameter(0)  low = f32[] constant(-inf)  zero = f32[] constant(0)\n"
                     " m = f32[64] reduce(x, low), dimensions={1}, to_apply=max\n"
                     " v1 = f32[64,300] broadcast(m), dimensions={0}\n"
                     " d = f32[64,300] subtract(x, v1)\n"
                     " e = f32[64,300] exponential(d)\n"
                     " s = f32[64] reduce(e, zero), dimensions={1}, to_apply=add\n"
                     " v2 = f32[64,300] broadcast(s), dimensions={0}\n"
                     " ROOT r = f32[64,300] divide(e, v2) }"},
    {1, COMPUTATIONS "ENTRY e { x = f32[64,300] parameter(0)  zero = f32[] constant(0)\n"
                     " v1 = f32[64,300] multiply(x, x)\n"
                     " s = f32[64] reduce(v1, zero), dimensions={1}, to_apply=add\n"
                     " ROOT r = f32[64] sqrt(s) }"},
    // The sum is wanted in memory too.
    {2, COMPUTATIONS "ENTRY e { x = f32[64,300] parameter(0)  zero = f32[] constant(0)\n"
                     " s = f32[64] reduce(x, zero), dimensions={1}, to_apply=add\n"
                     " v1 = f32[64,300] broadcast(s), dimensions={0}\n"
                     " d = f32[64,300] divide(x, v1)\n"
                     " ROOT r = (f32[64,300], f32[64]) tuple(d, s) }"},
    // The loop that wants the sums runs over rows of another length: they are summed up before it.
    {2, COMPUTATIONS "ENTRY e { x = f32[12,10] parameter(0)  zero = f32[] constant(0)\n"
                     " s = f32[12] reduce(x, zero), dimensions={1}, to_apply=add\n"
                     " v1 = f32[12,10] broadcast(s), dimensions={0}\n"
                     " d = f32[12,10] subtract(x, v1)\n"
                     " v2 = f32[15,8] reshape(d)\n"
                     " ROOT r = f32[15,8] exponential(v2) }"},
    // Sums of columns are not sums of rows.
    {2, COMPUTATIONS "ENTRY e { x = f32[64,300] parameter(0)  zero = f32[] constant(0)\n"
                     " s = f32[300] reduce(x, zero), dimensions={0}, to_apply=add\n"
                     " v1 = f32[64,300] broadcast(s), dimensions={1}\n"
                     " ROOT d = f32[64,300] divide(x, v1) }"},
};

CaseList(fusion, loops_over_rows) {
    return cr_make_param_array(FusionCase, kCases, sizeof kCases / sizeof kCases[0]);
}

// How many steps of the compiled program are loops.
static void expect_loops(const char *program, int expected) {
    TargetClient *client;
    HloModule *module;
    TargetExecutable *executable;
    cr_assert_null(hlo_parse(program, strlen(program), NULL, &module));
    cr_assert_null(target_client_new("cpu:1", &client));
    cr_assert_null(target_compile(client, module, NULL, &executable));
    char *text = target_executable_to_text(executable);
    int steps = 0;
    for (const char *at = text; (at = strstr(at, "loops %")); at++) steps++;
    cr_assert_eq(steps, expected, "%d steps: %s", steps, text);
    hlo_free(text);
    target_executable_release(executable);
    target_client_release(client);
    hlo_module_free(module);
}

CaseTest(FusionCase *given, fusion, loops_over_rows) {
    expect_loops(given->text, given->steps);
}

// AlphaFold's outer product mean: a product of 19200 x 1024 x 128 was a loop of a load pair a multiplication, and took
// three quarters of a layer's time.
Test(fusion, bug_sums_over_dimensions_apart_were_loops) {
    expect_loops(
        "HloModule m\nENTRY e {\n a = f32[15,8,12,16] parameter(0)\n b = f32[16,8,20] parameter(1)\n"
        " ROOT r = f32[15,12,20] dot(a, b), lhs_contracting_dims={3,1}, rhs_contracting_dims={0,1} }",
        0);
    // Not worth a copy.
    expect_loops(
        "HloModule m\nENTRY e {\n a = f32[15,8,12,16] parameter(0)\n b = f32[16,8] parameter(1)\n"
        " ROOT r = f32[15,12] dot(a, b), lhs_contracting_dims={3,1}, rhs_contracting_dims={0,1} }",
        1);
}

#define INDICES                                                                                             \
    " i = s32[64] parameter(1)  zero = s32[] constant(0)  zeros = s32[64] broadcast(zero), dimensions={}\n" \
    " below = pred[64] compare(i, zeros), direction=LT\n"                                                   \
    " rows = s32[] constant(50)  row_count = s32[64] broadcast(rows), dimensions={}\n"                      \
    " from_end = s32[64] add(i, row_count)\n"                                                               \
    " wrapped = s32[64] select(below, from_end, i)\n"                                                       \
    " vectors = s32[64,1] reshape(wrapped)\n"

// A gather counts negative indices from the end itself, and writes the constant in place of masked slices.
Test(fusion, gathers_take_their_indices_and_masks) {
    expect_loops("HloModule m\nENTRY e { x = f32[50,16] parameter(0)\n" INDICES
                 " ROOT g = f32[64,16] gather(x, vectors), offset_dims={1}, collapsed_slice_dims={0},"
                 " start_index_map={0}, index_vector_dim=1, slice_sizes={1,16} }",
                 0);
    expect_loops("HloModule m\nENTRY e { x = f32[50,16] parameter(0)  mask = pred[64] parameter(2)\n" INDICES
                 " g = f32[64,16] gather(x, vectors), offset_dims={1}, collapsed_slice_dims={0},"
                 " start_index_map={0}, index_vector_dim=1, slice_sizes={1,16}\n"
                 " masks = pred[64,16] broadcast(mask), dimensions={0}\n"
                 " fill = f32[] constant(nan)  nans = f32[64,16] broadcast(fill), dimensions={}\n"
                 " ROOT r = f32[64,16] select(masks, g, nans) }",
                 0);
}

// A product whose left side is a range of rows for each group, and zeros elsewhere, makes no copies of the rows.
Test(fusion, products_take_ranges_of_rows) {
    expect_loops(
        "HloModule m\nENTRY e { x = f32[40,24] parameter(0)  w = f32[3,24,20] parameter(1)\n"
        " first = s32[3] parameter(2)  end = s32[3] parameter(3)\n"
        " firsts = s32[3,40,24] broadcast(first), dimensions={0}  ends = s32[3,40,24] broadcast(end), dimensions={0}\n"
        " rows = s32[3,40,24] iota(), iota_dimension=1\n"
        " below = pred[3,40,24] compare(firsts, rows), direction=LE\n"
        " above = pred[3,40,24] compare(rows, ends), direction=LT  in = pred[3,40,24] and(below, above)\n"
        " zero = f32[] constant(0)  zeros = f32[3,40,24] broadcast(zero), dimensions={}\n"
        " copies = f32[3,40,24] broadcast(x), dimensions={1,2}\n"
        " left = f32[3,40,24] select(in, copies, zeros)\n"
        " ROOT r = f32[40,20] dot(left, w), lhs_contracting_dims={2,0}, rhs_contracting_dims={1,0} }",
        0);
}

// Rolls are read inside of the loop that adds them; those of which there would be too many parts are not.
Test(fusion, loops_read_pieces) {
    expect_loops(
        "HloModule m\nENTRY e { x = f32[40,50] parameter(0)\n"
        " a = f32[1,50] slice(x), slice={[39:40], [0:50]}  b = f32[39,50] slice(x), slice={[0:39], [0:50]}\n"
        " c = f32[40,50] concatenate(a, b), dimensions={0}\n"
        " d = f32[40,49] slice(x), slice={[0:40], [1:50]}  f = f32[40,1] slice(x), slice={[0:40], [0:1]}\n"
        " g = f32[40,50] concatenate(d, f), dimensions={1}\n"
        " zero = f32[] constant(0)  p = f32[42,50] pad(x, zero), padding=2_0x0_0\n"
        " h = f32[40,50] slice(p), slice={[1:41], [0:50]}\n"
        " y = f32[40,50] add(c, g)  z = f32[40,50] multiply(y, h)\n"
        " ROOT r = f32[40,50] subtract(z, x) }",
        1);
    expect_loops(
        "HloModule m\nENTRY e { x = f32[8,8] parameter(0)\n"
        " a = f32[1,8] slice(x), slice={[7:8], [0:8]}  b = f32[7,8] slice(x), slice={[0:7], [0:8]}\n"
        " c = f32[8,8] concatenate(a, b), dimensions={0}\n"
        " ROOT r = f32[8,8] add(c, x) }",
        2);
}

// A chain of updates in place is one storage with a segment for each: merged in the wrong order it took the square of
// their number in memory, 20 GB here.
Test(fusion, bug_chains_of_updates_took_all_memory, .timeout = 120) {
    HloText text = {0};
    hlo_text_format(&text,
                    "HloModule m\nENTRY e {\n v0 = f32[64] parameter(0)\n u = f32[1] parameter(1)\n"
                    " i0 = s32[] parameter(2)\n i1 = s32[] parameter(3)\n");
    for (int i = 1; i <= 20000; i++)
        hlo_text_format(&text, " %sv%d = f32[64] dynamic-update-slice(v%d, u, i%d)\n", i == 20000 ? "ROOT " : "", i,
                        i - 1, i % 2);
    hlo_text_format(&text, "}\n");
    TargetClient *client;
    HloModule *module;
    TargetExecutable *executable;
    cr_assert_null(hlo_parse(text.data, text.length, NULL, &module));
    cr_assert_null(target_client_new("cpu:1", &client));
    cr_assert_null(target_compile(client, module, NULL, &executable));
    target_executable_release(executable);
    hlo_module_free(module);
    target_client_release(client);
    hlo_text_free(&text);
}

// A map's computation may see its scalar as several elements: its operations were taken for those on whole arrays.
Test(fusion, bug_maps_whose_computation_holds_arrays) {
    static const char *const types[][2] = {{"s32", "s16"}, {"u8", "s4"}, {"f32", "f16"}};
    for (size_t i = 0; i < HLO_COUNT_OF(types); i++) {
        const char *whole = types[i][0], *part = types[i][1];
        HloText text = {0}, message = {0};
        hlo_text_format(&text,
                        "HloModule m\nf {\n a = %s[] parameter(0)\n b = %s[2] bitcast-convert(a)\n"
                        " c = %s[2] negate(b)\n ROOT d = %s[] bitcast-convert(c)\n}\n"
                        "ENTRY e {\n p = %s[8] parameter(0)\n ROOT q = %s[8] map(p), dimensions={0}, to_apply=f\n}\n",
                        whole, part, part, whole, whole, whole);
        HloModule *module = compiled_must_parse(text.data);
        const CompiledCheck check = {.allow_fallback = true, .extremes = true};
        cr_expect(compiled_equals_eval(module, &check, &message), "%s: %s", text.data, message.data);
        hlo_module_free(module);
        hlo_text_free(&text);
        hlo_text_free(&message);
    }
}

// Values that were left out of a text are made up, the same by both engines.
Test(fusion, constants_whose_values_were_left_out) {
    static const char *const types[] = {"f32", "s32", "bf16"};
    for (size_t i = 0; i < HLO_COUNT_OF(types); i++) {
        HloText text = {0}, message = {0};
        hlo_text_format(&text,
                        "HloModule m\nENTRY e {\n p = %s[100] parameter(0)\n c = %s[100] constant({...})\n"
                        " ROOT r = %s[100] add(p, c)\n}\n",
                        types[i], types[i], types[i]);
        HloModule *module = compiled_must_parse(text.data);
        cr_expect(compiled_equals_eval(module, &(CompiledCheck){.seed = 3}, &message), "%s: %s", text.data,
                  message.data);
        hlo_module_free(module);
        hlo_text_free(&text);
        hlo_text_free(&message);
    }
}
