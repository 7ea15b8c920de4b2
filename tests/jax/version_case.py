# SPDX-License-Identifier: Apache-2.0
"""What every supported version of JAX must do on the plugin; tests/jax/run-versions runs it. Each part fails by itself, so that
one run tells all that a version lacks."""
import os
import sys
import traceback

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P

X = np.arange(64, dtype=np.float32).reshape(8, 8) / 64
PLATFORM = os.environ["JAX_PLATFORMS"].split(",")[0]
parts = []


def part(function):
    parts.append(function)
    return function


def place(array, spec):
    return jax.device_put(array, NamedSharding(jax.make_mesh((4, 2), ("data", "model")), spec))


@part
def devices():
    assert jax.default_backend() == PLATFORM and len(jax.devices()) == 8, jax.devices()
    assert jax.devices()[0].device_kind == "TPU v2" and jax.devices()[3].coords == [1, 0, 0]


@part
def sharded_step():
    def loss(w, x):
        return jnp.tanh(x @ w).sum()

    w, x = place(X, P(None, "model")), place(X, P("data", None))
    value, gradient = jax.jit(jax.value_and_grad(loss))(w, x)
    activations = np.tanh(X @ X)
    np.testing.assert_allclose(value, activations.sum(), rtol=1e-5)
    np.testing.assert_allclose(gradient, X.T @ (1 - activations**2), rtol=1e-5, atol=1e-6)


@part
def manual_regions():
    shard_map = getattr(jax, "shard_map", None)
    if shard_map is None:
        from jax.experimental.shard_map import shard_map
    mesh = jax.make_mesh((8,), ("i",))
    total = jax.jit(shard_map(lambda v: jax.lax.psum(v, "i"), mesh=mesh, in_specs=P("i"), out_specs=P()))(
        jax.device_put(X, NamedSharding(mesh, P("i"))))
    np.testing.assert_allclose(total, X.sum(axis=0, keepdims=True), rtol=1e-6)


@part
def callbacks():
    if PLATFORM == "meshlo":
        return  # JAX lowers callbacks for the platforms that it knows by name
    seen = []
    shape = jax.ShapeDtypeStruct(X.shape, X.dtype)
    doubled = jax.jit(lambda v: jax.pure_callback(lambda a: 2 * np.asarray(a), shape, v) + 1)(X)
    np.testing.assert_array_equal(doubled, 2 * X + 1)
    jax.jit(lambda v: jax.debug.callback(lambda a: seen.append(float(a)), v.sum()))(X)
    jax.effects_barrier()
    assert seen and abs(seen[0] - X.sum()) < 1e-3, seen


@part
def donation_and_types():
    given = jnp.ones(3, jnp.bfloat16)
    kept = jax.jit(lambda v: v + 1, donate_argnums=0)(given)
    assert given.is_deleted() and float(kept.sum()) == 6
    np.testing.assert_array_equal(jnp.arange(4, dtype=jnp.int4) * jnp.int4(1), np.arange(4))


@part
def export():
    exported = jax.export.export(jax.jit(lambda v: v * 2), platforms=["cpu", "tpu"])(X)
    assert jax.export.deserialize(exported.serialize()).in_avals[0].shape == (8, 8)
    import meshlo

    np.testing.assert_array_equal(meshlo.run(jax.export.export(jax.jit(lambda v: v * 2), platforms=["cpu"])(X), [X]), 2 * X)


@part
def module():
    import meshlo

    lowered = jax.jit(lambda v: v @ v).lower(place(X, P("data", None)))
    assert meshlo.emulate(lowered, "v2-8").step_seconds > 0 and meshlo.explain(lowered).total_bytes > 0


failures = []
for one in parts:
    try:
        one()
    except Exception:
        failures.append(one.__name__)
        traceback.print_exc()
print(f"{len(parts) - len(failures)} of {len(parts)} parts work" + (f", not {', '.join(failures)}" if failures else ""))
sys.exit(bool(failures))
