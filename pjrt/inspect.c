// SPDX-License-Identifier: Apache-2.0
// jax.debug.inspect_array_sharding: a custom call whose configuration is the bytes of a function and its data in this
// process, to be called with the sharding that the partitioner chose. Structs: xla/python/inspect_sharding.h.
//
// The configuration comes as text of hexadecimal digits from the importer; an address in it is one of this process only
// if the program was lowered here, which the caller of the partitioner has to know (PjrtCompileRequest.stored).
#include <string.h>

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

// -1 for what is no digit.
static int digit_value(char digit) {
    const char *all = "0123456789abcdef", *found = digit ? strchr(all, digit) : NULL;
    return found ? (int)(found - all) : -1;
}

// Reads the hexadecimal digits that the importer made of the bytes.
static bool read_callback(const char *digits, InspectCallback *callback) {
    unsigned char bytes[sizeof(*callback)];
    if (!digits || strlen(digits) != 2 * sizeof(bytes)) return false;
    for (size_t i = 0; i < sizeof(bytes); i++) {
        const int high = digit_value(digits[2 * i]), low = digit_value(digits[2 * i + 1]);
        if (high < 0 || low < 0) return false;
        bytes[i] = (unsigned char)(high << 4 | low);
    }
    memcpy(callback, bytes, sizeof(bytes));
    return callback->call != NULL;
}

// Called by the partitioner while it compiles, on the thread of Client_Compile. The error's text belongs to the
// callback until it is freed by the function that came with it.
HloStatus pjrt_inspect_sharding(void *unused, const HloInstruction *call, const HloSharding *sharding) {
    (void)unused;
    InspectCallback callback;
    HLO_FAIL_IF(!read_callback(call->backend_config, &callback), HLO_INVALID_ARGUMENT,
                "%%%s: the configuration of InspectSharding is no callback", call->name);
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
