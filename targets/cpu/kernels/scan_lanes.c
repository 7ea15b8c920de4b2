// SPDX-License-Identifier: Apache-2.0
// Scans with any combiner: a unit of work is some columns, whose elements are transposed, a few steps at a time, so
// that the columns are contiguous and one call of the combiner performs a step in all of them.
#include <assert.h>
#include <string.h>

#include "hlo/base/arithmetic.h"
#include "hlo/base/memory.h"
#include "targets/cpu/element/copy.h"
#include "targets/cpu/kernels/window.h"

enum { kSteps = 32, kAlignment = 64 };

typedef struct LanesJob {
    const CpuLanesScan *scan;
    const void *const *inits;
    void *const *outs;
    const void *const *ins;
    char *scratch;
    int64_t scratch_each;                            // bytes of one worker
    int64_t row_bytes[CPU_KERNEL_RANK_LIMIT];        // of one step of all lanes, by operand
    int64_t operand_offsets[CPU_KERNEL_RANK_LIMIT];  // in scratch: kSteps rows of ins, kSteps of outs, one of inits
} LanesJob;

// Columns at even distances in memory: lane l of them begins at element base + l * step of the arrays.
typedef struct Segment {
    int64_t lane, count, base, step;
} Segment;

// Returns the segment that begins at lane `lane` of the columns [first, first + count).
static Segment segment_at(const CpuLanesScan *s, int64_t first, int64_t count, int64_t lane) {
    assert(lane < count);
    const int64_t column = first + lane, left = s->inner - column % s->inner, rest = count - lane;
    if (s->inner == 1) return (Segment){lane, rest, column * s->length, s->length};
    return (Segment){lane, left < rest ? left : rest, column / s->inner * s->length * s->inner + column % s->inner, 1};
}

// Moves the steps [row, row + rows) of the columns between the arrays and the rows of lanes in scratch.
static void turn(const LanesJob *job, int operand, int64_t first, int64_t count, int64_t row, int64_t rows, char *lanes,
                 bool out) {
    assert(rows > 0 && rows <= kSteps);
    const CpuLanesScan *s = job->scan;
    const int width = hlo_type_bytes(s->types[operand]);
    for (int64_t lane = 0; lane < count;) {
        const Segment segment = segment_at(s, first, count, lane);
        const int64_t sizes[2] = {rows, segment.count}, array[2] = {s->inner, segment.step};
        const int64_t turned[2] = {job->row_bytes[operand] / width, 1};
        const int64_t at = (segment.base + row * s->inner) * width;
        char *in_lanes = lanes + segment.lane * width;
        if (out)
            cpu_copy_strided(NULL, 2, sizes, width, (char *)job->outs[operand] + at, array, in_lanes, turned);
        else
            cpu_copy_strided(NULL, 2, sizes, width, in_lanes, turned, (const char *)job->ins[operand] + at, array);
        lane += segment.count;
    }
}

// Scans steps [row, row + rows) of the columns. `carry` points to each operand's latest results, at first the inits.
static void scan_steps(const LanesJob *job, int64_t first, int64_t count, int64_t row, int64_t rows, char *scratch,
                       const void **carry) {
    const CpuLanesScan *s = job->scan;
    const void *elements[CPU_KERNEL_RANK_LIMIT];
    void *results[CPU_KERNEL_RANK_LIMIT];
    for (int i = 0; i < s->count; i++) turn(job, i, first, count, row, rows, scratch + job->operand_offsets[i], false);
    for (int64_t k = 0; k < rows; k++) {
        const int64_t step = s->reverse ? rows - 1 - k : k;
        for (int i = 0; i < s->count; i++) {
            elements[i] = scratch + job->operand_offsets[i] + step * job->row_bytes[i];
            results[i] = scratch + job->operand_offsets[i] + (kSteps + step) * job->row_bytes[i];
        }
        s->combine(s->context, s->count, s->reverse ? elements : carry, s->reverse ? carry : elements, results);
        for (int i = 0; i < s->count; i++) carry[i] = results[i];
    }
    for (int i = 0; i < s->count; i++) {
        char *kept = scratch + job->operand_offsets[i] + 2 * kSteps * job->row_bytes[i];
        turn(job, i, first, count, row, rows, scratch + job->operand_offsets[i] + kSteps * job->row_bytes[i], true);
        memcpy(kept, carry[i], (size_t)job->row_bytes[i]);
        carry[i] = kept;
    }
}

// A unit is the next `lanes` columns.
static void lanes_task(void *argument, int64_t begin, int64_t end, int worker) {
    assert(argument && begin >= 0 && begin <= end && worker >= 0);
    const LanesJob *job = argument;
    const CpuLanesScan *s = job->scan;
    char *scratch = job->scratch + worker * job->scratch_each;
    const void *carry[CPU_KERNEL_RANK_LIMIT];
    memset(scratch, 0, (size_t)job->scratch_each);  // lanes beyond the last column are computed too
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t first = unit * s->lanes, left = s->outer * s->inner - first;
        const int64_t count = left < s->lanes ? left : s->lanes;
        for (int i = 0; i < s->count; i++) {
            char *kept = scratch + job->operand_offsets[i] + 2 * kSteps * job->row_bytes[i];
            cpu_fill_run(kept, job->inits[i], s->lanes, hlo_type_bytes(s->types[i]));
            carry[i] = kept;
        }
        for (int64_t done = 0; done < s->length; done += kSteps) {
            const int64_t rows = s->length - done < kSteps ? s->length - done : kSteps;
            scan_steps(job, first, count, s->reverse ? s->length - done - rows : done, rows, scratch, carry);
        }
    }
}

HloStatus cpu_scan_lanes(CpuPool *pool, const CpuLanesScan *s, const void *const *inits, void *const *outs,
                         const void *const *ins) {
    assert(s && s->lanes > 0 && s->inner >= 0 && s->outer >= 0 && s->length >= 0);
    assert(s->count >= 1 && s->count <= CPU_KERNEL_RANK_LIMIT); /* more have no scalar function */
    if (s->outer * s->inner * s->length == 0) return HLO_SUCCESS;
    LanesJob job = {.scan = s, .inits = inits, .outs = outs, .ins = ins};
    for (int i = 0; i < s->count; i++) {
        const int64_t bytes = s->lanes * hlo_type_bytes(s->types[i]);
        job.row_bytes[i] = hlo_round_up(bytes, kAlignment);
        job.operand_offsets[i] = job.scratch_each;
        job.scratch_each += (2 * kSteps + 1) * job.row_bytes[i];
    }
    job.scratch =
        cpu_pool_scratch_take(pool, hlo_array_bytes((size_t)job.scratch_each, (size_t)cpu_pool_worker_count(pool)));
    HLO_FAIL_IF(!job.scratch, HLO_RESOURCE_EXHAUSTED, "no memory to scan %lld columns",
                (long long)(s->outer * s->inner));
    cpu_pool_parallel_for_grain(pool, hlo_divide_up(s->outer * s->inner, s->lanes), 1, lanes_task, &job);
    cpu_pool_scratch_give(pool, job.scratch);
    return HLO_SUCCESS;
}
