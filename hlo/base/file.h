// SPDX-License-Identifier: Apache-2.0
// Whole files in and out: compressed ones are expanded while they are read, written ones appear complete or not at all.
#ifndef MESHLO_HLO_BASE_FILE_H_
#define MESHLO_HLO_BASE_FILE_H_

#include "hlo/base/memory.h"

HLO_BEGIN_C

// The content of a file: heap memory with a NUL after it that `size` does not count.
typedef struct HloFileContent {
    char *data;
    size_t size;
} HloFileContent;

// Reads all of `path` ("-": standard input) and expands it when it is an xz, gzip or zstd stream, told by its first
// bytes. Neither the file nor its expansion may be larger than `limit` bytes (RESOURCE_EXHAUSTED). NOT_FOUND or
// PERMISSION_DENIED when it cannot be opened, DATA_LOSS when a compressed stream is damaged or cut off. Free the result
// with hlo_file_content_free(). Any thread.
HLO_EXPORT HLO_NODISCARD HloStatus hlo_file_read(const char *path, size_t limit, HloFileContent *content);

// Expands `size` bytes at `data` as above, or copies them when they are no compressed stream. `name` is for messages.
HLO_EXPORT HLO_NODISCARD HloStatus hlo_file_expand(const char *name, const void *data, size_t size, size_t limit,
                                                   HloFileContent *content);

// Frees the data and empties the content.
HLO_EXPORT void hlo_file_content_free(HloFileContent *content);

// One of the pieces that a file is written from.
typedef struct HloFilePiece {
    const void *data;
    size_t size;
} HloFilePiece;

// Writes the pieces one after the other to a temporary name beside `path` and renames it, so that an interrupted run
// leaves the old file. "-" is standard output; devices and pipes are written in place. NOT_FOUND, PERMISSION_DENIED or
// RESOURCE_EXHAUSTED (disk full) with the system's reason; nothing is left behind then. Any thread.
HLO_EXPORT HLO_NODISCARD HloStatus hlo_file_write_pieces(const char *path, const HloFilePiece *pieces, int64_t count);

// Writes `size` bytes at `data`, as hlo_file_write_pieces() does.
HLO_EXPORT HLO_NODISCARD HloStatus hlo_file_write(const char *path, const void *data, size_t size);

// Makes the folder `path` and those above it where they are missing.
HLO_EXPORT HLO_NODISCARD HloStatus hlo_file_make_folder(const char *path);

HLO_END_C

#endif
