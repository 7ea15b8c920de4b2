// SPDX-License-Identifier: Apache-2.0
// Programs on the command line: reading one in any format, writing results.
#ifndef MESHLO_TOOLS_PROGRAM_H_
#define MESHLO_TOOLS_PROGRAM_H_

#include "hlo/ir/module.h"
#include "tools/cli.h"

// The formats that a program may come in.
typedef enum CliFormat {
    CLI_FORMAT_HLO_TEXT,
    CLI_FORMAT_HLO_PROTO,
    CLI_FORMAT_STABLEHLO_TEXT,
    CLI_FORMAT_BYTECODE,
} CliFormat;

// The format of these bytes, determined by their content.
CliFormat cli_format_detect(const char *data, size_t size);
// "HLO text", "StableHLO bytecode" and so on. Static storage.
const char *cli_format_name(CliFormat format);

// The option of every verb that reads a program: --sizes.
extern const CliOptionTable cli_program_options;

// Reads the program `path` ("-": standard input; compressed or not), parses and verifies it. Free with
// hlo_module_free(). Sizes that StableHLO leaves open are those of --sizes. UNIMPLEMENTED for a format that cannot be
// read yet, by name. A folder, such as one of XLA's dumps, is wrong usage: the error names its largest programs.
HLO_NODISCARD HloStatus cli_program_load(CliContext *context, const char *path, HloModule **module);

// Writes a file of results; fails as `text` did, or as hlo_file_write() does. A line of progress goes first, since the
// file may be the terminal that shows it.
HLO_NODISCARD HloStatus cli_write_file(CliContext *context, const char *path, const HloText *text);

// Writes `text` to the file of option -o: standard output with the other results when it is absent or "-".
HLO_NODISCARD HloStatus cli_write_output(CliContext *context, const HloText *text);

// Writes the program as HLO text, likewise: the long form, with all constants in full, since it is meant to be read
// again, and the stack tables without what passes have left nothing of. RESOURCE_EXHAUSTED, and what cli_write_output()
// returns.
HLO_NODISCARD HloStatus cli_write_program(CliContext *context, HloModule *module);

// Writes the program whose entry is `entry`, a computation of the module: what it does not call is removed, and the
// rest is verified. Errors as hlo_verify() and cli_write_program().
HLO_NODISCARD HloStatus cli_write_transformed(CliContext *context, HloModule *module, HloComputation *entry);
// Does the same for the entry that the module has.
HLO_NODISCARD HloStatus cli_write_entry(CliContext *context, HloModule *module);

// Adds the line of the instruction that an error names, in the HLO text that the program in another format is read as:
// the file is read again. Takes and returns ownership; the error stays as it is where that fails.
HloStatus cli_program_place(CliContext *context, HloStatus status);

#endif
