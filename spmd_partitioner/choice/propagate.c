// SPDX-License-Identifier: Apache-2.0
// The stages of propagation: a worklist to the fixpoint in each. Later stages let more through, so that what is certain
// is decided before what is a guess:
//     0  ops that only pass elements on (elementwise, reshape, transpose, broadcast to dimensions of 1, edges)
//     1  all ops, pass-through factors; broadcast only from result to operand. At first from operands to results
//        alone: what a program is given claims an axis before what it returns, as the batch before the gradient of a
//        weight that is sharded along the dimension that the product with the batch sums over
//     2  conflicts are resolved: lists of one dimension in favour of the larger array, dimensions that want the same
//        axis by what follows from them (contest.h)
//     3  also summed and windowed dimensions
//     4  broadcast from operand to result too
// After the last one, loops that go along a sharded dimension get their arrays sharded along another one where that
// costs less (stack.h), what is between products of batches is sharded along a batch dimension where that sends less
// than gathering (batches.h), and results of products are sharded where that sends less than adding up parts
// (contraction.h).
// All stages run once for each priority: dimensions of a lower priority (a higher number, as in `{"x"}p1`) neither give
// nor take axes before their turn, so that the higher priority wins.
//
// One visit of a node reads the shardings of its arrays as axes per factor (rule.h), merges them, and offers each array
// the sharding that follows for it. For a product, with factors m, n and k:
//     %d = f32[64,128] dot(%a, %b)     %a [m,k] is [{x}, {}], %b [k,n] is [{}, {y}]
//     merged: m={x} from %a, n={y} from %b   offered to %d: [{x}, {y}]
//
// Invariants: an array's list of axes only ever grows at its end, so the fixpoint exists and is reached after at most
// (arrays x atoms) growths. Closed dimensions, axes that an array uses elsewhere, and more shards than elements are
// refused (acceptable(), offer()). The first visits are in program order, later ones in the order of the growths, hence
// the result is deterministic.
#include "spmd_partitioner/propagate.h"

#include <assert.h>
#include <string.h>

#include "spmd_partitioner/batches.h"
#include "spmd_partitioner/contest.h"
#include "spmd_partitioner/contraction.h"
#include "spmd_partitioner/custom_call.h"
#include "spmd_partitioner/stack.h"

enum { CONTEST_STAGE = 1, CONFLICT_STAGE = 2, REDUCE_STAGE = 3, BROADCAST_STAGE = 4, LAST_STAGE = 4 };

typedef struct Work {
    SpmdPlan *plan;
    HloArena *scratch;
    int32_t stage, priority_level;
    bool forward_only;    // rules offer nothing to operands
    int32_t *first_node;  // by array: index into `touching`
    int32_t *touching;    // nodes by array
    int32_t *queue;       // ring of node numbers
    bool *queued;
    bool *settled;    // by node: until one of its arrays grows, another visit would find nothing to do in any stage
    bool is_settled;  // what the current visit has found about that so far
    int64_t head, count;
    HloStatus status;  // of custom partitioners
    SpmdConsequences consequences;
} Work;

// A node is in the queue at most once; nodes of later stages wait for their stage.
static void enqueue(Work *work, int32_t node) {
    assert(node >= 0 && node < work->plan->nodes.count); /* one of the plan */
    if (work->queued[node] || work->plan->nodes.items[node].stage > work->stage) return;
    work->queued[node] = true;
    work->queue[(work->head + work->count++) % work->plan->nodes.count] = node;
}

// Builds the lists of nodes by array.
static void index_nodes(Work *work) {
    SpmdPlan *plan = work->plan;
    int32_t *first = HLO_ARENA_NEW(work->scratch, int32_t, plan->arrays.count + 2);
    int64_t total = 0;
    for (int64_t n = 0; n < plan->nodes.count; n++) {
        for (int32_t i = 0; i < plan->nodes.items[n].count; i++) {
            if (plan->nodes.items[n].arrays[i] < 0) continue;
            first[plan->nodes.items[n].arrays[i] + 2]++;
            total++;
        }
    }
    for (int64_t i = 2; i < plan->arrays.count + 2; i++) first[i] += first[i - 1];
    work->touching = HLO_ARENA_NEW(work->scratch, int32_t, total);
    for (int64_t n = 0; n < plan->nodes.count; n++) {
        for (int32_t i = 0; i < plan->nodes.items[n].count; i++) {
            int32_t array = plan->nodes.items[n].arrays[i];
            if (array >= 0) work->touching[first[array + 1]++] = (int32_t)n;
        }
    }
    work->first_node = first;
}

// Enqueues every node that touches an array whose sharding grew.
static void enqueue_users(Work *work, int32_t array) {
    for (int32_t i = work->first_node[array]; i < work->first_node[array + 1]; i++) {
        work->settled[work->touching[i]] = false;
        enqueue(work, work->touching[i]);
    }
}

// Whether a dimension takes part at the current priority.
static bool takes_part(const Work *work, const SpmdArray *array, int32_t dim) {
    return !array->priorities || array->priorities[dim] <= work->priority_level;
}

// The axes of a dimension, if it takes part at the current priority.
static SpmdAxes said_by(const Work *work, const SpmdArray *array, int32_t dim) {
    return takes_part(work, array, dim) ? array->sharding->dims[dim] : (SpmdAxes){0};
}

// Truncates `axes` before the first atom that this dimension of the array cannot take.
static SpmdAxes acceptable(const SpmdPlan *plan, const SpmdArray *array, int32_t dim, const SpmdAxes *axes) {
    assert(dim >= 0 && axes);
    SpmdAtomSet taken = array->replicated | array->sharding->manual | array->sharding->unreduced;
    for (int32_t i = 0; i < array->sharding->rank; i++) {
        if (i != dim) taken |= spmd_axes_set(&array->sharding->dims[i]);
    }
    int64_t shards = 1;
    for (int32_t i = 0; i < axes->count; i++) {
        shards *= plan->mesh->atoms[axes->items[i]].size;
        if ((taken >> axes->items[i] & 1) || shards > array->shape->dims[dim]) return spmd_axes_head(axes, i);
    }
    return *axes;
}

// Offers axes to a dimension of an array, which takes them if they extend its own.
static void offer(Work *work, int32_t number, int32_t dim, const SpmdAxes *axes) {
    assert(dim < work->plan->arrays.items[number].sharding->rank); /* one of its dimensions */
    SpmdArray *array = &work->plan->arrays.items[number];
    SpmdAxes *have = &array->sharding->dims[dim];
    if ((array->shape->dynamic && array->shape->dynamic[dim]) || !takes_part(work, array, dim)) return;
    if (!array->open[dim] || axes->count <= have->count || !spmd_axes_is_prefix(have, axes)) return;
    SpmdAxes take = acceptable(work->plan, array, dim, axes);
    if (take.count <= have->count) return;
    *have = take;
    enqueue_users(work, number);
}

// Two arrays of one shape that should have one sharding: each offers its own to the other.
static void run_edge(Work *work, const SpmdNode *node) {
    if (node->arrays[0] < 0 || node->arrays[1] < 0) return;
    for (int side = 0; side < 2; side++) {
        const SpmdArray *from = &work->plan->arrays.items[node->arrays[side]];
        for (int32_t dim = 0; dim < from->sharding->rank; dim++) {
            const SpmdAxes axes = said_by(work, from, dim);
            offer(work, node->arrays[1 - side], dim, &axes);
        }
    }
}

// Free axes cross the boundary of a manual region after the manual ones.
static void run_boundary(Work *work, const SpmdNode *node) {
    const SpmdArray *inside = &work->plan->arrays.items[node->arrays[0]],
                    *outside = &work->plan->arrays.items[node->arrays[1]];
    for (int32_t dim = 0; dim < inside->sharding->rank; dim++) {
        const SpmdAxes *prefix = &node->boundary[dim];
        SpmdAxes whole = *prefix, within = said_by(work, inside, dim), around = said_by(work, outside, dim);
        spmd_axes_append(&whole, &within);
        offer(work, node->arrays[1], dim, &whole);
        if (!spmd_axes_is_prefix(prefix, &around)) continue;
        SpmdAxes rest = spmd_axes_tail(&around, prefix->count);
        offer(work, node->arrays[0], dim, &rest);
    }
}

// The axes that the tensors of a node have for one factor, merged.
typedef struct Merged {
    SpmdAxes axes;
    int64_t bytes;   // of the array that has them
    int32_t tensor;  // which of the node's that is
} Merged;

static int32_t common_prefix(const SpmdAxes *a, const SpmdAxes *b) {
    int32_t count = 0;
    while (count < a->count && count < b->count && a->items[count] == b->items[count]) count++;
    return count;
}

// Longer lists of axes beat their own beginnings. Where two lists contradict each other, the common beginning is kept
// at first; from the stage of conflicts on the larger array wins, since moving it would cost most.
static void merge(Work *work, Merged *merged, const SpmdAxes *axes, int64_t bytes, int32_t tensor) {
    assert(bytes >= 0);
    if (spmd_axes_is_prefix(axes, &merged->axes)) return;
    if (spmd_axes_is_prefix(&merged->axes, axes)) {
        *merged = (Merged){*axes, bytes, tensor};
    } else if (work->stage >= CONFLICT_STAGE) {
        if (bytes > merged->bytes) *merged = (Merged){*axes, bytes, tensor};
    } else {
        work->is_settled = false;
        merged->axes = spmd_axes_head(&merged->axes, common_prefix(&merged->axes, axes));
    }
}

static bool factor_runs(const Work *work, const SpmdFactor *factor) {
    if (factor->blocked || factor->kind == SPMD_REPLICATE) return false;
    return factor->kind == SPMD_PASS || work->stage >= REDUCE_STAGE;
}

// Whether axes may be read from a tensor of a node (`from`) or offered to it (not `from`): operands forward, results
// backward.
static bool may_pass(const SpmdNode *node, int32_t tensor, bool from) {
    bool is_operand = tensor < node->rule->operand_count;
    return (node->directions & (is_operand == from ? SPMD_FORWARD : SPMD_BACKWARD)) != 0;
}

// An array's sharding as far as it takes part at the current priority.
static const SpmdSharding *sharding_now(const Work *work, const SpmdArray *array) {
    if (!array->priorities) return array->sharding;
    SpmdSharding *now = spmd_sharding_copy(work->scratch, array->sharding);
    for (int32_t d = 0; d < now->rank; d++) now->dims[d] = said_by(work, array, d);
    return now;
}

// Merges the axes of all tensors; factors that do not take part in this stage stay empty.
static void merge_tensors(Work *work, const SpmdNode *node, Merged *merged, SpmdAxes *said) {
    const SpmdRule *rule = node->rule;
    for (int32_t t = 0; t < node->count; t++) {
        if (node->arrays[t] < 0 || !may_pass(node, t, true)) continue;
        const SpmdArray *array = &work->plan->arrays.items[node->arrays[t]];
        const SpmdSharding *sharding = sharding_now(work, array);
        if (spmd_sharding_is_replicated(sharding)) continue;
        memset(said, 0, (size_t)rule->factors.count * sizeof(*said));
        spmd_rule_project(rule, work->plan->mesh, t, sharding, said);
        int64_t bytes = hlo_shape_bytes(array->shape);
        for (int64_t f = 0; f < rule->factors.count; f++) {
            if (!said[f].count) continue;
            if (factor_runs(work, &rule->factors.items[f]))
                merge(work, &merged[f], &said[f], bytes, t);
            else
                work->is_settled = false;
        }
    }
}

// The dimension of a tensor in which `factor` occurs; -1 if there is none.
static int32_t dim_of(const SpmdTensor *tensor, int32_t factor) {
    for (int32_t d = 0; d < tensor->shape->rank; d++) {
        for (int32_t i = 0; i < tensor->dims[d].count; i++) {
            if (tensor->dims[d].items[i] == factor) return d;
        }
    }
    return -1;
}

// A contest between two dimensions of one tensor of a node.
typedef struct Contest {
    const SpmdNode *node;
    int32_t tensor;
    const Merged *merged;  // by factor
} Contest;

// The axes that factors have in a tensor of the node: those that the op can do with. By others its arrays are gathered.
static SpmdAtomSet usable(const Contest *contest, int32_t tensor) {
    const SpmdTensor *dims = &contest->node->rule->tensors[tensor];
    SpmdAtomSet axes = 0;
    for (int32_t d = 0; d < dims->shape->rank; d++)
        for (int32_t i = 0; i < dims->dims[d].count; i++)
            axes |= spmd_axes_set(&contest->merged[dims->dims[d].items[i]].axes);
    return axes;
}

// What it costs over the whole program to move a share of a node's tensor along `atoms`.
static double moves(Work *work, const Contest *contest, int32_t tensor, SpmdTransferKind kind, SpmdAtomSet atoms,
                    double share) {
    const SpmdNode *node = contest->node;
    const SpmdArray *array = &work->plan->arrays.items[node->arrays[tensor]];
    const HloInstruction *op = node->rule->op;
    const double runs = tensor < node->rule->operand_count ? spmd_operand_moves(&work->consequences, op, tensor)
                                                           : spmd_runs(&work->consequences, op->parent);
    const double bytes = spmd_part_bytes(&work->consequences, array, atoms | ~usable(contest, tensor));
    return runs * spmd_transfer_price(work->plan->costs, kind, atoms, bytes * share);
}

// What it costs to have the array that claims the axes for factor `from` in the form of factor `to`: it is exchanged if
// it has that dimension, and gathered otherwise.
static double moved_to(Work *work, const Contest *contest, int32_t from, int32_t to) {
    const Merged *merged = &contest->merged[from];
    const SpmdAtomSet atoms = spmd_axes_set(&merged->axes);
    const double shards = (double)spmd_axes_product(work->plan->mesh, &merged->axes), rest = 1 - 1 / shards;
    const bool has = dim_of(&contest->node->rule->tensors[merged->tensor], to) >= 0;
    return moves(work, contest, merged->tensor, has ? SPMD_TRANSFER_EXCHANGE : SPMD_TRANSFER_GATHER, atoms,
                 has ? rest / shards : rest);
}

// What a factor's claim to its axes is worth against that of `other`: what follows if it gets them, and what need not
// be sent then: its array would be brought into the other's form, or the other's into its own, and the contested one
// exchanged.
static double worth(Work *work, const Contest *contest, int32_t factor, int32_t other) {
    const SpmdNode *node = contest->node;
    const Merged *merged = &contest->merged[factor];
    const int32_t array = node->arrays[contest->tensor];
    const int32_t dim = dim_of(&node->rule->tensors[contest->tensor], factor);
    const double shards = (double)spmd_axes_product(work->plan->mesh, &merged->axes);
    const SpmdAtomSet atoms = spmd_axes_set(&merged->axes);
    const double exchanged =
        moves(work, contest, contest->tensor, SPMD_TRANSFER_EXCHANGE, atoms, (1 - 1 / shards) / shards) +
        moved_to(work, contest, other, factor);
    const double moved = moved_to(work, contest, factor, other);
    const int32_t number = (int32_t)(node - work->plan->nodes.items);
    return (moved < exchanged ? moved : exchanged) +
           spmd_consequences(&work->consequences, number, array, dim, &merged->axes);
}

// Whether factor `f` yields to `g`, which claims an axis of it on the same tensor: before CONFLICT_STAGE both do. Of
// equal claims the larger array's counts, then the later factor's.
static bool yields(Work *work, const Contest *contest, int32_t f, int32_t g) {
    const Merged *merged = contest->merged;
    if (work->stage < CONTEST_STAGE) return true;
    const double a = worth(work, contest, f, g), b = worth(work, contest, g, f);
    if (a < b || a > b) return a < b;
    return merged[g].bytes > merged[f].bytes || (merged[g].bytes == merged[f].bytes && g < f);
}

// Notes how a contest was decided, for `explain`: the first one of each op.
static void note_decision(const Work *work, const Contest *contest, int32_t loser, int32_t winner, SpmdAtomSet atoms) {
    SpmdPlan *plan = work->plan;
    const HloInstruction *op = contest->node->rule->op;
    if (work->stage < CONTEST_STAGE || hlo_int_map_find(&plan->decisions, (uint64_t)op->id + 1)) return;
    SpmdDecision *decision = HLO_ARENA_NEW(plan->arena, SpmdDecision, 1);
    *decision = (SpmdDecision){atoms, contest->merged[winner].tensor, contest->merged[loser].tensor};
    hlo_int_map_set(plan->arena, &plan->decisions, (uint64_t)op->id + 1, (intptr_t)decision);
}

// Resolves conflicts, where two factors of one tensor claim the same atom: from CONFLICT_STAGE on the factor gets it
// from which more follows, and before that neither does.
static void resolve_conflicts(Work *work, const Contest *contest, SpmdAxes *out) {
    const SpmdRule *rule = contest->node->rule;
    const Merged *merged = contest->merged;
    const SpmdTensor *tensor = &rule->tensors[contest->tensor];
    for (int32_t f = 0; f < (int32_t)rule->factors.count; f++) out[f] = merged[f].axes;
    for (int32_t f = 0; f < (int32_t)rule->factors.count; f++) {
        if (!merged[f].axes.count || dim_of(tensor, f) < 0) continue;
        for (int32_t g = 0; g < (int32_t)rule->factors.count; g++) {
            if (g == f || !merged[g].axes.count || dim_of(tensor, g) < 0) continue;
            const SpmdAtomSet both = spmd_axes_set(&merged[g].axes) & spmd_axes_set(&merged[f].axes);
            if (!both) continue;
            work->is_settled = false;  // what follows from a claim depends on the whole program
            if (!yields(work, contest, f, g)) continue;
            note_decision(work, contest, f, g, both);
            int32_t keep = 0;
            while (keep < out[f].count && !(both >> out[f].items[keep] & 1)) keep++;
            out[f] = spmd_axes_head(&out[f], keep);
        }
    }
}

// Reads the axes of each tensor per factor, merges them, and offers each tensor the sharding that follows for it.
// Shardings only ever grow, so the fixpoint is reached.
static void run_rule(Work *work, const SpmdNode *node) {
    const SpmdRule *rule = node->rule;
    int64_t factors = rule->factors.count;
    if (!factors) return;
    HloArenaMark mark = hlo_arena_mark(work->scratch);
    Merged *merged = HLO_ARENA_NEW(work->scratch, Merged, factors);
    SpmdAxes *axes = HLO_ARENA_NEW(work->scratch, SpmdAxes, factors);
    merge_tensors(work, node, merged, axes);
    bool any = false;
    for (int64_t f = 0; f < factors; f++) any |= merged[f].axes.count > 0;
    for (int32_t t = 0; any && t < node->count; t++) {
        bool forward = t >= rule->operand_count;
        if (node->arrays[t] < 0 || !may_pass(node, t, false)) continue;
        if (forward ? spmd_repeats_elements(rule->op) && work->stage < BROADCAST_STAGE : work->forward_only) {
            work->is_settled = false;
            continue;
        }
        resolve_conflicts(work, &(Contest){node, t, merged}, axes);
        for (int32_t dim = 0; dim < rule->tensors[t].shape->rank; dim++) {
            SpmdAxes wanted = spmd_rule_dim_axes(rule, work->plan->mesh, t, dim, axes);
            offer(work, node->arrays[t], dim, &wanted);
        }
    }
    hlo_arena_reset(work->scratch, mark);
}

// What the author of a custom call infers is offered to its results.
static void run_question(Work *work, const SpmdNode *node) {
    const SpmdRule *rule = node->rule;
    if (work->status) return;
    SpmdSharding **results = HLO_ARENA_NEW(work->plan->arena, SpmdSharding *, rule->result_count + 1);
    work->status = spmd_author_infer(work->plan, rule->op, results);
    for (int32_t i = 0; !work->status && i < rule->result_count; i++) {
        const int32_t array = node->arrays[rule->operand_count + i];
        for (int32_t dim = 0; results[i] && array >= 0 && dim < results[i]->rank; dim++)
            offer(work, array, dim, &results[i]->dims[dim]);
    }
    if (work->status) work->status = hlo_status_at_instruction(work->status, rule->op);
}

static void visit(Work *work, const SpmdNode *node) {
    if (node->is_asked) {
        work->is_settled = false;
        run_question(work, node);
    } else if (node->rule) {
        run_rule(work, node);
    } else if (node->boundary) {
        run_boundary(work, node);
    } else {
        run_edge(work, node);
    }
}

// Visits the nodes in the queue, and those whose arrays change.
static void run_queue(Work *work) {
    while (work->count) {
        int32_t number = work->queue[work->head];
        work->head = (work->head + 1) % work->plan->nodes.count;
        work->count--;
        work->queued[number] = false;
        if (work->settled[number]) continue;
        work->settled[number] = true;  // unless the visit makes one of its own arrays grow
        work->is_settled = true;
        visit(work, &work->plan->nodes.items[number]);
        work->settled[number] &= work->is_settled;
    }
}

// Visits every node once, then those whose arrays have changed. Settled nodes keep their turn, so that one whose array
// grows before its turn is visited when it would have been otherwise.
static void run_stage(Work *work) {
    for (int64_t n = 0; n < work->plan->nodes.count; n++) enqueue(work, (int32_t)n);
    run_queue(work);
}

// Products that sum over a dimension which both operands shard, and ops that need one whole which is sharded, in
// program order: where it costs less to shard the result along another one, that is propagated before the next one is
// looked at.
static void undo_contractions(Work *work) {
    for (int64_t n = 0; n < work->plan->nodes.count && !work->status; n++) {
        for (bool grew = true; grew && !work->status;) {
            SpmdUncontracted wanted = spmd_uncontracted_dims(&work->consequences, (int32_t)n);
            if (!wanted.count) {
                wanted.dims[0] = spmd_set_aside_dim(&work->consequences, (int32_t)n, &wanted.axes[0]);
                wanted.count = wanted.dims[0] >= 0;
            }
            const SpmdNode *node = &work->plan->nodes.items[n];
            grew = false;
            for (int32_t i = 0; i < wanted.count; i++) {
                const int32_t array = node->arrays[spmd_rule_result(node->rule, 0)];
                const SpmdAxes *now = &work->plan->arrays.items[array].sharding->dims[wanted.dims[i]];
                const int32_t before = now->count;
                offer(work, array, wanted.dims[i], &wanted.axes[i]);
                grew |= now->count > before;  // a transform of several dimensions sets the axes of each aside
            }
            run_queue(work);
        }
    }
}

// Takes the axes off a dimension of an array, which keeps away from them until it is opened again.
static void close_without_axes(Work *work, SpmdStackDim at) {
    SpmdArray *array = &work->plan->arrays.items[at.array];
    array->sharding->dims[at.dim] = (SpmdAxes){0};
    array->open[at.dim] = false;
    enqueue_users(work, at.array);
}

// Moves the axes of a stack to another dimension, and lets those that its loop builds follow. What does not follow gets
// its axes back.
static void move_stack(Work *work, const SpmdStack *stack) {
    SpmdArray *arrays = work->plan->arrays.items;
    const SpmdAtomSet atoms = spmd_axes_set(&stack->axes);
    for (int32_t i = 0; i < stack->built_count; i++) close_without_axes(work, stack->built[i]);
    arrays[stack->from.array].sharding->dims[stack->from.dim] = (SpmdAxes){0};
    SpmdAxes axes = arrays[stack->from.array].sharding->dims[stack->to];
    spmd_axes_append(&axes, &stack->axes);
    offer(work, stack->from.array, stack->to, &axes);
    run_queue(work);
    for (int32_t i = 0; i < stack->built_count; i++) {
        const SpmdStackDim built = stack->built[i];
        arrays[built.array].open[built.dim] = true;
        if (!(spmd_sharding_used(arrays[built.array].sharding) & atoms))
            offer(work, built.array, built.dim, &stack->axes);
    }
    run_queue(work);
}

// Loops that go along a sharded dimension: where it costs less to have their inputs sharded along another one.
static void move_stacks(Work *work) {
    for (int64_t n = 0; n < work->plan->nodes.count && !work->status; n++) {
        SpmdStack stack;
        if (spmd_find_stack(&work->consequences, (int32_t)n, &stack)) move_stack(work, &stack);
    }
}

// Products of batches that gather an operand: where it costs less to shard a batch dimension between them.
static void move_to_batches(Work *work) {
    for (int64_t n = 0; n < work->plan->nodes.count && !work->status; n++) {
        SpmdBatches batches;
        if (!spmd_find_batches(&work->consequences, (int32_t)n, &batches)) continue;
        for (int64_t i = 0; i < batches.moved.count; i++) {
            const SpmdMovedAxes moved = batches.moved.items[i];
            SpmdSharding *sharding = work->plan->arrays.items[moved.array].sharding;
            sharding->dims[moved.from] = (SpmdAxes){0};
            spmd_axes_append(&sharding->dims[moved.to], &batches.axes);
            enqueue_users(work, moved.array);
        }
        run_queue(work);
    }
}

// The next priority of any dimension, -1 if there is none.
static int32_t next_priority(const SpmdPlan *plan, int32_t priority_level) {
    int32_t next = -1;
    for (int64_t i = 0; i < plan->arrays.count; i++) {
        const SpmdArray *array = &plan->arrays.items[i];
        for (int32_t d = 0; array->priorities && d < array->sharding->rank; d++) {
            int32_t priority = array->priorities[d];
            if (priority > priority_level && (next < 0 || priority < next)) next = priority;
        }
    }
    return next;
}

// Runs propagation to its fixpoint, stage by stage.
// Work is bounded by the number of axes times the number of dimensions, since every visit that enqueues others has
// added an axis to one.
static HloStatus propagate_plan(SpmdPlan *plan) {
    assert(plan);
    if (!plan->nodes.count) return HLO_SUCCESS;
    Work work = {.plan = plan, .scratch = hlo_arena_scratch_new()};
    work.queue = HLO_ARENA_NEW(work.scratch, int32_t, plan->nodes.count);
    work.queued = HLO_ARENA_NEW(work.scratch, bool, plan->nodes.count);
    work.settled = HLO_ARENA_NEW(work.scratch, bool, plan->nodes.count);
    index_nodes(&work);
    work.consequences = (SpmdConsequences){.plan = plan,
                                           .arena = plan->arena,
                                           .scratch = work.scratch,
                                           .first_node = work.first_node,
                                           .touching = work.touching};
    work.consequences.iterations = HLO_ARENA_NEW(work.scratch, double, plan->module->computation_limit);
    for (work.priority_level = 0; work.priority_level >= 0;
         work.priority_level = next_priority(plan, work.priority_level)) {
        memset(work.settled, 0, (size_t)plan->nodes.count * sizeof(*work.settled));
        for (work.stage = 0; work.stage <= LAST_STAGE; work.stage++) {
            work.forward_only = work.stage == CONTEST_STAGE;
            run_stage(&work);
            if (!work.forward_only) continue;
            work.forward_only = false;
            run_stage(&work);
        }
    }
    work.stage = LAST_STAGE;
    work.priority_level = INT32_MAX;
    move_stacks(&work);
    move_to_batches(&work);
    undo_contractions(&work);
    hlo_arena_free(work.scratch);
    return work.status;
}

// How many of a dimension's first atoms make up whole axes of the mesh.
static int32_t whole_axes(const SpmdMesh *mesh, const SpmdAxes *axes) {
    int32_t whole = 0;
    while (whole < axes->count) {
        int32_t axis = mesh->atoms[axes->items[whole]].axis, next = whole;
        for (int32_t a = 0; a < mesh->atom_count; a++) {
            if (mesh->atoms[a].axis != axis) continue;
            if (next == axes->count || axes->items[next] != a) return whole;
            next++;
        }
        whole = next;
    }
    return whole;
}

// Removes the axes that do not divide a dimension, unless they were requested. Only whole axes are left, since a
// PartitionSpec cannot express parts; Shardy leaves no parts of axes at a function's boundary either.
static void keep_even(const SpmdPlan *plan, SpmdArray *array) {
    for (int32_t d = 0; hlo_shape_is_array(array->shape) && d < array->sharding->rank; d++) {
        SpmdAxes *axes = &array->sharding->dims[d];
        while (array->open[d] && axes->count &&
               (array->shape->dims[d] % spmd_axes_product(plan->mesh, axes) ||
                whole_axes(plan->mesh, axes) < axes->count)) {
            *axes = spmd_axes_head(axes, axes->count - 1);
        }
    }
}

// JAX requires its own arrays to divide evenly; inside the program uneven shards only cost padding.
static void keep_boundary_even(SpmdPlan *plan) {
    for (int64_t i = 0; i < plan->result_count; i++) keep_even(plan, &plan->arrays.items[plan->results[i]]);
    for (int64_t p = 0; p < plan->module->entry->parameters.count; p++) {
        const HloInstruction *parameter = plan->module->entry->parameters.items[p];
        int64_t leaves = hlo_shape_leaf_count(parameter->shape);
        for (int64_t i = 0; i < leaves; i++) {
            keep_even(plan, &plan->arrays.items[plan->array_of_leaf[plan->first_leaf[parameter->id] + i]]);
        }
    }
}

HloStatus spmd_plan_new(HloArena *arena, const HloModule *module, SpmdCosts *costs, const SpmdOptions *options,
                        SpmdPlan **plan) {
    HLO_TRY(spmd_plan_build(arena, module, costs->mesh, options, plan));
    (*plan)->costs = costs;
    HLO_TRY(propagate_plan(*plan));
    if (options->even_boundary) keep_boundary_even(*plan);
    return HLO_SUCCESS;
}
