# SPDX-License-Identifier: Apache-2.0
"""What surrounds programs: the compilation cache, profiles, layouts."""

import pathlib
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.layout import Format, Layout
from jax.profiler import ProfileData

from support import DEVICES, mesh_of, shard

CACHED = """
import sys, jax, jax.numpy as jnp, numpy as np
jax.config.update("jax_compilation_cache_dir", sys.argv[1])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
hits = []
jax.monitoring.register_event_listener(lambda event, **_: hits.append(event))
mesh = jax.make_mesh((4, 2), ("a", "b"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
x = jax.device_put(np.arange(64, dtype=np.float32).reshape(8, 8),
                   jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("a", "b")))
y = jax.jit(lambda x: x @ x.T)(x)
print(float(jnp.sum(y)), hits.count("/jax/compilation_cache/cache_hits"))
"""


def test_compilation_cache(tmp_path):
    """A second process takes all programs from the cache, those on a mesh in the slice's own order too."""
    outputs = [subprocess.run([sys.executable, "-c", CACHED, str(tmp_path)], capture_output=True, text=True, check=True)
               .stdout.split() for _ in range(2)]
    assert outputs[0][0] == outputs[1][0]
    assert outputs[0][1] == "0" and int(outputs[1][1]) >= 2
    assert list(pathlib.Path(tmp_path).iterdir())


def test_profiles_have_a_timeline_a_device(tmp_path):
    mesh = mesh_of(a=8)
    x = jax.device_put(np.ones((64, 64), np.float32), shard(mesh, "a", None))
    step = jax.jit(lambda x: jnp.tanh(x @ x.T).sum())
    step(x).block_until_ready()
    with jax.profiler.trace(str(tmp_path)):
        step(x).block_until_ready()
    (path,) = pathlib.Path(tmp_path).rglob("*.xplane.pb")
    planes = {plane.name: plane for plane in ProfileData.from_file(str(path)).planes}
    for device in DEVICES:
        lines = {line.name: list(line.events) for line in planes[f"/device:TPU:{device.id}"].lines}
        assert any("jit" in event.name for event in lines["XLA Modules"])
        names = [event.name for event in lines["XLA Ops"]]
        assert any(name.startswith("dot") for name in names), names


def test_layouts_are_those_of_the_slice():
    """f32[8192,10] pads least with its long dimension minor: what libtpu's modules for v2 say too."""
    x = jax.device_put(np.arange(81920, dtype=np.float32).reshape(8192, 10), DEVICES[0])
    assert x.format.layout.major_to_minor == (1, 0) and x.format.layout.tiling == ((8, 128),)
    compiled = jax.jit(lambda x: x.T, in_shardings=Format(Layout.AUTO), out_shardings=Format(Layout.AUTO)).lower(
        jax.ShapeDtypeStruct(x.shape, x.dtype)).compile()
    assert compiled.input_formats[0][0].layout.major_to_minor == (0, 1)
    assert compiled.output_formats.layout.major_to_minor == (1, 0)
    moved = jax.device_put(x, compiled.input_formats[0][0])
    assert moved.format.layout.major_to_minor == (0, 1)
    np.testing.assert_array_equal(compiled(moved), np.asarray(x).T)
    np.testing.assert_array_equal(jnp.sum(x, axis=1), np.asarray(x).sum(1))


def test_portable_programs_run_where_their_arguments_are():
    double = jax.jit(lambda x: x + x)
    for device in DEVICES[::-1]:
        result = double(jax.device_put(np.float32(device.id), device))
        assert result.devices() == {device} and float(result) == 2 * device.id
