// SPDX-License-Identifier: Apache-2.0
// A run over several processes, which are the hosts of one machine: started by meshlo launch, mpirun or srun.
//
// Every process reads the program and the inputs, keeps the parts of its devices, and runs those. Process 0 gets the
// parts of all results, compares, writes and prints them; what an outfeed gives is written by the process that has the
// device.
#ifndef MESHLO_TOOLS_HOSTS_H_
#define MESHLO_TOOLS_HOSTS_H_

#include "targets/join.h"
#include "tools/cli.h"

// The processes of a run.
typedef struct CliHosts {
    int64_t process_count, process_index;  // 1 and 0 if this is the only one
    Transport *transport;                  // the client's; NULL without other processes
} CliHosts;

// Makes the client of a machine, connected with the other processes if the environment describes any.
HLO_NODISCARD HloStatus cli_hosts_join(CliContext *context, const char *machine, TargetClient **client,
                                       CliHosts *hosts);

// FAILED_PRECONDITION if the environment describes several processes: for runs that one process does alone.
HLO_NODISCARD HloStatus cli_hosts_refuse(CliContext *context, const char *what);

// Brings the part of a result that a device has to process 0: there, *part becomes that of another process's device
// (the caller frees it), of `local` shape, whose dimensions of dynamic size are as large as the part's. On the process
// of the device it sends *part; on others it does nothing. All processes call it for the same parts in the same order.
HLO_NODISCARD HloStatus cli_hosts_bring(const CliHosts *hosts, const TargetDevice *device, const HloShape *local,
                                        HloArena *arena, HloLiteral **part);

#endif
