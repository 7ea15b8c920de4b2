// SPDX-License-Identifier: Apache-2.0
// Device identity.
//
// The texts are those of libtpu as JAX shows them (jax.devices(), and Device.__str__ of a TPU v2): programs parse them.
// emulator/topology.h determines the devices; this file only formats them.
#include "targets/tpu/identity.h"

#include <assert.h>
#include <string.h>

// Prints the str() form of a device: libtpu's DebugString.
static void print_debug(const EmuTopology *topology, const EmuDevice *from, HloText *text) {
    if (!emu_topology_is_tpu(topology)) {
        hlo_text_format(text, "CPU_%lld", (long long)from->id);
        return;
    }
    hlo_text_format(text, "TPU_%lld(process=%lld,(%lld,%lld,%lld,%lld))", (long long)from->id,
                    (long long)from->process_index, (long long)from->coords[0], (long long)from->coords[1],
                    (long long)from->coords[2], (long long)from->core_on_chip);
}

// Returns the number of devices before this one on the same host. The devices of a host are neighbours in the list and
// hosts are numbered in its order, so a binary search finds the host's first device. A linear scan would be quadratic
// for a machine of host devices, which is one host.
static int64_t local_number(const EmuTopology *topology, int64_t index) {
    const int64_t host = topology->devices[index].process_index;
    int64_t first = 0, last = index;
    while (first < last) {
        const int64_t middle = first + (last - first) / 2;
        if (topology->devices[middle].process_index < host)
            first = middle + 1;
        else
            last = middle;
    }
    return index - first;
}

HloStatus target_tpu_identify(const EmuTopology *topology, int64_t index, TargetDevice *device) {
    return target_tpu_identify_as(topology, index, topology->devices[index].process_index,
                                  local_number(topology, index), device);
}

// Finished texts stay in `device` even after an error, for the caller to free.
HloStatus target_tpu_identify_as(const EmuTopology *topology, int64_t index, int64_t process, int64_t local,
                                 TargetDevice *device) {
    assert(index >= 0 && index < topology->device_count);
    EmuDevice seen = topology->devices[index];
    const EmuDevice *from = &seen;
    seen.process_index = process;
    HloText text = {0}, debug = {0};
    emu_device_print(topology, from, &text);
    print_debug(topology, from, &debug);
    device->id = from->id;
    device->process_index = from->process_index;
    device->local_hardware_id = local;
    memcpy(device->coords, from->coords, sizeof device->coords);
    device->core_on_chip = from->core_on_chip;
    device->slice_index = from->slice_index;
    device->has_coords = emu_topology_is_tpu(topology);
    device->kind = topology->device_kind;
    device->text = text.data;
    device->debug_text = debug.data;
    HLO_TRY(hlo_text_status(&text));
    return hlo_text_status(&debug);
}
