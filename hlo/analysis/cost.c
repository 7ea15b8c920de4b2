// SPDX-License-Identifier: Apache-2.0
// One handler per op (the `cost` column of hlo/ops.def), and one sum per computation.
//
// Computations are summed callees first, so that a call, a loop or a reduction finds the cost of its callees in a
// table; each is walked once however often it is called. The counts are those of XLA's HloCostAnalysis where it has
// any, even where other counts might be more precise (a transposed dot costs as much as a plain one, a sort is n
// ceil(log2 n) comparisons), because people compare the numbers.
#include "hlo/analysis/cost.h"

#include <assert.h>
#include <math.h>

#include "hlo/analysis/loop.h"
#include "hlo/ir/infer/support.h"

struct HloCostAnalysis {
    HloArena *arena;
    HloCost *computations;  // by computation id
    const HloModule *module;
};

static HloCostFunction *const handlers[HLO_OPCODE_COUNT] = {
#define HLO_OP(name, text, arity, flags, family, kinds, shape, eval, partition, cost, jvp, transpose, batching) \
    [HLO_OP_##name] = hlo_cost_##cost,
#include "hlo/ops.def"
#undef HLO_OP
};

// `times` is not negative and may be a fraction; usually it is a loop's trip count.
static void add(HloCost *cost, const HloCost *more, double times) {
    assert(times >= 0);
    cost->flops += times * more->flops;
    cost->transcendentals += times * more->transcendentals;
    cost->bytes_read += times * more->bytes_read;
    cost->bytes_written += times * more->bytes_written;
}

HloCost hlo_cost_of_instruction(const HloCostAnalysis *analysis, const HloInstruction *instruction) {
    HloCost cost = {0};
    handlers[instruction->opcode](analysis, instruction, &cost);
    return cost;
}

HloCost hlo_cost_of_computation(const HloCostAnalysis *analysis, const HloComputation *computation) {
    return analysis->computations[computation->id];
}

typedef struct Analyse {
    HloCostAnalysis *analysis;
} Analyse;

// Fills the table. Computations that the entry does not reach cost nothing.
static HloStatus analyse_body(void *argument) {
    assert(argument);
    HloCostAnalysis *analysis = ((Analyse *)argument)->analysis;
    analysis->computations = HLO_ARENA_NEW(analysis->arena, HloCost, analysis->module->computation_limit);
    int64_t count;
    HloComputation **order = hlo_module_post_order(analysis->module, analysis->arena, &count);
    for (int64_t c = 0; c < count; c++) {
        for (const HloInstruction *i = order[c]->first; i; i = i->next) {
            HloCost cost = hlo_cost_of_instruction(analysis, i);
            add(&analysis->computations[order[c]->id], &cost, 1);
        }
    }
    return HLO_SUCCESS;
}

// The handle is on the heap and its contents are in its arena, so that a failure in between frees both.
HloCostAnalysis *hlo_cost_analysis_new(const HloModule *module) {
    assert(module);
    HloCostAnalysis *analysis = hlo_allocate_zeroed(1, sizeof(*analysis));
    if (!analysis) return NULL;
    analysis->module = module;
    analysis->arena = hlo_arena_new();
    HloStatus status = analysis->arena ? hlo_protect(analyse_body, &(Analyse){analysis}) : HLO_SUCCESS;
    if (!analysis->arena || status) {
        hlo_status_free(status);
        hlo_cost_analysis_free(analysis);
        return NULL;
    }
    return analysis;
}

void hlo_cost_analysis_free(HloCostAnalysis *analysis) {
    if (!analysis) return;
    hlo_arena_free(analysis->arena);
    hlo_free(analysis);
}

// ---------------------------------------------------------------------------------------------------------------------
// Bytes

static double bytes_of(const HloShape *shape) {
    return (double)hlo_shape_bytes(shape);
}

// Returns a double: the elements of all leaves of an immense tuple need not fit in 64 bits.
static double elements_of(const HloShape *shape) {
    assert(shape);
    if (!hlo_shape_is_tuple(shape)) return (double)hlo_shape_elements(shape);
    double total = 0;
    for (int32_t i = 0; i < shape->element_count; i++) total += elements_of(shape->elements[i]);
    return total;
}

// Reads all operands, writes the result.
static void move_all(const HloInstruction *instruction, HloCost *cost) {
    for (int64_t i = 0; i < instruction->operand_count; i++)
        cost->bytes_read += bytes_of(instruction->operands[i]->shape);
    cost->bytes_written += bytes_of(instruction->shape);
}

// ---------------------------------------------------------------------------------------------------------------------
// Handlers

// Ops that only name values.
void hlo_cost_free(const HloCostAnalysis *analysis, const HloInstruction *instruction, HloCost *cost) {
    (void)analysis, (void)instruction, (void)cost;
}

// A copy-start's result is a tuple of source and destination, of which only one is written.
void hlo_cost_copy(const HloCostAnalysis *analysis, const HloInstruction *instruction, HloCost *cost) {
    (void)analysis;
    if (instruction->opcode != HLO_OP_COPY_START) {
        move_all(instruction, cost);
        return;
    }
    cost->bytes_read += bytes_of(instruction->operands[0]->shape);
    cost->bytes_written += bytes_of(instruction->operands[0]->shape);
}

// One operation per element of the result. Iota and bitcasts are not arithmetic.
void hlo_cost_elementwise(const HloCostAnalysis *analysis, const HloInstruction *instruction, HloCost *cost) {
    (void)analysis;
    move_all(instruction, cost);
    if (instruction->opcode != HLO_OP_IOTA && instruction->opcode != HLO_OP_BITCAST_CONVERT) {
        cost->flops += elements_of(instruction->shape);
    }
}

// Counted separately from flops: their cost in flops differs from machine to machine.
void hlo_cost_transcendental(const HloCostAnalysis *analysis, const HloInstruction *instruction, HloCost *cost) {
    (void)analysis;
    move_all(instruction, cost);
    cost->transcendentals += elements_of(instruction->shape);
}

// Counts the operands from number `first` on as read.
static void read_from(const HloInstruction *instruction, int64_t first, HloCost *cost) {
    for (int64_t i = first; i < instruction->operand_count; i++) {
        cost->bytes_read += bytes_of(instruction->operands[i]->shape);
    }
}

// Elements outside the slice are not read.
void hlo_cost_slice(const HloCostAnalysis *analysis, const HloInstruction *instruction, HloCost *cost) {
    assert(hlo_is(instruction, HLO_OP_DYNAMIC_SLICE) || hlo_is(instruction, HLO_OP_SLICE));
    (void)analysis;
    cost->bytes_read += bytes_of(instruction->shape);
    cost->bytes_written += bytes_of(instruction->shape);
    read_from(instruction, 1, cost);
}

// The update is in place: elements that are not overwritten are not touched.
void hlo_cost_update(const HloCostAnalysis *analysis, const HloInstruction *instruction, HloCost *cost) {
    assert(hlo_is(instruction, HLO_OP_DYNAMIC_UPDATE_SLICE));
    (void)analysis;
    cost->bytes_written += bytes_of(instruction->operands[1]->shape);
    read_from(instruction, 1, cost);
}

// A multiplication and an addition for each term of each element.
void hlo_cost_dot(const HloCostAnalysis *analysis, const HloInstruction *instruction, HloCost *cost) {
    assert(hlo_op_info(instruction->opcode)->family == HLO_FAMILY_Dot);
    (void)analysis;
    const HloDotAttributes *dot = HLO_ATTRIBUTES(instruction, Dot);
    move_all(instruction, cost);
    double terms = 1;
    for (int64_t i = 0; i < dot->lhs_contracting.count; i++) {
        terms *= (double)instruction->operands[0]->shape->dims[dot->lhs_contracting.items[i]];
    }
    // A ragged contracting dimension is divided among the groups, not repeated for each.
    bool split = dot->lhs_ragged.count && hlo_ints_contain(dot->lhs_contracting, dot->lhs_ragged.items[0]);
    if (split && instruction->shape->rank > 0 && instruction->shape->dims[0] > 0) {
        terms /= (double)instruction->shape->dims[0];
    }
    cost->flops += 2 * terms * elements_of(instruction->shape);
}

// Outputs or window positions: how many, and how far apart in the (dilated) base.
typedef struct Steps {
    int64_t count, width;
} Steps;

enum { MOST_STEPS = 1 << 20 };

// Counts the pairs of an output position and a window position that fall on an element of the input (not on padding,
// not on a dilation gap). The two lists are interchangeable, since only the sum of their positions counts: the shorter
// one is walked, and a division gives the matching part of the longer one. Beyond a million steps only a sample is
// examined.
static double valid_positions(const HloWindowDimension *window, int64_t base, int64_t output) {
    assert(output >= 0);
    double count = 0;
    int64_t extent = base > 0 ? (base - 1) * window->base_dilation + 1 : 0;
    bool plain =
        window->padding_low <= 0 && window->base_dilation == 1 &&
        (output - 1) * window->stride - window->padding_low + (window->size - 1) * window->window_dilation < extent;
    if (plain) return (double)output * (double)window->size;
    // With gaps in the base every position is examined, unless there are too many: then the share of elements is used.
    if (window->base_dilation > 1 && (double)output * (double)window->size > 1e6) {
        return (double)output * (double)window->size / (double)window->base_dilation;
    }
    Steps walked = {window->size, window->window_dilation}, met = {output, window->stride};
    if (walked.count > met.count) {
        Steps longer = walked;
        walked = met;
        met = longer;
    }
    const int64_t each = walked.count / MOST_STEPS + 1;  // 1 except for immense windows
    int64_t looked_at = 0;
    for (int64_t k = (each - 1) / 2; k < walked.count; k += each, looked_at++) {
        int64_t offset = k * walked.width - window->padding_low;
        if (window->base_dilation == 1) {
            int64_t first = offset >= 0 ? 0 : (-offset - 1) / met.width + 1;
            int64_t end = extent <= offset ? 0 : (extent - offset - 1) / met.width + 1;
            if (end > met.count) end = met.count;
            if (end > first) count += (double)(end - first);
            continue;
        }
        for (int64_t o = 0; o < met.count; o++) {
            int64_t at = o * met.width + offset;
            if (at >= 0 && at < extent && at % window->base_dilation == 0) count++;
        }
    }
    return looked_at ? count * ((double)walked.count / (double)looked_at) : 0;
}

// Positions that fall into padding or between dilated elements are not computed: the pairs that fall on an element are
// counted per dimension, and dimensions multiply.
void hlo_cost_convolution(const HloCostAnalysis *analysis, const HloInstruction *instruction, HloCost *cost) {
    assert(hlo_is(instruction, HLO_OP_CONVOLUTION));
    (void)analysis;
    const HloConvolutionAttributes *conv = HLO_ATTRIBUTES(instruction, Convolution);
    const HloConvolutionLabels *labels = conv->labels;
    const HloShape *input = instruction->operands[0]->shape, *kernel = instruction->operands[1]->shape;
    move_all(instruction, cost);
    double positions = 1;
    for (int64_t i = 0; conv->window && i < conv->window->count; i++) {
        positions *= valid_positions(&conv->window->dims[i], input->dims[labels->input_spatial.items[i]],
                                     instruction->shape->dims[labels->output_spatial.items[i]]);
    }
    positions *= (double)kernel->dims[labels->kernel_input_feature];
    positions *= (double)instruction->shape->dims[labels->output_feature];
    positions *= (double)instruction->shape->dims[labels->output_batch];
    cost->flops += 2 * positions;
}

// n^3/3 operations per matrix, which is n/3 per element.
void hlo_cost_cholesky(const HloCostAnalysis *analysis, const HloInstruction *instruction, HloCost *cost) {
    assert(hlo_is(instruction, HLO_OP_CHOLESKY));
    (void)analysis;
    const HloShape *shape = instruction->shape;
    // Half of each matrix is read and written.
    cost->bytes_read += bytes_of(instruction->operands[0]->shape) / 2;
    cost->bytes_written += bytes_of(shape) / 2;
    cost->flops += floor(elements_of(shape) * (double)shape->dims[shape->rank - 1] / 3);
}

// n^2 operations per column of b.
void hlo_cost_triangular_solve(const HloCostAnalysis *analysis, const HloInstruction *instruction, HloCost *cost) {
    assert(hlo_is(instruction, HLO_OP_TRIANGULAR_SOLVE));
    (void)analysis;
    const HloShape *a = instruction->operands[0]->shape, *b = instruction->operands[1]->shape;
    cost->bytes_read += bytes_of(a) / 2 + bytes_of(b);
    cost->bytes_written += bytes_of(instruction->shape);
    cost->flops += 2 * elements_of(b) * (double)a->dims[a->rank - 1];
}

// n log2 n butterflies; for several lengths XLA counts the product of their logarithms.
void hlo_cost_fft(const HloCostAnalysis *analysis, const HloInstruction *instruction, HloCost *cost) {
    assert(hlo_is(instruction, HLO_OP_FFT));
    (void)analysis;
    HloInts length = HLO_ATTRIBUTES(instruction, Fft)->length;
    move_all(instruction, cost);
    double factors = 1;  // product of floor(log2(length)); a complex multiply-add is 8 operations
    for (int64_t i = 0; i < length.count; i++)
        factors *= length.items[i] > 0 ? floor(log2((double)length.items[i])) : 0;
    cost->flops += 8 * factors * elements_of(instruction->operands[0]->shape);
}

void hlo_cost_batch_norm(const HloCostAnalysis *analysis, const HloInstruction *instruction, HloCost *cost) {
    assert(hlo_is(instruction, HLO_OP_BATCH_NORM_TRAINING) || hlo_is(instruction, HLO_OP_BATCH_NORM_INFERENCE) ||
           hlo_is(instruction, HLO_OP_BATCH_NORM_GRAD));
    (void)analysis;
    move_all(instruction, cost);
    // XLA does not count these because it expands them; this is approximately the cost of the expansion per element.
    double each = instruction->opcode == HLO_OP_BATCH_NORM_INFERENCE  ? 4
                  : instruction->opcode == HLO_OP_BATCH_NORM_TRAINING ? 7
                                                                      : 12;
    cost->flops += each * elements_of(instruction->operands[0]->shape);
}

// Adds executions of the called computation, without the bytes that it moves: operands are in registers.
static void apply(const HloCostAnalysis *analysis, const HloInstruction *instruction, int64_t called, double times,
                  HloCost *cost) {
    HloCost inner = hlo_cost_of_computation(analysis, instruction->called[called]);
    inner.bytes_read = inner.bytes_written = 0;
    add(cost, &inner, times);
}

// Combining n elements takes n - 1 steps for each element of the result. A scan takes one step per position.
void hlo_cost_reduce(const HloCostAnalysis *analysis, const HloInstruction *instruction, HloCost *cost) {
    assert(hlo_is(instruction, HLO_OP_REDUCE) || hlo_is(instruction, HLO_OP_SCAN));
    move_all(instruction, cost);
    const HloShape *result = instruction->shape;
    double in = elements_of(instruction->operands[0]->shape);
    double out = elements_of(hlo_shape_value(result, 0));
    if (instruction->opcode == HLO_OP_SCAN) {
        HloInts dimensions = HLO_ATTRIBUTES(instruction, Scan)->dimensions;
        in = (double)instruction->operands[0]->shape->dims[dimensions.items[0]];
        out = 0;
    }
    if (instruction->called_count && in > out) apply(analysis, instruction, 0, in - out, cost);
}

// Windows count in full, also where they reach into padding.
void hlo_cost_reduce_window(const HloCostAnalysis *analysis, const HloInstruction *instruction, HloCost *cost) {
    assert(hlo_is(instruction, HLO_OP_REDUCE_WINDOW) || hlo_is(instruction, HLO_OP_SELECT_AND_SCATTER));
    move_all(instruction, cost);
    double window = hlo_window_elements(HLO_ATTRIBUTES(instruction, Window)->window);
    const HloShape *result = instruction->shape;
    if (instruction->opcode == HLO_OP_SELECT_AND_SCATTER) {
        double sources = elements_of(instruction->operands[1]->shape);
        apply(analysis, instruction, 0, sources * (window - 1), cost);
        apply(analysis, instruction, 1, sources, cost);
        return;
    }
    double out = elements_of(hlo_shape_value(result, 0));
    apply(analysis, instruction, 0, out * (window - 1), cost);
}

void hlo_cost_map(const HloCostAnalysis *analysis, const HloInstruction *instruction, HloCost *cost) {
    move_all(instruction, cost);
    apply(analysis, instruction, 0, elements_of(instruction->shape), cost);
}

void hlo_cost_sort(const HloCostAnalysis *analysis, const HloInstruction *instruction, HloCost *cost) {
    assert(hlo_is(instruction, HLO_OP_SORT) || hlo_is(instruction, HLO_OP_TOPK));
    (void)analysis;
    move_all(instruction, cost);
    if (instruction->opcode == HLO_OP_TOPK) return;
    // n ceil(log2 n) comparisons, one flop each.
    double elements = elements_of(instruction->operands[0]->shape);
    cost->flops += elements > 0 ? elements * ceil(log2(elements)) : 0;
}

// Reads as much as it returns, not the whole array that it picks from.
void hlo_cost_gather(const HloCostAnalysis *analysis, const HloInstruction *instruction, HloCost *cost) {
    assert(hlo_is(instruction, HLO_OP_GATHER));
    (void)analysis;
    cost->bytes_read += bytes_of(instruction->shape) + bytes_of(instruction->operands[1]->shape);
    cost->bytes_written += bytes_of(instruction->shape);
}

void hlo_cost_scatter(const HloCostAnalysis *analysis, const HloInstruction *instruction, HloCost *cost) {
    assert(hlo_is(instruction, HLO_OP_SCATTER));
    int64_t count = instruction->operand_count / 2;
    cost->bytes_read += bytes_of(instruction->operands[count]->shape);
    for (int64_t i = 0; i < count; i++) {
        // The updates, the elements that they are combined with, and the results.
        double updates = bytes_of(instruction->operands[count + 1 + i]->shape);
        cost->bytes_read += 2 * updates;
        cost->bytes_written += updates;
    }
    apply(analysis, instruction, 0, elements_of(instruction->operands[count + 1]->shape), cost);
}

// A fusion's inner values never reach memory; a call's do.
void hlo_cost_called(const HloCostAnalysis *analysis, const HloInstruction *instruction, HloCost *cost) {
    assert(hlo_is(instruction, HLO_OP_CALL) || hlo_is(instruction, HLO_OP_FUSION) ||
           hlo_is(instruction, HLO_OP_ASYNC_START));
    if (instruction->called_count == 0) return;
    HloCost inner = hlo_cost_of_computation(analysis, instruction->called[0]);
    if (instruction->opcode == HLO_OP_FUSION) {
        inner.bytes_read = inner.bytes_written = 0;
        move_all(instruction, cost);
    }
    add(cost, &inner, 1);
}

// NaN does not occur: counts are sums of products of sizes.
static double larger(double a, double b) {
    return a > b ? a : b;
}

void hlo_cost_conditional(const HloCostAnalysis *analysis, const HloInstruction *instruction, HloCost *cost) {
    assert(hlo_is(instruction, HLO_OP_CONDITIONAL));
    // The most expensive branch in each respect.
    for (int64_t i = 0; i < instruction->called_count; i++) {
        HloCost branch = hlo_cost_of_computation(analysis, instruction->called[i]);
        cost->flops = larger(cost->flops, branch.flops);
        cost->transcendentals = larger(cost->transcendentals, branch.transcendentals);
        cost->bytes_read = larger(cost->bytes_read, branch.bytes_read);
        cost->bytes_written = larger(cost->bytes_written, branch.bytes_written);
    }
}

// An unknown trip count counts as one, as in XLA; the condition runs once more than the body.
void hlo_cost_while(const HloCostAnalysis *analysis, const HloInstruction *instruction, HloCost *cost) {
    assert(hlo_is(instruction, HLO_OP_WHILE));
    int64_t trips = hlo_trip_count(instruction);
    HloCost condition = hlo_cost_of_computation(analysis, instruction->called[0]);
    HloCost body = hlo_cost_of_computation(analysis, instruction->called[1]);
    add(cost, &body, trips < 0 ? 1 : (double)trips);
    add(cost, &condition, trips < 0 ? 1 : (double)trips + 1);
}

void hlo_cost_custom_call(const HloCostAnalysis *analysis, const HloInstruction *instruction, HloCost *cost) {
    (void)analysis;
    move_all(instruction, cost);
}

// Bytes are those of this device's memory; the emulator models the traffic on links.
void hlo_cost_collective(const HloCostAnalysis *analysis, const HloInstruction *instruction, HloCost *cost) {
    read_from(instruction, 0, cost);
    const HloShape *result = instruction->shape;
    bool carries_operands =
        hlo_op_is(instruction->opcode, HLO_OP_IS_ASYNC_START) && instruction->opcode != HLO_OP_ALL_REDUCE_START;
    if (carries_operands && hlo_shape_is_tuple(result) && result->element_count > 1) result = result->elements[1];
    cost->bytes_written += bytes_of(result);
    if (instruction->called_count) apply(analysis, instruction, 0, elements_of(result), cost);
}

// Received data is written, sent data is read.
void hlo_cost_transfer(const HloCostAnalysis *analysis, const HloInstruction *instruction, HloCost *cost) {
    (void)analysis;
    const HloShape *result = instruction->shape;
    bool arrives = instruction->opcode == HLO_OP_INFEED || instruction->opcode == HLO_OP_RECV;
    if (arrives && hlo_shape_is_tuple(result)) cost->bytes_written += bytes_of(result->elements[0]);
    if (!arrives) cost->bytes_read += bytes_of(instruction->operands[0]->shape);
}

void hlo_cost_rng(const HloCostAnalysis *analysis, const HloInstruction *instruction, HloCost *cost) {
    assert(hlo_is(instruction, HLO_OP_RNG) || hlo_is(instruction, HLO_OP_RNG_BIT_GENERATOR));
    (void)analysis;
    move_all(instruction, cost);
    cost->transcendentals += elements_of(instruction->shape);
}
