// SPDX-License-Identifier: Apache-2.0
// Parses the name of a slice into its numbers.
//
// Names are an accelerator type (v5e-16: a number of chips, or of cores for the generations whose names count cores), a
// runtime shape (v4:2x2x2, the spelling of libtpu, also with '=' or '_'), a number of slices before the name
// (2xv5e-16), options after it (,hosts=2x2x1,wrap=xy,megacore=no), cpu:N, and a path to an XML file (pod_xml.c).
// Unknown names are rejected with the nearest known one; sizes are checked before they are multiplied.
#include <assert.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "emulator/slice/topology_build.h"
#include "emulator/topology.h"
#include "hlo/base/nearest.h"

// A spelling of a generation, and how many units of the number after '-' (cores or chips) make one chip.
typedef struct Family {
    const char *spelling;
    EmuGeneration generation;
    int64_t counted_per_chip;
} Family;

static const Family families[] = {
    {"v2", EMU_GENERATION_v2, 2},     {"v3", EMU_GENERATION_v3, 2},         {"v4", EMU_GENERATION_v4, 2},
    {"v5e", EMU_GENERATION_v5e, 1},   {"v5litepod", EMU_GENERATION_v5e, 1}, {"v5lite", EMU_GENERATION_v5e, 1},
    {"v5p", EMU_GENERATION_v5p, 2},   {"v5", EMU_GENERATION_v5p, 2},        {"v6e", EMU_GENERATION_v6e, 1},
    {"tpu7x", EMU_GENERATION_v7x, 2}, {"v7x", EMU_GENERATION_v7x, 2},       {"7x", EMU_GENERATION_v7x, 2},
    {"v7", EMU_GENERATION_v7x, 2},
};

// A name as the user gave it, and its parts: "2x" at the start, then the name, up to the options.
typedef struct Spelling {
    const char *spec;
    int slices;        // characters of the number of slices at the start
    const char *name;  // the text after them
} Spelling;

// The edits between a word, ignoring case, and a spelling, which is in lower case.
static int64_t distance_between(const char *word, size_t length, const char *spelling) {
    char lower[64] = {0};
    if (length >= sizeof(lower)) return INT64_MAX;
    for (size_t i = 0; i < length; i++) lower[i] = (char)tolower((unsigned char)word[i]);
    return hlo_edit_distance(lower, spelling);
}

// The error "unknown topology" with the families whose spelling is nearest.
static HloStatus unknown_family(const Spelling *given, size_t length) {
    const char *word = given->name, *rest = word + length;
    assert(length <= strlen(word));
    if (length > 32) length = 32;
    int64_t best = INT64_MAX;
    for (size_t i = 0; i < HLO_COUNT_OF(families); i++) {
        const int64_t d = distance_between(word, length, families[i].spelling);
        if (d < best) best = d;
    }
    HloText near = {0};
    for (size_t i = 0; i < HLO_COUNT_OF(families); i++)
        if (best <= 2 && distance_between(word, length, families[i].spelling) == best)
            hlo_text_format(&near, "%s%.*s%s%s", near.length ? ", " : "", given->slices, given->spec,
                            families[i].spelling, rest);
    HloStatus status =
        near.length ? hlo_error(HLO_INVALID_ARGUMENT, "unknown topology '%s'; did you mean %s?", given->spec, near.data)
                    : hlo_error(HLO_INVALID_ARGUMENT,
                                "unknown topology '%s'; known are v2, v3, v4, v5e, v5p, v6e and tpu7x, as in v5e-16, "
                                "v4:2x2x2 or 2xv5e-16, and cpu:8 or an XML file",
                                given->spec);
    hlo_text_free(&near);
    return status;
}

// Reads digits at `*at` up to 2^31; -1 if there are none or too many.
static int64_t read_number(const char **at) {
    int64_t value = 0;
    if (!isdigit((unsigned char)**at)) return -1;
    for (; isdigit((unsigned char)**at); ++*at)
        if ((value = value * 10 + (**at - '0')) > INT32_MAX) return -1;
    return value;
}

// The shape of slices below a cube of 4x4x4, for chips on three axes.
static bool small_cube_shape(const EmuChip *chip, int64_t chips, int64_t shape[3]) {
    assert(chips > 0);
    static const int64_t small[][3] = {{1, 1, 1}, {2, 2, 1}, {2, 2, 2}, {2, 2, 4}, {2, 4, 4}};
    // A single chip is sold only where it has two devices.
    for (size_t i = chip->devices_per_chip > 1 ? 0 : 1; i < HLO_COUNT_OF(small); i++)
        if (small[i][0] * small[i][1] * small[i][2] == chips) {
            memcpy(shape, small[i], sizeof(small[i]));
            return true;
        }
    return false;
}

// The shape of a slice of 4x4x4 cubes: the ascending factorisation inside the pod with the least surface, which has the
// most inner links and is how such slices are allocated. O(cubes) at most, and pods have some 140.
static bool cubes_shape(const EmuChip *chip, int64_t chips, int64_t shape[3]) {
    assert(chips > 0);
    const int64_t cubes = chips / 64;
    int64_t best = INT64_MAX;
    if (chips % 64) return false;
    for (int64_t a = 1; a * a * a <= cubes; a++)
        for (int64_t b = a; a * b * b <= cubes; b++) {
            if (cubes % (a * b)) continue;
            const int64_t c = cubes / (a * b), surface = a * b + b * c + c * a;
            if (4 * a > chip->pod_x || 4 * b > chip->pod_y || 4 * c > chip->pod_z || surface >= best) continue;
            best = surface;
            shape[0] = 4 * a, shape[1] = 4 * b, shape[2] = 4 * c;
        }
    return best != INT64_MAX;
}

// The shape of a slice on two axes: a power of two, as square as possible, the longer side last: 16 is 4x4, 32 is 4x8.
static bool plane_shape(const EmuChip *chip, int64_t chips, int64_t shape[3]) {
    shape[0] = shape[1] = shape[2] = 1;
    while (shape[0] * shape[1] < chips) shape[shape[1] > shape[0] ? 0 : 1] *= 2;
    // Chips with two devices are sold by the host of four; the others also singly. There is no machine of two chips.
    const bool sold = chips >= 4 || (chips == 1 && chip->devices_per_chip == 1);
    return sold && shape[0] * shape[1] == chips && shape[0] <= chip->pod_x && shape[1] <= chip->pod_y;
}

// The shape of an accelerator type of `chips` chips, if there is one.
static bool shape_of_chips(const EmuChip *chip, int64_t chips, int64_t shape[3]) {
    if (chips < 1) return false;  // "v4-0"
    if (chip->torus_axes == 2) return plane_shape(chip, chips, shape);
    return small_cube_shape(chip, chips, shape) || cubes_shape(chip, chips, shape);
}

// The error for a number that no accelerator type has, with the nearest ones that exist, searched downwards and upwards
// from the number within the pod.
static HloStatus unknown_size(const Spelling *given, const Family *family, int64_t number) {
    const EmuChip *chip = emu_chip(family->generation);
    const int64_t pod = chip->pod_x * chip->pod_y * chip->pod_z;
    int64_t shape[3], below = 0, above = 0, chips = number / family->counted_per_chip;
    for (int64_t n = chips < pod ? chips : pod; n >= 1 && !below; n--)
        if (shape_of_chips(chip, n, shape)) below = n * family->counted_per_chip;
    for (int64_t n = chips + 1; n <= pod && !above; n++)
        if (shape_of_chips(chip, n, shape)) above = n * family->counted_per_chip;
    HloText near = {0};
    for (int64_t n = below ? below : above; n; n = n == below ? above : 0)
        hlo_text_format(&near, "%s%.*s%s-%lld", near.length ? " or " : "", given->slices, given->spec, family->spelling,
                        (long long)n);
    HloStatus status =
        hlo_error(HLO_INVALID_ARGUMENT, "unknown topology '%s': there is no such slice; did you mean %s?", given->spec,
                  near.data ? near.data : family->spelling);
    hlo_text_free(&near);
    return status;
}

// The error for text after '-' that is not a number: suggests the accelerator types with the same digits whose spelling
// without the '-' is nearest, such as v5e-16 for v5-e16.
static HloStatus unknown_number(const Spelling *given, const Family *family, const char *rest) {
    const size_t count = strspn(rest, "0123456789");
    if (count && !rest[count]) return unknown_size(given, family, INT32_MAX);  // more digits than any count
    const char *end = rest + strcspn(rest, "0123456789");
    const int64_t number = read_number(&end);
    int64_t best = 3, shape[3];
    HloText near = {0}, letters = {0};
    for (const char *c = given->name; *c; c++)
        if (*c != '-') hlo_text_char(&letters, *c);
    for (size_t i = 0; i < HLO_COUNT_OF(families) && number > 0; i++) {
        const Family *other = &families[i];
        if (number % other->counted_per_chip ||
            !shape_of_chips(emu_chip(other->generation), number / other->counted_per_chip, shape))
            continue;
        HloText name = {0};
        hlo_text_format(&name, "%s%lld", other->spelling, (long long)number);
        const int64_t d = name.data && letters.data ? distance_between(letters.data, letters.length, name.data) : best;
        hlo_text_free(&name);
        if (d >= best) continue;
        best = d;
        hlo_text_free(&near);
        hlo_text_format(&near, "; did you mean %.*s%s-%lld?", given->slices, given->spec, other->spelling,
                        (long long)number);
    }
    HloStatus status = hlo_error(HLO_INVALID_ARGUMENT, "topology '%s': a number is expected after '-'%s", given->spec,
                                 near.data ? near.data : "");
    hlo_text_free(&near);
    hlo_text_free(&letters);
    return status;
}

// Reads `-N`, the number of cores or chips of an accelerator type. Types of the generations with
// two cores a chip count cores: v4-8 has four chips.
static HloStatus parse_accelerator_type(const Spelling *given, const char *at, const Family *family,
                                        EmuTopologyPlan *plan) {
    const char *rest = at;
    const int64_t number = read_number(&at);
    if (number < 0 || *at) return unknown_number(given, family, rest);
    if (number % family->counted_per_chip ||
        !shape_of_chips(plan->chip, number / family->counted_per_chip, plan->shape))
        return unknown_size(given, family, number);
    // The machine type with eight chips is one host.
    if (plan->chip->devices_per_chip == 1 && plan->chip->torus_axes == 2 && number == 8)
        memcpy(plan->host_bounds, (int64_t[]){2, 4, 1}, sizeof(plan->host_bounds));
    return HLO_SUCCESS;
}

// Whether a twisted torus exists in this shape: k x k x 2k or k x 2k x 2k with k of at least 4.
static bool can_twist(const int64_t shape[3]) {
    const int64_t k = shape[0];
    return k >= 4 && shape[2] == 2 * k && (shape[1] == k || shape[1] == 2 * k);
}

// Parses `AxB` or `AxBxC` with an optional `_twisted` or `_untwisted`. Two sizes are a plane, whose third size is 1. A
// twisted torus must be requested by name.
static HloStatus parse_runtime_shape(const char *spec, const char *at, EmuTopologyPlan *plan) {
    int axes = 0;
    plan->shape[0] = plan->shape[1] = plan->shape[2] = 1;
    do {
        HLO_FAIL_IF(axes == 3, HLO_INVALID_ARGUMENT, "topology '%s': a slice has at most three axes", spec);
        const int64_t size = read_number(&at);
        HLO_FAIL_IF(size < 1 || size > EMU_MAX_DEVICES, HLO_INVALID_ARGUMENT,
                    "topology '%s': sizes such as 2x2x1 are expected after the name", spec);
        plan->shape[axes++] = size;
    } while (*at == 'x' && at++);
    HLO_FAIL_IF(axes < 2, HLO_INVALID_ARGUMENT,
                "topology '%s': a shape has two or three sizes, such as 4x4; for a number of chips write %s-%lld", spec,
                plan->chip->name, (long long)plan->shape[0]);
    if (!strcmp(at, "_twisted")) {
        HLO_FAIL_IF(plan->chip->torus_axes != 3 || !can_twist(plan->shape), HLO_INVALID_ARGUMENT,
                    "topology '%s': only shapes k x k x 2k and k x 2k x 2k with k >= 4 can be twisted", spec);
        plan->twisted = true;
    } else {
        HLO_FAIL_IF(*at && strcmp(at, "_untwisted"), HLO_INVALID_ARGUMENT, "topology '%s': unexpected '%s'", spec, at);
    }
    return HLO_SUCCESS;
}

// The number of slices before the name: "2x" in "2xv5e-16". 1 if there is none.
static int64_t parse_slice_count(const char **at) {
    const char *scan = *at;
    const int64_t count = read_number(&scan);
    // "7x:2x2x1" is a name, not seven slices.
    if (count < 0 || *scan != 'x' || !isalnum((unsigned char)scan[1])) return 1;
    *at = scan + 1;
    return count;
}

// ---- options after a name

// The value of option `name` at `at` ("name=value"), or NULL.
static const char *option_value(const char *at, const char *name) {
    const size_t length = strlen(name);
    return strncmp(at, name, length) == 0 && at[length] == '=' ? at + length + 1 : NULL;
}

// Reads two or three sizes. topology.c checks that they divide the slice when it is built.
static HloStatus read_hosts(const char *spec, const char *value, EmuTopologyPlan *plan) {
    const char *at = value;
    for (int axis = 0; axis < 3; axis++) {
        plan->host_bounds[axis] = axis == 2 && !*at ? 1 : read_number(&at);
        HLO_FAIL_IF(plan->host_bounds[axis] < 1 || plan->host_bounds[axis] > EMU_MAX_AXIS || (axis < 1 && *at != 'x') ||
                        (axis == 1 && *at && *at != 'x') || (axis == 2 && *at),
                    HLO_INVALID_ARGUMENT, "topology '%s': hosts=%s; chips along x, y, z are expected, as in 2x2x1",
                    spec, value);
        HLO_FAIL_IF(*at == 'x' && !at[1], HLO_INVALID_ARGUMENT, "topology '%s': hosts=%s is incomplete", spec, value);
        if (*at == 'x') at++;
    }
    return HLO_SUCCESS;
}

// Replaces the generation's own rule for all axes: those that are not named do not close.
static HloStatus read_wrap(const char *spec, const char *value, EmuTopologyPlan *plan) {
    plan->wrap_given = true;
    if (strcmp(value, "none") == 0) return HLO_SUCCESS;
    HLO_FAIL_IF(!*value || value[strspn(value, "xyz")], HLO_INVALID_ARGUMENT,
                "topology '%s': wrap=%s; axes are expected, as in xy, or none", spec, value);
    for (; *value; value++) plan->wrap[*value - 'x'] = true;
    return HLO_SUCCESS;
}

// Reads whether the cores of a chip are one device (a megacore) or a device each; only generations that support both
// accept it.
static HloStatus read_megacore(const char *spec, const char *value, EmuTopologyPlan *plan) {
    const bool no = strcmp(value, "no") == 0;
    HLO_FAIL_IF(!no && strcmp(value, "yes") != 0, HLO_INVALID_ARGUMENT,
                "topology '%s': megacore=%s; yes or no is expected", spec, value);
    HLO_FAIL_IF(plan->chip->cores_per_chip == plan->chip->devices_per_chip, HLO_INVALID_ARGUMENT,
                "topology '%s': the cores of a %s cannot form a megacore", spec, plan->chip->name);
    plan->cores_are_devices = no;
    return HLO_SUCCESS;
}

// Parses "key=value,key=value"; modifies the text.
static HloStatus parse_options(const char *spec, char *options, EmuTopologyPlan *plan) {
    for (char *at = options, *next; at; at = next) {
        next = strchr(at, ',');
        if (next) *next++ = 0;
        const char *value;
        if ((value = option_value(at, "hosts")))
            HLO_TRY(read_hosts(spec, value, plan));
        else if ((value = option_value(at, "wrap")))
            HLO_TRY(read_wrap(spec, value, plan));
        else if ((value = option_value(at, "megacore")))
            HLO_TRY(read_megacore(spec, value, plan));
        else
            return hlo_error(HLO_INVALID_ARGUMENT,
                             "topology '%s': the option '%s' is unknown; there are hosts, wrap and megacore", spec, at);
    }
    return HLO_SUCCESS;
}

// The spec is copied, since options are split in place.
static HloStatus parse_tpu(HloArena *arena, const char *spec, EmuTopology **topology) {
    EmuTopologyPlan plan = {.name = spec};
    char *options = strchr(hlo_arena_text(arena, spec), ',');
    const char *name = hlo_arena_string(arena, spec, strcspn(spec, ","));
    const char *begin = name;
    plan.slice_count = parse_slice_count(&name);
    const Spelling given = {spec, (int)(name - begin), name};
    const size_t length = strcspn(name, "-:=_");
    const Family *family = NULL;
    for (size_t i = 0; i < HLO_COUNT_OF(families); i++)
        if (strlen(families[i].spelling) == length && !strncmp(families[i].spelling, name, length))
            family = &families[i];
    if (!family) return unknown_family(&given, length);
    plan.chip = emu_chip(family->generation);
    const char separator = name[length];
    HLO_FAIL_IF(!separator, HLO_INVALID_ARGUMENT,
                "topology '%s' names a generation only; a size is missing, as in %s-8 or %s:%s", spec, family->spelling,
                family->spelling, plan.chip->torus_axes == 2 ? "2x2" : "2x2x1");
    HLO_TRY(separator == '-' ? parse_accelerator_type(&given, name + length + 1, family, &plan)
                             : parse_runtime_shape(spec, name + length + 1, &plan));
    if (options) HLO_TRY(parse_options(spec, options + 1, &plan));
    return emu_topology_build(arena, &plan, topology);
}

static HloStatus parse_cpu(HloArena *arena, const char *spec, EmuTopology **topology) {
    const char *at = spec + 3;
    int64_t count = 1;
    if (*at == ':' || *at == '-') {
        at++;
        count = read_number(&at);
    }
    HLO_FAIL_IF(*at || count < 1, HLO_INVALID_ARGUMENT, "topology '%s': a number of devices is expected, as in cpu:8",
                spec);
    return emu_topology_build_cpu(arena, spec, count, topology);
}

// Whether a spec is the path of an XML file, optionally with a slice after '#'.
static bool names_xml(const char *spec) {
    const char *hash = strchr(spec, '#');
    const size_t length = hash ? (size_t)(hash - spec) : strlen(spec);
    return length > 4 && !strncmp(spec + length - 4, ".xml", 4);
}

typedef struct ParseCall {
    const char *spec;
    HloArena *arena;
    EmuTopology **topology;
} ParseCall;

static HloStatus parse_protected(void *argument) {
    ParseCall *call = argument;
    if (names_xml(call->spec)) return emu_topology_read_xml(call->arena, call->spec, NULL, call->topology);
    if (!strncmp(call->spec, "cpu", 3)) return parse_cpu(call->arena, call->spec, call->topology);
    return parse_tpu(call->arena, call->spec, call->topology);
}

HloStatus emu_topology_parse(const char *spec, EmuTopology **topology) {
    assert(spec && topology);
    *topology = NULL;
    ParseCall call = {spec, hlo_arena_new(), topology};
    HLO_FAIL_IF(!call.arena, HLO_RESOURCE_EXHAUSTED, "no memory for topology '%s'", spec);
    HloStatus status = hlo_protect(parse_protected, &call);
    if (status) {
        hlo_arena_free(call.arena);
        *topology = NULL;
    }
    return status;
}
