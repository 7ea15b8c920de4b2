// SPDX-License-Identifier: Apache-2.0
// Value numbering over a straight stretch of a program: an operation on the same operands as before, and a load of a
// value that was stored or loaded before, are the existing value.
//
//   loop 1   a = load m0; b = a * a; store m1, b         v0 = m0, v1 = v0 * v0, effect v2: m1 <- v1
//   loop 2   c = load m1; d = load m0; e = c + d * d     c is v1, d is v0, d * d is v1: v3 = v1 + v1
//
// Values are found by a hash of operation and operands (number()), memory by a list of the known contents of addresses
// (known_at()), the newest first. A store forgets everything that may overlap it, which is decided by bases and
// offsets; addresses relative to a moved address are assumed anywhere between the lowest and highest byte of the
// buffer's positions, and arguments and results of the program may be one buffer, if one was donated to the other.
//
// Scratch memory belongs to one loop. An element in it is kept as a value and never stored, unless the loop also calls
// kernels, which read it there (`keeps_scratch`).
//
// Nothing is removed while a block grows; cpu_jit_block_finish() walks back from the end once, marks the values that an
// effect needs, and chains the uses of each value in order, which the register allocation of emit.c follows.
#include "targets/cpu/jit/values.h"

#include <assert.h>
#include <string.h>

void cpu_jit_block_begin(CpuJitBlock *block) {
    block->values.count = 0;
    memset(block->buckets, 0xff, sizeof block->buckets);
    block->memory_count = block->memory_oldest = 0;
    block->scratch.count = 0;
    block->keeps_scratch = false;
}

void cpu_jit_block_begin_loop(CpuJitBlock *block, bool keeps_scratch) {
    block->scratch.count = 0;
    block->keeps_scratch = keeps_scratch;
}

static CpuJitValue *at(CpuJitBlock *block, int32_t value) {
    assert(value >= 0 && value < block->values.count);
    return &block->values.items[value];
}

static int32_t add(CpuJitBlock *block, const CpuJitValue *value) {
    hlo_vector_push(block->arena, &block->values, *value);
    return (int32_t)block->values.count - 1;
}

// ---- values

static bool is_same(const CpuJitValue *a, const CpuJitValue *b) {
    return a->op == b->op && a->wide == b->wide && a->is_mask == b->is_mask && a->bits == b->bits &&
           memcmp(a->operands, b->operands, sizeof a->operands) == 0;
}

// Returns the number of the value, which may exist already. Memory contents are found by their address instead. The
// hash multiplies by 2^64 over the golden ratio (Fibonacci hashing, Knuth 6.4) and uses its upper half, which mixes
// best.
static int32_t number(CpuJitBlock *block, const CpuJitValue *value) {
    uint64_t hash = (uint64_t)value->op * 31 + value->bits * 0x9e3779b97f4a7c15;
    for (int i = 0; i < 3; i++) hash = (hash ^ (uint64_t)value->operands[i]) * 0x9e3779b97f4a7c15;
    int32_t *bucket = &block->buckets[(hash >> 32) % CPU_JIT_BUCKETS];
    for (int32_t i = *bucket; i >= 0; i = at(block, i)->next)
        if (is_same(at(block, i), value)) return i;
    CpuJitValue made = *value;
    made.next = *bucket;
    return *bucket = add(block, &made);
}

int32_t cpu_jit_constant(CpuJitBlock *block, uint64_t bits, bool wide) {
    if (!wide) bits = (bits & 0xffffffff) * 0x100000001;  // an element of any vector instruction
    return number(block, &(CpuJitValue){.op = CPU_VALUE_OF_CONSTANT, .bits = bits, .operands = {-1, -1, -1}});
}

// Comparisons yield masks; logic and selections of masks are masks again. Tracking that avoids the conversion to bytes.
int32_t cpu_jit_value(CpuJitBlock *block, CpuJitOp op, bool wide, int32_t a, int32_t b, int32_t c) {
    const bool compares =
        (op >= CPU_VALUE_EQ_F && op <= CPU_VALUE_NOT_LESS_F) || op == CPU_VALUE_EQ || op == CPU_VALUE_GT_S;
    const bool keeps = (op == CPU_VALUE_AND || op == CPU_VALUE_OR || op == CPU_VALUE_XOR || op == CPU_VALUE_NOT) &&
                       at(block, a)->is_mask && (b < 0 || at(block, b)->is_mask);
    const bool selects = op == CPU_VALUE_SELECT && at(block, b)->is_mask && at(block, c)->is_mask;
    return number(block, &(CpuJitValue){.op = op,
                                        .wide = wide,
                                        .is_mask = compares || keeps || selects || op == CPU_VALUE_TO_MASK,
                                        .operands = {a, b, c}});
}

int32_t cpu_jit_rotation(CpuJitBlock *block, int32_t a, unsigned by) {
    return number(block, &(CpuJitValue){.op = CPU_VALUE_ROTATE, .bits = by, .operands = {a, -1, -1}});
}

int32_t cpu_jit_mask(CpuJitBlock *block, int32_t value) {
    const CpuJitValue *v = at(block, value);
    if (v->is_mask) return value;
    if (v->op == CPU_VALUE_TO_BYTE) return v->operands[0];
    return cpu_jit_value(block, CPU_VALUE_TO_MASK, false, value, -1, -1);
}

int32_t cpu_jit_byte(CpuJitBlock *block, int32_t value) {
    return at(block, value)->is_mask ? cpu_jit_value(block, CPU_VALUE_TO_BYTE, false, value, -1, -1) : value;
}

// ---- memory

static bool is_same_address(const CpuJitAddress *a, const CpuJitAddress *b) {
    return a->base == b->base && a->moved == b->moved && a->offset == b->offset;
}

// True unless the two runs of bytes cannot overlap. Bases are disjoint, but arguments and results may share their
// memory.
static bool may_share(const CpuJitAddress *a, int64_t a_bytes, const CpuJitAddress *b, int64_t b_bytes) {
    if (a->base != b->base) return a->base >= CPU_BASE_FIRST_ARGUMENT && b->base >= CPU_BASE_FIRST_ARGUMENT;
    if (a->moved == b->moved) return a->offset < b->offset + b_bytes && b->offset < a->offset + a_bytes;
    const int64_t a_low = a->moved < 0 ? a->offset : a->low, a_high = a->moved < 0 ? a->offset + a_bytes : a->high;
    const int64_t b_low = b->moved < 0 ? b->offset : b->low, b_high = b->moved < 0 ? b->offset + b_bytes : b->high;
    return a_low < b_high && b_low < a_high;
}

void cpu_jit_forget(CpuJitBlock *block, CpuJitAddress address, int64_t bytes) {
    if (address.base == CPU_JIT_IN_SCRATCH) {
        int64_t kept = 0;
        for (int64_t i = 0; i < block->scratch.count; i++) {
            const CpuJitMemory known = block->scratch.items[i];
            if (!may_share(&address, bytes, &known.address, known.width)) block->scratch.items[kept++] = known;
        }
        block->scratch.count = kept;
        return;
    }
    for (int32_t i = 0; i < block->memory_count; i++) {
        CpuJitMemory *known = &block->memory[i];
        if (known->value >= 0 && may_share(&address, bytes, &known->address, known->width)) known->value = -1;
    }
}

// Scratch is small and remembered completely; for other memory the oldest entry is replaced, which only costs a load.
static void remember(CpuJitBlock *block, CpuJitAddress address, int width, int32_t value) {
    const CpuJitMemory known = {address, width, value};
    if (address.base == CPU_JIT_IN_SCRATCH) {
        hlo_vector_push(block->arena, &block->scratch, known);
        return;
    }
    if (block->memory_count < CPU_JIT_MEMORY) {
        block->memory[block->memory_count++] = known;
        return;
    }
    block->memory[block->memory_oldest] = known;
    block->memory_oldest = (block->memory_oldest + 1) % CPU_JIT_MEMORY;
}

// Returns the newest entry for exactly these bytes, or -1. An address written with another width has been forgotten by
// then.
static int32_t known_at(const CpuJitBlock *block, const CpuJitAddress *address, int width) {
    const bool in_scratch = address->base == CPU_JIT_IN_SCRATCH;
    const CpuJitMemory *known = in_scratch ? block->scratch.items : block->memory;
    const int64_t count = in_scratch ? block->scratch.count : block->memory_count;
    for (int64_t i = count - 1; i >= 0; i--)
        if (known[i].value >= 0 && known[i].width == width && is_same_address(&known[i].address, address))
            return known[i].value;
    return -1;
}

bool cpu_jit_knows(const CpuJitBlock *block, CpuJitAddress address, int width) {
    return known_at(block, &address, width) >= 0;
}

int32_t cpu_jit_read(CpuJitBlock *block, CpuJitAddress address, int width) {
    assert(width == 1 || width == 2 || width == 4 || width == 8);
    if (address.base == CPU_JIT_CONSTANT) {
        uint64_t bits = 0;
        memcpy(&bits, address.constant + address.offset, (size_t)width);
        return cpu_jit_constant(block, bits, width == 8);
    }
    const int32_t known = known_at(block, &address, width);
    if (known >= 0) return known;
    // An element that was never stored cannot be read from memory.
    if (address.base == CPU_JIT_IN_SCRATCH && !block->keeps_scratch) block->fits = false;
    const int32_t value = add(block, &(CpuJitValue){.op = CPU_VALUE_OF_MEMORY,
                                                    .wide = width == 8,
                                                    .width = width,
                                                    .address = address,
                                                    .operands = {-1, -1, -1}});
    remember(block, address, width, value);
    return value;
}

void cpu_jit_write(CpuJitBlock *block, CpuJitAddress address, int width, int32_t value) {
    assert(width == 1 || width == 4 || width == 8);
    if (known_at(block, &address, width) == value) return;
    cpu_jit_forget(block, address, width);
    remember(block, address, width, value);
    if (address.base == CPU_JIT_IN_SCRATCH && !block->keeps_scratch) return;
    CpuJitValue *store = cpu_jit_effect(block, CPU_EFFECT_STORE);
    store->operands[0] = value;
    store->address = address;
    store->width = width;
}

CpuJitValue *cpu_jit_effect(CpuJitBlock *block, CpuJitOp op) {
    assert(op >= CPU_EFFECT_STORE);
    return at(block, add(block, &(CpuJitValue){.op = op, .operands = {-1, -1, -1}}));
}

void cpu_jit_block_finish(CpuJitBlock *block, int32_t *first_use) {
    for (int64_t i = 0; i < block->values.count; i++) first_use[i] = -1;
    for (int64_t i = block->values.count - 1; i >= 0; i--) {
        CpuJitValue *value = &block->values.items[i];
        value->needed = value->op >= CPU_EFFECT_STORE || first_use[i] >= 0;
        if (!value->needed) continue;
        // An operand that occurs twice is used twice in the same value.
        for (int k = 2; k >= 0; k--) {
            const int32_t operand = value->operands[k];
            if (operand < 0) continue;
            value->next_use[k] = first_use[operand];
            first_use[operand] = (int32_t)i;
        }
    }
}
