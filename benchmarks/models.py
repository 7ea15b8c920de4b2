# SPDX-License-Identifier: Apache-2.0
"""Whole models that peers.py times, as JAX functions of flat arrays; torch_cases.py has the same for PyTorch.

    models.py write DIRECTORY [NAME…]    writes DIRECTORY/NAME.hlo, as JAX lowers each, and prints the names

Normalisation layers are folded into scales and biases, as at inference; the gradients are those of the mean square output.
"""
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import program_cases
from model_shapes import UNET, block_shapes, resnet_layers, unet_widths
from program_cases import BF16, S8, S32, f32, norm

CASES = {}


def model(name, function, *shapes):
    CASES[name] = (function, shapes)


def gradient(function):
    """The gradient for all arrays but the first, the input."""

    def loss(weights, x):
        return jnp.mean(function(x, *weights)**2)

    return lambda x, *weights: jax.grad(loss)(weights, x)


def convolve(x, w, stride=1):
    return lax.conv_general_dilated(x, w, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


LAYERS, BLOCKS = resnet_layers()


def resnet(x, *weights):
    """Each convolution has its weights, a scale and a bias of its features; the last array classifies."""

    def unit(x, i):
        w, scale, bias = weights[3 * i:3 * i + 3]
        return convolve(x, w, LAYERS[i][3]) * scale + bias

    x = jax.nn.relu(unit(x, 0))
    x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
    for first, projects in BLOCKS:
        y = jax.nn.relu(unit(x, first))
        y = unit(jax.nn.relu(unit(y, first + 1)), first + 2)
        x = jax.nn.relu(y + (unit(x, first + 3) if projects else x))
    return x.mean((1, 2)) @ weights[-1]


RESNET = [f32(*dims) for rows, inputs, outputs, _ in LAYERS
          for dims in ((rows, rows, inputs, outputs), (outputs,), (outputs,))] + [f32(2048, 1000)]
model("resnet50_forward", resnet, f32(4, 224, 224, 3), *RESNET)
model("resnet50_gradient", gradient(resnet), f32(4, 224, 224, 3), *RESNET)


def unet(x, *weights):
    """Two 3x3 convolutions a level, halved by the largest of 2x2, doubled by repetition and joined with what was there."""
    weights, kept = iter(weights), []

    def pair(x):
        return jax.nn.relu(convolve(jax.nn.relu(convolve(x, next(weights))), next(weights)))

    for level in range(len(UNET)):
        x = pair(x)
        if level + 1 < len(UNET):
            kept.append(x)
            x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    while kept:
        x = jnp.repeat(jnp.repeat(x, 2, 1), 2, 2)
        x = pair(jnp.concatenate([kept.pop(), x], -1))
    return convolve(x, next(weights))


UNET_SHAPES = [f32(3, 3, *pair) for pair in unet_widths()] + [f32(1, 1, UNET[0], 2)]
model("unet_forward", unet, f32(2, 128, 128, 3), *UNET_SHAPES)
model("unet_gradient", gradient(unet), f32(2, 128, 128, 3), *UNET_SHAPES)


def attend(q, k, v, causal):
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(q.shape[-1])
    if causal:
        scores = jnp.where(np.tril(np.ones(scores.shape[-2:], bool)), scores, -1e9)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, -1), v)


def block(x, qkv, out, up, down, heads, causal):
    b, t, d = x.shape
    q, k, v = (y.reshape(b, t, heads, d // heads) for y in jnp.split(norm(x) @ qkv, 3, -1))
    x = x + attend(q, k, v, causal).reshape(b, t, d) @ out
    return x + jax.nn.gelu(norm(x) @ up) @ down


def weights_of(d):
    return [f32(*dims) for dims in block_shapes(d)]


def causal_block(x, *weights):
    return block(x, *weights, heads=16, causal=True)


model("causal_block_forward", causal_block, f32(4, 512, 1024), *weights_of(1024))
model("causal_block_gradient", gradient(causal_block), f32(4, 512, 1024), *weights_of(1024))


def vit(images, patches, head, *weights):
    """A vision transformer of 6 blocks: patches of 16x16, no class token; the mean of the tokens is classified."""
    x = lax.conv_general_dilated(images, patches, (16, 16), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    x = x.reshape(x.shape[0], -1, x.shape[-1])
    for i in range(0, len(weights), 4):
        x = block(x, *weights[i:i + 4], heads=6, causal=False)
    return norm(x).mean(1) @ head


model("vit_forward", vit, f32(8, 224, 224, 3), f32(16, 16, 3, 384), f32(384, 1000), *weights_of(384) * 6)


def mixture(x, router, up, down):
    """Two of eight experts a token, all tokens in one product an expert group: dropless, by sorting (lax.ragged_dot)."""
    experts = up.shape[0]
    gates, chosen = lax.top_k(jax.nn.softmax(x @ router), 2)
    order = jnp.argsort(chosen.ravel())
    sizes = jnp.bincount(chosen.ravel(), length=experts).astype(S32)
    y = lax.ragged_dot(jax.nn.silu(lax.ragged_dot(x[order // 2], up, sizes)), down, sizes)
    return jnp.zeros_like(x).at[order // 2].add(y * gates.ravel()[order][:, None])


model("mixture_of_experts", mixture, f32(1024, 512), f32(512, 8), f32(8, 512, 1024), f32(8, 1024, 512))


def lstm(xs, w, u, b):

    def step(carry, x):
        h, c = carry
        i, f, g, o = jnp.split(x @ w + h @ u + b, 4, -1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    zero = jnp.zeros((xs.shape[1], u.shape[0]))
    return lax.scan(step, (zero, zero), xs)[1]


model("lstm_scan", lstm, f32(128, 32, 256), f32(256, 1024), f32(256, 1024), f32(1024))


def token_step(matrix):
    """A decoder's step for one token of each of 4 sequences, with a cache of 1,024 positions; matrix(x, weights) multiplies."""

    def step(x, keys, values, position, *weights):
        batch, d = x.shape
        new_keys, new_values = [], []
        where = jnp.arange(keys.shape[2]) <= position
        for i in range(keys.shape[0]):
            qkv, out, up, down = weights[4 * i:4 * i + 4]
            q, k, v = (y.reshape(batch, 1, -1, 64) for y in jnp.split(matrix(norm(x), qkv), 3, -1))
            k = lax.dynamic_update_slice(keys[i], k.astype(keys.dtype), (0, position, 0, 0))
            v = lax.dynamic_update_slice(values[i], v.astype(keys.dtype), (0, position, 0, 0))
            scores = jnp.einsum("bqhd,bkhd->bhqk", q, k, preferred_element_type=jnp.float32) / 8
            shares = jax.nn.softmax(jnp.where(where, scores, -1e9), -1).astype(keys.dtype)
            x = x + matrix(jnp.einsum("bhqk,bkhd->bqhd", shares, v).reshape(batch, d), out)
            x = x + matrix(jax.nn.gelu(matrix(norm(x), up)), down)
            new_keys.append(k)
            new_values.append(v)
        return x, jnp.stack(new_keys), jnp.stack(new_values)

    return step


def by_s8(x, w):
    """Weights of 8 bits with one scale, activations quantised for each row."""
    scale = jnp.max(jnp.abs(x), -1, keepdims=True) / 127
    quantised = jnp.round(x / scale).astype(S8)
    return jnp.dot(quantised, w, preferred_element_type=S32).astype(x.dtype) * scale.astype(x.dtype) / 127


CACHE = (4, 4, 1024, 8, 64)
for name, kind, matrix in (("token_step_bf16", BF16, jnp.dot), ("token_step_s8", S8, by_s8)):
    model(name, token_step(matrix), ((4, 512), BF16), (CACHE, BF16), (CACHE, BF16), ((), S32),
          *[(dims, kind) for dims in block_shapes(512) * 4])

if __name__ == "__main__":
    program_cases.CASES = CASES
    names = sys.argv[3:] or list(CASES)
    unknown = [name for name in names if name not in CASES]
    if unknown:
        sys.exit(f"models.py: no model {', '.join(unknown)}; there are {', '.join(CASES)}")
    program_cases.write(names, sys.argv[2])
    print(*names)
