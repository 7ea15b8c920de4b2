// SPDX-License-Identifier: Apache-2.0
// Sizes and times as the command line has them.
#ifndef MESHLO_TOOLS_SIZES_H_
#define MESHLO_TOOLS_SIZES_H_

#include "tools/cli.h"

// Reads 64MiB, 1.5GiB or 4096; false for other texts, and for more than any counter of bytes holds.
bool cli_size_parse(const char *text, double *bytes);
// Reads 30s, 2m, 15.5ms or 20us; a number alone is in seconds. False for other texts, and for 1e9 seconds and more.
bool cli_duration_parse(const char *text, double *seconds);
// A size as all tables of the command print it: "1.5 GiB". In the context's arena.
const char *cli_size(CliContext *context, int64_t bytes);
// A time as all tables of the command print it: "15.500 ms". In the context's arena.
const char *cli_time(CliContext *context, int64_t picoseconds);

#endif
