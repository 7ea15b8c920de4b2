#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes golden.inc: StableHLO portable artifacts as real JAX 0.10.2 makes them, for test_bytecode.c; and the same
modules as MLIR prints them into golden/, for test_text.c.

Run by hand when a program is added: python3 tests/stablehlo/make_golden.py > tests/stablehlo/golden.inc
"""
import os

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
import jax
import jax.numpy as jnp
import jaxlib._jax as jaxlib_jax
import numpy as np
from jax._src.interpreters import mlir
from jax.experimental.shard_alike import shard_alike
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from jaxlib.mlir.dialects import stablehlo

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden")
X, Y, KEY = jnp.ones((8, 16)), jnp.ones((16, 4)), jax.random.key(0)
MESH = Mesh(np.array(jax.devices()).reshape(4, 2), ("a", "b"))


def sharded(x, y):
    x = jax.lax.with_sharding_constraint(x, NamedSharding(MESH, P("a", "b")))
    return x @ y


def manual(x):
    body = lambda v: jax.lax.psum(v, "a")
    return jax.shard_map(body, mesh=MESH, in_specs=P("a", "b"), out_specs=P(None, "b"))(x)


def unconstrained(x):
    open_minor = NamedSharding(MESH, P("a", P.UNCONSTRAINED))
    return jax.lax.with_sharding_constraint(x * 2, open_minor) + 1


def alike(x):
    x = jax.lax.with_sharding_constraint(x, NamedSharding(MESH, P("a", "b")))
    y = jnp.ones((8, 16))
    x, y = shard_alike(x, y)
    return shard_alike(y, x * 2)


PROGRAMS = {
    "add": (lambda x: x + 1, X),
    "dot": (lambda x, y: jnp.tanh(x @ y), X, Y),
    "softmax": (jax.nn.softmax, X),
    "sort": (lambda x: (jnp.sort(x), jnp.argsort(x)), X),
    "cumsum": (lambda x: jnp.cumsum(x, 1), X),
    "normal": (lambda k: jax.random.normal(k, (8, 8)), KEY),
    "scan": (lambda x: jax.lax.scan(lambda c, a: (c + a, c * a), jnp.zeros(16), x), X),
    "cond": (lambda p, x: jax.lax.cond(p, jnp.sin, jnp.cos, x), True, X),
    "gather": (lambda x, i: x[i], X, jnp.array([1, 2])),
    "scatter": (lambda x, i: x.at[i].add(1.0), X, jnp.array([1, 2])),
    "convolution": (lambda x, k: jax.lax.conv(x, k, (1, 1), "SAME"), jnp.ones((1, 3, 8, 8)), jnp.ones((4, 3, 3, 3))),
    "pool": (lambda x: jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2), (1, 2), "VALID"), X),
    "top_k": (lambda x: jax.lax.top_k(x, 2), X),
    "fft": (jnp.fft.fft, X),
    "pad": (lambda x: (jnp.pad(x, 1), jnp.flip(x), jnp.concatenate([x, x]), x.astype(jnp.bfloat16)), X),
    "sharded": (sharded, X, Y),
    "manual": (manual, X),
    "approx_top_k": (lambda x: jax.lax.approx_max_k(x, 2, reduction_dimension=0), X),
    "unconstrained": (unconstrained, X),
    "alike": (alike, X),
}
# Lowered as for the chip: XLA:CPU's form asks for the exact answer.
FOR_TPU = {"approx_top_k"}

print("// SPDX-License-Identifier: Apache-2.0")
print("// Made by make_golden.py with JAX 0.10.2; do not edit.")
for name, (function, *arguments) in PROGRAMS.items():
    platforms = ("tpu",) if name in FOR_TPU else None
    text = jax.jit(function).trace(*arguments).lower(lowering_platforms=platforms).as_text(debug_info=True)
    data = jaxlib_jax.mlir.serialize_portable_artifact(text.replace(__file__, "golden.py"), "1.13.7", True)
    print(f"static const unsigned char {name}_bytes[] = {{")
    for i in range(0, len(data), 32):
        print("    " + ",".join(map(str, data[i : i + 32])) + ",")
    print("};")
    module = stablehlo.deserialize_portable_artifact(mlir.make_ir_context(), data)
    forms = {"pretty": {}, "generic": {"print_generic_op_form": True}}
    for form, options in forms.items():
        with open(f"{FOLDER}/{name}.{form}.mlir", "w") as file:
            file.write(module.operation.get_asm(enable_debug_info=True, **options))
print("static const Golden goldens[] = {")
for name in PROGRAMS:
    print(f'    {{"{name}", {name}_bytes, sizeof({name}_bytes)}},')
print("};")
