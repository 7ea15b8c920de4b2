#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares what our partitioner moves with what XLA's moves, over typical sharded programs of JAX (jaxlib 0.10.2).

usage: compare_with_xla.py [--meshlo PATH] [--only REGEX] [--keep DIR] [--table] [--list] [--files FILE…]

Each program is lowered for eight devices. XLA compiles it for CPU; its optimised program and ours are counted by the same
rule (`meshlo explain --json`: bytes that one device sends, ring algorithm, times the trip counts of the loops around).
Prints a line a program, and exits 1 if one moves more bytes than XLA's and is not named in EXPECTED with the reason.
--files takes annotated programs as HLO text instead (plain or .xz, for at most eight devices): whole models.
"""
import argparse
import json
import lzma
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from collections import Counter

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=8"
import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

F32, BF16, S32 = jnp.float32, jnp.bfloat16, jnp.int32
PROGRAMS = {}
# Programs in which ours moves more than XLA's, and why that is right.
EXPECTED = {}


def program(mesh, inputs, results=None):
    """Registers a program: axes and sizes of the mesh, (dims, spec[, type]) of each input, specs of the results."""

    def register(function):
        PROGRAMS[function.__name__] = (mesh, inputs, results, function)
        return function

    return register


D, M = "d", "m"
LINE, GRID = {"d": 8}, {"d": 4, "m": 2}


# ---- dense layers

@program(GRID, [((64, 128), P(D)), ((128, 256), P(None, M))], P(D, M))
def dense_column(x, w):
    return jax.nn.relu(x @ w)


@program(GRID, [((64, 128), P(D, M)), ((128, 256), P(M))], P(D))
def dense_row(x, w):
    return x @ w


@program(GRID, [((64, 128), P(D)), ((128, 512), P(None, M)), ((512, 128), P(M))], P(D))
def mlp_tensor_parallel(x, w1, w2):
    return jax.nn.gelu(x @ w1) @ w2


@program(GRID, [((64, 128), P(D, M)), ((128, 512), P(None, M)), ((512, 128), P(M))], P(D, M))
def mlp_sequence_scattered(x, w1, w2):
    return jax.nn.gelu(x @ w1) @ w2


def mlp_loss(weights, x, y):
    for w in weights[:-1]:
        x = jnp.tanh(x @ w)
    return jnp.mean((x @ weights[-1] - y) ** 2)


@program(LINE, [((128, 256), P()), ((256, 128), P()), ((64, 128), P(D)), ((64, 128), P(D))], (P(), P()))
def data_parallel_gradient(a, b, x, y):
    return jax.grad(lambda w: mlp_loss(w, x, y))((a, b))


@program(LINE, [((128, 256), P(D)), ((256, 128), P(D)), ((64, 128), P(D)), ((64, 128), P(D))], (P(D), P(D)))
def fsdp_gradient(a, b, x, y):
    return jax.grad(lambda w: mlp_loss(w, x, y))((a, b))


@program(GRID, [((128, 256), P(D, M)), ((256, 128), P(M, D)), ((64, 128), P(D)), ((64, 128), P(D))],
         (P(D, M), P(M, D)))
def fsdp_and_tensor_parallel_gradient(a, b, x, y):
    return jax.grad(lambda w: mlp_loss(w, x, y))((a, b))


@program(GRID, [((64, 128), P(D, M)), ((128, 256), P(D, M))], P(D, M))
def dot_two_dimensional(x, w):
    return x @ w


# ---- attention

def attention(q, k, v):
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / 8.0
    mask = jnp.tril(jnp.ones((q.shape[1], k.shape[1]), bool))
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(jnp.where(mask, scores, -1e9)), v)


@program(GRID, [((8, 64, 4, 16), P(D, None, M))] * 3, P(D, None, M))
def attention_by_heads(q, k, v):
    return attention(q, k, v)


@program(GRID, [((4, 64, 4, 16), P(D, M))] * 3, P(D, M))
def attention_by_sequence(q, k, v):
    return attention(q, k, v)


@program(GRID, [((4, 64, 8, 16), P(D, M))] * 3, P(D, M))
def attention_by_all_to_all(q, k, v):
    heads = NamedSharding(jax.make_mesh((4, 2), (D, M), axis_types=(AxisType.Auto,) * 2), P(D, None, M))
    q, k, v = (lax.with_sharding_constraint(a, heads) for a in (q, k, v))
    return attention(q, k, v)


@program(GRID, [((8, 64, 4, 16), P(D, None, M))] * 3, (P(D, None, M),) * 3)
def attention_gradient(q, k, v):
    return jax.grad(lambda a: jnp.sum(attention(*a) ** 2))((q, k, v))


@program(GRID, [((8, 64, 128), P(D)), ((128, 4, 3, 32), P(None, M)), ((4, 32, 128), P(M))], P(D))
def attention_block(x, w_in, w_out):
    q, k, v = jnp.moveaxis(jnp.einsum("bsm,mhtd->tbshd", x, w_in), 0, 0)
    return x + jnp.einsum("bshd,hdm->bsm", attention(q, k, v), w_out)


@program(GRID, [((8, 1, 4, 16), P(D, None, M)), ((8, 128, 4, 16), P(D, None, M)), ((8, 128, 4, 16), P(D, None, M)),
                ((), P(), S32)], (P(D, None, M), P(D, None, M)))
def decode_with_cache(q, keys, values, step):
    keys = lax.dynamic_update_slice(keys, q, (0, step, 0, 0))
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, keys)
    scores = jnp.where(jnp.arange(128) <= step, scores, -1e9)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), values), keys


@program(GRID, [((8, 1, 4, 16), P(D)), ((8, 128, 4, 16), P(D, M)), ((8, 128, 4, 16), P(D, M)), ((), P(), S32)],
         (P(D), P(D, M)))
def decode_with_cache_cut_by_sequence(q, keys, values, step):
    return decode_with_cache(q, keys, values, step)


# ---- mixtures of experts

@program(LINE, [((8, 64, 32), P(D)), ((32, 8), P()), ((8, 32, 64), P(D)), ((8, 64, 32), P(D))], P(D))
def mixture_of_experts(x, gate, w1, w2):
    weights = jax.nn.softmax(x @ gate)
    best = jnp.argmax(weights, -1)
    hot = jax.nn.one_hot(best, 8, dtype=F32)
    place = jnp.cumsum(hot, 1) * hot
    slots = jax.nn.one_hot(place, 16, dtype=F32) * hot[..., None]
    inputs = jnp.einsum("gsec,gsm->egcm", slots, x)
    hidden = jax.nn.relu(jnp.einsum("egcm,emh->egch", inputs, w1))
    outputs = jnp.einsum("egch,ehm->egcm", hidden, w2)
    return jnp.einsum("egcm,gsec->gsm", outputs, slots * weights[..., None])


@program(LINE, [((128, 32), P(D)), ((32, 8), P()), ((8, 32, 64), P(D)), ((8, 64, 32), P(D))], P(D))
def mixture_of_experts_dense(x, gate, w1, w2):
    weights = jax.nn.softmax(x @ gate)
    hidden = jax.nn.relu(jnp.einsum("sm,emh->esh", x, w1))
    return jnp.einsum("esh,ehm,se->sm", hidden, w2, weights)


@program(LINE, [((8, 16, 32), P(D))], P(None, D))
def switch_dimensions(x):
    return x * 2


# ---- embeddings and losses

@program(GRID, [((512, 64), P(M)), ((32, 16), P(D), S32)], P(D))
def embedding_cut_by_vocabulary(table, ids):
    return table[ids]


@program(GRID, [((512, 64), P(None, M)), ((32, 16), P(D), S32)], P(D))
def embedding_cut_by_feature(table, ids):
    return jnp.take(table, ids, axis=0)


@program(LINE, [((512, 64), P(D)), ((32, 16), P(D), S32), ((32, 16, 64), P(D))], P(D))
def embedding_gradient(table, ids, g):
    return jax.grad(lambda t: jnp.sum(t[ids] * g))(table)


@program(GRID, [((64, 512), P(D, M)), ((64,), P(D), S32)], P())
def cross_entropy_cut_by_vocabulary(logits, labels):
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1))


@program(GRID, [((64, 128), P(D)), ((128, 512), P(None, M)), ((64,), P(D), S32)], (P(D), P(None, M)))
def cross_entropy_gradient(x, w, labels):
    def loss(x, w):
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(x @ w), labels[:, None], 1))
    return jax.grad(loss, (0, 1))(x, w)


@program(GRID, [((64, 512), P(D, M))], P(D, M))
def softmax_cut(x):
    return jax.nn.softmax(x)


@program(LINE, [((512,), P(D))], P())
def log_sum_exp(x):
    return jax.nn.logsumexp(x)


# ---- norms

@program(GRID, [((64, 512), P(D, M)), ((512,), P(M))], P(D, M))
def layer_norm_cut(x, scale):
    mean = jnp.mean(x, -1, keepdims=True)
    return (x - mean) * lax.rsqrt(jnp.var(x, -1, keepdims=True) + 1e-5) * scale


@program(GRID, [((8, 32, 64), P(D, M)), ((64,), P())], (P(D, M), P()))
def rms_norm_gradient_by_sequence(x, scale):
    def norm(x, scale):
        return jnp.sum((x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-5) * scale) ** 2)
    return jax.grad(norm, (0, 1))(x, scale)


@program(LINE, [((32, 16, 16, 8), P(D)), ((8,), P()), ((8,), P())], P(D))
def batch_norm(x, scale, bias):
    mean, var = jnp.mean(x, (0, 1, 2)), jnp.var(x, (0, 1, 2))
    return (x - mean) * lax.rsqrt(var + 1e-5) * scale + bias


# ---- convolutions

def convolve(x, k, strides=(1, 1), padding="SAME", dilate=None, **more):
    return lax.conv_general_dilated(x, k, strides, padding, lhs_dilation=dilate,
                                    dimension_numbers=("NHWC", "HWIO", "NHWC"), **more)


@program(LINE, [((8, 32, 32, 8), P(None, D)), ((3, 3, 8, 16), P())], P(None, D))
def convolution_cut_by_rows(x, k):
    return convolve(x, k)


@program(LINE, [((8, 64, 32, 8), P(None, D)), ((3, 3, 8, 16), P())], P(None, D))
def convolution_with_strides(x, k):
    return convolve(x, k, (2, 2))


@program(LINE, [((8, 32, 32, 8), P(None, D)), ((3, 3, 8, 16), P())], (P(None, D), P()))
def convolution_gradient(x, k):
    return jax.grad(lambda x, k: jnp.sum(convolve(x, k) ** 2), (0, 1))(x, k)


@program(LINE, [((8, 64, 32, 8), P(None, D)), ((3, 3, 8, 16), P())], (P(None, D), P()))
def convolution_gradient_with_strides(x, k):
    return jax.grad(lambda x, k: jnp.sum(convolve(x, k, (2, 2)) ** 2), (0, 1))(x, k)


@program(LINE, [((8, 32, 16, 8), P(None, D)), ((4, 4, 8, 16), P())], P(None, D))
def convolution_transposed(x, k):
    return convolve(x, k, padding=((2, 2), (2, 2)), dilate=(2, 2))


@program(GRID, [((16, 16, 16, 8), P(D)), ((3, 3, 8, 16), P(None, None, None, M)), ((3, 3, 16, 8), P(None, None, M))],
         P(D))
def convolutions_by_feature(x, a, b):
    return convolve(jax.nn.relu(convolve(x, a)), b)


@program(LINE, [((8, 64, 32, 8), P(None, D))], P(None, D))
def max_pool(x):
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")


@program(LINE, [((8, 64, 32, 8), P(None, D))], P(None, D))
def max_pool_gradient(x):
    return jax.grad(lambda x: jnp.sum(lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME") ** 2))(x)


@program(LINE, [((8, 64, 32, 8), P(None, D))], P(None, D))
def mean_pool_gradient(x):
    return jax.grad(lambda x: jnp.sum(lax.reduce_window(x, 0., lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") ** 2))(x)


# ---- optimisers and steps

@program(LINE, [((256, 128), P(D))] * 4 + [((), P(), S32)], (P(D),) * 3)
def adam_update(w, m, v, g, step):
    m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
    t = step.astype(F32) + 1
    return w - 1e-3 * (m / (1 - 0.9**t)) / (jnp.sqrt(v / (1 - 0.99**t)) + 1e-8), m, v


@program(LINE, [((256, 128), P(D)), ((128, 64), P(None, D))], (P(D), P(None, D)))
def clip_by_global_norm(a, b):
    norm = jnp.sqrt(jnp.sum(a * a) + jnp.sum(b * b))
    return a / jnp.maximum(norm, 1), b / jnp.maximum(norm, 1)


@program(GRID, [((4, 128, 128), P(None, M, D)), ((32, 128), P(D))], P(D))
def scan_over_layers(weights, x):
    return lax.scan(lambda x, w: (jnp.tanh(x @ w), None), x, weights)[0]


@program(GRID, [((4, 64, 256), P(None, None, M)), ((4, 256, 64), P(None, M)), ((16, 32, 64), P(D, M))], P(D, M))
def scan_of_sequence_parallel_blocks(w1, w2, x):
    def block(x, w):
        mean = jnp.mean(x, -1, keepdims=True)
        return x + jax.nn.gelu((x - mean) @ w[0]) @ w[1], None
    return lax.scan(block, x, (w1, w2))[0]


@program(GRID, [((4, 64, 128), P(None, D, M)), ((4, 128, 64), P(None, M, D)), ((32, 64), P(D))],
         (P(None, D, M), P(None, M, D)))
def gradient_of_scanned_layers(w1, w2, x):
    def loss(w):
        return jnp.sum(lax.scan(lambda x, w: (x + jnp.tanh(x @ w[0]) @ w[1], None), x, w)[0] ** 2)
    return jax.grad(loss)((w1, w2))


# ---- orders and indices

@program(GRID, [((64, 512), P(D, M))], (P(D), P(D)))
def top_k_cut(x):
    return tuple(lax.top_k(x, 8))


@program(LINE, [((64, 512), P(None, D))], (P(), P()))
def top_k_cut_by_eight(x):
    return tuple(lax.top_k(x, 8))


@program(LINE, [((64, 512), P(None, D))], P())
def argmax_cut(x):
    return jnp.argmax(x, 1)


@program(LINE, [((64, 512), P(None, D))], P(None, D))
def sort_cut_with_batch(x):
    return jnp.sort(x, 1)


@program(LINE, [((4096,), P(D))], P(D))
def sort_cut(x):
    return jnp.sort(x)


@program(LINE, [((4096,), P(D))], P(D))
def argsort_cut(x):
    return jnp.argsort(x)


@program(LINE, [((64, 512), P(None, D))], P())
def median_cut(x):
    return jnp.median(x, 1)


@program(LINE, [((64, 512), P(None, D))], P(None, D))
def cumulative_sum_cut(x):
    return jnp.cumsum(x, 1)


@program(LINE, [((64, 512), P(None, D))], (P(), P()))
def approximate_max_k(x):
    return tuple(lax.approx_max_k(x, 8))


# ---- moving things

@program(LINE, [((64, 64), P(D))], P(D))
def roll_cut(x):
    return jnp.roll(x, 3, 0)


@program(LINE, [((64, 64), P(D))], P(D))
def transpose_cut(x):
    return x.T


@program(GRID, [((16, 64, 32), P(D, M))], P((D, M)))
def merge_dimensions(x):
    return x.reshape(1024, 32) * 2


@program(GRID, [((32, 8, 4, 16), P(D, None, M))], P(D, None, M))
def join_heads(x):
    return x.reshape(32, 8, 64)


@program(GRID, [((32, 64), P(D, M))], P(D, M))
def split_heads(x):
    return x.reshape(32, 4, 16)


@program(LINE, [((64, 32), P(D)), ((64, 32), P(D))], P(D))
def concatenate_cut(x, y):
    return jnp.concatenate([x, y])


@program(LINE, [((16, 32), P(D))] * 12, P(D))
def concatenate_twelve(*parts):
    return jnp.concatenate(parts)


@program(LINE, [((64, 32), P(D))], (P(D), P(D)))
def split_in_two(x):
    return tuple(jnp.split(x, 2))


@program(LINE, [((64, 32), P(D)), ((), P(), S32)], P())
def dynamic_row(x, i):
    return lax.dynamic_slice(x, (i, 0), (1, 32))


@program(LINE, [((64, 32), P(D)), ((1, 32), P()), ((), P(), S32)], P(D))
def dynamic_update_row(x, row, i):
    return lax.dynamic_update_slice(x, row, (i, 0))


@program(LINE, [((64, 32), P(D))], P(D))
def pad_inside(x):
    return lax.pad(x, 0., ((0, 65, 1), (0, 0, 0)))


@program(LINE, [((64, 32), P(D))], P(D))
def reverse_cut(x):
    return x[::-1]


@program(LINE, [((64, 32), P(D))], P(D))
def differences(x):
    return jnp.pad(x[1:] - x[:-1], ((0, 1), (0, 0)))


@program(LINE, [((128, 128), P(D))], P(D))
def random_dropout(x):
    return jnp.where(jax.random.bernoulli(jax.random.key(0), 0.9, x.shape), x / 0.9, 0)


@program(LINE, [((64, 64), P(D), jnp.complex64)], P(D))
def fourier(x):
    return jnp.fft.fft2(x)


@program(LINE, [((8, 32, 32), P(D)), ((8, 32, 4), P(D))], P(D))
def batched_solve(a, b):
    return lax.linalg.triangular_solve(a, b, left_side=True, lower=True)


# ---- from one sharding to another

@program(GRID, [((32, 64), P(D, M))], P(M, D))
def exchange_axes(x):
    return x * 2


@program(GRID, [((64, 64), P((D, M)))], P((M, D)))
def reorder_axes(x):
    return x * 2


@program(GRID, [((64, 64), P(D))], P(M))
def other_axis(x):
    return x * 2


@program(GRID, [((64, 64), P(D, M))], P((D, M)))
def join_axes(x):
    return x * 2


@program(GRID, [((64, 64), P(D, M))], P(None, (D, M)))
def join_axes_on_the_other(x):
    return x * 2


@program(LINE, [((64, 8, 64), P(D))], P(None, None, D))
def far_dimension(x):
    return x * 2


@program(LINE, [((8, 64), P(None, D))], P(D))
def merge_a_cut_minor(x):
    return x.reshape(512)


@program(LINE, [((64, 16), P(D))], P())
def split_and_sum(x):
    return x.reshape(4, 16, 16).sum(1)


@program(GRID, [((24, 16), P(D))], P(D))
def split_unevenly(x):
    return x.reshape(4, 6, 16).transpose(1, 0, 2).reshape(24, 16)


@program(LINE, [((64, 16), P(D))], P(D))
def repeat_rows(x):
    return jnp.repeat(x, 2, 0)


@program(LINE, [((64, 16), P(D))], P(D))
def tile_rows(x):
    return jnp.tile(x, (2, 1))


@program(LINE, [((64, 64), P(D))], P(D))
def roll_both_ways(x):
    return jnp.roll(x, (5, 7), (0, 1))


@program(GRID, [((8, 32, 64), P(D, None, M))], P(D, None, M))
def rotary_embedding(x):
    angle = jnp.arange(32)[:, None] * (1e-4 ** (jnp.arange(32) / 32))
    a, b = jnp.split(x, 2, -1)
    return jnp.concatenate([a * jnp.cos(angle) - b * jnp.sin(angle), b * jnp.cos(angle) + a * jnp.sin(angle)], -1)


@program(LINE, [((64, 64), P(D))], P(D))
def lower_triangle(x):
    return jnp.tril(x) + jnp.diag(jnp.arange(64.))


# ---- indices

@program(LINE, [((64, 32), P(D)), ((), P(), S32)], P(D))
def dynamic_quarter(x, i):
    return lax.dynamic_slice(x, (i, 0), (16, 32))


@program(LINE, [((64, 32), P(D)), ((16, 32), P(D)), ((), P(), S32)], P(D))
def dynamic_update_quarter(x, part, i):
    return lax.dynamic_update_slice(x, part, (i, 0))


@program(LINE, [((64, 32), P(D)), ((), P(), S32)], P(D))
def roll_by_a_variable(x, i):
    return jnp.roll(x, i, 0)


@program(LINE, [((512, 64), P(D)), ((64,), P(D), S32)], P(D))
def gather_rows_of_a_cut_table(table, ids):
    return table[ids]


@program(LINE, [((512, 64), P(D)), ((64,), P(D), S32), ((64, 64), P(D))], P(D))
def scatter_add_rows(table, ids, rows):
    return table.at[ids].add(rows)


@program(LINE, [((512, 64), P(D)), ((64,), P(), S32), ((64, 64), P())], P(D))
def scatter_set_rows(table, ids, rows):
    return table.at[ids].set(rows)


@program(LINE, [((64, 512), P(None, D)), ((64, 4), P(), S32)], P())
def take_along_a_cut_axis(x, i):
    return jnp.take_along_axis(x, i, 1)


@program(GRID, [((8, 128, 4, 16), P(D, None, M)), ((8, 1, 4, 16), P(D, None, M)), ((8,), P(D), S32)], P(D, None, M))
def cache_update_at_own_places(cache, new, places):
    return jax.vmap(lambda c, n, i: lax.dynamic_update_slice(c, n, (i, 0, 0)))(cache, new, places)


@program(LINE, [((4096,), P(D), S32)], P())
def histogram(x):
    return jnp.bincount(x % 32, length=32)


@program(LINE, [((64, 32), P(D)), ((32, 8), P()), ((8, 32, 64), P(D)), ((8, 64, 32), P(D))], P(D))
def top_two_experts(x, gate, w1, w2):
    weights, best = lax.top_k(jax.nn.softmax(x @ gate), 2)
    hot = jnp.sum(jax.nn.one_hot(best, 8, dtype=F32) * weights[..., None], 1)
    hidden = jax.nn.relu(jnp.einsum("sm,emh->esh", x, w1))
    return jnp.einsum("esh,ehm,se->sm", hidden, w2, hot)


# ---- along a cut dimension

@program(LINE, [((64, 512), P(None, D))], P(None, D))
def cumulative_maximum_from_the_end(x):
    return lax.cummax(x, 1, reverse=True)


@program(LINE, [((512, 16), P(D))], P(D))
def associative_scan(x):
    return lax.associative_scan(jnp.add, x)


@program(LINE, [((64, 512), P(None, D)), ((9,), P())], P(None, D))
def convolve_in_one_dimension(x, k):
    return jax.vmap(lambda row: jnp.convolve(row, k, "same"))(x)


@program(LINE, [((8, 64, 32, 8), P(None, D)), ((3, 3, 1, 8), P())], P(None, D))
def convolution_of_each_feature(x, k):
    return convolve(x, k, feature_group_count=8)


@program(GRID, [((8, 32, 32, 16), P(D, None, None, M)), ((3, 3, 4, 32), P(None, None, None, M))], P(D, None, None, M))
def convolution_in_groups(x, k):
    return convolve(x, k, feature_group_count=4)


@program(LINE, [((8, 64, 32, 8), P(None, D)), ((3, 3, 8, 16), P())], P(None, D))
def convolution_with_holes(x, k):
    return lax.conv_general_dilated(x, k, (1, 1), "SAME", rhs_dilation=(2, 2),
                                    dimension_numbers=("NHWC", "HWIO", "NHWC"))


@program(LINE, [((8, 128, 16), P(None, D)), ((4, 16, 32), P())], P(None, D))
def causal_convolution(x, k):
    return lax.conv_general_dilated(x, k, (1,), ((3, 0),), dimension_numbers=("NWC", "WIO", "NWC"))


@program(LINE, [((8, 64, 64, 4), P(None, D)), ((3, 3, 4, 8), P()), ((3, 3, 8, 8), P()), ((64, 10), P())],
         P())
def convolutional_network(x, a, b, w):
    x = jax.nn.relu(convolve(x, a, (2, 2)))
    x = lax.reduce_window(jax.nn.relu(convolve(x, b)), -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return x.mean((1, 2)).repeat(8, 1) @ w


@program(LINE, [((8, 64, 64), P(D)), ((64, 64), P()), ((64, 64), P())], P(D))
def recurrent_network(x, w, u):
    def step(h, x):
        h = jnp.tanh(x @ w + h @ u)
        return h, h
    return jnp.moveaxis(lax.scan(step, jnp.zeros((8, 64)), jnp.moveaxis(x, 1, 0))[1], 0, 1)


@program(LINE, [((4, 64, 16), P(None, D))] * 3, P(None, D))
def attention_over_blocks(q, k, v):
    def block(state, kv):
        best, total, out = state
        scores = jnp.einsum("bqd,bkd->bqk", q, kv[0])
        new = jnp.maximum(best, scores.max(-1))
        p = jnp.exp(scores - new[..., None])
        scale = jnp.exp(best - new)
        return (new, total * scale + p.sum(-1), out * scale[..., None] + jnp.einsum("bqk,bkd->bqd", p, kv[1])), None
    blocks = tuple(jnp.moveaxis(a.reshape(4, 8, 8, 16), 1, 0) for a in (k, v))
    start = jnp.full((4, 64), -1e9), jnp.zeros((4, 64)), jnp.zeros((4, 64, 16))
    return (lambda s: s[2] / s[1][..., None])(lax.scan(block, start, blocks)[0])


@program(GRID, [((64, 128), P((D, M))), ((128, 512), P(D, M)), ((512, 128), P(M, D))], P((D, M)))
def mlp_over_all_axes(x, w1, w2):
    return jax.nn.gelu(x @ w1) @ w2


@program(GRID, [((16, 32, 64), P(D)), ((64, 64), P(None, M)), ((64,), P(M)), ((64, 64), P(M))], (P(D), P(None, M)))
def tensor_parallel_gradient(x, w1, b, w2):
    def loss(x, w1):
        return jnp.sum((jax.nn.silu(x @ w1 + b) @ w2) ** 2)
    return jax.grad(loss, (0, 1))(x, w1)


@program(LINE, [((256, 128), P(D)), ((128, 256), P(None, D))], P(D))
def product_of_cut_sums(x, y):
    return (x - x.mean(0)) @ (y - y.mean(1, keepdims=True)).T.T


@program(LINE, [((64, 64), P(D))], P(D))
def power_iteration(a):
    v = lax.fori_loop(0, 5, lambda i, v: (lambda w: w / jnp.linalg.norm(w))(a @ v), jnp.ones(64))
    return jnp.outer(a @ v, v)


@program(LINE, [((64, 32), P(D))], P(D))
def all_gather_by_hand(x):
    mesh = jax.make_mesh((8,), (D,), axis_types=(AxisType.Auto,))
    body = lambda x: lax.psum_scatter(jnp.tanh(lax.all_gather(x, D, tiled=True)), D, tiled=True)
    return jax.shard_map(body, mesh=mesh, in_specs=P(D), out_specs=P(D))(x)


@program(LINE, [((64, 32), P(D))], P(D))
def branch(x):
    return lax.cond(x.sum() > 0, lambda x: x - x.max(0), lambda x: x[::-1], x)


# ---- by hand

@program(LINE, [((64, 64), P(D)), ((64, 64), P(D))], P(D))
def ring_of_products(x, w):
    mesh = jax.make_mesh((8,), (D,), axis_types=(AxisType.Auto,))

    def body(x, w):
        total = jnp.zeros((8, 64), F32)
        for k in range(8):
            rows = (lax.axis_index(D) - k) % 8
            total += lax.dynamic_slice(x, (0, rows * 8), (8, 8)) @ w
            w = lax.ppermute(w, D, [(i, (i + 1) % 8) for i in range(8)])
        return total

    return jax.shard_map(body, mesh=mesh, in_specs=P(D), out_specs=P(D))(x, w)


@program(GRID, [((64, 128), P(D)), ((128, 128), P(M))], P(D))
def manual_over_one_axis(x, w):
    mesh = jax.make_mesh((4, 2), (D, M), axis_types=(AxisType.Auto,) * 2)
    part = jax.shard_map(lambda x, w: lax.psum(x @ w, M), mesh=mesh, in_specs=(P(None, M), P(M)), out_specs=P(),
                         axis_names={M})
    return jax.nn.relu(part(x, w))


# ---- counting

def lower(name):
    axes, inputs, results, function = PROGRAMS[name]
    mesh = jax.make_mesh(tuple(axes.values()), tuple(axes), axis_types=(AxisType.Auto,) * len(axes))
    shapes = [jax.ShapeDtypeStruct(i[0], i[2] if len(i) > 2 else F32, sharding=NamedSharding(mesh, i[1])) for i in inputs]
    outputs = jax.tree.map(lambda s: NamedSharding(mesh, s), results, is_leaf=lambda s: isinstance(s, P))
    return jax.jit(function, out_shardings=outputs).lower(*shapes)


def explain(meshlo, path, *more):
    """The report of a program's collectives."""
    command = [meshlo, "explain", str(path), "--json", *more]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[0] if done.stderr else f"exit code {done.returncode}")
    return json.loads(done.stdout)


def count(meshlo, path, *more):
    """{opcode: how often} of a program's collectives, and the bytes of all."""
    report = explain(meshlo, path, *more)
    kinds = Counter()
    for collective in report["collectives"]:
        kinds[collective["opcode"]] += max(collective["trip_count"], 1)
    return kinds, int(report["total_bytes_per_device"])


def spell(kinds):
    short = {"all-reduce": "AR", "all-gather": "AG", "reduce-scatter": "RS", "all-to-all": "A2A",
             "collective-permute": "CP", "collective-broadcast": "CB"}
    return " ".join(f"{n} {short.get(kind, kind)}" for kind, n in sorted(kinds.items())) or "none"


def compile_text(text, partitions):
    """What XLA makes of an annotated program for so many devices, as text."""
    from jax._src import compiler, xla_bridge
    from jax._src.interpreters import mlir
    from jax._src.lib import xla_client
    from jax._src.lib.mlir import ir
    from jaxlib import _hlo, _jax
    proto = _hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()
    options = compiler.get_compile_options(num_replicas=1, num_partitions=partitions)
    build = options.executable_build_options
    build.use_spmd_partitioning = build.use_shardy_partitioner = True
    build.allow_spmd_sharding_propagation_to_output = [True]
    build.allow_spmd_sharding_propagation_to_parameters = [True]
    with mlir.make_ir_context():
        module = ir.Module.parse(_jax.mlir.hlo_to_stablehlo(proto))
        devices = xla_client.DeviceList(tuple(jax.devices()[:partitions]))
        executable = xla_bridge.get_backend().compile_and_load(module, devices, options)
    return executable.hlo_modules()[0].to_string()


def compare_file(path, meshlo, folder):
    """As compare(), for a file."""
    opener = lzma.open if path.suffix == ".xz" else open
    with opener(path, "rt") as file:
        text = file.read()
    theirs = folder / f"{path.name}.xla.hlo"
    theirs.write_text(compile_text(text, explain(meshlo, path)["num_partitions"]))
    return judge(meshlo, path, theirs)


def judge(meshlo, ours, theirs):
    kinds, total = count(meshlo, theirs, "--partitioned")
    try:
        our_kinds, our_total = count(meshlo, ours)
    except RuntimeError as error:
        return "fails", kinds, total, str(error), -1
    verdict = "more" if our_total > total else "fewer" if our_total < total else "same"
    return verdict, kinds, total, our_kinds, our_total


def compare(name, meshlo, folder):
    """(verdict, XLA's kinds, its bytes, our kinds, our bytes); verdict is one of fewer, same, more, fails."""
    lowered = lower(name)
    ours, theirs = folder / f"{name}.mlir", folder / f"{name}.hlo"
    ours.write_text(lowered.as_text())
    theirs.write_text(lowered.compile().as_text())
    return judge(meshlo, ours, theirs)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--meshlo", default="build/release/bin/meshlo")
    parser.add_argument("--only", default="")
    parser.add_argument("--keep", type=pathlib.Path, help="leave the programs in this folder")
    parser.add_argument("--table", action="store_true", help="print the table of docs/sharding.md")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--files", type=pathlib.Path, nargs="*", help="programs as HLO text")
    options = parser.parse_args()
    names = options.files or [name for name in PROGRAMS if re.search(options.only, name)]
    if options.list:
        print("\n".join(names))
        return 0
    verdicts, bad = Counter(), []
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.keep or pathlib.Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        for name in names:
            one = compare_file if options.files else compare
            verdict, kinds, total, our_kinds, our_total = one(name, options.meshlo, folder)
            name = name.name.split(".hlo")[0] if options.files else name
            verdicts[verdict] += 1
            if verdict == "fails" or (verdict == "more" and name not in EXPECTED):
                bad.append(name)
            ours = our_kinds if verdict == "fails" else spell(our_kinds)
            if options.table:
                print(f"| {name.replace('_', ' ')} | {spell(kinds)} | {total:,} | {ours} | {our_total:,} |")
            else:
                print(f"{verdict:5} {name:36} {total:9} {spell(kinds):28} {our_total:9} {ours}", flush=True)
    print(f"{len(names)} programs: " + ", ".join(f"{n} {v}" for v, n in sorted(verdicts.items())), file=sys.stderr)
    if bad:
        print("to look at: " + " ".join(bad), file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
