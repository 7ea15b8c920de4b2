// SPDX-License-Identifier: Apache-2.0
// The command's entry: everything is in cli.c, so that the tests can link it.
#include "tools/cli.h"

int main(int argument_count, char **arguments) {
    return cli_main(argument_count, arguments);
}
