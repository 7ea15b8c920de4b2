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

#include "hlo/base/map.h"
#include "hlo/base/vector.h"
#include "hlo/stablehlo/bytecode/reader.h"

enum {
    MOST_AXES = 16,         // of a grid
    MOST_POINTS = 1 << 16,  // of the grid that are walked one by one
    MOST_TRIPS = 1 << 12,   // of a loop that are walked one by one
    DEEPEST_SCALAR = 64,    // operations between a condition and what it depends on
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
    const char *name;  // without the prefix
    bool multiplies;   // is a product, or has one in its regions
    double count;
    Nodes regions[2];
};

typedef struct Counter {
    HloArena *arena;
    const HloLiteral *const *operands;
    int64_t operand_count;
    const MlirBlock *body;   // of the kernel
    int64_t rank;            // of the grid
    int64_t dynamic_bounds;  // operands that come before those of the kernel
    int64_t bounds[MOST_AXES];
    int64_t point[MOST_AXES];
    bool varies[MOST_AXES];   // whether a branch depends on this axis
    bool unknown[MOST_AXES];  // bounds that depend on data
    HLO_VECTOR(const MlirOperation *) loads;
    int64_t most_visits;    // the value of a count that depends on data; 0: none is known
    bool meets_count;       // a count that depends on data was part of what was evaluated
    bool is_visit;          // the walk is in a loop over visits
    bool multiplies;        // the kernel has products
    HloIntMap definitions;  // value to the operation that makes it, or to minus its number as an argument of the kernel
    HloIntMap variables;    // the values of loop counters during the walk
    int64_t steps;
    bool is_complete;
} Counter;

static uint64_t key_of(const MlirValue *value) {
    return (uint64_t)(uintptr_t)value;
}

// "stable_mosaic.arith.addi" -> "arith.addi"
static const char *plain_name(const MlirOperation *operation) {
    static const char prefix[] = "stable_mosaic.";
    const bool has = strncmp(operation->name, prefix, sizeof prefix - 1) == 0;
    return has ? operation->name + sizeof prefix - 1 : operation->name;
}

static const HloShape *vector_of(const MlirValue *value) {
    if (!value || !value->type || value->type->kind != MLIR_TYPE_SHAPE) return NULL;
    return hlo_shape_is_array(value->type->shape) ? value->type->shape : NULL;
}

// ---------------------------------------------------------------------------------------------------------------------
// Scalars

static bool scalar(Counter *counter, const MlirValue *value, int depth, int64_t *result);

// Comparisons by their number in the dialect arith: eq, ne, slt, sle, sgt, sge, ult, ule, ugt, uge.
static bool compare(int64_t predicate, int64_t a, int64_t b, int64_t *result) {
    const uint64_t x = (uint64_t)a, y = (uint64_t)b;
    switch (predicate) {
        case 0: *result = a == b; return true;
        case 1: *result = a != b; return true;
        case 2: *result = a < b; return true;
        case 3: *result = a <= b; return true;
        case 4: *result = a > b; return true;
        case 5: *result = a >= b; return true;
        case 6: *result = x < y; return true;
        case 7: *result = x <= y; return true;
        case 8: *result = x > y; return true;
        case 9: *result = x >= y; return true;
        default: return false;
    }
}

// An operation of two integers; false for others, and where the result is not defined.
static bool combine(const char *name, int64_t a, int64_t b, int64_t *result) {
    if (!strcmp(name, "addi")) return !__builtin_add_overflow(a, b, result);
    if (!strcmp(name, "subi")) return !__builtin_sub_overflow(a, b, result);
    if (!strcmp(name, "muli")) return !__builtin_mul_overflow(a, b, result);
    const bool divides = !strcmp(name, "divsi") || !strcmp(name, "remsi");
    if (divides && (b == 0 || (b == -1 && a == INT64_MIN))) return false;
    if (divides)
        *result = name[0] == 'd' ? a / b : a % b;
    else if (!strcmp(name, "andi"))
        *result = a & b;
    else if (!strcmp(name, "ori"))
        *result = a | b;
    else if (!strcmp(name, "xori"))
        *result = a ^ b;
    else if (!strcmp(name, "minsi"))
        *result = a < b ? a : b;
    else if (!strcmp(name, "maxsi"))
        *result = a > b ? a : b;
    else
        return false;
    return true;
}

// The constant that is passed for an argument of the kernel, if the argument holds the whole operand; else NULL.
static const HloLiteral *literal_of(Counter *counter, const MlirValue *memory) {
    const int64_t *definition = hlo_int_map_find(&counter->definitions, key_of(memory));
    if (!definition || *definition >= 0) return NULL;
    const int64_t operand = -*definition - 1 - counter->rank + counter->dynamic_bounds;
    if (operand < 0 || operand >= counter->operand_count || !counter->operands[operand]) return NULL;
    const HloShape *whole = counter->operands[operand]->shape, *seen = vector_of(memory);
    if (!seen || seen->rank != whole->rank || !hlo_type_is_integer(whole->type)) return NULL;
    for (int64_t i = 0; i < whole->rank; i++)
        if (seen->dims[i] != whole->dims[i]) return NULL;
    return counter->operands[operand]->elided ? NULL : counter->operands[operand];
}

// The number of elements of a table of integers that is an argument of the kernel; 0 for other memory.
static int64_t table_length(Counter *counter, const MlirValue *memory) {
    const int64_t *definition = hlo_int_map_find(&counter->definitions, key_of(memory));
    const HloShape *shape = vector_of(memory);
    if (!definition || *definition >= 0 || !shape || shape->rank != 1 || !hlo_type_is_integer(shape->type)) return 0;
    return shape->dims[0];
}

static bool load(Counter *counter, const MlirOperation *operation, int depth, int64_t *result) {
    const HloLiteral *literal = operation->operand_count ? literal_of(counter, operation->operands[0]) : NULL;
    if (!literal && counter->most_visits && operation->operand_count &&
        table_length(counter, operation->operands[0]) == 1) {
        *result = counter->most_visits;
        counter->meets_count = true;
        return true;
    }
    if (!literal || operation->operand_count != literal->shape->rank + 1) return false;
    int64_t index = 0;
    for (int64_t i = 0; i < literal->shape->rank; i++) {
        int64_t at;
        if (!scalar(counter, operation->operands[i + 1], depth, &at)) return false;
        if (at < 0 || at >= literal->shape->dims[i]) return false;
        index = index * literal->shape->dims[i] + at;
    }
    *result = hlo_literal_get_int64(literal, index);
    return true;
}

// The scalar that an operation makes.
static bool evaluate(Counter *counter, const MlirOperation *operation, int depth, int64_t *result) {
    const char *name = plain_name(operation);
    if (!strcmp(name, "arith.constant")) {
        const MlirAttribute *value = mlir_attribute(operation, "value");
        if (!value || (value->kind != MLIR_INTEGER && value->kind != MLIR_BOOL)) return false;
        *result = value->integer;
        return true;
    }
    if (!strcmp(name, "memref.load")) return load(counter, operation, depth, result);
    if (strncmp(name, "arith.", 6) != 0) return false;
    int64_t values[3] = {0};
    if (operation->operand_count < 1 || operation->operand_count > 3) return false;
    for (int64_t i = 0; i < operation->operand_count; i++)
        if (!scalar(counter, operation->operands[i], depth, &values[i])) return false;
    name += 6;
    if (operation->operand_count == 1) {
        *result = values[0];
        return !strncmp(name, "ext", 3) || !strncmp(name, "index_cast", 10) || !strcmp(name, "trunci");
    }
    if (operation->operand_count == 3) {
        *result = values[0] ? values[1] : values[2];
        return !strcmp(name, "select");
    }
    if (strcmp(name, "cmpi") != 0) return combine(name, values[0], values[1], result);
    const MlirAttribute *predicate = mlir_attribute(operation, "predicate");
    return predicate && predicate->kind == MLIR_INTEGER && compare(predicate->integer, values[0], values[1], result);
}

// The value of a scalar at the current point of the grid; false if it is not known.
static bool scalar(Counter *counter, const MlirValue *value, int depth, int64_t *result) {
    if (depth >= DEEPEST_SCALAR || !value || ++counter->steps > MOST_STEPS) return false;
    const int64_t *variable = hlo_int_map_find(&counter->variables, key_of(value));
    if (variable && *variable != INT64_MIN) {
        *result = *variable;
        return true;
    }
    const int64_t *definition = hlo_int_map_find(&counter->definitions, key_of(value));
    if (!definition) return false;
    if (*definition < 0) {
        const int64_t axis = -*definition - 1;
        if (axis >= counter->rank) return false;
        *result = counter->point[axis];
        return true;
    }
    return evaluate(counter, (const MlirOperation *)(uintptr_t)*definition, depth + 1, result);
}

// Marks the axes of the grid that a scalar depends on.
static void mark_axes(Counter *counter, const MlirValue *value, int depth) {
    if (depth >= DEEPEST_SCALAR || !value || ++counter->steps > MOST_STEPS) return;
    const int64_t *definition = hlo_int_map_find(&counter->definitions, key_of(value));
    if (!definition) return;
    if (*definition < 0) {
        if (-*definition - 1 < counter->rank) counter->varies[-*definition - 1] = true;
        return;
    }
    const MlirOperation *operation = (const MlirOperation *)(uintptr_t)*definition;
    for (int64_t i = 0; i < operation->operand_count; i++) mark_axes(counter, operation->operands[i], depth + 1);
}

// ---------------------------------------------------------------------------------------------------------------------
// The tree

// Whether an operation on vectors is work: loads, stores and constants are not counted.
static bool is_counted(const MlirOperation *operation, const char *name) {
    if (!strcmp(name, "tpu.matmul")) return true;
    const bool computes =
        !strncmp(name, "arith.", 6) || !strncmp(name, "math.", 5) || !strcmp(name, "vector.multi_reduction");
    return computes && strcmp(name, "arith.constant") != 0 && operation->result_count &&
           vector_of(operation->results[0]);
}

// What a scalar is computed from. The later ones win over the earlier.
typedef enum Origin {
    ORIGIN_CONSTANT,
    ORIGIN_POSITION,  // the counter of a loop, or a coordinate of the grid
    ORIGIN_LOADED,    // what the kernel loads
} Origin;

static Origin origin_of(Counter *counter, const MlirValue *value, int depth) {
    if (depth >= DEEPEST_SCALAR || ++counter->steps > MOST_STEPS) return ORIGIN_LOADED;
    const int64_t *definition = value ? hlo_int_map_find(&counter->definitions, key_of(value)) : NULL;
    if (!definition || *definition < 0) return ORIGIN_POSITION;
    const MlirOperation *operation = (const MlirOperation *)(uintptr_t)*definition;
    if (!strcmp(plain_name(operation), "memref.load")) return ORIGIN_LOADED;
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
        const int64_t length = load->operand_count == 2 ? table_length(counter, load->operands[0]) : 0;
        if (length <= 1 || literal_of(counter, load->operands[0]) ||
            origin_of(counter, load->operands[1], 0) != ORIGIN_POSITION)
            continue;
        if (!counter->most_visits || length < counter->most_visits) counter->most_visits = length;
    }
}

// Makes the nodes of a region, and records who defines each value.
static void build(Counter *counter, const MlirRegion *region, Nodes *nodes) {
    for (int64_t b = 0; b < region->block_count; b++)
        for (int64_t i = 0; i < region->blocks[b].operation_count; i++) {
            const MlirOperation *operation = region->blocks[b].operations[i];
            const char *name = plain_name(operation);
            for (int64_t r = 0; r < operation->result_count; r++)
                hlo_int_map_set(counter->arena, &counter->definitions, key_of(operation->results[r]),
                                (int64_t)(uintptr_t)operation);
            if (!strcmp(name, "memref.load")) hlo_vector_push(counter->arena, &counter->loads, operation);
            if (!operation->region_count && !is_counted(operation, name)) continue;
            Node node = {.operation = operation, .name = name, .multiplies = !strcmp(name, "tpu.matmul")};
            counter->multiplies = counter->multiplies || node.multiplies;
            for (int64_t r = 0; r < operation->region_count && r < 2; r++) {
                build(counter, &operation->regions[r], &node.regions[r]);
                for (int64_t n = 0; n < node.regions[r].count; n++)
                    node.multiplies = node.multiplies || node.regions[r].items[n].multiplies;
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
    if (!branch->operand_count || !scalar(counter, branch->operands[0], 0, &condition))
        counter->is_complete = counter->is_complete && !decides(counter, node);
    walk(counter, &node->regions[condition ? 0 : 1], weight);
}

static bool has_control(const Nodes *nodes) {
    for (int64_t i = 0; i < nodes->count; i++)
        if (nodes->items[i].operation->region_count) return true;
    return false;
}

// A loop that is not known runs once. One whose body has branches or loops is walked iteration by iteration.
static void walk_loop(Counter *counter, Node *node, double weight) {
    const MlirOperation *loop = node->operation;
    const MlirRegion *region = &loop->regions[0];
    int64_t bounds[3];
    if (!node->regions[0].count) return;
    bool known = loop->operand_count >= 3 && region->block_count && region->blocks[0].argument_count;
    const bool was_visit = counter->is_visit;
    counter->meets_count = false;
    for (int64_t i = 0; i < 3 && known; i++) known = scalar(counter, loop->operands[i], 0, &bounds[i]);
    int64_t span = 0;
    known = known && bounds[2] > 0 && !__builtin_sub_overflow(bounds[1], bounds[0], &span);
    if (!known) {
        counter->is_complete = counter->is_complete && counter->multiplies && !node->multiplies;
        walk(counter, &node->regions[0], weight);
        return;
    }
    counter->is_visit = was_visit || counter->meets_count;
    const int64_t trips = span > 0 ? (span - 1) / bounds[2] + 1 : 0;
    const MlirValue *variable = region->blocks[0].arguments[0];
    if (trips > MOST_TRIPS || !has_control(&node->regions[0])) {
        walk(counter, &node->regions[0], weight * (double)trips);
        counter->is_visit = was_visit;
        return;
    }
    for (int64_t i = 0; i < trips; i++) {
        hlo_int_map_set(counter->arena, &counter->variables, key_of(variable), bounds[0] + i * bounds[2]);
        walk(counter, &node->regions[0], weight);
    }
    hlo_int_map_set(counter->arena, &counter->variables, key_of(variable), INT64_MIN);
    counter->is_visit = was_visit;
}

static void walk(Counter *counter, Nodes *nodes, double weight) {
    for (int64_t i = 0; i < nodes->count; i++) {
        Node *node = &nodes->items[i];
        if (++counter->steps > MOST_STEPS) {
            counter->is_complete = false;
            return;
        }
        node->count += weight;
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
    double weight = 1;
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
    const HloShape *shape = vector_of(value);
    const uint64_t all = ~(uint64_t)0;
    if (!shape) return value && value->type ? all : 0;  // a scalar
    if (depth >= DEEPEST_SCALAR || shape->rank > 64 || ++counter->steps > MOST_STEPS) return 0;
    const int64_t *definition = hlo_int_map_find(&counter->definitions, key_of(value));
    if (!definition || *definition < 0) return 0;
    const MlirOperation *operation = (const MlirOperation *)(uintptr_t)*definition;
    const char *name = plain_name(operation);
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
        const HloShape *from = vector_of(operation->operands[0]);
        if (!from) return all;
        const int64_t added = shape->rank - from->rank;
        uint64_t result = 0;
        for (int64_t i = 0; i < shape->rank; i++)
            if (i < added || (from->dims[i - added] == 1 && shape->dims[i] != 1)) result |= (uint64_t)1 << i;
        return result | (added < 0 ? 0 : equal_along(counter, operation->operands[0], depth + 1) << added);
    }
    if (strncmp(name, "arith.", 6) != 0 && strncmp(name, "math.", 5) != 0) return 0;
    uint64_t result = all;
    for (int64_t i = 0; i < operation->operand_count && result; i++)
        result &= equal_along(counter, operation->operands[i], depth + 1);
    return result;
}

static void collect(Counter *counter, const Nodes *nodes, MosaicWork *work, int64_t *capacity) {
    for (int64_t i = 0; i < nodes->count; i++) {
        const Node *node = &nodes->items[i];
        for (int r = 0; r < 2; r++) collect(counter, &node->regions[r], work, capacity);
        if (node->operation->region_count || node->count <= 0) continue;
        MosaicOperation operation = {.name = node->name, .count = node->count};
        for (int64_t o = 0; o < node->operation->operand_count && o < 3; o++)
            operation.operands[o] = vector_of(node->operation->operands[o]);
        if (node->operation->result_count) operation.result = vector_of(node->operation->results[0]);
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
        if (strcmp(plain_name(function), "func.func") != 0 || !function->region_count ||
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
        const HloLiteral *literal = number < counter->operand_count ? counter->operands[number] : NULL;
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
        if (counter->most_visits) counter->bounds[i] = counter->most_visits;
        counter->is_visit = counter->most_visits != 0;
        counter->is_complete = counter->is_complete && counter->most_visits;
    }
}

HloStatus mosaic_count(HloArena *arena, const void *bytes, size_t length, const HloLiteral *const *operands,
                       int64_t operand_count, MosaicWork *work) {
    assert(arena && bytes && work && operand_count >= 0);
    MlirOperation *top;
    const MlirAttribute *bounds;
    *work = (MosaicWork){0};
    HLO_TRY(mlir_read_kernel_file(arena, bytes, length, &top));
    const MlirOperation *kernel = find_kernel(top, &bounds);
    HLO_FAIL_IF(!kernel, HLO_INVALID_ARGUMENT, "the bytecode holds no kernel");
    HLO_FAIL_IF(bounds && bounds->ints.count > MOST_AXES, HLO_INVALID_ARGUMENT, "a grid of more than %d axes",
                MOST_AXES);
    Counter *counter = HLO_ARENA_NEW(arena, Counter, 1);
    *counter = (Counter){.arena = arena, .operands = operands, .operand_count = operand_count, .is_complete = true};
    counter->body = &kernel->regions[0].blocks[0];
    read_bounds(counter, bounds);
    for (int64_t i = 0; i < counter->body->argument_count; i++)
        hlo_int_map_set(arena, &counter->definitions, key_of(counter->body->arguments[i]), -i - 1);
    Nodes nodes = {0};
    build(counter, &kernel->regions[0], &nodes);
    find_most_visits(counter);
    bound_unknown(counter);
    find_axes(counter, &nodes);
    counter->steps = 0;
    walk_grid(counter, &nodes);
    work->is_complete = counter->is_complete && counter->steps <= MOST_STEPS;
    counter->steps = 0;
    int64_t capacity = 0;
    collect(counter, &nodes, work, &capacity);
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
