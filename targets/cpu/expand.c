// SPDX-License-Identifier: Apache-2.0
// Ops that the engine has no form for, and need none: a pass writes them out as others before the graph is built.
// Dynamic sizes become static ones with masks in the same way.
#include "targets/cpu/expand.h"

#include "hlo/pass/pass.h"

typedef struct ExpandRow {
    HloOpcode opcode;
    const char *pass;
} ExpandRow;

// Which pass rids the program of which op.
static const ExpandRow kRows[] = {
    {HLO_OP_BATCH_NORM_TRAINING, "batch-norm-expander"},
    {HLO_OP_BATCH_NORM_INFERENCE, "batch-norm-expander"},
    {HLO_OP_BATCH_NORM_GRAD, "batch-norm-expander"},
    {HLO_OP_SCAN, "scan-expander"},
    {HLO_OP_BITCAST, "bitcast-expander"},
    {HLO_OP_SCALED_DOT, "scaled-dot-expander"},
};

static bool has_opcode(const HloModule *module, HloOpcode opcode) {
    for (int64_t c = 0; c < module->computations.count; c++)
        for (const HloInstruction *i = module->computations.items[c]->first; i; i = i->next)
            if (i->opcode == opcode) return true;
    return false;
}

static bool has_dynamic_sizes(const HloModule *module) {
    for (int64_t c = 0; c < module->computations.count; c++)
        for (const HloInstruction *i = module->computations.items[c]->first; i; i = i->next)
            if (hlo_shape_is_dynamic(i->shape)) return true;
    return false;
}

// Pointers of the table are compared: a pass that serves several ops is one text there.
static bool is_listed(const char *const *names, int64_t count, const char *name) {
    for (int64_t i = 0; i < count; i++)
        if (names[i] == name) return true;
    return false;
}

// One look through the module for each row; programs without such ops, nearly all, are left as they are. The passes run
// in the order of the table, the padder last, since what others write out may have dynamic sizes too.
HloStatus cpu_expand(HloModule *module) {
    const char *names[HLO_COUNT_OF(kRows) + 1];
    int64_t count = 0;
    for (size_t r = 0; r < HLO_COUNT_OF(kRows); r++)
        if (!is_listed(names, count, kRows[r].pass) && has_opcode(module, kRows[r].opcode))
            names[count++] = kRows[r].pass;
    if (has_dynamic_sizes(module)) names[count++] = "dynamic-padder";
    if (count == 0) return HLO_SUCCESS;
    const HloPassOptions options = {.skip_verify = true};
    return hlo_run_passes(module, names, count, &options);
}
