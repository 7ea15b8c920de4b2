// SPDX-License-Identifier: Apache-2.0
#include "harness.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "hlo/base/clock.h"
#include "hlo/base/memory.h"

void make_in_process(int64_t count, Transport **list) {
    expect_success(transport_in_process(count, list));
}

#ifdef MESHLO_UCX
// ---- a key-value store

typedef struct Store {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int count;
    char keys[kMaximumCount][64], values[kMaximumCount][64];
} Store;

static HloStatus put(void *context, const char *key, const char *value, int64_t bytes) {
    Store *store = context;
    pthread_mutex_lock(&store->lock);
    snprintf(store->keys[store->count], sizeof store->keys[0], "%s", key);
    snprintf(store->values[store->count++], sizeof store->values[0], "%.*s", (int)bytes, value);
    pthread_cond_broadcast(&store->changed);
    pthread_mutex_unlock(&store->lock);
    return HLO_SUCCESS;
}

static HloStatus get(void *context, const char *key, double timeout_seconds, char **value, int64_t *bytes) {
    Store *store = context;
    (void)timeout_seconds;
    pthread_mutex_lock(&store->lock);
    for (int i = 0;; i++) {
        while (i == store->count) {
            pthread_cond_wait(&store->changed, &store->lock);
            i = 0;
        }
        if (strcmp(store->keys[i], key) != 0) continue;
        *value = hlo_allocate_text(store->values[i]);
        *bytes = (int64_t)strlen(store->values[i]);
        break;
    }
    pthread_mutex_unlock(&store->lock);
    return HLO_SUCCESS;
}

typedef struct JoinCall {
    TransportOptions options;
    Transport *transport;
    HloStatus status;
} JoinCall;

static void *join_one(void *argument) {
    JoinCall *call = argument;
    call->status = transport_join(&call->options, &call->transport);
    return NULL;
}

void make_ucx(int64_t count, Transport **list) {
    Store store = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    const TransportStore functions = {.put = put, .get = get, .context = &store};
    pthread_t threads[kMaximumCount];
    JoinCall calls[kMaximumCount];
    for (int64_t i = 0; i < count; i++) {
        calls[i] = (JoinCall){.options = {.process_count = count, .process_index = i, .store = &functions}};
        cr_assert_eq(pthread_create(&threads[i], NULL, join_one, &calls[i]), 0);
    }
    for (int64_t i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
        expect_success(calls[i].status);
        list[i] = calls[i].transport;
    }
}
#endif

// ---- transports

void *release_one(void *transport) {
    transport_release(transport);
    return NULL;
}

void release_all(int64_t count, Transport **list) {
    pthread_t threads[kMaximumCount];
    for (int64_t i = 0; i < count; i++) cr_assert_eq(pthread_create(&threads[i], NULL, release_one, list[i]), 0);
    for (int64_t i = 0; i < count; i++) pthread_join(threads[i], NULL);
}

HloStatus finish_with(int64_t count, Transport **list, TransportRequest *request) {
    const int64_t until = hlo_clock_nanoseconds() + 20000000000;
    HloStatus status = HLO_SUCCESS;
    while (!transport_request_is_done(request, &status)) {
        cr_assert_lt(hlo_clock_nanoseconds(), until, "the request does not become done");
        for (int64_t i = 0; i < count; i++) transport_progress(list[i]);
    }
    transport_request_free(request);
    return status;
}

void expect_error(HloStatus error, HloCode code, const char *part) {
    cr_assert_not_null(error, "no error, where %s was expected", part);
    cr_expect_eq(hlo_status_code(error), code, "%s: %s", hlo_code_name(hlo_status_code(error)),
                 hlo_status_message(error));
    cr_expect_not_null(strstr(hlo_status_message(error), part), "'%s' does not contain '%s'", hlo_status_message(error),
                       part);
    hlo_status_free(error);
}

void expect_success(HloStatus status) {
    cr_assert_null(status, "%s", hlo_status_message(status));
}

static uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

void fill(void *data, int64_t bytes, uint64_t seed) {
    unsigned char *out = data;
    for (int64_t i = 0; i < bytes; i += 8) {
        const uint64_t word = mix(seed * 0x9e3779b97f4a7c15u + (uint64_t)i);
        memcpy(out + i, &word, (size_t)(bytes - i < 8 ? bytes - i : 8));
    }
}

bool is_filled(const void *data, int64_t bytes, uint64_t seed) {
    const unsigned char *in = data;
    for (int64_t i = 0; i < bytes; i += 8) {
        const uint64_t word = mix(seed * 0x9e3779b97f4a7c15u + (uint64_t)i);
        if (memcmp(in + i, &word, (size_t)(bytes - i < 8 ? bytes - i : 8)) != 0) return false;
    }
    return true;
}
