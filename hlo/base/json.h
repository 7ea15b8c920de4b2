// SPDX-License-Identifier: Apache-2.0
// JSON (RFC 8259): a writer into a HloText, and a parser that makes a tree in an arena.
//
// Stability: experimental.
#ifndef MESHLO_HLO_BASE_JSON_H_
#define MESHLO_HLO_BASE_JSON_H_

#include "hlo/base/memory.h"
#include "hlo/base/text.h"

HLO_BEGIN_C

// Writes one JSON value. Initialise with {.text = &text}; the calls below insert the commas. Containers nested less
// than `lines` deep put each of their items on its own line (0: everything on one line).
typedef struct HloJsonWriter {
    HloText *text;
    int64_t lines;
    int64_t depth;   // of open containers
    bool has_item;   // the innermost open container already has an item
    bool after_key;  // a key was written, its value was not yet
} HloJsonWriter;

// Opens an object. Each of these functions writes a value, or, after hlo_json_key(), a member of the open object.
// Running out of memory is recorded in the text (hlo_text_status()).
HLO_EXPORT void hlo_json_begin_object(HloJsonWriter *writer);
// Closes the innermost object.
HLO_EXPORT void hlo_json_end_object(HloJsonWriter *writer);
// Opens an array.
HLO_EXPORT void hlo_json_begin_array(HloJsonWriter *writer);
// Closes the innermost array.
HLO_EXPORT void hlo_json_end_array(HloJsonWriter *writer);
// Writes the name of the next value, inside an object.
HLO_EXPORT void hlo_json_key(HloJsonWriter *writer, const char *key);
// Writes a string; control characters, quotes and backslashes are escaped. NULL writes null.
HLO_EXPORT void hlo_json_string(HloJsonWriter *writer, const char *value);
// Writes a string of `length` bytes, which may contain NUL.
HLO_EXPORT void hlo_json_bytes(HloJsonWriter *writer, const char *value, size_t length);
// Writes an integer.
HLO_EXPORT void hlo_json_int64(HloJsonWriter *writer, int64_t value);
// Writes the shortest decimal that reads back as the same double; null for infinities and NaN, which JSON cannot
// express.
HLO_EXPORT void hlo_json_double(HloJsonWriter *writer, double value);
// Writes true or false.
HLO_EXPORT void hlo_json_bool(HloJsonWriter *writer, bool value);
// Writes null.
HLO_EXPORT void hlo_json_null(HloJsonWriter *writer);
// Writes [a,b,…] with `count` integers.
HLO_EXPORT void hlo_json_int64_array(HloJsonWriter *writer, const int64_t *values, int64_t count);

// Members of the open object: a key with its value.
static inline void hlo_json_member_string(HloJsonWriter *writer, const char *key, const char *value) {
    hlo_json_key(writer, key);
    hlo_json_string(writer, value);
}
// As hlo_json_member_string(), an integer.
static inline void hlo_json_member_int64(HloJsonWriter *writer, const char *key, int64_t value) {
    hlo_json_key(writer, key);
    hlo_json_int64(writer, value);
}
// As hlo_json_member_string(), a real number.
static inline void hlo_json_member_double(HloJsonWriter *writer, const char *key, double value) {
    hlo_json_key(writer, key);
    hlo_json_double(writer, value);
}
// As hlo_json_member_string(), true or false.
static inline void hlo_json_member_bool(HloJsonWriter *writer, const char *key, bool value) {
    hlo_json_key(writer, key);
    hlo_json_bool(writer, value);
}

typedef enum HloJsonKind {
    HLO_JSON_NULL,
    HLO_JSON_BOOL,
    HLO_JSON_NUMBER,
    HLO_JSON_STRING,
    HLO_JSON_ARRAY,
    HLO_JSON_OBJECT,
} HloJsonKind;

typedef struct HloJsonValue HloJsonValue;
struct HloJsonValue {
    HloJsonKind kind;
    bool boolean;          // of a BOOL
    bool is_integer;       // a NUMBER without fraction and exponent that fits in `integer`
    int64_t integer;       // of a NUMBER with is_integer
    double number;         // of any NUMBER
    const char *string;    // of a STRING: NUL-terminated, escapes resolved
    size_t length;         // bytes of `string`
    int64_t count;         // items of an ARRAY, members of an OBJECT
    HloJsonValue **items;  // values, in the order of the text
    const char **keys;     // of an OBJECT: keys[i] names items[i]
};

// Parses `length` bytes of text into a tree in `arena` (strings are copied). `name` is the file's name for messages.
// INVALID_ARGUMENT with a place for anything that is not exactly one JSON value, including duplicate keys and nesting
// deeper than 100. RESOURCE_EXHAUSTED when memory is short.
HLO_EXPORT HLO_NODISCARD HloStatus hlo_json_parse(HloArena *arena, const char *name, const char *text, size_t length,
                                                  HloJsonValue **value);
// The member called `key` of an object; NULL if there is none, or if `object` is NULL or not an object.
HLO_EXPORT const HloJsonValue *hlo_json_get(const HloJsonValue *object, const char *key);

HLO_END_C

#endif
