// SPDX-License-Identifier: Apache-2.0
// A loop is drawn by three of its iterations, each a copy of the one that was timed:
//
//   bytes  peak  ┌┐┌──┐    ┌──┐┌───────┐
//               ┌┘└┘  └────┘  └┘       └        what a loop holds between them is its peak
//   iteration   |  0  | … |  n/2  | … |  n-1  |
#include "emulator/report/memory_curve.h"

#include <assert.h>

#include "hlo/analysis/loop.h"
#include "hlo/base/vector.h"

// Loops are not opened any more when the curve has this many points.
#define MAX_POINTS 100000

typedef struct Curve {
    EmuProgram *program;
    int64_t *const *starts;
    HloArena *arena;
    HLO_VECTOR(EmuMemoryPoint) points;
} Curve;

// Kernels that take no time share a point, which has the most that one of them holds.
static void add_point(Curve *curve, int64_t start, int64_t bytes) {
    EmuMemoryPoint *last = curve->points.count ? &curve->points.items[curve->points.count - 1] : NULL;
    if (last && last->bytes == bytes) return;
    if (last && last->start >= start) {
        if (bytes > last->bytes) last->bytes = bytes;
        return;
    }
    hlo_vector_push(curve->arena, &curve->points, ((EmuMemoryPoint){start, bytes}));
}

static void add_computation(Curve *curve, const HloComputation *computation, const int64_t *alive, int64_t others,
                            int64_t shift);

// Adds a loop that starts at `start` and takes `duration`; `others` is held beside what its body makes, and `most` is
// the peak of both.
static void add_loop(Curve *curve, const HloInstruction *loop, int64_t start, int64_t duration, int64_t others,
                     int64_t most) {
    const HloComputation *body = loop->called[1];
    const int64_t known = hlo_trip_count(loop), trips = known > 0 ? known : 1, iteration = duration / trips;
    const int64_t *alive = emu_program_alive(curve->program, body);
    const int64_t held = others + curve->program->extra_bytes[body->id];
    for (int64_t trip = 0; trip < trips; trip++) {
        if (trip != 0 && trip != trips / 2 && trip != trips - 1) continue;
        const int64_t begin = start + trip * iteration;
        add_computation(curve, body, alive, held, begin - curve->starts[body->id][0]);
        if (trip + 1 < trips) add_point(curve, begin + iteration, most);
    }
}

// Adds the kernels of a computation, `shift` picoseconds after the run that was timed.
static void add_computation(Curve *curve, const HloComputation *computation, const int64_t *alive, int64_t others,
                            int64_t shift) {
    const EmuPlan *plan = emu_program_plan(curve->program, computation);
    const int64_t *starts = curve->starts[computation->id];
    for (int64_t k = 0; starts && k < plan->kernel_count; k++) {
        const HloInstruction *root = plan->kernels[k].members[0];
        const bool opens =
            hlo_is(root, HLO_OP_WHILE) && curve->starts[root->called[1]->id] && curve->points.count < MAX_POINTS;
        const int64_t start = starts[k] + shift, held = others + alive[k];
        if (opens)
            add_loop(curve, root, start, starts[k + 1] - starts[k],
                     held - emu_program_called_peak(curve->program, &plan->kernels[k]), held);
        else
            add_point(curve, start, held);
    }
}

void emu_memory_curve(EmuProgram *program, int64_t *const *starts, const EmuMemory *memory, EmuReport *report) {
    assert(program && starts && memory && report);
    Curve curve = {.program = program, .starts = starts, .arena = report->arena};
    add_computation(&curve, program->module->entry, memory->alive, memory->peak_bytes - memory->temp_bytes, 0);
    report->memory = curve.points.items;
    report->memory_count = curve.points.count;
}
