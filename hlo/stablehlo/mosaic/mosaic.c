// SPDX-License-Identifier: Apache-2.0
// Counts the operations of a Mosaic kernel. The kernel's control flow is made into a tree of nodes, one for each
// operation that works on vectors or has regions; the tree is then walked once for each point of the part of the grid
// that branches depend on, and every operation that is reached is counted. Scalars are evaluated on demand, backward
// from the condition, through integer arithmetic and loads of constant arrays; everything else is unknown.
//
// Kernels of grouped products read how many tiles they visit from an array of one element, which depends on data. The
// tables that say what to do on each visit, group and tile, are as long as the most visits that there can be, and that
// many are counted: the last tile of a group and the first of the next are two visits to the same rows. On a visit
// there is work to do, so that branches that depend on data are taken.
#include "hlo/stablehlo/mosaic/mosaic.h"

#include <assert.h>
#include <string.h>

#include "hlo/base/arithmetic.h"
#include "hlo/base/map.h"
#include "hlo/base/vector.h"
#include "hlo/stablehlo/bytecode/reader.h"
#include "hlo/stablehlo/mosaic/scalars.h"
#include "hlo/stablehlo/mosaic/windows.h"

enum {
    MOST_VISITS = 1 << 8,   // of a grouped product that are walked one by one; more are alike
    MOST_CARRIED = 64,      // values that a loop carries on
    MOST_POINTS = 1 << 16,  // of the grid that are walked one by one
    MOST_TRIPS = 1 << 16,   // of a loop that are walked one by one
};
// Steps of the walk; a kernel that needs more is not complete. A bound on the time that hostile input takes.
static const int64_t MOST_STEPS = 1 << 22;

typedef struct Node Node;
typedef struct Nodes {
    Node *items;
    int64_t count, capacity;
} Nodes;

// An operation that is counted, or that has regions.
struct Node {
    const MlirOperation *operation;
    const char *name;       // without the prefix
    bool multiplies;        // is a product, or has one in its regions
    bool moves;             // is a transfer to or from HBM, or has one in its regions
    int moved_times;        // 1 for a transfer to or from HBM, 2 from HBM to HBM
    const HloShape *block;  // that it moves, the largest one if sizes differ
    // The part of an array that it moves, and the first operand of it that is a size, if they do; NULL otherwise.
    const MlirOperation *slice;
    int32_t first_size;
    double most, moved;  // elements along these sizes: of the largest transfer, and of all together
    double count;
    Nodes regions[2];
};

typedef struct Counter {
    HloArena *arena;
    MosaicScalars scalars;
    const MlirBlock *body;   // of the kernel
    int64_t rank;            // of the grid
    int64_t dynamic_bounds;  // operands that come before those of the kernel
    int64_t bounds[MOSAIC_MOST_AXES];
    int64_t point[MOSAIC_MOST_AXES];
    int32_t point_slots[MOSAIC_MOST_AXES];
    bool varies[MOSAIC_MOST_AXES];   // whether a branch depends on this axis
    bool unknown[MOSAIC_MOST_AXES];  // bounds that depend on data
    HLO_VECTOR(const MlirOperation *) loads;
    bool is_visit;             // the walk is in a loop over visits
    bool multiplies;           // the kernel has products
    double visits_each;        // that a visit of the walk represents
    double grid_weight;        // the same, if the visits are an axis of the grid
    int64_t scratch_operands;  // arguments at the end that are memory of the chip
    int64_t steps;
    int64_t transfer_capacity;
    bool is_complete, moves_are_complete;
} Counter;

static const MosaicSlot *slot_of(Counter *counter, const MlirValue *value) {
    const int32_t slot = mosaic_slot(&counter->scalars, value);  // which may move the others
    return &counter->scalars.slots.items[slot];
}

// Marks the axes of the grid that a scalar depends on.
static void mark_axes(Counter *counter, const MlirValue *value, int depth) {
    if (depth >= MOSAIC_DEEPEST_SCALAR || !value || ++counter->steps > MOST_STEPS) return;
    const MosaicSlot *slot = slot_of(counter, value);
    if (slot->argument >= 0 && slot->argument < counter->rank) counter->varies[slot->argument] = true;
    const MlirOperation *operation = slot->operation;
    for (int64_t i = 0; operation && i < operation->operand_count; i++)
        mark_axes(counter, operation->operands[i], depth + 1);
}

// ---------------------------------------------------------------------------------------------------------------------
// The tree

// Whether an operation on vectors is work: loads, stores and constants are not counted.
static bool is_counted(const MlirOperation *operation, const char *name) {
    if (!strcmp(name, "tpu.matmul")) return true;
    const bool computes =
        !strncmp(name, "arith.", 6) || !strncmp(name, "math.", 5) || !strcmp(name, "vector.multi_reduction");
    return computes && strcmp(name, "arith.constant") != 0 && operation->result_count &&
           mosaic_shape(operation->results[0]);
}

// What a scalar is computed from. The later ones win over the earlier.
typedef enum Origin {
    ORIGIN_CONSTANT,
    ORIGIN_POSITION,  // the counter of a loop, or a coordinate of the grid
    ORIGIN_LOADED,    // what the kernel loads
} Origin;

static Origin origin_of(Counter *counter, const MlirValue *value, int depth) {
    if (depth >= MOSAIC_DEEPEST_SCALAR || ++counter->steps > MOST_STEPS) return ORIGIN_LOADED;
    const MlirOperation *operation = value ? slot_of(counter, value)->operation : NULL;
    if (!operation) return ORIGIN_POSITION;
    if (!strcmp(mosaic_plain_name(operation), "memref.load")) return ORIGIN_LOADED;
    Origin origin = ORIGIN_CONSTANT;
    for (int64_t i = 0; i < operation->operand_count && origin != ORIGIN_LOADED; i++) {
        const Origin here = origin_of(counter, operation->operands[i], depth + 1);
        if (here > origin) origin = here;
    }
    return origin;
}

// Finds the shortest table with an entry for each visit: one that is indexed by a position, not by what another table
// says.
static void find_most_visits(Counter *counter) {
    for (int64_t i = 0; i < counter->loads.count; i++) {
        const MlirOperation *load = counter->loads.items[i];
        const int64_t length = load->operand_count == 2 ? mosaic_table_length(&counter->scalars, load->operands[0]) : 0;
        if (length <= 1 || mosaic_literal(&counter->scalars, load->operands[0]) ||
            origin_of(counter, load->operands[1], 0) != ORIGIN_POSITION)
            continue;
        if (!counter->scalars.most_visits || length < counter->scalars.most_visits)
            counter->scalars.most_visits = length;
    }
    if (counter->scalars.most_visits <= MOST_VISITS) return;
    counter->visits_each = (double)counter->scalars.most_visits / MOST_VISITS;
    counter->scalars.most_visits = MOST_VISITS;
}

// ---------------------------------------------------------------------------------------------------------------------
// Transfers

// The memory that a value is a part of: an argument of the kernel, or what an operation allocates.
static const MlirValue *whole_memory(Counter *counter, const MlirValue *value) {
    for (int i = 0; i < MOSAIC_DEEPEST_SCALAR; i++) {
        const MlirOperation *operation = slot_of(counter, value)->operation;
        if (!operation || !operation->operand_count) break;
        const char *name = mosaic_plain_name(operation);
        if (strncmp(name, "tpu.memref_", 11) != 0 && strncmp(name, "tpu.reinterpret", 15) != 0) break;
        value = operation->operands[0];
    }
    return value;
}

// Whether memory is an operand or a result of the call, in HBM: not an argument for tables, nor scratch.
static bool is_outside(Counter *counter, const MlirValue *memory) {
    const int64_t argument = slot_of(counter, memory)->argument;
    return argument >= counter->rank && argument < counter->body->argument_count - counter->scratch_operands;
}

// Describes a transfer of which not all sizes are constant, as at the edge of an array that blocks do not fill: by the
// memory of the chip that has room for the largest block, `room`, of which `end` is a part.
static void describe_open_block(Counter *counter, const MlirValue *end, const HloShape *room, Node *node) {
    const MlirOperation *part = slot_of(counter, end)->operation;
    const bool drops = part && !strcmp(mosaic_plain_name(part), "tpu.memref_squeeze") && part->operand_count;
    if (drops) part = slot_of(counter, part->operands[0])->operation;
    if (!part || strcmp(mosaic_plain_name(part), "tpu.memref_slice") != 0 || room->rank < 1) return;
    node->slice = part;
    node->first_size = (int32_t)room->rank + 1;
    node->block = drops ? hlo_shape_array(counter->arena, room->type, room->dims + 1, room->rank - 1) : room;
}

// How many ends of a transfer are in HBM, and what it moves; 0 for other operations.
static int ends_outside(Counter *counter, const MlirOperation *operation, const char *name, Node *node) {
    if (strcmp(name, "tpu.enqueue_dma") != 0) return 0;
    int outside = 0;
    for (int64_t i = 0, ends = 0; i < operation->operand_count && ends < 2; i++) {
        const MlirValue *end = operation->operands[i], *memory = whole_memory(counter, end);
        if (!mosaic_shape(memory)) continue;  // semaphores
        ends++;
        const bool is_there = is_outside(counter, memory);
        outside += is_there;
        counter->scalars.slots.items[mosaic_slot(&counter->scalars, memory)].is_moved = true;
        const HloShape *seen = mosaic_shape(end);
        if (seen && hlo_shape_elements(seen) > 0)
            node->block = seen;
        else if (!is_there)
            describe_open_block(counter, end, mosaic_shape(memory), node);
    }
    return node->block ? outside : 0;
}

// Where a table that depends on data says which block of an array is next, as the group or the rows of a visit, its
// elements increase from the first block to the last: groups are one after another.
static void describe_tables(Counter *counter, const MlirOperation *operation, const char *name) {
    if (strcmp(name, "tpu.memref_slice") != 0 || operation->operand_count < 2) return;
    const HloShape *shape = mosaic_shape(operation->operands[0]);
    if (!shape || !is_outside(counter, operation->operands[0])) return;
    for (int64_t i = 0; i < shape->rank && i + 1 < operation->operand_count; i++) {
        int64_t factor;
        const MosaicSlot *load = mosaic_addressed_by(&counter->scalars, operation->operands[i + 1], &factor);
        if (load && shape->dims[i] > 0)  // an open size is negative
            counter->scalars.slots.items[load->operands[0]].table_values = (shape->dims[i] - 1) / factor + 1;
    }
}

// The counter of a loop and what it carries on are variables.
static void declare_variables(Counter *counter, const MlirOperation *loop) {
    const MlirRegion *region = loop->region_count ? &loop->regions[0] : NULL;
    for (int64_t i = 0; region && region->block_count && i < region->blocks[0].argument_count; i++)
        mosaic_set(&counter->scalars, mosaic_slot(&counter->scalars, region->blocks[0].arguments[i]), false, 0);
}

// Makes the nodes of a region, and records who defines each value.
static void build(Counter *counter, const MlirRegion *region, Nodes *nodes) {
    for (int64_t b = 0; b < region->block_count; b++)
        for (int64_t i = 0; i < region->blocks[b].operation_count; i++) {
            const MlirOperation *operation = region->blocks[b].operations[i];
            const char *name = mosaic_plain_name(operation);
            mosaic_define(&counter->scalars, operation, name);
            if (!strcmp(name, "memref.load")) hlo_vector_push(counter->arena, &counter->loads, operation);
            describe_tables(counter, operation, name);
            Node node = {.operation = operation, .name = name, .multiplies = !strcmp(name, "tpu.matmul")};
            node.moved_times = ends_outside(counter, operation, name, &node);
            node.moves = node.moved_times > 0;
            if (!operation->region_count && !is_counted(operation, name) && !node.moves) continue;
            if (!strcmp(name, "scf.for")) declare_variables(counter, operation);
            counter->multiplies = counter->multiplies || node.multiplies;
            for (int64_t r = 0; r < operation->region_count && r < 2; r++) {
                build(counter, &operation->regions[r], &node.regions[r]);
                for (int64_t n = 0; n < node.regions[r].count; n++) {
                    node.multiplies = node.multiplies || node.regions[r].items[n].multiplies;
                    node.moves = node.moves || node.regions[r].items[n].moves;
                }
            }
            hlo_vector_push(counter->arena, nodes, node);
        }
}

// Finds the axes that branches and loops around counted operations depend on.
static void find_axes(Counter *counter, const Nodes *nodes) {
    for (int64_t i = 0; i < nodes->count; i++) {
        const Node *node = &nodes->items[i];
        if (!node->operation->region_count) continue;
        for (int64_t o = 0; o < node->operation->operand_count && o < 3; o++)
            mark_axes(counter, node->operation->operands[o], 0);
        for (int r = 0; r < 2; r++) find_axes(counter, &node->regions[r]);
    }
}

static void walk(Counter *counter, Nodes *nodes, double weight);

// Whether the counts are complete only if the branch of a node is known: in kernels with products, one around products.
// The rest of such a kernel is counted as if it always ran; it is small beside them.
static bool decides(const Counter *counter, const Node *node) {
    return !counter->is_visit && (node->multiplies || !counter->multiplies);
}

// A branch that is not known is taken.
static void walk_branch(Counter *counter, Node *node, double weight) {
    int64_t condition = 1;
    const bool matters = node->regions[0].count || node->regions[1].count;
    if (!matters) return;
    const MlirOperation *branch = node->operation;
    if (!branch->operand_count || !mosaic_scalar_of(&counter->scalars, branch->operands[0], &condition)) {
        condition = 1;
        counter->is_complete = counter->is_complete && !decides(counter, node);
        counter->moves_are_complete = counter->moves_are_complete && !node->moves;
    }
    walk(counter, &node->regions[condition ? 0 : 1], weight);
}

static bool has_control(const Nodes *nodes) {
    for (int64_t i = 0; i < nodes->count; i++)
        if (nodes->items[i].operation->region_count) return true;
    return false;
}

// Sets what a loop carries into an iteration, and its results after the last: the values of `from`, evaluated before
// any of them changes.
static void carry(Counter *counter, const MlirOperation *loop, MlirValue *const *from, int64_t count) {
    MosaicScalars *scalars = &counter->scalars;
    const MlirBlock *block = &loop->regions[0].blocks[0];
    int64_t values[MOST_CARRIED];
    bool known[MOST_CARRIED] = {false};
    count = count < MOST_CARRIED ? count : MOST_CARRIED;
    for (int64_t i = 0; i < count; i++) known[i] = mosaic_scalar_of(scalars, from[i], &values[i]);
    for (int64_t i = 0; i < count; i++) {
        if (i + 1 < block->argument_count)
            mosaic_set(scalars, mosaic_slot(scalars, block->arguments[i + 1]), known[i], values[i]);
        if (i < loop->result_count) mosaic_set(scalars, mosaic_slot(scalars, loop->results[i]), known[i], values[i]);
    }
}

// Walks a loop iteration by iteration.
static void walk_iterations(Counter *counter, Node *node, int64_t trips, const int64_t *bounds, double weight) {
    const MlirOperation *loop = node->operation;
    const MlirBlock *block = &loop->regions[0].blocks[0];
    const MlirOperation *last = block->operation_count ? block->operations[block->operation_count - 1] : NULL;
    const int32_t variable = mosaic_slot(&counter->scalars, block->arguments[0]);
    carry(counter, loop, loop->operands + 3, loop->operand_count - 3);
    for (int64_t i = 0; i < trips && counter->steps <= MOST_STEPS; i++) {
        mosaic_set(&counter->scalars, variable, true, bounds[0] + i * bounds[2]);
        walk(counter, &node->regions[0], weight);
        if (last && !strcmp(mosaic_plain_name(last), "scf.yield"))
            carry(counter, loop, last->operands, last->operand_count);
    }
    for (int64_t i = 0; i < block->argument_count; i++)
        mosaic_set(&counter->scalars, mosaic_slot(&counter->scalars, block->arguments[i]), false, 0);
}

// A loop that is not known runs once. One whose body has branches or loops is walked iteration by iteration.
static void walk_loop(Counter *counter, Node *node, double weight) {
    const MlirOperation *loop = node->operation;
    const MlirRegion *region = &loop->regions[0];
    int64_t bounds[3];
    if (!node->regions[0].count) return;
    bool known = loop->operand_count >= 3 && region->block_count && region->blocks[0].argument_count;
    const bool was_visit = counter->is_visit;
    counter->scalars.meets_count = false;
    counter->scalars.epoch++;  // so that a count is met again
    for (int64_t i = 0; i < 3 && known; i++) known = mosaic_scalar_of(&counter->scalars, loop->operands[i], &bounds[i]);
    int64_t span = 0;
    known = known && bounds[2] > 0 && !__builtin_sub_overflow(bounds[1], bounds[0], &span);
    if (!known) {
        counter->is_complete = counter->is_complete && counter->multiplies && !node->multiplies;
        counter->moves_are_complete = counter->moves_are_complete && !node->moves;
        walk(counter, &node->regions[0], weight);
        return;
    }
    counter->is_visit = was_visit || counter->scalars.meets_count;
    if (counter->is_visit && !was_visit) weight *= counter->visits_each;
    const int64_t trips = span > 0 ? (span - 1) / bounds[2] + 1 : 0;
    if (trips <= MOST_TRIPS && has_control(&node->regions[0])) {
        walk_iterations(counter, node, trips, bounds, weight);
    } else {
        counter->moves_are_complete = counter->moves_are_complete && !(node->moves && trips > MOST_TRIPS);
        walk(counter, &node->regions[0], weight * (double)trips);
    }
    counter->is_visit = was_visit;
}

// Adds the sizes of a transfer that are not constant.
static void add_open_block(Counter *counter, Node *node, double weight) {
    double elements = 1;
    for (int64_t i = node->first_size; i < node->slice->operand_count; i++) {
        int64_t size;
        const bool is_known = mosaic_scalar_of(&counter->scalars, node->slice->operands[i], &size) && size >= 0;
        counter->moves_are_complete = counter->moves_are_complete && is_known;
        elements *= is_known ? (double)size : 1;
    }
    if (elements > node->most) node->most = elements;
    node->moved += weight * elements;
}

static void walk(Counter *counter, Nodes *nodes, double weight) {
    for (int64_t i = 0; i < nodes->count; i++) {
        Node *node = &nodes->items[i];
        if (++counter->steps > MOST_STEPS) {
            counter->is_complete = false;
            return;
        }
        node->count += weight;
        if (node->slice) add_open_block(counter, node, weight);
        if (!node->operation->region_count) continue;
        if (!strcmp(node->name, "scf.if"))
            walk_branch(counter, node, weight);
        else if (!strcmp(node->name, "scf.for"))
            walk_loop(counter, node, weight);
        else if (node->regions[0].count || node->regions[1].count) {
            counter->is_complete = counter->is_complete && !strcmp(node->name, "tpu.region");
            for (int r = 0; r < 2; r++) walk(counter, &node->regions[r], weight);
        }
    }
}

// Walks each point of the axes that matter; the others multiply the counts.
static void walk_grid(Counter *counter, Nodes *nodes) {
    double weight = counter->grid_weight;
    int64_t points = 1;
    for (int64_t i = 0; i < counter->rank; i++) {
        if (counter->varies[i] && !__builtin_mul_overflow(points, counter->bounds[i], &points) && points <= MOST_POINTS)
            continue;
        if (counter->varies[i]) counter->is_complete = false;
        counter->varies[i] = false;
        weight *= (double)counter->bounds[i];
        if (points > MOST_POINTS) points = MOST_POINTS;
    }
    for (bool more = weight > 0 && points > 0; more;) {
        walk(counter, nodes, weight);
        if (counter->steps > MOST_STEPS) return;
        more = false;
        for (int64_t i = counter->rank - 1; i >= 0 && !more; i--) {
            if (!counter->varies[i]) continue;
            more = ++counter->point[i] < counter->bounds[i];
            if (!more) counter->point[i] = 0;
            mosaic_set(&counter->scalars, counter->point_slots[i], true, counter->point[i]);
        }
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Results

// Reads "[1], [0], [0], [1], [0, 0, 1, 1], [], []" of #tpu.dot_dimension_numbers<…>, the text that the attribute has in
// a file: contracting dimensions, others, order of the result's, batch dimensions.
static HloInts read_list(HloArena *arena, const char **text) {
    HloInt64Vector numbers = {0};
    const char *at = *text ? strchr(*text, '[') : NULL;
    if (!at) return (HloInts){0};
    for (at++; *at && *at != ']'; at++)
        if (*at >= '0' && *at <= '9') hlo_vector_push(arena, &numbers, *at - '0');
    *text = at;
    return (HloInts){numbers.items, numbers.count};
}

static bool fits(HloInts dims, const HloShape *shape) {
    for (int64_t i = 0; i < dims.count; i++)
        if (!shape || dims.items[i] >= shape->rank) return false;
    return true;
}

// Without dimension numbers it is a plain product, with flags for transposed operands.
static void describe_product(HloArena *arena, const Node *node, MosaicOperation *operation) {
    const MlirAttribute *numbers = mlir_attribute(node->operation, "dimension_numbers");
    const char *text = numbers && numbers->kind == MLIR_STRING ? numbers->string : NULL;
    static const int64_t zero = 0, one = 1;
    operation->left_contracting = (HloInts){&one, 1};
    operation->right_contracting = (HloInts){&zero, 1};
    if (!text) return;
    operation->left_contracting = read_list(arena, &text);
    operation->right_contracting = read_list(arena, &text);
    for (int i = 0; i < 3; i++) read_list(arena, &text);
    operation->left_batch = read_list(arena, &text);
    operation->right_batch = read_list(arena, &text);
}

// The dimensions along which all elements of a value are equal, each a bit. 0 for what is loaded, and for anything that
// is not known. The depth bounds the steps, and so does MOST_STEPS, since values may be used many times.
static uint64_t equal_along(Counter *counter, const MlirValue *value, int depth) {
    const HloShape *shape = mosaic_shape(value);
    const uint64_t all = ~(uint64_t)0;
    if (!shape) return value && value->type ? all : 0;  // a scalar
    if (depth >= MOSAIC_DEEPEST_SCALAR || shape->rank > 64 || ++counter->steps > MOST_STEPS) return 0;
    const MlirOperation *operation = slot_of(counter, value)->operation;
    if (!operation) return 0;
    const char *name = mosaic_plain_name(operation);
    if (!strcmp(name, "tpu.iota") || !strcmp(name, "vector.iota")) {
        const MlirAttribute *dimensions = mlir_attribute(operation, "dimensions");
        if (!dimensions || dimensions->kind != MLIR_INTS) return 0;
        uint64_t varies = 0;
        for (int64_t i = 0; i < dimensions->ints.count; i++)
            if (dimensions->ints.items[i] >= 0 && dimensions->ints.items[i] < 64)
                varies |= (uint64_t)1 << dimensions->ints.items[i];
        return ~varies;
    }
    if (!strcmp(name, "vector.broadcast") && operation->operand_count == 1) {
        const HloShape *from = mosaic_shape(operation->operands[0]);
        if (!from) return all;
        const int64_t added = shape->rank - from->rank;
        uint64_t result = 0;
        for (int64_t i = 0; i < shape->rank; i++)
            if (i < added || (from->dims[i - added] == 1 && shape->dims[i] != 1)) result |= (uint64_t)1 << i;
        return result |
               (added < 0 || added >= 64 ? 0 : equal_along(counter, operation->operands[0], depth + 1) << added);
    }
    if (strncmp(name, "arith.", 6) != 0 && strncmp(name, "math.", 5) != 0) return 0;
    uint64_t result = all;
    for (int64_t i = 0; i < operation->operand_count && result; i++)
        result &= equal_along(counter, operation->operands[i], depth + 1);
    return result;
}

static void add_transfer(Counter *counter, MosaicWork *work, const HloShape *block, double count) {
    HLO_VECTOR(MosaicTransfer)
    list = {(MosaicTransfer *)(uintptr_t)work->transfers, work->transfer_count, counter->transfer_capacity};
    hlo_vector_push(counter->arena, &list, ((MosaicTransfer){block, count}));
    work->transfers = list.items;
    work->transfer_count = list.count;
    counter->transfer_capacity = list.capacity;
}

// Adds the blocks that the grid moves.
static void add_windows(Counter *counter, MosaicGrid *grid, MosaicWork *work) {
    for (int64_t i = counter->rank; i < counter->body->argument_count - counter->scratch_operands; i++) {
        const HloShape *block = mosaic_shape(counter->body->arguments[i]);
        const double changes = block ? mosaic_window_changes(counter->arena, grid, i) : 0;
        if (changes < 0) work->moves_are_complete = false;
        // What has no window, and is not moved by the kernel itself, is moved before or after it, as a whole.
        const bool is_whole = block && changes == 0 && !slot_of(counter, counter->body->arguments[i])->is_moved;
        if (changes > 0 || is_whole) add_transfer(counter, work, block, is_whole ? 1 : changes);
    }
}

static void collect(Counter *counter, const Nodes *nodes, MosaicWork *work, int64_t *capacity) {
    for (int64_t i = 0; i < nodes->count; i++) {
        const Node *node = &nodes->items[i];
        for (int r = 0; r < 2; r++) collect(counter, &node->regions[r], work, capacity);
        if (node->operation->region_count || node->count <= 0) continue;
        if (node->moved_times > 0) {
            const double blocks = node->slice && node->most > 0 ? node->moved / node->most : node->count;
            add_transfer(counter, work, node->block, blocks * node->moved_times);
            continue;
        }
        MosaicOperation operation = {.name = node->name, .count = node->count};
        for (int64_t o = 0; o < node->operation->operand_count && o < 3; o++)
            operation.operands[o] = mosaic_shape(node->operation->operands[o]);
        if (node->operation->result_count) operation.result = mosaic_shape(node->operation->results[0]);
        if (strcmp(node->name, "vector.multi_reduction") != 0 && operation.result)
            operation.equal_along = equal_along(counter, node->operation->results[0], 0);
        if (!strcmp(node->name, "tpu.matmul")) {
            describe_product(counter->arena, node, &operation);
            if (!operation.operands[0] || !operation.operands[1] ||
                !fits(operation.left_contracting, operation.operands[0]) ||
                !fits(operation.left_batch, operation.operands[0]) ||
                !fits(operation.right_contracting, operation.operands[1]) ||
                !fits(operation.right_batch, operation.operands[1])) {
                work->is_complete = false;
                continue;
            }
        }
        HLO_VECTOR(MosaicOperation)
        list = {(MosaicOperation *)(uintptr_t)work->operations, work->operation_count, *capacity};
        hlo_vector_push(counter->arena, &list, operation);
        work->operations = list.items;
        work->operation_count = list.count;
        *capacity = list.capacity;
    }
}

// The kernel is the function with a grid; the others map points of the grid to blocks of the operands. A kernel without
// a grid runs once.
static const MlirOperation *find_kernel(const MlirOperation *top, const MlirAttribute **bounds) {
    const MlirOperation *first = NULL;
    *bounds = NULL;
    if (!top->region_count || !top->regions[0].block_count) return NULL;
    const MlirBlock *block = &top->regions[0].blocks[0];
    for (int64_t i = 0; i < block->operation_count; i++) {
        const MlirOperation *function = block->operations[i];
        if (strcmp(mosaic_plain_name(function), "func.func") != 0 || !function->region_count ||
            !function->regions[0].block_count)
            continue;
        if (!first) first = function;
        const MlirAttribute *found = mlir_attribute(function, "iteration_bounds");
        if (!found || found->kind != MLIR_INTS) continue;
        *bounds = found;
        return function;
    }
    return first;
}

// Bounds that are not in the kernel are the call's first operands, one scalar each.
static void read_bounds(Counter *counter, const MlirAttribute *bounds) {
    counter->rank = bounds ? bounds->ints.count : 0;
    for (int64_t i = 0; i < counter->rank; i++) {
        counter->bounds[i] = bounds->ints.items[i];
        if (counter->bounds[i] != INT64_MIN) continue;
        const int64_t number = counter->dynamic_bounds++;
        const HloLiteral *literal = number < counter->scalars.operand_count ? counter->scalars.operands[number] : NULL;
        const bool known = literal && !literal->elided && hlo_shape_elements(literal->shape) == 1 &&
                           hlo_type_is_integer(literal->shape->type);
        counter->unknown[i] = !known;
        counter->bounds[i] = known ? hlo_literal_get_int64(literal, 0) : 1;
    }
    for (int64_t i = 0; i < counter->rank; i++)
        if (counter->bounds[i] < 0) counter->bounds[i] = 0;
}

// Bounds that depend on data are taken to be the most visits.
static void bound_unknown(Counter *counter) {
    for (int64_t i = 0; i < counter->rank; i++) {
        if (!counter->unknown[i]) continue;
        if (counter->scalars.most_visits) counter->bounds[i] = counter->scalars.most_visits;
        // Of several such axes one is over visits, and the others are unlikely.
        if (counter->scalars.most_visits && !counter->is_visit) counter->grid_weight = counter->visits_each;
        counter->is_visit = counter->scalars.most_visits != 0;
        counter->is_complete = counter->is_complete && counter->scalars.most_visits;
    }
}

// The first arguments are the point of the grid, the others are the operands of the call.
static void declare_arguments(Counter *counter) {
    MosaicScalars *scalars = &counter->scalars;
    scalars->first_operand = counter->dynamic_bounds - counter->rank;
    for (int64_t i = 0; i < counter->body->argument_count; i++) {
        const int32_t slot = mosaic_slot(scalars, counter->body->arguments[i]);
        scalars->slots.items[slot].argument = i;
        if (i >= counter->rank) continue;
        counter->point_slots[i] = slot;
        mosaic_set(scalars, slot, true, 0);
    }
}

HloStatus mosaic_count(HloArena *arena, const void *bytes, size_t length, const HloLiteral *const *operands,
                       int64_t operand_count, const HloShape *const *shapes, int64_t shape_count, MosaicWork *work) {
    assert(arena && bytes && work && operand_count >= 0 && shape_count >= operand_count);
    MlirOperation *top;
    const MlirAttribute *bounds;
    *work = (MosaicWork){0};
    HLO_TRY(mlir_read_kernel_file(arena, bytes, length, &top));
    const MlirOperation *kernel = find_kernel(top, &bounds);
    HLO_FAIL_IF(!kernel, HLO_INVALID_ARGUMENT, "the bytecode holds no kernel");
    HLO_FAIL_IF(bounds && bounds->ints.count > MOSAIC_MOST_AXES, HLO_INVALID_ARGUMENT, "a grid of more than %d axes",
                MOSAIC_MOST_AXES);
    Counter *counter = HLO_ARENA_NEW(arena, Counter, 1);
    *counter =
        (Counter){.arena = arena, .is_complete = true, .moves_are_complete = true, .visits_each = 1, .grid_weight = 1};
    counter->scalars = (MosaicScalars){.arena = arena,
                                       .operands = operands,
                                       .operand_count = operand_count,
                                       .shapes = shapes,
                                       .shape_count = shape_count};
    counter->body = &kernel->regions[0].blocks[0];
    const MlirAttribute *scratch = mlir_attribute(kernel, "scratch_operands");
    const int64_t wanted = scratch && scratch->kind == MLIR_INTEGER ? scratch->integer : 0;
    counter->scratch_operands = hlo_smaller(hlo_larger(wanted, 0), counter->body->argument_count);
    read_bounds(counter, bounds);
    declare_arguments(counter);
    Nodes nodes = {0};
    build(counter, &kernel->regions[0], &nodes);
    find_most_visits(counter);
    bound_unknown(counter);
    find_axes(counter, &nodes);
    counter->is_complete = counter->is_complete && counter->steps <= MOST_STEPS;
    counter->steps = 0;
    walk_grid(counter, &nodes);
    work->is_complete = counter->is_complete && counter->steps <= MOST_STEPS;
    work->moves_are_complete =
        work->is_complete && counter->moves_are_complete && counter->scalars.steps <= MOSAIC_MOST_STEPS;
    counter->steps = 0;
    int64_t capacity = 0;
    collect(counter, &nodes, work, &capacity);
    MosaicGrid grid = {.top = top,
                       .kernel = kernel,
                       .bounds = counter->bounds,
                       .rank = counter->rank,
                       .weight = counter->grid_weight,
                       .of_kernel = &counter->scalars};
    add_windows(counter, &grid, work);
    return HLO_SUCCESS;
}

// The value of a base64 digit; -1 for other characters.
static int digit_of(char c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

unsigned char *mosaic_decode_base64(HloArena *arena, const char *text, size_t length, size_t *size) {
    assert(arena && text && size);
    while (length && text[length - 1] == '=') length--;
    if (length % 4 == 1) return NULL;
    unsigned char *bytes = hlo_arena_allocate_uninitialised(arena, length / 4 * 3 + 3);
    uint32_t bits = 0;
    *size = 0;
    for (size_t i = 0; i < length; i++) {
        const int digit = digit_of(text[i]);
        if (digit < 0) return NULL;
        bits = bits << 6 | (uint32_t)digit;
        if (i % 4) bytes[(*size)++] = (unsigned char)(bits >> (6 - 2 * (i % 4)));
    }
    return bytes;
}
