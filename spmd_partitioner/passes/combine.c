// SPDX-License-Identifier: Apache-2.0
// Joins collectives over the same groups into one over several arrays, since each collective pays its latency once. The
// list is walked once; bit sets record what each instruction depends on, so that no group waits for itself.
//
//     %a = f32[8] all-reduce(%x)                %t = (f32[8], f32[4]) all-reduce(%x, %y)
//     %b = f32[4] all-reduce(%y)     becomes    %a = get-tuple-element(%t), index=0
//     (%y does not depend on %a)                %b = get-tuple-element(%t), index=1
//
// All kinds but one have this form. An all-to-all along a dimension takes one array: the members' blocks for each
// device are put side by side, exchanged, and taken apart again.
//
//     %a = f32[4,6] all-to-all(%x), dimensions={0}               %t = f32[4,16] concatenate(%x, %z), dimensions={1}
//     %b = f32[5,4,2] all-to-all(%y), dimensions={1}   becomes   %e = f32[4,16] all-to-all(%t), dimensions={0}
//     (%z: f32[4,10], %y with the blocks first)                  %a = f32[4,6] slice(%e), slice={[0:4], [0:6]}, ...
//
// Sums are joined up to a limit in bytes. Of the other kinds only small arrays are: large ones would gain nothing, and
// gathered arrays would be in memory from the first use of any of them.
//
// A group's needs are the groups that its members depend on. At most 64 are filled in one walk, each up to a limit in
// bytes; a collective that finds neither a group nor room for a new one stays as it is until the next walk. Afterwards
// the list is sorted again, since a joined op comes after its last operand.
#include <assert.h>

#include "hlo/analysis/contents.h"
#include "hlo/analysis/redundant.h"
#include "hlo/pass/support.h"
#include "spmd_partitioner/passes/passes.h"

// Groups that are filled at the same time; each is a bit in the sets of what an instruction depends on.
enum { GROUPS = 64 };

// What an exchange of blocks may have to be joined: its blocks are copied twice for it.
enum { SMALL_BLOCKS_BYTES = 64 << 10 };

typedef struct Group {
    HloInstructionVector members;
    int64_t bytes;
    uint64_t needs;  // groups that members depend on
} Group;

// A collective that may be joined, and the hash of its kind.
typedef struct Candidate {
    HloInstruction *at;
    uint64_t kind;
} Candidate;

typedef struct Combiner {
    HloComputation *computation;
    HLO_VECTOR(Candidate) candidates;  // in the order of the program
    HloArena *scratch;
    int64_t limit;
    Group groups[GROUPS];
    int32_t count;
    uint64_t *needs;  // by instruction id
    HloIntMap alike;  // hash of a kind -> number of collectives that have it
} Combiner;

// Everything that the groups in `set` depend on, directly or not.
static uint64_t closure(const Combiner *combiner, uint64_t set) {
    for (uint64_t before = 0; before != set;) {
        before = set;
        for (int32_t g = 0; g < combiner->count; g++) {
            if (set >> g & 1) set |= combiner->groups[g].needs;
        }
    }
    return set;
}

// The attributes in which members of a group agree: not the dimension of the blocks of an exchange.
static SpmdExchange kind_of(const HloInstruction *at) {
    SpmdExchange kind = spmd_exchange_of(at);
    if (hlo_is(at, HLO_OP_ALL_TO_ALL)) kind.collective.dimensions = (HloInts){0};
    return kind;
}

// Whether all members must have the same type: those of one reducer, or parts of one array.
static bool has_one_type(const HloInstruction *at) {
    return at->called_count > 0 || hlo_is(at, HLO_OP_ALL_TO_ALL);
}

// Equal for collectives of one kind.
static uint64_t kind_hash(const HloInstruction *at) {
    const SpmdExchange kind = kind_of(at);
    uint64_t hash = hlo_is(at, HLO_OP_COLLECTIVE_PERMUTE) ? hlo_pairs_hash(kind.permute.source_target_pairs)
                                                          : hlo_attributes_hash(hlo_op_info(at->opcode)->family, &kind);
    hash = hlo_hash_mix(hash, (uint64_t)at->opcode);
    if (has_one_type(at)) hash = hlo_hash_mix(hash, (uint64_t)at->shape->type);
    return hlo_hash_mix(hash, at->called_count ? (uint64_t)at->called[0]->id : 0) | 1;
}

// The dimension along which an exchange takes its blocks.
static int64_t block_dimension(const HloInstruction *exchange) {
    return HLO_ATTRIBUTES(exchange, Collective)->dimensions.items[0];
}

// One collective can do both: the same groups or pairs, the same reducer.
static bool same_kind(const HloInstruction *a, const HloInstruction *b) {
    const SpmdExchange x = kind_of(a), y = kind_of(b);
    if (a->opcode != b->opcode || a->called_count != b->called_count) return false;
    if (has_one_type(a) && a->shape->type != b->shape->type) return false;
    if (a->called_count && a->called[0] != b->called[0]) return false;
    if (hlo_is(a, HLO_OP_ALL_TO_ALL) && a->shape->dims[block_dimension(a)] != b->shape->dims[block_dimension(b)])
        return false;
    return hlo_attributes_equal(hlo_op_info(a->opcode)->family, &x, &y);
}

// The larger of operand and result.
static int64_t bytes_of(const HloInstruction *at) {
    const int64_t sent = hlo_shape_bytes(at->operands[0]->shape), received = hlo_shape_bytes(at->shape);
    return sent > received ? sent : received;
}

// Puts a collective into a group that it neither depends on nor would tie into a knot.
// First fit, in the order in which groups were opened.
static void join_group(Combiner *combiner, HloInstruction *at, uint64_t needs) {
    assert(at->parent);
    const int64_t bytes = bytes_of(at);
    int32_t chosen = -1;
    for (int32_t g = 0; g < combiner->count && chosen < 0; g++) {
        Group *group = &combiner->groups[g];
        bool fits = group->bytes + bytes <= combiner->limit && !(needs >> g & 1);
        if (fits && same_kind(group->members.items[0], at)) chosen = g;
    }
    if (chosen < 0) {
        if (combiner->count == GROUPS) return;
        chosen = combiner->count++;
        combiner->groups[chosen] = (Group){0};
    }
    Group *group = &combiner->groups[chosen];
    hlo_vector_push(combiner->scratch, &group->members, at);
    group->bytes += bytes;
    group->needs |= needs;
    combiner->needs[at->id] |= UINT64_C(1) << chosen;
}

// `with` takes the place of a member.
static void replace_member(HloInstruction *all, HloInstruction *member, HloInstruction *with) {
    spmd_join_reasons(all, member);
    hlo_instruction_replace_uses(member, with);
    hlo_instruction_remove(member);
}

// One collective of a tuple instead of the members.
static void emit_tuple(Combiner *combiner, const Group *group) {
    const int64_t count = group->members.count;
    HloInstruction *first = group->members.items[0];
    HloArena *arena = combiner->computation->module->arena;
    HloInstruction **operands = HLO_ARENA_NEW(combiner->scratch, HloInstruction *, count);
    const HloShape **shapes = HLO_ARENA_NEW(arena, const HloShape *, count);
    for (int64_t i = 0; i < count; i++) {
        operands[i] = group->members.items[i]->operands[0];
        shapes[i] = group->members.items[i]->shape;
    }
    HloInstruction *all =
        hlo_instruction_new(combiner->computation, first->opcode, hlo_shape_tuple(arena, shapes, count), operands,
                            count, first->attributes, first->name);
    hlo_instruction_copy_annotations(all, first);
    all->sharding = NULL;
    hlo_instruction_set_called(all, first->called, first->called_count);
    for (int64_t i = 0; i < count; i++) {
        HloInstruction *member = group->members.items[i];
        replace_member(all, member, hlo_pass_get(member, all, i));
    }
}

// The order of dimensions with `dim` first and the others as they are.
static HloInts with_first(const HloInstruction *like, int64_t dim, int64_t rank) {
    int64_t *order = hlo_pass_ints(like, rank), at = 1;
    order[0] = dim;
    for (int64_t d = 0; d < rank; d++)
        if (d != dim) order[at++] = d;
    return (HloInts){order, rank};
}

// An operand of an exchange as a matrix with a row for each device: its blocks.
static HloInstruction *blocks_of(const HloInstruction *member, HloInts dims) {
    HloInstruction *operand = member->operands[0];
    const int64_t dim = block_dimension(member);
    HloInstruction *first =
        dim ? hlo_pass_transpose(member, operand, with_first(member, dim, operand->shape->rank)) : operand;
    return hlo_pass_reshape(member, first, dims);
}

// What a member would have brought, from the columns of the joined exchange that are its own.
static HloInstruction *own_blocks(const HloInstruction *member, HloInstruction *all, int64_t start, int64_t width) {
    const HloShape *shape = member->shape;
    const int64_t rows = all->shape->dims[0], dim = block_dimension(member);
    HloArena *arena = all->parent->module->arena;
    const int64_t starts[] = {0, start}, limits[] = {rows, start + width}, strides[] = {1, 1};
    HloInstruction *part = hlo_pass_slice(member, all, hlo_ints(arena, starts, 2), hlo_ints(arena, limits, 2),
                                          hlo_ints(arena, strides, 2));
    const HloInts order = with_first(member, dim, shape->rank);
    int64_t *dims = hlo_pass_ints(member, shape->rank);
    for (int32_t d = 0; d < shape->rank; d++) dims[d] = shape->dims[order.items[d]];
    HloInstruction *first = hlo_pass_reshape(member, part, (HloInts){dims, shape->rank});
    return dim ? hlo_pass_transpose(member, first, hlo_pass_inverse(member, order)) : first;
}

// One exchange of the members' blocks, side by side.
static void emit_exchange(Combiner *combiner, const Group *group) {
    const int64_t count = group->members.count;
    HloInstruction *first = group->members.items[0];
    HloArena *arena = combiner->computation->module->arena;
    HloInstruction **blocks = HLO_ARENA_NEW(combiner->scratch, HloInstruction *, count);
    const int64_t rows = first->shape->dims[block_dimension(first)];
    int64_t columns = 0;
    for (int64_t i = 0; i < count; i++) {
        const HloInstruction *member = group->members.items[i];
        int64_t dims[] = {rows, hlo_shape_elements(member->shape) / rows};
        blocks[i] = blocks_of(member, hlo_ints(arena, dims, 2));
        columns += dims[1];
    }
    HloDimensionsAttributes along = {.dimensions = hlo_ints(arena, (const int64_t[]){1}, 1)};
    const HloShape *shape = hlo_shape_with_dims(arena, blocks[0]->shape, (const int64_t[]){rows, columns}, 2);
    HloInstruction *joined =
        hlo_instruction_new(combiner->computation, HLO_OP_CONCATENATE, shape, blocks, count, &along, NULL);
    HloCollectiveAttributes attributes = *HLO_ATTRIBUTES(first, Collective);
    attributes.dimensions = hlo_ints(arena, (const int64_t[]){0}, 1);
    HloInstruction *all =
        hlo_instruction_new(combiner->computation, HLO_OP_ALL_TO_ALL, shape, &joined, 1, &attributes, first->name);
    hlo_instruction_copy_annotations(all, first);
    all->sharding = NULL;
    for (int64_t i = 0, start = 0; i < count; i++) {
        HloInstruction *member = group->members.items[i];
        const int64_t width = blocks[i]->shape->dims[1];
        replace_member(all, member, own_blocks(member, all, start, width));
        start += width;
    }
}

// Whether a kind of collective can be joined, and this one is small enough to gain by it.
static bool pays(const HloInstruction *at, int64_t limit) {
    const int64_t bytes = bytes_of(at);
    switch (at->opcode) {
        case HLO_OP_ALL_REDUCE: return at->called_count == 1 && bytes <= limit;
        case HLO_OP_REDUCE_SCATTER: return at->called_count == 1 && bytes <= SPMD_SMALL_BYTES;
        case HLO_OP_ALL_GATHER:
        case HLO_OP_COLLECTIVE_PERMUTE: return bytes <= SPMD_SMALL_BYTES;
        // Every device has as many rows as its group has members: those of another form are the program's own.
        case HLO_OP_ALL_TO_ALL:
            return HLO_ATTRIBUTES(at, Collective)->dimensions.count == 1 && bytes > 0 && bytes <= SMALL_BLOCKS_BYTES;
        default: return false;
    }
}

static bool can_join(const HloInstruction *at, int64_t limit) {
    return hlo_op_is(at->opcode, HLO_OP_IS_COLLECTIVE) && hlo_shape_is_array(at->shape) &&
           !hlo_shape_is_dynamic(at->shape) && at != at->parent->root && spmd_may_replace(at) && pays(at, limit);
}

// Finds the collectives that may be joined, and counts those of each kind: one without a like needs no group. Returns
// the largest number.
static int64_t find_candidates(Combiner *combiner) {
    int64_t most = 0;
    for (HloInstruction *at = combiner->computation->first; at; at = at->next) {
        if (!can_join(at, combiner->limit)) continue;
        const uint64_t kind = kind_hash(at);
        const int64_t *found = hlo_int_map_find(&combiner->alike, kind), number = found ? *found + 1 : 1;
        hlo_int_map_set(combiner->scratch, &combiner->alike, kind, number);
        hlo_vector_push(combiner->scratch, &combiner->candidates, ((Candidate){at, kind}));
        if (number > most) most = number;
    }
    return most;
}

// `needs` of an instruction are the groups that it depends on, through operands and through members of groups that
// those depend on. A collective may join a group that it does not need.
static void fill_groups(Combiner *combiner) {
    int64_t next = 0;
    for (HloInstruction *at = combiner->computation->first; at; at = at->next) {
        uint64_t needs = 0;
        for (int32_t i = 0; i < at->operand_count; i++) needs |= combiner->needs[at->operands[i]->id];
        for (int64_t i = 0; i < at->control_predecessors.count; i++) {
            needs |= combiner->needs[at->control_predecessors.items[i]->id];
        }
        needs = closure(combiner, needs);
        combiner->needs[at->id] = needs;
        if (next == combiner->candidates.count || combiner->candidates.items[next].at != at) continue;
        const int64_t *alike = hlo_int_map_find(&combiner->alike, combiner->candidates.items[next++].kind);
        if (*alike > 1) join_group(combiner, at, needs);
    }
}

// One walk over a computation. True if something was joined and there were more groups than can be filled at a time.
static bool combine(HloComputation *computation, HloArena *scratch, int64_t limit) {
    assert(limit >= 0);
    Combiner *combiner = HLO_ARENA_NEW(scratch, Combiner, 1);
    *combiner = (Combiner){.computation = computation, .scratch = scratch, .limit = limit};
    if (find_candidates(combiner) < 2) return false;
    combiner->needs = HLO_ARENA_NEW(scratch, uint64_t, computation->module->instruction_limit);
    fill_groups(combiner);
    bool changed = false;
    for (int32_t g = 0; g < combiner->count; g++) {
        const Group *group = &combiner->groups[g];
        if (group->members.count < 2) continue;
        changed = true;
        if (hlo_is(group->members.items[0], HLO_OP_ALL_TO_ALL))
            emit_exchange(combiner, group);
        else
            emit_tuple(combiner, group);
    }
    if (changed) hlo_computation_sort(computation);
    return changed && combiner->count == GROUPS;
}

// What has been joined has several operands and is not joined again, except for exchanges, which are then larger.
void spmd_combine_collectives(HloModule *module, HloArena *scratch, int64_t limit) {
    const int64_t count = module->computations.count;
    for (int64_t c = 0; c < count; c++)
        while (combine(module->computations.items[c], scratch, limit)) continue;
}

// ---- taking apart

static bool is_joined_sum(const HloInstruction *at) {
    if (!hlo_is(at, HLO_OP_ALL_REDUCE) || at->operand_count < 2 || at == at->parent->root) return false;
    if (at->control_predecessors.count || at->control_successors.count) return false;
    for (int64_t i = 0; i < at->users.count; i++)
        if (!hlo_is(at->users.items[i], HLO_OP_GET_TUPLE_ELEMENT)) return false;
    return hlo_instruction_frontend_attribute(at, "meshlo.reason");
}

bool spmd_has_joined_sums(const HloModule *module) {
    return hlo_module_find(module, is_joined_sum) != NULL;
}

static HloInstruction *put_alone(HloInstruction *all, int32_t member, int64_t channel) {
    HloCollectiveAttributes attributes = *HLO_ATTRIBUTES(all, Collective);
    if (attributes.channel_id) attributes.channel_id = channel;
    HloInstruction *operand = all->operands[member];
    HloInstruction *alone =
        hlo_instruction_new(all->parent, HLO_OP_ALL_REDUCE, operand->shape, &operand, 1, &attributes, NULL);
    hlo_instruction_set_called(alone, all->called, all->called_count);
    alone->metadata = all->metadata;
    spmd_join_reasons(alone, all);
    hlo_instruction_move_before(alone, all);
    return alone;
}

static void separate(HloInstruction *all, int64_t *channel) {
    for (int32_t i = 0; i < all->operand_count; i++) {
        HloInstruction *alone = NULL;
        for (int64_t u = all->users.count; u-- > 0;) {
            HloInstruction *element = all->users.items[u];
            if (HLO_ATTRIBUTES(element, TupleIndex)->index != i) continue;
            if (!alone) alone = put_alone(all, i, (*channel)++);
            if (element->sharding) spmd_take_annotations(alone, element);
            hlo_instruction_replace_uses(element, alone);
            hlo_instruction_remove(element);
        }
    }
    hlo_instruction_remove(all);
}

void spmd_separate_sums(HloModule *module) {
    int64_t channel = hlo_module_next_channel(module);
    for (int64_t c = 0; c < module->computations.count; c++)
        for (HloInstruction *at = module->computations.items[c]->first, *next; at; at = next) {
            next = at->next;
            while (next && hlo_is(next, HLO_OP_GET_TUPLE_ELEMENT)) next = next->next;  // these go with it
            if (is_joined_sum(at)) separate(at, &channel);
        }
}
