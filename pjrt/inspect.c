// SPDX-License-Identifier: Apache-2.0
// jax.debug.inspect_array_sharding: a custom call whose configuration is the bytes of a function and its data in this
// process, to be called with the sharding that the partitioner chose. Structs: xla/python/inspect_sharding.h.
//
// The configuration comes as text of hexadecimal digits from the importer; an address in it is one of this process only
// if the program was lowered here, which the caller of the partitioner has to know (PjrtCompileRequest.stored).
#include <string.h>

#include "hlo/base/hexadecimal.h"
#include "hlo/proto/proto.h"
#include "pjrt/objects.h"

typedef struct InspectArgs {
    const char *sharding;  // a serialised OpSharding
    size_t sharding_size;
    char *error;  // out: NULL, or a text that free_error() frees
    void *error_owner;
    void (*free_error)(struct InspectArgs *args);
} InspectArgs;

typedef struct InspectCallback {
    void (*call)(void *data, InspectArgs *args);
    void *data;
} InspectCallback;

// Reads the hexadecimal digits that the importer made of the bytes.
static bool read_callback(const char *digits, InspectCallback *callback) {
    if (!digits || strlen(digits) != 2 * sizeof(*callback)) return false;
    return hlo_bytes_of_hexadecimal(digits, callback) && callback->call != NULL;
}

// Called by the partitioner while it compiles, on the thread of Client_Compile. The error's text belongs to the
// callback until it is freed by the function that came with it.
HloStatus pjrt_inspect_sharding(void *unused, const HloInstruction *call, const HloSharding *sharding) {
    (void)unused;
    InspectCallback callback;
    HLO_FAIL_IF(!read_callback(call->backend_config, &callback), HLO_INVALID_ARGUMENT,
                "%%%s: the configuration of InspectSharding is not a callback", call->name);
    HloText bytes = {0};
    hlo_sharding_to_proto(sharding, &bytes);
    HloStatus status = hlo_text_status(&bytes);
    if (!status) {
        InspectArgs args = {.sharding = bytes.data ? bytes.data : "", .sharding_size = bytes.length};
        callback.call(callback.data, &args);
        if (args.error) {
            status = hlo_error(HLO_INTERNAL, "%%%s: inspect_sharding: %s", call->name, args.error);
            if (args.free_error) args.free_error(&args);
        }
    }
    hlo_text_free(&bytes);
    return status;
}
