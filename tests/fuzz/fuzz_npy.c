// SPDX-License-Identifier: Apache-2.0
// libFuzzer: any bytes as an .npy image, expanded as a compressed file, and as an .npz archive with its first members.
#include <stdio.h>

#include "hlo/base/file.h"
#include "tests/fuzz/named_file.h"
#include "tools/npy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MEMBERS = 4 };

// Archives are opened by their name.
static void read_archive(const uint8_t *data, size_t size) {
    NpzArchive archive = {0};
    bool there[MEMBERS] = {false};
    HloStatus status = npz_open(fuzz_file(data, size), &archive);
    if (!status) {
        status = npz_check_names(&archive, there, MEMBERS);
        for (int i = 0; i < MEMBERS && !status; i++) {
            HloLiteral *literal = NULL;
            char name[16];
            snprintf(name, sizeof(name), "arr_%d", i);
            if (there[i]) hlo_status_free(npz_read(&archive, name, NULL, &literal));
            hlo_literal_free(literal);
        }
        npz_close(&archive);
    }
    hlo_status_free(status);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    HloLiteral *literal = NULL;
    HloFileContent content = {0};
    hlo_status_free(npy_parse("fuzz", data, size, NULL, &literal));
    hlo_literal_free(literal);
    hlo_status_free(hlo_file_expand("fuzz", data, size, 1 << 20, &content));
    hlo_file_content_free(&content);
    read_archive(data, size);
    return 0;
}
