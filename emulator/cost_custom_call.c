// SPDX-License-Identifier: Apache-2.0
// The cost of custom calls. The table of known calls (hlo/ir/custom_calls.def) records how a call is partitioned, which
// tells enough about its work. Kernels that users write themselves declare their cost in their configuration.
#include <assert.h>
#include <math.h>
#include <string.h>

#include "emulator/cost.h"
#include "emulator/layout/layout.h"
#include "hlo/analysis/loop.h"
#include "hlo/base/json.h"
#include "hlo/base/map.h"
#include "hlo/eval/known.h"
#include "hlo/ir/attributes.h"
#include "hlo/ir/custom_call.h"
#include "hlo/stablehlo/mosaic/mosaic.h"

// Loops and tuples between a kernel and the constant that it reads.
#define MOST_STEPS_TO_CONSTANT 64
// Elements of a table that is evaluated: kernels keep theirs in scalar memory, of which there is a megabyte at most.
#define MOST_TABLE_ELEMENTS (1 << 18)

bool emu_call_is_annotation(const HloInstruction *call) {
    const HloCustomCallKind kind = hlo_custom_call_kind(call);
    return hlo_custom_call_returns_operand(call) || hlo_custom_call_is_region_boundary(call) || kind == HLO_CALL_SINK ||
           kind == HLO_CALL_INSPECT;
}

HloOpcode emu_call_opcode(const HloInstruction *call) {
    assert(hlo_is(call, HLO_OP_CUSTOM_CALL));
    switch (hlo_custom_call_kind(call)) {
        case HLO_CALL_TOPK: return HLO_OP_TOPK;
        // All of them are of the order n^3.
        case HLO_CALL_BATCHED: return HLO_OP_CHOLESKY;
        default: return hlo_custom_call_opcode(call);
    }
}

// A member of the estimate; 0 if it is missing or invalid.
static double estimated(const HloJsonValue *estimate, const char *name) {
    const HloJsonValue *value = hlo_json_get(estimate, name);
    return value && value->kind == HLO_JSON_NUMBER && value->number > 0 ? value->number : 0;
}

bool emu_call_estimate(const HloInstruction *call, EmuCallEstimate *estimate) {
    const char *config = call->backend_config;
    // The configuration also holds the kernel's program, often 100 kB: this test decides most calls without parsing it.
    if (call->opcode != HLO_OP_CUSTOM_CALL || !config || !strstr(config, "cost_estimate")) return false;
    HloArena *arena = hlo_arena_new();
    HloJsonValue *root = NULL;
    HloStatus status = arena ? hlo_json_parse(arena, "backend_config", config, strlen(config), &root) : NULL;
    // A configuration that is not JSON gives no costs; the program may still be valid.
    if (status) hlo_status_free(status);
    const HloJsonValue *found = hlo_json_get(hlo_json_get(root, "custom_call_config"), "cost_estimate");
    if (found)
        *estimate = (EmuCallEstimate){estimated(found, "flops"), estimated(found, "transcendentals"),
                                      estimated(found, "bytes_accessed")};
    hlo_arena_free(arena);
    return found != NULL;
}

// ---- the program of a kernel

// The tuple that passes a barrier as its only operand, or the value itself.
static const HloInstruction *before_barriers(const HloInstruction *value) {
    while (hlo_is(value, HLO_OP_OPTIMIZATION_BARRIER) && value->operand_count == 1) value = value->operands[0];
    return value;
}

// The value of a table of integers that the program computes from constants; NULL for other arrays.
static const HloLiteral *known_table(HloArena *arena, const HloInstruction *value) {
    const HloShape *shape = value->shape;
    if (!hlo_shape_is_array(shape) || !hlo_type_is_integer(shape->type)) return NULL;
    return hlo_shape_elements(shape) <= MOST_TABLE_ELEMENTS ? hlo_known_value(arena, value, true) : NULL;
}

// The value of an operand that does not depend on data, seen through copies, barriers, and states of loops that do not
// change, and of a value of one element also through changes of its shape; NULL if there is none.
static const HloLiteral *constant_of(HloArena *arena, const HloInstruction *value) {
    for (int i = 0; i < MOST_STEPS_TO_CONSTANT && value; i++) {
        switch (value->opcode) {
            case HLO_OP_CONSTANT: return hlo_constant_literal(value);
            case HLO_OP_RESHAPE:
            case HLO_OP_BROADCAST:
                if (hlo_shape_elements(value->shape) != 1) return known_table(arena, value);
                value = value->operands[0];
                continue;
            case HLO_OP_COPY:
            case HLO_OP_DOMAIN: value = value->operands[0]; continue;
            case HLO_OP_GET_TUPLE_ELEMENT: break;
            default: return known_table(arena, value);
        }
        const int64_t index = HLO_ATTRIBUTES(value, TupleIndex)->index;
        const HloInstruction *whole = before_barriers(value->operands[0]);
        const HloInstruction *loop = hlo_is(whole, HLO_OP_PARAMETER) ? hlo_loop_around(whole) : whole;
        const bool in_loop = loop && hlo_is(loop, HLO_OP_WHILE);
        if (in_loop && !hlo_loop_element_is_invariant(loop, index)) return NULL;
        const HloInstruction *tuple = before_barriers(in_loop ? loop->operands[0] : whole);
        const bool passes = hlo_is(tuple, HLO_OP_TUPLE) || hlo_is(tuple, HLO_OP_OPTIMIZATION_BARRIER);
        if (!passes || index >= tuple->operand_count) return NULL;
        value = tuple->operands[index];
    }
    return NULL;
}

// The opcode that an operation of a kernel costs as much as.
static HloOpcode kernel_opcode(const char *name) {
    static const struct {
        const char *name;
        HloOpcode opcode;
    } rows[] = {
#define EMU_KERNEL_OP(name, opcode) {name, HLO_OP_##opcode},
#include "emulator/kernel_ops.def"
#undef EMU_KERNEL_OP
    };
    for (size_t i = 0; i < HLO_COUNT_OF(rows); i++)
        if (!strcmp(rows[i].name, name)) return rows[i].opcode;
    return HLO_OP_ADD;
}

// Elements of a register, along the last dimension and the one before.
#define LANES 128
#define SUBLANES 8

// Elements of a vector, padded as an array of its shape would be. Where its registers are equal along a dimension,
// those of one row of registers.
static double padded_elements(const EmuChip *chip, const HloShape *shape, uint64_t equal_along) {
    double registers = (double)emu_padded_bytes(chip, shape) * 8 / hlo_type_info(shape->type)->bits;
    for (int64_t i = 0; i < shape->rank && i < 64; i++) {
        const int64_t least = i == shape->rank - 1 ? LANES : i == shape->rank - 2 ? SUBLANES : 1;
        if (equal_along >> i & 1 && shape->dims[i] > least) registers /= ceil((double)shape->dims[i] / (double)least);
    }
    return registers;
}

static void add_operation(const EmuChip *chip, const MosaicOperation *operation, EmuCost *cost) {
    if (strcmp(operation->name, "tpu.matmul") != 0) {
        // Reductions work on their operand, everything else on its result.
        const HloShape *shape = operation->result;
        if (!strcmp(operation->name, "vector.multi_reduction") && operation->operands[0])
            shape = operation->operands[0];
        if (!shape) return;
        emu_kernel_vector_work(chip, kernel_opcode(operation->name),
                               operation->count * padded_elements(chip, shape, operation->equal_along), cost);
        cost->other_flops += operation->count * (double)hlo_shape_elements(shape);
        return;
    }
    const HloDotAttributes dot = {.lhs_contracting = operation->left_contracting,
                                  .rhs_contracting = operation->right_contracting,
                                  .lhs_batch = operation->left_batch,
                                  .rhs_batch = operation->right_batch};
    EmuProduct product = emu_product_of_shapes(chip, operation->operands[0], operation->operands[1], &dot);
    product.is_divided = false;  // authors lay their blocks out for the array
    product.is_kernel = true;
    cost->matrix_flops += operation->count * 2 * product.batch * product.rows * product.depth * product.columns;
    cost->matrix_seconds += operation->count * emu_product_seconds(chip, &product);
}

// The bytes of a kernel's program in the configuration of its call.
static unsigned char *program_of(HloArena *arena, const char *config, size_t *size) {
    HloJsonValue *root = NULL;
    HloStatus status = hlo_json_parse(arena, "backend_config", config, strlen(config), &root);
    hlo_status_free(status);  // a configuration that is not JSON holds no program
    const HloJsonValue *body = status ? NULL : hlo_json_get(hlo_json_get(root, "custom_call_config"), "body");
    if (!body || body->kind != HLO_JSON_STRING) return NULL;
    return mosaic_decode_base64(arena, body->string, body->length, size);
}

// ---- bodies that were counted

// A body, with what decides its work besides the configuration of the call, and the work.
typedef struct Body {
    struct Body *next;            // with the same configuration
    const HloLiteral **operands;  // NULL: not constant
    const HloShape **shapes;      // of the operands, then of the results
    int64_t operand_count, shape_count;
    bool is_read, is_complete;
    EmuCost cost;  // with systolic arrays that reach their peak
} Body;

struct EmuBodies {
    HloArena *arena;
    HloStringMap by_configuration;
};

EmuBodies *emu_bodies_new(HloArena *arena) {
    EmuBodies *bodies = HLO_ARENA_NEW(arena, EmuBodies, 1);
    bodies->arena = arena;
    return bodies;
}

// The body of a call, not counted yet.
static Body body_of_call(HloArena *arena, const HloInstruction *call) {
    const HloShape *result = call->shape;
    const bool has_several = hlo_shape_is_tuple(result);
    const int64_t operands = call->operand_count, results = has_several ? result->element_count : 1;
    Body body = {.operands = HLO_ARENA_NEW(arena, const HloLiteral *, operands),
                 .shapes = HLO_ARENA_NEW(arena, const HloShape *, operands + results),
                 .operand_count = operands,
                 .shape_count = operands + results};
    for (int64_t i = 0; i < operands; i++) body.operands[i] = constant_of(arena, call->operands[i]);
    for (int64_t i = 0; i < operands; i++) body.shapes[i] = call->operands[i]->shape;
    for (int64_t i = 0; i < results; i++) body.shapes[operands + i] = has_several ? result->elements[i] : result;
    return body;
}

static bool same_operand(const HloLiteral *a, const HloLiteral *b) {
    return a && b ? hlo_literal_equal(a, b) : a == b;
}

static bool same_work(const Body *a, const Body *b) {
    if (a->operand_count != b->operand_count || a->shape_count != b->shape_count) return false;
    for (int64_t i = 0; i < a->shape_count; i++)
        if (!hlo_shape_equal(a->shapes[i], b->shapes[i], HLO_COMPARE_ALL)) return false;
    for (int64_t i = 0; i < a->operand_count; i++)
        if (!same_operand(a->operands[i], b->operands[i])) return false;
    return true;
}

// Keeps a body. Its operands were computed in memory that is given back.
static const Body *keep_body(EmuBodies *bodies, const char *config, const Body *body) {
    Body *kept = HLO_ARENA_NEW(bodies->arena, Body, 1);
    *kept = *body;
    kept->operands = HLO_ARENA_NEW(bodies->arena, const HloLiteral *, body->operand_count);
    kept->shapes = HLO_ARENA_NEW(bodies->arena, const HloShape *, body->shape_count);
    for (int64_t i = 0; i < body->operand_count; i++)
        if (body->operands[i]) kept->operands[i] = hlo_literal_copy_to_arena(bodies->arena, body->operands[i]);
    for (int64_t i = 0; i < body->shape_count; i++) kept->shapes[i] = body->shapes[i];
    kept->next = hlo_string_map_set(bodies->arena, &bodies->by_configuration, config, strlen(config), kept);
    return kept;
}

// Counts the work of a body. A program that cannot be read (another version, or damaged) leaves the call to its
// estimate. A body without any work is a placeholder, for programs that are only timed.
static void count_body(HloArena *arena, const EmuChip *chip, const char *config, Body *body) {
    size_t size;
    MosaicWork work = {0};
    const unsigned char *bytes = program_of(arena, config, &size);
    HloStatus status = bytes ? mosaic_count(arena, bytes, size, body->operands, body->operand_count, body->shapes,
                                            body->shape_count, &work)
                             : NULL;
    body->is_read = bytes && !status && (work.operation_count > 0 || !work.is_complete);
    body->is_complete = body->is_read && work.is_complete;
    hlo_status_free(status);
    if (!body->is_read) return;
    EmuChip peak = *chip;
    peak.mxu_efficiency = 1;
    for (int64_t i = 0; i < work.operation_count; i++) add_operation(&peak, &work.operations[i], &body->cost);
    for (int64_t i = 0; work.moves_are_complete && i < work.transfer_count; i++)
        body->cost.moved_bytes += work.transfers[i].count * (double)emu_padded_bytes(chip, work.transfers[i].block);
}

// The arguments of emu_call_body() for the part that may run out of memory.
typedef struct BodyCall {
    HloArena *arena;
    const EmuChip *chip;
    const HloInstruction *call;
    EmuBodies *bodies;
    const Body *body;
} BodyCall;

static HloStatus find_body(void *argument) {
    BodyCall *find = argument;
    const char *config = find->call->backend_config;
    Body body = body_of_call(find->arena, find->call);
    find->body = hlo_string_map_get(&find->bodies->by_configuration, config, strlen(config));
    while (find->body && !same_work(find->body, &body)) find->body = find->body->next;
    if (find->body) return NULL;
    count_body(find->arena, find->chip, config, &body);
    find->body = keep_body(find->bodies, config, &body);
    return NULL;
}

bool emu_call_body(const EmuChip *chip, const HloInstruction *call, EmuBodies *bodies, EmuCost *cost,
                   bool *is_complete) {
    assert(chip && call && bodies && cost && is_complete);
    const char *config = call->backend_config;
    *is_complete = false;
    if (call->opcode != HLO_OP_CUSTOM_CALL || !config || !strstr(config, "custom_call_config")) return false;
    BodyCall find = {.arena = hlo_arena_new(), .chip = chip, .call = call, .bodies = bodies};
    HloStatus status = find.arena ? hlo_protect(find_body, &find) : NULL;
    const Body *body = status ? NULL : find.body;
    hlo_status_free(status);
    hlo_arena_free(find.arena);
    if (!body || !body->is_read) return false;
    cost->matrix_flops += body->cost.matrix_flops;
    cost->other_flops += body->cost.other_flops;
    cost->vector_operations += body->cost.vector_operations;
    cost->transcendental_operations += body->cost.transcendental_operations;
    cost->matrix_seconds += body->cost.matrix_seconds / chip->mxu_efficiency;
    cost->moved_bytes += body->cost.moved_bytes;
    *is_complete = body->is_complete;
    return true;
}
