// SPDX-License-Identifier: Apache-2.0
// Builder: special functions that are not HLO ops, as graphs (hlo/ir/build/formulas.h).
#include <assert.h>

#include "hlo/ir/build/formulas.h"
#include "hlo/ir/build/internal.h"

// The context in which the builder makes a graph of values with the shape of `like`.
typedef struct Target {
    HloBuilder *builder;
    const HloInstruction *like;
} Target;

static HloInstruction *append(void *context, HloOpcode opcode, HloInstruction *const *operands, int64_t count,
                              const void *attributes) {
    const Target *target = context;
    return hlo_build_n(target->builder, opcode, operands, count, attributes);
}

static HloInstruction *number(void *context, double value) {
    const Target *target = context;
    assert(target->like); /* it has the sizes */
    return hlo_build_splat_like(target->builder, target->like, value);
}

HloInstruction *hlo_build_erf_inv(HloBuilder *builder, HloInstruction *x) {
    if (!x) return NULL;
    HloType type = x->shape->type;
    if (!hlo_type_is_float(type)) {
        hlo_builder_fail(
            builder, hlo_error(HLO_INVALID_ARGUMENT, "erf_inv: elements of type %s, not floats", hlo_type_text(type)));
        return NULL;
    }
    if (type != HLO_F64 && type != HLO_F32)
        return hlo_build_convert(builder, hlo_build_erf_inv(builder, hlo_build_convert(builder, x, HLO_F32)), type);
    Target target = {builder, x};
    return hlo_graph_erf_inv(&(HloGraph){append, number, &target}, x, type);
}

HloInstruction *hlo_build_digamma(HloBuilder *builder, HloInstruction *x) {
    Target target = {builder, x};
    return x ? hlo_graph_digamma(&(HloGraph){append, number, &target}, x) : NULL;
}
