// SPDX-License-Identifier: Apache-2.0
// Writes a slice as an hwloc machine in XML, which lstopo draws and schedulers read. hwloc builds the tree from a line
// in its synthetic format, for v5e-8 (one host of eight chips with one core each):
//
//   group:1 pack:8 [numa(memory=..)] l2:1(size=..) core:1 pu:1
//
// Here a group is a host, a package is a chip, the package's NUMA node is the HBM and its L2 the VMEM, and a core is a
// device. Coordinates, ids and the hops between chips are then added to the objects. Functions return 0 on success and
// nonzero on failure, as those of hwloc do.
#include "emulator/export_hwloc.h"

#include <assert.h>
#include <hwloc.h>
#include <hwloc/distances.h>
#include <stdlib.h>
#include <string.h>

#include "emulator/route.h"
#include "hlo/base/memory.h"

// An export in progress; chips are numbered host by host, in the order of the device list.
typedef struct Export {
    const EmuTopology *slice;
    hwloc_topology_t topology;
    int64_t devices_per_chip;
} Export;

// Describes the shape to hwloc: groups of packages with memory, caches and cores.
static int load_shape(const Export *export) {
    const EmuTopology *slice = export->slice;
    HloText text = {0};
    hlo_text_format(
        &text, "group:%lld pack:%lld [numa(memory=%lld)] l2:%lld(size=%lld) core:1 pu:1", (long long)slice->host_count,
        (long long)(slice->chip_count / slice->host_count),
        (long long)(slice->chip.hbm_bytes_per_device * slice->devices_per_chip), (long long)slice->devices_per_chip,
        (long long)(slice->chip.vmem_bytes_per_core * slice->chip.cores_per_chip / slice->devices_per_chip));
    int failed = text.failed || !text.data || hwloc_topology_set_synthetic(export->topology, text.data);
    hlo_text_free(&text);
    // Keep levels that have only one object.
    if (!failed) failed = hwloc_topology_set_all_types_filter(export->topology, HWLOC_TYPE_FILTER_KEEP_ALL);
    return failed || hwloc_topology_load(export->topology);
}

// Attaches a name and a printed value to an object.
static int add_info(hwloc_obj_t object, const char *name, HloText *value) {
    const int failed = !value->data || value->failed || hwloc_obj_add_info(object, name, value->data);
    hlo_text_free(value);
    return failed;
}

// Labels one chip and its devices.
static int label_chip(const Export *export, int64_t number) {
    assert(number >= 0);
    const EmuTopology *slice = export->slice;
    const int64_t place = number * export->devices_per_chip;
    const EmuDevice *device = &slice->devices[place];
    hwloc_obj_t chip = hwloc_get_obj_by_type(export->topology, HWLOC_OBJ_PACKAGE, (unsigned)number);
    if (!chip) return -1;
    HloText value = {0};
    free(chip->subtype);
    chip->subtype = strdup("TPUChip");
    hlo_text_format(&value, "%lld,%lld,%lld", (long long)device->coords[0], (long long)device->coords[1],
                    (long long)device->coords[2]);
    int failed = !chip->subtype || add_info(chip, "TpuCoords", &value);
    hlo_text_string(&value, slice->device_kind);
    failed = failed || add_info(chip, "TpuKind", &value);
    for (int64_t i = 0; i < export->devices_per_chip && !failed; i++) {
        hwloc_obj_t core = hwloc_get_obj_by_type(export->topology, HWLOC_OBJ_CORE, (unsigned)(place + i));
        hlo_text_format(&value, "%lld", (long long)slice->devices[place + i].id);
        failed = !core || add_info(core, "TpuDeviceId", &value);
    }
    hlo_text_free(&value);
    return failed;
}

// Gives the matrix to hwloc, which it copies. hwloc 2.5 has another call for that; Enterprise Linux 8 has 2.2.
static int add_matrix(hwloc_topology_t topology, unsigned count, hwloc_obj_t *objects, hwloc_uint64_t *hops) {
    const unsigned long kind = HWLOC_DISTANCES_KIND_FROM_USER | HWLOC_DISTANCES_KIND_MEANS_LATENCY;
#if HWLOC_API_VERSION >= 0x00020500
    hwloc_distances_add_handle_t handle = hwloc_distances_add_create(topology, "TPUICIHops", kind, 0);
    return !handle || hwloc_distances_add_values(topology, handle, count, objects, hops, 0) ||
           hwloc_distances_add_commit(topology, handle, 0);
#else
    return hwloc_distances_add(topology, count, objects, hops, kind, 0);
#endif
}

// Adds the matrix of links between chips.
static int add_distances(const Export *export) {
    const EmuTopology *slice = export->slice;
    const size_t count = (size_t)slice->chip_count;
    hwloc_obj_t *objects = hlo_allocate_zeroed(count, sizeof(*objects));
    hwloc_uint64_t *hops = hlo_allocate_zeroed(count * count, sizeof(*hops));
    int failed = !objects || !hops;
    for (size_t i = 0; i < count && !failed; i++) {
        objects[i] = hwloc_get_obj_by_type(export->topology, HWLOC_OBJ_PACKAGE, (unsigned)i);
        for (size_t j = 0; j < count; j++) {
            int64_t links[EMU_MAX_ROUTE];
            hops[i * count + j] = (hwloc_uint64_t)emu_route(slice, (int64_t)i * export->devices_per_chip,
                                                            (int64_t)j * export->devices_per_chip, links);
        }
        failed = !objects[i];
    }
    failed = failed || add_matrix(export->topology, (unsigned)count, objects, hops);
    hlo_free(objects);
    hlo_free(hops);
    return failed;
}

static int fill(const Export *export, HloText *xml) {
    if (load_shape(export)) return -1;
    for (int64_t number = 0; number < export->slice->chip_count; number++)
        if (label_chip(export, number)) return -1;
    // A single chip has no distances.
    if (export->slice->chip_count > 1 && add_distances(export)) return -1;
    char *buffer = NULL;
    int length = 0;
    if (hwloc_topology_export_xmlbuffer(export->topology, &buffer, &length, 0)) return -1;
    // The length counts the NUL at the end.
    hlo_text_append(xml, buffer, (size_t)(length > 0 ? length - 1 : 0));
    hwloc_free_xmlbuffer(export->topology, buffer);
    return 0;
}

HloStatus emu_export_hwloc(const EmuTopology *topology, HloText *xml) {
    assert(topology && xml);
    HLO_FAIL_IF(!emu_topology_is_tpu(topology), HLO_INVALID_ARGUMENT, "%s is not a TPU slice", topology->name);
    HLO_FAIL_IF(topology->chip_count > EMU_HWLOC_MAX_CHIPS, HLO_UNIMPLEMENTED,
                "%s: hwloc topologies of more than %d chips are not supported", topology->name, EMU_HWLOC_MAX_CHIPS);
    Export export = {.slice = topology, .devices_per_chip = topology->devices_per_chip};
    int failed = hwloc_topology_init(&export.topology);
    if (!failed) {
        failed = fill(&export, xml);
        hwloc_topology_destroy(export.topology);
    }
    HLO_FAIL_IF(failed, HLO_RESOURCE_EXHAUSTED, "%s: hwloc cannot make the topology", topology->name);
    return hlo_text_status(xml);
}
