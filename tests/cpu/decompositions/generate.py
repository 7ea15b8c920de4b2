# SPDX-License-Identifier: Apache-2.0
"""Regenerates tests/cpu/decompositions/*.hlo with JAX 0.10.2: programs as JAX lowers them for CPUs, with LAPACK's custom
calls. Each one decomposes its argument and returns the largest error of the identities that must hold."""
import os
import pathlib

os.environ["JAX_PLATFORMS"] = "cpu"
import jax
import jax.numpy as jnp
import jax.scipy.linalg
from jax import lax
from jax._src.lax.linalg import geqrf, ormqr
from jaxlib._hlo import HloPrintOptions

jax.config.update("jax_enable_x64", True)
linalg = lax.linalg


def adjoint(x):
    return jnp.conj(jnp.swapaxes(x, -1, -2))


def size(x):
    return jnp.max(jnp.abs(x))


def identity(x):
    return jnp.eye(x.shape[-1], dtype=x.dtype)


def unitary(q):
    return size(adjoint(q) @ q - identity(q))


def hermitian(a):
    return a + adjoint(a)


def tridiagonal_part(a):
    n = jnp.arange(a.shape[-1])
    return jnp.where(jnp.abs(n[:, None] - n) <= 1, a, 0) + 3 * identity(a)


def potrf(a):
    h = a @ adjoint(a) + identity(a)
    l = jnp.linalg.cholesky(h)
    return size(l @ adjoint(l) - h) + size(jnp.triu(l, 1))


def trsm(a):
    t = 0.1 * a + 2 * identity(a)
    b = a + 1
    left = linalg.triangular_solve(t, b, left_side=True, lower=True)
    right = linalg.triangular_solve(t, b, lower=False, transpose_a=True, conjugate_a=True)
    unit = linalg.triangular_solve(0.1 * a, b, left_side=True, transpose_a=True, unit_diagonal=True)
    errors = size(jnp.tril(t) @ left - b) + size(right @ adjoint(jnp.triu(t)) - b)
    return errors + size(jnp.swapaxes(jnp.triu(0.1 * a, 1) + identity(a), -1, -2) @ unit - b)


def getrf(a):
    f, pivots, order = linalg.lu(a)
    m, n = a.shape[-2:]
    l = jnp.tril(f[..., : min(m, n)], -1) + jnp.eye(m, min(m, n), dtype=a.dtype)
    return size(l @ jnp.triu(f[..., : min(m, n), :]) - jnp.take_along_axis(a, order[..., None], -2))


def geqrf_orgqr(a):
    q, r = jnp.linalg.qr(a, mode="complete")
    return size(q @ r - a) + unitary(q)


def geqp3(a):
    q, r, order = linalg.qr(a, pivoting=True, full_matrices=False)
    d = jnp.abs(jnp.diagonal(r, axis1=-1, axis2=-2))
    rising = size(jnp.maximum(d[..., 1:] - d[..., :-1] * 1.0001, 0))
    return size(q @ r - jnp.take_along_axis(a, order[..., None, :], -1)) + unitary(q) + rising


def apply_q(a):
    f, taus = geqrf(a)
    q, c = linalg.householder_product(f, taus), a + 1
    errors = size(ormqr(f, taus, c) - q @ c) + size(ormqr(f, taus, c, transpose=True) - adjoint(q) @ c)
    return errors + size(ormqr(f, taus, c, left=False) - c @ q)


def syevd(a):
    h = hermitian(a)
    v, w = linalg.eigh(h)
    upper, _ = linalg.eigh(jnp.triu(h), lower=False, symmetrize_input=False)
    return size(h @ v - v * w[..., None, :]) + unitary(v) + size(jnp.abs(upper) - jnp.abs(v))


def gesdd(a):
    u, s, vh = linalg.svd(a, full_matrices=True)
    k = s.shape[-1]
    only = linalg.svd(a, compute_uv=False)
    product = (u[..., :k] * s[..., None, :].astype(a.dtype)) @ vh[..., :k, :]
    return size(product - a) + unitary(u) + unitary(vh) + size(only - s)


def gesvd(a):
    u, s, vh = linalg.svd(a, full_matrices=False, algorithm=linalg.SvdAlgorithm.QR)
    return size((u * s[..., None, :].astype(a.dtype)) @ vh - a) + unitary(u) + unitary(adjoint(vh))


def geev(a):
    w, left, right = linalg.eig(a)
    c = a.astype(right.dtype)
    errors = size(c @ right - right * w[..., None, :]) + size(adjoint(left) @ c - w[..., :, None] * adjoint(left))
    return errors + size(jnp.linalg.norm(right, axis=-2) - 1)


def gees(a):
    t, z = linalg.schur(a)
    below = jnp.tril(t, -1 if jnp.iscomplexobj(a) else -2)
    return size(z @ t @ adjoint(z) - a) + unitary(z) + size(below)


def gehrd(a):
    h, q = jax.scipy.linalg.hessenberg(a, calc_q=True)
    return size(q @ h @ adjoint(q) - a) + unitary(q)


def sytrd(a):
    errors = 0
    for lower in (True, False):
        _, d, e, _ = linalg.tridiagonal(hermitian(a), lower=lower)
        t = jax.vmap(lambda d, e: jnp.diag(d) + jnp.diag(e, 1) + jnp.diag(e, -1))(d, e)
        errors += size(jnp.linalg.eigvalsh(t) - jnp.linalg.eigvalsh(hermitian(a)))
    return errors


def gtsv(a):
    t = tridiagonal_part(a)
    lower, upper = jnp.diagonal(t, -1, -2, -1), jnp.diagonal(t, 1, -2, -1)
    one = ((0, 0), (1, 0)), ((0, 0), (0, 1))
    x = linalg.tridiagonal_solve(jnp.pad(lower, one[0]), jnp.diagonal(t, 0, -2, -1), jnp.pad(upper, one[1]), a)
    return size(t @ x - a)


square = [potrf, trsm, apply_q, syevd, geev, gees, gehrd, sytrd, gtsv]
rectangular = [getrf, geqrf_orgqr, geqp3, gesdd, gesvd]
options = HloPrintOptions.short_parsable()
options.print_metadata = False
options.print_large_constants = True


def write(function, shape, dtype):
    lowered = jax.jit(function).lower(jax.ShapeDtypeStruct(shape, dtype))
    text = lowered.compiler_ir("hlo").get_hlo_module().to_string(options)
    name = f"{function.__name__}_{dtype}_{shape[-2]}x{shape[-1]}.hlo"
    pathlib.Path(__file__).with_name(name).write_text(text + "\n")


for dtype in ("float32", "complex128"):
    for function in square:
        write(function, (2, 6, 6), dtype)
    for function in rectangular:
        write(function, (2, 7, 4) if dtype == "float32" else (2, 4, 7), dtype)
