// SPDX-License-Identifier: Apache-2.0
// Quotas of control groups. /proc/self/cgroup names the group, one line per hierarchy: "0::/path" for version 2,
// "4:cpu,cpuacct:/path" for version 1. In a container the path is often that of the host, which is not mounted: the
// mounted folder itself is then the container's group, so it is always read, as are all folders in between, since a
// quota applies to everything below it.
#include "targets/cpu/host/quota.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hlo/base/memory.h"

enum { kPath = 4096 };

// Reads a whole small file as text. False if it does not exist.
static bool read_text(const char *root, const char *folder, const char *name, char *text, size_t size) {
    char path[2 * kPath];
    const int length = snprintf(path, sizeof path, "%s%s/%s", root, folder, name);
    if (length < 0 || (size_t)length >= sizeof path) return false;
    FILE *file = fopen(path, "re");
    if (!file) return false;
    const size_t count = fread(text, 1, size - 1, file);
    text[count] = 0;
    fclose(file);
    return count > 0;
}

// Returns quota / period, rounded up; 0 if either is not a positive number, which is how "unlimited" is written.
static int processors(const char *quota, const char *period) {
    const long long time = strtoll(quota, NULL, 10), of = strtoll(period, NULL, 10);
    if (time <= 0 || of <= 0) return 0;
    const long long count = time / of + (time % of != 0);
    return count < 1 << 20 ? (int)count : 0;
}

// Returns the quota of one group, by its folder: "max 100000" or "150000 100000" in version 2.
static int quota_of(const char *root, const char *folder, bool second_version) {
    char quota[128], period[128];
    if (second_version) {
        if (!read_text(root, folder, "cpu.max", quota, sizeof quota)) return 0;
        const char *space = strchr(quota, ' ');
        return space ? processors(quota, space) : 0;
    }
    if (!read_text(root, folder, "cpu.cfs_quota_us", quota, sizeof quota) ||
        !read_text(root, folder, "cpu.cfs_period_us", period, sizeof period))
        return 0;
    return processors(quota, period);
}

static void lower(int *least, int quota) {
    if (quota > 0 && (*least == 0 || quota < *least)) *least = quota;
}

// Reads all folders from the group's up to the one where its hierarchy is mounted.
static void look_along(const char *root, const char *mount, const char *path, bool second_version, int *least) {
    char folder[2 * kPath];
    const size_t shortest = strlen(mount);
    const int length = snprintf(folder, sizeof folder, "%s%s", mount, path);
    if (length < 0 || (size_t)length >= sizeof folder) return;
    for (;;) {
        lower(least, quota_of(root, folder, second_version));
        char *slash = strrchr(folder, '/');
        if (!slash || (size_t)(slash - folder) < shortest) return;
        *slash = 0;
    }
}

// True if a comma-separated list contains the word.
static bool lists(const char *list, const char *word) {
    const size_t length = strlen(word);
    for (const char *at = list; *at; at += strcspn(at, ","), at += *at == ',')
        if (strncmp(at, word, length) == 0 && (at[length] == ',' || at[length] == 0)) return true;
    return false;
}

// Reads one line of /proc/self/cgroup: number:controllers:path. Version 1 is mounted under the names of its
// controllers.
static void look_at_line(const char *root, char *line, int *least) {
    char *controllers = strchr(line, ':'), *path = controllers ? strchr(controllers + 1, ':') : NULL, mount[kPath];
    if (!path) return;
    *controllers++ = 0, *path++ = 0;
    if (!*controllers) {
        look_along(root, "/sys/fs/cgroup", path, true, least);
    } else if (lists(controllers, "cpu")) {
        const int length = snprintf(mount, sizeof mount, "/sys/fs/cgroup/%s", controllers);
        if (length > 0 && (size_t)length < sizeof mount) look_along(root, mount, path, false, least);
        look_along(root, "/sys/fs/cgroup/cpu", path, false, least);
    }
}

int cpu_quota_processors(const char *root) {
    char *text = hlo_allocate(1 << 16), *rest = NULL;
    int least = 0;
    if (text && read_text(root, "/proc/self", "cgroup", text, 1 << 16))
        for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
            look_at_line(root, line, &least);
    hlo_free(text);
    return least;
}
