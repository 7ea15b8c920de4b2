// SPDX-License-Identifier: Apache-2.0
// Connected transports within the test's process, of each engine.
#ifndef MESHLO_TESTS_TRANSPORT_HARNESS_H_
#define MESHLO_TESTS_TRANSPORT_HARNESS_H_

#include <criterion/criterion.h>

#include "transport/transport.h"

enum { kMaximumCount = 8 };

// Makes `count` connected transports, at most kMaximumCount.
typedef void MakeTransports(int64_t count, Transport **list);
MakeTransports make_in_process;
#ifdef MESHLO_UCX
// By transport_join(), in as many threads, with a key-value store in memory.
MakeTransports make_ucx;
#endif

// A test of transports that are all in this process, for each engine.
#ifdef MESHLO_UCX
#define TEST_UCX(name)          \
    Test(transport_ucx, name) { \
        name(make_ucx);         \
    }
#else
#define TEST_UCX(name)
#endif
#define TEST_EACH_ENGINE(name)              \
    static void name(MakeTransports *make); \
    Test(transport_in_process, name) {      \
        name(make_in_process);              \
    }                                       \
    TEST_UCX(name)                          \
    static void name(MakeTransports *make)

// Releases one transport, as the function of a thread.
void *release_one(void *transport);
// Releases all of them at the same time.
void release_all(int64_t count, Transport **list);
// Moves messages of all of them until the request is done or seconds have passed; fails the test then. Frees the
// request and returns its error.
HloStatus finish_with(int64_t count, Transport **list, TransportRequest *request);
// Expects the error to have this code and a message that contains `part`; frees it.
void expect_error(HloStatus error, HloCode code, const char *part);
void expect_success(HloStatus status);
// `bytes` bytes that depend on `seed`.
void fill(void *data, int64_t bytes, uint64_t seed);
bool is_filled(const void *data, int64_t bytes, uint64_t seed);

#endif
