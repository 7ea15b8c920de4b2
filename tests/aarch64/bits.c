// SPDX-License-Identifier: Apache-2.0
// usage: bits     Prints one line for each loop kernel of the best instruction set, or of that of MESHLO_CPU_FEATURES:
// its name and a hash of its results, for numbers of all magnitudes and the special ones. NaN count as one. The output
// of builds for two architectures shows where their bits differ (tests/aarch64/run, which leaves out the kernels whose
// results come from the C library).
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "targets/cpu/isa/gemm.h"
#include "targets/cpu/isa/isa.h"

enum { kCount = 4099, kWidth = 16 };  // elements, which are no multiple of a vector; bytes of the widest

static uint64_t state = 1;

static uint64_t next_random(void) {
    state += 0x9E3779B97F4A7C15u;  // SplitMix64
    uint64_t x = state;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

static bool is_float(CpuRegisterType type) {
    return type >= CPU_REGISTER_F32;
}
static bool is_double(CpuRegisterType type) {
    return type == CPU_REGISTER_F64 || type == CPU_REGISTER_C128;
}

// A third of the floats is any bits, the others are of everyday size; predicates are 0 or 1.
static void fill(CpuRegisterType type, unsigned char *to) {
    for (size_t i = 0; i < kCount * kWidth / 8; i++) {
        uint64_t bits = next_random();
        const uint64_t kind = next_random();
        const float small[2] = {(float)(int32_t)bits * 0x1p-26f, (float)(int32_t)(bits >> 32) * 0x1p-29f};
        const double one = (double)(int64_t)bits * 0x1p-59;
        if (type == CPU_REGISTER_PRED) bits &= 0x0101010101010101u;
        if (is_float(type) && kind % 3 && is_double(type)) memcpy(&bits, &one, sizeof bits);
        if (is_float(type) && kind % 3 && !is_double(type)) memcpy(&bits, small, sizeof bits);
        memcpy(to + i * 8, &bits, sizeof bits);
    }
}

// FNV-1a of the elements.
static uint64_t hash_of(CpuRegisterType type, const unsigned char *from, size_t bytes) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i + 8 <= bytes; i += 8) {
        uint64_t bits;
        memcpy(&bits, from + i, sizeof bits);
        float pair[2];
        double one;
        memcpy(pair, &bits, sizeof pair);
        memcpy(&one, &bits, sizeof one);
        if (is_float(type) && is_double(type) && one != one) bits = 0x7ff8000000000000u;
        if (is_float(type) && !is_double(type)) {
            if (pair[0] != pair[0]) bits = (bits & ~0xffffffffull) | 0x7fc00000u;
            if (pair[1] != pair[1]) bits = (bits & 0xffffffffull) | 0x7fc0000000000000u;
        }
        hash = (hash ^ bits) * 0x100000001b3u;
    }
    return hash;
}

static const char *const kTypes[] = {"pred", "s8",  "s16", "s32", "s64", "u8",  "u16",
                                     "u32",  "u64", "f32", "f64", "c64", "c128"};
static const char *const kOps[] = {
#define CPU_LOOP_OP(name, role, arity, result, rounds, slow, ...) #name,
#define CPU_LOOP_TEST(name, ...) #name,
#include "targets/cpu/isa/loop_ops.def"
#undef CPU_LOOP_OP
#undef CPU_LOOP_TEST
};
static const char *const kReductions[] = {"add", "multiply", "maximum", "minimum", "and", "or", "xor"};

static unsigned char a[kCount * kWidth], b[kCount * kWidth], c[kCount * kWidth], result[kCount * kWidth];

// Selections have predicates as first operand.
static void start(CpuRegisterType type, CpuRegisterType first) {
    state = 1;
    memset(result, 0, sizeof result);
    fill(first, a);
    fill(type, b);
    fill(type, c);
}

static void print_operations(const CpuLoopKernels *kernels) {
    for (int op = 0; op < CPU_OP_COUNT; op++)
        for (int type = 0; type < CPU_REGISTER_COUNT; type++) {
            if (!kernels->operation[op][type]) continue;
            start((CpuRegisterType)type, op == CPU_OP_SELECT ? CPU_REGISTER_PRED : (CpuRegisterType)type);
            kernels->operation[op][type](result, a, b, c, kCount, 3);
            printf("%s %s %016llx\n", kOps[op], kTypes[type],
                   (unsigned long long)hash_of((CpuRegisterType)type, result, sizeof result));
        }
}

static void print_conversions(const CpuLoopKernels *kernels) {
    for (int from = 0; from < CPU_REGISTER_COUNT; from++)
        for (int to = 0; to < CPU_REGISTER_COUNT; to++) {
            if (!kernels->convert[from][to]) continue;
            start((CpuRegisterType)from, (CpuRegisterType)from);
            kernels->convert[from][to](result, a, NULL, NULL, kCount, 0);
            printf("convert %s %s %016llx\n", kTypes[from], kTypes[to],
                   (unsigned long long)hash_of((CpuRegisterType)to, result, sizeof result));
        }
    for (int type = 0; type < HLO_TYPE_COUNT; type++) {
        if (!kernels->encode[type]) continue;
        start(CPU_REGISTER_F32, CPU_REGISTER_F32);
        kernels->round[type](result, a, NULL, NULL, kCount, 0);
        const uint64_t rounded = hash_of(CPU_REGISTER_F32, result, sizeof result);
        kernels->decode[type](result, b, NULL, NULL, kCount, 0);
        printf("narrow %d %016llx %016llx\n", type, (unsigned long long)rounded,
               (unsigned long long)hash_of(CPU_REGISTER_F32, result, sizeof result));
    }
}

static void print_reductions(const CpuLoopKernels *kernels) {
    for (int op = 0; op < CPU_REDUCE_COUNT; op++)
        for (int type = 0; type < CPU_REGISTER_COUNT; type++) {
            if (!kernels->reduce[op][type]) continue;
            start((CpuRegisterType)type, (CpuRegisterType)type);
            kernels->reduce[op][type](result, a, 3, kCount / 3);
            kernels->columns[op][type](result + 64, a, 3, kCount / 3, kCount / 3);
            printf("reduce %s %s %016llx\n", kReductions[op], kTypes[type],
                   (unsigned long long)hash_of((CpuRegisterType)type, result, sizeof result));
        }
}

// One row by a matrix of finite numbers, each element a chain of multiply-adds.
static void print_products(CpuFeatures features) {
    static const CpuRegisterType kElements[] = {CPU_REGISTER_F32, CPU_REGISTER_F64, CPU_REGISTER_U32, CPU_REGISTER_U64};
    for (int element = CPU_GEMM_F32; element <= CPU_GEMM_U64; element++) {
        const CpuRegisterType type = kElements[element];
        start(type, type);
        for (int i = 0; i < kCount; i++) {
            const float x = (float)(i % 37) / 7, y = (float)(i % 29) / 11;
            const double wide_x = (double)(i % 37) / 7, wide_y = (double)(i % 29) / 11;
            if (type == CPU_REGISTER_F32) memcpy(a + i * 4, &x, 4), memcpy(b + i * 4, &y, 4);
            if (type == CPU_REGISTER_F64) memcpy(a + i * 8, &wide_x, 8), memcpy(b + i * 8, &wide_y, 8);
        }
        cpu_isa_gemm_kernels(features, (CpuGemmElement)element)->small(5, 37, 100, a, 100, 1, b, 37, result, 37, 0);
        printf("product %s %016llx\n", kTypes[type], (unsigned long long)hash_of(type, result, sizeof result));
    }
}

int main(void) {
    CpuFeatures features;
    HloStatus status = cpu_features_choose(&features);
    if (status) return 2;
    const CpuLoopKernels *kernels = cpu_isa_loop_kernels(features);
    print_operations(kernels);
    print_conversions(kernels);
    print_reductions(kernels);
    print_products(features);
    return 0;
}
