// SPDX-License-Identifier: Apache-2.0
// The Python interpreter of this process, where there is one: what JAX does only for plugins that it registered itself
// is caught up on here, through its own Python functions. Nothing is linked: a process without Python has no such
// symbols, and the functions say so.
#ifndef MESHLO_PJRT_INTERPRETER_H_
#define MESHLO_PJRT_INTERPRETER_H_

#include "hlo/base/status.h"
#include "hlo/base/text.h"
#include "pjrt/abi.h"

// Lets JAX register the partitioner of jax.experimental.custom_partitioning with the plugin of this table, if JAX is
// loaded. JAX does so itself for plugins that it finds by their entry point, but not for its platform tpu. Any thread
// that holds no lock which Python code could want. FAILED_PRECONDITION without JAX; what Python raises is INTERNAL.
HLO_NODISCARD HloStatus pjrt_interpreter_register_partitioner(const PjrtApi *api);

// Appends to `portable` the StableHLO artifact of a version that is read here of MLIR bytecode that only the release
// which wrote it can read, which is what JAX's partitioner gives. Errors and threads as above.
HLO_NODISCARD HloStatus pjrt_interpreter_make_portable(const void *bytes, size_t size, HloText *portable);

#endif
