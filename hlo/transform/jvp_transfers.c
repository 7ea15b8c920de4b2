// SPDX-License-Identifier: Apache-2.0
// Transfers. What is sent, to the host or to another device, may come back as what a receive returns, by a way that no
// operand shows: not even a token needs to connect the two. A send alone has no effect on the results and is left as it
// is; a derivative through both would have to go the same way back, and is refused.
#include "hlo/transform/internal.h"

static bool runs(const HloIntMap *computations, const HloInstruction *i, HloOpcode opcode) {
    bool result = hlo_is(i, opcode);
    for (int32_t k = 0; k < i->called_count; k++)
        result |= hlo_int_map_find(computations, (uint64_t)i->called[k]->id) != NULL;
    return result;
}

// Sets the computations that have an instruction of `opcode`, or run others that have one.
static void find(HloArena *scratch, const HloModule *module, HloOpcode opcode, HloIntMap *found) {
    for (bool changed = true; changed;) {
        changed = false;
        for (int64_t c = 0; c < module->computations.count; c++) {
            const HloComputation *computation = module->computations.items[c];
            bool has = hlo_int_map_find(found, (uint64_t)computation->id) != NULL;
            if (has) continue;
            for (const HloInstruction *i = computation->first; i && !has; i = i->next) has = runs(found, i, opcode);
            if (has) hlo_int_map_set(scratch, found, (uint64_t)computation->id, 1);
            changed |= has;
        }
    }
}

void hlo_jvp_find_transfers(HloArena *scratch, const HloModule *module, HloTransfers *transfers) {
    find(scratch, module, HLO_OP_RECV, &transfers->receiving);
    if (transfers->receiving.count) find(scratch, module, HLO_OP_SEND, &transfers->sending);
}

bool hlo_jvp_sends(const HloJvp *j, const HloInstruction *i) {
    return j->memory->transfers.receiving.count && runs(&j->memory->transfers.sending, i, HLO_OP_SEND);
}

// An instruction that sends something with a tangent, and one that receives something that matters.
void hlo_jvp_check_transfer(HloJvp *j, const bool *needed) {
    HloTransfers *t = &j->memory->transfers;
    const HloInstruction *i = j->old;
    const bool sends = hlo_jvp_sends(j, i);
    if (!t->receiving.count) return;
    for (int32_t k = 0; k < i->operand_count && sends; k++)
        if (hlo_jvp_tangents(j, k)) t->sent = i;
    for (int64_t k = 0; k < hlo_shape_leaf_count(i->shape); k++)
        if (needed[k] && hlo_transform_is_continuous(hlo_shape_leaf(i->shape, k)->type) &&
            runs(&t->receiving, i, HLO_OP_RECV))
            t->received = i;
    if (t->sent && t->received)
        hlo_jvp_fail(j, HLO_UNIMPLEMENTED,
                     "%s receives what may depend on what %s sends: there is no derivative through transfers",
                     t->received->name, t->sent->name);
}
