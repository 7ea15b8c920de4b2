// SPDX-License-Identifier: Apache-2.0
// Messages between devices while a program is timed: how many were sent over each channel, so that a device that would
// wait for ever is named instead of being given a time. What cannot be counted (messages of loops and branches) is
// given the benefit of the doubt: only certain deadlocks are errors, as targets/cpu/check.h finds them before a run.
#ifndef MESHLO_EMULATOR_MAIL_H_
#define MESHLO_EMULATOR_MAIL_H_

#include "hlo/ir/module.h"

typedef struct EmuMail EmuMail;

// The channels over which `module` sends; nothing is under way. Lives in `arena`, which must outlive it.
// INVALID_ARGUMENT for a list of pairs that is none. Memory errors jump to hlo_protect().
HloStatus emu_mail_new(HloArena *arena, const HloModule *module, EmuMail **mail);
// A send that is no transfer with the host. `once` says that it runs exactly once; else it may send any number.
HloStatus emu_mail_send(EmuMail *mail, const HloInstruction *send, bool once);
// A recv-done that is no transfer with the host. ABORTED, naming the device, if its message never comes: it
// runs once and everything sent before has been received, or nobody sends over its channel to that device at all.
HloStatus emu_mail_receive(EmuMail *mail, const HloInstruction *done, bool once);

#endif
