#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: tests/packages/sdist.sh [PYTHON]    Makes the source distribution of the last commit twice, with a Python that has
# scikit-build-core. Both must be the same bytes and hold every file of the repository, and CMake must configure the unpacked files
# in an empty folder. Run it by hand: .ci/run builds the wheel.
set -eu
python=${1:-python3}
source=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
git clone --quiet --depth 1 "file://$source" "$work/clone"
cd "$work/clone"
for n in 1 2; do
    SOURCE_DATE_EPOCH=1700000000 "$python" -c "from scikit_build_core.build import build_sdist; build_sdist('$work/$n')" >/dev/null
done
cmp "$work"/1/*.tar.gz "$work"/2/*.tar.gz
tar tzf "$work"/1/*.tar.gz | sed 's|^[^/]*/||' | sort >"$work/held"
git ls-files | sort >"$work/files"
missing=$(comm -13 "$work/held" "$work/files")
[ -z "$missing" ] || { printf 'not in the source distribution:\n%s\n' "$missing"; exit 1; }
mkdir "$work/unpacked"
tar xzf "$work"/1/*.tar.gz -C "$work/unpacked"
cmake -S "$work"/unpacked/* -B "$work/build" -G Ninja -DMESHLO_TESTS=OFF -DMESHLO_DOCS=OFF -DMESHLO_EXAMPLES=OFF >"$work/log" 2>&1 ||
    { tail -n 5 "$work/log"; exit 1; }
echo "the source distribution is complete, the same twice, and configures"
