# SPDX-License-Identifier: Apache-2.0
"""A diffusion-style U-Net: noise prediction trained data-parallel, then images drawn by a loop of denoising steps."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

from support import assert_same, mesh_of, on_cpu, shard, train, train_on_cpu

STEPS = 20
KEPT = jnp.cumprod(1 - jnp.linspace(1e-3, 0.2, STEPS))  # of the image's variance, after so many steps


class Residual(nn.Module):
    channels: int

    @nn.compact
    def __call__(self, x, time):
        y = nn.Conv(self.channels, (3, 3))(nn.silu(nn.GroupNorm(4)(x)))
        y = y + nn.Dense(self.channels)(nn.silu(time))[:, None, None]
        y = nn.Conv(self.channels, (3, 3))(nn.silu(nn.GroupNorm(4)(y)))
        return y + (x if x.shape == y.shape else nn.Conv(self.channels, (1, 1))(x))


class Attention(nn.Module):
    @nn.compact
    def __call__(self, x):
        batch, height, width, channels = x.shape
        y = nn.GroupNorm(4)(x).reshape(batch, height * width, channels)
        return x + nn.MultiHeadDotProductAttention(2, use_bias=False)(y).reshape(x.shape)


class UNet(nn.Module):
    @nn.compact
    def __call__(self, x, step):
        angles = step[:, None] * jnp.exp(-jnp.arange(8) / 2.0)
        time = nn.Dense(32)(jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], -1))
        x = nn.Conv(8, (3, 3))(x)
        skips = []
        for channels in (8, 16):
            x = Residual(channels)(x, time)
            skips.append(x)
            x = nn.Conv(channels, (3, 3), strides=2)(x)
        x = Residual(16)(Attention()(Residual(16)(x, time)), time)
        for channels in (16, 8):
            x = jax.image.resize(x, (x.shape[0], 2 * x.shape[1], 2 * x.shape[2], x.shape[3]), "nearest")
            x = Residual(channels)(jnp.concatenate([x, skips.pop()], -1), time)
        x = nn.ConvTranspose(8, (3, 3))(x)
        return nn.Conv(3, (3, 3))(nn.silu(nn.GroupNorm(4)(x)))


MODEL, OPTIMISER = UNet(), optax.adam(2e-3)


def step(state, batch):
    def loss_of(parameters):
        when, noise = jax.random.split(jax.random.wrap_key_data(batch["key"]))
        steps = jax.random.randint(when, batch["x"].shape[:1], 0, STEPS)
        noise = jax.random.normal(noise, batch["x"].shape)
        kept = KEPT[steps][:, None, None, None]
        seen = jnp.sqrt(kept) * batch["x"] + jnp.sqrt(1 - kept) * noise
        return jnp.mean((MODEL.apply(parameters, seen, steps.astype(jnp.float32)) - noise) ** 2)

    parameters, moments, average = state
    loss, gradient = jax.value_and_grad(loss_of)(parameters)
    updates, moments = OPTIMISER.update(gradient, moments)
    parameters = optax.apply_updates(parameters, updates)
    return (parameters, moments, optax.incremental_update(parameters, average, 0.1)), loss


def draw(parameters, x):
    def denoise(i, x):
        at = STEPS - 1 - i
        noise = MODEL.apply(parameters, x, jnp.full(x.shape[:1], at, jnp.float32))
        image = (x - jnp.sqrt(1 - KEPT[at]) * noise) / jnp.sqrt(KEPT[at])
        before = jnp.where(at > 0, KEPT[at - 1], 1.0)
        return jnp.sqrt(before) * jnp.clip(image, -2, 2) + jnp.sqrt(1 - before) * noise

    return jax.lax.fori_loop(0, STEPS, denoise, x)


def first_state():
    parameters = jax.device_get(MODEL.init(jax.random.key(5), jnp.zeros((1, 8, 8, 3)), jnp.zeros(1)))
    return parameters, OPTIMISER.init(parameters), parameters


def test_training_equals_cpu():
    random = np.random.default_rng(6)
    data = [{"x": random.normal(size=(8, 8, 8, 3)).astype(np.float32), "key": np.array([0, i], np.uint32)}
            for i in range(3)]
    oracle = train_on_cpu(step, first_state(), data)
    mesh = mesh_of(batch=8)
    placed = [{"x": jax.device_put(d["x"], shard(mesh, "batch")), "key": jax.device_put(d["key"], shard(mesh))}
              for d in data]
    ours = train(step, first_state(), placed, lambda tree: jax.device_put(tree, shard(mesh)))
    assert_same(ours[1], oracle[1], 1e-5)
    # Adam divides small gradients by their own size, so that their rounding shows in the weights.
    assert_same(ours[0], oracle[0], 5e-3)


def test_drawing_equals_cpu():
    parameters, noise = first_state()[0], np.random.default_rng(7).normal(size=(8, 8, 8, 3)).astype(np.float32)
    mesh = mesh_of(batch=8)
    ours = jax.jit(draw)(jax.device_put(parameters, shard(mesh)), jax.device_put(noise, shard(mesh, "batch")))
    assert_same(jax.device_get(ours), on_cpu(draw, parameters, noise), 1e-4)
