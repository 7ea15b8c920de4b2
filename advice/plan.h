// SPDX-License-Identifier: Apache-2.0
// Finds the mesh and the shardings of a program's parameters that give the least step on a slice, within the memory of
// its devices. Plans are costed by trials (trial.h): the program is partitioned and timed for each. Where none fits,
// the program is repaired: its backward pass computes activations again, or they wait in host memory.
//
//     const AdvicePlanOptions options = {.topologies = &topology, .topology_count = 1, .budget_seconds = 30};
//     AdvicePlan *plan;
//     HLO_TRY(advice_plan_new(module, &options, &plan));
//     advice_plan_print(&text, plan);
//     advice_plan_free(plan);
//
// Stability: experimental.
#ifndef MESHLO_ADVICE_PLAN_H_
#define MESHLO_ADVICE_PLAN_H_

#include "emulator/emulator.h"
#include "hlo/base/json.h"
#include "spmd_partitioner/spmd.h"

HLO_BEGIN_C

typedef enum AdviceObjective {
    ADVICE_LEAST_TIME,    // of what fits
    ADVICE_LEAST_MEMORY,  // of a device
    ADVICE_LEAST_COST,    // of a step, by the prices of chips
} AdviceObjective;

// What was done to a program that fits nowhere as it is. The results stay the same, bit for bit.
typedef enum AdviceRepair {
    ADVICE_REPAIR_NONE,
    ADVICE_REPAIR_ELEMENTWISE,  // HLO_RECOMPUTE_ELEMENTWISE
    ADVICE_REPAIR_SCOPES,       // HLO_RECOMPUTE_SCOPES
    ADVICE_REPAIR_OFFLOAD,      // HLO_RECOMPUTE_SCOPES_OFFLOADED
    ADVICE_REPAIR_COUNT
} AdviceRepair;

// How far a search is.
typedef struct AdvicePlanProgress {
    int64_t evaluated;         // plans that were timed
    int64_t step_picoseconds;  // of the best so far; 0: none that fits
    double share;              // of the budget that is used up
} AdvicePlanProgress;

// Zero-initialise for the defaults.
typedef struct AdvicePlanOptions {
    const EmuTopology *const *topologies;  // the slices to choose from, at least one; they must outlive the plan
    int64_t topology_count;
    const char *mesh;         // a pattern of advice_meshes(); NULL: the program's axes, else data=*,model=*
    const char *const *kept;  // shardings that the plan must have: "TARGET=SPEC" as in SpmdOptions.shards
    int64_t kept_count;
    const char *kept_option;  // the option that the user gave them by, for errors; NULL: --keep
    AdviceObjective objective;
    const double *prices;   // by slice: of a chip an hour, negative: none; for ADVICE_LEAST_COST, else may be NULL
    double budget_seconds;  // the search ends with the best so far; 0: 60
    // Called between trials in the calling thread; may be NULL. The search ends when it returns false.
    bool (*progress)(void *context, const AdvicePlanProgress *progress);
    void *progress_context;
} AdvicePlanOptions;

// The best plan of one mesh on one slice. Strings live as long as the AdvicePlan.
typedef struct AdvicePlanned {
    const EmuTopology *topology;
    const SpmdMeshAxis *axes;
    int64_t axis_count;
    const char *mesh;  // the axes as text: "data=4,model=2"
    // By flattened parameter and result: the sharding as in "TARGET=SPEC", "data,-"; "" of a scalar. NULL but for the
    // best.
    const char *const *parameters, *const *results;
    // Annotations of values inside, where shardings of parameters meet, each "NAME=SPEC"; of the best only. Names are
    // those after calls are inlined, as SpmdOptions.shards takes them. `words` says the same in JAX's.
    const char *const *inner;
    int64_t inner_count;
    const char *words;
    int64_t step_picoseconds, hbm_peak_bytes;
    double mfu;         // of the best; else 0
    double price;       // of a chip an hour, as the options have it; negative: none
    bool names_scopes;  // of the best: as in EmuReport
    bool fits;          // into the memory of a device
    bool is_exact;      // all shardings that there are on this mesh were timed
    AdviceRepair repair;
    const char *pass;  // that makes the repair (hlo/pass/passes.def); "" for none
} AdvicePlanned;

// Free with advice_plan_free().
typedef struct AdvicePlan {
    HloArena *arena;
    const char *program;                    // its name
    const AdvicePlanned *all;               // one for each mesh and slice on which the program can be laid out
    int64_t count;                          // at least 1
    const AdvicePlanned *best;              // one of them
    int64_t parameter_count, result_count;  // flattened
    const char *const *names;               // by parameter, as advice_parameter_name()
    const char *const *patterns;  // by parameter: the pattern of equal layers that are sharded alike, or its name
    int64_t evaluated;            // plans that were timed
    int64_t left_out;             // meshes on which the program cannot be laid out
    const char *reason;           // why not on the first of them; "" if there are none
    int64_t untried;              // meshes, or repairs of the program on them, before which the budget ended
} AdvicePlan;

// Searches. `module` is verified and only read. INVALID_ARGUMENT for a pattern or kept sharding that is wrong, for a
// program that can be laid out on none of the meshes or is that of one device already; UNIMPLEMENTED for host
// processors, which have no machine model; RESOURCE_EXHAUSTED. A program that does not fit is a result, not an error.
// Any thread; trials run on as many threads as there are processors.
HLO_EXPORT HLO_NODISCARD HloStatus advice_plan_new(const HloModule *module, const AdvicePlanOptions *options,
                                                   AdvicePlan **plan);
// Frees a plan; accepts NULL.
HLO_EXPORT void advice_plan_free(AdvicePlan *plan);

// The plan as options that every verb takes, one line for the parameters of equal layers, and the other meshes.
HLO_EXPORT void advice_plan_print(HloText *text, const AdvicePlan *plan);
// The object of `meshlo plan --json`, and a newline.
HLO_EXPORT void advice_plan_write_json(const AdvicePlan *plan, HloText *text);
// A new module: the program that was planned, with the best plan's repair and annotations. Errors as spmd_remesh().
HLO_EXPORT HLO_NODISCARD HloStatus advice_plan_apply(const HloModule *module, const AdvicePlan *plan,
                                                     HloModule **annotated);

HLO_END_C

#endif
