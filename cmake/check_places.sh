#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: cmake/check_places.sh [ROOT]     Fails when the examples of CONTRIBUTING.md ("Three examples show how many places an
# addition touches") state another number of places or files than there are.
set -eu
root=${1:-$(cd "$(dirname "$0")/.." && pwd)}
cd "$root"
modules=(hlo emulator targets spmd_partitioner compile advice tools pjrt)
bad=

# stated REGEX: the number that the regular expression's group matches in CONTRIBUTING.md.
stated() {
    tr '\n' ' ' <CONTRIBUTING.md | sed -nE "s/.*$1.*/\\1/p"
}

# expect WHAT STATED COUNTED
expect() {
    [ "$2" = "$3" ] && return
    echo "CONTRIBUTING.md: $1: '$2' stated, $3 counted"
    bad=1
}

# Rows and functions of the op itself: not of custom calls, CHLO and kernels of users, which are called erf too, nor its uses.
places=$(grep -rnwE 'ERF|UNARY\(erf|VECTOR_FUNCTION\(erf|HLO_EXPORT.*hlo_build_erf' --include='*.[ch]' --include='*.def' --include='*.inc' \
    hlo/ops.def hlo/ir hlo/eval hlo/transform emulator/op_class.def targets/cpu/isa spmd_partitioner compile |
    grep -vcE 'custom_call|KERNEL_OP|math\.') || true
expect "places of erf" "$(stated '`erf`: ([0-9]+) places')" "$places"
files=$(grep -rliE 'ragged[-_]dot|RaggedDot' "${modules[@]}" | wc -l)
expect "files of ragged-dot" "$(stated '`ragged-dot`: ([0-9]+) files')" "$files"
files=$(grep -rlE '\bcpu_scan\b|CpuScanKernels|scan_kernels' targets | wc -l)
expect "files of scan" "$(stated '`scan`: ([0-9]+) files')" "$files"
[ -z "$bad" ]
echo "places that additions touch: ok"
