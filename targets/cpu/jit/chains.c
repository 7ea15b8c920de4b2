// SPDX-License-Identifier: Apache-2.0
// Finds chains of kernels in fused loops and makes one function of each.
//
// A loop's steps are interpreted one after the other, each over a block of about a thousand elements, so that every
// operation loads its operands from the first-level cache and stores its result there. For cheap operations these
// accesses are the cost. A chain is a run of steps whose kernels are known as values (kernels.c): its code takes eight
// elements, with AVX-512 sixteen and with NEON four, through all of them, and accesses memory only for what comes from
// outside and what is read outside:
//
//     steps    t = x * 0.5   u = x > 0   e = exp(x)   s = t + y   r = select(u, s, e)   store r
//     chains   {t, u} -> t, u            e            {s, r}: reads t, y, u, e, writes r
//
// The code reads and writes arrays where they are, also those whose rows are apart in memory or begin anywhere (slices,
// rows that are broadcast, one number for each row), several rows in one call; positions in a row or of rows are in
// tables. On x86-64 a chain may end with the sum of each row: the code then has the lanes of the reduction's tree in
// registers, and the interpreter adds these up. Where many operations depend on each other the code is that of two to
// four vectors side by side, in an order in which the processor need not wait for results (schedule.h).
//
// Steps between two kernels that do not depend on the chain (e above, if it came second) move in front of it. Registers
// were assigned for the steps as they were (loop/plan.c), so a chain ends where that order matters: where a moved step
// would overwrite something that the chain still reads, or where a result would overwrite operands of another width
// before they are read. Results are written after all operands of the same vector have been read, so results may take
// the place of operands of their own width, except for those that are one element for all.
#include "targets/cpu/jit/chains.h"

#include <assert.h>
#include <string.h>

#include "hlo/base/arithmetic.h"
#include "targets/cpu/jit/emit.h"
#include "targets/cpu/jit/memory.h"
#include "targets/cpu/jit/neon.h"
#include "targets/cpu/jit/schedule.h"

struct CpuChains {
    char *memory;
    int64_t bytes, kernels;
};

// A kernel alone is as fast, unless an operand would be copied for it, and so are two in a loop that reduces, where the
// result is loaded again anyway (measured: layer norm); more members would keep too many values. A chain's members are
// within kMostSteps steps, and longer loops than kMostValues, such as reductions over a hundred thousand devices, have
// no code: compiling stays linear and short. Rows of fewer than kLeastReduced elements are added up by the interpreter,
// which takes several rows in one call.
enum {
    kLeastKernels = 2,
    kLeastReducedKernels = 3,
    kMostMembers = 96,
    kMostSteps = 256,
    kMostValues = 8192,
    kLeastElements = 64,
    kLeastReduced = 128
};
// Numbers of a row, or of rows, that are kept in a table: it stays in the second-level cache.
enum { kMostTableElements = 1 << 14 };
// In arrays whose rows have several distances, so many elements have one: then the interpreter finds the next ones.
enum { kLeastPlane = 256 };
enum { kCodeAlignment = 64 };
_Static_assert((int)CPU_CHAIN_LISTS == (int)CPU_JIT_LISTS, "the interpreter passes what the code expects");

// Code that has no address yet.
typedef struct Placed {
    CpuLoopChain *chain;
    int64_t offset;
} Placed;

// New steps for a loop that take effect if the code gets memory.
typedef struct Replaced {
    CpuLoopSteps *steps;
    CpuLoopSteps by;
} Replaced;

// A load or store whose array code reads or writes itself.
typedef struct Rows {
    CpuLoopValue *values;  // of its loop
    CpuValue value;
} Rows;

// What the kernel of a step is for code. Finding that out takes a search through all kernels, so it is kept.
typedef struct Known {
    CpuBlockKernel *kernel;
    bool found;
    CpuJitKernel is;
} Known;
enum { kKnown = 64 };

typedef struct Maker {
    HloArena *arena, *scratch;
    Known known[kKnown];  // by the kernel's address, the latest ones
    HLO_VECTOR(uint8_t) code;
    HLO_VECTOR(Placed) placed;
    HLO_VECTOR(Replaced) replaced;
    HLO_VECTOR(const CpuLoop *) loops;  // whose steps are replaced
    HLO_VECTOR(CpuLoopValue *) few;     // values of which code reads the first elements only
    HLO_VECTOR(CpuLoopValue *) sums;    // reductions whose lanes code computes
    HLO_VECTOR(Rows) rows;
    bool *in_rows;            // by value of the loop: a load or index that is assumed to become one of `rows`
    CpuJitBlock block, wide;  // of one vector; of several
    int64_t row;              // the elements of a row, or 0 (assume_rows())
    int64_t kernels;
} Maker;

// The chain that is being made, of loop steps [begin, end).
typedef struct Chain {
    Maker *maker;
    const CpuLoop *loop;
    const int *uses;  // by value: how often it is read
    CpuLevel level;
    int64_t end;
    CpuValue members[kMostMembers];
    CpuJitKernel kernels[kMostMembers];  // of members that are kernels, not other names
    int member_count, kernel_count;
    CpuValue sum;  // the reduction of a member that ends the chain, or -1
    CpuValue lists[CPU_CHAIN_LISTS];
    bool ones[CPU_CHAIN_LISTS];
    int list_count, read_count;
} Chain;

static const CpuLoopValue *value_of(const Chain *chain, CpuValue v) {
    return &chain->loop->values[v];
}

// Returns whether the elements of a row are next to each other in the array, or are one number. Those of an index are
// in a table: of a row if all rows have the same ones, of all rows if each has one number.
static bool walks_rows(const CpuLoopValue *value) {
    const int64_t *strides = value->walk.strides;
    if (value->kind == CPU_VALUE_INDEX)
        return value->width == 4 && value->walk.count == 2 && (!strides[0] || !strides[1]) &&
               value->walk.sizes[strides[0] == 0] <= kMostTableElements;
    return strides[0] == 1 || (value->kind == CPU_VALUE_LOAD && strides[0] == 0 && value->width == 4);
}

// Returns whether code with these lanes takes rows of so many elements whole, also several in one call: only with
// AVX-512 rows that are no multiple of a vector.
static bool takes_rows(int lanes, int64_t row) {
    return lanes > CPU_JIT_NEON_LANES && row >= lanes && (row % lanes == 0 || lanes == 16);
}

// Returns whether a load, an index or a store has rows of `row` elements (of any number if that is 0) that code can
// reach one after another.
static bool has_rows(const CpuLoop *loop, const CpuLoopValue *value, int64_t row) {
    const CpuWalk *walk = &value->walk;
    const CpuLevel level = loop->reduced > 1 ? CPU_LEVEL_FULL : CPU_LEVEL_KEPT;
    if (loop->reduced > 1 && loop->block == 1) return false;  // a block is a run already
    if (value->kind == CPU_VALUE_EXPAND)  // where columns are reduced it has one number for each column
        return loop->mode == CPU_MODE_ROWS && value->level == level && row && row == loop->reduced && value->width == 4;
    if (value->kind != CPU_VALUE_LOAD && value->kind != CPU_VALUE_INDEX && value->kind != CPU_VALUE_STORE) return false;
    if (value->level != level || walk->contiguous || walk->count < 2 || !walks_rows(value) || value->streams)
        return false;
    if (walk->count > 2 && walk->sizes[0] * walk->sizes[1] < kLeastPlane) return false;
    const int64_t least =
        takes_rows(cpu_jit_lanes(loop), walk->sizes[0]) ? CPU_CHAIN_LEAST_ROW : CPU_CHAIN_LEAST_ROW_ALONE;
    return walk->sizes[0] == (row ? row : walk->sizes[0]) && walk->sizes[0] >= least;
}

// ---- members

static int member_of(const Chain *chain, CpuValue v) {
    for (int i = chain->member_count; i-- > 0;)
        if (chain->members[i] == v) return i;
    return -1;
}

// Whether the value is the bits of another one as another type of the same width.
static bool is_other_name(const Chain *chain, const CpuLoopValue *value) {
    return value->kind == CPU_VALUE_ALIAS && value->immediate == 0 &&
           value->width == value_of(chain, value->operands[0])->width;
}

static bool is_uniform(const Chain *chain, CpuValue v) {
    return value_of(chain, v)->level == CPU_LEVEL_UNIFORM;
}

// Whether the value is a constant for code: a loop's constant, or one that a bf16 is decoded to.
static bool find_constant(const Chain *chain, CpuValue v, uint32_t *bits) {
    const CpuLoopValue *value = value_of(chain, v);
    const bool decoded = value->kind == CPU_VALUE_KERNEL && value->level == CPU_LEVEL_UNIFORM &&
                         value->kernel == chain->loop->kernels->decode[HLO_BF16];
    if (decoded) value = value_of(chain, value->operands[0]);
    if (value->kind != CPU_VALUE_CONSTANT || value->width > 4) return false;
    *bits = 0;
    memcpy(bits, value->constant, (size_t)value->width);
    if (decoded) *bits <<= 16;
    return true;
}

// Returns the number of the list that the operand is read from, a new one if need be; -1 if there is no room.
static int list_of(Chain *chain, CpuValue v, bool one) {
    for (int i = 0; i < chain->read_count; i++)
        if (chain->lists[i] == v && chain->ones[i] == one) return i;
    if (chain->read_count == CPU_CHAIN_LISTS) return -1;
    chain->lists[chain->read_count] = v;
    chain->ones[chain->read_count] = one;
    return chain->read_count++;
}

// Returns whether the value is one number for each row, and code takes row after row.
static bool is_one_per_row(const Chain *chain, CpuValue v) {
    const CpuLoopValue *value = value_of(chain, v);
    return chain->maker->in_rows[v] && (value->kind == CPU_VALUE_EXPAND || value->walk.strides[0] == 0);
}

static bool reads_one(const Chain *chain, const CpuJitKernel *kernel, CpuValue operand, int i) {
    const bool one_per_row = is_one_per_row(chain, operand);
    return is_uniform(chain, operand) || one_per_row || (kernel->ones >> i & 1) != 0;
}

// Makes lists of the operands that come from outside; false if there is no room.
static bool add_reads(Chain *chain, const CpuLoopValue *value, const CpuJitKernel *kernel) {
    const int before = chain->read_count;
    uint32_t bits;
    for (int i = 0; i < cpu_jit_kernel_arity(kernel); i++) {
        const CpuValue v = value->operands[i];
        const bool one = reads_one(chain, kernel, v, i);
        const bool fits =
            value_of(chain, v)->width <= 4 && (!one || is_uniform(chain, v) || value_of(chain, v)->width == 4);
        if (member_of(chain, v) >= 0 && !one) continue;
        if (is_uniform(chain, v) && find_constant(chain, v, &bits)) continue;
        if (!fits || list_of(chain, v, one) < 0) {
            chain->read_count = before;
            return false;
        }
    }
    return true;
}

// Returns where the elements of a register are in scratch memory, -1 if they are not there.
static int64_t slot_of(const Chain *chain, CpuValue v) {
    const CpuLoopValue *value = value_of(chain, v);
    while (value->kind == CPU_VALUE_ALIAS ||
           (value->kind == CPU_VALUE_EXPAND &&
            (chain->maker->in_rows[v] || cpu_loop_expands_in_place(chain->loop, value)))) {
        v = value->operands[0];
        value = value_of(chain, v);
    }
    if (chain->maker->in_rows[v]) return -1;
    return value->slot > 0 && value->stored_by < 0 ? value->slot : -1;
}

// Whether writing the register of `v`, of that width, would overwrite what the chain reads from outside; elements of
// `width` take the place of others of that width in time, of 0 never. What is read as one element for all is read again
// for each vector.
static bool overwrites(const Chain *chain, CpuValue v, int width) {
    const int64_t slot = slot_of(chain, v);
    for (int i = 0; i < chain->read_count && slot >= 0; i++) {
        const CpuValue read = chain->lists[i];
        if (slot_of(chain, read) != slot || read == v) continue;
        if (chain->ones[i] || value_of(chain, read)->kind == CPU_VALUE_ALIAS || value_of(chain, read)->width != width)
            return true;
    }
    return false;
}

// Whether a step may move in front of the chain. A kernel that writes to an array must not: the chain may read it.
static bool may_move(const Chain *chain, CpuValue v) {
    const CpuLoopValue *value = value_of(chain, v);
    if (value->kind != CPU_VALUE_LOAD && value->kind != CPU_VALUE_INDEX && value->kind != CPU_VALUE_EXPAND &&
        value->kind != CPU_VALUE_ALIAS && value->kind != CPU_VALUE_KERNEL)
        return false;
    if (value->stored_by >= 0) return false;
    for (int i = 0; i < 3; i++)
        if (value->operands[i] >= 0 && member_of(chain, value->operands[i]) >= 0) return false;
    return value->kind == CPU_VALUE_ALIAS || !overwrites(chain, v, 0);
}

static bool find_kernel(const Chain *chain, CpuBlockKernel *kernel, CpuJitKernel *is) {
    uintptr_t address;
    memcpy(&address, &kernel, sizeof address);
    Known *known = &chain->maker->known[(address >> 4) % kKnown];
    if (known->kernel != kernel || !kernel) {
        known->kernel = kernel;
        known->found = cpu_jit_kernel_find_vector(chain->loop, kernel, &known->is);
    }
    *is = known->is;
    return known->found;
}

static bool add_member(Chain *chain, CpuValue v) {
    const CpuLoopValue *value = value_of(chain, v);
    CpuJitKernel *kernel = &chain->kernels[chain->member_count];
    if (chain->member_count == kMostMembers || value->level != chain->level || value->width > 4) return false;
    if (is_other_name(chain, value) && member_of(chain, value->operands[0]) >= 0) {
        chain->members[chain->member_count++] = v;
        return true;
    }
    if (value->kind != CPU_VALUE_KERNEL || value->in_combiner || !find_kernel(chain, value->kernel, kernel))
        return false;
    if (!add_reads(chain, value, kernel)) return false;
    chain->members[chain->member_count++] = v;
    chain->kernel_count++;
    return true;
}

// Whether the member is read outside of the chain, or is in an array.
static bool is_result(const Chain *chain, int member) {
    const CpuValue v = chain->members[member];
    int inside = 0;
    if (value_of(chain, v)->stored_by >= 0) return true;
    for (int i = member + 1; i < chain->member_count; i++)
        for (int k = 0; k < 3; k++) inside += value_of(chain, chain->members[i])->operands[k] == v;
    if (chain->sum >= 0) inside += value_of(chain, chain->sum)->operands[0] == v;
    return chain->uses[v] > inside;
}

// Adds the lists of results; false if there is no room, or if one must not be written before all operands are read.
// A member that has other names must be in a register if these are read outside.
static bool add_results(Chain *chain) {
    bool needed[kMostMembers];
    chain->list_count = chain->read_count;
    for (int i = chain->member_count; i-- > 0;) {
        const CpuLoopValue *value = value_of(chain, chain->members[i]);
        needed[i] = is_result(chain, i);
        for (int j = i + 1; j < chain->member_count && !needed[i]; j++) {
            const CpuLoopValue *name = value_of(chain, chain->members[j]);
            needed[i] = needed[j] && name->kind == CPU_VALUE_ALIAS && name->operands[0] == chain->members[i];
        }
        if (!needed[i] || value->kind == CPU_VALUE_ALIAS) continue;
        if (chain->list_count == CPU_CHAIN_LISTS || overwrites(chain, chain->members[i], value->width)) return false;
        chain->ones[chain->list_count] = false;
        chain->lists[chain->list_count++] = chain->members[i];
    }
    if (chain->sum < 0) return true;
    if (chain->list_count + 1 >= CPU_CHAIN_LISTS) return false;  // sums have two addresses
    chain->ones[chain->list_count] = true;
    chain->lists[chain->list_count++] = chain->sum;
    return true;
}

// Returns the operation of a reduction whose lanes code can compute: a sum, a maximum or a minimum of f32; else
// CPU_JIT_OP_COUNT.
static CpuJitOp reduction_of(const CpuLoop *loop, const CpuLoopValue *value) {
    static const struct {
        CpuReduceOp reduce;
        CpuJitOp op;
    } kReductions[] = {{CPU_REDUCE_ADD, CPU_VALUE_ADD_F},
                       {CPU_REDUCE_MAXIMUM, CPU_VALUE_MAXIMUM_F},
                       {CPU_REDUCE_MINIMUM, CPU_VALUE_MINIMUM_F}};
    for (size_t i = 0; value->kind == CPU_VALUE_REDUCE && i < HLO_COUNT_OF(kReductions); i++)
        if (value->reduce == loop->kernels->reduce[kReductions[i].reduce][CPU_REGISTER_F32]) return kReductions[i].op;
    return CPU_JIT_OP_COUNT;
}

// Returns whether the value is the sum of a member over the rows of a block, or the maximum or minimum, whose lanes
// code can compute: rows are at most one leaf of the reduction's tree.
static bool is_sum(const Chain *chain, CpuValue v) {
    const CpuLoop *loop = chain->loop;
    const CpuLoopValue *value = value_of(chain, v);
    const CpuJitOp op = reduction_of(loop, value);
    if (op == CPU_JIT_OP_COUNT) return false;
    if (loop->reduced < kLeastReduced || (loop->reduced > CPU_REDUCE_CHUNK && !loop->phases)) return false;
    return cpu_jit_lanes(loop) >= 8 && loop->mode == CPU_MODE_ROWS && member_of(chain, value->operands[0]) >= 0;
}

// Returns how many kernels the chain counts for. A clamp alone is a maximum and a minimum.
static int weight_of(const Chain *chain) {
    int weight = chain->kernel_count;
    for (int i = 0; i < chain->member_count; i++)
        weight += value_of(chain, chain->members[i])->kind == CPU_VALUE_KERNEL &&
                  chain->kernels[i].kind == CPU_JIT_OPERATION && chain->kernels[i].which == CPU_OP_CLAMP;
    return weight;
}

// Returns how many members are functions.
static int function_count(const Chain *chain) {
    int count = 0;
    for (int i = 0; i < chain->member_count; i++)
        count +=
            value_of(chain, chain->members[i])->kind == CPU_VALUE_KERNEL && chain->kernels[i].kind == CPU_JIT_FUNCTION;
    return count;
}

// Returns whether the interpreter would copy the value to a register, which code need not do.
static bool is_copied_otherwise(const Chain *chain, CpuValue v) {
    if (!chain->maker->in_rows[v]) return false;
    return chain->loop->reduced <= 1 || (value_of(chain, v)->kind == CPU_VALUE_EXPAND && is_one_per_row(chain, v));
}

// Takes the steps from `begin` on that can be one chain, at most `most` kernels. Returns whether they are worth it.
static bool collect(Chain *chain, const CpuLoopSteps *steps, int64_t begin, int most) {
    chain->member_count = chain->kernel_count = chain->read_count = 0;
    chain->sum = -1;
    chain->level = value_of(chain, steps->items[begin].value)->level;
    chain->end = begin;
    if (value_of(chain, steps->items[begin].value)->kind != CPU_VALUE_KERNEL) return false;
    if (chain->loop->reduced > 1 && chain->level != CPU_LEVEL_FULL) return false;
    for (int64_t i = begin; i < steps->count && i - begin < kMostSteps && chain->sum < 0; i++) {
        const CpuValue v = steps->items[i].value;
        if (is_sum(chain, v)) {
            chain->sum = v;
            chain->end = i + 1;
        } else if (chain->kernel_count < most && add_member(chain, v))
            chain->end = i + 1;
        else if (i == begin || !may_move(chain, v))
            break;
    }
    if (chain->sum >= 0 && function_count(chain) == 0) return true;  // functions take longer than loads and stores
    for (int i = 0; i < chain->read_count; i++)
        if (is_copied_otherwise(chain, chain->lists[i])) return chain->kernel_count > 0;
    return weight_of(chain) >= (chain->loop->reduced > 1 ? kLeastReducedKernels : kLeastKernels);
}

// ---- code

// Returns the bytes between the first element of a list and those of a vector.
static int64_t offset_of(const Chain *chain, int vector, CpuValue v) {
    return (int64_t)vector * cpu_jit_lanes(chain->loop) * value_of(chain, v)->width;
}

// Returns the value for an operand.
static int32_t read_operand(Chain *chain, CpuJitBlock *block, int vector, const int32_t *numbers, CpuValue v,
                            bool one) {
    uint32_t bits;
    const int member = one ? -1 : member_of(chain, v);
    if (member >= 0) return numbers[member];
    if (is_uniform(chain, v) && find_constant(chain, v, &bits)) return cpu_jit_constant(block, bits, false);
    CpuJitAddress address = {.base = list_of(chain, v, one), .moved = -1};
    assert(address.base >= 0);
    if (!one) address.offset = offset_of(chain, vector, v);
    return cpu_jit_read(block, address, value_of(chain, v)->width);
}

// Returns the value of member `i` for a vector, given those of the members before.
static int32_t make_member(Chain *chain, CpuJitBlock *block, int vector, const int32_t *numbers, int i) {
    const CpuLoopValue *value = value_of(chain, chain->members[i]);
    if (value->kind == CPU_VALUE_ALIAS) return cpu_jit_byte(block, numbers[member_of(chain, value->operands[0])]);
    const CpuJitKernel *kernel = &chain->kernels[i];
    int32_t operands[3] = {-1, -1, -1};
    for (int k = 0; k < cpu_jit_kernel_arity(kernel); k++) {
        const CpuValue v = value->operands[k];
        operands[k] = read_operand(chain, block, vector, numbers, v, reads_one(chain, kernel, v, k));
    }
    return cpu_jit_kernel_apply(block, kernel, operands, value->immediate);
}

static void make_stores(const Chain *chain, CpuJitBlock *block, int vector, const int32_t *numbers) {
    for (int i = chain->read_count; i < chain->list_count; i++) {
        const CpuValue v = chain->lists[i];
        if (v == chain->sum) continue;
        CpuJitValue *store = cpu_jit_effect(block, CPU_EFFECT_STORE);
        store->operands[0] = numbers[member_of(chain, v)];
        store->width = value_of(chain, v)->width;
        store->address = (CpuJitAddress){.base = i, .moved = -1, .offset = offset_of(chain, vector, v)};
    }
}

// Builds the block for some vectors side by side: all members, and then the stores.
static void make_block(Chain *chain, CpuJitBlock *block, int vectors) {
    int32_t numbers[CPU_JIT_VECTORS][kMostMembers];
    assert(vectors <= CPU_JIT_VECTORS);
    cpu_jit_block_begin(block);
    block->fits = true;
    for (int i = 0; i < chain->member_count; i++)
        for (int k = 0; k < vectors; k++) numbers[k][i] = make_member(chain, block, k, numbers[k], i);
    for (int k = 0; k < vectors; k++) make_stores(chain, block, k, numbers[k]);
    if (chain->sum < 0) return;
    assert(vectors == 1);
    const CpuLoopValue *sum = value_of(chain, chain->sum);
    CpuJitValue *effect = cpu_jit_effect(block, CPU_EFFECT_SUM);
    effect->operands[0] = numbers[0][member_of(chain, sum->operands[0])];
    effect->target = (int32_t)reduction_of(chain->loop, sum);
}

static void append(Maker *maker, const void *bytes, int64_t count) {
    for (int64_t i = 0; i < count; i++) hlo_vector_push(maker->scratch, &maker->code, ((const uint8_t *)bytes)[i]);
}

// Appends the code of the block for vectors of `lanes`; false if it does not fit.
static bool append_code(Maker *maker, CpuJitWide wide, CpuJitList *lists, int count, int lanes, int64_t row) {
    if (lanes == CPU_JIT_NEON_LANES) {
        CpuNeonCode code = {.arena = maker->scratch, .fits = true};
        cpu_jit_emit_neon(&code, &maker->block, lists, count);
        if (code.fits) append(maker, code.words.items, code.words.count * (int64_t)sizeof *code.words.items);
        return code.fits;
    }
    CpuJitEmitter emitter = {.fits = true};
    emitter.x86.arena = maker->scratch;
    cpu_jit_emit_vectors(&emitter, &maker->block, wide, lists, count, lanes, row);
    if (emitter.fits) append(maker, emitter.x86.bytes.items, emitter.x86.bytes.count);
    return emitter.fits;
}

// Makes the block for several vectors at once, if that is worth it.
static CpuJitWide make_wide(Chain *chain, const CpuJitList *lists) {
    Maker *maker = chain->maker;
    const int lanes = cpu_jit_lanes(chain->loop);
    CpuJitWide wide = {&maker->wide, 1};
    if (lanes == CPU_JIT_NEON_LANES || chain->sum >= 0) return wide;
    wide.vectors = cpu_jit_vectors_at_once(&maker->block, lists, lanes);
    if (wide.vectors > 1) make_block(chain, wide.block, wide.vectors);
    return wide;
}

// Returns the elements of a row if code takes rows whole, else 0.
static int64_t row_of(const Chain *chain) {
    const int64_t row = chain->loop->reduced > 1 ? chain->loop->reduced : chain->maker->row;
    return chain->list_count < CPU_CHAIN_LISTS && takes_rows(cpu_jit_lanes(chain->loop), row) ? row : 0;
}

// Appends the code of the chain and returns it as the interpreter calls it; NULL if it does not fit.
static const CpuLoopChain *emit(Chain *chain) {
    Maker *maker = chain->maker;
    CpuJitList lists[CPU_JIT_LISTS];
    for (int i = 0; i < chain->list_count; i++)
        lists[i] = (CpuJitList){.one = chain->ones[i], .sum = chain->lists[i] == chain->sum};
    make_block(chain, &maker->block, 1);
    if (!maker->block.fits) return NULL;
    const CpuJitWide wide = make_wide(chain, lists);
    // Those of values but for a few, which constants that all iterations need may keep.
    const int registers = cpu_jit_lanes(chain->loop) == 8 ? 12 : 26;
    cpu_jit_block_schedule(&maker->block, registers);
    if (wide.vectors > 1) cpu_jit_block_schedule(wide.block, registers);
    while (maker->code.count % kCodeAlignment) hlo_vector_push(maker->scratch, &maker->code, (uint8_t)0xcc);
    const int64_t offset = maker->code.count;
    const int64_t row = row_of(chain);
    const int lanes = cpu_jit_lanes(chain->loop);
    if (!append_code(maker, wide, lists, chain->list_count, lanes, row) &&
        !(wide.vectors > 1 && append_code(maker, (CpuJitWide){NULL, 1}, lists, chain->list_count, lanes, row)))
        return NULL;
    CpuLoopChain *made = HLO_ARENA_NEW(maker->arena, CpuLoopChain, 1);
    made->lists = hlo_arena_copy(maker->arena, chain->lists, sizeof(CpuValue) * (size_t)chain->list_count);
    made->ones = hlo_arena_copy(maker->arena, chain->ones, sizeof(bool) * (size_t)chain->list_count);
    made->list_count = chain->list_count;
    made->read_count = chain->read_count;
    made->lanes = lanes;
    made->row = row;
    made->kernel_count = chain->kernel_count;
    made->sums = chain->sum >= 0;
    if (chain->sum >= 0) {
        made->sum_op = value_of(chain, chain->sum)->reduce_op;
        made->sum_kernel = chain->loop->fold[value_of(chain, chain->sum)->partial];
        hlo_vector_push(maker->scratch, &maker->sums, &chain->loop->values[chain->sum]);
    }
    made->full = chain->level == CPU_LEVEL_FULL;
    const Placed placed = {made, offset};
    hlo_vector_push(maker->scratch, &maker->placed, placed);
    return made;
}

// ---- loops

// Writes the steps of [begin, chain->end) anew: what moves, the chain, other names of its results.
static void write_steps(const Chain *chain, const CpuLoopChain *made, const CpuLoopSteps *steps, int64_t begin,
                        CpuLoopStep *to, int64_t *count) {
    for (int names = 0; names < 2; names++) {
        for (int64_t i = begin; i < chain->end; i++) {
            const CpuLoopStep *step = &steps->items[i];
            const bool is_member = member_of(chain, step->value) >= 0 || step->value == chain->sum;
            if (is_member && value_of(chain, step->value)->kind == CPU_VALUE_KERNEL) continue;
            if (is_member == (names != 0)) to[(*count)++] = *step;
        }
        if (!names) to[(*count)++] = (CpuLoopStep){.chain = made};
    }
}

// Finds the chain that begins with this step, and makes its code.
static const CpuLoopChain *make_chain(Chain *chain, const CpuLoopSteps *steps, int64_t begin) {
    for (int most = kMostMembers; collect(chain, steps, begin, most); most = chain->kernel_count / 2)
        if (add_results(chain)) {
            const CpuLoopChain *made = emit(chain);
            if (made) return made;
        }
    return NULL;
}

// Makes chains of a list of steps.
static void make_steps(Maker *maker, const CpuLoop *loop, const int *uses, CpuLoopSteps *steps) {
    Chain chain = {.maker = maker, .loop = loop, .uses = uses};
    CpuLoopStep *to = HLO_ARENA_NEW(maker->arena, CpuLoopStep, steps->count);
    int64_t count = 0, kernels = 0;
    for (int64_t i = 0; i < steps->count;) {
        const CpuLoopChain *made = make_chain(&chain, steps, i);
        if (!made) {
            to[count++] = steps->items[i++];
            continue;
        }
        write_steps(&chain, made, steps, i, to, &count);
        kernels += chain.kernel_count;
        i = chain.end;
    }
    if (kernels == 0) return;
    const Replaced replaced = {steps, {.items = to, .count = count, .has_chains = true}};
    hlo_vector_push(maker->scratch, &maker->replaced, replaced);
    maker->kernels += kernels;
}

// Counts how often each value is read, except by stores that its kernel does.
static int *count_uses(Maker *maker, const CpuLoop *loop) {
    int *uses = HLO_ARENA_NEW(maker->scratch, int, loop->value_count + 1);
    for (CpuValue v = 0; v < loop->value_count; v++)
        for (int k = 0; k < 3 && loop->values[v].kind != CPU_VALUE_DROPPED; k++)
            if (loop->values[v].operands[k] >= 0) uses[loop->values[v].operands[k]]++;
    for (int i = 0; i < loop->combine_count; i++) {
        uses[loop->combine_values[i]]++;
        uses[loop->combined[i]]++;
        uses[loop->combine_inits[i]]++;
    }
    return uses;
}

// Returns the steps of a list that it will have.
static const CpuLoopSteps *new_steps(const Maker *maker, CpuLoopSteps *old, int64_t first_replaced) {
    for (int64_t r = first_replaced; r < maker->replaced.count; r++)
        if (maker->replaced.items[r].steps == old) return &maker->replaced.items[r].by;
    return old;
}

// How often each value is read: `interpreted` by steps of a kernel, and by what is no step at all, `generated` by
// chains. Steps are numbered from 1 on.
typedef struct Readers {
    int *interpreted, *generated;
    bool *in_steps;
    int64_t *made_at;   // the step of the chain whose result the value is, or 0
    int64_t last_load;  // the last step that reads a load
} Readers;

static void count_reader(const CpuLoop *loop, CpuValue v, const Readers *readers) {
    for (int k = 0; k < 3; k++)
        if (loop->values[v].operands[k] >= 0) readers->interpreted[loop->values[v].operands[k]]++;
}

// Returns whether the value's elements may be those of an array.
static bool is_loaded(const CpuLoop *loop, CpuValue v) {
    while (loop->values[v].kind == CPU_VALUE_ALIAS || loop->values[v].kind == CPU_VALUE_EXPAND)
        v = loop->values[v].operands[0];
    return loop->values[v].kind == CPU_VALUE_LOAD && loop->values[v].level != CPU_LEVEL_UNIFORM;
}

static void count_step(const CpuLoop *loop, const CpuLoopStep *step, int64_t number, Readers *readers) {
    const CpuLoopChain *chain = step->chain;
    if (!chain) count_reader(loop, step->value, readers);
    for (int k = 0; k < 3 && !chain; k++) {
        const CpuValue operand = loop->values[step->value].operands[k];
        if (operand >= 0 && is_loaded(loop, operand)) readers->last_load = number;
    }
    for (int i = 0; chain && i < chain->list_count; i++) {
        const CpuValue v = chain->lists[i];
        readers->generated[v] += i < chain->read_count;
        if (i >= chain->read_count) readers->made_at[v] = number;
        if (i < chain->read_count && is_loaded(loop, v)) readers->last_load = number;
    }
}

static Readers count_readers(Maker *maker, const CpuLoop *loop, int64_t first_replaced) {
    Readers readers = {.interpreted = HLO_ARENA_NEW(maker->scratch, int, loop->value_count + 1),
                       .generated = HLO_ARENA_NEW(maker->scratch, int, loop->value_count + 1),
                       .in_steps = HLO_ARENA_NEW(maker->scratch, bool, loop->value_count + 1),
                       .made_at = HLO_ARENA_NEW(maker->scratch, int64_t, loop->value_count + 1)};
    const int lists = loop->phases ? loop->phase_count : 1;
    for (int p = 0; p < lists; p++) {
        CpuLoopSteps *old = loop->phases ? &loop->phases[p].steps : loop->steps;
        const CpuLoopSteps *steps = new_steps(maker, old, first_replaced);
        for (int64_t i = 0; i < old->count; i++) readers.in_steps[old->items[i].value] = true;
        for (int64_t i = 0; i < steps->count; i++) count_step(loop, &steps->items[i], i + 1, &readers);
    }
    for (int i = 0; i < loop->combine_count; i++) {
        readers.interpreted[loop->combine_values[i]]++;
        readers.interpreted[loop->combined[i]]++;
        readers.interpreted[loop->combine_inits[i]]++;
    }
    return readers;
}

// Finds the values that exist once and are read by code, or for such values, only.
static void find_few(Maker *maker, const CpuLoop *loop, const Readers *readers) {
    for (CpuValue v = (CpuValue)loop->value_count - 1; v >= 0; v--) {
        CpuLoopValue *value = &loop->values[v];
        if (value->kind == CPU_VALUE_DROPPED) continue;
        const bool few = value->level == CPU_LEVEL_UNIFORM && !readers->interpreted[v] && value->width <= 4;
        if (few)
            hlo_vector_push(maker->scratch, &maker->few, value);
        else if (!readers->in_steps[v])
            count_reader(loop, v, readers);
    }
}

// Returns whether code may write the store's elements when it computes them. They must not be read otherwise, and no
// later step may read an array, since the result's may be the same one.
static bool may_write(const CpuLoop *loop, CpuValue store, const Readers *readers) {
    const CpuValue v = loop->values[store].operands[0];
    if (!readers->in_steps[store] || !readers->made_at[v] || readers->made_at[v] < readers->last_load) return false;
    return readers->interpreted[v] == 1 && !readers->generated[v] && loop->values[v].stored_by < 0 &&
           loop->values[v].level == loop->values[store].level;
}

// Returns whether only code reads the value.
static bool is_only_generated(const Readers *readers, CpuValue v) {
    return readers->generated[v] && !readers->interpreted[v];
}

// Returns the elements of the rows of a loop's arrays, 0 if there are none: loads that are no runs have rows of one
// length. Assumes of all of these that only code will read them, in which case they have no registers that could be in
// the way of chains.
static int64_t assume_rows(Maker *maker, const CpuLoop *loop) {
    // Rows that are reduced are those of all arrays, since numbers of rows and sums are taken row by row too.
    int64_t row = loop->mode == CPU_MODE_ROWS && loop->reduced >= kLeastReduced ? loop->reduced : 0;
    maker->in_rows = HLO_ARENA_NEW(maker->scratch, bool, loop->value_count + 1);
    for (CpuValue v = 0; v < loop->value_count && !loop->phases; v++) {
        const CpuLoopValue *value = &loop->values[v];
        if (value->kind == CPU_VALUE_DROPPED || !has_rows(loop, value, row)) continue;
        if (!row) row = value->walk.sizes[0];
        maker->in_rows[v] = value->kind != CPU_VALUE_STORE;
    }
    return row;
}

// Drops assumptions that have proved wrong. Returns whether there are any.
static bool was_wrong(Maker *maker, const CpuLoop *loop, const Readers *readers) {
    bool wrong = false;
    for (CpuValue v = 0; v < loop->value_count; v++) {
        if (!maker->in_rows[v] || is_only_generated(readers, v)) continue;
        maker->in_rows[v] = false;
        wrong = true;
    }
    return wrong;
}

// Finds the arrays that code reads or writes where they are, in one piece or in rows of `row` elements: these need no
// copies in registers.
static void find_rows(Maker *maker, const CpuLoop *loop, int64_t row, const Readers *readers) {
    for (CpuValue v = 0; v < loop->value_count && !loop->phases; v++) {
        const CpuLoopValue *value = &loop->values[v];
        const Rows rows = {loop->values, v};
        const bool writes = value->kind == CPU_VALUE_STORE && may_write(loop, v, readers) &&
                            (value->walk.contiguous || (row && has_rows(loop, value, row)));
        if (maker->in_rows[v] || writes) hlo_vector_push(maker->scratch, &maker->rows, rows);
    }
}

// Makes chains of all steps of a loop.
static void make_chains(Maker *maker, const CpuLoop *loop, const int *uses) {
    if (!loop->phases) make_steps(maker, loop, uses, loop->steps);
    for (int p = 0; loop->phases && p < loop->phase_count; p++) make_steps(maker, loop, uses, &loop->phases[p].steps);
}

// Lengths of a maker's lists.
typedef struct Lengths {
    int64_t code, placed, replaced, sums, kernels;
} Lengths;

static Lengths lengths_of(const Maker *maker) {
    return (Lengths){maker->code.count, maker->placed.count, maker->replaced.count, maker->sums.count, maker->kernels};
}

// Forgets the chains since the lists had these lengths.
static void forget_chains(Maker *maker, Lengths lengths) {
    maker->code.count = lengths.code;
    maker->placed.count = lengths.placed;
    maker->replaced.count = lengths.replaced;
    maker->sums.count = lengths.sums;
    maker->kernels = lengths.kernels;
}

static void make_loop(Maker *maker, const CpuLoop *loop) {
    const int64_t elements = loop->kept * (loop->reduced > 1 ? loop->reduced : 1), first = maker->replaced.count;
    if (loop->small_loop || loop->steps->has_chains || elements < kLeastElements) return;
    if (loop->value_count > kMostValues) return;
    if (cpu_jit_lanes(loop) == 0) return;
    loop->steps->has_chains = true;
    const int *uses = count_uses(maker, loop);
    maker->row = assume_rows(maker, loop);
    Readers readers;
    for (;;) {
        const Lengths before = lengths_of(maker);
        make_chains(maker, loop, uses);
        readers = count_readers(maker, loop, first);
        if (!was_wrong(maker, loop, &readers)) break;
        forget_chains(maker, before);
    }
    if (maker->replaced.count == first) return;
    hlo_vector_push(maker->scratch, &maker->loops, loop);
    find_few(maker, loop, &readers);
    find_rows(maker, loop, maker->row, &readers);
}

static void make_list(Maker *maker, const CpuThunkList *list) {
    for (int64_t i = 0; i < list->count; i++) {
        const CpuThunk *thunk = &list->thunks[i];
        for (int32_t k = 0; k < thunk->loop_count; k++) make_loop(maker, thunk->loops[k].loop);
        for (int32_t r = 0; r < thunk->region_count; r++) make_list(maker, &thunk->regions[r]);
    }
}

// Returns the elements of an index: of one row, or one for each row.
static const int32_t *table_of(HloArena *arena, const CpuWalk *walk) {
    const int along = walk->strides[0] == 0;
    int32_t *table = HLO_ARENA_NEW(arena, int32_t, walk->sizes[along]);
    for (int64_t i = 0; i < walk->sizes[along]; i++) table[i] = (int32_t)(walk->offset + i * walk->strides[along]);
    return table;
}

// Lets code read or write the array itself.
static void use_rows(HloArena *arena, Rows rows) {
    CpuLoopValue *value = &rows.values[rows.value];
    if (value->kind == CPU_VALUE_INDEX) value->table = table_of(arena, &value->walk);
    if (value->kind != CPU_VALUE_STORE) {
        value->in_rows = true;
        return;
    }
    value->is_written = true;
    rows.values[value->operands[0]].in_rows = !value->walk.contiguous;
    rows.values[value->operands[0]].stored_by = rows.value;
}

// Returns whether the step needs no register of a block: it only names where an array or a table is, or is code that
// writes arrays, or has been done by such code.
static bool is_in_arrays(const CpuLoop *loop, const CpuLoopStep *step) {
    const CpuLoopValue *value = &loop->values[step->value];
    if (!step->chain)
        return value->in_rows || (value->kind == CPU_VALUE_LOAD && value->walk.contiguous) ||
               (value->kind == CPU_VALUE_STORE && value->is_written);
    for (int i = step->chain->read_count; i < step->chain->list_count - step->chain->sums; i++)
        if (loop->values[step->chain->lists[i]].stored_by < 0) return false;
    return true;
}

// Lengthens the blocks of loops without registers for all elements: calls between short ones would take a third of the
// time. Rows that are reduced have registers of one number each, for CPU_CHAIN_ROWS rows.
static void lengthen_blocks(const CpuLoop *loop) {
    enum { kLong = 4 * CPU_LOOP_BLOCK };
    if (loop->mode != CPU_MODE_ROWS || loop->phases || (loop->reduced > 1 && loop->block == 1)) return;
    for (int64_t i = 0; i < loop->steps->count; i++) {
        const CpuLoopStep *step = &loop->steps->items[i];
        const bool full = step->chain ? step->chain->full : loop->values[step->value].level == CPU_LEVEL_FULL;
        if ((full || loop->reduced <= 1) && !is_in_arrays(loop, step)) return;
    }
    const int64_t rows = loop->reduced > 1 ? hlo_smaller(kLong / loop->reduced, CPU_CHAIN_ROWS) : kLong;
    if (rows > loop->block) loop->steps->block = rows;
}

// Gives the code memory, and then the loops their new steps.
static CpuChains *finish(Maker *maker) {
    if (maker->code.count == 0) return NULL;
    CpuChains *chains = HLO_ARENA_NEW(maker->arena, CpuChains, 1);  // first: running out of memory leaves this function
    char *memory = cpu_jit_memory_new(maker->code.items, (size_t)maker->code.count);
    if (!memory) return NULL;
    *chains = (CpuChains){memory, maker->code.count, maker->kernels};
    for (int64_t i = 0; i < maker->placed.count; i++) {
        char *at = memory + maker->placed.items[i].offset;
        memcpy(&maker->placed.items[i].chain->run, &at, sizeof at);  // C does not convert it to a function's address
    }
    for (int64_t i = 0; i < maker->replaced.count; i++) {
        maker->replaced.items[i].steps->items = maker->replaced.items[i].by.items;
        maker->replaced.items[i].steps->count = maker->replaced.items[i].by.count;
    }
    for (int64_t i = 0; i < maker->few.count; i++) maker->few.items[i]->few_read = true;
    for (int64_t i = 0; i < maker->sums.count; i++) maker->sums.items[i]->in_sums = true;
    for (int64_t i = 0; i < maker->rows.count; i++) use_rows(maker->arena, maker->rows.items[i]);
    for (int64_t i = 0; i < maker->loops.count; i++) lengthen_blocks(maker->loops.items[i]);
    return chains;
}

static Maker *new_maker(HloArena *arena, HloArena *scratch) {
    Maker *maker = HLO_ARENA_NEW(scratch, Maker, 1);
    maker->arena = arena;
    maker->scratch = maker->block.arena = maker->wide.arena = scratch;
    return maker;
}

CpuChains *cpu_chains_of_program(HloArena *arena, HloArena *scratch, const CpuThunkList *list) {
    Maker *maker = new_maker(arena, scratch);
    make_list(maker, list);
    return finish(maker);
}

CpuChains *cpu_chains_of_loop(HloArena *arena, HloArena *scratch, const CpuLoop *loop) {
    Maker *maker = new_maker(arena, scratch);
    make_loop(maker, loop);
    return finish(maker);
}

int64_t cpu_chains_bytes(const CpuChains *chains) {
    return chains ? chains->bytes : 0;
}

int64_t cpu_chains_kernels(const CpuChains *chains) {
    return chains ? chains->kernels : 0;
}

void cpu_chains_free(CpuChains *chains) {
    if (chains) cpu_jit_memory_free(chains->memory, (size_t)chains->bytes);
}
