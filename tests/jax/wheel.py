#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A program for the wheel meshlo: run it with JAX_PLATFORMS=meshlo where the wheel is installed. Fails with an assertion."""
import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)
assert jax.default_backend() == "meshlo" and len(jax.devices()) == 8, jax.devices()
assert jax.devices()[3].coords == [1, 0, 0] and jax.devices()[3].core_on_chip == 1

# f64, and f32 products that are not rounded to bf16.
x = np.linspace(-1, 1, 12).reshape(3, 4)
assert np.array_equal(jnp.asarray(x) * 2, x * 2)
np.testing.assert_allclose(jnp.asarray(x) @ x.T, x @ x.T, rtol=1e-15, atol=1e-16)
np.testing.assert_allclose(jnp.asarray(x, jnp.float32) @ x.T.astype(np.float32), x @ x.T, rtol=0, atol=1e-6)

TYPES = ("bool int2 int4 int8 int16 int32 int64 uint2 uint4 uint8 uint16 uint32 uint64 float8_e3m4 float8_e4m3 float8_e4m3fn "
         "float8_e4m3b11fnuz float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz bfloat16 float16 float32 float64 complex64 complex128").split()
for name in TYPES:
    one = jnp.ones((4,), name)
    product = one * one
    assert product.dtype == name, (name, product.dtype)
    assert np.array_equal(np.asarray(product).astype(np.complex128), np.ones(4)), (name, product)

# Rules that JAX has for TPUs only, donation, and arrays on several devices.
square = x @ x.T
values, vectors = jnp.linalg.eigh(square)
np.testing.assert_allclose(vectors @ jnp.diag(values) @ vectors.T, square, atol=1e-12)

# Rules that JAX has for CPUs only, in matrices for the evaluator and for LAPACK.
import jax.scipy.linalg as linalg  # noqa: E402

for n in (5, 24):
    general = np.random.default_rng(n).standard_normal((2, n, n))
    values, vectors = map(np.asarray, jnp.linalg.eig(general))
    np.testing.assert_allclose(general @ vectors, vectors * values[:, None], atol=1e-12)
    t, z = map(np.asarray, linalg.schur(general[0]))
    np.testing.assert_allclose(z @ t @ z.T, general[0], atol=1e-12)
    h, q = map(np.asarray, linalg.hessenberg(general[0], calc_q=True))
    np.testing.assert_allclose(q @ h @ q.T, general[0], atol=1e-12)
    q, r, order = map(np.asarray, linalg.qr(general[0], pivoting=True))
    np.testing.assert_allclose(q @ r, general[0][:, order], atol=1e-12)
given = jnp.ones(3)
kept = jax.jit(lambda v: v + 1, donate_argnums=0)(given)
assert given.is_deleted() and float(kept.sum()) == 6
mesh = jax.sharding.Mesh(np.array(jax.devices()).reshape(4, 2), ("a", "b"))
whole = np.arange(64.0).reshape(8, 8)
parts = jax.device_put(whole, jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("a", "b")))
np.testing.assert_array_equal(jax.jit(lambda v: v @ v)(parts), whole @ whole)

# Pallas kernels for TPUs are interpreted: blocks, scratch memory, a copy with its semaphore.
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402


def add_blocks(x, out, total):
    @pl.when(pl.program_id(1) == 0)
    def _():
        total[...] = jnp.zeros_like(total)

    total[...] += x[...]
    out[...] = total[...]


def copy(x, out, semaphore):
    moving = pltpu.make_async_copy(x, out, semaphore)
    moving.start()
    moving.wait()


blocks = np.arange(16 * 512, dtype=np.float32).reshape(16, 512)
summed = jax.jit(lambda x: pl.pallas_call(
    add_blocks, grid=(2, 4), in_specs=[pl.BlockSpec((8, 128), lambda i, j: (i, j))], out_specs=pl.BlockSpec((8, 128), lambda i, j: (i, 0)),
    scratch_shapes=[pltpu.VMEM((8, 128), jnp.float32)], out_shape=jax.ShapeDtypeStruct((16, 128), jnp.float32))(x))(blocks)
np.testing.assert_array_equal(summed, blocks.reshape(16, 4, 128).sum(axis=1))
copied = jax.jit(lambda x: pl.pallas_call(
    copy, in_specs=[pl.BlockSpec(memory_space=pl.ANY)], out_specs=pl.BlockSpec(memory_space=pl.ANY),
    scratch_shapes=[pltpu.SemaphoreType.DMA], out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x))(blocks)
np.testing.assert_array_equal(copied, blocks)

# JAX registers its custom partitioner with a plugin that it finds by its entry point.
from jax.experimental.custom_partitioning import custom_partitioning  # noqa: E402

asked = []


@custom_partitioning
def double(v):
    return v * 2


def partition(mesh, arguments, result):
    asked.append(arguments[0].sharding)
    return mesh, lambda v: v * 2, result.sharding, (arguments[0].sharding,)


double.def_partition(partition, sharding_rule="i j -> i j")
np.testing.assert_array_equal(jax.jit(double)(parts), whole * 2)
assert asked

# The module, with the library, the command and the plugin that the wheel brings.
import pathlib  # noqa: E402
import subprocess  # noqa: E402
import sys  # noqa: E402

import meshlo  # noqa: E402

first = subprocess.run([sys.executable, "-c", "import jax; jax.devices()"], check=True, capture_output=True, text=True)
assert "experimental" not in first.stderr, first.stderr

lowered = jax.jit(lambda v: v @ v).lower(parts)
assert meshlo.emulate(lowered, "v2-8").step_seconds > 0 and meshlo.explain(lowered).total_bytes > 0
np.testing.assert_array_equal(meshlo.run(lowered, [whole], on="v2-8", numerics="exact"), whole @ whole)
# Beside the interpreter of an environment, or in the folder of `pip install --target`.
command = next(path for path in (pathlib.Path(sys.executable).with_name("meshlo"), pathlib.Path(meshlo.__file__).parents[1] / "bin/meshlo") if path.exists())
assert subprocess.run([command, "version"], check=True, capture_output=True, text=True).stdout.split()[1] == meshlo.__version__
assert pathlib.Path(meshlo.plugin_path()).exists()
print("the wheel works")
