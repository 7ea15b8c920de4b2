// SPDX-License-Identifier: Apache-2.0
// Shardy's frontend attributes (xla.sdy.*) of the instructions of a module, read once by the reader of
// hlo/stablehlo/import/shardy.h. Precedence: the sharding in xla.sdy.sharding replaces `sharding=` beside it, as in
// XLA, whose importer drops the latter.
#ifndef MESHLO_SPMD_PARTITIONER_SDY_H_
#define MESHLO_SPMD_PARTITIONER_SDY_H_

#include "hlo/base/map.h"
#include "hlo/stablehlo/import/shardy.h"
#include "spmd_partitioner/mesh.h"

// The attributes of one instruction, which has at least one of them.
typedef struct SpmdShardyText {
    // One a leaf: xla.sdy.sharding, or the module's xla.sdy.tuple_args_shardings for a parameter. NULL without one.
    const HloSdySharding *leaves;
    const HloSharding *sharding;  // the same as one annotation: a tuple for several leaves
    const HloSdySharding
        *boundaries;  // one for each operand or result of a call at the boundary of a manual region; or NULL
    const HloSharding *manual_axes;  // of rank 0, manual along the axes that the call names; or NULL
} SpmdShardyText;

typedef struct SpmdShardy {
    HloIntMap texts;        // address of an instruction -> SpmdShardyText
    const HloMesh *meshes;  // all meshes of the module
    int64_t mesh_count;
    HloSdyShardings results;  // xla.sdy.tuple_results_shardings: one a leaf of the entry's root, or none
} SpmdShardy;

// Reads all of them. INVALID_ARGUMENT naming the instruction for text that is malformed, names a mesh or an axis that
// does not exist, or does not fit the shapes.
HloStatus spmd_shardy_read(HloArena *arena, const HloModule *module, const SpmdShardy **shardy);
// The annotation of an instruction, or NULL.
const SpmdShardyText *spmd_shardy_text(const SpmdShardy *shardy, const HloInstruction *op);
// The annotation that counts: Shardy's, else the instruction's own `sharding=`; NULL if it has neither.
const HloSharding *spmd_shardy_sharding(const SpmdShardy *shardy, const HloInstruction *op);

#endif
