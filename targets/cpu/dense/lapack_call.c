// SPDX-License-Identifier: Apache-2.0
// Each routine reads its matrix from part->in, which it copies column by column for LAPACK, and fills in part->out. Its
// workspace is what LAPACK asks for when it is called with a size of -1.
#include "targets/cpu/dense/lapack_call.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "hlo/base/arithmetic.h"
#include "hlo/base/complex.h"
#include "hlo/base/memory.h"
#include "hlo/ir/custom_call.h"
#include "targets/cpu/dense/lapack.h"

enum { kMostArrays = 6 };

typedef struct Part Part;
typedef bool Routine(Part *part);

struct CpuLapackCall {
    Routine *run;
    HloType type;
    int64_t m, n, k;                                        // of the last operand that is a matrix; the smaller one
    int64_t in_bytes[kMostArrays], out_bytes[kMostArrays];  // of one matrix of each array
    int64_t order, reflections;                             // of ormqr's first operand
    int64_t low, high;                                      // of gehrd, counted from 1
    int64_t u_columns, v_rows;                              // of gesdd
    bool lower, vectors, left_vectors, right_vectors, left, adjoint;
};

// One matrix.
struct Part {
    const CpuLapackCall *call;
    const CpuBlas *blas;
    CpuMatrix matrix;  // its kernels
    int type, precision;
    HloArena *arena;
    const char *in[kMostArrays];
    char *out[kMostArrays];
};

// ---- memory

static void *take_bytes(const Part *part, int64_t count, int64_t width) {
    return hlo_arena_allocate_uninitialised(part->arena, hlo_array_bytes((size_t)count, (size_t)width) + 64);
}

static void *take(const Part *part, int64_t count) {
    return take_bytes(part, count, part->matrix.width);
}

static void *take_reals(const Part *part, int64_t count) {
    return take_bytes(part, count, part->precision == CPU_BLAS_F32 ? sizeof(float) : sizeof(double));
}

// Copies a row-major matrix column by column.
static void *by_columns(const Part *part, int64_t rows, int64_t columns, const void *a) {
    void *turned = take(part, rows * columns);
    part->matrix.vector->turn(rows, columns, turned, rows, a, columns);
    return turned;
}

// Does the reverse.
static void by_rows(const Part *part, int64_t rows, int64_t columns, void *to, const void *a) {
    part->matrix.vector->turn(columns, rows, to, columns, a, rows);
}

// The workspace of a routine, which is called twice: for (Work work = {0}; more(part, &work);) routine(...). The thread
// is inside the library during the routine only, since taking memory may jump.
typedef struct Work {
    double _Complex answer;
    void *at;
    int32_t count;
    int calls;
} Work;

static bool more(const Part *part, Work *work) {
    if (work->calls > 0) cpu_blas_leave();
    if (work->calls == 0) {
        work->at = &work->answer;
        work->count = -1;
    } else if (work->calls == 1) {
        // The answer is a float, which may be rounded down.
        const double count = creal(cpu_matrix_get(&part->matrix, &work->answer, 0));
        work->count = (int32_t)(count * (1 + 0x1p-20)) + 1;
        work->at = take(part, work->count);
    }
    if (work->calls++ == 2) return false;
    cpu_blas_enter();
    return true;
}

static void set_info(const Part *part, int32_t result, int32_t value) {
    memcpy(part->out[result], &value, sizeof value);
}

static bool is_finite(const Part *part) {
    return cpu_lapack_finite(part->call->type, part->call->m * part->call->n, part->in[0]);
}

// Multiplies `count` elements by a factor of size 1.
static void turn_phase(const Part *part, int64_t count, double _Complex phase, void *x) {
    if (phase == 1) return;
    for (int64_t i = 0; i < count; i++)
        cpu_matrix_set(&part->matrix, x, i, hlo_complex_multiply(phase, cpu_matrix_get(&part->matrix, x, i)));
}

// ---- factors

// (the factors, the order of the columns from 1, taus)
static bool geqp3(Part *part) {
    const CpuLapackCall *call = part->call;
    const int32_t m = (int32_t)call->m, n = (int32_t)call->n;
    int32_t info = 0, *order = take_bytes(part, n, sizeof *order);
    if (!is_finite(part)) return false;
    void *a = by_columns(part, m, n, part->in[0]), *reals = take_reals(part, 2 * (int64_t)n);
    memcpy(order, part->in[1], (size_t)n * sizeof *order);
    for (Work work = {0}; more(part, &work);)
        if (part->matrix.is_complex)
            part->blas->geqp3_complex[part->precision](&m, &n, a, &m, order, part->out[2], work.at, &work.count, reals,
                                                       &info);
        else
            part->blas->geqp3_real[part->precision](&m, &n, a, &m, order, part->out[2], work.at, &work.count, &info);
    if (info) return false;
    memcpy(part->out[1], order, (size_t)n * sizeof *order);
    by_rows(part, m, n, part->out[0], a);
    return true;
}

// Q C, Q^H C, C Q or C Q^H
static bool ormqr(Part *part) {
    const CpuLapackCall *call = part->call;
    const int32_t m = (int32_t)call->m, n = (int32_t)call->n, order = (int32_t)call->order,
                  count = (int32_t)call->reflections;
    const char *transposed = part->matrix.is_complex ? "C" : "T";
    int32_t info = 0;
    if (count == 0 || !cpu_lapack_finite(call->type, (int64_t)order * count, part->in[0]) ||
        !cpu_lapack_finite(call->type, count, part->in[1]) ||
        !cpu_lapack_finite(call->type, call->m * call->n, part->in[2]))
        return false;
    const void *a = by_columns(part, order, count, part->in[0]);
    void *c = by_columns(part, m, n, part->in[2]);
    for (Work work = {0}; more(part, &work);)
        part->blas->ormqr[part->type](call->left ? "L" : "R", call->adjoint ? transposed : "N", &m, &n, &count, a,
                                      &order, part->in[1], c, &m, work.at, &work.count, &info, 1, 1);
    if (info) return false;
    by_rows(part, m, n, part->out[0], c);
    return true;
}

// ---- reductions

// (the packed form, d, e, taus, info)
static bool sytrd(Part *part) {
    const int32_t n = (int32_t)part->call->n;
    int32_t info = 0;
    if (!is_finite(part)) return false;
    void *a = by_columns(part, n, n, part->in[0]);
    for (Work work = {0}; more(part, &work);)
        part->blas->sytrd[part->type](part->call->lower ? "L" : "U", &n, a, &n, part->out[1], part->out[2],
                                      part->out[3], work.at, &work.count, &info, 1);
    if (info) return false;
    by_rows(part, n, n, part->out[0], a);
    set_info(part, 4, 0);
    return true;
}

// (the packed form, taus, info)
static bool gehrd(Part *part) {
    const int32_t n = (int32_t)part->call->n, low = (int32_t)part->call->low, high = (int32_t)part->call->high;
    int32_t info = 0;
    if (!is_finite(part)) return false;
    void *a = by_columns(part, n, n, part->in[0]);
    for (Work work = {0}; more(part, &work);)
        part->blas->gehrd[part->type](&n, &low, &high, a, &n, part->out[1], work.at, &work.count, &info);
    if (info) return false;
    by_rows(part, n, n, part->out[0], a);
    set_info(part, 2, 0);
    return true;
}

// ---- eigenvalues

// (t, z, values …, number of sorted values, info)
static bool gees(Part *part) {
    const int32_t n = (int32_t)part->call->n, following = part->matrix.is_complex ? 3 : 4;
    int32_t info = 0, sorted = 0;
    if (!is_finite(part)) return false;
    void *a = by_columns(part, n, n, part->in[0]), *z = take(part, (int64_t)n * n), *reals = take_reals(part, n);
    int32_t *chosen = take_bytes(part, n, sizeof *chosen);
    for (Work work = {0}; more(part, &work);)
        if (part->matrix.is_complex)
            part->blas->gees_complex[part->precision]("V", "N", NULL, &n, a, &n, &sorted, part->out[2], z, &n, work.at,
                                                      &work.count, reals, chosen, &info, 1, 1);
        else
            part->blas->gees_real[part->precision]("V", "N", NULL, &n, a, &n, &sorted, part->out[2], part->out[3], z,
                                                   &n, work.at, &work.count, chosen, &info, 1, 1);
    if (info) return false;
    by_rows(part, n, n, part->out[0], a);
    by_rows(part, n, n, part->out[1], z);
    set_info(part, following, 0);
    set_info(part, following + 1, 0);
    return true;
}

// Stores eigenvectors as complex rows. A real matrix has those of a pair of values as two real columns, the real and
// the imaginary part of the first one; the second is its conjugate.
static void store_vectors(const Part *part, const void *imaginary, const char *columns, char *to) {
    const int64_t n = part->call->n, width = part->matrix.width;
    const CpuMatrix *own = &part->matrix;
    CpuMatrix wide = *own;
    wide.type = part->precision == CPU_BLAS_F32 ? HLO_C64 : HLO_C128;
    wide.width = hlo_type_bytes(wide.type);
    char *vector = take_bytes(part, n, wide.width);
    for (int64_t k = 0; k < n; k++) {
        const char *first = columns + k * n * width, *second = first + n * width;
        const bool pair = imaginary && creal(cpu_matrix_get(own, imaginary, k)) > 0;
        for (int64_t i = 0; i < n; i++) {
            const double _Complex value = cpu_matrix_get(own, first, i);
            cpu_matrix_set(&wide, vector, i, pair ? CMPLX(creal(value), creal(cpu_matrix_get(own, second, i))) : value);
        }
        const double _Complex phase = cpu_normalised_phase(&wide, n, vector);
        for (int64_t i = 0; i < n; i++) {
            const double _Complex value = hlo_complex_multiply(phase, cpu_matrix_get(&wide, vector, i));
            cpu_matrix_set(&wide, to, i * n + k, value);
            if (pair) cpu_matrix_set(&wide, to, i * n + k + 1, conj(value));
        }
        k += pair;
    }
}

// (values …, left vectors, right vectors, info)
static bool geev(Part *part) {
    const CpuLapackCall *call = part->call;
    const int32_t n = (int32_t)call->n, following = part->matrix.is_complex ? 1 : 2;
    const char *left = call->left_vectors ? "V" : "N", *right = call->right_vectors ? "V" : "N";
    int32_t info = 0;
    if (!is_finite(part)) return false;
    void *a = by_columns(part, n, n, part->in[0]), *reals = take_reals(part, 2 * (int64_t)n);
    void *sides[2] = {take(part, (int64_t)n * n), take(part, (int64_t)n * n)};
    for (Work work = {0}; more(part, &work);)
        if (part->matrix.is_complex)
            part->blas->geev_complex[part->precision](left, right, &n, a, &n, part->out[0], sides[0], &n, sides[1], &n,
                                                      work.at, &work.count, reals, &info, 1, 1);
        else
            part->blas->geev_real[part->precision](left, right, &n, a, &n, part->out[0], part->out[1], sides[0], &n,
                                                   sides[1], &n, work.at, &work.count, &info, 1, 1);
    if (info) return false;
    for (int side = 0; side < 2; side++) {
        memset(part->out[following + side], 0, (size_t)call->out_bytes[following + side]);
        if (side ? call->right_vectors : call->left_vectors)
            store_vectors(part, part->matrix.is_complex ? NULL : part->out[1], sides[side],
                          part->out[following + side]);
    }
    set_info(part, following + 2, 0);
    return true;
}

// ---- singular values

// Fixes the phases of the columns of the longer of U and V, as the evaluator does. u is stored by columns, v^H by rows.
static void fix_phases(const Part *part, char *u, char *v) {
    const CpuLapackCall *call = part->call;
    const int64_t width = part->matrix.width;
    char *held = take(part, call->n);
    for (int64_t j = 0; j < call->k; j++) {
        char *column = u + j * call->m * width, *row = v + j * call->n * width;
        double _Complex phase;
        if (call->m >= call->n) {
            phase = cpu_normalised_phase(&part->matrix, call->m, column);
        } else {
            cpu_matrix_conjugate(&part->matrix, call->n, held, row);
            phase = cpu_normalised_phase(&part->matrix, call->n, held);
        }
        turn_phase(part, call->m, phase, column);
        turn_phase(part, call->n, conj(phase), row);
    }
}

// (the matrix, s, u, v^H, info)
static bool gesdd(Part *part) {
    const CpuLapackCall *call = part->call;
    const int64_t k = call->k, larger = call->m + call->n - k;
    const int32_t m = (int32_t)call->m, n = (int32_t)call->n, v_rows = (int32_t)call->v_rows;
    const char *job = !call->vectors ? "N" : call->u_columns > k || call->v_rows > k ? "A" : "S";
    int32_t info = 0, *integers = take_bytes(part, 8 * k, sizeof *integers);
    if (!is_finite(part)) return false;
    void *a = by_columns(part, m, n, part->in[0]);
    char *u = take(part, call->vectors ? call->m * call->u_columns : 1),
         *v = take(part, call->vectors ? call->v_rows * call->n : 1);
    void *reals = part->matrix.is_complex ? take_reals(part, 2 * larger * k + 5 * k * k + 7 * k) : NULL;
    for (Work work = {0}; more(part, &work);)
        if (part->matrix.is_complex)
            part->blas->gesdd_complex[part->precision](job, &m, &n, a, &m, part->out[1], u, &m, v, &v_rows, work.at,
                                                       &work.count, reals, integers, &info, 1);
        else
            part->blas->gesdd_real[part->precision](job, &m, &n, a, &m, part->out[1], u, &m, v, &v_rows, work.at,
                                                    &work.count, integers, &info, 1);
    if (info) return false;
    if (part->out[0] != part->in[0]) memcpy(part->out[0], part->in[0], (size_t)call->in_bytes[0]);
    set_info(part, 4, 0);
    if (!call->vectors) {
        memset(part->out[2], 0, (size_t)call->out_bytes[2]);
        memset(part->out[3], 0, (size_t)call->out_bytes[3]);
        return true;
    }
    by_rows(part, v_rows, n, part->out[3], v);
    fix_phases(part, u, part->out[3]);
    by_rows(part, m, call->u_columns, part->out[2], u);
    return true;
}

// ---- calls

// NULL if LAPACK is not asked to make the call.
static Routine *routine_of(const HloInstruction *call) {
    static Routine *const routines[HLO_CALL_ROUTINE_COUNT] = {
        [HLO_CALL_ROUTINE_geqp3] = geqp3, [HLO_CALL_ROUTINE_ormqr] = ormqr, [HLO_CALL_ROUTINE_sytrd] = sytrd,
        [HLO_CALL_ROUTINE_gehrd] = gehrd, [HLO_CALL_ROUTINE_gees] = gees,   [HLO_CALL_ROUTINE_geev] = geev,
        [HLO_CALL_ROUTINE_gesdd] = gesdd};
    return routines[hlo_custom_call_routine(call)];
}

static int64_t last_dimension(const HloShape *shape) {
    return shape->dims[shape->rank - 1];
}

static int64_t matrix_bytes(const HloShape *shape, int64_t batch) {
    return batch ? hlo_shape_elements(shape) / batch * hlo_type_bytes(shape->type) : 0;
}

CpuLapackCall *cpu_lapack_call_new(HloArena *arena, const HloInstruction *call, int64_t batch) {
    Routine *run = routine_of(call);
    const HloShape *first = call->operands[0]->shape, *last = call->operands[call->operand_count - 1]->shape;
    const HloShape *matrix = last->rank < first->rank ? first : last, *result = call->shape;
    const int32_t results = hlo_shape_is_tuple(result) ? result->element_count : 1;
    if (!run || !cpu_matrix_has(matrix->type)) return NULL;
    assert(call->operand_count <= kMostArrays && results <= kMostArrays && matrix->rank >= 2); /* by their signatures */
    CpuLapackCall *made = HLO_ARENA_NEW(arena, CpuLapackCall, 1);
    const int64_t m = matrix->dims[matrix->rank - 2], n = last_dimension(matrix);
    *made = (CpuLapackCall){.run = run,
                            .type = matrix->type,
                            .m = m,
                            .n = n,
                            .k = hlo_smaller(m, n),
                            .low = hlo_custom_call_option(call, "low", 1),
                            .high = hlo_custom_call_option(call, "high", n),
                            .lower = hlo_custom_call_option(call, "uplo", 'L') == 'L',
                            .vectors = hlo_custom_call_option(call, "mode", 'S') != 'N',
                            .left_vectors = hlo_custom_call_option(call, "compute_left", 'V') == 'V',
                            .right_vectors = hlo_custom_call_option(call, "compute_right", 'V') == 'V',
                            .left = hlo_custom_call_option(call, "left", 1) != 0,
                            .adjoint = hlo_custom_call_option(call, "transpose", 0) != 0};
    for (int32_t i = 0; i < call->operand_count; i++) made->in_bytes[i] = matrix_bytes(call->operands[i]->shape, batch);
    for (int32_t i = 0; i < results; i++) made->out_bytes[i] = matrix_bytes(hlo_shape_value(result, i), batch);
    if (run == gesdd) {
        made->u_columns = last_dimension(result->elements[2]);
        made->v_rows = result->elements[3]->dims[result->elements[3]->rank - 2];
    } else if (run == ormqr) {
        made->order = made->left ? m : n;
        made->reflections = last_dimension(call->operands[1]->shape);
        // LAPACK reads the reflections alone.
        if (last_dimension(first) != made->reflections || first->dims[first->rank - 2] != made->order) return NULL;
    }
    return made;
}

HloStatus cpu_lapack_call_find(const CpuLapackCall *call, const CpuPool *pool, const CpuBlas **blas) {
    return cpu_blas_find(pool, CPU_BLAS_RARE, call->type, call->m, call->n, blas);
}

bool cpu_lapack_call_run(const CpuLapackCall *call, const CpuBlas *blas, CpuFeatures features,
                         const void *const *operands, void *const *results, int64_t index, HloArena *scratch) {
    Part part = {.call = call,
                 .blas = blas,
                 .matrix = cpu_matrix_describe(call->type, features),
                 .type = cpu_blas_type(call->type),
                 .precision = cpu_blas_precision(call->type),
                 .arena = scratch};
    for (int i = 0; i < kMostArrays; i++) {
        if (call->in_bytes[i]) part.in[i] = (const char *)operands[i] + index * call->in_bytes[i];
        if (call->out_bytes[i]) part.out[i] = (char *)results[i] + index * call->out_bytes[i];
    }
    return call->run(&part);
}
