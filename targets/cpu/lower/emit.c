// SPDX-License-Identifier: Apache-2.0
// Emits fused loops for expressions over arrays.
//
// An expression is emitted from its result towards its operands. Each array is read through an access (which element of
// it, as sums of loop counters), and ops that only move elements change the access instead of emitting anything. Arrays
// in memory are loaded; everything else is computed in registers. If loops have no form for part of an expression,
// emission ends with the array that needs a buffer first (`blocked`); the caller makes a separate loop for it and tries
// again.
//
//     %b = f32[4,8] broadcast(f32[8] %v), dimensions={1}
//     %t = f32[4,8] transpose(f32[8,4] %m), dimensions={1,0}
//     %r = f32[4,8] add(%b, %t), stored          loop over i < 4, j < 8
//     add at (i, j) = load %v[j], load %m[j, i] = element 4 j + i, one ADD, store at 8 i + j
//
// Kinds of loops, each an entry point: elementwise (one store per result, possibly into a box of a larger array), fill,
// rows (elementwise ops with reductions over whole rows between them), reduce, and a dot without a kernel. The work is
// linear in the expression, since an array that is read the same way twice is computed once (Memo); read in two ways it
// is computed twice.
//
// A concatenation or a pad that a loop reads may have no buffer either: each loop then reads one of its pieces. Where a
// loop would read two, emission asks for a cut of its domain, and the caller makes one loop for each part.
//
// A loop may write over an operand's memory if each element is read in the iteration that overwrites it: `in_place` of
// a read buffer means that all its loads have the map of the store.
#include "targets/cpu/lower/emit.h"

#include <assert.h>
#include <string.h>

#include "hlo/base/arithmetic.h"
#include "targets/cpu/lower/access.h"

// ---- roles

typedef enum LoopForm {
    FORM_NONE,
    FORM_OPERATION,
    FORM_MOVE,
    FORM_RESHAPE,
    FORM_CONSTANT,
    FORM_IOTA,
    FORM_CONVERT,
    FORM_BITCAST_CONVERT,
    FORM_PRECISION,
    FORM_STOCHASTIC,
    FORM_MAP,
    FORM_COMPARE,
    FORM_DYNAMIC_SLICE,
} LoopForm;

typedef struct LoopRow {
    CpuLoopRole role;
    LoopForm form;
    CpuLoopOp operation;
} LoopRow;

static const LoopRow kRows[HLO_OPCODE_COUNT] = {
#define CPU_LOOP_ROW(opcode, role, form) [HLO_OP_##opcode] = {CPU_ROLE_##role, FORM_##form, CPU_OP_COUNT},
#include "targets/cpu/lower/loop_rows.def"
#undef CPU_LOOP_ROW
#define CPU_LOOP_OP(name, role, arity, result, rounds, slow, ...) \
    [HLO_OP_##name] = {CPU_ROLE_##role, FORM_OPERATION, CPU_OP_##name},
#define CPU_LOOP_TEST(name, ...)
#include "targets/cpu/isa/loop_ops.def"
#undef CPU_LOOP_OP
#undef CPU_LOOP_TEST
};

// Returns the role of a node. An opcode that loops support may still have forms that they do not; this checks for
// those.
CpuLoopRole cpu_emit_role(const CpuNode *node) {
    if (node->state == CPU_NODE_FALLBACK || node->result_count != 1) return CPU_ROLE_NONE;
    const CpuArray *result = node->results[0];
    if (!hlo_shape_is_array(result->shape)) return CPU_ROLE_NONE;
    if (node->opcode == HLO_OP_BITCAST && !result->view) return CPU_ROLE_NONE;
    if (node->opcode == HLO_OP_BITCAST_CONVERT && !result->view &&
        hlo_type_info(result->shape->type)->bits != hlo_type_info(node->operands[0]->shape->type)->bits)
        return CPU_ROLE_NONE;
    if (node->opcode == HLO_OP_MAP && !cpu_emit_can_inline_computation(node->instruction->called[0]))
        return CPU_ROLE_NONE;
    return kRows[node->opcode].role;
}

bool cpu_emit_has_pieces(const CpuNode *node) {
    if (node->state != CPU_NODE_NORMAL || node->result_count != 1 || node->results[0]->elements == 0) return false;
    if (node->opcode != HLO_OP_PAD) return node->opcode == HLO_OP_CONCATENATE;
    const HloPadding padding = HLO_ATTRIBUTES(node->instruction, Pad)->padding;
    for (int64_t d = 0; d < padding.count; d++)
        if (padding.items[d].interior) return false;
    return true;
}

bool cpu_emit_has_operation(HloOpcode opcode) {
    const LoopForm form = kRows[opcode].form;
    return form == FORM_OPERATION || form == FORM_CONVERT || form == FORM_BITCAST_CONVERT || form == FORM_COMPARE ||
           form == FORM_PRECISION || form == FORM_STOCHASTIC;
}

CpuLoopOp cpu_emit_loop_op(HloOpcode opcode) {
    if (opcode == HLO_OPCODE_COUNT) return CPU_OP_COUNT;
    return kRows[opcode].form == FORM_OPERATION ? kRows[opcode].operation : CPU_OP_COUNT;
}

// ---- the emitter

// An array's value in a register, for one access to it.
typedef struct Memo {
    const CpuArray *array;
    CpuAccess access;
    CpuValue value;
} Memo;

// One loop while it is emitted. `builder` has the program so far, `buffers` the arrays it will read and write.
typedef struct Emitter {
    HloArena *arena;
    CpuLoopBuilder *builder;
    int64_t loop_rank;
    const int64_t *loop_dims;
    HLO_VECTOR(CpuLoopBuffer) buffers;
    HLO_VECTOR(Memo) memos;
    HloIntMap memo_index;
    const int64_t *store_linear;    // the map of the first store of an elementwise loop (after its starts), else NULL
    int store_width;                // bytes per element of that store
    const int64_t *row_linear;      // element numbers of arrays of the kept dimensions in a loop over rows, else NULL
    CpuArray *blocked;              // needs a buffer before this loop can be made
    int64_t cut_dimension, cut_at;  // as in CpuEmitFailure
} Emitter;

enum { kNoValue = -1 };

static CpuValue emit(Emitter *emitter, CpuArray *array, const CpuAccess *access);

// Converts a constant followed by one factor per loop counter to a map.
static CpuIndexMap linear_map(const int64_t *linear) {
    return (CpuIndexMap){linear[0], linear + 1};
}

// Hashes an access to an array. An array that is used twice in one expression is computed once if it is read the same
// way both times; read through a transpose it is another value.
static uint64_t hash_access(const CpuArray *array, const CpuAccess *access) {
    const size_t bytes = sizeof(int64_t) * (size_t)access->rank * (size_t)(1 + access->loop_rank);
    return hlo_hash_mix(hlo_hash_bytes(access->terms, bytes), (uint64_t)array->id + 1);
}

static const Memo *find_memo(const Emitter *emitter, uint64_t hash, const CpuArray *array, const CpuAccess *access) {
    assert(array && access);
    const int64_t *found = hlo_int_map_find(&emitter->memo_index, hash);
    if (!found) return NULL;
    const Memo *memo = &emitter->memos.items[*found];
    const size_t bytes = sizeof(int64_t) * (size_t)access->rank * (size_t)(1 + access->loop_rank);
    // A scalar's access has no terms at all.
    const bool same = memo->array == array && (!bytes || memcmp(memo->access.terms, access->terms, bytes) == 0);
    return same ? memo : NULL;
}

// Remembers a value. If several have one hash, only the last is found: a lost one is computed again, which is also
// correct.
static void remember(Emitter *emitter, const CpuArray *array, const CpuAccess *access, CpuValue value) {
    hlo_int_map_set(emitter->arena, &emitter->memo_index, hash_access(array, access), emitter->memos.count);
    hlo_vector_push(emitter->arena, &emitter->memos, ((Memo){array, *access, value}));
}

// Adds a buffer and returns the number by which loads and stores refer to it.
static int new_buffer(Emitter *emitter, CpuLoopBuffer buffer) {
    hlo_vector_push(emitter->arena, &emitter->buffers, buffer);
    return (int)emitter->buffers.count - 1;
}

// Returns the buffer through which `root` is read without run-time starts. It counts as read in place until a load is
// not.
static int read_buffer(Emitter *emitter, CpuArray *root) {
    for (int64_t i = 0; i < emitter->buffers.count; i++) {
        const CpuLoopBuffer *buffer = &emitter->buffers.items[i];
        if (buffer->array == root && !buffer->written && buffer->start_count == 0) return (int)i;
    }
    return new_buffer(emitter, (CpuLoopBuffer){.array = root, .in_place = emitter->store_linear != NULL});
}

// Drops terms of loop dimensions of size 1, whose index never changes. Those of size 0 stay: an element that depends on
// one does not exist and cannot be read. Works in place and returns its argument.
static int64_t *significant(const Emitter *emitter, int64_t *linear) {
    for (int64_t k = 0; k < emitter->loop_rank; k++)
        if (emitter->loop_dims[k] == 1) linear[1 + k] = 0;
    return linear;
}

// Whether the element is read in the iteration that overwrites it, before it is overwritten: same element number, same
// width. Only then may a loop write its result over an operand.
static bool is_read_as_stored(const Emitter *emitter, const int64_t *linear, HloType type) {
    const size_t bytes = sizeof(int64_t) * (size_t)(1 + emitter->loop_rank);
    return emitter->store_linear && memcmp(linear, emitter->store_linear, bytes) == 0 &&
           hlo_type_bytes(type) == emitter->store_width;
}

// Loads an element. Its number is computed from the access and the array's own dimensions; the address is that of the
// root of its views.
static CpuValue emit_load(Emitter *emitter, CpuArray *array, const CpuAccess *access) {
    assert(array && access);
    int64_t *linear = significant(emitter, cpu_access_linear(emitter->arena, access, array->shape->dims));
    const int buffer = read_buffer(emitter, cpu_array_root(array));
    if (!is_read_as_stored(emitter, linear, array->shape->type)) emitter->buffers.items[buffer].in_place = false;
    const CpuIndexMap map = linear_map(linear);
    return cpu_loop_load(emitter->builder, buffer, array->shape->type, &map);
}

// Returns the starts of a dynamic-slice or dynamic-update-slice as offsets of the base address of an array of `shape`,
// in bytes: one index further along dimension d is `stride` bytes.
static const CpuDynamicStart *dynamic_starts(HloArena *arena, CpuArray *const *indices, const HloShape *shape,
                                             const int64_t *sizes) {
    CpuDynamicStart *starts = HLO_ARENA_NEW(arena, CpuDynamicStart, shape->rank);
    int64_t stride = hlo_type_bytes(shape->type);
    for (int64_t d = shape->rank; d-- > 0;) {
        starts[d] = (CpuDynamicStart){indices[d], shape->dims[d] - sizes[d], stride};
        stride *= shape->dims[d];
    }
    return starts;
}

// Emits a load through a separate buffer entry. The start is unknown when the loop is compiled: it moves the base
// address at run time.
static CpuValue emit_dynamic_slice(Emitter *emitter, CpuArray *array, const CpuAccess *access) {
    assert(array->producer);
    const CpuNode *node = array->producer;
    CpuArray *operand = node->operands[0];
    const int64_t *linear = significant(emitter, cpu_access_linear(emitter->arena, access, operand->shape->dims));
    const int buffer = new_buffer(
        emitter, (CpuLoopBuffer){
                     .array = cpu_array_root(operand),
                     .in_place = is_read_as_stored(emitter, linear, array->shape->type),
                     .starts = dynamic_starts(emitter->arena, node->operands + 1, operand->shape, array->shape->dims),
                     .start_count = operand->shape->rank});
    const CpuIndexMap map = linear_map(linear);
    return cpu_loop_load(emitter->builder, buffer, array->shape->type, &map);
}

// Emits a reshape's operand. A reshape changes no element numbers. If the number can be decomposed into indices of the
// operand (each a sum of loop counters), emission continues with the operand's own expression. Otherwise the operand
// needs a buffer, which is read directly by element number.
static CpuValue emit_reshape(Emitter *emitter, CpuArray *array, const CpuAccess *access) {
    assert(array && access);
    CpuArray *operand = array->producer->operands[0];
    const int64_t *linear = significant(emitter, cpu_access_linear(emitter->arena, access, array->shape->dims));
    CpuAccess inner;
    if (operand->shape->type != array->shape->type ||
        !cpu_access_from_linear(emitter->arena, linear, emitter->loop_dims, emitter->loop_rank, operand->shape->dims,
                                operand->shape->rank, &inner)) {
        emitter->blocked = operand;
        return kNoValue;
    }
    return emit(emitter, operand, &inner);
}

// Emits the index itself as a value.
static CpuValue emit_iota(Emitter *emitter, const CpuArray *array, const CpuAccess *access) {
    const int64_t dimension = HLO_ATTRIBUTES(array->producer->instruction, Iota)->dimension;
    const CpuIndexMap map = linear_map(cpu_access_row(access, dimension));
    return cpu_loop_index(emitter->builder, array->shape->type, &map);
}

// Returns the comparison. Total order differs from the usual one only for floats: it orders NaNs, and -0 comes before
// +0.
static CpuLoopOp compare_operation(const HloInstruction *instruction) {
    static const CpuLoopOp kPlain[] = {
        [HLO_ComparisonDirection_EQ] = CPU_OP_EQ, [HLO_ComparisonDirection_NE] = CPU_OP_NE,
        [HLO_ComparisonDirection_GE] = CPU_OP_GE, [HLO_ComparisonDirection_GT] = CPU_OP_GT,
        [HLO_ComparisonDirection_LE] = CPU_OP_LE, [HLO_ComparisonDirection_LT] = CPU_OP_LT};
    static const CpuLoopOp kTotal[] = {
        [HLO_ComparisonDirection_EQ] = CPU_OP_EQ_TOTAL, [HLO_ComparisonDirection_NE] = CPU_OP_NE_TOTAL,
        [HLO_ComparisonDirection_GE] = CPU_OP_GE_TOTAL, [HLO_ComparisonDirection_GT] = CPU_OP_GT_TOTAL,
        [HLO_ComparisonDirection_LE] = CPU_OP_LE_TOTAL, [HLO_ComparisonDirection_LT] = CPU_OP_LT_TOTAL};
    const HloCompareAttributes *compare = HLO_ATTRIBUTES(instruction, Compare);
    const bool total =
        compare->type == HLO_ComparisonType_TOTALORDER && hlo_type_is_float(instruction->operands[0]->shape->type);
    return (total ? kTotal : kPlain)[compare->direction];
}

// Ignores operands that an op does not have; `type` is that of the result.
CpuValue cpu_emit_operation(CpuLoopBuilder *builder, HloOpcode opcode, const HloInstruction *instruction, HloType type,
                            const CpuValue *operands) {
    const LoopRow *row = &kRows[opcode];
    switch (row->form) {
        case FORM_OPERATION: return cpu_loop_op(builder, row->operation, operands[0], operands[1], operands[2]);
        case FORM_COMPARE:
            return cpu_loop_op(builder, compare_operation(instruction), operands[0], operands[1], operands[2]);
        case FORM_CONVERT: return cpu_loop_convert(builder, type, operands[0]);
        case FORM_BITCAST_CONVERT: return cpu_loop_bitcast(builder, type, operands[0]);
        case FORM_STOCHASTIC:  // floats are rounded to nearest nevertheless
            return hlo_type_is_integer(type) ? cpu_loop_stochastic_convert(builder, type, operands[0], operands[1])
                                             : cpu_loop_convert(builder, type, operands[0]);
        case FORM_PRECISION: {
            const HloReducePrecisionAttributes *bits = HLO_ATTRIBUTES(instruction, ReducePrecision);
            return cpu_loop_reduce_precision(builder, bits->exponent_bits < 11 ? (int)bits->exponent_bits : 11,
                                             bits->mantissa_bits < 52 ? (int)bits->mantissa_bits : 52, operands[0]);
        }
        default: return operands[0];
    }
}

// Reads all operands at the result's element, except scalars that apply to all elements.
static CpuValue emit_elementwise_node(Emitter *emitter, CpuArray *array, const CpuAccess *access) {
    const CpuNode *node = array->producer;
    CpuValue few[3] = {0}, *values = few;
    if (node->operand_count > 3) values = HLO_ARENA_NEW(emitter->arena, CpuValue, node->operand_count);
    for (int32_t i = 0; i < node->operand_count; i++) {
        const bool scalar = node->operands[i]->shape->rank == 0 && array->shape->rank != 0;
        const CpuAccess none = {.loop_rank = access->loop_rank};
        values[i] = emit(emitter, node->operands[i], scalar ? &none : access);
        if (values[i] == kNoValue) return kNoValue;
    }
    if (node->opcode != HLO_OP_MAP)
        return cpu_emit_operation(emitter->builder, node->opcode, node->instruction, array->shape->type, values);
    CpuValue result;
    cpu_emit_computation(emitter->arena, emitter->builder, node->instruction->called[0], values, &result);
    return result;
}

// Emits the reduction of whole rows of the loop. Any other reduction first needs a loop of its own.
static CpuValue emit_row_reduce(Emitter *emitter, CpuArray *array, const CpuAccess *access) {
    const CpuNode *node = array->producer;
    const HloShape *operand = node->operands[0]->shape;
    const size_t bytes = sizeof(int64_t) * (size_t)(1 + emitter->loop_rank);
    const int64_t *linear = significant(emitter, cpu_access_linear(emitter->arena, access, array->shape->dims));
    CpuReduceOp op = CPU_REDUCE_ADD;
    if (!emitter->row_linear || memcmp(linear, emitter->row_linear, bytes) != 0 ||
        !cpu_emit_reduce_op(hlo_computation_binary_opcode(node->instruction->called[0]), operand->type, &op)) {
        emitter->blocked = array;
        return kNoValue;
    }
    const CpuAccess whole = cpu_access_identity(emitter->arena, operand->rank), none = {.loop_rank = whole.loop_rank};
    const CpuValue value = emit(emitter, node->operands[0], &whole);
    if (value == kNoValue) return value;
    const CpuValue init = emit(emitter, node->operands[1], &none);
    return init == kNoValue ? init : cpu_loop_reduce(emitter->builder, op, value, init);
}

// The elements of a dimension that a loop accesses: a row of an access, and the first and last of its indices.
typedef struct Extent {
    const int64_t *row;
    int64_t first, last;
} Extent;

static Extent extent_of(const Emitter *emitter, const CpuAccess *access, int64_t dimension) {
    const int64_t *row = cpu_access_row(access, dimension);
    Extent extent = {row, row[0], row[0]};
    for (int64_t k = 0; k < emitter->loop_rank; k++) {
        const int64_t length = row[1 + k] * (emitter->loop_dims[k] - 1);
        *(length < 0 ? &extent.first : &extent.last) += length;
    }
    return extent;
}

// Returns whether all of the extent is on one side of index `at`. If not, asks for a cut of the loop there, which is
// possible where the index depends on one of its counters.
static bool is_on_one_side(Emitter *emitter, CpuArray *array, Extent extent, int64_t at) {
    if (extent.last < at || extent.first >= at) return true;
    emitter->blocked = array;
    emitter->cut_at = 0;
    for (int64_t k = 0; k < emitter->loop_rank; k++) {
        const int64_t step = extent.row[1 + k];
        if (step == 0 || emitter->loop_dims[k] == 1) continue;
        if (emitter->cut_at) return emitter->cut_at = 0, false;
        emitter->cut_dimension = k;
        emitter->cut_at = step > 0 ? hlo_divide_up(at - extent.row[0], step) : (extent.row[0] - at) / -step + 1;
    }
    return false;
}

// Returns the access to an operand whose elements begin at `start` along a dimension.
static CpuAccess shifted(HloArena *arena, const CpuAccess *access, int64_t dimension, int64_t start) {
    CpuAccess inner = *access;
    const size_t bytes = sizeof(int64_t) * (size_t)access->rank * (size_t)(1 + access->loop_rank);
    inner.terms = hlo_arena_copy(arena, access->terms, bytes);
    cpu_access_row(&inner, dimension)[0] -= start;
    return inner;
}

// Emits the piece of a concatenation that has all elements of the access.
static CpuValue emit_concatenate(Emitter *emitter, CpuArray *array, const CpuAccess *access) {
    const CpuNode *node = array->producer;
    const int64_t dimension = HLO_ATTRIBUTES(node->instruction, Dimensions)->dimensions.items[0];
    const Extent extent = extent_of(emitter, access, dimension);
    int64_t start = 0;
    for (int32_t i = 0; i < node->operand_count; i++) {
        const int64_t end = start + node->operands[i]->shape->dims[dimension];
        if (!is_on_one_side(emitter, array, extent, end)) return kNoValue;
        if (extent.last < end) {
            const CpuAccess inner = shifted(emitter->arena, access, dimension, start);
            return emit(emitter, node->operands[i], &inner);
        }
        start = end;
    }
    emitter->blocked = array;
    return kNoValue;
}

// Emits the operand of a pad or the padding value, whichever all elements of the access are.
static CpuValue emit_pad(Emitter *emitter, CpuArray *array, const CpuAccess *access) {
    const CpuNode *node = array->producer;
    const HloPadding padding = HLO_ATTRIBUTES(node->instruction, Pad)->padding;
    const CpuAccess none = {.loop_rank = access->loop_rank};
    CpuAccess inner = *access;
    for (int64_t d = 0; d < padding.count; d++) {
        const Extent extent = extent_of(emitter, access, d);
        const int64_t low = padding.items[d].low, end = low + node->operands[0]->shape->dims[d];
        if (!is_on_one_side(emitter, array, extent, low) || !is_on_one_side(emitter, array, extent, end))
            return kNoValue;
        if (extent.first < low || extent.last >= end) return emit(emitter, node->operands[1], &none);
        inner = shifted(emitter->arena, &inner, d, low);
    }
    return emit(emitter, node->operands[0], &inner);
}

// Moves (transposes, broadcasts, slices, reversals) emit nothing: they change how the operand is read.
static CpuValue emit_node(Emitter *emitter, CpuArray *array, const CpuAccess *access) {
    const CpuNode *node = array->producer;
    if (node->opcode == HLO_OP_REDUCE) return emit_row_reduce(emitter, array, access);
    if (array->view) return emit_reshape(emitter, array, access);
    if (node->opcode == HLO_OP_CONCATENATE) return emit_concatenate(emitter, array, access);
    if (node->opcode == HLO_OP_PAD) return emit_pad(emitter, array, access);
    switch (kRows[node->opcode].form) {
        case FORM_MOVE: {
            const CpuAccess inner = cpu_access_through(emitter->arena, access, node);
            return emit(emitter, node->operands[0], &inner);
        }
        case FORM_CONSTANT: return cpu_loop_constant(emitter->builder, array->shape->type, array->literal->data);
        case FORM_IOTA: return emit_iota(emitter, array, access);
        case FORM_DYNAMIC_SLICE: return emit_dynamic_slice(emitter, array, access);
        default: return emit_elementwise_node(emitter, array, access);
    }
}

// Emits a constant for a read of an array without elements; its value is never used. If a reduction over nothing reads
// the array, all terms of the access may be 0, and a load would be executed once before the loop, outside the array.
// `zero` serves any type, since it is never read.
static CpuValue emit_nothing(Emitter *emitter, const CpuArray *array) {
    static const uint64_t zero[2] = {0, 0};  // the widest element
    assert(hlo_shape_elements(array->shape) == 0);
    return cpu_loop_constant(emitter->builder, array->shape->type, zero);
}

// Returns the value of array[access], or kNoValue when an array needs a buffer first.
static CpuValue emit(Emitter *emitter, CpuArray *array, const CpuAccess *access) {
    if (hlo_shape_elements(array->shape) == 0) return emit_nothing(emitter, array);
    const uint64_t hash = hash_access(array, access);
    const Memo *memo = find_memo(emitter, hash, array, access);
    if (memo) return memo->value;
    CpuArray *root = cpu_array_root(array);
    const bool load = array->materialized || (array->view && root->materialized);
    const CpuValue value = load ? emit_load(emitter, array, access) : emit_node(emitter, array, access);
    if (value == kNoValue) return value;
    remember(emitter, array, access, value);
    return value;
}

// Emits the expression of a target array: its producer's operation, although the array has a buffer.
static CpuValue emit_root(Emitter *emitter, CpuArray *array, const CpuAccess *access) {
    if (hlo_shape_elements(array->shape) == 0) return emit_nothing(emitter, array);
    return emit_node(emitter, array, access);
}

static Emitter new_emitter(HloArena *arena, CpuFeatures features, const CpuLoopDomain *domain) {
    return (Emitter){.arena = arena,
                     .builder = cpu_loop_builder_new(arena, domain, features),
                     .loop_rank = domain->outer + domain->reduced + domain->inner,
                     .loop_dims = domain->dims};
}

// Returns ABORTED if an array needs a buffer first, which `failure` then names.
static HloStatus finish(Emitter *emitter, CpuFusedLoop *result, CpuEmitFailure *failure) {
    failure->materialize = emitter->blocked;
    failure->cut_dimension = emitter->cut_dimension;
    failure->cut_at = emitter->cut_at;
    HLO_FAIL_IF(emitter->blocked, HLO_ABORTED, "an array of the loop needs a buffer");
    HLO_TRY(cpu_loop_finish(emitter->builder, &result->loop));
    result->buffers = emitter->buffers.items;
    result->buffer_count = (int32_t)emitter->buffers.count;
    return HLO_SUCCESS;
}

// ---- elementwise loops

// Returns the access of the loop's iteration to the value (restricted to the trim).
static CpuAccess value_access(HloArena *arena, int64_t rank, int64_t loop_rank, const int64_t *trim) {
    const CpuAccess access = cpu_access_new(arena, rank, loop_rank);
    for (int64_t d = 0; d < rank; d++) {
        cpu_access_row(&access, d)[0] = trim ? trim[2 * d] : 0;
        cpu_access_row(&access, d)[1 + d] = 1;
    }
    return access;
}

// Returns where in `target` the iteration stores: 1 + loop rank numbers. A box offsets and strides the result, as
// padding and concatenation need it.
static int64_t *target_linear(HloArena *arena, const CpuAccess *value, const CpuStoreBox *box, const HloShape *target) {
    assert(value && target);
    const CpuAccess access = cpu_access_new(arena, value->rank, value->loop_rank);
    for (int64_t d = 0; d < value->rank; d++) {
        const int64_t *from = cpu_access_row(value, d);
        int64_t *to = cpu_access_row(&access, d);
        const int64_t step = box && box->step ? box->step[d] : 1;
        for (int64_t k = 0; k <= value->loop_rank; k++) to[k] = step * from[k];
        if (box && box->offset) to[0] += box->offset[d];
    }
    return cpu_access_linear(arena, &access, target->dims);
}

// Returns the loop's dimensions; a scalar's loop has one dimension of size 1.
static const int64_t *elementwise_dims(HloArena *arena, const HloShape *shape, const int64_t *trim, int64_t loop_rank) {
    int64_t *dims = HLO_ARENA_NEW(arena, int64_t, loop_rank);
    dims[0] = 1;
    for (int64_t d = 0; d < shape->rank; d++) dims[d] = trim ? trim[2 * d + 1] - trim[2 * d] : shape->dims[d];
    return dims;
}

// Whether a slice's start is read from this array.
static bool starts_at(const CpuLoopBuffer *buffer, const CpuArray *array) {
    for (int64_t d = 0; d < buffer->start_count; d++)
        if (cpu_array_root(buffer->starts[d].index) == array) return true;
    return false;
}

// Whether the loop reads one of its own results from memory: either at another element than it computes, or as the
// start of a slice, which is needed before the loop begins.
static bool reads_elsewhere(const Emitter *emitter, int32_t count, CpuArray *const *values) {
    for (int64_t i = 0; i < emitter->buffers.count; i++) {
        const CpuLoopBuffer *buffer = &emitter->buffers.items[i];
        for (int32_t k = 0; k < count; k++)
            if ((!buffer->written && buffer->array == values[k]) || starts_at(buffer, values[k])) return true;
    }
    return false;
}

// Emits a loop over the elements of `count` results of one shape. Each is computed from its expression in the graph,
// down to arrays that are in memory. With `box`, the results are written into parts of a larger array; with `trim`,
// only a part of each is computed. Results may read each other only at the same element; otherwise the loop would read
// elements that are not computed yet.
HloStatus cpu_emit_elementwise(HloArena *arena, CpuFeatures features, int32_t count, CpuArray *const *values,
                               CpuArray *const *targets, const CpuStoreBox *box, const int64_t *trim,
                               CpuFusedLoop *result, CpuEmitFailure *failure) {
    const HloShape *shape = values[0]->shape;
    const int64_t loop_rank = shape->rank ? shape->rank : 1;
    const CpuLoopDomain domain = {.outer = (int)loop_rank, .dims = elementwise_dims(arena, shape, trim, loop_rank)};
    Emitter emitter = new_emitter(arena, features, &domain);
    const CpuAccess access = value_access(arena, shape->rank, loop_rank, trim);
    const CpuArray *first = targets[0] ? targets[0] : values[0];
    int64_t *linear = significant(&emitter, target_linear(arena, &access, box, first->shape));
    assert(count > 0 && (targets[0] || !box));  // a result that is not stored has no box
    if (!box || box->starts) {
        emitter.store_linear = linear;
        emitter.store_width = hlo_type_bytes(first->shape->type);
    }
    int buffer = -1;
    for (int32_t i = 0; i < count; i++) {
        const bool own = !targets[i] || values[i] == targets[i];
        const CpuValue value = own ? emit_root(&emitter, values[i], &access) : emit(&emitter, values[i], &access);
        if (value == kNoValue) break;
        if (own) remember(&emitter, values[i], &access, value);
        if (!targets[i]) continue;
        if (i == 0 || targets[i] != targets[i - 1])
            buffer = new_buffer(&emitter, (CpuLoopBuffer){.array = cpu_array_root(targets[i]),
                                                          .written = true,
                                                          .starts = box ? box->starts : NULL,
                                                          .start_count = box ? box->start_count : 0});
        if (i > 0 && box) linear = significant(&emitter, target_linear(arena, &access, &box[i], first->shape));
        const CpuIndexMap map = linear_map(linear);
        cpu_loop_store(emitter.builder, buffer, value, &map);
    }
    HLO_FAIL_IF(count > 1 && reads_elsewhere(&emitter, count, values), HLO_UNIMPLEMENTED,
                "a loop that reads other elements of its results");
    return finish(&emitter, result, failure);
}

// As no part is stored where an operand is, none reads what another has written.
HloStatus cpu_emit_parts(HloArena *arena, CpuFeatures features, int32_t count, CpuArray *value,
                         const int64_t *const *trims, CpuFusedLoop *result, CpuEmitFailure *failure) {
    const HloShape *shape = value->shape;
    const int64_t rank = shape->rank;
    assert(count > 0 && rank > 0);
    const CpuLoopDomain domain = {.outer = (int)rank, .dims = elementwise_dims(arena, shape, trims[0], rank)};
    Emitter emitter = new_emitter(arena, features, &domain);
    int buffer = -1;
    for (int32_t i = 0; i < count; i++) {
        const CpuAccess access = value_access(arena, rank, rank, trims[i]);
        const CpuValue part = emit_root(&emitter, value, &access);
        if (part == kNoValue) break;
        if (i == 0) buffer = new_buffer(&emitter, (CpuLoopBuffer){.array = cpu_array_root(value), .written = true});
        const CpuIndexMap map = linear_map(significant(&emitter, target_linear(arena, &access, NULL, shape)));
        cpu_loop_store(emitter.builder, buffer, part, &map);
    }
    return finish(&emitter, result, failure);
}

HloStatus cpu_emit_fill(HloArena *arena, CpuFeatures features, CpuArray *scalar, CpuArray *target, CpuFusedLoop *result,
                        CpuEmitFailure *failure) {
    assert(scalar && target && result && failure);
    const CpuLoopDomain domain = {.outer = 1, .dims = &target->elements};
    Emitter emitter = new_emitter(arena, features, &domain);
    const CpuAccess none = {.loop_rank = 1};
    const CpuValue value = emit(&emitter, scalar, &none);
    if (value != kNoValue) {
        static const int64_t kStride = 1;
        const CpuIndexMap map = {0, &kStride};
        const int buffer = new_buffer(&emitter, (CpuLoopBuffer){.array = target, .written = true});
        cpu_loop_store(emitter.builder, buffer, value, &map);
    }
    return finish(&emitter, result, failure);
}

// ---- reductions

// Finds the built-in reduction. There is none for two cases of complex numbers: they are ordered by comparisons of
// their parts, which no single kernel does, and 1 is not an identity of their products: (inf + 2i) * (1 + 0i) has a
// NaN, so that each factor must be multiplied in its order and by nothing else.
bool cpu_emit_reduce_op(HloOpcode opcode, HloType type, CpuReduceOp *op) {
    if (hlo_type_is_complex(type) && opcode != HLO_OP_ADD) return false;
    switch (opcode) {
        case HLO_OP_ADD: *op = CPU_REDUCE_ADD; return true;
        case HLO_OP_MULTIPLY: *op = CPU_REDUCE_MULTIPLY; return true;
        case HLO_OP_MAXIMUM: *op = CPU_REDUCE_MAXIMUM; return true;
        case HLO_OP_MINIMUM: *op = CPU_REDUCE_MINIMUM; return true;
        case HLO_OP_AND: *op = CPU_REDUCE_AND; return true;
        case HLO_OP_OR: *op = CPU_REDUCE_OR; return true;
        case HLO_OP_XOR: *op = CPU_REDUCE_XOR; return true;
        default: return false;
    }
}

// Returns row-major element numbers over the first `count` dimensions of a loop: 1 + rank numbers.
static int64_t *leading_linear(const Emitter *emitter, int64_t count) {
    int64_t *linear = HLO_ARENA_NEW(emitter->arena, int64_t, 1 + emitter->loop_rank);
    for (int64_t d = count, stride = 1; d-- > 0; stride *= emitter->loop_dims[d]) linear[1 + d] = stride;
    return significant(emitter, linear);
}

// Emits a loop over rows, the last dimensions of `row_shape`, which alternates reductions of a row and computations
// with their results. The loop's target has either one element per row or the whole rows.
HloStatus cpu_emit_rows(HloArena *arena, CpuFeatures features, CpuNode *node, CpuFusedLoop *result,
                        CpuEmitFailure *failure) {
    assert(node && result && failure);
    const HloShape *shape = node->row_shape;
    CpuArray *target = node->results[0];
    const CpuLoopDomain domain = {
        .outer = node->row_kept, .reduced = (int)shape->rank - node->row_kept, .dims = shape->dims};
    Emitter emitter = new_emitter(arena, features, &domain);
    const bool whole = target->elements == hlo_shape_elements(shape);
    emitter.row_linear = leading_linear(&emitter, node->row_kept);
    const int64_t *linear = whole ? leading_linear(&emitter, shape->rank) : emitter.row_linear;
    emitter.store_linear = whole ? linear : NULL;
    emitter.store_width = hlo_type_bytes(target->shape->type);
    CpuAccess access;
    HLO_FAIL_IF(!cpu_access_from_linear(arena, linear, shape->dims, shape->rank, target->shape->dims,
                                        target->shape->rank, &access),
                HLO_UNIMPLEMENTED, "a loop over rows of another shape");
    const CpuValue value = emit_root(&emitter, target, &access);
    if (value != kNoValue) {
        const int buffer = new_buffer(&emitter, (CpuLoopBuffer){.array = cpu_array_root(target), .written = true});
        const CpuIndexMap map = linear_map(linear);
        cpu_loop_store(emitter.builder, buffer, value, &map);
    }
    return finish(&emitter, result, failure);
}

// The order of an operand's dimensions in the domain of its reduction.
typedef struct ReduceOrder {
    CpuLoopDomain domain;
    int64_t *place;         // loop dimension of operand dimension d
    int64_t *result_terms;  // linear map of the result: 1 + loop rank numbers
} ReduceOrder;

// Makes the operand's dimension `d` the loop's next one.
static void add_dimension(ReduceOrder *order, int64_t *dims, int64_t *next, const HloShape *operand, int64_t d) {
    order->place[d] = *next;
    dims[(*next)++] = operand->dims[d];
}

// Orders dimensions. Kept dimensions after the last reduced one are inner ones. For a combiner (`inner_only`) all kept
// dimensions are inner, and at least one of each kind is needed: reductions over no dimension combine every element
// with the initial value.
static ReduceOrder order_dimensions(HloArena *arena, const HloShape *operand, HloInts reduced, bool inner_only) {
    assert(operand->rank >= reduced.count);
    int64_t *dims = HLO_ARENA_NEW(arena, int64_t, operand->rank + 2);
    ReduceOrder order = {.place = HLO_ARENA_NEW(arena, int64_t, operand->rank + 1)};
    int64_t next = 0, first_inner = 0;
    for (int64_t d = 0; d < operand->rank && !inner_only; d++)
        if (hlo_ints_contain(reduced, d) && operand->dims[d] != 1) first_inner = d + 1;
    for (int64_t d = 0; d < first_inner; d++)
        if (!hlo_ints_contain(reduced, d)) add_dimension(&order, dims, &next, operand, d);
    order.domain.outer = (int)next;
    for (int64_t d = 0; d < operand->rank; d++)
        if (hlo_ints_contain(reduced, d)) add_dimension(&order, dims, &next, operand, d);
    if (inner_only && next == 0) dims[next++] = 1;
    order.domain.reduced = (int)next - order.domain.outer;
    for (int64_t d = first_inner; d < operand->rank; d++)
        if (!hlo_ints_contain(reduced, d)) add_dimension(&order, dims, &next, operand, d);
    if (inner_only && next == order.domain.reduced) dims[next++] = 1;
    order.domain.inner = (int)next - order.domain.outer - order.domain.reduced;
    order.domain.dims = dims;
    order.result_terms = HLO_ARENA_NEW(arena, int64_t, next + 1);
    int64_t stride = 1;
    for (int64_t d = operand->rank; d-- > 0;) {
        if (hlo_ints_contain(reduced, d)) continue;
        order.result_terms[1 + order.place[d]] = stride;
        stride *= operand->dims[d];
    }
    return order;
}

// Whether every result of the computation is a sum, product, minimum, maximum … of its own pair of parameters, so that
// the order of combination does not matter (except for the rounding of sums, see docs/accuracy.md).
static bool is_associative(const HloComputation *computation, int32_t count) {
    const HloInstruction *root = computation->root;
    CpuReduceOp op;
    for (int32_t k = 0; k < count; k++) {
        const HloInstruction *part = root->opcode == HLO_OP_TUPLE ? root->operands[k] : root;
        if (part->operand_count != 2 || !cpu_emit_reduce_op(part->opcode, part->shape->type, &op)) return false;
        const HloInstruction *a = part->operands[0], *b = part->operands[1];
        if (!hlo_is(a, HLO_OP_PARAMETER) || !hlo_is(b, HLO_OP_PARAMETER)) return false;
        const int64_t low = hlo_parameter_number(a), high = hlo_parameter_number(b);
        if (low + high != 2 * k + count || low == high || (low != k && high != k)) return false;
    }
    return true;
}

// Emits the combiner once; it runs for each element. `results` receive the reduced values.
static void emit_combine(Emitter *emitter, const CpuNode *node, int32_t count, const CpuValue *values,
                         const CpuValue *inits, CpuValue *results) {
    CpuValue *parameters = HLO_ARENA_NEW(emitter->arena, CpuValue, 2 * count);
    CpuValue *combined = HLO_ARENA_NEW(emitter->arena, CpuValue, count);
    cpu_loop_combine_begin(emitter->builder, count, values, inits, parameters, parameters + count);
    if (!is_associative(node->instruction->called[0], count)) cpu_loop_combine_in_order(emitter->builder);
    cpu_emit_computation(emitter->arena, emitter->builder, node->instruction->called[0], parameters, combined);
    cpu_loop_combine_end(emitter->builder, count, combined, results);
}

// Emits a reduction with the kept dimensions outside and the reduced ones inside. One array with a built-in operation
// uses the loop's own reduction, with its lanes; all other reductions combine pairs by the operations of the
// computation.
HloStatus cpu_emit_reduce(HloArena *arena, CpuFeatures features, const CpuNode *node, CpuFusedLoop *result,
                          CpuEmitFailure *failure) {
    assert(node && result && failure);
    const int32_t count = node->operand_count / 2;
    const HloShape *operand = node->operands[0]->shape;
    const HloInts reduced = HLO_ATTRIBUTES(node->instruction, Dimensions)->dimensions;
    CpuReduceOp op = CPU_REDUCE_ADD;
    const HloOpcode opcode = hlo_computation_binary_opcode(node->instruction->called[0]);
    const bool plain = count == 1 && cpu_emit_reduce_op(opcode, operand->type, &op);
    const ReduceOrder order = order_dimensions(arena, operand, reduced, !plain);
    Emitter emitter = new_emitter(arena, features, &order.domain);
    const CpuAccess access = cpu_access_new(arena, operand->rank, emitter.loop_rank);
    for (int64_t d = 0; d < operand->rank; d++) cpu_access_row(&access, d)[1 + order.place[d]] = 1;
    const CpuAccess none = {.loop_rank = (int32_t)emitter.loop_rank};
    CpuValue *values = HLO_ARENA_NEW(arena, CpuValue, 3 * count);
    CpuValue *inits = values + count, *results = inits + count;
    for (int32_t i = 0; i < 2 * count; i++) {
        values[i] = emit(&emitter, node->operands[i], i < count ? &access : &none);
        if (values[i] == kNoValue) return finish(&emitter, result, failure);
    }
    if (plain)
        results[0] = cpu_loop_reduce(emitter.builder, op, values[0], inits[0]);
    else
        emit_combine(&emitter, node, count, values, inits, results);
    for (int32_t i = 0; i < count; i++) {
        const int buffer = new_buffer(&emitter, (CpuLoopBuffer){.array = node->results[i], .written = true});
        const CpuIndexMap map = linear_map(order.result_terms);
        cpu_loop_store(emitter.builder, buffer, results[i], &map);
    }
    return finish(&emitter, result, failure);
}

// ---- matrix products without a kernel

// Loads an element of an array of this view, for an access to its dimensions.
static CpuValue load_view(Emitter *emitter, int buffer, HloType type, const CpuView *view, const CpuAccess *access) {
    int64_t *linear = HLO_ARENA_NEW(emitter->arena, int64_t, 1 + emitter->loop_rank);
    for (int64_t d = 0; d < view->rank; d++)
        for (int64_t k = 0; k <= emitter->loop_rank; k++) linear[k] += view->strides[d] * cpu_access_row(access, d)[k];
    const CpuIndexMap map = linear_map(linear);
    return cpu_loop_load(emitter->builder, buffer, type, &map);
}

// Returns the accesses to both sides. Loop dimensions: batch, free of the left side, free of the right side,
// contracting.
static void dot_accesses(const HloDotAttributes *dot, const CpuView *views, CpuAccess *a, CpuAccess *b) {
    int64_t place = 1;
    for (int64_t i = 0; i < dot->lhs_batch.count; i++, place++) {
        cpu_access_row(a, dot->lhs_batch.items[i])[place] = 1;
        cpu_access_row(b, dot->rhs_batch.items[i])[place] = 1;
    }
    for (int64_t d = 0; d < views[0].rank; d++)
        if (!hlo_ints_contain(dot->lhs_batch, d) && !hlo_ints_contain(dot->lhs_contracting, d))
            cpu_access_row(a, d)[place++] = 1;
    for (int64_t d = 0; d < views[1].rank; d++)
        if (!hlo_ints_contain(dot->rhs_batch, d) && !hlo_ints_contain(dot->rhs_contracting, d))
            cpu_access_row(b, d)[place++] = 1;
    for (int64_t i = 0; i < dot->lhs_contracting.count; i++, place++) {
        cpu_access_row(a, dot->lhs_contracting.items[i])[place] = 1;
        cpu_access_row(b, dot->rhs_contracting.items[i])[place] = 1;
    }
}

// Rounds to bf16, nearest even, as an f32 again.
static CpuValue rounded(CpuLoopBuilder *builder, CpuValue x) {
    return cpu_loop_convert(builder, HLO_F32, cpu_loop_convert(builder, HLO_BF16, x));
}

static CpuValue sum(CpuLoopBuilder *builder, bool contracts, HloType type, CpuValue value) {
    static const uint64_t kZero[2] = {0, 0};
    if (!contracts) return value;
    return cpu_loop_reduce(builder, CPU_REDUCE_ADD, value, cpu_loop_constant(builder, type, kZero));
}

enum { kMaxParts = 3 };

// Splits an f32 into a sum of bf16: each part is the rounded remainder after the ones before it.
static void split(CpuLoopBuilder *builder, CpuValue x, int parts, CpuValue *part) {
    for (int i = 0; i < parts; i++) {
        part[i] = rounded(builder, x);
        x = cpu_loop_op(builder, CPU_OP_SUBTRACT, x, part[i], 0);
    }
}

// Computes the sum of products in three or six passes over bf16 parts, as hlo/eval/product.c does: the contributions of
// the lower parts are summed separately, the smallest products first, and dropped if the sum is NaN.
static CpuValue sum_of_passes(CpuLoopBuilder *builder, CpuPrecision precision, CpuValue x, CpuValue y, bool contracts) {
    static const uint64_t kZero[2] = {0, 0};
    const int parts = precision == CPU_PRECISION_BF16_6 ? 3 : 2;
    CpuValue a[kMaxParts], b[kMaxParts], low = -1;
    split(builder, x, parts, a), split(builder, y, parts, b);
    for (int both = parts - 1; both > 0; both--)
        for (int i = 0; i <= both; i++) {
            const CpuValue product = cpu_loop_op(builder, CPU_OP_MULTIPLY, a[i], b[both - i], 0);
            low = low < 0 ? product : cpu_loop_op(builder, CPU_OP_ADD, low, product, 0);
        }
    low = sum(builder, contracts, HLO_F32, low);
    const CpuValue high = sum(builder, contracts, HLO_F32, cpu_loop_op(builder, CPU_OP_MULTIPLY, a[0], b[0], 0));
    const CpuValue is_number = cpu_loop_op(builder, CPU_OP_EQ, low, low, 0);
    low = cpu_loop_op(builder, CPU_OP_SELECT, is_number, low, cpu_loop_constant(builder, HLO_F32, kZero));
    return cpu_loop_op(builder, CPU_OP_ADD, low, high, 0);
}

// Multiplies and sums; narrow floats are summed in f32 and rounded once.
static CpuValue multiply_and_sum(CpuLoopBuilder *builder, HloType type, CpuPrecision precision, CpuValue x, CpuValue y,
                                 bool contracts) {
    static const uint64_t kZero[2] = {0, 0};
    const HloType sum_type = hlo_type_is_float(type) && hlo_type_bytes(type) < 4 ? HLO_F32 : type;
    x = cpu_loop_convert(builder, sum_type, x);
    y = cpu_loop_convert(builder, sum_type, y);
    if (type == HLO_PRED) {
        const CpuValue both = cpu_loop_op(builder, CPU_OP_AND, x, y, 0);
        return contracts ? cpu_loop_reduce(builder, CPU_REDUCE_OR, both, cpu_loop_constant(builder, sum_type, kZero))
                         : both;
    }
    if (sum_type == HLO_F32 && (precision == CPU_PRECISION_BF16_3 || precision == CPU_PRECISION_BF16_6))
        return cpu_loop_convert(builder, type, sum_of_passes(builder, precision, x, y, contracts));
    if (sum_type == HLO_F32 && precision == CPU_PRECISION_BF16_1) x = rounded(builder, x), y = rounded(builder, y);
    const CpuValue product = cpu_loop_op(builder, CPU_OP_MULTIPLY, x, y, 0);
    return cpu_loop_convert(builder, type, sum(builder, contracts, sum_type, product));
}

// Serves types and precisions that have no matrix kernel: a loop over the result's elements with a reduction over the
// contracting dimensions. Operands are read in place, through their views.
HloStatus cpu_emit_dot(HloArena *arena, CpuFeatures features, const CpuNode *node, CpuPrecision precision,
                       CpuFusedLoop *result, CpuEmitFailure *failure) {
    assert(node && result && failure);
    const HloDotAttributes *dot = HLO_ATTRIBUTES(node->instruction, Dot);
    const CpuView *views = node->views;
    const int64_t kept = views[2].rank, contracted = dot->lhs_contracting.count;
    int64_t *dims = HLO_ARENA_NEW(arena, int64_t, kept + contracted + 1);
    for (int64_t i = 0; i < kept; i++) dims[i] = views[2].dims[i];
    for (int64_t i = 0; i < contracted; i++) dims[kept + i] = views[0].dims[dot->lhs_contracting.items[i]];
    const bool scalar = kept + contracted == 0;
    if (scalar) dims[0] = 1;
    const CpuLoopDomain domain = {.outer = (int)kept + scalar, .reduced = (int)contracted, .dims = dims};
    Emitter emitter = new_emitter(arena, features, &domain);
    CpuAccess a = cpu_access_new(arena, views[0].rank, emitter.loop_rank);
    CpuAccess b = cpu_access_new(arena, views[1].rank, emitter.loop_rank);
    dot_accesses(dot, views, &a, &b);
    CpuArray *const *operands = node->operands;
    const CpuValue x = load_view(&emitter, read_buffer(&emitter, cpu_array_root(operands[0])), operands[0]->shape->type,
                                 &views[0], &a);
    const CpuValue y = load_view(&emitter, read_buffer(&emitter, cpu_array_root(operands[1])), operands[1]->shape->type,
                                 &views[1], &b);
    const CpuValue value =
        multiply_and_sum(emitter.builder, node->results[0]->shape->type, precision, x, y, contracted > 0);
    const int buffer = new_buffer(&emitter, (CpuLoopBuffer){.array = node->results[0], .written = true});
    int64_t *linear = HLO_ARENA_NEW(arena, int64_t, 1 + emitter.loop_rank);
    for (int64_t i = 0; i < kept; i++) linear[1 + i] = views[2].strides[i];
    const CpuIndexMap map = linear_map(linear);
    cpu_loop_store(emitter.builder, buffer, value, &map);
    return finish(&emitter, result, failure);
}
