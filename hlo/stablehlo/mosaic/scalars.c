// SPDX-License-Identifier: Apache-2.0
#include "hlo/stablehlo/mosaic/scalars.h"

#include <assert.h>
#include <string.h>

const char *mosaic_plain_name(const MlirOperation *operation) {
    static const char prefix[] = "stable_mosaic.";
    const bool has = strncmp(operation->name, prefix, sizeof prefix - 1) == 0;
    return has ? operation->name + sizeof prefix - 1 : operation->name;
}

int32_t mosaic_slot(MosaicScalars *scalars, const MlirValue *value) {
    assert(scalars);
    const uint64_t key = (uint64_t)(uintptr_t)value;
    const int64_t *found = hlo_int_map_find(&scalars->numbers, key);
    if (found) return (int32_t)*found;
    const MosaicSlot slot = {.value = value, .argument = -1, .epoch = -1};
    hlo_vector_push(scalars->arena, &scalars->slots, slot);
    hlo_int_map_set(scalars->arena, &scalars->numbers, key, scalars->slots.count - 1);
    return (int32_t)(scalars->slots.count - 1);
}

// The rule of an operation of the dialect arith, by its name there.
static MosaicRule arithmetic_rule(const char *name, int64_t operand_count) {
    static const struct {
        const char *name;
        MosaicRule rule;
        int operands;
    } rows[] = {{"addi", MOSAIC_ADD, 2},         {"subi", MOSAIC_SUBTRACT, 2}, {"muli", MOSAIC_MULTIPLY, 2},
                {"divsi", MOSAIC_DIVIDE, 2},     {"divui", MOSAIC_DIVIDE, 2},  {"remsi", MOSAIC_REMAINDER, 2},
                {"remui", MOSAIC_REMAINDER, 2},  {"andi", MOSAIC_AND, 2},      {"ori", MOSAIC_OR, 2},
                {"xori", MOSAIC_XOR, 2},         {"minsi", MOSAIC_LEAST, 2},   {"maxsi", MOSAIC_GREATEST, 2},
                {"cmpi", MOSAIC_COMPARE, 2},     {"select", MOSAIC_SELECT, 3}, {"trunci", MOSAIC_COPY, 1},
                {"extsi", MOSAIC_COPY, 1},       {"extui", MOSAIC_COPY, 1},    {"index_cast", MOSAIC_COPY, 1},
                {"index_castui", MOSAIC_COPY, 1}};
    for (size_t i = 0; i < HLO_COUNT_OF(rows); i++)
        if (!strcmp(rows[i].name, name) && rows[i].operands == operand_count) return rows[i].rule;
    return MOSAIC_UNKNOWN;
}

static bool is_number(const MlirAttribute *attribute) {
    return attribute && (attribute->kind == MLIR_INTEGER || attribute->kind == MLIR_BOOL);
}

void mosaic_define(MosaicScalars *scalars, const MlirOperation *operation, const char *name) {
    assert(scalars && operation && name);
    MosaicSlot made = {.operation = operation, .argument = -1, .epoch = -1};
    if (!strcmp(name, "arith.constant")) {
        const MlirAttribute *value = mlir_attribute(operation, "value");
        made.rule = is_number(value) ? MOSAIC_CONSTANT : MOSAIC_UNKNOWN;
        made.constant = is_number(value) ? value->integer : 0;
    } else if (!strcmp(name, "memref.load") && operation->operand_count) {
        made.rule = MOSAIC_LOAD;
        made.literal = mosaic_literal(scalars, operation->operands[0]);
        made.table_length = mosaic_table_length(scalars, operation->operands[0]);
    } else if (!strcmp(name, "tpu.assume_multiple") && operation->operand_count == 1) {
        made.rule = MOSAIC_COPY;
    } else if (!strncmp(name, "arith.", 6)) {
        made.rule = arithmetic_rule(name + 6, operation->operand_count);
    }
    if (made.rule == MOSAIC_COMPARE) {
        const MlirAttribute *predicate = mlir_attribute(operation, "predicate");
        if (!is_number(predicate)) made.rule = MOSAIC_UNKNOWN;
        made.constant = made.rule ? predicate->integer : 0;
    }
    for (int64_t i = 0; i < operation->operand_count && i < 3; i++)
        made.operands[i] = mosaic_slot(scalars, operation->operands[i]);
    for (int64_t i = 0; i < operation->result_count; i++) {
        const int32_t slot = mosaic_slot(scalars, operation->results[i]);  // which may move the others
        made.value = operation->results[i];
        scalars->slots.items[slot] = made;
    }
}

void mosaic_set(MosaicScalars *scalars, int32_t slot, bool known, int64_t value) {
    assert(scalars && slot >= 0 && slot < scalars->slots.count);
    MosaicSlot *set = &scalars->slots.items[slot];
    set->rule = MOSAIC_VARIABLE;
    set->is_known = known;
    set->result = value;
    scalars->epoch++;
}

const HloShape *mosaic_shape(const MlirValue *value) {
    if (!value || !value->type || value->type->kind != MLIR_TYPE_SHAPE) return NULL;
    return hlo_shape_is_array(value->type->shape) ? value->type->shape : NULL;
}

// The number of the kernel's argument that a value is; -1 for others.
static int64_t argument_of(MosaicScalars *scalars, const MlirValue *memory) {
    const int32_t slot = mosaic_slot(scalars, memory);
    return scalars->slots.items[slot].argument;
}

const HloLiteral *mosaic_literal(MosaicScalars *scalars, const MlirValue *memory) {
    assert(scalars);
    const int64_t argument = argument_of(scalars, memory), operand = argument + scalars->first_operand;
    if (argument < 0 || operand < 0 || operand >= scalars->operand_count || !scalars->operands[operand]) return NULL;
    const HloShape *whole = scalars->operands[operand]->shape, *seen = mosaic_shape(memory);
    if (!seen || seen->rank != whole->rank || !hlo_type_is_integer(whole->type)) return NULL;
    for (int64_t i = 0; i < whole->rank; i++)
        if (seen->dims[i] != whole->dims[i]) return NULL;
    return scalars->operands[operand]->elided ? NULL : scalars->operands[operand];
}

int64_t mosaic_table_length(MosaicScalars *scalars, const MlirValue *memory) {
    assert(scalars);
    const HloShape *shape = mosaic_shape(memory);
    if (argument_of(scalars, memory) < 0 || !shape || shape->rank != 1 || !hlo_type_is_integer(shape->type)) return 0;
    return shape->dims[0];
}

// Comparisons by their number in the dialect arith: eq, ne, slt, sle, sgt, sge, ult, ule, ugt, uge.
static bool compare(int64_t predicate, int64_t a, int64_t b, int64_t *result) {
    const uint64_t x = (uint64_t)a, y = (uint64_t)b;
    switch (predicate) {
        case 0: *result = a == b; return true;
        case 1: *result = a != b; return true;
        case 2: *result = a < b; return true;
        case 3: *result = a <= b; return true;
        case 4: *result = a > b; return true;
        case 5: *result = a >= b; return true;
        case 6: *result = x < y; return true;
        case 7: *result = x <= y; return true;
        case 8: *result = x > y; return true;
        case 9: *result = x >= y; return true;
        default: return false;
    }
}

// The element of a table whose contents are described by their number of different values.
static bool load_described(MosaicScalars *scalars, const MosaicSlot *slot, int depth, int64_t *result) {
    const int64_t length = slot->table_length, values = scalars->slots.items[slot->operands[0]].table_values;
    int64_t at;
    if (!values || slot->operation->operand_count != 2 || !mosaic_scalar(scalars, slot->operands[1], depth, &at) ||
        at < 0 || at >= length)
        return false;
    *result = (int64_t)((double)at * (double)values / (double)length);
    return true;
}

static bool load(MosaicScalars *scalars, const MosaicSlot *slot, int depth, int64_t *result) {
    const HloLiteral *literal = slot->literal;
    if (!literal && scalars->most_visits && slot->table_length == 1) {
        *result = scalars->most_visits;
        scalars->meets_count = true;
        return true;
    }
    if (!literal) return load_described(scalars, slot, depth, result);
    const MlirOperation *operation = slot->operation;
    if (operation->operand_count != literal->shape->rank + 1) return false;
    int64_t index = 0;
    for (int64_t i = 0; i < literal->shape->rank; i++) {
        const int32_t place = i < 2 ? slot->operands[i + 1] : mosaic_slot(scalars, operation->operands[i + 1]);
        int64_t at;
        if (!mosaic_scalar(scalars, place, depth, &at)) return false;
        if (at < 0 || at >= literal->shape->dims[i]) return false;
        index = index * literal->shape->dims[i] + at;
    }
    *result = hlo_literal_get_int64(literal, index);
    return true;
}

// An operation of two integers; false where the result is not defined.
static bool combine(MosaicRule rule, int64_t predicate, int64_t a, int64_t b, int64_t *result) {
    switch (rule) {
        case MOSAIC_COMPARE: return compare(predicate, a, b, result);
        case MOSAIC_ADD: return !__builtin_add_overflow(a, b, result);
        case MOSAIC_SUBTRACT: return !__builtin_sub_overflow(a, b, result);
        case MOSAIC_MULTIPLY: return !__builtin_mul_overflow(a, b, result);
        case MOSAIC_DIVIDE:
        case MOSAIC_REMAINDER:
            if (b == 0 || (b == -1 && a == INT64_MIN)) return false;
            *result = rule == MOSAIC_DIVIDE ? a / b : a % b;
            return true;
        case MOSAIC_AND: *result = a & b; return true;
        case MOSAIC_OR: *result = a | b; return true;
        case MOSAIC_XOR: *result = a ^ b; return true;
        case MOSAIC_LEAST: *result = a < b ? a : b; return true;
        case MOSAIC_GREATEST: *result = a > b ? a : b; return true;
        default: return false;
    }
}

static bool evaluate(MosaicScalars *scalars, const MosaicSlot *slot, int depth, int64_t *result) {
    int64_t a, b;
    switch (slot->rule) {
        case MOSAIC_UNKNOWN: return false;
        case MOSAIC_LOAD: return load(scalars, slot, depth, result);
        case MOSAIC_COPY: return mosaic_scalar(scalars, slot->operands[0], depth, result);
        case MOSAIC_SELECT:
            if (!mosaic_scalar(scalars, slot->operands[0], depth, &a)) return false;
            return mosaic_scalar(scalars, slot->operands[a ? 1 : 2], depth, result);
        default: break;
    }
    const bool has_first = mosaic_scalar(scalars, slot->operands[0], depth, &a);
    // What is false whatever the other operand is, as "not the last step, and ...".
    if (has_first && slot->rule == MOSAIC_AND && a == 0) return combine(MOSAIC_AND, 0, 0, 0, result);
    const bool has_second = mosaic_scalar(scalars, slot->operands[1], depth, &b);
    if (has_second && slot->rule == MOSAIC_AND && b == 0) return combine(MOSAIC_AND, 0, 0, 0, result);
    return has_first && has_second && combine(slot->rule, slot->constant, a, b, result);
}

bool mosaic_scalar(MosaicScalars *scalars, int32_t slot, int depth, int64_t *result) {
    assert(scalars && slot >= 0 && slot < scalars->slots.count && result);
    MosaicSlot *at = &scalars->slots.items[slot];
    if (at->rule == MOSAIC_CONSTANT) {
        *result = at->constant;
        return true;
    }
    if (at->rule != MOSAIC_VARIABLE && at->epoch != scalars->epoch) {
        if (depth >= MOSAIC_DEEPEST_SCALAR || ++scalars->steps > MOSAIC_MOST_STEPS) return false;
        int64_t value = 0;
        const MosaicSlot slot_now = *at;  // new slots may move the others
        const bool is_known = evaluate(scalars, &slot_now, depth + 1, &value);
        at = &scalars->slots.items[slot];
        at->is_known = is_known;
        at->result = value;
        at->epoch = scalars->epoch;
    }
    *result = at->result;
    return at->is_known;
}
