// SPDX-License-Identifier: Apache-2.0
// Converts Shardy's attributes to checked named shardings. See shardy.h.
#include "hlo/stablehlo/import/shardy.h"

#include <assert.h>
#include <string.h>

#include "hlo/base/nearest.h"
#include "hlo/stablehlo/text/parser.h"

// Axes are compared pairwise; real meshes have less than ten. The devices of a mesh may be written out one by one; the
// verifier sets the same limit for shardings (verify/attributes.c).
enum { MOST_AXES = 1024, MOST_DEVICES = 1 << 24 };

static bool is_sdy(const MlirAttribute *attribute, MlirSdyCode code) {
    return attribute && attribute->kind == MLIR_SDY && attribute->code == code;
}

// ---------------------------------------------------------------------------------------------------------------------
// Meshes

const MlirAttribute *hlo_sdy_find_mesh(const HloSdyMeshes *meshes, const MlirAttribute *mesh) {
    if (!mesh || mesh->kind == MLIR_SDY) return mesh;
    for (int64_t i = 0; mesh->string && i < meshes->count; i++)
        if (!strcmp(meshes->names[i], mesh->string)) return meshes->meshes[i];
    return NULL;
}

// Sizes are multiplied with a limit, as the devices may be written out later.
static HloStatus read_axes(HloArena *arena, const MlirAttribute *attribute, HloMesh *mesh, int64_t *devices) {
    HLO_FAIL_IF(attribute->count > MOST_AXES, HLO_INVALID_ARGUMENT, "a mesh has more than %d axes", MOST_AXES);
    const char **names = HLO_ARENA_NEW(arena, const char *, attribute->count);
    int64_t *sizes = HLO_ARENA_NEW(arena, int64_t, attribute->count);
    for (int64_t i = 0; i < attribute->count; i++) {
        const MlirAttribute *axis = attribute->items[i];
        HLO_FAIL_IF(
            !is_sdy(axis, MLIR_SDY_MESH_AXIS) || !axis->string || axis->ints.count != 1 || axis->ints.items[0] < 1,
            HLO_INVALID_ARGUMENT, "an axis of the mesh has no valid size");
        HLO_FAIL_IF(__builtin_mul_overflow(*devices, axis->ints.items[0], devices) || *devices > MOST_DEVICES,
                    HLO_INVALID_ARGUMENT, "a mesh has too many devices");
        for (int64_t k = 0; k < i; k++)
            HLO_FAIL_IF(!strcmp(names[k], axis->string), HLO_INVALID_ARGUMENT, "a mesh has the axis \"%s\" twice",
                        axis->string);
        names[i] = hlo_arena_text(arena, axis->string);
        sizes[i] = axis->ints.items[0];
    }
    mesh->axis_names = names;
    mesh->axis_sizes = (HloInts){sizes, attribute->count};
    return HLO_SUCCESS;
}

// Checks that each device of the mesh occurs once.
static HloStatus check_device_ids(HloArena *arena, HloInts ids, int64_t devices) {
    HLO_FAIL_IF(ids.count != devices, HLO_INVALID_ARGUMENT, "a mesh of %lld devices lists %lld", (long long)devices,
                (long long)ids.count);
    bool *seen = HLO_ARENA_NEW(arena, bool, devices);
    for (int64_t i = 0; i < ids.count; i++) {
        const int64_t id = ids.items[i];
        HLO_FAIL_IF(id < 0 || id >= devices || seen[id], HLO_INVALID_ARGUMENT,
                    "device %lld is repeated or out of range in a mesh of %lld devices", (long long)id,
                    (long long)devices);
        seen[id] = true;
    }
    return HLO_SUCCESS;
}

HloStatus hlo_sdy_mesh_of_attribute(HloArena *arena, const MlirAttribute *attribute, HloMesh *mesh) {
    assert(arena && mesh);
    int64_t devices = 1;
    *mesh = (HloMesh){0};
    HLO_FAIL_IF(!is_sdy(attribute, MLIR_SDY_MESH), HLO_INVALID_ARGUMENT, "a sharding names a mesh that does not exist");
    HLO_TRY(read_axes(arena, attribute, mesh, &devices));
    mesh->device_ids = hlo_ints_copy(arena, attribute->ints);
    mesh->is_maximal = attribute->count == 0 && attribute->ints.count == 1;
    if (mesh->is_maximal) {
        HLO_FAIL_IF(mesh->device_ids.items[0] < 0, HLO_INVALID_ARGUMENT, "a mesh names the device %lld",
                    (long long)mesh->device_ids.items[0]);
        return HLO_SUCCESS;
    }
    return attribute->ints.count ? check_device_ids(arena, mesh->device_ids, devices) : HLO_SUCCESS;
}

// ---------------------------------------------------------------------------------------------------------------------
// Axes

// Suggests the nearest name, if it is close enough, then lists all of them.
static HloStatus unknown_axis(const HloMesh *mesh, const char *name) {
    HloText known = {0};
    const char *near = hlo_nearest_name(name, mesh->axis_names, mesh->axis_sizes.count);
    for (int64_t i = 0; i < mesh->axis_sizes.count; i++) {
        if (i < 8) hlo_text_format(&known, "%s\"%s\"", i ? ", " : "", mesh->axis_names[i]);
        if (i == 8) hlo_text_string(&known, ", ...");
    }
    HloStatus status = hlo_error(
        HLO_INVALID_ARGUMENT, "a sharding names the axis \"%s\", which its mesh does not have%s%s%s; it has %s", name,
        near ? " (did you mean \"" : "", near ? near : "", near ? "\"?)" : "", known.data ? known.data : "none");
    hlo_text_free(&known);
    return status;
}

// True if an axis of size `whole` has the part (pre)size: `pre` devices come before a step along it, `size` are in it.
// "x":(2)3 of an axis of 12 is the middle digit of the device's number along it, written in digits of 2, 3 and 2.
static bool has_part(int64_t whole, HloInts part) {
    const int64_t pre = part.items[0], size = part.items[1];
    return pre >= 1 && size >= 2 && size < whole && pre <= whole && size <= whole / pre && whole % (pre * size) == 0;
}

// `is_name`: the list has names, as that of manual axes; else it has references, possibly to parts of axes.
static HloStatus read_axis(const HloMesh *mesh, const MlirAttribute *attribute, bool is_name, HloAxisRef *axis) {
    const bool fits = attribute && (is_name ? attribute->kind == MLIR_STRING : is_sdy(attribute, MLIR_SDY_AXIS_REF));
    HLO_FAIL_IF(!fits || !attribute->string, HLO_INVALID_ARGUMENT, "not a valid axis");
    int64_t index = 0;
    while (index < mesh->axis_sizes.count && strcmp(mesh->axis_names[index], attribute->string) != 0) index++;
    if (index == mesh->axis_sizes.count) return unknown_axis(mesh, attribute->string);
    *axis = (HloAxisRef){.axis = index, .pre_size = 1};
    if (attribute->count == 0) return HLO_SUCCESS;
    const HloInts part = attribute->items[0] ? attribute->items[0]->ints : (HloInts){0};
    HLO_FAIL_IF(part.count != 2 || !has_part(mesh->axis_sizes.items[index], part), HLO_INVALID_ARGUMENT,
                "a sub-axis does not fit axis \"%s\"", attribute->string);
    axis->pre_size = part.items[0];
    axis->size = part.items[1];
    return HLO_SUCCESS;
}

HloStatus hlo_sdy_axes_of_attribute(HloArena *arena, const HloMesh *mesh, const MlirAttribute *list,
                                    HloAxisRefs *axes) {
    assert(arena && mesh && axes);
    const int64_t count = list ? list->count : 0;
    HloAxisRef *refs = HLO_ARENA_NEW(arena, HloAxisRef, count);
    for (int64_t i = 0; i < count; i++)
        HLO_TRY(read_axis(mesh, list->items[i], is_sdy(list, MLIR_SDY_MANUAL_AXES), &refs[i]));
    *axes = (HloAxisRefs){.items = refs, .count = count};
    return HLO_SUCCESS;
}

// ---------------------------------------------------------------------------------------------------------------------
// Shardings

// An axis, or a part of one, may occur only once in a sharding. Parts of size one do not occur.
static HloStatus check_distinct(HloArena *arena, const HloNamedSharding *named) {
    HLO_VECTOR(const HloAxisRef *) all = {0};
    for (int64_t i = 0; i < named->dim_count + 2; i++) {
        const HloAxisRefs *refs = i < named->dim_count    ? &named->dims[i]
                                  : i == named->dim_count ? &named->replicated
                                                          : &named->unreduced;
        for (int64_t k = 0; k < refs->count; k++) {
            const HloAxisRef *axis = &refs->items[k];
            // Overlapping parts of axes of size one would continue forever.
            HLO_FAIL_IF(all.count > 2 * MOST_AXES, HLO_INVALID_ARGUMENT, "a sharding names too many axes");
            for (int64_t j = 0; j < all.count; j++) {
                HLO_FAIL_IF(hlo_axis_refs_overlap(all.items[j], axis), HLO_INVALID_ARGUMENT,
                            "a sharding names the axis \"%s\" twice", named->mesh.axis_names[axis->axis]);
            }
            hlo_vector_push(arena, &all, axis);
        }
    }
    return HLO_SUCCESS;
}

static HloStatus read_dimensions(HloArena *arena, const MlirAttribute *list, HloNamedSharding *named,
                                 const int32_t **priorities) {
    HloAxisRefs *dims = HLO_ARENA_NEW(arena, HloAxisRefs, list->count);
    int32_t *numbers = HLO_ARENA_NEW(arena, int32_t, list->count + 1);
    for (int64_t i = 0; i < list->count; i++) {
        const MlirAttribute *dim = list->items[i];
        HLO_FAIL_IF(!is_sdy(dim, MLIR_SDY_DIM_SHARDING) || dim->ints.count != 2, HLO_INVALID_ARGUMENT,
                    "not a valid dimension of a sharding");
        HLO_TRY(hlo_sdy_axes_of_attribute(arena, &named->mesh, dim, &dims[i]));
        dims[i].open = !dim->ints.items[0];
        const int64_t priority = dim->ints.items[1];
        HLO_FAIL_IF(priority < -1, HLO_INVALID_ARGUMENT, "dimension %lld of a sharding has a negative priority",
                    (long long)i);
        HLO_FAIL_IF(priority >= 0 && !dims[i].open && dims[i].count == 0, HLO_INVALID_ARGUMENT,
                    "dimension %lld of a sharding has a priority, but neither axes nor a question mark", (long long)i);
        numbers[i] = priority < 0 ? 0 : priority < INT32_MAX ? (int32_t)priority : INT32_MAX;
        if (numbers[i] > 0) *priorities = numbers;
    }
    named->dims = dims;
    named->dim_count = list->count;
    return HLO_SUCCESS;
}

HloStatus hlo_sdy_sharding_of_attribute(HloArena *arena, const HloSdyMeshes *meshes, const MlirAttribute *attribute,
                                        HloSdySharding *result) {
    assert(arena && meshes && result);
    HLO_FAIL_IF(!is_sdy(attribute, MLIR_SDY_SHARDING) || attribute->count != 4 || !attribute->items[1],
                HLO_INVALID_ARGUMENT, "unexpected element of a sharding attribute");
    const MlirAttribute *mesh = hlo_sdy_find_mesh(meshes, attribute->items[0]);
    HLO_FAIL_IF(!mesh && attribute->items[0] && attribute->items[0]->string, HLO_INVALID_ARGUMENT,
                "a sharding names a mesh that does not exist: @%s", attribute->items[0]->string);
    HloSharding *sharding = HLO_ARENA_NEW(arena, HloSharding, 1);
    HloNamedSharding *named = HLO_ARENA_NEW(arena, HloNamedSharding, 1);
    *result = (HloSdySharding){.sharding = sharding};
    sharding->kind = HLO_SHARDING_NAMED;
    sharding->named = named;
    named->whole = HLO_SHARDING_TILED;
    HLO_TRY(hlo_sdy_mesh_of_attribute(arena, mesh, &named->mesh));
    HLO_TRY(read_dimensions(arena, attribute->items[1], named, &result->priorities));
    HLO_TRY(hlo_sdy_axes_of_attribute(arena, &named->mesh, attribute->items[2], &named->replicated));
    HLO_TRY(hlo_sdy_axes_of_attribute(arena, &named->mesh, attribute->items[3], &named->unreduced));
    return check_distinct(arena, named);
}

HloStatus hlo_sdy_check_rank(const HloSharding *sharding, int64_t rank) {
    assert(sharding && sharding->kind == HLO_SHARDING_NAMED);
    const HloNamedSharding *named = sharding->named;
    HLO_FAIL_IF(!named->mesh.is_maximal && named->dim_count != rank, HLO_INVALID_ARGUMENT,
                "the sharding has %lld dimensions, but the value has rank %lld", (long long)named->dim_count,
                (long long)rank);
    return HLO_SUCCESS;
}

// ---------------------------------------------------------------------------------------------------------------------
// The text of frontend attributes

static int hex_digit(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

// Decodes one C escape, as absl::CEscape() writes them: letters, three octal digits, \x and hexadecimal digits. `at` is
// after the backslash; returns the position after the escape.
static const char *unescape_one(const char *at, char *result) {
    static const char letters[] = "abfnrtv", values[] = "\a\b\f\n\r\t\v";
    const char *letter = *at ? strchr(letters, *at) : NULL;
    if (letter) {
        *result = values[letter - letters];
        return at + 1;
    }
    unsigned value = 0;
    if (*at >= '0' && *at <= '7') {
        for (int i = 0; i < 3 && *at >= '0' && *at <= '7'; i++) value = value * 8 + (unsigned)(*at++ - '0');
        *result = (char)(unsigned char)value;
        return at;
    }
    if (*at == 'x' && hex_digit(at[1]) >= 0) {
        for (at++; hex_digit(*at) >= 0; at++) value = value * 16 + (unsigned)hex_digit(*at);
        *result = (char)(unsigned char)value;
        return at;
    }
    *result = *at;
    return *at ? at + 1 : at;
}

// The attribute's own text. Older releases of XLA escape its quotes once more than HLO text does: then all of them have
// a backslash. Everything else is MLIR's text, unchanged.
static const char *plain_text(HloArena *arena, const char *text) {
    bool escaped = false;
    for (const char *at = text; *at; at++) {
        if (*at == '"') return text;
        if (*at == '\\' && at[1]) {
            escaped = true;
            at++;
        }
    }
    if (!escaped) return text;
    char *plain = hlo_arena_string(arena, text, strlen(text)), *to = plain;
    for (const char *at = text; *at;) {
        if (*at != '\\') {
            *to++ = *at++;
        } else {
            at = unescape_one(at + 1, to++);
        }
    }
    *to = 0;
    return plain;
}

// An error inside the text quotes it: its position should be the instruction's, which the caller knows.
static HloStatus read_text(HloArena *arena, const char *text, const MlirAttribute **attribute) {
    const char *plain = plain_text(arena, text);
    HloStatus status = mlir_parse_attribute(arena, plain, strlen(plain), attribute);
    if (!status) return HLO_SUCCESS;
    const int64_t column = hlo_status_place(status) ? hlo_status_place(status)->column : 0;
    HloStatus quoted = hlo_error(hlo_status_code(status), "%s, at character %lld of '%.200s'",
                                 hlo_status_message(status), (long long)column, plain);
    hlo_status_free(status);
    return quoted;
}

HloStatus hlo_sdy_meshes(HloArena *arena, const HloModule *module, HloSdyMeshes *meshes) {
    assert(arena && module && meshes);
    *meshes = (HloSdyMeshes){0};
    for (int64_t i = 0; i < module->frontend_attributes.count; i++)
        if (!strcmp(module->frontend_attributes.items[i].key, HLO_SDY_MESHES))
            return hlo_sdy_meshes_of_text(arena, module->frontend_attributes.items[i].value, meshes);
    return HLO_SUCCESS;
}

HloStatus hlo_sdy_meshes_of_text(HloArena *arena, const char *text, HloSdyMeshes *meshes) {
    assert(arena && text && meshes);
    const MlirAttribute *list = NULL;
    HLO_TRY(hlo_status_annotate(read_text(arena, text, &list), HLO_SDY_MESHES));
    HLO_FAIL_IF(list->kind != MLIR_DICTIONARY, HLO_INVALID_ARGUMENT, HLO_SDY_MESHES " is not a dictionary of meshes");
    for (int64_t i = 0; i < list->count; i++) {
        HLO_FAIL_IF(!is_sdy(list->items[i], MLIR_SDY_MESH), HLO_INVALID_ARGUMENT, HLO_SDY_MESHES ": '%s' is not a mesh",
                    list->keys[i]);
        for (int64_t k = 0; k < i; k++)
            HLO_FAIL_IF(!strcmp(list->keys[k], list->keys[i]), HLO_INVALID_ARGUMENT,
                        HLO_SDY_MESHES " has the mesh '%s' twice", list->keys[i]);
    }
    *meshes = (HloSdyMeshes){list->keys, list->items, list->count};
    return HLO_SUCCESS;
}

HloStatus hlo_sdy_mesh(HloArena *arena, const HloSdyMeshes *meshes, int64_t index, HloMesh *mesh) {
    assert(index >= 0 && index < meshes->count);
    return hlo_status_annotate(hlo_sdy_mesh_of_attribute(arena, meshes->meshes[index], mesh), HLO_SDY_MESHES ": '%s'",
                               meshes->names[index]);
}

HloStatus hlo_sdy_shardings(HloArena *arena, const HloSdyMeshes *meshes, const char *text, HloSdyShardings *shardings) {
    assert(arena && meshes && text && shardings);
    const MlirAttribute *attribute = NULL;
    HLO_TRY(read_text(arena, text, &attribute));
    const bool list = is_sdy(attribute, MLIR_SDY_PER_VALUE);
    HLO_FAIL_IF(!list && !is_sdy(attribute, MLIR_SDY_SHARDING), HLO_INVALID_ARGUMENT,
                "it is neither a #sdy.sharding nor a #sdy.sharding_per_value");
    const int64_t count = list ? attribute->count : 1;
    HloSdySharding *items = HLO_ARENA_NEW(arena, HloSdySharding, count);
    for (int64_t i = 0; i < count; i++)
        HLO_TRY(hlo_sdy_sharding_of_attribute(arena, meshes, list ? attribute->items[i] : attribute, &items[i]));
    *shardings = (HloSdyShardings){items, count};
    return HLO_SUCCESS;
}

HloStatus hlo_sdy_manual_axes(HloArena *arena, const HloSdyMeshes *meshes, const HloMesh *mesh, const char *text,
                              const HloSharding **manual) {
    assert(arena && meshes && text && manual);
    const MlirAttribute *list = NULL;
    HLO_TRY(read_text(arena, text, &list));
    HLO_FAIL_IF(!is_sdy(list, MLIR_SDY_MANUAL_AXES), HLO_INVALID_ARGUMENT, "it is not #sdy<manual_axes{...}>");
    HloSharding *sharding = HLO_ARENA_NEW(arena, HloSharding, 1);
    HloNamedSharding *named = HLO_ARENA_NEW(arena, HloNamedSharding, 1);
    sharding->kind = HLO_SHARDING_NAMED;
    sharding->named = named;
    named->whole = HLO_SHARDING_TILED;
    if (mesh) named->mesh = *mesh;
    HloStatus status = mesh ? hlo_sdy_axes_of_attribute(arena, &named->mesh, list, &named->manual) : HLO_SUCCESS;
    for (int64_t i = 0; !mesh && i < meshes->count; i++) {
        hlo_status_free(status);
        HLO_TRY(hlo_sdy_mesh(arena, meshes, i, &named->mesh));
        status = hlo_sdy_axes_of_attribute(arena, &named->mesh, list, &named->manual);
        if (!status) break;
    }
    HLO_TRY(status);
    HLO_FAIL_IF(!mesh && meshes->count == 0 && list->count, HLO_INVALID_ARGUMENT, "there is no mesh with these axes");
    for (int64_t i = 0; i < named->manual.count; i++)
        for (int64_t k = 0; k < i; k++)
            HLO_FAIL_IF(named->manual.items[i].axis == named->manual.items[k].axis, HLO_INVALID_ARGUMENT,
                        "the axis \"%s\" is manual twice", named->mesh.axis_names[named->manual.items[i].axis]);
    *manual = sharding;
    return HLO_SUCCESS;
}

HloStatus hlo_sdy_check_rule(HloArena *arena, const char *text) {
    const MlirAttribute *rule = NULL;
    HLO_TRY(read_text(arena, text, &rule));
    HLO_FAIL_IF(!is_sdy(rule, MLIR_SDY_RULE), HLO_INVALID_ARGUMENT, "it is not an #sdy.op_sharding_rule");
    return HLO_SUCCESS;
}
