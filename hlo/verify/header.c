// SPDX-License-Identifier: Apache-2.0
// Checks a module's header against its entry computation: the declared layouts are those of the entry's parameters and
// result, every alias and every donor names an existing buffer, and no buffer is donated twice.
#include <assert.h>

#include "hlo/verify/internal.h"

// The shape of an entry parameter at `index`, or NULL.
static const HloShape *parameter_at(const HloModule *module, int64_t parameter, HloInts index) {
    if (parameter < 0 || parameter >= hlo_parameter_count(module->entry)) return NULL;
    return hlo_shape_at(module->entry->parameters.items[parameter]->shape, index);
}

static HloStatus check_entry_layout(HloVerifier *verifier) {
    assert(verifier->module->entry);  // the structure was checked before
    const HloModule *module = verifier->module;
    const HloComputation *entry = module->entry;
    if (module->entry_parameter_layouts) {
        HLO_VERIFY_FAIL_IF(module->entry_parameter_layout_count != hlo_parameter_count(entry),
                           "entry_computation_layout has %lld parameters, computation %s has %lld",
                           (long long)module->entry_parameter_layout_count, entry->name,
                           (long long)hlo_parameter_count(entry));
        for (int64_t i = 0; i < module->entry_parameter_layout_count; i++) {
            const HloShape *given = module->entry_parameter_layouts[i], *real = entry->parameters.items[i]->shape;
            HLO_TRY(hlo_verify_layouts(verifier, given));
            HLO_VERIFY_FAIL_IF(!hlo_shape_equal(given, real, HLO_COMPARE_IGNORE_LAYOUT),
                               "entry_computation_layout has %s as parameter %lld, computation %s has %s",
                               hlo_verify_shape_text(verifier, given), (long long)i, entry->name,
                               hlo_verify_shape_text(verifier, real));
        }
    }
    const HloShape *given = module->entry_result_layout;
    if (!given) return HLO_SUCCESS;
    HLO_TRY(hlo_verify_layouts(verifier, given));
    HLO_VERIFY_FAIL_IF(!hlo_shape_equal(given, entry->root->shape, HLO_COMPARE_IGNORE_LAYOUT),
                       "entry_computation_layout has result %s, computation %s returns %s",
                       hlo_verify_shape_text(verifier, given), entry->name,
                       hlo_verify_shape_text(verifier, entry->root->shape));
    return HLO_SUCCESS;
}

// Buffers that are already aliased or donated. A map, since programs have as many aliases as they have arrays of state.
typedef struct Places {
    HloStringMap outputs, inputs;
} Places;

// The bytes of (number, index), the key of one buffer.
static const char *place_key(const HloVerifier *verifier, int64_t number, HloInts index, size_t *length) {
    int64_t *key = HLO_ARENA_NEW(verifier->arena, int64_t, index.count + 1);
    key[0] = number;
    for (int64_t i = 0; i < index.count; i++) key[i + 1] = index.items[i];
    *length = (size_t)(index.count + 1) * sizeof *key;
    return (const char *)key;
}

// Records the buffer; true if it was already recorded.
static bool take(const HloVerifier *verifier, HloStringMap *places, int64_t number, HloInts index) {
    static const char present = 0;  // any address that is not NULL
    size_t length;
    const char *key = place_key(verifier, number, index, &length);
    return hlo_string_map_set(verifier->arena, places, key, length, (void *)(uintptr_t)&present) != NULL;
}

static HloStatus check_alias(HloVerifier *verifier, int64_t number, Places *places) {
    assert(number >= 0 && number < verifier->module->aliases.count);
    const HloModule *module = verifier->module;
    const HloAlias *alias = &module->aliases.items[number];
    const HloShape *output = hlo_shape_at(module->entry->root->shape, alias->output_index);
    const HloShape *input = parameter_at(module, alias->operand, alias->operand_index);
    HLO_VERIFY_FAIL_IF(!output, "input_output_alias %lld names an output that does not exist", (long long)number);
    HLO_VERIFY_FAIL_IF(!input, "input_output_alias %lld names parameter %lld or a part of it that does not exist",
                       (long long)number, (long long)alias->operand);
    HLO_VERIFY_FAIL_IF(hlo_shape_bytes(output) != hlo_shape_bytes(input),
                       "input_output_alias %lld aliases output %s to %s, which has a different size", (long long)number,
                       hlo_verify_shape_text(verifier, output), hlo_verify_shape_text(verifier, input));
    HLO_VERIFY_FAIL_IF(take(verifier, &places->outputs, 0, alias->output_index),
                       "input_output_alias aliases one output twice");
    HLO_VERIFY_FAIL_IF(take(verifier, &places->inputs, alias->operand, alias->operand_index),
                       "input_output_alias aliases parameter %lld to two outputs", (long long)alias->operand);
    return HLO_SUCCESS;
}

static HloStatus check_donors(const HloVerifier *verifier, const Places *aliased) {
    const HloModule *module = verifier->module;
    for (int64_t i = 0; i < module->donor_count; i++) {
        const HloDonor *donor = &module->donors[i];
        HLO_VERIFY_FAIL_IF(!parameter_at(module, donor->parameter, donor->index),
                           "buffer_donor %lld names parameter %lld or a part of it that does not exist", (long long)i,
                           (long long)donor->parameter);
        size_t length;
        const char *key = place_key(verifier, donor->parameter, donor->index, &length);
        HLO_VERIFY_FAIL_IF(hlo_string_map_get(&aliased->inputs, key, length),
                           "parameter %lld is both a donor and aliased", (long long)donor->parameter);
    }
    return HLO_SUCCESS;
}

HloStatus hlo_verify_counts(const HloModule *module) {
    HLO_VERIFY_FAIL_IF(module->replica_count < 1 || module->num_partitions < 1 || module->replica_count > INT32_MAX ||
                           module->num_partitions > INT32_MAX,
                       "%lld replicas of %lld partitions: each count must be from 1 to 2147483647",
                       (long long)module->replica_count, (long long)module->num_partitions);
    return HLO_SUCCESS;
}

HloStatus hlo_verify_header(HloVerifier *verifier) {
    Places aliased = {0};
    HLO_TRY(hlo_verify_keys(verifier->module->frontend_attributes));
    HLO_TRY(check_entry_layout(verifier));
    for (int64_t i = 0; i < verifier->module->aliases.count; i++) HLO_TRY(check_alias(verifier, i, &aliased));
    return check_donors(verifier, &aliased);
}
