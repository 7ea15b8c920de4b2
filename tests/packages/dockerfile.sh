#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: tests/packages/dockerfile.sh [BASE]     Carries out the Dockerfile without Docker: each stage is a root of its own, made by
# debootstrap (or copied from the folder BASE, a Debian 12), COPY copies the last commit's files, and RUN runs in a chroot. Then the
# command of the last stage runs there. Needs root, debootstrap and the network, and compiles everything. The last line is "N passed, N failed".
set -u
source=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
passed=0
failed=0
finish() {
    rm -rf "$work"
    echo "$passed passed, $failed failed"
    [ "$failed" = 0 ] && [ "$passed" -gt 0 ]
    exit
}
trap 'rm -rf "$work"' EXIT

# step NAME COMMAND…: one line of the Dockerfile. Nothing after a failure makes sense.
step() {
    local name=$1
    shift
    if "$@" >"$work/log" 2>&1; then
        passed=$((passed + 1))
    else
        failed=1
        printf '[FAIL] packages::Dockerfile: %s\n' "$name"
        tail -n 20 "$work/log"
        finish
    fi
}

new_root() { # new_root ROOT
    if [ -n "$base" ]; then cp -a "$base" "$1"; else debootstrap --variant=minbase bookworm "$1"; fi &&
        cp /etc/resolv.conf "$1/etc/" && cp -r /etc/apt/apt.conf.d/. "$1/etc/apt/apt.conf.d/"
}
copy_source() { mkdir -p "$root$1" && git -C "$source" archive HEAD | tar x -C "$root$1"; }
copy_from() { cp -a "$work/$1$2." "$root$3"; }
inside() { chroot "$root" env LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive sh -c "cd $folder && $1"; }

base=${1:-}
root=
folder=/
stage=
while IFS= read -r line; do
    read -r word rest <<<"$line"
    read -ra words <<<"$rest"
    case $word in
        FROM)
            [ "${words[0]}" = debian:12-slim ] || step "$line: only debian:12-slim is known here" false
            stage=${words[2]:-last} root=$work/${words[2]:-last} folder=/
            step "$line" new_root "$root"
            ;;
        COPY)
            if [[ ${words[0]} == --from=* ]]; then
                step "$line" copy_from "${words[0]#--from=}" "${words[1]}" "${words[2]}"
            else
                step "$line" copy_source "${words[1]}"
            fi
            ;;
        RUN) step "$line" inside "$rest" ;;
        WORKDIR) folder=$rest && step "$line" mkdir -p "$root$rest" ;;
        ENTRYPOINT) step "$line" test "$rest" = '["meshlo"]' ;;
        *) step "$line: unknown here" false ;;
    esac
done < <(sed -e '/^#/d' -e '/^$/d' "$source/Dockerfile" | sed -e ':a' -e '/\\$/N; s/\\\n//; ta')
cp "$source/examples/mlp_gradient_512.hlo" "$root/work/step.hlo"
step "meshlo emulate" inside 'meshlo emulate step.hlo --on v5e-8'
step "meshlo run" inside 'meshlo run step.hlo --on v2-8 --seed 1'
step "the stage that built is not in the image" test "$stage" = last -a ! -e "$root/source"
finish
