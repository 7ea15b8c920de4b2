// SPDX-License-Identifier: Apache-2.0
// Values of a program's instructions, computed in two ways; and programs that end in the middle of a loop. Private to
// advice/difference.c.
#ifndef MESHLO_ADVICE_PROBE_H_
#define MESHLO_ADVICE_PROBE_H_

#include "advice/difference.h"

// A program and the two ways of computing it.
typedef struct Probe {
    HloArena *arena;
    HloModule *module;                   // changed by the search
    const HloLiteral *const *arguments;  // one per parameter
    int64_t argument_count;
    const AdviceRun *runs[2];
    TargetClient *clients[2];  // of runs with a machine
    HloLiteral **values[2];    // of the last probe_run(): the leaves of the results, then the probes
    int64_t value_count, result_count;
} Probe;

// Computes the results and the values of `probes` (arrays in the entry computation) both ways: fills `values`.
HLO_NODISCARD HloStatus probe_run(Probe *probe, HloInstruction *const *probes, int64_t count);
// Frees the values of the last run.
void probe_forget(Probe *probe);

// A loop of the entry computation that ends after `limit` iterations, if its condition does not end it earlier. Its
// state has the counter of iterations, s32, as last element.
HloInstruction *probe_limited_loop(Probe *probe, HloInstruction *loop, int64_t limit);
// The state of `loop` in the form that its body takes, from the limited loop.
HloInstruction *probe_loop_state(const HloInstruction *loop, HloInstruction *limited);
// Removes a limited loop that nothing uses, and its computations.
void probe_remove(Probe *probe, HloInstruction *unused);

#endif
