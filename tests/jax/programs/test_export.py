# SPDX-License-Identifier: Apache-2.0
"""Artefacts of jax.export and serialised executables, written and read back."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from jax.experimental import serialize_executable

from support import assert_same, mesh_of, on_cpu, shard


def model(weights, x):
    for weight in weights[:-1]:
        x = jax.nn.gelu(x @ weight)
    return jax.nn.log_softmax(x @ weights[-1])


def arguments():
    random = np.random.default_rng(16)
    return [random.normal(size=s).astype(np.float32) / 4 for s in ((16, 32), (32, 32), (32, 8))], random.normal(
        size=(24, 16)).astype(np.float32)


def shapes_of(tree):
    return jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), tree)


def reloaded(function, *arguments, platforms=("tpu", "cpu"), order=0):
    exported = export.export(jax.jit(function), platforms=platforms)(*arguments)
    return export.deserialize(exported.serialize(vjp_order=order))


@pytest.mark.parametrize("platforms", [("tpu",), ("tpu", "cpu")])
def test_reloaded_program_equals_cpu(platforms):
    weights, x = arguments()
    exported = reloaded(model, *shapes_of((weights, x)), platforms=platforms)
    assert exported.platforms == platforms
    assert_same(jax.device_get(jax.jit(exported.call)(weights, x)), on_cpu(model, weights, x), 1e-5)


def test_reloaded_gradient_equals_cpu():
    weights, x = arguments()
    exported = reloaded(model, *shapes_of((weights, x)), order=1)
    loss = lambda call: lambda weights: jnp.sum(call(weights, x) ** 2)
    assert_same(jax.device_get(jax.jit(jax.grad(loss(exported.call)))(weights)), on_cpu(jax.grad(loss(model)), weights),
                1e-5)


@pytest.mark.parametrize("rows", [1, 3, 24])
def test_reloaded_program_with_symbolic_sizes(rows):
    weights, x = arguments()
    n, = export.symbolic_shape("n")
    exported = reloaded(model, shapes_of(weights), jax.ShapeDtypeStruct((n, 16), np.float32))
    assert_same(jax.device_get(jax.jit(exported.call)(weights, x[:rows])), on_cpu(model, weights, x[:rows]), 1e-5)


# Sizes that are divided, padded windows of open sizes, and custom calls with the sizes of their results.
def test_reloaded_program_that_computes_with_sizes():
    n, = export.symbolic_shape("n", constraints=["n >= 4", "mod(n, 2) == 0"])
    x = np.random.default_rng(3).standard_normal((6, 4, 3)).astype(np.float32)

    def halves(x):
        rows = x.shape[0] // 2
        return jnp.cumsum(x, 0)[::2], x.reshape(rows, 2, -1).mean(1), jnp.linalg.qr(x)[1] ** 2, jnp.roll(x, rows, 0)

    exported = reloaded(halves, jax.ShapeDtypeStruct((n, 4, 3), np.float32), platforms=("tpu",))
    assert_same(jax.device_get(jax.jit(exported.call)(x)), on_cpu(halves, x), 1e-5)


def test_reloaded_sharded_program_equals_cpu():
    weights, x = arguments()
    mesh = mesh_of(batch=4, model=2)
    placed = [jax.device_put(w, shard(mesh, None, "model")) for w in weights], jax.device_put(x, shard(mesh, "batch"))
    exported = reloaded(model, *placed, platforms=("tpu",))
    assert exported.nr_devices == 8
    assert_same(jax.device_get(jax.jit(exported.call)(*placed)), on_cpu(model, weights, x), 1e-5)


def test_reloaded_executable_equals_cpu():
    weights, x = arguments()
    mesh = mesh_of(batch=8)
    placed = jax.device_put(weights, shard(mesh)), jax.device_put(x, shard(mesh, "batch"))
    compiled = jax.jit(model).lower(*placed).compile()
    # The order of the mesh, which is not that of jax.devices(), must be said again.
    again = serialize_executable.deserialize_and_load(*serialize_executable.serialize(compiled),
                                                      execution_devices=list(mesh.devices.flat))
    assert again.as_text() == compiled.as_text()
    assert_same(jax.device_get(again(*placed)), on_cpu(model, weights, x), 1e-5)
