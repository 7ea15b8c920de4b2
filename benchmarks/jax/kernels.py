#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kernels that no program of benchmarks/programs reaches, one operation each, beside XLA:CPU as compare.py does it: in one
process and in turns, the least time of ROUNDS (default 7) turns in microseconds.

    TPU_LIBRARY_PATH=build/release/libmeshlo_pjrt.so python benchmarks/jax/kernels.py [ROUNDS [CASE…]]

A CASE may be the beginning of several names. On a busy machine:

    BENCH_CLOCK=processor MESHLO_NUM_THREADS=1 taskset -c 1 python benchmarks/jax/kernels.py
"""

import compare  # reads and sets the environment: before JAX

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

CASES = {}
RANDOM = np.random.default_rng(0)


def array(*dims, kind=np.float32):
    """Whole numbers for integer types, else parts from -1 to 1."""
    if np.issubdtype(kind, np.integer):
        return RANDOM.integers(-100, 100, dims).astype(kind)
    values = RANDOM.uniform(-1, 1, dims)
    if np.issubdtype(kind, np.complexfloating):
        values = values + 1j * RANDOM.uniform(-1, 1, dims)
    return values.astype(kind)


def positive(*dims, kind=np.float32):
    """Hermitian and positive definite."""
    a = array(*dims, kind=kind)
    return (a @ np.conj(np.swapaxes(a, -1, -2)) + dims[-1] * np.eye(dims[-1])).astype(kind)


def case(name, function, *arguments):
    """Registers one operation: `arguments` makes its operands when it is measured."""

    def make(devices):
        operands = jax.device_put([argument() for argument in arguments], devices[0])
        f = jax.jit(function)
        return lambda: jax.block_until_ready(f(*operands)), 1

    CASES[name] = make


def of(*dims, kind=np.float32):
    return lambda: array(*dims, kind=kind)


def convolution(dimensions="NHWC HWIO NHWC", padding="SAME", stride=1, dilation=1, groups=1):
    names = tuple(dimensions.split())
    rank = len(names[0]) - 2

    def f(x, w):
        return lax.conv_general_dilated(x, w, (stride,) * rank, padding, lhs_dilation=(dilation,) * rank,
                                        dimension_numbers=names, feature_group_count=groups)

    return f


def gradients(f):
    return jax.grad(lambda x, w: jnp.sum(f(x, w)**2), (0, 1))


FIRST = "NCHW OIHW NCHW"
case("conv_7x7_32", convolution(), of(2, 56, 56, 32), of(7, 7, 32, 32))
case("conv_3x3_64", convolution(), of(8, 56, 56, 64), of(3, 3, 64, 64))
case("conv_3x3_256", convolution(), of(8, 14, 14, 256), of(3, 3, 256, 256))
case("conv_3x3_64_gradients", gradients(convolution()), of(8, 56, 56, 64), of(3, 3, 64, 64))
case("conv_3x3_16", convolution(), of(8, 56, 56, 16), of(3, 3, 16, 16))
case("conv_5x5_one_feature", convolution(), of(32, 28, 28, 1), of(5, 5, 1, 32))
case("conv_5x5_large_one_feature", convolution(), of(1, 512, 512, 1), of(5, 5, 1, 1))
case("conv_7x7_stride_2", convolution(stride=2), of(4, 224, 224, 3), of(7, 7, 3, 64))
case("conv_7x7_stride_2_gradients", gradients(convolution(stride=2)), of(4, 224, 224, 3), of(7, 7, 3, 64))
case("conv_transposed_4x4", convolution(padding=((2, 2), (2, 2)), dilation=2), of(8, 28, 28, 64), of(4, 4, 64, 32))
case("conv_3x3_first", convolution(FIRST), of(8, 64, 56, 56), of(64, 64, 3, 3))
case("conv_3x3_first_gradients", gradients(convolution(FIRST)), of(8, 64, 56, 56), of(64, 64, 3, 3))
case("conv_7x7_first", convolution(FIRST, stride=2), of(4, 3, 224, 224), of(64, 3, 7, 7))
case("conv_1x1_first", convolution(FIRST), of(8, 256, 28, 28), of(128, 256, 1, 1))
case("conv_1x1", convolution(), of(8, 28, 28, 256), of(1, 1, 256, 128))
case("conv_1x1_stride_2", convolution(stride=2), of(8, 28, 28, 256), of(1, 1, 256, 128))
case("conv_depthwise", convolution(groups=64), of(8, 56, 56, 64), of(3, 3, 1, 64))
case("conv_depthwise_gradients", gradients(convolution(groups=64)), of(8, 56, 56, 64), of(3, 3, 1, 64))
case("conv_3d", convolution("NDHWC DHWIO NDHWC"), of(2, 16, 28, 28, 16), of(3, 3, 3, 16, 32))
case("conv_3d_gradients", gradients(convolution("NDHWC DHWIO NDHWC")), of(2, 16, 28, 28, 16), of(3, 3, 3, 16, 32))
case("conv_1d", convolution("NWC WIO NWC"), of(8, 1024, 64), of(9, 64, 64))

case("matvec_batched_16", jnp.matmul, of(4096, 16, 16), of(4096, 16, 1))
case("matvec_batched_64", jnp.matmul, of(4096, 64, 64), of(4096, 64, 1))
case("vecmat_batched_16", jnp.matmul, of(4096, 1, 16), of(4096, 16, 16))
case("vecmat_batched_64", jnp.matmul, of(4096, 1, 64), of(4096, 64, 64))
case("matvec_tall_skinny", jnp.matmul, of(100000, 8), of(8))
case("products_of_3", jnp.matmul, of(10000, 3, 3), of(10000, 3, 3))
case("products_of_8", jnp.matmul, of(4096, 8, 8), of(4096, 8, 8))
case("products_of_16", jnp.matmul, of(1024, 16, 16), of(1024, 16, 16))
case("products_of_16_c64", jnp.matmul, of(1024, 16, 16, kind=np.complex64), of(1024, 16, 16, kind=np.complex64))
case("products_of_64", jnp.matmul, of(128, 64, 64), of(128, 64, 64))
case("dot_c64_256", jnp.matmul, of(256, 256, kind=np.complex64), of(256, 256, kind=np.complex64))
case("dot_s32_64", jnp.matmul, of(64, 64, kind=np.int32), of(64, 64, kind=np.int32))
case("dot_s32_256", jnp.matmul, of(256, 256, kind=np.int32), of(256, 256, kind=np.int32))
case("dot_s32_1024", jnp.matmul, of(1024, 1024, kind=np.int32), of(1024, 1024, kind=np.int32))
case("dot_s16_256", jnp.matmul, of(256, 256, kind=np.int16), of(256, 256, kind=np.int16))
case("dot_s8_s8_256", jnp.matmul, of(256, 256, kind=np.int8), of(256, 256, kind=np.int8))
case("matvec_s32_1024", jnp.matmul, of(1024, 1024, kind=np.int32), of(1024, kind=np.int32))

for size in (128, 512, 1024):
    case(f"cholesky_{size}", lax.linalg.cholesky, lambda size=size: positive(size, size))
case("cholesky_256_of_16", lax.linalg.cholesky, lambda: positive(256, 16, 16))
case("cholesky_256_of_64", lax.linalg.cholesky, lambda: positive(256, 64, 64))
case("cholesky_c64_512", lax.linalg.cholesky, lambda: positive(512, 512, kind=np.complex64))
for size in (32, 512, 1024):
    case(f"lu_{size}", lax.linalg.lu, of(size, size))
case("lu_256_of_8", lax.linalg.lu, of(256, 8, 8))
case("lu_256_of_32", lax.linalg.lu, of(256, 32, 32))
case("lu_512_of_64", lax.linalg.lu, of(64, 64, 64))
case("solve_256_of_16", jnp.linalg.solve, of(256, 16, 16), of(256, 16, 1))
for size in (32, 512):
    case(f"qr_{size}", jnp.linalg.qr, of(size, size))
case("qr_512_of_8", jnp.linalg.qr, of(512, 8, 8))
case("qr_512_of_16", jnp.linalg.qr, of(512, 16, 16))
case("qr_64_of_64", jnp.linalg.qr, of(64, 64, 64))
case("triangular_512", lambda a, b: lax.linalg.triangular_solve(a, b, left_side=True, lower=True),
     lambda: positive(512, 512), of(512, 512))
for size in (8, 32, 128, 256, 512):
    case(f"eigh_{size}", jnp.linalg.eigh, lambda size=size: positive(size, size))
case("eigh_128_of_8", jnp.linalg.eigh, lambda: positive(128, 8, 8))
case("svd_64", lambda x: jnp.linalg.svd(x), of(64, 64))


def scatter(table, rows, updates):
    return table.at[rows].add(updates)


def row_numbers(count, below):
    return lambda: RANDOM.integers(0, below, (count,)).astype(np.int32)


case("scatter_add_rows", scatter, of(32000, 512), row_numbers(8192, 32000), of(8192, 512))
case("scatter_add_small_table", scatter, of(1000, 64), row_numbers(65536, 1000), of(65536, 64))
case("scatter_add_elements", scatter, of(1 << 20), row_numbers(1 << 18, 1 << 20), of(1 << 18))
case("segment_sum", lambda x, i: jax.ops.segment_sum(x, i, 256), of(65536, 32), row_numbers(65536, 256))
case("segment_max", lambda x, i: jax.ops.segment_max(x, i, 256), of(65536, 32), row_numbers(65536, 256))
case("gather_elements", lambda x, i: x[i], of(1 << 20), row_numbers(1 << 18, 1 << 20))
case("gather_short_rows", lambda x, i: x[i], of(10000, 8), row_numbers(1 << 16, 10000))
case("scatter_add_points", lambda x, i: jnp.zeros((400, 3)).at[i].add(x), of(16000, 3), row_numbers(16000, 400))
case("repeat_points", lambda x: jnp.repeat(x, 40, 0), of(400, 3))
case("neighbour_differences", lambda x, i: x[i.reshape(400, 40)] - x[:, None], of(400, 3), row_numbers(16000, 400))
case("gather_pairs", lambda x, i, j: x[i, j], of(256, 256), row_numbers(1 << 16, 256), row_numbers(1 << 16, 256))
case("modulo", lambda x: jnp.mod(x, 0.9), of(48000))
case("sum_of_middle", lambda x: jnp.sum(x, 1), of(400, 40, 3))
case("modulo_sum_of_middle", lambda x: jnp.sum(jnp.mod(x + 0.45, 0.9), 1), of(400, 40, 3))
case("map_coordinates", lambda x, p: jax.scipy.ndimage.map_coordinates(x, list(p * 255), 1), of(256, 256),
     lambda: np.abs(array(2, 256, 256)))
case("row_maxima_of_200", lambda x, y: jnp.max(x + y[:, None], 1), of(256, 200), of(256))
case("histogram", lambda i: jnp.zeros(256, jnp.int32).at[i].add(1), row_numbers(1 << 18, 256))
case("cumlogsumexp", lambda x: lax.cumlogsumexp(x, 1), of(256, 1024))
case("distances_512_of_16", lambda x: jnp.sqrt(jnp.sum((x[:, None] - x[None])**2, -1)), of(512, 16))
case("n_body_gradient", jax.grad(lambda x: jnp.sum(1 / (jnp.sum((x[:, None] - x[None])**2, -1) + 0.1))), of(512, 3))
case("quotients_s32", lambda x, y: x // (jnp.abs(y) + 1), of(1 << 20, kind=np.int32), of(1 << 20, kind=np.int32))
case("fft2_magnitude", lambda x: jnp.abs(jnp.fft.fft2(x)), of(512, 512))
case("searchsorted", jnp.searchsorted, lambda: np.sort(array(10000)), of(100000))
case("take_along_axis", lambda x, i: jnp.take_along_axis(x, i.reshape(1024, 64), 1), of(1024, 1024), row_numbers(1 << 16, 1024))


def causal_attention(q, k, v):
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / 8
    scores = jnp.where(jnp.tril(jnp.ones(scores.shape[-2:], bool)), scores, -1e30)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, -1), v)


case("causal_attention_1024", causal_attention, *[of(1, 1024, 8, 64)] * 3)
case("average_pool_2x2", lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"),
     of(8, 112, 112, 32))
case("max_pool_gradient",
     jax.grad(lambda x: jnp.sum(lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")**2)),
     of(8, 112, 112, 32))


if __name__ == "__main__":
    compare.main(CASES)
