// SPDX-License-Identifier: Apache-2.0
// Integers that are known while a program is read: sizes that it computes from constants and from array sizes.
// Arithmetic wraps as in HLO. A small evaluator over the instructions made so far, with a cache (Importer.known) so
// that every instruction is visited once. It only supports the operations of size computations; anything else is "not
// known", never an error. Values are 64-bit integers that are wrapped to the element type after every step.
#include <assert.h>
#include <string.h>

#include "hlo/stablehlo/import/import.h"

// Lists of sizes are as long as a rank; larger arrays are data. The depth limits recursion.
enum { MOST_KNOWN = 4096, DEEPEST_KNOWN = 400 };

// The state of the recursion; cached answers keep its depth small in long chains.
typedef struct Known {
    Importer *importer;
    int depth;
} Known;

static bool find_known(Known *known, const HloInstruction *instruction, HloInts *values);

// The number, wrapped to the element type.
static int64_t wrapped(HloType type, uint64_t value) {
    if (type == HLO_PRED) return value != 0;
    const HloTypeInfo *info = hlo_type_info(type);
    if (info->bits == 64) return (int64_t)value;
    const int unused = 64 - info->bits;
    const uint64_t high = value << unused;
    return info->kind == HLO_KIND_SIGNED ? (int64_t)high >> unused : (int64_t)(high >> unused);
}

// True for arrays that may be worth knowing: integers or predicates, of fixed and small size.
static bool is_countable(const HloShape *shape) {
    return hlo_shape_is_array(shape) && (shape->type == HLO_PRED || hlo_type_is_integer(shape->type)) &&
           !hlo_shape_is_dynamic(shape) && hlo_shape_elements(shape) <= MOST_KNOWN;
}

static int64_t compare(int32_t direction, int64_t a, int64_t b) {
    switch (direction) {
        case HLO_ComparisonDirection_EQ: return a == b;
        case HLO_ComparisonDirection_NE: return a != b;
        case HLO_ComparisonDirection_GE: return a >= b;
        case HLO_ComparisonDirection_GT: return a > b;
        case HLO_ComparisonDirection_LE: return a <= b;
        default: return a < b;
    }
}

// One element of an elementwise op. Divisions by zero are not known: no size is computed this way.
static bool apply(const HloInstruction *i, const int64_t *x, int64_t *out) {
    const uint64_t a = (uint64_t)x[0], b = (uint64_t)x[1];
    const bool no_quotient = x[1] == 0 || x[1] == -1;  // the smallest number has no negative
    switch (i->opcode) {
        case HLO_OP_CONVERT:
        case HLO_OP_COPY:
        case HLO_OP_RESHAPE: *out = x[0]; return true;
        case HLO_OP_NEGATE: *out = (int64_t)(0 - a); return true;
        case HLO_OP_ABS: *out = x[0] < 0 ? (int64_t)(0 - a) : x[0]; return true;
        case HLO_OP_SIGN: *out = (x[0] > 0) - (x[0] < 0); return true;
        case HLO_OP_NOT: *out = i->shape->type == HLO_PRED ? !x[0] : ~x[0]; return true;
        case HLO_OP_ADD: *out = (int64_t)(a + b); return true;
        case HLO_OP_SUBTRACT: *out = (int64_t)(a - b); return true;
        case HLO_OP_MULTIPLY: *out = (int64_t)(a * b); return true;
        case HLO_OP_MAXIMUM: *out = x[0] > x[1] ? x[0] : x[1]; return true;
        case HLO_OP_MINIMUM: *out = x[0] < x[1] ? x[0] : x[1]; return true;
        case HLO_OP_AND: *out = x[0] & x[1]; return true;
        case HLO_OP_OR: *out = x[0] | x[1]; return true;
        case HLO_OP_XOR: *out = x[0] ^ x[1]; return true;
        case HLO_OP_DIVIDE: *out = x[1] == -1 ? (int64_t)(0 - a) : no_quotient ? 0 : x[0] / x[1]; return x[1] != 0;
        case HLO_OP_REMAINDER: *out = no_quotient ? 0 : x[0] % x[1]; return x[1] != 0;
        case HLO_OP_SELECT: *out = x[0] ? x[1] : x[2]; return true;
        case HLO_OP_CLAMP: *out = x[1] < x[0] ? x[0] : x[1] > x[2] ? x[2] : x[1]; return true;
        case HLO_OP_COMPARE: {
            const HloCompareAttributes *attributes = i->attributes;
            *out = compare(attributes->direction, x[0], x[1]);
            return true;
        }
        default: return false;
    }
}

// Evaluates element by element; scalars extend to arrays of any shape.
static bool known_elementwise(Known *known, const HloInstruction *i, int64_t count, int64_t *out) {
    HloInts operands[3];
    int64_t first[3] = {0};
    if (i->operand_count < 1 || i->operand_count > 3 || !apply(i, (int64_t[]){1, 1, 1}, first)) return false;
    for (int64_t j = 0; j < i->operand_count; j++) {
        if (!find_known(known, i->operands[j], &operands[j])) return false;
        if (operands[j].count != count && operands[j].count != 1) return false;
        // Unsigned 64-bit numbers compare and divide differently; sizes stay far below.
        for (int64_t e = 0; e < operands[j].count && i->operands[j]->shape->type == HLO_U64; e++) {
            if (operands[j].items[e] < 0) return false;
        }
    }
    for (int64_t e = 0; e < count; e++) {
        int64_t x[3] = {0}, value;
        for (int64_t j = 0; j < i->operand_count; j++) x[j] = operands[j].items[operands[j].count == 1 ? 0 : e];
        if (!apply(i, x, &value)) return false;
        out[e] = wrapped(i->shape->type, (uint64_t)value);
    }
    return true;
}

// The number of elements before one step along `dimension` (row-major order).
static int64_t elements_below(const HloShape *shape, int64_t dimension) {
    int64_t below = 1;
    for (int64_t d = dimension + 1; d < shape->rank; d++) below *= shape->dims[d];
    return below;
}

// Interleaves blocks of the operands: the elements that each has below one step of the dimensions before the joined
// one.
static bool known_concatenation(Known *known, const HloInstruction *i, int64_t count, int64_t *out) {
    const HloDimensionsAttributes *attributes = i->attributes;
    const int64_t below = elements_below(i->shape, attributes->dimensions.items[0]);
    const int64_t row = below * i->shape->dims[attributes->dimensions.items[0]];
    int64_t next = 0;
    for (int64_t j = 0; j < i->operand_count; j++) {
        HloInts part;
        if (!find_known(known, i->operands[j], &part)) return false;
        const int64_t block = below * i->operands[j]->shape->dims[attributes->dimensions.items[0]];
        assert(part.count * row == block * count && next + block <= row); /* was inferred */
        for (int64_t e = 0; e < part.count; e++) out[e / block * row + next + e % block] = part.items[e];
        next += block;
    }
    return next == row;
}

// Bounds were checked when the slice's shape was inferred.
static bool known_slice(Known *known, const HloInstruction *i, int64_t count, int64_t *out) {
    const HloSliceAttributes *attributes = i->attributes;
    const HloShape *from = i->operands[0]->shape;
    HloInts values;
    if (!find_known(known, i->operands[0], &values)) return false;
    for (int64_t e = 0; e < count; e++) {
        int64_t at = 0;
        for (int32_t d = 0; d < i->shape->rank; d++) {
            const int64_t stride = attributes->strides.count ? attributes->strides.items[d] : 1;
            const int64_t index = e / elements_below(i->shape, d) % i->shape->dims[d];
            at += (attributes->starts.items[d] + index * stride) * elements_below(from, d);
        }
        assert(at >= 0 && at < values.count); /* was inferred */
        out[e] = values.items[at];
    }
    return true;
}

// Dimension d of the result is dimension permutation[d] of the operand.
static bool known_transpose(Known *known, const HloInstruction *i, int64_t count, int64_t *out) {
    const HloDimensionsAttributes *attributes = i->attributes;
    HloInts values;
    if (!find_known(known, i->operands[0], &values)) return false;
    for (int64_t e = 0; e < count; e++) {
        int64_t at = 0;
        for (int32_t d = 0; d < i->shape->rank; d++)
            at += e / elements_below(i->shape, d) % i->shape->dims[d] *
                  elements_below(i->operands[0]->shape, attributes->dimensions.items[d]);
        out[e] = values.items[at];
    }
    return true;
}

static bool known_iota(const HloInstruction *i, int64_t count, int64_t *out) {
    const HloIotaAttributes *attributes = i->attributes;
    const int64_t below = elements_below(i->shape, attributes->dimension);
    for (int64_t e = 0; e < count; e++)
        out[e] = wrapped(i->shape->type, (uint64_t)(e / below % i->shape->dims[attributes->dimension]));
    return true;
}

static bool known_broadcast(Known *known, const HloInstruction *i, int64_t count, int64_t *out) {
    const HloDimensionsAttributes *attributes = i->attributes;
    const HloShape *shape = i->shape, *from = i->operands[0]->shape;
    HloInts values;
    if (!find_known(known, i->operands[0], &values)) return false;
    for (int64_t e = 0; e < count; e++) {
        // The index of the element in the operand: its coordinates along the dimensions that come from it.
        int64_t at = 0, stride = 1;
        for (int32_t d = from->rank - 1; d >= 0; d--) {
            at += e / elements_below(shape, attributes->dimensions.items[d]) % from->dims[d] * stride;
            stride *= from->dims[d];
        }
        out[e] = values.items[at];
    }
    return true;
}

// A result of a call is that of the function's root, whose parameters are recorded as equal to the call's operands.
static bool known_call(Known *known, const HloInstruction *call, int64_t index, bool is_element, HloInts *values) {
    if (!hlo_is(call, HLO_OP_CALL) || call->called_count != 1) return false;
    const HloInstruction *root = call->called[0]->root;
    if (!is_element) return find_known(known, root, values);
    return hlo_is(root, HLO_OP_TUPLE) && find_known(known, root->operands[index], values);
}

// The value of one instruction. A parameter recorded as equal to an outside value (import_note_same()) has its value.
static bool compute(Known *known, const HloInstruction *i, HloInts *values) {
    const int64_t *outside = hlo_int_map_find(&known->importer->same, (uintptr_t)i);
    if (outside) return find_known(known, (const HloInstruction *)(uintptr_t)*outside, values);
    if (hlo_is(i, HLO_OP_GET_TUPLE_ELEMENT)) {
        const HloTupleIndexAttributes *attributes = i->attributes;
        return known_call(known, i->operands[0], attributes->index, true, values);
    }
    if (hlo_is(i, HLO_OP_CALL)) return known_call(known, i, 0, false, values);
    if (!is_countable(i->shape)) return false;
    const int64_t count = hlo_shape_elements(i->shape);
    int64_t *out = HLO_ARENA_NEW(known->importer->arena, int64_t, count);
    *values = (HloInts){out, count};
    switch (i->opcode) {
        case HLO_OP_CONSTANT: {
            const HloConstantAttributes *constant = i->attributes;
            for (int64_t e = 0; e < count; e++) out[e] = hlo_literal_get_int64(constant->literal, e);
            return true;
        }
        case HLO_OP_GET_DIMENSION_SIZE: {
            const HloDimensionsAttributes *attributes = i->attributes;
            const HloShape *shape = i->operands[0]->shape;
            const int64_t dimension = attributes->dimensions.items[0];
            if (shape->dynamic && shape->dynamic[dimension]) return false;
            out[0] = shape->dims[dimension];
            return true;
        }
        case HLO_OP_IOTA: return known_iota(i, count, out);
        case HLO_OP_TRANSPOSE: return known_transpose(known, i, count, out);
        case HLO_OP_BROADCAST: return known_broadcast(known, i, count, out);
        case HLO_OP_CONCATENATE: return known_concatenation(known, i, count, out);
        case HLO_OP_SLICE: return known_slice(known, i, count, out);
        default: return known_elementwise(known, i, count, out);
    }
}

// Depth first, each instruction once.
static bool find_known(Known *known, const HloInstruction *instruction, HloInts *values) {
    const int64_t *found = hlo_int_map_find(&known->importer->known, (uintptr_t)instruction);
    if (found) {
        if (*found) *values = *(const HloInts *)(uintptr_t)*found;
        return *found != 0;
    }
    if (known->depth == DEEPEST_KNOWN) return false;
    known->depth++;
    const bool is_known = compute(known, instruction, values);
    known->depth--;
    const HloInts *kept = is_known ? hlo_arena_copy(known->importer->arena, values, sizeof(*values)) : NULL;
    // An instruction that was skipped because of depth may be found from elsewhere.
    if (is_known || known->depth == 0) {
        hlo_int_map_set(known->importer->arena, &known->importer->known, (uintptr_t)instruction,
                        (int64_t)(uintptr_t)kept);
    }
    return is_known;
}

bool import_known(Importer *importer, const HloInstruction *instruction, HloInts *values) {
    Known known = {.importer = importer};
    return find_known(&known, instruction, values);
}

void import_note_same(Importer *importer, const HloInstruction *inner, const HloInstruction *outer) {
    assert(inner != outer); /* it would be looked for without end */
    hlo_int_map_set(importer->arena, &importer->same, (uintptr_t)inner, (int64_t)(uintptr_t)outer);
}
