// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/limits.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "benchmarks/bench.h"

enum { kMaxThreads = 64, kLine = 64, kLargePage = 2 << 20, kMultiplyAdds = 1 << 20 };

// Twelve independent chains hide the latency of a fused multiply-add (4 cycles, two units) and leave registers for its
// factors. The empty assembly keeps the compiler from folding the loop.
#define PEAK_LOOP(name, Vector, zero, multiply_add, register, attribute)                                         \
    attribute static double name(void) {                                                                         \
        Vector a = zero, b = a, c = a, d = a, e = a, f = a, g = a, h = a, i = a, j = a, k = a, l = a;            \
        for (int64_t n = 0; n < kMultiplyAdds; n++) {                                                            \
            a = multiply_add(a, a, a), b = multiply_add(b, b, b), c = multiply_add(c, c, c);                     \
            d = multiply_add(d, d, d), e = multiply_add(e, e, e), f = multiply_add(f, f, f);                     \
            g = multiply_add(g, g, g), h = multiply_add(h, h, h), i = multiply_add(i, i, i);                     \
            j = multiply_add(j, j, j), k = multiply_add(k, k, k), l = multiply_add(l, l, l);                     \
            __asm__ volatile("" : register(a), register(b), register(c), register(d), register(e), register(f)); \
            __asm__ volatile("" : register(g), register(h), register(i), register(j), register(k), register(l)); \
        }                                                                                                        \
        return 12.0 * 2 * kMultiplyAdds * sizeof(Vector) / sizeof(float);                                        \
    }
#if defined(__x86_64__)
PEAK_LOOP(peak_512, __m512, _mm512_setzero_ps(), _mm512_fmadd_ps, "+v", __attribute__((target("avx512f"))))
PEAK_LOOP(peak_256, __m256, _mm256_setzero_ps(), _mm256_fmadd_ps, "+x", __attribute__((target("avx2,fma"))))
#elif defined(__aarch64__)
PEAK_LOOP(peak_128, float32x4_t, vdupq_n_f32(0), vfmaq_f32, "+w", )
#else
#error "no peak of multiply-adds for this processor"
#endif

typedef double PeakLoop(void);

// The loops that this processor has; returns their number.
static int peak_loops(PeakLoop *loops[3]) {
    int count = 0;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) loops[count++] = peak_256;
    if (__builtin_cpu_supports("avx512f")) loops[count++] = peak_512;
#else
    loops[count++] = peak_128;
#endif
    return count;
}

// One thread's share of a measurement.
typedef struct Share {
    PeakLoop *loop;    // multiply-adds; else memory:
    const char *read;  // read_bytes to read, a multiple of kLine
    char *written;     // written_bytes to write
    int64_t read_bytes, written_bytes, repeats;
    bool streams;
    double flops;
    uint64_t sum;  // of what was read, so that reading is not optimised away
} Share;

// Writes past the caches, which saves reading what is overwritten; memset() decides that by a size of its own.
static void stream(char *to, int64_t bytes) {
#if defined(__x86_64__)
    const __m128i value = _mm_set1_epi8(1);
    for (; bytes >= 16 && ((uintptr_t)to & 15) != 0; to++, bytes--) *to = 1;
    for (; bytes >= 16; to += 16, bytes -= 16) _mm_stream_si128((__m128i *)to, value);
    _mm_sfence();
#endif
    memset(to, 1, (size_t)bytes);
}

static void read_and_write(Share *share) {
    typedef uint64_t Vector __attribute__((vector_size(16), aligned(16)));
    Vector a = {0}, b = {0}, c = {0}, d = {0};
    const Vector *from = (const Vector *)(const void *)share->read;
    for (int64_t i = 0; i < share->read_bytes / 16; i += 4)
        a |= from[i], b |= from[i + 1], c |= from[i + 2], d |= from[i + 3];
    a |= b | c | d;
    share->sum += a[0] + a[1];
    if (share->streams)
        stream(share->written, share->written_bytes);
    else
        memset(share->written, (int)share->sum & 1, (size_t)share->written_bytes);
}

static void *work(void *argument) {
    Share *share = argument;
    if (share->loop) share->flops = share->loop();
    for (int64_t i = 0; i < share->repeats; i++) read_and_write(share);
    return NULL;
}

// Runs the shares at the same time and returns the seconds that they took.
static double run_shares(Share *shares, int threads) {
    pthread_t handles[kMaxThreads];
    bool started[kMaxThreads] = {0};
    const double start = bench_seconds();
    for (int i = 1; i < threads; i++) started[i] = pthread_create(&handles[i], NULL, work, &shares[i]) == 0;
    work(&shares[0]);
    for (int i = 1; i < threads; i++) {
        if (started[i])
            pthread_join(handles[i], NULL);
        else
            work(&shares[i]);
    }
    return bench_seconds() - start;
}

// At most kMaxThreads; for 0 as many as the process has cores.
static int count_threads(int threads) {
    cpu_set_t cores;
    if (threads < 1) threads = sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
    return threads > kMaxThreads ? kMaxThreads : threads;
}

double bench_peak_flops(int threads) {
    static double peak;
    static int peak_threads;
    PeakLoop *loops[3];
    Share shares[kMaxThreads];
    threads = count_threads(threads);
    if (peak_threads == threads) return peak;
    peak = 0;
    const int count = peak_loops(loops);
    for (int run = 0; run < 8 * count; run++) {
        memset(shares, 0, sizeof shares);
        for (int i = 0; i < threads; i++) shares[i].loop = loops[run % count];
        const double seconds = run_shares(shares, threads);
        double flops = 0;
        for (int i = 0; i < threads; i++) flops += shares[i].flops;
        if (flops / seconds > peak) peak = flops / seconds;
    }
    peak_threads = threads;
    return peak;
}

double bench_traffic_seconds(int64_t read_bytes, int64_t written_bytes, int threads, double seconds) {
    threads = count_threads(threads);
    // The clock itself takes time, and so does a thread's start.
    const int64_t repeats = 1 + (4 << 20) / (read_bytes + written_bytes + 1);
    const int64_t read_share = read_bytes / threads / kLine * kLine, written_share = written_bytes / threads;
    // In large pages, as the client's buffers are.
    const size_t size = ((size_t)(read_bytes + written_bytes) / kLargePage + 1) * kLargePage;
    char *memory = aligned_alloc(kLargePage, size);
    if (!memory) return -1;
    madvise(memory, size, MADV_HUGEPAGE);
    memset(memory, 1, size);
    Share shares[kMaxThreads] = {{0}};
    for (int i = 0; i < threads; i++) {
        shares[i] = (Share){.read = memory + i * read_share,
                            .read_bytes = read_share,
                            .written = memory + read_bytes + i * written_share,
                            .written_bytes = written_share,
                            .repeats = repeats};
    }
    double least = 1e30;
    const double begin = bench_seconds();
    for (int i = 0; i < 6 || bench_seconds() - begin < seconds; i++) {
        for (int k = 0; k < threads; k++) shares[k].streams = i % 2;
        const double each = run_shares(shares, threads) / (double)repeats;
        least = each < least ? each : least;
    }
    free(memory);
    return least;
}
