// SPDX-License-Identifier: Apache-2.0
// What the files that search for a plan share: the plans in the making, and what they cost.
#ifndef MESHLO_ADVICE_PLANNER_H_
#define MESHLO_ADVICE_PLANNER_H_

#include "advice/plan.h"
#include "advice/repair.h"
#include "advice/trial.h"
#include "hlo/base/map.h"
#include "spmd_partitioner/search/search.h"
#include "targets/spmd_machine.h"

// A program that is planned: the caller's, or that after a repair.
typedef struct Program {
    const HloModule *module;
    HloModule *repaired;     // NULL: the caller's
    HloModule *more, *less;  // with LAYERS_MORE and with LAYERS_LESS of its `layers`; NULL if it has few
    int64_t layers;
} Program;

// A plan in the making.
typedef struct Candidate {
    AdvicePlanned plan;
    const char *const *shards;  // p0=data,-; closed: one a parameter
    int64_t shard_count;
    bool refused;                 // the program cannot be laid out on this mesh
    bool untried;                 // the budget ended before it
    bool is_own;                  // the program's annotations are for this mesh
    bool is_floor;                // a plan of the outset, not to be lost; it is not searched
    bool is_whole;                // the numbers are those of the whole program
    bool is_closed;               // and of the plan with every parameter's sharding written out
    bool is_refined;              // values inside were annotated, where that helps
    const SpmdSearchTrial *best;  // the search's best plans
    int64_t best_count;
} Candidate;
typedef HLO_VECTOR(Candidate) Candidates;

// Layers of the two shorter programs: few, since each trial times both.
enum { LAYERS_MORE = 4, LAYERS_LESS = 2 };

// What is known of a plan that was costed.
typedef struct Known {
    SpmdSearchCost cost;
    uint64_t *resolved;  // as SpmdSearchTrial.resolved; NULL where that is
} Known;

// A plan of which both the estimate and the cost of the whole program are known.
typedef struct Checked {
    const char *mesh;
    const EmuTopology *topology;
    AdviceRepair repair;
    const uint64_t *resolved;  // as SpmdSearchTrial.resolved
    double time, memory;       // of the whole program by the estimate
} Checked;
typedef HLO_VECTOR(Checked) CheckedPlans;

typedef struct Planner {
    const HloModule *module;
    const AdvicePlanOptions *options;
    AdvicePlan *result;
    HloArena *arena;  // the result's
    Program programs[ADVICE_REPAIR_COUNT];
    const Program *program;                    // that is searched now
    HloModule *remeshed;                       // the same on the mesh that is searched now, or NULL
    AdviceTrial trial;                         // the one that closes a plan
    const void *closed;                        // the candidate whose plan that is, or NULL
    bool whole;                                // time the whole program now, as it is partitioned for good
    bool is_first_look;                        // estimates are not checked now
    SpmdSearchCost reference, reference_less;  // of the best plan of this mesh that fits, and its shorter one
    CheckedPlans checked;                      // of all meshes
    int64_t verified_step;           // the least of a checked plan that fits, on the slice of this mesh; 0: none
    const EmuTopology *verified_on;  // that slice
    double deadline;                 // of the mesh that is searched now, by planner_now()
    bool is_stopped;                 // by the caller
    const AdvicePlanned *mesh;       // that is searched now
    SpmdMachine machine;             // of its slice
    SpmdMachine quick;               // the same, of which partitioning does not ask for whole programs
    CompileOptions compile;          // of the trials on it, without shards
    HloStringMap known;              // Known by mesh and shards
    double begin, end;               // of the budget
    bool is_annotated, names_axes;   // the program, and that
    bool is_nameless;                // neither the program nor the kept shardings name an axis
    double whole_seconds;            // that a trial of the whole program takes
    bool must_run;                   // the next trials, even when the budget has ended
    int64_t best_step;               // so far, of what fits
    SpmdSearchObjective objective;
    Candidates candidates;
} Planner;

// Seconds of the clock that budgets are measured by.
double planner_now(void);
// The bytes that a program can have on a device.
int64_t planner_memory_limit(const EmuTopology *topology);
// Asks the caller whether to go on.
void planner_show_progress(Planner *planner);
// When the search must end: the plan is closed with up to four trials of the whole program.
double planner_search_end(const Planner *planner);
// Whether it must end now.
bool planner_is_spent(const Planner *planner);
// Whether the search of this mesh must; `argument` is the Planner.
bool planner_is_over(void *argument);
// What is known of a plan on the mesh that is searched now; NULL: nothing.
const Known *planner_find_known(const Planner *planner, const SpmdSearchTrial *trial);
// Costs what is new: SpmdSearchOptions.cost, with the Planner.
void planner_cost(void *argument, SpmdSearchTrial *trials, int64_t count);

#endif
