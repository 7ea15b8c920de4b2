// SPDX-License-Identifier: Apache-2.0
// Each op family is a function that appends instructions to a program and adds its result to the pool of values that
// later ops draw from.
#include "tests/spmd/generate.h"

#include <stdio.h>
#include <string.h>

#include "tests/support/cases.h"
#include "tests/support/random.h"

enum { POOL = 24, RANK = 4 };

typedef struct Value {
    char name[32];
    int64_t rank, dims[RANK];
    HloType type;  // HLO_INVALID: f32
} Value;

typedef struct Program {
    Random random;
    HloText body, computations;
    Value pool[POOL];
    int64_t count, names, parameters;
    int64_t mesh[3], mesh_rank, devices;
} Program;

static int64_t pick(Program *program, int64_t limit) {
    return (int64_t)random_under(&program->random, (uint64_t)limit);
}

static const char *type_of(const Value *value) {
    return value->type == HLO_INVALID ? "f32" : hlo_type_text(value->type);
}

static void put_dims(HloText *text, const Value *value) {
    hlo_text_format(text, "%s[", type_of(value));
    for (int64_t i = 0; i < value->rank; i++) hlo_text_format(text, i ? ",%lld" : "%lld", (long long)value->dims[i]);
    hlo_text_string(text, "]");
}

// Writes "  name = shape " for a new value and pushes it; the op follows.
static Value *begin(Program *program, const Value *like) {
    if (program->count == POOL) {
        memmove(program->pool, program->pool + 1, sizeof(Value) * (POOL - 1));
        program->count--;
    }
    Value *value = &program->pool[program->count++];
    *value = *like;
    snprintf(value->name, sizeof(value->name), "v%lld", (long long)program->names++);
    hlo_text_format(&program->body, "  %s = ", value->name);
    put_dims(&program->body, value);
    hlo_text_char(&program->body, ' ');
    return value;
}

static Value random_value(Program *program) {
    return program->pool[pick(program, program->count)];
}

// A random value of rank at least `rank`.
static Value value_of_rank(Program *program, int64_t rank) {
    for (int tries = 0; tries < 20; tries++) {
        Value value = random_value(program);
        if (value.rank >= rank) return value;
    }
    for (int64_t i = 0; i < program->count; i++) {
        if (program->pool[i].rank >= rank) return program->pool[i];
    }
    return program->pool[0];
}

// ---- shardings ----

// A sharding of the program's mesh: each axis goes to a random dimension or to replication, seldom to a sum.
static void put_sharding(Program *program, const Value *value) {
    int64_t owner[3], tiles[RANK + 1], order[3], count = 0;
    for (int64_t d = 0; d <= RANK; d++) tiles[d] = 1;
    for (int64_t a = 0; a < program->mesh_rank; a++) {
        owner[a] = pick(program, value->rank + 2);
        if (owner[a] > value->rank) owner[a] = value->rank;
        tiles[owner[a] == value->rank ? RANK : owner[a]] *= program->mesh[a];
    }
    bool swapped = pick(program, 2), unreduced = tiles[RANK] > 1 && pick(program, 8) == 0;
    for (int64_t d = 0; d <= value->rank; d++) {
        for (int64_t k = 0; k < program->mesh_rank; k++) {
            int64_t a = swapped ? program->mesh_rank - 1 - k : k;
            if (owner[a] == d) order[count++] = a;
        }
    }
    if (tiles[RANK] == program->devices && !unreduced) {
        hlo_text_string(&program->body, "sharding={replicated}");
        return;
    }
    hlo_text_string(&program->body, "sharding={devices=[");
    for (int64_t d = 0; d < value->rank; d++)
        hlo_text_format(&program->body, d ? ",%lld" : "%lld", (long long)tiles[d]);
    if (tiles[RANK] > 1) hlo_text_format(&program->body, value->rank ? ",%lld" : "%lld", (long long)tiles[RANK]);
    hlo_text_string(&program->body, "]<=[");
    for (int64_t a = 0; a < program->mesh_rank; a++)
        hlo_text_format(&program->body, a ? ",%lld" : "%lld", (long long)program->mesh[a]);
    // XLA refuses to transpose one dimension.
    hlo_text_string(&program->body, program->mesh_rank > 1 ? "]T(" : "]");
    for (int64_t a = 0; program->mesh_rank > 1 && a < program->mesh_rank; a++) {
        hlo_text_format(&program->body, a ? ",%lld" : "%lld", (long long)order[a]);
    }
    hlo_text_format(&program->body, "%s%s}", program->mesh_rank > 1 ? ")" : "",
                    unreduced         ? " last_tile_dims={unreduced}"
                    : tiles[RANK] > 1 ? " last_tile_dim_replicate"
                                      : "");
}

static Value *parameter(Program *program, const Value *like) {
    Value *value = begin(program, like);
    hlo_text_format(&program->body, "parameter(%lld), ", (long long)program->parameters++);
    put_sharding(program, value);
    hlo_text_char(&program->body, '\n');
    return value;
}

static int64_t random_size(Program *program) {
    static const int64_t sizes[] = {1, 2, 3, 4, 4, 5, 6, 7, 8, 8, 9, 12, 16, 0};
    return sizes[pick(program, (int64_t)HLO_COUNT_OF(sizes))];
}

// A size from 1 to the given one; 0 of 0.
static int64_t part_of(Program *program, int64_t size) {
    return size ? 1 + pick(program, size) : 0;
}

// The given size with base - 1 holes between its elements.
static int64_t dilated(int64_t size, int64_t base) {
    return size ? (size - 1) * base + 1 : 0;
}

// Mostly f32 and s32; other types are moved, and summed where sums are exact.
static HloType random_type(Program *program) {
    static const HloType types[] = {HLO_PRED,   HLO_U8,   HLO_S8,   HLO_S16, HLO_U16, HLO_U32,
                                    HLO_S64,    HLO_U64,  HLO_S4,   HLO_F64, HLO_C64, HLO_C64,
                                    HLO_F8E5M2, HLO_BF16, HLO_BF16, HLO_F16, HLO_F64};
    const int64_t chance = pick(program, 100);
    if (chance < 45) return HLO_INVALID;
    return chance < 65 ? HLO_S32 : types[pick(program, (int64_t)HLO_COUNT_OF(types))];
}

static bool is_plain(HloType type) {
    return type == HLO_INVALID || type == HLO_F32 || type == HLO_S32;
}

static bool is_narrow_float(HloType type) {
    return hlo_type_is_float(type) && hlo_type_bytes(type) < 4;
}

static Value random_shape(Program *program, int64_t rank) {
    Value value = {.rank = rank, .type = random_type(program)};
    for (int64_t d = 0; d < rank; d++) value.dims[d] = random_size(program);
    return value;
}

// A scalar s32 index parameter, replicated, in its own name.
static Value *index_value(Program *program) {
    Value scalar = {.rank = 0, .type = HLO_S32};
    return parameter(program, &scalar);
}

// The value as f32 or s32, for ops that compare elements or compute with them.
static Value plain(Program *program, Value value) {
    if (is_plain(value.type)) return value;
    const bool is_complex = hlo_type_is_complex(value.type);
    Value result = value;
    result.type = is_complex || hlo_type_is_float(value.type) ? HLO_F32 : HLO_S32;
    const Value made = *begin(program, &result);
    hlo_text_format(&program->body, "%s(%s)\n", is_complex ? "real" : "convert", value.name);
    return made;
}

static const char *sum_of(const Value *value) {
    return value->type == HLO_PRED ? "or" : "add";
}

// ---- families ----

static void add_elementwise(Program *program) {
    static const char *const unary[] = {"negate", "abs", "sign"};
    static const char *const binary[] = {"add", "subtract", "maximum", "minimum"};
    static const char *const logical[] = {"and", "or", "xor"};
    Value a = random_value(program);
    const bool is_signed = is_plain(a.type) || hlo_type_kind(a.type) == HLO_KIND_SIGNED || hlo_type_is_float(a.type);
    const bool pred = a.type == HLO_PRED, is_complex = hlo_type_is_complex(a.type);
    if (pick(program, 3) == 0) {
        begin(program, &a);
        hlo_text_format(&program->body, "%s(%s)\n", pred ? "not" : unary[pick(program, is_signed ? 3 : 1)], a.name);
        return;
    }
    Value b = *parameter(program, &a);
    begin(program, &a);
    hlo_text_format(&program->body, "%s(%s, %s)\n",
                    pred ? logical[pick(program, 3)] : binary[pick(program, is_complex ? 2 : 4)], a.name, b.name);
}

static void put_list(Program *program, const char *name, const int64_t *items, int64_t count) {
    hlo_text_format(&program->body, ", %s={", name);
    for (int64_t i = 0; i < count; i++) hlo_text_format(&program->body, i ? ",%lld" : "%lld", (long long)items[i]);
    hlo_text_string(&program->body, "}");
}

static void add_broadcast(Program *program) {
    Value a = random_value(program), result = {.type = a.type};
    int64_t dimensions[RANK], at = 0, fresh = pick(program, RANK - a.rank + 1);
    if (a.rank + fresh > RANK) return;
    while (at < a.rank || fresh) {
        bool take = at < a.rank && (!fresh || pick(program, 2));
        if (take) dimensions[at] = result.rank;
        result.dims[result.rank++] = take ? a.dims[at] : random_size(program);
        at += take;
        fresh -= !take;
    }
    begin(program, &result);
    hlo_text_format(&program->body, "broadcast(%s)", a.name);
    put_list(program, "dimensions", dimensions, a.rank);
    hlo_text_char(&program->body, '\n');
}

static void add_transpose(Program *program) {
    Value a = value_of_rank(program, 2), result = a;
    int64_t permutation[RANK];
    for (int64_t i = 0; i < a.rank; i++) permutation[i] = i;
    for (int64_t i = a.rank - 1; i > 0; i--) {
        int64_t k = pick(program, i + 1), swap = permutation[i];
        permutation[i] = permutation[k];
        permutation[k] = swap;
    }
    for (int64_t i = 0; i < a.rank; i++) result.dims[i] = a.dims[permutation[i]];
    begin(program, &result);
    hlo_text_format(&program->body, "transpose(%s)", a.name);
    put_list(program, "dimensions", permutation, a.rank);
    hlo_text_char(&program->body, '\n');
}

static void add_reshape(Program *program) {
    Value a = value_of_rank(program, 1), result = {.type = a.type};
    int64_t left = 1;
    for (int64_t i = 0; i < a.rank; i++) left *= a.dims[i];
    while (result.rank < RANK - 1 && left > 1) {
        int64_t size = 1 + pick(program, 8);
        if (left % size) continue;
        result.dims[result.rank++] = size;
        left /= size;
        if (pick(program, 3) == 0) break;
    }
    if (left != 1 || pick(program, 4) == 0) result.dims[result.rank++] = left;
    begin(program, &result);
    hlo_text_format(&program->body, "reshape(%s)\n", a.name);
}

static void add_slice(Program *program) {
    Value a = value_of_rank(program, 1), result = a;
    int64_t start[RANK], limit[RANK], stride[RANK];
    for (int64_t d = 0; d < a.rank; d++) {
        bool whole = pick(program, 2) || a.dims[d] == 0;
        start[d] = whole ? 0 : pick(program, a.dims[d]);
        limit[d] = whole ? a.dims[d] : start[d] + 1 + pick(program, a.dims[d] - start[d]);
        stride[d] = whole ? 1 : 1 + pick(program, 3);
        result.dims[d] = (limit[d] - start[d] + stride[d] - 1) / stride[d];
    }
    begin(program, &result);
    hlo_text_format(&program->body, "slice(%s), slice={", a.name);
    for (int64_t d = 0; d < a.rank; d++) {
        hlo_text_format(&program->body, "%s[%lld:%lld:%lld]", d ? ", " : "", (long long)start[d], (long long)limit[d],
                        (long long)stride[d]);
    }
    hlo_text_string(&program->body, "}\n");
}

static void add_pad(Program *program) {
    Value a = value_of_rank(program, 1), result = a;
    int64_t low[RANK], high[RANK], inner[RANK];
    for (int64_t d = 0; d < a.rank; d++) {
        bool whole = pick(program, 2);
        low[d] = whole ? 0 : pick(program, 5) - 1;
        high[d] = whole ? 0 : pick(program, 5) - 1;
        inner[d] = !whole && pick(program, 3) == 0 ? 1 + pick(program, 2) : 0;
        result.dims[d] = low[d] + high[d] + dilated(a.dims[d], inner[d] + 1);
        if (result.dims[d] < 1) {
            low[d] = 2;
            high[d] = 0;
            result.dims[d] = dilated(a.dims[d], inner[d] + 1) + 2;
        }
    }
    Value scalar = {.rank = 0, .type = a.type};
    Value fill = *parameter(program, &scalar);
    begin(program, &result);
    hlo_text_format(&program->body, "pad(%s, %s), padding=", a.name, fill.name);
    for (int64_t d = 0; d < a.rank; d++) {
        hlo_text_format(&program->body, "%s%lld_%lld_%lld", d ? "x" : "", (long long)low[d], (long long)high[d],
                        (long long)inner[d]);
    }
    hlo_text_char(&program->body, '\n');
}

static void add_reverse(Program *program) {
    Value a = value_of_rank(program, 1);
    int64_t dims[RANK], count = 0;
    for (int64_t d = 0; d < a.rank; d++) {
        if (pick(program, 2)) dims[count++] = d;
    }
    begin(program, &a);
    hlo_text_format(&program->body, "reverse(%s)", a.name);
    put_list(program, "dimensions", dims, count);
    hlo_text_char(&program->body, '\n');
}

static void add_concatenate(Program *program) {
    Value a = value_of_rank(program, 1), other = a, result = a;
    if (!a.rank) return;
    int64_t dim = pick(program, a.rank);
    other.dims[dim] = random_size(program);
    const char *parts[6] = {a.name};
    Value b = *parameter(program, &other);
    int64_t count = 2 + pick(program, 5);
    result.dims[dim] = 0;
    for (int64_t i = 0; i < count; i++) {
        bool first = i == 0 || (i > 1 && pick(program, 2));
        parts[i] = first ? a.name : b.name;
        result.dims[dim] += first ? a.dims[dim] : b.dims[dim];
    }
    begin(program, &result);
    hlo_text_string(&program->body, "concatenate(");
    for (int64_t i = 0; i < count; i++) hlo_text_format(&program->body, "%s%s", i ? ", " : "", parts[i]);
    hlo_text_char(&program->body, ')');
    put_list(program, "dimensions", &dim, 1);
    hlo_text_char(&program->body, '\n');
}

// `a` from `start` to `limit` along one dimension.
static Value *put_slice(Program *program, const Value *a, int64_t dim, int64_t start, int64_t limit) {
    Value result = *a;
    result.dims[dim] = limit - start;
    Value *made = begin(program, &result);
    hlo_text_format(&program->body, "slice(%s), slice={", a->name);
    for (int64_t d = 0; d < a->rank; d++) {
        hlo_text_format(&program->body, "%s[%lld:%lld]", d ? ", " : "", (long long)(d == dim ? start : 0),
                        (long long)(d == dim ? limit : a->dims[d]));
    }
    hlo_text_string(&program->body, "}\n");
    return made;
}

// The end of an array before its beginning.
static void add_rotation(Program *program) {
    Value a = value_of_rank(program, 1);
    int64_t dim = a.rank ? pick(program, a.rank) : 0;
    if (!a.rank || a.dims[dim] < 2) return;
    int64_t at = 1 + pick(program, a.dims[dim] - 1);
    Value end = *put_slice(program, &a, dim, at, a.dims[dim]);
    Value front = *put_slice(program, &a, dim, 0, at);
    begin(program, &a);
    hlo_text_format(&program->body, "concatenate(%s, %s)", end.name, front.name);
    put_list(program, "dimensions", &dim, 1);
    hlo_text_char(&program->body, '\n');
}

// Writes a reducer of two scalars and returns its name.
static const char *reducer(Program *program, const Value *value, const char *op, char *name) {
    snprintf(name, 32, "r%lld", (long long)program->names++);
    const char *type = type_of(value);
    if (value->type == HLO_PRED) op = "or";
    if (hlo_type_is_complex(value->type)) op = "add";
    if (is_narrow_float(value->type) && !strcmp(op, "add")) op = "maximum";  // a sum would depend on the order
    hlo_text_format(&program->computations,
                    "%s {\n  x = %s[] parameter(0)\n  y = %s[] parameter(1)\n  ROOT z = %s[] %s(x, y)\n}\n\n", name,
                    type, type, type, op);
    return name;
}

static void add_reduce(Program *program) {
    static const char *const ops[] = {"add", "add", "maximum", "minimum"};
    Value a = value_of_rank(program, 1), result = {.type = a.type};
    int64_t dims[RANK], count = 0;
    char name[32];
    for (int64_t d = 0; d < a.rank; d++) {
        if (pick(program, 2)) {
            dims[count++] = d;
        } else {
            result.dims[result.rank++] = a.dims[d];
        }
    }
    Value scalar = {.rank = 0, .type = a.type};
    Value init = *parameter(program, &scalar);
    reducer(program, &a, ops[pick(program, 4)], name);
    begin(program, &result);
    hlo_text_format(&program->body, "reduce(%s, %s)", a.name, init.name);
    put_list(program, "dimensions", dims, count);
    hlo_text_format(&program->body, ", to_apply=%s\n", name);
}

// The largest element and its index: a reduction of two arrays whose result does not depend on order.
static void add_argmax(Program *program) {
    Value a = plain(program, value_of_rank(program, 1)), index = a, result = {.type = HLO_S32};
    if (!a.rank) return;
    int64_t dim = pick(program, a.rank);
    char name[32];
    snprintf(name, sizeof(name), "r%lld", (long long)program->names++);
    const char *t = type_of(&a);
    hlo_text_format(
        &program->computations,
        "%s {\n  a = %s[] parameter(0)\n  i = s32[] parameter(1)\n  b = %s[] parameter(2)\n  j = s32[] parameter(3)\n"
        "  gt = pred[] compare(a, b), direction=GT\n  eq = pred[] compare(a, b), direction=EQ\n"
        "  lt = pred[] compare(i, j), direction=LT\n  tie = pred[] and(eq, lt)\n  first = pred[] or(gt, tie)\n"
        "  v = %s[] select(first, a, b)\n  k = s32[] select(first, i, j)\n  ROOT t = (%s[], s32[]) tuple(v, k)\n}\n\n",
        name, t, t, t, t);
    index.type = HLO_S32;
    Value iota = *begin(program, &index);
    hlo_text_format(&program->body, "iota(), iota_dimension=%lld\n", (long long)dim);
    for (int64_t d = 0; d < a.rank; d++) {
        if (d != dim) result.dims[result.rank++] = a.dims[d];
    }
    int64_t id = program->names++;
    Value values = result;
    values.type = a.type;
    hlo_text_format(&program->body,
                    "  low%lld = %s[] constant(-1000000)\n  none%lld = s32[] constant(1000000)\n  both%lld = (",
                    (long long)id, t, (long long)id, (long long)id);
    put_dims(&program->body, &values);
    hlo_text_string(&program->body, ", ");
    put_dims(&program->body, &result);
    hlo_text_format(&program->body, ") reduce(%s, %s, low%lld, none%lld), dimensions={%lld}, to_apply=%s\n", a.name,
                    iota.name, (long long)id, (long long)id, (long long)dim, name);
    begin(program, &result);
    hlo_text_format(&program->body, "get-tuple-element(both%lld), index=1\n", (long long)id);
}

static void add_dot(Program *program) {
    Value a = value_of_rank(program, 1);
    if (a.type == HLO_PRED || is_narrow_float(a.type)) a = plain(program, a);
    Value b = {.rank = 0, .type = a.type}, result = {.type = a.type};
    int64_t lb[RANK], rb[RANK], lc[RANK], rc[RANK], batch = 0, contracting = 0;
    int64_t role[RANK] = {0};
    for (int64_t d = 0; d < a.rank; d++) {
        role[d] = pick(program, 3);
        if (role[d] == 0) {
            lb[batch] = d;
            rb[batch++] = b.rank;
        } else if (role[d] == 1) {
            lc[contracting] = d;
            rc[contracting++] = b.rank;
        }
        if (role[d] < 2) b.dims[b.rank++] = a.dims[d];
    }
    if (a.rank - contracting + 1 > RANK || b.rank == RANK) return;
    for (int64_t i = 0; i < batch; i++) result.dims[result.rank++] = a.dims[lb[i]];
    for (int64_t d = 0; d < a.rank; d++) {
        if (role[d] == 2) result.dims[result.rank++] = a.dims[d];
    }
    b.dims[b.rank++] = random_size(program);
    result.dims[result.rank++] = b.dims[b.rank - 1];
    Value rhs = *parameter(program, &b);
    begin(program, &result);
    hlo_text_format(&program->body, "dot(%s, %s)", a.name, rhs.name);
    put_list(program, "lhs_batch_dims", lb, batch);
    put_list(program, "rhs_batch_dims", rb, batch);
    put_list(program, "lhs_contracting_dims", lc, contracting);
    put_list(program, "rhs_contracting_dims", rc, contracting);
    hlo_text_char(&program->body, '\n');
}

static void add_sort(Program *program) {
    Value a = plain(program, value_of_rank(program, 1));
    if (!a.rank) return;
    char name[32];
    snprintf(name, sizeof(name), "r%lld", (long long)program->names++);
    const char *t = type_of(&a);
    hlo_text_format(
        &program->computations,
        "%s {\n  x = %s[] parameter(0)\n  y = %s[] parameter(1)\n  ROOT z = pred[] compare(x, y), direction=LT\n}\n\n",
        name, t, t);
    begin(program, &a);
    hlo_text_format(&program->body, "sort(%s), dimensions={%lld}, is_stable=true, to_apply=%s\n", a.name,
                    (long long)pick(program, a.rank), name);
}

static void add_dynamic_slice(Program *program) {
    Value a = value_of_rank(program, 1), result = a, index[RANK];
    for (int64_t d = 0; d < a.rank; d++) {
        index[d] = *index_value(program);
        result.dims[d] = pick(program, 2) ? a.dims[d] : part_of(program, a.dims[d]);
    }
    begin(program, &result);
    hlo_text_format(&program->body, "dynamic-slice(%s", a.name);
    for (int64_t d = 0; d < a.rank; d++) hlo_text_format(&program->body, ", %s", index[d].name);
    hlo_text_string(&program->body, ")");
    put_list(program, "dynamic_slice_sizes", result.dims, a.rank);
    hlo_text_char(&program->body, '\n');
}

static void add_dynamic_update(Program *program) {
    Value a = value_of_rank(program, 1), update = a, index[RANK];
    for (int64_t d = 0; d < a.rank; d++) {
        index[d] = *index_value(program);
        update.dims[d] = pick(program, 2) ? a.dims[d] : part_of(program, a.dims[d]);
    }
    Value given = *parameter(program, &update);
    begin(program, &a);
    hlo_text_format(&program->body, "dynamic-update-slice(%s, %s", a.name, given.name);
    for (int64_t d = 0; d < a.rank; d++) hlo_text_format(&program->body, ", %s", index[d].name);
    hlo_text_string(&program->body, ")\n");
}

// Rows of an array by an index vector that is sometimes out of range.
static void add_gather(Program *program) {
    Value a = value_of_rank(program, 1), indices = {.rank = 1, .type = HLO_S32}, result = {.type = a.type};
    if (!a.rank) return;
    int64_t dim = pick(program, a.rank), offsets[RANK], sizes[RANK], count = 0;
    if (!a.dims[dim]) return;
    indices.dims[0] = random_size(program);
    Value rows = *parameter(program, &indices);
    result.dims[result.rank++] = indices.dims[0];
    for (int64_t d = 0; d < a.rank; d++) {
        sizes[d] = d == dim ? 1 : pick(program, 4) ? a.dims[d] : part_of(program, a.dims[d]);
        if (d == dim) continue;
        offsets[count++] = result.rank;
        result.dims[result.rank++] = sizes[d];
    }
    begin(program, &result);
    hlo_text_format(&program->body, "gather(%s, %s)", a.name, rows.name);
    put_list(program, "offset_dims", offsets, count);
    put_list(program, "collapsed_slice_dims", &dim, 1);
    put_list(program, "start_index_map", &dim, 1);
    hlo_text_string(&program->body, ", index_vector_dim=1");
    put_list(program, "slice_sizes", sizes, a.rank);
    hlo_text_char(&program->body, '\n');
}

static void add_scatter(Program *program) {
    Value a = value_of_rank(program, 1), indices = {.rank = 1, .type = HLO_S32}, updates = {.type = a.type};
    if (!a.rank) return;
    int64_t dim = pick(program, a.rank), window[RANK], count = 0;
    char name[32];
    indices.dims[0] = random_size(program);
    Value rows = *parameter(program, &indices);
    updates.dims[updates.rank++] = indices.dims[0];
    for (int64_t d = 0; d < a.rank; d++) {
        if (d == dim) continue;
        window[count++] = updates.rank;
        updates.dims[updates.rank++] = pick(program, 4) ? a.dims[d] : part_of(program, a.dims[d]);
    }
    Value given = *parameter(program, &updates);
    reducer(program, &a, pick(program, 3) ? "add" : "maximum", name);
    begin(program, &a);
    hlo_text_format(&program->body, "scatter(%s, %s, %s)", a.name, rows.name, given.name);
    put_list(program, "update_window_dims", window, count);
    put_list(program, "inserted_window_dims", &dim, 1);
    put_list(program, "scatter_dims_to_operand_dims", &dim, 1);
    hlo_text_format(&program->body, ", index_vector_dim=1, to_apply=%s\n", name);
}

// A cumulative sum is a window as long as the array.
static void add_cumulative(Program *program) {
    Value a = value_of_rank(program, 1), scalar = {.rank = 0, .type = a.type};
    if (!a.rank) return;
    int64_t dim = pick(program, a.rank), size = a.dims[dim];
    if (!size) return;
    bool forward = pick(program, 2);
    char name[32];
    Value init = *parameter(program, &scalar);
    reducer(program, &a, pick(program, 2) ? "add" : "maximum", name);
    begin(program, &a);
    hlo_text_format(&program->body, "reduce-window(%s, %s), window={size=", a.name, init.name);
    for (int64_t d = 0; d < a.rank; d++)
        hlo_text_format(&program->body, d ? "x%lld" : "%lld", d == dim ? (long long)size : 1LL);
    hlo_text_string(&program->body, " pad=");
    for (int64_t d = 0; d < a.rank; d++) {
        long long before = d == dim && forward ? size - 1 : 0, after = d == dim && !forward ? size - 1 : 0;
        hlo_text_format(&program->body, "%s%lld_%lld", d ? "x" : "", before, after);
    }
    hlo_text_format(&program->body, "}, to_apply=%s\n", name);
}

static void add_reduce_window(Program *program) {
    Value a = value_of_rank(program, 1), result = a;
    int64_t size[RANK], stride[RANK], low[RANK], high[RANK], dilate[RANK], base[RANK];
    char name[32];
    if (!a.rank) return;
    for (int64_t d = 0; d < a.rank; d++) {
        bool trivial = pick(program, 2);
        size[d] = trivial ? 1 : 1 + pick(program, 4);
        stride[d] = trivial ? 1 : 1 + pick(program, 3);
        low[d] = trivial ? 0 : pick(program, 3);
        high[d] = trivial ? 0 : pick(program, 3);
        dilate[d] = trivial ? 1 : 1 + pick(program, 2);
        base[d] = trivial || pick(program, 3) ? 1 : 2 + pick(program, 2);
        int64_t span = (size[d] - 1) * dilate[d] + 1, room = dilated(a.dims[d], base[d]) + low[d] + high[d];
        if (span > room) {
            high[d] += span - room;
            room = span;
        }
        result.dims[d] = (room - span) / stride[d] + 1;
    }
    Value scalar = {.rank = 0, .type = a.type};
    Value init = *parameter(program, &scalar);
    reducer(program, &a, pick(program, 2) ? "add" : "maximum", name);
    begin(program, &result);
    hlo_text_format(&program->body, "reduce-window(%s, %s), window={size=", a.name, init.name);
    for (int64_t d = 0; d < a.rank; d++) hlo_text_format(&program->body, d ? "x%lld" : "%lld", (long long)size[d]);
    hlo_text_string(&program->body, " stride=");
    for (int64_t d = 0; d < a.rank; d++) hlo_text_format(&program->body, d ? "x%lld" : "%lld", (long long)stride[d]);
    hlo_text_string(&program->body, " pad=");
    for (int64_t d = 0; d < a.rank; d++)
        hlo_text_format(&program->body, "%s%lld_%lld", d ? "x" : "", (long long)low[d], (long long)high[d]);
    hlo_text_string(&program->body, " lhs_dilate=");
    for (int64_t d = 0; d < a.rank; d++) hlo_text_format(&program->body, d ? "x%lld" : "%lld", (long long)base[d]);
    hlo_text_string(&program->body, " rhs_dilate=");
    for (int64_t d = 0; d < a.rank; d++) hlo_text_format(&program->body, d ? "x%lld" : "%lld", (long long)dilate[d]);
    hlo_text_format(&program->body, "}, to_apply=%s\n", name);
}

static void add_convolution(Program *program) {
    int64_t groups = 1 + pick(program, 2), batch_groups = groups == 1 ? 1 + pick(program, 2) : 1;
    Value input = {.rank = 4}, kernel = {.rank = 4}, result = {.rank = 4};
    int64_t size[2], stride[2], low[2], high[2], base[2], dilate[2];
    input.dims[0] = batch_groups * (1 + pick(program, 5));
    input.dims[3] = groups * (1 + pick(program, 4));
    kernel.dims[2] = input.dims[3] / groups;
    kernel.dims[3] = groups * batch_groups * (1 + pick(program, 4));
    result.dims[0] = input.dims[0] / batch_groups;
    result.dims[3] = kernel.dims[3];
    for (int64_t d = 0; d < 2; d++) {
        input.dims[1 + d] = 4 + pick(program, 10);
        // Sometimes the kernel is as large as the image, as in the gradient of a kernel.
        size[d] = kernel.dims[d] = pick(program, 4) ? 1 + pick(program, 4) : input.dims[1 + d] - pick(program, 2);
        stride[d] = 1 + pick(program, 2);
        low[d] = pick(program, 4) - 1;
        high[d] = pick(program, 4) - 1;
        base[d] = pick(program, 3) ? 1 : 2 + pick(program, 2);
        dilate[d] = 1 + pick(program, 2);
        int64_t span = (size[d] - 1) * dilate[d] + 1, room = dilated(input.dims[1 + d], base[d]) + low[d] + high[d];
        if (span > room) {
            high[d] += span - room;
            room = span;
        }
        result.dims[1 + d] = (room - span) / stride[d] + 1;
    }
    Value a = *parameter(program, &input), b = *parameter(program, &kernel);
    begin(program, &result);
    hlo_text_format(
        &program->body,
        "convolution(%s, %s), window={size=%lldx%lld stride=%lldx%lld pad=%lld_%lldx%lld_%lld lhs_dilate=%lldx%lld "
        "rhs_dilate=%lldx%lld}, dim_labels=b01f_01io->b01f, feature_group_count=%lld, batch_group_count=%lld\n",
        a.name, b.name, (long long)size[0], (long long)size[1], (long long)stride[0], (long long)stride[1],
        (long long)low[0], (long long)high[0], (long long)low[1], (long long)high[1], (long long)base[0],
        (long long)base[1], (long long)dilate[0], (long long)dilate[1], (long long)groups, (long long)batch_groups);
}

// Gradient of a max pool.
static void add_select_and_scatter(Program *program) {
    Value a = {.rank = 3}, source = {.rank = 3};
    int64_t size[3], stride[3], low[3], high[3];
    char select[32], scatter[32];
    for (int64_t d = 0; d < 3; d++) {
        a.dims[d] = 3 + pick(program, 10);
        size[d] = pick(program, 2) ? 1 : 1 + pick(program, 3);
        stride[d] = 1 + pick(program, 3);
        low[d] = pick(program, size[d]);
        high[d] = pick(program, size[d]);
        source.dims[d] = (a.dims[d] + low[d] + high[d] - size[d]) / stride[d] + 1;
    }
    Value operand = *parameter(program, &a), given = *parameter(program, &source);
    Value scalar = {.rank = 0};
    Value init = *parameter(program, &scalar);
    snprintf(select, sizeof(select), "r%lld", (long long)program->names++);
    hlo_text_format(&program->computations,
                    "%s {\n  x = f32[] parameter(0)\n  y = f32[] parameter(1)\n  ROOT z = pred[] compare(x, y), "
                    "direction=GE\n}\n\n",
                    select);
    reducer(program, &a, "add", scatter);
    begin(program, &a);
    hlo_text_format(&program->body,
                    "select-and-scatter(%s, %s, %s), window={size=%lldx%lldx%lld stride=%lldx%lldx%lld "
                    "pad=%lld_%lldx%lld_%lldx%lld_%lld}, "
                    "select=%s, scatter=%s\n",
                    operand.name, given.name, init.name, (long long)size[0], (long long)size[1], (long long)size[2],
                    (long long)stride[0], (long long)stride[1], (long long)stride[2], (long long)low[0],
                    (long long)high[0], (long long)low[1], (long long)high[1], (long long)low[2], (long long)high[2],
                    select, scatter);
}

// The largest elements along the last dimension.
static void add_topk(Program *program) {
    Value a = plain(program, value_of_rank(program, 1)), result = a, index = a;
    if (!a.rank || !a.dims[a.rank - 1]) return;
    int64_t k = 1 + pick(program, a.dims[a.rank - 1]);
    result.dims[a.rank - 1] = index.dims[a.rank - 1] = k;
    index.type = HLO_S32;
    long long id = program->names++;
    hlo_text_format(&program->body, "  top%lld = (", id);
    put_dims(&program->body, &result);
    hlo_text_string(&program->body, ", ");
    put_dims(&program->body, &index);
    hlo_text_format(&program->body, ") topk(%s), k=%lld, largest=true\n", a.name, (long long)k);
    begin(program, &result);
    hlo_text_format(&program->body, "get-tuple-element(top%lld), index=0\n", id);
}

// Gather and scatter with batching dimensions: each row of a table by its own indices.
static void add_batched_gather(Program *program) {
    Value table = {.rank = 3, .type = random_type(program)}, indices = {.rank = 3, .type = HLO_S32};
    Value result = {.rank = 3, .type = table.type};
    for (int64_t d = 0; d < 3; d++) table.dims[d] = random_size(program);
    if (!table.dims[1]) return;
    indices.dims[0] = result.dims[0] = table.dims[0];
    indices.dims[1] = result.dims[1] = random_size(program);
    indices.dims[2] = 1;
    result.dims[2] = table.dims[2];
    Value a = *parameter(program, &table), b = *parameter(program, &indices);
    Value rows = *begin(program, &result);
    hlo_text_format(
        &program->body,
        "gather(%s, %s), offset_dims={2}, collapsed_slice_dims={1}, start_index_map={1}, operand_batching_dims={0}, "
        "start_indices_batching_dims={0}, index_vector_dim=2, slice_sizes={%d,1,%lld}\n",
        a.name, b.name, table.dims[0] > 0, (long long)table.dims[2]);
    char name[32];
    reducer(program, &table, "add", name);
    begin(program, &table);
    hlo_text_format(
        &program->body,
        "scatter(%s, %s, %s), update_window_dims={2}, inserted_window_dims={1}, scatter_dims_to_operand_dims={1}, "
        "input_batching_dims={0}, scatter_indices_batching_dims={0}, index_vector_dim=2, to_apply=%s\n",
        a.name, b.name, rows.name, name);
}

// Two indices per vector, in any dimension of the index array.
static void add_two_index_gather(Program *program) {
    Value table = {.rank = 3, .type = random_type(program)}, indices = {.rank = 2, .type = HLO_S32};
    Value result = {.rank = 2, .type = table.type};
    bool leading = pick(program, 2);
    for (int64_t d = 0; d < 3; d++) table.dims[d] = random_size(program);
    if (!table.dims[0] || !table.dims[2]) return;
    int64_t count = random_size(program);
    indices.dims[leading ? 0 : 1] = 2;
    indices.dims[leading ? 1 : 0] = result.dims[0] = count;
    result.dims[1] = table.dims[1];
    Value a = *parameter(program, &table), b = *parameter(program, &indices);
    Value rows = *begin(program, &result);
    hlo_text_format(
        &program->body,
        "gather(%s, %s), offset_dims={1}, collapsed_slice_dims={0,2}, start_index_map={2,0}, index_vector_dim=%d, "
        "slice_sizes={1,%lld,1}\n",
        a.name, b.name, leading ? 0 : 1, (long long)table.dims[1]);
    char name[32];
    reducer(program, &table, pick(program, 2) ? "add" : "minimum", name);
    begin(program, &table);
    hlo_text_format(
        &program->body,
        "scatter(%s, %s, %s), update_window_dims={1}, inserted_window_dims={0,2}, scatter_dims_to_operand_dims={2,0}, "
        "index_vector_dim=%d, to_apply=%s\n",
        a.name, b.name, rows.name, leading ? 0 : 1, name);
}

// Factorisation and solve of diagonally dominant matrices, and a transform.
static void add_linear_algebra(Program *program) {
    Value matrix = {.rank = 3}, right = {.rank = 3};
    matrix.dims[0] = right.dims[0] = random_size(program);
    matrix.dims[1] = matrix.dims[2] = right.dims[1] = 1 + pick(program, 6);
    right.dims[2] = random_size(program);
    Value a = *parameter(program, &matrix), b = *parameter(program, &right);
    long long id = program->names++;
    hlo_text_format(&program->body, "  i%lld = ", id);
    put_dims(&program->body, &matrix);
    hlo_text_format(&program->body, " iota(), iota_dimension=1\n  j%lld = ", id);
    put_dims(&program->body, &matrix);
    hlo_text_format(&program->body,
                    " iota(), iota_dimension=2\n  e%lld = pred[%lld,%lld,%lld] compare(i%lld, j%lld), direction=EQ\n  "
                    "big%lld = f32[] constant(64)\n  d%lld = ",
                    id, (long long)matrix.dims[0], (long long)matrix.dims[1], (long long)matrix.dims[2], id, id, id,
                    id);
    put_dims(&program->body, &matrix);
    hlo_text_format(&program->body, " broadcast(big%lld), dimensions={}\n  m%lld = ", id, id);
    put_dims(&program->body, &matrix);
    hlo_text_format(&program->body, " select(e%lld, d%lld, %s)\n", id, id, a.name);
    bool left = pick(program, 2);
    if (!left) {
        right.dims[2] = right.dims[1];
        right.dims[1] = b.dims[2];
        b = *parameter(program, &right);
    }
    begin(program, &right);
    hlo_text_format(&program->body, "triangular-solve(m%lld, %s), left_side=%s, lower=true, transpose_a=NO_TRANSPOSE\n",
                    id, b.name, left ? "true" : "false");
    begin(program, &matrix);
    hlo_text_format(&program->body, "cholesky(m%lld), lower=true\n", id);
}

static void add_fft(Program *program) {
    Value a = plain(program, value_of_rank(program, 1)), real = a;
    if (!a.rank || !a.dims[a.rank - 1]) return;
    real.type = HLO_F32;
    long long id = program->names++;
    HloText dims = {0};
    hlo_text_string(&dims, "[");
    for (int64_t d = 0; d < a.rank; d++) hlo_text_format(&dims, d ? ",%lld" : "%lld", (long long)a.dims[d]);
    hlo_text_string(&dims, "]");
    hlo_text_format(&program->body,
                    "  z%lld = c64%s convert(%s)\n  fft%lld = c64%s fft(z%lld), fft_type=FFT, fft_length={%lld}\n", id,
                    dims.data, a.name, id, dims.data, id, (long long)a.dims[a.rank - 1]);
    begin(program, &real);
    hlo_text_format(&program->body, "real(fft%lld)\n", id);
    hlo_text_free(&dims);
}

// A map, a select, a clamp, and a conversion to another type and back.
static void add_choice(Program *program) {
    Value a = plain(program, random_value(program)), low = {.rank = 0, .type = a.type};
    Value b = *parameter(program, &a), bound = *parameter(program, &low);
    long long id = program->names++;
    char name[32];
    HloText dims = {0};
    hlo_text_string(&dims, "[");
    for (int64_t d = 0; d < a.rank; d++) hlo_text_format(&dims, d ? ",%lld" : "%lld", (long long)a.dims[d]);
    hlo_text_string(&dims, "]");
    hlo_text_format(&program->body, "  p%lld = pred%s compare(%s, %s), direction=GT\n", id, dims.data, a.name, b.name);
    Value chosen = *begin(program, &a);
    hlo_text_format(&program->body, "select(p%lld, %s, %s)\n", id, a.name, b.name);
    Value clamped = *begin(program, &a);
    hlo_text_format(&program->body, "clamp(%s, %s, %s)\n", bound.name, chosen.name, b.name);
    hlo_text_format(&program->body, "  h%lld = s8%s convert(%s)\n", id, dims.data, clamped.name);
    Value back = *begin(program, &a);
    hlo_text_format(&program->body, "convert(h%lld)\n", id);
    reducer(program, &a, "add", name);
    begin(program, &a);
    hlo_text_format(&program->body, "map(%s, %s), dimensions={", back.name, chosen.name);
    for (int64_t d = 0; d < a.rank; d++) hlo_text_format(&program->body, d ? ",%lld" : "%lld", (long long)d);
    hlo_text_format(&program->body, "}, to_apply=%s\n", name);
    hlo_text_free(&dims);
}

// Keys and values sorted together.
// The first few of a sorted dimension.
static void add_sort_first(Program *program) {
    int64_t before = program->count;
    add_sort(program);
    if (program->count == before && before < POOL) return;
    Value sorted = program->pool[program->count - 1];
    if (!sorted.rank) return;
    int64_t dim = pick(program, sorted.rank);
    put_slice(program, &sorted, dim, 0, part_of(program, sorted.dims[dim] < 3 ? sorted.dims[dim] : 3));
}

static void add_sort_pairs(Program *program) {
    Value a = plain(program, value_of_rank(program, 1));
    if (!a.rank) return;
    Value b = *parameter(program, &a);
    char name[32];
    long long id = program->names++;
    snprintf(name, sizeof(name), "r%lld", (long long)program->names++);
    const char *t = type_of(&a);
    hlo_text_format(
        &program->computations,
        "%s {\n  x = %s[] parameter(0)\n  y = %s[] parameter(1)\n  u = %s[] parameter(2)\n  v = %s[] parameter(3)\n"
        "  ROOT z = pred[] compare(x, y), direction=GT\n}\n\n",
        name, t, t, t, t);
    hlo_text_format(&program->body, "  pair%lld = (", id);
    put_dims(&program->body, &a);
    hlo_text_string(&program->body, ", ");
    put_dims(&program->body, &a);
    hlo_text_format(&program->body, ") sort(%s, %s), dimensions={%lld}, is_stable=true, to_apply=%s\n", a.name, b.name,
                    (long long)pick(program, a.rank), name);
    begin(program, &a);
    hlo_text_format(&program->body, "get-tuple-element(pair%lld), index=1\n", id);
}

// Random bits; the state is passed on.
static void add_random(Program *program) {
    static const char *const algorithms[] = {"rng_three_fry", "rng_philox", "rng_default"};
    static const char *const types[] = {"u32", "u64", "u16"};
    Value a = value_of_rank(program, 1);
    long long id = program->names++;
    HloText dims = {0};
    hlo_text_string(&dims, "[");
    for (int64_t d = 0; d < a.rank; d++) hlo_text_format(&dims, d ? ",%lld" : "%lld", (long long)a.dims[d]);
    hlo_text_string(&dims, "]");
    const char *type = types[pick(program, 3)];
    hlo_text_format(
        &program->body,
        "  seed%lld = u64[2] constant({77, 5})\n  g%lld = (u64[2], %s%s) rng-bit-generator(seed%lld), algorithm=%s\n"
        "  w%lld = %s%s get-tuple-element(g%lld), index=1\n  int%lld = s32%s convert(w%lld)\n",
        id, id, type, dims.data, id, algorithms[pick(program, 3)], id, type, dims.data, id, id, dims.data, id);
    Value integer = a;
    integer.type = HLO_S32;
    begin(program, &integer);
    hlo_text_format(&program->body, "negate(int%lld)\n", id);
    hlo_text_free(&dims);
}

static void add_iota(Program *program) {
    Value a = plain(program, value_of_rank(program, 1));
    if (!a.rank) return;
    Value iota = *begin(program, &a);
    hlo_text_format(&program->body, "iota(), iota_dimension=%lld\n", (long long)pick(program, a.rank));
    Value sum = *begin(program, &a);
    hlo_text_format(&program->body, "%s(%s, %s)\n", pick(program, 2) ? "add" : "maximum", a.name, iota.name);
    begin(program, &a);
    hlo_text_format(&program->body, "negate(%s)\n", pick(program, 3) ? sum.name : iota.name);
}

static void add_constraint(Program *program) {
    Value a = random_value(program);
    begin(program, &a);
    hlo_text_format(&program->body, "custom-call(%s), custom_call_target=\"Sharding\", ", a.name);
    put_sharding(program, &a);
    hlo_text_char(&program->body, '\n');
}

// A loop that adds an array to a carry three times.
static void add_loop(Program *program) {
    Value a = random_value(program);
    Value b = *parameter(program, &a);
    HloText shape = {0};
    long long id = program->names++;
    put_dims(&shape, &a);
    const char *s = shape.data;
    hlo_text_format(
        &program->computations,
        "cond%lld {\n  p = (s32[], %s, %s) parameter(0)\n  i = s32[] get-tuple-element(p), index=0\n  n = s32[] "
        "constant(3)\n"
        "  ROOT c = pred[] compare(i, n), direction=LT\n}\n\n"
        "body%lld {\n  p = (s32[], %s, %s) parameter(0)\n  i = s32[] get-tuple-element(p), index=0\n  one = s32[] "
        "constant(1)\n"
        "  j = s32[] add(i, one)\n  x = %s get-tuple-element(p), index=1\n  y = %s get-tuple-element(p), index=2\n"
        "  z = %s %s(x, y)\n  ROOT t = (s32[], %s, %s) tuple(j, z, y)\n}\n\n",
        id, s, s, id, s, s, s, s, s, sum_of(&a), s, s);
    hlo_text_format(&program->body,
                    "  zero%lld = s32[] constant(0)\n  init%lld = (s32[], %s, %s) tuple(zero%lld, %s, %s)\n"
                    "  loop%lld = (s32[], %s, %s) while(init%lld), condition=cond%lld, body=body%lld\n",
                    id, id, s, s, id, a.name, b.name, id, s, s, id, id, id);
    begin(program, &a);
    hlo_text_format(&program->body, "get-tuple-element(loop%lld), index=1\n", id);
    hlo_text_free(&shape);
}

// Sums along the rows of a matrix, from its start or its end.
static void add_scan(Program *program) {
    Value a = {.rank = 2, .dims = {random_size(program), random_size(program)}}, carry = {.rank = 1};
    int64_t dim = pick(program, 2);
    carry.dims[0] = a.dims[1 - dim];
    Value x = *parameter(program, &a), start = *parameter(program, &carry);
    long long id = program->names++, width = (long long)carry.dims[0];
    hlo_text_format(
        &program->computations,
        "step%lld {\n  x = f32[%lld] parameter(0)\n  c = f32[%lld] parameter(1)\n  s = f32[%lld] add(c, x)\n"
        "  ROOT t = (f32[%lld], f32[%lld]) tuple(s, s)\n}\n\n",
        id, width, width, width, width, width);
    hlo_text_format(&program->body, "  scan%lld = (", id);
    put_dims(&program->body, &a);
    hlo_text_format(&program->body,
                    ", f32[%lld]) scan(%s, %s), dimensions={%lld}, to_apply=step%lld, num_carries=1%s\n", width, x.name,
                    start.name, (long long)dim, id, pick(program, 2) ? ", is_reverse=true" : "");
    begin(program, &a);
    hlo_text_format(&program->body, "get-tuple-element(scan%lld), index=0\n", id);
}

// Products of runs of rows with a matrix each, or of runs of a summed dimension.
static void add_ragged_dot(Program *program) {
    int64_t m = random_size(program), k = random_size(program), n = random_size(program);
    bool rows = pick(program, 2);
    Value lhs = {.rank = 2, .dims = {m, k}}, rhs = {.rank = rows ? 3 : 2, .dims = {rows ? 3 : k, rows ? k : n, n}};
    Value result = {.rank = rows ? 2 : 3, .dims = {rows ? m : 3, rows ? n : m, n}};
    Value a = *parameter(program, &lhs), b = *parameter(program, &rhs);
    int64_t left = rows ? m : k, first = pick(program, left + 1), second = pick(program, left - first + 1);
    long long id = program->names++;
    hlo_text_format(&program->body, "  sizes%lld = s32[3] constant({%lld, %lld, %lld})\n", id, (long long)first,
                    (long long)second, (long long)(left - first - second));
    begin(program, &result);
    hlo_text_format(&program->body,
                    "ragged-dot(%s, %s, sizes%lld), lhs_contracting_dims={1}, rhs_contracting_dims={%d}, "
                    "lhs_ragged_dims={%d}%s\n",
                    a.name, b.name, id, rows ? 1 : 0, rows ? 0 : 1, rows ? ", rhs_group_dims={0}" : "");
}

static void add_batch_norm(Program *program) {
    Value a = plain(program, value_of_rank(program, 1)), feature = {.rank = 1};
    if (!a.rank || a.type == HLO_S32) return;
    int64_t dim = pick(program, a.rank);
    // The mean of an empty array is NaN, and which of several NaNs an arg-max keeps depends on the order of its steps.
    for (int64_t d = 0; d < a.rank; d++) {
        if (d != dim && a.dims[d] == 0) return;
    }
    feature.dims[0] = a.dims[dim];
    Value scale = *parameter(program, &feature), offset = *parameter(program, &feature);
    long long id = program->names++, size = (long long)feature.dims[0];
    hlo_text_format(&program->body, "  norm%lld = (", id);
    put_dims(&program->body, &a);
    hlo_text_format(&program->body,
                    ", f32[%lld], f32[%lld]) batch-norm-training(%s, %s, %s), epsilon=1, feature_index=%lld\n", size,
                    size, a.name, scale.name, offset.name, (long long)dim);
    // The means, which are rounded once: further roundings would decide sorts differently.
    begin(program, &feature);
    hlo_text_format(&program->body, "get-tuple-element(norm%lld), index=1\n", id);
}

static void add_conditional(Program *program) {
    Value a = random_value(program);
    Value b = *parameter(program, &a), which = *index_value(program);
    HloText shape = {0};
    long long id = program->names++;
    put_dims(&shape, &a);
    const char *s = shape.data;
    hlo_text_format(&program->computations,
                    "yes%lld {\n  p = %s parameter(0)\n  ROOT n = %s %s(p)\n}\n\nno%lld {\n  p = %s parameter(0)\n "
                    " ROOT n = %s %s(p, p)\n}\n\n",
                    id, s, s, a.type == HLO_PRED ? "not" : "negate", id, s, s, sum_of(&a));
    begin(program, &a);
    hlo_text_format(&program->body, "conditional(%s, %s, %s), branch_computations={yes%lld, no%lld}\n", which.name,
                    a.name, b.name, id, id);
    hlo_text_free(&shape);
}

static void add_call(Program *program) {
    Value a = random_value(program);
    HloText shape = {0};
    long long id = program->names++;
    put_dims(&shape, &a);
    hlo_text_format(&program->computations, "twice%lld {\n  p = %s parameter(0)\n  ROOT n = %s %s(p, p)\n}\n\n", id,
                    shape.data, shape.data, sum_of(&a));
    begin(program, &a);
    hlo_text_format(&program->body, "call(%s), to_apply=twice%lld\n", a.name, id);
    hlo_text_free(&shape);
}

static const struct {
    const char *name;
    void (*add)(Program *program);
} families[] = {
    {"elementwise", add_elementwise},
    {"broadcast", add_broadcast},
    {"transpose", add_transpose},
    {"reshape", add_reshape},
    {"slice", add_slice},
    {"pad", add_pad},
    {"reverse", add_reverse},
    {"concatenate", add_concatenate},
    {"rotation", add_rotation},
    {"reduce", add_reduce},
    {"argmax", add_argmax},
    {"dot", add_dot},
    {"sort", add_sort},
    {"dynamic-slice", add_dynamic_slice},
    {"dynamic-update-slice", add_dynamic_update},
    {"gather", add_gather},
    {"scatter", add_scatter},
    {"reduce-window", add_reduce_window},
    {"iota", add_iota},
    {"constraint", add_constraint},
    {"while", add_loop},
    {"conditional", add_conditional},
    {"call", add_call},
    {"convolution", add_convolution},
    {"select-and-scatter", add_select_and_scatter},
    {"topk", add_topk},
    {"batched-gather", add_batched_gather},
    {"two-index-gather", add_two_index_gather},
    {"linear-algebra", add_linear_algebra},
    {"fft", add_fft},
    {"choice", add_choice},
    {"sort-pairs", add_sort_pairs},
    {"sort-first", add_sort_first},
    {"random", add_random},
    {"cumulative", add_cumulative},
    {"scan", add_scan},
    {"ragged-dot", add_ragged_dot},
    {"batch-norm", add_batch_norm},
};

struct criterion_test_params generate_families(void) {
    FamilyName *names = cr_malloc(sizeof(*names) * HLO_COUNT_OF(families));
    for (size_t i = 0; i < HLO_COUNT_OF(families); i++)
        snprintf(names[i].text, sizeof names[i].text, "%s", families[i].name);
    return cr_make_param_array(FamilyName, names, HLO_COUNT_OF(families));
}

int64_t generate_trials(void) {
    return cases_count("MESHLO_SPMD_TRIALS", 2400);
}

int64_t generate_first_seed(void) {
    return cases_setting("MESHLO_RANDOM_SEED", 0);
}

static void add_family(Program *program, const char *family) {
    int64_t number = pick(program, (int64_t)HLO_COUNT_OF(families));
    for (int64_t i = 0; family && i < (int64_t)HLO_COUNT_OF(families); i++) {
        if (!strcmp(families[i].name, family)) number = i;
    }
    families[number].add(program);
}

static void choose_mesh(Program *program) {
    static const int64_t meshes[][3] = {{2, 0, 0}, {4, 0, 0}, {3, 0, 0}, {2, 2, 0},
                                        {4, 2, 0}, {2, 3, 0}, {2, 2, 2}, {2, 4, 0}};
    const int64_t *mesh = meshes[pick(program, (int64_t)HLO_COUNT_OF(meshes))];
    program->devices = 1;
    for (int64_t a = 0; a < 3 && mesh[a]; a++) {
        program->mesh[program->mesh_rank++] = mesh[a];
        program->devices *= mesh[a];
    }
}

char *generate_program(uint64_t seed, const char *family) {
    Program program = {.random = {seed}};
    choose_mesh(&program);
    Value first = random_shape(&program, 1 + pick(&program, 3)), second = random_shape(&program, pick(&program, 4));
    parameter(&program, &first);
    parameter(&program, &second);
    int64_t ops = family ? 1 + pick(&program, 2) : 2 + pick(&program, 6);
    for (int64_t i = 0; i < ops; i++) add_family(&program, family);
    if (pick(&program, 2)) add_constraint(&program);
    HloText text = {0};
    int64_t results = program.count < 3 ? program.count : 3;
    hlo_text_format(&text, "HloModule random, num_partitions=%lld\n\n%s", (long long)program.devices,
                    program.computations.data ? program.computations.data : "");
    hlo_text_format(&text, "ENTRY main {\n%s  ROOT out = (", program.body.data);
    for (int64_t i = 0; i < results; i++) {
        if (i) hlo_text_string(&text, ", ");
        put_dims(&text, &program.pool[program.count - 1 - i]);
    }
    hlo_text_string(&text, ") tuple(");
    for (int64_t i = 0; i < results; i++)
        hlo_text_format(&text, "%s%s", i ? ", " : "", program.pool[program.count - 1 - i].name);
    hlo_text_string(&text, ")\n}\n");
    hlo_text_free(&program.body);
    hlo_text_free(&program.computations);
    return text.data;
}
