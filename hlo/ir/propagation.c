// SPDX-License-Identifier: Apache-2.0
#include "hlo/ir/propagation.h"

#include <assert.h>
#include <string.h>

#include "hlo/ir/names.h"

static const char parameters_key[] = "meshlo.allow_spmd_sharding_propagation_to_parameters";
static const char output_key[] = "meshlo.allow_spmd_sharding_propagation_to_output";

static HloKeyValues with_flags(HloArena *arena, HloKeyValues attributes, const char *key, HloBools flags) {
    if (!hlo_propagation_is_stated(flags)) return attributes;
    HloText text = {0};
    for (int64_t i = 0; i < flags.count; i++)
        hlo_text_format(&text, "%s%s", i ? "," : "", flags.items[i] ? "true" : "false");
    return hlo_key_values_with(arena, attributes, key, hlo_text_to_arena(arena, &text));
}

HloKeyValues hlo_propagation_to_attributes(HloArena *arena, const HloModule *module) {
    assert(arena && module);
    HloKeyValues attributes =
        with_flags(arena, module->frontend_attributes, parameters_key, module->propagate_to_parameters);
    return with_flags(arena, attributes, output_key, module->propagate_to_output);
}

// Reads "true" or "false" at *text, and a comma after it.
static bool read_flag(const char **text, bool *flag) {
    const size_t length = strcspn(*text, ",");
    *flag = length == 4 && !memcmp(*text, "true", 4);
    if (!*flag && (length != 5 || memcmp(*text, "false", 5))) return false;
    *text += length;
    if (**text) ++*text;
    return true;
}

static HloStatus read_flags(HloArena *arena, const HloKeyValue *attribute, HloBools *flags) {
    HLO_VECTOR(bool) list = {0};
    for (const char *text = attribute->value; *text;) {
        bool flag;
        HLO_FAIL_IF(!read_flag(&text, &flag), HLO_INVALID_ARGUMENT, "%s=\"%s\" is not a list of true and false",
                    attribute->key, attribute->value);
        hlo_vector_push(arena, &list, flag);
    }
    *flags = (HloBools){list.items, list.count};
    return HLO_SUCCESS;
}

HloStatus hlo_propagation_from_attributes(HloModule *module) {
    assert(module);
    for (int64_t i = 0; i < module->frontend_attributes.count; i++) {
        const HloKeyValue *attribute = &module->frontend_attributes.items[i];
        if (!strcmp(attribute->key, parameters_key))
            HLO_TRY(read_flags(module->arena, attribute, &module->propagate_to_parameters));
        if (!strcmp(attribute->key, output_key))
            HLO_TRY(read_flags(module->arena, attribute, &module->propagate_to_output));
    }
    module->frontend_attributes =
        hlo_key_values_without(module->arena, module->frontend_attributes, "meshlo.allow_spmd_sharding_propagation_");
    return HLO_SUCCESS;
}
