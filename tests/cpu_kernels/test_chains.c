// SPDX-License-Identifier: Apache-2.0
// Generated code for fused loops: the same bits as the interpreter gives, for random programs of all operations over
// types, shapes, strides and forms of loops, on numbers at the ends of their types.
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "hlo/ir/literal.h"
#include "targets/cpu/jit/chains.h"
#include "targets/cpu/jit/values.h"
#include "targets/cpu/loop/internal.h"
#include "tests/support/cases.h"
#include "tests/support/levels.h"

enum { kInputs = 8, kResults = 4, kRoom = 9216, kBytes = kRoom * 8, kOffset = 3 };

static const HloType kTypes[] = {HLO_F32, HLO_BF16, HLO_F32, HLO_S32, HLO_U8,  HLO_F32, HLO_PRED, HLO_S8,
                                 HLO_F32, HLO_U32,  HLO_F32, HLO_S16, HLO_F32, HLO_U16, HLO_PRED, HLO_F64};
enum { kTypeCount = sizeof kTypes / sizeof *kTypes };

static uint64_t random_state;

static uint32_t draw(uint32_t below) {
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((random_state >> 33) % below);
}

static uint32_t draw_f32(void) {
    static const uint32_t edges[] = {0,          0x80000000, 0x3f800000, 0xbf800000, 0x7f800000, 0xff800000,
                                     0x7fc00000, 1,          0x80000001, 0x007fffff, 0x00800000, 0x7f7fffff,
                                     0x4f000000, 0xcf000000, 0x3f000000, 0xbf000000, 0x40200000, 0xc0200000,
                                     0x43800000, 0x4b000000, 0x477fff00};
    if (draw(3) == 0) return edges[draw(sizeof edges / sizeof *edges)];
    return draw(2) << 31 | (110 + draw(36)) << 23 | draw(1 << 23);
}

static void fill(HloType type, char *to) {
    static const uint32_t integers[] = {0,    1,    2,      31,     32,         33,         0x7f,
                                        0x80, 0xff, 0x7fff, 0x8000, 0x7fffffff, 0x80000000, 0xffffffff};
    for (int i = 0; i < kRoom; i++) {
        const uint32_t bits = draw(2) ? integers[draw(sizeof integers / sizeof *integers)] : draw(0x7fffffff);
        const uint32_t number = draw_f32();
        float narrow;
        memcpy(&narrow, &number, sizeof narrow);
        const uint16_t upper = (uint16_t)(number >> 16);
        const double wide = narrow;
        switch (type) {
            case HLO_PRED: to[i] = (char)(bits & 1); break;
            case HLO_F32: memcpy(to + i * 4, &number, 4); break;
            case HLO_BF16: memcpy(to + i * 2, &upper, 2); break;
            case HLO_F64: memcpy(to + i * 8, &wide, 8); break;
            default: memcpy(to + i * hlo_type_bytes(type), &bits, (size_t)hlo_type_bytes(type));
        }
    }
}

// The values of a program so far, by type.
typedef struct Program {
    CpuLoopBuilder *builder;
    const CpuLoopKernels *kernels;
    CpuValue values[64];
    HloType types[64];
    int count;
} Program;

static CpuValue pick(const Program *p, HloType type) {
    for (int tries = 0; tries < 64; tries++) {
        // Mostly the newest ones, so that chains are long.
        const int i =
            draw(2) ? p->count - 1 - (int)draw(p->count < 4 ? (uint32_t)p->count : 4) : (int)draw((uint32_t)p->count);
        if (p->types[i] == type) return p->values[i];
    }
    return cpu_loop_convert(p->builder, type, p->values[p->count - 1]);
}

static void add(Program *p, HloType type, CpuValue value) {
    p->values[p->count] = value;
    p->types[p->count++] = type;
}

static void add_constant(Program *p) {
    char bits[8] = {0};
    const HloType type = kTypes[draw(kTypeCount)];
    const uint32_t number = draw_f32(), whole = type == HLO_PRED ? draw(2) : draw(3) ? draw(40) : draw(0x7fffffff);
    const uint16_t upper = (uint16_t)(number >> 16);
    if (type == HLO_BF16)
        memcpy(bits, &upper, 2);
    else
        memcpy(bits, type == HLO_F32 ? &number : &whole, 4);
    add(p, type, cpu_loop_constant(p->builder, type, bits));
}

static void add_conversion(Program *p) {
    static const HloType words[] = {HLO_S32, HLO_U32, HLO_F32};
    const HloType from = kTypes[draw(kTypeCount)], to = kTypes[draw(kTypeCount)];
    if (draw(4) == 0) {
        const HloType a = words[draw(2)], b = words[draw(3)];  // not of floats: the bits of NaN are not compared
        add(p, b, cpu_loop_bitcast(p->builder, b, pick(p, a)));
        return;
    }
    add(p, to, cpu_loop_convert(p->builder, to, pick(p, from)));
}

static void add_operation(Program *p) {
    enum { CHEAP, COSTLY };
    static const struct {
        int arity, cost;
        bool tests;
    } kOps[] = {
#define CPU_LOOP_OP(name, role, arity, result, rounds, slow, ...) {arity, role, false},
#define CPU_LOOP_TEST(name, ...) {2, CHEAP, true},
#include "targets/cpu/isa/loop_ops.def"
#undef CPU_LOOP_OP
#undef CPU_LOOP_TEST
    };
    const HloType type = kTypes[draw(kTypeCount)];
    CpuLoopOp op = (CpuLoopOp)draw(CPU_OP_COUNT);
    const int cheap_tries = 2 + (int)draw(7);  // some programs have functions
    for (int i = 0; i < cheap_tries && (kOps[op].cost == COSTLY || !p->kernels->operation[op][cpu_register_of(type)]);
         i++)
        op = (CpuLoopOp)draw(CPU_OP_COUNT);
    // Orders of NaNs by their bits are left out.
    if (op == CPU_OP_COMPLEX || op >= CPU_OP_EQ_TOTAL || !p->kernels->operation[op][cpu_register_of(type)]) return;
    CpuValue operands[3] = {-1, -1, -1};
    for (int i = 0; i < kOps[op].arity; i++) operands[i] = pick(p, op == CPU_OP_SELECT && i == 0 ? HLO_PRED : type);
    const HloType result = kOps[op].tests || op == CPU_OP_IS_FINITE ? HLO_PRED : type;
    add(p, result, cpu_loop_op(p->builder, op, operands[0], operands[1], operands[2]));
}

// The forms of loops that programs are generated for, by dimensions and reductions.
typedef struct Form {
    const char *name;
    int outer, reduced, inner;
    int64_t dims[2];
} Form;

static const Form kForms[] = {
    {"elements", 1, 0, 0, {0}},              // of any number
    {"matrix", 2, 0, 0, {13, 41}},           // with rows and columns
    {"long matrix", 2, 0, 0, {11, 131}},     // whose rows code reads and writes in the arrays
    {"whole vectors", 2, 0, 0, {40, 64}},    // the same, without parts of vectors
    {"short rows", 1, 1, 0, {70, 9}},        // many to a block
    {"some rows", 1, 1, 0, {13, 200}},       // some to a block
    {"rows", 1, 1, 0, {5, 517}},             // one to a block
    {"rows of vectors", 1, 1, 0, {5, 528}},  // the same, which code can sum
    {"rows in chunks", 1, 1, 0, {2, 1500}},  // in phases
    {"chunks of vectors", 1, 1, 0, {2, 1520}},
    {"long rows", 1, 1, 0, {1, 5003}},  // only reduced
    {"columns", 0, 1, 1, {37, 23}},
    {"few columns", 0, 1, 1, {300, 3}},
};
enum { kFormCount = sizeof kForms / sizeof *kForms };

static HloType result_types[kResults];
static char inputs[kInputs][kBytes], interpreted[kResults][kBytes], generated[kResults][kBytes];

static void add_load(Program *p, const Form *form, const int64_t *dims, int buffer, HloType type) {
    const int rank = form->outer + form->reduced + form->inner;
    int64_t strides[2] = {1, 0};
    if (rank == 2) {
        static const int ways[][2] = {{-1, 1}, {-1, 1}, {-1, 1}, {0, 1}, {1, 0}, {-2, 1}};
        const uint32_t way = draw(6);
        strides[0] = ways[way][0] == -1 ? dims[1] : ways[way][0] == -2 ? dims[1] + 1 : ways[way][0];
        strides[1] = ways[way][1];
    }
    if (draw(8) == 0) strides[0] = strides[1] = 0;
    add(p, type, cpu_loop_load(p->builder, buffer, type, &(CpuIndexMap){draw(kOffset), strides}));
}

// Builds a random program; its results are stored to the buffers after the inputs.
static CpuLoop *build(const Form *form, int64_t elements, int set, HloArena *arena) {
    const int64_t dims[2] = {form->dims[0] ? form->dims[0] : elements, form->dims[1]};
    const CpuLoopDomain domain = {.outer = form->outer, .reduced = form->reduced, .inner = form->inner, .dims = dims};
    Program p = {.builder = cpu_loop_builder_new(arena, &domain, (CpuFeatures)set),
                 .kernels = cpu_isa_loop_kernels((CpuFeatures)set)};
    for (int i = 0; i < kInputs; i++) {
        const HloType type = i < kTypeCount ? kTypes[i % kTypeCount] : HLO_F32;
        add_load(&p, form, dims, i, type);
    }
    const int operations = (form->reduced ? 16 : 6) + (int)draw(20);  // chains of loops that reduce are longer
    for (int i = 0; i < operations; i++) {
        const uint32_t kind = draw(8);
        kind == 0 ? add_constant(&p) : kind == 1 ? add_conversion(&p) : add_operation(&p);
    }
    const bool whole_rows = form->reduced && !form->inner && dims[1] <= 4096;
    CpuValue reduced = -1;
    if (form->reduced) {
        const float zero = 0;
        reduced = cpu_loop_reduce(p.builder, draw(2) ? CPU_REDUCE_ADD : CPU_REDUCE_MAXIMUM, pick(&p, HLO_F32),
                                  cpu_loop_constant(p.builder, HLO_F32, &zero));
        result_types[3] = HLO_F32;
        cpu_loop_store(p.builder, kInputs + 3, reduced,
                       &(CpuIndexMap){0, form->inner ? (int64_t[]){0, 1} : (int64_t[]){1, 0}});
    }
    if (whole_rows) {
        add(&p, HLO_F32, reduced);
        for (int i = 0; i < 5; i++) add_operation(&p);
    }
    for (int i = 0; i < 3 && (!form->reduced || whole_rows); i++) {
        const int which = p.count - 1 - (int)draw(6);
        const int64_t contiguous[2] = {form->dims[1] ? dims[1] : 1, 1}, turned[2] = {1, dims[0]};
        const int64_t apart[2] = {dims[1] + 5, 1};
        const uint32_t way = form->dims[1] && !form->reduced ? draw(4) : 3;
        result_types[i] = p.types[which];
        cpu_loop_store(p.builder, kInputs + i, p.values[which],
                       &(CpuIndexMap){0, way == 0   ? turned
                                         : way == 1 ? apart
                                                    : contiguous});
    }
    CpuLoop *loop = NULL;
    const HloStatus status = cpu_loop_finish(p.builder, &loop);
    cr_assert_null(status, "%s: %s", form->name, hlo_status_message(status));
    return loop;
}

static void run(const CpuLoop *loop, char results[kResults][kBytes]) {
    void *buffers[kInputs + kResults];
    memset(results, 0x55, sizeof(char[kResults][kBytes]));
    for (int i = 0; i < kInputs; i++) buffers[i] = inputs[i];
    for (int i = 0; i < kResults; i++) buffers[kInputs + i] = results[i];
    cr_assert_null(cpu_loop_run(loop, NULL, buffers));
}

// Whether the element is NaN. Which of two NaNs a sum has is the compiler's choice in the interpreter's kernels.
static bool is_nan(HloType type, const char *element) {
    uint64_t bits = 0;
    memcpy(&bits, element, (size_t)hlo_type_bytes(type));
    const double value = hlo_type_is_float(type) ? hlo_float_decode(type, bits) : 0;
    return value != value;
}

// Returns the element in which the two results differ, or -1.
static int first_difference(int result) {
    const HloType type = result_types[result];
    const int width = (int)hlo_type_bytes(type);
    for (int i = 0; i < kBytes / 8; i++) {
        const char *one = interpreted[result] + i * width, *other = generated[result] + i * width;
        if (memcmp(one, other, (size_t)width) != 0 && !(is_nan(type, one) && is_nan(type, other))) return i;
    }
    return -1;
}

// Returns how many kernels became code.
static int64_t check(const Form *form, int64_t elements, int set, uint64_t seed) {
    random_state = seed;
    HloArena *arena = hlo_arena_new(), *scratch = hlo_arena_new();
    CpuLoop *loop = build(form, elements, set, arena);
    run(loop, interpreted);
    CpuChains *chains = cpu_chains_of_loop(arena, scratch, loop);
    const int64_t kernels = cpu_chains_kernels(chains);
    hlo_arena_free(scratch);
    if (chains) run(loop, generated);
    for (int i = 0; i < kResults && chains; i++) {
        const int at = first_difference(i);
        cr_assert_eq(at, -1, "%s of %lld, seed %llu: element %d of result %d, %s", form->name, (long long)elements,
                     (unsigned long long)seed, at, i, hlo_type_text(result_types[i]));
    }
    cpu_chains_free(chains);
    hlo_arena_free(arena);
    return kernels;
}

// Runs the loop both ways and compares all bits. Returns whether there is code for it.
static bool has_equal_bits(CpuLoop *loop, HloArena *memory, const char *what) {
    HloArena *scratch = hlo_arena_new();
    run(loop, interpreted);
    CpuChains *chains = cpu_chains_of_loop(memory, scratch, loop);
    run(loop, generated);
    cr_assert_arr_eq(interpreted, generated, sizeof interpreted, "%s", what);
    cpu_chains_free(chains);
    hlo_arena_free(scratch);
    return chains != NULL;
}

static void check_bits(CpuLoop *loop, HloArena *memory, const char *what) {
    cr_assert(has_equal_bits(loop, memory, what), "%s", what);
}

// A number for each row, which operations of the row read as one element, may have the register that a result gets when
// the number is read for the last time.
static void check_number_of_a_row(CpuFeatures set) {
    const int64_t dims[2] = {4, 1000};
    const CpuLoopDomain domain = {.outer = 1, .reduced = 1, .dims = dims};
    const CpuIndexMap map = {0, (int64_t[]){1000, 1}};
    const float zero = 0, three = 3;
    for (int i = 0; i < 4000; i++) {
        const float number = (float)(i % 37) / 37;
        memcpy(inputs[0] + i * sizeof number, &number, sizeof number);
    }
    HloArena *memory = hlo_arena_new();
    CpuLoopBuilder *b = cpu_loop_builder_new(memory, &domain, set);
    const CpuValue a = cpu_loop_load(b, 0, HLO_F32, &map);
    const CpuValue e = cpu_loop_op(b, CPU_OP_EXP, a, -1, -1);
    const CpuValue s = cpu_loop_reduce(b, CPU_REDUCE_ADD, e, cpu_loop_constant(b, HLO_F32, &zero));
    const CpuValue k = cpu_loop_op(b, CPU_OP_DIVIDE, cpu_loop_constant(b, HLO_F32, &three), s, -1);
    const CpuValue t = cpu_loop_op(b, CPU_OP_MULTIPLY, a, k, -1);
    const CpuValue u = cpu_loop_op(b, CPU_OP_MAXIMUM, t, a, -1);
    const CpuValue y = cpu_loop_op(b, CPU_OP_MINIMUM, u, t, -1);
    const CpuValue v = cpu_loop_op(b, CPU_OP_EXP, t, -1, -1);
    const CpuValue w = cpu_loop_op(b, CPU_OP_MULTIPLY, y, v, -1);
    cpu_loop_store(b, kInputs, cpu_loop_op(b, CPU_OP_SUBTRACT, w, t, -1), &map);
    CpuLoop *loop = NULL;
    cr_assert_null(cpu_loop_finish(b, &loop));
    check_bits(loop, memory, "rows of 1000");
    hlo_arena_free(memory);
}

Test(cpu_chains, read_the_number_of_a_row_before_its_register_is_reused) {
    for (int set = CPU_FEATURES_BASELINE + 1; set <= levels_last(); set++)
        if (levels_include((CpuFeatures)set)) check_number_of_a_row((CpuFeatures)set);
}

// Whether a value of this kind has the flag after its loop got code.
static bool any(const CpuLoop *loop, CpuValueKind kind) {
    bool found = false;
    for (int v = 0; v < loop->value_count; v++) {
        const CpuLoopValue *value = &loop->values[v];
        if (value->kind != kind) continue;
        found |= kind == CPU_VALUE_LOAD ? value->in_rows : kind == CPU_VALUE_STORE ? value->is_written : value->in_sums;
    }
    return found;
}

// Computes (a + b) * a, and stores it over a. Rows of 131 elements end with a part of a vector, whose elements must not
// be computed twice.
static void check_in_place(CpuFeatures set, int64_t apart, float *result) {
    enum { kRows = 11, kRow = 131 };
    const int64_t dims[2] = {kRows, kRow};
    const CpuIndexMap map = {1, (int64_t[]){apart, 1}}, other = {0, (int64_t[]){0, 1}};
    HloArena *memory = hlo_arena_new(), *scratch = hlo_arena_new();
    CpuLoopBuilder *b = cpu_loop_builder_new(memory, &(CpuLoopDomain){.outer = 2, .dims = dims}, set);
    const CpuValue x = cpu_loop_load(b, 0, HLO_F32, &map), y = cpu_loop_load(b, 1, HLO_F32, &other);
    const CpuValue sum = cpu_loop_op(b, CPU_OP_MAXIMUM, cpu_loop_op(b, CPU_OP_ADD, x, y, -1), y, -1);
    cpu_loop_store(b, 2, cpu_loop_op(b, CPU_OP_MULTIPLY, sum, x, -1), &map);
    CpuLoop *loop = NULL;
    cr_assert_null(cpu_loop_finish(b, &loop));
    CpuChains *chains = cpu_chains_of_loop(memory, scratch, loop);
    cr_assert_not_null(chains);
    cr_assert(any(loop, CPU_VALUE_LOAD));
    cr_assert_eq(any(loop, CPU_VALUE_STORE), apart != kRow);
    float row[kRow];
    for (int i = 0; i < kRow; i++) row[i] = (float)i - 50;
    for (int i = 0; i < kRoom; i++) result[i] = (float)(i % 89) - 40;
    cr_assert_null(cpu_loop_run(loop, NULL, (void *[]){result, row, result}));
    for (int i = 0; i < kRoom; i++) {
        const float old = (float)(i % 89) - 40;
        const int64_t at = i - 1, column = at % apart;
        const bool inside = at >= 0 && at / apart < kRows && column < kRow;
        const float added = inside && old > 0 ? old + row[column] : inside ? row[column] : 0;
        cr_assert_eq(result[i], inside ? added * old : old, "%lld apart, element %d", (long long)apart, i);
    }
    cpu_chains_free(chains);
    hlo_arena_free(scratch);
    hlo_arena_free(memory);
}

Test(cpu_chains, write_rows_over_those_they_read) {
    static float result[kRoom];
    for (int set = CPU_FEATURES_BASELINE + 1; set <= levels_last(); set++)
        for (int64_t apart = 131; apart < 140 && levels_include((CpuFeatures)set); apart += 5)
            check_in_place((CpuFeatures)set, apart, result);
}

// Whether code takes several rows of this length in one call.
static bool takes_rows(CpuFeatures set, int64_t length) {
#if defined(__x86_64__)
    return set >= CPU_FEATURES_AVX512 ? length >= 16 : length >= 8 && length % 8 == 0;
#else
    (void)set;
    return length < 0;
#endif
}

// Compares and selects by the numbers of rows and columns, with a number for each row and one row for all; `narrow` has
// results of one and two bytes too.
static void check_numbered_rows(CpuFeatures set, int64_t length, bool narrow) {
    const bool in_rows = length >= (takes_rows(set, length) ? CPU_CHAIN_LEAST_ROW : CPU_CHAIN_LEAST_ROW_ALONE);
    const int64_t dims[2] = {(kRoom - 100) / length, length};
    const CpuIndexMap map = {2, (int64_t[]){length, 1}}, rows = {5, (int64_t[]){3, 0}},
                      columns = {-7, (int64_t[]){0, 2}};
    const CpuIndexMap each = {1, (int64_t[]){2, 0}}, along = {3, (int64_t[]){0, 1}};
    HloArena *memory = hlo_arena_new();
    random_state = (uint64_t)length;
    for (int i = 0; i < 3; i++) fill(HLO_F32, inputs[i]);
    CpuLoopBuilder *b = cpu_loop_builder_new(memory, &(CpuLoopDomain){.outer = 2, .dims = dims}, set);
    const CpuValue row = cpu_loop_index(b, HLO_S32, &rows), column = cpu_loop_index(b, HLO_S32, &columns);
    const CpuValue x = cpu_loop_load(b, 0, HLO_F32, &map), y = cpu_loop_load(b, 1, HLO_F32, &each);
    const CpuValue below = cpu_loop_op(b, CPU_OP_LT, row, column, -1);
    const CpuValue z = cpu_loop_op(b, CPU_OP_SELECT, below, x, cpu_loop_load(b, 2, HLO_F32, &along));
    const CpuValue sum = cpu_loop_op(b, CPU_OP_ADD, z, y, -1);
    cpu_loop_store(b, kInputs, cpu_loop_op(b, CPU_OP_MULTIPLY, sum, cpu_loop_convert(b, HLO_F32, row), -1), &map);
    cpu_loop_store(b, kInputs + 1, cpu_loop_op(b, CPU_OP_MAXIMUM, sum, y, -1), &map);
    if (narrow) cpu_loop_store(b, kInputs + 2, below, &map);
    if (narrow) cpu_loop_store(b, kInputs + 3, cpu_loop_convert(b, HLO_BF16, sum), &map);
    CpuLoop *loop = NULL;
    cr_assert_null(cpu_loop_finish(b, &loop));
    check_bits(loop, memory, "rows with numbers");
    for (int v = 0; v < loop->value_count && !narrow; v++) {
        const CpuLoopValue *value = &loop->values[v];
        const bool whole = value->kind == CPU_VALUE_LOAD && value->walk.contiguous;
        if ((value->kind == CPU_VALUE_LOAD && !whole) || value->kind == CPU_VALUE_INDEX)
            cr_expect_eq(value->in_rows, in_rows, "rows of %lld, value %d", (long long)length, v);
    }
    if (!narrow) cr_expect_eq(loop->steps->block > 0, in_rows, "rows of %lld", (long long)length);
    hlo_arena_free(memory);
}

Test(cpu_chains, read_numbers_of_rows_where_they_are) {
    static const int64_t kLengths[] = {15, 16, 17, 24, 63, 64, 67, 130, 1000, 3001};
    for (int set = CPU_FEATURES_BASELINE + 1; set <= levels_last(); set++)
        for (size_t i = 0; i < 2 * (sizeof kLengths / sizeof *kLengths) && levels_include((CpuFeatures)set); i++)
            check_numbered_rows((CpuFeatures)set, kLengths[i / 2], i % 2 != 0);
}

// Sets strides of an array of these sizes: some dimensions are broadcast, and rows may be further apart than they are
// long.
static void draw_strides(int rank, const int64_t *dims, bool broadcasts, int64_t *strides) {
    int64_t next = 1;
    for (int d = rank; d-- > 0;) {
        strides[d] = broadcasts && draw(3) == 0 ? 0 : next;
        if (strides[d]) next = next * dims[d] + (draw(3) == 0 ? draw(3) : 0);
    }
}

static int64_t product(int rank, const int64_t *dims) {
    int64_t all = 1;
    for (int d = 0; d < rank; d++) all *= dims[d];
    return all;
}

// Arrays of three and four dimensions whose rows have several distances, with several results.
static bool check_planes(CpuFeatures set, uint64_t seed) {
    static const int64_t kRows[] = {8, 16, 17, 24, 32, 40, 64, 67, 128};
    enum { kLoads = 5, kMost = 4 };
    int64_t dims[kMost], strides[kMost];
    random_state = seed;
    const int rank = 3 + (int)draw(2);
    dims[rank - 1] = kRows[draw(sizeof kRows / sizeof *kRows)];
    dims[rank - 2] = 3 + draw(20);
    dims[0] = 2 + draw(2);
    if (rank == 4) dims[1] = 2 + draw(3);
    while (product(rank, dims) > kRoom * 3 / 4) dims[rank - 2] /= 2;
    for (int i = 0; i < kLoads * kRoom; i++) {  // numbers: the payload of a NaN of two may differ
        const float number = ((float)draw(2001) - 1000) / -64;
        memcpy(inputs[i / kRoom] + i % kRoom * sizeof number, &number, sizeof number);
    }
    HloArena *memory = hlo_arena_new();
    CpuLoopBuilder *b = cpu_loop_builder_new(memory, &(CpuLoopDomain){.outer = rank, .dims = dims}, set);
    CpuValue value = -1;
    for (int i = 0; i < kLoads; i++) {
        draw_strides(rank, dims, true, strides);
        const CpuValue x = cpu_loop_load(b, i, HLO_F32, &(CpuIndexMap){draw(5), strides});
        static const CpuLoopOp kOps[] = {CPU_OP_ADD, CPU_OP_MULTIPLY, CPU_OP_MAXIMUM, CPU_OP_SUBTRACT};
        value = i == 0 ? x : cpu_loop_op(b, kOps[draw(4)], value, x, -1);
        if (i == 0 || (i < kLoads - 1 && draw(3))) continue;
        draw_strides(rank, dims, false, strides);
        cpu_loop_store(b, kInputs + (i < kLoads - 1 ? 0 : 1), value, &(CpuIndexMap){draw(5), strides});
        if (i < kLoads - 1) value = cpu_loop_op(b, CPU_OP_NEGATE, x, -1, -1), i = kLoads - 2;
    }
    CpuLoop *loop = NULL;
    cr_assert_null(cpu_loop_finish(b, &loop));
    char what[64];
    snprintf(what, sizeof what, "planes, seed %llu", (unsigned long long)seed);
    const bool has_code = has_equal_bits(loop, memory, what);
    hlo_arena_free(memory);
    return has_code;
}

Test(cpu_chains, read_and_write_rows_with_several_distances) {
    enum { kPrograms = 300 };
    for (int set = CPU_FEATURES_BASELINE + 1; set <= levels_last(); set++) {
        int made = 0;
        for (uint64_t seed = 0; seed < kPrograms && levels_include((CpuFeatures)set); seed++)
            made += check_planes((CpuFeatures)set, seed);
        cr_expect(made > kPrograms / 2 || !levels_include((CpuFeatures)set), "%d have code", made);
    }
}

// Sums the squares of rows' differences from a number of each row, which code adds up on the way.
static void check_sums(CpuFeatures set, CpuReduceOp op, int64_t rows, int64_t length) {
    const int64_t dims[2] = {rows, length};
    const CpuIndexMap map = {0, (int64_t[]){length, 1}}, each = {0, (int64_t[]){1, 0}};
    const float zero = 0;
    HloArena *memory = hlo_arena_new();
    CpuLoopBuilder *b = cpu_loop_builder_new(memory, &(CpuLoopDomain){.outer = 1, .reduced = 1, .dims = dims}, set);
    const CpuValue init = cpu_loop_constant(b, HLO_F32, &zero);
    const CpuValue x = cpu_loop_load(b, 0, HLO_F32, &map);
    const CpuValue d = cpu_loop_op(b, CPU_OP_SUBTRACT, x, cpu_loop_reduce(b, CPU_REDUCE_MAXIMUM, x, init), -1);
    const CpuValue sum = cpu_loop_reduce(b, op, cpu_loop_op(b, CPU_OP_MULTIPLY, d, d, -1), init);
    const CpuValue most = cpu_loop_op(b, CPU_OP_MAXIMUM, cpu_loop_op(b, CPU_OP_MULTIPLY, d, sum, -1), x, -1);
    cpu_loop_store(b, kInputs, cpu_loop_op(b, CPU_OP_MINIMUM, most, d, -1), &map);
    cpu_loop_store(b, kInputs + 1, sum, &each);
    CpuLoop *loop = NULL;
    cr_assert_null(cpu_loop_finish(b, &loop));
    check_bits(loop, memory, "sums");
    bool has_sums = length >= 128;
#if defined(__aarch64__)
    has_sums = false;
#endif
    cr_assert_eq(any(loop, CPU_VALUE_REDUCE), has_sums, "rows of %lld", (long long)length);
    for (int v = 0; v < loop->value_count; v++)
        if (loop->values[v].kind == CPU_VALUE_EXPAND)
            cr_expect_eq(loop->values[v].in_rows, length >= 128, "rows of %lld", (long long)length);
    hlo_arena_free(memory);
}

Test(cpu_chains, sum_rows_in_the_order_of_the_interpreter) {
    for (int i = 0; i < kRoom; i++) {
        const float number = (float)(i % 37) / 37;
        memcpy(inputs[0] + i * sizeof number, &number, sizeof number);
    }
    for (int set = CPU_FEATURES_BASELINE + 1; set <= levels_last(); set++)
        for (int64_t length = 528; length < 3000 && levels_include((CpuFeatures)set); length += 496)
            check_sums((CpuFeatures)set, CPU_REDUCE_ADD, 3, length);
}

// Blocks of these rows are several rows, and their last vectors are parts of one.
Test(cpu_chains, reduce_several_rows_of_a_block) {
    static const int64_t kLengths[] = {100, 128, 129, 143, 176, 200, 255, 341, 512, 513, 1029};
    static const CpuReduceOp kOps[] = {CPU_REDUCE_ADD, CPU_REDUCE_MAXIMUM, CPU_REDUCE_MINIMUM};
    for (int i = 0; i < kRoom; i++) {
        const float number = i % 311 == 7 ? NAN : i % 5 == 0 ? -0.0f : (float)(i % 41) / 41 - (i % 3 == 0);
        memcpy(inputs[0] + i * sizeof number, &number, sizeof number);
    }
    for (int set = CPU_FEATURES_BASELINE + 1; set <= levels_last(); set++)
        for (size_t i = 0; i < HLO_COUNT_OF(kLengths) && levels_include((CpuFeatures)set); i++)
            for (size_t k = 0; k < HLO_COUNT_OF(kOps); k++) check_sums((CpuFeatures)set, kOps[k], 9, kLengths[i]);
}

// Fills an input with numbers, or with numbers and NaNs, whose bits identify them.
static void fill_with(char *to, bool nans) {
    static const uint32_t kNans[] = {0x7fc00001, 0xffc12345, 0x7f800001, 0xff812345};
    for (int i = 0; i < kRoom; i++) {
        uint32_t bits = draw_f32();
        if ((bits & 0x7fffffff) > 0x7f800000) bits = 0x40000000;
        if (nans && draw(2)) bits = kNans[draw(4)];
        memcpy(to + i * 4, &bits, 4);
    }
}

// Checks the operation where operand number `nan` may be NaN; the others are numbers or, if `with` is not NULL, this
// constant.
static void check_nan(CpuFeatures set, CpuLoopOp op, int nan, const float *with, const char *what) {
    const int64_t elements = 93;
    const CpuIndexMap map = {1, (int64_t[]){1}};
    const int32_t mask = 0x01234567;
    HloArena *memory = hlo_arena_new();
    CpuLoopBuilder *b = cpu_loop_builder_new(memory, &(CpuLoopDomain){.outer = 1, .dims = &elements}, set);
    CpuValue x[3];
    random_state = 7;
    for (int i = 0; i < 3; i++) {
        fill_with(inputs[i], i == nan);
        x[i] = with && i != nan ? cpu_loop_constant(b, HLO_F32, with) : cpu_loop_load(b, i, HLO_F32, &map);
    }
    const CpuValue result = cpu_loop_bitcast(b, HLO_S32, cpu_loop_op(b, op, x[0], x[1], x[2]));
    cpu_loop_store(b, kInputs, cpu_loop_op(b, CPU_OP_XOR, result, cpu_loop_constant(b, HLO_S32, &mask), -1), &map);
    CpuLoop *loop = NULL;
    cr_assert_null(cpu_loop_finish(b, &loop));
    check_bits(loop, memory, what);
    hlo_arena_free(memory);
}

// If one operand is NaN, the result has the bits that the interpreter gives it. What follows the operation makes two
// kernels of it, and lets its bits pass.
Test(cpu_chains, keep_the_bits_of_a_nan) {
    static const struct {
        CpuLoopOp op;
        int arity;
    } kOps[] = {{CPU_OP_ABS, 1},
                {CPU_OP_NEGATE, 1},
                {CPU_OP_SIGN, 1},
                {CPU_OP_CEIL, 1},
                {CPU_OP_FLOOR, 1},
                {CPU_OP_SQRT, 1},
                {CPU_OP_ADD, 2},
                {CPU_OP_SUBTRACT, 2},
                {CPU_OP_MULTIPLY, 2},
                {CPU_OP_DIVIDE, 2},
                {CPU_OP_MAXIMUM, 2},
                {CPU_OP_MINIMUM, 2},
                {CPU_OP_CLAMP, 3},
                {CPU_OP_ROUND_NEAREST_AFZ, 1},
                {CPU_OP_ROUND_NEAREST_EVEN, 1}};
    static const float constants[] = {0.0f, -0.0f, 1.5f};
    for (int set = CPU_FEATURES_BASELINE + 1; set <= levels_last(); set++)
        for (size_t o = 0; o < sizeof kOps / sizeof *kOps && levels_include((CpuFeatures)set); o++)
            for (int nan = 0; nan < kOps[o].arity; nan++)
                for (int with = -1; with < (kOps[o].arity == 2 ? 3 : 0); with++) {
                    char what[96];
                    snprintf(what, sizeof what, "%s, operation %d, operand %d, constant %d",
                             cpu_features_name((CpuFeatures)set), (int)kOps[o].op, nan, with);
                    check_nan((CpuFeatures)set, kOps[o].op, nan, with < 0 ? NULL : &constants[with], what);
                }
}

// Checks an operation of words, or a rotation if `turn` is above 0; what follows makes two kernels of it.
static void check_words(CpuFeatures set, HloType type, CpuLoopOp op, int32_t turn, const char *what) {
    const int64_t elements = 93;
    const int32_t back = 32 - turn, mask = 0x01234567;
    const CpuIndexMap map = {1, (int64_t[]){1}};
    HloArena *memory = hlo_arena_new();
    CpuLoopBuilder *b = cpu_loop_builder_new(memory, &(CpuLoopDomain){.outer = 1, .dims = &elements}, set);
    random_state = 7;
    for (int i = 0; i < 2; i++) fill(type, inputs[i]);
    const CpuValue x = cpu_loop_load(b, 0, type, &map), y = cpu_loop_load(b, 1, type, &map);
    CpuValue result = turn ? -1 : cpu_loop_op(b, op, x, y, -1);
    if (turn)
        result = cpu_loop_op(b, CPU_OP_OR, cpu_loop_op(b, CPU_OP_SHIFT_LEFT, x, cpu_loop_constant(b, type, &turn), -1),
                             cpu_loop_op(b, CPU_OP_SHIFT_RIGHT_LOGICAL, x, cpu_loop_constant(b, type, &back), -1), -1);
    cpu_loop_store(b, kInputs, cpu_loop_op(b, CPU_OP_ADD, result, cpu_loop_constant(b, type, &mask), -1), &map);
    CpuLoop *loop = NULL;
    cr_assert_null(cpu_loop_finish(b, &loop));
    check_bits(loop, memory, what);
    hlo_arena_free(memory);
}

Test(cpu_chains, compute_words_with_the_bits_of_the_interpreter) {
    static const CpuLoopOp kOps[] = {CPU_OP_ADD,
                                     CPU_OP_SUBTRACT,
                                     CPU_OP_MULTIPLY,
                                     CPU_OP_MAXIMUM,
                                     CPU_OP_MINIMUM,
                                     CPU_OP_AND,
                                     CPU_OP_XOR,
                                     CPU_OP_SHIFT_LEFT,
                                     CPU_OP_SHIFT_RIGHT_LOGICAL,
                                     CPU_OP_OR,
                                     CPU_OP_SHIFT_RIGHT_ARITHMETIC};
    static const HloType types[] = {HLO_S32, HLO_U32};
    char what[64];
    for (int set = CPU_FEATURES_BASELINE + 1; set <= levels_last(); set++) {
        if (!levels_include((CpuFeatures)set)) continue;
        for (int t = 0; t < 2; t++)
            for (size_t o = 0; o < sizeof kOps / sizeof *kOps; o++) {
                snprintf(what, sizeof what, "%s, operation %d", cpu_features_name((CpuFeatures)set), (int)kOps[o]);
                check_words((CpuFeatures)set, types[t], kOps[o], 0, what);
            }
        for (int turn = 1; turn < 32; turn += 6) check_words((CpuFeatures)set, HLO_U32, CPU_OP_OR, turn, "rotation");
    }
}

// Checks a function at numbers all over the range of f32, and at those close to 1, in a loop of its own.
static void check_function(CpuFeatures set, CpuLoopOp op, const char *what) {
    enum { kRuns = 48, kNear = 16 };
    const int64_t elements = kRoom - kOffset;
    const CpuIndexMap map = {1, (int64_t[]){1}};
    const int32_t mask = 0x01234567;
    HloArena *memory = hlo_arena_new();
    for (int run = 0; run < kRuns; run++) {
        CpuLoopBuilder *b = cpu_loop_builder_new(memory, &(CpuLoopDomain){.outer = 1, .dims = &elements}, set);
        for (int i = 0; i < kRoom; i++) {
            const uint32_t at = (uint32_t)(run * kRoom + i), near = at % 2 << 31 | (0x3b800000 + at * 641 % 0x08000000);
            const uint32_t bits = run < kNear ? near : at * 14591u;
            memcpy(inputs[0] + i * 4, &bits, 4);
        }
        const CpuValue result = cpu_loop_op(b, op, cpu_loop_load(b, 0, HLO_F32, &map), -1, -1);
        const CpuValue bits = cpu_loop_bitcast(b, HLO_S32, result);
        cpu_loop_store(b, kInputs, cpu_loop_op(b, CPU_OP_XOR, bits, cpu_loop_constant(b, HLO_S32, &mask), -1), &map);
        CpuLoop *loop = NULL;
        cr_assert_null(cpu_loop_finish(b, &loop));
        check_bits(loop, memory, what);
    }
    hlo_arena_free(memory);
}

Test(cpu_chains, compute_functions_with_the_bits_of_the_interpreter) {
    for (int set = CPU_FEATURES_BASELINE + 1; set <= levels_last(); set++)
        for (int op = 0; op < CPU_OP_COUNT && levels_include((CpuFeatures)set); op++) {
            char what[64];
            snprintf(what, sizeof what, "%s, operation %d", cpu_features_name((CpuFeatures)set), op);
            const CpuLoop loop = {.kernels = cpu_isa_loop_kernels((CpuFeatures)set)};
            if (cpu_jit_is_function((CpuLoopOp)op, cpu_jit_lanes(&loop)))
                check_function((CpuFeatures)set, (CpuLoopOp)op, what);
        }
}

// A chain of dependent operations takes several vectors at once, as long as there are so many.
Test(cpu_chains, take_several_vectors_with_the_bits_of_the_interpreter) {
    const CpuIndexMap map = {1, (int64_t[]){1}};
    HloArena *memory = hlo_arena_new();
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < kRoom; k++) memcpy(inputs[i] + k * 4, &(float){(float)((k * 37 + i) % 201 - 100) / 64}, 4);
    for (int set = CPU_FEATURES_BASELINE + 1; set <= levels_last(); set++)
        for (int64_t elements = 72; elements < 160 && levels_include((CpuFeatures)set);
             elements += elements % 8 ? 1 : 5) {
            CpuLoopBuilder *b =
                cpu_loop_builder_new(memory, &(CpuLoopDomain){.outer = 1, .dims = &elements}, (CpuFeatures)set);
            const CpuValue x = cpu_loop_load(b, 0, HLO_F32, &map), y = cpu_loop_load(b, 1, HLO_F32, &map);
            CpuValue p = y;
            for (int i = 0; i < 5; i++) {
                const float term = 0.25f * (float)i - 0.6f;
                p = cpu_loop_op(b, CPU_OP_MULTIPLY, p, x, -1);
                p = cpu_loop_op(b, CPU_OP_ADD, p, cpu_loop_constant(b, HLO_F32, &term), -1);
            }
            cpu_loop_store(b, kInputs, cpu_loop_op(b, CPU_OP_LT, p, y, -1), &map);
            cpu_loop_store(b, kInputs + 1, p, &map);
            CpuLoop *loop = NULL;
            cr_assert_null(cpu_loop_finish(b, &loop));
            check_bits(loop, memory, cpu_features_name((CpuFeatures)set));
        }
    hlo_arena_free(memory);
}

// Writes rows of `length` elements, which are 200 apart, by a chain of dependent operations.
static void check_rows_of_dependent_operations(CpuFeatures set, int64_t length, HloArena *memory) {
    const int64_t dims[2] = {5, length};
    const CpuIndexMap map = {1, (int64_t[]){200, 1}};
    CpuLoopBuilder *b = cpu_loop_builder_new(memory, &(CpuLoopDomain){.outer = 2, .dims = dims}, set);
    const CpuValue x = cpu_loop_load(b, 0, HLO_F32, &map), y = cpu_loop_load(b, 1, HLO_F32, &map);
    CpuValue p = y;
    for (int i = 0; i < 12; i++) p = cpu_loop_op(b, i % 2 ? CPU_OP_ADD : CPU_OP_DIVIDE, p, x, -1);
    cpu_loop_store(b, kInputs, p, &map);
    CpuLoop *loop = NULL;
    cr_assert_null(cpu_loop_finish(b, &loop));
    check_bits(loop, memory, cpu_features_name(set));
}

// The rest of a row may be shorter than the vectors that are computed at once, or than one of them.
Test(cpu_chains, write_nothing_after_a_row_of_several_vectors_and_a_rest) {
    HloArena *memory = hlo_arena_new();
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < kRoom; k++) memcpy(inputs[i] + k * 4, &(float){(float)((k * 37 + i) % 201 + 1) / 64}, 4);
    for (int set = CPU_FEATURES_BASELINE + 1; set <= levels_last(); set++)
        for (int64_t length = 64; length < 140 && levels_include((CpuFeatures)set); length++)
            check_rows_of_dependent_operations((CpuFeatures)set, length, memory);
    hlo_arena_free(memory);
}

// More numbers are needed at once than registers and places in the frame exist.
Test(cpu_chains, split_where_values_do_not_fit_into_the_frame) {
    enum { kProducts = 90 };
    const int64_t elements = 200;
    const CpuIndexMap map = {1, (int64_t[]){1}};
    HloArena *memory = hlo_arena_new();
    for (int k = 0; k < kRoom; k++) memcpy(inputs[0] + k * 4, &(float){(float)(k % 201 - 100) / 64}, 4);
    for (int set = CPU_FEATURES_BASELINE + 1; set <= levels_last(); set++) {
        if (!levels_include((CpuFeatures)set)) continue;
        CpuLoopBuilder *b =
            cpu_loop_builder_new(memory, &(CpuLoopDomain){.outer = 1, .dims = &elements}, (CpuFeatures)set);
        const CpuValue x = cpu_loop_load(b, 0, HLO_F32, &map);
        CpuValue products[kProducts], sum = x;
        for (int i = 0; i < kProducts; i++) {
            const float factor = 0.25f * (float)i - 0.6f;
            products[i] = cpu_loop_op(b, CPU_OP_DIVIDE, cpu_loop_constant(b, HLO_F32, &factor), x, -1);
        }
        for (int i = 0; i < kProducts; i++) sum = cpu_loop_op(b, CPU_OP_SUBTRACT, products[i], sum, -1);
        for (int i = kProducts; i-- > 0;) sum = cpu_loop_op(b, CPU_OP_MAXIMUM, products[i], sum, -1);
        cpu_loop_store(b, kInputs, sum, &map);
        CpuLoop *loop = NULL;
        cr_assert_null(cpu_loop_finish(b, &loop));
        check_bits(loop, memory, cpu_features_name((CpuFeatures)set));
    }
    hlo_arena_free(memory);
}

CaseList(cpu_chains, have_the_bits_of_the_interpreter) {
    return cases_numbered(kFormCount);
}

CaseTest(const int *number, cpu_chains, have_the_bits_of_the_interpreter) {
    const Form *form = &kForms[*number];
    const int programs = 40;
    random_state = 1;
    for (int i = 0; i < kInputs; i++) fill(kTypes[i % kTypeCount], inputs[i]);
    for (int set = levels_first(); set <= levels_last(); set++) {
        int64_t kernels = 0;
        for (int i = 0; i < programs; i++) kernels += check(form, 64 + i * 7 % 2000, set, (uint64_t)i * 977 + 5);
        if (set > CPU_FEATURES_BASELINE)
            cr_assert_gt(kernels, programs / 8, "code of %lld kernels in %d programs", (long long)kernels, programs);
        else
            cr_assert_eq(kernels, 0);
    }
}
