// SPDX-License-Identifier: Apache-2.0
// The host's side of a program's infeed and outfeed in `meshlo run`.
#ifndef MESHLO_TOOLS_FEEDS_H_
#define MESHLO_TOOLS_FEEDS_H_

#include "hlo/eval/eval.h"
#include "targets/client.h"
#include "tools/arrays.h"

// One array that waits for an infeed.
typedef struct CliFeed {
    const char *path, *member;  // a .npy file, or a member of an .npz
    int64_t device;             // partition whose infeed takes it; -1: each takes one
} CliFeed;

// The feeds of a run. Each partition has queues of its own, as a device has.
typedef struct CliFeeds {
    HLO_VECTOR(CliFeed) waiting;  // in the order given
    int64_t devices;
    int64_t *next;     // by device: index into `waiting`
    CliArrays *given;  // by device: what came out of its outfeed; lists and arrays on the heap
    bool *elsewhere;   // by device: another process runs it and gets what comes out; NULL: none
} CliFeeds;

// Reads the --infeed options: F.npy or D=F.npy, where D is a partition, or the same with F.npz, whose members arr_0,
// arr_1 … follow each other. INVALID_ARGUMENT or NOT_FOUND for files of another kind; arrays are read when they are
// fed.
HLO_NODISCARD HloStatus cli_feeds_read(CliContext *context, int64_t devices, CliFeeds *feeds);
// Starts over: everything waits again, nothing has come out.
void cli_feeds_rewind(CliFeeds *feeds);
// Frees the outfeeds.
void cli_feeds_free(CliFeeds *feeds);

// The host for an execution: FAILED_PRECONDITION where an infeed has run dry, or for channels of send and recv, which
// have no host here. Valid as long as the feeds.
TargetHostTransfers cli_feeds_transfers(CliFeeds *feeds);
// The same for the evaluator.
HloEvalHost cli_feeds_host(CliFeeds *feeds);

// Writes what came out as FOLDER/outfeed.D.N.npy: array N of partition D.
HLO_NODISCARD HloStatus cli_feeds_write(const char *folder, const CliFeeds *feeds);

#endif
