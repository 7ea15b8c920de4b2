// SPDX-License-Identifier: Apache-2.0
// Opcodes, expanded from hlo/ops.def.
//
// Stability: stable.
#ifndef MESHLO_HLO_IR_OPCODE_H_
#define MESHLO_HLO_IR_OPCODE_H_

#include "hlo/ir/attributes.h"

HLO_BEGIN_C

typedef enum HloOpcode {
#define HLO_OP(name, text, arity, flags, family, kinds, shape, eval, partition, cost, jvp, transpose, batching) \
    HLO_OP_##name,
#include "hlo/ops.def"
#undef HLO_OP
    HLO_OPCODE_COUNT
} HloOpcode;

typedef enum HloOpFlags {
    HLO_OP_IS_ELEMENTWISE = 1,        // result element i depends on element i of each operand only
    HLO_OP_IS_COMMUTES = 2,           // op(a, b) == op(b, a)
    HLO_OP_IS_CALLS = 4,              // has called computations
    HLO_OP_IS_COLLECTIVE = 8,         // exchanges data between devices
    HLO_OP_IS_SIDE_EFFECT = 16,       // must not be removed, duplicated or reordered
    HLO_OP_IS_MAY_HAVE_EFFECT = 32,   // has one if its attributes declare it (custom-call)
    HLO_OP_IS_NONDETERMINISTIC = 64,  // two equal instructions may give different results
    HLO_OP_IS_ASYNC_START = 128,      // begins work that an ..-done op ends
    HLO_OP_IS_ASYNC_DONE = 256,
    HLO_OP_IS_LINEAR = 512,            // f(a + b, c + d) = f(a, c) + f(b, d), exact except for rounding of the sums
    HLO_OP_IS_MULTILINEAR = 1024,      // linear in each operand while the others are fixed
    HLO_OP_IS_LINEAR_IN_FIRST = 2048,  // linear in operand 0 while the others are fixed
    HLO_OP_IS_REARRANGES = 4096,       // the result contains each element of the operand once
    HLO_OP_IS_PRODUCT = 8192,          // sums products of elements of its first two operands, which machines may round
} HloOpFlags;

typedef struct HloOpInfo {
    const char *text;  // "dynamic-slice"
    const char *name;  // "DYNAMIC_SLICE"
    int arity;         // -1 if it varies
    int flags;         // HloOpFlags
    HloFamily family;  // of its attributes
    int kinds;         // bit 1 << HloTypeKind for each kind of element type allowed for its operands
} HloOpInfo;

// The row of an opcode. Static storage, any thread.
HLO_EXPORT const HloOpInfo *hlo_op_info(HloOpcode opcode);
static inline const char *hlo_op_text(HloOpcode opcode) {
    return hlo_op_info(opcode)->text;
}
static inline bool hlo_op_is(HloOpcode opcode, int flags) {
    return (hlo_op_info(opcode)->flags & flags) != 0;
}
// Whether text must, may or cannot give field number `field` of the op's family. Any thread.
HLO_EXPORT HloFieldPresence hlo_field_presence(HloOpcode opcode, int32_t field);
// The opcode with this spelling, or HLO_OPCODE_COUNT.
HLO_EXPORT HloOpcode hlo_op_from_text(const char *text, size_t length);

HLO_END_C

#endif
