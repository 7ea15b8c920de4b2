#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: run.sh KERNEL_LEVEL NEEDED LEVEL COMMAND…     Runs a command at an instruction set; exits 77, which ctest counts as
# skipped, on a machine that does not have the one that is needed. MESHLO_EMULATOR runs programs of another architecture.
set -u
kernel_level=$1 needed=$2 level=$3
shift 3
# shellcheck disable=SC2086
${MESHLO_EMULATOR:-} "$kernel_level" "$needed"
case $? in
    0) ;;
    1)
        echo "NOT RUN: $(basename "$1") at $level: this machine does not have $needed"
        exit 77
        ;;
    *) exit 1 ;;
esac
# shellcheck disable=SC2086
MESHLO_CPU_FEATURES=$level exec ${MESHLO_EMULATOR:-} "$@"
