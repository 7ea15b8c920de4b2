# SPDX-License-Identifier: Apache-2.0
"""Regenerates mlp_gradient_8192.hlo and mlp_gradient_512.hlo with JAX 0.10.2: `python3 examples/mlp_gradient.py`.

The network is that of JAX's tutorial "Distributed arrays and automatic parallelization": layers 784-N-N-N-10, a batch of N,
batch parallel over 4 and tensor parallel over 2 devices. The texts are what XLA receives (its "before_optimizations"
dump), with the shardings of the arguments as JAX annotates them and the source lines of this file.
"""
import glob
import os
import pathlib
import tempfile

FOLDER = pathlib.Path(__file__).resolve().parent
DUMP = tempfile.mkdtemp()
os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count=8 --xla_dump_to={DUMP} --xla_dump_hlo_as_text"

import jax
import jax.numpy as jnp
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

jax.config.update("jax_hlo_source_file_canonicalization_regex", f"{FOLDER.parent}/")


def predict(params, inputs):
    for W, b in params:
        outputs = jnp.dot(inputs, W) + b
        inputs = jnp.maximum(outputs, 0)
    return outputs


def loss(params, batch):
    inputs, targets = batch
    predictions = predict(params, inputs)
    return jnp.mean(jnp.sum((predictions - targets)**2, axis=-1))


def gradient_step(params, batch):
    return jax.value_and_grad(loss)(params, batch)


def arguments(size):
    """Shapes and shardings of the parameters and the batch, as the tutorial places them."""
    mesh = jax.make_mesh((4, 2), ("batch", "model"), axis_types=(AxisType.Auto,) * 2)

    def array(shape, *spec):
        return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=NamedSharding(mesh, P(*spec)))

    params = ((array((784, size)), array((size,))),
              (array((size, size), None, "model"), array((size,), "model")),
              (array((size, size), "model", None), array((size,))),
              (array((size, 10)), array((10,))))
    batch = (array((size, 784), "batch", None), array((size, 10), "batch", None))
    return params, batch


for size in (8192, 512):
    jax.jit(gradient_step).lower(*arguments(size)).compile()
    (dump,) = glob.glob(f"{DUMP}/*jit_gradient_step.before_optimizations.txt")
    (FOLDER / f"mlp_gradient_{size}.hlo").write_text(pathlib.Path(dump).read_text().rstrip("\n") + "\n")
    for name in glob.glob(f"{DUMP}/*jit_gradient_step*"):
        if os.path.isfile(name):
            os.unlink(name)
