// SPDX-License-Identifier: Apache-2.0
// Walks over arrays. A loop hands a value on if its body gives back element i of the tuple that it got; values from
// outside of a loop are found through the body's parameter, and the initial value of an element that changes is not
// followed: it is another array.
#include "advice/flow.h"

#include "hlo/base/map.h"

// Steps after which a walk gives up.
enum { MOST_STEPS = 100000, MOST_SOURCE_STEPS = 64 };

static bool is_half(const HloInstruction *op) {
    return hlo_op_is(op->opcode, HLO_OP_IS_ASYNC_START | HLO_OP_IS_ASYNC_DONE);
}

static bool is_collective_move(const HloInstruction *op) {
    switch (op->opcode) {
        case HLO_OP_ALL_GATHER:
        case HLO_OP_ALL_TO_ALL:
        case HLO_OP_COLLECTIVE_PERMUTE:
        case HLO_OP_COLLECTIVE_BROADCAST: return true;
        default: return false;
    }
}

bool advice_is_product(const HloInstruction *op) {
    return hlo_is(op, HLO_OP_DOT) || hlo_is(op, HLO_OP_CONVOLUTION);
}

bool advice_moves(const HloInstruction *op) {
    switch (op->opcode) {
        case HLO_OP_COPY:
        case HLO_OP_CONVERT:
        case HLO_OP_BITCAST:
        case HLO_OP_BITCAST_CONVERT:
        case HLO_OP_RESHAPE:
        case HLO_OP_TRANSPOSE:
        case HLO_OP_SLICE:
        case HLO_OP_DYNAMIC_SLICE:
        case HLO_OP_PAD:
        case HLO_OP_OPTIMIZATION_BARRIER: return true;
        case HLO_OP_BROADCAST:  // one that adds dimensions of size 1 only
            return hlo_shape_elements(op->shape) == hlo_shape_elements(op->operands[0]->shape);
        default: return op->operand_count > 0 && (is_half(op) || is_collective_move(op));
    }
}

// Whether the body of a loop gives back element `index` as it got it.
static bool is_invariant(const HloInstruction *loop, int64_t index) {
    const HloComputation *body = loop->called[1];
    const HloInstruction *root = body->root;
    if (!hlo_is(root, HLO_OP_TUPLE) || index < 0 || index >= root->operand_count) return false;
    const HloInstruction *at = root->operands[index];
    while (hlo_is(at, HLO_OP_COPY)) at = at->operands[0];
    return hlo_is(at, HLO_OP_GET_TUPLE_ELEMENT) && hlo_is(at->operands[0], HLO_OP_PARAMETER) &&
           HLO_ATTRIBUTES(at, TupleIndex)->index == index;
}

// From a parameter of a called computation to the operand of the first caller.
static bool leave_computation(AdviceValue *value) {
    const HloComputation *computation = value->op->parent;
    if (computation == computation->module->entry || !computation->callers.count) return false;
    const HloInstruction *caller = computation->callers.items[0];
    const int64_t number = hlo_parameter_number(value->op);
    if (hlo_is(caller, HLO_OP_WHILE) && is_invariant(caller, value->index)) {
        *value = (AdviceValue){caller->operands[0], value->index};
        return true;
    }
    const bool takes = hlo_is(caller, HLO_OP_CALL) || hlo_is(caller, HLO_OP_ASYNC_START);
    if (!takes || number >= caller->operand_count) return false;
    *value = (AdviceValue){caller->operands[number], value->index};
    return true;
}

// One step back through something that only moves the array; false where there is none.
static bool step_back(AdviceValue *value) {
    const HloInstruction *op = value->op;
    switch (op->opcode) {
        case HLO_OP_GET_TUPLE_ELEMENT:
            if (value->index >= 0) return false;  // tuples in tuples
            *value = (AdviceValue){op->operands[0], HLO_ATTRIBUTES(op, TupleIndex)->index};
            return true;
        case HLO_OP_TUPLE:
            if (value->index < 0 || value->index >= op->operand_count) return false;
            *value = (AdviceValue){op->operands[value->index], -1};
            return true;
        case HLO_OP_WHILE:
            if (!is_invariant(op, value->index)) return false;
            *value = (AdviceValue){op->operands[0], value->index};
            return true;
        case HLO_OP_PARAMETER: return leave_computation(value);
        default: break;
    }
    if (!advice_moves(op)) return false;
    // A collective of several arrays has as many results; other results in tuples are the halves' own.
    const bool several = op->operand_count > 1 && value->index >= 0 && value->index < op->operand_count &&
                         hlo_op_is(op->opcode, HLO_OP_IS_COLLECTIVE);
    const bool passes_tuple = hlo_is(op, HLO_OP_OPTIMIZATION_BARRIER) || hlo_op_is(op->opcode, HLO_OP_IS_ASYNC_DONE);
    *value = (AdviceValue){op->operands[several ? value->index : 0], passes_tuple ? value->index : -1};
    return true;
}

AdviceValue advice_origin(const HloInstruction *op) {
    AdviceValue value = {op, -1};
    for (int step = 0; step < MOST_STEPS && step_back(&value); step++) continue;
    return value;
}

const HloInstruction *advice_origin_parameter(const HloInstruction *op) {
    const AdviceValue origin = advice_origin(op);
    return hlo_is(origin.op, HLO_OP_PARAMETER) && origin.op->parent == origin.op->parent->module->entry ? origin.op
                                                                                                        : NULL;
}

// The operand of an elementwise operation that brings the data: the largest one that is not made of scalars.
static const HloInstruction *data_operand(const HloInstruction *op) {
    for (int32_t i = hlo_is(op, HLO_OP_SELECT); i < op->operand_count; i++) {
        const HloOpcode opcode = advice_origin(op->operands[i]).op->opcode;
        if (opcode != HLO_OP_CONSTANT && opcode != HLO_OP_BROADCAST && opcode != HLO_OP_IOTA) return op->operands[i];
    }
    return op->operand_count ? op->operands[0] : NULL;
}

const HloInstruction *advice_source(const HloInstruction *op) {
    for (int step = 0; step < MOST_SOURCE_STEPS; step++) {
        op = advice_origin(op).op;
        const HloInstruction *before =
            hlo_op_is(op->opcode, HLO_OP_IS_ELEMENTWISE) && op->operand_count ? data_operand(op) : NULL;
        if (!before) break;
        op = before;
    }
    return op;
}

const HloInstruction *advice_visible(const HloInstruction *op) {
    const HloComputation *computation = op->parent;
    const bool wrapped = computation != computation->module->entry && computation->callers.count &&
                         hlo_is(computation->callers.items[0], HLO_OP_ASYNC_START);
    return wrapped ? computation->callers.items[0] : op;
}

const HloInstruction *advice_consumer(const HloInstruction *op, int32_t *operand) {
    op = advice_visible(op);
    for (int step = 0; step < MOST_SOURCE_STEPS && op->users.count; step++) {
        const HloInstruction *user = op->users.items[0];
        *operand = (int32_t)hlo_instruction_operand_index(user, op);
        const bool passes = advice_moves(user) || hlo_is(user, HLO_OP_GET_TUPLE_ELEMENT) ||
                            (hlo_op_is(user->opcode, HLO_OP_IS_ELEMENTWISE) && user->operand_count == 1);
        if (!passes) return user;
        op = user;
    }
    return NULL;
}

// An instruction that a search for uses has reached: after so many operations that compute, of them so many products.
typedef struct Reached {
    const HloInstruction *op;
    int steps, products;
} Reached;
typedef HLO_VECTOR(Reached) ReachedVector;

static void reach(HloArena *arena, ReachedVector *queue, Reached next) {
    for (int64_t i = 0; i < queue->count; i++)
        if (queue->items[i].op == next.op && queue->items[i].products <= next.products) return;
    hlo_vector_push(arena, queue, next);
}

bool advice_reaches(HloArena *scratch, const HloInstruction *op, int products, AdviceUseTest test,
                    const void *context) {
    enum { MOST_REACHED = 64, MOST_COMPUTING = 12 };
    ReachedVector queue = {0};
    reach(scratch, &queue, (Reached){.op = advice_visible(op)});
    for (int64_t i = 0; i < queue.count && queue.count < MOST_REACHED; i++) {
        const Reached at = queue.items[i];
        for (int64_t u = 0; u < at.op->users.count; u++) {
            const HloInstruction *user = at.op->users.items[u];
            const bool product = advice_is_product(user);
            const bool computes = product || hlo_op_is(user->opcode, HLO_OP_IS_ELEMENTWISE);
            const Reached next = {user, at.steps + computes, at.products + product};
            if (test(context, user, (int32_t)hlo_instruction_operand_index(user, at.op))) return true;
            const bool passes = computes || advice_moves(user) || hlo_is(user, HLO_OP_GET_TUPLE_ELEMENT) ||
                                hlo_is(user, HLO_OP_BROADCAST);
            if (passes && next.steps < MOST_COMPUTING && next.products <= products) reach(scratch, &queue, next);
        }
    }
    return false;
}

// ---- forward

typedef struct Walk {
    HloArena *arena;
    HLO_VECTOR(AdviceValue) queue;
    HloIntMap seen;
    HloInt64Vector results;
    bool moves_only;  // do not go through elementwise operations
    AdviceUses uses;
} Walk;

static void add(Walk *walk, const HloInstruction *op, int64_t index) {
    const uint64_t key = (uint64_t)op->id << 24 | (uint64_t)(index + 1);
    if (index >= 1 << 24 || walk->queue.count >= MOST_STEPS || hlo_int_map_find(&walk->seen, key)) return;
    hlo_int_map_set(walk->arena, &walk->seen, key, 1);
    hlo_vector_push(walk->arena, &walk->queue, ((AdviceValue){op, index}));
}

static bool passes_on(const Walk *walk, const HloInstruction *user) {
    if (walk->moves_only) return advice_moves(user);
    switch (user->opcode) {
        case HLO_OP_DYNAMIC_UPDATE_SLICE:
        case HLO_OP_CONCATENATE:
        case HLO_OP_ALL_REDUCE:
        case HLO_OP_REDUCE_SCATTER: return true;
        default: return advice_moves(user) || hlo_op_is(user->opcode, HLO_OP_IS_ELEMENTWISE);
    }
}

static void enter_user(Walk *walk, const HloInstruction *user, const AdviceValue *value) {
    if (hlo_is(user, HLO_OP_WHILE)) {
        if (value->index >= 0) add(walk, user->called[1]->parameters.items[0], value->index);
        return;
    }
    if (value->index >= 0) {
        const bool takes =
            hlo_is(user, HLO_OP_GET_TUPLE_ELEMENT) && HLO_ATTRIBUTES(user, TupleIndex)->index == value->index;
        if (takes) add(walk, user, -1);
        if (hlo_is(user, HLO_OP_OPTIMIZATION_BARRIER) || hlo_op_is(user->opcode, HLO_OP_IS_ASYNC_DONE))
            add(walk, user, value->index);
        return;
    }
    // A collective of several arrays, too, has a result for each.
    const bool several = user->operand_count > 1 && hlo_op_is(user->opcode, HLO_OP_IS_COLLECTIVE);
    if (hlo_is(user, HLO_OP_TUPLE) || (several && passes_on(walk, user))) {
        for (int32_t i = 0; i < user->operand_count; i++)
            if (user->operands[i] == value->op) add(walk, user, i);
    } else if (hlo_is(user, HLO_OP_GET_TUPLE_ELEMENT) || passes_on(walk, user)) {
        add(walk, user, -1);
    }
}

// The root of the entry is a result; the root of a loop's body comes out of the loop.
static void leave_root(Walk *walk, const AdviceValue *value) {
    const HloComputation *computation = value->op->parent;
    if (computation->root != value->op) return;
    if (computation == computation->module->entry) {
        hlo_vector_push(walk->arena, &walk->results, value->index < 0 ? 0 : value->index);
        return;
    }
    for (int64_t i = 0; i < computation->callers.count; i++) {
        const HloInstruction *caller = computation->callers.items[i];
        if (hlo_is(caller, HLO_OP_ASYNC_START)) add(walk, caller, value->index);
        if (!hlo_is(caller, HLO_OP_WHILE) || caller->called[1] != computation || value->index < 0) continue;
        add(walk, caller, value->index);
        add(walk, computation->parameters.items[0], value->index);
    }
}

// Of a tuple with all its elements, or with one (-1: all).
static void walk_from(Walk *walk, const HloInstruction *op, int64_t index) {
    const int64_t count = hlo_shape_is_tuple(op->shape) ? op->shape->element_count : 0;
    if (!count || index < 0) add(walk, op, -1);
    for (int64_t i = 0; i < count; i++)
        if (index < 0 || i == index) add(walk, op, i);
    for (int64_t i = 0; i < walk->queue.count; i++) {
        const AdviceValue value = walk->queue.items[i];
        for (int64_t u = 0; u < value.op->users.count; u++) enter_user(walk, value.op->users.items[u], &value);
        leave_root(walk, &value);
    }
}

HloInt64Vector advice_reached_results(HloArena *scratch, const HloInstruction *op, int64_t index) {
    Walk walk = {.arena = scratch};
    walk_from(&walk, op, index);
    return walk.results;
}

static void count_use(AdviceUses *uses, const HloInstruction *user, const HloInstruction *op) {
    const int64_t operand = hlo_instruction_operand_index(user, op);
    const bool is_product = advice_is_product(user);
    const bool is_lookup = hlo_is(user, HLO_OP_GATHER) || hlo_is(user, HLO_OP_SCATTER);
    uses->left += is_product && operand == 0;
    uses->right += is_product && operand == 1;
    uses->tables += hlo_is(user, HLO_OP_GATHER) && operand == 0;
    uses->indices += is_lookup && operand == 1;
}

// Adds what the operands of an elementwise operation come from.
static void enter_operands(Walk *walk, const HloInstruction *op) {
    for (int32_t i = 0; hlo_op_is(op->opcode, HLO_OP_IS_ELEMENTWISE) && i < op->operand_count; i++) {
        const AdviceValue origin = advice_origin(op->operands[i]);
        add(walk, origin.op, origin.index);
    }
}

HloInt64Vector advice_updated_parameters(HloArena *scratch, const HloModule *module, int64_t result) {
    enum { MOST_VALUES = 256 };
    Walk walk = {.arena = scratch};
    HloInt64Vector numbers = {0};
    const HloInstruction *root = module->entry->root;
    if (hlo_is(root, HLO_OP_TUPLE)) root = result < root->operand_count ? root->operands[result] : NULL;
    if (!root) return numbers;
    const AdviceValue origin = advice_origin(root);
    add(&walk, origin.op, origin.index);
    for (int64_t i = 0; i < walk.queue.count && walk.queue.count < MOST_VALUES; i++) {
        const HloInstruction *op = walk.queue.items[i].op;
        if (hlo_is(op, HLO_OP_PARAMETER) && op->parent == module->entry)
            hlo_vector_push(scratch, &numbers, hlo_parameter_number(op));
        enter_operands(&walk, op);
    }
    return numbers;
}

AdviceUses advice_uses(HloArena *scratch, const HloInstruction *op) {
    Walk walk = {.arena = scratch, .moves_only = true};
    AdviceUses uses = {0};
    walk_from(&walk, op, -1);
    for (int64_t i = 0; i < walk.queue.count; i++) {
        const HloInstruction *at = walk.queue.items[i].op;
        for (int64_t u = 0; walk.queue.items[i].index < 0 && u < at->users.count; u++)
            count_use(&uses, at->users.items[u], at);
    }
    return uses;
}
