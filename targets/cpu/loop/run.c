// SPDX-License-Identifier: Apache-2.0
// Interprets a fused loop: for each block of kept indices it computes the values in order, each with one block kernel.
//
// A worker takes blocks of some thousand elements. For each block it runs the loop's steps; each is one call of a
// kernel that reads whole registers (ranges of scratch memory, or of an array where its elements are contiguous) and
// writes another. So dispatch costs once per thousand elements, and all data of a block stays in the first-level cache.
//
//     rows       [kept][reduced]: a block is some whole rows, and everything is done in one pass
//     in chunks  rows too long for registers: one row at a time in phases, chunk by chunk (chunks.c)
//     partial    long rows that are only reduced: pass 1 reduces segments to partials, pass 2 folds those
//     columns    [outer][reduced][inner]: pass 1 goes down some columns per segment, pass 2 folds the segments
//
// Invariant: the order of combination depends only on the sizes, never on the number of workers. Segments have a fixed
// length and are folded in order, so that results have the same bits on any machine with these kernels.
//
// Memory: a worker's scratch is [addresses of registers][registers]; partials are one block for all workers.
#include <assert.h>
#include <math.h>
#include <string.h>

#include "hlo/base/arithmetic.h"
#include "targets/cpu/element/copy.h"
#include "targets/cpu/loop/internal.h"

// One worker's state while it runs blocks. Counts are in elements; "kept" and "full" positions are flat, in row-major
// order.
typedef struct Frame {
    const CpuLoop *loop;
    void *const *buffers;
    char *scratch;
    void **registers;    // address of each value's current elements; -1 is no value
    char *partials;      // results of segments, see partial_at()
    int64_t kept_start;  // kept flat index of the block
    int64_t kept_count;
    int64_t full_start;  // flat index, in the whole domain, of the block's first element
    int64_t full_count;
    int64_t chunk_start;  // of a row in chunks: the chunk's first element in the row
    int64_t ahead_array;  // index of the array being prefetched, and what is left of its next block
    const char *ahead_at, *ahead_end;
    bool streams;                                               // stores that may bypass the caches do so
    _Alignas(64) float sums[CPU_CHAIN_ROWS][CPU_REDUCE_LANES];  // of the rows of the latest chain that has sums
} Frame;

// ---- moving elements between arrays and registers

// Returns where a store with a contiguous walk writes the elements from `start` on.
static void *store_place(const Frame *frame, const CpuLoopValue *store, int64_t start) {
    return (char *)frame->buffers[store->buffer] + (store->walk.offset + start) * store->width;
}

// Does the work of cpu_walk_store() for a contiguous walk, bypassing the caches.
static void stream_run(const Frame *frame, const CpuLoopValue *value, int64_t start, int64_t count) {
    void *to = store_place(frame, value, start);
    frame->loop->kernels->stream(to, frame->registers[value->operands[0]], (size_t)(count * value->width));
}

// Does the work of cpu_walk_store() for a contiguous walk. One element for all is written without reading a register.
static void store_run(const Frame *frame, const CpuLoopValue *value, int64_t start, int64_t count) {
    const void *from = frame->registers[value->operands[0]];
    void *to = store_place(frame, value, start);
    if (frame->loop->values[value->operands[0]].level == CPU_LEVEL_UNIFORM)
        cpu_fill_run(to, from, count, value->width);
    else if (to != from)
        memcpy(to, from, (size_t)(count * value->width));
}

// Whether stores bypass the caches: not if one writes over an array that is read, whose lines are cached already.
static bool may_stream(const CpuLoop *loop, void *const *buffers) {
    if (!loop->streams) return false;
    for (CpuValue s = 0; s < loop->value_count; s++) {
        for (CpuValue l = 0; loop->values[s].streams && l < loop->value_count; l++) {
            const bool loads = loop->values[l].kind == CPU_VALUE_LOAD;
            if (loads && buffers[loop->values[l].buffer] == buffers[loop->values[s].buffer]) return false;
        }
    }
    return true;
}

// ---- one value

// Returns the value's register; for a value that is kept for the whole row, the part of the current chunk.
static void *own_register(const Frame *frame, const CpuLoopValue *value) {
    return frame->scratch + value->slot + (value->whole_row ? frame->chunk_start * value->width : 0);
}

// Returns NULL for an operand that the value does not have.
static void *operand_of(const Frame *frame, const CpuLoopValue *value, int i) {
    return value->operands[i] < 0 ? NULL : frame->registers[value->operands[i]];
}

// Returns where the store of the value would write the elements from `start` on: the value is computed there directly.
static void *output_place(const Frame *frame, const CpuLoopValue *value, int64_t start) {
    return store_place(frame, &frame->loop->values[value->stored_by], start);
}

static void fetch_ahead(Frame *frame);

static bool is_streamed(const Frame *frame, const CpuLoopValue *value) {
    return frame->streams && value->stored_by >= 0 && frame->loop->values[value->stored_by].streams;
}

// Writes the kernel's result past the caches, in parts: so few stores wait for memory while the next part is computed.
static void *run_streamed(Frame *frame, const CpuLoopValue *value, int64_t start, int64_t count) {
    enum { kPart = 256, kWidest = 16 };
    _Alignas(64) char part[kPart * kWidest];
    assert(value->width <= kWidest);
    char *const to = output_place(frame, value, start);
    const char *operands[3];
    int64_t widths[3] = {0};
    for (int i = 0; i < 3; i++) {
        operands[i] = operand_of(frame, value, i);
        const CpuLoopValue *operand = operands[i] ? &frame->loop->values[value->operands[i]] : NULL;
        const bool one = operand && operand->level < value->level;  // one number for all elements
        widths[i] = operand && !one ? operand->width : 0;
    }
    for (int64_t at = 0; at < count; at += kPart) {
        const int64_t n = count - at < kPart ? count - at : kPart;
        if (frame->ahead_at != frame->ahead_end) fetch_ahead(frame);
        value->kernel(part, operands[0], operands[1], operands[2], n, value->immediate);
        frame->loop->kernels->stream(to + at * value->width, part, (size_t)(n * value->width));
        for (int i = 0; i < 3; i++)
            if (operands[i]) operands[i] += kPart * widths[i];
    }
    return to;
}

// Runs the kernel and returns the address of the result.
static void *run_kernel(Frame *frame, const CpuLoopValue *value, int64_t start, int64_t count) {
    if (is_streamed(frame, value)) return run_streamed(frame, value, start, count);
    void *dst = value->stored_by >= 0 ? output_place(frame, value, start) : own_register(frame, value);
    value->kernel(dst, operand_of(frame, value, 0), operand_of(frame, value, 1), operand_of(frame, value, 2), count,
                  value->immediate);
    return dst;
}

// Repeats the columns' elements for each reduced index of the block.
static void repeat_columns(const Frame *frame, char *dst, const char *source, int width) {
    const int64_t once = frame->kept_count * width, all = frame->full_count * width;
    memcpy(dst, source, (size_t)once);
    for (int64_t done = once; done < all; done *= 2)
        memcpy(dst + done, dst, (size_t)(all - done < done ? all - done : done));
}

// Repeats each kept element over the reduced dimensions.
static void *run_expand(const Frame *frame, const CpuLoopValue *value) {
    char *source = operand_of(frame, value, 0);
    if (cpu_loop_expands_in_place(frame->loop, value)) return source;
    char *dst = own_register(frame, value);
    if (frame->loop->mode == CPU_MODE_COLUMNS) {
        repeat_columns(frame, dst, source, value->width);
        return dst;
    }
    const int64_t each = frame->kept_count ? frame->full_count / frame->kept_count : 0;
    const int number = cpu_loop_move_width(value->width);
    CpuSpreadKernel *spread = each <= CPU_MOVE_MOST && number >= 0 ? frame->loop->moves->spread[number][each] : NULL;
    if (spread) {
        spread(dst, source, frame->kept_count);
        return dst;
    }
    for (int64_t i = 0; i < frame->kept_count; i++)
        cpu_fill_run(dst + i * each * value->width, source + i * value->width, each, value->width);
    return dst;
}

// Reduces the elements of a block of `rows` rows, `count` each.
static void reduce_block(const Frame *frame, const CpuLoopValue *value, void *to, int64_t rows, int64_t count) {
    if (value->in_sums)
        value->reduce(to, frame->sums, rows, CPU_REDUCE_LANES);  // as the kernel itself goes on after its lanes
    else
        value->reduce(to, operand_of(frame, value, 0), rows, count);
}

// Reduces one more chunk of a row, by the same tree as isa/loop_reduce.inc over the whole row. The register, of one
// cache line, holds the results of the row, of its segment and of the chunk.
static void *reduce_chunk(const Frame *frame, const CpuLoopValue *value) {
    const CpuLoop *loop = frame->loop;
    const int64_t end = frame->chunk_start + frame->full_count, in_segment = frame->chunk_start % CPU_REDUCE_SEGMENT;
    char *row = own_register(frame, value), *segment = row + 16, *chunk = row + 32;
    CpuBlockKernel *fold = loop->fold[value->partial];
    assert(frame->kept_count == 1 && value->width <= 16);  // a chunk belongs to one row; three results fit a line
    reduce_block(frame, value, in_segment == 0 ? segment : chunk, 1, frame->full_count);
    if (in_segment != 0) fold(segment, segment, chunk, NULL, 1, 0);
    if (end < loop->reduced && end % CPU_REDUCE_SEGMENT != 0) return row;
    if (end <= CPU_REDUCE_SEGMENT)
        memcpy(row, segment, (size_t)value->width);
    else
        fold(row, row, segment, NULL, 1, 0);
    return row;
}

static void *combine_partials(const Frame *frame, CpuValue v);

// Writes one element of each of the values that the store merges, in turn.
static void store_merged(const Frame *frame, const CpuLoopValue *store, int64_t start, int64_t count) {
    const int64_t each = store->walk.strides[0];
    const void *from[CPU_MOVE_MOST];
    for (int64_t k = 0; k < each; k++) from[k] = frame->registers[store->merged[k]];
    char *to = (char *)frame->buffers[store->buffer] + (store->first_merged + start * each) * store->width;
    frame->loop->moves->merge[cpu_loop_move_width(store->width)][each](to, from, count);
}

// Computes one value of any kind; run_steps() calls plain kernels itself.
static void run_value(Frame *frame, CpuValue v) {
    const CpuLoopValue *value = &frame->loop->values[v];
    const bool full = value->level == CPU_LEVEL_FULL;
    const int64_t start = full ? frame->full_start : frame->kept_start;
    const int64_t count = full ? frame->full_count : frame->kept_count;
    void **result = &frame->registers[v];
    switch (value->kind) {
        case CPU_VALUE_LOAD:
            if (value->in_rows) break;
            *result = cpu_walk_load(
                frame->loop->moves, value, frame->buffers[value->buffer],
                value->stored_by >= 0 ? output_place(frame, value, start) : own_register(frame, value), start, count);
            break;
        case CPU_VALUE_INDEX:
            if (value->in_rows) break;
            *result = own_register(frame, value);
            cpu_walk_index(frame->loop->kernels, value, *result, start, count);
            break;
        case CPU_VALUE_KERNEL:
            if (frame->ahead_at != frame->ahead_end) fetch_ahead(frame);
            *result = run_kernel(frame, value, start, count);
            break;
        case CPU_VALUE_ALIAS: *result = (char *)operand_of(frame, value, 0) + value->immediate * count; break;
        case CPU_VALUE_EXPAND:
            if (!value->in_rows) *result = run_expand(frame, value);
            break;
        case CPU_VALUE_REDUCE:
            *result = own_register(frame, value);
            if (frame->ahead_at != frame->ahead_end) fetch_ahead(frame);
            if (frame->loop->phases)
                (void)reduce_chunk(frame, value);
            else if (frame->loop->mode == CPU_MODE_ROWS)
                reduce_block(frame, value, *result, count, frame->loop->reduced);
            else
                combine_partials(frame, v);
            break;
        case CPU_VALUE_COMBINED: *result = combine_partials(frame, v); break;
        case CPU_VALUE_STORE:
            if (value->is_written || value->is_merged) break;
            if (value->merged)
                store_merged(frame, value, start, count);
            else if (value->streams && frame->streams)
                stream_run(frame, value, start, count);
            else if (value->walk.contiguous)
                store_run(frame, value, start, count);
            else
                cpu_walk_store(value, frame->buffers[value->buffer], operand_of(frame, value, 0), start, count);
            break;
        default: break;
    }
}

static void run_list(Frame *frame, const CpuValueVector *list) {
    for (int64_t i = 0; i < list->count; i++) run_value(frame, list->items[i]);
}

// Computes the values that exist once, filling registers for the longest block.
static void run_uniform(Frame *frame) {
    const CpuLoop *loop = frame->loop;
    for (int64_t i = 0; i < loop->uniform.count; i++) {
        const CpuValue v = loop->uniform.items[i];
        const CpuLoopValue *value = &loop->values[v];
        void *reg = value->slot >= 0 ? own_register(frame, value) : NULL;
        frame->registers[v] = reg;
        const int64_t count =
            value->few_read && loop->uniform_count > CPU_CHAIN_LANES ? CPU_CHAIN_LANES : loop->uniform_count;
        switch (value->kind) {
            case CPU_VALUE_CONSTANT: cpu_fill_run(reg, value->constant, count, value->width); break;
            case CPU_VALUE_LOAD: {
                const char *from = (const char *)frame->buffers[value->buffer] + value->map.offset * value->width;
                cpu_fill_run(reg, from, count, value->width);
                break;
            }
            case CPU_VALUE_INDEX: cpu_walk_index(loop->kernels, value, reg, 0, count); break;
            case CPU_VALUE_KERNEL: (void)run_kernel(frame, value, 0, count); break;
            default: frame->registers[v] = operand_of(frame, value, 0); break;
        }
    }
}

// ---- blocks

// Returns the number of blocks of the kept domain: each run of `row_run` is divided separately.
static int64_t block_count(const CpuLoop *loop) {
    if (loop->steps->block) return hlo_divide_up(loop->kept, loop->steps->block);
    return hlo_divide_up(loop->kept, loop->row_run) * loop->blocks_per_run;
}

// Sets the kept range of block number `block`; returns false for an empty one.
static bool set_block(Frame *frame, int64_t block) {
    const CpuLoop *loop = frame->loop;
    if (loop->steps->block) {
        const int64_t each = loop->steps->block, left = loop->kept - block * each;
        frame->kept_start = block * each;
        frame->kept_count = left < each ? left : each;
        return true;
    }
    const int64_t run = block / loop->blocks_per_run, part = block % loop->blocks_per_run;
    const int64_t begin = part * loop->block;
    const int64_t end = begin + loop->block < loop->row_run ? begin + loop->block : loop->row_run;
    frame->kept_start = run * loop->row_run + begin;
    frame->kept_count = end - begin;
    return frame->kept_count > 0;
}

// Opens a frame once per task. Uniform values are computed here, since they are the same in all its blocks.
static void frame_open(Frame *frame, const CpuLoop *loop, void *const *buffers, char *scratch, char *partials) {
    frame->loop = loop;  // field by field: clearing all of it takes longer than a small loop
    frame->buffers = buffers;
    frame->scratch = scratch;
    frame->partials = partials;
    frame->chunk_start = 0;
    frame->streams = may_stream(loop, buffers);
    frame->ahead_at = frame->ahead_end = NULL;
    frame->registers = (void **)(void *)scratch + 1;
    frame->registers[-1] = NULL;
    for (int v = 0; v < loop->value_count; v++) frame->registers[v] = scratch + loop->slots[v];
    run_uniform(frame);
}

// Opens array number `array` of those whose next block is to be prefetched.
static void open_ahead(Frame *frame, int64_t array) {
    const CpuLoop *loop = frame->loop;
    frame->ahead_array = array;
    frame->ahead_at = frame->ahead_end = NULL;
    if (array >= loop->ahead.count) return;
    const CpuLoopValue *value = &loop->values[loop->ahead.items[array]];
    const int64_t row = loop->reduced > 1 ? loop->reduced : 1, all = loop->kept * row;
    const int64_t start = (frame->kept_start + frame->kept_count) * row, block = frame->kept_count * row;
    const int64_t count = all - start < block ? all - start : block;
    assert(value->walk.contiguous && count >= 0);  // its elements are in the order of the domain's
    frame->ahead_at = (const char *)frame->buffers[value->buffer] + (value->walk.offset + start) * value->width;
    frame->ahead_end = frame->ahead_at + count * value->width;
}

// Prefetches elements of the next block while this one is computed, so that memory and arithmetic work in parallel.
// Only a few at a time, between kernels: more requests than the core can have open would delay the kernels' own loads.
static void fetch_ahead(Frame *frame) {
    enum { kLine = 64 };
    const char *at = frame->ahead_at, *end = frame->ahead_end;
    assert(at < end);  // there is something left to fetch
    const int64_t most = kLine * frame->loop->ahead_lines;
    const char *stop = end - at > most ? at + most : end;
    if (frame->loop->values[frame->loop->ahead.items[frame->ahead_array]].kind == CPU_VALUE_STORE)
        for (; at < stop; at += kLine) __builtin_prefetch(at, 1, 2);
    else
        for (; at < stop; at += kLine) __builtin_prefetch(at, 0, 2);
    frame->ahead_at = stop;
    if (stop == end) open_ahead(frame, frame->ahead_array + 1);
}

// Runs the same kernel in parts, with prefetches between them.
static void run_slow_step(Frame *frame, const CpuLoopStep *step) {
    const int64_t count = step->full ? frame->full_count : frame->kept_count;
    float *dst = frame->registers[step->value];
    const float *left = frame->registers[step->operands[0]], *right = frame->registers[step->operands[1]];
    for (int64_t at = 0; at < count; at += CPU_LOOP_SLOW_PART) {
        if (frame->ahead_at != frame->ahead_end) fetch_ahead(frame);
        step->kernel(dst + at, left + at, right ? right + at : NULL, NULL,
                     count - at < CPU_LOOP_SLOW_PART ? count - at : CPU_LOOP_SLOW_PART, step->immediate);
    }
}

// ---- generated code

// The identities of the operations whose lanes code computes: -0 is that of addition.
#define EIGHT(x) x, x, x, x, x, x, x, x
#define LANES(x) \
    { EIGHT(x), EIGHT(x), EIGHT(x), EIGHT(x), EIGHT(x), EIGHT(x), EIGHT(x), EIGHT(x) }
static const _Alignas(64) float kNoSums[CPU_REDUCE_COUNT][CPU_REDUCE_LANES] = {
    [CPU_REDUCE_ADD] = LANES(-0.0f), [CPU_REDUCE_MAXIMUM] = LANES(-INFINITY), [CPU_REDUCE_MINIMUM] = LANES(INFINITY)};

// What code is passed (jit/emit.h): addresses, that which sums start from, distances of rows, the number of rows.
enum { kChainTable = 2 * CPU_CHAIN_LISTS + 2 };

// The addresses of a chain's lists, and how far they advance per element.
typedef struct ChainLists {
    char *at[kChainTable];  // of sums also those that code starts from, as the last one
    int64_t steps[CPU_CHAIN_LISTS];
    int64_t skips[CPU_CHAIN_LISTS];  // from the end of a row to the next one, in bytes
    int64_t row, row_left;           // elements of a row and of the rest of this one; 0: no list has rows
    int64_t left;                    // elements from which on rows have another distance
    int streamed;                    // how many results pass the caches
    bool in_place;                   // a result takes the place of an operand
    float *sums;                     // of this row
} ChainLists;

// Runs code for `rows` rows, or parts of one, of `count` elements.
static inline void run_code(const CpuLoopChain *chain, char **at, int64_t count, int64_t rows) {
    if (chain->row) at[2 * chain->list_count + 1] = (char *)(uintptr_t)rows;
    chain->run(at, count);
}

// Lets code begin these sums.
static void begin_sums(const CpuLoopChain *chain, char **at, float *sums) {
    at[chain->list_count - 1] = (char *)sums;
    at[chain->list_count] = (char *)(uintptr_t)kNoSums[chain->sum_op];
}

// Runs one vector, and combines `count` lanes of what its sum would get, from lane `first` on, with `sums`.
static void run_part_of_vector(const CpuLoopChain *chain, char **at, int first, int64_t count, float *sums) {
    _Alignas(64) float lanes[CPU_REDUCE_LANES];
    if (!chain->sums) {
        run_code(chain, at, chain->lanes, 1);
        return;
    }
    begin_sums(chain, at, lanes);
    run_code(chain, at, chain->lanes, 1);
    if (chain->sum_op != CPU_REDUCE_ADD) chain->sum_kernel(sums, sums, lanes + first, NULL, count, 0);
    for (int i = 0; chain->sum_op == CPU_REDUCE_ADD && i < count; i++) sums[i] += lanes[first + i];
}

// Runs fewer elements than a vector has, on copies: nothing beyond an array's end may be read or written.
static void run_chain_tail(const CpuLoopChain *chain, const ChainLists *lists, int64_t count, float *sums) {
    _Alignas(64) char copies[CPU_CHAIN_LISTS][CPU_CHAIN_LANES * 4] = {{0}};
    char *at[kChainTable];
    assert(count > 0 && count < chain->lanes);
    for (int i = 0; i < chain->list_count; i++) {
        at[i] = lists->steps[i] ? copies[i] : lists->at[i];
        if (lists->steps[i] && i < chain->read_count)
            memcpy(copies[i], lists->at[i], (size_t)(count * lists->steps[i]));
    }
    run_part_of_vector(chain, at, 0, count, sums);
    for (int i = chain->read_count; i < chain->list_count; i++)
        if (lists->steps[i]) memcpy(lists->at[i], copies[i], (size_t)(count * lists->steps[i]));
}

// Computes the vector of elements that ends where the lists are. All but `count` of them have been computed before.
static void run_last_vector(const CpuLoopChain *chain, const ChainLists *lists, int64_t count, float *sums) {
    char *at[kChainTable];
    assert(!lists->in_place);
    for (int i = 0; i < chain->list_count; i++) at[i] = lists->at[i] - chain->lanes * lists->steps[i];
    run_part_of_vector(chain, at, chain->lanes - (int)count, count, sums);
}

static inline void move_on(const CpuLoopChain *chain, ChainLists *lists, int64_t count) {
    for (int i = 0; i < chain->list_count; i++) lists->at[i] += count * lists->steps[i];
}

// Runs the last elements of a run that are no whole vector, after `whole` elements.
static void run_rest(const CpuLoopChain *chain, ChainLists *lists, int64_t whole, int64_t rest) {
    const bool again = whole && !lists->in_place;
    float *sums = NULL;
    if (chain->sums) {
        if (lists->at[chain->list_count] != (char *)lists->sums)
            memcpy(lists->sums, kNoSums[chain->sum_op], sizeof *kNoSums);
        sums = lists->sums + whole % CPU_REDUCE_LANES;
    }
    if (!again) run_chain_tail(chain, lists, rest, sums);
    move_on(chain, lists, rest);
    if (again) run_last_vector(chain, lists, rest, sums);
}

// Runs `count` elements that follow each other in all lists, and moves on to the next ones.
static inline void run_chain_run(const CpuLoopChain *chain, ChainLists *lists, int64_t count) {
    const int64_t whole = count == chain->row ? count : count & ~(int64_t)(chain->lanes - 1);
    if (whole) {
        run_code(chain, lists->at, whole, 1);
        move_on(chain, lists, whole);
        if (chain->sums) lists->at[chain->list_count] = (char *)lists->sums;
    }
    if (count > whole) run_rest(chain, lists, whole, count - whole);
}

// Runs whole rows in one call, and moves on to the next ones; returns the number of elements.
static int64_t run_rows(const CpuLoopChain *chain, ChainLists *lists, int64_t rows) {
    int64_t distances[CPU_CHAIN_LISTS];
    for (int i = 0; i < chain->list_count; i++) {
        const bool is_sum = chain->sums && i == chain->list_count - 1;
        distances[i] =
            is_sum ? (int64_t)(CPU_REDUCE_LANES * sizeof(float)) : lists->row * lists->steps[i] + lists->skips[i];
        lists->at[chain->list_count + 1 + i] = (char *)(uintptr_t)distances[i];
    }
    run_code(chain, lists->at, lists->row, rows);
    for (int i = 0; i < chain->list_count; i++) lists->at[i] += rows * distances[i];
    if (chain->sums) begin_sums(chain, lists->at, lists->sums += rows * CPU_REDUCE_LANES);
    return rows * lists->row;
}

// Runs `count` elements and moves on to the next ones, row by row if a list has rows.
static void run_chain_part(const CpuLoopChain *chain, ChainLists *lists, int64_t count) {
    if (!lists->row) {
        run_chain_run(chain, lists, count);
        return;
    }
    for (int64_t run; count > 0; count -= run) {
        if (lists->row == chain->row && lists->row_left == lists->row && count >= 2 * lists->row) {
            run = run_rows(chain, lists, count / lists->row);
            continue;
        }
        run = count < lists->row_left ? count : lists->row_left;
        run_chain_run(chain, lists, run);
        lists->row_left -= run;
        if (lists->row_left > 0) continue;
        for (int i = 0; i < chain->list_count; i++) lists->at[i] += lists->skips[i];
        lists->row_left = lists->row;
        if (chain->sums) begin_sums(chain, lists->at, lists->sums += CPU_REDUCE_LANES);
    }
}

// Sets the address of list `i`, whose elements are in rows of an array, or are one number for each row.
static void open_rows(const Frame *frame, const CpuLoopValue *array, int i, int64_t start, ChainLists *lists) {
    const CpuWalk *walk = &array->walk;
    int64_t row = start / walk->sizes[0];
    const int64_t column = start % walk->sizes[0], row_left = walk->sizes[0] - column;
    const bool varies = walk->strides[0] != 0;
    const int64_t stride = array->table ? !varies : walk->strides[1];
    const char *base = array->table ? (const char *)array->table
                                    : (const char *)frame->buffers[array->buffer] + walk->offset * array->width;
    assert(walk->count >= 2 && (walk->count == 2 || !array->table));
    if (walk->count > 2) {
        const int64_t rows_left = walk->sizes[1] - row % walk->sizes[1];
        const int64_t left = row_left + (rows_left - 1) * walk->sizes[0];
        lists->left = left < lists->left ? left : lists->left;
        int64_t rest = row / walk->sizes[1];
        row %= walk->sizes[1];
        for (int d = 2; d < walk->count; rest /= walk->sizes[d++])
            base += rest % walk->sizes[d] * walk->strides[d] * array->width;
    }
    lists->at[i] = (char *)(uintptr_t)base + (row * stride + (varies ? column : 0)) * array->width;
    lists->skips[i] = (stride - (varies ? walk->sizes[0] : 0)) * array->width;
    lists->row = walk->sizes[0];
    lists->row_left = row_left;
}

// Returns whether one of the results, of `count` elements, is where an operand is.
static bool has_results_in_place(const CpuLoopChain *chain, const ChainLists *lists, int64_t count) {
    for (int i = chain->read_count; i < chain->list_count; i++)
        for (int k = 0; k < chain->read_count; k++)
            if (lists->at[i] < lists->at[k] + count * 4 && lists->at[k] < lists->at[i] + count * 4) return true;
    return false;
}

// Begins the sums of a block's rows from number `first` on, which code then takes one after another.
static void open_sums(Frame *frame, const CpuLoopChain *chain, int64_t first, ChainLists *lists) {
    assert(first < frame->kept_count && frame->kept_count <= CPU_CHAIN_ROWS);
    lists->sums = frame->sums[first];
    begin_sums(chain, lists->at, lists->sums);
    lists->steps[chain->list_count - 1] = 0;
    if (frame->kept_count > 1) lists->row = lists->row_left = frame->loop->reduced;
}

// Sets the address of list `i`, which is a number of each row, to that of the block's row `first`.
static void open_row_numbers(const Frame *frame, const CpuLoopValue *value, int i, int64_t first, ChainLists *lists) {
    lists->at[i] = (char *)operand_of(frame, value, 0) + first * value->width;
    lists->skips[i] = value->width;
    lists->row = lists->row_left = frame->loop->reduced;
}

// Sets the addresses of the lists for the elements of a block from number `done` on, of which `count` are left, and the
// registers of the results. The block begins at element `start` of the domain.
static void open_chain(Frame *frame, const CpuLoopChain *chain, int64_t start, int64_t done, int64_t count,
                       ChainLists *lists) {
    const int64_t first_row = done ? done / frame->loop->reduced : 0;
    lists->streamed = 0;
    lists->row = 0;
    lists->left = count;
    for (int i = 0; i < chain->list_count; i++) {
        const CpuValue v = chain->lists[i];
        const CpuLoopValue *value = &frame->loop->values[v];
        const bool is_result = i >= chain->read_count;
        lists->skips[i] = 0;
        if (value->in_sums && is_result) {
            open_sums(frame, chain, first_row, lists);
            continue;
        }
        lists->steps[i] = chain->ones[i] ? 0 : value->width;
        if (value->in_rows && value->kind == CPU_VALUE_EXPAND) {
            open_row_numbers(frame, value, i, first_row, lists);
            continue;
        }
        if (value->in_rows) {
            open_rows(frame, is_result ? &frame->loop->values[value->stored_by] : value, i, start + done, lists);
            continue;
        }
        if (is_result) {
            frame->registers[v] =
                value->stored_by >= 0 ? output_place(frame, value, start) : own_register(frame, value);
            lists->streamed += is_streamed(frame, value);
        }
        lists->at[i] = (char *)frame->registers[v] + done * lists->steps[i];
    }
    lists->in_place = (count % chain->lanes || lists->row) && has_results_in_place(chain, lists, count);
}

// Runs parts whose streamed results are written to a buffer that stays in the cache, and from there past it.
static void run_chain_streamed(Frame *frame, const CpuLoopChain *chain, ChainLists *lists, int64_t count) {
    enum { kPart = 256, kWidest = 4 };
    _Alignas(64) char parts[CPU_CHAIN_LISTS][kPart * kWidest];
    bool streams[CPU_CHAIN_LISTS];
    char *to[CPU_CHAIN_LISTS];
    for (int i = 0; i < chain->list_count; i++) {
        to[i] = lists->at[i];
        streams[i] = i >= chain->read_count && is_streamed(frame, &frame->loop->values[chain->lists[i]]);
    }
    for (int64_t at = 0; at < count; at += kPart) {
        const int64_t n = count - at < kPart ? count - at : kPart;
        if (frame->ahead_at != frame->ahead_end) fetch_ahead(frame);
        for (int i = chain->read_count; i < chain->list_count; i++)
            if (streams[i]) lists->at[i] = parts[i];
        run_chain_part(chain, lists, n);
        for (int i = chain->read_count; i < chain->list_count; i++)
            if (streams[i])
                frame->loop->kernels->stream(to[i] + at * lists->steps[i], parts[i], (size_t)(n * lists->steps[i]));
    }
}

// Returns how many elements of a chain to run between prefetches: the code prefetches as often as its kernels would.
static int64_t part_of(const Frame *frame, const CpuLoopChain *chain, int64_t row, int64_t count) {
    enum { kLeast = 64 };
    const CpuLoop *loop = frame->loop;
    const int64_t block = loop->steps->block ? loop->block * (loop->reduced > 1 ? loop->reduced : 1) : count;
    const int64_t part =
        hlo_round_up(hlo_divide_up(block, chain->kernel_count), chain->sums ? CPU_REDUCE_LANES : chain->lanes);
    if (chain->sums && row) return hlo_round_up(part, row);  // sums are of whole rows
    return part < kLeast ? kLeast : part;
}

// Runs a chain, in parts if there is something to prefetch, and up to where the rows' distances change.
static void run_chain(Frame *frame, const CpuLoopChain *chain) {
    const int64_t all = chain->full ? frame->full_count : frame->kept_count;
    for (int64_t done = 0; done < all;) {
        ChainLists lists;
        open_chain(frame, chain, chain->full ? frame->full_start : frame->kept_start, done, all - done, &lists);
        const int64_t count = lists.left;
        done += count;
        if (lists.streamed) {
            run_chain_streamed(frame, chain, &lists, count);
            continue;
        }
        const int64_t part = frame->ahead_at != frame->ahead_end ? part_of(frame, chain, lists.row, count) : count;
        for (int64_t at = 0; at < count; at += part) {
            if (frame->ahead_at != frame->ahead_end) fetch_ahead(frame);
            run_chain_part(chain, &lists, count - at < part ? count - at : part);
        }
    }
}

// Runs a list of steps. Inline and without a switch: all fused work passes through this loop.
static inline void run_steps(Frame *frame, const CpuLoopSteps *steps) {
    void **registers = frame->registers;
    for (const CpuLoopStep *step = steps->items; step < steps->items + steps->count; step++) {
        if (!step->kernel) {
            step->chain ? run_chain(frame, step->chain) : run_value(frame, step->value);
            continue;
        }
        if (step->slow && frame->ahead_at != frame->ahead_end) {
            run_slow_step(frame, step);
            continue;
        }
        if (frame->ahead_at != frame->ahead_end) fetch_ahead(frame);
        step->kernel(registers[step->value], registers[step->operands[0]], registers[step->operands[1]],
                     registers[step->operands[2]], step->full ? frame->full_count : frame->kept_count, step->immediate);
    }
}

// Runs a chunk. Registers that later phases read again are views into the row's whole register, and move along with the
// chunk.
static void run_chunk(Frame *frame, const CpuLoopPhase *phase, int64_t start) {
    const CpuLoop *loop = frame->loop;
    frame->chunk_start = start;
    frame->full_start = frame->kept_start * loop->reduced + start;
    frame->full_count = loop->reduced - start < CPU_LOOP_BLOCK ? loop->reduced - start : CPU_LOOP_BLOCK;
    for (int64_t i = 0; i < phase->moving.count; i++) {
        const CpuValue v = phase->moving.items[i];
        frame->registers[v] = own_register(frame, &loop->values[v]);
    }
    run_steps(frame, &phase->steps);
}

// Runs each phase over the whole row before the next: a phase reads the results of the reductions before it.
static void run_row_in_chunks(Frame *frame) {
    const CpuLoop *loop = frame->loop;
    assert(frame->kept_count == 1);  // a block is a row
    for (int p = 0; p < loop->phase_count; p++) {
        const CpuLoopPhase *phase = &loop->phases[p];
        frame->chunk_start = 0;
        frame->full_count = CPU_LOOP_BLOCK;  // for the expansions, which all chunks read
        run_list(frame, &phase->once);
        if (phase->steps.count == 0) continue;
        for (int64_t start = 0; start < loop->reduced; start += CPU_LOOP_BLOCK) run_chunk(frame, phase, start);
    }
}

// Runs the block of the frame's kept range.
static void run_row_block(Frame *frame) {
    const CpuLoop *loop = frame->loop;
    frame->full_start = frame->kept_start * loop->reduced;
    frame->full_count = frame->kept_count * loop->reduced;
    if (loop->phases)
        run_row_in_chunks(frame);
    else
        run_steps(frame, loop->steps);
}

// Runs blocks [begin, end) of a loop in one pass.
static void run_row_blocks(const CpuLoop *loop, void *const *buffers, int64_t begin, int64_t end, void *scratch) {
    assert(begin >= 0 && begin <= end);
    Frame frame;
    frame_open(&frame, loop, buffers, scratch, NULL);
    for (int64_t block = begin; block < end; block++) {
        if (!set_block(&frame, block)) continue;
        if (loop->ahead.count) open_ahead(&frame, 0);
        run_row_block(&frame);
    }
    if (frame.streams) loop->kernels->streamed();
}

// ---- reductions in two passes

// Partials are stored as [reduction][segment][kept index]. Each reduction has room for 16 bytes per element, the
// maximum width.
static char *partial_at(const Frame *frame, int partial, int64_t segment, int64_t kept) {
    const CpuLoop *loop = frame->loop;
    const int width = loop->values[loop->reductions.items[partial]].width;
    return frame->partials + (((int64_t)partial * loop->segments + segment) * loop->kept) * 16 + kept * width;
}

// Runs the generic combiner: accumulators become combiner(accumulators, elements).
static void run_combiner(Frame *frame, void *const *elements) {
    const CpuLoop *loop = frame->loop;
    for (int i = 0; i < loop->combine_count; i++) frame->registers[loop->elements[i]] = elements[i];
    run_list(frame, &loop->combiner);
    for (int i = 0; i < loop->combine_count; i++) {
        const CpuLoopValue *accumulator = &loop->values[loop->accumulators[i]];
        memcpy(frame->registers[loop->accumulators[i]], frame->registers[loop->combined[i]],
               (size_t)(frame->kept_count * accumulator->width));
    }
}

// Binds the accumulators, which the combiner addresses like any value.
static void bind_accumulators(Frame *frame) {
    const CpuLoop *loop = frame->loop;
    for (int i = 0; i < loop->combine_count; i++)
        frame->registers[loop->accumulators[i]] = own_register(frame, &loop->values[loop->accumulators[i]]);
}

// Sets the accumulators of a generic reduction to its inits.
static void start_from_inits(Frame *frame) {
    const CpuLoop *loop = frame->loop;
    for (int i = 0; i < loop->combine_count; i++)
        memcpy(frame->registers[loop->accumulators[i]], frame->registers[loop->combine_inits[i]],
               (size_t)(frame->kept_count * loop->values[loop->accumulators[i]].width));
}

// Runs the second pass of a generic reduction, for all its results together: combiner(...combiner(init, segment 0)...,
// last). In order there is only one segment, which has already started from the inits.
static void combine_generic(Frame *frame) {
    const CpuLoop *loop = frame->loop;
    bind_accumulators(frame);
    assert(!loop->combine_in_order || loop->segments <= 1); /* plan.c then divides no row */
    if (loop->combine_in_order && loop->segments == 1) {
        for (int i = 0; i < loop->combine_count; i++)
            memcpy(frame->registers[loop->accumulators[i]], partial_at(frame, i, 0, frame->kept_start),
                   (size_t)(frame->kept_count * loop->values[loop->accumulators[i]].width));
        return;
    }
    start_from_inits(frame);
    for (int64_t s = 0; s < loop->segments; s++) {
        void *elements[CPU_LOOP_COMBINE_LIMIT];
        for (int i = 0; i < loop->combine_count; i++) elements[i] = partial_at(frame, i, s, frame->kept_start);
        run_combiner(frame, elements);
    }
}

// Copies the first segment's partial and folds the others into it in order.
static void *combine_partials(const Frame *frame, CpuValue v) {
    const CpuLoop *loop = frame->loop;
    const CpuLoopValue *value = &loop->values[v];
    if (value->kind == CPU_VALUE_COMBINED) return frame->registers[loop->accumulators[value->partial]];
    char *reg = own_register(frame, value);
    memcpy(reg, partial_at(frame, value->partial, 0, frame->kept_start), (size_t)(frame->kept_count * value->width));
    for (int64_t s = 1; s < loop->segments; s++)
        loop->fold[value->partial](reg, reg, partial_at(frame, value->partial, s, frame->kept_start), NULL,
                                   frame->kept_count, 0);
    return reg;
}

// Runs the second pass: the results of the reductions, and the values computed from them. Its blocks are ranges of the
// kept domain, whatever the blocks of the first pass.
static void run_kept_blocks(const CpuLoop *loop, void *const *buffers, int64_t begin, int64_t end, char *scratch,
                            char *partials) {
    assert(begin >= 0 && begin <= end);
    Frame frame;
    frame_open(&frame, loop, buffers, scratch, partials);
    for (int64_t block = begin; block < end; block++) {
        frame.kept_start = block * CPU_LOOP_BLOCK;
        frame.kept_count =
            loop->kept - frame.kept_start < CPU_LOOP_BLOCK ? loop->kept - frame.kept_start : CPU_LOOP_BLOCK;
        frame.full_count = frame.kept_count;
        run_list(&frame, &loop->before);
        if (loop->combine_count) combine_generic(&frame);
        run_list(&frame, &loop->after);
    }
}

// Runs the first pass of long rows: unit = row * segments + segment.
static void run_partial_unit(Frame *frame, int64_t unit) {
    assert(unit >= 0);
    const CpuLoop *loop = frame->loop;
    const int64_t row = unit / loop->segments, segment = unit % loop->segments;
    const int64_t begin = segment * loop->segment;
    const int64_t end = begin + loop->segment < loop->reduced ? begin + loop->segment : loop->reduced;
    frame->kept_start = row;
    frame->kept_count = 1;
    run_list(frame, &loop->before);
    for (int64_t at = begin; at < end; at += loop->piece) {
        frame->full_start = row * loop->reduced + at;
        frame->full_count = end - at < loop->piece ? end - at : loop->piece;
        run_steps(frame, loop->steps);
        for (int64_t i = 0; i < loop->reductions.count; i++) {
            const CpuLoopValue *value = &loop->values[loop->reductions.items[i]];
            char *partial = partial_at(frame, value->partial, segment, row);
            unsigned char chunk[16];
            void *into = at == begin ? (void *)partial : (void *)chunk;
            value->reduce(into, operand_of(frame, value, 0), 1, frame->full_count);
            if (at != begin) loop->fold[value->partial](partial, partial, chunk, NULL, 1, 0);
        }
    }
}

// Combines one reduced index of some columns with the accumulators of a generic reduction; `row` is its number among
// those that were computed together. The first of a segment starts the accumulators.
static void combine_columns(Frame *frame, int64_t row, bool first) {
    assert(row >= 0);
    const CpuLoop *loop = frame->loop;
    void *elements[CPU_LOOP_COMBINE_LIMIT];
    for (int i = 0; i < loop->combine_count; i++) {
        const CpuValue v = loop->combine_values[i];
        const bool uniform = loop->values[v].level != CPU_LEVEL_FULL;
        elements[i] = (char *)frame->registers[v] + (uniform ? 0 : row * frame->kept_count * loop->values[v].width);
    }
    if (first && loop->combine_in_order) start_from_inits(frame);
    if (!first || loop->combine_in_order) {
        run_combiner(frame, elements);
        return;
    }
    for (int i = 0; i < loop->combine_count; i++)
        memcpy(frame->registers[loop->accumulators[i]], elements[i],
               (size_t)(frame->kept_count * loop->values[loop->accumulators[i]].width));
}

// Adds the `rows` reduced indices that were computed together to the partials of a built-in reduction. The first of a
// segment starts them.
static void reduce_columns(Frame *frame, const CpuLoopValue *value, int64_t segment, int64_t rows, bool first) {
    assert(segment >= 0 && rows > 0);
    const int64_t count = frame->kept_count, stride = frame->loop->inner;
    char *partial = partial_at(frame, value->partial, segment, frame->kept_start);
    const char *source = operand_of(frame, value, 0);
    const bool uniform = frame->loop->values[value->operands[0]].level != CPU_LEVEL_FULL;
    if (first) {
        memcpy(partial, source, (size_t)(count * value->width));
        source += uniform ? 0 : stride * value->width;
        rows--;
    }
    if (!uniform)
        value->columns(partial, source, rows, count, stride);
    else
        for (; rows > 0; rows--) value->columns(partial, source, 1, count, count);
}

// Runs the first pass of columns: unit = block * segments + segment. `before` has values that do not change along the
// reduced dimensions. If a block is all columns, the values of several reduced indices are one range of the domain, and
// each kernel computes them in one call; an array that is only reduced needs no such block (see choose_rows()).
static void run_column_unit(Frame *frame, int64_t unit) {
    assert(unit >= 0);
    const CpuLoop *loop = frame->loop;
    const int64_t segment = unit % loop->segments;
    if (!set_block(frame, unit / loop->segments)) return;
    const int64_t begin = segment * loop->segment;
    const int64_t end = begin + loop->segment < loop->reduced ? begin + loop->segment : loop->reduced;
    const int64_t outer = frame->kept_start / loop->inner, column = frame->kept_start % loop->inner;
    frame->full_count = frame->kept_count;
    bind_accumulators(frame);
    run_list(frame, &loop->before);
    for (int64_t r = begin; r < end; r += loop->rows_at_once) {
        const int64_t rows = end - r < loop->rows_at_once ? end - r : loop->rows_at_once;
        frame->full_start = (outer * loop->reduced + r) * loop->inner + column;
        frame->full_count = rows * frame->kept_count;
        run_steps(frame, loop->steps);
        frame->full_count = frame->kept_count;  // of the combiner
        for (int64_t i = 0; loop->combine_count && i < rows; i++) combine_columns(frame, i, r + i == begin);
        for (int64_t i = 0; i < loop->reductions.count; i++) {
            const CpuLoopValue *value = &loop->values[loop->reductions.items[i]];
            if (value->kind == CPU_VALUE_REDUCE) reduce_columns(frame, value, segment, rows, r == begin);
        }
    }
    for (int i = 0; i < loop->combine_count; i++)
        memcpy(partial_at(frame, i, segment, frame->kept_start), frame->registers[loop->accumulators[i]],
               (size_t)(frame->kept_count * loop->values[loop->accumulators[i]].width));
}

// ---- running

typedef struct RunJob {
    const CpuLoop *loop;
    void *const *buffers;
    char *scratch;
    char *partials;
} RunJob;

static char *scratch_of(const RunJob *job, int worker) {
    return job->scratch + (size_t)worker * job->loop->scratch_bytes;
}

static void rows_task(void *argument, int64_t begin, int64_t end, int worker) {
    const RunJob *job = argument;
    run_row_blocks(job->loop, job->buffers, begin, end, scratch_of(job, worker));
}

static void first_pass_task(void *argument, int64_t begin, int64_t end, int worker) {
    assert(argument && begin >= 0 && begin <= end && worker >= 0);
    const RunJob *job = argument;
    Frame frame;
    frame_open(&frame, job->loop, job->buffers, scratch_of(job, worker), job->partials);
    for (int64_t unit = begin; unit < end; unit++) {
        if (job->loop->mode == CPU_MODE_PARTIAL)
            run_partial_unit(&frame, unit);
        else
            run_column_unit(&frame, unit);
    }
}

static void second_pass_task(void *argument, int64_t begin, int64_t end, int worker) {
    const RunJob *job = argument;
    run_kept_blocks(job->loop, job->buffers, begin, end, scratch_of(job, worker), job->partials);
}

// Cheaper work is not worth waking another thread and runs here.
enum { kParallelCost = 40000 };

// Divides the work into eight pieces per worker, so that one delayed piece does not delay everything.
static void spread(const RunJob *job, CpuPool *pool, int64_t units, CpuTask *task) {
    const bool small = cpu_loop_cost(job->loop) < kParallelCost;
    const int64_t pieces = (int64_t)cpu_pool_worker_count(pool) * 8;
    cpu_pool_parallel_for_grain(small ? NULL : pool, units, units / pieces + 1, task, (void *)(uintptr_t)job);
}

// Partials take 16 bytes per element whatever their width, which keeps their addresses simple.
static HloStatus run_two_passes(RunJob *job, CpuPool *pool) {
    const CpuLoop *loop = job->loop;
    const size_t bytes = hlo_array_bytes((size_t)(loop->reductions.count * loop->segments), 16 * (size_t)loop->kept);
    job->partials = cpu_pool_scratch_take(pool, bytes);
    HLO_FAIL_IF(!job->partials, HLO_RESOURCE_EXHAUSTED, "no memory for the parts of a reduction");
    const int64_t over = loop->mode == CPU_MODE_PARTIAL ? loop->kept : block_count(loop);
    spread(job, pool, over * loop->segments, first_pass_task);
    spread(job, pool, hlo_divide_up(loop->kept, CPU_LOOP_BLOCK), second_pass_task);
    cpu_pool_scratch_give(pool, job->partials);
    return HLO_SUCCESS;
}

// Loops of one small block, such as those on scalars, need no other thread and little memory.
enum { kSmallScratch = 4096 };

static bool is_small(const CpuLoop *loop) {
    return loop->mode == CPU_MODE_ROWS && loop->scratch_bytes <= kSmallScratch && loop->kept <= loop->block &&
           cpu_loop_cost(loop) < kParallelCost;
}

// Chooses by size and mode: a list of calls (small loop), one block on the stack, blocks of rows shared by the workers,
// or two passes where the parts of a reduction are combined afterwards.
HloStatus cpu_loop_run(const CpuLoop *loop, CpuPool *pool, void *const *buffers) {
    assert(loop && buffers);
    if (loop->kept == 0) return HLO_SUCCESS;
    if (loop->small_loop) {
        cpu_small_loop_run(loop->small_loop, buffers);
        return HLO_SUCCESS;
    }
    if (is_small(loop)) {
        _Alignas(64) char scratch[kSmallScratch];
        run_row_blocks(loop, buffers, 0, 1, scratch);
        return HLO_SUCCESS;
    }
    RunJob job = {.loop = loop, .buffers = buffers};
    job.scratch = cpu_pool_scratch_take(pool, loop->scratch_bytes * (size_t)cpu_pool_worker_count(pool));
    HLO_FAIL_IF(!job.scratch, HLO_RESOURCE_EXHAUSTED, "no memory for the registers of a fused loop");
    HloStatus status = HLO_SUCCESS;
    if (loop->mode == CPU_MODE_ROWS)
        spread(&job, pool, block_count(loop), rows_task);
    else
        status = run_two_passes(&job, pool);
    cpu_pool_scratch_give(pool, job.scratch);
    return status;
}

// ---- some rows

int64_t cpu_loop_rows(const CpuLoop *loop) {
    return loop->mode == CPU_MODE_ROWS && !loop->small_loop ? loop->kept : 0;
}

// Whether a walk through `all` elements of a group of rows stays within `elements` of the array, and goes on to the
// next ones for the next group. A dimension of the walk may be partly in the group: (p, q) of the loop below.
static bool walk_follows(const CpuWalk *walk, int64_t all, int64_t elements) {
    int64_t inside = 1, reach = 0, next = elements;
    for (int d = 0; d < walk->count; d++) {
        const int64_t size = walk->sizes[d], stride = walk->strides[d];
        const int64_t left = all / inside, p = hlo_smaller(size, left), q = size / p;
        if (stride < 0 || left % p != 0 || size % p != 0 || (q > 1 && p != left)) return false;
        reach += (p - 1) * stride;
        inside *= p;
        if (q == 1) continue;
        if (stride * p != next) return false;
        next *= q;
    }
    return walk->offset == 0 && inside == all && reach < elements;
}

bool cpu_loop_follows_rows(const CpuLoop *loop, int buffer, int64_t rows, int64_t elements) {
    for (CpuValue v = 0; v < loop->value_count; v++) {
        const CpuLoopValue *value = &loop->values[v];
        if ((value->kind != CPU_VALUE_LOAD && value->kind != CPU_VALUE_STORE) || value->buffer != buffer) continue;
        if (value->level == CPU_LEVEL_UNIFORM) return false;
        if (!walk_follows(&value->walk, value->level == CPU_LEVEL_FULL ? rows * loop->reduced : rows, elements))
            return false;
    }
    return true;
}

size_t cpu_loop_scratch_bytes(const CpuLoop *loop) {
    return loop->scratch_bytes;
}

// Divides the rows as set_block() does, but from `begin` on. Nothing is prefetched and nothing bypasses the caches: the
// caller runs some rows at a time because they stay there.
void cpu_loop_run_rows(const CpuLoop *loop, void *const *buffers, int64_t begin, int64_t end, void *scratch) {
    assert(loop && buffers && begin >= 0 && begin <= end && end <= cpu_loop_rows(loop));
    Frame frame;
    frame_open(&frame, loop, buffers, scratch, NULL);
    frame.streams = false;
    const int64_t run = loop->steps->block ? loop->kept : loop->row_run,
                  block = loop->steps->block ? loop->steps->block : loop->block;
    for (int64_t at = begin; at < end; at += frame.kept_count) {
        const int64_t most = hlo_smaller((at / run + 1) * run, hlo_smaller(at + block, end));
        frame.kept_start = at;
        frame.kept_count = most - at;
        run_row_block(&frame);
    }
}
