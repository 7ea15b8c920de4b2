// SPDX-License-Identifier: Apache-2.0
// Creating, replacing and recognising instructions; see support.h.
//
// Instructions are created in the computation of the instruction `like`, at the end of its list, with its metadata, so
// that errors and profiles of the new instructions still name the user's line. Shapes come from the same inference that
// the verifier uses: a pass never writes a result shape, and an impossible request is a bug, not an error of the user.
#include "hlo/pass/support.h"

#include <assert.h>
#include <string.h>

#include "hlo/ir/build/internal.h"

static HloArena *arena_of(const HloInstruction *like) {
    return like->parent->module->arena;
}

// True if an array of the shape has a layout: modules have them everywhere or nowhere.
static bool has_layout(const HloShape *shape) {
    while (hlo_shape_is_tuple(shape) && shape->element_count > 0) shape = shape->elements[0];
    return shape->layout != NULL;
}

// Attributes are copied into the module's arena, so callers may build them on their stack.
HloInstruction *hlo_pass_make(const HloInstruction *like, const HloBuildRequest *request) {
    assert(like->parent && request);
    HloModule *module = like->parent->module;
    const HloShape **shapes = HLO_ARENA_NEW(module->arena, const HloShape *, request->operand_count);
    for (int64_t i = 0; i < request->operand_count; i++) shapes[i] = request->operands[i]->shape;
    HloInferRequest infer = hlo_build_infer_request(module->arena, module, request, shapes);
    if (!request->shape && (request->type != HLO_INVALID || request->has_dims)) {
        HloType type = request->type != HLO_INVALID ? request->type : shapes[0]->type;
        infer.hint = hlo_shape_array(module->arena, type, request->dims.items, request->dims.count);
    }
    const HloShape *shape = NULL;
    HloStatus status = hlo_infer_shape(&infer, &shape);
    HLO_BUG_IF(status);
    if (has_layout(like->shape)) shape = hlo_shape_with_default_layout(module->arena, shape);
    HloFamily family = hlo_op_info(request->opcode)->family;
    HloInstruction *made =
        hlo_instruction_new(like->parent, request->opcode, shape, request->operands, request->operand_count,
                            hlo_attributes_copy(module->arena, family, request->attributes), NULL);
    if (request->called_count) hlo_instruction_set_called(made, request->called, request->called_count);
    made->metadata = like->metadata;
    return made;
}

// Makes an op whose shape follows from its operands.
static HloInstruction *make(const HloInstruction *like, HloOpcode opcode, HloInstruction *const *operands,
                            int64_t count, const void *attributes) {
    return hlo_pass_make(
        like,
        &(HloBuildRequest){.opcode = opcode, .operands = operands, .operand_count = count, .attributes = attributes});
}

HloInstruction *hlo_pass_unary(const HloInstruction *like, HloOpcode opcode, HloInstruction *x) {
    return make(like, opcode, &x, 1, NULL);
}

HloInstruction *hlo_pass_binary(const HloInstruction *like, HloOpcode opcode, HloInstruction *a, HloInstruction *b) {
    HloInstruction *operands[] = {a, b};
    return make(like, opcode, operands, 2, NULL);
}

HloInstruction *hlo_pass_select(const HloInstruction *like, HloInstruction *predicate, HloInstruction *on_true,
                                HloInstruction *on_false) {
    HloInstruction *operands[] = {predicate, on_true, on_false};
    return make(like, HLO_OP_SELECT, operands, 3, NULL);
}

HloInstruction *hlo_pass_compare(const HloInstruction *like, HloInstruction *a, HloInstruction *b, int32_t direction) {
    HloInstruction *operands[] = {a, b};
    return make(like, HLO_OP_COMPARE, operands, 2, &(HloCompareAttributes){.direction = direction});
}

HloInstruction *hlo_pass_convert(const HloInstruction *like, HloInstruction *x, HloType type) {
    return hlo_pass_make(
        like, &(HloBuildRequest){.opcode = HLO_OP_CONVERT, .operands = &x, .operand_count = 1, .type = type});
}

// Makes an op whose sizes do not follow from its operands.
static HloInstruction *sized(const HloInstruction *like, HloOpcode opcode, HloInstruction *x, HloInts dims,
                             const void *attributes) {
    return hlo_pass_make(like, &(HloBuildRequest){.opcode = opcode,
                                                  .operands = &x,
                                                  .operand_count = 1,
                                                  .attributes = attributes,
                                                  .dims = dims,
                                                  .has_dims = true});
}

HloInstruction *hlo_pass_reshape(const HloInstruction *like, HloInstruction *x, HloInts dims) {
    return sized(like, HLO_OP_RESHAPE, x, dims, &(HloReshapeAttributes){HLO_ABSENT});
}

HloInstruction *hlo_pass_transpose(const HloInstruction *like, HloInstruction *x, HloInts permutation) {
    return make(like, HLO_OP_TRANSPOSE, &x, 1, &(HloDimensionsAttributes){permutation});
}

HloInstruction *hlo_pass_broadcast(const HloInstruction *like, HloInstruction *x, HloInts dims, HloInts mapping) {
    return sized(like, HLO_OP_BROADCAST, x, dims, &(HloDimensionsAttributes){mapping});
}

HloInstruction *hlo_pass_slice(const HloInstruction *like, HloInstruction *x, HloInts starts, HloInts limits,
                               HloInts strides) {
    return make(like, HLO_OP_SLICE, &x, 1, &(HloSliceAttributes){starts, limits, strides});
}

HloInstruction *hlo_pass_slice_along(const HloInstruction *like, HloInstruction *x, int64_t dim, int64_t start,
                                     int64_t limit) {
    assert(dim >= 0 && dim < x->shape->rank);
    if (start == 0 && limit == x->shape->dims[dim]) return x;
    const int32_t rank = x->shape->rank;
    int64_t *starts = hlo_pass_ints(like, rank), *limits = hlo_pass_ints(like, rank);
    int64_t *strides = hlo_pass_ints(like, rank);
    for (int32_t d = 0; d < rank; d++) {
        starts[d] = d == dim ? start : 0;
        limits[d] = d == dim ? limit : x->shape->dims[d];
        strides[d] = 1;
    }
    HloInstruction *slice =
        hlo_pass_slice(like, x, (HloInts){starts, rank}, (HloInts){limits, rank}, (HloInts){strides, rank});
    slice->shape = hlo_shape_with_dims(arena_of(like), x->shape, slice->shape->dims, rank);
    return slice;
}

HloInstruction *hlo_pass_get(const HloInstruction *like, HloInstruction *tuple, int64_t index) {
    return make(like, HLO_OP_GET_TUPLE_ELEMENT, &tuple, 1, &(HloTupleIndexAttributes){index});
}

HloInstruction *hlo_pass_tuple(const HloInstruction *like, HloInstruction *const *operands, int64_t count) {
    return make(like, HLO_OP_TUPLE, operands, count, NULL);
}

// Makes a constant that keeps the literal, which lives in the module's arena.
static HloInstruction *constant_of(const HloInstruction *like, const HloLiteral *literal) {
    return make(like, HLO_OP_CONSTANT, NULL, 0, &(HloConstantAttributes){literal});
}

HloInstruction *hlo_pass_scalar(const HloInstruction *like, HloType type, double value) {
    HloLiteral *literal = hlo_literal_in_arena(arena_of(like), hlo_shape_scalar(arena_of(like), type));
    hlo_literal_set_double(literal, 0, value);
    return constant_of(like, literal);
}

HloInstruction *hlo_pass_integer(const HloInstruction *like, HloType type, int64_t value) {
    HloLiteral *literal = hlo_literal_in_arena(arena_of(like), hlo_shape_scalar(arena_of(like), type));
    hlo_literal_set_int64(literal, 0, value);
    return constant_of(like, literal);
}

HloInstruction *hlo_pass_splat(const HloInstruction *like, HloType type, HloInts dims, double value) {
    HloInstruction *scalar = hlo_pass_scalar(like, type, value);
    return dims.count == 0 ? scalar : hlo_pass_broadcast(like, scalar, dims, (HloInts){NULL, 0});
}

int64_t *hlo_pass_ints(const HloInstruction *like, int64_t count) {
    return HLO_ARENA_NEW(arena_of(like), int64_t, count);
}

bool hlo_pass_is_identity(HloInts dimensions) {
    for (int64_t i = 0; i < dimensions.count; i++)
        if (dimensions.items[i] != i) return false;
    return true;
}

bool hlo_pass_is_view(const HloInstruction *instruction) {
    if (hlo_is(instruction, HLO_OP_RESHAPE)) return true;
    if (!hlo_is(instruction, HLO_OP_BROADCAST)) return false;
    const HloInts mapping = HLO_ATTRIBUTES(instruction, Dimensions)->dimensions;
    for (int64_t d = 1; d < mapping.count; d++)
        if (mapping.items[d] < mapping.items[d - 1]) return false;  // transposes
    return hlo_shape_elements(instruction->shape) == hlo_shape_elements(instruction->operands[0]->shape);
}

HloInts hlo_pass_inverse(const HloInstruction *like, HloInts permutation) {
    int64_t *back = hlo_pass_ints(like, permutation.count);
    for (int64_t i = 0; i < permutation.count; i++) back[permutation.items[i]] = i;
    return (HloInts){back, permutation.count};
}

// ---------------------------------------------------------------------------------------------------------------------
// Walking

// New computations are appended after the existing ones: the count is taken once.
HloPassWalk hlo_pass_walk(const HloModule *module) {
    return (HloPassWalk){.module = module, .computation = -1, .computation_count = module->computations.count};
}

// The last instruction is recorded when a computation begins, because a pass appends after it.
HloStatus hlo_pass_each(HloModule *module, const HloPassEnv *env, HloPassRewrite *rewrite, bool *changed) {
    HloPassWalk walk = hlo_pass_walk(module);
    for (HloInstruction *i; (i = hlo_pass_next(&walk));) {
        const HloArenaMark mark = hlo_arena_mark(env->scratch);
        *changed |= rewrite(i, env);
        hlo_arena_reset(env->scratch, mark);
    }
    return HLO_SUCCESS;
}

HloInstruction *hlo_pass_next(HloPassWalk *walk) {
    while (!walk->next) {
        if (++walk->computation >= walk->computation_count) return NULL;
        assert(walk->computation <
               walk->module->computations.count); /* passes do not remove computations during a walk */
        const HloComputation *computation = walk->module->computations.items[walk->computation];
        walk->next = computation->first;
        walk->last = computation->last;
    }
    HloInstruction *at = walk->next;
    walk->next = at == walk->last ? NULL : at->next;
    return at;
}

// ---------------------------------------------------------------------------------------------------------------------
// Replacing

// Control edges order this particular instruction relative to others; halves of asynchronous ops only have a meaning
// together.
bool hlo_pass_may_replace(const HloInstruction *instruction) {
    if (instruction->control_predecessors.count || instruction->control_successors.count) return false;
    if (hlo_op_is(instruction->opcode, HLO_OP_IS_ASYNC_START | HLO_OP_IS_ASYNC_DONE | HLO_OP_IS_SIDE_EFFECT)) {
        return false;
    }
    return !hlo_instruction_has_side_effect(instruction);
}

// Moves the sharding of `old` to its replacement; false if the replacement already has a different one.
static bool move_sharding(const HloInstruction *old, HloInstruction *replacement) {
    assert(old != replacement);
    if (!old->sharding || hlo_sharding_equal(old->sharding, replacement->sharding)) return true;
    bool fixed = replacement->opcode == HLO_OP_PARAMETER || replacement->users.count > 0;
    if (replacement->sharding || fixed) return false;
    replacement->sharding = old->sharding;
    return true;
}

// Moves frontend attributes to a new replacement. Those of XLA and Shardy have a meaning for the partitioner: false if
// they would be lost.
static bool move_frontend_attributes(const HloInstruction *old, HloInstruction *replacement) {
    if (old->frontend_attributes.count == 0) return true;
    bool is_new = replacement->users.count == 0 && replacement->opcode != HLO_OP_PARAMETER;
    if (is_new && replacement->frontend_attributes.count == 0) {
        replacement->frontend_attributes = old->frontend_attributes;
        return true;
    }
    return hlo_pass_same_frontend_attributes(old, replacement) || !hlo_pass_has_partitioner_attributes(old);
}

// Keys are matched by their prefix: Shardy adds new ones from version to version.
bool hlo_pass_has_partitioner_attributes(const HloInstruction *instruction) {
    for (int64_t i = 0; i < instruction->frontend_attributes.count; i++) {
        const char *key = instruction->frontend_attributes.items[i].key;
        if (strncmp(key, "xla.", 4) == 0 || strncmp(key, "mhlo.", 5) == 0) return true;
    }
    return false;
}

// Compares in the written order: the same producer writes the same order.
bool hlo_pass_same_frontend_attributes(const HloInstruction *a, const HloInstruction *b) {
    if (a->frontend_attributes.count != b->frontend_attributes.count) return false;
    for (int64_t i = 0; i < a->frontend_attributes.count; i++) {
        const HloKeyValue *x = &a->frontend_attributes.items[i], *y = &b->frontend_attributes.items[i];
        if (strcmp(x->key, y->key) != 0 || strcmp(x->value, y->value) != 0) return false;
    }
    return true;
}

// Everything that could forbid the replacement is checked before anything is changed. A replacement without users was
// created for this purpose and takes over the old shape with its layout.
bool hlo_pass_replace(HloInstruction *old, HloInstruction *replacement) {
    assert(old != replacement);
    assert(old->parent == replacement->parent);
    if (old == replacement || !hlo_pass_may_replace(old)) return false;
    if (!hlo_shape_equal(old->shape, replacement->shape, HLO_COMPARE_IGNORE_LAYOUT)) return false;
    if (!move_sharding(old, replacement) || !move_frontend_attributes(old, replacement)) return false;
    if (replacement->users.count == 0 && replacement->opcode != HLO_OP_PARAMETER) replacement->shape = old->shape;
    hlo_instruction_replace_uses(old, replacement);
    if (!hlo_instruction_is_root(old) && old->opcode != HLO_OP_PARAMETER) hlo_instruction_remove(old);
    return true;
}

// ---------------------------------------------------------------------------------------------------------------------
// Constants

// Follows reshapes and broadcasts, which preserve a repeated value. The literal may be larger than a scalar: all of its
// elements are equal.
// Compares bits, not numbers: -0 equals 0 and NaN equals nothing, and rules are about bits.
bool hlo_pass_is_all(const HloInstruction *instruction, double value) {
    const HloLiteral *literal;
    if (!hlo_is_splat(instruction, &literal)) return false;
    HloShape scalar = {.type = literal->shape->type};
    _Alignas(16) char data[16] = {0};
    HloLiteral wanted = {.shape = &scalar, .data = data};
    hlo_literal_set_double(&wanted, 0, value);
    return memcmp(data, literal->data, (size_t)hlo_type_bytes(scalar.type)) == 0;
}

// Values are stored in 64 bits, signed ones extended: all ones are -1 there, or the largest unsigned number of the
// width.
bool hlo_pass_is_all_ones(const HloInstruction *instruction) {
    const HloLiteral *literal;
    if (!hlo_is_splat(instruction, &literal)) return false;
    HloType type = literal->shape->type;
    if (type == HLO_PRED) return hlo_literal_get_int64(literal, 0) != 0;
    if (!hlo_type_is_integer(type)) return false;
    int64_t value = hlo_literal_get_int64(literal, 0);
    int bits = hlo_type_info(type)->bits;
    if (hlo_type_kind(type) == HLO_KIND_SIGNED || bits == 64) return value == -1;
    return value == (INT64_C(1) << bits) - 1;
}

// A u64 of 2^63 or more does not fit in an int64_t, and is not recognised here.
bool hlo_pass_integer_value(const HloInstruction *instruction, int64_t *value) {
    assert(value);
    const HloLiteral *literal;
    if (!hlo_is_splat(instruction, &literal)) return false;
    HloType type = literal->shape->type;
    if (type != HLO_PRED && !hlo_type_is_integer(type)) return false;
    *value = hlo_literal_get_int64(literal, 0);
    return type != HLO_U64 || *value >= 0;
}

// ---------------------------------------------------------------------------------------------------------------------
// Inlining

// The copy of an instruction of the body.
static HloInstruction *copy_of(const HloIntMap *copies, const HloInstruction *instruction) {
    int64_t *found = hlo_int_map_find(copies, (uint64_t)instruction->id);
    HLO_BUG_IF(!found);  // operands are copied first
    return (HloInstruction *)(uintptr_t)*found;
}

// Copies the edges between instructions of the body. Parameters become arguments, which come before everything that is
// copied.
static void copy_control_edges(const HloComputation *body, const HloIntMap *copies) {
    for (const HloInstruction *i = body->first; i; i = i->next) {
        if (i->opcode == HLO_OP_PARAMETER) continue;
        for (int64_t p = 0; p < i->control_predecessors.count; p++) {
            hlo_instruction_add_control_edge(copy_of(copies, i->control_predecessors.items[p]), copy_of(copies, i));
        }
    }
}

// Copies operands before their users: in the order of the list, unless the running pass has appended to it, as where
// the bodies of two nested loops are simplified. The clone makes names unique.
HloInstruction *hlo_pass_inline(HloInstruction *like, const HloComputation *body, HloInstruction *const *arguments,
                                HloArena *scratch) {
    assert(like->parent && body->root && like->parent != body);
    HloIntMap copies = {0};
    int64_t count;
    HloInstruction **order = hlo_computation_post_order(body, scratch, &count);
    for (int64_t n = 0; n < count; n++) {
        const HloInstruction *i = order[n];
        HloInstruction *copy;
        if (i->opcode == HLO_OP_PARAMETER) {
            copy = arguments[hlo_parameter_number(i)];
        } else {
            HloInstruction **operands = HLO_ARENA_NEW(scratch, HloInstruction *, i->operand_count);
            for (int64_t k = 0; k < i->operand_count; k++) operands[k] = copy_of(&copies, i->operands[k]);
            copy = hlo_instruction_clone(like->parent, i, i->shape, operands, i->operand_count);
            // In a schedule the copies take the position of the call.
            hlo_instruction_move_before(copy, like);
        }
        hlo_int_map_set(scratch, &copies, (uint64_t)i->id, (int64_t)(uintptr_t)copy);
    }
    copy_control_edges(body, &copies);
    return copy_of(&copies, body->root);
}

bool hlo_pass_change_each(HloModule *module, const HloPassEnv *env, HloOpcode opcode,
                          bool (*change)(HloInstruction *instruction, const HloPassEnv *env)) {
    bool changed = false;
    int64_t count;
    HloComputation **order = hlo_module_post_order(module, env->scratch, &count);
    for (int64_t c = 0; c < count; c++) {
        for (HloInstruction *i = order[c]->first, *next; i; i = next) {
            next = i->next;
            if (i->opcode != opcode) continue;
            const HloArenaMark mark = hlo_arena_mark(env->scratch);
            changed |= change(i, env);
            hlo_arena_reset(env->scratch, mark);
        }
    }
    return changed;
}
