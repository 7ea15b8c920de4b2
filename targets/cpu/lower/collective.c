// SPDX-License-Identifier: Apache-2.0
// Lowers collectives: the arrays that are exchanged, and the loops of those that reduce.
//
// A collective becomes a CpuCollective (graph/collective.h): its groups, its arrays, an exchange function, and for
// those that reduce, compiled loops over the operands of all members. An exchange reads the operands of all members and
// writes results in place. run/execute.c calls it once a whole group has arrived, in parts that different workers may
// take. graph/collective_groups.c reads the groups and explains XLA's modes.
//
// Where members are devices of other processes, run/remote.c has received what this process needs of their operands.
// Their results have no address here, and are not computed.
//
// The bits are always the same: every reduction runs in group order, member 0 first, whichever worker computes it and
// in however many parts.
#include <assert.h>
#include <string.h>

#include "hlo/base/arithmetic.h"
#include "hlo/base/map.h"
#include "hlo/base/vector.h"
#include "hlo/ir/collective.h"
#include "targets/cpu/graph/collective.h"
#include "targets/cpu/lower/lower.h"
#include "targets/cpu/lower/ragged.h"

enum { kPartBytes = 256 * 1024, kMaximumParts = 16 };

// One collective while it is lowered; `group_size` is the size of the group that loops are made for.
typedef struct CollectiveLowering {
    CpuLowering *lowering;
    CpuNode *node;
    CpuCollective *collective;
    int64_t group_size;
} CollectiveLowering;

// ---- exchanges

// Reduces one of the pieces that the loops of an array are made for; their length is the array's over
// collective->parts. The loops store a result for each member; where that is not wanted, they store one of the others
// again.
static HloStatus all_reduce_piece(const CpuCollective *collective, const CpuCollectiveGroup *group,
                                  void *const *const *addresses, int32_t index, int64_t piece, void **buffers,
                                  CpuPool *pool) {
    const CpuCollectiveArray *array = &collective->arrays[index];
    const int64_t elements = hlo_shape_elements(array->operand), first = piece * array->loop_elements;
    assert(piece < collective->parts);
    if (first >= elements) return HLO_SUCCESS;
    const bool tail = first + array->loop_elements > elements;
    const int64_t offset = first * hlo_type_bytes(array->operand->type);
    void *const *results = addresses[collective->array_count + index];
    const char *any = NULL;
    for (int64_t m = 0; m < group->count && !any; m++) any = results[m];
    assert(any); /* some member is of this process */
    for (int64_t m = 0; m < group->count; m++) {
        buffers[m] = (char *)addresses[index][m] + offset;
        buffers[group->count + m] = (char *)(uintptr_t)(results[m] ? results[m] : any) + offset;
    }
    const int64_t number = group - collective->groups;
    return cpu_loop_run(tail ? array->tails[number] : array->loops[number], pool, buffers);
}

// Reduces the part's share of the pieces: `parts` is the number of parts that share them. A single worker takes the
// exchange as one part, and so all pieces. Results may share the operands' memory: the loop reads an element of all
// members before it writes it to any. Pointers of up to 64 members are on the stack.
static HloStatus exchange_all_reduce(const CpuCollective *collective, const CpuCollectiveGroup *group,
                                     void *const *const *addresses, int64_t part, int64_t parts, CpuPool *pool) {
    void *small[128];
    void **buffers = 2 * group->count <= 128 ? small : hlo_allocate(sizeof(void *) * 2 * (size_t)group->count);
    HLO_FAIL_IF(!buffers, HLO_RESOURCE_EXHAUSTED, "no memory for an all-reduce of %lld devices",
                (long long)group->count);
    HloStatus status = HLO_SUCCESS;
    for (int32_t i = 0; i < collective->array_count; i++)
        for (int64_t piece = part; piece < collective->parts && !status; piece += parts)
            status = all_reduce_piece(collective, group, addresses, i, piece, buffers, pool);
    if (buffers != small) hlo_free(buffers);
    return status;
}

// Gives device r the reduced chunk r. The order of summands is that of the group on all devices, so the bits do not
// depend on which worker computes them or on how many there are.
static HloStatus exchange_reduce_scatter(const CpuCollective *collective, const CpuCollectiveGroup *group,
                                         void *const *const *addresses, int64_t part, int64_t parts, CpuPool *pool) {
    void *small[128];
    void **buffers = group->count < 128 ? small : hlo_allocate(sizeof(void *) * (size_t)(group->count + 1));
    HLO_FAIL_IF(!buffers, HLO_RESOURCE_EXHAUSTED, "no memory for a reduce-scatter of %lld devices",
                (long long)group->count);
    HloStatus status = HLO_SUCCESS;
    for (int32_t i = 0; i < collective->array_count && !status; i++) {
        const CpuCollectiveArray *array = &collective->arrays[i];
        for (int64_t r = part; r < group->count && !status; r += parts) {
            for (int64_t m = 0; m < group->count; m++) buffers[m] = (char *)addresses[i][m] + r * array->chunk_bytes;
            buffers[group->count] = addresses[collective->array_count + i][r];
            if (buffers[group->count] && hlo_shape_elements(array->result))
                status = cpu_loop_run(array->loops[0], pool, buffers);
        }
    }
    if (buffers != small) hlo_free(buffers);
    return status;
}

// Copies unless the array is already where it belongs: received from another process, or not wanted in this one.
static void copy_array(void *to, const void *from, int64_t bytes) {
    if (to && from && to != from && bytes) memcpy(to, from, (size_t)bytes);
}

// Concatenates the operands of all members. The dimensions outside the gathered one are `outer` runs; each contains the
// chunks of the members, one after the other.
static HloStatus exchange_all_gather(const CpuCollective *collective, const CpuCollectiveGroup *group,
                                     void *const *const *addresses, int64_t part, int64_t parts, CpuPool *pool) {
    (void)pool;
    for (int32_t i = 0; i < collective->array_count; i++) {
        const CpuCollectiveArray *array = &collective->arrays[i];
        const int64_t chunk = array->chunk_bytes;
        for (int64_t r = part; r < group->count; r += parts) {
            char *to = addresses[collective->array_count + i][r];
            for (int64_t o = 0; to && o < array->outer; o++)
                for (int64_t m = 0; m < group->count; m++, to += chunk)
                    copy_array(to, (const char *)addresses[i][m] + o * chunk, chunk);
        }
    }
    return HLO_SUCCESS;
}

// Copies result of r [outer][m] = operand of m [outer][r].
static HloStatus exchange_all_to_all(const CpuCollective *collective, const CpuCollectiveGroup *group,
                                     void *const *const *addresses, int64_t part, int64_t parts, CpuPool *pool) {
    (void)pool;
    const CpuCollectiveArray *array = &collective->arrays[0];
    const int64_t chunk = array->chunk_bytes, count = group->count;
    for (int64_t r = part; r < count; r += parts) {
        char *to = addresses[1][r];
        for (int64_t o = 0; to && o < array->outer; o++)
            for (int64_t m = 0; m < count; m++, to += chunk)
                if (addresses[0][m]) copy_array(to, (const char *)addresses[0][m] + (o * count + r) * chunk, chunk);
    }
    return HLO_SUCCESS;
}

// Copies result j of r = operand r of j.
static HloStatus exchange_all_to_all_tuple(const CpuCollective *collective, const CpuCollectiveGroup *group,
                                           void *const *const *addresses, int64_t part, int64_t parts, CpuPool *pool) {
    (void)pool;
    const int64_t bytes = hlo_shape_bytes(collective->arrays[0].operand);
    for (int64_t r = part; r < group->count; r += parts)
        for (int64_t m = 0; m < group->count; m++)
            copy_array(addresses[collective->array_count + m][r], addresses[r][m], bytes);
    return HLO_SUCCESS;
}

// Copies each member's source. A device that no one sends to gets zeros, by the definition of collective-permute.
static HloStatus exchange_permute(const CpuCollective *collective, const CpuCollectiveGroup *group,
                                  void *const *const *addresses, int64_t part, int64_t parts, CpuPool *pool) {
    (void)pool;
    for (int32_t i = 0; i < collective->array_count; i++) {
        const int64_t bytes = hlo_shape_bytes(collective->arrays[i].operand);
        for (int64_t r = part; r < group->count; r += parts) {
            const int64_t source = collective->sources[group->devices[r]];
            void *to = addresses[collective->array_count + i][r];
            if (source >= 0)
                copy_array(to, addresses[i][collective->member_of[source]], bytes);
            else if (to && bytes)
                memset(to, 0, (size_t)bytes);
        }
    }
    return HLO_SUCCESS;
}

// Copies from member 0 of a group; devices in no group get zeros.
static HloStatus exchange_broadcast(const CpuCollective *collective, const CpuCollectiveGroup *group,
                                    void *const *const *addresses, int64_t part, int64_t parts, CpuPool *pool) {
    (void)pool;
    for (int32_t i = 0; i < collective->array_count; i++) {
        const int64_t bytes = hlo_shape_bytes(collective->arrays[i].operand);
        for (int64_t r = part; r < group->count; r += parts) {
            void *to = addresses[collective->array_count + i][r];
            if (!group->is_left_out)
                copy_array(to, addresses[i][0], bytes);
            else if (to && bytes)
                memset(to, 0, (size_t)bytes);
        }
    }
    return HLO_SUCCESS;
}

// Runs as one part only. The result starts as the second operand, whose elements stay where no one sends.
static HloStatus exchange_ragged(const CpuCollective *collective, const CpuCollectiveGroup *group,
                                 void *const *const *addresses, int64_t part, int64_t parts, CpuPool *pool) {
    (void)parts;
    (void)pool;
    assert(collective->array_count == 6); /* read_ragged() counted them */
    if (part > 0) return HLO_SUCCESS;     // senders may overlap: the last one in group order wins
    const int64_t bytes = hlo_shape_bytes(collective->arrays[0].result);
    const int64_t entries = hlo_shape_elements(collective->arrays[2].operand);
    for (int64_t m = 0; m < group->count; m++) copy_array(addresses[6][m], addresses[1][m], bytes);
    for (int64_t from = 0; from < group->count; from++) {
        for (int64_t e = 0; e < entries; e++) {
            CpuRaggedRows rows;
            HLO_TRY(cpu_ragged_rows(collective, group, addresses, from, e, &rows));
            char *to = addresses[6][rows.receiver];
            if (to) copy_array(to + rows.to, (const char *)addresses[0][from] + rows.from, rows.bytes);
        }
    }
    return HLO_SUCCESS;
}

// ---- the loops of reductions

// Combines the loaded values in group order. Plain sums of narrow floats are accumulated in f32 and rounded once. A
// reducer of one plain op becomes that op of the loop; others are inlined, element by element, as HLO defines them.
// Only plain ops of narrow floats are widened: what another computation does in bf16 must be done in bf16.
static CpuValue combine_all(const CollectiveLowering *context, CpuLoopBuilder *builder, HloType type,
                            const CpuIndexMap *map) {
    const HloComputation *computation = context->node->instruction->called[0];
    const CpuLoopOp op = cpu_emit_loop_op(hlo_computation_binary_opcode(computation));
    const bool widen = op != CPU_OP_COUNT && hlo_type_is_float(type) && hlo_type_bytes(type) < 4;
    CpuValue sum = 0;
    for (int64_t m = 0; m < context->group_size; m++) {
        CpuValue next = cpu_loop_load(builder, (int)m, type, map);
        if (widen) next = cpu_loop_convert(builder, HLO_F32, next);
        const CpuValue pair[2] = {sum, next};
        if (m == 0)
            sum = next;
        else if (op != CPU_OP_COUNT)
            sum = cpu_loop_op(builder, op, sum, next, 0);
        else
            cpu_emit_computation(context->lowering->arena, builder, computation, pair, &sum);
    }
    return widen ? cpu_loop_convert(builder, type, sum) : sum;
}

// Everything that a loop of a collective is made from.
typedef struct LoopKey {
    const HloComputation *computation;
    int64_t type, group_size, stores, outer, dims[2], load[2], store[2];
} LoopKey;

typedef struct MadeLoop {
    LoopKey key;
    const CpuLoop *loop;
} MadeLoop;

// The loops that have been made. Equal hashes occupy the next numbers.
typedef struct CpuCollectiveLoops {
    HloIntMap by_hash;  // to positions in `loops`
    HLO_VECTOR(MadeLoop) loops;
} CpuCollectiveLoops;

static LoopKey key_of(const CollectiveLowering *context, HloType type, const CpuLoopDomain *domain,
                      const CpuIndexMap *load, const CpuIndexMap *store, int64_t stores) {
    LoopKey key = {.computation = context->node->instruction->called[0],
                   .type = type,
                   .group_size = context->group_size,
                   .stores = stores,
                   .outer = domain->outer};
    assert(domain->outer <= 2 && !load->offset && !store->offset);
    for (int d = 0; d < domain->outer; d++) {
        key.dims[d] = domain->dims[d];
        key.load[d] = load->strides[d];
        key.store[d] = store->strides[d];
    }
    return key;
}

// Makes one loop that reads the operands of all members and writes the results of all: an all-reduce of N devices is a
// single pass over N + N arrays. Loads are numbers 0 … members - 1 of the buffers that the exchange passes, stores the
// ones after them. Equal collectives, as those of many layers, share a loop, whose size is that of the group.
static HloStatus make_loop(const CollectiveLowering *context, HloType type, const CpuLoopDomain *domain,
                           const CpuIndexMap *load, const CpuIndexMap *store, int64_t stores, const CpuLoop **result) {
    assert(stores > 0);
    CpuLowering *lowering = context->lowering;
    if (!lowering->collective_loops) lowering->collective_loops = HLO_ARENA_NEW(lowering->arena, CpuCollectiveLoops, 1);
    CpuCollectiveLoops *made = lowering->collective_loops;
    const LoopKey key = key_of(context, type, domain, load, store, stores);
    uint64_t hash = hlo_hash_bytes(&key, sizeof key);
    for (const int64_t *at; (at = hlo_int_map_find(&made->by_hash, hash)); hash++)
        if (memcmp(&made->loops.items[*at].key, &key, sizeof key) == 0) {
            *result = made->loops.items[*at].loop;
            return HLO_SUCCESS;
        }
    CpuLoopBuilder *builder = cpu_loop_builder_new(lowering->arena, domain, lowering->features);
    const CpuValue sum = combine_all(context, builder, type, load);
    for (int64_t m = 0; m < stores; m++) cpu_loop_store(builder, (int)(context->group_size + m), sum, store);
    CpuLoop *loop = NULL;
    HLO_TRY(cpu_loop_finish(builder, &loop));
    *result = loop;
    hlo_int_map_set(lowering->arena, &made->by_hash, hash, made->loops.count);
    hlo_vector_push(lowering->arena, &made->loops, ((MadeLoop){key, loop}));
    return HLO_SUCCESS;
}

// Makes one loop for all pieces of equal length; a shorter last piece has its own. The length of a piece is a constant
// of its loop, so that at most two loops are compiled.
static HloStatus make_pieces(const CollectiveLowering *context, const CpuCollectiveArray *array, const CpuLoop **loop,
                             const CpuLoop **tail) {
    static const int64_t kOne = 1;
    const CpuIndexMap map = {0, &kOne};
    const CpuLoopDomain domain = {.outer = 1, .dims = &array->loop_elements};
    HLO_TRY(make_loop(context, array->operand->type, &domain, &map, &map, context->group_size, loop));
    *tail = *loop;
    const int64_t rest = hlo_shape_elements(array->operand) % array->loop_elements;
    if (rest == 0) return HLO_SUCCESS;
    const CpuLoopDomain shorter = {.outer = 1, .dims = &rest};
    return make_loop(context, array->operand->type, &shorter, &map, &map, context->group_size, tail);
}

// Makes the loops of an all-reduce. A loop has as many operands as the group has members: groups of one size share
// theirs. O(groups²) for groups of many sizes; programs have one size or two.
static HloStatus make_all_reduce_loops(const CollectiveLowering *context, CpuCollectiveArray *array) {
    const CpuCollective *collective = context->collective;
    const int64_t elements = hlo_shape_elements(array->operand), parts = collective->parts;
    array->loop_elements = hlo_divide_up(elements, parts);
    if (elements == 0) return HLO_SUCCESS;
    HloArena *arena = context->lowering->arena;
    array->loops = HLO_ARENA_NEW(arena, const CpuLoop *, collective->group_count);
    array->tails = HLO_ARENA_NEW(arena, const CpuLoop *, collective->group_count);
    for (int64_t g = 0; g < collective->group_count; g++) {
        int64_t like = 0;
        while (collective->groups[like].count != collective->groups[g].count) like++;
        if (like < g) {
            array->loops[g] = array->loops[like];
            array->tails[g] = array->tails[like];
            continue;
        }
        CollectiveLowering of_size = *context;
        of_size.group_size = collective->groups[g].count;
        HLO_TRY(make_pieces(&of_size, array, &array->loops[g], &array->tails[g]));
    }
    return HLO_SUCCESS;
}

// Makes a loop over the chunk of one member, as rows of `chunk` elements; the exchange determines where in the operands
// the chunk begins. `packed` is the same over chunks whose rows are adjacent, as other processes send them.
static HloStatus make_reduce_scatter_loop(const CollectiveLowering *context, CpuCollectiveArray *array) {
    const int64_t chunk = array->chunk_bytes / hlo_type_bytes(array->operand->type);
    const int64_t dims[2] = {array->outer, chunk};
    const int64_t from[2] = {chunk * context->group_size, 1}, to[2] = {chunk, 1};
    const CpuIndexMap load = {0, from}, store = {0, to};
    const CpuLoopDomain domain = {.outer = 2, .dims = dims};
    array->loops = HLO_ARENA_NEW(context->lowering->arena, const CpuLoop *, 1);  // all groups have one size
    HLO_TRY(make_loop(context, array->operand->type, &domain, &load, &store, 1, &array->loops[0]));
    array->packed = array->loops[0];
    if (array->outer <= 1) return HLO_SUCCESS;
    return make_loop(context, array->operand->type, &domain, &store, &store, 1, &array->packed);
}

// ---- lowering

// Groups may differ in size if shapes do not depend on the number of members. Gathers and scatters have one shape for
// all members, which depends on their number.
static HloStatus check_groups(const CollectiveLowering *context) {
    const CpuCollective *collective = context->collective;
    const HloOpcode opcode = context->node->opcode;
    if (opcode == HLO_OP_ALL_REDUCE || opcode == HLO_OP_COLLECTIVE_BROADCAST || opcode == HLO_OP_COLLECTIVE_PERMUTE)
        return HLO_SUCCESS;
    for (int64_t g = 1; g < collective->group_count; g++)
        HLO_FAIL_IF(collective->groups[g].count != context->group_size, HLO_UNIMPLEMENTED,
                    "%s %%%s: groups of different sizes", hlo_op_text(context->node->opcode),
                    context->node->instruction->name);
    return HLO_SUCCESS;
}

// Fills in the arrays. `dimensions` contains the one that is split or concatenated; with `split_operand`, the operand
// has a part for each member. Parts of the exchange have about kPartBytes, and there are no more than kMaximumParts:
// more would wake workers for microseconds.
static HloStatus fill_arrays(const CollectiveLowering *context, HloInts dimensions, bool split_operand) {
    assert(dimensions.count >= 0);
    CpuCollective *collective = context->collective;
    const CpuNode *node = context->node;
    assert(node->operand_count == node->result_count); /* the verifier checks it */
    CpuCollectiveArray *arrays = HLO_ARENA_NEW(context->lowering->arena, CpuCollectiveArray, node->operand_count);
    for (int32_t i = 0; i < node->operand_count; i++) {
        const HloShape *operand = hlo_shape_copy(context->lowering->arena, node->operands[i]->shape);
        const HloShape *result = hlo_shape_copy(context->lowering->arena, node->results[i]->shape);
        const int64_t d = dimensions.count ? dimensions.items[0] : 0;
        const int64_t parts = split_operand ? context->group_size : 1;
        arrays[i] = (CpuCollectiveArray){.operand = operand, .result = result};
        collective->bytes += node->operands[i]->bytes;
        if (operand->rank == 0) continue;
        HLO_FAIL_IF(d >= operand->rank || operand->dims[d] % parts != 0, HLO_INVALID_ARGUMENT,
                    "%s %%%s: dimension %lld is not divisible into %lld parts", hlo_op_text(node->opcode),
                    node->instruction->name, (long long)d, (long long)parts);
        // An empty array may have any number of empty runs; they count as none.
        arrays[i].outer = node->operands[i]->bytes ? hlo_product(operand->dims, d) : 0;
        arrays[i].chunk_bytes =
            hlo_product(operand->dims + d, operand->rank - d) / parts * hlo_type_bytes(operand->type);
    }
    collective->arrays = arrays;
    collective->array_count = node->operand_count;
    collective->parts = collective->bytes / kPartBytes + 1;
    if (collective->parts > kMaximumParts) collective->parts = kMaximumParts;
    return HLO_SUCCESS;
}

// Makes loops operand by operand, since types and lengths may differ.
static HloStatus make_loops(const CollectiveLowering *context) {
    CpuCollectiveArray *arrays = (CpuCollectiveArray *)(uintptr_t)context->collective->arrays;
    for (int32_t i = 0; i < context->collective->array_count; i++) {
        if (context->node->opcode == HLO_OP_ALL_REDUCE)
            HLO_TRY(make_all_reduce_loops(context, &arrays[i]));
        else
            HLO_TRY(make_reduce_scatter_loop(context, &arrays[i]));
    }
    return HLO_SUCCESS;
}

// Reads source-target pairs, which name replicas or partitions, in each partition or replica. They become the source of
// each device, which the exchange looks up. The checks repeat the verifier's, which does not know the number of
// devices.
static HloStatus read_pairs(const CollectiveLowering *context) {
    const HloInstruction *instruction = context->node->instruction;
    const CpuProgram *program = context->lowering->program;
    const HloPermuteAttributes *attributes = HLO_ATTRIBUTES(instruction, Permute);
    HLO_FAIL_IF(attributes->slice_sizes.count || context->node->operand_count != context->node->result_count,
                HLO_UNIMPLEMENTED, "%%%s: collective-permute in place", instruction->name);
    const HloPairs pairs = attributes->source_target_pairs;
    HloArena *arena = context->lowering->arena;
    const HloGroupMode mode = hlo_group_mode_of(instruction);
    const int64_t devices = program->replica_count * program->partition_count;
    const int64_t ids = hlo_group_mode_numbers(mode, program->replica_count, program->partition_count);
    int64_t *sources = HLO_ARENA_NEW(arena, int64_t, devices), *all = HLO_ARENA_NEW(arena, int64_t, ids);
    for (int64_t d = 0; d < devices; d++) sources[d] = -1;
    for (int64_t i = 0; i < ids; i++) all[i] = i;
    const int64_t copies = hlo_group_mode_copies(mode, program->replica_count, program->partition_count);
    for (int64_t copy = 0; copy < copies; copy++) {
        const HloInts numbers =
            hlo_group_mode_devices(mode, (HloInts){all, ids}, copy, program->partition_count, arena);
        for (int64_t i = 0; i < pairs.count; i++) {
            const HloPair pair = pairs.items[i];
            HLO_FAIL_IF(pair.source < 0 || pair.target < 0 || pair.source >= ids || pair.target >= ids,
                        HLO_INVALID_ARGUMENT, "collective-permute %%%s: {%lld,%lld} names a device that does not exist",
                        instruction->name, (long long)pair.source, (long long)pair.target);
            int64_t *source = &sources[numbers.items[pair.target]];
            HLO_FAIL_IF(*source >= 0, HLO_INVALID_ARGUMENT,
                        "collective-permute %%%s: device %lld is the target of two pairs", instruction->name,
                        (long long)pair.target);
            *source = numbers.items[pair.source];
        }
    }
    context->collective->sources = sources;
    return HLO_SUCCESS;
}

// Reads the six operands and the one result, which starts as the second operand.
static HloStatus read_ragged(const CollectiveLowering *context) {
    enum { kOperands = 6 };
    const CpuNode *node = context->node;
    CpuCollective *collective = context->collective;
    assert(node->operand_count == kOperands && node->result_count == 1); /* the verifier checks it */
    const HloShape *input = node->operands[0]->shape, *output = node->operands[1]->shape;
    const int64_t entries = node->operands[2]->elements;
    bool fits = input->rank > 0 && input->rank == output->rank && input->type == output->type &&
                entries % context->group_size == 0 && node->operands[3]->elements == entries &&
                node->operands[4]->elements == entries;
    for (int32_t d = 1; fits && d < input->rank; d++) fits = input->dims[d] == output->dims[d];
    HLO_FAIL_IF(!fits, HLO_INVALID_ARGUMENT, "%%%s: the operands do not agree", node->instruction->name);
    CpuCollectiveArray *arrays = HLO_ARENA_NEW(context->lowering->arena, CpuCollectiveArray, kOperands);
    for (int32_t i = 0; i < kOperands; i++)
        arrays[i].operand = hlo_shape_copy(context->lowering->arena, node->operands[i]->shape);
    arrays[0].result = hlo_shape_copy(context->lowering->arena, node->results[0]->shape);
    arrays[0].chunk_bytes = hlo_product(input->dims + 1, input->rank - 1) * hlo_type_bytes(input->type);
    collective->arrays = arrays;
    collective->array_count = kOperands;
    collective->bytes = node->operands[0]->bytes;
    collective->parts = 1;
    return HLO_SUCCESS;
}

// Sets *known to false for an op or a reducer that has no form here; the caller names it in the error.
static HloStatus lower_kind(const CollectiveLowering *context, bool *known) {
    CpuCollective *collective = context->collective;
    const CpuNode *node = context->node;
    const HloInts none = {0};
    const HloInts dimensions =
        node->opcode == HLO_OP_COLLECTIVE_PERMUTE ? none : HLO_ATTRIBUTES(node->instruction, Collective)->dimensions;
    *known = true;
    switch (node->opcode) {
        case HLO_OP_ALL_REDUCE:
        case HLO_OP_REDUCE_SCATTER:
            collective->exchange = node->opcode == HLO_OP_ALL_REDUCE ? exchange_all_reduce : exchange_reduce_scatter;
            if (!cpu_emit_can_inline_computation(node->instruction->called[0])) return *known = false, HLO_SUCCESS;
            HLO_TRY(fill_arrays(context, dimensions, node->opcode == HLO_OP_REDUCE_SCATTER));
            return make_loops(context);
        case HLO_OP_ALL_GATHER:
            collective->exchange = exchange_all_gather;
            return fill_arrays(context, dimensions, false);
        case HLO_OP_ALL_TO_ALL:
            collective->exchange = dimensions.count ? exchange_all_to_all : exchange_all_to_all_tuple;
            HLO_FAIL_IF(node->operand_count != (dimensions.count ? 1 : context->group_size), HLO_INVALID_ARGUMENT,
                        "all-to-all %%%s: %d operands for groups of %lld", node->instruction->name,
                        (int)node->operand_count, (long long)context->group_size);
            return fill_arrays(context, dimensions, dimensions.count != 0);
        case HLO_OP_COLLECTIVE_PERMUTE:
            collective->exchange = exchange_permute;
            HLO_TRY(read_pairs(context));
            return fill_arrays(context, none, false);
        case HLO_OP_COLLECTIVE_BROADCAST:
            collective->exchange = exchange_broadcast;
            return fill_arrays(context, none, false);
        case HLO_OP_RAGGED_ALL_TO_ALL: collective->exchange = exchange_ragged; return read_ragged(context);
        default: *known = false; return HLO_SUCCESS;
    }
}

// cpu_collective_groups() checks that the groups cover the devices.
HloStatus cpu_lower_collective(CpuLowering *lowering, CpuNode *node, CpuStep *step) {
    assert(node && step);
    CpuCollective *collective = HLO_ARENA_NEW(lowering->arena, CpuCollective, 1);
    collective->instruction = node->instruction;
    collective->opcode = node->opcode;
    HLO_TRY(cpu_collective_groups(lowering->arena, node->instruction, lowering->program->replica_count,
                                  lowering->program->partition_count, collective));
    const CollectiveLowering context = {lowering, node, collective, collective->groups[0].count};
    HLO_TRY(check_groups(&context));
    bool known;
    HLO_TRY(lower_kind(&context, &known));
    assert(known); /* the table has every collective opcode except starts and dones */
    cpu_step_kernel(lowering, node, step, NULL, collective);
    step->kind = CPU_STEP_COLLECTIVE;
    return HLO_SUCCESS;
}
