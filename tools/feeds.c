// SPDX-License-Identifier: Apache-2.0
// The command as the host of a program's infeeds and outfeeds. Input files are read in the order of the options, and
// each device has its own position in that list; outputs are kept, and written or compared at the end. Archives are
// opened again for each array, so that nothing large stays in memory.
#include "tools/feeds.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hlo/base/file.h"
#include "tools/npy.h"

// ---- options

enum { kMostMembers = 65536 };

// By its name, as numpy does.
static bool is_archive(const char *path) {
    const size_t length = strlen(path);
    return length > 4 && strcmp(path + length - 4, ".npz") == 0;
}

// arr_0, arr_1 … up to the first that is missing, as numpy.savez() names them.
static HloStatus add_archive(CliContext *context, const char *path, int64_t device, CliFeeds *feeds) {
    NpzArchive archive = {0};
    bool *there = HLO_ARENA_NEW(context->arena, bool, kMostMembers);
    HLO_TRY(npz_open(path, &archive));
    const HloStatus status = npz_check_names(&archive, there, kMostMembers);
    npz_close(&archive);
    HLO_TRY(status);
    for (int64_t i = 0; i < kMostMembers && there[i]; ++i) {
        const CliFeed feed = {path, hlo_arena_format(context->arena, "arr_%lld", (long long)i), device};
        hlo_vector_push(context->arena, &feeds->waiting, feed);
    }
    return HLO_SUCCESS;
}

// Parses FILE for every device, or D=FILE for one. A file whose name contains '=' needs a partition before it.
static HloStatus add_option(CliContext *context, const char *option, CliFeeds *feeds) {
    const char *equals = strchr(option, '='), *path = equals ? equals + 1 : option;
    int64_t device = -1;
    if (equals) {
        char *end;
        device = strtoll(option, &end, 10);
        if (end != equals || end == option || device < 0 || device >= feeds->devices)
            return cli_usage_error(context, "--infeed %s: no partition %.*s among %lld", option, (int)(equals - option),
                                   option, (long long)feeds->devices);
    }
    HLO_FAIL_IF(access(path, R_OK), HLO_NOT_FOUND, "--infeed %s: the file cannot be read", option);
    if (is_archive(path)) return add_archive(context, path, device, feeds);
    hlo_vector_push(context->arena, &feeds->waiting, ((CliFeed){path, NULL, device}));
    return HLO_SUCCESS;
}

HloStatus cli_feeds_read(CliContext *context, int64_t devices, CliFeeds *feeds) {
    assert(devices > 0 && feeds);
    *feeds = (CliFeeds){.devices = devices,
                        .next = HLO_ARENA_NEW(context->arena, int64_t, devices),
                        .given = HLO_ARENA_NEW(context->arena, CliArrays, devices)};
    const HloStringVector options = cli_list(context, "infeed");
    context->stage = CLI_STAGE_USAGE;
    for (int64_t i = 0; i < options.count; ++i) HLO_TRY(add_option(context, options.items[i], feeds));
    return HLO_SUCCESS;
}

void cli_feeds_free(CliFeeds *feeds) {
    for (int64_t d = 0; d < feeds->devices; ++d) {
        for (int64_t i = 0; i < feeds->given[d].count; ++i) hlo_literal_free(feeds->given[d].items[i]);
        hlo_free(feeds->given[d].items);
        feeds->given[d] = (CliArrays){0};
    }
}

// For the next repeat: every device begins with its first array again, and what came out before is dropped.
void cli_feeds_rewind(CliFeeds *feeds) {
    cli_feeds_free(feeds);
    for (int64_t d = 0; d < feeds->devices; ++d) feeds->next[d] = 0;
}

// ---- the host

// Channels other than those of the feeds belong to callbacks, which the command has none of.
static HloStatus no_connection(int64_t channel) {
    return hlo_error(HLO_FAILED_PRECONDITION, "nothing is connected to channel %lld", (long long)channel);
}

static HloStatus read_feed(const CliFeed *feed, const HloShape *shape, HloLiteral **literal) {
    if (!feed->member) return npy_read(feed->path, shape, literal);
    NpzArchive archive = {0};
    HLO_TRY(npz_open(feed->path, &archive));
    const HloStatus status = npz_read(&archive, feed->member, shape, literal);
    npz_close(&archive);
    return status;
}

// Calls for one device come one after the other, and each touches its own device only: no lock is needed.
// Arrays for other devices are skipped. The file is read only now: a program may take fewer arrays than were given.
static HloStatus take_in(void *context, int64_t device, int64_t channel, const HloShape *shape, void *data) {
    CliFeeds *feeds = context;
    assert(device >= 0 && device < feeds->devices);
    if (channel != TARGET_CHANNEL_INFEED) return no_connection(channel);
    int64_t *next = &feeds->next[device];
    while (*next < feeds->waiting.count && feeds->waiting.items[*next].device >= 0 &&
           feeds->waiting.items[*next].device != device)
        ++*next;
    if (*next == feeds->waiting.count) {
        HloText text = {0};
        hlo_shape_print(&text, shape, false);
        const HloStatus dry =
            hlo_error(HLO_FAILED_PRECONDITION, "the infeed of device %lld is empty: it needs another %s (--infeed)",
                      (long long)device, text.data ? text.data : "an array");
        hlo_text_free(&text);
        return dry;
    }
    HloLiteral *literal;
    HLO_TRY(read_feed(&feeds->waiting.items[(*next)++], shape, &literal));
    const int64_t bytes = hlo_shape_bytes(shape);
    if (bytes) memcpy(data, literal->data, (size_t)bytes);
    hlo_literal_free(literal);
    return HLO_SUCCESS;
}

// Copies the array: the engine reuses its memory immediately.
static HloStatus give_out(void *context, int64_t device, int64_t channel, const HloShape *shape, const void *data) {
    CliFeeds *feeds = context;
    assert(device >= 0 && device < feeds->devices);
    if (channel != TARGET_CHANNEL_OUTFEED) return no_connection(channel);
    CliArrays *given = &feeds->given[device];
    HloLiteral **grown = hlo_reallocate(given->items, sizeof *grown * ((size_t)given->count + 1));
    HLO_FAIL_IF(!grown, HLO_RESOURCE_EXHAUSTED, "out of memory for the outfeed");
    given->items = grown;
    HloLiteral *literal = hlo_literal_new(shape);
    HLO_FAIL_IF(!literal, HLO_RESOURCE_EXHAUSTED, "out of memory for the outfeed");
    const int64_t bytes = hlo_shape_bytes(shape);
    if (bytes) memcpy(literal->data, data, (size_t)bytes);
    given->items[given->count++] = literal;
    return HLO_SUCCESS;
}

TargetHostTransfers cli_feeds_transfers(CliFeeds *feeds) {
    return (TargetHostTransfers){.send = give_out, .receive = take_in, .context = feeds};
}

HloEvalHost cli_feeds_host(CliFeeds *feeds) {
    return (HloEvalHost){.send = give_out, .receive = take_in, .context = feeds};
}

// ---- what came out

HloStatus cli_feeds_write(const char *folder, const CliFeeds *feeds) {
    assert(folder && feeds);
    HLO_TRY(hlo_file_make_folder(folder));
    for (int64_t d = 0; d < feeds->devices; ++d) {
        for (int64_t i = 0; i < feeds->given[d].count; ++i) {
            HloText path = {0};
            hlo_text_format(&path, "%s/outfeed.%lld.%lld.npy", folder, (long long)d, (long long)i);
            HloStatus status = hlo_text_status(&path);
            if (!status) status = npy_write(path.data, feeds->given[d].items[i]);
            hlo_text_free(&path);
            HLO_TRY(status);
        }
    }
    return HLO_SUCCESS;
}
