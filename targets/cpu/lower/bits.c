// SPDX-License-Identifier: Apache-2.0
// Lowers bitcasts through the padding of tiles (all others are transposes and reshapes: graph/expand.c), and
// bitcast-convert between types of different width, one of them below 8 bits: these elements have a byte each in
// memory, so their bits must be combined or separated. (Whole bytes do not move: graph/build.c makes views of those,
// except for preds, which are 0 or 1 and are lowered here.)
#include <assert.h>
#include <string.h>

#include "hlo/eval/layout.h"
#include "targets/cpu/element/integer.h"
#include "targets/cpu/lower/lower.h"

typedef struct RegroupKernel {
    HloType narrow, wide;
    int64_t count;  // number of wide elements
    bool joins;     // narrow to wide
} RegroupKernel;

static void put_wide(HloType type, char *to, uint64_t bits) {
    if (hlo_type_info(type)->bits < 8)
        *(uint8_t *)to = cpu_narrow_byte(type, bits);
    else
        memcpy(to, &bits, (size_t)hlo_type_bytes(type));
}

// Makes an element of at most a byte from the low bits; any set bit makes a pred true.
static char narrow_byte(HloType type, uint64_t bits) {
    return type == HLO_PRED ? (bits & 0xff) != 0 : (char)cpu_narrow_byte(type, bits);
}

static HloStatus run_regroup(const void *data, void *const *arguments, CpuPool *pool) {
    const RegroupKernel *kernel = data;
    const int width = hlo_type_info(kernel->narrow)->bits, bytes = hlo_type_bytes(kernel->wide);
    const int parts = hlo_type_info(kernel->wide)->bits / width;
    const uint64_t mask = (UINT64_C(1) << width) - 1;
    const char *from = arguments[0];
    char *to = arguments[1];
    (void)pool;
    for (int64_t i = 0; i < kernel->count; i++) {
        uint64_t bits = 0;
        if (kernel->joins) {
            for (int p = 0; p < parts; p++) bits |= ((uint8_t)*from++ & mask) << (p * width);
            put_wide(kernel->wide, to + i * bytes, bits);
        } else {
            memcpy(&bits, from + i * bytes, (size_t)bytes);
            for (int p = 0; p < parts; p++) *to++ = narrow_byte(kernel->narrow, bits >> (p * width));
        }
    }
    return HLO_SUCCESS;
}

HloStatus cpu_lower_bitcast_convert(CpuLowering *lowering, CpuNode *node, CpuStep *step) {
    const HloType from = node->operands[0]->shape->type, to = node->results[0]->shape->type;
    const int from_bits = hlo_type_info(from)->bits, to_bits = hlo_type_info(to)->bits;
    const bool joins = from_bits < to_bits;
    if (((joins ? from_bits : to_bits) >= 8 && to != HLO_PRED) || (joins ? to_bits : from_bits) > 64)
        return cpu_lower_give_up(lowering, node);
    RegroupKernel *kernel = HLO_ARENA_NEW(lowering->arena, RegroupKernel, 1);
    *kernel = (RegroupKernel){.narrow = joins ? from : to,
                              .wide = joins ? to : from,
                              .count = (joins ? node->results : node->operands)[0]->elements,
                              .joins = joins};
    cpu_step_kernel(lowering, node, step, run_regroup, kernel);
    return HLO_SUCCESS;
}

// ---- bitcasts through memory

typedef struct BitcastKernel {
    const HloInstruction *instruction;
} BitcastKernel;

typedef struct BitcastCall {
    const BitcastKernel *kernel;
    void *const *arguments;
    HloArena *scratch;
} BitcastCall;

static HloStatus bitcast_protected(void *argument) {
    const BitcastCall *call = argument;
    const HloInstruction *bitcast = call->kernel->instruction;
    return hlo_bitcast_elements(call->scratch, bitcast->operands[0]->shape, bitcast->shape, call->arguments[0],
                                call->arguments[1]);
}

static HloStatus run_bitcast(const void *data, void *const *arguments, CpuPool *pool) {
    BitcastCall call = {data, arguments, hlo_arena_new()};
    (void)pool;
    HLO_FAIL_IF(!call.scratch, HLO_RESOURCE_EXHAUSTED, "no memory for a bitcast");
    const HloStatus status = hlo_protect(bitcast_protected, &call);
    hlo_arena_free(call.scratch);
    return status;
}

HloStatus cpu_lower_bitcast(CpuLowering *lowering, CpuNode *node, CpuStep *step) {
    BitcastKernel *kernel = HLO_ARENA_NEW(lowering->arena, BitcastKernel, 1);
    assert(node->operand_count == 1 && node->result_count == 1); /* tuples are already leaves */
    kernel->instruction = node->instruction;                     // in the copy of the module that the executable keeps
    cpu_step_kernel(lowering, node, step, run_bitcast, kernel);
    step->cost *= 16;
    return HLO_SUCCESS;
}
