// SPDX-License-Identifier: Apache-2.0
// Constants of MLIR's bytecode that the reader (read*.c) and the writer (write*.c) share. MLIR, StableHLO and Shardy
// guarantee compatibility with old files: no number ever changes its meaning. Private to hlo/stablehlo.
//
// Sources: mlir/docs/BytecodeFormat.md and mlir/include/mlir/Bytecode/Encoding.h (sections, operations),
// mlir/include/mlir/IR/BuiltinDialectBytecode.td (builtin), stablehlo/dialect/VhloBytecode.cpp (vhlo),
// shardy/dialect/sdy/ir/bytecode.td (sdy).
//
// A file is a sequence of sections: a byte with the section's number, a varint with its length, its content.
//
//   4D 4C EF 52  0D  "StableHLO_v1.9.0\0"   magic, container's version 6 as a varint, producer
//   01 ..                                   dialects and operations' names, as numbers of strings
//   02 ..                                   entries of the attributes, then of the types: their contents
//   03 ..                                   length of each of these entries
//   04 ..                                   operations, as numbers of all of the above
//   00 ..                                   strings
//   08 ..                                   properties: runs of numbers of attributes
//
// An entry is a code of the enumerations below and its parts. tensor<2x3xf32> of vhlo, for example:
//
//   20 2 4 6 n     code of a ranked tensor, rank, sizes as signed varints (twice the number), number of the element's
//                  type
//
// Numbers are varints: the position of the lowest set bit of the first byte gives the number of bytes, and the
// remaining bits are the number, little endian:
//
//   0..127             xxxxxxx1
//   up to 14 bits      xxxxxx10 xxxxxxxx
//   ..
//   64 bits            00000000 and eight bytes
//
// Signed numbers are zigzag: 0 -1 1 -2 becomes 0 1 2 3.
#ifndef MESHLO_HLO_STABLEHLO_BYTECODE_FORMAT_H_
#define MESHLO_HLO_STABLEHLO_BYTECODE_FORMAT_H_

// The first bytes of a file: "ML" and two that are not text.
#define MLIR_MAGIC "ML\xEFR"

enum {
    MLIR_MAGIC_BYTES = 4,
    MLIR_NEWEST_CONTAINER = 6,  // the newest version of the container that is known
};

typedef enum MlirSection {
    MLIR_SECTION_STRING = 0,
    MLIR_SECTION_DIALECT = 1,
    MLIR_SECTION_ATTR_TYPE = 2,
    MLIR_SECTION_ATTR_TYPE_OFFSET = 3,
    MLIR_SECTION_IR = 4,
    MLIR_SECTION_PROPERTIES = 8,
    MLIR_SECTION_COUNT = 9,  // 5 to 7, resources and dialects' versions, are passed over
} MlirSection;

// An operation is its name's number, this byte, its location's number, and then the parts that the byte announces, in
// this order: dictionary, properties, results, operands, successors, orders of uses, regions.
enum {
    MLIR_OP_HAS_ATTRIBUTES = 0x01,  // a dictionary
    MLIR_OP_HAS_RESULTS = 0x02,
    MLIR_OP_HAS_OPERANDS = 0x04,
    MLIR_OP_HAS_SUCCESSORS = 0x08,  // blocks that a terminator branches to: StableHLO has none
    MLIR_OP_HAS_REGIONS = 0x10,
    MLIR_OP_HAS_USE_ORDERS = 0x20,
    MLIR_OP_HAS_PROPERTIES = 0x40,  // a run of the properties section; from version 5 on
};

typedef enum BuiltinAttributeCode {
    BUILTIN_ARRAY = 0,
    BUILTIN_DICTIONARY = 1,
    BUILTIN_STRING = 2,
    BUILTIN_TYPED_STRING = 3,
    BUILTIN_FLAT_SYMBOL = 4,
    BUILTIN_SYMBOL = 5,
    BUILTIN_TYPE = 6,
    BUILTIN_UNIT = 7,
    BUILTIN_INTEGER = 8,
    BUILTIN_FLOAT = 9,
    BUILTIN_CALL_SITE = 10,  // locations, up to BUILTIN_UNKNOWN_LOCATION
    BUILTIN_FILE_LINE = 11,
    BUILTIN_FUSED = 12,
    BUILTIN_FUSED_WITH_METADATA = 13,
    BUILTIN_NAME_LOCATION = 14,
    BUILTIN_UNKNOWN_LOCATION = 15,
    BUILTIN_DENSE_ARRAY = 17,
    BUILTIN_TENSOR = 18,
    BUILTIN_FILE_LINE_RANGE = 22,  // a location
} BuiltinAttributeCode;

typedef enum BuiltinTypeCode {
    BUILTIN_INTEGER_TYPE = 0,
    BUILTIN_INDEX_TYPE = 1,
    BUILTIN_FUNCTION_TYPE = 2,
    BUILTIN_BF16_TYPE = 3,
    BUILTIN_F16_TYPE = 4,
    BUILTIN_F32_TYPE = 5,
    BUILTIN_F64_TYPE = 6,
    BUILTIN_COMPLEX_TYPE = 9,
    BUILTIN_MEMREF_TYPE = 10,  // this, the next, and vectors: only in kernels
    BUILTIN_MEMREF_WITH_SPACE_TYPE = 11,
    BUILTIN_NONE_TYPE = 12,
    BUILTIN_TENSOR_TYPE = 13,
    BUILTIN_ENCODED_TENSOR_TYPE = 14,
    BUILTIN_TUPLE_TYPE = 15,
    BUILTIN_UNRANKED_TENSOR_TYPE = 18,
    BUILTIN_VECTOR_TYPE = 19,
} BuiltinTypeCode;

// vhlo_encoding::AttributeCode. After the code of an enumeration follows one varint, the ordinal.
typedef enum VhloAttributeCode {
    VHLO_ARRAY = 1,
    VHLO_BOOL = 2,
    VHLO_COMPARISON_DIRECTION = 3,
    VHLO_COMPARISON_TYPE = 4,
    VHLO_API_VERSION = 5,
    VHLO_DICTIONARY = 6,
    VHLO_FFT_TYPE = 7,
    VHLO_FLOAT = 8,
    VHLO_INTEGER = 9,
    VHLO_OUTPUT_OPERAND_ALIAS = 10,
    VHLO_PRECISION = 11,
    VHLO_RNG_ALGORITHM = 12,
    VHLO_RNG_DISTRIBUTION = 13,
    VHLO_STRING = 14,
    VHLO_TENSOR = 15,
    VHLO_TRANSPOSE = 16,
    VHLO_TYPE_ATTRIBUTE = 17,
    VHLO_TYPE_EXTENSIONS = 18,  // the bounds of dynamic sizes
    VHLO_RESULT_ACCURACY_MODE = 19,
    VHLO_RESULT_ACCURACY = 20,
    VHLO_SUB_AXIS = 21,  // this and the rest: replica groups by the axes of a mesh
    VHLO_AXIS_REF = 22,
    VHLO_MESH_GROUPS = 23,
    VHLO_MESH_AXIS = 24,
    VHLO_MESH = 25,
} VhloAttributeCode;

// vhlo_encoding::TypeCode, except for the element types, which are in vhlo_types.def.
typedef enum VhloTypeCode {
    VHLO_COMPLEX_TYPE = 1,
    VHLO_FUNCTION_TYPE = 8,
    VHLO_INDEX_TYPE = 9,
    VHLO_TENSOR_TYPE = 20,
    VHLO_ENCODED_TENSOR_TYPE = 21,
    VHLO_TOKEN_TYPE = 22,
    VHLO_TUPLE_TYPE = 23,
    VHLO_QUANTIZED_TYPE = 24,
    VHLO_QUANTIZED_PER_AXIS_TYPE = 30,
    VHLO_NONE_TYPE = 33,
    VHLO_TF32_TYPE = 34,
    VHLO_F6E2M3FN_TYPE = 38,
    VHLO_F6E3M2FN_TYPE = 39,
    VHLO_BUFFER_TYPE = 41,
    VHLO_FUTURE_TYPE = 42,
} VhloTypeCode;

// Codes of sdy that mlir/mlir.h's MlirSdyCode does not have: parts of a sharding rule, and newer forms of older
// attributes.
enum {
    SDY_DIM_MAPPING = 8,
    SDY_TENSOR_MAPPING = 9,
    SDY_NEWER_SHARDING = 15,  // with unreduced axes
    SDY_NEWER_PER_VALUE = 16,
};

// The only type of StableHLO itself that occurs in a portable file, where operations of sdy take tokens.
enum { STABLEHLO_TOKEN_TYPE = 0 };

#endif
