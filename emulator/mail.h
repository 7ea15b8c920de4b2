// SPDX-License-Identifier: Apache-2.0
// Messages between devices while a program is timed. The number of messages sent over each channel is counted, so that
// a device that would wait forever is reported instead of being given a time. Messages of loops and branches cannot be
// counted and are assumed to arrive: only certain deadlocks are errors, as targets/cpu/graph/check.h finds them before
// a run.
#ifndef MESHLO_EMULATOR_MAIL_H_
#define MESHLO_EMULATOR_MAIL_H_

#include "hlo/ir/module.h"

typedef struct EmuMail EmuMail;

// Collects the channels over which `module` sends; no message is in flight yet. The result is allocated in `arena`.
// INVALID_ARGUMENT for an invalid list of pairs. Memory errors jump to hlo_protect().
HloStatus emu_mail_new(HloArena *arena, const HloModule *module, EmuMail **mail);
// Records a send that is not a transfer with the host. `once` means that it runs exactly once; else it may run any
// number of times.
HloStatus emu_mail_send(EmuMail *mail, const HloInstruction *send, bool once);
// Receives for a recv-done that is not a transfer with the host. ABORTED, naming the device, if its message never
// arrives: it runs once and either everything sent before has been received, or no device ever sends to it over its
// channel.
HloStatus emu_mail_receive(EmuMail *mail, const HloInstruction *done, bool once);

#endif
