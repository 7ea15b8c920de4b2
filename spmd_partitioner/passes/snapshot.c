// SPDX-License-Identifier: Apache-2.0
// What a pass that makes parts of products has to know of the program before it.
#include <assert.h>

#include "hlo/analysis/cost.h"
#include "spmd_partitioner/passes/passes.h"

HloStatus spmd_take_snapshot(const HloModule *module, HloArena *scratch, SpmdSnapshot *snapshot) {
    assert(module && snapshot);
    HloCostAnalysis *analysis = hlo_cost_analysis_new(module);
    HLO_FAIL_IF(!analysis, HLO_RESOURCE_EXHAUSTED, "out of memory");
    snapshot->limit = module->instruction_limit;
    snapshot->places = HLO_ARENA_NEW(scratch, int64_t, snapshot->limit);
    snapshot->flops = HLO_ARENA_NEW(scratch, double, snapshot->limit);
    for (int64_t c = 0; c < module->computations.count; c++) {
        int64_t place = 0;
        for (const HloInstruction *at = module->computations.items[c]->first; at; at = at->next) {
            snapshot->places[at->id] = place++;
            if (hlo_is(at, HLO_OP_DOT)) snapshot->flops[at->id] = hlo_cost_of_instruction(analysis, at).flops;
        }
    }
    hlo_cost_analysis_free(analysis);
    return HLO_SUCCESS;
}

bool spmd_was_there(const SpmdSnapshot *snapshot, const HloInstruction *at) {
    assert(snapshot && at);
    return at->id < snapshot->limit;
}
