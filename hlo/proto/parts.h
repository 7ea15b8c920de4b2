// SPDX-License-Identifier: Apache-2.0
// The messages inside a HloModuleProto, each written and read by a pair of functions. Private to hlo/proto. Readers put
// their results in `arena`; `begin` is the start of the whole input, for byte offsets in messages.
#ifndef MESHLO_HLO_PROTO_PARTS_H_
#define MESHLO_HLO_PROTO_PARTS_H_

#include "hlo/ir/module.h"
#include "hlo/proto/wire.h"

// The fields of HloModuleProto and HloModuleConfigProto that HloModule represents, one bit each; all others are kept as
// bytes. Field 5 of the first is the writer's module id, 9 is reserved.
#define HLO_PROTO_MODULE_FIELDS                                                                                      \
    (1u << 1 | 1u << 2 | 1u << 3 | 1u << 4 | 1u << 5 | 1u << 6 | 1u << 7 | 1u << 8 | 1u << 9 | 1u << 17 | 1u << 18 | \
     1u << 19 | 1u << 20 | 1u << 22)
#define HLO_PROTO_CONFIG_FIELDS (1u << 1 | 1u << 4 | 1u << 5 | 1u << 7 | 1u << 17 | 1u << 27 | (uint64_t)1 << 33)

// The input of every reader of a nested message.
typedef struct HloProtoSource {
    HloArena *arena;
    const unsigned char *begin;
    int depth;                        // nesting so far; bounded, so that hostile input cannot exhaust the stack
    const HloStringVector *payloads;  // of the module, which Payload messages name by number; NULL outside of a module
} HloProtoSource;

// INVALID_ARGUMENT when messages nest too deep; else a source one level further in.
HLO_NODISCARD HloStatus hlo_proto_descend(const HloProtoSource *source, HloProtoSource *inner);

// ShapeProto.
void hlo_proto_write_shape(HloText *text, int32_t number, const HloShape *shape);
// Refuses types that do not exist, sizes that overflow and layouts of another rank.
HLO_NODISCARD HloStatus hlo_proto_read_shape(const HloProtoSource *source, HloSpan span, const HloShape **shape);

// LiteralProto.
void hlo_proto_write_literal(HloText *text, int32_t number, const HloLiteral *literal);
// Values must fill the shape exactly; a literal without values is elided.
HLO_NODISCARD HloStatus hlo_proto_read_literal(const HloProtoSource *source, HloSpan span, const HloLiteral **literal);

// OpSharding.
void hlo_proto_write_sharding(HloText *text, int32_t number, const HloSharding *sharding);
// Refuses device orders that are not permutations and numbers of tiles that do not match the devices.
HLO_NODISCARD HloStatus hlo_proto_read_sharding(const HloProtoSource *source, HloSpan span,
                                                const HloSharding **sharding);

// Fields of HloInstructionProto that replaced CollectiveDeviceListProto in 2026 for two of the three forms.
enum { HLO_PROTO_IOTA_GROUPS = 92, HLO_PROTO_MESH_GROUPS = 93 };
// CollectiveDeviceListProto as field `number`, and the newer field of the form if it has one.
void hlo_proto_write_replica_groups(HloText *text, int32_t number, const HloReplicaGroups *groups);
// A CollectiveDeviceListProto. INVALID_ARGUMENT for groups that do not fit their own dims or mesh.
HLO_NODISCARD HloStatus hlo_proto_read_replica_groups(const HloProtoSource *source, HloSpan span,
                                                      const HloReplicaGroups **groups);
// One of the newer fields.
HLO_NODISCARD HloStatus hlo_proto_read_group_form(const HloProtoSource *source, int32_t number, HloSpan span,
                                                  const HloReplicaGroups **groups);

// A HloModuleProto inside of another message, without or with wrappers. Free with hlo_module_free().
HLO_NODISCARD HloStatus hlo_proto_read_module(const HloProtoSource *source, HloSpan span, HloModule **module);

// OpMetadata. `payload` is the number of its payload in the module's list, or -1 to write it in place.
void hlo_proto_write_metadata(HloText *text, int32_t number, const HloMetadata *metadata, int64_t payload);
// A Payload, in place or by its number in source->payloads. INVALID_ARGUMENT if there is none with this number.
HLO_NODISCARD HloStatus hlo_proto_read_payload(const HloProtoSource *source, HloSpan span, const char **payload);
// An empty message gives NULL.
HLO_NODISCARD HloStatus hlo_proto_read_metadata(const HloProtoSource *source, HloSpan span,
                                                const HloMetadata **metadata);

// OriginalValueProto from the text between the braces of origin={...}; nothing for NULL.
void hlo_proto_write_origin(HloText *text, int32_t number, const char *origin);
// INVALID_ARGUMENT for elements that leave a gap in their tuple.
HLO_NODISCARD HloStatus hlo_proto_read_origin(const HloProtoSource *source, HloSpan span, const char **origin);
// OriginalValueRecoveryTableProto, with the modules in it; nothing without recoveries.
void hlo_proto_write_recoveries(HloText *text, int32_t number, const HloModule *module);
// Adds the entries to the module.
HLO_NODISCARD HloStatus hlo_proto_read_recoveries(const HloProtoSource *source, HloSpan span, HloModule *module);
// StatisticsViz from the text between the braces of statistics={...}; nothing for NULL.
void hlo_proto_write_statistics(HloText *text, int32_t number, const char *statistics);
// Leaves *statistics unchanged for an empty message.
HLO_NODISCARD HloStatus hlo_proto_read_statistics(const HloProtoSource *source, HloSpan span, const char **statistics);

// The attribute fields of a HloInstructionProto. `fields` are all fields of the message.
void hlo_proto_write_attributes(HloText *text, const HloInstruction *instruction);
// Fills the (zeroed) struct of the opcode's family.
HLO_NODISCARD HloStatus hlo_proto_read_attributes(const HloProtoSource *source, const HloWireField *fields,
                                                  int64_t field_count, HloOpcode opcode, void *attributes);

#endif
