// SPDX-License-Identifier: Apache-2.0
// A loop that adds up finished sums adds up the parts instead, and the total is finished once, after the loop:
// gradients over micro-batches, weights of a recurrent network.
//
//     body     %g = f32[64] get-tuple-element(%carry), index=1
//              %r = f32[64] all-reduce(%d)
//              the root has  %h = f32[64] add(%g, %r)  as element 1
//     becomes  add(%g, %d) in a loop that begins with zeros; after it an all-reduce of the element, to which what the
//              element began with is added
//
// A sum may be scaled by a constant, widened (bf16 to f32), or its elements be rearranged, before it is added, and
// several sums may be added in one iteration. Nothing else may see the element inside of the loop: neither the
// condition nor the body. A reduce-scatter moves too, transposed perhaps, where the program has room: each device then
// carries parts of the whole array, instead of its share of the sum (SPMD_CARRIED_WHOLE).
#include <assert.h>
#include <math.h>

#include "hlo/analysis/loop.h"
#include "spmd_partitioner/contraction.h"
#include "spmd_partitioner/passes/passes.h"

enum {
    TERMS = 16,          // sums that are added to one element in an iteration, at most
    CHAIN = 8,           // ops between a sum and where it is added
    MOST_SCATTERED = 8,  // collectives, each of another dimension, that finish one sum
};

// One element of a loop's tuple that is added to.
typedef struct Element {
    HloInstruction *loop;
    int64_t index;
    HloInstruction *read;         // in the body
    HloInstruction *adds[TERMS];  // from the read to the root
    HloInstruction *sums[TERMS];  // the collectives of the terms
    int32_t count;
    int64_t dim;  // of the element, along which reduce-scatters divide it; -1 for all-reduces
} Element;

HloInstruction *spmd_only_read(const HloInstruction *tuple, int64_t index) {
    HloInstruction *found = NULL;
    for (int64_t i = 0; i < tuple->users.count; i++) {
        HloInstruction *user = tuple->users.items[i];
        if (!hlo_is(user, HLO_OP_GET_TUPLE_ELEMENT)) return NULL;
        if (HLO_ATTRIBUTES(user, TupleIndex)->index != index) continue;
        if (found) return NULL;
        found = user;
    }
    return found;
}

bool spmd_is_unread(const HloInstruction *tuple, int64_t index) {
    for (int64_t i = 0; i < tuple->users.count; i++) {
        const HloInstruction *user = tuple->users.items[i];
        if (!hlo_is(user, HLO_OP_GET_TUPLE_ELEMENT) || HLO_ATTRIBUTES(user, TupleIndex)->index == index) return false;
    }
    return true;
}

// True if `at` has one value in all of its elements, a constant: the same on all devices.
static bool is_constant(const HloInstruction *at) {
    if (hlo_is(at, HLO_OP_BROADCAST)) at = at->operands[0];
    return hlo_is(at, HLO_OP_CONSTANT) && hlo_literal_is_splat(hlo_constant_literal(at));
}

// A constant that parts may be multiplied by: infinity times parts of different signs would be NaN.
static bool is_scale(const HloInstruction *at) {
    if (!is_constant(at)) return false;
    if (hlo_is(at, HLO_OP_BROADCAST)) at = at->operands[0];
    return hlo_type_is_integer(at->shape->type) ||
           (hlo_type_is_float(at->shape->type) && isfinite(hlo_literal_get_double(hlo_constant_literal(at), 0)));
}

bool spmd_is_zero(const HloInstruction *at) {
    if (hlo_is(at, HLO_OP_BROADCAST)) at = at->operands[0];
    return hlo_is(at, HLO_OP_CONSTANT) && hlo_literal_is_zero(hlo_constant_literal(at));
}

HloInstruction *spmd_linear_operand(const HloInstruction *at) {
    switch (at->opcode) {
        case HLO_OP_RESHAPE:
        case HLO_OP_TRANSPOSE:
        case HLO_OP_COPY:
        case HLO_OP_NEGATE: return at->operands[0];
        case HLO_OP_CONVERT: return spmd_keeps_sum(at) ? at->operands[0] : NULL;
        case HLO_OP_MULTIPLY:
            if (is_scale(at->operands[1])) return at->operands[0];
            return is_scale(at->operands[0]) ? at->operands[1] : NULL;
        default: return NULL;
    }
}

// The operand of an op whose result is divided as its operand is, along another dimension perhaps; NULL for others.
static HloInstruction *scattered_operand(const HloInstruction *at) {
    const bool keeps = hlo_is(at, HLO_OP_TRANSPOSE) || hlo_is(at, HLO_OP_COPY) || hlo_is(at, HLO_OP_NEGATE) ||
                       (hlo_is(at, HLO_OP_CONVERT) && spmd_keeps_sum(at));
    return keeps ? at->operands[0] : NULL;
}

// The dimension of `term` that dimension `dim` of `sum` is, where only scattered_operand() is between them.
static int64_t dim_in(const HloInstruction *term, const HloInstruction *sum, int64_t dim) {
    if (term == sum) return dim;
    dim = dim_in(term->operands[0], sum, dim);
    if (!hlo_is(term, HLO_OP_TRANSPOSE)) return dim;
    const HloInts order = HLO_ATTRIBUTES(term, Dimensions)->dimensions;
    int64_t d = 0;
    while (order.items[d] != dim) d++;
    return d;
}

// The collective that finishes the sum `term`, which nothing else uses; NULL if it is no such sum. *dim is the
// dimension of `term` that a reduce-scatter divides, -1 for an all-reduce.
static HloInstruction *sum_of(HloInstruction *term, int64_t *dim) {
    HloInstruction *at = term;
    bool rearranged = false;  // in a way that a reduce-scatter cannot follow
    for (int32_t i = 0; i < CHAIN && at && at->users.count == 1; i++) {
        const bool scattered = hlo_is(at, HLO_OP_REDUCE_SCATTER);
        if (scattered ? !rearranged : hlo_is(at, HLO_OP_ALL_REDUCE)) {
            const bool plain = hlo_shape_is_array(at->shape) && spmd_adds(at->called[0]) && spmd_may_replace(at);
            if (!plain) return NULL;
            *dim = scattered ? dim_in(term, at, HLO_ATTRIBUTES(at, Collective)->dimensions.items[0]) : -1;
            return at;
        }
        rearranged |= !scattered_operand(at);
        at = spmd_linear_operand(at);
    }
    return NULL;
}

// Whether one collective after the loop can do the work of both, which divide their terms along the same dimension.
static bool same_kind(const HloInstruction *a, const HloInstruction *b) {
    const HloCollectiveAttributes *x = HLO_ATTRIBUTES(a, Collective), *y = HLO_ATTRIBUTES(b, Collective);
    return a->opcode == b->opcode && x->use_global_device_ids == y->use_global_device_ids &&
           hlo_replica_groups_equal(x->replica_groups, y->replica_groups);
}

// Follows the element from the read to the root, through additions of sums only.
static bool follow(Element *element) {
    HloInstruction *root = element->loop->called[1]->root, *at = element->read;
    while (at != root) {
        if (at->users.count != 1) return false;
        HloInstruction *user = at->users.items[0];
        if (user == root) break;
        if (!hlo_is(user, HLO_OP_ADD) || user->operands[0] == user->operands[1] || element->count == TERMS)
            return false;
        int64_t dim;
        HloInstruction *sum = sum_of(user->operands[user->operands[0] == at], &dim);
        if (!sum || (element->count && (dim != element->dim || !same_kind(element->sums[0], sum)))) return false;
        element->dim = dim;
        element->adds[element->count] = user;
        element->sums[element->count++] = sum;
        at = user;
    }
    int32_t places = 0;
    for (int32_t i = 0; i < root->operand_count; i++) places += root->operands[i] == at;
    return element->count > 0 && places == 1 && root->operands[element->index] == at;
}

// Whether the element's sums can wait, and are worth it.
static bool can_wait(Element *element) {
    HloInstruction *loop = element->loop;
    element->read = spmd_only_read(loop->called[1]->parameters.items[0], element->index);
    if (!element->read || !hlo_shape_is_array(element->read->shape)) return false;
    if (!spmd_is_unread(loop->called[0]->parameters.items[0], element->index) || !follow(element)) return false;
    const HloInstruction *sum = element->sums[0];
    // Once after the loop it is as wide as what is carried.
    const int64_t wide = hlo_type_bytes(element->read->shape->type), narrow = hlo_type_bytes(sum->shape->type);
    if (wide > narrow && hlo_trip_count(loop) * element->count * narrow <= wide) return false;
    if (hlo_is(sum, HLO_OP_ALL_REDUCE)) return true;
    return hlo_trip_count(loop) > 1 && hlo_shape_bytes(sum->operands[0]->shape) <= SPMD_CARRIED_WHOLE;
}

// ---- the change

// A tuple shape with another element.
static const HloShape *with_element(HloArena *arena, const HloShape *tuple, int64_t index, const HloShape *shape) {
    const HloShape **elements = HLO_ARENA_NEW(arena, const HloShape *, tuple->element_count);
    for (int32_t i = 0; i < tuple->element_count; i++) elements[i] = i == index ? shape : tuple->elements[i];
    return hlo_shape_tuple(arena, elements, tuple->element_count);
}

// Zeros before the loop.
static HloInstruction *emit_zeros(HloInstruction *loop, const HloShape *shape) {
    HloArena *arena = loop->parent->module->arena;
    HloLiteral *literal = hlo_literal_in_arena(arena, hlo_shape_scalar(arena, shape->type));
    HloConstantAttributes constant = {literal};
    HloInstruction *zero = hlo_instruction_new(loop->parent, HLO_OP_CONSTANT, literal->shape, NULL, 0, &constant, NULL);
    hlo_instruction_move_before(zero, loop);
    if (!shape->rank) return zero;
    HloDimensionsAttributes dimensions = {{NULL, 0}};
    HloInstruction *zeros = hlo_instruction_new(loop->parent, HLO_OP_BROADCAST, shape, &zero, 1, &dimensions, NULL);
    hlo_instruction_move_before(zeros, loop);
    return zeros;
}

// Lets the loop begin with zeros of `shape`; what the element began with before.
static HloInstruction *begin_with_zeros(const Element *element, const HloShape *shape) {
    HloInstruction *loop = element->loop, *init = loop->operands[0];
    HloComputation *condition = loop->called[0], *body = loop->called[1];
    HloArena *arena = loop->parent->module->arena;
    HloInstruction *before = init->operands[element->index];
    const HloShape *tuple = with_element(arena, init->shape, element->index, shape);
    HloInstruction *zeros = emit_zeros(loop, shape);
    HloInstruction *changed =
        hlo_instruction_new(loop->parent, HLO_OP_TUPLE, tuple, init->operands, init->operand_count, NULL, NULL);
    hlo_instruction_move_before(changed, loop);
    hlo_instruction_set_operand(changed, element->index, zeros);
    hlo_instruction_set_operand(loop, 0, changed);
    loop->shape = condition->parameters.items[0]->shape = body->parameters.items[0]->shape = body->root->shape = tuple;
    element->read->shape = shape;
    for (int32_t i = 0; i < element->count; i++) element->adds[i]->shape = shape;
    if (!init->users.count) hlo_instruction_remove(init);
    return before;
}

HloInstruction *spmd_clone_sum(const HloInstruction *sum, HloInstruction *parts, const HloShape *shape) {
    HloModule *module = parts->parent->module;
    HloInstruction *whole = hlo_instruction_clone(parts->parent, sum, shape, &parts, 1);
    if (!sum->called_count || shape->type == sum->shape->type) return whole;
    static const char *const names[] = {"x", "y"};
    HloComputation *add = hlo_computation_new_binary(module, hlo_op_text(HLO_OP_ADD), HLO_OP_ADD,
                                                     hlo_shape_scalar(module->arena, shape->type), names);
    hlo_instruction_set_called(whole, &add, 1);
    return whole;
}

// Finishes the sum after the loop, in place of the element.
static void finish(const Element *element, HloInstruction *sum, HloInstruction *before, HloInstruction *result) {
    const HloShape *shape = result->shape;
    HloArena *arena = result->parent->module->arena;
    HloInstruction *parts = hlo_instruction_new(result->parent, HLO_OP_GET_TUPLE_ELEMENT, element->read->shape,
                                                result->operands, 1, result->attributes, NULL);
    HloInstruction *whole = spmd_clone_sum(sum, parts, shape);
    if (element->dim >= 0) {
        HloCollectiveAttributes attributes = *HLO_ATTRIBUTES(sum, Collective);
        attributes.dimensions = hlo_ints(arena, &element->dim, 1);
        hlo_instruction_set_attributes(whole, &attributes);
    }
    hlo_instruction_move_after(parts, result);
    hlo_instruction_move_after(whole, parts);
    if (!spmd_is_zero(before)) {
        HloInstruction *both[2] = {before, whole};
        HloInstruction *total = hlo_instruction_new(result->parent, HLO_OP_ADD, shape, both, 2, NULL, NULL);
        hlo_instruction_move_after(total, whole);
        whole = total;
    }
    spmd_take_annotations(whole, result);  // which a result of the program has
    hlo_instruction_replace_uses(result, whole);
    hlo_instruction_remove(result);
}

// The shape of the element where nothing divides it.
static const HloShape *undivided(const Element *element) {
    const HloShape *shape = element->read->shape;
    if (element->dim < 0) return shape;
    const HloInstruction *sum = element->sums[0];
    const int64_t dim = HLO_ATTRIBUTES(sum, Collective)->dimensions.items[0];
    const int64_t parts = sum->operands[0]->shape->dims[dim] / sum->shape->dims[dim];
    return spmd_shape_resized(element->loop->parent->module->arena, shape, element->dim,
                              shape->dims[element->dim] * parts);
}

// Takes a collective out, so that what follows up to where it is added works on whole arrays.
static void remove_sum(HloInstruction *sum, const HloInstruction *add) {
    HloArena *arena = sum->parent->module->arena;
    HloInstruction *operand = sum->operands[0];
    const bool scattered = hlo_is(sum, HLO_OP_REDUCE_SCATTER);
    HloInstruction *user = sum->users.items[0];
    hlo_instruction_replace_uses(sum, operand);
    hlo_instruction_remove(sum);
    for (const HloShape *shape = operand->shape; scattered && user != add; user = user->users.items[0]) {
        if (hlo_is(user, HLO_OP_TRANSPOSE)) {
            const HloInts order = HLO_ATTRIBUTES(user, Dimensions)->dimensions;
            int64_t *dims = HLO_ARENA_NEW(arena, int64_t, shape->rank);
            for (int32_t d = 0; d < shape->rank; d++) dims[d] = shape->dims[order.items[d]];
            shape = hlo_shape_with_default_layout(arena, hlo_shape_array(arena, shape->type, dims, shape->rank));
        }
        if (hlo_is(user, HLO_OP_CONVERT)) shape = hlo_shape_with_type(arena, shape, user->shape->type);
        user->shape = shape;
    }
}

static void wait_for(Element *element) {
    HloInstruction *sum = element->sums[0], *loop = element->loop;
    // An all-reduce of rearranged elements becomes one of what is carried.
    HloInstruction *before = begin_with_zeros(element, undivided(element));
    HloInstruction *result = spmd_only_read(loop, element->index);
    assert(result); /* the caller has looked */
    finish(element, sum, before, result);
    for (int32_t i = 0; i < element->count; i++) remove_sum(element->sums[i], element->adds[i]);
}

// Whether the body of a loop adds something to an element last: a loop may have thousands of elements, and to see who
// reads one takes a look at all readers.
static bool is_added_to(const HloInstruction *loop, int32_t index) {
    const HloInstruction *root = loop->called[1]->root;
    return index < root->operand_count && hlo_is(root->operands[index], HLO_OP_ADD);
}

// Inner loops first: a sum that leaves one may be added up by the next.
void spmd_accumulate_parts(HloModule *module, HloArena *scratch) {
    int64_t count;
    HloComputation **order = hlo_module_post_order(module, scratch, &count);
    for (int64_t c = 0; c < count; c++) {
        for (HloInstruction *at = order[c]->first; at; at = at->next) {
            if (!hlo_is(at, HLO_OP_WHILE) || !spmd_loop_may_change(at)) continue;
            for (int32_t i = 0; i < at->operands[0]->operand_count; i++) {
                if (!is_added_to(at, i)) continue;
                // Again for parts along another dimension, which a second collective scatters.
                Element element = {.loop = at, .index = i};
                for (int32_t k = 0; k < MOST_SCATTERED && spmd_only_read(at, i) && can_wait(&element); k++) {
                    wait_for(&element);
                    element = (Element){.loop = at, .index = i};
                }
            }
        }
    }
}
