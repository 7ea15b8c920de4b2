# SPDX-License-Identifier: Apache-2.0
"""What programs do on a slice of several hosts. Run by test_processes.py as one process of several, and as the only one.

Prints a digest of the bits of all results, which must not depend on the number of processes.
"""

import hashlib

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import io_callback, multihost_utils
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P

COUNT = jax.device_count()
ME = jax.process_index()
DIGEST = hashlib.sha256()


def keep(name, array):
    """Adds the whole array to the digest, which brings it to every process."""
    whole = multihost_utils.process_allgather(array, tiled=True) if isinstance(array, jax.Array) else array
    DIGEST.update(name.encode() + np.ascontiguousarray(whole).tobytes())
    return np.asarray(whole)


def identity():
    assert jax.default_backend() == "tpu" and COUNT == 16
    local = jax.local_devices()
    assert len(local) * jax.process_count() == COUNT and {device.process_index for device in local} == {ME}
    assert [device.id for device in local] == sorted(device.id for device in local)
    assert {device.coords[2] for device in jax.devices()} == {0} and len({tuple(device.coords) for device in jax.devices()}) == 16


def mesh_of(*shape, names="xyz"):
    return jax.make_mesh(shape, tuple(names[:len(shape)]), axis_types=(AxisType.Auto,) * len(shape))


def numbers(*shape, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def put(mesh, value, *spec):
    """A global array of which each process makes its own shards."""
    sharding = NamedSharding(mesh, P(*spec))
    return jax.make_array_from_callback(value.shape, sharding, lambda index: value[index], dtype=value.dtype)


def automatic():
    """jit over all devices: the partitioner's collectives, a donated state, a loop."""
    mesh = mesh_of(4, 4)
    x, w = numbers(32, 64), numbers(64, 48, seed=1)
    loss = lambda w, x: jnp.mean(jnp.tanh(x @ w) ** 2)

    def step(w, x):
        value, gradient = jax.value_and_grad(loss)(w, x)
        return w - 0.1 * gradient, value

    state, losses = put(mesh, w, "y", None), []
    train = jax.jit(lambda w, x: lax.fori_loop(0, 3, lambda _, w: step(w, x)[0], w), donate_argnums=0)
    batch = put(mesh, x, "x", "y")
    for _ in range(3):
        before, state = state, train(state, batch)
        assert before.is_deleted()
        losses.append(float(jax.jit(loss)(state, batch)))
    assert losses == sorted(losses, reverse=True) and losses[0] > losses[-1], losses
    keep("state", state)
    DIGEST.update(np.array(losses).tobytes())


def collectives():
    """Each collective under shard_map, in several types, over all devices and over groups that cross hosts."""
    mesh = mesh_of(4, 4)

    def body(a):
        index = lax.axis_index("x") * 4 + lax.axis_index("y")
        other = lambda a, axis: jnp.stack([
            lax.psum(a, axis), lax.pmax(a, axis), lax.pmin(a, axis),
            lax.ppermute(a, "x", [(i, (i + 1) % 4) for i in range(4)]),
            lax.all_to_all(a, "y", 0, 0, tiled=True), lax.all_gather(a, "x")[index % 4],
            jnp.tile(lax.psum_scatter(a, "x", scatter_dimension=0, tiled=True), (4, 1))])
        return jnp.concatenate([other(a, axis) for axis in ("x", "y", ("x", "y"))])

    for dtype in ("float32", "bfloat16", "int32", "int8"):
        value = (numbers(64, 32) * 50).astype(dtype)
        run = jax.jit(jax.shard_map(body, mesh=mesh, in_specs=P("x", "y"), out_specs=P(None, "x", "y")))
        out = keep(dtype, run(put(mesh, value, "x", "y")))
        if dtype == "int32":
            sums = value.reshape(4, 16, 4, 8).sum(axis=(0, 2), dtype=np.int32)
            np.testing.assert_array_equal(out[14].reshape(4, 16, 4, 8)[2, :, 3], sums)
    # 1 MiB a device: large arrays take another way than small ones
    wide = put(mesh_of(16), numbers(16, 1 << 18, seed=3), "x")
    total = jax.shard_map(lambda a: lax.psum(a, "x"), mesh=wide.sharding.mesh, in_specs=P("x"), out_specs=P("x"))
    keep("wide", jax.jit(total)(wide))


def pmap():
    local = jax.local_device_count()
    first = ME * local
    mine = np.arange(first, first + local, dtype=np.float32)
    out = jax.pmap(lambda a: (lax.psum(a, "i"), lax.all_gather(a, "i"), lax.axis_index("i")), axis_name="i")(mine)
    np.testing.assert_array_equal(out[0], np.full(local, COUNT * (COUNT - 1) / 2))
    np.testing.assert_array_equal(out[1][0], np.arange(COUNT))
    np.testing.assert_array_equal(out[2], np.arange(first, first + local))


def arrays():
    mesh = mesh_of(16)
    sharding = NamedSharding(mesh, P("x"))
    value = numbers(16, 4)
    rows = [row.start for device, (row, _) in sharding.devices_indices_map((16, 4)).items() if device.process_index == ME]
    local = value[sorted(rows)]
    whole = jax.make_array_from_process_local_data(sharding, local, (16, 4))
    assert whole.is_fully_addressable == (jax.process_count() == 1)
    np.testing.assert_array_equal(keep("local data", whole), value)
    square = mesh_of(4, 4)
    other = jax.jit(lambda a: a, out_shardings=NamedSharding(square, P(None, "x")))(put(square, value, "x"))
    np.testing.assert_array_equal(keep("moved", other), value)


def transfers():
    """device_put from devices of some processes to those of others, outside of programs."""
    halves = [Mesh(np.array(jax.devices()[begin:begin + 8]), ("x",)) for begin in (0, 8)]
    for dtype in ("float32", "bfloat16", "int8", "bool"):
        value = (numbers(16, 3) * 9).astype(dtype)
        source = put(halves[0], value, "x")
        moved = jax.device_put({"a": source, "b": source}, NamedSharding(halves[1], P("x")))
        for array in moved.values():
            for shard in array.addressable_shards:
                np.testing.assert_array_equal(np.asarray(shard.data), value[shard.index])


def utilities():
    multihost_utils.sync_global_devices("here")
    tree = {"a": np.float32(ME + 1), "b": np.arange(3) + ME}
    same = multihost_utils.broadcast_one_to_all(tree)
    assert same["a"] == 1 and list(same["b"]) == [0, 1, 2], same
    multihost_utils.assert_equal(same, "they differ")
    if jax.process_count() > 1:
        try:
            multihost_utils.assert_equal(tree, "they differ")
        except AssertionError as error:
            assert "they differ" in str(error)
        else:
            raise AssertionError("unequal values are equal")


def gather_from_jax_processes(tree):
    """One entry for each process, as bobbin has it: an all-gather of the first local device's copy."""
    local = jax.local_device_count()
    copies = jax.tree.map(lambda a: np.broadcast_to(a, (local, *np.shape(a))), tree)
    gathered = jax.pmap(lambda t: lax.all_gather(t, "i"), axis_name="i")(copies)
    return [jax.tree.map(lambda a: np.asarray(a[0][process * local]), gathered) for process in range(jax.process_count())]


def assert_replica_integrity(tree):
    """Raises where copies on any two devices of any processes differ."""
    entries = gather_from_jax_processes(tree)
    for entry in entries:
        for path, leaf in jax.tree_util.tree_leaves_with_path(entry):
            reference = dict(jax.tree_util.tree_leaves_with_path(entries[0]))[path]
            if not all(np.array_equal(reference[0], copy) for copy in leaf):
                raise AssertionError(f"{jax.tree_util.keystr(path)} differs between replicas")


def replicas():
    losses = gather_from_jax_processes({"loss": np.float32(2.5 + ME)})
    assert [float(entry["loss"]) for entry in losses] == [2.5 + process for process in range(jax.process_count())]
    copies = np.broadcast_to(numbers(3, 3), (jax.local_device_count(), 3, 3)).copy()
    assert_replica_integrity({"matrix": copies})
    if ME == jax.process_count() - 1:
        copies[-1, 0, 0] += 1
    try:
        assert_replica_integrity({"matrix": copies})
    except AssertionError as error:
        assert "matrix" in str(error)
    else:
        raise AssertionError("a changed replica was not found")


def callbacks():
    """Each device calls the process that has it."""
    mesh, calls = mesh_of(16), []

    def body(a):
        jax.debug.callback(lambda i: calls.append(int(i)), lax.axis_index("x"))
        b = jax.pure_callback(lambda v: np.asarray(v) * 2 + ME * 0, jax.ShapeDtypeStruct(a.shape, a.dtype), a)
        return lax.psum(b, "x")

    run = jax.jit(jax.shard_map(body, mesh=mesh, in_specs=P("x"), out_specs=P(), check_vma=False))
    out = run(put(mesh, np.arange(16, dtype=np.float32), "x"))
    assert keep("callback", out)[0] == 240
    jax.effects_barrier()
    mine = [i for i, device in enumerate(mesh.devices.flat) if device.process_index == ME]
    assert sorted(calls) == mine, (calls, mine)
    seen = []
    io_callback(lambda v: seen.append(int(v)), None, jnp.int32(7), ordered=True)
    jax.effects_barrier()
    assert seen == [7]


def memory():
    before = jax.local_devices()[0].memory_stats()["bytes_in_use"]
    array = put(mesh_of(16), numbers(16, 1024), "x")
    array.block_until_ready()
    assert jax.local_devices()[0].memory_stats()["bytes_in_use"] - before == 4096
    del array


for case in (identity, automatic, collectives, pmap, arrays, transfers, utilities, replicas, callbacks, memory):
    case()
print("digest", DIGEST.hexdigest(), flush=True)
