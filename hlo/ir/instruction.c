// SPDX-License-Identifier: Apache-2.0
// Instructions: nodes of the graph, and the edges between them.
//
// Every edge is recorded at both ends. An operand lists its users, each once however often it is used; a computation
// lists its callers; control edges have a list on either side. All functions here keep both ends consistent, no other
// code may modify them, and the verifier checks it. A removed instruction keeps its memory in the arena until the
// module is freed; its parent is NULL from then on.
#include "hlo/ir/instruction.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "hlo/ir/module.h"
#include "hlo/ir/names.h"

// ---------------------------------------------------------------------------------------------------------------------
// Edges

// Removes an item; does nothing if it is not in the vector. Passes visit the users of an instruction in their order or
// against it, so the search starts at both ends, and the shorter side moves: a broadcast with 100,000 users loses them
// all in linear time.
static void vector_remove(HloInstructionVector *vector, const HloInstruction *item) {
    assert(vector && item);
    int64_t low = 0, high = vector->count - 1;
    while (low <= high && vector->items[low] != item && vector->items[high] != item) {
        low++;
        high--;
    }
    if (low > high) return;
    if (vector->items[low] == item) {
        memmove(vector->items + 1, vector->items, (size_t)low * sizeof(*vector->items));
        vector->items++;  // the memory is the arena's
        vector->capacity--;
    } else {
        memmove(&vector->items[high], &vector->items[high + 1],
                (size_t)(vector->count - high - 1) * sizeof(*vector->items));
    }
    vector->count--;
}

bool hlo_instruction_vector_contains(const HloInstructionVector *vector, const HloInstruction *item) {
    for (int64_t i = 0; i < vector->count; i++) {
        if (vector->items[i] == item) return true;
    }
    return false;
}

// The arena of the instruction's module, in which everything that belongs to the instruction lives.
static HloArena *arena_of(const HloInstruction *instruction) {
    return instruction->parent->module->arena;
}

// True if the operand is among the first `first_operands` operands of the user.
static bool uses(const HloInstruction *user, const HloInstruction *operand, int64_t first_operands) {
    for (int64_t i = 0; i < first_operands; i++) {
        if (user->operands[i] == operand) return true;
    }
    return false;
}

// Adds `user`, which is in no operand's list of users yet, to the lists of all of its operands, each once: an operand
// that already has it has it as its last user. (Tuples have tens of thousands of operands, so searching the operands
// for duplicates would be too slow.)
static void add_uses(HloInstruction *user) {
    for (int64_t i = 0; i < user->operand_count; i++) {
        HloInstructionVector *users = &user->operands[i]->users;
        bool known = users->count > 0 && users->items[users->count - 1] == user;
        if (!known) hlo_vector_push(arena_of(user), users, user);
    }
}

// Removes the user from the lists of all its operands.
static void drop_uses(HloInstruction *user) {
    for (int64_t i = 0; i < user->operand_count; i++) {
        // If the same operand is repeated, as in a tuple of zeros, a second search for it would be a long one.
        if (i == 0 || user->operands[i] != user->operands[i - 1]) vector_remove(&user->operands[i]->users, user);
    }
}

static void drop_caller(HloComputation *computation, const HloInstruction *caller) {
    vector_remove(&computation->callers, caller);
}

// ---------------------------------------------------------------------------------------------------------------------
// The list of a computation

// Links into the computation's list after `position`; NULL: at the beginning.
static void link_after(HloInstruction *instruction, HloInstruction *position) {
    assert(instruction->parent);
    assert(!position || position->parent == instruction->parent);
    HloComputation *computation = instruction->parent;
    HloInstruction *next = position ? position->next : computation->first;
    instruction->previous = position;
    instruction->next = next;
    *(position ? &position->next : &computation->first) = instruction;
    *(next ? &next->previous : &computation->last) = instruction;
    computation->instruction_count++;
}

// Unlinks from the list only, not from the edges: callers either insert the instruction elsewhere or have removed them.
static void unlink_instruction(HloInstruction *instruction) {
    assert(instruction->parent && instruction->parent->instruction_count > 0);
    HloComputation *computation = instruction->parent;
    *(instruction->previous ? &instruction->previous->next : &computation->first) = instruction->next;
    *(instruction->next ? &instruction->next->previous : &computation->last) = instruction->previous;
    instruction->previous = instruction->next = NULL;
    computation->instruction_count--;
    assert(computation->instruction_count >= 0 && !computation->first == !computation->instruction_count);
}

void hlo_instruction_move_before(HloInstruction *instruction, HloInstruction *position) {
    assert(instruction->parent == position->parent);
    if (instruction == position) return;
    unlink_instruction(instruction);
    link_after(instruction, position->previous);
}

void hlo_instruction_move_after(HloInstruction *instruction, HloInstruction *position) {
    assert(instruction->parent == position->parent);
    if (instruction == position) return;
    unlink_instruction(instruction);
    link_after(instruction, position);
}

// ---------------------------------------------------------------------------------------------------------------------
// Creation and removal

// Parameters may be created in any order; missing entries are NULL until then, and the verifier reports those that
// remain.
static void register_parameter(HloInstruction *parameter) {
    assert(hlo_is(parameter, HLO_OP_PARAMETER));
    HloComputation *computation = parameter->parent;
    int64_t number = hlo_parameter_number(parameter);
    while (computation->parameters.count <= number) {
        hlo_vector_push(computation->module->arena, &computation->parameters, NULL);
    }
    computation->parameters.items[number] = parameter;
}

// Appends to the computation's list. The id is the module's next one, and ids are never reused; operands must be in the
// same computation.
HloInstruction *hlo_instruction_new(HloComputation *computation, HloOpcode opcode, const HloShape *shape,
                                    HloInstruction *const *operands, int64_t operand_count, const void *attributes,
                                    const char *name) {
    assert(computation && !computation->removed && shape);
    assert(opcode >= 0 && opcode < HLO_OPCODE_COUNT && operand_count >= 0);
    HloModule *module = computation->module;
    for (int64_t i = 0; i < operand_count; i++) assert(operands[i]->parent == computation);
    HloInstruction *instruction = HLO_ARENA_NEW(module->arena, HloInstruction, 1);
    instruction->opcode = opcode;
    instruction->id = module->instruction_limit++;
    HloNames *names = &module->instruction_names;
    instruction->name = name && *name ? hlo_unique_name(module->arena, names, name, instruction)
                                      : hlo_opcode_name(module->arena, names, opcode, instruction);
    instruction->shape = shape;
    instruction->parent = computation;
    instruction->operands = hlo_arena_copy(module->arena, operands, (size_t)operand_count * sizeof(*operands));
    instruction->operand_count = (int32_t)operand_count;
    hlo_instruction_set_attributes(instruction, attributes);
    add_uses(instruction);
    link_after(instruction, computation->last);
    if (opcode == HLO_OP_PARAMETER) register_parameter(instruction);
    return instruction;
}

void hlo_instruction_set_attributes(HloInstruction *instruction, const void *attributes) {
    const HloFamilyInfo *family = hlo_family_info(hlo_op_info(instruction->opcode)->family);
    if (family->field_count == 0) return;
    HloArena *arena = arena_of(instruction);
    instruction->attributes =
        attributes ? hlo_arena_copy(arena, attributes, family->bytes) : hlo_arena_allocate(arena, family->bytes);
}

void hlo_instruction_set_called(HloInstruction *instruction, HloComputation *const *called, int64_t count) {
    assert(count >= 0 && instruction->parent);
    for (int32_t i = 0; i < instruction->called_count; i++) drop_caller(instruction->called[i], instruction);
    instruction->called = hlo_arena_copy(arena_of(instruction), called, (size_t)count * sizeof(*called));
    instruction->called_count = (int32_t)count;
    for (int64_t i = 0; i < count; i++) {
        assert(called[i]->module == instruction->parent->module && !called[i]->removed);
        bool again = false;
        for (int64_t j = 0; j < i; j++) again |= called[j] == called[i];
        if (!again) hlo_vector_push(arena_of(instruction), &called[i]->callers, instruction);
    }
}

void hlo_instruction_set_operand(HloInstruction *instruction, int64_t index, HloInstruction *operand) {
    assert(index >= 0 && index < instruction->operand_count);
    assert(operand && operand->parent == instruction->parent);
    HloInstruction *former = instruction->operands[index];
    if (former == operand) return;
    bool already = uses(instruction, operand, instruction->operand_count);
    instruction->operands[index] = operand;
    if (!uses(instruction, former, instruction->operand_count)) vector_remove(&former->users, instruction);
    if (!already) hlo_vector_push(arena_of(instruction), &operand->users, instruction);
}

void hlo_instruction_set_operands(HloInstruction *instruction, HloInstruction *const *operands, int64_t count) {
    assert(count >= 0 && instruction->parent);
    drop_uses(instruction);
    instruction->operands = hlo_arena_copy(arena_of(instruction), operands, (size_t)count * sizeof(*operands));
    instruction->operand_count = (int32_t)count;
    add_uses(instruction);
}

void hlo_instruction_add_operand(HloInstruction *instruction, HloInstruction *operand) {
    assert(operand && operand->parent == instruction->parent);
    int64_t count = instruction->operand_count;
    HloInstruction **operands = HLO_ARENA_NEW(arena_of(instruction), HloInstruction *, count + 1);
    if (count) memcpy(operands, instruction->operands, (size_t)count * sizeof(*operands));
    operands[count] = operand;
    instruction->operands = operands;
    instruction->operand_count++;
    if (!uses(instruction, operand, count)) hlo_vector_push(arena_of(instruction), &operand->users, instruction);
}

void hlo_instruction_replace_use(HloInstruction *instruction, HloInstruction *user, HloInstruction *replacement) {
    for (int32_t i = 0; i < user->operand_count; i++) {
        if (user->operands[i] == instruction) hlo_instruction_set_operand(user, i, replacement);
    }
}

// Each user of `instruction` becomes a user of `replacement`, once, however many operands it replaces; the root is
// replaced too.
void hlo_instruction_replace_uses(HloInstruction *instruction, HloInstruction *replacement) {
    assert(instruction->parent == replacement->parent);
    if (instruction == replacement) return;
    HloInstructionVector users = instruction->users;
    instruction->users = (HloInstructionVector){0};
    for (int64_t i = 0; i < users.count; i++) {
        HloInstruction *user = users.items[i];
        if (user == replacement) {  // the replacement may use the instruction that it replaces
            hlo_vector_push(arena_of(instruction), &instruction->users, user);
            continue;
        }
        bool already = uses(user, replacement, user->operand_count);
        for (int32_t j = 0; j < user->operand_count; j++) {
            if (user->operands[j] == instruction) user->operands[j] = replacement;
        }
        if (!already) hlo_vector_push(arena_of(instruction), &replacement->users, user);
    }
    HloComputation *computation = instruction->parent;
    if (computation->root == instruction) computation->root = replacement;
}

void hlo_instruction_remove(HloInstruction *instruction) {
    assert(instruction->parent);
    HLO_BUG_IF(instruction->users.count > 0 || instruction->parent->root == instruction);
    drop_uses(instruction);
    instruction->operand_count = 0;
    while (instruction->control_predecessors.count) {
        hlo_instruction_remove_control_edge(instruction->control_predecessors.items[0], instruction);
    }
    while (instruction->control_successors.count) {
        hlo_instruction_remove_control_edge(instruction, instruction->control_successors.items[0]);
    }
    for (int32_t i = 0; i < instruction->called_count; i++) drop_caller(instruction->called[i], instruction);
    instruction->called_count = 0;
    if (hlo_is(instruction, HLO_OP_PARAMETER)) {
        instruction->parent->parameters.items[hlo_parameter_number(instruction)] = NULL;
    }
    unlink_instruction(instruction);
    instruction->parent = NULL;
}

void hlo_instruction_add_control_edge(HloInstruction *before, HloInstruction *after) {
    assert(before != after && before->parent == after->parent);
    // Both lists contain the edge: search the shorter one, since one instruction may precede all others.
    const bool known = before->control_successors.count < after->control_predecessors.count
                           ? hlo_instruction_vector_contains(&before->control_successors, after)
                           : hlo_instruction_vector_contains(&after->control_predecessors, before);
    if (known) return;
    hlo_vector_push(arena_of(before), &before->control_successors, after);
    hlo_vector_push(arena_of(before), &after->control_predecessors, before);
}

void hlo_instruction_remove_control_edge(HloInstruction *before, HloInstruction *after) {
    vector_remove(&before->control_successors, after);
    vector_remove(&after->control_predecessors, before);
}

// ---------------------------------------------------------------------------------------------------------------------
// Annotations and copies

HloKeyValues hlo_key_values_copy(HloArena *arena, HloKeyValues from) {
    HloKeyValue *items = HLO_ARENA_NEW(arena, HloKeyValue, from.count);
    for (int64_t i = 0; i < from.count; i++) {
        items[i] = (HloKeyValue){hlo_arena_text(arena, from.items[i].key), hlo_arena_text(arena, from.items[i].value)};
    }
    return (HloKeyValues){items, from.count};
}

// A new key comes where the parser would put it: a program that is printed and read again prints the same text.
HloKeyValues hlo_key_values_with(HloArena *arena, HloKeyValues old, const char *key, const char *value) {
    assert(key && value);
    HloKeyValue *items = HLO_ARENA_NEW(arena, HloKeyValue, old.count + 1);
    const HloKeyValue item = {hlo_arena_text(arena, key), hlo_arena_text(arena, value)};
    int64_t position = 0, place = 0;
    while (position < old.count && strcmp(old.items[position].key, key) != 0) position++;
    if (old.count) memcpy(items, old.items, (size_t)old.count * sizeof(*items));
    if (position < old.count) {
        items[position] = item;
        return (HloKeyValues){items, old.count};
    }
    while (place < old.count && strcmp(old.items[place].key, key) < 0) place++;
    for (int64_t i = old.count; i > place; i--) items[i] = items[i - 1];
    items[place] = item;
    return (HloKeyValues){items, old.count + 1};
}

// Orders by key, then by position in the list, since qsort() is not stable.
static int compare_items(const void *a, const void *b) {
    const HloKeyValue *left = *(const HloKeyValue *const *)a, *right = *(const HloKeyValue *const *)b;
    const int order = strcmp(left->key, right->key);
    return order ? order : (left > right) - (left < right);
}

HloKeyValues hlo_key_values_sorted(HloArena *arena, const HloKeyValue *items, int64_t count) {
    if (count == 0) return (HloKeyValues){0};
    const HloKeyValue **order = HLO_ARENA_NEW(arena, const HloKeyValue *, count);
    for (int64_t i = 0; i < count; i++) order[i] = &items[i];
    qsort(order, (size_t)count, sizeof(const HloKeyValue *), compare_items);
    HloKeyValue *sorted = HLO_ARENA_NEW(arena, HloKeyValue, count);
    int64_t kept = 0;
    for (int64_t i = 0; i < count; i++) {
        const bool repeats = kept && strcmp(sorted[kept - 1].key, order[i]->key) == 0;
        sorted[repeats ? kept - 1 : kept++] = *order[i];
    }
    return (HloKeyValues){sorted, kept};
}

HloKeyValues hlo_key_values_without(HloArena *arena, HloKeyValues old, const char *prefix) {
    HloKeyValue *items = HLO_ARENA_NEW(arena, HloKeyValue, old.count);
    int64_t count = 0;
    for (int64_t i = 0; i < old.count; i++) {
        if (strncmp(old.items[i].key, prefix, strlen(prefix)) != 0) items[count++] = old.items[i];
    }
    return (HloKeyValues){count ? items : NULL, count};
}

// Within a module pointers are shared, as their targets never change; from another module the targets are copied.
void hlo_instruction_copy_annotations(HloInstruction *instruction, const HloInstruction *from) {
    assert(from && instruction->parent);
    instruction->backend_config_is_json = from->backend_config_is_json;
    if (instruction->parent->module == from->parent->module) {
        instruction->sharding = from->sharding;
        instruction->metadata = from->metadata;
        instruction->frontend_attributes = from->frontend_attributes;
        instruction->backend_config = from->backend_config;
        instruction->statistics = from->statistics;
        instruction->origin = from->origin;
        return;
    }
    HloArena *arena = arena_of(instruction);
    instruction->sharding = hlo_sharding_copy(arena, from->sharding);
    instruction->metadata = hlo_metadata_copy(arena, from->metadata);
    instruction->frontend_attributes = hlo_key_values_copy(arena, from->frontend_attributes);
    instruction->backend_config = hlo_arena_text(arena, from->backend_config);
    instruction->statistics = hlo_arena_text(arena, from->statistics);
    instruction->origin = hlo_arena_text(arena, from->origin);
}

HloInstruction *hlo_instruction_clone(HloComputation *computation, const HloInstruction *instruction,
                                      const HloShape *shape, HloInstruction *const *operands, int64_t operand_count) {
    assert(computation && instruction && shape);
    HloArena *arena = computation->module->arena;
    bool same_module = computation->module == instruction->parent->module;
    const void *attributes = instruction->attributes;
    if (!same_module) {
        attributes = hlo_attributes_copy(arena, hlo_op_info(instruction->opcode)->family, attributes);
        shape = hlo_shape_copy(arena, shape);
    }
    HloInstruction *clone = hlo_instruction_new(computation, instruction->opcode, shape, operands, operand_count,
                                                attributes, instruction->name);
    hlo_instruction_copy_annotations(clone, instruction);
    if (same_module && instruction->called_count) {
        hlo_instruction_set_called(clone, instruction->called, instruction->called_count);
    }
    return clone;
}

void hlo_instruction_set_name(HloInstruction *instruction, const char *name) {
    HloModule *module = instruction->parent->module;
    instruction->name = hlo_unique_name(module->arena, &module->instruction_names, name, instruction);
}

void hlo_instruction_set_frontend_attribute(HloInstruction *instruction, const char *key, const char *value) {
    instruction->frontend_attributes =
        hlo_key_values_with(arena_of(instruction), instruction->frontend_attributes, key, value);
}

const char *hlo_instruction_frontend_attribute(const HloInstruction *instruction, const char *key) {
    assert(key);
    for (int64_t i = 0; i < instruction->frontend_attributes.count; i++) {
        if (strcmp(instruction->frontend_attributes.items[i].key, key) == 0) {
            return instruction->frontend_attributes.items[i].value;
        }
    }
    return NULL;
}

// ---------------------------------------------------------------------------------------------------------------------
// Queries

int64_t hlo_instruction_operand_index(const HloInstruction *instruction, const HloInstruction *operand) {
    for (int32_t i = 0; i < instruction->operand_count; i++) {
        if (instruction->operands[i] == operand) return i;
    }
    return -1;
}

const HloInstruction *hlo_instruction_async_start(const HloInstruction *instruction) {
    while (instruction->opcode != HLO_OP_ASYNC_START) instruction = instruction->operands[0];
    return instruction;
}

static bool same_key_values(HloKeyValues a, HloKeyValues b) {
    if (a.count != b.count) return false;
    for (int64_t i = 0; i < a.count; i++) {
        if (strcmp(a.items[i].key, b.items[i].key) != 0 || strcmp(a.items[i].value, b.items[i].value) != 0)
            return false;
    }
    return true;
}

bool hlo_instruction_same_operation(const HloInstruction *a, const HloInstruction *b) {
    assert(a && b);
    if (a->opcode != b->opcode || a->operand_count != b->operand_count || a->called_count != b->called_count ||
        !hlo_shape_equal(a->shape, b->shape, HLO_COMPARE_ALL) || !hlo_sharding_equal(a->sharding, b->sharding) ||
        !same_key_values(a->frontend_attributes, b->frontend_attributes) || hlo_instruction_is_nondeterministic(a)) {
        return false;
    }
    for (int32_t i = 0; i < a->called_count; i++) {
        if (a->called[i] != b->called[i]) return false;
    }
    const char *x = a->backend_config, *y = b->backend_config;
    if (x != y && (!x || !y || strcmp(x, y) != 0)) return false;
    return hlo_attributes_equal(hlo_op_info(a->opcode)->family, a->attributes, b->attributes);
}

bool hlo_instruction_identical(const HloInstruction *a, const HloInstruction *b) {
    if (a == b) return true;
    if (!hlo_instruction_same_operation(a, b)) return false;
    for (int32_t i = 0; i < a->operand_count; i++) {
        if (a->operands[i] != b->operands[i]) return false;
    }
    return true;
}

bool hlo_instruction_is_root(const HloInstruction *instruction) {
    return instruction->parent && instruction->parent->root == instruction;
}

bool hlo_is_splat(const HloInstruction *instruction, const HloLiteral **literal) {
    assert(literal);
    while (instruction->opcode == HLO_OP_BROADCAST || instruction->opcode == HLO_OP_RESHAPE) {
        instruction = instruction->operands[0];
    }
    if (instruction->opcode != HLO_OP_CONSTANT || !hlo_shape_is_array(instruction->shape)) return false;
    *literal = hlo_constant_literal(instruction);
    return *literal && !(*literal)->elided && (*literal)->data && hlo_literal_is_splat(*literal);
}
