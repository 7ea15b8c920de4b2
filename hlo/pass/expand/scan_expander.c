// SPDX-License-Identifier: Apache-2.0
// Expands scan to a loop over the positions of its dimension, by the formula that derivatives use too. Its state: the
// position, the inputs, the outputs so far, the carried values.
//
// A scan applies its computation to the slices of its inputs at one position after the other: (slices, carries) to
// (output slices, carries). Outputs are collected in arrays of zeros, of which every iteration writes one slice; no
// zero remains, since every position is written.
#include "hlo/analysis/scan.h"
#include "hlo/pass/expand/formula.h"

// A call's types are those of its computation, but a scan's floats may have another precision.
static bool mixes_precision(const HloInstruction *scan) {
    const HloComputation *step = scan->called[0];
    for (int64_t i = 0; i < scan->operand_count; i++)
        if (step->parameters.items[i]->shape->type != scan->operands[i]->shape->type) return true;
    const HloScanParts parts = hlo_scan_parts(scan);
    for (int64_t i = 0; i < parts.outputs + parts.carries; i++) {
        const HloType type = hlo_shape_value(step->root->shape, i)->type;
        if (type != hlo_shape_value(scan->shape, i)->type) return true;
        const int64_t carry = i - parts.outputs;
        if (carry >= 0 && type != scan->operands[parts.inputs + carry]->shape->type) return true;
    }
    return false;
}

static HloStatus expand(HloInstruction *scan, const HloPassEnv *env, bool *changed) {
    if (!hlo_pass_may_replace(scan) || mixes_precision(scan)) return HLO_SUCCESS;
    for (int64_t i = 0; i < scan->operand_count; i++)
        if (hlo_shape_is_dynamic(scan->operands[i]->shape)) return HLO_SUCCESS;
    return hlo_pass_replace_by_formula(scan, env, changed);
}

HloStatus hlo_pass_scan_expander(HloModule *module, const HloPassEnv *env, bool *changed) {
    HloPassWalk walk = hlo_pass_walk(module);
    for (HloInstruction *i; (i = hlo_pass_next(&walk));)
        if (i->opcode == HLO_OP_SCAN) HLO_TRY(expand(i, env, changed));
    return HLO_SUCCESS;
}
