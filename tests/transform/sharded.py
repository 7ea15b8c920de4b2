# SPDX-License-Identifier: Apache-2.0
"""Functions of several devices for compare_with_jax.py: collectives in jax.shard_map, and annotated programs."""
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec as P

from functions import attention, random

# "hlo": also as HLO, in which Shardy's shardings are text.
REVERSE, BOTH = ("reverse", "hlo"), ("reverse", "forward", "hlo")


def over(mesh, inputs, outputs, **options):
    return functools.partial(jax.shard_map, mesh=mesh, in_specs=inputs, out_specs=outputs, **options)


def collectives():
    ring = jax.make_mesh((8,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
    x, w = random((16, 4), 1), random((4, 8), 2)
    turn = [(i, (i + 1) % 8) for i in range(8)]
    half = [(i, i + 1) for i in range(7)]
    rows = over(ring, (P("x"),), P("x"))
    whole = over(ring, (P("x"),), P())
    for name, run, function in [
            ("psum", whole, lambda a: lax.psum(jnp.sin(a), "x")),
            ("psum_used_locally", rows, lambda a: a * lax.psum(jnp.sin(a), "x")),
            ("pmean", whole, lambda a: lax.pmean(a * a, "x")),
            ("psum_twice", whole, lambda a: lax.psum(jnp.sin(lax.psum(a * a, "x")) * a, "x")),
            ("psum_pair", whole, lambda a: sum(lax.psum((a, a * a), "x"))),
            ("all_gather", rows, lambda a: a * jnp.sum(jnp.sin(lax.all_gather(a, "x")))),
            ("all_gather_tiled", rows, lambda a: a @ jnp.cos(lax.all_gather(a, "x", axis=0, tiled=True)).T @ np.ones((16, 4))),
            ("psum_scatter", rows, lambda a: lax.psum_scatter(jnp.tile(a, (8, 1)), "x", tiled=True) * a),
            ("psum_scatter_untiled", rows, lambda a: lax.psum_scatter(jnp.broadcast_to(a[None], (8, 2, 4)), "x") * a),
            ("ppermute", rows, lambda a: a * lax.ppermute(jnp.sin(a), "x", turn)),
            ("ppermute_open", rows, lambda a: a * lax.ppermute(a * a, "x", half)),
            ("all_to_all", over(ring, (P("x"),), P("x")), lambda a: a * lax.all_to_all(jnp.sin(jnp.tile(a, (4, 1))), "x", 0, 0, tiled=True)[:2]),
            ("all_to_all_axes", over(ring, (P(None, "x"),), P("x")), lambda a: lax.all_to_all(jnp.sin(a), "x", 0, 1, tiled=True)),
            ("axis_index", rows, lambda a: a * (lax.axis_index("x") + 1.0)),
            ("pmax_constant", rows, lambda a: a * lax.pmax(lax.axis_index("x"), "x"))]:
        argument = random((16, 8), 3) if name == "all_to_all_axes" else x
        yield name, run(function), [argument], BOTH if name.startswith(("ppermute", "all_")) else REVERSE
    yield "replicated_weights", over(ring, (P("x"), P()), P("x"))(lambda a, b: jnp.tanh(a @ b)), [x, w], REVERSE
    yield "data_parallel", over(ring, (P("x"), P()), P())(lambda a, b: lax.pmean(jnp.mean(jnp.tanh(a @ b)**2), "x")), [x, w], REVERSE
    yield "tensor_parallel", over(ring, (P(), P(None, "x"), P("x")), P())(lambda a, b, c: lax.psum(jnp.tanh(a @ b) @ c, "x")), [x, w, random((8, 4), 4)], REVERSE
    yield "scan_of_permutes", over(ring, (P("x"),), P("x"))(lambda a: lax.scan(lambda c, _: (lax.ppermute(jnp.sin(c), "x", turn), c), a, None, length=4)[1].sum(0)), [x], REVERSE
    yield "unchecked", over(ring, (P("x"), P()), P(), check_vma=False)(lambda a, b: lax.psum(jnp.tanh(a @ b), "x")), [x, w], REVERSE
    grid = jax.make_mesh((4, 2), ("x", "y"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    yield "two_axes", over(grid, (P("x", "y"), P("y")), P("x"))(lambda a, b: lax.psum(jnp.sin(a) @ b, "y")), [x, w], REVERSE
    yield "two_axes_all", over(grid, (P("x", "y"),), P())(lambda a: lax.psum(jnp.sum(a * a), ("x", "y"))), [x], REVERSE
    yield "mixed_axes", over(grid, (P("x"), P()), P(), axis_names={"x"})(lambda a, b: lax.psum(jnp.tanh(a @ b).sum(), "x")), [x, w], REVERSE


def annotated():
    grid = jax.make_mesh((4, 2), ("x", "y"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    def hint(a, *spec):
        return lax.with_sharding_constraint(a, NamedSharding(grid, P(*spec)))
    x, w, v = random((16, 8), 1), random((8, 12), 2), random((12, 8), 3)
    yield "constraint", lambda a, b: hint(jnp.tanh(hint(a, "x") @ hint(b, None, "y")), "x", "y"), [x, w], REVERSE
    yield "mlp", lambda a, b, c: hint(hint(jax.nn.gelu(hint(a, "x") @ hint(b, None, "y")), "x", "y") @ hint(c, "y"), "x"), [x, w, v], REVERSE
    yield "fsdp", lambda a, b, c: hint(jnp.tanh(hint(a, ("x", "y")) @ hint(b, ("x", "y"))), ("x", "y")) @ hint(c, ("x", "y")), [x, w[:, :8], w[:, :8].copy()], REVERSE
    q = random((4, 8, 2, 4), 4)
    yield "attention", lambda a, b, c: attention(hint(a, "x", None, "y"), hint(b, "x", None, "y"), hint(c, "x", None, "y")), [q, q * .5, q + 1], REVERSE
    yield "scan", lambda a, b: lax.scan(lambda h, p: (hint(jnp.tanh(h @ p), "x"), None), hint(a, "x"), hint(b, None, "y"))[0], [x, random((3, 8, 8), 5)], REVERSE


def all_functions():
    for group in (collectives, annotated):
        for name, *rest in group():
            yield (f"{group.__name__}.{name}", *rest)
