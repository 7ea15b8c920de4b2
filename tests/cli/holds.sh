# SPDX-License-Identifier: Apache-2.0
# Sourced by checks that are ctests of their own: a folder `work`, which is removed at the end, and a summary of the form
# of Criterion's. `suite` is their name.
# shellcheck shell=bash disable=SC2034,SC2154
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0
failed=0

# holds NAME COMMAND…: what a command that fails has said is shown.
holds() {
    local name=$1
    shift
    if "$@" >"$work/said" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "[FAIL] $suite::$name"
        head -n 20 "$work/said" | cut -c1-200 | sed 's/^/       /'
    fi
}

# summary: fails if a check failed.
summary() {
    echo "[====] Synthesis: Tested: $((passed + failed)) | Passing: $passed | Failing: $failed | Crashing: 0"
    [ "$failed" = 0 ]
}
