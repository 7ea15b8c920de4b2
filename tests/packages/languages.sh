#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: tests/packages/languages.sh PREFIX     Compiles the programs in Go and Rust that docs/c-api.md shows, against the library
# installed in PREFIX, and compares the step that each prints with the command's. Compilers that are missing are named as NOT RUN.
# The last line is "N passed, N failed".
set -u
source=$(cd "$(dirname "$0")/../.." && pwd)
prefix=$(realpath "${1:?usage: tests/packages/languages.sh PREFIX}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0
failed=0
PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name meshlo.pc)")
libraries=$(PKG_CONFIG_PATH=$PKG_CONFIG_PATH pkg-config --variable=libdir meshlo)
export PKG_CONFIG_PATH LD_LIBRARY_PATH=$libraries

# block LANGUAGE FILE: the program that the page shows.
block() { sed -n "/^\`\`\`$1\$/,/^\`\`\`\$/p" "$source/docs/c-api.md" | sed '1d;$d' >"$work/$2"; }

with_go() { (cd "$work" && GOFLAGS=-mod=mod GOCACHE=$work/cache go build -o program program.go); }
with_rust() { rustc -O -L "$libraries" -lmeshlo "$work/program.rs" -o "$work/program"; }

# program LANGUAGE FILE COMPILER
program() {
    if ! command -v "$3" >/dev/null; then
        echo "NOT RUN: the program in $1 of docs/c-api.md: no $3"
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
[ -n "$step" ] || failed=1
program go program.go go
program rust program.rs rustc
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
