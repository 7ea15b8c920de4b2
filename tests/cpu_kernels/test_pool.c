// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "targets/cpu/pool.h"
#include "tests/support/child.h"

enum { kCount = 10007 };

typedef struct Cover {
    CpuPool *pool;
    int workers;
    _Atomic int touched[kCount];
} Cover;

static void touch(void *argument, int64_t begin, int64_t end, int worker) {
    Cover *cover = argument;
    cr_assert(worker >= 0 && worker < cover->workers);
    for (int64_t i = begin; i < end; i++) atomic_fetch_add(&cover->touched[i], 1);
}

static void check_all_touched(Cover *cover, int times) {
    for (int i = 0; i < kCount; i++) cr_assert_eq(cover->touched[i], times, "index %d: %d", i, cover->touched[i]);
}

static void check_all_forms(CpuPool *pool) {
    static Cover cover;
    memset(&cover, 0, sizeof cover);
    cover.pool = pool;
    cover.workers = cpu_pool_worker_count(pool);
    cpu_pool_parallel_for(pool, kCount, touch, &cover);
    cpu_pool_parallel_for_grain(pool, kCount, 100, touch, &cover);
    cpu_pool_parallel_claim(pool, kCount, touch, &cover);
    cpu_pool_parallel_for(pool, 0, touch, &cover);
    check_all_touched(&cover, 3);
}

ParameterizedTestParameters(cpu_pool, covers_every_index_once) {
    static int workers[] = {1, 2, 3, 8};
    return cr_make_param_array(int, workers, 4);
}

ParameterizedTest(int *workers, cpu_pool, covers_every_index_once) {
    CpuPool *pool;
    cr_assert_null(cpu_pool_new_with(*workers, CPU_FEATURES_AMX, &pool));
    cr_assert_eq(cpu_pool_worker_count(pool), *workers);
    for (int round = 0; round < 20; round++) check_all_forms(pool);
    cpu_pool_free(pool);
}

Test(cpu_pool, runs_inline_without_a_pool) {
    check_all_forms(NULL);
}

static void nest(void *argument, int64_t begin, int64_t end, int worker) {
    Cover *cover = argument;
    (void)worker;
    for (int64_t i = begin; i < end; i++) cpu_pool_parallel_for(cover->pool, kCount, touch, cover);
}

Test(cpu_pool, runs_nested_calls_inline) {
    static Cover cover;
    cr_assert_null(cpu_pool_new_with(4, CPU_FEATURES_BASELINE, &cover.pool));
    cover.workers = 4;
    cpu_pool_parallel_for_grain(cover.pool, 6, 1, nest, &cover);
    check_all_touched(&cover, 6);
    cpu_pool_free(cover.pool);
}

static void *call_from_thread(void *argument) {
    for (int i = 0; i < 50; i++) cpu_pool_parallel_for(((Cover *)argument)->pool, kCount, touch, argument);
    return NULL;
}

Test(cpu_pool, serves_several_threads_at_once) {
    static Cover cover;
    cr_assert_null(cpu_pool_new_with(3, CPU_FEATURES_BASELINE, &cover.pool));
    cover.workers = 3;
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) pthread_create(&threads[i], NULL, call_from_thread, &cover);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    check_all_touched(&cover, 150);
    cpu_pool_free(cover.pool);
}

Test(cpu_pool, starts_threads_again_after_fork) {
    CpuPool *pool;
    cr_assert_null(cpu_pool_new_with(3, CPU_FEATURES_BASELINE, &pool));
    check_all_forms(pool);
    const pid_t child = fork();
    if (child == 0) {
        check_all_forms(pool);
        cpu_pool_free(pool);
        child_exit(0);
    }
    cr_assert(child_succeeds(child));
    check_all_forms(pool);
    cpu_pool_free(pool);
}

Test(cpu_pool, keeps_scratch_memory) {
    CpuPool *pool;
    cr_assert_null(cpu_pool_new_with(2, CPU_FEATURES_BASELINE, &pool));
    void *first = cpu_pool_scratch_take(pool, 1000);
    cr_assert_not_null(first);
    cpu_pool_scratch_give(pool, first);
    cr_assert_eq(cpu_pool_scratch_take(pool, 900), first);
    cpu_pool_scratch_give(pool, first);
    cr_assert_null(cpu_pool_scratch_take(pool, SIZE_MAX - 8));
    cpu_pool_free(pool);
}

Test(cpu_pool, refuses_bad_variables) {
    CpuPool *pool;
    setenv("MESHLO_NUM_THREADS", "two", 1);
    HloStatus status = cpu_pool_new(&pool);
    cr_assert_eq(hlo_status_code(status), HLO_INVALID_ARGUMENT);
    hlo_status_free(status);
    setenv("MESHLO_NUM_THREADS", "5", 1);
    setenv("MESHLO_CPU_FEATURES", "sse9", 1);
    status = cpu_pool_new(&pool);
    cr_assert_eq(hlo_status_code(status), HLO_INVALID_ARGUMENT);
    hlo_status_free(status);
    setenv("MESHLO_CPU_FEATURES", "baseline", 1);
    cr_assert_null(cpu_pool_new(&pool));
    cr_assert_eq(cpu_pool_worker_count(pool), 5);
    cr_assert_eq(cpu_pool_features(pool), CPU_FEATURES_BASELINE);
    cpu_pool_free(pool);
}
