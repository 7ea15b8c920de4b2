// SPDX-License-Identifier: Apache-2.0
// The file of fuzzers whose entry point takes the name of a file.
#ifndef MESHLO_TESTS_FUZZ_NAMED_FILE_H_
#define MESHLO_TESTS_FUZZ_NAMED_FILE_H_

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

// Returns the name of a file that holds `data`: one in memory for each process, written again for each input.
static inline const char *fuzz_file(const uint8_t *data, size_t size) {
    static char path[64];
    static int file = -1;
    if (file < 0) {
        file = memfd_create("fuzz", MFD_CLOEXEC);
        snprintf(path, sizeof(path), "/proc/%lld/fd/%d", (long long)getpid(), file);
    }
    if (file < 0 || ftruncate(file, 0) || pwrite(file, data, size, 0) != (ssize_t)size) abort();
    return path;
}

#endif
