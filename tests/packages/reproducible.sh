#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: tests/packages/reproducible.sh     Builds the wheel and the Debian packages of the last commit in two folders of different depth,
# with one SOURCE_DATE_EPOCH: each file must be the same bytes. PYTHON is a Python with scikit-build-core, cffi and numpy. Run it by hand:
# it takes about 20 minutes of processor time, without ccache, whose objects would be those of the first folder.
set -eu
export SOURCE_DATE_EPOCH=1700000000
python=${PYTHON:-python3}
source=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
launcher=${CMAKE_C_COMPILER_LAUNCHER:-}
[ -n "$launcher" ] || export CCACHE_DISABLE=1

for place in one two/folders/deeper; do
    clone=$work/$place/clone
    git clone --quiet "$source" "$clone"
    cd "$clone"
    export CCACHE_BASEDIR=$clone
    "$python" -c "from scikit_build_core.build import build_wheel; build_wheel('$work/$place/made', {'build-dir': 'build/wheel-release'})" >"$work/log" 2>&1 ||
        { tail -n 20 "$work/log"; exit 1; }
    { cmake --preset release -DMESHLO_TESTS=OFF -DCMAKE_C_COMPILER_LAUNCHER="$launcher" -DPython_EXECUTABLE="$(command -v "$python")" &&
        cmake --build --preset release && (cd build/release && cpack); } >"$work/log" 2>&1 || { tail -n 20 "$work/log"; exit 1; }
    cp build/release/packages/*.deb "$work/$place/made"
done
cd "$work/one/made"
[ "$(printf '%s\n' ./* | wc -l)" = 5 ] || { echo "five packages are expected:" ./*; exit 1; }
sha256sum ./*
(cd ../../two/folders/deeper/made && sha256sum ./*) | diff - <(sha256sum ./*)
echo "the wheel and the Debian packages are the same twice"
