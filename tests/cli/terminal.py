# SPDX-License-Identifier: Apache-2.0
# usage: terminal.py COMMAND…    Runs a command with a terminal as standard output, copies what it prints, and exits as it did.
import os
import pty
import sys

status = pty.spawn(sys.argv[1:])
sys.exit(os.waitstatus_to_exitcode(status))
