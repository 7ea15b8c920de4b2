// SPDX-License-Identifier: Apache-2.0
// Where instructions and shardings come from, as text.
#include <assert.h>

#include "hlo/ir/instruction.h"

void hlo_quoted_print(HloText *text, const char *string) {
    assert(text && string);
    hlo_text_char(text, '"');
    const char *plain = string;
    for (const char *at = string;; at++) {
        unsigned char c = (unsigned char)*at;
        if (c >= 0x20 && c < 0x7F && c != '"' && c != '\\' && c != '\'') continue;
        hlo_text_append(text, plain, (size_t)(at - plain));
        plain = at + 1;
        if (c == 0) break;
        hlo_text_char(text, '\\');
        if (c == '"' || c == '\\' || c == '\'') {
            hlo_text_char(text, (char)c);
        } else if (c == '\n' || c == '\r' || c == '\t') {
            hlo_text_char(text, c == '\n' ? 'n' : c == '\r' ? 'r' : 't');
        } else {
            hlo_text_format(text, "%03o", c);
        }
    }
    hlo_text_char(text, '"');
}

typedef struct MetadataWriter {
    HloText *text;
    bool any;
} MetadataWriter;

static void write_key(MetadataWriter *writer, const char *key) {
    if (writer->any) hlo_text_char(writer->text, ' ');
    writer->any = true;
    hlo_text_string(writer->text, key);
}

static void write_string(MetadataWriter *writer, const char *key, const char *value) {
    if (!value || !*value) return;
    write_key(writer, key);
    hlo_quoted_print(writer->text, value);
}

static void write_number(MetadataWriter *writer, const char *key, int64_t value) {
    if (value == 0) return;
    write_key(writer, key);
    hlo_text_int64(writer->text, value);
}

void hlo_metadata_print(HloText *text, const HloMetadata *metadata) {
    assert(text && metadata);
    MetadataWriter writer = {.text = text};
    write_string(&writer, "op_type=", metadata->op_type);
    write_string(&writer, "op_name=", metadata->op_name);
    write_string(&writer, "source_file=", metadata->source_file);
    write_number(&writer, "source_line=", metadata->source_line);
    write_number(&writer, "source_end_line=", metadata->source_end_line);
    write_number(&writer, "source_column=", metadata->source_column);
    write_number(&writer, "source_end_column=", metadata->source_end_column);
    if (metadata->profile_type && *metadata->profile_type) {
        write_key(&writer, "profile_type={");
        hlo_text_string(text, metadata->profile_type);
        hlo_text_char(text, '}');
    }
    write_string(&writer, "deduplicated_name=", metadata->deduplicated_name);
    write_string(&writer, "scheduling_name=", metadata->scheduling_name);
    write_number(&writer, "stack_frame_id=", metadata->stack_frame_id);
}
