// SPDX-License-Identifier: Apache-2.0
// Checks the validity of a module, in the order in which later checks rely on earlier ones: counts, structure (no
// dangling references, operands first), then each instruction by itself, then the header against the entry. Structure
// comes first because everything after it follows pointers.
#include "hlo/verify/verify.h"

#include <assert.h>

#include "hlo/ir/infer/support.h"
#include "hlo/verify/internal.h"

const char *hlo_verify_shape_text(HloVerifier *verifier, const HloShape *shape) {
    return hlo_shape_message(verifier->arena, shape);
}

// Errors that already have a place keep it: it is more precise.
HloStatus hlo_verify_place(HloStatus status, const HloInstruction *instruction) {
    assert(instruction->parent && instruction->parent->name);
    if (!status || hlo_status_place(status)) return status;
    status = hlo_status_annotate(status, "%s in %s", instruction->name, instruction->parent->name);
    return hlo_status_at_instruction(status, instruction);
}

static HloStatus check_instruction(HloVerifier *verifier, const HloInstruction *instruction) {
    HLO_TRY(hlo_verify_attributes(verifier, instruction));  // first, because inference reads them
    HLO_TRY(hlo_verify_shape(verifier, instruction));
    HLO_TRY(hlo_verify_sharding(verifier, instruction));
    return hlo_verify_async(verifier, instruction);
}

// Scratch memory is freed after each instruction: programs have millions.
static HloStatus check_all(HloVerifier *verifier) {
    assert(verifier->module && verifier->seen);
    HLO_TRY(hlo_verify_counts(verifier->module));
    HLO_TRY(hlo_verify_structure(verifier));
    for (int64_t c = 0; c < verifier->module->computations.count; c++) {
        const HloComputation *computation = verifier->module->computations.items[c];
        for (const HloInstruction *i = computation->first; i; i = i->next) {
            HloArenaMark mark = hlo_arena_mark(verifier->arena);
            HLO_TRY(hlo_verify_place(check_instruction(verifier, i), i));
            hlo_arena_reset(verifier->arena, mark);
        }
    }
    return hlo_verify_header(verifier);
}

static HloStatus verify_body(void *argument) {
    const HloModule *module = argument;
    HloVerifier verifier = {.module = module, .arena = hlo_arena_scratch_new()};
    verifier.seen = HLO_ARENA_NEW(verifier.arena, int32_t, module->instruction_limit);
    HloStatus status = check_all(&verifier);
    hlo_arena_free(verifier.arena);
    return status;
}

HloStatus hlo_verify(const HloModule *module) {
    assert(module);
    return hlo_protect(verify_body, (void *)(uintptr_t)module);
}
