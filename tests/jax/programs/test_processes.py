# SPDX-License-Identifier: Apache-2.0
"""Several processes as the hosts of one slice: the same bits as in one, and failures that have a name."""

import os
import pathlib
import re
import socket
import subprocess
import sys
import time

import pytest

HERE = pathlib.Path(__file__).parent
MESHLO = pathlib.Path(os.environ.get("MESHLO_PLUGIN", "")).parent / "bin" / "meshlo"
pytestmark = pytest.mark.skipif(not MESHLO.exists(), reason="the command is not built")


def environment(**more):
    return dict(os.environ, MESHLO_NUM_THREADS="1", **{"MESHLO_HOST_TIMEOUT": "30", **more})


def launch(topology, *command, grace=20, **variables):
    """Runs a command as the hosts of a slice. Returns what it printed, by process, and how it ended."""
    options = ["--on", topology, "--grace", str(grace)]
    ended = subprocess.run([MESHLO, "launch", *options, "--", sys.executable, *command], env=environment(**variables),
                           capture_output=True, text=True, check=False, timeout=240)
    lines = re.findall(r"^\[(\d+)\] (.*)$", ended.stdout, re.MULTILINE)
    return {int(n): [line for m, line in lines if m == n] for n, _ in lines}, ended


def test_same_bits_as_one_process():
    cases = str(HERE / "process_cases.py")
    alone = subprocess.run([sys.executable, cases], env=environment(MESHLO_TOPOLOGY="v5e-16"), capture_output=True, text=True,
                           check=False)
    assert alone.returncode == 0, alone.stderr
    printed, ended = launch("v5e-16", cases)
    assert ended.returncode == 0, ended.stderr
    assert printed == {n: [alone.stdout.strip()] for n in range(4)}


def free_port():
    with socket.socket() as held:
        held.bind(("localhost", 0))
        return held.getsockname()[1]


def connected(program, count=2, **variables):
    """Runs a program in processes that only jax.distributed connects."""
    begin = f"import jax, sys\njax.distributed.initialize('localhost:{free_port()}', {count}, int(sys.argv[1]))\n"
    started = [subprocess.Popen([sys.executable, "-c", begin + program, str(i)], env=environment(**variables),
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for i in range(count)]
    return [(*process.communicate(timeout=240), process.returncode) for process in started]


SUM = """
import jax.numpy as jnp
local = jax.local_device_count()
out = jax.pmap(lambda a: jax.lax.psum(a, "i"), axis_name="i")(jnp.arange(local) + jax.process_index() * local)
print(jax.process_count(), jax.process_index(), int(out[0]))
"""


def test_jax_distributed_connects_them():
    for i, (out, err, code) in enumerate(connected(SUM, MESHLO_TOPOLOGY="v5e:2x4")):
        assert (code, out.split()) == (0, ["2", str(i), "28"]), err


def test_processes_never_become_slices_of_their_own():
    for out, err, code in connected("print(jax.process_count())", MESHLO_TOPOLOGY="v2-8"):
        assert code and not out, out
        assert "jax.distributed has 2 processes, but v2-8 has 1 host" in err, err


# Two processes sum in a loop, until one of them ends without a word, stops, or runs another program.
LOOP = """
import os, signal, sys, time
import jax, jax.numpy as jnp
def over_all(f):
    return jax.jit(jax.shard_map(f, mesh=jax.make_mesh((8,), ("x",)), in_specs=jax.P("x"), out_specs=jax.P("x"), check_vma=False))
def total(a):
    return jax.lax.psum(a, "x")
def other(a):
    return jax.lax.pmax(a, "x")
step = over_all(total)
ones = jax.make_array_from_callback((8,), jax.NamedSharding(jax.make_mesh((8,), ("x",)), jax.P("x")),
                                    lambda index: jnp.ones((1,)))
print("begin", flush=True)
try:
    for i in range(100000):
        if i == 50 and jax.process_index() == 1:
            FAULT
        value = step(ones)
        assert all(float(shard.data[0]) == 8 for shard in value.addressable_shards), value
except jax.errors.JaxRuntimeError as error:
    print("error", str(error).replace(chr(10), " "), flush=True)
    sys.exit(3)
"""


@pytest.mark.parametrize("fault,code,words", [
    ("os.kill(os.getpid(), signal.SIGKILL)", 137, ["process 1"]),
    ("step = over_all(other)", 3, ["process 1", "jit_total", "jit_other"]),
])
def test_failures_are_named(fault, code, words):
    begin = time.monotonic()
    printed, ended = launch("v5e:2x4", "-c", LOOP.replace("FAULT", fault))
    assert ended.returncode == code, (printed, ended.stderr)
    errors = [line for line in printed[0] if line.startswith("error")]
    assert errors and all(word in errors[0] for word in words), (printed, ended.stderr)
    assert time.monotonic() - begin < 60


def test_a_stopped_process_is_named():
    stop = "time.sleep(0.1), os.kill(os.getpid(), signal.SIGSTOP)"
    printed, ended = launch("v5e:2x4", "-c", LOOP.replace("FAULT", stop), grace=1, MESHLO_HOST_TIMEOUT="3")
    assert ended.returncode == 3, (printed, ended.stderr)
    assert any("process 1" in line for line in printed[0] if line.startswith("error")), printed


def test_checkpoints_of_several_processes_and_of_one(tmp_path):
    """One process saves, two restore and save until one of them is killed, one restores: the losses of an undisturbed run."""
    case, one, two = str(HERE / "checkpoint_case.py"), str(tmp_path / "one"), str(tmp_path / "two")

    def alone(*arguments):
        ended = subprocess.run([sys.executable, case, *arguments], capture_output=True, text=True, check=False,
                               env=environment(MESHLO_TOPOLOGY="v5e:2x4"))
        assert ended.returncode == 0, ended.stderr
        return ended.stdout.split("\n")[:-1]

    losses = alone(one, one, "0", "3")
    printed, ended = launch("v5e:2x4", case, one, two, "1", "9", "2")
    assert ended.returncode == 137 and "process 1 was killed" in ended.stderr, ended.stderr
    assert printed[0] == printed[1] == losses[1:2], ended.stderr
    assert alone(two, two, "2", "3") == losses[2:]
