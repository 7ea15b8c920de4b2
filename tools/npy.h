// SPDX-License-Identifier: Apache-2.0
// Arrays in numpy's files: .npy in and out, .npz (stored or deflated) in.
#ifndef MESHLO_TOOLS_NPY_H_
#define MESHLO_TOOLS_NPY_H_

#include "hlo/base/file.h"
#include "hlo/ir/literal.h"

// Reads an .npy image of `size` bytes: C or Fortran order, either byte order, format versions 1 to 3. `expected`
// determines the type where numpy's descriptor leaves it open (|V1, V2: ml_dtypes) and must otherwise agree with the
// file in type and dimensions; NULL takes the file's type (V2 is bf16). `name` is for messages. INVALID_ARGUMENT for
// anything that is not an .npy image or disagrees, RESOURCE_EXHAUSTED when memory is short. Free *literal with
// hlo_literal_free().
HLO_NODISCARD HloStatus npy_parse(const char *name, const void *data, size_t size, const HloShape *expected,
                                  HloLiteral **literal);

// Reads the .npy file `path` as npy_parse() does.
HLO_NODISCARD HloStatus npy_read(const char *path, const HloShape *expected, HloLiteral **literal);

// Writes an array literal in C order, little endian, format version 1.0 (as numpy.save does), through a temporary name.
HLO_NODISCARD HloStatus npy_write(const char *path, const HloLiteral *literal);

// Appends the header that npy_write() puts before the data of an array of this shape.
void npy_print_header(HloText *text, const HloShape *shape);

// An opened .npz archive; zero-initialise.
typedef struct NpzArchive {
    HloFileContent file;
    const char *name;
    size_t directory;  // offset of the central directory
    int64_t entries;
} NpzArchive;

// Reads the archive `path` (kept by pointer for messages). INVALID_ARGUMENT when it is not a zip archive or is damaged.
// Free with npz_close().
HLO_NODISCARD HloStatus npz_open(const char *path, NpzArchive *archive);
// Sets seen[N] (of `limit` entries, all false) for each member arr_N.npy. INVALID_ARGUMENT for an archive that is empty
// or damaged, for a member of another name or with a number of `limit` or more, and for a member that appears twice.
HLO_NODISCARD HloStatus npz_check_names(const NpzArchive *archive, bool *seen, int64_t limit);
// Reads the member `name` (without ".npy") as npy_parse() does. NOT_FOUND when there is none.
HLO_NODISCARD HloStatus npz_read(const NpzArchive *archive, const char *name, const HloShape *expected,
                                 HloLiteral **literal);
// Frees what npz_open() took.
void npz_close(NpzArchive *archive);

#endif
