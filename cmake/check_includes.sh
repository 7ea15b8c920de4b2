#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: cmake/check_includes.sh [ROOT]     Fails when a file includes what cmake/include_rules.txt does not allow it.
set -eu
root=${1:-$(cd "$(dirname "$0")/.." && pwd)}
cd "$root"
grep -rnE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' --include='*.[ch]' --include='*.def' --include='*.inc' \
    hlo transport spmd_partitioner compile emulator targets advice pjrt tools 2>/dev/null |
awk -v rules=cmake/include_rules.txt '
    BEGIN {
        while ((getline line < rules) > 0) {
            if (line ~ /^#/ || line !~ /:/) continue
            split(line, part, ":")
            allowed[part[1]] = part[2]
        }
    }
    function module_of(path,    module, best) {
        best = ""
        for (module in allowed)
            if (index(path, module "/") == 1 && length(module) > length(best)) best = module
        return best
    }
    {
        split($0, part, ":")
        file = part[1]
        match($0, /"[^"]+"/)
        target = substr($0, RSTART + 1, RLENGTH - 2)
        module = module_of(file)
        good = module != "" && module_of(target) == module
        count = split(allowed[module], list, " ")
        for (i = 1; i <= count; ++i)
            if (target == list[i] || index(target, list[i] "/") == 1) good = 1
        if (!good) { printf "%s:%s: %s must not include %s\n", file, part[2], module, target; bad = 1 }
    }
    END { exit bad }'
echo "include directions: ok"
