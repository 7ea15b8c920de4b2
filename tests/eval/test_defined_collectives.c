// SPDX-License-Identifier: Apache-2.0
// Collectives against their definition: random devices, groups, kinds of groups and shapes. For each device the
// definition says which device each of its elements comes from; there is no rendezvous here.
#include <criterion/criterion.h>
#include <string.h>

#include "tests/eval/defined.h"
#include "tests/eval/run.h"
#include "tests/support/cases.h"

enum { MOST_DEVICES = 12 };

// The units of the numbers in replica_groups. Source: GetCollectiveOpGroupMode() in
// xla/service/collective_ops_utils.cc.
typedef enum Kind { REPLICAS, PARTITIONS, BUNDLES, DEVICES, KIND_COUNT } Kind;

// A run of `replicas` times `partitions` devices, each with an argument of its own.
typedef struct World {
    Defined test;
    Kind kind;
    int64_t replicas, partitions, devices;
    int64_t groups, members;            // of numbers, all groups of one size
    int64_t numbers[MOST_DEVICES];      // group after group
    int64_t group[MOST_DEVICES], size;  // of the device that is asked about, in device numbers
    HloLiteral *results[MOST_DEVICES];
} World;

// Groups of equal size over all numbers of the kind, shuffled.
static void draw_world(World *world, uint64_t seed) {
    *world = (World){.test = defined_begin(seed)};
    Defined *test = &world->test;
    world->replicas = defined_draw(test, 1, 3);
    world->partitions = defined_draw(test, world->replicas == 1 ? 2 : 1, 4);
    world->devices = world->replicas * world->partitions;
    world->kind = (Kind)defined_draw(test, 0, KIND_COUNT - 1);
    const int64_t counts[] = {world->replicas, world->partitions, world->replicas, world->devices};
    const int64_t count = counts[world->kind];
    do {
        world->groups = defined_draw(test, 1, count);
    } while (count % world->groups != 0);
    world->members = count / world->groups;
    defined_distinct(test, count, count, world->numbers);
}

static void free_world(World *world) {
    for (int64_t d = 0; d < world->devices; d++) hlo_literal_free(world->results[d]);
    defined_end(&world->test);
}

// The number of a device in the groups.
static int64_t number_of(const World *world, int64_t device) {
    if (world->kind == PARTITIONS) return device % world->partitions;
    return world->kind == DEVICES ? device : device / world->partitions;
}

// Whether two devices whose numbers are in one group are in it: they must agree in the part that the numbers leave out.
static bool together(const World *world, int64_t a, int64_t b) {
    if (world->kind == REPLICAS) return a % world->partitions == b % world->partitions;
    return world->kind != PARTITIONS || a / world->partitions == b / world->partitions;
}

// The group of a device, in order: by place in the list, partitions of one replica one after the other.
static void find_group(World *world, int64_t device) {
    int64_t place = 0;
    while (world->numbers[place] != number_of(world, device)) place++;
    const int64_t first = place / world->members * world->members;
    world->size = 0;
    for (int64_t i = 0; i < world->members; i++) {
        for (int64_t d = 0; d < world->devices; d++) {
            const bool in = number_of(world, d) == world->numbers[first + i] && together(world, device, d);
            if (in) world->group[world->size++] = d;
        }
    }
}

// Appends ", channel_id=…, replica_groups=…" as the kind needs them. `may` says that the op takes
// use_global_device_ids; without it a channel means partitions.
static void write_groups(World *world, HloText *text, bool may) {
    if (world->kind != REPLICAS) hlo_text_string(text, ", channel_id=1");
    if (may && world->kind == DEVICES) hlo_text_string(text, ", use_global_device_ids=true");
    hlo_text_string(text, ", replica_groups={");
    for (int64_t g = 0; g < world->groups; g++) {
        if (g) hlo_text_string(text, ",");
        defined_list(text, world->numbers + g * world->members, world->members);
    }
    hlo_text_string(text, "}");
}

// Every device's argument: s32 numbers that say whose element it is.
static int32_t value_of(int64_t device, int64_t place) {
    return (int32_t)(1000 * (device + 1) + place);
}

// Runs `root` on all devices, each with an s32 array of `dims` as p.
static void run_world(World *world, Dims dims, const char *called) {
    HloText text = {0};
    hlo_text_format(&text, "HloModule m, replica_count=%lld, num_partitions=%lld\n%sENTRY e {\n p = ",
                    (long long)world->replicas, (long long)world->partitions, called);
    defined_shape(&text, HLO_S32, dims);
    hlo_text_format(&text, " parameter(0)\n%s\n}\n", world->test.body.data);
    HloModule *module = parse_text(text.data);
    const HloLiteral *arguments[MOST_DEVICES], *const *rows[MOST_DEVICES];
    HloLiteral *given[MOST_DEVICES];
    for (int64_t d = 0; d < world->devices; d++) {
        given[d] = hlo_literal_of(HLO_S32, (HloInts){dims.at, dims.rank}, NULL);
        for (int64_t i = 0; i < hlo_shape_elements(given[d]->shape); i++)
            hlo_literal_set_int64(given[d], i, value_of(d, i));
        arguments[d] = given[d];
        rows[d] = &arguments[d];
    }
    HloStatus status = hlo_evaluate_partitioned(module, world->devices, rows, 1, NULL, world->results);
    cr_assert_null(status, "%s: %s", text.data, hlo_status_message(status));
    for (int64_t d = 0; d < world->devices; d++) hlo_literal_free(given[d]);
    hlo_module_free(module);
    hlo_text_free(&text);
}

// The place of an index in an array of `dims`.
static int64_t place_in(Dims dims, Dims index) {
    int64_t place = 0;
    for (int64_t i = 0; i < dims.rank; i++) place = place * dims.at[i] + index.at[i];
    return place;
}

#define ADD "c {\n a = s32[] parameter(0)\n b = s32[] parameter(1)\n ROOT t = s32[] add(a,b)\n}\n"

// The element at `index` of the result of `device`, by definition. `find_group` has been asked for the device.
typedef int64_t Definition(const World *world, int64_t device, Dims dims, int64_t along, Dims index);

static int64_t position_in_group(const World *world, int64_t device) {
    int64_t position = 0;
    while (world->group[position] != device) position++;
    return position;
}

static int64_t all_reduce(const World *world, int64_t device, Dims dims, int64_t along, Dims index) {
    (void)device, (void)along;
    int64_t sum = 0;
    for (int64_t i = 0; i < world->size; i++) sum += value_of(world->group[i], place_in(dims, index));
    return sum;
}

static int64_t reduce_scatter(const World *world, int64_t device, Dims dims, int64_t along, Dims index) {
    index.at[along] += position_in_group(world, device) * (dims.at[along] / world->size);
    return all_reduce(world, device, dims, along, index);
}

static int64_t all_gather(const World *world, int64_t device, Dims dims, int64_t along, Dims index) {
    (void)device;
    const int64_t whose = index.at[along] / dims.at[along];
    index.at[along] %= dims.at[along];
    return value_of(world->group[whose], place_in(dims, index));
}

// Everyone's piece for this device, in the order of the group.
static int64_t all_to_all(const World *world, int64_t device, Dims dims, int64_t along, Dims index) {
    const int64_t each = dims.at[along] / world->size, whose = index.at[along] / each;
    index.at[along] = index.at[along] % each + position_in_group(world, device) * each;
    return value_of(world->group[whose], place_in(dims, index));
}

static int64_t broadcast(const World *world, int64_t device, Dims dims, int64_t along, Dims index) {
    (void)device, (void)along;
    return value_of(world->group[0], place_in(dims, index));
}

typedef struct Collective {
    const char *name, *rest;
    Definition *definition;
    bool global;  // takes use_global_device_ids
    bool along;   // has a dimension
    bool divides, grows, shrinks;
} Collective;

static const Collective collectives[] = {
    {"all-reduce", ", to_apply=c", all_reduce, true, false, false, false, false},
    {"reduce-scatter", ", to_apply=c", reduce_scatter, true, true, true, false, true},
    {"all-gather", "", all_gather, true, true, false, true, false},
    {"all-to-all", "", all_to_all, false, true, true, false, false},
    {"collective-broadcast", "", broadcast, false, false, false, false, false},
};

CaseList(eval_defined_collectives, give_what_their_definition_says) {
    return cases_numbered(HLO_COUNT_OF(collectives));
}

CaseTest(const int *number, eval_defined_collectives, give_what_their_definition_says) {
    const Collective *collective = &collectives[*number];
    const int64_t cases = cases_count("MESHLO_DEFINED_CASES", 300);
    for (int64_t seed = 0; seed < cases; seed++) {
        World world;
        draw_world(&world, (uint64_t)seed);
        // A channel alone means partitions to ops that cannot say use_global_device_ids, and bundles to the others.
        if (collective->global ? world.kind == PARTITIONS : world.kind > PARTITIONS) {
            free_world(&world);
            continue;
        }
        Defined *test = &world.test;
        find_group(&world, 0);
        Dims dims = defined_dims(test, defined_draw(test, 1, 3), 1, 3), result;
        const int64_t along = defined_draw(test, 0, dims.rank - 1);
        if (collective->divides) dims.at[along] *= world.size;
        result = dims;
        if (collective->grows) result.at[along] *= world.size;
        if (collective->shrinks) result.at[along] /= world.size;
        hlo_text_string(&test->body, " ROOT r = ");
        defined_shape(&test->body, HLO_S32, result);
        hlo_text_format(&test->body, " %s(p)", collective->name);
        write_groups(&world, &test->body, collective->global);
        if (collective->along) hlo_text_format(&test->body, ", dimensions={%lld}", (long long)along);
        hlo_text_string(&test->body, collective->rest);
        run_world(&world, dims, strstr(collective->rest, "=c") ? ADD : "");
        for (int64_t d = 0; d < world.devices; d++) {
            find_group(&world, d);
            Dims index;
            for (bool more = defined_first(result, &index); more; more = defined_next(result, &index)) {
                const int64_t want = collective->definition(&world, d, dims, along, index);
                const int64_t have = hlo_literal_get_int64(world.results[d], place_in(result, index));
                cr_assert_eq(have, want, "%lld x %lld devices:%s: device %lld has %lld, not %lld",
                             (long long)world.replicas, (long long)world.partitions, test->body.data, (long long)d,
                             (long long)have, (long long)want);
            }
        }
        free_world(&world);
    }
}

// Who is no target gets zeros.
Test(eval_defined_collectives, permutes_give_what_their_pairs_say) {
    const int64_t cases = cases_count("MESHLO_DEFINED_CASES", 300);
    for (int64_t seed = 0; seed < cases; seed++) {
        World world;
        draw_world(&world, (uint64_t)seed);
        Defined *test = &world.test;
        world.kind = (Kind)defined_draw(test, REPLICAS, PARTITIONS);
        const int64_t count = world.kind == REPLICAS ? world.replicas : world.partitions;
        const int64_t pairs = defined_draw(test, 0, count);
        int64_t sources[MOST_DEVICES], targets[MOST_DEVICES];
        defined_distinct(test, count, pairs, sources);
        defined_distinct(test, count, pairs, targets);
        hlo_text_format(&test->body, " ROOT r = s32[3] collective-permute(p)%s, source_target_pairs={",
                        world.kind == PARTITIONS ? ", channel_id=1" : "");
        for (int64_t i = 0; i < pairs; i++)
            hlo_text_format(&test->body, i ? ",{%lld,%lld}" : "{%lld,%lld}", (long long)sources[i],
                            (long long)targets[i]);
        hlo_text_string(&test->body, "}");
        run_world(&world, (Dims){1, {3}}, "");
        for (int64_t d = 0; d < world.devices; d++) {
            int64_t from = -1;
            for (int64_t i = 0; i < pairs; i++) {
                for (int64_t s = 0; targets[i] == number_of(&world, d) && s < world.devices; s++)
                    if (number_of(&world, s) == sources[i] && together(&world, s, d)) from = s;
            }
            for (int64_t i = 0; i < 3; i++) {
                const int64_t want = from < 0 ? 0 : value_of(from, i);
                cr_assert_eq(hlo_literal_get_int64(world.results[d], i), want, "%lld x %lld devices:%s: device %lld",
                             (long long)world.replicas, (long long)world.partitions, test->body.data, (long long)d);
            }
        }
        free_world(&world);
    }
}

// partition-id and replica-id are the two parts of a device's number.
Test(eval_defined_collectives, devices_know_their_numbers) {
    for (uint64_t seed = 0; seed < 20; seed++) {
        World world;
        draw_world(&world, seed);
        hlo_text_format(&world.test.body,
                        " a = u32[] replica-id()\n b = u32[] partition-id()\n n = u32[] constant(%lld)\n"
                        " c = u32[] multiply(a, n)\n ROOT r = u32[] add(b, c)",
                        (long long)world.partitions);
        run_world(&world, (Dims){1, {1}}, "");
        for (int64_t d = 0; d < world.devices; d++) cr_expect_eq(hlo_literal_get_int64(world.results[d], 0), d);
        free_world(&world);
    }
}
