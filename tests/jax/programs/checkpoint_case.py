# SPDX-License-Identifier: Apache-2.0
"""usage: checkpoint_case.py FROM TO FIRST LAST [FAULT]     Trains steps FIRST to LAST of a small network, sharded by FSDP and tensor parallelism.

Restores the checkpoint FROM/FIRST unless FIRST is 0, and writes TO/N+1 after each step N. Prints the bits of
each loss. With FAULT, the last process kills itself before that step.
"""

import os
import signal
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint as ocp
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

FROM, TO = map(os.path.abspath, sys.argv[1:3])
FIRST, LAST = map(int, sys.argv[3:5])
FAULT = int(sys.argv[5]) if len(sys.argv) > 5 else None
if "TPU_PROCESS_ADDRESSES" in os.environ:
    jax.distributed.initialize()  # finds the processes as on a TPU host
MESH = jax.make_mesh((4, 2), ("fsdp", "tensor"), axis_types=(AxisType.Auto,) * 2)
OPTIMIZER = optax.adamw(1e-2)


def put(value, *spec):
    return jax.make_array_from_callback(value.shape, NamedSharding(MESH, P(*spec)), lambda index: value[index])


def batch(step):
    rng = np.random.default_rng(step)
    x = rng.standard_normal((32, 16), dtype=np.float32)
    return put(x, "fsdp"), put(np.sin(x @ np.ones((16, 8), np.float32)), "fsdp")


def loss(params, x, y):
    hidden = jax.nn.gelu(x @ params["in"])
    return jnp.mean((hidden @ params["out"] - y) ** 2)


@jax.jit
def train(params, state, x, y):
    value, gradient = jax.value_and_grad(loss)(params, x, y)
    updates, state = OPTIMIZER.update(gradient, state, params)
    return optax.apply_updates(params, updates), state, value


rng = np.random.default_rng(0)
params = {"in": put(rng.standard_normal((16, 64), dtype=np.float32) / 4, "fsdp", "tensor"),
          "out": put(rng.standard_normal((64, 8), dtype=np.float32) / 8, "tensor", "fsdp")}
placed = {leaf.shape: leaf.sharding for leaf in params.values()}
places = jax.tree.map(lambda leaf: placed.get(leaf.shape, NamedSharding(MESH, P())), jax.eval_shape(OPTIMIZER.init, params))
state = jax.jit(OPTIMIZER.init, out_shardings=places)(params)
checkpointer = ocp.StandardCheckpointer()
if FIRST:
    params, state = checkpointer.restore(f"{FROM}/{FIRST}", (params, state))
for step in range(FIRST, LAST):
    if step == FAULT and jax.process_index() == jax.process_count() - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    params, state, value = train(params, state, *batch(step))
    print(step, np.asarray(value).tobytes().hex(), flush=True)
    checkpointer.save(f"{TO}/{step + 1}", (params, state))
    checkpointer.wait_until_finished()
