// SPDX-License-Identifier: Apache-2.0
// The table of functions, and what the plugin says of itself.
#include "pjrt/objects.h"

PjrtError *pjrt_plugin_initialize(void *arguments) {
    (void)arguments;
    return NULL;
}

// Versions that a program may have: jaxlib lowers what it sends to them.
static const int64_t stablehlo_version[] = {1, 13, 7}, stablehlo_minimum[] = {0, 9, 0}, sdy_version[] = {0, 0, 1};

static PjrtNamedValue list_value(const char *name, size_t name_size, const int64_t *numbers, size_t count) {
    PjrtNamedValue value = {.struct_size = sizeof(value),
                            .name = name,
                            .name_size = name_size,
                            .type = PJRT_VALUE_INT64_LIST,
                            .value_size = count};
    value.value.numbers = numbers;
    return value;
}

PjrtError *pjrt_plugin_attributes(void *arguments) {
    PjrtPluginAttributesArgs *args = arguments;
    // Filled each time with the same values: a store that another thread repeats is no change.
    static PjrtNamedValue attributes[3];
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    attributes[0] = list_value("stablehlo_current_version", 25, stablehlo_version, 3);
    attributes[1] = list_value("stablehlo_minimum_version", 25, stablehlo_minimum, 3);
    attributes[2] = list_value("sdy_current_version", 19, sdy_version, 3);
    pthread_mutex_unlock(&lock);
    args->attributes = attributes;
    args->num_attributes = HLO_COUNT_OF(attributes);
    return NULL;
}

static PjrtApi api = {
    .struct_size = sizeof(PjrtApi),
    .version = {.struct_size = sizeof(PjrtVersion), .major = PJRT_API_MAJOR, .minor = PJRT_API_MINOR},
    .functions =
        {
#define PJRT_FUNCTION(name, handler) pjrt_##handler,
#include "pjrt/functions.def"
#undef PJRT_FUNCTION
        },
};

// The one symbol of the plugin.
HLO_EXPORT const PjrtApi *GetPjrtApi(void);

const PjrtApi *GetPjrtApi(void) {
    api.extension_start = pjrt_extensions();
    return &api;
}
