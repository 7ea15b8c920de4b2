// SPDX-License-Identifier: Apache-2.0
// A slice: its chips on a torus, its hosts, its devices as JAX lists them.
//
// A slice is named by an accelerator type (`v5e-16`, `v4-32`), by a runtime name (`v5e:4x4`, `v4:2x2x2`, `v5:2x2x2`
// which is a v5p, `tpu7x:2x2x1`), with a number of slices before it (`2xv5e-16`), as host processors (`cpu:8`) or by an
// XML file (`pod.xml` for its first slice, `pod.xml#name` for another). Options may follow a name, as the runtime takes
// them beside it: `v5e:4x4,hosts=2x4x1` (chips of one host), `v5e:4x4,wrap=xy` (axes that close to rings, or `none`),
// `v4:2x2x2,megacore=no` (each core of a chip is a device).
//
// Stability: stable.
#ifndef MESHLO_EMULATOR_TOPOLOGY_H_
#define MESHLO_EMULATOR_TOPOLOGY_H_

#include "emulator/chip.h"
#include "hlo/base/status.h"
#include "hlo/base/text.h"

HLO_BEGIN_C

// The most chips along one axis of a slice.
#define EMU_MAX_AXIS 128
// Device ids of slice s of several start at this number times (s + 1), as the real runtime numbers them.
#define EMU_SLICE_ID_STRIDE 100000

// One device as JAX sees it.
typedef struct EmuDevice {
    int64_t id;
    int64_t process_index;
    int64_t coords[3];  // chip coordinates x, y, z; all 0 on host processors
    int64_t core_on_chip;
    int64_t slice_index;
} EmuDevice;

// A slice or several equal ones. Made by emu_topology_parse(); read-only afterwards, so any number of threads may read
// it.
typedef struct EmuTopology {
    const char *name;         // as the user gave it
    const char *platform;     // "tpu" or "cpu"
    const char *device_kind;  // "TPU v5 lite"; "cpu"
    EmuChip chip;             // zeroed on host processors
    int64_t shape[3];         // chips along x, y, z of one slice
    bool wrap[3];             // whether an axis has links from its end to its start
    bool twisted;             // a twisted torus was requested by name
    int64_t host_bounds[3];   // chips of one host along x, y, z
    int64_t slice_count;
    int64_t devices_per_chip;
    int64_t chip_count;        // of all slices
    int64_t device_count;      // of all slices
    int64_t host_count;        // of all slices
    const EmuDevice *devices;  // device_count of them in jax.devices() order
    struct EmuTopologyStorage *storage;
} EmuTopology;

// Makes the topology that `spec` names (see the top of this file). The caller frees it with emu_topology_free().
// INVALID_ARGUMENT for unknown names (near matches are suggested) and for files that do not describe a pod.
HLO_EXPORT HLO_NODISCARD HloStatus emu_topology_parse(const char *spec, EmuTopology **topology);
// Frees a topology; accepts NULL.
HLO_EXPORT void emu_topology_free(EmuTopology *topology);

// Whether this is a TPU slice, which has a machine model, and not a number of host processors.
static inline bool emu_topology_is_tpu(const EmuTopology *topology) {
    return topology->chip.name != NULL;
}

// Whether its chips compute while collectives run, so that these are split into halves. `topology` may be NULL, and is
// that of no such chip then.
static inline bool emu_topology_overlaps(const EmuTopology *topology) {
    return topology && emu_topology_is_tpu(topology) && topology->chip.overlaps_collectives;
}

// The position in `devices` of the device with this id, or -1.
HLO_EXPORT int64_t emu_topology_find_device(const EmuTopology *topology, int64_t id);

// Chips of one slice.
static inline int64_t emu_topology_slice_chips(const EmuTopology *topology) {
    return topology->shape[0] * topology->shape[1] * topology->shape[2];
}

// The number of a device's chip: x-minor, slice after slice.
HLO_EXPORT int64_t emu_topology_chip_of(const EmuTopology *topology, const EmuDevice *device);

// A device as JAX prints it, without a newline: `TpuDevice(id=0, process_index=0, coords=(0,0,0), core_on_chip=0)`.
HLO_EXPORT void emu_device_print(const EmuTopology *topology, const EmuDevice *device, HloText *text);

// "4x4" or "2x2x2": the chips along each axis of one slice, as runtime names spell it.
HLO_EXPORT void emu_topology_print_shape(const EmuTopology *topology, HloText *text);

HLO_END_C

#endif
