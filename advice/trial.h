// SPDX-License-Identifier: Apache-2.0
// What-if trials: a program partitioned for a mesh and shardings, and timed on a slice; and the meshes that a pattern
// allows. Everything that compares plans is made of them.
//
// Stability: experimental.
#ifndef MESHLO_ADVICE_TRIAL_H_
#define MESHLO_ADVICE_TRIAL_H_

#include "compile/pipeline.h"
#include "emulator/emulator.h"

HLO_BEGIN_C

// What a trial gives. Free with advice_trial_free().
typedef struct AdviceTrial {
    CompiledModule *compiled;
    EmuReport *report;
} AdviceTrial;

// Runs one trial of a module, which is only read. `emulation` may be NULL; where it has no device assignment, the
// devices are those of target_default_assignment() for the mesh of `compile`. A program that does not fit the device's
// memory is a result, not an error. INVALID_ARGUMENT where the slice has too few devices; errors as compile_module()
// and emu_simulate(). *trial is valid, and must be freed, also after an error. Any thread.
HLO_EXPORT HLO_NODISCARD HloStatus advice_trial_run(const HloModule *module, const CompileOptions *compile,
                                                    const EmuTopology *topology, const EmuOptions *emulation,
                                                    AdviceTrial *trial);
// Times a program that has been compiled already; *report is new.
HLO_EXPORT HLO_NODISCARD HloStatus advice_simulate(const HloModule *module, const CompileOptions *compile,
                                                   const CompiledModule *compiled, const EmuTopology *topology,
                                                   const EmuOptions *emulation, EmuReport **report);
// Frees what the trial holds.
HLO_EXPORT void advice_trial_free(AdviceTrial *trial);

// A mesh of a pattern.
typedef struct AdviceMesh {
    const SpmdMeshAxis *axes;
    int64_t count;
} AdviceMesh;

// The meshes that a pattern like `data=*,model=*` or `data=4,model=*` allows on `devices` devices: all sizes whose
// product that is, in all orders of the axes that make a difference if `orders`. INVALID_ARGUMENT for patterns that
// cannot be read, and where there is no mesh; RESOURCE_EXHAUSTED. In `arena`.
HLO_EXPORT HLO_NODISCARD HloStatus advice_meshes(HloArena *arena, const char *pattern, int64_t devices, bool orders,
                                                 const AdviceMesh **meshes, int64_t *count);
// The pattern in which all axes that a program names have any size; NULL if it names none. In `arena`. Errors as
// spmd_named_axes().
HLO_EXPORT HLO_NODISCARD HloStatus advice_mesh_pattern(HloArena *arena, const HloModule *module, const char **pattern);

// The mesh of a program for people, "data=4,model=2": that of `axes`, which `given` names ("--mesh"), or where there
// are none the program's own. *source is `given`, or "the program's", "from the program's device lists", "the program's
// number of partitions", "one device". *text is "" on one device and where the program's mesh cannot be read. In
// `arena`. RESOURCE_EXHAUSTED, with both texts "".
HLO_EXPORT HLO_NODISCARD HloStatus advice_mesh_describe(HloArena *arena, const HloModule *module,
                                                        const SpmdMeshAxis *axes, int64_t count, const char *given,
                                                        const char **text, const char **source);

HLO_END_C

#endif
