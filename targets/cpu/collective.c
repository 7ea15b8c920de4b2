// SPDX-License-Identifier: Apache-2.0
// The exchanges themselves, over addresses of all members' arrays: devices are memory of one process, so a collective
// is reading the others' inputs and writing one's own result. Reductions go in rank order, block by block through
// buffers that stay in the first cache, and narrow types are summed in wide ones and rounded once. Results do not
// depend on how the work is cut among workers. Members may share memory (equal values on several devices): what was
// written for one is not written again.
#include "targets/cpu/collective.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "targets/cpu/held.h"

enum { kBlock = 2048, kParallelBytes = 64 << 10 };

// ---- reducing blocks

typedef struct Reducer {
    CpuBlockKernel *combine, *decode, *encode, *wrap;
    int width;  // stored
    int64_t ranks;
    void *const *outs;
    const void *const *ins;
} Reducer;

// UNIMPLEMENTED for types and ops that no kernel combines.
static HloStatus reducer_new(CpuPool *pool, HloType type, CpuReduceOp op, int64_t ranks, void *const *outs,
                             const void *const *ins, Reducer *reducer) {
    assert(ranks > 0 && outs && ins && reducer);
    const CpuLoopKernels *kernels = cpu_isa_loop_kernels(cpu_pool_features(pool));
    *reducer = (Reducer){.combine = cpu_pair_kernel(kernels, type, op),
                         .decode = kernels->decode[type],
                         .encode = kernels->encode[type],
                         .wrap = kernels->wrap[type],
                         .width = hlo_type_bytes(type),
                         .ranks = ranks,
                         .outs = outs,
                         .ins = ins};
    HLO_FAIL_IF(!reducer->combine, HLO_UNIMPLEMENTED, "reduction of %s between devices", hlo_type_text(type));
    return HLO_SUCCESS;
}

// Elements [at, at + count) of all inputs reduced in rank order into `sum`; returns where the stored result is.
static const void *reduce_block(const Reducer *r, int64_t at, int64_t count, void *sum, void *spare) {
    assert(at >= 0 && count >= 0);
    const int64_t offset = at * r->width;
    const void *first = (const char *)r->ins[0] + offset;
    if (r->decode) r->decode(sum, first, NULL, NULL, count, 0), first = sum;
    for (int64_t s = 1; s < r->ranks; s++) {
        const void *next = (const char *)r->ins[s] + offset;
        if (r->decode) r->decode(spare, next, NULL, NULL, count, 0), next = spare;
        r->combine(sum, first, next, NULL, count, 0);
        first = sum;
    }
    if (r->wrap) r->wrap(sum, first, NULL, NULL, count, 0), first = sum;
    if (!r->encode) return first;
    r->encode(spare, first, NULL, NULL, count, 0);
    return spare;
}

// True when an earlier rank already writes this buffer.
static bool is_repeat(void *const *outs, int64_t rank) {
    for (int64_t s = 0; s < rank; s++)
        if (outs[s] == outs[rank]) return true;
    return false;
}

// A block is read from all members before it is written to any: inputs and outputs may be the same memory.
static void all_reduce_task(void *argument, int64_t begin, int64_t end, int worker) {
    assert(argument && begin >= 0 && begin <= end && worker >= 0);
    const Reducer *r = argument;
    _Alignas(64) unsigned char sum[kBlock * 16], spare[kBlock * 16];
    const int64_t block = (int64_t)sizeof sum / 16;
    (void)worker;
    for (int64_t at = begin; at < end; at += block) {
        const int64_t count = end - at < block ? end - at : block;
        const void *result = reduce_block(r, at, count, sum, spare);
        for (int64_t s = 0; s < r->ranks; s++) {
            char *out = (char *)r->outs[s] + at * r->width;
            if (out != result && (s == 0 || r->outs[s] != r->outs[s - 1]))
                memcpy(out, result, (size_t)(count * r->width));
        }
    }
}

// Small ones run on the caller's thread.
HloStatus cpu_all_reduce(CpuPool *pool, HloType type, CpuReduceOp op, int64_t ranks, int64_t count, void *const *outs,
                         const void *const *ins) {
    Reducer reducer;
    HLO_TRY(reducer_new(pool, type, op, ranks, outs, ins, &reducer));
    const bool small = count * reducer.width * ranks < kParallelBytes;
    cpu_pool_parallel_for_grain(small ? NULL : pool, count, kBlock, all_reduce_task, &reducer);
    return HLO_SUCCESS;
}

typedef struct ScatterJob {
    Reducer reducer;
    int64_t part;
} ScatterJob;

// Unit = (outer row * ranks + rank): one shard row.
static void reduce_scatter_task(void *argument, int64_t begin, int64_t end, int worker) {
    assert(argument && begin >= 0 && begin <= end && worker >= 0);
    const ScatterJob *job = argument;
    const Reducer *r = &job->reducer;
    _Alignas(64) unsigned char sum[kBlock * 16], spare[kBlock * 16];
    (void)worker;
    for (int64_t unit = begin; unit < end; unit++) {
        char *out = (char *)r->outs[unit % r->ranks] + unit / r->ranks * job->part * r->width;
        for (int64_t i = 0; i < job->part; i += kBlock) {
            const int64_t count = job->part - i < kBlock ? job->part - i : kBlock;
            const void *result = reduce_block(r, unit * job->part + i, count, sum, spare);
            memcpy(out + i * r->width, result, (size_t)(count * r->width));
        }
    }
}

HloStatus cpu_reduce_scatter(CpuPool *pool, HloType type, CpuReduceOp op, int64_t ranks, int64_t outer, int64_t part,
                             void *const *outs, const void *const *ins) {
    ScatterJob job = {.part = part};
    HLO_TRY(reducer_new(pool, type, op, ranks, outs, ins, &job.reducer));
    const bool small = outer * part * ranks * ranks * job.reducer.width < kParallelBytes;
    cpu_pool_parallel_for_grain(small ? NULL : pool, outer * ranks, 1, reduce_scatter_task, &job);
    return HLO_SUCCESS;
}

// ---- moving

typedef struct MoveJob {
    int64_t ranks, outer, middle, part_bytes;
    void *const *outs;
    const void *const *ins;
} MoveJob;

// Unit = receiving rank * outer + outer row.
static void all_gather_task(void *argument, int64_t begin, int64_t end, int worker) {
    assert(argument && begin >= 0 && begin <= end && worker >= 0);
    const MoveJob *job = argument;
    (void)worker;
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t rank = unit / job->outer, row = unit % job->outer;
        if (is_repeat(job->outs, rank)) continue;
        char *to = (char *)job->outs[rank] + row * job->ranks * job->part_bytes;
        for (int64_t s = 0; s < job->ranks; s++)
            memcpy(to + s * job->part_bytes, (const char *)job->ins[s] + row * job->part_bytes,
                   (size_t)job->part_bytes);
    }
}

// Units of one memory copy are handed out by so many that a worker has something to do.
static void spread(CpuPool *pool, const MoveJob *job, int64_t units, int64_t bytes_each, CpuTask *task) {
    const bool small = units * bytes_each < kParallelBytes;
    cpu_pool_parallel_for_grain(small ? NULL : pool, units, kParallelBytes / (bytes_each + 1) / 4 + 1, task,
                                (void *)(uintptr_t)job);
}

void cpu_all_gather(CpuPool *pool, int64_t ranks, int64_t outer, int64_t part_bytes, void *const *outs,
                    const void *const *ins) {
    const MoveJob job = {.ranks = ranks, .outer = outer, .part_bytes = part_bytes, .outs = outs, .ins = ins};
    spread(pool, &job, ranks * outer, ranks * part_bytes, all_gather_task);
}

// Unit = (receiving rank, before row, middle row).
static void all_to_all_task(void *argument, int64_t begin, int64_t end, int worker) {
    assert(argument && begin >= 0 && begin <= end && worker >= 0);
    const MoveJob *job = argument;
    (void)worker;
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t rank = unit / (job->outer * job->middle), row = unit / job->middle % job->outer,
                      m = unit % job->middle;
        char *to = (char *)job->outs[rank] + (row * job->middle + m) * job->ranks * job->part_bytes;
        for (int64_t s = 0; s < job->ranks; s++)
            memcpy(to + s * job->part_bytes,
                   (const char *)job->ins[s] + ((row * job->ranks + rank) * job->middle + m) * job->part_bytes,
                   (size_t)job->part_bytes);
    }
}

void cpu_all_to_all(CpuPool *pool, int64_t ranks, int64_t before, int64_t middle, int64_t part_bytes, void *const *outs,
                    const void *const *ins) {
    const MoveJob job = {
        .ranks = ranks, .outer = before, .middle = middle, .part_bytes = part_bytes, .outs = outs, .ins = ins};
    spread(pool, &job, ranks * before * middle, ranks * part_bytes, all_to_all_task);
}

typedef struct PermuteJob {
    int64_t bytes, pairs;
    const int64_t *sources, *targets;
    void *const *outs;
    const void *const *ins;
} PermuteJob;

// Unit = receiving rank.
static void permute_task(void *argument, int64_t begin, int64_t end, int worker) {
    assert(argument && begin >= 0 && begin <= end && worker >= 0);
    const PermuteJob *job = argument;
    (void)worker;
    for (int64_t rank = begin; rank < end; rank++) {
        int64_t source = -1;
        for (int64_t p = 0; p < job->pairs; p++)
            if (job->targets[p] == rank) source = job->sources[p];
        if (source < 0)
            memset(job->outs[rank], 0, (size_t)job->bytes);
        else
            memcpy(job->outs[rank], job->ins[source], (size_t)job->bytes);
    }
}

void cpu_collective_permute(CpuPool *pool, int64_t ranks, int64_t bytes, int64_t pairs, const int64_t *sources,
                            const int64_t *targets, void *const *outs, const void *const *ins) {
    PermuteJob job = {bytes, pairs, sources, targets, outs, ins};
    cpu_pool_parallel_for_grain(ranks * bytes < kParallelBytes ? NULL : pool, ranks, 1, permute_task, &job);
}

typedef struct BroadcastJob {
    int64_t bytes;
    void *const *outs;
    const void *in;
} BroadcastJob;

static void broadcast_task(void *argument, int64_t begin, int64_t end, int worker) {
    assert(argument && begin >= 0 && begin <= end && worker >= 0);
    const BroadcastJob *job = argument;
    (void)worker;
    for (int64_t rank = begin; rank < end; rank++)
        if (job->outs[rank] != job->in && !is_repeat(job->outs, rank))
            memcpy(job->outs[rank], job->in, (size_t)job->bytes);
}

void cpu_collective_broadcast(CpuPool *pool, int64_t ranks, int64_t bytes, void *const *outs, const void *in) {
    BroadcastJob job = {bytes, outs, in};
    cpu_pool_parallel_for_grain(ranks * bytes < kParallelBytes ? NULL : pool, ranks, 1, broadcast_task, &job);
}
