# SPDX-License-Identifier: Apache-2.0
"""Ahead of time, for slices that do not exist: lower, compile, and what the executables say of themselves."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import topologies
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import support  # noqa: F401  (matrix products in f32)

# Name, options, devices, processes, kind, and a mesh that make_mesh finds there.
SLICES = [
    ("v2:2x2", {}, 8, 1, "TPU v2", (4, 2)),
    ("v3:4x4", {}, 32, 4, "TPU v3", (4, 8)),
    ("v4:2x2x2", {"chip_config_name": "megacore"}, 8, 2, "TPU v4", (2, 4)),
    ("v4:4x4x4", {"chip_config_name": "megacore"}, 64, 16, "TPU v4", (16, 4)),
    ("v5e:2x4", {}, 8, 2, "TPU v5 lite", (2, 4)),
    ("v5e:2x4", {"chips_per_host_bounds": (2, 4, 1)}, 8, 1, "TPU v5 lite", (2, 4)),
    ("v5e:8x16", {"wrap": (False, True, False)}, 128, 32, "TPU v5 lite", (8, 16)),
    ("v5p:8x16x16", {}, 2048, 512, "TPU v5", (128, 16)),
    ("v5p:16x16x24", {}, 6144, 1536, "TPU v5", (256, 24)),
    ("v6e:16x16", {}, 256, 64, "TPU v6 lite", (16, 16)),
    ("tpu7x:2x2x1", {}, 8, 1, "TPU7x", (2, 4)),
    ("tpu7x:16x24x24", {}, 18432, 2304, "TPU7x", (384, 48)),
]


def gradient(weights, x):
    return jax.grad(lambda w: jnp.mean(jnp.tanh(x @ w).astype(jnp.float32)))(weights)


def compile_on(mesh, rows, columns):
    weights = jax.ShapeDtypeStruct((512, columns), jnp.bfloat16, sharding=NamedSharding(mesh, PartitionSpec(None, "model")))
    batch = jax.ShapeDtypeStruct((rows, 512), jnp.bfloat16, sharding=NamedSharding(mesh, PartitionSpec("data", None)))
    return jax.jit(gradient).lower(weights, batch).compile()


@pytest.mark.parametrize("name,options,devices,processes,kind,mesh_shape", SLICES)
def test_a_slice_nobody_has(name, options, devices, processes, kind, mesh_shape):
    slice_ = topologies.get_topology_desc(topology_name=name, platform="tpu", **options)
    assert len(slice_.devices) == devices
    assert slice_.devices[-1].process_index == processes - 1
    assert {device.device_kind for device in slice_.devices} == {kind}
    mesh = topologies.make_mesh(slice_, mesh_shape, ("data", "model"))
    data, model = mesh_shape
    rows, columns = 4 * data, 32 * model
    compiled = compile_on(mesh, rows, columns)
    memory, cost = compiled.memory_analysis(), compiled.cost_analysis()
    assert memory.argument_size_in_bytes == 2 * (512 * columns // model + rows // data * 512)
    assert memory.output_size_in_bytes == 2 * 512 * columns // model
    assert memory.peak_memory_in_bytes >= memory.argument_size_in_bytes + memory.output_size_in_bytes
    assert cost["flops"] >= 2 * 2 * (rows // data) * 512 * (columns // model)  # of one device: x @ w and its transpose
    text = compiled.as_text()
    assert f"num_partitions={devices}" in text and "all-reduce" in text
    assert compiled.output_formats.sharding.spec == PartitionSpec(None, "model")


def test_several_slices():
    slices = topologies.get_topology_desc(topology_name="v5e:4x4", platform="tpu", num_slices=2)
    assert [device.id for device in slices.devices[:2]] == [100000, 100001]
    assert slices.devices[-1].id == 200015
    assert [device.slice_index for device in slices.devices] == [0] * 16 + [1] * 16
    mesh = Mesh(np.array(slices.devices).reshape(2, 16), ("data", "model"))
    assert "num_partitions=32" in compile_on(mesh, 8, 512).as_text()


def test_cores_as_devices():
    """The runtime's own default on v4, where machines are set up with megacores."""
    cores = topologies.get_topology_desc(topology_name="v4:2x2x1", platform="tpu")
    assert [(device.coords, device.core_on_chip) for device in cores.devices[:3]] == [
        ([0, 0, 0], 0), ([0, 0, 0], 1), ([1, 0, 0], 0)]
    assert len(cores.devices) == 8


@pytest.mark.parametrize("name,options,says", [
    ("v5e:3x3x3", {}, "two axes"),
    ("v5p:16x16x36", {}, "larger than a v5p pod"),
    ("nonsense:2x2", {}, "unknown topology"),
    ("v5e:2x4", {"chips_per_host_bounds": (3, 4, 1)}, "do not divide"),
    ("v5e:2x4", {"chips_per_host_bounds": "2,4,1"}, "chips_per_host_bounds is not a list"),
    ("v5e:2x4", {"num_slices": 0}, "num_slices is not a positive number"),
    ("v4:2x2x2", {"chip_config_name": "gigacore"}, "expected megacore or default"),
])
def test_no_such_slice(name, options, says):
    with pytest.raises(jax.errors.JaxRuntimeError, match="INVALID_ARGUMENT.*" + says):
        topologies.get_topology_desc(topology_name=name, platform="tpu", **options)


def test_more_than_the_memory_of_its_devices():
    slice_ = topologies.get_topology_desc(topology_name="v5e:2x4", platform="tpu")
    mesh = topologies.make_mesh(slice_, (2, 4), ("data", "model"))
    with pytest.raises(jax.errors.JaxRuntimeError, match="RESOURCE_EXHAUSTED"):
        compile_on(mesh, 2**26, 4096)


def test_kernels_of_a_slice_nobody_has():
    """Nothing runs a kernel here, but its memory and work are known; a live client refuses it by name."""
    from jax.experimental import pallas as pl

    def product(x, y, o):
        o[...] = jnp.dot(x[...], y[...], preferred_element_type=jnp.float32)

    def step(x, y):
        out = pl.pallas_call(product, out_shape=jax.ShapeDtypeStruct((512, 256), jnp.float32))(x, y)
        return jnp.tanh(out)

    slice_ = topologies.get_topology_desc(topology_name="v6e:2x2", platform="tpu")
    sharding = jax.sharding.SingleDeviceSharding(slice_.devices[0])
    x = jax.ShapeDtypeStruct((512, 1024), jnp.bfloat16, sharding=sharding)
    y = jax.ShapeDtypeStruct((1024, 256), jnp.bfloat16, sharding=sharding)
    compiled = jax.jit(step).lower(x, y).compile()
    memory, cost = compiled.memory_analysis(), compiled.cost_analysis()
    assert memory.argument_size_in_bytes == 2 * (512 * 1024 + 1024 * 256)
    assert memory.output_size_in_bytes == 4 * 512 * 256
    assert 2 * 512 * 1024 * 256 <= cost["flops"] < 2.1 * 512 * 1024 * 256
    assert "tpu_custom_call" in compiled.as_text()
    with pytest.raises(jax.errors.JaxRuntimeError, match="UNIMPLEMENTED.*Pallas kernel"):
        jax.jit(step).lower(jnp.ones((512, 1024), jnp.bfloat16), jnp.ones((1024, 256), jnp.bfloat16)).compile()
