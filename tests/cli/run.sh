#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: tests/cli/run.sh MESHLO [TOPIC…]     Runs the shell-level checks tests/cli/test_*.sh against a built command.
# Each topic is a script of calls to the functions below; the last line has the form of Criterion's.
set -u
MESHLO=$(realpath "$1")
[ -x "$MESHLO" ] || { echo "no command at $1" >&2; exit 1; }
shift
here=$(cd "$(dirname "$0")" && pwd)
SOURCE=$(cd "$here/../.." && pwd)
SHARED=${MESHLO_SHARED:-$SOURCE/../shared}
export MESHLO SOURCE SHARED LC_ALL=C NO_COLOR=1
unset MESHLO_FLAGS MESHLO_TOPOLOGY MESHLO_NUMERICS MESHLO_NUM_THREADS MESHLO_BLAS MESHLO_GENERATED_CODE XLA_FLAGS
work=$(mktemp -d)
missing=$(mktemp)
trap 'rm -rf "$work" "$missing"' EXIT
cd "$work" || exit 1
passed=0
failed=0

meshlo() { "$MESHLO" "$@"; }

# report OK NAME [DETAIL]
report() {
    if [ "$1" = 0 ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf '[FAIL] cli::%s\n' "$2"
        [ $# -gt 2 ] && printf '%s\n' "$3" | head -20 | sed 's/^/       /'
    fi
}

# deadlocked_program FILE: writes a program of two devices of which only the first joins an all-reduce (line 9).
deadlocked_program() {
    cat >"$1" <<'HLO'
HloModule deadlock, num_partitions=2
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
left {
  x = f32[2] parameter(0)
  ROOT r = f32[2] all-reduce(x), channel_id=1, replica_groups={{0,1}}, use_global_device_ids=true, to_apply=add
}
right {
  x = f32[2] parameter(0)
  ROOT r = f32[2] negate(x)
}
ENTRY main {
  p = f32[2] parameter(0)
  i = u32[] partition-id()
  z = u32[] constant(0)
  first = pred[] compare(i, z), direction=EQ
  ROOT c = f32[2] conditional(first, p, p), true_computation=left, false_computation=right
}
HLO
}

# exits CODE NAME COMMAND…: the exit code is CODE; output goes to the files out and err. A failure must say why.
exits() {
    local code=$1 name=$2 got
    shift 2
    "$@" >out 2>err </dev/null
    got=$?
    if [ $got != "$code" ]; then
        report 1 "$name" "exit code $got instead of $code: $* $(head -c 2000 err)"
    elif [ "$code" != 0 ] && [ ! -s err ]; then
        report 1 "$name" "exit code $code without a word on stderr"
    else
        report 0 "$name"
    fi
}

# says FILE TEXT NAME: the file (out or err of the last call) holds the text.
says() {
    if grep -qF -- "$2" "$1"; then report 0 "$3"; else report 1 "$3" "no '$2' in: $(head -c 2000 "$1")"; fi
}

# json EXPRESSION NAME: with the file out read as `j`, the Python expression is true.
json() {
    local message
    message=$(python3 -c "
import json, sys
j = json.load(open('out'))
ok = $1
sys.exit(0 if ok else 'false; ' + json.dumps(j)[:600])" 2>&1)
    report $? "$2" "$message"
}

# check NAME COMMAND…: the command succeeds.
check() {
    local name=$1 message
    shift
    message=$("$@" 2>&1)
    report $? "$name" "$message"
}

# A misspelt check must not pass. Bash calls this in a process of its own, which cannot count.
command_not_found_handle() {
    echo "$1: command not found" | tee -a "$missing" >&2
    return 127
}

topics=("$@")
[ ${#topics[@]} -gt 0 ] || topics=("$here"/test_*.sh)
for topic in "${topics[@]}"; do
    [ -e "$topic" ] || topic=$here/test_$topic.sh
    rm -rf "${work:?}"/*
    # shellcheck disable=SC1090
    . "$topic"
done
[ ! -s "$missing" ]
report $? "all commands of the checks exist" "$(cat "$missing")"
echo "[====] Synthesis: Tested: $((passed + failed)) | Passing: $passed | Failing: $failed | Crashing: 0"
[ "$failed" = 0 ]
