#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: tests/packages/debian.sh [--debootstrap]     Makes the Debian packages of build/release, unpacks them into an empty root
# and uses their contents: the command, C programs against both libraries, the Python module and the plugin's entry point.
# With --debootstrap (root, network) the root is a Debian 12 of its own, in which apt installs them with what they depend on.
# PYTHON is a Python with cffi and numpy. The last line is "N passed, N failed".
set -u
source=$(cd "$(dirname "$0")/../.." && pwd)
build=$source/build/release
PYTHON=${PYTHON:-$source/build/jax-venv/bin/python}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0
failed=0

check() {
    local name=$1 output
    shift
    if output=$("$@" 2>&1); then passed=$((passed + 1)); else failed=$((failed + 1)) && printf '[FAIL] packages::%s\n%s\n' "$name" "$output"; fi
}

# Writes program.c into a folder: it runs only with a library of its header's version.
write_program() {
    cat >"$1/program.c" <<'EOF'
#include "hlo/base/version.h"
int main(void) { return hlo_api_version() != HLO_API_VERSION; }
EOF
}

finish() {
    echo "$passed passed, $failed failed"
    [ "$failed" = 0 ]
    exit
}

make_packages() {
    rm -rf "$build/packages"
    cmake "$build" -DPython_EXECUTABLE="$PYTHON" && cmake --build "$build" && (cd "$build" && cpack)
}
check "packages are made" make_packages
mapfile -t debs < <(ls "$build"/packages/*.deb)
check "four packages" test "${#debs[@]}" = 4

if [ "${1:-}" = --debootstrap ]; then
    root=$work/root
    check "a root of its own" debootstrap --variant=minbase bookworm "$root"
    cp "${debs[@]}" "$root/tmp"
    cp "$source/examples/mlp_gradient_512.hlo" "$root/tmp/step.hlo"
    inside() { chroot "$root" env LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive bash -c "$1"; }
    check "apt installs them" inside 'apt-get update && apt-get install -y --no-install-recommends /tmp/*.deb gcc libc6-dev pkg-config'
    check "the command runs" inside 'meshlo run /tmp/step.hlo --on v2-8 --seed 1 && meshlo emulate /tmp/step.hlo --on v5e-8'
    check "the module runs" inside 'python3 -c "import meshlo; print(meshlo.emulate(\"/tmp/step.hlo\", on=\"v5e-8\").step_seconds)"'
    check "the entry point" inside 'python3 -c "import importlib.metadata as m, jax_meshlo, os; assert [e.value for e in m.entry_points(group=\"jax_plugins\")] == [\"jax_meshlo\"]; assert os.path.exists(jax_meshlo.LIBRARY)"'
    write_program "$root/tmp"
    check "a C program" inside 'cd /tmp && gcc $(pkg-config --cflags meshlo) program.c $(pkg-config --libs meshlo) -o program && ./program'
    check "apt removes them" inside 'apt-get remove -y libmeshlo0 meshlo && ! command -v meshlo && ! ls /usr/lib/libmeshlo* 2>/dev/null'
    finish
fi

root=$work/root
for deb in "${debs[@]}"; do check "unpacks $(basename "$deb")" dpkg-deb -x "$deb" "$root"; done
depends() { dpkg-deb -f "$build"/packages/"$1"_*.deb Depends | grep -q "$2"; }
check "the library's dependencies are named" depends libmeshlo0 libhwloc15
# dpkg's own list of what the library exports.
same_symbols() {
    mkdir -p "$work/symbols/debian"
    printf 'Source: meshlo\nMaintainer: nobody <nobody@localhost>\n\nPackage: libmeshlo0\nArchitecture: any\nDescription: library\n' \
        >"$work/symbols/debian/control"
    dpkg-deb -I "$build"/packages/libmeshlo0_*.deb symbols >"$work/symbols/packaged"
    (cd "$work/symbols" && dpkg-gensymbols -plibmeshlo0 -v0.1.0 -P. -e"$root/usr/lib/libmeshlo.so.0" -Ipackaged -Omade -c4)
}
check "the symbols file is that of the library" same_symbols
check "the development package needs the library" depends libmeshlo-dev "libmeshlo0 (= "
check "the module needs the library" depends python3-meshlo "libmeshlo0 (= "
export LD_LIBRARY_PATH=$root/usr/lib PKG_CONFIG_PATH=$root/usr/lib/pkgconfig
check "the command runs" "$root/usr/bin/meshlo" emulate "$source/examples/mlp_gradient_512.hlo" --on v5e-8
check "manual pages" test -e "$root/usr/share/man/man1/meshlo-emulate.1"
check "a licence in each" test "$(ls "$root"/usr/share/doc/*/copyright | wc -l)" = 4
write_program "$work"
# shellcheck disable=SC2046
with_pkg_config() { cc $(pkg-config --define-prefix --cflags meshlo) "$work/program.c" $(pkg-config --define-prefix --libs meshlo) -o "$work/program" && "$work/program"; }
check "a C program, by pkg-config" with_pkg_config
cat >"$work/CMakeLists.txt" <<'EOF'
cmake_minimum_required(VERSION 3.25)
project(program C)
find_package(meshlo 0.1 REQUIRED COMPONENTS static)
add_executable(shared program.c)
target_link_libraries(shared meshlo::meshlo)
add_executable(static program.c)
target_link_libraries(static meshlo::meshlo_static)
EOF
with_cmake() {
    cmake -S "$work" -B "$work/build" -DCMAKE_PREFIX_PATH="$root/usr" && cmake --build "$work/build" && "$work/build/shared" &&
        env -u LD_LIBRARY_PATH "$work/build/static"
}
check "C programs, by CMake" with_cmake
modules=$root/usr/lib/python3/dist-packages
module() { PYTHONPATH=$modules "$PYTHON" -c "$1" "$source/examples/mlp_gradient_512.hlo"; }
check "the module runs" module 'import meshlo, sys; assert meshlo.__file__.startswith("'"$modules"'"); assert meshlo.emulate(sys.argv[1], on="v5e-8").step_seconds > 0'
check "the plugin's entry point" module 'import importlib.metadata as m, os, jax_meshlo
assert ("meshlo", "jax_meshlo") in [(e.name, e.value) for e in m.entry_points(group="jax_plugins")]; assert os.path.exists(jax_meshlo.LIBRARY)'
finish
