// SPDX-License-Identifier: Apache-2.0
// Extensions: shardings of executables. The struct of an extension is its node and then its functions.
#include "pjrt/objects.h"

typedef struct ShardingsExtension {
    PjrtExtension node;
    PjrtFunction *parameters;
    PjrtFunction *outputs;
} ShardingsExtension;

_Static_assert(sizeof(ShardingsExtension) == 40, "the ABI's size of the shardings extension");

static void give_shardings(PjrtShardingsArgs *args, const PjrtStrings *strings) {
    // None at all is how a program of one device is told; so is one without results.
    args->count = strings->count;
    args->shardings = strings->count ? strings->items : NULL;
    args->sharding_sizes = strings->count ? strings->sizes : NULL;
}

static PjrtError *parameter_shardings(void *arguments) {
    PjrtShardingsArgs *args = arguments;
    give_shardings(args, &args->executable->parameter_shardings);
    return NULL;
}

static PjrtError *output_shardings(void *arguments) {
    PjrtShardingsArgs *args = arguments;
    give_shardings(args, &args->executable->result_shardings);
    return NULL;
}

PjrtExtension *pjrt_extensions(void) {
    static ShardingsExtension shardings = {
        .node = {.struct_size = sizeof(ShardingsExtension), .type = PJRT_EXTENSION_SHARDINGS},
        .parameters = parameter_shardings,
        .outputs = output_shardings,
    };
    return &shardings.node;
}
