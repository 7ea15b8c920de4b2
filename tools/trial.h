// SPDX-License-Identifier: Apache-2.0
// What-if trials of a program that is loaded once: each partitions it for a mesh and shardings, and times a step on a
// slice. compare, sweep and plan are made of them.
#ifndef MESHLO_TOOLS_TRIAL_H_
#define MESHLO_TOOLS_TRIAL_H_

#include "advice/trial.h"
#include "tools/machine.h"
#include "tools/sizes.h"

// One alternative. Texts live as long as the context.
typedef struct CliTrialOptions {
    const EmuTopology *topology;
    CliMesh mesh;               // without axes: the program's own
    const char *const *shards;  // values of --shard
    int64_t shard_count;
    EmuKernelCosts kernel_costs;
    bool is_synchronous;  // collectives stay whole, also where the slice overlaps them
} CliTrialOptions;

// Its result. Free with cli_trial_free().
typedef struct CliTrial {
    AdviceTrial result;
    const char *mesh, *mesh_source;  // as CliProgram has them
} CliTrial;

// Runs one trial of a verified module. A program that does not fit the device's memory is a result, not an error.
// INVALID_ARGUMENT where the slice has too few devices, and as compile_module() and emu_simulate().
HLO_NODISCARD HloStatus cli_trial_run(CliContext *context, const HloModule *module, const CliTrialOptions *options,
                                      CliTrial *trial);
// Frees what the trial holds; also after an error.
void cli_trial_free(CliTrial *trial);

// Reads the value of --budget: seconds (s), minutes (m) or milliseconds (ms); `otherwise` where it was not given.
HLO_NODISCARD HloStatus cli_budget(CliContext *context, double otherwise, double *seconds);

// Opens the slices of a list with commas, `v5e-8,v6e-8` (NULL: MESHLO_TOPOLOGY). A part without a letter before its
// first digit belongs to the item before it, as in v5e:4x4,hosts=2x4x1. Free each.
HLO_NODISCARD HloStatus cli_topologies_open(CliContext *context, const char *text, EmuTopology ***topologies,
                                            int64_t *count);

// As advice_meshes(), with usage errors.
HLO_NODISCARD HloStatus cli_meshes_expand(CliContext *context, const char *pattern, int64_t devices, bool orders,
                                          CliMesh **meshes, int64_t *count);

// Checks --price: every value is a generation of one of these slices, and what its chip costs an hour.
HLO_NODISCARD HloStatus cli_prices_check(CliContext *context, EmuTopology *const *topologies, int64_t count);
// What --price says of the slice's generation, the last value if there are several; below 0 if none does, and for
// values that cli_prices_check() refuses.
double cli_price_of(CliContext *context, const EmuTopology *topology);

#endif
