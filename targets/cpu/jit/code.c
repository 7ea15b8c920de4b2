// SPDX-License-Identifier: Apache-2.0
// Machine code for while loops with short bodies. A call of a kernel for one element takes several times as long as the
// element, and kernels pass values to each other through memory; here the elements of short arrays are values in
// registers, and all steps of an iteration are contiguous code, except the few that are left to while_program.c.
//
// The steps of a program (while_program.c) are divided into blocks: straight stretches that are entered only at their
// beginning, that is at the target of a jump or after a step that leaves. Each becomes values (values.h), these become
// instructions (emit.c), and nothing is kept in a register from one block to the next. `begins` has the address of each
// block's code: cpu_while_code_run() enters there, and returns the number of a step that is not in the code.
//
//   steps    0 CALL  1 CALL  2 UNLESS -> 7  3 CALL  4 THUNK  5 CALL  6 GO -> 1  7
//   blocks   0       1 2 3 leave with 4                      5 6 go to 1        7 leave with 7, the end
//
// Steps of small loops are expressed in values if an array has kElements elements at most and kernels.c knows the
// kernel; any other kernel is called from the code, with the arguments that the interpreter would pass. So an iteration
// may be half code, half calls, and its bits are the same either way.
//
// If the system allows no executable memory (memory.h), there is no code and the list of calls is run.
#include <assert.h>
#include <string.h>

#include "targets/cpu/host/processor.h"
#include "targets/cpu/jit/emit.h"
#include "targets/cpu/jit/memory.h"

struct CpuWhileCode {
    const int64_t *begins;  // by step: the position of its code, or -1
    int64_t count;
    char *memory;
    size_t bytes;
};

// Maximum elements of arrays that become values; kernels process longer arrays.
enum { kElements = 4 };
// Bytes of a copy, multiplications of a product that become values.
enum { kCopiedBytes = 32, kMultiplications = 32 };

typedef struct Maker {
    HloArena *arena;
    const CpuWhileProgram *program;
    CpuJitEmitter emitter;
    CpuJitBlock block;
    bool *is_target;
    int64_t *begins;
    int32_t moved_count;
    int32_t *moved_of;  // by step: the number of its moved address
} Maker;

static CpuJitAddress address_of(CpuSlice slice) {
    return (CpuJitAddress){.base = slice.base, .moved = -1, .offset = slice.offset};
}

static CpuJitAddress offset_by(CpuJitAddress address, int64_t bytes) {
    address.offset += bytes;
    return address;
}

// ---- steps of small loops

// A loop's buffers, some of which move: the numbers of their addresses.
typedef struct Bound {
    const CpuThunkLoop *loop;
    int32_t moved[CPU_SMALL_BUFFERS];
} Bound;

static CpuJitAddress address_in(const Bound *bound, CpuSmallAddress address) {
    if (address.base == CPU_SMALL_IN_SCRATCH)
        return (CpuJitAddress){.base = CPU_JIT_IN_SCRATCH, .moved = -1, .offset = address.offset};
    if (address.base == CPU_SMALL_IN_CONSTANTS)
        return (CpuJitAddress){.base = CPU_JIT_CONSTANT,
                               .moved = -1,
                               .offset = address.offset,
                               .constant = cpu_small_loop_constants(bound->loop->loop->small_loop)};
    const int32_t number = address.base - CPU_SMALL_IN_FIRST_BUFFER;
    const CpuThunkBuffer *buffer = &bound->loop->buffers[number];
    CpuJitAddress found = address_of(buffer->slice);
    if (bound->moved[number] < 0) return offset_by(found, address.offset);
    // A small loop accesses nothing further away than its element count and strides allow: the array's own extent is
    // not known here, so the whole base is assumed.
    found.moved = bound->moved[number];
    found.offset = address.offset;
    found.low = 0;
    found.high = INT64_MAX;
    return found;
}

// Returns the element numbers of a copy by table, among the loop's constants.
static const int32_t *table_of(const Bound *bound, const CpuSmallStep *step) {
    return (const int32_t *)(const void *)(cpu_small_loop_constants(bound->loop->loop->small_loop) +
                                           step->addresses[2].offset);
}

typedef struct Understood {
    bool is;
    CpuJitKernel kernel;
} Understood;

static bool has_width(int width) {
    return width == 1 || width == 4 || width == 8;
}

// Determines whether, and as which kernel, the step can be expressed in values. A reduction has rows of `immediate`
// elements, and the address of its kernel among the loop's constants.
static Understood understand(const Bound *bound, const CpuSmallStep *step) {
    const CpuLoop *loop = bound->loop->loop;
    Understood u = {.is = false};
    if (step->form == CPU_SMALL_KERNEL) {
        u.is = step->count <= kElements && cpu_jit_kernel_find(loop, step->kernel, &u.kernel);
    } else if (step->form == CPU_SMALL_REDUCE) {
        CpuReduceKernel *reduce;
        memcpy(&reduce, cpu_small_loop_constants(loop->small_loop) + step->addresses[2].offset, sizeof reduce);
        u.is = step->count * step->immediate <= 2 * kElements && step->immediate > 0 &&
               cpu_jit_kernel_find_reduce(loop, reduce, &u.kernel);
    } else {
        u.is = step->count <= kElements && has_width(step->width);
    }
    return u;
}

// Sums rows in the tree of isa/loop_reduce.inc, without its omitted parts: eight lanes are added lane i to lane i + 4,
// then + 2, then + 1. The order is part of the result's bits.
static void make_reduction(Maker *m, const Bound *bound, const CpuSmallStep *step, const CpuJitKernel *kernel) {
    const int width = cpu_jit_kernel_width(kernel, 0);
    const CpuJitAddress from = address_in(bound, step->addresses[1]), to = address_in(bound, step->addresses[0]);
    int32_t lanes[2 * kElements];
    for (int64_t row = 0; row < step->count; row++) {
        for (int64_t i = 0; i < step->immediate; i++)
            lanes[i] = cpu_jit_read(&m->block, offset_by(from, (row * step->immediate + i) * width), width);
        for (int64_t half = 2 * kElements / 2, count = step->immediate; half; half /= 2) {
            for (int64_t i = 0; i + half < count; i++) {
                const int32_t pair[3] = {lanes[i], lanes[i + half], -1};
                lanes[i] = cpu_jit_kernel_apply(&m->block, kernel, pair, 0);
            }
            count = count < half ? count : half;
        }
        cpu_jit_write(&m->block, offset_by(to, row * width), width, lanes[0]);
    }
}

// Makes one value for each element of the result, from the elements of the operands with the same number.
static void make_elements(Maker *m, const Bound *bound, const CpuSmallStep *step, const CpuJitKernel *kernel) {
    const int arity = cpu_jit_kernel_arity(kernel);
    for (int64_t i = 0; i < step->count; i++) {
        int32_t operands[3] = {-1, -1, -1};
        for (int k = 0; k < arity; k++) {
            const int width = cpu_jit_kernel_width(kernel, k);
            operands[k] =
                cpu_jit_read(&m->block, offset_by(address_in(bound, step->addresses[k + 1]), i * width), width);
        }
        const int32_t value = cpu_jit_kernel_apply(&m->block, kernel, operands, step->immediate);
        const int width = cpu_register_bytes(kernel->to);
        cpu_jit_write(&m->block, offset_by(address_in(bound, step->addresses[0]), i * width), width, value);
    }
}

// Copies elements, in order or by a table on one side. This emits no instruction: the value then has two addresses.
static void make_moves(Maker *m, const Bound *bound, const CpuSmallStep *step) {
    const CpuJitAddress from = address_in(bound, step->addresses[1]), to = address_in(bound, step->addresses[0]);
    const int32_t *table = step->form >= CPU_SMALL_COPY_FROM ? table_of(bound, step) : NULL;
    for (int64_t i = 0; i < step->count; i++) {
        const int64_t source = step->form == CPU_SMALL_COPY_FROM ? table[i] : i;
        const int64_t target = step->form == CPU_SMALL_COPY_TO ? table[i] : i;
        const int32_t value = cpu_jit_read(&m->block, offset_by(from, source * step->width), step->width);
        cpu_jit_write(&m->block, offset_by(to, target * step->width), step->width, value);
    }
}

// Makes a call, after which the bytes that it writes are unknown.
static void make_call(Maker *m, const CpuJitCall *call, int64_t written) {
    cpu_jit_effect(&m->block, CPU_EFFECT_CALL)->call = call;
    cpu_jit_forget(&m->block, call->addresses[0], written);
}

// Returns the bytes from the target's address to the last that the call writes; it writes none before it except by a
// table.
static int64_t written_by(Maker *m, const Bound *bound, const CpuSmallStep *step) {
    int64_t last = step->count - 1;
    if (step->form != CPU_SMALL_COPY_TO) return (last + 1) * step->width;
    const int32_t *table = table_of(bound, step);
    for (int64_t i = 0; i < step->count; i++) {
        if (table[i] < 0) m->block.fits = false;
        last = table[i] > last ? table[i] : last;
    }
    return (last + 1) * step->width;
}

static void call_step(Maker *m, const Bound *bound, const CpuSmallStep *step) {
    CpuJitCall *call = HLO_ARENA_NEW(m->arena, CpuJitCall, 1);
    *call = (CpuJitCall){.kernel = step->kernel, .count = step->count, .immediate = step->immediate};
    for (int i = 0; i < CPU_SMALL_ADDRESSES; i++) call->addresses[i] = address_in(bound, step->addresses[i]);
    make_call(m, call, written_by(m, bound, step));
}

// Makes the calls of the loop whose first one is number `at`; returns their number.
static int64_t make_loop(Maker *m, int64_t at) {
    const CpuWhileStep *first = &m->program->steps[at];
    const CpuSmallLoop *small_loop = first->loop->loop->small_loop;
    const CpuSmallStep *steps = cpu_small_loop_steps(small_loop);
    const int64_t length = cpu_small_loop_length(small_loop);
    Bound bound = {.loop = first->loop};
    int64_t move = at;  // the steps before the loop's find the positions of its buffers, in order
    for (int32_t i = first->loop->buffer_count - 1; i >= 0; i--) {
        const bool moves = first->loop->buffers[i].start_count > 0;
        if (i < CPU_SMALL_BUFFERS) bound.moved[i] = moves ? m->moved_of[move - 1] : -1;
        move -= moves;
    }
    Understood *understood = HLO_ARENA_NEW(m->arena, Understood, length + 1);
    bool calls = false;
    for (int64_t i = 0; i < length; i++) {
        understood[i] = understand(&bound, &steps[i]);
        calls = calls || !understood[i].is;
    }
    cpu_jit_block_begin_loop(&m->block, calls);
    for (int64_t i = 0; i < length; i++) {
        if (!understood[i].is)
            call_step(m, &bound, &steps[i]);
        else if (steps[i].form == CPU_SMALL_KERNEL)
            make_elements(m, &bound, &steps[i], &understood[i].kernel);
        else if (steps[i].form == CPU_SMALL_REDUCE)
            make_reduction(m, &bound, &steps[i], &understood[i].kernel);
        else
            make_moves(m, &bound, &steps[i]);
    }
    return length;
}

// ---- other steps

// Copies bytes of any type as the elements that they were stored as, if known: reading 8 bytes that were stored as
// twice 4 is slow.
static int width_at(const Maker *m, CpuJitAddress address, int64_t bytes) {
    if (bytes % 4 != 0) return 1;
    const bool halves = cpu_jit_knows(&m->block, address, 4) || cpu_jit_knows(&m->block, offset_by(address, 4), 4);
    return bytes % 8 == 0 && !halves ? 8 : 4;
}

static void make_copy(Maker *m, const CpuCopy *copy) {
    const CpuJitAddress from = address_of(copy->from), to = address_of(copy->to);
    if (copy->bytes <= kCopiedBytes && (copy->bytes % 4 == 0 || copy->bytes <= kElements)) {
        for (int64_t i = 0, width; i < copy->bytes; i += width) {
            width = width_at(m, offset_by(from, i), copy->bytes - i);
            cpu_jit_write(&m->block, offset_by(to, i), (int)width,
                          cpu_jit_read(&m->block, offset_by(from, i), (int)width));
        }
        return;
    }
    CpuJitCall *call = HLO_ARENA_NEW(m->arena, CpuJitCall, 1);
    *call = (CpuJitCall){.kernel = cpu_small_copy(copy->bytes), .addresses = {to, from}, .count = copy->bytes};
    call->addresses[2] = call->addresses[3] = from;  // unused
    make_call(m, call, copy->bytes);
}

static int32_t float_value(Maker *m, CpuJitOp op, bool wide, int32_t a, int32_t b) {
    return cpu_jit_value(&m->block, op, wide, a, b, -1);
}

// Sums the terms in the order that CpuMatmulElements defines.
static int32_t make_sum(Maker *m, const CpuMatmulElements *e, int32_t *terms) {
    const bool wide = e->type == HLO_F64;
    const int32_t zero = cpu_jit_constant(&m->block, 0, wide);
    if (!e->by_halves) {
        int32_t sum = zero;
        for (int64_t k = 0; k < e->depth; k++) sum = float_value(m, CPU_VALUE_ADD_F, wide, sum, terms[k]);
        return sum;
    }
    for (int64_t half = kMultiplications / 2, count = e->depth; half; half /= 2) {
        for (int64_t k = 0; k + half < count; k++)
            terms[k] = float_value(m, CPU_VALUE_ADD_F, wide, terms[k], terms[k + half]);
        count = count < half ? count : half;
    }
    return float_value(m, CPU_VALUE_ADD_F, wide, terms[0], zero);
}

// Multiplies matrix and vector in the order of sums of the kernel that it replaces. All sums are computed before the
// first is stored: the result may overwrite an operand.
static void make_product(Maker *m, const CpuMatmulElements *e, CpuJitAddress out, CpuJitAddress matrix,
                         CpuJitAddress vector) {
    const int width = hlo_type_bytes(e->type);
    int32_t sums[kMultiplications], terms[kMultiplications];
    for (int64_t i = 0; i < e->count; i++) {
        for (int64_t k = 0; k < e->depth; k++) {
            const int64_t at = i * e->i_step + k * e->k_step;
            const int32_t left = cpu_jit_read(&m->block, offset_by(matrix, at * width), width);
            const int32_t right = cpu_jit_read(&m->block, offset_by(vector, k * e->vector_step * width), width);
            terms[k] = float_value(m, CPU_VALUE_MULTIPLY_F, e->type == HLO_F64, left, right);
        }
        sums[i] = make_sum(m, e, terms);
    }
    for (int64_t i = 0; i < e->count; i++)
        cpu_jit_write(&m->block, offset_by(out, i * e->out_step * width), width, sums[i]);
}

// True if the thunk is a product of a few elements, which has now been added as values.
static bool make_small_product(Maker *m, const CpuThunk *thunk) {
    CpuMatmulElements elements;
    const CpuSmallProduct *product = thunk->product;
    if (!product || !cpu_matmul_small_elements(product->matmul, kMultiplications, &elements)) return false;
    const int vector = elements.vector_first == product->swapped;
    make_product(m, &elements, address_of(thunk->slices[2]), address_of(thunk->slices[1 - vector]),
                 address_of(thunk->slices[vector]));
    return true;
}

static void make_small(Maker *m, const CpuThunk *thunk) {
    if (make_small_product(m, thunk)) return;
    CpuJitCall *call = HLO_ARENA_NEW(m->arena, CpuJitCall, 1);
    *call = (CpuJitCall){.kernel = thunk->small, .immediate = (intptr_t)thunk->kernel};
    for (int32_t i = 0; i < CPU_SMALL_ADDRESSES; i++) {
        const int32_t slice = i == 0 ? thunk->read_count : i <= thunk->read_count ? i - 1 : 0;
        call->addresses[i] = address_of(thunk->slices[slice]);
    }
    make_call(m, call, thunk->slice_bytes[0]);
}

static bool is_plain_start(const CpuThunkStart *start) {
    return (start->type == HLO_S32 || start->type == HLO_U32 || start->type == HLO_S64) &&
           start->stride_bytes == (int32_t)start->stride_bytes;
}

// Finds the position of a dynamic slice: in the code from up to three starts, else by the function that thunks call.
static void make_move(Maker *m, int64_t at) {
    const CpuThunkBuffer *buffer = m->program->steps[at].buffer;
    bool plain = buffer->start_count <= 3;
    for (int32_t i = 0; i < buffer->start_count; i++) plain = plain && is_plain_start(&buffer->starts[i]);
    int32_t starts[3] = {-1, -1, -1};
    for (int32_t i = 0; i < buffer->start_count && plain; i++)
        starts[i] =
            cpu_jit_read(&m->block, address_of(buffer->starts[i].index), buffer->starts[i].type == HLO_S64 ? 8 : 4);
    CpuJitValue *move = cpu_jit_effect(&m->block, plain ? CPU_EFFECT_MOVE : CPU_EFFECT_LOCATE);
    move->buffer = buffer;
    move->target = m->moved_count;
    memcpy(move->operands, starts, sizeof starts);
    if (m->moved_count == CPU_WHILE_MOVED) m->block.fits = false;
    m->moved_of[at] = m->moved_count++;
}

static void make_effect(Maker *m, CpuJitOp op, int32_t target, int32_t operand) {
    CpuJitValue *effect = cpu_jit_effect(&m->block, op);
    effect->target = target;
    effect->operands[0] = operand;
}

static int32_t read_predicate(Maker *m, CpuSlice slice) {
    return cpu_jit_read(&m->block, address_of(slice), 1);
}

static bool is_simple_choice(const CpuThunk *thunk) {
    return thunk->predicate_type == HLO_PRED && thunk->region_count == 2;
}

// Makes the step or steps at `at`; returns the number of the next one.
static int64_t make_step(Maker *m, int64_t at) {
    const CpuWhileStep *step = &m->program->steps[at];
    switch (step->kind) {
        case CPU_WHILE_CALL:
            if (step->loop) return at + make_loop(m, at);
            if (step->thunk)
                make_small(m, step->thunk);
            else
                make_copy(m, &step->copy);
            break;
        case CPU_WHILE_MOVE: make_move(m, at); break;
        case CPU_WHILE_UNLESS:
            make_effect(m, CPU_EFFECT_UNLESS, step->target, read_predicate(m, step->predicate));
            break;
        case CPU_WHILE_GO: make_effect(m, CPU_EFFECT_GO, step->target, -1); break;
        case CPU_WHILE_CHOOSE:
            if (!is_simple_choice(step->thunk)) {
                make_effect(m, CPU_EFFECT_LEAVE, (int32_t)at, -1);
                break;
            }
            make_effect(m, CPU_EFFECT_UNLESS, step->targets[1], read_predicate(m, step->thunk->slices[0]));
            make_effect(m, CPU_EFFECT_GO, step->targets[0], -1);
            break;
        case CPU_WHILE_COPY:
        case CPU_WHILE_THUNK: make_effect(m, CPU_EFFECT_LEAVE, (int32_t)at, -1); break;
    }
    return at + 1;
}

static bool ends_block(const CpuWhileStep *step) {
    return step->kind == CPU_WHILE_GO || step->kind == CPU_WHILE_CHOOSE || step->kind == CPU_WHILE_COPY ||
           step->kind == CPU_WHILE_THUNK;
}

// Finds the beginnings of blocks: targets of jumps, and steps after one that control does not simply pass.
static void find_targets(Maker *m) {
    for (int64_t i = 0; i < m->program->count; i++) {
        const CpuWhileStep *step = &m->program->steps[i];
        if (step->kind == CPU_WHILE_UNLESS || step->kind == CPU_WHILE_GO) m->is_target[step->target] = true;
        for (int32_t k = 0; step->kind == CPU_WHILE_CHOOSE && k < step->thunk->region_count; k++)
            m->is_target[step->targets[k]] = true;
        if (ends_block(step)) m->is_target[i + 1] = true;
    }
}

// Jumps are written without their distance, since their block may come later, and are patched when all blocks exist.
static void make_blocks(Maker *m) {
    const int64_t count = m->program->count;
    m->is_target[0] = true;
    find_targets(m);
    for (int64_t at = 0; at <= count && m->emitter.fits && m->block.fits;) {
        m->begins[at] = m->emitter.x86.bytes.count;
        cpu_jit_block_begin(&m->block);
        if (at == count) {
            make_effect(m, CPU_EFFECT_LEAVE, (int32_t)count, -1);
            at++;
        } else {
            do at = make_step(m, at);
            while (at < count && !m->is_target[at]);
        }
        cpu_jit_emit_block(&m->emitter, &m->block);
    }
    for (int64_t i = 0; i < m->emitter.jumps.count && m->emitter.fits && m->block.fits; i++) {
        const CpuJitJump *jump = &m->emitter.jumps.items[i];
        assert(m->begins[jump->step] >= 0);
        cpu_x86_land(&m->emitter.x86, jump->jump, m->begins[jump->step]);
    }
}

// ---- running

// Loops of other instruction sets have different kernels, with their own bits of NaN and their own speed.
static bool has_code(const CpuWhileProgram *program) {
    for (int64_t i = 0; i < program->count; i++) {
        const CpuThunkLoop *loop = program->steps[i].loop;
        if (loop) return loop->loop->kernels != &cpu_loop_kernels_baseline;
    }
    return false;
}

CpuWhileCode *cpu_while_code_make(HloArena *scratch, HloArena *arena, const CpuWhileProgram *program) {
    if (cpu_processor_architecture() != CPU_ARCHITECTURE_X86_64 || !has_code(program)) return NULL;
    const size_t count = (size_t)program->count + 1;
    Maker m = {.arena = scratch, .program = program};
    m.emitter.x86.arena = m.block.arena = scratch;
    m.emitter.x86.width = 16;
    m.emitter.fits = m.block.fits = true;
    m.is_target = HLO_ARENA_NEW(scratch, bool, count);
    m.begins = HLO_ARENA_NEW(arena, int64_t, count);
    m.moved_of = HLO_ARENA_NEW(scratch, int32_t, count);
    memset(m.begins, 0xff, count * sizeof *m.begins);
    cpu_jit_emit_begin(&m.emitter);
    make_blocks(&m);
    if (!m.emitter.fits || !m.block.fits) return NULL;
    cpu_jit_emit_end(&m.emitter);
    CpuWhileCode *code = HLO_ARENA_NEW(arena, CpuWhileCode, 1);
    *code = (CpuWhileCode){m.begins, program->count, NULL, (size_t)m.emitter.x86.bytes.count};
    code->memory = cpu_jit_memory_new(m.emitter.x86.bytes.items, code->bytes);
    return code->memory ? code : NULL;
}

void cpu_while_code_free(CpuWhileCode *code) {
    if (code) cpu_jit_memory_free(code->memory, code->bytes);
}

// C does not convert a data pointer to a function pointer, so the address is copied.
int64_t cpu_while_code_run(const CpuWhileCode *code, int64_t at, char *const *bases, char *scratch, char **moved) {
    assert(code && at >= 0 && at <= code->count && code->begins[at] >= 0);
    CpuJitEntry *run;
    memcpy(&run, &code->memory, sizeof run);
    return run(bases, scratch, moved, code->memory + code->begins[at]);
}
