# SPDX-License-Identifier: Apache-2.0
"""meshlo emulate --mesh B of a program that JAX lowered for mesh A gives what JAX's lowering for B gives: the same step
to the picosecond, the same bytes on every link and in memory, from StableHLO text, portable bytecode and HLO text."""

import json
import os
import pathlib
import subprocess

import jax
import jax.numpy as jnp
import pytest
from jax import export
from jax.sharding import NamedSharding, PartitionSpec as P

from support import mesh_of

COMMAND = pathlib.Path(os.environ["TPU_LIBRARY_PATH"]).parent / "bin" / "meshlo"
MESHES = [dict(data=4, model=2), dict(data=2, model=4), dict(data=2, model=2), dict(model=8, data=1), dict(model=2, data=4)]


def f32(*shape):
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def layers(at):
    """Two layers by columns and by rows, their gradient, and an update."""
    def step(params, x):
        def loss(params):
            h = x
            for layer in params["layers"]:
                h = jax.lax.with_sharding_constraint(jax.nn.gelu(h @ layer["up"]), at("data", "model")) @ layer["down"]
            return jnp.mean(h**2)
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, jax.grad(loss)(params))
    layer = {"up": at(None, "model"), "down": at("model", None)}
    params = {"layers": [{"up": f32(64, 128), "down": f32(128, 64)}] * 2}
    return jax.jit(step, in_shardings=({"layers": [layer] * 2}, at("data"))), (params, f32(32, 64))


def scan(at):
    """Stacked weights in a scan, and results with shardings of their own."""
    def f(w, x):
        h, sums = jax.lax.scan(lambda h, w: (jnp.tanh(h @ w), h.sum()), x, w)
        return h, sums
    return (jax.jit(f, in_shardings=(at(None, None, "model"), at("data", "model")), out_shardings=(at("data"), at())),
            (f32(3, 64, 64), f32(16, 64)))


def attention(at):
    """Heads over one axis, the batch over the other, and weights over both."""
    def f(q, k, v, w):
        scores = jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k))
        mixed = jax.lax.with_sharding_constraint(jnp.einsum("bhqk,bkhd->bqhd", scores, v), at("data", None, "model"))
        return mixed.reshape(8, 16, 64) @ w
    heads = at("data", None, "model", None)
    return (jax.jit(f, in_shardings=(heads, heads, heads, at(("model", "data"), None)), out_shardings=at("data")),
            (f32(8, 16, 8, 8),) * 3 + (f32(64, 64),))


def embedding(at):
    """A table by rows, its gradient, and a dimension that propagation decides."""
    def f(table, tokens):
        def loss(table):
            rows = jax.lax.with_sharding_constraint(table[tokens], at("data", None, P.UNCONSTRAINED))
            return (rows**2).sum()
        return jax.value_and_grad(loss)(table)
    return (jax.jit(f, in_shardings=(at("model", None), at("data", None)), out_shardings=(at(), at("model", None))),
            (f32(64, 32), jax.ShapeDtypeStruct((16, 8), jnp.int32)))


def written(program, axes, form, folder):
    """The file that JAX lowers the program to for a mesh of these axes."""
    mesh = mesh_of(**axes)
    function, arguments = program(lambda *spec: NamedSharding(mesh, P(*spec)))
    path = folder / f"{program.__name__}.{'_'.join(f'{k}{v}' for k, v in axes.items())}.{form}"
    if form == "bytecode":
        path.write_bytes(export.export(function)(*arguments).mlir_module_serialized)
    else:
        path.write_text(function.lower(*arguments).as_text(form))
    return path


def emulated(path, *options):
    """What the step takes, without where the mesh came from and how the instructions are called."""
    command = [COMMAND, "emulate", path, "--topology", "v2-8", "--json", *options]
    report = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    del report["mesh_source"]
    report["ops"] = [(op["opcode"], op["start"], op["duration"], op["bytes"]) for op in report["ops"]]
    report["buffers"] = [(buffer["kind"], buffer["shape"], buffer["bytes"]) for buffer in report["buffers"]]
    return report


@pytest.mark.parametrize("form", ["stablehlo", "bytecode", "hlo"])
@pytest.mark.parametrize("program", [layers, scan, attention, embedding])
def test_a_program_on_another_mesh(program, form, tmp_path):
    files = [written(program, axes, form, tmp_path) for axes in MESHES]
    lowered = [emulated(path) for path in files]
    assert len({json.dumps(report) for report in lowered}) > 2  # the meshes make a difference
    for before, path in zip(MESHES, files):
        for after, want in zip(MESHES, lowered):
            mesh = ",".join(f"{axis}={size}" for axis, size in after.items())
            assert emulated(path, "--mesh", mesh) == want, (before, after)


def half_manual(x, w, v):
    """Manual over model: sums over it, and permutes along it, have groups and pairs of device numbers."""
    def body(x, w, v):
        shifted = jax.lax.ppermute(x @ w, "model", [(0, 1), (1, 0)])
        return jax.lax.psum(jnp.tanh(shifted) @ v, "model")
    return jax.shard_map(body, in_specs=(P(), P(None, "model"), P("model")), out_specs=P(), axis_names={"model"}, check_vma=False)(x, w, v)


@pytest.mark.parametrize("form", ["stablehlo", "hlo"])
def test_manual_regions_whose_axes_keep_their_sizes(form, tmp_path):
    meshes = [dict(data=4, model=2), dict(model=2, data=4), dict(data=2, model=2), dict(data=1, model=2)]
    files = []
    for number, axes in enumerate(meshes):
        mesh = mesh_of(**axes)
        with jax.set_mesh(mesh):
            shapes = [jax.ShapeDtypeStruct(shape, jnp.float32, sharding=NamedSharding(mesh, spec))
                      for shape, spec in (((64, 32), P("data")), ((32, 64), P(None, "model")), ((64, 32), P("model")))]
            text = jax.jit(half_manual).lower(*shapes).as_text(form)
        files.append(tmp_path / f"region_{number}.{form}")
        files[-1].write_text(text)
    for path in files[:3]:  # a list of devices does not say whether it uses data=1
        for after, want in zip(meshes, files):
            mesh = ",".join(f"{axis}={size}" for axis, size in after.items())
            assert emulated(path, "--mesh", mesh) == emulated(want), (path, after)


def test_manual_regions_are_refused(tmp_path):
    mesh = mesh_of(data=4, model=2)
    function = jax.jit(jax.shard_map(lambda x: jax.lax.psum(x, "data"), mesh=mesh, in_specs=P("data"), out_specs=P()))
    for form in ("stablehlo", "hlo"):
        path = tmp_path / f"region.{form}"
        path.write_text(function.lower(f32(16, 64)).as_text(form))
        command = [COMMAND, "emulate", path, "--topology", "v2-8", "--mesh"]
        assert subprocess.run([*command, "data=4,model=2"], capture_output=True).returncode == 0
        refused = subprocess.run([*command, "data=2,model=4"], capture_output=True, text=True)
        assert refused.returncode == 2 and "manual region" in refused.stderr, refused.stderr
