// SPDX-License-Identifier: Apache-2.0
// Machines on the command line: the chosen slice, meshes, and the devices of a mesh.
#ifndef MESHLO_TOOLS_MACHINE_H_
#define MESHLO_TOOLS_MACHINE_H_

#include "emulator/emulator.h"
#include "spmd_partitioner/spmd.h"
#include "tools/cli.h"

// A mesh as --mesh spells it.
typedef struct CliMesh {
    const SpmdMeshAxis *axes;  // in the context's arena
    int64_t count;
    int64_t devices;  // product of the sizes; 1 without axes
} CliMesh;

// Reads `x=4,y=2`, or sizes alone (`4,2`; the axes are then called axis0, axis1, …). NULL gives a mesh without axes.
// INVALID_ARGUMENT for empty, repeated or malformed axes and products over 2^20.
HLO_NODISCARD HloStatus cli_mesh_parse(CliContext *context, const char *text, CliMesh *mesh);

// Reads `8192,8192`; at most `room` numbers of at least 0. "" gives none. `option` names the flag in messages.
HLO_NODISCARD HloStatus cli_numbers_parse(CliContext *context, const char *option, const char *text, int64_t room,
                                          int64_t *numbers, int64_t *count);
// Appends the numbers of at least 0 of a text option, "0,2,-", to `numbers`; "-" gives -1 if `has_none`. None where the
// option was not given. A usage error if the text is no list of `what`.
HLO_NODISCARD HloStatus cli_numbers(CliContext *context, const char *option, bool has_none, const char *what,
                                    HloInt64Vector *numbers);

// Makes the topology that `spec` names, or MESHLO_TOPOLOGY where it is NULL, or `otherwise` where that is not set
// either (NULL: an error that asks for one). The caller frees it with emu_topology_free().
HLO_NODISCARD HloStatus cli_topology_open(CliContext *context, const char *spec, const char *otherwise,
                                          EmuTopology **topology);

// The device ids of a mesh in JAX's make_mesh order, in the context's arena. Errors as emu_mesh_order().
HLO_NODISCARD HloStatus cli_mesh_ids(CliContext *context, const EmuTopology *topology, const int64_t *sizes,
                                     int64_t count, bool split, const int64_t **ids);

// Calls visit(argument, slice) for the slices of a generation that have names: powers of two of devices, up to the pod.
void cli_each_slice(CliContext *context, const EmuChip *chip,
                    void (*visit)(void *argument, const EmuTopology *topology), void *argument);

#endif
