// SPDX-License-Identifier: Apache-2.0
// The order of devices in a mesh, as JAX's mesh_utils (create_device_mesh, create_hybrid_device_mesh) computes it:
// which device is at each position of a mesh of given sizes, so that neighbours along an axis are neighbours on the
// torus.
//
// The first of three steps that applies is used:
//
// - Small slices of some kinds have a fixed ring (the handlers): 2x2 chips are walked 0 1 3 2,
//   eight as
//
//       0 - 1 - 2 - 3
//       |           |      0 1 2 3 7 6 5 4: each step goes to a neighbour, and so does the last one
//       4 - 5 - 6 - 7
//
// - Devices that are not TPUs stay in their order.
//
// - Otherwise the physical axes of the torus are assigned to the mesh axes, whole ones where
//   possible: from the last mesh axis, which communicates most, to the first, each takes as many
//   physical axes as multiply to its size (emu_mesh_assign()). Where no combination does, an axis may
//   be split between mesh axes (mesh_split.c), if the caller allows it.
//   A 4x4x8 torus as mesh (16, 8): axis 1 takes z, axis 0 takes x and y.
//
// Over several slices the mesh of one slice is repeated, and the slices are the outer part of each axis.
//
// Tables and tie-breaks are those of JAX, including those that look arbitrary: programs rely on the order of device
// ids.
#include "emulator/mesh_order.h"

#include <assert.h>
#include <string.h>

#include "emulator/emulator.h"
#include "hlo/base/memory.h"

// Everything about one placement.
typedef struct Placement {
    HloArena *arena;
    const EmuDevice *devices;
    int64_t device_count;
    const char *device_kind;
    const int64_t *sizes;
    int64_t count;
    EmuMeshOptions options;
    int64_t *places;  // out
} Placement;

static bool kind_is(const Placement *placement, const char *kind) {
    return !strcmp(placement->device_kind, kind);
}

// "(4, 2)", as Python prints a tuple.
static void print_tuple(HloText *text, const int64_t *sizes, int64_t count) {
    hlo_text_char(text, '(');
    for (int64_t i = 0; i < count; i++) hlo_text_format(text, "%s%lld", i ? ", " : "", (long long)sizes[i]);
    hlo_text_string(text, count == 1 ? ",)" : ")");
}

// The positions in lexicographic order of (z, y, x), equal ones in list order. Insertion sort: there are at most 16
// devices.
static int64_t *sort_by_coords(const Placement *placement) {
    int64_t *order = HLO_ARENA_NEW(placement->arena, int64_t, placement->device_count);
    for (int64_t i = 0; i < placement->device_count; i++) {
        int64_t at = i;
        for (; at > 0; at--) {
            const int64_t *before = placement->devices[order[at - 1]].coords, *now = placement->devices[i].coords;
            int axis = 2;
            while (axis > 0 && before[axis] == now[axis]) axis--;
            if (before[axis] <= now[axis]) break;
            order[at] = order[at - 1];
        }
        order[at] = i;
    }
    return order;
}

// The bounds of the lexicographically largest coordinates, which JAX uses.
static void last_bounds(const Placement *placement, int64_t bounds[3]) {
    const int64_t *largest = placement->devices[0].coords;
    for (int64_t i = 1; i < placement->device_count; i++) {
        const int64_t *coords = placement->devices[i].coords;
        int axis = 0;
        while (axis < 2 && coords[axis] == largest[axis]) axis++;
        if (coords[axis] > largest[axis]) largest = coords;
    }
    for (int axis = 0; axis < 3; axis++) bounds[axis] = largest[axis] + 1;
}

// Places the devices in the order base[order[i]]; base NULL means list order.
static void lay(const Placement *placement, const int64_t *base, const uint8_t *order) {
    for (int64_t i = 0; i < placement->device_count; i++) placement->places[i] = base ? base[order[i]] : order[i];
}

// Rings of a tray of four v2, v3 or v7 chips with two devices each.
static const uint8_t tray_ring[8] = {0, 1, 2, 3, 6, 7, 4, 5};

// Repeats the tray's ring over the list, block by block.
static void lay_tray_rings(const Placement *placement) {
    for (int64_t i = 0; i < placement->device_count; i++) placement->places[i] = (i & ~INT64_C(7)) + tray_ring[i & 7];
}

// v2, v3: a ring over one tray, also where the last axis is a tray; else the list's order.
static bool place_v2(const Placement *placement) {
    if (placement->device_count == 8 || (placement->count && placement->sizes[placement->count - 1] == 8))
        lay_tray_rings(placement);
    else
        for (int64_t i = 0; i < placement->device_count; i++) placement->places[i] = i;
    return true;
}

// v4 lite, v8i: a ring over four chips.
static bool place_v4_lite(const Placement *placement) {
    static const uint8_t ring[4] = {0, 1, 3, 2};
    if (placement->device_count != 4) return false;
    lay(placement, NULL, ring);
    return true;
}

// v5e, v6e: rings over 2x2, over eight chips, and over 4x4 when the whole mesh is one group.
static bool place_v5e(const Placement *placement) {
    static const uint8_t four[4] = {0, 1, 3, 2};
    static const uint8_t eight[8] = {0, 1, 2, 3, 7, 6, 5, 4}, cube[8] = {0, 4, 2, 6, 1, 5, 3, 7};
    static const uint8_t sixteen[16] = {0, 1, 2, 3, 7, 6, 5, 9, 10, 11, 15, 14, 13, 12, 8, 4};
    const int64_t n = placement->device_count;
    int64_t bounds[3], largest = 1;
    last_bounds(placement, bounds);
    for (int64_t i = 0; i < placement->count; i++)
        if (placement->sizes[i] > largest) largest = placement->sizes[i];
    const uint8_t *order = NULL;
    if (n == 4 && bounds[0] == 2 && bounds[1] == 2 && bounds[2] == 1) order = four;
    if (n == 8) order = bounds[0] == 2 && bounds[1] == 2 && bounds[2] == 2 ? cube : eight;
    if (n == 16 && bounds[0] == 4 && bounds[1] == 4 && bounds[2] == 1 && largest == n) order = sixteen;
    if (order) lay(placement, sort_by_coords(placement), order);
    return order != NULL;
}

// Devices that call themselves v5p: a ring over 2x2x2.
static bool place_v5p(const Placement *placement) {
    static const uint8_t ring[8] = {0, 1, 3, 2, 6, 7, 5, 4};
    int64_t bounds[3];
    last_bounds(placement, bounds);
    if (placement->device_count != 8 || bounds[0] != 2 || bounds[1] != 2 || bounds[2] != 2) return false;
    lay(placement, sort_by_coords(placement), ring);
    return true;
}

// v7: trays one above the other, up to four of them.
static bool place_v7(const Placement *placement) {
    if (placement->device_count % 8 || placement->device_count > 32) return false;
    int64_t low[2] = {INT64_MAX, INT64_MAX}, high[2] = {0, 0};
    for (int64_t i = 0; i < placement->device_count; i++)
        for (int axis = 0; axis < 2; axis++) {
            const int64_t c = placement->devices[i].coords[axis];
            if (c < low[axis]) low[axis] = c;
            if (c > high[axis]) high[axis] = c;
        }
    if (high[0] - low[0] > 1 || high[1] - low[1] > 1) return false;
    lay_tray_rings(placement);
    return true;
}

// The kinds with an order of their own for small slices. A handler returns false to leave it to the general algorithm.
// The names are those of JAX's table, which has "TPU v5p" only: v5p devices call themselves "TPU v5", so that JAX does
// not find the handler for them and uses the general algorithm.
static const struct {
    const char *kind;
    bool (*place)(const Placement *placement);
} handlers[] = {
    {"TPU v2", place_v2},       {"TPU v3", place_v2},       {"TPU v4 lite", place_v4_lite},
    {"TPU v5 lite", place_v5e}, {"TPU v6 lite", place_v5e}, {"TPU v5p", place_v5p},
    {"TPU7x", place_v7},        {"TPU7", place_v7},         {"TPU8i", place_v4_lite},
};

// Fills the grid of devices by their coordinates.
static HloStatus physical_mesh(const Placement *placement, EmuPhysicalMesh *mesh) {
    int64_t low[4], high[4];
    for (int64_t i = 0; i < placement->device_count; i++)
        for (int axis = 0; axis < 4; axis++) {
            const EmuDevice *device = &placement->devices[i];
            const int64_t c = axis < 3 ? device->coords[axis] : device->core_on_chip;
            if (!i || c < low[axis]) low[axis] = c;
            if (!i || c > high[axis]) high[axis] = c;
        }
    int64_t extent[4], total = 1;
    for (int axis = 0; axis < 4; axis++) total *= extent[axis] = high[axis] - low[axis] + 1;
    HLO_FAIL_IF(
        total != placement->device_count, HLO_UNIMPLEMENTED,
        "the devices of the mesh do not fill a box of %lldx%lldx%lld chips: take all of the slice or a box of it",
        (long long)extent[0], (long long)extent[1], (long long)extent[2]);
    const bool flat = kind_is(placement, "TPU v2") || kind_is(placement, "TPU v3");
    const bool cores = kind_is(placement, "TPU7x") || kind_is(placement, "TPU7") || kind_is(placement, "TPU8i") ||
                       (kind_is(placement, "TPU v5p") && extent[3] == 2);
    HLO_FAIL_IF(!flat && !cores && low[3] + extent[3] > 1, HLO_UNIMPLEMENTED,
                "JAX cannot make a mesh of single cores of %s chips, only of whole chips (\"megacore\")",
                placement->device_kind);
    mesh->rank = !flat && cores ? 4 : 3;
    memcpy(mesh->sizes, extent, sizeof(extent));
    if (flat) mesh->sizes[2] = extent[3];
    mesh->places = HLO_ARENA_NEW(placement->arena, int64_t, total);
    memset(mesh->places, -1, (size_t)total * sizeof(int64_t));
    for (int64_t i = 0; i < placement->device_count; i++) {
        const EmuDevice *device = &placement->devices[i];
        int64_t index = 0;
        for (int axis = 0; axis < 4; axis++)
            index = index * extent[axis] + (axis < 3 ? device->coords[axis] : device->core_on_chip) - low[axis];
        HLO_FAIL_IF(mesh->places[index] >= 0, HLO_INVALID_ARGUMENT,
                    "two devices of the mesh have the same coordinates");
        mesh->places[index] = i;
    }
    return HLO_SUCCESS;
}

// Rearranges the grid so that the devices of a host are contiguous, if such an order is known.
static HloStatus make_contiguous(const Placement *placement, EmuPhysicalMesh *mesh) {
    static const struct {
        int64_t shape[3], logical[2];
        bool swap;  // exchange y and z
    } tricks[] = {{{2, 2, 1}, {2, 2}, false},    {{2, 2, 4}, {4, 4}, false},   {{4, 4, 4}, {16, 4}, true},
                  {{4, 8, 8}, {64, 4}, true},    {{4, 8, 8}, {4, 64}, true},   {{8, 8, 8}, {64, 8}, true},
                  {{8, 16, 16}, {256, 8}, true}, {{8, 16, 16}, {8, 256}, true}};
    int64_t logical[EMU_MAX_MESH_AXES], rank = 0;
    for (int64_t i = 0; i < placement->count; i++)
        if (placement->sizes[i] != 1) logical[rank++] = placement->sizes[i];
    for (size_t i = 0; i < HLO_COUNT_OF(tricks); i++) {
        if (mesh->rank != 3 || memcmp(tricks[i].shape, mesh->sizes, sizeof(tricks[i].shape))) continue;
        if (rank != 2 || memcmp(tricks[i].logical, logical, sizeof(tricks[i].logical))) continue;
        if (!tricks[i].swap) return HLO_SUCCESS;
        const int64_t x = mesh->sizes[0], y = mesh->sizes[1], z = mesh->sizes[2];
        int64_t *places = HLO_ARENA_NEW(placement->arena, int64_t, x * y * z);
        for (int64_t index = 0; index < x * y * z; index++)
            places[(index / (y * z) * z + index % z) * y + index / z % y] = mesh->places[index];
        mesh->places = places;
        mesh->sizes[1] = z, mesh->sizes[2] = y;
        return HLO_SUCCESS;
    }
    return hlo_error(HLO_INVALID_ARGUMENT, "contiguous submeshes are not known for this mesh on %lldx%lldx%lld chips",
                     (long long)mesh->sizes[0], (long long)mesh->sizes[1], (long long)mesh->sizes[2]);
}

// Finds the first set of `want` free physical axes, in ascending order, whose sizes multiply to `size`. Returns a bit
// set, or 0.
static unsigned find_axes(const int64_t *remaining, int64_t rank, int64_t want, int64_t size) {
    assert(rank >= 0 && want >= 0 && size > 0);
    // Combinations in lexicographic order of their ascending indices: with few axes, try all of them and keep the
    // first.
    unsigned best = 0;
    int64_t best_key = INT64_MAX;
    for (unsigned set = 1; set < 1u << rank; set++) {
        int64_t product = 1, key = 0, members = 0;
        for (int64_t axis = 0; axis < rank; axis++)
            if (set >> axis & 1) {
                product *= remaining[axis];
                key = key * 8 + axis;
                members++;
            }
        if (members == want && product == size && key < best_key) {
            best = set;
            best_key = key;
        }
    }
    return best;
}

// The last logical axis chooses first, and takes as many physical axes as it can: callers of JAX put the axis that
// communicates most at the end.
HloStatus emu_mesh_assign(const EmuPhysicalMesh *physical, const int64_t *sizes, int64_t count,
                          EmuMeshAssignment *assignment) {
    assert(physical && sizes && count > 0 && assignment);
    int64_t remaining[4];
    memcpy(remaining, physical->sizes, sizeof(remaining));
    assignment->axes = count;
    for (int64_t i = 0; i < physical->rank * count; i++) assignment->sizes[i] = 1;
    for (int64_t logical = count - 1; logical >= 0; logical--) {
        unsigned axes = 0;
        for (int64_t want = physical->rank; want > 0 && !axes; want--)
            axes = find_axes(remaining, physical->rank, want, sizes[logical]);
        if (!axes && sizes[logical] > 1) {
            HloText left = {0};
            print_tuple(&left, remaining, physical->rank);
            HloStatus status =
                hlo_error(HLO_UNIMPLEMENTED,
                          "mesh axis %lld of size %lld is not a product of whole physical axes (left are "
                          "%s, 0 is taken); allow split physical axes to map it",
                          (long long)logical, (long long)sizes[logical], left.data ? left.data : "");
            hlo_text_free(&left);
            return status;
        }
        for (int64_t axis = 0; axis < physical->rank; axis++)
            if (axes >> axis & 1) {
                assignment->sizes[axis * count + logical] = physical->sizes[axis];
                remaining[axis] = 0;
            }
    }
    return HLO_SUCCESS;
}

// Arranges the grid by an assignment: each physical axis is split into its factors (logical axes from major to minor),
// and the factors are grouped by logical axis and ordered by physical axis in each group. assignment->sizes[axis * axes
// + logical] is the part of physical axis `axis` that belongs to mesh axis `logical`.
static void lay_by_assignment(const Placement *placement, const EmuPhysicalMesh *mesh,
                              const EmuMeshAssignment *assigned) {
    int64_t strides[4 * EMU_MAX_MESH_AXES], stride = 1;
    for (int64_t i = mesh->rank * assigned->axes - 1; i >= 0; i--) {
        strides[i] = stride;
        stride *= assigned->sizes[i];
    }
    for (int64_t at = 0; at < placement->device_count; at++) {
        int64_t rest = at, index = 0;
        for (int64_t logical = assigned->axes - 1; logical >= 0; logical--)
            for (int64_t axis = mesh->rank - 1; axis >= 0; axis--) {
                const int64_t factor = axis * assigned->axes + logical, size = assigned->sizes[factor];
                index += rest % size * strides[factor];
                rest /= size;
            }
        placement->places[at] = mesh->places[index];
    }
}

// Places the mesh for kinds without a handler, and where the handler declines.
static HloStatus place_on_torus(const Placement *placement) {
    EmuPhysicalMesh mesh;
    EmuMeshAssignment assignment;
    HLO_TRY(physical_mesh(placement, &mesh));
    if (placement->options.contiguous_submeshes) HLO_TRY(make_contiguous(placement, &mesh));
    HloStatus status = emu_mesh_assign(&mesh, placement->sizes, placement->count, &assignment);
    if (status && placement->options.allow_split_physical_axes) {
        hlo_status_free(status);
        status = emu_mesh_assign_split(&mesh, placement->sizes, placement->count, &assignment);
    }
    if (!status) lay_by_assignment(placement, &mesh, &assignment);
    return status;
}

// Tries the handler of the kind, then the order of ids for devices that are not TPUs, then the torus.
static HloStatus place(void *argument) {
    const Placement *placement = argument;
    for (size_t i = 0; i < HLO_COUNT_OF(handlers); i++)
        if (kind_is(placement, handlers[i].kind) && handlers[i].place(placement)) return HLO_SUCCESS;
    if (strncmp(placement->device_kind, "TPU", 3)) {
        for (int64_t i = 0; i < placement->device_count; i++) placement->places[i] = i;
        return HLO_SUCCESS;
    }
    return place_on_torus(placement);
}

// The number of positions in a mesh; INVALID_ARGUMENT for sizes below 1 and products beyond int64_t.
static HloStatus product_of(const int64_t *sizes, int64_t count, int64_t *product) {
    int64_t total = 1;
    for (int64_t i = 0; i < count; i++)
        HLO_FAIL_IF(sizes[i] < 1 || __builtin_mul_overflow(total, sizes[i], &total), HLO_INVALID_ARGUMENT,
                    "mesh axis %lld has the impossible size %lld", (long long)i, (long long)sizes[i]);
    *product = total;
    return HLO_SUCCESS;
}

HloStatus emu_device_mesh(const EmuDevice *devices, int64_t device_count, const char *device_kind, const int64_t *sizes,
                          int64_t count, EmuMeshOptions options, int64_t *places_out) {
    assert(devices && sizes && places_out);
    HLO_FAIL_IF(count < 0 || count > EMU_MAX_MESH_AXES, HLO_INVALID_ARGUMENT, "a mesh has at most %d axes",
                EMU_MAX_MESH_AXES);
    int64_t total = 1;
    HLO_TRY(product_of(sizes, count, &total));
    HLO_FAIL_IF(total != device_count || device_count < 1, HLO_INVALID_ARGUMENT,
                "the mesh has %lld positions for %lld devices", (long long)total, (long long)device_count);
    HloArena *arena = hlo_arena_new();
    HLO_FAIL_IF(!arena, HLO_RESOURCE_EXHAUSTED, "no memory for a mesh");
    Placement placement = {arena, devices, device_count, device_kind, sizes, count, options, places_out};
    HloStatus status = hlo_protect(place, &placement);
    hlo_arena_free(arena);
    return status;
}

// Whether make_mesh splits physical axes of this kind by default.
static bool always_splits(const char *device_kind) {
    return !strcmp(device_kind, "TPU v5 lite") || !strcmp(device_kind, "TPU v5e");
}

HloStatus emu_mesh_positions(const EmuTopology *topology, const int64_t *sizes, int64_t count, int64_t *places) {
    assert(topology && places && count >= 0);
    int64_t total = 1;
    HLO_TRY(product_of(sizes, count, &total));
    HLO_FAIL_IF(total > topology->device_count, HLO_INVALID_ARGUMENT,
                "the mesh has %lld positions, but %s has only %lld devices", (long long)total, topology->name,
                (long long)topology->device_count);
    *places = total;
    return HLO_SUCCESS;
}

HloStatus emu_mesh_order(const EmuTopology *topology, const int64_t *sizes, int64_t count, bool allow_split,
                         int64_t *ids_out) {
    assert(topology && sizes && ids_out);
    int64_t total = 1;
    HLO_TRY(emu_mesh_positions(topology, sizes, count, &total));
    HLO_FAIL_IF(
        topology->devices[total - 1].slice_index > 0, HLO_UNIMPLEMENTED,
        "make_mesh does not spread a mesh over several slices: use a hybrid mesh (slices x devices of a slice)");
    const EmuMeshOptions options = {.allow_split_physical_axes = allow_split || always_splits(topology->device_kind)};
    HLO_TRY(emu_device_mesh(topology->devices, total, topology->device_kind, sizes, count, options, ids_out));
    for (int64_t i = 0; i < total; i++) ids_out[i] = topology->devices[ids_out[i]].id;
    return HLO_SUCCESS;
}

// The mesh within a slice is computed once and repeated: slices of one machine are alike.
HloStatus emu_mesh_order_hybrid(const EmuTopology *topology, const int64_t *sizes, const int64_t *dcn_sizes,
                                int64_t count, bool allow_split, int64_t *ids_out) {
    assert(topology && sizes && dcn_sizes && ids_out);
    HLO_FAIL_IF(count < 1 || count > EMU_MAX_MESH_AXES, HLO_INVALID_ARGUMENT, "a mesh has 1 to %d axes",
                EMU_MAX_MESH_AXES);
    int64_t slices = 1, total[EMU_MAX_MESH_AXES];
    for (int64_t i = 0; i < count; i++) {
        HLO_FAIL_IF(sizes[i] < 1 || dcn_sizes[i] < 1 || sizes[i] > EMU_SLICE_ID_STRIDE ||
                        __builtin_mul_overflow(slices, dcn_sizes[i], &slices) ||
                        __builtin_mul_overflow(sizes[i], dcn_sizes[i], &total[i]),
                    HLO_INVALID_ARGUMENT, "mesh axis %lld has an impossible size", (long long)i);
    }
    HLO_FAIL_IF(slices != topology->slice_count, HLO_INVALID_ARGUMENT, "a mesh over %lld slices on a machine with %lld",
                (long long)slices, (long long)topology->slice_count);
    const int64_t per_slice = topology->device_count / slices;
    int64_t *places = hlo_allocate(hlo_array_bytes((size_t)per_slice, sizeof(int64_t)));
    HLO_FAIL_IF(!places, HLO_RESOURCE_EXHAUSTED, "no memory for a mesh");
    const EmuMeshOptions options = {.allow_split_physical_axes = allow_split};
    HloStatus status =
        emu_device_mesh(topology->devices, per_slice, topology->device_kind, sizes, count, options, places);
    for (int64_t at = 0; !status && at < topology->device_count; at++) {
        int64_t rest = at, slice = 0, slice_stride = 1, inner = 0, inner_stride = 1;
        for (int64_t axis = count - 1; axis >= 0; axis--) {
            const int64_t index = rest % total[axis];
            rest /= total[axis];
            slice += index / sizes[axis] * slice_stride;
            inner += index % sizes[axis] * inner_stride;
            slice_stride *= dcn_sizes[axis];
            inner_stride *= sizes[axis];
        }
        ids_out[at] = topology->devices[slice * per_slice + places[inner]].id;
    }
    hlo_free(places);
    return status;
}

bool emu_mesh_ring_order(const EmuTopology *topology, const int64_t *sizes, int64_t count, EmuRings rings,
                         int64_t *ids_out) {
    assert(topology && sizes && rings.axis >= 0 && rings.axis < count && ids_out);
    assert(rings.along >= 0 && rings.along < 3 && rings.across >= 0 && rings.across < 3);
    const int64_t size = sizes[rings.axis], *shape = topology->shape;
    int64_t devices = 1, inner = 1, block[3] = {1, 1, 1};
    for (int64_t i = 0; i < count; i++) devices *= sizes[i];
    for (int64_t i = rings.axis + 1; i < count; i++) inner *= sizes[i];
    if (topology->slice_count != 1 || topology->devices_per_chip != 1 || devices != topology->device_count ||
        rings.along == rings.across || size < 4 || size % 2)
        return false;
    block[rings.along] = size / 2;
    block[rings.across] = 2;
    for (int axis = 0; axis < 3; axis++)
        if (shape[axis] % block[axis]) return false;
    for (int64_t place = 0; place < devices; place++) {
        const int64_t step = place / inner % size;
        int64_t number = place / (inner * size) * inner + place % inner, chip = 0, stride = 1;
        for (int axis = 0; axis < 3; axis++) {
            const int64_t blocks = shape[axis] / block[axis];
            int64_t at = number % blocks * block[axis];
            if (axis == rings.along) at += step < size / 2 ? step : size - 1 - step;
            if (axis == rings.across) at += step >= size / 2;
            number /= blocks;
            chip += at * stride;
            stride *= shape[axis];
        }
        ids_out[place] = chip;  // with one device a chip its number is the device's id
    }
    return true;
}

// The order of make_mesh where JAX would make a mesh (with several slices the hybrid one, across the first axis that
// they divide); else the order of jax.devices().
HloStatus emu_default_assignment(const EmuTopology *topology, const int64_t *sizes, int64_t count, int64_t *ids_out) {
    assert(topology && count >= 0 && ids_out);
    int64_t total, dcn[EMU_MAX_MESH_AXES], inner[EMU_MAX_MESH_AXES];
    HLO_FAIL_IF(count > EMU_MAX_MESH_AXES, HLO_INVALID_ARGUMENT, "a mesh has at most %d axes", EMU_MAX_MESH_AXES);
    HLO_TRY(emu_mesh_positions(topology, sizes, count, &total));
    HloStatus status = NULL;
    int64_t across = 0;
    while (across < count && sizes[across] % topology->slice_count) across++;
    if (topology->slice_count > 1 && total == topology->device_count && across < count) {
        for (int64_t i = 0; i < count; i++) {
            dcn[i] = i == across ? topology->slice_count : 1;
            inner[i] = sizes[i] / dcn[i];
        }
        status = emu_mesh_order_hybrid(topology, inner, dcn, count, false, ids_out);
    } else {
        status = emu_mesh_order(topology, sizes, count, false, ids_out);
    }
    if (hlo_status_code(status) == HLO_RESOURCE_EXHAUSTED) return status;
    for (int64_t i = 0; status && i < total; i++) ids_out[i] = topology->devices[i].id;
    hlo_status_free(status);
    return HLO_SUCCESS;
}
