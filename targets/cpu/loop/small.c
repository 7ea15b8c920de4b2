// SPDX-License-Identifier: Apache-2.0
// Small loops, such as those of a solver's iteration. What the interpreter determines in every run (the locations of
// values, the values of constants and indices) takes longer than the arithmetic of these loops. Here it is determined
// once, when the loop is planned; a run is one call per kernel.
//
//     add(f32[3] %a, broadcast(f32[] %c)), stored, as a list of calls
//     copy_from  scratch+64 <- buffer 1, table 0 0 0       the broadcast, by a table of element numbers
//     add        buffer 2   <- buffer 0, scratch+64        count 3, straight into the result
//
// An address is an offset from a base: scratch, constants (numbers, indices and tables, all computed here) or a buffer
// of the run. Every call has the form of a block kernel, so that a run is one loop without a branch; copies and
// reductions have block kernels of their own.
//
// Limits: CPU_SMALL_ELEMENTS elements, CPU_SMALL_SCRATCH bytes, CPU_SMALL_BUFFERS buffers, offsets of 32 bits. A loop
// beyond them is left to the interpreter (`fits`). Lists may also be bound to addresses once and run many times
// (cpu_small_loop_bind, for jit/while_program.c).
#include <assert.h>
#include <string.h>

#include "targets/cpu/element/copy.h"
#include "targets/cpu/loop/internal.h"

struct CpuSmallLoop {
    const CpuSmallStep *steps;
    int64_t step_count;
    char *constants;
    int buffer_count;
};

// ---- kernels

// The widest element, c128, as bytes.
typedef struct Pair {
    uint64_t halves[2];
} Pair;

// Copies by the width of elements: one; all in order; element i from b[i]; element i to b[i].
#define COPY_KERNELS(T, width)                                                                                       \
    static void copy_one_##width(void *dst, const void *a, const void *b, const void *c, int64_t n,                  \
                                 int64_t immediate) {                                                                \
        (void)b, (void)c, (void)n, (void)immediate;                                                                  \
        *(T *)dst = *(const T *)a;                                                                                   \
    }                                                                                                                \
    static void copy_all_##width(void *dst, const void *a, const void *b, const void *c, int64_t n,                  \
                                 int64_t immediate) {                                                                \
        (void)b, (void)c, (void)immediate;                                                                           \
        memmove(dst, a, (size_t)n *width);                                                                           \
    }                                                                                                                \
    static void copy_from_##width(void *dst, const void *a, const void *b, const void *c, int64_t n,                 \
                                  int64_t immediate) {                                                               \
        const int32_t *table = b;                                                                                    \
        (void)c, (void)immediate;                                                                                    \
        int64_t i = 0;                                                                                               \
        for (; i + 4 <= n; i += 4) {                                                                                 \
            const T from[4] = {((const T *)a)[table[i]], ((const T *)a)[table[i + 1]], ((const T *)a)[table[i + 2]], \
                               ((const T *)a)[table[i + 3]]};                                                        \
            memcpy((T *)dst + i, from, sizeof from);                                                                 \
        }                                                                                                            \
        for (; i < n; i++) ((T *)dst)[i] = ((const T *)a)[table[i]];                                                 \
    }                                                                                                                \
    static void copy_to_##width(void *dst, const void *a, const void *b, const void *c, int64_t n,                   \
                                int64_t immediate) {                                                                 \
        const int32_t *table = b;                                                                                    \
        (void)c, (void)immediate;                                                                                    \
        for (int64_t i = 0; i < n; i++) ((T *)dst)[table[i]] = ((const T *)a)[i];                                    \
    }
COPY_KERNELS(uint8_t, 1)
COPY_KERNELS(uint16_t, 2)
COPY_KERNELS(uint32_t, 4)
COPY_KERNELS(uint64_t, 8)
COPY_KERNELS(Pair, 16)

static CpuBlockKernel *copy_kernel(CpuSmallForm form, int width) {
#define FORMS(width) \
    { copy_one_##width, copy_all_##width, copy_from_##width, copy_to_##width }
    static CpuBlockKernel *const kernels[][CPU_SMALL_COPY_TO + 1] = {FORMS(1), FORMS(2), FORMS(4), FORMS(8), FORMS(16)};
#undef FORMS
    return kernels[__builtin_ctz((unsigned)width)][form];
}

CpuBlockKernel *cpu_small_copy(int64_t bytes) {
    const bool one = bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8 || bytes == 16;
    return one ? copy_kernel(CPU_SMALL_COPY_ONE, (int)bytes) : copy_all_1;
}

// Reduces n rows of `immediate` elements; b points to the reduction's own kernel.
static void reduce_rows(void *dst, const void *a, const void *b, const void *c, int64_t n, int64_t immediate) {
    CpuReduceKernel *reduce;
    (void)c;
    memcpy(&reduce, b, sizeof reduce);
    reduce(dst, a, n, immediate);
}

// ---- running

void cpu_small_loop_run(const CpuSmallLoop *small_loop, void *const *buffers) {
    _Alignas(64) char scratch[CPU_SMALL_SCRATCH];
    char *bases[CPU_SMALL_IN_FIRST_BUFFER + CPU_SMALL_BUFFERS];  // clearing it would take longer than the loop
    bases[CPU_SMALL_IN_SCRATCH] = scratch;
    bases[CPU_SMALL_IN_CONSTANTS] = small_loop->constants;
    for (int i = 0; i < small_loop->buffer_count; i++) bases[CPU_SMALL_IN_FIRST_BUFFER + i] = buffers[i];
    for (const CpuSmallStep *step = small_loop->steps; step < small_loop->steps + small_loop->step_count; step++) {
        const CpuSmallAddress *at = step->addresses;
        step->kernel(bases[at[0].base] + at[0].offset, bases[at[1].base] + at[1].offset,
                     bases[at[2].base] + at[2].offset, bases[at[3].base] + at[3].offset, step->count, step->immediate);
    }
}

int64_t cpu_small_loop_length(const CpuSmallLoop *small_loop) {
    return small_loop->step_count;
}

const CpuSmallStep *cpu_small_loop_steps(const CpuSmallLoop *small_loop) {
    return small_loop->steps;
}

char *cpu_small_loop_constants(const CpuSmallLoop *small_loop) {
    return small_loop->constants;
}

void cpu_small_loop_bind(const CpuSmallLoop *small_loop, char *scratch, char *const *buffers, CpuSmallCall *calls) {
    for (int64_t i = 0; i < small_loop->step_count; i++) {
        const CpuSmallStep *step = &small_loop->steps[i];
        CpuSmallCall *call = &calls[i];
        *call = (CpuSmallCall){.kernel = step->kernel, .count = step->count, .immediate = step->immediate};
        for (int k = 0; k < CPU_SMALL_ADDRESSES; k++) {
            const CpuSmallAddress address = step->addresses[k];
            char *base = address.base == CPU_SMALL_IN_SCRATCH     ? scratch
                         : address.base == CPU_SMALL_IN_CONSTANTS ? small_loop->constants
                                                                  : buffers[address.base - CPU_SMALL_IN_FIRST_BUFFER];
            call->addresses[k] = base + address.offset;
        }
    }
}

bool cpu_small_loop_names(const CpuSmallLoop *small_loop, int64_t step, int address, int buffer, int64_t *offset) {
    assert(step >= 0 && step < small_loop->step_count && address >= 0 && address < CPU_SMALL_ADDRESSES);
    const CpuSmallAddress at = small_loop->steps[step].addresses[address];
    *offset = at.offset;
    return at.base == CPU_SMALL_IN_FIRST_BUFFER + buffer;
}

// ---- planning

// State of the planner. Steps and constants are written into memory of their maximum size.
typedef struct Planner {
    HloArena *arena;
    const CpuLoop *loop;
    CpuSmallAddress *addresses;  // by value
    CpuSmallStep *steps;
    int64_t step_count;
    char *constants;
    int64_t constant_bytes;
    int buffer_count;
    bool fits;
} Planner;

// Returns the elements of a row; 1 if there is no reduction.
static int64_t row_elements(const CpuLoop *loop) {
    return loop->reduced > 1 ? loop->reduced : 1;
}

// Returns the number of elements of a value's register. Uniform values get a full register too: they are operands of
// full ones.
static int64_t count_of(const CpuLoop *loop, const CpuLoopValue *value) {
    return value->level == CPU_LEVEL_KEPT ? loop->kept : loop->kept * row_elements(loop);
}

// Returns the slot that the planner of registers assigned.
static CpuSmallAddress in_scratch(const CpuLoopValue *value) {
    return (CpuSmallAddress){CPU_SMALL_IN_SCRATCH, (int32_t)value->slot};
}

// Returns the address of element number `element` of a buffer, which must be reachable.
static CpuSmallAddress in_buffer(Planner *p, const CpuLoopValue *value, int64_t element) {
    if (value->buffer >= CPU_SMALL_BUFFERS || element < 0 || element > INT32_MAX / 16) {
        p->fits = false;
        return (CpuSmallAddress){CPU_SMALL_IN_CONSTANTS, 0};
    }
    if (value->buffer >= p->buffer_count) p->buffer_count = value->buffer + 1;
    return (CpuSmallAddress){CPU_SMALL_IN_FIRST_BUFFER + value->buffer, (int32_t)(element * value->width)};
}

// Lists the element number of each element of the domain; returns false if they are simply consecutive.
static bool list_elements(const CpuWalk *walk, int64_t count, int64_t *elements) {
    int64_t index[CPU_LOOP_RANK_LIMIT] = {0}, element = walk->offset;
    bool counted = false;
    for (int64_t i = 0; i < count; i++) {
        elements[i] = element;
        counted = counted || element != walk->offset + i;
        for (int d = 0; d < walk->count; d++) {
            element += walk->strides[d];
            if (++index[d] < walk->sizes[d]) break;
            element -= index[d] * walk->strides[d];
            index[d] = 0;
        }
    }
    return counted;
}

// Rounds up to the alignment of elements of 16 bytes.
static int64_t padded(int64_t bytes) {
    return (bytes + 15) / 16 * 16;
}

// Returns an upper bound on the bytes of the loop's constants, indices, tables and reductions.
static size_t constant_bytes(const CpuLoop *loop) {
    int64_t bytes = 16;
    for (int v = 0; v < loop->value_count; v++) {
        const CpuLoopValue *value = &loop->values[v];
        const bool register_type = value->kind == CPU_VALUE_CONSTANT || value->kind == CPU_VALUE_INDEX;
        bytes += padded(loop->kept * row_elements(loop) * (register_type ? value->width : (int)sizeof(int32_t)));
    }
    return (size_t)bytes + 16 * (size_t)loop->value_count;
}

// Reserves bytes among the constants; *at is where to write them.
static CpuSmallAddress add_constant(Planner *p, int64_t bytes, char **at) {
    const int64_t offset = p->constant_bytes;
    *at = p->constants + offset;
    p->constant_bytes += padded(bytes);
    return (CpuSmallAddress){CPU_SMALL_IN_CONSTANTS, (int32_t)offset};
}

// Makes a table of element numbers as the copy kernels read them; numbers of more than 32 bits do not fit.
static CpuSmallAddress make_table(Planner *p, const int64_t *elements, int64_t count) {
    char *at;
    const CpuSmallAddress address = add_constant(p, count * (int64_t)sizeof(int32_t), &at);
    for (int64_t i = 0; i < count; i++) {
        if (elements[i] < INT32_MIN / 16 || elements[i] > INT32_MAX / 16) p->fits = false;
        const int32_t element = (int32_t)elements[i];
        memcpy(at + i * (int64_t)sizeof element, &element, sizeof element);
    }
    return address;
}

// Adds a step. Operands that are not set refer to an address that is readable but is not read.
static CpuSmallStep *add_step(Planner *p, CpuSmallForm form, CpuBlockKernel *kernel, CpuSmallAddress to, int width,
                              int64_t count) {
    CpuSmallStep *step = &p->steps[p->step_count++];
    *step = (CpuSmallStep){.kernel = kernel, .addresses = {to}, .count = count, .form = form, .width = width};
    for (int i = 1; i < CPU_SMALL_ADDRESSES; i++) step->addresses[i] = (CpuSmallAddress){CPU_SMALL_IN_CONSTANTS, 0};
    return step;
}

static CpuSmallStep *add_copy(Planner *p, CpuSmallForm form, CpuSmallAddress to, int width, int64_t count) {
    return add_step(p, form, copy_kernel(form, width), to, width, count);
}

// Whether all readers of `v`, an element that exists once, come before the first write: then it need not be copied.
// Lists are in execution order.
static bool is_read_in_time(const CpuLoop *loop, CpuValue v) {
    bool written = false;
    for (int64_t i = 0; i < loop->uniform.count + loop->body.count; i++) {
        const CpuValue at =
            i < loop->uniform.count ? loop->uniform.items[i] : loop->body.items[i - loop->uniform.count];
        const CpuLoopValue *value = &loop->values[at];
        const bool done = cpu_loop_is_done(loop, at);
        for (int k = 0; k < 3 && !done; k++)
            if (value->operands[k] == v && (written || value->kind == CPU_VALUE_ALIAS)) return false;
        written = written || value->stored_by >= 0 || (value->kind == CPU_VALUE_STORE && !done);
    }
    return true;
}

// Reads the array in place if its elements are contiguous, or if it is a single element that is not overwritten first;
// else copies it.
static void plan_load(Planner *p, CpuValue v, CpuSmallAddress *address, int64_t count) {
    const CpuLoopValue *value = &p->loop->values[v];
    int64_t elements[CPU_SMALL_ELEMENTS];
    const bool table = list_elements(&value->walk, count, elements), once = value->level == CPU_LEVEL_UNIFORM;
    if ((!table && !once && value->walk.contiguous) || (count == 1 && is_read_in_time(p->loop, v))) {
        *address = in_buffer(p, value, elements[0]);
        return;
    }
    *address = in_scratch(value);
    CpuSmallStep *step =
        add_copy(p, count == 1 ? CPU_SMALL_COPY_ONE : CPU_SMALL_COPY_FROM, *address, value->width, count);
    step->addresses[1] = in_buffer(p, value, count == 1 ? elements[0] : 0);
    if (count > 1) step->addresses[2] = make_table(p, elements, count);
}

// Whether the last step computed this element and only a store reads it: the step may then write it directly to the
// output.
static bool is_last_result(const Planner *p, CpuValue v) {
    const CpuLoop *loop = p->loop;
    const CpuLoopValue *value = &loop->values[v];
    if ((value->kind != CPU_VALUE_KERNEL && value->kind != CPU_VALUE_REDUCE) || value->stored_by >= 0) return false;
    const CpuSmallAddress made = p->step_count ? p->steps[p->step_count - 1].addresses[0] : (CpuSmallAddress){0},
                          at = p->addresses[v];
    int uses = 0;
    for (int i = 0; i < loop->value_count; i++)
        for (int k = 0; k < 3; k++)
            uses += loop->values[i].kind != CPU_VALUE_DROPPED && loop->values[i].operands[k] == v;
    return uses == 1 && made.base == at.base && made.offset == at.offset;
}

// Writes the last result directly to the output, if that is all that is left to do; else copies it.
static void plan_store(Planner *p, const CpuLoopValue *value, int64_t count) {
    int64_t elements[CPU_SMALL_ELEMENTS];
    const bool table = list_elements(&value->walk, count, elements);
    if (count == 1 && is_last_result(p, value->operands[0])) {
        p->steps[p->step_count - 1].addresses[0] = in_buffer(p, value, elements[0]);
        return;
    }
    const CpuSmallForm form = count == 1 ? CPU_SMALL_COPY_ONE : table ? CPU_SMALL_COPY_TO : CPU_SMALL_COPY_ALL;
    const CpuSmallAddress to = in_buffer(p, value, form == CPU_SMALL_COPY_TO ? 0 : elements[0]);
    CpuSmallStep *step = add_copy(p, form, to, value->width, count);
    step->addresses[1] = p->addresses[value->operands[0]];
    if (form == CPU_SMALL_COPY_TO) step->addresses[2] = make_table(p, elements, count);
}

// Indices of a domain are constants.
static CpuSmallAddress plan_index(Planner *p, const CpuLoopValue *value, int64_t count) {
    int64_t elements[CPU_SMALL_ELEMENTS];
    char *at;
    const CpuSmallAddress address = add_constant(p, count * value->width, &at);
    (void)list_elements(&value->walk, count, elements);
    for (int64_t i = 0; i < count; i++) {
        const int32_t narrow = (int32_t)elements[i];
        memcpy(at + i * value->width, value->width == 4 ? (const void *)&narrow : &elements[i], (size_t)value->width);
    }
    return address;
}

// Expands a value: element i is the value of row i / length.
static void plan_expand(Planner *p, const CpuLoopValue *value, CpuSmallAddress address) {
    const int64_t each = row_elements(p->loop), count = p->loop->kept * each;
    int64_t elements[CPU_SMALL_ELEMENTS];
    for (int64_t i = 0; i < count; i++) elements[i] = i / each;
    CpuSmallStep *step = add_copy(p, CPU_SMALL_COPY_FROM, address, value->width, count);
    step->addresses[1] = p->addresses[value->operands[0]];
    step->addresses[2] = make_table(p, elements, count);
}

// Blocks of one element have kernels of their own, without the loop.
static void plan_kernel(Planner *p, const CpuLoopValue *value, CpuSmallAddress *address, int64_t count) {
    const CpuLoopValue *store = value->stored_by >= 0 ? &p->loop->values[value->stored_by] : NULL;
    *address = store ? in_buffer(p, store, store->walk.offset) : in_scratch(value);
    const bool reduces = value->kind == CPU_VALUE_REDUCE;
    CpuBlockKernel *kernel = count == 1 ? value->kernel_of_one : value->kernel;
    CpuSmallStep *step = add_step(p, reduces ? CPU_SMALL_REDUCE : CPU_SMALL_KERNEL, reduces ? reduce_rows : kernel,
                                  *address, value->width, count);
    step->immediate = reduces ? p->loop->reduced : value->immediate;
    for (int i = 0; i < (reduces ? 1 : 3); i++)
        if (value->operands[i] >= 0) step->addresses[i + 1] = p->addresses[value->operands[i]];
    if (!reduces) return;
    char *at;
    step->addresses[2] = add_constant(p, sizeof value->reduce, &at);
    memcpy(at, &value->reduce, sizeof value->reduce);
}

// Plans one value. Values come in execution order, operands first.
static void plan_value(Planner *p, CpuValue v) {
    const CpuLoop *loop = p->loop;
    const CpuLoopValue *value = &loop->values[v];
    const int64_t count = count_of(loop, value);
    CpuSmallAddress *address = &p->addresses[v];
    char *at;
    switch (value->kind) {
        case CPU_VALUE_CONSTANT:
            *address = add_constant(p, count * value->width, &at);
            cpu_fill_run(at, value->constant, count, value->width);
            break;
        case CPU_VALUE_INDEX: *address = plan_index(p, value, count); break;
        case CPU_VALUE_LOAD: plan_load(p, v, address, count); break;
        case CPU_VALUE_ALIAS: *address = p->addresses[value->operands[0]]; break;
        case CPU_VALUE_STORE:
            if (!cpu_loop_is_done(loop, v)) plan_store(p, value, count);
            break;
        case CPU_VALUE_EXPAND:
            *address = in_scratch(value);
            plan_expand(p, value, *address);
            break;
        case CPU_VALUE_KERNEL:
        case CPU_VALUE_REDUCE: plan_kernel(p, value, address, count); break;
        default: p->fits = false; break;
    }
}

// Whether the loop has one block, one pass and no combiner.
static bool is_small(const CpuLoop *loop) {
    return loop->mode == CPU_MODE_ROWS && !loop->phases && loop->combine_count == 0 && loop->kept > 0 &&
           loop->reduced > 0 && loop->kept <= CPU_SMALL_ELEMENTS && loop->reduced <= CPU_SMALL_ELEMENTS &&
           loop->kept * loop->reduced <= CPU_SMALL_ELEMENTS && loop->kept <= loop->block &&
           loop->kept == loop->row_run && loop->scratch_bytes <= CPU_SMALL_SCRATCH;
}

void cpu_small_loop_plan(HloArena *arena, CpuLoop *loop) {
    assert(arena && loop && !loop->small_loop);
    if (!is_small(loop)) return;
    const size_t values = (size_t)loop->value_count + 1;
    Planner p = {.arena = arena, .loop = loop, .fits = true};
    p.addresses = HLO_ARENA_NEW(arena, CpuSmallAddress, values);
    p.steps = HLO_ARENA_NEW(arena, CpuSmallStep, values);
    p.constants = hlo_arena_allocate(arena, constant_bytes(loop));
    for (int64_t i = 0; i < loop->uniform.count; i++) plan_value(&p, loop->uniform.items[i]);
    for (int64_t i = 0; i < loop->body.count; i++) plan_value(&p, loop->body.items[i]);
    if (!p.fits) return;
    CpuSmallLoop *small_loop = HLO_ARENA_NEW(arena, CpuSmallLoop, 1);
    *small_loop = (CpuSmallLoop){p.steps, p.step_count, p.constants, p.buffer_count};
    loop->small_loop = small_loop;
}
