// SPDX-License-Identifier: Apache-2.0
// Which collectives programs get, the errors of programs that are refused, and reports.
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "hlo/base/file.h"
#include "hlo/text/text.h"
#include "tests/spmd/check.h"
#include "tests/support/cases.h"

// The minimal collectives of small programs on four devices.
static const struct {
    const char *body, *want;
} minimal[] = {
    // A product whose summed dimension is sharded: one all-reduce; one reduce-scatter where the result is sharded too.
    {"p = f32[8,16] parameter(0), sharding={devices=[1,4]<=[4]}\n q = f32[16,8] parameter(1), "
     "sharding={devices=[4,1]<=[4]}\n"
     " ROOT d = f32[8,8] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}, sharding={replicated}",
     "1 all-reduce"},
    {"p = f32[8,16] parameter(0), sharding={devices=[1,4]<=[4]}\n q = f32[16,8] parameter(1), "
     "sharding={devices=[4,1]<=[4]}\n"
     " ROOT d = f32[8,8] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}, sharding={devices=[4,1]<=[4]}",
     "1 reduce-scatter"},
    // From one dimension to another: one all-to-all. From another device order: one permute (jax#21562 in small).
    {"p = f32[8,8] parameter(0), sharding={devices=[4,1]<=[4]}\n ROOT c = f32[8,8] copy(p), "
     "sharding={devices=[1,4]<=[4]}",
     "1 all-to-all"},
    {"p = f32[8,8] parameter(0), sharding={devices=[4,1]<=[4]}\n ROOT c = f32[8,8] copy(p), "
     "sharding={devices=[4,1]<=[2,2]T(1,0)}",
     "1 collective-permute"},
    {"p = f32[8,8] parameter(0), sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}\n"
     " ROOT c = f32[8,8] copy(p), sharding={devices=[4,1]<=[4]}",
     ""},
    // Rows of a sharded table: the table is not gathered.
    {"p = f32[64,8] parameter(0), sharding={devices=[4,1]<=[4]}\n i = s32[3] parameter(1), sharding={replicated}\n"
     " ROOT g = f32[3,8] gather(p, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
     "index_vector_dim=1, slice_sizes={1,8}, "
     "sharding={replicated}",
     "1 all-reduce"},
    // An update at a dynamic index of a sharded array needs no communication.
    {"p = f32[64,8] parameter(0), sharding={devices=[4,1]<=[4]}\n u = f32[3,8] parameter(1), sharding={replicated}\n"
     " i = s32[] parameter(2), sharding={replicated}\n z = s32[] constant(0)\n"
     " ROOT g = f32[64,8] dynamic-update-slice(p, u, i, z), sharding={devices=[4,1]<=[4]}",
     ""},
    // Only elements at the boundaries of neighbours.
    {"p = f32[32] parameter(0), sharding={devices=[4]<=[4]}\n z = f32[] constant(0)\n"
     " ROOT g = f32[32] pad(p, z), padding=1_-1, sharding={devices=[4]<=[4]}",
     "1 collective-permute"},
    // Consecutive parts: each device is sent what it lacks, and nothing is gathered.
    {"p = f32[64,8] parameter(0), sharding={devices=[4,1]<=[4]}\n q = f32[64,8] parameter(1), "
     "sharding={devices=[4,1]<=[4]}\n"
     " ROOT c = f32[128,8] concatenate(p, q), dimensions={0}, sharding={devices=[4,1]<=[4]}",
     "2 collective-permute"},
    {"p = f32[60,8] parameter(0), sharding={devices=[4,1]<=[4]}\n z = f32[] constant(3)\n"
     " s = f32[4,8] broadcast(z), dimensions={}\n"
     " ROOT c = f32[64,8] concatenate(s, p), dimensions={0}, sharding={devices=[4,1]<=[4]}",
     "1 collective-permute"},
    // The gradient of a pool whose windows do not cross shards, and of one whose windows do.
    {"p = f32[64,8] parameter(0), sharding={devices=[4,1]<=[4]}\n s = f32[32,8] parameter(1), "
     "sharding={devices=[4,1]<=[4]}\n"
     " z = f32[] constant(0)\n ROOT c = f32[64,8] select-and-scatter(p, s, z), window={size=2x1 stride=2x1}, "
     "select=most, "
     "scatter=sum, sharding={devices=[4,1]<=[4]}",
     ""},
    {"p = f32[64,8] parameter(0), sharding={devices=[4,1]<=[4]}\n s = f32[31,8] parameter(1), "
     "sharding={devices=[4,1]<=[4]}\n"
     " z = f32[] constant(0)\n ROOT c = f32[64,8] select-and-scatter(p, s, z), window={size=3x1 stride=2x1}, "
     "select=most, "
     "scatter=sum, sharding={devices=[4,1]<=[4]}",
     "2 collective-permute"},
    // Random bits never communicate.
    {"s = u64[2] parameter(0), sharding={replicated}\n"
     " ROOT r = (u64[2], u32[10,6]) rng-bit-generator(s), algorithm=rng_three_fry, sharding={{replicated}, "
     "{devices=[4,1]<=[4]}}",
     ""},
    // V3 meshes in device orders of their own, one that the module's mesh can hold and one that it cannot.
    {"p = f32[8,8] parameter(0), sharding={mesh['a'=2,'b'=2], device_ids=([2,2]T(1,0)), [{'a'}, {'b'}]}\n"
     " ROOT c = f32[8,8] copy(p), sharding={devices=[2,2]<=[2,2]T(1,0)}",
     ""},
    {"p = f32[8,8] parameter(0), sharding={mesh['a'=2,'b'=2], device_ids=(3,1,0,2), [{'a','b'}, {}]}\n"
     " ROOT c = f32[8,8] copy(p), sharding={devices=[4,1]<=[4]}",
     "1 collective-permute"},
    {"p = f32[8,8] parameter(0), sharding={mesh['a'=2,'b'=2], device_ids=([2,2]T(1,0)), [{'a'}, {}], unreduced={'b'}}\n"
     " ROOT c = f32[8,8] copy(p), sharding={devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}",
     "1 all-reduce"},
    // A call that only keeps an array alive takes its shards (jax.lax.dce_sink; it has no result to read a rank from).
    {"p = f32[8,8] parameter(0), sharding={devices=[4,1]<=[4]}\n s = f32[8,8] sine(p)\n"
     " k = () custom-call(s), custom_call_target=\"dce_sink\", custom_call_has_side_effect=true\n"
     " ROOT c = f32[8,8] copy(p), sharding={devices=[4,1]<=[4]}",
     ""},
    // The best of a row: candidates, exchanged for those of whole rows, unless exchanging rows or gathering a row sends
    // less. Empty arrays send nothing.
    {"p = f32[8,64] parameter(0), sharding={devices=[1,4]<=[4]}\n"
     " ROOT t = (f32[8,2], s32[8,2]) topk(p), k=2, largest=true",
     "2 all-to-all 1 all-gather"},
    {"p = f32[8,64] parameter(0), sharding={devices=[1,4]<=[4]}\n"
     " ROOT t = (f32[8,8], s32[8,8]) topk(p), k=8, largest=true",
     "1 all-to-all 1 all-gather"},
    {"p = f32[7,61] parameter(0), sharding={devices=[1,4]<=[4]}\n"
     " ROOT t = (f32[7,8], s32[7,8]) topk(p), k=8, largest=true",
     "1 all-to-all 1 all-gather"},
    {"p = f32[3,64] parameter(0), sharding={devices=[1,4]<=[4]}\n"
     " ROOT t = (f32[3,8], s32[3,8]) topk(p), k=8, largest=true",
     "1 all-gather"},
    // A reversal along two dimensions is one permute, whatever the sizes of the axes.
    {"p = f32[8,16] parameter(0), sharding={devices=[2,2]<=[4]}\n"
     " ROOT r = f32[8,16] reverse(p), dimensions={0,1}, sharding={devices=[2,2]<=[4]}",
     "1 collective-permute"},
    // Shards of other elements on both sides of a reshape: missing elements come from the neighbours.
    {"p = f32[60] parameter(0), sharding={devices=[4]<=[4]}\n"
     " ROOT r = f32[10,6] reshape(p), sharding={devices=[4,1]<=[4]}",
     "1 collective-permute"},
    {"p = f32[10,6] parameter(0), sharding={devices=[4,1]<=[4]}\n"
     " ROOT r = f32[60] reshape(p), sharding={devices=[4]<=[4]}",
     "1 collective-permute"},
    {"p = f32[2,30,3] parameter(0), sharding={devices=[2,2,1]<=[4]}\n"
     " ROOT r = f32[2,5,6,3] reshape(p), sharding={devices=[2,2,1,1]<=[4]}",
     "1 collective-permute"},
    {"p = f32[1,12,10] parameter(0), sharding={devices=[1,4,1]<=[4]}\n"
     " ROOT r = f32[10,1,12] reshape(p), sharding={devices=[4,1,1]<=[4]}",
     "1 collective-permute"},
    {"p = f32[3,20] parameter(0), sharding={devices=[4,1]<=[4]}\n"
     " ROOT r = f32[10,6] reshape(p), sharding={devices=[4,1]<=[4]}",
     "1 collective-permute"},
    // Products that both sides shard where they are summed: the operands are exchanged if the result is larger.
    {"p = f32[4,64,16] parameter(0), sharding={devices=[1,1,4]<=[4]}\n"
     " q = f32[4,16,64] parameter(1), sharding={devices=[1,4,1]<=[4]}\n"
     " d = f32[4,64,64] dot(p, q), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, "
     "rhs_contracting_dims={1}\n e = f32[4,64,64] exponential(d)\n"
     " ROOT r = f32[4,64,16] dot(e, p), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, "
     "rhs_contracting_dims={1}, sharding={devices=[1,1,4]<=[4]}",
     "2 all-to-all"},
    // An axis of two on top of the batch's, and sizes that do not divide.
    {"p = f32[6,61,15] parameter(0), sharding={devices=[2,1,2]<=[4]}\n"
     " q = f32[6,15,63] parameter(1), sharding={devices=[2,2,1]<=[4]}\n"
     " d = f32[6,61,63] dot(p, q), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, "
     "rhs_contracting_dims={1}\n ROOT e = f32[6,61,63] exponential(d), sharding={devices=[2,2,1]<=[4]}",
     "1 all-to-all 1 all-gather"},
    // A result that only leaves the program is all-reduced, though exchanging operands would send half.
    {"p = f32[64,8] parameter(0), sharding={devices=[1,4]<=[4]}\n"
     " q = f32[8,64] parameter(1), sharding={devices=[4,1]<=[4]}\n"
     " ROOT d = f32[64,64] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}, sharding={replicated}",
     "1 all-reduce"},
    // Gradients over a batch as long as the features: there is nothing to save.
    {"p = f32[64,64] parameter(0), sharding={devices=[4,1]<=[4]}\n"
     " q = f32[64,64] parameter(1), sharding={devices=[4,1]<=[4]}\n"
     " ROOT d = f32[64,64] dot(p, q), lhs_contracting_dims={0}, rhs_contracting_dims={0}, sharding={replicated}",
     "1 all-reduce"},
    // Channels of an image, which is exchanged for its batch.
    {"p = f32[8,6,6,8] parameter(0), sharding={devices=[1,1,1,4]<=[4]}\n"
     " k = f32[3,3,8,8] parameter(1), sharding={devices=[1,1,4,1]<=[4]}\n"
     " c = f32[8,6,6,8] convolution(p, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f\n"
     " ROOT e = f32[8,6,6,8] exponential(c), sharding={devices=[1,1,1,4]<=[4]}",
     "2 all-to-all 1 all-gather"},
    {"p = f32[0,64] parameter(0), sharding={devices=[1,4]<=[4]}\n ROOT c = f32[0,64] copy(p), sharding={replicated}",
     ""},
    // A dimension of one more, as StableHLO writes it: the sum travels on to where it is cut, like through a reshape.
    {"p = f32[8,16] parameter(0), sharding={devices=[4,1]<=[4]}\n q = f32[16,8] parameter(1), "
     "sharding={devices=[1,4]<=[4]}\n b = f32[8,16,1] broadcast(p), dimensions={0,1}\n r = f32[8,16] reshape(b)\n"
     " s = f32[8,16] sine(r)\n ROOT d = f32[8,8] dot(s, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
     "sharding={devices=[4,1]<=[4]}",
     "1 all-gather"},
    // The largest of each row with its index: only the indices are gathered, for the rows that a device has decided.
    {"p = f32[8,64] parameter(0), sharding={devices=[1,4]<=[4]}\n i = s32[8,64] iota(), iota_dimension=1\n"
     " z = f32[] constant(-inf)\n o = s32[] constant(0)\n"
     " t = (f32[8], s32[8]) reduce(p, i, z, o), dimensions={1}, to_apply=first\n"
     " ROOT c = s32[8] get-tuple-element(t), index=1, sharding={replicated}",
     "2 all-to-all 1 all-gather"},
    // A sorted dimension: its axes move to the other one and back.
    {"p = f32[8,8] parameter(0), sharding={devices=[4,1]<=[4]}\n"
     " ROOT r = f32[8,8] sort(p), dimensions={0}, to_apply=less, sharding={devices=[4,1]<=[4]}",
     "2 all-to-all"},
};

Test(partition, minimal_collectives) {
    for (size_t i = 0; i < HLO_COUNT_OF(minimal); i++) {
        HloText text = {0};
        hlo_text_format(
            &text,
            "HloModule m, num_partitions=4\n\nless {\n x = f32[] parameter(0)\n y = f32[] parameter(1)\n"
            " ROOT l = pred[] compare(x, y), direction=LT\n}\n\nfirst {\n a = f32[] parameter(0)\n"
            " i = s32[] parameter(1)\n b = f32[] parameter(2)\n j = s32[] parameter(3)\n"
            " g = pred[] compare(a, b), direction=GE\n v = f32[] select(g, a, b)\n"
            " k = s32[] select(g, i, j)\n ROOT r = (f32[], s32[]) tuple(v, k)\n}\n\nmost {\n x = f32[] parameter(0)\n"
            " y = f32[] parameter(1)\n ROOT l = pred[] compare(x, y), direction=GE\n}\n\nsum {\n"
            " x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT l = f32[] add(x, y)\n}\n\n"
            "ENTRY e {\n %s\n}\n",
            minimal[i].body);
        expect_collectives(text.data, NULL, minimal[i].want);
        hlo_text_free(&text);
    }
}

// A loop that slices an array along a cut dimension in each iteration: summing the slices would send twice as much as
// gathering the array once before the loop. An array of which little is read stays sharded.
Test(partition, gathers_once_for_a_loop) {
    static const struct {
        int rounds;
        const char *want;
    } loops[] = {{8, "1 all-gather"}, {2, "1 all-reduce"}};
    for (size_t i = 0; i < HLO_COUNT_OF(loops); i++) {
        char text[2000];
        snprintf(
            text, sizeof(text),
            "HloModule m, num_partitions=4\nmore {\n t = (s32[], f32[8,4], f32[4]) parameter(0)\n"
            " i = s32[] get-tuple-element(t), index=0\n n = s32[] constant(%d)\n"
            " ROOT l = pred[] compare(i, n), direction=LT\n}\nstep {\n t = (s32[], f32[8,4], f32[4]) parameter(0)\n"
            " i = s32[] get-tuple-element(t), index=0\n p = f32[8,4] get-tuple-element(t), index=1\n"
            " s = f32[4] get-tuple-element(t), index=2\n z = s32[] constant(0)\n o = s32[] constant(1)\n"
            " d = f32[1,4] dynamic-slice(p, i, z), dynamic_slice_sizes={1,4}\n r = f32[4] reshape(d)\n"
            " j = s32[] add(i, o)\n q = f32[4] add(s, r)\n ROOT u = (s32[], f32[8,4], f32[4]) tuple(j, p, q)\n}\n"
            "ENTRY e {\n p = f32[8,4] parameter(0), sharding={devices=[4,1]<=[4]}\n i = s32[] constant(0)\n"
            " c = f32[] constant(0)\n z = f32[4] broadcast(c), dimensions={}\n"
            " t = (s32[], f32[8,4], f32[4]) tuple(i, p, z)\n"
            " w = (s32[], f32[8,4], f32[4]) while(t), condition=more, body=step\n"
            " ROOT s = f32[4] get-tuple-element(w), index=2, sharding={replicated}\n}\n",
            loops[i].rounds);
        expect_collectives(text, NULL, loops[i].want);
    }
}

// Axes that leave a dimension for another one are brought into its order first: then one exchange moves them all.
Test(partition, axes_move_together) {
    expect_collectives(
        "HloModule m, num_partitions=8\nENTRY e {\n p = f32[16,16] parameter(0), sharding={devices=[4,2]<=[8]}\n"
        " ROOT c = f32[16,16] copy(p), sharding={devices=[1,8]<=[8]}\n}\n",
        NULL, "1 collective-permute 1 all-to-all");
}

static char *read_example(const char *name) {
    char path[1024];
    snprintf(path, sizeof(path), "%s/examples/%s", MESHLO_SOURCE_DIR, name);
    HloFileContent file = {0};
    HloStatus status = hlo_file_read(path, 1 << 24, &file);
    cr_assert_null(status, "%s", hlo_status_message(status));
    char *text = hlo_allocate(file.size + 1);
    memcpy(text, file.data, file.size);
    text[file.size] = 0;
    hlo_file_content_free(&file);
    return text;
}

// The third document's network, gradient on batch=4, model=2. XLA gives it these too: three sums of activations over
// model, eight of gradients over batch (measured with jax 0.10.2 before its combiner runs).
Test(partition, tutorial_network_gradient) {
    char *text = read_example("mlp_gradient_512.hlo");
    SpmdOptions options = {.no_optimize = true};
    expect_collectives(text, &options, "11 all-reduce");
    hlo_free(text);
}

static void expect_refused(const char *text, const SpmdOptions *options, HloCode code, const char *part) {
    HloModule *module = parse_text(text), *partitioned = NULL;
    HloStatus status = spmd_partition(module, options, &partitioned, NULL);
    cr_assert_not_null(status, "not refused: %s", text);
    cr_expect_eq(hlo_status_code(status), code, "%s", hlo_status_message(status));
    cr_expect(strstr(hlo_status_message(status), part), "'%s' is not in: %s", part, hlo_status_message(status));
    hlo_status_free(status);
    hlo_module_free(module);
}

Test(partition, refuses_by_name) {
    expect_refused(
        "HloModule m, num_partitions=2\nENTRY e {\n p = f32[4] parameter(0)\n"
        " ROOT c = f32[4] custom-call(p), custom_call_target=\"mystery\", "
        "custom_call_has_side_effect=true\n}\n",
        NULL, HLO_UNIMPLEMENTED, "\"mystery\" has a side effect");
    expect_refused("HloModule m, num_partitions=2\nENTRY e {\n ROOT c = u32[] partition-id()\n}\n", NULL,
                   HLO_UNIMPLEMENTED, "partition-id");
    expect_refused(
        "HloModule m, num_partitions=2\nsum {\n x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT z = f32[] "
        "add(x, y)\n}\n"
        "ENTRY e {\n p = f32[4] parameter(0)\n ROOT c = f32[4] all-reduce(p), channel_id=1, replica_groups={{0,1}}, "
        "use_global_device_ids=true, to_apply=sum\n}\n",
        NULL, HLO_UNIMPLEMENTED, "all-reduce");
    expect_refused(
        "HloModule m, num_partitions=2\nENTRY e {\n p = f32[9] parameter(0), sharding={devices=[2]<=[2]}\n z = s32[] "
        "constant(0)\n t = (s32[]) tuple(z)\n ROOT c = f32[9] collective-permute(p, p, t, t), channel_id=1, "
        "source_target_pairs={{0,1}}, slice_sizes={{5}}\n}\n",
        NULL, HLO_UNIMPLEMENTED, "collective-permute of this form");
    expect_refused(
        "HloModule m, num_partitions=4\nENTRY e {\n ROOT p = f32[4] parameter(0), sharding={devices=[2]<=[2]}\n}\n",
        NULL, HLO_INVALID_ARGUMENT, "2 devices");
    expect_refused(
        "HloModule m, num_partitions=4\nENTRY e {\n ROOT p = f32[4] parameter(0), sharding={devices=[2,2]<=[4]}\n}\n",
        NULL, HLO_INVALID_ARGUMENT, "rank 1");
    expect_refused(
        "HloModule m, num_partitions=4\nENTRY e {\n ROOT p = f32[4] parameter(0), sharding={devices=[4]0,1,1,2}\n}\n",
        NULL, HLO_INVALID_ARGUMENT, "repeated");
    const char *plain = "ENTRY e {\n ROOT p = f32[4] parameter(0)\n}\n";
    const SpmdMeshAxis mesh[] = {{"x", 4}};
    const char *const shards[][1] = {{"p7=x"}, {"r9=x"}, {"q=x"}, {"p0"}, {"p0=y"}, {"p0=x,x"}};
    const char *const parts[] = {"p7", "r9", "'q'", "TARGET=SPEC", "unknown mesh axis 'y'", "more dimensions"};
    for (size_t i = 0; i < HLO_COUNT_OF(parts); i++) {
        SpmdOptions options = {.mesh = mesh, .mesh_axis_count = 1, .shards = shards[i], .shard_count = 1};
        expect_refused(plain, &options, HLO_INVALID_ARGUMENT, parts[i]);
    }
    SpmdOptions wrong = {.mesh = mesh, .mesh_axis_count = 1, .num_partitions = 8};
    expect_refused(plain, &wrong, HLO_INVALID_ARGUMENT, "4 devices");
}

// The partitioned text of a module.
static void print_partitioned(const char *source, HloText *text) {
    HloModule *module = parse_text(source), *partitioned;
    HloStatus status = spmd_partition(module, NULL, &partitioned, NULL);
    cr_assert_null(status, "%s", hlo_status_message(status));
    HloPrintOptions options = hlo_print_short();
    cr_assert_null(hlo_print(partitioned, &options, text));
    hlo_module_free(partitioned);
    hlo_module_free(module);
}

// Expects all of these words in the partitioned program.
static void expect_words(const char *source, const char *const *words, size_t count) {
    HloText text = {0};
    print_partitioned(source, &text);
    for (size_t i = 0; i < count; i++) cr_expect(strstr(text.data, words[i]), "no %s in %s", words[i], text.data);
    hlo_text_free(&text);
}

// An unknown call runs on each device alone inside of a manual region; elsewhere it gets whole arrays.
Test(partition, unknown_calls) {
    HloText text = {0};
    print_partitioned(
        "HloModule m, num_partitions=4\nENTRY e {\n p = f32[8,8] parameter(0), sharding={devices=[4,1]<=[4]}\n"
        " m = f32[2,8] custom-call(p), custom_call_target=\"SPMDFullToShardShape\", sharding={manual}\n"
        " k = f32[2,8] custom-call(m), custom_call_target=\"kernel\", sharding={manual}, "
        "custom_call_has_side_effect=true\n ROOT c = f32[8,8] custom-call(k), "
        "custom_call_target=\"SPMDShardToFullShape\", sharding={devices=[4,1]<=[4]}\n}\n",
        &text);
    cr_expect(strstr(text.data, "f32[2,8]{1,0} custom-call(p), custom_call_target=\"kernel\""), "%s", text.data);
    cr_expect_not(strstr(text.data, "all-gather"), "%s", text.data);
    text.length = 0;
    print_partitioned(
        "HloModule m, num_partitions=4\nENTRY e {\n p = f32[8,8] parameter(0), sharding={devices=[4,1]<=[4]}\n"
        " ROOT k = f32[8,8] custom-call(p), custom_call_target=\"kernel\", sharding={devices=[4,1]<=[4]}\n}\n",
        &text);
    cr_expect(strstr(text.data, "all-gather(p)"), "%s", text.data);
    cr_expect(strstr(text.data, "f32[8,8]{1,0} custom-call(all-gather), custom_call_target=\"kernel\""), "%s",
              text.data);
    hlo_text_free(&text);
}

// One device takes an array from its queue for all of them, and another one gives an array for all.
Test(partition, one_device_feeds_for_all) {
    static const char *const words[] = {"((f32[8]{0}, s32[3]{0}), token[]) infeed(",
                                        "replica_groups={{1,0,2,3}}",
                                        "true_computation=transfer, false_computation=no_transfer",
                                        "array taken by one device of infeed i",
                                        "outfeed_shape=f32[8]{0}",
                                        "outfed array of outfeed o"};
    expect_words(
        "HloModule m, num_partitions=4\nENTRY e {\n t = token[] after-all()\n"
        " i = ((f32[8], s32[3]), token[]) infeed(t), sharding={{maximal device=1}, {maximal device=1}, {maximal "
        "device=1}}\n d = (f32[8], s32[3]) get-tuple-element(i), index=0\n u = token[] get-tuple-element(i), index=1\n"
        " x = f32[8] get-tuple-element(d), index=0\n p = f32[8] parameter(0), sharding={devices=[4]<=[4]}\n"
        " y = f32[8] add(x, p)\n o = token[] outfeed(y, u), outfeed_shape=f32[8], sharding={maximal device=2}\n"
        " ROOT r = f32[8] negate(y)\n}\n",
        words, HLO_COUNT_OF(words));
    expect_refused(
        "HloModule m, num_partitions=4\nENTRY e {\n t = token[] after-all()\n i = (f32[8], token[]) infeed(t), "
        "sharding={{maximal device=4}, {maximal device=4}}\n ROOT x = f32[8] get-tuple-element(i), index=0\n}\n",
        NULL, HLO_INVALID_ARGUMENT, "device 4");
}

// Between devices the halves stay apart, so that none waits for what the other has not begun.
Test(partition, transfers_between_devices_stay_in_halves) {
    static const char *const words[] = {"s = (f32[2]{0}, u32[], token[]) send(p, t)",
                                        "(f32[2]{0}, u32[], token[]) recv(t)", "recv-done(r)", "send-done(s)"};
    expect_words(
        "HloModule m, num_partitions=4\nENTRY e {\n p = f32[8] parameter(0), sharding={devices=[4]<=[4]}\n"
        " t = token[] after-all()\n m = f32[2] custom-call(p), custom_call_target=\"SPMDFullToShardShape\", "
        "sharding={manual}\n s = (f32[2], u32[], token[]) send(m, t), channel_id=7\n"
        " r = (f32[2], u32[], token[]) recv(t), channel_id=7, "
        "sharding={{manual}, {manual}, {manual}}\n d = (f32[2], token[]) recv-done(r), channel_id=7\n"
        " e = token[] send-done(s), channel_id=7\n g = f32[2] get-tuple-element(d), index=0, sharding={manual}\n"
        " ROOT q = f32[8] custom-call(g), custom_call_target=\"SPMDShardToFullShape\", "
        "sharding={devices=[4]<=[4]}\n}\n",
        words, HLO_COUNT_OF(words));
}

// Bug: copies of a transfer without pairs were all senders of one channel, which is refused. Each sends to itself.
Test(partition, bug_copies_of_a_transfer_have_no_pairs) {
    static const char *const bodies[] = {
        " s = (f32[8], u32[], token[]) send(p, t), channel_id=1\n e = token[] send-done(s), channel_id=1\n"
        " ROOT n = f32[8] negate(p)\n",
        " s = (f32[8], u32[], token[]) send(p, t), channel_id=1\n r = (f32[8], u32[], token[]) recv(t), channel_id=1\n"
        " d = (f32[8], token[]) recv-done(r), channel_id=1\n e = token[] send-done(s), channel_id=1\n"
        " g = f32[8] get-tuple-element(d), index=0\n ROOT n = f32[8] negate(g)\n"};
    for (size_t i = 0; i < HLO_COUNT_OF(bodies); i++) {
        HloText text = {0};
        hlo_text_format(&text, "ENTRY e {\n p = f32[8] parameter(0)\n t = token[] after-all()\n%s}\n", bodies[i]);
        const SpmdMeshAxis mesh[] = {{"x", 2}, {"y", 2}};
        const char *const shards[] = {"p0=x", "r0=y"};
        check_partitioned(text.data,
                          &(SpmdOptions){.mesh = mesh, .mesh_axis_count = 2, .shards = shards, .shard_count = 2}, 7);
        hlo_text_free(&text);
    }
}

// Each device has a queue of its own and takes its part from it.
Test(partition, feeds_have_local_shapes) {
    static const char *const words[] = {"((f32[2,6]{1,0}, s32[3]{0}), token[]) infeed(", "outfeed_shape=f32[2,6]{1,0}"};
    expect_words(
        "HloModule m, num_partitions=4\nENTRY e {\n t = token[] after-all()\n"
        " i = ((f32[8,6], s32[3]), token[]) infeed(t), sharding={{devices=[4,1]<=[4]}, {replicated}, {replicated}}\n"
        " d = (f32[8,6], s32[3]) get-tuple-element(i), index=0\n u = token[] get-tuple-element(i), index=1\n"
        " x = f32[8,6] get-tuple-element(d), index=0\n y = f32[8,6] negate(x)\n"
        " o = token[] outfeed(y, u), outfeed_shape=f32[8,6]\n ROOT r = f32[8,6] add(x, y)\n}\n",
        words, HLO_COUNT_OF(words));
    expect_refused(
        "HloModule m, num_partitions=2\nENTRY e {\n p = f32[4] parameter(0)\n n = s32[] constant(3)\n"
        " ROOT d = f32[<=4] set-dimension-size(p, n), dimensions={0}, sharding={devices=[2]<=[2]}\n}\n",
        NULL, HLO_UNIMPLEMENTED, "dynamic size");
}

Test(partition, options_shard_a_plain_program) {
    const SpmdMeshAxis mesh[] = {{"x", 2}, {"y", 2}};
    const char *const shards[] = {"p0=x,y", "p1=y,-", "r0=x,-"};
    SpmdOptions options = {.mesh = mesh, .mesh_axis_count = 2, .shards = shards, .shard_count = 3};
    expect_collectives(
        "ENTRY e {\n p = f32[8,6] parameter(0)\n q = f32[6,5] parameter(1)\n"
        " ROOT d = f32[8,5] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}\n",
        &options, "1 all-reduce");
}

Test(report, says_why_where_and_how_much) {
    HloModule *module = parse_text(
        "HloModule m, num_partitions=4\nENTRY e {\n p = f32[8,16] parameter(0), sharding={devices=[1,4]<=[4]}\n"
        " q = f32[16,8] parameter(1), sharding={devices=[4,1]<=[4]}\n"
        " ROOT d = f32[8,8] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}, sharding={replicated}, "
        "metadata={op_name=\"layer/dot\" source_file=\"net.py\" source_line=42}\n}\n");
    HloModule *partitioned;
    SpmdReport *report;
    cr_assert_null(spmd_partition(module, NULL, &partitioned, &report));
    cr_assert_eq(report->collective_count, 1);
    const SpmdCollective *one = &report->collectives[0];
    cr_expect_str_eq(one->opcode, "all-reduce");
    cr_expect_eq(one->bytes_per_device, 2 * 3 * 8 * 8 * 4 / 4);  // ring: 2 (g-1)/g of the array
    cr_expect_eq(one->group_size, 4);
    cr_expect_eq(one->num_groups, 1);
    cr_expect_eq(one->trip_count, 1);
    cr_expect_str_eq(one->source, "net.py:42");
    cr_expect(strstr(one->reason, "dot layer/dot reduces a dimension that is sharded over axis0"), "%s", one->reason);
    cr_expect(*one->remedy);
    HloText text = {0};
    HloJsonWriter writer = {.text = &text};
    spmd_report_json(&writer, report);
    HloArena *arena = hlo_arena_new();
    HloJsonValue *value;
    cr_assert_null(hlo_json_parse(arena, "report", text.data, text.length, &value));
    cr_expect_eq(hlo_json_get(value, "total_bytes_per_device")->integer, one->bytes_per_device);
    cr_expect_eq(hlo_json_get(value, "collectives")->count, 1);
    hlo_arena_free(arena);
    hlo_text_free(&text);
    spmd_report_free(report);
    hlo_module_free(partitioned);
    hlo_module_free(module);
}

// A collective in a loop counts as often as the loop runs.
Test(report, counts_trips) {
    HloModule *module = parse_text(
        "HloModule m, num_partitions=2\n\nc {\n p = (s32[], f32[4,4]) parameter(0)\n i = s32[] get-tuple-element(p), "
        "index=0\n"
        " n = s32[] constant(5)\n ROOT l = pred[] compare(i, n), direction=LT\n}\n\n"
        "b {\n p = (s32[], f32[4,4]) parameter(0)\n i = s32[] get-tuple-element(p), index=0\n o = s32[] constant(1)\n "
        "j = s32[] add(i, o)\n"
        " x = f32[4,4] get-tuple-element(p), index=1\n d = f32[4,4] dot(x, x), lhs_contracting_dims={1}, "
        "rhs_contracting_dims={0}\n"
        " ROOT t = (s32[], f32[4,4]) tuple(j, d)\n}\n\n"
        "ENTRY e {\n z = s32[] constant(0)\n a = f32[4,4] parameter(0), sharding={devices=[2,1]<=[2]}\n t = (s32[], "
        "f32[4,4]) tuple(z, a)\n"
        " w = (s32[], f32[4,4]) while(t), condition=c, body=b\n ROOT r = f32[4,4] get-tuple-element(w), index=1\n}\n");
    HloModule *partitioned;
    SpmdReport *report;
    cr_assert_null(spmd_partition(module, NULL, &partitioned, &report));
    cr_assert_gt(report->collective_count, 0);
    cr_expect_eq(report->collectives[0].trip_count, 5);
    spmd_report_free(report);
    hlo_module_free(partitioned);
    hlo_module_free(module);
}

Test(partition, a_partitioned_module_is_known_and_refused) {
    HloModule *module = parse_text(
        "HloModule m, num_partitions=2\nENTRY e {\n ROOT p = f32[5] parameter(0), sharding={devices=[2]<=[2]}\n}\n");
    HloModule *partitioned, *again;
    cr_assert_null(spmd_partition(module, NULL, &partitioned, NULL));
    cr_expect(spmd_is_partitioned(partitioned) && !spmd_is_partitioned(module));
    SpmdBoundary *boundary;
    cr_assert_null(spmd_boundary_new(partitioned, &boundary));
    cr_expect_eq(boundary->parameters[0].local->dims[0], 3);
    cr_expect_eq(boundary->parameters[0].global->dims[0], 5);
    cr_expect_eq(boundary->results[0].global->dims[0], 5);
    spmd_boundary_free(boundary);
    HloStatus status = spmd_partition(partitioned, NULL, &again, NULL);
    cr_expect_eq(hlo_status_code(status), HLO_INVALID_ARGUMENT);
    hlo_status_free(status);
    hlo_module_free(partitioned);
    hlo_module_free(module);
}

Test(partition, memory_failures_are_statuses) {
    const char *text =
        "HloModule m, num_partitions=4\nENTRY e {\n p = f32[8,8] parameter(0), sharding={devices=[4,1]<=[4]}\n"
        " ROOT c = f32[8,8] copy(p), sharding={devices=[1,4]<=[4]}\n}\n";
    HloModule *module = parse_text(text);
    for (int64_t countdown = 0; countdown < 40; countdown++) {
        HloModule *partitioned = NULL;
        SpmdReport *report = NULL;
        hlo_allocation_fail_after(countdown);
        HloStatus status = spmd_partition(module, NULL, &partitioned, &report);
        hlo_allocation_fail_after(-1);
        if (status) {
            cr_expect_eq(hlo_status_code(status), HLO_RESOURCE_EXHAUSTED, "%s", hlo_status_message(status));
            hlo_status_free(status);
            continue;
        }
        spmd_report_free(report);
        hlo_module_free(partitioned);
    }
    hlo_module_free(module);
}

// A dot as a TPU compiler writes it: a convolution without spatial dimensions has no window (it was read nevertheless).
// An annotated call is partitioned as one, and control edges keep a normalisation from being spelled out.
Test(partition, calls_and_normalisations_that_stay) {
    expect_collectives(
        "HloModule m, num_partitions=2\nf {\n a = f32[8,4] parameter(0)\n b = f32[4,8] transpose(a), "
        "dimensions={1,0}\n ROOT r = f32[4,8] abs(b)\n}\nENTRY e {\n p = f32[8,4] parameter(0), "
        "sharding={devices=[2,1]0,1}\n ROOT c = f32[4,8] call(p), to_apply=f, "
        "sharding={devices=[2,1]0,1}\n}\n",
        NULL, "1 all-to-all");
    expect_collectives(
        "HloModule m, num_partitions=2\nENTRY e {\n p = f32[8,4] parameter(0), "
        "sharding={devices=[1,2]0,1}\n s = f32[4] parameter(1)\n o = f32[4] parameter(2)\n"
        " n = f32[4] negate(s)\n b = (f32[8,4], f32[4], f32[4]) batch-norm-training(p, s, o), "
        "epsilon=0.1, feature_index=1, control-predecessors={n}\n"
        " ROOT g = f32[8,4] get-tuple-element(b), index=0, sharding={devices=[1,2]0,1}\n}\n",
        NULL, "");
    // A bitcast that only renames dimensions is a reshape.
    expect_collectives(
        "HloModule m, num_partitions=2\nENTRY e {\n p = f32[8,4] parameter(0), "
        "sharding={devices=[2,1]0,1}\n ROOT b = f32[32] bitcast(p), sharding={devices=[2]0,1}\n}\n",
        NULL, "");
}

Test(partition, a_convolution_without_a_window) {
    check_partitioned(
        "HloModule m, num_partitions=4\n\nENTRY e {\n"
        " x = f32[8,12] parameter(0), sharding={devices=[4,1]<=[4]}\n"
        " w = f32[12,8] parameter(1), sharding={devices=[1,2,2]<=[4] last_tile_dim_replicate}\n"
        " ROOT y = f32[8,8] convolution(x, w), dim_labels=bf_io->bf\n}\n",
        NULL, 1);
}

// bug: it was cut like a reshape, although layouts determine the order in which the elements are read.
Test(partition, bug_a_bitcast_to_another_order_was_taken_for_a_reshape) {
    check_partitioned(
        "HloModule m, num_partitions=6\n\nENTRY e {\n"
        " p = s32[2,3]{0,1} parameter(0), sharding={devices=[2,1,3]<=[6] last_tile_dim_replicate}\n"
        " ROOT r = s32[3,2]{1,0} bitcast(p)\n}\n",
        NULL, 1);
}

// bug: parts of a float sum were added as the integers that it is converted to; complex maxima were refused.
Test(partition, products_are_converted_when_they_are_whole) {
    check_partitioned(
        "HloModule m, num_partitions=4\n\nENTRY e {\n a = f32[3,10] parameter(0), sharding={devices=[1,4]<=[4]}\n"
        " b = f32[10,2] parameter(1), sharding={devices=[4,1]<=[4]}\n"
        " ROOT d = s32[3,2] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}\n",
        NULL, 3);
    check_partitioned(
        "HloModule m, num_partitions=4\n\nlarger {\n x = c64[] parameter(0)\n y = c64[] parameter(1)\n"
        " ROOT z = c64[] maximum(x, y)\n}\nENTRY e {\n a = c64[10,3] parameter(0), sharding={devices=[4,1]<=[4]}\n"
        " i = c64[] constant((1, 2))\n ROOT m = c64[3] reduce(a, i), dimensions={0}, to_apply=larger\n}\n",
        NULL, 3);
}

// bug: positions were counted with the stride, up to overflow; the slice takes the first element, however long the
// stride is.
Test(partition, bug_a_slice_with_an_immense_stride) {
    check_partitioned(
        "HloModule m, num_partitions=4\n\nENTRY e {\n p = f32[40] parameter(0), sharding={devices=[4]<=[4]}\n"
        " ROOT s = f32[1] slice(p), slice={[3:4:9223372036854775807]}\n}\n",
        NULL, 1);
}

// bug: numbers were counted on from the largest in use; now an unused one is taken.
Test(partition, bug_the_largest_channel_has_no_next) {
    HloModule *module = parse_text(
        "HloModule m, num_partitions=2\n\nENTRY e {\n a = f32[8] parameter(0), sharding={devices=[2]<=[2]}\n"
        " m = f32[4] custom-call(a), custom_call_target=\"SPMDFullToShardShape\", sharding={manual}\n"
        " x = f32[4] all-to-all(m), channel_id=9223372036854775807, replica_groups={{0,1}}, dimensions={0}, "
        "sharding={manual}\n"
        " f = f32[8] custom-call(x), custom_call_target=\"SPMDShardToFullShape\", sharding={devices=[2]<=[2]}\n"
        " ROOT r = f32[8] copy(f), sharding={replicated}\n}\n");
    HloModule *partitioned = NULL;
    HloStatus status = spmd_partition(module, NULL, &partitioned, NULL);
    cr_assert_null(status, "%s", hlo_status_message(status));
    HloText text = {0};
    cr_assert_null(hlo_print(partitioned, NULL, &text));
    cr_expect_not_null(strstr(text.data, "channel_id=1,"), "%s", text.data);
    hlo_text_free(&text);
    hlo_module_free(partitioned);
    hlo_module_free(module);
}

// The last shard of an uneven cut holds elements beyond the array: they must lose against everything.
static const struct {
    const char *type, *op;
} reductions[] = {{"f8e4m3fn", "maximum"},      {"f8e4m3fn", "minimum"}, {"f8e4m3fnuz", "maximum"},
                  {"f8e4m3b11fnuz", "minimum"}, {"f4e2m1fn", "maximum"}, {"f8e8m0fnu", "minimum"},
                  {"f8e5m2", "maximum"},        {"bf16", "minimum"}};

CaseList(partition, bug_padding_of_types_without_infinities) {
    return cases_numbered(HLO_COUNT_OF(reductions));
}

CaseTest(const int *number, partition, bug_padding_of_types_without_infinities) {
    const char *t = reductions[*number].type;
    HloText text = {0};
    hlo_text_format(
        &text,
        "HloModule m, num_partitions=4\n\nbest {\n x = %s[] parameter(0)\n y = %s[] parameter(1)\n"
        " ROOT z = %s[] %s(x, y)\n}\n\nENTRY e {\n p = u8[7,3] parameter(0), sharding={devices=[4,1]<=[4]}\n"
        " q = %s[7,3] convert(p)\n z = %s[] parameter(1)\n"
        " ROOT r = %s[3] reduce(q, z), dimensions={0}, to_apply=best\n}\n",
        t, t, t, reductions[*number].op, t, t, t);
    check_partitioned(text.data, NULL, 5);
    hlo_text_free(&text);
}

// In total order NaNs are beyond the infinities, and padding beyond those.
static const struct {
    const char *type, *values, *largest;
} choices[] = {{"f32", "nan, 1, nan, 2, 5, nan, 4", "false"},      {"f32", "-nan, 1, -nan, 2, -inf, -nan, 4", "true"},
               {"bf16", "nan, 1, nan, inf, 5, nan, 4", "false"},   {"f8e4m3fn", "-nan, 1, 2, 2, 5, -nan, 4", "true"},
               {"f8e4m3fnuz", "nan, 1, 2, 2, 5, nan, -4", "true"}, {"f8e4m3fnuz", "nan, 1, 2, 2, 5, nan, 4", "false"},
               {"f4e2m1fn", "-6, 1, 2, -6, 6, 3, 4", "true"},      {"f8e8m0fnu", "nan, 1, 2, 2, 8, nan, 4", "true"},
               {"f8e8m0fnu", "nan, 1, 2, 2, 8, nan, 4", "false"},  {"s8", "-128, 1, 2, -128, 127, 3, 4", "true"}};

CaseList(partition, bug_padding_is_taken_after_nans) {
    return cases_numbered(HLO_COUNT_OF(choices));
}

CaseTest(const int *number, partition, bug_padding_is_taken_after_nans) {
    const char *t = choices[*number].type;
    HloText text = {0};
    // The indices alone: all NaNs are equal to the comparison. The last one taken comes first in each list: the last
    // shard has one of it, and ten elements of padding.
    hlo_text_format(
        &text,
        "HloModule m, num_partitions=4\n\nENTRY e {\n c = %s[7] constant({%s})\n f = %s[1] slice(c), slice={[0:1]}\n"
        " g = %s[] reshape(f)\n b = %s[34] broadcast(g), dimensions={}\n"
        " s = %s[34] custom-call(b), custom_call_target=\"Sharding\", sharding={devices=[4]<=[4]}\n"
        " t = (%s[2], s32[2]) topk(s), k=2, largest=%s\n i = s32[2] get-tuple-element(t), index=1\n"
        " d = %s[7] custom-call(c), custom_call_target=\"Sharding\", sharding={devices=[4]<=[4]}\n"
        " u = (%s[7], s32[7]) topk(d), k=7, largest=%s\n j = s32[7] get-tuple-element(u), index=1\n"
        " ROOT r = (s32[2], s32[7]) tuple(i, j)\n}\n",
        t, choices[*number].values, t, t, t, t, t, choices[*number].largest, t, t, choices[*number].largest);
    check_partitioned(text.data, NULL, 5);
    hlo_text_free(&text);
}

// Programs whose elements have no neutral number.
static const char *const without_nothing[] = {
    // A power of two is never zero: a sum of what one device has and of zeros is NaN.
    " p = u8[7,3] parameter(0), sharding={devices=[4,1]<=[4]}\n q = f8e8m0fnu[7,3] bitcast-convert(p)\n"
    " i = s32[] constant(3)\n j = s32[] constant(0)\n d = f8e8m0fnu[2,3] dynamic-slice(q, i, j), "
    "dynamic_slice_sizes={2,3}\n ROOT r = u8[2,3] bitcast-convert(d)",
    " p = u8[7,3] parameter(0), sharding={devices=[4,1]<=[4]}\n q = f8e8m0fnu[7,3] bitcast-convert(p)\n"
    " i = s32[4,1] constant({{6},{0},{3},{3}})\n g = f8e8m0fnu[4,3] gather(q, i), offset_dims={1}, "
    "collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,3}\n"
    " ROOT r = u8[4,3] bitcast-convert(g)",
    // Zeros are the least of unsigned numbers, and equal to the padding outside of the array, which was selected.
    " p = u8[9,4] parameter(0), sharding={devices=[4,1]<=[4]}\n z = u8[] constant(0)\n"
    " zs = u8[9,4] broadcast(z), dimensions={}\n q = u8[9,4] minimum(p, zs)\n s = u8[5,4] parameter(1)\n"
    " ROOT c = u8[9,4] select-and-scatter(q, s, z), window={size=2x1 stride=2x1 pad=1_0x0_0}, select=least, "
    "scatter=sum",
    " p = pred[9,4] parameter(0), sharding={devices=[4,1]<=[4]}\n z = pred[] constant(false)\n"
    " s = pred[5,4] parameter(1)\n"
    " ROOT c = pred[9,4] select-and-scatter(p, s, z), window={size=2x1 stride=2x1 pad=1_0x0_0}, select=most, "
    "scatter=any",
};

CaseList(partition, bug_elements_without_a_nothing) {
    return cases_numbered(HLO_COUNT_OF(without_nothing));
}

CaseTest(const int *number, partition, bug_elements_without_a_nothing) {
    HloText text = {0};
    hlo_text_format(&text,
                    "HloModule m, num_partitions=4\n\nsum {\n x = u8[] parameter(0)\n y = u8[] parameter(1)\n"
                    " ROOT z = u8[] add(x, y)\n}\n\nany {\n x = pred[] parameter(0)\n y = pred[] parameter(1)\n"
                    " ROOT z = pred[] add(x, y)\n}\n\nleast {\n x = u8[] parameter(0)\n y = u8[] parameter(1)\n"
                    " ROOT z = pred[] compare(x, y), direction=GE\n}\n\nmost {\n x = pred[] parameter(0)\n"
                    " y = pred[] parameter(1)\n ROOT z = pred[] compare(x, y), direction=LE\n}\n\nENTRY e {\n%s\n}\n",
                    without_nothing[*number]);
    for (uint64_t seed = 0; seed < 8; seed++) check_partitioned(text.data, NULL, seed);
    hlo_text_free(&text);
}

// An unsigned start of 2^63 and more is beyond the end on every device.
Test(partition, starts_beyond_the_signed_numbers) {
    check_partitioned(
        "HloModule m, num_partitions=4\n\nENTRY e {\n a = s32[10] parameter(0), sharding={devices=[4]<=[4]}\n"
        " u = s32[3] parameter(1)\n k = u64[] parameter(2)\n most = u64[] constant(18446744073709551600)\n"
        " half = u64[] constant(9223372036854775808)\n i = u64[] add(k, most)\n j = u64[] add(k, half)\n"
        " s = s32[3] dynamic-slice(a, i), dynamic_slice_sizes={3}\n d = s32[10] dynamic-update-slice(a, u, j)\n"
        " ROOT t = (s32[3], s32[10]) tuple(s, d)\n}\n",
        NULL, 3);
}

// bug: the partitioned program had a topk with the call's type of places, which is not a topk's.
Test(partition, bug_calls_of_topk_with_indices_of_other_types) {
    static const char *const types[] = {"s32", "s64", "u8", "s1"};
    for (size_t i = 0; i < HLO_COUNT_OF(types); i++) {
        HloText text = {0};
        hlo_text_format(&text,
                        "HloModule m, num_partitions=4\n\nless {\n x = f32[] parameter(0)\n y = f32[] parameter(1)\n"
                        " ROOT z = pred[] compare(x, y), direction=LT\n}\n\nENTRY e {\n"
                        " a = f32[3,20] parameter(0), sharding={devices=[1,4]<=[4]}\n"
                        " ROOT t = (f32[3,4], %s[3,4]) custom-call(a), custom_call_target=\"TopK\", "
                        "called_computations={less}\n}\n",
                        types[i]);
        check_partitioned(text.data, NULL, 5);
        hlo_text_free(&text);
    }
}

// bug: the places of no elements were taken from no candidates, by a gather that is not allowed.
Test(partition, bug_topk_of_nothing) {
    check_partitioned(
        "HloModule m, num_partitions=4\n\nENTRY e {\n a = f32[3,20] parameter(0), sharding={devices=[1,4]<=[4]}\n"
        " ROOT t = (f32[3,0], s32[3,0]) topk(a), k=0, largest=true\n}\n",
        NULL, 5);
}

// They failed an assertion: no part held an element of the result.
static const char *const empty_parts[] = {
    "x = f32[0,3] parameter(0), sharding={devices=[4,1]<=[4]}\n y = f32[0,3] parameter(1), sharding={replicated}\n"
    " ROOT b = f32[0,3] concatenate(x, y), dimensions={0}, sharding={devices=[4,1]<=[4]}",
    "x = f32[8,3] parameter(0), sharding={devices=[4,1]<=[4]}\n a = f32[0,3] slice(x), slice={[5:5],[0:3]}\n"
    " b = f32[0,3] concatenate(a), dimensions={0}, sharding={devices=[4,1]<=[4]}\n"
    " ROOT r = (f32[0,3], f32[8,3]) tuple(b, x)",
    "c = f32[] constant(1)\n a = f32[0,3] broadcast(c), dimensions={}\n"
    " ROOT b = f32[0,3] concatenate(a, a), dimensions={0}, sharding={devices=[4,1]<=[4]}",
};

CaseList(partition, bug_concatenations_of_nothing) {
    return cases_numbered(HLO_COUNT_OF(empty_parts));
}

CaseTest(const int *number, partition, bug_concatenations_of_nothing) {
    HloText text = {0};
    hlo_text_format(&text, "HloModule m, num_partitions=4\nENTRY e {\n %s\n}\n", empty_parts[*number]);
    check_partitioned(text.data, NULL, 3);
    hlo_text_free(&text);
}

// Its updates are added without an index, so that the padding of an uneven cut would be added too.
Test(partition, bug_padding_of_updates_without_an_index_was_added) {
    static const char text[] =
        "HloModule m\n"
        "add {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b)\n}\n"
        "ENTRY e {\n p = f32[4] parameter(0)\n i = s32[5,0] constant({{}, {}, {}, {}, {}})\n"
        " u = f32[5,4] parameter(1), sharding={devices=[2,1]<=[2]}\n"
        " v = f32[5,4] exponential(u), sharding={devices=[2,1]<=[2]}\n"
        " ROOT s = f32[4] scatter(p, i, v), update_window_dims={1}, inserted_window_dims={}, "
        "scatter_dims_to_operand_dims={}, index_vector_dim=1, to_apply=add\n}\n";
    check_partitioned(text, NULL, 7);
}

// The sum beside an arg-max, over an even and an uneven cut.
static const struct {
    const char *type, *op;
    int size;
} components[] = {{"s32", "add", 8}, {"s32", "add", 7},      {"f32", "add", 6},  {"bf16", "multiply", 8},
                  {"u8", "xor", 5},  {"f64", "multiply", 7}, {"pred", "xor", 6}, {"c64", "add", 7}};

CaseList(partition, bug_init_values_of_sums_beside_others_counted_once_a_device) {
    return cases_numbered(HLO_COUNT_OF(components));
}

CaseTest(const int *number, partition, bug_init_values_of_sums_beside_others_counted_once_a_device) {
    const char *t = components[*number].type, *op = components[*number].op;
    const int n = components[*number].size;
    HloText text = {0};
    hlo_text_format(&text,
                    "HloModule m, num_partitions=4\n\nboth {\n a = f32[] parameter(0)\n m = %s[] parameter(1)\n"
                    " b = f32[] parameter(2)\n n = %s[] parameter(3)\n v = f32[] maximum(a, b)\n s = %s[] %s(n, m)\n"
                    " ROOT r = (f32[], %s[]) tuple(v, s)\n}\n\nENTRY e {\n"
                    " p = f32[%d,3] parameter(0), sharding={devices=[4,1]<=[4]}\n q = %s[%d,3] parameter(1)\n"
                    " i = f32[] parameter(2)\n j = %s[] parameter(3)\n"
                    " ROOT r = (f32[3], %s[3]) reduce(p, q, i, j), dimensions={0}, to_apply=both\n}\n",
                    t, t, t, op, t, n, t, n, t, t);
    check_partitioned(text.data, NULL, 5);
    hlo_text_free(&text);
}

// Splats, masks and pieces that the partitioner makes beside an array of dynamic size; two of these ended the process.
static const char *const sized[] = {
    // an uneven cut is masked
    " p = f32[3,15] parameter(1), sharding={devices=[4,1]<=[4]}\n"
    " d = f32[3,<=15] set-dimension-size(p, n), dimensions={1}\n z = f32[] parameter(2)\n"
    " ROOT r = f32[] reduce(d, z), dimensions={0,1}, to_apply=best\n",
    // pieces of a whole array
    " p = f32[6,15] parameter(1)\n d = f32[6,<=15] set-dimension-size(p, n), dimensions={1}\n"
    " q = f32[2,15] parameter(2)\n e = f32[2,<=15] set-dimension-size(q, n), dimensions={1}\n"
    " c = f32[8,<=15] concatenate(d, e), dimensions={0}, sharding={devices=[4,1]<=[4]}\n z = f32[] parameter(3)\n"
    " ROOT r = f32[8] reduce(c, z), dimensions={1}, to_apply=best\n",
    // indices of dynamic size into a cut array
    " p = f32[8] parameter(1), sharding={devices=[4]<=[4]}\n i = s32[15] iota(), iota_dimension=0\n"
    " j = s32[<=15] set-dimension-size(i, n), dimensions={0}\n u = f32[15] parameter(2)\n"
    " v = f32[<=15] set-dimension-size(u, n), dimensions={0}\n"
    " ROOT r = f32[8] scatter(p, j, v), update_window_dims={}, inserted_window_dims={0}, "
    "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=best\n"};

CaseList(partition, bug_elementwise_steps_beside_dynamic_sizes) {
    return cases_numbered(HLO_COUNT_OF(sized));
}

CaseTest(const int *number, partition, bug_elementwise_steps_beside_dynamic_sizes) {
    HloText text = {0};
    hlo_text_format(
        &text,
        "HloModule m, num_partitions=4\n\nbest {\n x = f32[] parameter(0)\n y = f32[] parameter(1)\n"
        " ROOT z = f32[] minimum(x, y)\n}\n\nENTRY e {\n k = s32[] parameter(0)\n zero = s32[] constant(0)\n"
        " most = s32[] constant(15)\n n = s32[] clamp(zero, k, most)\n%s}\n",
        sized[*number]);
    for (uint64_t seed = 1; seed < 5; seed++) check_partitioned(text.data, NULL, seed);
    hlo_text_free(&text);
}

// Found by fuzzing: a constant that is a tuple could not be divided.
Test(partition, bug_constants_that_are_tuples) {
    check_partitioned(
        "HloModule m, num_partitions=4\n\nENTRY e {\n c = (f32[4], (s32[3,2], f32[])) constant(({1, 2, 3, 4}, "
        "({{1, 2}, {3, 4}, {5, 6}}, 7)))\n a = f32[4] get-tuple-element(c), index=0\n"
        " p = f32[4] parameter(0), sharding={devices=[4]<=[4]}\n b = (s32[3,2], f32[]) get-tuple-element(c), index=1\n"
        " d = s32[3,2] get-tuple-element(b), index=0\n q = s32[3,2] parameter(1), sharding={devices=[4,1]<=[4]}\n"
        " s = f32[4] add(a, p)\n t = s32[3,2] add(d, q)\n"
        " ROOT r = (f32[4], s32[3,2], (f32[4], (s32[3,2], f32[]))) tuple(s, t, c)\n}\n",
        NULL, 1);
}

// Found by fuzzing: layouts of a tuple were asked for, which has none; copies of tuples and tokens were refused.
CaseList(partition, bug_copies_and_bitcasts_of_tuples_and_tokens) {
    return cases_numbered(2);
}

CaseTest(const int *number, partition, bug_copies_and_bitcasts_of_tuples_and_tokens) {
    const char *op = *number ? "bitcast" : "copy";
    HloText text = {0};
    hlo_text_format(
        &text,
        "HloModule m, num_partitions=4\n\nENTRY e {\n a = f32[6] parameter(0), sharding={devices=[4]<=[4]}\n"
        " b = s32[3,2] parameter(1), sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}\n"
        " n = token[] after-all()\n m = token[] %s(n)\n d = f32[6] add-dependency(a, m)\n"
        " h = (s32[3,2], token[]) tuple(b, m)\n i = (f32[6], (s32[3,2], token[])) tuple(d, h)\n"
        " c = (f32[6], (s32[3,2], token[])) %s(i)\n x = f32[6] get-tuple-element(c), index=0\n"
        " y = (s32[3,2], token[]) get-tuple-element(c), index=1\n z = s32[3,2] get-tuple-element(y), index=0\n"
        " s = f32[6] negate(x)\n t = s32[3,2] add(z, b)\n"
        " u = (f32[6], s32[3,2]) tuple(s, t)\n ROOT r = (f32[6], s32[3,2]) %s(u)\n}\n",
        op, op, op);
    check_partitioned(text.data, NULL, 1);
    hlo_text_free(&text);
}

// A rotation back and forth is the array again, and a slice of it has the same shards, of which the last is padded:
// both results were gathered once, as an array of the first one's size.
Test(partition, arrays_of_other_sizes_with_the_same_shards_are_gathered_apart) {
    const char *text =
        "HloModule m, num_partitions=8\nENTRY main {\n"
        " v0 = f32[4,8] parameter(0), sharding={devices=[4,1,2]<=[4,2]T(0,1) last_tile_dim_replicate}\n"
        " v2 = f32[1,8] slice(v0), slice={[3:4], [0:8]}\n v3 = f32[3,8] slice(v0), slice={[0:3], [0:8]}\n"
        " v4 = f32[4,8] concatenate(v2, v3), dimensions={0}\n v5 = f32[3,8] slice(v4), slice={[1:4], [0:8]}\n"
        " v6 = f32[1,8] slice(v4), slice={[0:1], [0:8]}\n v7 = f32[4,8] concatenate(v5, v6), dimensions={0}\n"
        " ROOT out = (f32[4,8], f32[1,8], f32[3,8]) tuple(v7, v6, v5)\n}\n";
    check_partitioned(text, NULL, 1);
}
