#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Asks jax.random (jax 0.10.2 on the CPU) for the values in golden.def: python make_golden.py > golden.def"""
import os

os.environ["JAX_PLATFORMS"] = "cpu"
import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)
TYPES = {"U8": jnp.uint8, "U16": jnp.uint16, "U32": jnp.uint32, "U64": jnp.uint64, "S8": jnp.int8, "S16": jnp.int16,
         "S32": jnp.int32, "S64": jnp.int64, "F16": jnp.float16, "BF16": jnp.bfloat16, "F32": jnp.float32,
         "F64": jnp.float64}
SHAPES = [(), (1,), (5,), (2, 3), (3, 1, 4)]
SEEDS = [0, 123, -1, 2**40 + 7]


def draw(function, key, name, dims, a, b):
    kind = TYPES.get(name)
    if function == "SPLIT":
        return jax.random.split(key, int(a))
    if function == "FOLD_IN":
        return jax.random.fold_in(key, int(a))
    if function == "BITS":
        return jax.random.bits(key, dims, kind)
    if function == "UNIFORM":
        return jax.random.uniform(key, dims, kind, a, b)
    if function == "NORMAL":
        return jax.random.normal(key, dims, kind)
    if function == "EXPONENTIAL":
        return jax.random.exponential(key, dims, kind)
    if function == "BERNOULLI":
        return jax.random.bernoulli(key, jnp.float32(a), dims)
    if function == "INTEGERS":
        return jax.random.randint(key, dims, jnp.int64(a), jnp.int64(b), kind)
    if function == "SHUFFLE":
        values = jnp.arange(int(np.prod(dims)), dtype=kind).reshape(dims)
        return jax.random.permutation(key, values, int(a), independent=True)
    raise ValueError(function)


def cases():
    for i, seed in enumerate(SEEDS):
        for count in (1, 2, 5):
            yield "SPLIT", seed, "U32", (count, 2), count, 0
        yield "FOLD_IN", seed, "U32", (2,), 1000 + i, 0
    for i, dims in enumerate(SHAPES):
        seed = SEEDS[i % 4]
        for name in ("U8", "U16", "U32", "U64"):
            yield "BITS", seed, name, dims, 0, 0
        for name in ("F16", "BF16", "F32", "F64"):
            yield "UNIFORM", seed, name, dims, 0, 1
            yield "UNIFORM", seed, name, dims, -3, 0.7
            yield "NORMAL", seed, name, dims, 0, 0
            yield "EXPONENTIAL", seed, name, dims, 0, 0
        yield "BERNOULLI", seed, "PRED", dims, 0.3, 0
        for name, low, high in (("S32", 1, 7), ("U8", 0, 256), ("S8", -128, 100), ("S16", -5, 5), ("U64", 0, 1000003),
                                ("S64", -(2**40), 2**41), ("S32", 4, 4), ("U32", 7, 2**32 - 1)):
            yield "INTEGERS", seed, name, dims, low, high
    for name, dims, axis in (("F32", (7,), 0), ("S32", (4, 5), 1), ("F64", (3, 4), 0)):
        yield "SHUFFLE", 5, name, dims, axis, 0


print("// SPDX-License-Identifier: Apache-2.0")
print(f"// Made by make_golden.py with jax {jax.__version__}: GOLDEN(function, form, seed, type, rank, a, b, bytes of the result, sizes)")
for function, seed, name, dims, a, b in cases():
    for form in ("PARTITIONABLE", "ORIGINAL"):
        jax.config.update("jax_threefry_partitionable", form == "PARTITIONABLE")
        value = np.asarray(draw(function, jax.random.PRNGKey(seed), name, dims, a, b))
        assert value.shape == dims, (function, value.shape, dims)
        sizes = ", ".join(map(str, dims or (0,)))
        print(f'GOLDEN({function}, {form}, {seed}, {name}, {len(dims)}, {a}, {b}, "{value.tobytes().hex()}", {sizes})')
