# SPDX-License-Identifier: Apache-2.0
"""The oracle of the programs: the same function on XLA:CPU, in the same process, unsharded."""

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

# The chip rounds f32 products to bf16 unless it is asked not to; XLA:CPU never does.
jax.config.update("jax_default_matmul_precision", "highest")
CPU = jax.devices("cpu")[0]
DEVICES = jax.devices("tpu")
assert len(DEVICES) == 8, DEVICES


def on_cpu(function, *arguments):
    """What XLA:CPU makes of it on one device."""
    with jax.default_device(CPU):
        return jax.device_get(jax.jit(function)(*jax.device_get(arguments)))


def train(step, state, batches, place=lambda tree: tree):
    """Runs `state, loss = step(state, batch)` over the batches, with the state donated. Returns both, on the host."""
    jitted, losses = jax.jit(step, donate_argnums=0), []
    state = place(state)
    for batch in batches:
        state, loss = jitted(state, batch)
        losses.append(loss)
    return jax.device_get(state), np.array(jax.device_get(losses))


def train_on_cpu(step, state, batches):
    with jax.default_device(CPU):
        return train(step, jax.device_get(state), jax.device_get(batches))


def assert_same(ours, theirs, tolerance):
    """Trees of equal structure whose arrays differ by at most `tolerance` of the array's largest element."""
    paths, structure = jax.tree_util.tree_flatten_with_path(theirs)
    leaves, our_structure = jax.tree_util.tree_flatten(ours)
    assert our_structure == structure
    for ours_leaf, (path, theirs_leaf) in zip(leaves, paths):
        a, b = np.asarray(ours_leaf), np.asarray(theirs_leaf)
        assert a.dtype == b.dtype and a.shape == b.shape, (jax.tree_util.keystr(path), a, b)
        if np.issubdtype(b.dtype, np.integer) or b.dtype == bool:
            np.testing.assert_array_equal(a, b, err_msg=jax.tree_util.keystr(path))
            continue
        a, b = a.astype(np.float64), b.astype(np.float64)
        scale = max(np.abs(b).max(initial=0), 1e-30)
        np.testing.assert_allclose(a / scale, b / scale, rtol=0, atol=tolerance, err_msg=jax.tree_util.keystr(path))


def mesh_of(**axes):
    """A mesh of the slice's devices in the order that jax.make_mesh chooses, with automatic axes."""
    return jax.make_mesh(tuple(axes.values()), tuple(axes), axis_types=(jax.sharding.AxisType.Auto,) * len(axes),
                         devices=DEVICES)


def shard(mesh, *spec):
    return NamedSharding(mesh, PartitionSpec(*spec))
