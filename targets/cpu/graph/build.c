// SPDX-License-Identifier: Apache-2.0
// Builds the program graph from HLO.
//
// The graph has arrays instead of values. Tuples are gone: an instruction's value is the list of its leaves. Calls and
// fusions are inlined, and an op that only renames bytes is a view. Loops and branches keep regions of their own,
// unless a loop is short enough to be unrolled completely. Constants are folded only as far as the counters of these
// loops need it; the rest is left to the passes.
//
//     %t = (f32[8], f32[8]) fusion(%p)        the fusion's nodes are inlined, %t is the leaves (a, b)
//     %x = f32[8] get-tuple-element(%t)       no node: leaf a
//     %y = f32[2,4] reshape(%x)               a node whose result is a view of a
//     %w = (s32[], f32[8]) while(%init)       a node with two regions; their parameters are views of its results
//
// Order: instructions are visited in post-order, so that nodes come after their operands. Then unused nodes are dropped
// (mark_region, from the results backwards) and the rest is numbered. A row of kBuildRows tells how an opcode is built;
// opcodes without a row become one node.
//
// Invariants: `id` of an array is its index in program->arrays; consecutive reshapes are views of one array
// (make_view), so that the chain to memory stays short; a node's `parent` is the region whose list contains it.
#include "targets/cpu/graph/graph.h"

#include <assert.h>
#include <string.h>

#include "hlo/eval/eval.h"
#include "hlo/eval/layout.h"
#include "hlo/ir/custom_call.h"
#include "hlo/ir/transfer.h"
#include "targets/cpu/graph/bounded.h"

// The leaves of an instruction's value.
typedef struct Leaves {
    CpuArray **items;
    int64_t count;
} Leaves;

// One instantiation of a computation: the values of its instructions. A computation that is called twice has two, and
// its nodes are built twice.
typedef struct Frame {
    CpuProgram *program;
    CpuRegion *region;  // where new nodes are added
    const HloComputation *computation;
    const Leaves *arguments;  // by parameter number
    int32_t first_id;         // values[id - first_id]
    Leaves *values;
    const HloShape *map_shape;  // the result shape while the computation of a map is inlined, else NULL
} Frame;

// Checks that only the matching done uses an async start, in the same computation. The start is represented by the
// value of its done; the operands in its shape are dropped.
static HloStatus check_end_is_here(const HloInstruction *start) {
    bool here = !hlo_instruction_is_root(start);
    for (int64_t i = 0; i < start->users.count; i++) {
        const HloOpcode user = start->users.items[i]->opcode;
        here = here && (hlo_op_is(user, HLO_OP_IS_ASYNC_DONE) || user == HLO_OP_ASYNC_UPDATE);
    }
    HLO_FAIL_IF(!here, HLO_UNIMPLEMENTED, "%%%s: only the matching done may use %s", start->name,
                hlo_op_text(start->opcode));
    return HLO_SUCCESS;
}

static HloStatus build_computation(Frame *frame, Leaves *result);

CpuArray *cpu_program_new_array(CpuProgram *program, const HloShape *shape) {
    assert(shape);
    CpuArray *array = HLO_ARENA_NEW(program->arena, CpuArray, 1);
    array->id = (int32_t)program->arrays.count;
    array->shape = shape;
    array->elements = hlo_shape_elements(shape);
    array->bytes = cpu_buffer_bytes(shape);
    array->parameter = -1;
    hlo_vector_push(program->arena, &program->arrays, array);
    return array;
}

// Returns uninitialised leaves, which the caller fills. They live as long as the program.
static Leaves new_leaves(CpuProgram *program, int64_t count) {
    return (Leaves){HLO_ARENA_NEW(program->arena, CpuArray *, count), count};
}

// Returns the leaves of an operand. It belongs to the same computation, so its value is already known.
static Leaves operand_leaves(const Frame *frame, const HloInstruction *instruction, int64_t index) {
    return frame->values[instruction->operands[index]->id - frame->first_id];
}

// Concatenates the leaves of all operands from `begin` on.
static Leaves all_operand_leaves(const Frame *frame, const HloInstruction *instruction, int64_t begin) {
    int64_t count = 0;
    for (int64_t i = begin; i < instruction->operand_count; i++) count += operand_leaves(frame, instruction, i).count;
    Leaves all = new_leaves(frame->program, count);
    for (int64_t i = begin, to = 0; i < instruction->operand_count; i++) {
        const Leaves leaves = operand_leaves(frame, instruction, i);
        for (int64_t k = 0; k < leaves.count; k++) all.items[to++] = leaves.items[k];
    }
    return all;
}

// Creates a node whose results have the leaf shapes of `shape`.
static CpuNode *new_node(const Frame *frame, const HloInstruction *instruction, Leaves operands,
                         const HloShape *shape) {
    assert(instruction->shape);
    CpuProgram *program = frame->program;
    CpuNode *node = HLO_ARENA_NEW(program->arena, CpuNode, 1);
    node->opcode = instruction->opcode;
    node->instruction = instruction;
    node->operands = operands.items;
    node->operand_count = (int32_t)operands.count;
    node->result_count = (int32_t)hlo_shape_leaf_count(shape);
    node->results = HLO_ARENA_NEW(program->arena, CpuArray *, node->result_count);
    for (int32_t i = 0; i < node->result_count; i++) {
        node->results[i] = cpu_program_new_array(program, hlo_shape_leaf(shape, i));
        node->results[i]->producer = node;
    }
    node->parent = frame->region;
    hlo_vector_push(program->arena, &frame->region->nodes, node);
    return node;
}

// Returns a node's results as the value of its instruction.
static Leaves node_leaves(const CpuNode *node) {
    return (Leaves){node->results, node->result_count};
}

// ---- how an opcode is built

typedef HloStatus BuildFunction(Frame *frame, const HloInstruction *instruction, Leaves *result);

// Sets a literal, which must live as long as the program.
static void set_literal(CpuArray *array, const HloLiteral *literal) {
    array->literal = literal;
    array->splat = hlo_shape_is_array(literal->shape) && hlo_literal_is_splat(literal);
}

// Whether this is small arithmetic on constants, such as the counters of unrolled loops.
static bool may_fold(const HloInstruction *instruction, const Leaves *operands) {
    enum { kElements = 16 };
    const bool moves = instruction->opcode == HLO_OP_SLICE || instruction->opcode == HLO_OP_RESHAPE ||
                       instruction->opcode == HLO_OP_BROADCAST;
    if ((!moves && !hlo_op_is(instruction->opcode, HLO_OP_IS_ELEMENTWISE)) || operands->count == 0 ||
        operands->count != instruction->operand_count || !hlo_shape_is_array(instruction->shape) ||
        hlo_shape_elements(instruction->shape) > kElements || instruction->called_count)
        return false;
    for (int64_t i = 0; i < operands->count; i++)
        if (!operands->items[i]->literal || operands->items[i]->elements > kElements ||
            !hlo_shape_equal(operands->items[i]->literal->shape, instruction->operands[i]->shape,
                             HLO_COMPARE_IGNORE_LAYOUT))
            return false;
    return true;
}

// Leaves *result NULL where there is nothing to fold. The evaluator does the arithmetic, so folded and computed values
// have the same bits.
static HloStatus fold(const Frame *frame, const HloInstruction *instruction, const Leaves *operands,
                      const HloLiteral **result) {
    assert(operands && result);
    const HloLiteral *literals[3] = {0};
    HloLiteral *value;
    *result = NULL;
    if (frame->map_shape || operands->count > 3 || !may_fold(instruction, operands)) return HLO_SUCCESS;
    for (int64_t i = 0; i < operands->count; i++) literals[i] = operands->items[i]->literal;
    // Allocated first: an arena out of memory jumps, and the value would leak.
    HloLiteral *copy = hlo_literal_in_arena(frame->program->arena, instruction->shape);
    const HloStatus status = hlo_evaluate_instruction(instruction, literals, NULL, &value);
    if (status && hlo_status_code(status) == HLO_RESOURCE_EXHAUSTED) return status;
    hlo_status_free(status);
    if (status) return HLO_SUCCESS;
    memcpy(copy->data, value->data, (size_t)hlo_shape_bytes(instruction->shape));
    hlo_literal_free(value);
    *result = copy;
    return HLO_SUCCESS;
}

// Rewrites x + a, where x is y + b, as y + (a + b), for the counters of loops whose body is repeated. Otherwise a body
// that is built eight times would form a chain of eight additions of 1. The evaluator adds the constants, so that they
// wrap as the type does.
static HloStatus join_sums(const Frame *frame, const HloInstruction *instruction, Leaves *operands) {
    if (instruction->opcode != HLO_OP_ADD || frame->map_shape || instruction->shape->rank != 0 ||
        !hlo_type_is_integer(instruction->shape->type) || !operands->items[1]->literal)
        return HLO_SUCCESS;
    const CpuNode *inner = operands->items[0]->producer;
    if (!inner || inner->opcode != HLO_OP_ADD || inner->elementwise_map || !inner->operands[1]->literal)
        return HLO_SUCCESS;
    const HloLiteral *literals[] = {operands->items[1]->literal, inner->operands[1]->literal};
    HloLiteral *sum;
    HLO_TRY(hlo_evaluate_instruction(instruction, literals, NULL, &sum));
    HloLiteral *copy = hlo_literal_in_arena(frame->program->arena, instruction->shape);
    memcpy(copy->data, sum->data, (size_t)hlo_shape_bytes(instruction->shape));
    hlo_literal_free(sum);
    CpuNode *node = new_node(frame, instruction, new_leaves(frame->program, 0), instruction->shape);
    node->opcode = HLO_OP_CONSTANT;
    set_literal(node->results[0], copy);
    operands->items[0] = inner->operands[0];
    operands->items[1] = node->results[0];
    return HLO_SUCCESS;
}

// Whether two operands are one value: compares constants by their elements, others by the arrays that they are views
// of.
static bool same_operand(CpuArray *a, CpuArray *b) {
    if (a->literal && b->literal) return hlo_literal_equal(a->literal, b->literal);
    return cpu_array_root(a) == cpu_array_root(b) && a->shape->type == b->shape->type;
}

// Hashes what same_operand() compares, so that equal operations have equal hashes.
static uint64_t hash_scalar(const HloInstruction *instruction, const Leaves *operands) {
    uint64_t hash = hlo_attributes_hash(hlo_op_info(instruction->opcode)->family, instruction->attributes);
    hash = hlo_hash_mix(hash, (uint64_t)instruction->opcode * HLO_TYPE_COUNT + (uint64_t)instruction->shape->type);
    for (int64_t i = 0; i < operands->count; i++) {
        CpuArray *array = operands->items[i];
        const HloLiteral *literal = array->literal;
        hash = hlo_hash_mix(hash, literal ? hlo_hash_bytes(literal->data, (size_t)hlo_shape_bytes(literal->shape))
                                          : (uint64_t)cpu_array_root(array)->id);
    }
    return hash;
}

// Finds a node of the region that already computes this scalar arithmetic. Returns NULL if there is none, and then
// records the next node under this hash. JAX clamps an index again for every array that it indexes. If a slice and the
// update of the same position share one index, the update works in place; with two indices, though always equal, it
// would copy the whole array.
static const CpuNode *find_scalar(const Frame *frame, const HloInstruction *instruction, const Leaves *operands) {
    CpuRegion *region = frame->region;
    const bool scalar = hlo_op_is(instruction->opcode, HLO_OP_IS_ELEMENTWISE) && !instruction->called_count &&
                        hlo_shape_is_array(instruction->shape) && instruction->shape->rank == 0;
    if (!scalar || operands->count != instruction->operand_count || frame->map_shape) return NULL;
    const uint64_t hash = hash_scalar(instruction, operands);
    const int64_t *found = hlo_int_map_find(&region->scalars, hash);
    const CpuNode *node = found ? region->nodes.items[*found] : NULL;
    const HloFamily family = hlo_op_info(instruction->opcode)->family;
    bool same = node && node->opcode == instruction->opcode && node->operand_count == operands->count &&
                node->results[0]->shape->type == instruction->shape->type &&
                hlo_attributes_equal(family, node->instruction->attributes, instruction->attributes);
    for (int64_t i = 0; same && i < operands->count; i++) same = same_operand(node->operands[i], operands->items[i]);
    if (same) return node;
    hlo_int_map_set(frame->program->arena, &region->scalars, hash, region->nodes.count);
    return NULL;
}

// Builds one node for one instruction, as for most opcodes.
static HloStatus build_plain(Frame *frame, const HloInstruction *instruction, Leaves *result) {
    const HloShape *shape = instruction->shape;
    const HloLiteral *folded;
    Leaves operands = all_operand_leaves(frame, instruction, 0);
    HLO_TRY(fold(frame, instruction, &operands, &folded));
    if (folded)
        operands.count = 0;
    else
        HLO_TRY(join_sums(frame, instruction, &operands));
    const CpuNode *done = folded ? NULL : find_scalar(frame, instruction, &operands);
    if (done) {
        *result = node_leaves(done);
        return HLO_SUCCESS;
    }
    if (frame->map_shape) shape = hlo_shape_with_type(frame->program->arena, frame->map_shape, shape->type);
    CpuNode *node = new_node(frame, instruction, operands, shape);
    node->elementwise_map = frame->map_shape != NULL;
    *result = node_leaves(node);
    if (!folded) return HLO_SUCCESS;
    node->opcode = HLO_OP_CONSTANT;
    set_literal(node->results[0], folded);
    return HLO_SUCCESS;
}

// Passes the operands through: these ops mean nothing once the program is compiled.
static HloStatus build_identity(Frame *frame, const HloInstruction *instruction, Leaves *result) {
    *result = operand_leaves(frame, instruction, 0);
    return HLO_SUCCESS;
}

// Makes the result a view: the same bytes under another shape. A view of a view refers to the viewed array directly;
// otherwise every lookup of the array in memory would walk a whole chain of reshapes. The operand may be a parameter of
// a region, which is a view itself.
static void make_view(const CpuNode *node) {
    CpuArray *operand = node->operands[0];
    node->results[0]->view = operand->view ? operand->view : operand;
}

// Builds a view, unless the reshape folds to a constant.
static HloStatus build_reshape(Frame *frame, const HloInstruction *instruction, Leaves *result) {
    HLO_TRY(build_plain(frame, instruction, result));
    const CpuNode *node = result->items[0]->producer;
    if (node->opcode != HLO_OP_CONSTANT) make_view(node);
    return HLO_SUCCESS;
}

// Builds a constant: after expansion, only arguments and results have a dynamic size, so all sizes are known.
static HloStatus build_dimension_size(Frame *frame, const HloInstruction *instruction, Leaves *result) {
    const int64_t dimension = HLO_ATTRIBUTES(instruction, Dimensions)->dimensions.items[0];
    const HloShape *operand = instruction->operands[0]->shape;
    assert(dimension >= 0 && dimension < operand->rank); /* the verifier checks it */
    HloLiteral *size = hlo_literal_in_arena(frame->program->arena, instruction->shape);
    hlo_literal_set_int64(size, 0, operand->dims[dimension]);
    CpuNode *node = new_node(frame, instruction, new_leaves(frame->program, 0), instruction->shape);
    node->opcode = HLO_OP_CONSTANT;
    set_literal(node->results[0], size);
    *result = node_leaves(node);
    return HLO_SUCCESS;
}

// Builds a reshape. The operands that give sizes are those of the result, whose shape is static.
static HloStatus build_dynamic_reshape(Frame *frame, const HloInstruction *instruction, Leaves *result) {
    CpuNode *node = new_node(frame, instruction, operand_leaves(frame, instruction, 0), instruction->shape);
    node->opcode = HLO_OP_RESHAPE;
    make_view(node);
    *result = node_leaves(node);
    return HLO_SUCCESS;
}

// Builds a view. A bitcast of row-major arrays keeps the bytes. With equal element sizes it is a reshape that may also
// rename the type.
static HloStatus build_bitcast(Frame *frame, const HloInstruction *instruction, Leaves *result) {
    const HloShape *from = instruction->operands[0]->shape, *to = instruction->shape;
    if (hlo_shape_is_array(to) && hlo_shape_is_array(from) && from->type == to->type &&
        hlo_shape_elements(from) == hlo_shape_elements(to) && hlo_bitcast_is_reshape(from, to))
        return build_reshape(frame, instruction, result);
    return build_plain(frame, instruction, result);
}

// Builds a view if both types have whole bytes: elements of another width are then the same bytes. (Not for preds,
// which are 0 or 1.)
static HloStatus build_bitcast_convert(Frame *frame, const HloInstruction *instruction, Leaves *result) {
    const HloTypeInfo *from = hlo_type_info(instruction->operands[0]->shape->type);
    const HloTypeInfo *to = hlo_type_info(instruction->shape->type);
    const bool whole = from->bits == 8 * from->storage_bytes && to->bits == 8 * to->storage_bytes;
    if (whole && from->bits != to->bits && instruction->shape->type != HLO_PRED)
        return build_reshape(frame, instruction, result);
    return build_plain(frame, instruction, result);
}

// Returns the caller's arrays themselves.
static HloStatus build_parameter(Frame *frame, const HloInstruction *instruction, Leaves *result) {
    *result = frame->arguments[hlo_parameter_number(instruction)];
    return HLO_SUCCESS;
}

// Builds a constant. If a dump elided its numbers, they are made up as in the evaluator. Tuples are taken apart without
// recursion, since text may nest them to any depth.
static HloStatus build_constant(Frame *frame, const HloInstruction *instruction, Leaves *result) {
    assert(hlo_is(instruction, HLO_OP_CONSTANT));
    const HloLiteral *literal = hlo_constant_literal(instruction);
    if (literal->elided && hlo_shape_is_array(literal->shape)) {
        HloLiteral *filled = hlo_literal_in_arena(frame->program->arena, literal->shape);
        hlo_eval_fill_elided(literal->shape, filled->data);
        literal = filled;
    }
    if (frame->map_shape || !hlo_shape_is_tuple(literal->shape)) {
        HLO_TRY(build_plain(frame, instruction, result));
        set_literal(result->items[0], literal);
        return HLO_SUCCESS;
    }
    CpuNode *node = new_node(frame, instruction, new_leaves(frame->program, 0), instruction->shape);
    int64_t next = 0;
    HLO_VECTOR(const HloLiteral *) stack = {0};
    hlo_vector_push(frame->program->arena, &stack, literal);
    while (stack.count) {
        const HloLiteral *top = stack.items[--stack.count];
        if (!hlo_shape_is_tuple(top->shape)) {
            set_literal(node->results[next++], top);
            continue;
        }
        for (int32_t i = top->shape->element_count; i-- > 0;)
            hlo_vector_push(frame->program->arena, &stack, top->elements[i]);
    }
    *result = node_leaves(node);
    return HLO_SUCCESS;
}

// Creates no node: the leaves are the value.
static HloStatus build_tuple(Frame *frame, const HloInstruction *instruction, Leaves *result) {
    *result = all_operand_leaves(frame, instruction, 0);
    return HLO_SUCCESS;
}

// Selects the leaves of one element, which are consecutive among those of the tuple.
static HloStatus build_get_tuple_element(Frame *frame, const HloInstruction *instruction, Leaves *result) {
    assert(hlo_is(instruction, HLO_OP_GET_TUPLE_ELEMENT));
    const HloShape *shape = instruction->operands[0]->shape;
    const Leaves leaves = operand_leaves(frame, instruction, 0);
    const int64_t index = HLO_ATTRIBUTES(instruction, TupleIndex)->index;
    const int64_t first = hlo_shape_first_leaf(shape, index);
    const int64_t count = hlo_shape_leaf_count(shape->elements[index]);
    assert(first + count <= leaves.count); /* the verifier: only its done may use a start, which has fewer */
    *result = (Leaves){leaves.items + first, count};
    return HLO_SUCCESS;
}

// Builds the callee's nodes among the caller's; they read the operands directly. `map_shape` is as in Frame.
static HloStatus build_callee(Frame *frame, const HloInstruction *instruction, const HloShape *map_shape,
                              Leaves *result) {
    assert(instruction->called_count > 0);
    Leaves *arguments = HLO_ARENA_NEW(frame->program->arena, Leaves, instruction->operand_count);
    for (int32_t i = 0; i < instruction->operand_count; i++) arguments[i] = operand_leaves(frame, instruction, i);
    Frame inner = {.program = frame->program,
                   .region = frame->region,
                   .computation = instruction->called[0],
                   .arguments = arguments,
                   .map_shape = map_shape};
    return build_computation(&inner, result);
}

// Inlines the callee's nodes into the caller, for call, fusion and async-start.
static HloStatus build_inline(Frame *frame, const HloInstruction *instruction, Leaves *result) {
    return build_callee(frame, instruction, frame->map_shape, result);
}

// Turns a map whose computation consists of elementwise operations on scalars into those operations on whole arrays.
static HloStatus build_map(Frame *frame, const HloInstruction *instruction, Leaves *result) {
    assert(hlo_is(instruction, HLO_OP_MAP));
    const HloComputation *callee = instruction->called[0];
    bool simple = !hlo_shape_is_tuple(instruction->shape);
    for (const HloInstruction *i = callee->first; i && simple; i = i->next)
        simple = hlo_shape_is_array(i->shape) && i->shape->rank == 0 &&
                 (hlo_op_is(i->opcode, HLO_OP_IS_ELEMENTWISE) || i->opcode == HLO_OP_PARAMETER ||
                  i->opcode == HLO_OP_CONSTANT || i->opcode == HLO_OP_BITCAST_CONVERT);
    if (!simple) return build_plain(frame, instruction, result);
    return build_callee(frame, instruction, instruction->shape, result);
}

// Returns an empty region; the caller adds nodes, parameters and results.
static CpuRegion *new_region(CpuProgram *program) {
    return HLO_ARENA_NEW(program->arena, CpuRegion, 1);
}

// Builds a called computation as a region of its own; `parameters` are the arrays it reads.
static HloStatus build_region(Frame *frame, const HloComputation *computation, Leaves parameters, CpuRegion **region) {
    assert(computation->root && region);
    CpuProgram *program = frame->program;
    *region = new_region(program);
    for (int64_t i = 0; i < parameters.count; i++)
        hlo_vector_push(program->arena, &(*region)->parameters, parameters.items[i]);
    Frame inner = {.program = program, .region = *region, .computation = computation, .arguments = &parameters};
    Leaves results;
    HLO_TRY(build_computation(&inner, &results));
    for (int64_t i = 0; i < results.count; i++) hlo_vector_push(program->arena, &(*region)->results, results.items[i]);
    return HLO_SUCCESS;
}

// Creates the parameters of a region as views of the arrays outside.
static Leaves view_leaves(CpuProgram *program, Leaves of) {
    Leaves views = new_leaves(program, of.count);
    for (int64_t i = 0; i < of.count; i++) {
        views.items[i] = cpu_program_new_array(program, of.items[i]->shape);
        views.items[i]->view = of.items[i];
    }
    return views;
}

// ---- loops that are unrolled completely

// Counts the instructions of a computation and its callees, up to `limit`. Returns `limit` for a computation that
// cannot be unrolled.
static int64_t count_instructions(const HloComputation *computation, int64_t limit) {
    assert(limit >= 0);
    int64_t count = 0;
    for (const HloInstruction *i = computation->first; i && count < limit; i = i->next) {
        if (i->opcode == HLO_OP_WHILE || i->opcode == HLO_OP_CONDITIONAL ||
            hlo_op_is(i->opcode, HLO_OP_IS_COLLECTIVE) || hlo_instruction_has_side_effect(i))
            return limit;
        const bool inlined = i->opcode == HLO_OP_CALL || i->opcode == HLO_OP_FUSION;
        count += 1 + (inlined ? count_instructions(i->called[0], limit - count) : 0);
    }
    return count;
}

// Inlines a computation of one parameter, the state.
static HloStatus inline_state(Frame *frame, const HloComputation *computation, Leaves state, Leaves *result) {
    Frame inner = {.program = frame->program, .region = frame->region, .computation = computation, .arguments = &state};
    return build_computation(&inner, result);
}

// Unrolls a loop completely while its condition folds to a constant; a loop of a few short iterations then takes part
// in fusion. *done is false, and nothing has changed, if the condition does not fold or the loop exceeds the limits. In
// that case the nodes built so far are removed; their arrays stay in the program, unused.
static HloStatus write_out(Frame *frame, const HloInstruction *instruction, Leaves *result, bool *done) {
    enum { kIterations = 8, kInstructions = 640 };
    const int64_t begin = frame->region->nodes.count;
    const int64_t size = count_instructions(instruction->called[0], kInstructions) +
                         count_instructions(instruction->called[1], kInstructions);
    Leaves state = operand_leaves(frame, instruction, 0);
    *done = false;
    for (int64_t round = 0; round <= kIterations && (round + 1) * size <= kInstructions; round++) {
        Leaves condition;
        HLO_TRY(inline_state(frame, instruction->called[0], state, &condition));
        const HloLiteral *goes_on = condition.items[0]->literal;
        if (!goes_on) break;
        *done = !*(const bool *)goes_on->data;
        *result = state;
        if (*done) return HLO_SUCCESS;
        HLO_TRY(inline_state(frame, instruction->called[1], state, &state));
    }
    frame->region->nodes.count = begin;
    frame->region->scalars = (HloIntMap){0};  // it refers to nodes that are gone
    return HLO_SUCCESS;
}

// ---- loops whose body is repeated, so that one iteration does the work of several

// Reads an integer scalar constant.
static bool read_integer(const CpuArray *array, int64_t *value) {
    if (!array->literal || array->shape->rank != 0 || !hlo_type_is_integer(array->shape->type)) return false;
    *value = hlo_literal_get_int64(array->literal, 0);
    return true;
}

// Returns the number of iterations of a loop whose condition is "state j < constant", where j starts at a constant and
// the body adds 1; else 0. Only counters of this form are recognised; jax.lax.scan and fori_loop write them this way.
static int64_t count_iterations(const CpuRegion *condition, const CpuRegion *body, Leaves initial) {
    const CpuNode *compare = condition->results.items[0]->producer;
    int64_t first, last, step;
    if (!compare || compare->opcode != HLO_OP_COMPARE ||
        HLO_ATTRIBUTES(compare->instruction, Compare)->direction != HLO_ComparisonDirection_LT ||
        !read_integer(compare->operands[1], &last))
        return 0;
    for (int64_t j = 0; j < initial.count; j++) {
        if (compare->operands[0] != condition->parameters.items[j]) continue;
        const CpuNode *add = body->results.items[j]->producer;
        if (!read_integer(initial.items[j], &first) || !add || add->opcode != HLO_OP_ADD ||
            add->operands[0] != body->parameters.items[j] || !read_integer(add->operands[1], &step) || step != 1)
            return 0;
        return last > first ? last - first : 0;
    }
    return 0;
}

// Whether the body is a few elementwise operations on short arrays, which take less time than the loop's own overhead.
static bool is_short(const CpuRegion *body) {
    enum { kElements = 512, kNodes = 24 };
    int64_t count = 0;
    for (int64_t i = 0; i < body->nodes.count; i++) {
        const CpuNode *node = body->nodes.items[i];
        const HloOpcode op = node->opcode;
        if (node->result_count != 1 || node->results[0]->elements > kElements ||
            !(hlo_op_is(op, HLO_OP_IS_ELEMENTWISE) || op == HLO_OP_BROADCAST || op == HLO_OP_CONSTANT ||
              op == HLO_OP_RESHAPE || op == HLO_OP_IOTA || op == HLO_OP_SLICE))
            return false;
        count += op != HLO_OP_CONSTANT && op != HLO_OP_BROADCAST;
    }
    return count <= kNodes;
}

// Returns the largest divisor of `rounds` that keeps the body below a size limit. As `rounds` is a multiple of the
// result, no iteration runs too often.
static int64_t iterations_at_once(const CpuRegion *body, int64_t iterations) {
    enum { kLargest = 64, kNodes = 256 };
    int64_t factor = kNodes / (body->nodes.count + 1);
    for (factor = factor < kLargest ? factor : kLargest; factor > 1 && iterations % factor; factor--) continue;
    return factor > 1 ? factor : 1;
}

// Builds further copies of the body after the first, so that one iteration does the work of several. The results of
// each copy are the initial state of the next.
static HloStatus repeat_body(Frame *frame, const HloInstruction *instruction, const CpuNode *node, Leaves initial) {
    CpuRegion *body = node->regions[1];
    const int64_t iterations = count_iterations(node->regions[0], body, initial);
    if (iterations < 2 || !is_short(body)) return HLO_SUCCESS;
    Frame inside = {.program = frame->program, .region = body};
    for (int64_t left = iterations_at_once(body, iterations); left > 1; left--) {
        Leaves state = new_leaves(frame->program, body->results.count), results;
        memcpy(state.items, body->results.items, sizeof(CpuArray *) * (size_t)state.count);
        HLO_TRY(inline_state(&inside, instruction->called[1], state, &results));
        memcpy(body->results.items, results.items, sizeof(CpuArray *) * (size_t)results.count);
    }
    return HLO_SUCCESS;
}

// Makes state that no iteration changes, such as the weights of a scan, a view of its initial value, so that the loop
// does not begin with a copy of it.
static void keep_constant_state(const CpuNode *node) {
    const CpuRegion *body = node->regions[1];
    for (int32_t i = 0; i < node->result_count; i++)
        if (cpu_array_root(body->results.items[i]) == node->results[i]) node->results[i]->view = node->operands[i];
}

// Builds a node whose results are the state; parameters of condition and body are views of it.
static HloStatus build_while(Frame *frame, const HloInstruction *instruction, Leaves *result) {
    assert(hlo_is(instruction, HLO_OP_WHILE));
    CpuProgram *program = frame->program;
    const Leaves initial = operand_leaves(frame, instruction, 0);
    bool done;
    HLO_TRY(write_out(frame, instruction, result, &done));
    if (done) return HLO_SUCCESS;
    CpuNode *node = new_node(frame, instruction, operand_leaves(frame, instruction, 0), instruction->shape);
    *result = node_leaves(node);
    node->region_count = 2;
    node->regions = HLO_ARENA_NEW(program->arena, CpuRegion *, 2);
    for (int i = 0; i < 2; i++)
        HLO_TRY(build_region(frame, instruction->called[i], view_leaves(program, *result), &node->regions[i]));
    HLO_TRY(repeat_body(frame, instruction, node, initial));
    keep_constant_state(node);
    return HLO_SUCCESS;
}

// Builds a node whose operand 0 selects the branch; each branch reads its own operand through views.
static HloStatus build_conditional(Frame *frame, const HloInstruction *instruction, Leaves *result) {
    assert(hlo_is(instruction, HLO_OP_CONDITIONAL));
    CpuProgram *program = frame->program;
    CpuNode *node = new_node(frame, instruction, all_operand_leaves(frame, instruction, 0), instruction->shape);
    *result = node_leaves(node);
    node->region_count = instruction->called_count;
    node->regions = HLO_ARENA_NEW(program->arena, CpuRegion *, node->region_count);
    for (int32_t i = 0; i < node->region_count; i++) {
        const Leaves views = view_leaves(program, operand_leaves(frame, instruction, i + 1));
        HLO_TRY(build_region(frame, instruction->called[i], views, &node->regions[i]));
    }
    return HLO_SUCCESS;
}

// Builds a node whose value is that of the done: the leaves of the transferred array or arrays.
static HloStatus build_collective_start(Frame *frame, const HloInstruction *instruction, Leaves *result) {
    const HloShape *shape = instruction->shape;
    if (instruction->opcode != HLO_OP_ALL_REDUCE_START && hlo_shape_is_tuple(shape) && shape->element_count >= 2)
        shape = shape->elements[1];
    CpuNode *node = new_node(frame, instruction, all_operand_leaves(frame, instruction, 0), shape);
    if (instruction->opcode == HLO_OP_ALL_GATHER_START) node->opcode = HLO_OP_ALL_GATHER;
    if (instruction->opcode == HLO_OP_ALL_REDUCE_START) node->opcode = HLO_OP_ALL_REDUCE;
    if (instruction->opcode == HLO_OP_COLLECTIVE_PERMUTE_START) node->opcode = HLO_OP_COLLECTIVE_PERMUTE;
    *result = node_leaves(node);
    return HLO_SUCCESS;
}

// Builds a token, which has no ordering effect here: nodes run in list order.
static HloStatus build_after_all(Frame *frame, const HloInstruction *instruction, Leaves *result) {
    CpuNode *node = new_node(frame, instruction, new_leaves(frame->program, 0), instruction->shape);
    *result = node_leaves(node);
    return HLO_SUCCESS;
}

// Checks a transfer between device and host. The leaves of a start are (data, context, token). The whole transfer
// happens at the start, in list order, and the done only passes leaves on. The context is not needed here; it is a
// result that stays zero. A send between devices works the same way, but its data is received at the recv-done (p2p.h).
static HloStatus check_transfer(const HloInstruction *instruction) {
    HLO_FAIL_IF(!hlo_shape_is_array(instruction->shape->elements[0]), HLO_UNIMPLEMENTED,
                "%%%s: a transfer of several arrays", instruction->name);
    return HLO_SUCCESS;
}

// Builds a send. The data passes through as leaf 0, so that sent data never has to be read back.
static HloStatus build_send(Frame *frame, const HloInstruction *instruction, Leaves *result) {
    HLO_TRY(check_transfer(instruction));
    const HloShape *results = hlo_shape_tuple(frame->program->arena, instruction->shape->elements + 1, 2);
    const CpuNode *node = new_node(frame, instruction, operand_leaves(frame, instruction, 0), results);
    *result = new_leaves(frame->program, 3);
    result->items[0] = node->operands[0];
    result->items[1] = node->results[0];
    result->items[2] = node->results[1];
    return HLO_SUCCESS;
}

// Builds a node with all three leaves as results.
static HloStatus build_recv(Frame *frame, const HloInstruction *instruction, Leaves *result) {
    HLO_TRY(check_transfer(instruction));
    *result = node_leaves(new_node(frame, instruction, new_leaves(frame->program, 0), instruction->shape));
    return HLO_SUCCESS;
}

// Returns a token that orders nothing.
static CpuArray *new_token(const Frame *frame, const HloInstruction *instruction) {
    CpuNode *node = new_node(frame, instruction, new_leaves(frame->program, 0), hlo_shape_token(frame->program->arena));
    node->opcode = HLO_OP_AFTER_ALL;
    return node->results[0];
}

// Builds one transfer for each array that the host feeds, and the token.
static HloStatus build_infeed(Frame *frame, const HloInstruction *instruction, Leaves *result) {
    HloArena *arena = frame->program->arena;
    const int64_t count = hlo_shape_leaf_count(instruction->shape);
    assert(count > 0); /* the token is always there */
    *result = new_leaves(frame->program, count);
    for (int64_t i = 0; i < count; i++) {
        const HloShape *leaf = hlo_shape_leaf(instruction->shape, i);
        const HloShape *parts[] = {leaf, hlo_shape_array(arena, HLO_U32, NULL, 0)};
        result->items[i] = hlo_shape_is_array(leaf) ? new_node(frame, instruction, new_leaves(frame->program, 0),
                                                               hlo_shape_tuple(arena, parts, 2))
                                                          ->results[0]
                                                    : new_token(frame, instruction);
    }
    return HLO_SUCCESS;
}

// Builds one transfer for each array sent to the host. A sent array cannot be undone: tokens order nothing here.
static HloStatus build_outfeed(Frame *frame, const HloInstruction *instruction, Leaves *result) {
    const Leaves arrays = operand_leaves(frame, instruction, 0);
    const HloShape *context = hlo_shape_array(frame->program->arena, HLO_U32, NULL, 0);
    for (int64_t i = 0; i < arrays.count; i++) {
        Leaves one = new_leaves(frame->program, 1);
        one.items[0] = arrays.items[i];
        if (hlo_shape_is_array(arrays.items[i]->shape)) (void)new_node(frame, instruction, one, context);
    }
    *result = new_leaves(frame->program, 1);
    result->items[0] = new_token(frame, instruction);
    return HLO_SUCCESS;
}

// Returns the token, leaf 2 of the start.
static HloStatus build_send_done(Frame *frame, const HloInstruction *instruction, Leaves *result) {
    const Leaves start = operand_leaves(frame, instruction, 0);
    *result = (Leaves){start.items + 2, 1};
    return HLO_SUCCESS;
}

// Builds the receipt of data between devices; a host transfer has already happened at the start.
static HloStatus build_recv_done(Frame *frame, const HloInstruction *instruction, Leaves *result) {
    const Leaves start = operand_leaves(frame, instruction, 0);
    const HloInstruction *begin = instruction->operands[0];
    const bool host = hlo_transfer_is_host(instruction) || (hlo_is(begin, HLO_OP_RECV) && hlo_transfer_is_host(begin));
    if (!host) {
        HLO_TRY(check_transfer(instruction));
        *result = node_leaves(new_node(frame, instruction, new_leaves(frame->program, 0), instruction->shape));
        return HLO_SUCCESS;
    }
    *result = new_leaves(frame->program, 2);
    result->items[0] = start.items[0];
    result->items[1] = start.items[2];
    return HLO_SUCCESS;
}

// Resolves a custom call. An annotation becomes its operand; a function that has an opcode of its own becomes that op.
// Unknown calls are rejected here, before anything runs.
static HloStatus build_custom_call(Frame *frame, const HloInstruction *instruction, Leaves *result) {
    assert(hlo_is(instruction, HLO_OP_CUSTOM_CALL));
    if (hlo_custom_call_is_unknown(instruction)) return hlo_custom_call_refuse(instruction);
    HLO_TRY(hlo_custom_call_check(instruction));
    const bool same = instruction->operand_count == 1 &&
                      hlo_shape_equal(instruction->shape, instruction->operands[0]->shape, HLO_COMPARE_IGNORE_LAYOUT);
    if (same && (hlo_custom_call_returns_operand(instruction) || hlo_custom_call_is_region_boundary(instruction)))
        return build_identity(frame, instruction, result);
    HLO_TRY(build_plain(frame, instruction, result));
    const HloOpcode opcode = same ? hlo_custom_call_opcode(instruction) : HLO_OPCODE_COUNT;
    if (opcode < HLO_OPCODE_COUNT) result->items[0]->producer->opcode = opcode;
    return HLO_SUCCESS;
}

typedef struct BuildRow {
    HloOpcode opcode;
    BuildFunction *build;
} BuildRow;

// Opcodes that are not listed here become one node.
static const BuildRow kBuildRows[] = {
    {HLO_OP_PARAMETER, build_parameter},
    {HLO_OP_CONSTANT, build_constant},
    {HLO_OP_COPY, build_identity},
    {HLO_OP_RESHAPE, build_reshape},
    {HLO_OP_BITCAST, build_bitcast},
    {HLO_OP_GET_DIMENSION_SIZE, build_dimension_size},
    {HLO_OP_DYNAMIC_RESHAPE, build_dynamic_reshape},
    {HLO_OP_BITCAST_CONVERT, build_bitcast_convert},
    {HLO_OP_TUPLE, build_tuple},
    {HLO_OP_GET_TUPLE_ELEMENT, build_get_tuple_element},
    {HLO_OP_CALL, build_inline},
    {HLO_OP_FUSION, build_inline},
    {HLO_OP_MAP, build_map},
    {HLO_OP_WHILE, build_while},
    {HLO_OP_CONDITIONAL, build_conditional},
    {HLO_OP_AFTER_ALL, build_after_all},
    {HLO_OP_ADD_DEPENDENCY, build_identity},
    {HLO_OP_OPTIMIZATION_BARRIER, build_identity},
    {HLO_OP_DOMAIN, build_identity},
    {HLO_OP_CUSTOM_CALL, build_custom_call},
    {HLO_OP_ASYNC_START, build_inline},
    {HLO_OP_ASYNC_UPDATE, build_identity},
    {HLO_OP_ASYNC_DONE, build_identity},
    {HLO_OP_ALL_GATHER_START, build_collective_start},
    {HLO_OP_ALL_GATHER_DONE, build_identity},
    {HLO_OP_ALL_REDUCE_START, build_collective_start},
    {HLO_OP_ALL_REDUCE_DONE, build_identity},
    {HLO_OP_COLLECTIVE_PERMUTE_START, build_collective_start},
    {HLO_OP_COLLECTIVE_PERMUTE_DONE, build_identity},
    {HLO_OP_COPY_START, build_identity},
    {HLO_OP_COPY_DONE, build_identity},
    {HLO_OP_SEND, build_send},
    {HLO_OP_SEND_DONE, build_send_done},
    {HLO_OP_RECV, build_recv},
    {HLO_OP_RECV_DONE, build_recv_done},
    {HLO_OP_INFEED, build_infeed},
    {HLO_OP_OUTFEED, build_outfeed},
};

// Finds the row of an opcode by linear search, since rows are few.
static BuildFunction *build_function(HloOpcode opcode) {
    for (size_t i = 0; i < HLO_COUNT_OF(kBuildRows); i++)
        if (kBuildRows[i].opcode == opcode) return kBuildRows[i].build;
    return build_plain;
}

// ---- computations

// Prepares the lookup of values by instruction id; a computation's ids form a contiguous range.
static void number_values(Frame *frame, HloInstruction *const *order, int64_t count) {
    int32_t low = INT32_MAX, high = 0;
    for (int64_t i = 0; i < count; i++) {
        low = order[i]->id < low ? order[i]->id : low;
        high = order[i]->id > high ? order[i]->id : high;
    }
    frame->first_id = low;
    frame->values = HLO_ARENA_NEW(frame->program->arena, Leaves, count ? (int64_t)high - low + 1 : 0);
}

static HloStatus build_computation(Frame *frame, Leaves *result) {
    int64_t count;
    HloInstruction **order = hlo_computation_post_order(frame->computation, frame->program->arena, &count);
    number_values(frame, order, count);
    for (int64_t i = 0; i < count; i++) {
        const HloInstruction *instruction = order[i];
        Leaves *leaves = &frame->values[instruction->id - frame->first_id];
        if (hlo_op_is(instruction->opcode, HLO_OP_IS_ASYNC_START) || instruction->opcode == HLO_OP_ASYNC_UPDATE)
            HLO_TRY(hlo_status_at_instruction(check_end_is_here(instruction), instruction));
        HLO_TRY(
            hlo_status_at_instruction(build_function(instruction->opcode)(frame, instruction, leaves), instruction));
    }
    *result = frame->values[frame->computation->root->id - frame->first_id];
    return HLO_SUCCESS;
}

// ---- dead nodes

// Whether the node must run even if its results are unused.
static bool has_effect(const CpuNode *node) {
    return hlo_op_is(node->opcode, HLO_OP_IS_COLLECTIVE) || hlo_instruction_has_side_effect(node->instruction);
}

static void mark_region(CpuRegion *region);

// Counts a use and marks the producer. A region's parameter has no producer and passes the use on to the array that it
// is a view of.
static void mark_array(CpuArray *array) {
    for (;;) {
        array->use_count++;
        if (array->producer && array->producer->live) return;
        if (array->producer) {
            CpuNode *node = array->producer;
            node->live = true;
            return;
        }
        if (!array->view) return;
        array = array->view;
    }
}

// Marks the operands, and the outside arrays that the node's regions use.
static void mark_node(CpuNode *node) {
    for (int32_t i = 0; i < node->operand_count; i++) mark_array(node->operands[i]);
    for (int32_t i = 0; i < node->region_count; i++) mark_region(node->regions[i]);
}

// Walks backwards, so that all users of a node have been visited before the node.
static void mark_region(CpuRegion *region) {
    for (int64_t i = 0; i < region->results.count; i++) mark_array(region->results.items[i]);
    for (int64_t i = region->nodes.count; i-- > 0;) {
        CpuNode *node = region->nodes.items[i];
        if (has_effect(node)) node->live = true;
        if (node->live) mark_node(node);
    }
    int64_t kept = 0;
    for (int64_t i = 0; i < region->nodes.count; i++)
        if (region->nodes.items[i]->live) region->nodes.items[kept++] = region->nodes.items[i];
    region->nodes.count = kept;
}

// Numbers the nodes depth first, in execution order.
static void number_nodes(CpuProgram *program, CpuRegion *region) {
    for (int64_t i = 0; i < region->nodes.count; i++) {
        CpuNode *node = region->nodes.items[i];
        node->order = program->node_count++;
        for (int32_t k = 0; k < node->region_count; k++) number_nodes(program, node->regions[k]);
    }
}

// Numbers the leaves consecutively across all parameters: the numbering of CpuArray.parameter.
static Leaves *entry_arguments(CpuProgram *program, const HloComputation *entry) {
    Leaves *arguments = HLO_ARENA_NEW(program->arena, Leaves, entry->parameters.count);
    int32_t number = 0;
    for (int64_t i = 0; i < entry->parameters.count; i++) {
        const HloShape *shape = entry->parameters.items[i]->shape;
        arguments[i] = new_leaves(program, hlo_shape_leaf_count(shape));
        for (int64_t k = 0; k < arguments[i].count; k++) {
            CpuArray *array = cpu_program_new_array(program, hlo_shape_leaf(shape, k));
            array->parameter = number++;
            arguments[i].items[k] = array;
            hlo_vector_push(program->arena, &program->entry->parameters, array);
        }
    }
    return arguments;
}

// Checks types before anything is compiled, also in computations that are applied to elements, so that the evaluator
// and the engine reject the same programs.
static HloStatus check_types(HloArena *arena, const HloModule *module) {
    int64_t computations, count;
    HloComputation **reached = hlo_module_post_order(module, arena, &computations);
    for (int64_t c = 0; c < computations; c++) {
        HloArenaMark mark = hlo_arena_mark(arena);
        HloInstruction **order = hlo_computation_post_order(reached[c], arena, &count);
        for (int64_t i = 0; i < count; i++)
            HLO_TRY(hlo_status_at_instruction(hlo_eval_check_types(order[i]), order[i]));
        hlo_arena_reset(arena, mark);
    }
    return HLO_SUCCESS;
}

// Builds the backend's view of the module: arrays instead of tuples, calls and fusions inlined, views instead of moves.
// Nodes are numbered last, in execution order.
HloStatus cpu_program_build(HloArena *arena, const HloModule *module, CpuProgram **result) {
    assert(arena && module && result);
    HLO_TRY(check_types(arena, module));
    CpuProgram *program = HLO_ARENA_NEW(arena, CpuProgram, 1);
    program->arena = arena;
    program->module = module;
    program->entry = new_region(program);
    program->replica_count = module->replica_count > 0 ? module->replica_count : 1;
    program->partition_count = module->num_partitions > 0 ? module->num_partitions : 1;
    Frame frame = {.program = program, .region = program->entry, .computation = module->entry};
    frame.arguments = entry_arguments(program, module->entry);
    Leaves results;
    HLO_TRY(build_computation(&frame, &results));
    for (int64_t i = 0; i < results.count; i++) hlo_vector_push(arena, &program->entry->results, results.items[i]);
    mark_region(program->entry);
    number_nodes(program, program->entry);
    *result = program;
    return HLO_SUCCESS;
}
