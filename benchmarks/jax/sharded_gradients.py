#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Bytes that gradients of sharded programs send: `meshlo grad` of the loss beside jax.value_and_grad of it.

    python benchmarks/jax/sharded_gradients.py MESHLO [CASE…]

Both are partitioned by MESHLO for a mesh of x=4 and y=2, with the gradients sharded as the arguments. Bytes are those that
a device sends. Numbers are compared with those of JAX without shardings. Ends with 1 if any gradient sends more than
JAX's, or has other numbers.
"""
import json
import os
import subprocess
import sys
import tempfile

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec as P

from gradients import below, block, convolutions, drawn, experts, layers, lstm, transformer

MESH = jax.make_mesh((4, 2), ("x", "y"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
TENSOR = {"q": P(None, "y"), "k": P(None, "y"), "v": P(None, "y"), "o": P("y"), "up": P(None, "y"), "down": P("y"), "scale_1": P(), "scale_2": P()}
BOTH = {name: P(*("x" if axis is None else axis for axis in (*spec, None)[:2])) if len(spec) else spec for name, spec in TENSOR.items()}
ROWS = {name: P("x") if len(spec) else spec for name, spec in TENSOR.items()}
EXPERTS = [drawn(64, 16), drawn(16, 8), drawn(8, 16, 32), drawn(8, 32, 16)]


def constrained(*axes):
    return lambda x, p: lax.with_sharding_constraint(block(x, p), NamedSharding(MESH, P(*axes)))


def decoder(specs, data, embedding=P(), scan=False, layer=block, layers=2):
    loss, active, others = transformer(layers, 32, 16, 8, scan, layer)
    stacked = {name: P(None, *spec) if scan else [spec] * layers for name, spec in specs.items()}
    return loss, active, others, [embedding, stacked], [data]


def attention(q, k, v):
    return jnp.mean(jax.nn.dot_product_attention(q, k, v) ** 2)


def recurrent(w, u, x):
    def step(h, t):
        h = jnp.tanh(h @ w + t @ u)
        return h, h
    return jnp.mean(lax.scan(step, jnp.zeros((8, 32)), x)[1] ** 2)


def convolved(x, kernel, stride, dilation, numbers):
    y = lax.conv_general_dilated(x, kernel, stride, "SAME", rhs_dilation=dilation, dimension_numbers=numbers)
    return jnp.mean(jnp.tanh(y) ** 2)


def next_words(table, words):
    return jnp.mean(jax.nn.logsumexp(jnp.tanh(table[words]) @ table.T, -1))


def label_loss(w, x, labels):
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(x @ w), labels[:, None], 1))


def cases():
    """(name, (loss, the arguments to differentiate by, the others, and the shardings of both))"""
    yield "data", decoder({name: P() for name in TENSOR}, P(("x", "y")))
    yield "fsdp", decoder(ROWS, P("x"))
    yield "tensor", decoder(TENSOR, P("x"))
    yield "fsdp_tensor", decoder(BOTH, P("x"))
    yield "fsdp_tensor_vocabulary", decoder(BOTH, P("x"), P("y", "x"), layer=constrained("x"))
    yield "sequence", decoder(TENSOR, P("x"), layer=constrained("x", "y"))
    yield "fsdp_sequence", decoder(BOTH, P("x"), layer=constrained("x", "y"))
    yield "scan_fsdp", decoder(ROWS, P("x"), scan=True)
    yield "scan_fsdp_tensor", decoder(BOTH, P("x"), scan=True, layer=constrained("x"))
    yield "scan_sequence_remat", decoder(TENSOR, P("x"), scan=True, layer=jax.checkpoint(constrained("x", "y")))
    weights = [drawn(64, 64) for _ in range(3)]
    yield "layers_fsdp", (layers, [weights], [drawn(32, 64)], [[P("x")] * 3], [P("x")])
    yield "layers_cut_twice", (layers, [weights], [drawn(32, 64)], [[P("x", "y")] * 3], [P("x", "y")])
    kernels = [drawn(3, 3, 4, 16), drawn(3, 3, 16, 16)]
    network = [kernels, [np.ones(16, np.float32)] * 2, drawn(256, 8)]
    for name, image, kernel in ("batch", P(("x", "y")), P()), ("space", P(None, "x", "y"), P()), ("channels", P("x"), P(None, None, None, "y")):
        yield "convolutions_" + name, (convolutions, network, [drawn(8, 16, 16, 4), below(8, 8)], [[kernel] * 2, [P()] * 2, P()], [image, P()])
    yield "experts", (experts, EXPERTS, [], [P("x"), P(), P("x"), P("x")], [])
    yield "experts_tensor", (experts, EXPERTS, [], [P("x"), P(), P("x", None, "y"), P("x", "y")], [])
    yield "lstm_tensor", (lstm, [drawn(128, 256)], [drawn(12, 32, 64)], [P(None, "y")], [P(None, "x")])
    yield "recurrent", (recurrent, [drawn(32, 32), drawn(16, 32)], [drawn(10, 8, 16)], [P(None, "y")] * 2, [P(None, "x")])
    yield "heads", (attention, [drawn(8, 16, 4, 8)] * 3, [], [P("x", None, "y")] * 3, [])
    yield "grouped_queries_sequence", (attention, [drawn(4, 32, heads, 8) for heads in (4, 2, 2)], [], [P("y", "x")] * 3, [])
    yield "dilated_sequence", (lambda x, k: convolved(x, k, (1,), (2,), ("NWC", "WIO", "NWC")), [drawn(4, 64, 8), drawn(3, 8, 8)], [], [P("y", "x"), P()], [])
    yield "strided_space", (lambda x, k: convolved(x, k, (2, 2), None, ("NHWC", "HWIO", "NHWC")), [drawn(4, 16, 16, 4), drawn(3, 3, 4, 8)], [], [P(None, "x", "y"), P()], [])
    yield "embedding", (next_words, [drawn(64, 32)], [below(64, 8, 16)], [P("y", "x")], [P("x")])
    yield "labels", (label_loss, [drawn(32, 64), drawn(16, 32)], [below(64, 16)], [P(None, "y"), P("x")], [P("x")])
    yield "segments", (lambda x, i: jnp.mean(jax.ops.segment_sum(jnp.sin(x), i, 8) ** 2), [drawn(32, 64)], [below(8, 32)], [P("x")], [P("x")])


def sent(meshlo, path):
    done = subprocess.run([meshlo, "partition", path, "--json"], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)["total_bytes_per_device"]


def measure(meshlo, folder, loss, active, others, active_specs, other_specs):
    """The bytes that our gradient and JAX's send, and the greatest difference of an element, over its array's greatest."""
    forward, ours, theirs, inputs, results = (os.path.join(folder, name) for name in ("f.mlir", "ours.hlo", "theirs.mlir", "in.npz", "out"))
    is_spec = {"is_leaf": lambda x: isinstance(x, P)}
    placed, others_placed = (jax.tree.map(lambda spec: NamedSharding(MESH, spec), specs, **is_spec) for specs in (active_specs, other_specs))
    shardings = {"in_shardings": (*placed, *others_placed)}
    derivative = jax.value_and_grad(loss, argnums=tuple(range(len(active))))
    for path, function in (forward, jax.jit(loss, **shardings)), (theirs, jax.jit(derivative, out_shardings=(None, tuple(placed)), **shardings)):
        with open(path, "w", encoding="utf-8") as file:
            file.write(function.lower(*active, *others).as_text())
    wrt = ",".join(str(i) for i in range(len(jax.tree.leaves(active))))
    np.savez(inputs, *jax.tree.leaves((active, others)))
    subprocess.run([meshlo, "grad", forward, "--wrt", wrt, "-o", ours], check=True)
    subprocess.run([meshlo, "run", ours, "--input", inputs, "--output", results], check=True, capture_output=True)
    error = 0
    for i, wanted in enumerate(jax.tree.leaves(derivative(*active, *others))):
        error = max(error, np.abs(np.load(os.path.join(results, f"{i}.npy")) - wanted).max() / (np.abs(wanted).max() + 1e-3))
    return sent(meshlo, ours), sent(meshlo, theirs), error


def main():
    meshlo, failed = os.path.abspath(sys.argv[1]), False
    print("| case | ours | JAX's | difference of numbers |\n|---|---|---|---|")
    for name, case in cases():
        if len(sys.argv) > 2 and name not in sys.argv[2:]:
            continue
        with tempfile.TemporaryDirectory() as folder:
            ours, theirs, error = measure(meshlo, folder, *case)
            failed |= ours > theirs or not error < 2e-5
            print(f"| {name} | {ours} | {theirs} | {error:.1e} |", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
