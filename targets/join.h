// SPDX-License-Identifier: Apache-2.0
// A client that plays its part of a machine together with other processes, as the environment describes them
// (transport/environment.h).
//
// Stability: experimental.
#ifndef MESHLO_TARGETS_JOIN_H_
#define MESHLO_TARGETS_JOIN_H_

#include "targets/client.h"
#include "transport/environment.h"
#include "transport/transport.h"

HLO_BEGIN_C

typedef struct TargetJoinOptions {
    const TransportEnvironment *environment;
    const TransportStore *store;  // of the framework, through which processes find each other; or NULL
    const char *identity;         // what must be equal in all processes beside machine and version; or NULL
    int threads;                  // worker threads; 0: as target_client_new()
    Transport **transport;        // set to the client's transport, NULL without other processes; or NULL
} TargetJoinOptions;

// Names the machine that the environment makes of `spec`, in `arena`: TPU_PROCESS_BOUNDS and
// TPU_CHIPS_PER_PROCESS_BOUNDS determine which part of a slice is used and how its chips are divided among processes,
// MEGASCALE_NUM_SLICES how many slices there are. Sets *hosts to the number of processes that play it. `spec` itself
// where the environment says nothing of this. INVALID_ARGUMENT for bounds that do not fit the machine, and if the
// environment has another number of processes than the machine has hosts.
HLO_EXPORT HLO_NODISCARD HloStatus target_join_machine(const char *spec, const TransportEnvironment *environment,
                                                       HloArena *arena, const char **machine, int64_t *hosts);

// Creates the client of the machine that `spec` names ("" or NULL as for target_client_new()) and, if the environment
// describes several processes, connects it with theirs: it has all devices of the machine, of which those of this
// process can be used (target_device_is_local()). A process on its own gets a client that has all devices. Blocks until
// all processes have come, or fails within the timeout. Errors as target_join_machine(), transport_join() and
// target_client_connect(); FAILED_PRECONDITION if nothing says how the processes reach each other.
HLO_EXPORT HLO_NODISCARD HloStatus target_client_join(const char *spec, const TargetJoinOptions *options,
                                                      TargetClient **client);

HLO_END_C

#endif
