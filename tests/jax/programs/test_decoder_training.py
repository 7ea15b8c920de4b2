# SPDX-License-Identifier: Apache-2.0
"""The twin of examples/decoder_training.c: the same decoder, weights and batches in JAX give the losses that the program in C
prints, sharded on eight devices there, on XLA:CPU and sharded on the plugin here."""

import os
import pathlib
import re
import subprocess

import jax
import jax.numpy as jnp
import numpy as np
import optax

from support import mesh_of, shard, train, train_on_cpu

BATCH, LENGTH, VOCABULARY, WIDTH, HEADS, GROUPS, FEATURES, HIDDEN, LAYERS, STEPS = 16, 16, 64, 32, 4, 2, 8, 64, 2, 5
LAYER = [((WIDTH,), ()), ((WIDTH, HEADS, FEATURES), ("data", "model")), ((WIDTH, GROUPS, FEATURES), ("data", "model")),
         ((WIDTH, GROUPS, FEATURES), ("data", "model")), ((HEADS, FEATURES, WIDTH), ("model", None, "data")), ((WIDTH,), ()),
         ((WIDTH, HIDDEN), ("data", "model")), ((WIDTH, HIDDEN), ("data", "model")), ((HIDDEN, WIDTH), ("model", "data"))]
WEIGHTS = [((VOCABULARY, WIDTH), ("model", "data")), *LAYER * LAYERS, ((WIDTH,), ())]
OPTIMISER = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(3e-3))


def initial_weights():
    keys = jax.random.split(jax.random.PRNGKey(0), len(WEIGHTS))
    weights = []
    for key, (shape, spec) in zip(keys, WEIGHTS):
        split = 2 if spec[:1] == ("model",) and len(shape) == 3 else 1  # dimensions that are inputs
        flat = (int(np.prod(shape[:split])), int(np.prod(shape[split:])))
        weights.append(jnp.ones(shape) if len(shape) == 1 else jax.nn.initializers.lecun_normal()(key, flat).reshape(shape))
    return weights


def rms_norm(x, scale):
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * scale


def rotary(x):
    half = x.shape[-1] // 2
    angles = jnp.arange(x.shape[1], dtype=jnp.float32)[:, None] * 10000 ** (jnp.arange(half, dtype=jnp.float32) * (-2 / x.shape[-1]))
    cos, sin = jnp.cos(angles)[None, :, None], jnp.sin(angles)[None, :, None]
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def layer(x, scale, wq, wk, wv, wo, hidden_scale, gate, up, down):
    y = rms_norm(x, scale)
    q, k, v = (jnp.tensordot(y, w, 1) for w in (wq, wk, wv))
    y = jax.nn.dot_product_attention(rotary(q), rotary(k), v, is_causal=True)
    x = x + jnp.einsum("bthf,hfd->btd", y, wo)
    y = rms_norm(x, hidden_scale)
    return x + (jax.nn.silu(y @ gate) * (y @ up)) @ down


def loss_of(weights, tokens):
    x = weights[0][tokens[:, :-1]]
    for i in range(LAYERS):
        x = layer(x, *weights[1 + i * len(LAYER):1 + (i + 1) * len(LAYER)])
    logits = rms_norm(x, weights[-1]) @ weights[0].T
    return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]).mean()


def step(state, tokens):
    weights, moments = state
    loss, gradients = jax.value_and_grad(loss_of)(weights, tokens)
    updates, moments = OPTIMISER.update(gradients, moments, weights)
    return (optax.apply_updates(weights, updates), moments), loss


def batches():
    sequence, position = np.arange(BATCH)[:, None], np.arange(LENGTH + 1)[None, :]
    return [jnp.asarray((7 * sequence + 13 * s + (1 + sequence % 4) * position) % VOCABULARY, jnp.int32) for s in range(STEPS)]


def losses_in_c():
    program = pathlib.Path(os.environ["MESHLO_PLUGIN"]).parent / "bin" / "decoder_training"
    environment = {**os.environ, "MESHLO_NUMERICS": "exact"}
    output = subprocess.run([program, str(STEPS)], env=environment, capture_output=True, text=True, check=True).stdout
    return [float(loss) for loss in re.findall(r"step \d+: loss ([0-9.]+)", output)]


def shards_in_c():
    """Of the embedding, the last scale and the weights of a layer, as the table of the program in C has them."""
    source = (pathlib.Path(__file__).parents[3] / "examples" / "decoder_training.c").read_text(encoding="utf-8")
    return re.findall(r'{"\w+", \d, {[\w, ]+}, "([\w,-]+)", \d}', source)


def test_weights_are_sharded_as_in_c():
    named = [",".join(axis or "-" for axis in spec + (None,) * (len(shape) - len(spec))) for shape, spec in [WEIGHTS[0], WEIGHTS[-1], *LAYER]]
    assert shards_in_c() == named
    mesh = mesh_of(data=4, model=2)
    weights = [jax.device_put(w, shard(mesh, *spec)) for w, (_, spec) in zip(initial_weights(), WEIGHTS)]
    (after, _), _ = jax.jit(step)((weights, OPTIMISER.init(weights)), jax.device_put(batches()[0], shard(mesh, "data")))
    for old, new in zip(weights, after):
        assert new.sharding.is_equivalent_to(old.sharding, old.ndim), (old.sharding, new.sharding)


def test_losses_are_those_of_the_program_in_c():
    ours = losses_in_c()
    _, on_cpu = train_on_cpu(step, (initial_weights(), OPTIMISER.init(initial_weights())), batches())
    np.testing.assert_allclose(ours, on_cpu, rtol=1e-5)
    mesh = mesh_of(data=4, model=2)
    weights = [jax.device_put(w, shard(mesh, *spec)) for w, (_, spec) in zip(initial_weights(), WEIGHTS)]
    placed = [jax.device_put(tokens, shard(mesh, "data")) for tokens in batches()]
    _, sharded = train(step, (weights, OPTIMISER.init(weights)), placed)
    np.testing.assert_allclose(sharded, on_cpu, rtol=1e-5)
