# SPDX-License-Identifier: Apache-2.0
"""usage: tests/nn/make_golden.py > tests/nn/golden.def     Asks jax 0.10.2, flax 0.12.8 and optax 0.2.8 for the numbers of test_nn.c.

Argument k of a case has the elements 1.5 sin(0.7 i + k), i counting row by row. A row gives the result's elements and the
gradient by argument 0 of the sum of result[i] cos(0.3 i).
"""
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax


def argument(k, *dims):
    count = int(np.prod(dims))
    return jnp.asarray(1.5 * np.sin(0.7 * np.arange(count) + k), jnp.float32).reshape(dims)


def weigh(result):
    return jnp.sum(result.ravel() * jnp.asarray(np.cos(0.3 * np.arange(result.size)), jnp.float32))


def numbers(array):
    return ", ".join(f"{x:.9g}" for x in np.asarray(array, np.float64).ravel())


def norm(module, x, **weights):
    return module.apply({"params": weights}, x)


LABELS = jnp.arange(6).reshape(2, 3) % 4
ROWS = jnp.asarray([[2, 0], [4, 1]])


def rotary(x, base):
    """RoFormer's rotation with the halves of GPT-NeoX, which JAX has no function for."""
    half = x.shape[-1] // 2
    angles = np.arange(x.shape[1])[:, None] * base ** (-np.arange(half) * 2 / x.shape[-1])
    cos, sin = (jnp.asarray(f(angles), jnp.float32)[None, :, None, :] for f in (np.cos, np.sin))
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def gated(x, gate, up, down):
    return (jax.nn.silu(x @ gate) * (x @ up)) @ down


def decoder_block(base, epsilon, x, scale, wq, wk, wv, wo, hidden_scale, *hidden):
    y = norm(nn.RMSNorm(epsilon=epsilon), x, scale=scale)
    q, k, v = (jnp.tensordot(y, w, 1) for w in (wq, wk, wv))
    if base:
        q, k = rotary(q, base), rotary(k, base)
    x = x + jnp.einsum("bthf,hfd->btd", jax.nn.dot_product_attention(q, k, v, is_causal=True), wo)
    return x + gated(norm(nn.RMSNorm(epsilon=epsilon), x, scale=hidden_scale), *hidden)


DECODER = [(1, 3, 4), (4,), (4, 2, 2), (4, 1, 2), (4, 1, 2), (2, 2, 4), (4,), (4, 6), (4, 6), (6, 4)]
CASES = {
    "einsum_product": (lambda a, b: jnp.einsum("ij,jk->ik", a, b), (2, 3), (3, 2)),
    "einsum_batch": (lambda a, b: jnp.einsum("bqhd,bkhd->bhqk", a, b), (2, 2, 2, 3), (2, 1, 2, 3)),
    "einsum_transposed": (lambda a: jnp.einsum("ijk->ki", a), (2, 3, 2)),
    "einsum_implied": (lambda a, b: jnp.einsum("cb,ab", a, b), (2, 3), (2, 3)),
    "einsum_scalar": (lambda a, b: jnp.einsum("ij,ij->", a, b), (2, 3), (2, 3)),
    "einsum_outer": (lambda a, b: jnp.einsum("i,j->ji", a, b), (2,), (3,)),
    "einsum_three": (lambda a, b, c: jnp.einsum("ij,jk,ik->k", a, b, c), (2, 3), (3, 2), (2, 2)),
    "dense": (lambda x, w, b: jnp.tensordot(x, w, 1) + b, (2, 2, 3), (3, 2), (2,)),
    "embedding": (lambda t: t[ROWS], (5, 3)),
    "mean": (lambda x: jnp.mean(x, (0, 2)), (2, 3, 2)),
    "logsumexp": (lambda x: jax.nn.logsumexp(40 * x, 0), (3, 2)),
    "relu": (lambda x: jax.nn.relu(x - 1.5 * np.float32(np.sin(0.7))), (3,)),
    "gelu": (jax.nn.gelu, (6,)),
    "gelu_exact": (lambda x: jax.nn.gelu(x, approximate=False), (6,)),
    "silu": (jax.nn.silu, (6,)),
    "softplus": (lambda x: jax.nn.softplus(20 * x), (6,)),
    "softmax": (lambda x: jax.nn.softmax(100 * x, 1), (2, 3, 2)),
    "log_softmax": (jax.nn.log_softmax, (2, 3)),
    "layer_norm": (lambda x, s, o: norm(nn.LayerNorm(epsilon=1e-5, use_fast_variance=False), x, scale=s, bias=o), (2, 3, 4), (4,), (4,)),
    "rms_norm": (lambda x, s: norm(nn.RMSNorm(epsilon=1e-6), x, scale=s), (2, 4), (4,)),
    "attention": (lambda q, k, v: jax.nn.dot_product_attention(q, k, v), (1, 2, 2, 4), (1, 3, 2, 4), (1, 3, 2, 4)),
    "attention_causal": (lambda q, k, v: jax.nn.dot_product_attention(q, k, v, is_causal=True), (1, 3, 2, 2), (1, 3, 2, 2), (1, 3, 2, 2)),
    "attention_grouped": (lambda q, k, v: jax.nn.dot_product_attention(q, k, v, is_causal=True), (1, 2, 4, 2), (1, 2, 2, 2), (1, 2, 2, 2)),
    "rotary": (lambda x: rotary(x, 100.0), (1, 3, 1, 4)),
    "gated": (gated, (1, 2, 3), (3, 4), (3, 4), (4, 3)),
    "decoder_block": (lambda *a: decoder_block(100.0, 1e-6, *a), *DECODER),
    "decoder_block_without_positions": (lambda *a: decoder_block(None, 1e-5, *a), *DECODER),
    "cross_entropy": (lambda x: optax.softmax_cross_entropy_with_integer_labels(x, LABELS), (2, 3, 4)),
}
print("// SPDX-License-Identifier: Apache-2.0")
print("// Made by tests/nn/make_golden.py: what jax 0.10.2, flax 0.12.8 and optax 0.2.8 compute on a CPU.")
for name, (function, *shapes) in CASES.items():
    arguments = [argument(k, *dims) for k, dims in enumerate(shapes)]
    with jax.default_matmul_precision("highest"):
        value = function(*arguments)
        gradient = jax.grad(lambda *a: weigh(function(*a)))(*arguments)
    print(f"GOLDEN({name}, NUMBERS({numbers(value)}),\n       NUMBERS({numbers(gradient)}))")

for name in ("lecun_normal", "lecun_uniform", "glorot_normal", "glorot_uniform", "he_normal", "he_uniform"):
    weights = getattr(jax.nn.initializers, name)()(jax.random.PRNGKey(7), (2, 3, 4), jnp.float32)
    print(f"INITIAL({name}, NUMBERS({numbers(weights)}))")
keep = jax.random.bernoulli(jax.random.PRNGKey(7), 0.75, (12,))
print(f"DROPOUT(NUMBERS({numbers(jnp.where(keep, argument(0, 12) / 0.75, 0))}))")


def train(optimizer):
    """Three steps of a loss with two weights; the state afterwards, then the losses."""
    weights, losses = (argument(0, 2, 3), argument(1, 3)), []
    state = optimizer.init(weights)
    for _ in range(3):
        value, gradients = jax.value_and_grad(lambda w: jnp.sum((argument(2, 4, 2) @ w[0] + w[1]) ** 2))(weights)
        updates, state = optimizer.update(gradients, state, weights)
        weights = optax.apply_updates(weights, updates)
        losses.append(value)
    return [*weights, jnp.asarray(losses)]


OPTIMIZERS = {
    "SGD": optax.sgd(0.01),
    "MOMENTUM": optax.sgd(0.01, momentum=0.9),
    "ADAM": optax.adam(0.01),
    "ADAMW": optax.adamw(0.01),
}
for name, optimizer in OPTIMIZERS.items():
    for clip in (0, 2):
        chosen = optax.chain(optax.clip_by_global_norm(clip), optimizer) if clip else optimizer
        with jax.default_matmul_precision("highest"):
            parts = train(chosen)
        print(f"TRAINED({name}, {clip}, NUMBERS({', '.join(numbers(part) for part in parts)}))")
