// SPDX-License-Identifier: Apache-2.0
// Unique names in a module. Private to hlo/ir.
#ifndef MESHLO_HLO_IR_NAMES_H_
#define MESHLO_HLO_IR_NAMES_H_

#include "hlo/base/map.h"
#include "hlo/ir/module.h"

// Returns `name` itself if HLO text can hold it as a name, else the same replacement that XLA makes
// (NameUniquer::GetSanitizedName): characters other than letters, digits, '_', '.' and '-' become '_', as does a first
// character that is not a letter; names of element types get a trailing '_'.
const char *hlo_sanitized_name(HloArena *arena, const char *name);

// Returns `wanted`, sanitised, if it is unused, else its stem with the next free number, counted from 0 as in XLA: add
// and add.0 are one name, so add, add.1, add.2, but add.5, add.0, add.1. Records `owner` as the owner of the name. The
// result lives in the arena.
const char *hlo_unique_name(HloArena *arena, HloNames *names, const char *wanted, void *owner);

// As hlo_unique_name(), for a name that is the opcode's text.
const char *hlo_opcode_name(HloArena *arena, HloNames *names, HloOpcode opcode, void *owner);

// Returns a deep copy of a key-value list.
HloKeyValues hlo_key_values_copy(HloArena *arena, HloKeyValues from);
// Returns the list with this value for the key, at the key's old position or else at the end. Key and value are copied.
HloKeyValues hlo_key_values_with(HloArena *arena, HloKeyValues old, const char *key, const char *value);

// Copies the computations reachable from `from` into an empty module and sets its entry.
void hlo_module_clone_computations(HloModule *module, const HloModule *from);

#endif
