// SPDX-License-Identifier: Apache-2.0
// Every way to cut a matrix over a small mesh, written in three forms, and every move from one to another: the data
// stay the same, for sizes that divide and for sizes that do not.
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "hlo/hlo.h"
#include "hlo/text/text.h"
#include "spmd_partitioner/convert.h"
#include "spmd_partitioner/spmd.h"
#include "tests/spmd/check.h"
#include "tests/support/cases.h"

// Meshes of up to three axes, 0 where there is none.
static const struct {
    const char *name;
    int64_t sizes[3];
    int axes;
} meshes[] = {{"2", {2}, 1},      {"3", {3}, 1},      {"2x2", {2, 2}, 2},
              {"2x3", {2, 3}, 2}, {"4x2", {4, 2}, 2}, {"2x2x2", {2, 2, 2}, 3}};

// Where each axis of a mesh is in a cut: in which dimension (-1: none), and after how many others of it.
typedef struct Cut {
    int dims[3], places[3];
} Cut;

enum { MOST_CUTS = 128 };

// Whether the places of each dimension's axes are 0, 1, 2 …, each once.
static bool is_cut(const Cut *cut, int axes) {
    for (int dim = 0; dim < 2; dim++) {
        int count = 0, seen = 0;
        for (int a = 0; a < axes; a++) {
            if (cut->dims[a] != dim) continue;
            count++;
            seen |= 1 << cut->places[a];
        }
        if (seen != (1 << count) - 1) return false;
    }
    for (int a = 0; a < axes; a++) {
        if (cut->dims[a] < 0 && cut->places[a] != 0) return false;
    }
    return true;
}

static int list_cuts(int axes, Cut *cuts) {
    int count = 0, combinations = 1;
    for (int a = 0; a < axes; a++) combinations *= 9;
    for (int number = 0; number < combinations; number++) {
        Cut cut = {0};
        for (int a = 0, rest = number; a < axes; a++, rest /= 9) {
            cut.dims[a] = rest % 3 - 1;
            cut.places[a] = rest % 9 / 3;
        }
        if (!is_cut(&cut, axes)) continue;
        cr_assert_lt(count, MOST_CUTS);
        cuts[count++] = cut;
    }
    return count;
}

// {mesh['a'=2,'b'=2], [{'a'}, {}]}
static void write_cut(HloText *text, const int64_t *sizes, int axes, const Cut *cut) {
    hlo_text_string(text, "{mesh[");
    for (int a = 0; a < axes; a++) {
        hlo_text_format(text, "%s'%c'=%lld", a ? "," : "", 'a' + a, (long long)sizes[a]);
    }
    hlo_text_string(text, "], [");
    for (int dim = 0; dim < 2; dim++) {
        hlo_text_string(text, dim ? ", {" : "{");
        for (int place = 0; place < axes; place++) {
            for (int a = 0; a < axes; a++) {
                if (cut->dims[a] == dim && cut->places[a] == place) {
                    hlo_text_format(text, "%s'%c'", place ? "," : "", 'a' + a);
                }
            }
        }
        hlo_text_char(text, '}');
    }
    hlo_text_string(text, "]}");
}

static int64_t device_count(const int64_t *sizes, int axes) {
    int64_t count = 1;
    for (int a = 0; a < axes; a++) count *= sizes[a];
    return count;
}

static struct criterion_test_params each_mesh(void) {
    return cases_numbered(HLO_COUNT_OF(meshes));
}

// ---------------------------------------------------------------------------------------------------------------------
// Moves

CaseList(every_pair, moves_to_every_other_sharding) {
    return each_mesh();
}

// Larger meshes have thousands of pairs: each cut goes to a few others, chosen by its number, so that all are reached.
CaseTest(const int *number, every_pair, moves_to_every_other_sharding) {
    static const int64_t dims[][2] = {{12, 8}, {5, 7}};
    const int64_t *sizes = meshes[*number].sizes;
    int axes = meshes[*number].axes;
    Cut cuts[MOST_CUTS];
    int count = list_cuts(axes, cuts), step = count > 20 ? 13 : 1;
    for (int from = 0; from < count; from++) {
        for (int k = 0; k < count; k += step) {
            int to = (from + k) % count;
            const int64_t *size = dims[(from + k) % 2];
            HloText text = {0};
            hlo_text_format(&text,
                            "HloModule m, num_partitions=%lld\nENTRY e {\n p = f32[%lld,%lld] parameter(0), sharding=",
                            (long long)device_count(sizes, axes), (long long)size[0], (long long)size[1]);
            write_cut(&text, sizes, axes, &cuts[from]);
            hlo_text_format(&text, "\n ROOT c = f32[%lld,%lld] copy(p), sharding=", (long long)size[0],
                            (long long)size[1]);
            write_cut(&text, sizes, axes, &cuts[to]);
            hlo_text_string(&text, "\n}\n");
            check_partitioned(text.data, NULL, (uint64_t)(from * count + to));
            hlo_text_free(&text);
        }
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Forms

// {devices=[2,2]0,2,1,3} of a tiling by iota: the first form of the same sharding.
static const HloSharding *as_list(HloArena *arena, const HloSharding *iota) {
    if (iota->kind != HLO_SHARDING_TILED) return iota;
    HloSharding *list = hlo_arena_copy(arena, iota, sizeof(*iota));
    int64_t count = 1;
    for (int64_t d = 0; d < iota->tile_dims.count; d++) count *= iota->tile_dims.items[d];
    int64_t *devices = HLO_ARENA_NEW(arena, int64_t, count);
    hlo_iota_devices_expand(&iota->iota, devices);
    list->devices = (HloInts){devices, count};
    list->iota = (HloIotaDevices){0};
    return list;
}

static void expect_same_parts(const HloSharding *one, const HloSharding *other, const HloShape *shape,
                              int64_t devices) {
    for (int64_t device = 0; device < devices; device++) {
        int64_t here[2], there[2];
        cr_assert_null(spmd_shard_offsets(shape, one, device, here));
        cr_assert_null(spmd_shard_offsets(shape, other, device, there));
        cr_expect(here[0] == there[0] && here[1] == there[1], "device %lld", (long long)device);
    }
}

CaseList(every_pair, three_forms_say_the_same) {
    return each_mesh();
}

CaseTest(const int *number, every_pair, three_forms_say_the_same) {
    const int64_t *sizes = meshes[*number].sizes;
    int axes = meshes[*number].axes;
    int64_t devices = device_count(sizes, axes);
    HloArena *arena = hlo_arena_new();
    SpmdMeshAxis mesh_axes[3] = {{"a", sizes[0]}, {"b", sizes[1]}, {"c", sizes[2]}};
    const SpmdMesh *mesh;
    cr_assert_null(spmd_mesh_new(arena, mesh_axes, axes, &mesh));
    const int64_t dims[] = {24, 36};
    const HloShape *shape = hlo_shape_array(arena, HLO_F32, dims, 2);
    Cut cuts[MOST_CUTS];
    int count = list_cuts(axes, cuts);
    for (int i = 0; i < count; i++) {
        HloText text = {0};
        write_cut(&text, sizes, axes, &cuts[i]);
        const HloSharding *v3;
        cr_assert_null(hlo_parse_sharding(arena, text.data, text.length, &v3), "%s", text.data);
        SpmdAnnotation own, from_iota, from_list;
        cr_assert_null(spmd_annotation_from_hlo(arena, mesh, v3, 2, &own));
        const HloSharding *v2 = spmd_sharding_to_hlo(arena, mesh, own.sharding, NULL), *v1 = as_list(arena, v2);
        cr_assert_null(spmd_annotation_from_hlo(arena, mesh, v2, 2, &from_iota), "%s", text.data);
        cr_assert_null(spmd_annotation_from_hlo(arena, mesh, v1, 2, &from_list), "%s", text.data);
        cr_expect_null(from_list.devices, "%s", text.data);
        cr_expect(spmd_sharding_equal(own.sharding, from_iota.sharding), "%s", text.data);
        expect_same_parts(v3, v2, shape, devices);
        expect_same_parts(v2, v1, shape, devices);
        hlo_text_free(&text);
    }
    hlo_arena_free(arena);
}
