// SPDX-License-Identifier: Apache-2.0
// Contests of two dimensions for one axis, where the program does not say which of them gets it: the communication that
// follows decides, so that a constraint which a user would write sends no less.
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "tests/spmd/check.h"
#include "tests/support/cases.h"

// A network whose weights and inputs are sharded by the same axis (FSDP). `rows` is the batch.
typedef struct Network {
    const char *name;
    int rows, table, width, hidden;
    int axes;  // 1: data=4; 2: data=2, model=2
    int64_t bytes;
} Network;

static const Network networks[] = {
    // Both weights gathered, 1,536 bytes each; the indices, the rows of the result and the sum are the rest.
    {"even", 16, 32, 16, 32, 1, 3318},           {"uneven", 14, 30, 10, 18, 1, -1},
    {"of size one", 4, 5, 1, 3, 1, -1},          {"two axes", 16, 32, 16, 32, 2, -1},
    {"two axes, uneven", 14, 31, 10, 18, 2, -1},
};

// The program, with or without the constraint, and with or without a loop over layers.
static void write_network(HloText *text, const Network *network, bool constrained, bool loop) {
    const int b = network->rows, t = network->table, w = network->width, h = network->hidden;
    const char *batch = network->axes == 1 ? "{devices=[4,1]<=[4]}" : "{devices=[2,1,2]<=[4] last_tile_dim_replicate}";
    const char *list = network->axes == 1 ? "{devices=[4]<=[4]}" : "{devices=[2,2]<=[4] last_tile_dim_replicate}";
    const char *up = network->axes == 1 ? "{devices=[4,1]<=[4]}" : "{devices=[2,2]<=[4]}";
    const char *down = network->axes == 1 ? "{devices=[1,4]<=[4]}" : "{devices=[2,2]<=[2,2]T(1,0)}";
    char rows[40], square[40], tall[40];
    snprintf(rows, sizeof(rows), "f32[%d,%d]", b, w);
    snprintf(square, sizeof(square), "f32[%d,%d]", w, h);
    snprintf(tall, sizeof(tall), "f32[%d,%d]", h, w);
    hlo_text_string(text,
                    "HloModule m, num_partitions=4\nsum {\n x = f32[] parameter(0)\n y = f32[] parameter(1)\n"
                    " ROOT z = f32[] add(x, y)\n}\n");
    char layer[800];
    snprintf(layer, sizeof(layer),
             " a = f32[%d,%d] dot(x, u), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
             " s = f32[%d,%d] tanh(a)\n"
             " d = %s dot(s, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n y = %s add(x, d)\n",
             b, h, b, h, rows, rows);
    if (loop) {
        hlo_text_format(text,
                        "more {\n t = (s32[], %s, %s, %s) parameter(0)\n i = s32[] get-tuple-element(t), index=0\n"
                        " n = s32[] constant(3)\n ROOT l = pred[] compare(i, n), direction=LT\n}\n"
                        "step {\n t = (s32[], %s, %s, %s) parameter(0)\n i = s32[] get-tuple-element(t), index=0\n"
                        " x = %s get-tuple-element(t), index=1\n u = %s get-tuple-element(t), index=2\n"
                        " v = %s get-tuple-element(t), index=3\n o = s32[] constant(1)\n j = s32[] add(i, o)\n%s"
                        " ROOT r = (s32[], %s, %s, %s) tuple(j, y, u, v)\n}\n",
                        rows, square, tall, rows, square, tall, rows, square, tall, layer, rows, square, tall);
    }
    hlo_text_format(text,
                    "ENTRY e {\n table = f32[%d,%d] parameter(0), sharding=%s\n i = s32[%d] parameter(1), sharding=%s\n"
                    " u = %s parameter(2), sharding=%s\n v = %s parameter(3), sharding=%s\n"
                    " g = %s gather(table, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
                    "index_vector_dim=1, slice_sizes={1,%d}\n x = %s copy(g)%s%s\n",
                    t, w, down, b, list, square, up, tall, down, rows, w, rows, constrained ? ", sharding=" : "",
                    constrained ? batch : "");
    if (loop) {
        hlo_text_format(text,
                        " z = s32[] constant(0)\n t = (s32[], %s, %s, %s) tuple(z, x, u, v)\n"
                        " w = (s32[], %s, %s, %s) while(t), condition=more, body=step\n"
                        " y = %s get-tuple-element(w), index=1\n",
                        rows, square, tall, rows, square, tall, rows);
    } else {
        hlo_text_string(text, layer);
    }
    hlo_text_string(text, " q = f32[] constant(0)\n ROOT r = f32[] reduce(y, q), dimensions={0,1}, to_apply=sum\n}\n");
}

static int64_t bytes_of(const char *text, bool *explained) {
    HloModule *module = parse_text(text), *partitioned = NULL;
    SpmdReport *report = NULL;
    HloStatus status = spmd_partition(module, NULL, &partitioned, &report);
    if (status) cr_assert_fail("%s\n%s", hlo_status_message(status), text);
    const int64_t bytes = report->total_bytes_per_device;
    for (int64_t i = 0; explained && i < report->collective_count; i++)
        *explained |= strstr(report->collectives[i].reason, "less follows from that of operand 0") != NULL;
    spmd_report_free(report);
    hlo_module_free(partitioned);
    hlo_module_free(module);
    return bytes;
}

CaseList(contests, of_a_table_and_its_indices) {
    return cases_numbered(2 * HLO_COUNT_OF(networks));
}
CaseTest(const int *number, contests, of_a_table_and_its_indices) {
    const Network *network = &networks[*number / 2];
    const bool loop = *number % 2;
    HloText plain = {0}, constrained = {0};
    write_network(&plain, network, false, loop);
    write_network(&constrained, network, true, loop);
    check_partitioned(plain.data, NULL, 7);
    bool explained = false;
    const int64_t bytes = bytes_of(plain.data, &explained), most = bytes_of(constrained.data, NULL);
    cr_expect_leq(bytes, most, "%s, %s: %lld bytes, %lld with a constraint", network->name, loop ? "loop" : "no loop",
                  (long long)bytes, (long long)most);
    if (network->bytes >= 0 && !loop) {
        cr_expect_eq(bytes, network->bytes, "%s: %lld", network->name, (long long)bytes);
        cr_expect(explained, "the collective of the lookup does not name the contest");
    }
    hlo_text_free(&plain);
    hlo_text_free(&constrained);
}

// A loop over layers whose activations are sharded by m along the sequence, and whose stacks of weights are sharded by
// m too. In each layer the sequence and the columns of the first product contest m.
typedef struct Layers {
    const char *name;
    int batch, sequence, width, hidden;
    const char *activation, *up, *down;  // shardings of the activations and of the two stacks
    bool batched;                        // the activations are sharded by another axis too
    bool exact;                          // whether the bytes below are expected
} Layers;

static const Layers layers[] = {
    {"one axis", 4, 8, 8, 64, "{devices=[1,4,1]<=[4]}", "{devices=[1,1,4]<=[4]}", "{devices=[1,4,1]<=[4]}", false,
     true},
    {"two axes", 4, 8, 16, 24, "{devices=[2,2,1]<=[4]}", "{devices=[1,1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate}",
     "{devices=[1,2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}", true, true},
    {"uneven", 3, 6, 5, 63, "{devices=[1,4,1]<=[4]}", "{devices=[1,1,4]<=[4]}", "{devices=[1,4,1]<=[4]}", false, false},
    {"of size one", 1, 4, 1, 16, "{devices=[1,4,1]<=[4]}", "{devices=[1,1,4]<=[4]}", "{devices=[1,4,1]<=[4]}", false,
     false},
};

static void write_layers(HloText *text, const Layers *l, bool slices_first) {
    char x[40], up[40], down[40], state[200], take_down[400];
    snprintf(x, sizeof(x), "f32[%d,%d,%d]", l->batch, l->sequence, l->width);
    snprintf(up, sizeof(up), "f32[3,%d,%d]", l->width, l->hidden);
    snprintf(down, sizeof(down), "f32[3,%d,%d]", l->hidden, l->width);
    snprintf(state, sizeof(state), "(s32[], %s, %s, %s)", x, up, down);
    snprintf(
        take_down, sizeof(take_down),
        " vt = f32[1,%d,%d] dynamic-slice(vs, i, z, z), dynamic_slice_sizes={1,%d,%d}\n v = f32[%d,%d] reshape(vt)\n",
        l->hidden, l->width, l->hidden, l->width, l->hidden, l->width);
    hlo_text_format(
        text,
        "HloModule m, num_partitions=4\nmore {\n t = %s parameter(0)\n i = s32[] get-tuple-element(t), index=0\n"
        " n = s32[] constant(3)\n ROOT l = pred[] compare(i, n), direction=LT\n}\n"
        "step {\n t = %s parameter(0)\n i = s32[] get-tuple-element(t), index=0\n"
        " x = %s get-tuple-element(t), index=1\n us = %s get-tuple-element(t), index=2\n"
        " vs = %s get-tuple-element(t), index=3\n z = s32[] constant(0)\n o = s32[] constant(1)\n"
        " j = s32[] add(i, o)\n%s"
        " ut = f32[1,%d,%d] dynamic-slice(us, i, z, z), dynamic_slice_sizes={1,%d,%d}\n"
        " u = f32[%d,%d] reshape(ut)\n",
        state, state, x, up, down, slices_first ? take_down : "", l->width, l->hidden, l->width, l->hidden, l->width,
        l->hidden);
    hlo_text_format(text,
                    " a = f32[%d,%d,%d] dot(x, u), lhs_contracting_dims={2}, rhs_contracting_dims={0}\n"
                    " s = f32[%d,%d,%d] tanh(a)\n%s"
                    " d = %s dot(s, v), lhs_contracting_dims={2}, rhs_contracting_dims={0}\n y = %s add(x, d)\n"
                    " ROOT r = %s tuple(j, y, us, vs)\n}\n",
                    l->batch, l->sequence, l->hidden, l->batch, l->sequence, l->hidden, slices_first ? "" : take_down,
                    x, x, state);
    hlo_text_format(
        text,
        "ENTRY e {\n x = %s parameter(0), sharding=%s\n us = %s parameter(1), sharding=%s\n"
        " vs = %s parameter(2), sharding=%s\n z = s32[] constant(0)\n t = %s tuple(z, x, us, vs)\n"
        " w = %s while(t), condition=more, body=step\n ROOT y = %s get-tuple-element(w), index=1, sharding=%s\n}\n",
        x, l->activation, up, l->up, down, l->down, state, state, x, l->activation);
}

CaseList(contests, of_sequences_and_weights_in_loops) {
    return cases_numbered(HLO_COUNT_OF(layers));
}
CaseTest(const int *number, contests, of_sequences_and_weights_in_loops) {
    const Layers *l = &layers[*number];
    int64_t bytes[2];
    for (int slices_first = 0; slices_first < 2; slices_first++) {
        HloText text = {0};
        write_layers(&text, l, slices_first);
        check_partitioned(text.data, NULL, 7);
        bytes[slices_first] = bytes_of(text.data, NULL);
        hlo_text_free(&text);
    }
    cr_expect_eq(bytes[0], bytes[1], "%s: %lld bytes or %lld, by the order of the text", l->name, (long long)bytes[0],
                 (long long)bytes[1]);
    // Activations gathered and sums scattered in each layer, no weights.
    const int64_t shards = l->batched ? 2 : 4, part = (int64_t)l->batch * l->sequence * l->width * 4 / 4;
    if (l->exact) cr_expect_eq(bytes[0], 3 * 2 * part * (shards - 1), "%s: %lld bytes", l->name, (long long)bytes[0]);
}

// bug: a table that is sharded by m along its rows was priced as a quarter of it, though the lookup, whose result has m
// along the sequence, needs all rows: it then was gathered by d too, 10,752 bytes.
Test(contests, bug_axes_that_an_op_cannot_use_made_its_operand_cheap) {
    static const SentBytes lookup = {
        "a lookup before a projection",
        "HloModule m, num_partitions=8\nENTRY e {\n i = s32[8,16] parameter(0), "
        "sharding={devices=[2,1,4]<=[8] last_tile_dim_replicate}\n"
        " t = f32[64,32] parameter(1), sharding={devices=[4,2]<=[2,4]T(1,0)}\n"
        " w = f32[32,32] parameter(2), sharding={devices=[2,4]<=[8]}\n"
        " g = f32[8,16,32] gather(t, i), offset_dims={2}, collapsed_slice_dims={0}, start_index_map={0}, "
        "index_vector_dim=2, slice_sizes={1,32}\n"
        " ROOT r = f32[8,16,32] dot(g, w), lhs_contracting_dims={2}, rhs_contracting_dims={0}, "
        "sharding={devices=[2,4,1]<=[8]}\n}\n",
        6720};
    expect_bytes(&lookup);
}

// A loss over words: rows and words are both sharded by the same axis.
typedef struct Loss {
    const char *name;
    int rows, words, width;
    const char *devices;           // the sharding of the rows, and of the words
    const char *by_row, *by_word;  // shardings of the products
    int64_t bytes;
} Loss;

#define LINE(Dims) "{devices=[" Dims "]<=[4]}"
#define INNER(Dims) "{devices=[" Dims ",2]<=[2,2]T(1,0) last_tile_dim_replicate}"

static const Loss losses[] = {
    // The rows are gathered (4 x 64 x 16 / 4 bytes three times), and labels; the other sums are small.
    {"even", 64, 128, 16, LINE("4,1"), LINE("4,1"), LINE("1,4"), 4038},
    {"more rows than words", 128, 32, 16, LINE("4,1"), LINE("4,1"), LINE("1,4"), 1542},
    {"uneven", 62, 126, 10, LINE("4,1"), LINE("4,1"), LINE("1,4"), -1},
    {"of size one", 4, 64, 1, LINE("4,1"), LINE("4,1"), LINE("1,4"), -1},
    {"one of two axes", 64, 128, 16, INNER("2,1"), INNER("2,1"), INNER("1,2"), -1},
};

static void write_loss(HloText *text, const Loss *loss, const char *constraint) {
    const int r = loss->rows, v = loss->words, w = loss->width;
    hlo_text_format(text,
                    "HloModule m, num_partitions=4\nsum {\n x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT z = "
                    "f32[] add(x, y)\n}\nmost {\n x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT z = f32[] "
                    "maximum(x, y)\n}\nENTRY e {\n h = f32[%d,%d] parameter(0), sharding=%s\n y = s32[%d,1] "
                    "parameter(1), sharding=%s\n t = f32[%d,%d] parameter(2), sharding=%s\n z = f32[%d,%d] dot(h, t), "
                    "lhs_contracting_dims={1}, rhs_contracting_dims={1}%s%s\n",
                    r, w, loss->devices, r, loss->by_row, v, w, loss->devices, r, v, constraint ? ", sharding=" : "",
                    constraint ? constraint : "");
    hlo_text_format(text,
                    " o = f32[] constant(0)\n n = f32[] constant(-inf)\n m = f32[%d] reduce(z, n), dimensions={1}, "
                    "to_apply=most\n b = f32[%d,%d] broadcast(m), dimensions={0}\n d = f32[%d,%d] subtract(z, b)\n e = "
                    "f32[%d,%d] exponential(d)\n s = f32[%d] reduce(e, o), dimensions={1}, to_apply=sum\n l = f32[%d] "
                    "log(s)\n a = f32[%d] add(l, m)\n",
                    r, r, v, r, v, r, v, r, r, r);
    hlo_text_format(
        text,
        " g = f32[%d] gather(z, y), offset_dims={}, collapsed_slice_dims={1}, start_index_map={1}, "
        "operand_batching_dims={0}, start_indices_batching_dims={0}, index_vector_dim=1, slice_sizes={1,1}\n"
        " c = f32[%d] subtract(a, g)\n ROOT f = f32[] reduce(c, o), dimensions={0}, to_apply=sum, "
        "sharding={replicated}\n}\n",
        r, r);
}

CaseList(contests, of_rows_and_words) {
    return cases_numbered(HLO_COUNT_OF(losses));
}
// bug: looking words up in shards was priced as gathering all products, and exchanging the products as if nothing had
// to be gathered to make them: rows were gathered and products exchanged, 115,591 bytes of 256 rows where 61,831 do.
CaseTest(const int *number, contests, of_rows_and_words) {
    const Loss *loss = &losses[*number];
    const char *constraints[] = {NULL, loss->by_row, loss->by_word};
    int64_t bytes[3];
    for (int i = 0; i < 3; i++) {
        HloText text = {0};
        write_loss(&text, loss, constraints[i]);
        if (i == 0) check_partitioned(text.data, NULL, 7);
        bytes[i] = bytes_of(text.data, NULL);
        hlo_text_free(&text);
    }
    cr_expect_leq(bytes[0], bytes[1], "%s: %lld bytes, %lld by rows", loss->name, (long long)bytes[0],
                  (long long)bytes[1]);
    cr_expect_leq(bytes[0], bytes[2], "%s: %lld bytes, %lld by words", loss->name, (long long)bytes[0],
                  (long long)bytes[2]);
    if (loss->bytes >= 0) cr_expect_eq(bytes[0], loss->bytes, "%s: %lld bytes", loss->name, (long long)bytes[0]);
}

// What the loop of a recurrent network carries: the state, what it gives, its states, inputs and two weights; and what
// the loop of its gradient does: two gradients, that of the state, the stacks, and a weight.
#define FORWARD "(s32[], f32[12,8], f32[6,12,8], f32[6,12,8], f32[6,12,8], f32[8,8], f32[8,8])"
#define BACKWARD "(s32[], f32[8,8], f32[8,8], f32[12,8], f32[6,12,8], f32[6,12,8], f32[6,12,8], f32[8,8])"

// bug: the gradient of a recurrent weight, which is sharded along the dimension of the state, claimed that dimension of
// all states before the batch of the inputs had come through the first loop: they were exchanged before the second one,
// and back in each of its iterations, and the weight was gathered for each loop: 1,824 bytes. What is left are two
// gathers of weights and two scattered gradients.
Test(contests, bug_gradients_of_recurrent_weights_took_the_states_from_the_batch) {
    static const SentBytes gradient = {
        "the gradient of a recurrent network",
        "HloModule m, num_partitions=4\nmore {\n"
        " t = " FORWARD
        " parameter(0)\n"
        " i = s32[] get-tuple-element(t), index=0\n n = s32[] constant(6)\n"
        " ROOT l = pred[] compare(i, n), direction=LT\n}\nstep {\n"
        " t = " FORWARD
        " parameter(0)\n"
        " i = s32[] get-tuple-element(t), index=0\n h = f32[12,8] get-tuple-element(t), index=1\n"
        " y = f32[6,12,8] get-tuple-element(t), index=2\n"
        " s = f32[6,12,8] get-tuple-element(t), index=3\n"
        " x = f32[6,12,8] get-tuple-element(t), index=4\n"
        " w = f32[8,8] get-tuple-element(t), index=5\n"
        " u = f32[8,8] get-tuple-element(t), index=6\n z = s32[] constant(0)\n"
        " o = s32[] constant(1)\n j = s32[] add(i, o)\n"
        " a = f32[1,12,8] dynamic-slice(x, i, z, z), dynamic_slice_sizes={1,12,8}\n"
        " b = f32[12,8] reshape(a)\n"
        " c = f32[12,8] dot(b, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        " d = f32[12,8] dot(h, u), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        " e = f32[12,8] add(c, d)\n f = f32[12,8] tanh(e)\n g = f32[1,12,8] reshape(f)\n"
        " k = f32[6,12,8] dynamic-update-slice(y, g, i, z, z)\n p = f32[1,12,8] reshape(h)\n"
        " q = f32[6,12,8] dynamic-update-slice(s, p, i, z, z)\n"
        " ROOT r = " FORWARD
        " tuple(j, f, k, q, x, w, u)\n"
        "}\nless {\n"
        " t = " BACKWARD
        " parameter(0)\n"
        " i = s32[] get-tuple-element(t), index=0\n n = s32[] constant(6)\n"
        " ROOT l = pred[] compare(i, n), direction=LT\n}\nback {\n"
        " t = " BACKWARD
        " parameter(0)\n"
        " i = s32[] get-tuple-element(t), index=0\n v = f32[8,8] get-tuple-element(t), index=1\n"
        " w = f32[8,8] get-tuple-element(t), index=2\n"
        " g = f32[12,8] get-tuple-element(t), index=3\n"
        " s = f32[6,12,8] get-tuple-element(t), index=4\n"
        " y = f32[6,12,8] get-tuple-element(t), index=5\n"
        " x = f32[6,12,8] get-tuple-element(t), index=6\n"
        " u = f32[8,8] get-tuple-element(t), index=7\n z = s32[] constant(0)\n"
        " o = s32[] constant(1)\n j = s32[] add(i, o)\n"
        " a = f32[1,12,8] dynamic-slice(s, i, z, z), dynamic_slice_sizes={1,12,8}\n"
        " b = f32[12,8] reshape(a)\n"
        " c = f32[1,12,8] dynamic-slice(y, i, z, z), dynamic_slice_sizes={1,12,8}\n"
        " d = f32[12,8] reshape(c)\n"
        " e = f32[1,12,8] dynamic-slice(x, i, z, z), dynamic_slice_sizes={1,12,8}\n"
        " f = f32[12,8] reshape(e)\n h = f32[12,8] add(g, d)\n"
        " k = f32[8,8] dot(b, h), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n"
        " l = f32[8,8] add(v, k)\n"
        " p = f32[8,8] dot(f, h), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n"
        " q = f32[8,8] add(w, p)\n"
        " n = f32[12,8] dot(h, u), lhs_contracting_dims={1}, rhs_contracting_dims={1}\n"
        " ROOT r = " BACKWARD
        " tuple(j, l, q, n, s, y, x, u)\n"
        "}\nENTRY e {\n x = f32[6,12,8] parameter(0), sharding={devices=[1,4,1]<=[4]}\n"
        " w = f32[8,8] parameter(1), sharding={devices=[4,1]<=[4]}\n"
        " u = f32[8,8] parameter(2), sharding={devices=[4,1]<=[4]}\n z = s32[] constant(0)\n"
        " n = f32[] constant(0)\n g = f32[8,8] broadcast(n), dimensions={}\n"
        " h = f32[12,8] broadcast(n), dimensions={}\n"
        " s = f32[6,12,8] broadcast(n), dimensions={}\n"
        " t = " FORWARD
        " tuple(z, h, s, s, x, w, u)\n"
        " l = " FORWARD
        " while(t), condition=more, body=step\n"
        " y = f32[6,12,8] get-tuple-element(l), index=2\n"
        " a = f32[6,12,8] get-tuple-element(l), index=3\n"
        " b = " BACKWARD
        " tuple(z, g, g, h, a, y, x, u)\n"
        " c = " BACKWARD
        " while(b), condition=less, body=back\n"
        " d = f32[8,8] get-tuple-element(c), index=1\n"
        " e = f32[8,8] get-tuple-element(c), index=2\n"
        " ROOT r = (f32[8,8], f32[8,8]) tuple(d, e), sharding={{devices=[4,1]<=[4]}, {devices=[4,1]<=[4]}}\n"
        "}\n",
        2 * 3 * 64 + 2 * 3 * 64};
    expect_bytes(&gradient);
}
