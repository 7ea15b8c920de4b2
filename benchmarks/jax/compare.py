#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""JAX on the plugin beside JAX on XLA:CPU, in one process and in turns, so that a busy machine disturbs both alike.

    TPU_LIBRARY_PATH=build/release/libmeshlo_pjrt.so python benchmarks/jax/compare.py [ROUNDS [CASE…]]

Prints a table in Markdown: the least time of ROUNDS (default 7) turns through the user's Python, in microseconds, both platforms
with eight devices. MESHLO_NUMERICS=exact is set, so that both do the same arithmetic. On a busy machine count the processor's time,
on one core for both:

    BENCH_CLOCK=processor MESHLO_NUM_THREADS=1 taskset -c 1 python benchmarks/jax/compare.py
"""

import os
import sys
import time

os.environ.update(JAX_PLATFORMS="tpu,cpu", MESHLO_NUMERICS="exact")
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8 " + os.environ.get("XLA_FLAGS", "")

import jax  # noqa: E402  (reads the environment)
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P  # noqa: E402

CLOCK = time.process_time if os.environ.get("BENCH_CLOCK") == "processor" else time.perf_counter
CASES = {}


def case(function):
    """Registers a case: given the devices of a platform, it returns the function to time and its number of calls per turn."""
    CASES[function.__name__] = function
    return function


def mesh_of(devices, **axes):
    shape = tuple(axes.values())
    return Mesh(np.array(devices[:int(np.prod(shape))]).reshape(shape), tuple(axes), axis_types=(AxisType.Auto,) * len(axes))


def layers(random, *sizes):
    return [random.normal(size=pair).astype(np.float32) / np.sqrt(pair[0]) for pair in zip(sizes, sizes[1:])]


def mlp_loss(weights, x, y):
    for weight in weights[:-1]:
        x = jax.nn.relu(x @ weight)
    return jnp.mean((x @ weights[-1] - y)**2)


def mlp_step(weights, x, y):
    return jax.tree.map(lambda w, g: w - 0.01 * g, weights, jax.grad(mlp_loss)(weights, x, y))


def mlp_shapes(devices):
    """Arguments of mlp_step() on eight devices: weights sharded by `model`, data by `batch`."""
    mesh = mesh_of(devices, batch=4, model=2)
    weights = [jax.ShapeDtypeStruct(s, np.float32, sharding=NamedSharding(mesh, P(None, "model")))
               for s in ((256, 512), (512, 512), (512, 16))]
    x, y = (jax.ShapeDtypeStruct((128, n), np.float32, sharding=NamedSharding(mesh, P("batch", None))) for n in (256, 16))
    return weights, x, y


@case
def dispatch_of_a_scalar(devices):
    """`x + 1` on a scalar, launched and not waited for."""
    f, x = jax.jit(lambda x: x + 1), jax.device_put(np.float32(1), devices[0])
    f(x).block_until_ready()
    return lambda: f(x), 2000


@case
def scalar_to_the_end(devices):
    """The same, waited for."""
    f, x = jax.jit(lambda x: x + 1), jax.device_put(np.float32(1), devices[0])
    return lambda: f(x).block_until_ready(), 1000


@case
def hundred_arguments(devices):
    """A step over a hundred small arrays."""
    f = jax.jit(lambda xs: [x + 1 for x in xs])
    xs = [jax.device_put(np.zeros(16, np.float32), devices[0])] * 100
    return lambda: jax.block_until_ready(f(xs)), 100


@case
def mlp_step_one_device(devices):
    """A training step of a perceptron of 256, 512, 512, 10, batch 128."""
    random = np.random.default_rng(0)
    weights, x, y = jax.device_put(
        (layers(random, 256, 512, 512, 10), *(random.normal(size=(128, n)).astype(np.float32) for n in (256, 10))),
        devices[0])
    f = jax.jit(mlp_step)
    return lambda: jax.block_until_ready(f(weights, x, y)), 10


@case
def mlp_step_eight_devices(devices):
    """The same on a mesh of 4x2: batch and features sharded."""
    random, mesh = np.random.default_rng(0), mesh_of(devices, batch=4, model=2)
    weights = [jax.device_put(w, NamedSharding(mesh, P(None, "model") if i % 2 == 0 else P("model", None)))
               for i, w in enumerate(layers(random, 256, 512, 512, 10))]
    x, y = (jax.device_put(random.normal(size=(128, n)).astype(np.float32), NamedSharding(mesh, P("batch", None)))
            for n in (256, 10))
    f = jax.jit(mlp_step)
    return lambda: jax.block_until_ready(f(weights, x, y)), 5


@case
def psum_eight_devices(devices):
    """psum of eight floats a device."""
    mesh = mesh_of(devices, i=8)
    f = jax.jit(jax.shard_map(lambda y: jax.lax.psum(y, "i"), mesh=mesh, in_specs=P("i"), out_specs=P()))
    x = jax.device_put(np.zeros((8, 8), np.float32), NamedSharding(mesh, P("i")))
    return lambda: f(x).block_until_ready(), 200


@case
def psum_of_megabytes(devices):
    """psum of 4 MiB a device."""
    mesh = mesh_of(devices, i=8)
    f = jax.jit(jax.shard_map(lambda y: jax.lax.psum(y, "i"), mesh=mesh, in_specs=P("i"), out_specs=P()))
    x = np.random.default_rng(0).normal(size=(8, 1 << 20)).astype(np.float32)
    x = jax.device_put(x, NamedSharding(mesh, P("i")))
    return lambda: f(x).block_until_ready(), 3


@case
def put_4_mib(devices):
    """NumPy to a device."""
    x = np.zeros((1024, 1024), np.float32)
    return lambda: jax.device_put(x, devices[0]).block_until_ready(), 20


@case
def put_sharded(devices):
    """32 MiB of NumPy to eight devices."""
    x, sharding = np.zeros((8192, 1024), np.float32), NamedSharding(mesh_of(devices, i=8), P("i"))
    return lambda: jax.device_put(x, sharding).block_until_ready(), 3


@case
def read_4_mib(devices):
    """A device's array to NumPy: a new array each time, as JAX keeps what it has read."""
    x = jax.device_put(np.zeros((1024, 1024), np.float32), devices[0])
    f = jax.jit(lambda x: x + 1)
    return lambda: np.asarray(f(x)), 10


@case
def compile_mlp_step(devices):
    """Trace, lower and compile the step on eight devices, anew each time."""
    shapes = mlp_shapes(devices)
    return lambda: jax.jit(lambda *arguments: mlp_step(*arguments)).lower(*shapes).compile(), 1


def turn(action, times):
    started = CLOCK()
    for _ in range(times):
        last = action()
    del last
    return (CLOCK() - started) / times * 1e6


def main(cases):
    """Times those of `cases` whose names begin as the command line's arguments do."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    wanted = [name for name in cases if name.startswith(tuple(sys.argv[2:] or [""]))]
    platforms = {"Meshlo": jax.devices("tpu"), "XLA": jax.devices("cpu")}
    print("| case | Meshlo | XLA | XLA / Meshlo |\n|---|---|---|---|")
    for name in wanted:
        make = cases[name]
        made = {platform: make(devices) for platform, devices in platforms.items()}
        best = dict.fromkeys(platforms, float("inf"))
        for action, _ in made.values():
            action()
        for _ in range(rounds):
            for platform, (action, times) in made.items():
                best[platform] = min(best[platform], turn(action, times))
        print(f"| {name} | {best['Meshlo']:.3g} | {best['XLA']:.3g} | {best['XLA'] / best['Meshlo']:.2f} |", flush=True)


if __name__ == "__main__":
    main(CASES)
