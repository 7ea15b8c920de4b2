# SPDX-License-Identifier: Apache-2.0
"""jax.experimental.custom_partitioning: the user's Python functions say how an operation is cut."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.custom_partitioning import custom_partitioning
from jax.sharding import NamedSharding, PartitionSpec as P
from jaxlib import _jax

from support import assert_same, mesh_of, on_cpu, shard

X = np.random.default_rng(0).normal(size=(16, 8)).astype(np.float32)
Y = np.random.default_rng(1).normal(size=(8, 24)).astype(np.float32)


def shardings(tree):
    return jax.tree.map(lambda leaf: leaf.sharding, tree)


def rows_only(mesh, sharding):
    return NamedSharding(mesh, P(sharding.spec[0] if len(sharding.spec) else None))


def scaled_rows(log):
    """Softmax along the last dimension, which must be whole."""

    @custom_partitioning
    def rows(x):
        return jax.nn.softmax(x, axis=-1)

    def partition(mesh, arguments, result):
        log.append([argument.sharding.spec for argument in jax.tree.leaves(arguments)])
        keep = rows_only(mesh, result.sharding)
        return mesh, lambda x: jax.nn.softmax(x, axis=-1), keep, (keep,)

    rows.def_partition(partition, infer_sharding_from_operands=lambda mesh, arguments, _: rows_only(mesh, arguments[0].sharding),
                       sharding_rule="i j -> i j", need_replication_factors=("j",))
    return rows


def product(log):
    """A product whose summed dimension is cut: the function itself sums over the devices."""

    @custom_partitioning
    def multiply(x, y):
        return x @ y

    def partition(mesh, arguments, result):
        axis = arguments[0].sharding.spec[1] if len(arguments[0].sharding.spec) > 1 else None
        log.append(axis)

        def local(x, y):
            partial = x @ y
            return jax.lax.psum(partial, axis) if axis else partial

        row = arguments[0].sharding.spec[0] if len(arguments[0].sharding.spec) else None
        column = arguments[1].sharding.spec[1] if len(arguments[1].sharding.spec) > 1 else None
        return (mesh, local, NamedSharding(mesh, P(row, column)),
                (NamedSharding(mesh, P(row, axis)), NamedSharding(mesh, P(axis, column))))

    multiply.def_partition(partition, sharding_rule="i j, j k -> i k", reduction_factors=("j",))
    return multiply


def two_results(log):
    @custom_partitioning
    def both(x, y):
        return x * 2 + y, {"sum": jnp.sum(x, axis=1)}

    def partition(mesh, arguments, results):
        log.append(1)
        return mesh, lambda x, y: (x * 2 + y, {"sum": jnp.sum(x, axis=1)}), shardings(results), shardings(arguments)

    both.def_partition(partition, sharding_rule="i j, i j -> i j, i", need_replication_factors=("j",))
    return both


@pytest.mark.parametrize("spec", [P("d"), P("d", "e"), P(("d", "e")), P(), P(None, "d")])
def test_rows(spec):
    """The function is asked with the shardings that there are, as by XLA:CPU, and both sides are resharded to its answer."""
    log, mesh = [], mesh_of(d=4, e=2)
    f = jax.jit(lambda x: scaled_rows(log)(x + 1) * 3)
    y = f(jax.device_put(X, shard(mesh, *spec)))
    assert [NamedSharding(mesh, given[0]).is_equivalent_to(NamedSharding(mesh, spec), 2) for given in log] == [True]
    assert y.sharding.is_equivalent_to(NamedSharding(mesh, spec), 2)
    assert_same(y, on_cpu(lambda x: jax.nn.softmax(x + 1, axis=-1) * 3, X), 1e-6)


def test_summed_dimension():
    log, mesh = [], mesh_of(d=4, e=2)
    f = jax.jit(product(log))
    y = f(jax.device_put(X, shard(mesh, "d", "e")), jax.device_put(Y, shard(mesh, "e", None)))
    assert log == ["e"]
    assert_same(y, on_cpu(jnp.matmul, X, Y), 1e-6)
    assert "all-reduce" in f.lower(jax.device_put(X, shard(mesh, "d", "e")), jax.device_put(Y, shard(mesh, "e", None))
                                   ).compile().as_text()


def test_several_results():
    log, mesh = [], mesh_of(d=8)
    x = jax.device_put(X, shard(mesh, "d"))
    y, rest = jax.jit(two_results(log))(x, x)
    assert log and y.sharding.is_equivalent_to(NamedSharding(mesh, P("d")), 2)
    assert rest["sum"].sharding.is_equivalent_to(NamedSharding(mesh, P("d")), 1)
    assert_same((y, rest["sum"]), on_cpu(lambda x: (x * 3, jnp.sum(x, axis=1)), X), 1e-6)


def test_inside_of_a_scan():
    log, mesh = [], mesh_of(d=8)
    rows = scaled_rows(log)
    f = lambda rows, x: jax.lax.scan(lambda carry, _: (rows(carry) + x, jnp.sum(carry)), x, None, length=3)
    theirs = on_cpu(functools.partial(f, functools.partial(jax.nn.softmax, axis=-1)), X)
    assert_same(jax.jit(functools.partial(f, rows))(jax.device_put(X, shard(mesh, "d"))), theirs, 1e-6)
    assert log


def test_gradient():
    """A derivative of the user's, itself partitioned, and two uses in one program."""
    log, mesh = [], mesh_of(d=4, e=2)
    multiply = product(log)

    @jax.custom_vjp
    def f(x, y):
        return multiply(x, y)

    f.defvjp(lambda x, y: (multiply(x, y), (x, y)), lambda kept, g: (multiply(g, kept[1].T), multiply(kept[0].T, g)))
    loss = lambda product, x, y: jnp.sum(jnp.tanh(product(x, y)))
    x, y = jax.device_put(X, shard(mesh, "d", None)), jax.device_put(Y, shard(mesh, None, "e"))
    ours = jax.jit(jax.value_and_grad(functools.partial(loss, f), argnums=(0, 1)))(x, y)
    assert_same(ours, on_cpu(jax.value_and_grad(functools.partial(loss, jnp.matmul), argnums=(0, 1)), X, Y), 1e-5)
    assert len(log) == 3


def test_vmap_and_static_arguments():
    log, mesh = [], mesh_of(d=8)

    @functools.partial(custom_partitioning, static_argnums=(1,))
    def scale(x, factor):
        return x * factor

    def partition(factor, mesh, arguments, result):
        log.append(factor)
        return mesh, lambda x: x * factor, result.sharding, shardings(arguments)

    scale.def_partition(partition, sharding_rule="... -> ...")
    x = jax.device_put(X, shard(mesh, "d"))
    assert_same(jax.jit(lambda x: scale(x, 3.0) + scale(x, 4.0))(x), X * 7, 1e-6)
    assert sorted(log) == [3.0, 4.0]


def test_without_shardy():
    """The other partitioner of JAX has no rules: propagation asks infer_sharding_from_operands."""
    log, mesh = [], mesh_of(d=4, e=2)
    with jax._src.config.use_shardy_partitioner(False):
        y = jax.jit(lambda x: scaled_rows(log)(x) * 2)(jax.device_put(X, shard(mesh, "d", "e")))
    assert log and y.sharding.is_equivalent_to(NamedSharding(mesh, P("d")), 2)
    assert_same(y, on_cpu(lambda x: jax.nn.softmax(x, axis=-1) * 2, X), 1e-6)


def test_what_the_functions_raise_is_told():
    mesh = mesh_of(d=8)

    @custom_partitioning
    def f(x):
        return x

    def partition(mesh, arguments, result):
        raise ValueError("no cut for this one")

    f.def_partition(partition, sharding_rule="i j -> i j")
    with pytest.raises(jax.errors.JaxRuntimeError, match="no cut for this one") as raised:
        jax.jit(f)(jax.device_put(X, shard(mesh, "d")))
    assert "test_custom_partitioning.py" in str(raised.value)


def test_a_program_of_other_shapes_is_refused():
    mesh = mesh_of(d=8)

    @custom_partitioning
    def f(x):
        return x

    f.def_partition(lambda mesh, arguments, result: (mesh, lambda x: x, shard(mesh), (shard(mesh, "d"),)),
                    sharding_rule="i j -> i j")
    with pytest.raises(Exception, match="Mismatch in result shapes"):
        jax.jit(f)(jax.device_put(X, shard(mesh, "d")))


def test_a_serialised_executable_asks_nobody():
    log = []
    function, sharding = scaled_rows(log), NamedSharding(mesh_of(a=4), P("a"))
    executable = jax.jit(function, in_shardings=sharding, out_shardings=sharding).lower(X).compile().runtime_executable()
    asked = len(log)
    # As the compilation cache does it; jax.experimental.serialize_executable would pickle the functions too.
    devices = _jax.DeviceList(tuple(sharding.mesh.devices.flat))
    again = executable.client.deserialize_executable(executable.serialize(), devices, None)
    parts = again.execute_sharded([jax.device_put(X, sharding)]).disassemble_into_single_device_arrays()[0]
    assert_same(np.concatenate([np.asarray(part) for part in parts]), np.asarray(on_cpu(lambda x: jax.nn.softmax(x, axis=-1), X)), 1e-6)
    assert len(log) == asked
