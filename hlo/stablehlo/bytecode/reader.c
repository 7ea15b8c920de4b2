// SPDX-License-Identifier: Apache-2.0
// Reads the container: header, sections and the string, dialect, attribute and type tables. Every count is checked
// against the remaining bytes before anything is allocated for it (mlir_read_count()): each item takes at least one
// byte, so a file cannot make us allocate more than some hundred times its own size. Versions 0 to 6 of the container
// differ in where bits are added; the comparisons with `version` below are those of
// mlir/lib/Bytecode/Reader/BytecodeReader.cpp.
#include "hlo/stablehlo/bytecode/reader.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "hlo/stablehlo/bytecode/format.h"

// ---------------------------------------------------------------------------------------------------------------------
// Reading

void mlir_cursor_fail(MlirCursor *cursor, const char *format, ...) {
    assert(format);
    if (cursor->error) return;
    char what[160];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof(what), format, arguments);
    va_end(arguments);
    cursor->error = hlo_error(HLO_INVALID_ARGUMENT, "malformed MLIR bytecode at byte %lld: %s",
                              (long long)(cursor->next - cursor->begin), what);
}

// The only function that moves a cursor: all reads end here, or in a check of the same kind.
const unsigned char *mlir_read_bytes(MlirCursor *cursor, uint64_t length) {
    if (cursor->error) return NULL;
    if (length > (uint64_t)(cursor->end - cursor->next)) {
        mlir_cursor_fail(cursor, "%llu bytes are missing", (unsigned long long)length);
        return NULL;
    }
    const unsigned char *bytes = cursor->next;
    cursor->next += length;
    return bytes;
}

// The number of trailing zero bits of the first byte is the number of bytes that follow.
uint64_t mlir_read_long_varint(MlirCursor *cursor) {
    if (!cursor->error && cursor->end - cursor->next > 8) {
        // All bytes that the number can have are available: no loop, no call.
        unsigned char mark = *cursor->next;
        uint64_t rest;
        memcpy(&rest, cursor->next + 1, sizeof(rest));
        int more = mark ? __builtin_ctz(mark) : 8;
        cursor->next += more + 1;
        if (more == 8) return rest;
        uint64_t bits = rest << 8 | mark;
        return (more == 7 ? bits : bits & ((UINT64_C(1) << (8 * (more + 1))) - 1)) >> (more + 1);
    }
    unsigned char first = mlir_read_byte(cursor);
    if (first & 1) return first >> 1;
    int extra = first ? __builtin_ctz(first) : 8;
    const unsigned char *rest = mlir_read_bytes(cursor, (uint64_t)extra);
    if (!rest) return 0;
    uint64_t value = 0;
    memcpy(&value, rest, (size_t)extra);
    return extra == 8 ? value : (value << 8 | first) >> (extra + 1);
}

int64_t mlir_read_signed(MlirCursor *cursor) {
    uint64_t value = mlir_read_varint(cursor);
    return (int64_t)(value >> 1 ^ (~(value & 1) + 1));
}

void mlir_fail_count(MlirCursor *cursor, uint64_t count) {
    mlir_cursor_fail(cursor, "a count of %llu is more than the bytes that are left", (unsigned long long)count);
}

const char *mlir_read_string(MlirFile *file, MlirCursor *cursor) {
    int64_t length;
    return mlir_read_bytes_string(file, cursor, &length);
}

const char *mlir_read_bytes_string(MlirFile *file, MlirCursor *cursor, int64_t *length) {
    assert(length);
    uint64_t index = mlir_read_varint(cursor);
    if (!cursor->error && index >= (uint64_t)file->string_count) {
        mlir_cursor_fail(cursor, "there is no string %llu", (unsigned long long)index);
    }
    *length = cursor->error ? 0 : file->string_lengths[index];
    return cursor->error ? "" : file->strings[index];
}

// ---------------------------------------------------------------------------------------------------------------------
// Tables

// The lengths come first, in reverse order, then all characters.
static void read_strings(MlirFile *file, MlirCursor *cursor) {
    int64_t count = mlir_read_count(cursor);
    uint64_t *lengths = HLO_ARENA_NEW(file->arena, uint64_t, count);
    for (int64_t i = count - 1; i >= 0; i--) lengths[i] = mlir_read_varint(cursor);
    file->strings = HLO_ARENA_NEW(file->arena, const char *, count);
    file->string_lengths = HLO_ARENA_NEW(file->arena, int64_t, count);
    for (int64_t i = 0; i < count; i++) {
        const unsigned char *bytes = mlir_read_bytes(cursor, lengths[i]);
        // Each ends with a NUL; one that does not would run into the next.
        if (bytes && (lengths[i] == 0 || bytes[lengths[i] - 1] != 0)) mlir_cursor_fail(cursor, "unterminated string");
        file->strings[i] = cursor->error ? "" : (const char *)bytes;
        file->string_lengths[i] = cursor->error || lengths[i] == 0 ? 0 : (int64_t)lengths[i] - 1;
    }
    file->string_count = count;
}

static MlirDialect dialect_by_name(const char *name) {
    if (strcmp(name, "builtin") == 0) return MLIR_DIALECT_BUILTIN;
    if (strcmp(name, "vhlo") == 0) return MLIR_DIALECT_VHLO;
    if (strcmp(name, "sdy") == 0) return MLIR_DIALECT_SDY;
    if (strcmp(name, "stablehlo") == 0) return MLIR_DIALECT_STABLEHLO;
    return strcmp(name, "func") == 0 ? MLIR_DIALECT_FUNC : MLIR_DIALECT_UNKNOWN;
}

MlirCursor mlir_read_section(MlirCursor *cursor, int *id) {
    assert(cursor && id);
    unsigned char first = mlir_read_byte(cursor);
    uint64_t length = mlir_read_varint(cursor);
    *id = first & 0x7F;
    if (first & 0x80) {
        uint64_t alignment = mlir_read_varint(cursor);
        while (!cursor->error && alignment && (uint64_t)(cursor->next - cursor->begin) % alignment) {
            mlir_read_byte(cursor);
        }
    }
    MlirCursor section = {.begin = cursor->begin, .next = mlir_read_bytes(cursor, length)};
    section.end = cursor->error ? section.next : section.next + length;  // after an error there are no bytes
    return section;
}

// NULL with an error for an index past the end.
static const MlirDialect *dialect_at(const MlirFile *file, MlirCursor *cursor, uint64_t index) {
    if (!cursor->error && index >= (uint64_t)file->dialect_count) mlir_cursor_fail(cursor, "there is no such dialect");
    return cursor->error ? NULL : &file->dialects[index];
}

// Splits a list of names separated by blanks.
static void set_properties(HloArena *arena, const char *names, MlirOpName *op) {
    HloStringVector list = {0};
    while (*names) {
        size_t length = strcspn(names, " ");
        hlo_vector_push(arena, &list, hlo_arena_string(arena, names, length));
        names += length + strspn(names + length, " ");
    }
    op->properties = list.items;
    op->property_count = list.count;
}

// "add_v1" -> the name without version, and the names of its properties: those of the newest row of vhlo.def that is
// not newer than the version in the name. An operation without rows has no known properties, and none are read.
static void describe_vhlo(MlirFile *file, const char *spelled, MlirOpName *op) {
    static const struct {
        const char *name;
        int version;
        const char *properties;
    } table[] = {
#define VHLO_OP(name, version, since, properties) {#name, version, properties},
#include "hlo/stablehlo/bytecode/vhlo.def"
#undef VHLO_OP
    };
    const char *mark = strrchr(spelled, '_');
    size_t stem = mark && mark[1] == 'v' ? (size_t)(mark - spelled) : strlen(spelled);
    int version = mark && mark[1] == 'v' ? mark[2] - '0' : 1;
    int best = 0;
    const char *properties = NULL;
    for (size_t i = 0; i < HLO_COUNT_OF(table); i++) {
        if (strlen(table[i].name) != stem || memcmp(table[i].name, spelled, stem) != 0) continue;
        if (table[i].version > version || table[i].version <= best) continue;
        best = table[i].version;
        properties = table[i].properties;
    }
    if (properties) set_properties(file->arena, properties, op);
    bool is_function = strncmp(spelled, "func_", 5) == 0 || strncmp(spelled, "call_", 5) == 0;
    op->name = hlo_arena_format(file->arena, "%s.%.*s", is_function ? "func" : "stablehlo", (int)stem, spelled);
}

// The properties of an operation of builtin or sdy, in the order in which MLIR's generated code writes them: by name,
// as in the ODS declarations. `optional_properties` marks those whose writer puts a presence bit before each.
static void describe_op(MlirFile *file, MlirDialect dialect, const char *dialect_name, const char *spelled,
                        MlirOpName *op) {
    static const struct {
        const char *name, *properties;
    } table[] = {
        {"builtin.module", "sym_name sym_visibility"},
        {"sdy.mesh", "mesh sym_name"},
        {"sdy.sharding_constraint", "sharding"},
        {"sdy.reshard", "sharding"},
        {"sdy.manual_computation", "in_shardings manual_axes out_shardings"},
        {"sdy.sharding_group", "group_id"},
        {"sdy.constant", "value"},
        {"sdy.propagation_barrier", "allowed_direction"},
        {"sdy.data_flow_edge", "sharding"},
        {"sdy.named_computation", "in_shardings name out_shardings"},
    };
    op->dialect = dialect;
    if (dialect == MLIR_DIALECT_VHLO) {
        describe_vhlo(file, spelled, op);
        return;
    }
    op->name = hlo_arena_format(file->arena, "%s.%s", dialect_name, spelled);
    op->optional_properties = strcmp(op->name, "builtin.module") == 0 || strcmp(op->name, "sdy.named_computation") == 0;
    for (size_t i = 0; i < HLO_COUNT_OF(table); i++) {
        if (strcmp(table[i].name, op->name) == 0) set_properties(file->arena, table[i].properties, op);
    }
}

// Names of dialects, then names of operations grouped by dialect.
static void read_dialects(MlirFile *file, MlirCursor *cursor) {
    int64_t count = mlir_read_count(cursor);
    file->dialects = HLO_ARENA_NEW(file->arena, MlirDialect, count);
    file->dialect_names = HLO_ARENA_NEW(file->arena, const char *, count);
    file->dialect_count = count;
    for (int64_t i = 0; i < count; i++) {
        uint64_t tagged = mlir_read_varint(cursor);
        // Before version 1 the entry is the bare string index.
        uint64_t index = file->version >= 1 ? tagged >> 1 : tagged;
        if (index >= (uint64_t)file->string_count) mlir_cursor_fail(cursor, "a dialect has no name");
        if (cursor->error) return;
        file->dialect_names[i] = file->strings[index];
        file->dialects[i] = dialect_by_name(file->dialect_names[i]);
        if (file->version >= 1 && (tagged & 1)) {
            int id;
            mlir_read_section(cursor, &id);
        }
    }
    if (file->version >= 4) mlir_read_varint(cursor);  // how many op names there are: counted below
    HLO_VECTOR(MlirOpName) names = {0};
    while (!cursor->error && cursor->next < cursor->end) {
        uint64_t index = mlir_read_varint(cursor);
        const MlirDialect *dialect = dialect_at(file, cursor, index);
        int64_t group = mlir_read_count(cursor);
        for (int64_t i = 0; i < group && dialect; i++) {
            uint64_t tagged = mlir_read_varint(cursor);
            uint64_t name = file->version >= 5 ? tagged >> 1 : tagged;
            if (name >= (uint64_t)file->string_count) mlir_cursor_fail(cursor, "an op has no name");
            if (cursor->error) return;
            MlirOpName op = {0};
            describe_op(file, *dialect, file->dialect_names[index], file->strings[name], &op);
            hlo_vector_push(file->arena, &names, op);
        }
    }
    file->op_names = names.items;
    file->op_name_count = names.count;
}

// One of the two halves of the offset section: `count` entries in groups by dialect.
static MlirEntry *read_entries(MlirFile *file, MlirCursor *offsets, MlirCursor *data, int64_t count) {
    assert(count >= 0);
    MlirEntry *entries = HLO_ARENA_NEW(file->arena, MlirEntry, count);
    for (int64_t done = 0; done < count && !offsets->error && !data->error;) {
        const MlirDialect *dialect = dialect_at(file, offsets, mlir_read_varint(offsets));
        int64_t group = mlir_read_count(offsets);
        if (group == 0 || group > count - done) mlir_cursor_fail(offsets, "a group of entries has a wrong size");
        for (int64_t i = 0; i < group && dialect && !offsets->error; i++) {
            uint64_t tagged = mlir_read_varint(offsets);
            const unsigned char *bytes = mlir_read_bytes(data, tagged >> 1);
            entries[done++] = (MlirEntry){
                .dialect = *dialect, .is_custom = tagged & 1, .data = bytes, .length = (size_t)(tagged >> 1)};
        }
    }
    return entries;
}

// Reads only their positions: their content depends on the operation that refers to them.
static void read_properties(MlirFile *file, MlirCursor *cursor) {
    int64_t count = mlir_read_count(cursor);
    file->properties = HLO_ARENA_NEW(file->arena, MlirProperties, count);
    for (int64_t i = 0; i < count; i++) {
        uint64_t length = mlir_read_varint(cursor);
        const unsigned char *bytes = mlir_read_bytes(cursor, length);
        if (!bytes) return;
        file->properties[i] = (MlirProperties){.bytes = bytes, .length = length};
    }
    file->property_count = count;
}

// Operations of StableHLO itself have no stable form in bytecode: their properties depend on the release that wrote
// them, and the file does not record which release that was. Portable artifacts use operations of vhlo instead.
static HloStatus check_portable(const MlirFile *file) {
    for (int64_t i = 0; i < file->op_name_count; i++) {
        const MlirOpName *op = &file->op_names[i];
        const bool is_portable = op->dialect != MLIR_DIALECT_STABLEHLO && op->dialect != MLIR_DIALECT_FUNC;
        HLO_FAIL_IF(!is_portable, HLO_UNIMPLEMENTED,
                    "MLIR bytecode of %s, which only the release that wrote it can read: write a portable artifact "
                    "(stablehlo.serialize_portable_artifact) or text instead",
                    op->name);
    }
    return HLO_SUCCESS;
}

// Reads the strings first: all other tables refer to them.
static HloStatus read_tables(MlirFile *file, MlirCursor sections[MLIR_SECTION_COUNT]) {
    read_strings(file, &sections[MLIR_SECTION_STRING]);
    HLO_TRY(sections[MLIR_SECTION_STRING].error);
    read_dialects(file, &sections[MLIR_SECTION_DIALECT]);
    HLO_TRY(sections[MLIR_SECTION_DIALECT].error);
    HLO_TRY(check_portable(file));
    MlirCursor *offsets = &sections[MLIR_SECTION_ATTR_TYPE_OFFSET], *data = &sections[MLIR_SECTION_ATTR_TYPE];
    file->attribute_count = mlir_read_count(offsets);
    file->type_count = mlir_read_count(offsets);
    file->attributes = read_entries(file, offsets, data, file->attribute_count);
    file->types = read_entries(file, offsets, data, file->type_count);
    if (offsets->error && data->error) hlo_status_free(data->error);
    HLO_TRY(offsets->error);
    HLO_TRY(data->error);
    if (sections[MLIR_SECTION_PROPERTIES].next) read_properties(file, &sections[MLIR_SECTION_PROPERTIES]);
    return sections[MLIR_SECTION_PROPERTIES].error;
}

// Sections may come in any order, and unknown ones are skipped, as newer writers add them. Resources are skipped too:
// StableHLO's artifacts have none.
static HloStatus read_sections(MlirFile *file) {
    MlirCursor sections[MLIR_SECTION_COUNT] = {{0}};
    while (!file->cursor.error && file->cursor.next < file->cursor.end) {
        int id;
        MlirCursor section = mlir_read_section(&file->cursor, &id);
        if (!file->cursor.error && id < MLIR_SECTION_COUNT) sections[id] = section;
    }
    HLO_TRY(file->cursor.error);
    static const int needed[] = {MLIR_SECTION_STRING, MLIR_SECTION_DIALECT, MLIR_SECTION_ATTR_TYPE,
                                 MLIR_SECTION_ATTR_TYPE_OFFSET, MLIR_SECTION_IR};
    for (size_t i = 0; i < HLO_COUNT_OF(needed); i++) {
        HLO_FAIL_IF(!sections[needed[i]].next, HLO_INVALID_ARGUMENT, "malformed MLIR bytecode: section %d is missing",
                    needed[i]);
    }
    HLO_TRY(read_tables(file, sections));
    file->ir = sections[MLIR_SECTION_IR];
    return HLO_SUCCESS;
}

static HloStatus read_file(HloArena *arena, const void *bytes, size_t length, bool is_kernel, MlirOperation **top) {
    assert(arena && top);
    MlirFile file = {.arena = arena, .is_kernel = is_kernel};
    file.cursor = (MlirCursor){.begin = bytes, .next = bytes, .end = (const unsigned char *)bytes + length};
    const unsigned char *start = mlir_read_bytes(&file.cursor, MLIR_MAGIC_BYTES);
    if (!start || memcmp(start, MLIR_MAGIC, MLIR_MAGIC_BYTES) != 0) {
        hlo_status_free(file.cursor.error);
        return hlo_error(HLO_INVALID_ARGUMENT, "not MLIR bytecode: its magic number is missing");
    }
    const uint64_t version = mlir_read_varint(&file.cursor);
    if (!file.cursor.error && version > MLIR_NEWEST_CONTAINER) {
        return hlo_error(HLO_UNIMPLEMENTED, "MLIR bytecode version %llu is newer than the %d that are known",
                         (unsigned long long)version, MLIR_NEWEST_CONTAINER);
    }
    file.version = (int64_t)version;
    while (!file.cursor.error && mlir_read_byte(&file.cursor)) {
    }  // the producer's name
    HLO_TRY(file.cursor.error);
    HLO_TRY(read_sections(&file));
    return mlir_read_ir(&file, top);
}

HloStatus mlir_read_file(HloArena *arena, const void *bytes, size_t length, MlirOperation **top) {
    return read_file(arena, bytes, length, false, top);
}

HloStatus mlir_read_kernel_file(HloArena *arena, const void *bytes, size_t length, MlirOperation **top) {
    return read_file(arena, bytes, length, true, top);
}
