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
#include "hlo/base/vector.h"
#include "hlo/eval/eval.h"
#include "hlo/eval/known.h"
#include "hlo/ir/attributes.h"
#include "hlo/ir/custom_call.h"
#include "hlo/stablehlo/mosaic/mosaic.h"

// Loops and tuples between a kernel and the constant that it reads.
#define MOST_STEPS_TO_CONSTANT 64
// Elements of a table that is evaluated: kernels keep theirs in scalar memory, of which there is a megabyte at most.
#define MOST_TABLE_ELEMENTS (1 << 18)
// Partitions whose tables are looked at. Of more, every so many-th is: places on the axes of a mesh repeat.
#define MOST_PARTITIONS 1024
// For what is the same on all partitions.
#define ANY_PARTITION (-1)

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

// The value of a table of integers that the program computes from constants, and on a partition also from its number;
// NULL for other arrays.
static const HloLiteral *known_table(HloArena *arena, const HloInstruction *value, int64_t partition) {
    const HloShape *shape = value->shape;
    if (!hlo_shape_is_array(shape) || !hlo_type_is_integer(shape->type)) return NULL;
    if (hlo_shape_elements(shape) > MOST_TABLE_ELEMENTS) return NULL;
    return partition == ANY_PARTITION ? hlo_known_value(arena, value, true)
                                      : hlo_known_value_on(arena, value, true, partition);
}

// What an element of a tuple is, where that is the same in every iteration of a loop whose state the tuple is; NULL if
// it is not known.
static const HloInstruction *element_of(const HloInstruction *element) {
    const int64_t index = HLO_ATTRIBUTES(element, TupleIndex)->index;
    const HloInstruction *whole = before_barriers(element->operands[0]);
    const HloInstruction *loop = hlo_is(whole, HLO_OP_PARAMETER) ? hlo_loop_around(whole) : whole;
    const bool in_loop = loop && hlo_is(loop, HLO_OP_WHILE);
    if (in_loop && !hlo_loop_element_is_invariant(loop, index)) return NULL;
    const HloInstruction *tuple = before_barriers(in_loop ? loop->operands[0] : whole);
    const bool passes = hlo_is(tuple, HLO_OP_TUPLE) || hlo_is(tuple, HLO_OP_OPTIMIZATION_BARRIER);
    return passes && index < tuple->operand_count ? tuple->operands[index] : NULL;
}

// Goes from a value to what it is a copy of: through copies, barriers, and states of loops that do not change. NULL if
// that is not known.
static const HloInstruction *origin_of(const HloInstruction *value) {
    for (int i = 0; i < MOST_STEPS_TO_CONSTANT && value; i++) {
        if (hlo_is(value, HLO_OP_GET_TUPLE_ELEMENT)) {
            value = element_of(value);
        } else if (hlo_is(value, HLO_OP_COPY) || hlo_is(value, HLO_OP_DOMAIN)) {
            value = value->operands[0];
        } else {
            return value;
        }
    }
    return NULL;
}

// The value that another one is a copy of.
static const HloLiteral *value_of(HloArena *arena, const HloInstruction *origin, int64_t partition) {
    if (!origin) return NULL;
    return hlo_is(origin, HLO_OP_CONSTANT) ? hlo_constant_literal(origin) : known_table(arena, origin, partition);
}

// The part of a constant that a partition chooses by its number; NULL if that is not known.
static const HloLiteral *chosen_part(HloArena *arena, const HloInstruction *slice, int64_t partition) {
    const HloLiteral **operands = HLO_ARENA_NEW(arena, const HloLiteral *, slice->operand_count);
    for (int32_t i = 0; i < slice->operand_count; i++)
        if (!(operands[i] = value_of(arena, origin_of(slice->operands[i]), partition))) return NULL;
    HloLiteral *part = NULL;
    HloStatus status = hlo_evaluate_instruction(slice, operands, NULL, &part);
    hlo_status_free(status);  // what cannot be evaluated is data
    if (status) return NULL;
    const HloLiteral *kept = hlo_literal_copy_to_arena(arena, part);
    hlo_literal_free(part);
    return kept;
}

// The value of an operand that does not depend on data, and of a value of one element also through changes of its
// shape; NULL if there is none. It is the one on a partition, or, with ANY_PARTITION, that of all.
static const HloLiteral *constant_of(HloArena *arena, const HloInstruction *value, int64_t partition) {
    const HloInstruction *origin = origin_of(value);
    while (origin && (hlo_is(origin, HLO_OP_RESHAPE) || hlo_is(origin, HLO_OP_BROADCAST)) &&
           hlo_shape_elements(origin->shape) == 1)
        origin = origin_of(origin->operands[0]);
    const bool chooses = partition != ANY_PARTITION && origin && hlo_is(origin, HLO_OP_DYNAMIC_SLICE) &&
                         hlo_type_is_integer(origin->shape->type);
    return chooses ? chosen_part(arena, origin, partition) : value_of(arena, origin, partition);
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
    HLO_VECTOR(const Body *) found;  // one for each call that was asked for
    HloIntMap by_call;               // positions there
};

EmuBodies *emu_bodies_new(HloArena *arena) {
    EmuBodies *bodies = HLO_ARENA_NEW(arena, EmuBodies, 1);
    bodies->arena = arena;
    return bodies;
}

// The body of a call on a partition, or with what all have in common; not counted yet.
static Body body_of_call(HloArena *arena, const HloInstruction *call, int64_t partition) {
    const HloShape *result = call->shape;
    const bool has_several = hlo_shape_is_tuple(result);
    const int64_t operands = call->operand_count, results = has_several ? result->element_count : 1;
    Body body = {.operands = HLO_ARENA_NEW(arena, const HloLiteral *, operands),
                 .shapes = HLO_ARENA_NEW(arena, const HloShape *, operands + results),
                 .operand_count = operands,
                 .shape_count = operands + results};
    for (int64_t i = 0; i < operands; i++) body.operands[i] = constant_of(arena, call->operands[i], partition);
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

// Finds a body that was counted, or counts it.
static const Body *counted_body(BodyCall *find, Body *body) {
    const char *config = find->call->backend_config;
    const Body *known = hlo_string_map_get(&find->bodies->by_configuration, config, strlen(config));
    while (known && !same_work(known, body)) known = known->next;
    if (known) return known;
    count_body(find->arena, find->chip, config, body);
    return keep_body(find->bodies, config, body);
}

// Whether a table that a call reads is another one on each partition, as the masks are of attention whose sequence is
// sharded.
static bool depends_on_partition(HloArena *arena, const HloInstruction *call, const Body *body) {
    for (int64_t i = 0; i < body->operand_count; i++)
        if (!body->operands[i] && constant_of(arena, call->operands[i], 0)) return true;
    return false;
}

// A number for the parts of tables that a partition chooses.
static uint64_t place_of(HloArena *arena, const HloInstruction *call, int64_t partition) {
    uint64_t place = 0;
    for (int32_t i = 0; i < call->operand_count; i++) {
        const HloInstruction *origin = origin_of(call->operands[i]);
        const bool chooses = origin && hlo_is(origin, HLO_OP_DYNAMIC_SLICE);
        for (int32_t k = 1; chooses && k < origin->operand_count; k++) {
            const HloLiteral *start = constant_of(arena, origin->operands[k], partition);
            if (start) place = hlo_hash_mix(place, (uint64_t)hlo_literal_get_int64(start, 0));
        }
        const HloLiteral *whole = chooses || !origin ? NULL : known_table(arena, origin, partition);
        if (whole) place = hlo_hash_mix(place, hlo_hash_bytes(whole->data, (size_t)hlo_shape_bytes(whole->shape)));
    }
    return place;
}

static bool is_slower(const Body *body, const Body *other) {
    if (!other) return true;
    if (body->cost.matrix_flops != other->cost.matrix_flops) return body->cost.matrix_flops > other->cost.matrix_flops;
    return body->cost.vector_operations > other->cost.vector_operations;
}

// Finds the partition that has most to do: the others wait for it. Partitions at the same place on the axis along which
// tables are sharded have the same work, which is counted once.
static const Body *slowest_body(BodyCall *find) {
    const int64_t partitions = find->call->parent->module->num_partitions;
    const int64_t stride = partitions > MOST_PARTITIONS ? partitions / MOST_PARTITIONS | 1 : 1;
    HloArena *arena = hlo_arena_scratch_new();
    HloIntMap seen = {0};
    const Body *slowest = NULL;
    for (int64_t partition = 0; partition < partitions; partition += stride) {
        const HloArenaMark mark = hlo_arena_mark(arena);
        const uint64_t place = place_of(arena, find->call, partition);
        hlo_arena_reset(arena, mark);
        if (hlo_int_map_find(&seen, place)) continue;
        hlo_int_map_set(find->arena, &seen, place, partition);
        Body body = body_of_call(find->arena, find->call, partition);
        const Body *counted = counted_body(find, &body);
        if (is_slower(counted, slowest)) slowest = counted;
    }
    hlo_arena_free(arena);
    return slowest;
}

static HloStatus find_body(void *argument) {
    BodyCall *find = argument;
    EmuBodies *bodies = find->bodies;
    const int64_t *known = hlo_int_map_find(&bodies->by_call, (uint64_t)(uintptr_t)find->call);
    if (known) {
        find->body = bodies->found.items[*known];
        return NULL;
    }
    Body body = body_of_call(find->arena, find->call, ANY_PARTITION);
    const bool depends = depends_on_partition(find->arena, find->call, &body);
    find->body = depends ? slowest_body(find) : counted_body(find, &body);
    hlo_int_map_set(bodies->arena, &bodies->by_call, (uint64_t)(uintptr_t)find->call, bodies->found.count);
    hlo_vector_push(bodies->arena, &bodies->found, find->body);
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
