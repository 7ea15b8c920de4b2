// SPDX-License-Identifier: Apache-2.0
// The promises of every engine: matching, order, sizes, cancelling, failure, activities.
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"
#include "hlo/base/clock.h"
#include "hlo/base/memory.h"

enum { kSecond = 1000000000 };

static TransportRequest *send_to(Transport *from, int64_t to, uint64_t tag, const void *data, int64_t bytes) {
    TransportRequest *request;
    expect_success(transport_send(from, to, tag, data, bytes, &request));
    cr_assert_not_null(request);
    return request;
}

static TransportRequest *receive_from(Transport *to, int64_t from, uint64_t tag, void *data, int64_t bytes) {
    TransportRequest *request;
    expect_success(transport_receive(to, from, tag, data, bytes, &request));
    cr_assert_not_null(request);
    return request;
}

TEST_EACH_ENGINE(says_who_takes_part) {
    Transport *list[3];
    make(3, list);
    for (int64_t i = 0; i < 3; i++) {
        cr_expect_eq(transport_process_count(list[i]), 3);
        cr_expect_eq(transport_process_index(list[i]), i);
        cr_expect_gt(strlen(transport_description(list[i])), 2);
        cr_expect_eq(strncmp(transport_process_name(list[i], 2), "process 2 (", 11), 0);
        cr_expect_null(transport_error(list[i]));
    }
    release_all(3, list);
}

// Of each pair in both directions, with equal tags from different senders and different tags from one.
TEST_EACH_ENGINE(messages_match_by_sender_and_tag) {
    enum { kCount = 3, kTags = 3 };
    Transport *list[kCount];
    TransportRequest *sends[kCount][kCount][kTags], *receives[kCount][kCount][kTags];
    int64_t sent[kCount][kCount][kTags], received[kCount][kCount][kTags];
    const uint64_t tags[kTags] = {0, 1, (1ull << TRANSPORT_TAG_BITS) - 1};
    make(kCount, list);
    for (int from = 0; from < kCount; from++)
        for (int to = 0; to < kCount; to++)
            for (int tag = 0; tag < kTags && from != to; tag++) {
                sent[from][to][tag] = 100 * from + 10 * to + tag;
                sends[from][to][tag] = send_to(list[from], to, tags[tag], &sent[from][to][tag], 8);
            }
    for (int to = kCount - 1; to >= 0; to--)
        for (int tag = 0; tag < kTags; tag++)
            for (int from = kCount - 1; from >= 0; from--)
                if (from != to)
                    receives[from][to][tag] = receive_from(list[to], from, tags[tag], &received[from][to][tag], 8);
    for (int from = 0; from < kCount; from++)
        for (int to = 0; to < kCount; to++)
            for (int tag = 0; tag < kTags && from != to; tag++) {
                expect_success(finish_with(kCount, list, receives[from][to][tag]));
                expect_success(finish_with(kCount, list, sends[from][to][tag]));
                cr_expect_eq(received[from][to][tag], sent[from][to][tag]);
            }
    release_all(kCount, list);
}

// Messages of any size with one tag arrive in the order of their sends, whether receives come before them or after.
TEST_EACH_ENGINE(equal_tags_keep_their_order) {
    enum { kMessages = 24, kLarge = 300000 };
    Transport *list[2];
    TransportRequest *sends[kMessages], *receives[kMessages];
    char *sent = hlo_allocate((size_t)kMessages * kLarge), *received = hlo_allocate((size_t)kMessages * kLarge);
    make(2, list);
    for (int first_receives = 0; first_receives < 2; first_receives++) {
        for (int step = 0; step < 2; step++)
            for (int i = 0; i < kMessages; i++) {
                const int64_t bytes = i % 3 == 1 ? kLarge - i : i % 3 == 2 ? 8 + i : 0;
                fill(sent + (size_t)i * kLarge, bytes, (uint64_t)i);
                if (step == first_receives) {
                    sends[i] = send_to(list[0], 1, 7, sent + (size_t)i * kLarge, bytes);
                } else {
                    receives[i] = receive_from(list[1], 0, 7, received + (size_t)i * kLarge, bytes);
                }
            }
        for (int i = 0; i < kMessages; i++) {
            const int64_t bytes = i % 3 == 1 ? kLarge - i : i % 3 == 2 ? 8 + i : 0;
            expect_success(finish_with(2, list, receives[i]));
            cr_expect(is_filled(received + (size_t)i * kLarge, bytes, (uint64_t)i), "message %d", i);
        }
        for (int i = 0; i < kMessages; i++) expect_success(finish_with(2, list, sends[i]));
    }
    release_all(2, list);
    hlo_free(sent);
    hlo_free(received);
}

TEST_EACH_ENGINE(any_size_arrives_whole) {
    static const int64_t kSizes[] = {0,     1,     63,    64,    4095,    8192,         8257,
                                     32767, 32768, 32769, 65536, 1 << 20, (9 << 20) + 5};
    Transport *list[2];
    make(2, list);
    for (size_t i = 0; i < HLO_COUNT_OF(kSizes); i++) {
        // Exactly as long as the message, so that sanitizers see a byte too many.
        const size_t bytes = (size_t)kSizes[i];
        char *sent = hlo_allocate(bytes), *received = hlo_allocate(bytes);
        fill(sent, kSizes[i], i);
        TransportRequest *receive = receive_from(list[0], 1, 3, bytes ? received : NULL, kSizes[i]);
        TransportRequest *send = send_to(list[1], 0, 3, bytes ? sent : NULL, kSizes[i]);
        expect_success(finish_with(2, list, receive));
        expect_success(finish_with(2, list, send));
        cr_expect(is_filled(received, kSizes[i], i), "%zu bytes", bytes);
        hlo_free(sent);
        hlo_free(received);
    }
    release_all(2, list);
}

// Whichever side comes first, and whichever message is larger.
TEST_EACH_ENGINE(another_size_ends_the_transport) {
    static const int64_t kSizes[][2] = {{8, 16}, {16, 8}, {300000, 8}, {8, 300000}, {300000, 299999}};
    char *data = hlo_allocate_zeroed(300000, 1), *other = hlo_allocate(300000);
    for (size_t i = 0; i < 2 * HLO_COUNT_OF(kSizes); i++) {
        Transport *list[2];
        TransportRequest *send = NULL, *receive;
        char sizes[64];
        const int64_t sent = kSizes[i / 2][0], expected = kSizes[i / 2][1];
        make(2, list);
        if (i % 2) send = send_to(list[0], 1, 1, data, sent);
        receive = receive_from(list[1], 0, 1, other, expected);
        if (!send) send = send_to(list[0], 1, 1, data, sent);
        snprintf(sizes, sizeof sizes, "has %lld bytes, where %lld were", (long long)sent, (long long)expected);
        expect_error(finish_with(2, list, receive), HLO_INTERNAL, sizes);
        expect_error(transport_error(list[1]), HLO_INTERNAL, "process 0 (");
        hlo_status_free(finish_with(2, list, send));
        release_all(2, list);
    }
    hlo_free(data);
    hlo_free(other);
}

TEST_EACH_ENGINE(a_cancelled_receive_leaves_its_message) {
    Transport *list[2];
    make(2, list);
    for (int64_t bytes = 8; bytes <= 300000; bytes += 299992) {
        char *sent = hlo_allocate((size_t)bytes), *received = hlo_allocate((size_t)bytes);
        char *abandoned = hlo_allocate((size_t)bytes);
        fill(sent, bytes, 5);
        transport_request_free(receive_from(list[0], 1, 9, abandoned, bytes));
        hlo_free(abandoned);
        TransportRequest *send = send_to(list[1], 0, 9, sent, bytes);
        expect_success(finish_with(2, list, receive_from(list[0], 1, 9, received, bytes)));
        expect_success(finish_with(2, list, send));
        cr_expect(is_filled(received, bytes, 5));
        hlo_free(sent);
        hlo_free(received);
    }
    release_all(2, list);
}

// A large message that no one receives yet: its memory is the caller's again at once.
TEST_EACH_ENGINE(a_cancelled_send_is_withdrawn) {
    enum { kLarge = 1 << 20 };
    Transport *list[2];
    char *sent = hlo_allocate(kLarge), *received = hlo_allocate(kLarge);
    make(2, list);
    fill(sent, kLarge, 1);
    TransportRequest *send = send_to(list[1], 0, 9, sent, kLarge);
    for (int i = 0; i < 100; i++) transport_progress(list[i % 2]);
    const int64_t began = hlo_clock_nanoseconds();
    transport_request_free(send);
    cr_expect_lt(hlo_clock_nanoseconds() - began, kSecond);
    memset(sent, 0, kLarge);
    TransportRequest *receive = receive_from(list[0], 1, 9, received, kLarge);
    for (int i = 0; i < 100; i++) transport_progress(list[i % 2]);
    cr_expect_not(transport_request_is_done(receive, NULL));
    fill(sent, kLarge, 2);
    send = send_to(list[1], 0, 9, sent, kLarge);
    expect_success(finish_with(2, list, receive));
    expect_success(finish_with(2, list, send));
    cr_expect(is_filled(received, kLarge, 2));
    release_all(2, list);
    hlo_free(sent);
    hlo_free(received);
}

// Rules drop messages that have arrived and later ones, of any size; a pending receive and other tags are not affected.
TEST_EACH_ENGINE(discarded_messages_are_dropped) {
    enum { kLarge = 300000 };
    Transport *list[2];
    int64_t small[4] = {1, 2, 3, 4}, received[2] = {0};
    char *large = hlo_allocate(kLarge);
    fill(large, kLarge, 3);
    make(2, list);
    TransportRequest *receive = receive_from(list[1], 0, 0x103, &received[0], 8);
    TransportRequest *sends[6];
    sends[0] = send_to(list[0], 1, 0x101, &small[0], 8);
    sends[1] = send_to(list[0], 1, 0x102, large, kLarge);
    for (int i = 0; i < 100; i++) transport_progress(list[i % 2]);
    transport_discard(list[1], 0, 0x100, 0xf00);
    sends[2] = send_to(list[0], 1, 0x103, &small[1], 8);
    sends[3] = send_to(list[0], 1, 0x104, &small[2], 8);
    sends[4] = send_to(list[0], 1, 0x105, large, kLarge);
    sends[5] = send_to(list[0], 1, 0x203, &small[3], 8);
    for (int i = 0; i < 5; i++) expect_success(finish_with(2, list, sends[i]));
    expect_success(finish_with(2, list, receive));
    cr_expect_eq(received[0], 2);
    expect_success(finish_with(2, list, receive_from(list[1], 0, 0x203, &received[1], 8)));
    expect_success(finish_with(2, list, sends[5]));
    cr_expect_eq(received[1], 4);
    release_all(2, list);
    hlo_free(large);
}

TEST_EACH_ENGINE(an_abort_ends_all_with_its_name) {
    Transport *list[3];
    int64_t data;
    make(3, list);
    TransportRequest *pending = receive_from(list[0], 1, 1, &data, 8);
    TransportRequest *other = receive_from(list[2], 0, 1, &data, 8), *request;
    transport_abort(list[1], hlo_error(HLO_FAILED_PRECONDITION, "runs jit_train, not jit_eval"));
    expect_error(finish_with(3, list, pending), HLO_FAILED_PRECONDITION, "process 1 (");
    expect_error(finish_with(3, list, other), HLO_FAILED_PRECONDITION, "runs jit_train, not jit_eval");
    for (int i = 0; i < 3; i++) {
        expect_error(transport_error(list[i]), HLO_FAILED_PRECONDITION, "runs jit_train, not jit_eval");
        expect_error(transport_send(list[i], (i + 1) % 3, 1, &data, 8, &request), HLO_FAILED_PRECONDITION, "jit_train");
        cr_expect_null(request);
    }
    transport_abort(list[2], hlo_error(HLO_ABORTED, "a later failure"));
    expect_error(transport_error(list[2]), HLO_FAILED_PRECONDITION, "jit_train");
    release_all(3, list);
}

// Messages that were sent before still arrive; the others go on among themselves.
TEST_EACH_ENGINE(leaving_fails_only_requests_with_the_process) {
    Transport *list[3];
    int64_t sent = 11, received = 0, never;
    TransportRequest *request;
    make(3, list);
    TransportRequest *first = receive_from(list[0], 1, 1, &received, 8);
    TransportRequest *send = send_to(list[1], 0, 1, &sent, 8);
    expect_success(finish_with(3, list, send));
    TransportRequest *unanswered = receive_from(list[0], 1, 2, &never, 8);
    pthread_t thread;
    Transport *leaving = list[1];
    pthread_create(&thread, NULL, release_one, leaving);
    list[1] = list[2];
    expect_error(finish_with(2, list, unanswered), HLO_UNAVAILABLE, "process 1 (");
    expect_success(finish_with(2, list, first));
    cr_expect_eq(received, 11);
    HloStatus error;
    while (!(error = transport_send(list[2], 1, 1, &sent, 8, &request))) hlo_status_free(transport_finish(request));
    expect_error(error, HLO_UNAVAILABLE, "has left");
    sent = 12;
    TransportRequest *receive = receive_from(list[2], 0, 5, &received, 8);
    send = send_to(list[0], 2, 5, &sent, 8);
    expect_success(finish_with(2, list, receive));
    expect_success(finish_with(2, list, send));
    cr_expect_eq(received, 12);
    cr_expect_null(transport_error(list[0]));
    release_all(2, list);
    pthread_join(thread, NULL);
}

TEST_EACH_ENGINE(activities_travel) {
    Transport *list[2];
    make(2, list);
    const int64_t until = hlo_clock_nanoseconds() + 10ll * kSecond;
    static const char *const kTexts[] = {"waits at all-reduce %psum.3 of jit_step (launch 17)", NULL, "is idle", ""};
    for (size_t i = 0; i < HLO_COUNT_OF(kTexts); i++) {
        char *seen = NULL;
        double age = -1;
        const char *expected = kTexts[i] ? kTexts[i] : "";
        transport_set_activity(list[1], kTexts[i], -5 - (int64_t)i);
        do {
            hlo_free(seen);
            seen = transport_activity(list[0], 1, &age);
            cr_assert_lt(hlo_clock_nanoseconds(), until);
        } while (strcmp(seen, expected) != 0);
        cr_expect(age >= 0 && age < 10, "%g", age);
        while (transport_mark(list[0], 1) != -5 - (int64_t)i) cr_assert_lt(hlo_clock_nanoseconds(), until);
        hlo_free(seen);
        seen = transport_activity(list[1], 1, NULL);
        cr_expect_str_eq(seen, expected);
        hlo_free(seen);
    }
    release_all(2, list);
}

// Also while no thread of the process that is asked moves messages, and after it has left.
TEST_EACH_ENGINE(probes_are_answered) {
    Transport *list[3];
    make(3, list);
    const int64_t until = hlo_clock_nanoseconds() + 10ll * kSecond;
    for (int64_t i = 1; i <= 3; i++) {
        const int64_t probe = transport_probe(list[0]);
        cr_expect_eq(probe, i);
        cr_expect(transport_has_answered(list[0], 0, probe));
        for (int64_t p = 1; p < 3; p++)
            while (!transport_has_answered(list[0], p, probe)) cr_assert_lt(hlo_clock_nanoseconds(), until);
        cr_expect_not(transport_has_answered(list[0], 1, probe + 1));
        cr_expect_not(transport_has_answered(list[1], 0, 1));
    }
    release_all(3, list);
}

static void *wake_later(void *transport) {
    usleep(20000);
    transport_wake(transport);
    return NULL;
}

TEST_EACH_ENGINE(waiting_ends_when_something_happens) {
    Transport *list[2];
    int64_t sent = 1, received;
    pthread_t thread;
    make(2, list);
    // An event that came before the wait, as when another thread completed this one's request.
    int64_t began = hlo_clock_nanoseconds(), seen = transport_events(list[0]);
    transport_wake(list[0]);
    transport_wait(list[0], seen, 30ll * kSecond);
    cr_expect_lt(hlo_clock_nanoseconds() - began, 10ll * kSecond);
    // A wake from another thread.
    seen = transport_events(list[0]);
    pthread_create(&thread, NULL, wake_later, list[0]);
    while (transport_events(list[0]) == seen) transport_wait(list[0], seen, 30ll * kSecond);
    pthread_join(thread, NULL);
    cr_expect_lt(hlo_clock_nanoseconds() - began, 10ll * kSecond);
    // A message.
    TransportRequest *receive = receive_from(list[0], 1, 1, &received, 8);
    TransportRequest *send = send_to(list[1], 0, 1, &sent, 8);
    expect_success(transport_finish(receive));
    expect_success(finish_with(2, list, send));
    // The end of the time.
    began = hlo_clock_nanoseconds();
    while (hlo_clock_nanoseconds() < began + 2000000)
        transport_wait(list[0], transport_events(list[0]), began + 2000000 - hlo_clock_nanoseconds());
    release_all(2, list);
}

TEST_EACH_ENGINE(meaningless_requests_are_refused) {
    Transport *list[2];
    TransportRequest *request;
    int64_t data = 0;
    make(2, list);
    expect_error(transport_send(list[0], 0, 1, &data, 8, &request), HLO_INVALID_ARGUMENT, "not with 0");
    expect_error(transport_send(list[0], 2, 1, &data, 8, &request), HLO_INVALID_ARGUMENT, "not with 2");
    expect_error(transport_receive(list[0], -1, 1, &data, 8, &request), HLO_INVALID_ARGUMENT, "not with -1");
    expect_error(transport_send(list[0], 1, 1ull << 48, &data, 8, &request), HLO_INVALID_ARGUMENT, "48 bits");
    expect_error(transport_send(list[0], 1, 1, &data, -1, &request), HLO_INVALID_ARGUMENT, "-1 bytes");
    expect_error(transport_receive(list[0], 1, 1, NULL, 1, &request), HLO_INVALID_ARGUMENT, "without memory");
    transport_request_free(NULL);
    transport_release(NULL);
    release_all(2, list);
}

TEST_EACH_ENGINE(a_child_has_no_transport) {
    Transport *list[2];
    int64_t data = 1, received;
    make(2, list);
    TransportRequest *receive = receive_from(list[0], 1, 1, &received, 8);
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        TransportRequest *request;
        HloStatus status = transport_send(list[1], 0, 1, &data, 8, &request), done = HLO_SUCCESS;
        const bool good = hlo_status_code(status) == HLO_FAILED_PRECONDITION && !request &&
                          strstr(hlo_status_message(status), "fork()") && transport_request_is_done(receive, &done) &&
                          hlo_status_code(done) == HLO_FAILED_PRECONDITION && !transport_progress(list[0]);
        transport_request_free(receive);
        transport_abort(list[0], status);
        transport_release(list[0]);
        transport_release(list[1]);
        _exit(good ? 0 : 1);
    }
    int result = -1;
    cr_assert_eq(waitpid(child, &result, 0), child);
    cr_expect_eq(result, 0);
    // The parent goes on.
    TransportRequest *send = send_to(list[1], 0, 1, &data, 8);
    expect_success(finish_with(2, list, receive));
    expect_success(finish_with(2, list, send));
    cr_expect_eq(received, 1);
    release_all(2, list);
}

// ---- many threads

typedef struct Exchange {
    Transport *transport;
    int64_t rounds, wrong;
} Exchange;

// Every process sends a message of some size to every other one, in each round, and receives theirs.
static void *exchange(void *argument) {
    Exchange *own = argument;
    Transport *transport = own->transport;
    const int64_t count = transport_process_count(transport), index = transport_process_index(transport);
    for (int64_t round = 0; round < own->rounds; round++) {
        TransportRequest *sends[kMaximumCount] = {NULL}, *receives[kMaximumCount] = {NULL};
        void *sent[kMaximumCount] = {NULL}, *received[kMaximumCount] = {NULL};
        int64_t sizes[kMaximumCount];
        for (int64_t i = 0; i < count; i++) {
            if (i == index) continue;
            const uint64_t seed = (uint64_t)(round * 64 + index * 8 + i),
                           other = (uint64_t)(round * 64 + i * 8 + index);
            const int64_t bytes = (int64_t)(seed * seed * 977 % (seed % 5 == 0 ? 400000 : 3000));
            sizes[i] = (int64_t)(other * other * 977 % (other % 5 == 0 ? 400000 : 3000));
            sent[i] = hlo_allocate((size_t)bytes);
            received[i] = hlo_allocate((size_t)sizes[i]);
            fill(sent[i], bytes, seed);
            own->wrong += hlo_status_code(transport_send(transport, i, 4, sent[i], bytes, &sends[i])) != HLO_OK;
            own->wrong +=
                hlo_status_code(transport_receive(transport, i, 4, received[i], sizes[i], &receives[i])) != HLO_OK;
        }
        for (int64_t i = 0; i < count; i++) {
            if (i == index) continue;
            own->wrong += hlo_status_code(transport_finish(receives[i])) != HLO_OK;
            own->wrong += !is_filled(received[i], sizes[i], (uint64_t)(round * 64 + i * 8 + index));
        }
        for (int64_t i = 0; i < count; i++) {
            if (i != index) own->wrong += hlo_status_code(transport_finish(sends[i])) != HLO_OK;
            hlo_free(sent[i]);
            hlo_free(received[i]);
        }
    }
    return NULL;
}

TEST_EACH_ENGINE(threads_exchange_with_all) {
    enum { kCount = 4 };
    Transport *list[kCount];
    Exchange exchanges[kCount];
    pthread_t threads[kCount];
    make(kCount, list);
    for (int i = 0; i < kCount; i++) {
        exchanges[i] = (Exchange){.transport = list[i], .rounds = 20};
        cr_assert_eq(pthread_create(&threads[i], NULL, exchange, &exchanges[i]), 0);
    }
    for (int i = 0; i < kCount; i++) {
        pthread_join(threads[i], NULL);
        cr_expect_eq(exchanges[i].wrong, 0, "process %d", i);
    }
    release_all(kCount, list);
}
