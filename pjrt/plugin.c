// SPDX-License-Identifier: Apache-2.0
// The table of functions, and the plugin's attributes.
//
// A framework loads the library, finds its one symbol, GetPjrtApi(), and calls everything else through the table that
// this returns: pjrt/functions.def, in the order of XLA's pjrt_c_api.h. Its size and version show a caller of another
// release how much of the table exists. Features that are not functions of the table are structs in a chain
// (extensions.h).
#include "pjrt/extensions.h"
#include "pjrt/objects.h"

PjrtError *pjrt_plugin_initialize(void *arguments) {
    (void)arguments;
    return NULL;
}

// Versions that a program may have: jaxlib lowers what it sends to them.
static const int64_t stablehlo_version[] = {1, 13, 7}, stablehlo_minimum[] = {0, 9, 0}, sdy_version[] = {0, 0, 1};

// Lengths are without the NUL.
// clang-format off
#define LIST(list_name, list)                                                      \
    {.struct_size = sizeof(PjrtNamedValue), .type = PJRT_VALUE_INT64_LIST,         \
     .name = list_name,                     .name_size = sizeof(list_name) - 1,    \
     .value = {.numbers = list},            .value_size = HLO_COUNT_OF(list)}
// clang-format on

PjrtError *pjrt_plugin_attributes(void *arguments) {
    static const PjrtNamedValue attributes[] = {LIST("stablehlo_current_version", stablehlo_version),
                                                LIST("stablehlo_minimum_version", stablehlo_minimum),
                                                LIST("sdy_current_version", sdy_version)};
    PjrtPluginAttributesArgs *args = arguments;
    args->attributes = attributes;
    args->num_attributes = HLO_COUNT_OF(attributes);
    return NULL;
}

// Not const, as the caller's pointer is not, but never written: the chain of extensions is linked by the compiler.
static PjrtApi api = {
    .struct_size = sizeof(PjrtApi),
    .extension_start = &pjrt_shardings_extension.node,
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
    return &api;
}

const PjrtApi *pjrt_api(void) {
    return &api;
}
