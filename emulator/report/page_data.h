// SPDX-License-Identifier: Apache-2.0
// Internal: the data that the report's page draws (page.js reads it).
#ifndef MESHLO_EMULATOR_REPORT_PAGE_DATA_H_
#define MESHLO_EMULATOR_REPORT_PAGE_DATA_H_

#include "emulator/report.h"

// Writes the report as one JSON object: times in picoseconds, sizes in bytes of one device, rates per device.
// Operations are in columns and texts are numbers in a list of all texts, so that a page of thousands of operations
// stays small. All control operations are there, and of the others those with the longest total time, up to 20,000.
// RESOURCE_EXHAUSTED when memory is short.
HLO_NODISCARD HloStatus emu_page_data_write(const EmuReport *report, const EmuTopology *topology, HloText *text);

#endif
