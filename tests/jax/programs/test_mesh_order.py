# SPDX-License-Identifier: Apache-2.0
"""`meshlo topology --mesh` says where each device is in the meshes that JAX makes of the plugin's devices."""

import math
import os
import pathlib
import subprocess

import jax
import pytest
from jax.experimental import mesh_utils, topologies

COMMAND = pathlib.Path(os.environ["TPU_LIBRARY_PATH"]).parent / "bin" / "meshlo"

# The command's name, then what get_topology_desc() takes.
SLICES = [
    ("v2:2x2", "v2:2x2", {}),
    ("v2:2x4", "v2:2x4", {}),
    ("v3:4x4", "v3:4x4", {}),
    ("v4:2x2x1", "v4:2x2x1", {"chip_config_name": "megacore"}),
    ("v4:2x2x2", "v4:2x2x2", {"chip_config_name": "megacore"}),
    ("v4:2x2x1,megacore=no", "v4:2x2x1", {}),
    ("v5e:1x1", "v5e:1x1", {}),
    ("v5e:2x2", "v5e:2x2", {}),
    ("v5e:4x2", "v5e:4x2", {}),
    ("v5e:4x4", "v5e:4x4", {}),
    ("v5p:2x2x1", "v5p:2x2x1", {}),
    ("v5p:2x2x2", "v5p:2x2x2", {}),
    ("v5p:2x2x4", "v5p:2x2x4", {}),
    ("v6e:2x4", "v6e:2x4", {}),
    ("v6e:4x4", "v6e:4x4", {}),
    ("tpu7x:2x2x1", "tpu7x:2x2x1", {}),
    ("tpu7x:2x2x2", "tpu7x:2x2x2", {}),
    ("2xv5e:2x4", "v5e:2x4", {"num_slices": 2}),
]


def shapes(devices, rank):
    """Every way to write `devices` as a product of `rank` sizes."""
    if rank == 1:
        return [(devices,)]
    divisors = [size for size in range(1, devices + 1) if devices % size == 0]
    return [(size, *rest) for size in divisors for rest in shapes(devices // size, rank - 1)]


def from_jax(devices, shape, split):
    """The ids, or None where JAX refuses the mesh."""
    try:
        if split:
            mesh = mesh_utils.create_device_mesh(shape, devices, allow_split_physical_axes=True)
        else:
            mesh = jax.make_mesh(shape, tuple("abc"[: len(shape)]), devices=devices).devices
    except (AssertionError, NotImplementedError, ValueError):
        return None
    return [device.id for device in mesh.flat]


def from_command(name, shape, split):
    command = [COMMAND, "topology", name, "--mesh", ",".join(map(str, shape))] + ["--split"] * split
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    return None if done.returncode else [int(number) for number in done.stdout.split()]


@pytest.mark.parametrize("name,slice_,options", SLICES)
def test_device_order_is_jax_s(name, slice_, options):
    devices = topologies.get_topology_desc(topology_name=slice_, platform="tpu", **options).devices
    several = "num_slices" in options  # create_device_mesh takes the devices of one slice
    for rank in (1, 2, 3):
        for shape in shapes(len(devices), rank):
            for split in (False,) if several else (False, True):
                assert from_command(name, shape, split) == from_jax(devices, shape, split), (shape, split)
    part = shapes(math.gcd(4, len(devices)), 2)[-1]  # a mesh smaller than the slice takes the first devices
    assert from_command(name, part, False) == from_jax(devices, part, False)
