// SPDX-License-Identifier: Apache-2.0
// The Python interpreter of this process, if there is one: performs through JAX's own Python functions what JAX does
// only for plugins that it registered itself. Nothing is linked: in a process without Python the symbols do not exist,
// and the functions report that.
#ifndef MESHLO_PJRT_INTERPRETER_H_
#define MESHLO_PJRT_INTERPRETER_H_

#include "hlo/base/status.h"
#include "hlo/base/text.h"
#include "pjrt/abi.h"

// Lets JAX register the partitioner of jax.experimental.custom_partitioning with the plugin of this table, if JAX is
// loaded. JAX does so itself for plugins that it finds by their entry point, but not for its platform tpu. May run on
// any thread without a lock that Python code might need. FAILED_PRECONDITION without JAX; exceptions in Python are
// INTERNAL.
HLO_NODISCARD HloStatus pjrt_interpreter_register_partitioner(const PjrtApi *api);

// Converts MLIR bytecode that only the release which wrote it can read, as JAX's partitioner returns it, to a StableHLO
// artifact of a version that is supported here, and appends that to `portable`. Errors and threads as above.
HLO_NODISCARD HloStatus pjrt_interpreter_make_portable(const void *bytes, size_t size, HloText *portable);

// What JAX says of the processes that it has connected: whether it has, how many there are, and which one this is.
typedef struct PjrtDistributed {
    bool is_initialized;
    int64_t process_count, process_index;
    char version[32];  // JAX's, "" where it is not loaded
} PjrtDistributed;

// Asks JAX, which tells plugins of its platform tpu only that there is a key-value store. FAILED_PRECONDITION without
// Python; INTERNAL if JAX keeps it elsewhere. Threads as above.
HLO_NODISCARD HloStatus pjrt_interpreter_distributed(PjrtDistributed *distributed);

#endif
