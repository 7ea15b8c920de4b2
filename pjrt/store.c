// SPDX-License-Identifier: Apache-2.0
// The key-value store that a framework passes to Client_Create, as that of the transport. It can be used during that
// call only. The API: PJRT_KeyValueGetCallback and PJRT_KeyValuePutCallback (xla/pjrt/c/pjrt_c_api.h).
#include <stdio.h>
#include <string.h>

#include "pjrt/objects.h"

struct PjrtStore {
    TransportStore store;
    const PjrtClientCreateArgs *args;
    int generation;  // how many clients this process had in the store before
};

enum { KEY_BYTES = 256, MILLISECONDS = 1000, MAXIMUM_GENERATION = 10000 };

static PjrtCallbackError *callback_error = pjrt_make_error;

// Keys of an earlier client of this process are still there, and cannot be put again.
static HloStatus name_key(const PjrtStore *store, const char *key, char name[KEY_BYTES]) {
    const int size = snprintf(name, KEY_BYTES, "meshlo/%d/%s", store->generation, key);
    HLO_FAIL_IF(size < 0 || size >= KEY_BYTES, HLO_INTERNAL, "the key %s is too long", key);
    return HLO_SUCCESS;
}

static HloStatus put(void *context, const char *key, const char *value, int64_t bytes) {
    const PjrtStore *store = context;
    char name[KEY_BYTES];
    HLO_TRY(name_key(store, key, name));
    PjrtKeyValuePutArgs args = {.struct_size = sizeof(args),
                                .key = name,
                                .key_size = strlen(name),
                                .value = value,
                                .value_size = (size_t)bytes,
                                .callback_error = &callback_error,
                                .user_arg = store->args->kv_put_user_arg};
    return pjrt_status_from_foreign(store->args->kv_put_callback(&args));
}

static HloStatus get(void *context, const char *key, double timeout_seconds, char **value, int64_t *bytes) {
    const PjrtStore *store = context;
    char name[KEY_BYTES];
    HLO_TRY(name_key(store, key, name));
    PjrtKeyValueGetArgs args = {.struct_size = sizeof(args),
                                .key = name,
                                .key_size = strlen(name),
                                .timeout_in_ms = (int32_t)(timeout_seconds * MILLISECONDS) + 1,
                                .callback_error = &callback_error,
                                .user_arg = store->args->kv_get_user_arg};
    HLO_TRY(pjrt_status_from_foreign(store->args->kv_get_callback(&args)));
    *value = hlo_allocate(args.value_size + 1);
    if (*value) {
        memcpy(*value, args.value, args.value_size);
        (*value)[args.value_size] = 0;
        *bytes = (int64_t)args.value_size;
    }
    if (args.value_deleter) args.value_deleter(args.value);
    HLO_FAIL_IF(!*value, HLO_RESOURCE_EXHAUSTED, "out of memory");
    return HLO_SUCCESS;
}

HloStatus pjrt_store_new(const PjrtClientCreateArgs *args, PjrtStore **result) {
    *result = NULL;
    if (!PJRT_HAS(args, kv_put_user_arg) || !args->kv_get_callback || !args->kv_put_callback) return HLO_SUCCESS;
    PjrtStore *store = hlo_allocate_zeroed(1, sizeof(*store));
    HLO_FAIL_IF(!store, HLO_RESOURCE_EXHAUSTED, "out of memory");
    store->store = (TransportStore){put, get, store};
    store->args = args;
    *result = store;
    return HLO_SUCCESS;
}

HloStatus pjrt_store_begin(PjrtStore *store, int64_t process) {
    char key[64];
    snprintf(key, sizeof(key), "begin/%lld", (long long)process);
    for (;; store->generation++) {
        HloStatus status = put(store, key, "", 0);
        if (hlo_status_code(status) != HLO_ALREADY_EXISTS || store->generation == MAXIMUM_GENERATION) return status;
        hlo_status_free(status);
    }
}

const TransportStore *pjrt_store_transport(PjrtStore *store) {
    return store ? &store->store : NULL;
}

void pjrt_store_free(PjrtStore *store) {
    hlo_free(store);
}
