// SPDX-License-Identifier: Apache-2.0
// libFuzzer: any bytes as JSON. Build with the preset `fuzz`, run build/fuzz/bin/fuzz_json.
#include "hlo/base/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    HloArena *arena = hlo_arena_new();
    HloJsonValue *value = NULL;
    hlo_status_free(hlo_json_parse(arena, "fuzz", (const char *)data, size, &value));
    hlo_arena_free(arena);
    return 0;
}
