// SPDX-License-Identifier: Apache-2.0
// libFuzzer: any bytes as an .npy image, expanded as a compressed file, and as an .npz archive with its first members.
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "hlo/base/file.h"
#include "tools/npy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MEMBERS = 4 };

// Archives are opened by their name: one file a process, written again for each input.
static void read_archive(const uint8_t *data, size_t size) {
    static char path[64];
    NpzArchive archive = {0};
    bool there[MEMBERS] = {false};
    if (!*path) snprintf(path, sizeof(path), "/tmp/meshlo-fuzz-%lld.npz", (long long)getpid());
    if (hlo_file_write(path, data, size)) abort();
    HloStatus status = npz_open(path, &archive);
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
    unlink(path);
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
