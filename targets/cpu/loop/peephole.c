// SPDX-License-Identifier: Apache-2.0
// Rewrites a loop before it is planned: neighbouring operations that one kernel does in one pass over their registers
// become one value, with the same roundings; unused values are dropped.
//
//   a + b, then * c              one kernel of three operands, which rounds twice as the two did (find_pair)
//   x << 13 | x >> 19            rotate                                          (find_rotation)
//   y ^ rotate(x)                xor_rotate                                      (find_xor_of_rotation)
//   four rounds of Threefry      mix_four_times: two words in, two words out     (find_four_rounds)
//   the same after a key         add_and_mix_four_times                          (find_rounds_after_rounds)
//
// so that the hash of a random number, 20 rounds of three operations each, is five kernels on registers.
//
// An operation is merged into its user only if it has no other user; otherwise it would be computed twice. A value's
// number is its position in execution order: operands of a rewritten value must have smaller numbers than the value.
#include <assert.h>
#include <string.h>

#include "targets/cpu/loop/internal.h"

static CpuLoopValue *value_at(CpuLoopBuilder *b, CpuValue v) {
    return v < 0 ? NULL : &b->values.items[v];
}

static bool is_operation(const CpuLoopBuilder *b, const CpuLoopValue *value, CpuLoopOp op, CpuRegisterType type) {
    return value && value->kind == CPU_VALUE_KERNEL && value->kernel == b->kernels->operation[op][type];
}

static bool is_uniform(const CpuLoopBuilder *b, CpuValue v) {
    return v >= 0 && b->values.items[v].level == CPU_LEVEL_UNIFORM;
}

// ---- indices in 64 bits, as JAX numbers its random bits

static bool is_conversion(const CpuLoopBuilder *b, const CpuLoopValue *value, CpuRegisterType from,
                          CpuRegisterType to) {
    return value && value->kind == CPU_VALUE_KERNEL && value->kernel == b->kernels->convert[from][to];
}

// Rewrites u32(u64(s32 x)) as x: the lower half of a value that was 32 bits wide before.
static void find_narrowed_again(const CpuLoopBuilder *b, CpuLoopValue *value) {
    if (!is_conversion(b, value, CPU_REGISTER_U64, CPU_REGISTER_U32)) return;
    const CpuLoopValue *wide = &b->values.items[value->operands[0]];
    if (!is_conversion(b, wide, CPU_REGISTER_S32, CPU_REGISTER_U64) || wide->level != value->level) return;
    value->kind = CPU_VALUE_ALIAS;
    value->operands[0] = wide->operands[0];
}

// Rewrites u64(index) >> 32 as 0, as an index is never negative and below 2^31. JAX numbers the elements of an array in
// 64 bits and hashes both halves.
static void find_no_bits(const CpuLoopBuilder *b, CpuLoopValue *value) {
    enum { kIndexBits = 31 };
    if (!is_operation(b, value, CPU_OP_SHIFT_RIGHT_LOGICAL, CPU_REGISTER_U64)) return;
    const CpuLoopValue *wide = &b->values.items[value->operands[0]], *count = &b->values.items[value->operands[1]];
    if (!is_conversion(b, wide, CPU_REGISTER_S32, CPU_REGISTER_U64) || count->kind != CPU_VALUE_CONSTANT) return;
    const CpuLoopValue *index = &b->values.items[wide->operands[0]];
    uint64_t bits;
    memcpy(&bits, count->constant, sizeof bits);
    bool fits = index->kind == CPU_VALUE_INDEX && index->map.offset >= 0 && bits >= kIndexBits;
    for (int d = 0; d < b->rank && fits; d++) fits = index->map.strides[d] >= 0;
    if (!fits) return;
    value->kind = CPU_VALUE_CONSTANT;
    value->level = CPU_LEVEL_UNIFORM;
    value->operands[0] = value->operands[1] = -1;
    memset(value->constant, 0, sizeof value->constant);
}

// Marks a value as existing once per loop if all its operands do.
static void find_uniform(const CpuLoopBuilder *b, CpuLoopValue *value) {
    if (value->kind != CPU_VALUE_KERNEL || value->operands[0] < 0) return;
    for (int i = 0; i < 3; i++)
        if (value->operands[i] >= 0 && !is_uniform(b, value->operands[i])) return;
    value->level = CPU_LEVEL_UNIFORM;
}

// ---- rotations

static bool is_constant(const CpuLoopValue *value, uint32_t *bits) {
    if (!value || value->kind != CPU_VALUE_CONSTANT || value->type != HLO_U32) return false;
    memcpy(bits, value->constant, sizeof *bits);
    return true;
}

// Rewrites x << l | x >> (32 - l) as a rotation.
static void find_rotation(CpuLoopBuilder *b, CpuLoopValue *value) {
    assert(value);
    if (!is_operation(b, value, CPU_OP_OR, CPU_REGISTER_U32)) return;
    for (int turned = 0; turned < 2; turned++) {
        const CpuLoopValue *left = value_at(b, value->operands[turned]), *right = value_at(b, value->operands[!turned]);
        uint32_t l, r;
        if (!is_operation(b, left, CPU_OP_SHIFT_LEFT, CPU_REGISTER_U32) ||
            !is_operation(b, right, CPU_OP_SHIFT_RIGHT_LOGICAL, CPU_REGISTER_U32) ||
            left->operands[0] != right->operands[0] || !is_constant(value_at(b, left->operands[1]), &l) ||
            !is_constant(value_at(b, right->operands[1]), &r) || l == 0 || l >= 32 || l + r != 32)
            continue;
        cpu_loop_set_kernel(b, value, &b->kernels->rotate);
        value->immediate = l;
        value->operands[0] = left->operands[0];
        value->operands[1] = -1;
        return;
    }
}

// Rewrites y ^ rotate(x), in either operand order, as one operation.
static void find_xor_of_rotation(CpuLoopBuilder *b, CpuLoopValue *value) {
    if (!is_operation(b, value, CPU_OP_XOR, CPU_REGISTER_U32)) return;
    for (int turned = 0; turned < 2; turned++) {
        const CpuLoopValue *rotation = value_at(b, value->operands[turned]);
        if (!rotation || rotation->kind != CPU_VALUE_KERNEL || rotation->kernel != b->kernels->rotate ||
            rotation->level != value->level)
            continue;
        cpu_loop_set_kernel(b, value, &b->kernels->xor_rotate);
        value->immediate = rotation->immediate;
        value->operands[0] = value->operands[!turned];
        value->operands[1] = rotation->operands[0];
        return;
    }
}

// ---- four rounds of Threefry

// One round of Threefry takes two numbers. It gives their sum, and the second one rotated and xored with the sum.
typedef struct Round {
    CpuValue sum, mixed;     // the results
    CpuValue first, second;  // the operands
} Round;

// Matches the round that ends with the value `mixed`.
static bool find_round(const CpuLoopBuilder *b, CpuValue mixed, Round *round) {
    const CpuLoopValue *value = &b->values.items[mixed];
    if (value->kind != CPU_VALUE_KERNEL || value->kernel != b->kernels->xor_rotate) return false;
    *round = (Round){.sum = value->operands[0], .mixed = mixed, .second = value->operands[1]};
    const CpuLoopValue *sum = &b->values.items[round->sum];
    if (!is_operation(b, sum, CPU_OP_ADD, CPU_REGISTER_U32) || sum->level != value->level) return false;
    const bool swapped = sum->operands[0] == round->second;
    round->first = sum->operands[swapped];
    return sum->operands[!swapped] == round->second;
}

// Merges the four rounds that end with the value `last` if nothing but their results is used elsewhere. The kernel has
// two results; the values of the last round become its halves.
//
//   first --+-- sum0 --+-- sum1 --+-- sum2 --+-- sum3    sum = first + second, the next round's first
//           |          |          |          |
//   second -+- mixed0 -+- mixed1 -+- mixed2 -+- mixed3   mixed = rotate(second, turn) ^ sum, the next round's second
//
// Inside, a sum is read by its own mix and the next sum, a mix by the next sum and the next mix: two uses each. The
// rotations of the four rounds are the bytes of the kernel's immediate, the first round's lowest. The merged kernel
// replaces mixed2, which comes before both results and after all operands.
static void find_four_rounds(CpuLoopBuilder *b, CpuValue last, const int *uses) {
    enum { kRounds = 4, kUsesWithin = 2 };
    Round rounds[kRounds];
    uint32_t turns = 0;
    for (int r = kRounds; r-- > 0; last = rounds[r].second) {
        if (!find_round(b, last, &rounds[r]) || b->values.items[last].level == CPU_LEVEL_UNIFORM) return;
        if (r < kRounds - 1 && (rounds[r + 1].first != rounds[r].sum || uses[rounds[r].sum] != kUsesWithin ||
                                uses[rounds[r].mixed] != kUsesWithin))
            return;
        turns = turns << 8 | (uint32_t)b->values.items[last].immediate;
    }
    // Before the first value that is used elsewhere.
    CpuLoopValue *both = &b->values.items[rounds[kRounds - 2].mixed];
    cpu_loop_set_kernel(b, both, &b->kernels->mix_four_times);
    both->immediate = turns;
    both->operands[0] = rounds[0].first;
    both->operands[1] = rounds[0].second;
    both->type = HLO_U64;
    both->register_type = CPU_REGISTER_U64;
    both->width = 2 * (int)sizeof(uint32_t);
    const CpuValue halves[] = {rounds[kRounds - 1].sum, rounds[kRounds - 1].mixed};
    for (int i = 0; i < 2; i++) {
        CpuLoopValue *half = &b->values.items[halves[i]];
        half->kind = CPU_VALUE_ALIAS;
        half->immediate = i * (int)sizeof(uint32_t);
        half->operands[0] = rounds[kRounds - 2].mixed;
        half->operands[1] = half->operands[2] = -1;
    }
}

// Rewrites x + u + v as x + (u + v), where u and v exist once per loop. The new sum takes the position of v or x + u,
// whichever comes later. If that is v, the position of x + u takes v's value, so v must be a constant that has no other
// user.
static void find_sum_with_uniforms(CpuLoopBuilder *b, CpuLoopValue *value, const int *uses) {
    if (!is_operation(b, value, CPU_OP_ADD, CPU_REGISTER_U32) || value->level == CPU_LEVEL_UNIFORM) return;
    const int second = is_uniform(b, value->operands[0]);
    const CpuValue at = value->operands[second], v = value->operands[!second];
    CpuLoopValue *inner = &b->values.items[at], *added = &b->values.items[v];
    if (!is_operation(b, inner, CPU_OP_ADD, CPU_REGISTER_U32) || inner->level == CPU_LEVEL_UNIFORM || uses[at] != 1 ||
        !is_uniform(b, v) || (v > at && (added->kind != CPU_VALUE_CONSTANT || uses[v] != 1)))
        return;
    const bool swapped = is_uniform(b, inner->operands[0]);
    const CpuValue x = inner->operands[swapped], u = inner->operands[!swapped];
    if (!is_uniform(b, u)) return;
    const CpuValue sum = v > at ? v : at;
    const CpuLoopValue constant = *added;
    b->values.items[sum] = *inner;
    if (v > at) *inner = constant;
    b->values.items[sum].level = CPU_LEVEL_UNIFORM;
    b->values.items[sum].operands[0] = u;
    b->values.items[sum].operands[1] = v > at ? at : v;
    value->operands[0] = x;
    value->operands[1] = sum;
}

// Whether this is the sum of that half of the value `both` and a value that exists once per loop, and is not used
// elsewhere.
static bool is_half_and_uniform(const CpuLoopBuilder *b, CpuValue sum, CpuValue both, int half, const int *uses,
                                CpuValue *uniform) {
    const CpuLoopValue *value = &b->values.items[sum];
    if (uses[sum] != 1 || !is_operation(b, value, CPU_OP_ADD, CPU_REGISTER_U32)) return false;
    const bool swapped = is_uniform(b, value->operands[0]);
    const CpuLoopValue *operand = &b->values.items[value->operands[swapped]];
    *uniform = value->operands[!swapped];
    return operand->kind == CPU_VALUE_ALIAS && operand->operands[0] == both &&
           operand->immediate == half * (int)sizeof(uint32_t) && uses[value->operands[swapped]] == 1 &&
           is_uniform(b, *uniform);
}

// Merges four rounds that follow four others with the part of the key that is added in between; the kernel reads the
// register of the earlier four.
static void find_rounds_after_rounds(CpuLoopBuilder *b, CpuLoopValue *value, const int *uses) {
    CpuValue uniforms[2];
    if (value->kind != CPU_VALUE_KERNEL || value->kernel != b->kernels->mix_four_times) return;
    const CpuLoopValue *sum = &b->values.items[value->operands[0]];
    if (!is_operation(b, sum, CPU_OP_ADD, CPU_REGISTER_U32)) return;
    const CpuLoopValue *half = &b->values.items[sum->operands[is_uniform(b, sum->operands[0])]];
    const CpuValue both = half->operands[0];
    if (half->kind != CPU_VALUE_ALIAS || b->values.items[both].width != 2 * (int)sizeof(uint32_t)) return;
    for (int i = 0; i < 2; i++)
        if (!is_half_and_uniform(b, value->operands[i], both, i, uses, &uniforms[i])) return;
    cpu_loop_set_kernel(b, value, &b->kernels->add_and_mix_four_times);
    value->operands[0] = both;
    value->operands[1] = uniforms[0];
    value->operands[2] = uniforms[1];
}

// Whether a register may have two results, which works for blocks only; in small loops, and in rows in chunks, every
// value has a register of its own.
static bool may_have_two_results(const CpuLoopBuilder *b) {
    int64_t elements = 1;
    for (int d = 0; d < b->rank; d++) elements *= b->dims[d];
    return elements > CPU_SMALL_ELEMENTS && b->reduce_count == 0;
}

// ---- pairs of f32 operations

// Returns which of the first operations of a pair the value is, or -1.
static int inner_of(const CpuLoopBuilder *b, const CpuLoopValue *value) {
    static const CpuLoopOp kInner[] = {[CPU_PAIR_OF_SUM] = CPU_OP_ADD,
                                       [CPU_PAIR_OF_DIFFERENCE] = CPU_OP_SUBTRACT,
                                       [CPU_PAIR_OF_PRODUCT] = CPU_OP_MULTIPLY};
    for (int i = 0; i < CPU_PAIR_INNER_COUNT; i++)
        if (is_operation(b, value, kInner[i], CPU_REGISTER_F32)) return i;
    return -1;
}

// Merges (x op y) op z into one kernel if the first result has no other user. Both values must be computed equally
// often (their level), and on the same side of a reduction.
static void find_pair(CpuLoopBuilder *b, CpuLoopValue *value, const int *uses) {
    assert(value && uses);
    const bool difference = is_operation(b, value, CPU_OP_SUBTRACT, CPU_REGISTER_F32);
    CpuPairOuter outer = CPU_PAIR_PLUS;
    if (is_operation(b, value, CPU_OP_MULTIPLY, CPU_REGISTER_F32))
        outer = CPU_PAIR_TIMES;
    else if (!difference && !is_operation(b, value, CPU_OP_ADD, CPU_REGISTER_F32))
        return;
    for (int second = 0; second < 2; second++) {
        const CpuLoopValue *first = value_at(b, value->operands[second]);
        const int inner = inner_of(b, first);
        if (inner < 0 || uses[value->operands[second]] != 1 || first->level != value->level ||
            first->in_combiner != value->in_combiner || first->after_reduce != value->after_reduce)
            continue;
        if (difference) outer = second ? CPU_PAIR_FROM : CPU_PAIR_MINUS;
        cpu_loop_set_kernel(b, value, &b->kernels->pair[inner][outer][CPU_ONES_NONE]);
        value->operands[2] = value->operands[!second];
        value->operands[1] = first->operands[1];
        value->operands[0] = first->operands[0];
        return;
    }
}

// ---- uses

// Counts how often each value is read by a needed one; stores and reductions are always needed.
static void count_uses(const CpuLoopBuilder *b, int *uses) {
    memset(uses, 0, sizeof(int) * (size_t)b->values.count);
    for (int64_t v = b->values.count; v-- > 0;) {
        const CpuLoopValue *value = &b->values.items[v];
        const bool kept =
            value->kind == CPU_VALUE_STORE || value->kind == CPU_VALUE_REDUCE || value->kind == CPU_VALUE_COMBINED;
        if (!kept && uses[v] == 0) continue;
        for (int i = 0; i < 3; i++)
            if (value->operands[i] >= 0) uses[value->operands[i]]++;
    }
}

// Applies one rule after the other, as each matches results of the previous one; uses are counted again after changes.
void cpu_loop_peephole(CpuLoopBuilder *b) {
    assert(b);
    if (b->combine_count) return;  // a combiner refers to values by number
    int *uses = hlo_arena_allocate(b->arena, sizeof(int) * (size_t)(b->values.count + 1));
    for (int64_t v = 0; v < b->values.count; v++) {
        CpuLoopValue *value = &b->values.items[v];
        find_no_bits(b, value);
        find_narrowed_again(b, value);
        find_uniform(b, value);
    }
    for (int64_t v = 0; v < b->values.count; v++) find_rotation(b, &b->values.items[v]);
    for (int64_t v = 0; v < b->values.count; v++) find_xor_of_rotation(b, &b->values.items[v]);
    count_uses(b, uses);
    for (CpuValue v = 0; v < b->values.count && may_have_two_results(b); v++)
        if (uses[v]) find_four_rounds(b, v, uses);
    count_uses(b, uses);
    for (int64_t v = 0; v < b->values.count; v++)
        if (uses[v]) find_sum_with_uniforms(b, &b->values.items[v], uses);
    count_uses(b, uses);
    for (int64_t v = 0; v < b->values.count; v++)
        if (uses[v]) find_rounds_after_rounds(b, &b->values.items[v], uses);
    for (int64_t v = 0; v < b->values.count; v++)
        if (uses[v]) find_pair(b, &b->values.items[v], uses);
    count_uses(b, uses);
    for (int64_t v = 0; v < b->values.count; v++) {
        CpuLoopValue *value = &b->values.items[v];
        if (uses[v] == 0 && value->kind != CPU_VALUE_STORE && value->kind != CPU_VALUE_REDUCE) {
            value->kind = CPU_VALUE_DROPPED;
            for (int i = 0; i < 3; i++) value->operands[i] = -1;
        }
    }
}
