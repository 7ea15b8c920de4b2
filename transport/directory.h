// SPDX-License-Identifier: Apache-2.0
// A key-value store in a directory, through which the processes of one job on one machine find each other: for
// schedulers that start processes without saying how they reach each other.
//
// Stability: experimental.
#ifndef MESHLO_TRANSPORT_DIRECTORY_H_
#define MESHLO_TRANSPORT_DIRECTORY_H_

#include "transport/transport.h"

HLO_BEGIN_C

typedef struct TransportDirectory TransportDirectory;

// Opens the directory of a job, whose name is any text: below XDG_RUNTIME_DIR, TMPDIR or /tmp, with access for this
// user only. PERMISSION_DENIED if it exists and is someone else's, or open to others.
HLO_EXPORT HLO_NODISCARD HloStatus transport_directory_open(const char *job, TransportDirectory **directory);
// The store, which lives as long as `directory`. Not for several threads at once.
HLO_EXPORT const TransportStore *transport_directory_store(TransportDirectory *directory);
// Removes what this process has put, and the directory when it is empty; accepts NULL. Call it when the transport has
// been joined: all who need the values have read them then.
HLO_EXPORT void transport_directory_close(TransportDirectory *directory);

HLO_END_C

#endif
