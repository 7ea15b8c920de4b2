// SPDX-License-Identifier: Apache-2.0
// The buffers that a report lists: everything that is held at the peak, also inside of loops, and whose it is.
#include <criterion/criterion.h>
#include <string.h>

#include "emulator/emulator.h"
#include "hlo/text/text.h"
#include "tests/emulator/simulated.h"

static void expect_whole_peak(const EmuReport *report) {
    int64_t total = 0;
    for (int64_t i = 0; i < report->buffer_count; i++) total += report->buffers[i].bytes;
    cr_expect_eq(total, report->hbm_peak_bytes, "the listed buffers have %lld of %lld bytes", (long long)total,
                 (long long)report->hbm_peak_bytes);
}

static const EmuBufferUse *with_role(const EmuReport *report, const char *role, const char *loop) {
    for (int64_t i = 0; i < report->buffer_count; i++)
        if (strstr(report->buffers[i].role, role) && strcmp(report->buffers[i].loop, loop) == 0)
            return &report->buffers[i];
    return NULL;
}

#define STATE "(s32[], f32[512,512], f32[4,512,512], f32[4,512,512])"
#define GETS                                                                                                     \
    " s = " STATE                                                                                                \
    " parameter(0)\n i = s32[] get-tuple-element(s), index=0\n x = f32[512,512] get-tuple-element(s), index=1\n" \
    " w = f32[4,512,512] get-tuple-element(s), index=2\n a = f32[4,512,512] get-tuple-element(s), index=3\n"     \
    " zero = s32[] constant(0)\n one = s32[] constant(1)\n next = s32[] add(i,one)\n"                            \
    " ws = f32[1,512,512] dynamic-slice(w,i,zero,zero), dynamic_slice_sizes={1,512,512}\n"                       \
    " wi = f32[512,512] reshape(ws)\n"
#define CONDITION(name)                                                                                       \
    name " {\n s = " STATE                                                                                    \
         " parameter(0)\n i = s32[] get-tuple-element(s), index=0\n n = s32[] constant(4)\n ROOT c = pred[] " \
         "compare(i,n), direction=LT }\n"

// Four layers, whose inputs are saved in a stack for a second loop.
static const char kLayers[] = "HloModule layers\n" CONDITION("more")
    CONDITION("more_back") "forward {\n" GETS
                           " y = f32[512,512] dot(x,wi), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
                           " t = f32[512,512] tanh(y)\n xs = f32[1,512,512] reshape(x)\n"
                           " b = f32[4,512,512] dynamic-update-slice(a,xs,i,zero,zero)\n"
                           " ROOT r = " STATE
                           " tuple(next,t,w,b) }\n"
                           "backward {\n" GETS
                           " as = f32[1,512,512] dynamic-slice(a,i,zero,zero), dynamic_slice_sizes={1,512,512}\n"
                           " ai = f32[512,512] reshape(as)\n"
                           " p = f32[512,512] dot(ai,wi), lhs_contracting_dims={1}, rhs_contracting_dims={1}, "
                           "metadata={op_name=\"jit(f)/transpose(jvp(layer))/rematted_computation/dot\"}\n"
                           " q = f32[512,512] dot(p,x), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
                           " v = f32[512,512] dot(p,q), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
                           " ROOT r = " STATE
                           " tuple(next,v,w,a) }\n"
                           "ENTRY main {\n w = f32[4,512,512] parameter(0), metadata={op_name=\"params['w']\"}\n"
                           " x = f32[512,512] parameter(1)\n zero = s32[] constant(0)\n z = f32[] constant(0)\n"
                           " stack = f32[4,512,512] broadcast(z), dimensions={}\n"
                           " start_one = " STATE
                           " tuple(zero,x,w,stack)\n"
                           " first = " STATE
                           " while(start_one), condition=more, body=forward\n"
                           " x1 = f32[512,512] get-tuple-element(first), index=1\n"
                           " a1 = f32[4,512,512] get-tuple-element(first), index=3\n"
                           " start_two = " STATE
                           " tuple(zero,x1,w,a1)\n"
                           " second = " STATE
                           " while(start_two), condition=more_back, body=backward, "
                           "metadata={op_name=\"jit(f)/transpose(jvp(layers))/while\"}\n"
                           " ROOT g = f32[512,512] get-tuple-element(second), index=1\n}\n";

Test(buffers, those_in_loops_are_listed) {
    EmuReport *report = simulated(kLayers, "v5p-8");  // without VMEM for arrays
    expect_whole_peak(report);
    const EmuBufferUse *product = with_role(report, "recomputed for the backward pass", "second");
    cr_assert_not_null(product, "buffers that live in the second loop are listed");
    cr_expect_eq(product->bytes, 512 * 512 * 2);  // only products read it
    cr_expect_str_eq(product->instruction, "p");
    const EmuBufferUse *stack = with_role(report, "saved by the loop first for the loop second, the backward pass", "");
    cr_assert_not_null(stack);
    cr_expect_eq(stack->bytes, 4 * 512 * 512 * 4);
    const EmuBufferUse *weights = with_role(report, "parameter 0 (params['w'])", "");
    cr_assert_not_null(weights);
    cr_expect_str_eq(weights->shape, "f32[4,512,512]{2,1,0:T(8,128)}", "with the tiles that are counted");
    emu_report_free(report);
}

// The curve has the first, the middle and the last of the iterations of a loop, in order of time.
Test(buffers, the_curve_shows_what_loops_hold) {
    EmuReport *report = simulated(kLayers, "v5p-8");
    int64_t highest = 0, changes = 0;
    for (int64_t i = 0; i < report->memory_count; i++) {
        if (i) cr_expect_gt(report->memory[i].start, report->memory[i - 1].start);
        if (report->memory[i].bytes > highest) highest = report->memory[i].bytes;
        changes += i && report->memory[i].bytes < report->memory[i - 1].bytes;
    }
    cr_expect_eq(highest, report->hbm_peak_bytes);
    cr_expect_geq(changes, 2, "%lld falls in %lld points", (long long)changes, (long long)report->memory_count);
    cr_expect_leq(report->memory[report->memory_count - 1].start, report->step_picoseconds);
    emu_report_free(report);
}

// A gathered array is a copy of its operand, also after a conversion and inside a loop that does not change it.
Test(buffers, gathers_are_copies_of_their_parameter) {
    EmuReport *report = simulated(
        "HloModule gathers, num_partitions=4\n"
        "ENTRY main {\n w = f32[256,1024] parameter(0), metadata={op_name=\"params['w']\"}\n"
        " x = bf16[128,1024] parameter(1)\n n = bf16[256,1024] convert(w)\n"
        " g = bf16[1024,1024] all-gather(n), channel_id=1, replica_groups=[1,4]<=[4], dimensions={0}, "
        "use_global_device_ids=true\n"
        " ROOT y = bf16[128,1024] dot(x,g), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}\n",
        "v6e-4");
    expect_whole_peak(report);
    const EmuBufferUse *gathered = with_role(report, "gathered copy of parameter 0 (params['w'])", "");
    cr_assert_not_null(gathered);
    cr_expect_eq(gathered->bytes, 1024 * 1024 * 2);
    emu_report_free(report);
}

// A value that a loop has changed is not a copy of the parameter that it began with, also after a barrier.
Test(buffers, what_a_loop_changed_is_no_copy_of_a_parameter) {
    EmuReport *report = simulated(
        "HloModule changed, num_partitions=4\n"
        "more {\n s = (f32[256,1024], s32[]) parameter(0)\n i = s32[] get-tuple-element(s), index=1\n"
        " n = s32[] constant(3)\n ROOT l = pred[] compare(i,n), direction=LT\n}\n"
        "body {\n s = (f32[256,1024], s32[]) parameter(0)\n x = f32[256,1024] get-tuple-element(s), index=0\n"
        " i = s32[] get-tuple-element(s), index=1\n one = s32[] constant(1)\n j = s32[] add(i,one)\n"
        " y = f32[256,1024] cosine(x)\n ROOT r = (f32[256,1024], s32[]) tuple(y,j)\n}\n"
        "ENTRY main {\n p = (f32[256,1024], s32[]) parameter(0)\n x = f32[128,1024] parameter(1)\n"
        " w = (f32[256,1024], s32[]) while(p), condition=more, body=body\n"
        " b = (f32[256,1024], s32[]) opt-barrier(w)\n e = f32[256,1024] get-tuple-element(b), index=0\n"
        " g = f32[1024,1024] all-gather(e), channel_id=1, replica_groups=[1,4]<=[4], dimensions={0}, "
        "use_global_device_ids=true\n"
        " ROOT y = f32[128,1024] dot(x,g), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}\n",
        "v6e-4");
    expect_whole_peak(report);
    bool found = false;
    for (int64_t i = 0; i < report->buffer_count; i++) {
        if (strcmp(report->buffers[i].instruction, "g") != 0) continue;
        found = true;
        cr_expect_null(strstr(report->buffers[i].role ? report->buffers[i].role : "", "copy of"), "%s",
                       report->buffers[i].role);
    }
    cr_expect(found);
    emu_report_free(report);
}

// Results in donated arguments have no memory of their own, an argument that is returned as it came has.
Test(buffers, shared_results_are_listed_once) {
    EmuReport *report = simulated(
        "HloModule shared, input_output_alias={ {0}: (0, {}, may-alias) }\n"
        "ENTRY main {\n p = f32[256,1024] parameter(0)\n q = f32[128,1024] parameter(1)\n"
        " n = f32[256,1024] negate(p)\n ROOT t = (f32[256,1024], f32[128,1024]) tuple(n,q)\n}\n",
        "v5e-1");
    expect_whole_peak(report);
    cr_expect_eq(report->hbm_peak_bytes, (256 + 2 * 128) * 1024 * 4 + 512);
    cr_expect_not_null(with_role(report, "table of addresses", ""));
    cr_expect_not_null(with_role(report, "copy of parameter 1 (q)", ""));
    cr_expect_null(with_role(report, "result", ""));
    emu_report_free(report);
}

// The answers of libtpu 0.0.42 for results of this many arrays of 4 KiB: a table with 4 bytes for each array.
Test(buffers, tuples_have_tables) {
    static const struct {
        int results, table;
        const char *slice;
    } cases[] = {{1, 0, "v5e-1"},     {2, 512, "v5e-1"},    {129, 1024, "v5e-1"},
                 {300, 2048, "v2-8"}, {1000, 4096, "v3-8"}, {1000, 4096, "v4-8"},
                 {65, 288, "v5p-8"},  {3, 32, "v6e-1"},     {300, 1216, "tpu7x-2"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        HloText text = {0};
        const bool is_tuple = cases[i].results > 1;
        hlo_text_format(&text, "HloModule t\nENTRY e {\n p = f32[1024] parameter(0)\n %s r = f32[1024] negate(p)\n",
                        is_tuple ? "" : "ROOT");
        if (is_tuple) hlo_text_format(&text, " ROOT t = (f32[1024]");
        for (int r = 1; r < cases[i].results; r++) hlo_text_format(&text, ", f32[1024]");
        if (is_tuple) hlo_text_format(&text, ") tuple(r");
        for (int r = 1; r < cases[i].results; r++) hlo_text_format(&text, ", r");
        hlo_text_format(&text, is_tuple ? ")\n}\n" : "}\n");
        EmuReport *report = simulated(text.data, cases[i].slice);
        cr_expect_eq(report->output_bytes, cases[i].results * 4096 + cases[i].table, "%d on %s", cases[i].results,
                     cases[i].slice);
        if (cases[i].results < 10) expect_whole_peak(report);  // the report lists 20
        emu_report_free(report);
        hlo_text_free(&text);
    }
}

// The module's layouts are those of the caller's arrays.
Test(buffers, arguments_have_the_layouts_of_the_entry) {
    EmuReport *report = simulated(
        "HloModule entry, entry_computation_layout={(f32[8,300]{0,1:T(8,128)}, f32[512,512]{1,0:S(5)})->"
        "f32[8,300]{1,0:T(8,128)}}\n"
        "ENTRY main {\n p = f32[8,300] parameter(0)\n q = f32[512,512] parameter(1)\n"
        " ROOT n = f32[8,300] negate(p)\n}\n",
        "v5e-1");
    cr_expect_eq(report->argument_bytes, 128 * 304 * 4, "{0,1} pads 8 to the lanes; arrays on the host do not count");
    cr_expect_eq(report->output_bytes, 8 * 384 * 4);
    emu_report_free(report);
}

// ---- VMEM

// Two products with an array between them, of `rows` rows, which `reader` also sees. No result has room for it.
static EmuReport *between(const char *spec, int rows, const char *header, const char *reader) {
    HloText text = {0};
    hlo_text_format(&text,
                    "HloModule between%s\nENTRY main {\n x = bf16[%d,1024] parameter(0)\n w = bf16[1024,1024] "
                    "parameter(1)\n v = bf16[1024,512] parameter(2)\n u = bf16[%d,512] parameter(3)\n"
                    " y = bf16[%d,1024] dot(x,w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
                    " z = bf16[%d,512] dot(y,v), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
                    " q = bf16[%d,512] %s\n ROOT t = (bf16[%d,512], bf16[%d,512]) tuple(z,q)\n}\n",
                    header, rows, rows, rows, rows, rows, reader, rows, rows);
    EmuReport *report = simulated(text.data, spec);
    hlo_text_free(&text);
    return report;
}

Test(buffers, small_arrays_between_kernels_are_in_vmem) {
    const struct {
        const char *spec;
        int rows;
        const char *header, *reader;
        bool in_vmem;
    } cases[] = {
        {"v5e-1", 16384, "", "negate(u)", true},    // 32 MiB of 112
        {"v6e-1", 16384, "", "negate(u)", true},    //
        {"tpu7x-2", 16384, "", "negate(u)", true},  // 32 MiB of 48
        {"tpu7x-2", 32768, "", "negate(u)", false},
        {"v5e-1", 65536, "", "negate(u)", false},
        {"v5p-8", 16384, "", "negate(u)", false},  // each core makes a part
        {"v2-8", 1024, "", "negate(u)", false},
        {"v6e-1", 16384, ", is_scheduled=true", "negate(u)", false},  // its layouts say where arrays are
        {"v6e-1", 16384, "", "custom-call(y), custom_call_target=\"k\"", false},
        {"v4-8", 16384, "", "negate(u)", true},  // 32 MiB of the cores' common memory
        {"v4-8", 65536, "", "negate(u)", false},
    };
    for (size_t i = 0; i < HLO_COUNT_OF(cases); i++) {
        EmuReport *report = between(cases[i].spec, cases[i].rows, cases[i].header, cases[i].reader);
        const int64_t bytes = (int64_t)cases[i].rows * 1024 * 2;
        cr_expect_eq(report->temp_bytes, cases[i].in_vmem ? 0 : bytes, "case %zu: %lld bytes", i,
                     (long long)report->temp_bytes);
        // The array is neither written to HBM nor read from it.
        const double traffic = (double)bytes * (cases[i].in_vmem ? 2.5 : 4.5) + 1.5 * 1024.0 * 1024 * 2;
        if (i != 8) cr_expect_eq(report->hbm_bytes_per_device, traffic, "case %zu", i);
        emu_report_free(report);
    }
}

// Each is small enough, but there is no room for all of them.
Test(buffers, vmem_is_not_filled_beyond_its_size) {
    HloText text = {0};
    hlo_text_string(&text, "HloModule many\nENTRY main {\n w = bf16[1024,1024] parameter(0)\n");
    for (int i = 0; i < 8; i++)
        hlo_text_format(&text,
                        " x%d = bf16[8192,1024] parameter(%d)\n y%d = bf16[8192,1024] dot(x%d,w), "
                        "lhs_contracting_dims={1}, rhs_contracting_dims={0}\n",
                        i, i + 1, i, i);
    hlo_text_string(&text,
                    " r = bf16[65536,1024] concatenate(y0,y1,y2,y3,y4,y5,y6,y7), dimensions={0}\n"
                    " ROOT z = bf16[1024,65536] dot(w,r), lhs_contracting_dims={1}, rhs_contracting_dims={1}\n}\n");
    EmuReport *report = simulated(text.data, "v5e-1");
    const int64_t each = 8192 * 1024 * 2;
    cr_expect_eq(report->temp_bytes, each, "seven of eight have room in 112 MiB: %lld", (long long)report->temp_bytes);
    emu_report_free(report);
    hlo_text_free(&text);
}

// ---- The memory of results

// A chain of three products of 128 MiB each: the first is where the third will be, so only the second needs memory.
// libtpu 0.0.42 has 128 MiB of temporaries too. An argument that becomes the result is not free before.
Test(buffers, temporaries_are_where_results_will_be) {
    static const struct {
        const char *header, *root;
        int64_t arrays;
    } cases[] = {
        {"", "dot(u, c), lhs_contracting_dims={1}, rhs_contracting_dims={0}", 1},
        {", input_output_alias={ {}: (0, {}, must-alias) }",
         "dot(u, c), lhs_contracting_dims={1}, rhs_contracting_dims={0}", 2},
        {"", "add(t, u)", 1},  // written over one of them
    };
    for (size_t i = 0; i < HLO_COUNT_OF(cases); i++) {
        HloText text = {0};
        hlo_text_format(&text,
                        "HloModule chain%s\nENTRY e { a = bf16[8192,8192] parameter(0)\n"
                        " b = bf16[8192,8192] parameter(1)\n c = bf16[8192,8192] parameter(2)\n"
                        " t = bf16[8192,8192] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
                        " u = bf16[8192,8192] dot(t, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
                        " ROOT d = bf16[8192,8192] %s }\n",
                        cases[i].header, cases[i].root);
        EmuReport *report = simulated(text.data, "v6e-1");
        cr_expect_eq(report->temp_bytes, cases[i].arrays << 27, "case %zu: %lld", i, (long long)report->temp_bytes);
        expect_whole_peak(report);
        emu_report_free(report);
        hlo_text_free(&text);
    }
}

#define PAIR "(s32[], f32[512,512], f32[4,512,512], f32[4,512,512])"
#define PAIR_GETS                                                                                            \
    " s = " PAIR                                                                                             \
    " parameter(0)\n i = s32[] get-tuple-element(s), index=0\n x = f32[512,512] get-tuple-element(s), "      \
    "index=1\n a = f32[4,512,512] get-tuple-element(s), index=2\n b = f32[4,512,512] get-tuple-element(s), " \
    "index=3\n zero = s32[] constant(0)\n one = s32[] constant(1)\n next = s32[] add(i,one)\n"

// bug: only the first of the stacks that begin as one array of zeros had an owner. The loop makes the others.
Test(buffers, bug_stacks_that_a_loop_makes_had_no_owner) {
    EmuReport *report = simulated(
        "HloModule m\n" CONDITION("more") CONDITION(
            "again") "fill {\n" PAIR_GETS
                     " y = f32[512,512] dot(x,x), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
                     " ys = f32[1,512,512] reshape(y)\n c = f32[4,512,512] dynamic-update-slice(a,ys,i,zero,zero)\n"
                     " t = f32[512,512] tanh(y)\n ts = f32[1,512,512] reshape(t)\n"
                     " d = f32[4,512,512] dynamic-update-slice(b,ts,i,zero,zero)\n ROOT r = " PAIR
                     " tuple(next,t,c,d) }\n"
                     "use {\n" PAIR_GETS
                     " as = f32[1,512,512] dynamic-slice(a,i,zero,zero), dynamic_slice_sizes={1,512,512}\n"
                     " bs = f32[1,512,512] dynamic-slice(b,i,zero,zero), dynamic_slice_sizes={1,512,512}\n"
                     " p = f32[512,512] reshape(as)\n q = f32[512,512] reshape(bs)\n"
                     " v = f32[512,512] dot(p,q), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
                     " w = f32[512,512] dot(v,x), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
                     " ROOT r = " PAIR
                     " tuple(next,w,a,b) }\n"
                     "ENTRY main {\n x = f32[512,512] parameter(0)\n zero = s32[] constant(0)\n z = f32[] constant(0)\n"
                     " stack = f32[4,512,512] broadcast(z), dimensions={}\n begin = " PAIR
                     " tuple(zero,x,stack,stack)\n"
                     " first = " PAIR
                     " while(begin), condition=more, body=fill\n"
                     " x1 = f32[512,512] get-tuple-element(first), index=1\n"
                     " a1 = f32[4,512,512] get-tuple-element(first), index=2\n"
                     " b1 = f32[4,512,512] get-tuple-element(first), index=3\n middle = " PAIR
                     " tuple(zero,x1,a1,b1)\n"
                     " second = " PAIR
                     " while(middle), condition=again, body=use\n"
                     " ROOT g = f32[512,512] get-tuple-element(second), index=1\n}\n",
        "v5p-8");
    int64_t stacks = 0;
    for (int64_t i = 0; i < report->buffer_count; i++)
        if (report->buffers[i].bytes == 4 * 512 * 512 * 4)
            stacks += strstr(report->buffers[i].role, "saved by the loop first for the loop second") != NULL;
    cr_expect_eq(stacks, 2);
    emu_report_free(report);
}
