# SPDX-License-Identifier: Apache-2.0
"""examples/models: small decoders of every kind lower for a mesh of four devices, and a step of them is timed."""
import dataclasses
import pathlib
import sys

import jax
import jax.numpy as jnp
import pytest

import meshlo

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "examples/models"))
from decoder import Decoder, Quantised, lower, model_flops  # noqa: E402

SMALL = Decoder(layers=2, width=512, heads=4, key_heads=2, hidden=1024, vocabulary=1024, sequence=1024, batch=4, mesh={"fsdp": 4})
EXPERTS = {"experts": 4, "active": 2, "hidden": 512}
KINDS = {
    "plain MLP, tied": {"gated": False, "tied": True},
    "norms as einsums, after layers too": {"norm": "einsum", "post_norms": True},
    "windows": {"windows": (256, 0)},
    "latent attention": {"latent": (256, 128, 64), "key_heads": 4},
    "packed, looked up by a product": {"packed": True, "one_hot_embedding": True},
    "products kept": {"recompute": "products"},
    "names kept": {"recompute": "names", "keep": ("input", "attention", "mlp_out")},
    "offloaded": {"recompute": "names", "offload": ("input", "query", "key", "value")},
    "unrolled": {"scanned": False},
    "loss in tiles": {"loss_tiles": 4},
    "tensor": {"mesh": {"fsdp": 2, "tensor": 2}},
    "data": {"mesh": {"data": 2, "fsdp": 2}},
    "sequence": {"mesh": {"fsdp": 2, "sequence": 2}},
    "bf16 weights": {"weights": jnp.bfloat16},
    "fp8": {"quantised": Quantised("fp8")},
    "fp8, largest known": {"quantised": Quantised("fp8", 224)},
    "int8": {"quantised": Quantised("int8")},
    "dropless": EXPERTS,
    "dropless on an expert axis": {**EXPERTS, "mesh": {"fsdp": 2, "expert": 2}},
    "dropless by a kernel": {**EXPERTS, "tiles": ((128, 512, 512),) * 3},
    "dropless, shared, biases": {**EXPERTS, "shared": 1, "expert_biases": True, "dense_layers": 1, "dense_hidden": 1024},
    "dropless in fp8": {**EXPERTS, "quantised": Quantised("fp8", 224)},
    "capacity": {**EXPERTS, "capacity": 1.25},
    "capacity on an expert axis": {**EXPERTS, "capacity": 1.25, "mesh": {"fsdp": 2, "expert": 2}},
}


def emulated(on="v6e-4", **changes):
    return meshlo.emulate(lower(dataclasses.replace(SMALL, **changes)), on=on).as_dict()


@pytest.mark.skipif(len(jax.devices()) < 4, reason="needs four devices")
@pytest.mark.parametrize("kind", KINDS)
def test_kind(kind):
    result = emulated(**KINDS[kind])
    assert result["step_seconds"] > 0 and result["unknown_calls"] == 0
    # What is computed again, or dropped, or in both halves of a square, is less than as much again.
    model = dataclasses.replace(SMALL, **KINDS[kind])
    assert 0.5 < 4 * result["matrix_flops_per_device"] / model_flops(model) < 3


def test_positions_cut_over_a_mesh_attend_to_all_keys():
    """bug: the kernel that states its work took the queries of a device for all positions"""
    stated = {"stated_attention": True, "sequence": 8192}
    whole = emulated(**stated)["matrix_flops_per_device"]
    cut = emulated(**stated, mesh={"fsdp": 1, "sequence": 4})["matrix_flops_per_device"]
    assert abs(cut / whole - 1) < 0.02


def test_narrow_products_are_faster():
    wide = {"width": 2048, "hidden": 8192, "heads": 16, "key_heads": 16}
    assert emulated("tpu7x-8", **wide, quantised=Quantised("fp8", 224))["step_seconds"] < emulated("tpu7x-8", **wide)["step_seconds"]
    assert emulated(**wide, quantised=Quantised("int8", 8))["step_seconds"] < emulated(**wide)["step_seconds"]


def test_a_known_range_needs_no_sums():
    """The largest of an array that is cut over devices is a sum over them."""
    found, known = (emulated(quantised=Quantised("fp8", largest)) for largest in (0, 224))
    assert known["collective_bytes_per_device"] <= found["collective_bytes_per_device"]
    assert known["step_seconds"] < found["step_seconds"]


def test_offloading_frees_memory():
    deep = {"layers": 16, "batch": 16}
    kept = emulated(**deep, recompute="names", keep=("input", "query", "key", "value"))
    assert emulated(**deep, recompute="names", offload=("input", "query", "key", "value"))["hbm_peak_bytes"] < kept["hbm_peak_bytes"]
