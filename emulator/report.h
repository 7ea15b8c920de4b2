// SPDX-License-Identifier: Apache-2.0
// Reports of a simulated step. Everything is appended to a HloText; running out of memory is remembered there
// (hlo_text_status()).
//
// Stability: stable.
#ifndef MESHLO_EMULATOR_REPORT_H_
#define MESHLO_EMULATOR_REPORT_H_

#include "emulator/simulate.h"
#include "hlo/base/json.h"

HLO_BEGIN_C

// The object of `meshlo emulate --json`: times in seconds, sizes in bytes of one device.
HLO_EXPORT void emu_report_json(HloJsonWriter *writer, const EmuReport *report);
// The same as text with a newline at the end.
HLO_EXPORT void emu_report_write_json(const EmuReport *report, HloText *text);
// A trace for Chrome's and Perfetto's viewers: one process for the device with a line for its operations and lines for
// the network, iterations of loops one after another (of very long ones three), flows from the kernel before a transfer
// through the transfer to the kernel that waits for it, and counters: bytes in HBM, and the rates of HBM, of the
// network, of its busiest link and of the host's connection. With a straggler, the fastest device is a second process.
HLO_EXPORT void emu_report_write_chrome_trace(const EmuReport *report, HloText *text);
// The same as a serialised XSpace, the format of jax.profiler's profiles (`.xplane.pb`), for XProf and TensorBoard:
// operations with category, scope, source line, FLOPs and bytes, the device with its peaks. With EmuReport.program also
// what the memory viewer and the graph viewer show.
HLO_EXPORT void emu_report_write_xplane(const EmuReport *report, const EmuTopology *topology, HloText *text);
// One self-contained HTML page that a browser draws: the step's parts, the timeline with the iterations of loops,
// operations by opcode, scope or source line, collectives, the roofline, the shardings of the parameters, memory over
// time, the largest buffers, and the links of the slice by load. `topology` is the one that was simulated.
HLO_EXPORT void emu_report_write_html(const EmuReport *report, const EmuTopology *topology, HloText *text);
// The same for several reports side by side: their numbers, parts, operations and collectives with the differences from
// the first one, memory over time, and the parameters whose shardings differ. `names[i]` says what report `i` is of.
HLO_EXPORT void emu_report_write_comparison_html(const EmuReport *const *reports, const EmuTopology *const *topologies,
                                                 const char *const *names, int64_t count, HloText *text);
// A table for people: the step and its parts, memory, the longest operations, the busiest links.
HLO_EXPORT void emu_report_write_summary(const EmuReport *report, HloText *text);
// Writes an out-of-memory report in the format of the TPU compiler: used and capacity, program and arguments, the
// largest buffers with padded and unpadded sizes and their source lines, and the remedies that were tried. Empty when
// the program fits.
HLO_EXPORT void emu_report_write_out_of_memory(const EmuReport *report, HloText *text);

// A byte count with a binary unit as XLA prints it: "1.50G", "40.5M", "512B". For reports in XLA's words.
HLO_EXPORT void emu_print_bytes(int64_t bytes, HloText *text);
// As hlo_text_size(): "1.5 GiB", "512 B". Every table of the command uses it.
HLO_EXPORT void emu_print_size(int64_t bytes, HloText *text);
// A time with a suitable unit: "11.342 s", "15.500 ms", "3.210 µs". Every table of the command uses it.
HLO_EXPORT void emu_print_time(int64_t picoseconds, HloText *text);
// The same, right-aligned in `width` columns of a terminal.
HLO_EXPORT void emu_print_time_in_column(int64_t picoseconds, int width, HloText *text);
// The field's word for EmuReport.mfu: "MFU", model FLOP utilisation, or, of a program that names no scopes, so that
// recomputed products count too, "HFU", that of the hardware.
HLO_EXPORT const char *emu_utilisation_name(bool names_scopes);

HLO_END_C

#endif
