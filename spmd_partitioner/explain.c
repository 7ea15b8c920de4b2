// SPDX-License-Identifier: Apache-2.0
// The collectives of a partitioned module: walked from the entry, loops counted by their trip counts, each with the
// reason and remedy in its attributes. Also the annotated copy of --propagate-only.
//
// A collective runs as often as the sum, over all paths to it from the entry, of the product of the trip counts on the
// path. The call graph has no cycles, so one pass from callers to callees computes it in time linear in the program
// (propagate_iterations). A loop of unknown length counts as one iteration, and everything below it is marked unknown
// (trip_count -1).
//
//     all-reduce          %all-reduce  512 B a device, 1 group of 4, 10 times
//         why     dot d combines a dimension that is sharded over x: each device has a part of the result
//         remedy  keep x off the combined dimension of d: shard its operands along another one
#include "spmd_partitioner/explain.h"

#include <assert.h>
#include <string.h>

#include "hlo/analysis/loop.h"
#include "hlo/ir/collective.h"

// ---- the collectives of a module ----

// How often a computation runs in one run of the program, over all who call it.
typedef struct Iterations {
    int64_t known;
    bool unknown;  // some loop around it has an unknown length
    bool is_read;  // its collectives are in the report
} Iterations;

typedef struct Builder {
    SpmdReport *report;
    const HloModule *module;
    HLO_VECTOR(SpmdCollective) items;
    HloArena *scratch;
    HloIntMap places;  // address of a computation to its index in `iterations`
    Iterations *iterations;
} Builder;

// Reports outlive their module.
// Into the report's arena; a missing text is an empty one, so that printers need not look.
static const char *keep(HloArena *arena, const char *text) {
    return text ? hlo_arena_text(arena, text) : "";
}

// Counts of loops within loops may be greater than any number here; they end at the greatest.
static int64_t multiply_counts(int64_t a, int64_t b) {
    int64_t product;
    assert(a >= 0 && b >= 0);
    return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

// Saturates, as multiply_counts() does.
static int64_t add_counts(int64_t a, int64_t b) {
    assert(a >= 0 && b >= 0);
    return a > INT64_MAX - b ? INT64_MAX : a + b;
}

// The ring algorithm's amounts, as docs/cli.md defines them for --json: with g members and an operand of n bytes an
// all-gather sends n(g-1), an all-reduce 2n(g-1)/g, a reduce-scatter or all-to-all n(g-1)/g, a permute n. Counts that
// leave 62 bits end at the greatest.
int64_t spmd_collective_bytes(const HloInstruction *collective, int64_t group_size) {
    assert(group_size > 0);
    int64_t operands = 0;
    for (int32_t i = 0; i < collective->operand_count; i++)
        operands = add_counts(operands, hlo_shape_bytes(collective->operands[i]->shape));
    int64_t group = group_size > 0 ? group_size : 1;
    switch (collective->opcode) {
        case HLO_OP_ALL_GATHER:
        case HLO_OP_ALL_GATHER_START: return multiply_counts(operands, group - 1);
        case HLO_OP_ALL_REDUCE:
        case HLO_OP_ALL_REDUCE_START: {
            const double bytes = 2 * (double)operands * (double)(group - 1) / (double)group;
            return bytes < 0x1p62 ? (int64_t)bytes : INT64_MAX;
        }
        case HLO_OP_REDUCE_SCATTER:
        case HLO_OP_ALL_TO_ALL:
        case HLO_OP_RAGGED_ALL_TO_ALL: {
            const double bytes = (double)operands * (double)(group - 1) / (double)group;
            return bytes < 0x1p62 ? (int64_t)bytes : INT64_MAX;
        }
        default: return operands;
    }
}

// "all-reduce" for all-reduce and all-reduce-start.
static const char *plain_opcode(HloOpcode opcode) {
    switch (opcode) {
        case HLO_OP_ALL_GATHER_START: return hlo_op_text(HLO_OP_ALL_GATHER);
        case HLO_OP_ALL_REDUCE_START: return hlo_op_text(HLO_OP_ALL_REDUCE);
        case HLO_OP_COLLECTIVE_PERMUTE_START: return hlo_op_text(HLO_OP_COLLECTIVE_PERMUTE);
        default: return hlo_op_text(opcode);
    }
}

// Members of the groups as they are written: of the largest where they differ, since it sends most. 0 for none.
static int64_t written_size(const HloReplicaGroups *groups) {
    int64_t size = groups ? hlo_replica_groups_size(groups) : 0;
    if (size || !groups || groups->form != HLO_GROUPS_LIST) return size;
    for (int64_t g = 0; g < groups->count; g++)
        if (groups->groups[g].count > size) size = groups->groups[g].count;
    return size;
}

// Sizes of the groups of a collective; a permute counts its pairs that are no copies as one group each.
// Without groups all that the collective could name are one.
static void set_groups(const HloInstruction *op, int64_t devices, SpmdCollective *collective) {
    assert(devices > 0);
    if (hlo_op_info(op->opcode)->family == HLO_FAMILY_Permute) {
        HloPairs pairs = HLO_ATTRIBUTES(op, Permute)->source_target_pairs;
        collective->group_size = 2;
        for (int64_t i = 0; i < pairs.count; i++)
            collective->num_groups += pairs.items[i].source != pairs.items[i].target;
        return;
    }
    const HloModule *module = op->parent->module;
    const int64_t replicas = module->replica_count > 0 ? module->replica_count : 1;
    const int64_t partitions = module->num_partitions > 0 ? module->num_partitions : 1;
    const HloGroupMode mode = hlo_group_mode_of(op);
    collective->group_size = written_size(HLO_ATTRIBUTES(op, Collective)->replica_groups);
    if (collective->group_size == 0) collective->group_size = hlo_group_mode_numbers(mode, replicas, partitions);
    if (mode == HLO_GROUPS_OF_REPLICAS_PARTITIONS)
        collective->group_size = multiply_counts(collective->group_size, partitions);
    collective->num_groups = devices / collective->group_size;
}

// Bytes count once per iteration; a loop of unknown length counts as one iteration, and the report says so.
static void add_collective(Builder *builder, const HloInstruction *op, const Iterations *iterations) {
    HloArena *arena = builder->report->arena;
    SpmdCollective collective = {.name = keep(arena, op->name),
                                 .opcode = plain_opcode(op->opcode),
                                 .computation = keep(arena, op->parent->name)};
    set_groups(op, builder->report->num_partitions, &collective);
    collective.bytes_per_device = spmd_collective_bytes(op, collective.group_size);
    collective.trip_count = iterations->unknown ? -1 : iterations->known;
    collective.reason = keep(arena, hlo_instruction_frontend_attribute(op, "meshlo.reason"));
    collective.remedy = keep(arena, hlo_instruction_frontend_attribute(op, "meshlo.remedy"));
    collective.source = hlo_instruction_source_text(arena, op);
    hlo_vector_push(arena, &builder->items, collective);
    const int64_t trips = collective.trip_count > 0 ? collective.trip_count : 1;
    builder->report->total_bytes_per_device =
        add_counts(builder->report->total_bytes_per_device, multiply_counts(collective.bytes_per_device, trips));
}

// Whether the computations that an instruction calls run as parts of the program; reducers and fusions have no
// collectives.
static bool flows(const HloInstruction *at) {
    return hlo_is(at, HLO_OP_WHILE) || hlo_is(at, HLO_OP_CALL) || hlo_is(at, HLO_OP_CONDITIONAL) ||
           hlo_is(at, HLO_OP_ASYNC_START);
}

// By address: the module is not changed while it is read.
static Iterations *iterations_of(Builder *builder, const HloComputation *computation) {
    const int64_t *place = hlo_int_map_find(&builder->places, (uint64_t)(uintptr_t)computation);
    HLO_BUG_IF(!place); /* every computation that the entry reaches has one */
    return &builder->iterations[*place];
}

// Passes the counts of one computation to its callees. A condition counts as often as its body, and so do all branches
// of a conditional.
static void propagate_iterations(Builder *builder, const HloComputation *computation) {
    const Iterations around = *iterations_of(builder, computation);
    for (const HloInstruction *at = computation->first; at; at = at->next) {
        if (!flows(at)) continue;
        const int64_t trips = hlo_is(at, HLO_OP_WHILE) ? hlo_trip_count(at) : 1;
        for (int32_t i = 0; i < at->called_count; i++) {
            Iterations *called = iterations_of(builder, at->called[i]);
            called->known = add_counts(called->known, multiply_counts(around.known, trips < 0 ? 1 : trips));
            called->unknown |= around.unknown || trips < 0;
        }
    }
}

// Lists collectives in program order; a computation called from several places is listed once, with the counts of all.
// For asynchronous collectives the start counts as the collective and the done does not.
static void read_computation(Builder *builder, const HloComputation *computation) {
    Iterations *iterations = iterations_of(builder, computation);
    if (iterations->is_read) return;
    iterations->is_read = true;
    for (const HloInstruction *at = computation->first; at; at = at->next) {
        if (hlo_op_is(at->opcode, HLO_OP_IS_COLLECTIVE)) {
            add_collective(builder, at, iterations);
        } else if (flows(at)) {
            for (int32_t i = 0; i < at->called_count; i++) read_computation(builder, at->called[i]);
        }
    }
}

// Visits callers before callees, so that counts are complete when they are passed on. This is linear in the program; a
// walk through every call would take time exponential in the depth of the calls.
static HloStatus read_module(void *argument) {
    Builder *builder = argument;
    if (!builder->module->entry) return HLO_SUCCESS;
    int64_t count;
    builder->scratch = hlo_arena_scratch_new();
    HloComputation **order = hlo_module_post_order(builder->module, builder->scratch, &count);
    builder->iterations = HLO_ARENA_NEW(builder->scratch, Iterations, count);
    for (int64_t i = 0; i < count; i++)
        hlo_int_map_set(builder->scratch, &builder->places, (uint64_t)(uintptr_t)order[i], i);
    iterations_of(builder, builder->module->entry)->known = 1;
    for (int64_t i = count; i-- > 0;) propagate_iterations(builder, order[i]);
    read_computation(builder, builder->module->entry);
    hlo_arena_free(builder->scratch);
    builder->report->collectives = builder->items.items;
    builder->report->collective_count = builder->items.count;
    return HLO_SUCCESS;
}

HloStatus spmd_report_new(const HloModule *partitioned, SpmdReport **result) {
    assert(partitioned && result);
    SpmdReport *report = hlo_allocate_zeroed(1, sizeof(*report));
    HloArena *arena = hlo_arena_new();
    if (!report || !arena) {
        hlo_free(report);
        hlo_arena_free(arena);
        return hlo_error(HLO_RESOURCE_EXHAUSTED, "out of memory");
    }
    report->arena = arena;
    report->num_partitions = partitioned->num_partitions > 0 ? partitioned->num_partitions : 1;
    if (partitioned->replica_count > 1)
        report->num_partitions = multiply_counts(report->num_partitions, partitioned->replica_count);
    Builder builder = {.report = report, .module = partitioned};
    HloStatus status = hlo_protect(read_module, &builder);
    if (status) {
        spmd_report_free(report);
        return status;
    }
    *result = report;
    return HLO_SUCCESS;
}

void spmd_report_free(SpmdReport *report) {
    if (!report) return;
    hlo_arena_free(report->arena);
    hlo_free(report);
}

// ---- output ----

// One line of facts, then why, where and what to change; lines without content are left out.
static void print_collective(HloText *text, const SpmdCollective *collective) {
    hlo_text_format(text, "%-19s %%%s  ", collective->opcode, collective->name);
    hlo_text_size(text, collective->bytes_per_device);
    hlo_text_format(text, " a device, %lld group%s of %lld", (long long)collective->num_groups,
                    collective->num_groups == 1 ? "" : "s", (long long)collective->group_size);
    if (collective->trip_count < 0) hlo_text_string(text, ", in a loop of unknown length");
    if (collective->trip_count > 1) hlo_text_format(text, ", %lld times", (long long)collective->trip_count);
    hlo_text_char(text, '\n');
    if (*collective->reason) hlo_text_format(text, "    why     %s\n", collective->reason);
    if (*collective->source) hlo_text_format(text, "    source  %s\n", collective->source);
    if (*collective->remedy) hlo_text_format(text, "    remedy  %s\n", collective->remedy);
}

void spmd_report_print(HloText *text, const SpmdReport *report) {
    for (int64_t i = 0; i < report->collective_count; i++) print_collective(text, &report->collectives[i]);
    if (report->mesh && *report->mesh) hlo_text_format(text, "mesh %s (%s): ", report->mesh, report->mesh_source);
    hlo_text_format(text, "%lld collective%s on %lld devices, ", (long long)report->collective_count,
                    report->collective_count == 1 ? "" : "s", (long long)report->num_partitions);
    hlo_text_size(text, report->total_bytes_per_device);
    hlo_text_string(text, " sent by each device\n");
}

// The keys are those of docs/cli.md; a baseline of `meshlo check` is read back by them.
void spmd_report_json_members(HloJsonWriter *writer, const SpmdReport *report) {
    assert(writer && report);
    hlo_json_member_int64(writer, "num_partitions", report->num_partitions);
    if (report->mesh) {
        hlo_json_member_string(writer, "mesh", report->mesh);
        hlo_json_member_string(writer, "mesh_source", report->mesh_source);
    }
    hlo_json_key(writer, "collectives");
    hlo_json_begin_array(writer);
    for (int64_t i = 0; i < report->collective_count; i++) {
        const SpmdCollective *collective = &report->collectives[i];
        const char *const texts[][2] = {
            {"name", collective->name},     {"opcode", collective->opcode}, {"computation", collective->computation},
            {"reason", collective->reason}, {"source", collective->source}, {"remedy", collective->remedy}};
        const struct {
            const char *key;
            int64_t value;
        } numbers[] = {{"bytes_per_device", collective->bytes_per_device},
                       {"group_size", collective->group_size},
                       {"num_groups", collective->num_groups},
                       {"trip_count", collective->trip_count}};
        hlo_json_begin_object(writer);
        for (size_t k = 0; k < HLO_COUNT_OF(texts); k++) {
            hlo_json_member_string(writer, texts[k][0], texts[k][1]);
        }
        for (size_t k = 0; k < HLO_COUNT_OF(numbers); k++) {
            hlo_json_member_int64(writer, numbers[k].key, numbers[k].value);
        }
        hlo_json_end_object(writer);
    }
    hlo_json_end_array(writer);
    hlo_json_member_int64(writer, "total_bytes_per_device", report->total_bytes_per_device);
    hlo_json_member_double(writer, "seconds", report->seconds);
}

void spmd_report_json(HloJsonWriter *writer, const SpmdReport *report) {
    hlo_json_begin_object(writer);
    spmd_report_json_members(writer, report);
    hlo_json_end_object(writer);
}

// ---- --propagate-only ----

// The sharding of each array leaf as the plan has it, in V2 form; one sharding for an array, a tuple of them for a
// tuple.
static const HloSharding *written(const SpmdPlan *plan, HloArena *arena, const HloInstruction *op) {
    int64_t count = hlo_shape_leaf_count(op->shape);
    const HloSharding **leaves = HLO_ARENA_NEW(arena, const HloSharding *, count);
    for (int64_t i = 0; i < count; i++) {
        const SpmdArray *array = spmd_plan_array(plan, op, i);
        leaves[i] = spmd_sharding_to_hlo(arena, plan->mesh, array->sharding, array->devices);
    }
    return hlo_shape_is_tuple(op->shape) ? hlo_sharding_tuple(arena, leaves, count) : leaves[0];
}

// Instructions are found by name, since the copy has its own; names are unique in a module. The plan may be of a
// flattened clone, whose additional instructions have no partner in the copy and are passed over.
HloStatus spmd_plan_annotate(const SpmdPlan *plan, HloModule *copy) {
    HloStringMap instructions = {0};
    for (int64_t c = 0; c < copy->computations.count; c++) {
        for (HloInstruction *at = copy->computations.items[c]->first; at; at = at->next) {
            hlo_string_map_set(plan->arena, &instructions, at->name, strlen(at->name), at);
        }
    }
    for (int64_t c = 0; c < plan->computation_count; c++) {
        for (const HloInstruction *at = plan->computations[c]->first; at; at = at->next) {
            HloInstruction *target = hlo_string_map_get(&instructions, at->name, strlen(at->name));
            if (!target || plan->free[at->id] || hlo_shape_leaf_count(at->shape) == 0) continue;
            target->sharding = written(plan, copy->arena, at);
        }
    }
    copy->num_partitions = plan->mesh->device_count;
    copy->use_spmd_partitioning = plan->mesh->device_count > 1;
    return HLO_SUCCESS;
}
