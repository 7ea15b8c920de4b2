// SPDX-License-Identifier: Apache-2.0
// The .npy format (numpy/lib/format.py): "\x93NUMPY", version, header length, a Python dict literal with the keys
// descr, fortran_order and shape, padding, then the elements. The header is read by a parser of just that dict, so that
// nothing of a hostile header is ever evaluated; sizes are checked before memory is taken.
#include "tools/npy.h"

#include <assert.h>
#include <string.h>

enum { kMaxRank = 32, kMaxDescriptor = 16 };

// The contents of a header.
typedef struct Header {
    char descriptor[kMaxDescriptor];
    bool fortran_order;
    int64_t dims[kMaxRank];
    int64_t rank;
    bool has_descriptor, has_order, has_shape;
} Header;

// Descriptor without its byte-order character -> element type. The first row of a type is the one that is written.
// clang-format off
static const struct {
    HloType type;
    const char *descriptor;
} kTypes[] = {
    {HLO_PRED, "b1"}, {HLO_S8, "i1"},  {HLO_S16, "i2"}, {HLO_S32, "i4"}, {HLO_S64, "i8"},  {HLO_U8, "u1"},
    {HLO_U16, "u2"},  {HLO_U32, "u4"}, {HLO_U64, "u8"}, {HLO_F16, "f2"}, {HLO_F32, "f4"},  {HLO_F64, "f8"},
    {HLO_C64, "c8"},  {HLO_C128, "c16"}, {HLO_BF16, "V2"},
};
// clang-format on

// The reader's position in the header.
typedef struct Reader {
    const char *name;
    const char *at;
    const char *end;
} Reader;

// With the file's name, since several may be read.
static HloStatus bad_header(const Reader *reader, const char *what) {
    return hlo_error(HLO_INVALID_ARGUMENT, "%s: not a valid .npy header: %s", reader->name, what);
}

// What Python's printers put between tokens.
static void skip_space(Reader *reader) {
    while (reader->at < reader->end && (*reader->at == ' ' || *reader->at == '\n' || *reader->at == '\t')) ++reader->at;
}

// Moves past `word` if it comes next.
static bool accept(Reader *reader, const char *word) {
    skip_space(reader);
    size_t length = strlen(word);
    if ((size_t)(reader->end - reader->at) < length || memcmp(reader->at, word, length) != 0) return false;
    reader->at += length;
    return true;
}

// A quoted string without escapes.
static HloStatus read_string(Reader *reader, char *out, size_t room) {
    assert(out && room > 0);
    skip_space(reader);
    if (reader->at == reader->end || (*reader->at != '\'' && *reader->at != '"')) {
        return bad_header(reader, "a string is missing (structured types are not supported)");
    }
    char quote = *reader->at++;
    const char *close = memchr(reader->at, quote, (size_t)(reader->end - reader->at));
    if (!close || (size_t)(close - reader->at) >= room)
        return bad_header(reader, "a string is unterminated or too long");
    memcpy(out, reader->at, (size_t)(close - reader->at));
    out[close - reader->at] = 0;
    reader->at = close + 1;
    return HLO_SUCCESS;
}

static HloStatus read_dimension(Reader *reader, int64_t *value) {
    skip_space(reader);
    const char *start = reader->at;
    *value = 0;
    for (; reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9'; ++reader->at) {
        if (__builtin_mul_overflow(*value, 10, value) || __builtin_add_overflow(*value, *reader->at - '0', value)) {
            return bad_header(reader, "a dimension overflows");
        }
    }
    if (reader->at == start) return bad_header(reader, "a dimension is not a number");
    accept(reader, "L");  // numpy 1 on Python 2
    return HLO_SUCCESS;
}

// A tuple: "(3, 4)", "(3,)" or "()".
static HloStatus read_shape(Reader *reader, Header *header) {
    if (!accept(reader, "(")) return bad_header(reader, "shape is not a tuple");
    while (!accept(reader, ")")) {
        if (header->rank == kMaxRank) return bad_header(reader, "more than 32 dimensions");
        HLO_TRY(read_dimension(reader, &header->dims[header->rank++]));
        if (!accept(reader, ",")) {
            if (!accept(reader, ")")) return bad_header(reader, "shape is unterminated");
            break;
        }
    }
    header->has_shape = true;
    return HLO_SUCCESS;
}

// Reads one key and its value. An unknown key is an error, since it might change the meaning.
static HloStatus read_member(Reader *reader, Header *header) {
    char key[kMaxDescriptor];
    HLO_TRY(read_string(reader, key, sizeof key));
    if (!accept(reader, ":")) return bad_header(reader, "':' is missing");
    if (strcmp(key, "descr") == 0) {
        header->has_descriptor = true;
        return read_string(reader, header->descriptor, sizeof header->descriptor);
    }
    if (strcmp(key, "fortran_order") == 0) {
        header->fortran_order = accept(reader, "True");
        header->has_order = header->fortran_order || accept(reader, "False");
        return header->has_order ? HLO_SUCCESS : bad_header(reader, "fortran_order is neither True nor False");
    }
    if (strcmp(key, "shape") == 0 && !header->has_shape) return read_shape(reader, header);
    return bad_header(reader, "unknown key");
}

// Finds the dict, reads it, and returns where the elements start.
// Versions 1 to 3 differ in the width of the length and in the header's encoding (latin1, then UTF-8), of which ASCII
// is all that is read here.
static HloStatus read_header(const char *name, const uint8_t *data, size_t size, Header *header, size_t *start) {
    assert(data || size == 0);
    Reader reader = {.name = name};
    if (size < 10 || memcmp(data, "\x93NUMPY", 6) != 0) return bad_header(&reader, "not a .npy file");
    int version = data[6];
    if (version < 1 || version > 3) return bad_header(&reader, "unknown format version");
    size_t prefix = version == 1 ? 10 : 12;
    if (size < prefix) return bad_header(&reader, "cut off");
    size_t length = (size_t)data[8] | (size_t)data[9] << 8;
    if (version > 1) length |= (size_t)data[10] << 16 | (size_t)data[11] << 24;
    if (length > size - prefix) return bad_header(&reader, "cut off");
    reader.at = (const char *)data + prefix;
    reader.end = reader.at + length;
    *start = prefix + length;
    if (!accept(&reader, "{")) return bad_header(&reader, "it is not a dict");
    while (!accept(&reader, "}")) {
        HLO_TRY(read_member(&reader, header));
        if (!accept(&reader, ",")) {
            if (!accept(&reader, "}")) return bad_header(&reader, "',' or '}' is missing");
            break;
        }
    }
    skip_space(&reader);
    if (reader.at != reader.end) return bad_header(&reader, "text after the dict");
    bool complete = header->has_descriptor && header->has_order && header->has_shape;
    return complete ? HLO_SUCCESS : bad_header(&reader, "descr, fortran_order or shape is missing");
}

// True when elements of `type` are stored under a void descriptor of their size (numpy has no name for them).
static bool is_void_type(HloType type) {
    return hlo_type_is_array(type) && hlo_type_bytes(type) <= 2 && type != HLO_PRED && type != HLO_F16 &&
           (type == HLO_BF16 || hlo_type_is_float(type) || hlo_type_info(type)->bits < 8);
}

// The element type that a descriptor means; sets *swap if the bytes are big-endian. Void descriptors (|V1, <V2) are how
// numpy stores ml_dtypes arrays, and give only the size: the program's own type decides, where there is one; otherwise
// V2 is bf16.
static HloStatus decide_type(const char *name, const char *descriptor, const HloShape *expected, HloType *type,
                             bool *swap) {
    assert(descriptor && type && swap);
    char order = descriptor[0];
    bool has_order = order == '<' || order == '>' || order == '|' || order == '=';
    const char *code = descriptor + has_order;
    *swap = order == '>';
    *type = HLO_INVALID;
    for (size_t i = 0; i < HLO_COUNT_OF(kTypes); ++i) {
        if (strcmp(code, kTypes[i].descriptor) == 0) *type = kTypes[i].type;
    }
    bool void_code = strcmp(code, "V1") == 0 || strcmp(code, "V2") == 0;
    if (expected && void_code && is_void_type(expected->type) && hlo_type_bytes(expected->type) == code[1] - '0') {
        *type = expected->type;
    }
    HLO_FAIL_IF(*type == HLO_INVALID, HLO_INVALID_ARGUMENT, "%s: element type '%s' is not supported%s", name,
                descriptor, void_code ? " here" : "");
    return HLO_SUCCESS;
}

// Checks that the shape is exactly the expected one, except that dimensions of bounded size may be smaller.
static HloStatus check_expected(const char *name, const HloShape *shape, const HloShape *expected) {
    if (!expected) return HLO_SUCCESS;
    bool same = shape->type == expected->type && shape->rank == expected->rank;
    for (int32_t i = 0; same && i < shape->rank; ++i) {
        const bool bounded = expected->dynamic && expected->dynamic[i];
        same = bounded ? shape->dims[i] <= expected->dims[i] : shape->dims[i] == expected->dims[i];
    }
    if (same) return HLO_SUCCESS;
    HloText got = {0}, wanted = {0};
    hlo_shape_print(&got, shape, false);
    hlo_shape_print(&wanted, expected, false);
    HloStatus status = hlo_error(HLO_INVALID_ARGUMENT, "%s: the file has %s, but the program expects %s", name,
                                 got.data ? got.data : "?", wanted.data ? wanted.data : "?");
    hlo_text_free(&got);
    hlo_text_free(&wanted);
    return status;
}

// Reverses the bytes of each word; complex numbers are two words.
static void swap_bytes(uint8_t *data, size_t bytes, size_t word) {
    assert(word > 0 && bytes % word == 0);
    for (size_t i = 0; i + word <= bytes; i += word) {
        for (size_t low = 0, high = word - 1; low < high; ++low, --high) {
            uint8_t byte = data[i + low];
            data[i + low] = data[i + high];
            data[i + high] = byte;
        }
    }
}

// Copies column-major `from` to row-major `to`, walking the destination in order.
// O(elements); `offset` follows the index like an odometer, so that nothing is divided.
static void copy_fortran(uint8_t *to, const uint8_t *from, const HloShape *shape) {
    assert(to && from);
    size_t bytes = (size_t)hlo_type_bytes(shape->type);
    int64_t index[kMaxRank] = {0}, stride[kMaxRank], step = 1, offset = 0;
    for (int32_t i = 0; i < shape->rank; ++i) {
        stride[i] = step;
        step *= shape->dims[i];
    }
    for (int64_t count = hlo_shape_elements(shape); count > 0; --count) {
        memcpy(to, from + (size_t)offset * bytes, bytes);
        to += bytes;
        for (int32_t i = shape->rank - 1; i >= 0; --i) {
            offset += stride[i];
            if (++index[i] < shape->dims[i]) break;
            offset -= stride[i] * shape->dims[i];
            index[i] = 0;
        }
    }
}

// Booleans other than 0 and 1 are refused: every kernel counts on it.
static HloStatus fill_literal(const char *name, const Header *header, const uint8_t *elements, size_t size,
                              const HloShape *shape, bool swap, HloLiteral **literal) {
    size_t bytes = (size_t)hlo_shape_bytes(shape);
    HLO_FAIL_IF(bytes != size, HLO_INVALID_ARGUMENT, "%s: %zu bytes of elements, but the header announces %zu", name,
                size, bytes);
    HloLiteral *result = hlo_literal_new(shape);
    HLO_FAIL_IF(!result, HLO_RESOURCE_EXHAUSTED, "%s: out of memory (%zu bytes)", name, bytes);
    if (header->fortran_order && shape->rank > 1) {
        copy_fortran(result->data, elements, shape);
    } else if (bytes) {
        memcpy(result->data, elements, bytes);
    }
    size_t word = (size_t)hlo_type_bytes(shape->type) / (hlo_type_is_complex(shape->type) ? 2 : 1);
    if (swap && word > 1) swap_bytes(result->data, bytes, word);
    for (size_t i = 0; shape->type == HLO_PRED && i < bytes; ++i) {
        if (((uint8_t *)result->data)[i] <= 1) continue;
        hlo_literal_free(result);
        return hlo_error(HLO_INVALID_ARGUMENT, "%s: element %zu is not a boolean", name, i);
    }
    *literal = result;
    return HLO_SUCCESS;
}

typedef struct ParseCall {
    const char *name;
    const uint8_t *data;
    size_t size;
    const HloShape *expected;
    HloArena *arena;
    HloLiteral *literal;
} ParseCall;

// Header, type, size, elements: nothing is allocated before the sizes agree with the file.
static HloStatus parse_protected(void *argument) {
    ParseCall *call = argument;
    Header header = {0};
    size_t start = 0;
    HloType type = HLO_INVALID;
    bool swap = false;
    HLO_TRY(read_header(call->name, call->data, call->size, &header, &start));
    HLO_TRY(decide_type(call->name, header.descriptor, call->expected, &type, &swap));
    HLO_TRY(hlo_status_annotate(hlo_shape_check_dims(type, header.dims, header.rank), "%s", call->name));
    const HloShape *shape = hlo_shape_array(call->arena, type, header.dims, header.rank);
    HLO_TRY(check_expected(call->name, shape, call->expected));
    return fill_literal(call->name, &header, call->data + start, call->size - start, shape, swap, &call->literal);
}

HloStatus npy_parse(const char *name, const void *data, size_t size, const HloShape *expected, HloLiteral **literal) {
    ParseCall call = {.name = name, .data = data, .size = size, .expected = expected, .arena = hlo_arena_new()};
    HLO_FAIL_IF(!call.arena, HLO_RESOURCE_EXHAUSTED, "%s: out of memory", name);
    HloStatus status = hlo_protect(parse_protected, &call);
    hlo_arena_free(call.arena);
    if (!status) *literal = call.literal;
    return status;
}

HloStatus npy_read(const char *path, const HloShape *expected, HloLiteral **literal) {
    HloFileContent content;
    HLO_TRY(hlo_file_read(path, SIZE_MAX / 4, &content));
    HloStatus status = npy_parse(path, content.data, content.size, expected, literal);
    hlo_file_content_free(&content);
    return status;
}

// Pads with blanks so that the elements begin at a multiple of 64 bytes, as numpy.lib.format requires; format version
// 1.0, as headers of arrays of 64 dimensions stay far below its 65,535 bytes.
void npy_print_header(HloText *text, const HloShape *shape) {
    assert(text && hlo_shape_is_array(shape));
    const char *code = hlo_type_bytes(shape->type) == 2 ? "V2" : "V1";
    for (size_t i = 0; i < HLO_COUNT_OF(kTypes); ++i) {
        if (kTypes[i].type == shape->type) code = kTypes[i].descriptor;
    }
    char order = hlo_type_bytes(shape->type) == 1 ? '|' : '<';
    size_t start = text->length;
    hlo_text_append(text, "\x93NUMPY\x01\x00??", 10);
    hlo_text_format(text, "{'descr': '%c%s', 'fortran_order': False, 'shape': (", order, code);
    for (int32_t i = 0; i < shape->rank; ++i) {
        hlo_text_int64(text, shape->dims[i]);
        if (i + 1 < shape->rank || shape->rank == 1) hlo_text_char(text, ',');
        if (i + 1 < shape->rank) hlo_text_char(text, ' ');
    }
    hlo_text_string(text, "), }");
    while ((text->length - start + 1) % 64 != 0 && !text->failed) hlo_text_char(text, ' ');
    hlo_text_char(text, '\n');
    if (text->failed) return;
    size_t length = text->length - start - 10;
    text->data[start + 8] = (char)(length & 255);
    text->data[start + 9] = (char)(length >> 8);
}

HloStatus npy_write(const char *path, const HloLiteral *literal) {
    assert(path && literal);
    HloText header = {0};
    npy_print_header(&header, literal->shape);
    HloStatus status = hlo_text_status(&header);
    HloFilePiece pieces[] = {{header.data, header.length}, {literal->data, (size_t)hlo_shape_bytes(literal->shape)}};
    if (!status) status = hlo_file_write_pieces(path, pieces, 2);
    hlo_text_free(&header);
    return status;
}
