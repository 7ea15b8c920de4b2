// SPDX-License-Identifier: Apache-2.0
// Whole files in and out: compressed ones are expanded while they are read, written ones appear complete or not at all.
//
// Stability: experimental.
#ifndef MESHLO_HLO_BASE_FILE_H_
#define MESHLO_HLO_BASE_FILE_H_

#include "hlo/base/memory.h"
#include "hlo/base/text.h"

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
// leaves the old file. Symbolic links are followed, also to a file that is not there yet; an existing file keeps its
// permissions, and its owner where that is allowed. "-" and /dev/stdout are standard output; devices, pipes and
// /dev/fd/N are written in place. NOT_FOUND, PERMISSION_DENIED or RESOURCE_EXHAUSTED (the disk is full, the file too
// large for its limit) with the system's reason, CANCELLED when a signal waits that ends the process; nothing is left
// behind then. SIGXFSZ and SIGPIPE of its writes are errors. Any thread.
HLO_EXPORT HLO_NODISCARD HloStatus hlo_file_write_pieces(const char *path, const HloFilePiece *pieces, int64_t count);

// Writes `size` bytes at `data`, as hlo_file_write_pieces() does.
HLO_EXPORT HLO_NODISCARD HloStatus hlo_file_write(const char *path, const void *data, size_t size);

// Appends a name that somebody else chose, as a module's, so that it can be a part of a file's name: at most 128 bytes
// of it, with '_' for slashes, blanks, brackets (as XLA names its dumps) and control characters.
HLO_EXPORT void hlo_file_name_part(HloText *text, const char *name);

// Makes the folder `path` and those above it where they are missing.
HLO_EXPORT HLO_NODISCARD HloStatus hlo_file_make_folder(const char *path);

HLO_END_C

#endif
