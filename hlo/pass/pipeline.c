// SPDX-License-Identifier: Apache-2.0
// The registry of passes, and the pipelines made of them.
//
// A pipeline is a list of names that is run repeatedly until an iteration changes nothing. The order affects only the
// number of iterations, not the result: calls come first, so that everything after them sees one body; then tuples and
// empty arrays, because they hide the data flow; dead code last, to remove everything that became unused.
#include <string.h>

#include "hlo/pass/pass.h"

static const HloPass passes[] = {
#define HLO_PASS(function, name, summary) {name, summary, hlo_pass_##function},
#include "hlo/pass/passes.def"
#undef HLO_PASS
};

// The passes that make any program smaller without changing its shape for the partitioner.
static const char *const simplify[] = {
    "call-inliner",
    "tuple-simplifier",
    "zero-sized-hlo-elimination",
    "algebraic-simplifier",
    "while-loop-simplifier",
    "while-loop-state",
    "conditional-simplifier",
    "constant-folding",
    "reshape-mover",
    "cse",
    "dce",
};
// As `simplify`, without changing the call structure, which sharding propagation reads. Equal values are not merged
// either: a merged value would need one sharding for all its users. Their equal shards are merged after partitioning.
static const char *const simplify_before_partitioning[] = {
    "tuple-simplifier", "algebraic-simplifier", "while-loop-state", "constant-folding", "dce",
};
static const char *const expand[] = {
    "batch-norm-expander", "rng-expander", "gather-expander", "scatter-expander", "dce",
};

// The passes that implement annotated memory spaces. memory-copies runs last: host-offloader has already removed the
// copies of stacks that it moved.
static const char *const offload[] = {"host-offloader", "dce", "memory-copies"};

static const HloPipeline pipelines[] = {
    {"expand", "expands complex ops into simple ones", expand, HLO_COUNT_OF(expand), 1},
    {"offload", "moves offloaded values to host memory, by transfers", offload, HLO_COUNT_OF(offload), 1},
    {"simplify", "simplifies a program until nothing changes", simplify, HLO_COUNT_OF(simplify), 8},
    {"simplify-before-partitioning", "simplifies a program, keeping calls and shardings", simplify_before_partitioning,
     HLO_COUNT_OF(simplify_before_partitioning), 4},
};

// Lists are short and names are looked up once per run: a linear search suffices.
const HloPass *hlo_pass_at(int64_t index) {
    return index >= 0 && index < (int64_t)HLO_COUNT_OF(passes) ? &passes[index] : NULL;
}

const HloPass *hlo_pass_find(const char *name) {
    for (size_t i = 0; i < HLO_COUNT_OF(passes); i++) {
        if (strcmp(passes[i].name, name) == 0) return &passes[i];
    }
    return NULL;
}

const HloPipeline *hlo_pipeline_at(int64_t index) {
    return index >= 0 && index < (int64_t)HLO_COUNT_OF(pipelines) ? &pipelines[index] : NULL;
}

const HloPipeline *hlo_pipeline_find(const char *name) {
    for (size_t i = 0; i < HLO_COUNT_OF(pipelines); i++) {
        if (strcmp(pipelines[i].name, name) == 0) return &pipelines[i];
    }
    return NULL;
}
