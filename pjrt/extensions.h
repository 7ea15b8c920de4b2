// SPDX-License-Identifier: Apache-2.0
// The extensions of the C API that this plugin offers, declared in our own words as in pjrt/abi.h: a node and the
// functions behind it. Source: xla/pjrt/c/pjrt_c_api_*_extension.h, xla/backends/profiler/plugin/profiler_c_api.h of
// the XLA inside jaxlib 0.10.2.
#ifndef MESHLO_PJRT_EXTENSIONS_H_
#define MESHLO_PJRT_EXTENSIONS_H_

#include "pjrt/abi.h"

// ---- shardings of executables (type 19)

typedef struct PjrtShardingsExtension {
    PjrtExtension node;
    PjrtFunction *parameters;  // both take PjrtShardingsArgs
    PjrtFunction *outputs;
} PjrtShardingsExtension;
_Static_assert(sizeof(PjrtShardingsExtension) == 40, "the ABI's size of the shardings extension");

// ---- layouts (type 4)

typedef struct PjrtLayout PjrtLayout;

typedef struct PjrtLayoutDestroyArgs {
    PJRT_HEAD;
    PjrtLayout *layout;
} PjrtLayoutDestroyArgs;

typedef struct PjrtLayoutSerializeArgs {
    PJRT_HEAD;
    PjrtLayout *layout;
    const char *serialized_bytes;  // "{1,0:T(8,128)}"
    size_t serialized_bytes_size;
    void *serialized_layout;
    PjrtDeleter *serialized_layout_deleter;
} PjrtLayoutSerializeArgs;

typedef struct PjrtBufferLayoutArgs {
    PJRT_HEAD;
    PjrtBuffer *buffer;
    PjrtLayout *layout;  // the caller destroys it
} PjrtBufferLayoutArgs;

// Of a client or of a topology.
typedef struct PjrtDefaultLayoutArgs {
    PJRT_HEAD;
    void *owner;
    int32_t type;
    const int64_t *dims;
    size_t num_dims;
    PjrtLayout *layout;  // the caller destroys it
} PjrtDefaultLayoutArgs;

typedef struct PjrtExecutableLayoutsArgs {
    PJRT_HEAD;
    PjrtExecutable *executable;
    size_t count;
    PjrtLayout **layouts;  // the executable's
} PjrtExecutableLayoutsArgs;

typedef struct PjrtLayoutsExtension {
    PjrtExtension node;
    PjrtFunction *destroy;
    PjrtFunction *serialize;
    PjrtFunction *client_default;
    PjrtFunction *buffer;
    PjrtFunction *topology_default;
    PjrtFunction *outputs;
    PjrtFunction *parameters;
} PjrtLayoutsExtension;
_Static_assert(sizeof(PjrtLayoutsExtension) == 80, "the ABI's size of the layouts extension");

// ---- memories of device descriptions (type 6)

typedef struct PjrtMemoryDescription PjrtMemoryDescription;

typedef struct PjrtDeviceMemoriesArgs {
    PJRT_HEAD;
    PjrtDeviceDescription *device_description;
    const PjrtMemoryDescription *const *memories;
    size_t count;
} PjrtDeviceMemoriesArgs;

typedef struct PjrtMemoryDescriptionKindArgs {
    PJRT_HEAD;
    const PjrtMemoryDescription *memory_description;
    const char *kind;
    size_t kind_size;
    int32_t kind_id;
} PjrtMemoryDescriptionKindArgs;

typedef struct PjrtMemoryDescriptionsExtension {
    PjrtExtension node;
    PjrtFunction *memories;
    PjrtFunction *kind;
} PjrtMemoryDescriptionsExtension;
_Static_assert(sizeof(PjrtMemoryDescriptionsExtension) == 40, "the ABI's size of the memory descriptions extension");

// ---- the chain: each function gives the node of an extension, with `next` behind it

PjrtExtension *pjrt_layouts_extension(PjrtExtension *next);
PjrtExtension *pjrt_memory_descriptions_extension(PjrtExtension *next);

#endif
