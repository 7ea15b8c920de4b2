// SPDX-License-Identifier: Apache-2.0
#include "tests/emulator/simulated.h"

#include <criterion/criterion.h>
#include <string.h>

#include "hlo/text/text.h"

EmuReport *simulated(const char *text, const char *spec) {
    HloModule *module = NULL;
    EmuTopology *topology = NULL;
    EmuReport *report = NULL;
    HloStatus status = hlo_parse(text, strlen(text), &(HloParseOptions){.file = "test"}, &module);
    if (!status) status = emu_topology_parse(spec, &topology);
    if (!status) status = emu_simulate(module, topology, NULL, &report);
    cr_assert_null(status, "%s", hlo_status_message(status));
    emu_topology_free(topology);
    hlo_module_free(module);
    return report;
}
