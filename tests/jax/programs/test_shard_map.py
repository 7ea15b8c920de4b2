# SPDX-License-Identifier: Apache-2.0
"""Programs that name their collectives: experts after an all-to-all, a pipeline of permutes, attention around a ring."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec as P

from support import assert_same, mesh_of, on_cpu, shard

MESH = mesh_of(x=8)


def sharded(**specs):
    return functools.partial(jax.shard_map, mesh=MESH, **specs)


def arrays(seed, *shapes):
    random = np.random.default_rng(seed)
    return [random.normal(size=shape).astype(np.float32) for shape in shapes]


def test_experts_behind_all_to_all():
    """Eight experts, one a device: tokens go to the expert that likes them best, as far as it has room."""
    tokens, router, first, second = arrays(12, (64, 16), (16, 8), (8, 16, 32), (8, 32, 16))
    room = 4

    def places(tokens, router):
        gates = jax.nn.softmax(tokens @ router)
        expert = jnp.argmax(gates, -1)
        chosen = jax.nn.one_hot(expert, 8, dtype=jnp.int32)
        place = (jnp.cumsum(chosen, 0) - 1)[jnp.arange(len(tokens)), expert]
        return expert, jnp.where(place < room, place, room), jnp.max(gates, -1)

    def layer(tokens, router, first, second):
        expert, place, gate = places(tokens, router)
        sent = jnp.zeros((8, room, 16)).at[expert, place].set(tokens, mode="drop")
        received = jax.lax.all_to_all(sent, "x", 0, 0)
        answers = jax.lax.all_to_all(jax.nn.relu(received @ first[0]) @ second[0], "x", 0, 0)
        return gate[:, None] * answers.at[expert, place].get(mode="fill", fill_value=0)

    def plain(tokens, router, first, second):
        def part(tokens):
            expert, place, gate = places(tokens, router)
            answers = jnp.einsum("tf,tfe->te", jax.nn.relu(jnp.einsum("te,tef->tf", tokens, first[expert])),
                                 second[expert])
            return jnp.where((place < room)[:, None], gate[:, None] * answers, 0)
        return jax.vmap(part)(tokens.reshape(8, 8, 16)).reshape(tokens.shape)

    ours = sharded(in_specs=(P("x"), P(), P("x"), P("x")), out_specs=P("x"))(layer)
    total = lambda f: lambda *a: jnp.sum(jnp.sin(f(*a)))
    grads = tuple(range(4))
    arguments = tokens, router, first, second
    assert_same(jax.device_get(jax.jit(ours)(*arguments)), on_cpu(plain, *arguments), 1e-5)
    assert_same(jax.device_get(jax.jit(jax.grad(total(ours), grads))(*arguments)),
                on_cpu(jax.grad(total(plain), grads), *arguments), 1e-5)


def test_pipeline_of_permutes():
    """Eight stages, one a device; micro-batches move on by a permute every tick. Gradients run it backwards."""
    weights, batches = arrays(13, (8, 12, 12), (16, 4, 12))
    weights /= np.sqrt(12, dtype=np.float32)
    forward = [(i, i + 1) for i in range(7)]

    def pipeline(weights, batches):
        stage = jax.lax.axis_index("x")

        def tick(held, t):
            fed = jnp.where(stage == 0, batches[jnp.minimum(t, 15)], held)
            done = jnp.tanh(fed @ weights[0])
            return jax.lax.ppermute(done, "x", forward), done

        start = jax.lax.pcast(jnp.zeros((4, 12)), ("x",), to="varying")
        _, done = jax.lax.scan(tick, start, jnp.arange(16 + 7))
        return jax.lax.psum(jnp.where(stage == 7, done[7:], 0), "x")

    def plain(weights, batches):
        return jax.lax.scan(lambda x, w: (jnp.tanh(x @ w), None), batches, weights)[0]

    ours = sharded(in_specs=(P("x"), P()), out_specs=P())(pipeline)
    assert_same(jax.device_get(jax.jit(ours)(weights, batches)), on_cpu(plain, weights, batches), 1e-5)
    loss = lambda f: lambda w, b: jnp.sum(f(w, b) ** 2)
    assert_same(jax.device_get(jax.jit(jax.grad(loss(ours)))(weights, batches)),
                on_cpu(jax.grad(loss(plain)), weights, batches), 1e-4)


def test_attention_around_a_ring():
    """Each device keeps its queries while keys and values go round; the softmax is put together as they come."""
    query, key, value = arrays(14, *[(2, 64, 8)] * 3)
    around = [(i, (i + 1) % 8) for i in range(8)]

    def ring(query, key, value):
        def turn(carry, _):
            key, value, most, total, mixed = carry
            scores = jnp.einsum("bqd,bkd->bqk", query, key)
            higher = jnp.maximum(most, scores.max(-1))
            part, old = jnp.exp(scores - higher[..., None]), jnp.exp(most - higher)
            mixed = mixed * old[..., None] + jnp.einsum("bqk,bkd->bqd", part, value)
            passed = [jax.lax.ppermute(x, "x", around) for x in (key, value)]
            return (*passed, higher, total * old + part.sum(-1), mixed), None

        start = (key, value, jnp.full_like(query[..., 0], -jnp.inf), jnp.zeros_like(query[..., 0]), jnp.zeros_like(query))
        _, _, _, total, mixed = jax.lax.scan(turn, start, length=8)[0]
        return mixed / total[..., None]

    plain = lambda q, k, v: jax.nn.softmax(jnp.einsum("bqd,bkd->bqk", q, k)) @ v
    ours = sharded(in_specs=P(None, "x"), out_specs=P(None, "x"))(ring)
    placed = jax.device_put((query, key, value), shard(MESH, None, "x"))
    assert_same(jax.device_get(jax.jit(ours)(*placed)), on_cpu(plain, query, key, value), 1e-5)


def test_scattered_sums_and_gathered_parts():
    """Data-parallel gradients by psum_scatter, an optimiser step on each device's part, weights by all_gather."""
    weight, x, y = arrays(15, (16, 24), (32, 16), (32, 24))
    loss = lambda w, x, y: jnp.mean((jnp.tanh(x @ w) - y) ** 2)

    def step(part, x, y):
        whole = jax.lax.all_gather(part, "x", tiled=True)
        gradient = jax.lax.psum_scatter(jax.grad(loss)(whole, x, y), "x", tiled=True) / 8
        return part - 0.1 * gradient

    ours = sharded(in_specs=P("x"), out_specs=P("x"))(step)
    placed = jax.device_put((weight, x, y), shard(MESH, "x"))
    assert_same(jax.device_get(jax.jit(ours)(*placed)),
                on_cpu(lambda w, x, y: w - 0.1 * jax.grad(loss)(w, x, y), weight, x, y), 1e-5)
