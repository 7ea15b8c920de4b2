// SPDX-License-Identifier: Apache-2.0
// The writer of portable bytecode: tables of strings, attributes and types, into which everything is put once. Private
// to hlo/stablehlo. Source of the format: mlir/docs/BytecodeFormat.md, stablehlo/dialect/VhloBytecode.cpp.
#ifndef MESHLO_HLO_STABLEHLO_BYTECODE_WRITER_H_
#define MESHLO_HLO_STABLEHLO_BYTECODE_WRITER_H_

#include "hlo/stablehlo/mlir/dialect.h"

typedef HLO_VECTOR(unsigned char) WriteBytes;

typedef enum WriteDialect { WRITE_BUILTIN, WRITE_VHLO, WRITE_DIALECT_COUNT } WriteDialect;

// An entry of the attribute or type table.
typedef struct WriteEntry {
    WriteDialect dialect;
    const unsigned char *bytes;
    int64_t length;
} WriteEntry;

typedef struct WriteTable {
    HLO_VECTOR(WriteEntry) entries;
    HloStringMap index;  // bytes, the dialect first -> index + 1
} WriteTable;

// A string may include NULs; its length does not count the terminating one.
typedef struct WriteString {
    const char *bytes;
    int64_t length;
} WriteString;

typedef struct Writer {
    HloArena *arena;
    int64_t target;   // StableHLO release, 1.13.7 as 11307
    int64_t version;  // of the bytecode
    HLO_VECTOR(WriteString) strings;
    HloStringMap string_index;  // -> index + 1
    WriteTable attributes, types;
    HloStringVector op_names;  // without dialect; those of vhlo but for the first, `module`
    HloStringMap op_index;
    HLO_VECTOR(WriteBytes) properties;
    // Table indices by address: MlirType -> index, location -> index.
    HloIntMap type_index, location_index;
    HloIntMap versions;  // address of an operation's name -> VersionedOp
    HloStatus status;    // the first error
} Writer;

// Appends to a run of bytes.
void write_byte(Writer *writer, WriteBytes *bytes, unsigned value);
// A number of 1 to 9 bytes; its low bits give the number of bytes.
void write_varint(Writer *writer, WriteBytes *bytes, uint64_t value);
// `length` bytes, unchanged.
void write_run(Writer *writer, WriteBytes *bytes, const void *data, int64_t length);

// Puts an item into its table and returns its index. `builtin` attributes are those of the module, which no vhlo op
// has.
uint64_t write_string_index(Writer *writer, const char *string);
// A type.
uint64_t write_type_index(Writer *writer, const MlirType *type);
// An attribute of a vhlo operation.
uint64_t write_attribute_index(Writer *writer, const MlirAttribute *attribute);
// An attribute of the module.
uint64_t write_builtin_index(Writer *writer, const MlirAttribute *attribute);
// A source location, which is an attribute too.
uint64_t write_location_index(Writer *writer, const MlirAttribute *location);
// A builtin dictionary of the operation's attributes; `names` and `values` are `count` indices of builtin strings and
// of attributes.
uint64_t write_dictionary_index(Writer *writer, const uint64_t *names, const uint64_t *values, int64_t count);
// A builtin string attribute.
uint64_t write_builtin_string(Writer *writer, const char *string);

// Records an error unless there is one.
void write_fail(Writer *writer, const char *format, ...) HLO_PRINTF(2, 3);

// The value of an op's attribute when it is omitted; NULL if it is required. `operation` determines the number of
// dimensions.
const MlirAttribute *write_default(Writer *writer, const MlirOperation *operation, const char *name);

// The number of a release of StableHLO, "1.9.0" as 10900. INVALID_ARGUMENT if it is malformed or unknown.
HLO_NODISCARD HloStatus mlir_release_number(const char *release, int64_t *number);

// Appends a portable artifact for a StableHLO release, "1.9.0". INVALID_ARGUMENT for releases that are unknown,
// UNIMPLEMENTED naming what the release cannot express.
HLO_NODISCARD HloStatus mlir_write(HloArena *arena, const MlirOperation *top, const char *release, HloText *bytes);

#endif
