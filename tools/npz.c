// SPDX-License-Identifier: Apache-2.0
// Zip archives (APPNOTE.TXT): the end record names the central directory, whose entries give each member's offset.
// Zip64 extra fields are understood; encryption and several disks are not. No size in the archive is trusted before it
// is checked against the file.
#include <assert.h>
#include <string.h>
#include <zlib.h>

#include "tools/npy.h"

enum { kEndSize = 22, kEntrySize = 46, kLocalSize = 30, kMaxRatio = 1100 };  // deflate cannot do better than 1032:1

typedef struct Member {
    const char *name;
    size_t name_length;
    uint64_t packed_size, size, offset;
    uint32_t checksum;  // CRC-32 of the expanded bytes
    int method;
} Member;

static uint64_t read_number(const uint8_t *data, int bytes) {
    uint64_t value = 0;
    for (int i = bytes - 1; i >= 0; --i) value = value << 8 | data[i];
    return value;
}

// With the file's name.
static HloStatus damaged(const NpzArchive *archive, const char *what) {
    return hlo_error(HLO_INVALID_ARGUMENT, "%s: damaged .npz archive: %s", archive->name, what);
}

// The end record is looked for from the back, as a comment of up to 65,535 bytes may follow it.
HloStatus npz_open(const char *path, NpzArchive *archive) {
    assert(path && archive);
    *archive = (NpzArchive){.name = path};
    HLO_TRY(hlo_file_read(path, SIZE_MAX / 4, &archive->file));
    const uint8_t *data = (const uint8_t *)archive->file.data;
    size_t size = archive->file.size;
    size_t lowest = size > kEndSize + 65535 ? size - kEndSize - 65535 : 0;
    for (size_t at = size >= kEndSize ? size - kEndSize + 1 : 0; at > lowest; --at) {
        const uint8_t *end = data + at - 1;
        if (memcmp(end, "PK\5\6", 4) != 0) continue;
        archive->entries = (int64_t)read_number(end + 10, 2);
        archive->directory = (size_t)read_number(end + 16, 4);
        if (archive->directory <= size) return HLO_SUCCESS;
    }
    npz_close(archive);
    return hlo_error(HLO_INVALID_ARGUMENT, "%s: not an .npz archive", path);
}

void npz_close(NpzArchive *archive) {
    hlo_file_content_free(&archive->file);
}

// Sizes of 4 GiB and more are in the extra field 1, in the order size, packed size, offset.
static HloStatus read_zip64(const NpzArchive *archive, const uint8_t *extra, size_t length, Member *member) {
    assert(extra || length == 0);
    uint64_t *fields[] = {&member->size, &member->packed_size, &member->offset};
    while (length >= 4) {
        size_t bytes = (size_t)read_number(extra + 2, 2);
        if (bytes > length - 4) return damaged(archive, "an extra field is cut off");
        size_t at = 0;
        for (size_t i = 0; read_number(extra, 2) == 1 && i < HLO_COUNT_OF(fields); ++i) {
            if (*fields[i] != UINT32_MAX || at + 8 > bytes) continue;
            *fields[i] = read_number(extra + 4 + at, 8);
            at += 8;
        }
        extra += 4 + bytes;
        length -= 4 + bytes;
    }
    return HLO_SUCCESS;
}

// Reads the directory entry at *at and moves on to the next.
static HloStatus read_entry(const NpzArchive *archive, size_t *at, Member *member) {
    const uint8_t *data = (const uint8_t *)archive->file.data;
    size_t left = archive->file.size - *at;
    if (left < kEntrySize || memcmp(data + *at, "PK\1\2", 4) != 0) return damaged(archive, "no directory entry");
    const uint8_t *entry = data + *at;
    size_t name = (size_t)read_number(entry + 28, 2), extra = (size_t)read_number(entry + 30, 2);
    size_t total = kEntrySize + name + extra + (size_t)read_number(entry + 32, 2);
    if (left < total) return damaged(archive, "a directory entry is cut off");
    *member = (Member){.name = (const char *)entry + kEntrySize,
                       .name_length = name,
                       .packed_size = read_number(entry + 20, 4),
                       .size = read_number(entry + 24, 4),
                       .offset = read_number(entry + 42, 4),
                       .checksum = (uint32_t)read_number(entry + 16, 4),
                       .method = (int)read_number(entry + 10, 2)};
    if (read_number(entry + 8, 2) & 1) return damaged(archive, "it is encrypted");
    *at += total;
    return read_zip64(archive, entry + kEntrySize + name, extra, member);
}

// numpy adds .npy to the name that the user gave.
static bool is_called(const Member *member, const char *name) {
    size_t length = strlen(name);
    return member->name_length == length + 4 && memcmp(member->name, name, length) == 0 &&
           memcmp(member->name + length, ".npy", 4) == 0;
}

// The directory is walked anew for each array: archives have few.
static HloStatus find_member(const NpzArchive *archive, const char *name, Member *member, bool *found) {
    assert(name && member && found);
    size_t at = archive->directory;
    *found = false;
    for (int64_t i = 0; i < archive->entries && !*found; ++i) {
        HLO_TRY(read_entry(archive, &at, member));
        *found = is_called(member, name);
    }
    return HLO_SUCCESS;
}

// N of a member called arr_N.npy with N below `limit`, or -1.
static int64_t array_number(const Member *member, int64_t limit) {
    if (member->name_length < 9 || memcmp(member->name, "arr_", 4) != 0) return -1;
    int64_t number = 0;
    for (size_t i = 4; i < member->name_length - 4 && number < limit; ++i) {
        if (member->name[i] < '0' || member->name[i] > '9') return -1;
        number = number * 10 + (member->name[i] - '0');
    }
    bool ends = memcmp(member->name + member->name_length - 4, ".npy", 4) == 0;
    return ends && number < limit ? number : -1;
}

HloStatus npz_check_names(const NpzArchive *archive, bool *seen, int64_t limit) {
    assert(archive && seen && limit >= 0);
    HLO_FAIL_IF(archive->entries == 0, HLO_INVALID_ARGUMENT, "%s: the .npz archive is empty", archive->name);
    size_t at = archive->directory;
    for (int64_t i = 0; i < archive->entries; ++i) {
        Member member;
        HLO_TRY(read_entry(archive, &at, &member));
        int64_t number = array_number(&member, limit);
        int shown = member.name_length > 60 ? 60 : (int)member.name_length;
        HLO_FAIL_IF(number < 0, HLO_INVALID_ARGUMENT,
                    "%s: member '%.*s' is not one of the program's %lld inputs (arr_0.npy, arr_1.npy …)", archive->name,
                    shown, member.name, (long long)limit);
        HLO_FAIL_IF(seen[number], HLO_INVALID_ARGUMENT, "%s: member '%.*s' is listed twice", archive->name, shown,
                    member.name);
        seen[number] = true;
    }
    return HLO_SUCCESS;
}

// Checks the CRC-32 of the expanded member.
static HloStatus check_sum(const NpzArchive *archive, const Member *member, const void *data, size_t size) {
    return crc32_z(0, data, size) == member->checksum ? HLO_SUCCESS : damaged(archive, "a member's checksum is wrong");
}

static void *take_memory(void *unused, uInt count, uInt size) {
    (void)unused;
    return hlo_allocate(hlo_array_bytes(count, size));
}

static void give_memory(void *unused, void *memory) {
    (void)unused;
    hlo_free(memory);
}

// zlib counts in 32 bits, so both sides are handed over piece by piece.
static HloStatus inflate_member(const NpzArchive *archive, const uint8_t *packed, const Member *member, char *out) {
    assert(packed && out);
    z_stream stream = {.next_in = (Bytef *)packed, .zalloc = take_memory, .zfree = give_memory};
    if (inflateInit2(&stream, -15) != Z_OK)
        return hlo_error(HLO_RESOURCE_EXHAUSTED, "%s: out of memory", archive->name);
    uint64_t in_left = member->packed_size, out_left = member->size;
    stream.next_out = (Bytef *)out;
    int result = Z_OK;
    while (result == Z_OK && (in_left || out_left || stream.avail_in || stream.avail_out)) {
        uInt in_step = in_left > 1u << 30 ? 1u << 30 : (uInt)in_left;
        uInt out_step = out_left > 1u << 30 ? 1u << 30 : (uInt)out_left;
        if (stream.avail_in == 0) {
            stream.avail_in = in_step;
            in_left -= in_step;
        }
        if (stream.avail_out == 0) {
            stream.avail_out = out_step;
            out_left -= out_step;
        }
        result = inflate(&stream, Z_NO_FLUSH);
    }
    bool whole = result == Z_STREAM_END && out_left == 0 && stream.avail_out == 0;
    inflateEnd(&stream);
    return whole ? HLO_SUCCESS : damaged(archive, "a member does not expand to its size");
}

static HloStatus read_deflated(const NpzArchive *archive, const char *name, const uint8_t *packed, const Member *member,
                               const HloShape *expected, HloLiteral **literal) {
    if (member->size / kMaxRatio > member->packed_size) return damaged(archive, "an impossible compression ratio");
    char *plain = hlo_allocate((size_t)member->size + 1);
    HLO_FAIL_IF(!plain, HLO_RESOURCE_EXHAUSTED, "%s: out of memory", archive->name);
    HloStatus status = inflate_member(archive, packed, member, plain);
    if (!status) status = check_sum(archive, member, plain, (size_t)member->size);
    if (!status) status = npy_parse(name, plain, (size_t)member->size, expected, literal);
    hlo_free(plain);
    return status;
}

// The local header is read for its own lengths only: sizes are those of the directory.
HloStatus npz_read(const NpzArchive *archive, const char *name, const HloShape *expected, HloLiteral **literal) {
    assert(archive && name && literal);
    Member member;
    bool found;
    HLO_TRY(find_member(archive, name, &member, &found));
    HLO_FAIL_IF(!found, HLO_NOT_FOUND, "%s has no member %s.npy", archive->name, name);
    const uint8_t *data = (const uint8_t *)archive->file.data;
    size_t size = archive->file.size;
    if (member.offset > size || size - member.offset < kLocalSize)
        return damaged(archive, "a member lies beyond the end of the file");
    const uint8_t *local = data + member.offset;
    if (memcmp(local, "PK\3\4", 4) != 0) return damaged(archive, "a member has no header");
    uint64_t start = member.offset + kLocalSize + read_number(local + 26, 2) + read_number(local + 28, 2);
    if (start > size || member.packed_size > size - start) return damaged(archive, "a member is cut off");
    if (member.method == 8) return read_deflated(archive, name, data + start, &member, expected, literal);
    if (member.method != 0) return damaged(archive, "unknown compression method");
    HLO_TRY(check_sum(archive, &member, data + start, (size_t)member.packed_size));
    return npy_parse(name, data + start, (size_t)member.packed_size, expected, literal);
}
