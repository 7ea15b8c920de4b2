// SPDX-License-Identifier: Apache-2.0
// The client: buffers, donation, errors that travel, order, forks, mismatched collectives, lack of memory.
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/cpu/increment.h"
#include "tests/support/child.h"
#include "tests/support/compiled.h"

static TargetClient *new_client(const char *spec) {
    TargetClient *client = NULL;
    must_succeed(target_client_new_with_threads(spec, 2, &client));
    return client;
}

static TargetBuffer *vector(TargetClient *client, int64_t device, int64_t count, float first) {
    float values[64];
    for (int64_t i = 0; i < count; i++) values[i] = first + (float)i;
    const TargetHostArray array = {values, HLO_F32, 1, &count, NULL};
    TargetBuffer *buffer = NULL;
    must_succeed(
        target_buffer_from_host(&array, target_device_default_memory(target_client_device(client, device)), &buffer));
    return buffer;
}

static float first_of(TargetBuffer *buffer) {
    float value = 0;
    must_succeed(target_buffer_to_host_raw(buffer, &value, 0, sizeof value));
    return value;
}

// One device, one argument, one result.
static HloStatus run_one(TargetExecutable *executable, TargetBuffer *argument, TargetBuffer **result) {
    TargetBuffer *const list[1] = {argument};
    TargetBuffer *const *const lists[1] = {list};
    TargetBuffer **const results[1] = {result};
    return target_execute(executable, NULL, lists, 1, results, NULL);
}

// ---- clients and buffers

// bug: the function aborted instead of returning an error, as targets/client.h promises.
Test(client, bug_a_client_without_a_name_is_that_of_the_environment) {
    for (int i = 0; i < 2; i++) {
        unsetenv("MESHLO_TOPOLOGY");
        TargetClient *client = new_client(i ? "" : NULL);
        cr_assert_str_eq(target_client_spec(client), "cpu:1");
        target_client_release(client);
        setenv("MESHLO_TOPOLOGY", "cpu:3", 1);
        client = new_client(i ? "" : NULL);
        cr_assert_eq(target_client_device_count(client), 3);
        target_client_release(client);
    }
    unsetenv("MESHLO_TOPOLOGY");
}

Test(client, lists_the_devices_of_a_slice) {
    TargetClient *client = new_client("v2-8");
    cr_expect_eq(target_client_device_count(client), 8);
    cr_expect_str_eq(target_client_platform(client), "tpu");
    const TargetDevice *device = target_client_device(client, 3);
    cr_expect_str_eq(device->text, "TpuDevice(id=3, process_index=0, coords=(1,0,0), core_on_chip=1)");
    cr_expect_str_eq(device->debug_text, "TPU_3(process=0,(1,0,0,1))");
    cr_expect_eq(target_client_find_device(client, 3), device);
    cr_expect_null(target_client_find_device(client, 99));
    cr_expect_eq(target_client_numerics(client), TARGET_NUMERICS_TPU);
    cr_expect_str_eq(target_device_memory(device, TARGET_MEMORY_PINNED_HOST)->kind, "pinned_host");
    target_client_release(client);
}

Test(client, names_unknown_machines) {
    TargetClient *client = NULL;
    const HloStatus status = target_client_new("v99-8", &client);
    cr_assert_not_null(status);
    cr_expect_eq(hlo_status_code(status), HLO_INVALID_ARGUMENT);
    hlo_status_free(status);
}

Test(buffer, keeps_strided_arrays) {
    TargetClient *client = new_client("cpu:1");
    const int32_t values[6] = {1, 2, 3, 4, 5, 6};
    const int64_t dims[2] = {3, 2}, strides[2] = {4, 12}, column_major[2] = {0, 1};
    const TargetHostArray array = {values, HLO_S32, 2, dims, strides};
    TargetBuffer *buffer = NULL;
    must_succeed(
        target_buffer_from_host(&array, target_device_default_memory(target_client_device(client, 0)), &buffer));
    int32_t row_major[6], transposed[6];
    must_succeed(target_buffer_to_host(buffer, row_major, sizeof row_major, NULL));
    must_succeed(target_buffer_to_host(buffer, transposed, sizeof transposed, column_major));
    const int32_t expected[6] = {1, 4, 2, 5, 3, 6};
    cr_expect_arr_eq(row_major, expected, sizeof expected);
    cr_expect_arr_eq(transposed, values, sizeof values);
    must_fail(target_buffer_to_host(buffer, row_major, 8, NULL), HLO_INVALID_ARGUMENT, "8 bytes");
    target_buffer_delete(buffer);
    must_fail(target_buffer_to_host(buffer, row_major, sizeof row_major, NULL), HLO_INVALID_ARGUMENT, "deleted");
    target_buffer_release(buffer);
    target_client_release(client);
}

// bug: copies of arrays without elements visited every empty row.
Test(buffer, bug_an_empty_array_of_huge_dimensions) {
    TargetClient *client = new_client("cpu:1");
    TargetMemory *memory = target_device_default_memory(target_client_device(client, 0));
    const int64_t dims[2] = {(int64_t)1 << 50, 0}, strides[2] = {-8, 4}, order[2] = {0, 1};
    const TargetHostArray array = {NULL, HLO_F32, 2, dims, strides};
    TargetBuffer *buffer = NULL;
    must_succeed(target_buffer_from_host(&array, memory, &buffer));
    char nothing;
    must_succeed(target_buffer_to_host(buffer, &nothing, 0, order));
    target_buffer_release(buffer);
    target_client_release(client);
}

// bug: each of them was read from, or had a size that no client can allocate.
Test(buffer, bug_arrays_that_are_not_there_or_have_no_size) {
    TargetClient *client = new_client("cpu:1");
    TargetMemory *memory = target_device_default_memory(target_client_device(client, 0));
    const int64_t four = 4, unbounded = HLO_UNBOUNDED;
    TargetBuffer *buffer = NULL, *cast = NULL;
    must_fail(target_buffer_from_host(&(TargetHostArray){NULL, HLO_F32, 1, &four, NULL}, memory, &buffer),
              HLO_INVALID_ARGUMENT, "16 bytes at address zero");
    const HloShape endless = {.type = HLO_F32, .rank = 1, .dims = &unbounded};
    must_fail(target_buffer_uninitialized(&endless, memory, &buffer), HLO_INVALID_ARGUMENT, "dimension 0 has no size");
    must_fail(target_buffer_pending(&endless, memory, &buffer), HLO_INVALID_ARGUMENT, "dimension 0 has no size");
    const HloShape bounded = {.type = HLO_F32, .rank = 1, .dims = &four, .dynamic = (const bool[]){true}};
    buffer = vector(client, 0, 4, 0);
    must_fail(target_buffer_bitcast(buffer, &bounded, &cast), HLO_UNIMPLEMENTED, "dynamic size");
    target_buffer_release(buffer);
    target_client_release(client);
}

// bug: JAX's int4 arrays were read as 0..15 instead of -8..7.
Test(buffer, extends_narrow_integers_of_the_host) {
    TargetClient *client = new_client("cpu:1");
    const uint8_t values[4] = {0x01, 0x0E, 0xF7, 0x88};
    const int8_t expected[2][4] = {{1, -2, 7, -8}, {1, 14, 7, 8}};
    const HloType types[2] = {HLO_S4, HLO_U4};
    const int64_t count = 4;
    for (int i = 0; i < 2; i++) {
        const TargetHostArray array = {values, types[i], 1, &count, NULL};
        TargetBuffer *buffer = NULL;
        int8_t back[4];
        must_succeed(
            target_buffer_from_host(&array, target_device_default_memory(target_client_device(client, 0)), &buffer));
        must_succeed(target_buffer_to_host(buffer, back, sizeof back, NULL));
        cr_expect_arr_eq(back, expected[i], sizeof back, "%s", hlo_type_text(types[i]));
        target_buffer_release(buffer);
    }
    target_client_release(client);
}

Test(buffer, counts_the_memory_of_its_device) {
    TargetClient *client = new_client("cpu:2");
    TargetBuffer *buffer = vector(client, 1, 4, 0);
    TargetMemoryStatistics statistics;
    target_device_memory_statistics(target_client_device(client, 1), &statistics);
    cr_expect_eq(statistics.bytes_in_use, 16);
    cr_expect_eq(statistics.allocation_count, 1);
    target_buffer_release(buffer);
    target_device_memory_statistics(target_client_device(client, 1), &statistics);
    cr_expect_eq(statistics.bytes_in_use, 0);
    cr_expect_eq(statistics.peak_bytes_in_use, 16);
    target_client_release(client);
}

static void count_call(HloStatus status, void *argument) {
    hlo_status_free(status);
    ++*(int *)argument;
}

Test(event, calls_back_once_before_and_after) {
    TargetEvent *event = target_event_new();
    int calls = 0;
    must_succeed(target_event_on_ready(event, count_call, &calls));
    cr_expect_eq(calls, 0);
    target_event_set(event, hlo_error(HLO_ABORTED, "no"));
    cr_expect_eq(calls, 1);
    must_succeed(target_event_on_ready(event, count_call, &calls));
    cr_expect_eq(calls, 2);
    must_fail(target_event_wait(event), HLO_ABORTED, "no");
    target_event_release(event);
}

// ---- execution

Test(execute, donates_memory_in_place) {
    TargetClient *client = new_client("cpu:1");
    TargetExecutable *executable = compiled_must_compile(client, kDonated, NULL);
    cr_expect_eq(target_executable_result_alias(executable, 0), 0);
    TargetBuffer *buffer = vector(client, 0, 4, 5), *result = NULL;
    const void *before, *after;
    must_succeed(target_buffer_data(buffer, &before));
    must_succeed(run_one(executable, buffer, &result));
    cr_expect(target_buffer_is_deleted(buffer));
    must_succeed(target_buffer_data(result, &after));
    cr_expect_eq(before, after);
    cr_expect_float_eq(first_of(result), 6, 0);
    TargetBuffer *none = NULL;
    must_fail(run_one(executable, buffer, &none), HLO_INVALID_ARGUMENT, "deleted or donated");
    target_buffer_release(buffer);
    target_buffer_release(result);
    target_executable_release(executable);
    target_client_release(client);
}

// A donor is consumed only if some result can take its memory; JAX's users keep the others.
Test(execute, keeps_donors_that_no_result_can_take) {
    TargetClient *client = new_client("cpu:1");
    static const char *const programs[] = {
        "HloModule fits, buffer_donor={ (0, {}) }\nENTRY main {\n  p = f32[4] parameter(0)\n"
        "  ROOT r = f32[2,2] reshape(p)\n}\n",
        "HloModule small, buffer_donor={ (0, {}) }\nENTRY main {\n  p = f32[4] parameter(0)\n"
        "  ROOT r = f32[2] slice(p), slice={[1:3]}\n}\n"};
    for (int i = 0; i < 2; i++) {
        TargetExecutable *executable = compiled_must_compile(client, programs[i], NULL);
        TargetBuffer *buffer = vector(client, 0, 4, 5), *result = NULL;
        must_succeed(run_one(executable, buffer, &result));
        cr_expect_eq(target_buffer_is_deleted(buffer), i == 0);
        cr_expect_eq(target_executable_argument_is_donated(executable, 0), i == 0);
        target_buffer_release(buffer);
        target_buffer_release(result);
        target_executable_release(executable);
    }
    target_client_release(client);
}

Test(compile, tells_what_a_program_costs) {
    TargetClient *client = new_client("cpu:8");
    TargetExecutable *executable =
        compiled_must_compile(client,
                              "HloModule cost, num_partitions=8\n"
                              "sum { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT a = f32[] add(x, y) }\n"
                              "ENTRY main {\n  p = f32[8,16] parameter(0)\n  q = f32[16,4] parameter(1)\n"
                              "  d = f32[8,4] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
                              "  ROOT r = f32[8,4] all-reduce(d), channel_id=1, replica_groups=[2,4]<=[8], "
                              "use_global_device_ids=true, to_apply=sum\n}\n",
                              NULL);
    TargetCostAnalysis cost;
    target_executable_cost_analysis(executable, &cost);
    cr_expect_geq(cost.flops, 2.0 * 8 * 4 * 16);
    cr_expect_eq(cost.collective_count, 1);
    cr_expect_float_eq(cost.collective_bytes, 2 * 0.75 * 128, 0);
    TargetMemoryAnalysis memory;
    target_executable_memory_analysis(executable, &memory);
    cr_expect_eq(memory.argument_bytes, 768);
    cr_expect_eq(memory.output_bytes, 128);
    target_executable_release(executable);
    target_client_release(client);
}

Test(execute, does_not_reuse_a_referenced_buffer_when_donated) {
    TargetClient *client = new_client("cpu:1");
    TargetExecutable *executable = compiled_must_compile(client, kDonated, NULL);
    TargetBuffer *buffer = vector(client, 0, 4, 5), *result = NULL;
    const float *data;
    must_succeed(target_buffer_data(buffer, (const void **)&data));
    target_buffer_hold_external(buffer);
    must_succeed(run_one(executable, buffer, &result));
    cr_expect_float_eq(first_of(result), 6, 0);
    cr_expect_float_eq(data[0], 5, 0);
    target_buffer_drop_external(buffer);
    target_buffer_release(buffer);
    target_buffer_release(result);
    target_executable_release(executable);
    target_client_release(client);
}

Test(execute, refuses_a_buffer_that_is_donated_and_read) {
    TargetClient *client = new_client("cpu:1");
    TargetExecutable *executable = compiled_must_compile(
        client,
        "HloModule two, input_output_alias={ {}: (0, {}, may-alias) }\n"
        "ENTRY main {\n  p = f32[4] parameter(0)\n  q = f32[4] parameter(1)\n  ROOT r = f32[4] add(p, q)\n}\n",
        NULL);
    TargetBuffer *buffer = vector(client, 0, 4, 5), *result = NULL;
    TargetBuffer *const list[2] = {buffer, buffer};
    TargetBuffer *const *const lists[1] = {list};
    TargetBuffer **const results[1] = {&result};
    must_fail(target_execute(executable, NULL, lists, 2, results, NULL), HLO_INVALID_ARGUMENT, "same buffer");
    cr_expect_not(target_buffer_is_deleted(buffer));
    target_buffer_release(buffer);
    target_executable_release(executable);
    target_client_release(client);
}

Test(execute, checks_arguments_by_name) {
    TargetClient *client = new_client("cpu:2");
    TargetExecutable *executable = compiled_must_compile(client, kIncrement, NULL);
    TargetBuffer *five = vector(client, 0, 5, 0), *elsewhere = vector(client, 1, 4, 0), *result = NULL;
    must_fail(run_one(executable, five, &result), HLO_INVALID_ARGUMENT, "f32[5]");
    must_fail(run_one(executable, elsewhere, &result), HLO_INVALID_ARGUMENT, "CpuDevice(id=1)");
    must_fail(run_one(executable, NULL, &result), HLO_INVALID_ARGUMENT, "missing");
    target_executable_delete(executable);
    must_fail(run_one(executable, five, &result), HLO_FAILED_PRECONDITION, "deleted");
    target_buffer_release(five);
    target_buffer_release(elsewhere);
    target_executable_release(executable);
    target_client_release(client);
}

Test(execute, passes_errors_on) {
    TargetClient *client = new_client("cpu:1");
    TargetExecutable *executable = compiled_must_compile(client, kIncrement, NULL);
    TargetBuffer *good = vector(client, 0, 4, 0), *bad = NULL, *result = NULL;
    must_succeed(target_buffer_from_error(target_buffer_shape(good), target_buffer_memory(good),
                                          hlo_error(HLO_DATA_LOSS, "a lost shard"), &bad));
    must_succeed(run_one(executable, bad, &result));
    TargetBuffer *second = NULL;
    must_succeed(run_one(executable, result, &second));
    float value;
    must_fail(target_buffer_to_host_raw(second, &value, 0, 4), HLO_DATA_LOSS, "a lost shard");
    target_buffer_release(good);
    target_buffer_release(bad);
    target_buffer_release(result);
    target_buffer_release(second);
    target_executable_release(executable);
    target_client_release(client);
}

// A step that keeps the thread busy, so that the following ones wait in the queue.
static const char kSlow[] =
    "HloModule slow, input_output_alias={ {}: (0, {}, may-alias) }\n"
    "cond { s = (s32[], f32[4]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n n = s32[] constant(2000)\n"
    " ROOT c = pred[] compare(i, n), direction=LT }\n"
    "body { s = (s32[], f32[4]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n one = s32[] constant(1)\n"
    " j = s32[] add(i, one)\n v = f32[4] get-tuple-element(s), index=1\n w = f32[4] cosine(v)\n"
    " ROOT t = (s32[], f32[4]) tuple(j, w) }\n"
    "ENTRY main {\n  p = f32[4] parameter(0)\n  z = s32[] constant(0)\n  t = (s32[], f32[4]) tuple(z, p)\n"
    "  l = (s32[], f32[4]) while(t), condition=cond, body=body\n  v = f32[4] get-tuple-element(l), index=1\n"
    "  c = f32[] constant(1)\n  b = f32[4] broadcast(c), dimensions={}\n  h = f32[4] floor(v)\n"
    "  g = f32[4] add(b, h)\n  ROOT r = f32[4] add(p, g)\n}\n";

Test(execute, keeps_the_order_of_donated_chains) {
    TargetClient *client = new_client("cpu:1");
    TargetExecutable *slow = compiled_must_compile(client, kSlow, NULL),
                     *increment = compiled_must_compile(client, kDonated, NULL);
    TargetBuffer *buffer = vector(client, 0, 4, 0);
    for (int i = 0; i < 200; i++) {
        TargetBuffer *next = NULL;
        must_succeed(run_one(i % 50 == 0 ? slow : increment, buffer, &next));
        target_buffer_release(buffer);
        buffer = next;
    }
    cr_expect_float_eq(first_of(buffer), 200, 0);
    target_buffer_release(buffer);
    target_executable_release(slow);
    target_executable_release(increment);
    target_client_release(client);
}

// Much work on twice the argument; at the end, argument + 1 in the argument's memory.
static TargetExecutable *compile_long(TargetClient *client, int count) {
    HloText text = {0};
    hlo_text_format(&text,
                    "HloModule long, input_output_alias={ {}: (0, {}, may-alias) }\n"
                    "less {\n x = f32[] parameter(0)\n y = f32[] parameter(1)\n"
                    " ROOT z = pred[] compare(x, y), direction=LT\n}\nENTRY main {\n p = f32[%d] parameter(0)\n"
                    " work0 = f32[%d] concatenate(p, p), dimensions={0}\n",
                    count, 2 * count);
    enum { kRounds = 300 };
    for (int i = 0; i < kRounds; i++)
        hlo_text_format(&text,
                        " value%d = f32[%d] cosine(work%d)\n"
                        " work%d = f32[%d] sort(value%d), dimensions={0}, to_apply=less\n",
                        i, 2 * count, i, i + 1, 2 * count, i);
    hlo_text_format(&text,
                    " first = f32[1] slice(work%d), slice={[0:1]}\n scalar = f32[] reshape(first)\n"
                    " ceiling = f32[] ceil(scalar)\n one = f32[%d] broadcast(ceiling), dimensions={}\n"
                    " ROOT r = f32[%d] add(p, one)\n}\n",
                    kRounds, count, count);
    TargetExecutable *executable = compiled_must_compile(client, text.data, NULL);
    cr_assert_eq(target_executable_result_alias(executable, 0), 0);
    hlo_text_free(&text);
    return executable;
}

static int64_t context_switches(void) {
    struct rusage usage;
    cr_assert_eq(getrusage(RUSAGE_SELF, &usage), 0);
    return usage.ru_nvcsw;
}

// bug: once a large program had run on the queue's thread, each small one woke that thread, which then found nothing.
Test(execute, bug_small_programs_woke_the_thread_of_large_ones) {
    enum { kPrograms = 2000 };
    TargetClient *client = new_client("cpu:1");
    TargetExecutable *large = compile_long(client, 32), *small = compiled_must_compile(client, kIncrement, NULL);
    TargetBuffer *argument = vector(client, 0, 32, 0), *buffer = vector(client, 0, 4, 0), *result = NULL;
    must_succeed(run_one(large, argument, &result));
    (void)first_of(result);
    const int64_t before = context_switches();
    for (int i = 0; i < kPrograms; i++) {
        TargetBuffer *next = NULL;
        must_succeed(run_one(small, buffer, &next));
        target_buffer_release(buffer);
        buffer = next;
    }
    cr_expect_float_eq(first_of(buffer), kPrograms, 0);
    cr_expect_lt(context_switches() - before, kPrograms / 4);
    target_buffer_release(argument);
    target_buffer_release(buffer);
    target_buffer_release(result);
    target_executable_release(large);
    target_executable_release(small);
    target_client_release(client);
}

// Equal arrays of the host share memory; but not with one that was given away to a program, which writes over it.
Test(execute, bug_an_equal_array_outlives_a_donation) {
    enum { kCount = 4096 };
    TargetClient *client = new_client("cpu:1");
    TargetExecutable *slow = compile_long(client, kCount);
    const float values[kCount] = {0};
    const int64_t count = kCount;
    const TargetHostArray array = {values, HLO_F32, 1, &count, NULL};
    TargetMemory *memory = target_device_default_memory(target_client_device(client, 0));
    TargetBuffer *donated = NULL, *same = NULL, *result = NULL;
    must_succeed(target_buffer_from_host(&array, memory, &donated));
    must_succeed(run_one(slow, donated, &result));
    usleep(2000);  // it has begun, most likely; the numbers must be right in any case
    must_succeed(target_buffer_from_host(&array, memory, &same));
    cr_expect_float_eq(first_of(result), 1, 0);
    cr_expect_float_eq(first_of(same), 0, 0);
    target_buffer_release(donated);
    target_buffer_release(same);
    target_buffer_release(result);
    target_executable_release(slow);
    target_client_release(client);
}

// A copy requested before a donation has the content from before the donation, whenever it is made.
Test(execute, bug_a_copy_asked_for_before_a_donation) {
    enum { kCount = 4096 };
    TargetClient *client = new_client("cpu:1");
    TargetExecutable *slow = compile_long(client, kCount);
    static float values[kCount], copy[kCount];
    const int64_t count = kCount;
    const TargetHostArray array = {values, HLO_F32, 1, &count, NULL};
    TargetMemory *memory = target_device_default_memory(target_client_device(client, 0));
    TargetBuffer *first = NULL, *second = NULL, *third = NULL;
    TargetEvent *copied = NULL;
    must_succeed(target_buffer_from_host(&array, memory, &first));
    must_succeed(run_one(slow, first, &second));
    must_succeed(target_buffer_to_host_async(second, copy, sizeof copy, NULL, &copied));
    must_succeed(run_one(slow, second, &third));
    TargetEvent *late = NULL;
    must_fail(target_buffer_to_host_async(second, copy, sizeof copy, NULL, &late), HLO_INVALID_ARGUMENT, "donated");
    must_fail(target_buffer_to_host_async(third, copy, 4, NULL, &late), HLO_INVALID_ARGUMENT, "4 bytes");
    cr_expect_float_eq(first_of(third), 2, 0);
    must_succeed(target_event_wait(copied));
    cr_expect_float_eq(copy[0], 1, 0);
    cr_expect_float_eq(copy[kCount - 1], 1, 0);
    target_event_release(copied);
    target_buffer_release(first);
    target_buffer_release(second);
    target_buffer_release(third);
    target_executable_release(slow);
    target_client_release(client);
}

// A launch that fails before it has claimed all of its arguments releases those that it has claimed.
Test(execute, bug_claims_of_a_failed_launch) {
    static const char kSum[] =
        "HloModule sum\nENTRY main {\n  p = f32[4] parameter(0)\n  q = f32[4] parameter(1)\n"
        "  ROOT r = f32[4] add(p, q)\n}\n";
    TargetClient *client = new_client("cpu:1");
    TargetExecutable *executable = compiled_must_compile(client, kSum, NULL);
    TargetBuffer *content = vector(client, 0, 4, 1), *bad = NULL, *pending = NULL, *result = NULL;
    TargetDevice *device = target_client_device(client, 0);
    TargetMemory *memory = target_device_default_memory(device);
    must_succeed(
        target_buffer_from_error(target_buffer_shape(content), memory, hlo_error(HLO_DATA_LOSS, "lost"), &bad));
    must_succeed(target_buffer_pending(target_buffer_shape(content), memory, &pending));
    TargetBuffer *const list[2] = {bad, pending};
    TargetBuffer *const *const lists[1] = {list};
    TargetBuffer **const results[1] = {&result};
    must_succeed(target_execute(executable, NULL, lists, 2, results, NULL));
    float value;
    must_fail(target_buffer_to_host_raw(result, &value, 0, sizeof value), HLO_DATA_LOSS, "lost");
    target_client_synchronize(client);
    target_buffer_delete(pending);
    must_succeed(target_buffer_fulfil(pending, content));
    target_buffer_release(content);
    TargetMemoryStatistics statistics;
    target_device_memory_statistics(device, &statistics);
    cr_expect_eq(statistics.bytes_in_use, 0, "%lld bytes stay", (long long)statistics.bytes_in_use);
    target_buffer_release(pending);
    target_buffer_release(bad);
    target_buffer_release(result);
    target_executable_release(executable);
    target_client_release(client);
}

typedef struct Waiter {
    TargetExecutable *executable;
    TargetBuffer *argument, *later;
    TargetEvent *done;
    float waited, launched;
} Waiter;

// Waits for all that was queued before it, and then for a launch of its own.
static void wait_in_callback(HloStatus status, void *argument) {
    Waiter *waiter = argument;
    hlo_status_free(status);
    waiter->waited = first_of(waiter->later);
    TargetBuffer *const list[1] = {waiter->argument};
    TargetBuffer *const *const lists[1] = {list};
    TargetBuffer *result = NULL, **const results[1] = {&result};
    const TargetExecuteOptions options = {.synchronous = true};
    must_succeed(target_execute(waiter->executable, &options, lists, 1, results, NULL));
    waiter->launched = first_of(result);
    target_buffer_release(result);
    target_client_synchronize(target_executable_client(waiter->executable));
    target_event_set(waiter->done, HLO_SUCCESS);
}

// bug: the queue's thread waited for itself. Callbacks may call any function.
Test(execute, bug_a_callback_that_waits_for_a_later_task) {
    TargetClient *client = new_client("cpu:1");
    TargetExecutable *increment = compiled_must_compile(client, kIncrement, NULL);
    TargetBuffer *content = vector(client, 0, 4, 1), *pending = NULL, *first = NULL, *second = NULL, *third = NULL;
    must_succeed(target_buffer_pending(target_buffer_shape(content), target_buffer_memory(content), &pending));
    must_succeed(run_one(increment, pending, &first));
    must_succeed(run_one(increment, first, &second));
    must_succeed(run_one(increment, second, &third));
    Waiter waiter = {increment, content, second, target_event_new(), 0, 0};
    TargetEvent *ready = target_buffer_ready_event(first);
    must_succeed(target_event_on_ready(ready, wait_in_callback, &waiter));
    must_succeed(target_buffer_fulfil(pending, content));
    cr_assert(target_event_wait_for(waiter.done, 60000), "the queue waits for itself");
    cr_expect_float_eq(waiter.waited, 3, 0);
    cr_expect_float_eq(waiter.launched, 2, 0);
    cr_expect_float_eq(first_of(third), 4, 0);
    target_event_release(waiter.done);
    target_event_release(ready);
    target_buffer_release(pending);
    target_buffer_release(content);
    target_buffer_release(first);
    target_buffer_release(second);
    target_buffer_release(third);
    target_executable_release(increment);
    target_client_release(client);
}

typedef struct Shares {
    double last;
    int64_t count;
    bool falls;
} Shares;

static void take_share(void *context, double share) {
    Shares *shares = context;
    shares->falls |= share < shares->last || share > 1;
    shares->last = share;
    shares->count++;
}

// Loops of a known and of an unknown number of iterations, and branches: the share of one device rises to 1.
Test(execute, progress_rises_to_one) {
    static const char *const programs[] = {
        kIncrement, kSlow,
        "HloModule m\n"
        "none {\n x = f32[4] parameter(0)\n ROOT y = f32[4] subtract(x, x)\n}\n"
        "less {\n x = f32[4] parameter(0)\n ROOT y = f32[4] sine(x)\n}\n"
        "body {\n p = (f32[4]) parameter(0)\n x = f32[4] get-tuple-element(p), index=0\n s = f32[1] slice(x), "
        "slice={[0:1]}\n f = f32[] reshape(s)\n c = f32[] constant(0.8)\n l = pred[] compare(f, c), direction=LT\n y = "
        "f32[4] conditional(l, x, x), true_computation=none, false_computation=less\n ROOT t = (f32[4]) tuple(y)\n}\n"
        "more {\n p = (f32[4]) parameter(0)\n x = f32[4] get-tuple-element(p), index=0\n s = f32[1] slice(x), "
        "slice={[0:1]}\n f = f32[] reshape(s)\n c = f32[] constant(0.5)\n ROOT l = pred[] compare(f, c), "
        "direction=GT\n}\n"
        "ENTRY e {\n x = f32[4] parameter(0)\n t = (f32[4]) tuple(x)\n w = (f32[4]) while(t), condition=more, "
        "body=body\n ROOT y = f32[4] get-tuple-element(w), index=0\n}\n"};
    for (size_t i = 0; i < HLO_COUNT_OF(programs); i++) {
        TargetClient *client = new_client("cpu:1");
        TargetExecutable *executable = compiled_must_compile(client, programs[i], NULL);
        TargetBuffer *argument = vector(client, 0, 4, 1), *result = NULL;
        TargetBuffer *const list[1] = {argument};
        TargetBuffer *const *const lists[1] = {list};
        TargetBuffer **const results[1] = {&result};
        Shares shares = {0};
        const TargetProgress progress = {take_share, &shares};
        const TargetExecuteOptions options = {.synchronous = true, .progress = &progress};
        must_succeed(target_execute(executable, &options, lists, 1, results, NULL));
        cr_expect(shares.count > 0 && !shares.falls && shares.last > 0.999, "%zu: %g after %lld", i, shares.last,
                  (long long)shares.count);
        target_buffer_release(result);
        target_buffer_release(argument);
        target_executable_release(executable);
        target_client_release(client);
    }
}

// A loop costs as much as all of its iterations: that decides whether a program runs on the caller's thread.
Test(compile, bug_loops_cost_one_round) {
    TargetClient *client = new_client("cpu:1");
    TargetExecutable *slow = compiled_must_compile(client, kSlow, NULL);
    char *text = target_executable_to_text(slow);
    const char *loop = strstr(text, "while %"), *cost = loop ? strstr(loop, " cost ") : NULL;
    cr_assert(cost, "%s", text);
    cr_expect_geq(strtod(cost + strlen(" cost "), NULL), 2000, "%s", text);
    hlo_free(text);
    target_executable_release(slow);
    target_client_release(client);
}

static void signal_event(HloStatus status, void *argument) {
    hlo_status_free(status);
    target_event_set(argument, HLO_SUCCESS);
}

Test(execute, outlives_the_client_of_its_caller) {
    TargetClient *client = new_client("cpu:1");
    TargetExecutable *slow = compiled_must_compile(client, kSlow, NULL);
    TargetBuffer *buffer = vector(client, 0, 4, 0), *first = NULL, *second = NULL;
    TargetEvent *done = target_event_new();
    must_succeed(run_one(slow, buffer, &first));
    must_succeed(run_one(slow, first, &second));
    TargetEvent *ready = target_buffer_ready_event(second);
    must_succeed(target_event_on_ready(ready, signal_event, done));
    target_event_release(ready);
    target_buffer_release(buffer);
    target_buffer_release(first);
    target_buffer_release(second);
    target_executable_release(slow);
    target_client_release(client);
    must_succeed(target_event_wait(done));
    target_event_release(done);
}

typedef struct Caller {
    TargetClient *client;
    const char *text;
    float result;
} Caller;

static void *call_many_times(void *argument) {
    Caller *caller = argument;
    TargetExecutable *executable = compiled_must_compile(caller->client, caller->text, NULL);
    for (int i = 0; i < 200; i++) {
        TargetBuffer *buffer = vector(caller->client, 0, 4, (float)i), *result = NULL;
        must_succeed(run_one(executable, buffer, &result));
        caller->result += first_of(result);
        target_buffer_release(buffer);
        target_buffer_release(result);
    }
    target_executable_release(executable);
    return NULL;
}

Test(execute, serves_many_threads) {
    TargetClient *client = new_client("cpu:1");
    Caller callers[4];
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        callers[i] = (Caller){client, i % 2 ? kIncrement : kDonated, 0};
        cr_assert_eq(pthread_create(&threads[i], NULL, call_many_times, &callers[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        cr_expect_float_eq(callers[i].result, 200 * 199 / 2 + 200, 0);
    }
    target_client_release(client);
}

// ---- many devices

static const char kSum[] =
    "HloModule psum, num_partitions=8\n"
    "sum { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT a = f32[] add(x, y) }\n"
    "ENTRY main {\n  p = f32[8] parameter(0)\n"
    "  ROOT r = f32[8] all-reduce(p), channel_id=1, replica_groups={{0,1,2,3,4,5,6,7}}, use_global_device_ids=true, "
    "to_apply=sum\n}\n";

Test(execute, runs_ten_thousand_queued_sums) {
    TargetClient *client = new_client("cpu:8");
    TargetExecutable *executable = compiled_must_compile(client, kSum, NULL);
    TargetBuffer *arguments[8], *outs[8];
    TargetBuffer *const *lists[8];
    TargetBuffer **results[8];
    for (int d = 0; d < 8; d++) {
        arguments[d] = vector(client, d, 8, (float)d);
        lists[d] = &arguments[d];
        results[d] = &outs[d];
    }
    for (int i = 0; i < 10000; i++) {
        must_succeed(target_execute(executable, NULL, lists, 1, results, NULL));
        for (int d = 0; d < 8 && i < 9999; d++) target_buffer_release(outs[d]);
    }
    for (int d = 0; d < 8; d++) {
        cr_expect_float_eq(first_of(outs[d]), 28, 0);
        target_buffer_release(outs[d]);
        target_buffer_release(arguments[d]);
    }
    target_executable_release(executable);
    target_client_release(client);
}

// Only devices 0 and 1 take the branch with the sum.
static const char kMismatch[] =
    "HloModule mismatch, num_partitions=4\n"
    "sum { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT a = f32[] add(x, y) }\n"
    "yes { p = f32[8] parameter(0)\n"
    " ROOT r = f32[8] all-reduce(p), channel_id=1, replica_groups={{0,1,2,3}}, use_global_device_ids=true, "
    "to_apply=sum }\n"
    "no { p = f32[8] parameter(0)\n ROOT r = f32[8] negate(p) }\n"
    "ENTRY main {\n  p = f32[8] parameter(0)\n  x = f32[] parameter(1)\n  zero = f32[] constant(0)\n"
    "  c = pred[] compare(x, zero), direction=GT\n"
    "  ROOT r = f32[8] conditional(c, p, p), true_computation=yes, false_computation=no\n}\n";

Test(execute, names_a_deadlock) {
    TargetClient *client = new_client("cpu:4");
    TargetExecutable *executable = compiled_must_compile(client, kMismatch, NULL);
    TargetBuffer *arguments[4][2], *outs[4];
    TargetBuffer *const *lists[4];
    TargetBuffer **results[4];
    for (int d = 0; d < 4; d++) {
        const float x = d < 2 ? 1 : -1;
        const TargetHostArray scalar = {&x, HLO_F32, 0, NULL, NULL};
        arguments[d][0] = vector(client, d, 8, 0);
        must_succeed(target_buffer_from_host(&scalar, target_device_default_memory(target_client_device(client, d)),
                                             &arguments[d][1]));
        lists[d] = arguments[d];
        results[d] = &outs[d];
    }
    must_succeed(target_execute(executable, NULL, lists, 2, results, NULL));
    float value;
    must_fail(target_buffer_to_host_raw(outs[3], &value, 0, 4), HLO_FAILED_PRECONDITION,
              "device 0 waits at all-reduce %r for device 2, 3");
    for (int d = 0; d < 4; d++) {
        target_buffer_release(outs[d]);
        for (int i = 0; i < 2; i++) target_buffer_release(arguments[d][i]);
    }
    target_executable_release(executable);
    target_client_release(client);
}

Test(compile, names_devices_without_a_group) {
    TargetClient *client = new_client("cpu:4");
    HloModule *module = compiled_must_parse(
        "HloModule groups, num_partitions=4\n"
        "sum { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT a = f32[] add(x, y) }\n"
        "ENTRY main {\n  p = f32[8] parameter(0)\n"
        "  ROOT r = f32[8] all-reduce(p), channel_id=1, replica_groups={{0,1}}, use_global_device_ids=true, "
        "to_apply=sum\n}\n");
    TargetExecutable *executable = NULL;
    const HloStatus status = target_compile(client, module, NULL, &executable);
    cr_assert_not_null(status);
    cr_expect_eq(hlo_status_code(status), HLO_INVALID_ARGUMENT);
    cr_expect_not_null(strstr(hlo_status_message(status), "%r"), "%s", hlo_status_message(status));
    hlo_status_free(status);
    hlo_module_free(module);
    target_client_release(client);
}

Test(compile, names_collectives_that_device_numbers_part) {
    TargetClient *client = new_client("cpu:4");
    HloModule *module = compiled_must_parse(
        "HloModule parted, num_partitions=4\n"
        "sum { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT a = f32[] add(x, y) }\n"
        "yes { p = f32[8] parameter(0)\n"
        " ROOT r = f32[8] all-reduce(p), channel_id=1, replica_groups={{0,1,2,3}}, use_global_device_ids=true, "
        "to_apply=sum }\n"
        "no { p = f32[8] parameter(0)\n ROOT q = f32[8] negate(p) }\n"
        "ENTRY main {\n  p = f32[8] parameter(0)\n  i = u32[] partition-id()\n  two = u32[] constant(2)\n"
        "  c = pred[] compare(i, two), direction=LT\n"
        "  ROOT way = f32[8] conditional(c, p, p), true_computation=yes, false_computation=no\n}\n");
    TargetExecutable *executable = NULL;
    must_fail(target_compile(client, module, NULL, &executable), HLO_FAILED_PRECONDITION,
              "all-reduce %r: device 0, 1 would wait forever for device 2, 3, which takes another branch at %way");
    hlo_module_free(module);
    target_client_release(client);
}

// ---- forks and memory

enum { kLong = 1024 };

static TargetBuffer *long_zeros(TargetClient *client) {
    static const float values[kLong];
    const int64_t count = kLong;
    const TargetHostArray array = {values, HLO_F32, 1, &count, NULL};
    TargetBuffer *buffer = NULL;
    must_succeed(
        target_buffer_from_host(&array, target_device_default_memory(target_client_device(client, 0)), &buffer));
    return buffer;
}

// Large programs start a thread of their own in the child, whose conditions must be new ones.
static int use_thread_after_fork(void *context) {
    TargetExecutable *executable = context;
    TargetBuffer *argument = long_zeros(target_executable_client(executable)), *result = NULL;
    for (int i = 0; i < 3; i++, argument = result)
        if (run_one(executable, argument, &result)) return 1;
    return first_of(result) == 3 ? 0 : 2;
}

static int use_after_fork(void *context) {
    TargetExecutable *executable = context;
    TargetBuffer *buffer = vector(target_executable_client(executable), 0, 4, 41), *result = NULL;
    if (run_one(executable, buffer, &result)) return 1;
    return first_of(result) == 42 ? 0 : 2;
}

Test(fork, child_goes_on) {
    TargetClient *client = new_client("cpu:1");
    TargetExecutable *slow = compile_long(client, kLong), *increment = compiled_must_compile(client, kIncrement, NULL);
    TargetBuffer *buffer = long_zeros(client), *small = vector(client, 0, 4, 1), *result = NULL, *after = NULL;
    must_succeed(run_one(slow, buffer, &result));
    cr_expect_float_eq(first_of(result), 1, 0);
    must_succeed(run_one(increment, small, &after));
    cr_expect_float_eq(first_of(after), 2, 0);
    cr_expect_eq(run_in_child(use_after_fork, increment), 0);
    cr_expect_eq(run_in_child(use_thread_after_fork, slow), 0);
    target_buffer_release(buffer);
    target_buffer_release(small);
    target_buffer_release(result);
    target_buffer_release(after);
    target_executable_release(slow);
    target_executable_release(increment);
    target_client_release(client);
}

// Everything from compilation to the result, with the n-th allocation failing: an error or success, never a crash.
static bool run_without_memory(TargetClient *client, const HloModule *module, TargetBuffer *buffer, int64_t countdown) {
    TargetExecutable *executable = NULL;
    TargetBuffer *result = NULL;
    hlo_allocation_fail_after(countdown);
    HloStatus status = target_compile(client, module, NULL, &executable);
    if (!status) status = run_one(executable, buffer, &result);
    float value;
    if (!status) status = target_buffer_to_host_raw(result, &value, 0, sizeof value);
    hlo_allocation_fail_after(-1);
    const bool ok = !status;
    if (status) cr_expect_eq(hlo_status_code(status), HLO_RESOURCE_EXHAUSTED, "%s", hlo_status_message(status));
    hlo_status_free(status);
    target_buffer_release(result);
    target_executable_release(executable);
    return ok;
}

Test(memory, failures_are_errors) {
    TargetClient *client = new_client("cpu:1");
    HloModule *module = compiled_must_parse(kIncrement);
    TargetBuffer *buffer = vector(client, 0, 4, 0);
    int64_t countdown = 0;
    while (!run_without_memory(client, module, buffer, countdown)) cr_assert(++countdown < 2000);
    cr_expect(countdown > 5);
    target_buffer_release(buffer);
    hlo_module_free(module);
    target_client_release(client);
}
