# SPDX-License-Identifier: Apache-2.0
# meshlo launch: environments, output, exit codes, signals; and nothing left running.
cat >environment.sh <<'SH'
echo "$MESHLO_TOPOLOGY $MESHLO_PROCESS_INDEX $CLOUD_TPU_TASK_ID $TPU_WORKER_ID|$TPU_PROCESS_BOUNDS $TPU_CHIPS_PER_PROCESS_BOUNDS|$TPU_VISIBLE_CHIPS|${MEGASCALE_SLICE_ID:-none} ${TPU_HOST_BOUNDS-none}"
SH
exits 0 "launch: one process a host" env TPU_HOST_BOUNDS=9,9,9 "$MESHLO" launch --on v5e-16 -- sh environment.sh
says out "[2] v5e-16 2 2 2|2,2,1 2,2,1||none none" "launch: one process a host: environment"
check "launch: one process a host: four of them" test "$(wc -l <out)" = 4
exits 0 "launch: a chip each" meshlo launch --on v5e-4 --processes 4 -- sh environment.sh
says out "[3] v5e-4 3 3 3|2,2,1 1,1,1|3|none none" "launch: a chip each: environment"
exits 0 "launch: two chips each" meshlo launch --on v5e:2x4 --processes 4 -- sh environment.sh
says out "[1] v5e:2x4 1 1 1|2,2,1 1,2,1|2,3|none none" "launch: two chips each: environment"
exits 0 "launch: two hosts in one process" meshlo launch --on v5e-16 --processes 2 -- sh environment.sh
says out "[1] v5e-16 1 1 1|1,2,1 4,2,1||none none" "launch: two hosts in one process: environment"
exits 0 "launch: slices" env MESHLO_TOPOLOGY=2xv5e:2x4 "$MESHLO" launch -- sh environment.sh
says out "[3] 2xv5e:2x4 3 1 1|1,2,1 2,2,1||1 none" "launch: slices: environment"

# Addresses: one for each process, all different, the same list for all; a port of its own; a secret that all share.
cat >addresses.sh <<'SH'
echo "$MESHLO_PROCESS_ADDRESSES $MESHLO_SECRET"
own=$(echo "$TPU_PROCESS_ADDRESSES" | cut -d, -f$((CLOUD_TPU_TASK_ID + 1)))
[ "$own" = "127.0.0.1:$TPU_PROCESS_PORT" ] && [ ${#MESHLO_SECRET} = 64 ]
SH
exits 0 "launch: addresses" meshlo launch --on v5e-16 --no-prefix -- sh addresses.sh
check "launch: addresses: the same for all" test "$(sort -u out | wc -l)" = 1
check "launch: addresses: all different" test "$(head -1 out | cut -d' ' -f1 | tr , '\n' | sort -u | wc -l)" = 4
mv out first
exits 0 "launch: addresses again" meshlo launch --on v5e-16 --no-prefix -- sh addresses.sh
check "launch: another secret each time" test "$(cut -d' ' -f2 first | sort -u)" != "$(cut -d' ' -f2 out | sort -u)"
# No other program gets these ports before the processes listen at them.
cat >held.py <<'PY'
import os, socket
address = ("127.0.0.1", int(os.environ["TPU_PROCESS_PORT"]))
try:
    socket.socket().bind(address)
    raise SystemExit("the port is free for others")
except OSError:
    pass
own = socket.socket()
own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
own.bind(address)
own.listen()
PY
exits 0 "launch: ports are held" meshlo launch --on v5e-16 -- python3 held.py
exits 6 "launch: too many open files" sh -c 'ulimit -n 32; exec "$0" launch --on v5e-256 -- true' "$MESHLO"
says err "no port of this machine for 64 processes: Too many open files" "launch: too many open files: said"
exits 0 "launch: ports" meshlo launch --on v5e-16 --port 7000 --no-prefix -- sh -c 'echo $MESHLO_PROCESS_ADDRESSES'
says out "127.0.0.1:7000,127.0.0.1:7001,127.0.0.1:7002,127.0.0.1:7003" "launch: ports"

# Output: whole lines with their process; the last one without a newline; standard error stays that; no input.
exits 0 "launch: output" meshlo launch --on v5e:2x4 -- sh -c 'cat; printf "a\n\nb"; echo c >&2'
sort out >sorted
printf '[0] \n[0] a\n[0] b\n[1] \n[1] a\n[1] b\n' | check "launch: output: lines" diff - sorted
check "launch: output: errors" grep -qx '\[1\] c' err
exits 0 "launch: a long line" meshlo launch --on v5e:2x4 --no-prefix -- sh -c 'head -c 200000 /dev/zero | tr "\0" x'
check "launch: a long line: whole" test "$(wc -c <out)" = 400000

# Ends: the exit code is that of the first failure, the others are ended, and what they have started.
exits 7 "launch: one fails" meshlo launch --on v5e-16 --grace 0 -- sh -c '[ $MESHLO_PROCESS_INDEX = 2 ] && exit 7; sleep 300 & echo $! >child.$MESHLO_PROCESS_INDEX; wait'
says err "meshlo launch: process 2 exited with code 7; 3 others will be ended" "launch: one fails: named"
# gone: the processes whose numbers are in child.* end soon; their new parent may not have collected them.
gone() {
    local file left
    for _ in $(seq 250); do
        left=0
        for file in child.*; do grep -q '^State:.[^Z]' "/proc/$(cat "$file")/status" 2>/dev/null && left=1; done
        [ $left = 0 ] && return 0
        sleep 0.02
    done
    return 1
}
check "launch: one fails: nothing is left" gone
exits 137 "launch: one is killed" meshlo launch --on v5e:2x4 --grace 0 -- sh -c '[ $MESHLO_PROCESS_INDEX = 1 ] && kill -9 $$; sleep 300'
says err "process 1 was killed by signal 9" "launch: one is killed: named"
exits 3 "launch: time for the others" meshlo launch --on v5e:2x4 --grace 60 -- sh -c '[ $MESHLO_PROCESS_INDEX = 1 ] && exit 3; sleep 0.2; echo why >&2; exit 4'
says err "[0] why" "launch: time for the others: they say why"
exits 0 "launch: they end at different times" meshlo launch --on v5e:2x4 -- sh -c 'sleep 0.$MESHLO_PROCESS_INDEX'
exits 2 "launch: no such command" meshlo launch --on v5e:2x4 -- ./missing
says err "cannot run ./missing: No such file or directory" "launch: no such command: said"

# Signals reach the processes, which may clean up.
cat >patient.sh <<'SH'
trap 'echo cleaned; exit 0' TERM INT
touch ready.$MESHLO_PROCESS_INDEX
sleep 300 & echo $! >child.$MESHLO_PROCESS_INDEX
wait
SH
# signalled SIGNAL FILE…: starts patient processes, waits until both are ready, signals the command.
signalled() {
    rm -f ready.* child.*
    "$MESHLO" launch --on v5e:2x4 -- sh patient.sh >out 2>err &
    local launcher=$!
    for _ in $(seq 200); do [ -e child.0 ] && [ -e child.1 ] && break; sleep 0.02; done
    kill "-$1" "$launcher"
    wait "$launcher" 2>/dev/null
}
signalled TERM
check "launch: a signal: exit code" test $? = 143
check "launch: a signal: reaches all" test "$(grep -c cleaned out)" = 2
check "launch: a signal: nothing is left" gone
signalled KILL
check "launch: killed: nothing is left" gone

# Other machines: a stand-in for ssh runs the script of its input here.
cat >ssh.sh <<'SH'
echo "$*" >>ssh.log
shift
exec sh -c "$*"
SH
exits 5 "launch: by ssh" meshlo launch --on v5e-16 --hosts a,b --grace 60 --ssh "sh $PWD/ssh.sh" -- sh -c 'echo "$1 $MESHLO_PROCESS_ADDRESSES $(basename "$PWD")"; [ $MESHLO_PROCESS_INDEX != 3 ] || exit 5' _ "it's '\$here'"
says out "[2 b] it's '\$here' a:8471,a:8472,b:8471,b:8472 $(basename "$PWD")" "launch: by ssh: words, addresses, folder"
says err "process 3 b exited with code 5" "launch: by ssh: which"
check "launch: by ssh: one for each" test "$(grep -c 'exec sh -s' ssh.log)" = 4
check "launch: by ssh: no secret on a command line" test "$(grep -c MESHLO_SECRET ssh.log)" = 0
rm -f child.*
exits 5 "launch: by ssh: one fails" meshlo launch --on v5e-16 --hosts a,b --grace 0 --ssh "sh $PWD/ssh.sh" -- sh -c '[ $MESHLO_PROCESS_INDEX = 3 ] && exit 5; sleep 300 & echo $! >child.$MESHLO_PROCESS_INDEX; wait'
check "launch: by ssh: one fails: nothing is left" gone
exits 2 "launch: hosts that do not divide" meshlo launch --on v5e-16 --hosts a,b,c -- true
says err "--hosts has 3 names, which do not divide 4 processes" "launch: hosts that do not divide: said"
exits 2 "launch: a host that is an option" meshlo launch --on v5e-16 --hosts -oProxyCommand=x -- true
exits 2 "launch: processes that do not divide" meshlo launch --on v5e-16 --processes 3 -- true
says err "--processes 3: v5e-16 of 16 chips cannot be divided so" "launch: processes that do not divide: said"
exits 2 "launch: no hosts" meshlo launch --on cpu:8 -- true
exits 2 "launch: no command" meshlo launch --on v5e-16
