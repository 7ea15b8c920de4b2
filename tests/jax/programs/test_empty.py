# SPDX-License-Identifier: Apache-2.0
"""Linear algebra and orders of empty batches and empty matrices: as on XLA's CPU backend."""
import jax
import jax.numpy as jnp
import numpy as np
import pytest

FUNCTIONS = {
    "cholesky": jnp.linalg.cholesky,
    "svd": lambda a: jnp.linalg.svd(a, full_matrices=False),
    "svd_full": lambda a: jnp.linalg.svd(a, full_matrices=True),
    "pinv": jnp.linalg.pinv,
    "qr": jnp.linalg.qr,
    "eigh": jnp.linalg.eigh,
    "inv": jnp.linalg.inv,
    "det": jnp.linalg.det,
    "solve": lambda a: jnp.linalg.solve(a, a),
    "lu": jax.scipy.linalg.lu,
    "expm": jax.scipy.linalg.expm,
    "triangular": lambda a: jax.scipy.linalg.solve_triangular(a, a, lower=True),
    "rfft": jnp.fft.rfft,
    "fft2": jnp.fft.fft2,
    "sort": lambda a: jnp.sort(a, axis=-1),
    "top_k": lambda a: jax.lax.top_k(a, min(a.shape[-1], 1)),
    "cumsum": lambda a: jnp.cumsum(a, axis=-1),
    "einsum": lambda a: jnp.einsum("...ij,...kj->...ik", a, a),
}


def total(function):
    return lambda a: sum(jnp.sum(jnp.real(x).astype(jnp.float32)) for x in jax.tree.leaves(function(a)))


def run(platform, function, array):
    device = jax.devices(platform)[0]
    try:
        with jax.default_device(device):
            return [np.asarray(x) for x in jax.tree.leaves(jax.jit(function)(jax.device_put(array, device)))]
    except Exception as error:  # what XLA refuses says nothing
        return type(error)


@pytest.mark.parametrize("shape", [(0, 3, 3), (3, 0, 0), (0, 0), (2, 0, 3), (2, 3, 0), (0, 2, 3)])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_empty(name, shape):
    try:
        jax.devices("cpu")
    except RuntimeError:
        pytest.skip("no CPU backend to compare with")
    function = FUNCTIONS[name]
    for what in (function, jax.grad(total(function))):
        want = run("cpu", what, np.ones(shape, np.float32))
        if isinstance(want, type):
            continue
        have = run("tpu", what, np.ones(shape, np.float32))
        assert not isinstance(have, type), have
        for x, y in zip(have, want, strict=True):
            assert x.shape == y.shape and x.dtype == y.dtype
            np.testing.assert_allclose(x, y)
