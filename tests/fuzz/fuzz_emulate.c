// SPDX-License-Identifier: Apache-2.0
// libFuzzer: any bytes as HLO text; a program that is accepted and verifies is simulated on a small slice.
#include "emulator/emulator.h"
#include "hlo/text/text.h"
#include "hlo/verify/verify.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    HloModule *module = NULL;
    EmuTopology *topology = NULL;
    EmuReport *report = NULL;
    HloText text = {0};
    HloStatus status = hlo_parse((const char *)data, size, &(HloParseOptions){.file = "fuzz"}, &module);
    if (!status) status = hlo_verify(module);
    if (!status) status = emu_topology_parse("v5e-8", &topology);
    if (!status) status = emu_simulate(module, topology, NULL, &report);
    if (!status) emu_report_write_json(report, &text);
    hlo_status_free(status);
    hlo_text_free(&text);
    emu_report_free(report);
    emu_topology_free(topology);
    hlo_module_free(module);
    return 0;
}
