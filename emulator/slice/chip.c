// SPDX-License-Identifier: Apache-2.0
// The table of chips, expanded from chips.def, with lookup by generation and by the kind that JAX reports.
#include "emulator/chip.h"

#include <string.h>

static const EmuChip chips[EMU_GENERATION_COUNT] = {
#define EMU_CHIP_BEGIN(id, chip_name, kind) [EMU_GENERATION_##id] = {.name = (chip_name), .device_kind = (kind),
#define EMU_INTEGER(field, value, source) .field = (value),
#define EMU_REAL(field, value, source) .field = (value),
#define EMU_CHIP_END \
    }                \
    ,
#include "emulator/chips.def"
};

// The same rows again, each number with its source. The chip name is that of the last EMU_CHIP_BEGIN.
static const EmuChipFact facts[] = {
#define EMU_CHIP_BEGIN(id, chip_name, kind) {(chip_name), NULL, (kind), 0},
#define EMU_INTEGER(field, value, source) {NULL, #field, (source), (double)(value)},
#define EMU_REAL(field, value, source) {NULL, #field, (source), (value)},
#include "emulator/chips.def"
};

const EmuChip *emu_chip(EmuGeneration generation) {
    HLO_BUG_IF((unsigned)generation >= EMU_GENERATION_COUNT);
    return &chips[generation];
}

const EmuChip *emu_chip_by_kind(const char *kind) {
    for (size_t i = 0; i < HLO_COUNT_OF(chips); i++)
        if (!strcmp(chips[i].device_kind, kind)) return &chips[i];
    return NULL;
}

const EmuChipFact *emu_chip_facts(size_t *count) {
    *count = HLO_COUNT_OF(facts);
    return facts;
}
