// SPDX-License-Identifier: Apache-2.0
// libFuzzer: any bytes as an .npy image, and expanded as a compressed file.
#include "tools/npy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    HloLiteral *literal = NULL;
    HloFileContent content = {0};
    hlo_status_free(npy_parse("fuzz", data, size, NULL, &literal));
    hlo_literal_free(literal);
    hlo_status_free(hlo_file_expand("fuzz", data, size, 1 << 20, &content));
    hlo_file_content_free(&content);
    return 0;
}
