// SPDX-License-Identifier: Apache-2.0
// Internal: counts of operations and bytes in the JSON of reports and traces.
#ifndef MESHLO_EMULATOR_REPORT_JSON_COUNT_H_
#define MESHLO_EMULATOR_REPORT_JSON_COUNT_H_

#include "hlo/base/json.h"

// Writes a whole count that was added up as a real number: without an exponent below 2^62, the limit of many readers'
// integers.
static inline void emu_json_count(HloJsonWriter *writer, const char *key, double value) {
    hlo_json_key(writer, key);
    if (value < 0x1p62)
        hlo_json_int64(writer, (int64_t)(value + 0.5));
    else
        hlo_json_double(writer, value);
}

#endif
