// SPDX-License-Identifier: Apache-2.0
// Unique names inside a module. Private to hlo/ir.
#ifndef MESHLO_HLO_IR_NAMES_H_
#define MESHLO_HLO_IR_NAMES_H_

#include "hlo/base/map.h"
#include "hlo/ir/module.h"

// `name` itself if HLO text can hold it as a name, else a copy that XLA makes of it too
// (NameUniquer::GetSanitizedName): characters other than letters, digits, '_', '.' and '-' become '_', so does a first
// one that is no letter; names of element types get a '_' at the end.
const char *hlo_sanitized_name(HloArena *arena, const char *name);

// `wanted`, sanitised, if nobody has it, else its stem with the next free number, counted from 0 as XLA counts: add and
// add.0 are one name, so add, add.1, add.2, but add.5, add.0, add.1. Records `owner` as the holder of the name. The
// result lives in the arena.
const char *hlo_unique_name(HloArena *arena, HloNames *names, const char *wanted, void *owner);

// The same for what is called as its opcode is.
const char *hlo_opcode_name(HloArena *arena, HloNames *names, HloOpcode opcode, void *owner);

// A deep copy of a key-value list.
HloKeyValues hlo_key_values_copy(HloArena *arena, HloKeyValues from);
// The list with this value for the key, in the place of an old one or else at the end. Key and value are copied.
HloKeyValues hlo_key_values_with(HloArena *arena, HloKeyValues old, const char *key, const char *value);

// Copies the computations that `from` reaches into an empty module and sets its entry.
void hlo_module_clone_computations(HloModule *module, const HloModule *from);

#endif
