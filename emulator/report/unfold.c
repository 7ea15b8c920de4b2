// SPDX-License-Identifier: Apache-2.0
// Operations are listed in the order of the program with their depth, a loop before its body. The body lasts for the
// loop's time divided by its trips, and the trips are how much more often than the loop its first operation runs.
#include "emulator/report/unfold.h"

#include <assert.h>

typedef struct Unfolding {
    const EmuReport *report;
    bool whole;  // every iteration is visited
    EmuRunVisitor *visit;
    void *context;
} Unfolding;

// The position after all that is inside of the operation at `at`.
static int64_t end_of(const EmuReport *report, int64_t at, int64_t limit) {
    int64_t end = at + 1;
    while (end < limit && report->ops[end].depth > report->ops[at].depth) end++;
    return end;
}

static int64_t trips_of(const EmuOp *loop, const EmuOp *first) {
    const int64_t trips = loop->count > 0 ? first->count / loop->count : 1;
    return trips > 0 ? trips : 1;
}

// Visits the operations from `begin` to `end`, `shift` picoseconds after the iteration that is listed. Nests as deep as
// the program's loops, of which emu_simulate() allows 64.
static void visit_range(const Unfolding *unfolding, int64_t begin, int64_t end, int64_t shift, int64_t iteration,
                        int64_t iterations) {
    const EmuReport *report = unfolding->report;
    for (int64_t i = begin, next; i < end; i = next) {
        const EmuOp *op = &report->ops[i];
        next = end_of(report, i, end);
        if (op->in_shorter_branch) continue;
        unfolding->visit(unfolding->context, op, op->start + shift, iteration, iterations);
        if (next == i + 1) continue;
        const int64_t trips = trips_of(op, &report->ops[i + 1]), body = op->duration / trips;
        for (int64_t trip = 0; trip < trips; trip++) {
            if (!unfolding->whole && trip != 0 && trip != trips / 2 && trip != trips - 1) continue;
            visit_range(unfolding, i + 1, next, shift + trip * body, trip, trips);
        }
    }
}

bool emu_unfold(const EmuReport *report, int64_t limit, EmuRunVisitor *visit, void *context) {
    assert(report && visit);
    double runs = 0;
    for (int64_t i = 0; i < report->op_count; i++) runs += (double)report->ops[i].count;
    const Unfolding unfolding = {report, runs <= (double)limit, visit, context};
    visit_range(&unfolding, 0, report->op_count, 0, 0, 1);
    return unfolding.whole;
}
