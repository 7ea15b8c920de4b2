// SPDX-License-Identifier: Apache-2.0
// Loops over a handful of elements, such as those of a solver's round: what the interpreter finds out in every run
// (where values stand, what constants and indices are) takes longer than such a loop's arithmetic. Here it is found out
// once, when the loop is planned; a run is one call a kernel.
#include <assert.h>
#include <string.h>

#include "targets/cpu/copy.h"
#include "targets/cpu/loop_internal.h"

// Where something stands: so many bytes behind a base.
typedef struct Place {
    int32_t base, offset;
} Place;

enum { kScratch, kConstants, kFirstBuffer };

// One call of a kernel; without one, a copy of elements.
typedef struct Step {
    CpuBlockKernel *kernel;
    CpuReduceKernel *reduce;  // of `count` rows of `immediate` elements
    Place to, from[3];
    int64_t count, immediate;
    const int32_t *to_table, *from_table;  // of a copy: element number i goes from and to these; NULL is i itself
    int width;                             // of a copy
} Step;

struct CpuTinyLoop {
    const Step *steps;
    int64_t step_count;
    char *constants;
    int buffer_count;
};

// ---- running

#define COPY_CASE(T)                                                                                      \
    case sizeof(T): {                                                                                     \
        T *out = (T *)to;                                                                                 \
        const T *in = (const T *)from;                                                                    \
        for (int64_t i = 0; i < step->count; i++)                                                         \
            out[step->to_table ? step->to_table[i] : i] = in[step->from_table ? step->from_table[i] : i]; \
        break;                                                                                            \
    }

static void copy_elements(const Step *step, void *to, const void *from) {
    switch (step->width) {
        COPY_CASE(uint8_t)
        COPY_CASE(uint16_t)
        COPY_CASE(uint32_t)
        COPY_CASE(uint64_t)
        default:
            for (int64_t i = 0; i < step->count; i++)
                memcpy((char *)to + (step->to_table ? step->to_table[i] : i) * step->width,
                       (const char *)from + (step->from_table ? step->from_table[i] : i) * step->width,
                       (size_t)step->width);
    }
}

void cpu_tiny_loop_run(const CpuTinyLoop *tiny, void *const *buffers) {
    _Alignas(64) char scratch[CPU_TINY_SCRATCH];
    char *bases[kFirstBuffer + CPU_TINY_BUFFERS];  // clearing it would take longer than the loop
    bases[kScratch] = scratch;
    bases[kConstants] = tiny->constants;
    for (int i = 0; i < tiny->buffer_count; i++) bases[kFirstBuffer + i] = buffers[i];
    for (const Step *step = tiny->steps; step < tiny->steps + tiny->step_count; step++) {
        char *to = bases[step->to.base] + step->to.offset, *from = bases[step->from[0].base] + step->from[0].offset;
        if (step->kernel)
            step->kernel(to, from, bases[step->from[1].base] + step->from[1].offset,
                         bases[step->from[2].base] + step->from[2].offset, step->count, step->immediate);
        else if (step->reduce)
            step->reduce(to, from, step->count, step->immediate);
        else
            copy_elements(step, to, from);
    }
}

// ---- planning

typedef struct Planner {
    HloArena *arena;
    const CpuLoop *loop;
    Place *places;  // by value
    Step *steps;
    int64_t step_count;
    char *constants;
    int64_t constant_bytes;
    int buffer_count;
    bool fits;
} Planner;

static int64_t row_elements(const CpuLoop *loop) {
    return loop->reduced > 1 ? loop->reduced : 1;
}

static int64_t count_of(const CpuLoop *loop, const CpuLoopValue *value) {
    return value->level == CPU_LEVEL_KEPT ? loop->kept : loop->kept * row_elements(loop);
}

static Place in_scratch(const CpuLoopValue *value) {
    return (Place){kScratch, (int32_t)value->slot};
}

// Element number `element` of a buffer, which must be reachable.
static Place in_buffer(Planner *p, const CpuLoopValue *value, int64_t element) {
    if (value->buffer >= CPU_TINY_BUFFERS || element < 0 || element > INT32_MAX / 16) {
        p->fits = false;
        return (Place){kConstants, 0};
    }
    if (value->buffer >= p->buffer_count) p->buffer_count = value->buffer + 1;
    return (Place){kFirstBuffer + value->buffer, (int32_t)(element * value->width)};
}

// The element number in which each element of the domain stands; false where they simply follow each other.
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

static const int32_t *make_table(Planner *p, const int64_t *elements, int64_t count) {
    int32_t *table = HLO_ARENA_NEW(p->arena, int32_t, count + 1);
    for (int64_t i = 0; i < count; i++) {
        if (elements[i] < INT32_MIN / 16 || elements[i] > INT32_MAX / 16) p->fits = false;
        table[i] = (int32_t)elements[i];
    }
    return table;
}

// Aligned as elements of 16 bytes want it.
static int64_t padded(int64_t bytes) {
    return (bytes + 15) / 16 * 16;
}

// What the constants and indices of the loop take, and something to point at for operands that are not there.
static size_t constant_bytes(const CpuLoop *loop) {
    int64_t bytes = 16;
    for (int v = 0; v < loop->value_count; v++) {
        const CpuLoopValue *value = &loop->values[v];
        if (value->kind == CPU_VALUE_CONSTANT || value->kind == CPU_VALUE_INDEX)
            bytes += padded(count_of(loop, value) * value->width);
    }
    return (size_t)bytes;
}

static Place add_constant(Planner *p, int64_t bytes, char **at) {
    const int64_t offset = p->constant_bytes;
    *at = p->constants + offset;
    p->constant_bytes += padded(bytes);
    return (Place){kConstants, (int32_t)offset};
}

static void plan_load(Planner *p, const CpuLoopValue *value, Place *place, int64_t count) {
    int64_t elements[CPU_TINY_ELEMENTS];
    const bool table = list_elements(&value->walk, count, elements);
    // A value that exists once is read before anything is stored.
    if (!table && value->level != CPU_LEVEL_UNIFORM && value->walk.contiguous) {
        *place = in_buffer(p, value, value->walk.offset);
        return;
    }
    *place = in_scratch(value);
    p->steps[p->step_count++] = (Step){.to = *place,
                                       .from = {in_buffer(p, value, 0)},
                                       .count = count,
                                       .from_table = make_table(p, elements, count),
                                       .width = value->width};
}

static void plan_store(Planner *p, const CpuLoopValue *value, int64_t count) {
    int64_t elements[CPU_TINY_ELEMENTS];
    (void)list_elements(&value->walk, count, elements);
    p->steps[p->step_count++] = (Step){.to = in_buffer(p, value, 0),
                                       .from = {p->places[value->operands[0]]},
                                       .count = count,
                                       .to_table = make_table(p, elements, count),
                                       .width = value->width};
}

// Indices of a domain are constants.
static Place plan_index(Planner *p, const CpuLoopValue *value, int64_t count) {
    int64_t elements[CPU_TINY_ELEMENTS];
    char *at;
    const Place place = add_constant(p, count * value->width, &at);
    (void)list_elements(&value->walk, count, elements);
    for (int64_t i = 0; i < count; i++) {
        const int32_t narrow = (int32_t)elements[i];
        memcpy(at + i * value->width, value->width == 4 ? (const void *)&narrow : &elements[i], (size_t)value->width);
    }
    return place;
}

static void plan_expand(Planner *p, const CpuLoopValue *value, Place place) {
    const int64_t each = row_elements(p->loop), count = p->loop->kept * each;
    int64_t elements[CPU_TINY_ELEMENTS];
    for (int64_t i = 0; i < count; i++) elements[i] = i / each;
    p->steps[p->step_count++] = (Step){.to = place,
                                       .from = {p->places[value->operands[0]]},
                                       .count = count,
                                       .from_table = make_table(p, elements, count),
                                       .width = value->width};
}

static void plan_value(Planner *p, CpuValue v) {
    const CpuLoop *loop = p->loop;
    const CpuLoopValue *value = &loop->values[v];
    const int64_t count = count_of(loop, value);
    Place *place = &p->places[v];
    char *at;
    switch (value->kind) {
        case CPU_VALUE_CONSTANT:
            *place = add_constant(p, count * value->width, &at);
            cpu_fill_run(at, value->constant, count, value->width);
            break;
        case CPU_VALUE_INDEX: *place = plan_index(p, value, count); break;
        case CPU_VALUE_LOAD: plan_load(p, value, place, count); break;
        case CPU_VALUE_ALIAS: *place = p->places[value->operands[0]]; break;
        case CPU_VALUE_STORE:
            if (!cpu_loop_is_done(loop, v)) plan_store(p, value, count);
            break;
        case CPU_VALUE_EXPAND:
            *place = in_scratch(value);
            plan_expand(p, value, *place);
            break;
        case CPU_VALUE_KERNEL:
        case CPU_VALUE_REDUCE: {
            const CpuLoopValue *store = value->stored_by >= 0 ? &loop->values[value->stored_by] : NULL;
            const bool reduces = value->kind == CPU_VALUE_REDUCE;
            *place = store ? in_buffer(p, store, store->walk.offset) : in_scratch(value);
            Step *step = &p->steps[p->step_count++];
            *step = (Step){.kernel = reduces ? NULL : value->kernel,
                           .reduce = reduces ? value->reduce : NULL,
                           .to = *place,
                           .count = count,
                           .immediate = reduces ? loop->reduced : value->immediate};
            for (int i = 0; i < 3; i++)
                step->from[i] = value->operands[i] < 0 ? (Place){kConstants, 0} : p->places[value->operands[i]];
            break;
        }
        default: p->fits = false; break;
    }
}

static bool is_tiny(const CpuLoop *loop) {
    return loop->mode == CPU_MODE_ROWS && !loop->phases && loop->combine_count == 0 && loop->kept > 0 &&
           loop->reduced > 0 && loop->kept <= CPU_TINY_ELEMENTS && loop->reduced <= CPU_TINY_ELEMENTS &&
           loop->kept * loop->reduced <= CPU_TINY_ELEMENTS && loop->kept <= loop->block &&
           loop->kept == loop->row_run && loop->scratch_bytes <= CPU_TINY_SCRATCH;
}

void cpu_tiny_loop_plan(HloArena *arena, CpuLoop *loop) {
    assert(arena && loop && !loop->tiny);
    if (!is_tiny(loop)) return;
    const size_t values = (size_t)loop->value_count + 1;
    Planner p = {.arena = arena, .loop = loop, .fits = true};
    p.places = HLO_ARENA_NEW(arena, Place, values);
    p.steps = HLO_ARENA_NEW(arena, Step, values);
    p.constants = hlo_arena_allocate(arena, constant_bytes(loop));
    for (int64_t i = 0; i < loop->uniform.count; i++) plan_value(&p, loop->uniform.items[i]);
    for (int64_t i = 0; i < loop->body.count; i++) plan_value(&p, loop->body.items[i]);
    if (!p.fits) return;
    CpuTinyLoop *tiny = HLO_ARENA_NEW(arena, CpuTinyLoop, 1);
    *tiny = (CpuTinyLoop){p.steps, p.step_count, p.constants, p.buffer_count};
    loop->tiny = tiny;
}
