// SPDX-License-Identifier: Apache-2.0
// Builds the list of devices from a plan (a chip, a shape in chips, a number of slices). The order of the list, ids,
// coordinates and hosts are those of JAX for the same slice. Ids run through the whole slice, x fastest, while the list
// is ordered host by host, so the two orders differ wherever a host has more than one row. The kind of chip determines
// which axes close to rings (chips.def records the rule).
#include "emulator/topology.h"

#include <assert.h>
#include <string.h>

#include "emulator/slice/topology_build.h"

// Checks the bounds that do not depend on how the shape was named.
static HloStatus check_shape(const EmuTopologyPlan *plan) {
    const EmuChip *chip = plan->chip;
    const int64_t *shape = plan->shape;
    assert(shape[0] >= 1 && shape[1] >= 1 && shape[2] >= 1); /* the readers of names and pods check it */
    HLO_FAIL_IF(chip->torus_axes == 2 && shape[2] != 1, HLO_INVALID_ARGUMENT, "%s: %s slices have two axes, not three",
                plan->name, chip->name);
    const int64_t pod = chip->pod_x * chip->pod_y * chip->pod_z;
    const int64_t longest = chip->pod_x > chip->pod_y ? chip->pod_x : chip->pod_y;
    const int64_t limit = longest > chip->pod_z ? longest : chip->pod_z;
    HLO_FAIL_IF(shape[0] > limit || shape[1] > limit || shape[2] > limit || shape[0] * shape[1] * shape[2] > pod,
                HLO_INVALID_ARGUMENT, "%s: larger than a %s pod of %lldx%lldx%lld chips", plan->name, chip->name,
                (long long)chip->pod_x, (long long)chip->pod_y, (long long)chip->pod_z);
    HLO_FAIL_IF(plan->slice_count < 1 || plan->slice_count > EMU_MAX_DEVICES / pod, HLO_INVALID_ARGUMENT,
                "%s: %lld slices are out of range", plan->name, (long long)plan->slice_count);
    return HLO_SUCCESS;
}

// The host bounds to use: given, or the chip's; a single chip is a host of its own.
static HloStatus choose_host_bounds(const EmuTopologyPlan *plan, int64_t bounds[3]) {
    const int64_t usual[3] = {plan->chip->host_x, plan->chip->host_y, plan->chip->host_z};
    const bool single = plan->shape[0] * plan->shape[1] * plan->shape[2] == 1;
    for (int axis = 0; axis < 3; axis++) {
        bounds[axis] = single ? 1 : plan->host_bounds[axis] ? plan->host_bounds[axis] : usual[axis];
        HLO_FAIL_IF(plan->shape[axis] % bounds[axis], HLO_INVALID_ARGUMENT,
                    "%s: hosts of %lldx%lldx%lld chips do not divide a slice of %lldx%lldx%lld", plan->name,
                    (long long)(plan->host_bounds[0] ? plan->host_bounds[0] : usual[0]),
                    (long long)(plan->host_bounds[1] ? plan->host_bounds[1] : usual[1]),
                    (long long)(plan->host_bounds[2] ? plan->host_bounds[2] : usual[2]), (long long)plan->shape[0],
                    (long long)plan->shape[1], (long long)plan->shape[2]);
    }
    return HLO_SUCCESS;
}

// Applies the chip's rule that determines which axes close to rings.
static void choose_wrap(const EmuTopologyPlan *plan, bool wrap[3]) {
    const EmuChip *chip = plan->chip;
    const int64_t pod[3] = {chip->pod_x, chip->pod_y, chip->pod_z};
    bool full = true, cubes = true;
    for (int axis = 0; axis < 3; axis++) {
        full = full && plan->shape[axis] == pod[axis];
        cubes = cubes && plan->shape[axis] % 4 == 0;
    }
    for (int axis = 0; axis < 3; axis++) {
        bool wraps = false;
        switch ((EmuWrapRule)chip->wrap_rule) {
            case EMU_WRAP_NEVER: break;
            case EMU_WRAP_FULL_POD: wraps = full; break;
            case EMU_WRAP_FULL_AXIS: wraps = plan->shape[axis] == pod[axis]; break;
            case EMU_WRAP_CUBES: wraps = cubes; break;
        }
        // Two chips always have only one link between them, even if the plan sets a wrap.
        wrap[axis] = (plan->wrap_given ? plan->wrap[axis] : wraps) && plan->shape[axis] > 2;
    }
}

// The number of a device's chip inside its slice: x, y, z from the fastest to the slowest.
static int64_t local_chip(const EmuTopology *topology, const EmuDevice *device) {
    const int64_t *c = device->coords, *shape = topology->shape;
    return c[0] + shape[0] * (c[1] + shape[1] * c[2]);
}

// The id of a device inside its slice: core, then its chip.
static int64_t local_id(const EmuTopology *topology, const EmuDevice *device) {
    return device->core_on_chip + topology->devices_per_chip * local_chip(topology, device);
}

// Appends the devices of one host: z, y, x and core from the slowest to the fastest.
static void list_host(const EmuTopology *topology, const int64_t origin[3], EmuDevice proto, EmuDevice **next) {
    const int64_t *bounds = topology->host_bounds;
    for (int64_t z = 0; z < bounds[2]; z++)
        for (int64_t y = 0; y < bounds[1]; y++)
            for (int64_t x = 0; x < bounds[0]; x++)
                for (int64_t core = 0; core < topology->devices_per_chip; core++) {
                    EmuDevice device = proto;
                    device.coords[0] = origin[0] + x;
                    device.coords[1] = origin[1] + y;
                    device.coords[2] = origin[2] + z;
                    device.core_on_chip = core;
                    device.id = local_id(topology, &device);
                    if (topology->slice_count > 1) device.id += EMU_SLICE_ID_STRIDE * (proto.slice_index + 1);
                    *(*next)++ = device;
                }
}

// Fills the device list in jax.devices() order: hosts x-minor, slices after one another.
static void list_devices(EmuTopology *topology, EmuDevice *devices) {
    const int64_t *shape = topology->shape, *bounds = topology->host_bounds;
    EmuDevice proto = {0}, *next = devices;
    for (proto.slice_index = 0; proto.slice_index < topology->slice_count; proto.slice_index++)
        for (int64_t z = 0; z < shape[2]; z += bounds[2])
            for (int64_t y = 0; y < shape[1]; y += bounds[1])
                for (int64_t x = 0; x < shape[0]; x += bounds[0], proto.process_index++)
                    list_host(topology, (int64_t[]){x, y, z}, proto, &next);
    topology->host_count = proto.process_index;
    HLO_BUG_IF(next - devices != topology->device_count);
}

// Makes an empty topology that owns `arena`.
static EmuTopology *new_topology(HloArena *arena, const char *name) {
    EmuTopology *topology = HLO_ARENA_NEW(arena, EmuTopology, 1);
    topology->storage = HLO_ARENA_NEW(arena, EmuTopologyStorage, 1);
    topology->storage->arena = arena;
    topology->name = hlo_arena_text(arena, name);
    return topology;
}

// Makes the cores of a chip separate devices, each with its share of the memory.
static void split_cores(EmuChip *chip) {
    assert(chip->cores_per_chip % chip->devices_per_chip == 0); /* chips.def and pod_xml.c see to it */
    const int64_t parts = chip->cores_per_chip / chip->devices_per_chip;
    chip->devices_per_chip = chip->cores_per_chip;
    chip->hbm_bytes_per_device /= parts;
    chip->hbm_reserved_bytes_per_device /= parts;
}

// Builds the list of devices in jax.devices() order from a plan (parsed elsewhere from a name or an XML file), and the
// map from the number of a device in its slice to its position in that list.
HloStatus emu_topology_build(HloArena *arena, const EmuTopologyPlan *plan, EmuTopology **result) {
    assert(arena && plan && result);
    HLO_TRY(check_shape(plan));
    EmuTopology *topology = new_topology(arena, plan->name);
    HLO_TRY(choose_host_bounds(plan, topology->host_bounds));
    choose_wrap(plan, topology->wrap);
    topology->platform = "tpu";
    topology->chip = *plan->chip;
    if (plan->cores_are_devices) split_cores(&topology->chip);
    topology->device_kind = plan->chip->device_kind;
    memcpy(topology->shape, plan->shape, sizeof(topology->shape));
    topology->twisted = plan->twisted;
    topology->slice_count = plan->slice_count;
    topology->devices_per_chip = topology->chip.devices_per_chip;
    topology->chip_count = emu_topology_slice_chips(topology) * plan->slice_count;
    topology->device_count = topology->chip_count * topology->devices_per_chip;
    EmuDevice *devices = HLO_ARENA_NEW(arena, EmuDevice, topology->device_count);
    list_devices(topology, devices);
    topology->devices = devices;
    const int64_t per_slice = topology->device_count / topology->slice_count;
    topology->storage->position_by_local_id = HLO_ARENA_NEW(arena, int64_t, per_slice);
    for (int64_t i = 0; i < per_slice; i++)
        topology->storage->position_by_local_id[local_id(topology, &devices[i])] = i;
    *result = topology;
    return HLO_SUCCESS;
}

HloStatus emu_topology_build_cpu(HloArena *arena, const char *name, int64_t count, EmuTopology **result) {
    assert(name && result);
    HLO_FAIL_IF(count < 1 || count > EMU_MAX_DEVICES, HLO_INVALID_ARGUMENT, "%s: %lld devices are out of range", name,
                (long long)count);
    EmuTopology *topology = new_topology(arena, name);
    topology->platform = topology->device_kind = "cpu";
    topology->shape[0] = topology->host_bounds[0] = count;
    for (int axis = 1; axis < 3; axis++) topology->shape[axis] = topology->host_bounds[axis] = 1;
    topology->slice_count = topology->devices_per_chip = topology->host_count = 1;
    topology->chip_count = topology->device_count = count;
    EmuDevice *devices = HLO_ARENA_NEW(arena, EmuDevice, count);
    topology->storage->position_by_local_id = HLO_ARENA_NEW(arena, int64_t, count);
    for (int64_t i = 0; i < count; i++) devices[i].id = topology->storage->position_by_local_id[i] = i;
    topology->devices = devices;
    *result = topology;
    return HLO_SUCCESS;
}

void emu_topology_free(EmuTopology *topology) {
    if (topology) hlo_arena_free(topology->storage->arena);
}

int64_t emu_topology_find_device(const EmuTopology *topology, int64_t id) {
    assert(topology);
    const int64_t per_slice = topology->device_count / topology->slice_count;
    int64_t slice = 0;
    if (topology->slice_count > 1) {
        slice = id / EMU_SLICE_ID_STRIDE - 1;
        id %= EMU_SLICE_ID_STRIDE;
    }
    if (id < 0 || id >= per_slice || slice < 0 || slice >= topology->slice_count) return -1;
    return slice * per_slice + topology->storage->position_by_local_id[id];
}

int64_t emu_topology_chip_of(const EmuTopology *topology, const EmuDevice *device) {
    if (!emu_topology_is_tpu(topology)) return device->id;
    return local_chip(topology, device) + device->slice_index * emu_topology_slice_chips(topology);
}

void emu_device_print(const EmuTopology *topology, const EmuDevice *device, HloText *text) {
    assert(topology && device && text);
    if (!emu_topology_is_tpu(topology)) {
        hlo_text_format(text, "CpuDevice(id=%lld)", (long long)device->id);
        return;
    }
    hlo_text_format(text, "TpuDevice(id=%lld, process_index=%lld, coords=(%lld,%lld,%lld), core_on_chip=%lld)",
                    (long long)device->id, (long long)device->process_index, (long long)device->coords[0],
                    (long long)device->coords[1], (long long)device->coords[2], (long long)device->core_on_chip);
}

void emu_topology_print_shape(const EmuTopology *topology, HloText *text) {
    hlo_text_format(text, "%lld", (long long)topology->shape[0]);
    const int64_t axes = emu_topology_is_tpu(topology) ? topology->chip.torus_axes : 1;
    for (int64_t axis = 1; axis < axes; axis++) hlo_text_format(text, "x%lld", (long long)topology->shape[axis]);
}
