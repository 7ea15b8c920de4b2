// SPDX-License-Identifier: Apache-2.0
// The images follow numpy/lib/format.py of numpy 2; headers are those that numpy.save writes unless a case says
// otherwise.
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

#include "hlo/base/complex.h"
#include "tests/support/cases.h"
#include "tests/support/compiled.h"
#include "tools/npy.h"

// An image of format version 1 with this dict and these elements; its size goes to *size.
static uint8_t *make_image(const char *dict, const void *elements, size_t bytes, size_t *size) {
    size_t length = strlen(dict);
    uint8_t *image = calloc(1, 10 + length + bytes + 1);
    memcpy(image, "\x93NUMPY\x01\x00", 8);
    image[8] = (uint8_t)length;
    image[9] = (uint8_t)(length >> 8);
    memcpy(image + 10, dict, length);
    if (bytes) memcpy(image + 10 + length, elements, bytes);
    *size = 10 + length + bytes;
    return image;
}

static HloStatus parse(const char *dict, const void *elements, size_t bytes, const HloShape *expected,
                       HloLiteral **literal) {
    size_t size;
    uint8_t *image = make_image(dict, elements, bytes, &size);
    HloStatus status = npy_parse("a.npy", image, size, expected, literal);
    free(image);
    return status;
}

Test(tools_npy, reads_c_order) {
    const float values[6] = {1, 2, 3, 4, 5, 6};
    HloLiteral *literal = NULL;
    cr_assert_null(
        parse("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }   \n", values, 24, NULL, &literal));
    cr_assert_eq(literal->shape->type, HLO_F32);
    cr_assert_eq(literal->shape->rank, 2);
    cr_assert_eq(literal->shape->dims[1], 3);
    cr_assert_eq(memcmp(literal->data, values, 24), 0);
    hlo_literal_free(literal);
}

Test(tools_npy, reads_fortran_order_and_big_endian) {
    const uint8_t values[12] = {0, 1, 0, 4, 0, 2, 0, 5, 0, 3, 0, 6};  // columns of [[1,2,3],[4,5,6]]
    HloLiteral *literal = NULL;
    cr_assert_null(parse("{'descr': '>i2', 'fortran_order': True, 'shape': (2, 3), }\n", values, 12, NULL, &literal));
    for (int i = 0; i < 6; ++i) cr_assert_eq(hlo_literal_get_int64(literal, i), i + 1);
    hlo_literal_free(literal);
}

Test(tools_npy, swaps_the_parts_of_complex_numbers) {
    const uint8_t values[8] = {0x3F, 0x80, 0, 0, 0x40, 0, 0, 0};  // 1 + 2i
    HloLiteral *literal = NULL;
    cr_assert_null(parse("{'descr': '>c8', 'fortran_order': False, 'shape': (), }\n", values, 8, NULL, &literal));
    cr_assert_eq(creal(hlo_literal_get_complex(literal, 0)), 1.0);
    cr_assert_eq(cimag(hlo_literal_get_complex(literal, 0)), 2.0);
    hlo_literal_free(literal);
}

Test(tools_npy, void_types_are_what_the_program_expects) {
    HloArena *arena = hlo_arena_new();
    const int64_t two = 2;
    const uint8_t bytes[4] = {0x80, 0x3F, 0x00, 0x40};
    HloLiteral *literal = NULL;
    cr_assert_null(parse("{'descr': '<V2', 'fortran_order': False, 'shape': (2,), }\n", bytes, 4, NULL, &literal));
    cr_assert_eq(literal->shape->type, HLO_BF16);
    cr_assert_eq(hlo_literal_get_double(literal, 1), 2.0);
    hlo_literal_free(literal);
    const HloShape *narrow = hlo_shape_array(arena, HLO_F8E4M3FN, &two, 1);
    cr_assert_null(parse("{'descr': '|V1', 'fortran_order': False, 'shape': (2,), }\n", bytes, 2, narrow, &literal));
    cr_assert_eq(literal->shape->type, HLO_F8E4M3FN);
    hlo_literal_free(literal);
    HloStatus status = parse("{'descr': '|V1', 'fortran_order': False, 'shape': (2,), }\n", bytes, 2, NULL, &literal);
    cr_assert_eq(hlo_status_code(status), HLO_INVALID_ARGUMENT);
    hlo_status_free(status);
    hlo_arena_free(arena);
}

Test(tools_npy, writes_what_numpy_writes) {
    HloArena *arena = hlo_arena_new();
    const int64_t dims[2] = {2, 3};
    const struct {
        HloType type;
        int64_t rank;
        const char *dict;
    } cases[] = {
        {HLO_F32, 2, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }"},
        {HLO_S8, 1, "{'descr': '|i1', 'fortran_order': False, 'shape': (2,), }"},
        {HLO_PRED, 0, "{'descr': '|b1', 'fortran_order': False, 'shape': (), }"},
        {HLO_BF16, 1, "{'descr': '<V2', 'fortran_order': False, 'shape': (2,), }"},
        {HLO_F8E5M2, 1, "{'descr': '|V1', 'fortran_order': False, 'shape': (2,), }"},
        {HLO_S4, 1, "{'descr': '|V1', 'fortran_order': False, 'shape': (2,), }"},
        {HLO_C128, 1, "{'descr': '<c16', 'fortran_order': False, 'shape': (2,), }"},
    };
    for (size_t i = 0; i < HLO_COUNT_OF(cases); ++i) {
        HloText text = {0};
        npy_print_header(&text, hlo_shape_array(arena, cases[i].type, dims, cases[i].rank));
        cr_assert_eq(text.length % 64, 0);
        cr_assert_eq(text.data[text.length - 1], '\n');
        cr_assert_eq(memcmp(text.data, "\x93NUMPY\x01\x00\x76\x00", 10), 0);
        cr_assert_eq(strncmp(text.data + 10, cases[i].dict, strlen(cases[i].dict)), 0, "%s", text.data + 10);
        hlo_text_free(&text);
    }
    hlo_arena_free(arena);
}

// Every pattern of bits survives in a file: signalling NaNs with payloads, signs of zeros, complex numbers, f4.
Test(tools_npy, keeps_bits) {
    static const HloType types[] = {HLO_F16,        HLO_BF16,       HLO_F32,           HLO_F64,       HLO_C64,
                                    HLO_C128,       HLO_F8E5M2,     HLO_F8E4M3,        HLO_F8E3M4,    HLO_F8E4M3FN,
                                    HLO_F8E4M3FNUZ, HLO_F8E5M2FNUZ, HLO_F8E4M3B11FNUZ, HLO_F8E8M0FNU, HLO_F4E2M1FN};
    HloArena *arena = hlo_arena_new();
    char path[] = "/tmp/meshlo-npy-XXXXXX";
    const int file = mkstemp(path);
    cr_assert(file >= 0);
    close(file);
    for (size_t t = 0; t < HLO_COUNT_OF(types); ++t) {
        const HloTypeInfo *info = hlo_type_info(types[t]);
        const int64_t count = 256;
        const HloShape *shape = hlo_shape_array(arena, types[t], &count, 1);
        HloLiteral *written = hlo_literal_new(shape), *read = NULL;
        const int part = info->kind == HLO_KIND_COMPLEX ? info->storage_bytes / 2 : info->storage_bytes;
        uint8_t *bytes = written->data;
        // The last byte of a part runs through all values, which are signs and exponents, the first ones are payloads.
        for (int64_t i = 0; i < count * info->storage_bytes; ++i)
            bytes[i] = (uint8_t)(i / info->storage_bytes + i % part);
        for (int64_t i = 0; i < count && info->bits < 8; ++i) bytes[i] &= (uint8_t)((1 << info->bits) - 1);
        must_succeed(npy_write(path, written));
        must_succeed(npy_read(path, shape, &read));
        cr_expect_eq(memcmp(read->data, written->data, (size_t)(count * info->storage_bytes)), 0, "%s", info->text);
        hlo_literal_free(written);
        hlo_literal_free(read);
    }
    unlink(path);
    hlo_arena_free(arena);
}

typedef struct BadImage {
    char dict[96];
    char message[40];
    int bytes;
} BadImage;

CaseList(tools_npy, refuses) {
    static BadImage cases[] = {
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", "4 bytes of elements", 4},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", "8 bytes of elements", 8},
        {"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", "'|O' is not supported", 8},
        {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", "structured", 4},
        {"{'descr': '<f4', 'fortran_order': 0, 'shape': (1,), }", "neither True nor False", 4},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", "not a number", 4},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807,9), }", "a.npy: ", 4},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (92233720368547758070,), }", "overflows", 4},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4000000000,4000000000,0), }", "a.npy: ", 4},
        {"{'descr': '<f4', 'fortran_order': False}", "is missing", 4},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'x': 1}", "unknown key", 4},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), } import os", "text after", 4},
        {"{'descr': '<f4", "unterminated", 4},
        {"{'descr' '<f4'}", "':' is missing", 4},
        {"{'descr': '<f4' 'fortran_order': False}", "',' or '}' is missing", 4},
        {"{'shape': 3, }", "shape is not a tuple", 4},
        {"{'shape': (3 4), }", "shape is unterminated", 4},
        {"{'shape': (1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1), }", "more than 32", 4},
        {"[1]", "not a dict", 4},
        {"{'descr': '|b1', 'fortran_order': False, 'shape': (4,), }", "not a boolean", 4},
    };
    return cr_make_param_array(BadImage, cases, HLO_COUNT_OF(cases));
}

CaseTest(BadImage *bad, tools_npy, refuses) {
    const uint8_t elements[8] = {2, 2, 2, 2, 2, 2, 2, 2};
    HloLiteral *literal = NULL;
    HloStatus status = parse(bad->dict, elements, (size_t)bad->bytes, NULL, &literal);
    cr_assert_eq(hlo_status_code(status), HLO_INVALID_ARGUMENT);
    cr_assert(strstr(hlo_status_message(status), bad->message), "%s", hlo_status_message(status));
    cr_assert_null(literal);
    hlo_status_free(status);
}

Test(tools_npy, every_truncation_is_refused) {
    const float values[2] = {1, 2};
    size_t size;
    uint8_t *image = make_image("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n", values, 8, &size);
    for (size_t length = 0; length < size; ++length) {
        uint8_t *cut = malloc(length ? length : 1);  // exact, so that a sanitizer sees a read beyond the end
        memcpy(cut, image, length);
        HloLiteral *literal = NULL;
        HloStatus status = npy_parse("a.npy", cut, length, NULL, &literal);
        cr_assert_not_null(status, "%zu bytes", length);
        hlo_status_free(status);
        free(cut);
    }
    free(image);
}

// The length of the dict has four bytes from version 2 on; there is no version 4.
Test(tools_npy, versions_of_the_format) {
    const uint8_t two[11] = "\x93NUMPY\x02\x00\x01\x00", four[12] = "\x93NUMPY\x04\x00\x01\x00";
    HloLiteral *literal = NULL;
    must_fail(npy_parse("a.npy", two, sizeof two, NULL, &literal), HLO_INVALID_ARGUMENT, "cut off");
    must_fail(npy_parse("a.npy", four, sizeof four, NULL, &literal), HLO_INVALID_ARGUMENT, "unknown format version");
}

Test(tools_npy, says_what_the_program_expects) {
    HloArena *arena = hlo_arena_new();
    const int64_t three = 3;
    const float values[2] = {1, 2};
    HloLiteral *literal = NULL;
    HloStatus status = parse("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n", values, 8,
                             hlo_shape_array(arena, HLO_F32, &three, 1), &literal);
    cr_assert_str_eq(hlo_status_message(status), "a.npy: the file has f32[2], but the program expects f32[3]");
    hlo_status_free(status);
    hlo_arena_free(arena);
}

static size_t put_number(uint8_t *out, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) out[i] = (uint8_t)(value >> 8 * i);
    return (size_t)bytes;
}

// A zip archive with one member arr_0.npy, deflated or stored.
static size_t make_archive(uint8_t *out, const uint8_t *image, size_t size, bool deflated) {
    uint8_t packed[2048];
    size_t packed_size = size;
    memcpy(packed, image, size);
    if (deflated) {
        z_stream stream = {.next_in = (Bytef *)image, .avail_in = (uInt)size, .next_out = packed, .avail_out = 2048};
        deflateInit2(&stream, 9, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY);
        cr_assert_eq(deflate(&stream, Z_FINISH), Z_STREAM_END);
        packed_size = stream.total_out;
        deflateEnd(&stream);
    }
    uint8_t common[26] = {20, 0, 0, 0, deflated ? 8 : 0};
    put_number(common + 10, crc32(0, image, (uInt)size), 4);
    put_number(common + 14, packed_size, 4);
    put_number(common + 18, size, 4);
    common[22] = 9;  // length of the name
    size_t at = 0;
    memcpy(out, "PK\3\4", 4);
    memcpy(out + 4, common, 26);
    memcpy(out + 30, "arr_0.npy", 9);
    memcpy(out + 39, packed, packed_size);
    size_t directory = at = 39 + packed_size;
    memset(out + at, 0, 46);
    memcpy(out + at, "PK\1\2", 4);
    memcpy(out + at + 6, common, 26);
    memcpy(out + at + 46, "arr_0.npy", 9);
    at += 55;
    memset(out + at, 0, 22);
    memcpy(out + at, "PK\5\6", 4);
    out[at + 8] = out[at + 10] = 1;
    put_number(out + at + 12, 55, 4);
    put_number(out + at + 16, directory, 4);
    return at + 22;
}

// Opens the archive and reads its member arr_0, as the only input of a program.
static HloStatus read_archive(const uint8_t *data, size_t size, HloLiteral **literal) {
    char path[] = "/tmp/meshlo-npz-XXXXXX";
    int descriptor = mkstemp(path);
    cr_assert_geq(descriptor, 0);
    close(descriptor);
    cr_assert_null(hlo_file_write(path, data, size));
    NpzArchive archive = {0};
    HloStatus status = npz_open(path, &archive);
    bool there = false;
    if (!status) status = npz_check_names(&archive, &there, 1);
    if (!status) status = npz_read(&archive, "arr_0", NULL, literal);
    npz_close(&archive);
    unlink(path);
    return status;
}

Test(tools_npz, reads_stored_and_deflated_members) {
    const int64_t values[2] = {7, -7};
    size_t size;
    uint8_t *image = make_image("{'descr': '<i8', 'fortran_order': False, 'shape': (2,), }\n", values, 16, &size);
    for (int deflated = 0; deflated < 2; ++deflated) {
        uint8_t archive[4096];
        size_t length = make_archive(archive, image, size, deflated);
        HloLiteral *literal = NULL;
        HloStatus status = read_archive(archive, length, &literal);
        cr_assert_null(status, "%s", hlo_status_message(status));
        cr_assert_eq(hlo_literal_get_int64(literal, 1), -7);
        hlo_literal_free(literal);
    }
    free(image);
}

Test(tools_npz, damage_never_crashes) {
    const int64_t values[2] = {7, -7};
    size_t size;
    uint8_t *image = make_image("{'descr': '<i8', 'fortran_order': False, 'shape': (2,), }\n", values, 16, &size);
    for (int deflated = 0; deflated < 2; ++deflated) {
        uint8_t archive[4096];
        size_t length = make_archive(archive, image, size, deflated);
        for (size_t i = 0; i < length; ++i) {
            archive[i] ^= 0xFF;
            HloLiteral *literal = NULL;
            HloStatus status = read_archive(archive, length, &literal);
            cr_expect(!status == !!literal, "byte %zu: an array and an error, or neither", i);
            hlo_literal_free(literal);
            hlo_status_free(status);
            archive[i] ^= 0xFF;
        }
    }
    free(image);
}

static void expect_refused(const uint8_t *archive, size_t length, const char *part) {
    HloLiteral *literal = NULL;
    HloStatus status = read_archive(archive, length, &literal);
    cr_expect_eq(hlo_status_code(status), HLO_INVALID_ARGUMENT);
    cr_expect_not_null(strstr(hlo_status_message(status), part), "%s", hlo_status_message(status));
    cr_expect_null(literal);
    hlo_status_free(status);
}

Test(tools_npz, refuses_members_that_are_not_inputs_of_the_program) {
    const int64_t values[2] = {7, -7};
    size_t size;
    uint8_t *image = make_image("{'descr': '<i8', 'fortran_order': False, 'shape': (2,), }\n", values, 16, &size);
    uint8_t archive[4096];
    size_t length = make_archive(archive, image, size, false);
    const size_t name = length - 22 - 9;  // in the directory, in front of the end record
    archive[name + 4] = '1';
    expect_refused(archive, length, "member 'arr_1.npy' is not one of the program's 1 inputs");
    archive[name + 4] = 'x';
    expect_refused(archive, length, "member 'arr_x.npy'");
    archive[name + 4] = '0';
    archive[length - 14] = archive[length - 12] = 0;  // the end record counts no members
    expect_refused(archive, length, "is empty");
    free(image);
}

Test(tools_npz, too_little_memory_and_members_that_are_not_there) {
    const int64_t values[2] = {7, -7};
    size_t size;
    uint8_t *image = make_image("{'descr': '<i8', 'fortran_order': False, 'shape': (2,), }\n", values, 16, &size);
    uint8_t bytes[4096];
    const size_t length = make_archive(bytes, image, size, true);
    NpzArchive archive = {0};
    char path[] = "/tmp/meshlo-npz-XXXXXX";
    close(mkstemp(path));
    must_succeed(hlo_file_write(path, bytes, length));
    must_succeed(npz_open(path, &archive));
    HloLiteral *literal = NULL;
    must_fail(npz_read(&archive, "arr_9", NULL, &literal), HLO_NOT_FOUND, "has no member arr_9.npy");
    bool enough = false;
    for (int64_t allocations = 0; !enough && allocations < 100; ++allocations) {
        hlo_allocation_fail_after(allocations);
        HloStatus status = npz_read(&archive, "arr_0", NULL, &literal);
        hlo_allocation_fail_after(-1);
        enough = !status;
        if (status) must_fail(status, HLO_RESOURCE_EXHAUSTED, "");
    }
    cr_assert(enough);
    cr_expect_eq(hlo_literal_get_int64(literal, 1), -7);
    hlo_literal_free(literal);
    npz_close(&archive);
    unlink(path);
    free(image);
}

Test(tools_npz, checks_the_sum_of_a_member) {
    const int64_t values[2] = {7, -7};
    size_t size;
    uint8_t *image = make_image("{'descr': '<i8', 'fortran_order': False, 'shape': (2,), }\n", values, 16, &size);
    for (int deflated = 0; deflated < 2; ++deflated) {
        uint8_t archive[4096];
        size_t length = make_archive(archive, image, size, deflated);
        archive[length - 22 - 55 + 16] ^= 1;  // CRC-32 in the directory entry
        expect_refused(archive, length, "checksum");
    }
    free(image);
}

// An archive whose directory entry has these extra fields after its name.
static size_t with_extra(uint8_t *archive, size_t length, const uint8_t *extra, size_t extra_length) {
    memmove(archive + length - 22 + extra_length, archive + length - 22, 22);
    memcpy(archive + length - 22, extra, extra_length);
    put_number(archive + length - 22 - 55 + 30, extra_length, 2);
    return length + extra_length;
}

Test(tools_npz, sizes_in_extra_fields) {
    const int64_t values[2] = {7, -7};
    size_t size;
    uint8_t *image = make_image("{'descr': '<i8', 'fortran_order': False, 'shape': (2,), }\n", values, 16, &size);
    uint8_t archive[4096],
        extra[24] = {9, 0, 0, 0, 1, 0, 16};  // a field of no bytes that means nothing here, and Zip64
    put_number(extra + 8, size, 8);
    put_number(extra + 16, size, 8);
    size_t length = make_archive(archive, image, size, false);
    put_number(archive + length - 22 - 55 + 20, UINT32_MAX, 4);
    put_number(archive + length - 22 - 55 + 24, UINT32_MAX, 4);
    length = with_extra(archive, length, extra, sizeof extra);
    HloLiteral *literal = NULL;
    must_succeed(read_archive(archive, length, &literal));
    cr_expect_eq(hlo_literal_get_int64(literal, 1), -7);
    hlo_literal_free(literal);
    length = make_archive(archive, image, size, false);
    length = with_extra(archive, length, (const uint8_t[]){1, 0, 200, 0}, 4);
    expect_refused(archive, length, "an extra field is cut off");
    free(image);
}

// One number of the directory entry is wrong.
Test(tools_npz, entries_that_lead_nowhere) {
    static const struct {
        size_t at;
        uint64_t value;
        int bytes;
        const char *part;
    } cases[] = {
        {0, 0, 4, "no directory entry"},
        {8, 1, 2, "it is encrypted"},
        {10, 12, 2, "unknown compression method"},
        {20, 4000000, 4, "a member is cut off"},
        {24, 4000000000, 4, "an impossible compression ratio"},
        {28, 500, 2, "a directory entry is cut off"},
        {42, 4000000, 4, "a member lies beyond the end of the file"},
        {42, 7, 4, "a member has no header"},
    };
    const int64_t values[2] = {7, -7};
    size_t size;
    uint8_t *image = make_image("{'descr': '<i8', 'fortran_order': False, 'shape': (2,), }\n", values, 16, &size);
    for (size_t i = 0; i < HLO_COUNT_OF(cases); ++i) {
        uint8_t archive[4096];
        const size_t length = make_archive(archive, image, size, true);
        put_number(archive + length - 22 - 55 + cases[i].at, cases[i].value, cases[i].bytes);
        expect_refused(archive, length, cases[i].part);
    }
    free(image);
}
