// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <lzma.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "hlo/base/file.h"
#include "tests/support/refuse.h"

enum { kPlainSize = 300000 };

typedef struct Fixture {
    char folder[64];
    char path[128];
    char *plain;  // kPlainSize bytes
} Fixture;

static Fixture make_fixture(void) {
    Fixture fixture = {.folder = "/tmp/meshlo-file-XXXXXX", .plain = malloc(kPlainSize)};
    cr_assert_not_null(mkdtemp(fixture.folder));
    snprintf(fixture.path, sizeof fixture.path, "%s/f", fixture.folder);
    for (int i = 0; i < kPlainSize; ++i) fixture.plain[i] = (char)(i % 1000 * i / 7);
    return fixture;
}

static void drop_fixture(Fixture *fixture) {
    unlink(fixture->path);
    cr_assert_eq(rmdir(fixture->folder), 0, "files were left behind");
    free(fixture->plain);
}

static size_t compress_xz(const char *plain, uint8_t *out, size_t room) {
    size_t size = 0;
    cr_assert_eq(
        lzma_easy_buffer_encode(1, LZMA_CHECK_CRC32, NULL, (const uint8_t *)plain, kPlainSize, out, &size, room),
        LZMA_OK);
    return size;
}

static size_t compress_gzip(const char *plain, uint8_t *out, size_t room) {
    z_stream stream = {.next_in = (Bytef *)plain, .avail_in = kPlainSize, .next_out = out, .avail_out = (uInt)room};
    deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
    cr_assert_eq(deflate(&stream, Z_FINISH), Z_STREAM_END);
    size_t size = room - stream.avail_out;
    deflateEnd(&stream);
    return size;
}

static size_t compress_zstd(const char *plain, uint8_t *out, size_t room) {
    return ZSTD_compress(out, room, plain, kPlainSize, 3);
}

typedef size_t Compress(const char *plain, uint8_t *out, size_t room);
static Compress *const kCompress[] = {compress_xz, compress_gzip, compress_zstd};

Test(base_file, expands_every_format_also_concatenated) {
    Fixture fixture = make_fixture();
    uint8_t *packed = malloc(2 * kPlainSize);
    for (size_t i = 0; i < HLO_COUNT_OF(kCompress); ++i) {
        size_t size = kCompress[i](fixture.plain, packed, kPlainSize);
        memcpy(packed + size, packed, size);
        cr_assert_null(hlo_file_write(fixture.path, packed, 2 * size));
        HloFileContent content;
        cr_assert_null(hlo_file_read(fixture.path, SIZE_MAX, &content));
        cr_assert_eq(content.size, 2 * kPlainSize);
        cr_assert_eq(memcmp(content.data, fixture.plain, kPlainSize), 0);
        cr_assert_eq(memcmp(content.data + kPlainSize, fixture.plain, kPlainSize), 0);
        cr_assert_eq(content.data[content.size], 0);
        hlo_file_content_free(&content);
    }
    free(packed);
    drop_fixture(&fixture);
}

Test(base_file, refuses_damaged_and_truncated_streams) {
    Fixture fixture = make_fixture();
    uint8_t *packed = malloc(kPlainSize);
    for (size_t i = 0; i < HLO_COUNT_OF(kCompress); ++i) {
        size_t size = kCompress[i](fixture.plain, packed, kPlainSize);
        HloFileContent content;
        HloStatus cut = hlo_file_expand("cut", packed, size - 5, SIZE_MAX, &content);
        cr_assert_eq(hlo_status_code(cut), HLO_DATA_LOSS, "codec %zu", i);
        cr_assert_null(content.data);
        hlo_status_free(cut);
        packed[size / 2] ^= 0x55;
        packed[size / 2 + 1] ^= 0xAA;
        HloStatus damaged = hlo_file_expand("damaged", packed, size, SIZE_MAX, &content);
        if (damaged) cr_assert_eq(hlo_status_code(damaged), HLO_DATA_LOSS);
        hlo_status_free(damaged);
        hlo_file_content_free(&content);
    }
    free(packed);
    drop_fixture(&fixture);
}

Test(base_file, holds_the_limit_on_expansion) {
    Fixture fixture = make_fixture();
    uint8_t *packed = malloc(kPlainSize);
    for (size_t i = 0; i < HLO_COUNT_OF(kCompress); ++i) {
        size_t size = kCompress[i](fixture.plain, packed, kPlainSize);
        HloFileContent content;
        HloStatus status = hlo_file_expand("bomb", packed, size, kPlainSize - 1, &content);
        cr_assert_eq(hlo_status_code(status), HLO_RESOURCE_EXHAUSTED);
        hlo_status_free(status);
        cr_assert_null(hlo_file_expand("exactly", packed, size, kPlainSize, &content));
        cr_assert_eq(content.size, kPlainSize);
        hlo_file_content_free(&content);
    }
    cr_assert_null(hlo_file_write(fixture.path, fixture.plain, kPlainSize));
    HloFileContent content;
    cr_assert_null(hlo_file_read(fixture.path, kPlainSize, &content));
    hlo_file_content_free(&content);
    HloStatus status = hlo_file_read(fixture.path, kPlainSize - 1, &content);
    cr_assert_eq(hlo_status_code(status), HLO_RESOURCE_EXHAUSTED);
    hlo_status_free(status);
    free(packed);
    drop_fixture(&fixture);
}

Test(base_file, names_the_reason_when_a_file_cannot_be_opened) {
    HloFileContent content;
    HloStatus status = hlo_file_read("/nonexistent/x", SIZE_MAX, &content);
    cr_assert_eq(hlo_status_code(status), HLO_NOT_FOUND);
    cr_assert(strstr(hlo_status_message(status), "/nonexistent/x: No such file"));
    hlo_status_free(status);
    status = hlo_file_read("/tmp", SIZE_MAX, &content);
    cr_assert_not_null(status);
    hlo_status_free(status);
    status = hlo_file_write("/nonexistent/x", "a", 1);
    cr_assert_eq(hlo_status_code(status), HLO_NOT_FOUND);
    hlo_status_free(status);
    status = hlo_file_write("/dev/full", "a", 1);
    cr_assert_eq(hlo_status_code(status), HLO_RESOURCE_EXHAUSTED);
    hlo_status_free(status);
}

// Files that a decoder would need gigabytes for say so, and are not called damaged: xz with a dictionary of 2 GiB,
// whose header says 12 KiB until it is changed, and a zstd frame with a window of 2 GiB.
Test(base_file, refuses_streams_that_want_gigabytes) {
    enum { HEADER = 12, DICTIONARY = HEADER + 6, TWO_GIBIBYTES = 38 };
    uint8_t xz[256] = {0};
    size_t xz_size = 0;
    lzma_options_lzma lzma;
    cr_assert_not(lzma_lzma_preset(&lzma, 0));
    lzma.dict_size = 12 << 10;
    const lzma_filter filters[] = {{LZMA_FILTER_LZMA2, &lzma}, {LZMA_VLI_UNKNOWN, NULL}};
    cr_assert_eq(lzma_stream_buffer_encode((lzma_filter *)filters, LZMA_CHECK_CRC32, NULL, (const uint8_t *)"abc", 3,
                                           xz, &xz_size, sizeof xz),
                 LZMA_OK);
    const size_t block = 4 * (size_t)xz[HEADER];  // without its own checksum
    cr_assert_eq(xz[DICTIONARY - 2], LZMA_FILTER_LZMA2);
    xz[DICTIONARY] = TWO_GIBIBYTES;
    const uint32_t sum = lzma_crc32(xz + HEADER, block, 0);
    memcpy(xz + HEADER + block, &sum, sizeof sum);
    static const uint8_t zstd[] = {0x28, 0xB5, 0x2F, 0xFD, 0, 21 << 3, 9, 0, 0, 'a'};
    const struct {
        const void *data;
        size_t size;
        const char *message;
    } streams[] = {{xz, xz_size, "f: the xz stream needs more memory than the limit"},
                   {zstd, sizeof zstd, "f: the zstd stream needs more memory than the limit"}};
    for (size_t i = 0; i < HLO_COUNT_OF(streams); i++) {
        HloFileContent content;
        HloStatus status = hlo_file_expand("f", streams[i].data, streams[i].size, SIZE_MAX, &content);
        cr_expect_eq(hlo_status_code(status), HLO_RESOURCE_EXHAUSTED);
        cr_expect_str_eq(hlo_status_message(status), streams[i].message);
        cr_expect_null(content.data);
        hlo_status_free(status);
    }
}

// Every allocation fails once, with all that follow: those of the codecs, and of the copy that plain content becomes.
// The message is the one that takes no memory.
Test(base_file, survives_the_lack_of_memory) {
    Fixture fixture = make_fixture();
    uint8_t *packed = malloc(kPlainSize);
    for (size_t i = 0; i <= HLO_COUNT_OF(kCompress); ++i) {
        const bool is_plain = i == HLO_COUNT_OF(kCompress);
        const size_t size = is_plain ? kPlainSize : kCompress[i](fixture.plain, packed, kPlainSize);
        HloFileContent content;
        HloStatus status;
        int64_t failed = 0;
        do {
            hlo_allocation_fail_after(failed++);
            status = hlo_file_expand("f", is_plain ? (const void *)fixture.plain : packed, size, SIZE_MAX, &content);
            hlo_allocation_fail_after(-1);
            if (!status) break;
            cr_expect_eq(hlo_status_code(status), HLO_RESOURCE_EXHAUSTED);
            cr_expect_null(content.data);
            hlo_status_free(status);
        } while (failed < 100);
        cr_assert_null(status);
        cr_expect_gt(failed, 1, "no allocation was tried");
        cr_expect_eq(content.size, kPlainSize);
        hlo_file_content_free(&content);
    }
    free(packed);
    drop_fixture(&fixture);
}

// Plain content has the same limit as expanded content, also where the size is not known in advance.
Test(base_file, holds_the_limit_without_expansion) {
    HloFileContent content;
    HloStatus status = hlo_file_expand("plain", "12345", 5, 4, &content);
    cr_expect_eq(hlo_status_code(status), HLO_RESOURCE_EXHAUSTED);
    cr_expect_str_eq(hlo_status_message(status), "plain: larger than the limit of 4 bytes");
    cr_expect_null(content.data);
    hlo_status_free(status);
    cr_assert_null(hlo_file_expand("plain", "12345", 5, 5, &content));
    cr_expect_str_eq(content.data, "12345");
    hlo_file_content_free(&content);
    // bug: the message named one byte more than the limit where the size is not known before
    status = hlo_file_read("/proc/self/maps", 100, &content);
    cr_expect_eq(hlo_status_code(status), HLO_RESOURCE_EXHAUSTED);
    cr_expect_str_eq(hlo_status_message(status), "/proc/self/maps: larger than the limit of 100 bytes");
    hlo_status_free(status);
    status = hlo_file_read("/dev/zero", 1 << 20, &content);
    cr_expect_eq(hlo_status_code(status), HLO_RESOURCE_EXHAUSTED);
    hlo_status_free(status);
}

// A file that cannot be written is an error with its reason, and no part of it remains.
Test(base_file, names_the_reason_when_nothing_can_be_written) {
    Fixture fixture = make_fixture();
    HloStatus status = hlo_file_write(fixture.folder, "a", 1);
    cr_expect(strstr(hlo_status_message(status), "Is a directory"), "%s", hlo_status_message(status));
    hlo_status_free(status);
    char path[PATH_MAX + 2];
    snprintf(path, sizeof path, "%s/", fixture.folder);
    for (size_t end = strlen(path); end < 300; end++) path[end] = 'n', path[end + 1] = 0;
    status = hlo_file_write(path, "a", 1);  // a name longer than file systems have
    cr_expect(strstr(hlo_status_message(status), "File name too long"), "%s", hlo_status_message(status));
    hlo_status_free(status);
    cr_assert_null(hlo_file_write(fixture.path, "a", 1));
    snprintf(path, sizeof path, "%s/below", fixture.path);
    status = hlo_file_write(path, "a", 1);
    cr_expect(strstr(hlo_status_message(status), "Not a directory"), "%s", hlo_status_message(status));
    hlo_status_free(status);
    drop_fixture(&fixture);  // which fails when a temporary file is left
}

// What can be known before is what writing would say, and nothing is made or changed.
Test(base_file, tells_beforehand_what_cannot_be_written) {
    Fixture fixture = make_fixture();
    char link[160], folder[160], below[192];
    snprintf(link, sizeof link, "%s/link", fixture.folder);
    snprintf(folder, sizeof folder, "%s/folder", fixture.folder);
    snprintf(below, sizeof below, "%s/f", folder);
    cr_assert_eq(symlink("no/such/file", link), 0);
    cr_assert_eq(mkdir(folder, 0700), 0);
    const char *const paths[] = {fixture.path, "-", "/dev/null", "", "no/such/file", folder, link, below};
    for (size_t i = 0; i < HLO_COUNT_OF(paths); i++) {
        HloStatus before = hlo_file_check_writable(paths[i]);
        if (!before) cr_expect_neq(access(fixture.path, F_OK), 0, "the file was made");
        HloStatus status = strcmp(paths[i], "-") ? hlo_file_write(paths[i], "x", 1) : HLO_SUCCESS;
        cr_expect_eq(!before, !status, "%s", paths[i]);
        if (before && status) cr_expect_str_eq(hlo_status_message(before), hlo_status_message(status));
        hlo_status_free(before);
        hlo_status_free(status);
        unlink(fixture.path);
    }
    unlink(below);
    unlink(link);
    rmdir(folder);
    drop_fixture(&fixture);
}

// Neither a file that could be replaced nor something that can be written to.
Test(base_file, names_the_reason_when_a_socket_is_written_to) {
    Fixture fixture = make_fixture();
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    memcpy(name.sun_path, fixture.path, strlen(fixture.path));
    int descriptor = socket(AF_UNIX, SOCK_STREAM, 0);
    cr_assert_eq(bind(descriptor, (const struct sockaddr *)&name, sizeof name), 0);
    HloStatus status = hlo_file_write(fixture.path, "a", 1);
    cr_assert_not_null(status);
    cr_expect(strstr(hlo_status_message(status), "cannot write /tmp/meshlo-file-"), "%s", hlo_status_message(status));
    cr_expect(strstr(hlo_status_message(status), "No such device or address"), "%s", hlo_status_message(status));
    hlo_status_free(status);
    close(descriptor);
    drop_fixture(&fixture);
}

Test(base_file, folders_that_cannot_be_made) {
    char name[PATH_MAX + 1];
    memset(name, 'n', PATH_MAX);
    name[PATH_MAX] = 0;
    const struct {
        const char *path, *part;
        HloCode code;
    } folders[] = {
        {"", "bad folder name ''", HLO_INVALID_ARGUMENT},
        {name, "bad folder name 'nnn", HLO_INVALID_ARGUMENT},
        {"/dev/null", "cannot make the folder /dev/null: Not a directory", HLO_OK},
        {"/dev/null/a", "cannot make the folder /dev/null/a: Not a directory", HLO_OK},
    };
    for (size_t i = 0; i < HLO_COUNT_OF(folders); i++) {
        HloStatus status = hlo_file_make_folder(folders[i].path);
        cr_assert_not_null(status, "%s", folders[i].path);
        if (folders[i].code) cr_expect_eq(hlo_status_code(status), folders[i].code);
        cr_expect(strstr(hlo_status_message(status), folders[i].part), "%s", hlo_status_message(status));
        hlo_status_free(status);
    }
}

Test(base_file, replaces_what_a_link_points_to) {
    Fixture fixture = make_fixture();
    char link[160];
    snprintf(link, sizeof link, "%s/link", fixture.folder);
    cr_assert_null(hlo_file_write(fixture.path, "old", 3));
    cr_assert_eq(symlink("f", link), 0);
    HloFilePiece pieces[] = {{"ne", 2}, {"w", 1}};
    cr_assert_null(hlo_file_write_pieces(link, pieces, 2));
    HloFileContent content;
    cr_assert_null(hlo_file_read(fixture.path, SIZE_MAX, &content));
    cr_assert_str_eq(content.data, "new");
    hlo_file_content_free(&content);
    unlink(link);
    drop_fixture(&fixture);
}

// Sandboxes and some file systems refuse fchmod(): a replaced file may then have fewer permissions, but not more.
Test(base_file, bug_no_file_was_replaced_where_permissions_may_not_be_changed) {
    static const mode_t modes[][2] = {{0644, 0644}, {0640, 0640}, {0666, 0644}};  // before, after
    Fixture fixture = make_fixture();
    struct stat info;
    umask(022);
    cr_assert_null(hlo_file_write(fixture.path, "old", 3));
    char paths[HLO_COUNT_OF(modes)][sizeof fixture.path + 2];
    for (size_t i = 0; i < HLO_COUNT_OF(modes); i++) {
        snprintf(paths[i], sizeof paths[i], "%s%zu", fixture.path, i);
        cr_assert_null(hlo_file_write(paths[i], "old", 3));
        cr_assert_eq(chmod(paths[i], modes[i][0]), 0);
    }
    if (!refuse_call(SYS_fchmod)) cr_skip_test("no system call filters here");
    for (size_t i = 0; i < HLO_COUNT_OF(modes); i++) {
        HloStatus status = hlo_file_write(paths[i], "newer", 5);
        cr_assert_null(status, "%s", hlo_status_message(status));
        cr_assert_eq(stat(paths[i], &info), 0);
        cr_expect_eq(info.st_size, 5);
        cr_expect_eq(info.st_mode & 07777, modes[i][1], "mode %o", (unsigned)info.st_mode);
        unlink(paths[i]);
    }
    drop_fixture(&fixture);
}

// The new file was readable by all.
Test(base_file, bug_a_replaced_file_lost_its_mode) {
    Fixture fixture = make_fixture();
    cr_assert_null(hlo_file_write(fixture.path, "old", 3));
    cr_assert_eq(chmod(fixture.path, 0640), 0);
    cr_assert_null(hlo_file_write(fixture.path, "new", 3));
    struct stat info;
    cr_assert_eq(stat(fixture.path, &info), 0);
    cr_expect_eq(info.st_mode & 07777, 0640);
    drop_fixture(&fixture);
}

// The temporary name was the file's with an ending, and so longer than a name may be.
Test(base_file, bug_writes_files_with_the_longest_names) {
    Fixture fixture = make_fixture();
    char path[PATH_MAX];
    for (int length = 240; length <= NAME_MAX; length++) {
        const int start = snprintf(path, sizeof path, "%s/", fixture.folder);
        memset(path + start, 'n', (size_t)length);
        path[start + length] = 0;
        cr_assert_null(hlo_file_write(path, "new", 3));
        cr_assert_eq(unlink(path), 0, "%d", length);
    }
    drop_fixture(&fixture);
}

// A link to a file that does not exist yet was replaced by the file, as was the last of several.
Test(base_file, bug_a_link_to_nothing_was_replaced) {
    Fixture fixture = make_fixture();
    char first[160], second[160];
    struct stat info;
    snprintf(first, sizeof first, "%s/first", fixture.folder);
    snprintf(second, sizeof second, "%s/second", fixture.folder);
    cr_assert_eq(symlink(second, first), 0);
    cr_assert_eq(symlink("f", second), 0);
    cr_assert_null(hlo_file_write(first, "new", 3));
    cr_assert_eq(lstat(first, &info), 0);
    cr_expect(S_ISLNK(info.st_mode));
    cr_assert_eq(lstat(second, &info), 0);
    cr_expect(S_ISLNK(info.st_mode));
    HloFileContent content;
    cr_assert_null(hlo_file_read(fixture.path, SIZE_MAX, &content));
    cr_expect_str_eq(content.data, "new");
    hlo_file_content_free(&content);
    unlink(second);
    cr_assert_eq(symlink("first", second), 0);  // a circle
    HloStatus status = hlo_file_write(first, "new", 3);
    cr_expect(strstr(hlo_status_message(status), "Too many levels of symbolic links"), "%s",
              hlo_status_message(status));
    hlo_status_free(status);
    unlink(first);
    unlink(second);
    drop_fixture(&fixture);
}

// Runs `work` in a process of its own, since it may end by a signal; returns how it ended, as waitpid() says.
static int in_a_child(void (*work)(const char *path), const char *path) {
    int outcome = 0;
    const pid_t child = fork();
    cr_assert(child >= 0);
    if (child == 0) {
        work(path);
        _exit(1);
    }
    cr_assert_eq(waitpid(child, &outcome, 0), child);
    return outcome;
}

static void write_beyond_the_limit(const char *path) {
    const struct rlimit limit = {1000, 1000};
    char data[5000] = {0};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(2);
    HloStatus status = hlo_file_write(path, data, sizeof data);
    _exit(hlo_status_code(status) == HLO_RESOURCE_EXHAUSTED && strstr(hlo_status_message(status), "File too large")
              ? 0
              : 3);
}

// SIGXFSZ ended the process, and left the temporary file.
Test(base_file, bug_a_file_beyond_the_limit_of_sizes_is_an_error) {
    Fixture fixture = make_fixture();
    const int outcome = in_a_child(write_beyond_the_limit, fixture.path);
    cr_expect(WIFEXITED(outcome) && WEXITSTATUS(outcome) == 0, "%#x", outcome);
    cr_expect_neq(access(fixture.path, F_OK), 0);
    cr_assert_null(hlo_file_write(fixture.path, "", 0));
    drop_fixture(&fixture);  // which fails when a temporary file is left
}

// Sparse pages of zeros, again and again: far more than is written before the alarm.
static void write_until_the_alarm(const char *path) {
    enum { PIECES = 512, BYTES = 4 << 20 };
    const struct itimerval soon = {{0, 0}, {0, 20000}};
    void *zeros = calloc(1, BYTES);
    HloFilePiece pieces[PIECES];
    for (int i = 0; i < PIECES; i++) pieces[i] = (HloFilePiece){zeros, BYTES};
    signal(SIGALRM, SIG_DFL);
    if (!zeros || setitimer(ITIMER_REAL, &soon, NULL) != 0) _exit(2);
    hlo_status_free(hlo_file_write_pieces(path, pieces, PIECES));
}

// The signal ends the process as ever, but after the temporary file is gone.
Test(base_file, bug_a_signal_left_the_temporary_file) {
    Fixture fixture = make_fixture();
    cr_assert_null(hlo_file_write(fixture.path, "old", 3));
    const int outcome = in_a_child(write_until_the_alarm, fixture.path);
    cr_expect(WIFSIGNALED(outcome) && WTERMSIG(outcome) == SIGALRM, "%#x", outcome);
    HloFileContent content;
    cr_assert_null(hlo_file_read(fixture.path, SIZE_MAX, &content));
    cr_expect_str_eq(content.data, "old");
    hlo_file_content_free(&content);
    drop_fixture(&fixture);
}

static void write_to_a_gone_reader(const char *path) {
    (void)path;
    int ends[2];
    if (pipe(ends) != 0 || close(ends[0]) != 0 || dup2(ends[1], STDOUT_FILENO) < 0) _exit(2);
    HloStatus status = hlo_file_write("/dev/stdout", "a", 1);
    _exit(status && strstr(hlo_status_message(status), "Broken pipe") ? 0 : 3);
}

Test(base_file, a_reader_that_has_gone_is_an_error) {
    const int outcome = in_a_child(write_to_a_gone_reader, "");
    cr_expect(WIFEXITED(outcome) && WEXITSTATUS(outcome) == 0, "%#x", outcome);
}

static void append_to_standard_output(const char *path) {
    const int descriptor = open(path, O_WRONLY | O_APPEND);
    if (descriptor < 0 || dup2(descriptor, STDOUT_FILENO) < 0) _exit(2);
    char name[32];
    snprintf(name, sizeof name, "/dev/fd/%d", descriptor);
    _exit(hlo_file_write("/dev/stdout", "b", 1) || hlo_file_write("-", "c", 1) || hlo_file_write(name, "d", 1));
}

// The file that a shell appends to was replaced.
Test(base_file, bug_standard_output_that_is_a_file_is_appended_to) {
    Fixture fixture = make_fixture();
    cr_assert_null(hlo_file_write(fixture.path, "a", 1));
    const int outcome = in_a_child(append_to_standard_output, fixture.path);
    cr_expect(WIFEXITED(outcome) && WEXITSTATUS(outcome) == 0, "%#x", outcome);
    HloFileContent content;
    cr_assert_null(hlo_file_read(fixture.path, SIZE_MAX, &content));
    cr_expect_str_eq(content.data, "abcd");
    hlo_file_content_free(&content);
    drop_fixture(&fixture);
}

Test(base_file, names_of_others_become_parts_of_file_names) {
    HloText text = {0};
    char longest[400];
    memset(longest, 'n', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    hlo_file_name_part(&text, "../a b[c]\\d\n\x7f-jit_f.1");
    cr_expect_str_eq(text.data, ".._a_b_c__d__-jit_f.1");
    hlo_text_free(&text);
    hlo_file_name_part(&text, longest);
    cr_expect_eq(text.length, 128);
    hlo_text_free(&text);
}

Test(base_file, makes_folders) {
    Fixture fixture = make_fixture();
    char deep[160], middle[160];
    snprintf(middle, sizeof middle, "%s/a", fixture.folder);
    snprintf(deep, sizeof deep, "%s/a/b", fixture.folder);
    cr_assert_null(hlo_file_make_folder(deep));
    cr_assert_null(hlo_file_make_folder(deep));
    cr_assert_null(hlo_file_write(fixture.path, "", 0));
    HloStatus status = hlo_file_make_folder(fixture.path);
    cr_assert_not_null(status);
    hlo_status_free(status);
    rmdir(deep);
    rmdir(middle);
    drop_fixture(&fixture);
}
