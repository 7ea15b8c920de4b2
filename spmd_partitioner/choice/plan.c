// SPDX-License-Identifier: Apache-2.0
// Prepares a module for propagation: arrays, the nodes between them, and the seeds from annotations.
//
// A leaf is an array that an instruction gives (tuples give several). Leaves that are one array by construction, since
// tuples, get-tuple-elements and loops only pass it on, are united (union-find) and share an SpmdArray with its
// sharding. Arrays that should agree but need not are tied by nodes: the rule of an op, an edge between two, or the
// boundary of a manual region. Annotations seed the arrays' shardings and options override them; propagate.c propagates
// them.
//
//     %p = f32[8,16] parameter(0), sharding={...}   leaf 0, array A (seeded)
//     %t = (f32[8,16]) tuple(%p)                    leaf 1, array A
//     %g = f32[8,16] get-tuple-element(%t)          leaf 2, array A
//     %b = f32[8,16] broadcast(%c)                  leaf 3, array B, free: no sharding is sought
//     ROOT %m = f32[8,16] multiply(%g, %b)          leaf 4, array C
//     nodes: the rule of %m over [A, -1, C]; an edge from C to R, the entry's result
//
// Order of work (spmd_plan_build): number leaves, unite them, find free instructions, make arrays, seed them, then make
// nodes. All of it is linear in the program but for carry_sums() and spmd_plan_manual(), which repeat until nested
// loops agree.
//
// Invariants: a set's representative is its smallest leaf, so a leaf's array exists when it is needed; leaf numbers of
// one instruction are consecutive from first_leaf[id]; a leaf that is no array (a token) has an SpmdArray of rank 0
// that nothing ties.
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "hlo/analysis/contents.h"
#include "spmd_partitioner/custom_call.h"
#include "spmd_partitioner/propagate.h"
#include "spmd_partitioner/sdy.h"

// Longest chain of free instructions that is made on demand; beyond it a free-looking one is partitioned like others.
enum { FREE_DEPTH = 1500 };

// Exists during spmd_plan_build() only; what must outlive it is in `plan`.
typedef struct Builder {
    SpmdPlan *plan;
    HloArena *arena;
    const SpmdOptions *options;
    HLO_VECTOR(const HloShape *) leaf_shapes;  // by leaf number
    int32_t *parent;                           // union-find over leaves
    int32_t *free_depth;                       // by instruction id
    HloIntMap groups;                          // shard group id -> array
    bool *added;                               // by computation id: its nodes are in the plan
} Builder;

bool spmd_is_flow_op(HloOpcode opcode) {
    return opcode == HLO_OP_CALL || opcode == HLO_OP_WHILE || opcode == HLO_OP_CONDITIONAL || opcode == HLO_OP_FUSION;
}

bool spmd_repeats_elements(const HloInstruction *op) {
    return hlo_is(op, HLO_OP_BROADCAST) && hlo_shape_elements(op->shape) != hlo_shape_elements(op->operands[0]->shape);
}

int64_t spmd_leaf_offset(const HloShape *tuple, int64_t index) {
    return hlo_shape_first_leaf(tuple, index);
}

// Leaves are numbered through all computations, those of one instruction next to each other.
static int32_t leaf_number(const SpmdPlan *plan, const HloInstruction *instruction, int64_t leaf) {
    assert(leaf >= 0 && leaf < hlo_shape_leaf_count(instruction->shape)); /* a leaf of its value */
    return plan->first_leaf[instruction->id] + (int32_t)leaf;
}

const SpmdArray *spmd_plan_array(const SpmdPlan *plan, const HloInstruction *instruction, int64_t leaf) {
    return &plan->arrays.items[plan->array_of_leaf[leaf_number(plan, instruction, leaf)]];
}

// ---- which computations, which leaves ----

// The computations that are partitioned themselves, callees first.
static void find_computations(Builder *builder) {
    SpmdPlan *plan = builder->plan;
    int64_t count;
    HloComputation **all = hlo_module_post_order(plan->module, builder->arena, &count);
    bool *flow = HLO_ARENA_NEW(builder->arena, bool, plan->module->computation_limit);
    flow[plan->module->entry->id] = true;
    for (int64_t i = count - 1; i >= 0; i--) {
        if (!flow[all[i]->id]) continue;
        for (HloInstruction *at = all[i]->first; at; at = at->next) {
            for (int32_t k = 0; spmd_is_flow_op(at->opcode) && k < at->called_count; k++)
                flow[at->called[k]->id] = true;
        }
    }
    plan->computations = HLO_ARENA_NEW(builder->arena, HloComputation *, count);
    for (int64_t i = 0; i < count; i++) {
        if (flow[all[i]->id]) plan->computations[plan->computation_count++] = all[i];
    }
}

// And each leaf is a set of its own to begin with.
// Only those of the computations that find_computations() has found.
static void number_leaves(Builder *builder) {
    SpmdPlan *plan = builder->plan;
    for (int64_t c = 0; c < plan->computation_count; c++) {
        for (HloInstruction *at = plan->computations[c]->first; at; at = at->next) {
            plan->first_leaf[at->id] = (int32_t)builder->leaf_shapes.count;
            int64_t count = hlo_shape_leaf_count(at->shape);
            for (int64_t i = 0; i < count; i++) {
                const HloShape *leaf = hlo_shape_leaf(at->shape, i);
                hlo_vector_push(builder->arena, &builder->leaf_shapes, leaf);
            }
        }
    }
    builder->parent = HLO_ARENA_NEW(builder->arena, int32_t, builder->leaf_shapes.count);
    for (int32_t i = 0; i < (int32_t)builder->leaf_shapes.count; i++) builder->parent[i] = i;
}

// The representative of a leaf's set; paths are halved on the way.
static int32_t find(Builder *builder, int32_t leaf) {
    assert(leaf >= 0 && leaf < builder->leaf_shapes.count); /* all are numbered by now */
    while (builder->parent[leaf] != leaf) {
        builder->parent[leaf] = builder->parent[builder->parent[leaf]];
        leaf = builder->parent[leaf];
    }
    return leaf;
}

// Leaf `a_leaf` … of `a` and `b_leaf` … of `b` are the same arrays.
// The smaller number becomes the representative, which make_arrays() relies on.
static void same(Builder *builder, const HloInstruction *a, int64_t a_leaf, const HloInstruction *b, int64_t b_leaf,
                 int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        int32_t x = find(builder, leaf_number(builder->plan, a, a_leaf + i));
        int32_t y = find(builder, leaf_number(builder->plan, b, b_leaf + i));
        builder->parent[x > y ? x : y] = x > y ? y : x;
    }
}

// Ops whose result is operand 0, leaf for leaf. Copies and bitcasts of arrays are not among them: they have factors,
// and may be sharded differently from their operand.
static bool forwards_operand(const HloInstruction *op) {
    switch (op->opcode) {
        case HLO_OP_OPTIMIZATION_BARRIER:
        case HLO_OP_DOMAIN:
        case HLO_OP_ADD_DEPENDENCY: return true;
        case HLO_OP_COPY:
        case HLO_OP_BITCAST: return !hlo_shape_is_array(op->shape);
        default: return false;
    }
}

// A loop's value, and the parameters of its condition and body, are one array: the sharding of a carry cannot change
// from iteration to iteration. Its initial value and the body's result are other arrays, which are resharded if
// necessary.
static void unite(Builder *builder, const HloInstruction *op) {
    assert(op->parent);
    int64_t leaves = hlo_shape_leaf_count(op->shape);
    if (hlo_is(op, HLO_OP_WHILE)) {
        same(builder, op, 0, op->called[0]->parameters.items[0], 0, leaves);
        same(builder, op, 0, op->called[1]->parameters.items[0], 0, leaves);
        return;
    }
    if (op->sharding) return;  // annotated: arrays of its own, tied by edges
    if (hlo_is(op, HLO_OP_TUPLE)) {
        int64_t offset = 0;
        for (int32_t i = 0; i < op->operand_count; i++) {
            int64_t count = hlo_shape_leaf_count(op->operands[i]->shape);
            same(builder, op, offset, op->operands[i], 0, count);
            offset += count;
        }
    } else if (hlo_is(op, HLO_OP_GET_TUPLE_ELEMENT)) {
        int64_t offset = spmd_leaf_offset(op->operands[0]->shape, HLO_ATTRIBUTES(op, TupleIndex)->index);
        same(builder, op, 0, op->operands[0], offset, leaves);
    } else if (forwards_operand(op)) {
        same(builder, op, 0, op->operands[0], 0, leaves);
    }
}

// ---- free instructions ----

// The depth counts consecutive free instructions; a scalar that is not free ends the chain at 0. -1 if the operand is
// neither free nor a scalar.
static int32_t operand_depth(const Builder *builder, const HloInstruction *operand) {
    if (hlo_shape_is_scalar(operand->shape) && !builder->plan->free[operand->id]) return 0;
    return builder->plan->free[operand->id] ? builder->free_depth[operand->id] : -1;
}

// True if the value at an index depends on the index and on scalars only: it is cheaper to make it than to move it.
// Scalars are never free: they are whole on every device anyway.
static bool is_free(Builder *builder, const HloInstruction *op) {
    if (op->sharding || !hlo_shape_is_array(op->shape) || op->shape->rank == 0) return false;
    if (hlo_is(op, HLO_OP_CONSTANT) || hlo_is(op, HLO_OP_IOTA)) return true;
    if (!hlo_op_is(op->opcode, HLO_OP_IS_ELEMENTWISE) && !hlo_is(op, HLO_OP_BROADCAST)) return false;
    int32_t depth = 0;
    for (int32_t i = 0; i < op->operand_count; i++) {
        int32_t below = operand_depth(builder, op->operands[i]);
        if (below < 0) return false;
        if (below >= depth) depth = below + 1;
    }
    builder->free_depth[op->id] = depth;
    return depth < FREE_DEPTH && op->operand_count > 0;
}

// In the order of the program, so that operands are known before their users.
static void find_free(Builder *builder) {
    for (int64_t c = 0; c < builder->plan->computation_count; c++) {
        for (HloInstruction *at = builder->plan->computations[c]->first; at; at = at->next) {
            builder->plan->free[at->id] = is_free(builder, at);
        }
    }
}

// ---- arrays ----

// All dimensions are open and uncut to begin with.
static int32_t new_array(Builder *builder, const HloShape *shape) {
    SpmdArray array = {.shape = shape, .sharding = spmd_sharding_new(builder->arena, shape->rank, 0)};
    array.open = HLO_ARENA_NEW(builder->arena, bool, shape->rank);
    for (int32_t i = 0; i < shape->rank; i++) array.open[i] = true;
    hlo_vector_push(builder->arena, &builder->plan->arrays, array);
    return (int32_t)builder->plan->arrays.count - 1;
}

// A set has its smallest leaf as representative, so its array exists before any other leaf needs it. An array is free
// if one of its leaves is: only ops that pass arrays on are united with a free instruction.
static void make_arrays(Builder *builder) {
    SpmdPlan *plan = builder->plan;
    int64_t count = builder->leaf_shapes.count;
    plan->array_of_leaf = HLO_ARENA_NEW(builder->arena, int32_t, count);
    for (int32_t i = 0; i < (int32_t)count; i++) {
        int32_t root = find(builder, i);
        plan->array_of_leaf[i] =
            root == i ? new_array(builder, builder->leaf_shapes.items[i]) : plan->array_of_leaf[root];
    }
    for (int64_t c = 0; c < plan->computation_count; c++) {
        for (HloInstruction *at = plan->computations[c]->first; at; at = at->next) {
            if (plan->free[at->id]) plan->arrays.items[plan->array_of_leaf[leaf_number(plan, at, 0)]].free = true;
        }
    }
}

// ---- annotations ----

// Replaces the array's sharding by the annotation's, except for the manual axes of the enclosing region. Without a list
// of open dimensions all of them are closed: the annotation is complete.
static void seed(SpmdArray *array, const SpmdAnnotation *annotation) {
    assert(annotation->sharding->rank == array->shape->rank); /* the readers check it */
    SpmdAtomSet manual = array->sharding->manual;
    array->sharding = annotation->sharding;
    array->sharding->manual |= manual;
    array->replicated |= annotation->replicated;
    array->annotated = true;
    array->devices = annotation->devices;
    array->priorities = annotation->priorities;
    for (int32_t i = 0; i < array->sharding->rank; i++) array->open[i] = annotation->open && annotation->open[i];
}

// unspecified_dims=[0,1] of a Sharding custom-call opens those dimensions.
static void open_unspecified(const HloInstruction *op, SpmdArray *array) {
    const char *at = op->backend_config ? strstr(op->backend_config, "unspecified_dims=[") : NULL;
    if (!at) return;
    at += strlen("unspecified_dims=[");
    while (*at && *at != ']') {
        char *end;
        int64_t dim = strtoll(at, &end, 10);
        if (end == at) return;
        if (dim >= 0 && dim < array->sharding->rank) array->open[dim] = true;
        at = *end == ',' ? end + 1 : end;
    }
}

// Makes an annotation of a sharding in Shardy's notation.
static HloStatus annotation_from_shardy(Builder *builder, const HloSdySharding *written, int64_t rank,
                                        SpmdAnnotation *annotation) {
    HLO_TRY(spmd_annotation_from_hlo(builder->arena, builder->plan->mesh, written->sharding, rank, annotation));
    if (!written->sharding->named->mesh.is_maximal) annotation->priorities = written->priorities;
    return HLO_SUCCESS;
}

// Shardy's sharding is more expressive than the HLO sharding beside it (open dimensions, priorities, names), and
// replaces it.
static HloStatus seed_leaf(Builder *builder, const HloInstruction *op, int64_t leaf, const HloSharding *sharding) {
    assert(leaf >= 0);  // `sharding` may be NULL: it is then in Shardy's own attribute
    SpmdPlan *plan = builder->plan;
    SpmdArray *array = &plan->arrays.items[plan->array_of_leaf[leaf_number(plan, op, leaf)]];
    if (!hlo_shape_is_array(array->shape)) return HLO_SUCCESS;
    SpmdAnnotation annotation;
    const SpmdShardyText *text = spmd_shardy_text(plan->shardy, op);
    const bool shardy = text && text->leaves;
    if (!shardy && (!sharding || sharding->kind == HLO_SHARDING_UNKNOWN)) return HLO_SUCCESS;
    HloStatus status =
        shardy ? annotation_from_shardy(builder, &text->leaves[leaf], array->shape->rank, &annotation)
               : spmd_annotation_from_hlo(builder->arena, plan->mesh, sharding, array->shape->rank, &annotation);
    if (!status) status = spmd_annotation_keep_dynamic(array->shape, &annotation);
    if (status) return hlo_status_annotate(status, "instruction %%%s", op->name);
    assert(!annotation.sharding->unreduced || !annotation.devices); /* the reader refuses such device orders */
    seed(array, &annotation);
    open_unspecified(op, array);
    return HLO_SUCCESS;
}

// A tuple may have one sharding for all leaves, or one for each.
static HloStatus seed_instruction(Builder *builder, const HloInstruction *op) {
    const HloSharding *sharding = op->sharding;
    const SpmdShardyText *text = spmd_shardy_text(builder->plan->shardy, op);
    if (text && text->leaves) sharding = NULL;
    if (!sharding && !(text && text->leaves)) return HLO_SUCCESS;
    // An outfeed's is that of what it sends (rules/transfer.c), not of its token.
    if (hlo_is(op, HLO_OP_OUTFEED)) return HLO_SUCCESS;
    int64_t leaves = hlo_shape_leaf_count(op->shape);
    bool tuple = sharding && sharding->kind == HLO_SHARDING_TUPLE;
    HLO_FAIL_IF(tuple && sharding->element_count != leaves && leaves > 0, HLO_INVALID_ARGUMENT,
                "instruction %%%s: a sharding of %lld elements on a tuple of %lld arrays", op->name,
                (long long)sharding->element_count, (long long)leaves);
    for (int64_t i = 0; i < leaves; i++) {
        HLO_TRY(seed_leaf(builder, op, i, tuple ? sharding->elements[i] : sharding));
    }
    return HLO_SUCCESS;
}

// allow_spmd_sharding_propagation_to_* has one flag for all values or one for each.
static bool flag_of(HloBools flags, int64_t index, bool missing) {
    if (!flags.count) return missing;
    return flags.items[flags.count == 1 ? 0 : index < flags.count ? index : flags.count - 1];
}

static void set_open(SpmdArray *array, bool open) {
    for (int32_t i = 0; i < array->sharding->rank; i++) array->open[i] = open;
}

static bool is_annotated(const HloInstruction *instruction) {
    return instruction->sharding;
}

bool spmd_opens_boundary(const HloModule *module) {
    for (int64_t i = 0; i < module->frontend_attributes.count; i++)
        if (!strcmp(module->frontend_attributes.items[i].key, HLO_SDY_MESHES)) return true;
    return !hlo_module_find(module, is_annotated);
}

// XLA gives a parameter the sharding of a Sharding call that uses it, whatever it lets propagation do.
static bool takes_after_user(const HloInstruction *parameter) {
    for (int64_t i = 0; i < parameter->users.count; i++) {
        const HloInstruction *user = parameter->users.items[i];
        if (user->sharding && hlo_custom_call_kind(user) == HLO_CALL_SHARDING) return true;
    }
    return false;
}

// Opens and closes the arrays at the entry's boundary, as the module's header and the options say.
static void apply_boundary_flags(Builder *builder) {
    SpmdPlan *plan = builder->plan;
    HloBools parameters = plan->module->propagate_to_parameters, output = plan->module->propagate_to_output;
    const bool opens = builder->options->propagate_boundary || spmd_opens_boundary(plan->module);
    int64_t number = 0;
    for (int64_t p = 0; p < plan->module->entry->parameters.count; p++) {
        const HloInstruction *parameter = plan->module->entry->parameters.items[p];
        int64_t leaves = hlo_shape_leaf_count(parameter->shape);
        for (int64_t i = 0; i < leaves; i++, number++) {
            SpmdArray *array = &plan->arrays.items[plan->array_of_leaf[leaf_number(plan, parameter, i)]];
            if (parameters.count)
                set_open(array, flag_of(parameters, number, !array->annotated));
            else if (!opens && !array->annotated && !takes_after_user(parameter))
                set_open(array, false);
        }
    }
    for (int64_t i = 0; i < plan->result_count; i++) {
        SpmdArray *array = &plan->arrays.items[plan->results[i]];
        if (output.count)
            set_open(array, flag_of(output, i, true));
        else if (!opens && !array->annotated)
            set_open(array, false);
    }
}

// ---- nodes ----

// An edge to a free array would carry no information, and neither would one from an array to itself.
static void add_edge_between(Builder *builder, int32_t a, int32_t b) {
    const SpmdArray *arrays = builder->plan->arrays.items;
    if (a == b || arrays[a].free || arrays[b].free || !hlo_shape_is_array(arrays[a].shape)) return;
    int32_t *both = HLO_ARENA_NEW(builder->arena, int32_t, 2);
    both[0] = a;
    both[1] = b;
    SpmdNode node = {.arrays = both, .count = 2, .directions = SPMD_BOTH_WAYS};
    hlo_vector_push(builder->arena, &builder->plan->nodes, node);
}

static void add_edges(Builder *builder, const HloInstruction *a, int64_t a_leaf, const HloInstruction *b,
                      int64_t b_leaf, int64_t count) {
    const int32_t *arrays = builder->plan->array_of_leaf;
    for (int64_t i = 0; i < count; i++) {
        add_edge_between(builder, arrays[leaf_number(builder->plan, a, a_leaf + i)],
                         arrays[leaf_number(builder->plan, b, b_leaf + i)]);
    }
}

static HloStatus add_computation(Builder *builder, const HloComputation *computation);

// Values pass into and out of calls unchanged, so an edge gives both sides of the boundary the same sharding.
static HloStatus add_call(Builder *builder, const HloInstruction *op) {
    const HloComputation *body = op->called[0];
    for (int32_t i = 0; i < op->operand_count; i++) {
        add_edges(builder, op->operands[i], 0, body->parameters.items[i], 0,
                  hlo_shape_leaf_count(op->operands[i]->shape));
    }
    HLO_TRY(add_computation(builder, body));
    add_edges(builder, op, 0, body->root, 0, hlo_shape_leaf_count(op->shape));
    return HLO_SUCCESS;
}

static HloStatus add_conditional(Builder *builder, const HloInstruction *op) {
    for (int32_t i = 0; i < op->called_count; i++) {
        const HloInstruction *argument = op->operands[i + 1];
        add_edges(builder, argument, 0, op->called[i]->parameters.items[0], 0, hlo_shape_leaf_count(argument->shape));
        HLO_TRY(add_computation(builder, op->called[i]));
        add_edges(builder, op, 0, op->called[i]->root, 0, hlo_shape_leaf_count(op->shape));
    }
    return HLO_SUCCESS;
}

// A loop's carry takes after its initial value before its body claims it.
static HloStatus add_while(Builder *builder, const HloInstruction *op) {
    const int64_t leaves = hlo_shape_leaf_count(op->shape);
    add_edges(builder, op, 0, op->operands[0], 0, leaves);
    HLO_TRY(add_computation(builder, op->called[0]));
    HLO_TRY(add_computation(builder, op->called[1]));
    add_edges(builder, op, 0, op->called[1]->root, 0, leaves);
    return HLO_SUCCESS;
}

// Where an axis is manual, its devices hold arrays of their own, which an annotation cannot shard along it. Called
// after spmd_plan_manual(), which has propagated the manual axes.
static HloStatus check_manual(const SpmdPlan *plan, const HloInstruction *op) {
    const int64_t leaves = hlo_shape_leaf_count(op->shape);
    for (int64_t i = 0; i < leaves; i++) {
        const SpmdSharding *sharding = spmd_plan_array(plan, op, i)->sharding;
        const SpmdAtomSet both = sharding->manual & (spmd_sharding_used(sharding) | sharding->unreduced);
        HLO_FAIL_IF(both, HLO_INVALID_ARGUMENT,
                    "instruction %%%s: its sharding names an axis that is manual in its region", op->name);
    }
    return HLO_SUCCESS;
}

// Adds the edges of instructions that only pass arrays on, with the nodes of the computations that they call; where
// both sides are one array already there is no edge.
static HloStatus add_flow(Builder *builder, const HloInstruction *op) {
    int64_t leaves = hlo_shape_leaf_count(op->shape), offset = 0;
    switch (op->opcode) {
        case HLO_OP_CALL:
        case HLO_OP_FUSION: return add_call(builder, op);
        case HLO_OP_CONDITIONAL: return add_conditional(builder, op);
        case HLO_OP_WHILE: return add_while(builder, op);
        case HLO_OP_TUPLE:
            for (int32_t i = 0; i < op->operand_count; i++) {
                int64_t count = hlo_shape_leaf_count(op->operands[i]->shape);
                add_edges(builder, op, offset, op->operands[i], 0, count);
                offset += count;
            }
            return HLO_SUCCESS;
        case HLO_OP_GET_TUPLE_ELEMENT:
            offset = spmd_leaf_offset(op->operands[0]->shape, HLO_ATTRIBUTES(op, TupleIndex)->index);
            add_edges(builder, op, 0, op->operands[0], offset, leaves);
            return HLO_SUCCESS;
        default:
            if (forwards_operand(op)) add_edges(builder, op, 0, op->operands[0], 0, leaves);
            return HLO_SUCCESS;
    }
}

// The stage in which an op starts to take part. A broadcast that repeats elements only guesses how its operand is
// best sharded.
static int32_t first_stage(const HloInstruction *op) {
    return spmd_op(op->opcode)->is_certain && !spmd_repeats_elements(op) ? 0 : 1;
}

// A node of the graph that propagation works on: the arrays of one op's operands and results, tied together by its
// factors. Free arrays (constants and what is computed from them alone) are left out: they are made in whatever form is
// needed.
static HloStatus add_rule(Builder *builder, const HloInstruction *op) {
    assert(op->parent);
    SpmdPlan *plan = builder->plan;
    SpmdRule *rule = spmd_rule_new(builder->arena, op);
    plan->rules[op->id] = rule;
    HLO_FAIL_IF(rule && rule->unreadable, HLO_INVALID_ARGUMENT,
                "instruction %%%s: the sharding rule %s does not fit its operands and results", op->name,
                hlo_instruction_frontend_attribute(op, HLO_SDY_SHARDING_RULE));
    if (!rule || plan->free[op->id]) return HLO_SUCCESS;
    SpmdNode node = {.rule = rule,
                     .count = spmd_rule_tensors(rule),
                     .stage = first_stage(op),
                     .directions = spmd_call_directions(op)};
    node.arrays = HLO_ARENA_NEW(builder->arena, int32_t, node.count);
    for (int32_t t = 0; t < node.count; t++) {
        int32_t leaf = t < rule->operand_count ? leaf_number(plan, op->operands[t], 0)
                                               : leaf_number(plan, op, t - rule->operand_count);
        node.arrays[t] = plan->array_of_leaf[leaf];
        if (plan->arrays.items[node.arrays[t]].free) node.arrays[t] = -1;
    }
    const bool has_rule = hlo_instruction_frontend_attribute(op, HLO_SDY_SHARDING_RULE) != NULL;
    node.is_asked = !has_rule && spmd_author_of(builder->options, op) != NULL;
    hlo_vector_push(builder->arena, &plan->nodes, node);
    return HLO_SUCCESS;
}

// Ties the arrays inside and outside of a manual region's boundary.
static HloStatus add_boundary(Builder *builder, const HloInstruction *op) {
    SpmdPlan *plan = builder->plan;
    if (!hlo_custom_call_is_region_boundary(op)) return HLO_SUCCESS;
    for (int32_t i = 0; i < op->operand_count; i++) {
        SpmdManualBoundary boundary;
        HLO_TRY(spmd_manual_boundary(plan, op, i, &boundary));
        SpmdNode node = {.arrays = HLO_ARENA_NEW(builder->arena, int32_t, 2),
                         .count = 2,
                         .boundary = boundary.prefix,
                         .directions = SPMD_BOTH_WAYS};
        node.arrays[boundary.entering ? 0 : 1] = plan->array_of_leaf[leaf_number(plan, op, i)];
        node.arrays[boundary.entering ? 1 : 0] = plan->array_of_leaf[leaf_number(plan, op->operands[i], 0)];
        bool skip = plan->arrays.items[node.arrays[0]].free || plan->arrays.items[node.arrays[1]].free;
        if (!skip) hlo_vector_push(builder->arena, &plan->nodes, node);
    }
    return HLO_SUCCESS;
}

// shard_as N and shard_like N: everything of a group is sharded alike.
static void join_group(Builder *builder, const HloInstruction *op) {
    if (!op->sharding || op->sharding->group == HLO_SHARD_GROUP_NONE) return;
    int32_t array = builder->plan->array_of_leaf[leaf_number(builder->plan, op, 0)];
    uint64_t key = (uint64_t)op->sharding->group_id;
    int64_t *first = hlo_int_map_find(&builder->groups, key);
    if (!first) {
        hlo_int_map_set(builder->arena, &builder->groups, key, array);
    } else if (hlo_shape_equal(builder->plan->arrays.items[*first].shape, builder->plan->arrays.items[array].shape,
                               HLO_COMPARE_DIMS_ONLY)) {
        add_edge_between(builder, (int32_t)*first, array);
    }
}

// The entry's results are arrays of their own, so that the sharding that the caller requests may differ from the one
// that the program produces. The sharding of an annotated root is copied, since propagation may change one of the two
// later.
static void make_results(Builder *builder) {
    SpmdPlan *plan = builder->plan;
    const HloInstruction *root = plan->module->entry->root;
    plan->result_count = hlo_shape_leaf_count(root->shape);
    plan->results = HLO_ARENA_NEW(builder->arena, int32_t, plan->result_count);
    for (int64_t i = 0; i < plan->result_count; i++) {
        const SpmdArray *made = spmd_plan_array(plan, root, i);
        bool annotated = made->annotated && spmd_shardy_sharding(plan->shardy, root);
        SpmdSharding *sharding = annotated ? spmd_sharding_copy(builder->arena, made->sharding) : NULL;
        bool *open = made->open;
        const int64_t *devices = made->devices;
        const int32_t *priorities = made->priorities;
        plan->results[i] = new_array(builder, hlo_shape_leaf(root->shape, i));
        SpmdArray *result = &plan->arrays.items[plan->results[i]];
        if (!annotated) continue;
        result->sharding = sharding;
        result->annotated = true;
        result->devices = devices;
        result->priorities = priorities;
        for (int32_t d = 0; d < sharding->rank; d++) result->open[d] = open[d];
    }
}

// Applies the module's annotations of the results of a program with one tuple as its result.
static HloStatus seed_results(Builder *builder) {
    SpmdPlan *plan = builder->plan;
    const HloSdyShardings *written = &plan->shardy->results;
    for (int64_t i = 0; i < written->count; i++) {
        SpmdArray *array = &plan->arrays.items[plan->results[i]];
        SpmdAnnotation annotation;
        if (!hlo_shape_is_array(array->shape)) continue;
        HloStatus status = annotation_from_shardy(builder, &written->items[i], array->shape->rank, &annotation);
        if (!status) status = spmd_annotation_keep_dynamic(array->shape, &annotation);
        if (status) return hlo_status_annotate(status, HLO_SDY_RESULT_SHARDINGS);
        seed(array, &annotation);
    }
    return HLO_SUCCESS;
}

// A loop carries a sum if its input is one and its body produces one again. Nested loops depend on each other: all are
// assumed to carry sums first, until something rules it out. This is the greatest fixpoint: sums only lose atoms after
// the first pass, so it ends after at most as many passes as there are atoms times carried arrays.
static void carry_sums(SpmdPlan *plan) {
    SpmdAtomSet *sums = HLO_ARENA_NEW(plan->arena, SpmdAtomSet, plan->arrays.count);
    for (int64_t i = 0; i < plan->arrays.count; i++) sums[i] = plan->arrays.items[i].sharding->unreduced;
    for (bool first = true, news = true; first || news; first = false) {
        news = false;
        for (int64_t c = 0; c < plan->computation_count; c++) {
            for (const HloInstruction *at = plan->computations[c]->first; at; at = at->next) {
                int64_t leaves = hlo_is(at, HLO_OP_WHILE) ? hlo_shape_leaf_count(at->shape) : 0;
                for (int64_t i = 0; i < leaves; i++) {
                    int32_t carry = plan->array_of_leaf[leaf_number(plan, at, i)];
                    int32_t in = plan->array_of_leaf[leaf_number(plan, at->operands[0], i)];
                    int32_t out = plan->array_of_leaf[leaf_number(plan, at->called[1]->root, i)];
                    if (plan->arrays.items[carry].annotated) continue;
                    SpmdAtomSet sum = first ? spmd_mesh_all(plan->mesh) : sums[in] & sums[out];
                    news |= !first && sum != sums[carry];
                    sums[carry] = sum;
                }
            }
        }
        if (first) news = true;
    }
    for (int64_t i = 0; i < plan->arrays.count; i++) {
        if (!plan->arrays.items[i].annotated) plan->arrays.items[i].sharding->unreduced = sums[i];
    }
}

// Adds the nodes of a computation, once. Nodes come in the order in which the program runs, with those of a called
// computation at its first call: propagation visits them in this order, so that what the program does with its inputs
// is known before what weights would have of later arrays.
static HloStatus add_computation(Builder *builder, const HloComputation *computation) {
    SpmdPlan *plan = builder->plan;
    if (builder->added[computation->id]) return HLO_SUCCESS;
    builder->added[computation->id] = true;
    for (HloInstruction *at = computation->first; at; at = at->next) {
        HLO_TRY(hlo_status_at_instruction(check_manual(plan, at), at));
        HLO_TRY(hlo_status_at_instruction(add_rule(builder, at), at));
        HLO_TRY(add_flow(builder, at));
        HLO_TRY(hlo_status_at_instruction(add_boundary(builder, at), at));
        join_group(builder, at);
    }
    return HLO_SUCCESS;
}

// The order matters: annotations, then options, which override them, then what the module's header allows, then sums
// and manual axes, which both propagate along data; nodes last, since boundaries read all of that.
static HloStatus add_nodes(Builder *builder) {
    SpmdPlan *plan = builder->plan;
    for (int64_t c = 0; c < plan->computation_count; c++) {
        for (HloInstruction *at = plan->computations[c]->first; at; at = at->next) {
            assert(spmd_op(at->opcode)->rule || spmd_op(at->opcode)->partition); /* each row of ops.def has one */
            HLO_TRY(hlo_status_at_instruction(seed_instruction(builder, at), at));
        }
    }
    make_results(builder);
    HLO_TRY(seed_results(builder));
    HLO_TRY(spmd_apply_shard_options(plan, builder->options));
    apply_boundary_flags(builder);
    carry_sums(plan);
    spmd_plan_manual(plan);
    HLO_TRY(add_computation(builder, plan->module->entry));
    for (int64_t i = 0; i < plan->result_count; i++) {
        int32_t made = plan->array_of_leaf[leaf_number(plan, plan->module->entry->root, i)];
        add_edge_between(builder, made, plan->results[i]);
    }
    return HLO_SUCCESS;
}

// Nothing is propagated yet.
HloStatus spmd_plan_build(HloArena *arena, const HloModule *module, const SpmdMesh *mesh, const SpmdOptions *options,
                          SpmdPlan **result) {
    assert(arena && module->entry && mesh && result);
    SpmdPlan *plan = HLO_ARENA_NEW(arena, SpmdPlan, 1);
    *plan = (SpmdPlan){.arena = arena, .module = module, .mesh = mesh, .options = options};
    HLO_TRY(spmd_shardy_read(arena, module, &plan->shardy));
    plan->first_leaf = HLO_ARENA_NEW(arena, int32_t, module->instruction_limit);
    plan->rules = HLO_ARENA_NEW(arena, SpmdRule *, module->instruction_limit);
    plan->free = HLO_ARENA_NEW(arena, bool, module->instruction_limit);
    Builder builder = {.plan = plan, .arena = arena, .options = options};
    builder.free_depth = HLO_ARENA_NEW(arena, int32_t, module->instruction_limit);
    builder.added = HLO_ARENA_NEW(arena, bool, module->computation_limit);
    find_computations(&builder);
    number_leaves(&builder);
    for (int64_t c = 0; c < plan->computation_count; c++) {
        for (HloInstruction *at = plan->computations[c]->first; at; at = at->next) unite(&builder, at);
    }
    find_free(&builder);
    make_arrays(&builder);
    HLO_TRY(add_nodes(&builder));
    *result = plan;
    return HLO_SUCCESS;
}
