// SPDX-License-Identifier: Apache-2.0
// Eigenvalues and vectors of symmetric tridiagonal matrices by halves (Cuppen's method): the remainder between the
// halves is one more term of rank one, whose eigenvalues are the roots of a sum of poles, one between each two of them,
// and whose vectors are products of matrices. The roots are found by rational interpolation, and the term's vector is
// recomputed from them (Gu and Eisenstat), so that the vectors are orthogonal however close the roots are.
//
//     T = [T1  0; 0  T2] + rho u u^T     rho the element that coupled the halves, u 1 or -1 at both sides of the split
//       = Q (D + rho z z^T) Q^T          Q, D from the halves, z = Q^T u
//     eigenvalues of D + rho z z^T: roots of 1 + rho sum z_i^2 / (d_i - x), d_1 < x_1 < d_2 < x_2 < ...
//     eigenvector k: z_i / (d_i - x_k), made of length one
//
// A pole whose z is negligible, or which is so close to the next one that a rotation makes it so, keeps its eigenvalue
// and vector (deflate); in practice that is many of them. Columns of Q that are zero in one half are kept side by side
// (`sides`), so that the products skip the zeros.
//
// One step of an example, n = 2 of halves of one element each: T = [a b; b c], rho = |b|, T1 = a - |b|, T2 = c - |b|, u
// = (1, sign b), so that Q is the identity and z = u; the two roots of 1 + |b| / (a - |b| - x) + |b| / (c - |b| - x)
// are the eigenvalues of T.
//
// Cost: roots O(k^2) for a merge of k poles that are left, products about 4/3 n^3 in total at most, both shared by the
// workers. Roots are kept as distances from the nearer pole (`gaps`), since the difference of two close numbers would
// lose its digits.
//
// Sources: Cuppen, "A divide and conquer method for the symmetric tridiagonal eigenproblem", 1981; Gu and Eisenstat, "A
// divide-and-conquer algorithm for the symmetric tridiagonal eigenproblem", 1995; Li, "Solving secular equations stably
// and efficiently", LAPACK working note 89 (the step of find_root).
#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "hlo/base/arithmetic.h"
#include "targets/cpu/dense/eigen.h"

// One eigenvalue of a half, with its element of the term's vector and its row.
typedef struct Pole {
    double d, z;
    int64_t row;
    int side;  // which columns of the row are not zero: 0 those of the first half, 2 those of the second, 1 both
} Pole;

// Roots and rows of vectors per unit of work: a root costs as many divisions as there are poles, a row of vectors only
// pays as part of a product of matrices.
enum { kSides = 3, kRootsEach = 16, kRowsEach = 64 };

// One merge: rows and columns [first, first + n) of the matrix, of which the first `half` belong to the first half.
typedef struct Merge {
    const CpuEigenHalves *halves;
    int64_t first, half, n;
    double rho;
    Pole *poles;                // those that are left, ascending
    int64_t count;              // of them
    int64_t sides[kSides + 1];  // where each side's poles begin among `grouped`
    int64_t *grouped;           // their numbers, side by side
    double *gaps;               // [root][pole]: the pole less the root
    double *roots, *weights;    // weights: z of the poles
    double *z;                  // the term's recomputed vector
} Merge;

// ---- rows of the real type of the matrix

// Returns an element of the rows, in double whatever the type.
static double get(const CpuEigenHalves *h, int64_t row, int64_t column) {
    const int64_t at = row * h->n + column;
    return h->is_double ? ((const double *)(const void *)h->rows)[at]
                        : (double)((const float *)(const void *)h->rows)[at];
}

// Returns the address of an element of an n x n array of the real type.
static char *row_at(const CpuEigenHalves *h, char *rows, int64_t row, int64_t column) {
    return rows + (row * h->n + column) * (h->is_double ? 8 : 4);
}

// Computes (x, y) := (cosine x + sine y, cosine y - sine x) for columns [first, first + n) of two rows.
static void rotate(const CpuEigenHalves *h, int64_t x, int64_t y, int64_t first, int64_t n, double cosine,
                   double sine) {
    for (int64_t i = first; i < first + n; i++) {
        const double a = get(h, x, i), b = get(h, y, i), up = cosine * a + sine * b, down = cosine * b - sine * a;
        if (h->is_double) {
            ((double *)(void *)h->rows)[x * h->n + i] = up, ((double *)(void *)h->rows)[y * h->n + i] = down;
        } else {
            ((float *)(void *)h->rows)[x * h->n + i] = (float)up,
                                                  ((float *)(void *)h->rows)[y * h->n + i] = (float)down;
        }
    }
}

// ---- roots

// The poles' sum at origin + t, its two parts (poles up to number `root`, and those above) with their slopes.
typedef struct Sum {
    double below, above, below_slope, above_slope;
} Sum;

// Sums poles [from, to); *slope is the derivative by t.
static void part_of_sum(const Merge *m, const double *shifted, double t, int64_t from, int64_t to, double *sum,
                        double *slope) {
    double sums[4] = {0}, slopes[4] = {0};  // side by side: divisions overlap
    int64_t i = from;
    for (; i + 4 <= to; i += 4)
        for (int j = 0; j < 4; j++) {
            const double z = m->weights[i + j], part = z / (shifted[i + j] - t);
            sums[j] += z * part;
            slopes[j] += part * part;
        }
    for (; i < to; i++) {
        const double part = m->weights[i] / (shifted[i] - t);
        sums[0] += m->weights[i] * part;
        slopes[0] += part * part;
    }
    *sum = m->rho * ((sums[0] + sums[1]) + (sums[2] + sums[3]));
    *slope = m->rho * ((slopes[0] + slopes[1]) + (slopes[2] + slopes[3]));
}

// 1 + below + above is the function whose root is computed.
static Sum sum_at(const Merge *m, const double *shifted, int64_t root, double t) {
    Sum sum;
    part_of_sum(m, shifted, t, 0, root + 1, &sum.below, &sum.below_slope);
    part_of_sum(m, shifted, t, root + 1, m->count, &sum.above, &sum.above_slope);
    return sum;
}

// Returns the step to the zero of a function that has only the two adjacent poles, at the distances `low` and `high`,
// and approximates the sum: c + q / (low - y) + s / (high - y). Its first fraction has the value and slope of the poles
// below, the second those of the poles above: q / low^2 is the slope at y = 0, and the value beyond q / low is added to
// c. Multiplied by both denominators the function is
//
//   c y^2 - b y + w = 0     b = c (low + high) + q + s,  w = low high value
//
// whose root (b - sqrt(b^2 - 4 c w)) / (2 c) is computed in a form that subtracts no two close numbers.
static double interpolated_step(const Sum *sum, double value, double low, double high, bool last) {
    const double q = low * low * sum->below_slope, s = high * high * sum->above_slope;
    const double c = 1 + (sum->below - low * sum->below_slope) + (sum->above - high * sum->above_slope);
    if (last) return low + q / c;  // there is no pole above
    const double b = c * (low + high) + q + s, w = low * high * value, inner = b * b - 4 * c * w,
                 root = sqrt(inner > 0 ? inner : 0);
    return b <= 0 ? (b - root) / (2 * c) : 2 * w / (b + root);
}

// Finds root number `root`: writes its distances from all poles to `gaps`. `shifted` has room for them too.
//
// The root is between its pole and the next; the last one between its pole and that plus rho |z|^2 (`length`). The sum
// in the middle determines the half, whose pole becomes the origin. [low, high] always contains the root: a step that
// would leave it is replaced by its middle, so that a hundred steps are more than enough, and a handful is usual. The
// search ends when the value is within the rounding errors of the sum itself.
static double find_root(const Merge *m, int64_t root, double *shifted, double *gaps) {
    enum { kMaximumSteps = 100 };
    const bool last = root == m->count - 1;
    const double below = m->poles[root].d;
    double length = 0;
    for (int64_t i = 0; i < m->count && last; i++) length += m->rho * m->weights[i] * m->weights[i];
    const double gap = last ? length : m->poles[root + 1].d - below;
    // The nearer pole is the origin: the distance to it keeps all its digits.
    for (int64_t i = 0; i < m->count; i++) shifted[i] = m->poles[i].d - below;
    const Sum middle = sum_at(m, shifted, root, gap / 2);
    const bool upper = !last && 1 + middle.below + middle.above < 0;
    const double origin = upper ? m->poles[root + 1].d : below;
    for (int64_t i = 0; upper && i < m->count; i++) shifted[i] = m->poles[i].d - origin;
    const double low_pole = upper ? -gap : 0, high_pole = upper ? 0 : gap;
    double low = upper ? -gap / 2 : 0, high = upper ? 0 : last ? gap : gap / 2, t = (low + high) / 2;
    if (last && 1 + middle.below + middle.above < 0) low = gap / 2, t = (low + high) / 2;
    for (int step = 0; step < kMaximumSteps; step++) {
        const Sum sum = sum_at(m, shifted, root, t);
        const double value = 1 + sum.below + sum.above;
        if (fabs(value) <= 4 * DBL_EPSILON * (1 + fabs(sum.below) + fabs(sum.above))) break;
        *(value < 0 ? &low : &high) = t;  // the sum rises from pole to pole
        double next = t + interpolated_step(&sum, value, low_pole - t, high_pole - t, last);
        if (!(next > low && next < high)) next = (low + high) / 2;
        if (next == t || next <= low || next >= high) break;  // no number between
        t = next;
    }
    for (int64_t i = 0; i < m->count; i++) gaps[i] = shifted[i] - t;
    return origin + t;
}

// Finds roots in groups of kRootsEach.
static void roots_task(void *argument, int64_t begin, int64_t end, int worker) {
    assert(argument && begin >= 0 && begin <= end && worker >= 0);
    const Merge *m = argument;
    double *shifted = m->halves->shifted + worker * m->halves->n;
    for (int64_t root = begin * kRootsEach; root < hlo_smaller(end * kRootsEach, m->count); root++)
        m->roots[root] = find_root(m, root, shifted, m->gaps + root * m->count);
}

// Computes the vector for which the computed roots are exact (Gu and Eisenstat, by Loewner's formula):
//
//   rho z_i^2 = product over all roots k of (d_i - x_k) / product over all poles j but i of (d_i - d_j)
//
// up to the sign, with each gap divided by the distance of one pole, so that no product overflows. Vectors computed
// from this z are orthogonal to working precision, which those of the original z would not be. Only its direction
// matters.
static void renew_vector(const Merge *m) {
    for (int64_t i = 0; i < m->count; i++) m->z[i] = m->gaps[i * m->count + i];
    for (int64_t root = 0; root < m->count; root++) {
        const double *gaps = m->gaps + root * m->count, at = m->poles[root].d;
        for (int64_t i = 0; i < root; i++) m->z[i] *= gaps[i] / (m->poles[i].d - at);
        for (int64_t i = root + 1; i < m->count; i++) m->z[i] *= gaps[i] / (m->poles[i].d - at);
    }
    for (int64_t i = 0; i < m->count; i++) m->z[i] = copysign(sqrt(fabs(m->z[i])), m->poles[i].z);
}

// ---- vectors

// Describes a product whose rows are h->n apart.
static CpuProduct product_of(const CpuEigenHalves *h, int64_t m, int64_t n, int64_t k, int64_t lda) {
    return (CpuProduct){.type = h->is_double ? HLO_F64 : HLO_F32,
                        .features = h->matrix->features,
                        .m = m,
                        .n = n,
                        .k = k,
                        .a_m_stride = lda,
                        .a_k_stride = 1,
                        .b_k_stride = h->n,
                        .b_n_stride = 1,
                        .ldc = h->n};
}

// Computes some rows of the vectors: coefficients of the poles, side by side, times their rows (collected in h->held).
static void vectors_task(void *argument, int64_t begin, int64_t end, int worker) {
    assert(argument && begin >= 0 && begin <= end && worker >= 0);
    const Merge *m = argument;
    const CpuEigenHalves *h = m->halves;
    const int64_t width = h->is_double ? 8 : 4, second = m->first + m->half;
    char *scratch = h->scratch + (size_t)worker * h->scratch_each;
    double *line = h->shifted + worker * h->n;
    for (int64_t part = begin; part < end; part++) {
        const int64_t from = part * kRowsEach, rows = hlo_smaller(kRowsEach, m->count - from);
        char *coefficients = row_at(h, h->coefficients, from, 0);
        for (int64_t r = 0; r < rows; r++) {
            const double *gaps = m->gaps + (from + r) * m->count;
            double squares = 0;
            for (int64_t i = 0; i < m->count; i++) line[i] = m->z[m->grouped[i]] / gaps[m->grouped[i]];
            for (int64_t i = 0; i < m->count; i++) squares += line[i] * line[i];
            const double scale = 1 / sqrt(squares);
            for (int64_t i = 0; i < m->count; i++) {
                char *to = coefficients + (r * h->n + i) * width;
                if (h->is_double)
                    *(double *)(void *)to = line[i] * scale;
                else
                    *(float *)(void *)to = (float)(line[i] * scale);
            }
        }
        const CpuProduct left = product_of(h, rows, m->half, m->sides[2], h->n),
                         right = product_of(h, rows, m->n - m->half, m->count - m->sides[1], h->n);
        cpu_product_serial(&left, row_at(h, h->rows, m->first + from, m->first), coefficients,
                           row_at(h, h->held, 0, m->first), scratch);
        cpu_product_serial(&right, row_at(h, h->rows, m->first + from, second), coefficients + m->sides[1] * width,
                           row_at(h, h->held, m->sides[1], second), scratch);
    }
}

// ---- a merge

static int by_value(const void *a, const void *b) {
    const Pole *x = a, *y = b;
    if (x->d != y->d) return x->d < y->d ? -1 : 1;
    return x->row < y->row ? -1 : x->row > y->row;
}

// Keeps the poles that move, with LAPACK's tolerance of dlaed2, 8 epsilon of the largest pole or element (for f32 that
// of a type with four more bits, as the arithmetic here is double). If the vector's element is negligible, or two poles
// are so close that a rotation of their vectors makes it so, the eigenvalue stays. Those that stay are put after the
// others.
static void deflate(Merge *m, Pole *all) {
    const CpuEigenHalves *h = m->halves;
    Pole *stay = h->stay;
    double largest = 0;
    int64_t staying = 0, before = -1;
    for (int64_t i = 0; i < m->n; i++) largest = fmax(largest, fmax(fabs(all[i].d), fabs(all[i].z)));
    const double tolerance = 8 * (h->is_double ? DBL_EPSILON : FLT_EPSILON / 16) * largest;
    m->count = 0;
    for (int64_t i = 0; i < m->n; i++) {
        if (m->rho * fabs(all[i].z) <= tolerance) {
            stay[staying++] = all[i];
            continue;
        }
        if (before >= 0) {
            Pole *low = &all[before], *high = &all[i];
            const double length = hypot(low->z, high->z), cosine = high->z / length, sine = -low->z / length;
            if (fabs((high->d - low->d) * cosine * sine) <= tolerance) {
                const double moved = low->d * cosine * cosine + high->d * sine * sine;
                rotate(h, low->row, high->row, m->first, m->n, cosine, sine);
                high->d = low->d * sine * sine + high->d * cosine * cosine;
                high->z = length;
                low->d = moved;
                if (low->side != high->side) low->side = high->side = 1;
                stay[staying++] = *low;
            } else
                m->poles[m->count++] = *low;
        }
        before = i;
    }
    if (before >= 0) m->poles[m->count++] = all[before];
    assert(m->count + staying == m->n);
    memcpy(m->poles + m->count, stay, sizeof(Pole) * (size_t)staying);
}

// Numbers the poles: those of the first half's columns first, then those of both, then the second's.
static void group_sides(Merge *m) {
    int64_t at = 0;
    for (int side = 0; side < kSides; side++) {
        m->sides[side] = at;
        for (int64_t i = 0; i < m->count; i++)
            if (m->poles[i].side == side) m->grouped[at++] = i;
    }
    m->sides[kSides] = at;
    assert(at == m->count);
}

// Copies only the columns of the merge.
static void copy_row(const CpuEigenHalves *h, const Merge *m, char *to, int64_t to_row, const char *from,
                     int64_t from_row) {
    memcpy(row_at(h, to, to_row, m->first), row_at(h, (char *)(uintptr_t)from, from_row, m->first),
           (size_t)(m->n * (h->is_double ? 8 : 4)));
}

// Computes the eigenvalues and vectors of rows [first, first + n) from those of their halves, coupled by `coupling`.
static void merge(const CpuEigenHalves *h, int64_t first, int64_t half, int64_t n, double coupling) {
    Merge m = {.halves = h,
               .first = first,
               .half = half,
               .n = n,
               .poles = h->poles,
               .grouped = h->grouped,
               .gaps = h->gaps,
               .roots = h->roots,
               .z = h->z};
    Pole *all = h->all;
    const double sign = copysign(1, coupling);
    m.rho = 2 * fabs(coupling);  // the vector is divided by its length
    for (int64_t i = 0; i < n; i++) {
        const bool is_first = i < half;
        const double z = is_first ? get(h, first + i, first + half - 1) : sign * get(h, first + i, first + half);
        all[i] = (Pole){h->d[first + i], z * sqrt(0.5), first + i, is_first ? 0 : 2};
    }
    qsort(all, (size_t)n, sizeof(Pole), by_value);
    deflate(&m, all);
    group_sides(&m);
    m.weights = h->weights;
    for (int64_t i = 0; i < m.count; i++) m.weights[i] = m.poles[i].z;
    CpuPool *pool = h->matrix->pool;
    cpu_pool_parallel_for_grain(pool, hlo_divide_up(m.count, kRootsEach), 1, roots_task, &m);
    renew_vector(&m);
    for (int64_t i = 0; i < m.count; i++) copy_row(h, &m, h->held, i, h->rows, m.poles[m.grouped[i]].row);
    for (int64_t i = m.count; i < n; i++) copy_row(h, &m, h->held, i, h->rows, m.poles[i].row);
    cpu_pool_parallel_for_grain(pool, hlo_divide_up(m.count, kRowsEach), 1, vectors_task, &m);
    for (int64_t i = 0; i < m.count; i++) h->d[first + i] = m.roots[i];
    for (int64_t i = m.count; i < n; i++) {
        h->d[first + i] = m.poles[i].d;
        copy_row(h, &m, h->rows, first + i, h->held, i);
    }
}

// Solves both halves and merges them; false if a small part does not converge.
static bool solve(const CpuEigenHalves *h, int64_t first, int64_t n) {
    if (n <= CPU_EIGEN_SMALL) return h->small(h->context, first, n);
    const int64_t half = n / 2;
    const double coupling = h->e[first + half - 1];
    h->d[first + half - 1] -= fabs(coupling);
    h->d[first + half] -= fabs(coupling);
    h->e[first + half - 1] = 0;
    if (!solve(h, first, half) || !solve(h, first + half, n - half)) return false;
    merge(h, first, half, n, coupling);
    return true;
}

// ---- memory

// Returns the scratch memory for the larger of the two products of a part.
static size_t scratch_bytes(const CpuEigenHalves *h) {
    const CpuProduct product = product_of(h, kRowsEach, (h->n + 1) / 2, h->n, h->n);
    return cpu_product_scratch_bytes(&product);
}

size_t cpu_eigen_halves_bytes(const CpuPool *pool, bool is_double, int64_t n) {
    const CpuMatrix matrix = {.type = HLO_F32, .features = CPU_FEATURES_AMX};
    const CpuEigenHalves h = {.matrix = (CpuMatrix *)(uintptr_t)&matrix, .is_double = is_double, .n = n};
    const int64_t workers = cpu_pool_worker_count(pool);
    return 2 * cpu_work_bytes(n * n, is_double ? 8 : 4) + cpu_work_bytes(n * n, 8) + 3 * cpu_work_bytes(n, 8) +
           cpu_work_bytes(n, sizeof(int64_t)) + 3 * cpu_work_bytes(n, sizeof(Pole)) + cpu_work_bytes(n * workers, 8) +
           cpu_work_bytes(workers, scratch_bytes(&h));
}

bool cpu_eigen_halves(CpuEigenHalves *h) {
    assert(h->matrix && h->n > 0 && h->rows);
    const int64_t n = h->n, workers = cpu_pool_worker_count(h->matrix->pool);
    const size_t width = h->is_double ? 8 : 4;
    h->held = cpu_matrix_work(h->matrix, n * n, width);
    h->coefficients = cpu_matrix_work(h->matrix, n * n, width);
    h->gaps = cpu_matrix_work(h->matrix, n * n, 8);
    h->roots = cpu_matrix_work(h->matrix, n, 8);
    h->z = cpu_matrix_work(h->matrix, n, 8);
    h->weights = cpu_matrix_work(h->matrix, n, 8);
    h->grouped = cpu_matrix_work(h->matrix, n, sizeof(int64_t));
    h->poles = cpu_matrix_work(h->matrix, n, sizeof(Pole));
    h->all = cpu_matrix_work(h->matrix, n, sizeof(Pole));
    h->stay = cpu_matrix_work(h->matrix, n, sizeof(Pole));
    h->shifted = cpu_matrix_work(h->matrix, n * workers, 8);
    h->scratch_each = scratch_bytes(h);
    h->scratch = cpu_matrix_work(h->matrix, workers, h->scratch_each);
    return solve(h, 0, n);
}
