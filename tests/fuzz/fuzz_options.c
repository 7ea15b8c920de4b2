// SPDX-License-Identifier: Apache-2.0
// Any bytes as the compile options that jaxlib hands to the plugin.
#include "pjrt/options.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    HloArena *arena = hlo_arena_new();
    PjrtCompileOptions options;
    if (arena) hlo_status_free(pjrt_options_parse(arena, data, size, &options));
    hlo_arena_free(arena);
    return 0;
}
