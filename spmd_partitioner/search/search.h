// SPDX-License-Identifier: Apache-2.0
// Searches for the shardings of a program's parameters that cost least, by a cost function that the caller brings.
//
// Parameters are decided in groups. The factor rules unite dimensions that are sharded alike: a weight, its gradient
// and its optimiser's moments have the same classes of dimensions and are one decision. Weights of equal layers, whose
// classes differ but take part in the same operations, are one decision too. A decision gives each axis of the mesh to
// one dimension of the group's arrays, or to none; what has no axis stays whole or is left to propagation.
//
// Stability: experimental.
#ifndef MESHLO_SPMD_PARTITIONER_SEARCH_SEARCH_H_
#define MESHLO_SPMD_PARTITIONER_SEARCH_SEARCH_H_

#include "spmd_partitioner/spmd.h"

HLO_BEGIN_C

// In units of the caller's.
typedef struct SpmdSearchCost {
    int64_t time, memory;
} SpmdSearchCost;

// A plan to be costed. While it is, the shards and `resolved` are the search's.
typedef struct SpmdSearchTrial {
    const char *const *shards;  // for SpmdOptions.shards
    int64_t shard_count;
    SpmdSearchCost cost;  // set by the caller's function, or:
    HloStatus status;     // an error rules the plan out
    // By flattened parameter, all 0: the caller's function may set spmd_search_spec_hash() of the sharding that
    // propagation gave to it. Decisions that would say the same are then not tried.
    uint64_t *resolved;
} SpmdSearchTrial;

typedef enum SpmdSearchObjective {
    SPMD_SEARCH_TIME,    // the least time of what fits
    SPMD_SEARCH_MEMORY,  // the least memory
} SpmdSearchObjective;

// How closely a space is searched: less is enough for choosing among meshes.
typedef enum SpmdSearchDepth {
    SPMD_SEARCH_WHOLE,   // every start that promises something is improved
    SPMD_SEARCH_ONCE,    // the best start, each large decision improved once
    SPMD_SEARCH_STARTS,  // the starts are only costed
    // And of them only that which people write by hand: data parallelism with parameters in parts beside tensor
    // parallelism.
    SPMD_SEARCH_BY_HAND,
} SpmdSearchDepth;

typedef struct SpmdSearchOptions {
    const SpmdMeshAxis *mesh;  // axes from major to minor
    int64_t mesh_axis_count;
    const char *const *kept;  // "TARGET=SPEC" that the search leaves alone, by pN or name
    int64_t kept_count;
    int64_t memory_limit;  // of a cost; 0: none
    SpmdSearchObjective objective;
    // Sets the cost or the status of each trial; they do not depend on each other, and may be costed at the same time.
    // The first call is for the plan without decisions, whose error ends the search.
    void (*cost)(void *context, SpmdSearchTrial *trials, int64_t count);
    bool (*is_over)(void *context);  // asked before each call: the search then ends with the best so far; may be NULL
    void *context;
    // The shards of a plan that was found on another mesh with the same axes: one more start, from which alone the
    // search then goes on if it is the best. May be empty.
    const char *const *start;
    int64_t start_count;
    SpmdSearchDepth depth;
} SpmdSearchOptions;

enum { SPMD_SEARCH_BEST = 4 };

typedef struct SpmdSearchResult {
    const char *const *shards;  // of the best plan, with the kept ones; in the arena of the call
    int64_t shard_count;
    SpmdSearchCost cost;
    int64_t evaluated;    // how many plans were costed
    int64_t group_count;  // decisions
    bool is_exact;        // every plan of the space was costed
    // The best plans, best first, beginning with that above: for callers whose cost is an estimate, who cost these
    // again. At most SPMD_SEARCH_BEST.
    const SpmdSearchTrial *best;
    int64_t best_count;
} SpmdSearchResult;

// Parameters that are one decision, and the results that are sharded like them (updated weights). Flattened numbers.
typedef struct SpmdSearchGroup {
    const int32_t *parameters, *results;
    int64_t parameter_count, result_count;
    const HloShape *shape;  // of each
} SpmdSearchGroup;

// A hash of a sharding of an array, "data,-", in which axes of one device do not count, nor names. Never 0.
HLO_EXPORT uint64_t spmd_search_spec_hash(const SpmdMeshAxis *mesh, int64_t mesh_axis_count, const char *spec);

// The decisions of a program on a mesh, in the order of their first parameters; of arrays of rank 1 or more. *groups
// lives in `arena`. Errors as spmd_search().
HLO_EXPORT HLO_NODISCARD HloStatus spmd_search_groups(HloArena *arena, const HloModule *module,
                                                      const SpmdMeshAxis *mesh, int64_t mesh_axis_count,
                                                      const SpmdSearchGroup **groups, int64_t *count);

// Searches. Small spaces are searched whole; in larger ones each decision in turn, and in small programs each two that
// share a class, get their best values, from several starts, until none improves. The result depends on the arguments
// alone (and on is_over()). INVALID_ARGUMENT as for spmd_partition(), and the errors of cost(). The result lives in
// `arena`. Memory errors jump to hlo_protect().
HLO_EXPORT HLO_NODISCARD HloStatus spmd_search(HloArena *arena, const HloModule *module,
                                               const SpmdSearchOptions *options, SpmdSearchResult *result);

HLO_END_C

#endif
