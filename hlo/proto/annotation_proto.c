// SPDX-License-Identifier: Apache-2.0
// Origins (OriginalValueProto, OriginalValueRecoveryTableProto) and statistics (StatisticsViz). The IR keeps both as
// the text between their braces, since nothing computes with them; here that text is split into messages and assembled
// again. Messages: xla/xla_data.proto and xla/service/hlo.proto.
#include <ctype.h>
#include <stdlib.h>

#include "hlo/base/decimal.h"
#include "hlo/proto/parts.h"
#include "hlo/proto/proto.h"

// ---------------------------------------------------------------------------------------------------------------------
// Text to messages. The parser has checked the text, so that only its spaces and comments are not known.

static const char *skip_blank(const char *at) {
    for (;;) {
        while (isspace((unsigned char)*at)) at++;
        const char *end = at[0] == '/' && at[1] == '*' ? strstr(at + 2, "*/") : NULL;
        if (!end) return at;
        at = end + 2;
    }
}

// {"name" {1,2}}, {"name"} or {}, starting at its brace, as the fields of an OriginalArrayProto; *given is false for
// {}.
static const char *write_array(HloText *text, const char *at, HloArena *scratch, bool *given) {
    assert(*at == '{');  // the caller looked
    at = skip_blank(at + 1);
    *given = *at == '"';
    if (*given) {
        const char *name = ++at;
        while (*at && *at != '"') at += *at == '\\' && at[1] ? 2 : 1;
        char *decoded = hlo_arena_string(scratch, name, (size_t)(at - name));
        const int64_t length = hlo_quoted_unescape(decoded, (size_t)(at - name));
        assert(length >= 0);  // the parser has read it as a string, or we have written it
        hlo_wire_bytes(text, 1, decoded, (size_t)length);
        at = skip_blank(at + (*at == '"'));
    }
    HloInt64Vector index = {0};
    if (*at == '{') {
        for (at = skip_blank(at + 1); isdigit((unsigned char)*at);) {
            char *end;
            hlo_vector_push(scratch, &index, strtoll(at, &end, 10));
            at = skip_blank(end);
            if (*at == ',') at = skip_blank(at + 1);
        }
        at = skip_blank(at + (*at == '}'));
    }
    hlo_wire_ints(text, 2, (HloInts){index.items, index.count});
    return at + (*at == '}');
}

// One OriginalValueElementProto for the index `path` in the tuple, with the array at `at` if it is a leaf.
static const char *write_element(HloText *text, const HloInt64Vector *path, const char *at, HloArena *scratch) {
    size_t element = hlo_wire_begin(text, 1);
    hlo_wire_ints(text, 1, (HloInts){path->items, path->count});
    if (at) {
        size_t start = text->length, array = hlo_wire_begin(text, 2);
        bool given;
        at = write_array(text, at, scratch, &given);
        hlo_wire_end(text, array);
        if (!given && !text->failed) text->length = start;  // {}: a leaf of which nothing is known has no message
    }
    hlo_wire_end(text, element);
    return at;
}

// The text of an origin, ({"a" {0}}, ({"b"}, {})), as an OriginalValueProto, whose elements are a flat list with their
// indices in the tuple: `path` is the current index, one number for each open parenthesis, which a comma increments. A
// tuple has its own element before those of its parts. "[synthetic_call]" is a flag (field 2) and has no elements. The
// text was checked when it was read: any other content is skipped.
void hlo_proto_write_origin(HloText *text, int32_t number, const char *origin) {
    if (!origin) return;
    HloArena *scratch = hlo_arena_scratch_new();
    size_t mark = hlo_wire_begin(text, number);
    HloInt64Vector path = {0};
    const char *at = skip_blank(origin);
    if (*at == '[') {
        hlo_wire_varint(text, 2, 1);
        at = "";
    }
    while (*(at = skip_blank(at))) {
        if (*at == '{') {
            at = write_element(text, &path, at, scratch);
            continue;
        }
        if (*at == '(') {
            write_element(text, &path, NULL, scratch);
            hlo_vector_push(scratch, &path, 0);
        } else if (*at == ',' && path.count) {
            path.items[path.count - 1]++;
        } else if (*at == ')' && path.count) {
            path.count--;
        }
        at++;
    }
    hlo_wire_end(text, mark);
    hlo_arena_free(scratch);
}

static void write_original_array(HloText *text, int32_t number, const HloOriginalArray *array) {
    size_t mark = hlo_wire_begin(text, number);
    hlo_wire_bytes(text, 1, array->name, strlen(array->name));
    hlo_wire_ints(text, 2, array->index);
    hlo_wire_end(text, mark);
}

// A module that cannot be written ends the writing of the text that contains it.
void hlo_proto_write_recoveries(HloText *text, int32_t number, const HloModule *module) {
    if (!module->recoveries.count) return;
    size_t mark = hlo_wire_begin(text, number);
    for (int64_t i = 0; i < module->recoveries.count; i++) {
        const HloRecovery *recovery = &module->recoveries.items[i];
        size_t entry = hlo_wire_begin(text, 1);
        write_original_array(text, 1, &recovery->lost);
        write_original_array(text, 2, &recovery->kept);
        if (recovery->module) {
            size_t inner = hlo_wire_begin(text, 3);
            HloStatus status = hlo_module_to_proto(recovery->module, text);
            HLO_BUG_IF(status && hlo_status_code(status) != HLO_RESOURCE_EXHAUSTED);  // readers give it an entry
            text->failed |= status != NULL;
            hlo_status_free(status);
            hlo_wire_end(text, inner);
        }
        hlo_wire_end(text, entry);
    }
    hlo_wire_end(text, mark);
}

// Converts the text after statistics= back to a StatisticsViz: the visualised index comes first and is an integer, the
// others are a name and a double each. The parser has checked the text.
void hlo_proto_write_statistics(HloText *text, int32_t number, const char *statistics) {
    if (!statistics) return;
    size_t mark = hlo_wire_begin(text, number);
    bool first = true;
    for (const char *at = statistics, *equals; (equals = strchr(at, '=')); first = false) {
        char *end;
        if (first) {
            hlo_wire_varint(text, 1, (uint64_t)strtoll(equals + 1, &end, 10));
        } else {
            size_t entry = hlo_wire_begin(text, 2);
            hlo_wire_bytes(text, 1, at, (size_t)(equals - at));
            hlo_wire_double(text, 2, hlo_strtod(equals + 1, &end));
            hlo_wire_end(text, entry);
        }
        at = end + (*end == ',');
    }
    hlo_wire_end(text, mark);
}

// ---------------------------------------------------------------------------------------------------------------------
// Messages to text

typedef struct OriginElement {
    HloInts index;
    const char *array;  // {"name" {1}} or {}
} OriginElement;

typedef HLO_VECTOR(OriginElement) OriginElements;

// OriginalArrayProto.
static HloStatus read_array(const HloProtoSource *source, HloSpan span, HloOriginalArray *array) {
    HloInt64Vector index = {0};
    array->name = "";
    HloWireReader reader = hlo_wire_reader(source->begin, span);
    HloWireField field;
    HloStatus status;
    while (hlo_wire_next(&reader, &field, &status)) {
        if (field.number == 1) HLO_TRY(hlo_wire_string(source->arena, field.bytes, &array->name));
        if (field.number == 2) HLO_TRY(hlo_wire_read_ints(source->arena, source->begin, &field, &index));
    }
    array->index = (HloInts){index.items, index.count};
    return status;
}

// As read_array(), and writes {"name" {1,2}}.
static HloStatus read_array_text(const HloProtoSource *source, HloSpan span, const char **result) {
    HloOriginalArray array;
    HLO_TRY(read_array(source, span, &array));
    HloText text = {0};
    hlo_original_array_print(&text, &array);
    *result = hlo_text_to_arena(source->arena, &text);
    return HLO_SUCCESS;
}

// An element without an array is an unknown leaf, or a tuple.
static HloStatus read_element(const HloProtoSource *source, HloSpan span, OriginElement *element) {
    HloInt64Vector index = {0};
    HloWireReader reader = hlo_wire_reader(source->begin, span);
    HloWireField field;
    HloStatus status;
    element->array = "{}";
    while (hlo_wire_next(&reader, &field, &status)) {
        if (field.number == 1) HLO_TRY(hlo_wire_read_ints(source->arena, source->begin, &field, &index));
        if (field.number == 2) HLO_TRY(read_array_text(source, field.bytes, &element->array));
    }
    element->index = (HloInts){index.items, index.count};
    return status;
}

// Compares indices in the order of the text: a tuple before its elements, elements by number.
static int compare_elements(const void *a, const void *b) {
    HloInts x = ((const OriginElement *)a)->index, y = ((const OriginElement *)b)->index;
    for (int64_t i = 0; i < x.count && i < y.count; i++) {
        if (x.items[i] != y.items[i]) return x.items[i] < y.items[i] ? -1 : 1;
    }
    return x.count < y.count ? -1 : x.count > y.count;
}

// True if the index `inner` is inside the tuple at `outer`.
static bool stands_in(HloInts inner, HloInts outer) {
    if (inner.count <= outer.count) return false;
    for (int64_t i = 0; i < outer.count; i++) {
        if (inner.items[i] != outer.items[i]) return false;
    }
    return true;
}

// Writes the tuple tree whose indices are `elements`, in order. `next` counts the elements begun in each open tuple;
// its memory is allocated before the text begins, which a jump would leak.
static HloStatus write_tree(HloText *text, const OriginElements *elements, HloArena *scratch) {
    HloInt64Vector next = {0};
    for (int64_t e = 0; e < elements->count; e++) {
        hlo_vector_reserve(scratch, &next, elements->items[e].index.count);
    }
    for (int64_t e = 0; e < elements->count; e++) {
        const OriginElement *element = &elements->items[e];
        HloInts place = element->index;
        int64_t common = 0;
        while (common + 1 < next.count && common < place.count && place.items[common] == next.items[common] - 1)
            common++;
        for (; next.count > common + 1; next.count--) hlo_text_char(text, ')');
        for (int64_t level = next.count ? common : 0; level < place.count; level++) {
            if (level == next.count) {
                hlo_text_char(text, '(');
                hlo_vector_push(scratch, &next, 0);
            }
            HLO_FAIL_IF(place.items[level] != next.items[level], HLO_INVALID_ARGUMENT,
                        "an original value lacks an element or has one twice");
            hlo_text_string(text, next.items[level]++ ? ", " : "");
        }
        bool is_tuple = e + 1 < elements->count && stands_in(elements->items[e + 1].index, place);
        if (!is_tuple) hlo_text_string(text, element->array);
    }
    for (; next.count > 0; next.count--) hlo_text_char(text, ')');
    return hlo_text_status(text);
}

// Elements may come in any order; sorted by their indices, they are in the order of the text.
HloStatus hlo_proto_read_origin(const HloProtoSource *source, HloSpan span, const char **origin) {
    OriginElements elements = {0};
    HloWireReader reader = hlo_wire_reader(source->begin, span);
    HloWireField field;
    HloStatus status;
    bool synthetic = false;
    while (hlo_wire_next(&reader, &field, &status)) {
        OriginElement element = {0};
        if (field.number == 2) synthetic = field.value != 0;
        if (field.number != 1) continue;
        HLO_TRY(read_element(source, field.bytes, &element));
        hlo_vector_push(source->arena, &elements, element);
    }
    HLO_TRY(status);
    *origin = "[synthetic_call]";
    if (synthetic) return HLO_SUCCESS;
    if (elements.count > 1) qsort(elements.items, (size_t)elements.count, sizeof(*elements.items), compare_elements);
    HloText text = {0};
    status = write_tree(&text, &elements, source->arena);
    if (!status && text.length) {
        *origin = hlo_text_to_arena(source->arena, &text);
    } else if (!status) {
        *origin = "()";
    }
    hlo_text_free(&text);
    return status;
}

// An entry of the table. The module is read last, so that nothing can fail before the table owns it.
static HloStatus read_recovery(const HloProtoSource *source, HloSpan span, HloModule *module) {
    HloOriginalArray arrays[2] = {{.name = ""}, {.name = ""}};
    const HloSpan *inner = NULL;
    HloSpan found;
    HloModule *recovery = NULL;
    HloWireReader reader = hlo_wire_reader(source->begin, span);
    HloWireField field;
    HloStatus status;
    while (hlo_wire_next(&reader, &field, &status)) {
        if (field.number == 1 || field.number == 2) HLO_TRY(read_array(source, field.bytes, &arrays[field.number - 1]));
        if (field.number != 3) continue;
        found = field.bytes;
        inner = &found;
    }
    HLO_TRY(status);
    if (inner) HLO_TRY(hlo_proto_read_module(source, *inner, &recovery));
    hlo_module_add_recovery(module, &arrays[0], &arrays[1], recovery);
    return HLO_SUCCESS;
}

HloStatus hlo_proto_read_recoveries(const HloProtoSource *source, HloSpan span, HloModule *module) {
    HloWireReader reader = hlo_wire_reader(source->begin, span);
    HloWireField field;
    HloStatus status;
    while (hlo_wire_next(&reader, &field, &status)) {
        if (field.number == 1) HLO_TRY(read_recovery(source, field.bytes, module));
    }
    if (!status) hlo_module_sort_recoveries(module);
    return status;
}

typedef struct Statistic {
    const char *name;
    double value;
} Statistic;

// `value` has the double's bits, as for all fixed fields.
static HloStatus read_statistic(const HloProtoSource *source, HloSpan span, Statistic *statistic) {
    HloWireReader reader = hlo_wire_reader(source->begin, span);
    HloWireField field;
    HloStatus status;
    *statistic = (Statistic){.name = ""};
    while (hlo_wire_next(&reader, &field, &status)) {
        if (field.number == 1) HLO_TRY(hlo_wire_string(source->arena, field.bytes, &statistic->name));
        if (field.number == 2) memcpy(&statistic->value, &field.value, sizeof(statistic->value));
    }
    return status;
}

// Converts a StatisticsViz to the text that HLO prints after statistics=, the form in which the module keeps it. A
// message without any statistic counts as absent.
HloStatus hlo_proto_read_statistics(const HloProtoSource *source, HloSpan span, const char **statistics) {
    HLO_VECTOR(Statistic) items = {0};
    int64_t shown = 0;
    HloWireReader reader = hlo_wire_reader(source->begin, span);
    HloWireField field;
    HloStatus status;
    while (hlo_wire_next(&reader, &field, &status)) {
        Statistic item;
        if (field.number == 1) shown = (int64_t)field.value;
        if (field.number != 2) continue;
        HLO_TRY(read_statistic(source, field.bytes, &item));
        hlo_vector_push(source->arena, &items, item);
    }
    HLO_TRY(status);
    if (!items.count) return HLO_SUCCESS;
    for (int64_t i = 0; i < items.count; i++)
        HLO_FAIL_IF(!hlo_is_attribute_key(items.items[i].name), HLO_INVALID_ARGUMENT,
                    "statistic \"%s\" has a name that HLO text cannot hold", items.items[i].name);
    HloText text = {0};
    hlo_text_format(&text, "visualizing_index=%lld", (long long)shown);
    for (int64_t i = 0; i < items.count; i++)
        hlo_text_format(&text, ",%s=%g", items.items[i].name, items.items[i].value);
    *statistics = hlo_text_to_arena(source->arena, &text);
    return HLO_SUCCESS;
}
