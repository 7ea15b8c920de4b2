// SPDX-License-Identifier: Apache-2.0
// Reading and writing whole files: compressed files are expanded while reading; a written file appears complete or not
// at all.
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

// Reads all of `path` ("-": standard input) and expands it if its first bytes are those of an xz, gzip or zstd stream.
// Neither the file nor its expansion may be larger than `limit` bytes (RESOURCE_EXHAUSTED). NOT_FOUND or
// PERMISSION_DENIED if it cannot be opened, DATA_LOSS if a compressed stream is damaged or truncated. Free the result
// with hlo_file_content_free(). Any thread.
HLO_EXPORT HLO_NODISCARD HloStatus hlo_file_read(const char *path, size_t limit, HloFileContent *content);

// Expands `size` bytes at `data` as hlo_file_read() does, or copies them if they are not a compressed stream. `name` is
// for messages.
HLO_EXPORT HLO_NODISCARD HloStatus hlo_file_expand(const char *name, const void *data, size_t size, size_t limit,
                                                   HloFileContent *content);

// Frees the data and empties the content.
HLO_EXPORT void hlo_file_content_free(HloFileContent *content);

// A piece of the content to write to a file.
typedef struct HloFilePiece {
    const void *data;
    size_t size;
} HloFilePiece;

// Writes the pieces one after the other to a temporary name beside `path` and renames it, so that an interrupted run
// leaves the old file. Symbolic links are followed, even to a file that does not exist yet; an existing file keeps its
// permissions, and its owner if allowed. "-" and /dev/stdout are standard output; devices, pipes and /dev/fd/N are
// written in place. Returns NOT_FOUND, PERMISSION_DENIED or RESOURCE_EXHAUSTED (the disk is full, the file too large
// for its limit) with the system's reason, or CANCELLED if a signal that ends the process is pending; no temporary file
// remains then. SIGXFSZ and SIGPIPE of its writes are errors. Any thread.
HLO_EXPORT HLO_NODISCARD HloStatus hlo_file_write_pieces(const char *path, const HloFilePiece *pieces, int64_t count);

// Says whether hlo_file_write_pieces() could write to `path` now, as far as that can be known without writing: with its
// errors for a folder that does not exist, and for folders and files that must not be written. Nothing is changed, and
// the disk may be full all the same. For callers who would otherwise learn it after long work. Any thread.
HLO_EXPORT HLO_NODISCARD HloStatus hlo_file_check_writable(const char *path);

// Writes `size` bytes at `data`, as hlo_file_write_pieces() does.
HLO_EXPORT HLO_NODISCARD HloStatus hlo_file_write(const char *path, const void *data, size_t size);

// Appends a name from outside, such as a module's, in a form that can be part of a file's name: at most 128 bytes of
// it, with '_' for slashes, blanks, brackets (as XLA names its dumps) and control characters.
HLO_EXPORT void hlo_file_name_part(HloText *text, const char *name);

// Creates the folder `path` and its parents if they do not exist.
HLO_EXPORT HLO_NODISCARD HloStatus hlo_file_make_folder(const char *path);

HLO_END_C

#endif
