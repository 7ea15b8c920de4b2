// SPDX-License-Identifier: Apache-2.0
// Reads and writes modules as protobuf: HloModuleProto (also in HloProto, HloModuleProtoWithConfig or HloSnapshot).
// Everything that both text and protobuf can express survives both ways; replica and partition counts are in
// HloModuleConfigProto, a separate message in XLA's files. Fields that text cannot express (debug options, profiles,
// shardings of a partitioned program's parameters) are carried unchanged from one message to the next.
//
// Stability: stable.
#ifndef MESHLO_HLO_PROTO_PROTO_H_
#define MESHLO_HLO_PROTO_PROTO_H_

#include "hlo/ir/module.h"

HLO_BEGIN_C

// Appends the serialised HloModuleProto to `bytes`. RESOURCE_EXHAUSTED when memory is short, UNIMPLEMENTED naming what
// the message has no field for. Only reads the module.
HLO_EXPORT HLO_NODISCARD HloStatus hlo_module_to_proto(const HloModule *module, HloText *bytes);

// Appends the serialised HloModuleConfigProto: entry layout, counts, propagation flags. Field 2 of a
// HloModuleProtoWithConfig, whose field 1 is the module. Errors as above.
HLO_EXPORT HLO_NODISCARD HloStatus hlo_module_config_to_proto(const HloModule *module, HloText *bytes);

// Reads a serialised HloModuleProto, or an HloProto or HloModuleProtoWithConfig that contains one. The module is the
// caller's; free it with hlo_module_free(). INVALID_ARGUMENT with the byte offset for malformed input; every count and
// length is checked against the available bytes before memory is allocated. Unknown fields of instructions are skipped.
HLO_EXPORT HLO_NODISCARD HloStatus hlo_module_from_proto(const void *bytes, size_t length, HloModule **module);

// Appends a HloModuleProtoWithConfig: the module and its configuration. Errors as above.
HLO_EXPORT HLO_NODISCARD HloStatus hlo_module_to_proto_with_config(const HloModule *module, HloText *bytes);

// True if the bytes begin like a HloModuleProto or HloProto; used to detect a file's format.
HLO_EXPORT bool hlo_looks_like_proto(const void *bytes, size_t length);

// One shape as ShapeProto, as compile options have it; lives in `arena`. INVALID_ARGUMENT for malformed bytes, types
// that do not exist, sizes that overflow and layouts that are not an order of the dimensions.
HLO_EXPORT HLO_NODISCARD HloStatus hlo_shape_from_proto(HloArena *arena, const void *bytes, size_t length,
                                                        const HloShape **shape);
// The reverse: appends a shape as ShapeProto.
HLO_EXPORT void hlo_shape_to_proto(const HloShape *shape, HloText *bytes);
// One sharding as OpSharding, as PJRT and custom-call options have it.
HLO_EXPORT void hlo_sharding_to_proto(const HloSharding *sharding, HloText *bytes);
// The reverse; `arena` owns the result. INVALID_ARGUMENT for malformed bytes and tilings whose product does not match.
HLO_EXPORT HLO_NODISCARD HloStatus hlo_sharding_from_proto(HloArena *arena, const void *bytes, size_t length,
                                                           const HloSharding **sharding);

HLO_END_C

#endif
