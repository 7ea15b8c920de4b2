// SPDX-License-Identifier: Apache-2.0
// What a run exchanges with other processes: exchanges of collectives that wait for messages (remote.h), and messages
// between single devices. A worker that has nothing else to do moves the messages, one worker at a time; the others
// wait for news of it.
//
// A worker that waits first polls, then yields its processor, then sleeps until the transport has something, since
// there may be more processes than processors. After a second it reports where it waits, and looks for deadlocks
// (hosts.h).
#ifndef MESHLO_TARGETS_CPU_RUN_MESSAGES_H_
#define MESHLO_TARGETS_CPU_RUN_MESSAGES_H_

#include "targets/cpu/run/execute.h"

HLO_BEGIN_C

// Whether the device's message on that channel comes from another process.
bool cpu_messages_come_from_elsewhere(const CpuRun *run, const CpuP2pTransfer *peer, int64_t device);
// Sends copies of `data` to the devices of other processes that this device sends to. Lock held.
HLO_NODISCARD HloStatus cpu_messages_send(CpuRun *run, const CpuP2pTransfer *peer, int64_t device, const void *data);
// Starts to receive the message that the device is parked for, into its memory. Lock held.
HLO_NODISCARD HloStatus cpu_messages_receive(CpuRun *run, CpuDevice *device, const CpuThunk *thunk, void *data);
// Runs the next phase of an exchange with other processes; *done: it is complete. Without the lock.
HLO_NODISCARD HloStatus cpu_messages_advance(CpuRun *run, CpuRendezvous *rendezvous, bool *done);
// Adds an exchange that waits for messages. Lock held.
void cpu_messages_add(CpuRun *run, CpuRendezvous *rendezvous);

// Whether devices or exchanges wait for other processes. Lock held.
bool cpu_messages_are_awaited(const CpuRun *run);
// Moves messages and queues the work that they allow, unless another worker does so. Lock held, but released meanwhile.
void cpu_messages_poll(CpuRun *run);
// Does the same until there is work, or the run has ended. Lock held, but released meanwhile.
void cpu_messages_wait(CpuRun *run);
// Waits until all that was sent has arrived. Without the lock, after the devices have finished.
HLO_NODISCARD HloStatus cpu_messages_finish(CpuRun *run);
// Cancels the remaining messages, after an error.
void cpu_messages_free(CpuRun *run);

HLO_END_C

#endif
