#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: cmake/check_includes.sh [ROOT]     Fails when a file includes what cmake/include_rules.txt does not allow it.
set -eu
root=${1:-$(cd "$(dirname "$0")/.." && pwd)}
cd "$root"
grep -rnE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' --include='*.[ch]' --include='*.def' --include='*.inc' \
    hlo transport spmd_partitioner compile emulator targets pjrt tools 2>/dev/null |
awk -v rules=cmake/include_rules.txt '
    BEGIN {
        while ((getline line < rules) > 0) {
            if (line ~ /^#/ || line !~ /:/) continue
            split(line, part, ":")
            allowed[part[1]] = part[2]
        }
    }
    function room_of(path,    room, best) {
        best = ""
        for (room in allowed)
            if (index(path, room "/") == 1 && length(room) > length(best)) best = room
        return best
    }
    {
        split($0, part, ":")
        file = part[1]
        match($0, /"[^"]+"/)
        target = substr($0, RSTART + 1, RLENGTH - 2)
        room = room_of(file)
        good = room != "" && room_of(target) == room
        count = split(allowed[room], list, " ")
        for (i = 1; i <= count; ++i)
            if (target == list[i] || index(target, list[i] "/") == 1) good = 1
        if (!good) { printf "%s:%s: %s must not include %s\n", file, part[2], room, target; bad = 1 }
    }
    END { exit bad }'
echo "include directions: ok"
