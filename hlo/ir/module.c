// SPDX-License-Identifier: Apache-2.0
// Modules: creating, copying and freeing whole programs, the order of their calls, and queries about them.
//
// Everything lives in one arena, so freeing a module frees the arena; only the struct itself and its name are heap
// blocks. Removed computations and instructions keep their memory until then: code that transforms a program a lot
// clones it, which leaves the garbage behind.
#include "hlo/ir/module.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "hlo/ir/names.h"

void hlo_module_set_name(HloModule *module, const char *name) {
    assert(module && name);
    module->name = hlo_arena_text(module->arena, hlo_sanitized_name(module->arena, name));
}

static HloStatus name_body(void *argument) {
    HloModule *module = argument;
    hlo_module_set_name(module, module->name);
    return HLO_SUCCESS;
}

HloModule *hlo_module_new(const char *name) {
    HloArena *arena = hlo_arena_new();
    HloModule *module = hlo_allocate_zeroed(1, sizeof(*module));
    if (!arena || !module) {
        hlo_arena_free(arena);
        hlo_free(module);
        return NULL;
    }
    module->arena = arena;
    module->name = name;
    module->replica_count = 1;
    module->num_partitions = 1;
    HloStatus status = hlo_protect(name_body, module);
    if (!status) return module;
    hlo_status_free(status);
    hlo_module_free(module);
    return NULL;
}

// Modules of recoveries may have recoveries; readers limit the depth.
void hlo_module_free(HloModule *module) {
    if (!module) return;
    for (int64_t i = 0; i < module->recoveries.count; i++) hlo_module_free(module->recoveries.items[i].module);
    hlo_arena_free(module->arena);
    hlo_free(module);
}

void hlo_module_set_entry(HloModule *module, HloComputation *entry) {
    assert(entry && entry->module == module && !entry->removed);
    HLO_BUG_IF(entry->module != module);
    module->entry = entry;
}

static HloStringVector copy_strings(HloArena *arena, const HloStringVector *from) {
    HloStringVector copy = {0};
    for (int64_t i = 0; i < from->count; i++) {
        hlo_vector_push(arena, &copy, hlo_arena_text(arena, from->items[i]));
    }
    return copy;
}

// Copies the tables as a whole: ids in metadata are row numbers, which copying only the used rows would shift.
static void copy_stack(HloModule *module, const HloStackTables *from) {
    HloArena *arena = module->arena;
    HloStackTables *stack = &module->stack;
    stack->file_names = copy_strings(arena, &from->file_names);
    stack->function_names = copy_strings(arena, &from->function_names);
    stack->locations.count = stack->frames.count = 0;
    for (int64_t i = 0; i < from->locations.count; i++) {
        hlo_vector_push(arena, &stack->locations, from->locations.items[i]);
    }
    for (int64_t i = 0; i < from->frames.count; i++) hlo_vector_push(arena, &stack->frames, from->frames.items[i]);
}

static void copy_aliasing(HloModule *module, const HloModule *from) {
    assert(module->arena != from->arena);
    HloArena *arena = module->arena;
    HloAlias *aliases = hlo_arena_copy(arena, from->aliases.items, (size_t)from->aliases.count * sizeof(*aliases));
    for (int64_t i = 0; i < from->aliases.count; i++) {
        aliases[i].output_index = hlo_ints_copy(arena, from->aliases.items[i].output_index);
        aliases[i].operand_index = hlo_ints_copy(arena, from->aliases.items[i].operand_index);
    }
    module->aliases = (HloAliases){aliases, from->aliases.count};
    HloDonor *donors = hlo_arena_copy(arena, from->donors, (size_t)from->donor_count * sizeof(*donors));
    for (int64_t i = 0; i < from->donor_count; i++) donors[i].index = hlo_ints_copy(arena, from->donors[i].index);
    module->donors = donors;
    module->donor_count = from->donor_count;
    module->alias_passthrough = hlo_ints_copy(arena, from->alias_passthrough);
}

static HloBools copy_bools(HloArena *arena, HloBools from) {
    return (HloBools){hlo_arena_copy(arena, from.items, (size_t)from.count * sizeof(bool)), from.count};
}

static HloBytes copy_bytes(HloArena *arena, HloBytes from) {
    assert(from.data || from.length == 0);
    return (HloBytes){from.length ? hlo_arena_copy(arena, from.data, from.length) : NULL, from.length};
}

// Copies everything in a module except its computations into the other module's arena: partitioning and passes that
// rebuild a module keep its header.
// By name, then by index: an index comes before those that begin with it.
static int compare_original_arrays(const HloOriginalArray *a, const HloOriginalArray *b) {
    int names = strcmp(a->name, b->name);
    if (names) return names;
    for (int64_t i = 0; i < a->index.count && i < b->index.count; i++) {
        if (a->index.items[i] != b->index.items[i]) return a->index.items[i] < b->index.items[i] ? -1 : 1;
    }
    return a->index.count < b->index.count ? -1 : a->index.count > b->index.count;
}

static HloOriginalArray copy_original_array(HloArena *arena, const HloOriginalArray *from) {
    return (HloOriginalArray){hlo_arena_text(arena, from->name), hlo_ints_copy(arena, from->index)};
}

void hlo_original_array_print(HloText *text, const HloOriginalArray *array) {
    hlo_text_char(text, '{');
    hlo_quoted_print(text, array->name);
    for (int64_t i = 0; i < array->index.count; i++) {
        hlo_text_format(text, "%s%lld", i ? "," : " {", (long long)array->index.items[i]);
    }
    hlo_text_string(text, array->index.count ? "}}" : "}");
}

typedef struct RecoveryCall {
    HloModule *module;
    const HloOriginalArray *lost, *kept;
    HloRecovery made;
} RecoveryCall;

// Allocates all memory that an entry needs.
static HloStatus make_recovery(void *argument) {
    RecoveryCall *call = argument;
    HloModule *module = call->module;
    call->made.lost = copy_original_array(module->arena, call->lost);
    call->made.kept = copy_original_array(module->arena, call->kept);
    hlo_vector_reserve(module->arena, &module->recoveries, module->recoveries.count + 1);
    return HLO_SUCCESS;
}

void hlo_module_add_recovery(HloModule *module, const HloOriginalArray *lost, const HloOriginalArray *kept,
                             HloModule *recovery) {
    assert(module && lost && kept && lost->name && kept->name);
    RecoveryCall call = {module, lost, kept, {.module = recovery}};
    HloStatus status = hlo_protect(make_recovery, &call);
    if (status) {
        hlo_module_free(recovery);
        hlo_status_free(status);
        hlo_out_of_memory();
    }
    module->recoveries.items[module->recoveries.count++] = call.made;
}

// qsort() is not stable: entries of one array are ordered by their places, which `position` remembers.
static int compare_recoveries(const void *a, const void *b) {
    const HloRecovery *left = a, *right = b;
    int order = compare_original_arrays(&left->lost, &right->lost);
    if (order) return order;
    return left->position < right->position ? -1 : left->position > right->position;
}

void hlo_module_sort_recoveries(HloModule *module) {
    HloRecovery *items = module->recoveries.items;
    int64_t count = module->recoveries.count, kept = 0;
    for (int64_t i = 0; i < count; i++) items[i].position = i;
    if (count > 1) qsort(items, (size_t)count, sizeof(*items), compare_recoveries);
    for (int64_t i = 0; i < count; i++) {
        if (kept > 0 && compare_original_arrays(&items[kept - 1].lost, &items[i].lost) == 0) {
            hlo_module_free(items[i].module);
        } else {
            items[kept++] = items[i];
        }
    }
    module->recoveries.count = kept;
}

// A recovery's module is cloned as a whole; one for which memory is short ends the copy like any other allocation.
static void copy_recoveries(HloModule *module, const HloModule *from) {
    for (int64_t i = 0; i < from->recoveries.count; i++) {
        const HloRecovery *recovery = &from->recoveries.items[i];
        HloModule *copy = recovery->module ? hlo_module_clone(recovery->module) : NULL;
        if (recovery->module && !copy) hlo_out_of_memory();
        hlo_module_add_recovery(module, &recovery->lost, &recovery->kept, copy);
    }
}

void hlo_module_copy_header(HloModule *module, const HloModule *from) {
    assert(module && from && module != from);
    HloArena *arena = module->arena;
    module->is_scheduled = from->is_scheduled;
    module->replica_count = from->replica_count;
    module->num_partitions = from->num_partitions;
    module->use_spmd_partitioning = from->use_spmd_partitioning;
    if (from->entry_parameter_layouts) {
        int64_t count = from->entry_parameter_layout_count;
        const HloShape **layouts = HLO_ARENA_NEW(arena, const HloShape *, count);
        for (int64_t i = 0; i < count; i++) layouts[i] = hlo_shape_copy(arena, from->entry_parameter_layouts[i]);
        module->entry_parameter_layouts = layouts;
        module->entry_parameter_layout_count = count;
    }
    if (from->entry_result_layout) module->entry_result_layout = hlo_shape_copy(arena, from->entry_result_layout);
    copy_aliasing(module, from);
    module->propagate_to_parameters = copy_bools(arena, from->propagate_to_parameters);
    module->propagate_to_output = copy_bools(arena, from->propagate_to_output);
    module->frontend_attributes = hlo_key_values_copy(arena, from->frontend_attributes);
    copy_recoveries(module, from);
    module->proto_rest = copy_bytes(arena, from->proto_rest);
    module->config_rest = copy_bytes(arena, from->config_rest);
    module->source_file = hlo_arena_text(arena, from->source_file);
    copy_stack(module, &from->stack);
}

void hlo_module_set_frontend_attribute(HloModule *module, const char *key, const char *value) {
    module->frontend_attributes = hlo_key_values_with(module->arena, module->frontend_attributes, key, value);
}

typedef struct CloneCall {
    const HloModule *from;
    HloModule *copy;
} CloneCall;

// Body of hlo_protect(): when memory runs out half way, the copy is freed as a whole.
static HloStatus clone_into(void *argument) {
    const CloneCall *call = argument;
    hlo_module_copy_header(call->copy, call->from);
    hlo_module_clone_computations(call->copy, call->from);
    return HLO_SUCCESS;
}

HloModule *hlo_module_clone(const HloModule *module) {
    assert(module);
    CloneCall call = {module, hlo_module_new(module->name)};
    if (!call.copy) return NULL;
    HloStatus status = hlo_protect(clone_into, &call);
    if (!status) return call.copy;
    hlo_status_free(status);
    hlo_module_free(call.copy);
    return NULL;
}

// ---------------------------------------------------------------------------------------------------------------------
// Call graph

// A walk over the call graph. Both arrays are indexed by computation id; `placed` also ends the recursion if a
// computation has many callers, so the walk is linear in instructions and calls.
typedef struct CallWalk {
    HloComputation **order;
    int64_t count;
    bool *reachable, *placed;
} CallWalk;

// The depth is bounded by the call depth of the program, which parsers limit.
static void mark_reachable(CallWalk *walk, const HloComputation *computation) {
    assert(computation->id >= 0);
    if (walk->reachable[computation->id]) return;
    walk->reachable[computation->id] = true;
    for (const HloInstruction *i = computation->first; i; i = i->next) {
        for (int32_t j = 0; j < i->called_count; j++) mark_reachable(walk, i->called[j]);
    }
}

// Places a computation after all that it calls. The call graph has no cycles (the verifier refuses recursion).
static void place(CallWalk *walk, HloComputation *computation) {
    if (walk->placed[computation->id]) return;
    walk->placed[computation->id] = true;
    for (const HloInstruction *i = computation->first; i; i = i->next) {
        for (int32_t j = 0; j < i->called_count; j++) place(walk, i->called[j]);
    }
    walk->order[walk->count++] = computation;
}

// Fills `walk` with the reachable computations in the order of creation, if that has all callees first; else returns
// false and leaves it as it was. Only callers are looked at: most passes ask for the order, and a look at every
// instruction of a large program would take longer than many of them.
static bool place_as_created(CallWalk *walk, const HloModule *module, HloArena *arena) {
    int64_t *position = HLO_ARENA_NEW(arena, int64_t, module->computation_limit);
    bool *reachable = HLO_ARENA_NEW(arena, bool, module->computation_limit);
    for (int64_t i = 0; i < module->computations.count; i++) position[module->computations.items[i]->id] = i;
    position[module->entry->id] = module->computations.count;
    if (module->entry->callers.count) return false;
    reachable[module->entry->id] = true;
    for (int64_t i = module->computations.count - 1; i >= 0; i--) {
        const HloComputation *computation = module->computations.items[i];
        for (int64_t k = 0; k < computation->callers.count; k++) {
            const int32_t caller = computation->callers.items[k]->parent->id;
            if (position[caller] <= position[computation->id]) return false;
            reachable[computation->id] |= reachable[caller];
        }
    }
    for (int64_t i = 0; i < module->computations.count; i++) {
        HloComputation *computation = module->computations.items[i];
        if (reachable[computation->id] && computation != module->entry) walk->order[walk->count++] = computation;
    }
    walk->order[walk->count++] = module->entry;
    return true;
}

// Walks in the order of creation, not from the entry, so that a program is printed in the order in which it was
// written.
HloComputation **hlo_module_post_order(const HloModule *module, HloArena *arena, int64_t *count) {
    assert(module && module->entry && arena && count);
    CallWalk walk = {.order = HLO_ARENA_NEW(arena, HloComputation *, module->computations.count),
                     .reachable = HLO_ARENA_NEW(arena, bool, module->computation_limit),
                     .placed = HLO_ARENA_NEW(arena, bool, module->computation_limit)};
    if (!place_as_created(&walk, module, arena)) {
        mark_reachable(&walk, module->entry);
        // Creation order is kept wherever it already has callees first.
        for (int64_t i = 0; i < module->computations.count; i++) {
            HloComputation *computation = module->computations.items[i];
            if (walk.reachable[computation->id] && computation != module->entry) place(&walk, computation);
        }
        place(&walk, module->entry);
    }
    *count = walk.count;
    return walk.order;
}

HloComputation **hlo_module_whole_post_order(const HloModule *module, HloArena *arena, int64_t *count) {
    assert(module && arena && count);
    CallWalk walk = {.order = HLO_ARENA_NEW(arena, HloComputation *, module->computations.count),
                     .placed = HLO_ARENA_NEW(arena, bool, module->computation_limit)};
    for (int64_t i = 0; i < module->computations.count; i++) place(&walk, module->computations.items[i]);
    *count = walk.count;
    return walk.order;
}

void hlo_module_remove_unreachable(HloModule *module) {
    assert(module && module->entry);
    bool *reached = HLO_ARENA_NEW(module->arena, bool, module->computation_limit);
    int64_t count;
    HloComputation **order = hlo_module_post_order(module, module->arena, &count);
    for (int64_t i = 0; i < count; i++) reached[order[i]->id] = true;
    // Callers are removed before their callees, so that nothing is removed while it is still called.
    for (bool removed = true; removed;) {
        removed = false;
        for (int64_t i = module->computations.count - 1; i >= 0; i--) {
            HloComputation *computation = module->computations.items[i];
            if (reached[computation->id] || computation->callers.count) continue;
            hlo_computation_remove(computation);
            removed = true;
        }
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Queries

static uint64_t hash_text(uint64_t hash, const char *text) {
    return hlo_hash_mix(hash, text ? hlo_hash_bytes(text, strlen(text)) : 7);
}

static uint64_t hash_key_values(uint64_t hash, HloKeyValues list) {
    hash = hlo_hash_mix(hash, (uint64_t)list.count);
    for (int64_t i = 0; i < list.count; i++) hash = hash_text(hash_text(hash, list.items[i].key), list.items[i].value);
    return hash;
}

// Operands hash as positions in post-order, not as ids: neither the order of the list nor removed instructions make a
// difference.
static uint64_t hash_computation(const HloComputation *computation, HloArena *scratch, int64_t *position_of) {
    assert(computation->root);
    uint64_t hash = (uint64_t)computation->instruction_count;
    int64_t position = 0;
    int64_t count;
    HloInstruction **order = hlo_computation_post_order(computation, scratch, &count);
    for (int64_t n = 0; n < count; n++) {
        const HloInstruction *i = order[n];
        position_of[i->id] = ++position;
        hash = hlo_hash_mix(hash, (uint64_t)i->opcode);
        hash = hlo_hash_mix(hash, hlo_shape_hash(i->shape));
        hash = hlo_hash_mix(hash, hlo_attributes_hash(hlo_op_info(i->opcode)->family, i->attributes));
        hash = hlo_hash_mix(hash, i->sharding ? hlo_sharding_hash(i->sharding) : 3);
        for (int32_t j = 0; j < i->operand_count; j++) {
            hash = hlo_hash_mix(hash, (uint64_t)position_of[i->operands[j]->id]);
        }
        for (int64_t j = 0; j < i->control_predecessors.count; j++) {
            hash = hlo_hash_mix(hash, (uint64_t)position_of[i->control_predecessors.items[j]->id] + 1000003);
        }
        for (int32_t j = 0; j < i->called_count; j++) hash = hlo_hash_mix(hash, (uint64_t)i->called[j]->id);
        hash = hash_text(hash, i->backend_config);
        hash = hash_text(hash, i->metadata ? i->metadata->op_name : NULL);
        hash = hash_key_values(hash, i->frontend_attributes);
    }
    return hlo_hash_mix(hash, computation->root ? (uint64_t)position_of[computation->root->id] : 0);
}

// Hashes the header: number of devices, shared buffers, layouts of the entry's arrays. Two programs that differ only in
// these are not the same executable.
static uint64_t hash_header(const HloModule *module) {
    const uint64_t numbers[] = {(uint64_t)module->computations.count,    (uint64_t)module->replica_count,
                                (uint64_t)module->num_partitions,        module->is_scheduled,
                                module->use_spmd_partitioning,           (uint64_t)module->donor_count,
                                hlo_ints_hash(module->alias_passthrough)};
    uint64_t hash = hash_key_values(hlo_hash_bytes(numbers, sizeof(numbers)), module->frontend_attributes);
    hash = hlo_hash_mix(hash, hlo_aliases_hash(module->aliases));
    for (int64_t i = 0; i < module->donor_count; i++) {
        hash = hlo_hash_mix(hash, (uint64_t)module->donors[i].parameter);
        hash = hlo_hash_mix(hash, hlo_ints_hash(module->donors[i].index));
    }
    for (int64_t i = 0; module->entry_parameter_layouts && i < module->entry_parameter_layout_count; i++)
        hash = hlo_hash_mix(hash, hlo_shape_hash(module->entry_parameter_layouts[i]));
    return module->entry_result_layout ? hlo_hash_mix(hash, hlo_shape_hash(module->entry_result_layout)) : hash;
}

uint64_t hlo_module_hash(const HloModule *module) {
    assert(module);
    HloArena *scratch = hlo_arena_scratch_new();
    int64_t *position_of = HLO_ARENA_NEW(scratch, int64_t, module->instruction_limit);
    uint64_t hash = hash_header(module);
    for (int64_t i = 0; i < module->computations.count; i++) {
        hash = hlo_hash_mix(hash, hash_computation(module->computations.items[i], scratch, position_of));
    }
    hlo_arena_free(scratch);
    return hlo_hash_mix(hash, module->entry ? (uint64_t)module->entry->id : 0);
}

// Takes the source from the metadata itself, or from its stack frame: frame -> location -> file and line. Invalid
// numbers give no source: tables come from files.
int64_t hlo_module_next_channel(const HloModule *module) {
    assert(module);
    int64_t next = 1;
    for (int64_t c = 0; c < module->computations.count; c++) {
        for (const HloInstruction *at = module->computations.items[c]->first; at; at = at->next) {
            int64_t id = 0;
            switch (hlo_op_info(at->opcode)->family) {
                case HLO_FAMILY_Collective: id = HLO_ATTRIBUTES(at, Collective)->channel_id; break;
                case HLO_FAMILY_Permute: id = HLO_ATTRIBUTES(at, Permute)->channel_id; break;
                case HLO_FAMILY_Transfer: id = HLO_ATTRIBUTES(at, Transfer)->channel_id; break;
                default: break;
            }
            if (id >= next && id < INT64_MAX) next = id + 1;
        }
    }
    return next;
}

void hlo_instruction_source(const HloInstruction *instruction, const char **file, int64_t *line) {
    assert(instruction && file && line);
    *file = NULL;
    *line = 0;
    const HloMetadata *metadata = instruction->metadata;
    if (!metadata) return;
    if (metadata->source_file) {
        *file = metadata->source_file;
        *line = metadata->source_line;
        return;
    }
    const HloStackTables *stack = &instruction->parent->module->stack;
    int64_t frame = metadata->stack_frame_id;
    if (frame < 1 || frame > stack->frames.count) return;
    int64_t location = stack->frames.items[frame - 1].file_location_id;
    if (location < 1 || location > stack->locations.count) return;
    const HloFileLocation *place = &stack->locations.items[location - 1];
    if (place->file_name_id < 1 || place->file_name_id > stack->file_names.count) return;
    *file = stack->file_names.items[place->file_name_id - 1];
    *line = place->line;
}

const char *hlo_instruction_source_text(HloArena *arena, const HloInstruction *instruction) {
    const char *file;
    int64_t line;
    hlo_instruction_source(instruction, &file, &line);
    return file ? hlo_arena_format(arena, "%s:%lld", file, (long long)line) : "";
}

HloStatus hlo_status_at_instruction(HloStatus status, const HloInstruction *instruction) {
    assert(instruction);
    if (!status || hlo_status_place(status)) return status;
    HloPlace place = {.instruction = instruction->name};
    hlo_instruction_source(instruction, &place.file, &place.line);
    return hlo_status_at_place(status, &place);
}
