// SPDX-License-Identifier: Apache-2.0
// All-to-alls beside the products that wait for them or whose results they take away, a part at a time: while one part
// is multiplied, the next one is sent. Parts are those of a dimension that neither is exchanged nor summed over:
//
//     %a = all-to-all(%x)                 %a0 = all-to-all(slice(%x)), %a1 = all-to-all(slice(%x))
//     %y = dot(%a, %w)         becomes    %y0 = dot(%a0, %w)           beside %a1
//     %z = all-to-all(%y)                 %z0 = all-to-all(%y0)        beside %y1 = dot(%a1, %w)
//                                         %z1 = all-to-all(%y1), %z = concatenate(%z0, %z1)
//
// What is cut is a region of the program: an all-to-all, what only rearranges or changes its elements, the products of
// that, and the all-to-alls of their results; or a product and the all-to-alls of its result. Each element is computed
// as before, so that results have the same bits. As in windows.c only transfers count that something waits for, and it
// must be faster by the machine's own times.
#include <assert.h>

#include "spmd_partitioner/costs.h"
#include "spmd_partitioner/passes/passes.h"

enum {
    MOST_PARTS = 8,
    MOST_NODES = 64,        // of a region
    MOST_OPERANDS = 4,      // of what is made of parts, outside of a region
    MOST_DEPTH = 16,        // instructions between an all-to-all and a product
    MOST_LOOKED_AT = 4096,  // instructions that are followed to find out what depends on a region
};

// An instruction that is made in parts.
typedef struct Node {
    HloInstruction *at;
    int64_t dim;                        // of its result that is cut
    HloInstruction *parts[MOST_PARTS];  // that were made
    HloInstruction *total;              // of a product: the parts so far, if they are needed together
    bool is_read;                       // by an instruction outside of the region, or it is the root
} Node;

typedef struct Region {
    HLO_VECTOR(Node) nodes;  // operands first
    HloInstruction *first;   // on which all others depend
} Region;

typedef struct Exchanges {
    HloModule *module;
    HloArena *scratch;
    const SpmdCosts *costs;
    SpmdSnapshot snapshot;
    int64_t next_channel;
    HloInstruction *before;  // new instructions are made before this one
    HloIntMap cuts;          // by array, dimension and part: the number of what was made of parts
    HloInstructionVector made;
} Exchanges;

// ---- regions

static Node *find_node(const Region *region, const HloInstruction *at) {
    for (int64_t i = 0; i < region->nodes.count; i++)
        if (region->nodes.items[i].at == at) return &region->nodes.items[i];
    return NULL;
}

// The dimension of a reshape's result that is dimension `dim` of its operand, or the other way around: as much comes
// before it.
static int64_t kept_dim(const HloShape *from, int64_t dim, const HloShape *to) {
    int64_t before = 1, found = 1;
    for (int64_t d = 0; d < dim; d++) before *= from->dims[d];
    for (int32_t d = 0; d < to->rank; found *= to->dims[d++])
        if (found == before && to->dims[d] == from->dims[dim]) return d;
    return -1;
}

static bool takes_all(const HloInstruction *slice, int64_t dim) {
    const HloSliceAttributes *attributes = HLO_ATTRIBUTES(slice, Slice);
    return !attributes->starts.items[dim] && attributes->limits.items[dim] == slice->operands[0]->shape->dims[dim] &&
           (!attributes->strides.count || attributes->strides.items[dim] == 1);
}

// The dimension of a result in which parts of dimension `dim` of an operand are parts too; -1 if there is none. Not of
// products and collectives.
static int64_t passed_dim(const HloInstruction *at, const HloShape *operand, int64_t dim) {
    if (hlo_is(at, HLO_OP_RESHAPE)) return kept_dim(operand, dim, at->shape);
    if (hlo_is(at, HLO_OP_SLICE)) return takes_all(at, dim) ? dim : -1;
    if (hlo_is(at, HLO_OP_TRANSPOSE)) {
        const HloInts order = HLO_ATTRIBUTES(at, Dimensions)->dimensions;
        for (int64_t d = 0; d < order.count; d++)
            if (order.items[d] == dim) return d;
    }
    return hlo_op_is(at->opcode, HLO_OP_IS_ELEMENTWISE) && hlo_shape_is_array(at->shape) ? dim : -1;
}

// The dimension of a product's result that is dimension `dim` of an operand; -1 if it is summed over.
static int64_t multiplied_dim(const HloInstruction *dot, int32_t side, int64_t dim) {
    const HloDotAttributes *attributes = HLO_ATTRIBUTES(dot, Dot);
    const HloInts batches[2] = {attributes->lhs_batch, attributes->rhs_batch};
    const HloInts summed[2] = {attributes->lhs_contracting, attributes->rhs_contracting};
    int64_t place = batches[0].count;
    for (int64_t i = 0; i < batches[side].count; i++)
        if (batches[side].items[i] == dim) return i;
    if (hlo_ints_contain(summed[side], dim)) return -1;
    if (side) place = dot->shape->rank - dot->operands[1]->shape->rank + batches[1].count + summed[1].count;
    for (int64_t d = 0; d < dim; d++)
        place += !hlo_ints_contain(batches[side], d) && !hlo_ints_contain(summed[side], d);
    return place;
}

// The dimension of a product's operand that dimension `dim` of its result is; -1 if the operand does not have it.
static int64_t operand_dim(const HloInstruction *dot, int32_t side, int64_t dim) {
    for (int32_t d = 0; d < dot->operands[side]->shape->rank; d++)
        if (multiplied_dim(dot, side, d) == dim) return d;
    return -1;
}

// An all-to-all that may be made in parts.
static bool is_exchange(const HloInstruction *at) {
    return hlo_is(at, HLO_OP_ALL_TO_ALL) && hlo_shape_is_array(at->shape) && spmd_may_replace(at) &&
           HLO_ATTRIBUTES(at, Collective)->dimensions.count == 1;
}

static bool may_cut(const Exchanges *exchanges, const HloInstruction *at) {
    return spmd_was_there(&exchanges->snapshot, at) && hlo_shape_is_array(at->shape) &&
           !hlo_shape_is_dynamic(at->shape) && !at->control_predecessors.count && !at->control_successors.count;
}

// Whether a value is computed from another one, or so much is between them that it may be.
static bool depends_on(const Exchanges *exchanges, HloInstruction *value, const HloInstruction *on) {
    const HloArenaMark mark = hlo_arena_mark(exchanges->scratch);
    HloInstructionVector pending = {0};
    HloIntMap seen = {0};
    bool depends = false;
    hlo_vector_push(exchanges->scratch, &pending, value);
    for (int64_t next = 0; next < pending.count && !depends; next++) {
        const HloInstruction *at = pending.items[next];
        depends = at == on || pending.count > MOST_LOOKED_AT;
        if (spmd_was_there(&exchanges->snapshot, at) &&
            exchanges->snapshot.places[at->id] < exchanges->snapshot.places[on->id])
            continue;
        for (int64_t i = 0; i < at->operand_count + at->control_predecessors.count; i++) {
            HloInstruction *need =
                i < at->operand_count ? at->operands[i] : at->control_predecessors.items[i - at->operand_count];
            if (hlo_int_map_find(&seen, (uint64_t)need->id)) continue;
            hlo_int_map_set(exchanges->scratch, &seen, (uint64_t)need->id, 1);
            hlo_vector_push(exchanges->scratch, &pending, need);
        }
    }
    hlo_arena_reset(exchanges->scratch, mark);
    return depends;
}

// Adds an instruction; false if the region is full or has it with another dimension.
static bool add_node(const Exchanges *exchanges, Region *region, HloInstruction *at, int64_t dim) {
    const Node *node = find_node(region, at);
    if (node || region->nodes.count == MOST_NODES) return node && node->dim == dim;
    hlo_vector_push(exchanges->scratch, &region->nodes, ((Node){.at = at, .dim = dim}));
    return true;
}

// Adds what the results of a product go through to all-to-alls; false if they go anywhere else.
static bool add_leaving(const Exchanges *exchanges, Region *region, const HloInstruction *value, int64_t dim) {
    if (!value->users.count || hlo_instruction_is_root(value)) return false;
    for (int64_t i = 0; i < value->users.count; i++) {
        HloInstruction *user = value->users.items[i];
        if (!may_cut(exchanges, user)) return false;
        if (is_exchange(user)) {
            if (HLO_ATTRIBUTES(user, Collective)->dimensions.items[0] == dim || spmd_result_leaves(user)) return false;
            if (!add_node(exchanges, region, user, dim)) return false;
            continue;
        }
        const int64_t passed = passed_dim(user, value->shape, dim);
        if (passed < 0 || !add_node(exchanges, region, user, passed) || !add_leaving(exchanges, region, user, passed))
            return false;
    }
    return true;
}

// Adds a product, with the all-to-alls of its results if they go nowhere else. Whether they do.
static bool add_product(const Exchanges *exchanges, Region *region, HloInstruction *dot, int64_t dim) {
    if (!add_node(exchanges, region, dot, dim)) return false;
    const int64_t count = region->nodes.count;
    if (add_leaving(exchanges, region, dot, dim)) return true;
    region->nodes.count = count;
    return false;
}

// Adds the products of a value, and what is between; whether there are any.
static bool add_arriving(const Exchanges *exchanges, Region *region, HloInstruction *value, int64_t dim, int depth) {
    bool found = false;
    for (int64_t i = 0; i < value->users.count; i++) {
        HloInstruction *user = value->users.items[i];
        if (!may_cut(exchanges, user) || find_node(region, user)) continue;
        if (hlo_is(user, HLO_OP_DOT)) {
            const int32_t side = user->operands[1] == value;
            const int64_t made = multiplied_dim(user, side, dim);
            if (user->operands[0] == user->operands[1] || made < 0) continue;
            if (depends_on(exchanges, user->operands[!side], region->first)) continue;
            add_product(exchanges, region, user, made);
            found |= find_node(region, user) != NULL;
            continue;
        }
        const int64_t passed = passed_dim(user, value->shape, dim);
        if (passed < 0 || depth == MOST_DEPTH) continue;
        const int64_t count = region->nodes.count;
        if (!add_node(exchanges, region, user, passed)) continue;
        if (add_arriving(exchanges, region, user, passed, depth + 1))
            found = true;
        else
            region->nodes.count = count;
    }
    return found;
}

// Whether a node can be made of parts of its operands in the region and of what does not depend on the region.
static bool is_sound(const Exchanges *exchanges, const Region *region, const Node *node) {
    const HloInstruction *at = node->at;
    for (int32_t i = 0; i < at->operand_count; i++) {
        const Node *operand = find_node(region, at->operands[i]);
        if (!operand) {
            if (at != region->first && depends_on(exchanges, at->operands[i], region->first)) return false;
            continue;
        }
        const int64_t passed = hlo_is(at, HLO_OP_DOT) ? multiplied_dim(at, i, operand->dim)
                               : is_exchange(at)      ? operand->dim
                                                      : passed_dim(at, operand->at->shape, operand->dim);
        if (passed != node->dim) return false;
    }
    return true;
}

// Puts operands first, notes what is read outside, and checks all of it.
static bool finish_region(const Exchanges *exchanges, Region *region) {
    Node *nodes = region->nodes.items;
    for (int64_t i = 1; i < region->nodes.count; i++) {
        const Node node = nodes[i];
        int64_t at = i;
        for (; at > 0 && exchanges->snapshot.places[nodes[at - 1].at->id] > exchanges->snapshot.places[node.at->id];
             at--)
            nodes[at] = nodes[at - 1];
        nodes[at] = node;
    }
    for (int64_t i = 0; i < region->nodes.count; i++) {
        const HloInstruction *at = nodes[i].at;
        nodes[i].is_read = hlo_instruction_is_root(at);
        for (int64_t u = 0; u < at->users.count; u++) nodes[i].is_read |= !find_node(region, at->users.items[u]);
        if (!is_sound(exchanges, region, &nodes[i])) return false;
    }
    return true;
}

// ---- writing

static HloInstruction *put(const Exchanges *exchanges, HloOpcode opcode, const HloShape *shape,
                           HloInstruction *const *operands, int64_t count, const void *attributes) {
    HloInstruction *made =
        hlo_instruction_new(exchanges->before->parent, opcode, shape, operands, count, attributes, NULL);
    hlo_instruction_move_before(made, exchanges->before);
    return made;
}

// Part number `part` of `parts` of an array along a dimension.
static HloInstruction *put_slice(const Exchanges *exchanges, HloInstruction *array, int64_t dim, int64_t part,
                                 int64_t parts) {
    HloArena *arena = exchanges->module->arena;
    const int64_t rank = array->shape->rank, size = array->shape->dims[dim] / parts;
    int64_t *starts = HLO_ARENA_NEW(arena, int64_t, rank), *strides = HLO_ARENA_NEW(arena, int64_t, rank);
    int64_t *limits = hlo_arena_copy(arena, array->shape->dims, (size_t)rank * sizeof(*limits));
    for (int64_t d = 0; d < rank; d++) strides[d] = 1;
    starts[dim] = part * size;
    limits[dim] = starts[dim] + size;
    const HloSliceAttributes slice = {{starts, rank}, {limits, rank}, {strides, rank}};
    return put(exchanges, HLO_OP_SLICE, spmd_shape_resized(arena, array->shape, dim, size), &array, 1, &slice);
}

// The attributes of an instruction for a result that is cut along `dim` to `size` elements.
static const void *cut_attributes(const Exchanges *exchanges, const HloInstruction *at, int64_t dim, int64_t size,
                                  HloSliceAttributes *slice) {
    if (!hlo_is(at, HLO_OP_SLICE)) return at->attributes;
    *slice = *HLO_ATTRIBUTES(at, Slice);
    int64_t *limits =
        hlo_arena_copy(exchanges->module->arena, slice->limits.items, (size_t)slice->limits.count * sizeof(*limits));
    limits[dim] = slice->starts.items[dim] + size;
    slice->limits.items = limits;
    return slice;
}

// Whether a part of an array is made of parts of what the array is made of: what one instruction needs, or what costs
// next to nothing.
static bool is_made_again(const Exchanges *exchanges, const HloInstruction *at) {
    const bool moves = hlo_op_is(at->opcode, HLO_OP_IS_REARRANGES) || hlo_is(at, HLO_OP_CONVERT) ||
                       hlo_is(at, HLO_OP_BROADCAST) || hlo_is(at, HLO_OP_SLICE);
    const bool is_elementwise = hlo_op_is(at->opcode, HLO_OP_IS_ELEMENTWISE) && at->operand_count > 0;
    return may_cut(exchanges, at) && (moves || (is_elementwise && at->users.count == 1));
}

// The dimension of an operand that dimension `dim` of such an array is: -1 if all of the operand is needed, -2 if parts
// cannot be made of parts.
static int64_t source_dim(const HloInstruction *at, int32_t operand, int64_t dim) {
    const HloShape *shape = at->operands[operand]->shape;
    if (!shape->rank) return -1;
    if (hlo_is(at, HLO_OP_BROADCAST) || hlo_is(at, HLO_OP_TRANSPOSE)) {
        const HloInts dims = HLO_ATTRIBUTES(at, Dimensions)->dimensions;
        if (hlo_is(at, HLO_OP_TRANSPOSE)) return dims.items[dim];
        for (int64_t d = 0; d < dims.count; d++)
            if (dims.items[d] == dim) return d;
        return -1;
    }
    if (hlo_is(at, HLO_OP_SLICE)) return takes_all(at, dim) ? dim : -2;
    if (!hlo_is(at, HLO_OP_RESHAPE)) return dim;
    const int64_t kept = kept_dim(at->shape, dim, shape);
    return kept < 0 ? -2 : kept;
}

// Part number `part` of `parts` of an array: made of parts where that reads less, or sliced.
static HloInstruction *put_cut(Exchanges *exchanges, HloInstruction *array, int64_t dim, int64_t part, int64_t parts,
                               int depth) {
    HloInstruction *operands[MOST_OPERANDS];
    bool makes = depth < MOST_DEPTH && array->operand_count <= MOST_OPERANDS && is_made_again(exchanges, array);
    for (int32_t i = 0; makes && i < array->operand_count; i++) makes = source_dim(array, i, dim) > -2;
    if (!makes) return put_slice(exchanges, array, dim, part, parts);
    const uint64_t key = ((uint64_t)array->id << 16) + ((uint64_t)dim << 8) + (uint64_t)(parts * MOST_PARTS + part);
    const int64_t *known = hlo_int_map_find(&exchanges->cuts, key);
    if (known && exchanges->made.items[*known]->parent) return exchanges->made.items[*known];
    for (int32_t i = 0; i < array->operand_count; i++) {
        const int64_t source = source_dim(array, i, dim);
        operands[i] =
            source < 0 ? array->operands[i] : put_cut(exchanges, array->operands[i], source, part, parts, depth + 1);
    }
    const int64_t size = array->shape->dims[dim] / parts;
    HloSliceAttributes slice;
    HloInstruction *made =
        put(exchanges, array->opcode, spmd_shape_resized(exchanges->module->arena, array->shape, dim, size), operands,
            array->operand_count, cut_attributes(exchanges, array, dim, size, &slice));
    made->metadata = array->metadata;
    hlo_int_map_set(exchanges->scratch, &exchanges->cuts, key, exchanges->made.count);
    hlo_vector_push(exchanges->scratch, &exchanges->made, made);
    return made;
}

// A part of an operand, or the whole operand where the part needs it.
static HloInstruction *put_operand(Exchanges *exchanges, const Region *region, const Node *node, int32_t operand,
                                   int64_t part, int64_t parts) {
    HloInstruction *value = node->at->operands[operand];
    const Node *made = find_node(region, value);
    if (made) return made->parts[part];
    const int64_t dim = hlo_is(node->at, HLO_OP_DOT) ? operand_dim(node->at, operand, node->dim) : node->dim;
    return dim < 0 || !value->shape->rank ? value : put_cut(exchanges, value, dim, part, parts, 0);
}

static HloInstruction *put_part(Exchanges *exchanges, const Region *region, const Node *node, int64_t part,
                                int64_t parts) {
    HloInstruction *at = node->at;
    HloArena *arena = exchanges->module->arena;
    HloInstruction **operands = HLO_ARENA_NEW(arena, HloInstruction *, at->operand_count);
    const HloShape *shape = spmd_shape_resized(arena, at->shape, node->dim, at->shape->dims[node->dim] / parts);
    for (int32_t i = 0; i < at->operand_count; i++) operands[i] = put_operand(exchanges, region, node, i, part, parts);
    HloCollectiveAttributes collective;
    HloSliceAttributes slice;
    const void *attributes = cut_attributes(exchanges, at, node->dim, shape->dims[node->dim], &slice);
    if (is_exchange(at)) {
        collective = *HLO_ATTRIBUTES(at, Collective);
        if (collective.channel_id) collective.channel_id = exchanges->next_channel++;
        attributes = &collective;
    }
    HloInstruction *made = put(exchanges, at->opcode, shape, operands, at->operand_count, attributes);
    if (is_exchange(at)) spmd_join_reasons(made, at);
    made->metadata = at->metadata;
    return made;
}

// Writes a part of a product where it belongs in the whole result.
static HloInstruction *put_into(const Exchanges *exchanges, const Node *node, int64_t part) {
    HloArena *arena = exchanges->module->arena;
    const HloShape *shape = node->at->shape;
    HloInstruction **operands = HLO_ARENA_NEW(arena, HloInstruction *, shape->rank + 2);
    operands[0] = node->total;
    operands[1] = node->parts[part];
    if (!part) {
        HloLiteral *zero = hlo_literal_in_arena(arena, hlo_shape_scalar(arena, shape->type));
        const HloConstantAttributes constant = {zero};
        const HloDimensionsAttributes none = {{NULL, 0}};
        HloInstruction *scalar = put(exchanges, HLO_OP_CONSTANT, zero->shape, NULL, 0, &constant);
        operands[0] = put(exchanges, HLO_OP_BROADCAST, shape, &scalar, 1, &none);
    }
    for (int32_t d = 0; d < shape->rank; d++) {
        HloLiteral *start = hlo_literal_in_arena(arena, hlo_shape_scalar(arena, HLO_S32));
        if (d == node->dim) hlo_literal_set_int64(start, 0, part * operands[1]->shape->dims[d]);
        const HloConstantAttributes constant = {start};
        operands[d + 2] = put(exchanges, HLO_OP_CONSTANT, start->shape, NULL, 0, &constant);
    }
    return put(exchanges, HLO_OP_DYNAMIC_UPDATE_SLICE, shape, operands, shape->rank + 2, NULL);
}

// The new instruction has the annotations that a result of the program has.
static void replace(const Exchanges *exchanges, Node *node, int64_t parts) {
    HloInstruction *whole = node->total;
    if (!whole) {
        const HloDimensionsAttributes along = {hlo_ints(exchanges->module->arena, &node->dim, 1)};
        whole = put(exchanges, HLO_OP_CONCATENATE, node->at->shape, node->parts, parts, &along);
    }
    whole->metadata = node->at->metadata;
    if (node->at->sharding) spmd_take_annotations(whole, node->at);
    hlo_instruction_replace_uses(node->at, whole);
}

// Makes the region in parts. What nothing needs any more is removed, the last instructions first.
static void cut(Exchanges *exchanges, Region *region, int64_t parts) {
    Node *nodes = region->nodes.items;
    exchanges->before = region->first;
    for (int64_t part = 0; part < parts; part++) {
        for (int64_t i = 0; i < region->nodes.count; i++) {
            Node *node = &nodes[i];
            node->parts[part] = put_part(exchanges, region, node, part, parts);
            if (node->is_read && hlo_is(node->at, HLO_OP_DOT)) node->total = put_into(exchanges, node, part);
        }
    }
    for (int64_t i = 0; i < region->nodes.count; i++)
        if (nodes[i].is_read) replace(exchanges, &nodes[i], parts);
    for (int64_t i = region->nodes.count - 1; i >= 0; i--)
        if (nodes[i].at->parent) spmd_remove_unused(nodes[i].at);
}

// ---- what pays

// The seconds of an all-to-all in parts: of one of them.
static double exchange_seconds(Exchanges *exchanges, HloInstruction *at, int64_t dim, int64_t parts) {
    const SpmdCosts *costs = exchanges->costs;
    if (parts == 1) return costs->machine->seconds(costs->session, at);
    exchanges->before = at;
    HloInstruction *operand = put_slice(exchanges, at->operands[0], dim, 0, parts);
    HloInstruction *part = put(exchanges, at->opcode, operand->shape, &operand, 1, at->attributes);
    const double seconds = costs->machine->seconds(costs->session, part);
    spmd_remove_unused(part);
    return seconds;
}

// The seconds of one part of a product, which reads an operand without the dimension whole.
static double product_seconds(const Exchanges *exchanges, const Node *node, int64_t parts) {
    const SpmdMachine *machine = exchanges->costs->machine;
    double bytes = (double)hlo_shape_bytes(node->at->shape) / (double)parts;
    for (int32_t i = 0; i < 2; i++) {
        const double read = (double)hlo_shape_bytes(node->at->operands[i]->shape);
        bytes += operand_dim(node->at, i, node->dim) < 0 ? read : read / (double)parts;
    }
    const double computed = exchanges->snapshot.flops[node->at->id] / machine->flops_per_second / (double)parts;
    const double moved = bytes / machine->memory_bytes_per_second;
    return machine->kernel_seconds + (computed > moved ? computed : moved);
}

static double later(double a, double b) {
    return a > b ? a : b;
}

// The seconds in which the parts of a region are cut and put together. Products write theirs where they belong.
static double copying_seconds(const Exchanges *exchanges, const Region *region) {
    double bytes = 0;
    for (int64_t i = 0; i < region->nodes.count; i++) {
        const Node *node = &region->nodes.items[i];
        const bool is_cut =
            node->at == region->first && is_exchange(node->at) && !is_made_again(exchanges, node->at->operands[0]);
        const bool is_joined = node->is_read && !hlo_is(node->at, HLO_OP_DOT);
        if (is_cut || is_joined) bytes += 2 * (double)hlo_shape_bytes(node->at->shape);
    }
    return bytes / exchanges->costs->machine->memory_bytes_per_second;
}

// The seconds of a region in parts; negative if that is not known. The all-to-all at its beginning is sent at once,
// part after part; the others share its links.
static double region_seconds(Exchanges *exchanges, const Region *region, int64_t parts) {
    const Node *nodes = region->nodes.items;
    double *seconds = HLO_ARENA_NEW(exchanges->scratch, double, region->nodes.count);
    double arriving = 0, device = 0;
    for (int64_t i = 0; i < region->nodes.count; i++) {
        if (is_exchange(nodes[i].at)) seconds[i] = exchange_seconds(exchanges, nodes[i].at, nodes[i].dim, parts);
        if (hlo_is(nodes[i].at, HLO_OP_DOT)) seconds[i] = product_seconds(exchanges, &nodes[i], parts);
        if (seconds[i] < 0) return -1;
        if (nodes[i].at == region->first && is_exchange(region->first)) arriving = seconds[i];
    }
    double link = arriving * (double)parts;
    for (int64_t part = 0; part < parts; part++) {
        device = later(device, arriving * (double)(part + 1));
        for (int64_t i = 0; i < region->nodes.count; i++) {
            if (hlo_is(nodes[i].at, HLO_OP_DOT)) device += seconds[i];
            if (is_exchange(nodes[i].at) && nodes[i].at != region->first) link = later(link, device) + seconds[i];
        }
    }
    return later(device, link) + (parts > 1 ? copying_seconds(exchanges, region) : 0);
}

// The number of parts in which a region takes least time; 1 if it stays whole.
static int64_t choose_parts(Exchanges *exchanges, const Region *region, double *saved) {
    const Node *first = find_node(region, region->first);
    const int64_t size = first->at->shape->dims[first->dim];
    const double whole = region_seconds(exchanges, region, 1);
    double least = SPMD_PARTS_PAY * whole;
    int64_t best = 1;
    for (int64_t parts = 2; parts <= MOST_PARTS && size % parts == 0; parts *= 2) {
        const double seconds = region_seconds(exchanges, region, parts);
        if (seconds < 0 || seconds >= least) continue;
        least = seconds;
        best = parts;
    }
    *saved = best > 1 ? whole - least : 0;
    return best;
}

// ---- the pass

// The region of an all-to-all along a dimension, or of a product of whose result this is one.
static bool find_region(const Exchanges *exchanges, HloInstruction *first, int64_t dim, Region *region) {
    *region = (Region){.first = first};
    if (is_exchange(first)) {
        if (HLO_ATTRIBUTES(first, Collective)->dimensions.items[0] == dim) return false;
        if (!add_node(exchanges, region, first, dim) || !add_arriving(exchanges, region, first, dim, 0)) return false;
    } else if (!add_product(exchanges, region, first, dim)) {
        return false;
    }
    return finish_region(exchanges, region);
}

// Cuts what begins with an instruction along the dimension that saves most; whether anything does.
static bool cut_from(Exchanges *exchanges, HloInstruction *first) {
    Region best = {.first = NULL};
    int64_t best_parts = 1;
    double most = 0;
    if (!may_cut(exchanges, first)) return false;
    for (int32_t d = 0; d < first->shape->rank; d++) {
        Region region;
        double saved;
        if (first->shape->dims[d] < 2 || !find_region(exchanges, first, d, &region)) continue;
        const int64_t parts = choose_parts(exchanges, &region, &saved);
        if (saved <= most) continue;
        most = saved;
        best = region;
        best_parts = parts;
    }
    if (best_parts > 1) cut(exchanges, &best, best_parts);
    return best_parts > 1;
}

static void cut_computation(Exchanges *exchanges, HloComputation *computation) {
    HloInstructionVector found[2] = {{0}, {0}};
    bool changed = false;
    for (HloInstruction *at = computation->first; at; at = at->next) {
        if (is_exchange(at) && spmd_comes_late(at->operands[0])) hlo_vector_push(exchanges->scratch, &found[0], at);
        if (hlo_is(at, HLO_OP_DOT)) hlo_vector_push(exchanges->scratch, &found[1], at);
    }
    for (int kind = 0; kind < 2; kind++)
        for (int64_t i = 0; i < found[kind].count; i++)
            if (found[kind].items[i]->parent) changed |= cut_from(exchanges, found[kind].items[i]);
    if (changed) hlo_computation_sort(computation);
}

HloStatus spmd_part_exchanges(HloModule *module, const SpmdCosts *costs, HloArena *scratch) {
    assert(module->entry && costs);
    if (!costs->machine) return HLO_SUCCESS;
    Exchanges exchanges = {
        .module = module, .scratch = scratch, .costs = costs, .next_channel = hlo_module_next_channel(module)};
    HLO_TRY(spmd_take_snapshot(module, scratch, &exchanges.snapshot));
    for (int64_t c = 0; c < module->computations.count; c++) cut_computation(&exchanges, module->computations.items[c]);
    return HLO_SUCCESS;
}
