# SPDX-License-Identifier: Apache-2.0
"""The array programs that are timed beside XLA, as JAX functions.

    program_cases.py write [NAME…]    writes benchmarks/programs/NAME.hlo, as JAX lowers each
    program_cases.py serve            times them and those of models.py in this JAX, as peers.py asks

With BENCH_CLOCK=processor in the environment it is the processor time of all threads that counts, which a busy machine
disturbs less; pin the process to one core then.
"""
import os
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxlib import _hlo

HERE = os.path.dirname(os.path.abspath(__file__))
F32, BF16, S8, S32 = jnp.float32, jnp.bfloat16, jnp.int8, jnp.int32
CASES = {}


def case(name, *shapes):
    """Registers a function of arrays given as (dims, type)."""

    def register(function):
        CASES[name] = (function, shapes)
        return function

    return register


def f32(*dims):
    return (dims, F32)


def elementwise(name, function, count=1):
    case(name, *[f32(4 << 20)] * count)(function)


case("scalar_add", f32())(lambda x: x + 1)


@case("small_ops", f32(16))
def small_ops(x):
    for _ in range(10):
        x = jnp.sin(x) * 2
    return x


for size in (64, 256, 1024):
    case(f"dot_{size}", f32(size, size), f32(size, size))(jnp.dot)
case("dot_bf16_1024", ((1024, 1024), BF16), ((1024, 1024), BF16))(jnp.dot)
case("dot_s8_1024", ((1024, 1024), S8), ((1024, 1024), S8))(lambda a, b: jnp.dot(a, b, preferred_element_type=S32))
case("dot_transposed_1024", f32(1024, 1024), f32(1024, 1024))(lambda a, b: a.T @ b)
case("dense_relu", f32(1024, 784), f32(784, 1024), f32(1024))(lambda x, w, b: jnp.maximum(x @ w + b, 0))
case("attention_scores", f32(4, 256, 12, 64), f32(4, 256, 12, 64))(lambda q, k: jnp.einsum("bqhd,bkhd->bhqk", q, k))


@case("attention", *[f32(4, 512, 16, 64)] * 3)
def attention(q, k, v):
    return jax.nn.dot_product_attention(q, k, v, is_causal=True)


@case("attention_gradient", *[f32(4, 512, 16, 64)] * 4)
def attention_gradient(q, k, v, gradient):
    result, pull = jax.vjp(attention, q, k, v)
    return result, *pull(gradient)


case("matvec_4096", f32(4096, 4096), f32(4096))(jnp.dot)


def convolve(x, w, stride=1):
    return lax.conv_general_dilated(x, w, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


case("conv_3x3", f32(8, 56, 56, 64), f32(3, 3, 64, 64))(convolve)
case("conv_3x3_gradient", f32(8, 56, 56, 64), f32(3, 3, 64, 64))(
    jax.grad(lambda x, w: jnp.sum(convolve(x, w)**2), (0, 1)))
case("conv_7x7", f32(4, 224, 224, 3), f32(7, 7, 3, 64))(lambda x, w: convolve(x, w, 2))

elementwise("add_4m", lambda x, y: x + y, 2)
elementwise("gelu_4m", jax.nn.gelu)
elementwise("exp_4m", jnp.exp)
elementwise("log_4m", jnp.log)
elementwise("tanh_4m", jnp.tanh)
elementwise("erf_4m", lax.erf)
elementwise("logistic_4m", jax.nn.sigmoid)
elementwise("sin_4m", jnp.sin)
elementwise("pow_4m", jnp.power, 2)

case("softmax", f32(1024, 4096))(lambda x: jax.nn.softmax(x, axis=-1))
case("log_softmax", f32(1024, 4096))(lambda x: jax.nn.log_softmax(x, axis=-1))


@case("layernorm", f32(4096, 1024), f32(1024), f32(1024))
def layernorm(x, scale, bias):
    mean = jnp.mean(x, axis=-1, keepdims=True)
    variance = jnp.mean((x - mean)**2, axis=-1, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + 1e-5) * scale + bias


case("sum_4m", f32(4 << 20))(jnp.sum)
case("sum_axis0", f32(2048, 2048))(lambda x: jnp.sum(x, axis=0))
case("argmax", f32(1024, 4096))(lambda x: jnp.argmax(x, axis=1))
case("cumsum", f32(1024, 4096))(lambda x: jnp.cumsum(x, axis=1))
case("transpose", f32(2048, 2048))(lambda x: x.T)
case("gather", f32(32000, 512), ((8192,), S32))(lambda table, rows: table[rows])
case("scatter_add", f32(32000, 512), ((8192,), S32), f32(8192, 512))(lambda table, rows, x: table.at[rows].add(x))
case("sort_1m", f32(1 << 20))(jnp.sort)
case("argsort_256k", f32(256 << 10))(jnp.argsort)
case("top_k", f32(64, 32000))(lambda x: lax.top_k(x, 8))
case("random_bits_4m", ((2,), jnp.uint32))(lambda key: jax.random.bits(key, (4 << 20,)))
case("normal_4m", ((2,), jnp.uint32))(lambda key: jax.random.normal(key, (4 << 20,)))
case("fft", ((1024, 1024), jnp.complex64))(jnp.fft.fft)


@case("cholesky", f32(512, 512))
def cholesky(x):
    return lax.linalg.cholesky(jnp.eye(512) * 600 + (x + x.T) / 2, symmetrize_input=False)


case("loop_1000", f32(16))(lambda x: lax.fori_loop(0, 1000, lambda i, y: y * 0.999 + 0.001, x))


@case("rnn_scan", f32(128, 32, 256), f32(256, 256), f32(256, 256))
def rnn_scan(xs, w, u):

    def step(h, x):
        h = jnp.tanh(x @ w + h @ u)
        return h, h

    return lax.scan(step, jnp.zeros((32, 256)), xs)


def norm(x):
    mean = x.mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(((x - mean)**2).mean(-1, keepdims=True) + 1e-5)


def block(x, qkv, out, up, down, heads=8):
    b, t, d = x.shape
    q, k, v = jnp.split(norm(x) @ qkv, 3, axis=-1)
    q, k, v = (y.reshape(b, t, heads, d // heads) for y in (q, k, v))
    weights = jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(d // heads), axis=-1)
    x = x + jnp.einsum("bhqk,bkhd->bqhd", weights, v).reshape(b, t, d) @ out
    return x + jax.nn.gelu(norm(x) @ up) @ down


def blocks(count):

    def loss(x, *weights):
        for i in range(count):
            x = block(x, *weights[4 * i:4 * i + 4])
        return jnp.mean(x**2)

    return loss


WEIGHTS = (f32(512, 1536), f32(512, 512), f32(512, 2048), f32(2048, 512))
case("block_forward", f32(4, 256, 512), *WEIGHTS)(blocks(1))
case("block_gradient", f32(4, 256, 512), *WEIGHTS)(jax.grad(blocks(1), (0, 1, 2, 3, 4)))
case("blocks_12_gradient", f32(1, 64, 512), *WEIGHTS * 12)(jax.grad(blocks(12), tuple(range(49))))


def shapes_of(name):
    return [jax.ShapeDtypeStruct(dims, kind) for dims, kind in CASES[name][1]]


def argument(shape, seed):
    """Floats from 0.01 to 1; integers that are row numbers of the gather; any keys."""
    random = np.random.RandomState(seed)
    if shape.dtype == jnp.complex64:
        return jnp.asarray(random.rand(*shape.shape) + 1j * random.rand(*shape.shape), jnp.complex64)
    if jnp.issubdtype(shape.dtype, jnp.floating):
        return jnp.asarray(0.01 + 0.99 * random.rand(*shape.shape), shape.dtype)
    return jnp.asarray(random.randint(0, 100 if shape.dtype == S8 else 32000, shape.shape), shape.dtype)


def write(names, directory):
    os.makedirs(directory, exist_ok=True)
    for name in names or CASES:
        with open(f"{directory}/{name}.hlo", "w", encoding="utf-8") as file:
            # The CPU's lowering of this one calls LAPACK by name.
            platform = "tpu" if name == "cholesky" else "cpu"
            lowered = jax.jit(CASES[name][0]).trace(*shapes_of(name)).lower(lowering_platforms=(platform,))
            options = _hlo.HloPrintOptions.short_parsable()
            options.print_metadata = False
            file.write(lowered.compiler_ir("hlo").get_hlo_module().to_string(options) + "\n")


CLOCK = time.process_time if os.environ.get("BENCH_CLOCK") == "processor" else time.perf_counter


class Prepared:
    """A compiled function with its arguments."""

    def __init__(self, name):
        function, _ = CASES[name]
        shapes = shapes_of(name)
        lowered = jax.jit(function).lower(*shapes)
        start = CLOCK()
        lowered.compile()
        self.compile_time = CLOCK() - start
        self.function = jax.jit(function)
        self.arguments = [argument(shape, i) for i, shape in enumerate(shapes)]
        self()

    def __call__(self):
        jax.block_until_ready(self.function(*self.arguments))


if __name__ == "__main__":
    if sys.argv[1:2] == ["write"]:
        write(sys.argv[2:], f"{HERE}/programs")
    else:
        import models
        from serve import serve
        CASES.update(models.CASES)
        serve(CASES, Prepared, CLOCK)
