# SPDX-License-Identifier: Apache-2.0
"""Published training steps as programs of our own: `python3 examples/models/steps.py [NAME…]` writes NAME.mlir.xz (those of STATED
into examples/), and steps.tsv (name, slice, measured seconds, source of each), which benchmarks/fidelity reads. Seconds follow from operations a second and chip by the source's own count (decoder.py,
model_flops) where no step time was published. TR: AI-Hypercomputer/tpu-recipes; MX: MaxText's README tables, with the
arguments of its scripts. The recipes' own programs differ in detail; recomputation that is not published is assumed
(SOURCE with a question mark).
"""
import lzma
import math
import os
import pathlib
import sys

DEVICES = 1024
os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={DEVICES}"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax.numpy as jnp

from decoder import Decoder, lower, model_flops

FOLDER = pathlib.Path(__file__).resolve().parent
# What the recipes of TR have in common: packed documents, and tokens that are looked up by a product.
RECIPE = {"packed": True, "one_hot_embedding": True, "recompute": "names"}
KEPT = {**RECIPE, "offload": ("input", "query", "key", "value")}
KEPT_OUT = {**RECIPE, "offload": ("input", "out", "query", "key", "value")}


def llama_8b(chips, batch, **rest):
    return Decoder(layers=32, width=4096, heads=32, key_heads=8, hidden=14336, vocabulary=128256, sequence=8192,
                   batch=batch * chips, mesh={"fsdp": chips}, **rest)


def llama_70b(chips, batch, **rest):
    return Decoder(layers=80, width=8192, heads=64, key_heads=8, hidden=28672, vocabulary=128256, sequence=8192,
                   batch=batch * chips, mesh={"fsdp": chips}, **rest)


def scaled(scale, batch, mesh, **rest):
    """MaxText's global_parameter_scale, a power of two: heads and MLP grow first, then the width, then the layers."""
    thirds, rest_of = divmod(int(math.log2(scale)), 3)
    wide, width = 2**(thirds + (rest_of > 0)), 2**(thirds + (rest_of > 1))
    return Decoder(layers=16 * 2**thirds, width=2048 * width, heads=16 * wide, hidden=7168 * wide, vocabulary=32000,
                   sequence=2048, batch=batch * math.prod(mesh.values()), mesh=mesh,
                   **{"packed": True, "one_hot_embedding": True, **rest})


PRODUCTS = {"recompute": "products"}
# name: (model, slice, seconds or None, 1e12 operations a second and chip, source)
STEPS = {
    "llama_8b_v6e_8": (llama_8b(8, 3, **KEPT_OUT), "v6e-8", 3.443, None, "TR"),
    "llama_8b_v6e_32": (llama_8b(32, 3, **KEPT_OUT), "v6e-32", 3.495, None, "TR"),
    "llama_8b_v6e_64": (llama_8b(64, 5, **KEPT_OUT), "v6e-64", 5.652, None, "TR"),
    "llama_70b_v6e_32": (llama_70b(32, 2, weights=jnp.bfloat16, **KEPT), "v6e-32", 17.79, None, "TR"),
    "llama_70b_v6e_128": (llama_70b(128, 4, **KEPT), "v6e-128", 34.786, None, "TR"),
    "mistral_7b_v6e_8": (Decoder(layers=32, width=4096, heads=32, key_heads=8, hidden=14336, vocabulary=32000,
                                 sequence=8192, batch=48, mesh={"fsdp": 8}, **KEPT_OUT), "v6e-8", 6.32, None, "TR"),
    "mixtral_8x7b_v6e_256": (Decoder(layers=32, width=4096, heads=32, key_heads=8, hidden=14336, vocabulary=32000,
                                     sequence=4096, batch=3072, mesh={"fsdp": 256}, experts=8, active=2, capacity=1.25,
                                     **KEPT_OUT), "v6e-256", 13.484, None, "TR"),
    "gemma3_12b_v6e_256": (Decoder(layers=48, width=3840, heads=16, key_heads=8, head_width=256, hidden=15360,
                                   vocabulary=262208, sequence=32768, batch=256, mesh={"fsdp": 256}, tied=True,
                                   post_norms=True, windows=(1024,) * 5 + (0,), loss_tiles=16, keep=("input",),
                                   **RECIPE), "v6e-256", 7.318, None, "TR"),
    "decoder_32b_v5p_128": (scaled(32, 6, {"fsdp": 16, "tensor": 4}, **PRODUCTS), "v5p-128", None, 328, "MX"),
    "decoder_32b_2xv5p_128": (scaled(32, 6, {"data": 2, "fsdp": 16, "tensor": 4}, **PRODUCTS), "2xv5p-128", None, 319,
                              "MX"),
    "decoder_64b_v5p_128": (scaled(64, 3, {"fsdp": 16, "tensor": 4}, **PRODUCTS), "v5p-128", None, 323, "MX"),
    "decoder_128b_v5p_256": (scaled(128, 1, {"fsdp": 16, "tensor": 8}, **PRODUCTS), "v5p-256", None, 315, "MX"),
    "decoder_22b_v4_128": (Decoder(layers=48, width=6144, heads=24, hidden=24576, vocabulary=32000, sequence=2048,
                                   batch=13 * 64, mesh={"fsdp": 64}, packed=True), "v4-128", None, 156, "MX"),
    "decoder_16b_v5e_256": (scaled(16, 6, {"fsdp": 256}), "v5e-256", None, 120, "MX"),
    "decoder_16b_4xv5e_256": (scaled(16, 6, {"data": 4, "fsdp": 256}), "4xv5e-256", None, 117, "MX"),
    "decoder_32b_v5e_256": (scaled(32, 4, {"fsdp": 256}), "v5e-256", None, 132, "MX"),
    "llama_70b_v7_64": (llama_70b(128, 2, keep=("input", "query", "key", "value", "attention"), **RECIPE),
                        "tpu7x:4x4x4", 12.2, None, "TR?"),
    "gpt_oss_120b_v7_64": (Decoder(layers=36, width=2880, heads=64, key_heads=8, head_width=64, hidden=2880,
                                   vocabulary=201088, sequence=8192, batch=1280, mesh={"data": 2, "fsdp": 64},
                                   windows=(128, 0), experts=128, active=4, expert_biases=True,
                                   tiles=((128, 2880, 1408), (128, 1408, 2880), (1024, 256, 2880)), packed=True,
                                   recompute="names", offload=("input", "expert_out")),
                           "tpu7x:4x4x4", 17.1, None, "TR?"),
    "deepseek_v3_v7_128": (Decoder(layers=61, width=7168, heads=128, hidden=2048, vocabulary=129280, sequence=4096,
                                   batch=2048, mesh={"fsdp": 256}, latent=(1536, 512, 64), experts=256, active=8,
                                   shared=1, dense_layers=3, dense_hidden=18432, first_moment=jnp.bfloat16,
                                   tiles=((128, 7168, 512), (128, 512, 7168), (1024, 896, 2048), (128, 2048, 1792),
                                          (128, 1792, 2048), (1024, 128, 3584)), offload=("input",), **RECIPE),
                           "tpu7x:4x4x8", 27.02, None, "TR?"),
}


# Steps for tests and documents, in the folder above. Their attention only states its work, and tokens are looked up.
PLAIN = {"stated_attention": True, "packed": False, "one_hot_embedding": False}
STATED = {
    "llama_8b_step": llama_8b(8, 3, **PLAIN),
    "decoder_16b_step": scaled(16, 6, {"fsdp": 256}, **PLAIN),
    "decoder_32b_step": scaled(32, 6, {"fsdp": 16, "tensor": 4}, **PLAIN, **PRODUCTS),
}


def seconds_of(name):
    model, _, seconds, rate, _ = STEPS[name]
    if seconds:
        return seconds
    return model_flops(model) / math.prod(model.mesh.values()) / (rate * 1e12)


def main():
    rows = [f"{name}\t{place}\t{seconds_of(name):.4g}\t{source}\n" for name, (_, place, _, _, source) in STEPS.items()]
    (FOLDER / "steps.tsv").write_text("name\tslice\tseconds\tsource\n" + "".join(rows))
    for name in sys.argv[1:] or [*STEPS, *STATED]:
        text = lower(STEPS[name][0] if name in STEPS else STATED[name])
        folder = FOLDER if name in STEPS else FOLDER.parent
        (folder / f"{name}.mlir.xz").write_bytes(lzma.compress(text.encode(), preset=9))
        print(name, len(text))


if __name__ == "__main__":
    main()
