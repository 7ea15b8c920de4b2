# SPDX-License-Identifier: Apache-2.0
"""The same numbers from real JAX on this machine, one `name value` a line, for the ratios that benchmarks/run prints."""
import glob
import lzma
import os
import sys
import time

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
from jaxlib import _hlo

CLOCK = time.process_time if os.environ.get("BENCH_CLOCK") == "processor" else time.perf_counter
SHARED = os.environ.get("MESHLO_SHARED", os.path.join(os.path.dirname(__file__), "../../shared"))


def best(function, repeats=5):
    times = []
    for _ in range(repeats):
        start = CLOCK()
        function()
        times.append(CLOCK() - start)
    return min(times)


def say(name, value):
    print(name, f"{value:.6g}", flush=True)


def predict(params, inputs):
    for W, b in params:
        outputs = jnp.dot(inputs, W) + b
        inputs = jnp.maximum(outputs, 0)
    return outputs


def loss(params, batch):
    inputs, targets = batch
    return jnp.mean(jnp.sum((predict(params, inputs) - targets)**2, axis=-1))


def network(size):
    mesh = jax.make_mesh((4, 2), ("batch", "model"), axis_types=(AxisType.Auto,) * 2)

    def array(shape, *spec):
        return jax.device_put(np.zeros(shape, np.float32), NamedSharding(mesh, P(*spec)))

    params = ((array((784, size)), array((size,))), (array((size, size), None, "model"), array((size,), "model")),
              (array((size, size), "model", None), array((size,))), (array((size, 10)), array((10,))))
    batch = (array((size, 784), "batch", None), array((size, 10), "batch", None))
    lowered = jax.jit(jax.value_and_grad(loss)).lower(params, batch)
    start = CLOCK()
    compiled = lowered.compile()
    say("compile_8", (CLOCK() - start) * 1e3)
    say("run_1024", best(lambda: jax.block_until_ready(compiled(params, batch))) * 1e3)


def text():
    read = written = read_seconds = written_seconds = 0
    for path in glob.glob(f"{SHARED}/corpus/*.hlo.xz"):
        content = lzma.open(path, "rt").read()
        start = CLOCK()
        module = _hlo.hlo_module_from_text(content)
        read_seconds += CLOCK() - start
        start = CLOCK()
        out = module.to_string()
        written_seconds += CLOCK() - start
        read += len(content)
        written += len(out)
    if read:
        say("text_in", read / read_seconds * 1e-6)
        say("text_out", written / written_seconds * 1e-6)


def psum():
    mesh = jax.make_mesh((8,), ("i",), axis_types=(AxisType.Auto,))
    x = jax.device_put(np.zeros((8, 8), np.float32), NamedSharding(mesh, P("i")))
    f = jax.jit(jax.shard_map(lambda y: jax.lax.psum(y, "i"), mesh=mesh, in_specs=P("i"), out_specs=P()))
    jax.block_until_ready(f(x))
    count = 200  # one after the other: queueing them aborts the process
    start = CLOCK()
    for _ in range(count):
        jax.block_until_ready(f(x))
    say("psum_10000", count / (CLOCK() - start))


for case in (lambda: network(1024), text, psum):
    try:
        case()
    except Exception as error:  # a case that JAX cannot run must not prevent the others
        print(error, file=sys.stderr)
