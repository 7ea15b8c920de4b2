// SPDX-License-Identifier: Apache-2.0
// MLIR bytecode: the container, and the tables in its sections. Source: mlir/docs/BytecodeFormat.md. Private to
// hlo/stablehlo. The file is a list of sections, each with its length; the reader keeps them as cursors over the
// caller's bytes, which must live until the module is read. Strings are used in place. Attributes and types are
// numbered and decoded on first use, since a model's file has thousands that are never used (mostly locations), and
// since they refer to each other in any order. Operations are decoded in one go by read_ir.c.
#ifndef MESHLO_HLO_STABLEHLO_BYTECODE_READER_H_
#define MESHLO_HLO_STABLEHLO_BYTECODE_READER_H_

#include "hlo/stablehlo/mlir/mlir.h"

// Bytes being read, and the first error. After an error every read returns zero and reads nothing, so that callers may
// check once at the end of a series of reads. Code that derives a cursor from another passes its error back.
typedef struct MlirCursor {
    const unsigned char *begin, *next, *end;  // `begin` is the start of the file
    HloStatus error;
} MlirCursor;

// A number of 1 to 9 bytes; the trailing zero bits of the first give the number of bytes that follow.
uint64_t mlir_read_long_varint(MlirCursor *cursor);
// The same, fast for one or two bytes, as nearly all are.
static inline uint64_t mlir_read_varint(MlirCursor *cursor) {
    const unsigned char *at = cursor->next;
    if (cursor->end - at < 2 || cursor->error || (at[0] & 3) == 0) return mlir_read_long_varint(cursor);
    cursor->next = at + (at[0] & 1 ? 1 : 2);
    return at[0] & 1 ? at[0] >> 1 : (unsigned)(at[1] << 8 | at[0]) >> 2;
}
// The same in zigzag form.
int64_t mlir_read_signed(MlirCursor *cursor);
// `length` bytes; NULL after an error.
const unsigned char *mlir_read_bytes(MlirCursor *cursor, uint64_t length);
// One byte; 0 after an error.
static inline unsigned char mlir_read_byte(MlirCursor *cursor) {
    const unsigned char *byte = mlir_read_bytes(cursor, 1);
    return byte ? *byte : 0;
}
// Records the error of mlir_read_count().
void mlir_fail_count(MlirCursor *cursor, uint64_t count);
// A varint that counts items of at least one byte each: an error when the remaining bytes cannot hold them.
static inline int64_t mlir_read_count(MlirCursor *cursor) {
    const uint64_t count = mlir_read_varint(cursor);
    if (!cursor->error && count > (uint64_t)(cursor->end - cursor->next)) mlir_fail_count(cursor, count);
    return cursor->error ? 0 : (int64_t)count;
}
// A section: its number (bit 7: it is aligned) and length, an alignment and padding if so, then its bytes, which the
// result covers; *id is the number. Empty after an error.
MlirCursor mlir_read_section(MlirCursor *cursor, int *id);
// Records an error at the current offset unless one is recorded already.
void mlir_cursor_fail(MlirCursor *cursor, const char *format, ...) HLO_PRINTF(2, 3);

typedef enum MlirDialect {
    MLIR_DIALECT_BUILTIN,
    MLIR_DIALECT_VHLO,
    MLIR_DIALECT_SDY,
    MLIR_DIALECT_FUNC,
    MLIR_DIALECT_STABLEHLO,
    MLIR_DIALECT_UNKNOWN
} MlirDialect;

// An attribute or type that is decoded on first use.
typedef struct MlirEntry {
    MlirDialect dialect;
    bool is_custom;  // false: assembly text
    bool is_busy;    // being decoded: reaching it again is a cycle
    const unsigned char *data;
    size_t length;
    const void *decoded;  // MlirAttribute or MlirType
} MlirEntry;

typedef struct MlirOpName {
    MlirDialect dialect;
    const char *name;               // in the spelling of mlir/mlir.h
    const char *const *properties;  // names of its properties, NULL when it has none
    int64_t property_count;
    bool optional_properties;  // builtin and sdy: each index is tagged as present or not
} MlirOpName;

// One run of the properties section, and its decoded values for the operation name with these `names`.
typedef struct MlirProperties {
    const unsigned char *bytes;
    uint64_t length;
    const char *const *names;  // NULL until it is read
    const char *const *keys;
    const MlirAttribute *const *items;
    int64_t count;
} MlirProperties;

typedef struct MlirFile {
    HloArena *arena;
    MlirCursor cursor;  // of the whole file; sections have their own
    int64_t version;
    const char **strings;
    int64_t *string_lengths;  // without the NUL at the end; a string may hold others
    int64_t string_count;
    MlirDialect *dialects;
    const char **dialect_names;
    int64_t dialect_count;
    MlirOpName *op_names;
    int64_t op_name_count;
    MlirEntry *attributes;
    int64_t attribute_count;
    MlirEntry *types;
    int64_t type_count;
    MlirProperties *properties;
    int64_t property_count;
    MlirCursor ir;
    int depth;
    bool is_kernel;  // vectors and arrays in memory have shapes: programs for arrays know neither
} MlirFile;

// The string, attribute or type whose index is read from `cursor`; records an error and returns NULL if there is none.
const char *mlir_read_string(MlirFile *file, MlirCursor *cursor);
// The same, with its number of bytes.
const char *mlir_read_bytes_string(MlirFile *file, MlirCursor *cursor, int64_t *length);
// Reads an index and decodes its attribute on first use.
const MlirAttribute *mlir_read_attribute(MlirFile *file, MlirCursor *cursor);
// Reads an index and decodes its type on first use.
const MlirType *mlir_read_type(MlirFile *file, MlirCursor *cursor);
// The same for an index that has been read already.
const MlirAttribute *mlir_attribute_at(MlirFile *file, MlirCursor *cursor, uint64_t index);
// The same for types.
const MlirType *mlir_type_at(MlirFile *file, MlirCursor *cursor, uint64_t index);

// Reads the IR section: the top-level operation.
HLO_NODISCARD HloStatus mlir_read_ir(MlirFile *file, MlirOperation **top);

// Reads the container's tables and then the IR.
HLO_NODISCARD HloStatus mlir_read_file(HloArena *arena, const void *bytes, size_t length, MlirOperation **top);
// The same of a kernel in the dialect Mosaic (mosaic/mosaic.h): vectors and memrefs have the shapes of their arrays.
HLO_NODISCARD HloStatus mlir_read_kernel_file(HloArena *arena, const void *bytes, size_t length, MlirOperation **top);

#endif
