// SPDX-License-Identifier: Apache-2.0
// Convolution, reduce-window and select-and-scatter: windows along sharded dimensions need halos of the neighbours'
// shards.
//
// A window across two shards needs elements of both. So each device first takes the interval of the operand that its
// own windows cover (spmd_emit_window() fetches it), and then the op runs on that alone, with padding adjusted: the
// program's padding outside of the array is in the interval already, as a fill that counts nothing.
//
//     ROOT %d = f32[10] reduce-window(f32[10] %a, %z), window={size=3 pad=1_1}, on 4 devices
//     taken   f32[5] from element 3i - 1 of the array on (i: the shard's number), 0 outside of the array
//     local   f32[3] reduce-window(f32[5], %z), window={size=3}
//
// A base dilated by d has its elements d apart and holes between them, so that windows of a shard begin at some phase
// of 0 to d - 1 after an element. Where the phases of all shards are equal, what is taken begins with the next element,
// and the local padding is the rest of the hole. Where they differ the stride must be 1: every device then computes at
// most d - 1 more windows, and slices out its own (own_windows). Everything else is irregular and not sharded.
//
// Invariants: an unsharded dimension keeps the program's own window; a sharded one has a window over the interval whose
// first output is the shard's first one or, where shards begin at different phases of a dilated base, some more outputs
// of which each device keeps its own. Results in padding (of an uneven last shard) are never used.
#include <assert.h>
#include <math.h>
#include <string.h>

#include "hlo/ir/infer/support.h"
#include "spmd_partitioner/chain.h"
#include "spmd_partitioner/emit.h"
#include "spmd_partitioner/moves.h"
#include "spmd_partitioner/parts/composed.h"
#include "spmd_partitioner/rules/cumulative.h"

// How propagation treats the dimension: shards pass as they are, or need their neighbours' halos.
static SpmdFactorKind window_kind(const HloWindowDimension *window) {
    return hlo_window_is_element(window) ? SPMD_PASS : SPMD_PERMUTE;
}

// Elements of the dilated base that `size` windows reach over.
// 0 for no window at all.
static int64_t reach_of(const HloWindowDimension *window, int64_t size) {
    return size ? (size - 1) * window->stride + (window->size - 1) * window->window_dilation + 1 : 0;
}

// The interval of a dimension sharded by `axes` over which the windows of a shard reach: `reach` elements of the
// dilated base, from `scale` further on in each shard. With a dilated base they begin anywhere between two elements;
// there is room for the shard with the largest phase. It is in elements of the array, not of the dilated base: the
// divisor is the dilation. Where all shards begin in a hole of the same width, the element before it is not needed.
static SpmdInterval reached_interval(const SpmdMesh *mesh, const HloWindowDimension *window, const SpmdAxes *axes,
                                     int64_t scale, int64_t reach) {
    SpmdInterval interval = spmd_interval(scale, -window->padding_low, window->base_dilation, 0);
    int64_t least, largest;
    spmd_interval_phases(mesh, axes, &interval, &least, &largest);
    const int64_t hole = least == largest && least ? interval.divisor - least : 0;
    if (reach && hole && reach > hole) {
        interval.offset += hole;
        interval.size = (reach - hole - 1) / interval.divisor + 1;
    } else if (reach) {
        interval.size = (reach - 1 + largest) / interval.divisor + 1;
    }
    return interval;
}

// The interval that `size` windows of a shard need.
static SpmdInterval window_interval(const SpmdMesh *mesh, const HloWindowDimension *window, const SpmdAxes *axes,
                                    int64_t size) {
    return reached_interval(mesh, window, axes, window->stride * size, reach_of(window, size));
}

// True if the windows of all shards can be computed: those of a dilated base begin alike in every shard, or follow each
// other element by element.
// With a stride of 1 the windows of another phase are those of the next outputs.
static bool is_regular(const SpmdMesh *mesh, const HloWindowDimension *window, const SpmdAxes *axes, int64_t size) {
    const SpmdInterval interval = window_interval(mesh, window, axes, size);
    int64_t least, largest;
    spmd_interval_phases(mesh, axes, &interval, &least, &largest);
    return least == largest || window->stride == 1;
}

// The window of a dimension as it is over what was taken for it. The shard's windows are the first ones, or, where
// shards begin differently, those from each one's phase on.
// `interval` is the part that was taken: its elements, dilated again, reach over `spread`.
static HloWindowDimension local_window(const SpmdMesh *mesh, const SpmdAxes *axes, const HloWindowDimension *window,
                                       const SpmdInterval *interval, int64_t reach) {
    int64_t least, largest;
    spmd_interval_phases(mesh, axes, interval, &least, &largest);
    HloWindowDimension local = *window;
    const int64_t spread = interval->size ? (interval->size - 1) * interval->divisor + 1 : 0;
    const int64_t hole = interval->offset + window->padding_low;  // in which the windows begin
    local.padding_low = least == largest ? hole - least : 0;
    local.padding_high = reach + largest - hole - spread;
    return local;
}

// The interval that a sharded dimension's windows need; *local becomes the window over it.
static SpmdInterval begin_window(const SpmdMesh *mesh, const SpmdAxes *axes, const HloWindowDimension *window,
                                 int64_t size, HloWindowDimension *local) {
    const SpmdInterval interval = window_interval(mesh, window, axes, size);
    *local = local_window(mesh, axes, window, &interval, reach_of(window, size));
    return interval;
}

// Operand `index` of the current op with the interval of every windowed dimension: directly from the array that it is
// put together from where that sends no more, else from itself. There, the next dimension is taken of the one before,
// so that corners of several sharded dimensions are included. `windowed` says which dimensions have an interval.
static HloInstruction *take_intervals(SpmdPartitioner *partitioner, const SpmdRule *rule, const SpmdAxes *factors,
                                      int32_t index, const bool *windowed, SpmdInterval *intervals,
                                      HloInstruction *fill) {
    const SpmdReason reason = {.op = partitioner->op, .what = "neighbours' elements"};
    const HloInstruction *array = partitioner->op->operands[index];
    const SpmdSharding *sharding = spmd_rule_sharding(rule, partitioner->arena, partitioner->mesh, index, factors,
                                                      spmd_manual_axes(partitioner, partitioner->op));
    const SpmdLocal local = spmd_operand(partitioner, index);
    int64_t direct = spmd_form_cost(partitioner, &local, sharding);
    for (int32_t d = 0; d < sharding->rank; d++) {
        const int64_t shards = spmd_axes_product(partitioner->mesh, &sharding->dims[d]);
        if (windowed[d] && !spmd_has_whole(partitioner, index, d, &sharding->dims[d]))
            direct = spmd_add_bytes(direct, spmd_window_bytes(partitioner, array->shape, sharding, d, intervals[d]));
        else if (!windowed[d])
            intervals[d] = spmd_own_interval(spmd_shard_size(array->shape->dims[d], shards));
    }
    const SpmdComposed *composed = direct ? spmd_composed_plan(partitioner, array, 1, sharding, intervals) : NULL;
    if (composed && spmd_composed_cost(composed) <= spmd_add_bytes(direct, spmd_composed_saving(composed)))
        return spmd_emit_composed(partitioner, composed, windowed, fill, &reason);
    SpmdLocal taken = spmd_windowed_operand(partitioner, rule, factors, index, windowed);
    for (int32_t d = 0; d < sharding->rank; d++)
        if (windowed[d])
            taken.hlo = spmd_emit_window(partitioner, taken, d, &sharding->dims[d], intervals[d], fill, &reason);
    return taken.hlo;
}

// How many windows more than the shard's are computed over an interval, so that every shard finds its own among them.
static int64_t windows_beside(const SpmdMesh *mesh, const SpmdAxes *axes, const SpmdInterval *interval) {
    int64_t least, largest;
    spmd_interval_phases(mesh, axes, interval, &least, &largest);
    return least == largest ? 0 : largest;
}

// The shard's own windows, `size` of those that were computed along a sharded dimension.
static HloInstruction *own_windows(SpmdPartitioner *partitioner, HloInstruction *made, int64_t dim,
                                   const SpmdInterval *interval, const SpmdAxes *axes, int64_t size) {
    if (!windows_beside(partitioner->mesh, axes, interval)) return made;
    return spmd_emit_phase(partitioner, made, dim, axes, interval, size);
}

// A copy of a window that may be changed.
static HloWindow *copy_window(HloArena *arena, const HloWindow *window) {
    HloWindow *copy = HLO_ARENA_NEW(arena, HloWindow, 1);
    HloWindowDimension *dims = HLO_ARENA_NEW(arena, HloWindowDimension, window->count);
    memcpy(dims, window->dims, (size_t)window->count * sizeof(*dims));
    *copy = (HloWindow){dims, window->count};
    return copy;
}

// ---- reduce-window ----

// The window of a dimension, without the elements that lie in padding for every result: those count nothing, and would
// be fetched from neighbours. (For an array without elements all lie there, and are kept.)
static HloWindowDimension reduced_window(const HloInstruction *op, int64_t dim) {
    const HloWindowDimension window = HLO_ATTRIBUTES(op, Window)->window->dims[dim];
    const int64_t base = op->operands[0]->shape->dims[dim], outputs = hlo_shape_leaf(op->shape, 0)->dims[dim];
    return base && outputs ? hlo_window_crop(window, base, outputs) : window;
}

// All of them, which may be changed.
static HloWindow *reduced_windows(HloArena *arena, const HloInstruction *op) {
    HloWindow *windows = copy_window(arena, HLO_ATTRIBUTES(op, Window)->window);
    HloWindowDimension *dims = (HloWindowDimension *)windows->dims;
    for (int64_t d = 0; d < windows->count; d++) dims[d] = reduced_window(op, d);
    return windows;
}

// One factor a dimension, which all arrays and all results share: they are windowed alike. Init values are scalars
// without dimensions and get none.
static void reduce_window_rule(SpmdRule *rule, const HloInstruction *op) {
    int32_t inputs = op->operand_count / 2;
    const HloShape *result = rule->tensors[spmd_rule_result(rule, 0)].shape;
    for (int32_t d = 0; d < result->rank; d++) {
        const HloWindowDimension window = reduced_window(op, d);
        int32_t factor = spmd_rule_factor(rule, window_kind(&window), result->dims[d]);
        for (int32_t i = 0; i < inputs; i++) {
            spmd_rule_map(rule, i, d, factor);
            spmd_rule_map(rule, spmd_rule_result(rule, i), d, factor);
        }
    }
}

// The op that combines array `index` of a reduce-window with itself, whatever the other arrays are; HLO_OPCODE_COUNT if
// it is none whose identity is known.
static HloOpcode combiner_of(const HloInstruction *op, int32_t index) {
    const HloComputation *called = op->called[0];
    const int32_t inputs = op->operand_count / 2;
    if (inputs == 1) return spmd_rule_combiner(called);
    if (!hlo_is(called->root, HLO_OP_TUPLE)) return HLO_OPCODE_COUNT;
    const HloInstruction *at = called->root->operands[index];
    const HloInstruction *a = called->parameters.items[index], *b = called->parameters.items[inputs + index];
    if (at->operand_count != 2 ||
        !((at->operands[0] == a && at->operands[1] == b) || (at->operands[0] == b && at->operands[1] == a)))
        return HLO_OPCODE_COUNT;
    return spmd_rule_combining(at->opcode, at->shape->type);
}

// Whether a reduction takes either one of two elements or the other, of all arrays alike. Then the init value may take
// part more than once.
static bool is_selection(const HloInstruction *op) {
    const HloComputation *called = op->called[0];
    const int32_t inputs = op->operand_count / 2;
    const HloInstruction *condition = NULL;
    for (int32_t i = 0; i < inputs; i++) {
        const HloInstruction *at = inputs == 1 ? called->root : called->root->operands[i];
        if ((inputs > 1 && !hlo_is(called->root, HLO_OP_TUPLE)) || !hlo_is(at, HLO_OP_SELECT)) return false;
        if (i && at->operands[0] != condition) return false;
        condition = at->operands[0];
        if (at->operands[1] != called->parameters.items[i] || at->operands[2] != called->parameters.items[inputs + i])
            return false;
    }
    return true;
}

// Whether elements outside of the arrays can be set to something that does not change a window's result.
static bool has_neutral(const HloInstruction *op) {
    bool known = true;
    for (int32_t i = 0; i < op->operand_count / 2; i++) known &= combiner_of(op, i) != HLO_OPCODE_COUNT;
    return known || is_selection(op);
}

// That value, of array `index`: the op's identity, or the init value.
static HloInstruction *neutral(SpmdPartitioner *partitioner, const HloInstruction *op, int32_t index,
                               HloInstruction *init) {
    const HloOpcode combiner = combiner_of(op, index);
    if (combiner == HLO_OPCODE_COUNT) return init;
    return spmd_emit_identity(partitioner, combiner, init->shape->type);
}

// window_interval() in the form that spmd_windowed_bytes() takes.
static SpmdInterval reduce_window_interval(const SpmdMesh *mesh, const HloInstruction *op, int32_t dim,
                                           const SpmdAxes *axes, int64_t size) {
    const HloWindowDimension window = reduced_window(op, dim);
    return window_interval(mesh, &window, axes, size);
}

// True if the windows of all sharded dimensions can be computed shard by shard. Where nothing is neutral to the op,
// none of them may reach beyond the array.
static bool all_regular(const SpmdMesh *mesh, const HloInstruction *op, const SpmdSharding *sharding,
                        const HloShape *global) {
    for (int32_t d = 0; d < sharding->rank; d++) {
        const HloWindowDimension window = reduced_window(op, d);
        int64_t size = spmd_shard_size(global->dims[d], spmd_axes_product(mesh, &sharding->dims[d]));
        if (!is_regular(mesh, &window, &sharding->dims[d], size)) return false;
        const bool inside = !window.padding_low && !window.padding_high &&
                            global->dims[d] == size * spmd_axes_product(mesh, &sharding->dims[d]);
        if (sharding->dims[d].count && !inside && !hlo_window_is_element(&window) && !has_neutral(op)) return false;
    }
    return true;
}

// The bytes that one device sends for these factors. Running totals (cumulative sums and the like) exchange one element
// a shard instead of halos as wide as the array.
static int64_t reduce_window_moved(SpmdPartitioner *partitioner, const SpmdRule *rule, const SpmdAxes *factors) {
    const HloInstruction *op = rule->op;
    const HloShape *global = rule->tensors[spmd_rule_result(rule, 0)].shape;
    const SpmdSharding *sharding =
        spmd_rule_sharding(rule, partitioner->arena, partitioner->mesh, spmd_rule_result(rule, 0), factors, 0);
    int64_t bytes = 0;
    if (spmd_is_cumulative(op, sharding)) return spmd_cumulative_bytes(partitioner, op, sharding);
    // What must not be chosen costs more than the whole array everywhere.
    if (!all_regular(partitioner->mesh, op, sharding, global)) {
        return spmd_add_bytes(hlo_shape_bytes(op->operands[0]->shape), hlo_shape_bytes(op->shape));
    }
    for (int32_t i = 0; i < op->operand_count / 2; i++) {
        bytes = spmd_add_bytes(bytes, spmd_windowed_bytes(partitioner, rule, i, factors, reduce_window_interval));
    }
    return bytes;
}

// A reduce-window on its way to local form.
typedef struct Windows {
    const SpmdRule *rule;
    SpmdAxes *factors;
    SpmdSharding *sharding;     // of operands and results
    const HloWindow *whole;     // the program's, from reduced_windows()
    HloWindow *local;           // over the elements that were taken
    HloWindowDimension *dims;   // of `local`
    HloInstruction **operands;  // arrays, then init values
} Windows;

// Chooses the factors: with sharded windows where all of them can be computed shard by shard, else without any. The
// second attempt always fits, since without sharded windows nothing can be irregular.
static Windows begin_windows(SpmdPartitioner *partitioner, const HloInstruction *op) {
    Windows windows = {.rule = partitioner->plan->rules[op->id], .whole = reduced_windows(partitioner->arena, op)};
    const int32_t result = spmd_rule_result(windows.rule, 0);
    for (int any = 1; any >= 0; any--) {
        windows.factors = spmd_choose(partitioner, windows.rule, any);
        windows.sharding = spmd_rule_sharding(windows.rule, partitioner->arena, partitioner->mesh, result,
                                              windows.factors, spmd_manual_axes(partitioner, op));
        if (spmd_is_cumulative(op, windows.sharding) ||
            all_regular(partitioner->mesh, op, windows.sharding, windows.rule->tensors[result].shape))
            break;
    }
    windows.local = reduced_windows(partitioner->module->arena, op);
    windows.dims = (HloWindowDimension *)windows.local->dims;
    windows.operands = HLO_ARENA_NEW(partitioner->arena, HloInstruction *, op->operand_count);
    return windows;
}

// Whether neighbours' elements are taken along a dimension.
static bool is_taken(const HloWindowDimension *window, const SpmdSharding *sharding, int64_t dim) {
    return !hlo_window_is_element(window) && sharding->dims[dim].count > 0;
}

// Operand `index` with all that its shard's windows need.
static HloInstruction *windowed_operand(SpmdPartitioner *partitioner, const HloInstruction *op, Windows *windows,
                                        int32_t index, const HloShape *result) {
    const HloWindow *window = windows->whole;
    HloInstruction *fill = neutral(partitioner, op, index, windows->operands[op->operand_count / 2 + index]);
    bool *windowed = HLO_ARENA_NEW(partitioner->arena, bool, result->rank + 1);
    SpmdInterval *intervals = HLO_ARENA_NEW(partitioner->arena, SpmdInterval, result->rank + 1);
    for (int32_t d = 0; d < result->rank; d++) {
        windowed[d] = is_taken(&window->dims[d], windows->sharding, d);
        if (windowed[d])
            intervals[d] = begin_window(partitioner->mesh, &windows->sharding->dims[d], &window->dims[d],
                                        result->dims[d], &windows->dims[d]);
    }
    return take_intervals(partitioner, windows->rule, windows->factors, index, windowed, intervals, fill);
}

// The local shape of result `index` with the windows that are computed beside the shard's.
static const HloShape *computed_shape(SpmdPartitioner *partitioner, const Windows *windows, int32_t index) {
    const HloWindow *window = windows->whole;
    HloArena *arena = partitioner->module->arena;
    const HloShape *leaf = windows->rule->tensors[spmd_rule_result(windows->rule, index)].shape;
    const HloShape *local = spmd_local_shape(arena, partitioner->mesh, leaf, windows->sharding);
    int64_t *dims = hlo_arena_copy(arena, local->dims, (size_t)local->rank * sizeof(int64_t));
    bool more = false;
    for (int32_t d = 0; d < local->rank; d++) {
        if (!is_taken(&window->dims[d], windows->sharding, d)) continue;
        const SpmdAxes *axes = &windows->sharding->dims[d];
        const SpmdInterval interval = window_interval(partitioner->mesh, &window->dims[d], axes, local->dims[d]);
        dims[d] += windows_beside(partitioner->mesh, axes, &interval);
        more |= dims[d] != local->dims[d];
    }
    return more ? spmd_with_dims(partitioner, local, dims) : local;
}

// Several arrays may be reduced together: each is taken in the same way, and the clone of the op works on all of them.
// Its shape is that of the windows that were computed; own_windows() cuts the shard's out of them.
static HloStatus reduce_window_partition(SpmdPartitioner *partitioner, const HloInstruction *op) {
    assert(partitioner->plan->rules[op->id]); /* its operands are arrays: shape inference has seen them */
    HloArena *arena = partitioner->module->arena;
    int32_t inputs = op->operand_count / 2;
    Windows windows = begin_windows(partitioner, op);
    const HloWindow *window = windows.whole;
    const SpmdSharding *sharding = windows.sharding;
    if (spmd_is_cumulative(op, sharding)) {
        return spmd_partition_cumulative(partitioner, op, windows.rule, windows.factors, sharding);
    }
    const HloShape *global = windows.rule->tensors[spmd_rule_result(windows.rule, 0)].shape;
    const HloShape *result = spmd_local_shape(partitioner->arena, partitioner->mesh, global, sharding);
    const HloShape **shapes = HLO_ARENA_NEW(arena, const HloShape *, inputs);
    for (int32_t i = 0; i < inputs; i++) {
        windows.operands[inputs + i] = spmd_operand_whole(partitioner, inputs + i);
        windows.operands[i] = windowed_operand(partitioner, op, &windows, i, result);
        shapes[i] = computed_shape(partitioner, &windows, i);
    }
    const HloShape *shape = hlo_shape_is_tuple(op->shape) ? hlo_shape_tuple(arena, shapes, inputs) : shapes[0];
    HloInstruction *made = spmd_clone(partitioner, op, shape, windows.operands, op->operand_count);
    HloWindowAttributes attributes = {windows.local};
    hlo_instruction_set_attributes(made, &attributes);
    HloInstruction **leaves = HLO_ARENA_NEW(partitioner->arena, HloInstruction *, inputs);
    spmd_emit_leaves(partitioner, made, leaves);
    for (int32_t i = 0; i < inputs; i++) {
        for (int32_t d = 0; d < result->rank; d++) {
            if (!is_taken(&window->dims[d], sharding, d)) continue;
            const SpmdInterval interval =
                window_interval(partitioner->mesh, &window->dims[d], &sharding->dims[d], result->dims[d]);
            leaves[i] = own_windows(partitioner, leaves[i], d, &interval, &sharding->dims[d], result->dims[d]);
        }
        spmd_define(partitioner, i, leaves[i], sharding, 0, HLO_OPCODE_COUNT);
    }
    return HLO_SUCCESS;
}
const SpmdOp spmd_op_reduce_window = {.name = "reduce-window",
                                      .rule = reduce_window_rule,
                                      .partition = reduce_window_partition,
                                      .moved = reduce_window_moved};

// ---- select-and-scatter

// How a select computation compares its parameters in order: HLO_ComparisonDirection_*, -1 for anything else.
static int32_t selection_direction(const HloComputation *select) {
    const HloInstruction *root = select->root;
    bool plain = hlo_is(root, HLO_OP_COMPARE) && select->parameters.count == 2 &&
                 root->operands[0] == select->parameters.items[0] && root->operands[1] == select->parameters.items[1];
    return plain ? HLO_ATTRIBUTES(root, Compare)->direction : -1;
}

// The op whose identity a selection never prefers to a number, HLO_OPCODE_COUNT if none is known. It fills the part of
// a window outside of the array, and it must be an infinity: the least value of any other type is an ordinary number (0
// of unsigned ones), and where it is in the array too, a selection among equals may take the one outside. (Where no
// number is compared with, one outside may still be taken: before NaNs, and before that infinity itself.)
static HloOpcode never_selected(const HloInstruction *op) {
    const HloType type = op->shape->type;
    if (!hlo_type_is_float(type) || isfinite(hlo_float_limit(type, true))) return HLO_OPCODE_COUNT;
    switch (selection_direction(op->called[0])) {
        case HLO_ComparisonDirection_GE:
        case HLO_ComparisonDirection_GT: return HLO_OP_MAXIMUM;
        case HLO_ComparisonDirection_LE:
        case HLO_ComparisonDirection_LT: return HLO_OP_MINIMUM;
        default: return HLO_OPCODE_COUNT;
    }
}

// Sums, so that sources that do not exist add nothing; and windows inside of the array, or a selection for which there
// is something that it never takes outside.
static bool may_exchange(const HloInstruction *op, const HloWindowDimension *window) {
    bool inside = window->padding_low == 0 && window->padding_high == 0;
    return window->base_dilation == 1 && window->window_dilation == 1 &&
           spmd_rule_combiner(op->called[1]) == HLO_OP_ADD && (inside || never_selected(op) != HLO_OPCODE_COUNT);
}

// Sources have the positions of the windows, so array, source and result are sharded along the same factor although
// their sizes differ: shard i of the sources holds approximately the results of the windows of shard i. Dimensions that
// may not be exchanged get no factor and stay whole. The factor has the size of the array, not that of the sources:
// spmd_rule_project() goes by axes alone.
static void select_and_scatter_rule(SpmdRule *rule, const HloInstruction *op) {
    const HloWindow *window = HLO_ATTRIBUTES(op, Window)->window;
    for (int32_t d = 0; d < op->shape->rank; d++) {
        if (!hlo_window_is_element(&window->dims[d]) && !may_exchange(op, &window->dims[d])) continue;
        SpmdFactorKind kind = hlo_window_is_element(&window->dims[d]) ? SPMD_PASS : SPMD_PERMUTE;
        int32_t factor = spmd_rule_factor(rule, kind, op->shape->dims[d]);
        spmd_rule_map(rule, 0, d, factor);
        spmd_rule_map(rule, 1, d, factor);
        spmd_rule_map(rule, spmd_rule_result(rule, 0), d, factor);
    }
}

// What one device needs along a sharded dimension to compute its shard of the result: all windows that touch it. Shards
// begin anywhere between the starts of two windows; `sources` has that as its phase.
typedef struct ScatterHalo {
    SpmdInterval sources;    // numbers of the windows, which are those of the sources
    SpmdInterval elements;   // of the array, from the beginning of the first window on
    int64_t least, largest;  // phases of all positions
    int64_t size;            // elements that the windows of one shard reach over
    int64_t before;          // of the shard in them, where the phase is 0
} ScatterHalo;

// `size` is at least what the shard needs after the first window: elements that no window covers are the shard's too,
// and get the init value.
static ScatterHalo scatter_halo(const SpmdMesh *mesh, const HloWindowDimension *window, const SpmdAxes *axes,
                                int64_t shard) {
    int64_t stride = window->stride;
    // Window w begins at w * stride - padding. The first one taken ends after the shard's beginning, or begins at it or
    // before.
    ScatterHalo halo = {.before = window->size > stride ? window->size - stride : 0};
    halo.sources = spmd_interval(shard, window->padding_low - halo.before, stride, 0);
    spmd_interval_phases(mesh, axes, &halo.sources, &halo.least, &halo.largest);
    halo.sources.size = (shard - 1 + halo.before + halo.largest) / stride + 1;
    halo.size = (halo.sources.size - 1) * stride + window->size;
    if (halo.size < halo.before + halo.largest + shard) halo.size = halo.before + halo.largest + shard;
    halo.elements = halo.sources;
    halo.elements.size = halo.size;
    halo.elements.step = stride;
    halo.elements.shift = -window->padding_low;
    return halo;
}

// The other way: each device computes the windows of its own sources, and sends the sums that belong to other shards
// there. It is possible where the windows of a shard of sources begin at the same element of every shard of the array,
// which then has no other phase, and where results begin with zeros.
typedef struct OwnWindows {
    SpmdInterval elements;  // of the array, that the windows reach over
    int64_t shard, first;   // elements of a shard; the first one of the interval, counted from the shard's
} OwnWindows;

// The elements of a shard, [*from, *to), that the device `distance` further on has sums for.
static void own_overlap(const OwnWindows *own, int64_t distance, int64_t *from, int64_t *to) {
    const int64_t begin = own->shard * distance + own->first;
    *from = begin > 0 ? begin : 0;
    *to = begin + own->elements.size < own->shard ? begin + own->elements.size : own->shard;
}

// How far away the devices are that have sums for a shard: from -*distance to +*distance.
static int64_t farthest_overlap(const OwnWindows *own) {
    const int64_t after = own->first + own->elements.size - own->shard, before = -own->first;
    const int64_t most = after > before ? after : before;
    return most > 0 ? hlo_divide_up(most, own->shard) : 0;
}

// Dimension `d` that way: false where it is impossible.
static bool find_own_windows(const SpmdMesh *mesh, const HloInstruction *op, int32_t d, const SpmdAxes *axes,
                             OwnWindows *own) {
    const HloWindowDimension *window = &HLO_ATTRIBUTES(op, Window)->window->dims[d];
    const int64_t shards = spmd_axes_product(mesh, axes);
    const int64_t sources = spmd_shard_size(op->operands[1]->shape->dims[d], shards);
    const HloInstruction *init = op->operands[2];
    own->shard = spmd_shard_size(op->shape->dims[d], shards);
    own->first = -window->padding_low;
    own->elements = spmd_interval(own->shard, own->first, 1, (sources - 1) * window->stride + window->size);
    if (!own->shard || !sources || sources * window->stride != own->shard) return false;
    if (!hlo_is(init, HLO_OP_CONSTANT) || hlo_type_is_complex(init->shape->type)) return false;
    if (!hlo_literal_is_zero(hlo_constant_literal(init))) return false;
    return farthest_overlap(own) < shards;
}

// The bytes that one device sends for the halos of the array, and for sums of other shards.
static int64_t own_windows_bytes(SpmdPartitioner *partitioner, const HloShape *array, const SpmdSharding *sharding,
                                 int32_t d, const OwnWindows *own) {
    int64_t bytes = spmd_window_bytes(partitioner, array, sharding, d, own->elements);
    const int64_t row = spmd_local_bytes(partitioner->mesh, array, sharding) / own->shard;
    for (int64_t k = -farthest_overlap(own); k <= farthest_overlap(own); k++) {
        int64_t from, to;
        own_overlap(own, k, &from, &to);
        if (k && from < to) bytes = spmd_add_bytes(bytes, spmd_times_bytes(row, to - from));
    }
    return bytes;
}

// The bytes for dimension `d` the first way: the halos of both the array and the sources are sent.
static int64_t scatter_halo_bytes(SpmdPartitioner *partitioner, const HloInstruction *op, const SpmdSharding *sharding,
                                  int32_t d) {
    const HloShape *array = op->operands[0]->shape, *source = op->operands[1]->shape;
    const SpmdAxes *axes = &sharding->dims[d];
    const int64_t shard = spmd_shard_size(array->dims[d], spmd_axes_product(partitioner->mesh, axes));
    const ScatterHalo halo = scatter_halo(partitioner->mesh, &HLO_ATTRIBUTES(op, Window)->window->dims[d], axes, shard);
    return spmd_add_bytes(spmd_window_bytes(partitioner, array, sharding, d, halo.elements),
                          spmd_window_bytes(partitioner, source, sharding, d, halo.sources));
}

// Whether sums are sent along dimension `d`, because that sends less; *own says how.
static bool sends_sums(SpmdPartitioner *partitioner, const HloInstruction *op, const SpmdSharding *sharding, int32_t d,
                       OwnWindows *own) {
    return find_own_windows(partitioner->mesh, op, d, &sharding->dims[d], own) &&
           own_windows_bytes(partitioner, op->operands[0]->shape, sharding, d, own) <
               scatter_halo_bytes(partitioner, op, sharding, d);
}

// The bytes of the cheaper way, dimension by dimension.
static int64_t select_and_scatter_moved(SpmdPartitioner *partitioner, const SpmdRule *rule, const SpmdAxes *factors) {
    const HloWindow *window = HLO_ATTRIBUTES(rule->op, Window)->window;
    const SpmdSharding *sharding =
        spmd_rule_sharding(rule, partitioner->arena, partitioner->mesh, spmd_rule_result(rule, 0), factors, 0);
    int64_t bytes = 0;
    for (int32_t d = 0; d < sharding->rank; d++) {
        OwnWindows own;
        if (hlo_window_is_element(&window->dims[d]) || !sharding->dims[d].count) continue;
        bytes =
            spmd_add_bytes(bytes, sends_sums(partitioner, rule->op, sharding, d, &own)
                                      ? own_windows_bytes(partitioner, rule->op->operands[0]->shape, sharding, d, &own)
                                      : scatter_halo_bytes(partitioner, rule->op, sharding, d));
    }
    return bytes;
}

// A select-and-scatter on its way to local form.
typedef struct Scattering {
    const HloInstruction *op;
    SpmdLocal array, source;
    const SpmdSharding *sharding;
    const HloShape *result;  // local
    SpmdReason reason;
} Scattering;

// What fills windows outside of the array.
static HloInstruction *scatter_fill(SpmdPartitioner *partitioner, const HloInstruction *op) {
    return spmd_emit_identity(partitioner, never_selected(op), op->operands[0]->shape->type);
}

// Takes everything that the windows of one sharded dimension need.
static void take_windows(SpmdPartitioner *partitioner, Scattering *scattering, int32_t d) {
    const HloWindowDimension *window = &HLO_ATTRIBUTES(scattering->op, Window)->window->dims[d];
    const SpmdAxes *axes = &scattering->sharding->dims[d];
    bool inside = window->padding_low == 0 && window->padding_high == 0;
    HloInstruction *fill = inside ? NULL : scatter_fill(partitioner, scattering->op);
    HloInstruction *zero = spmd_emit_scalar(partitioner, scattering->source.hlo->shape->type, 0);
    OwnWindows own;
    if (sends_sums(partitioner, scattering->op, scattering->sharding, d, &own)) {
        scattering->array.hlo =
            spmd_emit_window(partitioner, scattering->array, d, axes, own.elements, fill, &scattering->reason);
        scattering->source.hlo = spmd_emit_mask(partitioner, scattering->source.hlo, d, axes,
                                                scattering->op->operands[1]->shape->dims[d], zero);
        return;
    }
    const ScatterHalo halo = scatter_halo(partitioner->mesh, window, axes, scattering->result->dims[d]);
    scattering->array.hlo =
        spmd_emit_window(partitioner, scattering->array, d, axes, halo.elements, fill, &scattering->reason);
    scattering->source.hlo =
        spmd_emit_window(partitioner, scattering->source, d, axes, halo.sources, zero, &scattering->reason);
}

// The sums of a device's own windows, sent to where they belong along dimension `d` and added up.
static HloInstruction *send_sums(SpmdPartitioner *partitioner, const Scattering *scattering, HloInstruction *made,
                                 int32_t d, const OwnWindows *own) {
    const SpmdAxes *axes = &scattering->sharding->dims[d];
    const int64_t shards = spmd_axes_product(partitioner->mesh, axes), farthest = farthest_overlap(own);
    const SpmdReason reason = {.op = scattering->op, .what = "sums of neighbours' elements"};
    int64_t *sources = HLO_ARENA_NEW(partitioner->arena, int64_t, shards);
    HloInstruction *zero = spmd_emit_scalar(partitioner, made->shape->type, 0), *total = NULL;
    for (int64_t k = -farthest; k <= farthest; k++) {
        int64_t from, to;
        own_overlap(own, k, &from, &to);
        if (from >= to) continue;
        const int64_t begin = own->shard * k + own->first;
        HloInstruction *part = spmd_emit_slice(partitioner, made, d, from - begin, to - begin, 1);
        for (int64_t i = 0; i < shards; i++) sources[i] = i + k >= 0 && i + k < shards ? i + k : -1;
        // Devices without a source receive zeros.
        if (k)
            part = spmd_emit_permute(partitioner, part, spmd_pairs_of_positions(partitioner, axes, sources), &reason);
        part = spmd_emit_pad(partitioner, part, d, from, own->shard - to, zero);
        total = total ? spmd_emit_binary(partitioner, HLO_OP_ADD, total, part) : part;
    }
    assert(total); /* windows begin at the shard or before it */
    return total;
}

// The shard of the result, out of the results along dimension `d`.
static HloInstruction *own_scattered(SpmdPartitioner *partitioner, const Scattering *scattering, HloInstruction *made,
                                     int32_t d) {
    const HloWindowDimension *window = &HLO_ATTRIBUTES(scattering->op, Window)->window->dims[d];
    const SpmdAxes *axes = &scattering->sharding->dims[d];
    const int64_t shard = scattering->result->dims[d];
    OwnWindows own;
    if (sends_sums(partitioner, scattering->op, scattering->sharding, d, &own))
        return send_sums(partitioner, scattering, made, d, &own);
    const ScatterHalo halo = scatter_halo(partitioner->mesh, window, axes, shard);
    made = spmd_emit_slice(partitioner, made, d, halo.before, made->shape->dims[d], 1);
    return spmd_emit_phase(partitioner, made, d, axes, &halo.sources, shard);
}

// Whether the padding of whole dimension `d` was a pad's: then it is one again (padded_window.c).
static bool is_padded(const HloInstruction *op, const SpmdSharding *sharding, int32_t d) {
    const HloWindowDimension *window = &HLO_ATTRIBUTES(op, Window)->window->dims[d];
    return !is_taken(window, sharding, d) && (window->padding_low || window->padding_high) &&
           hlo_instruction_frontend_attribute(op, SPMD_EXPLICIT_PADDING);
}

// Each device computes every window that touches its shard, and keeps the shard of the scattered result alone: windows
// at a shard boundary are computed by both sides. Or, where that sends less, it computes its own windows, and sums that
// belong to others are sent.
static HloStatus select_and_scatter_partition(SpmdPartitioner *partitioner, const HloInstruction *op) {
    const HloWindow *window = HLO_ATTRIBUTES(op, Window)->window;
    const SpmdRule *rule = partitioner->plan->rules[op->id];
    HloArena *arena = partitioner->module->arena;
    SpmdAxes *factors = spmd_choose(partitioner, rule, true);
    SpmdSharding *sharding = spmd_rule_sharding(rule, partitioner->arena, partitioner->mesh, spmd_rule_result(rule, 0),
                                                factors, spmd_manual_axes(partitioner, op));
    Scattering scattering = {.op = op, .sharding = sharding, .reason = {.op = op, .what = "neighbours' elements"}};
    scattering.result = spmd_local_shape(partitioner->arena, partitioner->mesh, op->shape, sharding);
    scattering.array = spmd_factor_operand(partitioner, rule, factors, 0);
    scattering.source = spmd_factor_operand(partitioner, rule, factors, 1);
    HloWindow *local = copy_window(arena, window);
    HloWindowDimension *dims = (HloWindowDimension *)local->dims;
    // Padding is neither sent nor received: whole dimensions are padded last, and their padding is cut off first.
    for (int32_t d = 0; d < sharding->rank; d++) {
        if (!is_taken(&window->dims[d], sharding, d)) continue;
        take_windows(partitioner, &scattering, d);
        dims[d].padding_low = dims[d].padding_high = 0;
    }
    for (int32_t d = 0; d < sharding->rank; d++) {
        if (!is_padded(op, sharding, d)) continue;
        scattering.array.hlo = spmd_emit_pad(partitioner, scattering.array.hlo, d, dims[d].padding_low,
                                             dims[d].padding_high, scatter_fill(partitioner, op));
        dims[d].padding_low = dims[d].padding_high = 0;
    }
    HloInstruction *operands[3] = {scattering.array.hlo, scattering.source.hlo, spmd_operand_whole(partitioner, 2)};
    HloInstruction *made = spmd_clone(partitioner, op, operands[0]->shape, operands, 3);
    made->frontend_attributes = hlo_key_values_without(arena, made->frontend_attributes, SPMD_EXPLICIT_PADDING);
    HloWindowAttributes attributes = {local};
    hlo_instruction_set_attributes(made, &attributes);
    for (int32_t d = 0; d < sharding->rank; d++) {
        const int64_t low = window->dims[d].padding_low;
        if (is_padded(op, sharding, d))
            made = spmd_emit_slice(partitioner, made, d, low, low + scattering.result->dims[d], 1);
    }
    for (int32_t d = sharding->rank - 1; d >= 0; d--) {
        if (is_taken(&window->dims[d], sharding, d)) made = own_scattered(partitioner, &scattering, made, d);
    }
    spmd_define(partitioner, 0, made, sharding, 0, HLO_OPCODE_COUNT);
    return HLO_SUCCESS;
}
const SpmdOp spmd_op_select_and_scatter = {.name = "select-and-scatter",
                                           .rule = select_and_scatter_rule,
                                           .partition = select_and_scatter_partition,
                                           .moved = select_and_scatter_moved};

// ---- convolution ----

// A count of groups that is absent is written as 0 or 1.
static int64_t group_count(int64_t written) {
    return written > 1 ? written : 1;
}

// True if spatial dimension `i` is one where the kernel is sharded: it has more elements than there are windows, as in
// the gradient of a kernel, which sums over the image. Each device then has a part of every window's sum. Windows that
// hardly overlap (those of a patch embedding do not at all) need small halos or none, and the image is sharded instead:
// the halo is compared with half of what all windows begin within. A kernel of no more elements is sharded where these
// are farther apart than all windows begin, as in the gradient of a patch embedding of few patches. Reversed kernels
// are left to the exchange of halos, and dilated images with strides too: parts of the kernel begin at different phases
// of the image.
static bool sums_window(const HloInstruction *op, int64_t i) {
    const HloConvolutionAttributes *convolution = HLO_ATTRIBUTES(op, Convolution);
    const HloWindowDimension *window = &convolution->window->dims[i];
    const int64_t outputs = op->shape->dims[convolution->labels->output_spatial.items[i]];
    const int64_t image = op->operands[0]->shape->dims[convolution->labels->input_spatial.items[i]];
    if (window->reversal || (window->base_dilation != 1 && window->stride != 1)) return false;
    const double begin = (double)outputs * (double)window->stride;
    const double spread = (double)window->size * (double)window->window_dilation;
    if (window->size <= outputs) return begin < spread && spread <= (double)image;
    const double halo = (double)(window->size - 1) * (double)window->window_dilation + 1 - (double)window->stride;
    return halo > begin / 2;
}

// A convolution is a matrix product whose rows are batch and windows: batch and output features pass, input features
// are summed, and each spatial dimension is a window. Groups are the major part of the features on all three sides (for
// batch groups: of the input's batch), so that sharding between groups keeps each group's product on one device.
static void convolution_rule(SpmdRule *rule, const HloInstruction *op) {
    const HloConvolutionAttributes *convolution = HLO_ATTRIBUTES(op, Convolution);
    const HloConvolutionLabels *labels = convolution->labels;
    const HloShape *input = op->operands[0]->shape, *kernel = op->operands[1]->shape;
    int64_t batch_groups = group_count(convolution->batch_group_count);
    int64_t groups = group_count(convolution->feature_group_count);
    int32_t result = spmd_rule_result(rule, 0);
    if (batch_groups * groups > 1) {
        int32_t group = spmd_rule_factor(rule, SPMD_PASS, batch_groups * groups);
        spmd_rule_map(rule, 0, batch_groups > 1 ? labels->input_batch : labels->input_feature, group);
        spmd_rule_map(rule, 1, labels->kernel_output_feature, group);
        spmd_rule_map(rule, result, labels->output_feature, group);
    }
    int32_t batch = spmd_rule_factor(rule, SPMD_PASS, input->dims[labels->input_batch] / batch_groups);
    spmd_rule_map(rule, 0, labels->input_batch, batch);
    spmd_rule_map(rule, result, labels->output_batch, batch);
    int32_t feature = spmd_rule_factor(rule, SPMD_REDUCE, kernel->dims[labels->kernel_input_feature]);
    spmd_rule_map(rule, 0, labels->input_feature, feature);
    spmd_rule_map(rule, 1, labels->kernel_input_feature, feature);
    int64_t outputs = kernel->dims[labels->kernel_output_feature] / (batch_groups * groups);
    int32_t output = spmd_rule_factor(rule, SPMD_PASS, outputs);
    spmd_rule_map(rule, 1, labels->kernel_output_feature, output);
    spmd_rule_map(rule, result, labels->output_feature, output);
    for (int64_t i = 0; i < labels->input_spatial.count; i++) {
        int64_t size = op->shape->dims[labels->output_spatial.items[i]];
        bool summed = sums_window(op, i);
        if (summed) size = kernel->dims[labels->kernel_spatial.items[i]];
        SpmdFactorKind kind = summed ? SPMD_REDUCE : window_kind(&convolution->window->dims[i]);
        int32_t factor = spmd_rule_factor(rule, kind, size);
        spmd_rule_map(rule, 0, labels->input_spatial.items[i], factor);
        if (summed) spmd_rule_map(rule, 1, labels->kernel_spatial.items[i], factor);
        if (!summed) spmd_rule_map(rule, result, labels->output_spatial.items[i], factor);
    }
    rule->reduction = HLO_OP_ADD;
}

// The counts of groups that are left on one device follow from the local sizes.
static void convolution_adjust(const SpmdRule *rule, HloArena *arena, void *attributes, const HloShape *const *operands,
                               const HloShape *result) {
    HloConvolutionAttributes *convolution = attributes;
    const HloConvolutionLabels *labels = convolution->labels;
    (void)rule;
    (void)arena;
    if (convolution->feature_group_count > 1) {
        convolution->feature_group_count =
            operands[0]->dims[labels->input_feature] / operands[1]->dims[labels->kernel_input_feature];
    }
    if (convolution->batch_group_count > 1) {
        convolution->batch_group_count = operands[0]->dims[labels->input_batch] / result->dims[labels->output_batch];
    }
}

// One sharded spatial dimension of a convolution.
typedef struct Spatial {
    const HloWindowDimension *window;
    int64_t from;  // dimension of the input
    SpmdAxes axes;
    bool summed;         // the kernel is sharded, not the output
    int64_t size;        // what one device has of the output, or of the kernel
    int64_t to;          // dimension of the output
    int64_t windows;     // that one device computes
    int64_t reach;       // of these, in elements of the dilated input
    SpmdInterval needs;  // of the input
} Spatial;

// Spatial dimension `i` for given factors; false if it is not sharded, or has nothing to exchange. The axes are those
// of the input's dimension, which the factor shares with the output's or the kernel's. A part of the kernel is applied
// to the image under all windows: what it needs begins further on by the part.
static bool shards_spatial(const SpmdPartitioner *partitioner, const SpmdRule *rule, const SpmdAxes *factors, int64_t i,
                           Spatial *spatial) {
    const HloInstruction *op = rule->op;
    const HloConvolutionAttributes *convolution = HLO_ATTRIBUTES(op, Convolution);
    const SpmdMesh *mesh = partitioner->mesh;
    *spatial = (Spatial){.window = &convolution->window->dims[i],
                         .from = convolution->labels->input_spatial.items[i],
                         .to = convolution->labels->output_spatial.items[i],
                         .summed = sums_window(op, i)};
    spatial->axes = spmd_rule_dim_axes(rule, mesh, 0, spatial->from, factors);
    if (!spatial->axes.count || (!spatial->summed && hlo_window_is_element(spatial->window))) return false;
    int64_t outputs = op->shape->dims[spatial->to];
    int64_t whole = spatial->summed ? spatial->window->size : outputs;
    spatial->size = spmd_shard_size(whole, spmd_axes_product(mesh, &spatial->axes));
    spatial->windows = spatial->summed ? outputs : spatial->size;
    HloWindowDimension part = *spatial->window;
    if (spatial->summed) part.size = spatial->size;
    spatial->reach = spatial->size ? reach_of(&part, spatial->windows) : 0;
    const int64_t scale = spatial->size * (spatial->summed ? part.window_dilation : part.stride);
    spatial->needs = reached_interval(mesh, &part, &spatial->axes, scale, spatial->reach);
    return true;
}

// Whether the windows of all sharded spatial dimensions can be computed shard by shard (is_regular()).
static bool convolution_is_regular(const SpmdPartitioner *partitioner, const SpmdRule *rule, const SpmdAxes *factors) {
    const HloConvolutionLabels *labels = HLO_ATTRIBUTES(rule->op, Convolution)->labels;
    for (int64_t i = 0; i < labels->input_spatial.count; i++) {
        Spatial spatial;
        if (!shards_spatial(partitioner, rule, factors, i, &spatial) || spatial.summed) continue;
        if (!is_regular(partitioner->mesh, spatial.window, &spatial.axes, spatial.size)) return false;
    }
    return true;
}

// The bytes of the input's halos; of an irregular choice the whole input, so that it is never the cheapest.
static int64_t convolution_moved(SpmdPartitioner *partitioner, const SpmdRule *rule, const SpmdAxes *factors) {
    const HloConvolutionLabels *labels = HLO_ATTRIBUTES(rule->op, Convolution)->labels;
    const HloShape *input = rule->tensors[0].shape;
    const SpmdSharding *sharding = spmd_rule_sharding(rule, partitioner->arena, partitioner->mesh, 0, factors, 0);
    int64_t bytes = 0;
    if (!convolution_is_regular(partitioner, rule, factors)) return hlo_shape_bytes(input);
    for (int64_t i = 0; i < labels->input_spatial.count; i++) {
        Spatial spatial;
        if (!shards_spatial(partitioner, rule, factors, i, &spatial) ||
            spmd_has_whole(partitioner, 0, spatial.from, &spatial.axes))
            continue;
        bytes = spmd_add_bytes(bytes, spmd_window_bytes(partitioner, input, sharding, spatial.from, spatial.needs));
    }
    return bytes;
}

// Takes what the sharded spatial dimensions need of the input; those of `local` become the windows over it.
static HloInstruction *take_spatial(SpmdPartitioner *partitioner, const SpmdRule *rule, const SpmdAxes *factors,
                                    HloWindowDimension *local) {
    const HloShape *input = rule->tensors[0].shape;
    const HloConvolutionLabels *labels = HLO_ATTRIBUTES(rule->op, Convolution)->labels;
    bool *windowed = HLO_ARENA_NEW(partitioner->arena, bool, input->rank + 1);
    SpmdInterval *intervals = HLO_ARENA_NEW(partitioner->arena, SpmdInterval, input->rank + 1);
    for (int64_t i = 0; i < labels->input_spatial.count; i++) {
        Spatial spatial;
        if (!shards_spatial(partitioner, rule, factors, i, &spatial)) continue;
        windowed[spatial.from] = true;
        intervals[spatial.from] = spatial.needs;
        local[i] = local_window(partitioner->mesh, &spatial.axes, spatial.window, &spatial.needs, spatial.reach);
        if (spatial.summed) local[i].size = spatial.size;
    }
    HloInstruction *zero = spmd_emit_scalar(partitioner, input->type, 0);
    return take_intervals(partitioner, rule, factors, 0, windowed, intervals, zero);
}

// Elements beyond the end of a summed dimension's last shard count nothing.
static HloInstruction *mask_kernel(SpmdPartitioner *partitioner, const SpmdRule *rule, const SpmdAxes *factors,
                                   HloInstruction *kernel) {
    HloInstruction *zero = spmd_emit_scalar(partitioner, kernel->shape->type, 0);
    return spmd_mask_reduced(partitioner, rule, factors, 1, kernel, zero);
}

// Masks the input's features beyond the end of an unevenly sharded dimension; its spatial dimensions are filled as they
// are taken.
static HloInstruction *mask_features(SpmdPartitioner *partitioner, const SpmdRule *rule, const SpmdAxes *factors,
                                     HloInstruction *input) {
    const int64_t feature = HLO_ATTRIBUTES(rule->op, Convolution)->labels->input_feature;
    const SpmdAxes axes = spmd_rule_dim_axes(rule, partitioner->mesh, 0, feature, factors);
    if (rule->tensors[0].dims[feature].count != 1 || !axes.count) return input;
    HloInstruction *zero = spmd_emit_scalar(partitioner, input->shape->type, 0);
    return spmd_emit_mask(partitioner, input, feature, &axes, rule->tensors[0].shape->dims[feature], zero);
}

// The kernel is sharded by its factors and never exchanged. The input takes its halos one spatial dimension after the
// other, so that corners come with the second. Where a summed dimension is uneven, both sides are masked: 0 times the
// padding (which may be an infinity or a NaN) is not 0.
static HloStatus convolution_partition(SpmdPartitioner *partitioner, const HloInstruction *op) {
    const HloConvolutionAttributes *convolution = HLO_ATTRIBUTES(op, Convolution);
    const HloConvolutionLabels *labels = convolution->labels;
    const SpmdRule *rule = partitioner->plan->rules[op->id];
    HloArena *arena = partitioner->module->arena;
    SpmdAxes *factors = spmd_choose(partitioner, rule, true);
    if (!convolution_is_regular(partitioner, rule, factors)) factors = spmd_choose(partitioner, rule, false);
    SpmdSharding *sharding = spmd_rule_sharding(rule, partitioner->arena, partitioner->mesh, spmd_rule_result(rule, 0),
                                                factors, spmd_manual_axes(partitioner, op));
    const HloShape *result = spmd_local_shape(arena, partitioner->mesh, op->shape, sharding);
    int64_t *dims = hlo_arena_copy(arena, result->dims, (size_t)result->rank * sizeof(int64_t));
    // Without spatial dimensions (a dot, as a TPU compiler writes it) there is no window.
    HloWindow *window = convolution->window ? copy_window(arena, convolution->window) : NULL;
    HloInstruction *operands[2] = {
        take_spatial(partitioner, rule, factors, window ? (HloWindowDimension *)window->dims : NULL),
        spmd_factor_operand(partitioner, rule, factors, 1).hlo};
    if (spmd_partial_axes(rule, factors)) {
        operands[0] = mask_features(partitioner, rule, factors, operands[0]);
        operands[1] = mask_kernel(partitioner, rule, factors, operands[1]);
    }
    Spatial spatial;
    for (int64_t i = 0; i < labels->input_spatial.count; i++) {
        if (!shards_spatial(partitioner, rule, factors, i, &spatial)) continue;
        dims[spatial.to] += windows_beside(partitioner->mesh, &spatial.axes, &spatial.needs);
    }
    HloInstruction *made = spmd_clone(partitioner, op, spmd_with_dims(partitioner, result, dims), operands, 2);
    HloConvolutionAttributes *attributes = hlo_attributes_copy(arena, HLO_FAMILY_Convolution, op->attributes);
    attributes->window = window;
    const HloShape *shapes[2] = {operands[0]->shape, operands[1]->shape};
    convolution_adjust(rule, arena, attributes, shapes, made->shape);
    hlo_instruction_set_attributes(made, attributes);
    for (int64_t i = 0; i < labels->input_spatial.count; i++) {
        if (!shards_spatial(partitioner, rule, factors, i, &spatial)) continue;
        made = own_windows(partitioner, made, spatial.to, &spatial.needs, &spatial.axes, spatial.windows);
    }
    spmd_define(partitioner, 0, made, sharding, spmd_partial_axes(rule, factors), rule->reduction);
    return HLO_SUCCESS;
}
const SpmdOp spmd_op_convolution = {
    .name = "convolution", .rule = convolution_rule, .partition = convolution_partition, .moved = convolution_moved};
