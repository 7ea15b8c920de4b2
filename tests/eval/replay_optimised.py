#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Replays the output of XLA:CPU's pipeline: fused, scheduled and laid out programs must give the same numbers.

usage: replay_optimised.py [--meshlo PATH] [--only NAME]     needs JAX 0.10.2

Compiles thirty small JAX functions, takes the text of each optimised module, and compares what JAX computed with what
`meshlo run` gives for that text in both engines. Prints what differs, exits 1 if anything does.
"""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

os.environ["JAX_PLATFORMS"] = "cpu"
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

RANDOM = np.random.default_rng(0)
IMAGES = ("NHWC", "HWIO", "NHWC")


def normal(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def small(low, high, *shape, dtype=np.int32):
    return RANDOM.integers(low, high, shape).astype(dtype)


def network(x, first, second):
    return jax.nn.gelu(x @ first) @ second


def spd(x):
    return x @ x.T + 10 * jnp.eye(len(x))


PROGRAMS = {
    "network": (network, [normal(16, 32), normal(32, 64), normal(64, 8)]),
    "network_gradient": (jax.grad(lambda w, x, v: (network(x, w, v)**2).sum()), [normal(32, 64), normal(16, 32), normal(64, 8)]),
    "softmax": (jax.nn.softmax, [normal(8, 100)]),
    "layer_norm": (lambda x, g: (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * g,
                   [normal(8, 64), normal(64)]),
    "convolution": (lambda x, k: lax.conv_general_dilated(x, k, (2, 2), "SAME", dimension_numbers=IMAGES),
                    [normal(2, 9, 9, 3), normal(3, 3, 3, 4)]),
    "convolution_gradient": (jax.grad(lambda k, x: (lax.conv_general_dilated(
        x, k, (1, 1), "SAME", dimension_numbers=IMAGES)**2).sum()), [normal(3, 3, 3, 4), normal(2, 9, 9, 3)]),
    "pooling_gradient": (jax.grad(lambda x: (lax.reduce_window(
        x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")**2).sum()), [normal(2, 8, 8, 3)]),
    "scan": (lambda x, w: lax.scan(lambda c, t: (jnp.tanh(c @ w + t), c.sum()), jnp.zeros(8), x), [normal(10, 8), normal(8, 8)]),
    "running_sum": (lambda x: jnp.cumsum(x, 1), [normal(4, 50)]),
    "sort": (lambda x: (jnp.sort(x, 0), jnp.argsort(x, 1)), [normal(9, 11)]),
    "top_k": (lambda x: lax.top_k(x, 3), [normal(5, 40)]),
    "gather": (lambda x, i: x[i], [normal(20, 5), small(0, 20, 4)]),
    "scatter": (lambda x, i, u: x.at[i].add(u), [normal(20, 5), small(0, 20, 4), normal(4, 5)]),
    "random": (lambda k: jax.random.normal(jax.random.wrap_key_data(k), (7, 9)), [small(0, 99, 2, dtype=np.uint32)]),
    "fft": (lambda x: jnp.abs(jnp.fft.fft2(x)), [normal(6, 8)]),
    "conditional": (lambda p, x: lax.cond(p > 0, lambda x: x * 2, lambda x: x - 1, x), [np.int32(1), normal(5)]),
    "attention": (lambda q, k, v: jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k) / 4.0, -1) @ v.transpose(0, 2, 1, 3),
                  [normal(2, 7, 3, 16)] * 3),
    "bf16_product": (lambda x, w: (x.astype(jnp.bfloat16) @ w.astype(jnp.bfloat16)).astype(jnp.float32),
                     [normal(16, 32), normal(32, 8)]),
    "largest": (lambda x: (jnp.argmax(x, 1), x.max(0), jnp.var(x)), [normal(13, 17)]),
    "einsum": (lambda a, b: jnp.einsum("abc,cbd->ad", a, b), [normal(3, 4, 5), normal(5, 4, 6)]),
    "loop": (lambda x: lax.while_loop(lambda s: s[0] < 5, lambda s: (s[0] + 1, jnp.sin(s[1])), (0, x)), [normal(6)]),
    "pad": (lambda x: jnp.pad(x, ((1, 2), (3, 0)))[::-1, ::2], [normal(5, 6)]),
    "cholesky": (lambda x: jnp.linalg.cholesky(spd(x)), [normal(6, 6)]),
    "solve": (lambda x, b: jnp.linalg.solve(spd(x), b), [normal(6, 6), normal(6, 2)]),
    "bytes": (lambda a, b: lax.dot(a, b, preferred_element_type=jnp.int32),
              [small(-100, 100, 9, 12, dtype=np.int8), small(-100, 100, 12, 7, dtype=np.int8)]),
    "complex": (lambda a: jnp.exp(a * 1j).real, [normal(12)]),
    "log_sum_exp": (lambda x: jax.scipy.special.logsumexp(x, axis=0), [normal(33, 4)]),
    "update": (lambda x, u, i: lax.dynamic_update_slice(x, u, (i, 0)), [normal(9, 4), normal(3, 4), np.int32(7)]),
    "one_hot": (lambda i: jax.nn.one_hot(i, 7) @ jnp.ones((7, 3)), [small(0, 7, 3)]),
    "hessian": (jax.hessian(lambda x: jnp.sum(jnp.tanh(x)**3)), [normal(5)]),
}


def replay(meshlo, engine, folder):
    """The results as arrays, or what the command says."""
    command = [meshlo, "run", str(folder / "m.hlo"), "--engine", engine, "--input", str(folder / "in.npz"), "--output",
               str(folder / engine)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        return done.stderr.strip()
    return [np.load(folder / engine / f"{i}.npy") for i in range(len(list((folder / engine).glob("*.npy"))))]


def difference(expected, found):
    if isinstance(found, str):
        return found
    if [e.shape for e in expected] != [f.shape for f in found]:
        return "other shapes"
    for i, (e, f) in enumerate(zip(expected, found)):
        error = np.max(np.abs(e.astype(np.complex128) - f.astype(np.complex128)), initial=0)
        if not error <= 2e-5 * max(1.0, np.max(np.abs(e), initial=0)):
            return f"result {i} is {error} off"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    root = pathlib.Path(__file__).resolve().parents[2]
    parser.add_argument("--meshlo", default=str(root / "build/release/bin/meshlo"))
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    failed = runs = 0
    for name, (function, arguments) in PROGRAMS.items():
        if options.only not in name:
            continue
        with tempfile.TemporaryDirectory() as temporary:
            folder = pathlib.Path(temporary)
            compiled = jax.jit(function).lower(*arguments).compile()
            expected = [np.asarray(r) for r in jax.tree.leaves(compiled(*arguments))]
            (folder / "m.hlo").write_text(compiled.as_text())
            np.savez(folder / "in.npz", *[np.asarray(a) for a in arguments])
            for engine in ["eval", "compiled"]:
                runs += 1
                message = difference(expected, replay(options.meshlo, engine, folder))
                if message:
                    failed += 1
                    print(f"{name} ({engine}): {message}")
    print(f"{runs - failed} of {runs} runs agree")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
