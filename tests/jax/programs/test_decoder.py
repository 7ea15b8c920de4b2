# SPDX-License-Identifier: Apache-2.0
"""A decoder in the style of maxtext: scan over layers with rematerialisation, logical axes on a data x fsdp x tensor mesh,
rotary embeddings, grouped queries, gated units; trained, and asked for tokens through a cache of keys and values."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import NamedSharding, PartitionSpec as P

from support import CPU, assert_same, mesh_of, on_cpu, train, train_on_cpu

LAYERS, WIDTH, HEADS, GROUPS, HEAD, HIDDEN, VOCABULARY, LENGTH = 3, 32, 4, 2, 8, 64, 96, 16
RULES = (("batch", ("data", "fsdp")), ("embed", "fsdp"), ("heads", "tensor"), ("hidden", "tensor"),
         ("vocabulary", "tensor"), ("layers", None))


def weight(module, name, axes, *shape):
    init = nn.with_logical_partitioning(nn.initializers.variance_scaling(1.0, "fan_in", "truncated_normal"), axes)
    return module.param(name, init, shape)


def normalise(module, name, x):
    scale = module.param(name, nn.with_logical_partitioning(nn.initializers.ones, ("embed",)), x.shape[-1:])
    return x * jax.lax.rsqrt(jnp.mean(jnp.square(x), -1, keepdims=True) + 1e-6) * scale


def rotate(x, positions):
    angles = positions[:, None] / 10000.0 ** (jnp.arange(HEAD // 2) / (HEAD // 2))
    sine, cosine = jnp.sin(angles)[:, None], jnp.cos(angles)[:, None]
    a, b = jnp.split(x, 2, -1)
    return jnp.concatenate([a * cosine - b * sine, b * cosine + a * sine], -1)


class Layer(nn.Module):
    @nn.compact
    def __call__(self, x, positions, cache):
        y = normalise(self, "before_attention", x)
        query = jnp.einsum("bte,ehd->bthd", y, weight(self, "query", ("embed", "heads", None), WIDTH, HEADS, HEAD))
        key = jnp.einsum("bte,ehd->bthd", y, weight(self, "key", ("embed", "heads", None), WIDTH, GROUPS, HEAD))
        value = jnp.einsum("bte,ehd->bthd", y, weight(self, "value", ("embed", "heads", None), WIDTH, GROUPS, HEAD))
        query, key = rotate(query, positions), rotate(key, positions)
        at = jnp.arange(LENGTH)
        if cache is not None:
            key, value = cache = [jax.lax.dynamic_update_slice_in_dim(old, new, positions[0], 1)
                                  for old, new in zip(cache, (key, value))]
        query = query.reshape(*query.shape[:2], GROUPS, HEADS // GROUPS, HEAD)
        scores = jnp.einsum("btgnd,bsgd->bgnts", query, key) / np.sqrt(HEAD)
        scores = jnp.where(at[: key.shape[1]] <= positions[:, None], scores, -1e9)
        mixed = jnp.einsum("bgnts,bsgd->btgnd", jax.nn.softmax(scores), value).reshape(*x.shape[:2], HEADS, HEAD)
        x = x + jnp.einsum("bthd,hde->bte", mixed, weight(self, "out", ("heads", None, "embed"), HEADS, HEAD, WIDTH))
        x = nn.with_logical_constraint(x, ("batch", None, None))
        y = normalise(self, "before_units", x)
        gate, up = (y @ weight(self, name, ("embed", "hidden"), WIDTH, HIDDEN) for name in ("gate", "up"))
        x = x + (jax.nn.silu(gate) * up) @ weight(self, "down", ("hidden", "embed"), HIDDEN, WIDTH)
        return nn.with_logical_constraint(x, ("batch", None, None)), cache


class Decoder(nn.Module):
    @nn.compact
    def __call__(self, tokens, positions, caches=None):
        embedding = self.param("embedding", nn.with_logical_partitioning(nn.initializers.normal(0.1),
                                                                        ("vocabulary", "embed")), (VOCABULARY, WIDTH))
        layers = nn.scan(nn.remat(Layer, prevent_cse=False), variable_axes={"params": 0}, split_rngs={"params": True},
                         in_axes=(nn.broadcast, 0), out_axes=0, length=LAYERS,
                         metadata_params={nn.PARTITION_NAME: "layers"})
        x, caches = layers(name="layers")(embedding[tokens], positions, caches)
        return normalise(self, "last", x) @ embedding.T, caches


MODEL = Decoder()
OPTIMISER = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3, b2=0.95))


def step(state, tokens):
    def loss_of(parameters):
        logits, _ = MODEL.apply(parameters, tokens[:, :-1], jnp.arange(LENGTH))
        return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]).mean()

    parameters, moments = state
    loss, gradient = jax.value_and_grad(loss_of)(parameters)
    updates, moments = OPTIMISER.update(gradient, moments, parameters)
    return (optax.apply_updates(parameters, updates), moments), loss


def first_parameters():
    """Weights on the host and their logical axes."""
    with jax.default_device(CPU):
        boxed = MODEL.init(jax.random.key(8), jnp.zeros((1, LENGTH), int), jnp.arange(LENGTH))
        return jax.device_get(nn.meta.unbox(boxed)), nn.get_partition_spec(boxed)


def test_sharded_training_equals_cpu():
    random = np.random.default_rng(9)
    tokens = [random.integers(0, VOCABULARY, (8, LENGTH + 1)) for _ in range(3)]
    parameters, specs = first_parameters()
    oracle = train_on_cpu(step, (parameters, OPTIMISER.init(parameters)), tokens)
    mesh = mesh_of(data=2, fsdp=2, tensor=2)
    with jax.set_mesh(mesh), nn.logical_axis_rules(RULES):
        placed = jax.device_put(parameters, nn.logical_to_mesh_sharding(specs, mesh, RULES))
        assert placed["params"]["layers"]["gate"].sharding.spec == P(None, "fsdp", "tensor")
        moments = jax.jit(OPTIMISER.init)(placed)
        ours = train(step, (placed, moments), jax.device_put(tokens, NamedSharding(mesh, P(("data", "fsdp")))))
    assert_same(ours[1], oracle[1], 1e-5)
    assert_same(ours[0], oracle[0], 2e-3)


def continue_greedily(parameters, prompt):
    """The prompt in one pass, then token after token, each seeing the cache of the ones before."""
    size = (LAYERS, prompt.shape[0], LENGTH, GROUPS, HEAD)
    caches = [jnp.zeros(size), jnp.zeros(size)]
    logits, caches = MODEL.apply(parameters, prompt, jnp.arange(prompt.shape[1]), caches)

    def next_token(carry, position):
        token, caches = carry
        logits, caches = MODEL.apply(parameters, token[:, None], position[None], caches)
        following = jnp.argmax(logits[:, 0], -1)
        return (following, caches), following

    first = jnp.argmax(logits[:, -1], -1)
    _, rest = jax.lax.scan(next_token, (first, caches), jnp.arange(prompt.shape[1], LENGTH))
    return jnp.concatenate([first[:, None], rest.T], 1)


def test_greedy_tokens_equal_cpu():
    parameters, prompt = first_parameters()[0], np.random.default_rng(10).integers(0, VOCABULARY, (8, 5))
    mesh = mesh_of(data=8)
    ours = jax.jit(continue_greedily)(jax.device_put(parameters, NamedSharding(mesh, P())),
                                      jax.device_put(prompt, NamedSharding(mesh, P("data"))))
    np.testing.assert_array_equal(jax.device_get(ours), on_cpu(continue_greedily, parameters, prompt))


def test_cache_equals_one_pass():
    parameters, tokens = first_parameters()[0], np.random.default_rng(11).integers(0, VOCABULARY, (2, LENGTH))

    def by_one(parameters, tokens):
        caches = [jnp.zeros((LAYERS, 2, LENGTH, GROUPS, HEAD))] * 2
        def each(caches, item):
            logits, caches = MODEL.apply(parameters, item[0][:, None], item[1][None], caches)
            return caches, logits[:, 0]
        return jax.lax.scan(each, caches, (tokens.T, jnp.arange(LENGTH)))[1].swapaxes(0, 1)

    whole = jax.jit(lambda p, t: MODEL.apply(p, t, jnp.arange(LENGTH))[0])(parameters, tokens)
    assert_same(jax.device_get(jax.jit(by_one)(parameters, tokens)), jax.device_get(whole), 1e-5)
