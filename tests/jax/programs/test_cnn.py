# SPDX-License-Identifier: Apache-2.0
"""A small convolutional network with batch normalisation: training steps and inference, data-parallel."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from support import assert_same, mesh_of, on_cpu, shard, train, train_on_cpu


class Block(nn.Module):
    channels: int
    strides: int = 1

    @nn.compact
    def __call__(self, x, training):
        norm = lambda: nn.BatchNorm(use_running_average=not training, momentum=0.9)
        y = nn.relu(norm()(nn.Conv(self.channels, (3, 3), strides=self.strides, use_bias=False)(x)))
        y = norm()(nn.Conv(self.channels, (3, 3), use_bias=False)(y))
        if x.shape != y.shape:
            x = nn.Conv(self.channels, (1, 1), strides=self.strides)(x)
        return nn.relu(x + y)


class Cnn(nn.Module):
    @nn.compact
    def __call__(self, x, training=True):
        x = nn.relu(nn.Conv(8, (3, 3), padding="SAME")(x))
        x = nn.max_pool(x, (2, 2), strides=(2, 2))
        x = Block(8)(x, training)
        x = Block(16, strides=2)(x, training)
        x = nn.Conv(16, (3, 3), feature_group_count=4)(x)
        x = nn.avg_pool(x, (2, 2), strides=(1, 1), padding="SAME")
        return nn.Dense(10)(x.mean((1, 2)))


MODEL = Cnn()
OPTIMISER = optax.sgd(0.05, momentum=0.9, nesterov=True)


def step(state, batch):
    def loss_of(parameters):
        logits, changes = MODEL.apply({"params": parameters, "batch_stats": state["statistics"]}, batch["x"],
                                      mutable=["batch_stats"])
        loss = optax.softmax_cross_entropy(logits, optax.smooth_labels(jax.nn.one_hot(batch["y"], 10), 0.1)).mean()
        return loss, changes["batch_stats"]

    (loss, statistics), gradient = jax.value_and_grad(loss_of, has_aux=True)(state["parameters"])
    updates, moments = OPTIMISER.update(gradient, state["moments"])
    return {"parameters": optax.apply_updates(state["parameters"], updates), "statistics": statistics,
            "moments": moments}, loss


def batches():
    random = np.random.default_rng(1)
    return [{"x": random.normal(size=(16, 16, 16, 3)).astype(np.float32), "y": random.integers(0, 10, 16)}
            for _ in range(4)]


def first_state():
    variables = MODEL.init(jax.random.key(2), jnp.zeros((1, 16, 16, 3)))
    return {"parameters": variables["params"], "statistics": variables["batch_stats"],
            "moments": OPTIMISER.init(variables["params"])}


@pytest.mark.parametrize("parts", [1, 8])
def test_training_equals_cpu(parts):
    data, state = batches(), first_state()
    oracle = train_on_cpu(step, state, data)
    mesh = mesh_of(batch=8)
    if parts > 1:
        data = jax.device_put(data, shard(mesh, "batch"))
        ours = train(step, state, data, lambda tree: jax.device_put(tree, shard(mesh)))
    else:
        ours = train(step, state, data)
    assert_same(ours, oracle, 1e-4)


def test_inference_over_space_equals_cpu():
    """Images cut along their height: convolutions and pools exchange boundary rows."""
    state, image = first_state(), batches()[0]["x"]
    mesh = mesh_of(batch=2, height=4)
    variables = {"params": state["parameters"], "batch_stats": state["statistics"]}
    apply = lambda variables, x: MODEL.apply(variables, x, training=False)
    ours = jax.jit(apply)(jax.device_put(variables, shard(mesh)), jax.device_put(image, shard(mesh, "batch", "height")))
    assert_same(jax.device_get(ours), on_cpu(apply, variables, image), 1e-5)
