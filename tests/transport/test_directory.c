// SPDX-License-Identifier: Apache-2.0
// The store in a directory, by which processes of one job find each other.
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "hlo/base/memory.h"
#include "transport/directory.h"

static char folder[64];

static void make_folder(void) {
    strcpy(folder, "/tmp/meshlo-test-XXXXXX");
    cr_assert(mkdtemp(folder));
    unsetenv("XDG_RUNTIME_DIR");
    setenv("TMPDIR", folder, 1);
}

static void remove_folder(void) {
    cr_expect_eq(rmdir(folder), 0, "something is left in %s", folder);
}

static void put(TransportDirectory *directory, const char *key, const char *value, int64_t bytes) {
    const TransportStore *store = transport_directory_store(directory);
    HloStatus status = store->put(store->context, key, value, bytes);
    cr_assert(!status, "%s", hlo_status_message(status));
}

static void *put_later(void *directory) {
    nanosleep(&(struct timespec){.tv_nsec = 30000000}, NULL);
    put(directory, "a/b c", "x\0y", 3);
    return NULL;
}

Test(transport_directory, values_travel, .init = make_folder, .fini = remove_folder) {
    TransportDirectory *one, *other;
    cr_assert(!transport_directory_open("job 7", &one) && !transport_directory_open("job 7", &other));
    pthread_t thread;
    pthread_create(&thread, NULL, put_later, one);
    const TransportStore *store = transport_directory_store(other);
    char *value;
    int64_t bytes;
    cr_assert(!store->get(store->context, "a/b c", 10, &value, &bytes));
    cr_expect_eq(bytes, 3);
    cr_expect_eq(memcmp(value, "x\0y", 3), 0);
    hlo_free(value);
    pthread_join(thread, NULL);
    put(one, "a/b_c", "", 0);  // another key, of which the letters are the same
    cr_assert(!store->get(store->context, "a/b_c", 0, &value, &bytes));
    cr_expect_eq(bytes, 0);
    hlo_free(value);
    transport_directory_close(one);
    transport_directory_close(other);
}

Test(transport_directory, keys_are_put_once, .init = make_folder, .fini = remove_folder) {
    TransportDirectory *one, *other;
    cr_assert(!transport_directory_open("job", &one) && !transport_directory_open("job", &other));
    put(one, "key", "1", 1);
    const TransportStore *store = transport_directory_store(other);
    HloStatus status = store->put(store->context, "key", "2", 1);
    cr_expect_eq(hlo_status_code(status), HLO_ALREADY_EXISTS);
    hlo_status_free(status);
    transport_directory_close(other);
    transport_directory_close(one);
}

Test(transport_directory, other_jobs_and_no_one, .init = make_folder, .fini = remove_folder) {
    TransportDirectory *one, *other;
    cr_assert(!transport_directory_open("job 1", &one) && !transport_directory_open("job 2", &other));
    put(one, "key", "1", 1);
    const TransportStore *store = transport_directory_store(other);
    char *value;
    int64_t bytes;
    HloStatus status = store->get(store->context, "key", 0.05, &value, &bytes);
    cr_expect_eq(hlo_status_code(status), HLO_DEADLINE_EXCEEDED);
    cr_expect(strstr(hlo_status_message(status), "no process has put 'key'"), "%s", hlo_status_message(status));
    hlo_status_free(status);
    transport_directory_close(one);
    transport_directory_close(other);
}

// A directory that others could have filled is refused.
Test(transport_directory, open_to_others, .init = make_folder) {
    TransportDirectory *directory;
    cr_assert(!transport_directory_open("job", &directory));
    char command[160];
    snprintf(command, sizeof(command), "chmod 0755 %s/meshlo-*", folder);
    cr_assert_eq(system(command), 0);
    TransportDirectory *second;
    HloStatus status = transport_directory_open("job", &second);
    cr_expect_eq(hlo_status_code(status), HLO_PERMISSION_DENIED);
    cr_expect(strstr(hlo_status_message(status), "is not a directory of this user's alone"));
    hlo_status_free(status);
    transport_directory_close(directory);
    remove_folder();
}
