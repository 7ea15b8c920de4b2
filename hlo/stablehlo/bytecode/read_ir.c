// SPDX-License-Identifier: Apache-2.0
// Reads the IR section: operations, regions and the numbering of values.
//
// A region owns `numValues` consecutive value numbers, which follow those of the enclosing regions in the same
// isolation scope; inside, numbers are in order of definition. An isolated operation starts a scope at 0.
#include <assert.h>
#include <string.h>

#include "hlo/stablehlo/bytecode/format.h"
#include "hlo/stablehlo/bytecode/reader.h"

enum { DEEPEST_REGION = 100 };

// Values of one isolation scope, shared by the regions that enclose the current point.
typedef struct Scope {
    MlirValue **values;
    int64_t count;  // numbers given to regions so far on this path
    int64_t capacity;
    MlirValue **own;  // those of the innermost region, from number `first` on, in an array that stays as it is
    int64_t first;
} Scope;

typedef struct IrReader {
    MlirFile *file;
    MlirCursor *cursor;
    int depth;
    int64_t values;  // total number that all regions so far claim to own
} IrReader;

// The value with this number in the scope, defined or not yet.
static MlirValue *value_at(IrReader *reader, const Scope *scope, uint64_t number) {
    if (number >= (uint64_t)scope->count) {
        mlir_cursor_fail(reader->cursor, "there is no value %llu", (unsigned long long)number);
        return NULL;
    }
    return scope->values[number];
}

// Adds `more` numbers after those in use; the values exist before they are defined, since uses may come first.
static void open_numbers(IrReader *reader, Scope *scope, int64_t more) {
    assert(more >= 0);
    int64_t total = scope->count + more;
    if (total > scope->capacity) {
        scope->values = hlo_vector_grow(reader->file->arena, scope->values, scope->count, &scope->capacity, total,
                                        sizeof(*scope->values));
    }
    MlirValue *fresh = HLO_ARENA_NEW(reader->file->arena, MlirValue, more);
    scope->own = hlo_arena_allocate_uninitialised(reader->file->arena, (size_t)more * sizeof(*scope->own));
    scope->first = scope->count;
    for (int64_t i = 0; i < more; i++) scope->own[i] = scope->values[scope->count + i] = &fresh[i];
    scope->count = total;
}

// ---------------------------------------------------------------------------------------------------------------------
// One operation

// The names of `op`'s properties, with the values from run `index` of the properties section. Operations of one name
// with equal properties share both, which are read once.
static const MlirProperties *properties_at(IrReader *reader, const MlirOpName *op, uint64_t index) {
    MlirFile *file = reader->file;
    if (!reader->cursor->error && index >= (uint64_t)file->property_count) {
        mlir_cursor_fail(reader->cursor, "there are no properties %llu", (unsigned long long)index);
    }
    if (reader->cursor->error) return NULL;
    MlirProperties *run = &file->properties[index];
    if (run->names == op->properties) return run;
    MlirCursor bytes = {.begin = reader->cursor->begin, .next = run->bytes, .end = run->bytes + run->length};
    const char **keys = HLO_ARENA_NEW(file->arena, const char *, op->property_count);
    const MlirAttribute **items = HLO_ARENA_NEW(file->arena, const MlirAttribute *, op->property_count);
    int64_t count = 0;
    for (int64_t i = 0; i < op->property_count && !bytes.error && bytes.next < bytes.end; i++) {
        uint64_t tagged = mlir_read_varint(&bytes);
        if (op->optional_properties && !(tagged & 1)) continue;
        keys[count] = op->properties[i];
        items[count++] = mlir_attribute_at(file, &bytes, op->optional_properties ? tagged >> 1 : tagged);
    }
    reader->cursor->error = bytes.error;
    if (bytes.error) return NULL;
    *run = (MlirProperties){run->bytes, run->length, op->properties, keys, items, count};
    return run;
}

// An operation has attributes in a dictionary, properties, or both; the rest of the importer sees one list. If there is
// only one source, its arrays are shared, which import/repeat.c compares by address.
static void read_attributes(IrReader *reader, MlirOperation *operation, const MlirOpName *op, unsigned char mask) {
    const MlirAttribute *dictionary =
        mask & MLIR_OP_HAS_ATTRIBUTES ? mlir_read_attribute(reader->file, reader->cursor) : NULL;
    if (dictionary && dictionary->kind != MLIR_DICTIONARY) mlir_cursor_fail(reader->cursor, "no dictionary");
    const MlirProperties *run = NULL;
    if (mask & MLIR_OP_HAS_PROPERTIES) {
        uint64_t index = mlir_read_varint(reader->cursor);
        if (op->properties) run = properties_at(reader, op, index);
    }
    if (reader->cursor->error) return;
    if (!dictionary || !run) {
        operation->attribute_names = run ? run->keys : dictionary ? dictionary->keys : NULL;
        operation->attributes = run ? run->items : dictionary ? dictionary->items : NULL;
        operation->attribute_count = run ? run->count : dictionary ? dictionary->count : 0;
        return;
    }
    HloArena *arena = reader->file->arena;
    int64_t count = dictionary->count + run->count;
    const char **keys = HLO_ARENA_NEW(arena, const char *, count);
    const MlirAttribute **items = HLO_ARENA_NEW(arena, const MlirAttribute *, count);
    for (int64_t i = 0; i < count; i++) {
        const bool is_own = i >= dictionary->count;
        keys[i] = is_own ? run->keys[i - dictionary->count] : dictionary->keys[i];
        items[i] = is_own ? run->items[i - dictionary->count] : dictionary->items[i];
    }
    operation->attribute_names = keys;
    operation->attributes = items;
    operation->attribute_count = count;
}

// Skips the permutations that restore the order of uses: nothing here depends on it.
static void skip_use_orders(IrReader *reader, int64_t value_count) {
    MlirCursor *cursor = reader->cursor;
    int64_t lists = value_count > 1 ? mlir_read_count(cursor) : 1;
    for (int64_t i = 0; i < lists && !cursor->error; i++) {
        if (value_count > 1) mlir_read_varint(cursor);
        uint64_t tagged = mlir_read_varint(cursor);
        for (uint64_t j = 0; j < tagged >> 1 && !cursor->error; j++) mlir_read_varint(cursor);
    }
}

static void read_region(IrReader *reader, Scope *scope, MlirRegion *region);

// An isolated operation starts its own numbering and, from version 2 on, its regions are in a nested section, so that
// readers may skip them. The reader's cursor is exchanged for the nested one meanwhile, and its error is passed back.
static void read_regions(IrReader *reader, Scope *scope, MlirOperation *operation) {
    MlirCursor *cursor = reader->cursor;
    uint64_t tagged = mlir_read_varint(cursor);
    bool isolated = tagged & 1;
    uint64_t count = tagged >> 1;
    if (!cursor->error && count > (uint64_t)(cursor->end - cursor->next)) mlir_cursor_fail(cursor, "too many regions");
    if (cursor->error) return;
    operation->region_count = (int64_t)count;
    operation->regions = HLO_ARENA_NEW(reader->file->arena, MlirRegion, count);
    bool nested = isolated && reader->file->version >= 2;
    MlirCursor *section = NULL;
    if (nested) {
        int id;
        section = HLO_ARENA_NEW(reader->file->arena, MlirCursor, 1);
        *section = mlir_read_section(cursor, &id);
        if (id != MLIR_SECTION_IR) mlir_cursor_fail(cursor, "a region is in no IR section");
        if (cursor->error) return;
        reader->cursor = section;
    }
    Scope own = {0};
    for (uint64_t i = 0; i < count && !reader->cursor->error; i++) {
        read_region(reader, isolated ? &own : scope, &operation->regions[i]);
    }
    if (nested) {
        cursor->error = section->error;
        reader->cursor = cursor;
    }
}

// Results take the next numbers of the region that contains the operation.
static void read_results(IrReader *reader, Scope *scope, int64_t *next_value, MlirOperation *operation) {
    assert(operation);
    int64_t count = mlir_read_count(reader->cursor);
    if (count > scope->count - *next_value)
        mlir_cursor_fail(reader->cursor, "there is no value %lld", (long long)scope->count);
    if (reader->cursor->error || count == 0) return;
    // The pointers are stable: a region has its own array.
    operation->results = &scope->own[*next_value - scope->first];
    operation->result_count = count;
    *next_value += count;
    for (int64_t i = 0; i < count; i++) operation->results[i]->type = mlir_read_type(reader->file, reader->cursor);
}

static void read_operands(IrReader *reader, Scope *scope, MlirOperation *operation) {
    int64_t count = mlir_read_count(reader->cursor);
    operation->operands = HLO_ARENA_NEW(reader->file->arena, MlirValue *, count);
    for (int64_t i = 0; i < count && !reader->cursor->error; i++) {
        MlirValue *value = value_at(reader, scope, mlir_read_varint(reader->cursor));
        if (value) value->is_used = true;
        operation->operands[i] = value;
    }
    operation->operand_count = count;
}

// A name, a byte that announces which parts follow, then the parts in a fixed order.
static MlirOperation *read_operation(IrReader *reader, Scope *scope, int64_t *next_value) {
    MlirFile *file = reader->file;
    MlirCursor *cursor = reader->cursor;
    MlirOperation *operation = HLO_ARENA_NEW(file->arena, MlirOperation, 1);
    uint64_t name = mlir_read_varint(cursor);
    if (!cursor->error && name >= (uint64_t)file->op_name_count) mlir_cursor_fail(cursor, "an op has no name");
    if (cursor->error) return operation;
    const MlirOpName *op = &file->op_names[name];
    operation->name = op->name;
    unsigned char mask = mlir_read_byte(cursor);
    operation->location = mlir_read_attribute(file, cursor);
    read_attributes(reader, operation, op, mask);
    if (mask & MLIR_OP_HAS_RESULTS) read_results(reader, scope, next_value, operation);
    if (mask & MLIR_OP_HAS_OPERANDS) read_operands(reader, scope, operation);
    if (mask & MLIR_OP_HAS_SUCCESSORS) mlir_cursor_fail(cursor, "%s branches to other blocks", operation->name);
    if (mask & MLIR_OP_HAS_USE_ORDERS) skip_use_orders(reader, operation->result_count);
    if (mask & MLIR_OP_HAS_REGIONS && !cursor->error) read_regions(reader, scope, operation);
    return operation;
}

// ---------------------------------------------------------------------------------------------------------------------
// Blocks and regions

// From version 4 on, the lowest bit of the type indicates whether a location follows.
static void read_arguments(IrReader *reader, Scope *scope, int64_t *next_value, MlirBlock *block) {
    MlirCursor *cursor = reader->cursor;
    int64_t count = mlir_read_count(cursor);
    block->arguments = HLO_ARENA_NEW(reader->file->arena, MlirValue *, count);
    for (int64_t i = 0; i < count && !cursor->error; i++) {
        uint64_t tagged = mlir_read_varint(cursor);
        bool has_location = reader->file->version < 4 || (tagged & 1);
        uint64_t type_index = reader->file->version < 4 ? tagged : tagged >> 1;
        MlirValue *value = value_at(reader, scope, (uint64_t)(*next_value)++);
        const MlirType *type = mlir_type_at(reader->file, cursor, type_index);
        if (!value || !type) return;
        value->type = type;
        if (has_location) value->location = mlir_read_attribute(reader->file, cursor);
        block->arguments[i] = value;
    }
    block->argument_count = count;
}

static void read_block(IrReader *reader, Scope *scope, int64_t *next_value, MlirBlock *block) {
    MlirCursor *cursor = reader->cursor;
    uint64_t tagged = mlir_read_varint(cursor);
    uint64_t count = tagged >> 1;
    if (tagged & 1) {
        read_arguments(reader, scope, next_value, block);
        if (reader->file->version >= 3 && mlir_read_byte(cursor)) skip_use_orders(reader, block->argument_count);
    }
    if (!cursor->error && count > (uint64_t)(cursor->end - cursor->next)) mlir_cursor_fail(cursor, "too many ops");
    if (cursor->error) return;
    block->operations = HLO_ARENA_NEW(reader->file->arena, MlirOperation *, count);
    for (uint64_t i = 0; i < count && !cursor->error; i++) {
        block->operations[i] = read_operation(reader, scope, next_value);
    }
    block->operation_count = (int64_t)count;
}

// All numbers of a region are opened before its operations are read, because uses may come before definitions.
static void read_region(IrReader *reader, Scope *scope, MlirRegion *region) {
    MlirCursor *cursor = reader->cursor;
    int64_t count = mlir_read_count(cursor);
    if (count == 0) return;
    if (++reader->depth > DEEPEST_REGION) mlir_cursor_fail(cursor, "regions nest more than %d deep", DEEPEST_REGION);
    int64_t values = mlir_read_count(cursor);
    // A value takes at least one byte, for its type: sibling regions must not each claim all remaining bytes.
    reader->values += values;
    if (reader->values > reader->file->cursor.end - reader->file->cursor.begin)
        mlir_cursor_fail(cursor, "the regions have more values than the file has bytes");
    if (cursor->error) return;
    int64_t next_value = scope->count;
    const Scope outside = *scope;
    open_numbers(reader, scope, values);
    region->blocks = HLO_ARENA_NEW(reader->file->arena, MlirBlock, count);
    region->block_count = count;
    for (int64_t i = 0; i < count && !cursor->error; i++) read_block(reader, scope, &next_value, &region->blocks[i]);
    scope->count -= values;  // the numbers are free again after the region; the values remain valid
    scope->own = outside.own;
    scope->first = outside.first;
    reader->depth--;
}

HloStatus mlir_read_ir(MlirFile *file, MlirOperation **top) {
    assert(top);
    IrReader reader = {.file = file, .cursor = &file->ir};
    Scope scope = {0};
    MlirBlock block = {0};
    int64_t next_value = 0;
    read_block(&reader, &scope, &next_value, &block);
    HLO_TRY(file->ir.error);
    HLO_FAIL_IF(block.operation_count != 1 || strcmp(block.operations[0]->name, "builtin.module") != 0,
                HLO_INVALID_ARGUMENT, "the bytecode does not hold one module");
    *top = block.operations[0];
    bool needs_marks = false;
    for (int64_t i = 0; i < file->op_name_count; i++) needs_marks |= mlir_is_cast(file->op_names[i].name);
    for (int64_t i = 0; i < file->type_count; i++) {
        const MlirType *type = file->types[i].decoded;
        needs_marks |= type && type->is_open;
    }
    if (needs_marks) mlir_mark(*top);
    return HLO_SUCCESS;
}
