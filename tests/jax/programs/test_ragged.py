# SPDX-License-Identifier: Apache-2.0
"""Products and collectives of groups whose sizes only the arguments say."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

from support import assert_same, mesh_of, on_cpu

ROWS, INNER, COLUMNS, GROUPS = 24, 16, 10, 4
SIZES = {"even": (6, 6, 6, 6), "one is empty": (10, 0, 13, 1), "all in one": (0, 24, 0, 0), "rows are left": (3, 5, 2, 4)}


def inputs(dtype, sizes):
    random = np.random.default_rng(3)
    lhs = random.normal(size=(ROWS, INNER)).astype(dtype)
    rhs = random.normal(size=(GROUPS, INNER, COLUMNS)).astype(dtype)
    return lhs, rhs, np.array(sizes, np.int32)


@pytest.mark.parametrize("dtype", (np.float32, jnp.bfloat16))
@pytest.mark.parametrize("precision", (None, "highest"))
@pytest.mark.parametrize("sizes", SIZES)
def test_ragged_products_equal_cpu(dtype, precision, sizes):
    """Group sizes that do not fill the rows leave zeros after them."""
    program = lambda *a: jax.lax.ragged_dot(*a, precision=precision, preferred_element_type=np.float32)
    arguments = inputs(dtype, SIZES[sizes])
    assert_same(jax.device_get(jax.jit(program)(*arguments)), on_cpu(program, *arguments), 1e-5)


@pytest.mark.parametrize("sizes", SIZES)
def test_their_gradients_equal_cpu(sizes):
    lhs, rhs, counts = inputs(np.float32, SIZES[sizes])
    program = jax.grad(lambda a, b: jnp.sum(jnp.sin(jax.lax.ragged_dot(a, b, counts))), (0, 1))
    assert_same(jax.device_get(jax.jit(program)(lhs, rhs)), on_cpu(program, lhs, rhs), 1e-5)


def test_vmapped_products_have_sizes_for_each_batch():
    lhs, rhs, _ = inputs(np.float32, SIZES["even"])
    counts = np.array(list(SIZES.values()), np.int32)
    program = lambda a, b: jax.vmap(jax.lax.ragged_dot)(a, b, counts)
    arguments = np.stack([lhs * k for k in (1, 2, 3, 4)]), np.stack([rhs + k for k in range(4)])
    assert_same(jax.device_get(jax.jit(program)(*arguments)), on_cpu(program, *arguments), 1e-5)
    gradient = jax.grad(lambda *a: jnp.sum(jnp.sin(program(*a))), (0, 1))
    assert_same(jax.device_get(jax.jit(gradient)(*arguments)), on_cpu(gradient, *arguments), 1e-5)


def test_experts_of_uneven_load():
    """A layer of experts: tokens sorted by their expert, one ragged product each way, weighted and put back."""
    tokens, gate, first, second = (np.random.default_rng(5).normal(size=s).astype(np.float32) / 3
                                   for s in ((40, 12), (12, 6), (6, 12, 20), (6, 20, 12)))

    def layer(tokens, gate, first, second):
        weights, experts = jax.lax.top_k(jax.nn.softmax(tokens @ gate), 2)
        order = jnp.argsort(experts.ravel(), stable=True)
        counts = jnp.bincount(experts.ravel(), length=6).astype(jnp.int32)
        rows = jnp.repeat(tokens, 2, axis=0)[order]
        hidden = jax.nn.gelu(jax.lax.ragged_dot(rows, first, counts))
        answers = jax.lax.ragged_dot(hidden, second, counts) * weights.ravel()[order][:, None]
        return jnp.zeros_like(rows).at[order].set(answers).reshape(40, 2, 12).sum(1)

    arguments = tokens, gate, first, second
    assert_same(jax.device_get(jax.jit(layer)(*arguments)), on_cpu(layer, *arguments), 1e-5)
    gradient = jax.grad(lambda *a: jnp.sum(layer(*a) ** 2), (0, 1, 2, 3))
    assert_same(jax.device_get(jax.jit(gradient)(*arguments)), on_cpu(gradient, *arguments), 1e-5)


def test_ragged_all_to_all():
    """Each device sends to every other as many rows as it says, and finds what came in the order of the senders."""
    mesh, random = mesh_of(x=8), np.random.default_rng(7)
    counts = random.integers(0, 4, (8, 8)).astype(np.int32)  # [from, to]
    room = 40
    sent = random.normal(size=(8, room, 3)).astype(np.float32)
    starts = np.cumsum(counts, 1, dtype=np.int32) - counts
    landings = np.cumsum(counts, 0, dtype=np.int32) - counts  # where a sender's rows begin at each receiver

    def exchange(rows, sizes, begins, places, received):
        out = jnp.zeros((room, 3), np.float32)
        return jax.lax.ragged_all_to_all(rows[0], out, begins[0], sizes[0], places[0], received[0], axis_name="x")[None]

    spec = P("x")
    program = jax.jit(jax.shard_map(exchange, mesh=mesh, in_specs=(spec,) * 5, out_specs=spec))
    got = jax.device_get(program(sent, counts, starts, landings, np.ascontiguousarray(counts.T)))
    for to in range(8):
        rows = np.concatenate([sent[start, starts[start, to]:][:counts[start, to]] for start in range(8)])
        np.testing.assert_array_equal(got[to, :len(rows)], rows)
        assert not got[to, len(rows):].any()
