# SPDX-License-Identifier: Apache-2.0
"""A multi-layer perceptron of flax (nnx and linen) trained with optax, on one device and data-parallel on eight."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

from support import CPU, assert_same, mesh_of, shard, train, train_on_cpu


class Mlp(nn.Module):
    @nn.compact
    def __call__(self, x):
        for width in (64, 48):
            x = nn.gelu(nn.Dense(width)(x))
        return nn.Dense(10)(x)


MODEL = Mlp()
OPTIMISER = optax.chain(optax.clip_by_global_norm(1.0),
                        optax.adamw(optax.warmup_cosine_decay_schedule(0.0, 1e-2, 2, 10), weight_decay=1e-2))


def step(state, batch):
    def loss_of(parameters):
        logits = MODEL.apply(parameters, batch["x"])
        return optax.softmax_cross_entropy_with_integer_labels(logits, batch["y"]).mean()

    parameters, moments = state
    loss, gradient = jax.value_and_grad(loss_of)(parameters)
    updates, moments = OPTIMISER.update(gradient, moments, parameters)
    return (optax.apply_updates(parameters, updates), moments), loss


def batches(count):
    random = np.random.default_rng(0)
    return [{"x": random.normal(size=(64, 32)).astype(np.float32), "y": random.integers(0, 10, 64)}
            for _ in range(count)]


def first_state():
    parameters = MODEL.init(jax.random.key(0), jnp.zeros((1, 32)))
    return parameters, OPTIMISER.init(parameters)


@pytest.mark.parametrize("parts", [1, 8])
def test_training_equals_cpu(parts):
    data, state = batches(6), first_state()
    oracle = train_on_cpu(step, state, data)
    if parts > 1:
        mesh = mesh_of(batch=parts)
        data = jax.device_put(data, shard(mesh, "batch"))
        ours = train(step, state, data, lambda tree: jax.device_put(tree, shard(mesh)))
    else:
        ours = train(step, state, data)
    assert_same(ours, oracle, 2e-5)
    assert oracle[1][-1] < oracle[1][0]


def test_initial_parameters_equal_cpu():
    ours = jax.device_get(first_state())
    with jax.default_device(CPU):
        assert_same(ours, jax.device_get(first_state()), 1e-6)


def test_rounded_products_train_too():
    """At the default precision the losses follow the exact ones as closely as bf16 operands allow, not more closely."""
    oracle = train_on_cpu(step, first_state(), batches(6))[1]
    with jax.default_matmul_precision("default"):
        losses = train(step, first_state(), batches(6))[1]
    assert_same(losses, oracle, 2e-2)
    assert np.abs(losses - oracle).max() > 1e-6


class NnxMlp(nnx.Module):
    def __init__(self, rngs):
        self.first = nnx.Linear(32, 64, rngs=rngs)
        self.norm = nnx.LayerNorm(64, rngs=rngs)
        self.dropout = nnx.Dropout(0.1, rngs=rngs)
        self.second = nnx.Linear(64, 10, rngs=rngs)

    def __call__(self, x):
        return self.second(self.dropout(nnx.relu(self.norm(self.first(x)))))


def nnx_losses():
    model = NnxMlp(nnx.Rngs(params=0, dropout=1))
    optimiser = nnx.Optimizer(model, optax.sgd(0.1, momentum=0.9), wrt=nnx.Param)

    @nnx.jit
    def nnx_step(model, optimiser, batch):
        def loss_of(model):
            return optax.softmax_cross_entropy_with_integer_labels(model(batch["x"]), batch["y"]).mean()

        loss, gradient = nnx.value_and_grad(loss_of)(model)
        optimiser.update(model, gradient)
        return loss

    losses = np.array([float(nnx_step(model, optimiser, batch)) for batch in batches(5)])
    return losses, jax.device_get(nnx.to_pure_dict(nnx.state(model, nnx.Param)))


def test_nnx_with_dropout_equals_cpu():
    ours = nnx_losses()
    with jax.default_device(CPU):
        theirs = nnx_losses()
    assert_same(ours, theirs, 2e-5)
