// SPDX-License-Identifier: Apache-2.0
// One reader and one printer a unit, for all verbs.
#include "tools/sizes.h"

#include <string.h>

#include "emulator/report.h"
#include "hlo/base/decimal.h"

typedef struct Unit {
    const char *suffix;
    double factor;
} Unit;

// A finite number of at least 0 with one of the suffixes.
static bool parse(const char *text, const Unit *units, size_t count, double most, double *value) {
    char *end;
    *value = hlo_strtod(text, &end);
    for (size_t i = 0; end != text && *value >= 0 && i < count; ++i) {
        if (strcmp(end, units[i].suffix) != 0) continue;
        *value *= units[i].factor;
        return *value <= most;
    }
    return false;
}

bool cli_size_parse(const char *text, double *bytes) {
    static const Unit kUnits[] = {{"", 1},         {"B", 1},        {"KiB", 0x1p10},
                                  {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}};
    return parse(text, kUnits, HLO_COUNT_OF(kUnits), 0x1p63, bytes);
}

bool cli_duration_parse(const char *text, double *seconds) {
    static const Unit kUnits[] = {{"", 1}, {"s", 1}, {"m", 60}, {"ms", 1e-3}, {"us", 1e-6}, {"µs", 1e-6}};
    return parse(text, kUnits, HLO_COUNT_OF(kUnits), 1e9, seconds);
}

const char *cli_size(CliContext *context, int64_t bytes) {
    HloText text = {0};
    emu_print_size(bytes, &text);
    return hlo_text_to_arena(context->arena, &text);
}

const char *cli_time(CliContext *context, int64_t picoseconds) {
    HloText text = {0};
    emu_print_time(picoseconds, &text);
    return hlo_text_to_arena(context->arena, &text);
}
