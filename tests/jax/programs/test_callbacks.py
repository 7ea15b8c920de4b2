# SPDX-License-Identifier: Apache-2.0
"""Programs that ask the host: values it gives, effects in their order, prints in the order that the caller expects."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import io_callback
from jax.sharding import PartitionSpec as P

from support import DEVICES, assert_same, mesh_of, on_cpu, shard

FLOATS = np.linspace(-2, 2, 24, dtype=np.float32).reshape(8, 3)


def host_sine(x):
    return jax.pure_callback(np.sin, jax.ShapeDtypeStruct(x.shape, x.dtype), x, vmap_method="sequential")


@jax.custom_jvp
def sine(x):
    return host_sine(x)


sine.defjvp(lambda primals, tangents: (sine(*primals), jnp.cos(primals[0]) * tangents[0]))

ASKED = {
    "once": lambda x: host_sine(x) + 1,
    "in a loop": lambda x: jax.lax.fori_loop(0, 5, lambda i, y: host_sine(y) * 0.5 + x, x),
    "in a scan": lambda x: jax.lax.scan(lambda carry, row: (carry + host_sine(row), host_sine(carry)), x[0], x),
    "in a branch": lambda x: jax.lax.cond(x[0, 0] < 0, host_sine, jnp.cos, x),
    "for each row": lambda x: jax.vmap(host_sine)(x),
    "under a gradient": lambda x: jax.grad(lambda y: jnp.sum(sine(y) ** 2))(x),
    "twice in a row": lambda x: host_sine(host_sine(x)),
    "for several types": lambda x: jax.pure_callback(
        lambda a, b: (a.astype(np.int32), (b > 0), a[:0], np.float32(b.sum())),
        (jax.ShapeDtypeStruct((8, 3), np.int32), jax.ShapeDtypeStruct((8, 3), np.bool_),
         jax.ShapeDtypeStruct((0, 3), np.float32), jax.ShapeDtypeStruct((), np.float32)), x, -x),
}


@pytest.mark.parametrize("program", ASKED)
def test_what_the_host_answers_equals_cpu(program):
    assert_same(jax.device_get(jax.jit(ASKED[program])(FLOATS)), on_cpu(ASKED[program], FLOATS), 1e-6)


def test_shards_ask_for_themselves():
    mesh = mesh_of(x=8)
    parts = jax.shard_map(host_sine, mesh=mesh, in_specs=P("x"), out_specs=P("x"))
    assert_same(jax.device_get(jax.jit(parts)(FLOATS)), np.sin(FLOATS), 1e-6)


def test_the_host_is_asked_for_all_of_a_sharded_array():
    placed = jax.device_put(FLOATS, shard(mesh_of(x=8), "x"))
    assert_same(jax.device_get(jax.jit(lambda x: host_sine(x).sum(0))(placed)), np.sin(FLOATS).sum(0), 1e-6)


@pytest.mark.parametrize("device", (0, 5))
def test_ordered_effects_come_in_order(device):
    seen = []

    @jax.jit
    def program(x):
        def body(i, total):
            io_callback(lambda i, y: seen.append((int(i), float(y))), None, i, total, ordered=True)
            return total + x
        return jax.lax.fori_loop(0, 40, body, jnp.float32(0))

    x = jax.device_put(np.float32(0.5), DEVICES[device])
    results = [program(x) for _ in range(3)]
    jax.effects_barrier()
    assert seen == [(i, 0.5 * i) for i in range(40)] * 3
    assert [float(r) for r in results] == [20.0] * 3


def test_prints_stand_before_what_follows(capfd):
    @jax.jit
    def program(x):
        jax.debug.print("first {x}", x=x)
        jax.debug.print("second {y}", y=x * 2, ordered=True)
        return x + 1

    for i in range(20):
        program(np.float32(i))
        jax.effects_barrier()
        print(f"after {i}", flush=True)
    lines = capfd.readouterr().out.split("\n")[:-1]
    assert len(lines) == 60
    for i in range(20):
        assert set(lines[3 * i:3 * i + 2]) == {f"first {float(i)}", f"second {2.0 * i}"}
        assert lines[3 * i + 2] == f"after {i}"


def test_a_print_for_each_shard(capfd):
    mesh = mesh_of(x=8)

    @functools.partial(jax.shard_map, mesh=mesh, in_specs=P("x"), out_specs=P("x"))
    def program(x):
        jax.debug.print("shard {i}", i=jax.lax.axis_index("x"))
        return x * 2

    jax.block_until_ready(jax.jit(program)(FLOATS))
    jax.effects_barrier()
    assert sorted(capfd.readouterr().out.split("\n")[:-1]) == [f"shard {i}" for i in range(8)]


def test_an_error_of_the_host_is_raised_here():
    def refuse(x):
        raise ValueError("the host will not have it")

    program = jax.jit(lambda x: jax.pure_callback(refuse, jax.ShapeDtypeStruct((), np.float32), x))
    with pytest.raises(jax.errors.JaxRuntimeError, match="the host will not have it"):
        jax.block_until_ready(program(np.float32(1)))
    assert float(jax.jit(lambda x: x + 1)(np.float32(1))) == 2, "and the device goes on"


def test_a_callback_may_use_the_device_itself():
    def outer(x):
        return np.asarray(jax.jit(lambda y: y * 3)(np.asarray(x)))

    program = jax.jit(lambda x: jax.pure_callback(outer, jax.ShapeDtypeStruct((8, 3), np.float32), x) + 1)
    assert_same(jax.device_get(program(FLOATS)), FLOATS * 3 + 1, 1e-6)
