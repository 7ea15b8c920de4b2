#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: sysroot.sh FOLDER     Unpacks Debian's arm64 libraries of packages.txt into FOLDER, for the preset `aarch64`. They are
# not installed, so that it needs no rights: dpkg knows of no second architecture, and development packages that
# exclude each other's architectures may stay. Does nothing if FOLDER is complete.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
root=$(cd "$1" && pwd)
# Libraries of group `build`; and of group `test` OpenBLAS, which is opened at run time, and the headers of Criterion alone,
# whose library does not start under qemu.
wanted=$(awk '!/^#/ && ($2 == "build" && $1 ~ /^lib.*-dev$|-dev$/ || $1 ~ /^libopenblas/) { print $1 }' "$here/../../packages.txt")
if [ "$(cat "$root/packages" 2>/dev/null)" = "$wanted" ]; then exit 0; fi

# apt with a state of its own, in which nothing is installed.
state=$root/apt
mkdir -p "$state/lists/partial" "$state/archives/partial"
: >"$state/status"
apt=(apt-get -q -y -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Sandbox::User=root
    -o Dir::State="$state" -o Dir::State::Lists="$state/lists" -o Dir::State::status="$state/status"
    -o Dir::Cache="$state" -o Dir::Cache::archives="$state/archives")
"${apt[@]}" update >"$state/log" 2>&1
# shellcheck disable=SC2086
"${apt[@]}" install --no-install-recommends --download-only $wanted >>"$state/log" 2>&1 || { tail -n 5 "$state/log" >&2; exit 1; }
(cd "$state/archives" && "${apt[@]}" download libcriterion-dev >>"$state/log" 2>&1)
for archive in "$state"/archives/*.deb; do dpkg-deb --extract "$archive" "$root"; done
# Links to absolute paths would lead out of the folder.
find "$root/usr" "$root/lib" -type l -lname '/*' | while read -r link; do
    ln -sfn "$(realpath -m --relative-to="$(dirname "$link")" "$root$(readlink "$link")")" "$link"
done
rm -rf "$state"
echo "$wanted" >"$root/packages"
