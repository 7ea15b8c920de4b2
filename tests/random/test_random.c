// SPDX-License-Identifier: Apache-2.0
// Random numbers as graphs: the values of jax.random, and the same ones on any mesh without communication.
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "hlo/eval/eval.h"
#include "hlo/hlo.h"
#include "spmd_partitioner/spmd.h"
#include "tests/support/cases.h"

typedef enum Function { SPLIT, FOLD_IN, BITS, UNIFORM, NORMAL, EXPONENTIAL, BERNOULLI, INTEGERS, SHUFFLE } Function;

typedef struct Golden {
    const char *name;
    Function function;
    HloRandomForm form;
    int64_t seed;
    HloType type;
    int64_t rank;
    double a, b;
    const char *bytes;  // of the result, in hexadecimal
    int64_t dims[3];
} Golden;

#define GOLDEN(function, form, seed, type, rank, a, b, bytes, ...) \
    {#function, function, HLO_RANDOM_##form, seed, HLO_##type, rank, (double)(a), (double)(b), bytes, {__VA_ARGS__}},

static const Golden kGolden[] = {
#include "golden.def"
};

// 0, 1, 2, … in row-major order.
static HloInstruction *counted(HloBuilder *b, HloType type, HloInts dims) {
    int64_t elements = 1;
    for (int64_t i = 0; i < dims.count; i++) elements *= dims.items[i];
    return hlo_build_reshape(b, hlo_build_iota(b, type, HLO_DIMS(elements), 0), dims);
}

static HloInstruction *build(HloBuilder *b, const Golden *golden) {
    HloInstruction *key = hlo_random_key(b, (uint64_t)golden->seed);
    HloInts dims = {golden->dims, golden->rank};
    HloRandomForm form = golden->form;
    int64_t low = (int64_t)golden->a, high = (int64_t)golden->b;
    switch (golden->function) {
        case SPLIT: return hlo_random_split(b, form, key, low);
        case FOLD_IN: return hlo_random_fold_in(b, key, hlo_build_scalar(b, HLO_U32, golden->a));
        case BITS: return hlo_random_bits(b, form, key, golden->type, dims);
        case UNIFORM: return hlo_random_uniform(b, form, key, golden->type, dims, golden->a, golden->b);
        case NORMAL: return hlo_random_normal(b, form, key, golden->type, dims);
        case EXPONENTIAL: return hlo_random_exponential(b, form, key, golden->type, dims);
        case BERNOULLI: return hlo_random_bernoulli(b, form, key, dims, golden->a);
        case INTEGERS: return hlo_random_integers(b, form, key, golden->type, dims, low, high);
        case SHUFFLE: return hlo_random_shuffle(b, form, key, counted(b, golden->type, dims), low);
    }
    return NULL;
}

// A module with one function of golden->seed; the test fails when it cannot be built.
static HloModule *build_module(const Golden *golden) {
    HloModule *module = hlo_module_new(golden->name);
    HloBuilder *b = hlo_builder_new(module, "main");
    HloStatus status = hlo_builder_finish_entry(b, build(b, golden));
    cr_assert_null(status, "%s: %s", golden->name, hlo_status_message(status));
    status = hlo_verify(module);
    cr_assert_null(status, "%s: %s", golden->name, hlo_status_message(status));
    return module;
}

// How far apart values may be: XLA's logarithms and polynomials are not rounded correctly, and where it scales uniform
// numbers it may round once for a product and a sum.
static double tolerance(const Golden *golden) {
    bool scaled = golden->function == UNIFORM && golden->a != 0;
    if (golden->function != NORMAL && golden->function != EXPONENTIAL && !scaled) return 0;
    switch (golden->type) {
        case HLO_F64: return 1e-14;
        case HLO_F32: return 1e-6;
        case HLO_F16: return 2e-3;
        default: return 2e-2;
    }
}

static void expect_bytes(const HloLiteral *result, const Golden *golden) {
    int64_t bytes = hlo_shape_bytes(result->shape), count = hlo_shape_elements(result->shape);
    cr_assert_eq((int64_t)strlen(golden->bytes), 2 * bytes, "%s", golden->name);
    HloLiteral *want = hlo_literal_new(result->shape);
    for (int64_t i = 0; i < bytes; i++) {
        char pair[3] = {golden->bytes[2 * i], golden->bytes[2 * i + 1], 0};
        ((unsigned char *)want->data)[i] = (unsigned char)strtoul(pair, NULL, 16);
    }
    double allowed = tolerance(golden), scale = golden->function == UNIFORM ? 1 : 1e-3;
    for (int64_t i = 0; i < count && allowed > 0; i++) {
        double x = hlo_literal_get_double(want, i), y = hlo_literal_get_double(result, i);
        cr_expect(fabs(x - y) <= allowed * fmax(fabs(x), scale),
                  "%s %s form %d seed %lld, element %lld: %.17g, not %.17g", golden->name, hlo_type_text(golden->type),
                  golden->form, (long long)golden->seed, (long long)i, y, x);
    }
    if (allowed == 0)
        cr_expect(!memcmp(want->data, result->data, (size_t)bytes), "%s %s form %d seed %lld a %g b %g", golden->name,
                  hlo_type_text(golden->type), golden->form, (long long)golden->seed, golden->a, golden->b);
    hlo_literal_free(want);
}

enum { kGoldenCount = sizeof kGolden / sizeof kGolden[0] };

CaseList(random, equals_jax) {
    return cases_numbered(kGoldenCount);
}

CaseTest(const int *row, random, equals_jax) {
    const Golden *golden = &kGolden[*row];
    HloModule *module = build_module(golden);
    HloLiteral *result = NULL;
    HloStatus status = hlo_evaluate(module, NULL, 0, NULL, &result);
    cr_assert_null(status, "%s", hlo_status_message(status));
    expect_bytes(result, golden);
    hlo_literal_free(result);
    hlo_module_free(module);
}

// ---- without communication on any mesh

typedef struct Sharded {
    HloRandomForm form;
    Function function;
    HloType type;
    int64_t dims[2];
    const char *shard;
} Sharded;

static const SpmdMeshAxis kMesh[] = {{"x", 4}, {"y", 2}};

CaseList(random, needs_no_communication) {
    static Sharded cases[96];
    static const char shards[][8] = {"r0=x,y", "r0=-,x", "r0=y,-"};
    static const int64_t sizes[][2] = {{8, 6}, {5, 7}};  // even and uneven shards
    size_t count = 0;
    for (int form = 0; form < 2; form++)
        for (int function = BITS; function <= NORMAL; function++)
            for (int shard = 0; shard < 3; shard++)
                for (int size = 0; size < 2; size++) {
                    Sharded *c = &cases[count++];
                    *c = (Sharded){
                        form, function, function == BITS ? HLO_U32 : HLO_F32, {sizes[size][0], sizes[size][1]}, NULL};
                    c->shard = cr_malloc(sizeof shards[0]);
                    memcpy((char *)(uintptr_t)c->shard, shards[shard], sizeof shards[0]);
                }
    Sharded *copy = cr_malloc(count * sizeof *copy);
    memcpy(copy, cases, count * sizeof *copy);
    return cr_make_param_array(Sharded, copy, count, NULL);
}

CaseTest(const Sharded *c, random, needs_no_communication) {
    Golden golden = {"sharded", c->function, c->form, 42, c->type, 2, 0, 1, "", {c->dims[0], c->dims[1]}};
    HloModule *module = build_module(&golden), *partitioned = NULL;
    SpmdOptions options = {.mesh = kMesh, .mesh_axis_count = 2, .shards = &c->shard, .shard_count = 1};
    SpmdReport *report = NULL;
    HloStatus status = spmd_partition(module, &options, &partitioned, &report);
    cr_assert_null(status, "%s", hlo_status_message(status));
    cr_expect_eq(report->collective_count, 0, "form %d, %s: %lld collectives", c->form, c->shard,
                 (long long)report->collective_count);
    SpmdBoundary *boundary = NULL;
    status = spmd_boundary_new(partitioned, &boundary);
    cr_assert_null(status, "%s", hlo_status_message(status));
    HloLiteral *whole = NULL, *shards[8] = {0}, *global = NULL;
    const HloLiteral *const *none[8] = {0};
    status = hlo_evaluate(module, NULL, 0, NULL, &whole);
    cr_assert_null(status, "%s", hlo_status_message(status));
    status = hlo_evaluate_partitioned(partitioned, 8, none, 0, NULL, shards);
    cr_assert_null(status, "%s", hlo_status_message(status));
    status = spmd_unshard_literal((const HloLiteral *const *)shards, boundary->results[0].sharding, 8,
                                  boundary->results[0].global, &global);
    cr_assert_null(status, "%s", hlo_status_message(status));
    cr_expect(hlo_literal_equal(whole, global), "form %d, function %d, %s", c->form, (int)c->function, c->shard);
    for (int d = 0; d < 8; d++) hlo_literal_free(shards[d]);
    hlo_literal_free(global);
    hlo_literal_free(whole);
    spmd_boundary_free(boundary);
    spmd_report_free(report);
    hlo_module_free(partitioned);
    hlo_module_free(module);
}

// ---- what does not fit

static HloInstruction *bad_key(HloBuilder *b) {
    return hlo_random_bits(b, HLO_RANDOM_PARTITIONABLE, hlo_build_iota(b, HLO_U32, HLO_DIMS(3), 0), HLO_U32,
                           HLO_DIMS(4));
}
static HloInstruction *bad_bits(HloBuilder *b) {
    return hlo_random_bits(b, HLO_RANDOM_PARTITIONABLE, hlo_random_key(b, 0), HLO_F32, HLO_DIMS(4));
}
static HloInstruction *bad_sizes(HloBuilder *b) {
    return hlo_random_bits(b, HLO_RANDOM_PARTITIONABLE, hlo_random_key(b, 0), HLO_U32,
                           HLO_DIMS((int64_t)1 << 40, (int64_t)1 << 40));
}
static HloInstruction *bad_rank(HloBuilder *b) {
    static const int64_t ones[65] = {1};
    return hlo_random_bits(b, HLO_RANDOM_PARTITIONABLE, hlo_random_key(b, 0), HLO_U32, (HloInts){ones, 65});
}
static HloInstruction *bad_original_size(HloBuilder *b) {
    return hlo_random_bits(b, HLO_RANDOM_ORIGINAL, hlo_random_key(b, 0), HLO_U32, HLO_DIMS((int64_t)1 << 31));
}
static HloInstruction *bad_float(HloBuilder *b) {
    return hlo_random_normal(b, HLO_RANDOM_PARTITIONABLE, hlo_random_key(b, 0), HLO_S32, HLO_DIMS(4));
}
static HloInstruction *bad_range(HloBuilder *b) {
    return hlo_random_integers(b, HLO_RANDOM_PARTITIONABLE, hlo_random_key(b, 0), HLO_S8, HLO_DIMS(4), 0, 200);
}
static HloInstruction *bad_integer(HloBuilder *b) {
    return hlo_random_integers(b, HLO_RANDOM_PARTITIONABLE, hlo_random_key(b, 0), HLO_F32, HLO_DIMS(4), 0, 2);
}
static HloInstruction *bad_split(HloBuilder *b) {
    return hlo_random_split(b, HLO_RANDOM_PARTITIONABLE, hlo_random_key(b, 0), 0);
}
static HloInstruction *bad_row(HloBuilder *b) {
    return hlo_random_row(b, hlo_random_key(b, 0), 2);
}
static HloInstruction *bad_number(HloBuilder *b) {
    return hlo_random_fold_in(b, hlo_random_key(b, 0), hlo_build_scalar(b, HLO_S32, 1));
}
static HloInstruction *bad_dimension(HloBuilder *b) {
    return hlo_random_shuffle(b, HLO_RANDOM_PARTITIONABLE, hlo_random_key(b, 0),
                              hlo_build_iota(b, HLO_F32, HLO_DIMS(4), 0), 1);
}
static HloInstruction *bad_erf_inv(HloBuilder *b) {
    return hlo_build_erf_inv(b, hlo_build_iota(b, HLO_S32, HLO_DIMS(4), 0));
}

Test(random, refuses_what_does_not_fit) {
    static const struct {
        HloInstruction *(*build)(HloBuilder *b);
        const char *message;
    } cases[] = {
        {bad_key, "a key must be an array u32[2]"},
        {bad_bits, "u8, u16, u32 or u64"},
        {bad_sizes, "negative or too large"},
        {bad_rank, "random bits: too many dimensions"},
        {bad_original_size, "at most 2^31 - 1"},
        {bad_float, "f16, bf16, f32 or f64"},
        {bad_range, "does not fit in the type"},
        {bad_integer, "an integer of 8 to 64 bits"},
        {bad_split, "must be 1 or more"},
        {bad_row, "no such row"},
        {bad_number, "a scalar u32[]"},
        {bad_dimension, "no such dimension"},
        {bad_erf_inv, "not floats"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        HloModule *module = hlo_module_new("bad");
        HloBuilder *b = hlo_builder_new(module, "main");
        HloInstruction *result = cases[i].build(b);
        cr_expect_null(result);
        HloStatus status = hlo_builder_finish_entry(b, result);
        cr_assert_not_null(status, "%s", cases[i].message);
        cr_expect_eq(hlo_status_code(status), HLO_INVALID_ARGUMENT);
        cr_expect_not_null(strstr(hlo_status_message(status), cases[i].message), "%s", hlo_status_message(status));
        hlo_status_free(status);
        hlo_module_free(module);
    }
}

Test(random, draws_nothing_from_empty_sizes) {
    HloModule *module = hlo_module_new("empty");
    HloBuilder *b = hlo_builder_new(module, "main");
    HloInstruction *x = hlo_random_normal(b, HLO_RANDOM_ORIGINAL, hlo_random_key(b, 0), HLO_F32, HLO_DIMS(3, 0));
    cr_assert_not_null(x);
    HloStatus status = hlo_builder_finish_entry(b, x);
    cr_assert_null(status, "%s", hlo_status_message(status));
    cr_expect_eq(hlo_shape_elements(module->entry->root->shape), 0);
    hlo_module_free(module);
}
