#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: tests/cli/faults.py MESHLO [ROUNDS [SEED]]     Kills, stops and delays one of four processes that run a program together.

In each round a process, a fault and a moment are drawn. Whatever happens, no process hangs, a process that succeeds has
the results of a single process, and those that fail name the process that was killed or stopped. Of shared memory
at most one segment of each process that was killed while UCX started may be left. A delay must not change anything. Prints "N passed, N failed"; the gate runs a few rounds,
`tests/cli/faults.py build/release/bin/meshlo 500` is for a longer look.
"""

import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time

COUNT = 4
LEAST_TIMEOUT = 4.0  # MESHLO_HOST_TIMEOUT, in seconds, on a machine that is not busy
SLACK = 4  # the timeout is at least so many times the duration of a run without a fault
TIMEOUT_ALONE = 120.0  # of that run
PATIENCE = 20  # timeouts after which a process hangs
PROGRAM = """HloModule exchange, num_partitions=8
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
body {
  state = (s32[], f32[512]) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  x = f32[512] get-tuple-element(state), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  eighth = f32[] constant(0.125)
  scale = f32[512] broadcast(eighth), dimensions={}
  sum = f32[512] all-reduce(x), channel_id=1, replica_groups={{0,1,2,3,4,5,6,7}}, use_global_device_ids=true, to_apply=add
  mean = f32[512] multiply(sum, scale)
  moved = f32[512] collective-permute(x), channel_id=2, source_target_pairs={{0,1},{1,2},{2,3},{3,4},{4,5},{5,6},{6,7},{7,0}}
  part = f32[64] reduce-scatter(moved), channel_id=3, replica_groups={{0,1,2,3,4,5,6,7}}, use_global_device_ids=true, dimensions={0}, to_apply=add
  whole = f32[512] all-gather(part), channel_id=4, replica_groups={{0,1,2,3,4,5,6,7}}, use_global_device_ids=true, dimensions={0}
  half = f32[512] multiply(whole, scale)
  mixed = f32[512] subtract(mean, half)
  new = f32[512] add(mixed, moved)
  ROOT out = (s32[], f32[512]) tuple(next, new)
}
condition {
  state = (s32[], f32[512]) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  end = s32[] constant(ROUNDS)
  ROOT more = pred[] compare(i, end), direction=LT
}
ENTRY main {
  x = f32[512] parameter(0)
  zero = s32[] constant(0)
  start = (s32[], f32[512]) tuple(zero, x)
  loop = (s32[], f32[512]) while(start), condition=condition, body=body
  ROOT y = f32[512] get-tuple-element(loop), index=1
}
"""


def hold_ports():
    """Sockets at free ports. They do not listen, so that the processes can, and keep the ports from other programs."""
    held = [socket.socket() for _ in range(COUNT)]
    for one in held:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.bind(("127.0.0.1", 0))
    return held


def command(meshlo, program):
    return [meshlo, "run", program, "--on", "v5e:2x4", "--partitioned", "--per-device", "--seed", "5", "--print", "--repeat", "3"]


def start(meshlo, program, timeout, held):
    addresses = ",".join(f"127.0.0.1:{one.getsockname()[1]}" for one in held)
    processes = []
    for i in range(COUNT):
        env = dict(os.environ, MESHLO_PROCESS_ADDRESSES=addresses, MESHLO_PROCESS_INDEX=str(i), MESHLO_NUM_THREADS="1",
                   TPU_PROCESS_BOUNDS="2,2,1", TPU_CHIPS_PER_PROCESS_BOUNDS="1,2,1", MESHLO_HOST_TIMEOUT=str(timeout))
        processes.append(subprocess.Popen(command(meshlo, program), env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    return processes


def finish(process, until):
    """(exit code or None, output, errors)"""
    try:
        out, err = process.communicate(timeout=max(until - time.monotonic(), 0.1))
        return process.returncode, out, err
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return None, "", ""


def one_round(meshlo, program, expected, seconds, timeout, draw):
    held = hold_ports()
    try:
        return with_fault(meshlo, program, expected, seconds, timeout, draw, held)
    finally:
        for one in held:
            one.close()


def with_fault(meshlo, program, expected, seconds, timeout, draw, held):
    fault, victim, moment = draw.choice(["kill", "stop", "delay"]), draw.randrange(COUNT), draw.uniform(0, seconds)
    what = f"{fault} of process {victim} after {moment * 1e3:.0f} ms"
    processes = start(meshlo, program, timeout, held)
    time.sleep(moment)
    ended_before = processes[victim].poll() is not None
    if fault == "kill":
        processes[victim].kill()
    else:
        processes[victim].send_signal(signal.SIGSTOP)
    if fault == "delay":
        time.sleep(draw.uniform(0, timeout / 4))
        processes[victim].send_signal(signal.SIGCONT)
    until = time.monotonic() + PATIENCE * timeout
    order = [i for i in range(COUNT) if i != victim] + [victim]
    for i in order:
        if i == victim and fault == "stop":
            processes[i].kill()
        code, out, err = finish(processes[i], until)
        if i == victim and fault != "delay":
            continue
        if code is None:
            return f"{what}: process {i} hangs"
        if code == 0:
            if i == 0 and out != expected:
                return f"{what}: process 0 has other results"
        elif fault == "delay" or ended_before:
            return f"{what}: process {i} fails with {code}: {err}"
        elif code < 0:
            return f"{what}: process {i} was killed by signal {-code}"
        elif f"process {victim}" not in err:
            return f"{what}: process {i} does not name it: {err}"
    return None


def shared_memory():
    return {path.name for path in pathlib.Path("/dev/shm").iterdir()}


def main():
    meshlo = os.path.abspath(sys.argv[1])
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    draw, failed, before = random.Random(seed), 0, shared_memory()
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "exchange.hlo")
        pathlib.Path(program).write_text(PROGRAM.replace("ROUNDS", "40"), encoding="utf-8")
        alone = subprocess.run(command(meshlo, program), capture_output=True, text=True, check=False)
        if alone.returncode:
            sys.exit(f"alone it fails: {alone.stderr}")
        begin = time.monotonic()
        held = hold_ports()
        for process in start(meshlo, program, TIMEOUT_ALONE, held):
            code, out, err = finish(process, begin + TIMEOUT_ALONE)
            if code != 0:
                sys.exit(f"without a fault it fails: {code} {err}")
        for one in held:
            one.close()
        seconds = time.monotonic() - begin
        timeout = max(LEAST_TIMEOUT, SLACK * seconds)
        for number in range(rounds):
            complaint = one_round(meshlo, program, alone.stdout, seconds, timeout, draw)
            if complaint:
                failed += 1
                print(f"round {number} (seed {seed}): {complaint}", flush=True)
    # UCX removes the name of a segment as soon as it has made it: a process that is killed in between leaves one.
    left = {name for name in shared_memory() - before if "ucx" in name.lower() or "meshlo" in name}
    if len(left) > rounds:
        failed += 1
        print(f"left in /dev/shm: {sorted(left)}")
    print(f"{rounds - min(failed, rounds)} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
