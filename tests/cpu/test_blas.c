// SPDX-License-Identifier: Apache-2.0
// OpenBLAS in the engine: it agrees with the evaluator and with our own kernels, it is optional, and the host process
// does not notice it. Criterion runs each test in a process of its own, so that each one opens the library, or does
// not.
#include <complex.h>
#include <criterion/criterion.h>
#include <dirent.h>
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "hlo/base/memory.h"
#include "hlo/eval/eval.h"
#include "targets/cpu/blas/blas.h"
#include "targets/cpu/dense/linalg.h"
#include "targets/cpu/dense/matrix.h"
#include "tests/support/child.h"
#include "tests/support/compiled.h"

static bool is_installed(void) {
    const CpuBlas *blas = NULL;
    hlo_status_free(cpu_blas_open(&blas));
    if (!blas) cr_log_warn("OpenBLAS (libopenblas0-pthread) is not installed");
    return blas != NULL;
}

static CpuPool *new_pool(int workers, CpuBlasChoice blas) {
    CpuPool *pool;
    cr_assert_null(cpu_pool_new_with(workers, cpu_features_detect(), &pool));
    cpu_pool_set_blas(pool, blas);
    return pool;
}

// ---- the same results

#define CALL(type, results, target, shape, options)                                   \
    "HloModule m\nENTRY e {\n  p = " type shape " parameter(0)\n  ROOT r = (" results \
    ") custom-call(p), custom_call_target=\"lapack_" target                           \
    "_ffi\", api_version=API_VERSION_TYPED_FFI, "                                     \
    "backend_config={" options "}\n}\n"

// Forms that the conventions of signs and phases make unique.
static const char *const unique_forms[] = {
    CALL("f64", "f64[2,20,12], f64[2,12], f64[2,20,12], f64[2,12,12], s32[2]", "dgesdd", "[2,20,12]",
         "mode = 83 : ui8"),
    CALL("c128", "c128[12,20], f64[12], c128[12,12], c128[12,20], s32[]", "zgesdd", "[12,20]", "mode = 83 : ui8"),
    CALL("f64", "f64[17,17], f64[17], f64[17,17], f64[17,17], s32[]", "dgesdd", "[17,17]", "mode = 78 : ui8"),
    CALL("f64", "f64[17,17], f64[16], s32[]", "dgehrd", "[17,17]", "low = 1 : i32, high = 17 : i32"),
    CALL("f64", "f64[19,19], f64[19], f64[18], f64[18], s32[]", "dsytrd", "[19,19]", "uplo = 76 : ui8"),
};

// Returns the largest difference of two results in the places of either's shape.
static double distance(const HloLiteral *a, const HloLiteral *b) {
    double worst = 0;
    for (int64_t part = 0; part < a->shape->element_count; part++) {
        const HloLiteral *x = a->elements[part], *y = b->elements[part];
        for (int64_t i = 0; i < hlo_shape_elements(x->shape); i++)
            worst = fmax(worst, cabs(hlo_literal_get_complex(x, i) - hlo_literal_get_complex(y, i)));
    }
    return worst;
}

Test(blas, rare_routines_agree_with_the_evaluator) {
    setenv("MESHLO_BLAS", "auto", 1);
    for (size_t i = 0; i < HLO_COUNT_OF(unique_forms); i++) {
        HloText message = {0};
        HloModule *module = compiled_must_parse(unique_forms[i]);
        const CompiledCheck check = {.seed = 7};
        HloLiteral *argument = compiled_random(module->entry->parameters.items[0]->shape, 7), *compiled, *evaluated;
        cr_assert(compiled_run_on_one(module, &argument, &check, &compiled, &message), "%s", message.data);
        must_succeed(hlo_evaluate(module, (const HloLiteral *const *)&argument, 1, NULL, &evaluated));
        cr_expect(distance(compiled, evaluated) < 1e-11, "%g\n%s", distance(compiled, evaluated), unique_forms[i]);
        hlo_literal_free(argument);
        hlo_literal_free(compiled);
        hlo_literal_free(evaluated);
        hlo_text_free(&message);
        hlo_module_free(module);
    }
}

// A general matrix, or a positive definite one; the same values in each type.
static void fill(HloType type, int64_t n, bool definite, void *a) {
    const CpuMatrix matrix = {.type = type};
    uint32_t state = 77;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j <= i; j++)
            for (int half = 0; half < 2; half++) {
                state = state * 1664525 + 1013904223;
                const double value = (double)(int32_t)state * 0x1p-31 + (i == j && definite ? (double)n : 0);
                cpu_matrix_set(&matrix, a, half ? j * n + i : i * n + j, value);
                if (definite) cpu_matrix_set(&matrix, a, j * n + i, value);
            }
}

// Runs everything that has two engines on the matrix, into out[0 … 7].
static void decompose(CpuPool *pool, HloType type, int64_t n, const void *a, const void *definite, char **out) {
    cr_assert_null(cpu_cholesky(pool, type, 1, n, true, out[0], definite));
    cr_assert_null(cpu_lu(pool, type, 1, n, n, out[1], (void *)out[2], NULL, NULL, a));
    cr_assert_null(cpu_qr(pool, type, 1, n, n, out[3], out[4], a));
    cr_assert_null(cpu_householder_product(pool, type, 1, n, n, n, out[5], out[3], out[4]));
    cr_assert_null(cpu_triangular_solve(pool, type, 1, n, n, true, false, false, CPU_TRANSPOSE, out[6], definite, a));
    cr_assert_null(cpu_eigh(pool, type, 1, n, true, true, out[7], out[8], NULL, definite));
}

// LAPACK's results are undefined for elements that are not finite: our own kernels compute these matrices.
Test(blas, matrices_that_are_not_finite_get_our_own_kernels) {
    enum { kSize = 24, kArrays = 9, kBytes = kSize * kSize * 16 };
    static const HloType types[] = {HLO_F32, HLO_F64, HLO_C64, HLO_C128};
    if (!is_installed()) cr_skip_test("not installed");
    static char a[kBytes], definite[kBytes], results[2][kArrays][kBytes];
    for (size_t t = 0; t < 4; t++)
        for (int bad = 0; bad < 2; bad++) {
            const CpuMatrix matrix = {.type = types[t]};
            fill(types[t], kSize, false, a);
            fill(types[t], kSize, true, definite);
            cpu_matrix_set(&matrix, a, 5 * kSize + 3, bad ? (double)INFINITY : (double)NAN);
            cpu_matrix_set(&matrix, definite, 5 * kSize + 3, bad ? (double)INFINITY : (double)NAN);
            memset(results, 0, sizeof results);
            for (int blas = 0; blas < 2; blas++) {
                char *out[kArrays];
                for (int i = 0; i < kArrays; i++) out[i] = results[blas][i];
                CpuPool *pool = new_pool(1, blas ? CPU_BLAS_OPENBLAS : CPU_BLAS_BUILTIN);
                decompose(pool, types[t], kSize, a, definite, out);
                cpu_pool_free(pool);
            }
            for (int i = 0; i < kArrays; i++)
                cr_expect(memcmp(results[0][i], results[1][i], kBytes) == 0, "type %zu, array %d", t, i);
        }
}

// The library multiplies by the reciprocals of the diagonal; where these are not normal numbers our own kernel solves.
Test(blas, faint_diagonals_get_our_own_kernel) {
    enum { kSize = 8 };
    double a[kSize * kSize] = {0}, b[kSize], x[2][kSize];
    if (!is_installed()) cr_skip_test("not installed");
    for (int i = 0; i < kSize; i++) a[i * (kSize + 1)] = i % 2 ? 0x1p-1030 : 0x1.8p1023, b[i] = i + 1;
    for (int blas = 0; blas < 2; blas++) {
        CpuPool *pool = new_pool(1, blas ? CPU_BLAS_OPENBLAS : CPU_BLAS_BUILTIN);
        cr_assert_null(
            cpu_triangular_solve(pool, HLO_F64, 1, kSize, 1, true, true, false, CPU_NO_TRANSPOSE, x[blas], a, b));
        cpu_pool_free(pool);
    }
    cr_expect_eq(memcmp(x[0], x[1], sizeof x[0]), 0);
}

// ---- the choice

Test(blas, an_unknown_name_is_refused) {
    TargetClient *client = NULL;
    setenv("MESHLO_BLAS", "mkl", 1);
    must_fail(target_client_new("cpu:1", &client), HLO_INVALID_ARGUMENT, "MESHLO_BLAS is 'mkl'");
    must_fail(target_client_new_with_threads("cpu:1", 2, &client), HLO_INVALID_ARGUMENT,
              "expected openblas, builtin or auto");
}

static int count_threads(void) {
    int count = 0;
    DIR *tasks = opendir("/proc/self/task");
    while (tasks && readdir(tasks)) count++;
    if (tasks) closedir(tasks);
    return count;
}

// Neither its symbols nor threads of its own appear, whatever the environment asks for.
Test(blas, the_process_does_not_notice_the_library) {
    const int threads = count_threads();
    setenv("OPENBLAS_NUM_THREADS", "4", 1);
    if (!is_installed()) cr_skip_test("not installed");
    cr_expect_eq(count_threads(), threads);
    cr_expect_null(dlsym(RTLD_DEFAULT, "dgemm_"));
    cr_expect_null(dlsym(RTLD_DEFAULT, "openblas_set_num_threads"));
}

static bool is_open(void) {
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    bool found = false;
    while (maps && fgets(line, sizeof line, maps)) found = found || strstr(line, "libopenblas");
    if (maps) fclose(maps);
    return found;
}

// Small matrices, and programs without linear algebra, do not pay for it.
Test(blas, it_is_opened_when_it_is_needed) {
    enum { kSmall = 16 };
    static double a[kSmall * kSmall], out[kSmall * kSmall];
    fill(HLO_F64, kSmall, true, a);
    CpuPool *pool = new_pool(1, CPU_BLAS_AUTO);
    cr_assert_null(cpu_cholesky(pool, HLO_F64, 1, kSmall, true, out, a));
    cr_expect(!is_open());
    cpu_pool_set_blas(pool, CPU_BLAS_OPENBLAS);
    hlo_status_free(cpu_cholesky(pool, HLO_F64, 1, kSmall, true, out, a));
    cr_expect_eq(is_open(), is_installed());
    cpu_pool_free(pool);
}

// A process without a free file descriptor cannot open the library, which counts as a missing one.
Test(blas, a_missing_library_leaves_our_own_kernels) {
    enum { kSize = 100 };
    static float a[kSize * kSize], own[kSize * kSize], chosen[kSize * kSize];
    struct rlimit limit;
    fill(HLO_F32, kSize, true, a);
    CpuPool *pool = new_pool(2, CPU_BLAS_BUILTIN);
    cr_assert_null(cpu_cholesky(pool, HLO_F32, 1, kSize, true, own, a));
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    const struct rlimit none = {0, limit.rlim_max};
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    cpu_pool_set_blas(pool, CPU_BLAS_OPENBLAS);
    const HloStatus missing = cpu_cholesky(pool, HLO_F32, 1, kSize, true, chosen, a);
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    must_fail(missing, HLO_UNAVAILABLE, "libopenblas.so.0 (Debian: libopenblas0-pthread) cannot be used");
    cpu_pool_set_blas(pool, CPU_BLAS_AUTO);
    cr_assert_null(cpu_cholesky(pool, HLO_F32, 1, kSize, true, chosen, a));
    cr_expect_eq(memcmp(own, chosen, sizeof own), 0);
    cpu_pool_free(pool);
}

// A copy that the host has opened keeps its number of threads: we open another one.
Test(blas, a_copy_of_the_host_is_left_alone) {
    enum { kSize = 100 };
    static double a[kSize * kSize], own[kSize * kSize], out[kSize * kSize];
    void *handle = dlopen("/usr/lib/x86_64-linux-gnu/openblas-pthread/libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    if (!handle) cr_skip_test("not installed");
    int (*get_threads)(void);
    void (*set_threads)(int);
    *(void **)&get_threads = dlsym(handle, "openblas_get_num_threads");
    *(void **)&set_threads = dlsym(handle, "openblas_set_num_threads");
    set_threads(2);
    cr_expect(is_installed());
    cr_expect_eq(get_threads(), 2);
    CpuPool *pool = new_pool(2, CPU_BLAS_OPENBLAS);
    fill(HLO_F64, kSize, true, a);
    cr_assert_null(cpu_cholesky(pool, HLO_F64, 1, kSize, true, out, a));
    cpu_pool_set_blas(pool, CPU_BLAS_BUILTIN);
    cr_assert_null(cpu_cholesky(pool, HLO_F64, 1, kSize, true, own, a));
    for (int i = 0; i < kSize * kSize; i++) cr_assert_float_eq(out[i], own[i], 1e-12);
    cr_expect_eq(get_threads(), 2);
    cpu_pool_free(pool);
}

// Our copy would call functions that the host exports to every library: then it is not used.
Test(blas, a_copy_that_all_libraries_see_rules_ours_out) {
    const CpuBlas *blas = NULL;
    if (!dlopen("/usr/lib/x86_64-linux-gnu/openblas-pthread/libopenblas.so.0", RTLD_NOW | RTLD_GLOBAL))
        cr_skip_test("not installed");
    must_fail(cpu_blas_open(&blas), HLO_UNAVAILABLE, "the host process has opened it already");
}

// ---- forks

static _Atomic bool stop;

static void *factor_on(void *argument) {
    enum { kSize = 64 };
    static _Thread_local double a[kSize * kSize], out[kSize * kSize];
    CpuPool *pool = argument;
    fill(HLO_F64, kSize, true, a);
    do hlo_status_free(cpu_cholesky(pool, HLO_F64, 1, kSize, true, out, a));
    while (!atomic_load(&stop));
    return NULL;
}

static int factor_once(void *context) {
    atomic_store(&stop, true);
    factor_on(context);
    return 7;
}

// A fork while other threads are inside: the child can still call the library.
Test(blas, the_child_of_a_fork_can_call_it) {
    if (!is_installed()) cr_skip_test("not installed");
    CpuPool *pool = new_pool(1, CPU_BLAS_OPENBLAS);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) cr_assert_eq(pthread_create(&threads[i], NULL, factor_on, pool), 0);
    for (int i = 0; i < 5; i++) cr_expect_eq(run_in_child(factor_once, pool), 7);
    atomic_store(&stop, true);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    cpu_pool_free(pool);
}
