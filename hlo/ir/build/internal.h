// SPDX-License-Identifier: Apache-2.0
// Internals shared by the builder's files.
#ifndef MESHLO_HLO_IR_BUILD_INTERNAL_H_
#define MESHLO_HLO_IR_BUILD_INTERNAL_H_

#include "hlo/ir/builder.h"

struct HloBuilder {
    HloModule *module;
    HloComputation *computation;
    const char *name;             // the name for the computation
    HloArena *scratch;            // reset after each instruction
    HloStatus status;             // the first error
    const HloMetadata *metadata;  // for every new instruction
    const HloSharding *sharding;
};

// Runs body(argument) under hlo_protect() unless the builder has already failed, and keeps its error.
void hlo_builder_run(HloBuilder *builder, HloStatus (*body)(void *), void *argument);
// Records an error; the first one is kept.
void hlo_builder_fail(HloBuilder *builder, HloStatus status);

// The shape inference request for a build request; `operands` has the shapes of its operands, one each, and the result
// is allocated in `arena`. The hint is the request's whole shape; if it has a type and sizes instead, the caller makes
// a shape of them.
HloInferRequest hlo_build_infer_request(HloArena *arena, const HloModule *module, const HloBuildRequest *request,
                                        const HloShape *const *operands);

// Builds an op with one, two or three operands and an attribute struct (which may be NULL).
static inline HloInstruction *hlo_build_1(HloBuilder *builder, HloOpcode opcode, HloInstruction *a,
                                          const void *attributes) {
    return hlo_build(
        builder, &(HloBuildRequest){.opcode = opcode, .operands = &a, .operand_count = 1, .attributes = attributes});
}
static inline HloInstruction *hlo_build_2(HloBuilder *builder, HloOpcode opcode, HloInstruction *a, HloInstruction *b,
                                          const void *attributes) {
    HloInstruction *operands[] = {a, b};
    return hlo_build(
        builder,
        &(HloBuildRequest){.opcode = opcode, .operands = operands, .operand_count = 2, .attributes = attributes});
}
static inline HloInstruction *hlo_build_3(HloBuilder *builder, HloOpcode opcode, HloInstruction *a, HloInstruction *b,
                                          HloInstruction *c, const void *attributes) {
    HloInstruction *operands[] = {a, b, c};
    return hlo_build(
        builder,
        &(HloBuildRequest){.opcode = opcode, .operands = operands, .operand_count = 3, .attributes = attributes});
}
// Builds an op with `count` operands.
static inline HloInstruction *hlo_build_n(HloBuilder *builder, HloOpcode opcode, HloInstruction *const *operands,
                                          int64_t count, const void *attributes) {
    return hlo_build(
        builder,
        &(HloBuildRequest){.opcode = opcode, .operands = operands, .operand_count = count, .attributes = attributes});
}
// Builds an op with `count` operands that calls one computation.
static inline HloInstruction *hlo_build_calling(HloBuilder *builder, HloOpcode opcode, HloInstruction *const *operands,
                                                int64_t count, const void *attributes, HloComputation *called) {
    return hlo_build(builder, &(HloBuildRequest){.opcode = opcode,
                                                 .operands = operands,
                                                 .operand_count = count,
                                                 .attributes = attributes,
                                                 .called = &called,
                                                 .called_count = 1});
}

// The sizes of an array.
static inline HloInts hlo_build_dims(const HloInstruction *x) {
    return hlo_shape_dims(x->shape);
}
// x combined with the same number everywhere, rounded to its type: `op` is one of the builder's functions of two
// operands. NULL if x is.
typedef HloInstruction *HloBuildBinary(HloBuilder *builder, HloInstruction *a, HloInstruction *b);
static inline HloInstruction *hlo_build_with_number(HloBuilder *builder, HloBuildBinary *op, HloInstruction *x,
                                                    double number) {
    return x ? op(builder, x, hlo_build_splat_like(builder, x, number)) : NULL;
}
// The result of a reduction over `reduced_dims`, repeated to the sizes `dims` before it.
HloInstruction *hlo_build_spread(HloBuilder *builder, HloInstruction *reduced, HloInts dims, HloInts reduced_dims);

#endif
