// SPDX-License-Identifier: Apache-2.0
// What the builder's files share.
#ifndef MESHLO_HLO_IR_BUILD_INTERNAL_H_
#define MESHLO_HLO_IR_BUILD_INTERNAL_H_

#include "hlo/ir/builder.h"

struct HloBuilder {
    HloModule *module;
    HloComputation *computation;
    const char *name;             // what the computation shall be called
    HloArena *scratch;            // reset after each instruction
    HloStatus status;             // the first error
    const HloMetadata *metadata;  // for every new instruction
    const HloSharding *sharding;
};

// Runs body(argument) under hlo_protect() unless the builder has failed already, and keeps its error.
void hlo_builder_run(HloBuilder *builder, HloStatus (*body)(void *), void *argument);
// Records an error; the first one stays.
void hlo_builder_fail(HloBuilder *builder, HloStatus status);

// What shape inference is asked for a request; `operands` are the shapes of its operands, one each, and `arena` takes
// the result. The hint is the request's whole shape; a type and sizes instead of it are the caller's to make one of.
HloInferRequest hlo_build_infer_request(HloArena *arena, const HloModule *module, const HloBuildRequest *request,
                                        const HloShape *const *operands);

// An op of one, two or three operands and an attribute struct (which may be NULL).
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
// An op of `count` operands.
static inline HloInstruction *hlo_build_n(HloBuilder *builder, HloOpcode opcode, HloInstruction *const *operands,
                                          int64_t count, const void *attributes) {
    return hlo_build(
        builder,
        &(HloBuildRequest){.opcode = opcode, .operands = operands, .operand_count = count, .attributes = attributes});
}
// An op of `count` operands that calls one computation.
static inline HloInstruction *hlo_build_calling(HloBuilder *builder, HloOpcode opcode, HloInstruction *const *operands,
                                                int64_t count, const void *attributes, HloComputation *called) {
    return hlo_build(builder, &(HloBuildRequest){.opcode = opcode,
                                                 .operands = operands,
                                                 .operand_count = count,
                                                 .attributes = attributes,
                                                 .called = &called,
                                                 .called_count = 1});
}

#endif
