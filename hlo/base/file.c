// SPDX-License-Identifier: Apache-2.0
// Reading: the raw bytes are read first, then expanded by one of three libraries in a common loop: each codec is a
// function that consumes the rest of the input and fills the free output. Writing uses a temporary name in the same
// folder, which is then renamed to the file's: readers see the old content or the new, never a part. Files that cannot
// be replaced by a rename (standard output, devices, pipes) are written in place. Signals that end the process are
// delayed until the temporary file has become the file or is removed; only SIGKILL leaves one.
#include "hlo/base/file.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <lzma.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "hlo/base/printable.h"

// Converts the system's errno to a status that names the file.
static HloStatus system_error(const char *verb, const char *path, int number) {
    HloCode code = HLO_UNKNOWN;
    switch (number) {
        case ENOENT:
        case ENOTDIR: code = HLO_NOT_FOUND; break;
        case EINTR: code = HLO_CANCELLED; break;
        case EACCES:
        case EPERM:
        case EROFS: code = HLO_PERMISSION_DENIED; break;
        case ENOSPC:
        case EDQUOT:
        case EFBIG:
        case ENOMEM: code = HLO_RESOURCE_EXHAUSTED; break;
        default: break;
    }
    HloText name = {0};  // a path may contain newlines, and commands for a terminal
    hlo_text_printable(&name, path, strlen(path), false);
    const HloStatus status = hlo_error(code, "cannot %s %s: %s", verb, name.data ? name.data : "", strerror(number));
    hlo_text_free(&name);
    return status;
}

// The buffer size for a file of at most `limit` bytes: one byte more, to detect a file that is longer.
static size_t with_one_more(size_t limit) {
    return limit == SIZE_MAX ? limit - 1 : limit + 1;
}

// Makes room for `more` bytes and a NUL, but never for more than a file of `limit` bytes needs.
static HloStatus reserve(const char *name, HloFileContent *content, size_t *capacity, size_t more, size_t limit) {
    const size_t allowed = with_one_more(limit);
    HLO_FAIL_IF(content->size >= allowed, HLO_RESOURCE_EXHAUSTED, "%s: larger than the limit of %zu bytes", name,
                limit);
    if (content->size + more + 1 <= *capacity) return HLO_SUCCESS;
    size_t wanted = content->size + (content->size / 2 > more ? content->size / 2 : more);
    if (wanted > allowed) wanted = allowed;
    char *grown = hlo_reallocate(content->data, wanted + 1);
    HLO_FAIL_IF(!grown, HLO_RESOURCE_EXHAUSTED, "%s: out of memory (%zu bytes)", name, wanted);
    content->data = grown;
    *capacity = wanted + 1;
    return HLO_SUCCESS;
}

// Reads until the end whatever the reported size, since sizes of pipes and of /proc are not known.
static HloStatus read_descriptor(const char *name, int descriptor, size_t limit, HloFileContent *content) {
    struct stat info;
    size_t capacity = 0;
    size_t expected = fstat(descriptor, &info) == 0 && S_ISREG(info.st_mode) ? (size_t)info.st_size + 1 : 1 << 16;
    for (;;) {
        HLO_TRY(reserve(name, content, &capacity, content->size ? 1 << 16 : expected, limit));
        ssize_t got = read(descriptor, content->data + content->size, capacity - 1 - content->size);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return system_error("read", name, errno);
        if (got == 0) break;
        content->size += (size_t)got;
    }
    assert(content->size <= limit); /* else reserve() has failed */
    content->data[content->size] = 0;
    return HLO_SUCCESS;
}

// The state that a codec advances: the rest of the input, and the free output.
typedef struct Stream {
    const uint8_t *in;
    size_t in_left;
    uint8_t *out;
    size_t out_left;
} Stream;

// The result of a step of a codec: more to do, the end of all input, or an error.
typedef enum Progress { PROGRESS_MORE, PROGRESS_END, PROGRESS_DAMAGED, PROGRESS_NO_MEMORY } Progress;

// A format. `open` creates a state, which `close` frees even if `open` failed halfway.
typedef struct Codec {
    const char *name;
    uint8_t magic[6];
    size_t magic_size;
    Progress (*open)(void **state);
    Progress (*step)(void *state, Stream *stream);
    void (*close)(void *state);
} Codec;

static Progress xz_open(void **state) {
    lzma_stream *stream = hlo_allocate_zeroed(1, sizeof *stream);
    if (!stream) return PROGRESS_NO_MEMORY;
    *state = stream;
    return lzma_stream_decoder(stream, UINT64_C(1) << 30, LZMA_CONCATENATED) == LZMA_OK ? PROGRESS_MORE
                                                                                        : PROGRESS_NO_MEMORY;
}

// Hostile dictionaries reach the memory limit of the decoder (1 GiB, xz_open()) before ours.
static Progress xz_step(void *state, Stream *stream) {
    lzma_stream *lzma = state;
    lzma->next_in = stream->in;
    lzma->avail_in = stream->in_left;
    lzma->next_out = stream->out;
    lzma->avail_out = stream->out_left;
    lzma_ret result = lzma_code(lzma, LZMA_FINISH);
    stream->in = lzma->next_in;
    stream->in_left = lzma->avail_in;
    stream->out = lzma->next_out;
    stream->out_left = lzma->avail_out;
    if (result == LZMA_STREAM_END) return PROGRESS_END;
    if (result == LZMA_OK) return PROGRESS_MORE;
    return result == LZMA_MEM_ERROR || result == LZMA_MEMLIMIT_ERROR ? PROGRESS_NO_MEMORY : PROGRESS_DAMAGED;
}

static void xz_close(void *state) {
    lzma_end(state);
    hlo_free(state);
}

static Progress gzip_open(void **state) {
    z_stream *stream = hlo_allocate_zeroed(1, sizeof *stream);
    if (!stream) return PROGRESS_NO_MEMORY;
    *state = stream;
    return inflateInit2(stream, 15 + 16) == Z_OK ? PROGRESS_MORE : PROGRESS_NO_MEMORY;  // 16: gzip headers only
}

// A file may consist of several members (RFC 1952, 2.2).
static Progress gzip_step(void *state, Stream *stream) {
    z_stream *zlib = state;
    zlib->next_in = (Bytef *)stream->in;
    zlib->avail_in = stream->in_left > UINT_MAX ? UINT_MAX : (uInt)stream->in_left;
    zlib->next_out = stream->out;
    zlib->avail_out = stream->out_left > UINT_MAX ? UINT_MAX : (uInt)stream->out_left;
    int result = inflate(zlib, Z_NO_FLUSH);
    stream->in_left -= (size_t)(zlib->next_in - stream->in);
    stream->in = zlib->next_in;
    stream->out_left -= (size_t)(zlib->next_out - stream->out);
    stream->out = zlib->next_out;
    if (result == Z_MEM_ERROR) return PROGRESS_NO_MEMORY;
    if (result == Z_STREAM_END) {
        if (stream->in_left == 0) return PROGRESS_END;
        return inflateReset(zlib) == Z_OK ? PROGRESS_MORE : PROGRESS_DAMAGED;  // another member follows
    }
    return result == Z_OK && (stream->in_left > 0 || stream->out_left == 0) ? PROGRESS_MORE : PROGRESS_DAMAGED;
}

static void gzip_close(void *state) {
    inflateEnd(state);
    hlo_free(state);
}

static Progress zstd_open(void **state) {
    *state = ZSTD_createDStream();
    return *state ? PROGRESS_MORE : PROGRESS_NO_MEMORY;
}

// A file may consist of several frames. The decoder refuses windows beyond 128 MiB, its default.
static Progress zstd_step(void *state, Stream *stream) {
    ZSTD_inBuffer in = {stream->in, stream->in_left, 0};
    ZSTD_outBuffer out = {stream->out, stream->out_left, 0};
    size_t result = ZSTD_decompressStream(state, &out, &in);
    const ZSTD_ErrorCode error = ZSTD_getErrorCode(result);
    if (error == ZSTD_error_frameParameter_windowTooLarge || error == ZSTD_error_memory_allocation)
        return PROGRESS_NO_MEMORY;
    if (error) return PROGRESS_DAMAGED;
    stream->in += in.pos;
    stream->in_left -= in.pos;
    stream->out += out.pos;
    stream->out_left -= out.pos;
    if (result == 0 && stream->in_left == 0) return PROGRESS_END;
    return stream->in_left == 0 && stream->out_left > 0 ? PROGRESS_DAMAGED : PROGRESS_MORE;
}

static void zstd_close(void *state) {
    ZSTD_freeDStream(state);
}

static const Codec codecs[] = {
    {"xz", {0xFD, '7', 'z', 'X', 'Z', 0}, 6, xz_open, xz_step, xz_close},
    {"gzip", {0x1F, 0x8B, 8}, 3, gzip_open, gzip_step, gzip_close},
    {"zstd", {0x28, 0xB5, 0x2F, 0xFD}, 4, zstd_open, zstd_step, zstd_close},
};

// Finds the codec by the first bytes; NULL if the file is not compressed.
static const Codec *find_codec(const void *data, size_t size) {
    assert(data || size == 0);
    for (size_t i = 0; i < HLO_COUNT_OF(codecs); ++i) {
        if (size >= codecs[i].magic_size && memcmp(data, codecs[i].magic, codecs[i].magic_size) == 0) {
            return &codecs[i];
        }
    }
    return NULL;
}

// Expansion stops after `limit`, so that a small file cannot fill the memory.
static HloStatus expand_loop(const char *name, const Codec *codec, void *state, Stream *stream, size_t limit,
                             HloFileContent *content) {
    assert(codec && state && content->size == 0);
    size_t capacity = 0;
    for (;;) {
        HLO_TRY(reserve(name, content, &capacity, stream->in_left * 4 + (1 << 16), limit));
        stream->out = (uint8_t *)content->data + content->size;
        stream->out_left = capacity - 1 - content->size;
        size_t room = stream->out_left;
        Progress step = codec->step(state, stream);
        content->size += room - stream->out_left;
        HLO_FAIL_IF(step == PROGRESS_DAMAGED, HLO_DATA_LOSS, "%s: the %s stream is damaged or cut off", name,
                    codec->name);
        HLO_FAIL_IF(step == PROGRESS_NO_MEMORY, HLO_RESOURCE_EXHAUSTED,
                    "%s: the %s stream needs more memory than the limit", name, codec->name);
        if (step == PROGRESS_END) break;
    }
    HLO_FAIL_IF(content->size > limit, HLO_RESOURCE_EXHAUSTED, "%s: larger than the limit of %zu bytes", name, limit);
    content->data[content->size] = 0;
    return HLO_SUCCESS;
}

static HloStatus copy_plain(const char *name, const void *data, size_t size, size_t limit, HloFileContent *content) {
    HLO_FAIL_IF(size > limit, HLO_RESOURCE_EXHAUSTED, "%s: larger than the limit of %zu bytes", name, limit);
    content->data = hlo_allocate(size + 1);
    HLO_FAIL_IF(!content->data, HLO_RESOURCE_EXHAUSTED, "%s: out of memory (%zu bytes)", name, size);
    if (size) memcpy(content->data, data, size);
    content->data[size] = 0;
    content->size = size;
    return HLO_SUCCESS;
}

HloStatus hlo_file_expand(const char *name, const void *data, size_t size, size_t limit, HloFileContent *content) {
    assert(name && content);
    assert(data || size == 0);
    *content = (HloFileContent){0};
    const Codec *codec = find_codec(data, size);
    if (!codec) return copy_plain(name, data, size, limit, content);
    void *state = NULL;
    Stream stream = {.in = data, .in_left = size};
    Progress opened = codec->open(&state);
    HloStatus status = opened == PROGRESS_MORE
                           ? expand_loop(name, codec, state, &stream, limit, content)
                           : hlo_error(HLO_RESOURCE_EXHAUSTED, "%s: out of memory for %s", name, codec->name);
    if (state) codec->close(state);
    if (status) hlo_file_content_free(content);
    return status;
}

// Reads the whole file, then expands it if it begins like a compressed one. Both sizes are limited: a few bytes may
// expand to any size.
HloStatus hlo_file_read(const char *path, size_t limit, HloFileContent *content) {
    assert(path && content);
    *content = (HloFileContent){0};
    bool standard_input = strcmp(path, "-") == 0;
    const char *name = standard_input ? "<stdin>" : path;
    int descriptor = standard_input ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return system_error("open", path, errno);
    HloFileContent raw = {0};
    HloStatus status = read_descriptor(name, descriptor, limit, &raw);
    if (!standard_input) close(descriptor);
    if (status) {
        hlo_file_content_free(&raw);
        return status;
    }
    if (!find_codec(raw.data, raw.size)) {
        *content = raw;
        return HLO_SUCCESS;
    }
    status = hlo_file_expand(name, raw.data, raw.size, limit, content);
    hlo_file_content_free(&raw);
    return status;
}

void hlo_file_content_free(HloFileContent *content) {
    hlo_free(content->data);
    *content = (HloFileContent){0};
}

// ---- writing

// Signals that may end the process while a file is written, and two that writing itself raises.
static const int ending_signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGALRM, SIGXCPU, SIGUSR1, SIGUSR2};
static const int writing_signals[] = {SIGXFSZ, SIGPIPE};

// The calling thread's signals while a file is written. Signals that would end the process, because they are neither
// handled nor ignored, are delayed until its temporary file is gone; signals that a write raises are errors of that
// write, however the host program treats them elsewhere.
typedef struct Quiet {
    sigset_t before, blocked;  // the thread's mask, and the signals added to it
    sigset_t waiting;          // signals that were already pending
} Quiet;

static void begin_quiet(Quiet *quiet) {
    sigemptyset(&quiet->blocked);
    for (size_t i = 0; i < HLO_COUNT_OF(ending_signals); i++) {
        struct sigaction action;
        if (sigaction(ending_signals[i], NULL, &action) == 0 && action.sa_handler == SIG_DFL)
            sigaddset(&quiet->blocked, ending_signals[i]);
    }
    for (size_t i = 0; i < HLO_COUNT_OF(writing_signals); i++) sigaddset(&quiet->blocked, writing_signals[i]);
    pthread_sigmask(SIG_BLOCK, &quiet->blocked, &quiet->before);
    sigpending(&quiet->waiting);
}

// Consumes the signals that our writes have raised, and unblocks the others.
static void end_quiet(const Quiet *quiet) {
    static const struct timespec no_time = {0};
    sigset_t raised;
    sigemptyset(&raised);
    for (size_t i = 0; i < HLO_COUNT_OF(writing_signals); i++)
        if (sigismember(&quiet->waiting, writing_signals[i]) == 0) sigaddset(&raised, writing_signals[i]);
    while (sigtimedwait(&raised, NULL, &no_time) > 0) continue;
    pthread_sigmask(SIG_SETMASK, &quiet->before, NULL);
}

// True if a signal is pending that the thread would otherwise have received by now.
static bool is_interrupted(const Quiet *quiet) {
    sigset_t pending;
    if (sigpending(&pending) != 0) return false;
    for (size_t i = 0; i < HLO_COUNT_OF(ending_signals); i++)
        if (sigismember(&pending, ending_signals[i]) == 1 && sigismember(&quiet->blocked, ending_signals[i]) == 1 &&
            sigismember(&quiet->before, ending_signals[i]) == 0)
            return true;
    return false;
}

// Writes everything; returns 0 or an errno. With `quiet`, a pending signal ends it after at most one block (EINTR).
static int write_all(int descriptor, const HloFilePiece *pieces, int64_t count, const Quiet *quiet) {
    enum { kBlock = 4 << 20 };
    assert(count >= 0);
    for (int64_t i = 0; i < count; ++i) {
        const char *data = pieces[i].data;
        size_t left = pieces[i].size;
        while (left > 0) {
            if (quiet && is_interrupted(quiet)) return EINTR;
            ssize_t written = write(descriptor, data, left < kBlock ? left : kBlock);
            if (written < 0 && errno == EINTR) continue;
            if (written < 0) return errno;
            data += written;
            left -= (size_t)written;
        }
    }
    return 0;
}

// A file that is being replaced: its folder, and its names there. A path relative to an open folder has room for any
// name, and stays valid if the folder is moved.
typedef struct Target {
    int folder;
    const char *name;
    char temporary[64];
} Target;

// Opens the folder of a path; -1 with errno if that fails.
static int open_folder_of(const char *path, const char **name) {
    const char *slash = strrchr(path, '/');
    *name = slash ? slash + 1 : path;
    if (!slash) return open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    char *folder = hlo_allocate((size_t)(slash - path) + 2);
    if (!folder) {
        errno = ENOMEM;
        return -1;
    }
    const size_t length = slash == path ? 1 : (size_t)(slash - path);
    memcpy(folder, path, length);
    folder[length] = 0;
    const int descriptor = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    const int failure = errno;
    hlo_free(folder);
    errno = failure;
    return descriptor;
}

// Opens a new file in the target's folder under a short generated name, since the file's name may have the maximum
// length, with these permissions or, because of the umask, fewer. -1 with errno if that fails.
static int open_temporary(Target *target, mode_t mode) {
    for (int attempt = 0; attempt < 100; ++attempt) {
        snprintf(target->temporary, sizeof target->temporary, ".meshlo-tmp-%ld-%d", (long)getpid(), attempt);
        int descriptor = openat(target->folder, target->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
        if (descriptor >= 0 || errno != EEXIST) return descriptor;
    }
    return -1;
}

// Gives the new file the permissions of the old one and, if allowed, its owner. Returns 0 or an errno. Where
// permissions cannot be changed (file systems without them, sandboxes), the new file may have fewer, but not more.
static int keep_permissions(int descriptor, const struct stat *old) {
    struct stat made;
    const bool owned = fchown(descriptor, old->st_uid, old->st_gid) == 0;
    // A setuid program must not become that of another owner.
    const mode_t mode = old->st_mode & (owned ? 07777 : 0777);
    if (fstat(descriptor, &made) == 0 && (made.st_mode & 07777) == mode) return 0;
    if (fchmod(descriptor, mode) == 0) return 0;
    const int failure = errno;
    return fstat(descriptor, &made) == 0 && (made.st_mode & 07777 & ~mode) == 0 ? 0 : failure;
}

// Replaces the target. Returns 0 or an errno; on an error no temporary file remains.
static int replace_target(Target *target, const struct stat *old, const HloFilePiece *pieces, int64_t count) {
    Quiet quiet;
    begin_quiet(&quiet);
    const int descriptor = open_temporary(target, old ? old->st_mode & 0777 : 0666);
    int failure = descriptor < 0 ? errno : 0;
    if (!failure && old) failure = keep_permissions(descriptor, old);
    if (!failure) failure = write_all(descriptor, pieces, count, &quiet);
    if (descriptor >= 0 && close(descriptor) != 0 && !failure) failure = errno;
    if (!failure && renameat(target->folder, target->temporary, target->folder, target->name) != 0) failure = errno;
    if (failure && descriptor >= 0) unlinkat(target->folder, target->temporary, 0);
    end_quiet(&quiet);
    return failure;
}

// `old` is the file at `path`, or NULL: the new file is readable by those who may read the old one. If the old file is
// not writable, the new one is refused, as if it were written in place. `given` is the path for messages.
static HloStatus write_and_rename(const char *given, const char *path, const struct stat *old,
                                  const HloFilePiece *pieces, int64_t count) {
    Target target = {.folder = -1};
    if (old && faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) != 0) return system_error("write", given, errno);
    target.folder = open_folder_of(path, &target.name);
    if (target.folder < 0) return system_error("write", given, errno);
    const int failure = *target.name ? replace_target(&target, old, pieces, count) : EISDIR;
    close(target.folder);
    return failure ? system_error("write", given, failure) : HLO_SUCCESS;
}

// Writes to a descriptor that stays open, or, for -1, to the device or pipe at `path`.
static HloStatus write_in_place(const char *path, int kept, const HloFilePiece *pieces, int64_t count) {
    Quiet quiet;
    int descriptor = kept >= 0 ? kept : open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    if (descriptor < 0) return system_error("write", path, errno);
    begin_quiet(&quiet);
    int failure = write_all(descriptor, pieces, count, NULL);
    end_quiet(&quiet);
    if (kept < 0 && close(descriptor) != 0 && !failure) failure = errno;
    return failure ? system_error("write", strcmp(path, "-") ? path : "<stdout>", failure) : HLO_SUCCESS;
}

// The descriptor that a path names, like /dev/stdout and /dev/fd/3; -1 for other paths. Opening one of these paths
// again would begin at the start of the file to which a shell appends.
static int named_descriptor(const char *path) {
    static const char *const folders[] = {"/dev/fd/", "/proc/self/fd/"};
    if (strcmp(path, "-") == 0 || strcmp(path, "/dev/stdout") == 0) return STDOUT_FILENO;
    if (strcmp(path, "/dev/stderr") == 0) return STDERR_FILENO;
    for (size_t i = 0; i < HLO_COUNT_OF(folders); i++) {
        const size_t length = strlen(folders[i]);
        const char *digits = path + length;
        if (strncmp(path, folders[i], length) != 0 || strspn(digits, "0123456789") != strlen(digits)) continue;
        if (*digits && strlen(digits) < 9) return atoi(digits);
    }
    return -1;
}

// Follows symbolic links, the last of which is dangling, and stores the path that it points to in `target`. Returns 0
// or an errno. The links are read one after the other, since realpath() requires that the file exists.
static int follow_links(const char *path, char target[PATH_MAX]) {
    enum { kMostLinks = 40 };  // the kernel's limit
    if (strlen(path) >= PATH_MAX) return ENAMETOOLONG;
    strcpy(target, path);
    for (int i = 0; i < kMostLinks; i++) {
        char link[PATH_MAX], joined[2 * PATH_MAX];
        const ssize_t length = readlink(target, link, sizeof link - 1);
        if (length < 0) return errno == EINVAL || errno == ENOENT ? 0 : errno;
        link[length] = 0;
        const char *slash = link[0] == '/' ? NULL : strrchr(target, '/');
        snprintf(joined, sizeof joined, "%.*s%s", slash ? (int)(slash - target) + 1 : 0, target, link);
        if (strlen(joined) >= PATH_MAX) return ENAMETOOLONG;
        strcpy(target, joined);
    }
    return ELOOP;
}

HloStatus hlo_file_write_pieces(const char *path, const HloFilePiece *pieces, int64_t count) {
    assert(path && count >= 0);
    struct stat info;
    char target[PATH_MAX];
    const int descriptor = named_descriptor(path);
    if (descriptor >= 0) return write_in_place(path, descriptor, pieces, count);
    if (!*path) return system_error("write", "''", ENOENT);
    if (stat(path, &info) != 0) {
        const int failure = errno == ENOENT ? follow_links(path, target) : errno;
        if (failure) return system_error("write", path, failure);
        return write_and_rename(path, target, NULL, pieces, count);
    }
    if (S_ISDIR(info.st_mode)) return system_error("write", path, EISDIR);
    if (!S_ISREG(info.st_mode)) return write_in_place(path, -1, pieces, count);
    // The target of a symbolic link is replaced, not the link.
    return write_and_rename(path, realpath(path, target) ? target : path, &info, pieces, count);
}

// Returns why a file cannot be made in the folder of `path` or replace one there, as an errno, or 0.
static int check_folder_of(const char *path) {
    const char *name;
    const int folder = open_folder_of(path, &name);
    if (folder < 0) return errno;
    const int failure = !*name ? EISDIR : faccessat(folder, ".", W_OK | X_OK, AT_EACCESS) != 0 ? errno : 0;
    close(folder);
    return failure;
}

HloStatus hlo_file_check_writable(const char *path) {
    assert(path);
    struct stat info;
    char target[PATH_MAX];
    int failure = 0;
    if (named_descriptor(path) >= 0) return HLO_SUCCESS;
    if (!*path) return system_error("write", "''", ENOENT);
    if (stat(path, &info) != 0) {
        failure = errno == ENOENT ? follow_links(path, target) : errno;
        if (!failure) failure = check_folder_of(target);
    } else if (S_ISDIR(info.st_mode)) {
        failure = EISDIR;
    } else if (faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) != 0) {
        failure = errno;
    } else if (S_ISREG(info.st_mode)) {
        failure = check_folder_of(realpath(path, target) ? target : path);
    }
    return failure ? system_error("write", path, failure) : HLO_SUCCESS;
}

void hlo_file_name_part(HloText *text, const char *name) {
    enum { kMostBytes = 128 };
    for (size_t i = 0; name[i] && i < kMostBytes; i++) {
        const unsigned char c = (unsigned char)name[i];
        hlo_text_char(text, c < ' ' || c == 127 || strchr("/\\[] ", c) ? '_' : (char)c);
    }
}

HloStatus hlo_file_write(const char *path, const void *data, size_t size) {
    HloFilePiece piece = {data, size};
    return hlo_file_write_pieces(path, &piece, 1);
}

HloStatus hlo_file_make_folder(const char *path) {
    assert(path);
    char part[PATH_MAX];
    size_t length = strlen(path);
    HLO_FAIL_IF(length == 0 || length >= sizeof part, HLO_INVALID_ARGUMENT, "bad folder name '%s'", path);
    for (size_t i = 1; i <= length; ++i) {
        if (path[i] != '/' && path[i] != 0) continue;
        memcpy(part, path, i);
        part[i] = 0;
        if (mkdir(part, 0777) != 0 && errno != EEXIST) return system_error("make the folder", part, errno);
    }
    struct stat info;
    if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode)) return system_error("make the folder", path, ENOTDIR);
    return HLO_SUCCESS;
}
