#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: tests/packages/languages.sh PREFIX     Compiles the programs in Go, Rust and Zig that docs/c-api.md shows, against the library
# installed in PREFIX, and compares the step that each prints with the command's. Compilers that are missing are named as NOT RUN.
# ZIG is how zig is called. The last line is "N passed, N failed".
set -u
source=$(cd "$(dirname "$0")/../.." && pwd)
prefix=$(realpath "${1:?usage: tests/packages/languages.sh PREFIX}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0
failed=0
PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name meshlo.pc)")
libraries=$(PKG_CONFIG_PATH=$PKG_CONFIG_PATH pkg-config --variable=libdir meshlo)
headers=$(PKG_CONFIG_PATH=$PKG_CONFIG_PATH pkg-config --cflags-only-I meshlo)
export PKG_CONFIG_PATH LD_LIBRARY_PATH=$libraries

# block LANGUAGE FILE: the program that the page shows.
block() { sed -n "/^\`\`\`$1\$/,/^\`\`\`\$/p" "$source/docs/c-api.md" | sed '1d;$d' >"$work/$2"; }

with_go() { (cd "$work" && GOFLAGS=-mod=mod GOCACHE=$work/cache go build -o program program.go); }
with_rust() { rustc -O -L "$libraries" -lmeshlo "$work/program.rs" -o "$work/program"; }
# shellcheck disable=SC2086
with_zig() {
    local flags="--cache-dir cache --global-cache-dir cache -lc"
    cd "$work" && printf '#include "%s"\n' advice/trial.h hlo/base/file.h hlo/hlo.h >uses.h &&
        ${ZIG:-zig} translate-c $flags $headers uses.h >meshlo.zig &&
        ${ZIG:-zig} build-exe $flags -L"$libraries" -lmeshlo program.zig
}

# program LANGUAGE FILE COMPILER
program() {
    local command
    command=$(cut -d' ' -f1 <<<"$3")
    if ! command -v "$command" >/dev/null; then
        echo "NOT RUN: $1: no $command"
        return
    fi
    block "$1" "$2"
    rm -f "$work/program"
    if "with_$1" >"$work/log" 2>&1 && "$work/program" "$source/examples/mlp_gradient_8192.hlo" v5e-8 >"$work/out" 2>&1 &&
        grep -qF "$step" "$work/out" && ! "$work/program" "$work/log" v5e-8 >/dev/null 2>"$work/error" && grep -q "error:" "$work/error"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "[FAIL] packages::$1"
        tail -n 20 "$work/log" "$work/out" 2>/dev/null
    fi
}
# Collectives in one piece: the programs ask for no overlap.
step=$("$prefix"/bin/meshlo emulate "$source/examples/mlp_gradient_8192.hlo" --on v5e-8 --sync | sed -n 's/^step: \([0-9.]* ms\).*/\1/p')
program go program.go go
program rust program.rs rustc
program zig program.zig "${ZIG:-zig}"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
