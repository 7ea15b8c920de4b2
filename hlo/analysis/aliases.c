// SPDX-License-Identifier: Apache-2.0
#include "hlo/analysis/aliases.h"

// Leaves are counted once per parameter, because steps of large models donate thousands of arguments.
void hlo_alias_arguments(HloArena *scratch, const HloModule *module, const HloAliases *aliases, int64_t *arguments) {
    const HloComputation *entry = module->entry;
    const HloShape *result = entry->root->shape;
    int64_t *first = HLO_ARENA_NEW(scratch, int64_t, entry->parameters.count + 1);
    for (int64_t i = 0; i < entry->parameters.count; i++)
        first[i + 1] = first[i] + hlo_shape_leaf_count(entry->parameters.items[i]->shape);
    for (int64_t k = 0; k < hlo_shape_leaf_count(result); k++) arguments[k] = -1;
    for (int64_t i = 0; i < aliases->count; i++) {
        const HloAlias *alias = &aliases->items[i];
        const HloShape *parameter = entry->parameters.items[alias->operand]->shape;
        arguments[hlo_shape_leaf_number(result, alias->output_index)] =
            first[alias->operand] + hlo_shape_leaf_number(parameter, alias->operand_index);
    }
}
