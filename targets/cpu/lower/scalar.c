// SPDX-License-Identifier: Apache-2.0
// Compiles scalar computations as loops over one element.
//
// A computation of scalars (the comparator of a sort, the reducer of a scatter) is compiled as a loop over a domain of
// one element, or of several adjacent lanes, whose loads and stores are the parameters and results. So there is one
// compiler for all arithmetic, and a comparator rounds as a fused loop does.
#include "targets/cpu/lower/scalar.h"

#include <assert.h>
#include <string.h>

// Counts the results; a tuple's elements count separately.
static int32_t result_count(const HloComputation *computation) {
    const HloShape *shape = computation->root->shape;
    return hlo_shape_is_tuple(shape) ? shape->element_count : 1;
}

static HloType result_type(const HloComputation *computation, int32_t index) {
    const HloShape *shape = computation->root->shape;
    return hlo_shape_is_tuple(shape) ? shape->elements[index]->type : shape->type;
}

const CpuScalarFunction *cpu_scalar_compile(CpuLowering *lowering, const HloComputation *computation) {
    return cpu_scalar_compile_lanes(lowering, computation, 1);
}

// Returns NULL for computations that cannot be inlined (calls, loops) or have more parameters and results than
// CPU_SCALAR_LIMIT: the caller has another way to compute them.
const CpuScalarFunction *cpu_scalar_compile_lanes(CpuLowering *lowering, const HloComputation *computation,
                                                  int64_t lanes) {
    assert(lowering && computation && lanes > 0);
    static const int64_t kNeighbours[1] = {1};
    const int32_t parameters = (int32_t)computation->parameters.count, results = result_count(computation);
    if (!cpu_emit_can_inline_computation(computation) || parameters + results > CPU_SCALAR_LIMIT) return NULL;
    const CpuLoopDomain domain = {.outer = 1, .dims = &lanes};  // the builder copies the size
    const CpuIndexMap map = {0, kNeighbours};
    CpuLoopBuilder *builder = cpu_loop_builder_new(lowering->arena, &domain, lowering->features);
    CpuValue values[CPU_SCALAR_LIMIT], outs[CPU_SCALAR_LIMIT];
    for (int32_t i = 0; i < parameters; i++)
        values[i] = cpu_loop_load(builder, i, computation->parameters.items[i]->shape->type, &map);
    cpu_emit_computation(lowering->arena, builder, computation, values, outs);
    CpuScalarFunction *function = HLO_ARENA_NEW(lowering->arena, CpuScalarFunction, 1);
    function->parameter_count = parameters;
    function->result_count = results;
    for (int32_t i = 0; i < results; i++) {
        cpu_loop_store(builder, parameters + i, outs[i], &map);
        function->result_bytes[i] = hlo_type_bytes(result_type(computation, i));
    }
    CpuLoop *loop = NULL;
    const HloStatus status = cpu_loop_finish(builder, &loop);
    function->loop = loop;
    hlo_status_free(status);
    return status ? NULL : function;
}

// A loop over one element needs only the memory that its first run has allocated, so only a first run can fail.
void cpu_scalar_call(const CpuScalarFunction *function, void *const *addresses) {
    const HloStatus status = cpu_loop_run(function->loop, NULL, addresses);
    HLO_BUG_IF(status != NULL);
}

// Writes results to temporary memory first: a later result may read the target of an earlier one.
void cpu_scalar_combine(void *context, int count, void *const *targets, const void *const *updates) {
    const CpuScalarFunction *function = context;
    _Alignas(16) char results[CPU_SCALAR_LIMIT][16];
    void *addresses[CPU_SCALAR_LIMIT] = {0};
    for (int i = 0; i < count; i++) {
        addresses[i] = targets[i];
        addresses[count + i] = (void *)(uintptr_t)updates[i];
        addresses[2 * count + i] = results[i];
    }
    cpu_scalar_call(function, addresses);
    for (int i = 0; i < count; i++) memcpy(targets[i], results[i], (size_t)function->result_bytes[i]);
}

void cpu_scalar_combine_lanes(void *context, int count, const void *const *accumulators, const void *const *elements,
                              void *const *results) {
    const CpuScalarFunction *function = context;
    void *addresses[CPU_SCALAR_LIMIT] = {0};
    assert(function->parameter_count == 2 * count &&
           function->result_count == count); /* the verifier checks reductions */
    for (int i = 0; i < count; i++) {
        addresses[i] = (void *)(uintptr_t)accumulators[i];
        addresses[count + i] = (void *)(uintptr_t)elements[i];
        addresses[2 * count + i] = results[i];
    }
    cpu_scalar_call(function, addresses);
}

// Parameters of a comparator come in pairs: left and right value of each sorted array.
bool cpu_scalar_less(void *context, const void *const *left, const void *const *right) {
    const CpuScalarFunction *function = context;
    char result = 0;
    void *addresses[CPU_SCALAR_LIMIT] = {0};
    for (int32_t i = 0; 2 * i < function->parameter_count; i++) {
        addresses[2 * i] = (void *)(uintptr_t)left[i];
        addresses[2 * i + 1] = (void *)(uintptr_t)right[i];
    }
    addresses[function->parameter_count] = &result;
    cpu_scalar_call(function, addresses);
    return result != 0;
}

bool cpu_scalar_keeps(void *context, const void *chosen, const void *element) {
    return cpu_scalar_less(context, &chosen, &element);
}
