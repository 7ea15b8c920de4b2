# SPDX-License-Identifier: Apache-2.0
"""A small transformer without a framework, its weights cut over both axes of a 4x2 mesh (FSDP and tensor parallelism)."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import NamedSharding, PartitionSpec as P

from support import DEVICES, assert_same, mesh_of, train, train_on_cpu

LAYERS, WIDTH, HEADS, HIDDEN, VOCABULARY, LENGTH = 2, 32, 4, 64, 128, 16
SPECS = {"embedding": P("model", "data"), "query": P("data", "model"), "key": P("data", "model"),
         "value": P("data", "model"), "out": P("model", "data"), "up": P("data", "model"), "down": P("model", "data"),
         "scale": P(None)}
OPTIMISER = optax.adamw(3e-3)


def first_parameters():
    random = np.random.default_rng(3)
    matrix = lambda *shape: (random.normal(size=shape) / np.sqrt(shape[0])).astype(np.float32)
    layer = lambda: {"query": matrix(WIDTH, WIDTH), "key": matrix(WIDTH, WIDTH), "value": matrix(WIDTH, WIDTH),
                     "out": matrix(WIDTH, WIDTH), "up": matrix(WIDTH, HIDDEN), "down": matrix(HIDDEN, WIDTH),
                     "scale": np.ones((2, WIDTH), np.float32)}
    return {"embedding": matrix(VOCABULARY, WIDTH), "layers": [layer() for _ in range(LAYERS)]}


def normalise(x, scale):
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * scale


def attention(layer, x):
    heads = lambda w: (x @ w).reshape(*x.shape[:2], HEADS, WIDTH // HEADS)
    scores = jnp.einsum("bqhd,bkhd->bhqk", heads(layer["query"]), heads(layer["key"])) / np.sqrt(WIDTH // HEADS)
    scores = jnp.where(jnp.tril(jnp.ones((LENGTH, LENGTH), bool)), scores, -1e9)
    mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), heads(layer["value"]))
    return mixed.reshape(x.shape) @ layer["out"]


def loss_of(parameters, tokens, constrain):
    x = constrain(parameters["embedding"][tokens[:, :-1]])
    for layer in parameters["layers"]:
        x = constrain(x + attention(layer, normalise(x, layer["scale"][0])))
        hidden = jax.nn.silu(normalise(x, layer["scale"][1]) @ layer["up"])
        x = constrain(x + hidden @ layer["down"])
    logits = x @ parameters["embedding"].T
    return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]).mean()


def step_with(constrain):
    def step(state, tokens):
        parameters, moments = state
        loss, gradient = jax.value_and_grad(loss_of)(parameters, tokens, constrain)
        updates, moments = OPTIMISER.update(gradient, moments, parameters)
        return (optax.apply_updates(parameters, updates), moments), loss

    return step


def spec_of(path, leaf):
    names = [key.key for key in path if isinstance(key, jax.tree_util.DictKey)]
    return SPECS[names[-1]] if names and names[-1] in SPECS and np.ndim(leaf) == 2 else P()


def test_fsdp_and_tensor_parallel_training_equals_cpu():
    random = np.random.default_rng(4)
    tokens = [random.integers(0, VOCABULARY, (8, LENGTH + 1)) for _ in range(4)]
    parameters = first_parameters()
    state = (parameters, OPTIMISER.init(parameters))
    oracle = train_on_cpu(step_with(lambda x: x), state, tokens)
    mesh = mesh_of(data=4, model=2)
    place = lambda tree: jax.tree_util.tree_map_with_path(
        lambda path, leaf: jax.device_put(leaf, NamedSharding(mesh, spec_of(path, leaf))), tree)
    constrain = lambda x: jax.lax.with_sharding_constraint(x, NamedSharding(mesh, P("data", None, None)))
    ours = train(step_with(constrain), state, jax.device_put(tokens, NamedSharding(mesh, P("data"))), place)
    assert_same(ours, oracle, 1e-4)


def test_weights_stay_in_parts():
    """The step neither gathers a weight for good nor leaves a device with more than its eighth."""
    mesh = mesh_of(data=4, model=2)
    weight = jax.device_put(first_parameters()["layers"][0]["up"], NamedSharding(mesh, SPECS["up"]))
    assert {s.data.shape for s in weight.addressable_shards} == {(WIDTH // 4, HIDDEN // 2)}
    assert {s.device for s in weight.addressable_shards} == set(DEVICES)
    x = jax.device_put(np.ones((8, WIDTH), np.float32), NamedSharding(mesh, P("data")))
    gradient = jax.jit(jax.grad(lambda w, x: jnp.sum(jnp.tanh(x @ w))), out_shardings=weight.sharding)(weight, x)
    assert gradient.sharding.is_equivalent_to(weight.sharding, 2)


def test_tensor_parallel_block_needs_one_sum_a_half():
    """Column-parallel then row-parallel: one all-reduce for the block, and nothing else, crosses the model axis."""
    mesh = mesh_of(model=8)
    shape = lambda spec, *dims: jax.ShapeDtypeStruct(dims, np.float32, sharding=NamedSharding(mesh, spec))
    compiled = jax.jit(lambda x, up, down: jax.nn.silu(x @ up) @ down, out_shardings=NamedSharding(mesh, P())).lower(
        shape(P(), 16, WIDTH), shape(P(None, "model"), WIDTH, HIDDEN), shape(P("model", None), HIDDEN, WIDTH)).compile()
    text = compiled.as_text()
    assert text.count(" all-reduce(") == 1
    assert " all-gather(" not in text and " all-to-all(" not in text
