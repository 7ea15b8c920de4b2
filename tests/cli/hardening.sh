#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: tests/cli/hardening.sh COMPILER BINARY…     Whether built binaries have what cmake/hardening.cmake asks for. The last
# line has the form of Criterion's.
set -u
compiler=$1
shift
suite=hardening
. "$(dirname "$0")/holds.sh"

# segment FILE TYPE FLAGS: the program header of this type has exactly these flags, such as RW.
segment() { readelf -lW "$1" | awk -v type="$2" -v flags="$3" '$1 == type { found = $7 == flags || $7 $8 == flags } END { exit !found }'; }
now() { readelf -dW "$1" | grep -Eq '\(BIND_NOW\)|\(FLAGS_1\).*NOW'; }
calls() { readelf -sW --dyn-syms "$1" | grep -q "$2"; }
no_writable_code() { ! readelf -lW "$1" | awk '$1 == "LOAD"' | grep -q ' RWE '; }
no_relocated_code() { ! readelf -dW "$1" | grep -q TEXTREL; }
position_independent() { readelf -hW "$1" | grep -Eq 'Type: +DYN'; }
# The linker keeps a property only if every object has it, those of the C library included: it is asked for where a
# library of one empty function gets it.
properties() { readelf -nW "$1" | grep -E 'x86 feature: ' | grep -oE 'IBT|SHSTK' | sort -u | tr '\n' ' '; }
marked() { [ "$(properties "$1")" = "$2" ]; }

echo 'int meshlo_probe(void); int meshlo_probe(void) { return 0; }' >"$work/probe.c"
echo 'int main(void) { return 0; }' >"$work/main.c"
"$compiler" -fcf-protection=full -fPIC -shared -o "$work/probe.so" "$work/probe.c" 2>"$work/log" &&
    "$compiler" -fcf-protection=full -o "$work/main" "$work/main.c" 2>>"$work/log"
for binary in "$@"; do
    name=$(basename "$binary")
    holds "$name has read-only relocations" segment "$binary" GNU_RELRO R
    holds "$name binds all symbols at its start" now "$binary"
    holds "$name has no executable stack" segment "$binary" GNU_STACK RW
    holds "$name has no memory that is writable and executable" no_writable_code "$binary"
    holds "$name has no relocations in code" no_relocated_code "$binary"
    holds "$name is position-independent" position_independent "$binary"
    holds "$name has stack protectors" calls "$binary" __stack_chk_fail
    if ! calls "$binary" '__asan_\|__tsan_'; then
        holds "$name has fortified calls" calls "$binary" '__[a-z]*_chk\(@\|$\)'
    fi
    if readelf -hW "$binary" | grep -q X86-64; then
        case $binary in
            *.so*) probe=$work/probe.so ;;
            *) probe=$work/main ;;
        esac
        holds "$name is marked as its toolchain marks binaries for indirect branch tracking" \
            marked "$binary" "$(properties "$probe")"
    fi
done
summary
