// SPDX-License-Identifier: Apache-2.0
// Field numbers: xla/pjrt/proto/compile_options.proto, xla/xla_data.proto (DeviceAssignmentProto).
// CompileOptionsProto, as far as it concerns us, read with the wire reader of hlo/proto: there is no generated code.
// Unknown fields are skipped.
#include "pjrt/options.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "hlo/base/decimal.h"
#include "hlo/proto/proto.h"
#include "hlo/proto/wire.h"

typedef struct Source {
    HloArena *arena;
    const unsigned char *begin;
} Source;

// Repeated fields may be packed, unpacked or mixed: new values are appended.
static HloStatus read_bools(const Source *source, const HloWireField *field, HloBools *bools) {
    HloInt64Vector list = {0};
    for (int64_t i = 0; i < bools->count; i++) hlo_vector_push(source->arena, &list, bools->items[i]);
    HLO_TRY(hlo_wire_read_ints(source->arena, source->begin, field, &list));
    bool *items = HLO_ARENA_NEW(source->arena, bool, list.count);
    for (int64_t i = 0; i < list.count; i++) items[i] = list.items[i] != 0;
    *bools = (HloBools){items, list.count};
    return HLO_SUCCESS;
}

// computation_devices[partition].replica_device_ids[replica], transposed to replica-major. DeviceAssignmentProto lists
// a computation (partition) with the devices of its replicas; target_compile() expects a replica with its partitions.
// Ragged ones are refused, so the product of the two counts is the number of ids that were read.
static HloStatus read_assignment(const Source *source, HloSpan span, HloInts *assignment) {
    HloWireReader reader = hlo_wire_reader(source->begin, span), inner;
    HloWireField field, part;
    HloStatus status;
    HLO_VECTOR(HloInts) columns = {0};
    while (hlo_wire_next(&reader, &field, &status)) {
        if (field.number != 3) continue;
        HloInt64Vector ids = {0};
        inner = hlo_wire_reader(source->begin, field.bytes);
        while (hlo_wire_next(&inner, &part, &status)) {
            if (part.number == 1) HLO_TRY(hlo_wire_read_ints(source->arena, source->begin, &part, &ids));
        }
        HLO_TRY(status);
        hlo_vector_push(source->arena, &columns, ((HloInts){ids.items, ids.count}));
    }
    HLO_TRY(status);
    int64_t replicas = columns.count ? columns.items[0].count : 0;
    int64_t *ids = HLO_ARENA_NEW(source->arena, int64_t, replicas * columns.count);
    for (int64_t p = 0; p < columns.count; p++) {
        HLO_FAIL_IF(columns.items[p].count != replicas, HLO_INVALID_ARGUMENT, "a device assignment is ragged");
        for (int64_t r = 0; r < replicas; r++) ids[r * columns.count + p] = columns.items[p].items[r];
    }
    *assignment = (HloInts){ids, replicas * columns.count};
    return HLO_SUCCESS;
}

// Irrelevant fields are skipped, as protobuf requires of readers: newer clients send more.
static HloStatus read_build_options(const Source *source, HloSpan span, PjrtCompileOptions *options) {
    HloWireReader reader = hlo_wire_reader(source->begin, span);
    HloWireField field;
    HloStatus status;
    while (hlo_wire_next(&reader, &field, &status)) {
        switch (field.number) {
            case 2:
                HLO_TRY(
                    hlo_shape_from_proto(source->arena, field.bytes.data, field.bytes.length, &options->result_shape));
                break;
            case 4: options->num_replicas = (int64_t)field.value; break;
            case 5: options->num_partitions = (int64_t)field.value; break;
            case 9: HLO_TRY(read_assignment(source, field.bytes, &options->assignment)); break;
            case 12: HLO_TRY(read_bools(source, &field, &options->propagate_to_output)); break;
            case 18: HLO_TRY(read_bools(source, &field, &options->propagate_to_parameters)); break;
            default: break;
        }
    }
    return status;
}

// ---- env_option_overrides: a map of names to {1: string, 2: bool, 3: int64, 4: double}

typedef enum OptionKind { OPTION_BOOL, OPTION_INT, OPTION_FLOAT } OptionKind;

static const struct {
    const char *name;
    OptionKind kind;
} known_options[] = {
#define COMPILE_OPTION(name, kind) {name, OPTION_##kind},
#include "pjrt/compile_options.def"
#undef COMPILE_OPTION
};

static bool is_bool(const char *text) {
    static const char *const words[] = {"true", "false", "True", "False", "1", "0"};
    for (size_t i = 0; i < HLO_COUNT_OF(words); i++)
        if (strcmp(text, words[i]) == 0) return true;
    return false;
}

// Only values given as text can be of the wrong kind: numbers convert.
static HloStatus check_value(const char *name, OptionKind kind, const char *text) {
    assert(name && text);
    static const char *const kinds[] = {"bool", "int64", "double"};
    char *end = NULL;
    if (kind == OPTION_INT) (void)strtoll(text, &end, 10);
    if (kind == OPTION_FLOAT) (void)hlo_strtod(text, &end);
    const bool fits = kind == OPTION_BOOL ? is_bool(text) : *text && *end == 0;
    HLO_FAIL_IF(!fits, HLO_INVALID_ARGUMENT, "While setting option %s, '%s' is not a valid %s value.", name, text,
                kinds[kind]);
    return HLO_SUCCESS;
}

// Frameworks set many options of XLA that mean nothing here. All that begin as XLA's do are accepted; those that are
// known must have a value of their kind, and any other name is a mistake of the caller's.
// OptionOverrideProto is a oneof; only its string form can be of the wrong kind. `env_option_overrides` is JAX's
// dictionary compiler_options.
static HloStatus check_override(const Source *source, HloSpan entry) {
    HloWireReader reader = hlo_wire_reader(source->begin, entry), inner;
    HloWireField field, part;
    HloStatus status;
    const char *name = "", *text = NULL;
    while (hlo_wire_next(&reader, &field, &status)) {
        if (field.number == 1) HLO_TRY(hlo_wire_string(source->arena, field.bytes, &name));
        if (field.number != 2) continue;
        inner = hlo_wire_reader(source->begin, field.bytes);
        while (hlo_wire_next(&inner, &part, &status))
            if (part.number == 1) HLO_TRY(hlo_wire_string(source->arena, part.bytes, &text));
        HLO_TRY(status);
    }
    HLO_TRY(status);
    for (size_t i = 0; i < HLO_COUNT_OF(known_options); i++) {
        if (strcmp(name, known_options[i].name) != 0) continue;
        return text ? check_value(name, known_options[i].kind, text) : HLO_SUCCESS;
    }
    HLO_FAIL_IF(strncmp(name, "xla_", 4) != 0, HLO_INVALID_ARGUMENT, "No such compile option: '%s'", name);
    return HLO_SUCCESS;
}

// Zero means unspecified, as protobuf omits fields that are zero. Limits are checked before products are formed of
// numbers from the wire.
HloStatus pjrt_options_parse(HloArena *arena, const void *bytes, size_t length, PjrtCompileOptions *options) {
    assert(options && (bytes || length == 0));
    Source source = {arena, bytes};
    HloWireReader reader = hlo_wire_reader(bytes, (HloSpan){bytes, length});
    HloWireField field;
    HloStatus status;
    *options = (PjrtCompileOptions){.num_replicas = 1, .num_partitions = 1};
    HLO_VECTOR(const HloShape *) arguments = {0};
    while (hlo_wire_next(&reader, &field, &status)) {
        if (field.number == 1) {
            const HloShape *shape;
            HLO_TRY(hlo_shape_from_proto(arena, field.bytes.data, field.bytes.length, &shape));
            hlo_vector_push(arena, &arguments, shape);
        }
        if (field.number == 3) HLO_TRY(read_build_options(&source, field.bytes, options));
        if (field.number == 4) options->portable = field.value != 0;
        if (field.number == 7) HLO_TRY(check_override(&source, field.bytes));
    }
    HLO_TRY(status);
    options->argument_shapes = arguments.items;
    options->argument_shape_count = arguments.count;
    if (options->num_replicas == 0) options->num_replicas = 1;
    if (options->num_partitions == 0) options->num_partitions = 1;
    const int64_t most = (int64_t)1 << 20;
    HLO_FAIL_IF(options->num_replicas < 0 || options->num_partitions < 0 || options->num_replicas > most ||
                    options->num_partitions > most,
                HLO_INVALID_ARGUMENT, "%lld replicas of %lld partitions", (long long)options->num_replicas,
                (long long)options->num_partitions);
    int64_t count = options->num_replicas * options->num_partitions;
    HLO_FAIL_IF(options->assignment.count && options->assignment.count != count, HLO_INVALID_ARGUMENT,
                "a device assignment of %lld devices for %lld", (long long)options->assignment.count, (long long)count);
    return HLO_SUCCESS;
}

void pjrt_assignment_print(HloText *bytes, const int64_t *ids, int64_t replicas, int64_t partitions) {
    assert(replicas > 0 && partitions > 0);
    hlo_wire_varint(bytes, 1, (uint64_t)replicas);
    hlo_wire_varint(bytes, 2, (uint64_t)partitions);
    for (int64_t p = 0; p < partitions; p++) {
        size_t computation = hlo_wire_begin(bytes, 3);
        size_t list = hlo_wire_begin(bytes, 1);
        for (int64_t r = 0; r < replicas; r++) hlo_wire_number(bytes, (uint64_t)ids[r * partitions + p]);
        hlo_wire_end(bytes, list);
        hlo_wire_end(bytes, computation);
    }
}
