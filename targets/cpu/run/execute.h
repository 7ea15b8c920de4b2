// SPDX-License-Identifier: Apache-2.0
// The state of one run. Private to execute.c and messages.c.
#ifndef MESHLO_TARGETS_CPU_RUN_EXECUTE_H_
#define MESHLO_TARGETS_CPU_RUN_EXECUTE_H_

#include <pthread.h>
#include <stdatomic.h>

#include "hlo/eval/draw.h"
#include "targets/cpu/graph/mail.h"
#include "targets/cpu/run/remote.h"

// A list of thunks that a device is executing.
typedef struct CpuFrame {
    const CpuThunkList *list;
    const CpuThunk *owner;  // the while or conditional; NULL for the entry
    int32_t region;         // which region of the owner
    int64_t next;           // index of the thunk to run next
    double done_at_end;     // the device's `done` when the owner has ended
} CpuFrame;

typedef struct CpuDevice {
    int64_t number;
    char **bases;
    CpuFrame *frames;
    int32_t frame_count;
    const CpuThunk *waits_at;  // the collective or receive, or NULL
    int64_t waits_since;       // set only in a traced run
    double done;               // cost of what it has run; set only in a run whose progress is reported
    HloDraws draws;
} CpuDevice;

// One group at one collective.
typedef struct CpuRendezvous {
    const CpuCollective *collective;
    const CpuCollectiveGroup *group;
    int64_t expected;  // members in this process
    int64_t arrived;
    CpuRemote *remote;           // where members are in other processes; made at the first rendezvous
    struct CpuRendezvous *next;  // of those that wait for messages
    void ***addresses;           // [array][member]; made at the first rendezvous
    int64_t parts, parts_left;
} CpuRendezvous;

// A device that is ready to run, a part of an exchange, or the next phase of one with other processes.
typedef struct CpuWork {
    CpuDevice *device;
    CpuRendezvous *rendezvous;
    int64_t part;
    bool is_remote;
} CpuWork;

// What the run waits for from other processes: see messages.h.
typedef struct CpuMessages {
    CpuRendezvous *exchanges;                // that wait for messages
    struct CpuRunMessage *sends, *receives;  // between single devices
    bool is_driven;                          // a worker moves messages
    bool is_asleep;                          // that worker may be in transport_wait()
    int64_t progress;                        // rises with every wait
    int64_t reports;                         // of the current wait
} CpuMessages;

typedef struct CpuRun {
    const CpuExecutable *executable;
    CpuPool *pool;
    int64_t device_count;  // of all processes
    int64_t local_count;   // of this one
    CpuDevice *devices;    // all; those of other processes are never used
    const CpuSpan *span;   // NULL: all devices are here
    CpuLaunch *launch;     // NULL: nothing is exchanged with other processes
    void *lists;           // one block with all lists below and `devices`
    char **bases;
    CpuFrame *frames;
    int64_t bases_per_device, frames_per_device;
    CpuRendezvous *rendezvous_list;
    int64_t rendezvous_count;
    int64_t *first_rendezvous;  // by collective
    const CpuSharePlan *sharing;
    const CpuHost *host;
    const CpuTrace *trace;
    const CpuProgress *progress;
    _Atomic int64_t done;      // sum of the devices' costs
    int64_t *shared_arrivals;  // [share index][leader]
    bool alone;                // one worker does all the work
    pthread_mutex_t lock;      // guards everything below
    CpuWork *queue;            // a ring
    int64_t queue_begin, queue_end, queue_capacity;
    CpuMail mail;           // between devices
    CpuMessages messages;   // to and from other processes
    int64_t busy;           // pieces of work in progress
    int64_t finished;       // number of finished devices
    HloStatus status;       // the first error
    _Atomic uint32_t news;  // incremented when waiting workers should look again
} CpuRun;

// Queues work for any worker. Lock held.
void cpu_run_push_work(CpuRun *run, CpuWork work);
// Queues a device that was parked, and traces its wait. Lock held.
void cpu_run_resume(CpuRun *run, CpuDevice *device);
// Records the first error; all workers stop when they see it. Takes ownership of the status. Lock held.
void cpu_run_fail(CpuRun *run, HloStatus status);
// Makes waiting workers look again.
void cpu_run_notify(CpuRun *run);

#endif
