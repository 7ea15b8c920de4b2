#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Gradients by `meshlo grad` beside those of jax.value_and_grad of the same functions, both run by `meshlo run`.

    python benchmarks/jax/gradients.py MESHLO [ROUNDS [CASE…]]

Processor time of one run in milliseconds: the least of ROUNDS (default 5) turns of each, in turns, each with enough runs
for a fifth of a second and less that of a single run, which has reading and compiling. Losses are in f32.
"""
import os
import resource
import subprocess
import sys
import tempfile

os.environ["JAX_PLATFORMS"] = "cpu"
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

SECONDS = 0.2
RANDOM = np.random.default_rng(0)


def drawn(*shape):
    return (RANDOM.normal(size=shape) / np.sqrt(shape[-2] if len(shape) > 1 else 1)).astype(np.float32)


def below(limit, *shape):
    return RANDOM.integers(0, limit, shape).astype(np.int32)


def rms_norm(x, scale):
    return x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * scale


def block(x, p, heads=4):
    batch, length, width = x.shape
    y = rms_norm(x, p["scale_1"])
    q, k, v = ((y @ p[name]).reshape(batch, length, heads, -1).transpose(0, 2, 1, 3) for name in "qkv")
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(width // heads)
    weights = jax.nn.softmax(jnp.where(np.tril(np.ones((length, length), bool)), scores, -1e9))
    x = x + (weights @ v).transpose(0, 2, 1, 3).reshape(batch, length, width) @ p["o"]
    return x + jax.nn.gelu(rms_norm(x, p["scale_2"]) @ p["up"]) @ p["down"]


def transformer(layers, width, length, batch, scan=False, layer=block):
    square = {name: [drawn(width, width) for _ in range(layers)] for name in "qkvo"}
    weights = {**square, "up": [drawn(width, 4 * width) for _ in range(layers)], "down": [drawn(4 * width, width) for _ in range(layers)],
               "scale_1": [np.ones(width, np.float32)] * layers, "scale_2": [np.ones(width, np.float32)] * layers}
    if scan:
        weights = {name: np.stack(list_) for name, list_ in weights.items()}

    def loss(embedding, weights, tokens):
        x = embedding[tokens]
        if scan:
            x = lax.scan(lambda x, p: (layer(x, p), None), x, weights)[0]
        else:
            for i in range(layers):
                x = layer(x, {name: list_[i] for name, list_ in weights.items()})
        logs = jax.nn.log_softmax(x @ embedding.T)
        return -jnp.mean(jnp.take_along_axis(logs, jnp.roll(tokens, -1, 1)[..., None], -1))
    return loss, [drawn(256, width), weights], [below(256, batch, length)]


def convolutions(kernels, scales, last, images, labels):
    x = images
    for kernel, scale in zip(kernels, scales):
        x = lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        x = jax.nn.relu((x - x.mean((0, 1, 2))) * lax.rsqrt(x.var((0, 1, 2)) + 1e-5) * scale)
        x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return -jnp.mean(jax.nn.log_softmax(x.reshape(x.shape[0], -1) @ last)[jnp.arange(x.shape[0]), labels])


def lstm(weights, inputs):
    def step(state, x):
        i, f, o, g = jnp.split(jnp.concatenate([state[0], x], -1) @ weights, 4, -1)
        cell = jax.nn.sigmoid(f) * state[1] + jax.nn.sigmoid(i) * jnp.tanh(g)
        return (jax.nn.sigmoid(o) * jnp.tanh(cell), cell), cell
    zeros = jnp.zeros((32, 64))
    return jnp.mean(lax.scan(step, (zeros, zeros), inputs)[1] ** 2)


def experts(x, router, up, down):
    values, chosen = lax.top_k(jax.nn.softmax(x @ router), 2)
    gates = jnp.sum(jax.nn.one_hot(chosen, 8) * values[..., None], 1)
    return jnp.mean(jnp.einsum("tef,efd,te->td", jax.nn.silu(jnp.einsum("td,edf->tef", x, up)), down, gates) ** 2)


def layer_norms(x, scale, offset):
    for _ in range(4):
        x = (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * scale + offset
    return jnp.sum(x ** 3)


def long_convolutions(kernel, x):
    for _ in range(3):
        x = jnp.fft.irfft(jnp.fft.rfft(kernel, 1024) * jnp.fft.rfft(x, 1024), 1024)[:, :512]
    return jnp.mean(jnp.tanh(x) ** 2)


def messages(weights, x, source, target):
    for _ in range(3):
        x = jnp.tanh(jax.ops.segment_sum((x @ weights)[source], target, 512) / 8 + x)
    return jnp.mean(x ** 2)


def layers(weights, x):
    for w in weights:
        x = jnp.tanh(x @ w)
    return jnp.mean(x ** 2)


def cases():
    """(name, (loss, the arguments to differentiate by, the others))"""
    yield "blocks_12", transformer(12, 128, 64, 4)
    yield "blocks_12_small", transformer(12, 64, 16, 2)
    yield "blocks_12_scan", transformer(12, 128, 64, 4, scan=True)
    yield "blocks_12_scan_remat", transformer(12, 128, 64, 4, scan=True, layer=jax.checkpoint(block))
    yield "blocks_2_wide", transformer(2, 256, 128, 4)
    kernels = [drawn(3, 3, 3, 32), drawn(3, 3, 32, 32), drawn(3, 3, 32, 64)]
    yield "convolutions", (convolutions, [kernels, [np.ones(k.shape[-1], np.float32) for k in kernels], drawn(1024, 10)], [drawn(16, 32, 32, 3), below(10, 16)])
    yield "layers", (layers, [[drawn(256, 256) for _ in range(6)]], [drawn(128, 256)])
    yield "lstm", (lstm, [drawn(128, 256), drawn(40, 32, 64)], [])
    yield "layer_norms", (layer_norms, [drawn(512, 512), drawn(512), drawn(512)], [])
    yield "experts", (experts, [drawn(256, 64), drawn(64, 8), drawn(8, 64, 256), drawn(8, 256, 64)], [])
    yield "long_convolutions", (long_convolutions, [drawn(512), drawn(64, 512)], [])
    yield "messages", (messages, [drawn(64, 64), drawn(512, 64)], [below(512, 4096), below(512, 4096)])
    square = drawn(256, 256)
    yield "elementwise", (lambda x, y: jnp.sum(jnp.sin(x) * jnp.exp(-y * y) / (1 + x * x) + jnp.log1p(jnp.abs(y)) * jax.nn.softplus(x)), [drawn(512, 512), drawn(512, 512)], [])
    yield "softmax", (lambda x: jnp.sum(jax.nn.softmax(x) ** 2), [square], [])
    yield "cumsum", (lambda x: jnp.sum(jnp.cumsum(jnp.sin(x), 1) ** 2), [square], [])
    yield "cumprod", (lambda x: jnp.sum(jnp.cumprod(1 + .01 * x, 1)), [square], [])
    yield "cumlogsumexp", (lambda x: jnp.sum(lax.cumlogsumexp(x, 1)), [square], [])
    yield "sort", (lambda x: jnp.sum(jnp.sort(x, 1) * jnp.arange(256.)), [square], [])
    matrix = drawn(128, 128)
    yield "cholesky", (lambda a: jnp.sum(jnp.log(jnp.diagonal(jnp.linalg.cholesky(a @ a.T + jnp.eye(128))))), [matrix], [])
    yield "solve", (lambda a, b: jnp.sum(jnp.linalg.solve(a @ a.T + jnp.eye(128), b) ** 2), [matrix, drawn(128, 16)], [])
    yield "slogdet", (lambda a: jnp.linalg.slogdet(a + 2 * jnp.eye(128))[1], [matrix], [])


def processor_time(arguments):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(arguments, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def measure(meshlo, folder, loss, active, others, rounds):
    """The times of our gradient and of JAX's, in seconds."""
    arguments = [*active, *others]
    forward, ours, theirs, inputs = (os.path.join(folder, name) for name in ("f.mlir", "ours.hlo", "theirs.mlir", "in.npz"))
    derivative = jax.value_and_grad(loss, argnums=tuple(range(len(active))))
    for path, function in (forward, loss), (theirs, derivative):
        with open(path, "w", encoding="utf-8") as file:
            file.write(jax.jit(function).lower(*arguments).as_text())
    np.savez(inputs, *jax.tree.leaves(arguments))
    wrt = ",".join(str(i) for i in range(len(jax.tree.leaves(active))))
    subprocess.run([meshlo, "grad", forward, "--wrt", wrt, "-o", ours], check=True)

    def run(path, repeat):
        return processor_time([meshlo, "run", path, "--input", inputs, "--repeat", str(repeat)])
    one = max((run(theirs, 11) - run(theirs, 1)) / 10, 1e-5)
    count = max(5, min(2000, int(SECONDS / one)))
    least = {}
    for _ in range(rounds):
        for key in (ours, 1), (theirs, 1), (ours, count + 1), (theirs, count + 1):
            least[key] = min(least.get(key, np.inf), run(*key))
    return [(least[path, count + 1] - least[path, 1]) / count for path in (ours, theirs)]


def main():
    meshlo, rounds = os.path.abspath(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 5
    print("| case | ours | JAX's | ours / JAX's |\n|---|---|---|---|")
    for name, (loss, active, others) in cases():
        if len(sys.argv) > 3 and name not in sys.argv[3:]:
            continue
        with tempfile.TemporaryDirectory() as folder:
            ours, theirs = measure(meshlo, folder, loss, active, others, rounds)
            print(f"| {name} | {1e3 * ours:.3g} | {1e3 * theirs:.3g} | {ours / theirs:.2f} |", flush=True)


if __name__ == "__main__":
    main()
