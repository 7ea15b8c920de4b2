#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: benchmarks/jax/hosts.py MESHLO PLUGIN PYTHON     Four processes, each a host with one device: Meshlo beside XLA:CPU with gloo.

Prints a row for each case with both times and their ratio: a psum of 8 bytes, an all-reduce of 64 MiB, a data-parallel
step of an MLP, and the time from the start to the first collective. Both sides run one after the other, several times in
turn, and the best time of each counts. The last rows are plain copies of 64 MiB out of shared memory, by one process
and by four at once, and how much of their rate the all-reduce reaches: each process receives 2 (N - 1) / N of the
array in it, and all share the processors and the memory of this machine.
"""

import argparse
import json
import os
import pathlib
import socket
import subprocess
import sys
import time

COUNT = 4
MIB = 1 << 20


# ---- one process


def best(function, repeats, inner=1):
    """Seconds of the fastest of some repeats, each of `inner` calls."""
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        for _ in range(inner):
            out = function()
        out.block_until_ready()
        times.append((time.perf_counter() - begin) / inner)
    return min(times)


def worker(arguments):
    started = float(arguments.started)
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import NamedSharding, PartitionSpec as P

    imported = time.time()
    if arguments.coordinator:
        jax.distributed.initialize(arguments.coordinator, COUNT, arguments.index)
    assert jax.device_count() == COUNT and jax.process_count() == COUNT, jax.devices()
    mesh = jax.make_mesh((COUNT,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))

    def put(shape, *spec):
        rng = np.random.default_rng(0)
        value = rng.standard_normal(shape, dtype=np.float32)
        return jax.make_array_from_callback(shape, NamedSharding(mesh, P(*spec)), lambda index: value[index])

    total = jax.jit(jax.shard_map(lambda a: jax.lax.psum(a, "x"), mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False))
    result, small = {}, put((2 * COUNT,), "x")
    total(small).block_until_ready()
    result["start to first collective"] = time.time() - started
    result["of which importing jax"] = imported - started

    def chain():
        value = small
        for _ in range(100):
            value = total(value)
        return value

    result["psum of 8 B"] = best(chain, 5) / 100
    large = put((COUNT, 16 * MIB), "x")
    result["all-reduce of 64 MiB"] = best(lambda: total(large), 5)

    def loss(weights, x, y):
        for w in weights[:-1]:
            x = jax.nn.relu(x @ w)
        return jnp.mean((x @ weights[-1] - y) ** 2)

    def step(weights, x, y):
        return [w - 0.01 * g for w, g in zip(weights, jax.grad(loss)(weights, x, y))]

    weights = [put(shape) for shape in ((512, 1024), (1024, 1024), (1024, 256))]
    x, y = put((256, 512), "x"), put((256, 256), "x")
    train = jax.jit(step, out_shardings=NamedSharding(mesh, P()))
    state = [weights]

    def one():
        state[0] = train(state[0], x, y)
        return state[0][0]

    one().block_until_ready()
    result["MLP step"] = best(one, 5, inner=5)
    if jax.process_index() == 0:
        print("RESULT " + json.dumps(result), flush=True)


# ---- both sides


def free_port():
    with socket.socket() as held:
        held.bind(("localhost", 0))
        return held.getsockname()[1]


def parse(text):
    lines = [line.split("RESULT ", 1)[1] for line in text.splitlines() if "RESULT " in line]
    if not lines:
        sys.exit("a run gave no result:\n" + text[-4000:])
    return json.loads(lines[0])


def run_meshlo(options):
    env = dict(os.environ, JAX_PLATFORMS="tpu", TPU_LIBRARY_PATH=str(pathlib.Path(options.plugin).resolve()),
               MESHLO_NUMERICS="exact")
    command = [options.meshlo, "launch", "--on", "v5e:2x2", "--processes", str(COUNT), "--", options.python, __file__, "--worker",
               f"--started={time.time()}"]
    return parse(subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, check=False).stdout)


def run_xla(options):
    env = dict(os.environ, JAX_PLATFORMS="cpu", JAX_NUM_CPU_DEVICES="1", JAX_CPU_COLLECTIVES_IMPLEMENTATION="gloo")
    port, now = free_port(), time.time()
    started = [subprocess.Popen([options.python, __file__, "--worker", f"--started={now}", f"--index={i}",
                                 f"--coordinator=localhost:{port}"], env=env, stdout=subprocess.PIPE, text=True)
               for i in range(COUNT)]
    return parse("".join(process.communicate()[0] for process in started))


COPY = """
import sys, time
import numpy as np
source = np.memmap("/dev/shm/" + sys.argv[1], np.uint8, "r")[:64 << 20]
target = np.zeros(64 << 20, np.uint8)
target[:] = source
count, begin = 0, time.perf_counter()
while time.perf_counter() < begin + 2:
    target[:] = source
    count += 1
print((time.perf_counter() - begin) / count)
"""


def copy_seconds(python, processes):
    """The mean time in which processes, all at once, read what another one has written."""
    from multiprocessing import shared_memory
    block = shared_memory.SharedMemory(create=True, size=64 * MIB)
    block.buf[:] = b"\1" * (64 * MIB)
    try:
        command = [python, "-c", COPY, block.name]
        started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(processes)]
        return sum(float(process.communicate()[0]) for process in started) / processes
    finally:
        block.close()
        block.unlink()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("meshlo", "plugin", "python"):
        parser.add_argument(name, nargs="?")
    parser.add_argument("--rounds", type=int, default=3)
    for name in ("--coordinator", "--started"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    parser.add_argument("--index", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        return worker(options)
    if not options.python:
        parser.error("the command, the plugin and an interpreter are expected")
    ours, theirs = [], []
    for _ in range(options.rounds):
        ours.append(run_meshlo(options))
        theirs.append(run_xla(options))
    print("case\tMeshlo ms\tXLA:CPU with gloo ms\tratio")
    for name in ours[0]:
        a, b = (min(run[name] for run in runs) * 1e3 for runs in (ours, theirs))
        print(f"{name}\t{a:.4g}\t{b:.4g}\t{b / a:.2f}", flush=True)
    reduce = min(run["all-reduce of 64 MiB"] for run in ours)
    for processes in (1, COUNT):
        copy = min(copy_seconds(options.python, processes) for _ in range(options.rounds))
        share = 2 * (COUNT - 1) / COUNT * copy / reduce
        print(f"copy of 64 MiB, {processes} at once\t{copy * 1e3:.4g}\t\t{share:.2f} of its rate in the all-reduce", flush=True)
    return None


if __name__ == "__main__":
    main()
