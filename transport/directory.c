// SPDX-License-Identifier: Apache-2.0
// A key is a file. Values appear whole: they are written to a file of another name, which is then linked.
#include "transport/directory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "hlo/base/clock.h"
#include "hlo/base/memory.h"
#include "hlo/base/text.h"

enum {
    PATH_BYTES = 512,
    MAXIMUM_VALUE_BYTES = 1 << 20,
    POLL_NANOSECONDS = 2000000,
};

struct TransportDirectory {
    TransportStore store;
    char path[PATH_BYTES];
    HloText keys;  // paths of the files that this process has made, each with its NUL
};

// FNV-1a, so that any text makes a file's name.
static uint64_t hash(const char *text) {
    uint64_t value = 0xcbf29ce484222325;
    for (; *text; text++) value = (value ^ (unsigned char)*text) * 0x100000001b3;
    return value;
}

// The name of a key's file: its letters and digits, then its hash, as other characters may not occur in names.
static HloStatus path_of(const TransportDirectory *directory, const char *key, char path[PATH_BYTES]) {
    char letters[40];
    size_t length = 0;
    for (const char *at = key; *at && length < sizeof(letters) - 1; at++) {
        const bool plain = (*at >= '0' && *at <= '9') || (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z');
        letters[length++] = plain ? *at : '-';
    }
    letters[length] = 0;
    const int size =
        snprintf(path, PATH_BYTES, "%s/%s.%016llx", directory->path, letters, (unsigned long long)hash(key));
    HLO_FAIL_IF(size < 0 || size >= PATH_BYTES, HLO_INVALID_ARGUMENT, "the path of %s is too long", directory->path);
    return HLO_SUCCESS;
}

static HloStatus put(void *context, const char *key, const char *value, int64_t bytes) {
    TransportDirectory *directory = context;
    char path[PATH_BYTES], scratch[PATH_BYTES + 32];
    HLO_TRY(path_of(directory, key, path));
    snprintf(scratch, sizeof(scratch), "%s.%ld", path, (long)getpid());
    const int file = open(scratch, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    HLO_FAIL_IF(file < 0, HLO_UNAVAILABLE, "%s: %s", scratch, strerror(errno));
    int64_t done = 0;
    while (done < bytes) {
        const ssize_t written = write(file, value + done, (size_t)(bytes - done));
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) break;
        done += written;
    }
    int error = done < bytes ? errno : 0;
    if (close(file) && !error) error = errno;
    if (!error && link(scratch, path)) error = errno;
    unlink(scratch);
    HLO_FAIL_IF(error == EEXIST, HLO_ALREADY_EXISTS, "%s exists: another process has put '%s'", path, key);
    HLO_FAIL_IF(error, HLO_UNAVAILABLE, "%s: %s", path, strerror(error));
    hlo_text_append(&directory->keys, path, strlen(path) + 1);
    return HLO_SUCCESS;
}

// Reads a whole file; UNAVAILABLE with *missing if it is not there.
static HloStatus read_file(const char *path, char **value, int64_t *bytes, bool *missing) {
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    *missing = file < 0 && errno == ENOENT;
    HLO_FAIL_IF(file < 0, HLO_UNAVAILABLE, "%s: %s", path, strerror(errno));
    struct stat status;
    const bool fits = fstat(file, &status) == 0 && status.st_size <= MAXIMUM_VALUE_BYTES;
    char *data = fits ? hlo_allocate((size_t)status.st_size + 1) : NULL;
    ssize_t size = data ? read(file, data, (size_t)status.st_size) : -1;
    close(file);
    if (size < 0 || size != status.st_size) {
        hlo_free(data);
        return hlo_error(fits && !data ? HLO_RESOURCE_EXHAUSTED : HLO_DATA_LOSS, "%s cannot be read", path);
    }
    data[size] = 0;
    *value = data;
    *bytes = size;
    return HLO_SUCCESS;
}

static HloStatus get(void *context, const char *key, double timeout_seconds, char **value, int64_t *bytes) {
    const TransportDirectory *directory = context;
    const double end = 1e-9 * (double)hlo_clock_nanoseconds() + timeout_seconds;
    char path[PATH_BYTES];
    HLO_TRY(path_of(directory, key, path));
    for (;;) {
        bool missing;
        HloStatus status = read_file(path, value, bytes, &missing);
        if (!status || !missing) return status;
        hlo_status_free(status);
        HLO_FAIL_IF(1e-9 * (double)hlo_clock_nanoseconds() >= end, HLO_DEADLINE_EXCEEDED,
                    "no process has put '%s' into %s within %g seconds", key, directory->path, timeout_seconds);
        nanosleep(&(struct timespec){.tv_nsec = POLL_NANOSECONDS}, NULL);
    }
}

static HloStatus make_directory(const char *path) {
    struct stat status;
    HLO_FAIL_IF(mkdir(path, 0700) && errno != EEXIST, HLO_UNAVAILABLE, "%s: %s", path, strerror(errno));
    HLO_FAIL_IF(lstat(path, &status), HLO_UNAVAILABLE, "%s: %s", path, strerror(errno));
    HLO_FAIL_IF(!S_ISDIR(status.st_mode) || status.st_uid != geteuid() || (status.st_mode & 077), HLO_PERMISSION_DENIED,
                "%s is not a directory of this user's alone", path);
    return HLO_SUCCESS;
}

HloStatus transport_directory_open(const char *job, TransportDirectory **result) {
    const char *runtime = getenv("XDG_RUNTIME_DIR"), *temporary = getenv("TMPDIR");
    const bool has_runtime = runtime && *runtime == '/' && access(runtime, W_OK) == 0;
    const char *parent = has_runtime ? runtime : temporary && *temporary == '/' ? temporary : "/tmp";
    TransportDirectory *directory = hlo_allocate_zeroed(1, sizeof(*directory));
    HLO_FAIL_IF(!directory, HLO_RESOURCE_EXHAUSTED, "out of memory");
    const int size = snprintf(directory->path, sizeof(directory->path), "%s/meshlo-%ld-%016llx", parent,
                              (long)geteuid(), (unsigned long long)hash(job));
    HloStatus status = size < 0 || size >= (int)sizeof(directory->path)
                           ? hlo_error(HLO_INVALID_ARGUMENT, "%s: the path is too long", parent)
                           : make_directory(directory->path);
    if (status) {
        hlo_free(directory);
        return status;
    }
    directory->store = (TransportStore){put, get, directory};
    *result = directory;
    return HLO_SUCCESS;
}

const TransportStore *transport_directory_store(TransportDirectory *directory) {
    return &directory->store;
}

void transport_directory_close(TransportDirectory *directory) {
    if (!directory) return;
    const HloText *keys = &directory->keys;
    for (size_t at = 0; keys->data && at < keys->length; at += strlen(keys->data + at) + 1) unlink(keys->data + at);
    rmdir(directory->path);  // the last process succeeds
    hlo_text_free(&directory->keys);
    hlo_free(directory);
}
