#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: tests/packages/hidden.sh     Configures the build with each required package hidden in turn: CMake must end with the name of
# the Debian package in its message (which CMake wraps), and without the optional ones it must succeed. Takes seconds per package; nothing is built.
set -u
source=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0
failed=0

# configures DEBIAN_PACKAGE|"" HIDDEN [ARGUMENT…]: what pkg-config finds, except HIDDEN, and CMake's arguments.
configures() {
    local package=$1 hidden=$2 name="without ${2:-$1}" good=1
    shift 2
    rm -rf "$work/build" "$work/pc"
    mkdir -p "$work/pc"
    for folder in $(pkg-config --variable pc_path pkg-config | tr : ' '); do
        for file in "$folder"/*.pc; do [ -e "$file" ] && ln -sf "$file" "$work/pc/"; done
    done
    [ -z "$hidden" ] || rm -f "$work/pc/$hidden.pc"
    if PKG_CONFIG_LIBDIR=$work/pc cmake -S "$source" -B "$work/build" -G Ninja -DMESHLO_DOCS=OFF "$@" >"$work/log" 2>&1; then
        [ -z "$package" ] || good=0
    else
        [ -n "$package" ] && tr -s "\n " " " <"$work/log" | grep -q "apt install $package" || good=0
    fi
    if [ $good = 1 ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf '[FAIL] packages::%s\n' "$name"
        tail -n 5 "$work/log" | sed 's/^/       /'
    fi
}

configures libxml2-dev "" -DMESHLO_TESTS=OFF -DCMAKE_DISABLE_FIND_PACKAGE_LibXml2=ON
configures liblzma-dev "" -DMESHLO_TESTS=OFF -DCMAKE_DISABLE_FIND_PACKAGE_LibLZMA=ON
configures zlib1g-dev "" -DMESHLO_TESTS=OFF -DCMAKE_DISABLE_FIND_PACKAGE_ZLIB=ON
configures pkg-config "" -DMESHLO_TESTS=OFF -DCMAKE_DISABLE_FIND_PACKAGE_PkgConfig=ON
configures libzstd-dev libzstd -DMESHLO_TESTS=OFF
configures libhwloc-dev hwloc -DMESHLO_TESTS=OFF
configures libcriterion-dev criterion -DMESHLO_TESTS=ON
configures libucx-dev ucx -DMESHLO_TESTS=OFF -DMESHLO_UCX=ON
configures nettle-dev nettle -DMESHLO_TESTS=OFF -DMESHLO_NETTLE=ON
configures "" ucx -DMESHLO_TESTS=OFF
configures "" nettle -DMESHLO_TESTS=OFF
echo "[====] Synthesis: Tested: $((passed + failed)) | Passing: $passed | Failing: $failed | Crashing: 0"
[ $failed = 0 ]
