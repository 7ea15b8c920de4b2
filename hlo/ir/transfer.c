// SPDX-License-Identifier: Apache-2.0
// The devices that a send or recv connects: the pairs {{source,target},..} in the frontend attribute
// _xla_send_recv_source_target_pairs, as XLA writes them.
//
//   send(x, token), channel_id=5, frontend_attributes={_xla_send_recv_source_target_pairs={{0,1},{1,2}}}
//
// The attribute may be on the op itself, on the start op of a done, or on another op of the same channel: producers
// write it on either half. The last case searches the whole module, but only the few transfers without an attribute
// need it.
#include "hlo/ir/transfer.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static const char pair_table[] = "_xla_send_recv_source_target_pairs";

static bool is_transfer(const HloInstruction *instruction) {
    return hlo_op_info(instruction->opcode)->family == HLO_FAMILY_Transfer;
}

bool hlo_transfer_is_host(const HloInstruction *transfer) {
    return HLO_ATTRIBUTES(transfer, Transfer)->is_host_transfer;
}

// The pairs attribute of an instruction, or of the start of a done; NULL if neither has one.
static const char *own_pairs(const HloInstruction *transfer) {
    const char *text = hlo_instruction_frontend_attribute(transfer, pair_table);
    const bool done = hlo_is(transfer, HLO_OP_SEND_DONE) || hlo_is(transfer, HLO_OP_RECV_DONE);
    return text || !done ? text : hlo_instruction_frontend_attribute(transfer->operands[0], pair_table);
}

// The text of the pairs, of this op or of any other of its channel; NULL if there is none.
static const char *channel_pairs(const HloInstruction *transfer) {
    const char *own = own_pairs(transfer);
    const int64_t channel = HLO_ATTRIBUTES(transfer, Transfer)->channel_id;
    const HloModule *module = transfer->parent->module;
    for (int64_t c = 0; c < module->computations.count && !own; c++)
        for (const HloInstruction *i = module->computations.items[c]->first; i && !own; i = i->next)
            if (is_transfer(i) && !hlo_transfer_is_host(i) && HLO_ATTRIBUTES(i, Transfer)->channel_id == channel)
                own = own_pairs(i);
    return own;
}

static const char *skip(const char *text, const char *set) {
    return text + strspn(text, set);
}

// Reads "{a,b}" at *text; false on anything else.
static bool read_pair(const char **text, HloPair *pair) {
    char *end;
    const char *at = skip(*text, " ");
    if (*at != '{') return false;
    pair->source = strtoll(at + 1, &end, 10);
    if (end == at + 1 || *end != ',') return false;
    at = end + 1;
    pair->target = strtoll(at, &end, 10);
    if (end == at || *end != '}' || pair->source < 0 || pair->target < 0) return false;
    *text = end + 1;
    return true;
}

// Reads "{{0,1},{1,2}}", with blanks allowed between; negative numbers and trailing text are refused.
static bool read_pairs(HloArena *arena, const char *text, HloPairs *pairs) {
    HLO_VECTOR(HloPair) list = {0};
    text = skip(text, " ");
    if (*text++ != '{') return false;
    for (text = skip(text, " "); *text == '{'; text = skip(text, " ,")) {
        HloPair pair;
        if (!read_pair(&text, &pair)) return false;
        hlo_vector_push(arena, &list, pair);
    }
    if (*text++ != '}' || *skip(text, " ")) return false;
    *pairs = (HloPairs){list.items, list.count};
    return true;
}

HloStatus hlo_transfer_route(HloArena *arena, const HloInstruction *transfer, HloTransferRoute *route) {
    assert(is_transfer(transfer) && transfer->parent && route);
    *route = (HloTransferRoute){.channel = HLO_ATTRIBUTES(transfer, Transfer)->channel_id};
    const char *text = channel_pairs(transfer);
    if (!text) return HLO_SUCCESS;
    route->has_pairs = true;
    HLO_FAIL_IF(!read_pairs(arena, text, &route->pairs), HLO_INVALID_ARGUMENT, "%%%s: %s=\"%s\" is not a list of pairs",
                transfer->name, pair_table, text);
    return HLO_SUCCESS;
}

void hlo_pairs_print(HloText *text, const HloPairs *pairs) {
    assert(text && pairs);
    hlo_text_char(text, '{');
    for (int64_t i = 0; i < pairs->count; i++) {
        hlo_text_string(text, i ? ",{" : "{");
        hlo_text_int64(text, pairs->items[i].source);
        hlo_text_char(text, ',');
        hlo_text_int64(text, pairs->items[i].target);
        hlo_text_char(text, '}');
    }
    hlo_text_char(text, '}');
}

void hlo_transfer_set_pairs(HloInstruction *transfer, const HloPairs *pairs) {
    assert(is_transfer(transfer) && transfer->parent && pairs);
    HloText text = {0};
    hlo_pairs_print(&text, pairs);
    hlo_instruction_set_frontend_attribute(transfer, pair_table,
                                           hlo_text_to_arena(transfer->parent->module->arena, &text));
}

int64_t hlo_transfer_source(const HloTransferRoute *route, int64_t number) {
    for (int64_t i = 0; i < route->pairs.count; i++)
        if (route->pairs.items[i].target == number) return route->pairs.items[i].source;
    return -1;
}
