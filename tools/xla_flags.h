// SPDX-License-Identifier: Apache-2.0
// The environment variable XLA_FLAGS, of which only the flags about dumps and the number of host devices are read. It
// never makes the command fail.
#ifndef MESHLO_TOOLS_XLA_FLAGS_H_
#define MESHLO_TOOLS_XLA_FLAGS_H_

#include "hlo/ir/module.h"
#include "tools/cli.h"

// The value of a flag (given without dashes) in XLA_FLAGS: words separated by blanks, quotes kept together, or the name
// of a file of such words where it does not begin with a dash. The last one counts; a flag without a value gives
// "true". NULL when it is not there. In the context's arena.
const char *cli_xla_flag(CliContext *context, const char *name);

// Writes the module to the folder of --xla_dump_to as module_0000.NAME.STAGE.txt, XLA's naming, when that flag is set.
// An unwritable folder is mentioned on stderr and does no harm.
void cli_xla_dump(CliContext *context, const HloModule *module, const char *stage);

#endif
