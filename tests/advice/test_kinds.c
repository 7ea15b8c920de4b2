// SPDX-License-Identifier: Apache-2.0
// The purposes of collectives: programs whose plans have known names, and the kinds that must be found in them.
#include <criterion/criterion.h>
#include <string.h>

#include "advice/advice.h"
#include "hlo/base/memory.h"
#include "targets/program.h"
#include "targets/spmd_machine.h"
#include "tests/support/cases.h"
#include "tests/support/compiled.h"

#define SUM "sum {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b)\n}\n"
#define ADD_MESH                                                                                         \
    "HloModule m, num_partitions=8, frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<[\"data\"=4, " \
    "\"model\"=2]>}}\n"
// Positions of the shardings below: data is major, model is minor.
#define ROWS_DATA "sharding={devices=[4,1,2]<=[8] last_tile_dim_replicate}"
#define COLUMNS_DATA "sharding={devices=[1,4,2]<=[8] last_tile_dim_replicate}"
#define ROWS_MODEL "sharding={devices=[2,1,4]<=[4,2]T(1,0) last_tile_dim_replicate}"
#define COLUMNS_MODEL "sharding={devices=[1,2,4]<=[4,2]T(1,0) last_tile_dim_replicate}"
#define WHOLE "sharding={replicated}"

// One step of gradient descent of a layer: the product of the batch with a weight, and the gradient's of the batch with
// what came back.
#define STEP(weight)                                                                                             \
    SUM "ENTRY e {\n x = f32[64,32] parameter(0), " ROWS_DATA                                                    \
        ", metadata={op_name=\"batch\"}\n w = f32[32,16] "                                                       \
        "parameter(1), " weight ", metadata={op_name=\"params['w']\"}\n y = f32[64,16] parameter(2), " ROWS_DATA \
        "\n p = f32[64,16] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n d = f32[64,16] "      \
        "subtract(p, "                                                                                           \
        "y)\n g = f32[32,16] dot(x, d), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n n = f32[32,16] "    \
        "subtract(w, g), " weight                                                                                \
        "\n s = f32[64,16] multiply(d, d)\n z = f32[] constant(0)\n l = f32[] reduce(s, z), "                    \
        "dimensions={0,1}, to_apply=sum\n ROOT t = (f32[], f32[32,16]) tuple(l, n)\n}\n"

typedef struct Case {
    const char *name, *program;
    // The group of this kind must be there, be over these axes and name this.
    AdviceKind kind;
    const char *axes, *what;
} Case;

static const Case cases[] = {
    {"data parallel", ADD_MESH STEP(WHOLE), ADVICE_KIND_GRADIENT, "data", "gradient of params['w']"},
    {"loss", ADD_MESH STEP(ROWS_DATA), ADVICE_KIND_SCALAR, "data", ""},
    {"FSDP gather", ADD_MESH STEP(COLUMNS_DATA), ADVICE_KIND_WEIGHT_GATHER, "data", "params['w']"},
    {"FSDP scatter", ADD_MESH STEP(ROWS_DATA), ADVICE_KIND_GRADIENT_SCATTER, "data", "gradient of params['w']"},
    {"tensor parallel",
     ADD_MESH "ENTRY e {\n x = f32[64,32] parameter(0), " ROWS_DATA "\n u = f32[32,128] parameter(1), " COLUMNS_MODEL
              "\n v = f32[128,32] parameter(2), " ROWS_MODEL
              ", metadata={op_name=\"params['down']\"}\n h = f32[64,128] dot(x, u), lhs_contracting_dims={1}, "
              "rhs_contracting_dims={0}\n t = f32[64,128] tanh(h)\n ROOT y = f32[64,32] dot(t, v), "
              "lhs_contracting_dims={1}, rhs_contracting_dims={0}, " ROWS_DATA "\n}\n",
     ADVICE_KIND_TENSOR_PARALLEL, "model", "product with params['down']"},
    {"embedding",
     ADD_MESH "ENTRY e {\n w = f32[512,64] parameter(0), " COLUMNS_DATA
              ", metadata={op_name=\"params['embed']\"}\n i = s32[64] parameter(1), "
              "sharding={devices=[4,2]<=[8] last_tile_dim_replicate}, metadata={op_name=\"tokens\"}\n g = f32[64,64] "
              "gather(w, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, "
              "slice_sizes={1,64}\n ROOT y = f32[64,64] tanh(g), " ROWS_DATA "\n}\n",
     ADVICE_KIND_RESHARDING, "data", "embedding lookup in params['embed']"},
    {"accidental",
     ADD_MESH "ENTRY e {\n x = f32[64,32] parameter(0), " ROWS_DATA "\n w = f32[32,16] parameter(1), " COLUMNS_MODEL
              ", metadata={op_name=\"params['w']\"}\n p = f32[64,16] dot(x, w), lhs_contracting_dims={1}, "
              "rhs_contracting_dims={0}, " ROWS_DATA "\n ROOT q = f32[64,16] tanh(p), " ROWS_DATA "\n}\n",
     ADVICE_KIND_ACCIDENTAL, "model", ""},
    {"neighbours",
     ADD_MESH "ENTRY e {\n x = f32[64,32] parameter(0), " ROWS_DATA
              "\n z = f32[] constant(0)\n s = f32[63,32] slice(x), slice={[0:63], [0:32]}\n ROOT p = f32[64,32] pad(s, "
              "z), padding=1_0x0_0, " ROWS_DATA "\n}\n",
     ADVICE_KIND_NEIGHBOUR, "data", ""},
    {"a transform in four steps",
     ADD_MESH "ENTRY e {\n x = c64[1024] parameter(0), sharding={devices=[4,2]<=[8] last_tile_dim_replicate}\n"
              " ROOT f = c64[1024] fft(x), fft_type=FFT, fft_length={1024}, sharding={devices=[4,2]<=[8] "
              "last_tile_dim_replicate}\n}\n",
     ADVICE_KIND_TRANSFORM, "data", ""},
    {"a transform of rows and columns",
     ADD_MESH "ENTRY e {\n x = c64[64,32] parameter(0), " ROWS_DATA
              "\n ROOT f = c64[64,32] fft(x), fft_type=FFT, fft_length={64,32}, " ROWS_DATA "\n}\n",
     ADVICE_KIND_TRANSFORM, "data", ""},
    {"the last row",
     ADD_MESH "ENTRY e {\n x = f32[64,32] parameter(0), " ROWS_DATA
              "\n ROOT s = f32[1,32] slice(x), slice={[63:64], [0:32]}, " WHOLE "\n}\n",
     ADVICE_KIND_OWNER, "data", ""},
    {"experts",
     ADD_MESH "ENTRY e {\n x = f32[8,32,16] parameter(0), sharding={devices=[1,4,1,2]<=[8] last_tile_dim_replicate}\n "
              "w = f32[8,16,64] parameter(1), sharding={devices=[4,1,1,2]<=[8] last_tile_dim_replicate}\n h = "
              "f32[8,32,64] dot(x, w), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, "
              "rhs_contracting_dims={1}\n t = f32[8,32,64] tanh(h)\n ROOT y = f32[8,32,64] negate(t), "
              "sharding={devices=[1,4,1,2]<=[8] last_tile_dim_replicate}\n}\n",
     ADVICE_KIND_EXPERT, "data", ""},
    {"a loop over layers",
     ADD_MESH SUM
     "body {\n p = (s32[], f32[64,32], f32[4,32,32]) parameter(0)\n i = s32[] get-tuple-element(p), index=0\n x = "
     "f32[64,32] get-tuple-element(p), index=1\n ws = f32[4,32,32] get-tuple-element(p), index=2\n o = s32[] "
     "constant(1)\n "
     "n = s32[] add(i, o)\n z = s32[] constant(0)\n l = f32[1,32,32] dynamic-slice(ws, i, z, z), "
     "dynamic_slice_sizes={1,32,32}\n w = f32[32,32] reshape(l)\n y = f32[64,32] dot(x, w), lhs_contracting_dims={1}, "
     "rhs_contracting_dims={0}\n ROOT t = (s32[], f32[64,32], f32[4,32,32]) tuple(n, y, ws)\n}\n"
     "more {\n p = (s32[], f32[64,32], f32[4,32,32]) parameter(0)\n i = s32[] get-tuple-element(p), index=0\n c = "
     "s32[] "
     "constant(4)\n ROOT l = pred[] compare(i, c), direction=LT\n}\n"
     "ENTRY e {\n x = f32[64,32] parameter(0), " ROWS_DATA
     "\n w = f32[4,32,32] parameter(1), sharding={devices=[1,1,4,2]<=[8] last_tile_dim_replicate}, "
     "metadata={op_name=\"params['layers']['w']\"}\n z = s32[] constant(0)\n t = (s32[], f32[64,32], f32[4,32,32]) "
     "tuple(z, x, w)\n l = (s32[], f32[64,32], f32[4,32,32]) while(t), condition=more, body=body\n ROOT y = f32[64,32] "
     "get-tuple-element(l), index=1\n}\n",
     ADVICE_KIND_WEIGHT_GATHER, "data", "params['layers']['w']"},
    // Activations that are sharded along the sequence, beginning with a lookup: no annotations conflict.
    {"sequence parallel after a lookup",
     ADD_MESH "ENTRY e {\n w = f32[512,32] parameter(0), " ROWS_MODEL ", metadata={op_name=\"params['embed']\"}\n"
              " i = s32[16,64] parameter(1), " ROWS_DATA "\n u = f32[32,128] parameter(2), " COLUMNS_MODEL
              "\n g = f32[16,64,32] gather(w, i), offset_dims={2}, collapsed_slice_dims={0}, start_index_map={0}, "
              "index_vector_dim=2, slice_sizes={1,32}, sharding={devices=[4,2,1]<=[8]}\n"
              " ROOT y = f32[16,64,128] dot(g, u), lhs_contracting_dims={2}, rhs_contracting_dims={0}, "
              "sharding={devices=[4,1,2]<=[8]}\n}\n",
     ADVICE_KIND_TENSOR_PARALLEL, "model", "embedding lookup in params['embed']"},
    // Two weights of one shape: the name is that of the one that is updated.
    {"weights of one shape",
     ADD_MESH SUM "ENTRY e {\n x = f32[64,32] parameter(0), " ROWS_DATA "\n d = f32[64,32] parameter(1), " ROWS_DATA
                  "\n w = f32[32,32] parameter(2), metadata={op_name=\"params['w']\"}\n"
                  " v = f32[32,32] parameter(3), metadata={op_name=\"params['v']\"}\n"
                  " m = f32[32,32] parameter(4), metadata={op_name=\"moments['v']\"}\n"
                  " y = f32[64,32] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
                  " h = f32[64,32] dot(y, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
                  " e = f32[64,32] add(h, d)\n"
                  " g = f32[32,32] dot(x, e), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n"
                  " n = f32[32,32] add(m, g), " WHOLE "\n u = f32[32,32] subtract(v, n), " WHOLE
                  "\n ROOT t = (f32[32,32], f32[32,32], f32[32,32]) tuple(w, u, n)\n}\n",
     ADVICE_KIND_GRADIENT, "data", "gradient of params['v']"},
    // A constraint on the result claims the axis that shards the batch: no accident.
    {"a constraint that claims the axis of the batch",
     ADD_MESH
     "ENTRY e {\n x = f32[64,32] parameter(0), " ROWS_DATA ", metadata={op_name=\"batch\"}\n w = f32[32,64] "
     "parameter(1)\n p = f32[64,64] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, " COLUMNS_DATA
     "\n ROOT q = f32[64,64] tanh(p), " COLUMNS_DATA "\n}\n",
     ADVICE_KIND_RESHARDING, "data", "batch"},
    {"a sum over experts",
     ADD_MESH SUM
     "ENTRY e {\n x = f32[8,32,16] parameter(0), sharding={devices=[4,1,1,2]<=[8] last_tile_dim_replicate}\n w = "
     "f32[8,16,64] parameter(1), sharding={devices=[4,1,1,2]<=[8] last_tile_dim_replicate}\n h = f32[8,32,64] dot(x, "
     "w), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}\n z = f32[] "
     "constant(0)\n ROOT y = f32[32,64] reduce(h, z), dimensions={0}, to_apply=sum, " WHOLE "\n}\n",
     ADVICE_KIND_EXPERT, "data", "sum over the experts"},
    {"rows of a sparse gradient",
     ADD_MESH SUM
     "ENTRY e {\n w = f32[4096,64] parameter(0), " WHOLE ", metadata={op_name=\"params['embed']\"}\n i = s32[64,1] "
     "parameter(1), " ROWS_DATA "\n d = f32[64,64] parameter(2), " ROWS_DATA
     "\n f = s32[64] reshape(i)\n l = f32[64,64] gather(w, i), offset_dims={1}, collapsed_slice_dims={0}, "
     "start_index_map={0}, index_vector_dim=1, slice_sizes={1,64}\n u = f32[64,64] multiply(l, d)\n z = f32[] "
     "constant(0)\n o = f32[4096,64] broadcast(z), dimensions={}\n g = f32[4096,64] scatter(o, i, u), "
     "update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, "
     "to_apply=sum\n ROOT n = f32[4096,64] subtract(w, g), " ROWS_DATA "\n}\n",
     ADVICE_KIND_GRADIENT, "data", "rows for the gradient of params['embed']"},
    // Two stages on each device, so that parts of the state move.
    {"a pipeline of stages in one array",
     ADD_MESH
     "body {\n p = (s32[], f32[8,4,16], f32[8,16,16]) parameter(0)\n i = s32[] get-tuple-element(p), index=0\n x = "
     "f32[8,4,16] get-tuple-element(p), index=1\n ws = f32[8,16,16] get-tuple-element(p), index=2\n o = s32[] "
     "constant(1)\n n = s32[] add(i, o)\n a = f32[1,4,16] slice(x), slice={[7:8], [0:4], [0:16]}\n b = f32[7,4,16] "
     "slice(x), slice={[0:7], [0:4], [0:16]}\n s = f32[8,4,16] concatenate(a, b), dimensions={0}\n y = f32[8,4,16] "
     "dot(s, ws), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}\n ROOT t "
     "= "
     "(s32[], f32[8,4,16], f32[8,16,16]) tuple(n, y, ws)\n}\n"
     "more {\n p = (s32[], f32[8,4,16], f32[8,16,16]) parameter(0)\n i = s32[] get-tuple-element(p), index=0\n c = "
     "s32[] constant(4)\n ROOT l = pred[] compare(i, c), direction=LT\n}\n"
     "ENTRY e {\n x = f32[8,4,16] parameter(0), sharding={devices=[4,1,1,2]<=[8] last_tile_dim_replicate}\n"
     " w = f32[8,16,16] parameter(1), sharding={devices=[4,1,1,2]<=[8] last_tile_dim_replicate}\n z = s32[] "
     "constant(0)\n t = (s32[], f32[8,4,16], f32[8,16,16]) tuple(z, x, w)\n l = (s32[], f32[8,4,16], f32[8,16,16]) "
     "while(t), condition=more, body=body\n ROOT y = f32[8,4,16] get-tuple-element(l), index=1\n}\n",
     ADVICE_KIND_PIPELINE, "data", ""},
    {"bug: a batch of the shape of a weight was taken for one",
     ADD_MESH SUM
     "ENTRY e {\n x = f32[64,64] parameter(0), " ROWS_DATA ", metadata={op_name=\"batch\"}\n w = f32[64,64] "
     "parameter(1), " ROWS_DATA ", metadata={op_name=\"params['w']\"}\n p = f32[64,64] dot(x, w), "
     "lhs_contracting_dims={1}, rhs_contracting_dims={0}\n d = f32[64,64] tanh(p)\n g = f32[64,64] dot(x, d), "
     "lhs_contracting_dims={0}, rhs_contracting_dims={0}\n ROOT n = f32[64,64] subtract(w, g), " ROWS_DATA "\n}\n",
     ADVICE_KIND_WEIGHT_GATHER, "data", "params['w']"},
    {"bug: a batch of the shape of a weight, gradients alone",
     ADD_MESH SUM
     "ENTRY e {\n x = f32[64,64] parameter(0), " ROWS_DATA ", metadata={op_name=\"batch\"}\n w = f32[64,64] "
     "parameter(1), " ROWS_DATA ", metadata={op_name=\"params['w']\"}\n p = f32[64,64] dot(x, w), "
     "lhs_contracting_dims={1}, rhs_contracting_dims={0}\n d = f32[64,64] tanh(p)\n ROOT g = f32[64,64] dot(x, d), "
     "lhs_contracting_dims={0}, rhs_contracting_dims={0}, " ROWS_DATA "\n}\n",
     ADVICE_KIND_WEIGHT_GATHER, "data", "params['w']"},
    // The tokens' first use is the gradient of the experts' weight.
    {"bug: of two uses of an exchange, one by experts, the first alone was read",
     ADD_MESH
     "ENTRY e {\n a = f32[8,32,16] parameter(0), sharding={devices=[1,4,1,2]<=[8] last_tile_dim_replicate}\n w = "
     "f32[8,16,64] parameter(1), sharding={devices=[4,1,1,2]<=[8] last_tile_dim_replicate}\n v = f32[8,32,64] "
     "parameter(2), sharding={devices=[4,1,1,2]<=[8] last_tile_dim_replicate}\n u = f32[8,32,64] tanh(v)\n s = "
     "f32[8,32,16] tanh(a), sharding={devices=[1,4,1,2]<=[8] last_tile_dim_replicate}\n m = f32[8,32,16] negate(s), "
     "sharding={devices=[4,1,1,2]<=[8] last_tile_dim_replicate}\n g = f32[8,16,64] dot(m, u), lhs_batch_dims={0}, "
     "rhs_batch_dims={0}, lhs_contracting_dims={1}, rhs_contracting_dims={1}\n h = f32[8,32,64] dot(m, w), "
     "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}\n ROOT t = "
     "(f32[8,16,64], f32[8,32,64]) tuple(g, h)\n}\n",
     ADVICE_KIND_EXPERT, "data", ""},
    {"bug: a gather of several arrays was named by the first, a small one",
     ADD_MESH
     "ENTRY e {\n w = f32[4096,64] parameter(0), " COLUMNS_DATA ", metadata={op_name=\"params['embed']\"}\n i = "
     "s32[512,1] parameter(1), " ROWS_DATA ", metadata={op_name=\"tokens\"}\n v = f32[64,64] parameter(2), " ROWS_DATA
     ", metadata={op_name=\"params['v']\"}\n x = f32[512,64] parameter(3), " ROWS_DATA
     "\n l = f32[512,64] gather(w, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
     "index_vector_dim=1, slice_sizes={1,64}\n p = f32[512,64] dot(x, v), lhs_contracting_dims={1}, "
     "rhs_contracting_dims={0}\n t = f32[512,64] tanh(l), " ROWS_DATA "\n ROOT s = f32[512,64] add(t, p), " ROWS_DATA
     "\n}\n",
     ADVICE_KIND_WEIGHT_GATHER, "data", "params['v'] and 1 more"},
    {"bug: the cause of moving the rows of a gradient was not the embedding",
     ADD_MESH SUM
     "ENTRY e {\n w = f32[4096,64] parameter(0), " COLUMNS_DATA ", metadata={op_name=\"params['embed']\"}\n i = "
     "s32[512,1] parameter(1), " ROWS_DATA ", metadata={op_name=\"tokens\"}\n d = f32[512,64] parameter(2), " ROWS_DATA
     "\n u = f32[512,64] tanh(d)\n z = f32[] constant(0)\n o = f32[4096,64] broadcast(z), dimensions={}\n g = "
     "f32[4096,64] scatter(o, i, u), update_window_dims={1}, inserted_window_dims={0}, "
     "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum\n n = f32[4096,64] subtract(w, "
     "g), " COLUMNS_DATA
     "\n l = f32[512,64] gather(w, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
     "index_vector_dim=1, slice_sizes={1,64}\n ROOT t = (f32[4096,64], f32[512,64]) tuple(n, l)\n}\n",
     ADVICE_KIND_RESHARDING, "data", "rows for the gradient of params['embed']"},
    // The activations are sharded by model inside, and so is the weight, which all of its devices need.
    {"bug: weights of layers whose activations a constraint shards were gathered by accident",
     ADD_MESH SUM
     "ENTRY e {\n x = f32[512,64] parameter(0), " WHOLE
     ", metadata={op_name=\"batch\"}\n w = f32[64,16] parameter(1), " COLUMNS_MODEL
     ", metadata={op_name=\"params['w']\"}\n c = f32[512,64] tanh(x), " ROWS_MODEL
     "\n p = f32[512,16] dot(c, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n d = f32[512,16] "
     "tanh(p), " ROWS_MODEL
     "\n g = f32[64,16] dot(c, d), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n ROOT n = f32[64,16] "
     "subtract(w, g), " COLUMNS_MODEL "\n}\n",
     ADVICE_KIND_WEIGHT_GATHER, "model", "params['w']"},
};

// Device lists have no names of mesh axes: --mesh gives them.
static AdviceReport *report_of(const HloModule *module, const AdviceOptions *options) {
    static const SpmdMeshAxis mesh[] = {{"data", 4}, {"model", 2}};
    const CompileOptions compile = {.spmd = {.mesh = mesh, .mesh_axis_count = 2, .async = options->topology != NULL}};
    AdviceReport *report = NULL;
    must_succeed(advice_new(module, &compile, options, &report));
    return report;
}

static void check_kind(const Case *one, const AdviceOptions *options) {
    HloModule *module = compiled_must_parse(one->program);
    AdviceReport *report = report_of(module, options);
    bool found = false;
    int64_t bytes = 0;
    HloText text = {0};
    advice_print(&text, report);
    for (int64_t i = 0; i < report->group_count; i++) {
        const AdviceGroup *group = &report->groups[i];
        found |= group->kind == one->kind && !strcmp(group->axes, one->axes) && strstr(group->what, one->what);
        bytes += group->amount.bytes;
    }
    cr_expect(found, "%s:\n%s", one->name, text.data);
    cr_expect_eq(bytes, report->bytes_per_device, "%s: %lld", one->name, (long long)bytes);
    hlo_text_free(&text);
    advice_free(report);
    hlo_module_free(module);
}

// With a slice collectives are in halves, which does not change the kinds.
CaseList(kinds, of_plans_with_names) {
    return cases_numbered(HLO_COUNT_OF(cases));
}
CaseTest(const int *number, kinds, of_plans_with_names) {
    EmuTopology *topology = NULL;
    must_succeed(emu_topology_parse("v5e-8", &topology));
    const AdviceOptions without = {0}, with = {.topology = topology};
    check_kind(&cases[*number], &without);
    check_kind(&cases[*number], &with);
    emu_topology_free(topology);
}

// Groups are sums of the emulator's numbers for each collective.
Test(kinds, times_add_up) {
    EmuTopology *topology = NULL;
    must_succeed(emu_topology_parse("v5e-8", &topology));
    const AdviceOptions options = {.topology = topology};
    for (size_t i = 0; i < HLO_COUNT_OF(cases); i++) {
        HloModule *module = compiled_must_parse(cases[i].program);
        AdviceReport *report = report_of(module, &options);
        int64_t waited = 0, kinds = 0, axes = 0;
        for (int64_t g = 0; g < report->group_count; g++) waited += report->groups[g].amount.waited;
        for (int64_t k = 0; k < report->kind_count; k++) kinds += report->kinds[k].amount.waited;
        for (int64_t a = 0; a < report->axis_count; a++) axes += report->axes[a].amount.waited;
        cr_expect_eq(waited, kinds);
        cr_expect_eq(waited, axes);
        // Where several transfers share a link in a loop, the wait is attributed to none of them.
        cr_expect_leq(waited, report->exposed_picoseconds, "%s", cases[i].name);
        if (!strstr(cases[i].program, "while"))
            cr_expect_eq(waited, report->exposed_picoseconds, "%s: %lld of %lld", cases[i].name, (long long)waited,
                         (long long)report->exposed_picoseconds);
        advice_free(report);
        hlo_module_free(module);
    }
    emu_topology_free(topology);
}

Test(kinds, the_embedding_is_the_cause) {
    const AdviceOptions options = {0};
    HloModule *module = compiled_must_parse(cases[5].program);
    AdviceReport *report = report_of(module, &options);
    HloText text = {0};
    advice_print(&text, report);
    cr_expect(strstr(text.data,
                     "the embedding params['embed'] is sharded P(None, 'data') and its indices tokens P('data'): "
                     "both claim data"),
              "%s", text.data);
    hlo_text_free(&text);
    advice_free(report);
    hlo_module_free(module);
}

// ---- suggestions

// With the options of a suggestion the step takes the time that it promised.
Test(suggestions, are_what_they_promise) {
    static const int tried[] = {4, 5, 6};
    EmuTopology *topology = NULL;
    must_succeed(emu_topology_parse("v5e-8", &topology));
    const AdviceOptions options = {.topology = topology, .budget_seconds = 1000};
    int64_t suggested = 0;
    for (size_t c = 0; c < HLO_COUNT_OF(tried); c++) {
        HloModule *module = compiled_must_parse(cases[tried[c]].program);
        AdviceReport *report = report_of(module, &options);
        cr_expect_not(report->is_incomplete);
        cr_expect_gt(report->tried, 0);
        suggested += report->suggestion_count;
        for (int64_t i = 0; i < report->suggestion_count; i++) {
            const AdviceSuggestion *one = &report->suggestions[i];
            const char *shards[16];
            int64_t count = 0;
            static const SpmdMeshAxis plan[] = {{"data", 4}, {"model", 2}};
            cr_expect_leq(100 * one->step_picoseconds, 99 * report->step_picoseconds);
            cr_assert_str_eq(one->options[0], "--mesh");  // it was given
            if (strcmp(one->options[1], "data=4,model=2") != 0) continue;
            for (int64_t k = 3; k < one->option_count; k += 2) shards[count++] = one->options[k];
            const CompileOptions compile = {
                .spmd = {.mesh = plan, .mesh_axis_count = 2, .shards = shards, .shard_count = count, .async = true}};
            const AdviceOptions again = {.topology = topology};
            AdviceReport *changed = NULL;
            must_succeed(advice_new(module, &compile, &again, &changed));
            cr_expect_eq(changed->step_picoseconds, one->step_picoseconds, "%s", one->text);
            cr_expect_eq(changed->bytes_per_device, one->bytes_per_device, "%s", one->text);
            cr_expect_eq(changed->hbm_peak_bytes, one->hbm_peak_bytes, "%s", one->text);
            advice_free(changed);
        }
        advice_free(report);
        hlo_module_free(module);
    }
    cr_expect_gt(suggested, 0);
    emu_topology_free(topology);
}

Test(suggestions, end_with_the_budget) {
    EmuTopology *topology = NULL;
    must_succeed(emu_topology_parse("v5e-8", &topology));
    const AdviceOptions options = {.topology = topology, .budget_seconds = 1e-9};
    HloModule *module = compiled_must_parse(cases[5].program);
    AdviceReport *report = report_of(module, &options);
    cr_expect(report->is_incomplete);
    cr_expect_eq(report->suggestion_count, 0);
    advice_free(report);
    hlo_module_free(module);
    emu_topology_free(topology);
}

// ---- names, meshes

Test(names, of_equal_layers_and_specs) {
    HloArena *arena = hlo_arena_new();
    cr_expect_str_eq(advice_name_pattern(arena, "params['layers'][12]['w2']"), "params['layers'][*]['w2']");
    cr_expect_str_eq(advice_name_pattern(arena, "layers_3/mlp.7"), "layers_*/mlp.*");
    cr_expect_str_eq(advice_partition_spec(arena, "data,-,a+b"), "P('data', None, ('a', 'b'))");
    cr_expect_str_eq(advice_partition_spec(arena, ""), "P()");
    hlo_arena_free(arena);
}

// Products in parts: their permutes are what the gather of activations was, and on a slice that is not closed an order
// of devices in rings helps, if the user leaves the order open.
Test(kinds, products_in_parts) {
    static const char program[] =
        "HloModule m, num_partitions=64\nENTRY e {\n"
        " x = bf16[32768,4096] parameter(0), sharding={devices=[8,1,8]<=[64] last_tile_dim_replicate}\n"
        " v = bf16[4096,8192] parameter(1), sharding={devices=[1,8,8]<=[8,8]T(1,0) last_tile_dim_replicate}\n"
        " w = bf16[8192,16384] parameter(2), sharding={devices=[1,8,8]<=[8,8]T(1,0) last_tile_dim_replicate}\n"
        " l = bf16[32768,8192] dot(x, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
        "sharding={devices=[8,8]<=[64]}\n"
        " ROOT y = bf16[32768,16384] dot(l, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
        "sharding={devices=[8,8]<=[64]}\n}\n";
    static const SpmdMeshAxis mesh[] = {{"data", 8}, {"model", 8}};
    EmuTopology *topology = NULL;
    must_succeed(emu_topology_parse("v5e-64", &topology));
    SpmdMachine machine;
    cr_assert(target_spmd_machine(topology, &machine));
    HloModule *module = compiled_must_parse(program);
    const CompileOptions compile = {.spmd = {.mesh = mesh, .mesh_axis_count = 2, .async = true, .machine = &machine}};
    int64_t order[64], reversed[64];
    must_succeed(target_default_assignment(topology, module, mesh, 2, 64, order));
    for (int i = 0; i < 64; i++) reversed[i] = order[63 - i];
    for (int fixed = 0; fixed < 2; fixed++) {
        const AdviceOptions options = {.topology = topology,
                                       .device_assignment = fixed ? reversed : order,
                                       .device_assignment_count = 64,
                                       .budget_seconds = 1e6};
        AdviceReport *report = NULL;
        must_succeed(advice_new(module, &compile, &options, &report));
        int64_t permutes = 0, rings = 0;
        for (int64_t i = 0; i < report->group_count; i++) {
            if (strcmp(report->groups[i].opcode, "collective-permute") != 0) continue;
            cr_expect_eq(report->groups[i].kind, ADVICE_KIND_TENSOR_PARALLEL);
            permutes += report->groups[i].amount.sites;
        }
        for (int64_t i = 0; i < report->suggestion_count; i++)
            rings += strstr(report->suggestions[i].text, "rings of 4 x 2 chips") != NULL;
        cr_expect_eq(permutes, 7);
        cr_expect_eq(rings > 0, !fixed);
        advice_free(report);
    }
    hlo_module_free(module);
    emu_topology_free(topology);
}
