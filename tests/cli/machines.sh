#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: tests/cli/machines.sh MESHLO     Four machines, each a network namespace with a host name and an sshd of its own: meshlo
# launch starts a slice on them by ssh, with the results of one process, and names a machine whose network is cut, whose
# process is killed, or whose process is stopped. Needs root, iproute2 and openssh-server; exits with 77 without them. The last
# line has the form of Criterion's.
set -u
MESHLO=$(realpath "$1")
COUNT=4 NETWORK=10.213.7 TIMEOUT=4
prefix=meshlo$$
suite=machines
. "$(dirname "$0")/holds.sh"

missing() {
    echo "NOT RUN: hosts on several machines: $1"
    exit 77
}
[ "$(id -u)" = 0 ] || missing "network namespaces need root"
for tool in ip unshare ssh ssh-keygen /usr/sbin/sshd; do command -v "$tool" >/dev/null || missing "this machine does not have $tool"; done
ip netns add "${prefix}-probe" 2>/dev/null && ip netns exec "${prefix}-probe" true 2>/dev/null || missing "network namespaces are refused here"
ip netns del "${prefix}-probe"
ip -brief addr | grep -q " $NETWORK\." && missing "$NETWORK.0/24 is in use"

name() { echo "$prefix-$1"; }

# shellcheck disable=SC2317  # called by trap
cleanup() {
    for i in $(seq $COUNT); do
        ip netns pids "$(name "$i")" 2>/dev/null | xargs -r kill -KILL 2>/dev/null
        ip netns del "$(name "$i")" 2>/dev/null
        ip link del "${prefix}v$i" 2>/dev/null
    done
    ip link del "${prefix}b" 2>/dev/null
    rm -rf "$work"
}
trap cleanup EXIT

# ---- the machines

mkdir -p /run/sshd  # of Debian's sshd, which refuses to start without it
for key in user machine; do ssh-keygen -q -t ed25519 -N "" -f "$work/$key"; done
ip link add "${prefix}b" type bridge && ip link set "${prefix}b" up || missing "bridges are refused here"
hosts=
for i in $(seq $COUNT); do
    ip netns add "$(name "$i")"
    ip link add "${prefix}v$i" type veth peer name eth0 netns "$(name "$i")" || missing "virtual networks are refused here"
    ip link set "${prefix}v$i" master "${prefix}b" up
    ip -n "$(name "$i")" addr add "$NETWORK.$i/24" dev eth0
    for device in eth0 lo; do ip -n "$(name "$i")" link set $device up; done
    ip netns exec "$(name "$i")" unshare --uts --ipc sh -c "hostname $(name "$i"); exec /usr/sbin/sshd -D -f /dev/null \
        -o ListenAddress=$NETWORK.$i -o HostKey=$work/machine -o AuthorizedKeysFile=$work/user.pub -o StrictModes=no \
        -o PermitRootLogin=yes -o UsePAM=no -o PidFile=none" 2>"$work/sshd$i" &
    disown  # its end is not reported
    hosts+=${hosts:+,}$NETWORK.$i
done
ssh="ssh -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR -i $work/user"
for i in $(seq $COUNT); do
    # shellcheck disable=SC2086
    for _ in $(seq 50); do ip netns exec "$(name 1)" $ssh "$NETWORK.$i" true && break; sleep 0.1; done
done

# launch COMMAND…: the command on all machines, started from the first one.
launch() {
    (cd "$work" && ip netns exec "$(name 1)" "$MESHLO" launch --on v5e:2x4 --hosts $hosts --ssh "$ssh" --grace 1 "$@")
}

bytes_received() { ip -n "$(name "$1")" -s link show eth0 | awk '/RX:/ { getline; print $1 }'; }

# ---- the same results

# exchange ROUNDS: a program of eight devices that exchange an array of 4 KB in each round.
exchange() {
    cat <<HLO
HloModule exchange, num_partitions=8
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
body {
  state = (s32[], f32[1024]) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  x = f32[1024] get-tuple-element(state), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  eighth = f32[] constant(0.125)
  scale = f32[1024] broadcast(eighth), dimensions={}
  sum = f32[1024] all-reduce(x), channel_id=1, replica_groups={{0,1,2,3,4,5,6,7}}, use_global_device_ids=true, to_apply=add
  mean = f32[1024] multiply(sum, scale)
  ROOT out = (s32[], f32[1024]) tuple(next, mean)
}
condition {
  state = (s32[], f32[1024]) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  end = s32[] constant($1)
  ROOT more = pred[] compare(i, end), direction=LT
}
ENTRY main {
  x = f32[1024] parameter(0)
  zero = s32[] constant(0)
  start = (s32[], f32[1024]) tuple(zero, x)
  loop = (s32[], f32[1024]) while(start), condition=condition, body=body
  ROOT r = f32[1024] get-tuple-element(loop), index=1
}
HLO
}
exchange 50 >"$work/short.hlo"
exchange 100000000 >"$work/long.hlo"
run=("$MESHLO" run short.hlo --on v5e:2x4 --partitioned --per-device --seed 3 --print)
(cd "$work" && "${run[@]}") >"$work/one.txt"
before=$(bytes_received 2)
distributed() { launch --processes $COUNT --no-prefix -- "${run[@]}" >"$work/four.txt"; }
holds starts distributed
holds same_results diff "$work/one.txt" "$work/four.txt"
# An array of 4 KB arrives in each of the 50 rounds, in at least two pieces.
holds crosses_the_network test $(($(bytes_received 2) - before)) -gt $((50 * 4096))

# ---- failures

# process_of MACHINE: the process that runs the program there.
process_of() {
    local pid
    for pid in $(ip netns pids "$(name "$1")"); do
        tr '\0' ' ' <"/proc/$pid/cmdline" | grep -q "^$MESHLO run" && echo "$pid" && return
    done
}

cut_network() { ip -n "$(name 3)" link set eth0 down; }
kill_process() { kill -KILL "$1"; }
stop_process() { kill -STOP "$1"; }

# fails ACTION: does something to the third machine while the program runs, and waits for the end of the launch.
fails() {
    launch --processes $COUNT -- env MESHLO_HOST_TIMEOUT=$TIMEOUT "$MESHLO" run long.hlo --on v5e:2x4 --partitioned \
        --per-device --seed 3 >"$work/$1" 2>&1 &
    local launched=$! victim='' begin i
    for i in $(seq 100); do
        sleep 0.1
        # Machine 2 receives arrays: the loop has begun.
        [ $(($(bytes_received 2) - before)) -gt 2000000 ] && victim=$(process_of 3) && break
    done
    begin=$SECONDS
    "$1" "$victim"
    ! wait $launched && [ $((SECONDS - begin)) -lt $((TIMEOUT + 20)) ]
}

# no_orphans: no process of the program is left, within a second.
no_orphans() {
    local i left
    for _ in $(seq 10); do
        left=
        for i in $(seq $COUNT); do left+=$(process_of "$i"); done
        [ -z "$left" ] && return
        sleep 0.1
    done
    echo "left: $left"
    return 1
}

for action in kill_process stop_process cut_network; do
    before=$(bytes_received 2)
    holds "$action" fails $action
    holds "$action: the machine is named" grep -Eq "process 2 \($NETWORK\.3:[0-9]+, pid [0-9]+\) has (died|not answered)" "$work/$action"
    holds "$action: none is left" no_orphans
done

summary
