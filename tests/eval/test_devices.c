// SPDX-License-Identifier: Apache-2.0
// Partitioned runs: the result of a collective on each device, and the errors when devices cannot meet.
#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>

#include "tests/eval/run.h"
#include "tests/support/cases.h"

// Device d holds f32[4,2] = {10d, 10d+1, …}.
static float device_values[4][8];
static const float *const rows[4] = {device_values[0], device_values[1], device_values[2], device_values[3]};

static void fill_values(void) {
    for (int d = 0; d < 4; d++) {
        for (int i = 0; i < 8; i++) device_values[d][i] = (float)(10 * d + i);
    }
}

TestSuite(devices, .init = fill_values);

#define PROGRAM(shape, op)                                                                 \
    "HloModule m, num_partitions=4\n"                                                      \
    "add { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT z = f32[] add(x, y) }\n" \
    "ENTRY e { p = f32[4,2] parameter(0)\n ROOT r = " shape " " op " }\n"

typedef struct Exchange {
    char text[512];
    int64_t count;
    float first[4][4];  // the first elements of each device's result
} Exchange;

CaseList(devices, exchange) {
    static Exchange cases[] = {
        {PROGRAM("f32[4,2]",
                 "all-reduce(p), channel_id=1, replica_groups={}, use_global_device_ids=true, to_apply=add"),
         8,
         {{60, 64, 68, 72}, {60, 64, 68, 72}, {60, 64, 68, 72}, {60, 64, 68, 72}}},
        {PROGRAM("f32[4,2]",
                 "all-reduce(p), channel_id=1, replica_groups=[2,2]<=[2,2]T(1,0), use_global_device_ids=true, "
                 "to_apply=add"),
         8,
         {{20, 22, 24, 26}, {40, 42, 44, 46}, {20, 22, 24, 26}, {40, 42, 44, 46}}},
        {PROGRAM(
             "f32[4,4]",
             "all-gather(p), channel_id=1, replica_groups={{0,1},{2,3}}, use_global_device_ids=true, dimensions={1}"),
         16,
         {{0, 1, 10, 11}, {0, 1, 10, 11}, {20, 21, 30, 31}, {20, 21, 30, 31}}},
        {PROGRAM(
             "f32[4,4]",
             "all-gather(p), channel_id=1, replica_groups={{1,0},{3,2}}, use_global_device_ids=true, dimensions={1}"),
         16,
         {{10, 11, 0, 1}, {10, 11, 0, 1}, {30, 31, 20, 21}, {30, 31, 20, 21}}},
        {PROGRAM("f32[1,2]",
                 "reduce-scatter(p), channel_id=1, replica_groups={{0,1,2,3}}, use_global_device_ids=true, "
                 "dimensions={0}, to_apply=add"),
         2,
         {{60, 64}, {68, 72}, {76, 80}, {84, 88}}},
        {PROGRAM("f32[4,2]", "all-to-all(p), channel_id=1, replica_groups={{0,1,2,3}}, dimensions={0}"),
         8,
         {{0, 1, 10, 11}, {2, 3, 12, 13}, {4, 5, 14, 15}, {6, 7, 16, 17}}},
        {PROGRAM("f32[4,2]", "collective-permute(p), channel_id=1, source_target_pairs={{0,1},{1,2},{2,0}}"),
         8,
         {{20, 21, 22, 23}, {0, 1, 2, 3}, {10, 11, 12, 13}, {0, 0, 0, 0}}},
        {PROGRAM("f32[4,2]", "collective-broadcast(p), channel_id=1, replica_groups={{2,1}}"),
         8,
         {{0, 0, 0, 0}, {20, 21, 22, 23}, {20, 21, 22, 23}, {0, 0, 0, 0}}},
        {PROGRAM("f32[4,2]", "collective-broadcast(p), channel_id=1, replica_groups={{2,0},{1,3}}"),
         8,
         {{20, 21, 22, 23}, {10, 11, 12, 13}, {20, 21, 22, 23}, {10, 11, 12, 13}}},
    };
    return cr_make_param_array(Exchange, cases, HLO_COUNT_OF(cases));
}

CaseTest(Exchange *c, devices, exchange) {
    fill_values();
    HloLiteral *results[4] = {NULL};
    HloStatus status = run_devices(c->text, 4, rows, NULL, results);
    cr_assert_null(status, "%s", hlo_status_message(status));
    for (int d = 0; d < 4; d++) {
        cr_expect_eq(hlo_shape_elements(results[d]->shape), c->count);
        int64_t shown = c->count < 4 ? c->count : 4;
        cr_expect_eq(memcmp(results[d]->data, c->first[d], (size_t)shown * sizeof(float)), 0, "device %d of %s", d,
                     c->text);
        hlo_literal_free(results[d]);
    }
}

Test(devices, async_pair_gathers_like_the_plain_op) {
    HloLiteral *results[4] = {NULL};
    HloStatus status = run_devices(
        "HloModule m, num_partitions=4\n"
        "ENTRY e { p = f32[4,2] parameter(0)\n"
        " s = (f32[4,2], f32[4,4]) all-gather-start(p), channel_id=1, replica_groups={{0,1},{2,3}}, "
        "use_global_device_ids=true, dimensions={1}\n"
        " ROOT r = f32[4,4] all-gather-done(s) }\n",
        4, rows, NULL, results);
    cr_assert_null(status, "%s", hlo_status_message(status));
    const float want[4] = {20, 21, 30, 31};
    cr_expect_eq(memcmp(results[3]->data, want, sizeof(want)), 0);
    for (int d = 0; d < 4; d++) hlo_literal_free(results[d]);
}

Test(devices, one_thread_gives_the_same_as_many) {
    const char *text =
        PROGRAM("f32[4,2]", "all-reduce(p), channel_id=1, replica_groups={}, use_global_device_ids=true, to_apply=add");
    for (int64_t threads = 1; threads <= 4; threads++) {
        HloEvalOptions options = {.thread_count = threads};
        HloLiteral *results[4] = {NULL};
        cr_assert_null(run_devices(text, 4, rows, &options, results));
        for (int d = 0; d < 4; d++) {
            cr_expect_float_eq(((float *)results[d]->data)[7], 88.0f, 0);
            hlo_literal_free(results[d]);
        }
    }
}

Test(devices, deadlock_names_who_waits_where) {
    HloLiteral *results[4] = {NULL};
    HloStatus status = run_devices(
        "HloModule m, num_partitions=4\n"
        "add { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT z = f32[] add(x, y) }\n"
        "yes { p = f32[4,2] parameter(0)\n ROOT sum = f32[4,2] all-reduce(p), channel_id=1, replica_groups={}, "
        "use_global_device_ids=true, to_apply=add }\n"
        "no { q = f32[4,2] parameter(0)\n ROOT c = f32[4,2] copy(q) }\n"
        "ENTRY e { p = f32[4,2] parameter(0)\n d = u32[] partition-id()\n one = u32[] constant(1)\n"
        " high = pred[] compare(d, one), direction=GT\n"
        " ROOT r = f32[4,2] conditional(high, p, p), true_computation=yes, false_computation=no }\n",
        4, rows, NULL, results);
    expect_error(status, HLO_FAILED_PRECONDITION,
                 "device 2 waits at %sum (all-reduce) for device 0 (finished), 1 (finished)");
    cr_expect_null(results[0]);
}

Test(devices, failure_on_one_device_ends_the_run) {
    HloLiteral *results[4] = {NULL};
    HloStatus status = run_devices(
        "HloModule m, num_partitions=4\n"
        "add { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT z = f32[] add(x, y) }\n"
        "yes { p = f32[4,2] parameter(0)\n ROOT u = f32[4,2] custom-call(p), custom_call_target=\"unheard-of\" }\n"
        "no { p = f32[4,2] parameter(0)\n ROOT s = f32[4,2] all-reduce(p), channel_id=1, replica_groups={}, "
        "use_global_device_ids=true, to_apply=add }\n"
        "ENTRY e { p = f32[4,2] parameter(0)\n d = u32[] partition-id()\n one = u32[] constant(2)\n"
        " high = pred[] compare(d, one), direction=GT\n"
        " ROOT r = f32[4,2] conditional(high, p, p), true_computation=yes, false_computation=no }\n",
        4, rows, NULL, results);
    expect_error(status, HLO_UNIMPLEMENTED, "unheard-of");
}

Test(devices, replicas_and_partitions_have_numbers) {
    HloLiteral *results[4] = {NULL};
    HloStatus status = run_devices(
        "HloModule m, replica_count=2, num_partitions=2\n"
        "ENTRY e { p = u32[] partition-id()\n r = u32[] replica-id()\n"
        " ROOT t = (u32[], u32[]) tuple(r, p) }\n",
        4, NULL, NULL, results);
    cr_assert_null(status, "%s", hlo_status_message(status));
    for (int64_t d = 0; d < 4; d++) {
        cr_expect_eq(hlo_literal_get_int64(results[d]->elements[0], 0), d / 2);
        cr_expect_eq(hlo_literal_get_int64(results[d]->elements[1], 0), d % 2);
        hlo_literal_free(results[d]);
    }
}

Test(devices, single_device_refuses_a_larger_group) {
    HloStatus status;
    HloLiteral *result = run_floats(
        PROGRAM("f32[4,2]",
                "all-reduce(p), channel_id=1, replica_groups={{0,1,2,3}}, use_global_device_ids=true, to_apply=add"),
        device_values[0], NULL, &status);
    cr_expect_null(result);
    expect_error(status, HLO_INVALID_ARGUMENT, "%r");
}

// A manual region of an unpartitioned program: shard_map of a@b with psum over y, plus the row of the mesh.
#define MANUAL_BODY                                                                                              \
    "add { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT z = f32[] add(x, y) }\n"                       \
    "body { a = f32[2,2] parameter(0)\n b = f32[2,1] parameter(1)\n"                                             \
    " d = f32[2,1] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"                              \
    " ROOT s = f32[2,1] all-reduce(d), channel_id=1, replica_groups={{0,1},{2,3}}, use_global_device_ids=true, " \
    "to_apply=add }\n"

static const char *const manual_programs[] = {
    "HloModule m, num_partitions=4\n" MANUAL_BODY
    "ENTRY e { p = f32[4,4] parameter(0)\n q = f32[4,1] parameter(1)\n"
    " ps = f32[4,4] custom-call(p), custom_call_target=\"Sharding\", sharding={devices=[2,2]<=[4]}\n"
    " a = f32[2,2] custom-call(ps), custom_call_target=\"SPMDFullToShardShape\", sharding={manual}\n"
    " qs = f32[4,1] custom-call(q), custom_call_target=\"Sharding\", "
    "sharding={devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}\n"
    " b = f32[2,1] custom-call(qs), custom_call_target=\"SPMDFullToShardShape\", sharding={manual}\n"
    " c = f32[2,1] call(a, b), to_apply=body\n"
    " cs = f32[2,1] custom-call(c), custom_call_target=\"Sharding\", sharding={manual}\n"
    " ROOT r = f32[4,1] custom-call(cs), custom_call_target=\"SPMDShardToFullShape\", "
    "sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate} }\n",
    "HloModule m, num_partitions=4, frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<[\"x\"=2, "
    "\"y\"=2]>}}\n" MANUAL_BODY
    "ENTRY e { p = f32[4,4] parameter(0)\n q = f32[4,1] parameter(1)\n"
    " t = (f32[2,2], f32[2,1]) custom-call(p, q), custom_call_target=\"xla.sdy.GlobalToLocalShape\", "
    "frontend_attributes={xla.sdy.in_shardings=\"#sdy.sharding_per_value<[<@mesh, [{\\\"x\\\"}, {\\\"y\\\"}]>, "
    "<@mesh, [{\\\"y\\\"}, {}]>]>\"}\n"
    " a = f32[2,2] get-tuple-element(t), index=0\n b = f32[2,1] get-tuple-element(t), index=1\n"
    " c = f32[2,1] call(a, b), to_apply=body\n"
    " ROOT r = f32[4,1] custom-call(c), custom_call_target=\"xla.sdy.LocalToGlobalShape\", "
    "frontend_attributes={xla.sdy.out_shardings=\"#sdy.sharding_per_value<[<@mesh, [{\\\"x\\\"}, {}]>]>\"} }\n",
    // The same by names: axes of a mesh, in another order of devices than its own for one array, and halves of one
    // axis.
    "HloModule m, num_partitions=4\n" MANUAL_BODY
    "ENTRY e { p = f32[4,4] parameter(0)\n q = f32[4,1] parameter(1)\n"
    " ps = f32[4,4] custom-call(p), custom_call_target=\"Sharding\", sharding={mesh[x=2,y=2], [{x},{y}]}\n"
    " a = f32[2,2] custom-call(ps), custom_call_target=\"SPMDFullToShardShape\", sharding={manual}\n"
    " qs = f32[4,1] custom-call(q), custom_call_target=\"Sharding\", sharding={mesh[y=2,x=2], "
    "device_ids=([2,2]T(1,0)), [{y},{}]}\n"
    " b = f32[2,1] custom-call(qs), custom_call_target=\"SPMDFullToShardShape\", sharding={manual}\n"
    " c = f32[2,1] call(a, b), to_apply=body\n"
    " cs = f32[2,1] custom-call(c), custom_call_target=\"Sharding\", sharding={manual}\n"
    " ROOT r = f32[4,1] custom-call(cs), custom_call_target=\"SPMDShardToFullShape\", sharding={mesh[x=2,y=2], "
    "[{x},{}]} }\n",
    "HloModule m, num_partitions=4\n" MANUAL_BODY
    "ENTRY e { p = f32[4,4] parameter(0)\n q = f32[4,1] parameter(1)\n"
    " ps = f32[4,4] custom-call(p), custom_call_target=\"Sharding\", sharding={mesh[a=4], [{a:(1)2},{a:(2)2}]}\n"
    " a = f32[2,2] custom-call(ps), custom_call_target=\"SPMDFullToShardShape\", sharding={manual}\n"
    " qs = f32[4,1] custom-call(q), custom_call_target=\"Sharding\", sharding={mesh[a=4], [{a:(2)2},{}]}\n"
    " b = f32[2,1] custom-call(qs), custom_call_target=\"SPMDFullToShardShape\", sharding={manual}\n"
    " c = f32[2,1] call(a, b), to_apply=body\n"
    " cs = f32[2,1] custom-call(c), custom_call_target=\"Sharding\", sharding={manual}\n"
    " ROOT r = f32[4,1] custom-call(cs), custom_call_target=\"SPMDShardToFullShape\", sharding={mesh[a=4], "
    "[{a:(1)2},{}]} }\n",
};

// A region of y inside of one of x, each of its own axis as JAX's shard_map writes them: rows go to x, columns to y,
// whose sums differ from row to row. The inner region was left with the sums of the first row everywhere.
static const char *const nested_programs[] = {
    "HloModule m, num_partitions=4\n" MANUAL_BODY
    "ENTRY e { p = f32[4,4] parameter(0)\n q = f32[4,1] parameter(1)\n"
    " ps = f32[4,4] custom-call(p), custom_call_target=\"Sharding\", sharding={devices=[2,2]<=[4]}\n"
    " po = f32[2,4] custom-call(ps), custom_call_target=\"SPMDFullToShardShape\", "
    "sharding={devices=[1,2,2]<=[2,2]T(1,0) last_tile_dims={manual}}\n"
    " pi = f32[2,4] custom-call(po), custom_call_target=\"Sharding\", "
    "sharding={devices=[1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate}\n"
    " a = f32[2,2] custom-call(pi), custom_call_target=\"SPMDFullToShardShape\", "
    "sharding={devices=[1,1,2,2]<=[2,2]T(1,0) "
    "last_tile_dims={manual, replicated}}\n"
    " qs = f32[4,1] custom-call(q), custom_call_target=\"Sharding\", sharding={replicated}\n"
    " qo = f32[4,1] custom-call(qs), custom_call_target=\"SPMDFullToShardShape\", sharding={devices=[1,1,2,2]<=[4] "
    "last_tile_dims={manual, replicated}}\n"
    " qi = f32[4,1] custom-call(qo), custom_call_target=\"Sharding\", "
    "sharding={devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}\n"
    " b = f32[2,1] custom-call(qi), custom_call_target=\"SPMDFullToShardShape\", "
    "sharding={devices=[1,1,2,2]<=[2,2]T(1,0) "
    "last_tile_dims={manual, replicated}}\n"
    " c = f32[2,1] call(a, b), to_apply=body\n"
    " ci = f32[2,1] custom-call(c), custom_call_target=\"Sharding\", sharding={devices=[1,1,2,2]<=[2,2]T(1,0) "
    "last_tile_dims={manual, replicated}}\n"
    " co = f32[2,1] custom-call(ci), custom_call_target=\"SPMDShardToFullShape\", sharding={replicated}\n"
    " cs = f32[2,1] custom-call(co), custom_call_target=\"Sharding\", sharding={devices=[1,1,2,2]<=[4] "
    "last_tile_dims={manual, replicated}}\n"
    " ROOT r = f32[4,1] custom-call(cs), custom_call_target=\"SPMDShardToFullShape\", "
    "sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate} }\n",
    "HloModule m, num_partitions=4, frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<[\"x\"=2, "
    "\"y\"=2]>}}\n" MANUAL_BODY
    "ENTRY e { p = f32[4,4] parameter(0)\n q = f32[4,1] parameter(1)\n"
    " t = (f32[2,4], f32[4,1]) custom-call(p, q), custom_call_target=\"xla.sdy.GlobalToLocalShape\", "
    "frontend_attributes={xla.sdy.in_shardings=\"#sdy.sharding_per_value<[<@mesh, [{\\\"x\\\", ?}, {\\\"y\\\"}]>, "
    "<@mesh, [{?}, {?}]>]>\",xla.sdy.manual_axes=\"#sdy<manual_axes{\\\"x\\\"}>\"}\n"
    " po = f32[2,4] get-tuple-element(t), index=0\n qo = f32[4,1] get-tuple-element(t), index=1\n"
    " u = (f32[2,2], f32[2,1]) custom-call(po, qo), custom_call_target=\"xla.sdy.GlobalToLocalShape\", "
    "frontend_attributes={xla.sdy.in_shardings=\"#sdy.sharding_per_value<[<@mesh, [{?}, {\\\"y\\\", ?}]>, "
    "<@mesh, [{\\\"y\\\"}, {}]>]>\",xla.sdy.manual_axes=\"#sdy<manual_axes{\\\"y\\\"}>\"}\n"
    " a = f32[2,2] get-tuple-element(u), index=0\n b = f32[2,1] get-tuple-element(u), index=1\n"
    " c = f32[2,1] call(a, b), to_apply=body\n"
    " co = f32[2,1] custom-call(c), custom_call_target=\"xla.sdy.LocalToGlobalShape\", "
    "frontend_attributes={xla.sdy.out_shardings=\"#sdy.sharding_per_value<[<@mesh, [{?}, {?}]>]>\","
    "xla.sdy.manual_axes=\"#sdy<manual_axes{\\\"y\\\"}>\"}\n"
    " ROOT r = f32[4,1] custom-call(co), custom_call_target=\"xla.sdy.LocalToGlobalShape\", "
    "frontend_attributes={xla.sdy.out_shardings=\"#sdy.sharding_per_value<[<@mesh, [{\\\"x\\\", \\\"y\\\"}, {}]>]>\","
    "xla.sdy.manual_axes=\"#sdy<manual_axes{\\\"x\\\"}>\"} }\n",
};

static void expect_product(const char *program) {
    float values[20];
    for (int i = 0; i < 20; i++) values[i] = (float)(i < 16 ? i : i - 15);  // p = 0..15, q = 1..4
    const float want[4] = {20, 60, 100, 140};
    HloStatus status;
    HloLiteral *result = run_floats(program, values, NULL, &status);
    cr_assert_null(status, "%s", hlo_status_message(status));
    expect_floats(result, want, 4);
    hlo_literal_free(result);
}

Test(devices, manual_regions_run_on_the_devices_of_their_mesh) {
    for (size_t i = 0; i < HLO_COUNT_OF(manual_programs); i++) expect_product(manual_programs[i]);
}

Test(devices, bug_regions_in_regions_were_left_with_the_arrays_of_the_first_device) {
    for (size_t i = 0; i < HLO_COUNT_OF(nested_programs); i++) expect_product(nested_programs[i]);
}

Test(devices, manual_region_on_one_device_is_refused) {
    float values[20] = {0};
    HloStatus status;
    HloEvalOptions options = {.device_count = 1};
    HloLiteral *result = run_floats(manual_programs[0], values, &options, &status);
    cr_expect_null(result);
    expect_error(status, HLO_UNIMPLEMENTED, "manual region");
}

// bug: replica_count / device_count was divided by.
Test(devices, bug_too_few_devices_for_the_replicas_of_a_manual_region) {
    const char *text =
        "HloModule m, replica_count=4, num_partitions=2\n"
        "ENTRY e { p = f32[4,2] parameter(0), sharding={devices=[2,1]0,1}\n"
        " q = f32[2,2] custom-call(p), custom_call_target=\"SPMDFullToShardShape\", sharding={manual}\n"
        " ROOT r = f32[4,2] custom-call(q), custom_call_target=\"SPMDShardToFullShape\", sharding={devices=[2,1]0,1} "
        "}\n";
    for (int64_t devices = 2; devices < 4; devices++) {
        HloStatus status;
        cr_expect_null(run_floats(text, device_values[1], &(HloEvalOptions){.device_count = devices}, &status));
        expect_error(status, HLO_INVALID_ARGUMENT, "devices cannot hold 4 replicas");
    }
}

// bug: the product of two counts of the text was taken without looking whether it fits.
Test(devices, bug_counts_that_no_number_holds) {
    HloStatus status;
    cr_expect_null(
        run_floats("HloModule m, replica_count=4611686018427387904, num_partitions=8\n"
                   "ENTRY e { ROOT z = f32[] constant(0) }\n",
                   NULL, NULL, &status));
    expect_error(status, HLO_INVALID_ARGUMENT, "of 4611686018427387904 replicas of 8 partitions");
}

// The host of the next test: device 2 fails while device 0 waits; only then does device 1 continue and send.
typedef struct Sequence {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool failed;
} Sequence;

static HloStatus fail_to_send(void *context, int64_t device, int64_t channel, const HloShape *shape, const void *data) {
    (void)channel, (void)shape, (void)data;
    Sequence *sequence = context;
    cr_assert_eq(device, 2);
    pthread_mutex_lock(&sequence->lock);
    sequence->failed = true;
    pthread_cond_broadcast(&sequence->changed);
    pthread_mutex_unlock(&sequence->lock);
    return hlo_error(HLO_ABORTED, "the host has gone");
}

static HloStatus receive_after_failure(void *context, int64_t device, int64_t channel, const HloShape *shape,
                                       void *data) {
    (void)channel;
    Sequence *sequence = context;
    cr_assert_eq(device, 1);
    memset(data, 0, (size_t)hlo_shape_bytes(shape));
    pthread_mutex_lock(&sequence->lock);
    while (!sequence->failed) pthread_cond_wait(&sequence->changed, &sequence->lock);
    pthread_mutex_unlock(&sequence->lock);
    return HLO_SUCCESS;
}

// bug: a device that waited for a message when the run was stopped was resumed on its old stack at the next message.
Test(devices, bug_a_message_comes_when_the_run_has_been_stopped) {
    const char *text =
        "HloModule m, num_partitions=3\n"
        "wait { t = token[] parameter(0)\n"
        " s = (f32[], u32[], token[]) recv(t), channel_id=7, "
        "frontend_attributes={_xla_send_recv_source_target_pairs=\"{{1,0}}\"}\n"
        " d = (f32[], token[]) recv-done(s), channel_id=7\n ROOT f = f32[] get-tuple-element(d), index=0 }\n"
        "bring { t = token[] parameter(0)\n i = (f32[], token[]) infeed(t)\n f = f32[] get-tuple-element(i), index=0\n"
        " s = (f32[], u32[], token[]) send(f, t), channel_id=7, "
        "frontend_attributes={_xla_send_recv_source_target_pairs=\"{{1,0}}\"}\n"
        " d = token[] send-done(s), channel_id=7\n ROOT z = f32[] constant(0) }\n"
        "fails { t = token[] parameter(0)\n f = f32[] constant(1)\n o = token[] outfeed(f, t), outfeed_shape=f32[]\n"
        " ROOT z = f32[] constant(0) }\n"
        "ENTRY e { t = token[] after-all()\n u = u32[] partition-id()\n b = s32[] convert(u)\n"
        " ROOT r = f32[] conditional(b, t, t, t), branch_computations={wait, bring, fails} }\n";
    for (int round = 0; round < 20; round++) {
        Sequence sequence = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
        const HloEvalHost host = {.send = fail_to_send, .receive = receive_after_failure, .context = &sequence};
        HloLiteral *results[3] = {NULL};
        HloStatus status = run_devices(text, 3, NULL, &(HloEvalOptions){.host = &host, .thread_count = 3}, results);
        expect_error(status, HLO_ABORTED, "the host has gone");
    }
}
