#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ordinary functions of jax.numpy, jax.nn and jax.scipy, one at a time, and loops of small arrays, beside XLA:CPU as compare.py does
it: in one process and in turns, the least time of ROUNDS (default 7) turns in microseconds.

    TPU_LIBRARY_PATH=build/release/libmeshlo_pjrt.so python benchmarks/jax/functions.py [ROUNDS [CASE…]]

A CASE may be the beginning of several names. On a busy machine:

    BENCH_CLOCK=processor MESHLO_NUM_THREADS=1 taskset -c 1 python benchmarks/jax/functions.py
"""

import compare  # reads and sets the environment: before JAX

import jax
import jax.numpy as jnp
import jax.scipy as jsp
import numpy as np
from jax import lax, nn, random
from kernels import of, positive, row_numbers

CASES = {}


def case(name, function, *arguments, calls=3):
    """Registers a function: `arguments` makes its operands when it is measured."""

    def make(devices):
        operands = jax.device_put([argument() for argument in arguments], devices[0])
        f = jax.jit(function)
        return lambda: jax.block_until_ready(f(*operands)), calls

    CASES[name] = make


def above_zero(*dims):
    return lambda: np.abs(of(*dims)()) + np.float32(0.1)


def repeated(f, times=100):
    """The value after `times` steps of f, each of which reads the last one's result."""
    return lambda state, *rest: lax.fori_loop(0, times, lambda _, state: f(state, *rest), state)


def key(number=0):
    return lambda: np.asarray(random.key_data(random.key(number)))


ROWS, WIDE, LONG, SMALL = of(512, 512), of(64, 4096), of(1 << 18), of(256, 200)

for name in ("abs", "negative", "sign", "floor", "rint", "exp", "exp2", "expm1", "sin", "cos", "tan", "arctan", "sinh", "cosh", "tanh",
             "arcsinh", "square", "cbrt", "reciprocal", "isnan", "isfinite", "sinc", "deg2rad", "nan_to_num", "i0"):
    case(name, getattr(jnp, name), ROWS)
for name in ("sqrt", "log", "log2", "log10", "log1p", "arccosh"):
    case(name, getattr(jnp, name), above_zero(512, 512))
for name in ("arcsin", "arccos", "arctanh"):
    case(name, getattr(jnp, name), ROWS)
for name in ("add", "multiply", "divide", "maximum", "arctan2", "hypot", "logaddexp", "fmod", "copysign", "less", "nextafter",
             "floor_divide", "heaviside"):
    case(name, getattr(jnp, name), ROWS, ROWS)
case("power", jnp.power, above_zero(512, 512), ROWS)
for name in ("relu", "gelu", "silu", "sigmoid", "softplus", "elu", "selu", "celu", "leaky_relu", "hard_swish", "log_sigmoid", "mish",
             "softmax", "log_softmax", "standardize", "logsumexp", "glu"):
    case(name, getattr(nn, name), ROWS)
case("gelu_exact", lambda x: nn.gelu(x, approximate=False), ROWS)
case("gelu_gradient", jax.grad(lambda x: jnp.sum(nn.gelu(x))), ROWS)
case("softmax_gradient", jax.grad(lambda x: jnp.sum(nn.softmax(x)**2)), ROWS)
for name in ("erf", "erfc", "erfinv", "ndtr", "log_ndtr", "i0e", "entr"):
    case(name, getattr(jsp.special, name), ROWS)
for name in ("gammaln", "digamma", "i1e"):
    case(name, getattr(jsp.special, name), above_zero(256, 256))
case("betainc", jsp.special.betainc, above_zero(64, 64), above_zero(64, 64), lambda: np.abs(of(64, 64)()))
case("gammainc", jsp.special.gammainc, above_zero(64, 64), above_zero(64, 64))
case("zeta", lambda x: jsp.special.zeta(x + 1.5, 1.0), above_zero(64, 64))

for name in ("sum", "mean", "max", "min", "std", "var", "prod", "argmax", "argmin", "any", "all", "median", "cumsum", "cumprod", "sort",
             "argsort", "diff", "ptp", "nansum", "count_nonzero", "flip", "gradient", "nanmean"):
    for axis in (0, 1):
        case(f"{name}_axis_{axis}", lambda x, f=getattr(jnp, name), axis=axis: f(x, axis=axis), ROWS)
for name in ("sum", "max", "mean", "var", "linalg.norm"):
    f = jnp.linalg.norm if "norm" in name else getattr(jnp, name)
    case(f"{name}_of_all", f, ROWS)
    case(f"{name}_of_long", f, LONG)
case("cumsum_long", jnp.cumsum, LONG)
case("sort_long", jnp.sort, LONG)
case("percentile", lambda x: jnp.percentile(x, 90, axis=1), ROWS)
case("top_k", lambda x: lax.top_k(x, 10), ROWS)
case("unique_counts", lambda x: jnp.unique(x, size=256, return_counts=True), row_numbers(1 << 14, 256))
case("bincount", lambda x: jnp.bincount(x, length=256), row_numbers(1 << 16, 256))
case("histogram", lambda x: jnp.histogram(x, 64), LONG)
case("digitize", lambda x: jnp.digitize(x, jnp.linspace(-1, 1, 65)), LONG)
case("interp", lambda x: jnp.interp(x, jnp.linspace(-1, 1, 65), jnp.linspace(0, 1, 65)**2), LONG)
case("searchsorted_small", lambda x: jnp.searchsorted(jnp.linspace(-1, 1, 65), x), LONG)
case("cov", jnp.cov, of(64, 1024))
case("corrcoef", jnp.corrcoef, of(64, 1024))
case("convolve", lambda x, k: jnp.convolve(x, k, mode="same"), of(1 << 16), of(31))
case("correlate2d", lambda x, k: jsp.signal.convolve2d(x, k, mode="same"), of(256, 256), of(5, 5))
case("polyval", lambda p, x: jnp.polyval(p, x), of(8), LONG)
case("cross", jnp.cross, of(1 << 14, 3), of(1 << 14, 3))
case("outer", jnp.outer, of(512), of(512))
case("kron", jnp.kron, of(16, 16), of(32, 32))
case("trace", jnp.trace, ROWS)
case("vander", lambda x: jnp.vander(x, 16), of(4096))

case("transpose", jnp.transpose, ROWS)
case("transpose_2048", jnp.transpose, of(2048, 2048))
case("transpose_4d", lambda x: jnp.transpose(x, (0, 2, 1, 3)), of(8, 128, 8, 64))
case("transpose_nchw", lambda x: jnp.transpose(x, (0, 3, 1, 2)), of(4, 56, 56, 64))
case("concatenate", lambda x, y: jnp.concatenate([x, y], 1), ROWS, ROWS)
case("stack_last", lambda x, y: jnp.stack([x, y], -1), ROWS, ROWS)
case("split_add", lambda x: sum(jnp.split(x, 4, 1)), ROWS)
case("roll", lambda x: jnp.roll(x, 5, 1), ROWS)
case("pad", lambda x: jnp.pad(x, 3), ROWS)
case("pad_reflect", lambda x: jnp.pad(x, 3, mode="reflect"), ROWS)
case("tile", lambda x: jnp.tile(x, (2, 2)), of(256, 256))
case("repeat", lambda x: jnp.repeat(x, 4, 1), of(256, 256))
case("repeat_points", lambda x: jnp.repeat(x, 40, 0), of(400, 3))
case("strided_slice", lambda x: x[::2, ::2] * 1, ROWS)
case("tril", jnp.tril, ROWS)
case("where", lambda x, y: jnp.where(x > 0, x, y), ROWS, ROWS)
case("clip", lambda x: jnp.clip(x, -0.5, 0.5), ROWS)
case("one_hot", lambda i: nn.one_hot(i, 128), row_numbers(2048, 128))
case("take_rows", lambda x, i: jnp.take(x, i, 0), ROWS, row_numbers(1024, 512))
case("take_columns", lambda x, i: jnp.take(x, i, 1), ROWS, row_numbers(256, 512))
case("take_along_axis", lambda x, i: jnp.take_along_axis(x, i.reshape(512, 64), 1), ROWS, row_numbers(1 << 15, 512))
case("gather_pairs", lambda x, i, j: x[i, j], of(256, 256), row_numbers(1 << 16, 256), row_numbers(1 << 16, 256))
case("set_rows", lambda x, i, u: x.at[i].set(u), ROWS, row_numbers(64, 512), of(64, 512))
case("add_at", lambda x, i, u: x.at[i].add(u), of(4096), row_numbers(1 << 16, 4096), of(1 << 16))
case("max_at", lambda x, i, u: x.at[i].max(u), of(4096), row_numbers(1 << 16, 4096), of(1 << 16))
case("segment_sum", lambda x, i: jax.ops.segment_sum(x, i, 256), of(65536, 32), row_numbers(65536, 256))
case("segment_sum_points", lambda x, i: jax.ops.segment_sum(x, i, 400), of(16000, 3), row_numbers(16000, 400))
case("segment_sum_scalars", lambda x, i: jax.ops.segment_sum(x, i, 400), of(48000), row_numbers(48000, 400))
case("map_coordinates", lambda x, p: jsp.ndimage.map_coordinates(x, list(p * 255), 1), of(256, 256), lambda: np.abs(of(2, 256, 256)()))
case("resize", lambda x: jax.image.resize(x, (1, 256, 256, 3), "bilinear"), of(1, 128, 128, 3))
case("to_bf16", lambda x: x.astype(jnp.bfloat16), ROWS)
case("to_s32", lambda x: (x * 100).astype(jnp.int32), ROWS)
case("to_s8", lambda x: (x * 100).astype(jnp.int8), ROWS)
case("gelu_bf16", lambda x: nn.gelu(x.astype(jnp.bfloat16)), ROWS)
case("add_bf16", lambda x, y: x + y, of(512, 512, kind=jnp.bfloat16), of(512, 512, kind=jnp.bfloat16))
case("mod_s32", jnp.mod, of(512, 512, kind=np.int32), lambda: np.abs(of(512, 512, kind=np.int32)()) + np.int32(1))
case("multiply_and_shift_s32", lambda x: x * x + (x >> 3), of(512, 512, kind=np.int32))
case("bitwise", lambda x, y: (x & y) ^ (x | y), of(512, 512, kind=np.int32), of(512, 512, kind=np.int32))
case("popcount", lambda x: lax.population_count(x), of(512, 512, kind=np.int32))
case("complex_multiply", lambda x, y: x * y, of(256, 256, kind=np.complex64), of(256, 256, kind=np.complex64))
case("complex_exp", jnp.exp, of(256, 256, kind=np.complex64))
case("complex_abs", jnp.abs, of(256, 256, kind=np.complex64))
case("angle", jnp.angle, of(256, 256, kind=np.complex64))

case("matvec", jnp.matmul, ROWS, of(512))
case("matmul_128", jnp.matmul, of(128, 128), of(128, 128))
case("dense_relu", lambda x, w, b: nn.relu(x @ w + b), of(128, 512), of(512, 512), of(512))
case("einsum_bij_bjk", lambda x, y: jnp.einsum("bij,bjk->bik", x, y), of(64, 32, 32), of(64, 32, 32))
case("einsum_trace", lambda x, y: jnp.einsum("ij,ij->i", x, y), ROWS, ROWS)
case("products_of_3", jnp.matmul, of(4096, 3, 3), of(4096, 3, 3))
case("vdot", jnp.vdot, LONG, LONG)
case("inv_of_4", jnp.linalg.inv, lambda: positive(256, 4, 4))
case("det_of_3", jnp.linalg.det, of(4096, 3, 3))
case("distances", lambda x, y: jnp.sum((x[:, None] - y[None])**2, -1), of(256, 3), of(200, 3))
case("distances_16", lambda x: jnp.sqrt(jnp.sum((x[:, None] - x[None])**2, -1)), of(256, 16))
case("layer_norm", lambda x, g: (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-6) * g, ROWS, of(512))
case("layer_norm_gradient",
     jax.grad(lambda x, g: jnp.sum(((x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-6) * g)**3)), ROWS, of(512))
case("cross_entropy", lambda x, i: -jnp.mean(jnp.take_along_axis(nn.log_softmax(x), i[:, None], 1)), ROWS, row_numbers(512, 512))
case("adam",
     lambda w, g, m, v: (w - 0.1 * (0.9 * m + 0.1 * g) / (jnp.sqrt(0.99 * v + 0.01 * g * g) + 1e-8), 0.9 * m + 0.1 * g,
                         0.99 * v + 0.01 * g * g), *[above_zero(512, 512)] * 4)

case("uniform", lambda k: random.uniform(random.wrap_key_data(k), (512, 512)), key())
case("normal", lambda k: random.normal(random.wrap_key_data(k), (512, 512)), key())
case("randint", lambda k: random.randint(random.wrap_key_data(k), (512, 512), 0, 100), key())
case("bernoulli", lambda k: random.bernoulli(random.wrap_key_data(k), 0.3, (512, 512)), key())
case("permutation", lambda k: random.permutation(random.wrap_key_data(k), 4096), key())
case("categorical", lambda k, x: random.categorical(random.wrap_key_data(k), x), key(), ROWS)
case("gamma", lambda k: random.gamma(random.wrap_key_data(k), 2.0, (4096,)), key())
case("split", lambda k: random.key_data(random.split(random.wrap_key_data(k), 4096)), key())
case("exponential", lambda k: random.exponential(random.wrap_key_data(k), (512, 512)), key())


def fit(x, length):
    return jnp.pad(x, (0, max(0, length - x.shape[0])))[:length]


def cost(x, y):
    return (x**2).sum(-1)[:, None] + (y**2).sum(-1)[None] - 2 * x @ y.T


case("loop_logsumexp_rows", repeated(lambda g, m: fit(nn.logsumexp(m + g[None] * .1, 1), 200) * .01), of(200), SMALL)
case("loop_logsumexp_columns", repeated(lambda f, m: fit(nn.logsumexp(m + f[:, None] * .1, 0), 256) * .01), of(256), SMALL)
case("loop_cost_logsumexp",
     repeated(lambda g, x, y: fit(nn.logsumexp((g[None] - cost(x, y)) / .1, 1), 200) * .01), of(200), of(256, 3), of(200, 3))
case("loop_cost", repeated(lambda x, y: x + 1e-3 * cost(x, y).sum(1)[:, None]), of(256, 3), of(200, 3))
case("loop_distances", repeated(lambda x, y: x + 1e-3 * jnp.sum((x[:, None] - y[None])**2, -1).sum(1)[:, None]), of(256, 3), of(200, 3))
case("loop_exp", repeated(lambda c: jnp.exp(c) * .01), SMALL)
case("loop_row_maxima", repeated(lambda c, m: c * .5 + (m + c[:, None]).max(1)), of(256), SMALL)
case("loop_row_sums", repeated(lambda c, m: c * .5 + 1e-3 * (m + c[:, None]).sum(1)), of(256), SMALL)
case("loop_product_of_3", repeated(lambda c, y: c + (c @ y.T @ y) * 1e-6), of(256, 3), of(200, 3))
case("loop_gather_mean", repeated(lambda r, i: r + r[i.reshape(400, 40)].mean(1) * 1e-3), of(400, 3), row_numbers(16000, 400))
case("loop_scatter",
     repeated(lambda r, i: r + jnp.zeros_like(r).at[i].add(jnp.repeat(r, 40, 0)) * 1e-3), of(400, 3), row_numbers(16000, 400))
case("loop_pairs_mod",
     repeated(lambda r, i: r + (jnp.mod(r[i.reshape(400, 40)] - r[:, None] + 4.5, 9.) - 4.5).sum(1) * 1e-3), of(400, 3),
     row_numbers(16000, 400))
case("loop_sort", repeated(lambda c: jnp.sort(-c)), of(400))
case("loop_cumsum", repeated(lambda c: jnp.cumsum(c) * 1e-3), of(16000))
case("loop_sin_cos", repeated(lambda c: jnp.sin(c) + jnp.cos(c)), of(4096, 6))
case("loop_products_of_3", repeated(lambda c: c @ c * .3, 10), of(4096, 3, 3))
case("loop_split", repeated(lambda k: jax.vmap(lambda q: random.key_data(random.split(random.wrap_key_data(q))[0]))(k), 200),
     lambda: np.asarray(random.key_data(random.split(random.key(0), 256))))
case("loop_softmax", repeated(lambda x: nn.softmax(x * 3)), of(32, 64))
case("loop_layer", repeated(lambda x, w: jnp.tanh(x @ w)), of(32, 64), of(64, 64))
case("loop_matvec", repeated(lambda x, w: jnp.tanh(w @ x)), of(64), of(64, 64))
case("loop_update", repeated(lambda x: x.at[3].add(1.0) * 0.99), of(1024))
case("loop_products_8x8", repeated(lambda c, w: jnp.tanh(c @ w)), of(8, 8), of(8, 8))
case("loop_quaternion",
     repeated(lambda q, w: q + 0.01 * jnp.concatenate([jnp.cross(q[:, 1:], w), -jnp.sum(q[:, 1:] * w, 1, keepdims=True)], 1)),
     of(64, 4), of(64, 3))
case("loop_cholesky_solve", repeated(lambda x, a: jsp.linalg.cho_solve((jnp.linalg.cholesky(a), True), x)), of(6), lambda: positive(6, 6))
case("loop_stencil",
     repeated(lambda u: u + 0.1 * (jnp.roll(u, 1, 0) + jnp.roll(u, -1, 0) + jnp.roll(u, 1, 1) + jnp.roll(u, -1, 1) - 4 * u)), of(128, 128))
case("loop_stencil_slices",
     repeated(lambda u: u.at[1:-1, 1:-1].add(0.1 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1,
     1:-1]))), of(128, 128))

if __name__ == "__main__":
    compare.main(CASES)
