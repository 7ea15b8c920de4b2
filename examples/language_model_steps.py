# SPDX-License-Identifier: Apache-2.0
"""Regenerates llama_8b_step, decoder_16b_step and decoder_32b_step (.mlir.xz) with JAX 0.10.2: `python3 examples/language_model_steps.py`.

Training steps of decoders in bf16 with f32 parameters and Adam, as large language models are trained on TPUs:
- llama_8b_step: the sizes of Llama 3.1 8B, sequences of 8192, 3 a chip, parameters cut over 8 chips, layers recomputed;
- decoder_16b_step: MaxText's model of 16e9 parameters (configs/tpu/v5e/16b.sh), sequences of 2048, 6 a chip, cut over 256
  chips, layers recomputed;
- decoder_32b_step: MaxText's model of 32e9 parameters (configs/tpu/v5p/32b.sh with global_parameter_scale=32), sequences of
  2048, 6 a chip, cut over 16 x 4 chips, with the products of a layer kept for the backward pass.
Attention is a kernel of Pallas for TPUs that says what a fused attention kernel does (its body is a placeholder: the
programs are made to be partitioned and timed, not to be run). Nothing here needs the memory of the model.
examples/models/ has a family of such steps with more choices; these three are kept for tests and documents.
"""
import dataclasses
import lzma
import os
import pathlib
import sys

DEVICES = 256
os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={DEVICES}"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER / "models"))
from decoder import rotated


@dataclasses.dataclass
class Model:
    name: str
    layers: int
    width: int
    heads: int
    key_heads: int
    head_width: int
    hidden: int
    vocabulary: int
    sequence: int
    batch: int
    fsdp: int
    tensor: int
    keep: object  # what the backward pass finds instead of computing it again


MODELS = [
    Model("llama_8b_step", 32, 4096, 32, 8, 128, 14336, 128256, 8192, 24, 8, 1, jax.checkpoint_policies.nothing_saveable),
    Model("decoder_16b_step", 64, 4096, 32, 32, 128, 14336, 32000, 2048, 1536, 256, 1,
          jax.checkpoint_policies.nothing_saveable),
    Model("decoder_32b_step", 32, 8192, 64, 64, 128, 28672, 32000, 2048, 384, 16, 4,
          jax.checkpoint_policies.dots_with_no_batch_dims_saveable),
]


def attention_kernel(results, products, *arrays):
    """A kernel that does `products` causal products of sequence x sequence x head width for each head of each example."""
    batch, sequence, heads, width = arrays[0].shape
    size = sum(array.size * array.dtype.itemsize for array in (*arrays, *results))
    estimate = pl.CostEstimate(flops=products * batch * heads * sequence * sequence * width,
                               transcendentals=batch * heads * sequence * sequence // 2, bytes_accessed=size)

    def placeholder(*references):
        references[-1][...] = references[0][...]

    return pl.pallas_call(placeholder, out_shape=results, cost_estimate=estimate)(*arrays)


def like(array):
    return jax.ShapeDtypeStruct(array.shape, array.dtype)


@jax.custom_vjp
def fused_attention(query, key, value):
    return attention_kernel([like(query)], 2, query, key, value)[0]


def fused_attention_forward(query, key, value):
    result = fused_attention(query, key, value)
    return result, (query, key, value, result)


def fused_attention_backward(saved, gradient):
    query, key, value, _ = saved
    key_gradient, value_gradient = attention_kernel([like(key), like(value)], 4, *saved, gradient)
    return attention_kernel([like(query)], 3, *saved, gradient)[0], key_gradient, value_gradient


fused_attention.defvjp(fused_attention_forward, fused_attention_backward)


def normalised(x, scale):
    wide = x.astype(jnp.float32)
    wide = wide * jax.lax.rsqrt(jnp.mean(wide * wide, -1, keepdims=True) + 1e-5)
    return wide.astype(jnp.bfloat16) * scale.astype(jnp.bfloat16)


def make_layer(model, mesh, hidden_state):
    heads = P("fsdp", None, "tensor", None)
    attention = jax.shard_map(fused_attention, mesh=mesh, in_specs=(heads,) * 3, out_specs=heads, check_vma=False)
    groups = model.heads // model.key_heads

    def layer(x, weights):
        w = {name: array.astype(jnp.bfloat16) for name, array in weights.items()}
        h = normalised(x, weights["attention_norm"])
        query = rotated(jnp.einsum("bsd,dhk->bshk", h, w["query"]))
        key = rotated(jnp.einsum("bsd,dhk->bshk", h, w["key"]))
        value = jnp.einsum("bsd,dhk->bshk", h, w["value"])
        mixed = attention(query, jnp.repeat(key, groups, 2), jnp.repeat(value, groups, 2))
        x = jax.lax.with_sharding_constraint(x + jnp.einsum("bshk,hkd->bsd", mixed, w["out"]), hidden_state)
        h = normalised(x, weights["mlp_norm"])
        x = x + (jax.nn.silu(h @ w["gate"]) * (h @ w["up"])) @ w["down"]
        return jax.lax.with_sharding_constraint(x, hidden_state), None

    return layer


def make_step(model, mesh):
    hidden_state = NamedSharding(mesh, P("fsdp", None, "tensor"))
    layer = make_layer(model, mesh, hidden_state)

    def loss(parameters, tokens, targets):
        x = jax.lax.with_sharding_constraint(parameters["embedding"].astype(jnp.bfloat16)[tokens], hidden_state)
        x, _ = jax.lax.scan(jax.checkpoint(layer, policy=model.keep), x, parameters["layers"])
        x = normalised(x, parameters["norm"])
        logits = (x @ parameters["output"].astype(jnp.bfloat16)).astype(jnp.float32)
        hit = jax.lax.broadcasted_iota(jnp.int32, logits.shape, 2) == targets[..., None]
        return jnp.mean(jax.nn.logsumexp(logits, -1) - jnp.sum(jnp.where(hit, logits, 0), -1))

    def step(parameters, mean, variance, tokens, targets):
        value, gradient = jax.value_and_grad(loss)(parameters, tokens, targets)
        mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean, gradient)
        variance = jax.tree.map(lambda v, g: 0.95 * v + 0.05 * g * g, variance, gradient)
        parameters = jax.tree.map(lambda p, m, v: p - 3e-4 * m / (jnp.sqrt(v) + 1e-8), parameters, mean, variance)
        return parameters, mean, variance, value

    return step


def arguments(model, mesh):
    def array(shape, *spec, dtype=jnp.float32):
        return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, P(*spec)))

    l, d, h, k, w, f = (model.layers, model.width, model.heads, model.key_heads, model.head_width, model.hidden)
    layers = {
        "attention_norm": array((l, d)),
        "mlp_norm": array((l, d)),
        "query": array((l, d, h, w), None, "fsdp", "tensor", None),
        "key": array((l, d, k, w), None, "fsdp", "tensor", None),
        "value": array((l, d, k, w), None, "fsdp", "tensor", None),
        "out": array((l, h, w, d), None, "tensor", None, "fsdp"),
        "gate": array((l, d, f), None, "fsdp", "tensor"),
        "up": array((l, d, f), None, "fsdp", "tensor"),
        "down": array((l, f, d), None, "tensor", "fsdp"),
    }
    parameters = {
        "embedding": array((model.vocabulary, d), "tensor", "fsdp"),
        "output": array((d, model.vocabulary), "fsdp", "tensor"),
        "norm": array((d,)),
        "layers": layers,
    }
    tokens = array((model.batch, model.sequence), "fsdp", None, dtype=jnp.int32)
    return parameters, parameters, parameters, tokens, tokens


for model in MODELS:
    devices = jax.devices()[:model.fsdp * model.tensor]
    mesh = jax.make_mesh((model.fsdp, model.tensor), ("fsdp", "tensor"), devices=devices, axis_types=(AxisType.Auto,) * 2)
    args = arguments(model, mesh)
    state = jax.tree.map(lambda array: array.sharding, args[:3])
    step = jax.jit(make_step(model, mesh), donate_argnums=(0, 1, 2), out_shardings=(*state, None))
    text = step.trace(*args).lower(lowering_platforms=("tpu",)).as_text()
    (FOLDER / f"{model.name}.mlir.xz").write_bytes(lzma.compress(text.encode(), preset=9))
