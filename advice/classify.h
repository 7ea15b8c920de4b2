// SPDX-License-Identifier: Apache-2.0
// What a collective is for, from the data flow around it.
#ifndef MESHLO_ADVICE_CLASSIFY_H_
#define MESHLO_ADVICE_CLASSIFY_H_

#include "advice/advice.h"
#include "hlo/base/map.h"

// A per-device program with what is known of it. Texts live in the arena.
typedef struct AdviceFacts {
    HloArena *arena;
    const HloModule *module;
    const SpmdBoundary *boundary;
    const SpmdMeshAxis *mesh;
    int64_t mesh_axis_count;
    const int64_t *sizes;  // of the mesh's axes
    int64_t axis_limit;    // 63 axes are looked at
    uint64_t batch;        // axes that shard inputs that are not weights
    uint64_t summed;       // axes over which products are added up to weights' gradients: they shard the data inside
    bool *is_multiplied;   // by flattened parameter: used on the right of products, or looked up in
    bool *is_weight;       // by flattened parameter
    uint64_t reduced;      // axes over which products are added up by reduce-scatter
    HloIntMap attention;   // the products of attention, by id
    uint64_t sequence;     // axes that all-to-alls move before attention, and back after it
    uint64_t stages;       // axes along which a loop shifts what it multiplies by weights that they shard
} AdviceFacts;

// One collective.
typedef struct AdviceFinding {
    AdviceKind kind;
    uint64_t axes;
    const char *what, *scope, *cause;
    // The parameters that it is about, as flattened numbers; -1: none. `indices` are those of an embedding lookup.
    int64_t parameter, indices;
} AdviceFinding;

// Reads what classification needs of a compiled program. Memory errors jump to hlo_protect().
void advice_facts_new(HloArena *arena, const CompiledModule *compiled, const SpmdMeshAxis *mesh, int64_t axis_count,
                      AdviceFacts *facts);
// Classifies a collective of the program's report.
void advice_classify(const AdviceFacts *facts, const SpmdCollective *collective, const HloInstruction *op,
                     AdviceFinding *finding);
// The flattened parameters of a result's shape from which it is computed element by element: an old weight and its
// moments.
HloInt64Vector advice_updated_leaves(const AdviceFacts *facts, int64_t result);
// Axes as "data,model".
const char *advice_axes_text(const AdviceFacts *facts, uint64_t axes);
// The flattened number of an entry parameter that is an array; -1 for tuples and NULL.
int64_t advice_leaf_of(const HloModule *module, const HloInstruction *parameter);

#endif
