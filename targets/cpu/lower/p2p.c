// SPDX-License-Identifier: Apache-2.0
// Lowers send, recv and recv-done between devices: a send leaves a message (graph/mail.h), the recv-done takes it.
#include <assert.h>

#include "targets/cpu/graph/p2p.h"
#include "targets/cpu/lower/lower.h"

HloStatus cpu_lower_send(CpuLowering *lowering, CpuNode *node, CpuStep *step) {
    assert(node->operand_count == 1); /* build.c drops the token */
    const CpuP2pTransfer *peer;
    HLO_TRY(cpu_p2p_transfer_of(lowering->arena, lowering->program, node, node->operands[0]->bytes, &peer));
    cpu_step_kernel(lowering, node, step, NULL, peer);
    step->kind = CPU_STEP_SEND;
    return HLO_SUCCESS;
}

static HloStatus run_nothing(const void *kernel, void *const *arguments, CpuPool *pool) {
    (void)kernel;
    (void)arguments;
    (void)pool;
    return HLO_SUCCESS;
}

// Makes a step that does nothing: the start only names memory; the received data is the result of the done.
HloStatus cpu_lower_recv(CpuLowering *lowering, CpuNode *node, CpuStep *step) {
    cpu_step_kernel(lowering, node, step, run_nothing, NULL);
    return HLO_SUCCESS;
}

HloStatus cpu_lower_recv_done(CpuLowering *lowering, CpuNode *node, CpuStep *step) {
    const CpuP2pTransfer *peer;
    HLO_TRY(cpu_p2p_transfer_of(lowering->arena, lowering->program, node, node->results[0]->bytes, &peer));
    cpu_step_kernel(lowering, node, step, NULL, peer);
    step->kind = CPU_STEP_RECEIVE;
    return HLO_SUCCESS;
}
