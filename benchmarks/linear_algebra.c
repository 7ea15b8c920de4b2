// SPDX-License-Identifier: Apache-2.0
// usage: meshlo_linear_algebra_benchmarks [ROUTINE…]     Our own kernels beside OpenBLAS, on one thread: a row for each
// routine, type and size, with the least time of each in microseconds of processor time, their ratio, and the engine
// that MESHLO_BLAS=auto chooses. Both run in turn, so that other programs disturb both. targets/cpu/blas/auto.def was
// made from this table.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "hlo/base/memory.h"
#include "hlo/eval/linear/decompositions.h"
#include "hlo/text/text.h"
#include "targets/cpu/dense/lapack_call.h"
#include "targets/cpu/dense/linalg.h"
#include "targets/cpu/dense/matmul.h"
#include "targets/cpu/dense/matrix.h"

// The arrays of one row: a general matrix, a Hermitian positive definite one, their factors, and room for results.
typedef struct Bench {
    CpuPool *pool;
    HloType type;
    int64_t n;
    char *general, *definite, *factors, *taus, *out, *other;
    int32_t *pivots;
    HloModule *module;  // of a custom call
    CpuLapackCall *lapack;
    HloArena *arena, *scratch;
} Bench;

typedef HloStatus Routine(Bench *bench);

static HloStatus run_gemm(Bench *b) {
    const int64_t n = b->n;
    const CpuMatmul mm = {.lhs_type = b->type,
                          .rhs_type = b->type,
                          .out_type = b->type,
                          .batch = 1,
                          .m = n,
                          .n = n,
                          .k = n,
                          .lhs_m_stride = n,
                          .lhs_k_stride = 1,
                          .rhs_k_stride = n,
                          .rhs_n_stride = 1,
                          .out_m_stride = n,
                          .out_n_stride = 1};
    return cpu_matmul(b->pool, &mm, b->out, b->general, b->definite);
}

static HloStatus run_lu(Bench *b) {
    return cpu_lu(b->pool, b->type, 1, b->n, b->n, b->out, b->pivots, NULL, NULL, b->general);
}

static HloStatus run_cholesky(Bench *b) {
    return cpu_cholesky(b->pool, b->type, 1, b->n, true, b->out, b->definite);
}

static HloStatus run_trsm(Bench *b) {
    return cpu_triangular_solve(b->pool, b->type, 1, b->n, b->n, true, true, false, CPU_NO_TRANSPOSE, b->out,
                                b->definite, b->general);
}

static HloStatus run_qr(Bench *b) {
    return cpu_qr(b->pool, b->type, 1, b->n, b->n, b->factors, b->taus, b->general);
}

static HloStatus run_q(Bench *b) {
    return cpu_householder_product(b->pool, b->type, 1, b->n, b->n, b->n, b->out, b->factors, b->taus);
}

static HloStatus run_eigh(Bench *b) {
    return cpu_eigh(b->pool, b->type, 1, b->n, true, true, b->out, b->taus, NULL, b->definite);
}

static HloStatus evaluate(void *argument) {
    Bench *b = argument;
    static int32_t info;
    const HloInstruction *call = b->module->entry->root;
    const void *operands[] = {b->general};
    void *results[] = {b->factors, b->taus, b->out, b->other, &info};
    const CpuBlas *blas = NULL;
    const HloArenaMark mark = hlo_arena_mark(b->scratch);
    if (cpu_pool_blas(b->pool) != CPU_BLAS_BUILTIN) HLO_TRY(cpu_blas_open(&blas));
    if (!blas || !cpu_lapack_call_run(b->lapack, blas, cpu_pool_features(b->pool), operands, results, 0, b->scratch))
        hlo_decompose(call, operands, results, 0, 1, b->scratch);
    hlo_arena_reset(b->scratch, mark);
    return HLO_SUCCESS;
}

static HloStatus run_svd(Bench *b) {
    return hlo_protect(evaluate, b);
}

static const struct {
    const char *name;
    CpuBlasRoutine routine;
    Routine *run;
    int64_t largest;  // that our own kernel is timed for; the evaluator's takes minutes beyond
} kRoutines[] = {{"gemm", CPU_BLAS_GEMM, run_gemm, 1024},
                 {"lu", CPU_BLAS_LU, run_lu, 1024},
                 {"qr", CPU_BLAS_QR, run_qr, 1024},
                 {"q", CPU_BLAS_Q, run_q, 1024},
                 {"cholesky", CPU_BLAS_CHOLESKY, run_cholesky, 1024},
                 {"trsm", CPU_BLAS_TRSM, run_trsm, 1024},
                 {"eigh", CPU_BLAS_EIGH, run_eigh, 1024},
                 {"svd", CPU_BLAS_RARE, run_svd, 256}};

static const HloType kTypes[] = {HLO_F32, HLO_F64, HLO_C64, HLO_C128};

static void fill(Bench *b) {
    const CpuMatrix matrix = {.type = b->type, .width = hlo_type_bytes(b->type)};
    uint32_t state = 7;
    for (int64_t i = 0; i < b->n; i++)
        for (int64_t j = 0; j < b->n; j++) {
            state = state * 1664525 + 1013904223;
            cpu_matrix_set(&matrix, b->general, i * b->n + j, (double)(int32_t)state * 0x1p-31);
            const double value = i == j ? (double)b->n : sin((double)(i + j + i * j));
            cpu_matrix_set(&matrix, b->definite, i * b->n + j, value);
        }
}

// The singular value decomposition as JAX calls it.
static HloStatus make_call(Bench *b) {
    static const char kLetters[] = "sdcz";
    HloText text = {0};
    const char *type = hlo_type_text(b->type), *real = hlo_type_text(hlo_type_real_part(b->type));
    const int n = (int)b->n;
    hlo_text_format(&text,
                    "HloModule m\nENTRY e {\n  p = %s[%d,%d] parameter(0)\n  ROOT r = (%s[%d,%d], %s[%d], %s[%d,%d], "
                    "%s[%d,%d], s32[]) custom-call(p), custom_call_target=\"lapack_%cgesdd_ffi\", "
                    "api_version=API_VERSION_TYPED_FFI, backend_config={mode = 83 : ui8}\n}\n",
                    type, n, n, type, n, n, real, n, type, n, n, type, n, n, kLetters[cpu_blas_type(b->type)]);
    const HloStatus status = hlo_parse(text.data, text.length, NULL, &b->module);
    hlo_text_free(&text);
    HLO_TRY(status);
    b->arena = hlo_arena_new();
    b->scratch = hlo_arena_new();
    HLO_FAIL_IF(!b->arena || !b->scratch, HLO_RESOURCE_EXHAUSTED, "no memory");
    HLO_TRY(hlo_decompose_check(b->module->entry->root));
    b->lapack = cpu_lapack_call_new(b->arena, b->module->entry->root, 1);
    return HLO_SUCCESS;
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

// The least time of each engine, in turn; short routines are repeated until the clock resolves them.
static HloStatus time_both(Bench *b, Routine *run, bool with_own, double least[2]) {
    enum { kRounds = 200 };
    const double begin = seconds();
    int repeat = 1;
    least[0] = least[1] = HUGE_VAL;
    for (int round = 0; round < kRounds && (round < 3 || seconds() - begin < 1); round++)
        for (int engine = !with_own; engine < 2; engine++) {
            cpu_pool_set_blas(b->pool, engine ? CPU_BLAS_OPENBLAS : CPU_BLAS_BUILTIN);
            const double start = seconds();
            for (int i = 0; i < repeat; i++) HLO_TRY(run(b));
            const double each = (seconds() - start) / repeat;
            if (each < least[engine]) least[engine] = each;
            if (engine && round == 0 && each < 1e-4) repeat = (int)(1e-4 / each) + 1;
        }
    return HLO_SUCCESS;
}

static HloStatus run_row(Bench *b, size_t r) {
    double least[2];
    const CpuBlas *chosen;
    const bool with_own = b->n <= kRoutines[r].largest;
    if (kRoutines[r].run == run_svd) HLO_TRY(make_call(b));
    HLO_TRY(time_both(b, kRoutines[r].run, with_own, least));
    cpu_pool_set_blas(b->pool, CPU_BLAS_AUTO);
    HLO_TRY(cpu_blas_find(b->pool, kRoutines[r].routine, b->type, b->n, b->n, &chosen));
    printf("| %-8s | %-4s | %4d | ", kRoutines[r].name, hlo_type_text(b->type), (int)b->n);
    if (with_own)
        printf("%10.1f | %10.1f | %5.2f", 1e6 * least[0], 1e6 * least[1], least[0] / least[1]);
    else
        printf("%10s | %10.1f | %5s", "", 1e6 * least[1], "");
    printf(" | %-8s |\n", chosen ? "openblas" : "builtin");
    fflush(stdout);
    hlo_module_free(b->module);
    hlo_arena_free(b->arena);
    hlo_arena_free(b->scratch);
    b->module = NULL, b->arena = b->scratch = NULL;
    return HLO_SUCCESS;
}

static bool is_wanted(const char *name, int count, char **names) {
    for (int i = 0; i < count; i++)
        if (!strcmp(name, names[i])) return true;
    return count == 0;
}

static HloStatus run_all(int count, char **names) {
    static const int64_t sizes[] = {8, 64, 256, 1024};
    const CpuBlas *blas;
    Bench b = {0};
    HLO_TRY(cpu_blas_open(&blas));
    HLO_TRY(cpu_pool_new_with(1, cpu_features_detect(), &b.pool));
    printf("%s, core %s; own kernels: %s; one thread, microseconds\n\n", blas->config, blas->core,
           cpu_features_name(cpu_pool_features(b.pool)));
    printf("| routine | type | n | builtin | OpenBLAS | builtin / OpenBLAS | auto |\n|---|---|---|---|---|---|---|\n");
    char **const arrays[] = {&b.general, &b.definite, &b.factors, &b.taus, &b.out, &b.other};
    for (size_t i = 0; i < HLO_COUNT_OF(arrays); i++) {
        *arrays[i] = hlo_allocate_aligned(16 << 20);
        HLO_FAIL_IF(!*arrays[i], HLO_RESOURCE_EXHAUSTED, "no memory");
    }
    b.pivots = (int32_t *)(void *)b.other;
    for (size_t r = 0; r < HLO_COUNT_OF(kRoutines); r++)
        for (size_t t = 0; t < 4 && is_wanted(kRoutines[r].name, count, names); t++)
            for (size_t s = 0; s < HLO_COUNT_OF(sizes); s++) {
                b.type = kTypes[t], b.n = sizes[s];
                fill(&b);
                HLO_TRY(run_row(&b, r));
            }
    for (size_t i = 0; i < HLO_COUNT_OF(arrays); i++) hlo_free(*arrays[i]);
    cpu_pool_free(b.pool);
    return HLO_SUCCESS;
}

int main(int argument_count, char **arguments) {
    const HloStatus status = run_all(argument_count - 1, arguments + 1);
    if (!status) return 0;
    fprintf(stderr, "%s\n", hlo_status_message(status));
    hlo_status_free(status);
    return 1;
}
