#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The loss that JAX's tutorial "Distributed arrays and automatic parallelization" prints on a TPU, 23.469475, on this machine.

usage: tutorial_loss.py [--meshlo PATH] [--folder F]     needs JAX, 1.2 GB of disk and some 2 GB of memory; 2.2 TFLOP

Makes the network and the batch of the tutorial at full size (layers 784-8192-8192-8192-10, batch 8192; random numbers as of
its time, jax_threefry_partitionable=False), writes them with the HLO of the loss, and runs that with --numerics tpu.
Exits 1 unless the loss is within 1e-4 of what the TPU printed; f32 products give 23.478922, ten times as far off.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

os.environ["JAX_PLATFORMS"] = "cpu"
import jax
import jax.numpy as jnp
import numpy as np

PRINTED = 23.469475
SIZES, BATCH = [784, 8192, 8192, 8192, 10], 8192


def layer(key, inputs, outputs):
    first, second = jax.random.split(key)
    return jax.random.normal(first, (inputs, outputs)) / jnp.sqrt(inputs), jax.random.normal(second, (outputs,))


def loss(params, inputs, targets):
    for weights, bias in params:
        outputs = jnp.dot(inputs, weights) + bias
        inputs = jnp.maximum(outputs, 0)
    return jnp.mean(jnp.sum((outputs - targets)**2, axis=-1))


def arguments():
    key, *keys = jax.random.split(jax.random.key(0), len(SIZES))
    params = [layer(*each) for each in zip(keys, SIZES[:-1], SIZES[1:])]
    _, first, second = jax.random.split(key, 3)
    return params, jax.random.normal(first, (BATCH, SIZES[0])), jax.random.normal(second, (BATCH, SIZES[-1]))


def main():
    root = pathlib.Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--meshlo", default=str(root / "build/release/bin/meshlo"))
    parser.add_argument("--folder", help="where the inputs go (default: a temporary one)")
    options = parser.parse_args()
    jax.config.update("jax_threefry_partitionable", False)
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(options.folder or temporary)
        values = arguments()
        (folder / "loss.hlo").write_text(jax.jit(loss).lower(*values).compiler_ir("hlo").as_hlo_text())
        command = [options.meshlo, "run", str(folder / "loss.hlo"), "--on", "cpu", "--numerics", "tpu", "--print"]
        for i, array in enumerate(jax.tree.leaves(values)):
            np.save(folder / f"{i}.npy", np.asarray(array))
            command += ["--input", f"{i}={folder}/{i}.npy"]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = float(re.search(r"f32\[\] ([\d.]+)", text).group(1))
    print(f"printed by a TPU: {PRINTED}, here: {found}, relative difference {abs(found - PRINTED) / PRINTED:.1e}")
    return 0 if abs(found - PRINTED) <= 1e-4 * PRINTED else 1


if __name__ == "__main__":
    sys.exit(main())
