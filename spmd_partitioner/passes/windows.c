// SPDX-License-Identifier: Apache-2.0
// Products that wait for a gather, or whose sum is scattered, a part at a time: while parts are multiplied the next
// ones come from both neighbours ("collective matmul", Wang et al., ASPLOS 2023; XLA's windowed einsum). With n devices
// in a group, p the position in it, and %w_i the part of %w that multiplies part i of %x or makes part i of the result:
//
//     %g = all-gather(%x)                %a1 = permute(%x), %b1 = permute(%x)        parts p+1 and p-1
//     %y = dot(%g, %w)        becomes    %y0 = dot(%x, %w_p)
//                                        %a2 = permute(%a1), %b2 = permute(%b1)      parts p+2 and p-2
//                                        %y1 = add(%y0, dot(%a1, %w_(p+1))) ...
//
//     %y = dot(%x, %w)                   %a0 = dot(%x, %w_(p-k)), %b0 = dot(%x, %w_(p+k))
//     %r = reduce-scatter(%y)  becomes   %a1 = add(permute(%a0), dot(%x, %w_(p-k+1))), ...
//                                        %r = dot(%x, %w_p) + permute(%a(k-1)) + permute(%b(k-1))
//
// One chain goes around the group in either direction, half the way each, so that closed rings use their links both
// ways. Where the two directions share links, parts go in one; sums then go in two chains of half parts, so that one is
// computed while the other is sent. Where the gathered dimension is not summed over, the parts of the result are put
// together instead of added up. The bytes are the same, and all transfers have products to run beside (async.c). What
// else uses a gathered array gets it put together of the parts.
//
// Only transfers that something waits for: weights can be gathered ahead of time, and gradients only leave. It must be
// faster by the machine's own times.
#include <assert.h>

#include "spmd_partitioner/costs.h"
#include "spmd_partitioner/passes/passes.h"
#include "spmd_partitioner/sharding.h"

enum {
    MOST_PARTS = 16,    // devices in a group
    MOST_SUMMANDS = 4,  // products whose sum is scattered
};

typedef struct Windows {
    HloModule *module;
    HloArena *scratch;
    const SpmdCosts *costs;
    SpmdSnapshot snapshot;
    int64_t next_channel;
} Windows;

// The directions in which parts go around a group.
enum { FROM_NEXT, FROM_PREVIOUS, DIRECTIONS };
enum { HALVES = 2 };

// A group of devices that pass parts on, and where the new instructions go.
typedef struct Ring {
    Windows *windows;
    HloInstruction *before;  // instructions are made before this one
    const HloInstruction *collective;
    int64_t parts;
    HloPairs pairs[DIRECTIONS];
    int64_t hops[DIRECTIONS];  // how far parts go in each
    int64_t halved;            // the dimension along which parts are sent in halves, if they go in one direction; -1
    int64_t *positions;        // by device
    HloInstruction *position;  // s32: this device's in its group
} Ring;

// ---- writing

static HloInstruction *put(const Ring *ring, HloOpcode opcode, const HloShape *shape, HloInstruction *const *operands,
                           int64_t count, const void *attributes) {
    HloInstruction *made = hlo_instruction_new(ring->before->parent, opcode, shape, operands, count, attributes, NULL);
    made->metadata = ring->collective->metadata;
    hlo_instruction_move_before(made, ring->before);
    return made;
}

static HloInstruction *put_numbers(const Ring *ring, const int64_t *numbers, int64_t count) {
    HloArena *arena = ring->windows->module->arena;
    const HloShape *shape = count < 0 ? hlo_shape_scalar(arena, HLO_S32) : hlo_shape_array(arena, HLO_S32, &count, 1);
    HloLiteral *literal = hlo_literal_in_arena(arena, shape);
    for (int64_t i = 0; i < (count < 0 ? 1 : count); i++) hlo_literal_set_int64(literal, i, numbers[i]);
    const HloConstantAttributes attributes = {literal};
    return put(ring, HLO_OP_CONSTANT, literal->shape, NULL, 0, &attributes);
}

static HloInstruction *put_number(const Ring *ring, int64_t number) {
    return put_numbers(ring, &number, -1);
}

static HloInstruction *put_binary(const Ring *ring, HloOpcode opcode, HloInstruction *a, HloInstruction *b) {
    HloInstruction *operands[2] = {a, b};
    return put(ring, opcode, a->shape, operands, 2, NULL);
}

// The position of this device in its group: the entry of a table.
static HloInstruction *put_position(const Ring *ring) {
    HloArena *arena = ring->windows->module->arena;
    const int64_t one = 1, devices = ring->windows->module->num_partitions;
    HloInstruction *device = put(ring, HLO_OP_PARTITION_ID, hlo_shape_scalar(arena, HLO_U32), NULL, 0, NULL);
    HloInstruction *operands[2] = {put_numbers(ring, ring->positions, devices), device};
    const HloDynamicSliceAttributes slice = {.sizes = hlo_ints(arena, &one, 1)};
    HloInstruction *entry =
        put(ring, HLO_OP_DYNAMIC_SLICE, hlo_shape_array(arena, HLO_S32, &one, 1), operands, 2, &slice);
    const HloReshapeAttributes reshape = {.inferred_dimension = -1};
    return put(ring, HLO_OP_RESHAPE, hlo_shape_scalar(arena, HLO_S32), &entry, 1, &reshape);
}

// The number of the part that is `ahead` of this device's: not negative, so that the program need not wrap below zero.
static int64_t wrapped(const Ring *ring, int64_t ahead) {
    return ahead < 0 ? ahead + ring->parts : ahead;
}

// Where part number position + `ahead` of a dimension begins, if each has `size` elements.
static HloInstruction *put_start(const Ring *ring, int64_t ahead, int64_t size) {
    ahead = wrapped(ring, ahead);
    HloInstruction *part = put_binary(ring, HLO_OP_ADD, ring->position, put_number(ring, ahead));
    part = put_binary(ring, HLO_OP_REMAINDER, part, put_number(ring, ring->parts));
    return put_binary(ring, HLO_OP_MULTIPLY, part, put_number(ring, size));
}

// Part number position + `ahead` of dimension `dim` of an array.
static HloInstruction *put_part(const Ring *ring, HloInstruction *array, int64_t dim, int64_t ahead) {
    HloArena *arena = ring->windows->module->arena;
    const int64_t size = array->shape->dims[dim] / ring->parts;
    const HloShape *shape = spmd_shape_resized(arena, array->shape, dim, size);
    HloInstruction **operands = HLO_ARENA_NEW(arena, HloInstruction *, array->shape->rank + 1);
    operands[0] = array;
    for (int32_t d = 0; d < array->shape->rank; d++)
        operands[d + 1] = d == dim ? put_start(ring, ahead, size) : put_number(ring, 0);
    const HloDynamicSliceAttributes slice = {.sizes = hlo_shape_dims(shape)};
    return put(ring, HLO_OP_DYNAMIC_SLICE, shape, operands, array->shape->rank + 1, &slice);
}

// An array of zeros, which the parts of an array replace.
static HloInstruction *put_zeros(const Ring *ring, const HloShape *shape) {
    HloArena *arena = ring->windows->module->arena;
    HloLiteral *literal = hlo_literal_in_arena(arena, hlo_shape_scalar(arena, shape->type));
    const HloConstantAttributes constant = {literal};
    const HloDimensionsAttributes none = {{NULL, 0}};
    HloInstruction *zero = put(ring, HLO_OP_CONSTANT, literal->shape, NULL, 0, &constant);
    return put(ring, HLO_OP_BROADCAST, shape, &zero, 1, &none);
}

// What a neighbour in the group has.
static HloInstruction *put_permute(const Ring *ring, HloInstruction *array, int direction) {
    const HloPermuteAttributes attributes = {.channel_id = ring->windows->next_channel++,
                                             .source_target_pairs = ring->pairs[direction]};
    HloInstruction *made = put(ring, HLO_OP_COLLECTIVE_PERMUTE, array->shape, &array, 1, &attributes);
    spmd_join_reasons(made, ring->collective);
    hlo_instruction_set_frontend_attribute(made, "meshlo.part_of", hlo_op_text(ring->collective->opcode));
    return made;
}

static HloInstruction *put_dot(const Ring *ring, const HloInstruction *dot, const HloShape *shape, HloInstruction *a,
                               HloInstruction *b) {
    HloInstruction *operands[2] = {a, b};
    HloInstruction *made = put(ring, HLO_OP_DOT, shape, operands, 2, dot->attributes);
    made->metadata = dot->metadata;
    return made;
}

// The new instruction has the annotations that a result of the program has.
static void replace(HloInstruction *old, HloInstruction *new) {
    if (old->sharding) spmd_take_annotations(new, old);
    hlo_instruction_replace_uses(old, new);
    hlo_instruction_remove(old);
}

// ---- rings

// Every device gets what the one `ahead` of it in its group has.
static HloPairs pairs_of(const Ring *ring, const HloInts *groups, int64_t count, int64_t ahead) {
    HloPair *pairs = HLO_ARENA_NEW(ring->windows->module->arena, HloPair, count * ring->parts);
    int64_t filled = 0;
    for (int64_t g = 0; g < count; g++)
        for (int64_t i = 0; i < ring->parts; i++)
            pairs[filled++] = (HloPair){groups[g].items[(i + ahead) % ring->parts], groups[g].items[i]};
    return (HloPairs){pairs, filled};
}

// The groups of a collective as a ring; false where they are of replicas, too large or not alike.
static bool read_ring(Windows *windows, const HloInstruction *collective, Ring *ring) {
    const HloCollectiveAttributes *attributes = HLO_ATTRIBUTES(collective, Collective);
    const HloModule *module = windows->module;
    const HloInts *groups;
    int64_t count;
    *ring = (Ring){.windows = windows, .collective = collective, .halved = -1};
    if (module->replica_count > 1 || !attributes->channel_id || !attributes->use_global_device_ids) return false;
    ring->parts = hlo_replica_groups_size(attributes->replica_groups);
    if (ring->parts < 2 || ring->parts > MOST_PARTS) return false;
    HloStatus status = hlo_replica_groups_expand(attributes->replica_groups, module->num_partitions, windows->scratch,
                                                 &groups, &count);
    if (status) {
        hlo_status_free(status);
        return false;
    }
    ring->positions = HLO_ARENA_NEW(windows->scratch, int64_t, module->num_partitions);
    for (int64_t g = 0; g < count; g++)
        for (int64_t i = 0; i < ring->parts; i++) ring->positions[groups[g].items[i]] = i;
    ring->pairs[FROM_NEXT] = pairs_of(ring, groups, count, 1);
    ring->pairs[FROM_PREVIOUS] = pairs_of(ring, groups, count, ring->parts - 1);
    ring->hops[FROM_NEXT] = ring->parts / 2;
    ring->hops[FROM_PREVIOUS] = (ring->parts - 1) / 2;
    return true;
}

// ---- what pays

// The times of one step of a ring.
typedef struct StepTimes {
    double transfer;       // in one direction
    double half_transfer;  // of half a part, if these are sent
    double product;        // of one part, with all that it reads and writes
} StepTimes;

// The seconds of a permute of an array.
static double permute_seconds(const Ring *ring, HloInstruction *array) {
    const SpmdCosts *costs = ring->windows->costs;
    HloInstruction *permute = put_permute(ring, array, FROM_NEXT);
    const double seconds = costs->machine->seconds(costs->session, permute);
    hlo_instruction_remove(permute);
    return seconds;
}

// Whether transfers of a part in the two directions share no link.
static bool goes_both_ways(const Ring *ring, HloInstruction *part) {
    const SpmdCosts *costs = ring->windows->costs;
    HloInstruction *permutes[DIRECTIONS];
    for (int d = 0; d < DIRECTIONS; d++) permutes[d] = put_permute(ring, part, d);
    const bool both =
        costs->machine->beside && costs->machine->beside(costs->session, permutes[FROM_NEXT], permutes[FROM_PREVIOUS]);
    for (int d = 0; d < DIRECTIONS; d++) hlo_instruction_remove(permutes[d]);
    return both;
}

// Where the two directions share links, parts go in one.
static StepTimes step_times(Ring *ring, HloInstruction *part, double flops, double bytes) {
    const SpmdMachine *machine = ring->windows->costs->machine;
    const double parts = (double)ring->parts, computed = flops / machine->flops_per_second;
    const double moved = bytes / machine->memory_bytes_per_second;
    StepTimes times = {.transfer = permute_seconds(ring, part),
                       .product = (computed > moved ? computed : moved) / parts};
    if (goes_both_ways(ring, part)) {
        ring->halved = -1;
        return times;
    }
    ring->hops[FROM_NEXT] = ring->parts - 1;
    ring->hops[FROM_PREVIOUS] = 0;
    if (ring->halved < 0) return times;
    HloInstruction *half = put_zeros(ring, spmd_shape_resized(ring->windows->module->arena, part->shape, ring->halved,
                                                              part->shape->dims[ring->halved] / HALVES));
    times.half_transfer = permute_seconds(ring, half);
    spmd_remove_unused(half);
    return times;
}

static double later(double a, double b) {
    return a > b ? a : b;
}

// The seconds until the last product of a gather in parts: transfers wait for each other, products for their part.
static double gather_seconds(const Ring *ring, const StepTimes *times) {
    double links[DIRECTIONS] = {0, 0}, device = times->product;
    for (int64_t hop = 1; hop <= ring->hops[FROM_NEXT]; hop++)
        for (int d = 0; d < DIRECTIONS; d++) {
            if (hop > ring->hops[d]) continue;
            links[d] += times->transfer;
            device = later(device, links[d]) + times->product;
        }
    return device;
}

// The same of products whose sums are scattered in two chains of half parts that share the links.
static double halves_seconds(const Ring *ring, const StepTimes *times) {
    double link = 0, sums[HALVES] = {0, 0}, device = 0;
    for (int64_t hop = 0; hop < ring->hops[FROM_NEXT]; hop++)
        for (int half = 0; half < HALVES; half++) {
            device = later(device, sums[half]) + times->product / HALVES;
            sums[half] = link = later(link, device) + times->half_transfer;
        }
    for (int half = 0; half < HALVES; half++) device = later(device, sums[half]) + times->product / HALVES;
    return device;
}

// The same of products whose sums are scattered: each but the first two waits for the sum that it is added to.
static double scatter_seconds(const Ring *ring, const StepTimes *times) {
    double links[DIRECTIONS] = {0, 0}, sums[DIRECTIONS] = {0, 0}, device = 0;
    for (int64_t hop = 0; hop < ring->hops[FROM_NEXT]; hop++)
        for (int d = 0; d < DIRECTIONS; d++) {
            if (hop >= ring->hops[d]) continue;
            device = later(device, sums[d]) + times->product;
            sums[d] = links[d] = later(links[d], device) + times->transfer;
        }
    return later(later(device + times->product, sums[0]), sums[1]);
}

// Whether products of parts take less time than the collective and the products, one after the other. `part` has the
// size of what is sent in a step.
static bool pays(Ring *ring, HloInstruction *part, double flops, double bytes,
                 double (*seconds)(const Ring *ring, const StepTimes *)) {
    const SpmdCosts *costs = ring->windows->costs;
    const double whole = costs->machine->seconds(costs->session, ring->collective);
    const StepTimes times = step_times(ring, part, flops, bytes);
    if (whole <= 0 || times.transfer <= 0) return false;
    double taken = seconds(ring, &times);
    if (ring->halved >= 0) {
        const double halves = halves_seconds(ring, &times);
        if (halves < SPMD_PARTS_PAY * taken)
            taken = halves;
        else
            ring->halved = -1;
    }
    return taken < SPMD_PARTS_PAY * (whole + flops / costs->machine->flops_per_second);
}

// ---- gathers

// How a product uses a dimension of an operand.
typedef struct Use {
    int32_t side;
    int64_t other;   // the dimension of the other operand that it is summed with, or -1
    int64_t result;  // else the dimension of the result
} Use;

// The place of a dimension among those of an operand that are neither batch nor summed over; -1 if it is one of these.
static int64_t free_place(const HloInstruction *dot, int32_t side, int64_t dim) {
    const HloDotAttributes *attributes = HLO_ATTRIBUTES(dot, Dot);
    const HloInts batch = side ? attributes->rhs_batch : attributes->lhs_batch;
    const HloInts summed = side ? attributes->rhs_contracting : attributes->lhs_contracting;
    if (hlo_ints_contain(batch, dim) || hlo_ints_contain(summed, dim)) return -1;
    int64_t place = 0;
    for (int64_t d = 0; d < dim; d++) place += !hlo_ints_contain(batch, d) && !hlo_ints_contain(summed, d);
    return place;
}

// Whether `at` is a product that can be computed of parts of a gathered array, and how it uses the dimension.
static bool multiplies_parts(const HloInstruction *at, const HloInstruction *gather, Use *use) {
    if (!hlo_is(at, HLO_OP_DOT) || at->operands[0] == at->operands[1]) return false;
    const HloDotAttributes *attributes = HLO_ATTRIBUTES(at, Dot);
    const int64_t dim = HLO_ATTRIBUTES(gather, Collective)->dimensions.items[0];
    *use = (Use){.side = at->operands[1] == gather, .other = -1};
    const HloInts mine = use->side ? attributes->rhs_contracting : attributes->lhs_contracting;
    const HloInts other = use->side ? attributes->lhs_contracting : attributes->rhs_contracting;
    for (int64_t i = 0; i < mine.count; i++)
        if (mine.items[i] == dim) use->other = other.items[i];
    if (use->other >= 0) return hlo_type_is_float(at->shape->type) || hlo_type_is_integer(at->shape->type);
    const int64_t place = free_place(at, use->side, dim), batch = attributes->lhs_batch.count;
    if (place < 0) return false;
    use->result = batch + place;
    if (use->side) use->result += at->operands[0]->shape->rank - batch - attributes->lhs_contracting.count;
    return true;
}

// The bytes that the products of the parts read and write: those of a sum once for each part.
static double bytes_of(const Ring *ring, const HloInstruction *dot, const Use *use) {
    const double all = (double)hlo_shape_bytes(dot->operands[use->side]->shape),
                 other = (double)hlo_shape_bytes(dot->operands[!use->side]->shape),
                 made = (double)hlo_shape_bytes(dot->shape), parts = (double)ring->parts;
    return use->other >= 0 ? all + other + (2 * parts - 1) * made : all + parts * other + made;
}

// Part number position + `ahead` of a gathered array, which is sent for if it is not there.
static HloInstruction *part_at(Ring *ring, HloInstruction **parts, int64_t ahead) {
    HloInstruction **part = &parts[wrapped(ring, ahead)];
    if (!*part) {
        const int direction = ahead > 0 ? FROM_NEXT : FROM_PREVIOUS;
        *part = put_permute(ring, part_at(ring, parts, ahead > 0 ? ahead - 1 : ahead + 1), direction);
    }
    return *part;
}

// The n-th of the parts in the order in which they come: 0, 1, -1, 2, -2 … or 0, 1, 2 …
static int64_t ahead_of(const Ring *ring, int64_t n) {
    if (!ring->hops[FROM_PREVIOUS]) return n;
    return n & 1 ? (n + 1) / 2 : -(n / 2);
}

// `whole` with part number position + `ahead` of dimension `dim` replaced.
static HloInstruction *put_into(const Ring *ring, HloInstruction *whole, HloInstruction *part, int64_t dim,
                                int64_t ahead) {
    const HloShape *shape = whole->shape;
    HloInstruction **operands = HLO_ARENA_NEW(ring->windows->module->arena, HloInstruction *, shape->rank + 2);
    operands[0] = whole;
    operands[1] = part;
    for (int32_t d = 0; d < shape->rank; d++)
        operands[d + 2] = d == dim ? put_start(ring, ahead, part->shape->dims[dim]) : put_number(ring, 0);
    return put(ring, HLO_OP_DYNAMIC_UPDATE_SLICE, shape, operands, shape->rank + 2, NULL);
}

// The product of one part.
static HloInstruction *multiply_part(const Ring *ring, const HloInstruction *dot, const Use *use, HloInstruction *part,
                                     int64_t ahead) {
    HloInstruction *other = dot->operands[!use->side];
    const HloShape *shape = dot->shape;
    if (use->other >= 0)
        other = put_part(ring, other, use->other, ahead);
    else
        shape = spmd_shape_resized(ring->windows->module->arena, shape, use->result,
                                   shape->dims[use->result] / ring->parts);
    return put_dot(ring, dot, shape, use->side ? other : part, use->side ? part : other);
}

// A product that is computed of parts.
typedef struct Product {
    HloInstruction *dot;
    Use use;
    HloInstruction *result;  // of the parts so far
} Product;

typedef HLO_VECTOR(Product) ProductVector;

// Reads a user of a gathered array; false if it is no product that can be computed of parts. It must have been there
// before this pass: products of parts multiply other gathered arrays too.
static bool read_product(const Windows *windows, const HloInstruction *gather, int64_t user, Product *product) {
    *product = (Product){.dot = gather->users.items[user]};
    return spmd_was_there(&windows->snapshot, product->dot) && multiplies_parts(product->dot, gather, &product->use);
}

// The products of a gathered array that can be computed together with the first of them in the list: what they multiply
// it by is there before that one.
static ProductVector products_beside(const Windows *windows, const HloInstruction *gather) {
    ProductVector products = {0};
    Product first = {.dot = NULL}, found;
    for (int64_t i = 0; i < gather->users.count; i++) {
        if (!read_product(windows, gather, i, &found)) continue;
        if (!first.dot || windows->snapshot.places[found.dot->id] < windows->snapshot.places[first.dot->id])
            first = found;
    }
    if (!first.dot) return products;
    hlo_vector_push(windows->scratch, &products, first);
    for (int64_t i = 0; i < gather->users.count; i++) {
        if (!read_product(windows, gather, i, &found) || found.dot == first.dot) continue;
        const HloInstruction *other = found.dot->operands[!found.use.side];
        if (spmd_was_there(&windows->snapshot, other) &&
            windows->snapshot.places[other->id] < windows->snapshot.places[first.dot->id])
            hlo_vector_push(windows->scratch, &products, found);
    }
    return products;
}

// Sends for the parts that are one hop further than `hop`.
static void send_for_next(Ring *ring, HloInstruction **parts, int64_t hop) {
    for (int d = 0; d < DIRECTIONS; d++) {
        if (hop >= ring->hops[d]) continue;
        part_at(ring, parts, d == FROM_NEXT ? hop + 1 : -hop - 1);
    }
}

// Products of each part as it comes.
static void multiply_parts(Ring *ring, ProductVector *products, HloInstruction **parts) {
    ring->before = products->items[0].dot;
    for (int64_t i = 0; i < products->count; i++)
        if (products->items[i].use.other < 0)
            products->items[i].result = put_zeros(ring, products->items[i].dot->shape);
    for (int64_t n = 0; n < ring->parts; n++) {
        const int64_t ahead = ahead_of(ring, n);
        if (n == 0 || ahead > 0) send_for_next(ring, parts, ahead);
        for (int64_t i = 0; i < products->count; i++) {
            Product *product = &products->items[i];
            HloInstruction *term = multiply_part(ring, product->dot, &product->use, part_at(ring, parts, ahead), ahead);
            // One product is added before the next one is made, so that there is one sum in memory, not all products.
            if (n) hlo_instruction_add_control_edge(product->result, term);
            if (product->use.other < 0)
                product->result = put_into(ring, product->result, term, product->use.result, ahead);
            else
                product->result = product->result ? put_binary(ring, HLO_OP_ADD, product->result, term) : term;
        }
    }
    for (int64_t i = 0; i < products->count; i++) replace(products->items[i].dot, products->items[i].result);
}

// Whether these products pay for a ring.
static bool gather_pays(Ring *ring, HloInstruction *gather, const ProductVector *products) {
    double flops = 0, bytes = 0;
    for (int64_t i = 0; i < products->count; i++) {
        const Product *product = &products->items[i];
        flops += ring->windows->snapshot.flops[product->dot->id];
        bytes += bytes_of(ring, product->dot, &product->use);
    }
    return pays(ring, gather->operands[0], flops, bytes, gather_seconds);
}

// What else uses the array gets it whole. False if the gather stays.
static bool window_gather(Windows *windows, HloInstruction *gather) {
    Ring ring;
    ProductVector products = products_beside(windows, gather);
    if (!products.count || !spmd_comes_late(gather->operands[0]) || !read_ring(windows, gather, &ring)) return false;
    ring.before = gather;
    if (!gather_pays(&ring, gather, &products)) return false;
    HloInstruction *parts[MOST_PARTS] = {gather->operands[0]};
    ring.position = put_position(&ring);
    for (; products.count; products = products_beside(windows, gather)) multiply_parts(&ring, &products, parts);
    if (!gather->users.count && !hlo_instruction_is_root(gather)) {
        hlo_instruction_remove(gather);
    } else {
        const int64_t dim = HLO_ATTRIBUTES(gather, Collective)->dimensions.items[0];
        ring.before = gather;
        HloInstruction *whole = put_zeros(&ring, gather->shape);
        for (int64_t n = 0; n < ring.parts; n++) {
            const int64_t ahead = ahead_of(&ring, n);
            whole = put_into(&ring, whole, part_at(&ring, parts, ahead), dim, ahead);
        }
        replace(gather, whole);
    }
    return true;
}

// ---- scatters

// The dimension of an operand of `dot` that dimension `dim` of its result is, and the operand: free dimensions only. -1
// where it is a batch dimension.
static int64_t free_dim(const HloInstruction *dot, int64_t dim, int32_t *side) {
    dim -= HLO_ATTRIBUTES(dot, Dot)->lhs_batch.count;
    for (*side = 0; *side < 2 && dim >= 0; ++*side)
        for (int32_t d = 0; d < dot->operands[*side]->shape->rank; d++)
            if (free_place(dot, *side, d) >= 0 && dim-- == 0) return d;
    return -1;
}

// A product that is a summand of what is scattered.
typedef struct Summand {
    HloInstruction *dot;
    int32_t side;  // the operand of whose dimension `dim` the scattered dimension is made
    int64_t dim;
} Summand;

// What is scattered: one product, or the sum of a few.
typedef struct Sum {
    Summand items[MOST_SUMMANDS];
    int64_t count;
} Sum;

// False if `at`, which has no other use, is not such a sum.
static bool read_sum(HloInstruction *at, int64_t along, Sum *sum) {
    if (at->users.count != 1 || sum->count == MOST_SUMMANDS) return false;
    if (hlo_is(at, HLO_OP_ADD))
        return at->operands[0] != at->operands[1] && read_sum(at->operands[0], along, sum) &&
               read_sum(at->operands[1], along, sum);
    if (!hlo_is(at, HLO_OP_DOT) || at->operands[0] == at->operands[1]) return false;
    Summand *summand = &sum->items[sum->count++];
    summand->dot = at;
    summand->dim = free_dim(at, along, &summand->side);
    return summand->dim >= 0;
}

// A chain of sums that goes around the ring: of all of each part, or of a half.
typedef struct Chain {
    int direction;
    int64_t hops;
    int half;  // -1: all
    HloInstruction *sent;
} Chain;

// Half of an array along a dimension.
static HloInstruction *put_half(const Ring *ring, HloInstruction *array, int64_t dim, int half) {
    HloArena *arena = ring->windows->module->arena;
    const HloShape *shape = spmd_shape_resized(arena, array->shape, dim, array->shape->dims[dim] / HALVES);
    const int64_t rank = shape->rank;
    int64_t *starts = HLO_ARENA_NEW(arena, int64_t, rank), *limits = HLO_ARENA_NEW(arena, int64_t, rank),
            *strides = HLO_ARENA_NEW(arena, int64_t, rank);
    for (int64_t d = 0; d < rank; d++) {
        starts[d] = d == dim ? half * shape->dims[d] : 0;
        limits[d] = starts[d] + shape->dims[d];
        strides[d] = 1;
    }
    const HloSliceAttributes slice = {{starts, rank}, {limits, rank}, {strides, rank}};
    return put(ring, HLO_OP_SLICE, shape, &array, 1, &slice);
}

// The product of a summand's part for the device `ahead` of this one, or of its half.
static HloInstruction *put_summand(const Ring *ring, const Summand *summand, int64_t ahead, int half) {
    HloInstruction *operands[2] = {summand->dot->operands[0], summand->dot->operands[1]};
    const HloShape *shape = ring->collective->shape;
    operands[summand->side] = put_part(ring, operands[summand->side], summand->dim, ahead);
    if (half >= 0) {
        int32_t side;
        const int64_t dim = free_dim(summand->dot, ring->halved, &side);
        operands[side] = put_half(ring, operands[side], dim, half);
        shape =
            spmd_shape_resized(ring->windows->module->arena, shape, ring->halved, shape->dims[ring->halved] / HALVES);
    }
    return put_dot(ring, summand->dot, shape, operands[0], operands[1]);
}

// The part of the sum that goes to the device `ahead` of this one, after `last` (may be NULL), added to what the chain
// has sent, if it has.
static HloInstruction *put_term(const Ring *ring, const Sum *sum, int64_t ahead, HloInstruction *last,
                                const Chain *chain) {
    HloInstruction *total = chain->sent;
    for (int64_t i = 0; i < sum->count; i++) {
        HloInstruction *term = put_summand(ring, &sum->items[i], ahead, chain->half);
        if (last) hlo_instruction_add_control_edge(last, term);
        total = total ? put_binary(ring, HLO_OP_ADD, total, term) : term;
    }
    return total;
}

// Both halves of this device's part, each added to what has come.
static HloInstruction *join_halves(const Ring *ring, const Sum *sum, HloInstruction *last, const Chain *chains) {
    HloInstruction *halves[HALVES];
    for (int half = 0; half < HALVES; half++) last = halves[half] = put_term(ring, sum, 0, last, &chains[half]);
    const HloDimensionsAttributes along = {hlo_ints(ring->windows->module->arena, &ring->halved, 1)};
    return put(ring, HLO_OP_CONCATENATE, ring->collective->shape, halves, HALVES, &along);
}

// Sums start as far away as parts go in each direction, and the chains take turns: a sum is sent while the other
// chain's product runs. This device's own product runs beside the last transfers.
static HloInstruction *put_sums(const Ring *ring, const Sum *sum) {
    HloInstruction *last = NULL;
    const bool halves = ring->halved >= 0;
    Chain chains[2] = {{FROM_NEXT, ring->hops[FROM_NEXT], halves ? 0 : -1, NULL},
                       {FROM_PREVIOUS, ring->hops[FROM_PREVIOUS], -1, NULL}};
    if (halves) chains[1] = (Chain){FROM_NEXT, ring->hops[FROM_NEXT], 1, NULL};
    for (int64_t hop = 0; hop < ring->hops[FROM_NEXT]; hop++)
        for (int c = 0; c < 2; c++) {
            Chain *chain = &chains[c];
            if (hop >= chain->hops) continue;
            const int64_t left = chain->hops - hop;
            last = put_term(ring, sum, chain->direction == FROM_NEXT ? -left : left, last, chain);
            chain->sent = put_permute(ring, last, chain->direction);
        }
    if (halves) return join_halves(ring, sum, last, chains);
    HloInstruction *result = put_term(ring, sum, 0, last, &(Chain){.half = -1});
    for (int c = 0; c < 2; c++)
        if (chains[c].sent) result = put_binary(ring, HLO_OP_ADD, result, chains[c].sent);
    return result;
}

// The first dimension but `along` that is free in all of the products and can be halved; -1 if there is none.
static int64_t find_halved(const Ring *ring, const Sum *sum, int64_t along) {
    const HloShape *shape = ring->collective->shape;
    for (int32_t d = 0; d < shape->rank; d++) {
        bool all = d != along && shape->dims[d] > 0 && shape->dims[d] % HALVES == 0;
        for (int64_t i = 0; all && i < sum->count; i++) {
            int32_t side;
            all = free_dim(sum->items[i].dot, d, &side) >= 0;
        }
        if (all) return d;
    }
    return -1;
}

// Whether a sum in parts pays for a ring. The products of the parts read and write, besides what those of the whole do,
// the other operand for each part and the sums that come.
static bool scatter_pays(Ring *ring, const Sum *sum) {
    const HloShape *shape = ring->collective->shape;
    double flops = 0, bytes = 2 * (double)hlo_shape_bytes(shape) * (double)ring->parts;
    for (int64_t i = 0; i < sum->count; i++) {
        const Summand *summand = &sum->items[i];
        flops += ring->windows->snapshot.flops[summand->dot->id];
        bytes += (double)hlo_shape_bytes(summand->dot->operands[summand->side]->shape) +
                 (double)hlo_shape_bytes(summand->dot->operands[!summand->side]->shape) * (double)ring->parts;
    }
    HloInstruction *part = put_zeros(ring, shape);
    const bool is_faster = pays(ring, part, flops, bytes, scatter_seconds);
    spmd_remove_unused(part);
    return is_faster;
}

// False if the scatter stays.
static bool window_scatter(Windows *windows, HloInstruction *scatter) {
    Ring ring;
    Sum sum = {.count = 0};
    HloInstruction *operand = scatter->operands[0];
    const int64_t along = HLO_ATTRIBUTES(scatter, Collective)->dimensions.items[0];
    if (!spmd_adds(scatter->called[0]) || !read_sum(operand, along, &sum) || spmd_result_leaves(scatter) ||
        !read_ring(windows, scatter, &ring))
        return false;
    for (int64_t i = 0; i < sum.count; i++)
        if (!spmd_was_there(&windows->snapshot, sum.items[i].dot)) return false;  // made of parts already
    ring.before = scatter;
    ring.halved = find_halved(&ring, &sum, along);
    if (!scatter_pays(&ring, &sum)) return false;
    ring.position = put_position(&ring);
    replace(scatter, put_sums(&ring, &sum));
    spmd_remove_unused(operand);
    return true;
}

// ---- the pass

static void window_computation(Windows *windows, HloComputation *computation) {
    HloInstructionVector found = {0};
    bool changed = false;
    for (HloInstruction *at = computation->first; at; at = at->next) {
        if (!hlo_is(at, HLO_OP_ALL_GATHER) && !hlo_is(at, HLO_OP_REDUCE_SCATTER)) continue;
        if (hlo_shape_is_array(at->shape) && spmd_may_replace(at)) hlo_vector_push(windows->scratch, &found, at);
    }
    for (int64_t i = 0; i < found.count; i++) {
        HloInstruction *at = found.items[i];
        changed |= hlo_is(at, HLO_OP_ALL_GATHER) ? window_gather(windows, at) : window_scatter(windows, at);
    }
    if (changed) hlo_computation_sort(computation);
}

HloStatus spmd_window_products(HloModule *module, const SpmdCosts *costs, HloArena *scratch) {
    assert(module->entry && costs);
    if (!costs->machine) return HLO_SUCCESS;
    Windows windows = {
        .module = module, .scratch = scratch, .costs = costs, .next_channel = hlo_module_next_channel(module)};
    HLO_TRY(spmd_take_snapshot(module, scratch, &windows.snapshot));
    for (int64_t c = 0; c < module->computations.count; c++)
        window_computation(&windows, module->computations.items[c]);
    return HLO_SUCCESS;
}
