// SPDX-License-Identifier: Apache-2.0
#include "tools/cli.h"

int main(int argument_count, char **arguments) {
    return cli_main(argument_count, arguments);
}
