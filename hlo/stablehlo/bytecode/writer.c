// SPDX-License-Identifier: Apache-2.0
// Writes portable bytecode: operations, regions, and the sections of the file (format.h describes the format). The
// container is MLIR's (mlir/docs/BytecodeFormat.md); the operations are those of vhlo, StableHLO's versioned dialect.
//
// Sections are in the order of MLIR's writer: dialects, entries, lengths of entries, IR, strings, properties. Readers
// accept any order. The tables fill while the IR is written, so the IR is written first. The release determines the
// container's version and the version of each operation (vhlo.def); anything that the release cannot express is an
// error that names it.
#include "hlo/stablehlo/bytecode/writer.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hlo/stablehlo/bytecode/format.h"

// The oldest and newest supported releases, as numbers (mlir_release_number()).
enum { OLDEST_RELEASE = 900, NEWEST_RELEASE = 12099 };

void write_fail(Writer *writer, const char *format, ...) {
    assert(format);
    if (writer->status) return;
    char what[200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof(what), format, arguments);
    va_end(arguments);
    writer->status =
        hlo_error(HLO_UNIMPLEMENTED, "StableHLO %lld.%lld.%lld has no %s", (long long)writer->target / 10000,
                  (long long)writer->target / 100 % 100, (long long)writer->target % 100, what);
}

// ---------------------------------------------------------------------------------------------------------------------
// Which version of an op a release has

typedef struct VersionedOp {
    const char *name;
    int version;
    int64_t since;
    const char *properties;
    uint64_t index;  // of its name in the file
} VersionedOp;

static const VersionedOp versioned_ops[] = {
#define VHLO_OP(name, version, since, properties) {#name, version, since, properties, 0},
#include "hlo/stablehlo/bytecode/vhlo.def"
#undef VHLO_OP
};

// The newest row that the release knows; version 1 without attributes for ops that have no rows. Rows of one operation
// are in the order of their versions.
static VersionedOp find_version(Writer *writer, const char *name) {
    assert(name);
    VersionedOp best = {name, 0, 0, "", 0};
    bool listed_first = false;
    int64_t needed = 0;
    for (size_t i = 0; i < HLO_COUNT_OF(versioned_ops); i++) {
        const VersionedOp *row = &versioned_ops[i];
        if (strcmp(row->name, name) != 0) continue;
        if (row->version == 1) listed_first = true;
        if (row->since <= writer->target) best = *row;
        if (row->version == 1) needed = row->since;
    }
    if (best.version == 0 && listed_first && needed > writer->target) write_fail(writer, "operation %s", name);
    if (best.version == 0) best.version = 1;
    return best;
}

static const char *short_name(const MlirOperation *operation) {
    return strchr(operation->name, '.') + 1;
}

static uint64_t op_name_index(Writer *writer, const char *name) {
    uintptr_t known = (uintptr_t)hlo_string_map_get(&writer->op_index, name, strlen(name));
    if (known) return known - 1;
    hlo_vector_push(writer->arena, &writer->op_names, name);
    hlo_string_map_set(writer->arena, &writer->op_index, name, strlen(name), (void *)(uintptr_t)writer->op_names.count);
    return (uint64_t)writer->op_names.count - 1;
}

// Names of operations are constants of the exporter, so their addresses identify them.
static const VersionedOp *version_of(Writer *writer, const MlirOperation *operation) {
    const int64_t *known = hlo_int_map_find(&writer->versions, (uintptr_t)operation->name);
    if (known) return (const VersionedOp *)(intptr_t)*known;
    VersionedOp *op = HLO_ARENA_NEW(writer->arena, VersionedOp, 1);
    *op = find_version(writer, short_name(operation));
    op->index = op_name_index(writer, hlo_arena_format(writer->arena, "%s_v%d", op->name, op->version));
    hlo_int_map_set(writer->arena, &writer->versions, (uintptr_t)operation->name, (intptr_t)op);
    return op;
}

// True for attributes whose absence from an older version of an op changes nothing.
static bool says_nothing(const MlirAttribute *attribute, const char *name) {
    if (strcmp(name, "channel_type") == 0) return true;
    if (attribute->kind == MLIR_INTS) return attribute->ints.count == 0;
    return attribute->kind == MLIR_ARRAY && attribute->count == 0;
}

// Checks that an attribute which the chosen version lacks has no effect.
static void check_said(Writer *writer, const MlirOperation *operation, const VersionedOp *op) {
    for (int64_t i = 0; i < operation->attribute_count; i++) {
        const char *name = operation->attribute_names[i];
        size_t length = strlen(name);
        bool found = false;
        for (const char *at = strstr(op->properties, name); at && !found; at = strstr(at + 1, name)) {
            found = (at == op->properties || at[-1] == ' ') && (at[length] == ' ' || at[length] == 0);
        }
        if (found || strchr(name, '.') || says_nothing(operation->attributes[i], name)) continue;
        write_fail(writer, "%s of %s", name, operation->name);
    }
    bool variadic = strcmp(op->name, "all_reduce") == 0 || strcmp(op->name, "all_gather") == 0 ||
                    strcmp(op->name, "all_to_all") == 0;
    if (variadic && op->version == 1 && operation->operand_count != 1) {
        write_fail(writer, "%s of several operands", operation->name);
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Operations

// Numbering of values restarts at 0 in every isolated region.
typedef struct IrWriter {
    Writer *writer;
    HloIntMap numbers;  // value -> number in its isolated region
    int64_t next;
} IrWriter;

typedef struct NamedIndex {
    const char *name;
    uint64_t value;
} NamedIndex;
typedef HLO_VECTOR(NamedIndex) NamedIndices;

static int compare_names(const void *a, const void *b) {
    return strcmp(((const NamedIndex *)a)->name, ((const NamedIndex *)b)->name);
}

// A dictionary in the order of its names; 0 attributes give no dictionary.
static uint64_t make_dictionary(Writer *writer, NamedIndices *entries) {
    qsort(entries->items, (size_t)entries->count, sizeof(*entries->items), compare_names);
    uint64_t *names = HLO_ARENA_NEW(writer->arena, uint64_t, entries->count);
    uint64_t *values = HLO_ARENA_NEW(writer->arena, uint64_t, entries->count);
    for (int64_t i = 0; i < entries->count; i++) {
        names[i] = write_builtin_string(writer, entries->items[i].name);
        values[i] = entries->items[i].value;
    }
    return write_dictionary_index(writer, names, values, entries->count);
}

// The op's own attributes in the order of its row. Every property has to be written: one that the program omits gets
// its default (write_default()).
static void collect_properties(Writer *writer, const MlirOperation *operation, const VersionedOp *op,
                               NamedIndices *entries) {
    for (const char *at = op->properties; *at;) {
        size_t length = strcspn(at, " ");
        const char *name = hlo_arena_string(writer->arena, at, length);
        const MlirAttribute *attribute = mlir_attribute(operation, name);
        if (!attribute) attribute = write_default(writer, operation, name);
        HLO_BUG_IF(!attribute);  // the exporter sets every attribute without a default
        if (writer->status) return;
        NamedIndex entry = {name, write_attribute_index(writer, attribute)};
        hlo_vector_push(writer->arena, entries, entry);
        at += length + strspn(at + length, " ");
    }
}

// Attributes of other dialects; those of the module stay builtin.
static void collect_others(Writer *writer, const MlirOperation *operation, bool builtin, NamedIndices *entries) {
    for (int64_t i = 0; i < operation->attribute_count; i++) {
        const MlirAttribute *attribute = operation->attributes[i];
        if (!strchr(operation->attribute_names[i], '.')) continue;
        NamedIndex entry = {operation->attribute_names[i], builtin ? write_builtin_index(writer, attribute)
                                                                   : write_attribute_index(writer, attribute)};
        hlo_vector_push(writer->arena, entries, entry);
    }
}

// Appends a run of property bytes and returns its number.
static uint64_t add_properties(Writer *writer, const WriteBytes *bytes) {
    hlo_vector_push(writer->arena, &writer->properties, *bytes);
    return (uint64_t)writer->properties.count - 1;
}

typedef struct OpParts {
    bool has_dictionary, has_properties;
    uint64_t name, dictionary, properties;
} OpParts;

// The module is of the builtin dialect: its name is a property that may be missing.
static OpParts module_parts(Writer *writer, const MlirOperation *operation) {
    OpParts parts = {.name = op_name_index(writer, "module")};
    NamedIndices entries = {0};
    const MlirAttribute *name = mlir_attribute(operation, "sym_name");
    if (writer->version >= 5) {
        WriteBytes bytes = {0};
        write_varint(writer, &bytes, name ? write_builtin_string(writer, name->string) << 1 | 1 : 0);
        write_varint(writer, &bytes, 0);
        parts.has_properties = true;
        parts.properties = add_properties(writer, &bytes);
    } else if (name) {
        NamedIndex entry = {"sym_name", write_builtin_string(writer, name->string)};
        hlo_vector_push(writer->arena, &entries, entry);
    }
    collect_others(writer, operation, true, &entries);
    parts.has_dictionary = entries.count > 0;
    if (parts.has_dictionary) parts.dictionary = make_dictionary(writer, &entries);
    return parts;
}

// Before version 5 of the container there are no properties: all attributes are in the dictionary.
static OpParts op_parts(Writer *writer, const MlirOperation *operation) {
    if (strcmp(operation->name, "builtin.module") == 0) return module_parts(writer, operation);
    OpParts parts = {0};
    NamedIndices own = {0}, others = {0};
    assert(strncmp(operation->name, "chlo.", 5) != 0); /* they have become composites */
    const VersionedOp *op = version_of(writer, operation);
    check_said(writer, operation, op);
    collect_properties(writer, operation, op, &own);
    collect_others(writer, operation, false, &others);
    if (writer->status) return parts;
    parts.name = op->index;
    if (writer->version >= 5 && own.count) {
        WriteBytes bytes = {0};
        for (int64_t i = 0; i < own.count; i++) write_varint(writer, &bytes, own.items[i].value);
        parts.has_properties = true;
        parts.properties = add_properties(writer, &bytes);
    } else {
        for (int64_t i = 0; i < own.count; i++) hlo_vector_push(writer->arena, &others, own.items[i]);
    }
    parts.has_dictionary = others.count > 0;
    if (parts.has_dictionary) parts.dictionary = make_dictionary(writer, &others);
    return parts;
}

// ---------------------------------------------------------------------------------------------------------------------
// Regions

static void write_region(IrWriter *ir, const MlirRegion *region, WriteBytes *bytes);

// Numbers the values when their block begins, arguments before results.
static void define(IrWriter *ir, const MlirValue *value) {
    hlo_int_map_set(ir->writer->arena, &ir->numbers, (uintptr_t)value, ir->next++);
}

static void write_regions(IrWriter *ir, const MlirOperation *operation, WriteBytes *bytes) {
    Writer *writer = ir->writer;
    bool isolated = strcmp(operation->name, "builtin.module") == 0 || strcmp(operation->name, "func.func") == 0;
    write_varint(writer, bytes, (uint64_t)operation->region_count << 1 | isolated);
    bool nested = isolated && writer->version >= 2;
    WriteBytes inside = {0};
    WriteBytes *to = nested ? &inside : bytes;
    int64_t outer = ir->next;
    for (int64_t r = 0; r < operation->region_count; r++) {
        // Numbers are free again after a region: the regions of one operation use the same.
        ir->next = isolated ? 0 : outer;
        write_region(ir, &operation->regions[r], to);
    }
    ir->next = outer;
    if (!nested) return;
    write_byte(writer, bytes, MLIR_SECTION_IR);
    write_varint(writer, bytes, (uint64_t)inside.count);
    write_run(writer, bytes, inside.items, inside.count);
}

// The reverse of read_ir.c's read_operation(): the mask announces which parts follow.
static void write_operation(IrWriter *ir, const MlirOperation *operation, WriteBytes *bytes) {
    Writer *writer = ir->writer;
    OpParts parts = op_parts(writer, operation);
    if (writer->status) return;
    unsigned mask =
        (parts.has_dictionary ? MLIR_OP_HAS_ATTRIBUTES : 0U) | (parts.has_properties ? MLIR_OP_HAS_PROPERTIES : 0U) |
        (operation->result_count ? MLIR_OP_HAS_RESULTS : 0U) | (operation->operand_count ? MLIR_OP_HAS_OPERANDS : 0U) |
        (operation->region_count ? MLIR_OP_HAS_REGIONS : 0U);
    write_varint(writer, bytes, parts.name);
    write_byte(writer, bytes, mask);
    write_varint(writer, bytes, write_location_index(writer, operation->location));
    if (parts.has_dictionary) write_varint(writer, bytes, parts.dictionary);
    if (parts.has_properties) write_varint(writer, bytes, parts.properties);
    if (operation->result_count) write_varint(writer, bytes, (uint64_t)operation->result_count);
    for (int64_t i = 0; i < operation->result_count; i++) {
        write_varint(writer, bytes, write_type_index(writer, operation->results[i]->type));
    }
    if (operation->operand_count) write_varint(writer, bytes, (uint64_t)operation->operand_count);
    for (int64_t i = 0; i < operation->operand_count; i++) {
        const int64_t *number = hlo_int_map_find(&ir->numbers, (uintptr_t)operation->operands[i]);
        HLO_BUG_IF(!number);
        write_varint(writer, bytes, (uint64_t)*number);
    }
    if (operation->region_count) write_regions(ir, operation, bytes);
}

// One block, with its number of values before it.
static void write_region(IrWriter *ir, const MlirRegion *region, WriteBytes *bytes) {
    Writer *writer = ir->writer;
    const MlirBlock *block = &region->blocks[0];
    int64_t first = ir->next;
    for (int64_t i = 0; i < block->argument_count; i++) define(ir, block->arguments[i]);
    for (int64_t i = 0; i < block->operation_count; i++) {
        const MlirOperation *operation = block->operations[i];
        for (int64_t j = 0; j < operation->result_count; j++) define(ir, operation->results[j]);
    }
    write_varint(writer, bytes, 1);
    write_varint(writer, bytes, (uint64_t)(ir->next - first));
    write_varint(writer, bytes, (uint64_t)block->operation_count << 1 | (block->argument_count > 0));
    if (block->argument_count) {
        write_varint(writer, bytes, (uint64_t)block->argument_count);
        for (int64_t i = 0; i < block->argument_count; i++) {
            uint64_t type = write_type_index(writer, block->arguments[i]->type);
            write_varint(writer, bytes, writer->version >= 4 ? type << 1 | 1 : type);
            write_varint(writer, bytes, write_location_index(writer, block->arguments[i]->location));
        }
        if (writer->version >= 3) write_byte(writer, bytes, 0);  // uses are in their natural order
    }
    for (int64_t i = 0; i < block->operation_count && !writer->status; i++) {
        write_operation(ir, block->operations[i], bytes);
    }
}

// The IR section.
static void write_ir(Writer *writer, const MlirOperation *top, WriteBytes *bytes) {
    IrWriter ir = {.writer = writer};
    write_varint(writer, bytes, 1 << 1);  // a block of one operation, without arguments
    write_operation(&ir, top, bytes);
}

// ---------------------------------------------------------------------------------------------------------------------
// Sections

static void write_section(Writer *writer, HloText *file, unsigned id, const WriteBytes *content) {
    assert(content);
    WriteBytes head = {0};
    write_byte(writer, &head, id);
    write_varint(writer, &head, (uint64_t)content->count);
    hlo_text_append(file, (const char *)head.items, (size_t)head.count);
    hlo_text_append(file, (const char *)content->items, (size_t)content->count);
}

static WriteBytes dialect_section(Writer *writer) {
    static const char *const names[WRITE_DIALECT_COUNT] = {"builtin", "vhlo"};
    WriteBytes bytes = {0};
    write_varint(writer, &bytes, WRITE_DIALECT_COUNT);
    for (int i = 0; i < WRITE_DIALECT_COUNT; i++) {
        uint64_t name = write_string_index(writer, names[i]);
        write_varint(writer, &bytes, writer->version >= 1 ? name << 1 : name);
    }
    if (writer->version >= 4) write_varint(writer, &bytes, (uint64_t)writer->op_names.count);
    // The module's name comes first, since the module does; all others are of vhlo.
    for (int64_t i = 0; i < writer->op_names.count; i++) {
        if (i < 2) {
            write_varint(writer, &bytes, i == 0 ? WRITE_BUILTIN : WRITE_VHLO);
            write_varint(writer, &bytes, i == 0 ? 1 : (uint64_t)writer->op_names.count - 1);
        }
        uint64_t name = write_string_index(writer, writer->op_names.items[i]);
        write_varint(writer, &bytes, writer->version >= 5 ? name << 1 | 1 : name);
    }
    return bytes;
}

// The sizes of the entries, in groups by dialect.
static void write_offsets(Writer *writer, const WriteTable *table, WriteBytes *bytes) {
    for (int64_t i = 0; i < table->entries.count;) {
        int64_t end = i;
        while (end < table->entries.count && table->entries.items[end].dialect == table->entries.items[i].dialect)
            end++;
        write_varint(writer, bytes, table->entries.items[i].dialect);
        write_varint(writer, bytes, (uint64_t)(end - i));
        for (; i < end; i++) write_varint(writer, bytes, (uint64_t)table->entries.items[i].length << 1 | 1);
    }
}

static void write_tables(Writer *writer, HloText *file) {
    WriteBytes data = {0}, offsets = {0};
    const WriteTable *tables[] = {&writer->attributes, &writer->types};
    for (int t = 0; t < 2; t++) {
        for (int64_t i = 0; i < tables[t]->entries.count; i++) {
            write_run(writer, &data, tables[t]->entries.items[i].bytes, tables[t]->entries.items[i].length);
        }
        write_varint(writer, &offsets, (uint64_t)tables[t]->entries.count);
    }
    for (int t = 0; t < 2; t++) write_offsets(writer, tables[t], &offsets);
    write_section(writer, file, MLIR_SECTION_ATTR_TYPE, &data);
    write_section(writer, file, MLIR_SECTION_ATTR_TYPE_OFFSET, &offsets);
}

// Lengths in reverse order, as the reader finds strings from the end.
static WriteBytes string_section(Writer *writer) {
    WriteBytes bytes = {0};
    write_varint(writer, &bytes, (uint64_t)writer->strings.count);
    for (int64_t i = writer->strings.count - 1; i >= 0; i--) {
        write_varint(writer, &bytes, (uint64_t)writer->strings.items[i].length + 1);
    }
    for (int64_t i = 0; i < writer->strings.count; i++) {
        write_run(writer, &bytes, writer->strings.items[i].bytes, writer->strings.items[i].length + 1);
    }
    return bytes;
}

static WriteBytes property_section(Writer *writer) {
    WriteBytes bytes = {0};
    write_varint(writer, &bytes, (uint64_t)writer->properties.count);
    for (int64_t i = 0; i < writer->properties.count; i++) {
        write_varint(writer, &bytes, (uint64_t)writer->properties.items[i].count);
        write_run(writer, &bytes, writer->properties.items[i].items, writer->properties.items[i].count);
    }
    return bytes;
}

HloStatus mlir_release_number(const char *release, int64_t *number) {
    int64_t parts[3];
    const char *at = release;
    for (int i = 0; i < 3; i++) {
        char *end;
        parts[i] = *at >= '0' && *at <= '9' ? strtol(at, &end, 10) : -1;
        bool good = parts[i] >= 0 && parts[i] < 100 && *end == (i < 2 ? '.' : 0);
        HLO_FAIL_IF(!good, HLO_INVALID_ARGUMENT, "'%s' is not a release of StableHLO (write for example 1.9.0)",
                    release);
        at = end + 1;
    }
    *number = parts[0] * 10000 + parts[1] * 100 + parts[2];
    HLO_FAIL_IF(*number < OLDEST_RELEASE || *number > NEWEST_RELEASE, HLO_INVALID_ARGUMENT,
                "StableHLO %s is not among the releases 0.9.0 to 1.20", release);
    return HLO_SUCCESS;
}

// Sets the release, and the container version that it uses.
static HloStatus set_target(Writer *writer, const char *release) {
    int64_t target;
    HLO_TRY(mlir_release_number(release, &target));
    writer->target = target;
    writer->version = target < 1000 ? 0 : target < 1200 ? 1 : target < 1400 ? 3 : target < 1500 ? 4 : 6;
    return HLO_SUCCESS;
}

// Appends nothing to the file until the whole IR is known to be expressible.
HloStatus mlir_write(HloArena *arena, const MlirOperation *top, const char *release, HloText *file) {
    assert(arena && top && release && file);
    Writer *writer = HLO_ARENA_NEW(arena, Writer, 1);
    writer->arena = arena;
    HLO_TRY(set_target(writer, release));
    WriteBytes ir = {0};
    write_ir(writer, top, &ir);
    if (writer->status) return writer->status;
    WriteBytes dialects = dialect_section(writer), properties = property_section(writer);
    WriteBytes version = {0};
    write_varint(writer, &version, (uint64_t)writer->version);
    hlo_text_append(file, MLIR_MAGIC, MLIR_MAGIC_BYTES);
    hlo_text_append(file, (const char *)version.items, (size_t)version.count);
    hlo_text_format(file, "StableHLO_v%s", release);
    hlo_text_append(file, "", 1);
    write_section(writer, file, MLIR_SECTION_DIALECT, &dialects);
    write_tables(writer, file);
    write_section(writer, file, MLIR_SECTION_IR, &ir);
    WriteBytes strings = string_section(writer);
    write_section(writer, file, MLIR_SECTION_STRING, &strings);
    if (writer->version >= 5) write_section(writer, file, MLIR_SECTION_PROPERTIES, &properties);
    return hlo_text_status(file);
}
