// SPDX-License-Identifier: Apache-2.0
// Argmax and argmin (graph/match.h) as one kernel.
#include "targets/cpu/graph/match.h"
#include "targets/cpu/kernels/sort.h"
#include "targets/cpu/lower/lower.h"

typedef struct ArgKernel {
    HloType type, place_type;
    bool largest;
    int64_t outer, length, inner;
} ArgKernel;

static HloStatus run_argminmax(const void *data, void *const *arguments, CpuPool *pool) {
    const ArgKernel *k = data;
    return cpu_argminmax(pool, k->type, k->largest, k->outer, k->length, k->inner, k->place_type, arguments[1],
                         arguments[2], arguments[0]);
}

HloStatus cpu_lower_argminmax(CpuLowering *lowering, CpuNode *node, CpuStep *step) {
    const HloShape *shape = node->operands[0]->shape;
    const int64_t dimension = HLO_ATTRIBUTES(node->instruction, Dimensions)->dimensions.items[0];
    ArgKernel *kernel = HLO_ARENA_NEW(lowering->arena, ArgKernel, 1);
    *kernel = (ArgKernel){.type = shape->type,
                          .place_type = node->results[1]->shape->type,
                          .outer = 1,
                          .length = shape->dims[dimension],
                          .inner = 1};
    HLO_BUG_IF(!cpu_match_argminmax(node, &kernel->largest));
    for (int64_t d = 0; d < dimension; d++) kernel->outer *= shape->dims[d];
    for (int64_t d = dimension + 1; d < shape->rank; d++) kernel->inner *= shape->dims[d];
    cpu_step_kernel(lowering, node, step, run_argminmax, kernel);
    step->read_count = 1;  // the indices are not read
    return HLO_SUCCESS;
}
