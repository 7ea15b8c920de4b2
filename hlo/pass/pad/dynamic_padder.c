// SPDX-License-Identifier: Apache-2.0
// Turns programs with arrays of bounded dynamic size into programs of static shapes (see padder.h). It corresponds to
// XLA's dynamic padder, and as there the entry computation keeps its signature: PadToStatic splits an argument of
// dynamic size into (array up to its bounds, sizes), SliceToDynamic makes a result of dynamic size.
//
// Instructions are visited operands first. Each is made static (its declared shape is kept during its visit), and its
// rule, one row of `rows`, computes the sizes of its result as a function of the sizes of its operands, and masks
// operands whose surplus elements would be mixed into results. Sizes are s32 scalars of the program itself and are kept
// in a table by (value, leaf, dimension); a dimension without an entry is static. Between computations sizes are passed
// in tuples (pack and unpack), so that loops may change them in each iteration.
//
// Invariant: elements beyond the sizes of an array are arbitrary: no rule reads them without a mask, and no result
// visible to the user contains them.
//
//   s = reduce(f32[<=8] x, 0), to_apply=add
//   ->  (f32[8] p, s32[] n) = PadToStatic(x);  s = reduce(select(iota < n, p, -0), 0), to_apply=add
#include <assert.h>
#include <string.h>

#include "hlo/analysis/contents.h"
#include "hlo/pass/pad/padder.h"

static HloStatus pad_computation(HloPadder *padder, HloComputation *computation, bool entry);

// The same shape with static dimensions; layouts are kept.
static const HloShape *static_shape(HloArena *arena, const HloShape *shape) {
    if (!hlo_shape_is_dynamic(shape)) return shape;
    HloShape *made = hlo_arena_copy(arena, shape, sizeof *shape);
    made->dynamic = NULL;
    if (shape->element_count == 0) return made;
    const HloShape **elements = HLO_ARENA_NEW(arena, const HloShape *, shape->element_count);
    for (int32_t i = 0; i < shape->element_count; i++) elements[i] = static_shape(arena, shape->elements[i]);
    made->elements = elements;
    if (hlo_shape_is_tuple(made)) hlo_shape_sum_up(arena, made);
    return made;
}

// ---- values with their sizes, as tuples

// Iterates over every dynamic dimension of a shape, in order.
#define FOR_DYNAMIC(shape, leaf, dim)                                                           \
    for (int64_t leaf = 0, leaf##_end = hlo_shape_leaf_count(shape); leaf < leaf##_end; leaf++) \
        for (int32_t dim = 0; dim < hlo_shape_leaf((shape), leaf)->rank; dim++)                 \
            if (hlo_shape_leaf((shape), leaf)->dynamic && hlo_shape_leaf((shape), leaf)->dynamic[dim])

// Makes (value, sizes of the dynamic dimensions of `declared`). UNIMPLEMENTED if the value has others. Calls and loops
// pass sizes in this form, in the order of FOR_DYNAMIC on both sides.
static HloStatus pack(const HloPadder *padder, const HloInstruction *like, HloInstruction *value,
                      const HloShape *declared, HloInstruction **packed) {
    int64_t count = 1, known = 0;
    const int64_t leaves = hlo_shape_leaf_count(value->shape);
    FOR_DYNAMIC(declared, leaf, dim) count++;
    for (int64_t i = 0; i < leaves; i++)
        for (int32_t d = 0; d < hlo_shape_leaf(value->shape, i)->rank; d++)
            known += hlo_padder_size(padder, value, i, d) != NULL;
    HloInstruction **parts = HLO_ARENA_NEW(padder->scratch, HloInstruction *, count);
    parts[0] = value;
    int64_t next = 1;
    FOR_DYNAMIC(declared, leaf, dim) {
        known -= hlo_padder_size(padder, value, leaf, dim) != NULL;
        parts[next++] = hlo_padder_any_size(padder, like, value, leaf, dim);
    }
    if (known > 0) return hlo_padder_refuse(like, "declared static, an array");
    *packed = hlo_pass_tuple(like, parts, count);
    return HLO_SUCCESS;
}

// Extracts the value of a packed tuple and records its sizes. `declared` has dynamic dimensions.
static HloInstruction *unpack(HloPadder *padder, HloInstruction *packed, const HloShape *declared) {
    HloInstruction *value = hlo_pass_get(packed, packed, 0);
    const HloShape *outer = padder->declared;
    padder->declared = declared;
    int64_t next = 1;
    FOR_DYNAMIC(declared, leaf, dim)
    hlo_padder_set_size(padder, value, leaf, dim, hlo_pass_get(packed, packed, next++));
    padder->declared = outer;
    return value;
}

// The shape of the result of pack() for a value of shape `declared`.
static const HloShape *packed_shape(const HloPadder *padder, const HloShape *declared) {
    HloArena *arena = padder->module->arena;
    int64_t count = 1;
    FOR_DYNAMIC(declared, leaf, dim) count++;
    const HloShape **parts = HLO_ARENA_NEW(arena, const HloShape *, count);
    parts[0] = static_shape(arena, declared);
    const bool layout = hlo_shape_leaf(declared, 0)->layout != NULL;
    for (int64_t i = 1; i < count; i++) {
        parts[i] = hlo_shape_scalar(arena, HLO_S32);
        if (layout) parts[i] = hlo_shape_with_default_layout(arena, parts[i]);
    }
    return hlo_shape_tuple(arena, parts, count);
}

// Makes all users in `users`, and the root, use `replacement` instead of `value`.
static void redirect(HloInstruction *value, HloInstruction *replacement, const HloInstructionVector *users) {
    for (int64_t i = 0; i < users->count; i++) hlo_instruction_replace_use(value, users->items[i], replacement);
    if (hlo_instruction_is_root(value)) hlo_computation_set_root(value->parent, replacement);
}

// A copy of the users: replacing uses changes the list that is walked.
static HloInstructionVector users_of(const HloPadder *padder, const HloInstruction *value) {
    HloInstructionVector users = {0};
    for (int64_t i = 0; i < value->users.count; i++) hlo_vector_push(padder->scratch, &users, value->users.items[i]);
    return users;
}

// ---- the entry computation

// A custom call at the boundary between dynamic and static shapes; the targets are XLA's and are rows of
// hlo/ir/custom_calls.def.
static HloInstruction *boundary_call(const HloInstruction *like, const char *target, HloInstruction *const *operands,
                                     int64_t count, const HloShape *shape) {
    const HloCustomCallAttributes attributes = {.target = target};
    return hlo_pass_make(like, &(HloBuildRequest){.opcode = HLO_OP_CUSTOM_CALL,
                                                  .operands = operands,
                                                  .operand_count = count,
                                                  .attributes = &attributes,
                                                  .shape = shape});
}

// The shape of PadToStatic's result for an array: (bounds, a size for each dimension).
static const HloShape *boundary_shape(HloArena *arena, const HloShape *shape) {
    const HloShape **parts = HLO_ARENA_NEW(arena, const HloShape *, shape->rank + 1);
    parts[0] = static_shape(arena, shape);
    for (int32_t d = 0; d < shape->rank; d++) {
        parts[d + 1] = hlo_shape_scalar(arena, HLO_S32);
        if (shape->layout) parts[d + 1] = hlo_shape_with_default_layout(arena, parts[d + 1]);
    }
    return hlo_shape_tuple(arena, parts, shape->rank + 1);
}

// The static form of an argument or of a part of it; its sizes are appended to `sizes`.
static HloInstruction *take_apart(const HloPadder *padder, HloInstruction *value, HloInstructionVector *sizes) {
    HloArena *arena = padder->module->arena;
    const HloShape *shape = value->shape;
    if (hlo_shape_is_tuple(shape)) {
        HloInstruction **parts = HLO_ARENA_NEW(padder->scratch, HloInstruction *, shape->element_count);
        for (int32_t i = 0; i < shape->element_count; i++)
            parts[i] = take_apart(padder, hlo_pass_get(value, value, i), sizes);
        return hlo_pass_tuple(value, parts, shape->element_count);
    }
    if (!hlo_shape_is_dynamic(shape)) return value;
    HloInstruction *call = boundary_call(value, "PadToStatic", &value, 1, boundary_shape(arena, shape));
    for (int32_t d = 0; d < shape->rank; d++)
        if (shape->dynamic[d]) hlo_vector_push(padder->scratch, sizes, hlo_pass_get(value, call, d + 1));
    return hlo_pass_get(value, call, 0);
}

// The parameter keeps its dynamic shape for its callers; its users read the padded array and its sizes.
static void pad_argument(HloPadder *padder, HloInstruction *parameter) {
    const HloInstructionVector users = users_of(padder, parameter);
    HloInstructionVector sizes = {0};
    HloInstruction *value = take_apart(padder, parameter, &sizes);
    int64_t next = 0;
    padder->declared = parameter->shape;
    FOR_DYNAMIC(parameter->shape, leaf, dim) hlo_padder_set_size(padder, value, leaf, dim, sizes.items[next++]);
    redirect(parameter, value, &users);
}

// A result of shape `declared`, or a part of it, from leaf number *leaf of `whole` on.
static HloInstruction *put_together(HloPadder *padder, HloInstruction *whole, HloInstruction *value,
                                    const HloShape *declared, int64_t *leaf) {
    if (hlo_shape_is_tuple(declared)) {
        HloInstruction **parts = HLO_ARENA_NEW(padder->scratch, HloInstruction *, declared->element_count);
        for (int32_t i = 0; i < declared->element_count; i++)
            parts[i] = put_together(padder, whole, hlo_pass_get(whole, value, i), declared->elements[i], leaf);
        return hlo_pass_tuple(whole, parts, declared->element_count);
    }
    const int64_t own = (*leaf)++;
    if (!hlo_shape_is_dynamic(declared)) return value;
    HloInstruction **operands = HLO_ARENA_NEW(padder->scratch, HloInstruction *, declared->rank + 1);
    operands[0] = value;
    for (int32_t d = 0; d < declared->rank; d++) operands[d + 1] = hlo_padder_any_size(padder, whole, whole, own, d);
    return boundary_call(whole, "SliceToDynamic", operands, declared->rank + 1, declared);
}

// Restores the root's shape for callers: every array that is declared dynamic goes through SliceToDynamic, with its
// sizes.
static void pad_result(HloPadder *padder, HloComputation *entry, const HloShape *declared) {
    int64_t leaf = 0;
    HloInstruction *root = entry->root;
    HloInstruction *made = put_together(padder, root, root, declared, &leaf);
    made->sharding = root->sharding;
    hlo_computation_set_root(entry, made);
}

// ---- calls

// The shapes of a computation before it was padded: parameters and results of dynamic size become tuples with sizes.
typedef struct Signature {
    const HloShape *result;
    const HloShape **parameters;
    bool padded;
} Signature;

// The computation's signature before any change, recorded at its first caller: later callers must not see the padded
// one.
static Signature *signature_of(HloPadder *padder, const HloComputation *computation) {
    const int64_t *known = hlo_int_map_find(&padder->signatures, (uint64_t)computation->id);
    if (known) return (Signature *)(uintptr_t)*known;
    Signature *signature = HLO_ARENA_NEW(padder->scratch, Signature, 1);
    const int64_t count = computation->parameters.count;
    signature->result = computation->root->shape;
    signature->parameters = HLO_ARENA_NEW(padder->scratch, const HloShape *, count);
    for (int64_t p = 0; p < count; p++) signature->parameters[p] = computation->parameters.items[p]->shape;
    hlo_int_map_set(padder->scratch, &padder->signatures, (uint64_t)computation->id, (int64_t)(uintptr_t)signature);
    return signature;
}

// Marked before it is padded: a computation with two callers must not be padded twice.
static HloStatus pad_called(HloPadder *padder, HloComputation *computation) {
    Signature *signature = signature_of(padder, computation);
    if (signature->padded) return HLO_SUCCESS;
    signature->padded = true;
    return pad_computation(padder, computation, false);
}

// Converts operand `index` to the padded form of a parameter that had shape `declared`.
static HloStatus pass_operand(HloPadder *padder, HloInstruction *op, int64_t index, const HloShape *declared) {
    HloInstruction *value = op->operands[index], *packed;
    if (!hlo_shape_is_dynamic(declared)) {
        if (hlo_padder_is_sized(padder, value))
            return hlo_padder_refuse(op, "passed to a computation that takes a static one, an operand");
        return HLO_SUCCESS;
    }
    HLO_TRY(pack(padder, op, value, declared, &packed));
    hlo_instruction_set_operand(op, index, packed);
    return HLO_SUCCESS;
}

// Pads a call of any kind: the first passed operand goes to parameter 0 of each computation, or the operands go to the
// parameters in order.
static HloStatus pad_call(HloPadder *padder, HloInstruction *op, HloInstruction **result) {
    const bool branches = hlo_is(op, HLO_OP_CONDITIONAL);
    const HloShape *declared = padder->declared;
    const Signature *last = signature_of(padder, op->called[op->called_count - 1]);
    for (int32_t k = branches; k < op->operand_count; k++) {
        const Signature *taker = branches ? signature_of(padder, op->called[k - 1]) : last;
        HLO_TRY(pass_operand(padder, op, k, taker->parameters[branches ? 0 : k]));
    }
    for (int32_t c = 0; c < op->called_count; c++) {
        HLO_TRY(pad_called(padder, op->called[c]));
        const Signature *own = signature_of(padder, op->called[c]);
        const bool loop = hlo_is(op, HLO_OP_WHILE), returns = !loop || c == op->called_count - 1;
        if ((returns && !hlo_shape_equal(own->result, last->result, HLO_COMPARE_IGNORE_LAYOUT)) ||
            (loop && !hlo_shape_equal(own->parameters[0], last->result, HLO_COMPARE_IGNORE_LAYOUT)))
            return hlo_padder_refuse(op, "in only one of its computations, an array");
    }
    padder->declared = declared;
    if (!hlo_shape_is_dynamic(last->result)) return HLO_SUCCESS;
    op->shape = packed_shape(padder, last->result);
    *result = unpack(padder, op, last->result);
    return HLO_SUCCESS;
}

// ---- tuples

// The leaves of a tuple are the leaves of its operands, in order.
static HloStatus pad_tuple(HloPadder *padder, HloInstruction *op, HloInstruction **result) {
    int64_t leaf = 0;
    for (int32_t k = 0; k < op->operand_count; k++) {
        const HloInstruction *part = op->operands[k];
        const int64_t leaves = hlo_shape_leaf_count(part->shape);
        for (int64_t i = 0; i < leaves; i++, leaf++)
            for (int32_t d = 0; d < hlo_shape_leaf(part->shape, i)->rank; d++)
                hlo_padder_set_size(padder, *result, leaf, d, hlo_padder_size(padder, part, i, d));
    }
    return HLO_SUCCESS;
}

// The element's leaves begin after those of the elements before it.
static HloStatus pad_get_tuple_element(HloPadder *padder, HloInstruction *op, HloInstruction **result) {
    assert(hlo_is(op, HLO_OP_GET_TUPLE_ELEMENT));
    const HloInstruction *tuple = op->operands[0];
    const int64_t index = HLO_ATTRIBUTES(op, TupleIndex)->index, leaves = hlo_shape_leaf_count(op->shape);
    const int64_t first = hlo_shape_first_leaf(tuple->shape, index);
    for (int64_t i = 0; i < leaves; i++)
        for (int32_t d = 0; d < hlo_shape_leaf(op->shape, i)->rank; d++)
            hlo_padder_set_size(padder, *result, i, d, hlo_padder_size(padder, tuple, first + i, d));
    return HLO_SUCCESS;
}

// The result has the sizes of the first operand.
static HloStatus pad_identity(HloPadder *padder, HloInstruction *op, HloInstruction **result) {
    hlo_padder_copy_sizes(padder, op->operands[0], *result);
    return HLO_SUCCESS;
}

// ---- the boundary's own calls, in programs that another compiler has padded, and annotations

// True if a call's scalars from `first` on are as many sizes as `array` has dimensions.
static bool has_sizes(const HloShape *array, int64_t count, const HloShape *(*part)(const HloInstruction *, int64_t),
                      const HloInstruction *call) {
    bool fits = hlo_shape_is_array(array) && count == array->rank + 1;
    for (int64_t i = 1; i < count && fits; i++)
        fits = hlo_shape_is_scalar(part(call, i)) && part(call, i)->type == HLO_S32;
    return fits && hlo_shape_equal(part(call, 0), array, HLO_COMPARE_BOUNDS);
}

// The accessors for has_sizes(): for a call that takes sizes, and for one that returns them.
static const HloShape *operand_part(const HloInstruction *call, int64_t index) {
    return call->operands[index]->shape;
}

static const HloShape *result_part(const HloInstruction *call, int64_t index) {
    return call->shape->elements[index];
}

// Undoes calls that another compiler's padder has inserted: PadToStatic returns the known array and sizes of its
// operand, SliceToDynamic sets sizes. Other calls may pass an array on unchanged; their effect on surplus elements is
// unknown.
static HloStatus pad_custom_call(HloPadder *padder, HloInstruction *op, HloInstruction **result) {
    const char *target = HLO_ATTRIBUTES(op, CustomCall)->target;
    HloInstruction *array = op->operand_count ? op->operands[0] : NULL;
    const bool apart = target && !strcmp(target, "PadToStatic"), together = target && !strcmp(target, "SliceToDynamic");
    if (apart && op->operand_count == 1 && hlo_shape_is_tuple(op->shape) &&
        has_sizes(array->shape, op->shape->element_count, result_part, op)) {
        HloInstruction **parts = HLO_ARENA_NEW(padder->scratch, HloInstruction *, array->shape->rank + 1);
        parts[0] = array;
        for (int32_t d = 0; d < array->shape->rank; d++) parts[d + 1] = hlo_padder_any_size(padder, op, array, 0, d);
        *result = hlo_pass_tuple(op, parts, array->shape->rank + 1);
        return HLO_SUCCESS;
    }
    if (together && has_sizes(op->shape, op->operand_count, operand_part, op)) {
        *result = hlo_pass_unary(op, HLO_OP_COPY, array);
        for (int32_t d = 0; d < op->shape->rank; d++)
            hlo_padder_set_size(padder, *result, 0, d,
                                hlo_padder_between(op, op->operands[d + 1], 0, op->shape->dims[d]));
        return HLO_SUCCESS;
    }
    HLO_FAIL_IF(apart || together, HLO_INVALID_ARGUMENT, "%%%s (%s): operands and results do not fit", op->name,
                target);
    if (op->operand_count == 1 && hlo_shape_equal(op->shape, array->shape, HLO_COMPARE_IGNORE_LAYOUT))
        return pad_identity(padder, op, result);
    return hlo_padder_refuse(op, "an array");
}

// ---- the rules by opcode

typedef struct PadRow {
    HloOpcode opcode;
    HloPadderRule *rule;
} PadRow;

static const PadRow rows[] = {
    {HLO_OP_TUPLE, pad_tuple},
    {HLO_OP_GET_TUPLE_ELEMENT, pad_get_tuple_element},
    {HLO_OP_COPY, pad_identity},
    {HLO_OP_OPTIMIZATION_BARRIER, pad_identity},
    {HLO_OP_ADD_DEPENDENCY, pad_identity},
    {HLO_OP_DOMAIN, pad_identity},
    {HLO_OP_CALL, pad_call},
    {HLO_OP_FUSION, pad_call},
    {HLO_OP_WHILE, pad_call},
    {HLO_OP_CONDITIONAL, pad_call},
    {HLO_OP_CUSTOM_CALL, pad_custom_call},
    {HLO_OP_BROADCAST, hlo_padder_broadcast},
    {HLO_OP_TRANSPOSE, hlo_padder_transpose},
    {HLO_OP_RESHAPE, hlo_padder_reshape},
    {HLO_OP_DYNAMIC_RESHAPE, hlo_padder_dynamic_reshape},
    {HLO_OP_SLICE, hlo_padder_slice},
    {HLO_OP_DYNAMIC_SLICE, hlo_padder_dynamic_slice},
    {HLO_OP_DYNAMIC_UPDATE_SLICE, hlo_padder_dynamic_update_slice},
    {HLO_OP_CONCATENATE, hlo_padder_concatenate},
    {HLO_OP_PAD, hlo_padder_pad},
    {HLO_OP_REVERSE, hlo_padder_reverse},
    {HLO_OP_GATHER, hlo_padder_gather},
    {HLO_OP_GET_DIMENSION_SIZE, hlo_padder_get_dimension_size},
    {HLO_OP_SET_DIMENSION_SIZE, hlo_padder_set_dimension_size},
    {HLO_OP_BITCAST_CONVERT, hlo_padder_leading_dims},
    {HLO_OP_MAP, hlo_padder_pointwise},
    {HLO_OP_REDUCE, hlo_padder_reduce},
    {HLO_OP_REDUCE_WINDOW, hlo_padder_reduce_window},
    {HLO_OP_SELECT_AND_SCATTER, hlo_padder_select_and_scatter},
    {HLO_OP_DOT, hlo_padder_dot},
    {HLO_OP_CONVOLUTION, hlo_padder_convolution},
    {HLO_OP_SORT, hlo_padder_sort},
    {HLO_OP_TOPK, hlo_padder_topk},
    {HLO_OP_SCATTER, hlo_padder_scatter},
    {HLO_OP_FFT, hlo_padder_fft},
    {HLO_OP_CHOLESKY, hlo_padder_cholesky},
    {HLO_OP_TRIANGULAR_SOLVE, hlo_padder_triangular_solve},
    {HLO_OP_ALL_REDUCE, hlo_padder_same_dims},
    {HLO_OP_ALL_GATHER, hlo_padder_same_dims},
    {HLO_OP_ALL_TO_ALL, hlo_padder_same_dims},
    {HLO_OP_REDUCE_SCATTER, hlo_padder_same_dims},
    {HLO_OP_COLLECTIVE_BROADCAST, hlo_padder_same_dims},
    {HLO_OP_COLLECTIVE_PERMUTE, hlo_padder_same_dims},
};

// The rule of an op, or NULL if arrays of dynamic size are refused by name.
static HloPadderRule *rule_of(const HloInstruction *op) {
    for (size_t i = 0; i < HLO_COUNT_OF(rows); i++)
        if (rows[i].opcode == op->opcode) return rows[i].rule;
    return hlo_op_is(op->opcode, HLO_OP_IS_ELEMENTWISE) ? hlo_padder_pointwise : NULL;
}

// Calls are visited even if caller and operands are static: their computation may contain dynamic arrays.
static bool calls_dynamic(const HloInstruction *op) {
    const bool calls = hlo_is(op, HLO_OP_CALL) || hlo_is(op, HLO_OP_FUSION) || hlo_is(op, HLO_OP_WHILE) ||
                       hlo_is(op, HLO_OP_CONDITIONAL);
    return calls && op->called_count > 0;
}

// Pads one instruction. The rule may replace it; its users, which are collected before the rule adds some, and its
// control edges move to the replacement.
static HloStatus pad_op(HloPadder *padder, HloInstruction *op) {
    bool dynamic = hlo_shape_is_dynamic(op->shape) || calls_dynamic(op);
    for (int32_t k = 0; k < op->operand_count && !dynamic; k++) dynamic = hlo_padder_is_sized(padder, op->operands[k]);
    // Ops of static operands and results may nevertheless read or set sizes.
    dynamic = dynamic || hlo_is(op, HLO_OP_SET_DIMENSION_SIZE) || hlo_is(op, HLO_OP_GET_DIMENSION_SIZE) ||
              hlo_is(op, HLO_OP_DYNAMIC_RESHAPE);
    if (!dynamic) return HLO_SUCCESS;
    HloPadderRule *rule = rule_of(op);
    if (!rule) return hlo_padder_refuse(op, "an array");
    const HloInstructionVector users = users_of(padder, op);
    HloInstruction *result = op;
    padder->declared = op->shape;
    op->shape = static_shape(padder->module->arena, op->shape);
    HLO_TRY(rule(padder, op, &result));
    if (result == op) return HLO_SUCCESS;
    redirect(op, result, &users);
    for (int64_t i = 0; i < op->control_successors.count; i++)
        hlo_instruction_add_control_edge(result, op->control_successors.items[i]);
    return HLO_SUCCESS;
}

// Pads a whole computation, operands first; parameters of the entry keep their shape for the caller, those of other
// computations become the tuples that pass_operand() makes.
static HloStatus pad_computation(HloPadder *padder, HloComputation *computation, bool entry) {
    assert(computation->root);
    const HloShape *declared = computation->root->shape;
    int64_t count;
    HloInstruction **order = hlo_computation_post_order(computation, padder->scratch, &count);
    for (int64_t i = 0; i < count; i++) {
        HloInstruction *op = order[i];
        if (!hlo_is(op, HLO_OP_PARAMETER)) {
            HLO_TRY(pad_op(padder, op));
        } else if (hlo_shape_is_dynamic(op->shape) && entry) {
            pad_argument(padder, op);
        } else if (hlo_shape_is_dynamic(op->shape)) {
            const HloInstructionVector users = users_of(padder, op);
            const HloShape *shape = op->shape;
            op->shape = packed_shape(padder, shape);
            redirect(op, unpack(padder, op, shape), &users);
        }
    }
    if (!hlo_shape_is_dynamic(declared)) return HLO_SUCCESS;
    if (entry) {
        pad_result(padder, computation, declared);
        return HLO_SUCCESS;
    }
    HloInstruction *packed;
    HLO_TRY(pack(padder, computation->root, computation->root, declared, &packed));
    hlo_computation_set_root(computation, packed);
    return HLO_SUCCESS;
}

// Sizes without a bound have no static form.
static HloStatus check_bounds(const HloModule *module) {
    for (int64_t c = 0; c < module->computations.count; c++) {
        for (const HloInstruction *i = module->computations.items[c]->first; i; i = i->next) {
            const int64_t leaves = hlo_shape_leaf_count(i->shape);
            for (int64_t leaf = 0; leaf < leaves; leaf++) {
                const HloShape *shape = hlo_shape_leaf(i->shape, leaf);
                HLO_FAIL_IF(hlo_shape_is_unbounded(shape), HLO_UNIMPLEMENTED,
                            "%%%s: a dimension of dynamic size without a bound", i->name);
                for (int32_t d = 0; d < shape->rank; d++) {
                    HLO_FAIL_IF(shape->dims[d] > INT32_MAX && shape->dynamic && shape->dynamic[d], HLO_UNIMPLEMENTED,
                                "%%%s: a dimension of dynamic size above 2^31", i->name);
                }
            }
        }
    }
    return HLO_SUCCESS;
}

static bool is_dynamic(const HloInstruction *i) {
    return hlo_shape_is_dynamic(i->shape) || hlo_is(i, HLO_OP_SET_DIMENSION_SIZE) ||
           hlo_is(i, HLO_OP_GET_DIMENSION_SIZE) || hlo_is(i, HLO_OP_DYNAMIC_RESHAPE);
}

// The value between the halves of an asynchronous pair has no place for sizes: pairs of dynamic arrays become one op,
// and so do those that call computations, which may contain any.
static void join_pairs(HloModule *module) {
    for (int64_t c = 0; c < module->computations.count; c++) {
        for (HloInstruction *at = module->computations.items[c]->first, *next; at; at = next) {
            next = at->next;
            const HloInstruction *start = hlo_pass_async_start_of(at);
            if (start && (hlo_is(start, HLO_OP_ASYNC_START) || hlo_shape_is_dynamic(start->shape)))
                (void)hlo_pass_join_async(at);  // pairs that cannot be merged are refused by name
        }
    }
}

HloStatus hlo_pass_dynamic_padder(HloModule *module, const HloPassEnv *env, bool *changed) {
    // Programs without dynamic sizes, i.e. nearly all, are not changed at all.
    if (!module->entry || !hlo_module_find(module, is_dynamic)) return HLO_SUCCESS;
    HLO_TRY(check_bounds(module));
    join_pairs(module);
    HloPadder padder = {.module = module, .scratch = env->scratch};
    HLO_TRY(pad_computation(&padder, module->entry, true));
    *changed = true;
    return HLO_SUCCESS;
}
