# SPDX-License-Identifier: Apache-2.0
"""Slices of several hosts: all of them in this process, or this process as one of them."""

import os
import subprocess
import sys

import pytest

ALL = """
import jax, numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P, AxisType
assert (jax.process_count(), jax.process_index(), len(jax.local_devices())) == (1, 0, 16)
mesh = jax.make_mesh((4, 4), ("a", "b"), axis_types=(AxisType.Auto,) * 2)
x = jax.device_put(np.arange(64, dtype=np.float32).reshape(8, 8), NamedSharding(mesh, P("a", "b")))
assert x.is_fully_addressable
np.testing.assert_array_equal(jax.jit(lambda x: (x * 2).sum(0))(x), np.arange(64).reshape(8, 8).sum(0) * 2)
"""

ONE = """
import jax, numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P, AxisType
assert (jax.process_count(), jax.process_index(), jax.device_count()) == (4, 2, 16)
local = jax.local_devices()
assert [device.id for device in local] == [8, 9, 12, 13] and {device.process_index for device in local} == {2}
assert [device.id for device in jax.local_devices(process_index=1)] == [2, 3, 6, 7]
# What this host does alone, it does.
here = jax.sharding.Mesh(np.array(local).reshape(2, 2), ("a", "b"))
x = jax.device_put(np.arange(64, dtype=np.float32).reshape(8, 8), NamedSharding(here, P("a", "b")))
np.testing.assert_array_equal(jax.jit(lambda x: x.sum(0))(x), np.arange(64).reshape(8, 8).sum(0))
# A global array has this host's shards; programs over all hosts are compiled, and refused by name when they are run.
mesh = jax.make_mesh((4, 4), ("a", "b"), axis_types=(AxisType.Auto,) * 2)
y = jax.make_array_from_callback((8, 8), NamedSharding(mesh, P("a", "b")), lambda index: np.zeros((2, 2), np.float32))
assert len(y.addressable_shards) == 4 and not y.is_fully_addressable
total = jax.jit(lambda y: y.sum()).lower(y).compile()
assert "num_partitions=16" in total.as_text()
assert total.memory_analysis().argument_size_in_bytes == 2 * 128 * 4  # f32[2,2]{1,0:T(2,128)}
try:
    total(y).block_until_ready()
except jax.errors.JaxRuntimeError as error:
    assert "UNIMPLEMENTED" in str(error) and "arrays cannot be exchanged between processes" in str(error), error
else:
    raise AssertionError("ran on hosts that do not exist")
"""


@pytest.mark.parametrize("program,process", [(ALL, None), (ONE, "2")])
def test_four_hosts(program, process):
    environment = dict(os.environ, MESHLO_TOPOLOGY="v5e-16")
    if process:
        environment["MESHLO_PROCESS_INDEX"] = process
    ended = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
