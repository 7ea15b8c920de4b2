#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: cmake/check_headers.sh FOLDER     Fails when a header below FOLDER (an installed include/meshlo) cannot be
# included by itself, in C or in C++, without a warning, or has no stability mark (hlo/base/version.h). What they need must
# be in FOLDER too.
set -u
cd "$1" || exit 1
headers=$(find . -name '*.h' | sed 's|^\./||' | sort)
[ -n "$headers" ] || { echo "no headers in $1"; exit 1; }
failed=0
for header in $headers; do
    if ! grep -qE '^// Stability: (stable|experimental)\.$' "$header"; then
        echo "$header has no stability mark"
        failed=1
    fi
    for language in "c -std=c11" "c++ -std=c++11"; do
        # shellcheck disable=SC2086
        if ! printf '#include "%s"\n' "$header" |
            clang -x $language -fsyntax-only -Wall -Wextra -Wpedantic -Wconversion -Werror -I . -; then
            echo "$header cannot be included in ${language%% *}"
            failed=1
        fi
    done
done
[ $failed = 0 ] && echo "public headers: $(wc -w <<<"$headers"), in C and C++"
exit $failed
