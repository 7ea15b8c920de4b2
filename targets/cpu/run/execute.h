// SPDX-License-Identifier: Apache-2.0
// The state of one run. Private to execute.c and its checks.
#ifndef MESHLO_TARGETS_CPU_RUN_EXECUTE_H_
#define MESHLO_TARGETS_CPU_RUN_EXECUTE_H_

#include <pthread.h>
#include <stdatomic.h>

#include "hlo/eval/draw.h"
#include "targets/cpu/graph/mail.h"
#include "targets/cpu/run/internal.h"

// A list of thunks that a device is executing.
typedef struct CpuFrame {
    const CpuThunkList *list;
    const CpuThunk *owner;  // the while or conditional; NULL for the entry
    int32_t region;         // which region of the owner
    int64_t next;           // index of the thunk to run next
} CpuFrame;

typedef struct CpuDevice {
    int64_t number;
    char **bases;
    CpuFrame *frames;
    int32_t frame_count;
    const CpuThunk *waits_at;  // the collective or receive, or NULL
    int64_t waits_since;       // set only in a traced run
    HloDraws draws;
} CpuDevice;

// One group at one collective.
typedef struct CpuRendezvous {
    const CpuCollectiveGroup *group;
    int64_t arrived;
    void ***addresses;  // [array][member]; made at the first rendezvous
    int64_t parts, parts_left;
} CpuRendezvous;

// A device that is ready to run, or a part of an exchange.
typedef struct CpuWork {
    CpuDevice *device;
    CpuRendezvous *rendezvous;
    const CpuCollective *collective;
    int64_t part;
} CpuWork;

typedef struct CpuRun {
    const CpuExecutable *executable;
    CpuPool *pool;
    int64_t device_count;
    CpuDevice *devices;
    char **bases;
    CpuFrame *frames;
    CpuRendezvous *rendezvous_list;
    int64_t rendezvous_count;
    int64_t *first_rendezvous;  // by collective
    const CpuSharePlan *sharing;
    const CpuHost *host;
    const CpuTrace *trace;
    int64_t *shared_arrivals;  // [share index][leader]
    bool alone;                // one worker does all the work
    pthread_mutex_t lock;      // guards everything below
    CpuWork *queue;            // a ring
    int64_t queue_begin, queue_end, queue_capacity;
    CpuMail mail;           // between devices
    int64_t busy;           // pieces of work in progress
    int64_t finished;       // number of finished devices
    HloStatus status;       // the first error
    _Atomic uint32_t news;  // incremented when waiting workers should look again
} CpuRun;

#endif
