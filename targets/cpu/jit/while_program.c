// SPDX-License-Identifier: Apache-2.0
// Plans a short loop as a list of steps, and runs the list.
//
// The thunks of the condition, the body, and of loops and conditionals within them are laid out one after the other,
// with jumps between. while (i < n) { x = select(p, f(x), g(x)); i = i + 1 } becomes
//
//    0  CALL    copy of a few bytes: the loop's initial value into its carry
//    1  CALL    i < n                            the condition
//    2  UNLESS  -> 10
//    3  CHOOSE  -> 4 or 6                        a conditional of two branches
//    4  CALL    f(x)
//    5  GO      -> 8
//    6  CALL    g(x)
//    7  GO      -> 8
//    8  CALL    i + 1
//    9  GO      -> 1
//   10                                           the end
//
// Every step has a CpuSmallCall of the same number, with a kernel if it is a CALL. Addresses are bound once per run,
// since the device's bases do not change while the loop runs; only dynamic slices have a new position in every
// iteration, and a MOVE before the calls of such a loop writes their addresses into those calls. If there is machine
// code for the program (code.c), that is run instead, and this file only executes the steps that are not in it.
//
// A loop that contains anything that may have to wait for another device has no such list: a device is suspended
// between thunks, and an iteration is left only at its end.
#include "targets/cpu/jit/while_program.h"

#include <assert.h>

#include "targets/cpu/element/copy.h"
#include "targets/cpu/element/integer.h"
#include "targets/cpu/jit/internal.h"

typedef HLO_VECTOR(CpuWhileStep) WhileSteps;

// ---- planning

// Programs beyond this are not short. Copies up to this many bytes are calls, larger ones may use many cores.
enum { kMostSteps = 4096, kCallBytes = 256 };

typedef struct Planner {
    HloArena *arena;
    WhileSteps steps;
    bool may_share, fits;
} Planner;

static int32_t here(const Planner *p) {
    return (int32_t)p->steps.count;
}

static CpuWhileStep *add(Planner *p, CpuWhileKind kind) {
    if (p->steps.count >= kMostSteps) p->fits = false;
    const CpuWhileStep step = {.kind = kind};
    hlo_vector_push(p->arena, &p->steps, step);
    return &p->steps.items[p->steps.count - 1];
}

static void plan_copies(Planner *p, const CpuCopy *copies, int32_t count) {
    for (int32_t i = 0; i < count; i++)
        add(p, copies[i].bytes <= kCallBytes ? CPU_WHILE_CALL : CPU_WHILE_COPY)->copy = copies[i];
}

// Plans the address arguments of the loop's calls, the first of which is `first`, that point into the buffer.
static void plan_move(Planner *p, const CpuThunkLoop *loop, int32_t buffer, int32_t first) {
    const CpuSmallLoop *small_loop = loop->loop->small_loop;
    const int64_t length = cpu_small_loop_length(small_loop);
    CpuWhileMoved *moved = HLO_ARENA_NEW(p->arena, CpuWhileMoved, length * CPU_SMALL_ADDRESSES);
    CpuWhileStep *step = add(p, CPU_WHILE_MOVE);
    step->buffer = &loop->buffers[buffer];
    step->moved = moved;
    for (int64_t i = 0; i < length; i++)
        for (int address = 0; address < CPU_SMALL_ADDRESSES; address++) {
            int64_t offset;
            if (cpu_small_loop_names(small_loop, i, address, buffer, &offset))
                moved[step->moved_count++] = (CpuWhileMoved){first + (int32_t)i, address, offset};
        }
}

// Plans the moves first, one for each buffer that has starts, then the loop's calls: `first` is the number of the first
// of these.
static void plan_small_loop(Planner *p, const CpuThunkLoop *loop) {
    int32_t moving = 0;
    for (int32_t i = 0; i < loop->buffer_count; i++) moving += loop->buffers[i].start_count > 0;
    const int32_t first = here(p) + moving;
    for (int32_t i = 0; i < loop->buffer_count; i++)
        if (loop->buffers[i].start_count > 0) plan_move(p, loop, i, first);
    for (int64_t i = 0; i < cpu_small_loop_length(loop->loop->small_loop); i++) add(p, CPU_WHILE_CALL)->loop = loop;
}

static bool is_small(const CpuThunk *thunk) {
    bool small_loop = thunk->kind == CPU_STEP_LOOPS || thunk->kind == CPU_STEP_COPY_LOOPS;
    for (int32_t i = 0; i < thunk->loop_count && small_loop; i++) small_loop = thunk->loops[i].loop->small_loop != NULL;
    return small_loop;
}

static void plan_list(Planner *p, const CpuThunkList *list);

// Plans the carry's initial copies; then, for each iteration: condition, exit, body, back. Copies that end an iteration
// are part of the lists.
static void plan_while(Planner *p, const CpuThunk *thunk) {
    plan_copies(p, thunk->copies, thunk->copy_count);
    const int32_t begin = here(p);
    plan_list(p, &thunk->regions[0]);
    const int32_t test = here(p);
    add(p, CPU_WHILE_UNLESS)->predicate = thunk->regions[0].predicate;
    plan_list(p, &thunk->regions[1]);
    add(p, CPU_WHILE_GO)->target = begin;
    p->steps.items[test].target = here(p);
}

// Plans branches one after the other, each with a jump past the last, whose target is known once all are planned.
static void plan_conditional(Planner *p, const CpuThunk *thunk) {
    int32_t *targets = HLO_ARENA_NEW(p->arena, int32_t, 2 * thunk->region_count), *ends = targets + thunk->region_count;
    CpuWhileStep *choice = add(p, CPU_WHILE_CHOOSE);
    choice->thunk = thunk;
    choice->targets = targets;
    for (int32_t i = 0; i < thunk->region_count && p->fits; i++) {
        targets[i] = here(p);
        plan_list(p, &thunk->regions[i]);
        ends[i] = here(p);
        add(p, CPU_WHILE_GO);
    }
    for (int32_t i = 0; i < thunk->region_count && p->fits; i++) p->steps.items[ends[i]].target = here(p);
}

static void plan_thunk(Planner *p, const CpuThunk *thunk) {
    p->may_share = p->may_share || thunk->share_index >= 0;
    switch (thunk->kind) {
        case CPU_STEP_WHILE: plan_while(p, thunk); break;
        case CPU_STEP_CONDITIONAL: plan_conditional(p, thunk); break;
        // These may have to wait for other devices.
        case CPU_STEP_COLLECTIVE:
        case CPU_STEP_RECEIVE:
        case CPU_STEP_SEND: p->fits = false; break;
        default:
            if (!is_small(thunk)) {
                add(p, thunk->small ? CPU_WHILE_CALL : CPU_WHILE_THUNK)->thunk = thunk;
                break;
            }
            if (thunk->kind == CPU_STEP_COPY_LOOPS) plan_copies(p, thunk->copies, thunk->copy_count);
            for (int32_t i = 0; i < thunk->loop_count; i++) plan_small_loop(p, &thunk->loops[i]);
            break;
    }
}

static void plan_list(Planner *p, const CpuThunkList *list) {
    for (int64_t i = 0; i < list->count && p->fits; i++) plan_thunk(p, &list->thunks[i]);
    plan_copies(p, list->end_copies, list->end_copy_count);
}

static const CpuWhileProgram *plan_program(HloArena *arena, HloArena *scratch, const CpuThunk *thunk, bool code) {
    Planner p = {.arena = arena, .fits = true};
    plan_while(&p, thunk);
    if (!p.fits) return NULL;
    CpuWhileProgram *program = HLO_ARENA_NEW(arena, CpuWhileProgram, 1);
    *program = (CpuWhileProgram){p.steps.items, p.steps.count, p.may_share, NULL};
    if (code) program->code = cpu_while_code_make(scratch, arena, program);
    return program;
}

// A loop's list includes the loops and conditionals within it.
void cpu_while_programs_plan(HloArena *arena, HloArena *scratch, const CpuThunkList *list, bool code) {
    for (int64_t i = 0; i < list->count; i++) {
        CpuThunk *thunk = (CpuThunk *)(uintptr_t)&list->thunks[i];
        if (thunk->kind == CPU_STEP_WHILE) thunk->program = plan_program(arena, scratch, thunk, code);
        for (int32_t r = 0; r < thunk->region_count && !thunk->program; r++)
            cpu_while_programs_plan(arena, scratch, &thunk->regions[r], code);
    }
}

void cpu_while_programs_free(const CpuThunkList *list) {
    for (int64_t i = 0; i < list->count; i++) {
        const CpuThunk *thunk = &list->thunks[i];
        if (thunk->program) cpu_while_code_free(thunk->program->code);
        for (int32_t r = 0; r < thunk->region_count && !thunk->program; r++)
            cpu_while_programs_free(&thunk->regions[r]);
    }
}

bool cpu_while_may_share(const CpuWhileProgram *program) {
    return program->may_share;
}

// ---- running

// Binds the calls of the loop whose first one is number `at`; returns their number. Buffers that move get their
// addresses in every iteration.
static int64_t bind_loop(const CpuThunkLoop *loop, char *const *bases, char *scratch, CpuSmallCall *calls) {
    char *buffers[CPU_SMALL_BUFFERS] = {0};
    for (int32_t i = 0; i < loop->buffer_count && i < CPU_SMALL_BUFFERS; i++)
        buffers[i] = cpu_slice_address(bases, loop->buffers[i].slice);
    cpu_small_loop_bind(loop->loop->small_loop, scratch, buffers, calls);
    return cpu_small_loop_length(loop->loop->small_loop);
}

static void bind_copy(const CpuCopy *copy, char *const *bases, CpuSmallCall *call) {
    *call = (CpuSmallCall){.kernel = cpu_small_copy(copy->bytes), .count = copy->bytes};
    call->addresses[0] = cpu_slice_address(bases, copy->to);
    call->addresses[1] = cpu_slice_address(bases, copy->from);
}

// Binds a thunk with one result and a function for small operands, which takes its description as the immediate.
static void bind_small(const CpuThunk *thunk, char *const *bases, CpuSmallCall *call) {
    const CpuSlice *slices = thunk->slices;
    assert(thunk->read_count < CPU_SMALL_ADDRESSES && thunk->write_count == 1);
    *call = (CpuSmallCall){.kernel = thunk->small, .immediate = (intptr_t)thunk->kernel};
    call->addresses[0] = cpu_slice_address(bases, slices[thunk->read_count]);
    for (int32_t i = 0; i < thunk->read_count; i++) call->addresses[i + 1] = cpu_slice_address(bases, slices[i]);
}

// Steps that are not calls have no kernel; the predicate's address is the first address of its step.
static void bind(const CpuWhileProgram *program, char *const *bases, char *scratch, CpuSmallCall *calls) {
    for (int64_t i = 0; i < program->count;) {
        const CpuWhileStep *step = &program->steps[i];
        if (step->kind == CPU_WHILE_CALL && step->loop) {
            i += bind_loop(step->loop, bases, scratch, &calls[i]);
            continue;
        }
        calls[i] = (CpuSmallCall){0};
        if (step->kind == CPU_WHILE_CALL && step->thunk)
            bind_small(step->thunk, bases, &calls[i]);
        else if (step->kind == CPU_WHILE_CALL)
            bind_copy(&step->copy, bases, &calls[i]);
        if (step->kind == CPU_WHILE_UNLESS) calls[i].addresses[0] = cpu_slice_address(bases, step->predicate);
        i++;
    }
}

// Writes the position of a dynamic slice in this iteration to all call arguments that point into it.
static void move(const CpuWhileStep *step, char *const *bases, CpuSmallCall *calls) {
    char *at = cpu_thunk_buffer_address(step->buffer, bases);
    for (int64_t i = 0; i < step->moved_count; i++) {
        const CpuWhileMoved *moved = &step->moved[i];
        calls[moved->step].addresses[moved->address] = at + moved->offset;
    }
}

// The arguments of a loop's run.
typedef struct Runner {
    const CpuWhileProgram *program;
    char *const *bases;
    CpuPool *pool;
    CpuWhileThunk *run_thunk;
    void *context;
} Runner;

// Runs a step that is not a call; *at becomes the next one.
static HloStatus run_step(const Runner *runner, const CpuWhileStep *step, CpuSmallCall *calls, int64_t *at) {
    switch (step->kind) {
        case CPU_WHILE_MOVE: move(step, runner->bases, calls); break;
        case CPU_WHILE_COPY: {
            char *to = cpu_slice_address(runner->bases, step->copy.to);
            const char *from = cpu_slice_address(runner->bases, step->copy.from);
            if (to != from) cpu_copy_bytes(runner->pool, to, from, step->copy.bytes);
            break;
        }
        case CPU_WHILE_THUNK: return runner->run_thunk(runner->context, step->thunk);
        case CPU_WHILE_GO: *at = step->target; break;
        case CPU_WHILE_CHOOSE: *at = step->targets[cpu_thunk_branch(step->thunk, runner->bases)]; break;
        case CPU_WHILE_CALL:
        case CPU_WHILE_UNLESS: HLO_BUG_IF(true);
    }
    return HLO_SUCCESS;
}

// The inner loop of short loops: it checks for a call's kernel first, as nearly all steps are calls.
static HloStatus run(const Runner *runner, CpuSmallCall *calls) {
    const CpuWhileStep *steps = runner->program->steps;
    for (int64_t at = 0; at < runner->program->count;) {
        const CpuSmallCall *call = &calls[at];
        char *const *addresses = call->addresses;
        if (call->kernel) {
            call->kernel(addresses[0], addresses[1], addresses[2], addresses[3], call->count, call->immediate);
            at++;
        } else if (steps[at].kind == CPU_WHILE_UNLESS) {
            at = *addresses[0] ? at + 1 : steps[at].target;
        } else {
            const CpuWhileStep *step = &steps[at++];
            HLO_TRY(run_step(runner, step, calls, &at));
        }
    }
    return HLO_SUCCESS;
}

// Runs the code, which returns at steps that are not in it.
static HloStatus run_code(const Runner *runner, char *scratch) {
    const CpuWhileProgram *program = runner->program;
    char *moved[CPU_WHILE_MOVED];
    for (int64_t at = 0;;) {
        at = cpu_while_code_run(program->code, at, runner->bases, scratch, moved);
        if (at == program->count) return HLO_SUCCESS;
        const CpuWhileStep *step = &program->steps[at++];
        HLO_TRY(run_step(runner, step, NULL, &at));
    }
}

// A loop of a few iterations must not wait for an allocation.
enum { kInlineCalls = 64 };

HloStatus cpu_while_run(const CpuWhileProgram *program, char *const *bases, CpuPool *pool, CpuWhileThunk *run_thunk,
                        void *context) {
    assert(program && bases && run_thunk);
    _Alignas(64) char scratch[CPU_SMALL_SCRATCH];
    const Runner runner = {program, bases, pool, run_thunk, context};
    if (program->code) return run_code(&runner, scratch);
    _Alignas(64) CpuSmallCall small[kInlineCalls];
    CpuSmallCall *calls =
        program->count <= kInlineCalls ? small : hlo_allocate(sizeof(CpuSmallCall) * (size_t)program->count);
    HLO_FAIL_IF(!calls, HLO_RESOURCE_EXHAUSTED, "no memory to run a loop of %lld calls", (long long)program->count);
    bind(program, bases, scratch, calls);
    const HloStatus status = run(&runner, calls);
    if (calls != small) hlo_free(calls);
    return status;
}
